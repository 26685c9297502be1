"""The one reader of JSON that decides something: equal keys are refused, for a reviewer may have seen the other one."""

import json
import re
from collections import Counter
from collections.abc import Callable

from dpcalc.config.source import shortened
from dpcalc.errors import InputError


class RepeatedKeyError(InputError):
    """A JSON object gives a key more than once."""


def json_content(text: str, *, number: Callable[[str], object] | None = None) -> object:
    """Return the content of a JSON text; RepeatedKeyError, with the lines of the key, if an object repeats one."""

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [name for name, _ in pairs]
            key = next(name for name, count in Counter(names).items() if count > 1)
            # The decoder tells no places: the lines are looked up, unless the key is written with escapes.
            found = [text.count("\n", 0, at.start()) + 1 for at in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
            lines = f" (see lines {', '.join(map(str, found[:5]))})" if len(found) > 1 else ""
            raise RepeatedKeyError(f"the key `{shortened(key)}` stands there more than once{lines}; delete all but one")
        return entries

    return json.loads(text, parse_float=number, parse_int=number, parse_constant=number, object_pairs_hook=object_of)
