"""Epsilon at every point of a grid over config keys: the inversion estimate, certified bounds near the budget."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TypeVar

from dpcalc.config.files import config_folder
from dpcalc.config.load import load_from_flags, load_text, mapped_document
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import ConfigError, absolute
from dpcalc.config.tree import split_path
from dpcalc.errors import FIX_INPUT, NO_VERDICT, ConvergenceError, InputError
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import Kind
from dpcalc.planner.advice import places_of_unused_order
from dpcalc.planner.compare import inversion_row
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.words import shared_facts
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance

MAX_POINTS = 1_000_000
MAX_NUMBERS = 1_000_000  # in one range: they are held in memory
_ESTIMATE_WORK = 1.5 * SECOND  # of one point; where more is needed its certified bound is taken, with its own limit
NEAR_BUDGET = 0.01
"""Relative distance of an estimate from the budget within which a certified bound is computed instead.

An estimate has no certificate, so that it must not decide whether a point is within its budget. A larger value costs
time only; docs/solving.md states it."""
_MAX_CHUNK, _MIN_CHUNKS = 50, 200  # points of a task at most; tasks of a large grid at least, to show progress
_SIZES = ("size", "at_most", "max_batch_size", "max_group_size", "count", "group_size", "batch_size", "examples")
_WHOLE_KEYS = frozenset((*_SIZES, "steps", "redraw_every", "tasks", "ways", "shots", "queries"))  # last names of keys


@dataclass(frozen=True, kw_only=True)
class SweptConfig:
    """The config, read once: a sweep takes hours, and all its points are to be of one state of it."""

    text: str | None  # None for a run that is given by options alone
    name: str  # of the file in messages
    place: str  # the file as the user named it, from whose folder references are resolved
    key: str = ""  # the section that is the config, "" for all
    mapped: str = ""  # the file that it is the map of, "" if it is none
    overrides: Overrides

    def plan(self, keys: Iterable[str], values: Iterable[str]) -> Plan:
        """Return the plan with these values of the keys; InputError if the config is not valid with them."""
        swept = tuple(f"{key}={value}" for key, value in zip(keys, values, strict=True))
        overrides = replace(self.overrides, swept=swept)
        if self.text is None:
            return load_from_flags(overrides).plan
        files = config_folder(self.place)
        name = os.path.relpath(absolute(self.mapped), files.folder) if self.mapped else ""
        mapped = mapped_document(self.mapped, name, self.place, files) if self.mapped else None
        loaded = load_text(self.text, path=self.name, key=self.key, overrides=overrides, files=files, mapped=mapped)
        return loaded.plan


GridAxis = tuple[str, tuple[str, ...]]
"""A key that is varied, a dotted path as for `--set`, and its values as texts that can be written into a config."""


def numbers_of(axis: GridAxis) -> tuple[float, ...] | None:
    """Return the values of an axis as numbers; None if one of them is a word."""
    try:
        return tuple(map(float, axis[1]))
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one point of a grid."""

    values: tuple[str, ...]  # one for each axis
    epsilon: float | None = None  # infinite without noise, None if there is an `error`
    kind: Kind = Kind.ESTIMATE  # ESTIMATE or, for a certified bound, UPPER
    method: str = ""
    budget: float | None = None  # that of the point's config
    error: str = ""
    note: str = ""  # where the epsilon is that of the config with another word, and the word
    code: int = 0  # of the point: 0, 2 for a config that is not valid, 3 for no verdict

    @property
    def fits(self) -> bool | None:
        return None if self.epsilon is None or self.budget is None else self.epsilon <= self.budget


Points = tuple[tuple[str, ...], ...]
Answers = Iterable[tuple[int, tuple[Outcome, ...] | Exception]]
Pool = Callable[[Callable[[Points], tuple[Outcome, ...]], Sequence[Points]], Answers]
"""Calls a function for each task and yields (number of the task from 0, its result or exception) as they finish."""


def parse_numbers(text: str, *, option: str) -> tuple[str, ...]:
    """Return the numbers of a list or a range as texts, a range with both ends; InputError, which names the option.

    The ends stay as the user wrote them (1_000, 1e-5), the numbers between them have six digits, as a person writes.

    Example:
        >>> parse_numbers("1:2:3", option="--over")
        ('1', '1.5', '2')
        >>> parse_numbers("1:100:3:log", option="--over"), parse_numbers("5,7", option="--over")
        (('1', '10', '100'), ('5', '7'))
    """
    forms = "A:B:N (N numbers from A to B), A:B:N:log (by equal factors) or A,B,C"
    malformed = InputError(f"{option}: expected {forms}, got `{text}`")
    is_range = ":" in text
    parts = [part.strip() for part in text.split(":" if is_range else ",")]
    if is_range and (len(parts) not in {3, 4} or parts[3:] not in ([], ["log"])):
        raise malformed
    try:
        numbers = [float(part) for part in (parts[:3] if is_range else parts)]
    except ValueError:
        raise malformed from None
    if not all(map(math.isfinite, numbers)):
        raise malformed
    if not is_range:
        return tuple(parts)
    low, high, count = numbers
    if not (count.is_integer() and 1 <= count <= MAX_NUMBERS):
        expected = f"a whole number from 1 to {MAX_NUMBERS} of points"
        raise InputError(f"{option}: expected {expected}, got `{parts[2]}` in `{text}`")
    if parts[3:] and not (low > 0 and high > 0):
        raise InputError(f"{option}: expected ends > 0 for equal factors, got `{text}`")
    if count == 1:
        return (parts[0],)
    shares = (index / (count - 1) for index in range(1, int(count) - 1))
    between = (low * (high / low) ** share if parts[3:] else low + (high - low) * share for share in shares)
    return (parts[0], *(f"{value:.6g}" for value in between), parts[1])


def parse_axis(text: str) -> GridAxis:
    """Return the axis of KEY=A:B:N, KEY=A:B:N:log or KEY=A,B,C; a key of whole numbers takes the nearest."""
    key, separator, values = text.partition("=")
    names, read_to = split_path(key)  # it reads as far as the key is well formed
    if not separator or not names or read_to < len(key):
        raise InputError(f"--over: expected KEY=A:B:N, e.g. mechanism.noise_multiplier=0.5:4:20, got `{text}`")
    if ":" not in values:
        listed = [part.strip() for part in values.split(",")]
        if not all(listed):
            raise InputError(f"--over: expected KEY=A,B,C or KEY=A:B:N, got `{text}`")
        return key, tuple(dict.fromkeys(listed))
    numbers = parse_numbers(values, option=f"--over {key}")
    if names[-1][0] in _WHOLE_KEYS:  # the nearest, of halves the even one
        numbers = tuple(str(round(float(number))) for number in numbers)
    return key, tuple(dict.fromkeys(numbers))


def sweep(
    base: SweptConfig, axes: Sequence[GridAxis], pool: Pool, on_progress: OnProgress = ignore_progress
) -> tuple[Outcome, ...]:
    """Return the outcome of each point, the last axis changing fastest; on Ctrl-C those that are there."""
    keys = tuple(key for key, _ in axes)
    if len(set(keys)) < len(keys):
        raise InputError(f"--over: expected every key once, got {', '.join(keys)}")
    count = math.prod(len(values) for _, values in axes)
    if count > MAX_POINTS:
        raise InputError(f"--over: expected at most {MAX_POINTS} points, got {count}")
    points = tuple(product(*(values for _, values in axes)))
    # Chunks are so large that starting a task costs little beside its points, and so small that progress is seen and
    # that a fast process takes over what a slow one has not begun.
    size = min(_MAX_CHUNK, max(1, count // _MIN_CHUNKS))
    chunks = [points[at : at + size] for at in range(0, count, size)]
    answers: dict[int, tuple[Outcome, ...]] = {}
    is_stopped = False
    try:
        for number, answer in pool(partial(chunk_outcomes, base, keys), chunks):
            if isinstance(answer, Exception):  # the task was lost: its points have no verdict
                lost = (Outcome(values=each, error=str(answer), code=NO_VERDICT) for each in chunks[number])
                answers[number] = tuple(lost)
            else:
                answers[number] = answer
            on_progress(len(answers) / len(chunks))
    except KeyboardInterrupt:
        is_stopped = True
    outcomes = tuple(outcome for number in sorted(answers) for outcome in answers[number])
    # Where every point is a wrong config, the config itself most likely is: this raises its error, with all findings.
    if not is_stopped and all(outcome.code for outcome in outcomes) and outcomes[0].code == FIX_INPUT:
        base.plan(keys, points[0])
    return outcomes


def chunk_outcomes(base: SweptConfig, keys: tuple[str, ...], points: Points) -> tuple[Outcome, ...]:
    """Return the outcomes of points; pure, so that other processes and machines can run it by name."""
    outcomes = []
    for values in points:
        epsilon, kind, method, note = None, Kind.ESTIMATE, "inversion", ""
        try:
            plan = base.plan(keys, values)
            composition = composed(plan)
            budget = plan.budget.epsilon if plan.budget else None
            if plan.method in {"auto", "pld"} and not is_noiseless(plan) and not plan.calibrations:
                with allowance(_ESTIMATE_WORK):
                    epsilon = inversion_row(composition).epsilon
            if epsilon is None or (budget is not None and abs(epsilon - budget) <= NEAR_BUDGET * budget):
                main = guarantee(composition)
                epsilon, kind, method = main.epsilon, main.kind, main.method
            if places_of_unused_order(composition.one_run):
                note = "as with order: any"
            outcome = Outcome(values=values, epsilon=epsilon, kind=kind, method=method, budget=budget, note=note)
        except (InputError, ConvergenceError) as error:
            text = error.diagnostics[0].message if isinstance(error, ConfigError) else str(error)
            code = FIX_INPUT if isinstance(error, InputError) else NO_VERDICT
            outcome = Outcome(values=values, error=text, code=code)
        outcomes.append(outcome)
    return tuple(outcomes)


def subtitle(base: SweptConfig, axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return "NAME: FACTS", or FACTS alone, with facts that all valid points share; "" if no point is valid."""
    valid = [outcome for outcome in outcomes if outcome.code != FIX_INPUT]
    if not valid:
        return ""
    # The first and the last point differ in the value of every axis, so that two plans tell what the axes change.
    plans = [base.plan((key for key, _ in axes), end.values) for end in (valid[0], valid[-1])]
    facts = shared_facts(plans)
    return f"{plans[0].name}: {facts}" if plans[0].name else facts


# Executors of a sweep: this process, other processes of this machine, or a Dask cluster.

T = TypeVar("T")
R = TypeVar("R")


def in_process(function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Yield (number, result) of each task in order; an exception ends it."""
    return enumerate(map(function, tasks))


def _processors() -> int:
    # Those that this process may use, or those of the machine if the system does not say.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int | None, memory_per_process: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (number, result or exception) from processes."""
    with closing(Workers(function, processes=jobs or _processors(), memory=memory_per_process)) as workers:
        yield from workers.finished(tasks)


def dask(
    function: Callable[[T], R], tasks: Sequence[T], *, scheduler: str | None, memory_per_process: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (number, result or exception) from a Dask cluster at `scheduler`; None starts one on this machine."""
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        extra = "run `pip install distributed`, or leave --executor out"
        raise InputError(f"--executor dask: expected distributed, which is not installed; {extra}") from error
    local: dict[str, object] = {}
    if not scheduler:
        # Dask starts its processes, and later replacements of dead ones, with this process's environment: there is no
        # argument for `-P`, so that the variable is the only way to keep them from importing from the checkout.
        if sys.flags.ignore_environment and not sys.flags.safe_path:
            raise InputError(
                "--executor dask: expected `python -P` or `-I`, got `-E` alone: processes would import from the "
                "current directory; add -P"
            )
        os.environ["PYTHONSAFEPATH"] = "1"
        local = {"n_workers": _processors(), "threads_per_worker": 1, "dashboard_address": None}
        local |= {} if memory_per_process is None else {"memory_limit": memory_per_process}
    try:
        # Not the default: a Python program that calls dpcalc may have a client of its own.
        client = Client(scheduler, timeout=10, set_as_default=False, **local)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler: expected a Dask cluster at {scheduler}, got none: {error}") from error
    with client:
        numbers = {future: number for number, future in enumerate(client.map(function, tasks, pure=False))}
        for future in as_completed(list(numbers), loop=client.loop):
            # `result` alone would raise what a task raised, and end the sweep.
            yield numbers[future], future.exception() or future.result()
