"""`check --base` and `diff` against real git; epsilon is steps / 1000."""

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


@pytest.mark.usefixtures("tree")
def test_nothing_changed(dpcalc):
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    codes, result = found(ended)
    assert (ended.code, codes, result["changes"]) == (0, [], [])
    assert result["base"]["guarantee"]["epsilon"] == 1.0
    assert dpcalc("diff", "run.yaml", "--base", "main").code == 0


def test_a_comment_is_no_change(dpcalc, tree):
    tree.write("run.yaml", "# why\n" + text().replace("1000", "1_000"))
    ended = dpcalc("diff", "run.yaml", "--base", "main", "--json")
    assert (ended.code, *found(ended)[0]) == (0,)
    assert found(ended)[1]["changes"] == []


def test_a_rise_stands_at_the_key_that_causes_it(dpcalc, tree):
    tree.write("run.yaml", text(steps=1500, noise=1.2))  # noise costs nothing here
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    codes, result = found(ended)
    assert (ended.code, codes) == (0, [("DPC401", "warning", 5)])
    assert [(one["key"], one["old"], one["new"], one["epsilon"], one["line"]) for one in result["changes"]] == [
        ("training.steps", "1000", "1500", 1.5, 5),
        ("mechanism.noise_multiplier", "1.1", "1.2", 1.0, 4),
    ]
    assert dpcalc("check", "run.yaml", "--base", "main", "--strict").code == 1
    assert dpcalc("diff", "run.yaml", "--base", "main").code == 1
    shown = dpcalc("check", "run.yaml", "--base", "main").out
    assert "epsilon rises, 1.00 -> 1.50 (training.steps: 1000 -> 1500)" in shown
    assert "  training.steps: 1000 -> 1500 (alone: epsilon 1.00 -> 1.50)\n" in shown
    assert "  mechanism.noise_multiplier: 1.1 -> 1.2 (alone: epsilon stays)\n" in shown


def test_the_budget_of_the_base_applies(dpcalc, tree):
    tree.write("run.yaml", text(steps=2500, more="budget: {epsilon: 3.0}"))
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    codes, result = found(ended)
    assert ended.code == 1
    assert codes == [("DPC301", "error", 5), ("DPC303", "error", 7), ("DPC401", "warning", 5)]
    assert result["budget"]["epsilon"] == 2.0
    assert "exceeds budget.epsilon of main 2.0" in result["findings"][0]["message"]
    agreed = dpcalc("check", "run.yaml", "--base", "main", "--json", "--allow-budget-change")
    assert (agreed.code, found(agreed)[0]) == (0, [("DPC303", "note", 7), ("DPC401", "warning", 5)])


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


@pytest.mark.parametrize(
    ("mechanism", "claims"),
    [
        ("{type: approximate-dp, epsilon: 1e-9, delta: 0}", 1),
        ("{type: zcdp, rho: 1e-9}", 1),
        ("{type: gaussian, noise_multiplier: 3}", 0),
    ],
)
def test_another_mechanism_is_a_claim(dpcalc, tree, mechanism, claims):
    tree.write("run.yaml", text().replace("{noise_multiplier: 1.1}", mechanism))
    codes = [code for code, *_ in found(dpcalc("check", "run.yaml", "--base", "main", "--json"))[0]]
    assert codes.count("DPC405") == claims


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


# What there is to compare with


def test_a_renamed_file_is_compared_with_what_it_was(dpcalc, tree):
    tree.git("mv", "run.yaml", "other.yaml")
    tree.write("other.yaml", text(more="budget: {epsilon: 9.0}"))
    tree.commit()
    ended = dpcalc("check", "other.yaml", "--base", "HEAD~1", "--json")
    assert (ended.code, [code for code, *_ in found(ended)[0]]) == (1, ["DPC303"])


def test_a_file_that_the_base_does_not_have(dpcalc, tree):
    tree.commit(new__yaml="version: 1\n" + text().partition("\n")[2].replace("60_000", "77_777"))
    ended = dpcalc("check", "new.yaml", "--base", "HEAD~1", "--json")
    assert (ended.code, *found(ended)[0]) == (0, ("DPC406", "note", None))
    assert found(ended)[1]["base"] is None
    told = dpcalc("check", "new.yaml", "--base", "HEAD~1").out
    assert "\n  nothing to compare with: it is not in HEAD~1\n" in told
    tree.git("rm", "--quiet", "run.yaml")
    tree.commit()
    tree.commit(run__yaml=text(steps=1900))
    ended = dpcalc("check", "run.yaml", "--base", "HEAD~1", "--json")
    assert (ended.code, *found(ended)[0]) == (0, ("DPC406", "note", None))


def test_a_dirty_tree_is_what_is_checked(dpcalc, tree):
    tree.write("run.yaml", text(steps=1800))
    tree.git("add", "run.yaml")
    tree.write("run.yaml", text(steps=2001))
    assert dpcalc("check", "run.yaml", "--base", "HEAD").code == 1


def test_a_deleted_file_and_a_deleted_base(dpcalc, tree):
    tree.git("branch", "old")
    tree.git("branch", "-D", "old")
    gone = dpcalc("check", "run.yaml", "--base", "old")
    assert (gone.code, gone.out) == (2, "")
    assert "fetch-depth: 0" in gone.err
    tree.write("second.yaml", text())
    assert dpcalc("check", "run.yaml", "second.yaml", "--base", "old").err == gone.err  # once, not for every file
    assert json.loads(dpcalc("check", "run.yaml", "--base", "old", "--json").out)["error"]["exit_code"] == 2
    tree.git("rm", "--quiet", "run.yaml")
    assert dpcalc("check", "run.yaml", "--base", "HEAD").code == 2


def test_a_base_that_cannot_be_read(dpcalc, tree):
    tree.commit(run__yaml="version: 1\nnonsense: 2\n")
    tree.write("run.yaml", text())
    ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
    assert (ended.code, found(ended)[0]) == (1, [("DPC406", "error", None)])
    assert dpcalc("diff", "run.yaml", "--base", "HEAD").code == 1
    assert dpcalc("check", "run.yaml", "--base", "HEAD", "--strict", "--allow-budget-change").code == 0


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


# References


def test_references_lead_into_the_base(dpcalc, tree):
    run = text(steps='"${conf/train.yaml:train.steps}"')
    tree.write("conf/train.yaml", "train:\n  lr: 0.1\n  steps: 1000\n")
    tree.commit(run__yaml=run)
    tree.write("conf/train.yaml", "train:\n  lr: 0.1\n  steps: 1700\n")
    ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
    ((finding,), (change,)) = (found(ended)[1][key] for key in ("findings", "changes"))
    assert (finding["code"], finding["path"], finding["line"], finding["column"]) == (
        "DPC401",
        "conf/train.yaml",
        3,
        3,
    )
    assert (change["key"], change["old"], change["new"]) == ("training.steps", "1000", "1700")
    assert (change["path"], change["line"]) == ("conf/train.yaml", 3)
    annotated = dpcalc("check", "run.yaml", "--base", "HEAD", "--report", "github").out
    assert annotated.startswith(
        "::warning file=conf/train.yaml,line=3,col=3,title=DPC401 rise::epsilon rises, 1.00 -> 1.70 "
    )


def test_a_reference_that_leads_elsewhere_is_what_changed(dpcalc, tree):
    tree.write("conf/train.yaml", "short: 1000\nlong: 1700\n")
    tree.commit(run__yaml=text(steps='"${conf/train.yaml:short}"'))
    tree.write("run.yaml", text(steps='"${conf/train.yaml:long}"'))
    ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
    (moved, risen), (change,) = (found(ended)[1][key] for key in ("findings", "changes"))
    assert [(one["code"], one["path"], one["line"]) for one in (moved, risen)] == [
        ("DPC408", "run.yaml", 5),
        ("DPC401", "run.yaml", 5),
    ]
    said = "training.steps was read from `conf/train.yaml:short` and is now read from `conf/train.yaml:long`"
    assert moved["message"] == said
    assert (change["path"], change["line"]) == ("run.yaml", 5)
    agreed = dpcalc("check", "run.yaml", "--base", "HEAD", "--json", "--allow-budget-change")
    assert (agreed.code, found(agreed)[0]) == (0, [("DPC408", "note", 5), ("DPC401", "warning", 5)])


def test_a_reference_within_the_file_leads_to_the_changed_line(dpcalc, tree):
    inside = "mine: {steps: 1000}\ndpcalc:\n" + "".join(
        f"  {line}\n" for line in text(steps='"${mine.steps}"').splitlines()
    )
    tree.commit(run__yaml=inside)
    tree.write("run.yaml", inside.replace("1000", "1300"))
    ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
    assert found(ended)[0] == [("DPC401", "warning", 1)]


def test_a_reference_of_the_base_does_not_leave_the_repository(dpcalc, tree, tmp_path):
    (tmp_path / "secret.yaml").write_text("steps: 1\n", encoding="utf-8")
    for name in ("../secret.yaml", "link.yaml"):
        (tree.folder / "link.yaml").unlink(missing_ok=True)
        (tree.folder / "link.yaml").symlink_to("../secret.yaml")
        tree.commit(run__yaml=text(steps=f'"${{{name}:steps}}"'))
        tree.write("run.yaml", text())
        ended = dpcalc("check", "run.yaml", "--base", "HEAD", "--json")
        assert found(ended)[0] == [("DPC406", "error", None)]


def test_another_option_of_hydra_is_judged(dpcalc, tree):
    """The default of a group changes; a config that refers to the old option no longer says what a run reads."""
    chosen = 'noise_multiplier: "${conf/dp/strict.yaml:sigma}"'
    files = {
        "conf/config.yaml": "defaults: [dp: strict]\n",
        "conf/dp/strict.yaml": "sigma: 1.1\n",
        "conf/dp/loose.yaml": "sigma: 0.4\n",
        "run.yaml": text().replace("noise_multiplier: 1.1", chosen),
    }
    for name, content in files.items():
        tree.write(name, content)
    tree.commit()
    assert dpcalc("check", "run.yaml", "--base", "main").code == 0

    tree.write("conf/config.yaml", "defaults: [dp: loose]\n")
    ended = dpcalc("check", "run.yaml", "--base", "main")
    assert (ended.code, "the `defaults` of `conf/config.yaml` choose `conf/dp/loose.yaml`" in ended.out) == (2, True)

    tree.write("run.yaml", files["run.yaml"].replace("strict", "loose"))
    ended = dpcalc("check", "run.yaml", "--base", "main", "--json")
    codes, result = found(ended)
    assert [change["key"] for change in result["changes"]] == ["mechanism.noise_multiplier"]
    assert not [code for code, _, _ in codes if code == "DPC406"]


# Policies, names, overrides, and two files


def test_a_policy_is_not_loosened_by_the_change_that_it_judges(dpcalc, tree):
    tree.commit(pyproject__toml="[tool.dpcalc.policy]\nmax_epsilon = 1.2\n")
    tree.write("run.yaml", text(steps=1500))
    assert dpcalc("check", "run.yaml").code == 1
    for loosened in ("[tool.dpcalc.policy]\nmax_epsilon = 9\n", "[project]\n", "broken ="):
        tree.write("pyproject.toml", loosened)
        ended = dpcalc("check", "run.yaml", "--base", "HEAD")
        assert ended.code == (2 if loosened == "broken =" else 1)
    (tree.folder / "pyproject.toml").unlink()
    ended = dpcalc("check", "run.yaml", "--base", "HEAD")
    assert (ended.code, "exceeds max_epsilon of pyproject.toml 1.2" in ended.out) == (1, True)
    assert dpcalc("check", "run.yaml", "--base", "HEAD", "--allow-budget-change").code == 1  # a budget is no policy


def test_a_change_leaves_no_launch_out_of_the_search(dpcalc, tree):
    """Of two policies, that of the base and that of the change, both must name the file of another run."""
    leaving_out = '[tool.dpcalc.policy]\nother_launches = ["ci/*.yml"]\n'
    flag = 'p.add_argument("--noise-multiplier", default=1.1)\n'
    of_file = text().replace("1.1", "'${train.py:flags.noise_multiplier}'")
    assert of_file != text()
    tree.commit(run__yaml=of_file, train__py=flag, **{"ci/smoke.yml": "run: train.py --noise-multiplier 1\n"})
    codes = []
    for base, now in [("", ""), ("", leaving_out), (leaving_out, ""), (leaving_out, leaving_out)]:
        tree.commit(pyproject__toml=base)
        tree.write("pyproject.toml", now)
        codes.append((dpcalc("check", "run.yaml", "--base", "HEAD").code, dpcalc("check", "run.yaml").code))
    assert codes == [(1, 1), (1, 0), (1, 1), (0, 0)]


def test_a_subdirectory_and_a_name_git_would_quote(dpcalc, tree, monkeypatch):
    tree.write('sub/ä "b".yaml', text())
    tree.commit()
    tree.write('sub/ä "b".yaml', text(steps=1600))
    monkeypatch.chdir(tree.folder / "sub")
    ended = dpcalc("diff", 'ä "b".yaml', "--base", "HEAD")
    assert ended.code == 1
    assert "1.00 -> 1.60" in ended.out


def test_overrides_hold_for_both(dpcalc, tree):
    tree.write("run.yaml", text(steps=1500, noise=2.0))
    ended = dpcalc("diff", "run.yaml", "--base", "main", "--json", "--steps", "700")
    codes, result = found(ended)
    assert (ended.code, codes) == (0, [])
    assert result["guarantee"]["epsilon"] == result["base"]["guarantee"]["epsilon"] == 0.7


def test_two_files(dpcalc, tree):
    other = tree.write("other.yaml", text(steps=1300))
    ended = dpcalc("diff", "run.yaml", other)
    assert (ended.code, "  epsilon 1.00 -> 1.30 since run.yaml\n" in ended.out) == (1, True)
    same = tree.write("same.yaml", text().replace("60_000", "70_000"))
    assert "  epsilon stays 1.00 since run.yaml\n" in dpcalc("diff", "run.yaml", same).out
    grouped = tree.write("grouped.yaml", text(group=4))
    assert "privacy.group_size: not set -> 4" in dpcalc("diff", "run.yaml", grouped).out
    assert dpcalc("diff", other, "run.yaml").code == dpcalc("diff", "run.yaml", other, "--exit-zero").code == 0
    for words in ((other, "run.yaml", "run.yaml"), (other,), (other, "none.yaml"), ("none.yaml", other)):
        assert dpcalc("diff", *words).code == 2


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
