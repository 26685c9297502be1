"""Groups of units that are protected together: how they may lie in the data, and how many of them a step draws.

A *placement* is the number of members in a frame of the protected level; above it, a tuple with one placement for each
occupied unit. A *context* is what a step reveals of the draws above: for each number of members in a parent, how many
copies of such parents were drawn (draws with replacement can hold several copies of one).

Removed units may leave a frame with fewer units than a draw takes; the draw then takes all that are left. Passes of a
shuffle and episodes need as many units as they take.

Source: docs/theory.md, Theorem 6.3.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement, pairwise, product
from math import comb

from dpcalc.errors import InputError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    coarsen_upwards,
    convolve_upper,
    mixture,
    power_by_squaring,
    round_to_many_bits,
    rounded_sum,
)
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import Scheme
from dpcalc.work import TURN, fraction_units, spend

Placement = int | tuple["Placement", ...]
Context = tuple[tuple[int, int], ...]
"""(members in a parent, copies of such parents), ascending; () where no parent of a member is drawn."""

ContextDistribution = dict[Context, Fraction]
"""Probability by context, summing to 1."""

# Members whose placements are enumerated; above, union bounds hold for any placement. Under two levels the placements
# of 12 members are the 77 partitions of 12; those of 120 would be 1.8e9.
MAX_PLACED_MEMBERS = 12


def group_refusal(size: int, hierarchies: Iterable[Hierarchy], *, unit: int) -> str:
    """Return the first reason why no bound covers a group of this size; "" if there is none, or for size 1."""
    phases = tuple(hierarchies) if size > 1 else ()
    # Where a batch is limited, how many others are drawn depends on which members are: nothing is proved for several.
    for phase in phases:
        levels = phase.levels[:unit]
        limits = [(x.name, "at_most") for x in levels if x.scheme.at_most]
        limits += [(x.name, "max_batch_size") for x in levels if x.scheme.is_cut]
        if limits:
            name, key = limits[0]
            return f"expected 1 where level {name} is drawn with `{key}`, got {size}"
    for phase in phases if unit > 1 else ():
        if phase.episodes is not None:
            return f"expected 1 for records of constructed episodes, got {size}; a group of classes can be protected"
        replaced = any(level.scheme.can_repeat for level in phase.levels[:unit])
        if replaced and size > MAX_PLACED_MEMBERS:
            return f"expected at most {MAX_PLACED_MEMBERS} units under draws with replacement, got {size}"
    return ""


def room(hierarchies: Iterable[Hierarchy], *, unit: int, adjacency: Adjacency) -> tuple[int, ...]:
    """Return, for each level down to `unit`, how many units of one frame can hold members of a group."""
    phases = tuple(hierarchies)
    # Members lie in units that stay, so that above the protected level every unit can hold some.
    *above, last = (level.count for level in phases[0].levels[:unit])
    return (*above, last - units_left(phases, unit=unit, adjacency=adjacency))


def units_left(phases: Sequence[Hierarchy], *, unit: int, adjacency: Adjacency) -> int:
    """Return how many units must remain under each parent: a shuffle's size, what a task takes; 0 without removals."""
    needed = [0]
    for phase in phases if adjacency is Adjacency.ADD_REMOVE else ():
        built, scheme = phase.episodes, phase.level(unit).scheme
        if built is not None:
            needed.append((built.ways, built.records)[unit - 1])
        elif scheme.is_shuffled:
            needed.append(scheme.size)
    return max(needed)


def max_group_size(hierarchies: Iterable[Hierarchy], *, unit: int, adjacency: Adjacency) -> int:
    """Return the number of units in the data, less `units_left` under each parent if the group is removed."""
    phases = tuple(hierarchies)
    data, left = phases[0], units_left(phases, unit=unit, adjacency=adjacency)
    if data.tree is not None:  # parents have unequal numbers of units
        return sum(max(0, count - left) for count in data.tree.sizes[unit - 1])
    return data.units(unit - 1) * (data.level(unit).count - left)


MAX_PLACEMENTS = 128  # each is a run to compose, so that time grows in proportion; above, the placement is left open
MAX_PLACEMENTS_OF_ALL_PHASES = 512  # placements times phases


@dataclass(frozen=True, kw_only=True)
class Group:
    """Units protected together."""

    size: int = 1  # number of members, >= 1
    # how the members lie in the data; None for one unit, and where the placement is left open
    placement: Placement | None = None

    @property
    def is_left_open(self) -> bool:
        """True if so few members (2 to `MAX_PLACED_MEMBERS`) have too many placements, so that none is considered."""
        return self.placement is None and 1 < self.size <= MAX_PLACED_MEMBERS

    @property
    def words(self) -> str:
        """The placement in words, e.g. "group of 3 placed (1 + 2)"; "" unless the members lie in a nested placement."""
        if isinstance(self.placement, tuple):
            return f"group of {self.size} placed {_nested(self.placement)}"
        return ""

    def frames(self, level: int = 0) -> list[Placement]:
        """Return the placements in the occupied frames of a level, 0 for the protected one."""
        frames = [self.size if self.placement is None else self.placement]
        while level != 1 and all(isinstance(frame, tuple) for frame in frames):
            frames = [inner for frame in frames if isinstance(frame, tuple) for inner in frame]
            level -= 1
        return frames

    @property
    def by_frame(self) -> tuple[int, ...]:
        """The numbers of members in the frames of the protected level; all of them in one without a placement."""
        return tuple(frame for frame in self.frames() if isinstance(frame, int))

    @property
    def is_together(self) -> bool:
        """True if all members have one parent: one member, level 1, or a placement with one unit at each level."""
        return self.size == 1 or (self.placement is not None and len(self.frames()) == 1)


def _nested(placement: Placement) -> str:
    """Return a placement in brackets, "(1 + 2)"; a plain number without."""
    return f"({' + '.join(map(_nested, placement))})" if isinstance(placement, tuple) else str(placement)


def groups(size: int, phases: Sequence[Hierarchy], *, unit: int, adjacency: Adjacency) -> tuple[Group, ...]:
    """Return the groups of this size, one for each placement; InputError without room, UnsupportedError if no bound.

    A group of over 12 members below level 1, or of over 128 placements, fewer in many phases, has its placement left
    open.
    """
    if size == 1:
        return (Group(),)
    max_size = max_group_size(phases, unit=unit, adjacency=adjacency)
    if size > max_size:
        raise InputError(f"group_size: expected at most {max_size}, more units cannot be exchanged, got {size}")
    why = group_refusal(size, phases, unit=unit)
    if why:
        raise UnsupportedError(f"group_size: {why}")
    if unit == 1:
        return (Group(size=size, placement=size),)
    if size <= MAX_PLACED_MEMBERS:
        with suppress(WorkExceededError):
            ways = placements(size, room(phases, unit=unit, adjacency=adjacency))
            if len(ways) <= min(MAX_PLACEMENTS, MAX_PLACEMENTS_OF_ALL_PHASES // len(phases)):
                return tuple(Group(size=size, placement=placement) for placement in ways)
    return (Group(size=size),)


def placements(members: int, room: Sequence[int]) -> list[Placement]:
    """Return every placement of `members`, siblings in any order as one; [] if `room` is too small for them."""
    spend(8 * TURN)
    max_occupied, *below = room
    if not below:
        return [members] if members <= max_occupied else []
    result: list[Placement] = []
    for sizes in _partitions(members, max_occupied, members):
        groups = Counter(sizes)
        choices = (combinations_with_replacement(placements(size, below), number) for size, number in groups.items())
        for combination in product(*choices):
            spend(8 * TURN)
            result.append(tuple(child for chosen in combination for child in chosen))
    return result


def _partitions(number: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number >= 0 as a descending sum of at most `parts` numbers, none above `largest`."""
    if not number:
        yield ()
    elif parts:
        for first in range(min(number, largest), 0, -1):
            for remaining in _partitions(number - first, parts - 1, first):
                yield (first, *remaining)


# The members that a step draws, given the draws above them


_FEW_MEMBERS = 64  # of a large group up to which probabilities are exact fractions; above, rounded up
_VANISHING = 1200  # bits: a probability below 2^-1200 changes no delta above 1e-300, see sampling/counts
_MAX_EXACT_PAIRS = 256  # of contexts joined by exact fractions; above, by rounded whole numbers, which is faster
_BITS = 1600  # of a probability that is rounded up
_MAX_CONTEXTS = 48  # above which contexts are merged: each costs a one-step bound of its own


def contexts(placement: Placement, schemes: Sequence[Scheme], counts: Sequence[int]) -> ContextDistribution:
    """Return an upper law, about 48 contexts long, of what all draws above the members of a placement reveal.

    An upper bound in stochastic order. With replacement and several kinds of units, every draw is taken to hit each
    kind, more than can be.
    """
    if isinstance(placement, int):
        return {((placement, 1),): Fraction(1)}
    # Units with the same placement below are of one kind: only how many of each kind are drawn matters.
    kinds = Counter(placement)
    below = [contexts(kind, schemes[1:], counts[1:]) for kind in kinds]
    parts: list[tuple[Fraction, ContextDistribution]] = []
    drawn = list(schemes[0].units_by_kind(max(counts[0], len(placement)), tuple(kinds.values())))
    nothing: ContextDistribution = {(): Fraction(1)}
    several: list[dict[int, ContextDistribution]] = [{} for _ in kinds]  # by number of copies of a unit of each kind
    for powers, each, numbers in zip(several, below, zip(*(copies for copies, _ in drawn), strict=True), strict=True):
        law, before = nothing, 0
        for number in sorted({*numbers}):
            law = powers[number] = power_by_squaring(each, number - before, _join_distributions, identity=law)
            before = number
    for copies, chance in drawn:
        law = nothing
        for number, powers in zip(copies, several, strict=True):
            law = _join_distributions(law, powers[number])
        parts.append((chance, law))
    return _merge_contexts(mixture(parts))


def _merge_contexts(law: ContextDistribution) -> ContextDistribution:
    """Return the law if it has at most 48 contexts; else one above it, of the 24 likeliest and about 24 merged ones."""
    spend(8 * TURN * len(law))
    reached = sorted(
        (context for context in law if context), key=lambda context: (sum(m * c for m, c in context), context)
    )
    if len(reached) <= _MAX_CONTEXTS:
        return round_to_many_bits(law)
    # Floats are enough: which contexts are the likeliest is a matter of tightness only.
    rounded = {context: float(law[context]) for context in reached}
    spend(fraction_units(4 * len(reached), max(chance.denominator.bit_length() for chance in law.values())))
    likely = set(sorted(reached, key=rounded.__getitem__, reverse=True)[: _MAX_CONTEXTS // 2])
    others = [context for context in reached if context not in likely]
    kept = {context: law[context] for context in law if not context or context in likely}
    width = -(-len(others) // (_MAX_CONTEXTS // 2))
    for start in range(0, len(others), width):
        merged = others[start : start + width]
        copies: Counter[int] = Counter()  # the most that any of these has, for each number of members
        for context in merged:
            copies |= Counter(dict(context))
        above = tuple(sorted(copies.items()))
        kept[above] = kept.get(above, Fraction(0)) + sum((law[context] for context in merged), start=Fraction(0))
    return round_to_many_bits(kept)


def _join_distributions(a: ContextDistribution, b: ContextDistribution) -> ContextDistribution:
    """Return the law of two independent contexts joined into one, merged to about 48 contexts."""
    longest = max(chance.denominator.bit_length() for law in (a, b) for chance in law.values())
    if len(a) * len(b) <= _MAX_EXACT_PAIRS:
        spend(fraction_units(2 * len(a) * len(b), longest))
        exact: ContextDistribution = {}
        for x, y in product(a, b):
            context = _join_contexts(x, y)
            exact[context] = exact.get(context, Fraction(0)) + a[x] * b[y]
        return _merge_contexts(exact)
    # Of whole numbers without common factors, which is faster.
    spend(fraction_units(len(a) + len(b), longest) + 8 * TURN * len(a) * len(b))
    return _merge_contexts(rounded_sum(a, b, _join_contexts, lambda whole: max(whole, key=whole.__getitem__)))


def _join_contexts(x: Context, y: Context) -> Context:
    """Return the context of two independent draws, which adds up their copies for each number of members."""
    if len(x) <= 1 and len(y) <= 1 and (not x or not y or x[0][0] == y[0][0]):  # one kind: most are like that
        return ((x[0][0], x[0][1] + y[0][1]),) if x and y else x or y
    copies = Counter(dict(x))
    copies.update(dict(y))
    return tuple(sorted(copies.items()))


def members_in_batch(context: Context, scheme: Scheme, count: int) -> CountDistribution:
    """Return an upper law of the members in a batch, summed over the frames of all copies of parents in `context`."""
    law: CountDistribution = {0: Fraction(1)}
    for members, copies in context:
        of_copies = scheme.marked(members, max(count, members), copies)
        law = convolve_upper(law, coarsen_upwards(of_copies))
    return law


def large_group(members: int, parent_rate: Fraction, rate: Fraction) -> list[tuple[Fraction, CountDistribution]]:
    """Return the one pair (Pr[any parent is drawn], law of the members drawn then) by union bounds, for any placement.

    With probability at most k eta some parent of a member is drawn; given the draws above, any j members are drawn
    together with probability at most r^j, so at least j of them with at most C(k, j) r^j.

    One pair; with the remaining probability no member is drawn.

    Source: docs/theory.md, Theorem 6.3.
    """
    tails = [Fraction(1)]  # min(1, C(k, j) r^j) for j = 0, 1, ...
    if members <= _FEW_MEMBERS:
        tails += (min(Fraction(1), comb(members, j) * rate**j) for j in range(1, members + 1))
    else:  # rounded up, until one is below 2^-1200
        unit = term = 1 << _BITS
        for j in range(1, members + 1):
            spend(8 * TURN + term.bit_length() / 4)
            term = -(-term * (members - j + 1) * rate.numerator // (j * rate.denominator))
            if term << _VANISHING < unit:
                break
            tails.append(Fraction(min(term, unit), unit))
    tails = list(accumulate(tails, min))
    law = {j: before - after for j, (before, after) in enumerate(pairwise([*tails, Fraction(0)]))}
    return [(min(Fraction(1), members * parent_rate), {j: chance for j, chance in law.items() if chance})]
