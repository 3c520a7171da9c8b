#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pulls of the same rows by the Python package, one after the other: python-pull.py PS ROWS SECONDS."""
import json
import sys
import time

import numpy
import starserver


def main():
    ps, rows, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    keys = numpy.arange(rows)
    times = []
    with starserver.connect(ps) as cluster:
        table = cluster.lookup("calls")
        end = time.perf_counter() + seconds
        at = time.perf_counter()
        while at < end:
            before = at
            table.pull(keys)
            at = time.perf_counter()
            times.append(at - before)
    print(json.dumps({"p50_us": 1e6 * sorted(times)[len(times) // 2], "calls": len(times)}))


main()
