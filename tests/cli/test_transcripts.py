"""Sessions of commands as a person would have them: files, commands with their exit codes, and all that they say.

A transcript in `transcripts` is a text: `# a title` begins a session in a folder of its own, `> NAME` a file (up to the
next line that begins with `>`, `$` or `#`; with `SAMPLE key=value` for the usual config and changes of it, with `SAME
old=new` for changes of what the file has), `$ COMMAND` a command with its exit code before it, and below it what it
prints, standard error after `!`. `| grep PATTERN` shows some lines, `< NAME` is standard input, `HERE` the folder;
a line of a file or of an answer that begins with `>`, `$` or `#` has a backslash before it. Shell commands are
those of `Session.done`. Codes are written by hand; `pytest --renew` writes what is printed, to be read with git diff.
Epsilon is steps / 1000, but in a session whose title ends with `[real]` or `[real, heavy]` it is what accountants say.
"""

import io
import os
import re
import shlex
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.repository import Repository
from tests.cli.running import CONFIG

FOLDER = Path(__file__).parent / "transcripts"
SAMPLES = Path(__file__).parents[2] / "sample_configs"
SESSIONS = [
    pytest.param(path, title, id=f"{path.stem}: {title}", marks=[pytest.mark.heavy] if "heavy]" in title else [])
    for path in sorted(FOLDER.glob("*.txt"))
    for title in re.findall(r"(?m)^# (.*)$", path.read_text(encoding="utf-8"))
]


def changed(text, line):
    """The usual config (`SAMPLE`), or what a file has (`SAME`), with the changes of a line."""
    kind, *words = shlex.split(line)
    changes = dict(word.replace("\\n", "\n").replace("\\r", "\r").split("=", 1) for word in words)
    if kind == "SAMPLE":
        text = CONFIG.format(
            steps=changes.pop("steps", 500),
            name=changes.pop("name", "clinic"),
            budget=changes.pop("budget", "budget: {epsilon: 2.0}"),
        )
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


class Session:
    """A folder in which files are written and commands run."""

    def __init__(self, folder, run, monkeypatch, *, is_real):
        self.folder, self.run, self.monkeypatch, self.is_real = folder, run, monkeypatch, is_real

    def written(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8")

    def done(self, name, *words):
        """What a command of a shell answers; None of any other command."""
        match name:
            case "git" if words == ("commit",):
                Repository(self.folder).commit()
            case "git":
                more = ["--quiet", "--initial-branch=main"] if words[0] == "init" else []
                Repository(self.folder).git(*words, *more)
            case "cd":
                self.monkeypatch.chdir(self.folder / words[0])
            case "mv":
                (self.folder / words[0]).rename(self.folder / words[1])
            case "rm":
                (self.folder / words[0]).unlink()
            case "ln":
                (self.folder / words[1]).symlink_to(words[0])
            case "mkdir":
                (self.folder / words[0]).mkdir(parents=True)
            case "touch":
                for each in words:
                    self.written(each, "")
            case "cp":  # a sample config
                shutil.copy(SAMPLES / words[0], self.folder)
            case "chmod":
                (self.folder / words[1]).chmod(int(words[0], 8))
            case "without":  # a package that is not installed
                self.monkeypatch.setitem(sys.modules, words[0], None)
            case "export":
                self.monkeypatch.setenv(*words[0].split("=", 1))
            case "terminal":  # of so many columns, without colours
                for where in ("dpcalc.cli.output", "dpcalc.cli.explore"):
                    self.monkeypatch.setattr(f"{where}.on_terminal", lambda: True)
                    self.monkeypatch.setattr(f"{where}.has_styles", lambda *_: False)
                self.monkeypatch.setenv("COLUMNS", words[0])
            case "cat":
                return (self.folder / words[0]).read_text(encoding="utf-8")
            case "texts":  # of a picture
                root = ET.fromstring((self.folder / words[0]).read_text(encoding="utf-8"))  # noqa: S314  our own
                found = {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}
                return "".join(f"{text}\n" for text in sorted(found))
            case "ls":
                files = [Path(top, name) for top, _, names in os.walk(self.folder) for name in names]
                names = [path.relative_to(self.folder) for path in sorted(files) if ".git" not in path.parts]
                return "".join(f"{name}\n" for name in names)
            case _:
                return None
        return ""

    def said(self, line):
        """The exit code of a command, and what it says."""
        line, *grep = line.split(" | grep ")
        name, *rest = shlex.split(line.replace("HERE", str(self.folder)))
        code, said = 0, self.done(name, *rest)
        if said is None:
            if "<" in rest:
                *rest, _, source = rest
                text = io.BytesIO((self.folder / source).read_bytes())
                self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(text, encoding="utf-8"))
            ended = self.run(name, *rest)
            code, said = ended.code, ended.out + "".join(f"!{line}\n" for line in ended.err.splitlines())
            said = re.sub(r"\b[0-9a-f]{64}\b", "HASH", said).replace(str(self.folder), "HERE")
            said = re.sub(r'("version": )"[^"]*"', r'\1"VERSION"', said)
        if self.is_real:  # the last digits of a number are not the same everywhere
            said = re.sub(r"-?\b\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", said)
        if grep:
            said = "".join(line for line in said.splitlines(keepends=True) if re.search(grep[0], line))
        return code, re.sub(r"(?m)^(?=[>$#\\])", r"\\", said)


def renewed(section, session):
    """A section of a transcript with what its commands print now; exit codes must be those that are written."""
    lines = section.splitlines()
    made = [lines.pop(0)]
    while lines:
        line = lines.pop(0)
        made.append(line)
        body = []
        while lines and not re.match(r"[>$#]|\d \$", lines[0]):
            body.append(lines.pop(0))
        if line.startswith("> "):
            name, *change = re.split(r" (?=SAMPLE|SAME)", line[2:], maxsplit=1)
            if change:
                there = session.folder / name
                session.written(name, changed(there.read_text(encoding="utf-8") if there.exists() else "", change[0]))
            else:
                session.written(name, "".join(f"{each.removeprefix(chr(92))}\n" for each in body if each.strip()))
            made += body
        elif command := re.fullmatch(r"(?:(\d) )?\$ (.*)", line):
            code, said = session.said(command[2])
            assert code == int(command[1] or 0), (line, said)
            made += said.splitlines()
            made += [""] if not lines or (body and not body[-1]) else []
    return "\n".join(made).rstrip() + "\n"


@pytest.mark.parametrize(("path", "title"), SESSIONS)
def test_a_session_goes_as_it_is_written(tmp_path, monkeypatch, request, path, title):
    is_real = "[real" in title
    run = request.getfixturevalue("real" if is_real else "dpcalc")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    text = path.read_text(encoding="utf-8")
    sections = re.split(r"(?m)^(?=# )", text)
    (at,) = (number for number, each in enumerate(sections) if each.startswith(f"# {title}\n"))
    found = renewed(sections[at], Session(tmp_path, run, monkeypatch, is_real=is_real))
    if request.config.getoption("renew"):
        sections[at] = found + "\n" * (at + 1 < len(sections))
        path.write_text("".join(sections), encoding="utf-8")
    else:
        assert found == sections[at].rstrip() + "\n", "if this change is wanted: pytest --renew, then git diff"
