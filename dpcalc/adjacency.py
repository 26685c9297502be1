"""Neighbouring relations between two data sets D and D' that differ in one privacy unit."""

from enum import StrEnum


class Adjacency(StrEnum):
    """What may differ between D and D'.

    Attributes:
        ADD_REMOVE: the unit is absent from D'.
        REPLACE_ONE: the unit's records are others in D'.
        ZERO_OUT: in D' the unit is in the sampling frame and contributes zero ("replace-special").
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
