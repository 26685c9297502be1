"""The result of `dpcalc pate`, and its queries as CSV; epsilons are rounded up."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

from dpcalc.config.source import visible
from dpcalc.guarantee import Row
from dpcalc.mechanisms.pate import Aggregation, ConfidentGNMax, GNMax, LNMax
from dpcalc.pate.answer import PateAnswer, PateQuestion, PateTarget, SanitisedEpsilon
from dpcalc.planner.pate import DataDependentResult
from dpcalc.report.fields import Field, Fields, Output, Section, json_only
from dpcalc.report.guarantees import assumptions_field, epsilon_text, guarantee_field, quiet_line, row_fields
from dpcalc.report.rounding import BARE_DIGITS, as_given, rounded_down, rounded_up

PROTECTS = "one teacher's data, hence each of its records; its votes may be any others"
PRIVATE = "itself private: do not publish"
WARNING = (
    "what depends on the votes is itself private: publish the data-independent epsilon, or a sanitised one "
    "(`dpcalc pate --sanitise`)"
)
DRAWN = "a sanitised epsilon is drawn once: publish this one or none, every further draw costs again"
MAX_QUERY_ROWS = 10
"""Number of queries, the costliest ones, that `-v` shows."""
COLUMNS = ("query", "votes", "lead", "other_wins", "renyi_divergence")
"""Columns of the table of queries, in CSV and in JSON."""


def pate_output(answer: PateAnswer, *, assumptions: Sequence[str], notes: Sequence[str], verbose: bool) -> Output:
    """Return the output of `pate`, led by the data-independent epsilon; `verbose` adds queries.

    Args:
        answer: all results.
        assumptions: one sentence each.
        notes: warnings, one sentence each.
        verbose: True adds the costliest queries for people, and every query to JSON.
    """
    epsilon = rounded_up(answer.by_number.epsilon)
    columns = [dict(zip(COLUMNS, row, strict=True)) for row in query_rows(answer)]
    return Output(
        command="pate",
        headline=f"epsilon <= {epsilon}   delta = {as_given(answer.question.delta)}   whatever the votes are",
        fields=(
            *_ensemble_fields(answer.question),
            guarantee_field(answer.by_number),
            *_votes_fields(answer),
            _target_field(answer.target, answer.question),
            plain_and_row("costliest", _costliest_texts(answer) if verbose else ()),
            assumptions_field(assumptions),
            json_only("notes", list(notes)),
            *((json_only("per_query", columns),) if verbose else ()),
        ),
        quiet_text=quiet_line(answer.by_number.epsilon),
    )


def _queries(count: int) -> str:
    """Return "query" for 1, else "queries"."""
    return "query" if count == 1 else "queries"


def _ensemble_fields(question: PateQuestion) -> Fields:
    """Return the fields that describe the ensemble: aggregation, noise, queries, labels, teachers, protected unit."""
    votes = question.votes
    queries = f"{question.queries} {_queries(question.queries)}"
    ensemble = queries if votes is None else f"{queries}, {votes.labels} labels, {votes.teachers} teachers"
    noise = noise_text(question.aggregation, as_given, as_given)
    return (
        Field("aggregation", dataclasses.asdict(question.aggregation), plain=noise, label="aggregation"),
        json_only("queries", question.queries),
        json_only("teachers", None if votes is None else votes.teachers),
        json_only("labels", None if votes is None else votes.labels),
        plain_and_row("ensemble", ensemble),
        Field("protects", PROTECTS, label="protects"),
    )


def _votes_fields(answer: PateAnswer) -> Fields:
    """Return the fields `with_these_votes`, `answered`, `sanitised` and `published`, null or [] if unknown."""
    return (
        votes_field(answer.by_votes, Section.BOUND),
        _answered_field(answer.question),
        _sanitised_field(answer.sanitised, answer.by_number.epsilon),
        Field(
            "published",
            list(map(row_fields, answer.published)),
            plain=tuple(map(_published_text, answer.published)),
            label="published",
        ),
    )


def _answered_field(question: PateQuestion) -> Field:
    """Return the field `answered` with the expected number of answers; empty but for Confident-GNMax with votes."""
    if not isinstance(question.aggregation, ConfidentGNMax) or question.votes is None:
        return Field("answered")
    expected = float(question.aggregation.answer_probability(question.votes.top).sum())
    value = {"private": True, "expected": expected}
    words = f"about {expected:.4g} of {question.queries} queries on average ({PRIVATE})"
    return Field("answered", value, plain=words, label="answered")


def plain_and_row(name: str, text: str | tuple[str, ...]) -> Field:
    """Return a field that shows text to people under one name and is left out of JSON.

    Args:
        name: its name.
        text: its text, or one text a line; "" for none.
    """
    return Field(name, plain=text, label=name, in_json=False)


def votes_field(by_votes: DataDependentResult | None, section: Section = Section.LAST) -> Field:
    """Return the field `with_these_votes` of the data-dependent guarantee, marked private; null in JSON for None.

    Args:
        by_votes: the data-dependent guarantee of the teachers' votes.
        section: its place.
    """
    if by_votes is None:
        return json_only("with_these_votes", None)
    guarantee = by_votes.guarantee
    epsilon = rounded_up(guarantee.epsilon)
    text = f"epsilon <= {epsilon} ({guarantee.bound}, order {by_votes.order:.4g}, both directions; {PRIVATE})"
    value = {"private": True, "order": by_votes.order, "guarantee": guarantee.to_dict()}
    return Field("with_these_votes", value, plain=text, label="these votes", section=section)


def _costliest_texts(answer: PateAnswer) -> tuple[str, ...]:
    """Return a sentence for each of the 10 queries with the largest divergences, largest first; () without votes."""
    costliest = sorted(query_rows(answer), key=lambda row: -row[-1])[:MAX_QUERY_ROWS]
    return tuple(
        f"query {number}: {top} votes, lead {lead}, another wins with at most {rounded_up(other_wins)}, "
        f"divergence {rounded_up(divergence)}"
        for number, top, lead, other_wins, divergence in costliest
    )


def query_csv(answer: PateAnswer) -> str:
    """Return the table of queries as CSV, numbers in full precision; without votes its header alone."""
    rows = (",".join(repr(value) for value in row) for row in query_rows(answer))
    return "\n".join((",".join(COLUMNS), *rows)) + "\n"


def query_rows(answer: PateAnswer) -> Iterator[tuple[int, int, int, float, float]]:
    """Yield number, top votes, lead, bound on another label's win and divergence by query; nothing without votes."""
    votes, by_votes = answer.question.votes, answer.by_votes
    if votes is None or by_votes is None:
        return
    # `count` has no end, so that the lengths cannot be strictly equal.
    columns = (votes.top, votes.leads, by_votes.chances, by_votes.costs)
    yield from zip(itertools.count(1), *(column.tolist() for column in columns), strict=False)


def noise_text(aggregation: Aggregation, up: Callable[[float], str], down: Callable[[float], str]) -> str:
    """Return an aggregation and its noise in words, such as "GNMax, sigma 40.0".

    Args:
        aggregation: with its noise.
        up: formats a standard deviation, of which a larger value has a smaller epsilon.
        down: formats gamma, of which a smaller value has a smaller epsilon.
    """
    if isinstance(aggregation, LNMax):
        return f"LNMax, gamma {down(aggregation.gamma)}"
    if isinstance(aggregation, GNMax):
        return f"GNMax, sigma {up(aggregation.sigma)}"
    check, label = up(aggregation.check_sigma), up(aggregation.label.sigma)
    return f"Confident-GNMax, threshold {as_given(aggregation.threshold)}, threshold sigma {check}, sigma {label}"


def _up(value: float) -> str:
    return rounded_up(value, digits=BARE_DIGITS)


def _down(value: float) -> str:
    return rounded_down(value, digits=BARE_DIGITS)


def _sanitised_text(sanitised: SanitisedEpsilon, data_independent: float) -> str:
    """Return a sanitised epsilon and its terms in words, noting if it is no better than the data-independent one."""
    terms = sanitised.terms
    is_better = sanitised.epsilon < data_independent
    note = "" if is_better else "; no smaller than the data-independent one, so publish that"
    return (
        f"epsilon <= {rounded_up(sanitised.epsilon)} (order {terms.order:.4g}, beta {terms.smoothness:.4g}, "
        f"noise {terms.noise:.4g}, spread {rounded_up(sanitised.spread)}){note}"
    )


def _published_text(row: Row) -> str:
    """Return "SOURCE, BOUND: EPSILON (KIND; NOTE)" of a paper's number."""
    value = "" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
    note = f"; {visible(row.note)}" if row.note else ""
    return f"{row.method}, {row.bound}: {value} ({row.kind}{note})"


def _sanitised_field(sanitised: SanitisedEpsilon | None, data_independent: float) -> Field:
    """Return the field `sanitised`: epsilon, delta, spread and each of the terms, as a sentence and in JSON or null."""
    if sanitised is None:
        return json_only("sanitised", None)
    # The terms are public by design: chosen without a look at the votes.
    terms = dataclasses.asdict(sanitised.terms).items()
    value = (
        Field("epsilon", sanitised.epsilon),
        Field("delta", sanitised.delta),
        Field("spread", sanitised.spread),
        *(Field(name, number) for name, number in terms),
    )
    return Field("sanitised", value, plain=_sanitised_text(sanitised, data_independent), label="sanitised")


def _target_field(target: PateTarget | None, question: PateQuestion) -> Field:
    """Return the field of the queries and the noise that keep to the target; null in JSON for None."""
    if target is None:
        return json_only("target", None)
    # JSON has one object; people see a row for each text, under one label.
    value = (
        json_only("epsilon", question.target),
        json_only("queries", target.max_queries),
        json_only("queries_with_these_votes", target.max_queries_by_votes),
        json_only("least_noise", dataclasses.asdict(target.least_noise)),
        *(Field(name, plain=text, label="target", in_json=False) for name, text in _target_texts(target, question)),
    )
    return Field("target", value, is_inline=True)


def _target_texts(target: PateTarget, question: PateQuestion) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) for queries within the target, those with these votes if known, and the least noise."""
    epsilon, count, by_votes = as_given(question.target or 0.0), target.max_queries, target.max_queries_by_votes
    yield "labels", f"epsilon {epsilon} buys {count} {_queries(count)} whatever the votes are"
    if by_votes is not None:
        yield "labels_with_these_votes", f"{by_votes} of {question.queries} with these votes ({PRIVATE})"
    noise = noise_text(target.least_noise, _up, _down)
    yield "least_noise", f"all {question.queries} queries keep to it, whatever the votes are, from {noise}"
