"""The rules with a code (DPC101), for `dpcalc explain` and docs/rules.md. A code never changes its meaning."""

import os
import re
from functools import cache

from dpcalc.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Texts on one rule."""

    title: str  # a few words
    rule: str  # the condition that it finds
    reason: str  # why the condition matters
    fix: str  # what to do


RULES: dict[str, Rule] = {
    "DPC100": Rule(
        title="not readable",
        rule="The file is missing, is no YAML, or holds what no config may: tags, control characters, two documents.",
        reason="Nothing is guessed about a file that a gate depends on, and nothing in it may run or hide.",
        fix="Correct the place that the message marks; in doubt write it as the examples of `dpcalc init` do.",
    ),
    "DPC101": Rule(
        title="unknown key",
        rule="The config format has no such key.",
        reason="A misspelt key that is ignored leaves a default in its place: the number answers another question.",
        fix="Use the name that the message suggests, or `dpcalc schema --markdown`; begin keys of your own with `x-`.",
    ),
    "DPC102": Rule(
        title="wrong type",
        rule="A value is of another type than its key takes, or there is none.",
        reason="Values are not converted: the text `1e-5` and the number 1e-5 come from different intentions.",
        fix="Write what the message asks for; numbers have no quotes, no leading zeros and no percent signs.",
    ),
    "DPC103": Rule(
        title="missing",
        rule="A key without a default is missing.",
        reason="Where a wrong guess changes the guarantee (delta, unit, scheme, noise, length) nothing is assumed.",
        fix="Add the key; the message shows an example.",
    ),
    "DPC104": Rule(
        title="not allowed",
        rule="A value is not one of those allowed, or names something that this version of dpcalc does not support.",
        reason="An unsupported mechanism or scheme that was read as a supported one would give a wrong guarantee.",
        fix="Choose one of the words that the message lists, or a version of dpcalc that knows yours.",
    ),
    "DPC105": Rule(
        title="duplicate",
        rule="The same key, level name, phase name or override is given twice, or mappings that `<<` merges disagree.",
        reason="YAML keeps the last of equal keys without a word: the reader sees one value, the program another.",
        fix="Delete one of them.",
    ),
    "DPC106": Rule(
        title="out of range",
        rule="A number is outside its range, not finite, or does not fit another one.",
        reason="Such a number has no meaning (a rate of 2), or no program computes with it exactly.",
        fix="Check the number and its unit; rates are from 0 to 1, and no draw holds more than there is.",
    ),
    "DPC107": Rule(
        title="conflicting",
        rule="Two statements exclude each other, say the same thing twice, or one of them would have no effect.",
        reason="Whichever were taken, half of the readers would expect the other one.",
        fix="Keep one of them.",
    ),
    "DPC108": Rule(
        title="unknown level",
        rule="`unit`, `clip` or a key of `sampling` names a level that `data.levels` does not have.",
        reason="The protected unit and the clipped vectors decide the guarantee; a near miss must not be guessed.",
        fix="Use one of the names in `data.levels`.",
    ),
    "DPC110": Rule(
        title="unresolved reference",
        rule="A `${...}`, `???` or `defaults:` leads to no single value that dpcalc may read.",
        reason="References look up keys of this file or of files in the same repository, and do nothing else: a config "
        "under review must not read what lies outside or run anything.",
        fix="Write `${section.key}` or `${conf/train.yaml:section.key}`; let Hydra write its resolved config "
        "(`python train.py --cfg job --resolve`).",
    ),
    "DPC111": Rule(
        title="cyclic or too large",
        rule="An alias or a reference leads back to itself, or a file is larger, deeper or longer than any config.",
        reason="A few bytes must not keep a gate busy for hours.",
        fix="Write the value out, or split what is really that large.",
    ),
    "DPC201": Rule(
        title="scheme assumed",
        rule="A run given by options alone states no sampling scheme; Poisson sampling is assumed.",
        reason="Other schemes cost more: batches of a fixed size can cost several times as much.",
        fix="State `--scheme`, or write a config, in which nothing of the kind is assumed.",
    ),
    "DPC202": Rule(
        title="shuffle",
        rule="Batches are cut from a shuffled data set.",
        reason="No amplification by shuffling is claimed: each unit is used once in every pass, and its step is "
        "assumed public, unless `order: secret` says that nobody can know it (under zero-out and "
        "replace-one). The numbers that other tools print for Poisson sampling do not hold for it.",
        fix="Nothing is wrong. A loader in which each unit chooses its batch by itself costs far less: scheme "
        "`balls-in-bins`, or `poisson`; docs/samplers.md has 10 lines for each, and what `order: secret` asks of a "
        "loader. Train with what you state.",
    ),
    "DPC203": Rule(
        title="delta is large",
        rule="delta is at least 1 / number of protected units.",
        reason="With this delta, releasing the records of a random unit in full would satisfy the definition.",
        fix="Choose a delta well below 1 / number of units.",
    ),
    "DPC204": Rule(
        title="adjacency assumed",
        rule="The config does not say how neighbouring data sets differ; add-remove is assumed.",
        reason="The same run has different epsilons for different adjacencies, and they must not be compared.",
        fix="Write `adjacency: add-remove`, `replace-one` or `zero-out`.",
    ),
    "DPC205": Rule(
        title="no finite bound",
        rule="No finite epsilon is proved for this run.",
        reason="Without noise a single record can show. Steps with a delta of their own, such as those of type "
        "approximate-dp, may reveal that much without bound, and use up the delta of the run. The finding says where.",
        fix="Add noise; or state a delta above those of the steps together, take fewer steps, protect a smaller unit.",
    ),
    "DPC206": Rule(
        title="constructed task as unit",
        rule="`unit: task` where tasks are put together from classes for each step.",
        reason="One record sits in many such tasks, so that hiding one task hides nobody.",
        fix="Protect the class or the example; `clip: task` clips the constructed task all the same.",
    ),
    "DPC207": Rule(
        title="zero noise",
        rule="noise_multiplier is 0.",
        reason="Without noise there is no privacy: epsilon is infinite.",
        fix="Set it above 0; `dpcalc solve-sigma` finds the smallest that meets a budget.",
    ),
    "DPC208": Rule(
        title="fixed batch size",
        rule="Batches of a fixed size are drawn, and epsilon is above what tools print that assume Poisson sampling.",
        reason="When your unit, or the task or user above it, is not drawn, another one takes its place. An attacker "
        "who knows all the others sees the difference between the two: the sum of clipped vectors shifts by 2 clip "
        "norms, not by 1 as for Poisson "
        "sampling, and by more where a whole parent is replaced. The tools' number does not hold for such batches.",
        fix="Nothing is wrong. If you can train with Poisson batches of the same expected size, state it; "
        "docs/numbers.md, 'Why a fixed batch costs more than other tools print', has an example.",
    ),
    "DPC209": Rule(
        title="cut batches",
        rule="Poisson batches are cut to a maximum, and that costs more than 1% of epsilon.",
        reason="In a batch that is cut another unit takes the place of yours if it is left out, so that the sum of "
        "clipped vectors shifts by 2 clip norms, not by 1. The few batches that are cut decide epsilon: a maximum 2.7 "
        "standard deviations above the mean batch can triple it.",
        fix="Raise `max_batch_size` to the number that the note names, about 5 deviations above the mean batch: "
        "hardly any batch is cut then.",
    ),
    "DPC210": Rule(
        title="no steps",
        rule="`steps` or `epochs` is 0.",
        reason="A run without steps releases nothing, so that it costs 0 and keeps to every budget: more often a value "
        "still to be filled in than a run.",
        fix="State the length of the run, or delete the phase.",
    ),
    "DPC211": Rule(
        title="part by position",
        rule="The rule of a partition goes by position, under add-remove.",
        reason="Parts are counted one by one because a unit is in one of them alone, whatever units there are besides. "
        "Where a list is cut by position, removing one unit moves those after it to other parts, and every part shows "
        "it.",
        fix="Let the unit alone decide its part, such as a hash of its id modulo the number of parts; or leave "
        "`partition` out, so that all phases are composed.",
    ),
    "DPC212": Rule(
        title="default in code",
        rule="A value is a default in code, in gin or in what Hydra composes, which a launch of the run can override.",
        reason="A default is the value of the run only if nobody gives another one; the files cannot show that.",
        fix="State the value here if launches give it; `check` fails where a tracked script gives another one.",
    ),
    "DPC213": Rule(
        title="calibrated noise",
        rule="The noise is what another library found for a target epsilon, so that the answer is conditional.",
        reason="That noise is not in the config. The epsilon is that of the least noise which the library can have "
        "returned for what it was told, if its accountant reports no less than the truth.",
        fix="Nothing is wrong. Where the noise that ran is known, state it as a number: then nothing is assumed.",
    ),
    "DPC301": Rule(
        title="over budget",
        rule="epsilon is larger than the budget, or than `--max-epsilon`.",
        reason="The budget is what the data's owners were promised.",
        fix="More noise, fewer steps or smaller batches: `dpcalc solve-sigma`, `solve-steps`, `solve-rate`.",
    ),
    "DPC302": Rule(
        title="near the budget",
        rule="epsilon is above the share of the budget from which the policy (`warn_at_pct`) asks for a warning.",
        reason="The next small change may not fit.",
        fix="Plan for it now; nothing is wrong yet.",
    ),
    "DPC303": Rule(
        title="budget raised",
        rule="The budget, or the rise that the config allows itself, is larger than in the base, or is gone; a warning "
        "where `max_increase_pct` is new.",
        reason="Raising the budget together with the cost would let any change pass.",
        fix="Have the raise decided by whoever owns the budget, then pass `--allow-budget-change`.",
    ),
    "DPC304": Rule(
        title="no budget",
        rule="The config states no budget, and no limit was given.",
        reason="Without a limit a check can only fail when epsilon is infinite.",
        fix="Add `budget: {epsilon: 3}`, or pass `--max-epsilon`.",
    ),
    "DPC401": Rule(
        title="rise",
        rule="epsilon is larger than in the base, by more than a millionth: a warning where the base did not say "
        "how much it may rise, a note within `max_increase_pct` of its budget or its policy, an error of `diff`.",
        reason="A budget that is used up in small unnoticed steps is used up all the same.",
        fix="Undo what the message names as the cause, or have the rise agreed and state `budget.max_increase_pct`.",
    ),
    "DPC402": Rule(
        title="rise in percent",
        rule="epsilon rose against the base by more than `max_increase_pct` of the budget or of the policy.",
        reason="It catches a large step that is still within the budget.",
        fix="Undo what the message names as the cause, or have the rise agreed.",
    ),
    "DPC403": Rule(
        title="lock",
        rule="dpcalc.lock has no entry for this config, or another one than the config now gives.",
        reason="The lock is the reviewed state; a config that differs from it was not reviewed.",
        fix="Run `dpcalc lock`, and have its change reviewed with that of the config.",
    ),
    "DPC404": Rule(
        title="weaker promise",
        rule="Compared with the base, protected unit or group are smaller, the adjacency is weaker, or delta larger, "
        "or a unit holds fewer units of a level, a warning where a data set may have grown so.",
        reason="It is the quiet way to a smaller epsilon: the number falls because it promises less.",
        fix="Restore the promise, or have the change decided as what it is and pass `--allow-budget-change`.",
    ),
    "DPC405": Rule(
        title="cheaper claim",
        rule="Compared with the base, the config states more data, or another sampling scheme, clipping level or kind "
        "of mechanism. Alone or with other changes this lowers epsilon, or its effect is not known.",
        reason="An epsilon does not show whether the config describes the data and the sampler truly.",
        fix="Make sure that the training code draws and clips as the config says, from as many units.",
    ),
    "DPC406": Rule(
        title="nothing to compare with",
        rule="The base does not have the config (a note), or has it in a form that cannot be read (an error).",
        reason="Without an earlier epsilon there is no rise: only its own budget and the policy judge the config.",
        fix="Review it as a new one; a file that was renamed and rewritten at once is new to git. If it was broken in "
        "the base, have it agreed on and pass `--allow-budget-change`.",
    ),
    "DPC407": Rule(
        title="ledger rewritten",
        rule="A ledger does not begin with what it said in the base, or a file that it refers to has changed that.",
        reason="A run that was made has cost what it cost; its entry must not be changed or vanish.",
        fix="Restore the ledger from the base and add runs with `dpcalc ledger add`.",
    ),
    "DPC408": Rule(
        title="no longer checked",
        rule="The base checks a config that is gone or no longer matched by a pattern, or that now takes its values "
        "from another section of the file or through another reference.",
        reason="A change that decides what is checked could take any cost out of sight.",
        fix="Restore the config and the pattern that finds it, or have the change decided as what it is and pass "
        "`--allow-budget-change`.",
    ),
    "DPC409": Rule(
        title="overridden at launch",
        rule="A tracked script, YAML, Makefile, notebook or Dockerfile gives a flag another value than its default.",
        reason="The run then has that value, and the verdict would be one on a run that nobody makes.",
        fix="Refer to the launch, as in `${run.sh:flags.sigma}`, or remove the value there. Where the file launches "
        "another run, such as a smoke test, `other_launches` of the policy names it.",
    ),
    "DPC410": Rule(
        title="a claim compared",
        rule="`--against` compares a config with another file, and not with a revision that git knows.",
        reason="Both files say what somebody made them say: a config on standard input is a claim about a run.",
        fix="Compare with `--base REV` where git knows the config; else make sure where both came from.",
    ),
    "DPC901": Rule(
        title="no convergence",
        rule="A computation did not reach a certified answer, or only a loose upper bound, which exceeds the budget "
        "while the lower bound does not.",
        reason="A number without a proof is no guarantee, and a loose bound does not show that a budget is exceeded.",
        fix="Try another `--method`; please report the config.",
    ),
    "DPC902": Rule(
        title="timeout",
        rule="There was no answer within `--timeout`; `check`, `diff`, `lock` and `validate` have one by default.",
        reason="A gate that hangs is switched off sooner or later; one without a verdict does not pass.",
        fix="Allow more time, or check fewer configs at once.",
    ),
    "DPC903": Rule(
        title="answer not written",
        rule="Standard output is full or closed.",
        reason="An answer that nobody can read is no verdict. Files that the command has written stay written; the "
        "message names them.",
        fix="Free some space, or send standard output elsewhere; look at the named files before you repeat a command.",
    ),
    "DPC904": Rule(
        title="out of memory",
        rule="There was no answer within `--memory-limit`.",
        reason="A config must not take down the machine that checks it; without a verdict it does not pass.",
        fix="Allow more memory, or use a coarser config: fewer phases, more noise.",
    ),
    "DPC999": Rule(
        title="internal error",
        rule="dpcalc itself failed.",
        reason="It is a defect of dpcalc. It is never taken for a yes or a no.",
        fix="Please report it with what DPCALC_TRACEBACK=1 prints.",
    ),
}


@cache
def rule_address(code: str) -> str:
    """Return the address of a rule in docs/rules.md; "" where it is not known, or there is no such rule.

    The page is DPCALC_RULES, or that of the repository from which dpcalc was installed.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    if code not in RULES:
        return ""
    page = os.environ.get("DPCALC_RULES")
    if page is None:
        try:
            origin = json.loads(distribution("dpcalc-privacy").read_text("direct_url.json") or "{}")
        except (PackageNotFoundError, OSError, ValueError):
            return ""
        commit = origin.get("vcs_info", {}).get("commit_id")
        url = str(origin.get("url", "")).removesuffix(".git")
        page = f"{url}/blob/{commit}/docs/rules.md" if commit else ""
    anchor = re.sub("[^a-z0-9]+", "-", RULES[code].title)
    is_safe = re.fullmatch(r"https://[\w./:-]+", page)
    return f"{page}#{code}-{anchor}".replace("DPC", "dpc") if is_safe else ""


def rules_page() -> str:
    """Return the text of docs/rules.md: an introduction, then code, title, condition, reason and fix of each rule."""
    lines = [
        "# Rules",
        "",
        "What every rule of dpcalc finds, why that matters, and what to do.",
        "",
        "A code never changes its meaning. `dpcalc explain CODE` prints one entry, `dpcalc explain` lists them all.",
        " DPC1xx: the config cannot be read; DPC2xx: remarks on the run; DPC3xx:",
        "budgets; DPC4xx: comparison with an earlier state; DPC9xx: there is no verdict. Gaps are codes not in use.",
    ]
    for code, rule in RULES.items():
        lines += ["", f"## {code}: {rule.title}", "", rule.rule, "", f"Why: {rule.reason}", "", f"Fix: {rule.fix}"]
    return "".join(f"{line}\n" for line in lines)
