"""Views as plain text: `key: value` lines for pipes and logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcalc.report.comparison import ComparisonView, unit_facts
from dpcalc.report.view import ResultView

if TYPE_CHECKING:
    from dpcalc.planner.evaluate import Evaluation


def evaluation_lines(view: ResultView) -> str:
    """Return the facts of a result as `key: value` lines; facts without a value are left out."""
    return _fact_lines(view.facts)


def comparison_lines(view: ComparisonView) -> str:
    """Return a table as one block of `key: value` lines for each row, separated by empty lines."""
    return fact_blocks([tuple(zip(view.columns, row, strict=True)) for row in view.rows])


def units_lines(evaluations: Sequence[Evaluation]) -> str:
    """Return the guarantee of each level as one block of `key: value` lines, separated by empty lines."""
    return fact_blocks([tuple(unit_facts(evaluation)) for evaluation in evaluations])


def fact_blocks(facts: Sequence[tuple[tuple[str, str], ...]]) -> str:
    """Return each sequence of facts as a block of `key: value` lines, the blocks separated by empty lines."""
    return "\n".join(map(_fact_lines, facts))


def _fact_lines(facts: tuple[tuple[str, str], ...]) -> str:
    """Return (key, text) as `key: text` lines, without the facts whose text is empty."""
    return "".join(f"{key}: {value}\n" for key, value in facts if value)
