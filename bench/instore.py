# SPDX-License-Identifier: BSD-3-Clause
"""What the store's benches share: starbench's store modes, in one process on one core, and their rounds."""
import contextlib
import fcntl
import json
import os
import statistics

import harness

TIMEOUT_S = 1800


@contextlib.contextmanager
def alone():
    """One bench at a time on this machine, as harness.Stage has it."""
    with open(harness.LOCK, "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise harness.Failure(f"another bench is running on this machine (it holds {harness.LOCK}); wait for its "
                                  "end") from None
        yield


def measure(mode, *options):
    """One run of a mode on the last core of those that this process may use, as starbench's JSON object."""
    core = max(os.sched_getaffinity(0))
    text = harness.run("taskset", "-c", core, harness.BUILD / "app/starbench/starbench", "store", mode, *options,
                       timeout=TIMEOUT_S)
    return json.loads(text)


def sides(result, prefix=""):
    """The rounds of a run's sides, as bench/run plots them."""
    return {prefix + name: {"ns": {"median": statistics.median(side["ns"]), "min": min(side["ns"]), "max": max(side["ns"]),
                                   "rounds": side["ns"]}} for name, side in result["sides"].items()}


def ratio(result, mine, limit):
    """How much of the limit's speed there is: the median over the rounds of the ratio within a round."""
    pairs = zip(result["sides"][mine]["ns"], result["sides"][limit]["ns"])
    return statistics.median(theirs / ours for ours, theirs in pairs)


def median_ns(result, side):
    return statistics.median(result["sides"][side]["ns"])


PLOT = {"figure": "ns", "label": "ns an item"}
