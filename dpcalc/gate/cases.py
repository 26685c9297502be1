"""Configs that a gate judges, each read from its file and paired with the same config in a base revision."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from dpcalc.config.files import Refusal, git_root
from dpcalc.config.load import NO_OVERRIDES, Loaded, load, load_text
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import MAX_BYTES, ConfigError, Severity, decode, visible
from dpcalc.errors import InputError
from dpcalc.gate.costs import cost_relevant
from dpcalc.gate.diff import ConfigPair, config_pair
from dpcalc.gate.revision import Revision, Snapshot, UnknownRevisionError, find_revision
from dpcalc.gate.verdict import Problem
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass


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


# Cases: configs with their bases.


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
        """Yield the plans whose costs are needed: new, old, with single changes; without a base the new, or none."""
        if self.pair is not None:
            yield from self.pair.plans
        elif self.new is not None:
            yield cost_relevant(self.new.plan)


def cases(paths: Iterable[str], reader: ConfigReader) -> tuple[Case, ...]:
    """Return a Case for each path, in order, with any base; a wrong file's holds its error; or UnknownRevisionError.

    Args:
        paths: config files; "-" is standard input.
        reader: reads each file and, if it has a base revision, the same file there.

    Raises:
        UnknownRevisionError: the base revision does not exist.
    """
    find = cache(partial(find_revision, reader.base))  # once for each folder, so that all files see the same commit
    return tuple(_case(path, reader, find) for path in paths)


def two_files(old: str, new: str, reader: ConfigReader) -> Case:
    """Return the Case of file `new` with file `old` as its base; if either is unreadable, a Case with that error.

    Args:
        old: path of the older config, to compare with.
        new: path of the config to judge.
        reader: reads both files; its base revision is ignored.
    """
    try:
        before = reader.load(old)
    except Exception as error:  # noqa: BLE001  as above
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
    """Return the Case of a config with its base, or DPC406 if missing, wrong there; InputError: stdin, submodule."""
    if path == "-":
        raise InputError("--base: expected files that git knows, got standard input; name the file")
    revision = find(Path(path).absolute().parent)
    try:
        old = _load_old(path, revision, reader)
    except (ConfigError, Refusal) as cause:
        first = cause.diagnostics[0].message if isinstance(cause, ConfigError) else cause.message
        return Case(
            path=path,
            new=new,
            problems=(_not_compared(f"cannot be read in {revision.name}: {first}", Severity.WARNING),),
        )
    if old is None:
        _refuse_inner_repository(path, revision)
        return Case(path=path, new=new, problems=(_not_compared(f"is not in {revision.name}", Severity.NOTE),))
    return Case(path=path, new=new, pair=config_pair(revision.name, old, new))


def _load_old(path: str, revision: Revision, reader: ConfigReader) -> Loaded | None:
    """Return a config as it was in a revision, if renamed under its old name; None if the revision lacks the file."""
    place = revision.path_from_top(path)
    data = revision.content(place, limit=MAX_BYTES)
    # Renames are asked for only where the file is missing: git compares the whole tree for them.
    if data is None and place in revision.old_names:
        place = revision.old_names[place]
        data = revision.content(place, limit=MAX_BYTES)
    if data is None:
        return None
    name = f"{revision.name}:{place}"
    return load_text(
        decode(data, name).text,
        path=name,
        key=reader.key,
        overrides=reader.overrides,
        files=Snapshot(revision=revision, folder=str(Path(place).parent)),
    )


def _refuse_inner_repository(path: str, revision: Revision) -> None:
    """Raise InputError if the nearest git repository around a file is not that of the revision."""
    # Only the inner repository, for example a submodule, knows earlier versions of that file.
    nearest = git_root(Path(os.path.abspath(path)).parent)  # noqa: PTH100  links stay
    if nearest is not None and nearest.resolve() != revision.root.resolve():
        place = visible(revision.path_from_top(str(nearest)))
        expectation = f"expected a file of this repository, got one of another repository in it ({place})"
        raise InputError(f"--base: {expectation}; check it there, or without --base")


def _not_compared(reason: str, severity: Severity) -> Problem:
    """Return the problem DPC406: there is nothing to compare with."""
    return Problem(code="DPC406", severity=severity, detail=f"nothing to compare with: it {visible(reason)}")
