"""`dpcalc audit`: honest runs pass at the stated error, runs with half of the noise do not, files are checked."""

import io
import json
import math
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import binom

from dpcalc.audit.laws import Guesses, PrivacyCurve
from dpcalc.audit.scores import Scores, audit_scores, read_scores
from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.risk import both_profiles

ROWS = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"))

CONFIG = """\
version: 1
name: pilot
data: {{examples: 5000}}
sampling: {{scheme: {scheme}}}
mechanism: {{noise_multiplier: {noise}}}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: 1e-5}}
"""


def config(noise=2.0, *, steps=1, scheme="all", adjacency="add-remove"):
    return CONFIG.format(noise=noise, steps=steps, scheme=scheme, adjacency=adjacency)


def plan_of(text):
    return load_text(text, path="pilot.yaml").plan


def trained(rng, canaries, *, noise, steps=1, rate=1.0):
    """Scores of canaries of one run of DP-SGD: each adds a unit vector of its own direction where a step draws it.

    The noise of a step is added to the sum of all of them; the score is the likelihood ratio of all steps.
    """
    included = rng.random(canaries) < 0.5
    score = np.zeros(canaries)
    for _ in range(steps):
        update = (included & (rng.random(canaries) < rate)) + rng.normal(0, noise, canaries)
        score += np.log(1 - rate + rate * np.exp((update - 0.5) / noise**2))
    return included, score


def scores_of(included, values, runs=None):
    return Scores(path="scores.csv", included=included, scores=values, runs=runs)


@cache
def composition_of(text):
    return composed(plan_of(text))


@cache
def curve_of(text):
    return PrivacyCurve.of(both_profiles(composition_of(text), (1e-4, 1e-2, 0.2), (1e-5,)))


@cache
def p_value_of(text, canaries, guessed, correct):
    return Guesses(canaries=canaries, guessed=guessed, correct=correct).p_value(curve_of(text))


def correct_guesses(included, values, guessed):
    order = np.argsort(values)
    return int(np.sum(included[order[-(guessed // 2) :]]) + np.sum(~included[order[: guessed // 2]]))


def contradicted_runs(rng, runs, text, *, canaries, guessed, **training):
    """Number of runs whose p-value is at most 0.05."""
    correct = [correct_guesses(*trained(rng, canaries, **training), guessed) for _ in range(runs)]
    return sum(p_value_of(text, canaries, guessed, number) <= 0.05 for number in correct)


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "scheme"),
    [(2.0, 1, 1.0, "all"), (0.6, 1, 1.0, "all"), (1.0, 10, 0.2, "poisson, rate: 0.2")],
)
def test_a_thousand_honest_runs_are_contradicted_as_rarely_as_stated(noise, steps, rate, scheme):
    rng = np.random.default_rng(18)
    text = config(noise, steps=steps, scheme=scheme)
    number = contradicted_runs(rng, 1000, text, canaries=400, guessed=100, noise=noise, steps=steps, rate=rate)
    assert number <= binom.isf(1e-4, 1000, 0.05)
    assert number <= 10  # measured: 0; the bound covers runs whose canaries are all revealed together


def test_the_stated_error_is_reached_where_the_bound_is_exact():
    """Randomized response: the p-value is the exact tail."""
    rng, epsilon, canaries = np.random.default_rng(3), 1.0, 200
    curve = PrivacyCurve(np.array([0.0, epsilon]), np.array([math.tanh(epsilon / 2), 0.0]))
    p_values = [Guesses(canaries=canaries, guessed=100, correct=v).p_value(curve) for v in range(101)]
    correct = rng.binomial(100, 1 / (1 + math.exp(-epsilon)), 20_000)
    rate = np.mean(np.array(p_values)[correct] <= 0.05)
    assert 0.02 < rate <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 20_000)


@pytest.mark.parametrize(
    ("noise", "steps", "rate", "scheme", "share"),
    [  # epsilon 8, 4.4, 2, .9; 3.7 and 7 with Poisson batches
        pytest.param(0.6, 1, 1.0, "all", 0.8, marks=pytest.mark.slow),
        pytest.param(1.0, 1, 1.0, "all", 0.9, marks=pytest.mark.slow),
        (2.0, 1, 1.0, "all", 0.9),
        pytest.param(4.0, 1, 1.0, "all", 0.6, marks=pytest.mark.slow),
        (1.5, 10, 0.3, "poisson, rate: 0.3", 0.6),
        pytest.param(1.0, 100, 0.1, "poisson, rate: 0.1", 0.8, marks=pytest.mark.slow),
    ],
)
def test_half_of_the_declared_noise_is_seen(noise, steps, rate, scheme, share):
    """2,000 canaries, of which a quarter is guessed as by default."""
    rng = np.random.default_rng(18)
    text = config(noise, steps=steps, scheme=scheme)
    training = {"noise": noise / 2, "steps": steps, "rate": rate}
    assert contradicted_runs(rng, 40, text, canaries=2000, guessed=500, **training) >= 40 * share


def test_several_rules_share_the_error():
    included, values = trained(np.random.default_rng(1), 1000, noise=1.0)
    plan, scores = composition_of(config()), scores_of(included, values)
    alone, other = (audit_scores(plan, scores, guesses=(pair,)) for pair in ((125, 125), (500, 500)))
    both = audit_scores(plan, scores, guesses=((125, 125), (500, 500)))
    assert both.p_value == 2 * min(alone.p_value, other.p_value)
    assert both.epsilon_lower < max(alone.epsilon_lower, other.epsilon_lower)
    assert alone.p_value <= 0.05
    assert not alone.agrees
    assert audit_scores(plan, scores).tests == alone.tests  # a quarter of the canaries


@pytest.mark.heavy
def test_equal_scores_count_as_wrong():
    """Membership must not decide among equal scores, whatever their order in the file."""
    included = np.arange(1000) < 500
    for values in (np.zeros(1000), np.where(np.arange(1000) % 2, 1.0, 0.0)):
        for order in (np.arange(1000), np.arange(1000)[::-1]):
            result = audit_scores(composition_of(config()), scores_of(included[order], values[order]))
            assert result.tests[0][1].correct == 0
    values = np.where(included, 2.0, 1.0)
    values[498:502] = 1.5  # two in and two out share the edge of 500 guesses
    result = audit_scores(composition_of(config()), scores_of(included, values), guesses=((500, 500),))
    assert result.tests[0][1].correct == 996
    result = audit_scores(composition_of(config()), scores_of(included, values), guesses=((499, 498),))
    assert result.tests[0][1].correct == 498 + 498


def many_runs(rng, number, *, noise):
    included = rng.random(number) < 0.5
    return scores_of(included, included + rng.normal(0, noise, number), np.arange(number, dtype=float))


def test_a_threshold_of_the_other_half_is_honest(monkeypatch):
    for name, function in (("both_profiles", both_profiles), ("guarantee", guarantee)):
        monkeypatch.setattr(f"dpcalc.audit.scores.{name}", cache(function))
    rng, plan = np.random.default_rng(7), composition_of(config(0.8))
    contradicted = [not audit_scores(plan, many_runs(rng, 200, noise=0.8)).agrees for _ in range(100)]
    assert sum(contradicted) <= binom.isf(1e-4, 100, 0.05)
    assert sum(not audit_scores(plan, many_runs(rng, 800, noise=0.4)).agrees for _ in range(20)) >= 18


def test_many_runs_with_a_threshold():
    plan, scores = composition_of(config(0.5)), many_runs(np.random.default_rng(2), 2000, noise=0.25)
    result = audit_scores(plan, scores, thresholds=(0.75,))
    counts = result.tests[0][1]
    assert counts.included + counts.excluded == 2000
    assert result.has_many_runs
    assert not result.agrees
    assert 5 < result.epsilon_lower < result.guarantee.epsilon
    with pytest.raises(InputError, match="--guesses: expected the scores of one run"):
        audit_scores(plan, scores, guesses=((1, 1),))
    with pytest.raises(InputError, match="--threshold: expected scores of many runs"):
        audit_scores(plan, scores_of(scores.included, scores.scores), thresholds=(1.0,))
    for kind in (True, False):
        same = scores_of(np.full(50, kind), np.arange(50.0), np.arange(50.0))
        with pytest.raises(InputError, match="expected runs with the canary and runs without it"):
            audit_scores(plan, same)


def test_several_runs_with_several_canaries_are_one():
    included, values = trained(np.random.default_rng(1), 1000, noise=1.0)
    plan = composition_of(config())
    together = audit_scores(plan, scores_of(included, values, np.repeat(np.arange(10.0), 100)))
    assert together.p_value == audit_scores(plan, scores_of(included, values)).p_value
    assert not together.has_many_runs


def test_canaries_that_are_mostly_in_are_refused():
    plan = composition_of(config())
    with pytest.raises(
        InputError, match="expected canaries that are in with probability 1/2 each, got 900 in of 1,000"
    ):
        audit_scores(plan, scores_of(np.arange(1000) < 900, np.arange(1000.0)))
    with pytest.raises(InputError, match="--guesses: expected at most 10, the number of canaries, got 12"):
        audit_scores(plan, scores_of(np.arange(10) < 5, np.arange(10.0)), guesses=((6, 6),))


def test_without_noise_nothing_is_contradicted():
    included = np.random.default_rng(1).random(500) < 0.5
    result = audit_scores(plan_of(config(0)), scores_of(included, included * 1.0))
    assert (result.agrees, result.p_value, math.isinf(result.guarantee.epsilon)) == (True, 1.0, True)
    assert any("without noise" in note for note in result.notes)


def test_reversed_scores_are_told():
    included, values = trained(np.random.default_rng(1), 1000, noise=1.0)
    result = audit_scores(composition_of(config()), scores_of(included, -values))
    assert result.agrees
    assert any("score higher" in note for note in result.notes)


@pytest.mark.parametrize(
    ("adjacency", "scheme", "words"),
    [
        ("add-remove", "all", "is not in the data"),
        ("zero-out", "all", "contributes zero"),
        ("replace-one", "all", "is replaced by another one"),
        ("add-remove", "fixed, size: 50", "counts no unit that may be out"),
    ],
)
def test_conditions_are_stated(adjacency, scheme, words):
    plan = plan_of(config(scheme=scheme, adjacency=adjacency))
    result = audit_scores(plan, scores_of(np.arange(20) % 2 == 0, np.arange(20.0)))
    assert any(words in assumption for assumption in result.assumptions)
    assert ("counts no unit" in " ".join(result.assumptions)) == ("fixed" in scheme)


# Files


@pytest.fixture
def read(tmp_path):
    def result(text):
        path = tmp_path / "scores.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_scores(str(path))

    return result


@pytest.mark.parametrize("text", ROWS["scores"])
def test_forms_of_a_file(read, text):
    scores = read(text)
    assert scores.included.tolist() == [True, False]
    assert scores.scores.tolist() == [0.5, -0.002]
    assert scores.runs is None or scores.runs.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("text", "words"),
    [*ROWS["wrong scores"], (b"member,score\n1,1\n\xff,1\n", ":3: expected UTF-8 text")],
)
def test_what_is_wrong_in_a_file(read, text, words):
    if words is None:  # a plain number: as whole as any
        assert read(text).runs.tolist() == [1000]
        return
    with pytest.raises(InputError) as caught:
        read(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.slow
def test_a_huge_file_is_refused_in_time(read):
    start = time.process_time()
    with pytest.raises(InputError, match="expected at most 2,000,000 rows"):
        read(b"member,score\n" + b"1,1\n" * 2_000_001)
    assert time.process_time() - start < 20


def test_lines_and_rows_are_bounded(read, monkeypatch):
    monkeypatch.setattr("dpcalc.audit.scores.MAX_ROWS", 100)
    assert len(read("member,score\n" + "1,1\n" * 100).scores) == 100
    with pytest.raises(InputError, match=r"scores\.csv:102: expected at most 100 rows, got more"):
        read("member,score\n" + "1,1\n" * 101)
    with pytest.raises(InputError, match="expected at most 67108864 characters in a line"):
        read(b"member,score\n" + b"1" * 70_000_000)


def test_pieces_that_end_within_a_row(read, monkeypatch):
    monkeypatch.setattr("dpcalc.audit.log._CHUNK", 7)
    scores = read("member,score\n" + "".join(f"{number % 2},{number / 8}\n" for number in range(50)))
    assert scores.scores.tolist() == [number / 8 for number in range(50)]
    assert scores.included.tolist() == [number % 2 == 1 for number in range(50)]


# The command


def csv_text(included, values, *, with_runs=False):
    rows = zip(included, values, strict=True)
    head = "run,member,score\n" if with_runs else "member,score\n"
    lines = (f"{f'{at},' if with_runs else ''}{int(each)},{value!r}\n" for at, (each, value) in enumerate(rows))
    return head + "".join(lines)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "pilot.yaml").write_text(config(), encoding="utf-8")
    for name, noise in {"honest": 2.0, "half": 1.0}.items():
        included, values = trained(np.random.default_rng(1), 1000, noise=noise)
        (tmp_path / f"{name}.csv").write_text(csv_text(included, map(float, values)), encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_the_command(real):
    ended = real("audit", "pilot.yaml", "honest.csv")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("name: pilot\nagrees: yes\ntest: one run\ncanaries: 1000\n")
    ended = real("audit", "pilot.yaml", "half.csv", "--json")
    answer = json.loads(ended.out)
    assert (ended.code, answer["command"], answer["agrees"]) == (1, "audit", False)
    (rule,) = answer["rules"]
    assert (rule["guesses"], rule["rule"]) == (250, "125 highest in, 125 lowest out")
    assert answer["p_value"] == rule["p_value"] <= answer["false_alarm"] == 0.05
    assert 0 < answer["epsilon_lower"] < answer["epsilon"] < 2
    assert len(answer["roc"]) > 10
    assert all(0 <= point["true_positive_rate"] <= 1 >= point["certified"] for point in answer["roc"])
    assert real("audit", "pilot.yaml", "half.csv", "--false-alarm", "1e-6").code == 0
    assert real("audit", "pilot.yaml", "half.csv", "--noise-multiplier", "1").code == 0


@pytest.mark.heavy
@pytest.mark.usefixtures("files")
def test_many_runs_and_pictures_of_the_command(real, tmp_path):
    scores = many_runs(np.random.default_rng(2), 2000, noise=0.25)
    text = csv_text(scores.included, map(float, scores.scores), with_runs=True)
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    ended = real("audit", "pilot.yaml", "runs.csv", "--noise-multiplier", "0.5", "--plot", "roc.svg")
    assert ended.code == 1
    assert "test: many runs\n" in ended.out
    assert "alarms in " in ended.out
    assert "note: wrote roc.svg" in ended.err
    picture = (tmp_path / "roc.svg").read_text(encoding="utf-8")
    assert all(words in picture for words in ("certified: upper bound", "scores of the runs: estimate", "guessing"))
    assert real("audit", "pilot.yaml", "runs.csv", "--threshold", "-0.5").code == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("arguments", "words"), ROWS["wrong commands"])
def test_wrong_input_is_exit_code_2(real, arguments, words):
    ended = real("audit", *arguments)
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.usefixtures("files")
def test_scores_from_standard_input(real, monkeypatch, tmp_path):
    data = (tmp_path / "half.csv").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert real("audit", "pilot.yaml", "-").code == 1
