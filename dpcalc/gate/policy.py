"""Policy of an organisation beside the budgets of configs, and scope of a gate: the configs that it judges."""

import math
import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dpcalc.config.discovery import (
    NAMES,
    PYPROJECT,
    config_patterns,
    dpcalc_table,
    folders_to_search,
    matching_names,
    relative_name,
)
from dpcalc.config.documents import parse_toml
from dpcalc.config.files import Refusal
from dpcalc.config.repository import absolute, git_root
from dpcalc.config.source import MAX_BYTES, ConfigError, Severity, decode, read_bytes, visible, whole_file
from dpcalc.errors import InputError
from dpcalc.gate.diff import RESTORE
from dpcalc.gate.revision import Revision, find_revision, outermost_same
from dpcalc.gate.verdict import Limit, Problem, Result, Verdict, worst_verdict
from dpcalc.records import dataclass

TABLE = "[tool.dpcalc.policy]"
_OURS = ("configs", "policy")  # keys of [tool.dpcalc]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Requirements on every config; the default requires nothing.

    Attributes:
        max_epsilon: largest epsilon, or None.
        max_increase_pct: largest increase over the base in percent, or None.
        warn_at_pct: percentage of the limit above which a warning is given, or None.
        require_budget: whether a file without a budget of its own fails.
        strict: whether a warning fails a file.
        permits_increase: whether an increase up to `max_increase_pct` needs no warning. A limit that the change under
            review states itself can only forbid.
    """

    max_epsilon: Limit | None = None
    max_increase_pct: Limit | None = None
    warn_at_pct: float | None = None
    require_budget: bool = False
    strict: bool = False
    permits_increase: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for a limit that is negative or not finite."""
        for limit in filter(None, (self.max_epsilon, self.max_increase_pct)):
            if not 0 <= limit.value < math.inf:
                raise InputError(f"{limit.source}: expected a finite number >= 0, got {limit.value!r}")

    def combined_with(self, other: "Policy") -> "Policy":
        """Return the policy that demands all that either policy does: the smaller limits and any flag."""
        # A lower share warns earlier, and so is the stricter one.
        shares = [share for share in (self.warn_at_pct, other.warn_at_pct) if share is not None]
        return Policy(
            max_epsilon=strictest_limit((self.max_epsilon, other.max_epsilon)),
            max_increase_pct=strictest_limit((self.max_increase_pct, other.max_increase_pct)),
            warn_at_pct=min(shares, default=None),
            require_budget=self.require_budget or other.require_budget,
            strict=self.strict or other.strict,
            permits_increase=self.permits_increase or other.permits_increase,
        )


NO_POLICY = Policy()
"""The policy that requires nothing."""


def strictest_limit(limits: Iterable[Limit | None]) -> Limit | None:
    """Return the smallest limit, the first of equal ones; None of no limits. NaN counts as smaller than all."""
    stated = [limit for limit in limits if limit is not None]
    return min(stated, key=lambda limit: -math.inf if math.isnan(limit.value) else limit.value, default=None)


def effective_policy(named: str | None, folder: Path, base: str) -> Policy:
    """Return the policy that is as strict as the present one and, if a base is given, as the one at the base."""
    # The policy of the base counts as well: a change under review cannot loosen the policy that judges it.
    # The nearest file that has a policy counts, not the nearest pyproject.toml: a package in a monorepo may have none.
    places = [named] if named is not None else [str(folder / PYPROJECT) for folder in folders_to_search(folder)]
    present = _nearest_policy(places) if named is None else _read_policy(named)
    if not base:
        return present
    if not any(_is_in_change(place) for place in places):
        return replace(present, permits_increase=present.max_increase_pct is not None)
    old = _base_policy(places, base)
    return present.combined_with(replace(old, permits_increase=old.max_increase_pct is not None))


def _read_policy(path: str) -> Policy:
    """Return the policy in a file; InputError if the file is missing, has none, or is a link out of the repository."""
    return parse_policy(read_bytes(path), path)


def _nearest_policy(places: Iterable[str]) -> Policy:
    """Return the policy of the first pyproject.toml that has one; NO_POLICY if none has."""
    for place in places:
        if Path(place).is_file() and _policy_table(read_bytes(place), place) is not None:
            return _read_policy(place)
    return NO_POLICY


def _is_in_change(place: str) -> bool:
    """Return True if a file lies in the repository that is judged: that of the current directory, if it is in one."""
    folder, top = Path(absolute(place)).parent, git_root(Path.cwd())
    return (git_root(folder) if top is None else outermost_same(folder, top)) is not None


def _base_policy(places: Iterable[str], base: str) -> Policy:
    """Return the policy at a git revision from the first file that has one; NO_POLICY if none has.

    InputError if it cannot be read there: a change that hides the policy of its base would be judged without it.
    """
    for place in places:
        revision = find_revision(base, Path(absolute(place)).parent)
        name = revision.path_from_top(place)
        try:
            data = revision.content(name, limit=MAX_BYTES)
            if data is not None and (Path(place).name != PYPROJECT or _policy_table(data, place) is not None):
                return parse_policy(data, place)
        except (InputError, Refusal) as cause:
            reason = cause.message if isinstance(cause, Refusal) else str(cause)
            way_out = "repair it there first, or name a policy outside the repository with --policy"
            raise InputError(f"{visible(f'{base}:{name}')}: the policy cannot be read: {reason}; {way_out}") from None
    return NO_POLICY


def parse_policy(data: bytes, path: str) -> Policy:
    """Return the policy in a TOML file; InputError if it has none, or a wrong key or value.

    Keys that are absent demand nothing.
    """
    shown = visible(Path(path).name)
    values = _policy_values(data, path)
    _refuse_unknown_keys(values, _READERS, "a policy", path)
    return Policy(**{key: _READERS[key](value, f"{key} of {shown}") for key, value in values.items()})


def _policy_values(data: bytes, path: str) -> dict[str, object]:
    """Return the table [tool.dpcalc.policy], without it the whole file; InputError for a pyproject.toml without it."""
    table = _policy_table(data, path)
    if table is None and Path(path).name == PYPROJECT:
        raise InputError(f"{visible(path)}: expected a table {TABLE}, got none")
    return _toml_content(data, path) if table is None else table


def _policy_table(data: bytes, path: str) -> dict[str, object] | None:
    """Return the table [tool.dpcalc.policy], None without it; InputError if it is a value or has unknown siblings."""
    ours = dpcalc_table(_toml_content(data, path))
    _refuse_unknown_keys(ours, _OURS, "[tool.dpcalc]", path)
    table = ours.get("policy")
    if table is not None and not isinstance(table, dict):
        raise InputError(f"{visible(path)}: expected a table {TABLE}, got a value")
    return table


def _refuse_unknown_keys(table: Iterable[str], known: Collection[str], title: str, path: str) -> None:
    """Raise InputError for the first key of a table that is not known; `title` and `path` name the table there."""
    for key in table:
        if key not in known:
            expected = f"expected keys of {title} ({', '.join(known)})"
            raise InputError(f"{visible(path)}: {expected}, got `{visible(key)}`")


def _toml_content(data: bytes, path: str) -> dict[str, object]:
    """Return a TOML file as dictionaries; raise InputError if it is malformed, too deep or too large."""
    shown = visible(path)
    try:
        return parse_toml(decode(data, path, shows_lines=False))
    except InputError:
        raise  # it is a ValueError too
    except Refusal as cause:
        raise InputError(f"{shown}: {cause.message}; {cause.hint}") from None
    except (ValueError, RecursionError) as cause:
        raise InputError(f"{shown}: expected TOML, got what cannot be read: {visible(str(cause))}") from None


def _shown(value: object) -> str:
    """Return a value for a message; Python writes no whole number of over 4,300 digits out."""
    try:
        return visible(str(value))[:60]
    except ValueError:
        return "a number of many digits"


def _number(value: object, where: str) -> float:
    """Return a finite number >= 0, also from text such as "3"; InputError for anything else, also booleans and None."""
    try:
        # `true` is 1 to Python; a limit of 1 was not meant by whoever wrote it.
        number = math.nan if isinstance(value, bool) or value is None else float(str(value))
    except ValueError:
        number = math.nan
    if isinstance(value, list | dict) or not 0 <= number < math.inf:
        raise InputError(f"{where}: expected a finite number >= 0, got {_shown(value)}")
    return number


def _flag(value: object, where: str) -> bool:
    """Return a Boolean; raise InputError for anything else."""
    if not isinstance(value, bool):
        raise InputError(f"{where}: expected true or false, got {_shown(value)}")
    return value


def _limit(value: object, source: str) -> Limit:
    """Return a finite number >= 0 as a limit; InputError like `_number`."""
    return Limit(value=_number(value, source), source=source)


_READERS: dict[str, Callable[[object, str], Any]] = {
    "max_epsilon": _limit,
    "max_increase_pct": _limit,
    "warn_at_pct": _number,
    "require_budget": _flag,
    "strict": _flag,
}


# Scope of a gate: the configs that a search or a pattern finds now, and those that it finds at the base.
#
# A change under review does not decide by which budget or policy it is judged, and it does not decide which configs are
# judged: a config that the base finds is judged if it is still there, and its absence from the search is a finding.


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The configs that a gate judges, and those that the base judged and the present search does not find.

    Attributes:
        paths: files to judge, relative to the current directory.
        dropped: message for each of these files that only the base finds.
        gone: message for each file that the base finds and that no longer exists.
        weakened: message for each file that states fewer patterns than in the base.
    """

    paths: tuple[str, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    weakened: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A file name or a pattern that names configs.

    Attributes:
        folder: the directory that it is relative to, as a path from the top of the repository.
        pattern: the name or the pattern.
        stated_in: the file that states it, from the top; "" for CONFIG... and fixed names.
    """

    folder: str
    pattern: str
    stated_in: str = ""


class _LostConfig(NamedTuple):
    """A config that the base finds and the present search does not.

    Attributes:
        base_path: its path at the base, from the top of the repository.
        present_path: its path in the working tree, from the top; "" if the file is gone.
    """

    base_path: str
    present_path: str


def find_scope(paths: Sequence[str], *, patterns: Sequence[str] | None, base: str, folder: Path) -> Scope:
    """Return `paths` plus the configs that only the base finds; `paths` alone without a base, or if no pattern has `*`.

    Of a config whose file is gone the scope has only a message.
    """
    if not base or (patterns is not None and not any("*" in pattern for pattern in patterns)):
        return Scope(paths=tuple(paths))
    revision = find_revision(base, folder)
    rules = _search_rules(revision, folder) if patterns is None else _given_rules(revision, folder, patterns)
    lost_configs = tuple(_lost_configs(revision, rules, {revision.path_from_top(path) for path in paths}))
    prefix = "" if patterns is None else "./"  # CONFIG... names files without it
    dropped = {
        relative_name(revision.root / lost.present_path, folder).removeprefix(prefix): _dropped_text(revision, lost)
        for lost in lost_configs
        if lost.present_path
    }
    gone = {
        relative_name(revision.root / lost.base_path, folder).removeprefix(prefix): (
            f"{visible(revision.name)} checks this config, but the file is gone"
        )
        for lost in lost_configs
        if not lost.present_path
    }
    # A weaker search alone is worth a message; where it loses configs, theirs say more.
    weakened = {} if lost_configs else dict(_weakened_searches(revision, rules, folder))
    return Scope(paths=tuple(dict.fromkeys((*paths, *dropped))), dropped=dropped, gone=gone, weakened=weakened)


def _dropped_text(revision: Revision, lost: _LostConfig) -> str:
    """Return the message that a config is no longer found, with its old path if it was renamed."""
    if lost.present_path == lost.base_path and (now := revision.base_name(lost.base_path)) != lost.base_path:
        return f"{visible(revision.name)} checks another config at this place; what is here now was {visible(now)}"
    was = "" if lost.present_path == lost.base_path else f" (as {visible(lost.base_path)})"
    return f"{visible(revision.name)} checks this config{was}, but it is no longer found"


def _lost_configs(revision: Revision, rules: Sequence[_Rule], known: Collection[str]) -> Iterator[_LostConfig]:
    """Yield each config that the rules of the base find and that no known path is, by its own name or its old one."""
    lost = []
    if rules:
        # A config of the base is found if it is what a known path is compared with. Links are followed for the place
        # alone: a link of the base may have become the file that it led to.
        compared = {_followed(revision, revision.base_name(path)) for path in known}
        in_base = (place for rule in rules for place in revision.matching(rule.folder, rule.pattern))
        lost = [place for place in dict.fromkeys(in_base) if _followed(revision, place) not in compared]
    new_names = {old: new for new, old in revision.old_names.items()} if lost else {}
    for place in lost:
        now = place if os.path.lexists(revision.root / place) else new_names.get(place, "")
        # git knows new names from the index, whose files may be missing in the working tree.
        yield _LostConfig(place, now if now and os.path.lexists(revision.root / now) else "")
    # A new file under an old pattern counts too.
    seen = {*known, *lost, *map(new_names.get, lost)}
    for place in dict.fromkeys(place for rule in rules for place in _matches_in_working_tree(revision, rule)):
        if place not in seen:
            yield _LostConfig(place, place)


def _followed(revision: Revision, place: str) -> str:
    """Return a path with the links of a revision followed, as it is where they lead out of the repository."""
    try:
        return revision.follow_links(place)
    except Refusal:
        return place


def with_scope_problems(
    results: Iterable[Result], scope: Scope, *, severity: Severity, strict: bool = False
) -> tuple[Result, ...]:
    """Return the results with DPC408 at dropped configs, then one for each gone file and each weakened search."""
    add_problem = partial(_with_scope_problem, strict=strict)
    # Without its pattern a search may still find every file that there is: that alone fails nobody.
    milder = Severity.WARNING if severity is Severity.ERROR else severity
    return (
        *(
            add_problem(result, scope.dropped[result.path], severity) if result.path in scope.dropped else result
            for result in results
        ),
        *(add_problem(_passed(path), message, severity) for path, message in scope.gone.items()),
        *(add_problem(_passed(path), message, milder) for path, message in scope.weakened.items()),
    )


def _passed(path: str) -> Result:
    """Return the result of a file without problems."""
    return Result(path=path, verdict=Verdict.PASSED)


def _with_scope_problem(result: Result, detail: str, severity: Severity, *, strict: bool) -> Result:
    """Return a result with DPC408 added; if that is an error or, if `strict`, a warning, passed becomes failed."""
    problem = Problem(code="DPC408", severity=severity, detail=detail, hint=RESTORE)
    fails = severity is Severity.ERROR or (strict and severity is Severity.WARNING)
    verdict = worst_verdict([result.verdict, Verdict.FAILED]) if fails else result.verdict
    return replace(result, verdict=verdict, problems=(*result.problems, problem))


def _given_rules(revision: Revision, current: Path, patterns: Sequence[str]) -> tuple[_Rule, ...]:
    """Return a rule for each CONFIG with `*`; the others are skipped."""
    folder = revision.path_from_top(str(current))
    return tuple(_Rule(folder=folder, pattern=pattern) for pattern in patterns if "*" in pattern)


def _search_rules(revision: Revision, current: Path) -> tuple[_Rule, ...]:
    """Return the rules by which a search finds configs at the base: those of the nearest folder that has any."""
    folders = (revision.path_from_top(str(folder)) for folder in folders_to_search(current))
    return next(filter(None, (_folder_rules(revision, folder) for folder in folders)), ())


def _folder_rules(revision: Revision, folder: str) -> tuple[_Rule, ...]:
    """Return a rule for each known config name that a folder has at the base, else the rules of its pyproject.toml."""
    own = tuple(_Rule(folder=folder, pattern=name) for name in NAMES if revision.matching(folder, name))
    return own or _pyproject_rules(revision, folder)


def _pyproject_rules(revision: Revision, folder: str) -> tuple[_Rule, ...]:
    """Return a rule for each pattern in `tool.dpcalc.configs` of a folder at the base; ConfigError if unreadable."""
    place = posixpath.normpath(posixpath.join(folder, PYPROJECT))
    shown = f"{revision.name}:{place}"
    try:
        data = revision.content(place, limit=MAX_BYTES)
    except Refusal as cause:
        raise whole_file(shown, cause.code, cause.message, "what the base checks is not known") from None
    patterns = [] if data is None else config_patterns(data, shown)
    return tuple(_Rule(folder=folder, pattern=pattern, stated_in=place) for pattern in patterns)


def _matches_in_working_tree(revision: Revision, rule: _Rule) -> Iterator[str]:
    """Yield the present files that a rule of the base matches, from the top; none for an impossible pattern."""
    folder = revision.root / rule.folder
    try:
        names = matching_names(folder, rule.pattern) if "*" in rule.pattern else [rule.pattern]
    except InputError:
        raise  # it is a ValueError too
    except ValueError:  # a pattern that nothing can match
        return
    yield from (revision.path_from_top(str(folder / name)) for name in names if (folder / name).is_file())


def _weakened_searches(revision: Revision, rules: Sequence[_Rule], shown_from: Path) -> Iterator[tuple[str, str]]:
    """Yield each pyproject.toml that lacks a pattern of the base, with a message; an unreadable one lacks all."""
    for place in dict.fromkeys(rule.stated_in for rule in rules if rule.stated_in):
        path = revision.root / place
        try:
            stated = config_patterns(read_bytes(str(path)), place)
        except ConfigError:  # it is gone, or a nearer config is found in spite of it
            stated = []
        missing = [rule.pattern for rule in rules if rule.stated_in == place and rule.pattern not in stated]
        if missing:
            shown = ", ".join(f"`{visible(pattern)}`" for pattern in missing)
            yield (
                relative_name(path, shown_from),
                f"`tool.dpcalc.configs` no longer names {shown} of {visible(revision.name)}",
            )
