"""A budget of work, counted in units that do not depend on the machine.

A config of a few lines can ask for more than any machine does in a minute. Whatever can grow without bound says, before
it works, how many units it is about to take: `spend`. Where an `allowance` is used up, `spend` raises, and whoever gave
the allowance answers by a looser bound that is cheaper. Which bound answers is part of the answer, so the count must be
the same everywhere: no clock is read, and what is remembered from an earlier question costs as much as if it were
computed anew (`cached_with_cost`).

One unit is about a nanosecond of one core of the year 2025. A logarithm or an exponential of an array's element counts
`ELEMENT` units, a turn of a loop in Python `TURN`. The counts are good to a factor of about two.
"""

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from dpcalc.errors import ConvergenceError, InputError, OutOfTimeError, TooLargeError, WorkExceededError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")

ELEMENT = 12.0  # units of one transcendental function of one element of an array, with what is done around it
TURN = 250.0  # units of a turn of a loop in Python
SECOND = 1e9  # units of about a second
_FEW = 4  # of many items that take about equal work: their work stands for that of all


def fraction_units(number: int, bits: int) -> float:
    """Return the work of `number` sums or products of reduced fractions of `bits` bits; it grows with bits squared."""
    return number * (8 * TURN + bits * bits / 400)


class Meter:
    """Counts work against a limit; what was remembered and has been paid for once is `charged`, with its work."""

    def __init__(self, limit: float, charged: dict[Hashable, float]) -> None:
        self.limit, self.spent, self.charged = limit, 0.0, charged

    def spend(self, units: float) -> None:
        """Add units that are about to be spent; then raise WorkExceededError if the sum exceeds the limit or is NaN."""
        self.spent += units
        if not self.spent <= self.limit:
            raise WorkExceededError(f"work: expected at most {self.limit:.3g} units, needs more")

    @property
    def left(self) -> float:
        return max(self.limit - self.spent, 0.0)


_METER: ContextVar[Meter | None] = ContextVar("work", default=None)


def spend(units: float) -> None:
    """Count work before it is done; WorkExceededError if the allowance has less left; nothing without an allowance."""
    meter = _METER.get()
    if meter is not None:
        meter.spend(units)


@contextmanager
def allowance(units: float) -> Iterator[Meter]:
    """Context that limits work to `units`, or to what an outer allowance has left; WorkExceededError beyond that."""
    outer = _METER.get()
    # No question may outspend the one around it.
    with own_allowance(units if outer is None else min(units, outer.left)) as meter:
        yield meter


def share_of_work(shares: int) -> AbstractContextManager[Meter]:
    """Context that limits work to one of `shares` equal parts of what the allowance around it has left."""
    outer = _METER.get()
    return allowance(math.inf if outer is None else outer.left / shares)


def alike(items: Collection[Item]) -> Iterator[Item]:
    """Yield items that take about equal work; WorkExceededError after a few if all would take far more than is left."""
    meter, first = _METER.get(), 0.0
    for at, item in enumerate(items):
        if meter is not None and at == 1:  # which pays for what all share
            first = meter.spent
        if meter is not None and at >= _FEW and (meter.spent - first) / (at - 1) * (len(items) - at) > 2 * meter.left:
            raise WorkExceededError(f"work: expected at most {meter.limit:.3g} units, needs more")
        yield item


@contextmanager
def own_allowance(units: float) -> Iterator[Meter]:
    """Context that limits work to `units`, whatever an outer allowance has left, and charges that one afterwards."""
    # So the result does not depend on earlier work.
    outer = _METER.get()
    meter = Meter(units, {} if outer is None else outer.charged)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)
        if outer is not None:
            # At most what was allowed: what was refused was not done.
            outer.spent += min(meter.spent, meter.limit)


@contextmanager
def question_of_its_own() -> Iterator[None]:
    """Context in which nothing is limited or paid for yet, so that the answer is the one that is given alone.

    What the outer allowance has paid for is not charged to it again.
    """
    outer, meter = _METER.get(), Meter(math.inf, {})
    token = _METER.set(meter)
    try:
        yield
    finally:
        _METER.reset(token)
        if outer is not None:
            again = meter.charged.keys() & outer.charged.keys()
            outer.spent += meter.spent - sum(meter.charged[key] for key in again)
            outer.charged |= meter.charged


class _Key(list[Hashable]):
    """Arguments with their hash: that of many losses takes longer than a look-up."""

    def __init__(self, arguments: tuple[Hashable, ...]) -> None:
        """Take the hash once."""
        super().__init__(arguments)
        self._hash = hash(arguments)

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


def cached_with_cost(max_entries: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return a decorator that caches the last results with their work; an allowance pays for each once, cached or not.

    Once in a question its work is taken from the allowance, whether or not the result was still known. What a function
    returns where work runs out inside it is passed on, not cached, and uses the allowance up.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        known: OrderedDict[Hashable, tuple[Result, float]] = OrderedDict()

        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            key = _Key((args, tuple(sorted(kwargs.items()))))
            meter = _METER.get() or Meter(math.inf, {})
            is_paid = (call, key) in meter.charged
            left = math.inf if is_paid else meter.left
            # What is known but costs more than is left is computed again: the answer may not depend on earlier ones.
            entry = known.get(key)
            if entry is None or entry[1] > left:
                # A meter that shares nothing charged: the cost may not depend on what was asked before.
                inner = Meter(left, {})
                token = _METER.set(inner)
                try:
                    entry = function(*args, **kwargs), inner.spent
                except WorkExceededError:
                    meter.spent = meter.limit
                    raise
                finally:
                    _METER.reset(token)
            result, cost = entry
            if cost > left:  # a stand-in, found where work ran out inside the function
                meter.spent += cost
                return result
            known[key] = entry
            known.move_to_end(key)
            if len(known) > max_entries:
                known.popitem(last=False)
            if not is_paid:
                meter.spend(cost)
                meter.charged[call, key] = cost
            return result

        call.cache_clear = known.clear  # type: ignore[attr-defined]  # as functools names it
        return call

    return decorate


# Bounds that stand in for one another: sharp ones first, each with an allowance; the last one always answers.

Part = TypeVar("Part")


def first_within_work(
    *attempts: tuple[float, type[Exception], Callable[[], Part], str], last: Callable[[], Part], note: str
) -> tuple[Part, str]:
    """Return (answer, note) of the first of the attempts (work, failure, compute, note) that does not fail."""
    # A failure is an error of that class, also for want of work. Without any, `last` is charged, but not limited: it
    # always answers, unless the allowance around this question is used up. Who gave that one knows what to do.
    for units, failure, compute, its_note in attempts:
        with suppress(failure), allowance(units):
            return compute(), its_note
    if attempts:
        spend(1.0)
    with own_allowance(math.inf):
        return last(), note


# Parts of an answer beside the guarantee: one that cannot be computed is left out and named, the guarantee stays.

Absent = TypeVar("Absent")

FAILURES = (InputError, ArithmeticError, MemoryError, RecursionError)
"""What a computation may end with on a valid plan: ConvergenceError is an ArithmeticError, UnsupportedError an
InputError. Anything else is a defect of dpcalc."""


class DefectWarning(RuntimeWarning):
    """A defect of dpcalc in a part of an answer that could be left out; please report it."""


PART = 1.0 * SECOND
"""Work that a part of an answer may take beside the guarantee: together with the guarantee's it stays below 10 s."""


def optional(
    name: str, compute: Callable[[], Part], absent: Absent, *, units: float = PART
) -> tuple[Part | Absent, str]:
    """Return (part, ""), or (`absent`, sentence why) if computing it fails; only an OutOfTimeError is raised.

    Warns:
        DefectWarning: the part failed with an error that only a defect can cause. Tests turn warnings into errors.
    """
    try:
        with allowance(units):
            spend(1.0)  # nothing is begun where nothing is left
            return compute(), ""
    except OutOfTimeError:
        raise
    except FAILURES as error:
        match error:
            case TooLargeError():
                reason = "it needs more work or memory than one answer may take"
            case ConvergenceError():
                reason = "its computation did not reach a certified number"
            case InputError():
                reason = "it is not defined for this run"
            case MemoryError():
                reason = "there is not enough memory"
            case _:
                reason = f"its numbers leave the range of floats ({type(error).__name__})"
        return absent, f"{name} is missing: {reason}"
    except Exception as error:  # noqa: BLE001  a defect in a part does not take away what is certified
        text = f"{name} is missing: internal error: {type(error).__name__}: {error}"
        warnings.warn(text, DefectWarning, stacklevel=2)
        return absent, text
