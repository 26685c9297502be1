"""What each phase's sampling means for the protected unit."""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.describe import mechanism_text, sampling_text
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import alternative_of, chosen, likeliest
from dpcalc.release.timed import Timed


@dataclass(frozen=True, kw_only=True)
class PhaseSummary:
    """What one phase's sampling means for the protected unit.

    Attributes:
        name: the user's word for the phase.
        steps: noisy releases.
        mechanism: its type and parameters in words.
        noise_multiplier: as configured; None where the mechanism has none.
        clip: name of the clipping level, "batch" for the whole batch.
        clips: whether anything is clipped.
        sampling: one line in words.
        inclusion: exact probability that a step draws the protected unit.
        shift: s of the one-step bound, in clip norms; None but for Gaussian noise.
        distances: d_1..d_p of the one-step bound, in clip norms (direction D||D'); () but for Gaussian noise.
        distances_swapped: d'_1..d'_p (direction D'||D).
        hold: steps for which one draw of the protected level is held.
        revealed: (rate, steps) of draws above it that are held for longer.
        steps_of_a_pass: steps in which the protected unit takes part once; 1 without a shuffle.
        also: noise multipliers of the other Gaussian sums that a step releases.
        joint_noise_multiplier: of all of them as one; None but for Gaussian noise.
    """

    name: str
    steps: int
    mechanism: str
    noise_multiplier: float | None
    clip: str
    sampling: str
    inclusion: Fraction
    shift: int | None
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]
    hold: int = 1
    revealed: tuple[tuple[Fraction, int], ...] = ()
    steps_of_a_pass: int = 1
    also: tuple[float, ...] = ()
    joint_noise_multiplier: float | None = None
    clips: bool = True


def summaries(plan: Plan, direction: str) -> tuple[PhaseSummary, ...]:
    """Every phase, seen from the protected unit that decides.

    Args:
        plan: a training run.
        direction: which of `releases` decides; "" takes the likeliest unit.
    """
    protected = alternative_of(plan, direction) or likeliest(plan)
    where = f"; costliest: {protected.place}" if protected.place else ""
    return tuple(
        _summary(phase, timed, sampling_text(phase) + where)
        for phase, timed in zip(plan.phases, chosen(plan, protected), strict=True)
    )


def _summary(phase: Phase, timed: Timed, sampling: str) -> PhaseSummary:
    """One phase in words and distances."""
    bound = timed.bound
    told = isinstance(phase.mechanism, Gaussian)  # distances are those of Gaussian mixtures
    return PhaseSummary(
        name=phase.name,
        steps=phase.steps,
        mechanism=mechanism_text(phase),
        noise_multiplier=phase.noise_multiplier,
        clip=phase.clip_names[phase.clip],
        sampling=sampling,
        inclusion=bound.inclusion,
        shift=bound.shift if told else None,
        distances=bound.distances if told else (),
        distances_swapped=bound.distances_swapped if told else (),
        hold=timed.hold,
        revealed=timed.revealed,
        steps_of_a_pass=timed.steps_of_a_pass,
        also=phase.mechanism.also if isinstance(phase.mechanism, Gaussian) else (),
        joint_noise_multiplier=phase.gaussian.noise_multiplier if told else None,
        clips=phase.clips,
    )
