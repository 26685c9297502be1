"""Every order of tiny shuffled data sets, nested, with and without the last batch, each pass as long as it really is.

Straight from the definitions. A *turn* of a unit is a step in which it is drawn. A shuffled unit has a queue of its
children in random order; in each of its turns it takes the next batch from it, and when no batch is left (with
drop_last: no whole one) it lines all children up anew. A unit without enough children for any batch draws nothing. The
queue is of the children that are there: without some of them a pass can have fewer steps. Histories are those of
`draws`.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, clipping_units, with_records
from tests.oracles.draws import Draw, Run, merged
from tests.oracles.joint import divergences
from tests.oracles.unequal import units
from tests.runs import of_tree

RATES = [Fraction(n, 20) for n in (3, 10, 16)]


@dataclass(frozen=True)
class Turns:
    """How one unit draws its children: all, shuffle, drop (a shuffle with drop_last), fixed or poisson."""

    kind: str = "all"
    amount: int | Fraction = 0

    @property
    def scheme(self):
        match self.kind:
            case "shuffle" | "drop":
                return Shuffle(size=self.amount, drop_last=self.kind == "drop")
            case "fixed":
                return Fixed(size=self.amount)
            case "poisson":
                return Poisson(probability=self.amount)
            case _:
                return All()

    def drawn(self, children, number):
        """All (probability, children drawn in each of some turns)."""
        if self.kind not in {"shuffle", "drop"}:
            one = Draw(len(children), self.kind, self.amount).chosen(children)
            runs = itertools.product(one, repeat=number)
            return [(math.prod(p for p, _ in run), tuple(drawn for _, drawn in run)) for run in runs]
        length = len(children) // self.amount if self.kind == "drop" else -(-len(children) // self.amount)
        if not length:
            return [(Fraction(1), ((),) * number)]
        cuts = range(0, length * self.amount, self.amount)
        orders = Counter(
            tuple(tuple(sorted(order[i : i + self.amount])) for i in cuts) for order in itertools.permutations(children)
        )
        chance = Fraction(1, math.factorial(len(children)))
        passes = itertools.product(orders.items(), repeat=-(-number // length))
        return merged(
            (math.prod(chance * ways for _, ways in run), tuple(b for batches, _ in run for b in batches)[:number])
            for run in passes
        )


MOST_HISTORIES = 30_000  # before equal ones are merged: a hundred times as many take gigabytes


@dataclass(frozen=True)
class Passes:
    """A run over shuffled units.

    Attributes:
        sizes: units at one level, children of each unit at two: nested counts as in `unequal`.
        turns: how the data and the units of each level draw, outermost first.
        members: paths of the protected units.
        clip, relation, sigma, steps: as they say.
    """

    sizes: object
    turns: tuple[Turns, ...]
    members: tuple[tuple[int, ...], ...]
    clip: int
    relation: str
    sigma: float
    steps: int
    kept: None = None  # as of `multistage.Problem`: all steps are released

    def children(self, path):
        """The children of a unit, all there are."""
        if len(path) == len(self.turns):
            return []
        depth = len(path) + 1
        if isinstance(self.sizes, int):
            return [(i,) for i in range(self.sizes)]
        return [unit for unit in units(self.sizes, depth) if unit[:-1] == path]

    def histories(self, path, number, absent):
        """All (probability, what is drawn under a unit in each of its turns)."""
        children = [child for child in self.children(path) if child not in absent]
        if len(path) == len(self.turns):
            return [(Fraction(1), ((),) * number)]
        found = []
        for chance, turns in self.turns[len(path)].drawn(children, number):
            often = Counter(child for drawn in turns for child in drawn)
            below = [self.histories(child, often[child], absent) for child in often]
            for parts in itertools.product(*below):
                queues = {child: iter(history) for child, (_, history) in zip(often, parts, strict=True)}
                history = tuple(tuple((child, next(queues[child])) for child in drawn) for drawn in turns)
                found.append((chance * math.prod(p for p, _ in parts), history))
                if len(found) > MOST_HISTORIES:
                    raise OverflowError(f"expected at most {MOST_HISTORIES} histories, got more")
        return merged(found)

    @property
    def run(self):
        absent = frozenset(self.members) if self.relation == ADD_REMOVE else frozenset()
        sides = [self.histories((), self.steps, missing) for missing in (frozenset(), absent)]
        levels = len(self.turns)

        def vectors(step):
            return clipping_units(with_records(step, levels), (), self.clip)

        return Run(sides, vectors, self.members, self.relation)

    @property
    def looks(self):
        """Passes that are begun: more than two have more dimensions than are looked at."""
        counts = [self.sizes] if isinstance(self.sizes, int) else [len(self.sizes), min(self.sizes)]
        length = 1
        for turns, count in list(zip(self.turns, counts, strict=True))[: len(self.members[0])]:
            if turns.kind in {"shuffle", "drop"}:
                length *= count // turns.amount if turns.kind == "drop" else -(-count // turns.amount)
        return -(-self.steps // length)

    @property
    def outcomes(self):
        """About how many histories there are, and more than can be enumerated where there are very many."""
        total = 1.0
        for depth, turns in enumerate(self.turns):
            parents = [()] if not depth else units(self.sizes, depth)
            for parent in parents:
                count = len(self.children(parent))
                if turns.kind in {"shuffle", "drop"}:
                    per_pass = math.factorial(count) / math.factorial(turns.amount) ** (count // turns.amount)
                    length = max(1, count // turns.amount)
                    total *= per_pass ** max(1, -(-self.steps // length) // (1 if not depth else 2))
                elif turns.kind == "poisson":
                    total *= 2 ** (count * self.steps)
                elif turns.kind == "fixed":
                    total *= math.comb(count, turns.amount) ** self.steps
        return total

    @property
    def hierarchy(self):
        schemes = [turns.scheme for turns in self.turns]
        names = [f"level {number}" for number in range(1, len(schemes) + 1)]
        if isinstance(self.sizes, int):
            return Hierarchy(levels=(Level(name=names[0], count=self.sizes, scheme=schemes[0]),))
        if len({*self.sizes}) == 1:
            counts = len(self.sizes), self.sizes[0]
            levels = zip(names, counts, schemes, strict=True)
            return Hierarchy(levels=tuple(Level(name=name, count=count, scheme=one) for name, count, one in levels))
        return of_tree(tree_of(self.sizes, names), names, schemes)

    @property
    def plan(self):
        mechanism = Gaussian(noise_multiplier=self.sigma)
        phase = Phase(name="all", hierarchy=self.hierarchy, mechanism=mechanism, clip=self.clip, steps=self.steps)
        unit, size = len(self.members[0]), len(self.members)
        return Plan(phases=(phase,), unit=unit, adjacency=Adjacency(self.relation), delta=1e-3, group_size=size)


def random_passes(rng, *, most_outcomes, group=True):
    """A run that can be enumerated: one or two levels, at least one of them shuffled."""
    while True:
        depth = int(rng.choice([1, 2]))
        sizes = int(rng.integers(1, 6)) if depth == 1 else [int(n) for n in rng.integers(1, 4, rng.integers(1, 4))]
        if depth == 2 and rng.random() < 0.6:
            sizes = [sizes[0]] * len(sizes)
        counts = [sizes] if depth == 1 else [len(sizes), min(sizes)]
        kinds = ["shuffle", "drop"] if depth == 1 else ["shuffle", "drop", "all"]
        turns = [_turns(rng, str(rng.choice(kinds)), counts[0])]
        if depth == 2:
            turns.append(_turns(rng, str(rng.choice(["shuffle", "drop", "all", "fixed", "poisson"])), counts[1]))
        if not any(one.kind in {"shuffle", "drop"} for one in turns):
            continue
        unit, clip = int(rng.integers(1, depth + 1)), int(rng.integers(0, depth + 1))
        found = [(i,) for i in range(sizes)] if depth == 1 else units(sizes, unit)
        number = min(len(found), int(rng.choice([1, 1, 2])) if group else 1)
        members = tuple(sorted(found[i] for i in rng.choice(len(found), number, replace=False)))
        problem = Passes(
            sizes=sizes,
            turns=tuple(turns),
            members=members,
            clip=clip,
            relation=str(rng.choice(RELATIONS)),
            sigma=float(np.exp(rng.uniform(math.log(0.7), math.log(4)))),
            steps=int(rng.integers(1, 6)),
        )
        if problem.outcomes <= most_outcomes and _leaves_enough(problem):
            return problem


def _turns(rng, kind, count):
    """A way of drawing from so many."""
    if kind == "poisson":
        return Turns(kind, RATES[rng.integers(len(RATES))])
    return Turns(kind, int(rng.integers(1, count + 1)) if kind != "all" else 0)


def _leaves_enough(problem):
    """Whether a fixed draw finds as many as it takes when the members are gone."""
    unit = len(problem.members[0])
    turns = problem.turns[unit - 1]
    if problem.relation != ADD_REMOVE or turns.kind != "fixed":
        return True
    parents = {member[:-1] for member in problem.members}
    return all(len(problem.children(p)) - sum(m[:-1] == p for m in problem.members) >= turns.amount for p in parents)


def truth(run, values, sigma, epsilons, *, block=0, per_sigma=4):
    """Divergences of both directions, or less: of all steps, or of the sums over blocks of so many steps."""
    means = run.means(values)
    if block:
        number = run.steps // block
        summed = [
            mean.reshape(len(mean), run.steps, -1)[:, : number * block]
            .reshape(len(mean), number, block, -1)
            .sum(axis=2)
            for mean in means
        ]
        means = [one.reshape(len(one), -1) / math.sqrt(block) for one in summed]
    return divergences(run.weights(), means, sigma, epsilons, per_sigma=per_sigma)
