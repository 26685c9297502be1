"""Compositions that once came out wrong, too wide, or not at all."""

import math
from fractions import Fraction

import mpmath
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import auto, delta_bounds, epsilon_bounds
from dpcalc.amplification.bound import MissedBatch, StepBound
from dpcalc.errors import ConvergenceError
from tests.oracles.conditioning import exact_epsilon
from tests.oracles.fine_lattice import estimated_epsilon
from tests.oracles.numerics_problems import Problem, generator
from tests.thinning import thinned


def problem(eta, shift, distances, swapped_distances, *, swapped, sigma, steps, delta):
    """Two levels at most; all that misses the unit misses it at the first."""
    chances = (1 - Fraction(eta), Fraction(0))[: len(distances)]
    missed = tuple(map(MissedBatch, chances, distances, swapped_distances))
    bound = StepBound(inclusion=Fraction(eta), shift=shift, missed=missed)
    return Problem(bound, swapped, sigma, steps, delta)


def ends(case):
    return epsilon_bounds({case.profile: case.steps}, delta=case.delta, sides=(UPPER, LOWER))


# losses so low that the tilt makes them negligible were counted as 0, and the lower end came out above the truth
TOO_HIGH = [
    problem("3/25000", 2, (2,), (0,), swapped=True, sigma=1.5598171315692275, steps=156, delta=3.5039762025288147e-11),
    problem("3/100000", 2, (2,), (0,), swapped=True, sigma=1.166, steps=3563, delta=3.08e-15),
    problem("1/5000", 2, (2,), (0,), swapped=True, sigma=0.92429105154606, steps=1102, delta=4.165850168400964e-11),
]

# the price of the widest lattice, tilt times spacing, was more than a float's exponent holds
OVERFLOWED = [
    problem("1/10000", 2, (2,), (0,), swapped=True, sigma=0.3802, steps=6, delta=7.13e-9),
    problem("1/2", 2, (2,), (0,), swapped=True, sigma=0.3118, steps=2, delta=1.53e-7),
    problem("1/2", 2, (2,), (0,), swapped=True, sigma=0.30306704870789886, steps=430, delta=9.342483771436421e-25),
]


@pytest.mark.heavy
@pytest.mark.parametrize("case", thinned(TOO_HIGH, 1))
def test_rare_large_negative_losses_do_not_lift_the_lower_end(case):
    exact, error = estimated_epsilon([(case.curve, case.steps)], case.delta)
    upper, lower = ends(case)
    assert error <= 1e-6 * exact
    assert lower <= exact + error
    assert upper >= exact - error


@pytest.mark.parametrize("case", OVERFLOWED)
def test_a_bounded_loss_at_its_bound_has_ends(case):
    upper, lower = ends(case)
    most = -case.steps * math.log1p(-float(case.bound.inclusion))  # every loss is at most -log(1 - eta)
    assert 0 <= lower <= upper <= most * (1 + 1e-9)


HUGE = [
    problem("1", 2, (2,), (0,), swapped=False, sigma=0.07664519823840533, steps=62698787, delta=1.39e-14),
    problem("1", 8, (4,), (4,), swapped=False, sigma=0.21329668838600063, steps=40413373, delta=1.1e-17),
]


@pytest.mark.parametrize("case", HUGE)
def test_a_lattice_wider_than_the_exponent_of_a_float(case):
    """Epsilon of 1e9: useless, but a number; a loss is at most that of a Gaussian of the whole shift."""
    upper, lower = ends(case)
    mu = math.sqrt(case.steps) * case.bound.shift / case.sigma
    assert 0 <= lower <= upper <= mu**2 / 2 + 40 * mu


@pytest.mark.heavy
def test_what_does_not_fit_in_memory_is_said_and_bounded_otherwise():
    """Jumps of 60,000 on every second of ten thousand million steps."""
    case = problem("1/2", 160, (160,), (0,), swapped=False, sigma=0.4553, steps=10**10, delta=7.99e-15)
    with pytest.raises(ConvergenceError, match="try --method rdp"):
        epsilon_bounds({case.profile: case.steps}, delta=case.delta, sides=(UPPER,))
    answer = auto({case.profile: case.steps}, delta=case.delta)
    assert answer.note == "rdp"
    assert case.steps / 4 * (160 / 0.4553) ** 2 <= answer.epsilon <= case.steps * (160 / 0.4553) ** 2


FLOODED = problem(
    "1/100", 200, (200,), (0,), swapped=True, sigma=19.933860727468854, steps=137512, delta=6.607103180186355e-09
)


def test_no_overflow_far_below_epsilon():
    upper, lower = ends(FLOODED)
    assert 0 <= lower <= upper <= -FLOODED.steps * math.log1p(-0.01) * (1 + 1e-9)


# a cell between two far pieces of a bounded loss: tilt times its width is more than a float's exponent holds
TOO_WIDE = problem("1/5", 4, (4,), (0,), swapped=True, sigma=1.0, steps=1, delta=1e-9)


def test_no_overflow_in_a_wide_cell():
    upper, lower = ends(TOO_WIDE)
    assert lower <= exact_epsilon(TOO_WIDE.curve, 1, TOO_WIDE.delta) <= upper


# every loss is at most log(5/4): delta is 0 beyond
BEYOND = [(0.3, 3), (10.0, 1), (10.0, 40)]


@pytest.mark.parametrize(("epsilon", "steps"), BEYOND)
def test_delta_beyond_every_loss_is_nothing(epsilon, steps):
    counts = {problem("1/5", 2, (2,), (0,), swapped=True, sigma=1.0, steps=1, delta=0.5).profile: steps}
    upper, lower = delta_bounds(counts, epsilon=epsilon + steps * math.log(1.25), sides=(UPPER, LOWER))
    assert lower == 0
    assert upper <= 1e-12


# bounded losses in the direction D'||D: rounding down is first order at the upper end of the loss, copy after copy
WIDE = [
    problem("3/100", 8, (8,), (0,), swapped=True, sigma=0.9692254757205669, steps=19918, delta=2.22440947404431e-7),
    problem(
        "1/100000", 4, (4,), (0,), swapped=True, sigma=0.642530733357551, steps=1589314, delta=1.645276460695433e-11
    ),
    problem("1/20000", 1, (1,), (0,), swapped=True, sigma=0.47708535162175747, steps=5915041, delta=1.562e-7),
    problem("3/10000", 5, (5,), (0,), swapped=True, sigma=1.554, steps=8603, delta=1.22e-4),
]


@pytest.mark.heavy
@pytest.mark.parametrize("case", WIDE)
def test_the_interval_of_a_bounded_loss_is_narrow(case):
    upper, lower = ends(case)
    assert upper - lower <= 1e-3 * upper


# rare large losses far beyond epsilon drew the tilt away from it: widths of 1e-3 to 1
FAR = [
    problem("3/100000", 2, (2,), (2,), swapped=False, sigma=1.4991957317507187, steps=8769, delta=1.103472535825858e-8),
    problem("1/5000", 2, (2,), (2,), swapped=False, sigma=1.6427328911612566, steps=182, delta=6.588704584342627e-10),
]
FARTHER = [
    problem("1/100000", 2, (2,), (0,), swapped=False, sigma=1.696, steps=665568, delta=9.3e-22),
    problem("1/100000", 2, (2,), (2,), swapped=False, sigma=1.317, steps=7154, delta=7.62e-16),
    problem("1/50000", 2, (2,), (2,), swapped=True, sigma=1.9957, steps=279283, delta=1.535e-22),
]
# the bulk was rounded down by a whole lattice point, or with what has no loss at all, copy after copy
ROUNDED = [
    problem("1/10000", 1, (16,), (15,), swapped=True, sigma=0.565, steps=102988, delta=4.69e-13),
    problem("1/200000", 2, (2,), (1,), swapped=False, sigma=0.6944, steps=6312, delta=2.565e-17),
    problem("1/100000", 2, (16,), (16,), swapped=False, sigma=0.56, steps=285941, delta=4.14e-16),
]


@pytest.mark.heavy
@pytest.mark.parametrize("case", thinned(FAR, 1))
def test_rare_losses_have_narrow_and_valid_ends(case):
    exact, error = estimated_epsilon([(case.curve, case.steps)], case.delta)
    upper, lower = ends(case)
    assert error <= 1e-5 * exact
    assert lower - error <= exact <= upper + error
    assert upper - lower <= 3e-4 * upper


@pytest.mark.heavy
@pytest.mark.parametrize("case", thinned(FARTHER + ROUNDED, 3))
def test_rare_losses_have_narrow_ends_at_any_delta(case):
    upper, lower = ends(case)
    assert 0 < upper - lower <= 5e-4 * upper


def test_phases_of_which_some_hardly_matter_have_narrow_ends():
    """A coarse lattice for all once moved the bulk of the others down."""
    cases = [
        problem("1/10000", 8, (8,), (0,), swapped=True, sigma=0.604, steps=306, delta=9.23e-5),
        problem("3/200", 2, (2,), (2,), swapped=False, sigma=2.595, steps=146, delta=9.23e-5),
        problem("1/100000", 64, (64,), (0,), swapped=True, sigma=4.0, steps=29414, delta=9.23e-5),
        problem("1/100000", 1, (2,), (1,), swapped=True, sigma=4.6, steps=7708411, delta=9.23e-5),
    ]
    upper, lower = epsilon_bounds({case.profile: case.steps for case in cases}, delta=9.23e-5, sides=(UPPER, LOWER))
    assert 0 < upper - lower <= 1e-3 * upper


def gaussian_tail(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def one_poisson_step(q, sigma, epsilon, *, swapped):
    """delta(epsilon) of one Poisson step by its closed form, to 60 digits."""
    with mpmath.workdps(60):
        q, sigma, epsilon = mpmath.mpf(q), mpmath.mpf(sigma), mpmath.mpf(epsilon)
        grown = mpmath.expm1(epsilon)
        if swapped:
            inside = (mpmath.exp(-epsilon) - 1 + q) / q
            if inside <= 0:
                return mpmath.mpf(0)
            end = sigma**2 * mpmath.log(inside) + mpmath.mpf(1) / 2
            below, shifted = gaussian_tail(-end / sigma), gaussian_tail(-(end - 1) / sigma)
            return below - mpmath.exp(epsilon) * ((1 - q) * below + q * shifted)
        end = sigma**2 * mpmath.log(1 + grown / q) + mpmath.mpf(1) / 2
        return q * (gaussian_tail((end - 1) / sigma) - gaussian_tail(end / sigma)) - grown * gaussian_tail(end / sigma)


SMALL = [("3.1e-9", 50.4, 3.9e-29), ("2.5e-8", 549, 1e-12), ("6.4e-6", 240, 2.4e-39), ("4.7e-6", 56.7, 1e-9)]


@pytest.mark.parametrize(("q", "sigma", "delta"), SMALL)
@pytest.mark.parametrize("swapped", [False, True])
def test_small_epsilons_of_one_step_are_bracketed_closely(q, sigma, delta, swapped):
    case = problem(q, 1, (1,), (0,), swapped=swapped, sigma=sigma, steps=1, delta=delta)
    upper, lower = ends(case)
    assert 0 < lower <= upper <= (1 + 1e-6) * lower
    assert one_poisson_step(q, sigma, upper, swapped=swapped) <= delta
    assert one_poisson_step(q, sigma, lower, swapped=swapped) >= delta


@pytest.mark.heavy
@pytest.mark.parametrize("swapped", thinned([False, True], 1))
@pytest.mark.parametrize(
    ("q", "sigma", "delta"), thinned([("3.45e-9", 6763, 9.3e-28), ("1e-7", 12, 1e-12), ("1e-5", 3, 1e-9)], 1)
)
def test_small_epsilons_of_two_steps_are_bracketed_closely(q, sigma, delta, swapped):
    """Losses near 1e-12: what separates two lattice points is lost in a ratio of sums of masses."""
    case = problem(q, 1, (1,), (0,), swapped=swapped, sigma=sigma, steps=2, delta=delta)
    exact = exact_epsilon(case.curve, 2, delta)
    upper, lower = ends(case)
    assert lower <= exact * (1 + 1e-7)
    assert upper >= exact * (1 - 1e-7)
    assert upper - lower <= 1e-3 * upper


@pytest.mark.parametrize("number", thinned(range(12), 4))
def test_small_epsilons_have_ends_in_order(number):
    rng = generator(number, 127)
    q, sigma, steps = 10 ** rng.uniform(-9, -5), 10 ** rng.uniform(0, 3), int(10 ** rng.uniform(0, 7))
    delta = float(10 ** rng.uniform(-12, -1) * q)
    for swapped in (False, True):
        case = problem(repr(q), 1, (1,), (0,), swapped=swapped, sigma=sigma, steps=steps, delta=delta)
        upper, lower = ends(case)
        assert lower <= upper
        assert upper - lower <= 1e-3 * upper
