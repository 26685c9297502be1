"""Which noise, how many steps, which rate meets a target epsilon.

The search runs on the inversion estimate; what is returned was checked with the certified accountant, and so
was the neighbour that fails.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcalc.errors import ConvergenceError, InputError
from dpcalc.guarantee import Guarantee
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.evaluate import guarantee, with_lower_end
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import releasing_phases
from dpcalc.planner.search import NoSolution, Value, estimate, largest_whole
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, Fixed, Poisson

FINEST = 1e-5  # relative distance of a returned real number from the neighbour that fails, at first
_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e9
_MOST_STEPS = 10**15


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A value that meets the target, and its neighbour that does not.

    Attributes:
        name: "noise_multiplier", "steps" or "rate"; "noise_multiplier factor" where all phases were scaled.
        value: noise_multiplier float; steps int; rate Fraction (poisson) or int size (fixed).
        key: the config key that holds it: "noise_multiplier", "steps", "rate" or "size".
        epsilon: an upper bound at the value, at most the target.
        target: what was asked.
        fails_at: a neighbouring value whose certified bound is above the target; None if every larger value meets it.
        guarantee: at the value, with its lower end.
        plan: the plan with the value put in.
    """

    name: str
    value: Value
    key: str
    epsilon: float
    target: float
    fails_at: Value | None
    guarantee: Guarantee
    plan: Plan


def solve(plan: Plan, quantity: str, *, target_epsilon: float, phase: str | None = None) -> Solution:
    """The cheapest value of one quantity that meets a target.

    Args:
        plan: everything else.
        quantity: "sigma", "steps" or "rate".
        target_epsilon: > 0.
        phase: the only phase to change; without it the noise of all phases is scaled by one factor, and steps and
            rate need a plan of one phase.

    Returns:
        The smallest noise (within 1e-4 relative), the most steps (exactly), or the largest rate or size.

    Raises:
        InputError: for a quantity, target or phase that does not exist.
        NoSolution: if no value meets the target.
        ConvergenceError: if there is no certified answer.
    """
    if not (math.isfinite(target_epsilon) and target_epsilon > 0):
        raise InputError(f"target epsilon: expected a finite number > 0, got {target_epsilon!r}")
    if quantity not in SOLVABLES:
        raise InputError(f"quantity: expected one of {', '.join(SOLVABLES)}, got {quantity!r}")
    return SOLVABLES[quantity](plan, target_epsilon, phase)


def _chosen(plan: Plan, name: str | None, what: str) -> Phase:
    """The phase to change."""
    if name is None:
        if len(plan.phases) > 1:
            names = ", ".join(phase.name for phase in plan.phases)
            raise InputError(f"{what}: expected --phase with one of {names}; the phases differ")
        return plan.phases[0]
    for phase in plan.phases:
        if phase.name == name:
            return phase
    raise InputError(f"phase: expected one of {', '.join(p.name for p in plan.phases)}, got {name!r}")


def _exchanged(plan: Plan, old: Phase, new: Phase) -> Plan:
    """The plan with one phase exchanged."""
    return replace(plan, phases=tuple(new if phase is old else phase for phase in plan.phases))


def _solve_sigma(plan: Plan, target: float, phase: str | None) -> Solution:
    """The smallest noise multiplier, of one phase or as a common factor."""
    if phase is None and len(plan.phases) > 1:
        name, put = "noise_multiplier factor", _scaled(plan)
        start = 1.0
    else:
        chosen = _chosen(plan, phase, "noise_multiplier")
        name, put = "noise_multiplier", _noise_put(plan, chosen)
        start = chosen.mechanism.noise_multiplier or 1.0
    if not releasing_phases(plan):
        return _solution(put(_LEAST_NOISE), (_LEAST_NOISE, None), name, "noise_multiplier", target)
    low, high = _noise_bracket(lambda value: estimate(put(value)), start, target, name, put)
    root = math.exp(
        bracket_root(lambda x: estimate(put(math.exp(x))) - target, math.log(low), math.log(high), tolerance=1e-8)[0]
    )
    step = FINEST
    value = root * (1 + 2 * step)
    while guarantee(put(value)).epsilon > target:
        step *= 2
        value = root * (1 + 2 * step)
        if step > 0.1:
            raise _apart(name, root)
    fails_at = root
    while guarantee(put(fails_at)).epsilon <= target:
        fails_at *= 1 - step
    return _solution(put(value), (value, fails_at), name, "noise_multiplier", target)


def _apart(name: str, root: float) -> ConvergenceError:
    """Search and certificate do not meet."""
    return ConvergenceError(
        f"{name}: expected the estimate and the certified bound to agree near {root:.6g}, they do not; try --method rdp"
    )


def _noise_put(plan: Plan, chosen: Phase) -> Callable[[float], Plan]:
    """Puts a noise multiplier into one phase."""

    def put(value: float) -> Plan:
        return _exchanged(plan, chosen, replace(chosen, mechanism=replace(chosen.mechanism, noise_multiplier=value)))

    return put


def _scaled(plan: Plan) -> Callable[[float], Plan]:
    """Scales the noise of every phase."""

    def put(factor: float) -> Plan:
        phases = (
            replace(p, mechanism=replace(p.mechanism, noise_multiplier=p.mechanism.noise_multiplier * factor))
            for p in plan.phases
        )
        return replace(plan, phases=tuple(phases))

    return put


def _noise_bracket(
    epsilon: Callable[[float], float], start: float, target: float, name: str, put: Callable[[float], Plan]
) -> tuple[float, float]:
    """(noise whose estimate is above the target, noise whose estimate is not), around a start."""
    high = start
    while epsilon(high) > target:
        high *= 4
        if high > _MOST_NOISE:
            raise NoSolution(name, target, _MOST_NOISE, guarantee(put(_MOST_NOISE)).epsilon)
    low = min(high, start)
    while epsilon(low) <= target:
        high, low = low, low / 4
        if low < _LEAST_NOISE:
            raise NoSolution(name, target, high, guarantee(put(high)).epsilon)
    return low, high


def _solve_steps(plan: Plan, target: float, phase: str | None) -> Solution:
    """The most steps of one phase."""
    chosen = _chosen(plan, phase, "steps")

    def put(value: int) -> Plan:
        return _exchanged(plan, chosen, replace(chosen, steps=value))

    value, fails_at = largest_whole(put, 0, _MOST_STEPS, target, "steps")
    return _solution(put(value), (value, fails_at), "steps", "steps", target)


def _solve_rate(plan: Plan, target: float, phase: str | None) -> Solution:
    """The largest rate (poisson) or size (fixed) of the outermost level that is sampled."""
    chosen = _chosen(plan, phase, "rate")
    for place, level in enumerate(chosen.hierarchy.levels):
        match level.scheme:
            case Fixed():
                return _solve_size(plan, chosen, place, target)
            case Poisson():
                return _solve_probability(plan, chosen, place, target)
            case All():
                continue
    raise InputError("rate: expected a level that is sampled, got only `all`; there is no rate to choose")


def _with_level(plan: Plan, chosen: Phase, place: int, level: Level) -> Plan:
    """The plan with one level of one phase exchanged."""
    levels = (*chosen.hierarchy.levels[:place], level, *chosen.hierarchy.levels[place + 1 :])
    return _exchanged(plan, chosen, replace(chosen, hierarchy=replace(chosen.hierarchy, levels=levels)))


def _solve_size(plan: Plan, chosen: Phase, place: int, target: float) -> Solution:
    """The largest fixed size below the count (the whole is `all`, another scheme)."""
    level = chosen.hierarchy.levels[place]

    def put(value: int) -> Plan:
        return _with_level(plan, chosen, place, replace(level, scheme=Fixed(size=value)))

    value, fails_at = largest_whole(put, 1, max(1, level.least - 1), target, "size")
    return _solution(put(value), (value, fails_at), "rate", "size", target)


def _solve_probability(plan: Plan, chosen: Phase, place: int, target: float) -> Solution:
    """The largest Poisson rate."""
    level = chosen.hierarchy.levels[place]

    def put(value: Fraction) -> Plan:
        return _with_level(plan, chosen, place, replace(level, scheme=Poisson(probability=value)))

    if guarantee(put(Fraction(1))).epsilon <= target:
        return _solution(put(Fraction(1)), (Fraction(1), None), "rate", "rate", target)
    high, low = 1.0, 1.0
    while estimate(put(Fraction(low))) > target:
        high, low = low, low / 8
        if low < 1e-15:
            raise NoSolution("rate", target, low, guarantee(put(Fraction(low))).epsilon)
    ends = bracket_root(
        lambda x: target - estimate(put(Fraction(math.exp(x)))), math.log(low), math.log(high), tolerance=1e-9
    )
    root, step = math.exp(ends[1]), FINEST
    value = Fraction(root * (1 - 4 * step))
    while guarantee(put(value)).epsilon > target:
        step *= 2
        value = Fraction(root * (1 - 4 * step))
        if step > 0.1:
            raise _apart("rate", root)
    fails_at = Fraction(min(1.0, root))
    while guarantee(put(fails_at)).epsilon <= target:
        fails_at = min(Fraction(1), fails_at * Fraction(1 + step))
    return _solution(put(value), (value, fails_at), "rate", "rate", target)


def _solution(solved: Plan, ends: tuple[Value, Value | None], name: str, key: str, target: float) -> Solution:
    """The result for (value that meets the target, neighbour that fails), with the guarantee of the solved plan."""
    main = with_lower_end(solved, guarantee(solved))
    return Solution(
        name=name,
        value=ends[0],
        key=key,
        epsilon=main.epsilon,
        target=target,
        fails_at=ends[1],
        guarantee=main,
        plan=solved,
    )


SOLVABLES: dict[str, Callable[[Plan, float, str | None], Solution]] = {
    "sigma": _solve_sigma,
    "steps": _solve_steps,
    "rate": _solve_rate,
}
