"""Actual data sets and their pair (P, Q): what they cost is a lower end for the one-step bound.

On the line, clipped to norm 1: every contribution of the protected unit is -1 (replaced: +1); a unit
drawn beside its level-j ancestor contributes `signs[j - 1]` with each of its vectors. The batch means in D
and D' are then Gaussian mixtures whose weights are the exact probabilities of the draws. Where units beside an ancestor
differ in size, each contributes as much as the least of them: contributions may be shorter than the clip norm.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb, prod

from dpcalc.adjacency import Adjacency
from dpcalc.sampling.company import Company
from dpcalc.sampling.schemes import All, Fixed, Poisson

Mixture = dict[int, Fraction]  # weight by center, in clip norms

_MOST_SUMS = 200_000  # more sums of some of the protected unit's parts are not told apart
_MOST_INDEPENDENT = 32  # more independently drawn vectors than this are left at 0: a smaller cost, still exact


def sign_patterns(unit: int) -> Iterator[tuple[int, ...]]:
    """The sign of the units beside each ancestor, level 1 to the protected level; 0: they contribute nothing."""
    yield from product((1, -1, 0), repeat=unit)


def data_set_pair(company: Company, *, adjacency: Adjacency, signs: tuple[int, ...]) -> tuple[Mixture, Mixture]:
    """The distributions of the batch mean in D and D' for one pattern.

    Args:
        company: the protected unit and the units drawn beside it.
        adjacency: relation between D and D'.
        signs: +1, -1 or 0 by level, length p; below a clipping level above the unit, the sign of the clipped
            vector of a draw that misses the unit.

    Returns:
        (P, Q) of D and D', exact weights by center.
    """
    path, unit, clip = company.path, len(company.path.counts), company.clip
    if clip < unit:
        inner = _clipped_above(company, adjacency, signs[unit - 1])
        lowest = clip
    else:
        inner = _unit_level(company, adjacency, signs[unit - 1])
        lowest = unit - 1
    for j in range(lowest, 0, -1):
        inside, missed = _mates(company, j, signs[j - 1])
        rate = path.rate(j)
        inner = (
            _mix(rate, _sum(inside, inner[0]), missed),
            _mix(rate, _sum(inside, inner[1]), missed),
        )
    return inner


def _unit_level(company: Company, adjacency: Adjacency, sign: int) -> tuple[Mixture, Mixture]:
    """(D, D') of the contributions under the drawn parent of the protected unit."""
    unit = len(company.path.counts)
    inside, missed = _mates(company, unit, sign)
    rate = company.path.rate(unit)
    own = _own(company)
    with_unit = _mix(rate, _sum(inside, _scale(own, -1)), missed)
    match adjacency:
        case Adjacency.ADD_REMOVE:
            return with_unit, missed
        case Adjacency.ZERO_OUT:
            return with_unit, _mix(rate, inside, missed)
        case Adjacency.REPLACE_ONE:
            return with_unit, _mix(rate, _sum(inside, own), missed)


def _clipped_above(company: Company, adjacency: Adjacency, sign: int) -> tuple[Mixture, Mixture]:
    """(D, D') of the one clipped vector that a drawn level-c unit with the protected unit inside gives."""
    path = company.path
    rate = prod((path.rate(j) for j in range(company.clip + 1, len(path.counts) + 1)), start=Fraction(1))
    missed = {sign: Fraction(1)}
    with_unit = _mix(rate, {-1: Fraction(1)}, missed)
    if adjacency is Adjacency.ADD_REMOVE:
        return with_unit, missed
    return with_unit, _mix(rate, {1: Fraction(1)}, missed)


def _mates(company: Company, number: int, sign: int) -> tuple[Mixture, Mixture]:
    """What the units beside a level-`number` ancestor contribute when it is drawn, and when it is missed."""
    each, count = company.beside[number - 1], company.path.counts[number - 1]
    nothing = {0: Fraction(1)}
    match company.path.schemes[number - 1]:
        case Fixed(size=size) if each:
            return {sign * each * (size - 1): Fraction(1)}, {sign * each * size: Fraction(1)}
        case Poisson(probability=rate) if each and sign and count <= _MOST_INDEPENDENT:
            beside = _scale(_binomial(count - 1, rate), sign * each)
            return beside, beside
        case _:
            return nothing, nothing


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
            case Fixed() | All():
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
    n = min(count, _MOST_INDEPENDENT)
    return {k: weight for k in range(n + 1) if (weight := comb(n, k) * rate**k * (1 - rate) ** (n - k))}


def _power(a: Mixture, count: int) -> Mixture:
    """Distribution of the sum of `count` independent draws; random ones beyond the limit are left at 0."""
    if len(a) == 1:
        ((value, weight),) = a.items()
        return {value * count: weight}
    total: Mixture = {0: Fraction(1)}
    for _ in range(min(count, max(1, _MOST_INDEPENDENT // len(a)))):
        total = _sum(total, a)
    return total


def _compound(counts: Mixture, each: Mixture) -> Mixture:
    """Distribution of a sum of a random number of independent terms, as many as the limit allows."""
    total: Mixture = {}
    for count, weight in counts.items():
        for value, inner in (_power(each, count) if count else {0: Fraction(1)}).items():
            total[value] = total.get(value, Fraction(0)) + weight * inner
    return total


def _sum(a: Mixture, b: Mixture) -> Mixture:
    """Distribution of the sum of two independent values."""
    total: Mixture = {}
    for x, p in a.items():
        for y, q in b.items():
            total[x + y] = total.get(x + y, Fraction(0)) + p * q
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
