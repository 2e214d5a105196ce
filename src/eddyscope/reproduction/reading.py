"""What the models read: TinyShakespeare where it is, else the text of the demo."""

from __future__ import annotations

import tempfile
from pathlib import Path

from eddyscope.documents import Documents, read_documents
from eddyscope.errors import InputError
from eddyscope.reproduction.members import Member
from eddyscope.tokenizers import CharTokenizer


def read(member: Member, text: str | Path | None, count: int, seed: int) -> tuple[Documents, str]:
    """Documents for all models, and what they are in words.

    Parameters
    ----------
    member : Member
        Its vocabulary and context are those of all.
    text : str or Path, optional
        A text file or folder; by default the validation split of TinyShakespeare, if it can be found without asking the
        network, else the text of ``eddyscope demo``.
    count, seed : int
        Documents, and the seed of their choice.
    """
    tokenizer = CharTokenizer.of_model(member.vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        paths, description = _source(text, Path(folder))
        documents = read_documents(paths, tokenizer, context=member.config.context, count=count, seed=seed)
    replaced = documents.identity["replaced"]
    if replaced:
        description += f"; {replaced:,} characters are not in the vocabulary and were read as spaces"
    return documents, description


def _source(text: str | Path | None, folder: Path) -> tuple[list[str | Path], str]:
    from eddyscope.demo import demo_text
    from eddyscope.models.corpus import find_corpus

    if text is not None:
        return [text], f"the text '{Path(text).name}'"
    try:
        corpus = find_corpus(download=False)
    except InputError:
        found = demo_text(folder)
        return list(found.paths), found.description
    path = folder / "tinyshakespeare-validation.txt"
    path.write_text(corpus.validation, encoding="utf-8", newline="")
    return [path], "the validation split of TinyShakespeare, which training did not see"
