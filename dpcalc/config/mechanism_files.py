"""What a mechanism has in files of its own, for all phases of a config; a file that several inherit is read once."""

from dataclasses import dataclass, field

from dpcalc.config.curve_files import Found, Points, rdp_points
from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.mechanisms import AnyMechanism, RdpCurve
from dpcalc.config.nodes import Node, entry
from dpcalc.config.repository import Files
from dpcalc.config.vote_files import votes_name


@dataclass(frozen=True)
class MechanismFiles:
    """The data files of one config.

    Attributes:
        files: where they are.
    """

    files: Files
    _curves: dict[int, Found] = field(
        default_factory=dict
    )  # by the identity of what names them, which the config keeps

    def read(
        self, kind: type[AnyMechanism], mechanism: Node | None
    ) -> tuple[Points | None, str, tuple[Diagnostic, ...]]:
        """What a mechanism takes from files.

        Args:
            kind: what it must be.
            mechanism: its section.

        Returns:
            (points of its curve, name of its votes, what is wrong); None and "" where it has none.
        """
        if kind is RdpCurve:
            named = id(entry(mechanism, "curve"))
            if named not in self._curves:
                self._curves[named] = rdp_points(mechanism, self.files)
            points, problems = self._curves[named]
            return points, "", problems
        if "votes" in kind.model_fields:
            return None, *votes_name(mechanism, self.files)
        return None, "", ()
