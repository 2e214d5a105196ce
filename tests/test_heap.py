"""Commands keep what they free for what comes next, unless the environment says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
from eddyscope.heap import keep_freed_memory
if sys.argv[1] != "not":
    keep_freed_memory(override=sys.argv[1] == "override")
for round in range(21):
    if round == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * (16 << 20) for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(called: str, **environment: str) -> int:
    """Pages that were mapped in a process that takes and frees 48 MB twenty times."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))} | environment
    done = subprocess.run([sys.executable, "-c", _FAULTS, called], capture_output=True, text=True, check=True, env=own)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_what_is_freed_is_not_mapped_again_unless_the_environment_decides() -> None:
    mapped = faults("not")
    if mapped < 20 * 3 * (16 << 20) / os.sysconf("SC_PAGE_SIZE") / 4:
        pytest.skip("pages of this system are large, or its C library keeps them")
    assert faults("called") < mapped / 10
    given = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    assert faults("called", **given) > mapped / 2
    assert faults("override", **given) < mapped / 10
