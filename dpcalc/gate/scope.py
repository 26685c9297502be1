"""Scope of a gate: the configs that a search or a pattern finds now, and those that it finds at the base.

A change under review does not decide by which budget or policy it is judged, and it does not decide which configs are
judged: a config that the base finds is judged if it is still there, and its absence from the search is a finding of its
own.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from dpcalc.config.discovery import NAMES, PYPROJECT, config_patterns, folders_to_search, matching_files, relative_name
from dpcalc.config.files import Refusal
from dpcalc.config.source import MAX_BYTES, ConfigError, Severity, read_bytes, visible
from dpcalc.errors import InputError
from dpcalc.gate.diff import RESTORE
from dpcalc.gate.revision import Revision, find_revision
from dpcalc.gate.verdict import Problem, Result, Verdict, worst_verdict
from dpcalc.records import dataclass


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


def find_scope(paths: Sequence[str], *, patterns: Sequence[str] | None, base: str, folder: Path) -> Scope:
    """Return the configs to judge: found now, or dropped since the base; also those gone, searches weakened.

    Args:
        paths: the configs that are found now.
        patterns: CONFIG... as given, of which those with `*` count; None if a search found the configs.
        base: a git revision, or "" for none.
        folder: the current directory, absolute.

    Raises:
        InputError: there is no such revision.
    """
    if not base or (patterns is not None and not any("*" in pattern for pattern in patterns)):
        return Scope(paths=tuple(paths))
    revision = find_revision(base, folder)
    rules = tuple(_search_rules(revision, folder)) if patterns is None else _given_rules(revision, folder, patterns)
    # Patterns of the base are matched in the base and in the working tree: a new file under an old pattern counts.
    expected = dict.fromkeys(
        place
        for rule in rules
        for place in (*revision.matching(rule.folder, rule.pattern), *_matches_in_working_tree(revision, rule))
    )
    known = {revision.path_from_top(path) for path in paths}
    # A renamed config counts as found under its new name; git is asked only if a config seems to be missing.
    new_names = {old: new for new, old in revision.old_names.items()} if expected.keys() - known else {}
    dropped: dict[str, str] = {}
    gone: dict[str, str] = {}
    for place in expected:
        if place in known:
            continue
        now = place if os.path.lexists(revision.root / place) else new_names.get(place, "")
        if now in known:  # renamed, and compared with what it was under the old name
            continue
        was = "" if now == place else f" (as {visible(place)})"
        if now and os.path.lexists(revision.root / now):
            dropped[relative_name(revision.root / now, folder)] = (
                f"{visible(revision.name)} checks this config{was}, but it is no longer found"
            )
        else:
            gone[relative_name(revision.root / place, folder)] = (
                f"{visible(revision.name)} checks this config, but the file is gone"
            )
    weakened = {} if dropped or gone else dict(_weakened_searches(revision, rules, folder))
    return Scope(paths=(*paths, *dropped), dropped=dropped, gone=gone, weakened=weakened)


def with_scope_problems(
    results: Iterable[Result], scope: Scope, *, severity: Severity, strict: bool = False
) -> tuple[Result, ...]:
    """Return the results with DPC408 for files that the base finds alone, and new ones for gone files or patterns.

    Args:
        results: of the files in `scope.paths`.
        scope: the configs that were judged.
        severity: of a config that is no longer found; a weakened search is a warning at most.
        strict: whether a warning fails a file.
    """

    def _with_problem(result: Result, detail: str, level: Severity) -> Result:
        """Return a result with DPC408 added; failed if it is an error, or a warning and `strict`."""
        problem = Problem(code="DPC408", severity=level, detail=detail, hint=RESTORE)
        failed = level is Severity.ERROR or (strict and level is Severity.WARNING)
        verdict = worst_verdict([result.verdict, Verdict.FAILED if failed else Verdict.PASSED])
        return replace(result, verdict=verdict, problems=(*result.problems, problem))

    judged = (
        _with_problem(result, scope.dropped[result.path], severity) if result.path in scope.dropped else result
        for result in results
    )
    milder = Severity.WARNING if severity is Severity.ERROR else severity
    return (
        *judged,
        *(
            _with_problem(Result(path=path, verdict=Verdict.PASSED), message, severity)
            for path, message in scope.gone.items()
        ),
        *(
            _with_problem(Result(path=path, verdict=Verdict.PASSED), message, milder)
            for path, message in scope.weakened.items()
        ),
    )


def _given_rules(revision: Revision, current: Path, patterns: Sequence[str]) -> tuple[_Rule, ...]:
    """Return a rule for each CONFIG with `*`; the others are skipped."""
    folder = revision.path_from_top(str(current))
    return tuple(_Rule(folder=folder, pattern=pattern) for pattern in patterns if "*" in pattern)


def _search_rules(revision: Revision, current: Path) -> Iterator[_Rule]:
    """Yield the names or patterns by which a search finds configs at a revision, of the nearest folder with any."""
    for folder in (revision.path_from_top(str(each)) for each in folders_to_search(current)):
        own = [name for name in NAMES if revision.matching(folder, name)]
        if own:
            yield from (_Rule(folder=folder, pattern=name) for name in own)
            return
        patterns = _patterns(revision, folder)
        if patterns:
            stated_in = posixpath.normpath(posixpath.join(folder, PYPROJECT))
            yield from (_Rule(folder=folder, pattern=pattern, stated_in=stated_in) for pattern in patterns)
            return


def _patterns(revision: Revision, folder: str) -> list[str]:
    """Return `tool.dpcalc.configs` of a folder's pyproject.toml at a revision; [] if absent or unreadable."""
    place = posixpath.normpath(posixpath.join(folder, PYPROJECT))
    try:
        data = revision.content(place, limit=MAX_BYTES)
        return [] if data is None else config_patterns(data, place)
    except (ConfigError, Refusal):
        return []


def _matches_in_working_tree(revision: Revision, rule: _Rule) -> Iterator[str]:
    """Yield the present files, as paths from the top, that a name or pattern of the base matches; none if invalid."""
    folder = revision.root / rule.folder
    try:
        names = matching_files(folder, rule.pattern) if "*" in rule.pattern else [rule.pattern]
    except InputError:
        raise  # it is a ValueError too
    except ValueError:  # a pattern that nothing can match
        return
    yield from (revision.path_from_top(str(folder / name)) for name in names if (folder / name).is_file())


def _weakened_searches(revision: Revision, rules: Sequence[_Rule], current: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, message) for each file that no longer states a pattern which it stated at the base."""
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
                relative_name(path, current),
                f"`tool.dpcalc.configs` no longer names {shown} of {visible(revision.name)}",
            )
