"""Nested sampling units and how one step draws them, and episodes: tasks that are built in every step.

Levels are numbered from 1 (primary sampling units) to `depth` (records); level 0 is everything. Every unit of level
j - 1 holds between `min_count` and `count` units of level j: equally many, or as a tree says, or an unknown number
between the two. Source: Algorithm 1 of Tombs, Kotevska and Young 2022 (CEUR Vol-3318 short 3), with a scheme for
each level; docs/theory.md, Definition 1.1.

Episodes (few-shot learning, MAML): a task draws `ways` of the classes and `shots + queries` records of each, all
without replacement; the tasks of a step are independent. Such a task is no unit of the data: a record or a class can be
in several.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain, islice, pairwise
from math import ceil, prod
from typing import Any

from dpcalc.errors import InputError, KeyedInputError
from dpcalc.keys import COUNT, NUMBER, key
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import All, Allocation, Poisson, Scheme, SummedPoisson, same_law

# Unequal sizes: nested counts as one list of sizes for each level, and what is wrong with nested counts

NestedCounts = int | list["NestedCounts"]
"""Numbers of records, nested by level."""
MAX_COUNT = 10**15
MAX_RECORDS = 10**18
_EMPTY = "leave out units that hold nothing"
_DEEPER = "one list within another for each level, the innermost numbers count the units of the last one"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """The number of units that each unit holds; equal to trees that differ only in the order of siblings."""

    # For each level, the number of its units under every unit of the level above, in order.
    sizes: tuple[tuple[int, ...], ...] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Return True for a tree with the same counts up to the order of siblings: equal sizes, or equal digests."""
        return isinstance(other, Tree) and (self.sizes == other.sizes or self.digest == other.digest)

    def __hash__(self) -> int:
        """Hash the number of units of each level, which the order of siblings does not change."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(map(sum, self.sizes)))

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of the repr of the nested counts with siblings sorted at every level."""
        return sha256(repr(self._nested(sorted)).encode()).hexdigest()

    def nested(self) -> NestedCounts:
        """Return the nested lists of counts that `tree_of` takes."""
        return self._nested(list)

    def _nested(self, arranged: Callable[[Iterable[NestedCounts]], list[NestedCounts]]) -> NestedCounts:
        """Return the nested counts, with the list of each unit's children made by `arranged` (`list` or `sorted`)."""
        # From the records up: each unit takes as many of the lists below it as it has children. Sorted lists are equal
        # for trees that differ only in the order of siblings, at every level.
        units: list[NestedCounts] = list(self.sizes[-1])
        for sizes in reversed(self.sizes[:-1]):
            below = iter(units)
            units = [arranged(islice(below, size)) for size in sizes]
        return units[0]

    def place(self, level: int, unit: int) -> tuple[int, ...]:
        """Return the indices, from 0 and outermost first, of a unit and its ancestors, each within its parent."""
        # From the unit outwards: its parent is the last one whose children begin at or before it.
        indices: list[int] = []
        for sizes in reversed(self.sizes[:level]):
            starts = list(accumulate(sizes, initial=0))
            parent = bisect_right(starts, unit) - 1
            indices.append(unit - starts[parent])
            unit = parent
        return tuple(reversed(indices))

    def smallest_parent(self, level: int) -> str:
        """Return the dotted path of the first unit that holds the fewest units of a level, "data.tree[0][2]"."""
        sizes = self.sizes[level - 1]
        return f"data.tree{indexed(self.place(level - 1, sizes.index(min(sizes))))}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something in nested counts that is no tree over the levels."""

    at: tuple[int, ...]  # indices from the top, from 0
    text: str  # what is expected there, and what is there instead
    hint: str = ""  # what to do
    is_amount: bool = False  # it is a number, only too small or too large


def indexed(at: Sequence[int]) -> str:
    """Return indices as they are written behind a name, "[1][0]"; "" for none.

    Example:
        >>> "tree" + indexed((1, 0))
        'tree[1][0]'
    """
    return "".join(f"[{index}]" for index in at)


def tree_of(counts: object, names: Sequence[str]) -> Tree:
    """Return the tree of nested lists of record counts, one list level a level; raise InputError for the first fault.

    Example:
        >>> tree_of([[4, 2, 3], [4, 5]], ("clinic", "patient", "visit")).sizes
        ((2,), (3, 2), (4, 2, 3, 4, 5))
    """
    for fault in faults(counts, names):
        raise InputError(f"tree{indexed(fault.at)}: expected {fault.text}")
    return unchecked_tree(counts, names)


def unchecked_tree(counts: object, names: Sequence[str]) -> Tree:
    """Return the tree of nested counts that are known to have no `faults`; nothing is checked."""
    sizes: list[tuple[int, ...]] = []
    units: list[Any] = [counts]
    for _ in names[1:]:
        sizes.append(tuple(map(len, units)))
        units = list(chain.from_iterable(units))
    return Tree(sizes=(*sizes, tuple(units)))


def faults(counts: object, names: Sequence[str]) -> Iterator[Fault]:
    """Yield, in order, each place where `counts` is no tree over these levels; one fault for fewer than two levels."""
    if len(names) < 2:
        yield Fault(at=(), text="over two levels or more, got one", hint="the `count` of a single level says how many")
        return
    # One flat list a level: a search of every place, which names the fault, takes 0.8 s for a million counts, this .06.
    # Types are compared themselves, since a bool is an int.
    units: list[Any] = [counts]
    is_sound = True
    for _ in names[1:]:
        is_sound = is_sound and set(map(type, units)) <= {list, tuple} and all(units)
        units = list(chain.from_iterable(units)) if is_sound else []
    is_sound = is_sound and set(map(type, units)) == {int} and min(units) >= 1 and max(units) <= MAX_COUNT
    if not is_sound:
        yield from _faults(counts, names, ())


def _faults(counts: object, names: Sequence[str], at: tuple[int, ...]) -> Iterator[Fault]:
    """Yield the faults of the nested counts at indices `at`, the innermost of which are counts of records."""
    name = names[0]
    if len(names) > 1:
        if not isinstance(counts, list | tuple):
            yield Fault(at=at, text=f"a list with an entry for each {name}, got {_excerpt(counts)}", hint=_DEEPER)
        elif not counts:
            yield Fault(at=at, text=f"at least one {name}, got an empty list", hint=_EMPTY, is_amount=True)
        else:
            for index, child in enumerate(counts):
                yield from _faults(child, names[1:], (*at, index))
    elif isinstance(counts, list | tuple):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got a list", hint=_DEEPER)
    elif not isinstance(counts, int) or isinstance(counts, bool):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got {_excerpt(counts)}")
    elif counts < 1:
        yield Fault(at=at, text=f"at least 1, how many of level {name}, got {counts}", hint=_EMPTY, is_amount=True)
    elif counts > MAX_COUNT:
        yield Fault(at=at, text=f"at most {MAX_COUNT:.0e}, how many of level {name}", is_amount=True)


def _excerpt(value: object) -> str:
    """Return a string, or the repr of another value, cut to 40 characters and "..."."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


# Levels

TASK = "task"  # name of a constructed unit in messages


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Construction of tasks in a step, as in few-shot learning: over two levels, classes and their records."""

    tasks: int = key(
        COUNT,
        "Tasks that a step constructs, independently of each other.",
        advice="say how many tasks one step constructs",
    )
    ways: int = key(COUNT, "Classes in a task, drawn without replacement.", advice="say how many classes a task has")
    shots: int = key(
        NUMBER,
        "Records of each class in a task that it learns from.",
        advice="say how many records of each class a task learns from; 0 if none",
    )
    queries: int = key(
        NUMBER,
        "Further records of each class in a task, by which it is judged.",
        advice="say how many further records of each class judge it; 0 if none",
    )

    def __post_init__(self) -> None:
        for name in ("tasks", "ways"):
            if getattr(self, name) < 1:
                raise InputError(f"episodes.{name}: expected a whole number >= 1, got {getattr(self, name)}")
        if min(self.shots, self.queries) < 0:
            raise InputError(f"episodes: expected shots and queries >= 0, got {self.shots} and {self.queries}")
        if not self.records:
            problem = "has no records: `shots` and `queries` are both 0"
            raise KeyedInputError("episodes", problem, "a task needs at least one record of each class")

    @property
    def records(self) -> int:
        """Return shots + queries, the records of one class in a task that holds the class."""
        return self.shots + self.queries

    def rate(self, counts: Sequence[int]) -> Fraction:
        """Return the exact probability that one task holds a class or, of two counts, a record of it."""
        return prod(map(Fraction, (self.ways, self.records), counts), start=Fraction(1))


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of nesting; a scheme whose draw is sure is simplified."""

    name: str  # the user's word for its units
    count: int  # most units under one parent, >= 1; for add-remove the count of the larger data set
    min_count: int = 0  # fewest units under one parent; 0 stands for `count`: all parents hold the same number
    scheme: Scheme  # how one step draws them from each drawn parent
    redraw_every: int = 1  # steps for which one draw is held, >= 1
    is_copy: bool = False  # whether its units are the copies of a unit that several draws of a step can hold
    # Whether nobody stated the count: it fits the rate, on which alone epsilon depends.
    is_assumed: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.min_count:
            object.__setattr__(self, "min_count", self.count)
        if self.count < 1:
            raise InputError(f"level {self.name}: expected a count >= 1, got {self.count}")
        if not 1 <= self.min_count <= self.count:
            raise InputError(f"level {self.name}: expected a least count from 1 to {self.count}, got {self.min_count}")
        if self.redraw_every < 1:
            raise InputError(f"level {self.name}: expected redraw_every >= 1, got {self.redraw_every}")
        scheme = self.scheme
        size = scheme.size if scheme.is_shuffled or (scheme.has_stand_in and not scheme.at_most) else 0
        for fault in size_faults(self.name, size, self.min_count, self.count):
            raise fault
        object.__setattr__(self, "scheme", scheme.for_counts(self.min_count, self.count))

    @property
    def is_equal(self) -> bool:
        """True if all parents hold the same number of its units."""
        return self.min_count == self.count

    @property
    def is_whole(self) -> bool:
        """True if every unit of a drawn parent is surely drawn; False for any capped or with-replacement draw."""
        # A Poisson draw is cut at the largest count, and its exact rate takes long; a unit that is drawn with
        # replacement out of one can be drawn several times.
        is_sure = not (self.scheme.is_cut or self.scheme.can_repeat or self.scheme.is_summed)
        return is_sure and all(self.scheme.rate(count) == 1 for count in (self.min_count, self.count))

    @property
    def is_drawn(self) -> bool:
        """True if the draw can hold a unit."""
        return self.scheme.share(self.min_count) > 0

    @property
    def rate(self) -> Fraction:
        """Return the largest probability that a unit of a drawn parent is drawn; 1 for a shuffle of unequal sizes."""
        if self.scheme.is_shuffled and not self.is_equal:
            return Fraction(1)  # what drop_last leaves out of a pass neither grows nor falls with the count
        return self.scheme.rate(self.min_count)

    @property
    def max_drawn(self) -> int:
        """Return the largest number of units drawn from one drawn parent, at the largest count."""
        return self.scheme.max_drawn(self.count)

    @property
    def count_words(self) -> str:
        """The number of units under one parent: "5", or "3 to 5" where it differs."""
        if self.is_assumed:
            return "an unknown number"
        return str(self.count) if self.is_equal else f"{self.min_count} to {self.count}"


def size_faults(
    level: str, size: int | Fraction, min_count: int | Fraction, count: int | Fraction, *, smallest_parent: str = ""
) -> Iterator[KeyedInputError]:
    """Yield one error at "LEVEL.size" if `size` exceeds `min_count`; it names `smallest_parent` if sizes differ."""
    if size <= min_count:
        return
    limit = f"the {'count' if min_count == count else 'smallest count'} {min_count} of level `{level}`"
    if smallest_parent and min_count < count:
        limit = f"the {min_count} of `{smallest_parent}`"
    hint = "check both numbers; `scheme: all` draws everything"
    yield KeyedInputError(f"{level}.size", f"is {size}, more than {limit}", hint)


def name_faults(names: Sequence[str]) -> Iterator[KeyedInputError]:
    """Yield an error for each level named like an outer one, at "levels.INDEX.name" with the index from 0."""
    for index, name in enumerate(names):
        if name in names[:index]:
            problem = f"is that of an outer level: two levels are called `{name}`"
            yield KeyedInputError(f"levels.{index}.name", problem, "give each level its own name", code="DPC105")


def draw_faults(levels: Sequence["Level"], steps: int | None = None) -> Iterator[KeyedInputError]:
    """Yield the errors of schemes and redraw periods that do not fit each other or the number of steps."""
    for level in levels:
        if steps is not None and isinstance(level.scheme, Allocation):
            key = level.scheme.amount_key
            chosen = getattr(level.scheme, key)
            if chosen > steps:
                problem = f"is {chosen}, more than the {steps} steps of the phase"
                yield KeyedInputError(f"{level.name}.{key}", problem, f"lower `{key}`, or train for more steps")

    # A draw is made out of one drawn parent: it cannot outlast it, nor be cut off in the middle by the next one.
    for above, level in pairwise(levels):
        place, period = f"{level.name}.redraw_every", above.redraw_every
        if level.redraw_every > period:
            yield KeyedInputError(
                place,
                f"is {level.redraw_every}, longer than the {period} of level `{above.name}`, out of which level "
                f"`{level.name}` is drawn",
                f"hold `{above.name}` for as long or a multiple: a new {above.name} needs a new draw within",
                code="DPC107",
            )
        elif period % level.redraw_every:
            yield KeyedInputError(
                place,
                f"is {level.redraw_every}, which does not divide the {period} of level `{above.name}`",
                f"one draw of `{above.name}` must hold for a whole number of draws of `{level.name}`",
                code="DPC107",
            )

    for number, level in enumerate(levels):
        # A pass goes over all units of levels drawn whole; a shuffle may lie below a shuffle. Even of an allocation of
        # one bin nothing counts the passes below it.
        for above in levels[:number] if level.scheme.is_shuffled or level.scheme.is_allocated else ():
            may_lie_above = above.is_whole and not above.scheme.is_allocated
            if above.scheme.is_shuffled:
                may_lie_above = level.scheme.is_shuffled
            if not may_lie_above:
                yield KeyedInputError(
                    f"{level.name}.scheme",
                    f"is `{level.scheme.name}`, but level `{above.name}` above it is not drawn whole",
                    f"a pass goes over all units: draw `{above.name}` with scheme all, or state another scheme here",
                    code="DPC107",
                )
                break
        capped = " with max_batch_size" if level.scheme.is_cut else " with draws" if level.scheme.is_summed else ""
        if level.redraw_every > 1 and not level.scheme.can_be_held:
            problem = f"is {level.redraw_every}: expected a fixed, poisson or all draw to be held, got"
            yield KeyedInputError(f"{level.name}.redraw_every", f"{problem} {level.scheme.name}{capped}", code="DPC107")
        repeated = next((x for x in levels[:number] if x.scheme.can_repeat), None)
        if level.scheme.is_cut and repeated is not None:
            yield KeyedInputError(
                f"{level.name}.max_batch_size",
                f"is {level.max_drawn}, but level `{repeated.name}` above it is drawn with replacement",
                f"a {repeated.name} drawn twice makes two draws, each cut by itself; no bound is proved for it: draw "
                "it in another way, or leave max_batch_size out",
                code="DPC107",
            )


def summed_faults(hierarchy: "Hierarchy", *, clip: int, unit: int, adds_noise: bool) -> Iterator[KeyedInputError]:
    """Yield the errors of several draws that one step adds up where no bound is proved for them."""
    if not hierarchy.summed:
        return
    number, *others = (at for at, level in enumerate(hierarchy.levels, start=1) if level.scheme.is_summed)
    level, code = hierarchy.level(number), "DPC104"
    if others:
        again = hierarchy.level(others[0]).name
        problem = f"adds up several draws below level `{level.name}`, which does so, too"
        yield KeyedInputError(f"sampling.{again}.draws", problem, "state it for one level", code=code)
    if hierarchy.tree is not None and number < hierarchy.depth:
        problem = "goes with units of one size below it, or with the innermost level: no bound is proved for others"
        yield KeyedInputError(
            f"sampling.{level.name}.draws", problem, "state `min` and `max` in the place of the tree", code=code
        )
    if not adds_noise:
        problem = (
            "goes with noise on a sum: a guarantee for one unit does not cover one that a batch holds several times"
        )
        yield KeyedInputError(f"sampling.{level.name}.draws", problem, "state type gaussian, or one batch", code=code)
    if clip < number:
        problem = f"is above level `{level.name}`, of which a step adds up several draws, each of them clipped"
        yield KeyedInputError("mechanism.clip", problem, f"`clip: {level.name}` clips each drawn one", code=code)
    if unit > number:
        problem = (
            f"adds up several draws, and level `{hierarchy.level(unit).name}` below it is protected: no bound is proved"
        )
        yield KeyedInputError(
            f"sampling.{level.name}.draws", problem, f"protect `{level.name}`, which contains it", code=code
        )


def episode_faults(episodes: Episodes, levels: Sequence["Level"], tree: Tree | None) -> Iterator[KeyedInputError]:
    """Yield the errors of episodes that do not fit the data: not two levels, or too few classes or records."""
    names = [level.name for level in levels]
    if len(levels) != 2:
        problem = f"takes two levels, classes and their records, and the data have {len(levels)} ({', '.join(names)})"
        yield KeyedInputError("episodes", problem, "e.g. `class` and `image`, each with its count", code="DPC107")
        return
    classes, records = levels
    if episodes.ways > classes.min_count:
        problem = f"is {episodes.ways}, more than the {classes.min_count} of level `{classes.name}`"
        yield KeyedInputError("episodes.ways", problem, "a task draws its classes without replacement")
    if episodes.records > records.min_count:
        place = "" if tree is None or records.is_equal else tree.smallest_parent(2)
        smallest = "" if records.is_equal or place else "smallest count "
        limit = f"`{place}`" if place else f"level `{records.name}`"
        problem = f"draws {episodes.shots} + {episodes.queries} records of a class, more than the "
        problem += f"{smallest}{records.min_count} of {limit}"
        yield KeyedInputError("episodes", problem, "lower `shots` or `queries`")


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The levels, outermost first."""

    levels: tuple[Level, ...]
    tree: Tree | None = None  # the size of every unit where they differ and are known
    episodes: Episodes | None = None  # how a step builds its tasks where the levels are classes and their records

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("data.levels: expected at least one level, got none")
        for fault in name_faults([level.name for level in self.levels]):
            raise fault
        ends = [(level.min_count, level.count) for level in self.levels]
        if self.tree is not None and [(min(sizes), max(sizes)) for sizes in self.tree.sizes] != ends:
            raise InputError("data.levels: expected the fewest and most units that the tree has under one parent")
        for fault in draw_faults(self.levels):
            raise fault
        if self.episodes is not None:
            for fault in episode_faults(self.episodes, self.levels, self.tree):
                raise fault
            if any(x.scheme != All() or x.redraw_every > 1 for x in self.levels):
                raise InputError("episodes: expected two levels, classes and their records, without draws of their own")
        if self.units(self.depth) > MAX_RECORDS:
            raise InputError(f"data.levels: expected at most {MAX_RECORDS:.0e} records in all, got more")
        if self.tree is not None and all(level.is_equal for level in self.levels):
            object.__setattr__(self, "tree", None)

    @property
    def depth(self) -> int:
        """Number of levels; the records are level `depth`."""
        return len(self.levels)

    @property
    def allocated(self) -> int:
        """Number of the level whose units choose their steps (balls in bins, random allocation); 0 if there is none."""
        return next((at for at, level in enumerate(self.levels, start=1) if level.scheme.is_allocated), 0)

    @property
    def allocation(self) -> Allocation | None:
        """The scheme of the allocated level; None if there is none."""
        scheme = self.levels[self.allocated - 1].scheme
        return scheme if isinstance(scheme, Allocation) else None

    @property
    def chosen_rate(self) -> Fraction:
        """The probability that a unit of the allocated level chooses a step; 1 without an allocation."""
        return Fraction(1) if self.allocation is None else self.level(self.allocated).rate

    def given_allocation(self) -> "Hierarchy":
        """Return the hierarchy in a step that the unit chose: the allocated level, if any, is drawn whole."""
        # Bounds of one step are those of this hierarchy.
        if self.allocation is None:
            return self
        levels = (replace(level, scheme=All()) if level.scheme.is_allocated else level for level in self.levels)
        return replace(self, levels=tuple(levels))

    @property
    def data(self) -> tuple[object, ...]:
        """Return ((name, min_count, count) of each level..., the tree's sizes or None), without the draws."""
        levels = [level for level in self.levels if not level.is_copy]
        sizes = None if self.tree is None else self.tree.sizes[: len(levels)]
        return (*((level.name, level.min_count, level.count) for level in levels), sizes)

    @property
    def summed(self) -> int:
        """Number of the level of which a step adds up several draws; 0 if there is none."""
        return next((at for at, level in enumerate(self.levels, start=1) if level.scheme.is_summed), 0)

    def with_copies(self) -> "Hierarchy":
        """Return the hierarchy with each unit of the summed level as so many copies, each drawn by itself."""
        # Source: docs/theory.md, Theorem 4.10.
        number = self.summed
        level, above, below = self.level(number), self.levels[: number - 1], self.levels[number:]
        if not isinstance(level.scheme, SummedPoisson):
            raise TypeError(f"level {level.name}: expected several draws that are added up, got {level.scheme.name}")
        copy = Level(
            name=f"draw of {level.name}",
            count=level.scheme.draws,
            scheme=Poisson(probability=level.scheme.probability),
            is_copy=True,
        )
        # `summed_faults` refuses sizes of a tree below the copies, each of which would have those of its unit.
        tree = self.tree and Tree(sizes=(*self.tree.sizes, (copy.count,) * sum(self.tree.sizes[-1])))
        return replace(self, levels=(*above, replace(level, scheme=All()), copy, *below), tree=tree)

    def same_law(self, steps: int, *, unit: int = 0, removed: int = 0, is_group: bool = False) -> "Hierarchy":
        """Return the hierarchy with draws of the same law in all of so many steps, for which bounds are seldom larger.

        Of the protected level so many units are removed from one parent at most.

        Source: docs/theory.md, Theorem 4.11.
        """
        # Draws held to the end are one: down to the unit, as further down a bound may need no rhythm at all.
        periods = [level.redraw_every for level in self.levels[:unit]]
        longest = min((period for period in periods if period >= steps), default=0)
        levels: list[Level] = []
        for number in range(self.depth, 0, -1):
            level = self.level(number)
            scheme = same_law(level.scheme, level.min_count, level.count, steps)
            # A pass lies below levels drawn whole, or in passes.
            has_passes_below = any(below.scheme.is_shuffled for below in levels)
            is_shortened = number == unit and self.loses_steps(number, level.scheme, removed)
            is_kept = level.scheme.is_shuffled and (has_passes_below or is_shortened)
            # The bound of bins knows which members of a group share a parent.
            if is_kept or (is_group and isinstance(level.scheme, Allocation)):
                scheme = level.scheme
            period = min(level.redraw_every, longest or level.redraw_every) if number <= unit else level.redraw_every
            levels.insert(0, replace(level, scheme=scheme, redraw_every=period))
        return self if tuple(levels) == self.levels else replace(self, levels=tuple(levels))

    def with_drawn_periods(self) -> "Hierarchy":
        """Return the hierarchy with each level drawn whole in the rhythm of a drawn one: its own changes no batch."""
        # Above all that is drawn it is the rhythm of the first one, below it that of the last. A level in between keeps
        # its own: the rhythm of either can give the smaller bound.
        # Source: docs/theory.md, Theorem 7.1.
        drawn = [at for at, level in enumerate(self.levels) if level.scheme != All()]
        nearest = [min(max(at, drawn[0]), drawn[-1]) if drawn else None for at in range(self.depth)]
        periods = [1 if at is None else self.levels[at].redraw_every for at in nearest]
        if periods == [level.redraw_every for level in self.levels]:
            return self
        levels = zip(self.levels, periods, strict=True)
        return replace(self, levels=tuple(replace(level, redraw_every=period) for level, period in levels))

    def level(self, number: int) -> Level:
        """Return the level with this number, from 1 (outermost) to `depth`."""
        return self.levels[number - 1]

    @property
    def spans_steps(self) -> bool:
        """True if a scheme says how the batches of different steps belong together, and so needs the whole phase."""
        return any(level.scheme.spans_steps for level in self.levels)

    def units(self, number: int) -> int:
        """Return the total number of units of a level, the largest possible without a tree; 1 for level 0."""
        if self.tree is not None and number:
            return sum(self.tree.sizes[number - 1])
        return prod(level.count for level in self.levels[:number])

    def loses_steps(self, number: int, scheme: Scheme, removed: int) -> bool:
        """Return True if removing `removed` units of some parent can take a step from its pass."""
        if self.tree is None:
            level = self.level(number)
            return scheme.changes_passes(level.min_count, level.count, removed)
        sizes = {*self.tree.sizes[number - 1]}
        return any(scheme.changes_passes(size, size, min(removed, size)) for size in sizes)

    def steps_of(self, epochs: Fraction) -> int:
        """Return the steps, rounded up, in which the outermost sampled level is drawn `epochs` times on average."""
        share = Fraction(1)
        for number, level in enumerate(self.levels, start=1):
            if level.scheme.is_whole:  # levels drawn whole leave it to the next one what a pass over the data is
                continue
            # Loaders count passes by it, whatever a cap leaves. The steps of a pass are those of the largest parent.
            tree = None if level.scheme.is_shuffled else self.tree
            sizes = Counter((level.count,) if tree is None else tree.sizes[number - 1])
            drawn = sum(
                (level.scheme.share(size) * size * parents for size, parents in sizes.items()), start=Fraction(0)
            )
            share = drawn / sum(size * parents for size, parents in sizes.items())
            break
        return ceil(epochs / share)
