"""A bar on standard error while an answer takes longer than a second, for a person at a terminal.

It moves to and fro until somebody tells how much of the work is done.
"""
# ruff: noqa: PLC0415  rich is loaded only when there is something to draw

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before the bar appears
_REFRESH = 0.1  # seconds between two looks at what was told
_told: list[float] = []  # the part that is done, if anybody told


def tell(part: float) -> None:
    """Tell which part of the work is done, from 0 to 1."""
    _told[:] = [part]


@contextmanager
def progress() -> Iterator[None]:
    """Shows that work goes on; draws nothing off a terminal, and leaves nothing on it."""
    _told.clear()
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    artist = threading.Thread(target=_draw, args=(done,), daemon=True)
    artist.start()
    try:
        yield
    finally:
        done.set()
        artist.join()


def _draw(done: threading.Event) -> None:
    """The bar, until the work is done."""
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("computing"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        while not done.wait(_REFRESH):
            for part in tuple(_told):
                bar.update(task, total=1.0, completed=part)
