"""Epsilons of plans, lower bounds and suggestions, each computed once by workers with limits of time and memory."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from dpcalc.errors import InputError
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import ROUGH_COUNTS, Guarantee, Kind
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass

FIT_SECONDS = 20.0  # for one suggestion or lower bound, without which there is a verdict; ordinary ones take under two
CLOSE = 1e-4  # relative margin below the limit that a suggested noise keeps, so that its printed digits still fit


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Request for the value of one quantity that keeps a plan within a limit.

    Attributes:
        plan: as `cost_relevant` returns it, above the limit.
        quantity: "sigma" or "steps".
        limit: epsilon, > 0.
    """

    plan: Plan
    quantity: str
    limit: float


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """Request for the certified lower bound beside an upper bound.

    Attributes:
        plan: as `cost_relevant` returns it.
        guarantee: its upper bound.
    """

    plan: Plan
    guarantee: Guarantee


Request = Plan | Fit | LowerBound
Answer = Guarantee | float | int


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of time and memory for the computations of one command.

    Attributes:
        seconds: for all requests together; infinite for no limit.
        memory: bytes for one process beyond its start, or None for no limit.
    """

    seconds: float = math.inf
    memory: int | None = None


NO_LIMITS = Limits()
OnFile = Callable[[str, int], None]


def ignore_file(path: str, total: int) -> None:
    """Do nothing: the file callback of callers that show no progress."""


class Costs:
    """Memoised evaluator of requests in worker processes; `close` ends the processes."""

    def __init__(
        self, *, limits: Limits = NO_LIMITS, on_progress: OnProgress = ignore_progress, on_file: OnFile = ignore_file
    ) -> None:
        """Start the clock; processes start with the first request."""
        self._on_progress = on_progress
        self._on_file = on_file
        self._files: dict[Request, str] = {}
        self._deadline = time.monotonic() + limits.seconds
        self._known: dict[Request, Answer | Exception] = {}
        self._workers: Workers[Request, Answer] = Workers(compute_answer, memory=limits.memory)

    def close(self) -> None:
        """End the worker processes."""
        self._workers.close()

    def compute_files(self, plans: Iterable[tuple[str, Plan]]) -> None:
        """Compute the bounds of the plans of files in worker processes.

        Progress shows the first file that has the plan.
        """
        files: dict[Request, str] = {}
        for path, plan in plans:
            files.setdefault(plan, path)
        self._files |= files
        self.compute(files)

    def compute(self, requests: Iterable[Request]) -> None:
        """Compute the requests whose answers are not yet known: plans first, then the others within 20 s each.

        An answer that fails or takes too long is remembered as its exception.
        """
        missing = [request for request in dict.fromkeys(requests) if request not in self._known]
        # Verdicts first: a suggestion that takes long must not use up the time for an epsilon of another file.
        self._compute_all([request for request in missing if isinstance(request, Plan)], math.inf)
        self._compute_all([request for request in missing if not isinstance(request, Plan)], FIT_SECONDS)

    def _compute_all(self, requests: Sequence[Request], seconds: float) -> None:
        """Compute requests in worker processes, each within `seconds`, and store their answers or exceptions."""
        on_part = partial(self._report_progress, requests)
        on_part(0.0)
        answers = self._workers.answers(requests, deadline=self._deadline, seconds=seconds, on_progress=on_part)
        self._known |= dict(zip(requests, answers, strict=True))

    def _report_progress(self, all_requests: Sequence[Request], part: float) -> None:
        """Report the part of all requests that is done, and before it the file of the next one, if any is left.

        A single request does not report the part 0.
        """
        done = round(part * len(all_requests))
        if done < len(all_requests):
            request = all_requests[done]
            plan = request if isinstance(request, Plan) else request.plan
            self._on_file(self._files.get(plan, ""), len(all_requests))
        if part or len(all_requests) > 1:
            self._on_progress(part)

    def guarantee(self, plan: Plan) -> Guarantee:
        """Return the certified upper bound on a plan's epsilon, computed once by method "auto".

        An answer that is no upper bound, such as NaN, raises ArithmeticError.

        A guarantee of kind upper, epsilon >= 0 or infinite.
        """
        answer = self._answer(cost_relevant(plan))
        if not isinstance(answer, Guarantee) or answer.kind is not Kind.UPPER or not answer.epsilon >= 0:  # NaN is not
            raise ArithmeticError(f"expected an upper bound >= 0, got {answer!r}")
        return answer

    def with_lower_bound(self, plan: Plan, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee with its lower bound, computed once; unchanged if that fails or takes over 20 s."""
        try:
            answer = self._answer(LowerBound(plan=cost_relevant(plan), guarantee=guarantee))
        except Exception:  # noqa: BLE001  the upper bound holds without it
            return guarantee
        return answer if isinstance(answer, Guarantee) else guarantee

    def fit(self, request: Fit) -> float | int | None:
        """Return the smallest noise (multiplier or factor) or the most steps that fit a limit; None if not computed."""
        try:
            answer = self._answer(request)
        except Exception:  # noqa: BLE001  a suggestion that cannot be made changes no verdict
            return None
        return None if isinstance(answer, Guarantee) else answer

    def _answer(self, request: Request) -> Answer:
        """Return the answer to a request, computed if not yet known; raise the exception stored in its place."""
        self.compute([request])
        answer = self._known[request]
        if isinstance(answer, Exception):
            raise answer
        return answer


def cost_relevant(plan: Plan) -> Plan:
    """Return a plan without labels, votes, budget and method, which do not change its cost by "auto"."""
    phases = tuple(replace(phase, name="", votes="") for phase in plan.phases)
    return replace(plan, name="", budget=None, method="auto", phases=phases)


def is_fallback(plan: Plan, guarantee: Guarantee) -> bool:
    """Return True if a bound may be loose although the tight method (pld) applies to the plan.

    So it is if another method than pld or "none" gave it, or if counts were rounded up; never for tuned plans.
    """
    # pld is tight up to its grid, and "none" is the infinite epsilon that no method can lower. Another method in their
    # place, or counts that were rounded up, may be far above the truth: such an answer needs a lower bound beside it.
    is_sharp = guarantee.method in {"pld", "none"} and ROUGH_COUNTS not in guarantee.notes
    return plan.knows_losses and plan.tuning is None and not is_sharp


def compute_answer(request: Request) -> Answer:
    """Compute the answer to a request in this process: an upper bound, a lower bound, or a value that fits."""
    from dpcalc.planner import evaluate

    if isinstance(request, Plan):
        return evaluate.guarantee(request, method="auto")
    if isinstance(request, LowerBound):
        return evaluate.with_lower_bound(request.plan, request.guarantee)
    return _fitting_value(request)


def _fitting_value(request: Fit) -> float | int:
    """Return the most steps that fit a limit, or the smallest noise that fits one lowered by 0.01 %."""
    from dpcalc.planner.search import EpsilonGoal
    from dpcalc.planner.solve import solve

    # A noise multiplier is printed with few digits; steps are whole numbers and need no margin.
    target = request.limit * (1 - CLOSE) if request.quantity == "sigma" else request.limit
    value = solve(request.plan, request.quantity, goal=EpsilonGoal(limit=target)).value
    if not isinstance(value, int | float):
        raise InputError(f"{request.quantity}: expected a number, got {value!r}")
    return value
