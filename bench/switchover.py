#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""How long workers wait when the two nodes of a pair change places for maintenance (`starctl promote`), by durability, and where that time goes.

Workers push 100 rows of 16 float32, one request after the other, over kernel TCP on loopback (bench/peers/switch-push.c). A worker's pause is its
longest push that was under way between the order and the pair's being whole again. Times of the nodes are those of their logs. By itself
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
OLD = {"closed": "the standby takes over", "yields": "the other node of the pair serves", "ends": "beginning again"}
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
            raise harness.Failure(f"the former primary is no standby that has all, {WHOLE_S} s after a switch: {old.said()}")
        time.sleep(0.05)
    return begun, answered, time.time_ns() // 1000


def stages(old, new, pause, opened, begun, answered, whole):
    """Milliseconds since the order of what happened for that worker."""
    found = {"order answered": answered}
    for node, texts in ((old, OLD), (new, NEW)):
        for name, text in texts.items():
            found[name] = next((at for at, said in lines_since(node, begun) if said.startswith(text) and at < whole), None)
    end = pause[0] + pause[1]
    found |= {"push begun": pause[0], "connected": max((at for at, _ in opened if begun <= at <= end), default=None), "push answered": end}
    return {name: (at - begun) / 1000 for name, at in found.items() if at}


def one_side(folder, name, port, switches):
    """The pauses of all workers in milliseconds, and the stages of each."""
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
        pauses, found = [], []
        for old, new, begun, answered, whole in orders:
            for worker in said:
                pause = max((each for each in worker["pauses"] if each[0] + each[1] > begun and each[0] < whole), key=lambda each: each[1], default=None)
                pauses.append(pause[1] / 1000 if pause else 5)  # shorter ones are not noted
                if pause:
                    found.append(stages(old, new, pause, worker["opened"], begun, answered, whole))
        return pauses, found


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def measure(folder, names, switches=SWITCHES):
    """By durability: p50_ms, p99_ms and max_ms of the pauses, and the medians of the stages."""
    results = {}
    for number, name in enumerate(names):
        pauses, found = one_side(folder, name, FIRST_PORT + number * 2 * SPAN, switches)
        middle = {stage: statistics.median(each[stage] for each in found if stage in each) for stage in dict.fromkeys(s for each in found for s in each)}
        results[name] = {"p50_ms": percentile(pauses, 50), "p99_ms": percentile(pauses, 99), "max_ms": max(pauses), "pauses_ms": pauses, "stages_ms": middle}
        print(f"switch {name:<8}  {len(pauses)} pauses: median {results[name]['p50_ms']:.1f} ms, 99 % {results[name]['p99_ms']:.1f} ms, most "
              f"{results[name]['max_ms']:.1f} ms (aim {AIM_MS}); from the order on, in the middle: " +
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
