"""Actual data sets and their pair (P, Q): what they cost is a lower end for the one-step bound.

On the line, clipped to norm 1: every contribution of the protected unit is -1 (replaced: +1); a unit
drawn beside its level-j ancestor contributes `signs[j - 1]` with each of its vectors. The batch means in D
and D' are then Gaussian mixtures whose weights are the exact probabilities of the draws. Where units beside an ancestor
differ in size, each contributes as much as the least of them: contributions may be shorter than the clip norm.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb

from dpcalc.adjacency import Adjacency
from dpcalc.sampling.company import Company
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.laws import Law, at_least_one, binomial, hypergeometric, summed, times, without_rare
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, Shuffle, WithReplacement

Mixture = dict[int, Fraction]  # weight by center, in clip norms

_MOST_SUMS = 200_000  # more sums of some of the protected unit's parts are not told apart
_MOST_INDEPENDENT = 32  # more independently drawn vectors than this are left at 0: a smaller cost, still exact


def sign_patterns(unit: int) -> Iterator[tuple[int, ...]]:
    """The sign of the units beside each ancestor, level 1 to the protected level; 0: they contribute nothing."""
    yield from product((1, -1, 0), repeat=unit)


def data_set_pair(
    company: Company, *, adjacency: Adjacency, signs: tuple[int, ...], members: int = 1, repeats: tuple[int, ...] = ()
) -> tuple[Mixture, Mixture]:
    """The distributions of the batch mean in D and D' for one pattern, summed over the draws under one of level 1.

    Args:
        company: the protected unit and the units drawn beside it.
        adjacency: relation between D and D'.
        signs: +1, -1 or 0 by level, length p; below a clipping level above the unit, the sign of the clipped
            vector of a draw that misses the unit.
        members: units protected together, all in one frame.
        repeats: for each level above the protected one, how many draws of the next level are summed under one of its
            own; () for one each.

    Returns:
        (P, Q) of D and D', exact weights by center.
    """
    unit, clip = len(company.path.counts), company.clip
    if clip < unit:
        inner = _clipped_above(company, adjacency, signs[unit - 1], members)
        lowest = clip
    else:
        inner = _unit_level(company, adjacency, signs[unit - 1], members)
        lowest = unit - 1
    summed_up = 1
    for j in range(lowest, 0, -1):
        again = repeats[j - 1] if repeats else 1
        summed_up *= again
        p, q = (_drawn(company, j, signs[j - 1] * summed_up, times(side, again)) for side in inner)
        inner = p, q
    return inner


def _drawn(company: Company, number: int, sign: int, inner: Mixture) -> Mixture:
    """What the draw of a level gives, with the units beside the ancestor there, from what the ancestor gives."""
    each, path = sign * company.beside[number - 1], company.path
    count, rate = path.counts[number - 1], path.rate(number)
    match path.schemes[number - 1]:
        case WithReplacement(size=size):
            found: Mixture = {}
            for copies, chance in without_rare(binomial(size, Fraction(1, count))).items():
                for center, weight in summed({each * (size - copies): chance}, times(inner, copies)).items():
                    found[center] = found.get(center, Fraction(0)) + weight
            return found
        case Fixed(size=size) if each:
            return _mix(rate, summed({each * (size - 1): Fraction(1)}, inner), {each * size: Fraction(1)})
        case Poisson(probability=rate) if each and count <= _MOST_INDEPENDENT:
            beside = _scale(_binomial(count - 1, rate), each)
            return _mix(rate, summed(beside, inner), beside)
        case _:
            return _mix(rate, inner, {0: Fraction(1)})


def _unit_level(company: Company, adjacency: Adjacency, sign: int, members: int) -> tuple[Mixture, Mixture]:
    """(D, D') of the contributions under the drawn parent of what is protected."""
    path, own = company.path, _own(company)
    count, each = path.counts[-1], sign * company.beside[len(path.counts) - 1]
    match path.schemes[-1]:
        case Fixed(size=size):
            return counted_pair(hypergeometric(count, members, size), own, each, adjacency, drawn=size)
        case WithReplacement(size=size):
            law = without_rare(binomial(size, Fraction(members, count)))
            return counted_pair(law, own, each, adjacency, drawn=size)
        case Poisson(probability=rate):
            law = without_rare(binomial(members, rate))
            beside = (
                _scale(_binomial(count - members, rate), each)
                if each and count <= _MOST_INDEPENDENT
                else {0: Fraction(1)}
            )
        case _:
            law, beside = {members: Fraction(1)}, {0: Fraction(1)}
    there, other = counted_pair(law, own, 0, adjacency, drawn=0)
    return summed(beside, there), summed(beside, other)


def counted_pair(law: Law, own: Mixture, each: int, adjacency: Adjacency, *, drawn: int) -> tuple[Mixture, Mixture]:
    """(D, D') where H of the units drawn are protected ones, contributing -own each (replaced: +own), the rest `each`.

    Args:
        law: of H.
        own: law of the number of clipped contributions of a protected unit.
        each: what every other unit contributes.
        adjacency: relation between D and D'.
        drawn: units drawn in all; 0 where nobody stands in for the protected ones.
    """
    p: Mixture = {}
    q: Mixture = {}
    for h, chance in law.items():
        held = times(own, h)
        rest = {each * (drawn - h): chance} if drawn else {0: chance}
        match adjacency:
            case Adjacency.ADD_REMOVE:
                other: Mixture = {each * drawn: chance}
            case Adjacency.ZERO_OUT:
                other = rest
            case Adjacency.REPLACE_ONE:
                other = summed(rest, held)
        for total, part in ((p, summed(rest, _scale(held, -1))), (q, other)):
            for center, weight in part.items():
                total[center] = total.get(center, Fraction(0)) + weight
    return p, q


def episode_pair(
    hierarchy: Hierarchy, sign: int, *, draw: tuple[int, int], adjacency: Adjacency, members: int = 1
) -> tuple[Mixture, Mixture]:
    """(P, Q) of a step that builds its tasks; where a task or the batch is clipped, what is protected turns it around.

    Args:
        hierarchy: classes and their records, with episodes.
        sign: of every other contribution.
        draw: the protected level (1 for classes, 2 for records) and the clipping level (2 for records, 1 for tasks,
            0 for the whole batch).
        adjacency: relation between D and D'.
        members: classes protected together; of records, 1.
    """
    built = hierarchy.episodes
    if built is None:
        raise LookupError("episodes: expected constructed tasks, got none")
    (unit, clip), (classes, records) = draw, hierarchy.levels
    in_task = hypergeometric(classes.count, members, built.ways)
    if unit == 2:
        rate = built.class_rate(classes.count) * built.record_rate(records.count)
        in_task = {0: 1 - rate, 1: rate}
    if clip == 2:
        held = built.records if unit == 1 else 1
        whole = (built.ways, built.records)[unit - 1] == hierarchy.level(unit).count  # nobody is left to stand in
        drawn = 0 if whole else built.tasks * built.ways * (1 if unit == 1 else built.records)
        law = without_rare(times(in_task, built.tasks))
        return counted_pair(law, {held: Fraction(1)}, sign * held, adjacency, drawn=drawn)
    law = without_rare(binomial(built.tasks, at_least_one(in_task)))
    vectors = built.tasks
    if clip == 0:
        law, vectors = {0: law.get(0, Fraction(0)), 1: at_least_one(law)}, 1
    above = adjacency if unit == 1 and adjacency is Adjacency.ADD_REMOVE else Adjacency.REPLACE_ONE
    return counted_pair(law, {1: Fraction(1)}, sign, above, drawn=vectors)


def _clipped_above(company: Company, adjacency: Adjacency, sign: int, members: int) -> tuple[Mixture, Mixture]:
    """(D, D') of the one clipped vector that a drawn level-c unit with the protected units inside gives."""
    path = company.path
    rate = _any_drawn(path.schemes[-1], path.counts[-1], members)
    for j in range(len(path.counts) - 1, company.clip, -1):
        scheme, count = path.schemes[j - 1], path.counts[j - 1]
        if isinstance(scheme, WithReplacement):
            rate = 1 - (1 - rate / count) ** scheme.size
        else:
            rate *= path.rate(j)
    missed = {sign: Fraction(1)}
    with_unit = _mix(rate, {-1: Fraction(1)}, missed)
    if adjacency is Adjacency.ADD_REMOVE:
        return with_unit, missed
    return with_unit, _mix(rate, {1: Fraction(1)}, missed)


def _any_drawn(scheme: Scheme, count: int, members: int) -> Fraction:
    """Probability that a draw from a frame holds any of some units."""
    match scheme:
        case Fixed(size=size):
            return at_least_one(hypergeometric(count, members, size))
        case WithReplacement(size=size):
            return 1 - Fraction(count - members, count) ** size
        case Poisson(probability=rate):
            return 1 - (1 - rate) ** members
        case _:
            return Fraction(1)


def _own(company: Company) -> Mixture:
    """Distribution of the number of clipped contributions of the drawn protected unit, or of the part that is not 0."""
    drawn = company.under[0][0].scheme if company.under else None
    if isinstance(drawn, Fixed) and 0 < len(company.parts) * drawn.size**2 * max(company.parts, default=0) < _MOST_SUMS:
        return _sum_of_some(company.parts, drawn.size)
    if company.own:
        return {company.own: Fraction(1)}
    counts: Mixture = {1: Fraction(1)}
    for level, fewest in reversed(company.under):
        match level.scheme:
            case Poisson(probability=rate):
                counts = _compound(_binomial(fewest, rate), counts)
            case Fixed() | All() | Shuffle(drop_last=True):
                counts = _power(counts, level.scheme.most_drawn(fewest))
    return counts


def _sum_of_some(values: tuple[int, ...], size: int) -> Mixture:
    """Distribution of the sum of `size` of the values, drawn without replacement."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for value in values:
        for taken in range(size, 0, -1):
            for total, number in ways[taken - 1].items():
                ways[taken][total + value] = ways[taken].get(total + value, 0) + number
    return {total: Fraction(number, comb(len(values), size)) for total, number in ways[size].items()}


def _binomial(count: int, rate: Fraction) -> Mixture:
    """How many of the vectors that are not left at 0 are drawn."""
    return binomial(min(count, _MOST_INDEPENDENT), rate)


def _power(a: Mixture, count: int) -> Mixture:
    """Distribution of the sum of `count` independent draws; random ones beyond the limit are left at 0."""
    if len(a) == 1:
        ((value, weight),) = a.items()
        return {value * count: weight}
    total: Mixture = {0: Fraction(1)}
    for _ in range(min(count, max(1, _MOST_INDEPENDENT // len(a)))):
        total = summed(total, a)
    return total


def _compound(counts: Mixture, each: Mixture) -> Mixture:
    """Distribution of a sum of a random number of independent terms, as many as the limit allows."""
    total: Mixture = {}
    for count, weight in counts.items():
        for value, inner in (_power(each, count) if count else {0: Fraction(1)}).items():
            total[value] = total.get(value, Fraction(0)) + weight * inner
    return total


def _scale(a: Mixture, factor: int) -> Mixture:
    """Distribution of a multiple."""
    total: Mixture = {}
    for x, p in a.items():
        total[factor * x] = total.get(factor * x, Fraction(0)) + p
    return total


def _mix(rate: Fraction, a: Mixture, b: Mixture) -> Mixture:
    """`a` with probability `rate`, else `b`."""
    total: Mixture = {x: rate * p for x, p in a.items()}
    for x, p in b.items():
        total[x] = total.get(x, Fraction(0)) + (1 - rate) * p
    return {x: p for x, p in total.items() if p}
