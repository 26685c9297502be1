"""RDP and moments against closed forms and the oracles' own moments; basic and advanced from the text."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.closed_forms import advanced, basic
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.accountants.rdp import (
    MOMENT_ROUNDING,
    best_delta,
    best_epsilon,
    moments,
    rdp,
    rdp_classic,
    trimmed_epsilon,
)
from dpcalc.losses.loss import of_falling_pair, of_two_halves, under_draw
from dpcalc.losses.moments import RdpCurve, composed_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.black_box import Exponential
from tests.oracles.exact_gaussian import exact_delta
from tests.oracles.exact_gaussian import exact_epsilon as gaussian_epsilon
from tests.thinning import thinned

ONE = Fraction(1)


def flat(rate, sigma):
    """Poisson sampling, add-remove, direction D||D'."""
    rate = Fraction(rate)
    return MixturePair.of({0: 1 - rate, 1: rate} if rate < 1 else {1: ONE}, {0: ONE}, deviation=sigma)


def unsampled(sigma):
    return of_two_halves(own=flat(1, sigma).swapped, other=flat(1, sigma).swapped, ends=(0.5, 0.5))


def log_moment(rate, sigma, order):
    """log E_Q[(P/Q)^(order + 1)] for a whole order: sum_k C(a, k) (1-q)^(a-k) q^k e^{k (k-1) / (2 sigma^2)}."""
    a, q, s = order + 1, mpmath.mpf(rate.numerator) / rate.denominator, mpmath.mpf(sigma)
    terms = (
        mpmath.binomial(a, k) * (1 - q) ** (a - k) * q**k * mpmath.exp(k * (k - 1) / (2 * s**2)) for k in range(a + 1)
    )
    return mpmath.log(mpmath.fsum(terms))


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [
        (Fraction(1, 100), 4.0, 10_000, 1e-5),
        (Fraction(1, 10**6), 1.0, 10**7, 1e-12),
        (Fraction(1, 2), 30.0, 1000, 1e-20),
        (Fraction(1), 5.0, 3, 1e-3),
        (Fraction(1), 60.0, 1, 1e-5),  # the last order of all is the best
        (Fraction(1, 10**4), 0.7, 100, 1e-2),
    ],
)
def test_moments_is_the_best_whole_order_up_to_32(rate, sigma, steps, delta):
    with mpmath.workdps(50):
        orders = range(1, 33)
        best = min((steps * log_moment(rate, sigma, n) - mpmath.log(delta)) / n for n in orders)
    assert best <= moments({flat(rate, sigma): steps}, delta=delta).epsilon <= best * (1 + 3e-12)


@pytest.mark.parametrize("rate", [*map(Fraction, ("1", "0.99", "0.5", "1e-2", "1e-4", "1e-6", "1e-9"))])
@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 5.0, 200.0, 1e4])
def test_log_moments_are_as_accurate_as_their_rounding_says(rate, sigma):
    """A step of rate 1e-9 and sigma .3 has K(1) = 7e-14, which nodes down to a mass of 1e-20 miss by 2e-6 of it."""
    for max_order, order in ((1, 1), (4, 3), (32, 2), (32, 32), (100, 60)):
        value, _ = composed_moments({flat(rate, sigma): 1}, max_order=float(max_order)).cumulants(np.array([order]))
        with mpmath.workdps(60):
            exact = log_moment(rate, sigma, order)
            assert abs(mpmath.mpf(float(value[0])) / exact - 1) < MOMENT_ROUNDING


@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-40])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 30.0, 100.0])
@pytest.mark.parametrize("steps", [1, 10**4, 10**9])
def test_rdp_is_not_below_the_exact_conversion(delta, sigma, steps):
    """Unsampled steps: the best real order is known to all digits. Above 1e4 the rarest losses are left out."""
    with mpmath.workdps(40):
        found = rdp({flat(ONE, sigma): steps}, delta=delta)
        low, high = mpmath.mpf("1e-12"), mpmath.mpf("1e12")

        def slope(z):
            """Of the conversion, times z squared: z K'(z) - K(z) + log(z + 1) + log(delta)."""
            return steps * z**2 / (2 * mpmath.mpf(sigma) ** 2) + mpmath.log1p(z) + mpmath.log(mpmath.mpf(delta))

        for _ in range(200):
            middle = mpmath.sqrt(low * high)
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        moment = steps * low * (low + 1) / (2 * mpmath.mpf(sigma) ** 2)
        least = converted(moment, low, mpmath.mpf(delta))
        assert max(least, 0) <= found.epsilon
        assert found.epsilon <= max(least, 0) * (1 + mpmath.mpf("1e-7")) + mpmath.mpf("1e-11")


def converted(moment, z, delta):
    """Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12, at an order z = a - 1."""
    return (moment - z * mpmath.log1p(1 / z) - mpmath.log1p(z) - mpmath.log(delta)) / z


@pytest.mark.parametrize("steps", [1, 10, 10_000])
@pytest.mark.parametrize("delta", [1e-3, 1e-10])
def test_basic_is_the_sum_of_exact_epsilons(steps, delta):
    exact = steps * gaussian_epsilon(1, 3.0, delta / steps)
    assert basic({unsampled(3.0): steps}, delta=delta).epsilon == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sigma", "steps", "delta"), thinned([(30.0, 100, 1e-5), (200.0, 10_000, 1e-9), (1.0, 2, 1e-3)], 1)
)
def test_advanced_takes_the_best_split_of_delta(sigma, steps, delta):
    def composed_with(share):
        epsilon = float(gaussian_epsilon(1, sigma, delta * (1 - share) / steps))
        spread = math.sqrt(2 * steps * math.log(1 / (delta * share))) * epsilon
        return spread + steps * epsilon * math.expm1(epsilon)

    found = advanced({unsampled(sigma): steps}, delta=delta)
    tried = [composed_with(share) for share in np.geomspace(1e-4, 0.97, 40)]
    share = float(found.note.split()[-1]) / delta  # three digits
    assert found.epsilon == pytest.approx(composed_with(share), rel=1e-3)
    assert found.epsilon <= min(tried) * (1 + 1e-3)
    assert found.epsilon >= min(tried) * (1 - 1e-2)  # the forty splits are 25 % apart, the minimum flat


def rarely(rate):
    """A step that with a probability is one of N(0, 1) against N(1, 1), as everybody sees, and else has no loss."""
    return under_draw([(rate, of_falling_pair(flat(1, 1.0)))])


@pytest.mark.parametrize("steps", [1, 5])
def test_a_step_that_is_left_out_as_a_whole_has_no_moments(steps):
    """What is rarer than what may be left out has no nodes: once "zero-size array to reduction operation maximum"."""
    curve = rarely(1e-14)
    assert 0 <= best_delta({curve: steps}, epsilon=0.5, truncated_mass=1e-10).value <= 1e-10
    assert trimmed_epsilon({curve: steps}, delta=1e-3).value < 1e-9
    with mpmath.workdps(30):
        exact = float(steps * exact_delta(mpmath.mpf(1), mpmath.mpf(0.5)) * 1e-14)  # two of them are next to impossible
    lower, upper = (delta_bounds({curve: steps}, epsilon=0.5, sides=(side,))[0] for side in (LOWER, UPPER))
    assert lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= upper <= 1e-3


def test_many_steps_together_leave_out_less_than_delta():
    """A run of a million steps has a loss 20 times as often as delta: no step is too rare to count."""
    steps, delta, rate = 10**6, 1e-5, 2e-10
    shown = -math.expm1(steps * math.log1p(-rate))
    least = float(gaussian_epsilon(1, 1.0, delta / shown))  # of the one step that shows something
    assert least > 1
    assert trimmed_epsilon({rarely(rate): steps}, delta=delta).value >= least


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_a_bounded_loss_known_by_its_divergences_costs_no_more_than_its_bound(delta):
    """At orders near 1 / delta the bound is below the largest loss; orders above 1e4 were once left out."""
    pure = Exponential(epsilon=0.2418396701511402)
    curve = RdpCurve(name="exponential", points=tuple((order, pure.rdp(order)) for order in pure.orders))
    assert best_epsilon({curve: 1}, delta=delta).value <= pure.epsilon + math.log(1 / delta) / pure.orders[-1]


def test_the_classical_conversion_is_at_most_that_of_whole_orders_where_rare_losses_are_left_out():
    """10 of 100,000 units, noise 82.5, delta 1.3e-10: it once started at an order of 157,000 and printed 5,398."""
    pair = MixturePair.of({0: Fraction(9999, 10_000), 2: Fraction(1, 10_000)}, {0: ONE}, deviation=82.5)
    for each in (pair, pair.swapped):
        ends = [accountant({each: 146}, delta=1.3e-10).epsilon for accountant in (rdp, rdp_classic, moments)]
        assert ends == sorted(ends)
