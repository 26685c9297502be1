"""Which protected unit decides, by a bound that is cheap."""

from dpcalc.accountants.conversion import Best, trimmed_epsilon
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import BACKWARD, FORWARD, Alternative, alternatives, releases
from dpcalc.release.tree import step_counts


def deciding(plan: Plan, direction: str = "") -> tuple[Alternative, Best]:
    """The protected unit that costs most by the moment bound, and the bound in its costlier direction.

    Args:
        plan: one that releases something and is not noiseless.
        direction: one of `releases`, to look at no other unit than the one it names; "" looks at all.
    """
    trees = releases(plan).releases
    named = {name: one for one in alternatives(plan) for name in (one.named(FORWARD), one.named(BACKWARD))}
    only = named.get(direction)
    bests = {
        name: trimmed_epsilon(step_counts(trees[name]), delta=plan.delta)
        for name, one in named.items()
        if only is None or one is only
    }
    costliest = max(bests, key=lambda name: bests[name].value)
    return named[costliest], bests[costliest]
