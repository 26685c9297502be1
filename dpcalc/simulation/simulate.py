"""Monte Carlo simulation of one plan: all checks of its sampling, losses and releases, and the output of `simulate`."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from dpcalc.arrays import Array, IntArray
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Strategy, Toeplitz, Tree
from dpcalc.planner.composition import Composition, ProtectedUnit, composed, is_noiseless, releasing_phases
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.report.fields import Field, Output, Table, config_field, json_only, origin_fields, yes_no
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
    """The release of a phase of a data set in which one unit alone contributes, always the same vector of clip norm.

    Attributes:
        products: scalar products of what the unit adds to the release in two cases, over the variance of the noise,
            shape (cases, cases).
        rate: probability of each case, independent of the others, which are in other rows; None where exactly one
            happens, each as likely.
    """

    products: Array
    rate: float | None

    @cached_property
    def root(self) -> Array:
        """A matrix R with R R^T equal to the products: R times independent normals is the noise along the cases."""
        # No Cholesky factor: the products are singular where two cases add the same to the release.
        values, vectors = np.linalg.eigh(self.products)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def losses(self, runs: int, rng: Generator, *, is_present: bool) -> Array:
        """Return the privacy losses of `runs` drawn releases, with the unit (P) or without it (Q).

        Args:
            runs: number of releases.
            rng: random numbers.
            is_present: True to draw from P, False to draw from Q.
        """
        # The loss depends on the release only through its scalar products with what each case adds, which are normal
        # with the products as covariance; with the unit they are shifted by the products of the cases that happen.
        cases, rate = len(self.products), self.rate
        along = rng.standard_normal((runs, cases)) @ self.root.T
        if is_present and rate is None:
            along += self.products[rng.integers(cases, size=runs)]
        elif is_present and rate is not None:
            along += (rng.random((runs, cases)) < rate) @ self.products
        return self._losses_of(along)

    def _losses_of(self, along: Array) -> Array:
        """Return the privacy losses of releases, from their scalar products with what each case adds."""
        logs = along - np.diagonal(self.products) / 2
        if self.rate is None:
            top = logs.max(axis=1, keepdims=True)
            return np.asarray(np.log(np.exp(logs - top).mean(axis=1)) + top[:, 0])
        missed = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        return np.asarray(np.logaddexp(missed, math.log(self.rate) + logs).sum(axis=1))


def no_release_reason(plan: Plan, phase: Phase) -> str:
    """Return why no release of a phase is drawn (no noise, never drawn, two drawn levels, too large); "" if one is.

    Args:
        plan: the training run.
        phase: one of its phases, with correlated noise.
    """
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
    """Draw releases of a lone unit and check that delta is at most the certified one, at the epsilon of delta 0.01.

    Args:
        plan: the training run.
        phase: one of its phases, for which `no_release_reason` returns "".
        source: random numbers, effort and progress.
    """
    release, (epsilon, delta_upper) = _release(phase), _certified_point(plan, phase)
    runs = source.effort.runs or max(_MIN_RUNS, min(_MAX_RUNS, _MAX_PRODUCTS // len(release.products) ** 2))
    deltas = {
        "D||D'": _drawn_delta(release, epsilon, runs, source.part(0, 2), is_swapped=False),
        "D'||D": _drawn_delta(release, epsilon, runs, source.part(1, 2), is_swapped=True),
    }
    return tuple(
        Check(
            phase=phase.name if len(plan.phases) > 1 else "",
            quantity=f"delta of one data set at epsilon {epsilon:.6g}, {direction}",
            computed=(0.0, delta_upper),
            observed=observed,
            interval=mean_interval(observed, runs, miss_probability=MISS_PROBABILITY),
            trials=runs,
            note="whole releases C G + Z; computed is the bound for all data sets",
        )
        for direction, observed in deltas.items()
    )


def _certified_point(plan: Plan, phase: Phase) -> tuple[float, float]:
    """Return (epsilon at delta 0.01, upper bound on delta at that epsilon) of one phase alone, without tuning."""
    # What the removal of its only unit costs is at most the bound of every adjacency and group size.
    alone = replace(plan, phases=(phase,), delta=_DELTA, tuning=None)
    epsilon = guarantee(alone).epsilon
    return epsilon, delta_of(alone, epsilon=epsilon).delta


def _drawn_delta(release: Release, epsilon: float, runs: int, source: RandomSource, *, is_swapped: bool) -> float:
    """Return delta at an epsilon, estimated from drawn losses of D||D' or, if `is_swapped`, of D'||D."""
    chunk = max(1, _CHUNK // len(release.products))
    total, sign = 0.0, -1 if is_swapped else 1
    for start in range(0, runs, chunk):
        losses = release.losses(min(chunk, runs - start), source.rng, is_present=not is_swapped)
        total -= float(np.expm1(np.minimum(epsilon - sign * losses, 0.0)).sum())
        source.on_progress(min(1.0, (start + chunk) / runs))
    return total / runs


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
    own, rate = _steps_by_case(phase, mechanism)
    shifts = np.stack([_shift(mechanism.strategy, steps, places) for places in own])
    deviation = mechanism.joint_noise_multiplier * _noise_unit(mechanism.strategy, steps)
    return Release(products=shifts @ shifts.T / deviation**2, rate=rate)


def _steps_by_case(phase: Phase, mechanism: MatrixFactorization) -> tuple[list[IntArray], float | None]:
    """Return (steps of a unit in each case, rate at which a case happens; None if exactly one of them does)."""
    steps, level = phase.steps, phase.hierarchy.level(max(1, phase.hierarchy.allocated))
    match level.scheme:
        case BallsInBins(bins=bins):
            return [np.arange(place, steps, bins) for place in range(bins)], None
        case CyclicPoisson(groups=groups) as cyclic:
            rate = float(cyclic.group_draw(level.min_count, level.count).rate(level.min_count))
            return [np.array([step]) for step in range(0, steps, groups)], rate
        case _:
            limits = mechanism.limits
            return [limits.separation * np.arange(limits.times(steps))], None


def _noise_unit(strategy: Strategy, steps: int) -> float:
    """Return the largest column norm of a strategy, the unit of its noise multipliers; 1 for a tree."""
    if isinstance(strategy, Tree):
        return 1.0
    if isinstance(strategy, Matrix):
        return float(np.sqrt((strategy.entries**2).sum(axis=0).max()))
    return float(np.linalg.norm(_shift(strategy, steps, np.zeros(1, dtype=np.int64))))


def _shift(strategy: Strategy, steps: int, places: IntArray) -> Array:
    """Return the sum of a strategy's columns at the steps `places`; for a tree the number of them below each node."""
    taken = np.zeros(steps)
    taken[places] = 1.0
    if isinstance(strategy, Matrix):
        return strategy.entries[:steps, :steps] @ taken
    if isinstance(strategy, Tree):
        return _node_counts(taken, min(steps, strategy.restart_every or steps))
    # The columns of the other strategies are one sequence moved down; that of prefix sums consists of ones.
    coefficients = np.array(strategy.coefficients[:steps]) if isinstance(strategy, Toeplitz) else np.ones(steps)
    shift = np.zeros(steps + len(coefficients))
    for place in places.tolist():
        shift[place : place + len(coefficients)] += coefficients
    return shift[:steps]


def _node_counts(taken: Array, leaves: int) -> Array:
    """Return the sum of `taken` below each node of binary trees over `leaves` steps each, without incomplete nodes."""
    steps, counts = len(taken), np.concatenate(([0.0], np.cumsum(taken)))
    nodes = []
    for start in range(0, steps, leaves):
        for size in (1 << level for level in range(leaves.bit_length())):
            ends = np.arange(start + size, min(start + leaves, steps) + 1, size)
            nodes.append(counts[ends] - counts[ends - size])
    return np.concatenate(nodes)


# Monte Carlo simulation of one plan: all checks of its sampling and of its privacy losses.

_CHOICE_WORK = 2.0 * SECOND  # for the unit that decides
_TOO_MUCH = "to find the unit that decides needs more work than one answer may take"


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        seed: of the random numbers.
        checks: the numbers that were compared.
        notes: one sentence about numbers that were not compared, with the reason; or none.
    """

    seed: int
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True if no check contradicts a computed number."""
        return all(check.agrees for check in self.checks)


def simulate_plan(plan: Plan, effort: Effort, *, on_progress: Callable[[float], None]) -> Simulation:
    """Check a plan's sampling and its delta by simulation; a note says why a part is not drawn.

    Args:
        plan: a training run.
        effort: seed and number of draws.
        on_progress: is called with the share of the work that is done, from 0 to 1.

    Returns:
        Checks of every phase and of delta in both directions; the same seed gives the same result. Without checks of
        delta, and with a note, where no losses can be drawn.

    Raises:
        InputError: a step draws more units than can be drawn.
        ConvergenceError: there is no certified delta to compare with.
    """
    source = RandomSource(rng=np.random.default_rng(effort.seed), effort=effort, on_progress=on_progress)
    composition = composed(plan)
    protected, reason = _deciding_unit(composition)
    checks: list[Check] = []
    notes: list[str] = []
    for index in range(len(plan.phases)):
        # Half of the progress bar is for the batches, shared by the phases, half for the losses.
        of_phase, notes_of_phase = _phase_checks(plan, protected, index, source.part(0, 2))
        checks += of_phase
        notes += notes_of_phase
    if not reason:
        try:
            checks += loss_checks(composition, protected, source.part(1, 2))
        except UnsupportedError as error:
            reason = str(error)
    notes += [f"no privacy loss is drawn: {reason}"] if reason else []
    return Simulation(seed=effort.seed, checks=tuple(checks), notes=tuple(notes))


def _deciding_unit(composition: Composition) -> tuple[ProtectedUnit, str]:
    """Return (costliest unit, ""), or (likeliest unit, reason) if no losses are drawn or the search takes too long."""
    reason = _no_losses_reason(composition.plan)
    protected = composition.likeliest
    if reason:
        return protected, reason
    try:
        with allowance(_CHOICE_WORK):
            return composition.costliest()[0], ""
    except WorkExceededError:
        return protected, _TOO_MUCH


def _phase_checks(
    plan: Plan, protected: ProtectedUnit, index: int, source: RandomSource
) -> tuple[list[Check], list[str]]:
    """Return (checks of the batches and correlated releases of a phase, notes on those that are not drawn)."""
    phase, part = plan.phases[index], source.part(index, len(plan.phases))
    checks: list[Check] = []
    notes: list[str] = []
    why = _no_batches_reason(phase)
    checks += () if why else batch_checks(plan, protected, index, part)
    notes += [f"no batches of {phase.name} are drawn: {why}; `audit-sampler` tests a log"] if why else []
    if phase.is_correlated:
        why = no_release_reason(plan, phase)
        checks += () if why else release_checks(plan, phase, part)
        notes += [f"no release of {phase.name} is drawn: {why}"] if why else []
    return checks, notes


def _no_batches_reason(phase: Phase) -> str:
    """Return why no batches are drawn, if the training code decides who is in which step; "" if they can be."""
    if not phase.hierarchy.spans_steps:
        return ""
    is_cyclic = isinstance(phase.hierarchy.level(1).scheme, CyclicPoisson)
    return "the training code splits the units into groups" if is_cyclic else "the config states limits alone"


def _no_losses_reason(plan: Plan) -> str:
    """Return why no losses are drawn (no noise, noise not Gaussian, the unit never drawn); "" if they can be."""
    if is_noiseless(plan):
        return "without noise it is infinite"
    if not plan.is_gaussian:
        return "that is done for Gaussian noise only"
    return "" if releasing_phases(plan) else "no step draws the protected unit"


# The result of `simulate`.

DIGITS = 5
"""Significant digits of computed and drawn numbers."""


def simulation_output(result: Simulation, loaded: Loaded) -> Output:
    """Return the output of `simulate`: a verdict, a row for each check, and notes.

    Args:
        result: of the simulation.
        loaded: the config of the plan that was simulated.
    """
    contradicted = sum(not check.agrees for check in result.checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(result.checks)} computed numbers contradicted"
    miss = as_given(MISS_PROBABILITY)
    checks = [_check_record(check) for check in result.checks]
    return Output(
        command="simulate",
        fields=(
            config_field(loaded),
            Field("agrees", result.agrees),
            Field("seed", result.seed),
            Field("doubt", MISS_PROBABILITY),
            Field("checks", checks, plain=tuple(f"{_quantity(check)}: {_fact_text(check)}" for check in result.checks)),
            json_only("notes", list(result.notes)),
            *origin_fields(loaded),
        ),
        table=Table(
            headline=f"{verdict}   seed {result.seed}, an interval misses with probability <= {miss}",
            columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
            rows=tuple(tuple(_cells(check)) for check in result.checks),
        ),
    )


def _check_record(check: Check) -> dict[str, str | float | bool]:
    """Return a check as a JSON object with unrounded numbers."""
    return {
        "phase": check.phase,
        "quantity": check.quantity,
        "computed_lower": check.computed[0],
        "computed_upper": check.computed[1],
        "observed": check.observed,
        "observed_lower": check.interval[0],
        "observed_upper": check.interval[1],
        "draws": check.trials,
        "note": check.note,
        "agrees": check.agrees,
    }


def _cells(check: Check) -> Iterable[str]:
    """Yield the cells of a check's row in the table."""
    low, high = check.interval
    yield _quantity(check)
    yield _between(*check.computed)
    yield f"{_up(check.observed)}{f' ({visible(check.note)})' if check.note else ''}"
    yield "" if low == high else _between(low, high)
    yield str(check.trials)
    yield yes_no(check.agrees)
    yield ""


def _quantity(check: Check) -> str:
    """Return "PHASE: QUANTITY" of a check, the quantity alone if the phase has no name."""
    quantity = visible(check.quantity)
    return f"{visible(check.phase)}: {quantity}" if check.phase else quantity


def _fact_text(check: Check) -> str:
    """Return a check in one line: computed and drawn numbers, and a remark if they disagree."""
    low, high = check.interval
    between = "" if low == high else f", so between {_down(low)} and {_up(high)}"
    note = f" ({visible(check.note)})" if check.note else ""
    verdict = "" if check.agrees else "; NOT the same"
    computed = _between(*check.computed)
    return f"computed {computed}, drawn {_up(check.observed)}{between}, {check.trials} draws{note}{verdict}"


def _between(low: float, high: float) -> str:
    """Format an interval as "low to high", rounded outwards; as one number where both ends are equal."""
    return _up(high) if low == high else f"{_down(low)} to {_up(high)}"


def _up(value: float) -> str:
    """Format a number rounded up to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_up(value, digits=DIGITS)


def _down(value: float) -> str:
    """Format a number rounded down to DIGITS; a whole number exactly."""
    return str(int(value)) if float(value).is_integer() else rounded_down(value, digits=DIGITS)
