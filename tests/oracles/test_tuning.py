"""The best of a random number of runs: against its exact distribution, the theorems by mpmath, and dp-accounting."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event, rdp

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.tuning import Poisson, TruncatedNegativeBinomial
from tests.few_losses import of_masses
from tests.runs import HUNDREDTH, plan_of
from tests.thinning import thinned

DELTA = 1e-5
NUMBERS = [
    TruncatedNegativeBinomial(shape=1.0, mean=10.0),
    TruncatedNegativeBinomial(shape=0.0, mean=5.0),
    TruncatedNegativeBinomial(shape=0.5, mean=30.0),
    TruncatedNegativeBinomial(shape=-0.5, mean=4.0),
    TruncatedNegativeBinomial(shape=8.0, mean=20.0),
    Poisson(mean=10.0),
    Poisson(mean=1.5),
]


def gaussian(sigma, rate=Fraction(1)):
    """One direction of a subsampled Gaussian step, and the other."""
    p, q = {0: 1 - rate, 1: rate}, {0: Fraction(1)}
    return MixturePair.of(p, q, deviation=sigma), MixturePair.of(q, p, deviation=sigma)


def runs(sigma, *, count=1, rate=Fraction(1)):
    return tuple({pair: count} for pair in gaussian(sigma, rate))


def generating(number, x):
    """E[x^K]."""
    if isinstance(number, Poisson):
        return mpmath.exp(number.mean * (x - 1))
    gamma, shape = mpmath.mpf(number.gamma), mpmath.mpf(number.shape)
    if shape == 0:
        return mpmath.log(1 - (1 - gamma) * x) / mpmath.log(gamma)
    return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


@mpmath.workdps(30)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
def test_the_mean_and_the_distribution(number):
    assert float(generating(number, mpmath.mpf(1))) == pytest.approx(1)
    slope = float(mpmath.diff(lambda x: generating(number, x), 1))
    assert slope == pytest.approx(number.mean, rel=1e-9)


@mpmath.workdps(30)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
@pytest.mark.parametrize("sigma", thinned([0.7, 3.0], 1))
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_the_largest_of_gaussian_releases_costs_no_more(number, sigma, delta):
    # P(best <= y) = E[F(y)^K] of a release with distribution F; a Gaussian release at 0 or 1, larger is better
    epsilon = number.epsilon(runs(sigma), delta=delta)
    ends = [
        [generating(number, mpmath.ncdf((mpmath.mpf(y) - mean) / sigma)) for mean in (0, 1)]
        for y in mpmath.linspace(-6 * sigma, 1 + 7 * sigma, 120)
    ]
    grow = mpmath.exp(epsilon)
    for own, other in ((0, 1), (1, 0)):
        masses = [(b[own] - a[own], b[other] - a[other]) for a, b in itertools.pairwise(ends)]
        assert sum(max(0, p - grow * q) for p, q in masses) <= delta
    one_run = max(best_epsilon(counts, delta=delta).value for counts in runs(sigma))
    assert epsilon > one_run


@pytest.mark.parametrize("number", [*NUMBERS[:3], *NUMBERS[4:]], ids=lambda one: one.words)
def test_dp_accounting_agrees(number):
    rate, sigma, count = Fraction(1, 100), 1.0, 1000
    orders = np.concatenate([np.arange(1.05, 12, 0.05), np.arange(12, 64), [80, 128, 256]])
    accountant = rdp.RdpAccountant(list(orders))
    step = dp_event.PoissonSampledDpEvent(float(rate), dp_accounting.GaussianDpEvent(sigma))
    shape = getattr(number, "shape", math.inf)
    run = dp_accounting.SelfComposedDpEvent(step, count)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean=number.mean, shape=shape))
    theirs = accountant.get_epsilon(DELTA)
    asked = replace(plan_of(HUNDREDTH, noise=sigma, steps=count), tuning=number)
    assert guarantee(asked).epsilon == pytest.approx(theirs, rel=2e-3)
    assert number.epsilon(runs(sigma, count=count, rate=rate), delta=DELTA) == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
@pytest.mark.parametrize("failing", [1e-4, 1e-3])
def test_runs_with_infinite_losses_cost_no_more(number, failing):
    """Approximate DP: three or four outputs in every order of preference, one of which only D (or only D') can have."""
    p, q = (
        ((1 - failing) * 0.7, (1 - failing) * 0.3, failing, 0.0),
        ((1 - failing) * 0.4, (1 - failing) * 0.6, 0.0, failing),
    )
    finite = sorted((math.log(a / b), a) for a, b in zip(p, q, strict=True) if a and b)
    pair = of_masses([loss for loss, _ in finite], [a for _, a in finite], infinity_mass=failing)
    delta = 3 * number.mean * failing
    epsilon = number.epsilon(({pair: 1}, {pair.swapped: 1}), delta=delta)
    assert epsilon < math.inf
    for order in itertools.permutations(range(4)):
        laws = []
        for law in (p, q):
            below = np.cumsum([0.0, *(law[i] for i in order)])
            values = [float(generating(number, mpmath.mpf(float(x)))) for x in below]
            laws.append(np.diff(values))
        for own, other in (laws, laws[::-1]):
            assert np.maximum(own - math.exp(epsilon) * other, 0.0).sum() <= delta
    assert number.epsilon(({pair: 1}, {pair.swapped: 1}), delta=0.9 * number.mean * failing) == math.inf


@pytest.mark.parametrize(
    ("shape", "mean", "delta"),
    thinned(
        itertools.product(
            (-0.9, -0.5, 0.0, 0.5, 1.0, 8.0, 1000.0), (1.0001, 1.01, 1.5, 10.0, 1e6), (0.0654, 0.07, 0.118, 0.5)
        ),
        23,
    ),
)
def test_the_best_run_never_costs_less_than_one(shape, mean, delta):
    """Steps whose losses are infinite almost as often as delta allows have finite losses of next to no mass."""
    for epsilon in (0.0, 0.023916, 1.0):
        one = {ApproximateDp(epsilon=epsilon, delta=0.021792).pair(): 3}
        number = TruncatedNegativeBinomial(shape=shape, mean=mean)
        alone = best_epsilon(one, delta=delta).value
        assert number.epsilon((one, one), delta=delta) >= max(0.0, alone)
        assert number.epsilon((one, one), delta=delta, in_closed_form=True) >= max(0.0, alone)
        if mean < 10:
            assert Poisson(mean=mean).epsilon((one, one), delta=delta) >= max(0.0, alone)
