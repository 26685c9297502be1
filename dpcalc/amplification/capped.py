"""Poisson batches that are cut at random to a maximum: whether the other units alone fill the batch is revealed.

Given that they do not, the draw is a Poisson draw; given that they do, it is a draw of a fixed size, in which another
unit stands in for a missed one. Whether they do is the same in D and D', so that the bound is the average of the two.

Source: docs/theory.md, Theorem 4.9.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.counts import Average, Bound, Part
from dpcalc.sampling.counts import overflow
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import CappedPoisson, FixedAtRate, Poisson, Scheme

_MAX_AVERAGED = 3  # capped levels of which each is averaged: 27 parts; another one counts as always full


def average_over_cuts(path: Path, bound: Callable[[Path], Bound]) -> Bound:
    """Return the average of `bound` over which capped draws of a path are full; `bound(path)` without such draws.

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
    """Yield (probability, scheme): Poisson where the others leave room, else fixed size; they sum to 1.

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
