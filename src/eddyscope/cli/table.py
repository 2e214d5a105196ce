"""The readable table of a study: what each layer does, in words that need no manual."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import pandas as pd
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyscope.cli.bars import print_bars
from eddyscope.study.measures import APPROXIMATE
from eddyscope.study.study import Study
from eddyscope.study.words import conclusions

#: Statuses of a band that say how it was chosen, and need no note.
_PLAIN = ("ok", "octave", "given", "largest energy", "absent")
#: What the other statuses mean, in a few words.
_MEANING = {
    "no dominant scale": "no wavelength stands out",
    "untested": "the wavelength was not tested: intervals were left out, or there are fewer than 8 groups of documents",
    "harmonic": "the wavelength may be an overtone of a longer one",
    "edge-dependent": "the wavelength depends on what is assumed beyond the longest lag",
    "edge-affected": "the scale is too long for this context",
    "above Nyquist": "the scale is too short for whole tokens",
    "fields not kept": "only statistics were kept, from which beta, H* and PR cannot be had; those along the lag are "
    "in the study",
    "no fluctuation": "every document gives the same attention, so there is nothing to measure",
    "decay not a power law": "read beta with care",
    "decay: too few modes": "no beta from so few documents",
    "decay no decay": "all patterns have about the same energy",
    "effective rank unresolved": "H* is near the most that so many documents can show; more of them would raise it",
    "approximate POD": "beta, H* and the patterns come from a sketch of the field (randomized POD), not from all of it",
    "participation ratio leading eigenvalues alone": "PR needs every eigenvalue, and only the leading ones are known",
    "participation ratio unresolved": "PR needs more documents",
    "participation ratio too few documents": "PR needs more documents",
}

#: What an effective rank beyond the eigenvalues that are known has not reached.
_REACHED = "the energy that some tolerance asks for"

_LEGEND = {
    "most at": "distances (tokens) with the most fluctuation for their number: the octave of largest density",
    "half by": "half of the fluctuation lies at this distance or nearer",
    "bands": "what was analysed: a number is a dominant wavelength in tokens; lags A-B are distances, denser than "
    "average, where no wavelength dominates",
    "sink": "share of the attention that goes to the first token",
    "fluct": "share of the squared attention that differs from document to document; the rest is the same whatever "
    "is read",
    "beta": "how fast the energies of the recurring patterns fall: energy ~ rank^-beta, as published",
    "H*": "fewest patterns that miss at most {tolerance} of the fluctuation's energy",
    "PR": "effective number of patterns (participation ratio)",
}


def print_study(study: Study, file: IO[str] | None = None, where: str | None = None, bars: bool = False) -> None:
    """Print the table of a study, what its columns mean, and everything to know before using the numbers.

    Parameters
    ----------
    study : Study
    file : text file, optional
        Standard output by default. Colours and the width of the window only where it is a terminal.
    where : str, optional
        Where the results are; printed last.
    bars : bool
        Small bar charts under the table.
    """
    console = Console(file=file, highlight=False, markup=False)
    table = study.summary()
    names = short_names(study.layers)
    notes = _Notes()
    console.print(Text(title(study), style="bold"))
    pattern = _pattern(study.layers, names)
    if pattern:
        console.print(f"Layers are {pattern}.")
    console.print()
    console.print(_table(study, table, names, notes))
    console.print()
    _print_list(console, list(_legend(table).items()))
    if bars:
        print_bars(console, study, names)
    if notes.letters:
        console.print("\nNotes")
        _print_list(console, [(letter, _explained(text)) for text, letter in notes.letters.items()])
    _print_conclusions(console, study, names)
    _print_findings(console, study, names)
    if where is not None:
        console.print(f"\n{where}", soft_wrap=True)


def title(study: Study) -> str:
    """One line: what was read by what."""
    first = study.data[study.layers[0]].attrs
    model = study.provenance.get("model") or {}
    name = str(model.get("name", ""))
    if name.count("/") != 1 or name.startswith((".", "~", "/")):  # a folder, not the id of a model on the hub
        name = Path(name).name
    kind_of_model = str(model.get("class") or "")
    source = f"{name} ({kind_of_model})" if name and kind_of_model else name or kind_of_model
    source = source or study.provenance.get("file", {}).get("name") or "arrays"
    heads = _kept_heads(first) + (", value-weighted" if first.get("weight") == "value-norm" else "")
    kind = "causal" if first["causal"] else "two-sided"
    layers = f"{len(study.layers)} layers" if len(study.layers) > 1 else "1 layer"
    documents = f"{first['documents']} document{'' if first['documents'] == 1 else 's'}"
    approximate = f", POD {APPROXIMATE}" if first.get("pod") == APPROXIMATE else ""
    return f"{source}: {layers}, {documents} of {first['keys']} tokens, {kind}, {heads}{approximate}"


def _kept_heads(layer: Mapping[Hashable, Any]) -> str:
    """Which heads of a layer were kept, by its attributes."""
    if layer["heads"] == "mean":
        return "head mean"
    kept = str(layer["heads"]).split(",")
    every = layer.get("query_heads") in (None, 0, len(kept))
    return "each head" if every else f"head{'s' if len(kept) > 1 else ''} {', '.join(kept)}"


def short_names(layers: Sequence[str]) -> dict[str, str]:
    """Names without the parts that all of them share: ``model.layers.3.self_attn`` becomes ``3``."""
    parts = {name: name.split(".") for name in layers}
    if len(layers) < 2:
        return {name: name for name in layers}
    shortest = min(len(p) for p in parts.values())
    before = _shared([p[:shortest] for p in parts.values()])
    after = _shared([p[before:][::-1] for p in parts.values()])
    return {name: ".".join(p[before : len(p) - after]) or name for name, p in parts.items()}


def _shared(parts: list[list[str]]) -> int:
    """How many leading parts are the same in all, leaving at least one."""
    count = 0
    for column in zip(*(p[:-1] for p in parts), strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def _pattern(layers: Sequence[str], names: dict[str, str]) -> str:
    """The full names with a star in the place of what is shown."""
    first = layers[0]
    short = names[first]
    if short == first:
        return ""
    before = first[: _start(first, short, layers, names)]
    return f"{before}*{first[len(before) + len(short) :]}"


def _start(first: str, short: str, layers: Sequence[str], names: dict[str, str]) -> int:
    """Where the shown part begins in the full name: the same place in every name."""
    for start in range(len(first)):
        before, after = first[:start], first[start + len(short) :]
        if all(f"{before}{names[name]}{after}" == name for name in layers):
            return start
    return 0


class _Notes:
    """Statuses as letters, so that a long one does not widen the table."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def __call__(self, texts: Iterable[str]) -> str:
        for text in texts:
            self.letters.setdefault(text, _letter(len(self.letters)))
        return " ".join(sorted(self.letters[text] for text in dict.fromkeys(texts)))


def _explained(status: str) -> str:
    if status.startswith("effective rank >"):
        return f"{status}: so many modes hold less than {_REACHED}, and no more of them were computed"
    return f"{status}: {_MEANING[status]}" if status in _MEANING else status


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else _letter(number // 26 - 1) + _letter(number % 26)


def _table(study: Study, table: pd.DataFrame, names: dict[str, str], notes: _Notes) -> Table:
    each = (table["head"] != "mean").any()
    rank = next(c for c in table.columns if c.startswith("h_"))
    made = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    made.add_column("layer", overflow="fold", max_width=16)
    if each:
        made.add_column("head", justify="right")
    made.add_column("most at", justify="right", no_wrap=True)
    made.add_column("half by", justify="right", no_wrap=True)
    made.add_column("bands", overflow="fold", ratio=1, min_width=11)
    for name in ("sink", "fluct", "beta", "H*", "PR"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    for _, row in table.iterrows():
        data = study.packed(row["layer"], row["head"] if row["head"] != "mean" else None)
        cells = [names[row["layer"]]] + ([row["head"]] if each else [])
        cells += [row["peak_octave"] or "-", _number(row["median_lag"]), ", ".join(bands(data)) or "-"]
        cells += [_percent(row["sink_mass"]), _percent(row["fluctuation_level"])]
        cells += [_number(row["beta_published"]), _rank(row, rank), _number(row["participation_ratio"])]
        made.add_row(*(Text(str(cell)) for cell in [*cells, notes(_statuses(row, data))]))
    return made


def _rank(row: pd.Series[Any], column: str) -> str:
    """An effective rank, or beyond how many modes it lies."""
    status = str(row[f"{column}_status"])
    return status if status.startswith(">") else _number(row[column])


def bands(data: xr.Dataset) -> list[str]:
    """Short names of the bands of one layer and head: wavelengths, or ranges of distances."""
    found = []
    for index in range(data.sizes["band"]):
        band = data.isel(band=index)
        first, last = float(band["band_first"]), float(band["band_last"])
        wavelength = float(band["dominant_wavelength"])
        if math.isfinite(wavelength):
            found.append(_number(wavelength))
        elif math.isfinite(first):
            found.append(f"{first:.0f}-{last:.0f}" if last > first else f"{first:.0f}")
    scales = math.isfinite(float(data["dominant_wavelength"][0])) if data.sizes["band"] else True
    return found if scales or not found else ["lags " + found[0], *found[1:]]


def _statuses(row: pd.Series[Any], data: xr.Dataset) -> list[str]:
    """What to know about a row, the row's own status first."""
    own = [] if row["status"] == "ok" else str(row["status"]).split("; ")
    of_bands = [str(s) for s in data["status"].values if str(s) not in _PLAIN]
    return list(dict.fromkeys([*(s for s in own if s not in _PLAIN), *(s for s in of_bands if s not in own)]))


def _legend(table: pd.DataFrame) -> dict[str, str]:
    rank = next(c for c in table.columns if c.startswith("h_"))
    tolerance = f"{float(rank.removeprefix('h_')):g} %"
    return {name: text.format(tolerance=tolerance) for name, text in _LEGEND.items()} | {"-": "could not be measured"}


def _print_conclusions(console: Console, study: Study, names: dict[str, str]) -> None:
    """What can be concluded of each layer and what cannot; of each head there would be too much to read."""
    if "head" in study.packed(study.layers[0]).dims:
        return
    console.print("\nWhat can be concluded (intervals are 95 %)", style="bold")
    for name in study.layers:
        items = [(names[name] if first else "", text) for first, text in _first(conclusions(study.packed(name)))]
        _print_list(console, items)


def _first(items: Sequence[str]) -> list[tuple[bool, str]]:
    return [(index == 0, item) for index, item in enumerate(items)]


def _print_findings(console: Console, study: Study, names: dict[str, str]) -> None:
    """Warnings, failed checks, and what was left out."""
    provenance = study.provenance
    warned = [(str(w.get("slug", "")), str(w.get("message", ""))) for w in provenance.get("warnings", [])]
    if warned:
        console.print("\nWarnings")
        _print_list(console, [("-", message) for _, message in warned])
    failed = [c for c in provenance.get("checks", []) if not c["passed"]]
    if failed:
        console.print("\nFailed checks: these numbers are not to be trusted", style="bold red")
        for check, group in groupby(sorted(failed, key=lambda c: str(c["check"])), key=lambda c: str(c["check"])):
            _print_list(console, [("-", _failure(check, list(group), names))])
    ahead = [float(c["value"]) for c in provenance.get("checks", []) if c["check"] == "looks ahead"]
    if ahead:
        console.print("\nNot causal, as known of this kind of model")
        moved = f"attention of earlier tokens moves by up to {max(ahead):.2g} when later tokens change"
        _print_list(console, [("-", f"Its layers see later tokens although their mask is causal: {moved}.")])
    unread = provenance.get("layers_without_attention", {})
    if unread:
        console.print(f"\nLayers without attention to show: {', '.join(unread)}.", soft_wrap=False)


def _failure(check: str, records: list[dict[str, Any]], names: dict[str, str]) -> str:
    """One line on all layers in which a check failed, with the worst value."""
    worst = max(records, key=lambda c: float(c["value"]) if c["value"] is not None else math.inf)
    layers = [names.get(c["layer"], str(c["layer"])) for c in records if c["layer"] is not None]
    where = f" in layer {', '.join(layers)}" if layers else ""
    note = f" ({worst['note']})" if worst.get("note") else ""
    return f"{check}{where}: {worst['value']}, tolerance {worst['tolerance']}{note}"


def _print_list(console: Console, items: Sequence[tuple[str, str]]) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, width=max(7, *(len(name) for name, _ in items)) if items else None)
    grid.add_column(overflow="fold")
    for name, text in items:
        grid.add_row(Text(name), Text(text))
    console.print(grid)


def _number(value: float) -> str:
    """Three significant digits, whole numbers as such; ``-`` where there is none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.3g}"


def _percent(value: float) -> str:
    """Two significant digits; what is there but too little to matter is ``< 0.01 %``."""
    if not math.isfinite(value):
        return "-"
    if 0 < value < 1e-4:
        return "< 0.01 %"
    return f"{value * 100:.0f} %" if value >= 0.095 else f"{value * 100:.2g} %"
