"""Entry point of the `dpcalc` command."""

import gc
import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path:
    # `python -m dpcalc` puts the current directory first, which may hold anybody's `json.py`; nothing was imported
    # from there yet but dpcalc itself, if it is there. `python -P -m dpcalc` does not look there even for that.
    del sys.path[0]

import signal

_INTERRUPT = signal.getsignal(signal.SIGINT)
if _INTERRUPT is signal.default_int_handler:  # Ctrl-C during the imports below ends the process without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some takes longer than reading a config
# Matrices are small: threads of NumPy's library cost ten times what they save, most of it in waiting for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.set_threshold(100_000)  # a command ends before it leaves many cycles behind; looking for them costs a tenth of it

from dpcalc.cli.app import Stopped, run  # noqa: E402  the imports are what it is for

if _INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, _INTERRUPT)


def main() -> None:
    """Run the command in sys.argv and exit with its code; signals to stop end it in an orderly way."""
    _raise_stopped_on_signals()
    _escape_unencodable_output()
    sys.exit(run(sys.argv[1:]))


def _raise_stopped_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise Stopped, for an orderly end, unless they are ignored or handled already."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, _stop)


def _escape_unencodable_output() -> None:
    """Let standard output and error write characters that they cannot encode as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a closed one is None
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # the real streams have it


def _stop(number: int, _: object) -> None:
    """Take back what is half done, temporary files and worker processes, before the process ends."""
    raise Stopped(number)


if __name__ == "__main__":
    main()
