"""Events of dp_accounting (`DpEvent`) as parts of a run.

Fields and meaning: dp_accounting 0.6.0, dp_event.py; EpsilonDelta, ExponentialMechanism, DiscreteGaussian and
PermuteAndFlip are of later versions.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from dpcalc.errors import InputError
from dpcalc.imports.run import (
    MAX_DEPTH,
    Call,
    ImportedRun,
    Part,
    Terms,
    bound,
    decimal_down,
    finite_number,
    merged_parts,
    number_text,
    rate_of,
    shown,
    whole_number,
)

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
