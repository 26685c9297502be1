"""What PATE costs by the command: laws, what a budget buys, the published analyses; as plans: which units, solvers."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.statement import statement
from dpcalc.sampling.schemes import All, Poisson, Shuffle
from tests.oracles.ballots import ensemble, synthetic
from tests.runs import run_of

NOISES = [
    ("--gamma", "0.05"),
    ("--sigma", "40"),
    ("--sigma", "40", "--threshold", "200", "--threshold-sigma", "150"),
]


@pytest.fixture
def asked(real, tmp_path):
    """What `dpcalc pate` says of votes, or of a number of queries."""

    def of(noise, votes, *more, delta="1e-5"):
        words = ("--queries", str(votes))
        if not isinstance(votes, int):
            np.save(tmp_path / "votes.npy", votes)
            words = ("votes.npy", "--teachers", "250")
        ended = real("pate", *words, *noise, "--delta", delta, "--json", *more)
        assert ended.code in {0, 1}, ended.err
        return json.loads(ended.out)

    return of


def cost(answer):
    return answer["with_these_votes"]["guarantee"]["epsilon"]


@pytest.mark.parametrize("noise", NOISES)
def test_laws(asked, noise):
    counts = synthetic(60).counts
    here = asked(noise, counts)
    assert 0 < cost(here) <= here["guarantee"]["epsilon"]
    assert cost(asked(noise, counts, delta="1e-9")) > cost(here)
    assert cost(asked(noise, counts[:59])) < cost(here)
    for turned in (counts[::-1], counts[:, ::-1]):
        assert cost(asked(noise, turned)) == pytest.approx(cost(here), rel=1e-12)
    unanimous, split = (ensemble([row] * 60).counts for row in ([250, 0, 0, 0], [126, 124, 0, 0]))
    assert cost(asked(noise, unanimous)) < cost(here) < cost(asked(noise, split))


@pytest.mark.parametrize("noise", NOISES)
def test_what_a_budget_buys(asked, noise):
    votes = synthetic(2000).counts
    bought = asked(noise, votes, "--target-eps", "1.5")["target"]
    most, fitting = bought["queries"], bought["queries_with_these_votes"]
    assert [asked(noise, number)["guarantee"]["epsilon"] <= 1.5 for number in (most, most + 1)] == [True, False]
    assert most < fitting < 2000
    assert cost(asked(noise, votes[:fitting])) <= 1.5 < cost(asked(noise, votes[: math.ceil(1.02 * fitting)]))


@pytest.mark.parametrize("target", [0.1, 3.0, 50.0])
@pytest.mark.parametrize("noise", NOISES)
def test_the_least_noise(asked, noise, target):
    least = asked(noise, 1000, "--target-eps", str(target))["target"]["least_noise"]
    least |= least.pop("label", {})
    names = {"gamma": "--gamma", "sigma": "--sigma", "check_sigma": "--threshold-sigma"}
    for factor, within in ((1, True), (1 - 1e-6, False)):
        louder = {
            name: least[name] / factor if name == "gamma" else least[name] * factor for name in names if name in least
        }
        words = [word for name, value in louder.items() for word in (names[name], repr(value))]
        words += ["--threshold", repr(least["threshold"])] if "threshold" in least else []
        assert (asked(words, 1000)["guarantee"]["epsilon"] <= target) is within


def test_checks_that_always_or_never_pass(asked):
    counts = synthetic(40).counts
    always, never = (
        asked(("--sigma", "40", "--threshold", threshold, "--threshold-sigma", "0.01"), counts)
        for threshold in ("0", "1000")
    )
    assert cost(always) == pytest.approx(cost(asked(NOISES[1], counts)), rel=1e-4)
    assert cost(never) < 0.02
    assert [each["answered"]["expected"] for each in (always, never)] == pytest.approx([40, 0])


# What TF-Privacy's research scripts (03035d5, 2026-04) print for synthetic(100) and synthetic(1000), delta 1e-5:
# pate_2017/analysis.py with 8 moments for LNMax; pate_2018/core.py for GNMax (data-independent, data-dependent).
RECORDED = [
    (100, ("--gamma", "0.05"), 5.302585092994046, 2.064316503252266),
    (1000, ("--gamma", "0.05"), 20.75646273248512, 7.610625876760011),
    (100, ("--sigma", "40"), 1.7590592937014984, 1.225314835309749),
    (1000, ("--sigma", "40"), 5.995927881104495, 4.40916202864441),
    (100, ("--sigma", "100"), 0.6886154548520655, 0.6886154548520658),
    (1000, ("--sigma", "100"), 2.2464690919019263, 2.2464690919019157),
]


@pytest.mark.parametrize(("queries", "noise", "whatever", "of_votes"), RECORDED)
def test_the_published_analyses(asked, queries, noise, whatever, of_votes):
    answer = asked(noise, synthetic(queries).counts)
    assert [row["epsilon"] for row in answer["published"]] == pytest.approx([whatever, of_votes], rel=1e-8)
    assert [row["kind"] for row in answer["published"]] == ["as-published"] * 2
    assert answer["guarantee"]["epsilon"] < whatever
    assert cost(answer) < of_votes


# Plans


MECHANISMS = [
    LNMax(gamma=0.05),
    GNMax(noise_multiplier=40.0),
    ConfidentGNMax(noise_multiplier=40.0, threshold=200.0, threshold_noise_multiplier=150.0),
]


def plan(mechanism, *levels, queries=100, **more):
    return run_of(
        *(levels or ((250, All()),)), mechanism=mechanism, steps=queries, **{"adjacency": "replace-one"} | more
    )


@pytest.mark.parametrize(("mechanism", "noise"), [*zip(MECHANISMS, NOISES, strict=True)])
def test_whatever_unit_and_relation(asked, mechanism, noise):
    """All of a teacher, or a record of it; nobody is left out by chance."""
    found = guarantee(plan(mechanism)).epsilon
    for unit, adjacency in itertools.product((1, 2), Adjacency):
        nested = plan(mechanism, (250, All()), (100, All()), unit=unit, clip=1, adjacency=adjacency)
        assert guarantee(nested).epsilon == found
    assert statement(plan(mechanism)).unsampled == found
    assert found == pytest.approx(asked(noise, 100)["guarantee"]["epsilon"], rel=1e-4)


@pytest.mark.parametrize("scheme", [Poisson(probability=0.5), Shuffle(size=25)])
def test_all_teachers_vote(scheme):
    words = f"expected scheme all at every level with pate-gnmax, got {scheme.name}"
    with pytest.raises(UnsupportedError, match=words):
        guarantee(plan(MECHANISMS[1], (250, scheme)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_solving(mechanism):
    goal = EpsilonGoal(limit=1.0)
    noise = solve(plan(mechanism), "sigma", goal=goal)
    (phase,) = noise.plan.phases
    assert guarantee(noise.plan).epsilon <= 1.0
    louder = phase.with_noise(phase.mechanism.noise_multiplier * (1 - 2e-4))
    assert guarantee(replace(noise.plan, phases=(louder,))).epsilon > 1.0
    steps = solve(plan(mechanism), "steps", goal=goal).value
    within, beyond = (guarantee(plan(mechanism, queries=steps + more)).epsilon for more in (0, 1))
    assert within <= 1.0 < beyond
