"""Run of one command; an exception that ends it becomes an exit code here."""

import io
import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise, takewhile

from dpcalc.cli.output import INTERRUPTED, CommandResult, output_error, print_remark, print_result
from dpcalc.errors import FIX_INPUT, OutputError, diagnosis, printable

READER_GONE = 141
WORDS = {
    "--grid": "--over",
    "--format": "--report",
    "--output-format": "--format",
    "--csv": "--format csv",
}  # of other tools, for options of commands that have them
COMPLETING = "_DPCALC_COMPLETE"  # the environment variable by which a shell asks for completions


class Stopped(BaseException):
    """A signal to end the process; like KeyboardInterrupt it passes through `except Exception`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number  # as a shell reports it


def run(arguments: Sequence[str]) -> int:
    """Run a command, print its result and errors, and return its exit code.

    The exit code: 0 yes or computed, 1 no, 2 fix the input, 3 no verdict, 130 interrupted, 141 reader gone. Only
    the result of a command is 0 or 1; an exception never is.
    """
    try:
        answer = _answer(arguments)
        print_result(answer)
        return max(answer.code, *(_print_error(error) for error in answer.errors), 0)
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print_remark("interrupted: no answer")
        return INTERRUPTED
    except Stopped as stop:
        return stop.code
    except BrokenPipeError:
        return READER_GONE
    except Exception as error:  # noqa: BLE001  a crash must not look like the answer "no"
        failure = output_error(error) or error
        errors = failure.exceptions if isinstance(failure, ExceptionGroup) else (failure,)
        code = max([_print_error(each) for each in errors])
        # The parser may be what failed, so the words themselves say whether JSON is wanted on standard output.
        words = list(takewhile(lambda word: word != "--", arguments))
        asked = [*pairwise(words), *((word.partition("=")[::2]) for word in words)]
        wanted = {("--format", "json"), *(("--report", report) for report in ("json", "json=", "json=-"))}
        if isinstance(failure, OutputError):  # no JSON where the output itself failed
            for remark in failure.asides:
                print_remark(remark)
        elif "--json" in words or not wanted.isdisjoint(asked):
            with suppress(Exception):  # it has been said on standard error
                from dpcalc.report.output import error_json, json_document

                words = list(takewhile(lambda word: not word.startswith("-"), arguments))
                command = " ".join(words[: 2 if words[:1] == ["ledger"] else 1])
                described = error_json([(each, *_diagnosis(each)) for each in errors])
                print_result(CommandResult(text=json_document(command, described)))
        return code


def _answer(arguments: Sequence[str]) -> CommandResult:
    """Run a command by Typer and return its result, empty if Typer itself answered; KeyboardInterrupt if stopped."""
    # Imported here: an installation that lacks a part ends without a verdict too.
    import typer

    from dpcalc.cli.commands import application

    try:
        outcome = application().main(args=list(arguments), prog_name="dpcalc", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as stop:
        # Typer leaves so when the reader of its help is gone, and after shell completion.
        if stop.code and COMPLETING not in os.environ:
            raise BrokenPipeError from None
        return CommandResult(text="", code=int(bool(stop.code)))  # fish completes file names after a 1
    if isinstance(outcome, CommandResult):
        return outcome
    if outcome == INTERRUPTED:
        raise KeyboardInterrupt
    # Typer's own code 1 is an aborted prompt; it must not look like the verdict "no".
    return CommandResult(text="", code=FIX_INPUT if outcome == 1 else int(outcome or 0))


def _print_error(error: Exception) -> int:
    """Print an error, below a traceback if DPCALC_TRACEBACK is set, to standard error, and return its exit code."""
    if os.environ.get("DPCALC_TRACEBACK"):
        print_remark("".join(traceback.format_exception(error)).rstrip())
    message, code = _diagnosis(error)
    print_remark(message)
    return code


def _diagnosis(error: Exception) -> tuple[str, int]:
    """Return (message, exit code) of an exception: code 2 for an InputError or an error of Typer's parser, else 3."""
    if not hasattr(error, "show"):  # what Typer's errors have: their class is private, and moves between versions
        return diagnosis(error)
    from dpcalc.config.messages import is_misspelling

    hint = ""
    if hasattr(error, "possibilities"):  # an unknown option
        option = str(getattr(error, "option_name", ""))
        # The parser's own hints lead from --min-batch-size to --batch-size.
        near = [each for each in error.possibilities or () if is_misspelling(option.lstrip("-"), each.lstrip("-"))]
        with suppress(Exception):  # a hint must not hide the error
            hint = _hint_at_own_flag(option, error)
        error.possibilities = [] if hint else near
    usage = io.StringIO()
    error.show(usage)
    text = usage.getvalue().rstrip().replace("Value error, ", "", 1)  # pydantic's prefix
    return printable(f"{text}\n  = {hint}" if hint else text), FIX_INPUT


def _hint_at_own_flag(option: str, error: Exception) -> str:
    """Return what dpcalc calls an unknown option, or what a word of another tool means; "" if nothing is known."""
    from dpcalc.config.expand import FLAGS
    from dpcalc.config.messages import key_suggestion, meaning

    command = getattr(getattr(error, "ctx", None), "command", None)
    flags = {flag for parameter in getattr(command, "params", ()) for flag in parameter.opts}
    word = option.lstrip("-").replace("-", "_")
    meant, foreign = key_suggestion("", word), meaning("", word)
    key = f"{meant.section}.{meant.key}"
    key = "training.batch_size" if key == "sampling.expected" else key
    own_flag = next((flag for flag, place in FLAGS.items() if place == key), "")
    if meant.is_rename and own_flag in flags:
        return (
            f"dpcalc calls this {own_flag}{', relative to the clip norm' if own_flag == '--noise-multiplier' else ''}"
        )
    if meant.is_rename and meant.key == "max_grad_norm":
        return "dpcalc needs no clip norm: the noise multiplier is relative to it"
    is_shown = foreign is not None and (not foreign.is_rename or foreign.about == "budget.epsilon")
    if foreign and is_shown:
        return foreign.hint
    return f"dpcalc calls this {WORDS[option]}" if WORDS.get(option, "").split(" ")[0] in flags else ""
