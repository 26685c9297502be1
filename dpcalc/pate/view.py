"""The result of `dpcalc pate`, and its queries as CSV; epsilons are rounded up."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.mechanisms.pate import VOTES, ConfidentGNMax, LNMax, PateMechanism, Votes
from dpcalc.pate.answer import (
    DataDependentResult,
    data_dependent_guarantee,
    data_independent_guarantee,
    draw_sanitised_epsilon,
    max_queries,
    max_queries_by_votes,
    min_noise,
    published_rows,
    release_terms,
)
from dpcalc.report.guarantees import assumes_rows, epsilon_text, guarantee_lines, quiet_line, row_json
from dpcalc.report.output import Json, Lines, Output, lines
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


def pate_output(
    aggregation: PateMechanism,
    votes: Votes | None,
    *,
    queries: int,
    delta: float,
    target: float | None,
    rng: np.random.Generator | None,
    verbose: bool,
    with_csv: bool,
) -> Output:
    """Return all results for an ensemble, led by the data-independent epsilon; `csv` is a table of the queries.

    With `rng`, whose seed must stay secret, also an epsilon to be published is drawn; `verbose` adds the costliest
    queries for people, and every query to JSON. CSV has numbers in full precision.
    """
    terms, sanitised_epsilon = None, (math.inf, 0.0)
    if rng is not None:
        if votes is None:
            raise InputError("--sanitise: expected votes, whose cost is made public, got none")
        terms = release_terms(aggregation, queries, target=target, delta=delta)
        sanitised_epsilon = draw_sanitised_epsilon(aggregation, votes, terms, delta=delta, rng=rng)
    by_number = data_independent_guarantee(aggregation, queries, delta=delta)
    by_votes, by_query = None, []
    safe_epsilon = by_number.epsilon
    ensemble = f"{queries} {_queries(queries)}"
    if votes is not None:
        ensemble += f", {votes.counts.shape[1]} labels, {votes.teachers} teachers"
        by_votes = data_dependent_guarantee(aggregation, votes, delta=delta)
    if votes is not None and by_votes is not None and (verbose or with_csv):
        # Number, top votes, lead, bound on another label's win and divergence of each query.
        # A partition is linear in the labels, of which there may be thousands; a sort would order all of them.
        second, first = np.partition(votes.counts, -2, axis=1)[:, -2:].T
        columns = (np.arange(1, queries + 1), votes.top, first - second, by_votes.chances, by_votes.costs)
        by_query = list(zip(*(column.tolist() for column in columns), strict=True))

    answered: Json | None = None
    answered_words = votes_words = sanitised_words = ""
    if isinstance(aggregation, ConfidentGNMax) and votes is not None:
        expected = float(np.exp(aggregation.log_check_probabilities(votes.top)[0]).sum())
        answered = {"private": True, "expected": expected}
        answered_words = f"about {expected:.4g} of {queries} queries on average ({PRIVATE})"
    if by_votes is not None:
        votes_words = votes_text(by_votes)
    sanitised: Json | None = None
    if terms is not None:
        epsilon, spread = sanitised_epsilon
        note = "" if epsilon < safe_epsilon else "; no smaller than the data-independent one, so publish that"
        sanitised = {"epsilon": epsilon, "delta": delta, "spread": spread, **dataclasses.asdict(terms)}
        sanitised_words = (
            f"epsilon <= {rounded_up(epsilon)} (order {terms.order:.4g}, beta {terms.smoothness:.4g}, "
            f"noise {terms.noise:.4g}, spread {rounded_up(spread)}){note}"
        )

    published = []
    rows_published = () if votes is None else published_rows(aggregation, votes, delta=delta)
    for row in rows_published:
        value = "" if row.epsilon is None else epsilon_text(row.epsilon, row.kind)
        note = f"; {visible(row.note)}" if row.note else ""
        published.append(("published", f"{row.method}, {row.bound}: {value} ({row.kind}{note})"))

    # JSON has one object; people see a row for each text, under one label.
    targeted: Json | None = None
    targets: Lines = []
    if target is not None:
        count = max_queries(aggregation, target=target, delta=delta)
        count_by_votes = None
        if votes is not None:
            count_by_votes = max_queries_by_votes(aggregation, votes, target=target, delta=delta)
        least_noise = min_noise(aggregation, queries, target=target, delta=delta)
        text = f"epsilon {as_given(target)} buys {count} {_queries(count)} whatever the votes are"
        targets.append(("labels", text))
        if count_by_votes is not None:
            text = f"{count_by_votes} of {queries} with these votes ({PRIVATE})"
            targets.append(("labels_with_these_votes", text))
        noise = _noise_text(
            least_noise, lambda x: rounded_up(x, digits=BARE_DIGITS), lambda x: rounded_down(x, digits=BARE_DIGITS)
        )
        targets.append(("least_noise", f"all {queries} queries keep to it, whatever the votes are, from {noise}"))
        targeted = {
            "epsilon": target,
            "queries": count,
            "queries_with_these_votes": count_by_votes,
            "least_noise": _noise_json(least_noise),
        }

    costliest = []
    shown = by_query if verbose else []
    for number, top, lead, other_wins, divergence in sorted(shown, key=lambda row: -row[-1])[:MAX_QUERY_ROWS]:
        text = (
            f"query {number}: {top} votes, lead {lead}, another wins with at most {rounded_up(other_wins)}, "
            f"divergence {rounded_up(divergence)}"
        )
        costliest.append(("costliest", text))
    notes = ([WARNING] if votes is not None else []) + ([DRAWN] if terms is not None else [])
    result: Json = {
        "aggregation": _noise_json(aggregation),
        "queries": queries,
        "teachers": None if votes is None else votes.teachers,
        "labels": None if votes is None else votes.counts.shape[1],
        "protects": PROTECTS,
        "guarantee": by_number.to_dict(),
        "with_these_votes": None if by_votes is None else votes_json(by_votes),
        "answered": answered,
        "sanitised": sanitised,
        "published": list(map(row_json, rows_published)),
        "target": targeted,
        "assumptions": list(VOTES),
        "notes": notes,
    }
    if verbose:
        result["per_query"] = [dict(zip(COLUMNS, row, strict=True)) for row in by_query]
    middle = [("answered", answered_words), ("sanitised", sanitised_words), *published]
    head = [
        ("aggregation", _noise_text(aggregation, as_given, as_given)),
        ("ensemble", ensemble),
        ("protects", PROTECTS),
    ]
    return Output(
        command="pate",
        result=result,
        headline=f"epsilon <= {rounded_up(safe_epsilon)}   delta = {as_given(delta)}   whatever the votes are",
        lines=[
            *guarantee_lines(by_number),
            *head,
            ("with_these_votes", votes_words),
            *middle,
            *targets,
            *costliest,
            *lines({"assumptions": list(VOTES)}),
        ],
        rows=[
            *head,
            ("these votes", votes_words),
            *middle,
            *(("target", text) for _, text in targets),
            *costliest,
            *assumes_rows(VOTES),
        ],
        quiet_text=quiet_line(safe_epsilon),
        csv="".join(",".join(map(str, row)) + "\n" for row in (COLUMNS, *by_query)) if with_csv else "",
    )


def _queries(count: int) -> str:
    return "query" if count == 1 else "queries"


def votes_json(by_votes: DataDependentResult) -> Json:
    return {"private": True, "order": by_votes.order, "guarantee": by_votes.guarantee.to_dict()}


def votes_text(by_votes: DataDependentResult) -> str:
    """Return the data-dependent epsilon in words, marked private."""
    epsilon, bound = rounded_up(by_votes.guarantee.epsilon), by_votes.guarantee.bound
    return f"epsilon <= {epsilon} ({bound}, order {by_votes.order:.4g}, both directions; {PRIVATE})"


def _noise_json(aggregation: PateMechanism) -> Json:
    if isinstance(aggregation, LNMax):
        return {"gamma": aggregation.gamma}
    label: Json = {"sigma": aggregation.noise_multiplier}
    if not isinstance(aggregation, ConfidentGNMax):
        return label
    check = aggregation.threshold_noise_multiplier
    return {"label": label, "threshold": aggregation.threshold, "check_sigma": check}


def _noise_text(aggregation: PateMechanism, up: Callable[[float], str], down: Callable[[float], str]) -> str:
    """Return an aggregation and its noise in words; `up` writes a deviation, `down` gamma: each as costs no more."""
    if isinstance(aggregation, LNMax):
        return f"LNMax, gamma {down(aggregation.gamma)}"
    label = up(aggregation.noise_multiplier)
    if not isinstance(aggregation, ConfidentGNMax):
        return f"GNMax, sigma {label}"
    check = up(aggregation.threshold_noise_multiplier)
    return f"Confident-GNMax, threshold {as_given(aggregation.threshold)}, threshold sigma {check}, sigma {label}"
