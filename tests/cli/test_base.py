"""`check --base` against real git: pull requests that cost what the base does not allow, and what a change claims.

Epsilon is steps / 1000, and each config of the base has 1000 steps and a budget of 2. More is in
`transcripts/base.txt` and `transcripts/requests.txt`.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dpcalc.planner import evaluate
from tests.cli.repository import Repository
from tests.cli.stand_in import guarantee

HERE = Path(__file__).parent
CHANGES = yaml.safe_load((HERE / "changes.yaml").read_text(encoding="utf-8"))
CONFIG, NESTED = yaml.safe_load((HERE / "base.yaml").read_text(encoding="utf-8")).values()
SECTION = "train: {{lr: 0.1}}\ndpcalc:\n" + "".join(f"  {line}\n" for line in CONFIG.splitlines())
TASKS = "{name: task, count: 1200}, {name: example, count: 20}"


def text(
    *, steps=1000, noise=1.1, delta="1e-5", adjacency="add-remove", more="budget: {epsilon: 2.0}", group=1, of=CONFIG
):
    made = of.format(steps=steps, noise=noise, delta=delta, adjacency=adjacency, more=more)
    return made.replace("delta:", f"group_size: {group}, delta:") if group != 1 else made


def nested(*, levels=TASKS, unit="task", sampling="task: {scheme: fixed, size: 32}"):
    return NESTED.format(levels=levels, unit=unit, sampling=sampling)


def linked(steps):
    """A config that takes its steps, its noise and its delta from where the training code reads them."""
    of = text(of=SECTION, steps='"${train.steps}"', noise='"${alias}"', delta='"${../conf/d.yaml:delta}"')
    values = f"{{lr: 0.1, steps: {steps}, decoy: 1000, sigma: 1.1, decoy_sigma: 1.1}}"
    return "alias: ${train.sigma}\n" + of.replace("{lr: 0.1}", values)


REAL, LINKED, TRAIN = "configs/real.yaml", "configs/linked.yaml", "${train.steps}"
HARMLESS, DEAR = text(), text(steps=31_600, more="budget: {epsilon: 99}")
TEXTS = {"HARMLESS": HARMLESS, "DEAR": DEAR, "LARGE": text(steps=31_600), "RAISED": text(more="budget: {epsilon: 99}")}
REQUESTS = {
    **yaml.safe_load((HERE / "requests.yaml").read_text(encoding="utf-8")),
    "makes a section the config": (1, ("write", REAL, DEAR + text(of=SECTION).partition("\n")[2])),
    "cuts the reference": (1, ("write", LINKED, linked(31_600).replace(f'"{TRAIN}"', "1000"))),
    "leads the reference elsewhere": (1, ("write", LINKED, linked(31_600).replace(TRAIN, "${train.decoy}"))),
    "leads it elsewhere on the way": (1, ("write", LINKED, linked(1000).replace("sigma}", "decoy_sigma}"))),
    "leads it to another file": (1, ("write", LINKED, linked(1000).replace("${../conf/", "${../conf/decoy/"))),
    "raises what a reference leads to": (1, ("write", LINKED, linked(31_600))),
    "leaves the section": (1, ("write", "configs/section.yaml", HARMLESS)),
    "hides among many": (
        2,
        ("project", '["configs/**/*.yaml"]'),
        ("write", "configs/zzz.yaml", DEAR),
        *(("write", f"configs/a/{number}.yaml") for number in range(1001)),
    ),
}


def changed(tree, what, *words):
    """Make a change of the working tree."""
    match what:
        case "write":
            tree.write(words[0], TEXTS.get(words[-1], words[-1]) if words[1:] else HARMLESS)
        case "move":
            (tree.folder / words[1]).parent.mkdir(parents=True, exist_ok=True)
            tree.git("mv", *words[:2])
            if words[2:]:
                changed(tree, "write", *words[1:])
        case "remove":
            tree.git("rm", "--quiet", "-r", *words)
        case "link":
            (tree.folder / words[0]).unlink(missing_ok=True)
            (tree.folder / words[0]).symlink_to(words[1])
        case "project":
            tree.write("pyproject.toml", f"[tool.dpcalc]\nconfigs = {words[0]}\n")
        case "raise_and":
            tree.write(REAL, DEAR)
            changed(tree, *words)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A repository with a few configs in one commit."""
    made = Repository.fresh(tmp_path_factory.mktemp("base") / "work")
    for name in ("real", "other"):
        made.write(f"configs/{name}.yaml", HARMLESS)
    made.write("configs/section.yaml", text(of=SECTION))
    made.write("configs/linked.yaml", linked(1000))
    for name in ("conf/d.yaml", "conf/decoy/d.yaml"):
        made.write(name, "delta: 1e-5\n")
    made.commit(pyproject__toml='[tool.dpcalc]\nconfigs = ["configs/*.yaml"]\n', run__yaml=HARMLESS)
    return made.folder


@pytest.fixture
def tree(base, tmp_path, monkeypatch):
    """A copy of that repository, and the current directory in it."""
    return Repository.copied(base, tmp_path / "work", monkeypatch)


@pytest.mark.parametrize("name", REQUESTS)
def test_it_does_not_pass(dpcalc, tree, name):
    tree.git("switch", "--quiet", "--create", "request")
    code, *changes = REQUESTS[name]
    for change in changes:
        changed(tree, *change)
    tree.commit()
    assert dpcalc("check", "--base", "main").code == code


# One config


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


@pytest.mark.parametrize("revision", ["HEAD^{tree}~0", "main\n", "\x1b[31m"])
def test_a_base_is_a_commit_and_nothing_else(dpcalc, tree, revision):  # noqa: ARG001  in a repository
    ended = dpcalc("check", "run.yaml", f"--base={revision}")
    assert (ended.code, "\x1b" in ended.out + ended.err) == (2, False)
