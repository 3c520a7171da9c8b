# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C, nodes that die or hang, fork, spawn, threads, garbage collection, the end of the interpreter."""
import asyncio
import builtins
import errno
import gc
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy
import starserver
from support import SANITIZED, SLOW, WithCluster, ctrl_c_after, resident, run, stop, stopped

ONES = numpy.ones((1, 4), "float32")
SOON_S = 0.1  # of processor time and waiting; the machine may be loaded, so the best of some tries counts
TRIES = 8


class Interrupts(WithCluster):
    def interrupted(self, call):
        """Ctrl-C ends it within SOON_S, by KeyboardInterrupt."""
        best = 99.0
        for _ in range(TRIES):
            with ctrl_c_after(0.15) as moments:
                with self.assertRaises(KeyboardInterrupt):
                    call()
                best = min(best, time.monotonic() - moments[0])
            if best < SOON_S:
                return
        self.fail(f"Ctrl-C was answered after {best:.3f} s at best")

    def test_ctrl_c_in_every_call_that_waits(self):
        table = self.table()
        table.pull([1, 2, 3])
        other = self.table("another")  # what is begun goes on
        variable = self.cluster.variable("dense", (64, 4), optimizer="sgd", rate=1.0)
        gone = self.cluster.variable("gone", (4,))

        async def awaits():
            await table.pull_async(keys)
        keys = numpy.arange(64)
        out = numpy.zeros((64, 4), "float32")
        with stopped(self.local.processes):
            for call in (lambda: table.pull(keys, out), lambda: table.push(keys, out), lambda: table.assign(keys, out),
                         lambda: table.delete(keys), lambda: table.push_pull(keys, out),
                         lambda: self.cluster.execute([table.pull_op(keys)]), lambda: table.pull_async(keys).result(),
                         lambda: self.cluster.table("later", 4), lambda: self.cluster.lookup("later"),
                         lambda: table.commit(1, open=True), lambda: table.pull_view(keys), other.empty, other.drop,
                         lambda: self.cluster.variable("later", 4), lambda: self.cluster.definition("dense"), lambda: variable.pull(out=out),
                         lambda: variable.push(out), lambda: variable.push_pull(out), lambda: variable.assign(out),
                         lambda: variable.pull([1]), lambda: variable.pull_view(), lambda: variable.commit(1, open=True), gone.empty, gone.drop,
                         lambda: self.cluster.execute_async([table.push_op(keys, out)]).result(), lambda: asyncio.run(awaits()),
                         lambda: self.cluster.checkpoint(), lambda: self.cluster.checkpoint_async().result(),
                         lambda: self.cluster.status(), lambda: self.local.connect()):
                self.interrupted(call)
        # Nothing holds the memory, and the handle is as good as before.
        out.resize((65, 4), refcheck=False)
        table.assign([7], ONES)
        self.assertEqual(table.pull([7]).tolist(), [[1] * 4])

    def test_ctrl_c_while_local_nodes_begin(self):
        with tempfile.TemporaryDirectory() as folder:
            server, pids = f"{folder}/server", f"{folder}/pids"
            with open(server, "w") as file:
                file.write(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 600\n")
            os.chmod(server, 0o755)
            self.interrupted(lambda: starserver.LocalCluster(nodes=2, server=server))
            with open(pids) as file:
                self.assertEqual([pid for pid in file.read().split() if running(pid)], [])
            # In the moment in which a process is started.
            found, made = subprocess.Popen, queue.SimpleQueue()

            def slowly(*args, **options):
                time.sleep(0.5)
                process = found(*args, **options)
                made.put(process)
                return process
            with mock.patch("starserver._local.subprocess.Popen", slowly), ctrl_c_after(0.15), self.assertRaises(KeyboardInterrupt):
                starserver.LocalCluster(server=server)
            self.assertEqual(made.get(timeout=60 * SLOW).wait(10 * SLOW), -signal.SIGKILL)

            # When the starter's answer has just been taken.
            class Interrupted(queue.SimpleQueue):
                def get(self):
                    super().get(timeout=10)
                    raise KeyboardInterrupt
            with mock.patch("starserver._local.queue.SimpleQueue", Interrupted), self.assertRaises(KeyboardInterrupt):
                starserver.LocalCluster(server=server)
            with open(pids) as file:
                self.assertEqual([pid for pid in file.read().split() if running(pid)], [])

    def test_ctrl_c_while_local_nodes_end(self):
        with starserver.LocalCluster(nodes=2) as local:
            with stopped(local.processes):
                self.interrupted(local.stop)
            local.stop()
            self.assertEqual([process.poll() for process in local.processes], [0, 0])

    def test_a_signal_handler_that_raises_nothing_ends_no_call(self):
        table = self.table()
        seen = []

        def handler(number, frame):
            seen.append(number)
            with self.assertRaisesRegex(starserver.StarError, "signal handler"):
                table.pull([1])
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with stopped(self.local.processes):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with self.assertRaises(starserver.TimeoutError):
                    table.pull([1], timeout=0.5)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(seen, [signal.SIGALRM])
        self.assertEqual(table.pull([1]).shape, (1, 4))

    def test_other_threads_run_while_one_waits(self):
        table = self.table()
        counted = 0
        with stopped(self.local.processes):
            future = threading.Thread(target=lambda: self.assertRaises(starserver.TimeoutError, table.pull, [1], timeout=0.5))
            future.start()
            while future.is_alive():
                counted += 1
                time.sleep(0.001)
        self.assertGreater(counted, 20)

    def test_timeout_of_an_asynchronous_call(self):
        table = self.table()
        with stopped(self.local.processes):
            with self.assertRaises(builtins.TimeoutError) as raised:
                table.push_async([1], ONES, timeout=0.2).result(30)
        self.assertIsInstance(raised.exception, starserver.TimeoutError)
        self.assertEqual(raised.exception.errno, errno.ETIMEDOUT)
        self.assertIn("127.0.0.1", str(raised.exception))


class Deaths(unittest.TestCase):
    def test_a_node_that_dies_in_the_middle(self):
        with starserver.LocalCluster(nodes=2) as local, local.connect() as cluster:
            table = cluster.table("t", 4)
            keys = numpy.arange(100)
            table.pull(keys)
            stop([local.processes[1]])
            future = table.push_async(keys, numpy.ones((100, 4), "float32"), timeout=4)
            local.processes[1].kill()
            with self.assertRaises(starserver.StarError) as raised:
                future.result(30 * SLOW)
            self.assertIn("127.0.0.1", str(raised.exception))
            with self.assertRaises(starserver.StarError):
                table.pull(keys, timeout=1)
            alive = [key for key in range(50) if self.served(table, key)]
            self.assertTrue(0 < len(alive) < 50, alive)
            with self.assertRaises(starserver.StarError):
                cluster.status(timeout=1)

    @staticmethod
    def served(table, key):
        try:
            table.pull([key], timeout=0.1 * SLOW)
            return True
        except starserver.StarError:
            return False

    def test_a_port_that_was_taken_meanwhile_is_left_to_its_owner(self):
        from starserver import _local
        found = _local._free_ports
        for nodes, offset in ((1, 0), (1, 1), (2, 0), (2, 1)):  # of the last node the control address, then the data address
            taken = socket.socket()
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            answers = [taken.getsockname()[1] - offset]
            _local._free_ports = lambda nodes, count: found(nodes, count)[:nodes - len(answers)] + [answers.pop() for _ in answers[:]]
            try:
                with taken, starserver.LocalCluster(nodes) as local, local.connect() as cluster:
                    self.assertEqual(cluster.reactors, nodes)
                    self.assertEqual(answers, [])
            finally:
                _local._free_ports = found

    def test_nodes_end_with_the_interpreter(self):
        code = """if 1:
            import os, signal, starserver, threading
            made = []
            maker = threading.Thread(target=lambda: made.append(starserver.LocalCluster(nodes=2)))
            maker.start(); maker.join()  # a thread that ends must not take them with it
            import time; time.sleep(0.3)
            made[0].connect().table("t", 4).pull([1])
            print(*[process.pid for process in made[0].processes], flush=True)
            {end}
        """
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)", "raise SystemExit(0)", "made[0].stop()"):
            done = subprocess.run([sys.executable, "-c", code.format(end=end)], capture_output=True, text=True, timeout=60 * SLOW)
            pids = [int(pid) for pid in done.stdout.split()]
            self.assertEqual(len(pids), 2, done.stderr)
            limit = time.monotonic() + 10 * SLOW
            while any(running(pid) for pid in pids):
                self.assertLess(time.monotonic(), limit, f"after {end} nodes still run")
                time.sleep(0.05)


def in_spawned_child(address, queue):
    with starserver.connect(address) as cluster:
        cluster.lookup("spawned").push([1], ONES)
        queue.put("done")


class Processes(WithCluster):
    nodes = 1

    def test_a_forked_child_gets_an_error_and_may_connect(self):
        table = self.table("forked")
        table.pull_async([1]).result(10)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = "nothing"
            try:
                for call in (lambda: table.pull([1]), lambda: table.pull_async([1]), lambda: self.cluster.lookup("forked"),
                             lambda: self.cluster.reactors, lambda: self.cluster.checkpoint(), lambda: table.pull_view([1]),
                             lambda: table.empty(), lambda: table.drop(), lambda: table.commit(1)):
                    try:
                        call()
                        said = "no error"
                        break
                    except starserver.StarError as error:
                        said = str(error)
                self.cluster.close()
                self.local.stop()
                with starserver.connect(self.local.address) as cluster:
                    cluster.lookup("forked").push([1], ONES)
                    cluster.lookup("forked").push_async([1], ONES).result(10)
            except BaseException as error:
                said = repr(error)
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        with open(read) as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
        self.assertIn("starserver.connect() in the child", said)
        self.assertEqual(table.pull([1]).tolist(), [[-2] * 4])
        self.assertIsNone(self.local.processes[0].poll())

    def test_a_forked_child_that_ends_as_usual(self):
        run("""if 1:
            import os, starserver, numpy
            with starserver.LocalCluster() as local, local.connect() as cluster:
                table = cluster.table("t", 4)
                table.pull_async([1]).result(10)
                pid = os.fork()
                if pid == 0:
                    raise SystemExit(0)  # with atexit, finalizers and all
                assert os.waitpid(pid, 0)[1] == 0
                table.pull([1])
        """)

    def test_spawn(self):
        self.table("spawned")
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        child = context.Process(target=in_spawned_child, args=(self.local.address, queue))
        child.start()
        self.assertEqual(queue.get(timeout=60 * SLOW), "done")
        child.join(60)
        self.assertEqual(self.cluster.lookup("spawned").pull([1]).tolist(), [[-1] * 4])

    def test_a_collected_table_with_pushes_in_flight(self):
        cluster = self.local.connect()
        futures = []
        for number in range(20):
            table = cluster.table("collected", 4, rate=1.0)
            futures.append(table.push_async(numpy.array([1]), ONES.copy()))
            del table
        gc.collect()
        for future in futures:
            future.result(30)
        self.assertEqual(cluster.lookup("collected").pull([1]).tolist(), [[-20] * 4])
        cluster.close()

    def test_a_collected_cluster_with_pushes_in_flight(self):
        cluster = self.local.connect()
        table = cluster.table("dropped", 4, rate=1.0)
        table.pull([1])
        with stopped(self.local.processes):
            futures = [table.push_async(numpy.array([1]), ONES.copy()) for _ in range(20)]
            del table, cluster
            gc.collect()
            for future in futures:
                with self.assertRaises(starserver.StarError) as raised:
                    future.result(30)
                self.assertEqual(raised.exception.errno, errno.ECANCELED)

    def test_close_ends_what_is_in_flight(self):
        cluster = self.local.connect()
        table = cluster.table("closed", 4)
        table.pull([1])
        with stopped(self.local.processes):
            future = table.push_async([1], ONES)
            cluster.close()
            with self.assertRaises(starserver.StarError) as raised:
                future.result(30)
        self.assertEqual(raised.exception.errno, errno.ECANCELED)
        for call in (lambda: table.pull([1]), lambda: table.pull_async([1]), lambda: cluster.lookup("closed")):
            with self.assertRaisesRegex(starserver.StarError, "closed"):
                call()
        cluster.close()
        self.assertIn("closed", repr(cluster))

    def test_close_while_another_thread_waits(self):
        cluster = self.local.connect()
        table = cluster.table("waited", 4)
        outcomes = []

        def wait():
            try:
                table.pull([1], timeout=1)
            except starserver.StarError as error:
                outcomes.append(error.errno)
        with stopped(self.local.processes):
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.2)
            cluster.close()
            thread.join(30)
        self.assertIn(outcomes, ([errno.ETIMEDOUT], [errno.ECANCELED]))

    def test_close_ends_the_calls_of_other_threads(self):
        """They are not waited for until their time is over, and neither is close()."""
        cluster = self.local.connect()
        table = cluster.table("ended", 4)
        table.pull_async([1]).result(30)
        outcomes, patience = queue.SimpleQueue(), 1000 * SLOW
        with stopped(self.local.processes):
            for call in (table.pull, table.pull_view):
                def wait(call=call):
                    try:
                        call([1], timeout=patience)
                    except starserver.StarError as error:
                        outcomes.put((error.errno, str(error)))
                threading.Thread(target=wait, daemon=True).start()
            future = table.pull_async([1], timeout=patience)
            time.sleep(0.2)
            cluster.close()
            for _ in range(2):
                code, words = outcomes.get(timeout=60 * SLOW)
                self.assertEqual(code, errno.ECANCELED)
                self.assertIn("starserver.connect()", words)
            with self.assertRaises(starserver.StarError) as raised:
                future.result(60 * SLOW)
        self.assertEqual(raised.exception.errno, errno.ECANCELED)

    def test_a_child_of_fork_waits_for_no_thread_that_it_does_not_have(self):
        """Whatever locks other threads held at that moment."""
        run("""if 1:
            import os, signal, starserver, starserver._local as of_local
            with starserver.LocalCluster() as local, local.connect() as cluster:
                table = cluster.table("t", 4)
                with cluster._lock, of_local._starter_lock:
                    pid = os.fork()
                    if pid == 0:
                        signal.alarm(60)  # which kills it
                        try:
                            table.pull_async([1])
                        except starserver.StarError:
                            cluster.close()
                            with starserver.LocalCluster() as mine, mine.connect() as other:
                                other.table("t", 4).pull([1])
                            os._exit(0)
                        os._exit(1)
                status = os.waitpid(pid, 0)[1]
                assert status == 0, status
        """)

    def test_another_interpreter_is_refused(self):
        for first in ("import starserver", "pass"):
            said = run(f"""if 1:
                import _xxsubinterpreters as interpreters
                {first}
                other = interpreters.create()
                try:
                    interpreters.run_string(other, "import sys; sys.modules['numpy'] = None; import starserver")
                    print("imported")
                except interpreters.RunFailedError as error:
                    print(error)
                interpreters.destroy(other)
                import starserver
                with starserver.LocalCluster() as local, local.connect() as cluster:
                    table = cluster.table("t", 4)
                    table.pull_view([1])
                    try:
                        cluster.lookup("none")
                    except starserver.NotFound as error:
                        print(error)
            """)
            self.assertIn("ImportError", said)
            self.assertIn("main interpreter", said)
            self.assertIn('no table or variable "none"', said)

    def test_the_module_imported_again(self):
        """As notebooks do."""
        run("""if 1:
            import sys, starserver
            with starserver.LocalCluster() as local, local.connect() as cluster:
                table = cluster.table("t", 4)
                before = starserver
                for name in [name for name in sys.modules if name.startswith("starserver")]:
                    del sys.modules[name]
                import starserver
                assert starserver is not before
                table.pull_async([1]).result(30)
                with starserver.connect(local.address) as other:
                    other.lookup("t").pull([1])
                table.pull([1])
        """)

    def test_the_interpreter_ends_with_calls_in_flight(self):
        run("""if 1:
            import os, signal, starserver, numpy
            local = starserver.LocalCluster()
            cluster = local.connect()
            table = cluster.table("t", 4)
            table.pull([1])
            os.kill(local.processes[0].pid, signal.SIGSTOP)
            futures = [table.push_async([1], numpy.ones((1, 4), "f")) for _ in range(100)]
            os.kill(local.processes[0].pid, signal.SIGCONT)
        """)

    def test_without_numpy(self):
        said = run("""if 1:
            import sys
            sys.modules["numpy"] = None
            import starserver
            with starserver.LocalCluster() as local, local.connect() as cluster:
                table = cluster.table("t", 2, optimizer="sgd", rate=1.0)
                table.push([1, 2], [[1, 2], [3, 4]])
                rows = table.pull([2, 1])
                print(type(rows).__name__, rows.shape, rows.tolist(), table.pull([]).nbytes)
        """)
        self.assertEqual(said.strip(), "memoryview (2, 2) [[-3.0, -4.0], [-1.0, -2.0]] 0")

    def test_references_and_memory_do_not_grow(self):
        table = self.table("leaks", dim=16)
        keys, gradients = numpy.arange(100), numpy.ones((100, 16), "float32")

        def work(count):
            for _ in range(count):
                table.push(keys, gradients)
                table.pull_async(keys).result(10)
                try:
                    table.push(keys, gradients[:50])
                except ValueError:
                    pass
        work(100)
        before = sys.getrefcount(keys), sys.getrefcount(gradients), resident()
        work(1000)
        gc.collect()
        self.assertEqual((sys.getrefcount(keys), sys.getrefcount(gradients)), before[:2])
        if not SANITIZED:
            self.assertLess(resident() - before[2], 4 << 20)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False



if __name__ == "__main__":
    unittest.main()
