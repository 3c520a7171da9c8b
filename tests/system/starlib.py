# SPDX-License-Identifier: BSD-3-Clause
"""What the system tests share: cases, test networks, appliances. Standard library only.

A test is a file NAME.test, executable, that registers cases and runs them:

    #!/usr/bin/python3
    from starlib import *

    @case
    def a_worker_pulls_what_it_pushed():
        with Net() as net, Server(net, reactors=2) as server:
            run_in(net, program("startrain"), "--ps", server.control)
            equal(server.starctl("status")["job_name"], "ps")

    main()

Whatever a case starts (Net, Server, spawn, scratch) is ended when the case ends, in reverse order, however it ends, and
also when this program is told to stop; what a function marked @shared starts lives until the last case. The build folder
is that of the environment's STAR_BUILD, or build/release. Everything has a timeout. Where STAR_SOAK is 1, a case does as
much as its issue asks for, else as much as shows that it works. Where STAR_SECURE is 1, nodes have keys, let nobody in
without one and seal their data network, unless a case says something of their security itself; programs have a worker's
key, starctl an administrator's.
"""
import contextlib
import ctypes
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import starsecure
from starcheck import *
from starconfig import libconfig, merge, with_little

__all__ = ["ROOT", "BUILD", "SANITIZED", "SLOW", "SOAK", "SECURE", "Failure", "Skip", "Net", "Process", "Server", "Cluster", "standing", "RpcError", "call",
           "case", "shared", "main", "program", "tool", "as_child", "run", "run_in", "spawn", "starctl", "scratch", "wait_until",
           "all_together", "check", "equal", "has", "libconfig", "cpu_s", "load_percent", "saves_in", "secure_config"]

CONTROL_PORT, DATA_PORT = 3333, 5555
SOAK_SLOW = 20
SECURE = os.environ.get("STAR_SECURE") == "1"
LONG_S = 5  # a case that takes as long says so, and how much of a processor it took
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


# Cases and what they own

_cases = []
_program_owns = contextlib.ExitStack()
_owner = _program_owns


def case(function=None, *, timeout_s=120):
    """Registers a case; its name is the function's."""
    if function is None:
        return functools.partial(case, timeout_s=timeout_s)
    _cases.append((function.__name__, function, timeout_s * SLOW * (SOAK_SLOW if SOAK else 1)))
    return function


def shared(function):
    """Calls the function at most once (with the same arguments); what it starts lives until the program ends."""
    @functools.lru_cache(None)
    def once(*args):
        global _owner
        case_owner, _owner = _owner, _program_owns
        try:
            return function(*args)
        finally:
            _owner = case_owner
    return once


def _on_alarm(number, frame):
    raise Failure("the case took too long")


def _on_stop(number, frame):
    # Once is enough: the clean-up that follows must not be interrupted.
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(f"stopped by {signal.Signals(number).name}")


def _cpu_s():
    """Processor time of this process and of those that it has started and seen end."""
    return sum(os.times()[:4])


def run_case(name, function, timeout_s, owns=True):
    """Runs it, prints and returns its outcome. Without `owns` what it starts outlives it."""
    global _owner
    outcome = "ok " + name
    before, started, used = _owner, time.monotonic(), _cpu_s()
    try:
        with contextlib.ExitStack() as stack:
            if owns:
                _owner = stack
            signal.alarm(int(timeout_s))
            try:
                function()
            except Exception as reason:
                if not isinstance(reason, Skip):
                    for process in Process.living:
                        process.show()
                raise
            finally:
                signal.alarm(0)
    except Skip as reason:
        outcome = f"skip {name}: {reason}"
    except Exception:
        outcome = "not ok " + name
        traceback.print_exc()
    finally:
        _owner = before
    seconds = time.monotonic() - started
    if seconds >= LONG_S:
        print(f"# {seconds:.1f} s, {_cpu_s() - used:.1f} s of CPU", flush=True)
    print(outcome, flush=True)
    return outcome


def main():
    """Runs the cases in their order, or those with one of the arguments in their name."""
    suite = os.path.basename(sys.argv[0]).removesuffix(".test")
    os.chdir(ROOT)
    signal.signal(signal.SIGALRM, _on_alarm)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _on_stop)
    good = True
    with _program_owns:
        if SECURE:
            os.environ["STAR_KEY"] = starsecure.key_of(_keys(), "job")
        for name, function, timeout_s in _cases:
            if len(sys.argv) < 2 or any(part in name for part in sys.argv[1:]):
                good = not run_case(f"{suite}/{name}", function, timeout_s).startswith("not") and good
    sys.exit(0 if good else 1)


# Programs

def program(name):
    """Path of one of the project's programs."""
    return os.path.join(BUILD, "app", name, name)


def tool(name):
    """Path of one of the programs in tests/system/tools."""
    return os.path.join(BUILD, "tests/system", name)


@functools.lru_cache(None)
def scratch():
    """A folder that is removed when the program ends."""
    folder = tempfile.mkdtemp(prefix="star-test-")
    _program_owns.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(None)
def _keys():
    """A folder as starsecure makes it."""
    os.chmod(scratch(), 0o755)
    return starsecure.make_keys(tempfile.mkdtemp(dir=scratch()), program("starctl"))


def secure_config(config, control, by_nobody=False):
    """A node's configuration, with keys where STAR_SECURE wants them and it says nothing of its security."""
    if SECURE:
        starsecure.secure(config, control, starsecure.key_of(_keys(), "nodes", by_nobody))
    return config


def _environment(changes, argv):
    """This process's, without what governs StarServer or make there, with the changes; None removes a variable."""
    governing = re.compile(r"(NETWORK_|PS_|WORKER_|TF_SEASTAR_|MAKEFLAGS$|MAKELEVEL$|MFLAGS$)")
    environment = {name: value for name, value in os.environ.items() if not governing.match(name)}
    if SECURE:
        environment["STAR_KEY"] = starsecure.key_of(_keys(), "ops" if program("starctl") in argv else "job", "--reuid" in argv)
    environment.update(changes or {})
    return {name: value for name, value in environment.items() if value is not None}


def as_child(argv, net=None):
    """What to start instead, so that it is killed when this process ends, in the network's namespace. Not a preexec_fn: with one, Python copies
    itself for each process, which takes longer than most of what is started."""
    return [tool("star-child"), str(os.getpid()), net.netns if net else "", *argv]


def run(*argv, expect=0, timeout_s=60, env=None, net=None, text=None, cwd=ROOT):
    """Runs a program to its end. expect: the exit status that is right, or None for any. text: its standard input."""
    argv = [str(word) for word in argv]
    process = subprocess.Popen(as_child(argv, net), cwd=cwd, env=_environment(env, argv), text=True, errors="replace",
                               stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(text, timeout=timeout_s * SLOW)
    except BaseException as error:
        out, err = _end_with_descendants(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failure(f"{' '.join(argv)}: not done after {timeout_s * SLOW} s\n{out}{err}") from None
        raise
    if expect is not None and process.returncode != expect:
        raise Failure(f"{' '.join(argv)}: exit status {process.returncode}, not {expect}\n{out}{err}")
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _descendants(pid):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def _end_with_descendants(process):
    """What it started may hold its pipes open, and would be waited for. Returns what it has printed."""
    for pid in [process.pid, *_descendants(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        return "", ""


def run_in(net, *argv, **options):
    """Runs a program in a test network's namespace, as `run` does."""
    return run(*argv, net=net, **options)


class Process:
    """A program that runs beside the test. Its output goes to a file: .text()."""
    living = []
    numbers = 0

    def __init__(self, argv, net=None, env=None, cwd=ROOT):
        Process.numbers += 1
        self.argv = [str(word) for word in argv]
        self.name = os.path.basename(self.argv[0])
        self.log = os.path.join(scratch(), f"{self.name}-{Process.numbers}.log")
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(as_child(self.argv, net), cwd=cwd, env=_environment(env, self.argv), stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=subprocess.STDOUT)
        Process.living.append(self)
        _owner.callback(self.end)

    @property
    def pid(self):
        return self.popen.pid

    def text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def show(self):
        """The end of its output, as a diagnostic of a failed case."""
        lines = self.text().splitlines()
        print(f"# {self.name} (pid {self.pid}) said" + (", at last:" if len(lines) > 60 else ":"), file=sys.stderr)
        for line in lines[-60:]:
            print("#   " + line, file=sys.stderr)

    def running(self):
        return self.popen.poll() is None

    def wait(self, timeout_s=30):
        """Its exit status."""
        try:
            return self.popen.wait(timeout_s * SLOW)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} (pid {self.pid}) still runs after {timeout_s * SLOW} s\n{self.text()}") from None

    def signal(self, number):
        self.popen.send_signal(number)
        if number == signal.SIGSTOP:  # its threads go on until the one that has the signal has run
            wait_until(self._stands_still, 10, f"{self.name} (pid {self.pid}) standing still")

    def _stands_still(self):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread, or the process, has ended meanwhile
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{task}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] not in "TtZX":
                        return False
            return True
        return not self.running()

    def stop(self, timeout_s=10):
        """Asks it to end, and sees that it does; returns its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def end(self):
        """Kills it, whatever state it is in. Never fails: a case that checks how it ends calls stop()."""
        if self in Process.living:
            Process.living.remove(self)
        if self.running():
            self.popen.terminate()
            try:
                self.popen.wait(5 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if sys.exc_info()[0]:
            self.show()
        self.end()


def spawn(*argv, net=None, env=None, cwd=ROOT):
    """Starts a program and goes on; a Process."""
    return Process(argv, net=net, env=env, cwd=cwd)


# Networks

class Net:
    """A test network of its own (scripts/testnet). data[i] has .interface, .appliance and .namespace of a data pair, and
    .appliance6 and .namespace6, which are None on a machine without IPv6; so is .control_host6."""
    numbers = 0

    def __init__(self, data=1):
        if os.geteuid():
            raise Skip("network namespaces need root")
        self._remove_orphans()
        Net.numbers += 1
        self.name = f"t{os.getpid()}-{Net.numbers}"
        self.appliances = []  # Processes
        _owner.callback(self.down)
        shown = run("scripts/testnet", "up", self.name, "--index", "auto", "--data", data).stdout
        self.values = dict(line.split("=", 1) for line in shown.splitlines())
        self.netns = self.values["NETNS"]
        self.control_host, self.control_namespace = self.values["CONTROL_HOST"], self.values["CONTROL_NAMESPACE"]
        self.control_host6 = self.values.get("CONTROL_HOST6")
        self.data = [DataPair(*(self.values.get(f"DATA{i}_{part}") for part in
                                ("INTERFACE", "APPLIANCE", "NAMESPACE", "APPLIANCE6", "NAMESPACE6")))
                     for i in range(data)]

    @staticmethod
    def _remove_orphans():
        """Networks of tests that were killed."""
        for name in run("scripts/testnet", "list").stdout.split():
            owner = re.fullmatch(r"t(\d+)-\d+", name)
            if owner and not os.path.exists(f"/proc/{owner[1]}"):
                run("scripts/testnet", "down", name)

    def down(self):
        # The appliances first: the control address of another node must not be looked for beyond this machine.
        while self.appliances:
            self.appliances.pop().end()
        run("scripts/testnet", "down", self.name)

    @contextlib.contextmanager
    def inside(self):
        """The calling thread is in the namespace meanwhile. A socket stays in the namespace in which it was created."""
        with open("/proc/thread-self/ns/net") as here, open(f"/run/netns/{self.netns}") as there:
            _set_namespace(there)
            try:
                yield
            finally:
                _set_namespace(here)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()


def _set_namespace(file):
    if LIBC.setns(file.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class DataPair:
    def __init__(self, interface, appliance, namespace, appliance6, namespace6):
        self.interface, self.appliance, self.namespace = interface, appliance, namespace
        self.appliance6, self.namespace6 = appliance6, namespace6

    def addresses(self):
        """The appliance's, as a port's address option takes them."""
        return [f"{self.appliance}/24"] + ([f"{self.appliance6}/64"] if self.appliance6 else [])


# Appliances

def starctl(socket, *words, expect=0, timeout_s=20):
    """Runs `starctl --socket SOCKET WORDS... --json` and returns what it printed, read as JSON."""
    done = run(program("starctl"), "--socket", socket, *words, "--json", expect=expect, timeout_s=timeout_s)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failure(f"starctl {' '.join(words)} printed no JSON:\n{done.stdout}{done.stderr}") from None


class RpcError(Failure):
    """The control plane answered with an error."""
    def __init__(self, error):
        self.code, self.text = error["code"], error["message"]
        super().__init__(f"{self.text} ({self.code})")


class Closed(Failure, ConnectionError):
    """The control plane closed the connection instead: its node ends, or begins again."""


def _ask(connection, whom, method, params):
    """Sends a request on a connection to a control plane and returns the result; an error is an RpcError."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}
    with connection, connection.makefile() as lines:
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = lines.readline()
    if not line:
        raise Closed(f"{whom} closed the connection without an answer to {method}")
    answer = json.loads(line)
    if "error" in answer:
        raise RpcError(answer["error"])
    return answer["result"]


def call(address, method, timeout_s=20, **params):
    """Calls a method at a control address, from this machine's side of the network; with STAR_SECURE on the socket of the node's
    administrator, since nobody reads what is said in clear at the address."""
    return _ask(starsecure.connection(address, timeout_s * SLOW), address, method, params)


def call_locally(socket, method, timeout_s=20, **params):
    """The same on the socket of a node's administrator, where no key is needed."""
    return _ask(starsecure.local_connection(socket, timeout_s * SLOW), socket, method, params)


class Server:
    """
    A starserver: PS task `task` of a cluster of `nodes` on data pair `task` of the network. config: changes to the
    generated file, by group ({"tcp": {"time_wait_ms": 1000}}). env: environment variables. Waits until it answers.
    ipv6: control and data addresses are IPv6; the appliance has and answers at both of its addresses in any case.
    """

    def __init__(self, net, task=0, nodes=1, reactors=1, config=None, env=None, arguments=(), wait=True, ipv6=False):
        pair = net.data[task]
        folder = tempfile.mkdtemp(dir=scratch())
        self.net, self.task, self.env, self.arguments = net, task, env, arguments
        if ipv6 and not pair.appliance6:
            raise Skip("this machine has no IPv6")
        control_host = f"[{net.control_host6}]" if ipv6 else net.control_host
        controls = [f"{control_host}:{CONTROL_PORT + i}" for i in range(nodes)]
        hosts = [f"[{data.appliance6}]" if ipv6 else data.appliance for data in net.data]
        self.control, self.data_host, self.data_port = controls[task], hosts[task].strip("[]"), DATA_PORT
        self.socket, self.file = os.path.join(folder, "control.sock"), os.path.join(folder, "starserver.conf")
        self.config = with_little(merge({
            "node": {"job_name": "ps", "task_index": task},
            "cluster": {"ps": controls},
            "endpoint_map": [{"control": control, "data": f"{hosts[i]}:{DATA_PORT}"}
                             for i, control in enumerate(controls)],
            "ports": [{"device": "net_af_packet", "interface": pair.interface, "address": pair.addresses()}],
            "cores": {"number": reactors},
            "memory": {"hugepages": "none", "parameter_mib": 64},
            "control": {"socket": self.socket},
        }, config or {}))
        self.socket = self.config["control"]["socket"]
        secure_config(self.config, self.control)
        with open(self.file, "w") as file:
            file.write(libconfig(self.config))
        self.start(wait)

    def start(self, wait=True):
        """Starts it (again, after stop or kill), with the same file."""
        self.process = spawn(program("starserver"), "-c", self.file, *self.arguments, env=self.env,
                             cwd=os.path.dirname(self.file))
        self.net.appliances.append(self.process)
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout_s=30):
        def answers():
            check(self.process.running(),
                  f"starserver ended with status {self.process.popen.returncode}:\n{self.text()}")
            return self.status_or_none() is not None
        try:
            wait_until(answers, timeout_s, "an answer to status on its control socket")
        except Failure as failure:
            raise Failure(f"{failure}\n{self.text()}") from None

    def starctl(self, *words, **options):
        return starctl(self.socket, *words, **options)

    def call(self, method, timeout_s=20, **params):
        """Calls a method of the control plane at the node's control address; an error is an RpcError."""
        return call(self.control, method, timeout_s, **params)

    def status_or_none(self):
        """What `starctl status` would print, without a process for each question; None: nobody answers yet, or not with a status."""
        try:
            return call_locally(self.socket, "status")
        except (OSError, RpcError):
            return None

    def layout(self, timeout_s=30):
        """The cluster's layout, as soon as there is one."""
        def laid_out():
            try:
                return self.call("layout")
            except RpcError as error:
                check(error.text.startswith("waiting for"), f"no layout, but: {error.text}")
        return wait_until(laid_out, timeout_s, "a layout")

    def sums(self):
        """The status's figures, summed over the reactors; .get("errors") is a dict."""
        total = {}
        for reactor in self.call("status")["reactors"]:
            for name, value in reactor.pop("errors").items():
                total.setdefault("errors", {}).setdefault(name, 0)
                total["errors"][name] += value
            for name, value in reactor.items():
                if not isinstance(value, dict):
                    total[name] = total.get(name, 0) + value
        total.setdefault("errors", {})
        return total

    def nothing_left(self, timeout_s=10):
        """Waits until the last connection and the last packet buffer are gone, as when all clients have ended."""
        def left():
            sums = self.sums()
            return sums["connections"], sums["mbufs_used"]
        try:
            wait_until(lambda: left() == (0, 0), timeout_s)
        except Failure:
            raise Failure(f"left: {left()} connections and packet buffers; {self.sums()['errors']}") from None

    def text(self):
        return self.process.text()

    @property
    def pid(self):
        return self.process.pid

    def stop(self, timeout_s=15):
        return self.process.stop(timeout_s)

    def kill(self):
        self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if sys.exc_info()[0]:
            self.process.show()
        self.process.end()


class Cluster:
    """A cluster of `nodes` servers; .ps is what startrain's --ps and star_open take, .control the first node's address. The options are Server's."""

    def __init__(self, net, nodes, **options):
        self.servers = [Server(net, task, nodes, wait=False, **options) for task in range(nodes)]
        for server in self.servers:
            server.wait_ready()
        self.ps = "tcp:" + ",".join(server.control for server in self.servers)
        self.control = self.servers[0].control

    def layout(self, timeout_s=30):
        return self.servers[0].layout(timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.__exit__()

    def call(self, method, timeout_s=20, **params):
        return self.servers[0].call(method, timeout_s, **params)

    def starctl(self, *words, **options):
        return self.servers[0].starctl(*words, **options)

    def clear(self):
        """Drops all tables and variables: what is created then is as on nodes that have just begun."""
        while kept := [entry["name"] for entry in self.call("tables")]:
            for name in kept:
                self.call("table_drop", name=name)


@shared
def _standing(nodes, reactors):
    net = Net(data=nodes)
    return net, Cluster(net, nodes, reactors=reactors)


@contextlib.contextmanager
def standing(nodes=1, reactors=1):
    """
    (network, cluster) of nodes that hold nothing. They are started once for all cases of a program that ask for such nodes, and go on
    afterwards: what was left there is dropped before the next use.
    """
    net, cluster = _standing(nodes, reactors)
    cluster.clear()
    yield net, cluster
