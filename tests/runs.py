"""A training run of one phase for the tests, from what differs between them."""

from fractions import Fraction

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson

HUNDREDTH = Poisson(probability=Fraction(1, 100))


def run_of(*levels, mechanism=None, noise=4.0, unit=None, clip=None, steps=1000, adjacency="add-remove", **asked):
    """A run over a hierarchy, or levels: (count, scheme) or (count, scheme, steps for which a draw is held).

    If nothing else is said the innermost level is protected and clipped, and delta is 1e-5.
    """
    if not isinstance(levels[0], Hierarchy):
        keys = ("count", "scheme", "redraw_every")
        built = [
            level if isinstance(level, Level) else Level(name=f"level {at}", **dict(zip(keys, level, strict=False)))
            for at, level in enumerate(levels, start=1)
        ]
        levels = (Hierarchy(levels=tuple(built), episodes=asked.pop("episodes", None)),)
    (hierarchy,) = levels
    noise, clip = mechanism or Gaussian(noise_multiplier=noise), hierarchy.depth if clip is None else clip
    phase = Phase(name="training", hierarchy=hierarchy, mechanism=noise, clip=clip, steps=steps)
    asked = {"unit": unit or hierarchy.depth, "adjacency": Adjacency(adjacency), "delta": 1e-5} | asked
    return Plan(phases=(phase,), **asked)


def plan_of(scheme, **more):
    """A run over 60,000 examples."""
    return run_of(Level(name="example", count=60_000, scheme=scheme), **more)


def of_tree(tree, names, schemes):
    """The hierarchy of a tree of unequal sizes."""
    rows = zip(names, tree.sizes, schemes, strict=True)
    levels = (Level(name=name, count=max(sizes), min_count=min(sizes), scheme=scheme) for name, sizes, scheme in rows)
    return Hierarchy(levels=tuple(levels), tree=tree)
