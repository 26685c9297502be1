"""The result of `compare`: accountants and bounds side by side, of one config or of several."""

from collections.abc import Sequence

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.words import differing_facts, shared_facts
from dpcalc.report.common import budget_limit, config_names, epsilon_text, path_field, row_fields, units_text
from dpcalc.report.fields import Fields, Output, Table, cells, config_field, json_only, origin_fields
from dpcalc.report.rounding import as_given

COLUMNS = ("method", "bound", "epsilon", "epsilon_lower", "kind", "valid", "note")
Comparisons = Sequence[tuple[Sequence[Row], Loaded]]
"""The rows of each config, and the config."""


def comparison_output(rows: Sequence[Row], loaded: Loaded) -> Output:
    """Return the result of `compare` on one config: epsilons to the safe side, more digits where close to the budget.

    Args:
        rows: one for each accountant and one-step bound.
        loaded: the config.
    """
    plan, blocks = loaded.plan, _blocks(rows, loaded)
    units = units_text(plan.unit_name, plan.group_size)
    return Output(
        command="compare",
        fields=_comparison_fields(rows, loaded),
        blocks=blocks,
        table=Table(
            headline=f"{units}, {plan.adjacency}, delta = {as_given(plan.delta)}, {plan.steps} steps",
            columns=COLUMNS,
            rows=tuple(cells(block, COLUMNS) for block in blocks),
        ),
    )


def comparisons_output(comparisons: Comparisons) -> Output:
    """Return the result of `compare A B`: a table with a row for each accountant and bound, a column for each config.

    Args:
        comparisons: the rows of each config, and the config.
    """
    files = [loaded for _, loaded in comparisons]
    keys = dict.fromkeys((row.method, row.bound) for rows, _ in comparisons for row in rows)
    tables = [{(row.method, row.bound): row for row in rows} for rows, _ in comparisons]
    plans = [loaded.plan for loaded in files]
    facts = shared_facts(plans, without=("sampling", "noise"))
    differences = (differing_facts(plan, plans) for plan in plans)
    names = (", ".join(filter(None, pair)) for pair in zip(config_names(files), differences, strict=True))
    return Output(
        command="compare",
        fields=(json_only("configs", [_comparison_fields(*each) for each in comparisons]),),
        blocks=tuple((path_field(each[1]), *block) for each in comparisons for block in _blocks(*each)),
        table=Table(
            headline="; ".join(filter(None, (f"epsilon of {len(files)} configs", visible(facts)))),
            columns=("method", "bound", *map(visible, names), "note"),
            rows=tuple((*key, *(_epsilon_cell(table.get(key)) for table in tables), "") for key in keys),
        ),
    )


def _blocks(rows: Sequence[Row], loaded: Loaded) -> tuple[Fields, ...]:
    """Return the fields of each row, epsilons compared with the budget of the config."""
    return tuple(row_fields(row, budget_limit(loaded.plan)) for row in rows)


def _comparison_fields(rows: Sequence[Row], loaded: Loaded) -> Fields:
    """Return the JSON-only fields of one config: its name, unit, adjacency, delta, steps, rows and origin."""
    plan = loaded.plan
    return (
        config_field(loaded),
        json_only("unit", plan.unit_name),
        json_only("adjacency", str(plan.adjacency)),
        json_only("delta", plan.delta),
        json_only("steps", plan.steps),
        json_only("rows", list(map(row_fields, rows))),
        *origin_fields(loaded),
    )


def _epsilon_cell(row: Row | None) -> str:
    """Return epsilon, followed by its kind where it is no valid upper bound; "n/a" without a row or a number."""
    if row is None or row.epsilon is None:
        return "n/a"
    epsilon = epsilon_text(row.epsilon, row.kind)
    if row.kind in {Kind.ESTIMATE, Kind.APPROXIMATION}:
        return f"{epsilon} ({row.kind})"
    return epsilon if row.valid else f"{epsilon} (not valid)"
