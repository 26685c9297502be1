"""Writing a file as a whole or not at all."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dpcalc.errors import InputError, reason

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 60.0  # seconds to wait for another process
_PAUSE = 0.02


@contextlib.contextmanager
def alone(path: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Let no other process that asks for the same change a file meanwhile.

    What is locked is the folder of the file, since `save` puts another file in its place; the lock ends with the
    process at the latest, and leaves nothing behind.

    Args:
        path: a file that is there or shall be.
        patience: seconds to wait for others.

    Raises:
        InputError: others took too long, there is no such folder, or the system has no such locks.
    """
    if fcntl is None:
        raise InputError(f"{path}: expected a system with POSIX file locks, got one without; nothing was changed")
    try:
        folder = os.open(Path(path).resolve().parent, os.O_RDONLY)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error
    try:
        end = time.monotonic() + patience
        while not _locked(folder):
            if time.monotonic() > end:
                raise InputError(f"{path}: expected it to be free within {patience:g} s, another dpcalc is changing it")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(folder)


def _locked(descriptor: int) -> bool:
    """Whether nobody else has the lock, and so this process now has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def save(path: str, data: bytes) -> None:
    """Replace the content of a file in one step: readers see the old or the new one, also after Ctrl-C.

    Args:
        path: an existing file; of a symbolic link the file it leads to.
        data: the new content. Permissions stay, and the owner where that is allowed.

    Raises:
        InputError: the file is read-only or its folder cannot be written.
    """
    try:
        target = Path(path).resolve(strict=True)
        status = target.stat()
        if not status.st_mode & 0o222 or not os.access(target, os.W_OK):  # replacing would not ask
            raise InputError(f"{path}: expected a file that may be written, got a read-only one; nothing was changed")
        _replace(target, data, status)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}; nothing was changed") from error


def create(path: str, data: bytes) -> bool:
    """Write a new file in one step: nobody sees a part of it, and no other file is lost.

    Args:
        path: where it shall be.
        data: the content.

    Returns:
        Whether it was written: not where something is already.

    Raises:
        InputError: the folder cannot be written.
    """
    target = Path(path)
    try:
        with _beside(target, data) as fresh:
            fresh.chmod(0o666 & ~_umask())
            target.hardlink_to(fresh)  # of all ways to give a name only this one never takes it from another file
            _settle(target.parent)
    except FileExistsError:
        return False
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error
    return True


def put(path: str, data: bytes) -> None:
    """Write a file in one step, in the place of whatever file or symbolic link has its name.

    Args:
        path: where it shall be; a link of that name is replaced and not followed.
        data: the content.

    Raises:
        InputError: the folder cannot be written, or a folder has that name.
    """
    target = Path(path)
    try:
        with _beside(target, data) as fresh:
            fresh.chmod(0o666 & ~_umask())
            fresh.replace(target)
            _settle(target.parent)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error


def _replace(target: Path, data: bytes, status: os.stat_result) -> None:
    """Write a file beside another one and give it that one's name."""
    with _beside(target, data) as fresh:
        if hasattr(os, "chown"):
            with contextlib.suppress(PermissionError):
                os.chown(fresh, status.st_uid, status.st_gid)
        fresh.chmod(stat.S_IMODE(status.st_mode))
        fresh.replace(target)
        _settle(target.parent)


def _umask() -> int:
    """Return the permissions that new files of this process lack; reading it needs setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _settle(folder: Path) -> None:
    """Have the new name of a file survive a power failure, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _beside(target: Path, data: bytes) -> Iterator[Path]:
    """A written file in the folder of another one; in the end nothing has its first name."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
