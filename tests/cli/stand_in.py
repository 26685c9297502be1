"""dpcalc with arithmetic in place of accounting: epsilon is steps / 1000, a few steps mean trouble.

The tests of the command line import it; those that need a process of their own run this file.
"""

import importlib
import math
import sys
import time
from fractions import Fraction
from types import SimpleNamespace

from dpcalc.__main__ import main
from dpcalc.errors import ConvergenceError
from dpcalc.guarantee import Guarantee, Kind, Row
from dpcalc.planner.advice import Note
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import Evaluation
from dpcalc.planner.words import PhaseSummary

WITH_ACCOUNTING = (
    "dpcalc.api",
    "dpcalc.audit.scores",
    "dpcalc.charts",
    "dpcalc.gate.ledger",
    "dpcalc.imports.read",
    "dpcalc.planner.compare",
    "dpcalc.planner.solve",
    "dpcalc.planner.statement",
    "dpcalc.audit.simulate",
    "dpcalc.sweep",
    "dpcalc.training",
)
CRASHING, STUCK, NOT_A_NUMBER, INFINITE, SLOW = 666, 901, 777, 999, 130


def guarantee(plan, *, method=None):
    plan = composed(plan).plan
    if plan.steps == CRASHING:
        raise ZeroDivisionError("division \x1b[31m by zero")
    if plan.steps == STUCK:
        raise ConvergenceError("the grid did not converge")
    if plan.steps == SLOW:
        sys.stderr.write("computing\n")
        sys.stderr.flush()
        time.sleep(60)
    method = plan.method if method is None else method
    special = {NOT_A_NUMBER: math.nan, INFINITE: math.inf}
    return Guarantee(
        epsilon=special.get(plan.steps, plan.steps / 1000),
        delta=plan.delta,
        kind=Kind.UPPER,
        unit=plan.unit_name,
        adjacency=plan.adjacency,
        group_size=plan.group_size,
        method="pld" if method == "auto" else method,
        bound="one-step bound",
    )


def evaluate(plan):
    plan = composed(plan).plan
    phases = (
        PhaseSummary(
            name=phase.name,
            steps=phase.steps,
            mechanism="gaussian",
            noise_multiplier=phase.mechanism.noise_multiplier,
            clip="example",
            sampling="256 of 60000 examples, Poisson",
            inclusion=Fraction(256, 60000),
            shift=0,
            distances=(1,),
            distances_swapped=(1,),
            other_sums="",
        )
        for phase in plan.phases
    )
    return Evaluation(
        guarantee=guarantee(plan),
        alternatives=(),
        steps=plan.steps,
        phases=tuple(phases),
        assumptions=("the sampler really draws so",),
        notes=(Note(text="Opacus would print the same"),),
    )


def compare(plan):
    cost = guarantee(plan).epsilon
    return (
        Row(method="pld", bound="one-step bound", epsilon=cost, kind=Kind.UPPER, valid=True),
        Row(method="rdp", bound="one-step bound", epsilon=2 * cost, kind=Kind.UPPER, valid=True, note="order 12"),
        Row(method="gdp", bound="", epsilon=None, kind=Kind.APPROXIMATION, valid=False, note="does [not] apply"),
    )


def solve(plan, quantity, *, goal, phase=None):
    del plan, phase
    if quantity != "steps":
        raise ConvergenceError("only steps cost anything here")
    return SimpleNamespace(value=math.floor(1000 * goal.limit))


class Here:
    """Answers in this process, in the place of `dpcalc.gate.workers.Workers`."""

    def __init__(self, function, **_):
        self.function = function

    def finished(self, tasks, *, deadline):
        for number, task in enumerate(tasks):
            if deadline > 0:
                yield number, self.answer(task)

    def answers(self, tasks, *, deadline):  # noqa: ARG002
        return tuple(map(self.answer, tasks))

    def answer(self, task):
        try:
            return self.function(task)
        except Exception as error:  # noqa: BLE001  as a worker does
            return error

    def close(self):
        pass


def keep_real_accounting():
    """Import the modules that import functions of the accounting; imported later, they would keep the stand-ins."""
    for name in WITH_ACCOUNTING:
        importlib.import_module(name)


def install(patch):
    """Put the arithmetic in place; `patch(module, name, value)`."""
    keep_real_accounting()
    for name, stand_in in {
        "planner.evaluate.guarantee": guarantee,
        "planner.evaluate.evaluate": evaluate,
        "planner.evaluate.with_lower_bound": lambda _, main: main,
        "planner.compare.compare": compare,
        "planner.solve.solve": solve,
        "gate.workers.Workers": Here,  # a process of its own would have the real accounting
    }.items():
        module, _, attribute = f"dpcalc.{name}".rpartition(".")
        patch(importlib.import_module(module), attribute, stand_in)


if __name__ == "__main__":
    install(setattr)
    main()
