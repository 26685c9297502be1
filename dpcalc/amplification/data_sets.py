"""Lower bounds: actual neighbouring data sets D and D' under a mechanism that adds noise to a sum, as a pair (P, Q).

All data lie on the line and have norm at most 1: each contribution of the protected unit is -1 (replaced: +1), each
vector of a unit drawn with its ancestor at level j is a number of [-1, 1] that the level has (`Contributions`). The
batch means of D and D' are then mixtures whose weights are the exact probabilities of the draws. Where units of a frame
differ in size, each contributes as much as the smallest. A unit of which no record is drawn contributes nothing.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import NamedTuple

from dpcalc.guarantee import Adjacency
from dpcalc.sampling.co_sampled import CoSampled, capped_distribution, random_contributions
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial_lower,
    convolve,
    convolve_power,
    drop_rare_tail,
    hypergeometric,
    hypergeometric_lower,
    nonzero_probability,
    power,
)
from dpcalc.sampling.hierarchy import Episodes, Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Poisson, Scheme, Shuffle, WithReplacement
from dpcalc.sampling.sums import cut_empty_probability, cut_sum
from dpcalc.work import TURN, cached_with_cost, fraction_units, spend

Mixture = dict[int, Fraction]  # weight by center, in clip norms
Pair = tuple[Mixture, Mixture]  # the laws (P, Q) in D and D'
NoRecord = tuple[Fraction, Fraction]  # (Pr[no record of a member], Pr[no record at all]) of a draw

# Any data set gives a lower bound, so that each limit here costs tightness only, never validity.
_MAX_SUMS = 200_000  # additions for unequal children of the protected unit; above, each counts as the smallest
_WEIGHT_BITS = 1100  # of a weight in further sums: rounding is below the smallest float, 2^-1074
_MAX_RANDOM = 96  # vectors of other units that a step draws at random: each is a center of the mixtures
_MAX_INDEPENDENT = 32  # units drawn independently; the others are left at 0, which is another data set


class Contributions(NamedTuple):
    """Contributions on the line, in units of 1 / length clip norms.

    Attributes:
        others: by level, level 1 first, p whole numbers in [-length, length]; below a clipping level above the unit,
            the clipped vector of a draw that misses the unit.
        length: of the protected unit's contributions, >= 1.
    """

    others: tuple[int, ...]
    length: int = 1


def sign_patterns(unit: int) -> Iterator[Contributions]:
    """Yield every pattern of +1, -1, 0 for `unit` levels; 0: units of that level contribute nothing."""
    yield from map(Contributions, product((1, -1, 0), repeat=unit))


def data_set_pair(
    co_sampled: CoSampled,
    *,
    adjacency: Adjacency,
    contributions: Contributions,
    members: int = 1,
    repeats: tuple[int, ...] = (),
) -> Pair:
    """Return (P, Q), the laws of a step's sum without noise in two actual data sets D and D'.

    (P, Q) of D and D' as {center in clip norms / length: exact weight}, without the noise.
    """
    unit = len(co_sampled.path.counts)
    if co_sampled.clip < unit:
        pair = _one_vector_pair(co_sampled, adjacency, contributions, members)
    else:
        if not _own_contributions(co_sampled).is_exact:
            contributions = contributions._replace(others=(0,) * unit)
        pair = _frame_sum_pair(co_sampled, adjacency, contributions, members)
    return _with_levels_above(co_sampled, pair, contributions.others, repeats or (1,) * unit)


def _with_levels_above(co_sampled: CoSampled, pair: Pair, others: tuple[int, ...], repeats: tuple[int, ...]) -> Pair:
    """Return the pair of the whole sum, given that of a draw below; units of level j add vectors `others[j - 1]`."""
    (p, q), lowest = pair, min(co_sampled.clip, len(co_sampled.path.counts) - 1)
    for level in range(lowest, 0, -1):
        each = _sibling_sum(co_sampled, level, others[level - 1], prod(repeats[level - 1 : lowest]))
        p, q = (_level_sum(co_sampled, level, each, convolve_power(side, repeats[level - 1])) for side in (p, q))
    return p, q


def _sibling_sum(co_sampled: CoSampled, level: int, sign: int, draws: int = 1) -> Mixture:
    """Return the law of the sum of a sibling's `draws` draws, each vector `sign`; {0: 1} if it has too many values."""
    vectors, nonempty = co_sampled.sibling_contributions[level - 1], co_sampled.nonempty[co_sampled.clip]
    max_units = co_sampled.path.schemes[level - 1].max_drawn(co_sampled.path.counts[level - 1])
    if sign and not vectors and draws == 1:
        return _scale(random_contributions(co_sampled, level, limit=_MAX_RANDOM // max_units), sign)
    if nonempty == 1:
        return {sign * vectors * draws: Fraction(1)}
    if draws > 1 or vectors * max_units > _MAX_INDEPENDENT:
        return {0: Fraction(1)}
    return _scale(binomial_lower(vectors, nonempty), sign)


def _contributing_units(count: int, rate: Fraction) -> int:
    """Return how many of `count` Poisson units may contribute, so that more than 96 are rarely drawn."""
    if count <= _MAX_INDEPENDENT:
        return count
    # 12 deviations above the mean: n r + 12 sqrt(n r) = limit.
    return min(count, max(_MAX_INDEPENDENT, int((math.sqrt(36 + _MAX_RANDOM) - 6) ** 2 / float(rate))))


def _level_sum(co_sampled: CoSampled, level: int, sibling: Mixture, on_path: Mixture) -> Mixture:
    """Return the law of the sum of a level's draw: of siblings (0 in `all`, shuffles, long Poisson) and `on_path`."""
    path, contributes = co_sampled.path, sibling.keys() != {0}
    count, rate = path.counts[level - 1], path.rate(level)
    match path.schemes[level - 1]:
        case WithReplacement(size=size):
            return _sum_with_replacement(size, count, sibling, on_path)
        case Fixed(size=size) if contributes:
            return _mix(rate, convolve(convolve_power(sibling, size - 1), on_path), convolve_power(sibling, size))
        case Poisson(probability=rate) if contributes and count <= _MAX_INDEPENDENT:
            others = _poisson_sum(count - 1, rate, sibling)
            return _mix(rate, convolve(others, on_path), others)
        case CappedPoisson() as scheme:
            return cut_sum(scheme, count, sibling, on_path)
        case _:
            return _mix(rate, on_path, {0: Fraction(1)})


def _sum_with_replacement(size: int, count: int, sibling: Mixture, on_path: Mixture) -> Mixture:
    """Return the law of the sum of `size` draws with replacement; rare large numbers of own draws are cut."""
    total: Mixture = {}
    for copies, chance in binomial_lower(size, Fraction(1, count)).items():
        _add_to(total, convolve(convolve_power(sibling, size - copies), convolve_power(on_path, copies)), chance)
    return total


def _frame_sum_pair(co_sampled: CoSampled, adjacency: Adjacency, contributions: Contributions, members: int) -> Pair:
    """Return the laws in D and D' of a draw's sum from the members' frame; rare large numbers of members are cut."""
    path, sign = co_sampled.path, contributions.others[-1]
    own = _scale(_own_contributions(co_sampled).law, contributions.length)
    count, each = path.counts[-1], _sibling_sum(co_sampled, len(path.counts), sign)
    match path.schemes[-1]:
        case Fixed(size=size):
            law, left = hypergeometric_lower(count, members, size), min(size, count - members)
            return _counted_pair(law, own, each, adjacency, drawn=(size, left))
        case WithReplacement(size=size):
            law = binomial_lower(size, Fraction(members, count))
            return _counted_pair(law, own, each, adjacency, drawn=(size, size if members < count else 0))
        case CappedPoisson() as scheme:  # of single units alone
            swapped = {Adjacency.ADD_REMOVE: None, Adjacency.REPLACE_ONE: own}.get(adjacency, {0: Fraction(1)})
            return cut_sum(scheme, count, each, _scale(own, -1)), cut_sum(scheme, count, each, swapped)
        case Poisson(probability=rate):
            others = _sum_of_poisson_others(path, members, each, sign)
            return _independent_pair(binomial_lower(members, rate), own, others, adjacency)
        case _:
            return _independent_pair({members: Fraction(1)}, own, {0: Fraction(1)}, adjacency)


def _independent_pair(law: CountDistribution, own: Mixture, others: Mixture, adjacency: Adjacency) -> Pair:
    """Return `_counted_pair` of a draw in which the sum of the other units is independent of the members drawn."""
    in_d, in_d_prime = _counted_pair(law, own, {0: Fraction(1)}, adjacency, drawn=(0, 0))
    return convolve(others, in_d), convolve(others, in_d_prime)


def _sum_of_poisson_others(path: Path, members: int, each: Mixture, sign: int) -> Mixture:
    """Return the law of the other units' sum; {0: 1} for over 32 in a frame unless, under a parent, all add `sign`."""
    count, rate, is_sure = path.counts[-1], path.rate(len(path.counts)), each.keys() == {sign}
    # Without a level above it the unit is only hidden by what is drawn with it.
    if count > _MAX_INDEPENDENT and not (is_sure and len(path.counts) > 1):
        return {0: Fraction(1)}
    if is_sure:
        return _scale(binomial_lower(_contributing_units(count - members, rate), rate), sign)
    return _poisson_sum(count - members, rate, each)


def _counted_pair(
    law: CountDistribution, own: Mixture, each: Mixture, adjacency: Adjacency, *, drawn: tuple[int, int]
) -> Pair:
    """Return (P, Q), the laws in D and D' of the sum of H members of -`own` each (replaced: +) and others of `each`."""
    p, q = Mixture(), Mixture()
    # Counts ascend, so that the sum of own contributions grows from one to the next instead of being computed anew.
    own_sum, reached = {0: Fraction(1)}, 0
    for h, chance in sorted(law.items()):
        spend(fraction_units(8, 2 * _WEIGHT_BITS))
        own_sum, reached = _round_weights(convolve(own_sum, convolve_power(own, h - reached))), h
        others = convolve(_round_weights(convolve_power(each, drawn[0] - h)), {0: chance}) if drawn[0] else {0: chance}
        match adjacency:
            case Adjacency.ADD_REMOVE:
                other: Mixture = convolve(convolve_power(each, drawn[1]), {0: chance})
            case Adjacency.ZERO_OUT:
                other = others
            case Adjacency.REPLACE_ONE:
                other = convolve(others, own_sum)
        _add_to(p, convolve(others, _scale(own_sum, -1)))
        _add_to(q, other)
    return p, q


def _add_to(total: Mixture, part: Mixture, factor: Fraction | int = 1) -> None:
    """Add `factor` times the weights of a part to a mixture under construction."""
    _spend_on(part)
    for center, weight in part.items():
        total[center] = total.get(center, Fraction(0)) + factor * weight


def episode_pair(
    hierarchy: Hierarchy,
    contributions: Contributions,
    *,
    unit_and_clip: tuple[int, int],
    adjacency: Adjacency,
    members: int = 1,
) -> Pair:
    """Return (P, Q), the laws of the sum of a step of episodes in two actual data sets D and D', without noise."""
    built = hierarchy.episodes
    if built is None:
        raise LookupError("episodes: expected constructed tasks, got none")
    unit, clip = unit_and_clip
    in_task = _members_of_a_task(hierarchy, built, unit, members)
    if clip == 2:
        vectors = built.records if unit == 1 else 1
        law, drawn = drop_rare_tail(convolve_power(in_task, built.tasks)), _units_in_tasks(hierarchy, built, unit)
    else:
        vectors, (law, drawn) = 1, _clipped_above(built, clip, in_task)
        if unit == 2 or adjacency is Adjacency.ZERO_OUT:
            adjacency = Adjacency.REPLACE_ONE  # the vector that the unit turned around stays
    own, each = {contributions.length * vectors: Fraction(1)}, {contributions.others[-1] * vectors: Fraction(1)}
    return _counted_pair(law, own, each, adjacency, drawn=(drawn, drawn))


def _clipped_above(built: Episodes, clip: int, in_task: CountDistribution) -> tuple[CountDistribution, int]:
    """Return (law of clipped vectors that hold a member, number of all): the tasks (clip 1) or the batch (clip 0)."""
    # A vector of several records turns around if any of them is protected: only the number of such vectors counts.
    law = binomial_lower(built.tasks, nonzero_probability(in_task))
    if clip == 0:
        return {0: law.get(0, Fraction(0)), 1: nonzero_probability(law)}, 1
    return law, built.tasks


def _units_in_tasks(hierarchy: Hierarchy, built: Episodes, unit: int) -> int:
    """Return how many classes (unit 1) or records (2) all tasks hold; 0 if a task takes all that there are."""
    if (built.ways, built.records)[unit - 1] == hierarchy.level(unit).count:
        return 0  # nobody is left to stand in
    return built.tasks * built.ways * (1 if unit == 1 else built.records)


def _members_of_a_task(hierarchy: Hierarchy, built: Episodes, unit: int, members: int) -> CountDistribution:
    """Return the law of the protected classes (unit 1) that a task holds, or of the one protected record (unit 2)."""
    classes, records = hierarchy.levels
    if unit == 1:
        return hypergeometric(classes.count, members, built.ways)
    rate = built.class_rate(classes.count) * built.record_rate(records.count)
    return {0: 1 - rate, 1: rate}


def _one_vector_pair(co_sampled: CoSampled, adjacency: Adjacency, contributions: Contributions, members: int) -> Pair:
    """Return the laws in D and D' of the vector that holds the members: -`length` with any drawn, else others' or 0."""
    # The vector of the others is `sign` with any record, else 0; zeroed members leave it.
    length, count = contributions.length, co_sampled.path.counts[-1]
    always_filled = co_sampled.nonempty[co_sampled.clip] == 1 and co_sampled.own_nonempty == 1
    # Which other records are in a batch of a shuffle depends on the order.
    sign = 0 if co_sampled.is_shuffled and not always_filled else contributions.others[-1]
    unseen, empty = _no_record_in_vector(co_sampled, count, members, co_sampled.own_nonempty)
    with_unit = _clipped_vector(-length, sign, unseen, empty)
    if adjacency is Adjacency.REPLACE_ONE:
        return with_unit, _clipped_vector(length, sign, unseen, empty)
    remaining, zeroed = (count - members, 0) if adjacency is Adjacency.ADD_REMOVE else (count, members)
    _, empty = _no_record_in_vector(co_sampled, remaining, zeroed, Fraction(0))
    return with_unit, _clipped_vector(0, sign, Fraction(1), empty)


def _clipped_vector(own: int, sign: int, unseen: Fraction, empty: Fraction) -> Mixture:
    """Return {own: Pr[a member is drawn], sign: Pr[only others are], 0: Pr[no record is]}, without zeros."""
    total: Mixture = {}
    for center, weight in ((own, 1 - unseen), (sign, unseen - empty), (0, empty)):
        if weight:
            total[center] = total.get(center, Fraction(0)) + weight
    return total


def _no_record_in_vector(co_sampled: CoSampled, count: int, members: int, own_nonempty: Fraction) -> NoRecord:
    """Return (Pr[no record of a member is drawn], Pr[no record at all]) in a drawn unit of the clipping level."""
    # From the members' frame outwards to the clipping unit: a unit on the path is missed, or drawn and then as below.
    path, unit = co_sampled.path, len(co_sampled.path.counts)
    unseen, empty = _no_record_in_frame(path.schemes[-1], count, members, own_nonempty, co_sampled.nonempty[unit])
    for j in range(unit - 1, co_sampled.clip, -1):
        unseen, empty = _no_member_above(path, j, unseen), _no_record_above(path, j, empty, co_sampled.nonempty[j])
    return unseen, empty


def _no_member_above(path: Path, level: int, unseen: Fraction) -> Fraction:
    """Return Pr[no record of a member] of a level's draw, given that of its unit on the path."""
    scheme, count, rate = path.schemes[level - 1], path.counts[level - 1], path.rate(level)
    if isinstance(scheme, WithReplacement):
        return power((count - 1 + unseen) / count, scheme.size)
    return 1 - rate + rate * unseen


def _no_record_above(path: Path, level: int, empty: Fraction, nonempty: Fraction) -> Fraction:
    """Return Pr[no record] of a level's draw; its unit on the path has none by `empty`, siblings some by `nonempty`."""
    count, rate = path.counts[level - 1], path.rate(level)
    match path.schemes[level - 1]:
        case WithReplacement(size=size):
            return power(((count - 1) * (1 - nonempty) + empty) / count, size)
        case Fixed(size=size):
            return power(1 - nonempty, size - 1) * (rate * empty + (1 - rate) * (1 - nonempty))
        case CappedPoisson() as scheme:
            return cut_empty_probability(scheme, count, empty)
        case _:
            return power(1 - rate * nonempty, count - 1) * (1 - rate + rate * empty)


def _no_record_in_frame(
    scheme: Scheme, count: int, members: int, own_nonempty: Fraction, nonempty: Fraction
) -> NoRecord:
    """Return (Pr[no record of a member], Pr[no record]) of a draw, from the chances that a unit holds any."""
    if not count:
        return Fraction(1), Fraction(1)
    match scheme:
        case Fixed(size=size):
            law = hypergeometric(count, members, min(size, count))
            none = {h: chance * power(1 - own_nonempty, h) for h, chance in law.items()}
            empty = (chance * power(1 - nonempty, min(size, count) - h) for h, chance in none.items())
            return sum(none.values(), Fraction(0)), sum(empty, Fraction(0))
        case WithReplacement(size=size):
            rate = Fraction(members, count)
            is_empty = rate * (1 - own_nonempty) + (1 - rate) * (1 - nonempty)
            return power(1 - rate * own_nonempty, size), power(is_empty, size)
        case CappedPoisson():
            return _no_record_in_capped_draw(scheme, count, members, own_nonempty)
        case _:
            rate = scheme.rate(count)
            unseen = power(1 - rate * own_nonempty, members)
            return unseen, unseen * power(1 - rate * nonempty, count - members)


def _no_record_in_capped_draw(scheme: CappedPoisson, count: int, members: int, own_nonempty: Fraction) -> NoRecord:
    """Return (Pr[no record of the member], Pr[no record]), as if every other unit held records; members is 0 or 1."""
    if not members:
        return Fraction(1), power(1 - scheme.probability, count)
    return 1 - scheme.rate(count) * own_nonempty, cut_empty_probability(scheme, count, 1 - own_nonempty)


class ContributionLaw(NamedTuple):
    """The law of a number of contributions; inexact, it is that of a data set with fewer of them."""

    law: Mixture
    is_exact: bool


@cached_with_cost(16)
def _own_contributions(co_sampled: CoSampled) -> ContributionLaw:
    """Return the law of a drawn unit's contributions; if it has too many values, an inexact one of fewer of them."""
    if (law := _sum_of_fixed_children(co_sampled)) is not None:
        return ContributionLaw(law, is_exact=True)
    nonempty = co_sampled.own_nonempty
    records: Mixture = {0: 1 - nonempty, 1: nonempty} if nonempty < 1 else {1: Fraction(1)}
    if co_sampled.own_contributions:
        return _compound({co_sampled.own_contributions: Fraction(1)}, records)
    return _contributions_below(co_sampled, records)


def _sum_of_fixed_children(co_sampled: CoSampled) -> Mixture | None:
    """Return the exact law of a fixed draw of children that surely hold records; None for other draws or large sums."""
    drawn = co_sampled.levels_below[0][0].scheme if co_sampled.levels_below else None
    if not isinstance(drawn, Fixed) or co_sampled.own_nonempty != 1:
        return None
    sums = len(co_sampled.child_contributions) * drawn.size**2 * max(co_sampled.child_contributions, default=0)
    return _sum_of_some(co_sampled.child_contributions, drawn.size) if 0 < sums < _MAX_SUMS else None


def _contributions_below(co_sampled: CoSampled, records: Mixture) -> ContributionLaw:
    """Return the law of a drawn unit's contributions by the draws of all levels below, inexact if any sum is."""
    counts, is_exact = records, True
    for level, fewest in reversed(co_sampled.levels_below):
        counts, is_known = _sum_over_children(level.scheme, fewest, counts)
        is_exact &= is_known
    return ContributionLaw(counts, is_exact)


def _sum_over_children(scheme: Scheme, count: int, each: Mixture) -> ContributionLaw:
    """Return `_compound` of the children drawn; of over 32 in a capped Poisson draw, all but one contribute nothing."""
    if isinstance(scheme, CappedPoisson) and count > _MAX_INDEPENDENT:
        return _compound({1: Fraction(1)}, cut_sum(scheme, count, {0: Fraction(1)}, each))
    return _compound(_children_drawn(scheme, count), each)


def _children_drawn(scheme: Scheme, count: int) -> CountDistribution:
    """Return the law of the number of children drawn, of 32 at most if Poisson; 1 if a shuffle has a short batch."""
    match scheme:
        case Poisson(probability=rate):
            return binomial_lower(min(count, _MAX_INDEPENDENT), rate)
        case CappedPoisson(probability=rate, max_batch_size=cap):
            return capped_distribution(binomial_lower(count, rate), cap)
        case Shuffle(drop_last=False):
            return {1: Fraction(1)}
        case _:
            return {scheme.max_drawn(count): Fraction(1)}


def _sum_of_some(values: tuple[int, ...], size: int) -> Mixture:
    """Return the exact distribution of the sum of `size` of the values, drawn without replacement."""
    # ways[k][t]: number of k-subsets of the values so far with sum t; taken downwards, so that each value is used once.
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for value in values:
        spend(2 * TURN * sum(map(len, ways)))
        for taken in range(size, 0, -1):
            for total, number in ways[taken - 1].items():
                ways[taken][total + value] = ways[taken].get(total + value, 0) + number
    return {total: Fraction(number, comb(len(values), size)) for total, number in ways[size].items()}


def _poisson_sum(count: int, rate: Fraction, each: Mixture) -> Mixture:
    """Return the law of a Poisson draw's sum, of at most 32 units and about 96 values; further units add 0."""
    units = max(1, _MAX_RANDOM // max(1, len(each) - 1))
    return _compound(binomial_lower(min(count, units, _MAX_INDEPENDENT), rate), each).law


def _compound(counts: CountDistribution, each: Mixture) -> ContributionLaw:
    """Return the law of a sum of `counts` draws of `each`; inexact and of fewer draws if it has over 96 values."""
    if len(each) == 1:
        return ContributionLaw(_scale(counts, *each), is_exact=True)
    max_draws = max(1, _MAX_RANDOM // (len(each) - 1))
    total, sums, reached = dict[int, Fraction](), {0: Fraction(1)}, 0
    for count, weight in sorted(counts.items()):
        while reached < min(count, max_draws):
            sums, reached = _round_weights(convolve(sums, each)), reached + 1
        _add_to(total, sums, weight)
    return ContributionLaw(total, max(counts) <= max_draws)


def _round_weights(a: Mixture) -> Mixture:
    """Return the weights; if one has over 2200 bits, all are rounded to 1100 in favour of the center nearest 0."""
    # Less than the smallest float is cut off, and joins the smallest number of contributions, which costs less.
    if all(weight.denominator.bit_length() <= 2 * _WEIGHT_BITS for weight in a.values()):
        return a
    short = {center: Fraction(int(weight * (1 << _WEIGHT_BITS)), 1 << _WEIGHT_BITS) for center, weight in a.items()}
    short[min(a, key=abs)] += sum(a.values()) - sum(short.values())
    return {center: weight for center, weight in short.items() if weight}


def _spend_on(a: Mixture) -> None:
    """Charge the work limit with a product and a sum for each weight of a distribution."""
    spend(fraction_units(2 * len(a), 2 * max((weight.denominator.bit_length() for weight in a.values()), default=1)))


def _scale(a: Mixture, factor: int) -> Mixture:
    """Return the law of `factor` times a count; a factor of 0 gives {0: total weight}."""
    _spend_on(a)
    total: Mixture = {}
    for x, p in a.items():
        total[factor * x] = total.get(factor * x, Fraction(0)) + p
    return total


def _mix(rate: Fraction, a: Mixture, b: Mixture) -> Mixture:
    """Return the mixture of `a` with probability `rate` and `b` otherwise, without zero weights."""
    _spend_on(a)
    _spend_on(b)
    total = {x: rate * a.get(x, Fraction(0)) + (1 - rate) * b.get(x, Fraction(0)) for x in {**a, **b}}
    return {x: p for x, p in total.items() if p}
