"""A loss of finitely many values, from their masses."""

import math

from dpcalc.losses.loss import Loss


def of_masses(losses, masses, **more):
    """Return the loss with these P masses > 0; `more` as of `Loss`."""
    return Loss(losses=tuple(losses), log_masses=tuple(map(math.log, masses)), **more)
