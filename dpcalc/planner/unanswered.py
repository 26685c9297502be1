"""For which run an answer is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from dpcalc.errors import ConvergenceError
from dpcalc.planner.describe import mechanism_text, sampling_text
from dpcalc.planner.plan import Plan


@contextmanager
def naming(plan: Plan) -> Iterator[None]:
    """Puts the run before the sentence of a computation that reached no answer."""
    try:
        yield
    except ConvergenceError as error:
        raise ConvergenceError(f"{_case(plan)}: {error}") from error


def _case(plan: Plan) -> str:
    """The run in a few words."""
    first = plan.phases[0]
    others = len(plan.phases) - 1
    return (
        f"{plan.name or 'this run'} ({first.steps} steps, {mechanism_text(first)}, "
        f"{sampling_text(first)}{f'; {others} more phases' if others else ''}; delta {plan.delta:g})"
    )
