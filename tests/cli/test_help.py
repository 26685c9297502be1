"""Help and completion: every command has its own help, and what help lists a shell completes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dpcalc.cli.commands import application
from tests.cli.running import environment
from tests.thinning import thinned

COMPLETIONS = yaml.safe_load(Path(__file__).with_name("completions.yaml").read_text(encoding="utf-8"))
APPLICATION = application()
LEDGER = APPLICATION.commands["ledger"]
COMMANDS = [*((name,) for name in APPLICATION.commands), *(("ledger", name) for name in LEDGER.commands)]


def command_of(words):
    """The object of a command's name."""
    return LEDGER.commands[words[1]] if len(words) > 1 else APPLICATION.commands[words[0]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help(dpcalc, words):
    ended = dpcalc(*words, "-h")
    assert (ended.code, ended.err) == (0, "")
    shown = re.sub(r"[\s│]+", " ", ended.out)
    for param in command_of(words).params:  # no word is taken for markup, or for the code of an emoji
        assert {*(param.help or "").split()} <= {*shown.split()}
    assert words == ("ledger",) or f"Example: dpcalc {' '.join(words)} " in shown
    assert max(map(len, ended.out.splitlines())) <= 80


def asked_by(shell, words, **more):
    """What a shell is answered that asks for the last word of a command line, and the exit code."""
    line = " ".join(("dpcalc", *words))
    steering = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_ARGS": line} | more
    program = "from dpcalc.__main__ import main; import sys; sys.argv[0] = 'dpcalc'; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(_DPCALC_COMPLETE=f"complete_{shell}", **steering),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.stdout, ended.returncode


def completed(*words):
    """What bash offers for the last word of a command line."""
    return asked_by("bash", words)[0].split()


@pytest.mark.heavy
def test_zsh_and_fish_complete_words_and_leave_paths_to_the_shell():
    values, path = ("epsilon", "--method", "rd"), ("epsilon", "sample_c")
    assert asked_by("bash", path) == ("\n", 0)  # the script says `-o default`: bash completes file names itself
    words, code = asked_by("zsh", values)
    assert (words.split("((")[-1].split("))")[0].split(), code) == (['"rdp"', '"rdp-classic"'], 0)
    assert asked_by("zsh", path)[0].strip() == "_files"
    assert asked_by("fish", values, _TYPER_COMPLETE_FISH_ACTION="get-args")[0].split() == ["rdp", "rdp-classic"]
    assert asked_by("fish", values, _TYPER_COMPLETE_FISH_ACTION="is-args")[1] == 0
    assert asked_by("fish", path, _TYPER_COMPLETE_FISH_ACTION="is-args")[1] == 1  # fish completes file names


CHOICES = re.compile(r"\b([a-z-]+(?:, [a-z-]+)+ or [a-z-]+|[a-z]+(?:\|[a-z]+)+)\b")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_value_that_help_lists_is_completed(words):
    command = command_of(words)
    for param in command.params if not hasattr(command, "commands") else ():
        listed = CHOICES.search(f"{param.metavar} {param.help}")
        if listed is None or getattr(param, "is_flag", False):
            continue
        values = re.split(r", | or |\|", listed[1])
        context = command.make_context("x", [], resilient_parsing=True)
        offered = {item.value for item in param.shell_complete(context, "")}
        assert {value for value in values if value != "all"} <= offered, (words, param.name, values)


@pytest.mark.parametrize(
    ("words", "expected"),
    thinned(map(tuple, COMPLETIONS), 3),
)
def test_the_shell_completes(words, expected):
    assert completed(*words) == expected


def test_every_key_of_the_table_is_offered():
    """Of the sections of a phase the table says only that they have the keys above."""
    keys = {line.removesuffix("=").replace("[0]", "[]") for line in completed("sweep", "--over", "")}
    phases = {key.removeprefix("phases[].") for key in keys if key.startswith("phases[].")}
    page = (Path(__file__).parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")  # test_pages keeps it current
    rows = re.findall(r"(?m)^\| `(.*?)` \| (.*?) \|", page)
    told = {key for key, kind in rows if "list of mappings" not in kind and kind != "mapping"}
    told = {key for key in told if not key.startswith("phases[].")}
    assert {key for key in keys if not key.startswith("phases[].")} == told
    sections = {"name", "sampling", "mechanism", "training"}
    assert phases == {"part", *(key for key in told if key.split(".")[0] in sections)}
