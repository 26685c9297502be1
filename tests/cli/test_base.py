"""`check --base` and `diff` against real git, where a session cannot tell it; epsilon is steps / 1000."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dpcalc.planner import evaluate
from tests.cli.repository import Repository
from tests.cli.stand_in import guarantee

CHANGES = yaml.safe_load(Path(__file__).with_name("changes.yaml").read_text(encoding="utf-8"))
CONFIG = """\
version: 1
data: {{examples: 60_000}}
sampling: {{scheme: poisson, rate: 0.004}}
mechanism: {{noise_multiplier: {noise}}}
training: {{steps: {steps}}}
privacy: {{unit: example, adjacency: {adjacency}, delta: {delta}}}
{more}
"""


def text(*, steps=1000, noise=1.1, delta="1e-5", adjacency="add-remove", more="budget: {epsilon: 2.0}", group=1):
    made = CONFIG.format(steps=steps, noise=noise, delta=delta, adjacency=adjacency, more=more)
    return made.replace("delta:", f"group_size: {group}, delta:") if group != 1 else made


NESTED = """\
version: 1
data: {{levels: [{levels}]}}
sampling: {{{sampling}}}
mechanism: {{noise_multiplier: 6}}
training: {{steps: 100}}
privacy: {{unit: {unit}, adjacency: add-remove, delta: 1e-5}}
"""


TASKS = "{name: task, count: 1200}, {name: example, count: 20}"


def nested(*, levels=TASKS, unit="task", sampling="task: {scheme: fixed, size: 32}"):
    return NESTED.format(levels=levels, unit=unit, sampling=sampling)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with one config in one commit, and the current directory in it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = Repository.fresh(tmp_path / "work")
    made.commit(run__yaml=text())
    monkeypatch.chdir(made.folder)
    return made


def found(ended):
    """(code, level, line) of every finding of the only file, and the file's result."""
    (result,) = json.loads(ended.out)["results"]
    return [(one["code"], one["level"], one["line"]) for one in result["findings"]], result


@pytest.mark.parametrize(("build", "old", "new", "code", "codes", "said"), CHANGES)
def test_a_change_of_cost_budget_or_promise(dpcalc, tree, build, old, new, code, codes, said):
    made = {"text": text, "nested": nested}[build]
    tree.commit(run__yaml=made(**old))
    tree.write("run.yaml", made(**new))
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    told, result = found(ended)
    told = [one for one, *_ in told if one not in {"DPC304", "DPC405"}]
    assert (ended.code, told) == (code, codes)
    assert not said or any(said in one["message"] for one in result["findings"])
    if codes == ["DPC404"]:
        assert dpcalc("check", "run.yaml", "--base", "main", "--allow-budget-change").code == 0


@pytest.fixture
def cheap_poisson(dpcalc, monkeypatch):  # noqa: ARG001  after its own stand-in
    """Poisson draws and larger data cost less than they do in the stand-in."""

    def cost(question, *, method=None):
        level = question.phases[0].hierarchy.levels[0]
        answer = guarantee(question, method=method)
        cheaper = 0.5 if level.scheme.name == "poisson" else 1.0
        return replace(answer, epsilon=cheaper * answer.epsilon * 1200 / level.count)

    monkeypatch.setattr(evaluate, "guarantee", cost)


@pytest.mark.usefixtures("cheap_poisson")
@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"sampling": "task: {scheme: poisson, expected: 32}"}, "sampling.task"),
        ({"levels": TASKS.replace("1200", "2400")}, "data.levels[0].count"),
    ],
)
def test_a_cheaper_claim_is_a_warning(dpcalc, tree, changed, key):
    tree.commit(run__yaml=nested())
    tree.write("run.yaml", nested(**changed))
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    claims = [one for one in found(ended)[1]["findings"] if one["code"] == "DPC405"]
    assert [(one["level"], one["message"].partition(":")[0]) for one in claims] == [("warning", key)]
    assert "alone lowers epsilon, 0.100 -> 0.0500" in claims[0]["message"]
    tree.commit(run__yaml=nested(**changed))
    tree.write("run.yaml", nested())  # dearer
    codes = [code for code, *_ in found(dpcalc("check", "run.yaml", "--base", "main", "--json"))[0]]
    assert "DPC405" not in codes


@pytest.mark.parametrize("count", [90_000, 60_000_000])
def test_a_claim_that_helps_only_with_another_change(dpcalc, tree, monkeypatch, count):
    def cost(question, *, method=None):
        rate = float(question.phases[0].hierarchy.levels[0].scheme.probability)
        return replace(guarantee(question, method=method), epsilon=question.steps * rate)

    monkeypatch.setattr(evaluate, "guarantee", cost)
    said = {"60_000": str(count), "rate: 0.004": "expected: 240"}  # alone neither changes the rate
    for words in ({}, {"60_000": str(count)}, {"rate: 0.004": "expected: 240"}, said):
        made = text(steps=1000 if len(words) < 2 else 1200)
        for old, new in words.items():
            made = made.replace(old, new)
        tree.write("run.yaml", made)
        findings = found(dpcalc("check", "run.yaml", "--base", "main", "--json"))[1]["findings"]
        claims = [one["message"] for one in findings if one["code"] == "DPC405"]
        assert len(claims) == (len(words) == 2)
    change = f"data.examples: 60_000 -> {count} with the other changes lowers epsilon, 4.80 -> "
    assert claims[0].startswith(change)


def test_a_small_rise_has_as_many_digits_as_show_it(dpcalc, tree, monkeypatch):
    def cost(question, *, method=None):
        return replace(guarantee(question, method=method), epsilon=1 + 2e-9 * (question.steps - 1000))

    monkeypatch.setattr(evaluate, "guarantee", cost)
    tree.write("run.yaml", text(steps=2000))
    assert "epsilon rises, 1.00 -> 1.000002 (" in dpcalc("check", "run.yaml", "--base", "main").out


@pytest.mark.usefixtures("cheap_poisson")
def test_a_claim_does_not_hide_among_other_changes(dpcalc, tree):
    many = "".join(f"  - {{name: p{number}, training: {{steps: {{steps}}}}}}\n" for number in range(40))
    text = nested().replace("training: {steps: 100}", "phases:\n" + many.rstrip())
    tree.commit(run__yaml=text.replace("{steps}", "10"))
    tree.write("run.yaml", text.replace("{steps}", "20").replace("1200", "2400"))
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    claims = [one["message"] for one in found(ended)[1]["findings"] if one["code"] == "DPC405"]
    said = "data.levels[0].count: 1200 -> 2400 changes an assumption, and what it does alone is not known"
    assert claims == [f"{said}; make sure that the training code changed with it"]


def test_a_shallow_clone(dpcalc, tree, tmp_path, monkeypatch):
    first = tree.git("rev-parse", "HEAD")
    tree.commit(run__yaml=text(steps=1200))
    tree.git("clone", "--quiet", "--depth=1", tree.folder.as_uri(), str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    ended = dpcalc("check", "run.yaml", "--base", first)
    assert ended.code == 2
    assert f"got `{first}`" in ended.err
    assert "fetch-depth: 0" in ended.err
    assert dpcalc("check", "run.yaml", "--base", "HEAD").code == 0
    Repository(tmp_path / "shallow").git("fetch", "--quiet", "--unshallow")
    assert dpcalc("check", "run.yaml", "--base", first, "--strict").code == 1


@pytest.mark.parametrize(
    "base", ["--output=stolen", "-h", "main:run.yaml", "HEAD^{tree}~0", "nosuch", "", "main\n", "\x1b[31m"]
)
def test_a_base_is_a_commit_and_nothing_else(dpcalc, tree, base):
    ended = dpcalc("check", "run.yaml", f"--base={base}")
    assert ended.code == 2
    assert "\x1b" not in ended.out + ended.err
    assert not (tree.folder / "stolen").exists()


def test_only_files_in_a_repository_have_a_base(dpcalc, config, tree, monkeypatch):
    ended = dpcalc("check", config(), "--base", "main")
    assert (ended.code, "in a git repository" in ended.out) == (2, True)
    with (tree.folder / "run.yaml").open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        ended = dpcalc("check", "-", "--base", "main")
    assert (ended.code, "name the file" in ended.out) == (2, True)


def test_a_reference_of_the_base_does_not_leave_the_repository(dpcalc, tree, tmp_path):
    (tmp_path / "secret.yaml").write_text("steps: 1\n", encoding="utf-8")
    for name in ("../secret.yaml", "link.yaml"):
        (tree.folder / "link.yaml").unlink(missing_ok=True)
        (tree.folder / "link.yaml").symlink_to("../secret.yaml")
        tree.commit(run__yaml=text(steps=f'"${{{name}:steps}}"'))
        tree.write("run.yaml", text())
        ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
        assert found(ended)[0] == [("DPC406", "error", None)]


@pytest.mark.heavy
def test_the_same_noise_said_otherwise_is_no_rise(real, tmp_path):
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    said = text(more="").replace("noise_multiplier: 1.1", "{}")
    for path, noise in ((old, "noise_multiplier: 2.4"), (new, "noise_multiplier: 3, also: {noise_multiplier: 4}")):
        path.write_text(said.replace("{}", noise), encoding="utf-8")
    for pair in ((old, new), (new, old)):
        ended = real("diff", *map(str, pair), "--json")
        before, after = found(ended)[1]["base"]["guarantee"]["epsilon"], found(ended)[1]["guarantee"]["epsilon"]
        assert after == pytest.approx(before, rel=1e-6)
        assert "DPC401" not in {code for code, *_ in found(ended)[0]}
