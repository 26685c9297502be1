"""The result of `simulate`."""

from collections.abc import Iterable

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.report.fields import Field, Output, Table, config_field, json_only, origin_fields, yes_no
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.simulation.checks import MISS_PROBABILITY, Check
from dpcalc.simulation.simulate import Simulation

DIGITS = 5
"""Significant digits of computed and drawn numbers."""


def simulation_output(result: Simulation, loaded: Loaded) -> Output:
    """Return the result of `simulate`: verdict, seed, and a row for each check of computed against drawn.

    Args:
        result: of the simulation.
        loaded: the config of the plan that was simulated.
    """
    contradicted = sum(not check.agrees for check in result.checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(result.checks)} computed numbers contradicted"
    miss = as_given(MISS_PROBABILITY)
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
    return Output(
        command="simulate",
        fields=(
            config_field(loaded),
            Field("agrees", result.agrees),
            Field("seed", result.seed),
            Field("doubt", MISS_PROBABILITY),
            Field("checks", checks, plain=tuple(f"{_quantity(check)}: {_fact_text(check)}" for check in result.checks)),
            json_only("notes", list(result.notes)),
            *origin_fields(loaded),
        ),
        table=Table(
            headline=f"{verdict}   seed {result.seed}, an interval misses with probability <= {miss}",
            columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
            rows=tuple(tuple(_cells(check)) for check in result.checks),
        ),
    )


def _cells(check: Check) -> Iterable[str]:
    """Yield a row's cells: quantity, computed, drawn (note), interval or "", draws, agrees as yes or no, ""."""
    low, high = check.interval
    yield _quantity(check)
    yield _between(*check.computed)
    yield f"{_up(check.observed)}{f' ({visible(check.note)})' if check.note else ''}"
    yield "" if low == high else _between(low, high)
    yield str(check.trials)
    yield yes_no(check.agrees)
    yield ""


def _quantity(check: Check) -> str:
    """Return "PHASE: QUANTITY" of a check, the quantity alone if the phase has no name."""
    quantity = visible(check.quantity)
    return f"{visible(check.phase)}: {quantity}" if check.phase else quantity


def _fact_text(check: Check) -> str:
    """Return "computed A, drawn B[, so between C and D], N draws[ (note)]"; "; NOT the same" if they disagree."""
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
