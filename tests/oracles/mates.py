"""Random small trees with draws below a draw, for bounds that are averaged over what is drawn beside the unit."""

import itertools
import math
from dataclasses import replace

import numpy as np

from dpcalc.amplification.bound import Average, joint_step_bound, path_bound
from dpcalc.amplification.mates import shared_deltas
from dpcalc.amplification.random_contents import averaged_unit_bound
from dpcalc.amplification.schedule import step_profile
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.hierarchy import tree_of
from dpcalc.sampling.paths import path_above_all, path_table, worst_paths
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.oracles.adversary import climb, excess, truth_of
from tests.oracles.brute_force import RELATIONS
from tests.oracles.unequal import RATES, UnequalExperiment, fewest, outcome_count
from tests.runs import of_tree

SCHEMES = {"fixed": lambda size: Fixed(size=size), "poisson": lambda rate: Poisson(probability=rate)}


def random_nested(rng, most_outcomes=2000):
    """(tree, draws) of two or three levels, sizes equal or not, a Poisson draw below the first level."""
    while True:
        depth = int(rng.choice([2, 2, 3]))
        tree = equal_tree(rng, depth) if rng.random() < 0.5 else unequal_tree(rng, depth)
        draws = []
        for level in range(1, depth + 1):
            kind = str(rng.choice(["fixed", "poisson", "all"], p=[0.45, 0.5, 0.05] if level == 1 else [0.2, 0.7, 0.1]))
            least = fewest(tree, level)
            if kind == "fixed" and least == 1:
                kind = "poisson"
            sizes = {
                "fixed": lambda least=least: int(rng.integers(1, least)),
                "poisson": lambda: RATES[rng.integers(3)],
            }
            draws.append((kind, sizes[kind]() if kind in sizes else None))
        is_random_below = any(kind == "poisson" for kind, _ in draws[1:])
        if is_random_below and draws[0][0] != "all" and 1 < outcome_count(tree, draws) <= most_outcomes:
            return tree, draws


def equal_tree(rng, depth):
    """All frames of a level of one size."""
    if depth == 1:
        return int(rng.integers(1, 5))
    return [equal_tree(rng, depth - 1)] * int(rng.integers(2, 4))


def unequal_tree(rng, depth):
    """Frames of any size."""
    if depth == 1:
        return int(rng.integers(1, 5))
    return [unequal_tree(rng, depth - 1) for _ in range(rng.integers(2, 4))]


def hierarchy_of(tree, draws):
    names = [f"level {number}" for number in range(1, len(draws) + 1)]
    schemes = [SCHEMES[kind](amount) if kind in SCHEMES else All() for kind, amount in draws]
    return of_tree(tree_of(tree, names), names, schemes)


def own_bound(hierarchy, path, *, clip, relation, sigma, epsilons):
    """The package's bound of one step for the unit at the end of a path, both directions."""
    bound = averaged_unit_bound(hierarchy, path, clip=clip, adjacency=Adjacency(relation))
    profile = step_profile(bound, noise_multiplier=sigma)
    return np.array([[side.delta(float(eps)) for eps in epsilons] for side in (profile, profile.swapped)])


def random_question(rng, most_outcomes=2000):
    """(tree, draws, hierarchy, path, unit, clip, relation, sigma) with one of the units that differ."""
    tree, draws = random_nested(rng, most_outcomes)
    level, clip = int(rng.integers(1, len(draws) + 1)), int(rng.integers(1, len(draws) + 1))
    level, clip = max(level, int(rng.integers(1, len(draws) + 1))), max(clip, int(rng.integers(1, len(draws) + 1)))
    hierarchy = hierarchy_of(tree, draws)
    table = path_table([(hierarchy, clip)], unit=level)
    (path,) = table.paths(int(rng.integers(len(table.counts))))
    unit = path.place or (0,) * level
    sigma = float(np.exp(rng.uniform(math.log(0.7), math.log(4))))
    return tree, draws, hierarchy, path, unit, clip, str(rng.choice(RELATIONS)), sigma


def epsilons_of(inclusion, shift, sigma):
    base = [0.3 * shift / sigma, 1.0 * shift / sigma, 2.0 * shift / sigma, 3.5 * shift / sigma]
    positive = [math.log1p(inclusion * math.expm1(min(eps, 12))) for eps in base] + [0.4]
    return np.array([*positive, *(-eps for eps in positive)])


def role_patterns(experiment):
    """Every assignment of -1, 0, 1 to the roles, up to sign."""
    roles = list(dict.fromkeys(experiment.roles))
    for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles)):
        if next((value for value in values if value), 0.0) > 0:
            yield experiment.pattern(dict(zip(roles, values, strict=True)))


def largest_ratio(question, rng, *, climbing, most_patterns=81, randoms=3):
    """(largest truth / bound over data sets, where)."""
    tree, draws, hierarchy, path, unit, clip, relation, sigma = question
    inclusion = float(path.inclusion(len(unit)))
    if not inclusion:
        return 0.0, None
    experiment = UnequalExperiment(tree, draws, unit, clip, relation)
    epsilons = epsilons_of(inclusion, 2 if clip < len(unit) else path.contributions[-1], sigma)
    # A path that was left out is covered by the costliest ones, and each path by its own bound.
    paths = [worst for (worst,) in worst_paths([(hierarchy, clip)], unit=len(unit))]
    options = {"clip": clip, "relation": relation, "sigma": sigma, "epsilons": epsilons}
    bound = np.max([own_bound(hierarchy, worst, **options) for worst in paths], axis=0)
    bound = np.minimum(bound, own_bound(hierarchy, path, **options))
    patterns = list(role_patterns(experiment))
    rng.shuffle(patterns)
    tried = [*patterns[:most_patterns], *(rng.choice([-1.0, 1.0], size=len(experiment.keys)) for _ in range(randoms))]
    if climbing:
        for direction, at in itertools.product((0, 1), (1, 3)):
            tried.append(
                climb(
                    tried[0],
                    lambda v, d=direction, at=at: truth_of(experiment, v, sigma, epsilons[at : at + 1])[d].sum(),
                    rng,
                    sweeps=2,
                    most_keys=16,
                )
            )
    ratios = [excess(truth_of(experiment, values, sigma, epsilons), bound, epsilons) for values in tried]
    worst = int(np.argmax(ratios))
    return ratios[worst], tried[worst]


# The bound of every unit, from its own path, against the largest of those that the package composes.


def deep_question(rng):
    """(tree, draws) of three or four levels of different sizes."""
    depth = int(rng.choice([3, 3, 4]))

    def frame(below):
        if below == 1:
            return int(rng.integers(1, 13))
        return [frame(below - 1) for _ in range(rng.integers(1, 5))]

    tree, draws = frame(depth), []
    for level in range(1, depth + 1):
        kind = str(rng.choice(["fixed", "poisson", "all"], p=[0.5, 0.4, 0.1]))
        sizes = {"fixed": int(rng.integers(1, fewest(tree, level) + 1)), "poisson": RATES[rng.integers(3)]}
        draws.append((kind, sizes.get(kind)))
    return tree, draws


def unit_ratios(rng):
    """(largest own bound / largest of the composed, the same of one shared average) over units and epsilons."""
    (tree, draws), relation = deep_question(rng), Adjacency(str(rng.choice(RELATIONS)))
    unit, clip = (int(rng.integers(2, len(draws) + 1)) for _ in range(2))
    sigma, hierarchy = float(np.exp(rng.uniform(math.log(0.7), math.log(12)))), hierarchy_of(tree, draws)
    table = path_table([(hierarchy, clip)], unit=unit)
    each = [table.paths(row)[0] for row in range(len(table.counts))]
    each = [path for path in each if path.inclusion(unit)]
    if not each:
        return 0.0, 0.0
    composed = worst_paths([(hierarchy, clip)], unit=unit)
    inclusion = max(float(path.inclusion(unit)) for path in each)
    epsilons = [0.0, *(math.log1p(inclusion * math.expm1(e / sigma)) for e in (0.1, 0.4, 1.0, 2.0, 3.5))]

    def largest(paths, *, joint=False):
        values = np.full((2, len(epsilons)), 1e-13)
        for path in paths:
            bound = joint and joint_step_bound(
                path_bound(path, clip=clip, adjacency=relation), path, clip=clip, adjacency=relation
            )
            bound = bound or averaged_unit_bound(hierarchy, path, clip=clip, adjacency=relation)
            # Merged parts and chords are looser by chance; what is compared is what they bound.
            told = bound
            if isinstance(bound, Average):
                told = Average(parts=tuple((chance, replace(part, shared=())) for chance, part in bound.parts))
            profile = step_profile(told, noise_multiplier=sigma)
            sides = np.array([[side.delta(e) for e in epsilons] for side in (profile, profile.swapped)])
            if isinstance(bound, Average):
                shared = [
                    shared_deltas(bound, np.array(epsilons), noise_multiplier=sigma, is_swapped=way)
                    for way in (False, True)
                ]
                sides = np.minimum(sides, shared)
            values = np.maximum(values, sides)
        return values

    own, rounded = largest(each), 1e-11 * inclusion  # the shared deltas are rounded up by that share of their masses
    ratios = [(own / (largest(path for (path,) in composed) + rounded)).max()]
    ratios.append((own / (largest(path_above_all(composed)) + rounded)).max())
    if clip >= unit and relation is Adjacency.ADD_REMOVE and draws[unit - 1][0] == "fixed":
        ratios.append((largest(each, joint=True) / largest((path for (path,) in composed), joint=True)).max())
    return tuple(map(float, ratios))
