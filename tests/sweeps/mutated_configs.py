"""Sample configs with random changes of structure and text, and what `dpcalc epsilon --json` must say of each."""

import contextlib
import copy
import io
import json
import math
import time
import warnings
from collections import Counter
from pathlib import Path

import yaml

from dpcalc.cli.app import run
from tests.sweeps.random_configs import generator, random_config

FOLDER = Path(__file__).parents[2] / "sample_configs"
SAMPLES = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml")) if path.name != "teachers.yaml"]
VALUES = yaml.safe_load(Path(__file__).with_name("mutated.yaml").read_text(encoding="utf-8"))
SCALARS, KEYS = VALUES["scalars"], VALUES["keys"].split()
GATE_CODES = {"passed": 0, "failed": 1, "invalid": 2, "undecided": 3}
PIECES = [*"{}[],:&*!|>'\"%@`?-#\n\t ~=<.0159e+", ": ", "\n  ", "1e-", "00", "- "]


def places(tree, path=()):
    """All paths of a tree of dictionaries and lists."""
    found = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def read(text):
    """A sample as a tree; PyYAML takes `1e-5` for text."""

    def numbers(tree):
        if isinstance(tree, dict):
            return {key: numbers(value) for key, value in tree.items()}
        if isinstance(tree, list):
            return [numbers(value) for value in tree]
        if isinstance(tree, str) and tree[:1].isdigit():
            with contextlib.suppress(ValueError):
                return float(tree)
        return tree

    return numbers(yaml.safe_load(text))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def changed_number(rng, value):
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    factor = float(rng.choice([0, 0.5, 2, 10, 1e3, 1e6, 1e-3, 1e-6, -1]))
    return round(value * factor) if isinstance(value, int) and factor >= 1 else value * factor


def scalar(rng):
    """One of the values; lists and dictionaries as copies, because later changes go into them."""
    return copy.deepcopy(SCALARS[int(rng.integers(len(SCALARS)))])


def change(rng, tree):
    """One change of structure, in place; most are of a number."""
    numeric = rng.random() < 0.6
    found = [path for path in places(tree) if not numeric or isinstance(at(tree, path), int | float)]
    if not found:
        return
    path = found[int(rng.integers(len(found)))]
    if path == ("version",) and rng.random() < 0.9:
        return
    parent, key = at(tree, path[:-1]), path[-1]
    kind = rng.random()
    if kind < 0.62:
        number = changed_number(rng, parent[key])
        parent[key] = number if number is not None else scalar(rng)
    elif kind < 0.75:
        parent[key] = scalar(rng)
    elif kind < 0.83:
        del parent[key]
    elif kind < 0.93:
        target = parent if isinstance(parent, dict) else tree
        target[KEYS[int(rng.integers(len(KEYS)))]] = scalar(rng)
    else:
        other = found[int(rng.integers(len(found)))]
        with contextlib.suppress(KeyError, IndexError, TypeError):
            parent[key] = json.loads(json.dumps(at(tree, other)))


def mutant(rng):
    """The text of a changed sample or random config."""
    is_random = rng.random() < 0.35
    text = json.dumps(random_config(rng)) if is_random else SAMPLES[int(rng.integers(len(SAMPLES)))]
    if rng.random() < 0.2:
        for _ in range(int(rng.integers(1, 3))):
            start = int(rng.integers(len(text)))
            piece = PIECES[int(rng.integers(len(PIECES)))]
            text = text[:start] + piece + text[start + int(rng.integers(0, 5)) :]
        return text
    tree = read(text)
    for _ in range(int(rng.choice([1, 2, 3], p=[0.65, 0.25, 0.1]))):
        change(rng, tree)
    return json.dumps(tree)


def answer(text, folder):
    """(what is wrong with the answer to a config, or "", its exit code, CPU seconds)."""
    path = folder / "f.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    out, err = io.StringIO(), io.StringIO()
    start = time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error")
        code = run(["epsilon", str(path), "--json"])
    spent = time.process_time() - start
    return _wrong(code, out.getvalue(), err.getvalue()), code, spent


def gate_answers(texts, folder):
    """(what is wrong with the answer of `check --json` to configs, or "", how many files have each verdict)."""
    for number, text in enumerate(texts):
        (folder / f"f{number}.yaml").write_text(text, encoding="utf-8", errors="surrogateescape")
    paths = [str(folder / f"f{number}.yaml") for number in range(len(texts))]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("error")
        code = run(["check", *paths, "--json", "--timeout", "300"])
    said = out.getvalue() + err.getvalue()
    if "DPC999" in said or "Traceback" in said:
        place = next((number for number, each in enumerate(_results(out)) if "DPC999" in json.dumps(each)), None)
        return f"internal error, file {place}: {said[said.find('DPC999') :][:400]}", Counter()
    results = _results(out)
    verdicts = Counter(each["verdict"] for each in results)
    worst = max((GATE_CODES[verdict] for verdict in verdicts), default=None)
    if len(results) != len(texts) or code != worst:
        return f"exit code {code}, {len(results)} results of {dict(verdicts)}", verdicts
    return "", verdicts


def _results(out):
    return json.loads(out.getvalue())["results"] if out.getvalue().startswith("{") else []


def _wrong(code, out, err):
    if "DPC999" in err or "DPC999" in out or "Traceback" in err:
        return f"internal error: {err.strip()[:300]}"
    if code not in {0, 2, 3}:
        return f"exit code {code}"
    if code:
        return "" if err or out else "no reason given"
    found = json.loads(out)["guarantee"]
    upper, lower = found["epsilon"], found["epsilon_lower"]
    if found["finite"] and not (upper >= 0 and math.isfinite(upper)):
        return f"epsilon {upper}"
    if lower is not None and upper is not None and lower > upper:
        return f"lower end {lower} above {upper}"
    return ""


def numbered(seed, place):
    return mutant(generator(seed, place, 211))
