"""Lemmas of docs/theory.md by brute force, from their statements alone."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(160)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
PLANE = np.stack([one.ravel() for one in np.meshgrid(NODES, NODES)])
PLANE_WEIGHTS = np.multiply.outer(WEIGHTS, WEIGHTS).ravel()
LINE = np.linspace(-12, 12, 48_001)
LINE_WEIGHTS = np.exp(-(LINE**2) / 2) / np.exp(-(LINE**2) / 2).sum()


def ratio(vector, points, sigma):
    """dN(u)/dN(0) at sigma times each point, u in as many dimensions as the points."""
    return np.exp((np.tensordot(vector, points, axes=1) - np.dot(vector, vector) / (2 * sigma)) / sigma)


def on_the_line(weights, distances, level, sigma):
    total = sum(w * np.exp((d * LINE - d * d / (2 * sigma)) / sigma) for w, d in zip(weights, distances, strict=True))
    return float((np.maximum(level - total, 0.0) * LINE_WEIGHTS).sum())


@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_likelihood_ratios_grow_in_convex_order(sigma):
    for level in (0.3, 0.9, 1.5):
        values = [on_the_line([1.0], [d], level, sigma) for d in np.linspace(0.0, 3.0, 31)]
        assert (np.diff(values) > -1e-12).all()
        assert values[-1] > values[0] + 1e-3


def test_no_directions_in_the_plane_exceed_one_line():
    rng, nearest = np.random.default_rng(4), 0.0
    for _ in range(60):
        number, sigma = int(rng.integers(2, 5)), float(rng.uniform(0.8, 3.0))
        distances, weights = rng.uniform(0.2, 2.0, number), rng.dirichlet(np.ones(number))
        level = float(rng.uniform(0.2, 1.2))
        bound = on_the_line(weights, distances, level, sigma)
        for spread in (0.0, 0.3, 3.0):  # of the directions, in radians
            angles = spread * rng.normal(size=number)
            vectors = (distances * rng.choice([1.0, 0.7], number)) * np.array([np.cos(angles), np.sin(angles)])
            total = sum(w * ratio(u, PLANE, sigma) for w, u in zip(weights, vectors.T, strict=True))
            found = float((np.maximum(level - total, 0.0) * PLANE_WEIGHTS).sum())
            assert found <= bound + 2e-3 * level
            nearest = max(nearest, found / bound)
    assert nearest > 0.98


def test_one_sign_of_epsilon_is_not_enough_to_compose():
    third = Fraction(1, 3)
    narrow = [(2 * third, third), (third, 2 * third)]
    wide = [(2 * third, third), (third, third), (Fraction(0), third)]

    def profile(pair, alpha):
        return sum(max(p - alpha * q, Fraction(0)) for p, q in pair)

    def twice(pair):
        return [(p * x, q * y) for (p, q), (x, y) in product(pair, repeat=2)]

    for alpha in [1 + Fraction(k, 50) for k in range(101)]:
        assert profile(narrow, alpha) >= profile(wide, alpha)
    assert (profile(twice(wide), 1), profile(twice(narrow), 1)) == (Fraction(5, 9), Fraction(3, 9))


def test_glued_halves_of_more_than_all_mass_are_a_bound():
    """Both halves are steep at 0, so that their masses there exceed 1: no pair has the glued profile."""
    own = [(log(2.0), 0.6), (0.0, 0.0)]  # (loss > 0, P mass) of D||D'
    other = [(log(3.0), 0.45), (0.0, 0.0)]  # of D'||D; both profiles are 0.3 at epsilon 0
    losses = [*((x, p) for x, p in own), *((-x, p * exp(-x)) for x, p in other)]
    losses.append((0.0, max(0.0, 1 - sum(p for _, p in losses))))

    def half(side, epsilon):
        return sum(p * max(0.0, 1 - exp(epsilon - x)) for x, p in side)

    assert half(own, 0.0) == pytest.approx(half(other, 0.0))
    for scale in (1.0, 1.7):  # of all masses above and below 0, the second beyond 1
        glued = [(x, scale * p) for x, p in losses[:-1]]
        glued.append((0.0, max(0.0, 1 - sum(p for _, p in glued))))
        mass = sum(p for _, p in glued)
        assert (mass > 1.2) == (scale > 1)
        for epsilon in np.linspace(-3, 3, 61):
            exact = scale * half(own, epsilon)
            if epsilon < 0:
                exact = 1 - exp(epsilon) + exp(epsilon) * scale * half(other, -epsilon)
            integral = half(glued, epsilon)
            assert integral >= exact - 1e-12
            if mass < 1.0001:
                assert integral == pytest.approx(exact, abs=1e-12)


@pytest.mark.heavy
@pytest.mark.parametrize("tilt", [0.01, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("spacing", [1e-3, 0.05, 1.0])
def test_errors_of_tilted_masses_count_as_much_as_is_said(tilt, spacing):
    peak = exp(tilt * log(tilt) - (tilt + 1) * log(tilt + 1))
    most = 1 / (2 * tilt * (2 * tilt + 1) * (tilt + 1) * spacing) + 2 * peak**2
    for offset in (0.0, 0.3, 0.9):
        x = (np.arange(int(60 / (tilt * spacing)) + 2) + offset) * spacing
        weights = np.exp(-tilt * x) * -np.expm1(-x)
        assert weights.max() <= peak * (1 + 1e-12)
        assert (weights**2).sum() <= most
    if tilt * spacing < 0.02:
        assert weights.max() > 0.99 * peak
        assert (weights**2).sum() > 0.5 * most


def renyi(p, q, order):
    return float(np.logaddexp.reduce(order * np.log(p) + (1 - order) * np.log(q))) / (order - 1)


def test_divergences_of_a_chain_of_two():
    rng, nearest = np.random.default_rng(6), 0.0
    for _ in range(2000):
        p, q, r = rng.dirichlet(np.ones(3), 3) * 0.97 + 0.01
        order, changes = float(rng.uniform(1.05, 8)), int(rng.integers(2, 6))
        far = changes * order
        near = (far - 1) / (changes - 1)
        bound = far / (far - 1) * renyi(p, r, near) + renyi(r, q, far)
        assert renyi(p, q, order) <= bound + 1e-12
        nearest = max(nearest, renyi(p, q, order) / bound)
    assert nearest > 0.9


def test_bounded_losses_are_concentrated():
    rng, nearest = np.random.default_rng(7), 0.0
    for _ in range(2000):
        p, q = rng.dirichlet(np.ones(3), 2) * 0.97 + 0.01
        width, order = float(np.ptp(np.log(p / q))), float(rng.uniform(1.01, 30))
        bound = min(width, width**2 * order / 8)
        assert renyi(p, q, order) <= bound + 1e-12
        nearest = max(nearest, renyi(p, q, order) / bound if width > 1e-3 else 0.0)
    assert nearest > 0.9
