"""The table of foreign words: following a hint gives the run that the word's own library means.

The runs are evaluated here by an accountant of this file's own, which shares no code with the package.
"""

import inspect
import math
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import dpcalc
from dpcalc.config.load import load_text
from dpcalc.config.messages import (
    RENAMED,
    RENAMED_IN,
    SAID,
    VALUES,
    VALUES_SAID,
    Beside,
    is_misspelling,
    key_suggestion,
    meaning,
    plain_word,
    value_meaning,
)
from dpcalc.config.schema import SCHEMES, SECTIONS, keys_in
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.words import assumptions
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
    "sampling.times": lambda run: run.plan.phases[0].hierarchy.allocation.times == 5,
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
DEVIATIONS = [word for word in ABSOLUTE if "var" not in word and word not in EITHER]


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


@pytest.mark.parametrize(
    ("word", "beside", "says"),
    [
        ("noise_variance", {"max_grad_norm": "2"}, "root of the variance"),
        ("noise_var", {"max_grad_norm": "2"}, "root of the variance"),
        # the sum moves by the clip norm, whatever sensitivity the noise was sized by: 4 / 4 and not 4 / 1
        ("stddev", {"max_grad_norm": "4", "sensitivity": "1"}, "/ clip norm"),
        ("stddev", {"max_grad_norm": "4", "l2_norm_clip": "1"}, "/ clip norm"),
        ("sensitivity", {"max_grad_norm": "1", "stddev": "2"}, "/ clip norm"),
        ("sigma", {"max_grad_norm": "4", "sensitivity": "1"}, "where it is relative"),
        # noise .04 on a mean of 100 vectors is noise 4 on their sum
        ("noise_on_mean", {"max_grad_norm": "1", "batch_size": "100"}, "x what the sum is divided by"),
        # of each of k clients: noise sqrt(k) times as large on the sum
        ("local_noise_stddev", {"max_grad_norm": "1"}, "parties: {count: k"),
        # Gaussian noise 1 is far less than Laplace noise of scale 1
        ("laplace_scale", {"max_grad_norm": "4"}, "type: laplace"),
        *(
            (word, {"type": kind, "max_grad_norm": "2"}, says)
            for word in ("stddev", "sigma")
            for kind, says in (
                ("laplace", "deviation / sqrt(2)"),
                ("discrete-laplace", "scale / sensitivity"),
                ("matrix-factorization", "largest column norm"),
            )
        ),
    ],
)
def test_noise_that_is_not_that_of_a_sum_over_one_clip_norm_is_not_converted_silently(word, beside, says):
    for found in (meaning("mechanism", word, Beside({word: "4", **beside})), meaning("mechanism", word)):
        assert (stated_by(found), found.is_rename) == ({}, False)
        assert "noise_multiplier: " not in found.hint
    assert says in meaning("mechanism", word, Beside({word: "4", **beside})).hint


def test_sigma_with_a_clip_norm_has_two_readings():
    found = meaning("mechanism", "sigma", Beside({"sigma": "4", "l2_norm_clip": "4"}))
    assert (stated_by(found), found.is_rename) == ({}, False)
    assert "`noise_multiplier: 4`" in found.hint
    assert "`noise_multiplier: 1`" in found.hint
    # The clip norm may stand in another section, or in code.
    assert (stated_by(meaning("mechanism", "sigma", Beside({"sigma": "4"}))), found.is_rename) == ({}, False)
    for clip in ("max_grad_norm", "l2_norm_clip", "sensitivity"):
        assert followed("mechanism", {"sigma": "4", clip: "1.0"}, "sigma") == {"mechanism.noise_multiplier": "4"}


def test_parts_of_a_batch_are_stated_as_parts():
    # Of Poisson batches their sum is no draw of their product, and a launcher may state another factor: a hint that
    # names the product leads to a cheaper run. As parts, dpcalc asks for what is open.
    for part, accumulation in product([word for word in PARTS if word not in ACCUMULATION], ACCUMULATION):
        beside = {part: "64", accumulation: "4"}
        for word in beside:
            found = meaning("training", word, Beside(beside))
            assert not stated_by(found)
            assert "batch_size: {per_device: 64, devices: ..., accumulation: 4, accumulates: ...}" in found.hint
            assert "256" not in found.hint
    assert "per_device: 64, devices: 2, " in meaning("", part, Beside({**beside, "world_size": "2"})).hint


def test_a_sum_of_poisson_batches_is_no_poisson_batch():
    parts = "{per_device: 25, devices: 1, accumulation: 4, accumulates: KIND}"
    text = "\n".join(f"{name}: {value}" for name, value in FLAT.items() if name != "training").replace(
        ", rate: 0.1", ""
    )
    said = f"version: 1\n{text}\ntraining: {{batch_size: {parts}, steps: 20}}\n"
    asked = errors(said.replace(", accumulates: KIND", ""))
    assert ["accumulates" in error.message for error in asked] == [True]
    # An example is in the sum up to 4 times: that moves it by a number that is Binomial(4, .025).
    weights = [math.comb(4, k) * 0.025**k * 0.975 ** (4 - k) for k in range(5)]
    draws, physical = (
        guarantee(load_text(said.replace("KIND", kind), path="run.yaml").plan).epsilon for kind in ("draws", "physical")
    )
    assert physical == pytest.approx(poisson_epsilon(0.1, 4, 20, 1e-5), **SAME)
    # One output alone, by quadrature, costs more than the rate of the product does.
    x = np.linspace(-60, 64, 200_001)
    p = sum(weight * norm.pdf(x, k, 4) for k, weight in enumerate(weights))
    q = norm.pdf(x, 0, 4)
    at = poisson_epsilon(0.1, 4, 1, 1e-5)
    assert np.sum(np.maximum(p - math.exp(at) * q, 0)) * (x[1] - x[0]) > 1e-5
    assert draws > physical


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
    for word in ROUNDS:  # a client that trains with noise adds it in every local step
        assert followed("", {word: "700", "clients_per_round": "10"}, word) == {"training.steps": "700"}
        assert (followed("", {word: "700"}, word), meaning("", word).is_rename) == ({}, False)
    for word in renamed_to("training.steps"):  # of each iteration, five noisy updates of a critic
        found = meaning("", word, Beside({word: "700", "n_critic": "5"}))
        assert (stated_by(found), found.is_rename) == ({}, False)
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


def test_a_cycle_of_jax_privacy():
    """Groups of a cyclic Poisson draw; bins that units keep, which cost more than bins of a new choice in each pass."""
    found = {
        scheme: meaning("sampling", "cycle_length", Beside({"scheme": scheme, "cycle_length": "7"}))
        for scheme in ("", "cyclic-poisson", "balls-in-bins")
    }
    assert [each.is_rename for each in found.values()] == [False, True, False]
    assert stated_by(found["cyclic-poisson"]) == {"sampling.groups": "7"}
    assert "`bins: 7` with `assignment: held`" in found["balls-in-bins"].hint
    assert "groups" not in found["balls-in-bins"].hint
    sampling = {"sampling": "{scheme: balls-in-bins, bins: 7, assignment: WORD}", "training": "{steps: 21}"}
    text = "version: 1\n" + "".join(f"{name}: {value}\n" for name, value in {**FLAT, **sampling}.items())
    held, fresh = (guarantee(load_text(text.replace("WORD", word), path="r.yaml").plan) for word in ("held", "fresh"))
    assert held.epsilon > fresh.epsilon


OTHERS = (
    "sensitivity l2_sensitivity l1_sensitivity sigma sample_size poisson_sampling shuffle with_replacement replacement "
    "target_epsilon target_eps central_epsilon dp_epsilon num_microbatches microbatches used_microbatching "
    "num_micro_batches cycle_length clipping clipping_mode clipping_fn clipping_style clipping_method"
)
COVERED = {*OTHERS.split(), *(word for word in ABSOLUTE if "var" not in word), *PARTS, *COHORT, *ROUNDS}


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


@pytest.mark.parametrize(
    "said",
    [
        *(
            value_meaning("scheme", word)
            for word in ("sequential", "SequentialSampler", "no-shuffle", "DistributedSampler")
        ),
        *(meaning("sampling", word).hint for word in ("shuffle_buffer", "buffer_size")),
        meaning("sampling", "shuffle", Beside({"shuffle": "false"})).hint,
    ],
)
def test_data_in_an_order_of_their_own_are_no_shuffle_under_add_remove(said):
    assert "shuffle`" in said
    assert "zero-out or replace-one" in said


def test_one_example_fewer_moves_all_others_to_other_batches():
    # 1,000 examples in batches of 100, in the order of the data: without the first one, each batch lacks a vector of
    # its own and has another one instead. Noise 4 for two clip norms in each of 10 batches, 9 of which are whole.
    with_all = [set(range(start, start + 100)) for start in range(0, 1000, 100)]
    without = [set(range(start, min(start + 100, 1000))) for start in range(1, 1000, 100)]
    moved = [len(a ^ b) for a, b in zip(with_all, without, strict=True)]
    assert moved == [2] * 9 + [1]
    truth = gaussian_epsilon(math.sqrt(sum(each**2 for each in moved)) / 4, 1e-5)
    text = "\n".join(f"{name}: {value}" for name, value in FLAT.items() if name != "training")
    text = text.replace("{scheme: poisson, rate: 0.1}", "{scheme: shuffle, size: 100}")
    run = load_text(f"version: 1\n{text}\ntraining: {{epochs: 1}}\n", path="run.yaml")
    assert truth > 2 * guarantee(run.plan).epsilon


def torch_order(count, seed):
    """`torch.randperm` on a CPU (ATen, `randperm_cpu`): each place takes one of those left, from one stream."""
    order, words = list(range(count)), np.random.RandomState(seed)
    for place in range(count - 1):
        other = place + int(words.randint(2**32, dtype=np.uint64)) % (count - place)
        order[place], order[other] = order[other], order[place]
    return order


def test_an_order_of_a_known_seed_is_another_one_with_one_example_fewer():
    # Most of each batch changes: by no two clip norms in a pass, as where all orders are equally likely.
    for start in range(0, 900, 100):
        batches = [set(torch_order(count, seed=42)[start : start + 100]) for count in (1000, 999)]
        assert len(batches[0] ^ batches[1]) > 150
    run = load_text(
        "version: 1\ndata: {examples: 1000}\nsampling: {scheme: shuffle, size: 100}\nmechanism: {noise_multiplier: 4}\n"
        "training: {epochs: 1}\nprivacy: {adjacency: add-remove, delta: 1e-5}\n",
        path="run.yaml",
    )
    assert any("all are equally likely" in line for line in assumptions(run.plan))


def test_a_loader_with_arguments_is_no_scheme():
    # RandomSampler(replacement=True) and FixedBatchSampling(replace=True) draw with replacement, CyclicPoissonSampling
    # splits the data into equal groups by default, which one example fewer moves.
    for word in ("RandomSampler", "FixedBatchSampling", "CyclicPoissonSampling", "BallsInBinsSampling"):
        assert value_meaning("scheme", word).startswith("`scheme: loader")
    assert "random_with_replacement" in value_meaning("scheme", "UniformlyRandomActiveUserSelector")


def test_truncated_zcdp_is_no_zcdp():
    # It is promised at orders below omega alone. Of (rho, omega) = (.1, 2.5) no order above 2.5 counts.
    assert "omega" in value_meaning("type", "tcdp")
    text = "version: 1\n" + "\n".join(f"{name}: {value}" for name, value in FLAT.items() if name != "sampling")
    text = text.replace("steps: 20", "steps: 1").replace("{noise_multiplier: 4}", "{type: zcdp, rho: 0.1}")
    plain, truncated = (
        guarantee(load_text(f"{text}\nsampling: {{scheme: all}}\n", path="run.yaml", assignments=each).plan).epsilon
        for each in ((), ("mechanism.omega=2.5",))
    )
    assert truncated > 2 * plain


def test_the_count_of_adaptive_clipping_in_opacus_is_not_inside_its_noise_multiplier():
    # Opacus 1.6.0: noise (z^-2 - (2 s)^-2)^-1/2 on the gradients, and noise s on a count of whole examples, which one
    # example moves by 1, not 1/2. Together they cost more than noise z, even before the count is divided by the batch.
    z, s = 1.0, 1.0
    gradients = z**-2 - (2 * s) ** -2
    assert gaussian_epsilon(math.sqrt(gradients + s**-2), 1e-5) > 1.3 * gaussian_epsilon(1 / z, 1e-5)
    assert gaussian_epsilon(math.sqrt(gradients + (2 * s) ** -2), 1e-5) == pytest.approx(gaussian_epsilon(1 / z, 1e-5))
    assert meaning("mechanism", "unclipped_num_std").hint.startswith("not covered")
    for said in (meaning("mechanism", "adaptive_clipping").hint, value_meaning("clip", "adaptive")):
        assert re.search(r"Opacus.* not covered|Not covered: Opacus", said)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        *(
            (key, value, "not covered: without clipping")
            for key in ("clip", "clipping")
            for value in ("none", "false", "off")
        ),
        *((key, "1.5", "the clip norm is `max_grad_norm: 1.5`") for key in ("clip", "clipping")),
        *((key, "per_layer", "sqrt(L)") for key in ("clip", "clipping_mode")),
        *((key, "flat", "leave `clip` out") for key in ("clip", "clipping")),
        ("clip", "microbatch", "`clip: batch`"),
        ("clipping_fn", "automatic", "leave `clip` out"),
    ],
)
def test_what_is_clipped_in_the_words_of_others(key, value, says):
    found = errors(flat({"mechanism": f"{{noise_multiplier: 1, {key}: '{value}'}}"}))
    assert says in " ".join(error.hint for error in found)


def test_a_part_of_a_data_set_or_of_a_task_is_no_batch():
    # 4 tasks are no 4 examples; TF-Federated cuts a client's data to so many, and clips its whole update.
    for word in (
        *("meta_batch_size", "tasks_per_batch", "max_elements_per_user", "max_examples_per_user", "support", "query"),
        *("separation", "expected_batch_size"),
    ):
        found = meaning("", word, Beside({word: "4"}))
        assert (stated_by(found), found.is_rename) == ({}, False)
    assert meaning("sampling.episodes", "meta_batch_size").about == "sampling.episodes.tasks"
    assert not meaning("sampling.episodes", "num_tasks", Beside({"num_tasks": "20000"})).is_rename


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
    # Arguments of `plan` as well.
    for argument, qualifier in product(inspect.signature(dpcalc.plan).parameters, QUALIFIERS.split()):
        with pytest.raises(TypeError) as caught:
            dpcalc.plan(**{f"{qualifier}_{argument}": 1})
        assert "did you mean" not in str(caught.value)
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
