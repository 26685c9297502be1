"""What plans cost: each question computed once, many of them by two processes, none beyond a deadline."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpcalc.errors import InputError
from dpcalc.gate.workers import Told, answers, nobody
from dpcalc.guarantee import Guarantee, Kind
from dpcalc.planner.evaluate import guarantee as cost_of
from dpcalc.planner.plan import Plan

PATIENCE = 0.5  # seconds of questions answered here; two more interpreters would hardly have started by then
CLOSE = 1e-4  # a suggested noise meets a target this much (relative) below the limit, so that it can be rounded up


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The question what would fit.

    Attributes:
        plan: what does not.
        quantity: "sigma" or "steps".
        limit: epsilon, > 0.
    """

    plan: Plan
    quantity: str
    limit: float


Question = Plan | Fit
Answer = Guarantee | float | int


class Costs:
    """Questions and their answers."""

    def __init__(self, *, seconds: float | None = None, told: Told = nobody) -> None:
        """Start the clock.

        Args:
            seconds: how long all answers together may take, or None.
            told: is told which part of the questions is answered, from 0 to 1.
        """
        self._told = told
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._known: dict[Question, Answer | Exception] = {}

    def settle(self, questions: Iterable[Question]) -> None:
        """Have questions answered that were not asked before.

        Args:
            questions: plans as `bare` makes them, and fits of such plans.
        """
        asked = [question for question in dict.fromkeys(questions) if question not in self._known]
        start, left = time.monotonic(), list(reversed(asked))
        if self._deadline is None:  # what runs here cannot be stopped
            while left and (len(left) == 1 or time.monotonic() < start + PATIENCE):
                question = left.pop()
                self._known[question] = _answered(question)

        def told(part: float) -> None:
            self._told(1 - (1 - part) * len(left) / len(asked))

        left.reverse()
        found = answers(answered, left, deadline=self._deadline, told=told)
        self._known |= dict(zip(left, found, strict=True))

    def guarantee(self, plan: Plan) -> Guarantee:
        """What a plan costs, always by PLD; by RDP where it is the best of several runs.

        Args:
            plan: as a file states it.

        Returns:
            An upper bound.

        Raises:
            Exception: whatever stands in the place of an answer.
        """
        answer = self._answer(bare(plan))
        if not isinstance(answer, Guarantee) or answer.kind is not Kind.UPPER or not answer.epsilon >= 0:  # NaN is not
            raise ArithmeticError(f"expected an upper bound >= 0, got {answer!r}")
        return answer

    def fit(self, question: Fit) -> float | int | None:
        """What would fit: the smallest noise multiplier (or common factor), or the most steps; None if not known."""
        try:
            answer = self._answer(question)
        except Exception:  # noqa: BLE001  a suggestion that cannot be made changes no verdict
            return None
        return None if isinstance(answer, Guarantee) else answer

    def _answer(self, question: Question) -> Answer:
        """A known answer, or one that is computed here."""
        if question not in self._known:
            self._known[question] = _answered(question)
        answer = self._known[question]
        if isinstance(answer, Exception):
            raise answer
        return answer


def bare(plan: Plan) -> Plan:
    """A plan without what does not change its cost: labels, votes, budget, accountant."""
    phases = tuple(replace(phase, name="", votes="") for phase in plan.phases)
    return replace(plan, name="", budget=None, method="auto", phases=phases)


def _answered(question: Question) -> Answer | Exception:
    """The answer to one question, or what stands in its place wherever it is asked for."""
    try:
        return answered(question)
    except Exception as error:  # noqa: BLE001  whatever it is, it is no answer
        return error


def answered(question: Question) -> Answer:
    """The answer to one question, computed here and now.

    Raises:
        InputError: there is nothing to solve for.
        NoSolution: nothing fits.
        ConvergenceError: there is no certified answer.
    """
    if isinstance(question, Plan):
        return cost_of(question, method="pld" if question.knows_losses and question.tuning is None else "rdp")

    from dpcalc.planner.goals import EpsilonGoal  # noqa: PLC0415  where nothing fails nothing is solved for
    from dpcalc.planner.solve import solve  # noqa: PLC0415  likewise

    target = question.limit * (1 - CLOSE) if question.quantity == "sigma" else question.limit
    value = solve(question.plan, question.quantity, goal=EpsilonGoal(limit=target)).value
    if not isinstance(value, int | float):
        raise InputError(f"{question.quantity}: expected a number, got {value!r}")
    return value
