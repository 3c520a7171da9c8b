# SPDX-License-Identifier: BSD-3-Clause
"""star-do, which makes a worker's calls; and workers that push with it, count what they push, and go on over whatever
happens."""
import array
import json
import math
import os
import subprocess
import threading
import time

from starlib import *
import starlib

# Between two pushes of a pusher, unless told otherwise: there is always one about to begin or under way, and a core is left to the others. For a
# moment after go_on, which comes before what a case does to the nodes, it works a third of the time; then, while nodes start, an eleventh.
PAUSE_S, CALM_PAUSE_S = 0 if SOAK else 0.001, 0.01
EAGER, CALM, EAGER_S = 2, 10, 1  # how many times as long as the last push a pause is
PAUSE_MAX_S = 0.05
STAR_DO = os.path.join(BUILD, "tests/system/star-do/star-do")


def op(kind, table, **fields):
    return {"do": kind, "table": table, **fields}


def do(net, ps, *lines, errors=False):
    """What star-do answers to these, by default none of them with an error."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = [json.loads(line) for line in run_in(net, STAR_DO, ps, text=text).stdout.splitlines()]
    equal(len(answers), len(lines), "the answers")
    for answer in answers:
        if "bits" in answer:
            answer["values"] = array.array("d", bytes.fromhex(answer.pop("bits"))).tolist()
    for line, answer in zip(lines, answers):
        check(errors or "error" not in answer, f"{line}: {answer}")
    return answers


class Pusher:
    """Pushes 1 to each of its keys by libstar, again and again, and never opens its cluster again. Outside `make soak` it works a third of the time
    at most; pause_s=0: all of the time. eager: it never calms down."""

    def __init__(self, net, ps, name, keys, deadline_s=20, pause_s=PAUSE_S, eager=False, **environment):
        self.net, self.ps, self.keys, self.table = net, ps, keys, {"do": "create", "name": name, "dim": 2, "rate": 1}
        self.sent = self.acknowledged = 0
        self.times, self.stop, self.error, self.pause_s = [], False, None, pause_s
        self.eager, self.eager_until = eager, time.monotonic() + EAGER_S
        self.process = subprocess.Popen(["ip", "netns", "exec", net.netns, STAR_DO, ps, str(deadline_s * SLOW * 1000000)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.thread = threading.Thread(target=self.go)
        starlib._owner.callback(self.abandon)
        self.ask(self.table)
        self.thread.start()

    def ask(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "star-do has ended"}')
        check("error" not in answer, f"{line['do']}: {answer}")

    def go(self):
        try:
            while not self.stop:
                self.sent += 1
                began = time.monotonic()
                self.ask(op("push", self.table["name"], keys={"from": 0, "count": self.keys}, values=1))
                self.acknowledged += 1
                self.times.append(time.monotonic())
                self.pause(began)
        except Exception as error:
            self.error = error

    def pause(self, began):
        """After a request that began then and has just been answered."""
        if self.pause_s:
            took, eager = self.times[-1] - began, self.eager or time.monotonic() < self.eager_until
            time.sleep(min(max(self.pause_s, EAGER * took) if eager else max(CALM_PAUSE_S, CALM * took), PAUSE_MAX_S))

    def pushes_since(self, when):
        return sum(at > when for at in self.times)

    def end(self):
        self.stop = True
        self.thread.join(90)
        self.process.stdin.close()
        self.process.wait(20)
        if self.error:
            raise self.error

    def abandon(self):
        """If its case has failed, nothing waits until it has given up."""
        self.stop = True
        if self.process.poll() is None:
            self.process.kill()
        if self.thread.ident:
            self.thread.join()

    def applied(self):
        """How many of its pushes are in its rows, each of them whole."""
        return self.applied_on(1, lambda key: 0)[0]

    def applied_on(self, tasks, task_of):
        """The same on each task: libstar sends it a request of its own."""
        pull = op("pull", self.table["name"], keys={"from": 0, "count": self.keys}, read_only=True, bits=True)
        values, found = do(self.net, self.ps, self.table, pull)[1]["values"], [set() for _ in range(tasks)]
        for key in range(self.keys):
            found[task_of(key)] |= set(values[2 * key:2 * key + 2])
        for task, values in enumerate(found):
            check(len(values) <= 1, f"\"{self.table['name']}\" on PS task {task}: a push is there in part: {values}")
        return [-int(values.pop()) if values else None for values in found]


def patient(net, ps, name, keys, **options):
    """A pusher that waits for a minute for somebody to serve, where it has to connect, too."""
    return Pusher(net, ps, name, keys, deadline_s=60, NETWORK_MAX_CONNECTION_TIMEOUT=str(60000 * SLOW), **options)


def go_on(pushers, since=None, timeout_s=90):
    """Each has some acknowledged since then, or from now on. How long the last of them waited for its first."""
    since = since or time.monotonic()

    def all_have():
        for pusher in pushers:
            if pusher.error:
                raise pusher.error
        return all(pusher.pushes_since(since) > 3 for pusher in pushers)
    for pusher in pushers:
        pusher.eager_until = math.inf
    wait_until(all_have, timeout_s, "workers that go on")
    for pusher in pushers:
        pusher.eager_until = time.monotonic() + EAGER_S
    return max(min(at for at in pusher.times if at > since) - since for pusher in pushers)


def judge_exactly(pushers, tasks=1, task_of=lambda name, key: 0):
    """Each push is on each task, once: all were acknowledged in the end."""
    for pusher in pushers:
        name = pusher.table["name"]
        found = [count for count in pusher.applied_on(tasks, lambda key, name=name: task_of(name, key)) if count is not None]
        print(f"# {name}: {pusher.acknowledged} acknowledged, there {found}")
        equal(pusher.acknowledged, pusher.sent, f"{name}: acknowledged of what was sent")
        equal(set(found), {pusher.sent}, f"{name}: there of what was acknowledged")


def judge(pushers, events, lost_s=1.0):
    """Nothing twice; what is lost was acknowledged a moment before one of the events."""
    for pusher in pushers:
        applied, name = pusher.applied(), pusher.table["name"]
        late = sum(any(event - lost_s < at <= event for event in events) for at in pusher.times)
        print(f"# {name}: {pusher.acknowledged} acknowledged, {applied} there, {late} in the moments before")
        check(applied <= pusher.sent, f"{name}: {applied} pushes are applied, {pusher.sent} were sent")
        check(applied >= pusher.acknowledged - late,
              f"{name}: {applied} pushes are applied, {pusher.acknowledged} were acknowledged, {late} of them late")
