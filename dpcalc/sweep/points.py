"""Epsilon at every point of a grid over config keys: the inversion estimate, certified bounds near the budget."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dpcalc.config.files import config_folder, config_source
from dpcalc.config.load import load_from_flags, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import ConfigError
from dpcalc.config.tree import split_path
from dpcalc.errors import FIX_INPUT, NO_VERDICT, ConvergenceError, InputError
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import Kind
from dpcalc.planner.compare import inversion_row
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.words import shared_facts
from dpcalc.records import dataclass
from dpcalc.sweep.numbers import parse_numbers, whole_numbers
from dpcalc.work import SECOND, allowance

if TYPE_CHECKING:
    from distributed import Client

MAX_POINTS = 1_000_000
_ESTIMATE_WORK = 1.5 * SECOND  # of one point; where more is needed its certified bound is taken, with its own limit
NEAR_BUDGET = 0.01
"""Relative distance of an estimate from the budget within which a certified bound is computed instead.

An estimate has no certificate, so that it must not decide whether a point is within its budget. A larger value costs
time only; docs/solving.md states it."""
_MAX_CHUNK, _MIN_CHUNKS = 50, 200  # points of a task at most; tasks of a large grid at least, to show progress
_SIZES = ("size", "at_most", "max_batch_size", "max_group_size", "count", "group_size", "batch_size", "examples")
_WHOLE_KEYS = frozenset((*_SIZES, "steps", "redraw_every", "tasks", "ways", "shots", "queries"))  # last names of keys
Answers = Iterable[tuple[int, "tuple[Outcome, ...] | Exception"]]
Pool = Callable[[Callable[["Chunk"], tuple["Outcome", ...]], Sequence["Chunk"]], Answers]


class InterruptedSweep(KeyboardInterrupt):
    """Ctrl-C before all points of a grid were finished.

    Attributes:
        outcomes: outcomes of the finished points, in the order of the grid.
        count: number of points of the grid.
    """

    def __init__(self, outcomes: tuple["Outcome", ...], count: int) -> None:
        """Store the outcomes and the count."""
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
        """Return the plan of the config with these "key=value" texts set; InputError if it is not valid.

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
    """Return the config to sweep, read only once; InputError if it may not or cannot be read.

    Args:
        path: the file, "-" for standard input, None for a run given by options alone.
        key: dotted path of the section that is the config; "" for the whole file.
        overrides: options of the command line.

    Raises:
        InputError: the file cannot be read, or is a link out of the repository.
    """
    if path is None:
        return SweptConfig(text=None, name="", place="", overrides=overrides)
    # Read once: a sweep takes hours, and all its points are to be of one state of the file.
    source = config_source(path)
    return SweptConfig(text=source.text, name=source.path, place=path, key=key, overrides=overrides)


def parse_axis(text: str) -> GridAxis:
    """Return the axis that `KEY=VALUES` states, with a list or a range; InputError if it is malformed.

    Raises:
        InputError: the text is no KEY=A:B:N, KEY=A:B:N:log or KEY=A,B,C.
    """
    key, separator, values = text.partition("=")
    # `split_path` reads as far as the key is well formed.
    names, read_to = split_path(key)
    if not separator or not names or read_to < len(key):
        raise InputError(f"--over: expected KEY=A:B:N, e.g. mechanism.noise_multiplier=0.5:4:20, got `{text}`")
    if ":" in values:
        return GridAxis(key=key, values=_range_values(values, key, is_whole=names[-1].key in _WHOLE_KEYS))
    # Words are allowed; the config refuses those that it does not know.
    listed = [part.strip() for part in values.split(",")]
    if not all(listed):
        raise InputError(f"--over: expected KEY=A,B,C or KEY=A:B:N, got `{text}`")
    return GridAxis(key=key, values=tuple(dict.fromkeys(listed)))


def _range_values(text: str, key: str, *, is_whole: bool) -> tuple[str, ...]:
    """Return the different numbers of a range, rounded to whole ones for `is_whole`; InputError if malformed."""
    values = parse_numbers(text, option=f"--over {key}")
    return whole_numbers(values) if is_whole else tuple(dict.fromkeys(values))


def sweep(
    base: SweptConfig, axes: Sequence[GridAxis], pool: Pool, on_progress: OnProgress = ignore_progress
) -> tuple[Outcome, ...]:
    """Return the outcome of each grid point; InterruptedSweep on Ctrl-C, InputError if no point is a valid config.

    Args:
        base: the config.
        axes: at least one.
        pool: calls a function for each of many tasks and yields (task number from 0, result or exception) as they
            finish.
        on_progress: called with the finished share, in [0, 1].

    Returns:
        One outcome for each point, the last axis changing fastest.

    Raises:
        InputError: two axes have the same key, there are too many points, or all fail, the first by an invalid config.
        InterruptedSweep: Ctrl-C was pressed; it holds the finished outcomes.
    """
    points = _grid_points(axes)
    chunks = _chunks(base, tuple(axis.key for axis in axes), points)
    answers: dict[int, tuple[Outcome, ...] | Exception] = {}
    try:
        for number, answer in pool(chunk_outcomes, chunks):
            answers[number] = answer
            on_progress(len(answers) / len(chunks))
    except KeyboardInterrupt:
        raise InterruptedSweep(_in_order(chunks, answers), len(points)) from None
    outcomes = _in_order(chunks, answers)
    # Where every point is a wrong config, the config itself most likely is: this raises its error, with all findings.
    if all(outcome.code for outcome in outcomes) and outcomes[0].code == FIX_INPUT:
        _point_plan(chunks[0], points[0])
    return outcomes


def _grid_points(axes: Sequence[GridAxis]) -> tuple[tuple[str, ...], ...]:
    """Return the values of each point, last axis fastest; InputError for a repeated key or over 1,000,000 points."""
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        raise InputError(f"--over: expected every key once, got {', '.join(keys)}")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_POINTS:
        raise InputError(f"--over: expected at most {MAX_POINTS} points, got {count}")
    return tuple(product(*(axis.values for axis in axes)))


def _chunks(base: SweptConfig, keys: tuple[str, ...], points: tuple[tuple[str, ...], ...]) -> list[Chunk]:
    """Return the points in order, in chunks of a 200th of them, but of at least 1 and at most 50 points."""
    # Large enough that starting a task costs little beside its points, small enough that progress is seen and that a
    # fast process takes over what a slow one has not begun.
    size = min(_MAX_CHUNK, max(1, len(points) // _MIN_CHUNKS))
    return [Chunk(base=base, keys=keys, points=points[at : at + size]) for at in range(0, len(points), size)]


def _in_order(chunks: Sequence[Chunk], answers: Mapping[int, "tuple[Outcome, ...] | Exception"]) -> tuple[Outcome, ...]:
    """Return the outcomes of the chunks that have answers, in the order of the grid."""
    return tuple(each for number in sorted(answers) for each in _outcomes_of(chunks[number], answers[number]))


def _outcomes_of(chunk: Chunk, answer: "tuple[Outcome, ...] | Exception") -> Iterator[Outcome]:
    """Yield the outcomes of a chunk; if its task raised an error, that error for each of its points."""
    if isinstance(answer, Exception):
        yield from (Outcome(values=values, error=str(answer), code=NO_VERDICT) for values in chunk.points)
    else:
        yield from answer


def chunk_outcomes(chunk: Chunk) -> tuple[Outcome, ...]:
    """Return the outcomes of the points of a chunk; pure, so that other processes and machines can run it by name."""
    return tuple(_point_outcome(chunk, values) for values in chunk.points)


def _point_plan(chunk: Chunk, values: tuple[str, ...]) -> Plan:
    return chunk.base.plan(f"{key}={value}" for key, value in zip(chunk.keys, values, strict=True))


def _point_outcome(chunk: Chunk, values: tuple[str, ...]) -> Outcome:
    """Return the outcome of a point, with a message and exit code if its config is invalid or has no epsilon."""
    # What is wrong with one point is its outcome: the other points of the grid are computed all the same.
    try:
        plan = _point_plan(chunk, values)
        result = estimate_or_bound(plan)
    except ConfigError as error:
        return Outcome(values=values, error=error.diagnostics[0].message, code=FIX_INPUT)
    except InputError as error:
        return Outcome(values=values, error=str(error), code=FIX_INPUT)
    except ConvergenceError as error:
        return Outcome(values=values, error=str(error), code=NO_VERDICT)
    budget = None if plan.budget is None else plan.budget.epsilon
    return Outcome(values=values, epsilon=result.epsilon, kind=result.kind, method=result.method, budget=budget)


class EpsilonAndKind(NamedTuple):
    """Epsilon of one point, and the claim that it makes.

    Attributes:
        epsilon: infinite without noise.
        kind: ESTIMATE, or UPPER for a certified upper bound.
        method: "inversion" or the name of the accountant.
    """

    epsilon: float
    kind: Kind
    method: str


def estimate_or_bound(plan: Plan) -> EpsilonAndKind:
    """Return the estimate by inversion, or the certified bound near the budget or if there is no estimate.

    Raises:
        ConvergenceError: the certified bound does not converge either.
    """
    # An estimate has no certificate: near the budget it may not decide whether the point fits.
    composition = composed(plan)
    estimate = _inversion_estimate(plan, composition)
    if estimate is not None and not _is_near_budget(estimate, plan):
        return EpsilonAndKind(estimate, Kind.ESTIMATE, "inversion")
    main = guarantee(composition)
    return EpsilonAndKind(main.epsilon, main.kind, main.method)


def _inversion_estimate(plan: Plan, composition: Composition) -> float | None:
    """Return the estimate by inversion; None without noise, if it takes too long, or for methods but auto and pld."""
    if plan.method not in {"auto", "pld"} or is_noiseless(plan):
        return None
    with allowance(_ESTIMATE_WORK):
        return inversion_row(composition).epsilon


def _is_near_budget(epsilon: float, plan: Plan) -> bool:
    return plan.budget is not None and abs(epsilon - plan.budget.epsilon) <= NEAR_BUDGET * plan.budget.epsilon


def subtitle(base: SweptConfig, axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return "NAME: FACTS" with facts that the first and last valid points share; "" if there is no valid point.

    Args:
        base: the config.
        axes: axes of the grid.
        outcomes: outcomes of all points.

    Returns:
        One line; FACTS alone for a run without a name; "" without a valid config.
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
    """Yield (task number from 0, result) of each task in order, computed in this process; an exception ends it.

    Args:
        function: called for each task.
        tasks: its arguments.
    """
    return enumerate(map(function, tasks))


def processes(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int | None, memory_per_process: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) from worker processes as they finish.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        jobs: number of processes; None for one for each processor.
        memory_per_process: bytes that a process may allocate after its start; None for no limit.

    Yields:
        Results; exceptions in their place, also for a task that takes more than TASK_SECONDS.
    """
    # Workers can be ended one by one: a task that takes too long does not end the sweep.
    with Workers(function, processes=jobs or _processors(), memory=memory_per_process) as workers:
        yield from workers.finished(tasks, seconds=TASK_SECONDS)


def dask(
    function: Callable[[T], R], tasks: Sequence[T], *, scheduler: str | None, memory_per_process: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) as tasks finish on a Dask cluster; InputError if there is none.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        scheduler: address of the cluster, such as "tcp://host:8786"; None starts one on this machine.
        memory_per_process: bytes for each process of a cluster that is started; None for no limit.

    Raises:
        InputError: distributed is not installed, there is no cluster at the address, or a cluster would have to be
            started from a Python that was started with `-E` alone.
    """
    with _dask_client(scheduler, memory_per_process) as client:
        from distributed import as_completed

        numbers = {future: number for number, future in enumerate(client.map(function, tasks, pure=False))}
        for future in as_completed(list(numbers), loop=client.loop):
            # `result` alone would raise what a task raised, and end the sweep.
            yield numbers[future], future.exception() or future.result()


def _dask_client(scheduler: str | None, memory_per_process: int | None) -> "Client":
    """Return a client of the cluster at `scheduler`, or of a new local one for None; InputError if there is none."""
    try:
        from distributed import Client
    except ImportError as error:
        extra = "run `pip install distributed`, or leave --executor out"
        raise InputError(f"--executor dask: expected distributed, which is not installed; {extra}") from error
    if not scheduler:
        _make_imports_safe()
    local = {} if scheduler else _local_cluster_options(memory_per_process)
    try:
        # Not the default: a Python program that calls dpcalc may have a client of its own.
        return Client(scheduler, timeout=10, set_as_default=False, **local)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler: expected a Dask cluster at {scheduler}, got none: {error}") from error


def _make_imports_safe() -> None:
    """Set PYTHONSAFEPATH for processes that Dask starts; InputError under `python -E` alone, which ignores it."""
    # Dask starts its processes, and later replacements of dead ones, with this process's environment: there is no
    # argument for `-P`, so that the variable is the only way.
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise InputError(
            "--executor dask: expected `python -P` or `-I`, got `-E` alone: processes would import from the current "
            "directory; add -P"
        )
    os.environ["PYTHONSAFEPATH"] = "1"


def _local_cluster_options(memory_per_process: int | None) -> dict[str, object]:
    """Return Client options for a local cluster: a one-thread process for each processor, with any memory limit."""
    limits = {} if memory_per_process is None else {"memory_limit": memory_per_process}
    return {"n_workers": _processors(), "threads_per_worker": 1, "dashboard_address": None, **limits}


def _processors() -> int:
    """Return the number of processors that this process may use, or of the machine if the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
