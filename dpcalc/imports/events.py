"""Events of dp_accounting (`DpEvent`) as parts of a run.

Fields and meaning: dp_accounting 0.6.0, dp_event.py; EpsilonDelta, ExponentialMechanism, DiscreteGaussian and
PermuteAndFlip are of later versions.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dpcalc.errors import InputError
from dpcalc.imports.run import (
    MAX_DEPTH,
    Call,
    ImportedRun,
    Part,
    Terms,
    decimal_down,
    finite_number,
    merged_parts,
    number_text,
    rate_of,
    shown,
    whole_number,
)
from dpcalc.records import dataclass

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
_COMPOSITIONS = frozenset(["ComposedDpEvent", "SelfComposedDpEvent"])
_SAMPLINGS = frozenset(["PoissonSampledDpEvent", "SampledWithReplacementDpEvent", "SampledWithoutReplacementDpEvent"])
_OPTIONAL = {"xi": Fraction(0), "sensitivity": Fraction(1), "dimension": None}


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """Draw of the records of an event.

    Attributes:
        sampling: content of `sampling:` without braces; "" for a Poisson draw, whose rate says all.
        rate: inclusion probability, 1 without sampling.
        examples: size of the data, where the event states it.
        event_name: class of the event that draws, for messages; "" without sampling.
    """

    sampling: str = ""
    rate: Fraction = Fraction(1)
    examples: int | None = None
    event_name: str = ""

    @property
    def text(self) -> str:
        """Content of the `sampling:` section."""
        return f"{{{self.sampling or f'scheme: poisson, rate: {number_text(self.rate)}'}}}"


_ALL = _Draw(sampling="scheme: all")


class _Release(NamedTuple):
    """Steps of one mechanism, with the draw that `part.sampling` states.

    Attributes:
        draw: draw of the records.
        part: the steps.
    """

    draw: _Draw
    part: Part


def _release(draw: _Draw, mechanism: str, steps: int) -> _Release:
    return _Release(draw, Part(sampling=draw.text, mechanism=mechanism, steps=steps, rate=draw.rate))


def event_run(event: Call, terms: Terms) -> ImportedRun:
    """Return the run of an event, a RepeatAndSelect around it as its tuning; InputError if dpcalc cannot express it.

    Equal releases become one part.
    """
    repeated, tuning = _repeated_event(event)
    releases = list(_releases(repeated, _ALL, 1, 0))
    examples = _data_size(releases, terms)
    parts = [release.part for release in releases]
    return ImportedRun(
        origin="a dp_accounting DpEvent",
        parts=merged_parts(parts),
        unknown=_unknown(releases),
        adjacency=_adjacency(parts),
        examples=examples,
        tuning=tuning,
    )


def _repeated_event(event: Call) -> tuple[Call, str]:
    """Return the event that RepeatAndSelect repeats and its tuning as text; (`event`, "") for any other event."""
    if event.name != "RepeatAndSelectDpEvent":
        return event, ""
    fields = _field_values(event)
    tuning = _tuning(fields)
    return _inner_event(fields["event"], event.name), tuning


def _data_size(releases: Sequence[_Release], terms: Terms) -> int | None:
    """Return the size of the data that draws or terms state; None if neither does; InputError for different sizes."""
    # A config has one data set; events that state several sizes are of several runs.
    sizes = {release.draw.examples for release in releases if release.draw.examples is not None}
    if terms.examples is not None:
        sizes.add(whole_number(terms.examples, "--dataset-size"))
    if len(sizes) > 1:
        raise InputError(
            f"source_dataset_size: expected one size of the data, got {', '.join(map(str, sorted(sizes)))}"
        )
    return next(iter(sizes), None)


def _adjacency(parts: Sequence[Part]) -> str:
    """Return "replace-one" if a part needs it, else "zero-out" if a part is a tree, else "add-remove"."""
    if _needs_replace_one(parts):
        return "replace-one"
    return "zero-out" if _has_tree(parts) else "add-remove"


def _has_tree(parts: Sequence[Part]) -> bool:
    return any("strategy: tree" in part.mechanism for part in parts)


def _needs_replace_one(parts: Sequence[Part]) -> bool:
    """Return True if a part draws a fixed size or with replacement, or if its mechanism is randomized response."""
    return any(
        "fixed" in part.sampling or "replacement" in part.sampling or "randomized-response" in part.mechanism
        for part in parts
    )


def _unknown(releases: Sequence[_Release]) -> tuple[str, ...]:
    """Return sentences on what an event does not state: the adjacency, the loader if it draws, and the clip norm."""
    parts = [release.part for release in releases]
    scheme = "Poisson" if any("poisson" in part.sampling for part in parts) else "fixed-size"
    is_sampled = any(release.draw.event_name for release in releases)
    return (
        _adjacency_note(parts),
        *([f"sampling: {scheme} draws are stated; check that the loader draws so"] if is_sampled else []),
        "clip norm: epsilon does not depend on it; the noise must be relative to it",
    )


def _adjacency_note(parts: Sequence[Part]) -> str:
    """Return the sentence that an event has no adjacency, with the reason for any but add-remove."""
    sized = " (fixed-size draws and randomized response: replace-one)" if _needs_replace_one(parts) else ""
    tree = " (trees: zero-out, since removing a record would shift all later ones)" if _has_tree(parts) else ""
    return f"adjacency: an event does not say it, its accountant does{sized}{tree}"


def _releases(event: Call, draw: _Draw, count: int, depth: int) -> Iterator[_Release]:
    """Yield the releases in an event within `draw`, nested ones too, `count` times; InputError without a config."""
    if depth > MAX_DEPTH:
        raise InputError(f"{event.name}: expected at most {MAX_DEPTH} events within one another, got more")
    fields, name = _field_values(event), event.name
    if name in _COMPOSITIONS and draw.event_name:
        # Within a draw the parts share one sample: as draws of their own they would cost less than they do.
        yield from _gaussians_on_one_sample(event, draw, count)
    elif name in _COMPOSITIONS:
        for inner, times in _composed_events(event, fields):
            yield from _releases(inner, draw, count * times, depth + 1)
    elif name in _SAMPLINGS:
        yield from _releases(_inner_event(fields["event"], name), _draw_within(name, fields, draw), count, depth + 1)
    elif name in _WITH_OWN_DRAW:
        yield _release_with_own_draw(name, fields, draw, count)
    elif name != "NoOpDpEvent":
        yield _release(draw, _mechanism(name, fields), count)


def _release_with_own_draw(name: str, fields: dict[str, Any], outer: _Draw, count: int) -> _Release:
    """Return the release of an event that draws by itself; InputError if it is within another draw."""
    if outer.event_name:
        raise InputError(f"{name}: expected it on all records, got it within {outer.event_name}")
    return _WITH_OWN_DRAW[name](fields, count)


def _composed_events(event: Call, fields: dict[str, Any]) -> Iterator[tuple[Call, int]]:
    """Yield (event, how often) for the direct parts of a (self-)composition; InputError for a part that is no event."""
    if event.name == "SelfComposedDpEvent":
        yield _inner_event(fields["event"], event.name), whole_number(fields["count"], f"{event.name} count", low=0)
        return
    if not isinstance(fields["events"], list):
        raise InputError(f"ComposedDpEvent events: expected a list of events, got {shown(fields['events'])}")
    for inner in fields["events"]:
        yield _inner_event(inner, event.name), 1


def _gaussians_on_one_sample(event: Call, draw: _Draw, count: int) -> Iterator[_Release]:
    """Yield Gaussians on one sample as one release, if there are any; InputError for other mechanisms."""
    noises = _noises_on_one_sample(event, draw.event_name)
    if noises:
        also = ", ".join(f"{{noise_multiplier: {noise}}}" for noise in noises[1:])
        text = f"{{noise_multiplier: {noises[0]}{f', also: [{also}]' if also else ''}}}"
        yield _release(draw, text, count)


def _noises_on_one_sample(composition: Call, draw_name: str) -> list[str]:
    """Return the noise multiplier of every Gaussian in nested compositions; InputError for others or over 100."""
    noises: list[str] = []
    pending = [(composition, 1)]
    while pending:
        inner, times = pending.pop()
        fields = _field_values(inner)
        if inner.name in _COMPOSITIONS:
            pending += reversed([(each, times * number) for each, number in _composed_events(inner, fields)])
        elif inner.name == "GaussianDpEvent" and len(noises) + times <= _MAX_SUMS:
            noises += [decimal_down(finite_number(fields["noise_multiplier"], "noise_multiplier"))] * times
        elif inner.name != "NoOpDpEvent":
            raise InputError(
                f"{draw_name}: expected one mechanism, or at most {_MAX_SUMS} Gaussian ones, on one sample, got "
                f"{inner.name} beside others; sample for each of them, or state a phase by hand"
            )
        if len(pending) > _MAX_SUMS:
            raise InputError(f"{draw_name}: expected at most {_MAX_SUMS} mechanisms on one sample, got more")
    return noises


def _draw_within(name: str, fields: dict[str, Any], outer: _Draw) -> _Draw:
    """Return the draw of a sampling event inside `outer`; InputError unless both are Poisson or `outer` is no draw."""
    # A Poisson draw of a Poisson draw is one at the product of the rates; no other pair of draws is a single draw.
    if name == "PoissonSampledDpEvent" and (not outer.event_name or not outer.sampling):
        rate = rate_of(fields["sampling_probability"], f"{name} sampling_probability")
        return _Draw(rate=rate * outer.rate, event_name=name)
    if outer.event_name:
        raise InputError(
            f"{name}: expected a draw from all records, got one within {outer.event_name}; state levels by hand"
        )
    return _sized_draw(name, fields)


def _sized_draw(name: str, fields: dict[str, Any]) -> _Draw:
    """Return a draw of a fixed number of records, with replacement or not; InputError for invalid numbers."""
    examples = whole_number(fields["source_dataset_size"], "source_dataset_size")
    size = whole_number(fields["sample_size"], "sample_size")
    scheme = "fixed" if name == "SampledWithoutReplacementDpEvent" else "with-replacement"
    return _Draw(
        sampling=f"scheme: {scheme}, size: {size}",
        rate=min(Fraction(1), Fraction(size, examples)),
        examples=examples,
        event_name=name,
    )


def _capped_poisson_release(fields: dict[str, Any], count: int) -> _Release:
    """Return `count` steps of Gaussian noise on Poisson batches of a largest size; InputError for invalid numbers."""
    name = "TruncatedSubsampledGaussianDpEvent"
    rate = rate_of(fields["sampling_probability"], f"{name} sampling_probability")
    cap = whole_number(fields["truncated_batch_size"], "truncated_batch_size")
    examples = whole_number(fields["dataset_size"], "dataset_size")
    draw = _Draw(
        sampling=f"scheme: poisson, rate: {number_text(rate)}, max_batch_size: {cap}",
        rate=rate,
        examples=examples,
        event_name=name,
    )
    noise = decimal_down(finite_number(fields["noise_multiplier"], "noise_multiplier"))
    return _release(draw, f"{{noise_multiplier: {noise}}}", count)


def _mixture_release(fields: dict[str, Any], count: int) -> _Release:
    """Return a mixture of the sensitivities 0 and 1 as Poisson sampling; InputError for other sensitivities."""
    name = "MixtureOfGaussiansDpEvent"
    sensitivities, chances = fields["sensitivities"], fields["sampling_probs"]
    if not isinstance(chances, list) or sensitivities not in ([0, 1], [1, 0]) or len(chances) != 2:
        raise InputError(
            f"{name}: expected the sensitivities 0 and 1, which are one draw of one example, got others; a user with "
            "several examples is two levels, user and example, with `clip: example`"
        )
    draw = _Draw(rate=rate_of(chances[sensitivities.index(1)], f"{name} sampling_probs"), event_name=name)
    noise = decimal_down(finite_number(fields["standard_deviation"], "standard_deviation"))
    return _release(draw, f"{{noise_multiplier: {noise}}}", count)


def _tree_release(fields: dict[str, Any], count: int) -> _Release:
    """Return the release of the largest tree, for one epoch in any order; InputError unless `count` is 1."""
    name = "SingleEpochTreeAggregationDpEvent"
    stated = fields["step_counts"]
    counts = [whole_number(each, f"{name} step_counts") for each in (stated if isinstance(stated, list) else [stated])]
    if not counts:
        raise InputError(f"{name} step_counts: expected at least one number of steps, got none")
    noise = decimal_down(finite_number(fields["noise_multiplier"], "noise_multiplier"))
    if count != 1:
        raise InputError(f"{name}: expected one epoch, got {count}; state `max_participations` by hand")
    text = f"{{type: matrix-factorization, strategy: tree, noise_multiplier: {noise}, max_participations: 1}}"
    # Each record is in one of the trees, and the tree with most steps costs most.
    return _Release(_ALL, Part(sampling="{scheme: any-order}", mechanism=text, steps=max(counts)))


_WITH_OWN_DRAW: dict[str, Callable[[dict[str, Any], int], _Release]] = {
    "TruncatedSubsampledGaussianDpEvent": _capped_poisson_release,
    "MixtureOfGaussiansDpEvent": _mixture_release,
    "SingleEpochTreeAggregationDpEvent": _tree_release,
}
"""Events that hold their own draw."""


def _mechanism(name: str, fields: dict[str, Any]) -> str:
    """Return the text of `mechanism:` for an event; InputError if dpcalc has no mechanism for it."""
    if name == "RepeatAndSelectDpEvent":
        raise InputError(f"{name}: expected it around the whole run, got it within another event")
    if name not in _MECHANISMS:
        raise InputError(f"{name}: expected an event that dpcalc has a mechanism for, got one that it has none for")
    return f"{{{_MECHANISMS[name](fields)}}}"


def _noise_key(value: Any) -> str:
    """Return "noise_multiplier: X", X rounded down to a decimal; InputError for no number >= 0."""
    return f"noise_multiplier: {decimal_down(finite_number(value, 'noise multiplier'))}"


def _inverse_noise_key(value: Any) -> str:
    """Return "noise_multiplier: X" for noise with the parameter 1 / X, rounded down; InputError for one below 1e-9."""
    return f"noise_multiplier: {decimal_down(1 / _positive(value, 'parameter of the noise'))}"


def _require_unit_sensitivity(name: str, fields: dict[str, Any]) -> None:
    """Raise InputError unless an event of discrete noise has the sensitivity 1, which is its default."""
    if fields["sensitivity"] != 1:
        raise InputError(
            f"{name} sensitivity: expected 1, got {shown(fields['sensitivity'])}; discrete noise does not scale"
        )


def _discrete_laplace_keys(fields: dict[str, Any]) -> str:
    """Return the config keys of discrete Laplace noise 1 / `noise_parameter`; InputError unless sensitivity is 1."""
    _require_unit_sensitivity("DiscreteLaplaceDpEvent", fields)
    return f"type: discrete-laplace, {_inverse_noise_key(fields['noise_parameter'])}"


def _discrete_gaussian_keys(fields: dict[str, Any]) -> str:
    """Return the config keys of discrete Gaussian noise `sigma`; InputError unless sensitivity and dimension are 1."""
    _require_unit_sensitivity("DiscreteGaussianDpEvent", fields)
    if fields["dimension"] != 1:
        raise InputError(
            f"DiscreteGaussianDpEvent dimension: expected 1, got {shown(fields['dimension'])}; a sum is one number"
        )
    return f"type: discrete-gaussian, {_noise_key(fields['sigma'])}"


def _epsilon_delta_keys(fields: dict[str, Any]) -> str:
    """Return the config keys of `approximate-dp`, or `pure-dp` if delta is 0; InputError for numbers out of range."""
    epsilon = number_text(finite_number(fields["epsilon"], "epsilon"))
    delta = finite_number(fields["delta"], "delta", high=1)
    return (
        f"type: approximate-dp, epsilon: {epsilon}, delta: {number_text(delta)}"
        if delta
        else f"type: pure-dp, epsilon: {epsilon}"
    )


def _zcdp_keys(fields: dict[str, Any]) -> str:
    """Return the config keys of a zCDP mechanism with `rho`; InputError unless `xi`, where its curve starts, is 0."""
    if fields["xi"] != 0:
        raise InputError(f"ZCDpEvent xi: expected 0, got {shown(fields['xi'])}; state the curve as `rdp-curve`")
    return f"type: zcdp, rho: {number_text(finite_number(fields['rho'], 'rho'))}"


def _randomized_response_keys(fields: dict[str, Any]) -> str:
    """Return the config keys of randomized response, with the truth probability rounded up."""
    noise = finite_number(fields["noise_parameter"], "RandomizedResponseDpEvent noise_parameter", high=1)
    # With probability `noise` the answer is uniform over all buckets, the true one among them.
    buckets = whole_number(fields["num_buckets"], "RandomizedResponseDpEvent num_buckets", low=2)
    exact = 1 - noise + noise / buckets
    # A probability that is no decimal is rounded up: truer answers cost more.
    chance = number_text(exact) if "/" not in number_text(exact) else repr(math.nextafter(float(exact), 1.0))
    return f"type: randomized-response, truth_probability: {chance}, categories: {buckets}"


_MECHANISMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "NonPrivateDpEvent": lambda _: "noise_multiplier: 0",
    "GaussianDpEvent": lambda fields: _noise_key(fields["noise_multiplier"]),
    "LaplaceDpEvent": lambda fields: f"type: laplace, {_noise_key(fields['noise_multiplier'])}",
    "DiscreteLaplaceDpEvent": _discrete_laplace_keys,
    "DiscreteGaussianDpEvent": _discrete_gaussian_keys,
    # Its loss is that of Laplace noise of scale 1 / epsilon.
    "PermuteAndFlipDpEvent": lambda fields: f"type: laplace, {_inverse_noise_key(fields['epsilon'])}",
    "ExponentialMechanismDpEvent": lambda fields: (
        f"type: exponential, epsilon: {number_text(_positive(fields['epsilon'], 'epsilon'))}"
    ),
    "EpsilonDeltaDpEvent": _epsilon_delta_keys,
    "RandomizedResponseDpEvent": _randomized_response_keys,
    "ZCDpEvent": _zcdp_keys,
}
"""Content of the `mechanism:` section, without braces, of the events that release something."""


def _tuning(fields: dict[str, Any]) -> str:
    """Return the content of `tuning:` in braces, the mean and law of the number of runs; InputError if out of range."""
    mean = number_text(finite_number(fields["mean"], "RepeatAndSelectDpEvent mean"))
    return f"{{mean: {mean}, distribution: {_tuning_law(fields['shape'])}}}"


def _tuning_law(shape: Any) -> str:
    """Return the distribution of the number of repetitions that a shape stands for; InputError if invalid."""
    if shape == math.inf:
        return "poisson"
    number = finite_number(shape, "RepeatAndSelectDpEvent shape")
    # The truncated negative binomial distribution of Papernot and Steinke 2022, by its shape.
    names = {Fraction(1): "geometric", Fraction(0): "logarithmic"}
    return names.get(number) or f"negative-binomial, shape: {number_text(number)}"


def _positive(value: Any, where: str) -> Fraction:
    """Return a finite number >= 1e-9, the smallest that noise may be; InputError for any other."""
    return finite_number(value, where, low=1e-9)


def _inner_event(value: Any, name: str) -> Call:
    """Return `value` if it is a call, as events are; InputError, with the outer event's name, for anything else."""
    if not isinstance(value, Call):
        raise InputError(f"{name}: expected an event in it, got {shown(value)}")
    return value


def _field_values(event: Call) -> dict[str, Any]:
    """Return an event's fields by name, with defaults; InputError for an unknown event or wrong fields."""
    if event.name not in _FIELDS:
        raise InputError(f"{event.name[:60]}: expected an event of dp_accounting that dpcalc knows, got this one")
    names = _FIELDS[event.name]
    _refuse_extra_fields(event, names)
    given = dict(zip(names, event.arguments, strict=False)) | dict(event.keywords)
    if missing := [name for name in names if name not in given and name not in _OPTIONAL]:
        raise InputError(f"{event.name}: expected {', '.join(missing)} too, got none")
    return {name: given.get(name, _OPTIONAL.get(name)) for name in names}


def _refuse_extra_fields(event: Call, names: Sequence[str]) -> None:
    """Raise InputError if an event has a field not in `names`, too many, or one both by position and by name."""
    extra = [name for name in event.keywords if name not in names]
    if len(event.arguments) > len(names) or extra:
        got = ", ".join(extra) or f"{len(event.arguments)} values"
        raise InputError(f"{event.name}: expected the fields {', '.join(names) or '(none)'}, got {got[:80]}")
    # Fields may stand without names, in the order of the class, or with them.
    if twice := [name for name in names[: len(event.arguments)] if name in event.keywords]:
        raise InputError(f"{event.name}: expected {', '.join(twice)} once, got two values")
