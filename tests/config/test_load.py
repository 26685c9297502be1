"""What is told of a config beside its plan: places, versions that it is for; numbers of OmegaConf."""

import csv
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import PATH, SAMPLES, TRAINING, corpus, errors, flat, loaded, marked, plan
from tests.thinning import thinned


def test_places_of_keys():
    row = corpus("places")
    found = loaded(flat(row["changes"]), row["set"])
    assert {key: list(found.mark(key) or ()) for key in row["places"]} == {
        k: at or [] for k, at in row["places"].items()
    }


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + flat({"training": "{§steps: 3}"}),
        flat({"training": "{§steps: 3}"}).replace("\n", "\r\n"),
        flat({"training": "{§steps: '${x-n}'}", "x-n": "5"}),
        TRAINING + "dpcalc:\n" + "".join(f"  {line}\n" for line in flat({"training": "{§steps: 3}"}).splitlines()),
    ],
)
def test_the_place_of_a_key_is_that_in_the_file(text):
    """Behind a byte order mark, of a reference, in a section."""
    clean, (place,) = marked(text)
    found = load_text(clean, path=PATH)
    assert found.mark("training.steps") == place
    assert found.mark("train.max_steps") is None
    assert found.section == ("dpcalc" if "train:" in text else "")


def scalars(node, path=""):
    """The dotted keys of a tree of PyYAML with their values as they are written."""
    if isinstance(node, yaml.ScalarNode):
        yield path, node.value
    elif isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            yield from scalars(item, f"{path}[{at}]")
    else:
        for key, value in node.value:
            if not key.value.startswith("x-"):
                yield from scalars(value, f"{path}.{key.value}".removeprefix("."))


@pytest.mark.parametrize("name", thinned(sorted(path.stem for path in SAMPLES.glob("*.yaml")), 9))
def test_setting_what_the_file_says_changes_nothing(name):
    text = (SAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    said = [f"{path}={value}" for path, value in scalars(yaml.compose(text))]
    before = load_text(text, path=PATH)
    for settings in (*([each] for each in said), said):
        after = load_text(text, path=PATH, assignments=settings)
        assert (after.plan, after.config_hash) == (before.plan, before.config_hash), settings


@pytest.mark.parametrize(
    ("installed", "required", "met"),
    [
        *(("0.1.0", text, True) for text in (">=0.1", ">=0.1.0, <1", "==0.1", "<=0.1.0", ">0.0.9", " >= 0.1 ,<2 ")),
        *(("0.1.0", text, False) for text in (">=0.2", "<0.1", ">0.1.0", "==0.1.1", ">=0.1, <0.1", ">=0.1.0.1")),
        *(("0.1.2", text, True) for text in ("==0.1.*", "~=0.1.0", "!=0.2.*, >0")),
        *(("0.1.2", text, False) for text in ("~=0.2.0", "!=0.1.*, >0")),
        ("0.10.0", ">0.9", True),
        ("0.2.dev3", ">=0.2", True),
    ],
)
def test_required_versions(installed, required, met, monkeypatch):
    monkeypatch.setattr(sys.modules[load_text.__module__], "__version__", installed)
    text, places = marked(flat({"requires": f'§"{required}"', **({} if met else {"future_key": "3"})}))
    if met:
        assert plan(text).steps == 100
        return
    (error,) = errors(text)
    assert (error.code, [(error.line, error.column)]) == ("DPC104", places)
    assert f"is for dpcalc {required}" in error.message


@pytest.mark.parametrize("text", corpus("foreign"))
def test_a_file_of_another_tool_gets_one_error_with_two_ways(text):
    (found,) = errors(text)
    assert found.message.startswith("this is no dpcalc config")
    for way in ("`dpcalc init FILE`", "`dpcalc:`", "docs/adopt.md"):
        assert way in found.hint


# Words that OmegaConf takes for numbers mean the same number here, or are refused; none means another one. The file
# holds what OmegaConf 2.3.1 makes of `a: WORD` (`OmegaConf.create(...).a`: its type, its value).

with Path(__file__).with_name("omegaconf.csv").open(encoding="utf-8", newline="") as file:
    ROWS = [(row["written"], row["type"], row["value"]) for row in csv.DictReader(file)]
ONLY_HERE = {"-.5", "+.5", ".5e3"}  # numbers here, texts that OmegaConf would convert to the same number


@pytest.mark.parametrize(("written", "kind", "value"), ROWS)
def test_a_number_of_omegaconf_is_the_same_number_or_none(written, kind, value):
    try:
        found = plan(flat({"mechanism": f"\n  noise_multiplier: {written}"})).phases[0].noise_multiplier
    except ConfigError as cause:
        (error,) = cause.diagnostics
        is_number = "got the number" in error.message
        assert not is_number or kind in {"int", "float"} or written in ONLY_HERE
    else:
        assert kind in {"int", "float"} or written in ONLY_HERE
        assert found == float(Fraction(value))


def test_the_record_is_what_omegaconf_says():
    import omegaconf

    for written, kind, value in ROWS:
        found = omegaconf.OmegaConf.create(f"a: {written}\n").a
        assert (type(found).__name__, found if isinstance(found, str) else repr(found)) == (kind, value)
