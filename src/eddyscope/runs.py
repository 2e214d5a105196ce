"""The output folder of a run: made whole or not at all, and nothing that a user had is lost.

::

    out/
        study.zarr      every result, see eddyscope.store
        summary.csv     one row for each layer (and head)
        summary.json    the same rows; null where a value could not be measured
        run.json        how the results came about
        report.html     the same to look at, one file
        figures/        PNG and PDF

Everything is first written to a hidden folder beside the output folder (inside it where it exists already), then moved
to its place by renaming, ``run.json`` last.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

from eddyscope.errors import StoreError
from eddyscope.places import folder_beside, writing
from eddyscope.schema import FORMAT_VERSION
from eddyscope.store import STUDY, write_study
from eddyscope.study.study import Study

RUN = "run.json"
FIGURES = "figures"
REPORT = "report.html"
_NAMES = (STUDY, "summary.csv", "summary.json", REPORT, RUN)
_STAGE = ".eddyscope-"


class OutputFolder:
    """Where a run writes, as a context manager.

    The place is checked and a hidden folder is made on entering, before any long work; :meth:`publish` moves what was
    written there to its place. Leaving without it leaves everything as it was.

    Parameters
    ----------
    path : str or Path
        The output folder. It may be missing or empty. With ``force`` it may hold the results of an earlier run, which
        are replaced, and other files, which are left alone.
    force : bool

    Raises
    ------
    StoreError
        Where the folder is not empty, cannot be written, or (with ``force``) holds a file by the name of a result that
        no run wrote.
    """

    def __init__(self, path: str | Path, force: bool = False) -> None:
        self.path = Path(path)
        self.target = self.path.absolute()
        self.force = force
        self._own: list[str] = []  # what an earlier run wrote here
        self._stack = ExitStack()

    def __enter__(self) -> OutputFolder:
        with writing(self.path), ExitStack() as stack:
            self._check()
            if self.target.exists():
                # Inside, since a folder that is given to write in may be all that can be written (a mounted volume).
                self._hidden = Path(tempfile.mkdtemp(prefix=_STAGE, suffix=".partial", dir=self.target))
                stack.callback(shutil.rmtree, self._hidden, ignore_errors=True)
            else:
                self._hidden = stack.enter_context(folder_beside(self.target))
            self.stage = self._hidden / "new"
            self.stage.mkdir()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _check(self) -> None:
        if not self.target.exists():
            return
        if not self.target.is_dir():
            raise StoreError(f"'{self.path}' is a file.", "Give the name of a folder (--out).")
        there = _shown(self.target)
        if there and not self.force:
            shown = ", ".join(there[:3]) + (", ..." if len(there) > 3 else "")
            raise StoreError(
                f"The folder '{self.path}' exists and is not empty (it holds {shown}).",
                "Choose another one (--out), or replace the results in it with --force.",
            )
        self._own = _written_by_run(self.target)
        foreign = [name for name in _NAMES if name in there and name not in self._own]
        if foreign:
            raise StoreError(
                f"The folder '{self.path}' holds {', '.join(foreign)} that no run of eddyscope wrote, so not even "
                "--force replaces it.",
                "Choose another folder (--out).",
            )

    def publish(self) -> None:
        """Move everything that was written to its place; what an earlier run wrote goes.

        Raises
        ------
        StoreError
            Where another run filled the folder meanwhile, and this one may not replace its results: these then stand
            beside them, under a name that the error tells.
        """
        with writing(self.path):
            if not self.target.exists():
                self.stage.rename(self.target)
                return
            if self.force:
                self._own = _written_by_run(self.target)  # also of a run that has ended since
            elif _shown(self.target):
                raise StoreError(
                    f"Another run wrote to '{self.path}' meanwhile; the results of this one are in '{self._beside()}'."
                )
            old = self._hidden / "old"
            moved: list[tuple[Path, Path]] = []
            try:
                for name in self._own:
                    _move(self.target / name, old / name, moved)
                for name in sorted(_entries(self.stage), key=lambda name: name == RUN):
                    place = self.target / name
                    if place.exists():  # a figure of the user's own
                        _move(place, _spare(place), moved)
                    _move(self.stage / name, place, moved)
            except BaseException:
                for source, place in reversed(moved):
                    place.rename(source)
                raise
            with suppress(OSError):  # an emptied folder of figures, when there are none now
                (self.target / FIGURES).rmdir()

    def _beside(self) -> Path:
        """Move everything that was written to a folder of its own, beside that which was asked for or else inside."""
        for wanted in (self.target, self.target / self.target.name):
            place = _spare(wanted)
            with suppress(OSError):
                self.stage.rename(place)
                return place
        raise StoreError(f"Another run wrote to '{self.path}' meanwhile.", "Choose another folder (--out).")


def write_run(
    folder: OutputFolder,
    study: Study,
    *,
    command: Sequence[str] = (),
    seconds: Mapping[str, float] | None = None,
) -> None:
    """Write the study, its summary and ``run.json`` to an output folder, beside the figures that are there already.

    Parameters
    ----------
    folder : OutputFolder
        Entered, not yet published.
    study : Study
    command : sequence of str
        The command line.
    seconds : mapping of str to float, optional
        Time that each stage took.
    """
    with writing(folder.path):
        write_study(study, folder.stage / STUDY)
        table = study.summary()
        table.to_csv(folder.stage / "summary.csv", index=False)
        rows = [{str(k): v for k, v in row.items()} for row in table.to_dict(orient="records")]
        _write_json(folder.stage / "summary.json", {"format_version": FORMAT_VERSION, "rows": rows})
        write_record(folder.stage, run_record(study, command, seconds or {}))


def write_record(stage: Path, content: Mapping[str, Any]) -> None:
    """Write ``run.json`` beside everything else that was written: this content, the format, the date and the files."""
    record = {
        "format_version": FORMAT_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **content,
        "files": [*_entries(stage), RUN],
    }
    _write_json(stage / RUN, record)


def run_record(study: Study, command: Sequence[str], seconds: Mapping[str, float]) -> dict[str, Any]:
    """What ``run.json`` says: how the results came about."""
    provenance = dict(study.provenance)
    options = {"capture": provenance.pop("options", None), "analysis": provenance.pop("analysis", None)}
    for name in ("seconds", "seconds_analysis"):
        provenance.pop(name, None)
    return {
        "command": list(command),
        "seconds": {stage: round(taken, 3) for stage, taken in seconds.items()},
        "options": {name: given for name, given in options.items() if given is not None},
        **provenance,
    }


def note_written(folder: Path, name: str) -> None:
    """Add a file that was written later to the record of a run, so that the next run knows it as its own."""
    place = folder / RUN
    record = json.loads(place.read_text(encoding="utf-8"))
    if name not in record["files"]:
        beside = folder / f".{RUN}.new"
        _write_json(beside, record | {"files": [name, *record["files"]]})
        beside.replace(place)


def _shown(folder: Path) -> list[str]:
    """Names of what is in a folder, without what runs that have not ended yet keep there."""
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(_STAGE))


def _written_by_run(folder: Path) -> list[str]:
    """What an earlier run wrote here, by its own record; relative names that exist."""
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
        names = record["files"] if "format_version" in record else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    inside = [str(n) for n in names if not PurePosixPath(n).is_absolute() and ".." not in PurePosixPath(n).parts]
    return [name for name in inside if (folder / name).exists()]


def _entries(stage: Path) -> list[str]:
    """Relative names of what was written: files, and the store as one."""
    files = [p.relative_to(stage) for p in sorted(stage.rglob("*")) if p.is_file()]
    return [STUDY] * (stage / STUDY).exists() + [f.as_posix() for f in files if f.parts[0] != STUDY]


def _move(source: Path, place: Path, moved: list[tuple[Path, Path]]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    source.rename(place)
    moved.append((source, place))


def _spare(path: Path) -> Path:
    """A name beside a file that is free."""
    number = 1
    while (spare := path.with_name(f"{path.stem}.kept-{number}{path.suffix}")).exists():
        number += 1
    return spare


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
