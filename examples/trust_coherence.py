"""How often independent positions look coherent: the threshold for equal amplitudes, and the one in use.

python examples/trust_coherence.py
"""

from __future__ import annotations

import numpy as np

from eddyscope.kernels.pairs import pair_statistics
from eddyscope.trust.coherence import ALPHA, coherence_threshold

DOCUMENTS, QUERIES, KEYS = 150, 40, 500


def main() -> None:
    """Print false alarms where phases are independent, without and with a gain that a document's positions share."""
    rng = np.random.default_rng(0)
    analytic = 1 - ALPHA ** (1 / (DOCUMENTS - 1))
    print(f"{DOCUMENTS} documents, {QUERIES * KEYS:,} independent pairs, 5 % expected")
    print(f"{'gain shared in a document':>26} {'analytic threshold':>19} {'threshold in use':>17}")
    for spread in (0.0, 0.5, 1.0):
        gain = np.exp(spread * rng.standard_normal((DOCUMENTS, 1)))
        own = gain * (rng.standard_normal((DOCUMENTS, QUERIES)) + 1j * rng.standard_normal((DOCUMENTS, QUERIES)))
        real, imaginary = gain[..., None] * rng.standard_normal((2, DOCUMENTS, QUERIES, KEYS))
        pairs = pair_statistics(own, real, imaginary)
        square = np.abs(pairs.coherence) ** 2
        alarms = (square > analytic).mean(), (square > coherence_threshold(pairs.chance)).mean()
        print(f"{f'log-normal, sigma {spread:g}':>26} {alarms[0]:19.1%} {alarms[1]:17.1%}")


if __name__ == "__main__":
    main()
