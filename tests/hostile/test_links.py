"""Links of a checkout that lead to another repository: no command shows a byte from there, and none writes there."""

import os
import subprocess

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
OUTSIDE = {
    "run.yaml": RUN + f"name: {MARK}\n",
    "broken.yaml": f"password: {MARK}\ndata: {{examples: {MARK}}}\n",
    "p.toml": f"max_epsilon = '{MARK}'\n",
    "votes.csv": f"{MARK},1\n1,2\n",
    "table.csv": f"{MARK},b\n1,2\n",
    "log.jsonl": f'["{MARK}"]\n',
    "state.json": f'{{"mechanism": "{MARK}"}}\n',
    "call.py": f"make_private({MARK}=1)\n",
    "dpcalc.lock": f'{{"version": 1, "configs": {{"{MARK}": 1}}}}\n',
    "run.ledger.yaml": RUN.replace("training: {steps: 2}\n", "") + "phases:\n  - {name: a, training: {steps: 2}}\n",
}
# With IN for the folder or the beginning of a name that leads out, and OWN for a config of the repository.
READING = [
    *(
        f"{command} IN{name}.yaml"
        for command in (
            "epsilon",
            "delta --epsilon 1",
            "risk",
            "solve-sigma",
            "solve-steps",
            "solve-rate",
            "solve-group",
            "compare",
            "curve steps",
            "sweep --over training.steps=1,2",
            "simulate",
            "check",
            "check --base HEAD",
            "check --report json",
            "check --report sarif",
            "diff OWN",
            "diff --base HEAD",
            "lock",
            "validate",
            "statement",
            "show",
            "ledger show",
            "ledger check",
            "ledger check --base HEAD",
            "ledger add new.ledger.yaml",
            "ledger add OWN",
        )
        for name in ("run", "broken")
    ),
    "check IN*.yaml",
    "check IN*.yaml --base HEAD",
    "check */run.yaml",
    "check **/*.yaml",
    "check INrun.yaml/../run.yaml",
    "audit INrun.yaml INtable.csv",
    "audit OWN INtable.csv",
    "audit-sampler OWN INlog.jsonl",
    "audit-sampler OWN INtable.csv",
    "import INstate.json",
    "import INcall.py",
    "scan INtable.csv --columns b",
    "pate INvotes.csv --gamma 1 --delta 1e-5",
    "check OWN --policy INp.toml",
]
WRITING = [
    *(
        f"check OWN --report {form}=INnew"
        for form in ("text", "concise", "json", "github", "gitlab", "junit", "sarif", "markdown")
    ),
    "validate OWN --report json=INnew",
    "diff OWN OWN --report json=INnew",
    "ledger check OWN --report json=INnew",
    "ledger add INnew.yaml OWN",
    "ledger add INrun.ledger.yaml OWN",
    "solve-sigma INrun.yaml --target-eps 1 --write",
    "curve steps OWN --plot INnew.svg",
    "sweep OWN --over training.steps=1,2 --plot INnew.svg",
    "init --output INnew.yaml",
    "init --output INrun.yaml --force",
    "import state.json --delta 1e-5 --output INnew.yaml",
    "scan tree --output INnew.json --levels a,b",
    "pate votes.csv --gamma 1 --delta 1e-5 --csv INnew.csv",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A repository beside another one, with links to its folder and its files, and to its own `.git/config`."""
    world = tmp_path_factory.mktemp("world")
    for name, text in OUTSIDE.items():
        (world / "outside").mkdir(exist_ok=True)
        (world / "outside" / name).write_text(text, encoding="utf-8")
    own = world / "own"
    (own / "tree" / "x").mkdir(parents=True)
    for folder in (world / "outside", own):
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    (own / "OWN").write_text(RUN)
    (own / "votes.csv").write_text("3,1\n1,3\n")
    for number in (1, 2):
        (own / "tree" / "x" / f"{number}.txt").write_text("1")
    (own / "state.json").write_text('{"mechanism": "rdp", "history": [[1.0, 0.5, 3]]}')
    (own / "folder").symlink_to("../outside")
    (own / "deeper").mkdir()
    (own / "deeper" / "folder").symlink_to(world / "outside")
    (own / "chain").symlink_to("deeper/folder")
    for name in (*OUTSIDE, "new", "new.yaml", "new.svg", "new.csv", "new.json"):
        (own / f"link_{name}").symlink_to(f"../outside/{name}")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "--all"], cwd=own, check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "a"], cwd=own, check=True)
    with (own / ".git" / "config").open("a") as config:
        config.write(f"[a]\n  token = {MARK}\n")
    return world


@pytest.fixture
def told(world, monkeypatch, capsys):
    """Everything that a command says, and whether the other repository is as before."""
    monkeypatch.chdir(world / "own")
    monkeypatch.delenv("DPCALC_TRACEBACK", raising=False)

    def said(arguments):
        capsys.readouterr()
        before = state(world / "outside")
        code = run(arguments)
        text = "".join(capsys.readouterr())
        assert "DPC999" not in text
        assert state(world / "outside") == before
        assert MARK not in text
        return code, text

    return said


def state(folder):
    """Names and contents of all files below a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("words", READING)
def test_nothing_outside_is_shown(told, words):
    for where in (
        "folder/",
        "link_",
        *(("deeper/folder/", "chain/", "tree/../folder/") if "check IN" in words else ()),
    ):
        code, text = told([word.replace("IN", where) for word in words.split()])
        assert code == 2, text
        assert "link that leaves" in text


@pytest.mark.parametrize("words", WRITING)
def test_nothing_outside_is_written(told, words):
    for where in ("folder/", "link_", "chain/"):
        code, text = told([word.replace("IN", where) for word in words.split()])
        assert code == 2, text
        assert "link" in text


PROJECTS = {
    "a table": f'[tool.dpcalc]\nconfigs = ["{MARK}.yaml"]\n'.encode(),
    "a policy": f'[tool.dpcalc.policy]\nmax_epsilon = "{MARK}"\n'.encode(),
    "no TOML": f"{MARK} is = no {MARK} toml".encode(),
    "variables": f"TOKEN={MARK}\0HOME=/\0".encode(),
    "no UTF-8": f"TOKEN={MARK}\xff".encode("latin-1"),
    "control characters": f"TOKEN={MARK}\x1b".encode(),
    "UTF-16": f"TOKEN={MARK}".encode("utf-16"),
}
SEARCHING = [
    "epsilon", "delta --epsilon 1", "risk", "solve-sigma", "compare", "curve steps", "simulate",
    "sweep --over training.steps=1,2", "check", "check --base HEAD", "check --locked OWN", "check OWN",
    "check OWN --base HEAD",
    "check OWN --policy pyproject.toml", "diff --base HEAD", "lock", "lock --check", "validate", "statement", "show",
]  # fmt: skip


@pytest.mark.parametrize("is_link", [True, False])
@pytest.mark.parametrize("content", PROJECTS)
def test_no_line_of_what_is_no_config_is_shown(world, told, content, is_link):
    secret = world / "outside" / "secret"
    secret.write_bytes(PROJECTS[content])
    locking = ["lock OWN", "lock --check OWN", "check --locked OWN"]
    for name, commands in (("pyproject.toml", SEARCHING), ("dpcalc.lock", locking)):
        path = world / "own" / name
        # A file of the repository is its author's; its lines are still none of a config.
        path.symlink_to(secret) if is_link else path.write_bytes(PROJECTS[content].replace(b"[tool", b"\0[tool"))
        try:
            for words in commands:
                code, text = told(words.split())
                assert code == 2, (words, text)
        finally:
            path.unlink()
    secret.unlink()


def test_a_new_lock_is_not_written_behind_a_link(world, told):
    (world / "own" / "dpcalc.lock").symlink_to("../outside/new.lock")
    try:
        assert told(["lock", "OWN"])[0] == 2
    finally:
        (world / "own" / "dpcalc.lock").unlink()


def test_from_beside_the_repository(world, told, monkeypatch):
    monkeypatch.chdir(world)
    for words in (
        "check own/folder/run.yaml",
        "show own/link_broken.yaml",
        "check own/*/run.yaml",
        "lock own/chain/run.yaml",
    ):
        code, text = told(words.split())
        assert (code, "link that leaves" in text) == (2, True)
    assert told(["check", "own/OWN", "--report", "json=own/folder/new"])[0] == 2


def test_the_configuration_of_git_is_no_config(world, told):
    (world / "own" / "token.yaml").symlink_to(".git/config")
    (world / "own" / "git").symlink_to(".git")
    try:
        for words in ("check token.yaml", "epsilon git/config", "show token.yaml", "check *.yaml", "check git/*"):
            code, text = told(words.split())
            assert code == 2, text
        code, _ = told(["check", "OWN", "--report", "json=git/hooks/new"])
        assert (code, (world / "own" / ".git" / "hooks" / "new").exists()) == (2, False)
    finally:
        (world / "own" / "token.yaml").unlink()
        (world / "own" / "git").unlink()


def test_whose_link_it_is_counts(tmp_path, monkeypatch, capsys):
    """A link on the way to a repository is its user's; worktrees and submodules end at their own top."""
    real = tmp_path / "real"
    (real / "sub").mkdir(parents=True)
    (real / "run.yaml").write_text(RUN)
    (real / ".git").write_text("gitdir: /elsewhere")  # as in a worktree or a submodule
    (tmp_path / "mine").symlink_to("real")
    (real / "in.yaml").symlink_to("run.yaml")
    (real / "sub" / "up.yaml").symlink_to("../run.yaml")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    for where in (tmp_path, real, real / "sub", tmp_path / "mine" / "sub"):
        monkeypatch.chdir(where)
        for name in ("run.yaml", "in.yaml", "sub/up.yaml"):
            for top in (real, tmp_path / "mine"):
                assert run(["validate", os.path.relpath(top / name)]) == 0
                assert run(["validate", str(top / name)]) == 0
    (real / "sub" / ".git").write_text("gitdir: /elsewhere")
    assert run(["validate", str(real / "sub" / "up.yaml")]) == 2
    assert "leaves the repository" in "".join(capsys.readouterr())
