"""`dpcalc init`: templates, what it finds in files, with no number of its own, and the shapes of docs/adopt.md."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from dpcalc.config.load import load, load_text
from dpcalc.planner.evaluate import guarantee
from tests.cli.running import environment, shown_on
from tests.config.texts import corpus, flat

ROWS = yaml.safe_load(Path(__file__).with_name("init.yaml").read_text(encoding="utf-8"))

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "dpcalc" / "config" / "templates"
SHAPES = ROOT / "sample_configs" / "adopt"
PAGE = (ROOT / "docs" / "adopt.md").read_text(encoding="utf-8")


def script(path, **stubs):
    """A training script as a module, as its own user imports it: the libraries are imported where it runs."""
    spec = importlib.util.spec_from_file_location(f"adopt_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules |= stubs
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        for name in (*stubs, spec.name):
            del sys.modules[name]
    return module


def flags(folder):
    return vars(script(folder / "train.py").arguments().parse_args([]))


def arguments(folder):
    """What `HfArgumentParser.parse_yaml_file` makes of the file: each key is a field of a class, its own or HF's."""
    stated = yaml.safe_load((folder / "args.yaml").read_text())
    own = {field.name for field in fields(script(folder / "train.py").PrivacyArguments)}
    words = (
        "output_dir per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps learning_rate "
    )
    words += "num_train_epochs lr_scheduler_type logging_steps evaluation_strategy"
    assert own < stated.keys() <= own | set(words.split())
    assert not any(isinstance(stated[name], str) for name in own)
    return stated


def composed(folder):
    """What Hydra composes of plain groups: the main file over the options that it chooses."""
    main = yaml.safe_load((folder / "conf/config.yaml").read_text())
    assert main["defaults"][-1] == "_self_"
    for choice in main.pop("defaults")[:-1]:
        ((group, option),) = choice.items()
        main[group] = yaml.safe_load((folder / "conf" / group / f"{option}.yaml").read_text())
    return main


def flwr(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]


class ConfigDict(SimpleNamespace):
    """What `ml_collections.ConfigDict` does here."""


def collections(folder):
    return script(folder / "config.py", ml_collections=SimpleNamespace(ConfigDict=ConfigDict)).get_config()


# By folder: how its own library reads it, the change that makes it dearer (file, before, after), and its noise.
LOADED = {
    "argparse_opacus": (flags, ("train.py", "default=1.5", "default=1.2"), lambda run: run["sigma"]),
    "hugging_face": (arguments, ("args.yaml", "epochs: 3", "epochs: 6"), lambda run: run["noise_multiplier"]),
    "hydra": (composed, ("conf/config.yaml", "dp: relaxed", "dp: loose"), lambda run: run["dp"]["noise_multiplier"]),
    "flower": (flwr, ("pyproject.toml", "multiplier = 5.0", "multiplier = 1.0"), lambda run: run["noise-multiplier"]),
    "jax": (collections, ("config.py", "updates = 875", "updates = 1875"), lambda run: run.dp.noise_multiplier),
}


@pytest.fixture(params=LOADED)
def shape(request, tmp_path, real, monkeypatch):  # noqa: ARG001  `real` moves, too, and must do so before
    """A training repository of its own, without the config."""
    folder = tmp_path / request.param
    shutil.copytree(SHAPES / request.param, folder, ignore=shutil.ignore_patterns("dpcalc.yaml", "__pycache__"))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "training code")
    monkeypatch.chdir(folder)
    return folder


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


SECTIONS = {name: part for part in PAGE.split("\n## ") for name in LOADED if f"adopt/{name}/" in part}


@pytest.mark.heavy
def test_every_shape_of_the_page(real, shape):
    read, (file, before, after), noise = LOADED[shape.name]
    told = SECTIONS[shape.name]
    ended = real(*re.search(r"\$ dpcalc (init .*)", told)[1].split())
    assert (ended.code, ended.err) == (0, "")
    written = (shape / "dpcalc.yaml").read_text()
    assert written == (SHAPES / shape.name / "dpcalc.yaml").read_text()
    assert written in told
    # The training files are untouched, and say to their own library what they say to dpcalc.
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=shape, text=True) == "?? dpcalc.yaml\n"
    (phase,) = load("dpcalc.yaml").plan.phases
    assert phase.mechanism.noise_multiplier == noise(read(shape))
    git(shape, "add", ".")
    git(shape, "commit", "-q", "-m", "a config")
    ended = real("check")
    assert (ended.code, ended.out.split("\n")[0] in told) == (0, True)
    path = shape / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    read(shape)
    ended = real("check", "--base", "HEAD")
    assert (ended.code, "DPC301" in ended.out) == (1, True)


# What is found.


def written(real, text, *words, file="train.yaml"):
    Path(file).write_text(text)
    return real("init", file, "-o", "-", *words)


@pytest.mark.parametrize(("file", "text", "words", "lines", "remarks"), ROWS["found"])
def test_what_is_found(real, file, text, words, lines, remarks):
    ended = written(real, text, *words, file=file)
    assert ended.code == 0
    assert all(line in ended.out for line in lines), ended.out
    assert all(remark in ended.err for remark in remarks), ended.err
    assert "\n::error" not in ended.out + ended.err
    # No number in it stands in the file: what is stated is a reference.
    values = re.findall(r"^ +\w+: (?!\"\$)([\d.].*)$", ended.out, flags=re.MULTILINE)
    assert values == []


TRAINING = ROWS["training"]
DROPS = "--set=sampling.drop_last=false"


@pytest.mark.parametrize(("loader", "private", "name", "words", "said"), ROWS["against"])
def test_what_a_file_states_is_never_contradicted(real, loader, private, name, words, said):
    ended = written(real, TRAINING.format(loader=loader, private=private), "--loader", name, *words, file="train.py")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err, ended.err
    assert any(option in ended.err for option in (f"--loader {name}", *(each.removeprefix("--set=") for each in words)))


@pytest.mark.parametrize(("text", "words", "code"), ROWS["numbers"])
def test_a_number_is_what_the_file_states(real, text, words, code):
    ended = written(real, text, *(f"--set={word}" for word in words))
    assert (ended.code, "expected what the file states" in ended.err) == (code, code == 2), ended.err


@pytest.mark.parametrize(("name", "loader", "private", "line"), ROWS["open"])
def test_what_a_launch_decides_of_the_loader_is_open(real, name, loader, private, line):
    text = TRAINING.format(loader=loader, private=private)
    word = "shuffle" if loader else "poisson_sampling"
    ended = written(real, text, "--loader", name, DROPS, file="train.py")
    assert (ended.code, line in ended.out, "epsilon <=" in ended.err) == (0, True, False)
    ended = written(real, text, "--loader", name, DROPS, f"--set=sampling.{word}=true", file="train.py")
    assert (line in ended.out, "epsilon <=" in ended.err) == (False, True)


@pytest.mark.parametrize("case", corpus("unsectioned"), ids=lambda case: case["written"][:20])
def test_what_a_person_answers_to_each_question_is_the_run(real, case):
    text = written(real, case["written"]).out
    assert set(re.findall(r"\w+: \?\?\?", text)) == case["given"].keys()
    for question, answer in case["given"].items():
        text = text.replace(question, answer)
    meant = load_text(flat(case["meant"]), path="meant.yaml").plan
    assert load_text(text, path="run.yaml").plan.phases == meant.phases


def answered(answers, *words):
    """Exit code and screen of a command on a terminal, where each answer is typed when it has asked."""
    terminal, writer = os.openpty()
    command = [sys.executable, "-m", "dpcalc", *words]
    running = subprocess.Popen(command, stdin=writer, stdout=writer, stderr=writer, env=environment(NO_COLOR="1"))
    os.close(writer)
    shown = ""
    for answer in answers:
        while not shown.endswith(": "):
            shown += os.read(terminal, 65536).decode()
        os.write(terminal, f"{answer}\n".encode())
        shown += shown_on(terminal, until="\n")  # the echo, and perhaps the next question
    shown += shown_on(terminal)
    os.close(terminal)
    return running.wait(timeout=60), shown.replace("\r", "")


ORDERED = "noise_multiplier: 10\nbatch_size: 250\nepochs: 10\ndelta: 1e-5\nn: 50000\n"
CONDITIONS = ("seed", "once", "passes", "ranks", "noise", "nothing_else")


@pytest.mark.parametrize("loader", ["shuffle", "trainer"])
@pytest.mark.parametrize("left_out", [*CONDITIONS, ""])
def test_an_order_is_secret_only_if_all_that_it_takes_is_stated(real, loader, left_out):
    stated = [f"--set=order.{each}={'false' if each == left_out else 'true'}" for each in CONDITIONS]
    ended = written(real, ORDERED, "--loader", loader, "--set=privacy.adjacency=replace-one", *stated)
    assert ("order: secret" in ended.out) == (not left_out)
    assert (f"order.{left_out}" if left_out else "epsilon <= 0.237" * (loader == "shuffle")) in ended.err


@pytest.mark.heavy
def test_five_questions_and_the_noise_that_fits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = ["1", "opacus", "example", "sixty", "true", "60_000", "256", "60", "false", "10", "3", "1e-5", "y"]
    code, shown = answered(answers, "init")
    assert (code, "5 of 5" in shown) == (0, True)
    for wrong in ("expected a number, got 'true'", "expected true or false, got '60'", "sixty"):
        assert wrong in shown
    loaded = load("dpcalc.yaml")
    (phase,) = loaded.plan.phases
    assert phase.hierarchy.level(1).rate == Fraction(1, 235)
    assert f"noise_multiplier >= {phase.mechanism.noise_multiplier}" in shown
    assert "# dpcalc's answer to epsilon 3" in Path("dpcalc.yaml").read_text()
    assert 2.9 < guarantee(loaded.plan).epsilon <= 3


@pytest.mark.heavy
@pytest.mark.parametrize("answers", ["yyyyyy", "n", "yyyn", ""])
def test_what_a_secret_order_takes_is_asked_until_something_is_not_so(tmp_path, monkeypatch, answers):
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(ORDERED)
    is_secret = answers == "yyyyyy"
    typed = [*(answers or [""]), *["replace-one"] * is_secret, "3"]
    code, shown = answered(typed, "init", "t.yaml", "--loader", "shuffle")
    assert (code, shown.count("y/N")) == (0, max(len(answers), 1))
    assert ("order: secret" in Path("dpcalc.yaml").read_text()) == is_secret
    assert ("counts as known; a secret one" in shown) != is_secret


@pytest.mark.heavy
@pytest.mark.parametrize(("file", "text", "answers", "said", "written"), ROWS["asked"])
def test_what_files_lack_is_asked(tmp_path, monkeypatch, file, text, answers, said, written):
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(text if isinstance(text, str) else TRAINING.format(loader=text[0], private=text[1]))
    code, shown = answered(answers, "init", file)
    assert (code, [each for each in said if each not in shown]) == (0, [])
    assert all(each in Path("dpcalc.yaml").read_text() for each in written)


@pytest.mark.parametrize(("words", "said"), ROWS["wrong"])
def test_files_that_cannot_be_used(real, words, said):
    git(Path.cwd(), "init", "-q")
    rows = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
    many = "".join(f"s{n}: {{noise_multiplier: {n}}}\n" for n in range(1, 300))
    texts = {
        "t": "sigma: 1",
        "bomb": f"l0: &l0 [1]\n{rows}",
        "cycle": "a: &a [*a]",
        "many": many,
        "large": "#" * 300_000,
    }
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    Path("deep.json").write_text("[" * 5000 + "]" * 5000)
    Path("link.yaml").symlink_to("/etc/hostname")
    ended = real(*words)
    assert (ended.code, ended.out, said in ended.err) == (2, "", True), ended.err
    assert not Path("dpcalc.yaml").exists()


# Templates


@pytest.mark.parametrize("template", ["dpsgd", "phases", "maml", "users", "pate"])
def test_a_template_keeps_its_budget_and_takes_no_coin_for_granted(dpcalc, tmp_path, monkeypatch, template):
    """A fixed cohort costs up to ten times what coins do: who leaves the line alone must not get the cheaper number."""
    monkeypatch.chdir(tmp_path)
    ended = dpcalc("init", "--template", template)
    assert (ended.code, ended.out) == (0, "wrote dpcalc.yaml\n")
    text = (tmp_path / "dpcalc.yaml").read_text(encoding="utf-8")
    assert text == (TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8")
    assert "poisson" not in re.sub("#.*", "", text)
    if "scheme: ???" in text:  # any loader fits, and none is chosen
        assert "how the loader draws" in ended.err
        asked = dpcalc("epsilon")
        assert (asked.code, "`sampling.scheme` is `???`" in asked.err) == (2, True)
        assert dpcalc("init", "--template", template, "--scheme", "poisson", "--force").code == 0
    assert text.startswith("# yaml-language-server: $schema=dpcalc.schema.json\n")
    assert dpcalc("validate", "dpcalc.yaml").out == "passed  dpcalc.yaml\nread 1 file: 1 passed\n"
    plan = load("dpcalc.yaml").plan
    assert 0 < guarantee(plan).epsilon < plan.budget.epsilon


def test_every_template_is_offered():
    assert {path.stem for path in TEMPLATES.glob("*.yaml")} == {"dpsgd", "phases", "maml", "users", "pate"}
