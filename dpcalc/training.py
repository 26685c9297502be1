"""Privacy accounting inside a training loop: `Accountant`."""

import math
import re
import sys
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple, Never

from dpcalc.config.expand import fingerprint
from dpcalc.errors import InputError, NoSolution, counted, require_whole
from dpcalc.guarantee import Guarantee
from dpcalc.planner.composition import Composition, composed
from dpcalc.planner.evaluate import guarantee, with_lower_bound
from dpcalc.planner.plan import Budget, Phase, Plan
from dpcalc.planner.solve import EpsilonGoal, largest_whole
from dpcalc.planner.vary import with_total_steps
from dpcalc.plans import Number, Source, exact_number, plan, plan_of, real_number, refuse_unknown, with_hints
from dpcalc.report.output import as_given, rounded_up
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, RandomAllocation, SummedPoisson, WithReplacement

STATE_FORMAT = "dpcalc.accountant/1"
_OTHER_NAMES = {"get_epsilon": "epsilon", "get_privacy_spent": "epsilon", "history": "state_dict()['history']"}
_MAX_STEPS = 10**12  # an end of the search for the steps left, of a run that costs next to nothing
_INTERVALS = 512  # certified step counts of a run of known length, at least; more of them take time, fewer are coarse
_GROWTH = 32  # a certified step count is at most 1/32 of it above the steps: the root of 33/32 is 1.016
_FIRST = 16  # certified step counts of a run of unknown length are so far apart at the start
_MEMORYLESS = (All, Poisson, SummedPoisson, CappedPoisson, Fixed, WithReplacement)


class _Setting(NamedTuple):
    """Settings of a step: index of the phase of the plan, and what differs from it (None for what does not)."""

    place: int
    noise_multiplier: float | None
    rate: Fraction | None

    @property
    def is_of_plan(self) -> bool:
        """True if neither noise nor rate differs from the plan."""
        return self.noise_multiplier is None and self.rate is None


class Accountant:
    """Epsilon of a training run so far, and the steps that are left to a budget.

    Certified at every time:
        `epsilon` is an upper bound for every data set on the cost of the steps so far. Between two certified counts it
        is the bound of the next one, which the steps so far cost at most, since they are the beginning of that run. It
        is at most 1/32 more steps away, or 1/512 of the whole run (16 steps of a run of unknown length): where epsilon
        grows with the root of the steps that is 1.6 %. The bound is exact at the end of each phase and where the budget
        ends. `guarantee()` is exact at any time.
        `steps_left` and `should_stop` are exact: one step more would have a certified bound above the budget.

    Assumes, as `dpcalc.epsilon` does, that noise, rates and the length do not depend on the data: they are fixed
    beforehand, or follow from the values of this class. A run that ends when a validation score pleases costs what the
    longest possible run costs. Noise that is chosen after seeing outputs is not covered.

    Example:
        >>> accountant = Accountant(sample_rate=0.01, noise_multiplier=1.0, delta=1e-5, target_epsilon=1)
        >>> while not accountant.should_stop:
        ...     accountant.step(count=100 if accountant.steps_left >= 100 else 1)
        >>> accountant.steps, accountant.epsilon <= 1
        (254, True)
    """

    def __init__(
        self,
        config: Source | None = None,
        *,
        target_epsilon: float | None = None,
        unit: str | None = None,
        group_size: int | None = None,
        **numbers: Any,
    ) -> None:
        """Start before the first step of a config or of `plan(**numbers)`, with `target_epsilon` as the budget.

        Args:
            config: a plan, the path of a config, or its content as a mapping.
            target_epsilon: the budget, > 0; by default that of the config.
            unit: name of the level whose units are protected; the config's own by default.
            group_size: units that are protected together, >= 1; the config's own by default.
            numbers: without a config the arguments of `dpcalc.plan`; `steps` or `epochs` may be left out.

        Raises:
            TypeError: there is neither a config nor a delta, or an argument has an unknown name.
            InputError: there are both a config and numbers, or one of them is wrong or missing.
        """
        if config is not None and numbers:
            raise InputError(f"config: expected a config or numbers, got both: {', '.join(numbers)}; change the config")
        self._has_length = config is not None or not numbers.keys().isdisjoint({"steps", "epochs"})
        if config is None:
            length = {} if self._has_length else {"steps": 1}
            run = with_hints(plan, "Accountant")(**numbers, **length, unit=unit, group_size=group_size)
        else:
            run = plan_of(config, unit=unit, group_size=group_size)
        if target_epsilon is not None:  # the allowed rise of the budget is kept
            is_number = isinstance(target_epsilon, (int, float)) and not isinstance(target_epsilon, bool)
            if not is_number or not 0 < target_epsilon < math.inf:
                raise InputError(f"target_epsilon: expected a finite number > 0, got {target_epsilon!r}")
            rise = None if run.budget is None else run.budget.max_increase_pct
            run = replace(run, budget=Budget(epsilon=float(target_epsilon), max_increase_pct=rise))
        self._plan = run
        self._history: list[tuple[_Setting, int]] = []
        self._steps = 0
        self._phases: dict[_Setting, Phase] = {}
        self._base: Composition = composed(self._plan)
        self._certified: tuple[int, float] = (0, 0.0)
        self._last_step: int | None = None

    def __repr__(self) -> str:
        """Return the steps so far and the plan in one line."""
        return f"Accountant({self._steps} steps of {self._plan!r})"

    @property
    def steps(self) -> int:
        """Number of noisy updates so far."""
        return self._steps

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return self._plan.delta

    @property
    def budget(self) -> float | None:
        """Largest allowed epsilon; None if none was stated."""
        return None if self._plan.budget is None else self._plan.budget.epsilon

    def __getattr__(self, name: str) -> Never:
        """Raise AttributeError, for names of other accountants with the name that dpcalc uses."""
        more = f"; dpcalc calls this {_OTHER_NAMES[name]}" if name in _OTHER_NAMES else ""
        raise AttributeError(f"Accountant has no attribute {name!r}{more}")

    def step(
        self, *, noise_multiplier: float | None = None, rate: Number | None = None, count: int = 1, **unknown: Never
    ) -> None:
        """Record `count` noisy updates, by default with the plan's noise and rate; a refused call records nothing.

        Args:
            noise_multiplier: noise standard deviation / clip norm of these steps; by default that of the plan, whose
                last phase goes on for ever.
            rate: probability with which they draw a unit, for plans with one Poisson draw; by default that of the plan.
            count: their number, >= 0.
            unknown: none; the error for any other argument has the name that dpcalc uses.

        Raises:
            TypeError: there is no argument of that name.
            InputError: a number is wrong, the plan has no such setting, or its steps are used up and it cannot go on;
                then nothing is recorded.
        """
        if unknown:
            refuse_unknown(self.step, unknown, own="Accountant.step")
        count = require_whole("count", count)
        noise = None if noise_multiplier is None else real_number(noise_multiplier, "noise_multiplier")
        chance = None if rate is None else exact_number(rate, "rate")
        # All is looked at before anything is recorded: a refused call changes nothing.
        pairs: list[tuple[_Setting, int]] = []  # one for each phase
        steps, last = self._steps, self._plan.phases[-1]
        ends = list(accumulate(phase.steps for phase in self._plan.phases))
        while count:
            place = min(bisect_right(ends, steps), len(ends) - 1)  # of the phase of the next step
            left = ends[place] - steps
            if place == len(ends) - 1 and _goes_on(last):
                left = count
            if left <= 0:
                raise InputError(
                    f"step: expected at most {ends[-1]} steps, since the cost of {last.name} depends on their number, "
                    "got more; state a longer run in the config"
                )
            setting, number = _Setting(place, noise, chance), min(count, left)
            self._phase(setting)
            pairs.append((setting, number))
            steps, count = steps + number, count - number
        for setting, number in pairs:
            if self._history and self._history[-1][0] == setting:
                self._history[-1] = (setting, self._history[-1][1] + number)
            else:  # certified results do not hold for it
                self._history.append((setting, number))
                self._certified = (0, 0.0)
            # The last step within the budget was found for steps as the plan has them.
            if not setting.is_of_plan:
                self._last_step = None
        self._steps = steps

    def require(
        self,
        *,
        steps: int | None = None,
        batch_size: int | None = None,
        noise_multiplier: float | None = None,
        max_grad_norm: float | None = None,
        **unknown: Never,
    ) -> None:
        """Raise unless a trainer's own numbers are those of the plan; None compares nothing. Call it before step one.

        Args:
            steps: noisy updates of the whole run, those before a checkpoint included.
            batch_size: units that go into one noisy update on average: those of a device x accumulation x devices.
                A Poisson draw of rate 1 / len(loader) is one of the loader's batch size.
            noise_multiplier: noise standard deviation / clip norm.
            max_grad_norm: clip norm.
            unknown: none; the error for any other argument has the name that dpcalc uses.

        Raises:
            TypeError: there is no argument of that name.
            InputError: a number differs, and the error has both; or the plan has none to compare it with.

        Example:
            >>> Accountant(sample_rate=0.01, noise_multiplier=1.0, steps=50, delta=1e-5).require(steps=60)
            Traceback (most recent call last):
            dpcalc.errors.InputError: steps: the config states 50, the training uses 60; change one of them
        """
        if unknown:
            refuse_unknown(self.require, unknown, own="Accountant.require")

        def compare(name: str, used: float | None, stated: float | str | None) -> None:
            if used is not None and used != stated:
                has = "no such number" if stated is None else f"{stated}"
                raise InputError(f"{name}: the config states {has}, the training uses {used}; change one of them")

        compare("steps", steps, self._plan.steps if self._has_length else None)
        for phase in self._plan.phases:
            compare("noise_multiplier", noise_multiplier, getattr(phase.mechanism, "noise_multiplier", None))
            compare("max_grad_norm", max_grad_norm, getattr(phase.mechanism, "max_grad_norm", None))
            if batch_size is None:
                continue
            drawn = [level for level in phase.hierarchy.levels if not level.scheme.is_whole]
            if len(drawn) != 1 or drawn[0].is_assumed or not drawn[0].is_equal:
                raise InputError(f"batch_size: expected a plan with one draw of a known number, got {phase.name}")
            scheme, count = drawn[0].scheme, drawn[0].count
            stated: float | str | None = None
            if scheme.amount_key == "size" and scheme.amount is not None:
                stated = int(scheme.amount)
            if scheme.amount_key == "rate":
                draws = scheme.draws if isinstance(scheme, SummedPoisson) else 1
                part, rate = Fraction(require_whole("batch_size", batch_size), draws), Fraction(scheme.amount or 0)
                lengths = (count / part, Fraction(math.ceil(count / part)), Fraction(math.floor(count / part)))
                is_same = part > 0 and any(rate * length == 1 for length in lengths)
                stated = batch_size if is_same else f"{as_given(float(rate * count * draws))} on average"
            compare("batch_size", batch_size, stated)

    def _phase(self, setting: _Setting) -> Phase:
        """Return the plan's phase with the noise and rate of a setting; InputError if it cannot have them."""
        if setting in self._phases:
            return self._phases[setting]
        phase, noise, rate = self._plan.phases[setting.place], setting.noise_multiplier, setting.rate
        if noise is not None:
            if not 0 <= noise < math.inf:
                raise InputError(f"noise_multiplier: expected a finite number >= 0, got {noise}")
            _require_memoryless(phase, "noise_multiplier")
            phase = phase.with_noise(noise)
        if rate is not None:
            _require_memoryless(phase, "rate")
            if not 0 < rate <= 1:
                raise InputError(f"rate: expected a probability above 0 and at most 1, got {rate}")
            levels = list(phase.hierarchy.levels)
            drawn = [at for at, level in enumerate(levels) if not level.scheme.is_whole]
            if len(drawn) != 1 or not levels[drawn[0]].scheme.is_independent:
                raise InputError(f"rate: expected a plan with one Poisson draw, got {phase.name} with another sampling")
            levels[drawn[0]] = replace(levels[drawn[0]], scheme=levels[drawn[0]].scheme.with_amount(rate))
            phase = replace(phase, hierarchy=replace(phase.hierarchy, levels=tuple(levels)))
        self._phases[setting] = phase
        return phase

    def _recorded_plan(self, more: int = 0) -> Plan:
        """Return the plan of the recorded steps and `more` like the last; at the start one phase of 0 steps."""
        if not self._history:
            return replace(self._plan, phases=(replace(self._plan.phases[0], steps=0),))
        # All steps of a setting are one phase if each draws afresh, wherever they are. Where a phase remembers its
        # steps (passes, draws that are held) only steps that follow each other are merged.
        counts: dict[tuple[int, _Setting], int] = {}
        for at, (setting, count) in enumerate(self._history):
            key = (0 if _is_memoryless(self._phase(setting)) else at, setting)
            counts[key] = counts.get(key, 0) + count
        counts[key] += more
        phases = tuple(replace(self._phase(setting), steps=steps) for (_, setting), steps in counts.items())
        return replace(self._plan, phases=phases)

    def _composed(self, run: Plan) -> Composition:
        """Return the composition of a run, which shares work with earlier ones if the draws are the same."""
        # One base is kept, not a chain of compositions: each holds its losses.
        draws = [[(phase.hierarchy, phase.clip) for phase in each.phases] for each in (run, self._base.stated)]
        if draws[0] != draws[1]:
            self._base = composed(run)
        return self._base.changed(run)

    @property
    def epsilon(self) -> float:
        """Upper bound on epsilon so far: the bound of the next certified number of steps; infinite without noise.

        Of the class's certified step counts the next one decides; a composition (some 20 ms) is needed only where the
        steps have passed one, or the settings have changed.

        Raises:
            ConvergenceError: there is no certified answer.
        """
        if not self._history:
            return 0.0
        if self._history[-1][1] > self._certified[0]:
            self._certified = self._next_certified()
            if self.budget is not None and self._certified[1] > self.budget and self._last_step is None:
                _ = self.steps_left  # finds the last step within the budget, which the steps so far may not have passed
                self._certified = self._next_certified()
        return self._certified[1]

    def _next_certified(self) -> tuple[int, float]:
        """Return (number of steps of the last setting, at least those so far, upper bound on epsilon with it)."""
        setting, count = self._history[-1]
        ahead, place = count, setting.place
        if setting.is_of_plan:  # the next step may change other settings: then nothing is certified ahead
            # Certified counts are 1/512 of the run apart (16 steps if unknown), or count / 32 if that is more; run,
            # budget and phase may end before, as far as that is known.
            spacing = max(1, self._plan.steps // _INTERVALS if self._has_length else _FIRST, count // _GROWTH)
            is_last = place == len(self._plan.phases) - 1
            phase_end = None if is_last else sum(phase.steps for phase in self._plan.phases[: place + 1])
            ends = (self._plan.steps if self._has_length else None, self._last_step, phase_end)
            others = self._steps - count
            known = [end - others for end in ends if end is not None and end - others >= count]
            ahead = min([-(-count // spacing) * spacing, *known])
        return ahead, guarantee(self._composed(self._recorded_plan(ahead - count))).epsilon

    def guarantee(self) -> Guarantee:
        """Return the guarantee for exactly the steps so far, with a lower bound if it is finite.

        Raises:
            ConvergenceError: there is no certified answer.
        """
        composition = self._composed(self._recorded_plan())
        return with_lower_bound(composition, guarantee(composition))

    @property
    def steps_left(self) -> int:
        """Number of further steps within the budget at the plan's settings; InputError if there is no budget.

        Found once by a few compositions, then counted down; anew after steps with other settings. The length of the
        plan is no limit, unless its cost depends on it.

        Raises:
            InputError: there is no budget.
            ConvergenceError: there is no certified answer.
        """
        if self.budget is None:
            raise InputError("target_epsilon: expected a budget, got none; pass one, or state `budget.epsilon`")
        if self._last_step is None:
            self._last_step = self._steps
            limit = _MAX_STEPS if _goes_on(self._plan.phases[-1]) else self._plan.steps - self._steps
            goal = EpsilonGoal(limit=max(self.budget, sys.float_info.min))
            with suppress(NoSolution):
                if limit > 0:
                    self._last_step += largest_whole(self._continued, (1, limit), goal, "steps")[0]
            self._certified = (0, 0.0)  # its count may lie beyond the last step
        return max(0, self._last_step - self._steps)

    @property
    def should_stop(self) -> bool:
        """True if one step more would exceed the budget; InputError and ConvergenceError as for `steps_left`."""
        return self.steps_left == 0

    def _continued(self, more: int) -> Composition:
        """Return the recorded steps, followed by the next `more` steps of the plan itself."""
        phases = with_total_steps(self._plan, self._steps + more).phases
        if not all(setting.is_of_plan for setting, _ in self._history):
            done = with_total_steps(self._plan, self._steps).phases
            rest = (replace(each, steps=each.steps - old.steps) for each, old in zip(phases, done, strict=True))
            phases = (*self._recorded_plan().phases, *rest)
        return self._composed(replace(self._plan, phases=tuple(phase for phase in phases if phase.steps)))

    def state_dict(self) -> dict[str, object]:
        """Return the recorded steps as a dict for JSON, with the hash and the text of the plan."""
        history = [
            [setting.place, setting.noise_multiplier, None if setting.rate is None else str(setting.rate), count]
            for setting, count in self._history
        ]
        return {"format": STATE_FORMAT, "config": self._run_hash(), "plan": repr(self._plan), "history": history}

    def _run_hash(self) -> str:
        """Return the fingerprint of the plan without its budget, which may change while training runs."""
        return fingerprint(replace(self._plan, budget=None))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the steps by those of a `state_dict` of this plan; InputError, and no change, for any other.

        Args:
            state: what `state_dict` returned.

        Raises:
            InputError: it is no such state, or that of another plan; nothing is changed.
        """
        if not isinstance(state, Mapping) or state.get("format") != STATE_FORMAT:
            raise InputError(f"state: expected what `state_dict` returns, format {STATE_FORMAT}, got something else")
        if state.get("config") != self._run_hash():
            raise InputError(
                f"state: expected one of {self._plan!r}, {self._run_hash()}, got one of {state.get('plan')!s:.300}, "
                f"{state.get('config')!s:.80}; its steps belong to another config: load it with that one"
            )
        # Steps are those of a state if a fresh accountant that records them has it too; a wrong state changes nothing.
        taken_up = Accountant(self._plan)
        try:
            for _, noise, rate, count in state["history"]:
                # As `state_dict` writes it: of "1e999999999" Fraction would write out a billion digits.
                if rate is not None and not re.fullmatch("[0-9]+(/[0-9]+)?", rate):
                    raise ValueError(f"the rate {rate:.40}")
                if count > _MAX_STEPS:
                    raise ValueError(f"{count} steps")
                taken_up.step(noise_multiplier=noise, rate=rate, count=count)
            if taken_up.state_dict()["history"] != list(map(list, state["history"])):
                raise ValueError("steps that the plan does not have")
        except (KeyError, TypeError, IndexError, ArithmeticError, ValueError) as error:
            raise InputError(f"state: expected a history as `state_dict` writes it, got another one: {error}") from None
        self._history, self._steps, self._phases = taken_up._history, taken_up._steps, taken_up._phases
        self._certified, self._last_step = (0, 0.0), None

    def summary(self) -> str:
        """Return steps, certified epsilon and what is left of the budget in one line, rounded to the safe side."""
        steps = counted(self._steps, "step", ",")
        text = f"{steps}: epsilon <= {rounded_up(self.epsilon)} at delta = {as_given(self.delta)}"
        if self.budget is None:
            return text
        return f"{text}; {counted(self.steps_left, 'step', ',')} left to the budget of {as_given(self.budget)}"

    def _repr_html_(self) -> str:
        """Return the summary for a notebook."""
        return f"<p>{self.summary().replace('<', '&lt;')}</p>"


def _goes_on(phase: Phase) -> bool:
    """Return True if a phase may have more steps than the plan says: its cost must not depend on their number."""
    hierarchy = phase.hierarchy
    return not (phase.is_correlated or hierarchy.spans_steps or isinstance(hierarchy.allocation, RandomAllocation))


def _is_memoryless(phase: Phase) -> bool:
    """Return True if the steps of a phase may be put together with later ones: each draws afresh."""
    return not phase.is_correlated and all(
        isinstance(level.scheme, _MEMORYLESS) and level.redraw_every == 1 for level in phase.hierarchy.levels
    )


def _require_memoryless(phase: Phase, name: str) -> None:
    """Raise InputError, which says that `name` cannot change, unless every step of the phase draws afresh."""
    if not _is_memoryless(phase):
        raise InputError(
            f"{name}: expected steps that draw afresh, to change it for some of them, got {phase.name}, "
            "whose draws last several steps; state phases in the config"
        )
