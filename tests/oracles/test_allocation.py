"""A pass in which a unit takes part in one random step: quadrature, enumeration, simulation, published values."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification.schedule import allocated_pass
from dpcalc.losses.likelihood_ratio import Estimate
from dpcalc.losses.pair import MixturePair
from dpcalc.work import allowance
from tests.few_losses import of_masses
from tests.oracles.test_likelihood_ratio import gaussian
from tests.thinning import thinned


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
    sums = (4 * rough(2 * points) - rough(points)) / 3  # the error falls with the square of the number of points
    return sums + norm.sf(z - 1 / sigma) - (strike - (bins - 1)) * norm.sf(z)


@pytest.mark.heavy
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


TOTAL_VARIATIONS = [  # bins, passes, sigma, delta at epsilon 0
    (100, 10, 1.7370, 0.07885),
    (100, 40, 3.2689, 0.07888),
    (250, 20, 1.5826, 0.07886),
    (500, 10, 0.9592, 0.07870),
    (500, 40, 1.5829, 0.07887),
    (100, 20, 0.9521, 0.24572),
    (100, 10, 1.0458, 0.15193),
    (500, 40, 0.9757, 0.15249),
    (500, 10, 0.5716, 0.22923),
    (500, 40, 0.7467, 0.24523),
]


@pytest.mark.parametrize(("bins", "passes", "sigma", "published"), thinned(TOTAL_VARIATIONS, 2))
def test_total_variation_of_many_passes(bins, passes, sigma, published):
    lower, upper = (
        delta_bounds({allocated_pass(((gaussian(sigma), bins),), estimate): passes}, epsilon=0.0, sides=(side,))[0]
        for estimate, side in ((Estimate.LOWER, LOWER), (Estimate.UPPER, UPPER))
    )
    assert 0 <= upper - lower < 1.5e-5
    assert lower == pytest.approx(published, abs=1e-4)


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
    pair = of_masses(
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
    pair = of_masses((math.log(0.2 / 0.75), math.log(0.8 / 0.25)), (0.2, 0.8))
    bound = allocated_pass(((pair, 2),), Estimate.UPPER)
    largest = 0.0
    for _ in range(200):
        first, *second = random.dirichlet([0.3] * 3, size=(4, 2))  # rows: laws given the mechanism's output
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
    ends = [
        epsilon_bounds({allocated_pass(((gaussian(1.0), 1),), estimate, share=share): 10}, delta=1e-6, sides=(side,))[0]
        for estimate, side in ((Estimate.LOWER, LOWER), (Estimate.UPPER, UPPER))
    ]
    assert ends[0] <= exact[1]
    assert ends[1] >= exact[0]
    assert ends[1] - ends[0] < 1e-3 * ends[1]


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sigma", "bins", "passes", "delta"),
    [
        (0.08, 166, 1, 1e-11),
        (0.3, 2, 1, 1e-8),
        (0.5, 30, 5, 1e-6),
        (1.0, 100, 1, 1e-5),
        (20.0, 10, 1000, 1e-12),
        (3.0, 1000, 50, 1e-3),
        slow(0.045, 11_354, 1, 1e-6),
        slow(0.13, 65_535, 1, 1e-5),
        slow(0.17, 98_303, 1, 1e-12),
        slow(0.3, 100_000, 1000, 1e-12),
        slow(1.0, 10_000, 1000, 1e-12),
        slow(0.7, 65_535, 3, 1e-10),
        slow(5.0, 99_999, 1, 1e-5),
    ],
)
def test_the_interval_is_narrow(sigma, bins, passes, delta):
    ways = epsilon_intervals(gaussian(sigma), bins, passes, delta)
    assert all(low <= high for low, high in ways)
    lower, upper = (max(end) for end in zip(*ways, strict=True))
    assert 0 < upper - lower < 2e-4 * upper


@pytest.mark.parametrize("estimate", [Estimate.UPPER, Estimate.LOWER])
def test_a_number_of_bins_that_is_all_ones_takes_little_work(estimate):
    """By doubling and adding, with all ratios on the lattice, these took 6.4e8 and 9.6e8 units: 2 s of the command."""
    with allowance(2.5e8):
        allocated_pass(((gaussian(0.3 / math.sqrt(5)), 65_535),), estimate)
