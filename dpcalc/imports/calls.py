"""Events of dp_accounting, accountant states of Opacus, and calls of Opacus, TF-Privacy and JAX-Privacy, as runs.

Fields and meaning: dp_accounting 0.6.0, dp_event.py; EpsilonDelta, ExponentialMechanism, DiscreteGaussian and
PermuteAndFlip are of later versions.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from dpcalc.errors import InputError
from dpcalc.imports.run import (
    MAX_DEPTH,
    Call,
    Expression,
    ImportedRun,
    Part,
    Terms,
    bound,
    decimal_down,
    finite_number,
    merged_parts,
    number_text,
    number_value,
    rate_of,
    shown,
    whole_number,
)
from dpcalc.planner.calibration import Calibration
from dpcalc.planner.words import UNKNOWN_ORDER

_MAX_SUMS = 100  # Gaussian sums on one sample that are written out one by one
# Fields in the order of each class, which events that are printed without names rely on.
_FIELDS = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "UnsupportedDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
    "DiscreteGaussianDpEvent": ("sigma", "sensitivity", "dimension"),
    "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
    "EpsilonDeltaDpEvent": ("epsilon", "delta"),
    "ExponentialMechanismDpEvent": ("epsilon",),
    "PermuteAndFlipDpEvent": ("epsilon",),
    "ZCDpEvent": ("rho", "xi"),
    "MixtureOfGaussiansDpEvent": ("standard_deviation", "sensitivities", "sampling_probs"),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SampledWithReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "SingleEpochTreeAggregationDpEvent": ("noise_multiplier", "step_counts"),
    "RepeatAndSelectDpEvent": ("event", "mean", "shape"),
    "TruncatedSubsampledGaussianDpEvent": (
        "dataset_size",
        "sampling_probability",
        "truncated_batch_size",
        "noise_multiplier",
    ),
}
_WITH_OWN_DRAW = {
    "TruncatedSubsampledGaussianDpEvent",
    "MixtureOfGaussiansDpEvent",
    "SingleEpochTreeAggregationDpEvent",
}
_ON_ONE_SAMPLE = {"NoOpDpEvent", "ComposedDpEvent", "SelfComposedDpEvent", "GaussianDpEvent"}
_ANY_ORDER = "{scheme: any-order}"
_OPTIONAL = {"xi": Fraction(0), "sensitivity": Fraction(1), "dimension": None}


class _Draw(NamedTuple):
    """Draw of the records of an event."""

    sampling: str  # content of `sampling:`
    event_name: str = ""  # class of the event that draws, for messages; "" without sampling
    rate: Fraction | None = None  # of a Poisson draw
    examples: int | None = None  # size of the data, where the event states it
    is_shared: bool = False  # whether what it draws is one sample for several events


_ALL = _Draw("{scheme: all}")


def event_run(event: Call, terms: Terms) -> ImportedRun:
    """Return the run of an event, a RepeatAndSelect around it as its tuning; InputError if dpcalc cannot express it."""
    tuning = ""
    if event.name == "RepeatAndSelectDpEvent":
        fields = _field_values(event)
        mean = number_text(finite_number(fields["mean"], f"{event.name} mean"))
        # The truncated negative binomial distribution of Papernot and Steinke 2022, by its shape.
        law = "poisson"
        if fields["shape"] != math.inf:
            shape = finite_number(fields["shape"], f"{event.name} shape")
            names = {Fraction(1): "geometric", Fraction(0): "logarithmic"}
            law = names.get(shape) or f"negative-binomial, shape: {number_text(shape)}"
        tuning = f"{{mean: {mean}, distribution: {law}}}"
        event = _inner_event(fields["event"], event.name)
    parts = list(_parts(event, _ALL, 1, 0))

    # A config has one data set; events that state several sizes are of several runs.
    sizes = {part.examples for part in parts if part.examples is not None}
    if terms.examples is not None:
        sizes.add(whole_number(terms.examples, "--dataset-size"))
    if len(sizes) > 1:
        raise InputError(
            f"source_dataset_size: expected one size of the data, got {', '.join(map(str, sorted(sizes)))}"
        )

    has_tree = any("strategy: tree" in part.mechanism for part in parts)
    needs_replace_one = any(
        "fixed" in part.sampling or "replacement" in part.sampling or "randomized-response" in part.mechanism
        for part in parts
    )
    sized = " (fixed-size draws and randomized response: replace-one)" if needs_replace_one else ""
    tree = " (trees: zero-out, since removing a record would shift all later ones)" if has_tree else ""
    unknown = [f"adjacency: an event does not say it, its accountant does{sized}{tree}"]
    if any(part.sampling not in {_ALL.sampling, _ANY_ORDER} for part in parts):
        scheme = "Poisson" if any("poisson" in part.sampling for part in parts) else "fixed-size"
        unknown.append(f"sampling: {scheme} draws are stated; check that the loader draws so")
    unknown.append("clip norm: epsilon does not depend on it; the noise must be relative to it")
    return ImportedRun(
        origin="a dp_accounting DpEvent",
        parts=merged_parts(parts),
        unknown=tuple(unknown),
        adjacency="replace-one" if needs_replace_one else "zero-out" if has_tree else "add-remove",
        examples=next(iter(sizes), None),
        tuning=tuning,
    )


def _parts(event: Call, draw: _Draw, count: int, depth: int) -> Iterator[Part]:
    """Yield the releases in an event within `draw`, nested ones too, `count` times; InputError without a config."""
    if depth > MAX_DEPTH:
        raise InputError(f"{event.name}: expected at most {MAX_DEPTH} events within one another, got more")
    fields, name, steps = _field_values(event), event.name, count
    if draw.is_shared and name not in _ON_ONE_SAMPLE:
        raise InputError(
            f"{draw.event_name}: expected one mechanism, or at most {_MAX_SUMS} Gaussian ones, on one sample, got "
            f"{name} beside others; sample for each of them, or state a phase by hand"
        )
    # A Poisson draw of a Poisson draw is one at the product of the rates; no other draws are a single one.
    is_poisson = name == "PoissonSampledDpEvent"
    if draw.event_name and ((is_poisson and draw.rate is None) or name.startswith("SampledWith")):
        raise InputError(
            f"{name}: expected a draw from all records, got one within {draw.event_name}; state levels by hand"
        )
    if name in _WITH_OWN_DRAW and draw.event_name:
        raise InputError(f"{name}: expected it on all records, got it within {draw.event_name}")
    if fields.get("sensitivity", 1) != 1:
        raise InputError(
            f"{name} sensitivity: expected 1, got {shown(fields['sensitivity'])}; discrete noise does not scale"
        )
    match name:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent" | "SelfComposedDpEvent":
            inner, times = fields.get("events", [fields.get("event")]), 1
            if not isinstance(inner, list):
                raise InputError(f"{name} events: expected a list of events, got {shown(inner)}")
            if name == "SelfComposedDpEvent":
                times = whole_number(fields["count"], f"{name} count", low=0)
            # Within a draw the parts share one sample: as draws of their own they would cost less than they do.
            begins_sample = bool(draw.event_name) and not draw.is_shared
            within, times = draw._replace(is_shared=bool(draw.event_name)), times if begins_sample else count * times
            parts = (part for each in inner for part in _parts(_inner_event(each, name), within, times, depth + 1))
            if not begins_sample:
                yield from parts
                return
            noises: list[str] = []
            for part in parts:
                number = part.steps or 0
                if len(noises) + number > _MAX_SUMS:
                    raise InputError(
                        f"{draw.event_name}: expected at most {_MAX_SUMS} mechanisms on one sample, got more"
                    )
                noises += [part.mechanism] * number
            if not noises:
                return
            mechanism = noises[0][1:-1] + (f", also: [{', '.join(noises[1:])}]" if noises[1:] else "")
        case "PoissonSampledDpEvent" | "SampledWithReplacementDpEvent" | "SampledWithoutReplacementDpEvent":
            inner = _inner_event(fields["event"], name)
            if is_poisson:
                rate = rate_of(fields["sampling_probability"], f"{name} sampling_probability") * (draw.rate or 1)
                draw = _Draw(f"{{scheme: poisson, rate: {number_text(rate)}}}", name, rate)
            else:
                examples = whole_number(fields["source_dataset_size"], "source_dataset_size")
                size = whole_number(fields["sample_size"], "sample_size")
                scheme = "fixed" if name == "SampledWithoutReplacementDpEvent" else "with-replacement"
                draw = _Draw(f"{{scheme: {scheme}, size: {size}}}", name, examples=examples)
            yield from _parts(inner, draw, count, depth + 1)
            return
        case "TruncatedSubsampledGaussianDpEvent":
            rate = rate_of(fields["sampling_probability"], f"{name} sampling_probability")
            cap = whole_number(fields["truncated_batch_size"], "truncated_batch_size")
            examples = whole_number(fields["dataset_size"], "dataset_size")
            sampling = f"{{scheme: poisson, rate: {number_text(rate)}, max_batch_size: {cap}}}"
            draw = _Draw(sampling, name, examples=examples)
            mechanism = _noise_key(fields["noise_multiplier"], "noise_multiplier")
        case "MixtureOfGaussiansDpEvent":
            sensitivities, chances = fields["sensitivities"], fields["sampling_probs"]
            if not isinstance(chances, list) or sensitivities not in ([0, 1], [1, 0]) or len(chances) != 2:
                raise InputError(
                    f"{name}: expected the sensitivities 0 and 1, which are one draw of one example, got others; a "
                    "user with several examples is two levels, user and example, with `clip: example`"
                )
            rate = rate_of(chances[sensitivities.index(1)], f"{name} sampling_probs")
            draw = _Draw(f"{{scheme: poisson, rate: {number_text(rate)}}}")
            mechanism = _noise_key(fields["standard_deviation"], "standard_deviation")
        case "SingleEpochTreeAggregationDpEvent":
            # Each record is in one of the trees, and the tree with most steps costs most.
            stated = fields["step_counts"]
            trees = stated if isinstance(stated, list) else [stated]
            counts = [whole_number(each, f"{name} step_counts") for each in trees]
            if not counts:
                raise InputError(f"{name} step_counts: expected at least one number of steps, got none")
            noise = _noise_key(fields["noise_multiplier"], "noise_multiplier")
            if count != 1:
                raise InputError(f"{name}: expected one epoch, got {count}; state `max_participations` by hand")
            draw, steps = _Draw(_ANY_ORDER), max(counts)
            mechanism = f"type: matrix-factorization, strategy: tree, {noise}, max_participations: 1"
        case "NonPrivateDpEvent":
            mechanism = "noise_multiplier: 0"
        case "GaussianDpEvent":
            mechanism = _noise_key(fields["noise_multiplier"])
        case "LaplaceDpEvent":
            mechanism = f"type: laplace, {_noise_key(fields['noise_multiplier'])}"
        case "DiscreteGaussianDpEvent":
            if fields["dimension"] != 1:
                raise InputError(f"{name} dimension: expected 1, got {shown(fields['dimension'])}; a sum is one number")
            mechanism = f"type: discrete-gaussian, {_noise_key(fields['sigma'])}"
        case "DiscreteLaplaceDpEvent" | "PermuteAndFlipDpEvent":
            # The loss of permute-and-flip is that of Laplace noise of scale 1 / epsilon.
            kind, field = ("laplace", "epsilon") if "Flip" in name else ("discrete-laplace", "noise_parameter")
            parameter = finite_number(fields[field], "parameter of the noise", low=1e-9)
            mechanism = f"type: {kind}, {_noise_key(1 / parameter)}"
        case "ExponentialMechanismDpEvent":
            epsilon = number_text(finite_number(fields["epsilon"], "epsilon", low=1e-9))
            mechanism = f"type: exponential, epsilon: {epsilon}"
        case "EpsilonDeltaDpEvent":
            epsilon = number_text(finite_number(fields["epsilon"], "epsilon"))
            delta = finite_number(fields["delta"], "delta", high=1)
            mechanism = f"type: {'approximate' if delta else 'pure'}-dp, epsilon: {epsilon}"
            mechanism += f", delta: {number_text(delta)}" if delta else ""
        case "RandomizedResponseDpEvent":
            chance = finite_number(fields["noise_parameter"], f"{name} noise_parameter", high=1)
            # With this probability the answer is uniform over all buckets, the true one among them.
            buckets = whole_number(fields["num_buckets"], f"{name} num_buckets", low=2)
            truth = number_text(exact := 1 - chance + chance / buckets)
            # A probability that is no decimal is rounded up: truer answers cost more.
            truth = repr(math.nextafter(float(exact), 1.0)) if "/" in truth else truth
            mechanism = f"type: randomized-response, truth_probability: {truth}, categories: {buckets}"
        case "ZCDpEvent":  # `xi` is where its curve starts
            if fields["xi"] != 0:
                raise InputError(f"{name} xi: expected 0, got {shown(fields['xi'])}; state the curve as `rdp-curve`")
            mechanism = f"type: zcdp, rho: {number_text(finite_number(fields['rho'], 'rho'))}"
        case "RepeatAndSelectDpEvent":
            raise InputError(f"{name}: expected it around the whole run, got it within another event")
        case _:
            raise InputError(f"{name}: expected an event that dpcalc has a mechanism for, got one that it has none for")
    yield Part(sampling=draw.sampling, mechanism=f"{{{mechanism}}}", steps=steps, examples=draw.examples)


def _noise_key(noise: Any, where: str = "noise multiplier") -> str:
    return f"noise_multiplier: {decimal_down(finite_number(noise, where))}"


def _inner_event(value: Any, name: str) -> Call:
    """Return `value` if it is a call, as events are; InputError, with the outer event's name, for anything else."""
    if not isinstance(value, Call):
        raise InputError(f"{name}: expected an event in it, got {shown(value)}")
    return value


def _field_values(event: Call) -> dict[str, Any]:
    """Return an event's fields by name, with defaults; InputError for an unknown event or wrong fields."""
    if event.name not in _FIELDS:
        raise InputError(f"{event.name[:60]}: expected an event of dp_accounting that dpcalc knows, got this one")
    return bound(event, _FIELDS[event.name], _OPTIONAL, words="fields")


# Accountant states of Opacus, and calls of Opacus, TF-Privacy and JAX-Privacy, as runs.
# Signatures: Opacus 1.6.0 (accountants/utils.py, privacy_engine.py); TF-Privacy 0.9.0 (compute_dp_sgd_privacy_lib.py,
# compute_noise_from_budget_lib.py, dp_optimizer_keras.py, dp_optimizer.py); JAX-Privacy 2.0.0 (keras_api.py,
# accounting/analysis.py, accounting/calibrate.py, experimental/accounting.py).


_MAX_ENTRIES = 100_000  # of a history
_NOISE = "{noise}"  # a noise multiplier that the library looks for
_MECHANISMS = ("rdp", "prv", "gdp")
_ADJACENCY = "adjacency: add-remove is assumed, as the library does"
_CLIP = "clip norm: epsilon does not depend on it; the noise must be relative to it"
_UNIT = "unit: one example is protected; a person or a user with several of them is not"
_OPACUS_SAMPLING = (
    "sampling: Poisson draws (poisson_sampling=True) are assumed; with a shuffled loader or drop_last the rate is "
    "another one, and there is no amplification"
)
_TF_SAMPLING = (
    "sampling: Poisson draws are assumed, as by the library; shuffled batches and batches of a fixed size cost more"
)
_FIXED_SAMPLING = "sampling: batches of a fixed size are assumed, as by the library; shuffled batches cost more"
_MICROBATCHES = (
    "microbatches: the function halves the noise multiplier unless it has used_microbatching=False, and so does this "
    "config; with microbatches of one example say so"
)
_ACCUMULATION = "accumulation: Opacus multiplies the rate by the batches of a step, which is no longer a Poisson draw"

_FIT = "sampling: {loader} is what --loader says of the data set of fit(); the call does not say how it draws"
_ORDER = (
    "order: it counts as known, as `scheme: shuffle` has it; `order: secret` beside it, under adjacency zero-out or "
    f"replace-one, may cost less, but says that {UNKNOWN_ORDER}"
)
_KERAS = ("l2_norm_clip", "noise_multiplier", "num_microbatches")

# Library, and positional parameters in their order; () for functions whose numbers are read by name alone.
_SIGNATURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "compute_dp_sgd_privacy": ("TF-Privacy", ("n", "batch_size", "noise_multiplier", "epochs", "delta")),
    "compute_dp_sgd_privacy_statement": (
        "TF-Privacy",
        (
            "number_of_examples",
            "batch_size",
            "num_epochs",
            "noise_multiplier",
            "delta",
            "used_microbatching",
            "max_examples_per_user",
        ),
    ),
    "compute_noise": ("TF-Privacy", ("n", "batch_size", "target_epsilon", "epochs", "delta", "noise_lbd")),
    **{
        f"{prefix}DPKeras{optimizer}Optimizer": ("Keras", _KERAS)
        for prefix in ("", "Vectorized")
        for optimizer in ("SGD", "Adam", "Adagrad")
    },
    "get_noise_multiplier": ("Opacus", ()),
    "make_private_with_epsilon": ("Opacus", ()),
    "make_private": ("Opacus", ()),
    "calibrate_noise_multiplier": ("JAX-Privacy", ()),
    "DpParams": ("JAX-Privacy", ()),
    "DPKerasConfig": (
        "JAX-Privacy",
        (
            "epsilon",
            "delta",
            "clipping_norm",
            "batch_size",
            "gradient_accumulation_steps",
            "train_steps",
            "train_size",
            "poisson_sampling_in_fit",
            "noise_multiplier",
        ),
    ),
}
# What makes it other noise than the library's own settings find for single examples.
_OTHER_NOISE = ("alphas", "eps_error", "delta_error", "truncated_batch_size", "examples_per_user", "sampling_method")
CALLS = frozenset(_SIGNATURES)
"""Names of the functions whose calls are read."""
_SOLVED = {
    "compute_noise",
    "get_noise_multiplier",
    "make_private_with_epsilon",
    "calibrate_noise_multiplier",
    "DPKerasConfig",
}
OTHER_LIBRARY = (
    "private-transformers, fastDP and DP-FTRL keep their numbers elsewhere, which is not read: write a config, see "
    "docs/configs.md, From your training code to a config"
)
"""What to do with a call that is no call of `CALLS`."""
_OUR_NAMES = {
    "number_of_examples": "n",
    "train_size": "n",
    "num_samples": "n",
    "num_epochs": "epochs",
    "train_steps": "steps",
    "num_updates": "steps",
    "batch_sizes": "batch_size",
    "target_delta": "delta",
    "epsilon": "target_epsilon",
    "noise_multipliers": "noise_multiplier",
    "clipping_norm": "max_grad_norm",
    "l2_norm_clip": "max_grad_norm",
}
OPTIONS = {
    "n": "--dataset-size",
    "batch_size": "--batch-size",
    "epochs": "--epochs",
    "steps": "--steps",
    "delta": "--delta",
    "noise_multiplier": "--noise-multiplier",
    "sample_rate": "--sample-rate",
    "target_epsilon": "--target-eps",
    "loader": "--loader",
}
"""The option that gives each argument of a call."""
_LETTERS = {
    "sample_rate": "1/BATCHES",
    "noise_multiplier": "X",
    "target_epsilon": "E",
    "delta": "D",
    "loader": "poisson|fixed|shuffle",
}


def accountant_run(state: Mapping[str, Any]) -> ImportedRun:
    """Return the run in an Opacus accountant's state, equal entries merged; InputError if malformed or empty."""
    mechanism = state.get("mechanism")
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise InputError(
            f"mechanism: expected an accountant of Opacus, {', '.join(_MECHANISMS)}, got {shown(mechanism)}"
        )
    # Bounded before it is read: each entry is checked, and a file may repeat one object a million times.
    history = state["history"]
    if not isinstance(history, Sequence) or isinstance(history, str) or len(history) > _MAX_ENTRIES:
        raise InputError(f"history: expected a list of at most {_MAX_ENTRIES:,} entries, got something else")
    parts = []
    for index, entry in enumerate(history):
        where = f"history[{index}]"
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            raise InputError(f"{where}: expected noise multiplier, rate and steps, got {shown(entry)}")
        # Of a pickle the numbers are those of Python, of JSON they are fractions already; a bool is no number.
        noise, rate, steps = (
            number_value(each) if isinstance(each, (int, float, Fraction)) and not isinstance(each, bool) else each
            for each in entry
        )
        sampling = f"{{scheme: poisson, rate: {number_text(rate_of(rate, f'{where} rate'))}}}"
        noise_text = decimal_down(finite_number(noise, f"{where} noise multiplier"))
        part_steps = whole_number(steps, f"{where} steps", low=0)
        parts.append(Part(sampling=sampling, mechanism=f"{{noise_multiplier: {noise_text}}}", steps=part_steps))
    return ImportedRun(
        origin=f"the state of an Opacus accountant{f' ({mechanism})' if mechanism else ''}",
        parts=merged_parts(parts),
        unknown=(_ADJACENCY, _OPACUS_SAMPLING, _ACCUMULATION, _CLIP, _UNIT),
    )


def call_run(call: Call, terms: Terms) -> ImportedRun:
    """Return the run of a call, in which terms replace arguments; InputError if a number is missing or unusable."""
    name = call.name
    library, names = _SIGNATURES[name]
    if not names and call.arguments:
        raise InputError(
            f"{name}: expected the call of {library}, whose arguments all have names, got one with arguments without "
            f"names; {OTHER_LIBRARY}"
        )
    if len(call.arguments) > len(names):
        raise InputError(f"{name}: expected at most {len(names)} arguments without names, got {len(call.arguments)}")
    stated = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    given = {_OUR_NAMES.get(each, each): value for each, value in stated.items()}
    # fit() of Keras draws as its data set does, which only the user knows.
    asks_loader = library == "Keras" or (name == "DPKerasConfig" and given.get("poisson_sampling_in_fit") is not True)
    takes = {
        "Opacus": {"sample_rate", "epochs", "steps"},
        "TF-Privacy": {"batch_size", "epochs"},
        "Keras": {"batch_size", "epochs", "steps"},
        "JAX-Privacy": {"batch_size", "steps"},
    }[library] | {"n", "noise_multiplier", *(["target_epsilon"] if name in _SOLVED else [])}
    takes |= {"loader"} if asks_loader else set()

    # The user's terms take the place of arguments. Length is stated once: epochs of the user replace steps of the call,
    # and the reverse.
    added = arguments_of_terms(terms)
    if "noise_multiplier" in added and "target_epsilon" in added:
        raise InputError("--target-eps: expected it without --noise-multiplier, got both; keep one of them")
    for argument in OPTIONS:
        if argument in added and argument not in takes:
            raise InputError(f"{OPTIONS[argument]}: expected what {name} takes, got one that it has no place for")
    given |= added
    if "epochs" in added and "steps" not in added:
        given.pop("steps", None)
    if "steps" in added and "epochs" not in added:
        given.pop("epochs", None)

    # A norm that is code is not known, unless it names infinity; one that is stated must clip.
    norm = given.get("max_grad_norm", Fraction(1))
    if isinstance(norm, Expression | Call):
        written = norm.text if isinstance(norm, Expression) else str(norm.arguments)
        clips = not re.search(r"\binf(ty|inity)?\b", written, re.IGNORECASE)
    else:
        clips = isinstance(norm, list) or (isinstance(norm, Fraction) and norm > 0)
    if not clips or given.get("is_finite_guarantee", True) is not True:
        raise InputError(
            f"{name}: expected a finite clip norm > 0, got another one; without clipping no noise hides a unit, and "
            "epsilon is infinite"
        )
    if library == "Opacus" and given.get("poisson_sampling", True) is not True:
        raise InputError(
            f"{name}: expected Poisson sampling, got poisson_sampling={shown(given['poisson_sampling'])}, for which "
            "Opacus counts as if it were; write a config with `scheme: shuffle`"
        )

    # Numbers that a call lacks, or that are names in the code, are told at once, with the options that give them. For
    # a delta that is nowhere `imported` asks.
    is_solved = name in _SOLVED and given.get("noise_multiplier") is None
    lengths = [each for each in ("epochs", "steps") if each in takes]
    stated_lengths = [each for each in lengths if given.get(each) is not None] or lengths[:1]
    length = stated_lengths[-1 if library == "Opacus" else 0]
    wanted = ["sample_rate"] if library == "Opacus" else ["n", "batch_size"]
    wanted += [length, "target_epsilon" if is_solved else "noise_multiplier", *(["loader"] if asks_loader else [])]
    wanted += ["delta"] if terms.delta is None else []
    missing = {each: given.get(each) for each in wanted if isinstance(given.get(each), Expression | Call | None)}
    if len(missing) > 1:
        code = [shown(value).removesuffix(", which is not run") for value in missing.values() if value is not None]
        got = f"{', '.join(code)}, which are not run" if code else "none"
        options = " ".join(f"{OPTIONS[each]} {_LETTERS.get(each, 'N')}" for each in missing)
        raise InputError(f"{name}: expected numbers for {', '.join(missing)}, got {got}; give {options}")
    if "loader" in missing:
        raise InputError(
            f"{name}: expected how the data set of fit() draws, got a call that does not say it; give --loader "
            "poisson, fixed or shuffle"
        )
    for argument, value in missing.items():
        if argument == "delta" and value is None:
            continue
        theirs = (each for each, ours in _OUR_NAMES.items() if ours == argument and name.endswith("statement"))
        way_out = f"give {OPTIONS[argument]}"
        if argument == "sample_rate" and name.startswith("make_private"):
            way_out += ", which Opacus takes as 1 / len(data_loader)"
        raise InputError(f"{name}: expected a number for {next(theirs, argument)}, got {shown(value)}; {way_out}")

    # What makes it another run than one draw of independent examples a step, of functions that have such arguments.
    own = given if library in {"JAX-Privacy", "Keras"} else {}
    for argument, reason in {
        "gradient_accumulation_steps": "the sum of several draws is no single one",
        "cycle_length": "each group of examples has its own steps; state the banded strategy by hand",
        "batch_size_scale_schedule": "state a phase for each size",
    }.items():
        if own.get(argument) not in (None, 1):  # a list has no hash
            raise InputError(f"{name} {argument}: expected none or 1, got {shown(own[argument])}; {reason}")
    method, cap = own.get("sampling_method"), own.get("truncated_batch_size")
    loader, adjacency = given.get("loader", "poisson"), _ADJACENCY
    draws = _OPACUS_SAMPLING if library == "Opacus" else _FIT.format(loader=loader) if asks_loader else _TF_SAMPLING
    is_fixed = isinstance(method, Expression) and method.text.endswith(".FIXED_BATCH_SIZE")
    if is_fixed:
        loader, draws = given.get("loader", "fixed"), draws if asks_loader else _FIXED_SAMPLING
        adjacency = "adjacency: replace-one, as the library says of FIXED_BATCH_SIZE"
    elif method is not None and not (isinstance(method, Expression) and method.text.endswith(".POISSON")):
        raise InputError(
            f"{name} sampling_method: expected SamplingMethod.POISSON or .FIXED_BATCH_SIZE, got {shown(method)}"
        )
    if library == "Opacus":
        examples, rate = None, rate_of(given["sample_rate"], "sample_rate")
        sampling = f", rate: {number_text(rate)}"
    else:
        examples = whole_number(given["n"], "number of examples")
        batch = finite_number(given["batch_size"], "batch_size", low=1, high=examples)
        rate = batch / examples
        sampling = "" if cap is None else f", max_batch_size: {whole_number(cap, 'truncated_batch_size')}"
        if sampling and loader != "poisson":
            raise InputError(f"{name} truncated_batch_size: expected Poisson sampling with it, got {loader} batches")
    updates, steps, training = finite_number(given[length], length), None, ""
    if library != "Opacus":
        training = f"batch_size: {number_text(batch)}, {length}: {number_text(updates)}"
    elif length == "steps":
        steps = whole_number(updates, "steps")
    else:  # get_noise_multiplier rounds down; an engine draws len(loader) batches in each of the epochs
        steps = math.floor(updates / rate) if name == "get_noise_multiplier" else math.ceil(updates / rate)

    # A statement of TF-Privacy halves the noise for microbatches, which are its default.
    halves, noise = name == "compute_dp_sgd_privacy_statement" and given.get("used_microbatching", True), _NOISE
    if not isinstance(halves, bool):
        raise InputError(f"used_microbatching: expected True or False, got {shown(halves)}")
    if not is_solved:
        noise = decimal_down(finite_number(given["noise_multiplier"], "noise_multiplier") / (2 if halves else 1))
    clip = f", max_grad_norm: {number_text(norm)}" if "max_grad_norm" in given and isinstance(norm, Fraction) else ""
    unknown = [adjacency, draws, *([_ORDER] if loader == "shuffle" else []), *([] if clip else [_CLIP])]
    unknown += [_MICROBATCHES] if halves else []
    parts = own.get("num_microbatches")
    if parts is not None and whole_number(parts, "num_microbatches") != batch:
        clip += ", clip: batch"  # the clipped mean of several examples moves by up to two clip norms
        unknown.append("microbatches: each has several examples, and its mean is clipped")
    # Group privacy, by which TF-Privacy bounds a user: the same group is stated, and dpcalc composes it anew.
    user = "max_examples_per_user" if library == "TF-Privacy" else "examples_per_user"
    group = (given if library == "TF-Privacy" else own).get(user)
    size = 1 if group is None else whole_number(group, user)
    unknown.append(_UNIT if size == 1 else f"unit: any {size} examples are protected together, as those of one user")
    delta = given.get("delta")
    run = ImportedRun(
        origin=f"a call of {name} on line {call.line}",
        parts=(
            Part(
                sampling=f"{{scheme: {loader}{sampling}}}",
                mechanism=f"{{noise_multiplier: {noise}{clip}}}",
                training=training,
                steps=steps,
            ),
        ),
        unknown=tuple(unknown),
        delta=decimal_down(delta) if isinstance(delta, Fraction) else "",
        adjacency="replace-one" if is_fixed else "add-remove",
        examples=examples,
        group_size=size,
    )
    if (
        not is_solved
    ):  # with a noise multiplier nothing is looked for: the target of the call is then no part of the run
        return run

    # What the library is told where it looks for noise, as `noise_multiplier` states it. The accountant decides how
    # much noise that is: where it is not stated, the one counts whose noise is the least.
    accountant, engine = {"Opacus": "prv", "TF-Privacy": "rdp", "JAX-Privacy": "pld"}[library], given.get("accountant")
    others = [each for each in _OTHER_NOISE if given.get(each) not in (None, 1)]
    if library == "JAX-Privacy" and isinstance(engine, Call):
        configs = [each for each in (*engine.arguments, *engine.keywords.values()) if isinstance(each, Call)]
        others += [key for each in configs for key in each.keywords]
        engine = {"RdpAccountantConfig": "rdp", "PldAccountantConfig": "pld"}.get(configs[0].name) if configs else None
    others += ["accountant gdp, which the file names"] if engine == "gdp" else []
    if others:
        raise InputError(
            f"{name} {others[0]}: expected none where noise is looked for; its least is known for the library's own "
            "settings, upper bounds and plain Poisson draws of single examples; give --noise-multiplier"
        )
    if engine in ("rdp", "prv", "pld"):  # a list has no hash
        accountant = str(engine)
    elif name not in {"compute_noise", "DPKerasConfig"}:
        unknown.append(f"accountant: {accountant} with its own settings is assumed; rdp finds no less noise")
    if length == "steps":
        steps = whole_number(updates, "steps")
    elif library == "Opacus":  # its own arithmetic: int(epochs / sample_rate)
        steps = int(float(updates) / float(rate))
    else:  # int(math.ceil(epochs * n / batch_size))
        steps = math.ceil(float(updates) * float(given["n"]) / float(batch))
    floor, by = given.get("noise_lbd"), f"{library.lower()}.{accountant}"
    target = float(finite_number(given["target_epsilon"], "target_epsilon", low=1e-9))
    if name == "compute_noise" and isinstance(floor, Fraction) and isinstance(delta, Fraction):
        least = Calibration(epsilon=target, delta=float(delta), by=by, rate=rate, steps=steps).noise
        if floor > least:
            more = "the noise for the target, above which it returns 0, no noise"
            raise InputError(f"{name} noise_lbd: expected at most {least:.6g}, {more}; got {shown(floor)}")
    elif name == "compute_noise":
        unknown.append("noise_lbd: less than the noise for the target, else compute_noise returns 0")
    found_by = f"by: {by}, assuming: {{rate: {number_text(rate)}, steps: {steps}}}"
    return replace(run, found_by=found_by, target_epsilon=target, unknown=tuple(unknown))


def arguments_of_terms(terms: Terms) -> dict[str, Any]:
    """Return what the user gave, by the argument of a call that each stands for."""
    stated = {"n" if name == "examples" else name: number for name, number in vars(terms).items()}
    return {
        name: number for name, number in stated.items() if number is not None and name not in {"delta", "adjacency"}
    }
