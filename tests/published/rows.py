"""The rows of values.csv: published numbers with the plan each speaks of.

`source` says who printed the number. "dpcalc reference values" were computed by programs independent of this package
(inversion of the characteristic function, or closed forms) when its theory was worked out, and are printed to the last
exact digit. `levels` lists count, scheme and size or rate, outermost first; `unit` and `clip` are level numbers.
`tolerance` is half the last printed digit. `claim` is how our number must stand to the printed one:

    equal    no further from it than the tolerance
    upper    it is exact: ours is never below it, and at most a thousandth above
    glued    as upper, but the value is itself converged to 1e-4 only
    lower    it is exact: ours is never above it, and at most a hundredth below
    above    it is no bound: ours is larger
    at most  a looser accountant printed it: ours is not larger
"""

import csv
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpcalc.planner.plan import Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.runs import run_of

UNUSED_DELTA = 0.5  # of a row that asks for no epsilon


@dataclass(frozen=True)
class Published:
    """One printed number, the question it answers, and the plan."""

    source: str
    where: str
    quantity: str
    method: str
    value: Fraction
    printed: str
    tolerance: Fraction
    claim: str
    epsilon: float | None
    plan: Plan


def read():
    with Path(__file__).with_name("values.csv").open(encoding="utf-8", newline="") as file:
        return [_published(row) for row in csv.DictReader(file)]


def hierarchy(text: str) -> Hierarchy:
    """Levels from "count scheme [size or rate]" separated by semicolons."""
    levels = []
    for number, part in enumerate(text.split(";"), start=1):
        count, scheme, *size = part.split()
        levels.append(Level(name=f"level {number}", count=int(count), scheme=_scheme(scheme, *size)))
    return Hierarchy(levels=tuple(levels))


def _scheme(name: str, size: str = "") -> All | Fixed | Poisson:
    match name:
        case "fixed":
            return Fixed(size=int(size))
        case "poisson":
            return Poisson(probability=Fraction(size))
        case "all":
            return All()
    raise ValueError(name)


def _published(row: dict[str, str]) -> Published:
    plan = run_of(
        hierarchy(row["levels"]),
        noise=float(row["noise_multiplier"]),
        **{key: int(row[key]) for key in ("clip", "steps", "unit")},
        adjacency=row["adjacency"],
        delta=float(row["delta"] or UNUSED_DELTA),
    )
    return Published(
        source=row["source"],
        where=row["where"],
        quantity=row["quantity"],
        method=row["method"],
        value=Fraction(row["value"]),
        printed=row["value"],
        tolerance=Fraction(row["tolerance"]),
        claim=row["claim"],
        epsilon=float(row["epsilon"]) if row["epsilon"] else None,
        plan=plan,
    )
