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
_NOISE = "{noise}"  # a noise multiplier that is solved for later
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
    name, names = call.name, _SIGNATURES[call.name]
    if not names and call.arguments:
        raise InputError(
            f"{name}: expected the call of Opacus, whose arguments all have names, got one with arguments without "
            f"names; {OTHER_LIBRARY}"
        )
    if len(call.arguments) > len(names):
        raise InputError(f"{name}: expected at most {len(names)} arguments without names, got {len(call.arguments)}")
    stated = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    given = {_OUR_NAMES.get(each, each): value for each, value in stated.items()}

    # The user's terms take the place of arguments. Length is stated once: epochs of the user replace steps of the call,
    # and the reverse.
    added = arguments_of_terms(terms)
    if "noise_multiplier" in added and "target_epsilon" in added:
        raise InputError("--target-eps: expected it without --noise-multiplier, got both; keep one of them")
    without = ["steps", "sample_rate"] if names else ["batch_size"]
    for argument in without if name in _SOLVED else [*without, "target_epsilon"]:
        if argument in added:
            raise InputError(f"{OPTIONS[argument]}: expected what {name} takes, got a number that it has no place for")
    given |= added
    if "epochs" in added and "steps" not in added:
        given.pop("steps", None)
    if "steps" in added and "epochs" not in added:
        given.pop("epochs", None)

    if not names and given.get("poisson_sampling", True) is not True:
        raise InputError(
            f"{name}: expected Poisson sampling, got poisson_sampling={shown(given['poisson_sampling'])}, for which "
            "Opacus counts as if it were; write a config with `scheme: shuffle`"
        )

    # Several numbers that a call lacks are told at once, with the options that give them. `_required` names a single
    # one, and `imported` a missing delta.
    wanted = ["n", "batch_size", "epochs"] if names else ["sample_rate"]
    wanted += [] if names or given.get("steps") is not None else ["epochs"]
    wanted += ["target_epsilon" if name in _SOLVED and "noise_multiplier" not in given else "noise_multiplier"]
    missing = {each: given.get(each) for each in wanted if isinstance(given.get(each), Expression | Call | None)}
    delta = given.get("delta")
    if terms.delta is None and isinstance(delta, Expression | Call | None):
        missing["delta"] = delta
    if len(missing) > 1:
        code = [shown(value).removesuffix(", which is not run") for value in missing.values() if value is not None]
        got = f"{', '.join(code)}, which are not run" if code else "none"
        options = " ".join(f"{OPTIONS[each]} {_LETTERS.get(each, 'N')}" for each in missing)
        raise InputError(f"{name}: expected numbers for {', '.join(missing)}, got {got}; give {options}")

    run = _tensorflow_run(name, given) if names else _opacus_run(name, given)
    # A delta that is a name in the code is not known; without one at all `imported` asks for --delta.
    if terms.delta is None and delta is not None:
        _required(given, "delta", name)
    # With a noise multiplier nothing is solved for: the target of the call is then no part of the run.
    target = given.get("target_epsilon") if "noise_multiplier" not in given else None
    return replace(
        run,
        origin=f"a call of {name} on line {call.line}",
        delta=decimal_down(delta) if isinstance(delta, Fraction) else "",
        target_epsilon=None if target is None else float(finite_number(target, "target_epsilon", low=1e-9)),
    )


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


def _tensorflow_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return the run of a TF-Privacy call without origin, delta and target; InputError if incomplete."""
    examples = whole_number(_required(given, "n", name), "number of examples")
    batch = finite_number(_required(given, "batch_size", name), "batch_size", low=1, high=examples)
    epochs = finite_number(_required(given, "epochs", name), "epochs")
    # A statement halves the noise for microbatches, which are its default.
    has_microbatches = name == "compute_dp_sgd_privacy_statement" and given.get("used_microbatching", True)
    noise = _NOISE
    if name != "compute_noise" or "noise_multiplier" in given:
        number = _noise_multiplier(given, name)
        if not isinstance(has_microbatches, bool):
            raise InputError(f"used_microbatching: expected True or False, got {shown(has_microbatches)}")
        noise = decimal_down(number / 2 if has_microbatches else number)
    # TF-Privacy bounds a user by group privacy: the same group is stated, and dpcalc composes it anew.
    group = given.get("max_examples_per_user")
    size = 1 if group is None else whole_number(group, "max_examples_per_user")
    unit = _UNIT if size == 1 else f"unit: any {size} examples are protected together, as those of one user"
    part = Part(
        sampling="{scheme: poisson}",
        mechanism=f"{{noise_multiplier: {noise}}}",
        training=f"batch_size: {number_text(batch)}, epochs: {number_text(epochs)}",
    )
    unknown = (_ADJACENCY, _TF_SAMPLING, _CLIP, *([_MICROBATCHES] if has_microbatches else []), unit)
    return ImportedRun(origin="", parts=(part,), unknown=unknown, examples=examples, group_size=size)


def _opacus_run(name: str, given: Mapping[str, Any]) -> ImportedRun:
    """Return the run of an Opacus call without origin, delta and target; InputError if incomplete."""
    rate = rate_of(_required(given, "sample_rate", name), "sample_rate")
    if given.get("steps") is not None:
        steps = whole_number(_required(given, "steps", name), "steps")
    else:
        # get_noise_multiplier rounds down; an engine draws len(loader) batches in each of the epochs.
        batches = finite_number(_required(given, "epochs", name), "epochs") / rate
        steps = math.floor(batches) if name == "get_noise_multiplier" else math.ceil(batches)
    if name == "make_private" or "noise_multiplier" in given:
        noise = decimal_down(_noise_multiplier(given, name))
    else:
        _required(given, "target_epsilon", name)
        noise = _NOISE
    norm = given.get("max_grad_norm")
    clip = f", max_grad_norm: {number_text(norm)}" if isinstance(norm, Fraction) else ""
    part = Part(
        sampling=f"{{scheme: poisson, rate: {number_text(rate)}}}",
        mechanism=f"{{noise_multiplier: {noise}{clip}}}",
        steps=steps,
    )
    return ImportedRun(
        origin="", parts=(part,), unknown=(_ADJACENCY, _OPACUS_SAMPLING, *([] if clip else [_CLIP]), _UNIT)
    )


def _noise_multiplier(given: Mapping[str, Any], name: str) -> Fraction:
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
