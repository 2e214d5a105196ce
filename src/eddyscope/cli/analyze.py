"""``eddyscope analyze``: from attention on disk to a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eddyscope.cli.shared import Output, analysis_options, layer_list, output_options, takes

ARRAYS = "Arrays"


@takes(analysis=analysis_options, output=output_options)
def analyze_command(
    invocation: typer.Context,
    arrays: Annotated[
        Path,
        typer.Argument(
            metavar="ARRAYS",
            help="Attention after the softmax: .npy, .npz, .safetensors or Zarr. One array (documents, layers, L, L) "
            "or (documents, layers, heads, L, L), or one per layer (documents, L, L) or (documents, heads, L, L).",
        ),
    ],
    two_sided: Annotated[
        bool, typer.Option("--two-sided", help="Queries see later keys too.", rich_help_panel=ARRAYS)
    ] = False,
    unnormalised: Annotated[
        bool,
        typer.Option("--unnormalised", help="Take rows that do not sum to 1, such as scores.", rich_help_panel=ARRAYS),
    ] = False,
    drop_bad: Annotated[
        bool, typer.Option("--drop-bad", help="Leave out documents with NaN or Inf.", rich_help_panel=ARRAYS)
    ] = False,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers to analyse, by position or name, such as 0,3,5.",
            metavar="LIST",
            show_default="all",
            rich_help_panel=ARRAYS,
        ),
    ] = None,
    *,
    analysis: dict[str, Any],
    output: Output,
) -> None:
    """Analyse attention that is on disk already; no model and no torch are needed.

    Writes the same folder as eddyscope run.

    Example: eddyscope analyze attention.npz --out study
    """
    from eddyscope.arrays import identify, read_arrays
    from eddyscope.cli.progress import Display, layer_progress
    from eddyscope.cli.results import print_results, write_results
    from eddyscope.ensemble import AttentionEnsemble
    from eddyscope.runs import OutputFolder
    from eddyscope.study.analyze import analyze

    display = Display(output.quiet)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with display.stage("reading", f"Reading {arrays}"):
            ensemble = AttentionEnsemble.from_arrays(
                read_arrays(arrays),
                causal=not two_sided,
                max_lag=analysis["max_lag"],
                unnormalised=unnormalised,
                drop_bad=drop_bad,
                provenance={"file": identify(arrays)},
            )
            chosen = layer_list(layers)
            if chosen is not None:
                ensemble = ensemble.select_layers(chosen)
        with display.stage("analysing", f"Analysing {len(ensemble.layers)} layers") as advance:
            study = analyze(ensemble, **analysis, progress=layer_progress(advance))
        study = write_results(folder, study, output, display, invocation)
    print_results(study, output)
