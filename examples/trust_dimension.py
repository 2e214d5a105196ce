"""What 150 snapshots in 33,000 dimensions tell of the number of patterns: participation ratio and effective rank.

python examples/trust_dimension.py [DRAWS]
"""

from __future__ import annotations

import sys

import numpy as np

from eddyscope.kernels.pod import decompose
from eddyscope.kernels.rank import participation_ratio
from eddyscope.trust.brackets import rank_bracket
from eddyscope.trust.simulate import gaussian_gram, power_law, true_effective_rank, true_participation_ratio

DOCUMENTS, ENTRIES, TOLERANCE = 150, 33_000, 0.10


def main(draws: int) -> None:
    """Print estimates beside the truth, for white noise, a slow and a fast decay."""
    print(f"{DOCUMENTS} documents, {ENTRIES:,} entries, mean of {draws} draws; H* misses at most {TOLERANCE:.0%}")
    print(f"{'beta':>5} {'PR true':>9} {'naive':>8} {'unbiased':>9}   {'H* true':>8} {'in-sample':>10} {'held-out':>9}")
    for beta in (0.0, 1.0, 2.0):
        spectrum = power_law(ENTRIES, beta)
        naive, unbiased, low, high = [], [], [], []
        for draw in range(draws):
            gram = gaussian_gram(spectrum, DOCUMENTS, seed=draw)
            values = decompose(gram).eigenvalues
            naive.append(values.sum() ** 2 / (values**2).sum())
            unbiased.append(participation_ratio(gram))
            bracket = rank_bracket(gram, values, np.arange(DOCUMENTS), (TOLERANCE,), seed=draw)
            low.append(bracket.low[0])
            high.append(bracket.high[0])
        print(
            f"{beta:5.1f} {true_participation_ratio(spectrum):9.4g} {np.mean(naive):8.4g} {np.mean(unbiased):9.4g}   "
            f"{true_effective_rank(spectrum, TOLERANCE):8d} {np.mean(low):10.4g} {np.mean(high):9.4g}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
