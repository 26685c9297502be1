"""What a plan costs: the guarantee, what other accountants say, and what the reader must know."""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.guarantee import Guarantee, Row
from dpcalc.planner.plan import Plan


@dataclass(frozen=True, kw_only=True)
class PhaseSummary:
    """What one phase's sampling means for the protected unit.

    Attributes:
        name: the user's word for the phase.
        steps: noisy releases.
        noise_multiplier: as configured.
        clip: name of the clipping level, "batch" for the whole batch.
        sampling: one line in words, e.g. "32 of 1200 tasks, then 5 of 20 examples, fixed size".
        inclusion: exact probability that a step draws the protected unit.
        shift: s of the one-step bound, in clip norms.
        distances: d_1..d_p of the one-step bound, in clip norms (direction D||D').
        distances_swapped: d'_1..d'_p (direction D'||D).
    """

    name: str
    steps: int
    noise_multiplier: float
    clip: str
    sampling: str
    inclusion: Fraction
    shift: int
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The answer to "what does this plan cost".

    Attributes:
        guarantee: the reported number.
        alternatives: what other accountants and bounds say, valid first, ascending.
        steps: noisy releases in all.
        phases: one summary a phase.
        assumptions: one sentence each, without which the guarantee does not hold.
        notes: one sentence each, worth the reader's attention (comparison with other tools, advice).
    """

    guarantee: Guarantee
    alternatives: tuple[Row, ...]
    steps: int
    phases: tuple[PhaseSummary, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


def evaluate(plan: Plan, *, method: str | None = None) -> Evaluation:
    """Cost of a plan by one accountant (the plan's own by default) with a few alternatives beside it."""
    raise NotImplementedError


def guarantee(plan: Plan, *, method: str | None = None) -> Guarantee:
    """Only the guarantee of a plan: what a gate needs."""
    raise NotImplementedError
