"""Closed forms against brute force, many deltas from one composition, and estimates that need no composition."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.closed_forms import closed_form_profile
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds, upper_profile
from dpcalc.losses.pair import MixturePair
from dpcalc.planner.composition import composed
from dpcalc.planner.lower_end import delta_lower
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.sampling.schemes import Poisson
from tests.oracles.drawn_gaussian import Step
from tests.oracles.exact_gaussian import DIGITS, exact_delta
from tests.runs import run_of
from tests.thinning import thinned

HERE, THERE = {0: Fraction(1)}, {1: Fraction(1)}


def plan_of(rate, noise, steps, delta=1e-5):
    return run_of((10**9, Poisson(probability=Fraction(rate))), noise=noise, steps=steps, delta=delta)


def directions(plan):
    return composed(plan).steps.values()


def total_variation(rate, noise):
    """Of (1 - q) N(0, s) + q N(1, s) against N(0, s): q times that of the two Gaussians."""
    return rate * mpmath.erf(1 / (2 * mpmath.sqrt(2) * noise))


@pytest.mark.parametrize(("rate", "noise", "steps"), [("1e-8", 1.0, 10), ("1e-8", 1e-6, 900), ("1e-7", 0.3, 100)])
def test_epsilon_is_zero_where_the_distances_sum_to_less_than_delta(rate, noise, steps):
    plan = plan_of(rate, noise, steps)
    assert steps * total_variation(float(rate), noise) < plan.delta
    for counts in directions(plan):
        assert epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER)) == (0.0, 0.0)
    for counts in directions(plan_of("1e-3", 1.0, 1)):
        for over in (1.0001, 3.0):  # and not where one step alone has more
            delta = float(total_variation(1e-3, 1.0)) / over
            assert epsilon_bounds(counts, delta=delta, sides=(UPPER,))[0] > 0


def test_a_run_within_delta_needs_next_to_no_noise():
    solution = solve(plan_of("1e-8", 1.0, 10), "sigma", goal=EpsilonGoal(limit=2.0))
    assert (solution.value, solution.fails_at, solution.reached) == (1e-6, None, 0.0)


@pytest.mark.heavy
@pytest.mark.parametrize("noise", thinned([0.319, 0.03, 8.0, 1.0], 2))
@pytest.mark.parametrize("rate", ["2.305e-6", "0.001", "0.3", "0.999"])
def test_delta_of_one_step(rate, noise):
    """The profile of one Poisson draw in 60 digits; at 2.305e-6, .319 and 7.9e-5 it was once [1.16e-6, 2.02e-6]."""
    plan = plan_of(rate, noise, 1)
    (there,) = [counts for counts in directions(plan) if max(next(iter(counts)).segments[0].pair.weights_q) == 1]
    for epsilon in (0.0, 7.9e-5, 0.1, 3.0, 30.0):
        with mpmath.workdps(60):
            step = Step(mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator, noise)
            exact = step.delta(mpmath.mpf(epsilon))
        # N(0, s) against the mixture: at most the total variation, and 0 from -log(1 - q) on
        is_beyond = epsilon >= -math.log1p(-Fraction(rate))
        undrawn = 0.0 if is_beyond else float(total_variation(float(rate), noise)) * (1 + 1e-12)
        (upper,) = delta_bounds(there, epsilon=epsilon, sides=(UPPER,))
        lower = delta_lower(plan, epsilon=epsilon)
        assert upper >= exact
        assert lower <= max(exact, undrawn)
        assert exact < 1e-290 or (upper <= exact * (1 + 1e-5) and lower >= exact * (1 - 1e-5))


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_an_inversion_sees_that_the_transform_of_large_losses_comes_back(delta):
    """Of 10,000 steps some 30 draw the unit, and each of these loses 194 or so: sums lie near a lattice."""
    steps, rate, sigma = 10_000, Fraction(3, 1000), 0.05
    found = inversion({MixturePair.of({0: 1 - rate, 1: rate}, HERE, deviation=sigma): steps}, delta=delta)
    with mpmath.workdps(30):
        # The noise hides no draw: of k draws the loss is one normal variable, to e^-100.
        epsilon, q, s, exact = mpmath.mpf(found), mpmath.mpf(3) / 1000, mpmath.mpf(sigma), mpmath.mpf(0)
        for k in range(1, 120):
            mean = k * (1 / (2 * s**2) + mpmath.log(q)) + (steps - k) * mpmath.log(1 - q)
            variance = k / s**2
            above, below = ((mean - epsilon - each) / mpmath.sqrt(variance) for each in (0, variance))
            chance = mpmath.binomial(steps, k) * q**k * (1 - q) ** (steps - k)
            exact += chance * (mpmath.ncdf(above) - mpmath.exp(epsilon - mean + variance / 2) * mpmath.ncdf(below))
    assert float(exact) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("epsilon", [520.0, 540.0, 900.0])
def test_a_profile_by_closed_forms_is_the_best_of_its_orders_rounded_up(epsilon):
    sigma = 1 / 32
    (found,) = closed_form_profile({MixturePair.of(THERE, HERE, deviation=sigma): 1}, np.array([epsilon]))
    with mpmath.workdps(30):
        orders = [mpmath.mpf(float(order)) for order in np.geomspace(1e-6, 1e6, 400)]
        logs = (
            z * (z + 1) / (2 * mpmath.mpf(sigma) ** 2) - z * epsilon + z * mpmath.log(z) - (z + 1) * mpmath.log(z + 1)
            for z in orders
        )
        exact = float(mpmath.exp(min(logs)))
    assert exact <= found <= exact * (1 + 1e-7)


def test_a_rare_component_beside_a_weight_that_rounds_to_one_counts():
    rare = Fraction(1, 10**17)
    pair = MixturePair.of({-1: 1 - rare, -20: rare}, HERE, deviation=1.0)

    def delta(epsilon):
        # The losses of more than 200 are those of the far component: log(rare) - 200 - 20 y.
        end = -(epsilon - mpmath.log(mpmath.mpf(10) ** -17) + 200) / 20
        p = mpmath.mpf(10) ** -17 * mpmath.ncdf(end + 20) + mpmath.ncdf(end + 1)
        return p - mpmath.exp(epsilon) * mpmath.ncdf(end)

    with mpmath.workdps(40):
        exact = float(mpmath.findroot(lambda epsilon: mpmath.log(delta(epsilon)) + 20 * mpmath.log(10), 221))
    lower, upper = epsilon_bounds({pair: 1}, delta=1e-20, sides=(LOWER, UPPER))
    assert lower <= exact <= upper <= lower * 1.0001


# Many deltas from one composition: upper ends everywhere, tight where they were asked to be.


@pytest.mark.parametrize(("steps", "sigma", "loose"), [(1, 1.0, 1e-4), (100, 40.0, 2e-4), (10_000, 20.0, 2e-2)])
@pytest.mark.parametrize("around", [0.0, 1.0])
def test_a_curve_is_never_below_the_exact_gaussian(steps, sigma, loose, around):
    epsilons = np.array([0.0, 0.1, 0.7, 1.0, 1.3, 3.0, 8.0])
    counts = {MixturePair.of(HERE, THERE, deviation=sigma): steps}
    found = upper_profile(counts, around=around)(epsilons)
    with mpmath.workdps(DIGITS):
        mu = mpmath.sqrt(steps) / mpmath.mpf(sigma)
        exact = [exact_delta(mu, mpmath.mpf(float(epsilon))) for epsilon in epsilons]
    assert all(delta <= upper <= 1 for upper, delta in zip(found, exact, strict=True))
    at = list(epsilons).index(around)
    assert found[at] <= exact[at] * (1 + loose)


def test_the_ends_of_a_curve():
    """Nothing released, and epsilons so far apart that their powers would overflow."""
    assert list(upper_profile({}, around=0.0)(np.array([0.0, 1.0]))) == [0.0, 0.0]
    counts = {MixturePair.of(HERE, THERE, deviation=0.02): 1}
    found = upper_profile(counts, around=1250.0)(np.array([0.0, 1500.0, 9000.0]))
    assert 0.9 < found[0] <= 1
    assert found[2] <= found[1] <= found[0]
