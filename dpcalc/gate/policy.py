"""Policy of an organisation beside the budgets of configs, and scope of a gate: the configs that it judges."""

import math
import os
import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpcalc.config.discovery import (
    NAMES,
    PYPROJECT,
    dpcalc_table,
    every_pattern,
    folders_to_search,
    matching_names,
    project_table,
    relative_name,
)
from dpcalc.config.files import Refusal
from dpcalc.config.readers import parse_toml
from dpcalc.config.source import (
    MAX_BYTES,
    ConfigError,
    Severity,
    absolute,
    decode,
    git_root,
    read_bytes,
    visible,
    whole_file,
)
from dpcalc.errors import InputError
from dpcalc.gate.diff import RESTORE, find_revision, outermost_same
from dpcalc.gate.verdict import Limit, Result, Verdict, finding, worst_verdict
from dpcalc.records import dataclass

TABLE = "[tool.dpcalc.policy]"
MAX_PATTERNS = 100  # of files with other launches
_OURS = ("configs", "maps", "policy", "run")  # keys of [tool.dpcalc]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Requirements on every config; the default requires nothing.

    `warn_at_pct` is the percentage of the limit above which a warning is given; `strict`: a warning fails a file.
    `permits_increase`: an increase up to `max_increase_pct` needs no warning. A limit that the change under review
    states itself can only forbid. `other_launches`: patterns, from the top of the repository, of files that launch
    other runs than those of the configs.
    """

    max_epsilon: Limit | None = None
    max_increase_pct: Limit | None = None
    warn_at_pct: float | None = None
    require_budget: bool = False
    strict: bool = False
    permits_increase: bool = False
    other_launches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for a limit that is negative or not finite."""
        for limit in filter(None, (self.max_epsilon, self.max_increase_pct)):
            if not 0 <= limit.value < math.inf:
                raise InputError(f"{limit.source}: expected a finite number >= 0, got {limit.value!r}")

    def combined_with(self, other: "Policy") -> "Policy":
        """Return the policy that demands all that either policy does: the smaller limits, any flag, all patterns."""
        # A lower share warns earlier, and so is the stricter one.
        shares = [share for share in (self.warn_at_pct, other.warn_at_pct) if share is not None]
        return Policy(
            max_epsilon=strictest_limit((self.max_epsilon, other.max_epsilon)),
            max_increase_pct=strictest_limit((self.max_increase_pct, other.max_increase_pct)),
            warn_at_pct=min(shares, default=None),
            require_budget=self.require_budget or other.require_budget,
            strict=self.strict or other.strict,
            permits_increase=self.permits_increase or other.permits_increase,
            other_launches=(*self.other_launches, *other.other_launches),
        )


NO_POLICY = Policy()
"""The policy that requires nothing."""


def strictest_limit(limits: Iterable[Limit | None]) -> Limit | None:
    """Return the smallest limit, the first of equal ones; None of no limits. NaN counts as smaller than all."""
    stated = [limit for limit in limits if limit is not None]
    return min(stated, key=lambda limit: -math.inf if math.isnan(limit.value) else limit.value, default=None)


def effective_policy(named: str | None, folder: Path, base: str) -> Policy:
    """Return a policy as strict as the present one and as that at the base; InputError if either is unreadable."""
    # The nearest file that has a policy counts, not the nearest pyproject.toml: a package in a monorepo may have none.
    places = [named] if named is not None else [str(folder / PYPROJECT) for folder in folders_to_search(folder)]
    found = (parse_policy(read_bytes(place), place) for place in places if named is not None or Path(place).is_file())
    present = next(filter(None, found), None)
    if present is None and named is not None:
        raise InputError(f"{visible(named)}: expected a table {TABLE}, got none")
    present = present or NO_POLICY
    if not base:
        return present
    # A policy that lies outside the repository that is judged, of the current directory if it is in one, is in no
    # change.
    top = git_root(Path.cwd())
    parents = [Path(absolute(place)).parent for place in places]
    if all((git_root(parent) if top is None else outermost_same(parent, top)) is None for parent in parents):
        return replace(present, permits_increase=present.max_increase_pct is not None)
    # The policy of the base counts as well: a change under review cannot loosen the policy that judges it.
    old = NO_POLICY
    for place, parent in zip(places, parents, strict=True):
        revision = find_revision(base, parent)
        name = revision.path_from_top(place)
        try:
            data = revision.content(name, limit=MAX_BYTES)
            stated = None if data is None else parse_policy(data, place)
        except (InputError, Refusal) as cause:
            reason = cause.message if isinstance(cause, Refusal) else str(cause)
            way_out = "repair it there first, or name a policy outside the repository with --policy"
            raise InputError(f"{visible(f'{base}:{name}')}: the policy cannot be read: {reason}; {way_out}") from None
        if stated is not None:
            old = stated
            break
    # A file is left out of the search for launches only if both leave it out.
    both = tuple(pattern for pattern in present.other_launches if pattern in old.other_launches)
    old = replace(old, permits_increase=old.max_increase_pct is not None, other_launches=())
    return replace(present, other_launches=both).combined_with(old)


def parse_policy(data: bytes, path: str) -> Policy | None:
    """Return the policy in a TOML file, its table [tool.dpcalc.policy] or the whole file; InputError if it is wrong.

    A pyproject.toml without the table has none.
    """
    shown = visible(path)
    try:
        content = parse_toml(decode(data, path, shows_lines=False))
    except InputError:
        raise  # it is a ValueError too
    except Refusal as cause:
        raise InputError(f"{shown}: {cause.message}; {cause.hint}") from None
    except (ValueError, RecursionError) as cause:
        raise InputError(f"{shown}: expected TOML, got what cannot be read: {visible(str(cause))}") from None

    def refuse_unknown(table: Iterable[str], known: Collection[str], title: str) -> None:
        for key in table:
            if key not in known:
                expected = f"expected keys of {title} ({', '.join(known)})"
                raise InputError(f"{shown}: {expected}, got `{visible(key)}`")

    ours = dpcalc_table(content)
    refuse_unknown(ours, _OURS, "[tool.dpcalc]")
    table = ours.get("policy")
    if table is None:
        if Path(path).name == PYPROJECT:
            return None
        table = content
    if not isinstance(table, dict):
        raise InputError(f"{shown}: expected a table {TABLE}, got a value")
    refuse_unknown(table, _KEYS, "a policy")
    name = visible(Path(path).name)
    fields: dict[str, Any] = {key: _value(key, value, f"{key} of {name}") for key, value in table.items()}
    return Policy(**fields)


_KEYS = ("max_epsilon", "max_increase_pct", "warn_at_pct", "require_budget", "strict", "other_launches")


def _value(key: str, value: object, where: str) -> Limit | float | bool | tuple[str, ...]:
    """Return the value of a key of a policy: a Boolean, patterns, or a number >= 0, also from text such as "3"."""
    try:
        shown = visible(str(value))[:60]
    except ValueError:  # Python writes no whole number of over 4,300 digits out
        shown = "a number of many digits"
    if key in {"require_budget", "strict"}:
        if not isinstance(value, bool):
            raise InputError(f"{where}: expected true or false, got {shown}")
        return value
    if key == "other_launches":
        if not isinstance(value, list) or len(value) > MAX_PATTERNS or not all(isinstance(each, str) for each in value):
            raise InputError(f"{where}: expected a list of at most {MAX_PATTERNS} patterns of files, got {shown}")
        return tuple(value)
    try:
        # `true` is 1 to Python; a limit of 1 was not meant by whoever wrote it.
        number = math.nan if isinstance(value, bool | list | dict | None) else float(str(value))
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(f"{where}: expected a finite number >= 0, got {shown}")
    return number if key == "warn_at_pct" else Limit(value=number, source=where)


# Scope of a gate: the configs that a search or a pattern finds now, and those that it finds at the base.
#
# A change under review does not decide by which budget or policy it is judged, and it does not decide which configs are
# judged: a config that the base finds is judged if it is still there, and its absence from the search is a finding.


Loss = tuple[str, str, str]
"""What the base checks and the present search does not find: its kind, the file, and a message.

`dropped` is a config that only the base finds, `gone` one whose file no longer exists, `weakened` a file that states
fewer patterns than in the base."""


def find_scope(
    paths: Sequence[str], *, patterns: Sequence[str] | None, base: str, folder: Path
) -> tuple[tuple[str, ...], tuple[Loss, ...]]:
    """Return `paths` and those that only the base finds, and what is lost; without a base or a `*`, `paths` alone."""
    if not base or (patterns is not None and not any("*" in pattern for pattern in patterns)):
        return tuple(paths), ()
    revision = find_revision(base, folder)
    base_shown = visible(revision.name)

    # Rules of the base: a folder from the repository's top, a name or pattern of configs below it, and the file that
    # states it, or "". A search takes the nearest folder that has configs or patterns at the base.
    rules: list[tuple[str, str, str]] = []
    if patterns is not None:
        here = revision.path_from_top(str(folder))
        rules = [(here, pattern, "") for pattern in patterns if "*" in pattern]
    for each in folders_to_search(folder) if patterns is None else ():
        top = revision.path_from_top(str(each))
        rules = [(top, name, "") for name in NAMES if revision.matching(top, name)]
        place = posixpath.normpath(posixpath.join(top, PYPROJECT))
        shown = f"{revision.name}:{place}"
        try:
            data = None if rules else revision.content(place, limit=MAX_BYTES)
        except Refusal as cause:
            raise whole_file(shown, cause.code, cause.message, "what the base checks is not known") from None
        if data is not None:
            rules = [(top, pattern, place) for pattern in every_pattern(project_table(data, shown), shown)]
        if rules:
            break

    # Lost configs: by the path at the base the path now, or "". Links are followed for the place alone: a link of the
    # base may have become the file that it led to. One that leads out of the repository stays.
    def followed(place: str) -> str:
        try:
            return revision.follow_links(place)
        except Refusal:
            return place

    known = {revision.path_from_top(path) for path in paths} if rules else set()
    # A config of the base is found if it is what a known path is compared with.
    compared = {followed(revision.base_name(path)) for path in known}
    in_base = dict.fromkeys(place for top, pattern, _ in rules for place in revision.matching(top, pattern))
    missing = [place for place in in_base if followed(place) not in compared]
    new_names = {old: new for new, old in revision.old_names.items()} if missing else {}
    lost = {}
    for place in missing:
        now = place if os.path.lexists(revision.root / place) else new_names.get(place, "")
        # git knows new names from the index, whose files may be missing in the working tree.
        lost[place] = now if now and os.path.lexists(revision.root / now) else ""
    # A new file under an old pattern counts too.
    seen = {*known, *missing, *map(new_names.get, missing)}
    for top, pattern, _ in rules:
        within = revision.root / top
        names = matching_names(within, pattern) if "*" in pattern else [pattern]
        files = (revision.path_from_top(str(within / name)) for name in names if (within / name).is_file())
        lost |= {place: place for place in files if place not in seen}

    losses: list[Loss] = []
    prefix = "" if patterns is None else "./"  # CONFIG... names files without it
    for was, now in lost.items():
        name = relative_name(revision.root / (now or was), folder).removeprefix(prefix)
        if not now:
            losses.append(("gone", name, f"{base_shown} checks this config, but the file is gone"))
        elif now == was and (before := revision.base_name(was)) != was:
            other = f"checks another config at this place; what is here now was {visible(before)}"
            losses.append(("dropped", name, f"{base_shown} {other}"))
        else:
            renamed = "" if now == was else f" (as {visible(was)})"
            losses.append(("dropped", name, f"{base_shown} checks this config{renamed}, but it is no longer found"))
    # A weaker search alone is worth a message; where it loses configs, theirs say more.
    for place in () if lost else dict.fromkeys(stated_in for *_, stated_in in rules if stated_in):
        path = revision.root / place
        try:
            stated = every_pattern(project_table(read_bytes(str(path)), place), place)
        except ConfigError:  # it is gone, or a nearer config is found in spite of it
            stated = []
        unstated = [pattern for _, pattern, stated_in in rules if stated_in == place and pattern not in stated]
        if unstated:
            shown = ", ".join(f"`{visible(pattern)}`" for pattern in unstated)
            message = f"`tool.dpcalc.configs` no longer names {shown} of {base_shown}"
            losses.append(("weakened", relative_name(path, folder), message))
    dropped = (name for kind, name, _ in losses if kind == "dropped")
    return tuple(dict.fromkeys((*paths, *dropped))), tuple(losses)


def with_scope_problems(
    results: Iterable[Result], losses: Sequence[Loss], *, severity: Severity, strict: bool = False
) -> tuple[Result, ...]:
    """Return the results with DPC408 at dropped configs, then one for each gone file and each weakened search."""

    def with_problem(result: Result, message: str, level: Severity) -> Result:
        problem = finding("DPC408", level, message, result.path, hint=RESTORE)
        fails = level is Severity.ERROR or (strict and level is Severity.WARNING)
        verdict = worst_verdict([result.verdict, Verdict.FAILED]) if fails else result.verdict
        return replace(result, verdict=verdict, problems=(*result.problems, problem))

    # Without its pattern a search may still find every file that there is: that alone fails nobody.
    milder = Severity.WARNING if severity is Severity.ERROR else severity
    dropped = {path: message for kind, path, message in losses if kind == "dropped"}
    judged = [
        with_problem(result, dropped[result.path], severity) if result.path in dropped else result for result in results
    ]
    for loss, level in (("gone", severity), ("weakened", milder)):
        for kind, path, message in losses:
            if kind == loss:
                judged.append(with_problem(Result(path=path, verdict=Verdict.PASSED), message, level))
    return tuple(judged)
