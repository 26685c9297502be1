"""What the tests of worker processes have them do: a module of its own, so that a fresh interpreter finds it."""

import os
import sys
import time


class Local(Exception):
    """An exception that cannot be made from its arguments."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def act(task):
    match task:
        case "die":
            os._exit(7)
        case "kill":
            os.abort()
        case "sleep":
            time.sleep(60)
        case "raise":
            raise ZeroDivisionError("nothing to divide by")
        case "odd":
            raise Local(1, 2)
        case "hog":
            return len(bytearray(3_000_000_000))
        case "modest":
            return len(bytearray(200_000_000))
        case "print":
            print("printed")  # noqa: T201  a library may
            sys.stdout.flush()
            os.write(1, b"written")
            return "answered"
        case "unsendable":
            return lambda: None
    return task * 2
