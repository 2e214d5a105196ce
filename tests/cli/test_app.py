"""The command line as a whole: quick help, one-line errors, exit statuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import eddyscope as es
import planted
from eddyscope.cli.app import COMMANDS
from eddyscope.cli.guard import guarded
from eddyscope.errors import InputError, UsageError

Run = Any
PROGRAM = [sys.executable, "-c", "from eddyscope.cli import main; main()"]


def test_version(typed: Run) -> None:
    assert typed("--version").out == f"eddyscope {es.__version__}\n"


def test_help_lists_the_commands(typed: Run) -> None:
    done = typed("--help")
    assert done.status == 0
    assert all(f" {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(typed: Run, name: str) -> None:
    done = typed(name, "--help")
    assert done.status == 0
    assert f"Example: eddyscope {name}" in " ".join(done.out.split())


def test_help_needs_neither_torch_nor_the_analysis() -> None:
    heavy = "torch", "transformers", "scipy", "xarray", "zarr", "matplotlib", "pandas"
    code = (
        "import sys\nsys.argv = ['eddyscope', 'run', '--help']\nfrom eddyscope.cli import main\n"
        f"try:\n    main()\nexcept SystemExit:\n    pass\nprint([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = LINE
from eddyscope.cli import main
main()
"""


def without_torch(*line: str) -> subprocess.CompletedProcess[str]:
    """Type a command line where torch, transformers and safetensors are not installed."""
    code = WITHOUT_TORCH.replace("LINE", repr(["eddyscope", *line]))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_arrays_need_no_torch(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", planted.noise(9, 16)[:, None].astype(np.float32))
    line = [
        "analyze",
        str(tmp_path / "a.npy"),
        "--out",
        str(tmp_path / "out"),
        "--no-intervals",
        "--no-figures",
        "--no-report",
    ]
    done = without_torch(*line)
    assert done.returncode == 0, done.stderr
    assert "1 layer, 9 documents of 16 tokens" in done.stdout


@pytest.mark.parametrize("name", ["./model", "owner/model", "base"])
def test_a_missing_torch_is_named_with_the_install_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "book.txt").write_text("words")
    done = without_torch("run", name, "--text", str(tmp_path / "book.txt"), "--out", str(tmp_path / "out"), "-q")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs the package 'torch', which is not installed" in done.stderr.replace("need ", "needs ")
    assert done.stderr.endswith("Install it with: pip install 'eddyscope[hf]'\n")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["show"], "Missing argument"),
        (["run", "base", "--out", "x", "--documents", "0"], "--documents"),
        (["analyze", "x.npy"], "--out"),
        (["analyze", "x.npy", "--out", "y", "--nonsense"], "No such option"),
    ],
)
def test_a_wrong_command_line_exits_with_2(typed: Run, line: list[str], part: str) -> None:
    done = typed(*line)
    assert (done.status, done.out) == (2, "")
    assert part in " ".join(done.err.replace("\u2502", " ").split())


def one_command(error: BaseException | None) -> typer.Typer:
    """A program whose command ends with this error."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.callback()
    def main(debug: bool = False) -> None: ...

    def command(word: str = "nothing") -> None:
        typer.echo(word)
        if error is not None:
            raise error

    app.command("do")(guarded(command))
    return app


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (None, 0, ""),
        (InputError("It is wrong.", "Do this."), 1, "Error: It is wrong. Do this.\n"),
        (InputError("Two\nlines."), 1, "Error: Two lines.\n"),
        (UsageError("No such way."), 2, "Error: No such way.\n"),
        (KeyboardInterrupt(), 130, "Interrupted; nothing was written.\n"),
        (MemoryError(), 1, "Error: out of memory. Use fewer documents, a shorter context, or --heads mean.\n"),
        (ZeroDivisionError("division by zero"), 1, None),
    ],
)
def test_errors_are_one_line_with_a_status(error: BaseException | None, status: int, message: str | None) -> None:
    result = CliRunner().invoke(one_command(error), ["do", "--word", "hello"])
    assert (result.exit_code, result.stdout) == (status, "hello\n")
    if message is None:
        assert result.stderr.startswith("Error: something unexpected happened (ZeroDivisionError: division by zero).")
        assert "eddyscope --debug" in result.stderr
        assert result.stderr.count("\n") == 1
    else:
        assert result.stderr == message


@pytest.mark.parametrize("error", [InputError("It is wrong."), ZeroDivisionError("division by zero")])
def test_debug_keeps_the_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        CliRunner().invoke(one_command(error), ["--debug", "do"], catch_exceptions=False)


def test_a_failing_program_prints_no_traceback_unless_asked(tmp_path: Path) -> None:
    plain = subprocess.run([*PROGRAM, "show", str(tmp_path)], capture_output=True, text=True, check=False)
    assert plain.returncode == 1
    assert plain.stdout == ""
    assert plain.stderr == (
        f"Error: There is no study at '{tmp_path}'. Give a folder that holds study.zarr, or a study saved as Zarr.\n"
    )
    debug = subprocess.run([*PROGRAM, "--debug", "show", str(tmp_path)], capture_output=True, text=True, check=False)
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    assert "StoreError: There is no study at" in debug.stderr


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, "info"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        (signal.SIGINT, 130, "Interrupted; nothing was written.\n"),
        (signal.SIGTERM, 143, "Ended by SIGTERM; nothing was written.\n"),
        (signal.SIGHUP, 129, "Ended by SIGHUP; nothing was written.\n"),
    ],
)
def test_a_signal_ends_quietly_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, status: int, message: str
) -> None:
    fifo = tmp_path / "a.npy"
    os.mkfifo(fifo)  # opening it for reading waits for a writer that never comes
    line = [*PROGRAM, "analyze", str(fifo), "--out", str(tmp_path / "out")]

    def undisturbed() -> None:  # tests may run under nohup, whose children would ignore SIGHUP too
        signal.signal(number, signal.SIG_DFL)

    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, preexec_fn=undisturbed) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Reading ")
        time.sleep(0.2)
        process.send_signal(number)
        rest = process.stderr.read()
    assert (process.returncode, rest) == (status, message)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_a_terminal_without_unicode_is_no_reason_to_stop(tmp_path: Path) -> None:
    attention = planted.noise(9, 16).astype(np.float32)
    study = es.analyze(es.AttentionEnsemble.from_arrays({"\u05d0": attention, "b": attention}), intervals=False)
    study.save(tmp_path / "x.zarr")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    line = [*PROGRAM, "show", str(tmp_path / "x.zarr")]
    done = subprocess.run(line, capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u05d0" in done.stdout


def test_info_says_what_a_bug_report_needs(typed: Run) -> None:
    done = typed("info")
    assert (done.status, done.err) == (0, "")
    names = [line[:16].strip() for line in done.out.splitlines()]
    assert {"eddyscope", "python", "platform", "numpy", "zarr", "torch", "accelerators", "hub cache"} <= set(names)
    assert es.__version__ in done.out
