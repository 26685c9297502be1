"""`dpcalc init`, `show`, `schema`, `import` and `scan`: configs written, and what is read for them."""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from dpcalc.cli import options
from dpcalc.cli.options import GRACE, Request, ended_after, exact, given, one_of, report_progress
from dpcalc.cli.output import CommandResult, output_text, print_remark, refuse_existing, remarks, write_file
from dpcalc.config.expand import normal_form
from dpcalc.config.files import Refusal, config_folder
from dpcalc.config.found import (
    BEFORE,
    COHORT,
    KEYS,
    LOADERS,
    OPEN,
    ORDER,
    QUESTIONS,
    SEED,
    SHUFFLED,
    UNITS,
    Word,
    config_text,
    contradiction,
    loader_lines,
    open_keys,
    open_settings,
    order_lines,
    told_lines,
    words_of,
)
from dpcalc.config.load import load_text
from dpcalc.config.messages import value_suggestion
from dpcalc.config.schema import json_schema_text, key_table
from dpcalc.config.source import ConfigError, read_bytes, visible
from dpcalc.errors import DpcalcError, InputError, listed
from dpcalc.gate.workers import Workers
from dpcalc.guarantee import Adjacency
from dpcalc.report.output import as_given, rounded_up

SCHEMES = ("shuffle", "poisson", "fixed", "with-replacement")  # that the templates offer
FRAMEWORKS = {
    "opacus": "PyTorch with Opacus",
    "trainer": "Hugging Face Trainer, Accelerate, dp-transformers",
    "jax-privacy": "JAX, DP optimizers of optax",
    "tf-privacy": "TensorFlow, Keras",
    "federated": "Flower, FLSim, TF-Federated and other servers",
    "another": "code of your own",
}
_OPEN = "scheme: ???"  # in the templates that any of these loaders fits


Template = Literal["dpsgd", "phases", "maml", "users", "pate"]


def init(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Training files: YAML, JSON, TOML, Python, gin or shell. The config refers to what they state.",
        ),
    ] = None,
    *,
    template: Annotated[
        Template | None,
        given("NAME", f"Without FILE: the template {listed(get_args(Template))}.", show_default="dpsgd"),
    ] = None,
    output: Annotated[
        str | None,
        given(
            "PATH",
            "File to write; - is standard output.",
            None,
            "--output",
            "-o",
            show_default="dpcalc.yaml, beside FILE",
        ),
    ] = None,
    force: options.Force = False,
    loader: Annotated[
        str | None,
        given(
            "NAME",
            f"How the loader draws: {listed(SCHEMES)}, for FILE also opacus or trainer. Without it the file asks.",
            None,
            "--loader",
            "--scheme",
            autocompletion=one_of(SCHEMES),
        ),
    ] = None,
    numbers: Annotated[
        list[str] | None,
        given("KEY=VALUE", "A number that FILE does not state, e.g. data.examples=60_000; devices=8.", None, "--set"),
    ] = None,
) -> CommandResult:
    """Write a config: one that refers to your training files, or a commented one to start from.

    With FILE: prints what was found and where, and what is not used and why. What no file states is `???`, and no
    number is made up. Without FILE a terminal asks five questions, and a pipe gets the template.

    Example: dpcalc init train.py --loader shuffle --set data.examples=60_000
    """
    is_asking = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    known = (*SCHEMES, "opacus", "trainer") if files else SCHEMES
    if loader is not None and loader not in known:
        hint = value_suggestion("scheme", loader, SCHEMES)
        raise InputError(f"--loader: expected {listed(known)}, got {loader!r}{f'; {hint}' if hint else ''}")
    if files:
        if template is not None:
            raise InputError("--template: expected no FILE beside it, got both; leave one of them out")
        keys, stated = (*KEYS, UNITS, COHORT, "devices", "accumulation", "accumulates", *ORDER), {}
        for assignment in numbers or ():
            key, equals, text = (part.strip() for part in assignment.partition("="))
            if key not in keys or not equals or not re.fullmatch(r"[^\s#'\"]{1,200}", text):
                raise InputError(f"--set: expected KEY=VALUE, KEY one of {', '.join(keys)}, got {assignment!r:.200}")
            stated[key] = text
        return _init_from(files, output, loader, stated, is_asking, force=force)
    if numbers:
        raise InputError("--set: expected FILE, to which it adds, got none; edit the template that is written")
    output = "dpcalc.yaml" if output is None else output
    if template is None and loader is None and is_asking:
        return _init_by_questions(output, force=force)
    text = resources.files("dpcalc.config").joinpath("templates", f"{template or 'dpsgd'}.yaml").read_text("utf-8")
    if loader is not None:
        if _OPEN not in text:
            raise InputError(
                f"--loader: expected none, as the template {template} says itself how it draws; adapt the file"
            )
        text = text.replace(_OPEN, f"scheme: {loader}{' ' * max(0, 3 - len(loader))}")
    if output == "-":
        return CommandResult(text=text)

    write_file("--output", output, text.encode(), force=force)
    adapt = "say at `scheme: ???` how the loader draws, adapt the rest" if _OPEN in text else "adapt it"
    return CommandResult(
        text=f"wrote {output}\n", asides=(f"note: {adapt}, then run `dpcalc epsilon {output}`",), changed=(output,)
    )


def _ask(question: str, parse: Callable[[str], str]) -> str:
    """Return what a person answers on the terminal, asked again until `parse` takes it."""
    return str(typer.prompt(question, default="", show_default=False, err=True, value_proc=parse))


def _ask_choice(question: str, choices: Mapping[str, str], problem: Callable[[str], str] = lambda _: "") -> str:
    """Return the name of a choice, "" for none; its number or name is typed, and asked again where it has a problem."""
    names = list(choices)

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word.isascii() and word.isdigit() and 0 < int(word[:3]) <= len(names):
            word = names[int(word[:3]) - 1]
        if wrong := problem(word):
            raise typer.BadParameter(wrong)
        if not word or word in names:
            return word
        raise typer.BadParameter(f"expected a number from 1 to {len(names)}, or nothing")

    shown = "".join(f"\n  {at}  {name}: {why}" for at, (name, why) in enumerate(choices.items(), 1))
    return _ask(f"{question}{shown}\nNumber, or Enter to say it later", parse)


def _stated_value(text: str, *, words: Sequence[Word], loader: str = "", key: str = "") -> str:
    """Return a number, a plain word or the path of a word of the files; "" for nothing; BadParameter for others."""

    text, paths = text.strip(), {"", *(word.path for word in words)}
    kinds = {"true or false": ("true", "false"), "(physical)": ("draws", "physical")}
    choices = next((kinds[x] for x in kinds if key in QUESTIONS and x in QUESTIONS[key][0]), ())
    if choices and text not in {*choices, *paths}:
        raise typer.BadParameter(f"expected {' or '.join(choices)}, got {text!r:.100}")
    if key in QUESTIONS and not choices and text in {"true", "false", "draws", "physical"}:
        raise typer.BadParameter(f"expected a number, got {text!r}")
    if text not in {"true", "false", "draws", "physical", *Adjacency, *paths}:
        try:
            exact(text)
        except typer.BadParameter as cause:
            raise typer.BadParameter(f"{cause}, or the path of a word that was found") from None
    if text and (wrong := contradiction(words, loader, {key: text})):
        raise typer.BadParameter(wrong)
    return text


def _asked(key: str, question: str, words: Sequence[Word] = (), loader: str = "") -> dict[str, str]:
    """Return the answer to a question by its key; {} for none."""
    answer = _ask(question, partial(_stated_value, words=words, loader=loader, key=key))
    return {key: answer} if answer else {}


def _stated_order(loader: str, given: Mapping[str, str], words: Sequence[Word]) -> dict[str, str]:
    """Ask what a secret order takes until something is not so, and then no more: the order counts as known."""
    stated = {key: text for key, text in given.items() if key in ORDER}
    if contradiction(words, "", {SEED: "true"}):
        return stated
    if loader in SHUFFLED and len(stated) < len(ORDER):
        print_remark("The order of a pass counts as known, unless all of this is so:")
    for key, question in ORDER.items() if loader in SHUFFLED else ():
        if stated.setdefault(key, "true" if key in given or _says_yes(f"  {question}? y/N") else "false") != "true":
            return stated
    if loader in SHUFFLED and "privacy.adjacency" not in given:
        adjacencies = {"zero-out": "the contribution of one is nothing", "replace-one": "one is exchanged for another"}
        adjacency = _ask_choice(
            "How do neighbouring data sets differ? By one more or less, a secret order hides nothing", adjacencies
        )
        stated |= {"privacy.adjacency": adjacency} if adjacency else {}
    return stated


def _says_yes(question: str) -> bool:
    return _ask(question, lambda answer: answer).strip().lower() in {"y", "yes"}


def _init_from(
    files: Sequence[str],
    output: str | None,
    loader: str | None,
    given: dict[str, str],
    is_asking: bool,
    *,
    force: bool,
) -> CommandResult:
    """Write a config that refers to training files, and say what was found."""
    place = os.path.join(os.path.dirname(files[0]), "dpcalc.yaml") if output is None else output
    if place != "-":
        refuse_existing("--output", place, force=force)
    folder = config_folder(place)
    try:
        names = [Path(os.path.relpath(file, folder.folder)).as_posix() for file in files]
        words = words_of(names, folder)
    except (Refusal, ValueError) as cause:
        message, hint = (cause.message, cause.hint) if isinstance(cause, Refusal) else (str(cause), "")
        raise InputError(f"init: {visible(message)}{f'; {visible(hint)}' if hint else ''}") from None
    for key, text in given.items():
        try:
            _stated_value(text, words=words)
        except typer.BadParameter as cause:
            raise InputError(f"--set {key}: {cause}") from None
    if wrong := contradiction(words, loader or "", given):
        raise InputError(wrong)
    title = f"The privacy budget of {', '.join(names)}, by `dpcalc init`: values are read there."
    if is_asking:
        for line in told_lines(words, config_text(words, loader or "", given, title)):
            print_remark(line)
        if not loader:
            if said := loader_lines(words):
                print_remark("\n  ".join(("The files state of the loader:", *said)))
            choices = {name: why for name, (_, why) in LOADERS.items()}
            for name in choices if any(word.fits is not None for word in words) else ():
                choices[name] += ": not what they state" if contradiction(words, name, {}) else " (fits)"
            problem = partial(contradiction, words, given=given)
            loader = _ask_choice("How does the loader draw?", choices, problem)
        given |= _stated_order(loader, given, words)
        for key, (question, names_of_it) in QUESTIONS.items():
            still_open = open_keys(config_text(words, loader, given, title))
            if key not in given and not set(still_open).isdisjoint(names_of_it.split()):
                given |= _asked(key, f"{question} (Enter: later)", words, loader)
        if "\nbudget:" not in config_text(words, loader, given, title):
            question = "Largest epsilon that `dpcalc check` lets pass (Enter: later)"
            given |= _asked("budget.epsilon", question, words)
    text = config_text(words, loader or "", given, title)
    missing, is_open = open_settings(text), "\nbudget:" not in text
    lines = [*([] if is_asking else told_lines(words, text)), *order_lines(words, loader or "", given, text)]
    if not words:
        lines.append("nothing was found that a config can refer to; docs/adopt.md has other ways")
    if not loader:
        could_be = [name for name in BEFORE if not contradiction(words, name, given)]
        each_text = {name: config_text(words, name, given, title) for name in could_be}
        if not all(map(open_keys, each_text.values())):
            lines += [f"if the loader draws by {name}: {_cost(each, place)}" for name, each in each_text.items()]
    if missing:
        way = (
            f"write them where {'the config' if place == '-' else place} has `???`, or start again with --set KEY=VALUE"
        )
        question = f"; --loader is how it draws: {', '.join(LOADERS)}" if "sampling.scheme" in missing else ""
        lines.append(f"missing: {', '.join(missing)}: {way}{question}")
    else:
        lines.append(_cost(text, place))
    if is_open:
        lines.append("no budget: `dpcalc check` lets every epsilon pass; --set budget.epsilon=E sets the largest one")
    return _written(text, place, lines, force=force)


def _written(text: str, place: str, lines: Sequence[str], *, force: bool) -> CommandResult:
    """Write a config and say `lines`; print it where `place` is standard output."""
    if place == "-":
        return CommandResult(text=text, asides=tuple(lines))
    write_file("--output", place, text.encode(), force=force)
    lines = [*lines, f"wrote {place}; next: dpcalc epsilon {shlex.quote(place)}"]
    return CommandResult(text="".join(f"{line}\n" for line in lines), changed=(place,))


def _cost(text: str, place: str) -> str:
    """Return what a written config costs, or what is wrong with it, in words."""
    from dpcalc.planner.evaluate import guarantee

    if missing := open_settings(text):
        return f"unknown, {', '.join(missing)} missing"
    try:
        found = guarantee(load_text(text, path=place, files=config_folder(place)).accepted().plan)
    except ConfigError as cause:
        first = cause.diagnostics[0]
        return f"no epsilon: {first.message}" + f"; {first.hint}" * bool(first.hint)
    except DpcalcError as cause:
        return f"no epsilon: {cause}"
    return f"epsilon <= {rounded_up(found.epsilon)} at delta = {as_given(found.delta)}"


def _init_by_questions(output: str, *, force: bool) -> CommandResult:
    """Ask five questions, write their answers as a config, and say which noise fits."""
    from dpcalc.api import solve

    if output != "-":
        refuse_existing("--output", output, force=force)
    framework = _ask_choice("1 of 5. What trains the model?", FRAMEWORKS)
    offered = ("fixed", "poisson") if framework == "federated" else tuple(LOADERS)
    leave_out = {"trainer"} if framework == "opacus" else {"opacus", "trainer"} - {framework}
    offered = tuple(name for name in offered if not framework or name not in leave_out)
    loader = _ask_choice("2 of 5. How does it draw?", {name: LOADERS[name][1] for name in offered})
    given = _stated_order(loader, {}, ())
    protects = _ask_choice(
        "3 of 5. Whom to protect?",
        {
            "example": "one record of the training set",
            "person": "a person with several records",
            "client": "a client or user, whose whole update is clipped",
        },
    )
    questions = {"data.examples": "Examples in the training set", "training.batch_size": "Examples of one noisy update"}
    if protects == "client":
        questions = {UNITS: "Clients in all", COHORT: "Clients of a round", "training.steps": "Rounds"}
    elif loader == "trainer":
        questions = {"data.examples": "Examples in the training set", "per_device": "Examples of a batch on one device"}
        questions |= {key: QUESTIONS[key][0] for key in ("accumulation", "devices", "sampling.drop_last")}
    elif loader == "opacus":
        questions["sampling.drop_last"] = QUESTIONS["sampling.drop_last"][0]
    if protects != "client":
        questions["training.epochs"] = "Epochs"
    if protects == "person":
        questions["privacy.group_size"] = "Most records of one person"
    print_remark("4 of 5. Sizes (Enter: later)")
    for key, question in questions.items():
        given |= _asked(key, f"  {question}")
    print_remark("5 of 5. Target")
    given |= _asked("budget.epsilon", "  Epsilon")
    given |= _asked("privacy.delta", "  Delta, well below 1 / the number of units")
    needed = {"client": COHORT, "person": "privacy.group_size"}.get(protects)
    if needed:
        given.setdefault(needed, OPEN)
    title, lines = "A run as stated to `dpcalc init`.", []
    text = config_text((), loader, given, title)
    if open_keys(text) == ["noise_multiplier"] and "budget.epsilon" in given:
        line = "  noise_multiplier: ???"
        try:
            trial = text.replace(line, "  noise_multiplier: 1")
            plan = load_text(trial, path=output, files=config_folder(output)).accepted().plan
            noise = rounded_up(solve(plan, "sigma").value)
            print_remark(f"noise that fits epsilon {given['budget.epsilon']}, by dpcalc: noise_multiplier >= {noise}")
            text = text.replace(line, f"{line}  # what your run uses; dpcalc's answer to the target is {noise}")
            if _says_yes("Will you train with it? y/N"):
                note = f"# dpcalc's answer to epsilon {given['budget.epsilon']}"
                text = re.sub(r"  noise_multiplier: \?\?\?.*", f"  noise_multiplier: {noise}  {note}", text)
        except DpcalcError as cause:
            lines.append(f"no noise was found: {cause}")
    missing = open_settings(text)
    lines.append(
        f"missing: {', '.join(missing)}; write them where the config has `???`" if missing else _cost(text, output)
    )
    return _written(text, output, lines, force=force)


def show(request: Request) -> CommandResult:
    """Print a config in its normal form.

    The same config as YAML, with every default, short form, inherited value, override and reference written out.

    Example: dpcalc show clinic.yaml --set training.epochs=20
    """
    loaded = request.load()
    return CommandResult(text=normal_form(loaded.plan), asides=remarks(loaded.diagnostics))


def schema(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of every key instead.")] = False
) -> CommandResult:
    """Print the JSON Schema of the config file, for editors.

    A config that begins with `# yaml-language-server: $schema=dpcalc.schema.json` is checked while it is written.

    Example: dpcalc schema > dpcalc.schema.json
    """
    return CommandResult(text=key_table() if markdown else json_schema_text())


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="The state of an Opacus accountant (JSON, or a checkpoint, which is not executed), a dp_accounting "
            "DpEvent as it prints, or a call of Opacus, TF-Privacy or JAX-Privacy in a script or notebook; - is "
            "standard input. Several states are phases of one run.",
        ),
    ],
    *,
    output: Annotated[
        str | None, given("PATH", "File for the config, and print its cost.", None, "--output", "-o")
    ] = None,
    force: options.Force = False,
    delta: Annotated[  # the config states it as it was written
        str | None, given("D", "Delta, if the file does not say it.", lambda text: exact(text) and text)
    ] = None,
    adjacency: Annotated[
        Adjacency | None, given("WORD", "Neighbouring data sets, by default as the library assumes them.")
    ] = None,
    dataset_size: Annotated[Fraction | None, given("N", "Number of examples.", exact)] = None,
    batch_size: Annotated[
        Fraction | None, given("N", "Examples in a batch, for calls that count batches.", exact)
    ] = None,
    sample_rate: Annotated[
        Fraction | None, given("Q", "Rate, for calls of Opacus: 1 / len(loader), e.g. 1/235.", exact)
    ] = None,
    epochs: Annotated[Fraction | None, given("N", "Epochs, for calls that do not say them.", exact)] = None,
    steps: Annotated[Fraction | None, given("N", "Steps, for calls that do not say them.", exact)] = None,
    noise_multiplier: Annotated[
        Fraction | None, given("X", "Noise multiplier, for calls that do not say it.", exact)
    ] = None,
    target_eps: Annotated[
        Fraction | None, given("E", "Target epsilon, for calls that look for the noise.", exact)
    ] = None,
    loader: Annotated[
        Literal["poisson", "fixed", "shuffle"] | None,
        given("SCHEME", "How the data set of fit() draws: poisson, fixed or shuffle."),
    ] = None,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Read a run from another library: compute its cost and write its config.

    Prints the config, or with --output the cost. What the file does not say stands in comments of the config.

    Example: dpcalc import accountant.json --delta 1e-5 --output dpcalc.yaml
    """
    if len(set(files)) < len(files):
        raise InputError("import: expected each file once, got one twice")

    from dpcalc.imports.read import import_output, imported, joined, read_run_of
    from dpcalc.imports.run import Terms
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts

    terms = Terms(
        delta=delta,
        adjacency=adjacency,
        examples=dataset_size,
        batch_size=batch_size,
        sample_rate=sample_rate,
        epochs=epochs,
        steps=steps,
        noise_multiplier=noise_multiplier,
        target_epsilon=target_eps,
        loader=loader,
    )
    if output is not None:
        refuse_existing("--output", output, force=force)
    seconds = math.inf if timeout is None else timeout
    with ended_after(seconds, GRACE):
        # The file is read in a process of its own: what it makes of memory and time ends there.
        tasks = [(file, read_bytes(file) if file == "-" else None, terms) for file in files]
        with closing(Workers(read_run_of, processes=1, memory=options.bytes_of(memory_limit))) as workers:
            answers = workers.answers(tasks, deadline=time.monotonic() + seconds)
        runs = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            runs.append(answer)
        file = " + ".join(files)
        result = imported(joined(runs), terms, file)
        evaluation = evaluate(result.loaded.plan)
    cost, notes, findings = (
        import_output(result, evaluation, file, verbose=verbose),
        note_texts(evaluation),
        result.loaded.diagnostics,
    )
    if output is None and not as_json and not quiet:
        return CommandResult(text=result.text, asides=remarks(findings, (cost.headline, *notes)))
    text = output_text(cost, form="json" if as_json else "", quiet=quiet)
    if output is None:
        return CommandResult(text=text, asides=remarks(findings, notes, quiet=quiet))
    write_file("--output", output, result.text.encode(), force=force)
    asides = remarks(findings, (*notes, f"wrote {output}"), quiet=quiet)
    return CommandResult(text=text, asides=asides, changed=(output,))


DEFAULT = "counts.json"
STDOUT = "-"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def scan(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder, or a CSV or JSONL file with a row for each record.")
    ],
    *,
    levels: Annotated[
        str,
        given("NAMES", "Names of the levels, outermost first, e.g. user,session,example; - skips a depth of folders."),
    ] = "",
    columns: Annotated[
        str,
        given(
            "NAMES",
            "Of a CSV or JSONL file: the column of each level; without one for the last, every row is a record.",
        ),
    ] = "",
    suffix: Annotated[list[str] | None, given("SUFFIX", "Count only files that end so. May be repeated.")] = None,
    output: Annotated[
        str | None,
        given(
            "PATH",
            f"File for the tree; - is standard output. By default {DEFAULT} if sizes differ.",
            None,
            "--output",
            "-o",
        ),
    ] = None,
    force: options.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema dpcalc.result/1.")] = False,
) -> CommandResult:
    """Count the units of a data set; if sizes differ, write them as a tree for `data.tree`.

    Every file of a folder, or every row of a file, is a record. Prints the `data:` section for the config.

    Example: dpcalc scan data/train --levels class,example --suffix .jpg
    """
    from dpcalc.scan import SKIPPED, TREE_SUFFIX, check_level_names, data_section, is_folder, scan_output, tree_text
    from dpcalc.scan import scan as counted

    level_names = _names(levels)
    check_level_names([name for name in level_names[:-1] if name != SKIPPED] + list(level_names[-1:]))
    is_folder(path)
    if output == STDOUT and as_json:
        raise InputError("--output: expected a file beside --json, got standard output, which has the answer")
    if output not in {None, STDOUT}:
        if not output.lower().endswith(TREE_SUFFIX):
            raise InputError(f"--output: expected a file *{TREE_SUFFIX}, which a config can read, got {output}")
        refuse_existing("--output", output, force=force)
    counts = counted(
        path,
        levels=level_names,
        columns=_names(columns),
        endings=tuple(suffix or ()),
        output=output or DEFAULT,
        on_progress=report_progress,
    )
    check_level_names(counts.names)
    if len(counts.sizes) > 1:
        output = output or (None if counts.is_equal else DEFAULT)
    elif output not in {None, STDOUT}:
        raise InputError(
            f"--output: expected two or more levels, got one ({counts.names[0]}: {counts.sizes[0][1]}); its count "
            "needs no tree: leave --output out"
        )
    else:
        output = None

    # A config names the tree's file by its path, or of an absolute one by the last part.
    place = Path(DEFAULT if output in {None, STDOUT} else output)
    section = data_section(counts, file=place.name if place.is_absolute() else place.as_posix())
    if as_json:
        text = scan_output(counts, output=output, section=section).json_text()
    else:  # below comments such as "# session: 40, 2 to 5 in each user"
        above, lines = "", []
        for name, units, low, high in counts.sizes:
            each = str(high) if low == high else f"{low} to {high}"
            lines.append(f"# {name}: {units}{f', {each} in each {above}' if above else ''}\n")
            above = name
        text = "".join(lines) + section
    asides = tuple(f"note: {remark}" for remark in counts.remarks)
    if output is None:
        return CommandResult(text=text, asides=asides)
    tree = tree_text(counts.names, counts.counts)
    if output == STDOUT:
        return CommandResult(text=tree, asides=(*asides, text.rstrip()))
    write_file("--output", output, tree.encode(), force=force)
    return CommandResult(text=text, asides=(*asides, f"note: wrote {output}"), changed=(output,))
