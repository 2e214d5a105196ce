"""The smallest windows that together stay within a rise of the loss: greedily, by measurement."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eddyscope.interventions.windows.curve import Unit
from eddyscope.interventions.windows.reader import Reader
from eddyscope.interventions.windows.removal import Removal, Removals
from eddyscope.lagfield import FloatArray

#: Measurements of windows together that a search may make, at least, and for each unit.
LEAST_MEASUREMENTS = 60
MEASUREMENTS_A_UNIT = 4
#: Halvings of the price of a key in the first guess.
_HALVINGS = 7


def ladder(context: int) -> list[int]:
    """Windows that are tried: powers of two and the values half-way between, up to the context."""
    steps = {2**k for k in range(20)} | {3 * 2**k for k in range(20)}
    return [*sorted(s for s in steps if s < context), context]


def measured_windows(context: int) -> list[int]:
    """Windows of the curve: powers of two below the context."""
    return [2**k for k in range(20) if 2**k < context]


def predicted(
    windows: Sequence[int], rises: FloatArray, beyond: FloatArray, steps: Sequence[int], context: int
) -> FloatArray:
    """Rise at every step of the ladder, from those measured and from the energy between them.

    Between two measured windows the rise goes with the energy that is taken away: ``r(w) = r(b) + (r(a) - r(b))
    (E(w) - E(b)) / (E(a) - E(b))`` for a < w < b, E(w) the share of the energy at distances of at least w. Below the
    smallest measured window it goes on in proportion to the energy; without any measured, it is the energy itself.

    Parameters
    ----------
    windows : sequence of int
        Measured windows, ascending.
    rises : array, shape (measured window,)
    beyond : array, shape (context + 1,)
        E(w), from :func:`energy_beyond`.
    steps : sequence of int
    context : int

    Returns
    -------
    array, shape (step,)
        Not negative, falling with the window, 0 at the context.
    """
    anchors, values = [*windows, context], [*np.maximum(rises, 0.0), 0.0]
    values = list(np.maximum.accumulate(values[::-1])[::-1])
    if anchors[0] > 1:
        left = float(beyond[anchors[0]])
        values = [values[0] / left if windows and left > 0 else float(beyond[0]), *values]
        anchors = [0, *anchors]
    energy = np.array([beyond[a] for a in anchors])
    found = np.zeros(len(steps))
    for i, step in enumerate(steps):
        k = int(np.searchsorted(anchors, step, side="left"))
        if anchors[k] == step:
            found[i] = values[k]
            continue
        span = energy[k - 1] - energy[k]
        share = (beyond[step] - energy[k]) / span if span > 0 else 0.5
        found[i] = values[k] + (values[k - 1] - values[k]) * share
    return np.maximum.accumulate(found[::-1])[::-1]


@dataclass(frozen=True)
class Found:
    """Windows that a search ended with.

    Parameters
    ----------
    steps : tuple of int
        Position on the ladder, for each unit.
    rise : float
        Measured on the documents of the search.
    measurements : int
    exhausted : bool
        Whether no window could be shortened further; False where measurements ran out.
    """

    steps: tuple[int, ...]
    rise: float
    measurements: int
    exhausted: bool


class Search:
    """Shortens windows as long as the loss, measured with all of them together, stays within a rise.

    The start is where each unit's keys are worth a common price, by the predicted rises; the price is found by
    measuring the units together. From there on one window is shortened by one step at a time: the one that saves most
    keys for its rise, by a measurement made in the present state.

    Parameters
    ----------
    reader : Reader
        Documents of the search.
    units : sequence of Unit
    steps : sequence of int
        The ladder.
    rises : array, shape (unit, step)
        Predicted, see :func:`predicted`.
    limit : float
        Largest rise, in the reader's unit.
    measurements : int
        Most measurements.
    """

    def __init__(
        self,
        reader: Reader,
        units: Sequence[Unit],
        steps: Sequence[int],
        rises: FloatArray,
        limit: float,
        measurements: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.reader, self.units, self.steps, self.rises = reader, list(units), list(steps), rises
        self.limit, self.most, self.used = limit, measurements, 0
        self._progress = progress
        self._seen: dict[tuple[int, ...], float] = {}

    def run(self, start: Sequence[int] | None = None) -> Found:
        """Find the windows.

        Parameters
        ----------
        start : sequence of int, optional
            Steps that are known to stay within the rise, where there are some.
        """
        now = self._first_guess()
        if start is not None and self._keys(tuple(start)) < self._keys(now):
            now = tuple(start)
        return self._shorten(now)

    def measure(self, steps: tuple[int, ...]) -> float:
        """Mean rise with the windows of all units together."""
        if steps not in self._seen:
            self._seen[steps] = float(self.reader.measured(self.state(steps)).mean())
            self.used += 1
            if self._progress is not None:
                self._progress(min(self.used, self.most), self.most)
        return self._seen[steps]

    def state(self, steps: Sequence[int]) -> dict[int, Removals]:
        """What the windows take away from each layer."""
        return state_of(self.units, [self.steps[s] for s in steps], self.steps[-1])

    def _keys(self, steps: Sequence[int]) -> int:
        return sum(self.steps[s] for s in steps)

    def _first_guess(self) -> tuple[int, ...]:
        """The shortest windows at a common price that stay within the rise."""
        keys = np.array(self.steps) / self.steps[-1]
        widest = tuple(len(self.steps) - 1 for _ in self.units)
        best, low, high = widest, -7.0, 5.0  # powers of ten of the rise that a whole context of keys may cost
        for _ in range(_HALVINGS):
            if self.used + 1 >= self.most:  # one is left for the start of the search
                break
            price = 10 ** ((low + high) / 2)
            steps = tuple(int(i) for i in (price * keys + self.rises).argmin(axis=1))
            if self.measure(steps) <= self.limit:
                low = (low + high) / 2
                best = steps if self._keys(steps) < self._keys(best) else best
            else:
                high = (low + high) / 2
        return best

    def _shorten(self, now: tuple[int, ...]) -> Found:
        self.reader.settle(self.state(now))
        rise = self.measure(now)
        waiting = [self._candidate(unit, now) for unit in range(len(self.units)) if now[unit] > 0]
        heapq.heapify(waiting)
        while waiting and self.used < self.most:
            _, unit, measured_at = heapq.heappop(waiting)
            shorter = (*now[:unit], now[unit] - 1, *now[unit + 1 :])
            after = self.measure(shorter)
            if after > self.limit:
                continue  # it only grows as others get shorter
            saved = self.steps[now[unit]] - self.steps[shorter[unit]]
            worth = -saved / max(after - rise, _tiny(self.limit))
            if measured_at != now and waiting and worth > waiting[0][0]:
                heapq.heappush(waiting, (worth, unit, now))
                continue
            now, rise = shorter, after
            self.reader.settle(self.state(now))
            if now[unit] > 0:
                heapq.heappush(waiting, self._candidate(unit, now))
        return Found(now, rise, self.used, not waiting)

    def _candidate(self, unit: int, now: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        """(minus keys saved for each nat, unit, state in which it was measured: none), by what is predicted."""
        step = now[unit]
        saved = self.steps[step] - self.steps[step - 1]
        added = self.rises[unit, step - 1] - self.rises[unit, step]
        return -saved / max(float(added), _tiny(self.limit)), unit, ()


def widen(steps: tuple[int, ...], rises: FloatArray, ladder: Sequence[int]) -> tuple[int, ...]:
    """Lengthen one window by one step: the one that gives back most of the predicted rise for its keys."""
    best, worth = None, -1.0
    for unit, step in enumerate(steps):
        if step + 1 < len(ladder):
            back = float(rises[unit, step] - rises[unit, step + 1]) / (ladder[step + 1] - ladder[step])
            if back > worth:
                best, worth = unit, back
    if best is None:
        return steps
    return (*steps[:best], steps[best] + 1, *steps[best + 1 :])


def widen_by(steps: tuple[int, ...], rises: FloatArray, ladder: Sequence[int], excess: float) -> tuple[int, ...]:
    """Lengthen windows, by at least one step, until the predicted rise has fallen by an excess."""
    at = np.arange(len(steps))
    goal = float(rises[at, list(steps)].sum()) - excess
    now = widen(steps, rises, ladder)
    while float(rises[at, list(now)].sum()) > goal and (longer := widen(now, rises, ladder)) != now:
        now = longer
    return now


def state_of(units: Sequence[Unit], windows: Sequence[int], context: int) -> dict[int, Removals]:
    """What windows of units take away from each layer."""
    state: dict[int, Removals] = {}
    for unit, window in zip(units, windows, strict=True):
        removal = None if window >= context else Removal(window)
        if unit.head is None:
            state[unit.layer] = (removal,)
        else:
            before = state.get(unit.layer, (None,) * unit.heads)
            state[unit.layer] = (*before[: unit.head], removal, *before[unit.head + 1 :])
    return state


def _tiny(limit: float) -> float:
    """Rises below it count as none: a thousandth of what is allowed."""
    return max(limit, 1e-6) * 1e-3
