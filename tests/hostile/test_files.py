"""Files that lead out of the repository, or ask for more time or memory than anybody has: through every command."""

import difflib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcalc.cli.app import run

MARK = "s3cr3t"
RUN = """\
version: 1
data: {examples: 100}
sampling: {scheme: all}
mechanism: {noise_multiplier: 30}
training: {steps: 2}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 9}
"""
COMMANDS = [
    ["validate"],
    ["check"],
    ["check", "--report", "json"],
    ["check", "--report", "sarif"],
    ["check", "--base", "HEAD"],
    ["epsilon"],
    ["show"],
    ["statement"],
    ["compare"],
    ["lock"],
    ["ledger", "show"],
    ["ledger", "check"],
    ["ledger", "add", "new.ledger.yaml"],
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A repository, and beside it files that are none of its."""
    world = tmp_path_factory.mktemp("world")
    (world / "outside").mkdir()
    for name in ("secret.yaml", "secret.json", "secret.toml", "secret.txt"):
        (world / "outside" / name).write_text(f'"key": "{MARK}"\n' if "json" not in name else f'{{"key": "{MARK}"}}')
    (world / "outside" / "run.yaml").write_text(RUN + f"x-key: {MARK}\n{MARK}: 1\n")
    repository = world / "repository"
    (repository / "conf").mkdir(parents=True)
    (repository / "good.yaml").write_text(RUN)
    (repository / "link.yaml").symlink_to("../outside/secret.yaml")
    (repository / "folder").symlink_to("../outside")
    (repository / "run-link.yaml").symlink_to("../outside/run.yaml")
    (repository / "loop.yaml").symlink_to("loop.yaml")
    (repository / "zero.yaml").symlink_to("/dev/zero")
    (repository / "stdin.yaml").symlink_to("/dev/stdin")
    os.mkfifo(repository / "pipe.yaml")
    with (repository / "huge.yaml").open("wb") as huge:
        huge.truncate(10**11)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "good.yaml", "link.yaml", "folder"], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *words], cwd=repository, check=True)
    return world


@pytest.fixture
def told(world, monkeypatch, capsys):
    """Everything that a command says about a file of the repository, and how long it takes."""
    monkeypatch.chdir(world / "repository")
    monkeypatch.delenv("DPCALC_TRACEBACK", raising=False)

    def said(*arguments):
        capsys.readouterr()
        start = time.process_time()
        code = run(arguments)
        assert time.process_time() - start < 10
        text = "".join(capsys.readouterr())
        assert "DPC999" not in text
        return code, text

    return said


OUTSIDE = [
    "../outside/secret.yaml",
    "conf/../../outside/secret.yaml",
    "./././../outside/secret.json",
    "{outside}/secret.yaml",
    "{outside}/secret.toml",
    "~/secret.yaml",
    "~root/secret.yaml",
    "link.yaml",
    "folder/secret.yaml",
    "folder/secret.json",
    "file:///{outside}/secret.yaml",
    "..\\\\outside\\\\secret.yaml",
    "/proc/self/environ.yaml",
    "loop.yaml",
    "zero.yaml",
    "pipe.yaml",
    "huge.yaml",
    ".git/config",
    ".git/../.git/config.yaml",
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("place", ["reference", "tree"])
def test_no_reference_leads_out(world, told, name, place):
    name = name.format(outside=world / "outside")
    reference = {"reference": f'steps: "${{{name}:key}}"', "tree": ""}[place]
    text = (
        RUN.replace("steps: 2", reference)
        if reference
        else RUN.replace(
            "data: {examples: 100}", f'data: {{levels: [{{name: a}}, {{name: b}}], tree: {{file: "{name}"}}}}'
        )
    )
    (world / "repository" / "bad.yaml").write_text(text)
    code, text = told("check", "bad.yaml")
    assert code == 2
    assert MARK not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["run-link.yaml", "folder/run.yaml", "link.yaml"])
def test_no_config_is_a_link_that_leads_out(told, command, name):
    code, text = told(*command, name)
    assert code == 2
    assert MARK not in text


@pytest.mark.parametrize(
    "command", [["check"], ["epsilon"], ["ledger", "show"], ["ledger", "add", "l.yaml"]], ids=" ".join
)
@pytest.mark.parametrize("name", ["loop.yaml", "zero.yaml", "pipe.yaml", "huge.yaml", ".", "conf"])
def test_nothing_waits_or_reads_without_end(told, command, name):
    code, _ = told(*command, name)
    assert code == 2


def test_a_policy_or_a_lock_that_is_no_file(world, told):
    repository = world / "repository"
    for name, arguments in {"pyproject.toml": ["check"], "dpcalc.lock": ["check", "--locked"]}.items():
        for target in ("../outside/secret.toml", "/dev/zero", "pipe.yaml", "huge.yaml"):
            (repository / name).unlink(missing_ok=True)
            (repository / name).symlink_to(target)
            code, text = told(*arguments, "good.yaml")
            assert code in {0, 1, 2}
            assert MARK not in text
        (repository / name).unlink()


def test_a_ledger_is_not_written_through_a_link_that_leads_out(world, told):
    before = (world / "outside" / "run.yaml").read_bytes()
    code, _ = told("ledger", "add", "run-link.yaml", "good.yaml")
    assert (code, (world / "outside" / "run.yaml").read_bytes()) == (2, before)


def nested(opening, closing, depth):
    return opening * depth + closing * depth


BOMBS = {
    "alias bomb": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
    "merge bomb": "a0: &a0 {k: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 40)),
    "an alias of itself": "a: &a [*a]\n",
    "deep flow": f"a: {nested('[', ']', 50_000)}\n",
    "deep block": "".join(f"{' ' * n}a:\n" for n in range(600)),
    "many keys": "".join(f"k{n}: 1\n" for n in range(25_000)),
    "a long number": f"version: {'9' * 200_000}\n",
    "a long exponent": "version: 1e999999999\n",
    "a long key": f"? {'k' * 200_000}\n: 1\n",
    "many documents": "---\n" * 50_000,
    "a long line of brackets": "a: " + "{" * 100_000,
    "tags": "a: !!python/object/apply:os.system ['touch injected']\n",
    "references": RUN.replace("steps: 2", 'steps: "${x-a}"')
    + "".join(f'x-a{n}: "${{x-a{n + 1}}}"\n' for n in range(5_000)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_end_quickly(world, told, bomb):
    (world / "repository" / "bomb.yaml").write_text(BOMBS[bomb])
    assert told("check", "bomb.yaml")[0] == 2
    assert not (world / "repository" / "injected").exists()


KEYS = ", ".join(f"some_key_{n}: 1" for n in range(150))
REFERENCES = ", ".join(f'k{n}: "${{x-mine.som_key_{n}}}"' for n in range(2_000))
LEVELS = ", ".join(f"{{name: a{n}, count: 2}}" for n in range(1_000))
DRAWS = ", ".join(f"lvel{n}: {{scheme: all}}" for n in range(1_000))
MISSPELT = {
    "references": f"{RUN}x-mine: {{{KEYS}}}\nx: {{{REFERENCES}}}\n",
    "levels": RUN.replace("examples: 100", f"levels: [{LEVELS}]").replace("scheme: all", DRAWS),
    "keys": RUN + "".join(f"trainig_{n}: 1\n" for n in range(2_000)),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", MISSPELT)
def test_similar_words_are_sought_a_bounded_number_of_times(world, told, monkeypatch, name):
    compared = []
    ratio = difflib.SequenceMatcher.real_quick_ratio

    def counted(self):
        compared.append(1)
        return ratio(self)

    monkeypatch.setattr(difflib.SequenceMatcher, "real_quick_ratio", counted)
    (world / "repository" / "misspelt.yaml").write_text(MISSPELT[name], encoding="utf-8")
    assert told("validate", "misspelt.yaml")[0] == 2
    assert len(compared) <= 50_000  # at 15 microseconds each less than a second


REFERENCED = {
    "b.json": nested("[", "]", 100_000),
    "c.json": '{"a": ' * 20_000,
    "d.toml": f"a = {nested('[', ']', 5_000)}",
    "e.toml": f"{'.'.join('a' * 10_000)} = 1",
    "f.yaml": BOMBS["alias bomb"],
    "g.json": f'{{"key": {"9" * 250_000}}}',
    "h.json": '{"key": 1e999999999}',
    "i.json": f"[{'0,' * 120_000}0]",
}


@pytest.mark.parametrize("name", REFERENCED)
def test_bombs_in_other_files_end_quickly(world, told, name):
    (world / "repository" / name).write_text(REFERENCED[name])
    (world / "repository" / "bad.yaml").write_text(RUN.replace("steps: 2", f'steps: "${{{name}:key}}"'))
    assert told("check", "bad.yaml")[0] == 2
    if name.endswith(".json"):
        tree = f"data: {{levels: [{{name: a}}, {{name: b}}], tree: {{file: {name}}}}}"
        (world / "repository" / "bad.yaml").write_text(RUN.replace("data: {examples: 100}", tree))
        assert told("check", "bad.yaml")[0] in {0, 2}


@pytest.mark.parametrize("name", ["mine.svg", "folder/mine.svg"])
@pytest.mark.parametrize(
    "words",
    [
        ["init", "--force", "--output", "{}"],
        ["curve", "sigma", "good.yaml", "--range", "30,40", "--plot", "{}"],
        ["sweep", "good.yaml", "--over", "mechanism.noise_multiplier=30,40", "--jobs", "1", "--plot", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_no_file_is_written_through_a_link_that_leads_out(world, told, words, name):
    """A repository may hold `epsilon.svg` as a link to a file of the user who draws there."""
    target = world / "outside" / "mine.svg"
    target.write_text(MARK)
    (world / "repository" / "mine.svg").unlink(missing_ok=True)
    (world / "repository" / "mine.svg").symlink_to("../outside/mine.svg")
    code, text = told(*(word.format(name) for word in words))
    assert (code, target.read_text()) == (2, MARK)
    assert MARK not in text


def test_nothing_in_the_current_directory_is_imported(world):
    repository = world / "repository"
    for name in ("dpcalc", "typer", "yaml", "numpy", "json"):
        (repository / f"{name}.py").write_text("raise SystemExit('injected')\n")
    command = Path(sys.executable).with_name("dpcalc")
    if not command.exists():
        pytest.skip("dpcalc is not installed as a command")
    ended = subprocess.run([command, "check", "good.yaml"], cwd=repository, capture_output=True, text=True, check=False)
    for name in ("dpcalc", "typer", "yaml", "numpy", "json"):
        (repository / f"{name}.py").unlink()
    assert (ended.returncode, "injected" in ended.stderr) == (0, False)


def test_a_new_ledger_is_not_made_through_a_folder_that_leads_out(world, told):
    code, text = told("ledger", "add", "folder/new.yaml", "good.yaml")
    assert (code, (world / "outside" / "new.yaml").exists()) == (2, False)
    assert "got a symbolic link that leaves it" in text


@pytest.mark.parametrize("name", ["loop.svg", "x" * 300 + ".svg"])
@pytest.mark.parametrize(
    "words",
    [
        ["check", "good.yaml", "--report", "sarif={}"],
        ["init", "--force", "--output", "{}"],
        ["ledger", "add", "{}", "good.yaml"],
        ["curve", "sigma", "good.yaml", "--range", "30,40", "--plot", "{}"],
    ],
    ids=lambda words: words[0],
)
def test_links_in_a_circle_and_names_that_are_too_long_are_faults_of_the_input(world, told, words, name):
    (world / "repository" / "loop.svg").unlink(missing_ok=True)
    (world / "repository" / "loop.svg").symlink_to("loop.svg")
    assert told(*(word.format(name) for word in words))[0] == 2  # `told` refuses DPC999
