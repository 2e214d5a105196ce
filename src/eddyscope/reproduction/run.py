"""The study repeated and written down: :func:`eddyscope.reproduce`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

from eddyscope.places import writing
from eddyscope.reproduction.blocks import markdown, one_file
from eddyscope.reproduction.members import Member
from eddyscope.reproduction.page import DRAWN, page_blocks
from eddyscope.reproduction.pipeline import Progress, Reproduction, repeat
from eddyscope.reproduction.tables import energy_table, model_table, rank_table, t_spec_table
from eddyscope.runs import FIGURES, REPORT, OutputFolder, write_record
from eddyscope.schema import FORMAT_VERSION
from eddyscope.study.analyze import package_versions
from eddyscope.study.study import Study

MARKDOWN, HTML = "page.md", "index.html"
#: Layers that the figure of mode profiles shows, counted from 0.
_PROFILES = (1, 3, 5)


def reproduce(
    out: str | Path,
    models: str | Path | None = None,
    *,
    bundled: Sequence[str] | None = None,
    text: str | Path | None = None,
    documents: int = 150,
    seed: int = 0,
    figures: bool = True,
    report: bool = True,
    force: bool = False,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Reproduction:
    """Repeat the published study and judge its claims C1 to C7.

    Parameters
    ----------
    out : str or Path
        Folder for the page (``page.md``, ``index.html``), its tables as CSV and its figures; missing or empty.
    models : str or Path, optional
        Folder whose folders ``eddyscope train`` has written: more seeds and sizes beside the bundled models. With
        three seeds of an architecture verdicts are about the architecture.
    bundled : sequence of str, optional
        Which bundled models take part; all by default.
    text : str or Path, optional
        What the models read; the validation split of TinyShakespeare by default, where it is found.
    documents, seed : int
        Documents, and the seed of their choice and of everything else that is random.
    figures : bool
    report : bool
        Write ``report.html`` too: the models beside each other, analysed with our defaults.
    force : bool
        Replace the results of an earlier run in the folder.
    progress : callable, optional
        Called with (what is done, number done, number of all).
    command : sequence of str
        The command line, for the record.

    Returns
    -------
    Reproduction
        Verdicts, evidence and tables.

    Raises
    ------
    InputError
        Where there are too few documents, or no model in ``models``.
    StoreError
        Where ``out`` cannot be written.
    """
    started = time.perf_counter()
    drawn: dict[tuple[str, str, str], str] = {}
    shown: dict[str, Study] = {}
    with OutputFolder(out, force) as folder:

        def keep(member: Member, preset: str, study: Study) -> None:
            if report and preset == "defaults":
                shown[member.name] = study
            if figures:
                with writing(folder.path):
                    drawn.update(_draw(member, preset, study, folder.stage))

        found = repeat(
            models,
            bundled=bundled,
            text=text,
            documents=documents,
            seed=seed,
            keep=keep,
            progress=progress,
        )
        with writing(folder.path):
            if report:
                from eddyscope.report.page import write_report

                write_report(list(shown.values()), folder.stage / REPORT, names=list(shown))
            _write(found, drawn, folder.stage, figures, command, time.perf_counter() - started)
        folder.publish()
    return found


def _draw(member: Member, preset: str, study: Study, stage: Path) -> dict[tuple[str, str, str], str]:
    from eddyscope.report.figures import write_figures

    place = Path(FIGURES) / re.sub(r"[^A-Za-z0-9._-]", "_", member.name) / preset
    made = {}
    for name in DRAWN:
        layers = list(_PROFILES) if name == "mode_profiles" else None
        (path,) = write_figures(study, stage / place, formats=["png"], names=[name], layers=layers)
        made[member.name, preset, name] = path.relative_to(stage).as_posix()
    return made


def _write(
    found: Reproduction,
    drawn: dict[tuple[str, str, str], str],
    stage: Path,
    figures: bool,
    command: Sequence[str],
    seconds: float,
) -> None:
    overview = None
    if figures:
        from eddyscope.report.figures import save_figure
        from eddyscope.reproduction.overview import draw_overview

        overview = f"{FIGURES}/overview.png"
        save_figure(draw_overview(found), stage / overview)
    blocks = page_blocks(found, drawn, overview)
    (stage / MARKDOWN).write_text(markdown(blocks), encoding="utf-8")
    (stage / HTML).write_text(one_file(blocks, stage), encoding="utf-8")
    tables = {
        "models": model_table(found),
        "t_spec": t_spec_table(found),
        "h": rank_table(found),
        "energy": energy_table(found),
    }
    for name, table in tables.items():
        table.to_csv(stage / f"{name}.csv", index=False)
    (stage / "verdicts.json").write_text(json.dumps(_verdicts(found), indent=1) + "\n", encoding="utf-8")
    record = {
        "command": list(command),
        "seconds": round(seconds, 1),
        "documents": len(found.documents),
        "seed": found.seed,
        "text": found.documents.identity,
        "versions": package_versions(),
    }
    write_record(stage, record)


def _verdicts(found: Reproduction) -> dict[str, object]:
    """The verdicts for programs."""
    return {
        "format_version": FORMAT_VERSION,
        "claims": [
            {
                "claim": judged.claim.name,
                "published": judged.claim.published,
                "criterion": judged.claim.rule,
                "verdict": judged.verdict,
                "why": judged.why,
                "architectures": [
                    {
                        "architecture": row.label,
                        "rests_on": row.basis,
                        "in_the_study": row.counts,
                        "measured": row.finding.measured,
                        "untrained_twins": row.finding.null,
                        "verdict": row.finding.verdict,
                        "why": row.finding.why,
                    }
                    for row in judged.rows
                ],
            }
            for judged in found.judged
        ],
    }
