"""What a plan costs for several units together, from what it costs for one: valid for every mechanism, rarely tight.

Change the units one after the other: D = D_0, D_1, ..., D_k = D'. With delta(e) of one unit, for every e,

    H_{e^{k e}}(D || D') <= delta(e) (1 + e^e + ... + e^{(k-1) e})

(group privacy; Vadhan 2017, "The Complexity of Differential Privacy", Lemma 2.2, bounds the sum by k e^{k e}). Every
link must keep to the bound of one unit. Replacing and zeroing leave all sizes alone. Removing lets the later links
begin with fewer units: if those are drawn each by itself, or all, rates stay and distances shrink; if a fixed number is
drawn, distances stay and the rate is at most size / (count - k + 1), with which all links are computed: (K) grows with
each of them (release/bounds). Other draws of the unit, fixed ones that are held, and tasks constructed from classes are
not claimed.
"""

import math
from dataclasses import replace

from dpcalc.adjacency import Adjacency
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.search import estimate
from dpcalc.sampling.schemes import All, Fixed, Poisson

_CLOSE = 1e-3  # how near the whole delta is used up, in its log
_SAFE = 1e-6  # what the estimate may be too low by


def chain_epsilon(plan: Plan, size: int) -> float | None:
    """Epsilon for any `size` units of a plan together, at the plan's delta.

    Args:
        plan: a training run with a finite guarantee for one unit; what it says of groups does not matter.
        size: k >= 1.

    Returns:
        An upper bound, `inf` where none was found; None where the chain proves nothing: fewer units than the group
        removes, removal from frames of unequal sizes, or draws of the unit that are not all fixed or all not.
    """
    plan = replace(plan, group_size=1)
    if size == 1:
        return guarantee(plan, method="auto").epsilon
    link = _link(plan, size)
    if link is None:
        return None

    def spent(log_delta: float) -> float:
        """Log of the delta that the chain needs when each link has its own, by the estimate."""
        return log_delta + _log_links(size, estimate(_asked(link, log_delta)).value)

    goal = math.log(plan.delta) - _SAFE
    low, high = goal - 1.0, goal
    while spent(low) > goal:
        low, high = low - 2 * (high - low), low
        if low < -600:
            return math.inf
    low, _ = bracket_root(lambda x: spent(x) - goal, low, high, tolerance=_CLOSE / abs(low))
    return _certified(link, low, size, plan.delta)


def _certified(link: Plan, log_delta: float, size: int, delta: float) -> float:
    """The chain at a link's delta, or a little below it, with certified numbers."""
    for less in (0.0, 0.01, 0.1, 1.0):
        epsilon = guarantee(_asked(link, log_delta - less), method="auto").epsilon
        if log_delta - less + _log_links(size, epsilon) <= math.log(delta):
            return size * epsilon
    return math.inf


def _asked(link: Plan, log_delta: float) -> Plan:
    """A link with its own delta."""
    return replace(link, delta=math.exp(log_delta), method="auto")


def _log_links(size: int, epsilon: float) -> float:
    """Log of 1 + e^epsilon + ... + e^{(size - 1) epsilon}; never below it by more than rounding."""
    terms = [number * epsilon for number in range(size)]
    return terms[-1] + math.log(math.fsum(math.exp(term - terms[-1]) for term in terms)) + 1e-12


def _link(plan: Plan, size: int) -> Plan | None:
    """The plan whose bound every link of the chain keeps to, or None."""
    if plan.adjacency is not Adjacency.ADD_REMOVE:
        return plan
    hierarchies = [phase.hierarchy for phase in plan.phases]
    schemes = [hierarchy.level(plan.unit).scheme for hierarchy in hierarchies]
    if any(hierarchy.episodes is not None for hierarchy in hierarchies):
        return None
    if all(isinstance(scheme, Poisson | All) for scheme in schemes):
        return plan
    if any(level.redraw_every > 1 for hierarchy in hierarchies for level in hierarchy.levels):
        return None
    sizes = [scheme.size for scheme in schemes if isinstance(scheme, Fixed)]
    level = hierarchies[0].level(plan.unit)
    alike = len(sizes) == len(schemes) and level.is_equal and hierarchies[0].tree is None
    if not alike or max(sizes) > level.count - size:
        return None
    return replace(plan, phases=tuple(_smaller(phase, plan.unit, size - 1) for phase in plan.phases))


def _smaller(phase: Phase, unit: int, fewer: int) -> Phase:
    """A phase over data with fewer units of the protected level under each parent."""
    levels = list(phase.hierarchy.levels)
    level = levels[unit - 1]
    levels[unit - 1] = replace(level, count=level.count - fewer, least=level.count - fewer)
    return replace(phase, hierarchy=replace(phase.hierarchy, levels=tuple(levels)))
