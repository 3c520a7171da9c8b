# SPDX-License-Identifier: BSD-3-Clause
"""starserver.torch where nodes have lost what they held."""
import contextlib
import copy
import errno
import inspect
import os
import re
import tempfile
import threading
import time
import unittest
import warnings

import numpy
import starserver
import starserver.torch
import torch
from starserver import _control
from support import SLOW
from test_torch import WithTorch
from torch import nn


class Losses(WithTorch):
    """Nodes that were restarted, and models whose values they have lost."""
    nodes = 2

    def begin(self, model, warns="", name=None, **options):
        """The optimizer of a worker that starts, and what it warns of."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer = self.optimizer(model, name=name or self.id(), **options)
        self.assertRegex(" ".join(str(one.message) for one in seen), warns or "^$")
        for one in seen:
            self.assertEqual(one.filename, inspect.getfile(WithTorch))  # which calls Optimizer()
        return optimizer

    def test_blocks_are_those_of_the_nodes(self):
        for number, (shape, dtype) in enumerate((((), torch.float32), ((1500,), torch.float32), ((3, 700), torch.float16),
                                                 ((2000, 3), torch.float64), ((5, 1025), torch.float32), ((70, 4, 16), torch.float32))):
            module = nn.Module()
            module.values = nn.Parameter(torch.ones(shape, dtype=dtype))
            [dense] = self.begin(module, name=f"{self.id()}.{number}")._dense
            spec = self.cluster.definition(dense.variable.name)
            lost = numpy.full(dense.variable.shape, spec["scale"])
            blocks = -(-lost.size // spec["dim"])
            self.assertEqual(dense.blocks_without_values(lost).tolist(), [True] * blocks)
            lost.reshape(-1)[-1] = 0
            self.assertEqual(dense.blocks_without_values(lost).tolist(), [True] * (blocks - 1) + [False])

    def test_values_are_never_overwritten(self):
        self.begin(nn.Linear(4, 300), rank=0)
        names = [f"{self.id()}/{name}" for name in ("weight", "bias")]
        values = [self.cluster.lookup(name).pull() for name in names]
        for state, warns in (([1, 7], ""), ([0, 0], "count of its steps is lost")):
            self.cluster.lookup(f"{self.id()}/state").assign(numpy.array(state, "float64"))
            optimizer = self.begin(nn.Linear(4, 300), warns, rank=0)
            self.assertEqual(optimizer.global_step, state[1])
            for name, value in zip(names, values):
                self.assertTrue(numpy.array_equal(self.cluster.lookup(name).pull(), value))

    def test_a_parameter_without_values_is_told_of(self):
        def model(*names):
            return nn.ModuleDict({name: nn.Linear(4, 2) for name in names})
        first = model("a")
        self.begin(first).step()
        self.begin(model("a"))
        more = model("a", "b")
        own = more["b"].weight.detach().clone()
        waiting = threading.Thread(target=lambda: self.optimizer(model("a", "b"), rank=1))
        waiting.start()
        self.begin(more, "after step 1 .*b.weight, .*b.bias")
        waiting.join(30)
        self.assertFalse(waiting.is_alive())
        self.assertTrue(torch.equal(more["b"].weight, own))
        self.assertTrue(torch.equal(more["a"].weight, first["a"].weight))

    def has_joined(self, local, task):
        """The layout has the node that runs now, and not the one that was killed, whom calls would still be meant for."""
        try:
            known = _control.call(local._controls[0], "layout", 10)["nodes"][task]["incarnation"]
        except starserver.StarError:  # PS task 0 waits for it
            return False
        return known == _control.call(local._controls[task], "status", 10)["incarnation"]

    def test_a_node_that_comes_back_without_values(self):
        for older in (False, True):
            with contextlib.ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory()) if older else None
                local = stack.enter_context(starserver.LocalCluster(2, checkpoints=folder))

                def model(layers):
                    return nn.Sequential(*(nn.Linear(*sizes) for sizes in layers))
                small, great = [(8, 8)] * 8, [(64, 256), (256, 64)]
                with local.connect() as cluster:
                    if older:
                        cluster.checkpoint()
                    trained = {}
                    for name, layers in (("small", small), ("great", great)):
                        one = model(layers)
                        optimizer = self.begin(one, name=name, cluster=cluster)
                        one(torch.ones(1, layers[0][0])).sum().backward()
                        optimizer.step()
                        trained[name] = one
                local.processes[1].kill()
                local.processes[1].wait()
                del local.processes[1]
                local._start_node(1, os.path.join(local._folder, "node-1.conf"))
                local._wait_ready(time.monotonic() + 60)
                end = time.monotonic() + 60 * SLOW
                while not self.has_joined(local, 1):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                with local.connect() as cluster:
                    for rank in (0, 1):
                        with self.assertRaisesRegex(starserver.StarError, "great/0.weight.*checkpoint restore.*tables drop") as raised:
                            self.optimizer(model(great), name="great", cluster=cluster, rank=rank, timeout=2 if rank else 30)
                        self.assertEqual(raised.exception.errno, errno.ENODATA)
                    left = cluster.lookup("great/0.weight").pull(read_only=True)
                    same = left == trained["great"][0].weight.detach().numpy()
                    self.assertTrue((same | (left == -60000)).all())
                    self.assertTrue(same.any() and not same.all())
                    again = model(small)
                    own = copy.deepcopy(again.state_dict())
                    with warnings.catch_warnings(record=True) as seen:
                        warnings.simplefilter("always")
                        self.optimizer(again, name="small", cluster=cluster)
                    said = str(seen[0].message)
                    given = 0
                    for name, value in again.state_dict().items():
                        lost = re.search(rf"small/{re.escape(name)}[,.]", said) is not None
                        given += lost
                        self.assertTrue(torch.equal(value, own[name] if lost else trained["small"].state_dict()[name]), (name, said))
                    self.assertTrue(0 < given < len(own), said)


if __name__ == "__main__":
    unittest.main()
