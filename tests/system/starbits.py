# SPDX-License-Identifier: BSD-3-Clause
"""A training job whose every bit is compared: what it pulled in each step, and all rows and slots that it leaves behind. Used by
pci.test on the machine itself, and by starpci_guest.py in a guest."""
import hashlib
import json
import os

from starlib import BUILD, check, equal, program, run, run_in, scratch

__all__ = ["train"]

STAR_BITS = os.path.join(BUILD, "tests/system/star-bits/star-bits")
TABLES = {"small": {"m", "v"}, "wide": {"accumulator"}}  # with the slots of their optimizers
# Gradients depend on what was pulled: a wrong bit stays. A step pulls and pushes rows of 64 bytes and of 16 KiB.
JOB = """star 1
ids = feed() dtype="int64" shape=[64]
finite = feed() dtype="float32" shape=[64, 16]
wide_ids = feed() dtype="int64" shape=[12]
finite_wide = feed() dtype="float32" shape=[12, 4096]
tenth = const() value=float32[]{0.1}
small = table() dtype="float32" dim=16 initializer="normal" scale=1 optimizer="adam" rate=0.01 @/job:ps
wide = table() dtype="float32" dim=4096 initializer="uniform" scale=1 optimizer="adagrad" rate=0.1 @/job:ps
a = lookup(small, ids)
b = lookup(wide, wide_ids)
decay = mul(a, tenth)
g = add(decay, finite)
wide_decay = mul(b, tenth)
h = add(wide_decay, finite_wide)
done = apply_rows(small, ids, g)
wide_done = apply_rows(wide, wide_ids, h)
results a, b
"""


def check_slots(table, slots, rows):
    """What is compared has the optimizer's slots, and these have been written."""
    check(rows, f"the table {table} is empty")
    for row in rows:
        equal(set(row), slots, f"the slots of a row of {table}")
    for slot in slots:
        check(len({value for row in rows for value in row[slot]}) > 1, f"the slot {slot} of {table} is the same everywhere")


def train(net, server, directory, limit, timeout_s):
    """Trains on a server that keeps checkpoints in directory. limit: steps, or "600s". Returns how many steps there were, and the
    SHA-256 of all that was pulled, and of each table with its slots."""
    job, digest = os.path.join(scratch(), "job.star"), os.path.join(scratch(), "pulled")
    with open(job, "w", encoding="ascii") as file:
        file.write(JOB)
    shown = run_in(net, "bash", "-c", 'set -o pipefail; "$1" "$2" "$3" grpc++ "$4" | tee >(sha256sum >"$5") | wc -l; rc=$?; wait; exit $rc', "bash",
                   STAR_BITS, f"tcp:{server.control}", job, str(limit), digest, timeout_s=timeout_s)
    with open(digest, encoding="ascii") as file:
        found = {"steps": int(shown.stdout), "pulled": file.read().split()[0]}
    check(found["steps"] > 0, f"no step was made: {shown.stderr}")
    server.starctl("checkpoint", "save", "full", timeout_s=120)
    for table, slots in TABLES.items():
        lines = sorted(run(program("starctl"), "checkpoint", "export", directory, table, timeout_s=300).stdout.splitlines())
        check_slots(table, slots, [row["slots"] for row in map(json.loads, lines) if "key" in row])
        found[table] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found
