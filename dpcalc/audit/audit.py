"""Audit a log of batches: build the declared levels of each phase, count, and test."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import ceil

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.audit.diagnosis import diagnosis
from dpcalc.audit.draws import CERTAIN, LoggedLevel
from dpcalc.audit.laws import statistics_of
from dpcalc.audit.log import Block, read_blocks
from dpcalc.audit.p_values import OF_NUMBERS, Statistic
from dpcalc.audit.sampler import drawn_schemes
from dpcalc.config.source import STDIN
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import TASK, Hierarchy
from dpcalc.sampling.schemes import All, BallsInBins, CyclicPoisson, Scheme


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The result of an audit."""

    steps: int  # number of steps of the log
    entries: int  # number of entries in all batches
    # (name of the phase, "" if it is the only one; name of the level; test), phase after phase, level after level
    tests: tuple[tuple[str, str, Statistic], ...]
    # for each phase that is contradicted, what the loader does instead; () for a consistent log
    findings: tuple[str, ...]
    notes: tuple[str, ...]  # sentences about what was not tested

    @property
    def agrees(self) -> bool:
        return not any(test.contradicts(len(self.tests)) for *_, test in self.tests)


class _PhaseAudit:
    """Levels of one phase, which begins at step `first` of the log, and their counts, from block to block."""

    def __init__(self, phase: Phase, first: int) -> None:
        hierarchy = phase.hierarchy
        self.phase, self.first = phase, first
        # A constructed task is a draw of its own: step s of t tasks becomes the steps s t to s t + t - 1.
        self.tasks, _ = drawn_schemes(hierarchy)
        self.has_tasks = hierarchy.episodes is not None
        self.steps = phase.steps * self.tasks
        self.levels = _declared_levels(phase, self.steps, first, self.place)
        self.entries = 0
        self._waiting = np.zeros((2, 0), dtype=np.int64)

    def add(self, block: Block, log: str) -> None:
        begin, end = np.searchsorted(block.steps, [self.first, self.first + self.phase.steps])
        steps = (block.steps[begin:end] - self.first) * self.tasks
        columns = list(block.paths[begin:end].T)
        lines = block.lines[begin:end]

        def check(index: IntArray, sizes: IntArray, name: str) -> None:
            if np.any(index >= sizes):
                place = int(np.argmax(index >= sizes))
                expected = f"expected an index of {name} from 0 to {sizes[place] - 1}"
                raise InputError(f"{log}:{lines[place]}: {expected}, got {index[place]}")

        if self.has_tasks:
            tasks = columns.pop(0)
            check(tasks, np.full(tasks.size, self.tasks), TASK)
            steps = steps + tasks
        # An index counts from 0 in its own frame; units are numbered through the frames of all parents.
        units = np.zeros(steps.size, dtype=np.int64)
        for index, level in zip(columns, self.levels, strict=True):
            check(index, level.frame_sizes(units), level.name)
            units = level.first_units(units) + index
        self.entries += units.size
        # Whole redraw periods are counted; later entries wait for the next block.
        steps, units = np.concatenate([self._waiting, [steps, units]], axis=1)
        whole = min(max(block.end - self.first, 0) * self.tasks, self.steps)
        if whole < self.steps:
            whole -= whole % self.levels[0].period
        is_whole = steps < whole
        self._waiting = np.array([steps[~is_whole], units[~is_whole]])
        steps, units = steps[is_whole], units[is_whole]
        if not steps.size:
            return
        # One key for each (step, record): a sort of whole numbers is several times as fast as one of pairs.
        records, first = self.levels[-1].units, steps[0]
        keys = np.sort((steps - first) * records + units)
        steps, units = first + keys // records, keys % records
        for level in reversed(self.levels):
            level.add(steps, units, end=whole)
            units = level.parents_of(units)

    def place(self, number: int, step: int, unit: int) -> str:
        """Return words for a unit of level `number`, "step 7: user 3, record 5"; without the step if it is < 0."""
        words: list[str] = []
        for level in reversed(self.levels[:number]):
            parent = int(level.parents_of(np.array([unit]))[0])
            words.append(f"{level.name} {unit - int(level.first_units(np.array([parent]))[0])}")
            unit = parent
        if self.has_tasks and step >= 0:
            words.append(f"{TASK} {step % self.tasks}")
        when = f"step {self.first + step // self.tasks}: " if step >= 0 else ""
        return when + ", ".join(reversed(words))


def audit_log(plan: Plan, path: str, *, on_progress: Callable[[float], None]) -> Audit:
    """Test a log of batches; an honest one contradicts any test with probability at most FALSE_ALARM."""
    # One header describes the whole log, so that its columns must mean the same in every phase.
    columns = {
        (*((TASK,) if phase.hierarchy.episodes else ()), *(level.name for level in phase.hierarchy.levels))
        for phase in plan.phases
    }
    if len(columns) > 1:
        raise UnsupportedError(
            "audit-sampler: expected tasks in every phase or in none, got both; audit them one by one"
        )
    if not plan.steps:
        raise InputError("audit-sampler: expected a run of at least one step, got none")
    ends = list(accumulate(phase.steps for phase in plan.phases))
    audits = [
        _PhaseAudit(phase, end - phase.steps) for phase, end in zip(plan.phases, ends, strict=True) if phase.steps
    ]
    # A block may end one phase and begin the next.
    for block in read_blocks(path, columns.pop(), plan.steps, on_progress=on_progress):
        for each in audits:
            if block.first < each.first + each.phase.steps and block.end > each.first:
                each.add(block, STDIN if path == "-" else path)

    # All tests of all levels share the false alarm equally.
    levels = []
    for audit in audits:
        phase = audit.phase.name if len(plan.phases) > 1 else ""
        levels += [(phase, level, tuple(statistics_of(level))) for level in audit.levels]
    number = max(1, sum(len(tests) for *_, tests in levels))
    judged, findings, contradicted_below = [], [], False
    for phase, level, tests in reversed(levels):
        contradicted = [test for test in tests if test.contradicts(number)]
        # A fault of draws that can leave units without entries shows in the numbers of the level above as well, and a
        # finding for it would send the reader to a level that is in order.
        can_be_hidden = contradicted_below and not level.is_last and not level.is_shown
        if contradicted and not (can_be_hidden and {test.kind for test in contradicted} <= OF_NUMBERS):
            findings.append(f"{f'{phase}: ' if phase else ''}{diagnosis(level, contradicted)}")
        judged += [(phase, level.name, test) for test in reversed(tests)]
        contradicted_below = bool(contradicted)
    return Audit(
        steps=plan.steps,
        entries=sum(each.entries for each in audits),
        tests=tuple(reversed(judged)),
        findings=tuple(reversed(findings)),
        notes=tuple(dict.fromkeys(note for _, level, _ in levels if (note := _note(level)))),
    )


def _note(level: LoggedLevel) -> str:
    """Return the first reason why some tests of a level are left out; "" if none are."""
    if not level.has_sizes:
        reason = "how many there are is not declared, so that only sizes and repeats are tested"
    elif level.is_mixed:
        reason = "is not tested, because a draw with replacement above it mixes several draws"
    elif level.shown is None:
        reason = (
            "some draws leave no entry in the log, not all with the same probability, so that only repeats are tested"
        )
    elif level.scheme.is_cut and not level.is_shown:
        reason = "some draws leave no entry in the log, so that the maximum of a batch is not tested"
    else:
        return ""
    return f"{level.name}: {reason}"


def _declared_levels(
    phase: Phase, steps: int, first_step: int, place_of: Callable[[int, int, int], str]
) -> list[LoggedLevel]:
    """Return the levels of a phase as declared, outermost first; UnsupportedError if a shuffle cannot be audited."""
    hierarchy = phase.hierarchy
    _, schemes = drawn_schemes(hierarchy)
    shuffled = [level for level, scheme in zip(hierarchy.levels, schemes, strict=True) if scheme.is_shuffled]
    if len(shuffled) > 1 or not all(level.is_equal for level in shuffled):
        raise UnsupportedError("audit-sampler: expected at most one shuffle, of frames of one size, got others")
    limits = phase.mechanism.limits if isinstance(phase.mechanism, MatrixFactorization) else None
    declared: list[LoggedLevel] = []
    for place, (level, scheme) in enumerate(zip(hierarchy.levels, schemes, strict=True)):
        if level.is_assumed:
            raise InputError(
                f"data.examples: expected the number of {level.name} that the log is of, got an unknown one"
            )
        # Below a level whose units can be drawn twice at once, two draws are mixed.
        is_mixed = any(each.can_repeat or each.is_summed for each in schemes[:place])
        shown = None if is_mixed else _entry_probability(hierarchy, schemes, place)
        lag = scheme.bins if isinstance(scheme, BallsInBins) else getattr(scheme, "groups", 1)
        if scheme.spans_steps and scheme.is_whole and limits is not None and limits.fixed_epochs:
            lag = limits.separation
        elif scheme.is_secret:
            lag = _draws_of_a_pass(scheme, level.count)
        # A last period or cycle that is cut short is left out if it has fewer draws that show a unit, or steps of some
        # groups alone.
        times = steps // level.redraw_every
        if isinstance(scheme, CyclicPoisson):
            times = steps - steps % scheme.groups
        elif shown and shown >= CERTAIN:
            times = ceil(Fraction(steps, level.redraw_every))
        sizes: IntArray | int = level.count
        if hierarchy.tree is not None:
            sizes = np.array(hierarchy.tree.sizes[place], dtype=np.int64)
        declared.append(
            LoggedLevel(
                number=place + 1,
                name=level.name,
                scheme=scheme,
                period=level.redraw_every,
                times=times,
                is_every=all(each.has_sizes and each.scheme == All() for each in declared),
                sizes=sizes,
                parents=declared[-1].units if declared else 1,
                has_sizes=hierarchy.tree is not None or level.is_equal,
                shown=shown,
                is_mixed=is_mixed,
                window=_draws_of_a_pass(scheme, level.count),
                lag=lag,
                limits=limits if scheme.spans_steps and scheme.is_whole else None,
                is_last=place + 1 == hierarchy.depth,
                place=partial(place_of, place + 1),
                first_step=first_step,
            )
        )
    return declared


def _draws_of_a_pass(scheme: Scheme, count: int) -> int:
    """Return how many draws of mean size take `count` units, rounded up to draws or cycles; `count` for size 0."""
    if scheme.is_shuffled:
        return scheme.steps_of_a_pass(count)
    if isinstance(scheme, CyclicPoisson):
        return scheme.groups * ceil(1 / scheme.probability) if scheme.probability else scheme.groups
    drawn = min(scheme.share(count) * count, Fraction(scheme.max_drawn(count)), Fraction(count))
    return ceil(count / drawn) if drawn else count


def _entry_probability(hierarchy: Hierarchy, schemes: Sequence[Scheme], place: int) -> float | None:
    """Return the probability that a drawn unit of a level, from 0, has an entry in the log; None if it varies."""
    if place + 1 == hierarchy.depth:
        return 1.0
    shown = _entry_probability(hierarchy, schemes, place + 1)
    if shown is None:
        return None
    level = hierarchy.levels[place]
    below = hierarchy.levels[place + 1]
    scheme = schemes[place + 1]
    # Of draws that show any unit. It varies where units choose their steps, and where passes, copies or cut batches
    # hold units without an entry.
    nonempty = set()
    for size in (below.min_count, below.count):
        number, rate = scheme.tried(size)
        if scheme.is_simple or ((scheme.is_whole or scheme.is_cut) and shown >= CERTAIN):
            nonempty.add(1 - (1 - float(rate) * shown) ** number)
        elif (scheme.can_repeat or scheme.is_shuffled) and shown >= CERTAIN:
            nonempty.add(1.0)
        else:  # how many units choose a step depends on the other steps
            return None
    if len(nonempty) > 1:
        return None
    return 1 - (1 - nonempty.pop()) ** (level.redraw_every // below.redraw_every)
