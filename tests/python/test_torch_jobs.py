# SPDX-License-Identifier: BSD-3-Clause
"""starserver.torch around the steps: prefetching, the environment, summaries, serving."""
import concurrent.futures
import contextlib
import errno
import io
import os
import pickle
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy
import starserver
import starserver.torch
import torch
from support import stopped
from test_torch import WithTorch, requests
from torch import nn

ONES = numpy.ones((2, 4), "float32")


class Jobs(WithTorch):
    """Prefetching, the environment, summaries."""

    def model(self, name):
        class Model(nn.Module):
            def __init__(self, cluster):
                super().__init__()
                self.rows = starserver.torch.Embedding(cluster.table(f"{name}/rows", 4, optimizer="adagrad", rate=0.5,
                                                                     initializer="constant", scale=0.1))
                self.bags = starserver.torch.EmbeddingBag(cluster.table(f"{name}/bags", 4, optimizer="sgd", rate=0.5), "sum")
                self.top = nn.Linear(8, 1)

            def embedding_keys(self, batch):
                return {self.rows: batch[:, 0], self.bags: batch}

            def forward(self, batch):
                return self.top(torch.cat([self.rows(batch[:, 0]), self.bags(batch)], 1))
        torch.manual_seed(2)
        return Model(self.cluster)

    def train(self, name, batches, loop):
        model = self.model(name)
        optimizer = self.optimizer(model, "adam", rate=0.01, name=name)
        losses = []
        for batch in loop(batches, model):
            loss = (model(batch) - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        self.assertEqual((model.rows.prefetched, model.bags.prefetched), ([], []))
        return losses, model

    def test_prefetching_is_exact_at_depth_0_and_close_at_1(self):
        batches = [torch.randint(0, 50, (16, 3)) for _ in range(30)]
        plain, _ = self.train("plain", batches, lambda batches, model: batches)
        exact, _ = self.train("depth0", batches, lambda batches, model: starserver.torch.prefetch(batches, model, 0))
        self.assertEqual(plain, exact)
        for depth in (1, 3, 50):
            ahead, _ = self.train(f"depth{depth}", batches,
                                  lambda batches, model: starserver.torch.prefetch(iter(batches), model, depth))
            self.assertNotEqual(plain[1:], ahead[1:])
            self.assertLess(ahead[-1], ahead[0])
        disjoint = [torch.arange(i * 48, i * 48 + 48).reshape(16, 3) for i in range(5)]  # no row is ever stale
        self.assertEqual(*(self.train(name, disjoint, loop)[0] for name, loop in (
            ("alone", lambda batches, model: batches),
            ("ahead", lambda batches, model: starserver.torch.prefetch(batches, model, 2)))))

    def test_prefetched_rows_are_for_one_step_and_for_the_keys_of_then(self):
        embedding = starserver.torch.Embedding(self.table(optimizer="sgd", rate=1.0))
        optimizer = starserver.torch.Optimizer(embedding, name=self.id(), cluster=self.cluster)
        for batch in starserver.torch.prefetch([torch.tensor([1, 2])], embedding, 0, keys=lambda batch: {embedding: batch}):
            for _ in range(2):
                embedding(batch).square().sum().backward()
                embedding(batch).sum().backward()
                optimizer.step()
            self.assertTrue(torch.equal(embedding(batch).detach(), torch.from_numpy(embedding.table.pull([1, 2]))))
        for batch in starserver.torch.prefetch([torch.tensor([1, 2])], embedding, 0, keys=lambda batch: {embedding: batch}):
            batch += 10
            self.assertTrue(torch.equal(embedding(batch).detach(), torch.from_numpy(embedding.table.pull([11, 12]))))

    def test_a_prefetched_step_takes_two_requests(self):
        model = self.model(self.id())
        optimizer = self.optimizer(model)
        before = requests(self.cluster)
        for batch in starserver.torch.prefetch([torch.randint(0, 50, (16, 3)) for _ in range(4)], model, 1):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        self.assertEqual(requests(self.cluster), [before[0] + 8])

    def test_nobody_is_further_ahead_than_staleness_allows(self):
        for bound in (0, 2):
            seen, lock = [0, 0], threading.Lock()
            furthest = []

            def work(rank, bound=bound, seen=seen, lock=lock, furthest=furthest):
                name = f"{self.id()}.{bound}"
                model = starserver.torch.Embedding(self.table(name))
                optimizer = self.optimizer(model, name=name, rank=rank, workers=2, staleness=bound)
                start.wait(60)
                for number in range(20):
                    if rank == 1:
                        time.sleep(0.005)
                    model([number]).sum().backward()
                    optimizer.step()
                    with lock:
                        seen[rank] += 1
                        furthest.append(seen[0] - seen[1])
                optimizer.finish()
            start = threading.Barrier(2)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for done in [pool.submit(work, rank) for rank in (0, 1)]:
                    done.result(120)
            self.assertEqual(seen, [20, 20])
            self.assertLessEqual(max(furthest), bound + 1)  # the other's step may have ended, and not have been counted here yet

    def test_a_worker_that_stands_still_is_named(self):
        models = [starserver.torch.Embedding(self.table()) for _ in range(2)]
        first, second = (self.optimizer(model, rank=rank, workers=2, staleness=1, timeout=0.5) for rank, model in enumerate(models))
        first.step()
        with self.assertRaisesRegex(starserver.TimeoutError, r"workers \[1\] are 2 steps behind"):
            first.step()
        second.finish()
        first.step()
        for options in ({"staleness": -1, "workers": 2}, {"staleness": 1, "workers": 2, "rank": 2}):
            with self.assertRaisesRegex(ValueError, "staleness"):
                self.optimizer(models[0], **{"rank": 0, **options})

    def test_a_data_loader_with_processes_of_its_own(self):
        model = self.model(self.id())
        optimizer = self.optimizer(model)
        # gcc 12's AddressSanitizer keeps its locks over a fork: a child of a process with threads may wait for ever.
        begin = "spawn" if "libasan" in os.environ.get("LD_PRELOAD", "") else None
        loader = torch.utils.data.DataLoader(torch.arange(96).reshape(32, 3), batch_size=4, num_workers=2, multiprocessing_context=begin)
        for batch in starserver.torch.prefetch(loader, model):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        self.assertEqual(optimizer.global_step, 8)

    def test_two_threads_train_one_model(self):
        model = self.model(self.id())
        optimizers = [self.optimizer(model, name=f"{self.id()}.{i}") for i in range(2)]

        def work(optimizer):
            for _ in range(20):
                model(torch.randint(0, 50, (4, 3))).sum().backward()
                optimizer.step()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(work, optimizer) for optimizer in optimizers]:
                done.result(120)
        self.assertEqual(sum(optimizer.global_step for optimizer in optimizers), 40)

    def test_keys_that_were_not_prefetched_are_pulled(self):
        model = self.model(self.id())
        for batch in starserver.torch.prefetch([torch.tensor([[1, 2]])], model, keys=lambda batch: {model.rows: batch[:, 0]}):
            with torch.no_grad():
                model(batch)
                model(batch + 7)
        for batch in starserver.torch.prefetch([torch.tensor([[1, 2]])], model):  # asked for in training, used in evaluation
            with torch.no_grad():
                self.assertFalse(model(batch).requires_grad)
            self.assertTrue(model(batch).requires_grad)

    def test_prefetching_says_what_it_lacks(self):
        model = self.model(self.id())
        for words, call in (("whole number", lambda: starserver.torch.prefetch([], model, -1)),
                            ("embedding_keys", lambda: starserver.torch.prefetch([], model.rows))):
            with self.assertRaisesRegex(ValueError, words):
                call()
        for keys in ([1], {model.top: [1]}, {"rows": [1]}, None):
            with self.assertRaisesRegex(TypeError, "a dict of the model's embeddings"):
                next(starserver.torch.prefetch([1], model, keys=lambda _, keys=keys: keys))
        with stopped(self.local.processes), self.assertRaises(starserver.TimeoutError):
            next(starserver.torch.prefetch([torch.tensor([[1, 2]])], model, timeout=0.3))

        def loader():
            yield torch.tensor([[1, 2]])
            raise RuntimeError("the loader's own")
        with self.assertRaisesRegex(RuntimeError, "the loader's own"):
            list(starserver.torch.prefetch(loader(), model))

    def test_workers_by_the_environment(self):
        worker = starserver.torch.Worker
        cluster = '"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["p:3333", "q:3333"]}'
        for environment, want in (
                ({}, (0, 1, None)), ({"RANK": "2", "WORLD_SIZE": "4", "STARSERVER_PS": "tcp:p:1"}, (2, 4, "tcp:p:1")),
                ({"TF_CONFIG": '{%s, "task": {"type": "worker", "index": 1}}' % cluster}, (2, 3, "tcp:p:3333,q:3333")),
                ({"TF_CONFIG": '{%s, "task": {"type": "chief", "index": 0}}' % cluster}, (0, 3, "tcp:p:3333,q:3333"))):
            got = worker.from_environment(environment)
            self.assertEqual((got.rank, got.world_size, got.ps), want)
        for environment, words in (
                ({"RANK": "x"}, "whole numbers"), ({"RANK": "1"}, "from 0 to 0"), ({"TF_CONFIG": "{"}, "TF_CONFIG"),
                ({"TF_CONFIG": "[]"}, "TF_CONFIG"), ({"TF_CONFIG": '{"cluster": [], "task": 1}'}, "TF_CONFIG"),
                ({"TF_CONFIG": '{%s, "task": {"type": "worker", "index": 2}}' % cluster}, "not a worker"),
                ({"TF_CONFIG": '{%s, "task": {"type": "chief", "index": -1}}' % cluster}, "not a worker"),
                ({"TF_CONFIG": '{%s, "task": {"type": "ps", "index": 0}}' % cluster}, "not a worker")):
            with self.assertRaisesRegex(ValueError, words):
                worker.from_environment(environment)
        with self.assertRaisesRegex(ValueError, "STARSERVER_PS"):
            worker().connect()
        with unittest.mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "2"}):
            with self.assertRaisesRegex(starserver.TimeoutError, "worker 0"):  # it is worker 1, and waits
                self.optimizer(starserver.torch.Embedding(self.table()), timeout=0.3)
        with worker(ps=self.local.address).connect() as other:
            self.assertEqual(other.reactors, 1)

    def test_summaries(self):
        """What is in the file torch.test decodes; here is what becomes of it when the disk is full."""
        with tempfile.TemporaryDirectory() as folder, starserver.torch.Summaries(f"{folder}/of/run") as summaries:
            summaries.write(1, loss=0.5)
            size, write = os.path.getsize(summaries.path), os.write

            def full(fd, data):
                if len(data) < 20:
                    raise OSError(errno.ENOSPC, "full")
                return write(fd, data[:20])
            with unittest.mock.patch("os.write", full), self.assertRaises(OSError):
                summaries.write(2, loss=0.25)
            self.assertEqual(os.path.getsize(summaries.path), size)  # whole records
            for step in (-1, 1.5, True, 1 << 63):
                with self.assertRaisesRegex(ValueError, "step"):
                    summaries.write(step, loss=1)
            summaries.close()
            summaries.close()
            with self.assertRaisesRegex(ValueError, "closed"):
                summaries.write(3, loss=1)
            with self.assertRaises(OSError):
                starserver.torch.Summaries(f"{summaries.path}/below-a-file")

    def test_progress(self):
        self.assertEqual(list(starserver.torch.progress(range(5))), [0, 1, 2, 3, 4])
        for tqdm in ({}, {"tqdm": None}):  # the package's bar, where there is one, and our own
            terminal = io.StringIO()
            terminal.isatty = lambda: True
            with contextlib.redirect_stderr(terminal), unittest.mock.patch.dict(sys.modules, tqdm):
                self.assertEqual(list(starserver.torch.progress([1, 2, 3, 4], text="steps")), [1, 2, 3, 4])
                self.assertRegex(terminal.getvalue(), "steps.*4/4")
                self.assertEqual(list(starserver.torch.progress(iter([1, 2]), text="endless")), [1, 2])
                self.assertRegex(terminal.getvalue(), "endless: 2")


class Serving(WithTorch):
    def trained(self, name, **options):
        table = self.table(name, **options)
        table.assign(range(100), torch.randn(100, 4))
        return nn.Sequential(starserver.torch.Embedding(table), nn.Linear(4, 1), nn.BatchNorm1d(1)), table

    def serving(self, table, folder, **options):
        model = nn.Sequential(starserver.torch.Embedding(table), nn.Linear(4, 1), nn.BatchNorm1d(1))
        return starserver.torch.load_frozen(model, folder, **options)

    def test_a_frozen_model_answers_as_the_trained_one(self):
        for versions in (True, False):
            model, table = self.trained(f"{self.id()}.{versions}", versions=versions)
            model.train()(torch.arange(50))  # moves the buffers of the batch norm
            keys = torch.arange(100)
            with tempfile.TemporaryDirectory() as folder:
                starserver.torch.freeze(model, folder)
                for options in ({}, {"cache_rows": 0}, {"cache_rows": 7}, {"cache_rows": 7, "fresh_s": 0}, {"fresh_s": 0}):
                    served = self.serving(table, folder, **options)
                    for _ in range(3):
                        some = keys[torch.randperm(100)[:30]]
                        self.assertTrue(torch.allclose(served(some), model.eval()(some)), options)
                    self.assertFalse(served(keys).requires_grad)
                    self.assertFalse(served.train()(keys).requires_grad, "read-only is read-only")
                    served.eval()

    def test_cached_rows_are_asked_for_again_when_they_are_old(self):
        for versions in (True, False):
            model, table = self.trained(f"{self.id()}.{versions}", versions=versions)
            with tempfile.TemporaryDirectory() as folder:
                starserver.torch.freeze(model, folder)
                lasting, checked = (self.serving(table, folder, fresh_s=seconds)[0] for seconds in (3600, 0))
            before = lasting([1, 2]), checked([1, 2])
            table.assign([1], numpy.full((1, 4), 9, "float32"))
            self.assertTrue(torch.equal(lasting([1, 2]), before[0]))
            self.assertEqual(checked([1, 2])[0].tolist(), [9] * 4)
            self.assertTrue(torch.equal(checked([1, 2])[1], before[1][1]))
            self.assertEqual((lasting.cache.hits, lasting.cache.misses, lasting.cache.checks), (2, 2, 0))
            self.assertEqual((checked.cache.hits, checked.cache.misses, checked.cache.checks), (0, 2, 4))

    def test_the_rows_used_last_stay(self):
        from starserver.torch._serving import Cache
        _, table = self.trained(self.id())
        want = table.pull(range(100))
        cache = Cache(table, 10, 3600)
        for _ in range(100):
            keys = torch.randperm(30)[:torch.randint(1, 20, ()).item()]
            self.assertTrue((cache.rows(keys).numpy() == want[keys.numpy()]).all())
            self.assertLessEqual(len(cache), 10)
            misses = cache.misses
            cache.rows(keys[-10:])
            self.assertEqual(cache.misses, misses)
        with self.assertRaises(ValueError):
            Cache(table, -1, 1)

    def test_threads_that_serve_share_a_cache(self):
        from starserver.torch._serving import Cache
        _, table = self.trained(self.id(), versions=True)
        want = table.pull(range(100))
        cache = Cache(table, 10, 0)

        def serve(_):
            for _ in range(50):
                keys = torch.randperm(40)[:12]
                self.assertTrue((cache.rows(keys).numpy() == want[keys.numpy()]).all())
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(serve, range(4)))
        self.assertEqual(len(cache), 10)
        self.assertEqual(sorted(cache._slots.values()), list(range(10)))  # each row has a place of its own

    def test_a_folder_with_more_than_tensors_is_refused(self):
        model, table = self.trained(self.id())

        class Calls:
            def __reduce__(self):
                return os.system, (f"touch {folder}/called",)
        with tempfile.TemporaryDirectory() as folder:
            starserver.torch.freeze(model, folder)
            torch.save({"weight": Calls()}, f"{folder}/dense.pt")
            with self.assertRaises(pickle.UnpicklingError):
                self.serving(table, folder)
            self.assertFalse(os.path.exists(f"{folder}/called"))

    def test_another_models_folder_is_refused(self):
        model, table = self.trained(self.id())
        _, other = self.trained("other")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(FileNotFoundError):
                self.serving(table, folder)
            starserver.torch.freeze(model, folder)
            with self.assertRaisesRegex(ValueError, "another model"):
                self.serving(other, folder)
            for text in ("", "[]", "{}", '{"format": 2, "embeddings": {}}'):
                with open(os.path.join(folder, "model.json"), "w") as file:
                    file.write(text)
                with self.assertRaises(ValueError):
                    self.serving(table, folder)

    def test_pulls_by_versions_check_their_memory(self):
        table = self.table(self.id(), versions=True)
        table.assign([1, 2], ONES)
        out, versions = numpy.zeros((2, 4), "float32"), numpy.zeros(2, "uint32")
        table.pull([1, 2], out, versions=versions)
        self.assertEqual((out.tolist(), versions.all()), (ONES.tolist(), True))
        out[:] = 7
        table.pull([1, 2], out, versions=versions)
        self.assertEqual(out.tolist(), [[7] * 4] * 2)
        frozen = versions.copy()
        frozen.flags.writeable = False
        for bad in (versions[:1], versions.astype("int64"), versions.astype("float32"), frozen, numpy.zeros(4, "uint32")[::2]):
            with self.assertRaisesRegex(ValueError, "versions"):
                table.pull([1, 2], out, versions=bad)
        with self.assertRaisesRegex(ValueError, "out="):
            table.pull([1, 2], versions=versions)
        with self.assertRaisesRegex(starserver.StarError, "versions"):
            self.table("plain").pull([1, 2], out, versions=versions)


if __name__ == "__main__":
    unittest.main()
