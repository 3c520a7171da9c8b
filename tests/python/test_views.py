# SPDX-License-Identifier: BSD-3-Clause
"""Views of pulled rows: by DLPack and by the buffer protocol, and when their memory is freed."""
import ctypes
import gc
import threading
import unittest

import numpy
import starserver
from support import SANITIZED, WithCluster, resident, run

try:
    import torch
except ImportError:
    torch = None

KEYS = numpy.arange(1, 101)


class Views(WithCluster):
    def filled(self, **options):
        table = self.table(**options)
        table.assign(KEYS, numpy.repeat(KEYS[:, None], table.dim, 1).astype("float32"))
        return table

    def test_rows_by_dlpack_and_by_the_buffer_protocol(self):
        view = self.filled().pull_view(KEYS[::-1].copy())
        self.assertEqual((view.shape, view.dtype, view.__dlpack_device__()), ((100, 4), "float32", (1, 0)))
        self.assertIn("(100, 4) float32", repr(view))
        for array in (numpy.from_dlpack(view), numpy.asarray(view)):
            self.assertEqual((array.shape, array.dtype), ((100, 4), "float32"))
            self.assertEqual(array.tolist(), [[key] * 4 for key in range(100, 0, -1)])
        shown = memoryview(view)
        self.assertEqual((shown.format, shown.shape, shown.strides, shown.readonly), ("f", (100, 4), (16, 4), True))

    def test_nothing_is_copied(self):
        view = self.filled().pull_view(KEYS)
        places = {numpy.from_dlpack(view).ctypes.data, numpy.asarray(view).ctypes.data}
        if torch:
            places.add(torch.from_dlpack(view).data_ptr())
        self.assertEqual(len(places), 1)

    def test_types(self):
        for dtype, want in (("float64", "float64"), ("float16", "float16"), ("float32", "float32")):
            array = numpy.from_dlpack(self.filled(name=f"view-{dtype}", dtype=dtype).pull_view(KEYS, dtype=dtype))
            self.assertEqual((array.dtype, array[41].tolist()), (want, [42] * 4))
        numbers = self.cluster.table("view-int64", 3, dtype="int64")
        numbers.assign([7], numpy.array([[1, -2, 1 << 62]]))
        self.assertEqual(numpy.from_dlpack(numbers.pull_view([7])).tolist(), [[1, -2, 1 << 62]])
        small = self.filled(name="view-bfloat16", dtype="bfloat16")
        self.assertEqual(numpy.asarray(small.pull_view([1], dtype="bfloat16")).tolist(), [[0x3f80] * 4])
        scaled = self.filled(name="view-scaled", dtype="scaled_int8").pull_view([1, 2], dtype="scaled_int8")
        self.assertEqual((scaled.shape, numpy.from_dlpack(scaled).dtype), ((2, 8), "uint8"))
        if torch:
            rows = torch.from_dlpack(small.pull_view([3], dtype="bfloat16"))
            self.assertEqual((rows.dtype, rows.tolist()), (torch.bfloat16, [[3] * 4]))

    def test_variables(self):
        variable = self.cluster.variable("viewed", (3, 5, 2))
        values = numpy.arange(30, dtype="float32").reshape(3, 5, 2)
        variable.assign(values)
        self.assertEqual(numpy.from_dlpack(variable.pull_view()).tolist(), values.tolist())
        self.assertEqual(numpy.asarray(variable.pull_view([2, 0])).tolist(), values[[2, 0]].tolist())

    def test_many_rows_of_several_nodes_are_one_array(self):
        keys = numpy.arange(300_000)
        table = self.table()
        table.assign(keys, numpy.repeat(keys[:, None], 4, 1).astype("float32"))
        self.assertTrue((numpy.from_dlpack(table.pull_view(keys)) == keys[:, None]).all())

    def test_read_only_makes_no_rows(self):
        table = self.filled(initializer="ones")
        view = table.pull_view([1000], read_only=True)
        self.assertEqual(numpy.asarray(view).tolist(), [[1] * 4])
        with self.assertRaises((BufferError, TypeError)):
            ctypes.c_char.from_buffer(view)
        with self.assertRaises(ValueError):
            numpy.asarray(view)[0] = 3

    def test_arrays_outlive_the_view_and_the_cluster(self):
        with self.local.connect() as cluster:
            table = cluster.lookup(self.filled(name="outlived").name)
            view = table.pull_view(KEYS)
            arrays = [numpy.from_dlpack(view), numpy.asarray(view), numpy.from_dlpack(view)]
            if torch:
                arrays += [torch.from_dlpack(view)]
            del view
        del table, cluster
        gc.collect()
        while arrays:
            self.assertEqual(arrays.pop(0).tolist(), [[key] * 4 for key in KEYS.tolist()])
            gc.collect()

    def test_the_memory_is_freed_once_by_whoever_is_last(self):
        table = self.table(dim=64)
        keys = numpy.arange(10_000)  # 2.5 MB a view

        def work(rounds):
            for _ in range(rounds):
                view = table.pull_view(keys)
                capsule = view.__dlpack__()  # which nobody takes the tensor of
                arrays = [numpy.from_dlpack(view), memoryview(view)] + ([torch.from_dlpack(view)] if torch else [])
                other = threading.Thread(target=arrays.clear)
                del view, capsule
                other.start()
                other.join()
        work(20)
        before = resident()
        work(100)
        if not SANITIZED:
            self.assertLess(resident() - before, 20 << 20)

    def test_a_capsule_is_taken_once(self):
        class Again:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack__(self, **_):
                return self.capsule

            def __dlpack_device__(self):
                return (1, 0)
        again = Again(self.filled().pull_view(KEYS).__dlpack__())
        self.assertEqual(numpy.from_dlpack(again)[0, 0], 1)
        with self.assertRaises(ValueError):
            numpy.from_dlpack(again)

    def test_an_array_that_is_left_at_the_interpreters_end(self):
        run("""if 1:
            import numpy, starserver
            local = starserver.LocalCluster()
            view = local.connect().table("t", 4).pull_view([1, 2])
            array, capsule, shown = numpy.from_dlpack(view), view.__dlpack__(), memoryview(view)
        """)

    def test_what_cannot_be_viewed_is_refused(self):
        table = self.filled()
        for call, error in ((lambda: table.pull_view([]), ValueError), (lambda: table.pull_view([1], dtype="int3"), ValueError),
                            (lambda: table.pull_view([1.5]), TypeError), (lambda: table.pull_view([1], dtype="int8"), starserver.StarError),
                            (lambda: table.pull_view([1]).__dlpack__(1), BufferError),
                            (lambda: table.pull_view([1]).__dlpack__(copy=True), BufferError),
                            (lambda: starserver.View(), TypeError)):
            with self.assertRaises(error):
                call()
        table.pull_view([1]).__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False)


if __name__ == "__main__":
    unittest.main()
