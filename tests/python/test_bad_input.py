# SPDX-License-Identifier: BSD-3-Clause
"""Wrong types, shapes, keys, definitions: an exception that says what is wrong, and nothing is sent."""
import array
import builtins
import copy
import errno
import functools
import pickle
import unittest

import numpy
import starserver
from support import WithCluster

ONES = numpy.ones((2, 4), "float32")


class BadInput(WithCluster):
    def setUp(self):
        self.t = self.table("bad")

    def tearDown(self):
        self.assertEqual(self.t.pull([1, 2], read_only=True).tolist(), [[0] * 4] * 2)

    def test_wrong_dtype_of_keys(self):
        for keys in (numpy.array([1, 2], "int32"), numpy.array([1.0, 2.0]), numpy.array([1, 2], ">i8"),
                     array.array("f", [1, 2]), b"0123456789abcdef", [1.5], ["a"], numpy.array([1, 2], "timedelta64[s]")):
            with self.assertRaises((TypeError, ValueError)):
                self.t.push(keys, ONES)
        with self.assertRaisesRegex(TypeError, "int64"):
            self.t.pull(numpy.array([1, 2], "int32"))

    def test_wrong_dtype_of_values(self):
        for values in (ONES.astype("int32"), ONES.astype("complex64"), ONES.astype(">f4"), ONES.astype("uint8"),
                       numpy.array([[None] * 4] * 2), bytes(32), "text", 7, None):
            with self.assertRaises((TypeError, ValueError, starserver.StarError)):
                self.t.push([1, 2], values)
        with self.assertRaisesRegex(TypeError, "not of dtype float64"):
            self.t.pull([1, 2], ONES.copy(), dtype="float64")
        with self.assertRaises(ValueError):
            self.t.pull([1], dtype="float99")
        with self.assertRaisesRegex(ValueError, "out="):
            self.t.pull([1], dtype="bfloat16")

    def test_wrong_shape(self):
        for values in (ONES[:1], ONES[:, :3].copy(), ONES.T.copy(), ONES.reshape(1, 2, 4), ONES.ravel()[:7],
                       numpy.float32(1), numpy.empty((0, 4), "float32")):
            with self.assertRaises(ValueError, msg=repr(values)):
                self.t.push([1, 2], values)
            with self.assertRaises(ValueError, msg=repr(values)):
                self.t.pull([1, 2], numpy.array(values))
        with self.assertRaises(ValueError):
            self.t.pull(numpy.array([[1, 2], [3, 4]]))
        with self.assertRaises(ValueError):
            self.t.pull(numpy.array(1))
        with self.assertRaises(ValueError):
            self.t.push([], ONES)
        variable = self.cluster.variable("bad-variable", (3, 2))
        for values in (numpy.ones((2, 3), "float32"), numpy.ones(5, "float32")):
            with self.assertRaises(ValueError):
                variable.push(values)
        with self.assertRaises(ValueError):
            variable.pull([1], numpy.empty((2, 2), "float32"))
        with self.assertRaisesRegex(starserver.StarError, "has 3 rows"):
            variable.pull([3])

    def test_not_contiguous(self):
        wide = numpy.ones((2, 8), "float32")
        with self.assertRaisesRegex(ValueError, "ascontiguousarray"):
            self.t.push([1, 2], wide[:, ::2])
        with self.assertRaisesRegex(ValueError, "ascontiguousarray"):
            self.t.push([1, 2], numpy.asfortranarray(ONES))
        with self.assertRaisesRegex(ValueError, "ascontiguousarray"):
            self.t.pull(numpy.arange(4)[::2])
        with self.assertRaisesRegex(ValueError, "ascontiguousarray"):
            self.t.pull([1, 2], wide[:, ::2])
        unaligned = numpy.frombuffer(bytearray(40), "uint8")[1:33].view("float32").reshape(2, 4)
        with self.assertRaisesRegex(ValueError, "aligned"):
            self.t.push([1, 2], unaligned)

    def test_read_only_memory_is_not_written(self):
        out = numpy.zeros((2, 4), "float32")
        out.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.t.pull([1, 2], out)
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.t.push_pull([1, 2], ONES, memoryview(bytes(32)).cast("f"))

    def test_keys_beyond_64_bits(self):
        for key in (1 << 64, -(1 << 63) - 1, 10 ** 30):
            with self.assertRaisesRegex(ValueError, "64 bits"):
                self.t.push([1, key], ONES)

    def test_keys_that_are_no_numbers(self):
        for keys in ([True, False], True, [None], ["1"], [1.0], numpy.array([True]), numpy.bool_(True), numpy.float32(1), {}, "12"):
            with self.assertRaises((TypeError, ValueError), msg=repr(keys)):
                self.t.pull(keys)
        with self.assertRaisesRegex(TypeError, "whole numbers.*not bool"):
            self.t.pull([True])

    def test_numbers_of_numpy_are_as_good(self):
        table = self.table("numbers", dim=1)
        table.push([-1, 3], [[1], [2]])
        for keys in (list(numpy.array([-1, 3])), list(numpy.array([-1, 3]).astype("uint64")), (numpy.int8(-1), numpy.uint8(3))):
            self.assertEqual(table.pull(keys).tolist(), [[-1], [-2]])
        self.assertEqual(table.pull(numpy.int64(3), timeout=numpy.float32(30)).tolist(), [[-2]])
        self.assertEqual(table.pull(numpy.int32(-1), timeout=numpy.int64(30)).tolist(), [[-1]])
        table.push([3], [[1]], step=numpy.int64(5), rate=numpy.float32(0.5), timeout=numpy.int64(30))
        table.commit(numpy.int64(7), open=True)
        table.push([3], [[1]], tag=numpy.uint8(7))
        table.commit(7)
        self.assertEqual(table.pull(3).tolist(), [[-3.5]])

    def test_what_is_no_operation(self):
        for operations in ([1], [None], [self.t.pull([1], read_only=True)], [self.t.pull_op([1]).tuple]):
            for call in (self.cluster.execute, self.cluster.execute_async):
                with self.assertRaisesRegex(TypeError, "pull_op"):
                    call(operations)

    def test_memory_for_rows_that_gives_copies(self):
        class Copies:
            shape = (2, 4)

            def __array__(self, *_, **options):
                return numpy.zeros((2, 4), "float32")
        with self.assertRaisesRegex(TypeError, "Copies gives a copy"):
            self.t.pull([1, 2], Copies())

    def test_nan_gradients(self):
        for bad in (numpy.nan, numpy.inf):
            gradients = ONES.copy()
            gradients[1, 2] = bad
            with self.assertRaises(starserver.StarError) as raised:
                self.t.push([1, 1], gradients)
            self.assertEqual(raised.exception.errno, errno.EDOM)
            with self.assertRaises(starserver.StarError) as raised:
                self.t.push_async([1, 1], gradients).result(30)
            self.assertEqual(raised.exception.errno, errno.EDOM)

    def test_values_beyond_the_type(self):
        for dtype, great in (("float16", 70000.0), ("bfloat16", 3.4e38), ("float32", 1e300)):
            table = self.table("bad-" + dtype, dim=2, dtype=dtype)
            with self.assertRaises(starserver.StarError) as raised:
                table.assign([1], numpy.array([[3, great]]))
            self.assertEqual(raised.exception.errno, errno.EDOM)
            self.assertEqual(table.pull([1], read_only=True).tolist(), [[0, 0]])
            if dtype != "float32":
                with self.assertRaisesRegex(starserver.StarError, "too great for its element type"):
                    table.assign([1], [[1, great]])

    def test_another_definition(self):
        with self.assertRaises(starserver.StarError) as raised:
            self.table("bad", dim=8)
        self.assertEqual(raised.exception.errno, errno.EEXIST)
        self.assertIn("dim", str(raised.exception))
        with self.assertRaises(starserver.StarError):
            self.cluster.variable("bad", (4,))

    def test_bad_definitions(self):
        for options in ({"dim": 0}, {"dim": 5000}, {"dim": "4"}, {"dim": -1}, {"dim": 1 << 40}, {"dtype": "float99"},
                        {"optimizer": "adamant"}, {"rate": float("nan")}, {"no_such": 1}, {"filter": "sieve"},
                        {"seed": 1 << 64}, {"seed": 1.5}, {"dim": True}):
            with self.assertRaises((starserver.StarError, ValueError, TypeError), msg=str(options)):
                self.table("bad2", **options)
        for seed in (1 << 64, -(1 << 63) - 1):
            with self.assertRaisesRegex(ValueError, rf"seed is from -2\^63 to 2\^64 - 1, not {seed}"):
                self.table("bad2", seed=seed)
        for name in ("", "n" * 128, "a\0b", 7, None, "\ud800"):
            with self.assertRaises((starserver.StarError, ValueError, TypeError), msg=repr(name)):
                self.cluster.table(name, 4)
        for shape in ((), (0,), (1.5,), (1,) * 9, (-1,), "ab", (1 << 70,)):
            with self.assertRaises((starserver.StarError, ValueError, TypeError, OverflowError), msg=str(shape)):
                self.cluster.variable("bad3", shape)

    def test_what_is_not_there(self):
        with self.assertRaises(starserver.NotFound) as raised:
            self.cluster.lookup("nothing")
        self.assertEqual(raised.exception.errno, errno.ENOENT)
        copy = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(copy), str(copy), copy.errno), (starserver.NotFound, str(raised.exception), errno.ENOENT))

    def test_bad_numbers(self):
        for timeout in (0, -1, "1", float("nan"), float("inf"), True):
            with self.assertRaises(ValueError):
                self.t.pull([1], timeout=timeout)
            with self.assertRaises(ValueError):
                self.t.pull_async([1], timeout=timeout)
            for ask in (self.cluster.status, self.cluster.status_async, functools.partial(self.cluster.definition, self.t.name),
                        functools.partial(self.cluster.lookup, self.t.name)):
                with self.assertRaises(ValueError):
                    ask(timeout=timeout)
            with self.assertRaises(ValueError):
                starserver.LocalCluster(timeout=timeout)
        # More than anybody waits for, and than the system can.
        for timeout in (1e7, 1e30):
            self.assertEqual(self.cluster.lookup(self.t.name, timeout=timeout).name, self.t.name)
            self.assertEqual(len(self.cluster.status(timeout=timeout)), len(self.cluster.status_async(timeout=timeout).result(30)))
            self.t.pull([1], timeout=timeout)
        for step in (-1, 1 << 64, 1.5, True):
            with self.assertRaises(ValueError):
                self.t.push([1, 2], ONES, step=step)
        for options in ({"rate": -1}, {"scale": float("nan")}):
            with self.assertRaises(starserver.StarError):
                self.t.push([1, 2], ONES, **options)

    def test_addresses(self):
        for address in ("", "tcp:nowhere", "127.0.0.1", "127.0.0.1:1:2", "127.0.0.1:99999", "a\0b"):
            with self.assertRaises((starserver.StarError, ValueError), msg=address):
                starserver.connect(address, timeout=2)
        with self.assertRaises(TypeError):
            starserver.connect(3333)
        with self.assertRaises((starserver.StarError, builtins.TimeoutError)):
            starserver.connect("127.0.0.1:1", timeout=0.3)

    def test_tables_of_two_clusters_in_one_call(self):
        with self.local.connect() as other:
            theirs = other.lookup("bad")
            with self.assertRaisesRegex(ValueError, "another cluster"):
                self.cluster.execute([self.t.pull_op([1]), theirs.pull_op([1])])

    def test_nothing_of_a_cluster_is_sent_to_other_processes(self):
        for thing, words in ((self.cluster, r"cluster\.ps"), (self.t, r'table "bad".* lookup\(\)')):
            for call in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, words):
                    call(thing)

    def test_local_cluster_arguments(self):
        for options in ({"nodes": 0}, {"nodes": "2"}, {"reactors": 1000}, {"memory_mib": 0}, {"checkpoints": ""}):
            with self.assertRaises(ValueError):
                starserver.LocalCluster(**options)
        with self.assertRaises(starserver.StarError):
            starserver.LocalCluster(server="/nonexistent")
        with self.assertRaisesRegex(starserver.StarError, "has ended with status"):
            starserver.LocalCluster(server="/bin/false")


if __name__ == "__main__":
    unittest.main()
