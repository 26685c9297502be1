"""Curves, against published numbers, exact mechanisms and formulas worked out another way."""

import math
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist

import mpmath
import pytest

import dpcalc
from dpcalc import curve
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Kind
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, RandomizedResponse, RdpTable, Zcdp
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Budget
from dpcalc.planner.tuning import TruncatedNegativeBinomial
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import HUNDREDTH, plan_of

NORMAL = NormalDist()


def test_figure_2_of_abadi():
    """At 100 epochs of q = 0.01, sigma = 4, delta = 1e-5 it has 9.34 and 1.26 (section 3.2)."""
    chart = curve(plan_of(HUNDREDTH), "epochs", methods=("strong-composition", "moments"), grid=(1.0, 100.0))
    strong, moments = chart.series
    assert round(strong.ys[1], 2) == 9.34
    assert round(moments.ys[1], 2) == 1.26
    assert (strong.kind, moments.kind) == (Kind.AS_PUBLISHED, Kind.UPPER)
    assert chart.x.name == "epochs"


def test_epochs_are_whole_steps():
    plan = plan_of(Fixed(size=7_000), noise=50.0, steps=20)  # 8.57 steps a pass
    line, _ = curve(plan, "epochs", grid=(1.0, 2.0)).series
    longer = (replace(plan, phases=(replace(plan.phases[0], steps=steps),)) for steps in (9, 18))
    assert line.ys == tuple(dpcalc.epsilon(one).epsilon for one in longer)


@pytest.mark.parametrize(
    ("kind", "scheme", "grid", "changes"),
    [
        ("steps", HUNDREDTH, (10.0, 20.0), [{"steps": 10}, {"steps": 20}]),
        ("sigma", HUNDREDTH, (2.0, 3.0), [{"noise": 2.0}, {"noise": 3.0}]),
        ("rate", HUNDREDTH, (0.02, 0.5), [{"scheme": Poisson(probability=Fraction(1, x))} for x in (50, 2)]),
        ("rate", Fixed(size=600), (20.0, 30.0), [{"scheme": Fixed(size=20)}, {"scheme": Fixed(size=30)}]),
    ],
)
def test_points_are_guarantees(kind, scheme, grid, changes):
    line, lower = curve(plan_of(scheme), kind, grid=grid).series
    plans = [plan_of(**({"scheme": scheme} | change)) for change in changes]
    assert line.ys == tuple(dpcalc.epsilon(plan).epsilon for plan in plans)
    assert (line.xs, line.kind) == (grid, Kind.UPPER)
    assert (lower.xs, lower.kind) == (grid, Kind.LOWER)
    assert lower.ys == tuple(epsilon_lower(plan)[0] for plan in plans)


@pytest.mark.parametrize(("kind", "grid", "scale"), [("steps", (1.0, 9e4), "linear"), ("sigma", (0.4, 40.0), "log")])
def test_the_axis_of_epsilon_over_a_length_is_linear(kind, grid, scale):
    chart = curve(plan_of(HUNDREDTH), kind, grid=grid)
    low, high = sorted(chart.series[0].ys)
    assert high > 100 * low
    assert (chart.y.scale, chart.y.name) == (scale, "epsilon")


def test_groups_of_the_gaussian_mechanism():
    line, _ = curve(plan_of(All(), noise=100.0, steps=100), "group", grid=(1.0, 2.0)).series
    assert line.ys == pytest.approx([float(exact_epsilon(size**2, 10, 1e-5)) for size in line.xs], rel=5e-5)


def test_profile_and_tradeoff_of_the_gaussian_mechanism():
    plan = replace(plan_of(All(), noise=10.0, steps=100), budget=Budget(epsilon=3.0))
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


@pytest.mark.parametrize(
    ("kind", "plan", "options", "words"),
    [
        *((kind, plan_of(HUNDREDTH), {"methods": ("rdp",)}, "--method") for kind in ("profile", "tradeoff", "rdp")),
        *((kind, plan_of(All()), {}, "only `all`") for kind in ("rate", "epochs")),
        ("rate", plan_of(Shuffle(size=100)), {"group_size": 59_000}, "as many steps when 59000 units are removed"),
    ],
)
def test_curves_that_cannot_be_drawn(kind, plan, options, words):
    with pytest.raises(InputError, match=words):
        curve(plan, kind, **options)


def test_without_noise_lines_are_infinite():
    line, lower = curve(plan_of(HUNDREDTH, noise=0.0), "steps", grid=(1.0,)).series
    assert line.ys == lower.ys == (math.inf,)


ANY = {
    "laplace": Laplace(noise_multiplier=2.0),
    "discrete-laplace": DiscreteLaplace(noise_multiplier=2.0),
    "pure-dp": ApproximateDp(epsilon=0.5),
    "zcdp": Zcdp(rho=0.02, omega=20.0),
    "exponential": Exponential(epsilon=0.5),
    "rdp-curve": RdpTable(curve=((2.0, 0.1), (32.0, 1.6))),
    "discrete-gaussian": DiscreteGaussian(noise_multiplier=5.0),
    "randomized-response": RandomizedResponse(truth_probability=0.7),
}


def any_plan(name, scheme, adjacency):
    plan = plan_of(scheme, steps=5, adjacency=adjacency)
    return replace(plan, phases=(replace(plan.phases[0], mechanism=ANY[name]),))


@pytest.mark.parametrize(
    ("scheme", "adjacency"), [(HUNDREDTH, Adjacency.ADD_REMOVE), (Fixed(size=600), Adjacency.REPLACE_ONE)]
)
@pytest.mark.parametrize("name", ANY)
def test_divergences_of_any_mechanism(name, scheme, adjacency):
    if name == "randomized-response" and scheme is HUNDREDTH:
        pytest.skip("refused")
    series = {line.name: line for line in curve(any_plan(name, scheme, adjacency), "rdp").series}
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


def test_divergences_that_are_infinite():
    plan = plan_of(HUNDREDTH)
    leaking = replace(plan.phases[0], mechanism=ApproximateDp(epsilon=0.5, delta=1e-9))
    with pytest.raises(InputError, match="expected steps with finite divergences, got approximate-dp"):
        curve(replace(plan, phases=(leaking,)), "rdp")


def test_epsilon_by_general_bounds_is_a_line_of_its_own():
    run = plan_of(HUNDREDTH, noise=5.0, steps=5)
    general, own = curve(run, "steps", methods=("general-rdp", "rdp"), grid=(10, 1000)).series
    assert general.kind is Kind.UPPER
    assert all(low <= high for low, high in zip(own.ys, general.ys, strict=True))
    nested = replace(plan_of(HUNDREDTH), group_size=2)
    (none,) = curve(nested, "steps", methods=("general-rdp",), grid=(10,)).series
    assert none.ys == (None,)


def test_a_line_is_named_after_the_accountant_that_answers():
    """The best of several runs is bounded by Renyi divergences, whatever the accountant of one run is."""
    plan = plan_of(HUNDREDTH)
    tuned = replace(plan, tuning=TruncatedNegativeBinomial(shape=1.0, mean=10.0))
    line, *_ = curve(tuned, "sigma", grid=(1.0, 2.0)).series
    assert line.name == "rdp, best of several runs"
    assert line.ys[0] > dpcalc.epsilon(plan).epsilon
    line, _ = curve(plan, "sigma", grid=(1.0, 2.0)).series
    assert line.name == "pld"
    (line, other) = curve(tuned, "sigma", methods=("auto", "pld"), grid=(1.0,)).series
    assert (line.name, other.name, other.ys) == ("rdp, best of several runs", "pld", (None,))
