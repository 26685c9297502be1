"""Laws of counts against enumeration."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest

from dpcalc.sampling.laws import binomial, hypergeometric, put_together, summed, times, without_rare


def tails(law):
    """Pr[count >= j] for every j."""
    return {j: sum(chance for count, chance in law.items() if count >= j) for j in range(max(law) + 2)}


@pytest.mark.parametrize(("trials", "rate"), [(0, "1/2"), (1, "0"), (3, "1"), (7, "2/5"), (40, "1/3")])
def test_a_binomial_is_counted_out(trials, rate):
    q = Fraction(rate)
    expected = {k: comb(trials, k) * q**k * (1 - q) ** (trials - k) for k in range(trials + 1)}
    assert binomial(trials, q) == {k: chance for k, chance in expected.items() if chance}


def test_a_rare_tail_is_moved_up_or_down_and_never_lost():
    law = binomial(10_000, Fraction(1, 10**6))
    assert sum(law.values()) == 1
    assert max(law) == 10_000
    assert 0 < law[10_000] < Fraction(1, 2**200)
    lower = without_rare(law)
    assert sum(lower.values()) == 1
    assert max(lower) < 60
    assert without_rare({0: Fraction(1, 2), 3: Fraction(1, 2)}) == {0: Fraction(1, 2), 3: Fraction(1, 2)}


@pytest.mark.parametrize(("count", "marked", "drawn"), [(5, 2, 3), (6, 6, 2), (4, 1, 4), (7, 3, 1)])
def test_a_hypergeometric_is_counted_out(count, marked, drawn):
    batches = list(combinations(range(count), drawn))
    held = [sum(unit < marked for unit in batch) for batch in batches]
    assert hypergeometric(count, marked, drawn) == {h: Fraction(held.count(h), len(batches)) for h in sorted(set(held))}


def test_sums_are_those_of_independent_counts():
    law = {0: Fraction(1, 2), 1: Fraction(1, 3), 4: Fraction(1, 6)}
    expected = {}
    for three in product(law, repeat=3):
        chance = law[three[0]] * law[three[1]] * law[three[2]]
        expected[sum(three)] = expected.get(sum(three), 0) + chance
    assert times(law, 3) == expected
    assert times(law, 0) == {0: 1}
    assert summed(law, times(law, 2)) == expected


def test_putting_counts_together_only_moves_them_up_and_keeps_nothing_apart():
    law = binomial(300, Fraction(1, 3))
    fewer = put_together(law)
    assert len(fewer) <= 49
    assert fewer[0] == law[0]
    assert sum(fewer.values()) == 1
    assert max(fewer) == max(law)
    exact, above = tails(law), tails(fewer)
    assert all(exact[j] <= above[j] for j in exact)
    assert put_together({0: Fraction(1, 2), 7: Fraction(1, 2)}) == {0: Fraction(1, 2), 7: Fraction(1, 2)}


def test_counts_that_are_likely_are_not_moved():
    """Of 128 members one is drawn at a time, mostly: once moved up to 3, which tripled epsilon."""
    law = hypergeometric(60_000, 128, 256)
    fewer = put_together(law)
    assert all(fewer[count] == law[count] for count in range(30))
    assert sum(count * chance for count, chance in fewer.items()) < sum(
        count * chance for count, chance in law.items()
    ) + Fraction(1, 10**40)
