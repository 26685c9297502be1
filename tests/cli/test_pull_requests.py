"""Pull requests that want to be merged with a cost that the base does not allow: none of them passes the gate.

Epsilon is steps / 1000, and each config of the base has 1000 steps and a budget of 2.
"""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.repository import Repository

CONFIG = """\
version: 1
data: {{examples: 60_000}}
sampling: {{scheme: poisson, rate: 0.004}}
mechanism: {{noise_multiplier: 1.1}}
training: {{steps: {steps}}}
privacy: {{unit: example, adjacency: add-remove, delta: 1e-5}}
budget: {{epsilon: {budget}}}
"""
SECTION = "train: {{lr: 0.1}}\ndpcalc:\n" + "".join(f"  {line}\n" for line in CONFIG.splitlines())
PROJECT = '[tool.dpcalc]\nconfigs = ["configs/*.yaml"]\n'


def config(steps=1000, budget=2.0, text=CONFIG):
    return text.format(steps=steps, budget=budget)


def linked(steps):
    """A config that takes its steps, its noise and its delta from where the training code reads them."""
    text = config(steps="${train.steps}", text=SECTION).replace("noise_multiplier: 1.1", 'noise_multiplier: "${alias}"')
    text = text.replace("steps: ${train.steps}", 'steps: "${train.steps}"').replace("1e-5", '"${../conf/d.yaml:delta}"')
    return f"alias: ${{train.sigma}}\n{text}".replace(
        "{lr: 0.1}", f"{{lr: 0.1, steps: {steps}, decoy: 1000, sigma: 1.1, decoy_sigma: 1.1}}"
    )


HARMLESS, DEAR = config(), config(steps=31_600, budget=99)
LARGE, RAISED = config(steps=31_600), config(budget=99)


class Change:
    """What a pull request does to the working tree."""

    def __init__(self, tree):
        self.tree = tree

    def write(self, name, text=HARMLESS):
        self.tree.write(name, TEXTS.get(text, text))

    def move(self, old, new, text=None):
        (self.tree.folder / new).parent.mkdir(parents=True, exist_ok=True)
        self.tree.git("mv", old, new)
        if text:
            self.write(new, text)

    def remove(self, name):
        self.tree.git("rm", "--quiet", "-r", name)

    def link(self, name, target):
        path = self.tree.folder / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def project(self, configs):
        self.write("pyproject.toml", f"[tool.dpcalc]\nconfigs = {configs}\n")

    def raise_and(self, change, *arguments):
        self.write(REAL, DEAR)
        getattr(self, change)(*arguments)


REAL, LINKED = "configs/real.yaml", "configs/linked.yaml"
TRAIN = "${train.steps}"
TEXTS = {"HARMLESS": HARMLESS, "DEAR": DEAR, "LARGE": LARGE, "RAISED": RAISED}
REQUESTS = {
    **yaml.safe_load(Path(__file__).with_name("requests.yaml").read_text(encoding="utf-8")),
    "makes a section the config": (1, ("write", REAL, DEAR + config(text=SECTION).partition("\n")[2])),
    "cuts the reference": (1, ("write", LINKED, linked(31_600).replace(f'"{TRAIN}"', "1000"))),
    "leads the reference elsewhere": (1, ("write", LINKED, linked(31_600).replace(TRAIN, "${train.decoy}"))),
    "leads it elsewhere on the way": (1, ("write", LINKED, linked(1000).replace("sigma}", "decoy_sigma}"))),
    "leads it to another file": (1, ("write", LINKED, linked(1000).replace("${../conf/", "${../conf/decoy/"))),
    "raises what a reference leads to": (1, ("write", LINKED, linked(31_600))),
    "leaves the section": (1, ("write", "configs/section.yaml", config())),
    "hides among many": (
        2,
        ("project", '["configs/**/*.yaml"]'),
        ("write", "configs/zzz.yaml", DEAR),
        *(("write", f"configs/a/{number}.yaml") for number in range(1001)),
    ),
}


def changed(tree, name):
    """Make the changes of a request on a branch of its own; the exit code that the gate must have."""
    tree.git("switch", "--quiet", "--create", "request")
    code, *changes = REQUESTS[name]
    for what, *arguments in changes:
        getattr(Change(tree), what)(*arguments)
    return code


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A repository with a few configs in one commit."""
    made = Repository.fresh(tmp_path_factory.mktemp("base") / "work")
    for name in ("real", "other"):
        made.write(f"configs/{name}.yaml", HARMLESS)
    made.write("configs/section.yaml", config(text=SECTION))
    made.write("configs/linked.yaml", linked(1000))
    for name in ("conf/d.yaml", "conf/decoy/d.yaml"):
        made.write(name, "delta: 1e-5\n")
    made.commit(pyproject__toml=PROJECT)
    return made.folder


@pytest.fixture
def tree(base, tmp_path, monkeypatch):
    """A copy of that repository, and the current directory in it."""
    return Repository.copied(base, tmp_path / "work", monkeypatch)


def check(dpcalc, *options):
    return dpcalc("check", "--base", "main", *options)


def test_nothing_is_changed(dpcalc, tree):
    assert check(dpcalc, "--strict").code == 0
    tree.git("switch", "--quiet", "--create", "request")
    tree.git("mv", "configs/real.yaml", "gone.yaml")  # not committed yet
    assert check(dpcalc).code == 1


@pytest.mark.parametrize("name", REQUESTS)
def test_it_does_not_pass(dpcalc, tree, name):
    code = changed(tree, name)
    tree.commit()
    assert check(dpcalc).code == code


@pytest.mark.parametrize("name", ["raises the cost", "deletes", "renames and raises"])
def test_nor_by_a_pattern_that_the_workflow_states(dpcalc, tree, name):
    assert check(dpcalc, "configs/*.yaml").code == 0
    code = changed(tree, name)
    assert check(dpcalc, "configs/*.yaml").code == code
    assert check(dpcalc, str(tree.folder / "configs" / "*.yaml")).code == code


# In a folder that the base does not have there is nothing to be compared with: no verdict.
@pytest.mark.parametrize(("where", "code"), [("configs", 1), ("configs/deeper", 2)])
def test_nor_from_another_directory(dpcalc, tree, monkeypatch, where, code):
    tree.git("switch", "--quiet", "--create", "request")
    tree.write(f"{where}/dpcalc.yaml", HARMLESS)
    tree.write("configs/real.yaml", DEAR)
    monkeypatch.chdir(tree.folder / where)
    assert check(dpcalc).code == code


def findings(ended):
    return {
        result["path"]: [(one["code"], one["level"]) for one in result["findings"]]
        for result in json.loads(ended.out)["results"]
    }


def test_what_is_no_longer_found_is_judged_by_the_budget_of_the_base(dpcalc, tree):
    tree.write("dpcalc.yaml", HARMLESS)
    tree.write("configs/real.yaml", DEAR)
    tree.git("rm", "--quiet", "configs/other.yaml")
    ended = check(dpcalc, "--json")
    found = findings(ended)
    assert found["./dpcalc.yaml"] == [("DPC406", "note")]
    lost = [("DPC301", "error"), ("DPC303", "error"), ("DPC401", "warning"), ("DPC408", "error")]
    assert found["./configs/real.yaml"] == lost
    assert found["./configs/section.yaml"] == found["./configs/other.yaml"] == [("DPC408", "error")]
    spoken = check(dpcalc).out
    assert "./configs/other.yaml: error[DPC408]: main checks this config, but the file is gone\n" in spoken
    assert "./configs/real.yaml: error[DPC408]: main checks this config, but it is no longer found\n" in spoken


def test_a_change_of_what_is_checked_can_be_agreed_on(dpcalc, tree):
    tree.write("dpcalc.yaml", HARMLESS)
    tree.git("rm", "--quiet", "configs/other.yaml")
    ended = check(dpcalc, "--json", "--allow-budget-change")
    assert ended.code == 0
    assert findings(ended)["./configs/real.yaml"] == findings(ended)["./configs/other.yaml"] == [("DPC408", "note")]
    tree.write("configs/real.yaml", LARGE)
    assert check(dpcalc, "--allow-budget-change").code == 1  # by its own budget


def test_a_pattern_that_names_fewer_files_from_now_on_is_a_warning(dpcalc, tree):
    tree.write(
        "pyproject.toml", '[tool.dpcalc]\nconfigs = ["configs/real.yaml", "configs/other.yaml", "configs/[sl]*.yaml"]\n'
    )
    ended = check(dpcalc, "--json")
    assert (ended.code, findings(ended)["./pyproject.toml"]) == (0, [("DPC408", "warning")])
    assert check(dpcalc, "--strict").code == 1
    assert check(dpcalc, "--strict", "--allow-budget-change").code == 0


def test_more_may_be_checked_and_files_may_be_renamed(dpcalc, tree):
    tree.write("runs/new.yaml", config(steps=10, budget=1) + "# of another project\n" * 40)
    tree.write("pyproject.toml", '[tool.dpcalc]\nconfigs = ["runs/*.yaml", "configs/*.yaml"]\n')
    tree.git("mv", "configs/real.yaml", "runs/real.yaml")
    tree.commit()
    ended = dpcalc("check", "--base", "HEAD~1", "--json", "--strict")
    assert ended.code == 0
    assert set(findings(ended)) == {
        f"./{name}.yaml" for name in ("runs/new", "runs/real", "configs/other", "configs/section", "configs/linked")
    }
    assert findings(ended)["./runs/real.yaml"] == []


@pytest.mark.heavy
def test_a_base_that_names_nothing_demands_nothing(dpcalc, tree):
    long = f'[tool.dpcalc]\nconfigs = ["none/{"*/" * 101}x.yaml"]\n'
    names = '[tool.dpcalc]\nconfigs = ["none/*.yaml", "none.yaml", "a**b"]\n'
    for broken in ("[tool.dpcalc\n", "[project]\n", names, long):
        tree.commit(pyproject__toml=broken)
        tree.write("pyproject.toml", PROJECT)
        unreadable = broken == "[tool.dpcalc\n"  # it may have had a policy
        assert dpcalc("check", "--base", "HEAD", "--strict").code == (2 if unreadable else 1 if "none" in broken else 0)
        assert dpcalc("check", "--base", "HEAD").code == (2 if unreadable else 0)


def test_a_named_file_is_the_only_one_judged(dpcalc, tree):
    tree.git("rm", "--quiet", "configs/other.yaml")
    ended = check(dpcalc, "configs/real.yaml", "--json")
    assert (ended.code, list(findings(ended))) == (0, ["configs/real.yaml"])


def test_a_file_that_a_pattern_no_longer_finds_is_named_as_the_others_are(dpcalc, tree):
    tree.git("rm", "--quiet", "configs/other.yaml")
    found = findings(dpcalc("check", "configs/*.yaml", "--base", "main", "--json"))
    assert found["configs/other.yaml"] == [("DPC408", "error")]
    assert not any(path.startswith("./") for path in found)


def test_a_comparison_names_what_is_gone(dpcalc, tree):
    tree.write("dpcalc.yaml", HARMLESS)
    tree.git("rm", "--quiet", "configs/other.yaml")
    ended = dpcalc("diff", "--base", "main", "--json")
    assert ended.code == 0
    assert findings(ended)["./configs/other.yaml"] == [("DPC408", "warning")]


def test_links_among_the_folders_of_the_base(dpcalc, tree):
    (tree.folder / "linked").symlink_to("configs")
    tree.commit(pyproject__toml='[tool.dpcalc]\nconfigs = ["linked/*.yaml"]\n')
    assert dpcalc("check", "--base", "HEAD").code == 0
    tree.git("rm", "--quiet", "configs/real.yaml")
    assert dpcalc("check", "--base", "HEAD").code == 1


def in_place_of(tree, folder, **files):
    """A repository of the pull request's own where a folder was, with a branch that is called as the base is."""
    tree.git("rm", "--quiet", "-r", folder)
    own = Repository.fresh(tree.folder / folder)
    for name, text in files.items():
        own.write(name.replace("__", "."), text)
    own.commit()
    tree.commit()  # as a submodule


@pytest.mark.parametrize("words", [[], ["configs/*.yaml"], ["configs/real.yaml"]])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_submodule_is_not_the_base(dpcalc, tree, words, is_linked):
    tree.git("switch", "--quiet", "--create", "request")
    in_place_of(tree, "configs", real__yaml=DEAR, other__yaml=HARMLESS)
    if is_linked:
        (tree.folder / "configs").rename(tree.folder / "sub")
        (tree.folder / "configs").symlink_to("sub")
    ended = check(dpcalc, *words, "--json")
    assert ended.code == 1
    (real,) = (codes for path, codes in findings(ended).items() if path.endswith("real.yaml"))
    assert real == [("DPC301", "error"), ("DPC303", "error"), ("DPC401", "warning")]


def test_nor_does_it_hold_the_policy_or_the_ledger_of_the_base(dpcalc, tree):
    tree.write("ci/policy.toml", "max_epsilon = 2\n")
    tree.commit()
    tree.git("switch", "--quiet", "--create", "request")
    in_place_of(tree, "ci", policy__toml="max_epsilon = 1e9\n")
    tree.write("configs/new.yaml", DEAR)
    assert check(dpcalc, "--policy", "ci/policy.toml").code == 1


def test_a_config_that_only_a_submodule_holds(dpcalc, tree):
    own = Repository.fresh(tree.folder / "runs")
    own.write("new.yaml", HARMLESS)
    own.commit()
    ended = check(dpcalc, "runs/new.yaml")
    assert ended.code == 2
    assert "got one of another repository in it (runs); check it there, or without --base" in ended.out
    assert dpcalc("check", "runs/new.yaml").code == 0


@pytest.mark.parametrize("name", ["configs/*.yaml", "configs/r*", "./configs/*l.yaml"])
def test_a_file_called_as_a_pattern_hides_no_other(dpcalc, tree, name):
    tree.write("configs/real.yaml", LARGE)
    tree.write(name, HARMLESS)
    ended = dpcalc("check", name, "--json")
    assert ended.code == 1
    assert {name, "configs/real.yaml"} <= findings(ended).keys()
    assert len([path for path in findings(ended) if "*" in path]) == 1


ALIASES = {
    "a section": "train: {{steps: &steps {real}}}\ndpcalc:\n  " + CONFIG.replace("\n", "\n  "),
    "a section of the user's own": "x-train: {{steps: &steps {real}}}\n" + CONFIG,
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_an_alias_is_a_reference(dpcalc, tree, text):
    tree.write("run.yaml", text.format(real=1000, steps="*steps", budget=2))
    tree.commit()
    for real, steps, code in ((1000, "*steps", 0), (1500, "*steps", 0), (3000, "*steps", 1), (3000, "1000", 1)):
        tree.write("run.yaml", text.format(real=real, steps=steps, budget=2))
        assert dpcalc("check", "run.yaml", "--base", "HEAD").code == code
    ended = dpcalc("check", "run.yaml", "--base", "HEAD")
    assert "training.steps was read from `" in ended.out
    assert "train.steps` and is now stated here" in ended.out


def test_links_on_the_way_of_a_reference(dpcalc, tree):
    tree.write("conf/real/steps.yaml", "steps: 1000\n")
    tree.write("conf/real/decoy.yaml", "steps: 1000\n")
    (tree.folder / "conf" / "folder").symlink_to("real")
    (tree.folder / "conf" / "now.yaml").symlink_to("folder/steps.yaml")
    tree.write("run.yaml", config(steps='"${conf/now.yaml:steps}"'))
    tree.commit()
    assert dpcalc("check", "run.yaml", "--base", "HEAD", "--strict").code == 0
    Change(tree).link("conf/now.yaml", "folder/decoy.yaml")
    ended = dpcalc("check", "run.yaml", "--base", "HEAD")
    assert ended.code == 1
    said = "read from `conf/real/steps.yaml:steps` and is now read from `conf/real/decoy.yaml:steps`"
    assert said in ended.out
    Change(tree).link("conf/now.yaml", "now.yaml")
    tree.commit()
    Change(tree).link("conf/now.yaml", "folder/steps.yaml")
    ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
    assert ("DPC406", "error") in findings(ended)["run.yaml"]
