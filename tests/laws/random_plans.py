"""Random training runs of one level with fixed seeds: all mechanisms and sampling schemes, one to many phases."""

import math
from fractions import Fraction
from zlib import crc32

import numpy as np

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement


def log_uniform(rng, low, high):
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.5g}")


def random_scheme(rng, count, kinds):
    kind = str(rng.choice(kinds))
    if kind == "all":
        return All()
    if kind == "poisson":
        poisson = Poisson(probability=Fraction(repr(log_uniform(rng, 1e-5, 0.1))))
        return cut(poisson, count) if crc32(str(poisson.probability).encode()) % 4 == 1 else poisson
    size = max(1, int(log_uniform(rng, 1e-5, 0.1) * count))
    if kind == "shuffle":  # whose passes keep their steps when one unit is removed: no bound covers others
        size = next(larger for larger in range(size, count) if (count - 1) % larger)
    return {"fixed": Fixed, "shuffle": Shuffle, "with-replacement": WithReplacement}[kind](size=size)


def cut(poisson, count):
    """The draw cut to a maximum a little above its mean, chosen by the digits of its rate."""
    above = 1 + Fraction(poisson.probability.numerator % 100, 100)
    return CappedPoisson(probability=poisson.probability, max_batch_size=int(count * poisson.probability * above) + 1)


def random_mechanism(rng, kind):
    noise = log_uniform(rng, 0.5, 30)
    match kind:
        case "gaussian":
            return Gaussian(noise_multiplier=noise)
        case "laplace":
            return Laplace(noise_multiplier=noise)
        case "discrete-gaussian":
            return DiscreteGaussian(noise_multiplier=noise)
        case "discrete-laplace":
            return DiscreteLaplace(noise_multiplier=noise)
        case "randomized-response":
            return RandomizedResponse(truth_probability=float(rng.uniform(0.55, 0.95)))
        case _:
            return ApproximateDp(epsilon=1 / noise, delta=float(rng.choice([0.0, 1e-14])))


MECHANISMS = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "randomized-response", "approximate-dp")
SCHEMES = ("poisson", "fixed", "all", "shuffle", "with-replacement")


def random_plan(rng, phases, *, mechanisms=MECHANISMS, schemes=SCHEMES, delta=(1e-12, 1e-4), most_steps=50_000):
    """One level of 1,000 to 1,000,000 units; every phase with its own mechanism, scheme and number of steps."""
    count = int(rng.choice([1000, 60_000, 1_000_000]))
    adjacency = list(Adjacency)[int(rng.integers(3))]

    def phase(number):
        kind = str(rng.choice(mechanisms))
        if kind == "randomized-response" and adjacency is not Adjacency.REPLACE_ONE:  # which it alone can answer
            kind = "gaussian"
        level = Level(name="example", count=count, scheme=random_scheme(rng, count, schemes))
        return Phase(
            name=f"phase {number}",
            hierarchy=Hierarchy(levels=(level,)),
            mechanism=random_mechanism(rng, kind),
            clip=1,
            steps=int(log_uniform(rng, 1, most_steps)),
        )

    return Plan(
        phases=tuple(phase(number) for number in range(phases)),
        unit=1,
        adjacency=adjacency,
        delta=log_uniform(rng, *delta),
    )


def generator(*seed):
    return np.random.default_rng(list(seed))
