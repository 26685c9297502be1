"""A hash of what a plan means, for lock files and change reports."""

import hashlib
import json
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import Fixed, Poisson, Shuffle, WithReplacement

if TYPE_CHECKING:  # these load numpy
    from dpcalc.mechanisms.kinds import Mechanism
    from dpcalc.planner.repetitions import Repetitions


def fingerprint(plan: Plan) -> str:
    """SHA-256 of everything that the guarantee, its reading and its budget depend on.

    Args:
        plan: the plan.

    Returns:
        64 hexadecimal digits.

    Note:
        The names of the run and of its phases are labels and do not count. Fields are listed one by one:
        a field that a later version adds must stay out of the hash while it has its default, so that
        a lock file outlives an update.
    """
    budget = plan.budget
    content = {
        "phases": [_phase(phase) for phase in plan.phases],
        "unit": plan.unit,
        **({"group_size": plan.group_size} if plan.group_size > 1 else {}),
        "adjacency": plan.adjacency.value,
        "delta": plan.delta.hex(),
        "method": plan.method,
        **({"tuning": _tuning(plan.tuning)} if plan.tuning else {}),
        "budget": budget and {"epsilon": budget.epsilon.hex(), "max_increase_pct": _hex(budget.max_increase_pct)},
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _tuning(repeated: "Repetitions") -> dict[str, str]:
    """How often the run is repeated."""
    return {"distribution": repeated.distribution, "mean": repeated.mean.hex(), "shape": repeated.shape.hex()}


def _phase(phase: Phase) -> dict[str, object]:
    """What one phase means."""
    return {
        "levels": [_level(level) for level in phase.hierarchy.levels],
        **({"episodes": asdict(phase.hierarchy.episodes)} if phase.hierarchy.episodes else {}),
        **({"tree": phase.hierarchy.tree.digest} if phase.hierarchy.tree else {}),
        "mechanism": phase.mechanism.name,
        **_parameters(phase.mechanism),
        "clip": phase.clip,
        "steps": phase.steps,
    }


def _parameters(mechanism: "Mechanism") -> dict[str, object]:
    """The parameters of a mechanism; without other sums it is what it was before there were any."""
    values = asdict(mechanism)
    if not values.get("also", True):
        del values["also"]
    return {key: _meaning(value) for key, value in values.items()}


def _meaning(value: object) -> object:
    """A number without rounding, a word, or a list of such."""
    if isinstance(value, tuple):
        return [_meaning(one) for one in value]
    return value if isinstance(value, str) else float(value).hex()  # type: ignore[arg-type]  # what else there is


def _level(level: Level) -> dict[str, object]:
    """What one level means; rates as exact fractions."""
    scheme = level.scheme
    amount: int | str | None = None
    if isinstance(scheme, (Fixed, WithReplacement, Shuffle)):
        amount = scheme.size
    elif isinstance(scheme, Poisson):
        amount = str(Fraction(scheme.probability))
    least = {} if level.is_equal else {"least": level.least}
    held = {} if level.redraw_every == 1 else {"redraw_every": level.redraw_every}
    dropped = {"drop_last": True} if isinstance(scheme, Shuffle) and scheme.drop_last else {}
    limited = {"at_most": True} if isinstance(scheme, Fixed) and scheme.at_most else {}
    drawn = {"scheme": scheme.name, "amount": amount, **limited, **held, **dropped}
    return {"name": level.name, "count": level.count, **least, **drawn}


def _hex(number: float | None) -> str | None:
    """A float without rounding."""
    return None if number is None else float(number).hex()
