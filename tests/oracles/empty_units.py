"""The largest cost of any simple data set, where a unit of which no record is drawn contributes exactly nothing.

A simple data set gives every clipped vector a value from -1, 0, 1 by its role: which data of what is protected it
holds, or how near it is to it. Records of zeroed units are as good as not drawn: a clipped vector above them is that of
the other records.
"""

import itertools

import numpy as np

from tests.oracles.brute_force import ZERO_OUT, clipping_units, with_records
from tests.oracles.draws import Run, histories, merged
from tests.oracles.joint import divergences


def without(outcome, members):
    """An outcome without some units."""
    return tuple((child, without(drawn, members)) for child, drawn in outcome if child not in members)


class ZeroedRun(Run):
    """Runs on D and D' where zeroed units leave no trace in the vectors of the units above them."""

    def _keys(self, vectors, primed):
        for unit, drawn in vectors:
            if not primed:
                yield unit, drawn, 0
            elif unit[: self.depth] not in self.members:
                others = without(drawn, self.members)
                levels = self.levels - len(unit)
                left = with_records(others, levels) if levels else others
                if left or not levels:
                    yield unit, left, 0


def strict_run(problem):
    """The run of a problem over levels, zeroed units without a trace."""
    if problem.relation != ZERO_OUT:
        return problem.run
    levels = len(problem.tree)
    one = merged(
        (chance, history[: problem.kept])
        for chance, history in histories(problem.tree, problem.steps, absent=problem.holes)
    )

    class Leveled(ZeroedRun):
        pass

    Leveled.levels = levels

    def vectors(step):
        return clipping_units(with_records(step, levels), (), problem.clip)

    return Leveled((one, one), vectors, problem.members, problem.relation)


def role_count(problem):
    """How many roles the clipped vectors of a problem have."""
    return len(set(strict_run(problem).roles))


def costliest(problem, epsilons):
    """The largest divergence of any simple data set in either direction at each epsilon.

    A partial oracle for three and more steps: a role has the same value in every step here, whereas a data set may
    change its values from step to step and cost more. There the result says what is attained, not that nothing costs
    more; a lower bound above it need not be wrong.
    """
    return max_divergences(problem, epsilons)[0]


def max_divergences(problem, epsilons):
    """(`costliest`, function from the values of the roles to both directions' larger divergences, patterns by cost)."""
    run = strict_run(problem)
    roles, weights = list(dict.fromkeys(run.roles)), run.weights()

    def cost(values):
        by_role = dict(zip(roles, values, strict=True))
        pattern = np.array([[by_role[role] for role in run.roles]] * run.steps)
        return divergences(weights, run.means(pattern), problem.sigma, epsilons).max(axis=0)

    # The mirror image of a pattern costs as much.
    patterns = [
        values
        for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles))
        if next((value for value in values if value), 0.0) >= 0
    ]
    costs = np.array([cost(values) for values in patterns])
    return costs.max(axis=0), cost, [[patterns[row] for row in np.argsort(-column)] for column in costs.T]


def costliest_of_any_length(problem, epsilons):
    """`costliest` with contributions in eighths: from the best three patterns, one role after the other."""
    found, cost, by_cost = max_divergences(problem, epsilons)
    best = found.copy()
    for place, patterns in enumerate(by_cost):
        for start in patterns[:3]:
            values, value, improved = list(start), cost(start)[place], True
            while improved:
                improved = False
                for role, move in itertools.product(range(len(values)), (-0.125, 0.125)):
                    moved = [*values[:role], values[role] + move, *values[role + 1 :]]
                    if abs(moved[role]) <= 1 and cost(moved)[place] > value:
                        values, value, improved = moved, cost(moved)[place], True
            best[place] = max(best[place], value)
    return best
