"""Read a log of batches as blocks of whole steps, and count the draws in it level by level.

The log is untrusted: every cell is checked, lines are bounded, and memory does not grow with the length of the log.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain, starmap
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpcalc.config.source import readable, visible
from dpcalc.errors import InputError, counted
from dpcalc.mechanisms.matrix_factorization import Participation
from dpcalc.numerics import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import Scheme

_CHUNK = 4 * 1024 * 1024  # bytes read at once
MAX_LINE = 64 * 1024 * 1024
"""Longest line, in bytes: a step of 8 million indices; as Python lists ten times more would fill the memory."""
_BLOCK_ROWS = 500_000  # indices in a block, more only if one step has more
_BLOCK_STEPS = 100_000  # steps in a block
DELIMITERS = ",;\t"
REGULAR = "give a regular file, or - for standard input"
_INDEX = re.compile(r"\s*[0-9]{1,18}\s*")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps of a log, each with all of its entries."""

    first: int  # the first step, from 0
    end: int  # the step after the last one
    steps: IntArray  # step of each entry, ascending, shape (entries,)
    paths: IntArray  # indices of each entry, shape (entries, levels), each >= 0
    lines: IntArray  # line of each entry, from 1, shape (entries,)


def read_blocks(
    path: str, names: Sequence[str], steps: int, *, on_progress: Callable[[float], None]
) -> Iterator[Block]:
    """Yield the steps of a log, CSV or JSONL by its content, in blocks; InputError if it cannot be used.

    `names` are those of the columns of a path, outermost first: one for each level.
    """
    with readable(path, hint=REGULAR) as (name, stream):
        pieces = text_pieces(name, stream)
        # By content, not by name: standard input has none.
        first = next(((at, text) for at, text in pieces if text.strip()), (1, ""))
        is_csv = not first[1].lstrip().startswith(("[", "{")) and bool(first[1])
        blocks = _csv_blocks if is_csv else _json_blocks
        for block in blocks(name, chain([first], pieces), names, steps):
            yield block
            on_progress(block.end / steps)


def text_pieces(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield (number of the first line, text) of pieces of whole lines; InputError if one is too long or not UTF-8."""
    line, waiting, is_begin = 1, b"", True
    while data := stream.read(_CHUNK):
        # `tail` is a line that goes on in the next chunk. It is bounded before it is kept: a file without line ends
        # must not fill the memory.
        head, newline, tail = data.rpartition(b"\n")
        if len(waiting) + len(tail) > MAX_LINE:
            raise InputError(f"{name}:{line}: expected at most {MAX_LINE} characters in a line, got more")
        if not newline:
            waiting += tail
            continue
        text = _decoded(name, line, waiting + head + newline, is_begin=is_begin)
        yield line, text
        line = line + text.count("\n")
        waiting = tail
        is_begin = False
    if waiting:
        yield line, _decoded(name, line, waiting, is_begin=is_begin)


def numbered_lines(start: int, text: str) -> Iterator[tuple[int, str]]:
    return ((line, words) for line, words in enumerate(text.split("\n"), start=start) if words.strip())


def _decoded(name: str, line: int, data: bytes, *, is_begin: bool) -> str:
    try:
        return data.decode("utf-8-sig" if is_begin else "utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line += data[: error.start].count(b"\n")
        raise InputError(f"{name}:{line}: expected UTF-8 text, got other bytes") from None


def _count_error(place: str, steps: int, got: str) -> InputError:
    return InputError(
        f"{place}: expected {counted(steps, 'step')}, as the config says, got {got}; "
        "for a shorter run, state its length: --steps N"
    )


def _json_blocks(name: str, pieces: Iterator[tuple[int, str]], names: Sequence[str], steps: int) -> Iterator[Block]:
    """Yield the blocks of a JSONL log, a step for each line; InputError for a wrong line or number of steps."""
    first, levels = 0, len(names)
    entry_form = f"an index of {names[0]}" if levels == 1 else f"a path [{', '.join(names)}]"
    values: list[int] = []  # indices of all steps that wait for their block
    sizes: list[int] = []  # entries of each of these steps
    lines: list[int] = []

    def block() -> Block:
        return Block(
            first=first,
            end=first + len(sizes),
            steps=np.repeat(np.arange(first, first + len(sizes)), sizes),
            paths=np.array(values, dtype=np.int64).reshape(-1, levels),
            lines=np.repeat(np.array(lines, dtype=np.int64), sizes),
        )

    for line, words in chain.from_iterable(starmap(numbered_lines, pieces)):
        place = f"{name}:{line}"
        if first + len(sizes) >= steps:
            raise _count_error(place, steps, "more")
        try:
            batch = json.loads(words)
        except (ValueError, RecursionError):
            raise InputError(f"{place}: expected a JSON array, the batch of one step, got {short(words)}") from None
        if type(batch) is not list:
            raise InputError(f"{place}: expected an array, the batch of one step, got {short(batch)}")
        indices = batch
        if levels > 1:
            for entry in batch:
                if type(entry) is not list or len(entry) != levels:
                    raise InputError(f"{place}: expected {entry_form} for each entry, got {short(entry)}")
            indices = list(chain.from_iterable(batch))
        # A bool is an int to Python, so that types are compared; -1 and numbers beyond 10^18 are no index anywhere.
        if not set(map(type, indices)) <= {int} or (indices and not 0 <= min(indices) <= max(indices) < 10**18):
            wrong = next(each for each in indices if type(each) is not int or not 0 <= each < 10**18)
            expected = entry_form if levels == 1 and type(wrong) is list else "a whole number >= 0"
            raise InputError(f"{place}: expected {expected} for each entry, got {short(wrong)}")
        values += indices
        sizes.append(len(indices) // levels)
        lines.append(line)
        if len(values) >= _BLOCK_ROWS * levels or len(sizes) >= _BLOCK_STEPS:
            yield block()
            first = first + len(sizes)
            values = []
            sizes = []
            lines = []
    if sizes:
        yield block()
    if first + len(sizes) < steps:
        raise _count_error(name, steps, str(first + len(sizes)))


def unquoted(cell: str) -> str:
    """Return a CSV cell without spaces at its ends, and without double quotes around it if none is inside."""
    text = cell.strip()
    inner = text[1:-1].strip()
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text


def short(value: object) -> str:
    """Return a value, JSON unless it is text, as escaped text for a message, cut after 40 characters."""
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    return visible(text if len(text) <= 40 else f"{text[:40]}...")


def _csv_blocks(name: str, pieces: Iterator[tuple[int, str]], names: Sequence[str], steps: int) -> Iterator[Block]:
    """Yield the blocks of a CSV log, in whole steps; InputError for a wrong header, row or order of steps."""
    number, text = next(pieces)
    header, _, text = text.partition("\n")
    delimiter = max(DELIMITERS, key=header.count)
    named = [unquoted(cell) for cell in header.split(delimiter)]
    expected = ["step", *names]
    if named != expected and (len(names) > 1 or named != ["step", "index"]):
        got = short(header) or "nothing"
        raise InputError(f"{name}:{number}: expected the header {','.join(expected)}, got {got}")

    def block(rows: IntArray, end: int) -> Block:
        rows = rows[rows[:, 1] >= 0]  # -1 is no entry
        return Block(first=first, end=end, steps=rows[:, 0], paths=rows[:, 1:-1], lines=rows[:, -1])

    first = 0
    waiting = np.zeros((0, len(names) + 2), dtype=np.int64)  # rows of the last step, which may go on
    marked = -1  # the last step that has a row
    for start, piece in chain([(number + 1, text)], pieces):
        rows = np.concatenate([waiting, _csv_rows(name, start, piece.replace(delimiter, ","), expected)])
        if not rows.size:
            continue
        at_step, lines = rows[:, 0], rows[:, -1]
        falls = np.flatnonzero(np.diff(at_step, prepend=max(marked, 0)) < 0)
        if falls.size:
            row = int(falls[0])
            got = f"{at_step[row]} after {at_step[row - 1]}"
            raise InputError(f"{name}:{lines[row]}: expected the steps in ascending order, got {got}")
        if at_step[-1] >= steps:
            row = int(np.searchsorted(at_step, steps))
            raise _count_error(f"{name}:{lines[row]}", steps, f"step {at_step[row]}; steps count from 0")
        marked = int(at_step[-1])
        split = int(np.searchsorted(at_step, marked))
        waiting = rows[split:]
        if marked > first:
            yield block(rows[:split], marked)
            first = marked
    # The last step must be there, or a log that was cut off would pass for one that ends with empty batches.
    if marked != steps - 1:
        got = f"{marked + 1}; steps count from 0, and a row without indices (`{steps - 1},`) is an empty batch"
        raise _count_error(name, steps, got)
    yield block(waiting, steps)


def plain_table(text: str, width: int, characters: str, kind: type) -> NDArray[Any] | None:
    """Return CSV text of plain numbers as an array, read at once; None if it has other cells, or no rows."""
    # Most pieces are numbers and delimiters in rows of one length. All others are read row by row, also to find what is
    # wrong and where.
    lines = text.removesuffix("\n").count("\n") + 1
    if not text.strip() or text.translate(dict.fromkeys(map(ord, f"0123456789,\n{characters}"))):
        return None
    try:
        values: NDArray[Any] = np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", comments=None, ndmin=2)
    except ValueError:  # an empty cell, rows of several lengths, too many digits
        return None
    return values if values.shape == (lines, width) else None


def split_rows(name: str, start: int, text: str, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    for line, words in numbered_lines(start, text):
        cells = words.split(",")
        if len(cells) != len(columns):
            expected = f"expected {len(columns)} columns ({', '.join(columns)})"
            raise InputError(f"{name}:{line}: {expected}, got {len(cells)}")
        yield line, cells


def _csv_rows(name: str, start: int, text: str, columns: list[str]) -> IntArray:
    """Return rows (step, index of each level, line); indices are -1 for an empty batch."""
    table = plain_table(text, len(columns), "", np.int64)
    if table is not None and table.max() < 10**18:
        return np.column_stack([table, np.arange(start, start + len(table))])
    rows = []
    for line, cells in split_rows(name, start, text, columns):
        if not any(cell.strip() for cell in cells[1:]) and _INDEX.fullmatch(cells[0]):
            rows.append([int(cells[0]), *(-1 for _ in cells[1:]), line])
            continue
        for column, cell in zip(columns, cells, strict=True):
            if not _INDEX.fullmatch(cell):
                got = short(cell) or "nothing"
                raise InputError(f"{name}:{line}: expected a whole number >= 0 in column `{column}`, got {got}")
        rows.append([*map(int, cells), line])
    return np.array(rows, dtype=np.int64).reshape(-1, len(columns) + 1)


# Counts of logged draws, level by level: one pass over the log, whose memory grows with units and draws only.
# A frame is what one parent holds; a draw is what the log shows of one frame at one time, where a time is a redraw
# period of the level (one step, if it is drawn in every step). Draws of one parent are numbered from 0. At a level
# whose parents are drawn whole the number of a draw is its time, and a time without entries is an empty draw; at other
# levels a draw exists only where the log shows it.


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
