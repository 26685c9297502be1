"""Lock file `dpcalc.lock`: hash, cost and promises of each config at its last review."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpcalc.config.discovery import folders_to_search, is_pattern, matches, split_pattern
from dpcalc.config.files import config_folder
from dpcalc.config.json_text import RepeatedKeyError, json_content
from dpcalc.config.load import Loaded
from dpcalc.config.source import STDIN, Severity, decode, read_bytes, visible
from dpcalc.errors import InputError
from dpcalc.gate.costs import Costs
from dpcalc.gate.diff import Case, source_names
from dpcalc.gate.verdict import Problem, Result, Verdict, error_result
from dpcalc.guarantee import Guarantee
from dpcalc.records import dataclass

NAME = "dpcalc.lock"
VERSION = 1
ACCURACY = 2e-5  # relative; a lock holds six digits, and other processors round the last of sixteen differently
_AGAIN = "`dpcalc lock` writes it anew"
_REMOVE = "remove it, and `dpcalc lock` writes it anew"
_MAX_BYTES = 4 * 1024 * 1024  # of a lock file, about 10,000 configs; a larger one is refused unread


@dataclass(frozen=True, kw_only=True)
class LockEntry:
    """The record of one config.

    Attributes:
        config_hash: hash of its meaning; comments and order do not count.
        epsilon: an upper bound; rounded up to six digits if read from a file.
        delta: of the guarantee.
        unit: the protected unit.
        adjacency: the neighbouring relation.
        group_size: units protected together.
        sources: "FILE:KEY" by dotted key for values that references or aliases lead to, files relative to the lock;
            None in a lock of version 0.1.0.
    """

    config_hash: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    group_size: int
    sources: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file.

    Attributes:
        path: of the lock file, absolute.
        entries: by the name of a config: its path relative to the lock, with ":SECTION" for a part of a file.
    """

    path: str
    entries: Mapping[str, LockEntry]

    def entry_name(self, loaded: Loaded) -> str:
        """Return the name of a config's entry: its path from the lock, with ":SECTION" if it is a part of the file."""
        path = self.relative_path(loaded.path)
        return f"{path}:{loaded.section}" if loaded.section else path

    def relative_path(self, path: str) -> str:
        """Return the path of a file relative to the directory of the lock."""
        return Path(os.path.relpath(os.path.abspath(path), Path(self.path).parent)).as_posix()

    def sources(self, loaded: Loaded) -> dict[str, str]:
        """Return {dotted key: "FILE:KEY"} for values that references lead to, sorted; files relative to the lock."""
        return dict(sorted(source_names(loaded, Path(self.path).parent.resolve()).items()))

    def restricted_to(self, names: Iterable[str]) -> "Lock":
        """Return the lock with these entries only; names without an entry are skipped."""
        return Lock(path=self.path, entries={name: self.entries[name] for name in names if name in self.entries})

    def config_files(self, only_section: str = "") -> tuple[tuple[str, str], ...]:
        """Return (path, section) of each entry whose file exists; InputError if any entry is outside the repository.

        For each entry the path from the current directory and the section, "" for the whole file.
        """
        entries = [self._path_and_section(name) for name in sorted(self.entries)]
        self._refuse_outside_repository(path for path, _ in entries)
        present = ((path, section) for path, section in entries if os.path.lexists(path))
        return tuple((path, section) for path, section in present if only_section in {"", section})

    def _refuse_outside_repository(self, paths: Iterable[str]) -> None:
        """Raise InputError for the first path outside the lock's repository: messages would show its lines."""
        inside = config_folder(self.path)
        for path in paths:
            if not inside.holds(Path(os.path.abspath(path))):
                expected = f"expected entries of files below {visible(str(inside.top))}, got {visible(path)}"
                raise InputError(f"{visible(self.path)}: {expected}; name the configs, or take the entry out")

    def is_gone(self, name: str) -> bool:
        """Return True if the file of an entry no longer exists."""
        return not os.path.lexists(self._path_and_section(name)[0])

    def matches_pattern(self, name: str, config_args: Sequence[str]) -> bool:
        """Return True if a CONFIG argument with `*`, relative to the current directory, matches the file of an
        entry."""
        path = Path(self._path_and_section(name)[0]).as_posix()
        split = (split_pattern(Path(os.path.relpath(word)).as_posix()) for word in config_args if is_pattern(word))
        return any(
            matches(path.removeprefix(f"{start}/" if start else "").split("/"), parts)
            for start, parts in split
            if not start or path.startswith(f"{start}/")
        )

    def _path_and_section(self, name: str) -> tuple[str, str]:
        """Split an entry's name "PATH:SECTION" into a path from the current directory and a section.

        The section is "" if a file has the whole name, or if there is no colon.
        """
        # A colon may stand in the name of a file, too; a file that is there decides.
        path = os.path.relpath(Path(self.path).parent / name)
        before, colon, section = name.rpartition(":")
        if os.path.lexists(path) or not colon:
            return path, ""
        return os.path.relpath(Path(self.path).parent / before), section


def lock_path(folder: Path) -> Path:
    """Return the path of the nearest `dpcalc.lock` upwards, else of a new one at the top of the repository."""
    folders = folders_to_search(folder)
    return next((folder / NAME for folder in folders if (folder / NAME).is_file()), folders[-1] / NAME)


def read_or_new_lock(path: Path) -> Lock:
    """Return the lock file at a path, an empty lock if there is none; raise InputError like `read_lock`."""
    return read_lock(path) if path.is_file() else Lock(path=str(path), entries={})


def read_lock(path: Path) -> Lock:
    """Read a lock file; InputError if it is missing, malformed, of another version, or a link out of the repository."""
    if not path.is_file():
        raise InputError(f"--locked: expected {visible(str(path))}, got no such file; `dpcalc lock` writes it")
    shown = visible(str(path))
    version, configs = _version_and_configs(str(path))
    if version != VERSION:
        raise InputError(f"{shown}: expected version {VERSION}, got {visible(repr(version))[:20]}; {_REMOVE}")
    try:
        return Lock(path=str(path), entries={name: _checked_entry(name, entry) for name, entry in configs.items()})
    except InputError as cause:
        raise InputError(f"{shown}: {cause}; {_REMOVE}") from None


def _version_and_configs(path: str) -> tuple[object, dict[str, object]]:
    """Return the version of a lock file and its unchecked entries by name; InputError if it is no JSON with both."""
    try:
        content: Any = json_content(decode(read_bytes(path, limit=_MAX_BYTES), path, shows_lines=False).text)
        return content["version"], {str(name): entry for name, entry in content["configs"].items()}
    except RepeatedKeyError as cause:
        raise InputError(f"{visible(path)}: {cause}, or {_REMOVE}") from None
    except InputError:
        raise  # it is a ValueError too
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        shown = visible(path)
        raise InputError(f"{shown}: expected a file that `dpcalc lock` wrote, got another one; {_REMOVE}") from None


def lock_problems(lock: Lock, loaded: Loaded, now: Guarantee) -> Iterator[Problem]:
    """Yield DPC403 for the first of: no entry in the lock, another hash, moved sources, an epsilon off by over 2e-5.

    Moved sources are a problem for each key; the difference of epsilon is relative.
    """
    # One finding a config, the most telling: where the hash differs, sources and epsilon may differ as its effect.
    entry = lock.entries.get(lock.entry_name(loaded))
    if entry is None:
        yield _lock_problem(f"is not in {NAME}", now)
    elif entry.config_hash != loaded.config_hash:
        yield _lock_problem(f"is not what {NAME} holds", now, entry)
    elif entry.sources is not None and entry.sources != lock.sources(loaded):
        yield from _moved_sources(entry.sources, lock.sources(loaded), loaded)
    elif not math.isclose(entry.epsilon, now.epsilon, rel_tol=ACCURACY):
        yield _lock_problem(f"is what {NAME} holds, and costs something else (another version of dpcalc?)", now, entry)


def _moved_sources(before: Mapping[str, str], now: Mapping[str, str], loaded: Loaded) -> Iterator[Problem]:
    """Yield DPC403 for each value whose source (a file and key, or the config itself) differs from the lock."""
    # The training code may still read the old place.
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            was, says = (
                f"read from `{sources[key]}`" if key in sources else "stated here" for sources in (before, now)
            )
            detail = f"{key} is {says}; {NAME} holds it as {was}"
            yield Problem(code="DPC403", severity=Severity.ERROR, mark=loaded.mark(key), detail=detail)


def updated_lock(cases: Sequence[Case], lock: Lock, *, costs: Costs) -> tuple[tuple[Result, ...], Lock]:
    """Return a result for each config, and the lock with a new entry for each config that has a bound.

    (one result for each config, `failed` if its entry differs or is missing; the new lock).
    """
    costs.compute_files((case.path, plan) for case in cases for plan in case.plans)
    # A call may name one config of many: what it does not name is still as it was reviewed.
    results = tuple(_lock_result(case, lock, costs) for case in cases)
    new = {
        lock.entry_name(case.new): _new_entry(lock, case.new, result.guarantee)
        for case, result in zip(cases, results, strict=True)
        if case.new is not None and result.guarantee is not None
    }
    return results, Lock(path=lock.path, entries={**lock.entries, **new})


def missing_configs(cases: Sequence[Case], lock: Lock, *, config_args: Sequence[str] | None) -> tuple[Result, ...]:
    """Return a failed result for each entry whose config a call must check and does not; an unreadable one is
    checked."""
    known = {lock.entry_name(case.new) for case in cases if case.new is not None}
    # A file that cannot be read has an error of its own; its entry is not called stale as well.
    broken = {lock.relative_path(case.path) for case in cases if case.new is None}
    broken_sections = tuple(f"{path}:" for path in broken)
    return tuple(
        Result(path=name, verdict=Verdict.FAILED, problems=(_missing_config(lock, name),))
        for name in sorted(lock.entries)
        if name not in known and name not in broken and not name.startswith(broken_sections)
        if _must_check(config_args, lock, name)
    )


def _must_check(config_args: Sequence[str] | None, lock: Lock, name: str) -> bool:
    """Return True if a call must check an entry: after a search, if its file is gone, or if a pattern matches it."""
    # Other files are another call's.
    return config_args is None or lock.is_gone(name) or lock.matches_pattern(name, config_args)


def _missing_config(lock: Lock, name: str) -> Problem:
    """Return DPC403 for an entry without a config: its file is gone, or is none of those that are checked."""
    reason = (
        f"its file is gone; {_AGAIN}"
        if lock.is_gone(name)
        else f"it is none of the configs that are checked; name it, or take its entry out of {NAME}"
    )
    return Problem(code="DPC403", severity=Severity.ERROR, detail=f"{NAME} holds it, and {reason}")


def _lock_result(case: Case, lock: Lock, costs: Costs) -> Result:
    """Return `passed` if a config is as the lock holds it, else `failed`; an error for standard input or no bound."""
    loaded = case.new
    if loaded is None:
        return error_result(case.path, case.reason)
    if loaded.path == STDIN:
        return error_result(case.path, InputError("lock: expected files, got standard input; a lock needs their names"))
    try:
        guarantee = costs.guarantee(loaded.plan)
    except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
        return error_result(case.path, error)
    problems = tuple(lock_problems(lock, loaded, guarantee))
    verdict = Verdict.FAILED if problems else Verdict.PASSED
    return Result(path=loaded.path, verdict=verdict, guarantee=guarantee, problems=problems)


def _new_entry(lock: Lock, loaded: Loaded, guarantee: Guarantee) -> LockEntry:
    """Return the lock entry of a config: its hash, its sources, and the epsilon and terms of its guarantee."""
    return LockEntry(
        config_hash=loaded.config_hash,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit,
        adjacency=str(guarantee.adjacency),
        group_size=guarantee.group_size,
        sources=lock.sources(loaded),
    )


def _lock_problem(what: str, now: Guarantee, entry: LockEntry | None = None) -> Problem:
    """Return DPC403 "the config <what>", with the epsilons of the entry, if any, and of the config."""
    numbers = {"now": now.epsilon} if entry is None else {"before": entry.epsilon, "now": now.epsilon}
    return Problem(code="DPC403", severity=Severity.ERROR, detail=f"the config {what}", numbers=numbers)


def _checked_entry(name: str, entry: object) -> LockEntry:
    """Return an entry read from JSON, null epsilon as infinity; InputError for a wrong field or a missing one."""
    # A lock of version 0.1.0 has no `sources`: they alone may be missing.
    fields: dict[str, Any] = {"sources": None, **(entry if isinstance(entry, dict) else {})}
    for key, (expected, is_valid) in _ENTRY_FIELDS.items():
        if key not in fields or not is_valid(fields[key]):
            got = visible(json.dumps(fields[key]))[:20] if key in fields else "nothing"
            raise InputError(f"{visible(name)}.{key}: expected {expected}, got {got}")
    checked = {key: fields[key] for key in _ENTRY_FIELDS}
    epsilon = math.inf if checked["epsilon"] is None else float(checked["epsilon"])
    return LockEntry(**(checked | {"epsilon": epsilon, "delta": float(checked["delta"])}))


def _are_sources(value: object) -> bool:
    """Return True for the sources of an entry: texts by key, or None for none."""
    return value is None or (isinstance(value, dict) and all(isinstance(place, str) for place in value.values()))


def _is_number(value: object, max_value: float) -> bool:
    """Return True for a number from 0 to `max_value`; a Boolean, an int for Python, is no number of a lock."""
    return type(value) in {int, float} and 0 <= value <= max_value  # type: ignore[operator]  # NaN fails here


def _is_text(value: object) -> bool:
    """Return True for a string."""
    return isinstance(value, str)


# What an entry's fields are expected to be, in the order in which they are checked.
_ENTRY_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "epsilon": ("a number >= 0 or null", lambda x: x is None or _is_number(x, sys.float_info.max)),
    "delta": ("a number from 0 to 1", lambda x: _is_number(x, 1.0)),
    "group_size": ("a whole number", lambda x: type(x) is int),
    "sources": ("texts by key", _are_sources),
    "config_hash": ("a text", _is_text),
    "unit": ("a text", _is_text),
    "adjacency": ("a text", _is_text),
}
