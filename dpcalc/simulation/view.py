"""The result of a simulation as facts, a table and JSON."""

from collections.abc import Iterable

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.planner.plan import Plan
from dpcalc.report.comparison import ComparisonView
from dpcalc.report.json_parts import diagnostic_fields, document
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.report.view import yes_no
from dpcalc.simulation.checks import MISS_PROBABILITY, Check
from dpcalc.simulation.simulate import Simulation

DIGITS = 5
"""Significant digits of computed and drawn numbers."""


def simulation_facts(result: Simulation, plan: Plan) -> str:
    """Return a simulation as `key: value` lines: name, agrees, seed, doubt, and one `checks` line a check.

    Args:
        result: of the simulation.
        plan: that was simulated; its name is the first line.
    """
    facts = [("name", visible(plan.name))] if plan.name else []
    facts += [("agrees", yes_no(result.agrees)), ("seed", str(result.seed))]
    facts += [("doubt", as_given(MISS_PROBABILITY))]
    facts += [("checks", f"{_quantity(check)}: {_fact_text(check)}") for check in result.checks]
    return "".join(f"{key}: {value}\n" for key, value in facts)


def simulation_view(result: Simulation) -> ComparisonView:
    """Return a simulation as a table with a verdict above it, one row for each check."""
    contradicted = sum(not check.agrees for check in result.checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(result.checks)} computed numbers contradicted"
    miss = as_given(MISS_PROBABILITY)
    return ComparisonView(
        headline=f"{verdict}   seed {result.seed}, an interval misses with probability <= {miss}",
        columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
        rows=tuple(tuple(_cells(check)) for check in result.checks),
    )


def _cells(check: Check) -> Iterable[str]:
    """Yield the seven cells of a row: quantity, computed, drawn (note), interval or "", draws, agrees, ""."""
    low, high = check.interval
    yield _quantity(check)
    yield _between(*check.computed)
    yield f"{_up(check.observed)}{f' ({visible(check.note)})' if check.note else ''}"
    yield "" if low == high else _between(low, high)
    yield str(check.trials)
    yield yes_no(check.agrees)
    yield ""


def _quantity(check: Check) -> str:
    """Return the name of the number that was checked, after that of its phase."""
    quantity = visible(check.quantity)
    return f"{visible(check.phase)}: {quantity}" if check.phase else quantity


def _fact_text(check: Check) -> str:
    """Return the computed and the drawn number with interval, draws and note, as one fact."""
    low, high = check.interval
    between = "" if low == high else f", so between {_down(low)} and {_up(high)}"
    note = f" ({visible(check.note)})" if check.note else ""
    verdict = "" if check.agrees else "; NOT the same"
    computed = _between(*check.computed)
    return f"computed {computed}, drawn {_up(check.observed)}{between}, {check.trials} draws{note}{verdict}"


def _between(low: float, high: float) -> str:
    """Format an interval as "low to high", rounded outwards; as one number where both ends are equal."""
    return _up(high) if low == high else f"{_down(low)} to {_up(high)}"


def _up(value: float) -> str:
    """Format a number rounded up to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_up(value, digits=DIGITS)


def _down(value: float) -> str:
    """Format a number rounded down to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_down(value, digits=DIGITS)


# JSON, in the format of `report.json`.


def simulation_json(result: Simulation, loaded: Loaded) -> str:
    """Return the output of `simulate --json`, one JSON document.

    Args:
        result: of the simulation.
        loaded: the config of the plan that was simulated.
    """
    checks = [
        {
            "phase": check.phase,
            "quantity": check.quantity,
            "computed_lower": check.computed[0],
            "computed_upper": check.computed[1],
            "observed": check.observed,
            "observed_lower": check.interval[0],
            "observed_upper": check.interval[1],
            "draws": check.trials,
            "note": check.note,
            "agrees": check.agrees,
        }
        for check in result.checks
    ]
    fields = {
        "config": {"path": loaded.path, "name": loaded.plan.name},
        "agrees": result.agrees,
        "seed": result.seed,
        "doubt": MISS_PROBABILITY,
        "checks": checks,
        "notes": list(result.notes),
        "diagnostics": diagnostic_fields(loaded.diagnostics),
        "config_hash": loaded.config_hash,
    }
    return document("simulate", fields)
