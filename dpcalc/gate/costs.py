"""Epsilons of plans, lower bounds and suggestions, each computed once by workers with limits of time and memory."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from dpcalc.errors import InputError, OutOfTimeError
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import ROUGH_COUNTS, Guarantee
from dpcalc.planner.calibration import LIBRARIES
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance

FIT_WORK = 15.0 * SECOND  # for one suggestion, without which there is a verdict; ordinary ones take under two seconds
CLOSE = 1e-4  # relative margin below the limit that a suggested noise keeps, so that its printed digits still fit


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to compute about a plan, as `cost_relevant` returns it."""

    plan: Plan
    quantity: str = "epsilon"  # the upper bound, "lower" to add the lower one to `upper`, "sigma" or "steps" that fit
    upper: Guarantee | None = None
    limit: float = 0.0  # of epsilon, > 0, within which sigma or steps keep the plan


Answer = Guarantee | float | int


class Costs:
    """Memoised evaluator of requests in worker processes, which start with the first request; `close` ends them.

    `seconds` (infinite for no limit) are for all requests together, from now on; `memory` is in bytes for one process
    beyond its start, None for no limit.
    """

    def __init__(
        self,
        *,
        seconds: float = math.inf,
        memory: int | None = None,
        on_progress: OnProgress = ignore_progress,
        on_file: Callable[[str], object] = str,  # of the file that is worked on
    ) -> None:
        """Start the clock."""
        self._on_progress = on_progress
        self._on_file = on_file
        self._files: dict[Plan, str] = {}
        self._deadline = time.monotonic() + seconds
        self._known: dict[Request, Answer | Exception] = {}
        self._workers: Workers[Request, Answer] = Workers(compute_answer, memory=memory)

    def close(self) -> None:
        self._workers.close()

    def stop(self) -> None:
        """Compute nothing more: what is not yet known has no answer in time."""
        self._deadline = -math.inf

    def compute_files(self, plans: Iterable[tuple[str, Plan]]) -> None:
        """Compute the bounds of the plans of files; progress shows the first file that has the plan."""
        files: dict[Plan, str] = {}
        for path, plan in plans:
            files.setdefault(plan, path)
        self._files |= files
        self.compute(Request(plan=plan) for plan in files)

    def compute(self, requests: Iterable[Request]) -> None:
        """Compute the requests whose answers are not yet known; remember what failed as its exception."""
        batch = [request for request in dict.fromkeys(requests) if request not in self._known]

        def report(part: float) -> None:
            # The file of the next request, if any is left; a single one does not report the part 0.
            done = round(part * len(batch))
            if done < len(batch):
                self._on_file(self._files.get(batch[done].plan, ""))
            if part or len(batch) > 1:
                self._on_progress(part)

        report(0.0)
        for done, (number, answer) in enumerate(self._workers.finished(batch, deadline=self._deadline), start=1):
            self._known[batch[number]] = answer  # at once: Ctrl-C leaves what is finished
            report(done / len(batch))
        late = OutOfTimeError("no answer within the time allowed; --timeout allows more")
        self._known = dict.fromkeys(batch, late) | self._known

    def guarantee(self, plan: Plan) -> Guarantee:
        """Return the upper bound on a plan's epsilon by "auto", >= 0 or infinite; ArithmeticError for anything else."""
        answer = self._answer(Request(plan=cost_relevant(plan)))
        if not isinstance(answer, Guarantee) or answer.kind is not plan.bound_kind or not answer.epsilon >= 0:  # NaN
            raise ArithmeticError(f"expected an upper bound >= 0, got {answer!r}")
        return answer

    def attempt(self, request: Request) -> Answer | None:
        """Return the answer to a request, None if it fails: without it there is a verdict all the same."""
        try:
            return self._answer(request)
        except Exception:  # noqa: BLE001
            return None

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
    """Return True if a bound may be loose although the tight method (pld) applies to the plan; never if it is tuned."""
    # pld is tight up to its grid, and "none" is the infinite epsilon that no method can lower. Another method in their
    # place, or counts that were rounded up, may be far above the truth: such an answer needs a lower bound beside it.
    is_sharp = guarantee.method in {"pld", "none", *LIBRARIES} and ROUGH_COUNTS not in guarantee.notes
    return plan.knows_losses and plan.tuning is None and not is_sharp


def compute_answer(request: Request) -> Answer:
    """Compute in this process an upper bound, a lower bound, or the most steps or the smallest noise that fits."""
    from dpcalc.planner import evaluate

    if request.quantity == "epsilon":
        return evaluate.guarantee(request.plan, method="auto")
    if request.upper is not None:
        return evaluate.with_lower_bound(request.plan, request.upper)

    from dpcalc.planner.search import EpsilonGoal
    from dpcalc.planner.solve import solve

    # A noise multiplier is printed with few digits; steps are whole numbers and need no margin.
    target = request.limit * (1 - CLOSE) if request.quantity == "sigma" else request.limit
    with allowance(FIT_WORK):
        value = solve(request.plan, request.quantity, goal=EpsilonGoal(limit=target)).value
    if not isinstance(value, int | float):
        raise InputError(f"{request.quantity}: expected a number, got {value!r}")
    return value
