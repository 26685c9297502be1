"""Accountant states of Opacus, and calls of Opacus, TF-Privacy and JAX-Privacy, as runs.

Signatures: Opacus 1.6.0 (accountants/utils.py, privacy_engine.py); TF-Privacy 0.9.0 (compute_dp_sgd_privacy_lib.py,
compute_noise_from_budget_lib.py, dp_optimizer_keras.py, dp_optimizer.py); JAX-Privacy 2.0.0 (keras_api.py,
accounting/analysis.py, accounting/calibrate.py, experimental/accounting.py).
"""

import math
import re
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
from dpcalc.planner.calibration import Calibration
from dpcalc.planner.words import UNKNOWN_ORDER

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
