"""Plans in words: sampling, assumptions."""

from fractions import Fraction

from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, Fixed, Poisson


def sampling_text(phase: Phase) -> str:
    """How one step draws, level by level."""
    return "; then ".join(_level_text(level) for level in phase.hierarchy.levels)


def _level_text(level: Level) -> str:
    """One level's draw in a few words."""
    match level.scheme:
        case Fixed(size=size):
            return f"{size} of {_count(level)} ({level.name}), fixed size"
        case Poisson(probability=rate) if level.is_equal:
            return f"{_number(rate * level.count)} of {level.count} ({level.name}) expected, Poisson"
        case Poisson(probability=rate):
            return f"each of {_count(level)} ({level.name}) with probability {_number(rate)}, Poisson"
        case All():
            return f"all {_count(level)} ({level.name})"


def _count(level: Level) -> str:
    """How many units there are under one parent."""
    return str(level.count) if level.is_equal else f"{level.least} to {level.count}"


def _number(value: Fraction) -> str:
    """A whole number as such, else four digits."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.4g}"


def assumptions(plan: Plan) -> tuple[str, ...]:
    """What must be true of the training run, one sentence each."""
    lines = [
        "the sampler draws exactly as stated, afresh and independently in every step",
        "noise is added to the sum of the clipped vectors, and the divisor is fixed, not the size of the drawn batch",
        "counts, rates and sizes are public and do not depend on the data",
        "tuning and other runs on the same data are not covered",
    ]
    hierarchy = plan.phases[0].hierarchy
    if hierarchy.depth > 1:
        lines.insert(
            1, "removing a unit leaves the units above it in place: a parent does not vanish with its last child"
        )
    if any(isinstance(level.scheme, Fixed) for phase in plan.phases for level in phase.hierarchy.levels):
        lines.insert(1, "counts are those of the larger of the two data sets")
    return tuple(lines)
