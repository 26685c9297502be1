"""One question to one tool in a process of its own: `python -m tests.benchmarks.worker REQUEST`, JSON both ways.

The first answer ends the cold start, whose clock the parent started (`time.monotonic` is the system's). The call is
then repeated for a moment; a failure is a traceback and an exit code, as everywhere.
"""

import importlib
import json
import resource
import sys
import time

from tests.benchmarks.cases import BY_NAME

MOST_CALLS, ENOUGH = 15, 0.4  # seconds


def peak_mebibytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main():
    request = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    module = importlib.import_module(f"tests.benchmarks.{request['module']}")
    ask = getattr(module, request["question"])(BY_NAME[request["case"]], request["setting"])
    seconds, cpu_seconds, found = [], [], {}
    while not seconds or (sum(seconds) < ENOUGH and len(seconds) < MOST_CALLS):
        cpu, start = time.process_time(), time.perf_counter()
        lower, upper = ask()
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu)
        if not found:
            found = {"cold": time.monotonic() - request["started"], "mebibytes": peak_mebibytes()}
    sys.stdout.write(json.dumps({"lower": lower, "upper": upper, "seconds": seconds, "cpu": cpu_seconds, **found}))


if __name__ == "__main__":
    main()
