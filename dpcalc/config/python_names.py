"""The syntax of a Python file: its names, what binds each, where each stands, and what that place may be."""

import argparse
import ast
import builtins
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from dpcalc.config.files import Refusal
from dpcalc.config.source import Mark, Source, shortened

# What may bind a name without naming it: then no name is read.
REBINDING = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "__import__", "__builtins__"})
# The fields of syntax in which a name, or a list of names, is bound.
_BINDING = {
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
    ast.Global: "names",
    ast.Nonlocal: "names",
}
MAX_NAMES = 500  # classes, and functions, of a file
# Options in a text: alone, or in a command line.
_OPTIONS = re.compile(r"^--[^= ]+|(?<=[\s\"'])--[\w-]+(?=[= ]+[\"']?[-+.\d])")
_OF_A_TEST = re.compile("(test|val|valid|eval)(_|$)")  # names of data that no gradient is computed from
MAX_TEXT = 10_000  # characters of a text that are searched for them
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Key = tuple[int, str]  # a name, and the id of the scope that binds it; or one of these:
MODULE, ATTRIBUTE = 0, -1  # the module; `x.name` of anything


def words_in(text: str) -> set[str]:
    return set(text.split())


# The plain forms: what is named here changes no default.
ALL_BUILTINS = set(dir(builtins))
# Calls in which a keyword gives the name another value.
MAKING = words_in("Namespace SimpleNamespace dict partial invoke callback update flagsaver")
TELLING = {"help", "usage", "description", "epilog"}  # keywords of texts for people
REPLACING = {"replace", "_replace", "evolve", "model_copy"}
MAKING |= {"set_defaults", "ChainMap", "__init__", *REPLACING}


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
        for name in names_of(node) if not isinstance(getattr(node, "ctx", None), ast.Load) else ():
            lines[name].append(line)
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                anything = anything or line
            case ast.Name(id=name, ctx=ast.Load()) if name in REBINDING:
                anything = anything or line
    return lines, anything


def iter_fields(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes right below a node of syntax, each with the name of its field."""
    for field, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield field, each


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a node of syntax has itself, or binds."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
    found = getattr(node, _BINDING.get(type(node), ""), None)
    return [found] if isinstance(found, str) else found or []


def assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr | None, ast.stmt]]:
    """Yield (name, value, statement) of each statement `name = value`, `name: type = value` or `name: type`."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=annotated):
                yield name, annotated, statement


def literal_text(node: ast.expr, lines: Sequence[str]) -> tuple[str, bool] | None:
    """Return a truth, text or number of one line as a scalar has it, its text and whether it is plain; else None."""
    match node:
        case ast.Constant(value=bool(truth)):
            return str(truth).lower(), True
        case ast.Constant(value=str(text)):
            return text, False
        case ast.Constant(value=int() | float()) if node.lineno == node.end_lineno:
            return lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode(), True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as number):
            positive = literal_text(number, lines)
            return positive and (f"-{positive[0]}", True)
    return None


def last_name(node: ast.AST | None) -> str:
    """Return the last part of a dotted name, also of a call of it; "" for other code."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def text_in(node: ast.AST | None) -> str | None:
    """Return the text of a string literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts_in(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    return tuple(text for text in map(text_in, nodes) if text is not None)


def keywords_of(call: ast.AST | None) -> dict[str, ast.expr]:
    """Return the arguments of a call that have a name, "**" for those of a dictionary; {} for other code."""
    return {each.arg or "**": each.value for each in call.keywords} if isinstance(call, ast.Call) else {}


def parameters_of(function: Function | ast.Lambda) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the named parameters of a function with their defaults."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    unset = [None] * (len(plain) - len(given.defaults))
    return list(zip([*plain, *given.kwonlyargs], [*unset, *given.defaults, *given.kw_defaults], strict=True))


def is_within(node: ast.AST, codes: Iterable[ast.AST]) -> bool:
    """Return True if a node lies in one of some pieces of code."""
    at = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return any((x.lineno, x.col_offset) <= at < (x.end_lineno, x.end_col_offset) for x in codes)  # type: ignore[attr-defined]


def and_(lines: Iterable[int]) -> str:
    return " and ".join(map(str, lines))


def is_constant(node: ast.AST | None, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def base_of(node: ast.AST) -> str:
    return last_name(getattr(node, "value", None)) if isinstance(getattr(node, "value", None), ast.Name) else ""


def bases_of(node: ast.ClassDef) -> list[str]:
    return [last_name(generic(base)) for base in node.bases]


def generic(node: ast.AST) -> ast.AST:
    return node.value if isinstance(node, ast.Subscript) else node


class Syntax:
    """One pass over a file, which finds every place of each name."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source, self.tree = source, tree
        self.above: dict[int, ast.AST] = {}  # by the id of a node
        self.key: dict[int, Key] = {}  # of names, and what binds one, by id
        self.uses: dict[Key, list[ast.AST]] = defaultdict(list)
        self.texts: dict[str, list[ast.Constant]] = defaultdict(list)
        self.options: dict[str, list[int]] = defaultdict(list)  # texts such as "--sigma", and their lines
        self.keywords: dict[str, list[ast.keyword]] = defaultdict(list)
        self.arithmetic: dict[str, list[ast.expr]] = defaultdict(list)  # `sigma = args.sigma * 2`
        self.calls: list[ast.Call] = []
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: dict[str, str] = {}  # names, and what they stand for: {"field": "dataclasses.field"}
        self.changes: dict[str, str] = {}
        named: list[tuple[ast.AST, str, tuple[Scope, ...]]] = []
        bound: dict[int, set[str]] = defaultdict(set)
        outside: dict[int, set[str]] = defaultdict(set)  # names that a function has as `global`
        waiting: list[tuple[ast.AST, tuple[Scope, ...]]] = [(tree, ())]
        while waiting:
            node, scopes = waiting.pop()
            here = id(scopes[0]) if scopes else MODULE
            for name in names_of(node):
                named.append((node, name, scopes))
                if isinstance(node, ast.Global | ast.Nonlocal):
                    outside[here].add(name)
                elif not isinstance(getattr(node, "ctx", None), ast.Load):
                    bound[here].add(name)
            match node:
                case (
                    ast.keyword(arg=str(name), value=value)
                    | ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ) if isinstance(value, ast.BinOp | ast.BoolOp | ast.IfExp):
                    others = self.above[id(node)].args if isinstance(node, ast.keyword) else []  # type: ignore[attr-defined]
                    is_of_a_test = any(isinstance(x, ast.Name) and _OF_A_TEST.match(x.id) for x in others[:20])
                    if name in map(last_name, ast.walk(value)) and not is_of_a_test:
                        self.arithmetic[name].append(value)
            match node:
                case ast.Attribute(attr=name):
                    self.uses[ATTRIBUTE, name].append(node)
                case ast.Constant(value=str(text)):
                    self.texts[text].append(node)
                    around = self.above[id(node)]
                    is_told = isinstance(around, ast.Expr) or getattr(around, "arg", "") in TELLING
                    parts = around.values if isinstance(around, ast.JoinedStr) else []
                    after = next((x for before, x in pairwise(parts) if before is node), None)
                    handed = f"--{last_name(getattr(after, 'value', None))}"  # f"--sigma {args.sigma}": the same value
                    for option in _OPTIONS.findall(text[:MAX_TEXT]) if not is_told else ():
                        if option.replace("-", "_") != handed.replace("-", "_") or text.rstrip(" =") != option:
                            self.options[option].append(node.lineno)
                case ast.keyword(arg=str(name)):
                    self.keywords[name].append(node)
                case ast.Call():
                    self.calls.append(node)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.append(node)
                case ast.ClassDef():
                    self.classes.append(node)
                case ast.alias(name=name, asname=other):
                    module = getattr(self.above[id(node)], "module", "")
                    full = f"{module}.{name}" if module else name if other else name.partition(".")[0]
                    is_same = self.imports.setdefault(names_of(node)[0], full) == full
                    self.imports[names_of(node)[0]] = full if is_same else "?"
            # Decorators, bases, annotations and defaults are code of the scope around a function or class.
            inside, outer = (node, *scopes) if isinstance(node, Scope) else scopes, scopes
            names = words_in("decorator_list bases keywords returns")
            if isinstance(node, ast.arguments | ast.arg):
                outer, names = scopes[1:], words_in("defaults kw_defaults annotation")
            is_outer = isinstance(node, Scope | ast.arguments | ast.arg)
            for field, child in iter_fields(node):
                self.above[id(child)] = node
                waiting.append((child, outer if is_outer and field in names else inside))
        if max(len(self.classes), len(self.functions)) > MAX_NAMES:
            raise Refusal("DPC111", f"has more than {MAX_NAMES} classes or functions", "refer to a smaller file")
        for node, name, scopes in named:
            found = (
                id(scope)
                for at, scope in enumerate(scopes)
                if name in bound[id(scope)] and name not in outside[id(scope)]
                if at == 0 or not isinstance(scope, ast.ClassDef)
            )
            owner = MODULE if isinstance(node, ast.Global | ast.Nonlocal) else next(found, MODULE)
            self.key[id(node)] = owner, name
            self.uses[owner, name].append(node)
        self.bindings = {
            key: [x for x in nodes if not isinstance(getattr(x, "ctx", None), ast.Load)]
            for key, nodes in self.uses.items()
        }
        self.named: dict[str, list[Key]] = defaultdict(list)
        for key in self.uses:
            self.named[key[1]].append(key)
        self.own_keys = {
            key for key, nodes in self.bindings.items() if not all(isinstance(x, ast.alias) for x in nodes)
        }
        self.calls.sort(key=lambda call: (call.lineno, call.col_offset))
        self.class_of: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.derived: dict[str, list[ast.ClassDef]] = defaultdict(list)  # by the name of a base
        self.class_ids = set(map(id, self.classes))
        # Methods that are called by the name of their class, so that `self` may be anything: `Net.set(args)`.
        # Each `Net.__init__` must have `self` (`Forms._dynamic`).
        names = {each.name for each in self.classes}
        called = (x for x in ast.walk(tree) if isinstance(x, ast.Attribute) and base_of(x) in names)
        self.unbound = {x.attr for x in called} - {"__init__"}
        for each in self.classes:
            self.class_of[each.name].append(each)
            for base in bases_of(each):
                self.derived[base].append(each)
        # Names that the module binds itself, and does not import.
        self.own = {name for key, name in self.uses if key == MODULE and not self._is_imported((key, name))}
        # Functions, and what makes an object of a class, by the name by which they are called.
        self.defined: dict[str, list[Function]] = defaultdict(list)
        for function in self.functions:
            around = self.above[id(function)]
            is_making = function.name == "__init__" and isinstance(around, ast.ClassDef)
            self.defined[around.name if is_making else function.name].append(function)  # type: ignore[attr-defined]

    def _key(self, node: ast.AST) -> Key:
        return (ATTRIBUTE, node.attr) if isinstance(node, ast.Attribute) else self.key[id(node)]

    def _keys(self, target: ast.AST) -> list[Key]:
        """Return the names that an assignment gives: one in the body of a class is an attribute, too."""
        key = self._key(target)
        return [key, (ATTRIBUTE, key[1])] if key[0] in self.class_ids else [key]

    def _bound(self, key: Key) -> list[ast.AST]:
        """Return what binds a name, or assigns an attribute."""
        return self.bindings.get(key, [])

    def _is_imported(self, key: Key) -> bool:
        """Return True for a name that imports bind, or nothing in the file."""
        return key not in self.own_keys

    def _dotted(self, node: ast.AST) -> str:
        """Return the full name of what is imported, or not bound in the file; "" for other code."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or not self._is_imported(self.key[id(node)]):
            return ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    def _of_import(self, node: ast.AST) -> bool:
        """Return True for what an import brought, or a part of it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.imports and self._is_imported(self.key[id(node)])

    def _called(self, call: ast.AST) -> str:
        """Return the last part of the name of what is called, as its library has it."""
        return (self._dotted(call.func) if isinstance(call, ast.Call) else "").rpartition(".")[2] or last_name(call)

    def _other_form(self, node: ast.AST | None) -> str:
        """Return what stands at a place that may change what a name stands for."""
        if node is None:
            return ""
        code = node
        while isinstance(
            above := self.above.get(id(code)), ast.expr | ast.keyword | ast.alias | ast.Assign | ast.AugAssign
        ):
            code = above
        name = text_in(node) or last_name(node) or next(iter(names_of(node)), "")
        written = shortened(self._written(above if isinstance(above, ast.Import | ast.ImportFrom) else code))
        return f"line {getattr(node, 'lineno', 0)} has `{name}` in `{written}`, which may change it"

    def _changed(self, name: str, left_out: Sequence[ast.AST] = ()) -> str:
        """Return the first place that gives a name another value, but for what is in some code; "" if none does."""
        if name not in self.changes or left_out:
            lines = [x.lineno for x in self.arithmetic[name]]
            lines += [x.lineno for x in self._bound((ATTRIBUTE, name)) if not self._is_self(x.value)]  # type: ignore[attr-defined]
            lines += [x.lineno for x in self.texts.get(name, ()) if not is_within(x, left_out) and self._is_set(x)]
            for each in self.keywords.get(name, ()):
                is_making = not is_within(each, left_out) and self._called(self.above[id(each)]) in MAKING
                if is_making and name != last_name(each.value):
                    lines.append(each.value.lineno)
            said = f"line {min(lines)} gives another `{name}`" if lines else ""
            if left_out:
                return said
            self.changes[name] = said
        return self.changes[name]

    def _is_self(self, on: ast.AST | None) -> bool:
        """Return True for `self` in a method that gets an object of its own class."""
        if not isinstance(on, ast.Name) or on.id != "self":
            return False
        match self._bound(self.key[id(on)]):
            case [ast.arg() as argument]:
                match self.above[id(self.above[id(argument)])]:
                    case ast.FunctionDef(name=name, decorator_list=[]) as method if name not in self.unbound:
                        return isinstance(self.above[id(method)], ast.ClassDef)
        return False

    def _is_set(self, text: ast.Constant, *, merged: bool = False) -> bool:
        """Return True if a text is the key under which another value is set; `merged`: over the keys of another one."""
        match above := self.above[id(text)]:
            case ast.Subscript(ctx=ctx):
                outer = getattr(self.above[id(above)], "ctx", None)  # of `C["s"].value = 2`
                return not isinstance(ctx, ast.Load) or isinstance(outer, ast.Store)
            case ast.Dict(keys=keys, values=values):
                value = next((value for key, value in zip(keys, values, strict=True) if key is text), None)
                is_same = text.value in {last_name(value), text_in(getattr(value, "slice", None))}
                is_over = None in keys or isinstance(self.above[id(above)], ast.BinOp)
                return value is not None and not is_same and (is_over or not merged)
        return False

    def _bound_to(self, node: ast.AST) -> ast.expr | None:
        """Return the value that an assignment gives a name, also one of a tuple; None for other bindings."""
        match above := self.above[id(node)]:
            case ast.Assign(targets=[target], value=value) if target is node:
                return value
            case ast.AnnAssign(value=value):
                return value
            case ast.Tuple(elts=names):
                value = self._bound_to(above)
                is_each = isinstance(value, ast.Tuple) and len(value.elts) == len(names)
                return value.elts[names.index(node)] if is_each else value  # type: ignore[union-attr,arg-type]
        return None

    def _mark(self, node: ast.AST) -> Mark:
        """Return the place of a node, its columns in characters; ast counts bytes."""
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.source.lines[line - 1].encode() if line <= len(self.source.lines) else b""
        end = getattr(node, "end_col_offset", start) if getattr(node, "end_lineno", line) == line else len(text)
        column = len(text[:start].decode(errors="replace"))
        return Mark(self.source, line, column + 1, max(1, len(text[start:end].decode(errors="replace"))))

    def _written(self, node: ast.AST) -> str:
        """Return the code of a node as its first line has it."""
        mark = self._mark(node)
        return self.source.lines[mark.line - 1][mark.column - 1 :][: mark.width]

    def _twice(self, *keys: Key) -> str:
        lines = sorted(getattr(x, "lineno", 0) for key in keys for x in self._bound(key)[:MAX_NAMES])[:3]
        return f"`{keys[0][1]}` is bound more than once, in lines {and_(lines)}" if len(lines) > 1 else ""


# Forms: what a place at which a name stands may be in Python, so that nothing is changed there.
# Every place of what a default depends on (the words of parsing, the object of parsed flags, the class, the constant,
# the config) must have one of these; any other is the refusal of what depends on that name. Only lists and dictionaries
# are followed to other names. A file that reaches names by texts states no default at all: `_dynamic`.


MAX_PLACES = 200_000  # of names that are traced in one file: a second or two
# The plain forms: what is named here changes no default.
BUILTINS = ALL_BUILTINS - words_in("exec eval globals locals setattr delattr compile __import__ breakpoint")
_DUNDERS = {f"__{name}__" for name in words_in(
    "name main file doc version all future author init post_init call len iter next enter exit repr str "
    "dict class del getitem eq ne lt le gt ge hash add sub mul matmul truediv floordiv mod pow neg abs "
    "radd rsub rmul rmatmul rtruediv contains bool float int format "
    "version_info copyright license slots"
)}  # fmt: skip
# What is of Python itself among names with such underscores: of objects, classes, functions and modules.
_SPECIAL = {name for kind in (object, type, dict, type(len), ast.parse, ast) for name in dir(kind) if name[:2] == "__"}
_SPECIAL |= {"__builtins__", "__import__", "__set_name__", "__wrapped__", "__self__", "__func__", "__mro_entries__"}
_FRAMES = words_in(  # these reach names by texts, too
    "f_globals f_locals f_builtins f_back tb_frame gi_frame cr_frame currentframe getmembers setitem delitem setattr "
    "delattr attrgetter methodcaller"
)
# Modules that run texts or change names of others, each with the parts that do not.
_PARTS = {name: set[str]() for name in words_in(
    "builtins operator ctypes runpy code codeop bdb doctest mock __main__ cProfile profile unittest.mock"
)} | {
    "gc": words_in("collect enable disable freeze"),
    "timeit": {"default_timer"},
    "sys": words_in(
        "argv exit stdout stderr stdin path platform version version_info maxsize byteorder float_info getsizeof "
        "exc_info setrecursionlimit getrecursionlimit executable __stdout__ __stderr__ hexversion maxunicode prefix "
        "base_prefix exec_prefix implementation intern getrefcount getdefaultencoding stdlib_module_names"
    ),
}  # fmt: skip
_STARTING = re.compile(r"os\.(system|popen|exec|spawn|posix_spawn)")
_RUN_MODULE = re.compile(r"(?:^|\s)-m\s*([\w.]*)")  # `python -m train`
_READING = words_in("items keys values get copy index count flag_values_dict flags_into_string to_dict")  # methods
COPYING = words_in("vars dict copy deepcopy EasyDict AttrDict DotDict")  # calls
# Functions of Python itself that read a list or dictionary, and those that hand it or a part of it on; methods that
# keep it; modules of Python's library whose functions read.
_READERS = words_in("print len str repr format isinstance bool float int hash any all sum abs round id type")
_HANDING_ON = words_in("getattr list tuple set iter next max min sorted reversed enumerate zip")
_KEEPING = words_in("append appendleft extend insert setdefault add put push update")
_READING_MODULES = words_in(
    "json pprint logging pickle os sys shlex textwrap dataclasses csv time math warnings argparse"
)
_NOT_READING = frozenset(sys.stdlib_module_names) - _READING_MODULES | BUILTINS
_PARSER = words_in(
    "prog usage description epilog formatter_class add_help allow_abbrev exit_on_error title required dataclass_types"
)
_PARSERS = {"ArgumentParser", "HfArgumentParser"}
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
_OTHER_PARSERS = words_in("configargparse jsonargparse simple_parsing tap tyro datargs")
PARSING = {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file"}
# Parts of a parser that give other values than the launch, and what makes an object with any attribute.
_GIVING = words_in("set_defaults parse_intermixed_args parse_known_intermixed_args add_subparsers register parse_dict")
# What begins with `_` in a parser of argparse, its groups and actions, and of transformers; of other libraries of
# flags no such name is known to be harmless, but for `_module` of Opacus: the model that it wraps.
_PRIVATE = {
    name for of in (argparse.ArgumentParser(), argparse.Action, argparse.Namespace, argparse) for name in dir(of)
}
_PRIVATE |= words_in("_choices_actions _name_parser_map _group_actions _parse_dataclass_field _add_dataclass_arguments")
_OTHER_FLAGS = words_in("absl click typer")
_ANY = words_in("Namespace SimpleNamespace make_dataclass flagsaver Munch")
_ARGV = words_in("args argv return_remaining_strings look_for_args_file json_file yaml_file allow_extra_keys")
_COMMAND = words_in("name help epilog short_help no_args_is_help hidden deprecated add_completion context_settings")
_CONTEXT = {"show_default", "help_option_names", "max_content_width", "terminal_width"}
LIBRARIES = words_in("argparse absl click typer dataclasses attr attrs ml_collections transformers")

# A form looks at one place of a name, and returns the names to which it hands on what the name stands for, each with
# the form that holds there; None if it may change it.
Form = Callable[[ast.AST], "list[tuple[Form, Key]] | None"]
Names = list[tuple[Form, Key]] | None


class Forms(Syntax):
    """The names of a file, with what may change what one stands for."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        super().__init__(source, tree)
        self.given: dict[int, frozenset[int]] = {}  # by the id of a function: parameters that have a default
        self.parsers: dict[Key, bool] = {}  # whether a name is only that of parsers
        self.giving: dict[str, bool] = {}  # by the name of a function: whether it gives parsed flags
        self.traced: dict[tuple[Form, tuple[Key, ...]], str] = {}
        self.looked_at = 0  # places of names that were traced, each as often as it was
        pairs = [
            (text_in(x), y)
            for d in ast.walk(tree)
            if isinstance(d, ast.Dict)
            for x, y in zip(d.keys, d.values, strict=True)
        ]
        pairs += [(x.arg, x.value) for each in self.keywords.values() for x in each]
        # Keys of dictionaries that may hold more than a number or a text.
        self.holding = {
            key for key, value in pairs if not isinstance(value, ast.Constant | ast.UnaryOp | ast.JoinedStr)
        }
        self.libraries = {full.partition(".")[0] for full in self.imports.values()}
        # Names of parsed flags: those that parsing gives, then those that functions give that return them.
        self.parsed = set[str]()
        for _ in range(2):
            self.giving.clear()
            made = [x for x in ast.walk(tree) if isinstance(x, ast.Assign | ast.AnnAssign | ast.NamedExpr)]
            self.parsed |= {
                x.id if isinstance(x, ast.Name) else f".{x.attr}"
                for each in made
                if isinstance(each.value, ast.Call) and self._gives_args(each.value)
                for target in [each.targets[0] if isinstance(each, ast.Assign) else each.target]
                for at, x in enumerate(getattr(target, "elts", [target]))
                if isinstance(x, ast.Name | ast.Attribute) and (at == 0 or last_name(each.value) != "parse_known_args")
            }
        self.parsed |= {name for name, full in self.imports.items() if full.endswith("flags.FLAGS")} | {"FLAGS"}
        named = (x for x in ast.walk(tree) if isinstance(x, ast.stmt))
        self.parsed |= {name for name, value, _ in assignments(named) if last_name(value) == "FLAGS"}
        # Whether other programs are started, of which the file itself may be one.
        parts = [self._dotted(x) for x in ast.walk(tree) if isinstance(x, ast.Name | ast.Attribute)]
        self.starts = "subprocess" in self.libraries or any(map(_STARTING.match, parts))
        self.dynamic = next(filter(None, map(self._dynamic, ast.walk(tree))), "")
        odd = next(filter(self._is_parsing_otherwise, ast.walk(tree)), None)
        on = odd.value if isinstance(odd, ast.Attribute) and isinstance(odd.value, ast.Name) else odd
        # What gives flags other values than the launch.
        self.parsing = self._other_form(odd if last_name(on) == "sys" else on)
        own = text_in(odd)
        if last_name(odd) == "__file__" or (own and self.starts and self._is_own_name(odd, own)):  # type: ignore[arg-type]
            self.parsing = self.parsing.replace("which may change it", "with which the file may start itself")

    def _condition(self, node: ast.AST, holds: Callable[[ast.expr], bool | None] = lambda _: None) -> str:
        """Return the first statement around a place on which it depends, in words; "" if there is none.

        `holds`: what a test is, if that is known.
        """
        inner: ast.AST = node
        while not isinstance(above := self.above[id(inner)], ast.Module):
            match above:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Expr():
                    pass
                case ast.Assign() | ast.AnnAssign() if inner is node:
                    pass
                case ast.If(
                    test=ast.Compare(
                        left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
                    ),
                    orelse=[],
                ):
                    pass
                case ast.If(test=ast.Name() as test) if inner in above.body and is_constant(self._once(test), True):
                    pass
                case ast.If(test=test) if inner in above.body and holds(test):
                    pass
                case ast.expr():
                    return "it is part of another expression"
                case _:
                    above = self.above[id(above)] if isinstance(above, ast.match_case) else above
                    word = type(above).__name__.lower().removeprefix("async").removesuffix("star")
                    return f"it stands under the `{word}` of line {getattr(above, 'lineno', 0)}"
            inner = above
        return ""

    def _once(self, value: ast.expr) -> ast.expr:
        """Return what a name stands for that is bound once, under no condition; other code as it is."""
        key = self._key(value) if isinstance(value, ast.Name) else (MODULE, "")
        bound = self._bound(key)
        found = (
            self._bound_to(bound[0])
            if len(bound) == 1 and not isinstance(self.above[id(bound[0])], ast.Tuple)
            else None
        )
        return value if found is None or self._condition(found) or self.dynamic else found

    def _dynamic(self, node: ast.AST) -> str:
        """Return what in a node may bind a name that is not written there; "" for nothing."""
        name, above, ctx = "", self.above.get(id(node)), getattr(node, "ctx", None)
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                binding = ast.Assign | ast.AnnAssign | ast.ClassDef | ast.FunctionDef
                is_first = node.lineno < min((x.lineno for x in self.tree.body if isinstance(x, binding)), default=0)
                name = "" if is_first else "import *"
            case ast.Call(func=ast.Name(id="type"), args=[of]):
                is_told = is_constant(of, None) or isinstance(
                    above, ast.Attribute | ast.Compare | ast.FormattedValue | ast.Subscript | ast.Expr | ast.Assert
                )
                name = "" if is_told or last_name(above) in _READERS else self._written(node)
            case ast.Call(func=ast.Name(id="vars"), args=[]) | ast.Call(func=ast.Name(id="type"), args=[_, _, *_]):
                name = self._written(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[on, which, *_]) if text_in(which) is None:
                is_read = not isinstance(above, ast.Subscript | ast.Attribute) and getattr(above, "func", None) != node
                name = "" if is_read or self._of_import(on) or self._is_self(on) else self._written(node)
            case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
                is_set = not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
                names = None if is_set else self._kept(node, self._of_flat)
                name = self._written(node) if names is None or self._traced(names) else ""
            case ast.Name(id="vars"):
                name = "" if getattr(above, "func", None) is node else "vars"
            case ast.Attribute(attr="__init__", value=on):  # `super().__init__()`, `Base.__init__(self)`
                first = next(iter(above.args), None) if isinstance(above, ast.Call) and above.func is node else None
                name = "" if last_name(on) == "super" or self._is_self(first) else self._written(node)
            case ast.Attribute(attr="__class__") if not isinstance(above, ast.Attribute | ast.Compare):
                name = self._written(node)
            case ast.Constant(value="__main__" | "__dict__" as found):
                name = "" if isinstance(above, ast.Compare) else found
            case ast.Attribute(ctx=ast.Store(), value=on) if self._dotted(on).split(".")[0] in LIBRARIES:
                name = f"{self._written(node)} ="
            case ast.Name(id=found) if found in ALL_BUILTINS - BUILTINS and not self._bound(self.key[id(node)]):
                name = found
            case (
                ast.Name(id=found)
                | ast.Attribute(attr=found)
                | ast.alias(name=found)
                | ast.FunctionDef(name=found)
                | ast.Constant(value=str(found))
            ):
                is_special = (
                    found in _SPECIAL
                    or (
                        found.islower()  # as all names of Python itself are
                        and found[:2] == found[-2:] == "__"
                        and (isinstance(node, ast.FunctionDef) or isinstance(ctx, ast.Store))
                    )
                )
                name = found if (is_special and found not in _DUNDERS) or found in _FRAMES else ""
                # A module that runs texts: only its harmless parts, and no other name of it; the file itself, too.
                full = self._dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""
                if isinstance(node, ast.alias):
                    full = f"{above.module or ''}.{found}" if isinstance(above, ast.ImportFrom) else found
                module, _, part = full.rpartition(".")
                is_odd = module in _PARTS and part not in _PARTS[module]
                is_odd = is_odd and not (full == "sys.modules" and isinstance(above, ast.Compare))
                is_odd = is_odd or full == PurePath(self.source.path).stem or _PARTS.get(full) == set()
                is_bare = full in _PARTS and not isinstance(above, ast.Attribute | ast.Import | ast.ImportFrom)
                name = name or (full if is_odd or is_bare else "")
        return f"line {getattr(node, 'lineno', 0)} has `{shortened(name)}`, which may bind any name" if name else ""

    def _strange(self, form: Form, *keys: Key) -> str:
        """Return the first place of names, or of what they are handed to, that has none of the forms; "" for none."""
        if (form, keys) not in self.traced:
            self.traced[form, keys] = self._traced([(form, key) for key in keys])
        return self.traced[form, keys]

    def _traced(self, waiting: list[tuple[Form, Key]]) -> str:
        seen, found = set(), []
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            for node in (None, *self.uses.get(each[1], ())):
                more = each[0](node) if node else []
                self.looked_at += 1 + len(more or ())
                if self.looked_at > MAX_PLACES:
                    message = f"hands names on in more than {MAX_PLACES:,} places"
                    raise Refusal("DPC111", message, "refer to a smaller file")
                waiting += more or ()
                found += [node] if more is None else []
        return self._other_form(min(found, key=lambda x: getattr(x, "lineno", 0), default=None))

    def _around(self, argument: ast.AST) -> Function | ast.Lambda:
        return self.above[id(self.above[id(argument)])]  # type: ignore[return-value]

    def _is_unset(self, argument: ast.arg) -> bool:
        """Return True for a parameter without a default, or with None."""
        around = self._around(argument)
        if id(around) not in self.given:
            given = [id(x) for x, value in parameters_of(around) if value and not is_constant(value, None)]
            self.given[id(around)] = frozenset(given)
        return id(argument) not in self.given[id(around)]

    def _function_of(self, node: ast.AST) -> list[Key]:
        """Return the names by which the function around a `return` is called."""
        while not isinstance(node, Function | ast.Module):
            node = self.above[id(node)]
        return [self.key[id(node)], (ATTRIBUTE, node.name)] if isinstance(node, Function) else []

    def _handed(self, call: ast.Call, node: ast.AST) -> list[Key] | None:
        """Return the parameters that an argument of a call becomes in the file: [] if the function is of elsewhere."""
        name, found = last_name(call), []
        if not isinstance(call.func, ast.Name | ast.Attribute):
            return None
        if isinstance(call.func, ast.Name) and name not in self.defined and name not in self.class_of:
            is_known = name in BUILTINS or name in self.imports
            return [] if is_known and self._is_imported(self.key[id(call.func)]) else None
        for function in self.defined.get(name, ()):
            given = function.args
            is_method = isinstance(self.above[id(function)], ast.ClassDef)
            decorated = set(map(last_name, function.decorator_list))
            is_bound = is_method and "staticmethod" not in decorated and base_of(call.func) not in self.class_of
            is_bound = is_bound or (is_method and "classmethod" in decorated)
            names = [*given.posonlyargs, *given.args][is_bound:]
            if isinstance(node, ast.keyword):
                names = [each for each, _ in parameters_of(function) if each.arg == node.arg]
            else:
                names = names[call.args.index(node) :]  # type: ignore[arg-type]
            if not names or not decorated.isdisjoint(self.own) or any(isinstance(x, ast.Starred) for x in call.args):
                return None
            found.append(self.key[id(names[0])])
        return found

    def _handed_on(self, expr: ast.AST, form: Form) -> Names:
        """Return the names that an expression gives what it stands for; None for a place that is not followed."""
        keys: list[Key] | None = None
        match above := self.above[id(expr)]:
            case ast.Call(args=args) if expr in args:
                keys = self._handed(above, expr)
            case ast.keyword(arg=str()):
                call = self.above[id(above)]
                keys = self._handed(call, above) if isinstance(call, ast.Call) else None
            case ast.Return():
                keys = self._function_of(above)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]) | ast.AnnAssign(target=target):
                keys = self._keys(target)
            case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                is_plain = all(isinstance(each, ast.Name | ast.Attribute) for each in targets)
                keys = [key for each in targets for key in self._keys(each)] if is_plain else None
        return None if keys is None else [(form, key) for key in keys]

    def _kept(self, expr: ast.AST, form: Form) -> Names:
        """Return the names to which a place of a list or dictionary hands it or its parts; None if it may change it."""
        above, is_flat = self.above[id(expr)], form == self._of_flat
        call = above if isinstance(above, ast.Call) else self.above.get(id(above))
        match above:
            case ast.Attribute(attr=attr):
                is_asking = isinstance(call, ast.Call) and attr.startswith("get_") and not (call.args or call.keywords)
                if not isinstance(call, ast.Call) or call.func is not above or not (attr in _READING or is_asking):
                    return None
                return [] if is_flat and attr != "copy" else self._kept(call, form)
            case ast.Subscript(value=value, slice=at, ctx=ctx):
                if value is expr and not isinstance(ctx, ast.Load):
                    return None
                is_number = is_flat or (text_in(at) is not None and text_in(at) not in self.holding)
                if value is not expr or (is_number and not isinstance(at, ast.Slice)):
                    return []
                return self._kept(above, form)
            case ast.Call() | ast.keyword(arg=str()) if isinstance(call, ast.Call) and call.func is not expr:
                handed, name = self._handed_on(expr, form), last_name(call)
                is_only = [*call.args, *call.keywords] == [expr]
                is_builtin = isinstance(call.func, ast.Name) and not self._bound(self.key[id(call.func)])
                if handed or handed is None or (is_flat and is_only and name == "update"):
                    return handed
                if name in COPYING:
                    return self._kept(call, form) if is_only else None
                if is_builtin and name in _HANDING_ON:
                    return [] if is_flat and is_only else self._kept(call, form)
                return [] if self._only_reads(call) else None
            case ast.keyword():  # `**C`
                return [] if is_flat or last_name(call) not in {*self.defined, *self.class_of} else None
            case ast.For(iter=each, target=target) | ast.comprehension(iter=each, target=target) if each is expr:
                names = [x for x in ast.walk(target) if isinstance(x, ast.Name)]
                is_plain = all(isinstance(x, ast.Name | ast.Tuple) for x in (target, *getattr(target, "elts", ())))
                return [] if is_flat else [(form, self.key[id(x)]) for x in names] if is_plain else None
            case ast.BoolOp() | ast.Starred() if not is_flat:
                return self._kept(above, form)
            case ast.IfExp(test=test):
                return [] if test is expr else self._kept(above, form)
            case ast.Dict(keys=keys):
                return None if not all(x is None for x in keys) else [] if is_flat else self._kept(above, form)
            case ast.BinOp(op=ast.BitOr()):
                return None
            case ast.BinOp() | ast.Compare() | ast.FormattedValue() | ast.Expr() | ast.Delete() | ast.Starred():
                return []
            case ast.If() | ast.While() | ast.Assert() | ast.UnaryOp() | ast.AugAssign():
                return []
        return self._handed_on(expr, form)

    def _only_reads(self, call: ast.Call) -> bool:
        """Return True if a function of elsewhere is not known to change what it gets, to keep it, or to call others."""
        name = last_name(call)
        if isinstance(call.func, ast.Name) and name in BUILTINS and name not in self.imports:
            return name in _READERS
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "type":  # `type(C).update(C)`
            return False
        given = (*call.args, *keywords_of(call).values())
        calls_others = any(
            isinstance(x, ast.Lambda) or last_name(x) in {*self.defined, *self.class_of} or base_of(x) in BUILTINS
            for x in given
        )
        return name not in _KEEPING and not calls_others and self._dotted(call.func).split(".")[0] not in _NOT_READING

    def _of_flat(self, node: ast.AST) -> Names:
        """Form of a list or dictionary of numbers and texts."""
        return self._box(node, self._of_flat)

    def _of_deep(self, node: ast.AST) -> Names:
        """Form of any other list or dictionary, and of what may be a part of it."""
        return self._box(node, self._of_deep)

    def _box(self, node: ast.AST, form: Form) -> Names:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            return self._kept(node, form)
        return None if isinstance(self.above[id(node)], ast.AugAssign) else []

    def _is_parsing_otherwise(self, node: ast.AST) -> bool:
        """Return True if a node may parse other words than those of the launch, or give flags other values."""
        above = self.above.get(id(node))
        call = above if isinstance(above, ast.Call) and above.func is node else None
        given = keywords_of(call)
        full = self._dotted(node) if isinstance(node, ast.Name | ast.Attribute) else text_in(node) or ""
        name = full.rpartition(".")[2] or last_name(node)
        on = getattr(node, "value", None)
        is_told = isinstance(above, ast.Expr) or getattr(above, "arg", "") in TELLING
        match node:
            case ast.Name() | ast.Attribute() if name in _PARSERS:
                if call is None:
                    return not isinstance(above, ast.arg | ast.AnnAssign | Function)
                is_known = full.split(".")[0] in {"argparse", "transformers", name}
                is_plain = len(call.args) <= 4 and not any(isinstance(x, ast.Starred) for x in call.args)
                return not (is_known and is_plain and given.keys() <= _PARSER)  # the fifth one is other parsers
            case ast.Attribute(attr="add_argument"):
                names = [*(call.args if call else ()), *filter(None, [given.get("dest")])]
                is_whole = bool(names) and len(texts_in(names)) == len(names) and "**" not in given
                return not (is_whole and isinstance(self.above[id(call)], ast.Expr) and self._is_parser(on))
            case ast.Name(id="__file__"):
                return self.starts and not self._is_folder(node)
            case ast.Constant(value=str(text)) if self.starts and not is_told and self._is_own_name(node, text):
                return True
            case ast.Attribute() if name == "argv" and self.starts and is_constant(getattr(above, "slice", None), 0):
                return True
            case ast.Attribute() if name == "argv":
                kept = self._kept(node, self._of_flat) if isinstance(node.ctx, ast.Load) else None
                return kept is None or bool(self._traced(kept))
            case ast.alias(name="argv") | ast.Constant(value="argv"):
                return True
            case ast.Name() | ast.Attribute() if full == "absl.app":
                return getattr(above, "attr", "") not in {"run", "UsageError"}
            case ast.Name() | ast.Attribute() if full == "absl.app.run":
                return call is None or len(call.args) > 1
            case ast.Name() | ast.Attribute() if name.startswith("DEFINE_"):
                named = given.get("name") or next(iter(getattr(call, "args", ())), None)
                is_made = (
                    isinstance(self.above.get(id(call)), ast.Expr | ast.Assign | ast.AnnAssign) and "**" not in given
                )
                return name == "DEFINE_alias" or not is_made or (text_in(named) is None and "config" not in name)
            case ast.Name() | ast.Attribute() if full.endswith("absl.flags"):
                return not (getattr(above, "attr", "") == "FLAGS" or getattr(above, "attr", "").startswith("DEFINE_"))
            case ast.Attribute() if name in PARSING:
                return call is None or not self._is_argv_given(call)
            case ast.Attribute() | ast.Constant() if name in _GIVING:
                return name != "register" or text_in(next(iter(getattr(call, "args", ())), None)) in {"type", "action"}
            case ast.Attribute(ctx=ast.Store()) if name in {"default", "const"} or (
                name == "value" and "absl" in self.libraries
            ):
                return not self._is_self(node.value)
            case ast.Attribute() if (
                name[0] == "_" and name[:2] != "__" and last_name(on) not in {"self", "cls", "super"}
            ):
                if name == "_module" or (name not in _PRIVATE and self.libraries.isdisjoint(_OTHER_FLAGS)):
                    return False
                return not self._of_import(on) or self._dotted(on).split(".")[0] in LIBRARIES  # type: ignore[arg-type]
            case ast.FunctionDef(name=found) if found in PARSING | {"add_argument"}:
                return isinstance(above, ast.ClassDef)
            case ast.Call() if "argv" in keywords_of(node):
                return not self._is_argv(keywords_of(node)["argv"])
            case ast.Name() | ast.Attribute() if call is None and full and name in _ANY:
                is_asked = isinstance(above, ast.Call) and last_name(above) == "isinstance"
                return not is_asked and not isinstance(above, ast.arg | ast.AnnAssign | Function)
            case ast.Call() if self._called(node) in _ANY:
                return "**" in keywords_of(node) or any(text_in(x) is None for x in node.args)
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if self._is_parsed(node):
                return not self._is_args_read(node)
            case ast.Name() | ast.Attribute() if self._is_parsed(node):
                value = self._bound_to(node)
                is_none = isinstance(above, ast.Assign) and isinstance(value, ast.Tuple)  # which has no attributes
                key = self.key.get(id(node), (MODULE, ""))
                is_none = is_none or (
                    key[0] != MODULE and all(isinstance(self._bound_to(x), ast.List) for x in self._bound(key))
                )  # words of a command, in a function
                return not is_none and not self._gives_args(value)
            case ast.arg(arg=name) if name in self.parsed:
                return not self._is_unset(node)
            case _ if not isinstance(node, ast.Name | ast.arg | ast.Global | ast.Nonlocal):
                return not self.parsed.isdisjoint(names_of(node))
        return False

    def _is_own_name(self, node: ast.Constant, text: str) -> bool:
        """Return True if a text names the file, or has `-m` before its module or before one that is not known."""
        above, own = self.above[id(node)], PurePath(self.source.path)
        beside = [*getattr(above, "elts", ()), *getattr(above, "args", ())]
        after = beside[beside.index(node) + 1 :] if node in beside else []
        modules = {name or text_in(next(iter(after), None)) or "" for name in _RUN_MODULE.findall(text)}
        is_run = last_name(above) != "add_argument" and any(x.rpartition(".")[2] in {"", own.stem} for x in modules)
        return own.name in text or is_run

    def _is_folder(self, node: ast.AST) -> bool:
        """Return True if `__file__` is read for its folder alone: `os.path.dirname(os.path.abspath(__file__))`."""
        above = self.above[id(node)]
        while isinstance(above, ast.Call) and not above.keywords and (above.args == [node] or above.func is node):
            called = self._dotted(above.func)
            if called == "os.path.dirname":
                return True
            if above.func is not node and called not in {"os.path.abspath", "os.path.realpath", "pathlib.Path"}:
                return False
            node, above = above, self.above[id(above)]
            if isinstance(above, ast.Attribute):
                if above.attr in {"parent", "parents"}:
                    return True
                if above.attr not in {"resolve", "absolute"}:
                    return False
                node, above = above, self.above[id(above)]
        return False

    def _is_parsed(self, node: ast.Name | ast.Attribute) -> bool:
        name = last_name(node)
        return name in self.parsed if isinstance(node, ast.Name) else name == "FLAGS" or f".{name}" in self.parsed

    def _is_parser(self, on: ast.AST | None) -> bool:
        """Return True for a name of nothing but parsers of Python's library and groups of their options."""
        if isinstance(on, ast.Call) and last_name(on) in _GROUPS and isinstance(on.func, ast.Attribute):
            return self._is_parser(on.func.value)
        key = self._key(on) if isinstance(on, ast.Name | ast.Attribute) else (MODULE, "")
        if key not in self.parsers:
            values = [self._bound_to(x) for x in self._bound(key) if not isinstance(x, ast.arg)]
            own = [x for x in values if key[1] not in map(last_name, getattr(x, "args", ()))]  # but `p = more(p)`
            made = {self._called(x) if x else "" for x in own}
            self.parsers[key] = bool(key[1]) and made <= _PARSERS | _GROUPS | self.defined.keys()
        return self.parsers[key] and _OTHER_PARSERS.isdisjoint(self.libraries)

    def _is_args_read(self, node: ast.Name | ast.Attribute) -> bool:
        """Return True where parsed flags have no method called, and get no value at a key that is not written."""
        match above := self.above[id(node)]:
            case ast.Attribute(attr=attr):
                is_called = getattr(self.above[id(above)], "func", None) is above
                return not is_called or attr in _READING or attr.startswith(("get_", "main_process"))
            case ast.Subscript(slice=at, ctx=ctx) if "absl" not in self.libraries:
                return isinstance(ctx, ast.Load) or text_in(at) is not None
            case ast.Subscript():  # of absl
                match self.above[id(above)]:
                    case ast.Attribute(attr="value" | "default", ctx=ast.Load()):
                        return True
                return False
            case ast.Call(func=func) if func is node:
                return self._is_argv_given(above)
            case ast.BinOp(op=how):
                return isinstance(how, ast.Mod)
        return "absl" not in self.libraries or not isinstance(above, ast.Dict | ast.List | ast.Tuple | ast.NamedExpr)

    def _gives_args(self, value: ast.expr | None) -> bool:
        """Return True for code that gives the object of parsed flags, or a copy of it."""
        match value:
            case ast.Tuple(elts=[first, *_]):
                return self._gives_args(first)
            case ast.Name() | ast.Attribute():
                return self._is_parsed(value)
            case ast.Call(func=ast.Name(id="vars") | ast.Attribute(attr="copy" | "deepcopy"), args=[only]):
                return self._gives_args(only)
            case ast.Call():
                name = last_name(value)
                if name not in self.giving:  # a function of the file, all that it returns
                    self.giving[name] = name in PARSING
                    inside = [x for y in self.defined.get(name, ()) for x in ast.walk(y) if isinstance(x, ast.Return)]
                    self.giving[name] |= bool(inside) and all(self._gives_args(x.value) for x in inside)
                return self.giving[name]
        return False

    def _is_argv_given(self, call: ast.Call) -> bool:
        """Return True if a call parses the words of the launch."""
        for each in (*call.args, *keywords_of(call).values()):
            match self._bound(self.key[id(each)]) if isinstance(each, ast.Name) else []:
                case [ast.arg() as argument] if self._is_unset(argument):
                    function = self._around(argument)
                    is_only = isinstance(function, Function) and not self._strange(
                        self._of_main, *self._function_of(function)
                    )
                    if not is_only or self._strange(self._of_flat, self.key[id(argument)]):
                        return False
                case _ if not (self._is_argv(each) or is_constant(each, None, True, False)):
                    return False
        return keywords_of(call).keys() <= _ARGV

    def _is_argv(self, node: ast.AST) -> bool:
        """Return True for `sys.argv`, also a part of it, or the path of a file that it names."""
        while isinstance(node, ast.Subscript | ast.Call):
            if isinstance(node, ast.Call) and (self._dotted(node.func) != "os.path.abspath" or len(node.args) != 1):
                return False
            node = node.value if isinstance(node, ast.Subscript) else node.args[0]
        return self._dotted(node) == "sys.argv"

    def _of_main(self, node: ast.AST) -> Names:
        """Form of a command, or a function that gets the words of a launch: called without values of its own."""
        match self.above[id(node)]:
            case _ if isinstance(node, Function):
                return None if {last_name(x) for x in node.decorator_list} & {*self.own, *self.defined} else []
            case ast.Call(func=func, args=args) as call if func is node:
                return [] if all(map(self._is_argv, args)) and keywords_of(call).keys() <= {"standalone_mode"} else None
            case ast.Call(args=[only], keywords=[]) as call if only is node:
                return [] if last_name(call) in {"run", "add_command"} else None
            case ast.Attribute(attr="command" | "group", value=on) if on is node:
                return []
        return None

    def _of_app(self, node: ast.AST) -> Names:
        """Form of a group of commands."""
        match self.above[id(node)]:
            case _ if isinstance(node, Function):
                made = [x for x in node.decorator_list if isinstance(x, ast.Call)]
                return [] if all(map(self._is_command, made)) else None
            case _ if not isinstance(node, ast.Name):
                return [] if isinstance(node, ast.alias) else None
            case ast.Assign(value=ast.Call(args=[]) as call) if not isinstance(node.ctx, ast.Load):
                return [] if last_name(call) in {"Typer", "Group"} and self._is_command(call) else None
            case ast.Attribute(attr="command" | "callback" | "add_typer" | "add_command" | "group"):
                return []
            case ast.Call(func=func, args=[], keywords=[]) if func is node:
                return []
        return None

    def _is_command(self, call: ast.AST) -> bool:
        """Return True if a call that makes a command, or a group, takes no values from elsewhere."""
        context = keywords_of(call).get("context_settings", ast.Dict(keys=[], values=[]))
        is_plain = isinstance(context, ast.Dict) and {text_in(key) for key in context.keys if key} <= _CONTEXT
        return is_plain and None not in context.keys and keywords_of(call).keys() <= _COMMAND  # type: ignore[attr-defined]

    def _of_class(self, node: ast.AST) -> Names:
        """Form of a class: made without values of its own, named in types, and given to HfArgumentParser."""
        above = self.above[id(node)]
        match above, self.above.get(id(above)):
            case _ if not isinstance(node, ast.Name | ast.Attribute):
                return [] if isinstance(node, ast.ClassDef) else None
            case _ if isinstance(node, ast.Attribute) and self._dotted(node):
                return []
            case ast.Call(func=func, args=args), _ if func is node:
                return None if args else []
            case ast.Call(func=ast.Name(id="isinstance" | "super" | "issubclass")), _ if above.func is not node:
                return []
            case ast.MatchClass(), _:
                return []
            case ast.keyword(arg="default_factory"), ast.Call(func=func) if self._dotted(func) == "dataclasses.field":
                return []
            case ast.Attribute(ctx=ast.Load()), ast.Call(func=func, args=args, keywords=keywords) if func is above:
                return None if args or keywords else []
            case ast.Attribute(ctx=ast.Load()), _:
                return []
        while isinstance(above, ast.Tuple | ast.List | ast.Subscript | ast.BinOp | ast.keyword):
            node, above = above, self.above[id(above)]
        if isinstance(above, ast.Call):
            return [] if last_name(above) == "HfArgumentParser" else None
        places = [getattr(above, "annotation", None), getattr(above, "returns", None), *getattr(above, "bases", ())]
        return [] if node in places else None
