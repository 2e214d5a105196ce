"""Does a layer work at the distance where its energy sits? Models and their untrained twins, octave by octave.

python examples/windows_agreement.py base ega-1 --text book.txt --context 256 --documents 40 --figures agreement

Without arguments: the bundled model `base`, its twin, and the texts in the package, few and short.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import eddyscope as es
from eddyscope.cli.model import resolve_model
from eddyscope.report.figures import save_figure
from eddyscope.report.windows import draw_agreement


def main(given: argparse.Namespace) -> None:
    """Print how energy and loss owed rank alike."""
    for name in given.models or ["base"]:
        loaded = resolve_model(name, gguf_file=given.gguf_file)
        documents = es.read_documents(
            given.text, loaded.tokenizer, context=given.context, count=given.documents, seed=0
        )
        label = Path(name).name
        _one(label, loaded.model, documents, given.figures)
        if given.twin or not given.models:
            _one(f"{label}-untrained", es.models.untrained_twin(loaded.model, seed=0), documents, given.figures)


def _one(label: str, model: Any, documents: es.Documents, figures: str | None) -> None:
    found = es.windows.owed_to_octaves(model, documents)
    print(f"\n{label}: {len(documents)} documents of {documents.context} tokens")
    for layer, rows in found.correlations.groupby("layer", sort=False):
        ranks = {str(row["energy"]): row for _, row in rows.iterrows()}
        shown = [f"{e} {r['correlation']:+.2f} ({r['low']:+.2f} to {r['high']:+.2f})" for e, r in ranks.items()]
        own = found.cells if layer == "all" else found.cells[found.cells["layer"].astype(str) == layer]
        most = own.loc[own["rise"].idxmax()]
        where = f"{most['first']}-{most['last']}" + (f" of layer {most['layer']}" if layer == "all" else "")
        print(f"layer {layer:>4}: {'   '.join(shown)}   most owed {most['rise']:.4f} at distances {where}")
    if figures is not None:
        place = Path(figures)
        place.mkdir(parents=True, exist_ok=True)
        save_figure(draw_agreement(found, label), place / f"agreement-{label}.png")
        found.cells.to_csv(place / f"octaves-{label}.csv", index=False)
        found.correlations.to_csv(place / f"agreement-{label}.csv", index=False)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="names or folders of models")
    parser.add_argument("--text", default=str(Path(es.__file__).parent))
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--gguf-file")
    parser.add_argument("--twin", action="store_true", help="the untrained twin of each too")
    parser.add_argument("--figures", metavar="DIR", help="write figures and tables there")
    return parser.parse_args()


if __name__ == "__main__":
    main(_arguments())
