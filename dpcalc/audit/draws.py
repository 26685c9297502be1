"""Counts of logged draws, level by level: one pass over the log, whose memory grows with units and draws only.

A frame is what one parent holds; a draw is what the log shows of one frame at one time, where a time is a redraw period
of the level (one step, if it is drawn in every step). Draws of one parent are numbered from 0. At a level whose parents
are drawn whole the number of a draw is its time, and a time without entries is an empty draw; at other levels a draw
exists only where the log shows it.
"""

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cached_property

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.errors import InputError
from dpcalc.mechanisms.matrix_factorization import Participation
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import Scheme

MAX_UNITS = 20_000_000
"""Units of a level, 9 bytes each: ten times more would not fit into 500 MB."""
OCCURRENCES = 3
"""Repeats within a pass are counted up to so many; a loader that goes through the data has none of 3 in any window."""
_MOST_ORDERED = 1_000_000  # units whose public orders are computed, 20 ms a pass
CERTAIN = 1 - 1e-16
"""A probability above it counts as 1: of 10^7 events one fails with probability 1e-9."""
_NEVER = np.iinfo(np.int32).min  # number of a draw before all others, in no window with any
_MANY = 255


@dataclass(frozen=True, kw_only=True)
class Draws:
    """All draws that the log shows of one level, in the order of parents, then of numbers."""

    parents: IntArray  # shape (draws,), as all others
    numbers: IntArray  # of the draws of each parent, from 0
    times: IntArray  # period of each draw, from 0
    frames: IntArray  # units in the frame
    sizes: IntArray  # different units drawn, >= 1
    entries: IntArray  # units drawn, repetitions within one step included; >= `sizes`
    twice: IntArray  # pairs of equal ones among these entries
    repeated: IntArray  # units that the previous draw, `lag` draws before, holds too
    previous: IntArray  # size of that previous draw, 0 if there is none
    pairs: IntArray  # pairs of neighbouring units (0 and 1, 2 and 3, ...) that are both drawn


@dataclass(kw_only=True)
class Events:
    """Draws of units that a test counts: their number, and (step of the phase, unit) of the first, or None."""

    number: int = 0
    first: tuple[int, int] | None = None

    def add(self, entries: IntArray, steps: IntArray, units: IntArray) -> None:
        self.number += entries.size
        if entries.size and self.first is None:
            place = int(entries.min())
            self.first = int(steps[place]), int(units[place])


@dataclass(kw_only=True)
class LoggedLevel:
    """One level of one phase as declared, and its running counts, from which tests follow once the log is read."""

    number: int  # of the level, from 1
    name: str  # of its units
    scheme: Scheme  # how a draw takes units from a frame
    period: int  # steps for which a draw is held
    times: int  # periods in the phase; later entries of an unfinished one are not counted
    is_every: bool  # True if all levels above are drawn whole, so that every parent draws at every time
    # units in each frame, shape (parents,), or one number for all; the largest where they are unknown
    sizes: IntArray | int
    parents: int  # number of units of the level above
    has_sizes: bool  # False if the sizes are only known to lie between two ends
    # probability that a drawn unit has an entry in the log; None if it is not the same for all units
    shown: float | None
    is_mixed: bool  # True if a parent can be drawn twice at once, so that its entries are those of several draws
    window: int  # draws in which a loader that goes through all units takes each of them once
    # draws from one to the other of two that are compared; those of a pass where units keep their place in it
    lag: int
    limits: Participation | None  # steps in which a unit may take part, where the mechanism states that; else None
    is_last: bool  # True for the records
    # function of (step of the phase, unit) that returns words for it, "step 12: example 7"; without a step if it is < 0
    place: Callable[[int, int], str]
    first_step: int  # of the phase in the log, from 0
    counts: IntArray = field(init=False)  # draws of each unit, shape (units,)
    # number of times that a draw was the first, second, third of its unit in a window
    by_occurrence: list[int] = field(default_factory=lambda: [0] * (OCCURRENCES + 1))
    # draws of a unit that do not lie a multiple of `lag` after its previous one
    moved: Events = field(default_factory=Events)
    # draws of a unit that lie fewer steps after its previous one than its limits allow
    close: Events = field(default_factory=Events)
    entries: int = 0  # entries of the log; repetitions count at the last level only
    repeats: Events = field(default_factory=Events)  # units that stand several times in a step
    fewest_entries: int = _MANY  # of one unit in one step
    most_entries: int = 0
    first_repeat: int = 0  # entries of the first of the repeats, 0 for none
    # first batches of passes in secret order that are those of a public seed: (its words, units in it) of each
    public: list[tuple[str, int]] = field(default_factory=list)
    unheld: Events = field(default_factory=Events)  # draws of a unit that are not in all steps of their redraw period

    def __post_init__(self) -> None:
        units = self.units
        if units > MAX_UNITS:
            raise InputError(
                f"audit-sampler: expected at most {MAX_UNITS:,} units of level {self.name}, got {units:,}; "
                "audit a run on fewer of them"
            )
        self.counts = np.zeros(units, dtype=np.int32)
        self._last = np.full(units, _NEVER, dtype=np.int32)
        self._occurrences = np.zeros(units, dtype=np.uint8)
        self._draws_of_parent = np.zeros(0 if self.is_every else self.parents, dtype=np.int32)
        self._parts: list[tuple[IntArray, ...]] = []

    def add(self, steps: IntArray, units: IntArray, *, end: int) -> None:
        """Count entries, of whole periods and ordered by (step, unit); at `end` the last period may be cut short."""
        # Each unit of a step once. A last period that the run cuts short may have hidden units that a whole one shows:
        # `times` leaves it out.
        begins = _begins_of_equal(units, steps)
        copies = np.diff(begins, append=units.size)
        if self.is_last:
            self.entries += units.size
            self.fewest_entries = min(self.fewest_entries, int(copies.min()))
            self.most_entries = max(self.most_entries, int(copies.max()))
            repeated = np.flatnonzero(copies > 1)
            if repeated.size and not self.first_repeat:
                self.first_repeat = int(copies[repeated[0]])
            self.repeats.add(repeated, steps[begins], units[begins])
        table = np.array([steps[begins] // self.period, steps[begins], units[begins], copies])
        table = table[:, table[0] < self.times]
        if not table.size:
            return
        if self.period > 1:  # each unit of a period once; a held unit is in every step of it, or of what the run has
            table = table[:, np.lexsort((table[2], table[0]))]
            begins = _begins_of_equal(table[2], table[0])
            in_steps = np.diff(begins, append=table.shape[1])
            table = table[:, begins]
            is_unheld = in_steps != np.minimum(self.period, end - table[0] * self.period)
            self.unheld.add(np.flatnonzero(is_unheld), table[1], table[2])
        times, _, units, copies = table

        # Draws. Where a parent is not always drawn, the log does not show its empty draws: they have no number.
        parents = self.parents_of(units)
        begins = _begins_of_equal(parents, times)
        sizes = np.diff(begins, append=units.size)
        draw = np.repeat(np.arange(begins.size), sizes)
        numbers = times[begins]
        if not self.is_every:  # in order of time each parent goes on from its earlier draws
            order = np.argsort(parents[begins], kind="stable")
            ordered = parents[begins][order]
            firsts = _begins_of_equal(ordered)
            lengths = np.diff(firsts, append=ordered.size)
            numbers = np.zeros(ordered.size, dtype=np.int64)
            numbers[order] = np.arange(ordered.size) - np.repeat(firsts, lengths) + self._draws_of_parent[ordered]
            self._draws_of_parent[ordered[firsts]] += lengths.astype(np.int32)

        if self.scheme.is_secret and isinstance(self.sizes, int) and self.sizes <= _MOST_ORDERED:
            for first in np.flatnonzero(numbers % self.window == 0):
                told = units[begins[first] : begins[first] + sizes[first]]
                for words, order in _public_orders(self.sizes, told.size, int(numbers[first]) // self.window):
                    if np.array_equal(np.sort(order), told):
                        self.public.append((words, told.size))

        # The draws of each unit in a row, and how many draws ago it was last drawn, 0 for never.
        order = np.argsort(units, kind="stable")
        unit, number = units[order], numbers[draw][order]
        firsts = _begins_of_equal(unit)
        lasts = np.append(firsts[1:], unit.size) - 1
        self.counts[unit[firsts]] += np.diff(firsts, append=unit.size).astype(np.int32)
        previous = np.concatenate([[0], number[:-1]])
        previous[firsts] = self._last[unit[firsts]]
        self._last[unit[lasts]] = number[lasts]
        distance = np.where(previous == _NEVER, 0, number - previous)
        separation = 0 if self.limits is None else self.limits.separation
        self.moved.add(order[distance % self.lag != 0], times * self.period, units)
        self.close.add(order[(distance > 0) & (distance < separation)], times * self.period, units)

        # Which draws are their unit's first, second, third in a window: from the begin of the run of draws, and from
        # what was counted before for a run that goes on.
        goes_on = (distance > 0) & ((number - distance) // self.window == number // self.window)
        runs = np.flatnonzero((np.diff(unit, prepend=-1) != 0) | ~goes_on)
        before = np.where(goes_on[runs], self._occurrences[unit[runs]], 0).astype(np.int64)
        occurrence = np.arange(unit.size) - np.repeat(runs - before, np.diff(runs, append=unit.size)) + 1
        for place in range(1, OCCURRENCES + 1):
            self.by_occurrence[place] += int((occurrence == place).sum())
        self._occurrences[unit[lasts]] = np.minimum(occurrence[lasts], _MANY)

        # Units 2k and 2k + 1 are neighbours: loaders that draw blocks, or shuffle in a buffer, hold both too often.
        position = units - self.first_units(parents)
        is_pair = (position[:-1] % 2 == 0) & (np.diff(units) == 1) & (np.diff(draw) == 0)
        repeated, pairs = (
            np.bincount(draw[places], minlength=begins.size)
            for places in (order[distance == self.lag], np.flatnonzero(is_pair))
        )
        entries, twice = np.add.reduceat([copies, copies * (copies - 1) // 2], begins, axis=1)
        twice = np.minimum(twice, np.iinfo(np.int32).max)
        columns = (parents[begins], numbers, times[begins], sizes, entries, twice, repeated, pairs)
        self._parts.append(tuple(each.astype(np.int32) for each in columns))

    @property
    def is_shown(self) -> bool:
        return self.shown is not None and self.shown >= CERTAIN

    @property
    def has_known_law(self) -> bool:
        """True if the sizes of frames are known, and a drawn unit has entries with one known probability."""
        return self.shown is not None and self.has_sizes

    @cached_property
    def starts(self) -> IntArray:
        """Number of the first unit of each frame, and of all units at the end, shape (parents + 1,)."""
        return np.concatenate([[0], np.cumsum(np.broadcast_to(self.sizes, (self.parents,)))]).astype(np.int64)

    @cached_property
    def frames(self) -> tuple[IntArray, IntArray]:
        """Sizes of frames, and the number of frames of each size."""
        return np.unique(np.broadcast_to(self.sizes, (self.parents,)), return_counts=True)

    @property
    def neighbours(self) -> int:
        """Number of pairs of neighbouring units."""
        sizes, number = self.frames
        return int((sizes // 2 * number).sum())

    @property
    def units(self) -> int:
        return self.parents * self.sizes if isinstance(self.sizes, int) else int(self.sizes.sum())

    def frame_sizes(self, parents: IntArray) -> IntArray:
        return np.full(parents.size, self.sizes) if isinstance(self.sizes, int) else self.sizes[parents]

    def first_units(self, parents: IntArray) -> IntArray:
        return parents * self.sizes if isinstance(self.sizes, int) else self.starts[parents]

    def parents_of(self, units: IntArray) -> IntArray:
        if isinstance(self.sizes, int):
            return units // self.sizes
        return np.searchsorted(self.starts, units, side="right") - 1

    @property
    def number_of_draws(self) -> int:
        """Draws in all, or at a level whose parents are not drawn whole those that the log shows."""
        return self.parents * self.times if self.is_every else self.draws.sizes.size

    def first_place(self, events: Events) -> str:
        return "" if events.first is None else self.place(*events.first)

    @cached_property
    def draws(self) -> Draws:
        """All draws by (parent, number), each with the size of the draw `lag` before it, 0 if none."""
        empty = (np.zeros(0, dtype=np.int64),) * 8
        columns = [np.concatenate(part).astype(np.int64) for part in zip(*(self._parts or [empty]), strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        parents, numbers, times, sizes, entries, twice, repeated, pairs = (column[order] for column in columns)
        lag = self.lag
        keys = parents * (int(numbers.max(initial=0)) + 1 + lag) + numbers
        place = np.minimum(np.searchsorted(keys, keys - lag), max(keys.size - 1, 0))
        has_previous = (keys[place] == keys - lag) & (numbers >= lag)
        return Draws(
            parents=parents,
            numbers=numbers,
            times=times,
            frames=self.frame_sizes(parents),
            sizes=sizes,
            entries=entries,
            twice=twice,
            repeated=repeated,
            previous=np.where(has_previous, sizes[place], 0),
            pairs=pairs,
        )


def _public_orders(frame: int, size: int, seed: int) -> Iterator[tuple[str, IntArray]]:
    """Yield (words, first `size` units of the order) that loaders take who seed a pass by its number, from 0."""
    # PyTorch's randperm takes a number of MT19937 for each place, and swaps that place with one from there on.
    numbers = np.random.RandomState(seed).randint(0, 2**32, size=size, dtype=np.uint32).tolist()
    moved: dict[int, int] = {}
    order = []
    for place, number in enumerate(numbers):
        other = place + number % (frame - place)
        order.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    yield "torch.randperm", np.array(order)
    yield "numpy.random.default_rng", np.random.default_rng(seed).permutation(frame)[:size]


def _begins_of_equal(first: IntArray, *others: IntArray) -> IntArray:
    """Return the places at which runs of entries begin that are equal in all arrays; the first is always 0."""
    is_new = np.diff(first) != 0
    for other in others:
        is_new |= np.diff(other) != 0
    return np.flatnonzero(np.concatenate([[True], is_new]))
