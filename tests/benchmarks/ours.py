"""dpcalc's questions. Each takes a case and a setting it does not use, and returns the call that is timed."""

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import epsilon_bounds as ends
from dpcalc.config.load import load_text
from dpcalc.planner.composition import composed
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import solve


def plan_of(case):
    return load_text(case.config, path=case.name).plan


def directions(plan):
    return [*composed(plan).steps.values()]


def interval(case, _):
    """Both certified ends of epsilon, both directions."""
    plan = plan_of(case)

    def ask():
        found = [ends(counts, delta=plan.delta, sides=(UPPER, LOWER)) for counts in directions(plan)]
        return max(lower for _, lower in found), max(upper for upper, _ in found)

    return ask


def upper_end(case, _):
    """What dp_accounting's accountant answers: a bound, both directions."""
    plan = plan_of(case)
    return lambda: (None, max(ends(counts, delta=plan.delta, sides=(UPPER,))[0] for counts in directions(plan)))


def estimate(case, _):
    """Inversion, both directions."""
    plan = plan_of(case)
    return lambda: (None, max(inversion(counts, delta=plan.delta) for counts in directions(plan)))


def one_inversion(case, _):
    """One call of the solver's inner function: the costlier direction, its steps at hand."""
    plan = plan_of(case)
    counts = max(directions(plan), key=lambda each: inversion(each, delta=plan.delta))
    return lambda: (None, inversion(counts, delta=plan.delta))


def sigma(case, _):
    """The smallest noise multiplier, with the neighbour that fails."""
    plan = plan_of(case)

    def ask():
        solution = solve(plan, "sigma", goal=EpsilonGoal(limit=case.target))
        return solution.fails_at, solution.value

    return ask
