"""Verdicts on config files: `check` compares costs with budgets and a base, `diff` with a base; `validate` reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dpcalc.config.load import Loaded
from dpcalc.config.source import Severity
from dpcalc.gate.costs import Costs, Fit, LowerBound, cost_relevant, is_fallback
from dpcalc.gate.diff import (
    PLAIN_READER,
    Case,
    ConfigPair,
    ConfigReader,
    IncreaseRule,
    at_costliest_change,
    base_costs,
    cases,
    comparison_result,
    regressions,
)
from dpcalc.gate.lock import Lock, lock_problems, missing_configs
from dpcalc.gate.policy import NO_POLICY, Policy, strictest_limit
from dpcalc.gate.verdict import BaseCost, Fits, Limit, Problem, Result, Verdict, error_result
from dpcalc.guarantee import Guarantee
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass

MAX_SUGGESTIONS = 10  # files that get suggestions, each up to FIT_SECONDS; people read no more than that


@dataclass(frozen=True, kw_only=True)
class Demands:
    """Requirements on every config file, beside the budget that the file states itself.

    Attributes:
        policy: limits and requirements beside the budgets of the files.
        allow_budget_change: whether a budget may be higher, and a promise weaker, than in the base.
        lock: the reviewed state that every config must be in, or None.
        config_args: CONFIG... as given; None if a search found all configs, so that the lock may hold no other.
        lower_bounds: whether every result shall have a lower bound, also where it changes no verdict.
    """

    policy: Policy = NO_POLICY
    allow_budget_change: bool = False
    lock: Lock | None = None
    config_args: Sequence[str] | None = ()
    lower_bounds: bool = False


def check(
    paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER, demands: Demands, costs: Costs
) -> tuple[Result, ...]:
    """Return a result for each file, in order, then a failed one for each lock entry without a config.

    The first 10 files over their limit get suggestions of values that would fit.

    Results of the files, then failed ones for lock entries without a config. `passed` needs a finite upper bound on
    epsilon, compared unrounded with the strictest limit.
    """
    # In two rounds: only an upper bound tells whether a lower bound can matter. Each round uses all worker processes.
    judged = cases(paths, reader)
    costs.compute_files((case.path, plan) for case in judged for plan in case.plans)
    costs.compute(request for case in judged for request in _lower_bounds(case, costs, demands))
    results = [_judgement(case, costs, demands) for case in judged]
    stale = () if demands.lock is None else missing_configs(judged, demands.lock, config_args=demands.config_args)
    return (*_with_suggestions(judged, results, costs), *stale)


def diff(compared_cases: Sequence[Case], *, costs: Costs) -> tuple[Result, ...]:
    """Return the comparison of each config with its base, in order.

    The plans of all cases are computed first, in worker processes.
    """
    costs.compute_files((case.path, plan) for case in compared_cases for plan in case.plans)
    return tuple(_comparison(case, costs) for case in compared_cases)


def _comparison(case: Case, costs: Costs) -> Result:
    """Return the comparison of a config with its base; with the case's problems if there is no base.

    An unreadable config, or any exception, becomes an `error_result`.
    """
    try:
        if case.pair is not None:
            return comparison_result(case.pair, costs)
        if case.new is not None:
            verdict = _verdict([problem.severity for problem in case.problems], strict=False)
            return Result(path=case.new.path, verdict=verdict, problems=case.problems)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return error_result(case.path, error)
    return error_result(case.path, case.reason)


def _lower_bounds(case: Case, costs: Costs, demands: Demands) -> Iterator[LowerBound]:
    """Yield the request for a case's lower bound if `_wants_lower_bound` says so; nothing on an error."""
    if case.new is None:
        return
    try:
        guarantee = costs.guarantee(case.new.plan)
    except Exception:  # noqa: BLE001  reported where the file is judged
        return
    if _wants_lower_bound(case.new.plan, guarantee, demands):
        yield LowerBound(plan=cost_relevant(case.new.plan), guarantee=guarantee)


def _wants_lower_bound(plan: Plan, guarantee: Guarantee, demands: Demands) -> bool:
    """Return True if epsilon is finite and a lower bound is demanded, or a method looser than pld answered."""
    # A sharp upper bound needs none, and so costs no second computation.
    return guarantee.finite and (demands.lower_bounds or is_fallback(plan, guarantee))


def _judgement(case: Case, costs: Costs, demands: Demands) -> Result:
    """Return the result of a config without suggestions; an `error_result` if it, or its epsilon, is an exception."""
    if case.new is None:
        return error_result(case.path, case.reason)
    try:
        guarantee = _guarantee(case.new.plan, costs, demands)
        base = None if case.pair is None else base_costs(case.pair, costs)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return error_result(case.path, error)
    return _judged_by_costs(case, case.new, guarantee, base, demands)


def _judged_by_costs(case: Case, new: Loaded, guarantee: Guarantee, base: BaseCost | None, demands: Demands) -> Result:
    """Return the result of a config by limit, budget, base and lock; undecided where `_is_undecided` says so."""
    limit = strictest_limit((*_budget_limits("epsilon", new, case.pair, demands), demands.policy.max_epsilon))
    agreed = demands.allow_budget_change
    problems = (
        *(replace(each, severity=Severity.NOTE) if agreed else each for each in case.problems),
        *_limit_problems(new, guarantee, base, limit, demands),
        *_missing_budget(new, limit, demands),
        *_regression_problems(case.pair, guarantee, base, demands),
        *(lock_problems(demands.lock, new, guarantee) if demands.lock else ()),
    )
    is_undecided = _is_undecided(new.plan, guarantee, limit)
    severities = [finding.severity for finding in (*problems, *new.diagnostics)]
    return Result(
        path=new.path,
        verdict=Verdict.UNDECIDED if is_undecided else _verdict(severities, strict=demands.policy.strict),
        guarantee=guarantee,
        limit=limit,
        problems=problems,
        diagnostics=new.diagnostics,
        base=base,
    )


def _verdict(severities: Iterable[Severity], *, strict: bool) -> Verdict:
    """Return failed for an error of gate or config layer, if `strict` also for a warning, else passed."""
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return Verdict.PASSED if failing.isdisjoint(severities) else Verdict.FAILED


def _guarantee(plan: Plan, costs: Costs, demands: Demands) -> Guarantee:
    """Return a plan's upper bound, with a lower bound if `_wants_lower_bound`; raise the exception stored for it."""
    guarantee = costs.guarantee(plan)
    return costs.with_lower_bound(plan, guarantee) if _wants_lower_bound(plan, guarantee, demands) else guarantee


def _budget_limits(
    key: Literal["epsilon", "max_increase_pct"], new: Loaded, pair: ConfigPair | None, demands: Demands
) -> Iterator[Limit]:
    """Yield a limit of the budgets of a config and, unless budgets may change, of its base; nothing where not set."""
    yield from _budget_limit(key, new, "")
    # The limit of the base counts too: a change cannot loosen the limit by which it is judged.
    if pair is not None and not demands.allow_budget_change:
        yield from _budget_limit(key, pair.old, f" of {pair.name}")


def _budget_limit(key: Literal["epsilon", "max_increase_pct"], loaded: Loaded, suffix: str) -> Iterator[Limit]:
    """Yield a limit of a config's budget if it is set; `suffix` follows its key in messages."""
    budget = loaded.plan.budget
    limits = {} if budget is None else {"epsilon": budget.epsilon, "max_increase_pct": budget.max_increase_pct}
    value = limits.get(key)
    if value is not None:
        yield Limit(value=value, source=f"budget.{key}{suffix}")


def _limit_problems(
    new: Loaded, guarantee: Guarantee, base: BaseCost | None, limit: Limit | None, demands: Demands
) -> Iterator[Problem]:
    """Yield the gravest of: epsilon infinite (DPC205), undecided (DPC901), over the limit (DPC301), near it (DPC302).

    Near, a warning, is above `warn_at_pct` of the limit.
    """
    share = demands.policy.warn_at_pct
    mark = new.mark("budget.epsilon") if limit and limit.source == "budget.epsilon" else None
    # The gravest alone: an infinite epsilon is over every limit, and one over the limit is near it, too.
    if not guarantee.finite:
        yield at_costliest_change(Problem(code="DPC205", severity=Severity.ERROR), base)
    elif limit is not None and _is_undecided(new.plan, guarantee, limit):
        numbers = {"lower": guarantee.epsilon_lower or 0.0, "upper": guarantee.epsilon, "limit": limit.value}
        yield Problem(code="DPC901", severity=Severity.ERROR, mark=mark, detail=guarantee.method, numbers=numbers)
    elif limit is not None and not guarantee.epsilon <= limit.value:
        yield at_costliest_change(Problem(code="DPC301", severity=Severity.ERROR, mark=mark), base)
    elif limit is not None and share is not None and guarantee.epsilon > limit.value * share / 100:
        near = Problem(code="DPC302", severity=Severity.WARNING, mark=mark, numbers={"warn_at_pct": share})
        yield at_costliest_change(near, base)


def _is_undecided(plan: Plan, guarantee: Guarantee, limit: Limit | None) -> bool:
    """Return True if a finite but loose upper bound is over the limit and no lower bound is.

    Loose bounds are those of `is_fallback`.
    """
    # A loose upper bound above the limit is no verdict: the exact epsilon may be on either side of it.
    if limit is None or not guarantee.finite or guarantee.epsilon <= limit.value or not is_fallback(plan, guarantee):
        return False
    return guarantee.epsilon_lower is None or guarantee.epsilon_lower <= limit.value


def _missing_budget(new: Loaded, limit: Limit | None, demands: Demands) -> Iterator[Problem]:
    """Yield DPC304 for a file without budget: an error if the policy requires one, a warning if nothing limits it."""
    if new.plan.budget is None and demands.policy.require_budget:
        yield Problem(code="DPC304", severity=Severity.ERROR)
    elif limit is None:
        yield Problem(code="DPC304", severity=Severity.WARNING)


def _regression_problems(
    pair: ConfigPair | None, guarantee: Guarantee, base: BaseCost | None, demands: Demands
) -> Iterator[Problem]:
    """Yield the ways in which a config is worse than its base; nothing without a base.

    A rise of epsilon is judged by the strictest `max_increase_pct` of file, policy and, unless budgets may change,
    base. Up to that limit it is a warning, unless base or policy of the base state one, or budgets may change: then a
    note.
    """
    if pair is None or base is None:
        return
    limits = (*_budget_limits("max_increase_pct", pair.new, pair, demands), demands.policy.max_increase_pct)
    of_base = pair.old.plan.budget is not None and pair.old.plan.budget.max_increase_pct is not None
    rule = IncreaseRule(
        severity=Severity.WARNING,
        allowed=strictest_limit(limits),
        is_agreed=of_base or demands.policy.permits_increase or demands.allow_budget_change,
        allow_budget_change=demands.allow_budget_change,
    )
    yield from regressions(pair, base, guarantee, rule)


def _with_suggestions(files: Sequence[Case], results: Sequence[Result], costs: Costs) -> tuple[Result, ...]:
    """Return the results in order, the first 10 over their limit with suggestions of values that would fit.

    An infinite epsilon is over every limit.
    """
    # After all verdicts, with the time that is left: a suggestion that comes too late changes none of them.
    requests: dict[int, tuple[Fit, ...]] = {}
    for index, (case, result) in enumerate(zip(files, results, strict=True)):
        over = any(problem.code in {"DPC205", "DPC301"} for problem in result.problems)
        if over and case.new is not None and result.limit is not None and len(requests) < MAX_SUGGESTIONS:
            requests[index] = tuple(_fit_requests(cost_relevant(case.new.plan), result.limit.value))
    costs.compute(request for fits in requests.values() for request in fits)
    return tuple(
        replace(result, fits=_suggestions(requests[index], costs)) if index in requests else result
        for index, result in enumerate(results)
    )


def _fit_requests(plan: Plan, limit: float) -> Iterator[Fit]:
    """Yield the requests for values that fit a limit: the noise, then for a plan with one phase the steps."""
    yield Fit(plan=plan, quantity="sigma", limit=limit)
    # Of several phases nobody knows which one should become shorter.
    if len(plan.phases) == 1:
        yield Fit(plan=plan, quantity="steps", limit=limit)


def _suggestions(requests: Sequence[Fit], costs: Costs) -> Fits:
    """Return the noise and steps that would fit, or a noise factor for several phases; None where not computed."""
    # A factor for several phases: their noises keep their ratios.
    # In the order of `_fit_requests`.
    noise, *others = (costs.fit(request) for request in requests)
    if len(requests[0].plan.phases) > 1:
        return Fits(noise_factor=noise)
    steps = int(others[0]) if others and others[0] else None
    return Fits(noise_multiplier=noise, steps=steps)


# Validation, which computes nothing.


def validate(paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER) -> tuple[Result, ...]:
    """Return one result for each file, in order: passed if it can be read, else an error; no base is compared.

    Results with the verdict `passed`, `invalid` or `undecided`.
    """
    return tuple(
        error_result(case.path, case.reason)
        if case.new is None
        else Result(path=case.new.path, verdict=Verdict.PASSED, diagnostics=case.new.diagnostics)
        for case in cases(paths, replace(reader, base=""))
    )
