"""Pull requests that weaken a promise, and honest ones beside them, each in a git repository of its own.

Epsilon is steps / 1000 here. The base has 1000 steps and a budget of 2.
"""

import os
import shutil

import pytest

from tests.cli.repository import Repository

CONFIG = """\
version: 1
data: {levels: [{name: site, count: 50}, {name: user, count: 60}, {name: record, count: {min: 5, max: 10}}]}
sampling: {site: {scheme: all}, user: {scheme: poisson, rate: 0.004}, record: {scheme: all}}
mechanism: {noise_multiplier: 1.1, clip: user}
training: {steps: 1000}
privacy: {unit: user, adjacency: replace-one, delta: 1e-5, group_size: 2}
budget: {epsilon: 2}
"""
LOOSE = CONFIG.replace("1.1", "0.4").replace("steps: 1000", "steps: 31600").replace("epsilon: 2", "epsilon: 99")
PROJECT = '[tool.dpcalc]\nconfigs = ["configs/**/*.yaml"]\n'


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A repository with `configs/a.yaml`, and another config, in one commit."""
    made = Repository.fresh(tmp_path_factory.mktemp("base") / "work")
    other = CONFIG.replace("1000", "10").replace("\n", "  # another project\n")
    made.commit(**{"configs/a.yaml": CONFIG, "configs/z.yaml": other, "pyproject.toml": PROJECT})
    return made.folder


@pytest.fixture
def tree(base, tmp_path, monkeypatch):
    """A copy of that repository, and the current directory in it."""
    return Repository.copied(base, tmp_path / "work", monkeypatch)


def link(tree, name, target):
    path = tree.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def submodule(tree, name, text=""):
    own = Repository.fresh(tree.folder / name)
    own.commit(**({"a.yaml": text} if text else {}))


def clear(path):
    path.unlink() if path.is_symlink() else shutil.rmtree(path)


def nothing(_tree):
    """No change."""


# What the base has at the new name of a config, or on the way to it, and that name.
PLACES = {
    "nothing": (nothing, "configs/b.yaml"),
    "a new folder": (nothing, "configs/new/a.yaml"),
    "a file in place of a folder": (lambda tree: tree.write("configs/README", "read me"), "configs/README/a.yaml"),
    "a file far up": (lambda tree: tree.write("configs/README", "read me"), "configs/README/x/y/a.yaml"),
    "a dead link in place of a folder": (lambda tree: link(tree, "configs/l", "nowhere"), "configs/l/a.yaml"),
    "a loop in place of a folder": (lambda tree: link(tree, "configs/l", "l"), "configs/l/a.yaml"),
    "a link outside in place of a folder": (lambda tree: link(tree, "configs/l", "/etc"), "configs/l/a.yaml"),
    "a link upwards in place of a folder": (lambda tree: link(tree, "configs/l", "../.."), "configs/l/a.yaml"),
    "a link to a file in place of a folder": (lambda tree: link(tree, "configs/l", "a.yaml"), "configs/l/a.yaml"),
    "a link to a folder with a loose config": (
        lambda tree: (tree.write("examples/a.yaml", LOOSE), link(tree, "configs/l", "../examples")),
        "configs/l/a.yaml",
    ),
    "a submodule": (lambda tree: submodule(tree, "configs/sub"), "configs/sub/a.yaml"),
    "a submodule with a loose config": (lambda tree: submodule(tree, "configs/sub", LOOSE), "configs/sub/a.yaml"),
    "a submodule of that name": (lambda tree: submodule(tree, "configs/b.yaml"), "configs/b.yaml"),
    "a folder of that name": (lambda tree: tree.write("configs/b.yaml/x", "x"), "configs/b.yaml"),
    "a dead link of that name": (lambda tree: link(tree, "configs/b.yaml", "nowhere"), "configs/b.yaml"),
    "a loop of that name": (lambda tree: link(tree, "configs/b.yaml", "b.yaml"), "configs/b.yaml"),
    "a link outside of that name": (lambda tree: link(tree, "configs/b.yaml", "/etc/passwd"), "configs/b.yaml"),
    "a large file of that name": (lambda tree: tree.write("configs/b.yaml", "#" * 300_000), "configs/b.yaml"),
    "no config of that name": (lambda tree: tree.write("configs/b.yaml", "hello"), "configs/b.yaml"),
    "no text of that name": (lambda tree: (tree.folder / "configs/b.yaml").write_bytes(b"\xff\0"), "configs/b.yaml"),
    "a loose config of that name": (lambda tree: tree.write("configs/b.yaml", LOOSE), "configs/b.yaml"),
    "a name with a line break": (nothing, "configs/b\n.yaml"),
    "a folder with a line break": (nothing, "configs/b\n/a.yaml"),
    "a name that is no UTF-8": (nothing, os.fsdecode(b"configs/b\xff.yaml")),
    "a name in other case": (nothing, "configs/A.yaml"),
    "a name with quotes": (nothing, 'configs/b\t"\\.yaml'),
    "a name that is a pattern": (nothing, "configs/[a]?.yaml"),
    "a name that is an option": (nothing, "configs/--help.yaml"),
    "a composed name": (nothing, "configs/e\u0301.yaml"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_new_name_does_not_decide_what_the_base_holds(dpcalc, tree, place):
    prepare, name = PLACES[place]
    prepare(tree)
    tree.commit()
    tree.git("switch", "--quiet", "--create", "request")
    clear(tree.folder / "configs")
    tree.git("rm", "--quiet", "-r", "--cached", "configs")  # submodules, too
    tree.write(name, LOOSE)
    tree.git("add", "--all")
    for words in (["check"], ["check", "configs/**/*.yaml"], ["check", "--strict"]):
        assert dpcalc(*words, "--base", "main").code in {1, 2}
    # `diff` has no limits: there a config that is gone is a warning beside a new one of another kind.
    replaced = "of that name" in place and "folder" not in place
    assert dpcalc("diff", "--base", "main").code in ({0, 1} if replaced and "loose" in place else {1, 2})


def test_a_base_with_a_line_break_in_its_name(dpcalc, tree):
    tree.git("mv", "configs/a.yaml", "configs/a\n.yaml")
    base = tree.commit()
    for name in ("configs/a\n.yaml", "configs/b.yaml"):
        tree.git("mv", "configs/a\n.yaml", name) if name.endswith("b.yaml") else None
        tree.write(name, LOOSE)
        for command in ("check", "diff"):
            ended = dpcalc(command, "configs/*.yaml", "--base", base, "--report", "concise")
            assert (ended.code, "error[DPC303]" in ended.out) == (1, True)


def test_a_pipe_in_place_of_a_config(dpcalc, tree):
    tree.git("rm", "--quiet", "configs/a.yaml")
    os.mkfifo(tree.folder / "configs" / "a.yaml")
    assert dpcalc("check", "--base", "main").code == 2


def edit(*pairs, name="configs/a.yaml"):
    """A change of a text in a file, each old part by a new one."""

    def changed(tree):
        text = (tree.folder / name).read_text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        tree.write(name, text)

    return changed


def move(old, new, text=None):
    def changed(tree):
        (tree.folder / new).parent.mkdir(parents=True, exist_ok=True)
        tree.git("mv", old, new)
        if text is not None:
            tree.write(new, text)

    return changed


def put(name, text):
    return lambda tree: tree.write(name, text)


def both(*changes):
    return lambda tree: [change(tree) for change in changes]


def phases(*steps, more=""):
    listed = "".join(f"  - {{name: p{steps}, training: {{steps: {steps}}}{more}}}\n" for steps in steps)
    return ("training: {steps: 1000}\n", f"phases:\n{listed}")


RECORDS = "{name: record, count: {min: 5, max: 10}}"
BUDGET, PRIVACY = "budget: {epsilon: 2}", "privacy: {unit: user, adjacency: replace-one, delta: 1e-5, group_size: 2}"
MORE = ("steps: 1000", "steps: 1900")  # within the budget: a rise
RISE = {
    "alone": edit(MORE),
    "with its own limit": edit(MORE, (BUDGET, "budget: {epsilon: 2, max_increase_pct: 1e9}")),
    "with a limit of 100 %": edit(MORE, (BUDGET, "budget: {epsilon: 2, max_increase_pct: 100}")),
    "with a limit of the policy": both(
        edit(MORE), put("pyproject.toml", PROJECT + "[tool.dpcalc.policy]\nmax_increase_pct = 1e9\n")
    ),
    "in phases": edit(phases(1000, 900)),
    "by a phase more": edit(phases(1000, 1)),
    "in a new file": both(move("configs/a.yaml", "configs/sub/x.yaml"), edit(MORE, name="configs/sub/x.yaml")),
    "by another spelling": edit(("steps: 1000", "steps: 1_900")),
}
PROMISE = {
    "delta": edit(("delta: 1e-5", "delta: 1e-3")),
    "delta a little": edit(("delta: 1e-5", "delta: 1.0000001e-5")),
    "delta as a quotient": edit(("delta: 1e-5", "delta: 1/99999")),
    "adjacency": edit(("replace-one", "add-remove")),
    "zero-out": edit(("replace-one", "zero-out")),
    "unit": edit(("unit: user", "unit: record"), ("clip: user", "clip: record")),
    "group": edit(("group_size: 2", "group_size: 1")),
    "no group": edit((", group_size: 2", "")),
    "unit renamed": edit(("user", "person")),
    "unit renamed, word kept": edit(("user", "#"), ("record", "user"), ("#", "person"), ("unit: person", "unit: user")),
    "names exchanged": edit(("user", "#"), ("record", "user"), ("#", "record"), ("unit: record", "unit: user")),
    "records gone": edit((f", {RECORDS}", ""), ("count: 60}", "count: 450}"), (", record: {scheme: all}", "")),
    "records gone, no more users": edit((f", {RECORDS}", ""), (", record: {scheme: all}", "")),
    "users split in ten": edit(("count: 60}", "count: 600}"), ("{min: 5, max: 10}", "1")),
    "users split in two": edit(("count: 60}", "count: 120}"), ("{min: 5, max: 10}", "{min: 3, max: 5}")),
    "sites split": edit(("count: 50}", "count: 100}"), ("{min: 5, max: 10}", "5")),
    "one user large": edit(("count: 60}", "count: 600}"), ("min: 5", "min: 1")),
    "records fewer": edit(("max: 10", "max: 9")),
    "records fewer at least": edit(("min: 5", "min: 4")),
    "records merged": edit(("{min: 5, max: 10}", "1")),
    "a level between": edit(
        (RECORDS, "{name: day, count: 1}, {name: record, count: 5}"),
        ("record: {scheme", "day: {scheme: all}, record: {scheme"),
    ),
    "unit upwards, sites are users": edit(
        ("{name: site, count: 50}, {name: user, count: 60}", "{name: site, count: 3000}"),
        ("site: {scheme: all}, user:", "site:"),
        ("unit: user", "unit: site"),
        ("clip: user", "clip: site"),
    ),
}  # fmt: skip
LIMITS = {
    "budget": edit(("epsilon: 2", "epsilon: 99")),
    "budget a little": edit(("epsilon: 2", "epsilon: 2.0000001")),
    "no budget": edit((BUDGET, "")),
    "no budget, a policy": both(
        edit((BUDGET, "")), put("pyproject.toml", PROJECT + "[tool.dpcalc.policy]\nmax_epsilon = 99\n")
    ),
    "a limit of rises": edit((BUDGET, "budget: {epsilon: 2, max_increase_pct: 50}")),
    "a budget of the user's own": edit((BUDGET, "x-budget: {epsilon: 2}")),
    "budget from elsewhere": both(
        put("configs/../limit.yaml", "epsilon: 99\n"), edit(("epsilon: 2", 'epsilon: "${../limit.yaml:epsilon}"'))
    ),
    "budget of a phase": edit(phases(1000, more=", budget: {epsilon: 99}")),
}
CLAIMS = {
    "kind of mechanism": edit(("noise_multiplier: 1.1", "type: pure-dp, epsilon: 0.01"), (", clip: user", "")),
    "a tuned run alone": edit((BUDGET, BUDGET + "\ntuning: {mean: 10}"), MORE),
}


def removed(name):
    return lambda tree: tree.git("rm", "--quiet", "-r", name)


def linked(name, target):
    return lambda tree: link(tree, name, target)


SEARCH = {
    "narrowed": put("pyproject.toml", PROJECT.replace("**/*", "z")),
    "narrowed to a decoy": both(put("configs/b.yaml", CONFIG), put("pyproject.toml", PROJECT.replace("**/*", "b"))),
    "shadowed": put("dpcalc.yaml", CONFIG),
    "no table": put("pyproject.toml", ""),
    "deleted": removed("configs/a.yaml"),
    "deleted, new beside it": both(removed("configs/a.yaml"), put("configs/n.yaml", "# new\n" * 300 + LOOSE)),
    "moved out": move("configs/a.yaml", "runs/a.yaml"),
    "suffix": move("configs/a.yaml", "configs/a.yml"),
    "hidden": move("configs/a.yaml", "configs/a.yaml.bak"),
    "moved over another": both(removed("configs/z.yaml"), move("configs/a.yaml", "configs/z.yaml", LOOSE)),
    "a link to a loose one": both(
        put("loose.yaml", LOOSE), removed("configs/a.yaml"), linked("configs/a.yaml", "../loose.yaml")
    ),
    "a link to a folder": both(removed("configs"), put("other/a.yaml", LOOSE), linked("configs", "other")),
    "a repository in its place": both(removed("configs"), lambda tree: submodule(tree, "configs", LOOSE)),
    "a section": put("configs/a.yaml", "train: {x: 1}\ndpcalc:\n  " + CONFIG.replace("\n", "\n  ")),
    "two documents": put("configs/a.yaml", LOOSE + "---\n" + CONFIG),
    "a key twice": put("configs/a.yaml", CONFIG + "training: {steps: 31600}\n"),
    "other case": both(move("configs/a.yaml", "configs/A.YAML"), put("configs/b.yaml", LOOSE)),
    "steps from elsewhere": both(put("n.yaml", "steps: 1900\n"), edit(("steps: 1000", 'steps: "${../n.yaml:steps}"'))),
    "a byte order mark": put("configs/a.yaml", "\ufeff" + LOOSE),
}
WEAKER = {
    f"{kind}: {name}": change
    for kind, table in {"rise": RISE, "promise": PROMISE, "limits": LIMITS, "claims": CLAIMS, "search": SEARCH}.items()
    for name, change in table.items()
}


@pytest.mark.parametrize("name", WEAKER)
def test_what_is_weaker_does_not_pass(dpcalc, tree, name):
    assert dpcalc("check", "--base", "main", "--strict").code == 0
    tree.git("switch", "--quiet", "--create", "request")
    WEAKER[name](tree)
    tree.git("add", "--all")
    ended = dpcalc("check", "--base", "main", "--strict")
    assert ended.code in {1, 2}, ended.out


HONEST = {
    "nothing": nothing,
    "a comment": edit(("version: 1", "# reviewed\nversion: 1")),
    "another spelling": edit(("steps: 1000", "steps: 1_000"), ("delta: 1e-5", "delta: 1/100000")),
    "fewer steps": edit(("steps: 1000", "steps: 900")),
    "a lower budget": edit(("epsilon: 2", "epsilon: 1.5")),
    "a smaller delta": edit(("delta: 1e-5", "delta: 1e-6")),
    "a larger group": edit(("group_size: 2", "group_size: 3")),
    "a larger unit": edit(("unit: user", "unit: site")),
    "renamed": move("configs/a.yaml", "configs/b.yaml"),
    "moved into a folder": move("configs/a.yaml", "configs/sub/b.yaml"),
    "a new config": put("configs/new.yaml", CONFIG.replace("1000", "10") + "# another project\n" * 30),
    "more sites": edit(("count: 50}", "count: 80}")),
    "more users": edit(("count: 60}", "count: 90}")),
    "more users with more records": edit(("count: 60}", "count: 90}"), ("max: 10", "max: 20")),
    "more records": edit(("{min: 5, max: 10}", "{min: 6, max: 12}")),
    "no rise at all": edit((BUDGET, "budget: {epsilon: 2, max_increase_pct: 0}")),
    "a policy": put("pyproject.toml", PROJECT + "[tool.dpcalc.policy]\nmax_epsilon = 1.5\nmax_increase_pct = 5\n"),
    "a wider search": put("pyproject.toml", PROJECT.replace('["', '["runs/*.yaml", "')),
    "a link among folders": both(move("configs/a.yaml", "conf/a.yaml"), linked("configs/a.yaml", "../conf/a.yaml")),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_passes(dpcalc, tree, name):
    tree.write("runs/none.yaml", CONFIG)
    tree.commit()
    tree.git("switch", "--quiet", "--create", "request")
    HONEST[name](tree)
    tree.git("add", "--all")
    ended = dpcalc("check", "--base", "main", "--strict")
    assert ended.code == 0, ended.out


def test_an_agreed_rise_is_a_note(dpcalc, tree):
    for agreed in (
        {"configs/a.yaml": CONFIG.replace(BUDGET, "budget: {epsilon: 2, max_increase_pct: 100}")},
        {"configs/a.yaml": CONFIG, "pyproject.toml": PROJECT + "[tool.dpcalc.policy]\nmax_increase_pct = 100\n"},
    ):
        tree.commit(**agreed)
        edit(MORE)(tree)
        assert dpcalc("check", "--base", "HEAD", "--strict").code == 0
        edit(("steps: 1900", "steps: 2000"))(tree)
        assert dpcalc("check", "--base", "HEAD", "--strict").code == 0
        edit(("steps: 2000", "steps: 2001"))(tree)
        assert dpcalc("check", "--base", "HEAD").code == 1


def test_a_rise_that_a_policy_outside_the_repository_allows(dpcalc, tree, tmp_path):
    policy = tmp_path / "org.toml"
    edit(MORE)(tree)
    for text, code in (("", 1), ("max_increase_pct = 100\n", 0), ("max_increase_pct = 10\n", 1)):
        policy.write_text(text)
        assert dpcalc("check", "--base", "main", "--strict", "--policy", str(policy)).code == code


POLICY = "max_epsilon = 1.5\n"
HIDDEN = {
    "a submodule": lambda tree: Repository.fresh(tree.folder / "ci").commit(**{"p.toml": POLICY}),
    "a large file": lambda tree: tree.write("ci/p.toml", POLICY + "#" * 300_000),
    "no UTF-8": lambda tree: (
        tree.write("ci/p.toml", ""),
        (tree.folder / "ci/p.toml").write_bytes(POLICY.encode() + b"#\xff\n"),
    ),
    "no TOML": lambda tree: tree.write("ci/p.toml", POLICY + "[[["),
    "an unknown key": lambda tree: tree.write("ci/p.toml", POLICY + "max = 1\n"),
    "a link outside": lambda tree: link(tree, "ci/p.toml", "/etc/hostname"),
    "a folder outside": lambda tree: link(tree, "ci", "/etc"),
    "a loop": lambda tree: link(tree, "ci/p.toml", "p.toml"),
    "a folder": lambda tree: tree.write("ci/p.toml/x", POLICY),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_policy_of_the_base_that_cannot_be_read(dpcalc, tree, kind):
    HIDDEN[kind](tree)
    base = tree.commit()
    clear(tree.folder / "ci")
    tree.write("ci/p.toml", "max_epsilon = 100\n")
    edit(MORE)(tree)
    tree.git("add", "--all")
    for more in ([], ["--allow-budget-change"]):
        assert dpcalc("check", "--base", base, "--policy", "ci/p.toml", *more).code == 2


@pytest.mark.parametrize("text", [b"[tool.dpcalc\n", b"\xff", b"#" * 300_000, b"tool.dpcalc.policy.max = 1\n"])
def test_a_project_of_the_base_that_cannot_be_read(dpcalc, tree, text):
    (tree.folder / "pyproject.toml").write_bytes(text)
    base = tree.commit()
    tree.write("pyproject.toml", PROJECT)
    assert dpcalc("check", "--base", base).code == 2


def test_a_policy_that_is_absent_from_the_base_is_absent(dpcalc, tree):
    tree.write("ci/p.toml", "max_epsilon = 1.5\n")
    assert dpcalc("check", "--base", "main", "--policy", "ci/p.toml", "--strict").code == 0


def test_an_agreed_budget_does_not_take_the_policy_along(dpcalc, tree):
    tree.commit(pyproject__toml=PROJECT + "[tool.dpcalc.policy]\nmax_epsilon = 3\n")
    tree.write("pyproject.toml", PROJECT)
    edit(("epsilon: 2", "epsilon: 50"), ("steps: 1000", "steps: 2900"))(tree)
    assert dpcalc("check", "--base", "HEAD", "--allow-budget-change").code == 0
    edit(("steps: 2900", "steps: 3100"))(tree)
    assert dpcalc("check", "--base", "HEAD", "--allow-budget-change").code == 1


LEDGER = """\
version: 1
data: {levels: [{name: user}, {name: record}], tree: {file: tree.json}}
sampling: {user: {scheme: poisson, rate: 0.1}, record: {scheme: all}}
privacy: {unit: user, delta: 1e-5, adjacency: add-remove}
budget: {epsilon: "${limits.yaml:eps}"}
phases:
  - {name: one, mechanism: {noise_multiplier: "${limits.yaml:noise}", clip: user}, training: {steps: 10}}
  - name: two
    mechanism: {type: rdp-curve, curve: {file: curve.csv}}
    training: {steps: 10}
"""
FILES = {
    "limits.yaml": "eps: 1\nnoise: 1.1\n",
    "tree.json": "[3, 2]\n",
    "curve.csv": "order,epsilon\n2,0.1\n4,0.2\n",
}
RUN = "  - {name: three, mechanism: {noise_multiplier: 2, clip: user}, training: {steps: 5}}\n"


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("limits.yaml", "eps: 1", "eps: 100", "DPC303"),
        ("limits.yaml", "noise: 1.1", "noise: 0.5", "DPC407"),
        ("tree.json", "3", "4", "DPC407"),
        ("curve.csv", "0.2", "0.15", "DPC407"),
        ("l.yaml", "name: one", "name: other", "DPC407"),
        ("l.yaml", "steps: 10", "steps: 9", "DPC407"),
        ("l.yaml", RUN, RUN + "tuning: {mean: 3}\n", "DPC407"),
        ("limits.yaml", "eps: 1", "eps: 0.9", ""),
        ("limits.yaml", "eps: 1", "# agreed\neps: 1", ""),
    ],
)
@pytest.mark.parametrize("grown", [False, True])
def test_what_a_ledger_refers_to_is_of_the_base_too(dpcalc, tree, name, old, new, code, grown):
    tree.commit(**{"l.yaml": LEDGER, **FILES})
    if grown or old == RUN:
        tree.write("l.yaml", LEDGER + RUN)
    assert dpcalc("ledger", "check", "l.yaml", "--base", "HEAD").code == 0
    edit((old, new), name=name)(tree)
    ended = dpcalc("ledger", "check", "l.yaml", "--base", "HEAD")
    assert (ended.code, f"error[{code}]" in ended.out) == ((1, True) if code else (0, False)), ended.out


def test_a_link_in_the_place_of_the_working_folder_loses_no_base(dpcalc, tmp_path, monkeypatch):
    """CI that runs in a folder of the checkout: what a link there leads to had nothing to be compared with."""
    checkout = Repository.fresh(tmp_path / "checkout")
    tmp_path = checkout.folder
    text = (
        "version: 1\ndata: {examples: 60000}\nsampling: {scheme: poisson, rate: 0.01}\ntraining: {steps: 1000}\n"
        "mechanism: {noise_multiplier: 2.0}\nprivacy: {delta: 1e-5}\nbudget: {epsilon: 3}\n"
    )
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "dpcalc.yaml").write_text(text, encoding="utf-8")
    base = checkout.commit()
    shutil.rmtree(tmp_path / "train")
    (tmp_path / "decoy" / "train").mkdir(parents=True)
    weak = text.replace("2.0", "0.3").replace("epsilon: 3", "epsilon: 300") + "# some other words\n" * 300
    (tmp_path / "decoy" / "train" / "dpcalc.yaml").write_text(weak, encoding="utf-8")
    (tmp_path / "train").symlink_to("decoy/train")
    checkout.commit()
    monkeypatch.chdir(tmp_path / "train")
    ended = dpcalc("check", "--base", base, "--strict")
    assert ended.code == 2
    assert "run dpcalc at the top of the repository" in ended.err
