"""Closed forms against brute force, and the derivative of the estimate against differences of the certified ends."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.gaussian import zero_epsilon
from dpcalc.accountants.inversion import inversion, largest_inversion
from dpcalc.accountants.plain import closed_form_profile
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds, rough_epsilon_upper
from dpcalc.accountants.result import costliest_release
from dpcalc.guarantee import Adjacency
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.composition import composed
from dpcalc.planner.lower_end import delta_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import solve
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson
from tests.thinning import thinned


def plan_of(rate, noise, steps, delta=1e-5):
    level = Level(name="example", count=10**9, scheme=Poisson(probability=Fraction(rate)))
    hierarchy = Hierarchy(levels=(level,))
    phase = Phase(name="training", hierarchy=hierarchy, mechanism=Gaussian(noise_multiplier=noise), clip=1, steps=steps)
    return Plan(phases=(phase,), unit=1, adjacency=Adjacency.ADD_REMOVE, delta=delta)


def directions(plan):
    return composed(plan).steps


def total_variation(rate, noise):
    """Of (1 - q) N(0, s) + q N(1, s) against N(0, s): q times that of the two Gaussians."""
    return rate * mpmath.erf(1 / (2 * mpmath.sqrt(2) * noise))


@pytest.mark.parametrize(("rate", "noise", "steps"), [("1e-8", 1.0, 10), ("1e-8", 1e-6, 900), ("1e-7", 0.3, 100)])
def test_epsilon_is_zero_where_the_distances_sum_to_less_than_delta(rate, noise, steps):
    plan = plan_of(rate, noise, steps)
    assert steps * total_variation(float(rate), noise) < plan.delta
    for counts in directions(plan).values():
        assert epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER)) == (0.0, 0.0)


@pytest.mark.parametrize("over", [1.0001, 3.0])
def test_and_not_where_one_step_alone_has_more(over):
    plan = plan_of("1e-3", 1.0, 1)
    delta = float(total_variation(1e-3, 1.0)) / over
    for counts in directions(plan).values():
        assert zero_epsilon(counts, delta=delta) is None
        assert epsilon_bounds(counts, delta=delta, sides=(UPPER,))[0] > 0


def test_a_run_within_delta_needs_next_to_no_noise():
    solution = solve(plan_of("1e-8", 1.0, 10), "sigma", goal=EpsilonGoal(limit=2.0))
    assert solution.value == 1e-6
    assert solution.fails_at is None
    assert solution.reached == 0.0


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [("0.01", 1.0, 1000, 1e-5), ("0.01", 4.0, 10**4, 1e-20), ("1e-3", 1.0, 10**8, 1e-6)],
)
def test_the_derivative_in_the_noise_is_that_of_the_estimate(rate, noise, steps, delta):
    step = 1e-3
    found, name = largest_inversion(
        directions(plan_of(rate, noise, steps, delta)), delta=delta, otherwise=lambda *_: math.nan
    )
    near = {x: directions(plan_of(rate, noise * (1 + x * step), steps, delta))[name] for x in (-2, -1, -0.1, 0.1, 1, 2)}
    ends = {x: inversion(counts, delta=delta) for x, counts in near.items()}
    derivative = (8 * (ends[1] - ends[-1]) - (ends[2] - ends[-2])) / (12 * step)
    moved = (found.epsilon_change(near[0.1]) - found.epsilon_change(near[-0.1])) / (0.2 * step)
    assert moved == pytest.approx(derivative, rel=1e-6)


def test_a_rough_end_is_an_upper_end_near_by():
    for counts in directions(plan_of("0.01", 1.0, 1000)).values():
        lower, upper = epsilon_bounds(counts, delta=1e-5, sides=(LOWER, UPPER))
        assert lower <= rough_epsilon_upper(counts, delta=1e-5) <= upper * (1 + 2e-4)


@pytest.mark.parametrize("rough", [1.0, 1.3, math.inf])
def test_the_costliest_alternative_is_found_whatever_the_ceilings_say(rough):
    costs = {"a": 1.0, "b": 3.0, "c": 2.9, "d": 0.5}
    releases_of = {name: {cost: 1} for name, cost in costs.items()}
    asked = []

    def answer(counts):
        asked.append(counts)
        return next(iter(counts))

    def ceiling(counts):
        return 1.2 * next(iter(counts))

    def sharper(counts):
        return rough * next(iter(counts))

    assert costliest_release(releases_of, answer=answer, cost=float, ceiling=ceiling, sharper_ceiling=sharper) == (
        3.0,
        "b",
    )
    assert len(asked) == (1 if rough == 1.0 else 2)


def test_alternatives_that_are_the_same_are_worked_out_once():
    asked = []

    def answer(counts):
        asked.append(counts)
        return 1.0

    assert costliest_release(
        {"a": {"step": 2}, "b": {"step": 2}}, answer=answer, cost=float, ceiling=lambda _: 9.0
    ) == (
        1.0,
        "a",
    )
    assert len(asked) == 1


@pytest.mark.parametrize("noise", thinned([0.319, 0.03, 8.0, 1.0], 2))
@pytest.mark.parametrize("rate", ["2.305e-6", "0.001", "0.3", "0.999"])
def test_delta_of_one_step(rate, noise):
    """The profile of one Poisson draw in 60 digits; at 2.305e-6, .319 and 7.9e-5 it was once [1.16e-6, 2.02e-6]."""
    plan = plan_of(rate, noise, 1)
    (there,) = [counts for counts in directions(plan).values() if max(next(iter(counts)).own.weights_q) == 1]
    for epsilon in (0.0, 7.9e-5, 0.1, 3.0, 30.0):
        with mpmath.workdps(60):
            exact = drawn_delta(mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator, noise, epsilon)
        (upper,) = delta_bounds(there, epsilon=epsilon, sides=(UPPER,))
        assert upper >= exact
        lower = delta_lower(plan, epsilon=epsilon)
        assert lower <= max(exact, undrawn_delta(rate, noise, epsilon))
        assert exact < 1e-290 or (upper <= exact * (1 + 1e-5) and lower >= exact * (1 - 1e-5))


def drawn_delta(rate, noise, epsilon):
    """(1 - q) N(0, s) + q N(1, s) against N(0, s): beyond the point where the ratio is e^epsilon."""
    noise, epsilon = mpmath.mpf(noise), mpmath.mpf(epsilon)
    y = noise**2 * mpmath.log((mpmath.expm1(epsilon) + rate) / rate) + mpmath.mpf(1) / 2
    far, near = (mpmath.erfc(x / noise / mpmath.sqrt(2)) / 2 for x in (y, y - 1))
    return rate * near + (1 - rate) * far - mpmath.exp(epsilon) * far


def undrawn_delta(rate, noise, epsilon):
    """N(0, s) against the mixture; at most q times its total variation, and 0 from -log(1 - q) on."""
    rate = Fraction(rate)
    return 0.0 if epsilon >= -math.log1p(-rate) else float(total_variation(float(rate), noise)) * (1 + 1e-12)


def delta_of_shown_draws(epsilon, rate, sigma, steps):
    """Delta where the noise hides no draw: of k draws the loss is one normal variable, to e^-100."""
    total = mpmath.mpf(0)
    for k in range(1, 120):
        mean = k * (1 / (2 * sigma**2) + mpmath.log(rate)) + (steps - k) * mpmath.log(1 - rate)
        variance = k / sigma**2
        above, below = ((mean - epsilon - each) / mpmath.sqrt(variance) for each in (0, variance))
        chance = mpmath.binomial(steps, k) * rate**k * (1 - rate) ** (steps - k)
        total += chance * (mpmath.ncdf(above) - mpmath.exp(epsilon - mean + variance / 2) * mpmath.ncdf(below))
    return total


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_an_inversion_sees_that_the_transform_of_large_losses_comes_back(delta):
    """Of 10,000 steps some 30 draw the unit, and each of these loses 194 or so: sums lie near a lattice."""
    steps, rate, sigma = 10_000, Fraction(3, 1000), 0.05
    pair = MixturePair.of({0: 1 - rate, 1: rate}, {0: Fraction(1)}, deviation=sigma)
    found = inversion({pair: steps}, delta=delta)
    with mpmath.workdps(30):
        exact = delta_of_shown_draws(mpmath.mpf(found), mpmath.mpf(3) / 1000, mpmath.mpf(sigma), steps)
    assert float(exact) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("epsilon", [520.0, 540.0, 900.0])
def test_a_profile_by_closed_forms_is_the_best_of_its_orders_rounded_up(epsilon):
    sigma = 1 / 32
    pair = MixturePair.of({1: Fraction(1)}, {0: Fraction(1)}, deviation=sigma)
    (found,) = closed_form_profile({pair: 1}, np.array([epsilon]))
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
    pair = MixturePair.of({-1: 1 - rare, -20: rare}, {0: Fraction(1)}, deviation=1.0)

    def delta(epsilon):
        # The losses of more than 200 are those of the far component: log(rare) - 200 - 20 y.
        end = -(epsilon - mpmath.log(mpmath.mpf(10) ** -17) + 200) / 20
        p = mpmath.mpf(10) ** -17 * mpmath.ncdf(end + 20) + mpmath.ncdf(end + 1)
        return p - mpmath.exp(epsilon) * mpmath.ncdf(end)

    with mpmath.workdps(40):
        exact = float(mpmath.findroot(lambda epsilon: mpmath.log(delta(epsilon)) + 20 * mpmath.log(10), 221))
    lower, upper = epsilon_bounds({pair: 1}, delta=1e-20, sides=(LOWER, UPPER))
    assert lower <= exact <= upper <= lower * 1.0001
