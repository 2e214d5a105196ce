"""Write the pages that follow from the code: ``docs/cli.md`` from the help, ``docs/results.md`` from a small study.

Run it with ``python docs/make_reference.py`` after a command, an option or a result has changed; a test compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import xarray as xr
from typer.models import OptionInfo

import eddyscope as es

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/make_reference.py; do not edit. -->"

# --- the command line -----------------------------------------------------------------------------------------------

CLI_INTRODUCTION = """\
# Command line

Every command is a Python call typed differently; `eddyscope COMMAND --help` shows what is on this page.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | an input, a model or a place that cannot be used; a self-check that failed; anything unexpected |
| 2 | an option or argument that cannot be |
| 129, 143 | ended by SIGHUP or SIGTERM; nothing half-written is left |
| 130 | interrupted (Ctrl-C); nothing half-written is left |
| 141 | nobody reads the output any more |

Errors are one line on standard error, which says what to do; `eddyscope --debug COMMAND ...` adds the traceback.
Progress and [warnings](warnings.md) go to standard error too, results to standard output. Colours and bars appear in a
terminal only.
"""


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as its signature declares it."""

    name: str
    kind: Any
    declared: Any
    default: Any

    @property
    def is_option(self) -> bool:
        """Whether it has a name that is typed."""
        return isinstance(self.declared, OptionInfo)

    @property
    def names(self) -> list[str]:
        """What is typed: ``--seed``; of an argument its name in capitals."""
        if not self.is_option:
            return [str(self.declared.metavar or self.name.upper())]
        given = [self.declared.default, *(self.declared.param_decls or ())]
        found = [part.strip() for names in given if isinstance(names, str) for part in names.split("/")]
        return [name for name in found if name] or ["--" + self.name.replace("_", "-")]

    @property
    def value(self) -> str:
        """What stands behind an option; nothing for a flag."""
        if bool in self.kinds:
            return ""
        plain = "NUMBER" if {int, float} & self.kinds else "PATH" if Path in self.kinds else "TEXT"
        return str(self.declared.metavar or plain)

    @property
    def kinds(self) -> set[Any]:
        """The type, or the members of a union."""
        return set(get_args(self.kind)) | {self.kind}

    @property
    def default_text(self) -> str:
        """The default in words, empty where there is nothing to say."""
        if self.default is inspect.Parameter.empty:
            return "required"
        if isinstance(self.declared.show_default, str):
            return str(self.declared.show_default)
        hidden = not self.declared.show_default or bool in self.kinds or self.default in (None, "")
        return "" if hidden else f"`{self.default}`"


def cli_page() -> str:
    """Markdown of ``docs/cli.md``."""
    from eddyscope.cli.app import COMMANDS

    parts = [NOTE, CLI_INTRODUCTION]
    for name, command in COMMANDS.items():
        parts += [f"## eddyscope {name}\n", *_command(name, command)]
    return "\n".join(parts).rstrip() + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    parameters = list(_parameters(command))
    arguments, options = [p for p in parameters if not p.is_option], [p for p in parameters if p.is_option]
    paragraphs = [" ".join(p.split()) for p in inspect.cleandoc(command.__doc__).split("\n\n")]
    examples = [p for p in paragraphs if p.startswith("Example: ")]
    yield from (f"{p}\n" for p in paragraphs if p not in examples)
    usage = " ".join(["eddyscope", name, *(n for a in arguments for n in a.names), *["[OPTIONS]"] * bool(options)])
    lines = [usage, *(e.removeprefix("Example: ") for e in examples)]
    yield "```console\n" + "\n".join(f"$ {line}" for line in lines) + "\n```\n"
    if arguments:
        yield _table(("argument", "meaning"), [(f"`{a.names[0]}`", a.declared.help) for a in arguments])
    panels = dict.fromkeys(o.declared.rich_help_panel or "" for o in options)
    for panel in panels:
        rows = [
            (_typed(o), o.declared.help, o.default_text) for o in options if (o.declared.rich_help_panel or "") == panel
        ]
        yield (f"**{panel}**\n\n" if panel else "") + _table(("option", "meaning", "default"), rows)


def _parameters(command: Any) -> Iterator[Parameter]:
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Annotated:
            kind, declared = get_args(parameter.annotation)
            yield Parameter(name, kind, declared, parameter.default)


def _typed(option: Parameter) -> str:
    names = ", ".join(f"`{name}`" for name in option.names)
    return f"{names} `{option.value}`".replace("|", "\\|") if option.value else names


# --- results --------------------------------------------------------------------------------------------------------

RESULTS_INTRODUCTION = """\
# Results

`eddyscope run` and `eddyscope analyze` write a folder:

| | |
|---|---|
| `study.zarr` | every result, see below |
| `report.html` | the same to look at, one file: [the report](report.md) |
| `summary.csv`, `summary.json` | one row for each layer (and head), as `study.summary()` gives |
| `run.json` | how the results came about |
| `figures/` | each figure as PNG and PDF |

A value that could not be measured is empty in CSV, null in JSON and NaN in the study.

The folder is made whole or not at all. It must be missing or empty; `--force` replaces what an earlier run wrote there
(by its own list in `run.json`) and leaves other files alone.

## In Python

```python
import eddyscope as es

study = es.open_study("out")              # the folder of a run, or a study.zarr
study.summary()                           # pandas
study.layer(0)                            # xarray.Dataset of one layer, maps expanded to (query, key)
study.layer("model.layers.0.self_attn")   # the same by name; head=5 for one head where each was kept
study.data                                # xarray.DataTree, one node for each layer, maps packed by lag
study.documents                           # what the model read: token ids, spans, texts, source blocks
study.provenance                          # how it came about
study.save("copy.zarr")
```

`study.zarr` is Zarr format 3, not consolidated, with strings of variable length, and opens with any reader of Zarr:
the layers are groups below `layers/`. `es.open_study` reads it into memory and first compares every file with the size
and sha256 that were noted when it was written; a file that is missing or has changed is named, and nothing is read.
`format_version` (root attribute; also in `run.json` and `summary.json`) is 1; newer ones are refused.

## run.json

| | |
|---|---|
| `format_version`, `versions`, `date` | date and time are UTC |
| `command` | the command line |
| `options` | every option of capture and analysis, defaults included |
| `model`, `source`, `way`, `device`, `threads` | which model, and how its attention was read |
| `text` | tokenizer, files with sha256, and how documents were cut; `file` instead for arrays |
| `checks`, `failed_checks` | each self-check of the capture with layer, value and tolerance |
| `layers_without_attention`, `documents_dropped` | what was left out |
| `warnings` | slug and message, see [Warnings](warnings.md) |
| `seconds` | time of each stage |
| `files` | what the run wrote |
"""

VARIABLES_INTRODUCTION = """\
## Variables

Of one layer, as `study.layer(...)` gives them; with `--heads each` all have the dimension `head` too. *Energy* is a
mean square. Each variable carries its unit, its parameters and whether the field was masked (`field`) as attributes.
What could not be measured is NaN, and `NAME_status` says why; `NAME_low` and `NAME_high` are the ends of an interval.
Of more than 4,000 documents on disk `eigenvalues` and `field_eigenvalues` are the leading 200 (NaN beyond), with
their sum over all ranks as `total_energy` and `field_total_energy`; see [Larger than
memory](stores.md#larger-than-memory). Where statistics alone were kept (`--keep statistics`), what needs the fields
has the status `fields not kept`, and modes, coefficients, Grams, coherence and top documents are absent. The
[method](method.md) defines every number.
"""

COORDINATES = {
    "band": "number of a band, from 0; its label, scale and distances are variables",
    "document": "number of a document",
    "head": "label of a head",
    "key": "position of the key, from 0",
    "lag": "`query - key`; positive looks back",
    "mode": "number of a mode, from 1",
    "place": "place of a document among those of largest coefficient, from 0",
    "top_mode": "number of a mode whose tokens are kept, from 1",
    "normalisation": "`energy`, `rectified` (energy over scale), `standardised` (rows scaled to unit variance)",
    "octave": "first distance of an octave; `octave_last` is the last",
    "other_document": "number of a document",
    "part": "`total`, `mean`, `fluctuation`",
    "peak": "number of a local maximum of the spectrum",
    "query": "position of the query, from 0",
    "rank": "rank of an eigenvalue, from 1",
    "scale": "wavelet scale in tokens; `wavelength` is its wavelength",
    "side": "`back`, `ahead`: two-sided layers only",
    "tolerance": "share of the energy that an effective rank may miss",
}

SECTIONS = {
    "": "Distances, spectra and fields",
    "band": "Bands, and the POD of each",
    "field_": "POD of the field without a window",
    "lag_": "POD along the lag",
}
COMPANIONS = ("_status", "_low", "_high")


def results_page() -> str:
    """Markdown of ``docs/results.md``."""
    data = small_study()
    parts = [NOTE, RESULTS_INTRODUCTION, VARIABLES_INTRODUCTION]
    used = dict.fromkeys(str(d) for v in data.data_vars.values() for d in v.dims)
    described = [(f"`{name}`", COORDINATES[name]) for name in sorted(used) if name in COORDINATES]
    parts += [_table(("dimension", ""), [*described, ("`head`", COORDINATES["head"]), ("`side`", COORDINATES["side"])])]
    for section, title in SECTIONS.items():
        names = sorted(str(n) for n in data.data_vars if section_of(str(n), data) == section)
        parts += [f"### {title}\n", _table(("variable", "unit", ""), _variables(names, data))]
    return "\n".join(parts).rstrip() + "\n"


def small_study() -> xr.Dataset:
    """The results of one small causal layer, from a seed."""
    scores = np.random.default_rng(0).normal(size=(16, 1, 24, 24))
    weights = np.exp(scores) * np.tril(np.ones((24, 24)))
    weights /= weights.sum(axis=-1, keepdims=True)
    return es.analyze(es.AttentionEnsemble.from_arrays(weights)).layer(0)


def section_of(name: str, data: xr.Dataset) -> str:
    """Which table a variable stands in."""
    for prefix in ("field_", "lag_"):
        if name.startswith(prefix) and name != "lag_energy":
            return prefix
    return "band" if "band" in data[name].dims else ""


def _variables(names: list[str], data: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    for name in names:
        stem = next((name.removesuffix(c) for c in COMPANIONS if name.endswith(c)), name)
        if stem != name and stem in data:
            continue
        with_companions = [c for c in COMPANIONS if f"{name}{c}" in data]
        beside = f"; with {', '.join(f'`{c}`' for c in with_companions)}" if with_companions else ""
        dims = f"({', '.join(map(str, data[name].dims))})" if data[name].dims else ""
        unit = str(data[name].attrs.get("units", ""))
        yield f"`{name}{dims}`", unit, f"{data[name].attrs.get('long_name', '')}{beside}"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


PAGES = {"cli.md": cli_page, "results.md": results_page}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
        print(f"Wrote {HERE / page}.")
