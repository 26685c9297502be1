"""Noise that is small against what one unit changes: losses so large that e^-loss has lost all digits of a mass.

The oracle adds up the masses of both distributions in 40 digits.
"""

import itertools
from fractions import Fraction

import mpmath
import pytest

from dpcalc import epsilon, risk
from dpcalc.amplification.any_mechanism import step_pair
from dpcalc.amplification.bound import CountPair
from dpcalc.config.load import load_text
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.planner.evaluate import delta_of
from tests.thinning import thinned

SHIFTS = (1, 5, 30, 1000, 31623, 10**6, 10**7, 10**8, 10**9, 10**12)
SHARES = (0, 1e-3, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1, 1.001)
ROUNDED = mpmath.mpf(10) ** -15  # of floats


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(40):
        yield


def noise_mass(mechanism):
    """(mass of the noise at a whole number, how far from 0 floats can tell it from 0)."""
    scale = mpmath.mpf(mechanism.noise_multiplier)
    if isinstance(mechanism, DiscreteLaplace):
        top = (1 - mpmath.e ** (-1 / scale)) / (1 + mpmath.e ** (-1 / scale))
        return lambda x: top * mpmath.e ** (-mpmath.mpf(abs(x)) / scale), int(800 * scale) + 2
    reach = int(45 * scale) + 2
    total = mpmath.fsum(mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * scale**2)) for x in range(-reach, reach + 1))
    return lambda x: mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * scale**2)) / total, reach


def assert_never_below(pair, mechanism, shift, largest, looseness, rate=Fraction(1)):
    """Both directions bound delta from above, at ten epsilons up to the largest loss; a drawn unit shifts the noise."""
    noise, reach = noise_mass(mechanism)
    numbers = sorted({*range(-reach, reach + 1), *range(shift - reach, shift + reach + 1)})
    far, rate = [noise(x - shift) for x in numbers], mpmath.mpf(rate.numerator) / rate.denominator
    none = [noise(x) for x in numbers]
    shown = [rate * x + (1 - rate) * y for x, y in zip(far, none, strict=True)]
    for bound, first, second in ((pair, shown, none), (pair.swapped, none, shown)):
        for share in SHARES:
            at = min(largest, 1e4) * share
            factor = mpmath.e ** mpmath.mpf(at)
            exact = mpmath.fsum(max(x - factor * y, 0) for x, y in zip(first, second, strict=True))
            assert exact <= 1e-290 or bound.delta(at) >= exact * (1 - ROUNDED)
            assert bound.delta(at) <= exact * (1 + looseness) + 1e-8


@pytest.mark.parametrize("sigma", [0.05, 1, 3.7])
@pytest.mark.parametrize("shift", SHIFTS)
def test_discrete_gaussian_noise_is_never_below_the_exact_profile(sigma, shift):
    """At a sensitivity of 1e7 and sigma .05 the reverse direction had lost 98 % of its masses."""
    mechanism = DiscreteGaussian(noise_multiplier=sigma)
    pair = mechanism.pair(shift)
    for largest in (1.1 * (shift / sigma) ** 2, 40.0):
        assert_never_below(pair, mechanism, shift, largest, 1e-10)


@pytest.mark.parametrize("scale", [0.05, 0.3])
@pytest.mark.parametrize("shift", SHIFTS)
def test_discrete_laplace_noise_is_never_below_the_exact_profile(scale, shift):
    mechanism = DiscreteLaplace(noise_multiplier=scale)
    assert_never_below(mechanism.pair(shift), mechanism, shift, 1.01 * shift / scale, 1e-6)


@pytest.mark.parametrize("sigma", [0.05, 1, 3.7])
@pytest.mark.parametrize("shift", [1, 30, 31623, 10**7, 10**9, 10**12])
def test_drawn_units_are_never_below_the_exact_profile(sigma, shift):
    """One unit is drawn with chance 3/10, and adds `shift` to the number."""
    mechanism, rate = DiscreteGaussian(noise_multiplier=sigma), Fraction(3, 10)
    drawn = CountPair(law=((0, 1 - rate), (1, rate)), shift=shift, both_ways=False)
    assert_never_below(step_pair(drawn, mechanism.pair), mechanism, shift, 20.0, 1e-4, rate)


def plan_of(levels, sampling, kind, noise, adjacency, *, steps, delta):
    return load_text(
        f"version: 1\ndata: {{levels: [{levels}]}}\nsampling: {{{sampling}}}\ntraining: {{steps: {steps}}}\n"
        f"mechanism: {{type: {kind}, noise_multiplier: {noise}, clip: record}}\n"
        f"privacy: {{unit: user, delta: {delta}, adjacency: {adjacency}}}",
        path="run.yaml",
    ).plan


@pytest.mark.parametrize("kind", thinned(["discrete-gaussian", "discrete-laplace", "laplace"], 1))
@pytest.mark.parametrize(
    ("levels", "sampling", "noise", "adjacency"),
    [
        (  # many draws of a user with a million records
            "{name: user, count: 13}, {name: record, count: 1000000}",
            "user: {scheme: with-replacement, size: 9745244}",
            0.914,
            "replace-one",
        ),
        (
            "{name: user, count: 2}, {name: day, count: 24}, {name: record, count: 3000000}",
            "user: {scheme: all}, day: {scheme: poisson, rate: 0.999999999999999}",
            7.59,
            "zero-out",
        ),
        ("{name: user, count: 10}, {name: record, count: 1000000000000}", "user: {scheme: all}", 1, "add-remove"),
    ],
)
def test_crowded_units_have_an_answer(levels, sampling, noise, adjacency, kind):
    """Such runs ended in an overflow; a whole unit costs so much that delta is 1 at any moderate epsilon."""
    plan = plan_of(levels, sampling, kind, noise, adjacency, steps=3, delta="1.0e-40")
    assert epsilon(plan).epsilon > 1e5
    assert delta_of(plan, epsilon=10.0).delta > 0.999


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("adjacency", "records", "kind"),
    thinned(
        itertools.product(
            ("add-remove", "replace-one", "zero-out"),
            (10**9, 1000, 10**12, 10**10, 10**6, 10**8),
            ("discrete-gaussian", "discrete-laplace", "laplace"),
        ),
        8,
    ),
)
def test_a_drawn_user_shows_whenever_it_is_drawn(kind, records, adjacency):
    """With 1e9 records a user, drawn with chance .3, epsilon and delta were printed as 0."""
    levels = f"{{name: user, count: 10}}, {{name: record, count: {records}}}"
    plan = plan_of(levels, "user: {scheme: poisson, rate: 0.3}", kind, 1, adjacency, steps=1, delta="1.0e-5")
    assert epsilon(plan).epsilon > 100
    assert 0.3 * (1 - ROUNDED) <= delta_of(plan, epsilon=1.0).delta <= 0.302
    answer = risk(plan)
    assert 0.3 * (1 - ROUNDED) <= answer.advantage <= 0.302
    # Whoever sees the unit's noise raises the alarm; else it is as good as guessing.
    for each in answer.detections:
        assert each.present >= 0.3 + 0.7 * each.false_positive_rate - 1e-9


def test_laplace_noise_far_below_the_sensitivity_is_pure():
    pair = Laplace(noise_multiplier=0.001).pair(10**12)
    assert pair.losses[-1] == 1e15
    assert pair.delta(1e14) == 1
    assert pair.delta(1.1e15) == 0
    assert pair.epsilon(0.5) <= 1.001e15
    assert pair.swapped is pair
