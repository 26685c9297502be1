"""Questions about a plan in Python: epsilon, delta, attackers, comparisons, curves, and settings that meet a target."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dpcalc.errors import InputError, one_of
from dpcalc.guarantee import Guarantee, Result, Row, html_table, shown_number
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import DeltaResult, delta_of, guarantee, with_lower_bound
from dpcalc.planner.solve import EpsilonGoal, Solution
from dpcalc.planner.solve import solve as solved
from dpcalc.planner.vary import first_steps
from dpcalc.plans import Number, Source, exact_number, plan_of, real_number, real_numbers
from dpcalc.records import dataclass
from dpcalc.report.solution import with_safe_decimal

if TYPE_CHECKING:
    from dpcalc.charts import Chart
    from dpcalc.planner.risk import Risk


def epsilon(
    plan: Source,
    *,
    steps: int | None = None,
    delta: float | None = None,
    method: str | None = None,
    unit: str | None = None,
    group_size: int | None = None,
) -> Guarantee:
    """Return certified upper and lower bounds on epsilon; with `steps` the upper one alone, of the run up to that step.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`.
        steps: number of noisy updates from the start of the run, 0 to all; None for the whole run.
        delta: in (0, 1); the plan's own by default.
        method: an accountant's name or "auto"; the plan's own by default.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        The guarantee that `dpcalc epsilon` prints, unrounded. Its `epsilon` is an upper bound for every data set
        (natural logarithm), 0 after no steps, `inf` without noise. Its `epsilon_lower` is a certified lower bound, None
        with `steps` (it would take longer) or if epsilon is infinite.

    Raises:
        InputError: the plan has fewer steps, or there is no such accountant, level or group.
        ConvergenceError: there is no certified answer.

    Note:
        Epsilon after step t holds for a run whose length does not depend on the data: fixed beforehand, or ended by
        the value of this function. The length of a run that ends at a good validation score reveals something about
        the data; claim the epsilon of the longest run that was possible.

    Example:
        >>> from dpcalc import plan
        >>> run = plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5)
        >>> epsilon(run, steps=0).epsilon
        0.0
        >>> epsilon(run, steps=500).epsilon < epsilon(run).epsilon
        True
    """
    run = plan_of(plan, unit=unit, group_size=group_size)
    run = run if delta is None else replace(run, delta=real_number(delta, "delta"))
    if steps is not None:
        return guarantee(first_steps(run, steps), method=method)
    composition = composed(run)
    return with_lower_bound(composition, guarantee(composition, method=method))


def solve(
    plan: Source,
    quantity: Literal["sigma", "steps", "rate", "batch", "group"],
    *,
    target_epsilon: float | None = None,
    phase: str | None = None,
    epochs: Number | None = None,
    unit: str | None = None,
    group_size: int | None = None,
) -> Solution:
    """Return the least noise, or the most of another quantity, that meets a target; NoSolution if none does.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`; its own value of the quantity is ignored.
        quantity: "sigma", "steps", "rate", "batch" (a whole number of units, expected under Poisson sampling) or
            "group".
        target_epsilon: finite, > 0; the plan's budget by default.
        phase: the only phase to change; without it the noise of all phases is scaled by one factor, and the others
            need a plan of one phase.
        epochs: passes over the data that the phase makes with any rate or batch; None keeps its steps.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        The solution: `value` is the smallest noise or the largest number of steps, rate, batch or group, rounded to the
        safe side; `fails_at` is a value close to it that exceeds the target; `plan` has the value, and `guarantee` is
        the upper bound of that plan.

    Raises:
        NoSolution: no value meets the target; the error has the best one.
        InputError: there is no such quantity, phase or target.
        ConvergenceError: there is no certified answer.

    Example:
        >>> from dpcalc import plan
        >>> run = plan(sample_rate=0.004, noise_multiplier=1.0, steps=14_000, delta=1e-5)
        >>> found = solve(run, "sigma", target_epsilon=2)
        >>> found.guarantee.epsilon <= 2 and found.value == found.plan.phases[0].noise_multiplier
        True
    """
    run = plan_of(plan, unit=unit, group_size=group_size)
    if target_epsilon is None:
        if run.budget is None:
            raise InputError("target_epsilon: expected a number > 0, got none, and the plan has no budget; give one")
        target_epsilon = run.budget.epsilon
    goal = EpsilonGoal(limit=real_number(target_epsilon, "target_epsilon"))
    passes = None if epochs is None else exact_number(epochs, "epochs")
    return with_safe_decimal(solved(run, quantity, goal=goal, phase=phase, epochs=passes), run)


def delta(plan: Source, *, epsilon: float, unit: str | None = None, group_size: int | None = None) -> DeltaResult:
    """Return certified bounds on delta at an epsilon: an upper one, and a lower one or None.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`; its own delta is ignored.
        epsilon: finite, >= 0.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        `delta`, an upper bound for every data set, and `delta_lower`, a certified lower bound or None.

    Raises:
        InputError: there is no such epsilon, level or group.
        ConvergenceError: there is no certified answer.

    Example:
        >>> from dpcalc import plan
        >>> run = plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5)
        >>> delta(run, epsilon=epsilon(run).epsilon).delta < 1.001e-5
        True
    """
    return delta_of(plan_of(plan, unit=unit, group_size=group_size), epsilon=real_number(epsilon, "epsilon"))


def risk(
    plan: Source,
    *,
    prior: float = 0.5,
    false_positive_rates: Sequence[float] = (0.001, 0.01, 0.1),
    baselines: Sequence[float] = (),
    unit: str | None = None,
    group_size: int | None = None,
) -> "Risk":
    """Return upper bounds on an attacker's success against a plan; InputError unless its method is auto or pld.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`.
        prior: probability, in (0, 1), of the attacker before the run that the unit is in the data.
        false_positive_rates: each in (0, 1).
        baselines: each in (0, 1); how often somebody infers an attribute, or reconstructs a record, without the output.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        Upper bounds on the advantage, on the true positive rate at each false positive rate, on the belief, on the
        success of inference and reconstruction at each baseline (`reconstructions`), and on mu (`gdp`).

    Raises:
        InputError: a number is outside (0, 1), or the plan asks for an accountant other than pld.
        ConvergenceError: there is no certified answer.
    """
    from dpcalc.planner.risk import risk as bounds
    from dpcalc.planner.solve import require_pld_method

    run = require_pld_method(plan_of(plan, unit=unit, group_size=group_size))
    rates = real_numbers(false_positive_rates, "false_positive_rates")
    guesses = real_numbers(baselines, "baselines")
    return bounds(run, prior=real_number(prior, "prior"), false_positive_rates=rates, baselines=guesses)


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """Accountants and bounds side by side: a sequence of rows, valid ones first, each part ascending in epsilon.

    Attributes:
        rows: the rows.
    """

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        """Return an iterator over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __getitem__(self, place: int) -> Row:
        """Return a row by its place, from 0."""
        return self.rows[place]

    def _cells(self) -> list[tuple[str, ...]]:
        texts = [("" if row.epsilon is None else shown_number("epsilon", row.epsilon), row) for row in self.rows]
        return [(row.method, row.bound, epsilon, row.claim, row.note) for epsilon, row in texts]

    def __str__(self) -> str:
        """Return a line for each row: method, bound, epsilon and what it claims."""
        cells = [("method", "bound", "epsilon", "claim"), *(row[:4] for row in self._cells())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)

    def _repr_html_(self) -> str:
        """Return the rows as an HTML table for a notebook: epsilon rounded up to 6 digits, an empty cell for None."""
        return html_table(("method", "bound", "epsilon", "claim", "note"), self._cells())


def compare(plan: Source, *, unit: str | None = None, group_size: int | None = None) -> Comparison:
    """Return epsilon by every accountant, bound and other tool, valid rows first; InputError for a tuned plan.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        Rows with `method`, `epsilon`, `kind` and `valid`: only valid rows are guarantees.

    Raises:
        InputError: the plan is tuned, or no bound covers it.
        ConvergenceError: there is no certified answer.
    """
    from dpcalc.planner.compare import compare as rows

    return Comparison(rows=rows(plan_of(plan, unit=unit, group_size=group_size)))


def curve(
    plan: Source,
    kind: str,
    *,
    grid: Sequence[float] = (),
    methods: Sequence[str] = (),
    unit: str | None = None,
    group_size: int | None = None,
) -> "Chart":
    """Return a curve of a plan, such as epsilon over steps; InputError for an unknown kind, method or grid.

    Args:
        plan: what `load` or `plan` returned, or a path or mapping for `load`.
        kind: "steps", "epochs", "sigma", "rate", "group" (epsilon over these), "profile" (delta over epsilon),
            "tradeoff" (true over false positive rate) or "rdp" (Renyi divergence over orders).
        grid: values of the x axis; by default around the plan's own.
        methods: accountants, a line for each; by default the plan's own.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        The chart: `series` with `xs`, `ys` and the `kind` of their numbers, `to_dict()`, and `picture("svg")`.

    Raises:
        InputError: there is no such curve, method or grid.
        ConvergenceError: there is no certified answer.

    Example:
        >>> from dpcalc import plan
        >>> run = plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5)
        >>> line = curve(run, "steps", grid=[100, 1000]).series[0]
        >>> line.ys[0] < line.ys[1] == epsilon(run).epsilon
        True
    """
    from dpcalc import charts

    if kind not in charts.KINDS:
        raise one_of(
            "kind", charts.KINDS, kind, noise="sigma", noise_multiplier="sigma", epsilon="profile", roc="tradeoff"
        )
    run = plan_of(plan, unit=unit, group_size=group_size)
    points = real_numbers(grid, "grid")
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise InputError(f"methods: expected a sequence of names such as ['pld'], got {methods!r}")
    return charts.curve(kind, charts.CurveRequest(plans=((run.name, run),), methods=tuple(methods), grid=points))
