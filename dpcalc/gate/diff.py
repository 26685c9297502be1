"""A config beside its base: both read, their epsilons and promises compared, the effect of each change."""

import math
import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from dpcalc.config.difference import Difference, differences, with_difference
from dpcalc.config.discovery import PYPROJECT, map_of, mapped_by, maps_table
from dpcalc.config.files import Folder, Refusal
from dpcalc.config.load import NO_OVERRIDES, Loaded, load, load_text, mapped_document
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Severity, decode, git_root, real_path, visible
from dpcalc.errors import InputError
from dpcalc.gate.costs import Costs, cost_relevant
from dpcalc.gate.revision import Revision, Snapshot, UnknownRevisionError, find_revision
from dpcalc.gate.verdict import BaseCost, Limit, finding
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.report.rounding import as_given, before_and_after, percent_up

SAME = 1e-6  # relative increase that counts as none: another grid for the same losses moves a bound by less
RESTORE = "restore it, or have the change agreed on and pass --allow-budget-change"
"""Hint where less is checked than in the base."""
MAX_CAUSES = 32  # differences that get an epsilon of their own; with more, none: each costs an evaluation
# Adjacencies from the weakest promise to the strongest.
_STRENGTH = (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One config file as the user named it, with its base or why it has none; an error if it cannot be used.

    A step is a change, with the plan of the base with this change alone; a claim is one about the data, with the new
    plan and the old claim. The plan is None if that is no valid config.
    """

    path: str
    new: Loaded | None = None
    base: str = ""  # name of a revision or file
    old: Loaded | None = None
    steps: tuple[tuple[Difference, Plan | None], ...] = ()
    claims: tuple[tuple[Difference, Plan | None], ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    error: Exception = LookupError("expected a config or a reason, got neither")

    @property
    def plans(self) -> Iterator[Plan]:
        """Yield what costs of new, base, base with each change alone, and new with each old claim alone."""
        yield from (cost_relevant(loaded.plan) for loaded in (self.new, self.old) if loaded is not None)
        yield from (plan for _, plan in (*self.steps, *self.claims) if plan is not None)


def compared(base: str, old: Loaded, new: Loaded, path: str) -> Case:
    """Return a config with its base, and the plans of single differences but of accounting and budget."""

    def with_change(before: Loaded, after: Loaded, difference: Difference) -> Plan | None:
        try:
            return cost_relevant(with_difference(before, after, difference))
        except ConfigError:
            return None

    changes, here = [], Path.cwd().resolve()
    for change in differences(old, new):
        if change.keys[0] not in {"accounting", "budget"}:
            # Reports name files as the user does, from here; absolute paths would differ from machine to machine.
            file = Path(change.path)
            shown = str(file.relative_to(here)) if file.is_relative_to(here) else change.path
            is_elsewhere = change.mark is not None and change.path != new.path
            changes.append(replace(change, path=shown if is_elsewhere else new.path))
    plans = ((each, with_change(old, new, each) if len(changes) <= MAX_CAUSES else None) for each in changes)
    # Labels, comments and other spellings differ without an effect on epsilon.
    unchanged = cost_relevant(old.plan)
    steps = tuple((change, plan) for change, plan in plans if plan != unchanged)
    # A claim may help only together with other changes; taking it back alone shows its effect. The differences are
    # taken the other way round, so that one of them applied to the new config takes a claim back.
    changed_claims, claims = [change for change in changes if change.is_claim], []
    back = {each.keys: each for each in differences(new, old)} if 0 < len(changed_claims) <= MAX_CAUSES else {}
    for claim in changed_claims:
        taken_back = back.get(claim.keys)
        claims.append((claim, None if taken_back is None else with_change(new, old, taken_back)))
    return Case(path=path, new=new, base=base, old=old, steps=steps, claims=tuple(claims))


def base_costs(case: Case, costs: Costs) -> BaseCost | None:
    """Return epsilon of the base, of each change alone (largest first), and of the config without each claim."""

    def epsilon_or_none(plan: Plan | None) -> float | None:
        try:
            return None if plan is None else costs.guarantee(plan).epsilon
        except Exception:  # noqa: BLE001
            return None

    if case.old is None:
        return None
    changes = [(change, epsilon_or_none(plan)) for change, plan in case.steps]
    # A change without an epsilon of its own comes last: nothing shows that it cost anything.
    changes.sort(key=lambda pair: -1.0 if pair[1] is None else pair[1], reverse=True)
    return BaseCost(
        name=case.base,
        guarantee=costs.guarantee(case.old.plan),
        changes=tuple(changes),
        claims=tuple((claim, epsilon_or_none(plan)) for claim, plan in case.claims),
    )


def at_costliest_change(problem: Diagnostic, base: BaseCost | None) -> Diagnostic:
    """Return the problem at the place of the costliest change; unchanged if no change has a place."""
    for change, _ in () if base is None else base.changes:
        if change.mark is not None:
            line, column = change.mark
            return replace(problem, path=change.path, line=line, column=column)
    return problem


def regressions(
    old: Loaded,
    new: Loaded,
    base: BaseCost,
    now: Guarantee,
    *,
    severity: Severity,
    allowed: Limit | None = None,
    is_agreed: bool = False,
    allow_budget_change: bool = False,
) -> Iterator[Diagnostic]:
    """Yield each way in which a config promises less or costs more than its base.

    A rise of epsilon that nothing agreed allows has the `severity`; `is_agreed` says that more than the change itself
    allows one up to `allowed` percent, which is a note then. Raised limits, weaker promises and moved sources are notes
    if budget changes are allowed.
    """
    before, after = base.guarantee.epsilon, now.epsilon
    weaker = [*raised_limits(old, new), *_weaker_promises(old, new)]
    if old.path != base.name:  # two files have sections and references of their own
        weaker += _moved_sources(old, new)
    yield from (replace(each, severity=Severity.NOTE) if allow_budget_change else each for each in weaker)

    # Changed claims that lower epsilon or may do so: no file shows that they are true.
    alone_by_key = {change.key: alone for change, alone in base.changes}
    for claim, without in base.claims:
        alone = alone_by_key.get(claim.key, before)  # no change: nothing alone
        # A claim that alone does not lower epsilon may still help together with other changes: then taking it back
        # alone makes the new config costlier.
        if alone is not None and alone < before:
            effect = f"alone lowers epsilon, {before_and_after(before, alone)}"
        elif alone is None or without is None:
            effect = "changes an assumption, and what it does alone is not known"
        elif without > after * (1 + SAME):
            effect = f"with the other changes lowers epsilon, {before_and_after(without, after)}"
        else:
            continue
        message = f"{claim} {effect}; make sure that the training code changed with it"
        yield finding("DPC405", Severity.WARNING, message, claim.path, claim.mark)

    if after > before * (1 + SAME):
        rise, cause = before_and_after(before, after), ""
        largest, alone = base.changes[0] if base.changes else (None, None)  # the largest epsilon first
        if (alone or 0.0) > before:
            cause = f" ({largest})"
        if allowed is not None and after > before * (1 + allowed.value / 100) * (1 + SAME):
            percent = f" by {percent_up(after - before, before)}%" if before and math.isfinite(after) else ""
            excess = f"epsilon rises{percent}, {rise}; {allowed.source} allows {as_given(allowed.value)}{cause}"
            problem = finding("DPC402", Severity.ERROR, excess, new.path)
        else:
            level = Severity.NOTE if allowed is not None and is_agreed else severity
            problem = finding("DPC401", level, f"epsilon rises, {rise}{cause}", new.path)
        yield at_costliest_change(problem, base)


def raised_limits(old: Loaded, new: Loaded) -> Iterator[Diagnostic]:
    """Yield DPC303 for each limit in the base's budget that the config raises or removes, and for an added rise.

    An added `max_increase_pct` is a warning: without one every rise is, and with it later ones are notes.
    """
    for key in ("epsilon", "max_increase_pct"):
        before, after = (getattr(plan.budget, key, None) for plan in (old.plan, new.plan))
        # A removed limit allows everything.
        allowed = math.inf if after is None else after
        if before is not None and not allowed <= before:
            severity, was = Severity.ERROR, as_given(before)
        elif before is None and after and key == "max_increase_pct":
            severity, was = Severity.WARNING, "not set"
        else:
            continue
        now = f"is now {as_given(allowed)}" if math.isfinite(allowed) else "is gone"
        mark = new.mark(f"budget.{key}") or new.mark("budget")
        yield finding("DPC303", severity, f"budget.{key} was {was} and {now}", new.path, mark)


def _weaker_promises(old: Loaded, new: Loaded) -> Iterator[Diagnostic]:
    """Yield DPC404 for each weaker promise: a finer, other or emptier unit, weaker adjacency, larger delta or group."""
    was, now = old.plan, new.plan
    old_levels, new_levels = (plan.phases[0].hierarchy.levels for plan in (was, now))
    before = [level.name for level in old_levels[: was.unit]]
    after = [level.name for level in new_levels[: now.unit]]
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
            message = f"less is promised: privacy.{key} {before_text} -> {after_text}"
            yield finding("DPC404", Severity.ERROR, message, new.path, mark)
    if not covers_old_unit:
        return

    # A new name for smaller units would keep the word of the promise and not its meaning: of each level a protected
    # unit holds as many as before, whatever epsilon does. A level that is gone is an error, and so are more units that
    # hold fewer each at most, since a data set that grows does not split its units. Fewer at least (a new unit may be
    # small) or fewer at most in no more units (contributions are bounded): a warning.
    held, units = [], []
    for levels in (old_levels, new_levels):
        contents, least, most = {}, 1, 1  # by level the fewest and most units of it inside one protected unit
        for level in levels[now.unit :]:
            least, most = least * level.min_count, most * level.count
            contents[level.name] = (least, most)
        held.append(contents)
        units.append(math.prod(level.count for level in levels[: now.unit]))
    mark = new.mark("data.levels") or new.mark("data.tree") or new.mark("data")
    for name, (least, most) in held[0].items():
        less_now, most_now = held[1].get(name, (0, 0))
        if less_now < least or most_now < most:
            is_split = name not in held[1] or (most_now < most and units[1] > units[0])
            counts = " -> ".join(
                f"{low}" if low == high else f"{low} to {high}" for low, high in ((least, most), (less_now, most_now))
            )
            severity = Severity.ERROR if is_split else Severity.WARNING
            yield finding(
                "DPC404", severity, f"less is promised: {name} in each {now.unit_name} {counts}", new.path, mark
            )


def _moved_sources(old: Loaded, new: Loaded) -> Iterator[Diagnostic]:
    """Yield DPC408 for each source that moved since the base revision."""
    if old.section != new.section:
        was, now = (f"section `{section}`" if section else "the whole file" for section in (old.section, new.section))
        message = f"the config was {was} and is now {now}"
        yield finding("DPC408", Severity.ERROR, message, new.path, hint=RESTORE)
    # The training code may still read the old place.
    before, sources = (
        source_names(loaded, loaded.files.top if isinstance(loaded.files, Folder) else None) for loaded in (old, new)
    )
    for key, source in before.items():
        if sources.get(key) != source:
            mark = new.mark(key.partition(" (")[0])
            now = f"read from `{sources[key]}`" if key in sources else "stated here" if mark else "gone"
            message = f"{key} was read from `{source}` and is now {now}"
            yield finding("DPC408", Severity.ERROR, message, new.path, mark, RESTORE)


def source_names(loaded: Loaded, folder: Path | None) -> dict[str, str]:
    """Return the source of each referenced value by dotted key: "FILE:KEY", or "KEY" in the config's own file."""
    files = {place for place, _ in loaded.sources.values() if place}
    names = {file: file if folder is None else Path(os.path.relpath(file, folder)).as_posix() for file in files}
    return {key: f"{names[file]}:{path}" if file else path for key, (file, path) in loaded.sources.items()}


# Configs as they are read, each with its base


@dataclass(frozen=True, kw_only=True)
class ConfigReader:
    """Reader of config files: the section that is the config, the overrides of the command line, the base revision."""

    key: str = ""
    overrides: Overrides = NO_OVERRIDES
    base: str = ""
    against: str = ""  # another file, in the place of the base

    def load(self, path: str) -> Loaded:
        """Return the config in a file, "-" for standard input; raise ConfigError if it cannot be used."""
        return self.open(path).accepted()

    def open(self, path: str) -> Loaded:
        """Return the config in a file like `load`, but accept a batch size that no bound covers."""
        map_path = None
        if self.base and path != "-":
            # A change under review decides neither whether a file is judged by a map, nor by which.
            try:
                revision = find_revision(self.base, Path(path).absolute().parent)
                if name := old_map(revision, revision.base_name(revision.path_from_top(path))):
                    map_path = os.path.relpath(revision.root / name)
            except ConfigError:
                raise  # of the table of the base: what it says decides
            except Refusal as cause:
                problem = f"the maps of {PYPROJECT} cannot be read: {cause.message}"
                raise InputError(f"{visible(self.base)}: {problem}") from None
            except InputError:
                pass  # where the base is read, its error is told
        return load(path, key=self.key, overrides=self.overrides, map_path=map_path)


def old_map(revision: Revision, place: str) -> str:
    """Return the map that a revision has for one of its files, both from the top; "" if it has none."""
    folder = place
    while folder:
        folder = posixpath.dirname(folder)
        project = posixpath.join(folder, PYPROJECT)
        data = revision.content(project, limit=MAX_BYTES) if place != project else None
        if data is not None and b"maps" in data:
            shown = f"{revision.name}:{project}"
            name = mapped_by(maps_table(data, shown), posixpath.relpath(place, folder or "."), shown)
            if name:
                return posixpath.normpath(posixpath.join(folder, name))
    return ""


PLAIN_READER = ConfigReader()
"""Reads files unchanged and without a base."""


def cases(paths: Iterable[str], reader: ConfigReader) -> tuple[Case, ...]:
    """Return each config with its base, or its error, in order; DPC406 says that a base is absent or unreadable."""
    find = cache(partial(find_revision, reader.base))  # once for each folder, so that all files see the same commit

    def case_of(path: str) -> Case:
        if reader.against:
            try:
                before = reader.load(reader.against)
            except Exception as error:  # noqa: BLE001  it is the answer on that file
                return Case(path=reader.against, error=error)
            message = f"compared with {visible(reader.against)}: both are claims, of which git shows no origin"
            case = compared(reader.against, before, reader.load(path), path)
            return replace(case, problems=(finding("DPC410", Severity.NOTE, message, path),))
        new = reader.load(path)
        if not reader.base:
            return Case(path=path, new=new)
        if path == "-":
            raise InputError("--base: expected files that git knows, got standard input; name the file")
        revision = find(Path(path).absolute().parent)
        try:
            old = load_old(path, revision, reader)
        except (ConfigError, Refusal) as cause:
            # An error: the base has a config there, and a change that makes it incomparable would pass with a warning.
            first = cause.diagnostics[0].message if isinstance(cause, ConfigError) else cause.message
            severity = Severity.ERROR
            reason = f"cannot be read in {revision.name}: {first}"
        else:
            if old is not None:
                return compared(revision.name, old, new, path)
            # Only an inner repository, for example a submodule, knows earlier versions of its files.
            nearest = git_root(real_path(Path(os.path.abspath(path))).parent)
            if nearest is not None and nearest != real_path(revision.root):
                place = visible(revision.path_from_top(str(nearest)))
                expectation = f"expected a file of this repository, got one of another repository in it ({place})"
                raise InputError(f"--base: {expectation}; check it there, or without --base")
            severity, reason = Severity.NOTE, f"is not in {revision.name}"
        message = f"nothing to compare with: it {visible(reason)}"
        return Case(path=path, new=new, problems=(finding("DPC406", severity, message, new.path),))

    found = []
    for path in paths:
        try:
            found.append(case_of(path))
        except UnknownRevisionError:  # one error for all files
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            found.append(Case(path=path, error=error))
    return tuple(found)


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
    map_place = old_map(revision, place)
    if not map_place and (now := map_of(path)):  # new: what is compared is what it would have said
        map_place = revision.path_from_top(now)
        if not revision.names_file(map_place):
            return None
    if map_place:
        files = Snapshot(revision=revision, folder=revision.follow_links(posixpath.dirname(map_place)))
        text = files.content(map_place, limit=MAX_BYTES)
        shown = f"{revision.name}:{map_place}"
        mapped = mapped_document(name, posixpath.relpath(place, files.folder or "."), shown, files)
        source = decode(text, shown)
        loaded = load_text(
            source.text, path=shown, key=reader.key, overrides=reader.overrides, files=files, mapped=mapped
        )
        return replace(loaded, path=name)
    return load_text(
        decode(data, name).text,
        path=name,
        key=reader.key,
        overrides=reader.overrides,
        files=Snapshot(revision=revision, folder=revision.follow_links(posixpath.dirname(place))),
    )
