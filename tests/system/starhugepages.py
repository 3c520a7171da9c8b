# SPDX-License-Identifier: BSD-3-Clause
"""Hugepages for a test."""
import contextlib
import os

from starlib import run

__all__ = ["hugepages", "free_mib"]


@contextlib.contextmanager
def hugepages():
    """What is reserved meanwhile, by scripts/hugepages, is given back."""
    pool, state = "/proc/sys/vm/nr_hugepages", "/run/star-hugepages"
    with open(pool) as file:
        before = file.read()
    kept = os.path.exists(state)
    try:
        yield
    finally:
        if not kept:
            run("scripts/hugepages", "release")
        with open(pool, "w") as file:
            file.write(before)


def free_mib():
    """Of hugepages."""
    shown = dict(line.split("=") for line in run("scripts/hugepages", "status").stdout.splitlines())
    return int(shown["HUGEPAGES_FREE"]) * int(shown["HUGEPAGE_KIB"]) // 1024
