"""Does a layer work at the distance where its energy sits? A model and its untrained twin, octave by octave.

python examples/windows_agreement.py MODEL TEXT [CONTEXT] [DOCUMENTS] [GGUF] [FIGURES]

Without arguments: the bundled model `base` and the texts in the package, few and short.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import eddyscope as es
from eddyscope.cli.model import resolve_model
from eddyscope.report.figures import save_figure
from eddyscope.report.windows import draw_agreement


def main(
    name: str = "base",
    text: str = str(Path(es.__file__).parent),
    context: str = "64",
    count: str = "16",
    gguf_file: str = "",
    figures: str = "",
) -> None:
    """Print how energy and loss owed rank alike, in the model and in its twin."""
    loaded = resolve_model(name, gguf_file=gguf_file or None)
    documents = es.read_documents(text, loaded.tokenizer, context=int(context), count=int(count), seed=0)
    print(f"{name}: {len(documents)} documents of {context} tokens")
    twin = es.models.untrained_twin(loaded.model, seed=0)
    for label, model in ((Path(name).name, loaded.model), (f"{Path(name).name}-untrained", twin)):
        found = es.windows.owed_to_octaves(model, documents)
        _show(label, found)
        if figures:
            Path(figures).mkdir(parents=True, exist_ok=True)
            save_figure(draw_agreement(found, label), Path(figures) / f"agreement-{label}.png")
            found.cells.to_csv(Path(figures) / f"agreement-{label}.csv", index=False)
            found.correlations.to_csv(Path(figures) / f"agreement-{label}-correlations.csv", index=False)


def _show(label: str, found: Any) -> None:
    table = found.correlations
    print(f"\n{label}: most that an octave of a layer is worth {found.cells['rise'].max():.4f} {found.unit}")
    for layer, rows in table.groupby("layer", sort=False):
        ranks = {str(row["energy"]): row for _, row in rows.iterrows()}
        shown = [f"{e} {r['correlation']:+.2f} ({r['low']:+.2f} to {r['high']:+.2f})" for e, r in ranks.items()]
        owed = found.cells[found.cells["layer"].astype(str) == layer]["rise"]
        most = "" if layer == "all" else f"   most owed {owed.max():.4f}"
        print(f"layer {layer:>4}: {'   '.join(shown)}{most}")


if __name__ == "__main__":
    main(*sys.argv[1:])
