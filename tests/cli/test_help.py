"""Help and completion: what a reader sees is what is written, whatever the terminal, and nothing is cut off."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios

import pytest
from typer.main import get_command

from dpcalc.charts.curves import METHODS as LINES
from dpcalc.cli.commands import application
from dpcalc.cli.options import ADJACENCIES, METHODS, SCHEMES, config_keys
from dpcalc.config.json_schema import json_schema, table_rows
from dpcalc.report.rules import RULES
from tests.cli.running import STAND_IN, environment, shown_on
from tests.thinning import thinned

APPLICATION = get_command(application())
LEDGER = APPLICATION.commands["ledger"]
COMMANDS = [
    (),
    *((name,) for name in APPLICATION.commands),
    *(("ledger", name) for name in LEDGER.commands),
]


def command_of(words):
    """The object of a command's name."""
    return LEDGER.commands[words[1]] if len(words) > 1 else APPLICATION.commands[words[0]] if words else APPLICATION


def on_a_terminal(*arguments, columns=80, **changes):
    """Exit code and output of a command on a terminal that shows colours."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, STAND_IN, *arguments]
    running = subprocess.Popen(command, stdout=writer, stderr=writer, env=environment(TERM="xterm-256color", **changes))
    os.close(writer)
    text = shown_on(reader)
    os.close(reader)
    return running.wait(timeout=60), text.replace("\r\n", "\n")


def parameters(words):
    """What a command takes, as Typer declares it."""
    command = command_of(words)
    return [param for param in command.get_params(command.make_context("x", [], resilient_parsing=True)) if param.help]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_text_of_the_help_is_shown_as_written(dpcalc, words):
    ended = dpcalc(*words, "--help")
    shown = " ".join(ended.out.split())
    assert ended.code == 0
    for param in parameters(words):
        assert " ".join(param.help.split()) in shown
    if isinstance(getattr(command_of(words), "commands", None), dict):
        for command in command_of(words).commands.values():
            assert " ".join(command.help.partition("\n\n")[0].split()) in shown
    assert "..." not in re.sub(r"\[?[A-Z ]+\]?\.\.\.", "", ended.out)  # nothing is cut off
    assert not re.search(r"<\w|\[\[|\{", ended.out)
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("columns", [38, 40, 51, 60])
def test_help_fits_a_narrow_terminal(dpcalc, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in COMMANDS:
        shown = dpcalc(*words, "--help").out
        texts = [line for line in shown.splitlines() if not re.match(r"\S.*:$|  -", line)]  # no titles, no names
        assert max(map(len, texts)) <= columns, words
        for param in parameters(words):
            assert " ".join(param.help.split()) in " ".join(shown.split())


@pytest.mark.parametrize("name", APPLICATION.commands)
def test_one_command_is_loaded_alone(name):
    alone = get_command(application(name)).commands
    assert [*alone] == [name]
    assert [param.name for param in alone[name].params] == [p.name for p in APPLICATION.commands[name].params]
    assert alone[name].epilog == APPLICATION.commands[name].epilog


def test_a_name_that_is_none_loads_all_commands():
    assert [*get_command(application("epsilom")).commands] == [*APPLICATION.commands]


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_that_of_the_parser(dpcalc, capsys, words, option):
    ended = dpcalc(*words, option)
    parser = get_command(application())  # another one: commands remember the help option they were first asked for
    assert parser.main(args=[*words, option], prog_name="dpcalc", standalone_mode=False) == 0
    assert (ended.code, ended.out, ended.err) == (0, capsys.readouterr().out, "")


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize(
    "words", thinned([pytest.param(words) for words in (("ledger", "add"), ("sweep",), ())], 1), ids=" ".join
)
def test_a_terminal_shows_the_same_words(dpcalc, words, columns):
    code, text = on_a_terminal(*words, "--help", columns=columns)
    assert code == 0
    assert re.sub(r"\s|-", "", text) == re.sub(r"\s|-", "", dpcalc(*words, "--help").out)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert max(map(len, text.splitlines())) <= columns


def test_no_colon_code_becomes_a_picture():
    """A:B:N:log in the help was once shown with the emoji `:B:`."""
    assert "A:B:N:log by equal factors" in " ".join(on_a_terminal("sweep", "--help")[1].split())


def test_commands_are_grouped(dpcalc):
    lines = dpcalc("--help").out.splitlines()
    groups = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert len(groups) >= 6
    at = {name: next(i for i, line in enumerate(lines) if re.match(rf"  {name} ", line)) for name in ("check", "scan")}
    assert lines.index("Gate changes in continuous integration:") < at["check"] < at["scan"]


def test_no_bar_is_drawn_into_help():
    program = (
        "import sys, time; from dpcalc.cli import progress, commands; progress.PATIENCE = 0.0\n"
        "write = commands._write_parameters\n"
        "def slowly(*given):\n    time.sleep(0.5)\n    write(*given)\n"
        "commands._write_parameters = slowly\n"
        "from dpcalc.cli.app import run; sys.exit(run(['--help']))"
    )
    reader, writer = os.openpty()
    terminal = environment(TERM="xterm")
    run = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=writer, env=terminal, check=True
    )
    os.write(writer, b"end")
    assert os.read(reader, 100) == b"end"
    os.close(writer)
    os.close(reader)
    assert run.stdout.startswith(b"Usage: dpcalc")


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


@pytest.mark.parametrize("words", [words for words in COMMANDS if words], ids=" ".join)
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
    thinned(
        [
            (("epsilon", "--method", "rdp"), ["rdp", "rdp-classic"]),
            (("epsilon", "--adjacency", "z"), ["zero-out"]),
            (("epsilon", "--scheme", "wi"), ["with-replacement"]),
            (("check", "--report", "git"), ["github", "gitlab"]),
            (("curve", "steps", "--method", "th"), ["theorem-3"]),
            (("explain", "DPC30"), [code for code in RULES if code.startswith("DPC30")]),
            (("init", "--template", "m"), ["maml"]),
            (("epsilon", "--set", "training.s"), ["training.steps="]),
            (("check", "--set", "data.levels[0].c"), ["data.levels[0].count="]),
            (("epsilon", "--unset", "budget"), ["budget.epsilon", "budget.max_increase_pct"]),
            (("sweep", "--over", "phases[0].training.e"), ["phases[0].training.epochs="]),
            (("epsilon", "sample_configs/clinic_maml.yaml", "--unit", ""), ["task", "example", "all"]),
            (("compare", "sample_configs/clinic_maml.yaml", "--unit", "t"), ["task"]),
            (("epsilon", "missing.yaml", "--unit", ""), ["all"]),
            (("solve-sigma", "sample_configs/two_phase.yaml", "--phase", "w"), ["warm-up"]),
            (("statement", "--format", "m"), ["markdown"]),
            (("sweep", "--executor", "d"), ["dask"]),
            (("curve", "tr"), ["tradeoff"]),
            (("import", "--adjacency", "a"), ["add-remove"]),
            (("cur",), ["curve"]),
        ],
        5,
    ),
)
def test_the_shell_completes(words, expected):
    assert completed(*words) == expected


def test_every_key_of_the_table_is_offered():
    """Of the sections of a phase the table says only that they have the keys above."""
    offered = {key.replace("[0]", "[]") for key in config_keys()("")}
    told = {row[0].strip("`") for row in table_rows() if "list of mappings" not in row[1] and row[1] != "mapping"}
    assert {key for key in offered if not key.startswith("phases[].")} == {
        key for key in told if not key.startswith("phases[].")
    }
    assert {key.removeprefix("phases[].") for key in offered if key.startswith("phases[].")} == {
        "part",
        *(key for key in told if key.split(".")[0] in {"name", "sampling", "mechanism", "training"}),
    }


def test_what_is_offered_is_what_is_taken():
    def words(key):
        """The words that the schema allows for a key, wherever it is."""
        found, nodes = set(), [json_schema()]
        while nodes:
            node = nodes.pop()
            if isinstance(node, dict):
                for one in node.get("properties", {}).get(key, {}).get("anyOf", []):
                    found |= set(one.get("enum", []))
                nodes += node.values()
            elif isinstance(node, list):
                nodes += node
        return found

    assert set(METHODS) == words("method")
    assert set(ADJACENCIES) == words("adjacency")
    assert set(SCHEMES) == words("scheme")
    assert set(METHODS) < set(LINES)
