"""What a Python file states as a tree: flags, fields of classes, constants, `get_config()`. Only its syntax is read.

A default in code is not the value of the run. One is read only if the file says it once, as a literal, on no condition,
and changes it nowhere; what stands in the way becomes the refusal of that name. That a launch or another file changes
nothing either is an assumption, which `Document.defaults` hands on. Names:

    flags.X          argparse, absl, click and typer options, and fields of the classes given to HfArgumentParser
    Class.field      dataclasses and attributes of plain classes
    NAME             constants of the module, also dictionaries (NAME.key)
    get_config.a.b   what a function without conditions sets on the ml_collections.ConfigDict that it returns
"""

import ast
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from dpcalc.config.files import Refusal
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join

WAY_OUT = (
    "write a literal there, or gate the run in a test of your own: `assert epsilon(plan(...)).epsilon <= target` with "
    "`from dpcalc import epsilon, plan`"
)
# What may bind a name without naming it: then no name is read.
REBINDING = frozenset(["exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "__builtins__"])
_PLAIN_DECORATORS = {"dataclass", "define", "frozen", "mutable", "attrs", "s"}  # of dataclasses, flax, pydantic, attrs
_FIELDS = {"field", "Field", "ib", "attrib", "HfArg"}
_CHANGING = {"update", "setdefault", "pop", "popitem", "clear", "update_from_flattened_dict", "__setitem__", "append"}
_COPYING = {"replace", "_replace", "evolve", "model_copy"}
_DEFAULTS_SET = {"set_defaults", "set_default", "mark_flag_as_required", "mark_flags_as_required", "setattr"}
_PARSING = {"parse_args", "parse_known_args", "parse_intermixed_args", "parse_args_into_dataclasses"}
_OUTSIDE = ("auto_envvar_prefix", "default_map", "fromfile_prefix_chars")  # where click and argparse find other values
_Function = ast.FunctionDef | ast.AsyncFunctionDef
Parents = tuple[ast.AST, ...]


def python_syntax(text: str) -> ast.Module:
    """Return the syntax tree of Python text, of which nothing is run; SyntaxError, ValueError, RecursionError or
    MemoryError if it is none, or nests too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the text of others may hold, such as `1if` or a wrong escape
        return ast.parse(text)


def bound_names(tree: ast.AST) -> tuple[dict[str, list[int]], int]:
    """Return the lines at which each name is bound, anywhere in a file, and the first line that may bind any name.

    That is 0 if there is none: `import *`, `exec`, `globals` and the like.
    """
    lines: dict[str, list[int]] = defaultdict(list)
    anything = 0
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        names: Iterable[str] = ()
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()) if name in REBINDING:
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                names = (name,)
            case ast.alias(name=name, asname=other):
                names = (other or name.partition(".")[0],)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = (name,)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names = (name,)
            case ast.MatchMapping(rest=str(name)):
                names = (name,)
            case ast.Global(names=many) | ast.Nonlocal(names=many):
                names = many
        for name in names:
            lines[name].append(line)
    return lines, anything


def read_python(source: Source) -> Document:
    """Return what a Python file states as a tree; Refusal if it is no Python."""
    try:
        return _Reader(source, python_syntax(source.text)).document()
    except SyntaxError as cause:
        raise Refusal("DPC110", f"cannot be read as Python, line {cause.lineno}: {cause.msg}", "") from None
    except (RecursionError, MemoryError):
        raise Refusal("DPC111", "nests too deeply to be read as Python", "refer to a simpler file") from None
    except ValueError as cause:  # a number of too many digits
        raise Refusal("DPC110", f"cannot be read as Python: {cause}") from None


def _last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name, also of a call of it; "" for other code."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text(node: ast.AST | None) -> str | None:
    """Return the text of a string literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return the arguments of a call that have a name; "**" stands for those of a dictionary."""
    return {each.arg or "**": each.value for each in call.keywords}


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _condition(parents: Parents) -> str:
    """Return the first statement around a place on which it depends, in words; "" if there is none."""
    for node in parents:
        if not isinstance(node, _Function | ast.ClassDef) and not _is_main_guard(node):
            word = {"AsyncFor": "for", "TryStar": "try", "AsyncWith": "with"}.get(type(node).__name__)
            return f"the `{word or type(node).__name__.lower()}` of line {getattr(node, 'lineno', 0)}"
    return ""


class _Reader:
    """One pass over a file, and then each name that it states with what forbids to read it."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.refused: dict[str, Refusal] = {}
        self.defaults: dict[str, tuple[str, ...]] = {}
        self.bound, self.anything = bound_names(tree)
        # By the last name of what is assigned, `x.NAME = ...` or `x["NAME"] = ...`: lines, and classes of `self`.
        self.stores: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.calls: list[tuple[ast.Call, Parents]] = []
        self.statements: set[int] = set()  # ids of calls that are a statement, or the value that one assigns
        self.options: dict[str, list[int]] = defaultdict(list)  # texts such as "--sigma", and their lines
        self.functions: list[tuple[_Function, Parents]] = []
        self.classes: list[tuple[ast.ClassDef, Parents]] = []
        self.loads: dict[str, list[tuple[ast.AST, Parents]]] = defaultdict(list)
        waiting: list[tuple[ast.AST, Parents]] = [(tree, ())]
        while waiting:
            node, parents = waiting.pop()
            match node:
                case ast.Call():
                    self.calls.append((node, parents))
                case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
                    self.statements.add(id(call))
                case ast.AnnAssign(value=ast.Call() as call):
                    self.statements.add(id(call))
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del(), value=value):
                    name = _text(value.slice) or name if isinstance(value, ast.Subscript) else name
                    own = next((x.name for x in reversed(parents) if isinstance(x, ast.ClassDef)), "")
                    is_self = isinstance(value, ast.Name) and value.id in {"self", "cls"}
                    self.stores[name].append((node.lineno, own if is_self else ""))
                case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store() | ast.Del()):
                    self.stores[name].append((node.lineno, ""))
                case ast.Constant(value=str(text)) if text.startswith("--"):
                    self.options[text.partition("=")[0].partition(" ")[0]].append(node.lineno)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append((node, parents))
                case ast.ClassDef():
                    self.classes.append((node, parents))
            below = (*parents, node) if isinstance(node, ast.stmt | ast.Match) and hasattr(node, "body") else parents
            waiting += [(child, below) for child in ast.iter_child_nodes(node)]
        self.calls.sort(key=lambda each: (each[0].lineno, each[0].col_offset))

    def mark(self, node: ast.AST) -> Mark:
        """Return the place of a node, its columns in characters; ast counts bytes."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.source.lines[line - 1].encode() if line <= len(self.source.lines) else b""
        end = getattr(node, "end_col_offset", start) if getattr(node, "end_lineno", line) == line else len(text)
        column = len(text[:start].decode(errors="replace"))
        return Mark(self.source, line, column + 1, max(1, len(text[start:end].decode(errors="replace"))))

    def document(self) -> Document:
        """Return all that the file states."""
        entries: dict[str, Node] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                entries[node.name] = self._class(node)
            elif isinstance(node, _Function):
                found = self._config_function(node)
                entries |= {node.name: found} if found else {}
        for name, value in self._constants():
            entries[name] = value
        flags = self._flags()
        if flags.entries:
            if "flags" in entries:
                self.refused["flags"] = self.refusal(self.tree, "`flags` is a name of the file, too", "")
            entries["flags"] = flags
        return Document(self._section(entries, self.tree, ""), self.refused, self.defaults)

    def refusal(self, at: ast.AST, message: str, hint: str = WAY_OUT) -> Refusal:
        mark = self.mark(at)
        return Refusal("DPC110", f"line {mark.line}, column {mark.column}: {message}", hint)

    def _section(self, entries: Mapping[str, Node], at: ast.AST, path: str) -> Section:
        return Section(entries=entries, mark=self.mark(at), key=None, path=path)

    def literal(self, node: ast.expr, path: str, *, converts: bool = False, depth: int = 0) -> Node:
        """Return a literal as a tree, and note a refusal at `path`, or below it, for what is none.

        `converts`: a text is converted to a number, as argparse does with the default of a `type=float`.
        """
        mark = self.mark(node)
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
        plain, text = True, ""
        match inner:
            case ast.List() | ast.Tuple() if depth < 20:
                below = (self.literal(x, f"{path}[{at}]", depth=depth + 1) for at, x in enumerate(inner.elts))
                return Items(items=tuple(below), mark=mark, key=None, path=path)
            case ast.Dict(keys=keys) if depth < 20 and all(_text(key) is not None for key in keys):
                names = [str(_text(key)) for key in keys]
                parts = {
                    name: self.literal(value, join(path, name), depth=depth + 1)
                    for name, value in zip(names, inner.values, strict=True)
                }
                twice = frozenset(name for name, count in Counter(names).items() if count > 1)
                return replace(self._section(parts, inner, path), repeated=twice)
            case ast.Constant(value=bool(value)) if not negative:
                text = str(value).lower()
            case ast.Constant(value=str(value)) if not negative:
                plain, text = converts, value.strip() if converts else value
            case ast.Constant(value=int() | float()) if inner.lineno == inner.end_lineno:
                line = self.source.lines[inner.lineno - 1].encode()
                text = "-" * negative + line[inner.col_offset : inner.end_col_offset].decode()
            case ast.Constant(value=None) if not negative:
                self.refused[path] = self.refusal(node, f"`{path}` is None: what a launch gives is not known")
            case _:
                shown = shortened(ast.unparse(node))
                self.refused[path] = self.refusal(node, f"`{path}` is `{shown}`, which is code and no literal")
        return Scalar(text=text, plain=plain, mark=mark, key=None, path=path)

    def _default(
        self, path: str, value: ast.expr | None, at: ast.AST, problems: Iterable[str], *, converts: bool = False
    ) -> Node:
        """Return the literal at a path, with the first of its problems as a refusal."""
        problem = next(filter(None, problems), "")
        if value is None:
            self.refused[path] = self.refusal(at, problem or f"`{path}` has no default: a launch gives it")
            return Scalar(text="", plain=True, mark=self.mark(at), key=None, path=path)
        node = self.literal(value, path, converts=converts)
        if problem:
            self.refused[path] = self.refusal(at, problem)
        return node

    def stored(self, name: str, classes: Iterable[str] = ()) -> str:
        """Return where the file assigns an attribute or key of this name; `self.name` only in some classes."""
        lines = [line for line, own in self.stores.get(name, ()) if not own or own in classes]
        return f"line {min(lines)} assigns another `{name}`" if lines else ""

    # Constants and classes.

    def _constants(self) -> Iterator[tuple[str, Node]]:
        """Yield the names that are bound at the top of the module to literals, or refused."""
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            problems = [self._bound_twice(name), self.stored(name)]
            if self.anything:
                problems.append(f"line {self.anything} may bind any name of the module")
            for call, _ in self.calls:
                on = call.func.value if isinstance(call.func, ast.Attribute) else None
                if isinstance(on, ast.Name) and on.id == name and _last_name(call) in _CHANGING:
                    problems.append(f"line {call.lineno} changes `{name}`")
            found = self._default(name, value, node, problems)
            self._refuse_stored_keys(found)
            yield name, found

    def _refuse_stored_keys(self, node: Node) -> None:
        """Note a refusal for each key of a dictionary to which the file assigns another value."""
        for key, below in node.entries.items() if isinstance(node, Section) else ():
            if stored := self.stored(key):
                self.refused[below.path] = Refusal("DPC110", f"line {below.mark.line}: {stored}", WAY_OUT)
            self._refuse_stored_keys(below)

    def _bound_twice(self, name: str) -> str:
        lines = self.bound.get(name, [])
        if len(lines) < 2:
            return ""
        return f"`{name}` is bound more than once, in lines {' and '.join(map(str, sorted(lines)[:3]))}"

    def _family(self, name: str) -> list[ast.ClassDef]:
        """Return the classes of a name and those derived from it, as far as the file has them."""
        names, found = {name}, list[ast.ClassDef]()
        for node, _ in sorted(self.classes, key=lambda each: each[0].lineno):
            if node.name == name or names & {_last_name(base) for base in node.bases}:
                names.add(node.name)
                found.append(node)
        return found

    def _class(self, node: ast.ClassDef, path: str = "") -> Section:
        """Return the fields of a class with their defaults."""
        path = path or node.name
        family = self._family(node.name)
        names = {each.name for each in family}
        decorators = [each for each in node.decorator_list if "dataclass" not in _last_name(each).lower()]
        odd = next((each for each in decorators if _last_name(each) not in _PLAIN_DECORATORS), None)
        bound = Counter[str]()  # by the class and those derived from it
        for each in family:
            for statement, name in _fields(each):
                bound[name] += 1
                if _condition((statement,)) and not isinstance(statement, ast.Assign | ast.AnnAssign):
                    bound[name] += 1
        entries: dict[str, Node] = {}
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=value):
                    pass
                case _:
                    continue
            problems = [self._bound_twice(node.name), self.stored(name, names)]
            if bound[name] > 1:
                problems.append(f"`{name}` of `{node.name}` is bound more than once, also in a class derived from it")
            if odd is not None:
                problems.append(f"`{node.name}` is decorated by `{shortened(ast.unparse(odd))}`, which is not run")
            if isinstance(value, ast.Call) and _last_name(value) in _FIELDS:
                given = _keywords(value)
                problems += [
                    f"`{name}` has a {key} `{shortened(ast.unparse(given[key]))}`, which is not run"
                    for key in sorted({"default_factory", "factory", "**"} & given.keys())
                ]
            problems += [self._created_with(names, name)]
            at = join(path, name)
            entries[name] = self._default(at, _field_default(statement), statement, problems)
            self.defaults[at] = (f"--{name}",)
        return self._section(entries, node, path)

    def _created_with(self, owners: Iterable[str], name: str) -> str:
        """Return where the file calls a class or function with a value of its own for a field or parameter."""
        for call, _ in self.calls:
            called, given = _last_name(call), _keywords(call)
            if called in owners and (name in given or "**" in given or call.args):
                return f"line {call.lineno} calls `{called}` with values of its own"
            if called in _COPYING and name in given:
                return f"line {call.lineno} replaces `{name}`"
        return ""

    # Flags.

    def _flags(self) -> Section:
        """Return the options that a launch of the file may give, with their defaults."""
        flags = [*self._defined(), *(flag for each in self.functions for flag in self._of_command(*each))]
        general = self._parsed_with()
        times = Counter(flag.name for flag in flags)
        entries: dict[str, Node] = {}
        for flag in flags:
            problems = [*flag.problems, self.stored(flag.name), *general]
            if times[flag.name] > 1:
                problems.insert(0, f"`{flag.name}` is defined more than once")
            # Given again in a text of the file: `parse_args(["--sigma", "2"])`, `sys.argv += ["--sigma=2"]`.
            for option in flag.options:
                lines = sorted(self.options.get(option, ()))
                if len(lines) > flag.mentions:
                    problems.append(f"`{option}` stands in lines {' and '.join(map(str, lines[:3]))}")
            path = f"flags.{flag.name}"
            kind, value = flag.kind, flag.value
            converts = _text(value) is not None and isinstance(kind, ast.Name) and kind.id in {"float", "int"}
            if _text(value) is not None and kind is not None and not converts and _last_name(kind) != "str":
                problems.append(f"its default is converted by `{shortened(ast.unparse(kind))}`, which is not run")
            entries.setdefault(flag.name, self._default(path, value, flag.at, problems, converts=converts))
            self.defaults[path] = flag.options
        return self._section(entries, self.tree, "flags")

    def _defined(self) -> Iterator["_Flag"]:
        """Yield the flags of argparse and absl, and those of the classes that HfArgumentParser gets."""
        for call, parents in self.calls:
            called, given = _last_name(call), _keywords(call)
            if called == "HfArgumentParser":
                words = [x for each in (*call.args, *given.values()) for x in ast.walk(each)]
                names = {x.id for x in words if isinstance(x, ast.Name)}
                for node in (node for node, _ in self.classes if node.name in names):
                    yield from self._fields_as_flags(node)
                continue
            texts = tuple(text for text in map(_text, call.args) if text is not None)
            if called.startswith("DEFINE_"):
                given = dict(zip(("name", "default"), call.args, strict=False)) | given
                name = _text(given.get("name"))
                options: tuple[str, ...] = (f"--{name}",)
                kind: ast.expr | None = ast.Name(id="float" if called in {"DEFINE_float", "DEFINE_integer"} else "str")
            elif called == "add_argument" and texts:
                long = next((text for text in texts if text.startswith("--")), texts[0])
                name = _text(given.get("dest")) or long.lstrip("-").replace("-", "_")
                options, kind = texts, given.get("type")
            else:
                continue
            if name is None:
                continue
            problems = self._taken_elsewhere(given, texts if called == "add_argument" else ())
            if condition := _condition(parents):
                problems.append(f"it stands under {condition}")
            if "**" in given or any(isinstance(each, ast.Starred) for each in call.args):
                problems.append("not all of its arguments are written there")
            if id(call) not in self.statements:
                problems.append("it is part of another expression")
            value, action = given.get("default"), _text(given.get("action"))
            if value is None and action in {"store_true", "store_false"}:
                value = ast.copy_location(ast.Constant(value=action == "store_false"), call)
            mentions = 0 if called.startswith("DEFINE_") else 1
            yield _Flag(name, options, value, kind, call, tuple(problems), mentions)

    def _fields_as_flags(self, node: ast.ClassDef) -> Iterator["_Flag"]:
        """Yield the fields of a class that HfArgumentParser makes flags of."""
        before = set(self.refused)
        for name, value in self._class(node, "flags").entries.items():
            reason = self.refused.pop(f"flags.{name}", None) if f"flags.{name}" not in before else None
            options = tuple(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))
            statement = next(each for each, field in _fields(node) if field == name)
            problems = () if reason is None else (reason.message.partition(": ")[2],)
            del value
            yield _Flag(name, options, _field_default(statement), None, statement, problems, 0)

    def _of_command(self, function: _Function, parents: Parents) -> Iterator["_Flag"]:
        """Yield the options of a function that is a command of click or typer."""
        decorators = [each for each in function.decorator_list if isinstance(each, ast.Call)]
        clicks = [each for each in decorators if _last_name(each) == "option"]
        words = {_last_name(each) for each in function.decorator_list}
        runs = any(
            _last_name(call) == "run" and any(isinstance(x, ast.Name) and x.id == function.name for x in call.args)
            for call, _ in self.calls
        )
        condition = _condition(parents)
        changes = Counter(
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        )

        def problems_of(name: str, given: Mapping[str, ast.expr], texts: tuple[str, ...]) -> tuple[str, ...]:
            problems = self._taken_elsewhere(given, texts)
            if condition:
                problems.append(f"it stands under {condition}")
            if changes[name]:
                problems.append(f"`{function.name}` assigns another `{name}`")
            problems.append(self._created_with({function.name}, name))
            return tuple(problems)

        for call in clicks:
            given, texts = _keywords(call), tuple(text for text in map(_text, call.args) if text is not None)
            words_only = [text for text in texts if not text.startswith("-")]
            long = sorted((text for text in texts if text.startswith("-")), key=lambda text: text[:2] != "--")
            name = words_only[0] if words_only else long[0].lstrip("-").replace("-", "_").lower() if long else ""
            if name:
                problems = problems_of(name, given, ())
                more = ("not all of its arguments are written there",) if "**" in given else ()
                yield _Flag(name, tuple(long), given.get("default"), given.get("type"), call, (*problems, *more), 1)
        if clicks or not (runs or words & {"command", "callback"}):
            return
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        values: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
        values += arguments.kw_defaults
        for argument, value in zip([*plain, *arguments.kwonlyargs], values, strict=True):
            # `sigma: float = typer.Option(1.1)`, or `sigma: Annotated[float, typer.Option()] = 1.1`.
            inside = ast.walk(argument.annotation) if argument.annotation else ()
            calls = (x for x in inside if isinstance(x, ast.Call))
            described = value if isinstance(value, ast.Call) else next(calls, None)
            given = _keywords(described) if isinstance(described, ast.Call) else {}
            words_given = [_text(x) for x in described.args] if isinstance(described, ast.Call) else []
            options = tuple(text for text in words_given if text and text.startswith("--"))
            options = options or (f"--{argument.arg.replace('_', '-')}",)
            mentions = 1 if any(words_given) else 0
            positional: tuple[str, ...] = ()
            if isinstance(described, ast.Call) and _last_name(described) == "Argument":
                positional = (f"`{argument.arg}` is a positional argument, which a launch gives",)
            if isinstance(value, ast.Call) and _last_name(value) in {"Option", "Argument"}:
                value = given.get("default") or (value.args[0] if value.args else None)  # noqa: PLW2901
                if isinstance(value, ast.Constant) and value.value is ...:
                    value = None  # noqa: PLW2901
            problems = problems_of(argument.arg, given, ())
            yield _Flag(argument.arg, options, value, None, argument, (*positional, *problems), mentions)

    def _taken_elsewhere(self, given: Mapping[str, ast.expr], texts: tuple[str, ...]) -> list[str]:
        """Return what takes the value of a flag from elsewhere than its default."""
        problems = []
        if texts and not any(text.startswith("-") for text in texts):
            problems.append(f"`{texts[0]}` is a positional argument, which a launch gives")
        for key in ("required", "prompt"):
            value = given.get(key)
            if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
                problems.append("it is required, so that a launch gives it")
        for key in ("envvar", "callback", "default_factory", "action"):
            value = given.get(key)
            is_known = key == "action" and _text(value) in {"store", "store_true", "store_false"}
            if value is not None and not is_known and not (isinstance(value, ast.Constant) and value.value is None):
                problems.append(f"its `{key}` may give another value")
        return problems

    def _parsed_with(self) -> list[str]:
        """Return what in a file changes the defaults of its flags, or gives some itself."""
        problems = []
        only_arguments = self._arguments_alone()
        for call, _ in self.calls:
            called, given = _last_name(call), _keywords(call)
            on = call.func.value if isinstance(call.func, ast.Attribute) else None
            if called in _PARSING:
                for each in (*call.args, *given.values()):
                    is_none = isinstance(each, ast.Constant) and each.value is None
                    is_argument = isinstance(each, ast.Name) and each.id in only_arguments
                    is_argv = ast.unparse(each) == "sys.argv[1:]"
                    is_truth = isinstance(each, ast.Constant) and isinstance(each.value, bool)  # of HfArgumentParser
                    if not (is_none or is_argument or is_argv or is_truth):
                        problems.append(f"line {call.lineno} gives `{called}` arguments of its own")
            elif (
                called in _CHANGING
                and on is not None
                and (_last_name(on) == "__dict__" or (isinstance(on, ast.Call) and _last_name(on) == "vars"))
            ):
                problems.append(f"line {call.lineno} changes parsed flags by `{called}`")
            problems += [f"line {call.lineno} sets `{key}`" for key in _OUTSIDE if key in given]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and node.value in _OUTSIDE:
                problems.append(f"line {node.lineno} sets `{node.value}`")
            elif isinstance(node, ast.Attribute | ast.Name) and _last_name(node) in _DEFAULTS_SET:
                problems.append(f"line {node.lineno} uses `{_last_name(node)}`")
            elif isinstance(node, ast.Attribute) and node.attr == "argv" and isinstance(node.ctx, ast.Store):
                problems.append(f"line {node.lineno} assigns `argv`")
        return problems

    def _arguments_alone(self) -> set[str]:
        """Return the names that are bound as arguments without a default, or with None, and as nothing else."""
        times, unset = Counter[str](), Counter[str]()
        for function, _ in self.functions:
            arguments = function.args
            plain = [*arguments.posonlyargs, *arguments.args]
            times.update(x.arg for x in (*plain, *arguments.kwonlyargs))
            values = dict(zip([x.arg for x in plain][::-1], arguments.defaults[::-1], strict=False))
            values |= {x.arg: y for x, y in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if y}
            for each in (*plain, *arguments.kwonlyargs):
                value = values.get(each.arg)
                unset[each.arg] += value is None or (isinstance(value, ast.Constant) and value.value is None)
        return {name for name, count in times.items() if unset[name] == count == len(self.bound[name])}

    # ml_collections.

    def _config_function(self, function: _Function) -> Section | None:
        """Return what a function sets on the ConfigDict that it returns; None if it makes and returns none."""
        made: dict[str, ast.Call] = {}
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_config_dict(call):
                    made.setdefault(name, call)
        returned = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
        }
        roots = made.keys() & returned
        if len(roots) != 1:
            return None
        (root,), path = roots, function.name
        reason = ""
        if self.bound[function.name] != [function.lineno] or function.decorator_list:
            reason = f"`{function.name}` is decorated, or bound more than once"
        # Apart from `config.a.b`, which is set or read, and `return config`, nobody else gets hold of it.
        whole = f"`{root}` is bound more than once, or handed to other code, which may change it"
        uses = Counter[str]()
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == root:
                uses["all"] += 1
                uses["stores"] += not isinstance(node.ctx, ast.Load)
            inner = node.value if isinstance(node, ast.Attribute | ast.Return) else None
            uses["read"] += isinstance(inner, ast.Name) and inner.id == root
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
                reason = reason or f"line {node.lineno} changes it by `{node.func.attr}`"
        if uses["stores"] > 1 or uses["all"] != uses["stores"] + uses["read"]:
            reason = reason or whole
        tree: dict[str, object] = {}
        sets: list[tuple[tuple[str, ...], ast.expr, ast.AST]] = [
            ((keyword.arg or "**",), keyword.value, made[root]) for keyword in made[root].keywords
        ]
        if made[root].args:
            match made[root].args:
                case [ast.Dict(keys=keys, values=values)] if all(_text(key) is not None for key in keys):
                    sets += [((str(_text(key)),), value, value) for key, value in zip(keys, values, strict=True)]
                case _:
                    reason = reason or f"`{root}` is made of other values"
        for statement in function.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                names = _attributes(statement.targets[0], root)
                if names:
                    sets.append((names, statement.value, statement))
        lines = Counter(names[-1] for names, _, _ in sets)
        for names, value, at in sets:
            level: object = tree
            for key in names[:-1]:
                level = level.setdefault(key, {}) if isinstance(level, dict) else None
            if isinstance(level, dict):
                is_empty = isinstance(value, ast.Call) and _is_config_dict(value) and not (value.args or value.keywords)
                level.setdefault(names[-1], {} if is_empty else (value, at))

        def section(level: Mapping[str, object], path: str) -> Section:
            entries: dict[str, Node] = {}
            for key, below in level.items():
                place = join(path, key)
                if isinstance(below, dict):
                    entries[key] = section(below, place)
                elif isinstance(below, tuple):
                    value, at = below
                    # Its own statement is one store of this name; keywords and dictionaries are none.
                    own = sum(1 for each, _, x in sets if each[-1] == key and isinstance(x, ast.Assign))
                    stores = self.stores.get(key, ())
                    twice = lines[key] > 1 or len(stores) > own
                    problem = f"`{key}` is set more than once in the file" if twice else ""
                    entries[key] = self._default(place, value, at, (reason, problem))
                    self.defaults[place] = (f"--config.{place.partition('.')[2]}",)
            return self._section(entries, function, path)

        return section(tree, path)


class _Flag(NamedTuple):
    """A flag as the file defines it."""

    name: str
    options: tuple[str, ...]  # "--sigma", "-s"
    value: ast.expr | None  # its default
    kind: ast.expr | None  # what converts a default that is a text
    at: ast.AST
    problems: tuple[str, ...]  # that forbid to read it
    mentions: int  # how often its definition has each option as a text


def _fields(node: ast.ClassDef) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each binding of a name directly in the body of a class, or below a condition there."""
    waiting: list[tuple[ast.AST, ast.stmt]] = [(x, x) for x in reversed(node.body)]
    while waiting:
        each, top = waiting.pop()
        match each:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield top, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield top, name
            case _:
                waiting += [(x, top) for x in ast.iter_child_nodes(each)]


def _field_default(statement: ast.stmt) -> ast.expr | None:
    """Return the default of a field of a class: its value, or that of `field(default=...)`."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call) and _last_name(value) in _FIELDS:
        value = _keywords(value).get("default") or next(iter(value.args), None)
    if isinstance(value, ast.Constant) and value.value is ...:  # pydantic: it has none
        return None
    return value if isinstance(value, ast.expr) else None


def _is_config_dict(call: ast.Call) -> bool:
    called = _last_name(call)
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called == "ConfigDict" or (called == "create" and on is not None and _last_name(on) == "config_dict")


def _attributes(node: ast.expr, root: str) -> tuple[str, ...]:
    """Return the names of `root.a.b`; () for other code."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == root else ()
