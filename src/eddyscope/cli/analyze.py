"""``eddyscope analyze``: from attention on disk to a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.cluster import Sharing, shared, sharing_options
from eddyscope.cli.shared import Output, analysis_options, layer_list, output_options, takes
from eddyscope.errors import UsageError
from eddyscope.study.options import PODS, Options, make_options

if TYPE_CHECKING:
    from eddyscope.ensemble import AttentionEnsemble

ARRAYS = "Arrays"
LARGE = "Large ensembles"


@takes(analysis=analysis_options, sharing=sharing_options, output=output_options)
def analyze_command(
    invocation: typer.Context,
    arrays: Annotated[
        Path,
        typer.Argument(
            metavar="ARRAYS",
            help="What eddyscope capture wrote (fields.zarr), or attention after the softmax: .npy, .npz, .pt, "
            ".safetensors or Zarr, one array (documents, layers, L, L) or (documents, layers, heads, L, L), or one per "
            "layer (documents, L, L) or (documents, heads, L, L).",
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
    memory_budget: Annotated[
        str | None,
        typer.Option(
            help="Memory that the process may take, such as 2GB: a layer that needs more is analysed in blocks of "
            "documents, with scratch files.",
            metavar="AMOUNT",
            show_default="what the machine has left",
            rich_help_panel=LARGE,
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Folder for scratch files, which are removed at the end.",
            metavar="DIR",
            show_default="beside the results",
            rich_help_panel=LARGE,
        ),
    ] = None,
    pod: Annotated[
        str,
        typer.Option(
            help="POD of the field: exact, or approximate from a random sketch, which every output says.",
            metavar="|".join(PODS),
            rich_help_panel=LARGE,
        ),
    ] = Options.pod,
    power_iterations: Annotated[
        int,
        typer.Option(help="Of the randomized POD; at least 4.", metavar="NUMBER", rich_help_panel=LARGE),
    ] = Options.power_iterations,
    *,
    analysis: dict[str, Any],
    sharing: Sharing,
    output: Output,
) -> None:
    """Analyse attention that is on disk already; no model and no torch are needed.

    Writes the same folder as eddyscope run. Of fields that eddyscope capture wrote, a layer is in memory at a time, or
    a few of its documents where it does not fit.

    Example: eddyscope analyze attention.npz --out study

    Example: eddyscope analyze fields.zarr --out study --memory-budget 2GB

    Example: eddyscope analyze fields.zarr --out study --workers 4
    """
    from eddyscope.budget import budget_bytes
    from eddyscope.cli.progress import Display, layer_progress
    from eddyscope.cli.results import print_results, write_results
    from eddyscope.fieldplace import is_fields
    from eddyscope.runs import OutputFolder
    from eddyscope.study.analyze import analyze

    large: dict[str, Any] = {
        "pod": pod,
        "power_iterations": power_iterations,
        "memory_budget": budget_bytes(memory_budget),
    }
    make_options(**analysis, pod=pod, power_iterations=power_iterations)
    display = Display(output.quiet)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with display.stage("reading", f"Reading {arrays}"):
            if is_fields(arrays):
                ensemble = _stored(arrays, two_sided, unnormalised, drop_bad)
            else:
                ensemble = _from_arrays(arrays, two_sided, unnormalised, drop_bad, analysis["max_lag"])
            chosen = layer_list(layers)
            if chosen is not None:
                ensemble = ensemble.select_layers(chosen)
        text = f"Analysing {len(ensemble.layers)} layers"
        with shared(sharing, display, invocation) as cluster, display.stage("analysing", text) as advance:
            place = scratch or (None if sharing.dask else folder.stage.parent)
            study = analyze(ensemble, **analysis, **large, scratch=place, **cluster, progress=layer_progress(advance))
        study = write_results(folder, study, output, display, invocation)
    print_results(study, output)


def _stored(path: Path, two_sided: bool, unnormalised: bool, drop_bad: bool) -> AttentionEnsemble:
    """Fields that were captured, which know what the options say of arrays."""
    from eddyscope.fieldplace import open_fields

    given = {"--two-sided": two_sided, "--unnormalised": unnormalised, "--drop-bad": drop_bad}
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UsageError(f"{wrong[0]} does not apply to fields that were captured, which say so themselves.")
    return open_fields(path).ensemble()


def _from_arrays(
    path: Path, two_sided: bool, unnormalised: bool, drop_bad: bool, max_lag: int | None
) -> AttentionEnsemble:
    from eddyscope.arrays import identify, read_arrays
    from eddyscope.ensemble import AttentionEnsemble

    return AttentionEnsemble.from_arrays(
        read_arrays(path),
        causal=not two_sided,
        max_lag=max_lag,
        unnormalised=unnormalised,
        drop_bad=drop_bad,
        provenance={"file": identify(path)},
    )
