"""Every sample of tiny hierarchies beyond one plain step: draws with replacement, held draws, groups, epochs, episodes.

Straight from the definitions, like `brute_force`; no bound is used here. A *history* is what a run of T steps drew: for
each step the drawn units as nested (unit, what was drawn under it), a multiset where a unit can be drawn twice. Every
clipped contribution has a key, as in `brute_force`; the members of a group of protected units are absent from D',
zeroed or replaced there all at once.

Reading of the schemes: `again` draws its size independently, and every copy draws its own children; a level with
`every` keeps its draw (which children) for that many steps, and redraws them independently after that; a shuffled
epoch is a uniform permutation of the units cut into batches, as many as the larger data set has. Where fewer are left
than a draw takes, it takes them all.
"""

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.oracles.brute_force import ADD_REMOVE, ZERO_OUT, clipping_units, with_records


@dataclass(frozen=True)
class Draw:
    """How one drawn unit's children are drawn, held for `every` steps: fixed, again, poisson, capped, shuffle or all.

    A capped draw is a poisson one of which `cap` at most stay, any as likely as any others.
    """

    count: int
    kind: str = "all"
    amount: int | Fraction = 0
    every: int = 1
    cap: int = 0

    @property
    def rate(self):
        if self.kind == "all":
            return Fraction(1)
        return self.amount if self.kind == "poisson" else Fraction(self.amount, self.count)

    @property
    def most(self):
        """Most children, copies included, that one step can hold."""
        return self.amount if self.kind in {"fixed", "again", "shuffle"} else self.cap or self.count

    @property
    def steps_of_a_pass(self):
        """Steps of a shuffled pass."""
        return -(-self.count // self.amount)

    def chosen(self, children):
        """All (probability, drawn children) of one draw from those present."""
        if self.kind == "all":
            return [(Fraction(1), tuple(children))]
        if self.kind == "fixed":
            sets = list(itertools.combinations(children, min(self.amount, len(children))))
            return [(Fraction(1, len(sets)), drawn) for drawn in sets]
        if self.kind in {"poisson", "capped"}:
            most = self.cap or self.count
            return merged(
                (self.amount**n * (1 - self.amount) ** (len(children) - n) / math.comb(n, min(n, most)), kept)
                for n in range(len(children) + 1)
                for drawn in itertools.combinations(children, n)
                for kept in itertools.combinations(drawn, min(n, most))
            )
        if not children:
            return [(Fraction(1), ())]
        ways = Counter(tuple(sorted(drawn)) for drawn in itertools.product(children, repeat=self.amount))
        return [(Fraction(n, len(children) ** self.amount), drawn) for drawn, n in ways.items()]


def merged(listed):
    """Equal outcomes once."""
    found = defaultdict(Fraction)
    for chance, outcome in listed:
        if chance:
            found[outcome] += chance
    return [(chance, outcome) for outcome, chance in found.items()]


def histories(tree, steps, path=(), *, absent=frozenset()):
    """All (probability, history) under one unit that is held for so many steps."""
    if len(path) == len(tree):
        return [(Fraction(1), ((),) * steps)]
    draw = tree[len(path)]
    children = [(*path, i) for i in range(draw.count)]
    present = [child for child in children if child not in absent]
    if draw.kind == "shuffle":
        block, length = _passes(tree, draw, present, absent), draw.steps_of_a_pass
    else:
        block, length = _blocks(tree, draw, present, absent), draw.every
    runs = itertools.product(block, repeat=steps // length)
    return merged((math.prod(p for p, _ in run), tuple(s for _, held in run for s in held)) for run in runs)


def _blocks(tree, draw, present, absent):
    """All (probability, steps) while one draw is held."""
    under = {child: histories(tree, draw.every, child, absent=absent) for child in present}
    found = []
    for chance, drawn in draw.chosen(present):
        for parts in itertools.product(*(under[child] for child in drawn)):
            each = zip(*(history for _, history in parts), strict=True) if parts else ((),) * draw.every
            at_steps = tuple(tuple(sorted(zip(drawn, step, strict=True))) for step in each)
            found.append((chance * math.prod(part[0] for part in parts), at_steps))
    return merged(found)


def _passes(tree, draw, present, absent):
    """All (probability, steps) of one pass over shuffled units."""
    under = {unit: histories(tree, 1, unit, absent=absent) for unit in present}
    cuts = range(0, draw.count, draw.amount)
    splits = Counter(
        tuple(tuple(sorted(order[i : i + draw.amount])) for i in cuts) for order in itertools.permutations(present)
    )
    found = []
    for batches, ways in splits.items():
        for parts in itertools.product(*(under[unit] for batch in batches for unit in batch)):
            drawn = iter(parts)
            steps = tuple(tuple((unit, next(drawn)[1][0]) for unit in batch) for batch in batches)
            chance = Fraction(ways, math.factorial(len(present))) * math.prod(part[0] for part in parts)
            found.append((chance, steps))
    return merged(found)


def episodes(classes, records, tasks, ways, each, *, absent=frozenset()):
    """All (probability, history) of one step that builds `tasks` tasks of `ways` classes, `each` records of a class.

    Where fewer are left, all of them are taken. A task lists its classes with their records; classes are level 1.
    """
    drawn_classes, drawn_records = Draw(classes, "fixed", ways), Draw(records, "fixed", each)
    held = {
        (c,): [((c, r), ()) for r in range(records) if (c, r) not in absent]
        for c in range(classes)
        if (c,) not in absent
    }
    one = []
    for chance, chosen in drawn_classes.chosen(list(held)):
        for drawn in itertools.product(*(drawn_records.chosen(held[c]) for c in chosen)):
            task = tuple((c, records) for c, (_, records) in zip(chosen, drawn, strict=True))
            one.append((chance * math.prod(share for share, _ in drawn), task))
    runs = itertools.product(one, repeat=tasks)
    return merged((math.prod(p for p, _ in run), (tuple(sorted(task for _, task in run)),)) for run in runs)


def has_any(drawn, members):
    """Whether anything of a member's was drawn, within what was drawn under a unit."""
    return any(child in members or has_any(below, members) for child, below in drawn)


class Run:
    """All histories of T steps on D and D' as exact probabilities and incidence[history, step, key].

    Attributes:
        keys: the contributions an adversary may choose.
        roles: per key: ("unit", primed) for a clipped vector of a member's data alone, ("holder", primed) for a vector
            above the members with some member in it, ("mate", depth of the deepest common ancestor with a member).
    """

    def __init__(self, sides, vectors, members, relation):
        """`sides`: the histories of D and D'; `vectors(step)`: its clipped vectors as (unit, what was drawn under)."""
        self.members, self.relation = frozenset(members), relation
        self.depth = len(next(iter(self.members)))
        index = defaultdict(lambda: len(index))
        rows = [
            [[[index[key] for key in self._keys(vectors(s), primed)] for s in history] for _, history in side]
            for primed, side in enumerate(sides)
        ]
        self.keys = tuple(index)
        self.roles = tuple(self._role(key) for key in self.keys)
        self.probabilities = tuple([chance for chance, _ in side] for side in sides)
        self.incidence = tuple(self._matrix(side) for side in rows)

    def _keys(self, vectors, primed):
        for unit, drawn in vectors:
            inside = unit[: self.depth] in self.members
            if inside and primed and self.relation == ZERO_OUT:
                continue  # it contributes 0
            yield unit, drawn, int(bool(primed) and (inside or has_any(drawn, self.members)))

    def _role(self, key):
        unit, drawn, primed = key
        if unit[: self.depth] in self.members:
            return "unit", primed
        if has_any(drawn, self.members):
            return "holder", primed
        return "mate", max(self._common(unit, member) for member in self.members)

    @staticmethod
    def _common(unit, member):
        """Depth of the deepest common ancestor."""
        pairs = zip(unit, member, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _matrix(self, rows):
        found = np.zeros((len(rows), len(rows[0]), len(self.keys)))
        for i, history in enumerate(rows):
            for t, keys in enumerate(history):
                for key in keys:
                    found[i, t, key] += 1
        return found

    @property
    def steps(self):
        return self.incidence[0].shape[1]

    def weights(self):
        return tuple(np.array([float(chance) for chance in side]) for side in self.probabilities)

    def means(self, values):
        """Means on D and D' when the key k contributes values[t, k] (shape (T, K)) or values[t, k, :] in step t."""
        return tuple(np.einsum("itk,tk...->it...", m, values).reshape(len(m), -1) for m in self.incidence)


def group_run(tree, members, clip, relation, *, steps=1, kept=None, holes=frozenset()):
    """Runs of a hierarchy with a group of protected units (paths of one level).

    `steps` is a multiple of the longest hold or pass, of which the first `kept` are released (all by default); `holes`
    are units that neither data set has: with them sizes differ.
    """
    absent = holes | frozenset(members) if relation == ADD_REMOVE else holes
    sides = [
        merged((chance, history[:kept]) for chance, history in histories(tree, steps, absent=missing))
        for missing in (holes, absent)
    ]
    return Run(sides, lambda step: clipping_units(with_records(step, len(tree)), (), clip), members, relation)


def episode_run(shape, members, clip, relation, *, holes=frozenset()):
    """One step of constructed tasks; clip 2: per record, 1: per task, 0: the whole batch."""
    absent = holes | frozenset(members) if relation == ADD_REMOVE else holes
    sides = episodes(*shape, absent=holes), episodes(*shape, absent=absent)

    def vectors(step):
        if clip == 0:
            return [((), tuple(((-1, i), task) for i, task in enumerate(step)))]
        if clip == 1:
            return [((-1,), task) for task in step]
        return [record for task in step for _, records in task for record in records]

    return Run(sides, vectors, members, relation)
