"""Files that a config may lead to: those of its own git repository; and writing files without half-written states."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

from dpcalc.config.source import (
    MAX_BYTES,
    STDIN,
    ConfigError,
    Mark,
    Source,
    absolute,
    decode,
    git_root,
    leaves_repository,
    read_bytes,
    real_path,
    visible,
)
from dpcalc.errors import InputError, system_message
from dpcalc.records import dataclass

# Of files that references may lead into; `readers.READERS` reads them.
SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".py", ".ipynb", ".gin", ".sh", ".bash")
DATA_SUFFIXES = (".csv", ".tsv", ".npy")  # of data files, which references cannot lead into
MAX_NAME = 300  # characters of a referenced file name


class Refusal(Exception):
    """Reason not to follow a reference; the place that holds the reference makes it a diagnostic.

    The message completes a sentence that begins with the name of the file; the hint says what to do.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code, self.message, self.hint = code, message, hint


def refusal_at(mark: Mark, message: str, hint: str) -> Refusal:
    """Return the refusal of a value, with its place in the file that states it."""
    return Refusal("DPC110", f"line {mark.line}, column {mark.column}: {message}", hint)


class Files(Protocol):
    """Source of referenced files: a directory, or a git revision of one."""

    @property
    def folder(self) -> Path | str:
        """Canonical name of the directory of the config."""

    @property
    def top(self) -> Path | str:
        """Canonical name of the outermost directory that files may lie in."""

    def yaml_files(self, folder: str, *, limit: int) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the YAML files directly in a directory; Refusal for one over `limit` bytes."""

    def locate(self, name: str, holder: str) -> str:
        """Return the canonical name of a file that another file names; Refusal if it may not be read."""

    def content(self, place: str, *, limit: int) -> bytes:
        """Return the bytes of a located file; Refusal if it is larger than `limit` or cannot be read."""


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Context manager that turns the first error of reading a file into a Refusal."""
    try:
        yield
    except ConfigError as cause:
        first = cause.diagnostics[0]
        raise Refusal("DPC111" if first.code == "DPC111" else "DPC110", first.message, first.hint) from None


def text_of(files: Files, place: str) -> Source:
    """Return the text of a located file; Refusal if it cannot be read, is larger than MAX_BYTES, or is not UTF-8."""
    with _refusals():
        return decode(files.content(place, limit=MAX_BYTES), place)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The directory of a config and the repository around it, as a source of files."""

    folder: Path  # of the config
    top: Path  # of its git repository; the same directory outside git

    def locate(self, name: str, holder: str) -> str:
        """Return the real path of a file that another file names; Refusal for an unusual name, place or suffix."""
        refuse_unusual_name(name)
        # What decides is the target, links followed; the written path only tells which sentence fits.
        base = Path(holder).parent if holder else self.folder
        written = Path(os.path.normpath(base / name))
        real = real_path(base / name)
        if not written.is_relative_to(self.top) and not real.is_relative_to(self.top):
            raise Refusal("DPC110", "lies outside the repository", f"references end at {visible(str(self.top))}")
        if not real.is_relative_to(self.top):
            raise Refusal("DPC110", "is a symbolic link that leaves the repository", "refer to a file inside it")
        if real.suffix.lower() not in (*SUFFIXES, *DATA_SUFFIXES) or ".git" in real.relative_to(self.top).parts:
            raise Refusal("DPC110", "is no YAML, JSON, TOML, Python, gin or shell file of the repository", "")
        return str(real)

    def yaml_files(self, folder: str, *, limit: int) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the YAML files directly in a directory, by name, without what is no regular file.

        Refusal for a file over `limit` bytes, or a link that leads out of the repository.
        """
        with contextlib.suppress(OSError):
            for name in sorted(name for name in os.listdir(folder) if name.lower().endswith((".yaml", ".yml"))):
                path = Path(folder, name)
                if not self.holds(path):
                    message = f"`{name}` beside it is a symbolic link that leaves the repository"
                    raise Refusal("DPC110", message, "remove the link")
                try:
                    yield name, read_bytes(str(path), limit=limit)
                except ConfigError as cause:
                    if cause.diagnostics[0].code == "DPC111":
                        raise Refusal(
                            "DPC111", f"`{name}` beside it is too large to be searched", "remove it"
                        ) from None

    def holds(self, path: Path) -> bool:
        """Return True if a path, with links followed, is in the repository."""
        return real_path(path).is_relative_to(self.top)

    def content(self, place: str, *, limit: int) -> bytes:
        """Return the bytes of a located file; Refusal if it is larger than `limit` or cannot be read."""
        with _refusals():
            return read_bytes(place, limit=limit)


def refuse_unusual_name(name: str) -> None:
    """Raise Refusal unless a name is a relative path with `/` of visible characters; `..` is allowed."""
    if len(name) > MAX_NAME or visible(name) != name or "\\" in name or not name:
        raise Refusal("DPC110", "is no plain file name", "write a relative path with `/`, e.g. `conf/train.yaml`")
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or name.startswith("~"):
        raise Refusal("DPC110", "is an absolute path", "write it relative to this file, inside the repository")


def config_folder(path: str) -> Folder:
    """Return the directory in which a config's name lies, with the top of its git repository if there is one."""
    # The folder of the name as given, not of the file that a link leads to.
    folder = Path.cwd() if path in {"-", STDIN} else Path(absolute(path)).parent
    root = git_root(folder)
    return Folder(folder=real_path(folder), top=real_path(root or folder))


def config_source(path: str) -> Source:
    """Return the text of a config, "-" for standard input."""
    return decode(read_bytes(path), STDIN if path == "-" else path)


# Writing files: each function writes all of a file or nothing, and nothing through a link out of the repository.


def refuse_outward_link(path: str) -> None:
    """Raise InputError if links lead the path of a file to write out of the repository in which its name lies."""
    # The user named the file, but whoever filled the repository may have made the link.
    if leaves_repository(path):
        raise InputError(
            f"{path}: expected a file inside the repository, got a symbolic link that leaves it; remove it"
        )


try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MAX_WAIT = 60.0  # seconds to wait for another process
_POLL_INTERVAL = 0.02  # seconds between attempts to get the lock


@contextlib.contextmanager
def exclusive_lock(path: str, *, max_wait: float = MAX_WAIT) -> Iterator[None]:
    """Context manager that locks a file's folder; InputError after `max_wait` seconds or on a system without locks.

    The folder of the file is locked, not the file, since `save` replaces the file by another one. The lock ends with
    the process at the latest, and leaves nothing behind.
    """
    if fcntl is None:
        raise InputError(f"{path}: expected a system with POSIX file locks, got one without; nothing was changed")
    refuse_outward_link(path)
    try:
        folder = os.open(real_path(Path(path)).parent, os.O_RDONLY)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {system_message(error)}") from error
    try:
        end = time.monotonic() + max_wait
        # Polling, since a blocking lock cannot be given a time limit without signals.
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    message = f"expected it to be free within {max_wait:g} s, another dpcalc is changing it"
                    raise InputError(f"{path}: {message}") from None
            time.sleep(_POLL_INTERVAL)
        yield
    finally:
        os.close(folder)


def save(path: str, data: bytes) -> None:
    """Replace the content of an existing file in one step; InputError if it is read-only or no regular file."""
    refuse_outward_link(path)
    try:
        target = Path(os.path.realpath(path, strict=True))
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):  # a device or a pipe would be gone for every process of the machine
            kind = "a folder" if target.is_dir() else "a device or a pipe"
            raise InputError(f"{path}: expected a file, got {kind}; nothing was changed")
        if not status.st_mode & 0o222 or not os.access(target, os.W_OK):  # replacing would not ask
            message = "expected a file that may be written, got a read-only one; nothing was changed"
            raise InputError(f"{path}: {message}")
        with _temporary_file(target, data, like=status) as fresh:
            fresh.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {system_message(error)}; nothing was changed") from error


def create(path: str, data: bytes, *, replaces: bool = False) -> bool:
    """Write a file in one step; return False if the name exists, unless it `replaces` a file or link of that name.

    InputError if it cannot be written.
    """
    refuse_outward_link(path)
    target = Path(path)
    try:
        with _temporary_file(target, data) as fresh:
            if replaces:
                fresh.replace(target)
            else:
                target.hardlink_to(fresh)  # of all ways to give a name only this one never takes it from another file
    except FileExistsError:
        return False
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {system_message(error)}") from error
    return True


def send(path: str, data: bytes) -> None:
    """Write to a device or a pipe, opened without waiting; OSError if it cannot be opened or is a folder."""
    refuse_outward_link(path)
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(f"{path} is a directory")
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb", closefd=False) as stream:
            stream.write(data)
    finally:
        os.close(descriptor)


def is_device(path: str) -> bool:
    """Return True if a path leads to a device, pipe or socket; False for a file, a folder or an unused name."""
    target = Path(path)
    return target.exists() and not target.is_file() and not target.is_dir()


@contextlib.contextmanager
def _temporary_file(target: Path, data: bytes, *, like: os.stat_result | None = None) -> Iterator[Path]:
    """Context manager with a file beside `target` that holds the data, to be renamed; then the folder is synced.

    It has the mode and, where that is allowed, the owner of the file that `like` describes; else those of a new file.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if like is None:
            mask = os.umask(0o077)
            os.umask(mask)
            fresh.chmod(0o666 & ~mask)
        else:
            # The owner before the mode: changing the owner can clear bits of the mode.
            if hasattr(os, "chown"):
                with contextlib.suppress(PermissionError):
                    os.chown(fresh, like.st_uid, like.st_gid)
            fresh.chmod(stat.S_IMODE(like.st_mode))
        yield fresh  # the file gets its name here
        with contextlib.suppress(OSError):  # so that the new name survives a power failure
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        fresh.unlink(missing_ok=True)
