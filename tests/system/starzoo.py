# SPDX-License-Identifier: BSD-3-Clause
"""Examples for the model zoo, and its training on a test network."""
import json
import os
import subprocess
import tempfile

from starlib import program, run_in, shared

__all__ = ["examples", "few", "generate", "train"]


def generate(train, test, *options):
    """Files of generated examples, and the teacher's AUC on those of the second."""
    folder = tempfile.mkdtemp()
    done = {}
    for name, first, rows in (("train", 0, train), ("test", train, test)):
        done[name] = os.path.join(folder, name + ".tsv")
        with open(done[name], "w") as file:
            written = subprocess.run([program("startrain"), "generate", "--first", str(first), "--rows", str(rows), *options],
                                     stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    done["teacher"] = float(written.stderr.split()[-1])
    return done


@shared
def examples():
    return generate(20000, 5000)


@shared
def few():
    """Files of options: to compare two ways of training the model need not learn much."""
    made = generate(4000, 1000)
    return "--train", made["train"], "--test", made["test"]


def train(net, ps, model, *options, files=None, **more):
    files = files or ("--train", examples()["train"], "--test", examples()["test"])
    shown = run_in(net, program("startrain"), model, "--ps", ps, *files, "--json", *options, timeout_s=200, **more)
    return json.loads(shown.stdout) if not more.get("expect") else shown
