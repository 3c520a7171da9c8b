# SPDX-License-Identifier: BSD-3-Clause
"""What the benches of checkpoints share: ckpt-raw's rounds, on the file system that the build lies on."""
import json
import statistics
import tempfile

import harness
import instore

MIB, ROUNDS, RATIO_MIN = 256, 15, 0.8
TIMEOUT_S = 600


def folder():
    """For checkpoints; gone at the end."""
    harness.end_on_signals()
    return tempfile.TemporaryDirectory(prefix="ckpt-", dir=harness.ROOT / "build")


def bench(name, mode, against):
    with instore.alone(), folder() as where:
        result = json.loads(harness.run(harness.BUILD / "bench/ckpt-raw", mode, where, MIB, ROUNDS, timeout=TIMEOUT_S))
    sides = {side: harness.summary([{"mib_s": rate} for rate in figures["mib_s"]], ["mib_s"])
             for side, figures in result["sides"].items()}
    ratio = harness.ratio(sides, "mib_s", "plain", "ckpt")
    print(f"{mode}: {harness.median(sides, 'ckpt', 'mib_s'):.0f} MiB/s, {ratio:.3f} of {against}, wanted at least {RATIO_MIN}",
          flush=True)
    return {"bench": name, "value": harness.median(sides, "ckpt", "mib_s"), "unit": "MiB/s", "ratio": ratio,
            "against": against, "ratio_min": RATIO_MIN, "ratio_met": ratio >= RATIO_MIN,
            "plot": {"figure": "mib_s", "label": "MiB/s"},
            "setup": {"mib": MIB, "direct": result["direct"], "ratios": "medians over the rounds of the ratio within a round"},
            "sides": sides}
