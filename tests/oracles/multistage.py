"""Random tiny problems for every way of drawing: what enumerates them, what the package makes of them, data sets."""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, ZERO_OUT
from tests.oracles.draws import Draw, episode_run, group_run
from tests.oracles.joint import divergences
from tests.oracles.unequal import children, units
from tests.runs import of_tree

RATES = [Fraction(n, 20) for n in (1, 3, 6, 10, 14, 18)]
SCHEMES = {"fixed": Fixed, "again": WithReplacement, "shuffle": Shuffle}


@dataclass(frozen=True)
class Problem:
    """What is drawn, who is protected, what is clipped.

    Attributes:
        tree: how every level is drawn, with the most units under one parent.
        sizes: nested counts where they differ, else None.
        shape: (classes, records, tasks, ways, records of a class in a task) of constructed tasks, else None.
        members: paths of the protected units.
        clip, relation, sigma: as they say.
        steps, kept: whole holds or passes, and how many of these steps are taken, all by default.
    """

    tree: tuple[Draw, ...]
    members: tuple[tuple[int, ...], ...]
    clip: int
    relation: str
    sigma: float
    steps: int = 1
    kept: int | None = None
    sizes: object = None
    shape: tuple[int, ...] | None = None

    @property
    def run(self):
        if self.shape:
            return episode_run(self.shape, self.members, self.clip, self.relation, holes=self.holes)
        options = {"steps": self.steps, "kept": self.kept, "holes": self.holes}
        return group_run(self.tree, self.members, self.clip, self.relation, **options)

    @property
    def holes(self):
        """Units that a tree of equal sizes would have and this one has not."""
        if self.sizes is None:
            return frozenset()
        depths = range(1, len(self.tree) + 1)
        there = {unit for depth in depths for unit in units(self.sizes, depth)}
        equal = {unit for depth in depths for unit in itertools.product(*(range(d.count) for d in self.tree[:depth]))}
        return frozenset(equal - there)

    @property
    def hierarchy(self):
        names = [f"level {number}" for number in range(1, len(self.tree) + 1)]
        schemes = [scheme_of(draw) for draw in self.tree]
        if self.sizes is not None:
            found = of_tree(tree_of(self.sizes, names), names, schemes)
        else:
            shuffled = any(draw.kind == "shuffle" for draw in self.tree)
            levels = (
                Level(name=name, count=draw.count, scheme=scheme, redraw_every=1 if shuffled else draw.every)
                for name, draw, scheme in zip(names, self.tree, schemes, strict=True)
            )
            found = Hierarchy(levels=tuple(levels))
        if not self.shape:
            return found
        _, _, tasks, ways, each = self.shape
        return replace(found, episodes=Episodes(tasks=tasks, ways=ways, shots=1, queries=each - 1))

    @property
    def plan(self):
        mechanism = Gaussian(noise_multiplier=self.sigma)
        hierarchy = self.hierarchy
        steps = self.kept or self.steps
        phase = Phase(name="all", hierarchy=hierarchy, mechanism=mechanism, clip=self.clip, steps=steps)
        adjacency, unit = Adjacency(self.relation), len(self.members[0])
        return Plan(phases=(phase,), unit=unit, adjacency=adjacency, delta=1e-3, group_size=len(self.members))


def scheme_of(draw):
    if draw.kind == "poisson":
        return Poisson(probability=draw.amount)
    if draw.kind == "capped":
        return CappedPoisson(probability=draw.amount, max_batch_size=draw.cap)
    return SCHEMES[draw.kind](size=draw.amount) if draw.kind in SCHEMES else All()


def bound(plan, epsilons):
    """What the package says of the whole run in the two directions, shape (2, len(epsilons))."""
    found = np.zeros((2, len(epsilons)))
    for name, counts in composed(plan).steps.items():
        direction = 0 if name.startswith(FORWARD) else 1
        found[direction] = np.maximum(found[direction], [delta_at(counts, float(eps)) for eps in epsilons])
    return found


def delta_at(counts, epsilon):
    """One step is read off its profile, several are composed."""
    if not counts:
        return 0.0
    (curve, number), *more = counts.items()
    if number == 1 and not more and isinstance(curve, Loss):
        return curve.delta(epsilon)
    return delta_bounds(counts, epsilon=epsilon, sides=(UPPER,))[0]


def outcome_count(tree, steps):
    """A bound on the number of histories, to refuse a tree before enumerating it."""
    if not tree:
        return 1
    draw, below = tree[0], tree[1:]
    under = outcome_count(below, 1 if draw.kind == "shuffle" else draw.every)
    match draw.kind:
        case "fixed":
            one = math.comb(draw.count, draw.amount) * under**draw.amount
        case "again":
            one = (draw.count * under) ** draw.amount
        case "poisson":
            one = (1 + under) ** draw.count
        case "capped":
            one = sum(math.comb(draw.count, n) * under**n for n in range(draw.cap + 1))
        case "shuffle":
            one = math.factorial(draw.count) * under**draw.count
        case _:
            one = under**draw.count
    return one ** (steps // (draw.steps_of_a_pass if draw.kind == "shuffle" else draw.every))


def random_draw(rng, count, max_drawn, *, every=1, kinds=("fixed", "again", "poisson", "all")):
    """A draw from `count` units; of a fixed size at most `max_drawn`."""
    kind = str(rng.choice(kinds))
    if kind == "fixed" and 1 <= max_drawn < count:
        return Draw(count, kind, int(rng.integers(1, max_drawn + 1)), every)
    if kind == "again" and max_drawn >= 1 and every == 1:
        return Draw(count, kind, int(rng.integers(1, 4)))
    if kind in {"fixed", "poisson", "again"}:
        return Draw(count, "poisson", RATES[rng.integers(len(RATES))], every)
    return Draw(count, every=every)


def random_sigma(rng):
    return float(np.exp(rng.uniform(math.log(0.7), math.log(4))))


def random_question(rng, depth):
    """(protected level, clipping level, relation)."""
    return int(rng.integers(1, depth + 1)), int(rng.integers(0, depth + 1)), str(rng.choice(RELATIONS))


def random_members(rng, found, most):
    """Some of the units found, and how many of them are in one frame at most."""
    chosen = rng.choice(len(found), int(rng.integers(1, min(most, len(found)) + 1)), replace=False)
    members = tuple(sorted(found[i] for i in chosen))
    parents = [member[:-1] for member in members]
    return members, max(parents.count(parent) for parent in parents)


def group(rng, most=3):
    """A group (or one unit) anywhere in a tree, any scheme on any level."""
    depth = int(rng.choice([1, 2, 2, 3]))
    unit, clip, relation = random_question(rng, depth)
    counts = [int(rng.integers(1, {1: 7, 2: 5, 3: 4}[depth])) for _ in range(depth)]
    found = list(itertools.product(*map(range, counts[:unit])))
    members, together = random_members(rng, found, most)
    lost = [together if level == unit and relation == ADD_REMOVE else 0 for level in range(1, depth + 1)]
    tree = tuple(random_draw(rng, count, count - less) for count, less in zip(counts, lost, strict=True))
    return Problem(tree, members, clip, relation, random_sigma(rng))


def unequal_group(rng):
    """A group of any units in a tree of two levels whose sizes differ."""
    sizes = [int(rng.integers(1, 4)) for _ in range(rng.integers(2, 4))]
    unit, clip, relation = random_question(rng, 2)
    members, together = random_members(rng, units(sizes, unit), 3)
    lost = together if relation == ADD_REMOVE else 0
    drawn = [len(sizes) - (lost if unit == 1 else 0)]
    frames = {parent: len(children(sizes, parent)) for parent in units(sizes, 1)}
    drawn.append(min(n - (sum(m[:1] == p for m in members) if lost and unit == 2 else 0) for p, n in frames.items()))
    tree = [random_draw(rng, count, most) for count, most in zip((len(sizes), max(sizes)), drawn, strict=True)]
    return Problem(tuple(tree), members, clip, relation, random_sigma(rng), sizes=sizes)


def held(rng):
    """One unit, or a group, under draws that are held: the first level longest."""
    depth = int(rng.choice([1, 2, 2, 3]))
    unit, clip, relation = random_question(rng, depth)
    steps = int(rng.choice([2, 2, 3]))
    fast = int(rng.integers(1, depth + 1))  # levels below it are drawn afresh in every step
    counts = [int(rng.integers(1, {1: 5, 2: 4, 3: 3}[depth])) for _ in range(depth)]
    members, together = random_members(
        rng, list(itertools.product(*map(range, counts[:unit]))), int(rng.choice([1, 2]))
    )
    tree = []
    for level, count in enumerate(counts, start=1):
        most = count - (together if level == unit and relation == ADD_REMOVE else 0)
        tree.append(random_draw(rng, count, most, every=steps if level <= fast else 1))
    return Problem(tuple(tree), members, clip, relation, random_sigma(rng), steps=steps)


def fresh_below(rng):
    """One unit of drawn levels that are held above draws made anew in every step."""
    depth = int(rng.choice([2, 2, 3]))
    unit = int(rng.integers(1, depth))
    fast, counts = int(rng.integers(unit, depth)), [int(rng.integers(1, 4)) for _ in range(depth)]
    relation = str(rng.choice(RELATIONS))
    tree = tuple(
        random_draw(
            rng,
            count,
            count - (level == unit and relation == ADD_REMOVE),
            every=2 if level <= fast else 1,
            kinds=("fixed", "poisson", "poisson", "all"),
        )
        for level, count in enumerate(counts, start=1)
    )
    return Problem(tree, ((0,) * unit,), int(rng.integers(0, depth + 1)), relation, random_sigma(rng), steps=2)


def all_of_one(rng):
    """All units of one parent, zeroed and clipped at or below them, under any draws, held or not."""
    depth = int(rng.choice([2, 2, 3]))
    unit, steps = int(rng.integers(2, depth + 1)), int(rng.choice([1, 1, 2]))
    fast = int(rng.integers(1, depth + 1))
    counts = [int(rng.integers(2 if level == unit else 1, 4)) for level in range(1, depth + 1)]
    parent = (0,) * (unit - 1)
    tree = tuple(
        random_draw(rng, count, count, every=steps if level <= fast else 1)
        for level, count in enumerate(counts, start=1)
    )
    members = tuple((*parent, member) for member in range(counts[unit - 1]))
    return Problem(tree, members, int(rng.integers(unit, depth + 1)), ZERO_OUT, random_sigma(rng), steps=steps)


def emptied(rng):
    """A group whose removal leaves fewer units in some frame than a draw takes."""
    depth = int(rng.choice([1, 2, 2]))
    clip = int(rng.integers(0, depth + 1))
    counts = [int(rng.integers(1, 4)) for _ in range(depth)]
    members, together = random_members(rng, list(itertools.product(*map(range, counts))), 4)
    *above, last = counts
    kind = str(rng.choice(["fixed", "again"]))
    taken = int(rng.integers(1, last)) if last > 1 else 1
    if kind == "fixed" and not (last > 1 and last - together < taken):
        return None
    tree = (*(random_draw(rng, count, count - 1) for count in above), Draw(last, kind, taken))
    return Problem(tree, members, clip, ADD_REMOVE, random_sigma(rng))


def capped(rng):
    """One unit under nested draws of which some are cut to a maximum; sizes may differ, a level above may be held."""
    depth = int(rng.choice([1, 2, 2, 3]))
    unit, clip, relation = random_question(rng, depth)
    counts = [int(rng.integers(1, {1: 7, 2: 5, 3: 4}[depth])) for _ in range(depth)]
    sizes = [int(rng.integers(1, 4)) for _ in range(counts[0])] if depth == 2 and rng.random() < 0.4 else None
    if sizes is not None:
        counts[1] = max(sizes)
    tree = []
    for level, count in enumerate(counts, start=1):
        if rng.random() < 0.6:
            tree.append(Draw(count, "capped", RATES[rng.integers(len(RATES))], cap=int(rng.integers(1, count + 1))))
        else:
            fewest = min(sizes) if sizes is not None and level == 2 else count
            lost = int(level == unit and relation == ADD_REMOVE)
            tree.append(random_draw(rng, count, fewest - lost, kinds=("fixed", "poisson", "all")))
    first = units(sizes, unit) if sizes is not None else list(itertools.product(*map(range, counts[:unit])))
    member = first[int(rng.integers(len(first)))]
    return Problem(tuple(tree), (member,), clip, relation, random_sigma(rng), sizes=sizes)


def sparse(rng):
    """A group, or a unit under held draws, where a drawn clipping unit may hold no drawn record."""
    problem = (group, group, unequal_group, held)[rng.integers(4)](rng)
    may_be_empty = any(draw.kind == "poisson" for draw in problem.tree[problem.clip :])
    return problem if may_be_empty and len(problem.tree) > 1 else None


def shuffled(rng):
    """A pass over shuffled units, all above them drawn whole, any draw below; None if that cannot be.

    Nor where removing the members takes a step from a pass: `passes` has those.
    """
    depth = int(rng.choice([1, 1, 2, 2]))
    unit, clip, relation = random_question(rng, depth)
    at = int(rng.integers(1, depth + 1))
    count = int(rng.integers(2, {1: 6, 2: 4}[depth]))
    size = int(rng.integers(1, count))
    other = int(rng.integers(1, 4))
    counts = [count if level == at else other for level in range(1, depth + 1)]
    members, together = random_members(
        rng, list(itertools.product(*map(range, counts[:unit]))), int(rng.choice([1, 1, 2]))
    )
    tree = []
    for level in range(1, depth + 1):
        lost = together if level == unit and relation == ADD_REMOVE else 0
        if level == at:
            if lost == count:
                return None  # nothing would be left to shuffle
            drawn = min(size, count - lost)
            removed = len(members) if level == unit and relation == ADD_REMOVE else 0
            if (count - 1) // drawn != (count - 1 - removed) // drawn:
                return None
            tree.append(Draw(count, "shuffle", drawn))
        else:
            tree.append(random_draw(rng, other, other - lost) if level > at else Draw(other))
    steps = tree[at - 1].steps_of_a_pass
    tree = (*(Draw(above.count, every=steps) for above in tree[: at - 1]), *tree[at - 1 :])
    return Problem(tree, members, clip, relation, random_sigma(rng), steps=steps)


def cut_short(rng):
    """A hold or a pass, or two, of which the last is not finished."""
    problem = (held if rng.random() < 0.5 else shuffled)(rng)
    if problem is None or problem.steps < 2:
        return None
    periods = int(rng.integers(1, 3))
    kept = int(rng.integers(1, problem.steps)) + (periods - 1) * problem.steps
    return replace(problem, steps=periods * problem.steps, kept=kept)


def constructed(rng):
    """Constructed tasks from classes of different sizes: a record, a class or two of them."""
    sizes = [int(rng.integers(1, 4)) for _ in range(rng.integers(2, 5))]
    unit, clip, relation = random_question(rng, 2)
    members, together = random_members(rng, units(sizes, unit), int(rng.choice([1, 1, 2])) if unit == 1 else 1)
    left = len(sizes) - (together if together > 1 and relation == ADD_REMOVE else 0)
    if left < 1:
        return None
    ways, each = int(rng.integers(1, min(left, 2) + 1)), int(rng.integers(1, min(sizes) + 1))
    shape = len(sizes), max(sizes), int(rng.integers(1, 4)), ways, each
    tree = Draw(len(sizes)), Draw(max(sizes))
    return Problem(tree, members, clip, relation, random_sigma(rng), sizes=sizes, shape=shape)


def random_problem(rng, flavour, most_outcomes):
    """A problem that can be enumerated."""
    while True:
        problem = flavour(rng)
        if problem is not None and 1 < histories_of(problem) <= most_outcomes:
            return problem


def histories_of(problem):
    """How many histories there are, at most."""
    if not problem.shape:
        return outcome_count(problem.tree, problem.steps)
    classes, records, tasks, ways, each = problem.shape
    return (math.comb(classes, ways) * math.comb(records, each) ** ways) ** tasks


def data_sets(run, rng, *, extreme, random, in_plane):
    """Values per step and key: by role at either end, at random by role and by key, unit vectors in the plane."""
    roles, shape = list(dict.fromkeys(run.roles)), (run.steps, len(run.keys))
    ends = list(itertools.islice(itertools.product([1.0, -1.0], repeat=len(roles)), 64))
    rng.shuffle(ends)
    for values in [[1.0 if role == ("unit", 0) else -1.0 for role in roles], *ends[:extreme]]:
        by_role = dict(zip(roles, values, strict=True))
        yield np.array([[by_role[role] for role in run.roles]] * run.steps)
    for _ in range(random):
        by_role = {role: rng.integers(-1, 2, run.steps).astype(float) for role in roles}
        yield np.stack([by_role[role] for role in run.roles], axis=1)
        yield rng.choice([-1.0, 1.0], shape)
    for _ in range(in_plane):
        angles = rng.uniform(0, 2 * math.pi, shape)
        yield np.stack([np.cos(angles), np.sin(angles)], axis=2)


def truth_of(run, values, sigma, epsilons, **fineness):
    return divergences(run.weights(), run.means(values), sigma, epsilons, **fineness)
