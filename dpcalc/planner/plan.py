"""A training run as data: the protected unit, sampling and mechanism of each phase, the budget, parts of the data."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcalc.errors import InputError, KeyedInputError, UnsupportedError, counted, listed
from dpcalc.guarantee import Adjacency, Kind, html_table
from dpcalc.keys import exact, key
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.kinds import Mechanism, PairOnly, RdpOnly
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import TASK, Hierarchy, summed_faults
from dpcalc.sampling.schemes import All, AnyOrder, BallsInBins, CyclicPoisson, Poisson, RandomAllocation

if TYPE_CHECKING:  # they load numpy
    from dpcalc.planner.calibration import Calibration
    from dpcalc.planner.tuning import Repetitions

MAX_MOVED_PARTS = 16
"""Most parts between which a replaced unit may move: each ordered pair is composed."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the training with one sampling and one mechanism.

    Attributes:
        name: the user's word for it.
        hierarchy: levels with the scheme of this phase.
        mechanism: what a step does with its batch.
        clip: number of the level whose vectors are clipped, 0 (whole batch) to `hierarchy.depth`; where tasks are
            built, 1 is such a task.
        steps: noisy releases, >= 0.
        votes: the file with the votes of teachers, as the user names it; nothing that is promised depends on them.
        part: the part of the data that it draws from, one of the plan's `partition`; "" for all data.
        calibration: what a library was asked that found the noise, of which `mechanism` then has the least it can be;
            None where the noise itself is stated.
    """

    name: str
    hierarchy: Hierarchy
    mechanism: Mechanism
    clip: int
    steps: int
    votes: str = ""
    part: str = ""
    calibration: "Calibration | None" = None

    def __post_init__(self) -> None:
        """Raise InputError for a clipping level that does not exist, or a number of steps out of range."""
        if not 0 <= self.clip <= self.hierarchy.depth:
            raise InputError(f"clip: expected a level from 0 to {self.hierarchy.depth}, got {self.clip}")
        if self.steps < 0:
            raise InputError(f"steps: expected a whole number >= 0, got {self.steps}")
        allocation = self.hierarchy.allocation
        if isinstance(allocation, RandomAllocation) and self.steps > allocation.steps:
            raise InputError(
                f"steps: expected at most {allocation.steps}, of which units choose {allocation.times} by "
                f"random-allocation, got {self.steps}; more steps to choose from cost less: solve for sigma or rate"
            )

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussian of a step, all sums that it releases combined into one; UnsupportedError for other noise."""
        if not isinstance(self.mechanism, Gaussian):
            raise UnsupportedError(f"{self.name}: expected Gaussian noise for this question, got {self.mechanism.name}")
        return self.mechanism.joint

    @property
    def noise_multiplier(self) -> float | None:
        """Noise multiplier of a mechanism that adds noise to a sum, without its other sums; None for others."""
        noise_multiplier: float | None = getattr(self.mechanism, "noise_multiplier", None)
        return noise_multiplier

    @property
    def clips(self) -> bool:
        """True if noise is added to a sum of clipped vectors."""
        return self.noise_multiplier is not None and getattr(self.mechanism, "clips", True)

    def with_noise(self, value: float) -> "Phase":
        """Return the phase with another noise multiplier; UnsupportedError if its mechanism has none."""
        if self.noise_multiplier is None:
            raise UnsupportedError(
                f"noise_multiplier: expected a mechanism that adds noise in {self.name}, got {self.mechanism.name}, "
                "which has none; solve for steps or rate"
            )
        return replace(self, mechanism=self.mechanism.with_noise(value), calibration=None)

    @property
    def is_correlated(self) -> bool:
        """True if the noise of a step depends on that of other steps."""
        return self.mechanism.is_correlated

    def independent(self, *, attained: bool, unit: int = 0, removed: int = 0, is_group: bool = False) -> "Phase":
        """Return the phase with independent steps that bound its cost, of the simplest draws of the same law.

        Of the protected level so many units are removed from one parent at most; KeyedInputError if not proved.
        """
        phase = self
        if phase.is_correlated or phase.hierarchy.spans_steps:
            from dpcalc.amplification.correlated import independent_steps

            hierarchy, noise, steps = independent_steps(
                phase.mechanism, phase.hierarchy, phase.steps, attained=attained
            )
            phase = replace(phase, hierarchy=hierarchy, mechanism=noise, steps=steps)
        if phase.hierarchy.summed:
            phase = replace(phase, hierarchy=phase.hierarchy.with_copies(), clip=phase.clip + 1)
        hierarchy = phase.hierarchy.same_law(phase.steps, unit=unit, removed=removed, is_group=is_group)
        hierarchy = hierarchy.with_drawn_periods()
        return phase if hierarchy is phase.hierarchy else replace(phase, hierarchy=hierarchy)

    def summed_faults(self, unit: int) -> Iterator[KeyedInputError]:
        """Yield why no bound is proved for several draws that a step adds up; nothing for others."""
        return summed_faults(self.hierarchy, clip=self.clip, unit=unit, adds_noise=self.mechanism.adds_noise)

    @property
    def clip_names(self) -> tuple[str, ...]:
        """Name of the clipped vector for each clipping level from 0 ("batch") to depth."""
        names = [level.name for level in self.hierarchy.levels]
        return ("batch", *names) if self.hierarchy.episodes is None else ("batch", TASK, *names[1:])


_AMOUNT = exact(0, 10**9, "from 0 to 1e9")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits on epsilon that `check` tests."""

    epsilon: float = key(_AMOUNT, "The largest epsilon that passes.", advice="say what the run may cost at most")
    max_increase_pct: float | None = key(
        _AMOUNT, "The largest rise of epsilon against a base, in percent.", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A division of the units of the outermost level into disjoint parts.

    Attributes:
        rule: how the part of a unit is found, in words; from the unit itself alone, never from other units.
        parts: names, at least one.
    """

    rule: str
    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """A whole training run, and the unit, adjacency and delta of the guarantee asked of it.

    Attributes:
        name: the user's name for the run, or "".
        phases: in training order; all with the same level names and counts.
        unit: number of the protected level, 1 to depth.
        adjacency: neighbouring relation.
        delta: in (0, 1).
        group_size: units that are protected together, >= 1.
        budget: or None.
        method: accountant asked for, "auto" by default.
        tuning: how often the whole run is repeated, of which only the best result is released; None for one run.
        partition: the parts that phases may draw from; None without.
    """

    name: str = ""
    phases: tuple[Phase, ...]
    unit: int
    adjacency: Adjacency
    delta: float
    group_size: int = 1
    budget: Budget | None = None
    method: str = "auto"
    tuning: "Repetitions | None" = None
    partition: Partition | None = None

    def __post_init__(self) -> None:
        """Raise InputError for no phases, phases of other data, numbers out of range, and parts not covered."""
        if not self.phases:
            raise InputError("phases: expected at least one, got none")
        if not 0 < self.delta < 1:
            raise InputError(f"delta: expected a number between 0 and 1, both excluded, got {self.delta!r}")
        if any(phase.hierarchy.data != self.phases[0].hierarchy.data for phase in self.phases):
            raise InputError("phases: expected the same levels and counts in every phase; data are fixed")
        if self.group_size < 1:
            raise InputError(f"group_size: expected a whole number >= 1, got {self.group_size}")
        if not 1 <= self.unit <= self.phases[0].hierarchy.depth:
            raise InputError(f"unit: expected a level from 1 to {self.phases[0].hierarchy.depth}, got {self.unit}")
        if self.parts:
            self._refuse_uncovered_parts()

    def _refuse_uncovered_parts(self) -> None:
        """Raise InputError for unknown or too many parts, a group, repeated runs, or a phase not covered with parts."""
        names = () if self.partition is None else self.partition.parts
        unknown = next((part for part in self.parts if part not in names), None)
        if unknown is not None:
            raise InputError(
                f"part: expected {listed(names) if names else 'a `partition` that names the parts'}, got `{unknown}`"
            )
        if self.group_size > 1 or self.tuning is not None:
            raise InputError("part: expected one protected unit and a single run with parts of the data, got several")
        is_moved = self.moves_between_parts
        if is_moved and len(self.parts) > MAX_MOVED_PARTS:
            raise InputError(
                f"part: expected at most {MAX_MOVED_PARTS} parts with replace-one, got {len(self.parts)}; protect "
                "against add-remove"
            )
        allowed = (Poisson, All) if is_moved else (Poisson, All, BallsInBins, RandomAllocation)
        for phase in self.phases:
            if phase.hierarchy.tree is not None or not all(level.is_equal for level in phase.hierarchy.levels):
                raise InputError("part: expected units of one size with parts of the data, got several sizes")
            outermost = phase.hierarchy.level(1)
            drawn = outermost.scheme
            if phase.part and (phase.hierarchy.episodes is not None or not isinstance(drawn, allowed)):
                raise InputError(
                    f"part: expected {listed(tuple(scheme.name for scheme in allowed))} at level {outermost.name} of a "
                    f"part, whose size is not known, got {drawn.name}"
                    f"{' with max_batch_size' if drawn.is_cut else ''}; without `partition` all "
                    "phases are composed, each with any draw"
                )
            if phase.part and is_moved and (not phase.clips or phase.is_correlated):
                raise InputError(
                    "part: expected noise on sums of clipped vectors in parts with replace-one, got "
                    f"{phase.mechanism.name}"
                )

    @property
    def moves_between_parts(self) -> bool:
        """True if a replaced unit may turn up in another part: units of the outermost level are replaced."""
        return self.adjacency is Adjacency.REPLACE_ONE and self.unit == 1

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that phases draw from, each once; () if all phases draw from all data."""
        return tuple(dict.fromkeys(phase.part for phase in self.phases if phase.part))

    def __repr__(self) -> str:
        """Return the run in one line, without all fields."""
        label = f"{self.name!r}, " if self.name else ""
        phases = []
        for phase in self.phases[:3]:
            noise = "" if phase.noise_multiplier is None else f" {phase.noise_multiplier:g}"
            draws = ", ".join(f"{level.scheme.name} {level.name}" for level in phase.hierarchy.levels)
            phases.append(f"{counted(phase.steps, 'step')}, {phase.mechanism.name}{noise}, {draws}")
        if self.phases[3:]:
            phases.append("...")
        together = f"{self.group_size} of " if self.group_size > 1 else ""
        protected = f"{together}{self.unit_name}, {self.adjacency}, delta {self.delta:g}"
        return f"Plan({label}{'; '.join(phases)}; protects {protected})"

    def _repr_html_(self) -> str:
        """Return the facts of the run as a table for a notebook."""
        from dpcalc.planner.words import facts

        rows = [(name, text) for name, text in facts(self).items() if text]
        rows += [] if self.budget is None else [("budget", f"epsilon {self.budget.epsilon!r}")]
        return html_table(("", self.name or "Plan"), rows)

    def independent(self, *, attained: bool = False) -> "Plan":
        """Return the plan with independent steps of no less cost; UnsupportedError if members of a group may part."""
        is_other = any(phase.is_correlated or phase.hierarchy.spans_steps for phase in self.phases)
        for fault in (fault for phase in self.phases for fault in phase.summed_faults(self.unit)):
            raise fault
        if is_other and self.group_size > 1 and self.parting:
            raise UnsupportedError(
                f"group_size: expected 1 {self.parting}, got {self.group_size}; protect one unit, or a level above"
            )
        removed = self.group_size if self.adjacency is Adjacency.ADD_REMOVE else 0
        phases = tuple(
            phase.independent(attained=attained, unit=self.unit, removed=removed, is_group=self.group_size > 1)
            for phase in self.phases
        )
        return self if phases == self.phases else replace(self, phases=phases)

    @property
    def parting(self) -> str:
        """Reason why the members of a group may part, as words that begin with "with"; "" if they stay together."""
        for phase in self.phases:
            scheme = phase.hierarchy.allocation or phase.hierarchy.level(1).scheme
            if isinstance(scheme, CyclicPoisson):
                return "with scheme cyclic-poisson, whose groups may part the members"
            if isinstance(scheme, AnyOrder) and phase.clip == 0:
                return "with scheme any-order and clip batch, as members in different batches turn each of them around"
            if isinstance(scheme, BallsInBins) and phase.is_correlated:
                from dpcalc.amplification.correlated import has_overlap

                if has_overlap(phase.mechanism, phase.steps):
                    return "with correlated noise and scheme balls-in-bins, whose bins may part the members"
        return ""

    @property
    def calibrations(self) -> "tuple[Calibration, ...]":
        """What libraries were asked that found the noise of phases: all that is said then rests on their answers."""
        return tuple(phase.calibration for phase in self.phases if phase.calibration)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every answer rests on beside the plan itself, a note for each calibration."""
        return tuple(dict.fromkeys(each.note for each in self.calibrations))

    @property
    def bound_kind(self) -> Kind:
        """What upper bounds on its cost claim."""
        return Kind.CONDITIONAL if self.calibrations else Kind.UPPER

    @property
    def promised_epsilon(self) -> float | None:
        """Epsilon that a library found the noise for, where it assumed this run; None for any other run."""
        phase, asked = self.phases[0], self.phases[0].calibration
        level = phase.hierarchy.levels[0]
        is_assumed = (
            asked is not None
            and len(self.phases) == phase.hierarchy.depth == phase.clip == level.redraw_every == self.group_size == 1
            and self.tuning is None
            and self.adjacency is not Adjacency.REPLACE_ONE  # a Poisson draw of zeroes is that of nobody
            and level.scheme == Poisson(probability=asked.rate)
            and phase.mechanism == replace(phase.gaussian, also=())
            and phase.noise_multiplier == asked.noise
            and phase.steps <= asked.steps
            and self.delta >= asked.delta
        )
        return asked.limit if asked is not None and is_assumed else None

    @property
    def is_gaussian(self) -> bool:
        """True if all noise is Gaussian, as most published results assume."""
        return all(isinstance(phase.mechanism, Gaussian) for phase in self.phases)

    @property
    def adds_noise(self) -> bool:
        """True if every step adds noise to a sum, so that distances between batches are known."""
        return all(phase.mechanism.adds_noise for phase in self.phases)

    def counted_level(self, phase: Phase) -> int:
        """Return the level whose drawn units bounds of a phase count: the clip's; the unit's for what counts units."""
        return self.unit if isinstance(phase.mechanism, PairOnly | RdpOnly) else phase.clip

    @property
    def knows_losses(self) -> bool:
        """True if the privacy loss of every step is known, not its Renyi divergences alone."""
        return all(not isinstance(phase.mechanism, RdpOnly) for phase in self.phases)

    @property
    def unit_name(self) -> str:
        """Name of the protected level, as the user calls it."""
        return self.phases[0].hierarchy.level(self.unit).name

    @property
    def steps(self) -> int:
        """Number of noisy releases of all phases."""
        return sum(phase.steps for phase in self.phases)
