"""Pickles and torch checkpoints, read as data: no class is looked up, no function called, no module imported.

An interpreter of the opcodes that dictionaries, lists and numbers need. Objects of other classes than OrderedDict stay
`Opaque` if they belong to what a checkpoint holds anyway (tensors, storages, arrays); any other name is refused, since
it has no place in a checkpoint and the pickle module would run it.
"""

import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from dpcalc.errors import InputError
from dpcalc.records import dataclass

MAX_PICKLE = 8 * 2**20
"""Bytes of a pickle. A checkpoint keeps its tensors in other files of the archive and has some 100 bytes for each."""
_MAX_OPCODES = 1_000_000  # a million take 2 to 3 s; a checkpoint has about 50 for each tensor
_MAX_WORK = 64 * 2**20  # bytes and entries that opcodes copy or go through; memo references make a small file do much
_ENTRY = 100  # bytes of an entry of a dictionary
_MAX_KEY = 2**32  # of whole numbers as keys, the numbers of parameters; larger ones can be made to collide
_MAX_DIRECTORY = 16 * 2**20  # bytes of an archive's list of files, 50 to 100 for each tensor
_TAIL = 2**16 + 100  # bytes in which the end record of an archive lies
# Names that checkpoints hold. Nothing of them is imported or called: they may only be named.
_HARMLESS = re.compile(
    r"collections\.(OrderedDict|defaultdict)"
    r"|torch\.(\w+Storage|Size|device|[a-z]+\d+\w*)"
    r"|torch\.storage\.\w+Storage"
    r"|torch\._utils\._rebuild_\w+|torch\.nn\.parameter\.Parameter|torch\._tensor\._rebuild_from_type_v2"
    r"|numpy(\._?core\.multiarray)?\.(dtype|ndarray|scalar|_reconstruct)"
    r"|_codecs\.encode|(__builtin__|builtins)\.(set|frozenset|bytearray|list|dict|tuple|int|float|bool|str|complex)"
)
_ARCHIVE_ERRORS = zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, OSError, EOFError, KeyError
_WAY_OUT = "save the state as JSON instead: json.dump(accountant.state_dict(), file)"
_NUMBERS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}  # numpy's names of the types that a state may have


@dataclass(frozen=True, eq=False)
class Opaque:
    """An object or a class of a pickle of which only the name is known.

    Attributes:
        name: of its class, or of itself.
        is_class: True for the name itself, False for an object that it would make.
        kind: of a numpy type its name, such as "f8"; else "".
    """

    name: str
    is_class: bool = False
    kind: str = ""

    def __repr__(self) -> str:
        """Return the name alone."""
        return self.name


class _Mark:
    """The mark on the stack from which tuples and lists are built."""


_MARK = _Mark()


def checkpoint_value(stream: BinaryIO) -> Any:
    """Return the plain data in a torch checkpoint without running its code; InputError if it is refused."""
    _check_directory(stream)
    try:
        with zipfile.ZipFile(stream) as archive:
            found = [entry for entry in archive.infolist() if entry.filename.rpartition("/")[2] == "data.pkl"]
            # Other methods unpack whole blocks at once, of which a few bytes can make gigabytes.
            if any(entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} for entry in found):
                raise InputError(f"expected data.pkl as torch.save packs it, got another compression; {_WAY_OUT}")
            # One byte more than is allowed: a larger one is noticed, and one that unpacks to terabytes does no harm.
            data = [archive.open(entry).read(MAX_PICKLE + 1) for entry in found[:1]]
    except InputError:
        raise  # it is a ValueError too
    except (*_ARCHIVE_ERRORS, ValueError) as error:
        raise InputError(f"expected a checkpoint of torch.save, got an archive that cannot be read: {error}") from None
    if len(found) != 1:
        raise InputError("expected a checkpoint of torch.save, got an archive without one data.pkl")
    return pickle_value(data[0])


def _check_directory(stream: BinaryIO) -> None:
    """Raise InputError for a zip archive that states a file list of over 16 MiB; rewind any other stream."""
    stream.seek(0, 2)
    stream.seek(max(0, stream.tell() - _TAIL))
    tail = stream.read()
    if _directory_size(tail) > _MAX_DIRECTORY:
        raise InputError(f"expected a checkpoint of at most some 100,000 tensors, got a larger one; {_WAY_OUT}")
    stream.seek(0)


def _directory_size(tail: bytes) -> int:
    """Return the size in bytes that a zip states for its list of files, or 0 if it states none.

    If the ZIP64 record with the size is missing, return more than is allowed.
    """
    # `zipfile` would read the whole list of files into memory. Its length is in the end record, or that of ZIP64.
    at, at_64 = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    size = struct.unpack_from("<I", tail, at + 12)[0] if 0 <= at <= len(tail) - 16 else 0
    if size != 2**32 - 1:
        return int(size)
    return int(struct.unpack_from("<Q", tail, at_64 + 40)[0]) if 0 <= at_64 <= len(tail) - 48 else _MAX_DIRECTORY + 1


def pickle_value(data: bytes) -> Any:
    """Return the plain data in a pickle without running its code; InputError if it is refused or malformed."""
    if len(data) > MAX_PICKLE:
        raise InputError(f"expected a pickle of at most {MAX_PICKLE // 2**20} MiB, got a larger one; {_WAY_OUT}")
    machine = _Machine()
    try:
        # The decoder yields one opcode at a time and keeps no stack; it allocates no more than the pickle is long.
        for opcode, argument, _ in pickletools.genops(data):
            machine.step(opcode.name, argument)
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error) as error:
        raise InputError(f"expected a pickle, got one that is malformed: {error}") from None
    return machine.stack[-1] if machine.stack else None


class _Machine:
    """Stack and memo of an interpreter of pickles that knows plain data only."""

    def __init__(self) -> None:
        """Start with nothing on the stack."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.steps = 0
        self.work = 0

    def charge(self, work: int) -> None:
        """Count bytes that are copied, or entries that are gone through; InputError above the budget of a pickle."""
        self.work += work
        if self.work > _MAX_WORK:
            raise InputError(f"expected a pickle that unpacks to at most 64 MiB, got a larger one; {_WAY_OUT}")

    def step(self, name: str, argument: Any) -> None:
        """Perform one opcode of a pickle; InputError if plain data does not need it or there are too many."""
        self.steps += 1
        if self.steps > _MAX_OPCODES:
            raise InputError(f"expected a pickle of at most {_MAX_OPCODES:,} opcodes, got more; {_WAY_OUT}")
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]() if callable(_CONSTANTS[name]) else _CONSTANTS[name])
        elif name in _VALUES:
            self.stack.append(argument)
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _IGNORED:
            raise InputError(f"expected a pickle of plain data, got the opcode {name}; {_WAY_OUT}")

    def pop_since_mark(self) -> list[Any]:
        """Pop the last mark and all above it; return what was above, the oldest first; ValueError without a mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                items = self.stack[place + 1 :]
                del self.stack[place:]
                return items
        raise ValueError("there is no mark")

    def pop(self, count: int) -> tuple[Any, ...]:
        """Pop and return the last `count` values of the stack, the oldest first; IndexError if there are fewer."""
        if len(self.stack) < count:
            raise IndexError("the stack is empty")
        values = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return values

    def push_name(self, name: str) -> None:
        """Push "module.name" as an Opaque class, without importing it; InputError if a checkpoint may not hold it."""
        if not _HARMLESS.fullmatch(name):
            shown = name[:80].encode("unicode_escape").decode()
            raise InputError(f"expected a pickle of plain data, got {shown}, which was not executed; {_WAY_OUT}")
        self.stack.append(Opaque(name, is_class=True))

    def push_result(self) -> None:
        """Replace a class and its arguments on the stack by the call's result; ValueError if it is no class."""
        # Here pickle would call what it finds. Only the name decides what stands in the place of the result.
        called, arguments = self.pop(2)
        if not (isinstance(called, Opaque) and called.is_class):
            raise ValueError("what is called is no class")
        self.stack.append(self._result_without_call(called.name, arguments))

    def drop_attributes(self) -> None:
        """Pop an object's attributes unused; ValueError if they make a numpy type on the stack big-endian."""
        attributes = self.pop(1)[0]
        holder = self.stack[-1]
        if isinstance(holder, Opaque) and holder.kind and isinstance(attributes, tuple):
            self.charge(len(attributes))
            if ">" in attributes:
                raise ValueError("numbers whose first byte is the largest")

    def set_items(self, items: list[Any]) -> None:
        """Set items [key, value, ...] in the dict on top, or drop them for an Opaque; TypeError for any other value."""
        holder = self.stack[-1]
        if isinstance(holder, dict):
            for key, value in zip(items[::2], items[1::2], strict=False):
                self._set_plain_key(holder, key, value)
        elif not isinstance(holder, Opaque):
            raise TypeError("entries belong to a dictionary")

    def extend_list(self, items: list[Any]) -> None:
        """Extend the list on top of the stack; TypeError if that is no list."""
        if not isinstance(self.stack[-1], list):
            raise TypeError("items belong to a list")
        self.stack[-1].extend(items)

    def _set_plain_key(self, entries: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry in place if its key is a text, number or bytes; drop it otherwise."""
        # Other keys belong to tensors and optimizers, which are skipped; a state has texts for keys. A key may have to
        # be compared with an equal one, byte by byte.
        self.charge(len(key) if isinstance(key, (str, bytes)) else 0)
        if isinstance(key, (str, float, bytes)) or (isinstance(key, int) and abs(key) < _MAX_KEY):
            entries[key] = value

    def _result_without_call(self, name: str, arguments: Any) -> Any:
        """Return the dict, bytes or number that a call in a pickle would give, else an Opaque; nothing is run."""
        match name.rpartition(".")[2], arguments:
            case "OrderedDict", _:
                entries: dict[Any, Any] = {}
                for key, value in arguments[0] if arguments else ():
                    self.charge(_ENTRY)
                    self._set_plain_key(entries, key, value)
                return entries
            case "encode", (str() as text, "latin1"):
                self.charge(len(text))
                return text.encode("latin1")
            case "dtype", (str() as kind, *_):
                return Opaque(name, kind=kind)
            case "scalar", (Opaque(kind=kind), bytes() as data) if kind in _NUMBERS:
                return struct.unpack(_NUMBERS[kind], data)[0]
            case _:
                return Opaque(name)


# Types are called, so that each opcode makes a list or dictionary of its own. A set becomes a list: it may hold what
# has no hash here.
_CONSTANTS: dict[str, Any] = {
    "MARK": _MARK,
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}
_VALUES = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "BINFLOAT",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
        "SHORT_BINSTRING",
        "BINSTRING",
    ]
)
_IGNORED = frozenset(["PROTO", "FRAME", "STOP"])
_Action = Callable[[_Machine, Any], object]
# What pickles of protocol 2 and later use for such data. INST, OBJ, EXT1 and the like, which call or look up something,
# are refused with all that is not here.
_ACTIONS: dict[str, _Action] = {
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_since_mark())),
    "TUPLE1": lambda machine, _: machine.stack.append(machine.pop(1)),
    "TUPLE2": lambda machine, _: machine.stack.append(machine.pop(2)),
    "TUPLE3": lambda machine, _: machine.stack.append(machine.pop(3)),
    "APPEND": lambda machine, _: machine.extend_list(list(machine.pop(1))),
    "APPENDS": lambda machine, _: machine.extend_list(machine.pop_since_mark()),
    "ADDITEMS": lambda machine, _: machine.extend_list(machine.pop_since_mark()),
    "FROZENSET": lambda machine, _: machine.stack.append(tuple(machine.pop_since_mark())),
    "SETITEM": lambda machine, _: machine.set_items(list(machine.pop(2))),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_since_mark()),
    "BINPUT": lambda machine, at: machine.memo.update({at: machine.stack[-1]}),
    "LONG_BINPUT": lambda machine, at: machine.memo.update({at: machine.stack[-1]}),
    "MEMOIZE": lambda machine, _: machine.memo.update({len(machine.memo): machine.stack[-1]}),
    "BINGET": lambda machine, at: machine.stack.append(machine.memo[at]),
    "LONG_BINGET": lambda machine, at: machine.stack.append(machine.memo[at]),
    "GLOBAL": lambda machine, name: machine.push_name(str(name).replace(" ", ".", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_name(".".join(machine.pop(2))),  # TypeError for other than texts
    "REDUCE": lambda machine, _: machine.push_result(),
    "NEWOBJ": lambda machine, _: machine.push_result(),
    "BUILD": lambda machine, _: machine.drop_attributes(),
    "BINPERSID": lambda machine, _: machine.stack.append(Opaque(f"storage of {len(machine.pop(1))}")),
}
