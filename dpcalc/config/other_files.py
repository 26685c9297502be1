"""Files that are no dpcalc config: one error with the ways to one."""

from dpcalc.config.messages import key_suggestion
from dpcalc.config.scalars import DRAW_KEYS
from dpcalc.config.schema import keys_in
from dpcalc.config.source import Diagnostic, error
from dpcalc.config.tree import USER_KEY, Items, Section

REQUIRED_SECTIONS = ("data", "sampling", "mechanism", "training", "privacy")
_SECTIONS = {*REQUIRED_SECTIONS, "phases"}
WAYS = (
    "`dpcalc init FILE` writes one beside it that refers to its values; by hand it is a file of its own, or a section "
    "`dpcalc:` of a training config: docs/adopt.md"
)


def other_file_error(root: Section) -> Diagnostic | None:
    """Return DPC101 for a file that is no dpcalc config; None for a config."""
    foreign = [key for key in root.entries if key not in keys_in("") and not key.startswith(USER_KEY)]
    if not foreign:
        return None
    unmarked = next((key.partition(" {")[0] for key in foreign if key.partition(" {")[0] in _SECTIONS), "")
    if unmarked:
        return error("DPC101", root.anchor, f"`{unmarked}` has no colon behind it", f"write `{unmarked}: {{...}}`")
    # Our sections that hold a key of ours, also under a misspelt name.
    own = set()
    for key, node in root.entries.items():
        section = key if key in _SECTIONS else key_suggestion("", key).key
        keys = {*keys_in(section), *DRAW_KEYS} if section == "sampling" else keys_in(section)
        parts = node.entries.values() if isinstance(node, Section) and section == "sampling" else ()
        below = {word for part in (node, *parts) if isinstance(part, Section) for word in part.entries}
        is_list = section == "phases" and isinstance(node, Items)
        if section in _SECTIONS and (is_list or not below.isdisjoint(keys)):
            own.add(section)
    misspelt = [key for key in foreign if key_suggestion("", key).key in own]
    # A config may lack a section or its version, or have a key too many, but hardly all of these at once.
    enough = 1 if "version" in root.entries else len(REQUIRED_SECTIONS) - 1
    if len(foreign) == len(misspelt) or len(own) >= enough or "phases" in own:
        return None
    lacks = "lacks the version and most" if own else "has none"
    message = f"this is no dpcalc config: it {lacks} of the sections of one ({', '.join(REQUIRED_SECTIONS)})"
    return error("DPC101", root.anchor, message, WAYS)
