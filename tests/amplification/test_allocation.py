"""A pass in which a unit takes part in one random step: quadrature, enumeration, simulation, published values."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate
from scipy.optimize import brentq
from scipy.stats import norm

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification.allocation import allocated_pass
from dpcalc.losses.atoms import Atoms
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.ratio_lattice import Estimate
from dpcalc.work import allowance


def gaussian(sigma):
    """One Gaussian step with the unit (first) against the same step without it."""
    return MixturePair.of({1: Fraction(1)}, {0: Fraction(1)}, deviation=sigma)


def epsilon_intervals(curve, bins, passes, delta):
    """((lower, upper) of D against D', the same of D' against D)."""
    upper, lower, back = (allocated_pass(((curve, bins),), estimate) for estimate in Estimate)
    forward = [(lower, LOWER), (upper, UPPER)]
    reverse = [(back, LOWER), (upper.swapped, UPPER)]
    return [
        tuple(epsilon_bounds({pair: passes}, delta=delta, sides=(side,))[0] for pair, side in way)
        for way in (forward, reverse)
    ]


def delta_intervals(curve, bins, epsilon):
    """((lower, upper) of D against D', the same of D' against D) for one pass, read from the pairs themselves."""
    upper, lower, back = (allocated_pass(((curve, bins),), estimate) for estimate in Estimate)
    return [(lower.delta(epsilon), upper.delta(epsilon)), (back.delta(epsilon), upper.swapped.delta(epsilon))]


@pytest.mark.parametrize(
    ("bins", "sigma", "low", "high"),
    [(8, 1.0, 3.711, 3.726), (64, 1.0, 1.792, 1.806), (64, 2.0, 0.315, 0.345), (128, 1.0, 1.253, 1.270)],
)
def test_published_brackets(bins, sigma, low, high):
    """Feldman, Shenfeld 2025 (2502.08202), one pass, D against D', delta 1e-8."""
    lower, upper = epsilon_intervals(gaussian(sigma), bins, 1, 1e-8)[0]
    assert low < lower < upper < high


def on_lattice(sigma, points, spacing):
    """Q masses of one ratio below points * spacing, each split over two lattice points with its mean kept."""
    with np.errstate(divide="ignore"):
        z = np.log(np.arange(points + 1) * spacing) * sigma + 1 / (2 * sigma)
    q, p = (  # differences of what is above or below, whichever is smaller
        np.where(x[1:] > 0, norm.sf(x[:-1]) - norm.sf(x[1:]), norm.cdf(x[1:]) - norm.cdf(x[:-1]))
        for x in (z, z - 1 / sigma)
    )
    above = p / spacing - np.arange(points) * q
    return np.append(q - above, 0.0) + np.append(0.0, above)


def extrapolated(value, points):
    """The limit of a value whose error falls with the square of the number of points."""
    return (4 * value(2 * points) - value(points)) / 3


def delta_of_a_pass(sigma, bins, epsilon, points=1 << 12):
    """Delta of D against D' by one tilted transform of a linear lattice; good to 1e-9 of it, an estimate.

    Of two ratios above bins * e^epsilon none is expected in 10^12 passes.
    """
    strike = bins * math.exp(epsilon)

    def rough(points):
        tilt, x = 12.0 / points, np.arange(4 * points)
        masses = np.pad(on_lattice(sigma, points, strike / points), (0, 3 * points - 1)) * np.exp(tilt * x)
        total = np.fft.irfft(np.fft.rfft(masses) ** bins, 4 * points) * np.exp(-tilt * x)
        return float((total * np.maximum(x / points - 1, 0.0)).sum()) * math.exp(epsilon)

    z = math.log(strike) * sigma + 1 / (2 * sigma)
    return extrapolated(rough, points) + norm.sf(z - 1 / sigma) - (strike - (bins - 1)) * norm.sf(z)


@pytest.mark.parametrize(
    ("bins", "sigma", "published"), [(8, 1.0, 3.71852), (64, 1.0, 1.798662), (64, 2.0, 0.32954), (128, 1.0, 1.26131)]
)
def test_one_pass_is_certified_to_five_digits(bins, sigma, published):
    exact = brentq(
        lambda epsilon: math.log(delta_of_a_pass(sigma, bins, epsilon) / 1e-8), 0.9 * published, 1.1 * published
    )
    assert exact == pytest.approx(published, rel=3e-6, abs=5.1e-6)
    lower, upper = epsilon_intervals(gaussian(sigma), bins, 1, 1e-8)[0]
    assert exact * (1 - 1e-5) < lower < exact < upper < exact * (1 + 1e-5)


TOTAL_VARIATIONS = [(100, 10, 1.7370, 0.07885), (100, 20, 0.9521, 0.24572)]  # bins, passes, sigma, delta at epsilon 0
MORE_TOTAL_VARIATIONS = [
    (100, 40, 3.2689, 0.07888),
    (250, 20, 1.5826, 0.07886),
    (500, 10, 0.9592, 0.07870),
    (500, 40, 1.5829, 0.07887),
    (100, 10, 1.0458, 0.15193),
    (500, 40, 0.9757, 0.15249),
    (500, 10, 0.5716, 0.22923),
    (500, 40, 0.7467, 0.24523),
]


def total_variation(bins, passes, sigma, spacing=2e-4):
    """Delta at epsilon 0 by transforms of a linear lattice of ratios and one of losses; good to 1e-6, an estimate."""

    def rough(points):
        ratio = np.pad(on_lattice(sigma, points // 2, 200.0 * bins / points), (0, points // 2 - 1))
        q = np.maximum(np.fft.irfft(np.fft.rfft(ratio) ** bins, points), 0.0)
        u = np.arange(points) * (200.0 / points)
        used = (q > 1e-22) & (u > 0.01)
        u, q = u[used], q[used]
        below = np.floor(np.log(u) / spacing)
        low, high = np.exp(below * spacing), np.exp((below + 1) * spacing)
        place, size = (below - below.min()).astype(int), int(np.ptp(below)) + 2
        p = np.bincount(place, q * (high - u) / (high - low) * low, size)
        p += np.bincount(place + 1, q * (u - low) / (high - low) * high, size)
        length = 1 << math.ceil(math.log2(size * passes))
        total = np.fft.irfft(np.fft.rfft(p, length) ** passes, length)
        losses = (np.arange(length) + passes * below.min()) * spacing
        return float((total * np.maximum(-np.expm1(-losses), 0.0)).sum())

    return extrapolated(rough, 1 << 19)


def check_total_variation(bins, passes, sigma, published):
    pairs = [allocated_pass(((gaussian(sigma), bins),), estimate) for estimate in (Estimate.LOWER, Estimate.UPPER)]
    lower, upper = (
        delta_bounds({pair: passes}, epsilon=0.0, sides=(side,))[0]
        for pair, side in zip(pairs, (LOWER, UPPER), strict=True)
    )
    assert lower - 1e-6 <= total_variation(bins, passes, sigma) <= upper + 1e-6
    assert upper - lower < 1.5e-5
    assert lower == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize(("bins", "passes", "sigma", "published"), TOTAL_VARIATIONS)
def test_total_variation_of_many_passes(bins, passes, sigma, published):
    check_total_variation(bins, passes, sigma, published)


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "passes", "sigma", "published"), MORE_TOTAL_VARIATIONS)
def test_total_variation_of_more_passes(bins, passes, sigma, published):
    check_total_variation(bins, passes, sigma, published)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 5.0])
def test_one_step_is_the_mechanism_itself(sigma, epsilon):
    (lower, upper), (lower_back, upper_back) = delta_intervals(gaussian(sigma), 1, epsilon)
    a = 1 / sigma
    exact = norm.cdf(a / 2 - epsilon / a) - math.exp(epsilon) * norm.cdf(-a / 2 - epsilon / a)
    for low, high in ((lower, upper), (lower_back, upper_back)):
        assert low <= exact <= high
        assert high - low <= 2e-3 * exact + 1e-15


def option(strike, volatility, sign):
    """E (sign (X - strike))_+ for log-normal X with mean 1; sign 1 or -1."""
    if strike <= 0:
        return (1 - strike) * (sign > 0)
    d = -math.log(strike) / volatility + volatility / 2
    return sign * (norm.cdf(sign * d) - strike * norm.cdf(sign * (d - volatility)))


def two_bins(sigma, epsilon):
    """(delta of D against D', of D' against D) for two steps: one of the two ratios is integrated in closed form."""
    v, c = 1 / sigma, math.exp(epsilon)

    def mean(total, sign):
        corner = math.log(total) / v + v / 2  # where the strike of the other ratio becomes 0
        ends = np.unique([-12.0, min(corner, 12.0), *np.linspace(-12, 12, 25)])
        return sum(
            integrate.quad(
                lambda x: norm.pdf(x) * option(total - math.exp(v * x - v * v / 2), v, sign),
                a,
                b,
                epsabs=0,
                epsrel=1e-9,
            )[0]
            for a, b in itertools.pairwise(ends)
        )

    return mean(2 * c, 1) / 2, mean(2 / c, -1) * c / 2


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.5])
def test_one_pass_against_quadrature(sigma, epsilon):
    exact = two_bins(sigma, epsilon)
    for (low, high), value in zip(delta_intervals(gaussian(sigma), 2, epsilon), exact, strict=True):
        assert low <= value * (1 + 1e-9)
        assert high >= value * (1 - 1e-9)
        assert high - low <= 5e-3 * value + 1e-14


def enumerated(p, q, bins, epsilon):
    """(delta of D against D', of D' against D) by enumeration of all outputs of a pass, from one step's laws."""
    forward = back = 0.0
    for outputs in itertools.product(range(len(p)), repeat=bins):
        without = math.prod(q[o] for o in outputs)
        present = sum(math.prod(p[o] if i == t else q[o] for i, o in enumerate(outputs)) for t in range(bins)) / bins
        forward += max(0.0, present - math.exp(epsilon) * without)
        back += max(0.0, without - math.exp(epsilon) * present)
    return forward, back


@pytest.mark.parametrize("bins", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ((0.7, 0.3), (0.3, 0.7)),
        ((0.9, 0.05, 0.05), (0.1, 0.6, 0.3)),
        ((0.01, 0.59, 0.4), (0.0, 0.7, 0.3)),
        ((0.0, 0.6, 0.4), (0.05, 0.55, 0.4)),
    ],
)
def test_finitely_many_losses_against_enumeration(bins, p, q):
    both = [(a, b) for a, b in zip(p, q, strict=True) if a > 0 < b]
    losses = sorted((math.log(a / b), a) for a, b in both)
    pair = Atoms.of_masses(
        [loss for loss, _ in losses],
        [a for _, a in losses],
        infinity_mass=sum(a for a, b in zip(p, q, strict=True) if b == 0),
        other_infinite=sum(b for a, b in zip(p, q, strict=True) if a == 0),
    )
    for epsilon in (0.0, 0.1, 0.4, 1.0):
        exact = enumerated(p, q, bins, epsilon)
        for (low, high), value in zip(delta_intervals(pair, bins, epsilon), exact, strict=True):
            assert low <= value + 1e-12
            assert high >= value - 1e-12
            assert high - low <= 5e-3


def test_steps_may_depend_on_earlier_outputs():
    """A step that is chosen by the past costs no more: each is a random function of the output of one mechanism."""
    random, (p, q) = np.random.default_rng(5), (np.array([0.8, 0.2]), np.array([0.25, 0.75]))
    pair = Atoms.of_masses((math.log(0.2 / 0.75), math.log(0.8 / 0.25)), (0.2, 0.8))
    bound = allocated_pass(((pair, 2),), Estimate.UPPER)
    largest = 0.0
    for _ in range(200):
        first, *second = (
            random.dirichlet([0.3] * 3, size=2) for _ in range(4)
        )  # rows: laws given the mechanism's output
        with_first, without_first = p @ first, q @ first
        present, without = np.zeros((3, 3)), np.zeros((3, 3))
        for y in range(3):
            without[y] = without_first[y] * (q @ second[y])
            present[y] = (with_first[y] * (q @ second[y]) + without_first[y] * (p @ second[y])) / 2
        for epsilon in (0.0, 0.2, 0.5):
            delta = np.maximum(present - math.exp(epsilon) * without, 0.0).sum()
            assert delta <= bound.delta(epsilon)
            largest = max(largest, delta / bound.delta(epsilon))
    assert largest > 0.8  # the adversary comes near


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_unit_that_takes_part_with_a_probability(share):
    """One step, taken part in with probability q, is Poisson sampling."""
    sampled = MixturePair.of({0: 1 - Fraction(share), 1: Fraction(share)}, {0: Fraction(1)}, deviation=1.0)
    exact = epsilon_bounds({sampled: 10}, delta=1e-6, sides=(LOWER, UPPER))
    pairs = [
        allocated_pass(((gaussian(1.0), 1),), estimate, share=share) for estimate in (Estimate.LOWER, Estimate.UPPER)
    ]
    ends = [
        epsilon_bounds({pair: 10}, delta=1e-6, sides=(side,))[0]
        for pair, side in zip(pairs, (LOWER, UPPER), strict=True)
    ]
    assert ends[0] <= exact[1]
    assert ends[1] >= exact[0]
    assert ends[1] - ends[0] < 1e-3 * ends[1]


PROBLEMS = [
    (0.08, 166, 1, 1e-11),
    (0.3, 2, 1, 1e-8),
    (0.5, 30, 5, 1e-6),
    (1.0, 100, 1, 1e-5),
    (20.0, 10, 1000, 1e-12),
    (3.0, 1000, 50, 1e-3),
]
MORE_PROBLEMS = [
    (0.045, 11_354, 1, 1e-6),
    (0.13, 65_535, 1, 1e-5),
    (0.17, 98_303, 1, 1e-12),
    (0.3, 100_000, 1000, 1e-12),
    (1.0, 10_000, 1000, 1e-12),
    (0.7, 65_535, 3, 1e-10),
    (5.0, 99_999, 1, 1e-5),
]


def check_width(sigma, bins, passes, delta):
    ways = epsilon_intervals(gaussian(sigma), bins, passes, delta)
    assert all(low <= high for low, high in ways)
    lower, upper = (max(end) for end in zip(*ways, strict=True))
    assert 0 < upper - lower < 2e-4 * upper


@pytest.mark.parametrize(("sigma", "bins", "passes", "delta"), PROBLEMS)
def test_the_interval_is_narrow(sigma, bins, passes, delta):
    check_width(sigma, bins, passes, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "bins", "passes", "delta"), MORE_PROBLEMS)
def test_the_interval_is_narrow_for_long_passes(sigma, bins, passes, delta):
    check_width(sigma, bins, passes, delta)


@pytest.mark.parametrize("estimate", [Estimate.UPPER, Estimate.LOWER])
def test_a_number_of_bins_that_is_all_ones_takes_little_work(estimate):
    """By doubling and adding, with all ratios on the lattice, these took 6.4e8 and 9.6e8 units: 2 s of the command."""
    with allowance(2.5e8):
        allocated_pass(((gaussian(0.3 / math.sqrt(5)), 65_535),), estimate)
