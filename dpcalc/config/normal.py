"""The normal form of a plan as a config file, its hash, and the terms in which a config states sizes."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from fractions import Fraction

from dpcalc.config import scalars
from dpcalc.config.expand import runs
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import EPISODES, UNKNOWN
from dpcalc.config.source import Mark, source_of
from dpcalc.config.tree import Node, Scalar, Section, entry, node_at
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.kinds import Mechanism
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import (
    All,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
    WithReplacement,
)
from dpcalc.sampling.trees import Tree

_WORD = re.compile(r"[^\W\d_][\w-]*(?: [\w-]+)*")
_YAML_1_1 = frozenset({"yes", "no", "on", "off", "y", "n"})  # other readers take these words for truth values
MAX_WRITTEN_COUNTS = 10_000  # units of a tree; a config with more exceeds yaml_text.MAX_EVENTS
_NO_MARK = Mark(source_of("", "show"), 1, 1)


def normal_form(plan: Plan) -> str:
    """Return a YAML config that loads as the same plan, defaults written out; InputError if tree or rate are too long.

    Note:
        Numbers are exact. An expected number or a rate is written, whichever is a finite decimal, and the other
        one as a remark; where neither is one the rate is a quotient such as 1/97. `epochs` have become steps.
    """
    if len(plan.phases) == 1 and not plan.parts:
        run = tuple(_run_lines(plan.phases[0]))
    else:
        run = ("phases:", *(line for phase in plan.phases for line in phase_lines(phase)))
    return _lines_text((*_data_lines(plan), *run, *_terms_lines(plan)))


def unfinished_form(plan: Plan) -> str:
    """Return a config file with everything of a plan but its phases; it ends with `phases:`, to be continued."""
    return _lines_text((*_data_lines(plan), *_terms_lines(plan), "phases:"))


def phase_lines(phase: Phase) -> Iterator[str]:
    """Yield the lines of a phase as an entry of `phases:`, indented by two, without line breaks."""
    yield f"  - name: {quoted(phase.name)}"
    if phase.part:
        yield f"    part: {quoted(phase.part)}"
    yield from (f"    {line}" for line in _run_lines(phase))


def _lines_text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _data_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the version, the run's name and the levels with their counts or a tree."""
    hierarchy = plan.phases[0].hierarchy
    yield "version: 1"
    if plan.name:
        yield f"name: {quoted(plan.name)}"
    yield "data:"
    yield "  levels:"
    for level in hierarchy.levels:
        count: object = level.count if level.is_equal else f"{{min: {level.min_count}, max: {level.count}}}"
        count = UNKNOWN if level.is_assumed else count
        yield f"    - {{name: {quoted(level.name)}{'' if hierarchy.tree else f', count: {count}'}}}"
    if hierarchy.tree is not None:
        yield f"  tree: {_nested_counts_text(hierarchy.tree)}"


def _terms_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of privacy and accounting, then of budget, tuning and partition where the plan has them."""
    unit, delta = quoted(plan.unit_name), _float_text(plan.delta)
    yield f"privacy: {{unit: {unit}, adjacency: {plan.adjacency}, delta: {delta}, group_size: {plan.group_size}}}"
    yield f"accounting: {{method: {plan.method}}}"
    if plan.budget is not None:
        rise = plan.budget.max_increase_pct
        more = "" if rise is None else f", max_increase_pct: {_float_text(rise)}"
        yield f"budget: {{epsilon: {_float_text(plan.budget.epsilon)}{more}}}"
    if plan.tuning is not None:
        shape = f", shape: {_float_text(plan.tuning.shape)}" if plan.tuning.distribution == "negative-binomial" else ""
        yield f"tuning: {{mean: {_float_text(plan.tuning.mean)}, distribution: {plan.tuning.distribution}{shape}}}"
    if plan.partition is not None:
        parts = ", ".join(f"{{name: {quoted(part)}}}" for part in plan.partition.parts)
        yield f"partition: {{rule: {quoted(plan.partition.rule)}, parts: [{parts}]}}"


def _nested_counts_text(tree: Tree) -> str:
    """Return a tree as YAML text, nested lists of counts; InputError if it has more than MAX_WRITTEN_COUNTS units."""
    size = sum(map(len, tree.sizes))
    if size > MAX_WRITTEN_COUNTS:
        message = f"data.tree: expected at most {MAX_WRITTEN_COUNTS} units to be written out, got {size}"
        raise InputError(f"{message}; keep them in a file, `tree: {{file: counts.json}}`")
    return str(tree.nested())


def _run_lines(phase: Phase) -> Iterator[str]:
    """Yield the lines of a phase's sampling, mechanism and training."""
    yield "sampling:"
    yield from (f"  {line}" for line in _sampling_lines(phase))
    yield f"mechanism: {_mechanism_text(phase)}"
    yield f"training: {{steps: {phase.steps}}}"


def _sampling_lines(phase: Phase) -> Iterator[str]:
    """Yield the line of `episodes` if tasks are constructed, else one line for each level's draw."""
    if phase.hierarchy.episodes is not None:
        yield f"{EPISODES}: {_mapping_text(asdict(phase.hierarchy.episodes))}"
    else:
        yield from map(_draw_line, _written_levels(phase))


def _written_levels(phase: Phase) -> tuple[Level, ...]:
    """Return the phase's levels; the outermost of a part of the data has counts from 1, so that its rate is written."""
    outermost, *others = phase.hierarchy.levels
    # In a part, whose size is not known, an expected number of units would mean no rate.
    is_of_unknown_size = phase.part and outermost.count > 1
    return (replace(outermost, min_count=1) if is_of_unknown_size else outermost, *others)


def _draw_line(level: Level) -> str:
    """Return the line of a level's draw, a YAML mapping in braces, with a remark as a comment."""
    remark = _remark(level)
    period = {"redraw_every": level.redraw_every} if level.redraw_every > 1 else {}
    draw = _mapping_text({"scheme": level.scheme.name, **_amount(level), **_options(level.scheme), **period})
    return f"{quoted(level.name)}: {draw}{remark and f'  # {remark}'}"


def _mapping_text(entries: Mapping[str, object]) -> str:
    """Return a YAML mapping in braces of keys and their values, which are YAML texts, numbers or True."""
    texts = (f"{key}: {'true' if value is True else value}" for key, value in entries.items())
    return f"{{{', '.join(texts)}}}"


def _mechanism_text(phase: Phase) -> str:
    """Return a phase's mechanism as a YAML mapping in braces, with `votes` and `clip` where it has them."""
    votes = {"votes": quoted(phase.votes)} if phase.votes else {}
    clip = {"clip": quoted(phase.clip_names[phase.clip])} if phase.clips else {}
    return _mapping_text({"type": phase.mechanism.name, **_parameter_texts(phase.mechanism), **votes, **clip})


def _parameter_texts(mechanism: Mechanism) -> dict[str, str]:
    """Return a mechanism's finite parameters as YAML by key; `also` is a list of mappings, left out if it is empty."""
    stated = {key: value for key, value in mechanism.parameters.items() if value is not None and value != math.inf}
    others = [_mapping_text({"noise_multiplier": _float_text(noise)}) for noise in getattr(mechanism, "also", ())]
    also = {"also": f"[{', '.join(others)}]"} if others else {}
    return {key: _parameter_text(value) for key, value in stated.items() if key != "also"} | also


def _parameter_text(value: object) -> str:
    """Return a parameter of a mechanism as YAML: a number, a word or a list of such."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_parameter_text, value))}]"
    return value if isinstance(value, str) else _float_text(value)  # type: ignore[arg-type]  # what else there is


def _amount(level: Level) -> dict[str, object]:
    """Return how much a draw takes as {key: YAML value}, such as {"size": 64}; {} for all and any-order."""
    match level.scheme:
        case All():
            return {}
        case Fixed() | WithReplacement() | Shuffle() as scheme:
            is_limit = isinstance(scheme, Fixed) and scheme.at_most
            return {"size": f"{{at_most: {scheme.size}}}" if is_limit else scheme.size}
        case RandomAllocation(times=times):
            return {"times": times}
        case BallsInBins(bins=bins):
            return {"bins": bins}
        case Poisson(probability=rate) | CappedPoisson(probability=rate) if _is_expected_simpler(level, rate):
            return {"expected": scalars.decimal_text(rate * level.count)}
        case Poisson(probability=rate) | CappedPoisson(probability=rate) | CyclicPoisson(probability=rate):
            return {"rate": _rate_text(level, rate)}


def _remark(level: Level) -> str:
    """Return the comment on a draw, which its amount does not state: such as "rate 0.1" or "64 steps a pass", or ""."""
    limit = "" if level.is_equal else "at most "
    match level.scheme:
        case All():
            return ""
        case Shuffle() as shuffle:
            return f"{limit}{shuffle.steps_of_a_pass(level.count)} steps a pass"
        case Fixed(at_most=True):
            return "all where there are fewer"
        case Fixed() | WithReplacement():
            return f"rate {limit}{_rounded_text(level.rate)}"
        case RandomAllocation() | BallsInBins():
            return f"rate {_rounded_text(level.rate)}"
        case Poisson() | CappedPoisson() | CyclicPoisson() as poisson:
            return _poisson_remark(level, poisson)


def _poisson_remark(level: Level, scheme: Poisson | CappedPoisson | CyclicPoisson) -> str:
    """Return the remark on a Poisson draw: its rate if the expected number is written, else that number or ""."""
    rate = scheme.probability
    if "expected" in _amount(level):
        return f"rate {_rounded_text(rate)}"
    # Where counts differ the number has no meaning. That of a cyclic draw, if simpler, would be taken for one step's.
    if not level.is_equal or level.is_assumed or _is_expected_simpler(level, rate):
        return ""
    scope = "of all groups " if isinstance(scheme, CyclicPoisson) else ""
    return f"{scope}expected {_rounded_text(rate * level.count)}"


def _options(scheme: Scheme) -> dict[str, object]:
    """Return the options of a scheme that are not the default, by key as in configs; `at_most` is part of the size."""
    match scheme:
        case Shuffle(drop_last=True):
            return {"drop_last": True}
        case BallsInBins(is_held=True):
            return {"assignment": "held"}
        case CappedPoisson(max_batch_size=max_batch_size):
            return {"max_batch_size": max_batch_size}
        case CyclicPoisson():
            keys = {name: getattr(scheme, name) for name in ("groups", "max_batch_size", "max_group_size")}
            return {name: value for name, value in keys.items() if value is not None}
        case _:
            return {}


def _is_expected_simpler(level: Level, rate: Fraction) -> bool:
    """Return True if the expected number is whole, or a decimal while the rate is none; False if counts differ."""
    # An exact rate often is no decimal while the expected number is one, or the other way round: the form that is exact
    # is written, and the other one as a remark.
    expected = rate * level.count
    if not level.is_equal or level.is_assumed or scalars.decimal_text(expected) is None:
        return False
    return expected.denominator == 1 or scalars.decimal_text(rate) is None


def _rate_text(level: Level, rate: Fraction) -> str:
    """Return a rate as its exact decimal or, without one, as a quotient; InputError if it is too long."""
    stated = scalars.probability_text(rate)
    if stated is None:
        raise InputError(f"level {level.name}: expected a rate of at most {scalars.MAX_DIGITS} characters, got {rate}")
    return stated


def quoted(word: str) -> str:
    """Return a text as a YAML value, in double quotes where YAML would not read it as this text."""
    unquoted = Scalar(text=word, plain=True, mark=_NO_MARK, key=None, path="")
    is_text = _WORD.fullmatch(word) and isinstance(scalars.value(unquoted), str) and word.lower() not in _YAML_1_1
    return word if is_text else json.dumps(word, ensure_ascii=False)


def _float_text(number: float) -> str:
    """Return the shortest decimal that means a float."""
    return scalars.decimal_text(Fraction(repr(number))) or repr(number)


def _rounded_text(number: Fraction) -> str:
    """Return an integer, or 6 significant digits, for a remark."""
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.6g}"


# The hash of a plan, for lock files and change reports. Its bytes must stay the same for ever: lock files outlive
# versions. So keys such as "least" stay, whatever the attributes are called (tests/config/test_config_hash.py).


def fingerprint(plan: Plan) -> str:
    """Return the SHA-256 in hex of everything that decides the guarantee and the budget.

    Note:
        The names of the run and of its phases are labels and do not count. Fields are listed one by one:
        a field that a later version adds must stay out of the hash while it has its default, so that
        a lock file outlives an update.
    """
    budget = plan.budget
    rise = None if budget is None else budget.max_increase_pct
    limits = budget and {"epsilon": budget.epsilon.hex(), "max_increase_pct": None if rise is None else rise.hex()}
    tuning = plan.tuning and {
        "distribution": plan.tuning.distribution,
        "mean": plan.tuning.mean.hex(),
        "shape": plan.tuning.shape.hex(),
    }
    content = {
        "phases": [_phase_content(phase, plan.adjacency) for phase in plan.phases],
        "unit": plan.unit,
        **({"group_size": plan.group_size} if plan.group_size > 1 else {}),
        "adjacency": plan.adjacency.value,
        "delta": plan.delta.hex(),
        "method": plan.method,
        **({"tuning": tuning} if tuning else {}),
        **({"parts": [phase.part for phase in plan.phases], "rule": plan.partition.rule} if plan.partition else {}),
        "budget": limits,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _phase_content(phase: Phase, adjacency: Adjacency) -> dict[str, object]:
    """Return the hashed content of a phase: all but name and part; episodes, tree and `also` only if it has them."""
    # A promise whose relation is that of the run is as one without a relation, which older versions lack.
    left_out = "relation" if getattr(phase.mechanism, "relation", None) in {None, adjacency} else ""
    identity = {key: value for key, value in phase.mechanism.identity.items() if key != left_out}
    return {
        "levels": [_level_content(level) for level in phase.hierarchy.levels],
        **({"episodes": asdict(phase.hierarchy.episodes)} if phase.hierarchy.episodes else {}),
        **({"tree": phase.hierarchy.tree.digest} if phase.hierarchy.tree else {}),
        "mechanism": phase.mechanism.name,
        # Older versions lack `also`.
        **{key: _exact_value(value) for key, value in identity.items() if key != "also" or value},
        "clip": phase.clip,
        "steps": phase.steps,
    }


def _exact_value(value: object) -> object:
    """Return a parameter for the hash: a number as hexadecimal float, a word as it is, a tuple as a list."""
    if isinstance(value, tuple):
        return [_exact_value(each) for each in value]
    return value if isinstance(value, str) else float(value).hex()  # type: ignore[arg-type]  # what else there is


def _level_content(level: Level) -> dict[str, object]:
    """Return the hashed content of a level: name, counts, scheme, its amount, and options other than the default."""
    scheme = level.scheme
    fewest = {} if level.is_equal else {"least": level.min_count}
    period = {} if level.redraw_every == 1 else {"redraw_every": level.redraw_every}
    limited = {"at_most": True} if isinstance(scheme, Fixed) and scheme.at_most else {}
    drawn = {"scheme": scheme.name, "amount": _hashed_amount(scheme), **limited, **period, **_options(scheme)}
    return {"name": level.name, "count": level.count, **fewest, **drawn}


def _hashed_amount(scheme: Scheme) -> int | str | None:
    """Return a draw's size, bins or times, or its Poisson rate as an exact quotient; None for all and any-order."""
    match scheme:
        case Fixed(size=number) | WithReplacement(size=number) | Shuffle(size=number):
            return number
        case BallsInBins(bins=number) | RandomAllocation(times=number):
            return number
        case Poisson() | CappedPoisson() | CyclicPoisson() as poisson:
            return str(Fraction(poisson.probability))
        case _:
            return None


# The terms in which a config states sizes and lengths, so that a solver answers in the same terms.


@dataclass(frozen=True, kw_only=True)
class StatedTerms:
    """Terms in which a config states how one phase draws and how long it is.

    Attributes:
        amount: "batch_size" or "expected" if the config states a whole number of units that a Poisson step draws on
            average, else "".
        epochs: the length in passes if the config states that, else None.
    """

    amount: str
    epochs: Fraction | None


def stated_terms(root: Section, number: int, hierarchy: Hierarchy) -> StatedTerms:
    """Return the key, or "", that states the expected number of the outermost draw but `all`, and the stated epochs."""
    sections = runs(root)[number].sections
    level = next((level for level in hierarchy.levels if not isinstance(level.scheme, All)), None)
    return StatedTerms(
        amount=_amount_key(sections, level) if level is not None else "",
        epochs=_stated_number(node_at(sections, "training", "epochs")),
    )


def _amount_key(sections: Section, level: Level) -> str:
    """Return "batch_size" or "expected" if the user states a Poisson draw so, as a whole number; else ""."""
    if not isinstance(level.scheme, (Poisson, CappedPoisson, CyclicPoisson)):
        return ""
    node = node_at(sections, "sampling", level.name, "expected")
    stated = _stated_number(node)
    # The value keeps the path at which the user wrote it.
    return node.path.rpartition(".")[2] if node is not None and stated is not None and stated.denominator == 1 else ""


def assumes_in_phases(root: Section, section: str, name: str) -> tuple[bool, ...]:
    """Return for each phase True if its value of a key was assumed and not stated by the user."""
    nodes = (entry(run.sections.entries.get(section), name) for run in runs(root))
    return tuple(isinstance(node, Scalar) and node.mark.source.path == ASSUMED for node in nodes)


def _stated_number(node: Node | None) -> Fraction | None:
    """Return the number that the user states; None for anything else, and for an assumed number."""
    if not isinstance(node, Scalar) or node.mark.source.path == ASSUMED:
        return None
    return scalars.number_of(node)
