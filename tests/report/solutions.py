"""Fixed answers of the solvers and of `delta`."""

import math
from dataclasses import replace
from fractions import Fraction

from dpcalc.errors import NoSolution
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.evaluate import DeltaResult
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import Solution
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson
from tests.report.samples import GUARANTEE, PLAN

TARGET = 2.0
GOAL = EpsilonGoal(limit=TARGET)
MEETS = replace(GUARANTEE, epsilon=1.99996, epsilon_lower=1.99987)


def with_noise(plan, *noises):
    phases = (
        replace(phase, mechanism=Gaussian(noise_multiplier=noise))
        for phase, noise in zip(plan.phases, noises, strict=True)
    )
    return replace(plan, phases=tuple(phases))


def sampled(rate):
    """A plan with one Poisson level."""
    level = Level(name="example", count=60_000, scheme=Poisson(probability=Fraction(rate)))
    phase = replace(PLAN.phases[0], hierarchy=Hierarchy(levels=(level,)))
    return replace(PLAN, phases=(phase,), unit=1)


def solution(name, value, fails_at, *, key=None, plan=PLAN, guarantee=MEETS):
    return Solution(
        name=name,
        value=value,
        key=key or name,
        goal=GOAL,
        reached=guarantee.epsilon,
        fails_at=fails_at,
        guarantee=guarantee,
        plan=plan,
    )


NOISE = solution("noise_multiplier", 3.47913, 3.479061234, plan=with_noise(PLAN, 3.47913))
STEPS = solution("steps", 39_871, 39_872, plan=replace(PLAN, phases=(replace(PLAN.phases[0], steps=39_871),)))
SIZE = solution("rate", 67, 68, key="size")
RATE = solution("rate", Fraction("0.00431"), Fraction("0.00431043215"), plan=sampled("0.00431"))
EVERY_RATE = solution("rate", Fraction(1), None, plan=sampled("1"), guarantee=replace(MEETS, epsilon=0.5))
TWO = replace(PLAN, phases=(replace(PLAN.phases[0], name="warm-up", steps=1000), PLAN.phases[0]))
FACTOR = solution("noise_multiplier factor", 0.5, 0.49999, key="noise_multiplier", plan=with_noise(TWO, 3.0, 3.0))
NONE = NoSolution("size", GOAL, 1, 2.0003)
NEVER = NoSolution("noise_multiplier", GOAL, 1e9, math.inf)
DELTA = DeltaResult(epsilon=1.0, delta=4.36123e-6, delta_lower=5.5399e-7, direction="D||D'")
CERTAIN = DeltaResult(epsilon=1.0, delta=1.0, delta_lower=None, direction="")
