"""Audit membership inference scores of canaries: read them, test them against the trade-off curve of a plan."""

import math
import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dpcalc.audit.laws import FALSE_ALARM, Alarms, Count, Guesses, PrivacyCurve, log_tail
from dpcalc.audit.log import DELIMITERS, REGULAR, plain_table, short, split_rows, text_pieces, unquoted
from dpcalc.config.source import readable
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Guarantee
from dpcalc.numerics import Array, IntArray
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import RISK_WORK, ROUGH_NOTE, both_profiles
from dpcalc.records import dataclass
from dpcalc.work import allowance

# Read membership inference scores of canaries: CSV with a row for each canary, or for each run.
#
# The file is untrusted: every cell is checked, and lines and rows are bounded.

MEMBER, SCORE, RUN = "member", "score", "run"
MAX_ROWS = 2_000_000
"""Most rows of a file: an audit of so many takes 10 s, of ten times as many some minutes and a gigabyte."""
_MEMBERSHIPS = {"1": 1.0, "true": 1.0, "in": 1.0, "0": 0.0, "false": 0.0, "out": 0.0}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RUN = re.compile(r"[0-9]{1,15}")  # a float holds it exactly


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Membership inference scores; a larger score says "in"."""

    path: str  # name of the file, for messages
    included: NDArray[np.bool_]  # whether each canary was in, shape (n,)
    scores: Array  # finite, shape (n,)
    runs: Array | None  # number of the run of each, shape (n,); None if the file does not say


def read_scores(path: str) -> Scores:
    """Return the scores of canaries in a CSV file, "-" for standard input; InputError, with the line, for a bad one."""
    with readable(path, hint=REGULAR) as (name, stream):
        pieces = text_pieces(name, stream)
        start, text = next(((line, text) for line, text in pieces if text.strip()), (1, ""))
        blank = len(text) - len(text.lstrip("\n"))
        header, _, text = text[blank:].partition("\n")
        delimiter = max(DELIMITERS, key=header.count)
        columns = [unquoted(cell) for cell in header.split(delimiter)]
        if sorted(columns) not in (sorted((MEMBER, SCORE)), sorted((MEMBER, SCORE, RUN))):
            expected = f"expected the columns {MEMBER} and {SCORE}, and {RUN} if there are several runs"
            raise InputError(f"{name}:{start + blank}: {expected}, got {short(header) or 'nothing'}")
        blocks, rows = [np.zeros((0, len(columns)))], 0
        for line, piece in chain([(start + blank + 1, text)], pieces):
            blocks.append(_rows(name, line, piece.replace(delimiter, ","), columns))
            if rows + len(blocks[-1]) > MAX_ROWS:
                place = f"{name}:{line + MAX_ROWS - rows}"
                raise InputError(f"{place}: expected at most {MAX_ROWS:,} rows, got more; audit some of them")
            rows += len(blocks[-1])
    if not rows:
        raise InputError(f"{name}: expected a row for each canary, got none")
    table = np.concatenate(blocks)
    return Scores(
        path=name,
        included=table[:, columns.index(MEMBER)] == 1,
        scores=table[:, columns.index(SCORE)],
        runs=table[:, columns.index(RUN)] if RUN in columns else None,
    )


def _rows(name: str, start: int, text: str, columns: list[str]) -> Array:
    """Return CSV text as numbers (rows, columns), without blank lines; InputError with the line of a bad cell."""
    # The fast way for numbers alone; words such as `true`, quotes and faults are read cell by cell.
    table = plain_table(text, len(columns), "+-.eE", np.float64)
    if table is not None:
        members = table[:, columns.index(MEMBER)]
        scores = table[:, columns.index(SCORE)]
        runs = table[:, columns.index(RUN)] if RUN in columns else np.zeros(1)
        are_whole = (runs >= 0) & (runs < 1e15) & (runs == np.floor(runs))
        if np.all((members == 0) | (members == 1)) and np.all(np.isfinite(scores)) and np.all(are_whole):
            return table
    rows = []
    for line, cells in split_rows(name, start, text, columns):
        row = []
        for column, cell in zip(columns, map(unquoted, cells), strict=True):
            if column == MEMBER and cell.lower() in _MEMBERSHIPS:
                row.append(_MEMBERSHIPS[cell.lower()])
            elif (column == RUN and _RUN.fullmatch(cell)) or (
                column == SCORE and _NUMBER.fullmatch(cell) and math.isfinite(float(cell))
            ):
                row.append(float(cell))
            else:
                expected = {MEMBER: "0 (out) or 1 (in)", RUN: "a whole number", SCORE: "a finite number"}[column]
                got = short(cell) or "nothing"
                raise InputError(f"{name}:{line}: expected {expected} in column `{column}`, got {got}")
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(-1, len(columns))


# Audit membership inference scores of canaries: test them against the trade-off curve that a plan certifies.

_RATES = (1e-4, 1e-2, 0.2)  # false positive rates near which the curve is tight
_CANARIES_PER_GUESS = 4  # one in so many is guessed unless the user says how many: few are clear, more tell more
_HELD_OUT_SEED = 20_26  # of the random halves, fixed so that an audit gives the same answer again
_CANDIDATES = 200  # thresholds among which the held-out half chooses
_POINTS = 60  # of the curves of a picture
_REVERSED_DEVIATIONS = 4.0  # below one half, from which on the scores look reversed


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreAudit:
    """The result of an audit of scores."""

    guarantee: Guarantee  # of the config, an upper bound on epsilon
    has_many_runs: bool  # whether every canary has a run of its own
    canaries: int  # their number
    included: int  # number of those that were in
    # (the rule in words, what was counted, upper bound on the probability of such counts under the config) of each rule
    tests: tuple[tuple[str, Guesses | Alarms, float], ...]
    p_value: float  # of all rules together
    false_alarm: float  # p-value from which down the scores contradict the config
    epsilon_lower: float  # epsilon that the scores show, at the config's delta, but with probability `false_alarm`
    # by increasing false positive rate: it and the true positive rate of the scores at one threshold, and the largest
    # true positive rate that the config allows
    roc: tuple[tuple[float, float, float], ...]
    assumptions: tuple[str, ...]  # what the audit takes for granted
    notes: tuple[str, ...]  # sentences about the result

    @property
    def agrees(self) -> bool:
        return self.p_value > self.false_alarm


def audit_scores(
    run: Plan | Composition,
    scores: Scores,
    *,
    guesses: Sequence[tuple[int, int]] = (),
    thresholds: Sequence[float] = (),
    false_alarm: float = 0.05,
) -> ScoreAudit:
    """Test scores of canaries; an honest run is contradicted with probability at most `false_alarm`.

    The rules are fixed before the scores are seen: for one run pairs (number guessed "in", number guessed "out"), by
    default a quarter of the canaries; for many runs smallest scores of an alarm, by default one that half of the runs
    choose.
    """
    composition = composed(run)
    plan = composition.stated
    has_many_runs = scores.runs is not None and 1 < len(scores.runs) == len(np.unique(scores.runs))
    if has_many_runs and guesses:
        raise InputError(
            "--guesses: expected the scores of one run, got many runs with one canary each; fix the smallest score "
            "of an alarm, with --threshold"
        )
    if not has_many_runs and thresholds:
        raise InputError(
            "--threshold: expected scores of many runs with one canary each, a column `run` that says so, got those "
            "of one run; fix how many are guessed, with --guesses"
        )
    counted: list[tuple[str, Guesses]] | list[tuple[str, Alarms]]
    if has_many_runs:
        counted = _alarms(scores, thresholds, plan.delta, false_alarm)
    else:
        counted = _one_run_guesses(scores, guesses)
    with allowance(RISK_WORK):
        profiles = () if is_noiseless(composition.plan) else both_profiles(composition, _RATES, (plan.delta,))
    curve = PrivacyCurve.of(profiles)
    tests = tuple((rule, counts, counts.p_value(curve)) for rule, counts in counted)
    notes = []
    if any(each.is_rough for each in profiles):
        notes.append(ROUGH_NOTE)
    if not profiles:
        notes.append("without noise nothing is certified that scores could contradict")
    ins = np.sort(scores.scores[scores.included])
    outs = np.sort(scores.scores[~scores.included])
    roc: tuple[tuple[float, float, float], ...] = ()
    share = doubt = 0.0
    if len(ins) and len(outs):
        # Mann and Whitney's statistic, equal scores in the mean, and its deviation if membership does not matter.
        _, place, number = np.unique(scores.scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(number) - (number - 1) / 2)[place]
        share = (float(ranks[scores.included].sum()) - len(ins) * (len(ins) + 1) / 2) / (len(ins) * len(outs))
        doubt = math.sqrt((len(ins) + len(outs) + 1) / (12 * len(ins) * len(outs)))
        # Below one false alarm among all that are out, scores say nothing.
        rates = np.geomspace(1 / len(outs), 1.0, _POINTS)
        # At most so many of those that are out are above the threshold, which is the next smaller one of their scores.
        numbers = np.minimum(np.floor(rates * len(outs) * (1 + 1e-12)).astype(int), len(outs))
        edges = np.where(numbers < len(outs), outs[np.maximum(len(outs) - 1 - numbers, 0)], -np.inf)
        detected = 1 - np.searchsorted(ins, edges, side="right") / len(ins)
        columns = rates.tolist(), detected.tolist(), curve.true_positive_rates(rates).tolist()
        roc = tuple(zip(*columns, strict=True))
    if doubt and share < 0.5 - _REVERSED_DEVIATIONS * doubt:
        notes.append("canaries that were out score higher; a larger score must say `in`")
    # What is taken for granted: canaries, coins or runs, rules, scores, counted units.
    unit = plan.unit_name if plan.group_size == 1 else f"group of {plan.group_size} {plan.unit_name}"
    schemes = [level.scheme for phase in plan.phases for level in phase.hierarchy.levels]
    is_sized = any(scheme.amount_key == "size" for scheme in schemes)
    assumptions = [f"each canary is what the config protects, one {unit}; one that is out {_OUT[plan.adjacency]}"]
    if has_many_runs:
        assumptions.append("runs are independent of each other, with one canary each, all trained as the config says")
    else:
        assumptions.append("each canary is in with probability 1/2, by a coin of its own that nothing else depends on")
    if not has_many_runs or thresholds:
        what = "the thresholds were" if has_many_runs else "how many are guessed was"
        assumptions.append(f"{what} fixed before anybody saw these scores")
    assumptions.append("scores are computed from what the run releases, without knowledge of which canaries are in")
    if is_sized and plan.adjacency is Adjacency.ADD_REMOVE:
        assumptions.append("`data` counts no unit that may be out: with batches of a fixed size fewer units cost more")
    assumptions += [each.assumption for each in plan.calibrations]
    # Several rules share the false alarm equally, as a union bound over them demands.
    error = false_alarm / len(tests)
    return ScoreAudit(
        guarantee=guarantee(composition),
        has_many_runs=has_many_runs,
        canaries=len(scores.scores),
        included=int(scores.included.sum()),
        tests=tests,
        p_value=min(1.0, len(tests) * min(p_value for *_, p_value in tests)),
        false_alarm=false_alarm,
        epsilon_lower=max(counts.epsilon_lower(delta=plan.delta, error=error) for _, counts in counted),
        roc=roc,
        assumptions=tuple(assumptions),
        notes=tuple(notes),
    )


def _one_run_guesses(scores: Scores, pairs: Sequence[tuple[int, int]]) -> list[tuple[str, Guesses]]:
    """Return (rule, guesses) for each pair of numbers guessed; InputError for too many guesses or unfair coins."""
    canaries = len(scores.scores)
    included = int(scores.included.sum())
    # With unfair coins, guessing "in" (or "out") would often be right by itself.
    if log_tail(Count(included, canaries / 2, canaries)) < math.log(FALSE_ALARM / 2):
        raise InputError(
            f"{scores.path}: expected canaries that are in with probability 1/2 each, got {included:,} in of "
            f"{canaries:,}"
        )
    # By the number of canaries alone: a number chosen with a look at their scores would profit from their noise.
    default = max(1, canaries // _CANARIES_PER_GUESS)
    order = np.argsort(scores.scores)
    ordered = scores.scores[order]
    members = scores.included[order]
    guesses = []
    for high, low in pairs or ((default - default // 2, default // 2),):
        if high + low > canaries:
            raise InputError(f"--guesses: expected at most {canaries:,}, the number of canaries, got {high + low:,}")
        correct = _correct(ordered, members, high) + _correct(-ordered[::-1], ~members[::-1], low)
        rule = f"{high:,} highest in, {low:,} lowest out"
        guesses.append((rule, Guesses(canaries=canaries, guessed=high + low, correct=correct)))
    return guesses


def _correct(ordered: Array, right: NDArray[np.bool_], number: int) -> int:
    """Return how many of the last `number` guesses are right; of scores tied at their edge, wrong ones go first."""
    # The order of equal scores in the file may depend on membership, so that it must not decide.
    if not number:
        return 0
    edge = ordered[-number]
    begin = np.searchsorted(ordered, edge)
    end = np.searchsorted(ordered, edge, side="right")
    wrong = int(np.count_nonzero(~right[begin:end]))
    tied = number - (len(ordered) - int(end))
    return int(np.count_nonzero(right[end:])) + max(0, tied - wrong)


def _alarms(scores: Scores, thresholds: Sequence[float], delta: float, false_alarm: float) -> list[tuple[str, Alarms]]:
    """Return (rule, alarms) for each threshold; without any, for one that half of the runs choose, of the others."""
    if thresholds:
        everything = np.arange(len(scores.scores))
        return [(f"score >= {number!r}", _counted_alarms(scores, everything, number)) for number in thresholds]
    # A threshold that is chosen on the runs that test it profits from their noise: one half chooses, the other tests.
    order = np.random.Generator(np.random.PCG64(_HELD_OUT_SEED)).permutation(len(scores.scores))
    choosing = order[: len(order) // 2]
    tested = order[len(order) // 2 :]
    values = np.unique(scores.scores[choosing])
    candidates = values[np.linspace(0, len(values) - 1, min(len(values), _CANDIDATES)).astype(int)]

    def strength(threshold: float) -> tuple[float, float]:  # the largest epsilon shown, of equals the best separation
        counts = _counted_alarms(scores, choosing, threshold)
        gain = counts.detected / counts.included - counts.false / counts.excluded
        return counts.epsilon_lower(delta=delta, error=false_alarm), gain

    threshold = max(map(float, candidates), key=strength)
    rule = f"score >= {threshold!r}, chosen by the other half of the runs"
    return [(rule, _counted_alarms(scores, tested, threshold))]


def _counted_alarms(scores: Scores, places: IntArray, threshold: float) -> Alarms:
    included = scores.included[places]
    alarm = scores.scores[places] >= threshold
    counts = Alarms(
        included=int(included.sum()),
        detected=int(np.count_nonzero(alarm & included)),
        excluded=int(np.count_nonzero(~included)),
        false=int(np.count_nonzero(alarm & ~included)),
    )
    if not counts.included or not counts.excluded:
        raise InputError(
            f"{scores.path}: expected runs with the canary and runs without it, got {counts.included:,} and "
            f"{counts.excluded:,} of {len(places):,}; more runs, or --threshold, which needs no runs to choose it"
        )
    return counts


_OUT = {
    Adjacency.ADD_REMOVE: "is not in the data",
    Adjacency.ZERO_OUT: "contributes zero",
    Adjacency.REPLACE_ONE: "is replaced by another one",
}
