"""What was computed beside what was drawn, as rows of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcalc.config.diagnostics import visible
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.report.view import EvaluationView, truth

if TYPE_CHECKING:  # these load numpy, which other reports do without
    from dpcalc.planner.chance import Check
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.simulate import Simulation

DIGITS = 5


def simulation_view(found: Simulation, plan: Plan, *, doubt: float) -> EvaluationView:
    """The rows of a simulation.

    Args:
        found: what was drawn.
        plan: the question, for its name.
        doubt: probability with which one interval may miss.
    """
    wrong = sum(not check.agrees for check in found.checks)
    verdict = f"{wrong} of {len(found.checks)} computed numbers contradicted by" if wrong else "computed agrees with"
    seed = f"seed {found.seed}; each interval misses with probability at most {as_given(doubt)}"
    sections = [("run", visible(plan.name))] if plan.name else []
    sections += [(_label(check), _text(check)) for check in found.checks]
    return EvaluationView(
        headline=f"{verdict} drawn",
        sections=(*sections, ("chance", seed)),
        facts=tuple(_facts(found, plan, doubt)),
    )


def _facts(found: Simulation, plan: Plan, doubt: float) -> Iterable[tuple[str, str]]:
    """The same as `key: value` pairs."""
    yield "name", visible(plan.name)
    yield "agrees", truth(found.agrees)
    yield "seed", str(found.seed)
    yield "doubt", as_given(doubt)
    for check in found.checks:
        yield "checks", f"{_label(check)}: {_text(check)}"


def _label(check: Check) -> str:
    """What was checked, and in which phase."""
    quantity = visible(check.quantity)
    return f"{visible(check.phase)}: {quantity}" if check.phase else quantity


def _text(check: Check) -> str:
    """Both numbers and the verdict."""
    low, high = check.interval
    between = "" if low == high else f", so between {_down(low)} and {_up(high)}"
    computed = _between(*check.computed)
    note = f" ({visible(check.note)})" if check.note else ""
    verdict = "" if check.agrees else "; NOT the same"
    return f"computed {computed}, drawn {_up(check.observed)}{between}, {check.trials} draws{note}{verdict}"


def _between(low: float, high: float) -> str:
    """One number, or the two ends of an interval."""
    return _up(high) if low == high else f"{_down(low)} to {_up(high)}"


def _up(value: float) -> str:
    """A number rounded up; a whole one as it is."""
    return str(int(value)) if float(value).is_integer() else rounded_up(value, digits=DIGITS)


def _down(value: float) -> str:
    """A number rounded down; a whole one as it is."""
    return str(int(value)) if float(value).is_integer() else rounded_down(value, digits=DIGITS)
