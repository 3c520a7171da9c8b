# SPDX-License-Identifier: BSD-3-Clause
"""Nodes on this machine, for notebooks and tests."""
import contextlib
import errno
import fcntl
import glob
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import warnings
import weakref

from . import _control
from ._arrays import seconds
from ._cluster import connect
from ._errors import StarError, TimeoutError

TRIES = 5  # another program may take a port after it was found free, before the node listens
NO_CHECKPOINT = "the node ends without a last checkpoint:"  # in its log
STOP_S = 130  # for its last checkpoint and its end: CONTROL_STOP_S in lib/control/control.h
_starter = None
_starter_lock = threading.Lock()


class _Starter:
    """Starts processes from a thread that lives as long as this process: PR_SET_PDEATHSIG kills them when the *thread* that
    started them ends, for whatever reason."""

    def __init__(self):
        self.pid = os.getpid()
        self.wanted = queue.SimpleQueue()
        threading.Thread(target=self._run, name="starserver-nodes", daemon=True).start()

    def _run(self):
        while True:
            function, outcome, ended = self.wanted.get()
            try:
                function()
                outcome.append(None)
            except BaseException as error:
                outcome.append(error)
            ended.put(None)
            function = outcome = ended = None

    def start(self, function):
        outcome, ended = [], queue.SimpleQueue()
        self.wanted.put((function, outcome, ended))
        try:
            ended.get()
        except BaseException:
            # Ctrl-C may come when get() already has its item: the caller must know what was started all the same.
            if not outcome:
                ended.get()
            raise
        if outcome[0]:
            raise outcome[0]


def _renew_lock():
    """In a child of fork: a thread that exists only in the parent may have held it."""
    global _starter_lock
    _starter_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _start(function):
    global _starter
    with _starter_lock:
        if _starter is None or _starter.pid != os.getpid():
            _starter = _Starter()
    _starter.start(function)


def _find_server(server):
    tree = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "app", "starserver", "starserver")
    for name in (server, None if server else os.environ.get("STARSERVER"), None if server else "starserver",
                 None if server else tree):
        path = shutil.which(name) if name else None
        if path:
            return os.path.abspath(path)
    raise StarError(errno.ENOENT, f"there is no program {server or 'starserver'}: install StarServer, or say where it is with "
                                  "LocalCluster(server=...) or the environment's STARSERVER")


def _free_ports(nodes, count):
    """For each node the first of this many consecutive free ports. All are held until the last is found: otherwise two nodes
    could get the same ones."""
    with contextlib.ExitStack() as all_held:
        found = []
        for _ in range(100 * nodes):
            with contextlib.ExitStack() as held:
                try:
                    first = held.enter_context(socket.socket())
                    first.bind(("127.0.0.1", 0))
                    base = first.getsockname()[1]
                    for port in range(base + 1, base + count):
                        held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                except (OSError, OverflowError):
                    continue
                all_held.enter_context(held.pop_all())
                found.append(base)
            if len(found) == nodes:
                return found
    raise StarError(errno.EADDRINUSE, f"{nodes} times {count} consecutive free ports were not found on 127.0.0.1")


def _check_free(folder):
    """Checks that no other cluster writes its checkpoints there. Nodes show that by a lock on the directory. Without this
    check, only the first save would fail. Nodes that are just ending have a second."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StarError(error.errno, f"checkpoints: {folder} cannot be read: {os.strerror(error.errno)}") from None
    try:
        end = time.monotonic() + 1
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return  # closing the file releases the lock
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StarError(errno.EBUSY, f"checkpoints: another cluster writes its checkpoints to {folder}{_holder(fd)}: "
                                                 "end that one before, or give this one another directory") from None
                time.sleep(0.05)
            except OSError:
                return  # a file system without such locks: it cannot be known
    finally:
        os.close(fd)


def _holder(fd):
    """Which process of this machine has locked it, as words; none, if that cannot be known."""
    here = os.fstat(fd)
    where = f"{os.major(here.st_dev):02x}:{os.minor(here.st_dev):02x}:{here.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            found = [line.split()[4] for line in file if where in line.split() and "FLOCK" in line and "->" not in line]
    except OSError:
        found = []
    return f" (process {found[0]})" if found and found[0].isdigit() and found[0] != "0" else ""


def _end(processes, folder, pid, patience):
    """Ends the processes, whatever state they are in, within this many seconds. Does nothing in a child of fork."""
    if os.getpid() != pid:
        return
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + patience
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    reason = _no_last_checkpoint(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if reason:
        warnings.warn(f"the nodes have ended without a last checkpoint: {reason}", RuntimeWarning, stacklevel=2)


def _no_last_checkpoint(folder):
    """The reason in the nodes' logs why there is no last checkpoint; None: it was written, or not asked for."""
    for name in glob.glob(os.path.join(glob.escape(folder), "node-*.log")):
        with open(name, encoding="utf-8", errors="replace") as file:
            for line in file:
                if NO_CHECKPOINT in line:
                    return line.partition(NO_CHECKPOINT)[2].strip()
    return None


class LocalCluster:
    """Nodes on 127.0.0.1 over the kernel's TCP, as an ordinary user, without hugepages: for notebooks and tests.

        with starserver.LocalCluster(nodes=2) as local, local.connect() as cluster:
            table = cluster.table("words", dim=16)

    nodes: how many. reactors: of each node. memory_mib: for the parameters of each node, taken from the machine as rows are
    created. checkpoints: a folder, which is created if it does not exist: the nodes restore its newest checkpoint, and write a
    last one when they end with stop() or the object. While another cluster writes there, this raises StarError with errno
    EBUSY. Without a folder the nodes' parameters are lost when they end. server: the program, else the environment's
    STARSERVER, or starserver in PATH. timeout:
    seconds until they must be ready. They end with stop(), with the object, and when this process dies, SIGKILL included.
    """

    def __init__(self, nodes=1, *, reactors=1, memory_mib=1024, checkpoints=None, server=None, timeout=30):
        for what, value, most in (("nodes", nodes, 64), ("reactors", reactors, 64), ("memory_mib", memory_mib, 1 << 20)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"{what} is a whole number from 1 to {most}, not {value!r}")
        wait_s = seconds(timeout)
        if checkpoints is not None:
            if not os.fspath(checkpoints):
                raise ValueError("checkpoints is a folder, or None for none; it is empty")
            checkpoints = os.path.abspath(os.fsdecode(checkpoints))
            os.makedirs(checkpoints, mode=0o750, exist_ok=True)
        self.nodes, self.reactors = nodes, reactors
        self.processes = []
        if checkpoints is not None:
            _check_free(checkpoints)
        self._memory_mib, self._checkpoints, self._server = memory_mib, checkpoints, _find_server(server)
        if shutil.which("setpriv") is None:
            raise StarError(errno.ENOENT, "the program setpriv is missing, which ends nodes when this process dies: install util-linux")
        end = time.monotonic() + wait_s
        for attempt in range(TRIES):
            self._folder = tempfile.mkdtemp(prefix="starserver-")
            self.processes = []
            self._finalizer = self._end_with_this()
            try:
                self._begin()
                self._wait_ready(end)
                return
            except BaseException as error:
                taken = any(words in str(error) for words in ("in use", "another process listens"))
                for process in self.processes:
                    process.kill()  # nobody has had an address to push to
                self.stop()
                if not taken or attempt == TRIES - 1 or not isinstance(error, StarError):
                    raise

    def _end_with_this(self):
        return weakref.finalize(self, _end, self.processes, self._folder, os.getpid(), STOP_S if self._checkpoints else 10)

    def _begin(self):
        self._controls = []
        data = []
        for base in _free_ports(self.nodes, 1 + self.reactors):
            self._controls.append(f"127.0.0.1:{base}")
            data.append(f"127.0.0.1:{base + 1}")
        self.address = "tcp:" + ",".join(self._controls)
        for task in range(self.nodes):
            self._start_node(task, self._write_file(task, data))

    def _write_file(self, task, data):
        """The node's configuration file."""
        path = os.path.join(self._folder, f"node-{task}.conf")
        entries = ", ".join(f'{{ control = "{control}"; data = "{own}"; }}' for control, own in zip(self._controls, data))
        nodes = ", ".join(f'"{control}"' for control in self._controls)
        folder = self._checkpoints.replace("\\", "\\\\").replace('"', '\\"') if self._checkpoints else ""
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'node = {{ job_name = "ps"; task_index = {task}; }};\n'
                       f"cluster = {{ ps = [ {nodes} ]; }};\n"
                       f"endpoint_map = ( {entries} );\n"
                       'network = { stack = "kernel"; };\n'
                       f"cores = {{ number = {self.reactors}; polling = false; pin = false; }};\n"
                       f'memory = {{ hugepages = "none"; parameter_mib = {self._memory_mib}; }};\n'
                       f'control = {{ socket = "{self._folder}/node-{task}.sock"; }};\n'
                       + (f'checkpoint = {{ directory = "{folder}"; on_stop = true; }};\n' if folder else ""))
        return path

    def _start_node(self, task, path):
        governing = ("NETWORK_", "PS_", "WORKER_", "TF_SEASTAR_", "TF_CONFIG")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(governing)}
        argv = ["setpriv", "--pdeathsig", "KILL", "--", self._server, "-c", path]

        def start():
            with open(self._log(task), "wb") as log:
                self.processes.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                                       cwd=self._folder, start_new_session=True))  # Ctrl-C is for the interpreter
        _start(start)

    def _log(self, task):
        return os.path.join(self._folder, f"node-{task}.log")

    def log(self, task=0):
        """What a node has written."""
        with open(self._log(task), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _check_running(self):
        """Reports a node that has ended at once: the others would wait for it."""
        for task, process in enumerate(self.processes):
            if process.poll() is not None:
                raise StarError(errno.ECHILD, f"node {task} has ended with status {process.returncode}:\n{self.log(task)[-2000:]}")

    def _wait_ready(self, end):
        for task in range(self.nodes):
            while True:
                self._check_running()
                try:
                    if task == 0:
                        _control.call(self._controls[task], "layout", 2)
                    _control.call(self._controls[task], "status", 2)
                    break
                except StarError:
                    if time.monotonic() > end:
                        logs = "".join(f"node {one}:\n{self.log(one)[-2000:]}" for one in range(self.nodes))
                        raise TimeoutError(errno.ETIMEDOUT, f"node {task} is not ready; the nodes said:\n{logs}") from None
                    time.sleep(0.02)

    def connect(self, timeout=None):
        """connect() to these nodes: a Cluster."""
        return connect(self.address, timeout)

    def stop(self):
        """Ends the nodes, and waits for that. May be called again, also after Ctrl-C has ended the waiting."""
        try:
            self._finalizer()
        except BaseException:
            self._finalizer = self._end_with_this()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def __repr__(self):
        running = sum(process.poll() is None for process in self.processes)
        return f"<starserver.LocalCluster {self.address}, {running} of {self.nodes} nodes running>"
