"""show, schema, explain and init."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from dpcalc.cli.commands import application
from dpcalc.cli.configs import Template
from dpcalc.config.json_schema import json_schema_text
from dpcalc.config.load import load, load_text
from dpcalc.report.rules import RULES

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "dpcalc" / "config" / "templates"


def test_show_is_loaded_again(dpcalc, config):
    path = config()
    shown = dpcalc("show", path, "--set", "training.steps=7", "--method", "rdp")
    again = load_text(shown.out, path="shown")
    before = load(path, assignments=["training.steps=7", "accounting.method=rdp"])
    assert (shown.code, again.config_hash, again.plan) == (0, before.config_hash, before.plan)


def test_show_of_flags_alone(dpcalc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ("--sample-rate", "0.01", "--noise-multiplier", "1", "--epochs", "2", "--delta", "1e-6")
    shown = dpcalc("show", *run)
    assert (shown.code, load_text(shown.out, path="shown").plan.steps) == (0, 200)


def test_schema(dpcalc):
    ended = dpcalc("schema")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert ended.out == json_schema_text()


def test_schema_as_a_table(dpcalc):
    ended = dpcalc("schema", "--markdown")
    assert (ended.code, ended.err) == (0, "")
    assert "| `mechanism.noise_multiplier` | `0` or number, 1e-06 to 1e+09 |" in ended.out


@pytest.mark.parametrize("code", RULES)
def test_explain(dpcalc, code):
    ended = dpcalc("explain", code)
    rule = RULES[code]
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{code}: {rule.title}\n\n{rule.rule}\n\nWhy: {rule.reason}\n\nFix: {rule.fix}\n"


@pytest.mark.parametrize("code", ["dpc101", "101", " DPC101 "])
def test_explain_takes_short_codes(dpcalc, code):
    assert dpcalc("explain", code).out == dpcalc("explain", "DPC101").out


@pytest.mark.parametrize(
    ("code", "hint"),
    [("DPC113", "did you mean DPC"), ("DPC4041", "did you mean DPC404?"), ("x\x1b[2J", "`dpcalc explain` lists all")],
)
def test_explain_of_no_code(dpcalc, code, hint):
    ended = dpcalc("explain", code)
    assert (ended.code, ended.out) == (2, "")
    assert hint in ended.err
    assert "\x1b" not in ended.err


def test_explain_without_a_code_lists_all(dpcalc):
    ended = dpcalc("explain")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines()] == list(RULES)
    assert all(rule.title in ended.out for rule in RULES.values())


def test_the_page_of_rules_is_up_to_date(dpcalc, same_as_file):
    same_as_file(dpcalc("explain", "--markdown").out, ROOT / "docs" / "rules.md")


def test_the_page_of_keys_is_up_to_date(dpcalc, same_as_file):
    same_as_file(dpcalc("schema", "--markdown").out, ROOT / "docs" / "keys.md")


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


def test_the_page_of_commands_is_up_to_date(dpcalc, same_as_file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
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
    for code, meaning in MEANINGS.items():
        page += [".TP", f".B {code}", shown(meaning)]
    page += [".SH ENVIRONMENT"]
    for name, meaning in VARIABLES.items():
        page += [".TP", f".B {name}", shown(meaning)]
    same_as_file("\n".join(page) + "\n", ROOT / "docs" / "dpcalc.1")


MEANINGS = {
    "0": "yes, or computed",
    "1": "no: over the budget, risen, contradicted, or no value meets the target",
    "2": "the input must be fixed",
    "3": "no verdict: no convergence, out of time or memory, or the answer could not be written",
    "130": "interrupted",
    "141": "the reader of the output is gone",
}
VARIABLES = {
    "DPCALC_CONFIG": "the config of commands that are given none",
    "NO_COLOR": "if set, no colours",
    "COLUMNS": "width of the terminal",
    "DPCALC_TRACEBACK": "if set, errors show where they happened",
}


def test_the_variables_of_the_man_page_are_those_that_are_read():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "dpcalc").rglob("*.py"))
    read = set(re.findall(r"\bDPCALC_[A-Z]+\b", text))
    assert read == {name for name in VARIABLES if name.startswith("DPCALC")}


def _commands(group, words=()):
    """Yield the words of each command, those of a group after it."""
    for name, command in group.commands.items():
        yield (*words, name)
        if hasattr(command, "commands"):
            yield from _commands(command, (*words, name))


def test_every_code_of_the_package_is_explained():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "dpcalc").rglob("*.py"))
    assert set(re.findall(r"DPC[0-9]{3}", text)) == RULES.keys()
    assert list(RULES) == sorted(RULES)


def test_every_rule_has_something_to_say():
    for rule in RULES.values():
        assert rule.title
        assert all(text.endswith(".") and len(text) > 15 for text in (rule.rule, rule.reason, rule.fix))


@pytest.mark.parametrize("template", list(Template))
def test_init(dpcalc, tmp_path, monkeypatch, template):
    monkeypatch.chdir(tmp_path)
    ended = dpcalc("init", "--template", str(template))
    assert (ended.code, ended.out) == (0, "wrote dpcalc.yaml\n")
    text = (tmp_path / "dpcalc.yaml").read_text(encoding="utf-8")
    if "scheme: ???" in text:  # any loader fits, and none is chosen
        assert "how the loader draws" in ended.err
        asked = dpcalc("epsilon")
        assert (asked.code, "`sampling.scheme` is `???`" in asked.err) == (2, True)
        assert dpcalc("init", "--template", str(template), "--scheme", "fixed", "--force").code == 0
    assert text.startswith("# yaml-language-server: $schema=dpcalc.schema.json\n")
    assert text.count("#") >= 7
    validated = dpcalc("validate", "dpcalc.yaml")
    assert validated.out == "dpcalc.yaml: passed\nread 1 file: 1 passed\n"
    assert dpcalc("epsilon").code == 0


def test_every_template_is_offered():
    assert {path.stem for path in TEMPLATES.glob("*.yaml")} == {str(template) for template in Template}


@pytest.mark.parametrize("template", list(Template))
def test_templates_meet_the_budget_they_state(template):
    from dpcalc.planner.evaluate import guarantee

    text = (TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8").replace("scheme: ???", "scheme: poisson")
    plan = load_text(text, path="template.yaml").plan
    assert 0 < guarantee(plan).epsilon < plan.budget.epsilon


def test_init_elsewhere_and_on_standard_output(dpcalc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dpcalc("init", "--template", "maml", "-o", "-").out == (TEMPLATES / "maml.yaml").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []
    assert dpcalc("init", "--output", "run.yml").out == "wrote run.yml\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run.yml"]


def test_init_overwrites_only_when_told(dpcalc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "dpcalc.yaml"
    path.write_text("mine")
    ended = dpcalc("init")
    assert (ended.code, ended.out, path.read_text()) == (2, "", "mine")
    assert "--force" in ended.err
    assert dpcalc("init", "--force").code == 0
    assert path.read_text(encoding="utf-8") == (TEMPLATES / "dpsgd.yaml").read_text(encoding="utf-8")
    assert [one.name for one in tmp_path.iterdir()] == ["dpcalc.yaml"]


def test_init_leaves_a_dangling_link(dpcalc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpcalc.yaml").symlink_to("none.yaml")
    assert dpcalc("init").code == 2
    assert [one.name for one in tmp_path.iterdir()] == ["dpcalc.yaml"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_init_writes_a_readable_file(dpcalc, tmp_path):
    path = tmp_path / "a.yaml"
    dpcalc("init", "-o", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["none/a.yaml", "", "a\0b.yaml", "x" * 300])
def test_init_where_nothing_can_be_written(dpcalc, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    ended = dpcalc("init", "-o", name)
    assert (ended.code, ended.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_init_with_a_loader(dpcalc):
    assert "scheme: shuffle" in dpcalc("init", "-o", "-", "--scheme", "shuffle").out
    ended = dpcalc("init", "-o", "-", "--scheme", "bernoulli")
    assert (ended.code, "dpcalc calls this `poisson`" in ended.err) == (2, True)
    ended = dpcalc("init", "-o", "-", "--template", "maml", "--scheme", "shuffle")
    assert (ended.code, "says itself how it draws" in ended.err) == (2, True)


def test_init_does_not_know_other_templates(dpcalc):
    ended = dpcalc("init", "--template", "cnn")
    assert (ended.code, ended.out) == (2, "")
    assert "maml" in ended.err
