"""Ledger: the privacy cost of all runs on one data set together.

A ledger is a config whose phases are those of every run: they are composed as one, which costs less than the sum of the
runs' epsilons, and every command that reads a config reads a ledger. Entries are only ever added, at its end. The sum
covers runs whose settings were fixed before the first output of any of them.

Source: docs/theory.md, Theorem 13.1.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from dpcalc.config.expand import phase_lines, unfinished_form
from dpcalc.config.files import Refusal, create, exclusive_lock, save
from dpcalc.config.load import Loaded, load, load_text
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Severity, read_bytes
from dpcalc.errors import InputError
from dpcalc.gate.check import check
from dpcalc.gate.diff import PLAIN_READER, find_revision, load_old, raised_limits
from dpcalc.gate.policy import Policy
from dpcalc.gate.verdict import Result, finding, verdict_on, worst_verdict
from dpcalc.gate.workers import Costs
from dpcalc.guarantee import Guarantee
from dpcalc.planner.evaluate import guarantee, with_lower_bound
from dpcalc.planner.plan import Budget, Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy

HEADER = "# Runs on one data set, composed: a ledger of dpcalc. `dpcalc ledger add` appends; what is here stays.\n"
SEPARATOR = " / "  # between the name of a run and that of one of its phases
_END = "expected a file that ends with its `phases:`, indented by two, as `dpcalc ledger add` writes it"


@dataclass(frozen=True, kw_only=True)
class Account:
    """A ledger as a config, its runs in order (of `add` the new one only), and the upper bound of all runs together.

    A run is its name, the part of the data that all its phases draw from ("" for all data or several parts), its steps,
    and the upper bound of it alone, for unit, adjacency and delta of the ledger.
    """

    loaded: Loaded
    runs: tuple[tuple[str, str, int, Guarantee], ...]
    guarantee: Guarantee

    @property
    def keeps_budget(self) -> bool:
        """True if epsilon is finite and within the budget, if there is one."""
        budget = self.loaded.plan.budget
        return self.guarantee.finite and (budget is None or self.guarantee.epsilon <= budget.epsilon)


def account(path: str) -> Account:
    """Return a ledger with an upper bound for each run and, if it is finite, both bounds for all runs together."""
    loaded = load(path)
    evaluated = _account_of(loaded, _runs(loaded.plan))
    return replace(evaluated, guarantee=with_lower_bound(loaded.plan, evaluated.guarantee))


def _runs(plan: Plan) -> dict[str, list[Phase]]:
    """Return the phases of each run by its name, in order: that of its phase, or what precedes " / " in several."""
    phases: dict[str, list[Phase]] = {}
    for phase in plan.phases:
        phases.setdefault(phase.name.partition(SEPARATOR)[0], []).append(phase)
    return phases


def _account_of(loaded: Loaded, phases_by_run: dict[str, list[Phase]]) -> Account:
    """Return the account: the bound on all runs together, and for each given run its part, steps and own bound."""
    plan = loaded.plan
    # Runs are often repeated: without their names such runs are equal, and computed once.
    cost = cache(lambda phases: guarantee(replace(plan, phases=phases)))
    runs = []
    for name, own in phases_by_run.items():
        part = own[0].part if len({phase.part for phase in own}) == 1 else ""
        steps = sum(phase.steps for phase in own)
        runs.append((name, part, steps, cost(tuple(replace(phase, name="") for phase in own))))
    return Account(loaded=loaded, runs=tuple(runs), guarantee=guarantee(plan))


def add(
    path: str,
    run: Plan,
    *,
    name: str,
    part: str = "",
    opening: tuple[float | None, float | None] = (None, None),
    allow_over_budget: bool = False,
    dry_run: bool = False,
) -> tuple[Account, bool]:
    """Append a run to a ledger, old or new, except a dry run or one over the budget; return (account, was written).

    A `part` is that of the data that the run draws from, "" for what its config says. `opening` has delta and budget of
    a new ledger, None for those of the run. Of two processes that add at once, the second sees the first's run:
    reading, deciding and writing are one step.
    """
    # Two runs may end at the same time: without the lock the second would append to a ledger that lacks the first.
    with exclusive_lock(path):
        before = load(path) if os.path.lexists(path) else None
        old = b"" if before is None else read_bytes(path)
        ledger = None if before is None else before.plan
        partition = None if ledger is None else ledger.partition
        if run.tuning is not None:
            expected = "expected a single run to add to a ledger, got the best of several"
            raise InputError(f"tuning: {expected}; list each of them")
        if not name or SEPARATOR in name:
            raise InputError(f"--name: expected a name without `{SEPARATOR}`, got `{name}`")
        if part and (partition is None or run.parts):
            got = "a new one or one without" if partition is None else "a run whose phases name parts themselves"
            raise InputError(f"--part: expected a ledger with a `partition` and a run on one part, got {got}")
        if ledger is not None:
            if run.parts and run.partition != partition:
                raise InputError(f"{path}: expected a run with the `partition` of the ledger, got another one")
            if opening != (None, None):
                expected = "expected no --delta and no --budget for a ledger that is there"
                raise InputError(f"{path}: {expected}, it states its own")
            ours, theirs = ledger.phases[0].hierarchy, run.phases[0].hierarchy
            units, all_units = theirs.level(1), ours.level(1)
            if part:
                theirs = _resized(theirs, ours)
            if ours.data != theirs.data:
                found = f"{_sizes_text(ours)}, got one on {_sizes_text(theirs)}"
                raise InputError(f"{path}: expected a run on its data, {found}")
            if name in _runs(ledger):
                problem = f"expected a new name, there is a run `{name}` already; choose another with --name"
                raise InputError(f"{path}: {problem}")
            if part:  # a run that draws from as many units as all parts hold is on all data
                if units.is_assumed:
                    expected = "expected a run whose number of units is stated, got an unknown one"
                    raise InputError(f"--part: {expected}; state `examples`")
                if units.count >= all_units.count and partition is not None and len(partition.parts) > 1:
                    raise InputError(
                        f"--part: expected a run on some of the {all_units.count} {all_units.name} of the ledger, got "
                        f"one on {units.count}; a run on all data has no part"
                    )
                phases = (replace(phase, part=part, hierarchy=_resized(phase.hierarchy, ours)) for phase in run.phases)
                run = replace(ledger, phases=tuple(phases))

        # The name of the run comes first, so that `_runs` finds all phases of one; private votes stay where they are.
        added = tuple(
            replace(phase, name=f"{name}{SEPARATOR}{phase.name}" if len(run.phases) > 1 else name, votes="")
            for phase in run.phases
        )

        # What stands in the file stays byte for byte: lines are appended, with the file's own line ends.
        end = "\r\n" if b"\r\n" in old else "\n"
        head = ""
        if not old:
            delta, epsilon = opening
            budget = run.budget and replace(run.budget, max_increase_pct=None)
            opened = replace(
                run,
                name="",
                delta=run.delta if delta is None else delta,
                budget=budget if epsilon is None else Budget(epsilon=epsilon),
            )
            head = HEADER + unfinished_form(opened)
        gap = "" if not old or old.endswith(b"\n") else end
        lines = "".join(f"{line}{end}" for phase in added for line in phase_lines(phase))
        new = old + (gap + head + lines).encode()

        # Read as a whole before it is written: below something else than phases the lines would mean something else,
        # or change what stands above them. It must be the old ledger plus the phases of the run.
        phases_before = () if ledger is None else ledger.phases
        try:
            loaded = load_text(new.decode("utf-8-sig"), path=path)
        except ConfigError as error:
            if before is None:
                raise
            first = error.diagnostics[0]
            raise InputError(f"{path}: the run cannot be appended: {first.message}; {_END}") from error
        is_extended = ledger is None or replace(loaded.plan, phases=phases_before) == ledger
        if loaded.plan.phases != (*phases_before, *added) or not is_extended:
            raise InputError(f"{path}: the run cannot be appended; {_END}")

        evaluated = _account_of(loaded, {name: _runs(loaded.plan)[name]})
        is_added = not dry_run and (allow_over_budget or evaluated.keeps_budget)
        if is_added and before is not None:
            save(path, new)
        elif is_added and not create(path, new):
            raise InputError(f"{path}: expected a ledger or nothing there, got something that is no file")
        return evaluated, is_added


def _resized(hierarchy: Hierarchy, other: Hierarchy) -> Hierarchy:
    """Return a hierarchy whose outermost level has as many units as that of another one; its rates stay."""
    outermost, count = hierarchy.level(1), other.level(1)
    resized = replace(outermost, min_count=count.min_count, count=count.count)
    return replace(hierarchy, levels=(resized, *hierarchy.levels[1:]))


def _sizes_text(hierarchy: Hierarchy) -> str:
    """Return the sizes of a data set in words, outermost level first, e.g. "10 user x 3 to 5 record"."""
    sizes = (
        str(level.count) if level.is_equal else f"{level.min_count} to {level.count}" for level in hierarchy.levels
    )
    return " x ".join(f"{size} {level.name}" for size, level in zip(sizes, hierarchy.levels, strict=True))


# The gate: a ledger keeps to its budget and still has all its entries.


def check_ledger(path: str, *, base: str, policy: Policy, costs: Costs) -> Result:
    """Check a ledger as `check` does, and fail it if it rewrites the one at a git revision or raises its budget."""
    # No suggestions: the runs have been done.
    (result,) = check([path], policy=policy, suggestions=False, costs=costs)
    problems = tuple(_differences_from_base(path, base)) if base else ()
    verdict = worst_verdict([result.verdict, verdict_on(problems)])
    return replace(result, verdict=verdict, problems=(*result.problems, *problems))


def _differences_from_base(path: str, base: str) -> Iterator[Diagnostic]:
    """Yield DPC407 if a ledger does not extend what a git revision held, DPC303 if its budget was raised.

    It extends it if its text is as before or continues below, line ends aside, and if its plan is the old plan with new
    phases at its end: a line below the phases, or a file that a reference leads to, can change what stands above.
    """

    def rewritten(message: str) -> Diagnostic:
        hint = "restore it from the base, and add runs with `dpcalc ledger add`"
        return finding("DPC407", Severity.ERROR, message, path, hint=hint)

    changed = rewritten(f"what {base} says in it is not there any more as it was")
    revision = find_revision(base, Path(path).absolute().parent)
    place = revision.base_name(revision.path_from_top(path))
    try:
        before = revision.content(place, limit=MAX_BYTES)
    except Refusal as cause:
        raise InputError(f"--base: {path} in {base} {cause.message}") from cause
    if before is None:
        return
    try:
        now = read_bytes(path)
    except InputError:  # it is gone, which `check` has reported
        yield changed
        return
    # A checkout may change line ends, and an editor the last one; both change no entry.
    earlier, later = (data.replace(b"\r\n", b"\n").rstrip(b"\n") for data in (before, now))
    if later != earlier and not later.startswith(earlier + b"\n"):
        yield changed
        return
    try:
        new = load(path)
    except ConfigError:  # which `check` has reported
        return
    try:
        old = load_old(path, revision, PLAIN_READER)
    except (ConfigError, Refusal) as cause:
        first = cause.diagnostics[0].message if isinstance(cause, ConfigError) else cause.message
        yield rewritten(f"it cannot be read in {base}, with the files that it refers to: {first}")
        return
    if old is not None:
        phases = new.plan.phases[: len(old.plan.phases)]
        if replace(new.plan, phases=phases, budget=None) != replace(old.plan, budget=None):
            yield changed
        yield from raised_limits(old, new)
