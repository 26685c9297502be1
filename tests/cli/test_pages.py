"""`schema` and `explain`, and the pages that are made of their answers and of every help."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dpcalc.cli.commands import application
from dpcalc.report.rules import RULES

ROOT = Path(__file__).parents[2]
MAN = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text(encoding="utf-8"))


def test_schema(dpcalc):
    ended = dpcalc("schema")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_explain(dpcalc):
    for code, rule in RULES.items():
        assert all(text.endswith(".") and len(text) > 15 for text in (rule.rule, rule.reason, rule.fix))
        for words in {code, code.lower(), f" {code.removeprefix('DPC')} "}:
            ended = dpcalc("explain", words)
            assert (ended.code, ended.err) == (0, "")
            assert ended.out == f"{code}: {rule.title}\n\n{rule.rule}\n\nWhy: {rule.reason}\n\nFix: {rule.fix}\n"
    listed = dpcalc("explain").out.splitlines()
    assert [tuple(line.split(maxsplit=1)) for line in listed] == [(code, rule.title) for code, rule in RULES.items()]


def test_every_code_of_the_package_is_explained():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "dpcalc").rglob("*.py"))
    assert set(re.findall(r"DPC[0-9]{3}", text)) == RULES.keys()
    assert list(RULES) == sorted(RULES)


# Pages


@pytest.mark.parametrize(("words", "name"), [(("explain",), "rules"), (("schema",), "keys")])
def test_pages_of_rules_and_keys_are_up_to_date(dpcalc, same_as_file, words, name):
    same_as_file(dpcalc(*words, "--markdown").out, ROOT / "docs" / f"{name}.md")


OVERRIDING = "Override the config, or replace it"


def _page(dpcalc, *words):
    """A help page without the frames of its panels."""
    lines = []
    for line in dpcalc(*words, "--help").out.splitlines():
        title = re.fullmatch(r"╭─ (.*?) ─*╮", line)
        inside = re.fullmatch(r"│ (.*) │", line)
        text = f"{title[1]}:" if title else f"  {inside[1]}" if inside else "" if line.startswith("╰") else line[1:]
        lines.append(text.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _overriding(shown):
    """The section of a help page with the options that override a config, "" without."""
    _, _, rest = shown.partition(f"{OVERRIDING}:\n")
    return rest.partition("\n\n")[0]


def _options(section):
    """Each option of a section with its text, in one line."""
    return [" ".join(each.split()) for each in re.split(r"(?m)^(?=  --)", section) if each.strip()]


def _with_reference(shown, shared):
    """A help page that refers to the section of shared options, and names those that the command does not take."""
    section = _overriding(shown)
    own, known = _options(section), _options(shared)
    if len(own) < len(known) // 2:
        return shown
    assert set(own) <= set(known)
    missing = [each.split()[0] for each in known if each not in own]
    but = f" but {' and '.join(missing)}" if missing else ""
    return shown.replace(f"{OVERRIDING}:\n{section}", f"{OVERRIDING}:\n  the options that are listed first{but}")


def _commands(group, words=()):
    """Yield the words of each command, those of a group after it."""
    for name, command in group.commands.items():
        yield (*words, name)
        if hasattr(command, "commands"):
            yield from _commands(command, (*words, name))


@pytest.mark.heavy
def test_the_page_of_commands_is_up_to_date(dpcalc, same_as_file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = ["# Commands", "Every command and its options, as `dpcalc epsilon --help` and so on print them."]
    page.append(
        "`dpcalc --install-completion` lets bash, zsh and fish complete commands, options, their values, config keys, "
        "levels and phases; start a new shell after it (`--show-completion` prints the script). `man dpcalc` shows "
        "this page too: a wheel installs it below `share/man`, where `man` looks if the `bin` beside it is on PATH."
    )
    shared = _overriding(_page(dpcalc, "epsilon"))
    page += [
        f"## {OVERRIDING}",
        f"Commands that read a config take these options; they are described here once.\n\n```text\n{shared}\n```",
    ]
    for words in _commands(application()):
        shown = _with_reference(_page(dpcalc, *words), shared)
        page += [f"## {' '.join(words)}", f"```text\n{shown}\n```"]
    same_as_file("\n\n".join(page) + "\n", ROOT / "docs" / "commands.md")


@pytest.mark.heavy
def test_the_man_page_is_up_to_date(dpcalc, same_as_file, monkeypatch):
    """`man dpcalc`: the help of every command, which the wheel installs below share/man."""
    monkeypatch.setenv("COLUMNS", "72")

    def shown(text):
        escaped = text.replace("\\", "\\e").replace("-", "\\-")
        return re.sub(r"(?m)^(?=[.'])", r"\\&", escaped)

    top = _page(dpcalc)
    page = ['.TH DPCALC 1 "" dpcalc "User Commands"', ".SH NAME", shown("dpcalc - privacy budget of training runs")]
    page += [".SH SYNOPSIS", ".B dpcalc", shown("COMMAND [OPTIONS] [ARGS]..."), ".SH DESCRIPTION", ".nf"]
    page += [shown(top.partition("\n\n")[2]), ".fi", ".SH COMMANDS"]
    shared = _overriding(_page(dpcalc, "epsilon"))
    page += [f".SS {OVERRIDING}", ".nf", shown(shared), ".fi"]
    for words in _commands(application()):
        described = _with_reference(_page(dpcalc, *words), shared)
        page += [f".SS {shown(' '.join(words))}", ".nf", shown(described), ".fi"]
    page += [".SH EXIT STATUS"]
    for code, meaning in MAN["exit codes"].items():
        page += [".TP", f".B {code}", shown(meaning)]
    page += [".SH ENVIRONMENT"]
    for name, meaning in MAN["variables"].items():
        page += [".TP", f".B {name}", shown(meaning)]
    same_as_file("\n".join(page) + "\n", ROOT / "docs" / "dpcalc.1")


def test_the_variables_of_the_man_page_are_those_that_are_read():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "dpcalc").rglob("*.py"))
    read = set(re.findall(r"\bDPCALC_[A-Z]+\b", text))
    assert read == {name for name in MAN["variables"] if name.startswith("DPCALC")}
