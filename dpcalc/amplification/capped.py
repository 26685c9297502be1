"""Poisson batches that are cut at random to a maximum: whether the other units alone fill the batch is revealed.

Given that they do not, the draw is a Poisson draw; given that they do, it is a draw of a fixed size, in which another
unit stands in for a missed one. Whether they do is the same in D and D', so that the bound is the average of the two.

Source: docs/theory.md, Theorem 4.9.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.counts import Average, Bound, Part
from dpcalc.errors import WorkExceededError
from dpcalc.sampling.counts import CountDistribution, binomial, convolve, convolve_power, mixture, overflow, power
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import CappedPoisson, FixedAtRate, Poisson, Scheme

_MAX_AVERAGED = 3  # capped levels of which each is averaged: 27 parts; another one counts as always full


def average_over_cuts(path: Path, bound: Callable[[Path], Bound]) -> Bound:
    """Return `bound` averaged over which capped draws are full, from the fourth on always; `bound(path)` without.

    Args:
        path: the path to a single protected unit; each of its draws is made anew in every step.
        bound: from a path with Poisson or fixed-size draws in the place of capped ones to the bound of a step; never
            falls with a rate, and a fixed-size draw costs no less than a Poisson draw of the same rate.

    Returns:
        An upper bound in both directions.

    Source: docs/theory.md, Theorem 4.9.
    """
    outcomes: list[tuple[Fraction, tuple[Scheme, ...]]] = [(Fraction(1), ())]
    averaged = 0
    for at, scheme in enumerate(path.schemes):
        cases: list[tuple[Fraction, Scheme]] = [(Fraction(1), scheme)]
        if isinstance(scheme, CappedPoisson):
            averaged += 1
            ends = (path.counts[at], path.max_counts[at]) if averaged <= _MAX_AVERAGED else None
            cases = [case for case in _cases(scheme, ends) if case[0]]
        outcomes = [(chance * share, (*above, case)) for chance, above in outcomes for share, case in cases]
    if not averaged:
        return bound(path)
    parts: list[tuple[Fraction, Part]] = []
    for chance, schemes in outcomes:
        part = bound(replace(path, schemes=schemes))
        parts += [(chance * p, x) for p, x in part.parts] if isinstance(part, Average) else [(chance, part)]
    return Average(parts=tuple(parts))


def _cases(scheme: CappedPoisson, counts: tuple[int, int] | None) -> Iterator[tuple[Fraction, Scheme]]:
    """Yield (probability, scheme) given that the others leave room, fill the batch, or may; always full if unknown.

    Args:
        scheme: of one level.
        counts: (fewest, most) units that the frame may hold; None if it must not be looked at.
    """
    rate, cap = scheme.probability, scheme.max_batch_size
    few, many = (overflow(count - 1, rate, cap) for count in counts) if counts is not None else (None, None)
    if few is None or many is None:
        few, many = (Fraction(0), Fraction(0)), (Fraction(1), Fraction(0))
    # Of more units the batch is full more often, and each is in it less often. Where it may or may not be full, a
    # full batch at the rate of a Poisson draw costs no less than either.
    yield 1 - many[0], Poisson(probability=rate)
    yield few[0], FixedAtRate(size=cap, probability=few[1] or rate)
    yield many[0] - few[0], FixedAtRate(size=cap, probability=rate)


# Cut draws of an actual data set (docs/theory.md, Theorem 10.1)


_MAX_INDEPENDENT = 32  # units of a frame; of more, those beside the one on the path contribute nothing


def cut_sum(
    scheme: CappedPoisson, count: int, each: CountDistribution, inner: CountDistribution | None
) -> CountDistribution:
    """Return the law of a cut draw's sum: the unit adds `inner` (None: is not there), others `each` (over 32 units 0).

    Args:
        scheme: of the frame.
        count: units in it, that on the path included.
        each: contribution of every other drawn unit; it counts as 0 if they are more than `_MAX_INDEPENDENT`.
        inner: contribution of the unit on the path; None if it was removed.

    Raises:
        WorkExceededError: the probability of a full batch needs too much work.
    """
    (chance, inclusion), rate, cap = _full_batch(scheme, count), scheme.probability, scheme.max_batch_size
    each = each if count <= _MAX_INDEPENDENT else {0: Fraction(1)}
    of_others = binomial(count - 1, rate) if each.keys() != {0} else {0: Fraction(1)}
    room = {others: share for others, share in of_others.items() if others < cap}
    factor = (1 - chance) / sum(room.values()) if room else Fraction(0)
    cases = [(share * factor, others, others, rate) for others, share in room.items()]
    parts = []
    for share, others, others_with_unit, hit in [*cases, (chance, cap, cap - 1, inclusion)]:
        missed = convolve_power(each, others)
        parts.append((share * (1 - hit), missed))
        parts.append(
            (share * hit, missed if inner is None else convolve(convolve_power(each, others_with_unit), inner))
        )
    return mixture(parts)


def cut_empty_probability(scheme: CappedPoisson, count: int, own_empty: Fraction) -> Fraction:
    """Return Pr[a cut draw holds no record], the unit empty with `own_empty`, others never; or WorkExceededError.

    Args:
        scheme: of the frame.
        count: units in it, that on the path included.
        own_empty: probability that the unit on the path holds no record if it is drawn.

    Raises:
        WorkExceededError: the probability of a full batch needs too much work.
    """
    chance, inclusion = _full_batch(scheme, count)
    nobody = power(1 - scheme.probability, count - 1) * (1 - scheme.probability * (1 - own_empty))
    return nobody + (chance * inclusion * own_empty if scheme.max_batch_size == 1 else 0)


def _full_batch(scheme: CappedPoisson, count: int) -> tuple[Fraction, Fraction]:
    """Return (Pr[the others fill the batch], Pr[the unit is in it, given that]); WorkExceededError if unknown."""
    known = overflow(count - 1, scheme.probability, scheme.max_batch_size)
    if known is None:
        raise WorkExceededError("max_batch_size: expected batches of fewer likely sizes, got too many to count")
    return known
