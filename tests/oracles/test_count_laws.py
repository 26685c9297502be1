"""Laws of counts against enumeration, exact ones and those that stand in where these take too much work."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod

import mpmath
import pytest
from scipy.stats import binom

from dpcalc.amplification.groups import large_group
from dpcalc.sampling.counts import (
    binomial,
    binomial_lower,
    coarsen_upwards,
    convolve_power_upper,
    convolve_upper,
    drop_rare_tail,
    hypergeometric,
)
from dpcalc.sampling.schemes import Poisson, WithReplacement
from dpcalc.sampling.sums import rough_count_distributions
from tests.thinning import thinned


def tails(law):
    """Pr[count >= j] for every j."""
    return {j: sum(chance for count, chance in law.items() if count >= j) for j in range(max(law) + 2)}


def test_a_rare_tail_is_moved_up_or_down_and_never_lost():
    law = binomial(10_000, Fraction(1, 10**6))
    assert sum(law.values()) == 1
    assert 60 < max(law) < 200
    assert 0 < law[max(law)] < Fraction(1, 2**200)
    lower = drop_rare_tail(law)
    assert sum(lower.values()) == 1
    assert max(lower) < 60
    assert drop_rare_tail({0: Fraction(1, 2), 3: Fraction(1, 2)}) == {0: Fraction(1, 2), 3: Fraction(1, 2)}


@pytest.mark.parametrize(("trials", "rate"), [(0, "1/2"), (7, "1"), (40, "1/3"), (3000, "1/2"), (6000, "9999/10000")])
def test_a_lower_binomial_is_never_above_the_exact_one(trials, rate):
    law = binomial_lower(trials, Fraction(rate))
    assert sum(law.values()) == 1
    mean = float(sum(count * chance for count, chance in law.items()))
    assert 0.95 * trials * Fraction(rate) <= mean <= trials * Fraction(rate) * (1 + 1e-12)
    for count in law:
        at_least = float(sum(chance for each, chance in law.items() if each >= count))
        assert at_least <= binom.sf(count - 1, trials, float(Fraction(rate))) * (1 + 1e-9)


@pytest.mark.parametrize(("count", "marked", "drawn"), [(5, 2, 3), (6, 6, 2), (4, 1, 4), (7, 3, 1)])
def test_a_hypergeometric_is_counted_out(count, marked, drawn):
    batches = list(combinations(range(count), drawn))
    held = [sum(unit < marked for unit in batch) for batch in batches]
    assert hypergeometric(count, marked, drawn) == {h: Fraction(held.count(h), len(batches)) for h in sorted(set(held))}


def test_putting_counts_together_only_moves_them_up_and_keeps_nothing_apart():
    law = binomial(300, Fraction(1, 3))
    fewer = coarsen_upwards(law)
    assert len(fewer) <= 49
    assert (fewer[0], sum(fewer.values()), max(fewer)) == (law[0], 1, max(law))
    exact, above = tails(law), tails(fewer)
    assert all(exact[j] <= above[j] for j in exact)
    # Of 128 members one is drawn at a time, mostly: likely counts once moved up to 3, which tripled epsilon.
    law = hypergeometric(60_000, 128, 256)
    fewer = coarsen_upwards(law)
    assert all(fewer[count] == law[count] for count in range(30))
    mean, over = (sum(count * chance for count, chance in each.items()) for each in (law, fewer))
    assert over < mean + Fraction(1, 10**40)


LESS, VANISHING = 1 - mpmath.mpf("1e-14"), mpmath.mpf("1e-361")


def tail_of(trials, q, least):
    """Pr[at least so many successes], or little less: a thousand terms, from the larger of `least` and the mean on."""
    if least <= trials * q:
        return mpmath.mpf(1) / 2 if least else mpmath.mpf(1)
    ways = mpmath.loggamma(trials + 1) - mpmath.loggamma(least + 1) - mpmath.loggamma(trials - least + 1)
    term = mpmath.exp(ways + least * mpmath.log(q) + (trials - least) * mpmath.log1p(-q))
    total = mpmath.mpf(0)
    for count in range(least, min(trials, least + 1000)):
        total += term
        term *= (trials - count) * q / ((count + 1) * (1 - q))
    return total


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("trials", "rate"),
    thinned(
        [
            (10_000, "1/1000000"),
            (1000, "1/1000"),
            (10**9, "1/1000000000"),
            (10**6, "1/2000"),
            (10**15, "1/100000000000000"),
            (10**9, "1/1000"),
            (10**9, "1/2"),
            (60_000, "3/4"),
        ],
        4,
    ),
)
def test_a_law_of_many_trials_is_an_upper_bound_close_by(trials, rate):
    """Tails with 60 digits; what is rarer than 1e-361 may be left out."""
    law = binomial(trials, Fraction(rate))
    mean = trials * Fraction(rate)
    assert sum(law.values()) == 1
    assert len(law) < 2000
    counts = sorted(law)
    with mpmath.workdps(60):
        q = mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        for at in range(0, len(counts), max(1, len(counts) // 20)):
            below = counts[at - 1] + 1 if at else counts[0]  # the largest tail that the count at stands for
            tail = sum((law[count] for count in counts[at:]), start=Fraction(0))
            assert mpmath.mpf(tail.numerator) / tail.denominator >= tail_of(trials, q, below) * LESS - VANISHING
    assert sum(count * chance for count, chance in law.items()) <= mean * Fraction(102, 100)


@pytest.mark.parametrize(("count", "draws"), [(10, 5), (1000, 500), (10**9, 10**9), (10**6, 10**12)])
def test_the_chance_to_be_drawn_at_all(count, draws):
    found = WithReplacement(size=draws).rate(count)
    with mpmath.workdps(60):
        exact = -mpmath.expm1(draws * mpmath.log1p(-mpmath.mpf(1) / count))
        value = mpmath.mpf(found.numerator) / found.denominator
        assert exact * (1 - mpmath.mpf("1e-50")) <= value <= exact * (1 + mpmath.mpf("1e-30"))


@pytest.mark.heavy
def test_sums_of_many_counts_are_bounded_from_above():
    law = convolve_power_upper(binomial(50, Fraction(1, 10)), 12)
    exact = tails({j: Fraction(comb(600, j) * 9 ** (600 - j), 10**600) for j in range(601)})
    above = tails(law)
    assert all(exact[j] <= above.get(j, 0) + Fraction(1, 2**4000) for j in exact)
    assert len(law) <= 64


@pytest.mark.parametrize(
    ("count", "marked", "drawn"), [(10**9, 300, 999_000_000), (10**9, 999_000_000, 300), (10**6, 400, 400)]
)
def test_laws_of_large_groups_lie_on_their_side_of_the_exact_one(count, marked, drawn):
    """Probabilities of thousands of digits are rounded: the tails of one law up, of the other down, by little."""
    few, many = sorted((marked, drawn))
    ways = comb(count, few)
    exact = [comb(many, h) * comb(count - many, few - h) for h in range(few + 1)]
    above, below = hypergeometric(count, marked, drawn), hypergeometric(count, marked, drawn, is_lower=True)
    unit = 2**4096
    weights = [[int(law.get(h, 0) * unit) for h in range(few + 1)] for law in (above, below)]
    assert [sum(one) for one in weights] == [unit, unit]  # all are multiples of the unit
    for j in range(1, few + 1, 7):
        high, low = (sum(one[j:]) * ways for one in weights)
        assert low <= sum(exact[j:]) * unit <= high <= low + 1000 * ways
    assert weights[0][-1] * ways > exact[-1] * unit


def test_sums_of_long_probabilities_are_rounded_towards_more():
    """Also where a law is the part of a mixture: its total is kept."""
    a = hypergeometric(10**7, 100, 9 * 10**6)
    b = {count: chance / 3 for count, chance in hypergeometric(10**8, 110, 9 * 10**7).items()}
    exact = Counter()
    for (x, p), (y, q) in product(a.items(), b.items()):
        exact[x + y] += p * q
    law = convolve_upper(a, b)
    assert sum(law.values()) == Fraction(1, 3)
    assert len(law) <= 64
    unit = 2**8192  # the exact ones rounded down by less than that: far less than what is moved up
    lower = {count: chance.numerator * unit // chance.denominator for count, chance in exact.items()}
    for j in law:
        tail = sum(chance for count, chance in law.items() if count >= j) * unit
        assert tail >= sum(weight for count, weight in lower.items() if count >= j)
    mean = Fraction(sum(count * weight for count, weight in lower.items()), unit)
    over = sum(count * chance for count, chance in law.items())
    assert mean < over < mean * Fraction(101, 100)


# Rough laws, where exact ones take too much work


def exact_law(counts, sizes):
    """Copies of one unit by sums over all draws, level by level; no code of the product."""
    law = {1: Fraction(1)}
    for count, size in zip(counts, sizes, strict=True):
        found = {}
        for copies, chance in law.items():
            trials = copies * size
            for h in range(trials + 1):
                one = comb(trials, h) * Fraction(1, count) ** h * Fraction(count - 1, count) ** (trials - h)
                found[h] = found.get(h, Fraction(0)) + chance * one
        law = found
    return law


def rough_tails(counts, schemes, members=1, contributions=1):
    """By a number of copies, the least probability of as many that the rough law claims."""
    draws = [*zip(schemes, counts, strict=True)]
    rough = {h: chance for chance, one in rough_count_distributions(draws, members, contributions) for h in one}
    return rough, lambda at: sum((chance for h, chance in rough.items() if h >= at), Fraction(0))


def exact_tail(law, at):
    return sum((chance for h, chance in law.items() if h >= at), Fraction(0))


@pytest.mark.parametrize(
    ("counts", "sizes"), [((3,), (4,)), ((50,), (20,)), ((5, 4), (3, 4)), ((20, 10), (3, 5)), ((60, 2), (2, 30))]
)
def test_rough_laws_are_above_the_exact_ones(counts, sizes):
    schemes = tuple(WithReplacement(size=size) for size in sizes)
    law = exact_law(counts, sizes)
    rough, tail = rough_tails(counts, schemes)
    assert sum(rough.values()) <= min(1, (1 - law[0]) * Fraction(101, 100) + Fraction(1, 10**8))
    _, in_step = rough_tails(counts, schemes, 3, 2)  # three members in step with one another, two contributions each
    for h in range(1, max(law) + 1):
        assert min(tail(h), in_step(6 * h)) >= exact_tail(law, h)

    # Two records of one parent: every copy of the parent draws either with probability 2 / count.
    count, total = counts[-1], {}
    for copies, chance in exact_law(counts[:-1], sizes[:-1]).items():
        trials = copies * sizes[-1]
        for h in range(trials + 1):
            part = comb(trials, h) * Fraction(2, count) ** h * Fraction(count - 2, count) ** (trials - h)
            total[h] = total.get(h, Fraction(0)) + chance * part
    _, of_two = rough_tails(counts, schemes, 2)
    for h in range(1, max(total) + 1):
        assert of_two(h) >= exact_tail(total, h)


@pytest.mark.parametrize(
    ("rate", "size"), [(Fraction(1, 100), 17_000), (Fraction(1, 50), 20_000), (Fraction(1, 10**6), 10**7)]
)
def test_rough_laws_hold_where_a_rare_parent_draws_many_copies(rate, size):
    """More copies than the transform has points: they once wrapped round to small numbers (1e-9 for 1/100)."""
    _, tail = rough_tails((1000, 1), (Poisson(probability=rate), WithReplacement(size=size)))
    assert min(tail(h) for h in (1, 1000, size // 2, size)) >= rate


@pytest.mark.parametrize("size", [25, 36, 47, 48])
def test_rough_laws_leave_out_no_number_up_to_48(size):
    """Of 26 to 47 numbers some were once left out, although all of them have a place."""
    rough, _ = rough_tails((2,), (WithReplacement(size=size),))
    assert [*rough][-12:] == list(range(size - 11, size + 1))


def test_large_groups_without_exact_probabilities():
    rate = Fraction(3, 1000)
    for members in (65, 300):
        ((chance, law),) = large_group(members, Fraction(1, 10**6), rate)
        assert chance == Fraction(members, 10**6)
        below = Fraction(0)
        for j in range(members, 0, -1):
            below += law.get(j, Fraction(0))
            exact = min(Fraction(1), comb(members, j) * rate**j)
            assert below >= exact - Fraction(1, 2**1200)
            assert float(below) <= float(exact) * (1 + 1e-12) + 1e-300


@pytest.mark.parametrize("placement", [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)])
def test_a_large_group_is_drawn_no_less_than_any_placement(placement):
    """Given that any parent of 12, of which 3 are drawn, is drawn and revealed, the bound on the tails holds."""
    eta = Fraction(1, 5)
    ((drawn, law),) = large_group(4, eta, Fraction(1, 4))
    assert 1 - (1 - eta) ** len(placement) <= drawn
    for size in range(1, len(placement) + 1):
        for told in combinations(placement, size):
            inside = Counter()
            for held in product(*(range(min(members, 3) + 1) for members in told)):
                ways = prod(comb(m, h) * comb(12 - m, 3 - h) for m, h in zip(told, held, strict=True))
                inside[sum(held)] += Fraction(ways, comb(12, 3) ** size)
            assert sum(inside.values()) == 1
            for j in range(1, 5):
                assert sum(p for h, p in inside.items() if h >= j) <= sum(p for h, p in law.items() if h >= j)
