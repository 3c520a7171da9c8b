#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""How long workers wait when the two nodes of a pair change places for maintenance (`starctl promote`), by durability, and where that time goes.

Workers push 100 rows of 16 float32, one request after the other, over kernel TCP on loopback (bench/peers/switch-push.c). A worker's pause is its
longest push that began before the former primary was back; beside it stands the longest one from then on until the pair was whole again, while the
new standby got what there is. Times of the nodes are those of their logs. By itself
(bench/switchover.py [SWITCHES]) it prints what bench/standby has in its result."""
import contextlib
import datetime
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from pairs import SPAN, Cluster, is_whole

PUSH = harness.BUILD / "bench/switch-push"
SWITCHES, WORKERS, ROWS, FIRST_PORT, AIM_MS, WHOLE_S = 12, 3, 100, 21200, 100, 60
LINE = re.compile(r"(\d{4}-\S+Z) \S+ (.*)")
# What a log says; the old primary's, and the new one's.
OLD = {"closed": "the standby takes over", "hung up": "the other node of the pair serves", "ends": "restarting", "is back": "ready: "}
NEW = {"serves": "the primary of the pair, generation"}


def lines_since(node, since_us):
    """(microseconds since 1970, text) of each line."""
    for line in (node.folder / "log").read_text(encoding="utf-8").splitlines():
        if found := LINE.match(line):
            at = datetime.datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() * 1e6
            if at >= since_us - 1000:  # a log has milliseconds
                yield at, found[2]


def switch(old, new):
    """When it was ordered, answered and over, in microseconds since 1970."""
    begun = time.time_ns() // 1000
    harness.call(str(new.folder / "sock"), "promote")
    answered = time.time_ns() // 1000
    until = time.monotonic() + WHOLE_S
    while not (is_whole(new, "primary") and is_whole(old, "standby")):
        if time.monotonic() > until:
            raise harness.Failure(f"the former primary is not a complete standby, {WHOLE_S} s after a switch: {old.said()}")
        time.sleep(0.05)
    return begun, answered, time.time_ns() // 1000


def stages(old, new, begun, whole):
    """When what stands in the logs happened."""
    found = {}
    for node, texts in ((old, OLD), (new, NEW)):
        for name, text in texts.items():
            found[name] = next((at for at, said in lines_since(node, begun) if said.startswith(text) and at < whole), whole)
    return found


def longest(pauses, begun, end):
    """(when it began, for how long) in microseconds; shorter ones than 5 ms are not noted."""
    return max((each for each in pauses if each[0] + each[1] > begun and each[0] < end), key=lambda each: each[1], default=(begun, 5000))


def one_side(folder, name, port, switches):
    """The pauses of all workers in milliseconds, those when the former primary is back, and the stages of each."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(folder, name, port))
        nodes = cluster.nodes
        workers = [subprocess.Popen([PUSH, ",".join(node.address for node in nodes), str(ROWS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(WORKERS)]
        stack.callback(lambda: [worker.kill() for worker in workers])
        time.sleep(0.5)
        orders = []
        for number in range(switches):
            old, new = nodes[number % 2], nodes[1 - number % 2]
            orders.append((old, new, *switch(old, new)))
            time.sleep(0.3)
        said = []
        for worker in workers:
            worker.terminate()
            out, error = worker.communicate(timeout=60)
            if worker.returncode:
                raise harness.Failure(f"a worker has ended: {error.strip()}")
            said.append(json.loads(out))
        pauses, returns, found = [], [], []
        for old, new, begun, answered, whole in orders:
            at = stages(old, new, begun, whole)
            for worker in said:
                pause = longest(worker["pauses"], begun, at["is back"])
                end = pause[0] + pause[1]
                opened = max((when for when, _ in worker["opened"] if begun <= when <= end), default=end)
                found.append({name: (when - begun) / 1000 for name, when in
                              {**at, "order answered": answered, "push begun": pause[0], "connected": opened, "push answered": end}.items()})
                pauses.append(pause[1] / 1000)
                returns.append(longest(worker["pauses"], at["is back"], whole)[1] / 1000)
        return pauses, returns, found


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def measure(folder, names, switches=SWITCHES):
    """By durability: p50_ms, p99_ms and max_ms of the pauses, and the medians of the stages."""
    results = {}
    for number, name in enumerate(names):
        pauses, returns, found = one_side(folder, name, FIRST_PORT + number * 2 * SPAN, switches)
        middle = {stage: statistics.median(each[stage] for each in found) for stage in found[0]}
        results[name] = {"p50_ms": percentile(pauses, 50), "p99_ms": percentile(pauses, 99), "max_ms": max(pauses), "pauses_ms": pauses,
                         "return_p50_ms": percentile(returns, 50), "return_max_ms": max(returns), "stages_ms": middle}
        print(f"switch {name:<8}  {len(pauses)} pauses: median {results[name]['p50_ms']:.1f} ms, 99 % {results[name]['p99_ms']:.1f} ms, most "
              f"{results[name]['max_ms']:.1f} ms (aim {AIM_MS}); when the former primary is back: median {results[name]['return_p50_ms']:.1f} ms, most "
              f"{results[name]['return_max_ms']:.1f} ms; from the order on, in the middle: " +
              ", ".join(f"{stage} {at:.1f}" for stage, at in sorted(middle.items(), key=lambda each: each[1])), flush=True)
    return results


if __name__ == "__main__":
    harness.end_on_signals()
    work = pathlib.Path(tempfile.mkdtemp(prefix="star-bench-"))
    try:
        measure(work, sys.argv[2:] or ("async", "retained", "sync"), int(sys.argv[1]) if len(sys.argv) > 1 else SWITCHES)
    except harness.Failure as failure:
        sys.exit(f"switchover: {failure}")
    finally:
        if not sys.exc_info()[0]:
            shutil.rmtree(work)
