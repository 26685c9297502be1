"""The normal form of a plan as a config file, its hash, and the terms in which a config states sizes."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.expand import runs
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import EPISODES, UNKNOWN
from dpcalc.config.source import Mark, source_of
from dpcalc.config.tree import Node, Scalar, Section, entry, node_at
from dpcalc.errors import InputError
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy

_WORD = re.compile(r"[^\W\d_][\w-]*(?: [\w-]+)*")
_YAML_1_1 = frozenset({"yes", "no", "on", "off", "y", "n"})  # other readers take these words for truth values
MAX_WRITTEN_COUNTS = 10_000  # units of a tree; a config with more exceeds yaml_text.MAX_EVENTS
_NO_MARK = Mark(source_of("", "show"), 1, 1)


def normal_form(plan: Plan) -> str:
    """Return a YAML config that loads as the same plan, defaults written out; InputError if tree or rate are too long.

    Numbers are exact. An expected number or a rate is written, whichever is a finite decimal, and the other one as a
    remark; where neither is one the rate is a quotient such as 1/97. `epochs` have become steps.
    """
    if len(plan.phases) == 1 and not plan.parts:
        run = _run_lines(plan.phases[0])
    else:
        run = ["phases:", *(line for phase in plan.phases for line in phase_lines(phase))]
    return "\n".join([*_data_lines(plan), *run, *_terms_lines(plan), ""])


def unfinished_form(plan: Plan) -> str:
    """Return a config file with everything of a plan but its phases; it ends with `phases:`, to be continued."""
    return "\n".join([*_data_lines(plan), *_terms_lines(plan), "phases:", ""])


def phase_lines(phase: Phase) -> Iterator[str]:
    """Yield the lines of a phase as an entry of `phases:`, indented by two, without line breaks."""
    yield f"  - name: {quoted(phase.name)}"
    if phase.part:
        yield f"    part: {quoted(phase.part)}"
    yield from (f"    {line}" for line in _run_lines(phase))


def _data_lines(plan: Plan) -> list[str]:
    """Return the lines of the version, the run's name and the levels with their counts or a tree."""
    hierarchy = plan.phases[0].hierarchy
    lines = ["version: 1", *([f"name: {quoted(plan.name)}"] if plan.name else []), "data:", "  levels:"]
    for level in hierarchy.levels:
        count: object = level.count if level.is_equal else f"{{min: {level.min_count}, max: {level.count}}}"
        count = UNKNOWN if level.is_assumed else count
        lines.append(f"    - {{name: {quoted(level.name)}{'' if hierarchy.tree else f', count: {count}'}}}")
    if hierarchy.tree is not None:
        size = sum(map(len, hierarchy.tree.sizes))
        if size > MAX_WRITTEN_COUNTS:
            message = f"data.tree: expected at most {MAX_WRITTEN_COUNTS} units to be written out, got {size}"
            raise InputError(f"{message}; keep them in a file, `tree: {{file: counts.json}}`")
        lines.append(f"  tree: {hierarchy.tree.nested()}")
    return lines


def _terms_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of privacy and accounting, then of budget, tuning and partition where the plan has them."""
    terms = {"adjacency": plan.adjacency, "delta": plan.delta, "group_size": plan.group_size}
    yield f"privacy: {_mapping_text({'unit': quoted(plan.unit_name)} | terms)}"
    yield f"accounting: {{method: {plan.method}}}"
    if plan.budget is not None:
        yield f"budget: {_mapping_text(asdict(plan.budget))}"
    if plan.tuning is not None:
        law = {"mean": plan.tuning.mean, "distribution": plan.tuning.distribution}
        shape = {"shape": plan.tuning.shape} if plan.tuning.distribution == "negative-binomial" else {}
        yield f"tuning: {_mapping_text(law | shape)}"
    if plan.partition is not None:
        parts = ", ".join(f"{{name: {quoted(part)}}}" for part in plan.partition.parts)
        yield f"partition: {{rule: {quoted(plan.partition.rule)}, parts: [{parts}]}}"


def _run_lines(phase: Phase) -> list[str]:
    """Return the lines of a phase's sampling, mechanism and training."""
    hierarchy, sampling = phase.hierarchy, list[str]()
    if hierarchy.episodes is not None:
        sampling.append(f"{EPISODES}: {_mapping_text(asdict(hierarchy.episodes))}")
    for level in () if hierarchy.episodes else hierarchy.levels:
        # What a draw does not state stands behind it as a comment. In a part, whose size is not known, an expected
        # number means no rate.
        is_part = bool(phase.part) and level is hierarchy.levels[0] and level.count > 1
        is_equal = level.is_equal and not is_part
        scheme, amount, remark = level.scheme, dict[str, object](), ""
        limit = "" if is_equal else "at most "
        if scheme.amount_key == "rate":
            # An exact rate often is no decimal while the expected number is one, or the other way round: the form that
            # is exact is written, and the other one as a remark. Where counts differ the number has no meaning.
            rate, is_cyclic = scheme.probability, scheme.spans_steps
            expected, is_known = rate * level.count, is_equal and not level.is_assumed
            number = scalars.decimal_text(expected) if is_known else None
            is_simpler = number and (expected.denominator == 1 or scalars.decimal_text(rate) is None)
            stated = scalars.probability_text(rate)
            if is_simpler and not is_cyclic:
                amount["expected"] = number
                remark = f"rate {_rounded_text(rate)}"
            elif stated is None:
                limit = f"expected a rate of at most {scalars.MAX_DIGITS} characters"
                raise InputError(f"level {level.name}: {limit}, got {rate}")
            else:
                amount["rate"] = stated
                if is_known and not is_simpler:  # that of a cyclic draw, if simpler, would be taken for one step's
                    remark = f"{'of all groups ' if is_cyclic else ''}expected {_rounded_text(expected)}"
        elif scheme.at_most:
            amount["size"] = f"{{at_most: {scheme.size}}}"
            remark = "all where there are fewer"
        elif scheme.amount_key:
            amount[scheme.amount_key] = scheme.amount
            remark = f"rate {'' if scheme.is_allocated else limit}{_rounded_text(level.rate)}"
            if scheme.is_shuffled:
                remark = f"{limit}{scheme.steps_of_a_pass(level.count)} steps a pass"
        period = level.redraw_every if level.redraw_every > 1 else None
        draw = _mapping_text({"scheme": scheme.name, **amount, **scheme.options, "redraw_every": period})
        sampling.append(f"{quoted(level.name)}: {draw}{remark and f'  # {remark}'}")
    mechanism: dict[str, object] = {"type": phase.mechanism.name}
    mechanism |= {
        key: value for key, value in phase.mechanism.parameters.items() if key != "also" and value != math.inf
    }
    also = [
        _mapping_text({"noise_multiplier": each} if isinstance(each, float) else each._asdict())
        for each in getattr(phase.mechanism, "also", ())
    ]
    if (asked := phase.calibration) is not None:
        target = f"{{epsilon: {_value_text(asked.epsilon)}, delta: {_value_text(asked.delta)}}}"
        mechanism["noise_multiplier"] = f"{{calibrated_to: {target}, by: {asked.by}, {asked.assuming}}}"
    mechanism |= {
        "also": f"[{', '.join(also)}]" if also else None,
        "votes": quoted(phase.votes) if phase.votes else None,
        "clip": quoted(phase.clip_names[phase.clip]) if phase.clips else None,
    }
    lines = [f"  {line}" for line in sampling]
    return ["sampling:", *lines, f"mechanism: {_mapping_text(mechanism)}", f"training: {{steps: {phase.steps}}}"]


def _mapping_text(entries: Mapping[str, object]) -> str:
    """Return a YAML mapping in braces of keys and their values, without those that are None."""
    return f"{{{', '.join(f'{key}: {_value_text(x)}' for key, x in entries.items() if x is not None)}}}"


def _value_text(value: object) -> str:
    """Return a number (the shortest decimal that means the float), a YAML text or a list of such as YAML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, str):
        return value
    return "true" if value is True else scalars.decimal_text(Fraction(repr(value))) or repr(value)


def quoted(word: str) -> str:
    """Return a text as a YAML value, in double quotes where YAML would not read it as this text."""
    unquoted = Scalar(text=word, mark=_NO_MARK)
    is_text = _WORD.fullmatch(word) and isinstance(scalars.value(unquoted), str) and word.lower() not in _YAML_1_1
    return word if is_text else json.dumps(word, ensure_ascii=False)


def _rounded_text(number: Fraction) -> str:
    """Return an integer, or 6 significant digits, for a remark."""
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.6g}"


# The hash of a plan, for lock files and change reports. Its bytes must stay the same for ever: lock files outlive
# versions. So keys such as "least" stay, whatever the attributes are called (tests/config/test_config_hash.py).


def fingerprint(plan: Plan) -> str:
    """Return the SHA-256 in hex of everything that decides the guarantee and the budget.

    The names of the run and of its phases are labels and do not count. Fields are listed one by one: a field that a
    later version adds must stay out of the hash while it has its default, so that a lock file outlives an update.
    """
    phases: list[dict[str, object]] = []
    for phase in plan.phases:
        levels = []
        for level in phase.hierarchy.levels:
            scheme = level.scheme
            content: dict[str, object] = {
                "name": level.name,
                "count": level.count,
                "least": level.min_count,
                "scheme": scheme.name,
                "amount": str(Fraction(scheme.probability)) if scheme.amount_key == "rate" else scheme.amount,
                "at_most": scheme.at_most,
                "redraw_every": level.redraw_every,
                **scheme.options,
            }
            usual = {"least": level.count, "at_most": False, "redraw_every": 1}
            levels.append({key: value for key, value in content.items() if key not in usual or value != usual[key]})
        # A promise whose relation is that of the run is as one without a relation, which older versions lack; they
        # lack `also` too.
        left_out = {"relation"} if getattr(phase.mechanism, "relation", None) in {None, plan.adjacency} else set()
        identity = {
            key: _exact_value(value)
            for key, value in phase.mechanism.identity.items()
            if key not in left_out and (key != "also" or value)
        }
        if (asked := phase.calibration) is not None:  # the noise that follows may get closer in later versions
            target = {"epsilon": asked.epsilon.hex(), "delta": asked.delta.hex(), "by": asked.by}
            identity["noise_multiplier"] = target | {"rate": str(asked.rate), "steps": asked.steps}
        hierarchy = phase.hierarchy
        content = {
            "levels": levels,
            **({"episodes": asdict(hierarchy.episodes)} if hierarchy.episodes else {}),
            **({"tree": hierarchy.tree.digest} if hierarchy.tree else {}),
            "mechanism": phase.mechanism.name,
            **identity,
            "clip": phase.clip,
            "steps": phase.steps,
        }
        phases.append(content)
    budget, tuning = plan.budget, plan.tuning
    rise = None if budget is None else budget.max_increase_pct
    limits = budget and {"epsilon": budget.epsilon.hex(), "max_increase_pct": None if rise is None else rise.hex()}
    runs_law = tuning and {
        "distribution": tuning.distribution,
        "mean": tuning.mean.hex(),
        "shape": tuning.shape.hex(),
    }
    content = {
        "phases": phases,
        "unit": plan.unit,
        **({"group_size": plan.group_size} if plan.group_size > 1 else {}),
        "adjacency": plan.adjacency.value,
        "delta": plan.delta.hex(),
        "method": plan.method,
        **({"tuning": runs_law} if runs_law else {}),
        **({"parts": [phase.part for phase in plan.phases], "rule": plan.partition.rule} if plan.partition else {}),
        "budget": limits,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _exact_value(value: object) -> object:
    """Return a parameter for the hash: a number as hexadecimal float, a word as it is, a tuple as a list."""
    if isinstance(value, tuple):
        return [_exact_value(each) for each in value]
    return value if isinstance(value, str) else float(value).hex()  # type: ignore[arg-type]  # what else there is


# The terms in which a config states sizes and lengths, so that a solver answers in the same terms.


class StatedTerms(NamedTuple):
    """Terms in which a config states how one phase draws and how long it is."""

    amount: str  # "batch_size" or "expected" if that is how a whole number of units of a Poisson step is stated, or ""
    epochs: Fraction | None  # the length in passes if the config states that


def stated_terms(root: Section, number: int, hierarchy: Hierarchy) -> StatedTerms:
    """Return the terms of a phase: how the user states the outermost draw but `all`, and the length."""
    sections, amount = runs(root)[number].sections, ""
    level = next((level for level in hierarchy.levels if not level.scheme.is_whole), None)
    if level is not None and level.scheme.amount_key == "rate":
        node = node_at(sections, "sampling", level.name, "expected")
        stated = _stated_number(node)
        if node is not None and stated is not None and stated.denominator == 1:
            amount = node.name  # the value keeps the path at which the user wrote it
    return StatedTerms(amount=amount, epochs=_stated_number(node_at(sections, "training", "epochs")))


def assumes_in_phases(root: Section, section: str, name: str) -> tuple[bool, ...]:
    """Return for each phase True if its value of a key was assumed and not stated by the user."""
    nodes = (entry(run.sections.entries.get(section), name) for run in runs(root))
    return tuple(isinstance(node, Scalar) and node.mark.source.path == ASSUMED for node in nodes)


def _stated_number(node: Node | None) -> Fraction | None:
    """Return the number that the user states; None for anything else, and for an assumed number."""
    if not isinstance(node, Scalar) or node.mark.source.path == ASSUMED:
        return None
    return scalars.number_of(node)
