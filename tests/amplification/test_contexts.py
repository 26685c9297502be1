"""What a step reveals of a group, against enumeration of every draw."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest

from dpcalc.amplification.groups import contexts, large_group, members_in_batch, placements
from dpcalc.sampling.counts import convolve
from dpcalc.sampling.schemes import All, Fixed, Poisson, WithReplacement

THIRD = Fraction(1, 3)


def draws(scheme, count):
    """(the units drawn, with repetitions; probability) for every draw of a frame."""
    units = range(count)
    match scheme:
        case Fixed(size=size):
            batches = list(combinations(units, size))
            return [(batch, Fraction(1, len(batches))) for batch in batches]
        case WithReplacement(size=size):
            return [(batch, Fraction(1, count**size)) for batch in product(units, repeat=size)]
        case Poisson(probability=q):
            found = []
            for taken in product((0, 1), repeat=count):
                chance = Fraction(1)
                for one in taken:
                    chance *= q if one else 1 - q
                found.append((tuple(u for u in units if taken[u]), chance))
            return found
        case _:
            return [(tuple(units), Fraction(1))]


def members_law(placement, schemes, counts):
    """The law of the number of members in a batch, by drawing level after level."""
    (scheme, *below), (count, *sizes) = schemes, counts
    law = Counter()
    for batch, chance in draws(scheme, count):
        if isinstance(placement, int):
            law[sum(unit < placement for unit in batch)] += chance
            continue
        inside = {0: Fraction(1)}
        for unit in batch:
            if unit < len(placement):
                inside = convolve(inside, members_law(placement[unit], below, sizes))
        for number, weight in inside.items():
            law[number] += chance * weight
    return {number: weight for number, weight in law.items() if weight}


TREES = [
    ((2,), [Fixed(size=2), Fixed(size=2)], [3, 4]),
    ((2, 1), [Fixed(size=2), Poisson(probability=THIRD)], [4, 3]),
    ((1, 1, 1), [Poisson(probability=THIRD), Fixed(size=1)], [3, 3]),
    ((2, 1), [All(), WithReplacement(size=2)], [2, 3]),
    ((2,), [WithReplacement(size=3), Fixed(size=1)], [3, 3]),
    ((2, 2), [WithReplacement(size=2), Poisson(probability=THIRD)], [3, 2]),
    (((1, 1), (2,)), [Fixed(size=1), Poisson(probability=THIRD), Fixed(size=2)], [3, 2, 3]),
    (((1, 1), (1,)), [Poisson(probability=THIRD), WithReplacement(size=2), All()], [2, 2, 2]),
    (3, [Fixed(size=2)], [5]),
]


@pytest.mark.parametrize(("placement", "schemes", "counts"), TREES)
def test_contexts_and_members_make_the_law_of_the_batch(placement, schemes, counts):
    found = Counter()
    told = contexts(placement, schemes, counts)
    assert sum(told.values()) == 1
    for context, chance in told.items():
        for number, weight in members_in_batch(context, schemes[-1], counts[-1]).items():
            found[number] += chance * weight
    assert dict(found) == members_law(placement, schemes, counts)


def test_several_kinds_under_draws_with_replacement_are_bounded_from_above():
    told = contexts((2, 1), [WithReplacement(size=2), Fixed(size=1)], [3, 3])
    assert told == {((1, 2), (2, 2)): 1}


def test_every_placement_once_and_none_without_room():
    assert [len(placements(k, (99, 99))) for k in range(1, 8)] == [1, 2, 3, 5, 7, 11, 15]  # partitions, OEIS A000041
    assert [len(placements(k, (99, 99, 99))) for k in range(1, 7)] == [1, 3, 6, 14, 27, 58]  # OEIS A001970
    assert placements(4, (2, 3)) == [(3, 1), (2, 2)]
    assert placements(5, (2, 2)) == []
    assert placements(3, (3,)) == [3]


@pytest.mark.parametrize("placement", placements(4, (9, 9)))
def test_a_large_group_is_drawn_no_less_than_any_placement(placement):
    """Given that any parent is drawn, and revealed, the bound on the tails holds."""
    rate, eta = Fraction(1, 4), Fraction(1, 5)
    schemes = [Poisson(probability=eta), Fixed(size=3)]
    ((drawn, law),) = large_group(4, eta, rate)
    told = contexts(placement, schemes, [9, 12])
    assert sum(chance for context, chance in told.items() if context) <= drawn
    for context in told:
        inside = members_in_batch(context, schemes[-1], 12)
        for j in range(1, 5):
            assert sum(p for h, p in inside.items() if h >= j) <= sum(p for h, p in law.items() if h >= j)
