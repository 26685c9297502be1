"""Grids over keys of a config: epsilon at every point, and the outcomes as a table, CSV, JSON, chart or map."""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpcalc.charts import (
    KIND_NAMES,
    Axis,
    Chart,
    Limit,
    Series,
    aligned,
    figure_bytes,
    fitted,
    plain_text,
    scale_for,
    set_titles,
    tick_text,
)
from dpcalc.config.expand import Overrides
from dpcalc.config.files import config_folder
from dpcalc.config.load import load_from_flags, load_text, mapped_document
from dpcalc.config.source import ConfigError, absolute, visible
from dpcalc.config.tree import split_path
from dpcalc.errors import FIX_INPUT, NO_VERDICT, ConvergenceError, InputError, counted
from dpcalc.gate.workers import OnProgress, Workers, ignore_progress
from dpcalc.guarantee import Kind
from dpcalc.planner.advice import places_of_unused_order
from dpcalc.planner.compare import inversion_row
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.words import shared_facts
from dpcalc.records import dataclass
from dpcalc.report.output import Json, Output, Table, cell, cells, csv_document, lines, rounded_up, yes_no
from dpcalc.work import SECOND, allowance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


# Outcomes of a grid as a table, as CSV, as JSON, over one key as a chart, over two as a map.
# `axes` are those of the grid and `outcomes` its points, one for each, the last axis changing fastest; `subtitle` has
# the facts that all points share.


COLUMNS = ("epsilon", "kind", "method", "budget", "fits", "error")  # of a point in CSV
SHOWN = ("epsilon", "kind", "method", "fits")  # of a point in a table


def point_json(outcome: Outcome) -> Json:
    is_known = outcome.epsilon is not None
    return {
        "epsilon": outcome.epsilon,
        "finite": None if outcome.epsilon is None else math.isfinite(outcome.epsilon),
        "kind": str(outcome.kind) if is_known else None,
        "method": outcome.method or None,
        "budget": outcome.budget,
        "fits": outcome.fits,
        "error": visible(outcome.error) or None,
    }


def sweep_lines(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, width: int = 0) -> str:
    """Return a table with errors beside their rows (`width` 0, a pipe), or fitted to a terminal, errors below it."""
    keys = [key for key, _ in axes]
    rows = [(*keys, *SHOWN), *map(_row, outcomes)]
    if not width:  # errors stand behind the aligned columns, which their length would tear apart
        ends = ["", *(f"  {visible(each.error or each.note)}".rstrip() for each in outcomes)]
        return "".join(f"{line}{end}\n" for line, end in zip(aligned(rows), ends, strict=True))
    names = [key.rpartition(".")[2] for key in keys]
    short = names if len({*names}) == len(names) else keys
    fitting = fitted(rows, short=(*short, *SHOWN), width=width)
    times = Counter(note for outcome in outcomes if (note := visible(outcome.error or outcome.note)))
    for note, count in times.items():
        fitting += textwrap.wrap(f"{note} ({counted(count, 'point', ',')})", width, subsequent_indent="  ")
    return "".join(f"{line}\n" for line in fitting)


def _row(outcome: Outcome) -> tuple[str, ...]:
    """Return the values of a point, and its answer as a table shows it: rounded up, but never onto the budget."""
    if outcome.epsilon is None:
        return (*outcome.values, *("-",) * len(SHOWN))
    epsilon = rounded_up(outcome.epsilon, apart_from=outcome.budget)
    return (*outcome.values, *cells(lines(point_json(outcome), epsilon=epsilon), SHOWN))


def sweep_csv(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    def shown(value: object) -> str:
        if isinstance(value, bool):
            return yes_no(value)
        return repr(value) if isinstance(value, float) else cell(str(value or ""))

    rows = [[*(cell(key) for key, _ in axes), *COLUMNS]]
    for outcome in outcomes:
        kind = None if outcome.epsilon is None else outcome.kind
        columns = (outcome.epsilon, kind, outcome.method, outcome.budget, outcome.fits, outcome.error)
        rows.append([*map(cell, outcome.values), *map(shown, columns)])
    return csv_document(rows)


def sweep_output(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, path: str, is_complete: bool) -> Output:
    """Return the result of `sweep`: axes, whether all points are finished, and those that are."""

    def number_or_word(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text

    points = []
    for outcome in outcomes:
        values = {key: number_or_word(text) for (key, _), text in zip(axes, outcome.values, strict=True)}
        points.append({"values": values, **point_json(outcome)})
    return Output(
        command="sweep",
        result={
            "config": {"path": path},
            "over": [{"key": key, "values": list(map(number_or_word, texts))} for key, texts in axes],
            "complete": is_complete,
            "points": points,
        },
        table=Table(
            headline=summary(outcomes),
            columns=(*(key for key, _ in axes), *SHOWN, "note"),
            rows=[(*_row(outcome), visible(outcome.error or outcome.note)) for outcome in outcomes],
        ),
        csv=sweep_csv(axes, outcomes),
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a line that counts the points by kind of epsilon, within and over the budget, and without an answer."""
    fits = Counter(outcome.fits for outcome in outcomes)
    kinds = Counter(outcome.kind for outcome in outcomes if outcome.epsilon is not None)
    unknown = sum(outcome.epsilon is None for outcome in outcomes)
    words = [
        f"{counted(len(outcomes), 'point', ',')}",
        f"{kinds[Kind.ESTIMATE]:,} by estimate",
        f"{kinds[Kind.UPPER]:,} certified",
    ]
    if number := kinds[Kind.CONDITIONAL]:
        words.append(
            f"{number:,} conditional (a library counts as told of each point's run, unless `assuming` is stated)"
        )
    words += [f"{fits[True]:,} within the budget", f"{fits[False]:,} over it"] if fits[True] or fits[False] else []
    words += [f"{unknown:,} without an answer"] if unknown else []
    unused = sum(bool(outcome.note) for outcome in outcomes)
    words += [f"{unused:,} where the secret order lowers nothing, as with order: any"] if unused else []
    return ", ".join(words)


def sweep_chart(key: str, outcomes: Sequence[Outcome], *, subtitle: str = "") -> Chart:
    """Return epsilon over one key, with the budget if all share one; estimates and bounds are a line each."""
    ordered = sorted(outcomes, key=lambda outcome: float(outcome.values[0]))
    xs = tuple(float(outcome.values[0]) for outcome in ordered)
    series = []
    for kind, name in ((Kind.ESTIMATE, "inversion"), (Kind.UPPER, "certified"), (Kind.CONDITIONAL, "conditional")):
        ys = tuple(outcome.epsilon if outcome.kind is kind else None for outcome in ordered)
        methods = {outcome.method for outcome in ordered if outcome.kind is kind and outcome.method}
        if any(y is not None for y in ys):
            method = methods.pop() if len(methods) == 1 else ""
            series.append(Series(name=name, kind=kind, xs=xs, ys=ys, method=method))
    if not series:
        series = [Series(name="no answer", kind=Kind.ESTIMATE, xs=xs, ys=(None,) * len(xs))]
    budgets = {outcome.budget for outcome in ordered}
    return Chart(
        title=f"epsilon over {key}",
        subtitle=subtitle,
        x=Axis(name=key, scale=scale_for(xs)),
        y=Axis(name="epsilon", scale=scale_for(y for line in series for y in line.ys if y and y < math.inf)),
        series=tuple(series),
        limits=tuple(Limit(name="budget", value=limit) for limit in budgets if limit is not None and len(budgets) == 1),
    )


# Grids over two keys as maps, for a terminal and as pictures.

OVER_BUDGET, UNKNOWN = "*", "-"
_STYLES = {True: "green", False: "red", None: ""}  # of cells within the budget, over it, and without one
_DIGITS = 2  # significant digits of a cell, so that a terminal has room for a dozen columns
_PLAIN = 1e7  # from here on a number is written with an exponent
_MAX_ROWS = 40  # what fits on a screen
_DECADES = 100  # ratio of the largest to the smallest epsilon below which a bar has more numbers than powers of ten
_MAX_NUMBERS, _MAX_TICKS = 150, 12  # numbers in cells, and labels on an axis, that a picture has room for


def _ticks(axis: GridAxis) -> list[str]:
    numbers = numbers_of(axis)
    if numbers is None:
        return list(axis[1])
    return [f"{x:,.0f}" if x.is_integer() and abs(x) < _PLAIN else f"{x:.4g}" for x in numbers]


def heat_text(
    axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, width: int, styled: bool, subtitle: str = ""
) -> str:
    """Return a table of epsilon over two keys, rounded up; what has no room is left out evenly, never averaged."""
    from dpcalc.report.terminal import grid_text

    def evenly_spaced(count: int, limit: int) -> list[int]:  # the first and the last among them
        return [round(at * (count - 1) / (limit - 1)) for at in range(limit)] if count > limit else list(range(count))

    down, across = map(_ticks, axes)
    texts = []
    for outcome in outcomes:
        number = UNKNOWN if outcome.epsilon is None else rounded_up(outcome.epsilon, digits=_DIGITS)
        texts.append(number + (OVER_BUDGET if outcome.fits is False else ""))
    size = max(map(len, (*texts, *across)))
    rows = evenly_spaced(len(down), _MAX_ROWS)
    columns = evenly_spaced(len(across), max(2, (width - max(map(len, down))) // (size + 2)))
    table = []
    for row in rows:
        places = [row * len(across) + column for column in columns]
        table.append(((down[row], "bold"), *((texts[at], _STYLES[outcomes[at].fits]) for at in places)))
    notes = [f"{OVER_BUDGET} over the budget"] if any(outcome.fits is False for outcome in outcomes) else []
    if (len(rows), len(columns)) != (len(down), len(across)):
        notes.append(f"shown: {len(rows)} of {len(down)} rows, {len(columns)} of {len(across)} columns")
    return grid_text(
        f"epsilon: {axes[0][0]} (down), {axes[1][0]} (across)",
        ("", *(across[column] for column in columns)),
        table,
        [*notes, *([visible(subtitle)] if subtitle else [])],
        width=width,
        styled=styled,
    )


def heat_picture(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], ending: str, *, subtitle: str = "") -> bytes:
    """Return the picture of a map; the scale is of finite epsilons > 0, a line runs along the edge of the budget."""
    up, across = axes
    shape = len(up[1]), len(across[1])
    epsilons = np.array([each.epsilon or math.nan for each in outcomes], dtype=float).reshape(shape)
    epsilons[~np.isfinite(epsilons)] = math.nan
    known = [outcome for outcome in outcomes if outcome.epsilon is not None]
    # Cell (row, column) is centred at (column, row); beside a cell that is not known there is no edge of the budget.
    inside = np.array([math.nan if each.fits is None else each.fits for each in outcomes], dtype=float).reshape(shape)
    upright, level = (np.argwhere(np.abs(np.diff(inside, axis=axis)) == 1) for axis in (1, 0))
    edges = [[(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)] for row, column in upright]
    edges += [[(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)] for row, column in level]
    title = "epsilon"
    budgets = {outcome.budget for outcome in known}
    if len(budgets) == 1 and None not in budgets:  # a budget that is swept itself has no single border to name
        title += f"; line: budget {budgets.pop()!r}" if edges else f"; budget {budgets.pop()!r}"

    def draw(figure: Figure) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator

        plot = figure.add_subplot()
        # Logarithmic colours: epsilon often spans decades. Without two different numbers there is nothing to scale by.
        shown = epsilons[np.isfinite(epsilons)]
        scale = LogNorm(shown.min(), shown.max()) if shown.size and shown.min() < shown.max() else None
        mesh = plot.imshow(epsilons, origin="lower", aspect="auto", cmap="viridis_r", norm=scale, gid="heat")
        kinds = {outcome.kind for outcome in known}
        label = "epsilon: " + " or ".join(KIND_NAMES[kind] for kind in KIND_NAMES if kind in kinds)
        # So few decades say too little by their powers of ten alone.
        is_short = scale is not None and shown.max() < _DECADES * shown.min()
        ticks = LogLocator(subs=(1, 2, 3, 5, 7) if is_short else (1,)) if scale is not None else None
        bar = figure.colorbar(mesh, label=label, ticks=ticks, format=lambda number, _: tick_text(number))
        bar.ax.yaxis.set_minor_formatter("")
        if epsilons.size <= _MAX_NUMBERS:
            style = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 1.0}
            for (row, column), value in np.ndenumerate(epsilons):
                if math.isfinite(value):
                    plot.text(column, row, rounded_up(value), ha="center", va="center", fontsize=7, bbox=style)
        plot.add_collection(LineCollection(edges, colors="black", linewidths=2, gid="budget"))
        set_titles(plot, title, subtitle)
        for drawn, axis in ((plot.xaxis, across), (plot.yaxis, up)):
            step = max(1, math.ceil(len(axis[1]) / _MAX_TICKS))
            drawn.set_ticks(list(range(0, len(axis[1]), step)), _ticks(axis)[::step])
        plot.set_xlabel(plain_text(across[0]))
        plot.set_ylabel(plain_text(up[0]))

    return figure_bytes(draw, ending)
