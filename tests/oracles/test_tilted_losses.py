"""Losses drawn under a tilt: their distribution and what is estimated from them, against closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.audit.laws import mean_interval
from dpcalc.losses.loss import of_falling_pair, of_two_halves, under_draw
from dpcalc.losses.moments import PublicDraw
from dpcalc.losses.pair import MixturePair
from tests.few_losses import of_masses
from tests.oracles import tilted_losses
from tests.oracles.exact_gaussian import exact_delta
from tests.oracles.tilted_losses import any_infinite, tilt_curve

DOUBT = 1e-9


def gaussian(shift, deviation):
    """N(0) against N(shift)."""
    return of_falling_pair(MixturePair.of({0: Fraction(1)}, {shift: Fraction(1)}, deviation=deviation))


def glued(rate=Fraction(1, 20), missed=Fraction(19, 20), deviation=1.3):
    """A bound whose two directions differ, with mass at loss 0."""
    own = MixturePair.of({0: rate, 4: missed}, {2: rate, 4: missed}, deviation=deviation)
    other = MixturePair.of({0: rate, 1: missed}, {2: rate, 1: missed}, deviation=deviation)
    return of_two_halves(own=own, other=other, ends=(1.0, 1.0))


def sample(step, number, seed=2):
    return step.draw_sums(np.ones(number, dtype=np.int64), np.random.default_rng(seed))


def normal_cdf(x, mean, deviation):
    return np.array([math.erfc((mean - one) / (deviation * math.sqrt(2))) / 2 for one in x])


@pytest.mark.parametrize(
    ("shift", "deviation", "tilt"), [(1, 1.0, 0.5), (1, 4.0, 30.0), (3, 0.5, 2.0), (20, 6.0, 4.0), (3, 0.2, 5.0)]
)
def test_tilted_gaussian_losses_are_normal(shift, deviation, tilt):
    assert_normal(shift, deviation, tilt)


def test_coarse_cells_only_cost_more_draws(monkeypatch):
    monkeypatch.setattr(tilted_losses, "_MAX_CELLS", 100)
    assert_normal(1, 1.0, 2.0)


def assert_normal(shift, deviation, tilt):
    mu = shift / deviation
    step = tilt_curve(gaussian(shift, deviation), tilt=tilt, truncated_mass=0.0)
    assert step.log_norm == pytest.approx(tilt * (tilt + 1) * mu**2 / 2, rel=1e-9)
    losses = np.sort(sample(step, 20_000))
    far = np.abs(normal_cdf(losses, (tilt + 0.5) * mu**2, mu) - (np.arange(losses.size) + 0.5) / losses.size).max()
    assert far < math.sqrt(math.log(2 / DOUBT) / (2 * losses.size)) + 1 / losses.size  # Dvoretzky-Kiefer-Wolfowitz


def estimated(step, count, epsilon, runs, tilt):
    """Ends of delta(epsilon) of `count` copies."""
    losses = step.draw_sums(np.full(runs, count), np.random.default_rng(4))
    log_most = count * step.log_norm - tilt * epsilon + tilt * math.log(tilt) - (tilt + 1) * math.log(tilt + 1)
    above = losses[losses > epsilon]
    weights = np.exp(count * step.log_norm - tilt * above - log_most) * -np.expm1(epsilon - above)
    assert weights.max(initial=0) <= 1 + 1e-9
    low, high = mean_interval(float(weights.sum()) / runs, runs, miss_probability=DOUBT)
    return low * math.exp(log_most), high * math.exp(log_most)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 6.0])
def test_delta_of_composed_gaussian_steps(epsilon):
    tilt = max(epsilon - 0.5, 0.3)
    low, high = estimated(tilt_curve(gaussian(1, 5.0), tilt=tilt, truncated_mass=0.0), 25, epsilon, 4000, tilt)
    assert low <= float(exact_delta(1.0, epsilon)) <= high
    assert high < 2.2 * low


@pytest.mark.parametrize("curve", [glued(), glued().swapped, glued(missed=Fraction(19, 20), deviation=0.4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 1.0])
def test_delta_of_one_glued_step(curve, epsilon):
    tilt = 2.0
    low, high = estimated(tilt_curve(curve, tilt=tilt, truncated_mass=0.0), 1, epsilon, 40_000, tilt)
    assert low <= curve.delta(epsilon) <= high


@pytest.mark.parametrize("tilt", [0.1, 3.0, 40.0])
def test_no_density_is_above_its_cell(tilt):
    for curve in (glued(), glued().swapped, gaussian(20, 6.0)):
        step = tilt_curve(curve, tilt=tilt, truncated_mass=1e-9)
        for share in (0.0, 0.01, 0.5, 0.99, 1.0):
            y = step.low + share * step.width
            for at, segment in enumerate(step.segments):
                own = step.owner == at
                density, _ = tilted_losses._tilted_log_density(segment, y[own], tilt)
                assert (density <= step.ceiling[own] + 1e-9).all()


def test_losses_of_zero_are_drawn():
    curve = glued()
    losses = sample(tilt_curve(curve, tilt=1e-6, truncated_mass=0.0), 20_000)
    low, high = mean_interval(float((losses == 0).mean()), losses.size, miss_probability=DOUBT)
    assert curve.zero_loss_mass > 0.1
    assert low <= curve.zero_loss_mass <= high


def test_steps_under_a_held_draw():
    tilt, rate = 1.5, 0.2
    step = tilt_curve(gaussian(1, 2.0), tilt=tilt, truncated_mass=0.0)
    held = tilt_curve(PublicDraw(rate=rate, counts=((gaussian(1, 2.0), 8),)), tilt=tilt, truncated_mass=0.0)
    inside = math.exp(8 * step.log_norm)
    assert held.log_norm == pytest.approx(math.log(1 - rate + rate * inside), rel=1e-12)
    losses = sample(held, 10_000)
    low, high = mean_interval(float((losses != 0).mean()), losses.size, miss_probability=DOUBT)
    assert low <= rate * inside / (1 - rate + rate * inside) <= high
    low, high = estimated(held, 1, 1.0, 20_000, tilt)
    assert low <= rate * float(exact_delta(math.sqrt(8) / 2, 1.0)) <= high


def test_runs_of_different_lengths():
    step = tilt_curve(gaussian(1, 3.0), tilt=1.0, truncated_mass=0.0)
    copies = np.array([0, 5, 0, 2000, 1])
    sums = step.draw_sums(copies, np.random.default_rng(1))
    assert sums[0] == sums[2] == 0
    assert sums[3] == pytest.approx(2000 * 1.5 / 9, abs=7 * math.sqrt(2000) / 3)


def test_single_values_of_the_loss():
    curve = of_masses((-0.5, 0.7, 2.0), (0.2, 0.35, 0.05), infinity_mass=0.01)
    step = tilt_curve(curve, tilt=1.5, truncated_mass=0.0)
    weights = {-0.5: 0.2, 0.0: 0.39, 0.7: 0.35, 2.0: 0.05}
    norm = sum(mass * math.exp(1.5 * loss) for loss, mass in weights.items())
    assert step.log_norm == pytest.approx(math.log(norm), rel=1e-12)
    losses = sample(step, 20_000)
    assert set(losses.tolist()) == set(weights)
    for loss, mass in weights.items():
        low, high = mean_interval(float((losses == loss).mean()), losses.size, miss_probability=DOUBT)
        assert low <= mass * math.exp(1.5 * loss) / norm <= high
    held = tilt_curve(PublicDraw(rate=0.5, counts=((curve, 3),)), tilt=1.5, truncated_mass=0.0)
    assert any_infinite([(held, 2)]) == pytest.approx(1 - (0.5 + 0.5 * 0.99**3) ** 2)


def test_parts_too_rare_to_matter_are_left_out():
    rare, common = gaussian(60, 6.0), gaussian(1, 6.0)
    curve = under_draw([(1e-30, rare), (0.9, common)])
    whole, step = tilt_curve(curve, tilt=2.0, truncated_mass=0.0), tilt_curve(curve, tilt=2.0, truncated_mass=1e-12)
    assert whole.log_norm > 200
    assert step.log_norm == pytest.approx(math.log(0.1 + 0.9 * math.exp(3 / 36)), rel=1e-9)
    assert 1e-30 < step.truncated_mass <= 4e-12
    tail = tilt_curve(gaussian(1, 0.2), tilt=1.0, truncated_mass=1e-3)
    losses = sample(tail, 20_000)
    assert losses.max() < 12.5 + 5 * 3.2  # of N(37.5, 5) under the tilt, cut where P has 1e-3
