# SPDX-License-Identifier: BSD-3-Clause
"""What the benches of the Python package share: nodes by LocalCluster, and programs that have the package."""
import json
import os
import subprocess
import sys

import harness

sys.dont_write_bytecode = True
PACKAGE = harness.BUILD / "python"
SERVER = harness.BUILD / "app/starserver/starserver"
EXAMPLES = harness.ROOT / "docs/examples/torch"
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{EXAMPLES}:{harness.ROOT}/bench", "STARSERVER": str(SERVER),
               "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def local_cluster(**options):
    """starserver.LocalCluster of this build."""
    if not (PACKAGE / "starserver/__init__.py").exists():
        raise harness.Failure(f"there is no package in {PACKAGE}; run: make python")
    sys.path.insert(0, str(PACKAGE))
    import starserver
    return starserver.LocalCluster(server=str(SERVER), **options)


def program(*command, timeout=600):
    """The JSON object in the last line that a program prints."""
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, capture_output=True, text=True, check=False,
                          timeout=timeout)
    if done.returncode:
        raise harness.Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
