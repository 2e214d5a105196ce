"""Leading eigenpairs by block Lanczos are those of the whole matrix; sketches are close, below, and no closer."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from eddyscope.kernels.lanczos import LeadingPairs, leading_pairs
from eddyscope.kernels.sketch import sketched_pairs


def operator(values: np.ndarray, seed: int = 0) -> np.ndarray:
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(values.size, values.size)))[0]
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


def noise(size: int, entries: int) -> np.ndarray:
    points = np.random.default_rng(1).normal(size=(size, entries))
    points -= points.mean(axis=0)
    return points @ points.T / size


SPECTRA = {
    "power law": (operator(np.arange(1, 601) ** -1.0), 50),
    "slow": (operator(np.arange(1, 601) ** -0.2), 60),
    "steep": (operator(np.arange(1, 401) ** -6.0), 80),
    "white noise": (noise(500, 2000), 60),
    "rank below what is asked for": (operator(np.concatenate([np.arange(1, 21) ** -1.0, np.zeros(380)])), 60),
    "equal eigenvalues": (operator(np.concatenate([np.ones(20), np.full(280, 0.1)])), 40),
    "more equal eigenvalues than a block has vectors": (operator(np.repeat([1.0, 0.0], [100, 200])), 40),
    "two such eigenvalues": (operator(np.repeat([1.0, 0.5, 0.0], [60, 60, 180])), 40),
    "nearly equal ones": (operator(np.concatenate([1 - 1e-13 * np.arange(100), np.zeros(200)])), 60),
    "all of them": (operator(np.arange(1, 91) ** -1.0), 90),
    "nothing": (np.zeros((120, 120)), 20),
}


def found_of(matrix: np.ndarray, count: int) -> LeadingPairs:
    return leading_pairs(lambda vectors: matrix @ vectors, matrix.shape[0], count)


@pytest.mark.parametrize("name", SPECTRA)
def test_eigenpairs_are_those_of_the_whole_matrix(name: str) -> None:
    matrix, count = SPECTRA[name]
    expected = np.linalg.eigvalsh(matrix)[::-1]
    found = found_of(matrix, count)
    scale = max(expected[0], 1e-300)
    assert found.values.size == count
    # A pair converges to 1e-10 of the largest; the value of one above that is better than its residual.
    above = expected[:count] > 1e-10 * scale
    np.testing.assert_allclose(found.values[above], expected[:count][above], rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(found.values, expected[:count], rtol=0, atol=1.01e-10 * scale)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-12)
    apart = np.linalg.norm(matrix @ found.vectors - found.vectors * found.values, axis=0)
    assert apart.max() <= 1.01e-10 * scale
    np.testing.assert_allclose(found.residuals, apart, rtol=0, atol=1e-14 * scale)


def test_it_agrees_with_another_library() -> None:
    matrix, count = SPECTRA["power law"]
    linear = LinearOperator(matrix.shape, matvec=lambda vector: matrix @ vector, dtype=np.float64)
    expected = np.sort(eigsh(linear, k=count, which="LA", return_eigenvectors=False))[::-1]
    np.testing.assert_allclose(found_of(matrix, count).values, expected, rtol=1e-10)


def test_restarts_keep_the_basis_small() -> None:
    matrix, count = SPECTRA["white noise"]
    widths: list[int] = []

    def apply(vectors: np.ndarray) -> np.ndarray:
        widths.append(vectors.shape[1])
        return matrix @ vectors

    found = leading_pairs(apply, 500, count, block=8)
    assert sum(widths) > 3 * count  # more vectors than the basis holds, so it was restarted
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[::-1][:count], rtol=1e-12)


def test_what_has_not_converged_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eddyscope.kernels.lanczos._MOST_PRODUCTS", 9)
    matrix, count = SPECTRA["power law"]
    found = leading_pairs(lambda vectors: matrix @ vectors, 600, count, block=8)
    assert 0 < found.values.size < count
    expected = np.linalg.eigvalsh(matrix)[::-1][: found.values.size]
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)


def sketch(matrices: Sequence[np.ndarray], count: int, power: int) -> list[tuple[np.ndarray, np.ndarray]]:
    def apply(vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [m @ own for m, own in zip(matrices, vectors, strict=True)]

    return sketched_pairs(apply, len(matrices), matrices[0].shape[0], count, power_iterations=power)


def test_sketched_eigenvalues_are_close_below_and_closer_with_more_iterations() -> None:
    matrices = [operator(np.arange(1, 301) ** -1.0), operator(np.arange(1, 301) ** -0.5, seed=1)]
    for power, tolerance in ((4, 0.05), (8, 0.03)):
        for matrix, (values, vectors) in zip(matrices, sketch(matrices, 40, power), strict=True):
            exact = np.linalg.eigvalsh(matrix)[::-1][:40]
            assert (values <= exact * (1 + 1e-12)).all()
            assert ((exact - values) / exact).max() < tolerance
            np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), atol=1e-12)
    one, more = ((np.linalg.eigvalsh(matrices[1])[::-1][:40] - sketch(matrices, 40, p)[1][0]).max() for p in (4, 12))
    assert more < one / 2


def test_a_sketch_is_the_same_with_the_same_seed() -> None:
    matrix = operator(np.arange(1, 101) ** -1.0)
    first, second = sketch([matrix], 10, 4)[0][0], sketch([matrix], 10, 4)[0][0]
    np.testing.assert_array_equal(first, second)
