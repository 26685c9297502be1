"""Sampling schemes: how the children of one drawn unit are drawn in one step (Bun et al. 2020, 2007.12674, sec. 2)."""

from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from math import comb, perm, prod
from typing import TYPE_CHECKING, Any, ClassVar

from dpcalc.errors import InputError
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial,
    coarsen_upwards,
    convolve,
    convolve_power_upper,
    full_batch,
    hypergeometric,
    mixture,
    power,
    sum_of_draws,
    to_whole_bits,
)
from dpcalc.work import fraction_units, spend

if TYPE_CHECKING:
    from dpcalc.sampling.hierarchy import Level


class Scheme:
    """A draw: facts, and what follows from them for bounds, data sets, words, configs, simulation and audits."""

    # A new scheme is a class here, listed in SCHEMES, that states its facts and its `rate`; it answers a question
    # itself where what follows is wrong. `count` is always the number of children of the one parent from which they are
    # drawn.

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()  # that a draw in a config takes beside `scheme`; amounts are required
    amount_key: ClassVar[str] = ""  # the one that says how much is drawn: rate, size, bins or times

    # The law of one draw.
    is_whole: ClassVar[bool] = False  # every child, every time
    is_independent: ClassVar[bool] = False  # each child by itself, with `probability`
    is_cut: ClassVar[bool] = False  # each child by itself; of more than `max_batch_size` a uniform subset stays
    has_stand_in: ClassVar[bool] = False  # `size` of them: another child is drawn in the place of a missed one
    can_repeat: ClassVar[bool] = False  # `size` times one of them: the same child may be drawn several times
    is_summed: ClassVar[bool] = False  # `draws` independent draws added up: as so many copies (`Hierarchy.with_copies`)
    is_simple: ClassVar[bool] = False  # one of those under which the draws above a unit may be hidden
    at_most: bool = False  # `size` of them, of fewer all
    size: int
    probability: Fraction
    max_batch_size: int | None

    # The order of draws.
    can_be_held: ClassVar[bool] = True  # for several steps
    is_shuffled: ClassVar[bool] = False  # passes in random order, `size` of them in each step
    is_allocated: ClassVar[bool] = False  # each child chooses its steps of a pass
    spans_steps: ClassVar[bool] = False  # it says how the batches of different steps belong together
    drop_last: bool = False  # a pass leaves out the children that fill no whole batch
    is_secret: bool = False  # the order of a pass: uniform, a new one for each pass, with each child once
    is_held: bool = False  # the steps that a child chose in the first pass hold for all passes of the phase

    def rate(self, count: int) -> Fraction:
        """Return the exact probability that a draw holds a given child; by default `probability`, of however many."""
        del count
        return self.probability

    @property
    def limit(self) -> int | None:
        """The most children that a draw can hold; None for all."""
        return self.max_batch_size if self.is_cut else self.size if self.amount_key == "size" else None

    def max_drawn(self, count: int) -> int:
        """Return the most children that a draw can take, repetitions included."""
        if self.can_repeat:
            return self.size
        return count if self.limit is None else min(self.limit, count)

    def share(self, count: int) -> Fraction:
        """Return the share of the children that a step draws on average, repetitions included and before a cut."""
        if self.is_shuffled:
            return Fraction(1, self.steps_of_a_pass(count))
        if self.amount_key == "size":
            return Fraction(self.max_drawn(count), count)
        return self.probability if self.is_cut else self.rate(count)

    def tried(self, count: int) -> tuple[int, Fraction]:
        """Return (number, chance): a draw takes Binomial(number, chance) children before a cut, or at least as many."""
        if self.is_independent or self.is_cut:
            return count, self.probability
        return self.max_drawn(count), Fraction(1)

    def sum_of_drawn(self, each: CountDistribution, count: int, bits: int) -> CountDistribution:
        """Return the law of the sum of what a draw takes, a child each with the law `each`, rounded to `bits` bits."""
        number, rate = self.tried(count)
        if not self.is_cut:
            return sum_of_draws(each, number, rate, bits=bits)
        parts, total, cap = [], {0: Fraction(1)}, self.max_drawn(count)
        drawn = sum_of_draws({1: Fraction(1)}, number, rate, bits=bits)
        for kept in range(cap + 1):
            chance = sum((p for k, p in drawn.items() if min(k, cap) == kept), Fraction(0))
            parts.append((chance, total))
            total = to_whole_bits(convolve(total, each), bits)
        return to_whole_bits(mixture(parts), bits)

    def units_by_kind(self, count: int, occupied: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        """Yield (children drawn of each kind, probability), where a kind has so many; exact, or an upper law."""
        if self.is_independent or isinstance(self, FixedAtRate):  # which is of single units alone
            laws = [binomial(number, self.probability) for number in occupied]
            longest = max(chance.denominator.bit_length() for law in laws for chance in law.values())
            for drawn in product(*laws):
                spend(fraction_units(2 * len(laws), longest))
                yield drawn, prod((law[number] for law, number in zip(laws, drawn, strict=True)), start=Fraction(1))
        elif self.has_stand_in:
            # The multivariate hypergeometric law by falling factorials: the order of the draw cancels.
            for drawn in product(*(range(number + 1) for number in occupied)):
                spend(fraction_units(4, max(self.size.bit_length(), count.bit_length()) * sum(occupied)))
                present, absent = sum(drawn), sum(occupied) - sum(drawn)
                ways = prod(map(comb, occupied, drawn)) * perm(self.size, present) * perm(count - self.size, absent)
                if ways:
                    yield drawn, Fraction(ways, perm(count, present + absent))
        elif self.can_repeat and len(occupied) == 1:
            for number, chance in coarsen_upwards(binomial(self.size, Fraction(occupied[0], count))).items():
                yield (number,), chance
        else:  # the hits of several kinds depend on each other: every draw is taken to hit each of them
            yield tuple(self.size for _ in occupied) if self.can_repeat else occupied, Fraction(1)

    def marked(self, members: int, count: int, draws: int) -> CountDistribution:
        """Return an upper law of how often `draws` independent draws hold one of so many members."""
        if self.is_independent or isinstance(self, FixedAtRate):
            return binomial(members * draws, self.probability)
        if self.has_stand_in:
            return convolve_power_upper(hypergeometric(count, members, self.size), draws)
        if self.can_repeat:
            return binomial(self.size * draws, Fraction(members, count))
        return {members * draws: Fraction(1)}

    def for_counts(self, fewest: int, most: int) -> "Scheme":
        """Return a scheme that draws alike from parents of so many children, but is simpler."""
        # Bounds are tighter for draws of everything and for independent draws, so that those are told apart here. A
        # shuffle with drop_last stays a shuffle: with one unit fewer it has no batch.
        if self.limit is not None and self.limit >= most and not self.can_repeat and not self.drop_last:
            return Poisson(probability=self.probability) if self.is_cut else All()
        return Fixed(size=self.size) if self.at_most and self.size <= fewest else self

    def steps_of_a_pass(self, count: int) -> int:
        """Return the steps in which every child has its turn once: count / size, rounded up (drop_last: down)."""
        if not self.is_shuffled:
            return 1
        return count // self.size if self.drop_last else -(-count // self.size)

    def drawn_in_a_pass(self, count: int) -> int:
        """Return how many children a pass holds: all, or with drop_last those in full batches."""
        return count - count % self.size if self.drop_last else count

    def changes_passes(self, min_count: int, max_count: int, removed: int) -> bool:
        """Return True if a pass has fewer steps once `removed` units leave a parent of min_count to max_count units."""
        if not self.is_shuffled:
            return False
        # Steps end at the multiples of the size: a number n from min_count to max_count loses one where a
        # multiple lies in [n - removed, n - 1], or with drop_last in [n - removed + 1, n]. The union is one range.
        last = max_count if self.drop_last else max_count - 1
        return last - last % self.size >= min_count - removed + (1 if self.drop_last else 0)

    @property
    def amount(self) -> Fraction | int | None:
        """How much is drawn, by `amount_key`."""
        return self.probability if self.amount_key == "rate" else getattr(self, self.amount_key, None)

    def with_amount(self, amount: Fraction | int) -> "Scheme":
        """Return the scheme with another amount."""
        name = "probability" if self.amount_key == "rate" else self.amount_key
        return replace(self, **{name: amount})  # type: ignore[type-var]  # every scheme is a dataclass

    @property
    def options(self) -> dict[str, object]:
        """The keys beside the amount that are not the default; their names go into the hash of a config."""
        words = {"order": "secret" if self.is_secret else "", "assignment": "held" if self.is_held else ""}
        values = {key: words.get(key, getattr(self, key, None)) for key in self.keys if key != self.amount_key}
        return {key: value for key, value in values.items() if value}

    @classmethod
    def of(cls, draw: Any, count: int, steps: int | None) -> "Scheme":
        """Return the scheme of a draw in a config, which has the values of its keys, in a phase of `steps`."""
        at_most = getattr(draw.size, "size", None)
        stated = {
            # `expected` is the number drawn out of the largest parent, by a cyclic draw out of one of its groups.
            "probability": Fraction(draw.expected or 0, count) * draw.groups if draw.rate is None else draw.rate,
            "size": draw.size if at_most is None else at_most,
            "at_most": at_most is not None,
            "is_secret": draw.order == "secret",
            "is_held": draw.assignment == "held",
            "steps": draw.times if steps is None else steps,
        }
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # every scheme is a dataclass
        return cls(**{name: stated[name] if name in stated else getattr(draw, name) for name in names})

    def words(self, level: "Level") -> str:
        """Return the draw of a level in words, such as "4 of 10 (user) expected, Poisson"."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Sized(Scheme):
    """A draw of `size` children, >= 1."""

    amount_key = "size"
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size: expected a whole number >= 1, got {self.size}; a draw of nothing trains nothing")


@dataclass(frozen=True, kw_only=True)
class Fixed(_Sized):
    """`size` of the children, uniformly, without replacement."""

    name = "fixed"
    keys = ("size", "redraw_every")
    has_stand_in = is_simple = True
    # A parent with fewer children gives all that it has. Units of a hierarchy know how many children they have: on a
    # path to a unit this is either a draw of `size` or `all` (`for_counts`).
    at_most: bool = False

    def rate(self, count: int) -> Fraction:
        """Return min(size, count) / count with at_most, else size / count, which is above 1 for smaller counts."""
        return Fraction(self.max_drawn(count), count) if self.at_most else Fraction(self.size, count)

    def words(self, level: "Level") -> str:
        up_to = "up to " if self.at_most else ""
        return f"{up_to}{self.size} of {level.count_words} ({level.name}), fixed size"


@dataclass(frozen=True, kw_only=True)
class FixedAtRate(Fixed):
    """A draw of a fixed size from a frame that is itself random, so that a child's probability is not size / count."""

    # Bounds of single units take a full batch of a `CappedPoisson` draw for it (docs/theory.md, Theorem 4.9); no config
    # states it.

    probability: Fraction  # that the child on the path is drawn, exact, in (0, 1]

    def rate(self, count: int) -> Fraction:
        del count
        return self.probability


class Independent(Scheme):
    """Each child by itself with one `probability`, whatever the number of children."""

    amount_key = "rate"
    is_independent: ClassVar[bool] = True
    is_simple = True

    def words(self, level: "Level") -> str:
        rate = _number_words(self.probability)
        if level.is_assumed:
            return f"each {level.name}, with probability {rate}, Poisson (their number is not stated)"
        cut = "" if self.limit is None else f", cut at random to {self.limit}"
        if level.is_equal:
            expected = _number_words(self.probability * level.count)
            return f"{expected} of {level.count} ({level.name}) expected, Poisson{cut}"
        return f"each of {level.count_words} ({level.name}) with probability {rate}, Poisson{cut}"


def _number_words(value: Fraction) -> str:
    """Return a whole number as such, other fractions with four digits."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.4g}"


@dataclass(frozen=True, kw_only=True)
class Poisson(Independent):
    """Each child independently with one probability, exact, in [0, 1]."""

    name = "poisson"
    keys = ("rate", "expected", "draws", "max_batch_size", "redraw_every")
    probability: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise InputError(f"rate: expected a probability in [0, 1], got {float(self.probability)!r}")

    @classmethod
    def of(cls, draw: Any, count: int, steps: int | None) -> Scheme:
        if draw.draws > 1:
            return SummedPoisson.of(draw, count, steps)
        return super().of(draw, count, steps) if draw.max_batch_size is None else CappedPoisson.of(draw, count, steps)


@dataclass(frozen=True, kw_only=True)
class SummedPoisson(Independent):
    """So many Poisson draws in one step, added up: a child is in it Binomial(`draws`, `probability`) times."""

    # Source: docs/theory.md, Theorem 4.10.

    name = Poisson.name
    keys = Poisson.keys
    is_independent = is_simple = can_be_held = False
    is_summed = True
    probability: Fraction  # that one of the draws holds a child
    draws: int  # >= 2

    def __post_init__(self) -> None:
        Poisson(probability=self.probability)
        if self.draws < 2:
            raise InputError(f"draws: expected a whole number >= 2, got {self.draws}")

    def rate(self, count: int) -> Fraction:
        """Return 1 - (1 - probability)^draws, the probability that a step holds a child at least once."""
        del count
        # `power` rounds down, so that a long rate is rounded up.
        return 1 - power(1 - self.probability, self.draws)

    def max_drawn(self, count: int) -> int:
        return count * self.draws

    def share(self, count: int) -> Fraction:
        del count
        return self.probability * self.draws

    def tried(self, count: int) -> tuple[int, Fraction]:
        return count * self.draws, self.probability

    def marked(self, members: int, count: int, draws: int) -> CountDistribution:
        del count
        return binomial(members * draws * self.draws, self.probability)

    def words(self, level: "Level") -> str:
        return f"the sum of {self.draws} draws: {Poisson(probability=self.probability).words(level)}"


@dataclass(frozen=True, kw_only=True)
class CappedPoisson(Independent):
    """Each child independently with one probability; of more than `max_batch_size` a uniform subset stays."""

    # What holds for independent draws does not hold for it. A draw that can take no more children than it may keep is
    # one, and becomes one (`for_counts`).

    name = Poisson.name
    keys = Poisson.keys
    is_independent = is_simple = can_be_held = False
    is_cut = True
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


@dataclass(frozen=True, kw_only=True)
class CappedGroup(CappedPoisson):
    """A cut Poisson draw from one of the groups into which the children were split beforehand; no config states it."""

    fewest: int  # children that the group may hold, >= 1
    most: int

    def rate(self, count: int) -> Fraction:
        """Return the rate of a CappedPoisson draw from min(count, fewest) children, where it is largest."""
        return super().rate(min(count, self.fewest))


@dataclass(frozen=True, kw_only=True)
class WithReplacement(_Sized):
    """`size` independent draws of one child each: the same child may be drawn several times."""

    name = "with-replacement"
    keys = ("size",)
    can_repeat = True
    can_be_held = False

    def rate(self, count: int) -> Fraction:
        """Return 1 - (1 - 1/count)^size, the probability that a child is drawn at least once."""
        # `power` rounds down, so that a long rate is rounded up.
        return 1 - power(Fraction(count - 1, count), self.size)

    def words(self, level: "Level") -> str:
        return f"{self.size} of {level.count_words} ({level.name}), with replacement"


@dataclass(frozen=True, kw_only=True)
class Shuffle(_Sized):
    """Pass after pass over all children in random order, `size` of them in each step."""

    # The reader may know in which step of a pass a child is, unless the order is secret. The number of steps of a pass
    # follows from the data; `changes_passes` says whether removing children changes it.

    name = "shuffle"
    keys = ("size", "drop_last", "order")
    is_shuffled = True
    can_be_held = False
    # The children that fill no whole batch are left out of the pass; else the last batch of a pass is smaller.
    drop_last: bool = False
    is_secret: bool = False  # the order: uniform, a new one for each pass, with each child once

    def places(self, count: int) -> tuple[tuple[Fraction, int], ...]:
        """Return (chance, batches over which a child's place is uniform) of each public case of a pass."""
        # Source: docs/theory.md, Theorem 7.10. With the chance that is left it has no place.
        full, odd = divmod(count, self.size)
        if not odd or self.drop_last:
            return ((Fraction(full * self.size, count), full),) if full else ()
        in_all = Fraction((full + 1) * odd, count)
        return ((in_all, full + 1), *(((1 - in_all, full),) if full else ()))

    def rate(self, count: int) -> Fraction:
        """Return the share of `count` children that a pass holds: 1, or less with drop_last."""
        return Fraction(self.drawn_in_a_pass(count), count)

    def words(self, level: "Level") -> str:
        left_out = ", dropping the last incomplete batch of a pass" if self.drop_last else ""
        way = f"{'secretly ' * self.is_secret}shuffled{left_out}"
        return f"{self.size} of {level.count_words} ({level.name}) in turn, {way}"


@dataclass(frozen=True, kw_only=True)
class All(Scheme):
    """Every child, every time."""

    name = "all"
    keys: ClassVar[tuple[str, ...]] = ("redraw_every",)
    is_whole = is_simple = True
    probability = Fraction(1)

    def words(self, level: "Level") -> str:
        return f"{'everything' if level.is_assumed else f'all {level.count_words}'} ({level.name})"


@dataclass(frozen=True, kw_only=True)
class AnyOrder(All):
    """Batches in any order: nothing is assumed of it but in how many steps one unit takes part, and how far apart."""

    # The mechanism, which spans the steps, states these limits; to everything else it is as if all children were drawn.

    name = "any-order"
    keys = ()
    spans_steps = True

    def words(self, level: "Level") -> str:
        return f"batches of {level.count_words} ({level.name}) in any order"


@dataclass(frozen=True, kw_only=True)
class CyclicPoisson(Scheme):
    """The children are split beforehand into groups; steps draw from one group after the other, as `Poisson` does."""

    name = "cyclic-poisson"
    keys = ("rate", "expected", "groups", "max_batch_size", "max_group_size")
    amount_key = "rate"
    spans_steps = True
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
        """Return the draw from one group: a CappedGroup if the largest group exceeds the cap, else a Poisson."""
        # Source: docs/theory.md, Theorem 16.8.
        smallest, largest = self.group_sizes(min_count, count)
        if self.max_batch_size is None or self.max_batch_size >= largest:
            return Poisson(probability=self.probability)
        return CappedGroup(
            probability=self.probability, max_batch_size=self.max_batch_size, fewest=smallest, most=largest
        )

    def rate(self, count: int) -> Fraction:
        """Return the share of the children that a step draws on average, `probability` / `groups`."""
        del count
        return self.probability / self.groups

    def max_drawn(self, count: int) -> int:
        """Return the most children that one step can draw: those of a largest group, at most `max_batch_size`."""
        return min(self.group_sizes(count, count)[1], self.max_batch_size or count)

    def words(self, level: "Level") -> str:
        groups = f"{self.groups} groups"
        groups += f" of at most {self.max_group_size}" if self.max_group_size is not None else ""
        cap = f", cut at random to {self.max_batch_size}" if self.max_batch_size is not None else ""
        drawn = f"each with probability {_number_words(self.probability)}, Poisson{cap}"
        return f"{level.count_words} ({level.name}) in {groups}, one of them a step, {drawn}"


@dataclass(frozen=True, kw_only=True)
class AllocatedPass:
    """Equal passes of steps; in each pass a unit takes part in the steps of one bin, chosen uniformly, or in none."""

    bins: tuple[tuple[int, int], ...]  # (number of bins, steps of each of them), all >= 1
    share: Fraction = Fraction(1)  # probability that the unit takes part at all, in (0, 1]
    number: int = 1  # of such passes, >= 1; they are independent


class Allocation(Scheme):
    """Every child chooses its steps of a pass, uniformly and independently; passes do not depend on the data."""

    is_allocated = True
    can_be_held = False

    def visits(self, steps: int) -> int:
        """Return the most steps a child takes part in, of the first `steps` of a phase."""
        raise NotImplementedError

    def passes(self, steps: int) -> tuple[AllocatedPass, ...]:
        """Return passes that cost at least as much as the first `steps` of the phase; () for 0 steps."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class BallsInBins(Allocation):
    """In each pass of `bins` steps every child takes part in one step, which it chooses uniformly and independently."""

    name = "balls-in-bins"
    keys = ("bins", "assignment")
    amount_key = "bins"
    bins: int  # steps of a pass, >= 1
    is_held: bool = False  # the choice of the first pass holds for all passes of the phase

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise InputError(f"bins: expected a whole number >= 1, got {self.bins}; a pass has at least one step")

    def rate(self, count: int) -> Fraction:
        del count
        return Fraction(1, self.bins)

    def steps_of_a_pass(self, count: int) -> int:
        del count
        return self.bins

    def visits(self, steps: int) -> int:
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

    def words(self, level: "Level") -> str:
        chosen = f"one of {self.bins} steps of a pass, chosen {'once' if self.is_held else 'anew in each pass'}"
        return f"each of {level.count_words} ({level.name}) in {chosen}"


@dataclass(frozen=True, kw_only=True)
class RandomAllocation(Allocation):
    """Every child takes part in exactly `times` of all `steps` of a phase: a uniform choice, independently."""

    name = "random-allocation"
    keys = ("times",)
    amount_key = "times"
    times: int
    steps: int

    def __post_init__(self) -> None:
        if not 1 <= self.times <= self.steps:
            raise InputError(
                f"times: expected a whole number from 1 to {self.steps}, the steps of the phase, got {self.times}"
            )

    def rate(self, count: int) -> Fraction:
        del count
        return Fraction(self.times, self.steps)

    def steps_of_a_pass(self, count: int) -> int:
        del count
        return self.steps

    def visits(self, steps: int) -> int:
        return min(self.times, steps)

    def passes(self, steps: int) -> tuple[AllocatedPass, ...]:
        """Return passes that cost at least as much as the first `steps` of the phase; () for 0 steps."""
        # Source: docs/theory.md, Theorem 7.7.
        if self.times == 1:
            return BallsInBins(bins=self.steps).passes(steps)
        # The whole phase as `times` passes of near-equal length, in each of which the unit chooses one step: in which
        # of them the steps that ran are is not known, so that all count.
        small, longer = divmod(self.steps, self.times)
        sizes = ((small, self.times - longer), (small + 1, longer)) if steps else ()
        return tuple(AllocatedPass(bins=((size, 1),), number=number) for size, number in sizes if number)

    def words(self, level: "Level") -> str:
        return f"each of {level.count_words} ({level.name}) in {self.times} of all {self.steps} steps, chosen at random"


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


def same_law(scheme: Scheme, fewest: int, most: int, steps: int) -> Scheme:
    """Return the simplest scheme of the same law in all of so many steps, for which bounds are seldom larger.

    Parents have from `fewest` to `most` children; where some are removed, a pass has as many steps as before. What a
    config states stays as it is.

    Source: docs/theory.md, Theorem 4.11.
    """
    match scheme:
        case Poisson(probability=1):
            return All()
        case CappedPoisson(probability=1, max_batch_size=kept) if not isinstance(scheme, CappedGroup):
            return Fixed(size=kept, at_most=True).for_counts(fewest, most)
        case WithReplacement(size=1):
            return Fixed(size=1).for_counts(fewest, most)
        # Who is left out of a pass is secret; in which of its steps the others have their turn is so in secret order.
        case Shuffle(size=size) if scheme.steps_of_a_pass(most) == 1 or (scheme.is_secret and steps == 1):
            return Fixed(size=size).for_counts(fewest, most)
        case Allocation() if steps == 1 or scheme.rate(most) == 1:
            return same_law(Poisson(probability=scheme.rate(most)), fewest, most, steps)
    return scheme


SCHEMES: dict[str, type[Scheme]] = {
    x.name: x
    for x in (Poisson, CyclicPoisson, Fixed, WithReplacement, Shuffle, BallsInBins, RandomAllocation, All, AnyOrder)
}
"""Sampling schemes by name."""
