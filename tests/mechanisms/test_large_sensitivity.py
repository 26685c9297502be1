"""Noise that is small against what one unit changes: losses so large that e^-loss has lost all digits of a mass.

The oracle adds up the masses of both distributions in 40 digits.
"""

from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

from dpcalc import epsilon, risk
from dpcalc.amplification.counts import CountPair
from dpcalc.amplification.step_pair import step_pair
from dpcalc.config.load import load_text
from dpcalc.losses.atoms import Atoms
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.planner.evaluate import delta_of

SHIFTS = (1, 5, 30, 1000, 31623, 10**6, 10**7, 10**8, 10**9, 10**12)
SHARES = (0, 1e-3, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1, 1.001)
ROUNDED = mpmath.mpf(10) ** -15  # of floats
Mass = Callable[[int], mpmath.mpf]
"""The mass of a distribution at a whole number."""


def noise_mass(mechanism: DiscreteGaussian | DiscreteLaplace) -> tuple[Mass, int]:
    """Return the mass function of the noise, and how far from 0 floats can tell its mass from 0."""
    scale = mpmath.mpf(mechanism.noise_multiplier)
    if isinstance(mechanism, DiscreteLaplace):
        top = (1 - mpmath.e ** (-1 / scale)) / (1 + mpmath.e ** (-1 / scale))
        return lambda x: top * mpmath.e ** (-mpmath.mpf(abs(x)) / scale), int(800 * scale) + 2
    reach = int(45 * scale) + 2
    total = mpmath.fsum(mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * scale**2)) for x in range(-reach, reach + 1))
    return lambda x: mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * scale**2)) / total, reach


def shifted(mass: Mass, shift: int) -> Mass:
    return lambda x: mass(x - shift)


def delta(p: list[mpmath.mpf], q: list[mpmath.mpf], at: float) -> mpmath.mpf:
    """Return the sum of (p - e^at q)_+ over the same numbers."""
    factor = mpmath.e ** mpmath.mpf(at)
    return mpmath.fsum(max(x - factor * y, 0) for x, y in zip(p, q, strict=True))


def assert_never_below(pair: Atoms, p: Mass, q: Mass, numbers: list[int], largest: float, looseness: float) -> None:
    """Assert that both directions of `pair` bound delta from above, at ten epsilons up to the largest loss."""
    of_p, of_q = [p(x) for x in numbers], [q(x) for x in numbers]
    for bound, first, second in ((pair, of_p, of_q), (pair.swapped, of_q, of_p)):
        for share in SHARES:
            at = min(largest, 1e4) * share
            exact = delta(first, second, at)
            if exact > 1e-290:
                assert bound.delta(at) >= exact * (1 - ROUNDED)
            assert bound.delta(at) <= exact * (1 + looseness) + 1e-8


def near(reach: int, shift: int) -> list[int]:
    """Return the numbers near 0 or near `shift`."""
    return sorted({*range(-reach, reach + 1), *range(shift - reach, shift + reach + 1)})


@pytest.mark.parametrize("sigma", [0.05, 1, 3.7])
@pytest.mark.parametrize("shift", SHIFTS)
def test_both_directions_are_never_below_the_exact_profile(sigma: float, shift: int) -> None:
    """At a sensitivity of 1e7 and sigma .05 the reverse direction had lost 98 % of its masses."""
    mechanism = DiscreteGaussian(noise_multiplier=sigma)
    with mpmath.workdps(40):
        noise, reach = noise_mass(mechanism)
        pair = mechanism.pair(shift)
        numbers = near(reach, shift)
        for largest in (1.1 * (shift / sigma) ** 2, 40.0):
            assert_never_below(pair, noise, shifted(noise, shift), numbers, largest, 1e-10)


@pytest.mark.parametrize("scale", [0.05, 0.3])
@pytest.mark.parametrize("shift", SHIFTS)
def test_discrete_laplace_noise_is_never_below_the_exact_profile(scale: float, shift: int) -> None:
    mechanism = DiscreteLaplace(noise_multiplier=scale)
    with mpmath.workdps(40):
        noise, reach = noise_mass(mechanism)
        pair = mechanism.pair(shift)
        assert_never_below(pair, noise, shifted(noise, shift), near(reach, shift), 1.01 * shift / scale, 1e-6)


@pytest.mark.parametrize("sigma", [0.05, 1, 3.7])
@pytest.mark.parametrize("shift", [1, 30, 31623, 10**7, 10**9, 10**12])
def test_drawn_units_are_never_below_the_exact_profile(sigma: float, shift: int) -> None:
    """One unit is drawn with chance 3/10, and adds `shift` to the number."""
    mechanism = DiscreteGaussian(noise_multiplier=sigma)
    pair = step_pair(
        CountPair(law=((0, Fraction(7, 10)), (1, Fraction(3, 10))), shift=shift, both_ways=False), mechanism.pair
    )
    with mpmath.workdps(40):
        noise, reach = noise_mass(mechanism)
        drawn = shifted(noise, shift)
        assert_never_below(pair, lambda x: (7 * noise(x) + 3 * drawn(x)) / 10, noise, near(reach, shift), 20.0, 1e-4)


CROWDED = [
    (  # many draws of a user with a million records
        "levels: [{name: user, count: 13}, {name: record, count: 1000000}]",
        "user: {scheme: with-replacement, size: 9745244}",
        0.914,
        "replace-one",
    ),
    (
        "levels: [{name: user, count: 2}, {name: day, count: 24}, {name: record, count: 3000000}]",
        "user: {scheme: all}, day: {scheme: poisson, rate: 0.999999999999999}",
        7.59,
        "zero-out",
    ),
    ("levels: [{name: user, count: 10}, {name: record, count: 1000000000000}]", "user: {scheme: all}", 1, "add-remove"),
]


@pytest.mark.parametrize("kind", ["discrete-gaussian", "discrete-laplace", "laplace"])
@pytest.mark.parametrize(("levels", "sampling", "noise", "adjacency"), CROWDED)
def test_crowded_units_have_an_answer(levels: str, sampling: str, noise: float, adjacency: str, kind: str) -> None:
    """Such runs ended in an overflow; a whole unit costs so much that delta is 1 at any moderate epsilon."""
    text = (
        f"version: 1\ndata: {{{levels}}}\nsampling: {{{sampling}}}\ntraining: {{steps: 3}}\n"
        f"mechanism: {{type: {kind}, noise_multiplier: {noise}, clip: record}}\n"
        f"privacy: {{unit: user, delta: 1.0e-40, adjacency: {adjacency}}}"
    )
    plan = load_text(text, path="run.yaml").plan
    assert epsilon(plan).epsilon > 1e5
    assert delta_of(plan, epsilon=10.0).delta > 0.999


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", "zero-out"])
@pytest.mark.parametrize("records", [1000, 10**6, 10**8, 10**9, 10**10, 10**12])
@pytest.mark.parametrize("kind", ["discrete-gaussian", "discrete-laplace", "laplace"])
def test_a_drawn_user_shows_whenever_it_is_drawn(kind: str, records: int, adjacency: str) -> None:
    """With 1e9 records a user, drawn with chance .3, epsilon and delta were printed as 0."""
    text = (
        f"version: 1\ndata: {{levels: [{{name: user, count: 10}}, {{name: record, count: {records}}}]}}\n"
        f"sampling: {{user: {{scheme: poisson, rate: 0.3}}}}\ntraining: {{steps: 1}}\n"
        f"mechanism: {{type: {kind}, noise_multiplier: 1, clip: record}}\n"
        f"privacy: {{unit: user, delta: 1.0e-5, adjacency: {adjacency}}}"
    )
    plan = load_text(text, path="run.yaml").plan
    assert epsilon(plan).epsilon > 100
    assert 0.3 * (1 - ROUNDED) <= delta_of(plan, epsilon=1.0).delta <= 0.302
    answer = risk(plan)
    assert 0.3 * (1 - ROUNDED) <= answer.advantage <= 0.302
    # Whoever sees the unit's noise raises the alarm; else it is as good as guessing.
    for each in answer.detections:
        assert each.present >= 0.3 + 0.7 * each.false_positive_rate - 1e-9


def test_laplace_noise_far_below_the_sensitivity_is_pure() -> None:
    pair = Laplace(noise_multiplier=0.001).pair(10**12)
    assert pair.losses[-1] == 1e15
    assert pair.delta(1e14) == 1
    assert pair.delta(1.1e15) == 0
    assert pair.epsilon(0.5) <= 1.001e15
    assert pair.swapped is pair
