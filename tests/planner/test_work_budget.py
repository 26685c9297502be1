"""Answers within a budget of work: what replaces a sharp bound is never below it, and the same everywhere."""

import json
import math
import pathlib
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import comb

import numpy as np
import pytest
import yaml

from dpcalc import work
from dpcalc.accountants.closed_forms import closed_form_rdp, closed_form_rdp_delta
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification import bound as revealed_count_distributions
from dpcalc.amplification.groups import large_group
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.errors import DpcalcError, NoSolution, WorkExceededError
from dpcalc.losses.pair import MixturePair
from dpcalc.planner import composition as compositions
from dpcalc.planner import evaluate as evaluation
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.solve import AttackGoal, EpsilonGoal, solve
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Poisson, WithReplacement
from dpcalc.sampling.sums import rough_count_distributions
from tests.sweeps.heavy_configs import heavy_config
from tests.sweeps.random_configs import generator, random_config
from tests.thinning import thinned

ONCE_WRONG = yaml.safe_load(pathlib.Path(__file__).with_name("once_wrong.yaml").read_text(encoding="utf-8"))
MOST_UNITS = 6.5 * work.SECOND  # the last bound there is may go beyond the allowance


def plan_of(config):
    return load_text(json.dumps(config), path="f.yaml").plan


def nested(counts, sizes, *, noise=30.0, steps=1000, **privacy):
    """A config of draws with replacement under draws with replacement."""
    names = [f"l{level}" for level in range(len(counts))]
    return {
        "version": 1,
        "data": {"levels": [{"name": name, "count": count} for name, count in zip(names, counts, strict=True)]},
        "sampling": {
            name: {"scheme": "with-replacement", "size": size} for name, size in zip(names, sizes, strict=True)
        },
        "mechanism": {"noise_multiplier": noise},
        "training": {"steps": steps},
        "privacy": {"unit": names[-1], "adjacency": "replace-one", "delta": 1e-12, **privacy},
    }


def spent_on(plan):
    """(units of work of an evaluation, the evaluation)."""
    with work.allowance(math.inf) as meter:
        found = evaluate(plan)
    return meter.spent, found


@pytest.mark.heavy
@pytest.mark.parametrize(
    "config",
    thinned(
        [
            pytest.param(nested([1000] * 3, [500] * 3), id="three levels of 500 draws"),
            pytest.param(
                nested([20] * 6, [10] * 6, adjacency="add-remove", group_size=5), id="group of five under six levels"
            ),
            pytest.param(nested([10**6], [43716], noise=0.34, steps=175), id="a large batch"),
        ],
        1,
    ),
)
def test_heavy_runs_are_answered_within_the_budget(config):
    spent, found = spent_on(plan_of(config))
    assert spent <= MOST_UNITS
    assert 0 < found.guarantee.epsilon < 2000


@pytest.mark.heavy
def test_many_phases_share_the_work():
    """500 phases of three nested levels took 6.6 units; a step has as much work as is left, then its largest part."""
    draws = {"a": {"scheme": "poisson", "rate": 0.01}, "b": {"scheme": "fixed", "size": 3}}
    config = {
        "version": 1,
        "data": {"levels": [{"name": name, "count": count} for name, count in (("a", 100), ("b", 10), ("c", 20))]},
        "sampling": {**draws, "c": {"scheme": "poisson", "rate": 0.1}},
        "mechanism": {"noise_multiplier": 2.0},
        "phases": [
            {"sampling": {"a": {"rate": round(0.01 + at / 2000, 4)}}, "training": {"steps": 10 + at}}
            for at in range(500)
        ],
        "privacy": {"unit": "c", "adjacency": "add-remove", "delta": 1e-5},
    }
    spent, found = spent_on(plan_of(config))
    assert spent <= 5 * work.SECOND
    assert 0 < found.guarantee.epsilon < 500


@pytest.mark.parametrize(
    ("seed", "place"),
    [*((2, place) for place in (0, 1, 23, 42)), *(pytest.param(3, n, marks=pytest.mark.slow) for n in range(150))],
)
def test_heavy_configs_are_answered_within_the_budget(seed, place):
    try:
        plan = plan_of(heavy_config(generator(seed, place)))
    except ConfigError:
        return
    with work.allowance(math.inf) as meter:
        try:
            found = evaluate(plan)
        except DpcalcError as error:
            assert not isinstance(error, ArithmeticError), "no answer"  # noqa: PT017  of refusals there is no number
            return
    assert meter.spent <= MOST_UNITS
    assert found.guarantee.epsilon >= (found.guarantee.epsilon_lower or 0.0)


@pytest.mark.heavy
def test_what_is_remembered_costs_as_much_as_anew():
    plan = plan_of(nested([20, 10], [5, 3], noise=5.0, steps=30))
    cold, first = spent_on(plan)
    warm, second = spent_on(plan)
    assert warm == pytest.approx(cold, rel=1e-12)
    assert first.guarantee == second.guarantee


def test_what_stands_in_where_work_ran_out_is_returned_and_not_remembered():
    """It once raised an error, so that a whole answer was lost."""

    @work.cached_with_cost(4)
    def costly():
        try:
            work.spend(100.0)
        except WorkExceededError:
            return "rough"
        return "exact"

    for _ in range(2):  # whether or not the exact result is remembered
        with work.allowance(50.0) as meter:
            assert costly() == "rough"
            assert meter.spent > meter.limit
            with pytest.raises(WorkExceededError):
                work.spend(1.0)
        with work.allowance(150.0) as meter:
            assert costly() == "exact"
            assert meter.spent == 100.0


def test_a_question_of_its_own_pays_for_all_and_the_outer_one_once():
    @work.cached_with_cost(4)
    def costly(units):
        work.spend(units)

    with work.allowance(100.0) as outer:
        costly(40.0)
        with work.question_of_its_own():
            with pytest.raises(WorkExceededError), work.own_allowance(30.0):
                costly(40.0)
            costly(40.0)
            costly(20.0)
        costly(20.0)
        assert outer.spent == 40.0 + 30.0 + 20.0


def test_an_inner_allowance_is_part_of_the_outer_one():
    with work.allowance(100.0) as outer:
        with pytest.raises(WorkExceededError), work.allowance(1000.0):
            work.spend(110.0)
        assert outer.spent == outer.limit
        with pytest.raises(WorkExceededError):
            work.spend(1.0)


def random_counts(number):
    """Steps of random plans, one direction each."""
    found = 0
    for place in range(1000):
        try:
            plan = plan_of(random_config(generator(77, place)))
            if len(plan.phases) > 3 or plan.steps > 10**5:
                continue
            for counts in composed(plan).steps.values():
                if counts:
                    yield plan, counts
                    found += 1
                    break
        except DpcalcError:
            continue
        if found >= number:
            return


@pytest.mark.parametrize(
    "number", [pytest.param(15, marks=pytest.mark.heavy), pytest.param(60, marks=pytest.mark.slow)]
)
def test_the_closed_form_is_never_below_the_sharp_bound(number):
    compared = 0
    for plan, counts in random_counts(number):
        try:
            (lower,) = epsilon_bounds(counts, delta=plan.delta, sides=(UPPER,))
        except (DpcalcError, ArithmeticError):
            continue
        assert closed_form_rdp(counts, delta=plan.delta).epsilon >= lower * (1 - 1e-4)
        if 0 < lower < 300:
            (delta,) = delta_bounds(counts, epsilon=lower, sides=(UPPER,))
            assert closed_form_rdp_delta(counts, epsilon=lower) >= delta * (1 - 1e-3)
        compared += 1
    assert compared > number / 2


def test_the_closed_form_of_a_gaussian_is_its_renyi_bound():
    """Without a draw nothing is lost: K(z) = z (z + 1) T / (2 sigma^2)."""
    pair = MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=4.0)
    z = np.geomspace(1e-3, 1e4, 200_001)
    weight = -z * np.log1p(1 / z) - np.log1p(z)
    expected = float(((z * (z + 1) * 100 / 32 + weight - math.log(1e-6)) / z).min())
    assert closed_form_rdp({pair: 100}, delta=1e-6).epsilon == pytest.approx(expected, rel=1e-5)


def exact_law(counts, sizes):
    """Copies of one unit by sums over all draws, level by level; no code of the product."""
    law = {1: Fraction(1)}
    for count, size in zip(counts, sizes, strict=True):
        found = {}
        for copies, chance in law.items():
            trials = copies * size
            for h in range(trials + 1):
                one = comb(trials, h) * Fraction(1, count) ** h * Fraction(count - 1, count) ** (trials - h)
                found[h] = found.get(h, Fraction(0)) + chance * one
        law = found
    return law


def rough_tails(counts, schemes, members=1, contributions=1):
    """By a number of copies, the least probability of as many that the rough law claims."""
    ones = (1,) * len(counts)
    path = Path(place=(), counts=counts, schemes=schemes, contributions=ones, siblings=ones)
    rough = {
        h: chance
        for chance, one in rough_count_distributions(
            [*zip(path.schemes, path.counts, strict=True)], members, contributions
        )
        for h in one
    }
    return rough, lambda at: sum((chance for h, chance in rough.items() if h >= at), Fraction(0))


def exact_tail(law, at):
    return sum((chance for h, chance in law.items() if h >= at), Fraction(0))


@pytest.mark.parametrize(
    ("counts", "sizes"), [((3,), (4,)), ((50,), (20,)), ((5, 4), (3, 4)), ((20, 10), (3, 5)), ((60, 2), (2, 30))]
)
def test_rough_laws_are_above_the_exact_ones(counts, sizes):
    schemes = tuple(WithReplacement(size=size) for size in sizes)
    law = exact_law(counts, sizes)
    rough, tail = rough_tails(counts, schemes)
    assert sum(rough.values()) <= min(1, (1 - law[0]) * Fraction(101, 100) + Fraction(1, 10**8))
    _, in_step = rough_tails(counts, schemes, 3, 2)  # three members in step with one another, two contributions each
    for h in range(1, max(law) + 1):
        assert min(tail(h), in_step(6 * h)) >= exact_tail(law, h)

    # Two records of one parent: every copy of the parent draws either with probability 2 / count.
    count, total = counts[-1], {}
    for copies, chance in exact_law(counts[:-1], sizes[:-1]).items():
        trials = copies * sizes[-1]
        for h in range(trials + 1):
            part = comb(trials, h) * Fraction(2, count) ** h * Fraction(count - 2, count) ** (trials - h)
            total[h] = total.get(h, Fraction(0)) + chance * part
    _, of_two = rough_tails(counts, schemes, 2)
    for h in range(1, max(total) + 1):
        assert of_two(h) >= exact_tail(total, h)


@pytest.mark.parametrize(
    ("rate", "size"), [(Fraction(1, 100), 17_000), (Fraction(1, 50), 20_000), (Fraction(1, 10**6), 10**7)]
)
def test_rough_laws_hold_where_a_rare_parent_draws_many_copies(rate, size):
    """More copies than the transform has points: they once wrapped round to small numbers (1e-9 for 1/100)."""
    _, tail = rough_tails((1000, 1), (Poisson(probability=rate), WithReplacement(size=size)))
    assert min(tail(h) for h in (1, 1000, size // 2, size)) >= rate


@pytest.mark.parametrize("size", [25, 36, 47, 48])
def test_rough_laws_leave_out_no_number_up_to_48(size):
    """Of 26 to 47 numbers some were once left out, although all of them have a place."""
    rough, _ = rough_tails((2,), (WithReplacement(size=size),))
    assert [*rough][-12:] == list(range(size - 11, size + 1))


PLANS = [
    nested([50], [20], noise=3.0, steps=50),
    nested([20, 10], [5, 3], noise=5.0, steps=30),
    nested([20, 10], [5, 3], noise=5.0, steps=30, adjacency="add-remove", group_size=2),
    nested([20, 10], [5, 3], noise=5.0, steps=30, adjacency="zero-out"),
]


@pytest.mark.parametrize("config", thinned(PLANS, 2))
def test_rough_counts_are_never_below_exact_ones_and_said(config, monkeypatch):
    plan = plan_of(config)
    sharp = guarantee(plan)
    assert not sharp.notes
    monkeypatch.setattr(compositions, "_LAWS_WORK", 0.0)
    rough = guarantee(plan)
    assert "is bounded roughly" in " ".join(rough.notes)
    assert sharp.epsilon * (1 - 1e-4) <= rough.epsilon < 20 * sharp.epsilon


@pytest.mark.heavy
@pytest.mark.parametrize("config", thinned(PLANS, 1))
def test_each_step_of_the_ladder_is_looser_and_said(config, monkeypatch):
    plan = plan_of(config)
    sharp, closed = guarantee(plan), guarantee(plan, method="closed-form")
    deltas = [delta_of(plan, epsilon=sharp.epsilon)]
    found = [sharp]
    for name in ("_SHARP_WORK", "_MOMENT_WORK"):
        monkeypatch.setattr(evaluation, name, 0.0)
        monkeypatch.setattr(evaluation, "_SHARP_DELTA_WORK", 0.0)
        found.append(guarantee(plan))
        deltas.append(delta_of(plan, epsilon=sharp.epsilon))
    assert [one.method for one in found] == ["pld", "rdp", "rdp"]
    assert [one.notes for one in found] == [(), (evaluation.LOOSER_NOTE,), (evaluation.CLOSED_FORM_NOTE,)]
    epsilons = [one.epsilon for one in found]
    assert list(accumulate(epsilons, max)) == epsilons
    assert closed.epsilon == epsilons[-1]
    assert [delta.notes[:1] for delta in deltas[1:]] == [(evaluation.LOOSER_NOTE,), (evaluation.CLOSED_FORM_NOTE,)]
    assert deltas[0].delta <= deltas[1].delta * (1 + 1e-9) <= deltas[2].delta * (1 + 1e-6)


@pytest.mark.heavy
def test_moments_at_hand_answer_where_the_sharp_bound_is_too_costly(monkeypatch):
    plan = plan_of(PLANS[3])
    composition = composed(plan)
    with work.allowance(math.inf) as meter:
        steps, spent = composition.steps, meter.spent
        largest = max(composition.moment_bound(counts)[0] for counts in steps.values() if counts)
    monkeypatch.setattr(evaluation, "_SHARP_WORK", 1.2 * (meter.spent - spent))
    monkeypatch.setattr(evaluation, "_MOMENT_WORK", 0.0)
    found = guarantee(plan)
    assert found.notes == (evaluation.LOOSER_NOTE,)
    assert found.epsilon == pytest.approx(largest, rel=1e-12)


@pytest.mark.heavy
def test_many_phases_that_differ_in_noise_are_composed():
    """dp_accounting says 2.805876; with less work for each phase the answer was the closed form's, 47.7."""
    phases = [{"name": f"p{k}", "mechanism": {"noise_multiplier": 1 + k / 100}} for k in range(200)]
    config = {
        "version": 1,
        "data": {"examples": 100_000},
        "sampling": {"scheme": "poisson", "rate": "1/100"},
        "mechanism": {"max_grad_norm": 1.0},
        "phases": [phase | {"training": {"steps": 50}} for phase in phases],
        "privacy": {"adjacency": "add-remove", "delta": 1e-5},
    }
    found = guarantee(plan_of(config))
    assert not found.notes
    assert 2.805876 < found.epsilon < 2.805877 * (1 + 1e-4)


@pytest.mark.heavy
def test_an_unfinished_lower_bound_takes_nothing_from_the_upper_one(monkeypatch):
    plan = plan_of(PLANS[0])
    monkeypatch.setattr(evaluation, "LOWER_WORK", 1.0)
    found = evaluate(plan).guarantee
    assert found.epsilon == guarantee(plan).epsilon
    assert found.epsilon_lower is None
    assert not found.tight
    assert any(note.startswith("the lower bound is missing: it needs more work") for note in found.notes)


@pytest.mark.heavy
def test_a_search_that_needs_too_much_work_is_made_by_a_looser_bound(monkeypatch):
    from dpcalc.planner import solve as solving

    plan = plan_of(PLANS[0])
    goal = EpsilonGoal(limit=2.0)
    sharp = solve(plan, "sigma", goal=goal)
    for name in ("_SEARCH_WORK", "_ROUGH_SEARCH_WORK"):
        monkeypatch.setattr(solving, name, 1e6)
        rough = solve(plan, "sigma", goal=goal)
        assert "the search was made by a looser bound" in " ".join(rough.guarantee.notes)
        assert rough.value >= sharp.value * (1 - 1e-4)
        assert guarantee(rough.plan).epsilon <= goal.limit


@pytest.mark.heavy
@pytest.mark.parametrize(
    "left",
    [("_SEARCH_WORK",), pytest.param(("_SEARCH_WORK", "_ROUGH_SEARCH_WORK"), marks=pytest.mark.heavy)],
)
def test_a_search_by_a_looser_bound_finds_the_value_that_only_the_sharp_one_allows(left, monkeypatch):
    """It once said that no value met the goal: pld gives 31.3 for one step, rdp 36.2."""
    from dpcalc.planner import solve as solving

    plan, goal = plan_of(PLANS[0]), EpsilonGoal(limit=32.0)
    sharp = solve(plan, "steps", goal=goal)
    for name in left:
        monkeypatch.setattr(solving, name, 1e5)
    rough = solve(plan, "steps", goal=goal)
    assert (rough.value, rough.fails_at, rough.guarantee.method) == (1, 2, "pld")
    assert (rough.reached, rough.goal) == (sharp.reached, goal)
    assert "the search was made by a looser bound" in " ".join(rough.guarantee.notes)
    with pytest.raises(NoSolution, match="the best, steps 1, gives 31\\.3376"):
        solve(plan, "steps", goal=EpsilonGoal(limit=31.0))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("goal", "method"),
    [
        (AttackGoal(limit=0.2, false_positive_rate=0.01), "auto"),
        pytest.param(AttackGoal(limit=0.3), "pld", marks=pytest.mark.heavy),
        (EpsilonGoal(limit=2.0), "rdp"),
    ],
)
def test_any_search_with_looser_bounds_ends_with_a_value_within_the_goal(goal, method, monkeypatch):
    """By rdp it once said that it needed too much work; for attackers it went on by bounds of both kinds."""
    from dpcalc.planner import solve as solving

    plan = replace(plan_of(PLANS[0]), method=method)
    sharp = solve(plan, "sigma", goal=goal)
    monkeypatch.setattr(solving, "_SEARCH_WORK", 1e5)
    rough = solve(plan, "sigma", goal=goal)
    assert "the search was made by a looser bound" in " ".join(rough.guarantee.notes)
    assert rough.reached <= goal.limit
    assert rough.value >= sharp.value * (1 - 1e-4)
    assert rough.plan.method == method


def test_large_groups_without_exact_probabilities():
    rate = Fraction(3, 1000)
    for members in (65, 300):
        ((chance, law),) = large_group(members, Fraction(1, 10**6), rate)
        assert chance == Fraction(members, 10**6)
        below = Fraction(0)
        for j in range(members, 0, -1):
            below += law.get(j, Fraction(0))
            exact = min(Fraction(1), comb(members, j) * rate**j)
            assert below >= exact - Fraction(1, 2**1200)
            assert float(below) <= float(exact) * (1 + 1e-12) + 1e-300


def test_drawn_laws_fall_back_without_losing_the_clipping_level(monkeypatch):
    """A batch that is clipped as one vector changes by one vector, however many members it holds."""
    plan = plan_of({**PLANS[1], "mechanism": {"noise_multiplier": 5.0, "clip": "batch"}})
    sharp = guarantee(plan).epsilon
    monkeypatch.setattr(revealed_count_distributions, "member_counts", lambda *_, **__: work_exceeded())
    rough = guarantee(plan).epsilon
    assert sharp * (1 - 1e-4) <= rough < 5 * sharp


def work_exceeded():
    raise WorkExceededError("test")


@pytest.mark.heavy
@pytest.mark.parametrize("text", ONCE_WRONG.values(), ids=ONCE_WRONG)
def test_configs_that_once_had_internal_errors(text):
    plan = load_text(text, path="f.yaml").plan
    assert evaluate(plan).guarantee.epsilon <= guarantee(plan, method="closed-form").epsilon


@pytest.mark.slow
@pytest.mark.parametrize("place", [395, 586, 801, 1088])
def test_random_plans_that_once_took_longest_are_answered_within_the_budget(place):
    """40 placements of six records in eight phases, for example."""
    spent, found = spent_on(plan_of(random_config(generator(1, place))))
    assert spent <= MOST_UNITS
    assert found.guarantee.finite
