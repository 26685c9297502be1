"""Sessions of commands as a person would have them: files, commands with their exit codes, and all that they say.

A transcript in `transcripts` is a text: `# a title` begins a session in a folder of its own, `> NAME` a file (up to the
next line that begins with `>`, `$` or `#`, with `SAMPLE key=value` for the usual config and changes of it), `$ COMMAND`
a command with its exit code before it, and below it what it prints, standard error after `!`. Codes are written by
hand; `pytest --renew` writes what is printed, to be read with git diff. Epsilon is steps / 1000.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.repository import Repository
from tests.cli.running import CONFIG

FOLDER = Path(__file__).parent / "transcripts"
SESSIONS = [
    pytest.param(path, title, id=f"{path.stem}: {title}")
    for path in sorted(FOLDER.glob("*.txt"))
    for title in re.findall(r"(?m)^# (.*)$", path.read_text(encoding="utf-8"))
]


def body_of(line, text):
    """The content of a file: what stands there, or the usual config with changes (`old -> new`)."""
    if not line.startswith("SAMPLE"):
        return text
    changes = dict(word.split("=", 1) for word in shlex.split(line)[1:])
    made = CONFIG.format(
        steps=changes.pop("steps", 500),
        name=changes.pop("name", "clinic"),
        budget=changes.pop("budget", "budget: {epsilon: 2.0}"),
    )
    for old, new in changes.items():
        assert old in made, old
        made = made.replace(old, new)
    return made


class Session:
    """A folder in which files are written and commands run."""

    def __init__(self, folder, run, monkeypatch):
        self.folder, self.run, self.monkeypatch = folder, run, monkeypatch

    def written(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8")

    def said(self, words):
        """The exit code of a command, and what it says."""
        name, *rest = shlex.split(words)
        if name == "git":
            tree = Repository(self.folder)
            if rest == ["commit"]:
                tree.commit()
            else:
                tree.git(*rest, *(["--quiet", "--initial-branch=main"] if rest == ["init"] else []))
            return 0, ""
        if name == "cd":
            self.monkeypatch.chdir(self.folder / rest[0])
            return 0, ""
        if name in {"mv", "rm", "ln", "mkdir"}:
            {
                "mv": lambda old, new: (self.folder / old).rename(self.folder / new),
                "rm": lambda old: (self.folder / old).unlink(),
                "ln": lambda target, link: (self.folder / link).symlink_to(target),
                "mkdir": lambda new: (self.folder / new).mkdir(parents=True),
            }[name](*rest)
            return 0, ""
        if name == "export":
            self.monkeypatch.setenv(*rest[0].split("=", 1))
            return 0, ""
        if name == "cat":
            return 0, (self.folder / rest[0]).read_text(encoding="utf-8")
        ended = self.run(name, *rest)
        said = ended.out + "".join(f"!{line}\n" for line in ended.err.splitlines())
        said = re.sub(r"\b[0-9a-f]{64}\b", "HASH", said).replace(str(self.folder), "HERE")
        return ended.code, re.sub(r'("version": )"[^"]*"', r'\1"VERSION"', said)


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
            name, _, sample = line[2:].partition(" SAMPLE")
            sample = f"SAMPLE{sample}" if line.count(" SAMPLE") else ""
            session.written(name, body_of(sample, "".join(f"{each}\n" for each in body if each.strip() or sample)))
            made += body
        elif command := re.fullmatch(r"(?:(\d) )?\$ (.*)", line):
            code, said = session.said(command[2])
            assert code == int(command[1] or 0), (line, said)
            made += said.splitlines()
            made += [""] if not lines or (body and not body[-1]) else []
    return "\n".join(made).rstrip() + "\n"


@pytest.mark.parametrize(("path", "title"), SESSIONS)
def test_a_session_goes_as_it_is_written(dpcalc, tmp_path, monkeypatch, request, path, title):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    text = path.read_text(encoding="utf-8")
    sections = re.split(r"(?m)^(?=# )", text)
    (at,) = (number for number, each in enumerate(sections) if each.startswith(f"# {title}\n"))
    found = renewed(sections[at], Session(tmp_path, dpcalc, monkeypatch))
    if request.config.getoption("renew"):
        sections[at] = found + "\n" * (at + 1 < len(sections))
        path.write_text("".join(sections), encoding="utf-8")
    else:
        assert found == sections[at].rstrip() + "\n", "if this change is wanted: pytest --renew, then git diff"
