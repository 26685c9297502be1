"""Random compositions of one-step bounds: the package's profile beside the oracles' own description of it."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.schedule import glued_profile
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.amplification.equal_sizes import one_step_bound
from tests.oracles.loss_parts import glued_curve

COUNTS = (1, 2, 8, 20, 100)


@dataclass(frozen=True)
class Problem:
    """Steps of one bound in one direction; `curve` is for the oracles, `profile` is the package's."""

    bound: StepBound
    swapped: bool
    sigma: float
    steps: int
    delta: float

    @property
    def profile(self) -> Loss:
        found = glued_profile(self.bound, noise_multiplier=self.sigma)
        return found.swapped if self.swapped else found

    @property
    def curve(self):
        b = self.bound
        ahead, back = (b.distances, b.distances_swapped)[:: -1 if self.swapped else 1]
        return glued_curve(b.inclusion, b.shift, b.chances, ahead, back, sigma=self.sigma)


def random_rate(rng):
    return min(Fraction(1), Fraction(int(rng.choice([1, 2, 3, 5, 9])), 10 ** int(rng.integers(1, 6))))


def random_level(rng, number):
    kind = rng.choice(["all", "poisson", "fixed"], p=[0.2, 0.4, 0.4])
    count = int(rng.choice(COUNTS))
    if kind == "all":
        return Level(name=f"level {number}", count=count, scheme=All())
    if kind == "poisson":
        rate = random_rate(rng) if rng.random() < 0.9 else Fraction(1)
        return Level(name=f"level {number}", count=count, scheme=Poisson(probability=rate))
    size = int(rng.choice([1, 2, 4, 5, 16]))
    return Level(name=f"level {number}", count=size * int(rng.choice([1, 2, 10, 100, 10**5])), scheme=Fixed(size=size))


def random_bound(rng, *, rarest=1e-6, farthest=200):
    """Any relation, protected level and clipping level on one to three levels."""
    while True:
        depth = int(rng.integers(1, 4))
        hierarchy = Hierarchy(levels=tuple(random_level(rng, n) for n in range(depth)))
        unit, clip = int(rng.integers(1, depth + 1)), int(rng.integers(0, depth + 1))
        adjacency = list(Adjacency)[int(rng.integers(3))]
        bound = one_step_bound(hierarchy, unit=unit, clip=clip, adjacency=adjacency)
        if float(bound.inclusion) >= rarest and max(bound.shift, *bound.distances) <= farthest:
            return bound


def random_problem(rng, *, steps=None, **limits):
    """Noise 0.3 to 100, delta 1e-15 to 1e-2; steps as given, or enough to draw the unit eight times, up to 1e7."""
    while True:
        bound = random_bound(rng, **limits)
        least = max(3.0, 8 / float(bound.inclusion))
        if steps or least <= 1e7:
            break
    taken = steps or int(math.exp(rng.uniform(math.log(least), math.log(1e7))))
    sigma, delta = 10 ** rng.uniform(math.log10(0.3), 2), 10 ** rng.uniform(-15, -2)
    return Problem(bound, bool(rng.random() < 0.5), float(sigma), taken, float(delta))


def rare_problem(rng):
    """Few steps of a small rate: the unit is drawn 0.01 to 8 times in all."""
    bound = random_bound(rng)
    while float(bound.inclusion) > 0.1:
        bound = random_bound(rng)
    steps = max(3, int(math.exp(rng.uniform(math.log(0.01), math.log(8))) / float(bound.inclusion)))
    sigma, delta = 10 ** rng.uniform(math.log10(0.5), 1), 10 ** rng.uniform(-12, -3)
    return Problem(bound, bool(rng.random() < 0.5), float(sigma), steps, float(delta))


def generator(*seed):
    return np.random.default_rng(list(seed))
