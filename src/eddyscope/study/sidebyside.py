"""Small layers side by side, one thread each.

The threads of a linear algebra library have little to share in the matrices of a few hundred documents: two take twice
the CPU time of one for the same seconds. So layers of that size are analysed side by side, each with one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.fieldstore import StoredFields

#: Largest ensembles whose layers are analysed side by side: beyond, the library's threads have enough to do, and what
#: several layers hold at a time counts.
DOCUMENTS, LAYER_BYTES = 1000, 256 << 20
#: More threads would wait for the interpreter.
MOST = 4

_Result = TypeVar("_Result")


def threads_for(ensemble: AttentionEnsemble) -> int:
    """How many layers of an ensemble to analyse at a time.

    Parameters
    ----------
    ensemble : AttentionEnsemble

    Returns
    -------
    int
        No more than the linear algebra library may use (``OMP_NUM_THREADS`` and its like hold), and 1 where layers are
        large or read from disk.
    """
    if isinstance(ensemble.fields, StoredFields) or ensemble.count > DOCUMENTS:
        return 1
    if max(field.values.nbytes for field in ensemble.fields.values()) > LAYER_BYTES:
        return 1
    allowed: list[int] = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(1, min([MOST, len(ensemble.layers), *allowed]))


def side_by_side(work: Callable[[str], _Result], names: Sequence[str], threads: int) -> Generator[_Result]:
    """What the work gives for each name, in their order.

    Parameters
    ----------
    work : callable
        Calls may overlap.
    names : sequence of str
    threads : int
        1 calls it where this is iterated, with the threads of the libraries as they are.
    """
    if threads == 1:
        yield from map(work, names)
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, name) for name in names]
        try:
            for future in futures:
                yield future.result()
        finally:  # where the caller gives up, what has begun ends and nothing else begins
            pool.shutdown(cancel_futures=True)
