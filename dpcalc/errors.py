"""The errors dpcalc raises on purpose; the command line maps each class to one exit code."""


class DpcalcError(Exception):
    """Base of every deliberate error; its text is one clear sentence for the user."""


class InputError(DpcalcError, ValueError):
    """The user must change the input (exit code 2): `where: expected X, got Y`, then what to do."""


class UnsupportedError(InputError):
    """An accountant or bound lacks what it needs; the text names those that can do it."""


class ConvergenceError(DpcalcError, ArithmeticError):
    """A computation did not reach a certified answer (exit code 3); no number is reported."""
