"""Forms of references: documents, command lines in YAML, quoted keys, products; what each says of its place."""

import json

import pytest

from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError, Severity
from tests.config.texts import corpus, flat

ROWS = corpus("reference_forms")

FILES = {
    "job.yaml": "kind: Map\n---\nspec:\n  args: ['--sigma=1.1', --steps, '100']\n  command: >-\n    python t.py\n"
    "    --noise-multiplier 1.1 --x ${{inputs.x}}\n  zero: 0\n",
    "params.json": json.dumps({"train.batch_size": 64, "a": {"b c": 2, "d.e": [3]}, "text": "64", "third": 0.3}),
    "train.py": 'p.add_argument("--n", type=int, default=60_000)\n',
    "many.yaml": "".join(f"n{index}: {index}\n" for index in range(12)),
}


@pytest.fixture
def load_with(tmp_path):
    """Load a config whose number of steps, or another value, is given, beside FILES."""
    (tmp_path / ".git").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def loaded(value, section="training", key="steps"):
        path = tmp_path / "dpcalc.yaml"
        path.write_text(flat({section: f"{{{key}: {value}}}"}), encoding="utf-8")
        return load(str(path))

    return loaded


@pytest.mark.parametrize(("value", "steps"), ROWS["lead to"])
def test_what_a_reference_leads_to(load_with, value, steps):
    if steps is None:
        with pytest.raises(ConfigError, match="got the string '100'"):
            load_with(value)
    else:
        assert load_with(value).plan.steps == steps


@pytest.mark.parametrize(("value", "words"), ROWS["not to"])
def test_what_it_does_not_lead_to(load_with, value, words):
    with pytest.raises(ConfigError) as caught:
        load_with(value)
    (only,) = caught.value.diagnostics
    assert words in f"{only.message} {only.hint}"
    assert (only.line, only.column) == (5, 19)


@pytest.mark.parametrize("written", ["1 / ${n}", "${n} / 60_000 / 60_000", "1 / ${n} * 2 / 2"])
def test_a_product_is_read_alike_before_and_after_omegaconf(written):
    from omegaconf import OmegaConf

    text = flat({"sampling": f"{{scheme: poisson, rate: '{written}'}}"}) + "n: 60_000\n"
    tree = OmegaConf.create({"n": "60_000", "rate": written})
    after = OmegaConf.to_container(tree, resolve=True)["rate"]
    resolved = text.replace(f"'{written}'", f"'{after}'").replace("n: 60_000", "x-n: 60_000")
    before = load_text(text.replace("\nn:", "\nx-n:").replace("${n}", "${x-n}"), path="a.yaml")
    assert before.plan == load_text(resolved, path="a.yaml").plan


def test_a_name_is_no_product():
    assert load_text(flat({"name": "2 * 4"}), path="a.yaml").plan.name == "2 * 4"


def test_a_default_in_code_is_an_assumption(load_with):
    loaded = load_with("'${train.py:flags.n}'", "data", "examples")
    (note,) = [each for each in loaded.diagnostics if each.code == "DPC212"]
    assert note.severity is Severity.NOTE
    assert "no launch overrides the defaults of `train.py`: --n 60_000 (line 1)" in note.message


def test_a_wrong_value_says_where_it_comes_from(load_with):
    with pytest.raises(ConfigError) as caught:
        load_with("'${params.json:text}'")
    (only,) = caught.value.diagnostics
    assert "params.json, line 1, column" in f"{only.message} {only.hint}"


@pytest.mark.parametrize(
    "keys",
    ["1: 5, 01: 6", "1: 5, 1.0: 6", "1: 5, true: 6", "yes: 5, on: 6", "0x1: 5, 1: 6", "1: 5, 1_: 6", "1: 5, '1': 6"],
)
def test_keys_that_are_one_to_the_library(tmp_path, keys):
    """YAML 1.1 makes one key of them, of which PyYAML and OmegaConf keep the last value."""
    import yaml

    assert len(yaml.safe_load(f"{{{keys}}}")) == 1 or "'1'" in keys
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yaml").write_text(f"d: {{{keys}}}\n", encoding="utf-8")
    for key in (word.split(":")[0].strip("'") for word in keys.split(", ")):
        (tmp_path / "b.yaml").write_text(flat({"training": f"{{steps: '${{a.yaml:d[\"{key}\"]}}'}}"}), encoding="utf-8")
        with pytest.raises(ConfigError, match="stands there more than once"):
            load(str(tmp_path / "b.yaml"))
