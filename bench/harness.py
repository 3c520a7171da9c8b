# SPDX-License-Identifier: BSD-3-Clause
"""What the benches share: a test network, servers that run one at a time on one core, the client on another, rounds
in turn, and the JSON object at the end. What a Stage starts or makes is gone when its `with` ends, also on a signal."""
import contextlib
import fcntl
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("STAR_BUILD", "build/release")
KEYS, DIM = 10000, 16
# What star's frames take for one row of DIM elements; starbench's echo uses the same.
REQUEST_BYTES, REPLY_BYTES = 120, 88 + 4 * DIM
STAR_PORT, STAR_CONTROL_PORT, REDIS_PORT, ECHO_PORT, BULK_PORT = 5555, 3333, 6379, 7777, 7778
START_S, STOP_S, SETTLE_S = 30, 5, 0.2
NETWORK, LOCK = "bench", "/run/star-bench.lock"
BUSY_LOAD = 0.5


class Failure(Exception):
    """A sentence for people; the bench ends with it."""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def end_on_signals():
    """Turns the first signal into an exit that runs every `with` to its end; further ones cannot disturb that."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number, _):
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in signals:
        signal.signal(number, end)


def machine():
    """What a figure depends on besides the code."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "host": platform.node(),
            "load_before": os.getloadavg()[0]}


def commit():
    """The commit, with a + when the tree differs from it."""
    try:
        changed = run("git", "-C", ROOT, "status", "--porcelain").strip()
        return run("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip() + ("+" if changed else "")
    except (Failure, OSError):
        return "unknown"


class Server:
    """A process that sleeps (SIGSTOP) whenever another one is measured, so that it takes nothing of their core."""

    def __init__(self, name, protocol, command, address, log):
        self.name, self.protocol, self.address = name, protocol, address
        self.log = open(log, "w+", encoding="utf-8")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def listens(self):
        host, port = self.address.split(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return True
        return False

    def wait_until(self, ready):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended at start with status {self.process.returncode}: {self.said()}")
            if ready():
                return
            time.sleep(0.05)
        raise Failure(f"{self.name} is not ready on {self.address} after {START_S} s: {self.said()}")

    def said(self):
        self.log.seek(0)
        return self.log.read()[-2000:].strip() or "(it said nothing)"

    def signal(self, number):
        """To its children, too: it leads a session of its own (the sixth field of proc(5)'s stat; the second may have blanks)."""
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[3]) == self.process.pid:
                    os.kill(int(stat.parent.name), number)

    def sleep(self):
        self.signal(signal.SIGSTOP)

    def wake(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.name} has ended with status {self.process.returncode}: {self.said()}")
        self.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def awake(self):
        self.wake()
        time.sleep(SETTLE_S)
        try:
            yield
        finally:
            time.sleep(SETTLE_S)  # for the last FINs
            self.sleep()

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                self.process.wait()
        self.log.close()


class Stage:
    """The network (none with pairs=0) and the servers of one bench. The end of a data pair that stays here is an appliance's, or, where
    `kernel` names the pair (None: none), has an address of the kernel's."""

    def __init__(self, pairs=3, kernel=1, needs=()):
        self.pairs, self.kernel, self.needs = pairs, kernel, needs
        self.servers = []
        self.work = self.net = self.lock = None

    def __enter__(self):
        end_on_signals()
        if os.geteuid():
            raise Failure("network namespaces need root; run: sudo make bench")
        for tool, package in (("redis-server", "redis-server"), ("ip", "iproute2"), ("taskset", "util-linux"),
                              *self.needs):
            if not shutil.which(tool):
                raise Failure(f"{tool} is missing (Debian package {package}); run: scripts/install-packages bench")
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise Failure("two cores are needed, one for the server and one for the client; this process may use one")
        self.server_core, self.client_core = cores[:2]
        # Two benches at once would measure each other, and take down each other's network.
        self.lock = open(LOCK, "w", encoding="ascii")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another bench is running on this machine (it holds {LOCK}); wait for its end") from None
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="star-bench-"))
        try:
            if self.pairs:
                self.make_network()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.stop()
        run(ROOT / "scripts/testnet", "down", NETWORK)
        shutil.rmtree(self.work, ignore_errors=True)
        self.lock.close()

    def make_network(self):
        """Veth pairs alike: one, whose end here gets an address, for kernel servers, the others for appliances."""
        text = run(ROOT / "scripts/testnet", "up", NETWORK, "--index", "auto", "--data", self.pairs)
        net = self.net = dict(line.split("=", 1) for line in text.split())
        # Every kernel socket in the comparison uses the same congestion control, whatever the machine's default.
        if self.kernel is not None:
            here, address = net[f"DATA{self.kernel}_INTERFACE"], net[f"DATA{self.kernel}_APPLIANCE"]
            run("ip", "address", "add", f"{address}/24", "dev", here)
            run("sysctl", "-q", "-w", f"net.ipv4.conf.{here}.arp_ignore=1")
            self.use_cubic([], here, address)
        for pair in range(self.pairs):
            self.use_cubic(["ip", "netns", "exec", net["NETNS"]], f"data{pair}", net[f"DATA{pair}_NAMESPACE"])

    @staticmethod
    def use_cubic(prefix, interface, address):
        network = address.rsplit(".", 1)[0] + ".0/24"
        run(*prefix, "ip", "route", "replace", network, "dev", interface, "src", address, "congctl", "cubic")

    def start(self, name, protocol, command, address, ready=None):
        """A server, asleep; ready: what says that it is up, where a connection to its address does not."""
        # A bench that is killed for good takes its servers along.
        server = Server(name, protocol, ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", self.server_core, *command], address,
                        self.work / f"{name}.log")
        self.servers.append(server)
        server.wait_until(ready or server.listens)
        server.sleep()
        return server

    def end(self, server):
        self.servers.remove(server)
        server.stop()

    def start_star(self, polling, device="net_af_packet", pair=0, changes="", port="", name=None, parameter_mib=64, nodes=(),
                   sockets="io_uring", shift=0):
        """The appliance on one of its two devices, or, where device is "kernel", on the kernel's sockets of the pair whose end here is the
        kernel's; its name in the results is star, star-xdp on net_af_xdp, star-kernel. changes and port: further lines of its
        configuration, and of its port's. nodes: the pairs of its cluster's, in task order. sockets: how the
        kernel's are used. shift: its ports are as much higher, for a second one at the same addresses."""
        net, name = self.net, name or {"net_af_xdp": "star-xdp", "kernel": "star-kernel"}.get(device, "star")
        nodes = nodes or (pair,)
        controls = {each: f"{net['CONTROL_HOST']}:{STAR_CONTROL_PORT + shift + each}" for each in nodes}
        endpoints = ", ".join(f'{{ control = "{controls[each]}"; data = "{net[f"DATA{each}_APPLIANCE"]}:{STAR_PORT + shift}"; }}'
                              for each in nodes)
        listed, control = ", ".join(f'"{each}"' for each in controls.values()), controls[pair]
        data, interface = net[f"DATA{pair}_APPLIANCE"], net[f"DATA{pair}_INTERFACE"]
        below = f'network = {{ stack = "kernel"; sockets = "{sockets}"; }};' if device == "kernel" else \
            f'ports = ( {{ device = "{device}"; interface = "{interface}"; address = "{data}/{net["PREFIX"]}"; {port} }} );'
        pages = "none" if device == "kernel" else "preferred"
        config = self.work / f"{name}.conf"
        config.write_text(f"""# made by bench/harness.py
node = {{ job_name = "ps"; task_index = {nodes.index(pair)}; }};
cluster = {{ ps = [ {listed} ]; }};
endpoint_map = ( {endpoints} );
{below}
cores = {{ number = 1; polling = {str(polling).lower()}; spin_us = 0; pin = true; list = [ {self.server_core} ]; }};
memory = {{ hugepages = "{pages}"; parameter_mib = {parameter_mib}; }};
control = {{ socket = "{self.work}/{name}.sock"; }};
{changes}
""", encoding="utf-8")
        return self.start(name, "star", [BUILD / "app/starserver/starserver", "-c", config], control)

    def start_redis(self, address=None):
        address = address or self.net["DATA1_APPLIANCE"]
        return self.start("redis", "redis", ["redis-server", "--save", "", "--appendonly", "no", "--bind", address, "--port",
                                    REDIS_PORT, "--protected-mode", "no", "--daemonize", "no", "--dir", self.work],
                          f"{address}:{REDIS_PORT}")

    def start_grpc(self, name, port, threads=1):
        """grpc-map, at the kernel's address."""
        address = f"{self.net[f'DATA{self.kernel}_APPLIANCE']}:{port}"
        return self.start(name, "grpc", [BUILD / "bench/grpc-map", address, threads], address)

    def start_echo(self):
        address = self.net["DATA1_APPLIANCE"]
        return self.start("echo", "echo", [BUILD / "bench/epoll-echo", address, ECHO_PORT, REQUEST_BYTES, REPLY_BYTES],
                          f"{address}:{ECHO_PORT}")

    def start_bulk(self):
        address = self.net[f"DATA{self.kernel}_APPLIANCE"]
        return self.start("kernel", "bulk", [BUILD / "bench/epoll-bulk", address, BULK_PORT], f"{address}:{BULK_PORT}")

    def on_client_core(self, *command):
        return ["taskset", "-c", str(self.client_core), *map(str, command)]

    def inside(self, *command):
        """A command in the namespace, on the client's core."""
        return ["ip", "netns", "exec", self.net["NETNS"], *self.on_client_core(*command)]

    def offload(self, pair):
        """Gives the kernels at both ends of a pair the offloads that they have by default: for kernel sockets only, since no
        appliance's port takes such frames."""
        for prefix, interface in (([], self.net[f"DATA{pair}_INTERFACE"]), (["ip", "netns", "exec", self.net["NETNS"]], f"data{pair}")):
            run(*prefix, "ethtool", "-K", interface, "tx", "on", "tso", "on", "gso", "on", "gro", "on")

    def part_kernels(self, parted):
        """Whether the namespace's kernel takes what servers send on the client's core, as that of a machine of its own would, and not on
        the sender's, which is where a veth pair has it done (receive packet steering)."""
        mask = f"{1 << self.client_core:x}" if parted else "0"
        for pair in range(self.pairs):
            run("ip", "netns", "exec", self.net["NETNS"], "sh", "-c", f"echo {mask} > /sys/class/net/data{pair}/queues/rx-0/rps_cpus")

    @contextlib.contextmanager
    def loss(self, of_thousand):
        """Frames that the namespace gets are lost at random, on all data pairs alike."""
        interfaces = ", ".join(f"data{pair}" for pair in range(self.pairs))
        run("ip", "netns", "exec", self.net["NETNS"], "nft", "-f", "-", input=f"""
table netdev loss {{ chain in {{ type filter hook ingress devices = {{ {interfaces} }} priority 0;
numgen random mod 1000 < {of_thousand} counter drop; }}; }}""")
        try:
            yield
        finally:
            run("ip", "netns", "exec", self.net["NETNS"], "nft", "delete", "table", "netdev", "loss")

    def pull(self, server, seconds, *options):
        """One run of the client, as its JSON object."""
        where = "--control" if server.protocol == "star" else "--address"
        with server.awake():
            text = run("ip", "netns", "exec", self.net["NETNS"], "taskset", "-c", self.client_core,
                       BUILD / "app/starbench/starbench", "pull", "--json", "--protocol", server.protocol, where,
                       server.address, "--keys", KEYS, "--dim", DIM, "--seconds", seconds, "--server-pid",
                       server.process.pid, "--server-core", self.server_core, *options, timeout=seconds + 60)
        return json.loads(text)

    def rounds(self, count, seconds, *options):
        """All servers in turn, count times; the order turns round each time, so that none always comes first."""
        results = {server.name: [] for server in self.servers}
        for number in range(count):
            for server in self.servers if number % 2 == 0 else reversed(self.servers):
                result = self.pull(server, seconds, *options)
                results[server.name].append(result)
                print(f"round {number + 1}/{count}  {server.name:<8}  {result['rate']:9.0f} requests/s  median "
                      f"{result['p50_us']:7.2f} us  99 % {result['p99_us']:8.2f} us  CPU a request: server "
                      f"{result['server_cpu_us']:6.2f} us, client {result['client_cpu_us']:6.2f} us", flush=True)
        return results


def in_turn(count, sides, say):
    """Sides (functions by name) in turn, count times, the order turned round each time; a list of results each."""
    results = {name: [] for name in sides}
    for number in range(count):
        for name in sides if number % 2 == 0 else reversed(sides):
            results[name].append(sides[name]())
            print(f"round {number + 1}/{count}  {name:<16}  {say(results[name][-1])}", flush=True)
    return results


def memory_bytes(pid):
    """What a process has of memory, hugepages included (proc(5), smaps_rollup)."""
    kib = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, *rest = line.split()
        if name in ("Rss:", "Private_Hugetlb:", "Shared_Hugetlb:"):
            kib += int(rest[0])
    return kib << 10


def connect(address):
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(START_S)
        connection.connect(address)
        return connection
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), START_S)


def call(address, method, **params):
    """The result of a method of an appliance's control plane; address: host:port, or the path of its socket."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}
    with connect(address) as connection, connection.makefile() as lines:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(lines.readline() or "{}")
    if "result" not in answer:
        raise Failure(f"{address} answered {method} with {answer}")
    return answer["result"]


FIGURES = ("rate", "p50_us", "p90_us", "p99_us", "p999_us", "server_cpu_us", "server_core_us", "client_cpu_us")


def summary(results, names=FIGURES):
    """Median, spread and rounds of each figure of one server."""
    figures = {}
    for name in names:
        values = [result[name] for result in results]
        figures[name] = {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": values}
    return figures


def ratio(sides, figure, peer, mine="star"):
    """The median over the rounds of our figure by its peer's in the same round: a machine whose speed drifts, or
    that others use for a while, shifts both sides of a round, but hardly their ratio."""
    pairs = zip(sides[mine][figure]["rounds"], sides[peer][figure]["rounds"])
    return statistics.median(ours / max(theirs, 1e-9) for ours, theirs in pairs)


def median(sides, server, figure):
    return sides[server][figure]["median"]


def redis_version():
    return "redis-server " + run("redis-server", "--version").split("v=", 1)[1].split()[0]


SETUP = {
    "ratios": "medians over the rounds of the ratio within a round",
    "offload": "tx, tso, gso and gro off at both ends of both veth pairs",
    "congestion_control": "cubic for every kernel socket",
    "verified": "star: status, sequence, length, checksum, first 8 bytes of the value; redis: status, length, "
                "first 8 bytes of the value; echo: length, sequence",
    "server_cpu": "user and system time of the server's whole process; softirqs that run within its system calls, "
                  "the client's receive path among them, count as its own for all servers",
}


def main(bench):
    """Runs a bench's function and turns its result into the last line."""
    try:
        before = machine()
        if before["load_before"] > BUSY_LOAD:
            print(f"the machine is busy (load {before['load_before']:.1f}): these figures will be noisy")
        result = bench()
        result.update(setup=SETUP | result.get("setup", {}), commit=commit(), machine=before,
                      time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        print(json.dumps(result), flush=True)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {failure}")
