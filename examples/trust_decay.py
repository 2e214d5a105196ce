"""What 150 snapshots in 33,000 dimensions tell of a decay exponent: as published, and resolved.

python examples/trust_decay.py [DRAWS]
"""

from __future__ import annotations

import sys

import numpy as np

from eddyscope.kernels.decay import fit_decay
from eddyscope.kernels.pod import decompose
from eddyscope.trust.resolved import resolved_decay
from eddyscope.trust.simulate import gaussian_gram, power_law

DOCUMENTS, ENTRIES = 150, 33_000


def main(draws: int) -> None:
    """Print both exponents of Gaussian fields whose true exponent is known."""
    print(f"{DOCUMENTS} documents, {ENTRIES:,} entries, mean of {draws} draws")
    print(f"{'true':>6} {'published':>10} {'resolved':>9} {'window':>7} {'unresolved':>11}")
    blocks = np.arange(DOCUMENTS)
    for beta in (0.5, 1.0, 1.5, 2.0):
        published, resolved, windows = [], [], []
        for draw in range(draws):
            gram = gaussian_gram(power_law(ENTRIES, beta), DOCUMENTS, seed=draw)
            published.append(fit_decay(decompose(gram).eigenvalues).beta)
            found = resolved_decay(gram, blocks, ENTRIES)
            windows.append(found.window)
            if found.status == "ok":
                resolved.append(found.beta)
        shown = f"{np.mean(resolved):9.3f}" if resolved else f"{'-':>9}"
        missing = f"{draws - len(resolved)} of {draws}"
        print(f"{beta:6.1f} {np.mean(published):10.3f} {shown} {np.mean(windows):7.1f} {missing:>11}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
