"""Which of two ways to the same numbers is cheaper: estimates of arithmetic and of memory moved.

Costs are counted in multiply-adds of a large float64 matrix product. Everything else is dearer: a number that is read
or written once costs about :data:`MOVED` of them, an operation of a Fourier transform about :data:`FOURIER`. These were
measured on one x86 core and differ little between machines; a wrong guess costs time near the crossing, where both ways
take about as long, and never changes a result beyond rounding.
"""

from __future__ import annotations

import math

#: Multiply-adds in the time of reading or writing one number that does not fit the cache.
MOVED = 10.0
#: Multiply-adds in the time of one floating-point operation of a batched Fourier transform.
FOURIER = 11.0


def lag_grams_pay(documents: int, entries: int, lags: int, windows: int, together: int) -> bool:
    """Whether the Gram of every lag, folded into those of all windows, costs less than a Gram for each window.

    Lag Grams: ``N^2 (E / 2 + m B (1 + 2 M / T))`` for N documents, E entries over B lags, M windows and T lag Grams
    held together (a symmetric product is half a product, each lag Gram is read once, and the M window Grams are read
    and written once every T lags). Window Grams: ``M (N^2 E / 2 + 2 m N E)`` (the snapshots are weighted anew for each
    window). m is :data:`MOVED`. So lag Grams pay with several windows over long runs, and a single window, or lags
    with few queries, is formed directly.
    """
    by_lag = documents**2 * (entries / 2 + MOVED * lags * (1 + 2 * windows / together))
    by_window = windows * (documents**2 * entries / 2 + 2 * MOVED * documents * entries)
    return by_lag < by_window


def fourier_pays(lags: int, length: int) -> bool:
    """Whether a covariance is transformed by FFT of its columns rather than by a product with the transform's matrix.

    At each scale the scalogram needs ``K C`` of an n x n covariance. Product: ``2 n^3`` (real and imaginary part).
    FFT: n columns padded to ``length``, back from the spectrum that all scales share, ``5 n length log2(length)``
    operations of :data:`FOURIER` each. Products win up to about 1,400 lags, FFT above.
    """
    product = 2.0 * lags**3
    transform = FOURIER * 5.0 * lags * length * math.log2(length)
    return transform < product
