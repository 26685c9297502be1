"""Verdicts on config files: `check` compares costs with budgets, a base and a lock file, `diff` with a base."""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpcalc.config.discovery import folders_to_search, is_pattern, matches, split_pattern
from dpcalc.config.expand import stated_terms
from dpcalc.config.files import config_folder
from dpcalc.config.load import Loaded
from dpcalc.config.readers import RepeatedKeyError, json_content
from dpcalc.config.source import STDIN, Diagnostic, Severity, decode, read_bytes, visible
from dpcalc.errors import InputError
from dpcalc.gate.diff import (
    PLAIN_READER,
    Case,
    ConfigReader,
    at_costliest_change,
    base_costs,
    cases,
    regressions,
    source_names,
)
from dpcalc.gate.launches import overridden
from dpcalc.gate.policy import NO_POLICY, Policy, strictest_limit
from dpcalc.gate.verdict import BaseCost, Limit, Result, Verdict, error_result, finding, verdict_on
from dpcalc.gate.workers import Costs, Request, cost_relevant, is_fallback
from dpcalc.guarantee import INFINITE, Guarantee, Kind
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.report.output import BARE_DIGITS, as_given, before_and_after, percent_up, rounded_down, rounded_up

NAME = "dpcalc.lock"
VERSION = 1
ACCURACY = 2e-5  # relative; a lock holds six digits, and other processors round the last of sixteen differently
_AGAIN = "`dpcalc lock` writes it anew"
_REMOVE = "remove it, and `dpcalc lock` writes it anew"
_MAX_BYTES = 4 * 1024 * 1024  # of a lock file, about 10,000 configs; a larger one is refused unread


Entry = dict[str, Any]
"""The record of one config: the hash of its meaning, and its guarantee, epsilon an upper bound or conditional.

`sources` has "FILE:KEY" by dotted key for values that references or aliases lead to, files relative to the lock; a lock
of version 0.1.0 has none. `kind` is left out for an upper bound."""


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file, by its absolute path.

    `entries` are by the name of a config: its path relative to the lock, with ":SECTION" for a part of a file.
    """

    path: str
    entries: Mapping[str, Entry]

    def entry_name(self, loaded: Loaded) -> str:
        path = self.relative_path(loaded.path)
        return f"{path}:{loaded.section}" if loaded.section else path

    def relative_path(self, path: str) -> str:
        """Return the path of a file relative to the directory of the lock."""
        return Path(os.path.relpath(os.path.abspath(path), Path(self.path).parent)).as_posix()

    def sources(self, loaded: Loaded) -> dict[str, str]:
        """Return {dotted key: "FILE:KEY"} for values that references lead to, sorted; files relative to the lock."""
        return dict(sorted(source_names(loaded, Path(self.path).parent.resolve()).items()))

    def path_and_section(self, name: str) -> tuple[str, str]:
        """Split an entry's name "PATH:SECTION" into a path from the current directory and a section, or ""."""
        # A colon may stand in the name of a file, too; a file that is there decides.
        path = os.path.relpath(Path(self.path).parent / name)
        before, colon, section = name.rpartition(":")
        if os.path.lexists(path) or not colon:
            return path, ""
        return os.path.relpath(Path(self.path).parent / before), section

    def config_files(self, only_section: str = "") -> tuple[tuple[str, str], ...]:
        """Return (path, section or "") of each entry whose file exists; InputError for one outside the repository."""
        entries = [self.path_and_section(name) for name in sorted(self.entries)]
        inside = config_folder(self.path)
        for path, _ in entries:
            if not inside.holds(Path(os.path.abspath(path))):
                expected = f"expected entries of files below {visible(str(inside.top))}, got {visible(path)}"
                raise InputError(f"{visible(self.path)}: {expected}; name the configs, or take the entry out")
        present = ((path, section) for path, section in entries if os.path.lexists(path))
        return tuple((path, section) for path, section in present if only_section in {"", section})

    def text(self) -> str:
        """Return the content of the file: JSON of its entries sorted by path, epsilons rounded up to six digits."""
        configs = {}
        for name, entry in sorted(self.entries.items()):
            epsilon = entry["epsilon"]
            rounded = float(rounded_up(epsilon, digits=BARE_DIGITS)) if math.isfinite(epsilon) else None
            configs[name] = {**entry, "epsilon": rounded}
        return json.dumps({"version": VERSION, "configs": configs}, indent=2, allow_nan=False) + "\n"


def lock_path(folder: Path) -> Path:
    """Return the path of the nearest `dpcalc.lock` upwards, else of a new one at the top of the repository."""
    folders = folders_to_search(folder)
    return next((folder / NAME for folder in folders if (folder / NAME).is_file()), folders[-1] / NAME)


def read_or_new_lock(path: Path) -> Lock:
    """Return the lock file at a path, an empty lock if there is none; raise InputError like `read_lock`."""
    return read_lock(path) if path.is_file() else Lock(path=str(path), entries={})


def _is_number(value: object, max_value: float) -> bool:
    """Return True for a number from 0 to `max_value`; a Boolean, an int for Python, is no number of a lock."""
    return type(value) in {int, float} and 0 <= value <= max_value  # type: ignore[operator]  # NaN fails here


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# What an entry's fields are expected to be, in the order of the file.
_ENTRY_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "config_hash": ("a text", _is_text),
    "epsilon": ("a number >= 0 or null", lambda x: x is None or _is_number(x, sys.float_info.max)),
    "delta": ("a number from 0 to 1", lambda x: _is_number(x, 1.0)),
    "unit": ("a text", _is_text),
    "adjacency": ("a text", _is_text),
    "group_size": ("a whole number", lambda x: type(x) is int),
    "kind": ("a text", _is_text),
    "sources": ("texts by key", lambda x: x is None or (isinstance(x, dict) and all(map(_is_text, x.values())))),
}
_ABSENT = {"sources": None, "kind": str(Kind.UPPER)}  # what an entry without such a field says


def read_lock(path: Path) -> Lock:
    """Read a lock file; InputError if it is missing, malformed, of another version, or a link out of the repository."""
    if not path.is_file():
        raise InputError(f"--locked: expected {visible(str(path))}, got no such file; `dpcalc lock` writes it")
    shown = visible(str(path))
    try:
        data = read_bytes(str(path), limit=_MAX_BYTES)
        content: Any = json_content(decode(data, str(path), shows_lines=False, limit=_MAX_BYTES).text)
        version = content["version"]
        configs = {str(name): entry for name, entry in content["configs"].items()}
    except RepeatedKeyError as cause:
        raise InputError(f"{shown}: {cause}, or {_REMOVE}") from None
    except InputError:
        raise  # it is a ValueError too
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{shown}: expected a file that `dpcalc lock` wrote, got another one; {_REMOVE}") from None
    if version != VERSION:
        raise InputError(f"{shown}: expected version {VERSION}, got {visible(repr(version))[:20]}; {_REMOVE}")
    entries = {}
    for name, entry in configs.items():
        # A lock of version 0.1.0 has no `sources`, and few have a kind: these alone may be missing.
        fields: Entry = {**_ABSENT, **(entry if isinstance(entry, dict) else {})}
        for key, (expected, is_valid) in _ENTRY_FIELDS.items():
            if key not in fields or not is_valid(fields[key]):
                got = visible(json.dumps(fields[key]))[:20] if key in fields else "nothing"
                raise InputError(f"{shown}: {visible(name)}.{key}: expected {expected}, got {got}; {_REMOVE}")
        epsilon = math.inf if fields["epsilon"] is None else float(fields["epsilon"])
        checked = {**fields, "epsilon": epsilon, "delta": float(fields["delta"])}
        entries[name] = {key: checked[key] for key in _ENTRY_FIELDS if (key, checked[key]) not in _ABSENT.items()}
    return Lock(path=str(path), entries=entries)


def lock_problems(lock: Lock, loaded: Loaded, now: Guarantee) -> list[Diagnostic]:
    """Return DPC403 for the first of: no entry, another hash, moved sources (each), epsilon off by over 2e-5."""
    # One finding a config, the most telling: where the hash differs, sources and epsilon may differ as its effect.
    entry, sources = lock.entries.get(lock.entry_name(loaded)), lock.sources(loaded)
    before = None if entry is None else entry.get("sources")
    if entry is None:
        message = f"the config is not in {NAME}; epsilon is {rounded_up(now.epsilon)}"
    elif entry["config_hash"] == loaded.config_hash and before is not None and before != sources:
        problems = []
        # The training code may still read the old place.
        for key in sorted({*before, *sources}):
            if before.get(key) != sources.get(key):
                was, says = (
                    f"read from `{places[key]}`" if key in places else "stated here" for places in (before, sources)
                )
                moved = f"{key} is {says}; {NAME} holds it as {was}"
                problems.append(finding("DPC403", Severity.ERROR, moved, loaded.path, loaded.mark(key)))
        return problems
    else:
        what = f"is not what {NAME} holds"
        if entry["config_hash"] == loaded.config_hash:
            if math.isclose(entry["epsilon"], now.epsilon, rel_tol=ACCURACY):
                return []
            what = f"is what {NAME} holds, and costs something else (another version of dpcalc?)"
        was = entry["epsilon"]
        change = "" if was == now.epsilon else f": epsilon {before_and_after(was, now.epsilon)}"
        message = f"the config {what}{change}"
    return [finding("DPC403", Severity.ERROR, message, loaded.path)]


def updated_lock(cases: Sequence[Case], lock: Lock, *, costs: Costs) -> tuple[tuple[Result, ...], Lock]:
    """Return a result for each config, and the lock with a new entry for each config that has a bound."""
    costs.compute_files((case.path, plan) for case in cases for plan in case.plans)
    # A call may name one config of many: what it does not name is still as it was reviewed.
    results, entries = [], dict(lock.entries)
    for case in cases:
        loaded = case.new
        try:
            if loaded is None:
                raise case.error
            if loaded.path == STDIN:
                raise InputError("lock: expected files, got standard input; a lock needs their names")
            guarantee = costs.guarantee(loaded.plan)
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            results.append(error_result(case.path, error))
            continue
        problems = tuple(lock_problems(lock, loaded, guarantee))
        verdict = Verdict.FAILED if problems else Verdict.PASSED
        results.append(Result(path=loaded.path, verdict=verdict, guarantee=guarantee, problems=problems))
        entries[lock.entry_name(loaded)] = {
            "config_hash": loaded.config_hash,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "unit": guarantee.unit,
            "adjacency": str(guarantee.adjacency),
            "group_size": guarantee.group_size,
            **({} if guarantee.kind is Kind.UPPER else {"kind": str(guarantee.kind)}),
            "sources": lock.sources(loaded),
        }
    return tuple(results), Lock(path=lock.path, entries=entries)


def missing_configs(cases: Sequence[Case], lock: Lock, *, config_args: Sequence[str] | None) -> tuple[Result, ...]:
    """Return a failed result for each entry whose config a call must check and does not.

    It must after a search, or if the file is gone, or if a CONFIG with `*`, relative to the current directory, matches
    the file: other files are another call's.
    """
    known = {lock.entry_name(case.new) for case in cases if case.new is not None}
    # A file that cannot be read has an error of its own; its entry is not called stale as well.
    broken = {lock.relative_path(case.path) for case in cases if case.new is None}
    broken_sections = tuple(f"{path}:" for path in broken)
    results = []
    for name in sorted(lock.entries):
        if name in known or name in broken or name.startswith(broken_sections):
            continue
        file, _ = lock.path_and_section(name)
        path, is_gone = Path(file).as_posix(), not os.path.lexists(file)
        patterns = (
            split_pattern(Path(os.path.relpath(word)).as_posix()) for word in config_args or () if is_pattern(word)
        )
        if (
            config_args is None
            or is_gone
            or any(
                matches(path.removeprefix(f"{start}/" if start else "").split("/"), parts)
                for start, parts in patterns
                if not start or path.startswith(f"{start}/")
            )
        ):
            unchecked = f"it is none of the configs that are checked; name it, or take its entry out of {NAME}"
            reason = f"its file is gone; {_AGAIN}" if is_gone else unchecked
            problem = finding("DPC403", Severity.ERROR, f"{NAME} holds it, and {reason}", name)
            results.append(Result(path=name, verdict=Verdict.FAILED, problems=(problem,)))
    return tuple(results)


# Verdicts on config files: `check` compares costs with budgets and a base, `diff` with a base; `validate` reads.


MAX_SUGGESTIONS = 10  # files that get suggestions, each up to FIT_WORK; people read no more than that
_OVER = {"DPC205", "DPC301"}  # rules of a file that gets suggestions
FIT_DIGITS = 4  # significant digits of a suggested noise multiplier, rounded up so that the next check passes


def check(
    paths: Sequence[str],
    *,
    costs: Costs,
    reader: ConfigReader = PLAIN_READER,
    policy: Policy = NO_POLICY,
    allow_budget_change: bool = False,
    lock: Lock | None = None,
    config_args: Sequence[str] | None = (),
    lower_bounds: bool = False,
    suggestions: bool = True,
) -> tuple[Result, ...]:
    """Return a result for each file, in order, then a failed one for each entry of the lock without a config.

    `passed` needs a finite upper bound on epsilon, compared unrounded with the strictest limit. With
    `allow_budget_change` a budget may be higher, and a promise weaker, than in the base; `config_args` is CONFIG..., or
    None if a search found all: then the lock may hold no other. With `lower_bounds` every result has one, also where it
    changes no verdict. The first 10 files over their limit get `suggestions` of values that would fit.
    """
    judged = cases(paths, reader)
    costs.compute_files((case.path, plan) for case in judged for plan in case.plans)
    # In two rounds: only an upper bound tells whether a lower bound can matter, and a sharp one costs no second
    # computation. Each round uses all worker processes.
    lower = {}
    for index, case in enumerate(judged):
        with suppress(Exception):  # reported where the file is judged
            if case.new is not None:
                upper = costs.guarantee(case.new.plan)
                if upper.finite and (lower_bounds or is_fallback(case.new.plan, upper)):
                    lower[index] = Request(plan=cost_relevant(case.new.plan), quantity="lower", upper=upper)
    costs.compute(lower.values())
    results = []
    for index, case in enumerate(judged):
        try:
            if case.new is None:
                raise case.error
            guarantee, base = costs.guarantee(case.new.plan), base_costs(case, costs)
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            results.append(error_result(case.path, error))
            continue
        if index in lower:
            answer = costs.attempt(lower[index])
            guarantee = answer if isinstance(answer, Guarantee) else guarantee
        results.append(_judgement(case, case.new, guarantee, base, policy, lock, is_agreed=allow_budget_change))

    # After all verdicts, with the time that is left: a suggestion that comes too late changes none of them.
    requests: dict[int, list[Request]] = {}
    for index, (case, result) in enumerate(zip(judged, results, strict=True)):
        over = any(problem.code in _OVER for problem in result.problems)
        if suggestions and over and case.new and result.limit and len(requests) < MAX_SUGGESTIONS:
            requests[index] = fits(cost_relevant(case.new.plan), result.limit.value)
    costs.compute(request for asked in requests.values() for request in asked)
    for index, asked in requests.items():
        noise, *others = values = [
            None if isinstance(answer, Guarantee) else answer for answer in map(costs.attempt, asked)
        ]
        new = judged[index].new
        hint = f"to fit: {text}" if new and (text := fit_text(values, new)) else ""
        problems = tuple(
            replace(each, hint=hint or each.hint) if each.code in _OVER else each for each in results[index].problems
        )
        found = {"noise_multiplier": noise, "steps": others[0] or None} if others else {"noise_factor": noise}
        results[index] = replace(results[index], fits=found, problems=problems)
    stale = () if lock is None else missing_configs(judged, lock, config_args=config_args)
    return (*results, *stale)


def fits(plan: Plan, limit: float) -> list[Request]:
    """Return the questions how much noise and, of a single phase, how many steps keep a plan within a limit."""
    # Of several phases nobody knows which one should become shorter.
    quantities = ("sigma", "steps") if len(plan.phases) == 1 else ("sigma",)
    return [Request(plan=plan, quantity=each, limit=limit) for each in quantities]


def fit_text(values: Sequence[float | None], loaded: Loaded) -> str:
    """Return the answers to `fits`, the length as the config states it: "noise_multiplier >= 1.461 or epochs <= 11"."""
    noise, *others = values
    texts = []
    if noise is not None:
        least = rounded_up(noise, digits=FIT_DIGITS)
        several = f"noise_multiplier of every phase times {least}"  # their noises keep their ratios
        texts.append(f"noise_multiplier >= {least}" if others else several)
    for steps in filter(None, others):
        phase = loaded.plan.phases[0]
        epochs = stated_terms(loaded.tree, 0, phase.hierarchy).epochs
        passes = "" if epochs is None else rounded_down(epochs * int(steps) / phase.steps, digits=FIT_DIGITS)
        is_covered = passes and phase.hierarchy.steps_of(Fraction(passes)) <= steps
        texts.append(f"epochs <= {float(passes):g}" if is_covered else f"steps <= {int(steps)}")
    return " or ".join(texts)


def _judgement(
    case: Case,
    new: Loaded,
    guarantee: Guarantee,
    base: BaseCost | None,
    policy: Policy,
    lock: Lock | None,
    *,
    is_agreed: bool,
) -> Result:
    """Return the result of a config by limit, budget, base and lock, without suggestions."""
    # The limit of the base counts too: a change cannot loosen the limit by which it is judged.
    epsilon_limits, rise_limits = [policy.max_epsilon], [policy.max_increase_pct]
    stated = [(new, "")] if case.old is None or is_agreed else [(case.old, f" of {case.base}"), (new, "")]
    for loaded, suffix in stated:
        if (budget := loaded.plan.budget) is not None:
            epsilon_limits.insert(0, Limit(value=budget.epsilon, source=f"budget.epsilon{suffix}"))
            if budget.max_increase_pct is not None:
                rise = Limit(value=budget.max_increase_pct, source=f"budget.max_increase_pct{suffix}")
                rise_limits.insert(0, rise)
    limit = strictest_limit(epsilon_limits)

    # The gravest of: infinite (DPC205), undecided (DPC901), over the limit (DPC301), near it (DPC302).
    epsilon, lower, share = guarantee.epsilon, guarantee.epsilon_lower, policy.warn_at_pct
    condition = "" if guarantee.kind is Kind.UPPER else f", {guarantee.kind}"
    claim = f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)}{condition})"
    code, severity, message, mark = "", Severity.ERROR, "", None
    if limit is not None and limit.source == "budget.epsilon":
        mark = new.mark("budget.epsilon")
    if not guarantee.finite:
        causes = (note.removeprefix(INFINITE) for note in guarantee.notes if note.startswith(INFINITE))
        code = "DPC205"
        message = ": ".join((f"there is no finite epsilon {claim}", *causes))
        mark = None
    elif limit is None:
        pass
    elif not epsilon <= limit.value and is_fallback(new.plan, guarantee) and (lower is None or lower <= limit.value):
        # A loose upper bound above the limit is no verdict: the exact epsilon may be on either side of it.
        between = f"{rounded_down(lower or 0.0)} and {rounded_up(epsilon)} ({guarantee.method.upper()})"
        code, message = (
            "DPC901",
            (
                f"epsilon lies between {between}, so it is not known whether it exceeds {as_given(limit.value)}; the "
                "PLD accountant has no answer"
            ),
        )
    elif not epsilon <= limit.value:
        name = "the budget" if limit.source == "budget.epsilon" else limit.source
        exceeded = f"{rounded_up(epsilon, apart_from=limit.value)} exceeds {name} {as_given(limit.value)}"
        code, message = "DPC301", f"epsilon {exceeded} {claim}"
    elif share is not None and epsilon > limit.value * share / 100:
        used = f"{percent_up(epsilon, limit.value)}% of {limit.source} {as_given(limit.value)} is used"
        code, severity = "DPC302", Severity.WARNING
        message = f"{used}; a warning was asked for above {share:g}%"

    problems = [replace(each, severity=Severity.NOTE) if is_agreed else each for each in case.problems]
    problems += overridden(new, policy.other_launches)
    if code:
        over = finding(code, severity, message, new.path, mark)
        problems.append(over if code == "DPC901" else at_costliest_change(over, base))
    is_missing = new.plan.budget is None and policy.require_budget
    if is_missing or limit is None:
        severity = Severity.ERROR if is_missing else Severity.WARNING
        message = "no budget.epsilon: nothing says what this run may cost"
        problems.append(finding("DPC304", severity, message, new.path))
    if case.old is not None and base is not None:
        # Up to its limit a rise is a warning, unless more than the change itself states a limit: then a note.
        old_budget = case.old.plan.budget
        of_base = old_budget is not None and old_budget.max_increase_pct is not None
        problems += regressions(
            case.old,
            new,
            base,
            guarantee,
            severity=Severity.WARNING,
            allowed=strictest_limit(rise_limits),
            is_agreed=of_base or policy.permits_increase or is_agreed,
            allow_budget_change=is_agreed,
        )
    if lock is not None:
        problems += lock_problems(lock, new, guarantee)
    verdict = verdict_on((*problems, *new.diagnostics), strict=policy.strict)
    return Result(
        path=new.path,
        verdict=Verdict.UNDECIDED if code == "DPC901" else verdict,
        guarantee=guarantee,
        limit=limit,
        problems=tuple(problems),
        diagnostics=new.diagnostics,
        base=base,
    )


def diff(compared_cases: Sequence[Case], *, costs: Costs) -> tuple[Result, ...]:
    """Return the comparison of each config with its base, in order; every rise of epsilon fails."""
    costs.compute_files((case.path, plan) for case in compared_cases for plan in case.plans)
    results = []
    for case in compared_cases:
        try:
            if case.new is None:
                raise case.error
            base, now, problems = base_costs(case, costs), None, case.problems
            diagnostics: tuple[Diagnostic, ...] = ()
            if case.old is not None and base is not None:
                now, diagnostics = costs.guarantee(case.new.plan), case.new.diagnostics
                problems = tuple(regressions(case.old, case.new, base, now, severity=Severity.ERROR))
            result = Result(
                path=case.new.path,
                verdict=verdict_on(problems),
                guarantee=now,
                problems=problems,
                diagnostics=diagnostics,
                base=base,
            )
        except Exception as error:  # noqa: BLE001  whatever it is, the other files still get their answer
            result = error_result(case.path, error)
        results.append(result)
    return tuple(results)


def validate(paths: Sequence[str], *, reader: ConfigReader = PLAIN_READER) -> tuple[Result, ...]:
    """Return one result for each file, in order, and compute nothing: passed if it can be read, else an error."""
    return tuple(
        error_result(case.path, case.error)
        if case.new is None
        else Result(path=case.new.path, verdict=Verdict.PASSED, diagnostics=case.new.diagnostics)
        for case in cases(paths, replace(reader, base=""))
    )
