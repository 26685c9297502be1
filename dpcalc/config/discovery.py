"""Search for the config of a command that names none, and for files that match a pattern."""

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

from dpcalc.config.files import Folder, Refusal
from dpcalc.config.readers import parse_toml
from dpcalc.config.source import (
    STDIN,
    ConfigError,
    absolute,
    decode,
    git_root,
    leaves_repository,
    read_bytes,
    real_path,
    visible,
    whole_file,
)
from dpcalc.errors import InputError, system_message
from dpcalc.records import dataclass

VARIABLE = "DPCALC_CONFIG"
NAMES = ("dpcalc.yaml", "dpcalc.yml")
PYPROJECT = "pyproject.toml"
MAX_CONFIGS = 1000  # files that `tool.dpcalc.configs` may lead to
MAX_PATTERNS = 100  # entries with `*`, each of which searches the folders
_SHOWN = 5  # names in a note
_WAY_OUT = "--no-config does without it"


@dataclass(frozen=True, kw_only=True)
class DiscoveredConfigs:
    """Configs found without being named on the command line."""

    paths: tuple[str, ...]  # at least one, relative to the current directory
    origin: str = ""  # the environment variable or `[tool.dpcalc]`; "" for a file found by its own name

    @property
    def only(self) -> str:
        """Path of the only config; InputError, with the first five names, if there are several."""
        if len(self.paths) > 1:
            several = f"expected one config, got {len(self.paths)} ({self._names}); name the one you mean"
            raise InputError(f"{self.origin}: {several}")
        return self.paths[0]

    def __str__(self) -> str:
        """Return the note for the user, such as "using ./dpcalc.yaml"."""
        return f"using {self._names} ({visible(self.origin)})" if self.origin else f"using {self._names}"

    @property
    def _names(self) -> str:
        more = [f"and {len(self.paths) - _SHOWN} more"] if len(self.paths) > _SHOWN else []
        return ", ".join([*map(visible, self.paths[:_SHOWN]), *more])


def find_configs(current: Path, environment: Mapping[str, str]) -> DiscoveredConfigs | None:
    """Find the configs that apply if none is named; None without any, InputError if they are ambiguous or wrong.

    The file in DPCALC_CONFIG; else, from the current directory upwards to the top of the git repository (outside
    git only here), `dpcalc.yaml` or `dpcalc.yml`, then `[tool.dpcalc] configs` of `pyproject.toml`; else None.
    """
    named = environment.get(VARIABLE)
    if named:
        return DiscoveredConfigs(paths=(named,), origin=VARIABLE)
    # Upwards to the repository's top and no further: a file above it is somebody else's.
    for folder in folders_to_search(current):
        names = [name for name in NAMES if (folder / name).is_file()]
        if names:
            path = relative_name(folder / names[0], current)
            if len(names) > 1:
                message = f"stands beside `{names[1]}`: which one is meant?"
                raise whole_file(path, "DPC107", message, "delete or rename one")
            return DiscoveredConfigs(paths=(path,))
        project = folder / PYPROJECT
        shown = relative_name(project, current)
        if not project.is_file():
            continue
        try:
            data = read_bytes(str(project))
        except ConfigError as cause:
            first = cause.diagnostics[0]
            raise whole_file(shown, first.code, first.message, _WAY_OUT) from None
        table = project_table(data, shown)
        patterns = every_pattern(table, shown)
        if patterns:
            # A pull request can write `../../secrets/*.yaml` here: entries end at the repository, links followed.
            place = Folder(folder=folder.resolve(), top=(git_root(folder) or folder).resolve())
            files: dict[str, None] = {}
            for pattern in patterns:
                entry = f"`tool.dpcalc.configs`: `{pattern}`"
                try:
                    matching = [pattern]
                    if is_pattern(pattern):
                        if not place.holds(folder / split_pattern(pattern)[0]):
                            raise Refusal("DPC110", "lies outside the repository", "")  # without a search there
                        matching = matching_names(folder, pattern)
                    for name in matching:
                        place.locate(name, "")
                except Refusal as cause:
                    raise whole_file(shown, cause.code, f"{entry} {cause.message}", cause.hint) from None
                except InputError as cause:
                    message = f"`tool.dpcalc.configs`: {cause}"
                    raise whole_file(shown, "DPC111", message, "write narrower patterns") from None
                except ValueError as cause:
                    raise whole_file(shown, "DPC110", f"{entry} cannot be used: {cause}", "") from None
                if not matching:
                    message = f"`tool.dpcalc.configs`: nothing matches `{pattern}`"
                    raise whole_file(shown, "DPC110", message, "check the pattern")
                files |= dict.fromkeys(matching)
            maps = maps_table(table, shown).values()
            paths = tuple(relative_name(folder / name, current) for name in files if name not in maps)
            if not paths:
                message = "`tool.dpcalc.maps`: its patterns match nothing but maps, which are for other files"
                raise whole_file(shown, "DPC110", message, "name the training files")
            return DiscoveredConfigs(paths=paths, origin=f"[tool.dpcalc] in {shown}")
    return None


def folders_to_search(current: Path) -> tuple[Path, ...]:
    """Return the current directory and its parents up to the top of its git repository; outside git only itself."""
    root = git_root(current)
    upwards = (current, *current.parents)
    return upwards[: upwards.index(root) + 1] if root is not None else (current,)


def every_pattern(table: Mapping[str, object], shown: str) -> list[str]:
    """Return what [tool.dpcalc] names as configs: `configs`, its own file for a table `run`, and files of its maps."""
    patterns = table.get("configs", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        message = "`tool.dpcalc.configs` must be a list of file names"
        raise whole_file(shown, "DPC102", message, 'write e.g. `configs = ["configs/*.yaml"]`')
    counts = (("names", len(patterns), MAX_CONFIGS), ("patterns", sum(map(is_pattern, patterns)), MAX_PATTERNS))
    for kind, number, limit in counts:
        if number > limit:
            message = f"`tool.dpcalc.configs` must hold at most {limit} {kind}, got {number}"
            raise whole_file(shown, "DPC111", message, "write fewer, wider patterns")
    return [*patterns, *([PYPROJECT] if "run" in table else []), *maps_table(table, shown)]


def project_table(data: bytes, shown: str) -> dict[str, object]:
    """Return the table [tool.dpcalc] of a pyproject.toml; ConfigError if the file is invalid."""
    try:
        return dpcalc_table(parse_toml(decode(data, shown, shows_lines=False)))
    except ConfigError:
        raise  # it is a ValueError too
    except Refusal as cause:
        raise whole_file(shown, cause.code, cause.message, _WAY_OUT) from None
    except (ValueError, RecursionError) as cause:
        raise whole_file(shown, "DPC100", f"cannot be read as TOML: {cause}", _WAY_OUT) from None


def dpcalc_table(content: Mapping[str, object]) -> dict[str, object]:
    """Return the table [tool.dpcalc] of a parsed `pyproject.toml`; {} if it has none, or something else there."""
    tool = content.get("tool")
    table = tool.get("dpcalc") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else {}


# Maps: `[tool.dpcalc.maps]` names one config for many training files, each of which is the root of its references.


def map_of(path: str) -> str | None:
    """Return the path of the map of a file, by the nearest table of maps above it; None if there is none."""
    if path in {"-", STDIN}:
        return None
    file = Path(absolute(path))
    for folder in folders_to_search(file.parent):
        project = folder / PYPROJECT
        if not os.path.isfile(project) or file == project:  # false for a name that no file can have
            continue
        data = read_bytes(str(project))
        if b"maps" not in data:
            continue
        shown = str(project)
        name = mapped_by(maps_table(project_table(data, shown), shown), file.relative_to(folder).as_posix(), shown)
        if name:
            place = Folder(folder=real_path(folder), top=real_path(git_root(folder) or folder))
            try:
                place.locate(name, "")
            except Refusal as cause:
                message = f"`tool.dpcalc.maps`: `{name}` {cause.message}"
                raise whole_file(os.path.relpath(project), cause.code, message, cause.hint) from None
            return os.path.relpath(folder / name)
    return None


def maps_table(ours: Mapping[str, object], shown: str) -> dict[str, str]:
    """Return the maps of [tool.dpcalc], by their patterns; ConfigError if they are no names, or too many."""
    table = ours.get("maps", {})
    is_table = isinstance(table, dict) and all(isinstance(x, str) and x for x in (*table.keys(), *table.values()))
    if not is_table or not isinstance(table, dict):
        message = "`tool.dpcalc.maps` must be a table of names of maps, by patterns of files"
        raise whole_file(shown, "DPC102", message, 'write e.g. `"configs/**/train*.yaml" = "dp.map.yaml"`')
    if len(table) > MAX_PATTERNS:
        message = f"`tool.dpcalc.maps` must hold at most {MAX_PATTERNS} patterns, got {len(table)}"
        raise whole_file(shown, "DPC111", message, "write fewer, wider patterns")
    return table


def mapped_by(table: Mapping[str, str], name: str, shown: str) -> str:
    """Return the map of a file, named from the folder of the table; "" for none, ConfigError for several maps."""
    found = {}
    for pattern, target in table.items():
        start, parts = split_usable(pattern)
        rest = PurePosixPath(name).parts
        above = PurePosixPath(start).parts
        is_below = rest[: len(above)] == above
        if is_below and (matches(rest[len(above) :], parts) if len(rest) > len(above) else not parts):
            found[target] = pattern
    own = {target for target in found if PurePosixPath(target) == PurePosixPath(name)}  # a map is for others
    if len(found) - len(own) > 1:
        several = " and ".join(f"`{pattern}`" for pattern in found.values())
        message = f"`tool.dpcalc.maps`: {several} name different maps for `{name}`"
        raise whole_file(shown, "DPC107", message, "keep one of them, or write narrower patterns")
    return "" if own else next(iter(found), "")


def matching_names(folder: Path, pattern: str) -> list[str]:
    """Return existing paths that a relative pattern matches, sorted; [] for an absolute one, InputError if too many."""
    if Path(pattern).is_absolute():
        return []
    start, parts = split_usable(pattern)
    if not parts or leaves_repository(str(folder / start)):  # such a link is refused where it is read
        return [start] if os.path.lexists(folder / start) else []
    matches = list(islice(paths_matching(folder / start, parts), MAX_CONFIGS + 1))
    if len(matches) > MAX_CONFIGS:
        raise InputError(f"{visible(pattern)}: expected a pattern for at most {MAX_CONFIGS} files, got more")
    return [path.relative_to(folder).as_posix() for path in sorted(matches)]


def relative_name(path: Path, current: Path) -> str:
    """Return a path relative to a directory, beginning with `./` or `../`."""
    relative = os.path.relpath(path, current)
    return relative if relative.startswith(os.pardir) else os.path.join(os.curdir, relative)


# File name patterns: `*` stays within a directory, `**` stands for any number of directories.
#
# The author of a pull request chooses patterns and folders, so matching must not take exponential time. The functions
# below keep the set of pattern parts that may match next (the states of an automaton), numbered from 0, instead of
# backtracking: the time is proportional to the directories times the parts, also for `**/*/**/*/**`.

ANY_DEPTH = "**"
MAX_PARTS = 100  # of a pattern; paths in repositories have ten
MAX_LINKS = 1000  # links to directories that are followed; links among siblings make exponentially many paths


def is_pattern(name: str) -> bool:
    """Return True if a name contains `*`."""
    return "*" in name


def split_pattern(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Split a pattern before its first wildcard into a path and parts; ValueError for more than MAX_PARTS parts."""
    parts = posixpath.normpath(pattern).split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    # `**/**` matches what `**` does
    tail = [part for at, part in enumerate(parts) if at >= first and not (at and part == parts[at - 1] == ANY_DEPTH)]
    if len(tail) > MAX_PARTS:
        raise ValueError(f"expected at most {MAX_PARTS} parts between slashes, got {len(tail)}")
    if "\0" in pattern:
        raise ValueError("expected no null character")
    return "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ""), tuple(tail)


def split_usable(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Split a pattern; one that `split_pattern` refuses, and that nothing can match, into a part that no name has."""
    try:
        return split_pattern(pattern)
    except ValueError:
        return "", ("/",)


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return True if a file's path matches a pattern, case-sensitively; a `**` at its end matches directories only."""
    *folders, file = names
    states = _reachable({0}, parts)
    for name in folders:
        ahead, anywhere = _after(states, name, parts)
        states = _reachable(ahead | anywhere, parts)
    return len(parts) in _after(states, file, parts)[0]


def paths_matching(top: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the matching paths below `top`; `**` follows no links; InputError for over MAX_LINKS links to folders.

    A link is followed where `*` or a name matches it, but not by `**`.
    """
    links = 0
    pending = [(top, _reachable({0}, parts))]
    while pending:
        folder, states = pending.pop()
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except OSError as error:
            raise InputError(f"{visible(str(folder))}: cannot be read: {system_message(error)}") from None
        for entry in entries:
            path, is_link = folder / entry.name, entry.is_symlink()
            ahead, anywhere = _after(states, entry.name, parts)
            if len(parts) in ahead:
                yield path
            # `**` does not follow links, which may lead back upwards; a link that the pattern names is the author's
            # choice.
            below = (ahead if is_link else ahead | anywhere) - {len(parts)}
            if not below or not entry.is_dir():
                continue
            if is_link and leaves_repository(entry.path):
                yield path  # nothing is searched there; reading it says why
                continue
            links += is_link
            if links > MAX_LINKS:
                raise InputError(f"{visible(str(top))}: expected at most {MAX_LINKS} links to folders, got more")
            pending.append((path, _reachable(below, parts)))


def _reachable(states: set[int], parts: Sequence[str]) -> set[int]:
    """Return `states` and the indices after each `**` in them, which may match no directory at all."""
    reachable = set(states)
    for at in states:
        while at < len(parts) and parts[at] == ANY_DEPTH:
            at += 1  # noqa: PLW2901
            reachable.add(at)
    return reachable


def _after(states: set[int], name: str, parts: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return the indices behind the parts of `states` that match a name, and those at a `**`, which stay possible."""
    inside = {at for at in states if at < len(parts)}
    anywhere = {at for at in inside if parts[at] == ANY_DEPTH}
    return {at + 1 for at in inside - anywhere if fnmatchcase(name, parts[at])}, anywhere
