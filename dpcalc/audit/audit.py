"""Audit a log of batches: build the declared levels of each phase, count, and test."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from math import ceil
from typing import NamedTuple

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.audit.diagnosis import diagnosis
from dpcalc.audit.draws import CERTAIN, DeclaredLevel, LevelCounts, LoggedLevel, add_entries
from dpcalc.audit.laws import statistics_of
from dpcalc.audit.log import Block, LogForm, read_blocks
from dpcalc.audit.p_values import OF_NUMBERS, Statistic
from dpcalc.config.source import STDIN
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.mechanisms.strategies import Participation
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import TASK, Hierarchy
from dpcalc.sampling.schemes import (
    All,
    AnyOrder,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    Scheme,
    Shuffle,
    WithReplacement,
)


@dataclass(frozen=True, kw_only=True)
class AuditedTest:
    """A test with its phase.

    Attributes:
        phase: name of the phase, "" if it is the only one.
        level: name of the level.
        test: the test.
        contradicts: True if the log contradicts the declared law in it.
    """

    phase: str
    level: str
    test: Statistic
    contradicts: bool


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The result of an audit.

    Attributes:
        steps: number of steps of the log.
        entries: number of entries in all batches.
        tests: all tests, phase after phase, level after level.
        findings: for each phase that is contradicted, what the loader does instead; () for a consistent log.
        notes: sentences about what was not tested.
    """

    steps: int
    entries: int
    tests: tuple[AuditedTest, ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True if no test contradicts the declared law."""
        return not any(each.contradicts for each in self.tests)


class _PhaseAudit:
    """Levels of one phase and their counts, from block to block."""

    def __init__(self, phase: Phase, first: int) -> None:
        """Prepare the counts of a phase that begins at step `first` of the log."""
        hierarchy = phase.hierarchy
        self.phase, self.first = phase, first
        # A constructed task is a draw of its own: step s of t tasks becomes the steps s t to s t + t - 1.
        self.tasks = hierarchy.episodes.tasks if hierarchy.episodes else 1
        self.has_tasks = hierarchy.episodes is not None
        self.steps = phase.steps * self.tasks
        self.levels = [LevelCounts(level=level) for level in _declared_levels(phase, self.steps)]
        self.entries = 0
        self._waiting = np.zeros((2, 0), dtype=np.int64)

    def add(self, block: Block, log: str) -> None:
        """Count a block's entries of this phase at every level; InputError for an index beyond its frame.

        Args:
            block: some steps of the log.
            log: its name, for messages.
        """
        begin, end = np.searchsorted(block.steps, [self.first, self.first + self.phase.steps])
        steps = (block.steps[begin:end] - self.first) * self.tasks
        columns, lines = list(block.paths[begin:end].T), block.lines[begin:end]
        if self.has_tasks:
            tasks = columns.pop(0)
            _check_indices(tasks, np.full(tasks.size, self.tasks), TASK, log, lines)
            steps = steps + tasks
        # An index counts from 0 in its own frame; units are numbered through the frames of all parents.
        units = np.zeros(steps.size, dtype=np.int64)
        for index, counts in zip(columns, self.levels, strict=True):
            _check_indices(index, counts.level.frame_sizes(units), counts.level.name, log, lines)
            units = counts.level.first_units(units) + index
        self.entries += units.size
        self._count(steps, units, min(max(block.end - self.first, 0) * self.tasks, self.steps))

    def _count(self, steps: IntArray, units: IntArray, end: int) -> None:
        """Count the entries of whole redraw periods before step `end`; later ones wait for the next call."""
        steps, units = np.concatenate([self._waiting, [steps, units]], axis=1)
        period = self.levels[0].level.period
        whole = end if end == self.steps else end - end % period
        is_whole = steps < whole
        self._waiting = np.array([steps[~is_whole], units[~is_whole]])
        add_entries(self.levels, steps[is_whole], units[is_whole], end=whole)

    def logged(self) -> list[LoggedLevel]:
        """Return each level, outermost first, with its counts, its draws and its function of words for a place."""
        return [
            LoggedLevel(
                level=counts.level,
                counts=counts,
                draws=counts.draws(),
                place=partial(self._place, number),
                first_step=self.first,
            )
            for number, counts in enumerate(self.levels, start=1)
        ]

    def _place(self, number: int, step: int, unit: int) -> str:
        """Return words for a unit of level `number`, "step 7: user 3, record 5"; without the step if it is < 0."""
        words: list[str] = []
        for counts in reversed(self.levels[:number]):
            level = counts.level
            parent = int(level.parents_of(np.array([unit]))[0])
            words.append(f"{level.name} {unit - int(level.first_units(np.array([parent]))[0])}")
            unit = parent
        if self.has_tasks and step >= 0:
            words.append(f"{TASK} {step % self.tasks}")
        when = f"step {self.first + step // self.tasks}: " if step >= 0 else ""
        return when + ", ".join(reversed(words))


def _check_indices(index: IntArray, sizes: IntArray, name: str, log: str, lines: IntArray) -> None:
    """Raise InputError for the first index that is not below the size of its frame, with its line of the log."""
    if np.any(index >= sizes):
        place = int(np.argmax(index >= sizes))
        raise InputError(
            f"{log}:{lines[place]}: expected an index of {name} from 0 to {sizes[place] - 1}, got {index[place]}"
        )


def audit_log(plan: Plan, path: str, *, on_progress: Callable[[float], None]) -> Audit:
    """Test a log of batches against a plan's sampling; InputError if the log cannot be used.

    Args:
        plan: a training run; its phases follow each other in the log.
        path: the log, "-" for standard input.
        on_progress: called with the share of the log that is read, in [0, 1].

    Returns:
        All tests; an honest log contradicts any of them with probability at most FALSE_ALARM.

    Raises:
        InputError: the log cannot be used; the message names the line.
        UnsupportedError: draws that cannot be audited.
    """
    form = _log_form(plan)
    audits = _phase_audits(plan)
    # Phases follow each other in the log, so that a block may end one and begin the next.
    for block in read_blocks(path, form, on_progress=on_progress):
        for each in audits:
            if block.first < each.first + each.phase.steps and block.end > each.first:
                each.add(block, STDIN if path == "-" else path)
    return _judged(plan, audits)


def _phase_audits(plan: Plan) -> list[_PhaseAudit]:
    """Return an empty audit for each phase that has steps."""
    audits = []
    first = 0
    for phase in plan.phases:
        if phase.steps:
            audits.append(_PhaseAudit(phase, first))
        first += phase.steps
    return audits


class _JudgedLevel(NamedTuple):
    """A level with all of its tests and those that the log contradicts; `phase` is "" if it is the only one."""

    phase: str
    logged: LoggedLevel
    tests: tuple[Statistic, ...]
    contradicted: tuple[Statistic, ...]


def _judged(plan: Plan, audits: Sequence[_PhaseAudit]) -> Audit:
    """Return the result of all tests of all levels, which share the false alarm equally, with findings and notes."""
    by_level = [(each.phase.name, logged, tuple(statistics_of(logged))) for each in audits for logged in each.logged()]
    number = max(1, sum(len(tests) for *_, tests in by_level))
    judged = [
        _JudgedLevel(
            phase=name if len(plan.phases) > 1 else "",
            logged=logged,
            tests=tests,
            contradicted=tuple(test for test in tests if test.contradicts(number)),
        )
        for name, logged, tests in by_level
    ]
    return Audit(
        steps=plan.steps,
        entries=sum(each.entries for each in audits),
        tests=tuple(
            AuditedTest(
                phase=each.phase, level=each.logged.level.name, test=test, contradicts=test in each.contradicted
            )
            for each in judged
            for test in each.tests
        ),
        findings=tuple(_findings(judged)),
        notes=tuple(dict.fromkeys(note for each in judged for note in _notes(each.logged.level))),
    )


def _findings(levels: Sequence[_JudgedLevel]) -> Iterator[str]:
    """Yield the diagnosis of each contradicted level, unless contradicted draws of the level below explain it."""
    for each, below in zip_longest(levels, levels[1:]):
        if each.contradicted and not _is_explained(each, below):
            yield f"{f'{each.phase}: ' if each.phase else ''}{diagnosis(each.logged, each.contradicted)}"


def _is_explained(level: _JudgedLevel, below: _JudgedLevel | None) -> bool:
    """Return True if only numbers of units are contradicted, and contradicted draws of the level below hide units."""
    # A fault of draws that can leave units without entries shows in the numbers of the level above as well, and a
    # finding for it would send the reader to a level that is in order.
    declared = level.logged.level
    can_explain = below is not None and not declared.is_last and not declared.is_shown and bool(below.contradicted)
    return can_explain and {test.kind for test in level.contradicted} <= OF_NUMBERS


def _notes(level: DeclaredLevel) -> list[str]:
    """Return, in a list, the first reason why some tests of a level are left out; [] if none are."""
    if not level.has_sizes:
        return [f"{level.name}: how many there are is not declared, so that only sizes and repeats are tested"]
    if level.is_mixed:
        return [f"{level.name}: is not tested, because a draw with replacement above it mixes several draws"]
    if level.shown is None:
        note = (
            "some draws leave no entry in the log, not all with the same probability, so that only repeats are tested"
        )
        return [f"{level.name}: {note}"]
    if isinstance(level.scheme, CappedPoisson) and not level.is_shown:
        return [f"{level.name}: some draws leave no entry in the log, so that the maximum of a batch is not tested"]
    return []


def _log_form(plan: Plan) -> LogForm:
    """Return columns and steps of a log; UnsupportedError if only some phases have tasks, InputError without steps."""
    names = set()
    for phase in plan.phases:
        levels = phase.hierarchy.levels
        names.add((*((TASK,) if phase.hierarchy.episodes else ()), *(level.name for level in levels)))
    # One header describes the whole log, so that its columns must mean the same in every phase.
    if len(names) > 1:
        raise UnsupportedError(
            "audit-sampler: expected tasks in every phase or in none, got both; audit them one by one"
        )
    if not plan.steps:
        raise InputError("audit-sampler: expected a run of at least one step, got none")
    return LogForm(names=names.pop(), steps=plan.steps)


def _declared_levels(phase: Phase, steps: int) -> list[DeclaredLevel]:
    """Return the levels of a phase as declared, outermost first; UnsupportedError if a shuffle cannot be audited."""
    schemes = _schemes(phase.hierarchy)
    shown = _entry_probabilities(phase.hierarchy, schemes)
    declared: list[DeclaredLevel] = []
    for level, scheme, probability in zip(phase.hierarchy.levels, schemes, shown, strict=True):
        times = _counted_periods(scheme, level.redraw_every, steps, probability)
        declared.append(_declared_level(phase, schemes, declared, shown=probability, times=times))
    return declared


def _declared_level(
    phase: Phase, schemes: Sequence[Scheme], above: Sequence[DeclaredLevel], *, shown: float | None, times: int
) -> DeclaredLevel:
    """Return the declaration of the level below those in `above`, of which `times` periods are tested."""
    hierarchy, place = phase.hierarchy, len(above)
    level, scheme = hierarchy.levels[place], schemes[place]
    limits = phase.mechanism.limits if isinstance(phase.mechanism, MatrixFactorization) else None
    if level.is_assumed:
        raise InputError(f"data.examples: expected the number of {level.name} that the log is of, got an unknown one")
    sizes: IntArray | int = level.count
    if hierarchy.tree is not None:
        sizes = np.array(hierarchy.tree.sizes[place], dtype=np.int64)
    return DeclaredLevel(
        number=place + 1,
        name=level.name,
        scheme=scheme,
        period=level.redraw_every,
        times=times,
        is_every=all(each.has_sizes and each.scheme == All() for each in above),
        sizes=sizes,
        parents=above[-1].units if above else 1,
        has_sizes=hierarchy.tree is not None or level.is_equal,
        shown=shown,
        is_mixed=any(isinstance(each.scheme, WithReplacement) for each in above),
        window=_draws_of_a_pass(scheme, level.count),
        lag=_period_of_draws(scheme, limits),
        limits=limits if isinstance(scheme, AnyOrder) else None,
        is_last=place + 1 == hierarchy.depth,
    )


def _schemes(hierarchy: Hierarchy) -> list[Scheme]:
    """Return each level's scheme, `fixed` with tasks; UnsupportedError for two shuffles, or one of unequal frames."""
    episodes = hierarchy.episodes
    schemes: list[Scheme] = [level.scheme for level in hierarchy.levels]
    if episodes is not None:
        schemes = [Fixed(size=episodes.ways), Fixed(size=episodes.records)]
    shuffled = [level for level, scheme in zip(hierarchy.levels, schemes, strict=True) if isinstance(scheme, Shuffle)]
    if len(shuffled) > 1 or not all(level.is_equal for level in shuffled):
        raise UnsupportedError("audit-sampler: expected at most one shuffle, of frames of one size, got others")
    return schemes


def _counted_periods(scheme: Scheme, period: int, steps: int, shown: float | None) -> int:
    """Return how many redraw periods are tested: all, without a cut cycle or, if units can be hidden, a cut period."""
    # Cut short, a period has fewer draws that show a unit, and a cycle steps of some groups alone.
    if isinstance(scheme, CyclicPoisson):
        return steps - steps % scheme.groups
    return ceil(Fraction(steps, period)) if shown and shown >= CERTAIN else steps // period


def _period_of_draws(scheme: Scheme, limits: Participation | None) -> int:
    """Return the number of draws between successive draws of a unit where bins, groups or epochs fix it, else 1."""
    match scheme:
        case BallsInBins(bins=bins):
            return bins
        case CyclicPoisson(groups=groups):
            return groups
        case AnyOrder() if limits is not None and limits.fixed_epochs:
            return limits.separation
        case _:
            return 1


def _draws_of_a_pass(scheme: Scheme, count: int) -> int:
    """Return how many draws of mean size take `count` units, rounded up to draws or cycles; `count` for size 0."""
    match scheme:
        case Shuffle():
            return scheme.steps_of_a_pass(count)
        case Fixed(size=size) | WithReplacement(size=size):
            drawn = Fraction(min(size, count))
        case CappedPoisson(probability=rate, max_batch_size=max_size):
            drawn = min(rate * count, Fraction(max_size))
        case CyclicPoisson(probability=rate, groups=groups):
            return groups * ceil(1 / rate) if rate else groups
        case _:
            drawn = scheme.rate(count) * count
    return ceil(count / drawn) if drawn else count


def _entry_probabilities(hierarchy: Hierarchy, schemes: Sequence[Scheme]) -> list[float | None]:
    """Return each level's probability that a drawn unit has an entry in the log; None if it varies or draws mix."""
    shown: list[float | None] = [1.0]
    for above, level, scheme in reversed(list(zip(hierarchy.levels, hierarchy.levels[1:], schemes[1:], strict=False))):
        sizes, draws = (level.min_count, level.count), above.redraw_every // level.redraw_every
        shown.insert(0, _entry_probability_above(scheme, sizes, draws, shown[0]))
    # Below a level whose units can be drawn twice at once, two draws are mixed: the probability varies.
    is_multiple = [isinstance(scheme, WithReplacement) for scheme in schemes]
    return [None if any(is_multiple[:place]) else value for place, value in enumerate(shown)]


def _entry_probability_above(scheme: Scheme, sizes: tuple[int, int], draws: int, shown: float | None) -> float | None:
    """Return Pr[any of `draws` draws shows a unit], each drawn one with probability `shown`; None if it varies."""
    # It varies if frames have several `sizes`, unless all of these give the same probability.
    if shown is None:
        return None
    values = {_nonempty_probability(scheme, size, shown) for size in sizes}
    value = values.pop()
    return None if values or value is None else 1 - (1 - value) ** draws


def _nonempty_probability(scheme: Scheme, size: int, shown: float) -> float | None:
    """Return Pr[a draw from `size` units shows any], each drawn one with probability `shown`; None if it varies."""
    # It varies where units choose their steps, and where passes, copies or cut batches hold units without an entry.
    match scheme:
        case Poisson(probability=rate):
            return float(1 - (1 - float(rate) * shown) ** size)
        case CappedPoisson(probability=rate) if shown >= CERTAIN:
            return float(1 - (1 - float(rate)) ** size)
        case Fixed() | All():
            return float(1 - (1 - shown) ** scheme.max_drawn(size))
        case WithReplacement() | Shuffle():
            return 1.0 if shown >= CERTAIN else None
        case _:  # how many units choose a step depends on the other steps
            return None
