"""Entry point of the `dpcalc` command."""

import gc
import os
import sys

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some takes longer than reading a config
gc.set_threshold(100_000)  # a command ends before it leaves many cycles behind; looking for them costs a tenth of it

from dpcalc.cli.app import run  # noqa: E402  the imports are what it is for


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # a closed one is None
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # the real streams have it
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
