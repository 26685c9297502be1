"""`--plot FILE`: a picture written beside the answer."""

from __future__ import annotations

from collections.abc import Callable


def written(path: str, picture: Callable[[str], bytes]) -> str:
    """Write a picture as a whole or not at all.

    Args:
        path: the file; its ending is the format.
        picture: the content, by the format.

    Returns:
        The remark on it.

    Raises:
        InputError: there is no such format, nothing to draw with, or the file cannot be written.
    """
    from dpcalc.config.saving import create, save  # noqa: PLC0415  only for pictures
    from dpcalc.report.plot import picture_format  # noqa: PLC0415  likewise

    data = picture(picture_format(path))
    if not create(path, data):
        save(path, data)
    return f"note: wrote {path}"
