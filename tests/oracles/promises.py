"""What the worst step costs of which a promise alone is known: over all mechanisms that keep it on every batch.

A batch is the multiset of the protected level's units that a step draws, each with what is drawn under it. A relation
says which batches have one change between them. For an event let f(S) be its probability on the batch S. The promise
(epsilon, delta) ties batches with one change between them, f(S) <= g(f(S')), g(a) = min(e^epsilon a + delta,
1 - e^-epsilon (1 - delta - a)), and so those with d changes by g applied d times. g rises, so that any f on some
batches that keeps to all these pairs is extended to all batches by the smallest g^d(f(S)): the linear programme over
the batches that occur is over all mechanisms on all batches. No code of the package is used.
"""

import math
from collections import Counter, defaultdict

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from tests.oracles.brute_force import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from tests.oracles.draws import episodes, has_any, histories

ANY = "any"


def batch_laws(problem):
    """The laws {batch: probability} of the first step in D and in D'; a batch is a sorted tuple of (unit, content)."""
    members, depth = frozenset(problem.members), len(problem.members[0])

    def law(absent, primed):
        if problem.shape:
            sides = episodes(*problem.shape, absent=problem.holes | absent)
        else:
            sides = histories(problem.tree, problem.steps, absent=problem.holes | absent)
        found = defaultdict(float)
        for chance, history in sides:
            batch = []
            for unit, content in drawn_units(problem, history[0], depth):
                is_member = unit in members
                if primed and is_member and problem.relation == ZERO_OUT:
                    continue  # as if it were not drawn
                batch.append((unit, content, int(primed and (is_member or has_any(content, members)))))
            found[tuple(sorted(batch, key=repr))] += float(chance)
        return found

    return law(frozenset(), False), law(members if problem.relation == ADD_REMOVE else frozenset(), True)


def drawn_units(problem, step, depth):
    """(unit, what is drawn under it) for each copy of a unit of the protected level in a step."""
    if problem.shape:  # tasks of classes with their records
        for task in step:
            for unit, records in task:
                yield from [(unit, tuple(records))] if depth == 1 else [(record, ()) for record, _ in records]
        return
    if depth == 1:
        yield from step
        return
    for _, below in step:
        yield from drawn_units(problem, below, depth - 1)


def changes(first, second, relation):
    """How many changes of the relation lead from one batch to another; infinite for none."""
    ours, theirs = Counter(first), Counter(second)
    gone, new = (ours - theirs).total(), (theirs - ours).total()
    if relation in {ADD_REMOVE, ZERO_OUT}:
        return gone + new
    if relation == REPLACE_ONE:
        return gone if gone == new else math.inf
    return max(gone, new)


def envelope(epsilon, delta, number):
    """The affine functions (slope, offset) whose least is g applied `number` times, each of them least somewhere."""
    one = [(math.exp(epsilon), delta), (math.exp(-epsilon), 1 - math.exp(-epsilon) * (1 - delta))]
    lines = [(1.0, 0.0)]
    small = np.logspace(-16, -3.5, 2000)  # lines of slope e^(d epsilon) are the least of all next to 0 and to 1 alone
    at = np.concatenate([[0.0], small, np.linspace(0, 1, 4001), 1 - small])
    for _ in range(number):
        lines = [(a * b, c + a * d) for a, c in one for b, d in lines]
        values = np.array([slope * at + offset for slope, offset in lines])
        kept = {int(i) for i in values.argmin(axis=0)} | {
            int(i) for i in (values <= 1e-12 + values.min(axis=0)).any(1).nonzero()[0]
        }
        lines = sorted({lines[i] for i in kept})
    return [line for line in lines if min(line[1], sum(line)) < 1]


class Worst:
    """All mechanisms that keep a promise, by the probability of an event on every batch that occurs."""

    def __init__(self, laws, epsilon, delta, relation):
        batches = sorted({batch for law in laws for batch in law}, key=repr)
        self.laws = [np.array([law.get(batch, 0.0) for batch in batches]) for law in laws]
        pieces, rows, columns, values, limits = {}, [], [], [], []
        apart = np.array([[changes(first, second, relation) for second in batches] for first in batches], dtype=float)
        for i in range(len(batches)):
            for j in range(len(batches)):
                far = apart[i, j]
                # A batch that occurs between the two ties them as well.
                if i == j or far == math.inf or (apart[i] + apart[:, j] == far).sum() > 2:
                    continue
                if far not in pieces:
                    pieces[far] = envelope(epsilon, delta, int(far))
                for slope, offset in pieces[far]:
                    rows += [len(limits)] * 2
                    columns += [i, j]
                    values += [1.0, -slope]
                    limits.append(offset)
        self.limits = np.array(limits)
        self.matrix = csr_array((values, (rows, columns)), shape=(len(limits), len(batches))) if limits else None

    def delta(self, epsilon, way):
        """The largest P(E) - e^epsilon Q(E); `way` 1 exchanges P and Q."""
        p, q = self.laws[::-1] if way else self.laws
        limits = {} if self.matrix is None else {"A_ub": self.matrix, "b_ub": self.limits}
        found = linprog(math.exp(epsilon) * q - p, bounds=(0, 1), method="highs", **limits)
        assert found.status == 0, found
        return -found.fun
