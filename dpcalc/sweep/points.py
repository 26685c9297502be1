"""Epsilon at every point of a grid over config keys: the inversion estimate, certified bounds near the budget."""

# ruff: noqa: PLC0415  distributed is an extra

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TypeVar

from dpcalc.config.files import config_folder, refuse_outward_link
from dpcalc.config.load import load_from_flags, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import STDIN, ConfigError, decode, read_bytes
from dpcalc.config.tree import split_path
from dpcalc.errors import ConvergenceError, InputError, UnsupportedError
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.compare import inversion_row
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.words import shared_facts
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance

# Ranges of numbers as users write them: `0.5:4:20`, `1e2:1e5:10:log`, `1,2,5`.

MAX_NUMBERS = 1_000_000  # in one range: they are held in memory
LOG = "log"
_DIGITS = 6  # significant digits of the numbers between the ends
_FORMS = "A:B:N (N numbers from A to B), A:B:N:log (by equal factors) or A,B,C"


def parse_numbers(text: str, *, option: str) -> tuple[str, ...]:
    """Return the numbers of `A:B:N[:log]` or `A,B,C` as texts, six digits between ends as written; or InputError.

    Args:
        text: `A:B:N`, `A:B:N:log` or `A,B,C`.
        option: the option that it is from, for messages.

    Returns:
        Decimals in the order of the range; the ends as the user wrote them, others with six significant digits.

    Raises:
        InputError: the text has none of the three forms, or more than MAX_NUMBERS numbers.

    Example:
        >>> parse_numbers("1:2:3", option="--over")
        ('1', '1.5', '2')
        >>> parse_numbers("1:100:3:log", option="--over"), parse_numbers("5,7", option="--over")
        (('1', '10', '100'), ('5', '7'))
    """
    if ":" not in text:
        return tuple(_checked_number(part, text, option) for part in text.split(","))
    parts = [part.strip() for part in text.split(":")]
    if len(parts) not in {3, 4} or parts[3:] not in ([], [LOG]):
        raise InputError(f"{option}: expected {_FORMS}, got `{text}`")
    first, last = (_checked_number(part, text, option) for part in parts[:2])
    low, high, is_log = float(first), float(last), bool(parts[3:])
    count = _checked_count(parts[2], text, option)
    if is_log and not (low > 0 and high > 0):
        raise InputError(f"{option}: expected ends > 0 for equal factors, got `{text}`")
    # The ends stay as they were written (1_000, 1e-5); between them six digits are what a person would write.
    if count == 1:
        return (first,)
    shares = (index / (count - 1) for index in range(1, count - 1))
    between = (low * (high / low) ** share if is_log else low + (high - low) * share for share in shares)
    return (first, *(f"{value:.{_DIGITS}g}" for value in between), last)


def whole_numbers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nearest whole numbers as texts, without repetitions."""
    return tuple(dict.fromkeys(str(round(float(text))) for text in texts))


def _checked_number(part: str, text: str, option: str) -> str:
    """Return `part` stripped, a finite decimal; else InputError with the whole `text` of the option."""
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{option}: expected {_FORMS}, got `{text}`")
    return part.strip()


def _checked_count(part: str, text: str, option: str) -> int:
    """Return N of a range as int; InputError unless it is whole and from 1 to 1,000,000."""
    value = float(_checked_number(part, text, option))
    if not (value.is_integer() and 1 <= value <= MAX_NUMBERS):
        expected = f"a whole number from 1 to {MAX_NUMBERS} of points"
        raise InputError(f"{option}: expected {expected}, got `{part}` in `{text}`")
    return math.trunc(value)


# Epsilon at every point of a grid over config keys: the inversion estimate, certified bounds near the budget.

MOST_POINTS = 1_000_000
_ESTIMATE_WORK = (
    1.5 * SECOND
)  # for the estimate of a point; with more its certified bound is taken, which has its own limit
NEAR = 0.01
"""Relative distance of an estimate from the budget within which a certified bound is computed instead.

An estimate has no certificate, so that it must not decide whether a point is within its budget. A larger value costs
time only; docs/solving.md states it."""
_MAX_CHUNK, _MIN_CHUNKS = 50, 200  # points of a task at most; tasks of a large grid at least, to show progress
FIX_INPUT = 2  # exit code of a point that is no valid config
_SIZES = ("size", "at_most", "max_batch_size", "max_group_size", "count", "group_size", "batch_size", "examples")
_WHOLE = frozenset((*_SIZES, "steps", "redraw_every", "tasks", "ways", "shots", "queries"))  # last names of whole keys
Answers = Iterable[tuple[int, "tuple[Outcome, ...] | Exception"]]
Pool = Callable[[Callable[["Chunk"], tuple["Outcome", ...]], Sequence["Chunk"]], Answers]


class InterruptedSweep(KeyboardInterrupt):
    """Ctrl-C before all points of a grid were finished.

    Attributes:
        outcomes: outcomes of the finished points, in the order of the grid.
        count: number of points of the grid.
    """

    def __init__(self, outcomes: tuple["Outcome", ...], count: int) -> None:
        """Store the finished part."""
        super().__init__()
        self.outcomes = outcomes
        self.count = count


@dataclass(frozen=True, kw_only=True)
class SweptConfig:
    """The config whose keys are swept.

    Attributes:
        text: text of the config; None for a run that is given by command line options alone.
        name: name of the file for messages.
        place: the file as the user named it, from whose folder references are resolved.
        key: dotted path of the section that is the config; "" for the whole file.
        overrides: options of the command line.
    """

    text: str | None
    name: str
    place: str
    key: str = ""
    overrides: Overrides

    def plan(self, assignments: Iterable[str]) -> Plan:
        """Return the plan of the config (of options alone if text is None), with "key=value" texts set; or InputError.

        Raises:
            InputError: the config is not valid with them.
        """
        overrides = replace(self.overrides, swept=tuple(assignments))
        if self.text is None:
            return load_from_flags(overrides).plan
        files = config_folder(self.place)
        return load_text(self.text, path=self.name, key=self.key, overrides=overrides, files=files).plan


@dataclass(frozen=True, kw_only=True)
class GridAxis:
    """A key that is varied, and its values.

    Attributes:
        key: dotted path, as for `--set`.
        values: values as texts that can be written into the config.
    """

    key: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers; None if one of them is a word."""
        try:
            return tuple(float(value) for value in self.values)
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one point of a grid.

    Attributes:
        values: one for each axis.
        epsilon: None if there is an error; infinite without noise.
        kind: ESTIMATE, or UPPER for a certified upper bound.
        method: "inversion" or the name of the accountant.
        budget: budget of the point's config; None for none.
        error: message of the error, "" for none.
        code: exit code of the point: 0, 2 for a config that is not valid, 3 for no verdict.
    """

    values: tuple[str, ...]
    epsilon: float | None = None
    kind: Kind = Kind.ESTIMATE
    method: str = ""
    budget: float | None = None
    error: str = ""
    code: int = 0

    @property
    def fits(self) -> bool | None:
        """True if epsilon is within the budget; None without epsilon or budget."""
        return None if self.epsilon is None or self.budget is None else self.epsilon <= self.budget


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Points of a grid that one task computes.

    Attributes:
        base: the config.
        keys: the key of each axis.
        points: the values of each point, one for each axis.
    """

    base: SweptConfig
    keys: tuple[str, ...]
    points: tuple[tuple[str, ...], ...]


def read_config(path: str | None, *, key: str, overrides: Overrides) -> SweptConfig:
    """Return the config to sweep, read once (None: options alone, "-": stdin); InputError if unreadable or outside.

    Args:
        path: the file, "-" for standard input, None for a run given by options alone.
        key: dotted path of the section that is the config; "" for the whole file.
        overrides: options of the command line.

    Raises:
        InputError: the file cannot be read, or lies outside the repository.
    """
    if path is None:
        return SweptConfig(text=None, name="", place="", overrides=overrides)
    refuse_outward_link(path)
    # Read once: a sweep takes hours, and all its points are to be of one state of the file.
    source = decode(read_bytes(path), STDIN if path == "-" else path)
    return SweptConfig(text=source.text, name=source.path, place=path, key=key, overrides=overrides)


def parse_axis(text: str) -> GridAxis:
    """Return the axis of `KEY=A:B:N[:log]`, rounded for whole-number keys, or `KEY=A,B,C` (words too); else InputError.

    Values of keys that hold whole numbers are rounded; each value stands once.

    Raises:
        InputError: the text is no KEY=A:B:N, KEY=A:B:N:log or KEY=A,B,C.
    """
    key, separator, numbers = text.partition("=")
    # `split_path` reads as far as the key is well formed.
    names, read_to = split_path(key)
    if not separator or not names or read_to < len(key):
        raise InputError(f"--over: expected KEY=A:B:N, e.g. mechanism.noise_multiplier=0.5:4:20, got `{text}`")
    if ":" not in numbers:  # words are allowed; the config refuses those that it does not know
        values = tuple(part.strip() for part in numbers.split(","))
        if "" in values:
            raise InputError(f"--over: expected KEY=A,B,C or KEY=A:B:N, got `{text}`")
        return GridAxis(key=key, values=tuple(dict.fromkeys(values)))
    values = parse_numbers(numbers, option=f"--over {key}")
    return GridAxis(key=key, values=whole_numbers(values) if names[-1].key in _WHOLE else tuple(dict.fromkeys(values)))


def sweep(
    base: SweptConfig, axes: Sequence[GridAxis], pool: Pool, on_progress: OnProgress = ignore_progress
) -> tuple[Outcome, ...]:
    """Return an outcome for each point, failed ones too, the last axis fastest; InputError if every config is wrong.

    Args:
        base: the config.
        axes: at least one.
        pool: calls a function for each of many tasks and yields (task number from 0, result or exception) as they
            finish.
        on_progress: called with the finished share, in [0, 1].

    Returns:
        One outcome for each point, the last axis changing fastest.

    Raises:
        InputError: two axes have the same key, there are too many points, or no point is a valid config.
        InterruptedSweep: Ctrl-C was pressed; it holds the finished outcomes.
    """
    keys = tuple(axis.key for axis in axes)
    if len(set(keys)) < len(keys):
        raise InputError(f"--over: expected every key once, got {', '.join(keys)}")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_POINTS:
        raise InputError(f"--over: expected at most {MOST_POINTS} points, got {count}")
    points = tuple(product(*(axis.values for axis in axes)))
    # Large enough that starting a task costs little beside its points, small enough that progress is seen and that a
    # fast process takes over what a slow one has not begun.
    size = min(_MAX_CHUNK, max(1, count // _MIN_CHUNKS))
    chunks = [Chunk(base=base, keys=keys, points=points[at : at + size]) for at in range(0, count, size)]
    answers: dict[int, tuple[Outcome, ...] | Exception] = {}
    try:
        for number, answer in pool(chunk_outcomes, chunks):
            answers[number] = answer
            on_progress(len(answers) / len(chunks))
    except KeyboardInterrupt:
        raise InterruptedSweep(_in_order(chunks, answers), count) from None
    outcomes = _in_order(chunks, answers)
    # Where every point is a wrong config, the config itself most likely is: raise its error, with all findings.
    if all(outcome.code for outcome in outcomes) and outcomes[0].code == FIX_INPUT:
        _point_plan(chunks[0], points[0])
    return outcomes


def _in_order(chunks: Sequence[Chunk], answers: Mapping[int, "tuple[Outcome, ...] | Exception"]) -> tuple[Outcome, ...]:
    """Return the outcomes of the chunks that have answers, in the order of the grid."""
    return tuple(each for number in sorted(answers) for each in _outcomes_of(chunks[number], answers[number]))


def _outcomes_of(chunk: Chunk, answer: "tuple[Outcome, ...] | Exception") -> Iterator[Outcome]:
    """Yield the outcomes of a chunk; if its task raised, that error with exit code 3 for each point."""
    if isinstance(answer, Exception):
        yield from (Outcome(values=values, error=str(answer), code=3) for values in chunk.points)
    else:
        yield from answer


def chunk_outcomes(chunk: Chunk) -> tuple[Outcome, ...]:
    """Return the outcomes of the points of a chunk; pure, so that other processes and machines can run it by name."""
    return tuple(_point_outcome(chunk, values) for values in chunk.points)


def _point_plan(chunk: Chunk, values: tuple[str, ...]) -> Plan:
    return chunk.base.plan(f"{key}={value}" for key, value in zip(chunk.keys, values, strict=True))


def _point_outcome(chunk: Chunk, values: tuple[str, ...]) -> Outcome:
    """Return a point's outcome; ConfigError (first finding), InputError: code 2; ConvergenceError: 3; others raise."""
    # What is wrong with one point is its outcome: the other points of the grid are computed all the same.
    try:
        plan = _point_plan(chunk, values)
        epsilon, kind, method = estimate_or_bound(plan)
    except ConfigError as error:
        return Outcome(values=values, error=error.diagnostics[0].message, code=FIX_INPUT)
    except InputError as error:
        return Outcome(values=values, error=str(error), code=FIX_INPUT)
    except ConvergenceError as error:
        return Outcome(values=values, error=str(error), code=3)
    budget = None if plan.budget is None else plan.budget.epsilon
    return Outcome(values=values, epsilon=epsilon, kind=kind, method=method, budget=budget)


def estimate_or_bound(plan: Plan) -> tuple[float, Kind, str]:
    """Return (epsilon, kind, method): an estimate for auto and pld away from a budget or without one, else a bound.

    The bound is taken near the budget, without noise, for methods other than auto and pld, and where inversion fails.

    Raises:
        ConvergenceError: the certified bound does not converge either.
    """
    # An estimate has no certificate: near the budget it may not decide whether the point fits.
    composition = composed(plan)
    needs_bound = plan.method not in {"auto", "pld"} or is_noiseless(plan)
    with suppress(UnsupportedError):  # best of several runs (tuning) has no estimate
        row = None if needs_bound else _estimate(composition)
        if row is not None and row.epsilon is not None and not _is_near(row.epsilon, plan):
            return row.epsilon, row.kind, row.method
    main = guarantee(composition)
    return main.epsilon, main.kind, main.method


def _estimate(composition: Composition) -> Row:
    """Return the row of the inversion estimate, epsilon None if it takes too much work; UnsupportedError for tuning."""
    with allowance(_ESTIMATE_WORK):
        return inversion_row(composition)


def _is_near(epsilon: float, plan: Plan) -> bool:
    return plan.budget is not None and abs(epsilon - plan.budget.epsilon) <= NEAR * plan.budget.epsilon


def subtitle(base: SweptConfig, axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return "NAME: FACTS" (FACTS without a name) that the first and last valid points share; "" if none is valid.

    Args:
        base: the config.
        axes: axes of the grid.
        outcomes: outcomes of all points.

    Returns:
        One line, after the name of the run; "" without a valid config.
    """
    # The first and the last point differ in the value of every axis, so that two plans tell what the axes change.
    valid = [outcome for outcome in outcomes if outcome.code != FIX_INPUT]
    ends = [valid[0], valid[-1]] if valid else []
    keys = [axis.key for axis in axes]
    plans = [base.plan(f"{key}={value}" for key, value in zip(keys, end.values, strict=True)) for end in ends]
    if not plans:
        return ""
    facts = shared_facts(plans)
    return f"{plans[0].name}: {facts}" if plans[0].name else facts


# Executors of a sweep: this process, other processes of this machine, or a Dask cluster.

TASK_SECONDS = 3600.0  # time limit of one task of up to 50 points: a hundred times what ordinary ones take
T = TypeVar("T")
R = TypeVar("R")


def in_process(function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Yield (task number from 0, result) of each task in order, computed here; an exception ends it.

    Args:
        function: called for each task.
        tasks: its arguments.
    """
    return enumerate(map(function, tasks))


def processes(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int | None, memory: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) from processes as they finish; an exception also after an hour.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        jobs: number of processes; None for one for each processor.
        memory: bytes that a process may allocate after its start; None for no limit.

    Yields:
        Results; exceptions in their place, also for a task that takes more than TASK_SECONDS.
    """
    # Workers can be ended one by one: a task that takes too long does not end the sweep.
    with Workers(function, processes=jobs or _processors(), memory=memory) as workers:
        yield from workers.finished(tasks, seconds=TASK_SECONDS)


def dask(
    function: Callable[[T], R], tasks: Sequence[T], *, scheduler: str | None, memory: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) from a Dask cluster as tasks finish; InputError if none is found.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        scheduler: address of the cluster, such as "tcp://host:8786"; None starts one on this machine.
        memory: bytes for each process of a cluster that is started; None for no limit.

    Raises:
        InputError: distributed is not installed, there is no cluster at the address, or a cluster would have to be
            started from a Python that was started with `-E` alone.
    """
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        extra = "run `pip install distributed`, or leave --executor out"
        raise InputError(f"--executor dask: expected distributed, which is not installed; {extra}") from error
    local = {} if scheduler else _local_options(memory)
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


def _local_options(memory: int | None) -> dict[str, object]:
    """Return options for a Dask cluster here, and set PYTHONSAFEPATH=1; InputError if started with `-E` alone."""
    # Dask starts its processes, and later replacements of dead ones, with this process's environment: there is no
    # argument for `-P`, so that the variable is the only way.
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise InputError(
            "--executor dask: expected `python -P` or `-I`, got `-E` alone: processes would import from the current "
            "directory; add -P"
        )
    os.environ["PYTHONSAFEPATH"] = "1"
    limits = {} if memory is None else {"memory_limit": memory}
    return {"n_workers": _processors(), "threads_per_worker": 1, "dashboard_address": None, **limits}


def _processors() -> int:
    """Return the number of processors that this process may use (its affinity), else of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
