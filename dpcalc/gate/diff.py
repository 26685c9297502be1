"""A config beside its base, read from another revision without running anything that the repository names."""

import math
import os
import posixpath
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

from dpcalc.config.discovery import (
    PYPROJECT,
    is_pattern,
    map_of,
    mapped_by,
    maps_table,
    matches,
    project_table,
    split_usable,
)
from dpcalc.config.edit import Difference, differences, with_difference
from dpcalc.config.expand import Overrides
from dpcalc.config.files import Folder, Refusal, refuse_unusual_name
from dpcalc.config.load import NO_OVERRIDES, Loaded, load, load_text, mapped_document
from dpcalc.config.source import MAX_BYTES, ConfigError, Diagnostic, Severity, decode, git_root, real_path, visible
from dpcalc.errors import InputError
from dpcalc.gate.verdict import BaseCost, Limit, finding
from dpcalc.gate.workers import Costs, cost_relevant
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.report.output import as_given, before_and_after, percent_up

_GIT_SECONDS = 60.0  # for one call of git; a large repository takes a few
# A checkout from an archive brings its own `.git/config`. These settings and variables keep git from running anything
# that it names: no fsmonitor, no fetch of missing objects through a command of a promisor remote. Filters, hooks and
# textconv do not run, because no file of the working tree is read or written.
_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never")
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# All other variables of git are dropped: GIT_DIR, GIT_INDEX_FILE and the like name another repository than the files'.
_KEPT = ("GIT_CONFIG", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
_MAX_LINKS = 40  # on the way to one file, as many as Linux follows
_LINK = "120000"  # as git calls it
_PARTIAL = "clone without `--filter`: dpcalc fetches nothing"


class UnknownRevisionError(InputError):
    """The revision does not exist: the error holds for all files at once."""


class _Entry(NamedTuple):
    """An entry of a directory in a commit: a file or link (blob), a directory (tree) or a submodule (commit).

    `name` is the hash of its content; `size` of a blob in bytes, as a text, "BAD" where a partial clone lacks it.
    """

    mode: str
    kind: str
    name: str
    size: str


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit of a repository, by the name that the user gave, with the top directory of the working tree.

    A `place` is a path from the top.
    """

    name: str
    root: Path
    commit: str

    def path_from_top(self, path: str) -> str:
        """Return the path of a file of the working tree relative to the repository's top."""
        return Path(os.path.relpath(os.path.abspath(path), self.root)).as_posix()

    @cached_property
    def old_names(self) -> dict[str, str]:
        """Return, by present path, the path in this revision of each file that was renamed (30 % alike).

        The present is the index, not the working tree: to compare that, git would run filters that `.git/config` names.
        """
        options = ("--cached", "-r", "-z", "--name-status", "--find-renames=30%", "--diff-filter=R")
        plain = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        output = _git(self.root, "diff-index", *options, *plain, self.commit, "--").decode(errors="surrogateescape")
        fields = output.split("\0")
        # A rename is three fields: R with a score, the old path, the new path.
        return dict(zip(fields[2::3], fields[1::3], strict=False))

    def base_name(self, place: str) -> str:
        """Return the path in this revision of a present file: its old one if it was renamed.

        The name that a change chose decides nothing about what the base held: of a renamed file the old name counts,
        wherever folders and links of this revision lead at the new one. Both questions, whether a config of the base is
        still there and with what a config is compared, are answered by this name.
        """
        # What this revision has under the very name was changed, not renamed; git compares whole trees for the others.
        return place if self.names_file(place) else self.old_names.get(place, place)

    def content(self, place: str, *, limit: int) -> bytes | None:
        """Return the bytes of a file, links followed; None if nothing is there, Refusal if it cannot be read."""
        _, entry = self._followed(place)
        if entry is None:
            return None
        if entry.kind != "blob":
            raise Refusal("DPC110", "is no regular file of the repository", "")
        if entry.size == "BAD":
            shown = visible(f"{self.name}:{place}")
            raise InputError(f"--base: expected {shown} in this clone, got only its name; {_PARTIAL}")
        if int(entry.size) > limit:
            raise Refusal("DPC111", f"is larger than {limit // 1024} KiB", "")
        return _git(self.root, "cat-file", "blob", entry.name)

    def names_file(self, place: str) -> bool:
        """Return True if a path is that of a file, a link or a submodule, whether or not that can be read."""
        entry = _entry(self.root, self.commit, place)
        return entry is not None and entry.kind != "tree"

    def matching(self, folder: str, pattern: str) -> tuple[str, ...]:
        """Return the files that a name or pattern in `folder` matches, from the top; links are followed up to a `*`."""
        joined = posixpath.normpath(posixpath.join(folder, pattern))
        if posixpath.isabs(pattern) or joined.split("/")[0] == "..":
            return ()
        if not is_pattern(joined):
            return (joined,) if self.names_file(joined) or self.kind(joined) == "blob" else ()
        top, parts = split_usable(joined)
        files = (name for name, kind in self.listed(top, "-r") if kind == "blob")
        return tuple(sorted(posixpath.join(top, name) for name in files if matches(name.split("/"), parts)))

    def listed(self, folder: str, *options: str) -> Iterator[tuple[str, str]]:
        """Yield name and kind of each entry of a folder, links on the way to it followed; nothing if it is none."""
        if self.kind(folder) == "tree":
            place = self.follow_links(folder)
            tree = self.commit if place == "." else f"{self.commit}:{place}"
            listed = _git(self.root, "ls-tree", *options, "-z", "--full-tree", tree).decode(errors="surrogateescape")
            for about, _, name in (line.partition("\t") for line in filter(None, listed.split("\0"))):
                yield name, about.split(" ")[1]

    def kind(self, place: str) -> str:
        """Return "blob" or "tree" for what a path leads to, links followed; "" for nothing that can be read."""
        try:
            _, entry = self._followed(place)
        except Refusal:
            return ""
        return "" if entry is None or entry.kind == "commit" else entry.kind

    def follow_links(self, place: str) -> str:
        """Return a path with this revision's links followed; Refusal as for `content`."""
        return self._followed(place)[0]

    def _followed(self, place: str) -> tuple[str, _Entry | None]:
        """Return a path with links followed, and the entry there, None if there is none; Refusal as for `content`."""
        # Links are followed by hand, one at a time, to see each target before it leaves the repository.
        for _ in range(_MAX_LINKS):
            entry = _entry(self.root, self.commit, place)
            if entry is not None and entry.mode != _LINK:
                return place, entry
            parts = place.split("/")
            heads = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
            entries = ((head, _entry(self.root, self.commit, head)) for head in heads)
            # The first on the way that is no directory: a link, a submodule, a file, or nothing.
            head, entry = next(((head, entry) for head, entry in entries if entry is None or entry.kind != "tree"))
            if entry is not None and entry.kind == "commit":
                raise Refusal("DPC110", "lies in a submodule", "")
            if entry is None or entry.mode != _LINK:
                return place, None
            target = _git(self.root, "cat-file", "blob", entry.name).decode(errors="surrogateescape")
            place = posixpath.normpath(posixpath.join(posixpath.dirname(head), target) + place[len(head) :])
            if posixpath.isabs(place) or place == ".." or place.startswith("../"):
                raise Refusal("DPC110", "is a symbolic link that leaves the repository", "")
        raise Refusal("DPC110", "is a symbolic link that leads nowhere", "")


@cache  # a commit never changes
def _entry(root: Path, commit: str, place: str) -> _Entry | None:
    """Return git's entry at a path of a commit, links not followed; None if there is none."""
    if place in {"", "."}:
        return _Entry("040000", "tree", commit, "-")
    # A name of any characters, also with a line break: it follows `--`, and pathspecs are literal.
    output = _git(root, "ls-tree", "--full-tree", "-z", "-l", commit, "--", place)
    return _Entry(*output.split(b"\t")[0].decode().split()) if output else None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The directory of a config in a revision, as a path from the top: where its references lead."""

    revision: Revision
    folder: str

    @property
    def top(self) -> str:
        return ""

    def yaml_files(self, folder: str, *, limit: int) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the YAML files directly in a folder of the revision, without those over `limit`."""
        for name, _ in sorted(self.revision.listed(folder)):
            if name.lower().endswith((".yaml", ".yml")):
                try:
                    data = self.revision.content(posixpath.join(folder, name), limit=limit)
                except Refusal as cause:
                    if cause.code == "DPC111":
                        raise
                    continue
                if data is not None:
                    yield name, data

    def locate(self, name: str, holder: str) -> str:
        """Return the path, from the top, of a file that a config names; Refusal if it lies outside the repository."""
        refuse_unusual_name(name)
        base = posixpath.dirname(holder) if holder else self.folder
        # Resolved first: `a/../../x` leaves the repository as `../x` does.
        place = posixpath.normpath(posixpath.join(base, name))
        if place == ".." or place.startswith("../"):
            raise Refusal("DPC110", "lies outside the repository", "")
        return self.revision.follow_links(place)

    def content(self, place: str, *, limit: int) -> bytes:
        """Return the bytes of a file of the revision; raise Refusal if there is none, or more than `limit` bytes."""
        data = self.revision.content(place, limit=limit)
        if data is None:
            raise Refusal("DPC110", f"no such file in {visible(self.revision.name)}", "")
        return data


def find_revision(name: str, folder: Path) -> Revision:
    """Find a commit by name in the current directory's repository if it holds `folder`, else in that of `folder`.

    A change under review can put a repository of its own, a submodule, in the place of a folder, with a commit of the
    same name in it. So all files below the repository of the current directory are files of that one.
    """
    # A submodule in the place of a folder could bring a commit of the same name, with budgets of its own.
    root = outermost_same(folder, git_root(Path.cwd())) or git_root(folder)
    if root is None:
        raise InputError(f"--base: expected files in a git repository, got {visible(str(folder))}, which is in none")
    words = "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
    commit = _git(root, *words, may_be_silent=True)
    if not commit:  # git knows no such commit
        raise UnknownRevisionError(
            f"--base: expected a revision that git has here, got `{visible(name)}`; fetch it first "
            "(actions/checkout: `fetch-depth: 0`; GitLab: `GIT_DEPTH: 0`; else `git fetch`)"
        )
    found = Revision(name=name, root=root, commit=commit.decode().strip())
    # A change can put a link in the place of the folder in which dpcalc runs: what it leads to has no base.
    here = Path(os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(root))).as_posix()
    if here != "." and not here.startswith("..") and found.kind(here) != "tree":
        raise InputError(
            f"--base: expected a working directory that {visible(name)} has, got {visible(here)}; run dpcalc at the "
            "top of the repository"
        )
    return found


@cache
def tracked_files(root: Path) -> tuple[str, ...]:
    """Return the paths, from its top, of the files that a repository tracks; InputError if it has no git."""
    listed = _git(root, "ls-files", "-z", "--cached").decode(errors="surrogateescape")
    return tuple(filter(None, listed.split("\0")))


def outermost_same(folder: Path, root: Path | None) -> Path | None:
    """Return the outermost of a folder and its parents that is the same directory as `root`; None if none is."""
    if root is None:
        return None
    real = os.path.realpath(root)
    return next((each for each in (*reversed(folder.parents), folder) if os.path.realpath(each) == real), None)


def _git(root: Path, *words: str, may_be_silent: bool = False) -> bytes:
    """Return what git prints, without hooks and fetches; InputError with its complaint if it failed, or took over 60 s.

    Where it `may_be_silent`, a failure without a complaint is no output.
    """
    # A relative entry of PATH would run a `git` of the checkout.
    folders = (folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute())
    git = shutil.which("git", path=os.pathsep.join(folders))
    if git is None or not Path(git).is_absolute():
        raise InputError("--base: expected git to be installed, got no such command")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    try:
        ended = subprocess.run(  # noqa: S603  no shell, and what the user names stands behind --end-of-options
            (git, *_SETTINGS, "-C", str(root), *words),
            input=b"",
            capture_output=True,
            timeout=_GIT_SECONDS,
            env=kept | _VARIABLES,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"--base: expected git to answer within {_GIT_SECONDS:g} s; it did not") from None
    if ended.returncode == 0:
        return ended.stdout
    complaint = visible(" ".join(ended.stderr.decode(errors="replace").split())[:500])
    if may_be_silent and not complaint:
        return b""
    way_out = f"; {_PARTIAL}" if "promisor" in complaint else ""
    raise InputError(f"--base: git cannot do that: {complaint or f'exit code {ended.returncode}'}{way_out}")


# A config beside its base: both read, their epsilons and promises compared, the effect of each change.


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
            maps = maps_table(project_table(data, shown), shown)
            name = mapped_by(maps, posixpath.relpath(place, folder or "."), shown)
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
