"""A config beside its base: both read, their epsilons and promises compared, the effect of each change."""

import math
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from dpcalc.config.difference import Difference, differences, with_difference
from dpcalc.config.files import Folder, Refusal
from dpcalc.config.load import NO_OVERRIDES, Loaded, load, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.config.repository import git_root, real_path
from dpcalc.config.source import MAX_BYTES, ConfigError, Severity, decode, visible
from dpcalc.errors import InputError
from dpcalc.gate.costs import Costs, cost_relevant
from dpcalc.gate.revision import Revision, Snapshot, UnknownRevisionError, find_revision
from dpcalc.gate.verdict import BaseCost, Change, Limit, Problem, Result, Verdict
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Level

NOT_SET = "not set"  # shown in the place of the value of an absent key
SAME = 1e-6  # relative increase that counts as none: another grid for the same losses moves a bound by less
RESTORE = "restore it, or have the change agreed on and pass --allow-budget-change"
"""Hint where less is checked than in the base."""
MAX_CAUSES = 32  # differences that get an epsilon of their own; with more, none: each costs an evaluation
# Adjacencies from the weakest promise to the strongest.
_STRENGTH = (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


@dataclass(frozen=True, kw_only=True)
class ConfigPair:
    """A config and its base, with their differences.

    Attributes:
        name: revision or file of the base.
        old: the base.
        new: the config.
        steps: differences, each with the plan of the base with this change alone; None if that is no valid config.
        claims: differences in claims about the data, each with the new plan and the old claim; None likewise.
    """

    name: str
    old: Loaded
    new: Loaded
    steps: tuple[tuple[Difference, Plan | None], ...]
    claims: tuple[tuple[Difference, Plan | None], ...]

    @property
    def plans(self) -> Iterator[Plan]:
        """Yield what costs of new, base, base with each change alone, and new with each old claim alone."""
        yield cost_relevant(self.new.plan)
        yield cost_relevant(self.old.plan)
        yield from (plan for _, plan in (*self.steps, *self.claims) if plan is not None)


def config_pair(name: str, old: Loaded, new: Loaded) -> ConfigPair:
    """Return the pair of a config and its base, with the plans that single differences lead to.

    Differences in accounting and budget are left out.
    """
    changes = [change for change in differences(old, new) if change.keys[0] not in {"accounting", "budget"}]
    steps = tuple(_single_changes(old, new, changes))
    claims = tuple(_claims_taken_back(old, new, [change for change in changes if change.is_claim]))
    return ConfigPair(name=name, old=old, new=new, steps=steps, claims=claims)


def _single_changes(
    old: Loaded, new: Loaded, changes: Sequence[Difference]
) -> Iterator[tuple[Difference, Plan | None]]:
    """Yield each change that can matter, with the base's plan after it alone; None if invalid or over 32 changes."""
    # Labels, comments and other spellings differ without an effect on epsilon.
    unchanged = cost_relevant(old.plan)
    for change in changes:
        plan = _plan_with_change(old, new, change) if len(changes) <= MAX_CAUSES else None
        if plan != unchanged:
            yield change, plan


def base_costs(pair: ConfigPair, costs: Costs) -> BaseCost:
    """Return epsilon of the base, of each change alone (largest first), and of the config without each claim."""
    changes = [
        Change(
            key=difference.key,
            old=difference.old,
            new=difference.new,
            mark=difference.mark,
            elsewhere=_other_file(difference, pair.new),
            alone=_epsilon_or_none(plan, costs),
        )
        for difference, plan in pair.steps
    ]
    # A change without an epsilon of its own comes last: nothing shows that it cost anything.
    changes.sort(key=lambda change: -1.0 if change.alone is None else change.alone, reverse=True)
    without = {difference.key: _epsilon_or_none(plan, costs) for difference, plan in pair.claims}
    return BaseCost(name=pair.name, guarantee=costs.guarantee(pair.old.plan), changes=tuple(changes), without=without)


def comparison_result(pair: ConfigPair, costs: Costs) -> Result:
    """Return the result of `dpcalc diff`: failed if a regression is an error, as every rise is, else passed."""
    base, now = base_costs(pair, costs), costs.guarantee(pair.new.plan)
    problems = tuple(regressions(pair, base, now, IncreaseRule(severity=Severity.ERROR)))
    failed = any(problem.severity is Severity.ERROR for problem in problems)
    return Result(
        path=pair.new.path,
        verdict=Verdict.FAILED if failed else Verdict.PASSED,
        guarantee=now,
        problems=problems,
        diagnostics=pair.new.diagnostics,
        base=base,
    )


@dataclass(frozen=True, kw_only=True)
class IncreaseRule:
    """Rule by which an increase of epsilon is judged.

    Attributes:
        severity: of an increase that nothing agreed allows.
        allowed: the largest increase in percent, or None.
        is_agreed: whether an increase up to `allowed` is only a note: whether more than the change itself allows it.
        allow_budget_change: whether a higher budget and a weaker promise are only notes.
    """

    severity: Severity
    allowed: Limit | None = None
    is_agreed: bool = False
    allow_budget_change: bool = False


def regressions(pair: ConfigPair, base: BaseCost, now: Guarantee, rule: IncreaseRule) -> Iterator[Problem]:
    """Yield each way in which a config promises less or costs more than its base.

    Raised limits, weaker promises and moved sources are notes if budget changes are allowed.
    """
    for problem in (*raised_limits(pair.old, pair.new), *_weakened_promises(pair.old, pair.new), *_moved_sources(pair)):
        yield replace(problem, severity=Severity.NOTE) if rule.allow_budget_change else problem
    yield from _changed_claims(pair, base, now)
    yield from _increase(base, now, rule)


def _increase(base: BaseCost, now: Guarantee, rule: IncreaseRule) -> Iterator[Problem]:
    """Yield the problem of a rise of epsilon by more than 1e-6 (relative), at the place of the costliest change."""
    if now.epsilon > base.guarantee.epsilon * (1 + SAME):
        yield at_costliest_change(_increase_problem(base.guarantee.epsilon, now.epsilon, rule), base)


def _increase_problem(before: float, now: float, rule: IncreaseRule) -> Problem:
    """Return DPC402 for a rise of epsilon above the allowed one, else DPC401: a note if a rule allows the rise."""
    numbers = {"before": before, "now": now}
    if rule.allowed is None:
        return Problem(code="DPC401", severity=rule.severity, numbers=numbers)
    if now > before * (1 + rule.allowed.value / 100) * (1 + SAME):
        numbers["allowed_pct"] = rule.allowed.value
        return Problem(code="DPC402", severity=Severity.ERROR, detail=rule.allowed.source, numbers=numbers)
    return Problem(code="DPC401", severity=Severity.NOTE if rule.is_agreed else rule.severity, numbers=numbers)


def at_costliest_change(problem: Problem, base: BaseCost | None) -> Problem:
    """Return the problem at the place of the costliest change; unchanged if no change has a place."""
    changes = () if base is None else base.changes
    cause = next((change for change in changes if change.mark is not None), None)
    return problem if cause is None else replace(problem, mark=cause.mark, elsewhere=cause.elsewhere)


def raised_limits(old: Loaded, new: Loaded) -> Iterator[Problem]:
    """Yield DPC303 for each limit in the base's budget that the config raises or removes, and for an added rise.

    An added `max_increase_pct` is a warning: without one every rise is, and with it later ones are notes.
    """
    was, now = old.plan.budget, new.plan.budget
    for key in ("epsilon", "max_increase_pct"):
        before, after = (None if budget is None else getattr(budget, key) for budget in (was, now))
        mark = new.mark(f"budget.{key}") or new.mark("budget")
        # A removed limit allows everything.
        allowed = math.inf if after is None else after
        if before is not None and not allowed <= before:
            numbers = {"before": before, "now": allowed}
            yield Problem(code="DPC303", severity=Severity.ERROR, mark=mark, detail=f"budget.{key}", numbers=numbers)
        elif before is None and after and key == "max_increase_pct":
            numbers = {"now": allowed}
            yield Problem(code="DPC303", severity=Severity.WARNING, mark=mark, detail=f"budget.{key}", numbers=numbers)


def _weakened_promises(old: Loaded, new: Loaded) -> Iterator[Problem]:
    """Yield DPC404 for each weaker promise: a finer, other or emptier unit, weaker adjacency, larger delta or group."""
    was, now = old.plan, new.plan
    before, after = _unit_path(was), _unit_path(now)
    # A guarantee for a unit covers all units inside it.
    covers_old_unit = len(after) <= len(before) and before[: len(after)] == after
    promises = {
        "unit": ("/".join(before), "/".join(after), not covers_old_unit),
        "adjacency": (was.adjacency, now.adjacency, _STRENGTH.index(now.adjacency) < _STRENGTH.index(was.adjacency)),
        "delta": (repr(was.delta), repr(now.delta), now.delta > was.delta),
        "group_size": (str(was.group_size), str(now.group_size), now.group_size < was.group_size),
    }
    for key, (before_text, after_text, is_weaker) in promises.items():
        if is_weaker:
            mark = new.mark(f"privacy.{key}") or new.mark("privacy")
            detail = f"less is promised: privacy.{key} {before_text} -> {after_text}"
            yield Problem(code="DPC404", severity=Severity.ERROR, mark=mark, detail=detail)
    if covers_old_unit:
        yield from _smaller_units(was, now, new)


def _smaller_units(was: Plan, now: Plan, new: Loaded) -> Iterator[Problem]:
    """Yield DPC404 for each level of which a protected unit holds less than before, or none, whatever epsilon does.

    A new name for smaller units would keep the word of the promise and not its meaning. A level that is gone is an
    error, and so are more units that hold fewer each at most, since a data set that grows does not split its units.
    Fewer at least (a new unit may be small) or fewer at most in no more units (contributions are bounded): a warning.
    """
    unit, depth = now.unit_name, now.unit
    (units_before, before), (units_now, after) = (
        _contents(plan.phases[0].hierarchy.levels, depth) for plan in (was, now)
    )
    mark = new.mark("data.levels") or new.mark("data.tree") or new.mark("data")
    for name, (least, most) in before.items():
        less_now, most_now = after.get(name, (0, 0))
        if less_now < least or most_now < most:
            is_split = name not in after or (most_now < most and units_now > units_before)
            counts = " -> ".join(
                f"{low}" if low == high else f"{low} to {high}" for low, high in ((least, most), (less_now, most_now))
            )
            yield Problem(
                code="DPC404",
                severity=Severity.ERROR if is_split else Severity.WARNING,
                mark=mark,
                detail=f"less is promised: {name} in each {unit} {counts}",
            )


def _contents(levels: Sequence[Level], depth: int) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the number of units at a depth and, by level, the fewest and most units of it inside one of them."""
    contents, least, most = {}, 1, 1
    for level in levels[depth:]:
        least, most = least * level.min_count, most * level.count
        contents[level.name] = (least, most)
    return math.prod(level.count for level in levels[:depth]), contents


def _moved_sources(pair: ConfigPair) -> Iterator[Problem]:
    """Yield DPC408 for each source that moved since the base revision; nothing if the base is another file."""
    if pair.old.path != pair.name:  # two files have sections and references of their own
        yield from _moved_section(pair)
        yield from _moved_references(pair)


def _moved_section(pair: ConfigPair) -> Iterator[Problem]:
    """Yield DPC408 if the config is another section of its file than in the base, or no longer all of it."""
    before, after = pair.old.section, pair.new.section
    if before != after:
        was, now = (f"section `{section}`" if section else "the whole file" for section in (before, after))
        detail = f"the config was {was} and is now {now}"
        yield Problem(code="DPC408", severity=Severity.ERROR, detail=detail, hint=RESTORE)


def _moved_references(pair: ConfigPair) -> Iterator[Problem]:
    """Yield DPC408 for each reference of the base that now leads elsewhere, is a stated value, or is gone."""
    # The training code may still read the old place.
    old, sources = (
        source_names(loaded, loaded.files.top if isinstance(loaded.files, Folder) else None)
        for loaded in (pair.old, pair.new)
    )
    for key, source in old.items():
        if sources.get(key) != source:
            mark = pair.new.mark(key)
            now = f"read from `{sources[key]}`" if key in sources else "stated here" if mark else "gone"
            detail = f"{key} was read from `{source}` and is now {now}"
            yield Problem(code="DPC408", severity=Severity.ERROR, mark=mark, detail=detail, hint=RESTORE)


def source_names(loaded: Loaded, folder: Path | None) -> dict[str, str]:
    """Return the source of each referenced value by dotted key: "FILE:KEY", or "KEY" in the config's own file."""
    files = {place for place, _ in loaded.sources.values() if place}
    names = {file: file if folder is None else Path(os.path.relpath(file, folder)).as_posix() for file in files}
    return {key: f"{names[file]}:{path}" if file else path for key, (file, path) in loaded.sources.items()}


def _unit_path(plan: Plan) -> tuple[str, ...]:
    """Return the names of the levels from the outermost down to the protected one."""
    return tuple(level.name for level in plan.phases[0].hierarchy.levels[: plan.unit])


def _changed_claims(pair: ConfigPair, base: BaseCost, now: Guarantee) -> Iterator[Problem]:
    """Yield the warning DPC405, with the epsilons, for each changed claim that lowers epsilon or may do so."""
    # No file shows that such a claim is true.
    for difference, _ in pair.claims:
        numbers = _claim_effect(difference.key, base, now)
        if numbers is not None:
            yield Problem(
                code="DPC405",
                severity=Severity.WARNING,
                mark=difference.mark,
                elsewhere=_other_file(difference, pair.new),
                detail=f"{difference.key}: {difference.old or NOT_SET} -> {difference.new or NOT_SET}",
                numbers=numbers,
            )


def _claim_effect(key: str, base: BaseCost, now: Guarantee) -> dict[str, float] | None:
    """Return epsilon before and after a claim that lowers it, alone or not; {} if unknown, None if it does not."""
    # A claim that alone does not lower epsilon may still help together with other changes: then taking it back alone
    # makes the new config costlier. `alone`, the third number, tells the two cases apart.
    before = base.guarantee.epsilon
    alone = {change.key: change.alone for change in base.changes}.get(key, before)  # no change: nothing alone
    without = base.without[key]
    if alone is not None and alone < before:
        return {"before": before, "now": alone}
    if alone is None or without is None:
        return {}
    return {"before": without, "now": now.epsilon, "alone": alone} if without > now.epsilon * (1 + SAME) else None


def _other_file(difference: Difference, new: Loaded) -> str:
    """Return the file of a difference as a report names it; "" for the config itself or without a place."""
    # Reports name files as the user does, from here; absolute paths would differ from machine to machine.
    if difference.mark is None or difference.path == new.path:
        return ""
    path, folder = Path(difference.path), Path.cwd().resolve()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else difference.path


def _claims_taken_back(
    old: Loaded, new: Loaded, claims: Sequence[Difference]
) -> Iterator[tuple[Difference, Plan | None]]:
    """Yield each changed claim and the new plan with its old value; None if invalid or over 32 claims changed."""
    # A claim may help only together with other changes; taking it back alone shows its effect.
    # The differences are taken the other way round, so that one of them applied to the new config takes a claim back.
    reversed_changes = (
        {difference.keys: difference for difference in differences(new, old)} if 0 < len(claims) <= MAX_CAUSES else {}
    )
    for claim in claims:
        taken_back = reversed_changes.get(claim.keys)
        yield claim, None if taken_back is None else _plan_with_change(new, old, taken_back)


def _plan_with_change(old: Loaded, new: Loaded, difference: Difference) -> Plan | None:
    """Return the old config's plan after one difference of the new one; None if that is no valid config."""
    try:
        return cost_relevant(with_difference(old, new, difference))
    except ConfigError:
        return None


def _epsilon_or_none(plan: Plan | None, costs: Costs) -> float | None:
    """Return the upper bound on a plan's epsilon; None for no plan, or if computing it raises anything."""
    try:
        return None if plan is None else costs.guarantee(plan).epsilon
    except Exception:  # noqa: BLE001
        return None


# Configs as they are read, each with its base


@dataclass(frozen=True, kw_only=True)
class ConfigReader:
    """Reader of config files: the section that is the config, the overrides of the command line, the base revision.

    Attributes:
        key: dotted path of the section that is the config, or "".
        overrides: changes of the command line, made in every file and in its base.
        base: git revision to compare with, or "".
    """

    key: str = ""
    overrides: Overrides = NO_OVERRIDES
    base: str = ""

    def load(self, path: str) -> Loaded:
        """Return the config in a file, "-" for standard input; raise ConfigError if it cannot be used."""
        return self.open(path).accepted()

    def open(self, path: str) -> Loaded:
        """Return the config in a file like `load`, but accept a batch size that no bound covers."""
        return load(path, key=self.key, overrides=self.overrides)


PLAIN_READER = ConfigReader()
"""Reads files unchanged and without a base."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One config file with its base, or the reason why it cannot be judged.

    Attributes:
        path: as the user named it.
        new: the config, or None if it cannot be used.
        pair: the config with its base, or None.
        problems: why a config has no base although one was named.
        error: why there is no config, or None.
    """

    path: str
    new: Loaded | None = None
    pair: ConfigPair | None = None
    problems: tuple[Problem, ...] = ()
    error: Exception | None = None

    @property
    def reason(self) -> Exception:
        """Return the exception that stands in the place of the config; a LookupError if none was stored."""
        return self.error or LookupError("expected a config or a reason, got neither")

    @property
    def plans(self) -> Iterator[Plan]:
        """Yield the plans of the pair or, without a pair, that of the config; nothing if there is no config."""
        if self.pair is not None:
            yield from self.pair.plans
        elif self.new is not None:
            yield cost_relevant(self.new.plan)


def cases(paths: Iterable[str], reader: ConfigReader) -> tuple[Case, ...]:
    """Return a Case for each path, in order: the config with its base, or its error."""
    find = cache(partial(find_revision, reader.base))  # once for each folder, so that all files see the same commit
    return tuple(_case(path, reader, find) for path in paths)


def two_files(old: str, new: str, reader: ConfigReader) -> Case:
    """Return the Case of `new` with `old` as its base; if either cannot be read, a Case with the error of that file."""
    try:
        before = reader.load(old)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer on that file
        return Case(path=old, error=error)
    (case,) = cases([new], replace(reader, base=""))
    if case.new is None:
        return case
    return Case(path=new, new=case.new, pair=config_pair(old, before, case.new))


def _case(path: str, reader: ConfigReader, find: Callable[[Path], Revision]) -> Case:
    """Return the Case of one file, with its base; any exception but UnknownRevisionError becomes its error."""
    try:
        new = reader.load(path)
        if not reader.base:
            return Case(path=path, new=new)
        return _case_with_base(path, new, reader, find)
    except UnknownRevisionError:  # one error for all files
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return Case(path=path, error=error)


def _case_with_base(path: str, new: Loaded, reader: ConfigReader, find: Callable[[Path], Revision]) -> Case:
    """Return the Case with its base or with DPC406, an error if the base is unreadable, a note if it is absent."""
    if path == "-":
        raise InputError("--base: expected files that git knows, got standard input; name the file")
    revision = find(Path(path).absolute().parent)
    try:
        old = load_old(path, revision, reader)
    except (ConfigError, Refusal) as cause:
        # An error: the base has a config there, and a change that makes it incomparable would pass with a warning.
        first = cause.diagnostics[0].message if isinstance(cause, ConfigError) else cause.message
        return _case_without_base(path, new, f"cannot be read in {revision.name}: {first}", Severity.ERROR)
    if old is None:
        _refuse_inner_repository(path, revision)
        return _case_without_base(path, new, f"is not in {revision.name}", Severity.NOTE)
    return Case(path=path, new=new, pair=config_pair(revision.name, old, new))


def _case_without_base(path: str, new: Loaded, reason: str, severity: Severity) -> Case:
    """Return the Case of a config with the problem DPC406 "nothing to compare with: it <reason>"."""
    detail = f"nothing to compare with: it {visible(reason)}"
    return Case(path=path, new=new, problems=(Problem(code="DPC406", severity=severity, detail=detail),))


def load_old(path: str, revision: Revision, reader: ConfigReader) -> Loaded | None:
    """Return a config and its references as of a revision, by its old name if renamed; None if it is not there."""
    place = revision.base_name(revision.path_from_top(path))
    try:
        data = revision.content(place, limit=MAX_BYTES)
    except Refusal:
        # A new file below what was a submodule or a link is new; what stands there itself is a base.
        if revision.names_file(place):
            raise
        data = None
    if data is None:
        if revision.names_file(place):
            raise Refusal("DPC110", "is a symbolic link that leads nowhere", "")
        return None
    name = f"{revision.name}:{place}"
    return load_text(
        decode(data, name).text,
        path=name,
        key=reader.key,
        overrides=reader.overrides,
        files=Snapshot(revision=revision, folder=revision.follow_links(posixpath.dirname(place))),
    )


def _refuse_inner_repository(path: str, revision: Revision) -> None:
    """Raise InputError if the nearest git repository around a file is not that of the revision."""
    # Only the inner repository, for example a submodule, knows earlier versions of that file.
    nearest = git_root(real_path(Path(os.path.abspath(path))).parent)
    if nearest is not None and nearest != real_path(revision.root):
        place = visible(revision.path_from_top(str(nearest)))
        expectation = f"expected a file of this repository, got one of another repository in it ({place})"
        raise InputError(f"--base: {expectation}; check it there, or without --base")
