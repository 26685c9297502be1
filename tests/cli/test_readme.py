"""README and chapters tell the truth: their commands run and print what they show, their links lead somewhere."""

import doctest
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from benchmarks.__main__ import read
from benchmarks.goals import goals
from benchmarks.nested import CASES
from benchmarks.nested import row as nested_row
from dpcalc.cli.commands import application
from dpcalc.config.load import load, load_text
from dpcalc.report.output import rounded_up

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
APPENDICES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/theory/*.md"))
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ["README.md", *CHAPTERS, *APPENDICES]}
PROSE = {name: re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE) for name, text in PAGES.items()}
COMPLETION = ("--install-completion", "--show-completion")  # of Typer's group
STORY = "docs/tutorial.md"  # its blocks follow on each other, in one directory
COMMANDS = application().commands
ROWS = yaml.safe_load(Path(__file__).with_name("readme.yaml").read_text(encoding="utf-8"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], flags=re.DOTALL | re.MULTILINE)


def marks(page):
    return [] if page == "README.md" else [pytest.mark.heavy]


def everywhere(language):
    """Every block of a language, named by its page."""
    return [
        pytest.param(text, id=f"{page} {number}", marks=marks(page) if language == "console" else [])
        for page in PAGES
        if page not in {STORY, "docs/adopt.md"} or language == "yml"  # these sessions have tests of their own
        for number, text in enumerate(blocks(page, language))
    ]


@pytest.mark.parametrize("session", everywhere("console"))
def test_commands_print_what_is_shown(session, real, tmp_path):
    shutil.copytree(ROOT / "sample_configs", tmp_path / "sample_configs")
    played(session, real, code=0)


@pytest.mark.parametrize("session", [one for one in everywhere("text") if one.values[0].startswith("$ dpcalc ")])
def test_commands_whose_answer_is_no_print_what_is_shown(session, real, tmp_path):
    shutil.copytree(ROOT / "sample_configs", tmp_path / "sample_configs")
    played(session, real, code=1)


@pytest.mark.heavy
def test_the_tutorial_is_one_story(real, tmp_path):
    """The first block is the file that is written; the commands then follow each other up to the sample config."""
    (draft,) = blocks(STORY, "yaml")
    config = tmp_path / "ward.yaml"
    config.write_text(draft, encoding="utf-8")
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGES[STORY], flags=re.DOTALL | re.MULTILINE):
        match language:
            case "console" | "text":
                played(text, real, code=0 if language == "console" else 1)
            case "python":
                answered(text)
    assert load(str(config)).config_hash == load(str(ROOT / "sample_configs" / "ward_notes.yaml")).config_hash


def played(session, real, *, code):
    """Run the commands of a block and compare what they print; a line `...` stands for any lines."""
    steps = re.findall(r"^\$ dpcalc (.*)\n((?:(?!\$ ).*\n)*)", session, flags=re.MULTILINE)
    assert session == "".join(f"$ dpcalc {words}\n{shown}" for words, shown in steps)
    for words, shown in steps:
        ended = real(*shlex.split(words))
        pattern = "(?s:.*)".join(map(re.escape, re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)))
        assert ended.code == code, ended.err
        assert re.fullmatch(pattern, ended.out), ended.out


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks(page)) for page in PAGES if blocks(page, "python") and page != STORY]
)
def test_python_answers_what_is_shown(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    answered("".join(blocks(page, "python")))


def answered(text):
    """Run a session of Python and compare what it prints."""
    session = doctest.DocTestParser().get_doctest(text, {}, "session", None, 0)
    assert session.examples
    assert doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(session).failed == 0


@pytest.mark.parametrize("text", everywhere("yml"))
def test_parts_of_configs_are_configs(text, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "optim.yaml").write_text("dp: {sigma: 1.1}\n", encoding="utf-8")
    part = yaml.safe_load(text)
    if "dpcalc" not in part:
        level = part["data"].get("levels", [{"name": "example"}])[0]["name"]
        text += "\n".join(line for key, line in ROWS["rest"].items() if key not in part).replace("LEVEL", level)
    assert load_text(text, path=str(tmp_path / "train.yaml")).plan.steps > 0


def test_configs_by_role_can_be_pasted_as_they_are():
    configs = [text for text in blocks("docs/by-role.md", "yml") if "\nprivacy:" in text]
    assert len(configs) == 4
    assert all(load_text(text, path="train.yaml").plan.steps > 0 for text in configs)


def test_the_worked_example_is_the_sample_config():
    (shown,) = blocks("README.md", "yaml")
    assert load_text(shown, path="shown").config_hash == load(str(ROOT / "sample_configs/clinic_maml.yaml")).config_hash


def test_the_installation_is_the_one_that_ci_makes():
    commands = re.findall(r"pip install [^`\n]*", PAGES["README.md"])
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(commands) == 2
    assert all(f"\n{part}\n" in script.replace(" && ", "\n") for line in commands for part in line.split(" && "))


@pytest.mark.parametrize("page", PAGES)
def test_every_named_command_and_option_exists(page):
    named = re.findall(r"`([^`\n]+)`", PROSE[page]) + "".join(blocks(page, "sh") + blocks(page, "console")).split("\n")
    lines = [re.sub(r"^(\$ )?dpcalc ", "", line).split("#")[0].split() for line in named if "dpcalc " in line[:9]]
    lines += [line.split() for line in named if line.split(" ")[0] in COMMANDS or line.startswith("-")]
    assert lines or page in APPENDICES
    for command, *words in lines:
        assert command in COMMANDS or command.startswith("-"), command
        assert {re.split(r"[=|]", word)[0] for word in [command, *words] if re.match(r"--?\w", word)} <= options(
            command
        )


def options(command):
    """The options of a command and its subcommands; where none is named, those of any."""
    commands = [COMMANDS[command]] if command in COMMANDS else list(COMMANDS.values())
    commands += [inner for one in commands for inner in getattr(one, "commands", {}).values()]
    parameters = [parameter for one in commands for parameter in (*one.params, *getattr(one, "shared", ()))]
    return {option for parameter in parameters for option in parameter.opts} | {"--help", *COMPLETION}


def anchors(text):
    """What a page can be entered at, as GitHub names it."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)"></a>', text))


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    text = PROSE.get(page) or (ROOT / page).read_text(encoding="utf-8")
    for target, _, anchor in re.findall(r"\]\((?!https?://)([^)#]*)(#([^)]*))?\)", text):
        there = (ROOT / page).parent / target if target else ROOT / page
        assert there.is_file(), target
        assert not anchor or anchor in anchors(PROSE[there.resolve().relative_to(ROOT).as_posix()]), anchor


def test_the_readme_is_short_and_names_every_chapter():
    assert len(PAGES["README.md"].splitlines()) <= 160
    _, chapters = PAGES["README.md"].split("## Chapters\n")
    assert sorted(re.findall(r"\]\((docs/.*?)\)", chapters)) == CHAPTERS


def test_the_site_has_every_chapter():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = re.findall(r"[\w/-]+\.md", str(site["nav"]))
    beside = {"index.md", "start.md", "api.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}  # made by .ci/site.py
    assert sorted(f"docs/{page}" for page in pages if page not in beside) == sorted([*CHAPTERS, *APPENDICES])
    assert beside <= set(pages)


def test_goals_are_those_of_the_recorded_benchmark():
    recorded = goals(read())
    assert set(recorded) < set(PAGES["docs/benchmarks.md"].splitlines())
    told = " ".join(PAGES["README.md"].split())
    said = r"takes (\S+) times as long for one end as dpcalc for both \(geometric mean of (\d+) cases, (\S+) in"
    mean, cases, least = re.search(said, told).groups()
    line = rf"\| dp_accounting PLD, .* our interval, .* mean {mean} \(CPU \S+\), least {least}, {cases} cases \|.*"
    assert any(re.fullmatch(line, each) for each in recorded)


def table(page, first):
    """The rows of the table whose first column has this name, as mappings from the names of the columns."""
    (block,) = re.findall(rf"^\| {first} \|.*\n(?:\|.*\n)+", PROSE[page], flags=re.MULTILINE)
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.heavy
def test_the_first_table_of_the_readme_is_what_dpcalc_says(real, monkeypatch):
    monkeypatch.chdir(ROOT / "sample_configs")
    rows = table("README.md", "run")
    for row, run in zip(rows, ROWS["table"], strict=True):
        words = run.replace(":", ": ").split(" ", 2)
        compared = json.loads(real("compare", *words, "--json").out)["rows"]
        opacus = next(each["epsilon"] for each in compared if each["method"] == "opacus-prv")
        ended = dict(line.split(": ", 1) for line in real("epsilon", *words).out.splitlines())
        assert row["Opacus would print"] == rounded_up(opacus)
        assert row["dpcalc proves epsilon to be"] == f"{ended['epsilon_lower']} to {ended['epsilon']}"


@pytest.mark.heavy
def test_the_secret_order_of_the_readme_is_what_dpcalc_says(real, monkeypatch):
    monkeypatch.chdir(ROOT / "sample_configs")
    told = re.search(
        r"cost (\S+) instead of (\S+) under replace-one, and (\S+) instead of (\S+) under",
        " ".join(PROSE["README.md"].split()),
    )
    words = [
        ["--adjacency", name, *more]
        for name in ("replace-one", "zero-out")
        for more in (["--set", "sampling.order=secret"], [])
    ]
    assert [*told.groups()] == [
        rounded_up(float(real("epsilon", "-q", "mnist_shuffle.yaml", *each).out)) for each in words
    ]


def test_the_site_opens_with_rows_of_that_table():
    home = (ROOT / ".ci" / "home.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (\S+) \| (\S+ to \S+) \|$", home, flags=re.MULTILINE)
    assert rows == [tuple(row.values())[1:] for row in table("README.md", "run")[:3]]


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.words}, {case.protected}")
def test_the_table_of_nested_draws_is_what_the_code_computes(case):
    (kept,) = (
        [*row.values()]
        for row in table("docs/numbers.md", "draws")[:10]
        if [*row.values()][:2] == [case.words, case.protected]
    )
    assert nested_row(case) == kept
