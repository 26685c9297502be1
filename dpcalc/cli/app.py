"""Run of one command; an exception that ends it becomes an exit code here."""

import io
import os
import traceback
from collections.abc import Container, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any, Protocol, TextIO, runtime_checkable

from dpcalc._version import __version__
from dpcalc.cli.output import CommandResult, output_error, print_remark, print_result
from dpcalc.errors import FIX_INPUT, OutputError, diagnosis, printable

INTERRUPTED, READER_GONE = 130, 141
PROGRAM = "dpcalc"
COMPLETING = "_DPCALC_COMPLETE"  # the environment variable by which a shell asks for completions


class Stopped(BaseException):
    """A signal to end the process; like KeyboardInterrupt it passes through `except Exception`.

    Attributes:
        code: exit code, 128 + number of the signal.
    """

    def __init__(self, number: int) -> None:
        """Set the exit code that a shell reports for a signal of this number."""
        super().__init__(number)
        self.code = 128 + number


@runtime_checkable
class UsageError(Protocol):
    """An error of Typer's parser, recognised by its methods: its class is private and moves between versions."""

    def show(self, file: TextIO | None = None) -> None:
        """Write usage and message to a file."""

    def format_message(self) -> str:
        """Return the message without the usage."""


def run(arguments: Sequence[str]) -> int:
    """Run a command, print its result and errors, and return its exit code.

    The exit code: 0 yes or computed, 1 no, 2 fix the input, 3 no verdict, 130 interrupted, 141 reader gone. Only
    the result of a command is 0 or 1; an exception never is.
    """
    try:
        answer = _result(arguments)
        print_result(answer)
        codes = [_print_error(error) for error in answer.errors]
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print_remark("interrupted: no answer")
        return INTERRUPTED
    except Stopped as stop:
        return stop.code
    except BrokenPipeError:
        return READER_GONE
    except Exception as error:  # noqa: BLE001  a crash must not look like the answer "no"
        return _print_failure(output_error(error) or error, arguments)
    return max(answer.code, *codes, 0)


def _print_failure(error: Exception, arguments: Sequence[str]) -> int:
    """Print an exception, or each one of a group, with `--json` as JSON too, and return the highest exit code."""
    errors = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    codes = [_print_error(each) for each in errors]
    if isinstance(error, OutputError):  # no JSON where the output itself failed
        for remark in error.asides:
            print_remark(remark)
    elif _wants_json(arguments):
        _print_json_error(_command_name(arguments), errors)
    return max(codes)


def _print_error(error: Exception) -> int:
    """Print an error, below a traceback if DPCALC_TRACEBACK is set, to standard error, and return its exit code."""
    if os.environ.get("DPCALC_TRACEBACK"):
        print_remark("".join(traceback.format_exception(error)).rstrip())
    message, code = _diagnosis(error)
    print_remark(message)
    return code


def _print_json_error(command: str, errors: Sequence[Exception]) -> None:
    """Print exceptions as one JSON document to standard output; do nothing if that fails."""
    with suppress(Exception):  # it has been said on standard error
        from dpcalc.report.output import error_json, json_document

        described = error_json([(error, *_diagnosis(error)) for error in errors])
        print_result(CommandResult(text=json_document(command, described)))


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return True if the words ask for JSON on standard output: `--json`, or `--report json` without a file."""
    # The parser may be what failed, so the words themselves are looked at.
    words = list(takewhile(lambda word: word != "--", arguments))
    reports = [word.removeprefix("--report=") for word in words if word.startswith("--report=")]
    reports += [word for option, word in pairwise(words) if option == "--report"]
    return "--json" in words or any(report in {"json", "json=", "json=-"} for report in reports)


def _command_name(arguments: Sequence[str]) -> str:
    """Return the command's name as JSON states it, "ledger add" too; "" if the first word is an option or none."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    return " ".join(words[: 2 if words[:1] == ["ledger"] else 1])


def _option_hint(error: UsageError) -> str:
    """Return a line that says what dpcalc calls an unknown option of another tool; "" if there is nothing to say."""
    with suppress(Exception):  # a hint must not hide the error
        option = str(getattr(error, "option_name", ""))
        command = getattr(getattr(error, "ctx", None), "command", None)
        flags = {flag for parameter in getattr(command, "params", ()) for flag in parameter.opts}
        hint = _hint_at_own_flag(option, flags) if option else ""
        return f"\n  = {hint}" if hint else ""
    return ""


def _hint_at_own_flag(option: str, flags: Container[str]) -> str:
    """Return a hint at the one of the flags that means an option, or what a word of another tool means; else ""."""
    from dpcalc.config.messages import key_suggestion
    from dpcalc.config.words import meaning

    word = option.lstrip("-").replace("-", "_")
    meant, foreign = key_suggestion("", word), meaning("", word)
    own_flag = _flag_of_key(f"{meant.section}.{meant.key}")
    if meant.is_same and own_flag in flags:
        relative = ", relative to the clip norm" if own_flag == "--noise-multiplier" else ""
        return f"dpcalc calls this {own_flag}{relative}"
    if meant.is_same and meant.key == "max_grad_norm":
        return "dpcalc needs no clip norm: the noise multiplier is relative to it"
    is_shown = foreign is not None and (not foreign.is_rename or foreign.about == "budget.epsilon")
    return foreign.hint if foreign and is_shown else ""


def _flag_of_key(key: str) -> str:
    """Return the flag that sets a config key, --batch-size for `sampling.expected` too; "" if no flag sets it."""
    from dpcalc.config.overrides import FLAGS

    flag_key = "training.batch_size" if key == "sampling.expected" else key
    return next((flag for flag, place in FLAGS.items() if place == flag_key), "")


def _diagnosis(error: Exception) -> tuple[str, int]:
    """Return (message, exit code) of an exception: code 2 for an InputError or a usage error, else 3."""
    if not isinstance(error, UsageError):
        return diagnosis(error)
    near = getattr(error, "possibilities", None)
    if near:  # the parser's own hints lead from --min-batch-size to --batch-size
        from dpcalc.config.words import is_misspelling

        word = str(getattr(error, "option_name", "")).lstrip("-")
        error.possibilities = [each for each in near if is_misspelling(word, each.lstrip("-"))]  # type: ignore[attr-defined]  # private class
    usage = io.StringIO()
    error.show(usage)
    shown = usage.getvalue().rstrip().replace("Value error, ", "", 1)  # pydantic's prefix
    return printable(shown + _option_hint(error)), FIX_INPUT


def _result(arguments: Sequence[str]) -> CommandResult:
    """Return the result of a command line; `--version`, help and `explain` do not need Typer's parser."""
    if list(arguments) == ["--version"]:  # scripts ask often: nothing is imported for it
        return CommandResult(text=f"dpcalc {__version__}\n")

    import typer

    from dpcalc.cli.commands import application

    command = typer.main.get_command(application(*arguments[:1]))
    answer = _help_or_rule(command, arguments)
    return _result_by_typer(command, arguments) if answer is None else answer


def _result_by_typer(command: Any, arguments: Sequence[str]) -> CommandResult:
    """Run a command by Typer and return its result, empty if Typer itself answered; KeyboardInterrupt if stopped."""
    import typer

    try:
        outcome = command.main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as stop:
        return _result_of_exit(stop.code)
    return outcome if isinstance(outcome, CommandResult) else _result_of_code(outcome)


def _result_of_exit(code: object) -> CommandResult:
    """Return an empty result for an exit of Typer, code 0 or 1; BrokenPipeError for 1 unless it completes a word."""
    # Typer leaves so when the reader of its help is gone, and after shell completion.
    if code and COMPLETING not in os.environ:
        raise BrokenPipeError from None
    return CommandResult(text="", code=int(bool(code)))  # fish completes file names after a 1


def _result_of_code(code: int | None) -> CommandResult:
    """Return an empty result with Typer's exit code, but 2 in place of 1; KeyboardInterrupt for 130."""
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    # Typer's own code 1 is an aborted prompt; it must not look like the verdict "no".
    return CommandResult(text="", code=FIX_INPUT if code == 1 else int(code or 0))


def _help_or_rule(command: Any, arguments: Sequence[str]) -> CommandResult | None:
    """Return the result of `[COMMAND] --help` and `explain [CODE]` without Typer's parser; None for other arguments."""
    # Typer converts every option with pydantic, whose import takes longer than all else that these two need.
    *words, last = arguments or ("",)
    if last in command.context_settings.get("help_option_names", ()):
        return _help_page(command, words)
    if arguments and arguments[0] == "explain" and len(arguments) <= 2 and not last.startswith("-"):
        from dpcalc.cli.check import explain

        return explain(*arguments[1:])
    return None


def _help_page(command: Any, words: Sequence[str]) -> CommandResult | None:
    """Return the help page of the command that the words name; None if there is no such command."""
    import typer

    context = typer.Context(command, info_name=PROGRAM, **command.context_settings)
    for word in words:
        command = command.get_command(context, word) if hasattr(command, "get_command") else None
        if command is None:
            return None
        context = typer.Context(command, info_name=word, parent=context, **command.context_settings)
    return CommandResult(text=f"{command.get_help(context)}\n")
