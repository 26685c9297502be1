"""Files that commands write beside their result: `--output`, `--csv`, `--plot`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dpcalc.errors import InputError


def write_file(option: str, path: str, data: bytes, *, force: bool) -> None:
    """Write a file as a whole or not at all; InputError if it exists without `force`, or cannot be written.

    Args:
        option: the option that names the file, for the message.
        path: the file.
        data: its content.
        force: whether an existing file is overwritten.

    Raises:
        InputError: the file exists and `force` is False, or it cannot be written.
    """
    from dpcalc.config.files import create, save

    if not create(path, data):
        if not force:
            raise file_exists_error(option, path)
        save(path, data)


def file_exists_error(option: str, path: str) -> InputError:
    """Return the error for a file that exists.

    Args:
        option: the option that names it.
        path: the file.
    """
    return InputError(f"{option}: {path} already exists; use --force to overwrite it")


def check_picture(path: str) -> None:
    """Raise InputError before the work if the picture cannot be written.

    Args:
        path: the file; its ending is the format.

    Raises:
        InputError: the format is unknown, the plotting library is missing, or the file cannot be written.
    """
    from dpcalc.charts.plot import picture_format

    picture_format(path)
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"--plot: expected a file in an existing folder, got {path}")
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise InputError(f"--plot: expected a file that may be written, got a read-only one, {path}")


def write_picture(path: str, picture: Callable[[str], bytes]) -> str:
    """Write a picture as a whole or not at all, over an old one; return the remark on it; or InputError.

    Args:
        path: the file; its ending is the format.
        picture: returns the content in a format.

    Raises:
        InputError: the file cannot be written.
    """
    from dpcalc.charts.plot import picture_format

    write_file("--plot", path, picture(picture_format(path)), force=True)
    return f"note: wrote {path}"
