"""What attackers gain, against tests whose rates are known exactly."""

import math
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from dpcalc.config.load import load
from dpcalc.errors import InputError
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.planner.composition import protected_units
from dpcalc.planner.risk import risk
from dpcalc.sampling.schemes import All, Poisson
from tests.runs import plan_of
from tests.thinning import thinned

NORMAL = NormalDist()
RATES = (1e-6, 0.01, 0.5)


def true_positive_rates(plan, rates):
    """Of who detects the unit, and of who detects that it is missing, at each rate."""
    found = risk(plan, false_positive_rates=rates).detections
    return [one.present for one in found], [one.absent for one in found]


def false_negative_rates(plan, rates):
    found = risk(plan, false_positive_rates=rates).detections
    return [one.present_missed for one in found], [one.absent_missed for one in found]


@pytest.mark.parametrize(("mu", "loose"), [(0.5, 1e-4), (2.0, 2e-4), (5.0, 2e-2)])
def test_the_gaussian_mechanism_is_told_apart_by_the_likelihood_ratio(mu, loose):
    plan = plan_of(All(), noise=10 / mu, steps=100)
    found = risk(plan, false_positive_rates=RATES)
    exact = 2 * NORMAL.cdf(mu / 2) - 1
    assert exact <= found.advantage <= exact * (1 + loose)
    for one in found.detections:
        exact = NORMAL.cdf(NORMAL.inv_cdf(one.false_positive_rate) + mu)
        assert all(exact * (1 - 1e-12) <= bound <= exact * (1 + loose) for bound in (one.present, one.absent))


@pytest.mark.parametrize(("sigma", "steps"), thinned([(2.1358, 173), (1.0, 4), (0.5, 9), (3.0, 400), (0.7, 61)], 3))
@pytest.mark.parametrize("share", ["1", "0.999999"])
def test_large_distances_at_small_false_positive_rates(sigma, steps, share):
    """At 2.1358, 173 and 1e-6 it was once 1, and is .920. A draw left out seldom changes a rate by steps / 10^6."""
    scheme = All() if share == "1" else Poisson(probability=Fraction(share))
    plan, mu = plan_of(scheme, noise=sigma, steps=steps), math.sqrt(steps) / sigma
    missed = steps * (1 - float(share))
    for rates in ((1e-6,), (1e-6, 0.001, 0.1, 0.5, 0.9), (1e-12, 0.9)):
        for rate, *both in zip(rates, *true_positive_rates(plan, rates), strict=True):
            exact = NORMAL.cdf(NORMAL.inv_cdf(rate) + mu)
            bounds = both if share == "1" else both[:1]  # of who says "absent" the false positives are the rare misses
            assert all(exact * (1 - 1e-12) - missed <= bound <= exact * (1 + 5e-4) + missed for bound in bounds)


def detected(rate, share, sigma):
    """True positive rate of the best test of (1 - share) N(0) + share N(1) against N(0): reject above a threshold."""
    above = NORMAL.inv_cdf(1 - rate)
    return (1 - share) * rate + share * (1 - NORMAL.cdf(above - 1 / sigma))


def undetected(rate, share, sigma):
    """The same with the two exchanged: reject below a threshold, found by bisection."""
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        below = (1 - share) * NORMAL.cdf(middle / sigma) + share * NORMAL.cdf((middle - 1) / sigma)
        low, high = (middle, high) if below <= rate else (low, middle)
    return NORMAL.cdf(low / sigma)


@pytest.mark.heavy
@pytest.mark.parametrize(("share", "sigma"), [(0.3, 1.0), (0.05, 0.5)])
def test_one_sampled_step_bounds_both_orientations_apart(share, sigma):
    found = risk(plan_of(Poisson(probability=Fraction(str(share))), noise=sigma, steps=1))
    for one in found.detections[1:]:
        both = (detected(one.false_positive_rate, share, sigma), undetected(one.false_positive_rate, share, sigma))
        for bound, exact in zip((one.present, one.absent), both, strict=True):
            assert exact * (1 - 1e-9) <= bound <= exact * 1.03
    exact = share * (2 * NORMAL.cdf(1 / sigma / 2) - 1)
    assert exact * (1 - 1e-9) <= found.advantage <= exact * 1.01


@pytest.mark.heavy
def test_no_false_positive_rates_give_the_advantage_alone():
    run = plan_of(Poisson(probability=Fraction(1, 100)), steps=100)
    alone = risk(run, false_positive_rates=())
    assert alone.detections == ()
    assert alone.advantage == risk(run).advantage


def test_without_noise_everything_is_detected_and_without_draws_nothing():
    found = risk(plan_of(All(), noise=0.0))
    assert (found.advantage, found.belief, found.gdp.mu) == (1.0, 1.0, math.inf)
    assert true_positive_rates(plan_of(All(), noise=0.0), (0.01,)) == ([1.0], [1.0])
    unseen = risk(plan_of(Poisson(probability=Fraction(0))), false_positive_rates=(0.01,))
    assert (unseen.advantage, unseen.detections[0].present) == (0.0, 0.01)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_what_is_fitted_to_the_gaussian_mechanism_is_that_mechanism(mu):
    found = risk(plan_of(All(), noise=10 / mu, steps=100), prior=0.2)
    assert mu * (1 - 1e-9) <= found.gdp.mu <= mu * (1 + 1e-9)
    assert found.gdp.misfit == 0
    for one in found.detections:
        exact = NORMAL.cdf(NORMAL.inv_cdf(one.false_positive_rate) + mu)
        assert one.present == pytest.approx(exact, rel=1e-3)
        assert one.absent == pytest.approx(exact, rel=1e-3)
        assert one.posterior == pytest.approx(0.2 * exact / (0.2 * exact + 0.8 * one.false_positive_rate), rel=1e-3)
    # The loss is N(mu^2 / 2, mu^2); odds of 1 to 4 grow by e^loss.
    growth = mu**2 / 2 + mu * NORMAL.inv_cdf(1 - 1e-5)
    certain = 1 / (1 + 4 * math.exp(-growth))
    assert certain <= found.belief <= 1 / (1 + 4 * math.exp(-1.25 * growth))


def test_inference_from_a_randomized_answer():
    """Of a bit that is kept with probability 3/4 the error rates are 1/4 and 1/4, joined with (0, 1) and (1, 0)."""
    mechanism = RandomizedResponse(truth_probability=0.75)
    plan = plan_of(All(), steps=1, adjacency="replace-one", mechanism=mechanism)
    for (baseline, success), (rate, exact) in zip(
        risk(plan, baselines=(0.25, 0.5)).reconstructions, ((0.25, 0.75), (0.5, 5 / 6)), strict=True
    ):
        assert baseline == rate
        assert exact * (1 - 1e-12) <= success <= exact * (1 + 1e-3)


@pytest.mark.heavy
@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, math.nan])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("false_positive_rates", "false positive rate: expected a number between 0 and 1"),
        ("baselines", "baseline: expected a number between 0 and 1"),
        ("prior", "prior: expected a probability between 0 and 1"),
    ],
)
def test_probabilities_lie_between_0_and_1(option, words, wrong):
    with pytest.raises(InputError, match=words):
        risk(plan_of(All()), **{option: wrong if option == "prior" else (wrong,)})


def test_the_costliest_of_several_units_decides():
    unequal = load(str(Path(__file__).parents[2] / "sample_configs" / "clinics_unequal.yaml")).plan
    assert len(protected_units(unequal)) > 1
    present, absent = true_positive_rates(unequal, (0.01,))
    several = true_positive_rates(unequal, (0.01, 0.5))  # sharp at both: no unit is left out of account at either
    assert [several[0][0], several[1][0]] == pytest.approx([*present, *absent], rel=2e-3)


def best_test(share, sigma, steps, rate, *, absent):
    """True positive rate of the likelihood ratio test of `steps` draws, its loss rounded to a fine lattice."""
    y = np.linspace(-9 * sigma, 1 + 9 * sigma, 400_001)
    density = np.exp(-((y / sigma) ** 2) / 2)
    with_unit = (1 - share) * density + share * np.exp(-(((y - 1) / sigma) ** 2) / 2)
    p, q = (density, with_unit) if absent else (with_unit, density)
    width = 2e-4
    loss = np.rint(np.log(p / q) / width).astype(int)
    low = int(loss.min())
    size = 1 << int(steps * (loss.max() - low)).bit_length()
    masses = [np.bincount(loss - low, weights=one / one.sum(), minlength=size) for one in (p, q)]
    composed = [np.fft.irfft(np.fft.rfft(one) ** steps, size)[::-1].clip(0) for one in masses]
    detections, alarms = (np.cumsum(one) for one in composed)  # from the largest loss down
    return float(np.interp(rate, alarms, detections))


@pytest.mark.heavy
@pytest.mark.parametrize(("share", "sigma", "steps"), thinned([(0.3, 1.0, 5), (0.05, 0.7, 20)], 1))
def test_composed_sampled_steps_by_convolution(share, sigma, steps):
    found = risk(plan_of(Poisson(probability=Fraction(str(share))), noise=sigma, steps=steps))
    for one in found.detections:
        present, absent = (
            best_test(share, sigma, steps, one.false_positive_rate, absent=absent) for absent in (False, True)
        )
        assert present * (1 - 1e-3) <= one.present <= present * 1.01
        assert absent * (1 - 1e-3) <= one.absent <= absent * 1.01
    assert found.detections[0].present > 1.05 * found.detections[0].absent


@pytest.mark.heavy
@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("mu", thinned([7.0, 0.5, 20.0, 3.0, 12.0], 2))
def test_what_next_to_no_attacker_misses(mu, steps):
    """The Gaussian mechanism misses Phi(Phi^-1(1 - a) - mu), here with 60 digits: down to 1e-78."""
    plan = plan_of(All(), noise=math.sqrt(steps) / mu, steps=steps)
    for rates in ((1e-3,), (0.1,), (1e-3, 0.01, 0.1, 0.9)):
        for rate, *both in zip(rates, *false_negative_rates(plan, rates), strict=True):
            with mpmath.workdps(60):
                exact = mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(rate)) - mu)
                assert all(0.98 * exact <= missed <= exact for missed in both), (rates, rate)


@pytest.mark.heavy
@pytest.mark.parametrize(("share", "sigma"), [(0.999, 0.2), (0.9999, 0.1), (0.5, 0.1)])
def test_what_is_missed_of_a_sampled_step(share, sigma):
    """(1 - q) N(0) + q N(1) against N(0): next to nothing but the draws without it is missed."""
    plan = plan_of(Poisson(probability=Fraction(str(share))), noise=sigma, steps=1)
    for rate in (1e-3, 0.1):
        ((found,), _) = false_negative_rates(plan, (rate,))
        with mpmath.workdps(60):
            above = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(rate))
            q = mpmath.mpf(str(share))
            exact = (1 - q) * (1 - mpmath.mpf(rate)) + q * mpmath.ncdf(above - 1 / mpmath.mpf(sigma))
            assert 0.97 * exact <= found <= exact


def test_false_positive_rates_below_e_to_the_minus_700():
    """Epsilons above 700, whose exponential is cut there, would make the bound too low."""
    threshold, mu = 37.67, 36.0
    with mpmath.workdps(400):
        rate = float(mpmath.ncdf(-threshold) * (1 + mpmath.mpf(10) ** -6))
        exact = float(mpmath.ncdf(mu - threshold))
    assert 0 < rate < math.exp(-700)
    (found,), _ = true_positive_rates(plan_of(All(), noise=1 / mu, steps=1), (rate,))
    assert found >= exact


def most_detected(losses, rate):
    """True positive rate of the likelihood ratio test between {loss: (P mass, Q mass)}, loss inf included."""
    detected, alarms = 0.0, 0.0
    for _, (p, q) in sorted(losses.items(), reverse=True):
        share = min(1.0, (rate - alarms) / q) if q else 1.0
        detected, alarms = detected + share * p, alarms + share * q
    return detected


@pytest.mark.parametrize(
    ("size", "failing", "steps", "rate"),
    thinned(
        [
            (*both, steps, rate)
            for both in ((1.0, 0.3), (0.1, 1e-3), (3.0, 1e-5), (0.0, 0.01))
            for steps in (1, 20)
            for rate in (1e-6, 1e-3, 0.1)
        ],
        7,
    ),
)
def test_steps_that_may_fail_are_detected_when_they_do(size, failing, steps, rate):
    """A step of delta .3 tells all with chance .3; with one false alarm in 1000, .038 was once said to be the most."""
    plan = plan_of(All(), steps=steps, mechanism=ApproximateDp(epsilon=size, delta=failing), delta=1e-9)
    true_answer = 1 / (1 + math.exp(-size))
    whole = (1 - failing) ** steps
    losses = {math.inf: (1 - whole, 0.0), -math.inf: (0.0, 1 - whole)}
    for false_answers in range(steps + 1):
        p = whole * math.comb(steps, false_answers) * true_answer ** (steps - false_answers)
        p *= (1 - true_answer) ** false_answers
        loss = (steps - 2 * false_answers) * size
        before = losses.get(loss, (0.0, 0.0))
        losses[loss] = (before[0] + p, before[1] + p * math.exp(-loss))
    exact = most_detected(losses, rate)
    for found in true_positive_rates(plan, (rate,)):
        assert exact * (1 - 1e-9) <= found[0]
        assert size < 1 or found[0] <= exact * 1.02 + 1e-9
    (missed, _) = false_negative_rates(plan, (rate,))
    assert missed[0] <= (1 - exact) * (1 + 1e-9) + 1e-12
