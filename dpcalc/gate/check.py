"""The question whether plans stay within their budgets."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpcalc.config import Loaded, load
from dpcalc.config.diagnostics import Severity
from dpcalc.errors import InputError
from dpcalc.gate.verdict import Limit, Problem, Result, Verdict, stopped
from dpcalc.guarantee import Guarantee, Kind
from dpcalc.planner.evaluate import guarantee as cost_of
from dpcalc.planner.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What holds for every file, beside its own budget.

    Attributes:
        max_epsilon: largest epsilon allowed, >= 0, or None.
        require_budget: whether a file without a budget fails.
    """

    max_epsilon: float | None = None
    require_budget: bool = False

    def __post_init__(self) -> None:
        """Refuse a limit that no number meets or that every number meets."""
        if self.max_epsilon is not None and not 0 <= self.max_epsilon < math.inf:
            raise InputError(f"--max-epsilon: expected a finite number >= 0, got {self.max_epsilon!r}")


def check(
    paths: Sequence[str], *, key: str = "", assignments: Sequence[str] = (), limits: Limits
) -> tuple[Result, ...]:
    """One result a file, in the order given; a bad file never hides another, equal plans are computed once.

    Args:
        paths: config files; "-" is standard input.
        key: dotted path of the section that is the config, or "".
        assignments: `key=value` texts that override every file.
        limits: what holds beside the budgets of the files.

    Returns:
        Results. `passed` needs a finite upper bound, compared unrounded with the strictest limit that there is.
    """
    cost = functools.cache(_cost)
    read = functools.partial(load, key=key, assignments=assignments)
    return tuple(_checked(path, read, limits, cost) for path in paths)


def _cost(question: Plan) -> Guarantee:
    """The guarantee by the accountant of all gates."""
    return cost_of(question, method="pld")


def _checked(path: str, read: Callable[[str], Loaded], limits: Limits, cost: Callable[[Plan], Guarantee]) -> Result:
    """The result of one file."""
    try:
        loaded = read(path)
        guarantee = cost(replace(loaded.plan, name="", budget=None, method="auto"))  # what does not change the cost
        return _judged(loaded, guarantee, limits)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return stopped(path, error)


def _judged(loaded: Loaded, guarantee: Guarantee, limits: Limits) -> Result:
    """The verdict on a guarantee."""
    if guarantee.kind is not Kind.UPPER or not guarantee.epsilon >= 0:  # NaN is not >= 0
        raise ArithmeticError(f"expected an upper bound >= 0, got {guarantee.epsilon!r} ({guarantee.kind})")
    limit = _strictest(loaded.plan, limits)
    problems: list[Problem] = []
    if not guarantee.finite:
        problems.append(Problem(code="DPC205", severity=Severity.ERROR))
    elif limit is not None and not guarantee.epsilon <= limit.epsilon:
        problems.append(Problem(code="DPC301", severity=Severity.ERROR, mark=_mark(loaded, limit)))
    if loaded.plan.budget is None and limits.require_budget:
        problems.append(Problem(code="DPC304", severity=Severity.ERROR))
    elif limit is None:
        problems.append(Problem(code="DPC304", severity=Severity.WARNING))
    failed = any(problem.severity is Severity.ERROR for problem in problems)
    return Result(
        path=loaded.path,
        verdict=Verdict.FAILED if failed else Verdict.PASSED,
        guarantee=guarantee,
        limit=limit,
        problems=tuple(problems),
        diagnostics=loaded.diagnostics,
    )


def _strictest(plan: Plan, limits: Limits) -> Limit | None:
    """The smallest epsilon anyone allows; the file's own where two agree."""
    found = []
    if plan.budget is not None:
        found.append(Limit(epsilon=plan.budget.epsilon, source="budget.epsilon"))
    if limits.max_epsilon is not None:
        found.append(Limit(epsilon=limits.max_epsilon, source="--max-epsilon"))
    return min(found, key=lambda limit: limit.epsilon, default=None)


def _mark(loaded: Loaded, limit: Limit) -> tuple[int, int] | None:
    """Where the limit stands in the file."""
    return loaded.mark("budget.epsilon") if limit.source == "budget.epsilon" else None
