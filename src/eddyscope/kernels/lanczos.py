"""Leading eigenpairs of a symmetric operator by block Lanczos, for Grams that no memory holds.

The operator is used through products with blocks of vectors alone. The basis is orthogonalised in full and twice
against everything before it, and restarted with the leading Ritz vectors where it reaches its largest size (thick
restart), so that no eigenvalue comes out twice and none is missed below the size of a block. Where the basis becomes
invariant, random directions are tried before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

FloatArray = NDArray[np.floating[Any]]

#: Vectors of a block: large enough that a product reads the operator seldom, small enough that few are wasted.
BLOCK = 32
#: Residual of a pair, as a share of the largest eigenvalue, at which it has converged.
TOLERANCE = 1e-10
#: Products with a block after which pairs that have not converged are given up.
_MOST_PRODUCTS = 400
#: What is left of a block counts as nothing below this share of the largest eigenvalue.
_NOTHING = 1e-13


@dataclass(frozen=True)
class LeadingPairs:
    """Leading eigenpairs of a symmetric operator.

    Parameters
    ----------
    values : array, shape (rank,)
        Descending: those that converged, up to the first that did not.
    vectors : array, shape (size, rank)
        Orthonormal columns.
    residuals : array, shape (rank,)
        ``|A v - lambda v|``, from a product with the vectors themselves; an eigenvalue lies within it.
    products : int
        Products of the operator with a block of vectors.
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    products: int


def leading_pairs(
    apply: Callable[[FloatArray], FloatArray],
    size: int,
    count: int,
    *,
    block: int = BLOCK,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> LeadingPairs:
    """The largest eigenvalues of a positive semidefinite operator, and their vectors.

    Parameters
    ----------
    apply : callable
        ``V -> A V``, shape (size, vector).
    size : int
        Order of the operator.
    count : int
        Pairs wanted.
    block : int
        Vectors of a block; of an eigenvalue of a higher multiplicity some may be missed beside many others.
    tolerance : float
        As a share of the largest eigenvalue.
    seed : int
        Of the first block.
    progress : callable, optional
        Called with the number of pairs that have converged after each product.

    Returns
    -------
    LeadingPairs

    References
    ----------
    Golub and Underwood (1977), in Mathematical Software III; Wu and Simon (2000), SIAM J. Matrix Anal. Appl. 22,
    602-616, for the thick restart.
    """
    count, rng = min(count, size), np.random.default_rng(seed)
    block = min(block, size)
    most = min(size, basis_size(count, block))
    basis, small = np.empty((size, most)), np.zeros((most, most))
    following = np.linalg.qr(rng.standard_normal((size, block)))[0]
    held, products, converged, scale = 0, 0, 0, 0.0
    values: FloatArray = np.zeros(0)
    mixing: FloatArray = np.zeros((0, 0))
    explored: FloatArray | None = None
    while products < _MOST_PRODUCTS:
        width = following.shape[1]
        basis[:, held : held + width] = following
        left = np.asarray(apply(following), dtype=np.float64)
        products += 1
        known = basis[:, : held + width]
        along = known.T @ left
        left -= known @ along
        again = known.T @ left
        left -= known @ again
        along += again
        small[: held + width, held : held + width] = along
        small[held : held + width, : held + width] = along.T
        held += width
        scale = max(scale, float(np.sqrt((along**2).sum(axis=0)).max()))  # at most the largest eigenvalue
        following, coupling = _orthonormal(left, basis[:, :held], min(block, size - held), scale, rng)
        if held < count and following.shape[1]:
            continue
        values, mixing = _descending(small[:held, :held])
        residuals = np.sqrt(((coupling @ mixing[held - width :]) ** 2).sum(axis=0))
        converged = _leading_run(residuals <= tolerance * values[0])
        if progress is not None:
            progress(min(converged, count))
        if following.shape[1] == 0:
            break
        if converged >= count:
            if float(np.abs(coupling).max()) > tolerance * values[0]:
                break
            # The basis is invariant, so of what lies outside nothing is known: there may be more of an eigenvalue that
            # has more vectors than a block. Random directions are tried until they change nothing.
            if explored is not None and np.abs(values[:count] - explored).max() <= tolerance * values[0]:
                break
            explored = values[:count].copy()
            following, _ = _orthonormal(np.zeros_like(left), basis[:, :held], following.shape[1], 0.0, rng)
        if held + following.shape[1] > most:
            kept = min((count + most) // 2, most - following.shape[1])
            basis[:, :kept] = basis[:, :held] @ mixing[:, :kept]
            small[:] = 0
            small[np.arange(kept), np.arange(kept)] = values[:kept]
            held, values, mixing = kept, values[:kept], np.eye(kept)
    if mixing.shape[0] != held:  # given up before so many vectors were there as pairs are wanted
        values, mixing = _descending(small[:held, :held])
    found = min(converged, count)
    vectors = basis[:, :held] @ mixing[:, :found]
    checked = [np.asarray(apply(vectors[:, s : s + block])) for s in range(0, found, block)]
    apart = np.concatenate(checked, axis=1) - vectors * values[:found] if checked else vectors
    return LeadingPairs(values[:found], vectors, np.sqrt((apart**2).sum(axis=0)), products + len(checked))


def basis_size(count: int, block: int = BLOCK) -> int:
    """Vectors of the basis at which it is restarted."""
    return max(4 * count, count + 12 * block)


def _descending(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return values[::-1], vectors[:, ::-1]


def _leading_run(done: NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return int(done.size if done.all() else np.argmin(done))


def _orthonormal(
    left: FloatArray, basis: FloatArray, width: int, largest: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Next block and its coupling, ``left = block coupling``; random directions where ``left`` has too few.

    Without them a block would shrink at the first invariant subspace and miss what lies outside.
    """
    block, upper, order = qr(left, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(upper)) > _NOTHING * max(largest, 0.0)).sum()) if largest > 0 else 0
    rank = min(rank, width)
    coupling = np.zeros((width, left.shape[1]))
    coupling[:rank, order] = upper[:rank]
    made = np.empty((left.shape[0], width))
    made[:, :rank] = block[:, :rank]
    made[:, rank:] = rng.standard_normal((left.shape[0], width - rank))
    for _ in range(2):  # what is small was left with more of the basis in it than rounding
        made -= basis @ (basis.T @ made)
        made, turn = np.linalg.qr(made)
        made *= np.where(np.diag(turn) < 0, -1.0, 1.0)  # keeps the directions that the coupling speaks of
    return made, coupling
