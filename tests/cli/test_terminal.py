"""What a person sees on a terminal: forms, colours, where lines end, the bar of progress."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from subprocess import DEVNULL

import pytest
import yaml

import dpcalc
from dpcalc.cli import options
from dpcalc.cli.output import styled_text
from tests.cli.running import environment, on_a_terminal, shown_on

ROOT = Path(__file__).parents[2]
ROWS = yaml.safe_load(Path(__file__).with_name("terminal.yaml").read_text(encoding="utf-8"))
TEXT, WRONG, COMMANDS = ROWS["text"], ROWS["wrong.yaml"], ROWS["commands"].splitlines()


@pytest.mark.heavy
def test_a_person_gets_colours_and_programs_do_not(config):
    path = config(name="'[/x] [bold]'", steps=1500)
    code, out = on_a_terminal("epsilon", path, errors=DEVNULL)
    assert out.startswith("\x1b[1mepsilon <= 1.50   \x1b[0m\x1b[1;32mwithin the budget 2.0 (75.0%)\x1b[0m")
    assert (code, "  [/x] [bold]\n" in out, "1,500 steps" in out) == (0, True, True)
    assert on_a_terminal("epsilon", path, "-q", errors=DEVNULL) == (0, "1.50000\n")
    code, out = on_a_terminal("epsilon", path, "--json", errors=DEVNULL)
    assert (code, out[0], "\x1b" in out) == (0, "{", False)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, out = on_a_terminal("compare", path, errors=DEVNULL, **env)
        assert (code, "\x1b" in out, "does [not] apply" in out) == (0, False, True)
        assert all(len(line) <= 80 for line in out.splitlines())


# Texts in colour, and where their lines end


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """A text as a terminal of some columns shows it."""

    def of(text, *, columns=80, plain=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        return styled_text(text, Terminal())

    return of


def bare(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_verdicts_and_findings_differ_in_colour(shown):
    found = {word: colour for colour, word in re.findall(r"(?m)^\x1b\[([\d;]+)m(\w+)\x1b", shown(TEXT))}
    verdicts = [found[word] for word in ("passed", "failed", "invalid", "undecided")]
    assert len(set(verdicts)) == 4
    counted = {word: colour for colour, word in re.findall(r"\d \x1b\[([\d;]+)m(\w+)\x1b", shown(TEXT))}
    assert counted == {word: found[word] for word in ("passed", "failed", "invalid", "undecided")}
    findings = {word: colour for colour, word in re.findall(r"\x1b\[([\d;]+)m(error|warning|note)", shown(TEXT))}
    assert len(set(findings.values())) == 3


def test_lines_end_between_words(shown):
    text = shown(TEXT, columns=40)
    assert all(len(line) <= 40 for line in bare(text).splitlines())
    assert bare(text).split() == TEXT.split()


def test_a_long_excerpt_is_cut_around_its_marks(shown):
    before, after = "x" * 70, "z" * 90
    excerpt = f"  |\n9 | {before} l2_norm_clip: 1.0  # {after}\n  | {' ' * 71}^^^^^^^^^^^^ dpcalc calls this y\n"
    empty, line, marks, words, end = shown(excerpt, columns=60).split("\n")
    assert (empty, words, end) == ("  |", "  = dpcalc calls this y", "")
    assert max(map(len, (line, marks))) <= 60
    start = marks.index("^")
    assert line[start : start + 12] == "l2_norm_clip"
    assert marks == "  | " + " " * (start - 4) + "^" * 12
    assert line[4:7] == line[-3:] == "..."
    assert shown(excerpt, columns=200).split("\n") == excerpt.split("\n")


def test_a_long_command_can_be_pasted(shown):
    words = ["dpcalc", "epsilon", "config.yaml", "--target-eps", "2", *["--set", "a=b"] * 10]
    label, *command = shown(f"  give one:            {' '.join(words)}", columns=40).split("\n")
    assert label == "  give one:"
    assert max(map(len, command)) <= 40
    assert shlex.split("\n".join(command).replace("\\\n", " ")) == words  # as a shell reads it


def test_numbers_of_notes_have_separators_but_places_code_and_years_have_none(shown):
    text = (
        "2024/a.yaml:12345:1: error[DPC101]: 1e5\nnote: 10000 of 60000 (Abadi et al. 2016), `a=5000`, 2024.yaml:1234:5"
    )
    plain = shown(text, columns=200, plain=True)
    assert plain == text.replace("10000 of 60000", "10,000 of 60,000")


def test_what_is_no_terminal_gets_the_text_as_it_is(dpcalc, config, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert styled_text(TEXT, StringIO()) == TEXT
    monkeypatch.setenv("FORCE_COLOR", "1")  # as the log of a CI runner takes it: colours, no wrapped line
    assert bare(styled_text(TEXT, StringIO())) == TEXT != styled_text(TEXT, StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled_text(TEXT, StringIO()) == TEXT
    assert "phases: training: 5000 steps" in dpcalc("epsilon", config(steps=5000)).out


# The bar of progress: on a terminal, after a while, and nowhere else

WORK = """
from dpcalc.cli import options
options.PATIENCE = {patience}
with options.progress():
    {work}
"""


def worked(work, *, patience, until="", **variables):
    """What a terminal shows while a program works; it ends when its standard input does."""
    reader, writer = os.openpty()
    env = environment(**({"TERM": "xterm", "COLUMNS": "80"} | variables))
    command = [sys.executable, "-c", WORK.format(patience=patience, work=work)]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=writer, env=env)
    os.close(writer)
    text = shown_on(reader, until=until) if until else ""
    running.communicate(b"\n", timeout=60)
    text = text or shown_on(reader)
    os.close(reader)
    assert running.returncode == 0
    return text


@pytest.mark.heavy
def test_a_bar_appears_on_a_terminal_when_work_takes_long():
    assert "computing" in worked("input()", patience=0.01, until="computing")
    assert worked("pass", patience=3600) == ""
    assert worked("import time; time.sleep(0.3)", patience=0.0, TERM="dumb") == ""  # not even an empty line
    program = WORK.format(patience=0.0, work="import time; time.sleep(0.3)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")


@pytest.mark.parametrize(
    ("label", "total", "part", "columns", "expected"),
    [
        ("sweep", 8_000, 0.1015, "80", ["sweep", "812/8,000 10%", "left"]),
        ("[red]x[/red] :B: \x1b[2Jy", 0, 0.25, "80", ["[red]x[/red] :B: ?[2Jy", "25%"]),
        ("a/very/long/path/to/a/config/that/is/cut.yaml", 9, 0.5, "60", ["...t/is/cut.yaml", "50%", "-:--:-- left"]),
    ],
)
def test_the_bar_says_what_how_much_and_how_long(label, total, part, columns, expected):
    work = f"options.announce({label!r}, total={total}); options.report_progress({part}); input()"
    text = worked(work, patience=0.0, until=expected[-1], COLUMNS=columns, NO_COLOR="1")
    assert all(word in text for word in expected), text


def test_of_several_files_the_one_that_is_worked_on_is_named(monkeypatch, dpcalc, config, tmp_path):
    """Each config costs something else, so that each is a question; equal ones are asked about once."""
    monkeypatch.chdir(tmp_path)  # `lock` must not write into the lock of this repository
    state, seen = options._State(), []
    monkeypatch.setattr(options, "_state", state)
    report_file = options.report_file
    monkeypatch.setattr(
        options,
        "report_file",
        lambda path: (report_file(path), seen.append((state.label, state.file))),
    )
    paths = [config(file=f"{name}.yaml", steps=500 + steps) for name, steps in (("a", 0), ("b", 1), ("c", 1), ("d", 2))]
    for command in ("check", "lock"):
        seen.clear()
        assert dpcalc(command, *paths).code == 0
        assert [one for one in seen if one[1]] == [("4 files", paths[number]) for number in (0, 1, 3)]


# A capture that was read: `pytest --renew`, then git diff

SAMPLES = ROOT / "sample_configs"
CAPTURE = Path(__file__).parent / "capture.txt"
WIDTH = 80


PROGRAM = """
import fcntl, struct, sys, termios, textwrap
from dpcalc.cli import options
from dpcalc.cli.app import run
from tests import shared_results
options.PATIENCE = 3600.0
shared_results.install(setattr)  # what the same command costs is computed once
fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, int(sys.argv[1]), 0, 0))
for line in open("commands", encoding="utf-8").read().splitlines():
    print(textwrap.fill(f"$ dpcalc {line}", 58, break_on_hyphens=False), flush=True)
    print(f"[{run(line.split())}]", flush=True)
"""


def plain(text):
    """A capture without escape sequences, trailing spaces and the version."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.replace("\r", ""))
    text = re.sub(rf"(?<=  ){re.escape(dpcalc.__version__)}$", "VERSION", text, flags=re.MULTILINE)
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


@pytest.mark.heavy
def test_a_capture_of_a_pseudo_terminal(tmp_path, same_as_file):
    for name in {word for line in COMMANDS for word in line.split() if (SAMPLES / word).is_file()}:
        shutil.copy(SAMPLES / name, tmp_path)
    one_step = re.sub(", l2_norm.*}", "}", WRONG).replace("steps: 100", "steps: 1")
    files = {"wrong.yaml": WRONG, "one_step.yaml": one_step, "commands": "\n".join(COMMANDS), "program.py": PROGRAM}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ours, theirs = os.openpty()
    command = [sys.executable, "program.py", str(WIDTH)]
    env = environment(TERM="xterm", PYTHONPATH=str(ROOT))
    running = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = shown_on(ours)
    os.close(ours)
    assert running.wait(timeout=60) == 0
    assert "\x1b[1;31mfailed\x1b[0m" in shown
    text = plain(shown)
    # A hash is never broken: people copy it.
    assert max(map(len, re.sub(r"\b[0-9a-f]{64}\b", "HASH", text).splitlines())) <= WIDTH
    assert not re.search(r"note: note:|\b1 (steps|clip norms|configs|files|points)\b|Traceback", text)
    same_as_file(re.sub(r"\b[0-9a-f]{64}\b", "HASH", text), CAPTURE)
