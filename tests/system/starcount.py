# SPDX-License-Identifier: BSD-3-Clause
"""Workers that count (tests/system/star-count): each knows at any time what its rows have to be, and when its calls had to wait."""
import contextlib
import json
import os
import selectors
import signal
import subprocess
import time

import starlib
from starlib import *

STAR_COUNT = os.path.join(BUILD, "tests/system/star-count/star-count")
DEADLINE_S, READY_S, END_S = 60, 60, 120
BETWEEN_S = 0.02  # calls that are not slower are not reported
KEPT_MIB = (64, 1, 0)  # what libstar may keep of pushes, of one worker after the other


class Counter:
    """A worker of several threads, from the network namespace `netns`. ordered: no layout changes, so that calls keep their order."""

    def __init__(self, netns, ps, name, seed, threads=2, keep_mib=64, ordered=False):
        argv = ["ip", "netns", "exec", netns, STAR_COUNT, ps, name, seed, threads, DEADLINE_S * SLOW * 1000000]
        argv += ["ordered"] if ordered else []
        self.name, self.answer = name, None
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "STAR_KEEP_MIB": str(keep_mib)})
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            ready = selector.select(READY_S * SLOW) and self.process.stdout.readline() == "ready\n"
        if not ready:
            self.kill()
        check(ready, f"worker {name} does not begin")

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        if self.running():
            os.kill(self.process.pid, number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """What it has to say; all that it found wrong is there, too."""
        self.signal(signal.SIGCONT)
        try:
            out, _ = self.process.communicate("\n", timeout=END_S * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"worker {self.name} does not end") from None
        check(out, f"worker {self.name} ended with status {self.process.returncode}, and without a word")
        self.answer = json.loads(out)
        return self.answer

    def waits(self, begun):
        """Of each thread: the seconds from then until a call of its was answered that it made later. What was under way is left out, where another
        one follows, as its answer may have been on its way; later calls are not, even where each is slow because the machine is busy."""
        found = []
        for calls in self.answer["slow"]:
            at = begun
            for since, until in calls:
                if since / 1e6 <= at + BETWEEN_S and until / 1e6 > at:
                    at = until / 1e6
                    if since / 1e6 > begun:
                        break
            found.append(at - begun)
        return found


class Tally:
    """What all runs met."""

    def __init__(self):
        self.runs = self.alone = self.pushes = self.lost = self.doubled = self.unknown = 0
        self.events, self.waits, self.longest_s, self.settled_s = {}, {}, 0, 0

    def add(self, counters, events):
        """events: names, and since when workers had to wait, or None."""
        self.runs += 1
        for counter in counters:
            answer = counter.answer
            self.pushes += answer["pushes"]
            self.lost += answer["lost"]
            self.doubled += answer["doubled"]
            self.unknown += answer["replies_lost"]
            self.longest_s = max(self.longest_s, answer["longest_us"] / 1e6)
            self.settled_s = max(self.settled_s, answer["settled_us"] / 1e6)
        for name, begun in events:
            self.events[name] = self.events.get(name, 0) + 1
            if begun:
                self.waits.setdefault(name, []).extend(wait for counter in counters for wait in counter.waits(begun))

    def show(self, what):
        print(f"# {what}: {self.runs} runs, {self.pushes} pushes acknowledged, {self.lost:.0f} lost, {self.doubled:.0f} doubled, "
              f"{self.unknown} replies lost, {self.alone} runs not judged; the longest call took {self.longest_s:.2f} s, star_settle {self.settled_s:.2f} s")
        print("# " + ", ".join(f"{count} x {name}" for name, count in sorted(self.events.items())))
        for name, waits in sorted(self.waits.items()):
            waits = sorted(waits)
            print(f"# {name} to the next answer, of {len(waits)} threads: " + ", ".join(
                f"{part} {1000 * waits[min(len(waits) - 1, int(len(waits) * share))]:.0f} ms"
                for part, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1))), flush=True)


def count(netns, ps, seed, workers=3):
    return [Counter(netns, ps, f"count{number}", seed * 10 + number, keep_mib=KEPT_MIB[number % len(KEPT_MIB)])
            for number in range(workers)]


def judge(counters, told):
    """Ends them; each has found nothing wrong."""
    answers = [counter.end() for counter in counters]
    wrong = [f"{counter.name}: {answer['wrong']}" for counter, answer in zip(counters, answers) if answer["wrong"]]
    check(not wrong, f"after {told}: " + "; ".join(wrong))
    check(sum(answer["pushes"] for answer in answers) > 10, f"hardly anything was pushed in {told}")


@contextlib.contextmanager
def owning():
    """What is started meanwhile ends with this, and not with the case; if that fails, what its processes said is shown before."""
    before = starlib._owner
    with contextlib.ExitStack() as stack:
        starlib._owner = stack
        try:
            yield
        except Exception:
            for process in Process.living:
                process.show()
            raise
        finally:
            starlib._owner = before
