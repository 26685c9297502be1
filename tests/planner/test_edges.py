"""Plans at the edges: no noise, no steps, no sampling, phases that are one phase cut in two."""

import math
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

import dpcalc
from dpcalc.accountants.rdp import best_delta
from dpcalc.config.load import load
from dpcalc.errors import ConvergenceError
from dpcalc.planner import evaluate as evaluation
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, CappedPoisson, Poisson
from tests.oracles.exact_gaussian import exact_delta
from tests.runs import run_of

SAMPLES = Path(__file__).parents[2] / "sample_configs"


def plan_of(scheme, **more):
    return run_of(Level(name="example", count=60_000, scheme=scheme), **more)


HUNDREDTH = Poisson(probability=Fraction(1, 100))
CUT_HUNDREDTH = CappedPoisson(probability=Fraction(1, 100), max_batch_size=1500)


def test_without_noise_epsilon_is_infinite_and_delta_is_one():
    plan = plan_of(HUNDREDTH, noise=0.0)
    assert not guarantee(plan).finite
    assert evaluate(plan).guarantee.epsilon_lower is None
    assert delta_of(plan, epsilon=3.0).delta == 1.0


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_without_steps_nothing_is_spent(noise):
    assert guarantee(plan_of(HUNDREDTH, noise=noise, steps=0)).epsilon == 0.0


@pytest.mark.heavy
def test_a_delta_far_out_is_below_that_of_the_moments():
    plan = load(str(SAMPLES / "mini_imagenet_5way_1shot.yaml")).plan
    for epsilon in (50.0, 100.0):
        found = delta_of(plan, epsilon=epsilon)
        moments = max(best_delta(counts, epsilon=epsilon).value for counts in composed(plan).steps.values())
        assert 0 < found.delta < moments


@pytest.mark.heavy
def test_a_delta_that_no_lattice_holds_is_that_of_the_moments():
    plan = plan_of(Poisson(probability=Fraction(1, 2)), noise=0.0028456, steps=10**10)
    found = delta_of(plan, epsilon=guarantee(plan, method="rdp").epsilon)
    assert found.method == "rdp"
    assert 0 < found.delta <= plan.delta * (1 + 1e-6)


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 4.0])
def test_the_moments_give_a_delta_above_the_exact_one(monkeypatch, epsilon):
    def refuse(*_, **__):
        raise ConvergenceError("does not fit")

    monkeypatch.setattr("dpcalc.planner.evaluate.delta_bounds", refuse)
    monkeypatch.setattr("dpcalc.planner.lower_end.delta_bounds", refuse)
    found = delta_of(plan_of(All(), noise=40.0), epsilon=epsilon)
    exact = exact_delta(math.sqrt(1_000) / 40, epsilon)
    assert found.method == "rdp"
    assert found.delta_lower is None or found.delta_lower <= exact
    assert exact <= found.delta <= min(1, 20 * exact)


@pytest.mark.heavy
def test_averages_over_mates_end_where_the_noise_is_small():
    """64 records of a session at noise 2: profiles of the parts overflow, and none can be merged by comparing them."""
    draws = [(10, 10), (20, 5), (64, 2)]
    levels = ((count, Poisson(probability=Fraction(1, part))) for count, part in draws)
    run = run_of(*levels, noise=2.0, steps=1, unit=2, adjacency="replace-one")
    assert guarantee(run).epsilon < 64**2 / 2 + 64 * 5


def test_a_lower_end_above_the_upper_bound_is_no_tight_answer(monkeypatch):
    """Both are proved: where they cross beyond round-off one is wrong, and was once cut and called tight."""
    run = dpcalc.plan(sample_rate=0.01, noise_multiplier=1.0, steps=100, delta=1e-5)
    upper, delta = dpcalc.epsilon(run).epsilon, dpcalc.delta(run, epsilon=0.3).delta
    monkeypatch.setattr(evaluation, "epsilon_lower", lambda *_, **__: SimpleNamespace(value=1.1 * upper))
    with pytest.raises(ConvergenceError, match="expected an upper bound above what an actual data set costs"):
        dpcalc.epsilon(run)
    monkeypatch.setattr(evaluation, "delta_lower", lambda *_, **__: 1.1 * delta)
    with pytest.raises(ConvergenceError, match="expected an upper bound above what an actual data set costs"):
        dpcalc.delta(run, epsilon=0.3)
