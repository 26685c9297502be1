import itertools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import ConvergenceError, InputError, OutOfMemoryError, OutOfTimeError, UnsupportedError
from dpcalc.gate import costs as accounting
from dpcalc.gate import diff as reader
from dpcalc.gate import workers
from dpcalc.gate.check import Demands, check
from dpcalc.gate.costs import Costs, Fit
from dpcalc.gate.diff import raised_limits, regressions
from dpcalc.gate.lock import Lock, LockEntry, lock_problems
from dpcalc.gate.policy import NO_POLICY, Policy
from dpcalc.gate.verdict import BaseCost, Change, Limit, Verdict, worst_verdict
from dpcalc.guarantee import Adjacency, Guarantee, Kind
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner import evaluate
from dpcalc.planner.plan import Budget, Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Fixed
from tests.cli.stand_in import Here

LEVELS = Hierarchy(levels=(Level(name="example", count=100, scheme=Fixed(size=10)),))


def plan(*, steps=1, budget=2.0, name="", method="auto"):
    phase = Phase(name="main", hierarchy=LEVELS, mechanism=Gaussian(noise_multiplier=1.0), clip=1, steps=steps)
    return Plan(
        name=name,
        phases=(phase,),
        unit=1,
        adjacency=Adjacency.ADD_REMOVE,
        delta=1e-5,
        budget=None if budget is None else Budget(epsilon=budget),
        method=method,
    )


def answer(epsilon, kind=Kind.UPPER):
    return Guarantee(
        epsilon=epsilon,
        delta=1e-5,
        kind=kind,
        unit="example",
        adjacency=Adjacency.ADD_REMOVE,
        method="pld",
        bound="one-step bound",
    )


def at_most(epsilon):
    return Policy(max_epsilon=Limit(value=epsilon, source="--max-epsilon"))


@pytest.fixture
def files(monkeypatch):
    """Plans or errors by path, in place of files."""
    known = {}

    def load(path, *, key, overrides):
        del key, overrides
        if isinstance(known[path], Exception):
            raise known[path]
        found = SimpleNamespace(plan=known[path], path=path, diagnostics=(), mark=lambda key: (7, len(key)))
        found.accepted = lambda: found
        return found

    monkeypatch.setattr(reader, "load", load)
    return known


@pytest.fixture
def costs(monkeypatch):
    """Guarantees or errors by number of steps, in place of an accountant; `asked` lists the questions."""
    known = SimpleNamespace(by_steps={}, asked=[])

    def cost_of(question, *, method):
        known.asked.append((question, method))
        cost = known.by_steps[question.steps]
        if isinstance(cost, BaseException):
            raise cost
        return cost

    monkeypatch.setattr(evaluate, "guarantee", cost_of)
    monkeypatch.setattr(accounting, "Workers", Here)  # a process of its own would have the real accounting
    monkeypatch.setattr(Costs, "fit", lambda *_: None)
    return known


@pytest.fixture
def result(files, costs):
    """The result for one plan with one cost."""

    def of(cost, *, policy=NO_POLICY, budget=2.0):
        files["a.yaml"] = plan(budget=budget)
        costs.by_steps[1] = cost
        (only,) = check(["a.yaml"], demands=Demands(policy=policy), costs=Costs())
        return only

    return of


def found(result):
    return [(problem.code, problem.severity) for problem in result.problems]


def test_within_the_budget(result):
    passed = result(answer(1.9))
    assert (passed.verdict, found(passed)) == (Verdict.PASSED, [])
    assert passed.limit.value == 2.0


def test_the_comparison_is_unrounded(result):
    assert result(answer(2.0)).verdict is Verdict.PASSED
    over = result(answer(math.nextafter(2.0, 3)))
    assert over.verdict is Verdict.FAILED
    places = [(problem.code, problem.line, problem.column) for problem in over.problems]
    assert places == [("DPC301", 7, len("budget.epsilon"))]


@pytest.mark.parametrize(
    ("budget", "max_epsilon", "limit", "source"),
    [
        (2.0, 1.0, 1.0, "--max-epsilon"),
        (2.0, 3.0, 2.0, "budget.epsilon"),
        (2.0, 2.0, 2.0, "budget.epsilon"),
        (None, 1.0, 1.0, "--max-epsilon"),
    ],
)
def test_the_strictest_limit_holds(result, budget, max_epsilon, limit, source):
    failed = result(answer(2.5), budget=budget, policy=at_most(max_epsilon))
    assert failed.verdict is Verdict.FAILED
    assert (failed.limit.value, failed.limit.source) == (limit, source)
    assert found(failed) == [("DPC301", Severity.ERROR)]


def test_a_limit_from_the_command_line_has_no_place_in_the_file(result):
    assert result(answer(2.5), policy=at_most(1.0)).problems[0].line is None


@pytest.mark.parametrize("budget", [2.0, None])
def test_infinite_fails_with_and_without_a_budget(result, budget):
    failed = result(answer(math.inf), budget=budget)
    assert failed.verdict is Verdict.FAILED
    assert ("DPC205", Severity.ERROR) in found(failed)


@pytest.mark.parametrize("cost", [answer(math.nan), answer(-0.1), answer(0.1, Kind.ESTIMATE), answer(0.1, Kind.LOWER)])
@pytest.mark.parametrize("budget", [2.0, None])
def test_what_is_no_upper_bound_is_no_verdict(result, cost, budget):
    undecided = result(cost, budget=budget)
    assert (undecided.verdict, found(undecided)) == (Verdict.UNDECIDED, [("DPC999", Severity.ERROR)])


def test_a_budget_that_is_not_a_number_passes_nothing(result):
    assert result(answer(0.1), budget=math.nan).verdict is Verdict.FAILED


def test_a_missing_budget_is_a_warning(result):
    passed = result(answer(1.0), budget=None)
    assert (passed.verdict, found(passed)) == (Verdict.PASSED, [("DPC304", Severity.WARNING)])


def test_a_missing_budget_fails_where_one_is_required(result):
    required = Policy(require_budget=True)
    failed = result(answer(1.0), budget=None, policy=required)
    assert (failed.verdict, found(failed)) == (Verdict.FAILED, [("DPC304", Severity.ERROR)])
    both = result(answer(1.0), budget=None, policy=required.combined_with(at_most(5.0)))
    assert both.verdict is Verdict.FAILED


def test_a_limit_from_the_command_line_stands_in_for_a_budget(result):
    assert found(result(answer(1.0), budget=None, policy=at_most(5.0))) == []


@pytest.mark.parametrize(
    ("error", "verdict", "code"),
    [
        (ConvergenceError("did not converge"), Verdict.UNDECIDED, "DPC901"),
        (UnsupportedError("not for shuffling"), Verdict.INVALID, "DPC104"),
        (RecursionError("too deep"), Verdict.UNDECIDED, "DPC999"),
        (MemoryError(), Verdict.UNDECIDED, "DPC904"),
        (OutOfMemoryError("no answer within 4 GB of memory"), Verdict.UNDECIDED, "DPC904"),
        (OutOfTimeError("no answer"), Verdict.UNDECIDED, "DPC902"),
        (NotImplementedError(), Verdict.UNDECIDED, "DPC999"),
    ],
)
def test_an_exception_is_never_yes_or_no(result, error, verdict, code):
    stopped = result(error)
    assert (stopped.verdict, found(stopped)) == (verdict, [(code, Severity.ERROR)])
    assert stopped.cause is error


def test_ctrl_c_is_not_swallowed(result):
    with pytest.raises(KeyboardInterrupt):
        result(KeyboardInterrupt())


def test_a_bad_file_hides_no_other(files, costs):
    wrong = Diagnostic(
        code="DPC101", severity=Severity.ERROR, message="unknown key", path="wrong.yaml", line=1, column=1
    )
    files.update(
        {
            "wrong.yaml": ConfigError([wrong]),
            "over.yaml": plan(steps=2),
            "stuck.yaml": plan(steps=3),
            "fine.yaml": plan(steps=1),
            "-": InputError("empty"),
        }
    )
    costs.by_steps = {1: answer(1.0), 2: answer(3.0), 3: ConvergenceError("stuck")}
    results = check(["wrong.yaml", "over.yaml", "stuck.yaml", "fine.yaml", "-"], demands=Demands(), costs=Costs())
    assert [(one.path, one.verdict) for one in results] == [
        ("wrong.yaml", Verdict.INVALID),
        ("over.yaml", Verdict.FAILED),
        ("stuck.yaml", Verdict.UNDECIDED),
        ("fine.yaml", Verdict.PASSED),
        ("<stdin>", Verdict.INVALID),
    ]
    assert results[0].diagnostics == (wrong,)


def test_equal_plans_are_computed_once_whatever_their_name_budget_and_method(files, costs):
    files.update({"a": plan(name="a", budget=0.5), "b": plan(name="b", budget=2.0, method="rdp"), "c": plan(steps=2)})
    costs.by_steps = {1: answer(1.0), 2: answer(1.5)}
    verdicts = [one.verdict for one in check(["a", "b", "c", "a"], demands=Demands(), costs=Costs())]
    assert verdicts == [Verdict.FAILED, Verdict.PASSED, Verdict.PASSED, Verdict.FAILED]
    assert [(question.steps, method) for question, method in costs.asked] == [(1, "auto"), (2, "auto")]


@pytest.mark.parametrize("max_epsilon", [-1.0, math.nan, math.inf])
def test_a_limit_is_a_finite_number(max_epsilon):
    with pytest.raises(InputError, match="--max-epsilon: expected a finite number >= 0"):
        at_most(max_epsilon)


def test_the_worst_of_several():
    order = [Verdict.PASSED, Verdict.FAILED, Verdict.INVALID, Verdict.UNDECIDED]
    assert worst_verdict([]) is Verdict.PASSED
    for better, other in itertools.pairwise(order):
        assert worst_verdict([other, better]) is worst_verdict([better, other]) is other


@pytest.fixture
def lower_bound(monkeypatch):
    """Set what stands in the place of every lower bound."""

    def of(lower, **changes):
        def with_lower_end(_, main):
            if isinstance(lower, Exception):
                raise lower
            return replace(main, epsilon_lower=lower, **changes)

        monkeypatch.setattr(evaluate, "with_lower_bound", with_lower_end)

    return of


@pytest.mark.parametrize(
    ("bounds", "verdict", "codes"),
    [
        ((1.9, None), Verdict.PASSED, []),  # a loose bound within the budget is a bound within the budget
        ((5e11, 2.1), Verdict.FAILED, ["DPC301"]),
        ((5e11, 2.0), Verdict.UNDECIDED, ["DPC901"]),
        ((5e11, 0.0), Verdict.UNDECIDED, ["DPC901"]),
        ((5e11, None), Verdict.UNDECIDED, ["DPC901"]),
        ((5e11, TimeoutError()), Verdict.UNDECIDED, ["DPC901"]),
        ((math.inf, None), Verdict.FAILED, ["DPC205"]),
    ],
)
def test_a_loose_bound_beyond_the_budget_decides_only_with_a_lower_bound(lower_bound, result, bounds, verdict, codes):
    upper, lower = bounds
    lower_bound(lower)
    told = result(replace(answer(upper), method="rdp"))
    assert (told.verdict, [code for code, _ in found(told)]) == (verdict, codes)


def test_a_missing_answer_says_between_which_numbers(lower_bound, result):
    lower_bound(0.5)
    told = result(replace(answer(5.0), method="rdp"))
    (problem,) = told.problems
    assert problem.message == (
        "epsilon lies between 0.500 and 5.00 (RDP), so it is not known whether it exceeds 2.0; "
        "the PLD accountant has no answer"
    )


def test_lower_bounds_are_computed_where_they_are_wanted(lower_bound, files, costs):
    lower_bound(1.5, tight=True)
    files["a.yaml"] = plan(budget=2.0)
    costs.by_steps[1] = answer(1.6)
    for wanted, lower in ((False, None), (True, 1.5)):
        (told,) = check(["a.yaml"], demands=Demands(lower_bounds=wanted), costs=Costs())
        assert (told.verdict, told.guarantee.epsilon_lower, told.guarantee.tight) == (Verdict.PASSED, lower, wanted)


def test_suggestions_do_not_depend_on_how_fast_the_machine_is(monkeypatch):
    """They were dropped after 20 s by the clock, so that `or steps <= N` came and went with the load."""
    passed = itertools.count(step=30.0)
    monkeypatch.setattr(workers.time, "monotonic", lambda: next(passed))
    costs = Costs()
    assert costs.fit(Fit(plan=accounting.cost_relevant(plan()), quantity="steps", limit=9.0)) is not None
    costs.close()


def config(budget=2.0):
    stated = {"plan": plan(budget=budget), "path": "a.yaml", "section": "", "sources": {}, "files": None}
    return SimpleNamespace(**stated, config_hash="0", mark=lambda _: None)


ALLOWED = Limit(value=10.0, source="budget.max_increase_pct")
STEPS = Change(key="training.steps", old="1", new="2", path="a.yaml", alone=0.9)


@pytest.mark.parametrize(
    ("before", "after", "allowed", "said"),
    [
        (0.0, 0.5, ALLOWED, "epsilon rises, 0 -> 0.500; budget.max_increase_pct allows 10.0"),
        (0.5, math.inf, ALLOWED, "epsilon rises, 0.500 -> inf; budget.max_increase_pct allows 10.0"),
        (1.0, 1.10001, ALLOWED, "epsilon rises by 10.1%, 1.00 -> 1.11; budget.max_increase_pct allows 10.0"),
        (1.0, 1.000002, None, "epsilon rises, 1.00 -> 1.000002"),
        (0.5, 1.0, None, "epsilon rises, 0.500 -> 1.00 (training.steps: 1 -> 2)"),
    ],
)
def test_a_rise_in_words(before, after, allowed, said):
    pair = SimpleNamespace(old=config(), new=config(), name="main", claims=())
    base = BaseCost(name="main", guarantee=answer(before), changes=(STEPS,) if before == 0.5 and after == 1.0 else ())
    (problem,) = regressions(pair, base, answer(after), severity=Severity.WARNING, allowed=allowed)
    assert problem.message == said


@pytest.mark.parametrize(
    ("alone", "without", "effect"),
    [
        (0.8, 1.0, "alone lowers epsilon, 1.00 -> 0.800"),
        (1.2, 1.5, "with the other changes lowers epsilon, 1.50 -> 1.00"),
        (1.2, None, "changes an assumption, and what it does alone is not known"),
        (None, 1.5, "changes an assumption, and what it does alone is not known"),
        (1.2, 1.0, ""),
    ],
)
def test_a_cheaper_claim_in_words(alone, without, effect):
    claim = SimpleNamespace(key="clip", old="task", new="", mark=None, path="a.yaml")
    pair = SimpleNamespace(old=config(), new=config(), name="main", claims=((claim, None),))
    change = Change(key="clip", old="task", new="", path="a.yaml", alone=alone)
    base = BaseCost(name="main", guarantee=answer(1.0), changes=(change,), without={"clip": without})
    told = [problem.message for problem in regressions(pair, base, answer(1.0), severity=Severity.WARNING)]
    said = f"clip: task -> not set {effect}; make sure that the training code changed with it"
    assert told == ([said] if effect else [])


def test_a_budget_that_is_gone_and_a_lock_that_hardly_differs_in_words():
    assert [each.message for each in raised_limits(config(2.0), config(None))] == ["budget.epsilon was 2.0 and is gone"]
    entry = LockEntry(
        config_hash="1", epsilon=0.5, delta=1e-5, unit="example", adjacency="add-remove", group_size=1, sources={}
    )
    (problem,) = lock_problems(Lock(path=f"{Path.cwd()}/x", entries={"a.yaml": entry}), config(), answer(0.500001))
    assert problem.message == "the config is not what dpcalc.lock holds: epsilon 0.500 -> 0.500001"
