"""Losses of finitely many values: exact compositions of randomized response."""

import math

import numpy as np
import pytest

from dpcalc.accountants.closed_forms import equal_steps
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.accountants.rdp import moments, rdp
from dpcalc.losses.atoms import glued
from dpcalc.losses.loss import Loss
from tests.few_losses import of_masses
from tests.thinning import thinned


def response(epsilon, delta=0.0):
    """Randomized response of two answers that is (epsilon, delta)-DP and tells all with probability delta."""
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    return of_masses((-epsilon, epsilon), ((1 - delta) * (1 - true), (1 - delta) * true), infinity_mass=delta)


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"),
    thinned([(0.1, 1000, 1e-6), (0.5, 100, 1e-5), (0.01, 100_000, 1e-8), (2.0, 7, 1e-3)], 1),
)
def test_compositions_of_randomized_response_are_the_optimal_ones(epsilon, count, delta):
    upper, lower = epsilon_bounds({response(epsilon): count}, delta=delta, sides=(UPPER, LOWER))
    exact = equal_steps(epsilon, count, delta=delta)
    assert lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= upper <= exact * (1 + 3e-5)
    for accountant in (rdp, moments):
        assert accountant({response(epsilon): count}, delta=delta).epsilon >= exact


@pytest.mark.heavy
def test_what_is_infinite_is_taken_from_delta():
    counts = {response(0.1, 1e-8): 1000}
    rest = 1 - (1 - 1e-4) / (1 - 1e-8) ** 1000
    upper, lower = epsilon_bounds(counts, delta=1e-4, sides=(UPPER, LOWER))
    exact = equal_steps(0.1, 1000, delta=rest)
    assert lower <= exact <= upper <= exact * (1 + 3e-5)
    assert rdp(counts, delta=1e-4).epsilon >= exact
    top, bottom = delta_bounds(counts, epsilon=exact, sides=(UPPER, LOWER))
    assert bottom <= 1e-4 <= top
    assert epsilon_bounds(counts, delta=1e-6, sides=(UPPER, LOWER)) == (math.inf, 0.0)
    assert rdp(counts, delta=1e-6).epsilon == moments(counts, delta=1e-6).epsilon == math.inf


def test_a_profile_and_its_opposite():
    pair = response(1.0, 0.01)
    assert pair.delta(2.0) == pytest.approx(0.01, rel=1e-12)
    assert pair.delta(1.0) == pytest.approx(0.01, rel=1e-12)
    assert pair.epsilon(0.01) == pytest.approx(1.0, rel=1e-9)
    assert pair.epsilon(0.009) == math.inf
    assert pair.swapped.delta(0.3) == pytest.approx(pair.delta(0.3), rel=1e-12)  # symmetric
    lopsided = of_masses((0.5,), (0.3,), infinity_mass=0.2)
    assert lopsided.zero_loss_mass == pytest.approx(0.5)
    assert lopsided.only_other == pytest.approx(0.5 - 0.3 * math.exp(-0.5))
    for epsilon in (-0.7, -0.2, 0.0, 0.3):
        other = lopsided.swapped.delta(-epsilon)
        assert lopsided.delta(epsilon) == pytest.approx(-math.expm1(epsilon) + math.exp(epsilon) * other, abs=1e-15)


def test_renyi_divergence_counts_unlisted_and_infinite_mass():
    """P mass that is not listed has loss 0; with P mass where Q has none every order is infinite."""
    pair = of_masses([math.log(2.0)], [0.25])
    assert pair.rdp(3.0) == pytest.approx(math.log(0.25 * 2.0**2 + 0.75) / 2, rel=1e-12)
    assert pair.rdp(math.inf) == pytest.approx(math.log(2.0))
    assert of_masses([0.0], [0.5], infinity_mass=0.5).rdp(2.0) == math.inf
    nothing = Loss()  # randomized response that tells the truth as often as not
    assert nothing.rdp(2.0) == nothing.epsilon(0.0) == nothing.epsilon(1e-6) == nothing.delta(0.0) == 0.0


@pytest.mark.parametrize("largest", [1.0, 40.0, 700.0])
def test_a_pair_put_together_is_never_below_its_masses(largest):
    """One loss with P mass 1/e, and Q mass 1/e at its opposite: delta(0) is (1 - e^-loss) / e both ways."""
    column = np.array([-1.0])
    pair = glued((column, np.array([largest])), (column, np.array([-largest])), infinity_mass=0.0, only_other=0.0)
    exact = -math.exp(-1) * math.expm1(-largest)
    for found in (pair.delta(0.0), pair.swapped.delta(0.0)):
        assert exact <= found <= exact * (1 + 1e-11)


def test_a_lower_end_where_delta_just_pays_for_what_is_infinite():
    """Then epsilon is the largest finite loss; read a hair lower delta would not suffice."""
    counts = {response(1.0, 0.01): 1}
    lower, upper = epsilon_bounds(counts, delta=0.01, sides=(LOWER, UPPER))
    assert 1.0 * (1 - 1e-10) <= lower <= 1.0
    assert upper >= 1.0
