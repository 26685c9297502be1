"""Accountant states of Opacus, and calls of Opacus and TF-Privacy, as runs.

Signatures: Opacus 1.6.0 (accountants/utils.py, privacy_engine.py); TF-Privacy 0.9.0 (compute_dp_sgd_privacy_lib.py,
compute_noise_from_budget_lib.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpcalc.errors import InputError
from dpcalc.imports.run import (
    Call,
    Expression,
    ImportedRun,
    Part,
    Terms,
    decimal_down,
    finite_number,
    merged,
    number_text,
    number_value,
    rate_of,
    shown,
    whole_number,
)

_MAX_ENTRIES = 100_000  # of a history
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
_ACCUMULATION = "accumulation: Opacus multiplies the rate by the batches of a step, which is no longer a Poisson draw"

# Positional parameters in their order; () for functions of Opacus, whose numbers are read by name alone.
_SIGNATURES: dict[str, tuple[str, ...]] = {
    "compute_dp_sgd_privacy": ("n", "batch_size", "noise_multiplier", "epochs", "delta"),
    "compute_dp_sgd_privacy_statement": (
        "number_of_examples",
        "batch_size",
        "num_epochs",
        "noise_multiplier",
        "delta",
        "used_microbatching",
        "max_examples_per_user",
    ),
    "compute_noise": ("n", "batch_size", "target_epsilon", "epochs", "delta"),
    "get_noise_multiplier": (),
    "make_private_with_epsilon": (),
    "make_private": (),
}
CALLS = frozenset(_SIGNATURES)
"""Names of the functions whose calls are read."""
_OUR_NAMES = {"number_of_examples": "n", "num_epochs": "epochs", "target_delta": "delta"}
_OPTIONS = {
    "n": "--dataset-size",
    "batch_size": "--batch-size",
    "epochs": "--epochs",
    "steps": "--steps",
    "delta": "--delta",
    "noise_multiplier": "--noise-multiplier",
    "sample_rate": "--sample-rate",
}


def accountant_run(state: Mapping[str, Any]) -> ImportedRun:
    """Return the run of an Opacus accountant's state, equal entries merged; InputError if malformed or without steps.

    Args:
        state: with the keys "history" (a list of noise multiplier, rate and steps) and, if it is the whole state,
            "mechanism". As a pickle holds them: nothing of it has been checked.

    Raises:
        InputError: it is no such state.
    """
    mechanism = state.get("mechanism")
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise InputError(
            f"mechanism: expected an accountant of Opacus, {', '.join(_MECHANISMS)}, got {shown(mechanism)}"
        )
    # Bounded before it is read: each entry is checked, and a file may repeat one object a million times.
    history = state["history"]
    if not isinstance(history, Sequence) or isinstance(history, str) or len(history) > _MAX_ENTRIES:
        raise InputError(f"history: expected a list of at most {_MAX_ENTRIES:,} entries, got something else")
    return ImportedRun(
        origin=f"the state of an Opacus accountant{f' ({mechanism})' if mechanism else ''}",
        parts=merged([_entry_part(entry, at) for at, entry in enumerate(history)]),
        unknown=(_ADJACENCY, _OPACUS_SAMPLING, _ACCUMULATION, _CLIP, _UNIT),
    )


def _entry_part(entry: Any, at: int) -> Part:  # noqa: ANN401  of a pickle or JSON
    """Return history[at], (noise, rate in (0, 1], whole steps >= 0), as a part of Poisson draws; or InputError."""
    if not isinstance(entry, (list, tuple)) or len(entry) != 3:
        raise InputError(f"history[{at}]: expected noise multiplier, rate and steps, got {shown(entry)}")
    # Of a pickle the numbers are those of Python, of JSON they are fractions already; a bool is no number.
    noise, rate, steps = (
        number_value(each) if isinstance(each, (int, float, Fraction)) and not isinstance(each, bool) else each
        for each in entry
    )
    chance = rate_of(rate, f"history[{at}] rate")
    return _poisson_part(
        finite_number(noise, f"history[{at}] noise multiplier"),
        chance,
        whole_number(steps, f"history[{at}] steps", low=0),
    )


def _poisson_part(noise: Fraction | None, rate: Fraction, steps: int) -> Part:
    """Return Poisson draws with Gaussian noise, its multiplier rounded down; None leaves "{noise}" to be solved for."""
    stated = "{noise}" if noise is None else decimal_down(noise)
    return Part(
        sampling=f"{{scheme: poisson, rate: {number_text(rate)}}}",
        mechanism=f"{{noise_multiplier: {stated}}}",
        steps=steps,
        rate=rate,
    )


def call_run(call: Call, terms: Terms) -> ImportedRun:
    """Return the run of a call; terms replace arguments (InputError: no place for one); no target if noise is known.

    Args:
        call: of one of `CALLS`.
        terms: what the user adds; it counts more than the call.

    Raises:
        InputError: a number is missing, no literal or out of range, or the call cannot be expressed.
    """
    names = _SIGNATURES[call.name]
    if len(call.arguments) > len(names):
        raise InputError(
            f"{call.name}: expected at most {len(names)} arguments without names, got {len(call.arguments)}"
        )
    stated = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    given = {_OUR_NAMES.get(name, name): value for name, value in stated.items()}
    added = {
        "n": terms.examples,
        "batch_size": terms.batch_size,
        "epochs": terms.epochs,
        "steps": terms.steps,
        "sample_rate": terms.sample_rate,
        "noise_multiplier": terms.noise_multiplier,
    }
    for name in ("steps", "sample_rate") if names else ("batch_size",):
        if added[name] is not None:
            raise InputError(
                f"{_OPTIONS[name]}: expected what {call.name} takes, got a number that it has no place for"
            )
    given |= {name: value for name, value in added.items() if value is not None}
    # Length is stated once: epochs of the user take the place of steps of the call, and the reverse.
    if terms.epochs is not None and terms.steps is None:
        given.pop("steps", None)
    if terms.steps is not None and terms.epochs is None:
        given.pop("epochs", None)
    run = _opacus_run(call.name, given) if not names else _tensorflow_run(call.name, given)
    stated_delta = given.get("delta")
    # A delta that is a name in the code is not known; without one at all `imported` asks for --delta.
    if terms.delta is None and isinstance(stated_delta, (Expression, Call)):
        _required(given, "delta", call.name)
    delta = "" if not isinstance(stated_delta, Fraction) else decimal_down(stated_delta)
    # With a noise multiplier nothing is solved for: the target of the call is then no part of the run.
    target = given.get("target_epsilon") if "noise_multiplier" not in given else None
    if target is not None:
        target = float(finite_number(target, "target_epsilon", low=1e-9))
    return ImportedRun(
        origin=f"a call of {call.name} on line {call.line}",
        parts=run.parts,
        unknown=run.unknown,
        delta=delta,
        examples=run.examples,
        group_size=run.group_size,
        target_epsilon=target,
    )


def _tensorflow_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return a call's run, no origin, delta, target; noise halved for a statement unless used_microbatching=False."""
    examples = whole_number(_required(given, "n", name), "number of examples")
    batch = finite_number(_required(given, "batch_size", name), "batch_size", low=1, high=examples)
    epochs = finite_number(_required(given, "epochs", name), "epochs")
    noise = None if name == "compute_noise" and "noise_multiplier" not in given else _noise(given, name)
    unknown = [_ADJACENCY, _TF_SAMPLING, _CLIP]
    if name == "compute_dp_sgd_privacy_statement":
        halved = given.get("used_microbatching", True)
        if not isinstance(halved, bool):
            raise InputError(f"used_microbatching: expected True or False, got {shown(halved)}")
        if halved and noise is not None:
            noise /= 2
            unknown.append(
                "microbatches: the function halves the noise multiplier unless it has used_microbatching=False, and so "
                "does this config; with microbatches of one example say so"
            )
    group = given.get("max_examples_per_user")
    size = 1 if group is None else whole_number(group, "max_examples_per_user")
    part = Part(
        sampling="{scheme: poisson}",
        mechanism=f"{{noise_multiplier: {'{noise}' if noise is None else decimal_down(noise)}}}",
        training=f"batch_size: {number_text(batch)}, epochs: {number_text(epochs)}",
        rate=Fraction(batch, examples),
    )
    # TF-Privacy bounds a user by group privacy: the same group is stated, and dpcalc composes it anew.
    unknown.append(_UNIT if size == 1 else f"unit: any {size} examples are protected together, as those of one user")
    return ImportedRun(origin="", parts=(part,), unknown=tuple(unknown), examples=examples, group_size=size)


def _opacus_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return a run, no origin, delta, target; no steps: epochs / rate as Opacus rounds; InputError if not Poisson."""
    if given.get("poisson_sampling", True) is not True:
        raise InputError(
            f"{name}: expected Poisson sampling, got poisson_sampling={shown(given['poisson_sampling'])}, for which "
            "Opacus counts as if it were; write a config with `scheme: shuffle`"
        )
    rate = rate_of(_required(given, "sample_rate", name), "sample_rate")
    if "steps" in given and given["steps"] is not None:
        steps = whole_number(_required(given, "steps", name), "steps")
    else:
        epochs = finite_number(_required(given, "epochs", name), "epochs")
        # get_noise_multiplier rounds down; an engine draws len(loader) batches in each of the epochs.
        steps = math.floor(epochs / rate) if name == "get_noise_multiplier" else math.ceil(epochs / rate)
    needs_noise = name == "make_private" or "noise_multiplier" in given
    part = _poisson_part(_noise(given, name) if needs_noise else None, rate, steps)
    if not needs_noise:
        _required(given, "target_epsilon", name)
    norm = given.get("max_grad_norm")
    if not isinstance(norm, Fraction):
        return ImportedRun(origin="", parts=(part,), unknown=(_ADJACENCY, _OPACUS_SAMPLING, _CLIP, _UNIT))
    clipped = f"{part.mechanism[:-1]}, max_grad_norm: {number_text(norm)}}}"
    return ImportedRun(
        origin="", parts=(replace(part, mechanism=clipped),), unknown=(_ADJACENCY, _OPACUS_SAMPLING, _UNIT)
    )


def _noise(given: Mapping[str, Any], name: str) -> Fraction:
    """Return the noise multiplier of a call."""
    return finite_number(_required(given, "noise_multiplier", name), "noise_multiplier")


def _required(given: Mapping[str, Any], argument: str, name: str) -> Any:  # noqa: ANN401  a value of the file
    """Return an argument; InputError on call `name` with the option that gives it, if missing, None or no literal."""
    value = given.get(argument)
    if value is not None and not isinstance(value, (Expression, Call)):
        return value
    theirs = next(
        (each for each, ours in _OUR_NAMES.items() if ours == argument and name.endswith("statement")), argument
    )
    way_out = f"give {_OPTIONS[argument]}" if argument in _OPTIONS else "write the number into the call"
    got = "none" if value is None else shown(value)
    raise InputError(f"{name}: expected a number for {theirs}, got {got}; {way_out}")
