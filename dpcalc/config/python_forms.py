"""Forms: what a place at which a name stands may be in Python, so that nothing is changed there.

Every place of what a default depends on (the parser and the object of parsed flags, the class, the constant, the
config) must have one of these; any other is the refusal of what depends on that name.
"""

import ast
import sys
from collections.abc import Callable

from dpcalc.config.files import Refusal
from dpcalc.config.python_names import (
    ALL_BUILTINS,
    ATTRIBUTE,
    MODULE,
    Function,
    Key,
    Syntax,
    is_constant,
    keywords_of,
    last_name,
    names_of,
    parameters_of,
    text_in,
    texts_in,
    words_in,
)
from dpcalc.config.source import Source, shortened

MAX_PLACES = 200_000  # of names that are traced in one file: a second or two
# The plain forms: what is named here changes no default.
BUILTINS = ALL_BUILTINS - words_in("exec eval globals locals setattr delattr compile __import__ breakpoint")
_DUNDERS = {f"__{name}__" for name in words_in(
    "name main file doc version all future author init post_init call len iter next enter exit repr str "
    "dict class del getitem eq ne lt le gt ge hash add sub mul contains bool float int format "
    "version_info copyright license"
)}  # fmt: skip
# What is of Python itself among names with such underscores: of objects, classes, functions and modules.
_SPECIAL = {name for kind in (object, type, dict, type(len), ast.parse, ast) for name in dir(kind) if name[:2] == "__"}
_SPECIAL |= {"__builtins__", "__import__", "__set_name__", "__wrapped__", "__self__", "__func__", "__mro_entries__"}
_FRAMES = words_in("f_globals f_locals f_builtins setitem delitem setattr delattr builtins operator")  # these do
_READING = words_in(
    "items keys values get copy index count flag_values_dict flags_into_string to_dict main_process_first"
)  # methods
COPYING = words_in("vars dict copy deepcopy EasyDict AttrDict DotDict")  # calls
# Functions of Python itself that read a list or dictionary, and those that hand it or a part of it on; methods that
# keep it; modules of Python's library whose functions read.
_READERS = words_in("print len str repr format isinstance bool float int hash any all sum abs round id")
_HANDING_ON = words_in("getattr list tuple set iter next max min sorted reversed enumerate zip")
_KEEPING = words_in("append appendleft extend insert setdefault add put push")
_READING_MODULES = words_in(
    "json pprint logging pickle os sys shlex textwrap dataclasses csv time math warnings argparse"
)
_NOT_READING = frozenset(sys.stdlib_module_names) - _READING_MODULES | BUILTINS
_PARSER = words_in("prog usage description epilog formatter_class add_help allow_abbrev exit_on_error title required")
_PARSER_METHODS = words_in("print_help print_usage format_help format_usage error exit")
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
PARSING = {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file"}
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
        self.dynamic = next(filter(None, map(self._dynamic, ast.walk(tree))), "")

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
        name = ""
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                binding = ast.Assign | ast.AnnAssign | ast.ClassDef | ast.FunctionDef
                is_first = node.lineno < min((x.lineno for x in self.tree.body if isinstance(x, binding)), default=0)
                name = "" if is_first else "import *"
            case ast.Call(func=ast.Name(id="vars"), args=[]) | ast.Call(func=ast.Call(func=ast.Name(id="type"))):
                name = self._written(node)
            case ast.Call(func=ast.Name(id="type"), args=[_, _, *_]):
                name = self._written(node)
            case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[on, which, *_])) if text_in(which) is None:
                name = "" if self._of_import(on) else self._written(node)
            case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
                is_set = not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
                names = None if is_set else self._flow(node, self._of_vars)
                name = self._written(node) if names is None or self._traced(names) else ""
            case ast.Attribute(attr="__init__", value=on) if not self._is_of_base(node):
                name = self._written(node)
            case ast.Attribute(attr="__class__") if not isinstance(self.above[id(node)], ast.Attribute | ast.Compare):
                name = self._written(node)
            case ast.Attribute(attr="modules") if self._dotted(node) == "sys.modules":
                name = "" if isinstance(self.above[id(node)], ast.Compare) else "sys.modules"
            case ast.Name(id=found) if self.imports.get(found) == "sys" and self._is_imported(self.key[id(node)]):
                above = self.above[id(node)]
                is_asked = last_name(above) in {"hasattr", "getattr"} and text_in(getattr(above, "args", [0, 0])[1])
                name = "" if isinstance(above, ast.Attribute) or is_asked else found
            case ast.alias(name="__main__"):
                name = "__main__"
            case ast.Constant(value="__main__"):
                name = "" if isinstance(self.above[id(node)], ast.Compare) else "__main__"
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
                is_special = found in _SPECIAL or (found[:2] == "__" and isinstance(node, ast.FunctionDef))
                name = found if (is_special and found not in _DUNDERS) or found in _FRAMES else ""
        return f"line {getattr(node, 'lineno', 0)} has `{shortened(name)}`, which may bind any name" if name else ""

    def _is_of_base(self, node: ast.Attribute) -> bool:
        """Return True for `super().__init__`, and for `Base.__init__(self)` in an `__init__`."""
        call: ast.AST = self.above[id(node)]
        if isinstance(node.value, ast.Call) or not isinstance(call, ast.Call):
            return last_name(node.value) == "super"
        outer: ast.AST = call
        while not isinstance(outer, Function | ast.Module):
            outer = self.above[id(outer)]
        first = last_name(next(iter(call.args), None))
        own = next((each.arg for each, _ in parameters_of(outer)), "") if isinstance(outer, Function) else ""
        return bool(first) and first == own and getattr(outer, "name", "") == "__init__"

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
        return all(
            x is None or is_constant(x, None) for each, x in parameters_of(self._around(argument)) if each is argument
        )

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
            is_bound = is_method and "staticmethod" not in map(last_name, function.decorator_list)
            names = [*given.posonlyargs, *given.args][is_bound:]
            if isinstance(node, ast.keyword):
                names = [each for each, _ in parameters_of(function) if each.arg == node.arg]
            else:
                names = names[call.args.index(node) :]  # type: ignore[arg-type]
            if not names or any(isinstance(each, ast.Starred) for each in call.args):
                return None
            found.append(self.key[id(names[0])])
        return found

    def _flow(self, expr: ast.AST, form: Form) -> Names:
        """Return to which names code hands an object that is read, or changed by names that are written; else None."""
        above = self.above[id(expr)]
        is_whole, is_vars, is_flat = form == self._read, form == self._of_vars, form in {self._of_flat, self._of_vars}
        is_strict = is_flat or form in {self._of_constant, self._of_part}
        keys: list[Key] | None = None
        match above:
            case ast.Attribute(attr=attr, ctx=ctx):
                call = self.above[id(above)]
                if isinstance(call, ast.Call) and call.func is above:
                    is_asking = attr.startswith("get_") and not (call.args or call.keywords)
                    return (
                        None if attr not in _READING and not is_asking else self._part(call, form) if is_strict else []
                    )
                is_self = last_name(expr) == "self" and not isinstance(ctx, ast.Load)
                return None if is_strict or (is_whole and is_self) else []
            case ast.Subscript(value=value, slice=at, ctx=ctx) if value is expr:
                if isinstance(ctx, ast.Load) and is_strict:
                    return self._flow(above, form) if isinstance(at, ast.Slice) else self._part(above, form)
                is_named = text_in(at) is not None and (is_vars or not is_strict)
                return [] if isinstance(ctx, ast.Load) or is_named else None
            case ast.Call(args=args) if expr in args:
                keys = self._handed(above, expr)
                if keys == [] and last_name(above) in COPYING:
                    return self._flow(above, form)
                if keys == [] and is_strict and isinstance(above.func, ast.Name) and above.func.id in _HANDING_ON:
                    return self._part(above, form) if len(args) == 1 else self._flow(above, form)
                if keys == [] and is_strict and not self._only_reads(above):
                    return None
            case ast.keyword(arg=str()):
                call = self.above[id(above)]
                keys = self._handed(call, above) if isinstance(call, ast.Call) else None
                if keys == [] and is_strict and not self._only_reads(call):  # type: ignore[arg-type]
                    return None
            case ast.keyword() if is_strict and not is_flat:
                inside = self.defined.get(last_name(self.above[id(above)]), ())
                return [
                    (self._of_part, self.key[id(x)]) for y in inside for x in ast.walk(y.args) if isinstance(x, ast.arg)
                ]
            case ast.Return():
                keys = self._function_of(above)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]) | ast.AnnAssign(target=target):
                keys = self._keys(target)
            case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                is_plain = all(isinstance(each, ast.Name | ast.Attribute) for each in targets)
                keys = [key for each in targets for key in self._keys(each)] if is_plain else None
            case ast.For(iter=each) | ast.comprehension(iter=each) | ast.IfExp(test=each):
                return None if each is not expr else self._part(expr, form) if is_strict else []
            case ast.Dict(keys=names) if not is_whole:
                is_copied = all(each is None for each in names)
                return None if not is_copied else self._flow(above, form) if is_strict and not is_flat else []
            case ast.Tuple() | ast.List() | ast.Dict():
                return [] if is_whole else None
            case ast.Starred() if is_strict and not is_flat:
                return self._flow(above, form)
            case (
                ast.BinOp(op=ast.Mod())
                | ast.FormattedValue()
                | ast.Compare()
                | ast.Expr()
                | ast.Delete()
                | ast.Starred()
            ):
                return []
            case ast.If() | ast.While() | ast.Assert() | ast.UnaryOp() | ast.keyword():
                return []
        return None if keys is None else [(form, key) for key in keys]

    def _only_reads(self, call: ast.Call) -> bool:
        """Return True if a function of elsewhere is none that is known to change what it gets, or to keep it."""
        name = last_name(call)
        if isinstance(call.func, ast.Name) and name in BUILTINS and name not in self.imports:
            return name in _READERS
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "type":  # `type(C).update(C)`
            return False
        return name not in _KEEPING and self._dotted(call.func).split(".")[0] not in _NOT_READING

    def _part(self, expr: ast.AST, form: Form) -> Names:
        """Return to which names code hands a part of a list or dictionary; None if it changes it."""
        key = text_in(expr.slice) if isinstance(expr, ast.Subscript) else None
        if form in {self._of_flat, self._of_vars} or (key is not None and key not in self.holding):
            return []  # a number, or a text
        match self.above[id(expr)]:
            case ast.For(iter=each, target=target) | ast.comprehension(iter=each, target=target) if each is expr:
                names = [x for x in ast.walk(target) if isinstance(x, ast.Name)]
                is_plain = all(isinstance(x, ast.Name | ast.Tuple) for x in (target, *getattr(target, "elts", ())))
                return [(self._of_part, self.key[id(x)]) for x in names] if is_plain else None
            case ast.Subscript(slice=at) if at is expr:
                return []
            case ast.BinOp() | ast.Compare() | ast.FormattedValue() | ast.UnaryOp() | ast.Expr() | ast.Delete():
                return []
            case ast.If() | ast.While() | ast.Assert() | ast.IfExp() | ast.AugAssign():
                return []
        return self._flow(expr, self._of_part)

    def _of_part(self, node: ast.AST) -> Names:
        return self._alias(node, self._of_part)

    def _of_constant(self, node: ast.AST) -> Names:
        """Form of a list or dictionary: nothing in it is set, and other names of it are of this form, too."""
        return self._alias(node, self._of_constant)

    def _of_flat(self, node: ast.AST) -> Names:
        """Form of a list or dictionary of numbers and texts."""
        return self._alias(node, self._of_flat)

    def _of_vars(self, node: ast.AST) -> Names:
        """Form of `vars(args)`, in which a key that is written may be set, and of the words of a launch."""
        return self._alias(node, self._of_vars)

    def _alias(self, node: ast.AST, form: Form) -> Names:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            return self._part(node, form) if form == self._of_part else self._flow(node, form)
        return None if isinstance(self.above[id(node)], ast.AugAssign) else []

    def _place(self, node: ast.AST, form: Form, makes: Callable[[ast.Call], Names]) -> tuple[ast.AST | None, Names]:
        """Return (code, None) where a name is read, code being what it is or returns; else (None, names or None)."""
        match node:
            case ast.arg():
                return None, [] if self._is_unset(node) else None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                returned = [
                    x.value for x in ast.walk(node) if isinstance(x, ast.Return) and not is_constant(x.value, None)
                ]
                each = [self._made(value, form, makes) for value in returned if value]
                return None, None if None in each else [name for names in each for name in names or ()]
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                above = self.above[id(node)]
                is_called = isinstance(above, ast.Call) and above.func is node and last_name(node) in self.defined
                return above if is_called else node, None
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                value = self._bound_to(node)
                return None, [] if isinstance(value, ast.Tuple | ast.List) else self._made(value, form, makes)
        return None, [] if isinstance(node, ast.Name) else None  # `del args`

    def _made(self, value: ast.expr | None, form: Form, makes: Callable[[ast.Call], Names]) -> Names:
        """Return the names that a value of this form depends on; None if it is of another one."""
        match value:
            case ast.Name() | ast.Attribute() if self._bound(self._key(value)):
                return [(form, self._key(value))]
            case ast.Tuple(elts=[first, *_]):
                return self._made(first, form, makes)
            case ast.Call() if (found := makes(value)) is not None:
                return found
            case ast.Call(args=[first]) if last_name(value) in COPYING or (
                form == self._of_parser and self._dotted(value.func)
            ):
                return self._made(first, form, makes)
            case ast.Call(func=ast.Name() | ast.Attribute() as function) if last_name(function) in self.defined:
                return [(form, self._key(function))]
        return None

    def _read(self, node: ast.AST) -> Names:
        """Form of the object of parsed flags, and of what is made of it."""
        code, names = self._place(node, self._read, lambda call: [] if last_name(call) in PARSING else None)
        return self._flow(code, self._read) if code else names

    def _of_parser(self, node: ast.AST) -> Names:
        """Form of a parser of argparse, or HfArgumentParser."""
        code, names = self._place(node, self._of_parser, self._makes_parser)
        return self._parser_at(code) if code else names

    def _makes_parser(self, call: ast.Call) -> Names:
        name, given = last_name(call), keywords_of(call)
        names: list[tuple[Form, Key]] = []
        if name in _GROUPS and isinstance(call.func, ast.Attribute):
            on = call.func.value
            names = [(self._of_parser, self._key(on))] if isinstance(on, ast.Name | ast.Attribute) else []
        elif self._dotted(call.func).split(".")[0] not in {"argparse", "transformers", name}:
            return None
        elif (
            name not in {"ArgumentParser", "HfArgumentParser"}
            or len(call.args) > 4
            or any(isinstance(x, ast.Starred) for x in call.args)
        ):  # the fifth one is other parsers
            return None
        return names if given.keys() <= _PARSER | {"dataclass_types"} else None

    def _parser_at(self, code: ast.AST) -> Names:
        above = self.above[id(code)]
        keys: list[Key] | None = None
        match above, self.above.get(id(above)):
            case ast.Attribute(attr="add_argument"), ast.Call() as call:
                dest, is_whole = keywords_of(call).get("dest"), "**" not in keywords_of(call)
                is_whole = is_whole and len(texts_in(call.args)) == len(call.args) and bool(call.args or dest)
                is_whole = is_whole and (dest is None or text_in(dest) is not None)
                return [] if is_whole and isinstance(self.above[id(call)], ast.Expr) else None
            case ast.Attribute(attr=method), ast.Call(func=func) as call if func is above:
                if method in PARSING:
                    words, flow = self._argv(call), self._flow(call, self._read)
                    return None if words is None or flow is None else [*words, *flow]
                if method in _GROUPS and self._makes_parser(call) is not None:
                    return self._parser_at(call)
                return [] if method in _PARSER_METHODS else None
            case ast.Call(args=args) as call, _ if code in args:
                keys = self._handed(call, code)
                return (
                    self._parser_at(call)
                    if keys == []
                    else None
                    if keys is None
                    else [(self._of_parser, key) for key in keys]
                )
            case ast.Return(), _:
                keys = self._function_of(above)
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]), _:
                keys = self._keys(target)
            case ast.Expr(), _:
                keys = []
        return None if keys is None else [(self._of_parser, key) for key in keys]

    def _argv(self, call: ast.Call) -> Names:
        """Return the functions whose parameter a call parses; None if it parses other words than the launch."""
        names: list[tuple[Form, Key]] = []
        for each in (*call.args, *keywords_of(call).values()):
            bindings = self._bound(self.key[id(each)]) if isinstance(each, ast.Name) else []
            match bindings:
                case [ast.arg() as argument] if self._is_unset(argument):
                    function = self._around(argument)
                    names += [(self._of_main, self._key(function))] if isinstance(function, Function) else []
                case _ if not (self._is_argv(each) or is_constant(each, None, True, False)):
                    return None
        return names if keywords_of(call).keys() <= _ARGV else None

    def _is_argv(self, node: ast.AST) -> bool:
        """Return True for `sys.argv`, also a part of it, or the path of a file that it names."""
        while isinstance(node, ast.Subscript | ast.Call):
            if isinstance(node, ast.Call) and (self._dotted(node.func) != "os.path.abspath" or len(node.args) != 1):
                return False
            node = node.value if isinstance(node, ast.Subscript) else node.args[0]
        return self._dotted(node) == "sys.argv"

    def _of_argv(self, node: ast.AST) -> Names:
        """Form of `sys.argv`."""
        is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._flow(node, self._of_vars) if is_read else None

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

    def _of_flags(self, node: ast.AST) -> Names:
        """Form of absl's module `flags`, of `FLAGS`, and of what DEFINE_float and the like return."""
        above = self.above[id(node)]
        match node, above, self.above.get(id(above)):
            case ast.alias(), _, _:
                return [] if self.imports[names_of(node)[0]].split(".")[0] in {"absl", "tensorflow"} else None
            case ast.arg(), _, _:
                return [] if self._is_unset(node) else None
            case ((ast.Name() | ast.Attribute()), ast.Assign(value=value), _) if not isinstance(node.ctx, ast.Load):
                return [] if last_name(value) in {"flags", "FLAGS"} or last_name(value).startswith("DEFINE_") else None
            case _, ast.Attribute(attr="FLAGS"), _:
                return self._of_flags(above)
            case _, ast.Attribute(attr=attr), ast.Call(func=func) as call if func is above:
                if not attr.startswith("DEFINE_") or attr == "DEFINE_alias" or "**" in keywords_of(call):
                    return [] if attr in _READING else None
                name = keywords_of(call).get("name") or next(iter(call.args), None)
                is_plain = text_in(name) is not None or "config" in attr
                outer = self.above[id(call)]
                found = [] if isinstance(outer, ast.Expr) else self._flow(call, self._of_flags)
                return found if is_plain and isinstance(outer, ast.Expr | ast.Assign | ast.AnnAssign) else None
            case _, ast.Call(func=func) as call, _ if func is node:
                return self._argv(call)
            case _, ast.Subscript(), outer:
                return (
                    []
                    if isinstance(outer, ast.Attribute)
                    and isinstance(outer.ctx, ast.Load)
                    and outer.attr in {"value", "default"}
                    else None
                )
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        return self._flow(node, self._of_flags) if is_read else None

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
            case ast.Attribute(ctx=ast.Load()), ast.Call(func=func, args=args, keywords=keywords) if func is above:
                return None if args or keywords else []
            case ast.Attribute(ctx=ast.Load()), _:
                return []
        while isinstance(above, ast.Tuple | ast.List | ast.Subscript | ast.BinOp | ast.keyword):
            node, above = above, self.above[id(above)]
        if isinstance(above, ast.Call):
            is_parser = last_name(above) == "HfArgumentParser" and self._makes_parser(above) is not None
            return self._parser_at(above) if is_parser else None
        places = [getattr(above, "annotation", None), getattr(above, "returns", None), *getattr(above, "bases", ())]
        return [] if node in places else None
