"""Terms of training code written out: loaders by their class, batches of several parts, noise of several parties.

What a loader means is one row of LOADERS, read in the code of the version that it names. Whatever decides how it draws
must be stated, also where the class has a default: a wrong guess would be another run.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt, prod
from typing import Any, NamedTuple

from dpcalc.config import scalars
from dpcalc.config.scalars import BATCH_SIZE
from dpcalc.config.source import ConfigError
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entries_of, entry, text_at, without_keys
from dpcalc.guarantee import Adjacency
from dpcalc.keys import (
    COUNT,
    NUMBER,
    TEXT,
    TRUTH,
    AnyOf,
    Exact,
    Key,
    Schema,
    Structure,
    ValueType,
    WholeNumber,
    Word,
    WrongValueError,
    declare,
    mapping_of,
    optional,
)
from dpcalc.records import dataclass

LOADER = "loader"  # the scheme that a loader's class stands for

# A batch that consists of parts.

_PARTS = {"per_device": COUNT, "devices": COUNT, "accumulation": COUNT, "accumulates": Word(("draws", "physical"))}
_ACCUMULATES = (
    "draws: each part is a batch of its own that a Poisson loader draws, and the step adds them up (Opacus, "
    "several `backward` before one `step`); physical: one drawn batch is cut into parts that fit into memory "
    "(BatchMemoryManager), or the parts are batches of one shuffled pass"
)


def _whole_batch(node: Section) -> tuple[int, int, bool]:
    """Return (units of a part on all devices, parts, whether each is a draw) of a batch; ConfigError if it is wrong."""
    stated = entries_of(node)
    extra = next((each for key, each in stated.items() if key not in _PARTS), None)
    if extra is not None:
        hint = "a batch is {per_device: 16, devices: 8, accumulation: 4, accumulates: physical}"
        raise extra.config_error("DPC101", "is no part of a batch", hint)
    when = {"accumulates": ("accumulation", lambda parts: parts > 1)}
    values = _arguments(node, stated, _PARTS, ("per_device", "devices", "accumulation"), when=when)
    parts = values["accumulation"]
    return values["per_device"] * values["devices"], parts, parts > 1 and values["accumulates"] == "draws"


def _arguments(
    node: Section,
    stated: Mapping[str, Node],
    kinds: Mapping[str, ValueType],
    needs: Sequence[str],
    *,
    when: Mapping[str, tuple[str, Callable[[Any], bool]]],
    of: str = "",
) -> dict[str, Any]:
    """Return the values of what a loader or a batch needs, of which some depends `when` on others; else ConfigError."""
    values, errors, lacking = dict[str, Any](), [], []
    needs = [*needs, *({"order", "accumulates"} & stated.keys())]
    for needed in needs:
        value = stated.get(needed)
        if value is None:
            lacking.append(f"`{needed}`")
            continue
        try:
            values[needed] = scalars.checked(kinds[needed], value)
        except WrongValueError as cause:
            hint = _ACCUMULATES if needed == "accumulates" else ""
            errors.append(value.fault(cause.code, f"must be {cause.expected}, got {scalars.describe(value)}", hint))
            continue
        more = [each for each, (other, is_so) in when.items() if other == needed and is_so(values[needed])]
        needs += [each for each in more if each not in needs]
    if of:
        hint = "what decides how it draws has no default here: state it as the code has it"
        errors += [node.fault("DPC103", f"lacks {each} of {of}", hint) for each in lacking]
        hint = f"known of it are {', '.join(needs)}; if it changes which units a batch holds, state the scheme that "
        hint += "results, else leave it out"
        unknown = (stated[key] for key in stated.keys() - {*needs})
        problem = "is an argument of which dpcalc does not know what it does"
        errors += [node.fault("DPC101", problem, hint) for node in unknown]
    elif lacking:
        hint = "a number that may stand in a launcher has no default: say 1 where there is one"
        hint = _ACCUMULATES if lacking == ["`accumulates`"] else hint
        errors.append(node.fault("DPC103", f"lacks {' and '.join(lacking)}", hint))
    if errors:
        raise ConfigError(errors)
    return values


# What the classes draw.


class _Uncovered(Exception):
    """(argument, problem, way out) of a loader that no scheme stands for."""


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What is said of a loader, and of the data that it draws from."""

    values: Mapping[str, Any]  # of its arguments; the size of a batch is that of one part on all devices
    parts: int  # batches that a step adds up
    are_draws: bool  # whether each part is a draw of its own
    count: int | None  # units; None where nobody knows, or they differ
    adjacency: str

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    @property
    def size(self) -> int:
        """Units of a part: one argument, or the product of those that the class has in its place."""
        return prod(self.values[name] for name in _SIZES if name in self.values)

    @property
    def known_count(self) -> int:
        if self.count is None:
            raise _Uncovered("of", "needs one known number of units", "state it, or a scheme with a `rate`")
        return self.count

    @property
    def has_secret_order(self) -> bool:
        return bool(self.get("order") == "secret")

    @property
    def keeps_places(self) -> bool:
        """True if no neighbouring data set lacks a unit, so that all others keep their places in any order."""
        return self.adjacency in {Adjacency.ZERO_OUT.value, Adjacency.REPLACE_ONE.value}


Draw = dict[str, object]
_SIZES = (BATCH_SIZE, "per_device_train_batch_size", "world_size", "cohort_size", "size", "k")
_EVEN = "not covered: choose sizes that divide"
_LEFT_OUT = "leave it out: the order counts as known"
_IN_ANY_ORDER = "state adjacency zero-out or replace-one, under which a unit counts in one step of each pass"


def _pass(said: _Said, dropping: str = "drop_last") -> Draw:
    """Return passes over data in a new random order, cut into batches, of which a step takes `parts`."""
    # Which steps a pass has, and what it leaves out, goes by the parts, not by the whole of them.
    drops = said.get(dropping, False)
    if said.parts > 1 and drops and not said.keeps_places:
        raise _Uncovered(dropping, "is true beside accumulated batches: not covered for add-remove", _IN_ANY_ORDER)
    if said.parts > 1 and drops and said.has_secret_order:
        raise _Uncovered("order", f"is secret, beside accumulated batches and `{dropping}`: not covered", _LEFT_OUT)
    drawn = {"scheme": "shuffle", "size": said.size * said.parts, "drop_last": drops and said.parts == 1}
    return drawn | ({"order": "secret"} if said.has_secret_order else {})


def _in_order(said: _Said, argument: str, problem: str) -> Draw:
    """Return passes in an order that need not be uniform: one unit fewer moves all that come after it."""
    if not said.keeps_places:
        raise _Uncovered(argument, f"{problem}: one unit fewer moves all after it to other batches", _IN_ANY_ORDER)
    return {"scheme": "shuffle", "size": said.size * said.parts}


def _endless(said: _Said, size: int, argument: str, problem: str) -> Draw:
    """Return passes of a stream that does not stop between them: `size` units must divide a pass."""
    if said.count is None or said.count % size:
        problem += f", and {size} units do not divide all: a step has units of two passes"
        raise _Uncovered(argument, problem, _EVEN)
    return _in_order(said, argument, problem)


def _torch(said: _Said) -> Draw:
    if said.get("devices", 1) > 1:
        problem = f"is {said['devices']}: Lightning puts in a DistributedSampler, which fills the last batches up"
        raise _Uncovered("devices", problem, "not covered: units come twice in a pass")
    if said.get("replacement"):
        return {"scheme": "with-replacement", "size": said.size * said.parts}
    said = replace(said, parts=said.parts * said.get("accumulate_grad_batches", 1))
    return _pass(said) if said.get("shuffle", True) else _in_order(said, "shuffle", "is false")


def _opacus(said: _Said) -> Draw:
    if not said["poisson_sampling"]:
        problem = "is false: then batches are those of the loader that Opacus was given"
        raise _Uncovered("poisson_sampling", problem, "`of: torch.utils.data.DataLoader` with its `shuffle`")
    size = said.size * (1 if said.are_draws else said.parts)
    length = said.known_count // size if said["drop_last"] else -(-said.known_count // size)
    if not length:
        raise _Uncovered(BATCH_SIZE, f"is {size}, of {said.known_count} units: a loader without batches", "lower it")
    return {"scheme": "poisson", "rate": Fraction(1, length), **({"draws": said.parts} if said.are_draws else {})}


def _tf_data(said: _Said) -> Draw:
    if said.has_secret_order and not said["reshuffle_each_iteration"]:
        raise _Uncovered("order", "is secret, but `reshuffle_each_iteration: false` repeats it in each pass", _LEFT_OUT)
    if said.count is None or said["buffer_size"] < said.count:
        problem = f"is {said['buffer_size']}, fewer than all units, so that the order is no uniform one"
        return _in_order(said, "buffer_size", problem)
    return _pass(said, "drop_remainder")


def _hf_trainer(said: _Said) -> Draw:
    said = replace(said, parts=said["gradient_accumulation_steps"])
    is_even = said.keeps_places and said.count is not None and said.count % said.size == 0
    if said["world_size"] > 1 and not said["dataloader_drop_last"] and not is_even:
        problem = "is false: accelerate fills the last batches of several processes up with units that then come twice"
        raise _Uncovered("dataloader_drop_last", problem, "not covered; set it to true in the training code")
    if said.has_secret_order and said["world_size"] > 1:
        raise _Uncovered("order", "is secret, of several processes that each seed a sampler", _LEFT_OUT)
    if not said.keeps_places and not said.has_secret_order:
        problem = "has a seed, 42 by default: one unit fewer gives all others other places in an order that is known"
        raise _Uncovered("of", problem, f"{_IN_ANY_ORDER}, or `order: secret` where nobody knows the seed")
    return _pass(said, "dataloader_drop_last")


def _jax_poisson(said: _Said) -> Draw:
    cut = {} if said["truncated_batch_size"] is None else {"max_batch_size": said["truncated_batch_size"]}
    draw, groups = {"rate": said["sampling_prob"], **cut}, said["cycle_length"]
    if groups == 1:
        return {"scheme": "poisson", **draw}
    if said["partition_type"] != "INDEPENDENT" and not said.keeps_places:
        problem = "is EQUAL_SPLIT: one unit fewer moves others to other groups"
        raise _Uncovered("partition_type", problem, "INDEPENDENT, or adjacency zero-out or replace-one")
    return {"scheme": "cyclic-poisson", **draw, "groups": groups}


def _afresh(said: _Said) -> Draw:
    if said.get("random_seed") is not None:
        raise _Uncovered("random_seed", "is in the code: everybody can know whom a round draws", "set it to None there")
    is_repeated = said.get("replace") or said.get("sample_type") == "random"
    return {"scheme": "with-replacement" if is_repeated else "fixed", "size": said.size}


def _webdataset(said: _Said) -> Draw:
    if said["resampled"]:
        raise _Uncovered("resampled", "is true: shards are drawn with replacement", "not covered: no bound is proved")
    return _in_order(said, "of", "goes by shards and a buffer, in no uniform order")


def _grain(said: _Said) -> Draw:
    size = said.size * max(1, said["worker_count"])
    return _endless(said, size, BATCH_SIZE, "is of batches across the end of a pass, in the order of a seed")


def _streaming(said: _Said) -> Draw:
    for name in ("num_canonical_nodes", "world_size"):
        if said.count is None or said.count % said[name]:
            problem = "does not divide the number of samples: the last ones of a node or rank come twice in a pass"
            raise _Uncovered(name, problem, _EVEN)
    return _in_order(said, "of", "goes by shards and nodes, in no uniform order")


def _pfl(said: _Said) -> Draw:
    if said["sample_type"] == "random":
        return _afresh(said)
    return _endless(said, said.size, "cohort_size", "is of users in turn, `minimize_reuse`")


def _flower(said: _Said) -> Draw:
    fraction, fewest, *_ = said.values.values()
    # The product is rounded as Flower rounds it, in floating point.
    return {"scheme": "fixed", "size": max(int(said.known_count * float(fraction)), fewest)}


class _Optional(ValueType):
    """A whole number of at least 1, or `none`."""

    def check(self, value: object) -> int | None:
        return None if value in {"None", "none"} else COUNT.check(value)

    def as_json_schema(self) -> Schema:
        return {"anyOf": [COUNT.as_json_schema(), {"enum": ["None", "none"]}]}


_SHARE = Exact(Fraction(1, 10**15), Fraction(1), "more than 0 and at most 1", quotients=True)
_KINDS: dict[str, ValueType] = {
    BATCH_SIZE: COUNT,
    "shuffle": TRUTH,
    "drop_last": TRUTH,
    "replacement": TRUTH,
    "poisson_sampling": TRUTH,
    "buffer_size": COUNT,
    "drop_remainder": TRUTH,
    "reshuffle_each_iteration": TRUTH,
    "order": Word(("any", "secret")),
    "per_device_train_batch_size": COUNT,
    "gradient_accumulation_steps": COUNT,
    "world_size": COUNT,
    "dataloader_drop_last": TRUTH,
    "devices": COUNT,
    "accumulate_grad_batches": COUNT,
    "sampling_prob": _SHARE,
    "cycle_length": COUNT,
    "truncated_batch_size": _Optional(),
    "partition_type": Word(("EQUAL_SPLIT", "INDEPENDENT")),
    "replace": TRUTH,
    "resampled": TRUTH,
    "fraction_fit": _SHARE,
    "min_fit_clients": COUNT,
    "fraction_train": _SHARE,
    "min_train_nodes": COUNT,
    "worker_count": WholeNumber(0),
    "num_canonical_nodes": COUNT,
    "cohort_size": COUNT,
    "sample_type": Word(("random", "minimize_reuse")),
    "size": COUNT,
    "k": COUNT,
    "random_seed": _Optional(),
}


class Loader(NamedTuple):
    """One class: what must be said of it, what it draws, and where that was read."""

    needs: tuple[str, ...]  # arguments
    draw: Callable[[_Said], Draw]
    about: str  # for the table of the docs
    read: str  # library and version
    has_parts: bool = False  # whether `batch_size` may be one of several parts
    when: Mapping[str, tuple[str, Callable[[Any], bool]]] = {}  # needs that depend on another argument


_TORCH, _JAX, _FLOWER, _TFF = "PyTorch", "JAX-Privacy 2.0.0", "Flower 1.42", "TFF 0.88.0"
LOADERS: dict[str, Loader] = {
    "torch.utils.data.DataLoader": Loader(
        (BATCH_SIZE, "shuffle", "drop_last"), _torch, "`shuffle` with its `drop_last`", _TORCH, has_parts=True
    ),
    "torch.utils.data.RandomSampler": Loader(
        (BATCH_SIZE, "drop_last", "replacement"),
        _torch,
        "`with-replacement`; without replacement `shuffle`",
        _TORCH,
        has_parts=True,
    ),
    "opacus.PrivacyEngine": Loader(
        (BATCH_SIZE, "drop_last", "poisson_sampling"),
        _opacus,
        "`poisson` with `rate: 1/N`, N the batches of the loader over all data that it was given (`drop_last` decides "
        "it); `draws` where several are accumulated",
        "Opacus 1.6.0",
        has_parts=True,
    ),
    "keras.Model.fit": Loader((BATCH_SIZE, "shuffle"), _torch, "`shuffle`, for data in arrays", "Keras 3.15"),
    "tf.data.Dataset": Loader(
        (BATCH_SIZE, "drop_remainder", "buffer_size"),
        _tf_data,
        "`shuffle`, if the buffer holds all units and `batch` comes before `repeat`",
        "TensorFlow",
        when={"reshuffle_each_iteration": ("order", lambda order: order == "secret")},
    ),
    "transformers.Trainer": Loader(
        ("per_device_train_batch_size", "gradient_accumulation_steps", "world_size", "dataloader_drop_last"),
        _hf_trainer,
        "`shuffle` of the product, for zero-out and replace-one, else with `order: secret` (its seed is 42 by "
        "default); several processes only with `dataloader_drop_last`",
        "transformers 5.24, accelerate 1.15",
    ),
    "lightning.Trainer": Loader(
        (BATCH_SIZE, "shuffle", "drop_last", "devices", "accumulate_grad_batches"),
        _torch,
        "`shuffle` of the product, on one device",
        "Lightning 2.6",
    ),
    "jax_privacy.batch_selection.CyclicPoissonSampling": Loader(
        ("sampling_prob", "cycle_length", "truncated_batch_size"),
        _jax_poisson,
        "`poisson`, `max_batch_size` where it truncates; `cyclic-poisson` with a cycle",
        _JAX,
        when={"partition_type": ("cycle_length", lambda cycle: cycle > 1)},
    ),
    "jax_privacy.batch_selection.BallsInBinsSampling": Loader(
        ("cycle_length",),
        lambda said: {"scheme": "balls-in-bins", "bins": said["cycle_length"], "assignment": "held"},
        "`balls-in-bins`, `assignment: held`",
        _JAX,
    ),
    "jax_privacy.batch_selection.FixedBatchSampling": Loader(
        (BATCH_SIZE, "replace"), _afresh, "`fixed`, or `with-replacement`", _JAX
    ),
    "webdataset.WebDataset": Loader(
        (BATCH_SIZE, "resampled"), _webdataset, "one step in each pass, for zero-out and replace-one", "WebDataset 1.0"
    ),
    "grain.IndexSampler": Loader(
        (BATCH_SIZE, "worker_count"),
        _grain,
        "one step in each pass, for zero-out and replace-one, if `batch_size` x workers divides all records of a "
        "`DataLoader`: its order is a function of a seed, and no batch ends with a pass",
        "Grain 0.2.18",
    ),
    "streaming.StreamingDataset": Loader(
        (BATCH_SIZE, "num_canonical_nodes", "world_size"),
        _streaming,
        "one step in each pass, of `batch_size` from each rank, for zero-out and replace-one, if the canonical nodes "
        "and the ranks each divide all samples, without `epoch_size` and streams that repeat or choose",
        "MosaicML Streaming 0.13.0",
    ),
    "pfl.data.FederatedDataset": Loader(
        ("cohort_size", "sample_type"),
        _pfl,
        "`with-replacement` of users for `random`, which its accountants take for Poisson; users in turn for "
        "`minimize_reuse`, if cohorts divide them",
        "pfl-research 0.6.0",
    ),
    "tff.simulation.build_uniform_sampling_fn": Loader(
        ("size", "replace", "random_seed"), _afresh, "`fixed` out of all clients, or `with-replacement`", _TFF
    ),
    "tff.program.DatasetDataSource": Loader(
        ("k",),
        _afresh,
        "`fixed` out of all data sets, by `select(k)`",
        _TFF,
    ),
    "flwr.server.strategy.FedAvg": Loader(
        ("fraction_fit", "min_fit_clients"),
        _flower,
        "`fixed` out of all clients, all of them connected",
        _FLOWER,
    ),
    "flwr.serverapp.strategy.FedAvg": Loader(
        ("fraction_train", "min_train_nodes"),
        _flower,
        "`fixed` out of all nodes, all of them connected",
        _FLOWER,
    ),
}

# The keys of a draw, for the schema.

PARTS = Structure(
    mapping_of(
        {key: _PARTS[key].as_json_schema() for key in _PARTS} | {"accumulates": {"enum": ["draws", "physical"]}},
        ["per_device", "devices", "accumulation"],
    )
)
LOADER_KEYS: dict[str, Key] = {
    "of": optional(
        TEXT,
        "Of a loader: its class. Which arguments it needs, and the scheme that it stands for, is in docs/samplers.md.",
        is_short_form=True,
    ),
    BATCH_SIZE: optional(
        AnyOf((COUNT, PARTS)),
        "Of a loader: units of a batch; or {per_device: 16, devices: 8, accumulation: 4, accumulates: physical}.",
        is_short_form=True,
    ),
}
LOADER_KEYS |= {
    name: optional(kind, f"Of a loader: its argument `{name}`.", is_short_form=True)
    for name, kind in _KINDS.items()
    if name not in {BATCH_SIZE, "drop_last", "order", "size"}
}


# Writing out.


def written_out(draw: Node, count: Node | None, adjacency: str) -> Node:
    """Return a draw of so many units without a loader and without parts of a batch; ConfigError if none stands for it.

    Of what a loader lacks all is told at once.
    """
    scheme, batch = text_at(draw, "scheme"), entry(draw, BATCH_SIZE)
    if not isinstance(draw, Section) or (scheme != LOADER and (not scheme or not isinstance(batch, Section))):
        return draw
    if scheme != LOADER and isinstance(batch, Section):
        size, parts, are_draws = _whole_batch(batch)
        entries = dict(draw.entries)
        if are_draws and scheme == "poisson":
            entries["draws"] = _scalar(batch, parts)
            parts = 1
        elif are_draws and scheme != "with-replacement":
            hint = "physical, if they are parts of one batch or of one pass; no bound is proved for other sums"
            raise batch.config_error("DPC107", f"adds up {parts} draws of scheme {scheme}: not covered", hint)
        return replace(draw, entries={**entries, BATCH_SIZE: _scalar(batch, size * parts)})

    stated = {name: node for name, node in entries_of(draw).items() if name != "scheme"}
    of = stated.pop("of", None)
    name = of.text if isinstance(of, Scalar) else ""
    names = [each for each in LOADERS if each == name or (name and each.endswith(f".{name}"))]
    names = names or [each for each in LOADERS if name.replace("pytorch_lightning", "lightning") == each]
    if of is None or len(names) != 1:
        known = ", ".join(names or LOADERS)
        hint = f"known are {known}; for others state the scheme, see docs/samplers.md"
        if of is None:
            raise draw.config_error("DPC103", "lacks `of`, the class of the loader", hint)
        raise of.config_error("DPC104", f"must name one class, got {scalars.describe(of)}", hint)
    loader, parts, are_draws, devices, whole = LOADERS[names[0]], 1, False, None, dict[str, Scalar]()
    if loader.has_parts and isinstance(batch, Section):
        size, parts, are_draws = _whole_batch(batch)
        devices, whole = scalars.number_of(entry(batch, "devices")), {BATCH_SIZE: _scalar(batch, size)}
    values = _arguments(draw, stated | whole, _KINDS, loader.needs, when=loader.when, of=names[0])
    number = scalars.number_of(count)
    units = number.numerator if number is not None and number.denominator == 1 and number >= 1 else None
    said = _Said(values=values, parts=parts, are_draws=are_draws, count=units, adjacency=adjacency)
    try:
        if devices is not None and devices > 1 and loader.draw is not _opacus:
            problem = f"is that of {devices} devices: their DistributedSampler fills the last batches up with units "
            problem += "again"
            raise _Uncovered(BATCH_SIZE, problem, "with its drop_last=True state `scheme: shuffle, drop_last: true`")
        if are_draws and not {"poisson_sampling", "replacement"} & values.keys():
            raise _Uncovered(BATCH_SIZE, f"adds up draws of {names[0]}, which makes passes", "`accumulates: physical`")
        drawn = loader.draw(said)
        if said.has_secret_order and "order" not in drawn:
            raise _Uncovered("order", "is secret, where no pass has a uniform order", _LEFT_OUT)
    except _Uncovered as cause:
        argument, problem, hint = cause.args
        raise (stated.get(argument) or of).config_error("DPC104", problem, hint) from None
    # A value that is taken over keeps its node, and so its place.
    entries = {key: node for key, node in draw.entries.items() if key.startswith(USER_KEY)}
    for key, value in drawn.items():
        entries[key] = _scalar(draw.entries["scheme"] if key == "scheme" else stated.get(BATCH_SIZE) or of, value)
    return replace(draw, entries=entries)


# Noise of several parties, and clip norms of several layers.

NORMS: Schema = {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 1}
PARTIES = {
    "count": declare(COUNT, "Parties that each add noise.", advice="say how many parties add noise"),
    "dropouts": declare(
        NUMBER,
        "Those that may fail to, or whose noise is known to somebody to whom the guarantee is about.",
        advice="say whose noise may be missing or known; 0 for none",
    ),
}
NOISE_KEYS: dict[str, Key] = {
    "parties": optional(
        Structure({"$ref": "#/$defs/Parties"}),
        "For type gaussian: {count: 4, dropouts: 0} where each of several parties adds noise of its own, to which "
        "`noise_multiplier` then refers.",
    ),
    "noise_relative_to": optional(
        Word(("joint", "layer")),
        "For a list of clip norms, one of each layer: joint where all noise is noise_multiplier x the root of the sum "
        "of their squares (Opacus), layer where that of each layer is noise_multiplier x its own clip norm.",
    ),
}
"""Keys of `mechanism` that are written out for type gaussian; `max_grad_norm` may be a list, NORMS, too."""


def mechanism_written_out(mechanism: Node | None) -> Node | None:
    """Return a mechanism with one clip norm and the noise of all parties together; ConfigError for a wrong one."""
    parties, norms, relative = (entry(mechanism, key) for key in ("parties", "max_grad_norm", "noise_relative_to"))
    if not isinstance(mechanism, Section) or (parties is None and relative is None and not isinstance(norms, Items)):
        return mechanism
    at = parties or relative or norms or mechanism
    if text_at(mechanism, "type", "gaussian") != "gaussian" or (parties is not None and entry(mechanism, "also")):
        hint = "state the noise of the whole sum"
        raise at.config_error("DPC107", "goes with type gaussian alone, and parties with one sum", hint)
    noise_node = entry(mechanism, "noise_multiplier")
    if isinstance(noise_node, Section):
        hint = "one clip norm, and no parties, beside `calibrated_to`"
        raise at.config_error("DPC107", "goes with a noise multiplier that is stated as a number", hint)
    noise = scalars.number_of(noise_node)
    if noise_node is None or noise is None or noise < 0:
        return without_keys(mechanism, "parties")  # an error by itself
    entries, square = dict(mechanism.entries), noise * noise
    if parties is not None:
        count, dropouts = (scalars.number_of(entry(parties, key)) for key in ("count", "dropouts"))
        numbers = [each for each in (count, dropouts) if each is not None and each.denominator == 1]
        if entries_of(parties).keys() != {"count", "dropouts"} or len(numbers) < 2 or not 0 <= numbers[1] < numbers[0]:
            problem = "must be {count: 4, dropouts: 0}: parties that each add noise, and how many of them may fail to"
            hint = "count those, too, whose noise somebody knows to whom the guarantee is about; fewer than `count`"
            raise parties.config_error("DPC104", problem, hint)
        square *= numbers[0] - numbers[1]
        del entries["parties"]
    if isinstance(norms, Items):
        lengths = [scalars.number_of(each) for each in norms.items]
        known = [each for each in lengths if each is not None and each > 0]
        if not known or len(known) < len(lengths):
            raise norms.config_error("DPC102", "must be numbers above 0, the clip norm of each layer")
        word = text_at(mechanism, "noise_relative_to")
        if word not in {"joint", "layer"}:
            hint = (
                "joint: the noise of each layer is noise_multiplier x the root of the sum of their squares (Opacus); "
            )
            hint += "layer: noise_multiplier x the clip norm of that layer"
            problem = "has a clip norm for each layer, and needs `noise_relative_to`: joint or layer"
            raise (relative or norms).config_error("DPC103", problem, hint)
        square /= len(known) if word == "layer" else 1
        entries["max_grad_norm"] = _scalar(norms, _root(sum((each * each for each in known), start=Fraction(0))))
    elif relative is not None:
        raise relative.config_error("DPC107", "is for `max_grad_norm` as a list, one of each layer", "take it out")
    entries.pop("noise_relative_to", None)
    entries["noise_multiplier"] = _scalar(noise_node, _root(square))
    return replace(mechanism, entries=entries)


def _root(square: Fraction) -> str:
    """Return the root as a decimal, exact where it is one, else rounded down."""
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    text = scalars.decimal_text(root) if root * root == square else None
    # 1e-14 covers the rounding of the square, of its root and of the product.
    return text or repr((1 - 1e-14) * math.sqrt(square))


def delta_written_out(delta: Node | None, units: int | None) -> Node | None:
    """Return `{power: 1.1}` as units^-1.1, rounded down; ConfigError if that means nothing here."""
    if not isinstance(delta, Section):
        return delta
    power = scalars.number_of(entry(delta, "power"))
    if entries_of(delta).keys() != {"power"} or power is None or not 0 < power <= 10:
        hint = "1 / n^1.1 with n the fewest protected units"
        raise delta.config_error("DPC102", "must be a number, or {power: 1.1}, got a mapping", hint)
    if units is None:
        raise delta.config_error("DPC107", "needs the number of protected units, which is unknown", "state delta")
    if units < 2:
        raise delta.config_error("DPC106", f"of {units} protected unit is no probability below 1", "state delta")
    return _scalar(delta, repr((1 - 1e-12) * float(units) ** -float(power)))


def _scalar(node: Node, value: object) -> Scalar:
    """Return a value that was worked out, at the place of the one from which it was."""
    text = "true" if value is True else "false" if value is False else str(value)
    return Scalar(text=text, mark=node.mark, key=node.key, path=node.path)
