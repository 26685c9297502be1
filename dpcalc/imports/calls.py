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
    merged_parts,
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
_MICROBATCHES = (
    "microbatches: the function halves the noise multiplier unless it has used_microbatching=False, and so does this "
    "config; with microbatches of one example say so"
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
_SOLVED = {"compute_noise", "get_noise_multiplier", "make_private_with_epsilon"}
OTHER_LIBRARY = (
    "JAX-Privacy, private-transformers, fastDP and the optimizers of TF-Privacy keep their numbers elsewhere, which is "
    "not read: write a config, see docs/configs.md, From your training code to a config"
)
"""What to do with a call that is no call of `CALLS`."""
_OUR_NAMES = {"number_of_examples": "n", "num_epochs": "epochs", "target_delta": "delta"}
OPTIONS = {
    "n": "--dataset-size",
    "batch_size": "--batch-size",
    "epochs": "--epochs",
    "steps": "--steps",
    "delta": "--delta",
    "noise_multiplier": "--noise-multiplier",
    "sample_rate": "--sample-rate",
    "target_epsilon": "--target-eps",
}
"""The option that gives each argument of a call."""
_LETTERS = {"sample_rate": "1/BATCHES", "noise_multiplier": "X", "target_epsilon": "E", "delta": "D"}


def accountant_run(state: Mapping[str, Any]) -> ImportedRun:
    """Return the run in an Opacus accountant's state, equal entries merged; InputError if malformed or without
    steps."""
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
        parts=merged_parts([_entry_part(entry, index) for index, entry in enumerate(history)]),
        unknown=(_ADJACENCY, _OPACUS_SAMPLING, _ACCUMULATION, _CLIP, _UNIT),
    )


def _entry_part(entry: Any, index: int) -> Part:
    """Return history[index], a noise multiplier, rate and steps, as Poisson draws; InputError if malformed."""
    if not isinstance(entry, (list, tuple)) or len(entry) != 3:
        raise InputError(f"history[{index}]: expected noise multiplier, rate and steps, got {shown(entry)}")
    # Of a pickle the numbers are those of Python, of JSON they are fractions already; a bool is no number.
    noise, rate, steps = (
        number_value(each) if isinstance(each, (int, float, Fraction)) and not isinstance(each, bool) else each
        for each in entry
    )
    chance = rate_of(rate, f"history[{index}] rate")
    return _poisson_part(
        finite_number(noise, f"history[{index}] noise multiplier"),
        chance,
        whole_number(steps, f"history[{index}] steps", low=0),
    )


def _poisson_part(noise: Fraction | None, rate: Fraction, steps: int, clip_norm: Fraction | None = None) -> Part:
    """Return steps of Poisson sampling; noise None stands for a noise multiplier that is solved for later."""
    clip = "" if clip_norm is None else f", max_grad_norm: {number_text(clip_norm)}"
    return Part(
        sampling=f"{{scheme: poisson, rate: {number_text(rate)}}}",
        mechanism=f"{{noise_multiplier: {_noise_text(noise)}{clip}}}",
        steps=steps,
        rate=rate,
    )


def _noise_text(noise: Fraction | None) -> str:
    """Return a noise multiplier rounded down to a decimal; "{noise}", to be replaced by a solved one, for None."""
    return "{noise}" if noise is None else decimal_down(noise)


def call_run(call: Call, terms: Terms) -> ImportedRun:
    """Return the run of a call, in which terms replace arguments; InputError if a number is missing or unusable."""
    given = _with_terms(call.name, _named_arguments(call), terms)
    if not _SIGNATURES[call.name]:
        _require_poisson(call.name, given)
    _refuse_incomplete(call.name, given, terms)
    read = _tensorflow_run if _SIGNATURES[call.name] else _opacus_run
    return replace(
        read(call.name, given),
        origin=f"a call of {call.name} on line {call.line}",
        delta=_delta(call.name, given, is_replaced=terms.delta is not None),
        target_epsilon=_target_epsilon(given),
    )


def _named_arguments(call: Call) -> dict[str, Any]:
    """Return a call's arguments by dpcalc's names; InputError for too many arguments without names."""
    names = _SIGNATURES[call.name]
    if not names and call.arguments:
        raise InputError(
            f"{call.name}: expected the call of Opacus, whose arguments all have names, got one with arguments without "
            f"names; {OTHER_LIBRARY}"
        )
    if len(call.arguments) > len(names):
        raise InputError(
            f"{call.name}: expected at most {len(names)} arguments without names, got {len(call.arguments)}"
        )
    stated = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    return {_OUR_NAMES.get(name, name): value for name, value in stated.items()}


def _refuse_incomplete(name: str, given: Mapping[str, Any], terms: Terms) -> None:
    """Raise InputError with all numbers that a call lacks, and the options that give them, if it lacks several."""
    is_solved = name in _SOLVED and "noise_multiplier" not in given
    wanted = ["n", "batch_size", "epochs"] if _SIGNATURES[name] else ["sample_rate"]
    wanted += [] if _SIGNATURES[name] or given.get("steps") is not None else ["epochs"]
    wanted += ["target_epsilon" if is_solved else "noise_multiplier"]
    missing = {each: given.get(each) for each in wanted if isinstance(given.get(each), Expression | Call | None)}
    if terms.delta is None and isinstance(given.get("delta"), Expression | Call | None):
        missing["delta"] = given.get("delta")
    if len(missing) < 2:
        return  # `_required` names a single one, and `imported` a missing delta
    code = [shown(value).removesuffix(", which is not run") for value in missing.values() if value is not None]
    got = f"{', '.join(code)}, which are not run" if code else "none"
    options = " ".join(f"{OPTIONS[each]} {_LETTERS.get(each, 'N')}" for each in missing)
    raise InputError(f"{name}: expected numbers for {', '.join(missing)}, got {got}; give {options}")


def _with_terms(name: str, given: Mapping[str, Any], terms: Terms) -> dict[str, Any]:
    """Return the arguments with the user's terms in their place; InputError for a term that the call has no place for.

    Length is stated once: epochs of the user replace steps of the call, and the reverse.
    """
    added = arguments_of_terms(terms)
    _refuse_arguments_without_place(name, added)
    replaced = {**given, **added}
    if "epochs" in added and "steps" not in added:
        replaced.pop("steps", None)
    if "steps" in added and "epochs" not in added:
        replaced.pop("epochs", None)
    return replaced


def arguments_of_terms(terms: Terms) -> dict[str, Fraction]:
    """Return the numbers that the user gave, by the argument of a call that each stands for."""
    arguments = {
        "n": terms.examples,
        "batch_size": terms.batch_size,
        "sample_rate": terms.sample_rate,
        "epochs": terms.epochs,
        "steps": terms.steps,
        "noise_multiplier": terms.noise_multiplier,
        "target_epsilon": terms.target_epsilon,
    }
    return {argument: number for argument, number in arguments.items() if number is not None}


def _refuse_arguments_without_place(name: str, added: Mapping[str, Fraction]) -> None:
    """Raise InputError for a number that a call has no place for, such as steps added to a call of TF-Privacy."""
    if "noise_multiplier" in added and "target_epsilon" in added:
        raise InputError("--target-eps: expected it without --noise-multiplier, got both; keep one of them")
    without = ["steps", "sample_rate"] if _SIGNATURES[name] else ["batch_size"]
    without += [] if name in _SOLVED else ["target_epsilon"]
    for argument in without:
        if argument in added:
            raise InputError(f"{OPTIONS[argument]}: expected what {name} takes, got a number that it has no place for")


def _delta(name: str, given: Mapping[str, Any], *, is_replaced: bool) -> str:
    """Return a call's delta, rounded down, or "" if it is no number; InputError if it is code and not replaced."""
    delta = given.get("delta")
    # A delta that is a name in the code is not known; without one at all `imported` asks for --delta.
    if not is_replaced and isinstance(delta, (Expression, Call)):
        _required(given, "delta", name)
    return decimal_down(delta) if isinstance(delta, Fraction) else ""


def _target_epsilon(given: Mapping[str, Any]) -> float | None:
    """Return the target epsilon if the noise is to be solved for, else None; InputError for a target below 1e-9."""
    # With a noise multiplier nothing is solved for: the target of the call is then no part of the run.
    target = given.get("target_epsilon") if "noise_multiplier" not in given else None
    return None if target is None else float(finite_number(target, "target_epsilon", low=1e-9))


def _tensorflow_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return the run of a TF-Privacy call, which protects all examples of a user together; InputError if incomplete.

    `call_run` adds origin, delta and target epsilon.
    """
    examples = whole_number(_required(given, "n", name), "number of examples")
    part = _tensorflow_part(name, given, examples)
    # TF-Privacy bounds a user by group privacy: the same group is stated, and dpcalc composes it anew.
    group = given.get("max_examples_per_user")
    size = 1 if group is None else whole_number(group, "max_examples_per_user")
    unit = _UNIT if size == 1 else f"unit: any {size} examples are protected together, as those of one user"
    halved = (_MICROBATCHES,) if _has_halved_noise(name, given) else ()
    unknown = (_ADJACENCY, _TF_SAMPLING, _CLIP, *halved, unit)
    return ImportedRun(origin="", parts=(part,), unknown=unknown, examples=examples, group_size=size)


def _tensorflow_part(name: str, given: Mapping[str, Any], examples: int) -> Part:
    """Return a TF-Privacy call's batch size, epochs and noise as a Poisson part; InputError if one is missing."""
    batch = finite_number(_required(given, "batch_size", name), "batch_size", low=1, high=examples)
    epochs = finite_number(_required(given, "epochs", name), "epochs")
    return Part(
        sampling="{scheme: poisson}",
        mechanism=f"{{noise_multiplier: {_noise_text(_tensorflow_noise(name, given))}}}",
        training=f"batch_size: {number_text(batch)}, epochs: {number_text(epochs)}",
        rate=Fraction(batch, examples),
    )


def _tensorflow_noise(name: str, given: Mapping[str, Any]) -> Fraction | None:
    """Return a call's noise multiplier, halved for microbatches; None if compute_noise has to solve for it."""
    if name == "compute_noise" and "noise_multiplier" not in given:
        return None
    noise = _noise_multiplier(given, name)
    return noise / 2 if _has_halved_noise(name, given) else noise


def _has_halved_noise(name: str, given: Mapping[str, Any]) -> bool:
    """Return True for a privacy statement with microbatches, its default; InputError if that is no bool."""
    if name != "compute_dp_sgd_privacy_statement":
        return False
    has_microbatches = given.get("used_microbatching", True)
    if not isinstance(has_microbatches, bool):
        raise InputError(f"used_microbatching: expected True or False, got {shown(has_microbatches)}")
    return has_microbatches


def _opacus_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return the run of an Opacus call, with its clip norm if stated; InputError if incomplete or not Poisson.

    `call_run` adds origin, delta and target epsilon.
    """
    rate = rate_of(_required(given, "sample_rate", name), "sample_rate")
    steps = _opacus_steps(name, given, rate)
    noise = _opacus_noise(name, given)
    stated = given.get("max_grad_norm")
    clip_norm = stated if isinstance(stated, Fraction) else None
    part = _poisson_part(noise, rate, steps, clip_norm)
    clip = (_CLIP,) if clip_norm is None else ()
    return ImportedRun(origin="", parts=(part,), unknown=(_ADJACENCY, _OPACUS_SAMPLING, *clip, _UNIT))


def _require_poisson(name: str, given: Mapping[str, Any]) -> None:
    """Raise InputError if a call states `poisson_sampling` as anything but True."""
    if given.get("poisson_sampling", True) is not True:
        raise InputError(
            f"{name}: expected Poisson sampling, got poisson_sampling={shown(given['poisson_sampling'])}, for which "
            "Opacus counts as if it were; write a config with `scheme: shuffle`"
        )


def _opacus_noise(name: str, given: Mapping[str, Any]) -> Fraction | None:
    """Return a call's noise multiplier; None for a target epsilon, except in make_private; InputError for neither."""
    if name == "make_private" or "noise_multiplier" in given:
        return _noise_multiplier(given, name)
    _required(given, "target_epsilon", name)
    return None


def _opacus_steps(name: str, given: Mapping[str, Any], rate: Fraction) -> int:
    """Return the stated steps, or else the stated epochs / rate, rounded as the library does; InputError if neither."""
    if given.get("steps") is not None:
        return whole_number(_required(given, "steps", name), "steps")
    epochs = finite_number(_required(given, "epochs", name), "epochs")
    # get_noise_multiplier rounds down; an engine draws len(loader) batches in each of the epochs.
    return math.floor(epochs / rate) if name == "get_noise_multiplier" else math.ceil(epochs / rate)


def _noise_multiplier(given: Mapping[str, Any], name: str) -> Fraction:
    """Return the noise multiplier of a call, >= 0; InputError if it is missing or no number."""
    return finite_number(_required(given, "noise_multiplier", name), "noise_multiplier")


def _required(given: Mapping[str, Any], argument: str, name: str) -> Any:
    """Return an argument of a call; InputError, with the way to give it, if it is missing, None or code."""
    value = given.get(argument)
    if value is not None and not isinstance(value, (Expression, Call)):
        return value
    theirs = next(
        (each for each, ours in _OUR_NAMES.items() if ours == argument and name.endswith("statement")), argument
    )
    way_out = f"give {OPTIONS[argument]}" if argument in OPTIONS else "write the number into the call"
    got = "none" if value is None else shown(value)
    raise InputError(f"{name}: expected a number for {theirs}, got {got}; {way_out}")
