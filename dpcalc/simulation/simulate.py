"""Monte Carlo simulation of one plan: all checks of its sampling and of its privacy losses."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.planner.composition import composed, is_noiseless, releasing_phases
from dpcalc.planner.plan import Plan
from dpcalc.simulation.batches import batch_checks
from dpcalc.simulation.checks import Check, Effort, RandomSource
from dpcalc.simulation.losses import loss_checks
from dpcalc.simulation.releases import no_release_reason, release_checks
from dpcalc.work import SECOND, allowance

_CHOICE_WORK = 2.0 * SECOND  # for the unit that decides
_TOO_MUCH = "to find the unit that decides needs more work than one answer may take"


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        seed: of the random numbers.
        checks: the numbers that were compared.
        notes: one sentence about numbers that were not compared, with the reason; or none.
    """

    seed: int
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True if no check contradicts a computed number."""
        return all(check.agrees for check in self.checks)


def simulate_plan(plan: Plan, effort: Effort, *, on_progress: Callable[[float], None]) -> Simulation:
    """Return checks of every phase's sampling and, by whole releases or losses, of delta both ways; notes say why not.

    Args:
        plan: a training run.
        effort: seed and number of draws.
        on_progress: is called with the share of the work that is done, from 0 to 1.

    Returns:
        Checks of every phase and of delta in both directions; the same seed gives the same result. Without checks of
        delta, and with a note, where no losses can be drawn.

    Raises:
        InputError: a step draws more units than can be drawn.
        ConvergenceError: there is no certified delta to compare with.
    """
    source = RandomSource(rng=np.random.default_rng(effort.seed), effort=effort, on_progress=on_progress)
    composition = composed(plan)
    reason, notes = _no_losses_reason(composition.plan), []
    protected = composition.likeliest
    if not reason:
        try:
            with allowance(_CHOICE_WORK):
                protected = composition.costliest()[0]
        except WorkExceededError:
            reason = _TOO_MUCH
    checks: list[Check] = []
    for index, phase in enumerate(plan.phases):
        part = source.part(0, 2).part(index, len(plan.phases))
        if phase.hierarchy.spans_steps:
            scheme = phase.hierarchy.level(1).scheme.name
            notes.append(f"no batches of {phase.name} are drawn: `{scheme}` does not say which units are in a step")
        else:
            checks += batch_checks(plan, protected, index, part)
        if phase.is_correlated:
            why = no_release_reason(plan, phase)
            checks += () if why else release_checks(plan, phase, part)
            notes += [f"no release of {phase.name} is drawn: {why}"] if why else []
    if not reason:
        try:
            checks += loss_checks(composition, protected, source.part(1, 2))
        except UnsupportedError as error:
            reason = str(error)
    notes += [f"no privacy loss is drawn: {reason}"] if reason else []
    return Simulation(seed=effort.seed, checks=tuple(checks), notes=tuple(notes))


def _no_losses_reason(plan: Plan) -> str:
    """Return why no losses are drawn: no noise, noise not Gaussian, unit never drawn; "" if they can be."""
    if is_noiseless(plan):
        return "without noise it is infinite"
    if not plan.is_gaussian:
        return "that is done for Gaussian noise only"
    return "" if releasing_phases(plan) else "no step draws the protected unit"
