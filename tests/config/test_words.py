"""The table of foreign words: following a hint gives the run that the word's own library means.

The runs are evaluated here by an accountant of this file's own, which shares no code with the package.
"""

import math
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dpcalc.config.load import load_text
from dpcalc.config.messages import key_suggestion
from dpcalc.config.schema import SCHEMES, SECTIONS, keys_in
from dpcalc.config.words import (
    RENAMED,
    RENAMED_IN,
    SAID,
    VALUES,
    VALUES_SAID,
    Beside,
    is_misspelling,
    meaning,
    plain_word,
)
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.schemes import Fixed, Poisson, Shuffle, WithReplacement
from tests.config.texts import corpus, errors, flat

ROOT = Path(__file__).parents[2]


# An independent accountant: the loss of one Poisson step on a grid, composed by a Fourier transform.


def stated_by(found):
    """Return our dotted key with the value that says the same; {} if nothing can be said."""
    return {} if found.value is None else {found.about: found.value}


def poisson_epsilon(rate, sigma, steps, delta, *, spacing=2e-4, size=2**19):
    """Epsilon of add-remove for Poisson sampled Gaussian noise, within about `spacing` * sqrt(steps)."""
    edges = (np.arange(size + 1) - size / 2 - 0.5) * spacing
    found = []
    for sign in (1, -1):
        # The loss log(1 - q + q e^{(2x - 1) / 2s^2}) grows with x: its distribution is that of x.
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = (np.exp(sign * edges) - 1 + rate) / rate
            x = np.where(inner > 0, sigma**2 * np.log(np.where(inner > 0, inner, 1)) + 0.5, -np.inf)
        below = (1 - rate) * norm.cdf(x / sigma) + rate * norm.cdf((x - 1) / sigma) if sign > 0 else norm.sf(x / sigma)
        mass = np.clip(np.diff(below), 0, None)
        centred = np.fft.ifftshift(mass)
        total = np.fft.fftshift(np.clip(np.fft.irfft(np.fft.rfft(centred) ** steps, size), 0, None))
        losses = (np.arange(size) - size / 2) * spacing
        low, high = 0.0, float(losses[-1])
        for _ in range(60):
            middle = (low + high) / 2
            above = losses > middle
            if np.sum(total[above] * -np.expm1(middle - losses[above])) > delta:
                low = middle
            else:
                high = middle
        found.append(high)
    return max(found)


def gaussian_epsilon(mu, delta):
    """Epsilon of Gaussian noise at distance mu standard deviations."""
    low, high = 0.0, 500.0
    for _ in range(80):
        middle = (low + high) / 2
        at = norm.cdf(mu / 2 - middle / mu) - math.exp(middle + norm.logcdf(-mu / 2 - middle / mu))
        low, high = (middle, high) if at > delta else (low, middle)
    return high


# Runs. The defaults of a run, and how a library's word changes it.

RUN = {"n": 10_000, "batch": 100, "sigma": 1.0, "steps": 200, "delta": 1e-5}


def config(assignments, scheme="poisson"):
    text = f"""
version: 1
data: {{examples: {RUN["n"]}}}
sampling: {{scheme: {scheme}}}
mechanism: {{noise_multiplier: {RUN["sigma"]}}}
training: {{batch_size: {RUN["batch"]}, steps: {RUN["steps"]}}}
privacy: {{adjacency: add-remove, delta: {RUN["delta"]}}}
"""
    return load_text(text, path="run.yaml", assignments=[f"{key}={value}" for key, value in assignments.items()])


def computed(assignments):
    return evaluated(tuple(assignments.items()))


@cache
def evaluated(assignments):
    return guarantee(config(dict(assignments)).plan).epsilon


@cache
def meant(**changes):
    run = {**RUN, **changes}
    rate = run.get("rate", run["batch"] / run["n"])
    return poisson_epsilon(rate, run["sigma"], run["steps"], run["delta"])


SAME = {"rel": 2e-3, "abs": 2e-3}

# The keys that a number of another tool is copied to: the quantity of the run, and a value that differs from RUN's.
QUANTITIES = {
    "mechanism.noise_multiplier": ("sigma", 2.0),
    "sampling.rate": ("rate", 0.02),
    "sampling.expected": ("batch", 250),
    "training.batch_size": ("batch", 250),
    "training.steps": ("steps", 700),
    "training.epochs": ("epochs", 5),
    "data.examples": ("n", 4000),
    "privacy.delta": ("delta", 1e-6),
    "mechanism.max_grad_norm": ("clip", 7.5),
    "privacy.group_size": ("group", 2),
    "budget.epsilon": ("budget", 3),
}
RENAMES = [word for _, _, words in RENAMED for word in words.split()]


def renamed_to(key):
    return [word for ours, _, words in RENAMED if ours == key for word in words.split()]


@pytest.mark.parametrize("key", QUANTITIES)
def test_a_renamed_word_is_the_run_that_its_library_means(key):
    quantity, value = QUANTITIES[key]
    for word in renamed_to(key):
        found = meaning("", word, Beside({word: repr(value)}))
        assert found.is_rename
        assert stated_by(found) == {key: repr(value)}
    epsilon = computed(
        {key.replace("sampling.", "sampling.example.").replace("data.examples", "data.levels[0].count"): value}
    )
    if quantity == "group":  # any two examples: two examples in each of the steps, at most
        assert epsilon > meant()
        return
    changed = {
        "clip": {},
        "budget": {},
        "epochs": {"steps": value * RUN["n"] // RUN["batch"]},
    }.get(quantity, {quantity: value})
    assert epsilon == pytest.approx(meant(**changed), **SAME)


# Words for a form, not a number of the run above: where the word stands, and the run that its library means.

FLAT = {
    "data": "{examples: 1000}",
    "sampling": "{scheme: poisson, rate: 0.1}",
    "mechanism": "{noise_multiplier: 4}",
    "training": "{steps: 20}",
    "privacy": "{adjacency: add-remove, delta: 1e-5}",
}
EPISODES = ("tasks", "ways", "shots", "queries")


SECTIONS_OF = corpus("words")


def gaussian(*distances):
    """Releases with Gaussian noise 4 in which a unit moves the sum by so many clip norms."""
    return lambda _: gaussian_epsilon(math.sqrt(sum(each**2 for each in distances)) / 4, 1e-5)


def scheme(name, value):
    return lambda run: getattr(run.plan.phases[0].hierarchy.level(1).scheme, name) == value


def is_episode(run):
    """An image of 20 in each of 50 classes: 2 tasks of 5 classes draw it with 5/50 x 4/20 each."""
    built = run.plan.phases[0].hierarchy.episodes
    return (built.tasks, built.ways, built.shots, built.queries) == (2, 5, 1, 3)


# By our key: the epsilon, or what the plan then says; the sections stand in corpus/words.yaml.
FORM_RUNS = {
    # every user's clipped vector is in every sum: one clip norm a step, not 20
    "mechanism.clip": gaussian(*[1] * 20),
    # the truth with .4, each of three others with .2
    "mechanism.categories": lambda _: math.log((0.4 - 1e-5) / 0.2),
    # steps 1, 5, ..., 17 of 20, whose columns of length sqrt(1.25) do not meet; noise is relative to that length
    "mechanism.min_separation": gaussian(*[1] * 5),
    "mechanism.max_participations": gaussian(1, 1),
    "mechanism.threshold_noise_multiplier": lambda run: run.plan.phases[0].mechanism.threshold_noise_multiplier == 150,
    "mechanism.type": lambda _: 1 / 2 + 2 * math.log1p(-1e-5),
    "sampling.scheme": gaussian(*[1] * 20),
    "sampling.max_batch_size": scheme("max_batch_size", 120),
    # a group is asked in every fifth step
    "sampling.groups": lambda _: poisson_epsilon(0.1, 4, 4, 1e-5),
    "sampling.max_group_size": scheme("max_group_size", 220),
    # five steps with the same draw are one release at sqrt(5) clip norms
    "sampling.redraw_every": lambda _: poisson_epsilon(0.1, 4 / math.sqrt(5), 4, 1e-5),
    "sampling.episodes": is_episode,
    **{f"sampling.episodes.{key}": is_episode for key in EPISODES},
    "sampling.drop_last": lambda run: run.plan.phases[0].steps == 20,
    "data.levels": lambda run: [level.count for level in run.plan.phases[0].hierarchy.levels] == [50, 20],
    "data.levels[].count": lambda run: run.plan.phases[0].hierarchy.level(2).count == 20,
    "privacy.adjacency": gaussian(*[2] * 20),
    # all 20 examples of the user, each with a clipped vector of its own
    "privacy.unit": gaussian(*[20] * 20),
    "accounting.method": lambda run: guarantee(run.plan).method == "rdp",
    "tuning": lambda run: run.plan.tuning.mean == 10,
    "tuning.mean": lambda run: run.plan.tuning.mean == 10,
}


@pytest.mark.parametrize("key", list(FORM_RUNS))
def test_a_word_for_a_form_is_the_run_that_its_library_means(key):
    sections, truth = SECTIONS_OF[key], FORM_RUNS[key]
    text = "version: 1\n" + "".join(f"{name}: {value}\n" for name, value in {**FLAT, **sections}.items())
    assert renamed_to(key)
    for word in renamed_to(key):
        said = " ".join(error.hint or "" for error in errors(text.replace("WORD", word)))
        assert f"`{key.rpartition('.')[2]}`" in said or f"`{key}`" in said
    run = load_text(text.replace("WORD", key.rpartition(".")[2]), path="run.yaml")
    expected = truth(run)
    if isinstance(expected, bool):
        assert expected
    else:
        assert guarantee(run.plan).epsilon == pytest.approx(expected, **SAME)


def test_every_key_has_a_run():
    assert FORM_RUNS.keys() == SECTIONS_OF.keys()
    assert {key for key, _, _ in RENAMED} == QUANTITIES.keys() | FORM_RUNS.keys()


def test_a_word_stands_in_one_entry():
    said = [word for _, words, _, _ in SAID for word in words.split()]
    assert len(set(said + RENAMES)) == len(said + RENAMES)
    assert all(word == plain_word(word) for word in said + RENAMES)
    values = [(key, word) for key, _, _, words in VALUES for word in words.split()]
    values += [(key, word) for key, _, words, _ in VALUES_SAID for word in words.split()]
    assert len(set(values)) == len(values)
    ours = {"scheme": SCHEMES, "type": MECHANISMS}
    assert not [(key, word) for key, word in values if word in ours.get(key, ())]


def test_every_key_of_the_table_exists():
    for key in (*(key for key, _, _ in RENAMED), *(key for _, key, _ in RENAMED_IN)):
        section, _, name = key.rpartition(".")
        assert name in keys_in(section)
    for section, _, words in RENAMED_IN:
        assert section in SECTIONS
        assert not set(words.split()) & set(keys_in(section))


# Words that are said: the conversions, with the numbers beside them.

ABSOLUTE = next(words for _, words, _, _ in SAID if words.startswith("stddev")).split()
PARTS = next(words for _, words, _, _ in SAID if words.startswith("max_physical")).split()
ACCUMULATION = PARTS[PARTS.index("gradient_accumulation_steps") :]
COHORT = next(words for _, words, _, _ in SAID if words.startswith("clients_per_round")).split()
ROUNDS = next(words for _, words, _, _ in SAID if words.startswith("rounds")).split()
UNITS = next(words for _, words, _, _ in SAID if words.startswith("num_clients")).split()


def followed(section, beside, word):
    """The keys that a hint leads to, which it must name."""
    found = meaning(section, word, Beside(beside))
    for key, value in stated_by(found).items():
        name = key.rpartition(".")[2]
        assert f"{name}: {value}" in found.hint or f"{name}`" in found.hint
    return stated_by(found)


# Code uses these for a deviation and for a multiple of the clip norm: with a clip norm below 1 the wrong reading is a
# larger multiplier, and an epsilon that is too low.
EITHER = [
    *["noise_scale", "noise", "noise_level", "scale", "noise_parameter", "noise_sigma", "gaussian_noise"],
    *["noise_amount", "noise_amplitude", "noise_intensity", "noise_magnitude", "noise_scale_factor", "noise_factor"],
]
DEVIATIONS = [word for word in ABSOLUTE if "varian" not in word and word not in EITHER]


@pytest.mark.parametrize("word", EITHER)
def test_noise_by_a_word_that_says_either_has_two_readings(word):
    found = meaning("mechanism", word, Beside({word: "1.5", "max_grad_norm": "0.1"}))
    assert not stated_by(found)
    assert not found.is_rename
    assert "`noise_multiplier: 15`" in found.hint
    assert "`noise_multiplier: 1.5`" in found.hint
    assert followed("mechanism", {word: "1.5", "max_grad_norm": "1"}, word) == {"mechanism.noise_multiplier": "1.5"}


@pytest.mark.parametrize(("deviation", "clip"), [("4.0", "4.0"), ("3", "1.5"), ("1", "0.3")])
def test_an_absolute_deviation_is_divided_by_the_clip_norm(deviation, clip):
    # A library adds noise of this deviation to a sum of vectors no longer than the clip norm.
    sigma = float(deviation) / float(clip)
    for word, norm_word in product(DEVIATIONS, ("l2_norm_clip", "max_grad_norm", "sensitivity")):
        keys = followed("mechanism", {word: deviation, norm_word: clip}, word)
        noise = float(keys["mechanism.noise_multiplier"])
        assert sigma * (1 - 1e-8) <= noise <= sigma * (1 + 1e-15), word
    assert computed(keys) == pytest.approx(meant(sigma=sigma), **SAME)


def test_a_variance_and_other_noise_are_not_converted_silently():
    assert not stated_by(meaning("mechanism", "noise_variance", Beside({"noise_variance": "4", "max_grad_norm": "2"})))
    for kind in ("laplace", "discrete-laplace", "matrix-factorization"):
        assert not stated_by(
            meaning("mechanism", "stddev", Beside({"type": kind, "stddev": "4", "max_grad_norm": "2"}))
        )


def test_sigma_with_a_clip_norm_has_two_readings():
    found = meaning("mechanism", "sigma", Beside({"sigma": "4", "l2_norm_clip": "4"}))
    assert (stated_by(found), found.is_rename) == ({}, False)
    assert "`noise_multiplier: 4`" in found.hint
    assert "`noise_multiplier: 1`" in found.hint
    assert stated_by(meaning("mechanism", "sigma", Beside({"sigma": "4"}))) == {"mechanism.noise_multiplier": "4"}


def test_parts_of_a_batch_are_multiplied():
    # The library sums the clipped gradients of all parts, and adds the noise once.
    for part, accumulation in product([word for word in PARTS if word not in ACCUMULATION], ACCUMULATION):
        beside = {part: "64", accumulation: "4"}
        for word in beside:
            assert followed("training", beside, word) == {"training.batch_size": "256"}, (part, accumulation)
        assert followed("training", {**beside, "world_size": "2"}, part) == {"training.batch_size": "512"}
        assert not followed("training", {part: "64"}, part)


def test_a_cohort_is_a_fixed_size():
    for word in COHORT:
        keys = followed("sampling.*", {"scheme": "fixed", word: "100"}, word)
        run = config({f"sampling.example.{key[9:]}": value for key, value in keys.items()}, "fixed").plan
        assert run.phases[0].hierarchy.level(1).scheme == Fixed(size=100)
        open_draw = meaning("sampling.*", word, Beside({word: "100"}))
        assert (stated_by(open_draw), open_draw.is_rename) == ({}, False)
        assert open_draw.hint.startswith("`scheme: fixed, size: 100`")


def test_microbatches_of_tf_privacy():
    # The mean of a microbatch is clipped: it moves by up to two clip norms, at half the noise multiplier.
    keys = followed("training", {"num_microbatches": "10", "batch_size": "100"}, "num_microbatches")
    assert computed({**keys, "mechanism.noise_multiplier": 2.0}) == pytest.approx(meant(sigma=1.0), **SAME)
    assert followed("", {"num_microbatches": "100", "batch_size": "100"}, "num_microbatches") == {}


def test_the_other_conversions():
    sample_size = followed("", {"sample_size": "4000", "batch_size": "100"}, "sample_size")
    assert computed({"data.levels[0].count": sample_size["data.examples"]}) == pytest.approx(meant(n=4000), **SAME)
    assert not followed("", {"sample_size": "4000"}, "sample_size")
    for word in ROUNDS:
        assert followed("", {word: "700"}, word) == {"training.steps": "700"}
        assert not followed("", {word: "700", "local_epochs": "2"}, word)
    for word in ("target_epsilon", "target_eps", "central_epsilon", "dp_epsilon"):
        assert followed("", {word: "3"}, word) == {"budget.epsilon": "3"}


@pytest.mark.parametrize(
    ("word", "value", "scheme"),
    [
        ("poisson_sampling", "true", Poisson),
        ("shuffle", "true", Shuffle),
        ("with_replacement", "True", WithReplacement),
        ("replacement", "true", WithReplacement),
        ("poisson_sampling", "false", None),
        ("with_replacement", "false", None),
        ("shuffle", "false", None),
    ],
)
def test_loaders_that_are_switched_on(word, value, scheme):
    keys = followed("sampling", {word: value}, word)
    if scheme is None:
        assert keys == {}
    else:
        assert isinstance(config({}, keys["sampling.scheme"]).plan.phases[0].hierarchy.level(1).scheme, scheme)


OTHERS = (
    "sensitivity l2_sensitivity l1_sensitivity sigma sample_size poisson_sampling shuffle with_replacement replacement "
    "target_epsilon target_eps central_epsilon dp_epsilon num_microbatches microbatches used_microbatching "
    "num_micro_batches"
)
COVERED = {*OTHERS.split(), *(word for word in ABSOLUTE if "varian" not in word), *PARTS, *COHORT, *ROUNDS}


@pytest.mark.parametrize(("words", "says"), [(words, says) for _, words, _, says in SAID])
def test_no_other_word_leads_to_a_key_with_its_value(words, says):
    value = "7919"
    for word in words.split():
        for section in ("", "mechanism", "training", "sampling", "sampling.*", "data"):
            for more in ({}, {"batch_size": "100"}, {"scheme": "poisson"}, {"scheme": "fixed"}, {"max_grad_norm": "2"}):
                found = meaning(section, word, Beside({**more, word: value}))
                assert found.hint
                if (section, word) in {(s, w) for s, _, ws in RENAMED_IN for w in ws.split()}:
                    continue
                if word not in COVERED:
                    assert not found.is_rename
                    assert not stated_by(found)
                if word not in COVERED and word not in UNITS:
                    assert f": {value}" not in found.hint
    assert callable(says) or says[-1] not in ".:"


# Values.


# Spelling.

QUALIFIERS = (
    "min max local micro physical per num clipped virtual global total mean avg initial final target server client "
    "user noise public eval test inner outer sub mini macro batch step epoch unclipped expected effective first last "
    "base"
)


def test_no_spelling_hint_leads_to_another_quantity():
    for section in SECTIONS:
        for key in keys_in(section):
            for qualifier in QUALIFIERS.split():
                for word in (f"{qualifier}_{key}", f"{key}_{qualifier}", f"{qualifier}{key}"):
                    assert "did you mean" not in key_suggestion(section, word).hint
    for key in ("max_batch_size", "max_grad_norm", "max_participations"):
        for other in ("min", "mean", "num", "per", "mini", "micro", "total"):
            word = key.replace("max", other)
            assert not is_misspelling(word, key)
            assert "did you mean" not in key_suggestion("sampling", word).hint


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("noise_multiplyer", "noise_multiplier"),
        ("noisemultiplier", "noise_multiplier"),
        ("noiseMultiplier", "noise_multiplier"),
        ("bach_size", "batch_size"),
        ("epoch", "epochs"),
        ("stpes", "steps"),
        ("mechansim", "mechanism"),
        ("samplng", "sampling"),
        ("deltaa", "delta"),
        ("poison", "poisson"),
        ("plq", "pld"),
    ],
)
def test_typing_errors_are_seen(word, ours):
    assert is_misspelling(word, ours)


@pytest.mark.parametrize(
    ("word", "ours"),
    [("epsilon0", "epsilon"), ("lrate", "rate"), ("noise_schedule", "noise_multiplier"), ("trainer", "training")],
)
def test_other_words_are_no_typing_errors(word, ours):
    assert not is_misspelling(word, ours)


# In a file.


def words_page():
    """The page `docs/words.md`, written from the tables."""

    def listed(words):
        return ", ".join(f"`{word}`" for word in words.split())

    said = [(library, words, meaning("", words.split()[0])) for library, words, _, _ in SAID]
    lines = [
        "# Words of other libraries",
        "",
        "What a word of another library means in a config.",
        "",
        "The same hints follow an unknown key, an unknown option, an unknown argument of `plan`, and a value that",
        "dpcalc calls otherwise. Only words of the first table are renamed: their values may be copied.",
        "",
        "## Renamed",
        "",
        "| library | word | in dpcalc |",
        "|---|---|---|",
        *(f"| {library} | {listed(words)} | `{key}` |" for key, library, words in RENAMED),
        *(f"| in `{section or 'flags'}` | {listed(words)} | `{key}` |" for section, key, words in RENAMED_IN),
        "",
        "## Said otherwise, or not covered",
        "",
        "Where the numbers stand beside the word, the hint has the result.",
        "",
        "| library | word | in dpcalc |",
        "|---|---|---|",
        *(f"| {library} | {listed(words)} | {found.hint if found else ''} |" for library, words, found in said),
        "",
        "## Values",
        "",
        "| key | library | value | in dpcalc |",
        "|---|---|---|---|",
        *(f"| `{key}` | {library} | {listed(words)} | `{ours}` |" for key, ours, library, words in VALUES),
        *(f"| `{key}` | {library} | {listed(words)} | {text} |" for key, library, words, text in VALUES_SAID),
    ]
    return "\n".join(lines) + "\n"


def test_the_page_is_written_from_the_table(same_as_file):
    same_as_file(words_page(), ROOT / "docs" / "words.md")


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        # the probability of an answer is no rate
        *(
            ({"mechanism": f"{{type: randomized-response, {word}: 0.25}}"}, "", "calls this")
            for word in ("q", "probability")
        ),
        # of Laplace noise the deviation is sqrt(2) times the scale: taken for it, epsilon is too low by that
        *(
            ({"mechanism": f"{{type: {kind}{keys}}}"}, "scale", "standard deviation divided")
            for kind in ("laplace", "discrete-laplace")
            for keys in ("", ", sensitivity: 1")
        ),
        # a loader that may be a shuffle is called by no scheme
        *(
            ({"sampling": f"{{scheme: {word}}}"}, "shuffle", "dpcalc calls this")
            for word in ("without-replacement", "wor", "fixed-size", "DistributedSampler")
        ),
        *(
            ({"sampling": f"{{scheme: {word}}}"}, "", each)
            for word in ("uniform", "random", "cyclic", "WeightedRandomSampler", "SequentialSampler", "stratified")
            for each in ("dpcalc calls this", "did you mean")
        ),
    ],
)
def test_no_hint_leads_to_another_quantity(changes, said, unsaid):
    found_hints = " ".join(
        found.hint for found in errors(flat({"training": "{batch_size: 100, steps: 10}", **changes}))
    )
    assert found_hints
    assert said in found_hints
    assert unsaid not in found_hints


@pytest.mark.parametrize("word", ["train_samples", "training_samples", "num_train_samples"])
def test_the_samples_of_a_training_may_be_those_of_all_passes(word):
    found = meaning("", word, Beside({word: "3600000"}))
    assert not found.is_rename
    assert not stated_by(found)
