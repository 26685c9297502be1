"""What a run costs whichever level is protected, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpcalc.config.diagnostics import visible
from dpcalc.report.comparison_view import ComparisonView
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.report.view import attained, guarantee_facts, note_texts, phase_rows

if TYPE_CHECKING:  # these load numpy, which `validate` and a closed gate do without
    from dpcalc.planner.evaluate import Evaluation
    from dpcalc.planner.plan import Plan


def units_view(evaluations: Sequence[Evaluation], plan: Plan) -> ComparisonView:
    """The guarantee of every level, side by side.

    Args:
        evaluations: one for each level, the outermost first.
        plan: the question, for whichever level.
    """
    group = "" if plan.group_size == 1 else f", groups of {plan.group_size}"
    return ComparisonView(
        headline=f"every level{group}, {plan.adjacency}, delta = {as_given(plan.delta)}, {plan.steps} steps",
        columns=("unit", "epsilon", "epsilon_lower", "tight", "method", "note"),
        rows=tuple(
            (
                visible(one.guarantee.unit),
                rounded_up(one.guarantee.epsilon),
                "" if one.guarantee.epsilon_lower is None else rounded_down(one.guarantee.epsilon_lower),
                attained(one.guarantee),
                one.guarantee.method,
                "; ".join(text for label, text in phase_rows(one) if label == "sampling"),
            )
            for one in evaluations
        ),
    )


def unit_facts(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """The guarantee of one level as `key: value` pairs, with how its units are drawn."""
    yield from guarantee_facts(evaluation.guarantee, rounded_up(evaluation.guarantee.epsilon))
    for label, text in phase_rows(evaluation):
        if label == "sampling":
            yield "phases", text


def unit_notes(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """The remarks on every level, each with the level it is about."""
    return tuple(f"{one.guarantee.unit}: {text}" for one in evaluations for text in note_texts(one))
