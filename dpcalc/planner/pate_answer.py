"""All that a user asks of an ensemble of teachers, answered at once."""

from dataclasses import dataclass

import numpy as np

from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee, Row
from dpcalc.mechanisms.pate import Aggregation, Votes
from dpcalc.planner.pate import ByVotes, by_number, by_votes, least_noise, most_by_number, most_by_votes
from dpcalc.planner.pate_published import published
from dpcalc.planner.pate_release import Sanitised, sanitised, terms


@dataclass(frozen=True, kw_only=True)
class PateQuestion:
    """An ensemble and what is asked of it.

    Attributes:
        aggregation: how votes become a label, with its noise.
        queries: how many are put to the teachers.
        votes: of these queries, or None where only their number is known.
        delta: in (0, 1).
        target: an epsilon to keep to, or None.
    """

    aggregation: Aggregation
    queries: int
    votes: Votes | None
    delta: float
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What keeps to a target.

    Attributes:
        by_number: queries whatever the votes are.
        by_votes: queries with these votes, from the first on, or None without votes; itself private.
        least: the least noise for all queries whatever the votes are.
    """

    by_number: int
    by_votes: int | None
    least: Aggregation


@dataclass(frozen=True, kw_only=True)
class PateAnswer:
    """What an ensemble costs.

    Attributes:
        question: that was asked.
        by_number: whatever the votes are; may be published.
        by_votes: with these votes, or None; itself private.
        published: what the papers' analyses print.
        reach: of a target, or None without one.
        sanitised: what these votes cost as it may be published, or None where nobody asked for it.
    """

    question: PateQuestion
    by_number: Guarantee
    by_votes: ByVotes | None
    published: tuple[Row, ...]
    reach: Reach | None
    sanitised: Sanitised | None


def pate(question: PateQuestion, *, rng: np.random.Generator | None = None) -> PateAnswer:
    """The cost of an ensemble's answers.

    Args:
        question: the ensemble.
        rng: secret random numbers for a cost that may be published; None for no such cost.

    Raises:
        InputError: a target or delta without meaning, or a public cost of no votes.
    """
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    if rng is not None and votes is None:
        raise InputError("--sanitise: expected votes, whose cost is made public, got none")
    chosen = None if rng is None else terms(aggregation, question.queries, delta=delta, target=question.target)
    return PateAnswer(
        question=question,
        by_number=by_number(aggregation, question.queries, delta=delta),
        by_votes=None if votes is None else by_votes(aggregation, votes, delta=delta),
        published=() if votes is None else published(aggregation, votes, delta=delta),
        reach=_reach(question),
        sanitised=None
        if rng is None or votes is None or chosen is None
        else sanitised(aggregation, votes, chosen, delta=delta, rng=rng),
    )


def _reach(question: PateQuestion) -> Reach | None:
    """What keeps to the target, if there is one."""
    target, delta, votes = question.target, question.delta, question.votes
    if target is None:
        return None
    return Reach(
        by_number=most_by_number(question.aggregation, target=target, delta=delta),
        by_votes=None if votes is None else most_by_votes(question.aggregation, votes, target=target, delta=delta),
        least=least_noise(question.aggregation, question.queries, target=target, delta=delta),
    )
