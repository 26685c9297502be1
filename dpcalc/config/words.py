"""Words of other libraries and of papers: what each means in a dpcalc config.

A word is *renamed* only where key and value may be copied unchanged and mean the same run. Every other word is *said*:
the sentence has the conversion, with the numbers that stand beside the word, or says that no bound covers it and what
to do instead. Words that mean nothing to the accounting are said too. `docs/words.md` is written from these tables.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cache
from math import floor, isqrt, prod

from dpcalc.config.scalars import decimal_text, parse_number
from dpcalc.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a foreign word means.

    Attributes:
        hint: a sentence for the user.
        about: our dotted key that the word is about, "" if it is about none. It explains that this key is missing.
        keys: our dotted keys with the values, as YAML, that say the same; {} if nothing can be said from what stands
            beside the word.
        is_rename: whether it is one key of ours with the same value.
    """

    hint: str
    about: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    is_rename: bool = False


class Beside:
    """The scalars of the mapping that a word stands in, as texts by word."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Keep the texts; words are written small, with underscores."""
        self.texts = {plain_word(word): text for word, text in texts.items()}

    def number(self, *words: str) -> Fraction | None:
        """Return the number > 0 of the first of the words that has one; None if none has."""
        numbers = (parse_number(self.texts[word].strip()) for word in words if word in self.texts)
        return next((number for number in numbers if number is not None and number > 0), None)

    def has(self, words: str) -> bool:
        """Return True if one of the words, separated by spaces, stands here."""
        return not self.texts.keys().isdisjoint(words.split())


NOTHING = Beside({})
Says = Callable[[str, Beside], Meaning]


def plain_word(word: str) -> str:
    """Return a word in small letters with underscores: `maxGradNorm` and `max-grad-norm` as `max_grad_norm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().replace("-", "_").strip("_")


# Words that are renamed: (our key, library, words). The value may be copied.

RENAMED: tuple[tuple[str, str, str], ...] = (
    ("mechanism.max_grad_norm", "TF-Privacy", "l2_norm_clip l2_norm_bound"),
    ("mechanism.max_grad_norm", "JAX-Privacy, Flower", "clipping_norm clip_norm l2_clip_norm"),
    ("mechanism.max_grad_norm", "FLSim", "clipping_value"),
    ("mechanism.max_grad_norm", "pfl-research", "central_privacy_clipping_bound clipping_bound"),
    ("mechanism.max_grad_norm", "papers", "clipping_threshold clip_bound max_norm grad_norm dp_l2_norm_clip"),
    ("mechanism.noise_multiplier", "papers", "noise_mult dp_noise_multiplier z"),
    ("mechanism.clip", "papers", "clip_level clip_per"),
    ("mechanism.categories", "papers", "num_buckets num_categories"),
    ("mechanism.min_separation", "JAX-Privacy", "min_sep separation minimum_separation"),
    ("mechanism.max_participations", "JAX-Privacy", "max_participation num_participations epochs_per_user"),
    ("mechanism.threshold_noise_multiplier", "PATE", "threshold_sigma sigma1 check_sigma"),
    ("mechanism.type", "papers", "mechanism_type kind"),
    ("sampling.rate", "Opacus", "sample_rate"),
    ("sampling.rate", "dp_accounting, JAX-Privacy", "sampling_prob sampling_probability"),
    ("sampling.rate", "papers", "sampling_rate subsampling_rate participation_probability"),
    ("sampling.expected", "papers", "expected_batch_size expected_size"),
    ("sampling.scheme", "papers", "sampler sampling_method method_of_sampling"),
    ("sampling.max_batch_size", "JAX-Privacy", "truncated_batch_size"),
    ("sampling.max_batch_size", "papers", "batch_size_cap max_cohort_size"),
    ("sampling.groups", "JAX-Privacy", "cycle_length"),
    ("sampling.groups", "papers", "num_groups"),
    ("sampling.max_group_size", "JAX-Privacy", "largest_group_size"),
    ("sampling.redraw_every", "papers", "hold hold_for held_for redraw_interval resample_every"),
    ("sampling.episodes", "papers", "constructed_tasks task_construction"),
    ("sampling.episodes.ways", "learn2learn, torchmeta", "way n_way n_ways num_ways nway"),
    ("sampling.episodes.shots", "learn2learn, torchmeta", "shot k_shot k_shots num_shots kshot k_spt support"),
    ("sampling.episodes.queries", "learn2learn, torchmeta", "query k_query k_qry num_queries test_shots"),
    ("sampling.episodes.tasks", "MAML", "tasks_per_step task_num"),
    ("training.batch_size", "JAX-Privacy, Abadi et al.", "logical_batch_size lot_size"),
    ("training.batch_size", "MAML", "meta_batch_size tasks_per_batch"),
    (
        "training.epochs",
        "Hugging Face, Lightning, Keras",
        "num_train_epochs max_epochs num_epochs n_epochs train_epochs",
    ),
    ("training.steps", "Hugging Face, Lightning", "max_steps max_train_steps num_training_steps"),
    ("training.steps", "JAX-Privacy, Keras", "train_steps num_steps num_updates"),
    ("training.steps", "pfl-research", "central_num_iterations"),
    ("training.steps", "papers", "iterations num_iterations total_steps n_steps nsteps step_count compositions"),
    ("data.examples", "TF-Privacy, Keras", "number_of_examples num_examples train_dataset_size"),
    (
        "data.examples",
        "Hugging Face, papers",
        "num_train num_train_examples n_train",
    ),
    ("sampling.drop_last", "tf.data", "drop_remainder"),
    ("data.examples", "papers", "train_size dataset_size num_records records source_dataset_size data_size"),
    ("data.levels", "papers", "hierarchy nesting"),
    ("data.levels[].count", "papers", "examples_per_user"),
    ("privacy.delta", "Opacus, TF-Privacy", "target_delta dp_delta"),
    ("privacy.delta", "pfl-research", "central_delta"),
    ("privacy.adjacency", "dp_accounting", "neighboring_relation neighbouring_relation adjacency_relation"),
    ("privacy.adjacency", "papers", "neighbors neighbours neighboring neighbouring relation"),
    ("privacy.unit", "papers", "privacy_unit protect protects unit_of_privacy"),
    ("privacy.group_size", "TF-Privacy", "max_examples_per_user max_elements_per_user"),
    ("accounting.method", "Opacus", "accountant"),
    ("tuning", "papers", "hyperparameter_tuning private_selection repeat_and_select"),
    ("tuning.mean", "papers", "mean_runs"),
    ("budget.epsilon", "papers", "epsilon_budget privacy_budget eps"),
)
# Words that mean this in one kind of section only, where they win over the general ones: (section, key there, words).
RENAMED_IN: tuple[tuple[str, str, str], ...] = (
    ("", "data.examples", "n"),
    ("", "sampling.rate", "q"),
    ("data", "data.examples", "size count number n total"),
    ("data.levels[]", "data.levels[].count", "size number n examples units"),
    ("sampling", "sampling.scheme", "type method"),
    ("sampling", "sampling.size", "count number"),
    ("sampling", "sampling.rate", "q probability"),
    ("sampling.*", "sampling.scheme", "type method"),
    ("sampling.*", "sampling.size", "count number"),
    ("sampling.*", "sampling.rate", "q probability"),
    ("sampling.episodes", "sampling.episodes.tasks", "meta_batch_size tasks_per_batch number num_tasks"),
    ("training", "training.batch_size", "size"),
    ("mechanism", "mechanism.type", "distribution"),
    ("mechanism", "mechanism.epsilon", "eps"),
)

# Words whose value has to change, or that no key of ours stands for. A function of (the word, what stands beside it).

_CLIP_NORMS = ("max_grad_norm", *(word for key, _, words in RENAMED if key.endswith("norm") for word in words.split()))
_PHYSICAL = "max_physical_batch_size physical_batch_size virtual_batch_size"
_PER_DEVICE = (
    "per_device_train_batch_size per_gpu_train_batch_size per_device_batch_size batch_size_per_gpu "
    "batch_size_per_device batch_size_per_gpu_train device_batch_size device_train_batch_size per_gpu_batch_size "
    "train_micro_batch_size_per_gpu micro_batch_size mini_batch_size minibatch_size per_core_batch_size "
    "batch_size_per_replica batch_per_gpu batch_size_per_worker"
)
_ACCUMULATION = (
    "gradient_accumulation_steps accumulation_steps accumulate_grad_batches gradient_accumulation accumulation "
    "accum_steps grad_accum_steps grad_accumulation grad_accumulation_steps n_accumulation_steps accumulation_iter "
    "accum_iter acc_steps n_acc_steps num_accumulation_steps accumulate_steps virtual_steps virtual_step update_freq "
    "virtual_batch_rate"
)
_DEVICES = (
    "world_size num_devices n_devices devices num_gpus n_gpus n_gpu gpus num_processes nproc_per_node num_replicas "
    "num_ranks ranks n_gpus_per_node num_nodes nnodes n_nodes data_parallel_size"
)
_COHORT = (
    "clients_per_round users_per_round cohort_size num_sampled_clients num_clients_per_round client_num_per_round "
    "num_participants participants_per_round devices_per_round clients_per_step num_selected_clients selected_clients "
    "sampled_clients users_per_batch clients_per_iteration num_users_per_round n_clients_per_round per_round "
    "client_per_round"
)
_FRACTION = (
    "fraction_fit fraction_train client_fraction fraction_clients sample_fraction client_sample_ratio "
    "client_sampling_rate client_sample_rate participation_rate participation_fraction fraction_of_clients fraction "
    "clients_fraction sampling_fraction batch_fraction frac sample_ratio sampling_ratio subsampling_ratio join_ratio"
)
_UNIT_COUNT = (
    "num_clients num_users population population_size total_clients total_users client_num_in_total n_clients n_users "
    "num_total_clients num_available_clients users clients num_supernodes num_parties number_of_clients"
)
_LOCAL = (
    "local_epochs local_steps local_num_epochs num_local_epochs num_local_steps local_iterations local_ep "
    "client_epochs client_steps epochs_per_round epochs_per_client local_updates local_iters"
)
_ROUNDS = "rounds total_rounds num_rounds comm_round communication_rounds num_server_rounds global_rounds server_rounds"


def _quotient(over: Fraction, under: Fraction) -> str:
    """Return a noise multiplier as a decimal, rounded down where it is none."""
    number = over / under
    return decimal_text(number) or decimal_text(Fraction(floor(number * 10**9), 10**9)) or "0"


def _text(number: Fraction) -> str:
    return decimal_text(number) or f"{float(number):.6g}"


def _absolute_noise(word: str, beside: Beside) -> Meaning:
    """The deviation itself, not over the clip norm; a variance is the square of it."""
    about, kind = "mechanism.noise_multiplier", beside.texts.get("type", "gaussian")
    if kind.startswith("pate-"):
        return Meaning(hint="dpcalc calls this `noise_multiplier`: under PATE it is in votes", about=about)
    if kind not in {"gaussian", "discrete-gaussian"} or "varian" in word:
        what = {
            "laplace": "scale / sensitivity, the scale being deviation / sqrt(2)",
            "discrete-laplace": "scale / sensitivity",
            "exponential": "no key of it: `epsilon` is 2 x sensitivity / scale of the Gumbel noise",
            "pure-dp": "no key of it: `epsilon` is sensitivity / scale of Laplace noise",
            "matrix-factorization": "deviation of Z / (clip norm x largest column norm of the strategy)",
        }
        hint = f"`noise_multiplier` is {what.get(kind, 'the deviation (root of the variance) / clip norm')}"
        return Meaning(hint=hint, about=about)
    noise, clip = beside.number(word), beside.number("sensitivity", *_CLIP_NORMS)
    rule = "`noise_multiplier` is the deviation of the noise on the sum / clip norm (of noise on a mean, times what it "
    rule += "is divided by)"
    if noise is None or clip is None:
        return Meaning(hint=rule, about=about)
    value = _quotient(noise, clip)
    if word in _EITHER.split() and clip != 1:
        hint = f"with noise of deviation {word} `noise_multiplier: {value}`; with noise of deviation {word} x clip "
        return Meaning(hint=f"{hint}norm `noise_multiplier: {_text(noise)}`", about=about)
    said = f"{word} {_text(noise)} at clip norm {_text(clip)}: `noise_multiplier: {value}`"
    return Meaning(hint=f"{said}; {rule}", about=about, keys={about: value})


def _sigma(word: str, beside: Beside) -> Meaning:
    """Relative to the clip norm in Abadi et al. and most code, the deviation itself in other code."""
    about, kind = "mechanism.noise_multiplier", beside.texts.get("type", "gaussian")
    value, clip = beside.texts.get(word, ""), beside.number("sensitivity", *_CLIP_NORMS)
    noise = beside.number(word)
    rename = "dpcalc calls this `mechanism.noise_multiplier`"
    if kind.startswith("pate-"):
        return Meaning(hint=f"{rename}: in votes", about=about, keys={about: value}, is_rename=True)
    if noise is None or clip in (None, 1):
        hint = f"{rename}, if it is relative to the clip norm; a deviation of its own is divided by it"
        return Meaning(hint=hint, about=about, keys={about: value} if value else {}, is_rename=True)
    hint = f"with noise of deviation {word} x clip norm `noise_multiplier: {_text(noise)}`; with noise of deviation "
    return Meaning(hint=f"{hint}{word} `noise_multiplier: {_quotient(noise, clip or Fraction(1))}`", about=about)


def _sensitivity(word: str, beside: Beside) -> Meaning:
    if beside.texts.get("type", "gaussian") not in {"gaussian", "discrete-gaussian"}:
        return _absolute_noise(word, beside)
    noise_word = next((each for each in _ABSOLUTE.split() if each in beside.texts), "")
    if noise_word:
        return _absolute_noise(noise_word, beside)
    hint = "noise is stated relative to the sensitivity of the sum, which is the clip norm: `noise_multiplier` is "
    return Meaning(hint=f"{hint}deviation / {word}", about="mechanism.max_grad_norm")


def _parts_of_a_batch(word: str, beside: Beside) -> Meaning:
    """A part of a batch, or the number of its parts."""
    about = "training.batch_size"
    whole = (
        "`batch_size` is all that goes into one noisy update, what a device holds at a time x accumulation x devices"
    )
    part = beside.number(*f"{_PER_DEVICE} {_PHYSICAL}".split())
    cuts = [beside.number(*words.split()) for words in (_ACCUMULATION, _DEVICES)]
    if beside.has(_PHYSICAL) and word in _PHYSICAL.split() and cuts == [None, None]:
        hint = f"{word} only says what fits into memory: leave it out; {whole}"
        return Meaning(hint=hint, about=about)
    drawn = (
        "Where each part is a Poisson draw of its own (Opacus' loader), their sum is no such draw: state each example "
        "as so many copies, see `gradient accumulation` in docs/configs.md"
    )
    known = [number for number in (part, *cuts) if number is not None]
    if part is None or len(known) < 2:
        return Meaning(hint=f"{whole}. {drawn}", about=about)
    # What is not stated here may stand on the command line of the launcher, so the product is no statement.
    product = " x ".join(map(_text, known))
    if cuts[0] is None:
        return Meaning(hint=f"{product} x accumulation: {whole}. {drawn}", about=about)
    value = _text(prod(known, start=Fraction(1)))
    said = f"`batch_size: {value}` ({product}{', times the devices if there are several' if cuts[1] is None else ''})"
    return Meaning(hint=f"{said}: {whole}. {drawn}", about=about, keys={about: value})


def _cohort(word: str, beside: Beside) -> Meaning:
    value, scheme = beside.texts.get(word, "N"), beside.texts.get("scheme", "")
    fixed = f"`scheme: fixed, size: {value}` if the server draws that many"
    coins = f"`scheme: poisson, expected: {value}` only if every client flips its own coin"
    if scheme == "fixed":
        return Meaning(
            hint=f"dpcalc calls this `size`: {word} units are drawn",
            about="sampling.size",
            keys={"sampling.size": value} if word in beside.texts else {},
        )
    return Meaning(hint=f"{fixed}; {coins}", about="sampling.size")


def _fraction(word: str, beside: Beside) -> Meaning:
    value = beside.texts.get(word, "fraction")
    hint = (
        f"a fixed number of clients: `scheme: fixed` with {value} x their number as `size`; `scheme: poisson` with a "
    )
    return Meaning(hint=f"{hint}`rate` only if every client flips its own coin", about="sampling.size")


def _unit_count(word: str, beside: Beside) -> Meaning:
    count = beside.texts.get(word, "N")
    hint = f"the count of a level: `data: {{levels: [{{name: user, count: {count}}}, {{name: example, count: ...}}]}}`"
    return Meaning(hint=hint, about="data.levels")


def _rounds(word: str, beside: Beside) -> Meaning:
    value = beside.texts.get(word, "")
    if beside.has(_LOCAL):
        hint = "`steps` where the server adds noise once a round; where each client trains with noise, rounds x its own"
        return Meaning(hint=f"{hint} steps", about="training.steps")
    return Meaning(
        hint="dpcalc calls this `training.steps`",
        about="training.steps",
        keys={"training.steps": value} if value else {},
        is_rename=True,
    )


def _sample_size(word: str, beside: Beside) -> Meaning:
    value = beside.texts.get(word, "")
    hint = "Opacus 0.x, private-transformers and fastDP call the number of examples so: `data.examples`"
    if value and "batch_size" in beside.texts:
        return Meaning(hint=hint, about="data.examples", keys={"data.examples": value})
    return Meaning(hint=f"{hint}; what a step draws is `batch_size`", about="data.examples")


def _microbatches(word: str, beside: Beside) -> Meaning:
    number, batch = beside.number(word), beside.number("batch_size")
    value = beside.texts.get(word, "").strip().lower()
    if value in {"false", "none", "null"} or (number is not None and number == batch):
        return Meaning(hint="microbatches of one example are the default: leave it out")
    rule = "TF-Privacy clips the mean of a microbatch, which moves by up to 2 clip norms: `mechanism.clip: batch`, and "
    rule += "nothing where a microbatch is one example; where microbatches only save memory (JAX-Privacy) leave it out"
    is_clipped = value == "true" or (number is not None and batch is not None and number < batch)
    return Meaning(hint=rule, about="mechanism.clip", keys={"mechanism.clip": "batch"} if is_clipped else {})


def _layer_norms(word: str, _: Beside) -> Meaning:
    hint = "clip norms C_l of layers: `max_grad_norm` is the root of the sum of their squares. With noise of deviation "
    hint += "sigma x that norm (Opacus) `noise_multiplier: sigma`; with sigma x C_l on each of L layers it is sigma / "
    return Meaning(
        hint=f"{hint}sqrt(L)", about="mechanism.max_grad_norm" if word.endswith("norms") else "mechanism.clip"
    )


def _clipping(word: str, beside: Beside) -> Meaning:
    value = plain_word(beside.texts.get(word, ""))
    if value in {"per_layer", "per_parameter", "layer", "layerwise", "per_group", "group_wise"}:
        return _layer_norms(word, beside)
    if value in {"flat", "per_sample", "per_example", "global"}:
        return Meaning(hint="each example's whole gradient is clipped by default: leave it out", about="mechanism.clip")
    if value == "adaptive":
        return _adaptive(word, beside)
    if value in {"automatic", "auto", "auto_v", "auto_s", "psac", "abadi", "normalize", "normalised", "normalized"}:
        return Meaning(hint="vectors of norm at most `max_grad_norm` result: leave it out", about="mechanism.clip")
    hint = "`mechanism.clip` names the level whose vectors are clipped; leave it out where each example's is"
    return Meaning(hint=hint, about="mechanism.clip")


def _adaptive(word: str, beside: Beside) -> Meaning:
    number = beside.number(word)
    hint = "adaptive clipping releases a noisy count: TF-Federated, Opacus and Flower keep its noise inside "
    hint += "noise_multiplier (leave it out); where it comes on top, `also: {noise_multiplier: "
    twice = _text(2 * number) if number is not None and word.endswith(("stddev", "std")) else "2 x its deviation"
    return Meaning(hint=f"{hint}{twice}}}`", about="mechanism.also")


def _poisson_sampling(word: str, beside: Beside) -> Meaning:
    is_so = beside.texts.get(word, "").strip().lower() not in {"false", "no", "off", "0"}
    if word == "poisson_sampling" and is_so:
        return Meaning(hint="`scheme: poisson`", about="sampling.scheme", keys={"sampling.scheme": "poisson"})
    if word == "poisson_sampling" or (word == "shuffle" and is_so):
        why = "then the loader draws as it does without Opacus: " if word == "poisson_sampling" else ""
        hint = f"{why}`scheme: shuffle` if it goes through shuffled data, without amplification"
        return Meaning(hint=hint, about="sampling.scheme", keys={"sampling.scheme": "shuffle"} if not why else {})
    if word in {"with_replacement", "replacement"} and is_so:
        keys = {"sampling.scheme": "with-replacement"}
        return Meaning(hint="`scheme: with-replacement`", about="sampling.scheme", keys=keys)
    hint = "`scheme: fixed` if every step draws afresh; `shuffle` if the loader goes through all data"
    return Meaning(hint=hint, about="sampling.scheme")


def _target(word: str, beside: Beside) -> Meaning:
    value = beside.texts.get(word, "")
    hint = "dpcalc calls this `budget.epsilon`, which `check` tests; the noise is not calibrated to it silently: "
    hint += f"`dpcalc solve-sigma --target-eps {value or 'E'}` finds it"
    about = "budget.epsilon"
    return Meaning(hint=hint, about=about, keys={about: value} if value else {}, is_rename=True)


def _num_samples(_word: str, _: Beside) -> Meaning:
    hint = (
        "the number of examples is `data.examples`; what a sampler draws in an epoch (RandomSampler(num_samples=...)) "
    )
    return Meaning(hint=f"{hint}is none: state `training.steps`", about="data.examples")


def _inverse(_word: str, _: Beside) -> Meaning:
    hint = "noise is C^-1 Z: state C, not its inverse: `strategy: {toeplitz: [...]}` of C's coefficients, or "
    return Meaning(hint=f"{hint}`strategy: {{file: C.npy}}`", about="mechanism.strategy")


_ABSOLUTE = (
    "stddev noise_stddev std noise_std std_dev standard_deviation noise_scale noise noise_level "
    "noise_standard_deviation "
    "noise_std_dev scale noise_variance variance noise_parameter noise_sigma dp_noise_std gaussian_noise noise_amount "
    "noise_amplitude noise_on_mean mean_noise noise_stdev stdev laplace_scale local_noise_stddev sum_stddev "
    "absolute_noise noise_intensity noise_magnitude noise_scale_factor noise_factor"
)
# Of these, the words that code also uses for noise relative to the clip norm.
_EITHER = (
    "noise_scale noise noise_level scale noise_parameter noise_sigma gaussian_noise noise_amount noise_amplitude "
    "noise_intensity noise_magnitude noise_scale_factor noise_factor"
)
_SCHEDULES = "`phases:` with a value each, or `dpcalc.Accountant` in the training loop"
_NOT_POISSON = "not covered: such batches are no Poisson draw, and what a unit's chance is depends on the data"

# (library, words, our key that they are about or "", sentence or function of the word and what stands beside it)
SAID: tuple[tuple[str, str, str, str | Says], ...] = (
    ("TF-Privacy, diffprivlib, papers", _ABSOLUTE, "mechanism.noise_multiplier", _absolute_noise),
    ("Abadi et al., Opacus 0.x", "sigma", "mechanism.noise_multiplier", _sigma),
    ("FedML, diffprivlib", "sensitivity l2_sensitivity l1_sensitivity", "mechanism.max_grad_norm", _sensitivity),
    (
        "federated learning",
        (
            "noise_per_client local_noise local_noise_multiplier per_client_noise noise_multiplier_per_client "
            "client_noise "
            "noise_per_rank client_noise_multiplier distributed_noise local_sigma num_dropouts dropouts "
            "dropout_tolerance max_dropouts "
            "secure_aggregation secagg"
        ),
        "mechanism.noise_multiplier",
        (
            "where each of k parties adds noise of deviation s to its part, `noise_multiplier` is sqrt(k) s / "
            "clip norm, k "
            "the parties whose noise surely arrives and is not known to those whom the guarantee is about"
        ),
    ),
    (
        "Opacus, JAX-Privacy, papers",
        (
            "noise_schedule noise_scheduler noise_multiplier_schedule sigma_schedule noise_multipliers sigmas "
            "noise_decay "
            "noise_multiplier_scheduler scale_schedule noise_decay_rate noise_schedules dynamic_noise"
        ),
        "mechanism.noise_multiplier",
        f"noise that changes: {_SCHEDULES}",
    ),
    (
        "Opacus, JAX-Privacy",
        (
            "batch_size_schedule rate_schedule batch_size_scheduler sample_rate_schedule batch_schedule batch_sizes "
            "sample_rates rates"
        ),
        "sampling.rate",
        f"a draw that changes: {_SCHEDULES}",
    ),
    (
        "Opacus",
        "grad_clip_scheduler grad_clip_schedule clip_schedule max_grad_norm_schedule",
        "mechanism.max_grad_norm",
        "noise relative to the clip norm makes epsilon independent of it: leave it out",
    ),
    (
        "fastDP, Opacus",
        (
            "per_layer per_layer_clipping max_grad_norms clip_norms layer_clip_norms clipping_norms "
            "clipping_thresholds "
            "per_layer_clip layerwise_clipping l2_norm_clips"
        ),
        "mechanism.max_grad_norm",
        _layer_norms,
    ),
    (
        "Opacus, fastDP",
        "clipping clipping_mode clipping_fn clipping_style clipping_method",
        "mechanism.clip",
        _clipping,
    ),
    (
        "TF-Federated, Opacus, Flower",
        (
            "clipped_count_stddev unclipped_num_std clipped_count adaptive_clipping target_unclipped_quantile "
            "clipped_count_std clip_count_stddev initial_l2_norm_clip initial_clipping_norm"
        ),
        "mechanism.also",
        _adaptive,
    ),
    (
        "Keras, Lightning, PyTorch",
        "gradient_clip_val gradient_clip_value gradient_clipping grad_clip clip_grad_norm clipnorm global_clipnorm",
        "mechanism.max_grad_norm",
        (
            "`max_grad_norm` bounds the vector of each unit before they are summed; to clip the averaged "
            "gradient of a batch "
            "bounds no unit: `clip: batch` if it is all that is clipped"
        ),
    ),
    (
        "Keras, PyTorch",
        "clip_value clip_by_value value_clip clipvalue",
        "mechanism.max_grad_norm",
        "clipping of single coordinates bounds the norm by sqrt(dimension) times the value: that is `max_grad_norm`",
    ),
    (
        "Keras, tf.data",
        "steps_per_epoch num_batches num_batches_per_epoch batches_per_epoch epoch_size",
        "training.steps",
        "`steps` are all noisy updates: epochs x those of one epoch",
    ),
    (
        "tf.data",
        "shuffle_buffer shuffle_buffer_size buffer_size",
        "sampling.scheme",
        "a buffer shuffles in part; `scheme: shuffle` counts each unit once in each pass, whatever the order",
    ),
    (
        "FedML, diffprivlib",
        "epsilon_per_step eps_per_step epsilon_per_round eps_per_round delta_per_step delta_per_round step_epsilon",
        "mechanism.epsilon",
        (
            "a step of which only its guarantee is known is `mechanism: {type: approximate-dp, epsilon, delta}` or "
            "`pure-dp`"
        ),
    ),
    (
        "OpenDP, PipelineDP, SmartNoise",
        "contribution_bound max_contributions max_contribution max_partitions_contributed max_rows_per_user",
        "privacy.group_size",
        "whoever owns up to m records is protected by `privacy.group_size: m`, or as a level of units",
    ),
    ("papers", "second_mechanism", "mechanism.also", "a second sum on the same draw: `also: {noise_multiplier: ...}`"),
    (
        "papers",
        "no_clipping disable_clipping without_clipping unclipped",
        "mechanism.max_grad_norm",
        "not covered: without clipping no noise hides a unit, epsilon is infinite",
    ),
    (
        "Opacus, JAX-Privacy, Hugging Face, DeepSpeed",
        f"{_PHYSICAL} {_PER_DEVICE} {_ACCUMULATION}",
        "training.batch_size",
        _parts_of_a_batch,
    ),
    (
        "torch.distributed, accelerate",
        _DEVICES,
        "training.batch_size",
        (
            "ranks that add their sums and share one noise make one step: `batch_size` is that of all ranks "
            "together; where "
            "every rank adds its own noise, `noise_multiplier` is sqrt(ranks) times that of one"
        ),
    ),
    (
        "Megatron, DeepSpeed, Keras, Hugging Face",
        "train_batch_size global_batch_size effective_batch_size total_batch_size",
        "training.batch_size",
        "`batch_size` if one noisy update uses so many, on all devices and over all accumulated parts",
    ),
    (
        "Flower, FLSim",
        "local_batch_size client_batch_size",
        "",
        (
            "the batches of one client are not drawn by the server, and clipping its whole update bounds them "
            "all: leave it "
            "out; where a client adds noise to each of them, describe that client's run"
        ),
    ),
    (
        "TF-Privacy",
        "num_microbatches microbatches used_microbatching num_micro_batches",
        "mechanism.clip",
        _microbatches,
    ),
    (
        "JAX-Privacy",
        "microbatch_size micro_batch",
        "mechanism.clip",
        (
            "where microbatches only save memory leave it out; where the mean of one is clipped (TF-Privacy), "
            "`mechanism.clip: batch`"
        ),
    ),
    (
        "Flower, FedML, FedAvg",
        f"{_LOCAL} inner_steps inner_loop_steps adaptation_steps num_inner_steps",
        "",
        (
            "no noisy update of its own where one clipped update a client and round is sent: leave it out, "
            "`steps` are the "
            "rounds; where each client adds noise in every local step, steps are rounds x local steps"
        ),
    ),
    ("Flower, FedML, TF-Federated", _ROUNDS, "training.steps", _rounds),
    ("Flower, TF-Federated, FLSim, pfl-research", _COHORT, "sampling.size", _cohort),
    ("Flower, LEAF", _FRACTION, "sampling.size", _fraction),
    ("Flower, FedML, pfl-research", _UNIT_COUNT, "data.levels", _unit_count),
    (
        "pfl-research",
        "noise_cohort_size",
        "sampling.size",
        (
            "the noise of a deployment with this cohort, on a smaller simulated one: for the deployment `size` (or "
            "`expected`) is noise_cohort_size; the simulated run itself has less noise"
        ),
    ),
    (
        "TF-Privacy, JAX-Privacy",
        "examples_per_user_per_batch examples_per_client",
        "sampling.size",
        "what a step draws from one user: `sampling: {user: {...}, example: {scheme: fixed, size: ...}}`",
    ),
    (
        "Opacus, Flower",
        (
            "min_batch_size skip_empty non_empty skip_empty_batches drop_empty min_cohort_size min_clients "
            "min_fit_clients "
            "min_available_clients minimum_batch_size nonempty skip_empty_batch resample_empty min_num_clients "
            "min_sampled_clients allow_empty min_train_clients"
        ),
        "sampling.scheme",
        (
            "not covered: to draw again, wait or skip where few are drawn raises a unit's chance; let small and empty "
            "batches through (with noise), or state a fixed `size`"
        ),
    ),
    (
        "PyTorch, Hugging Face, Keras",
        (
            "weights sample_weights sampler_weights weighted group_by_length length_grouped bucket_by_length bucketing "
            "bucket_boundaries class_balanced balanced balance stratified stratify oversample oversampling undersample "
            "weighted_sampling importance_sampling length_bucketing buckets sortish_sampler curriculum"
        ),
        "sampling.scheme",
        _NOT_POISSON,
    ),
    ("Opacus 0.x, fastDP, private-transformers", "sample_size", "data.examples", _sample_size),
    (
        "Hugging Face, Megatron",
        "train_samples training_samples num_train_samples",
        "data.examples",
        (
            "`data.examples` if it is the size of the data set; if it counts all samples of the training, pass after "
            "pass, `training.steps` is that number / the batch"
        ),
    ),
    (
        "Accelerate, Hugging Face",
        "even_batches pad_last_batch pad_to_even",
        "",
        (
            "not covered where batches are filled up with repeated examples: one can then be in a pass twice; drop the "
            "last batch"
        ),
    ),
    ("PyTorch, scikit-learn", "num_samples n_samples", "data.examples", _num_samples),
    ("learn2learn", "num_tasks", "data.levels", "a data set of tasks is a level, tasks of a step are `episodes.tasks`"),
    (
        "Opacus, PyTorch",
        "poisson_sampling with_replacement replacement shuffle",
        "sampling.scheme",
        _poisson_sampling,
    ),
    (
        "Opacus, TF-Privacy, JAX-Privacy",
        "target_epsilon target_eps central_epsilon",
        "budget.epsilon",
        _target,
    ),
    (
        "JAX-Privacy, Opacus",
        "stop_at_epsilon stop_training_at_epsilon max_epsilon epsilon_limit stop_epsilon auto_stop",
        "training.steps",
        (
            "a run that stops at an epsilon is its `steps`: state the most it may take; `dpcalc solve-steps "
            "--target-eps` "
            "finds them, and `budget.epsilon` is what `check` tests"
        ),
    ),
    (
        "papers",
        "runs trials num_trials n_trials repetitions num_runs n_runs num_configs num_candidates sweep_size",
        "tuning.mean",
        (
            "not `tuning`: that is a random, secret number of runs. A fixed number of runs costs as much as all "
            "of them: as "
            "many `phases`, or `steps` times the runs"
        ),
    ),
    (
        "GAN training",
        (
            "n_critic critic_iters critic_steps d_steps disc_steps discriminator_steps steps_per_batch "
            "updates_per_batch gradients_per_batch inner_updates"
        ),
        "",
        (
            "several noisy outputs on one drawn sample: every one of them is a step, and `redraw_every` at the drawn "
            "levels says for how many steps a draw is kept"
        ),
    ),
    (
        "papers",
        (
            "last_iterate only_last last_iterate_only release_last hidden_state amplification_by_iteration "
            "privacy_amplification_by_iteration final_model_only hide_intermediate"
        ),
        "",
        "not covered: every step counts as seen, and nothing is gained where only the last model is released",
    ),
    (
        "papers",
        (
            "actual_norms individual_accounting individual_privacy per_instance_dp per_instance gradient_norms norms "
            "personalized individual per_example_epsilon data_dependent"
        ),
        "",
        "not covered: epsilon holds for vectors as long as the clip norm, whatever the data are",
    ),
    (
        "autodp, OpenDP",
        "privacy_filter filter odometer privacy_odometer fully_adaptive adaptive_composition max_queries",
        "",
        (
            "not covered: noise and number of steps are fixed beforehand; `dpcalc.Accountant` and `dpcalc "
            "ledger` add up "
            "what ran"
        ),
    ),
    (
        "papers on graphs",
        "graph edge_level node_level edge_dp node_dp max_degree num_neighbors max_in_degree edges nodes",
        "",
        (
            "not covered: a node of a graph is in the examples of its neighbours. If it is in at most m "
            "examples, protect "
            "them with `privacy.group_size: m`"
        ),
    ),
    (
        "papers",
        "owners_per_example owners max_owners users_per_example multi_owner co_owners owners_per_record num_owners",
        "privacy.group_size",
        (
            "levels are for records with one owner. If nobody owns more than m records, `privacy.group_size: m` "
            "with the "
            "record as the unit"
        ),
    ),
    (
        "JAX-Privacy, papers",
        (
            "noising_coef noising_coefs inverse_coefs banded_inverse inv_coefs inverse_strategy bisr bandinvmf "
            "noising_matrix c_inverse inverse_bands inverse_banded"
        ),
        "mechanism.strategy",
        _inverse,
    ),
    (
        "JAX-Privacy",
        "strategy_coefs strategy_coef strategy_matrix correlation_matrix c_matrix",
        "mechanism.strategy",
        "`strategy: {toeplitz: [...]}` with the coefficients of C, or `strategy: {file: C.npy}`",
    ),
    ("DP-FTRL", "buf_decay output_scale blt_theta blt_omega", "", "noise from buffers (BLT) is not covered"),
    (
        "PyTorch, Opacus, NumPy",
        (
            "seed random_seed rng_seed manual_seed noise_seed secure_rng secure_mode noise_generator "
            "random_state generator "
            "prng_seed rng_key"
        ),
        "",
        "leave it out: noise counts only if nobody knows it, so its seed must be secret and random",
    ),
    (
        "Opacus, TF-Privacy",
        "alphas orders rdp_orders rdp_alpha rdp_alphas alpha order moments max_order",
        "accounting.method",
        "leave it out: dpcalc chooses the orders itself",
    ),
    (
        "FedML",
        "enable_dp dp_solution_type enable_rdp_accountant secure_accounting",
        "",
        "leave it out: a config is about a private run",
    ),
    (
        "every library",
        (
            "lr learning_rate lrate momentum weight_decay optimizer augmult augmentations augmentation lr_scheduler "
            "learning_rate_schedule lr_schedule dropout dropout_rate model warmup_steps server_lr client_lr central_lr "
            "num_workers frozen_layers"
        ),
        "",
        "epsilon does not depend on it: leave it out, or keep it under an `x-` key",
    ),
)

# Values. (key, our word, library, words for the same)
VALUES: tuple[tuple[str, str, str, str], ...] = (
    ("adjacency", "add-remove", "dp_accounting", "add-or-remove add-or-remove-one add remove unbounded zero-in"),
    ("adjacency", "replace-one", "dp_accounting", "replace substitute substitution swap swap-one bounded change-one"),
    ("adjacency", "zero-out", "dp_accounting", "replace-special zeroing zero zero-one-out"),
    ("scheme", "poisson", "papers", "bernoulli poisson-sampling"),
    (
        "scheme",
        "poisson",
        "Opacus",
        (
            "uniform-with-replacement-sampler uniformwithreplacementsampler distributeduniformwithreplacementsampler "
            "distributed-uniform-with-replacement-sampler dpdataloader poissonsampler"
        ),
    ),
    ("scheme", "fixed", "JAX-Privacy, FLSim", "fixed-batch-sampling uniformlyrandomactiveuserselector"),
    ("scheme", "with-replacement", "papers", "replacement wr bootstrap"),
    ("scheme", "shuffle", "papers, PyTorch", "shuffled shuffling reshuffle random-reshuffling randomsampler"),
    ("scheme", "balls-in-bins", "papers", "balls-and-bins bins bib"),
    ("scheme", "random-allocation", "papers", "allocation k-out-of-t"),
    ("scheme", "all", "papers", "full full-batch none"),
    ("scheme", "any-order", "papers", "fixed-order deterministic arbitrary"),
    ("scheme", "cyclic-poisson", "JAX-Privacy", "cyclicpoissonsampling cyclic-poisson-sampling"),
    ("method", "pld", "Opacus, dp_accounting", "prv pldaccountant connect-the-dots prvaccountant"),
    ("method", "rdp", "Opacus, TF-Privacy", "renyi rdpaccountant"),
    ("method", "moments", "papers", "ma moments-accountant"),
    ("type", "approximate-dp", "papers", "approx-dp epsilon-delta-dp"),
    ("type", "pure-dp", "papers", "pure epsilon-dp"),
    ("type", "randomized-response", "papers", "rr k-rr randomised-response warner"),
    ("type", "zcdp", "papers", "concentrated tcdp truncated-cdp"),
    ("type", "exponential", "papers", "bounded-range gumbel report-noisy-max-gumbel"),
    ("type", "rdp-curve", "papers", "rdp renyi renyi-dp rdp-table"),
    ("type", "laplace", "papers", "laplacian double-exponential"),
    ("type", "discrete-laplace", "papers", "geometric two-sided-geometric"),
    ("type", "pate-lnmax", "papers", "pate lnmax"),
    ("type", "pate-gnmax", "papers", "gnmax"),
    ("type", "pate-confident-gnmax", "papers", "confident-gnmax pate-confident"),
    ("type", "gaussian", "papers", "normal gauss"),
    (
        "type",
        "matrix-factorization",
        "papers",
        "dp-ftrl ftrl mf dp-mf bandmf matrix-mechanism correlated-noise tree-aggregation",
    ),
)
_ASK = (
    "say how it draws: `fixed` (so many afresh in each step), `shuffle` (a pass through shuffled data), `poisson` (a "
)
_ASK += "coin for each), `with-replacement`"
# Values that no word of ours stands for. (key, library, words, sentence)
VALUES_SAID: tuple[tuple[str, str, str, str], ...] = (
    (
        "scheme",
        "PyTorch",
        "distributedsampler distributed-sampler",
        (
            "not covered where it pads: it repeats examples, so that one can be in a pass twice. With "
            "`drop_last=True`, or a count that the ranks divide, it is a shuffle of what is left"
        ),
    ),
    (
        "scheme",
        "papers",
        (
            "uniform random subsampled subsampling uniform-sampling random-sampling dataloader cyclic "
            "without-replacement wor fixed-size"
        ),
        _ASK,
    ),
    (
        "scheme",
        "PyTorch, Keras, Hugging Face",
        (
            "weightedrandomsampler weighted-random-sampler weighted stratified stratifiedsampler class-balanced "
            "balanced "
            "group-by-length lengthgroupedsampler length-grouped bucketed bucket bucketing importance "
            "importance-sampling stratified-sampling balancedbatchsampler shuffledauthorsampler"
        ),
        _NOT_POISSON,
    ),
    (
        "scheme",
        "PyTorch",
        ("sequential sequentialsampler sequential-sampler batchsampler subsetrandomsampler no-shuffle"),
        "`shuffle` counts each unit once in each pass, whatever the order, if no pass drops a last batch",
    ),
    ("scheme", "JAX-Privacy", "ballsinbinssampling balls-in-bins-sampling", "`balls-in-bins` with `assignment: held`"),
    (
        "type",
        "papers",
        (
            "skellam distributed-skellam binomial poisson-binomial poisson-binomial-mechanism "
            "distributed-discrete-gaussian "
            "ddgauss student-t generalized-gaussian staircase truncated-gaussian rectified-gaussian privunit "
            "smooth-sensitivity"
        ),
        (
            "not covered by name: `type: rdp-curve` takes its Renyi divergences, `approximate-dp` or `pure-dp` what is "
            "known of one step"
        ),
    ),
    (
        "type",
        "OpenDP, autodp, papers",
        "sparse-vector svt above-threshold abovethreshold sparse sparse-vector-technique numeric-sparse",
        (
            "not covered by name: one run of it until its last positive answer is `type: pure-dp` with its epsilon, "
            "one step"
        ),
    ),
    (
        "type",
        "OpenDP, papers",
        "noisy-max report-noisy-max report-noisy-argmax permute-and-flip noisy-argmax rnm",
        "not covered by name: `type: pure-dp` with its epsilon; with Gumbel noise it is `type: exponential`",
    ),
    (
        "type",
        "FedML, diffprivlib",
        "analytic-gaussian gaussian-analytic gaussiananalytic classical-gaussian classic-gaussian",
        "`gaussian` with the noise that was calibrated; where only its (epsilon, delta) is known, `approximate-dp`",
    ),
    (
        "clip",
        "Opacus, fastDP",
        "per-layer layer per-layer-clipping layerwise",
        (
            "clip norms of layers: leave `clip` out; `max_grad_norm` is the root of the sum of their squares, "
            "and with noise "
            "sigma x C_l on each of L layers `noise_multiplier` is sigma / sqrt(L)"
        ),
    ),
    (
        "clip",
        "Opacus, fastDP, TF-Privacy",
        "flat per-sample per-example global sample",
        "each example's whole vector is clipped by default: leave `clip` out",
    ),
    ("clip", "TF-Privacy", "microbatch microbatches per-microbatch", "the clipped mean of a microbatch: `clip: batch`"),
    (
        "clip",
        "Opacus",
        "adaptive adaptive-clipping",
        "leave `clip` out; the noisy count that adapts the norm is `also`, unless noise_multiplier contains its noise",
    ),
    ("method", "Opacus", "all-orders", "leave it out"),
)


@cache
def _renamed() -> dict[str, str]:
    return {word: key for key, _, words in RENAMED for word in words.split()}


@cache
def _said() -> dict[str, tuple[str, str | Says]]:
    return {word: (about, says) for _, words, about, says in SAID for word in words.split()}


@cache
def _renamed_in() -> dict[tuple[str, str], str]:
    return {(section, word): key for section, key, words in RENAMED_IN for word in words.split()}


@cache
def _values() -> dict[tuple[str, str], str]:
    same = {(key, word): f"dpcalc calls this `{ours}`" for key, ours, _, words in VALUES for word in words.split()}
    return same | {(key, word): text for key, _, words, text in VALUES_SAID for word in words.split()}


def meaning(section: str, word: str, beside: Beside = NOTHING) -> Meaning | None:
    """Return what a foreign key means in a kind of section, as of `messages.section_kind`; None for an unknown word."""
    word = plain_word(word)
    key = _renamed_in().get((section, word))
    if key is None and word in _said():
        about, says = _said()[word]
        return Meaning(hint=says, about=about) if isinstance(says, str) else says(word, beside)
    key = key or _renamed().get(word)
    if key is None:
        return None
    value = beside.texts.get(word)
    return Meaning(
        hint=f"dpcalc calls this `{key}`", about=key, keys={} if value is None else {key: value}, is_rename=True
    )


def value_meaning(key: str, word: str) -> str:
    """Return the sentence on a foreign value of adjacency, scheme, method, type or clip; "" for an unknown one."""
    return _values().get((key, word.strip().lower().replace("_", "-").rpartition(".")[2]), "")


def list_meaning(key: str, numbers: Sequence[Fraction]) -> str:
    """Return what a list means where one number belongs; "" where it means nothing known."""
    if key == "max_grad_norm" and numbers:
        squares = sum(number * number for number in numbers)
        norm = decimal_text(Fraction(isqrt(squares.numerator), isqrt(squares.denominator)))
        is_square = norm is not None and parse_number(norm) ** 2 == squares  # type: ignore[operator]  # it is a decimal
        hint = _layer_norms("max_grad_norms", NOTHING).hint
        return f"`max_grad_norm: {norm}`: {hint} = sigma / sqrt({len(numbers)})" if is_square else hint
    if key in {"noise_multiplier", "rate", "expected", "size", "batch_size", "steps", "epochs", "max_batch_size"}:
        return f"a value that changes: {_SCHEDULES}"
    return ""


def no_number(key: str, text: str) -> str:
    """Return what a text that is no possible number means as the value of a key of ours; "" if it means nothing."""
    word = text.strip().lower().strip(".+")
    if key == "max_grad_norm" and word in {
        "",
        "0",
        "0.0",
        "inf",
        "infinity",
        "none",
        "null",
        "~",
        "no",
        "false",
        "off",
    }:
        return "not covered: without clipping no noise hides a unit, epsilon is infinite"
    if key == "noise_multiplier" and word in {"auto", "calibrated", "calibrate", "none", "null"}:
        return "state the noise that ran: `dpcalc solve-sigma` finds the one that fits a target"
    if key in {"delta", "rate"} and re.search(r"[a-z(^*/]", word):
        return f"a formula: state its value{', rounded down' if key == 'delta' else ''}"
    if key in {"examples", "count"} and re.fullmatch(r"len\(.*\)|n", word):
        return "state the number"
    return ""


def excluded_key(key: str, kind: str) -> str:
    """Return what to do where a mechanism type does not take a key of ours; "" where nothing else is known."""
    if key == "also":
        return (
            "several answers on one drawn sample are one step: `type: pure-dp` with the sum of their epsilons, or "
            "`approximate-dp` with the sums of epsilon and delta"
        )
    if kind == "gaussian" and key in {"epsilon", "delta"}:
        return (
            "`gaussian` takes the noise itself; a step of which only its (epsilon, delta) is known is "
            "`type: approximate-dp`"
        )
    return ""


# Spelling. A hint must not lead from one quantity to another.


def is_misspelling(word: str, ours: str) -> bool:
    """Return True if a word is probably our word misspelt: every part between underscores is, with the same digits.

    Example:
        >>> is_misspelling("noise_multiplyer", "noise_multiplier"), is_misspelling("min_batch_size", "max_batch_size")
        (True, False)
    """
    word, ours = (plain_word(each.replace(" ", "_")) for each in (word[:64], ours))
    if re.sub(r"\D", "", word) != re.sub(r"\D", "", ours):
        return False
    if word.replace("_", "") == ours.replace("_", ""):
        return True
    parts, own = word.split("_"), ours.split("_")
    return len(parts) == len(own) and all(map(_is_near, parts, own))


def _is_near(part: str, ours: str) -> bool:
    """Return True if two parts of words differ by at most a typing error or two, and begin alike."""
    from difflib import SequenceMatcher

    if part == ours:
        return True
    if part[:1] != ours[:1] or {part, ours} <= {"min", "max", "mean", "per", "num", "minimum", "maximum"}:
        return False
    if len(part) == len(ours) <= 4:
        return sum(map(str.__ne__, part, ours)) <= 1
    return abs(len(part) - len(ours)) <= 2 and SequenceMatcher(None, part, ours).ratio() >= 0.75


# The page of the docs.


def words_page() -> str:
    """Return the page `docs/words.md`, written from the tables."""
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
        *(f"| {library} | {_listed(words)} | `{key}` |" for key, library, words in RENAMED),
        *(f"| in `{section or 'flags'}` | {_listed(words)} | `{key}` |" for section, key, words in RENAMED_IN),
        "",
        "## Said otherwise, or not covered",
        "",
        "Where the numbers stand beside the word, the hint has the result.",
        "",
        "| library | word | in dpcalc |",
        "|---|---|---|",
        *_said_rows(),
        "",
        "## Values",
        "",
        "| key | library | value | in dpcalc |",
        "|---|---|---|---|",
        *(f"| `{key}` | {library} | {_listed(words)} | `{ours}` |" for key, ours, library, words in VALUES),
        *(f"| `{key}` | {library} | {_listed(words)} | {text} |" for key, library, words, text in VALUES_SAID),
    ]
    return "\n".join(lines) + "\n"


def _said_rows() -> Iterator[str]:
    for library, words, _, says in SAID:
        text = says if isinstance(says, str) else says(words.split()[0], NOTHING).hint
        yield f"| {library} | {_listed(words)} | {text} |"


def _listed(words: str) -> str:
    return ", ".join(f"`{word}`" for word in words.split())
