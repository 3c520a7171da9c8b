# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the system tests, and functions that wait and measure: they start nothing."""
import os
import threading
import time

__all__ = ["ROOT", "BUILD", "SANITIZED", "SLOW", "SOAK", "Failure", "Skip", "check", "equal", "has", "saves_in", "wait_until", "cpu_s", "load_percent",
           "all_together"]

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("STAR_BUILD", "build/release"))
# A sanitized build is some times slower; a shared machine can be, which STAR_SLOW says. What is waited for may take as much longer.
SANITIZED = os.path.basename(BUILD) not in ("release", "coverage")
SLOW = (3 if SANITIZED else 1) * int(os.environ.get("STAR_SLOW", 1))
# `make soak`: the same cases, with as much as the issues ask for.
SOAK = os.environ.get("STAR_SOAK") == "1"


class Failure(AssertionError):
    """A failure that a case has found."""


class Skip(Exception):
    """Raised with the reason why a case cannot be run on this machine."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(actual, expected, what="value"):
    check(actual == expected, f"{what} is {actual!r}, not {expected!r}")


def has(text, part):
    check(part in text, f"no {part!r} in:\n{text}")


def saves_in(directory):
    """What is in a directory of checkpoints, but for the file by which saves and prunes wait for each other."""
    return sorted(name for name in os.listdir(directory) if name != "starserver-saves.lock")


def wait_until(condition, timeout_s=10, what="the condition"):
    """Returns the first true value of condition()."""
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begun
        check(waited < timeout_s * SLOW, f"{what} did not come about within {timeout_s * SLOW} s")
        time.sleep(0.02 if waited < 1 else 0.05)  # a look may be a request to a process that is busy


def cpu_s(pid):
    """Seconds of processor time of all threads: of the scheduler, which knows them exactly, or else in ticks."""
    try:
        used_ns = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                used_ns += int(file.read().split()[0])
        return used_ns / 1e9
    except FileNotFoundError:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load_percent(pid, seconds):
    """How much of a core a process takes meanwhile."""
    before, start = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - start)


def all_together(functions):
    """Runs functions, each on a thread; the first failure is the case's."""
    wrong = []

    def run_one(function):
        try:
            function()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=run_one, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
