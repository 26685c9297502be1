"""Sampling schemes: how the children of one drawn unit are drawn in one step (Bun et al. 2020, 2007.12674, sec. 2).

Of each scheme `rate(count)` is the exact probability that a draw from `count` children holds a given one, and
`max_drawn(count)` the most that it can take, repetitions included.
"""

from fractions import Fraction
from typing import ClassVar

from dpcalc.errors import InputError
from dpcalc.records import dataclass
from dpcalc.sampling.counts import full_batch, power


class _AnyNumber:
    """A draw that can take all children."""

    def max_drawn(self, count: int) -> int:
        """Return `count`."""
        return count


@dataclass(frozen=True, kw_only=True)
class _OfSize:
    """A draw of `size` children, >= 1."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size: expected a whole number >= 1, got {self.size}; a draw of nothing trains nothing")

    def max_drawn(self, count: int) -> int:
        """Return min(size, count)."""
        return min(self.size, count)


@dataclass(frozen=True, kw_only=True)
class Fixed(_OfSize):
    """`size` of the children, uniformly, without replacement."""

    name: ClassVar[str] = "fixed"
    keys: ClassVar[tuple[str, ...]] = ("size", "redraw_every")
    # A parent with fewer children gives all that it has. Units of a hierarchy know how many children they have: on a
    # path to a unit this is either a draw of `size` or `all` (`hierarchy.scheme_for_count`).
    at_most: bool = False

    def rate(self, count: int) -> Fraction:
        """Return min(size, count) / count with at_most, else size / count, which is above 1 for smaller counts."""
        return Fraction(self.max_drawn(count), count) if self.at_most else Fraction(self.size, count)


@dataclass(frozen=True, kw_only=True)
class Poisson(_AnyNumber):
    """Each child independently with one probability, exact, in [0, 1]."""

    name: ClassVar[str] = "poisson"
    keys: ClassVar[tuple[str, ...]] = ("rate", "expected", "max_batch_size", "redraw_every")
    probability: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise InputError(f"rate: expected a probability in [0, 1], got {float(self.probability)!r}")

    def rate(self, count: int) -> Fraction:
        """Return `probability`, whatever the count."""
        del count
        return self.probability


@dataclass(frozen=True, kw_only=True)
class CappedPoisson:
    """Each child independently with one probability; of more than `max_batch_size` drawn ones a uniform subset stays.

    It is no `Poisson`: what holds for independent draws does not hold for it. A draw that can take no more children
    than it may keep is one, and becomes one (`hierarchy.scheme_for_count`).
    """

    name: ClassVar[str] = Poisson.name
    keys: ClassVar[tuple[str, ...]] = Poisson.keys
    probability: Fraction  # of each child before the cut
    max_batch_size: int  # most children that stay, >= 1

    def __post_init__(self) -> None:
        Poisson(probability=self.probability)
        if self.max_batch_size < 1:
            raise InputError(f"max_batch_size: expected a whole number >= 1, got {self.max_batch_size}")

    def rate(self, count: int) -> Fraction:
        """Return the probability that a child is drawn and not cut; an upper bound if the exact one is costly."""
        # Given that the others leave room the child stays if drawn; given that they fill the batch, with `inclusion`.
        full = full_batch(count - 1, self.probability, self.max_batch_size)
        if full is None:
            return min(self.probability, Fraction(self.max_batch_size, count))
        return (1 - full.chance) * self.probability + full.chance * full.inclusion

    def max_drawn(self, count: int) -> int:
        """Return min(max_batch_size, count)."""
        return min(self.max_batch_size, count)


@dataclass(frozen=True, kw_only=True)
class CappedGroup(CappedPoisson):
    """A cut Poisson draw from one of the groups into which the children were split beforehand; no config states it."""

    min_count: int  # fewest children that the group may hold, >= 1
    count: int  # most of them

    def rate(self, count: int) -> Fraction:
        """Return the rate of a CappedPoisson draw from min(count, min_count) children, where it is largest."""
        return super().rate(min(count, self.min_count))


@dataclass(frozen=True, kw_only=True)
class FixedAtRate(Fixed):
    """A draw of a fixed size from a frame that is itself random, so that a child's probability is not size / count.

    Bounds take a full batch of a `CappedPoisson` draw for it (docs/theory.md, Theorem 4.9); no config states it.
    """

    probability: Fraction  # that the child on the path is drawn, exact, in (0, 1]

    def rate(self, count: int) -> Fraction:
        """Return `probability`, whatever the count."""
        del count
        return self.probability


@dataclass(frozen=True, kw_only=True)
class WithReplacement(_OfSize):
    """`size` independent draws of one child each: the same child may be drawn several times."""

    name: ClassVar[str] = "with-replacement"
    keys: ClassVar[tuple[str, ...]] = ("size",)

    def rate(self, count: int) -> Fraction:
        """Return 1 - (1 - 1/count)^size, the probability that a child is drawn at least once."""
        # `power` rounds down, so that a long rate is rounded up.
        return 1 - power(Fraction(count - 1, count), self.size)

    def max_drawn(self, count: int) -> int:
        """Return `size`: the draws, repetitions of one child included."""
        del count
        return self.size


@dataclass(frozen=True, kw_only=True)
class Shuffle(_OfSize):
    """Pass after pass over all children in random order, `size` of them in each step.

    The reader may know in which step of a pass a child is, unless the order is secret. The number of steps of a pass
    follows from the data; `changes_passes` says whether removing children changes it.
    """

    name: ClassVar[str] = "shuffle"
    keys: ClassVar[tuple[str, ...]] = ("size", "drop_last", "order")
    # The children that fill no whole batch are left out of the pass; else the last batch of a pass is smaller.
    drop_last: bool = False
    is_secret: bool = False  # the order: uniform, a new one for each pass, with each child once

    def places(self, count: int) -> tuple[tuple[Fraction, int], ...]:
        """Return (chance, batches over which a child's place is uniform) of each public case of a pass; else no place.

        Source: docs/theory.md, Theorem 7.10.
        """
        full, odd = divmod(count, self.size)
        if not odd or self.drop_last:
            return ((Fraction(full * self.size, count), full),) if full else ()
        in_all = Fraction((full + 1) * odd, count)
        return ((in_all, full + 1), *(((1 - in_all, full),) if full else ()))

    def rate(self, count: int) -> Fraction:
        """Return the share of `count` children that a pass holds: 1, or less with drop_last."""
        return Fraction(self.drawn_in_a_pass(count), count)

    def steps_of_a_pass(self, count: int) -> int:
        """Return the steps of a pass over `count` children: count / size, rounded up (drop_last: down)."""
        return count // self.size if self.drop_last else -(-count // self.size)

    def drawn_in_a_pass(self, count: int) -> int:
        """Return how many of `count` children a pass holds: all, or with drop_last those in full batches."""
        return count - count % self.size if self.drop_last else count

    def changes_passes(self, min_count: int, max_count: int, removed: int) -> bool:
        """Return True if a pass has fewer steps once `removed` units leave a parent of min_count to max_count units."""
        # Steps end at the multiples of the size: a number n from min_count to max_count loses one where a
        # multiple lies in [n - removed, n - 1], or with drop_last in [n - removed + 1, n]. The union is one range.
        last = max_count if self.drop_last else max_count - 1
        first = min_count - removed + (1 if self.drop_last else 0)
        return last - last % self.size >= first


@dataclass(frozen=True, kw_only=True)
class All(_AnyNumber):
    """Every child, every time."""

    name: ClassVar[str] = "all"
    keys: ClassVar[tuple[str, ...]] = ("redraw_every",)

    def rate(self, count: int) -> Fraction:
        """Return 1."""
        del count
        return Fraction(1)


@dataclass(frozen=True, kw_only=True)
class AnyOrder(All):
    """Batches in any order: nothing is assumed of it but in how many steps one unit takes part, and how far apart.

    The mechanism, which spans the steps, states these limits; to everything else it is as if all children were drawn.
    """

    name: ClassVar[str] = "any-order"
    keys: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, kw_only=True)
class CyclicPoisson:
    """The children are split beforehand into groups; steps draw from one group after the other, as `Poisson` does."""

    name: ClassVar[str] = "cyclic-poisson"
    keys: ClassVar[tuple[str, ...]] = ("rate", "expected", "groups", "max_batch_size", "max_group_size")
    probability: Fraction  # that a step of its group draws a child
    groups: int  # >= 1
    max_batch_size: int | None = None  # most children that stay in a draw, of more a uniform subset; None for all
    max_group_size: int | None = None  # most children of a group; None for as many as there are

    def __post_init__(self) -> None:
        Poisson(probability=self.probability)
        for name in ("groups", "max_batch_size", "max_group_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name}: expected a whole number >= 1, got {value}")

    def group_sizes(self, min_count: int, count: int) -> tuple[int, int]:
        """Return the fewest and the most children that a nonempty group can hold."""
        # The smallest group has what the others, each at its largest, leave over.
        largest = min(count, self.max_group_size or count)
        return max(1, min_count - (self.groups - 1) * largest), largest

    def group_draw(self, min_count: int, count: int) -> Poisson | CappedGroup:
        """Return the draw from one group: a CappedGroup if the largest group exceeds the cap, else a Poisson.

        Source: docs/theory.md, Theorem 16.8.
        """
        smallest, largest = self.group_sizes(min_count, count)
        if self.max_batch_size is None or self.max_batch_size >= largest:
            return Poisson(probability=self.probability)
        return CappedGroup(
            probability=self.probability, max_batch_size=self.max_batch_size, min_count=smallest, count=largest
        )

    def rate(self, count: int) -> Fraction:
        """Return the share of the children that a step draws on average, `probability` / `groups`."""
        del count
        return self.probability / self.groups

    def max_drawn(self, count: int) -> int:
        """Return the most children that one step can draw: those of a largest group, at most `max_batch_size`."""
        return min(self.group_sizes(count, count)[1], self.max_batch_size or count)


@dataclass(frozen=True, kw_only=True)
class AllocatedPass:
    """Equal passes of steps; in each pass a unit takes part in the steps of one bin, chosen uniformly, or in none."""

    bins: tuple[tuple[int, int], ...]  # (number of bins, steps of each of them), all >= 1
    share: Fraction = Fraction(1)  # probability that the unit takes part at all, in (0, 1]
    number: int = 1  # of such passes, >= 1; they are independent


@dataclass(frozen=True, kw_only=True)
class BallsInBins(_AnyNumber):
    """In each pass of `bins` steps every child takes part in one step, which it chooses uniformly and independently."""

    name: ClassVar[str] = "balls-in-bins"
    keys: ClassVar[tuple[str, ...]] = ("bins", "assignment")
    bins: int  # steps of a pass, >= 1; public, and not computed from the number of children
    is_held: bool = False  # the choice of the first pass holds for all passes of the phase

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins: expected a whole number >= 1, got {self.bins}; a pass has at least one step")

    def rate(self, count: int) -> Fraction:
        """Return 1 / bins, the probability that a step holds a child, whatever the count."""
        del count
        return Fraction(1, self.bins)

    @property
    def steps_of_a_pass(self) -> int:
        """Return `bins`."""
        return self.bins

    def visits(self, steps: int) -> int:
        """Return the most steps a child takes part in, of the first `steps` of a phase: steps / bins, rounded up."""
        return -(-steps // self.bins)

    def passes(self, steps: int) -> tuple[AllocatedPass, ...]:
        """Return the whole passes in the first `steps` and an unfinished one; a single long one if bins are held."""
        whole, remaining = divmod(steps, self.bins)
        if self.is_held and whole:  # the first `remaining` bins have whole + 1 steps, the others `whole`
            longer = ((remaining, whole + 1),) if remaining else ()
            return (AllocatedPass(bins=(*longer, (self.bins - remaining, whole))),)
        every = AllocatedPass(bins=((self.bins, 1),), number=whole)
        unfinished = AllocatedPass(bins=((remaining, 1),), share=Fraction(remaining, self.bins))
        return (*((every,) if whole else ()), *((unfinished,) if remaining else ()))


@dataclass(frozen=True, kw_only=True)
class RandomAllocation(_AnyNumber):
    """Every child takes part in exactly `times` of all `steps` of a phase: a uniform choice, independently."""

    name: ClassVar[str] = "random-allocation"
    keys: ClassVar[tuple[str, ...]] = ("times",)
    times: int
    steps: int

    def __post_init__(self) -> None:
        if not 1 <= self.times <= self.steps:
            raise InputError(
                f"times: expected a whole number from 1 to {self.steps}, the steps of the phase, got {self.times}"
            )

    def rate(self, count: int) -> Fraction:
        """Return times / steps, the probability that a step holds a child, whatever the count."""
        del count
        return Fraction(self.times, self.steps)

    @property
    def steps_of_a_pass(self) -> int:
        """Return `steps`: the whole phase."""
        return self.steps

    def visits(self, steps: int) -> int:
        """Return the most steps a child takes part in, of the first `steps` of a phase: min(times, steps)."""
        return min(self.times, steps)

    def passes(self, steps: int) -> tuple[AllocatedPass, ...]:
        """Return passes that cost at least as much as the first `steps` of the phase; () for 0 steps.

        Source: docs/theory.md, Theorem 7.7.
        """
        if self.times == 1:
            return BallsInBins(bins=self.steps).passes(steps)
        # The whole phase as `times` passes of near-equal length, in each of which the unit chooses one step: in which
        # of them the steps that ran are is not known, so that all count.
        small, longer = divmod(self.steps, self.times)
        sizes = ((small, self.times - longer), (small + 1, longer)) if steps else ()
        return tuple(AllocatedPass(bins=((size, 1),), number=number) for size, number in sizes if number)


@dataclass(frozen=True, kw_only=True)
class CheckIn:
    """In each period of `length` steps, >= 1, a unit takes part in all of them with probability `rate`, or in none."""

    rate: Fraction
    length: int

    def visits(self, steps: int) -> int:
        """Return `steps`: a unit can take part in all of them."""
        return steps

    def passes(self, steps: int) -> tuple[AllocatedPass, ...]:
        """Return the whole periods of the first `steps` as one entry, then the unfinished one; () for 0 steps."""
        whole, remaining = divmod(steps, self.length)
        every = AllocatedPass(bins=((1, self.length),), share=self.rate, number=whole)
        last = AllocatedPass(bins=((1, remaining),), share=self.rate)
        return (*((every,) if whole else ()), *((last,) if remaining else ()))


Allocation = BallsInBins | RandomAllocation
Scheme = (
    Fixed
    | Poisson
    | CappedPoisson
    | CyclicPoisson
    | WithReplacement
    | Shuffle
    | BallsInBins
    | RandomAllocation
    | All
    | AnyOrder
)
SCHEMES: dict[str, type[Scheme]] = {
    x.name: x
    for x in (Poisson, CyclicPoisson, Fixed, WithReplacement, Shuffle, BallsInBins, RandomAllocation, All, AnyOrder)
}
"""Sampling schemes by name. `keys` are those that a draw in a config takes beside `scheme`; amounts are required."""
