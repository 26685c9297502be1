"""The best of a random number of runs: against its exact distribution, the theorems by mpmath, and dp-accounting.

And every question that knows no bound for the best of several runs says so.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event, rdp

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.cli.app import run
from dpcalc.config.load import load_text
from dpcalc.errors import UnsupportedError
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner import evaluate as evaluating
from dpcalc.planner.compare import compare, cross_checks
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.risk import attack_bounds, gaussian_summary
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.tuning import Poisson, TruncatedNegativeBinomial
from tests.few_losses import of_masses
from tests.thinning import thinned

DELTA = 1e-5
NUMBERS = [
    TruncatedNegativeBinomial(shape=1.0, mean=10.0),
    TruncatedNegativeBinomial(shape=0.0, mean=5.0),
    TruncatedNegativeBinomial(shape=0.5, mean=30.0),
    TruncatedNegativeBinomial(shape=-0.5, mean=4.0),
    TruncatedNegativeBinomial(shape=8.0, mean=20.0),
    Poisson(mean=10.0),
    Poisson(mean=1.5),
]


def gaussian(sigma, rate=Fraction(1)):
    """One direction of a subsampled Gaussian step, and the other."""
    p, q = {0: 1 - rate, 1: rate}, {0: Fraction(1)}
    return MixturePair.of(p, q, deviation=sigma), MixturePair.of(q, p, deviation=sigma)


def runs(sigma, *, count=1, rate=Fraction(1)):
    return tuple({pair: count} for pair in gaussian(sigma, rate))


def generating(number, x):
    """E[x^K]."""
    if isinstance(number, Poisson):
        return mpmath.exp(number.mean * (x - 1))
    gamma, shape = mpmath.mpf(number.gamma), mpmath.mpf(number.shape)
    if shape == 0:
        return mpmath.log(1 - (1 - gamma) * x) / mpmath.log(gamma)
    return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


@mpmath.workdps(30)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
def test_the_mean_and_the_distribution(number):
    assert float(generating(number, mpmath.mpf(1))) == pytest.approx(1)
    slope = float(mpmath.diff(lambda x: generating(number, x), 1))
    assert slope == pytest.approx(number.mean, rel=1e-9)


@mpmath.workdps(30)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
@pytest.mark.parametrize("sigma", thinned([0.7, 3.0], 1))
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_the_largest_of_gaussian_releases_costs_no_more(number, sigma, delta):
    # P(best <= y) = E[F(y)^K] of a release with distribution F; a Gaussian release at 0 or 1, larger is better
    epsilon = number.epsilon(runs(sigma), delta=delta)
    ends = [
        [generating(number, mpmath.ncdf((mpmath.mpf(y) - mean) / sigma)) for mean in (0, 1)]
        for y in mpmath.linspace(-6 * sigma, 1 + 7 * sigma, 120)
    ]
    grow = mpmath.exp(epsilon)
    for own, other in ((0, 1), (1, 0)):
        masses = [(b[own] - a[own], b[other] - a[other]) for a, b in itertools.pairwise(ends)]
        assert sum(max(0, p - grow * q) for p, q in masses) <= delta
    one_run = max(best_epsilon(counts, delta=delta).value for counts in runs(sigma))
    assert epsilon > one_run


@pytest.mark.parametrize("number", [*NUMBERS[:3], *NUMBERS[4:]], ids=lambda one: one.words)
def test_dp_accounting_agrees(number):
    rate, sigma, count = Fraction(1, 100), 1.0, 1000
    orders = np.concatenate([np.arange(1.05, 12, 0.05), np.arange(12, 64), [80, 128, 256]])
    accountant = rdp.RdpAccountant(list(orders))
    step = dp_event.PoissonSampledDpEvent(float(rate), dp_accounting.GaussianDpEvent(sigma))
    shape = getattr(number, "shape", math.inf)
    run = dp_accounting.SelfComposedDpEvent(step, count)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean=number.mean, shape=shape))
    theirs = accountant.get_epsilon(DELTA)
    assert number.epsilon(runs(sigma, count=count, rate=rate), delta=DELTA) == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda one: one.words)
@pytest.mark.parametrize("failing", [1e-4, 1e-3])
def test_runs_with_infinite_losses_cost_no_more(number, failing):
    """Approximate DP: three or four outputs in every order of preference, one of which only D (or only D') can have."""
    p, q = (
        ((1 - failing) * 0.7, (1 - failing) * 0.3, failing, 0.0),
        ((1 - failing) * 0.4, (1 - failing) * 0.6, 0.0, failing),
    )
    finite = sorted((math.log(a / b), a) for a, b in zip(p, q, strict=True) if a and b)
    pair = of_masses([loss for loss, _ in finite], [a for _, a in finite], infinity_mass=failing)
    delta = 3 * number.mean * failing
    epsilon = number.epsilon(({pair: 1}, {pair.swapped: 1}), delta=delta)
    assert epsilon < math.inf
    for order in itertools.permutations(range(4)):
        laws = []
        for law in (p, q):
            below = np.cumsum([0.0, *(law[i] for i in order)])
            values = [float(generating(number, mpmath.mpf(float(x)))) for x in below]
            laws.append(np.diff(values))
        for own, other in (laws, laws[::-1]):
            assert np.maximum(own - math.exp(epsilon) * other, 0.0).sum() <= delta
    assert number.epsilon(({pair: 1}, {pair.swapped: 1}), delta=0.9 * number.mean * failing) == math.inf


@pytest.mark.parametrize(
    ("shape", "mean", "delta"),
    thinned(
        itertools.product(
            (-0.9, -0.5, 0.0, 0.5, 1.0, 8.0, 1000.0), (1.0001, 1.01, 1.5, 10.0, 1e6), (0.0654, 0.07, 0.118, 0.5)
        ),
        23,
    ),
)
def test_the_best_run_never_costs_less_than_one(shape, mean, delta):
    """Steps whose losses are infinite almost as often as delta allows have finite losses of next to no mass."""
    for epsilon in (0.0, 0.023916, 1.0):
        one = {ApproximateDp(epsilon=epsilon, delta=0.021792).pair(): 3}
        number = TruncatedNegativeBinomial(shape=shape, mean=mean)
        alone = best_epsilon(one, delta=delta).value
        assert number.epsilon((one, one), delta=delta) >= max(0.0, alone)
        assert number.epsilon((one, one), delta=delta, in_closed_form=True) >= max(0.0, alone)
        if mean < 10:
            assert Poisson(mean=mean).epsilon((one, one), delta=delta) >= max(0.0, alone)


# Plans that are repeated

TEXT = """\
version: 1
data: {examples: 10_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {noise_multiplier: 2}
training: {steps: 500}
privacy: {adjacency: add-remove, delta: 1e-5}
"""
NEGATIVE = "{mean: 4, distribution: negative-binomial, shape: 0.5}"


def plan(tuning, text=TEXT):
    return load_text(f"{text}tuning: {tuning}\n", path="tuned.yaml").plan


@pytest.mark.parametrize(
    ("tuning", "repeated"),
    [
        ("{mean: 10}", TruncatedNegativeBinomial(shape=1.0, mean=10.0)),
        ("{mean: 10, distribution: logarithmic}", TruncatedNegativeBinomial(shape=0.0, mean=10.0)),
        (NEGATIVE, TruncatedNegativeBinomial(shape=0.5, mean=4.0)),
        ("{mean: 1.5, distribution: poisson}", Poisson(mean=1.5)),
    ],
)
def test_the_best_of_several_runs(tuning, repeated):
    asked = plan(tuning)
    assert asked.tuning == repeated
    one = replace(asked, tuning=None)
    counts = tuple(composed(one).steps.values())
    found = evaluate(asked)
    assert found.guarantee.epsilon == repeated.epsilon(counts, delta=1e-5)
    assert found.guarantee.epsilon > guarantee(one).epsilon
    assert (found.guarantee.method, found.guarantee.epsilon_lower) == ("rdp", None)
    assert "best of several runs" in found.guarantee.bound
    assert [(row.epsilon, row.valid) for row in found.alternatives] == [(guarantee(one).epsilon, False)]
    assert found.notes[0].epsilons == (guarantee(one).epsilon,)
    assert any("stays secret" in line for line in found.assumptions)
    assert not any("tuning and other runs" in line for line in found.assumptions)


def test_solvers_keep_to_the_best_of_several():
    asked = plan("{mean: 10}")
    goal = EpsilonGoal(limit=2.0)
    found = solve(asked, "sigma", goal=goal)
    assert guarantee(found.plan).epsilon <= 2.0
    assert found.value > solve(replace(asked, tuning=None), "sigma", goal=goal).value


@pytest.mark.parametrize(
    "question",
    [
        lambda plan: composed(plan).steps,
        compare,
        attack_bounds,
        gaussian_summary,
        lambda asked: delta_of(asked, epsilon=1.0),
        lambda asked: guarantee(asked, method="pld"),
        lambda asked: guarantee(replace(asked, method="moments")),
    ],
)
def test_questions_without_a_bound_for_several_runs(question):
    with pytest.raises(UnsupportedError, match="tuning"):
        question(plan("{mean: 10}"))


def test_without_noise_or_without_a_step():
    silent = plan("{mean: 10}", TEXT.replace("steps: 500", "steps: 0"))
    loud = plan("{mean: 10}", TEXT.replace("noise_multiplier: 2", "noise_multiplier: 0"))
    assert guarantee(silent).epsilon == 0
    assert not guarantee(loud).finite
    assert evaluate(loud).alternatives == ()
    assert cross_checks(plan("{mean: 10}")) == ()


def test_it_is_part_of_what_a_config_means():
    texts = [TEXT, *(f"{TEXT}tuning: {one}\n" for one in ("{mean: 3}", "{mean: 4}", NEGATIVE))]
    loaded = [load_text(text, path="a.yaml") for text in texts]
    assert len({one.config_hash for one in loaded}) == 4
    assert loaded[0].plan.tuning is None


@pytest.mark.heavy
def test_the_gate_counts_it_and_a_ledger_refuses_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned.yaml").write_text(f"{TEXT}tuning: {{mean: 10}}\nbudget: {{epsilon: 0.8}}\n", encoding="utf-8")
    one = guarantee(replace(plan("{mean: 10}"), tuning=None)).epsilon
    assert one < 0.8 < guarantee(plan("{mean: 10}")).epsilon
    assert run(["check", "tuned.yaml"]) == 1
    assert run(["ledger", "add", "runs.yaml", "tuned.yaml"]) == 2
    assert not (tmp_path / "runs.yaml").exists()


@pytest.mark.parametrize("repeated", ["{mean: 10}", "{mean: 10, distribution: poisson}"])
def test_moments_that_take_too_much_work_are_those_in_closed_form(repeated, monkeypatch):
    asked = plan(repeated)
    sharp = guarantee(asked)
    monkeypatch.setattr(evaluating, "_SHARP_WORK", 0.0)
    rough = guarantee(asked)
    assert (sharp.notes, rough.notes) == ((), (evaluating.CLOSED_FORM_NOTE,))
    assert sharp.epsilon <= rough.epsilon < 20 * sharp.epsilon
