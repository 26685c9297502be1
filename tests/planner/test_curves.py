"""Curves against exact mechanisms and formulas worked out another way; others are rows of costs.yaml."""

import math
from statistics import NormalDist

import mpmath
import pytest

from dpcalc import curve
from tests.planner.test_costs import planned
from tests.runs import HUNDREDTH, plan_of

NORMAL = NormalDist()


def test_profile_and_tradeoff_of_the_gaussian_mechanism():
    plan = planned("flat", {"draw": {"scheme": "all"}, "noise": 10, "steps": 100, "budget": {"epsilon": 3}})
    chart = curve(plan, "profile", grid=(0.0, 1.0, 2.0))
    for epsilon, upper in zip(chart.series[0].xs, chart.series[0].ys, strict=True):
        exact = NORMAL.cdf(0.5 - epsilon) - math.exp(epsilon) * NORMAL.cdf(-0.5 - epsilon)
        assert exact * (1 - 1e-12) <= upper <= exact * (1 + 1e-3)
    assert [(one.name, one.axis) for one in chart.limits] == [("budget", "x"), ("delta", "y")]
    present, absent, guessing = curve(plan, "tradeoff", grid=(0.01, 0.5)).series
    for rate, one, other in zip(present.xs, present.ys, absent.ys, strict=True):
        assert one == pytest.approx(NORMAL.cdf(NORMAL.inv_cdf(rate) + 1), rel=1e-3)
        assert other == pytest.approx(one, rel=1e-3)
    assert guessing.ys == guessing.xs


@pytest.mark.parametrize("order", [1.5, 2.0, 7.0])
def test_divergence_of_a_sampled_step_by_quadrature(order):
    (line, *_) = curve(plan_of(HUNDREDTH, noise=1.0, steps=3), "rdp", grid=(order,)).series
    q = mpmath.mpf("0.01")

    def integrand(y):
        return mpmath.npdf(y, 0, 1) * (1 - q + q * mpmath.exp(y - mpmath.mpf("0.5"))) ** order

    mean = mpmath.quad(integrand, mpmath.linspace(-12, 12 + order, 30))
    assert line.ys[0] == pytest.approx(3 * float(mpmath.log(mean)) / (order - 1), rel=1e-7)


ANY = {
    "laplace": {"noise_multiplier": 2},
    "discrete-laplace": {"noise_multiplier": 2},
    "pure-dp": {"epsilon": 0.5},
    "zcdp": {"rho": 0.02, "omega": 20},
    "exponential": {"epsilon": 0.5},
    "rdp-curve": {"curve": [[2, 0.1], [32, 1.6]]},
    "discrete-gaussian": {"noise_multiplier": 5},
    "randomized-response": {"truth_probability": 0.7},
}


@pytest.mark.parametrize(
    ("draw", "adjacency"),
    [({"scheme": "poisson", "rate": 0.01}, "add-remove"), ({"scheme": "fixed", "size": 600}, "replace-one")],
)
@pytest.mark.parametrize("name", ANY)
def test_divergences_of_any_mechanism(name, draw, adjacency):
    if name == "randomized-response" and "rate" in draw:
        pytest.skip("refused")
    changes = {"draw": draw, "adjacency": adjacency, "steps": 5, "mechanism": {"type": name, **ANY[name]}}
    series = {line.name: line for line in curve(planned("flat", changes), "rdp").series}
    upper = series["general upper bound"]
    assert ("general lower bound" in series) == (name not in {"zcdp", "exponential", "rdp-curve"})
    assert ("rdp" in series) == (name != "discrete-gaussian")  # its farthest losses are counted as infinite
    ours = dict(zip(series["rdp"].xs, series["rdp"].ys, strict=True)) if "rdp" in series else {}
    for place, (order, high) in enumerate(zip(upper.xs, upper.ys, strict=True)):
        known = high is not None
        assert known == (order < {"zcdp": 20, "rdp-curve": 32.5}.get(name, math.inf))
        if known and ours:
            assert ours[order] <= high * (1 + 1e-6)
        if "general lower bound" in series:
            assert series["general lower bound"].ys[place] <= ours.get(order, high) * (1 + 1e-4)
