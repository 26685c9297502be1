"""The result of `dpcalc pate`, and its queries as CSV; epsilons are rounded up."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

from dpcalc.config.source import visible
from dpcalc.mechanisms.pate import Aggregation, ConfidentGNMax, GNMax, LNMax
from dpcalc.pate.answer import PateAnswer
from dpcalc.planner.pate import DataDependentResult
from dpcalc.report.fields import Field, Output, Section, json_only
from dpcalc.report.guarantees import assumptions_field, epsilon_text, guarantee_field, quiet_line, row_fields
from dpcalc.report.rounding import BARE_DIGITS, as_given, rounded_down, rounded_up

PROTECTS = "one teacher's data, hence each of its records; its votes may be any others"
PRIVATE = "itself private: do not publish"
WARNING = (
    "what depends on the votes is itself private: publish the data-independent epsilon, or a sanitised one "
    "(`dpcalc pate --sanitise`)"
)
DRAWN = "a sanitised epsilon is drawn once: publish this one or none, every further draw costs again"
MAX_QUERY_ROWS = 10  # queries, the costliest ones, that `-v` shows
COLUMNS = ("query", "votes", "lead", "other_wins", "renyi_divergence")  # of the queries, in CSV and in JSON


def pate_output(answer: PateAnswer, *, assumptions: Sequence[str], notes: Sequence[str], verbose: bool) -> Output:
    """Return the output of `pate`, led by the data-independent epsilon.

    `verbose` adds the costliest queries for people, and every query to JSON.
    """
    question, votes, safe_epsilon = answer.question, answer.question.votes, answer.by_number.epsilon
    aggregation, queries = question.aggregation, question.queries
    ensemble = f"{queries} {_queries(queries)}"
    if votes is not None:
        ensemble += f", {votes.labels} labels, {votes.teachers} teachers"

    answered = Field("answered")
    if isinstance(aggregation, ConfidentGNMax) and votes is not None:
        expected = float(aggregation.answer_probability(votes.top).sum())
        words = f"about {expected:.4g} of {queries} queries on average ({PRIVATE})"
        answered = Field("answered", {"private": True, "expected": expected}, plain=words, label="answered")

    sanitised = json_only("sanitised", None)
    if answer.sanitised is not None:
        epsilon, delta, terms, spread = answer.sanitised
        note = "" if epsilon < safe_epsilon else "; no smaller than the data-independent one, so publish that"
        public = {"epsilon": epsilon, "delta": delta, "spread": spread, **dataclasses.asdict(terms)}
        words = (
            f"epsilon <= {rounded_up(epsilon)} (order {terms.order:.4g}, beta {terms.smoothness:.4g}, "
            f"noise {terms.noise:.4g}, spread {rounded_up(spread)}){note}"
        )
        fields = tuple(Field(name, number) for name, number in public.items())
        sanitised = Field("sanitised", fields, plain=words, label="sanitised")

    published = []
    for row in answer.published:
        value = "" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
        note = f"; {visible(row.note)}" if row.note else ""
        published.append(f"{row.method}, {row.bound}: {value} ({row.kind}{note})")

    target = json_only("target", None)
    if answer.target is not None:
        count, by_votes, least_noise = answer.target
        limit = as_given(question.target or 0.0)
        texts = {"labels": f"epsilon {limit} buys {count} {_queries(count)} whatever the votes are"}
        if by_votes is not None:
            texts["labels_with_these_votes"] = f"{by_votes} of {queries} with these votes ({PRIVATE})"
        noise = _noise_text(
            least_noise, lambda x: rounded_up(x, digits=BARE_DIGITS), lambda x: rounded_down(x, digits=BARE_DIGITS)
        )
        texts["least_noise"] = f"all {queries} queries keep to it, whatever the votes are, from {noise}"
        # JSON has one object; people see a row for each text, under one label.
        within = (
            json_only("epsilon", question.target),
            json_only("queries", count),
            json_only("queries_with_these_votes", by_votes),
            json_only("least_noise", dataclasses.asdict(least_noise)),
            *(Field(name, plain=text, label="target", in_json=False) for name, text in texts.items()),
        )
        target = Field("target", within, is_inline=True)

    rows = list(query_rows(answer)) if verbose else []
    costliest = []
    for number, top, lead, other_wins, divergence in sorted(rows, key=lambda row: -row[-1])[:MAX_QUERY_ROWS]:
        costliest.append(
            f"query {number}: {top} votes, lead {lead}, another wins with at most {rounded_up(other_wins)}, "
            f"divergence {rounded_up(divergence)}"
        )
    noise = _noise_text(aggregation, as_given, as_given)
    fields = (
        Field("aggregation", dataclasses.asdict(aggregation), plain=noise, label="aggregation"),
        json_only("queries", queries),
        json_only("teachers", None if votes is None else votes.teachers),
        json_only("labels", None if votes is None else votes.labels),
        Field("ensemble", plain=ensemble, label="ensemble", in_json=False),
        Field("protects", PROTECTS, label="protects"),
        guarantee_field(answer.by_number),
        votes_field(answer.by_votes, Section.BOUND),
        answered,
        sanitised,
        Field("published", list(map(row_fields, answer.published)), plain=tuple(published), label="published"),
        target,
        Field("costliest", plain=tuple(costliest), label="costliest", in_json=False),
        assumptions_field(assumptions),
        json_only("notes", list(notes)),
    )
    if verbose:
        fields += (json_only("per_query", [dict(zip(COLUMNS, row, strict=True)) for row in rows]),)
    given_delta = as_given(question.delta)
    return Output(
        command="pate",
        headline=f"epsilon <= {rounded_up(safe_epsilon)}   delta = {given_delta}   whatever the votes are",
        fields=fields,
        quiet_text=quiet_line(safe_epsilon),
    )


def _queries(count: int) -> str:
    return "query" if count == 1 else "queries"


def votes_field(by_votes: DataDependentResult | None, section: Section = Section.LAST) -> Field:
    """Return the field `with_these_votes` of the data-dependent guarantee, marked private; null in JSON for None."""
    if by_votes is None:
        return json_only("with_these_votes", None)
    guarantee = by_votes.guarantee
    epsilon = rounded_up(guarantee.epsilon)
    text = f"epsilon <= {epsilon} ({guarantee.bound}, order {by_votes.order:.4g}, both directions; {PRIVATE})"
    value = {"private": True, "order": by_votes.order, "guarantee": guarantee.to_dict()}
    return Field("with_these_votes", value, plain=text, label="these votes", section=section)


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


def _noise_text(aggregation: Aggregation, up: Callable[[float], str], down: Callable[[float], str]) -> str:
    """Return an aggregation and its noise in words; `up` writes a deviation, `down` gamma: each as costs no more."""
    if isinstance(aggregation, LNMax):
        return f"LNMax, gamma {down(aggregation.gamma)}"
    if isinstance(aggregation, GNMax):
        return f"GNMax, sigma {up(aggregation.sigma)}"
    check, label = up(aggregation.check_sigma), up(aggregation.label.sigma)
    return f"Confident-GNMax, threshold {as_given(aggregation.threshold)}, threshold sigma {check}, sigma {label}"
