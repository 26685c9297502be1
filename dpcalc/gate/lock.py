"""Lock file `dpcalc.lock`: hash, cost and promises of each config at its last review."""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpcalc.config.discovery import folders_to_search, is_pattern, matches, split_pattern
from dpcalc.config.files import config_folder
from dpcalc.config.load import Loaded
from dpcalc.config.readers import RepeatedKeyError, json_content
from dpcalc.config.source import STDIN, Diagnostic, Severity, decode, read_bytes, visible
from dpcalc.errors import InputError
from dpcalc.gate.costs import Costs
from dpcalc.gate.diff import Case, source_names
from dpcalc.gate.verdict import Result, Verdict, error_result, finding
from dpcalc.guarantee import Guarantee, Kind
from dpcalc.records import dataclass
from dpcalc.report.rounding import BARE_DIGITS, before_and_after, rounded_up

NAME = "dpcalc.lock"
VERSION = 1
ACCURACY = 2e-5  # relative; a lock holds six digits, and other processors round the last of sixteen differently
_AGAIN = "`dpcalc lock` writes it anew"
_REMOVE = "remove it, and `dpcalc lock` writes it anew"
_MAX_BYTES = 4 * 1024 * 1024  # of a lock file, about 10,000 configs; a larger one is refused unread


Entry = dict[str, Any]
"""The record of one config: the hash of its meaning, and its guarantee, epsilon an upper bound or conditional.

`sources` has "FILE:KEY" by dotted key for values that references or aliases lead to, files relative to the lock; a lock
of version 0.1.0 has none. `kind` is left out for an upper bound."""


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file, by its absolute path.

    `entries` are by the name of a config: its path relative to the lock, with ":SECTION" for a part of a file.
    """

    path: str
    entries: Mapping[str, Entry]

    def entry_name(self, loaded: Loaded) -> str:
        path = self.relative_path(loaded.path)
        return f"{path}:{loaded.section}" if loaded.section else path

    def relative_path(self, path: str) -> str:
        """Return the path of a file relative to the directory of the lock."""
        return Path(os.path.relpath(os.path.abspath(path), Path(self.path).parent)).as_posix()

    def sources(self, loaded: Loaded) -> dict[str, str]:
        """Return {dotted key: "FILE:KEY"} for values that references lead to, sorted; files relative to the lock."""
        return dict(sorted(source_names(loaded, Path(self.path).parent.resolve()).items()))

    def path_and_section(self, name: str) -> tuple[str, str]:
        """Split an entry's name "PATH:SECTION" into a path from the current directory and a section, or ""."""
        # A colon may stand in the name of a file, too; a file that is there decides.
        path = os.path.relpath(Path(self.path).parent / name)
        before, colon, section = name.rpartition(":")
        if os.path.lexists(path) or not colon:
            return path, ""
        return os.path.relpath(Path(self.path).parent / before), section

    def config_files(self, only_section: str = "") -> tuple[tuple[str, str], ...]:
        """Return (path, section or "") of each entry whose file exists; InputError for one outside the repository."""
        entries = [self.path_and_section(name) for name in sorted(self.entries)]
        inside = config_folder(self.path)
        for path, _ in entries:
            if not inside.holds(Path(os.path.abspath(path))):
                expected = f"expected entries of files below {visible(str(inside.top))}, got {visible(path)}"
                raise InputError(f"{visible(self.path)}: {expected}; name the configs, or take the entry out")
        present = ((path, section) for path, section in entries if os.path.lexists(path))
        return tuple((path, section) for path, section in present if only_section in {"", section})

    def text(self) -> str:
        """Return the content of the file: JSON of its entries sorted by path, epsilons rounded up to six digits."""
        configs = {}
        for name, entry in sorted(self.entries.items()):
            epsilon = entry["epsilon"]
            rounded = float(rounded_up(epsilon, digits=BARE_DIGITS)) if math.isfinite(epsilon) else None
            configs[name] = {**entry, "epsilon": rounded}
        return json.dumps({"version": VERSION, "configs": configs}, indent=2, allow_nan=False) + "\n"


def lock_path(folder: Path) -> Path:
    """Return the path of the nearest `dpcalc.lock` upwards, else of a new one at the top of the repository."""
    folders = folders_to_search(folder)
    return next((folder / NAME for folder in folders if (folder / NAME).is_file()), folders[-1] / NAME)


def read_or_new_lock(path: Path) -> Lock:
    """Return the lock file at a path, an empty lock if there is none; raise InputError like `read_lock`."""
    return read_lock(path) if path.is_file() else Lock(path=str(path), entries={})


def _is_number(value: object, max_value: float) -> bool:
    """Return True for a number from 0 to `max_value`; a Boolean, an int for Python, is no number of a lock."""
    return type(value) in {int, float} and 0 <= value <= max_value  # type: ignore[operator]  # NaN fails here


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# What an entry's fields are expected to be, in the order of the file.
_ENTRY_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "config_hash": ("a text", _is_text),
    "epsilon": ("a number >= 0 or null", lambda x: x is None or _is_number(x, sys.float_info.max)),
    "delta": ("a number from 0 to 1", lambda x: _is_number(x, 1.0)),
    "unit": ("a text", _is_text),
    "adjacency": ("a text", _is_text),
    "group_size": ("a whole number", lambda x: type(x) is int),
    "kind": ("a text", _is_text),
    "sources": ("texts by key", lambda x: x is None or (isinstance(x, dict) and all(map(_is_text, x.values())))),
}
_ABSENT = {"sources": None, "kind": str(Kind.UPPER)}  # what an entry without such a field says


def read_lock(path: Path) -> Lock:
    """Read a lock file; InputError if it is missing, malformed, of another version, or a link out of the repository."""
    if not path.is_file():
        raise InputError(f"--locked: expected {visible(str(path))}, got no such file; `dpcalc lock` writes it")
    shown = visible(str(path))
    try:
        data = read_bytes(str(path), limit=_MAX_BYTES)
        content: Any = json_content(decode(data, str(path), shows_lines=False, limit=_MAX_BYTES).text)
        version = content["version"]
        configs = {str(name): entry for name, entry in content["configs"].items()}
    except RepeatedKeyError as cause:
        raise InputError(f"{shown}: {cause}, or {_REMOVE}") from None
    except InputError:
        raise  # it is a ValueError too
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{shown}: expected a file that `dpcalc lock` wrote, got another one; {_REMOVE}") from None
    if version != VERSION:
        raise InputError(f"{shown}: expected version {VERSION}, got {visible(repr(version))[:20]}; {_REMOVE}")
    entries = {}
    for name, entry in configs.items():
        # A lock of version 0.1.0 has no `sources`, and few have a kind: these alone may be missing.
        fields: Entry = {**_ABSENT, **(entry if isinstance(entry, dict) else {})}
        for key, (expected, is_valid) in _ENTRY_FIELDS.items():
            if key not in fields or not is_valid(fields[key]):
                got = visible(json.dumps(fields[key]))[:20] if key in fields else "nothing"
                raise InputError(f"{shown}: {visible(name)}.{key}: expected {expected}, got {got}; {_REMOVE}")
        epsilon = math.inf if fields["epsilon"] is None else float(fields["epsilon"])
        checked = {**fields, "epsilon": epsilon, "delta": float(fields["delta"])}
        entries[name] = {key: checked[key] for key in _ENTRY_FIELDS if (key, checked[key]) not in _ABSENT.items()}
    return Lock(path=str(path), entries=entries)


def lock_problems(lock: Lock, loaded: Loaded, now: Guarantee) -> list[Diagnostic]:
    """Return DPC403 for the first of: no entry, another hash, moved sources (each), epsilon off by over 2e-5."""
    # One finding a config, the most telling: where the hash differs, sources and epsilon may differ as its effect.
    entry, sources = lock.entries.get(lock.entry_name(loaded)), lock.sources(loaded)
    before = None if entry is None else entry.get("sources")
    if entry is None:
        message = f"the config is not in {NAME}; epsilon is {rounded_up(now.epsilon)}"
    elif entry["config_hash"] == loaded.config_hash and before is not None and before != sources:
        problems = []
        # The training code may still read the old place.
        for key in sorted({*before, *sources}):
            if before.get(key) != sources.get(key):
                was, says = (
                    f"read from `{places[key]}`" if key in places else "stated here" for places in (before, sources)
                )
                moved = f"{key} is {says}; {NAME} holds it as {was}"
                problems.append(finding("DPC403", Severity.ERROR, moved, loaded.path, loaded.mark(key)))
        return problems
    else:
        what = f"is not what {NAME} holds"
        if entry["config_hash"] == loaded.config_hash:
            if math.isclose(entry["epsilon"], now.epsilon, rel_tol=ACCURACY):
                return []
            what = f"is what {NAME} holds, and costs something else (another version of dpcalc?)"
        was = entry["epsilon"]
        change = "" if was == now.epsilon else f": epsilon {before_and_after(was, now.epsilon)}"
        message = f"the config {what}{change}"
    return [finding("DPC403", Severity.ERROR, message, loaded.path)]


def updated_lock(cases: Sequence[Case], lock: Lock, *, costs: Costs) -> tuple[tuple[Result, ...], Lock]:
    """Return a result for each config, and the lock with a new entry for each config that has a bound."""
    costs.compute_files((case.path, plan) for case in cases for plan in case.plans)
    # A call may name one config of many: what it does not name is still as it was reviewed.
    results, entries = [], dict(lock.entries)
    for case in cases:
        loaded = case.new
        try:
            if loaded is None:
                raise case.error
            if loaded.path == STDIN:
                raise InputError("lock: expected files, got standard input; a lock needs their names")
            guarantee = costs.guarantee(loaded.plan)
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            results.append(error_result(case.path, error))
            continue
        problems = tuple(lock_problems(lock, loaded, guarantee))
        verdict = Verdict.FAILED if problems else Verdict.PASSED
        results.append(Result(path=loaded.path, verdict=verdict, guarantee=guarantee, problems=problems))
        entries[lock.entry_name(loaded)] = {
            "config_hash": loaded.config_hash,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "unit": guarantee.unit,
            "adjacency": str(guarantee.adjacency),
            "group_size": guarantee.group_size,
            **({} if guarantee.kind is Kind.UPPER else {"kind": str(guarantee.kind)}),
            "sources": lock.sources(loaded),
        }
    return tuple(results), Lock(path=lock.path, entries=entries)


def missing_configs(cases: Sequence[Case], lock: Lock, *, config_args: Sequence[str] | None) -> tuple[Result, ...]:
    """Return a failed result for each entry whose config a call must check and does not.

    It must after a search, or if the file is gone, or if a CONFIG with `*`, relative to the current directory, matches
    the file: other files are another call's.
    """
    known = {lock.entry_name(case.new) for case in cases if case.new is not None}
    # A file that cannot be read has an error of its own; its entry is not called stale as well.
    broken = {lock.relative_path(case.path) for case in cases if case.new is None}
    broken_sections = tuple(f"{path}:" for path in broken)
    results = []
    for name in sorted(lock.entries):
        if name in known or name in broken or name.startswith(broken_sections):
            continue
        file, _ = lock.path_and_section(name)
        path, is_gone = Path(file).as_posix(), not os.path.lexists(file)
        patterns = (
            split_pattern(Path(os.path.relpath(word)).as_posix()) for word in config_args or () if is_pattern(word)
        )
        if (
            config_args is None
            or is_gone
            or any(
                matches(path.removeprefix(f"{start}/" if start else "").split("/"), parts)
                for start, parts in patterns
                if not start or path.startswith(f"{start}/")
            )
        ):
            unchecked = f"it is none of the configs that are checked; name it, or take its entry out of {NAME}"
            reason = f"its file is gone; {_AGAIN}" if is_gone else unchecked
            problem = finding("DPC403", Severity.ERROR, f"{NAME} holds it, and {reason}", name)
            results.append(Result(path=name, verdict=Verdict.FAILED, problems=(problem,)))
    return tuple(results)
