"""Monte Carlo simulation of one plan: all checks of its sampling, losses and releases, and the output of `simulate`."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from dpcalc.arrays import Array, IntArray
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Strategy, Toeplitz, Tree
from dpcalc.planner.composition import composed, is_noiseless, releasing_phases
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.report.output import Output, Table, config_json, lines, origin_json, yes_no
from dpcalc.report.rounding import as_given, rounded_down, rounded_up
from dpcalc.sampling.schemes import All, BallsInBins, CyclicPoisson
from dpcalc.simulation.batches import batch_checks
from dpcalc.simulation.checks import MISS_PROBABILITY, Check, Effort, RandomSource, mean_interval
from dpcalc.simulation.losses import loss_checks
from dpcalc.work import SECOND, allowance

# Whole releases with correlated noise, drawn at random: C G + Z of an actual data set beside the bound on its delta.
#
# The strategy is written out, and the loss is that of the mixture over all steps in which the unit can take part.
# Nothing of the sensitivities and reductions of docs/theory.md is used: a bound that is too small is contradicted.
#
# Source: docs/theory.md, Definition 16.1.

_DELTA = 0.01  # at whose epsilon delta is compared; for one that is ten times smaller ten times as many runs are needed
_MAX_ENTRIES = 4_000_000  # of the releases that are written out, 32 MB
_MAX_CASES = 2_000  # the square root of a matrix of products of ten times more takes minutes
_MAX_PRODUCTS = 300_000_000  # of random numbers and shifts by default: a second or two
_MIN_RUNS, _MAX_RUNS = 1_000, 100_000
_CHUNK = 2_000_000  # random numbers at once, 16 MB


@dataclass(frozen=True, kw_only=True)
class Release:
    """The release of a phase of a data set in which one unit alone contributes, always the same vector of clip norm."""

    # scalar products of what the unit adds to the release in two cases, over the variance of the noise, shape (cases,
    # cases)
    products: Array
    # probability of each case, independent of the others, which are in other rows; None where exactly one happens, each
    # as likely
    rate: float | None

    @cached_property
    def root(self) -> Array:
        """A matrix R with R R^T equal to the products: R times independent normals is the noise along the cases."""
        # No Cholesky factor: the products are singular where two cases add the same to the release.
        values, vectors = np.linalg.eigh(self.products)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def losses(self, runs: int, rng: Generator, *, is_present: bool) -> Array:
        """Return the privacy losses of `runs` drawn releases, with the unit (P) or without it (Q)."""
        # The loss depends on the release only through its scalar products with what each case adds, which are normal
        # with the products as covariance; with the unit they are shifted by the products of the cases that happen.
        cases, rate = len(self.products), self.rate
        along = rng.standard_normal((runs, cases)) @ self.root.T
        if is_present and rate is None:
            along += self.products[rng.integers(cases, size=runs)]
        elif is_present and rate is not None:
            along += (rng.random((runs, cases)) < rate) @ self.products
        logs = along - np.diagonal(self.products) / 2
        if rate is None:
            top = logs.max(axis=1, keepdims=True)
            return np.asarray(np.log(np.exp(logs - top).mean(axis=1)) + top[:, 0])
        missed = math.log1p(-rate) if rate < 1 else -math.inf
        return np.asarray(np.logaddexp(missed, math.log(rate) + logs).sum(axis=1))


def no_release_reason(plan: Plan, phase: Phase) -> str:
    """Return why no release of a phase is drawn (no noise, never drawn, two drawn levels, too large); "" if one is."""
    alone = replace(plan, phases=(phase,))
    if not releasing_phases(alone) or is_noiseless(alone):
        return "it has no noise, or never draws the protected unit"
    deciding = phase.hierarchy.level(max(1, phase.hierarchy.allocated))
    if any(level is not deciding and level.scheme != All() for level in phase.hierarchy.levels):
        return "levels below the one that decides when a unit takes part are drawn, too"
    if _case_count(phase) > _MAX_CASES or _case_count(phase) * phase.steps > _MAX_ENTRIES:
        return "its strategy has too many entries"
    return ""


def release_checks(plan: Plan, phase: Phase, source: RandomSource) -> tuple[Check, ...]:
    """Draw releases of a lone unit and check that delta is at most the certified one, at the epsilon of delta 0.01."""
    release = _release(phase)
    cases = len(release.products)
    # What the removal of its only unit costs is at most the bound of every adjacency and group size.
    alone = replace(plan, phases=(phase,), delta=_DELTA, tuning=None)
    epsilon = guarantee(alone).epsilon
    delta_upper = delta_of(alone, epsilon=epsilon).delta
    runs = source.effort.runs or max(_MIN_RUNS, min(_MAX_RUNS, _MAX_PRODUCTS // cases**2))
    chunk = max(1, _CHUNK // cases)
    checks = []
    for index, (direction, sign) in enumerate({"D||D'": 1, "D'||D": -1}.items()):
        part, total = source.part(index, 2), 0.0
        for start in range(0, runs, chunk):
            losses = release.losses(min(chunk, runs - start), part.rng, is_present=sign > 0)
            total -= float(np.expm1(np.minimum(epsilon - sign * losses, 0.0)).sum())
            part.on_progress(min(1.0, (start + chunk) / runs))
        observed = total / runs
        checks.append(
            Check(
                phase=phase.name if len(plan.phases) > 1 else "",
                quantity=f"delta of one data set at epsilon {epsilon:.6g}, {direction}",
                computed=(0.0, delta_upper),
                observed=observed,
                interval=mean_interval(observed, runs, miss_probability=MISS_PROBABILITY),
                trials=runs,
                note="whole releases C G + Z; computed is the bound for all data sets",
            )
        )
    return tuple(checks)


def _case_count(phase: Phase) -> int:
    """Return the number of cases in which a lone unit takes part: its bins, the steps of its cyclic group, else 1."""
    match phase.hierarchy.allocation or phase.hierarchy.level(1).scheme:
        case BallsInBins(bins=bins):
            return bins
        case CyclicPoisson(groups=groups):
            return -(-phase.steps // groups)
        case _:
            return 1


def _release(phase: Phase) -> Release:
    """Return a lone unit's release in the form that losses are drawn from; TypeError unless noise is correlated."""
    mechanism, steps = phase.mechanism, phase.steps
    if not isinstance(mechanism, MatrixFactorization):
        raise TypeError(f"{phase.name}: expected correlated noise, got {mechanism.name}")
    # The steps of the unit in each case.
    level, rate = phase.hierarchy.level(max(1, phase.hierarchy.allocated)), None
    match level.scheme:
        case BallsInBins(bins=bins):
            own = [np.arange(place, steps, bins) for place in range(bins)]
        case CyclicPoisson(groups=groups) as cyclic:
            rate = float(cyclic.group_draw(level.min_count, level.count).rate(level.min_count))
            own = [np.array([step]) for step in range(0, steps, groups)]
        case _:
            limits = mechanism.limits
            own = [limits.separation * np.arange(limits.times(steps))]
    strategy = mechanism.strategy
    shifts = np.stack([_shift(strategy, steps, places) for places in own])
    # Noise multipliers are in units of the largest column norm, those of a tree in units of 1.
    if isinstance(strategy, Tree):
        unit = 1.0
    elif isinstance(strategy, Matrix):
        unit = float(np.sqrt((strategy.entries**2).sum(axis=0).max()))
    else:
        unit = float(np.linalg.norm(_shift(strategy, steps, np.zeros(1, dtype=np.int64))))
    deviation = mechanism.joint_noise_multiplier * unit
    return Release(products=shifts @ shifts.T / deviation**2, rate=rate)


def _shift(strategy: Strategy, steps: int, places: IntArray) -> Array:
    """Return the sum of a strategy's columns at the steps `places`; for a tree the number of them below each node."""
    taken = np.zeros(steps)
    taken[places] = 1.0
    if isinstance(strategy, Matrix):
        return strategy.entries[:steps, :steps] @ taken
    if isinstance(strategy, Tree):
        leaves, counts, nodes = min(steps, strategy.restart_every or steps), np.append(0.0, np.cumsum(taken)), []
        for start in range(0, steps, leaves):  # binary trees, without incomplete nodes
            for size in (1 << level for level in range(leaves.bit_length())):
                ends = np.arange(start + size, min(start + leaves, steps) + 1, size)
                nodes.append(counts[ends] - counts[ends - size])
        return np.concatenate(nodes)
    # The columns of the other strategies are one sequence moved down; that of prefix sums consists of ones.
    coefficients = np.array(strategy.coefficients[:steps]) if isinstance(strategy, Toeplitz) else np.ones(steps)
    shift = np.zeros(steps + len(coefficients))
    for place in places.tolist():
        shift[place : place + len(coefficients)] += coefficients
    return shift[:steps]


# Monte Carlo simulation of one plan: all checks of its sampling and of its privacy losses.

_CHOICE_WORK = 2.0 * SECOND  # for the unit that decides
_TOO_MUCH = "to find the unit that decides needs more work than one answer may take"


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The result of a simulation."""

    seed: int  # of the random numbers
    checks: tuple[Check, ...]  # the numbers that were compared
    notes: tuple[str, ...]  # one sentence about numbers that were not compared, with the reason; or none

    @property
    def agrees(self) -> bool:
        """True if no check contradicts a computed number."""
        return all(check.agrees for check in self.checks)


def simulate_plan(plan: Plan, effort: Effort, *, on_progress: Callable[[float], None]) -> Simulation:
    """Check a plan's sampling and its delta by simulation; a note says why a part is not drawn.

    Checks of every phase and of delta in both directions; the same seed gives the same result. Without checks of
    delta, and with a note, where no losses can be drawn.
    """
    source = RandomSource(rng=np.random.default_rng(effort.seed), effort=effort, on_progress=on_progress)
    composition = composed(plan)
    reason = ""  # why no losses are drawn
    if is_noiseless(composition.plan):
        reason = "without noise it is infinite"
    elif not composition.plan.is_gaussian:
        reason = "that is done for Gaussian noise only"
    elif not releasing_phases(composition.plan):
        reason = "no step draws the protected unit"
    protected = composition.likeliest
    if not reason:
        try:
            with allowance(_CHOICE_WORK):
                protected = composition.costliest()[0]
        except WorkExceededError:
            reason = _TOO_MUCH
    checks: list[Check] = []
    notes: list[str] = []
    for index, phase in enumerate(plan.phases):
        # Half of the progress bar is for the batches, shared by the phases, half for the losses.
        part = source.part(0, 2).part(index, len(plan.phases))
        if not phase.hierarchy.spans_steps:
            checks += batch_checks(plan, protected, index, part)
        else:  # the training code decides who is in which step
            is_cyclic = isinstance(phase.hierarchy.level(1).scheme, CyclicPoisson)
            why = "the training code splits the units into groups" if is_cyclic else "the config states limits alone"
            notes.append(f"no batches of {phase.name} are drawn: {why}; `audit-sampler` tests a log")
        if phase.is_correlated:
            why = no_release_reason(plan, phase)
            checks += () if why else release_checks(plan, phase, part)
            notes += [f"no release of {phase.name} is drawn: {why}"] if why else []
    if not reason:
        try:
            checks += loss_checks(composition, protected, source.part(1, 2))
        except UnsupportedError as error:
            reason = str(error)
    notes += [f"no privacy loss is drawn: {reason}"] if reason else []
    return Simulation(seed=effort.seed, checks=tuple(checks), notes=tuple(notes))


# The result of `simulate`.

DIGITS = 5
"""Significant digits of computed and drawn numbers."""


def simulation_output(result: Simulation, loaded: Loaded) -> Output:
    """Return the output of `simulate`: a verdict, a row for each check, and notes."""
    contradicted = sum(not check.agrees for check in result.checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(result.checks)} computed numbers contradicted"
    checks, texts, rows = [], [], []
    for check in result.checks:
        low, high = check.interval
        checks.append(
            {
                "phase": check.phase,
                "quantity": check.quantity,
                "computed_lower": check.computed[0],
                "computed_upper": check.computed[1],
                "observed": check.observed,
                "observed_lower": low,
                "observed_upper": high,
                "draws": check.trials,
                "note": check.note,
                "agrees": check.agrees,
            }
        )
        quantity = f"{f'{visible(check.phase)}: ' if check.phase else ''}{visible(check.quantity)}"
        computed, drawn = _between(*check.computed), _up(check.observed)
        note = f" ({visible(check.note)})" if check.note else ""
        interval = "" if low == high else _between(low, high)
        rows.append((quantity, computed, f"{drawn}{note}", interval, str(check.trials), yes_no(check.agrees), ""))
        between = "" if low == high else f", so between {_down(low)} and {_up(high)}"
        end = "" if check.agrees else "; NOT the same"
        texts.append(f"{quantity}: computed {computed}, drawn {drawn}{between}, {check.trials} draws{note}{end}")
    summary = {"agrees": result.agrees, "seed": result.seed, "doubt": MISS_PROBABILITY}
    return Output(
        command="simulate",
        result={
            "config": config_json(loaded),
            **summary,
            "checks": checks,
            "notes": list(result.notes),
            **origin_json(loaded),
        },
        lines=[("name", visible(loaded.plan.name)), *lines(summary), *(("checks", text) for text in texts)],
        table=Table(
            headline=f"{verdict}   seed {result.seed}, an interval misses with probability <= "
            f"{as_given(MISS_PROBABILITY)}",
            columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
            rows=tuple(rows),
        ),
    )


def _between(low: float, high: float) -> str:
    """Format an interval as "low to high", rounded outwards; as one number where both ends are equal."""
    return _up(high) if low == high else f"{_down(low)} to {_up(high)}"


def _up(value: float) -> str:
    """Format a number rounded up to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_up(value, digits=DIGITS)


def _down(value: float) -> str:
    """Format a number rounded down to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_down(value, digits=DIGITS)
