"""Draws of a phase's sampler beside what is computed of them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcalc.numerics.confidence import mean_interval
from dpcalc.planner.chance import DOUBT, Chance, Check, Ends
from dpcalc.planner.joint_counts import JointLaw, joint_law, watched_units
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import Alternative
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import Fixed, Poisson, Scheme, Shuffle, WithReplacement
from dpcalc.sampling.simulate import (
    Drawn,
    LevelCount,
    Watched,
    drawn_schemes,
    mean_drawn,
    simulate,
    steps_of_a_round,
    work,
)

_WORK = 2e7  # units looked at in all rounds, by default
_FEWEST, _MOST = 100, 20_000  # rounds drawn by default
_TAILS = 4  # of a group: up to so many members together


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A phase, and what its sampler drew.

    Attributes:
        name: of the phase, "" if it is the only one.
        hierarchy: its levels.
        drawn: what the sampler drew.
    """

    name: str
    hierarchy: Hierarchy
    drawn: Drawn

    def check(self, quantity: str, computed: Ends, observed: float, interval: Ends, trials: int) -> Check:
        """One computed number beside the observed one."""
        return Check(
            phase=self.name,
            quantity=quantity,
            computed=computed,
            observed=observed,
            interval=interval,
            trials=trials,
        )


def batch_checks(plan: Plan, protected: Alternative, number: int, chance: Chance) -> Iterator[Check]:
    """The draws of one phase.

    Args:
        plan: a training run.
        protected: the unit or group that is watched.
        number: of the phase, from 0.
        chance: where it comes from.

    Yields:
        How often what is protected is drawn, alone and together; what each level draws; the size of a batch.
    """
    phase = plan.phases[number]
    hierarchy = phase.hierarchy
    rounds = int(min(_MOST, max(_FEWEST, _WORK / work(hierarchy))))
    if chance.effort.draws:
        rounds = -(-chance.effort.draws // steps_of_a_round(hierarchy))
    watched = Watched(level=plan.unit, units=watched_units(plan, protected, number))
    drawn = simulate(hierarchy, watched, rounds=rounds, rng=chance.rng, tell=lambda done: chance.tell(done / rounds))
    told = _Phase(name=phase.name if len(plan.phases) > 1 else "", hierarchy=hierarchy, drawn=drawn)
    yield from _members(told, plan, joint_law(plan, protected, number))
    _, schemes = drawn_schemes(hierarchy)
    for level, scheme, count in zip(hierarchy.levels, schemes, drawn.levels, strict=True):
        yield _share(told, level.name, scheme, count)
    yield _batch(told, hierarchy.depth if hierarchy.episodes else max(phase.clip, 1))


def _members(phase: _Phase, plan: Plan, law: JointLaw) -> Iterator[Check]:
    """How often what is protected is drawn."""
    rounds, steps = phase.drawn.members.shape
    counts = phase.drawn.members.sum(axis=1, keepdims=True) if law.of_a_pass else phase.drawn.members
    several = plan.group_size > 1
    many = f"any of {plan.group_size} {plan.unit_name}" if several else f"one {plan.unit_name}"
    when = " in a pass" if law.of_a_pass else ""
    for number in range(1, min(max(law.chances), _TAILS) + 1):
        tail = float(sum(chance for count, chance in law.chances.items() if count >= number))
        if number > 1 and tail * rounds < 1:  # too rare to be seen
            break
        quantity = f"inclusion of {many}" if number == 1 else f"{number} or more draws of {many}"
        mean = float((counts >= number).mean())
        interval = mean_interval(mean, rounds, doubt=DOUBT)
        yield phase.check(quantity + when, (tail if law.is_exact else 0.0, tail), mean, interval, rounds)
    if law.in_a_round is not None and steps > 1:
        mean = float((phase.drawn.members > 0).any(axis=1).mean())
        interval = mean_interval(mean, rounds, doubt=DOUBT)
        quantity = f"inclusion of {many} in any of {steps} steps"
        yield phase.check(quantity, (float(law.in_a_round),) * 2, mean, interval, rounds)


def _share(phase: _Phase, name: str, scheme: Scheme, count: LevelCount) -> Check:
    """How much is drawn of what there is under drawn units: by chance for Poisson draws, else a fixed number."""
    if isinstance(scheme, Poisson) and count.offered:
        rate, observed = float(scheme.probability), count.drawn / count.offered
        interval = mean_interval(observed, count.offered, doubt=DOUBT)
        return phase.check(f"share of {name} drawn", (rate, rate), observed, interval, count.offered)
    parents = max(count.parents, 1)
    expected = count.offered / parents
    of_a_step = count.due / parents if isinstance(scheme, Fixed) else mean_drawn(scheme, expected)
    expected = of_a_step * scheme.steps_of_a_pass(int(expected)) if isinstance(scheme, Shuffle) else of_a_step
    observed = count.drawn / parents
    when = "in a pass" if isinstance(scheme, Shuffle) else "at a time"
    return phase.check(f"{name} drawn {when}", (expected, expected), observed, (observed, observed), count.parents)


def _batch(phase: _Phase, depth: int) -> Check:
    """How many units of a level a step draws."""
    hierarchy, count = phase.hierarchy, phase.drawn.levels[depth - 1]
    expected, observed = _mean_batch(hierarchy, depth), float(count.batches.mean())
    return Check(
        phase=phase.name,
        quantity=f"batch size ({hierarchy.level(depth).name})",
        computed=(expected, expected),
        observed=observed,
        interval=_batch_interval(phase, depth),
        trials=count.batches.size,
        note=f"from {count.least} to {count.most}",
    )


def _mean_batch(hierarchy: Hierarchy, depth: int) -> float:
    """Expected number of units of a level that a step draws, by linearity over all units above it."""
    copies, schemes = drawn_schemes(hierarchy)
    likely = np.full(1, float(copies))  # how often each unit is drawn; without a tree the first one, and all others
    for number, scheme in enumerate(schemes[:depth], start=1):
        if hierarchy.tree is None:
            first, others = hierarchy.level(number).least, hierarchy.level(number).count
            drawn = [mean_drawn(scheme, first), mean_drawn(scheme, others)]
            total = drawn[0] * likely[0] + drawn[1] * (likely.sum() - likely[0])
            alone = drawn[0] / first * likely[0]
            likely = np.array([alone, total - alone])
        else:
            sizes = np.array(hierarchy.tree.sizes[number - 1])
            each = np.array([mean_drawn(scheme, size) / size for size in sizes.tolist()])
            likely = np.repeat(each * likely, sizes)
    return float(likely.sum())


def _batch_interval(phase: _Phase, depth: int) -> Ends:
    """Where the expected batch size lies.

    Equal sizes, or draws of a fixed number: each level multiplies it by that number or by the share of Poisson draws,
    whose interval is known. Otherwise by the bounded number that each round draws.
    """
    copies, schemes = drawn_schemes(phase.hierarchy)
    levels = phase.hierarchy.levels[:depth]
    counts = phase.drawn.levels[:depth]
    fixed = (isinstance(one, WithReplacement) or (isinstance(one, Fixed) and not one.at_most) for one in schemes)
    if all(level.is_equal or one for level, one in zip(levels, fixed, strict=False)):
        low = high = float(copies)
        for level, scheme, count in zip(levels, schemes, counts, strict=False):
            ends = _share(phase, level.name, scheme, count).interval
            times = level.count if isinstance(scheme, Poisson) else 1.0
            if isinstance(scheme, Shuffle):
                times = 1 / scheme.steps_of_a_pass(level.count)
            low, high = low * ends[0] * times, high * ends[1] * times
        return low, high
    most = copies * math.prod(scheme.most_drawn(level.count) for scheme, level in zip(schemes, levels, strict=False))
    batches = counts[-1].batches
    low, high = mean_interval(float(batches.mean()) / most, batches.size, doubt=DOUBT)
    return low * most, high * most
