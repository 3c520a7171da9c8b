# SPDX-License-Identifier: BSD-3-Clause
"""Tables, variables and clusters: what goes well."""
import array
import asyncio
import errno
import pathlib
import socket
import tempfile
import threading
import unittest

import numpy
import starserver
from support import WithCluster


class Calls(WithCluster):
    def test_rows_are_what_was_pushed(self):
        table = self.table()
        table.push([1, 2, 1], numpy.ones((3, 4), "float32"))
        rows = table.pull([2, 1, 9])
        self.assertEqual(rows.dtype, numpy.float32)
        self.assertEqual(rows.tolist(), [[-1] * 4, [-2] * 4, [0] * 4])

    def test_buffers_of_other_kinds_serve(self):
        table = self.table()
        keys = array.array("q", [5, 6])
        table.push(keys, array.array("f", [1] * 8))
        out = array.array("f", [0] * 8)
        self.assertIs(table.pull(memoryview(keys), out), out)
        self.assertEqual(out.tolist(), [-1] * 8)
        table.push(numpy.array([5, 6], "uint64"), [[1, 1, 1, 1], [0, 0, 0, 0]])
        self.assertEqual(table.pull(range(5, 7)).tolist(), [[-2] * 4, [-1] * 4])

    def test_read_only_input_serves(self):
        table = self.table()
        keys, gradients = numpy.array([3]), numpy.ones((1, 4), "float32")
        keys.flags.writeable = gradients.flags.writeable = False
        table.push(keys, gradients)
        table.push(numpy.array([3]), memoryview(bytes(16)).cast("f"))
        self.assertEqual(table.pull(3).tolist(), [[-1] * 4])

    def test_types_are_converted_by_the_node(self):
        table = self.table(dtype="float16")
        table.assign([1], numpy.full((1, 4), 0.5, "float64"))
        self.assertEqual(table.pull([1]).dtype, numpy.float32)
        self.assertEqual(table.pull([1], dtype="float64").tolist(), [[0.5] * 4])
        table.push([1], numpy.full((1, 4), 0.25, "float16"))
        self.assertEqual(table.pull([1], dtype="float16").tolist(), [[0.25] * 4])
        counts = self.cluster.table("counts", dim=2, dtype="int64")
        counts.assign([1], numpy.array([[1 << 40, -1]]))
        self.assertEqual(counts.pull([1]).tolist(), [[1 << 40, -1]])

    def test_lists_are_converted_to_the_tables_own_type(self):
        doubles = self.table(self.id() + "64", dim=2, dtype="float64")
        doubles.assign([1], [[0.1, 2.0 ** 53 - 1]])
        self.assertEqual(doubles.pull([1]).tolist(), [[0.1, 2.0 ** 53 - 1]])
        doubles.push([2], ((-0.1, -1e-50),))
        self.assertEqual(doubles.pull([2]).tolist(), [[0.1, 1e-50]])
        doubles.assign([3], [1e300, -1e300])
        self.assertEqual(doubles.pull([3]).tolist(), [[1e300, -1e300]])
        self.assertEqual(doubles.push_pull([4], [[-0.1, 0]]).tolist(), [[0.1, 0]])
        out = numpy.empty((1, 2), "float32")
        doubles.push_pull([5], [[-0.5, 0]], out)
        self.assertEqual(out.tolist(), [[0.5, 0]])
        doubles.assign([6], [[0.1, 0]], dtype="float32")
        self.assertEqual(doubles.pull([6]).tolist(), [[float(numpy.float32(0.1)), 0]])
        variable = self.cluster.variable(self.id() + "v", (2,), dtype="float64", optimizer="sgd", rate=1.0)
        variable.assign([0.1, 1e300])
        self.assertEqual(variable.pull().tolist(), [0.1, 1e300])
        variable.push([-0.2, 0])
        self.assertEqual(variable.pull().tolist(), [0.1 + 0.2, 1e300])
        self.assertEqual(variable.push_pull([-0.2, 0]).tolist(), [0.1 + 0.2 + 0.2, 1e300])
        with self.assertRaisesRegex(starserver.StarError, "infinit"):
            self.table(self.id() + "32", dim=2).push([1], [[1e300, 0]])

    def test_lists_of_whole_numbers_are_taken_by_tables_of_integers(self):
        for bits, name in ((8, "int8"), (32, "int32"), (64, "int64")):
            table = self.cluster.table(self.id() + name, dim=2, dtype=name)
            most = 2 ** (bits - 1) - 1
            table.assign([1, 2], [[most, -most - 1], (numpy.int64(1), True)])
            self.assertEqual(table.pull([1, 2]).tolist(), [[most, -most - 1], [1, 1]])
            for wrong in ([[most + 1, 0]], [[0, -most - 2]]):
                with self.assertRaisesRegex(ValueError, name):
                    table.assign([1], wrong)
            for wrong in ([[1.5, 0]], [[1.0, 0]], [["1", 0]], [[None, 0]]):
                with self.assertRaisesRegex(TypeError, "whole numbers"):
                    table.assign([1], wrong)
            self.assertEqual(table.pull([1]).tolist(), [[most, -most - 1]])
        variable = self.cluster.variable(self.id() + "v", (2, 2), dtype="int64")
        variable.assign([[1, 2], [3, 2 ** 53 + 1]])
        self.assertEqual(variable.pull().tolist(), [[1, 2], [3, 2 ** 53 + 1]])

    def test_bfloat16_bytes_and_scaled_int8(self):
        table = self.table(dtype="bfloat16")
        table.assign([1], numpy.full(4, 0x3F80, "uint16"), dtype="bfloat16")
        self.assertEqual(table.pull([1]).tolist(), [[1.0] * 4])
        narrow = self.table(self.id() + "8", dtype="scaled_int8")
        narrow.assign([1], [[1, 2, 3, 4]])
        raw = narrow.pull([1], numpy.empty(8, "uint8"), dtype="scaled_int8")
        self.assertEqual(raw[7], 127)

    def test_negative_and_huge_keys_are_keys(self):
        table = self.table()
        table.assign([-1, -(1 << 63), (1 << 63) - 1], numpy.arange(12, dtype="float32").reshape(3, 4))
        same = numpy.array([(1 << 64) - 1, 1 << 63, (1 << 63) - 1], "uint64")
        self.assertEqual(table.pull(same)[:, 0].tolist(), [0, 4, 8])
        self.assertEqual(table.pull(numpy.array([-1, -(1 << 63)]))[:, 0].tolist(), [0, 4])

    def test_no_keys_are_no_call(self):
        table = self.table()
        self.assertEqual(table.pull([]).shape, (0, 4))
        table.push([], numpy.empty((0, 4), "float32"))
        table.delete(numpy.empty(0, "int64"))
        self.assertEqual(table.pull_async([]).result(5).shape, (0, 4))
        variable = self.cluster.variable(self.id() + "v", (4, 2))
        self.assertEqual(variable.pull([]).shape, (0, 2))

    def test_assign_delete_and_push_pull(self):
        table = self.table(initializer="ones")
        table.assign([1, 2], numpy.zeros((2, 4), "float32"))
        table.delete([1, 77])
        self.assertEqual(table.pull([1, 2])[:, 0].tolist(), [1, 0])
        rows = table.push_pull([1, 2], numpy.ones((2, 4), "float32"), rate=0.5, scale=2.0)
        self.assertEqual(rows[:, 0].tolist(), [0, -1])

    def test_read_only_pull(self):
        table = self.table(initializer="ones")
        self.assertEqual(table.pull([5], read_only=True)[0, 0], 1)
        table.assign([5], [[9, 9, 9, 9]])
        self.assertEqual(table.pull([5], read_only=True)[0, 0], 9)

    def test_a_rate_of_zero_is_zero(self):
        for rate, moved in ((0, 0), (0.0, 0), (None, 0.01), (1, 1)):
            t = self.table(f"rate-{rate}-{type(rate).__name__}", rate=rate)
            t.push([1], -numpy.ones((1, 4), "float32"))
            self.assertEqual(t.pull([1]).tolist(), [[numpy.float32(moved)] * 4])
        integers = self.cluster.table("rate-of-nothing", 4, dtype="int64", optimizer="none", rate=0.0)
        self.assertEqual(integers.pull([1]).tolist(), [[0] * 4])

    def test_numpy_numbers_make_tables(self):
        # A negative seed k is 2^64 + k.
        for number, seed in enumerate((-1, -1 << 63, numpy.int64(-7))):
            options = {"name": f"seed-{number}", "initializer": "uniform", "scale": 1}
            rows = self.table(seed=seed, **options).pull([1, 2]).tolist()
            self.assertEqual(int(self.cluster.definition(options["name"])["seed"]), int(seed) + (1 << 64))
            self.assertEqual(self.table(seed=int(seed) + (1 << 64), **options).pull([1, 2]).tolist(), rows)
        t = self.table("numpy-numbers", dim=numpy.int64(4), seed=numpy.uint64(7))
        self.assertEqual((t.dim, t.pull([1]).shape), (4, (1, 4)))
        self.assertEqual(self.cluster.variable("numpy-size", numpy.int32(3)).pull().shape, (3,))

    def test_variables(self):
        variable = self.cluster.variable(self.id(), (6, 5), optimizer="sgd", rate=1.0)
        variable.assign(numpy.arange(30, dtype="float32").reshape(6, 5))
        variable.push(numpy.ones((6, 5), "float32"))
        self.assertEqual(variable.pull([2, 0, 2])[:, 0].tolist(), [9, -1, 9])
        variable.push(numpy.ones((1, 5), "float32"), [1])
        self.assertEqual(variable.pull()[:, 0].tolist(), [-1, 3, 9, 14, 19, 24])
        self.assertEqual(variable.push_pull(numpy.zeros((6, 5), "float32")).shape, (6, 5))
        found = self.cluster.lookup(self.id())
        self.assertIsInstance(found, starserver.Variable)
        self.assertEqual(found.shape, (6, 5))

    def test_one_of_the_addresses_may_be_nobodys(self):
        # Of a pair one serves, and the other one may be gone.
        table = self.table()
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            own, gone = self.cluster.ps.removeprefix("tcp:"), f"127.0.0.1:{nobody.getsockname()[1]}"
            first, _, others = own.partition(",")
            for ps in (f"tcp:{gone},{own}", f"tcp:{gone}|{own}", f"tcp:{first}|{gone}{',' * bool(others)}{others}"):
                with starserver.connect(ps) as cluster:
                    self.assertEqual(cluster.lookup(self.id()).dim, table.dim)
                    with self.assertRaises(starserver.NotFound):
                        cluster.definition("nothing")
                    if "|" in ps:
                        self.assertEqual([node["pid"] for node in cluster.status()], [node["pid"] for node in self.cluster.status()])

    def test_sums_are_applied_once_by_a_commit(self):
        table = self.table()
        variable = self.cluster.variable("summed", 3, optimizer="sgd", rate=1.0)
        ones = numpy.ones((1, 4), "float32")
        with self.assertRaises(starserver.StarError) as raised:
            table.push([1], ones, tag=7)
        self.assertEqual(raised.exception.errno, errno.EALREADY)
        self.cluster.execute([table.commit_op(7, open=True), variable.commit_op(7, open=True)])
        for _ in range(3):
            self.cluster.execute([table.push_op([1, 2], numpy.repeat(ones, 2, 0), tag=7), variable.push_op([1.0, 2, 3], tag=7)])
        table.push([2], ones, tag=7)
        self.assertEqual(table.pull([1, 2])[:, 0].tolist(), [0, 0])
        for _ in range(2):
            self.cluster.execute([table.commit_op(7, scale=1 / 4), variable.commit_op(7, rate=2.0)])
        self.assertEqual(table.pull([1, 2])[:, 0].tolist(), [-0.75, -1])
        self.assertEqual(variable.pull().tolist(), [-6, -12, -18])
        with self.assertRaises(starserver.StarError) as raised:
            table.push_async([1], ones, tag=7).result(30)
        self.assertEqual(raised.exception.errno, errno.EALREADY)
        table.commit(20, open=True, by_row=True)
        table.push([1], ones, tag=20)
        table.push([1, 2], numpy.array([[3] * 4, [8] * 4], "float32"), tag=20)
        table.commit_async(20, by_row=True).result(30)
        self.assertEqual(table.pull([1, 2])[:, 0].tolist(), [-2.75, -9])
        for tag in (0, -1, 1.5, True, 1 << 64):
            with self.assertRaises(ValueError):
                table.commit(tag)

    def test_emptied_and_dropped(self):
        for made in (self.table("gone", initializer="ones"), self.cluster.variable("gone too", (2, 2), initializer="ones")):
            write = [[5.0] * 4] if made.kind == "table" else [[5.0] * 2] * 2
            pull = (lambda: made.pull([1])) if made.kind == "table" else made.pull
            made.assign([1], write) if made.kind == "table" else made.assign(write)
            self.assertEqual(pull().tolist(), write)
            made.empty()
            self.assertTrue((pull() == 1).all())
            made.drop()
            for call in (pull, made.drop, made.empty, lambda: made.commit(1), lambda: self.cluster.lookup(made.name)):
                with self.assertRaises(starserver.NotFound):
                    call()
            self.assertEqual(self.cluster.table(made.name, 9).pull([1]).shape, (1, 9))

    def test_push_pull_at_once(self):
        table = self.table()
        self.assertEqual(table.push_pull([1, 2], numpy.ones((2, 4), "float32"), at_once=True)[:, 0].tolist(), [-1, -1])

    def test_one_call_of_several_operations(self):
        a, b = self.table(self.id() + "a"), self.table(self.id() + "b", dim=2)
        variable = self.cluster.variable(self.id() + "v", 3)
        ones = numpy.ones((1, 4), "float32")
        result = self.cluster.execute([a.push_op([1], ones), a.pull_op([1]), b.pull_op([]), b.delete_op([1]),
                                       variable.pull_op()])
        self.assertIsNone(result[0])
        self.assertEqual(result[1].tolist(), [[-1] * 4])
        self.assertEqual((result[2].shape, result[3], result[4].tolist()), ((0, 2), None, [0, 0, 0]))
        self.assertEqual(self.cluster.execute_async([a.pull_op([1])]).result(10)[0].tolist(), [[-1] * 4])

    def test_futures_and_coroutines(self):
        table = self.table()
        ones = numpy.ones((1, 4), "float32")
        futures = [table.push_async([1], ones) for _ in range(200)]
        self.assertEqual(table.pull_async([1]).result(30).tolist(), [[-200] * 4])
        self.assertEqual([future.result(30) for future in futures], [None] * 200)

        async def work():
            pulls = [asyncio.wrap_future(table.pull_async([key])) for key in (1, 2)]
            await table.push_async([3], ones)
            self.assertEqual((await table.pull_async([3])).tolist(), [[-1] * 4])
            self.assertEqual([set(node) for node in await self.cluster.status_async()], [set(node) for node in self.cluster.status()])
            with self.assertRaises(starserver.StarError):  # no directory
                await self.cluster.checkpoint_async()
            with self.assertRaises(starserver.StarError):
                await table.push_async([3], numpy.nan * ones)
            return await asyncio.wait_for(asyncio.gather(*pulls), 30)
        self.assertEqual([rows[0, 0] for rows in asyncio.run(work())], [-200, 0])
        self.assertFalse(table.pull_async([1]).cancel())

    def test_a_callback_that_raises_hurts_nobody(self):
        table = self.table()
        future = table.pull_async([1])
        with self.assertLogs("concurrent.futures", "ERROR") if not future.done() else self.subTest():
            future.add_done_callback(lambda done: 1 / 0)
            future.result(10)
            table.pull_async([1]).result(10)

    def test_many_threads_at_once(self):
        table = self.table()
        ones = numpy.ones((3, 4), "float32")
        wrong = []

        def work():
            try:
                for _ in range(50):
                    table.push([1, 2, 3], ones)
                    table.pull([1, 2, 3])
            except BaseException as error:
                wrong.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(table.pull([2]).tolist(), [[-200] * 4])

    def test_big_calls_are_cut_and_whole(self):
        table = self.table(dim=16)
        keys = numpy.arange(200_000) * 7919
        values = numpy.random.default_rng(1).random((len(keys), 16), "float32")
        table.assign(keys, values, timeout=60)
        self.assertTrue((table.pull(keys[::-1].copy(), timeout=60) == values[::-1]).all())

    def test_a_local_node_holds_a_million_rows_unless_it_is_told_otherwise(self):
        with starserver.LocalCluster() as local, local.connect() as cluster:
            table = cluster.table("t", 16, optimizer="adagrad")
            for first in range(0, 1_100_000, 100_000):
                table.pull(numpy.arange(first, first + 100_000))

    def test_status_and_repr(self):
        self.assertEqual([node["task"] for node in self.cluster.status()], [0, 1])
        self.assertEqual(self.cluster.reactors, 2)
        table = self.table("words")
        self.assertIn('"words" dim 4 float32, optimizer sgd', repr(table))
        self.assertIn(self.local.address, repr(self.cluster))
        self.assertIn("2 of 2 nodes running", repr(self.local))
        self.assertEqual(self.cluster.lookup("words").dim, 4)


class Checkpoints(unittest.TestCase):
    def test_rows_survive_in_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent) / "made" / "if need be"
            with starserver.LocalCluster(checkpoints=folder) as local, local.connect() as cluster:
                cluster.table("t", 4).assign([1], [[1, 2, 3, 4]])
                cluster.checkpoint("full")
                cluster.lookup("t").assign(range(2, 50), numpy.ones((48, 4), "float32"))
            # What came after it is in the last one, which is written at the end.
            with starserver.LocalCluster(2, checkpoints=folder) as local, local.connect() as cluster:
                self.assertEqual(cluster.lookup("t").pull(range(1, 50)).tolist(), [[1, 2, 3, 4]] + [[1] * 4] * 48)

    def test_a_folder_is_one_clusters(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, "folder")
            with starserver.LocalCluster(2, checkpoints=folder) as local, local.connect() as cluster:
                cluster.table("t", 4).assign([1], [[1, 2, 3, 4]])
                with self.assertRaisesRegex(starserver.StarError, f"another cluster writes its checkpoints to {folder} "
                                                                  rf"\(process {local.processes[0].pid}\)") as raised:
                    starserver.LocalCluster(checkpoints=folder)
                self.assertEqual(raised.exception.errno, errno.EBUSY)
            with starserver.LocalCluster(checkpoints=folder) as local, local.connect() as cluster:
                self.assertEqual(cluster.lookup("t").pull([1]).tolist(), [[1, 2, 3, 4]])
                # If the process is killed, the lock is free as soon as the kernel has released it.
                for process in local.processes:
                    process.kill()
                with starserver.LocalCluster(checkpoints=folder) as other, other.connect() as cluster:
                    self.assertEqual(cluster.lookup("t").pull([1]).tolist(), [[1, 2, 3, 4]])

    def test_a_last_checkpoint_that_fails_is_a_warning(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent, "folder")
            with starserver.LocalCluster(checkpoints=folder) as local, local.connect() as cluster:
                cluster.table("t", 4).assign([1], [[1, 2, 3, 4]])
                folder.rename(folder.with_name("elsewhere"))
                with self.assertWarnsRegex(RuntimeWarning, f"without a last checkpoint: .*{folder}"):
                    local.stop()

    def test_without_a_directory_it_says_so(self):
        with starserver.LocalCluster() as local, local.connect() as cluster:
            with self.assertRaisesRegex(starserver.StarError, "checkpoint.directory"):
                cluster.checkpoint()


if __name__ == "__main__":
    unittest.main()
