"""What each choice of a run costs: epsilon with that choice alone made otherwise, computed like the run's own."""

from collections.abc import Iterator
from dataclasses import replace

from dpcalc.guarantee import Adjacency
from dpcalc.planner.advice import changes
from dpcalc.planner.composition import Composition
from dpcalc.planner.evaluate import EVALUATION_WORK, guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.statement import unsampled_epsilon
from dpcalc.planner.vary import with_scaled_noise
from dpcalc.work import optional


def other_choices(composition: Composition) -> tuple[tuple[str, float], ...]:
    """Return (one choice made otherwise, epsilon then: an upper bound) for each that the run allows and a bound covers.

    Those that leave epsilon as it is are left out.
    """
    run, own, found = composition.stated, guarantee(composition).epsilon, []
    if run.tuning is None:
        epsilon, _ = optional("", lambda: unsampled_epsilon(composition), own, units=EVALUATION_WORK)
        found.append((f"if every draw held the {run.unit_name}: no amplification", epsilon))
    for text, changed in _changed(composition, run):
        epsilon, _ = optional("", lambda changed=changed: guarantee(changed).epsilon, own, units=EVALUATION_WORK)  # type: ignore[misc]  # a default of a lambda
        found.append((text, epsilon))
    return tuple((text, epsilon) for text, epsilon in found if epsilon != own)


def _changed(composition: Composition, run: Plan) -> Iterator[tuple[str, Plan | Composition]]:
    if run.is_gaussian and not composition.has_correlated_noise:
        yield from ((f"if you {text}", changed) for text, changed in changes(composition))
    if any(phase.noise_multiplier for phase in run.phases):
        yield "with twice the noise", with_scaled_noise(run, 2.0)
    yield "with half as many steps", replace(run, phases=tuple(replace(x, steps=x.steps // 2) for x in run.phases))
    for phase in run.phases if run.phases[1:] else ():
        yield f"without {phase.name}", replace(run, phases=tuple(each for each in run.phases if each is not phase))
    for adjacency in Adjacency:
        if adjacency is not run.adjacency:
            yield f"against {adjacency}", replace(run, adjacency=adjacency)
    for place, level in enumerate(run.phases[0].hierarchy.levels, start=1):
        if place != run.unit:
            yield f"for one {level.name}", replace(run, unit=place)
    delta = f"{run.delta / 10:.3g}"
    yield f"at delta = {delta}", replace(run, delta=float(delta))
