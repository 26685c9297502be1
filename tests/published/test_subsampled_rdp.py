"""Subsampled Renyi divergences: the published bounds recomputed with 50 digits, and what their figures say.

Wang, Balle, Kasiviswanathan 2019 (1808.00087v2) and Zhu, Wang 2019 (PMLR 97), for Gaussian noise (sigma = 5 and 0.5)
and Laplace noise (b = 2 and 0.5). There noise is in units of what one record can change; here of the clip norm, and an
exchanged record changes a sum by two.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpcalc import curve
from dpcalc.losses.moments import fixed_size_upper, poisson_upper
from dpcalc.mechanisms.additive import Gaussian, Laplace
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.runs import run_of
from tests.thinning import thinned

RATE = Fraction(1, 1000)
CASES = [(Gaussian, 5.0), (Gaussian, 0.5), (Laplace, 2.0), (Laplace, 0.5)]
ORDERS = (2, 3, 5, 16, 64)


def run(kind, noise, scheme, steps=1):
    """One step or more; under exchange twice the noise, so that one record changes a sum by one deviation."""
    fixed = isinstance(scheme, Fixed)
    mechanism = kind(noise_multiplier=2 * noise if fixed else noise)
    adjacency = "replace-one" if fixed else "add-remove"
    return run_of((10_000, scheme), mechanism=mechanism, steps=steps, adjacency=adjacency, delta=1e-8)


UPPER, LOWER = "general upper bound", "general lower bound"
SIGNS_KNOWN = f"{UPPER}, odd moments nonnegative"


def lines(kind, noise, scheme, steps=1, orders=ORDERS):
    """The published bounds by name, each by order."""
    series = curve(run(kind, noise, scheme, steps), "rdp", grid=[*map(float, orders)]).series
    return {line.name: dict(zip(line.xs, line.ys, strict=True)) for line in series}


FIXED, POISSON = Fixed(size=10), Poisson(probability=RATE)


def renyi(kind, noise, order):
    """The closed forms of the slides."""
    a, scale = mpmath.mpf(order), mpmath.mpf(noise)
    if kind is Gaussian:
        return a / (2 * scale**2)
    head = a / (2 * a - 1) * mpmath.exp((a - 1) / scale)
    return mpmath.log(head + (a - 1) / (2 * a - 1) * mpmath.exp(-a / scale)) / (a - 1)


def fixed_upper(kind, noise, order):
    g, pure = mpmath.mpf(RATE.numerator) / RATE.denominator, mpmath.inf if kind is Gaussian else 1 / mpmath.mpf(noise)
    spread = [min(2, mpmath.expm1(pure) ** j) for j in range(order + 1)]
    second = mpmath.exp(renyi(kind, noise, 2))
    total = 1 + g**2 * mpmath.binomial(order, 2) * min(4 * (second - 1), second * spread[2])
    for j in range(3, order + 1):
        total += g**j * mpmath.binomial(order, j) * mpmath.exp((j - 1) * renyi(kind, noise, j)) * spread[j]
    return mpmath.log(total) / (order - 1)


def lower(kind, noise, order):
    odds = mpmath.mpf(RATE.numerator) / (RATE.denominator - RATE.numerator)
    total = 1 + order * odds
    for j in range(2, order + 1):
        total += mpmath.binomial(order, j) * odds**j * mpmath.exp((j - 1) * renyi(kind, noise, j))
    return (order * mpmath.log(1 - mpmath.mpf(RATE.numerator) / RATE.denominator) + mpmath.log(total)) / (order - 1)


def poisson(kind, noise, order, factor):
    g = mpmath.mpf(RATE.numerator) / RATE.denominator
    total = (1 - g) ** (order - 1) * (order * g - g + 1)
    for j in range(2, order + 1):
        share = mpmath.binomial(order, j) * (1 - g) ** (order - j) * g**j
        total += (factor if j > 2 else 1) * share * mpmath.exp((j - 1) * renyi(kind, noise, j))
    return mpmath.log(total) / (order - 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("kind", "noise"), CASES)
def test_the_bounds_are_those_of_the_theorems(kind, noise, order):
    with mpmath.workdps(50):
        fixed, sampled = lines(kind, noise, FIXED), lines(kind, noise, POISSON)
        assert fixed[UPPER][order] == pytest.approx(float(fixed_upper(kind, noise, order)), rel=1e-9)
        assert fixed[LOWER][order] == pytest.approx(float(lower(kind, noise, order)), rel=1e-9)
        assert sampled[UPPER][order] == pytest.approx(float(poisson(kind, noise, order, 3)), rel=1e-9)
        assert sampled[SIGNS_KNOWN][order] == pytest.approx(float(poisson(kind, noise, order, 1)), rel=1e-9)


@pytest.mark.parametrize(("kind", "noise"), CASES)
def test_what_the_figures_say(kind, noise):
    """Lower below upper, both at most the step without sampling but for constants; exact where signs are known."""
    fixed, sampled = (lines(kind, noise, scheme, orders=range(2, 65)) for scheme in (FIXED, POISSON))
    base = kind(noise_multiplier=noise).rdp
    for order in range(2, 65):
        assert 0 < fixed[LOWER][order] < fixed[UPPER][order] < base(order) + math.log(4) / (order - 1)
        assert sampled[SIGNS_KNOWN][order] == pytest.approx(fixed[LOWER][order], rel=1e-9)  # the bound is attained
        excess = sampled[UPPER][order] - sampled[SIGNS_KNOWN][order]
        assert excess >= -1e-12
        assert excess <= math.log(3) / (order - 1) + 1e-12  # the remark on large orders
    assert sampled[UPPER][2] == pytest.approx(sampled[SIGNS_KNOWN][2], rel=1e-12)  # and the one on small orders
    assert fixed[UPPER][2] < 5 * fixed[LOWER][2]
    assert fixed[UPPER][2] < float(RATE) * base(2)  # amplified to second order in the rate


def test_zcdp_is_amplified_at_small_orders_only():
    """Of Gaussian noise, sigma = 5: rho = 1/50, which the sampled step comes back to at large orders."""
    found = lines(Gaussian, 5.0, FIXED, orders=(*range(2, 65), 20_000))
    assert found[LOWER][20_000] / 20_000 > 0.98 / 50
    assert all(fixed_size_upper(lambda a: a / 50, 0.001, order) / order < 0.01 / 50 for order in range(2, 65))


def per_step(kind, noise, epsilon):
    """delta of the step without sampling, by its closed form."""
    if kind is Laplace:
        return max(0.0, -math.expm1((epsilon - 1 / noise) / 2))
    middle, half = epsilon * noise, 1 / (2 * noise)
    return norm.cdf(half - middle) - math.exp(epsilon) * norm.cdf(-half - middle)


def advanced(kind, noise, steps, delta):
    """The subsampling lemma and the theorem on advanced composition (Dwork, Roth 2014, 3.20), best of a grid."""
    best = math.inf
    for epsilon in np.geomspace(1e-3, 40, 400) if kind is Gaussian else [1 / noise]:
        spent = steps * float(RATE) * per_step(kind, noise, epsilon)
        if spent < delta:
            one = math.log1p(float(RATE) * math.expm1(epsilon))
            log = math.log(1 / (delta - spent))
            best = min(best, math.sqrt(2 * steps * log) * one + steps * one * math.expm1(one), steps * one)
    return best


@pytest.mark.parametrize("scheme", [FIXED, POISSON])
@pytest.mark.parametrize(("kind", "noise"), CASES)
@pytest.mark.parametrize("steps", thinned([10_000, 600_000], 1))
def test_stronger_than_advanced_composition(kind, noise, steps, scheme):
    plan = run(kind, noise, scheme, steps)
    ((found,),) = (line.ys for line in curve(plan, "steps", methods=("general-rdp",), grid=(steps,)).series)
    assert guarantee(plan).epsilon < found < advanced(kind, noise, steps, plan.delta)
    whole = lines(kind, noise, scheme, orders=range(2, 257))
    by_order = min(
        steps * bound + math.log1p(-1 / a) - (math.log(plan.delta) + math.log(a)) / (a - 1)
        for a, bound in whole.get(SIGNS_KNOWN, whole[UPPER]).items()
    )
    assert 0.7 * by_order < found <= by_order * (1 + 1e-9)


DISTRIBUTION = st.lists(st.floats(0.05, 1), min_size=3, max_size=3)


def divergence(p, q, order):
    p, q = (np.array(side) / sum(side) for side in (p, q))
    return math.log((p**order * q ** (1 - order)).sum()) / (order - 1)


def largest(pairs):
    """rdp of what is seen: the largest divergence of any of some pairs, whichever comes first."""
    both = [*pairs, *((q, p) for p, q in pairs)]

    def rdp(order):
        if math.isinf(order):
            return max(float(np.log(np.array(p) / sum(p) / (np.array(q) / sum(q))).max()) for p, q in both)
        return max(divergence(p, q, order) for p, q in both)

    return rdp


def mixed(p, q, rate):
    p, q = (np.array(side) / sum(side) for side in (p, q))
    return rate * p + (1 - rate) * q


@settings(max_examples=60)
@given(DISTRIBUTION, DISTRIBUTION, DISTRIBUTION, st.floats(0.01, 0.9), st.integers(2, 12))
def test_no_three_answers_are_above_the_general_bounds(p, q, other, rate, order):
    """What a step answers with the record, with the exchanged one, and without: everything a theorem may assume."""
    bound = fixed_size_upper(largest([(p, q), (p, other), (q, other)]), rate, order)
    assert divergence(mixed(p, other, rate), mixed(q, other, rate), order) <= bound * (1 + 1e-9) + 1e-12
    bound = poisson_upper(largest([(p, q)]), rate, order)
    both = ((mixed(p, q, rate), q), (q, mixed(p, q, rate)))
    assert max(divergence(x, y, order) for x, y in both) <= bound * (1 + 1e-9) + 1e-12
