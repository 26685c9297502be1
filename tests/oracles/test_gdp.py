"""mu-GDP of whole runs: published values, closed forms, and oracles that share no code with the package."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from scipy import special

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.planner.evaluate import delta_of
from dpcalc.planner.risk import risk
from dpcalc.sampling.schemes import All, Poisson
from tests.laws.random_plans import generator, random_plan
from tests.oracles.fine_lattice import estimated_epsilon
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.oracles.loss_parts import TooSlowError
from tests.oracles.numerics_problems import random_problem
from tests.runs import plan_of
from tests.thinning import thinned

NORMAL = NormalDist()


def summary(plan):
    return risk(plan, false_positive_rates=()).gdp


def gaussian_deltas(mu, epsilons):
    """Delta of N(0, 1) against N(mu, 1), by SciPy's normal distribution in log space."""
    above, below = special.log_ndtr(mu / 2 - epsilons / mu), special.log_ndtr(-mu / 2 - epsilons / mu)
    return np.exp(above) * -np.expm1(epsilons + below - above)


def needed_mu(epsilon, delta):
    """The mu of the Gaussian with this delta at this epsilon, by bisection."""
    low, high = 1e-9, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_deltas(middle, epsilon) < delta else (low, middle)
    return high


def largest_mu(profile, floor, end):
    """The smallest mu of a profile at 300 epsilons: never above the exact one."""
    epsilons = np.linspace(0, end, 300)
    deltas = profile(epsilons)
    return max(needed_mu(e, d) for e, d in zip(epsilons[deltas > floor], deltas[deltas > floor], strict=True))


def with_mechanism(mechanism, *, adjacency=Adjacency.ADD_REMOVE):
    return plan_of(All(), steps=1, adjacency=adjacency, mechanism=mechanism)


@pytest.mark.parametrize(("floor", "known"), [(1e-5, 1.567430), (1e-6, 1.568060), (1e-8, 1.569162), (1e-10, 1.570121)])
def test_known_values_of_a_sampled_run(floor, known):
    plan = plan_of(Poisson(probability=Fraction("0.328")), noise=9.4, steps=2000)
    found = summary(replace(plan, delta=floor))
    assert known - 5e-7 <= found.mu <= known * (1 + 1e-5)
    assert (found.floor, found.is_good) == (floor, True)


def test_the_value_of_a_tool_that_leaves_out_small_error_rates():
    """gdpnum: mu 1.567013 down to error rates of 1e-10, which the epsilon is where mu's tangent has that rate."""
    plan = plan_of(Poisson(probability=Fraction(16384, 50000)), noise=9.4, steps=2000)
    epsilon = -1.567013 * (1.567013 / 2 + NORMAL.inv_cdf(1e-10))
    found = summary(replace(plan, delta=float(gaussian_deltas(1.567013, epsilon))))
    assert found.mu == pytest.approx(1.567013, rel=5e-5)
    assert 0.8e-3 < found.regret < 1.1e-3  # there 1.02e-3


def test_gaussian_noise_without_sampling_is_its_own_summary():
    found = summary(plan_of(All(), noise=9.0, steps=81))
    assert 1 <= found.mu <= 1 + 1e-9
    assert (found.regret, found.misfit) == (0, 0)


@pytest.mark.parametrize("scale", thinned([1.0, 0.5, 3.0], 1))
def test_laplace_noise_is_not_summed_up(scale):
    found = summary(with_mechanism(Laplace(noise_multiplier=scale)))
    known = largest_mu(lambda epsilon: -np.expm1((epsilon - 1 / scale) / 2), 1e-5, 1 / scale)
    assert known * (1 - 1e-9) <= found.mu <= known * (1 + 1e-3)
    assert not found.is_good
    assert found.regret == pytest.approx(regret_of(found.mu, lambda rate: laplace_missed(rate, scale)), rel=2e-2)


def laplace_missed(rate, scale):
    """False negative rate of the best test of Laplace(0, b) against Laplace(1, b): reject above a threshold."""
    threshold = -scale * math.log(2 * rate) if rate < 0.5 else scale * math.log(2 * (1 - rate))
    below = threshold - 1
    return math.exp(below / scale) / 2 if below < 0 else 1 - math.exp(-below / scale) / 2


def regret_of(mu, missed):
    """The largest distance along the diagonal from a symmetric trade-off curve to the Gaussian one, by bisection."""
    worst = 0.0
    for rate in np.geomspace(1e-4, 0.999, 300):
        miss, low, high = missed(rate), 0.0, 1.0
        for _ in range(50):
            move = (low + high) / 2
            below = min(rate, miss) <= move or miss - move <= NORMAL.cdf(-NORMAL.inv_cdf(rate - move) - mu)
            low, high = (low, move) if below else (move, high)
        worst = max(worst, high)
    return worst


@pytest.mark.parametrize("truth", thinned([0.75, 0.6, 0.9], 1))
def test_randomized_response_is_not_summed_up(truth):
    mechanism = RandomizedResponse(truth_probability=truth)
    found = summary(with_mechanism(mechanism, adjacency=Adjacency.REPLACE_ONE))
    known = largest_mu(lambda epsilon: truth - np.exp(epsilon) * (1 - truth), 1e-5, math.log(truth / (1 - truth)))
    assert known * (1 - 1e-9) <= found.mu <= known * (1 + 1e-3)
    assert not found.is_good


def sampled_deltas(share, sigma, epsilons):
    """Deltas of (1 - q) N(0) + q N(1) against N(0), and of N(0) against that."""
    p, q = Mixture.on_line([1 - share, share], [0, 1]), Mixture.on_line([1], [0])
    return np.array([hockey_stick(p, q, sigma, epsilons), hockey_stick(q, p, sigma, epsilons)])


@pytest.mark.parametrize(("share", "sigma"), thinned([(0.3, 1.0), (0.05, 0.5), (0.9, 2.0)], 2))
@pytest.mark.parametrize("floor", thinned([1e-6, 1e-3], 1))
def test_one_sampled_step(share, sigma, floor):
    plan = plan_of(Poisson(probability=Fraction(str(share))), noise=sigma, steps=1)
    found = summary(replace(plan, delta=floor))
    end = 2.0
    while sampled_deltas(share, sigma, [end]).max() > floor:
        end *= 1.1
    known = largest_mu(lambda epsilons: sampled_deltas(share, sigma, epsilons).max(axis=0), floor, end)
    assert known * (1 - 1e-9) <= found.mu <= known * (1 + 2e-3)


def test_no_mu_where_nothing_is_hidden():
    found = summary(plan_of(All(), noise=0.0))
    assert (found.mu, found.is_good) == (math.inf, False)
    assert summary(with_mechanism(ApproximateDp(epsilon=1.0, delta=1e-3))).mu == math.inf  # above the floor
    assert summary(with_mechanism(ApproximateDp(epsilon=1.0, delta=1e-7))).mu < 3


# Random plans: the certified profile, between the epsilons at which it was asked; and profiles of oracles.


@pytest.mark.parametrize("seed", thinned(range(200), 4))
def test_on_random_plans_mu_allows_whatever_a_data_set_costs(seed):
    """A curve lies above another where its delta is smaller at every epsilon."""
    rng = generator(seed, 1807)
    plan = random_plan(rng, int(rng.integers(1, 3)), most_steps=3000)
    found = summary(plan)
    assert found.regret >= 0
    if not math.isfinite(found.mu):
        return
    for epsilon in (0.0, *rng.uniform(0, found.mu**2 / 2 + 4 * found.mu, 3)):
        allowed = max(float(gaussian_deltas(found.mu, epsilon)), plan.delta) if found.mu else plan.delta
        assert (delta_of(plan, epsilon=float(epsilon)).delta_lower or 0.0) <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("seed", thinned(range(200), 4))
def test_on_random_bounds_mu_lies_below_the_trade_off_of_an_oracle(seed):
    """Epsilon by inversion or a fine lattice at deltas above the floor; mu must allow all of them."""
    rng = generator(seed, 1802)
    problem = random_problem(rng)
    bound = sys.modules[risk.__module__]._sharp_bound({problem.profile: problem.steps}, problem.delta)
    for delta in (problem.delta * (1 + 1e-9), math.sqrt(problem.delta)):
        try:
            exact, error = estimated_epsilon([(problem.curve, problem.steps)], delta)
        except TooSlowError:
            continue
        if exact > error and math.isfinite(bound.mu):
            assert gaussian_deltas(bound.mu, exact - error) >= delta * (1 - 1e-9)
