"""Files in another revision of a git repository, read without running anything that the repository names."""

import os
import posixpath
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from dpcalc.config.discovery import is_pattern, matches, split_pattern
from dpcalc.config.files import Refusal, refuse_unusual_name
from dpcalc.config.source import git_root, visible
from dpcalc.errors import InputError
from dpcalc.records import dataclass

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
        try:
            top, parts = split_pattern(joined)
        except ValueError:  # a pattern that nothing can match
            return ()
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
