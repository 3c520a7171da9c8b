# SPDX-License-Identifier: BSD-3-Clause
"""Synchronous training: Optimizer(grads_to_wait=...)."""
import concurrent.futures
import errno
import multiprocessing
import os
import signal
import threading
import time
import unittest
from unittest import mock

import numpy
import starserver
import starserver.torch
import torch
from starserver.torch import _rounds
from support import stopped
from test_torch import WithTorch
from torch import nn

STEPS, BATCH, RATE = 12, 8, 0.1
seeding = threading.Lock()  # all threads have one generator


class Model(nn.Module):
    """By a sparse and a dense part; each optimizer here shows whether it was asked once or more often."""

    def __init__(self, cluster, name):
        super().__init__()
        self.rows = starserver.torch.EmbeddingBag(cluster.table(f"{name}/rows", 4, optimizer="adagrad", rate=0.5, initializer="constant",
                                                                scale=0.3), "sum")
        with seeding:
            torch.manual_seed(5)
            self.top = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))

    def forward(self, keys):
        return self.top(self.rows(keys)).squeeze(1)


def batches(count=STEPS):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, 30, (2 * BATCH, 3), generator=generator) for _ in range(count)]


def train(cluster, name, data, **options):
    """The losses of a worker, and its optimizer."""
    model = Model(cluster, name)
    optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, name=name, **options)
    losses = []
    for keys in data:
        loss = (model(keys) - keys.sum(1) / 30).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    optimizer.finish()
    return losses, optimizer


def work(address, name, rank, losses, options):
    """A worker's process: each second row of each batch is its own."""
    torch.set_num_threads(1)
    with starserver.connect(address) as cluster:
        own, optimizer = train(cluster, name, [keys[rank::2] for keys in batches()], rank=rank, workers=2, timeout=120, **options)
        losses.put((rank, own, optimizer.global_step, optimizer.dropped))


class Sync(WithTorch):
    def together(self, work, workers):
        """work(rank) in threads."""
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return [done.result(200) for done in [pool.submit(work, rank) for rank in range(workers)]]

    def values(self, name):
        model = Model(self.cluster, name)
        optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, name=name)
        return [torch.from_numpy(model.rows.table.pull(range(30), read_only=True)), *model.parameters()], optimizer.global_step

    def same(self, one, other, tolerance=1e-5):
        self.assertEqual(one[1], other[1])
        for mine, yours in zip(one[0], other[0]):
            self.assertTrue(torch.allclose(mine, yours, atol=tolerance), (mine - yours).abs().max())

    def test_two_processes_are_one_with_the_doubled_batch(self):
        alone, _ = train(self.cluster, "alone", batches())
        processes = multiprocessing.get_context("spawn")
        losses = processes.Queue()
        both = [processes.Process(target=work, args=(self.local.address, "both", rank, losses, {"grads_to_wait": 2})) for rank in (0, 1)]
        for process in both:
            process.start()
        said = sorted(losses.get(timeout=200) for _ in both)
        for process in both:
            process.join(60)
            self.assertEqual(process.exitcode, 0)
        self.assertEqual([(rank, steps, dropped) for rank, _, steps, dropped in said], [(0, STEPS, 0), (1, STEPS, 0)])
        for mine, *halves in zip(alone, said[0][1], said[1][1]):
            self.assertAlmostEqual(mine, sum(halves) / 2, delta=1e-5)
        self.assertLess(alone[-1], alone[0])
        self.same(self.values("alone"), self.values("both"))

    def test_of_three_workers_the_first_two_count(self):
        seen = self.together(lambda rank: train(self.cluster, "backups", [keys[rank::3] for keys in batches()], rank=rank, workers=3,
                                                grads_to_wait=2, timeout=60), 3)
        # Each step of each worker was in a round, or was dropped; near the end there are fewer to wait for.
        steps = max(optimizer.global_step for _, optimizer in seen)
        self.assertEqual(self.values("backups")[1], steps)
        dropped = sum(optimizer.dropped for _, optimizer in seen)
        self.assertLessEqual(3 * STEPS - dropped, 2 * steps)
        self.assertGreaterEqual(3 * STEPS - dropped, steps)

    def test_what_comes_too_late_is_dropped(self):
        first, second = (starserver.torch.Optimizer(Model(self.cluster, "late"), "sgd", rate=RATE, name="late", rank=rank, workers=2,
                                                    grads_to_wait=1) for rank in (0, 1))
        rounds, complete = first._rounds, first._rounds._complete
        first_has_come = threading.Event()

        def when_both_have_tickets():
            first_has_come.set()
            while rounds._table.pull([rounds._round.tag], read_only=True)[0, _rounds.TICKETS] < 2:
                time.sleep(0.001)
            complete()
        rounds._complete = when_both_have_tickets
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            step = pool.submit(first.step)
            self.assertTrue(first_has_come.wait(60))
            second.step()
            step.result(60)
        self.assertEqual([(each.global_step, each.dropped) for each in (first, second)], [(1, 0), (1, 1)])

    def test_the_scheduler_of_who_ends_a_round_says_the_rate(self):
        def run(rank):
            model = Model(self.cluster, "scheduled")
            optimizer = starserver.torch.Optimizer(model, "sgd", rate=RATE, name="scheduled", rank=rank, workers=2, grads_to_wait=2)
            before = model.top[2].bias.item()
            for group in optimizer.param_groups:
                group["lr"] = 0.5
            model(torch.tensor([[1]])).sum().backward()
            optimizer.step()
            optimizer.finish()
            return before - model.top[2].bias.item()
        for moved in self.together(run, 2):
            self.assertAlmostEqual(moved, 0.5, delta=1e-6)

    def test_a_worker_that_dies_and_is_started_again(self):
        """Between its ticket and its last gradient: what it has pushed is in no sum."""
        name, died = "restarted", threading.Event()

        class Died(Exception):
            pass

        def run(rank):
            data = [keys[rank::2] for keys in batches()]
            if rank == 0:
                return train(self.cluster, name, data, rank=0, workers=2, grads_to_wait=2, timeout=120)[1].dropped
            whole = _rounds.Rounds._try

            def half(rounds, pushes, end):
                ticket = rounds._table.push_pull([rounds._round.tag], _rounds._minus(_rounds.TICKETS))[0]
                if ticket[_rounds.TICKETS] <= 2:
                    rounds._cluster.execute(pushes(rounds._round.tag)[:2])
                raise Died

            model = Model(self.cluster, name)
            optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, name=name, rank=1, workers=2, grads_to_wait=2, timeout=120)
            for number, keys in enumerate(data):
                (model(keys) - keys.sum(1) / 30).square().mean().backward()
                if number == 5:
                    optimizer._rounds._try = half.__get__(optimizer._rounds)
                    self.assertRaises(Died, optimizer.step)
                    died.set()
                    # Another process in its place, which computes the same batch from the same values.
                    model = Model(self.cluster, name)
                    optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, name=name, rank=1, workers=2, grads_to_wait=2,
                                                           timeout=120)
                    (model(keys) - keys.sum(1) / 30).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            optimizer.finish()
            self.assertIs(whole, _rounds.Rounds._try)
            return optimizer.dropped
        self.assertEqual(self.together(run, 2), [0, 0])
        self.assertTrue(died.is_set())
        train(self.cluster, "not restarted", batches())
        self.same(self.values(name), self.values("not restarted"))

    def test_who_has_completed_a_round_and_died_before_the_commit_is_helped(self):
        complete = _rounds.Rounds._complete
        skipped = []

        def run(rank):
            model = Model(self.cluster, "helped")
            optimizer = starserver.torch.Optimizer(model, "sgd", rate=RATE, name="helped", rank=rank, workers=2, grads_to_wait=2, timeout=60)
            first = [True]

            def forgets():
                if not first.pop() if first else False:
                    return
                if not skipped:
                    skipped.append(rank)
                    return
                complete(optimizer._rounds)
            optimizer._rounds._complete = forgets
            model(torch.tensor([[rank]])).sum().backward()
            optimizer.step()
            optimizer.finish()
            return optimizer.global_step
        self.assertEqual(self.together(run, 2), [1, 1])
        self.assertEqual(len(skipped), 1)

    def test_one_ends_a_round_while_another_throws_it_away(self):
        """Either all of a step's gradients are applied, on all nodes, or none are, and the step is made again."""
        name = "raced"
        stop = threading.Event()

        def disturb():
            cluster = self.local.connect()
            while not stop.is_set():
                model = Model(cluster, name)
                starserver.torch.Optimizer(model, "adam", rate=RATE, name=name, rank=2, workers=3, grads_to_wait=2, timeout=60).finish()
            cluster.close()
        other = threading.Thread(target=disturb)
        first = threading.Event()

        def run(rank):
            if rank == 1:
                first.wait(60)
            model = Model(self.cluster, name)
            optimizer = starserver.torch.Optimizer(model, "adam", rate=RATE, name=name, rank=rank, workers=3, grads_to_wait=2, timeout=120)
            first.set()
            for keys in batches():
                keys = keys[rank::2]
                (model(keys) - keys.sum(1) / 30).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            optimizer.finish()
            return optimizer.global_step, optimizer.dropped
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = [pool.submit(run, rank) for rank in (0, 1)]
            first.wait(60)
            other.start()
            try:
                self.assertEqual([done.result(200) for done in both], [(STEPS, 0), (STEPS, 0)])
            finally:
                stop.set()
                other.join(60)
        train(self.cluster, "not raced", batches())
        self.same(self.values(name), self.values("not raced"))

    def test_a_worker_that_does_not_come_is_waited_for_until_the_timeout(self):
        model = Model(self.cluster, "waits")
        optimizer = starserver.torch.Optimizer(model, "sgd", rate=RATE, name="waits", rank=0, workers=2, grads_to_wait=2, timeout=0.6)
        before = model.top[2].bias.item()
        model(torch.tensor([[1]])).sum().backward()
        with self.assertRaisesRegex(starserver.TimeoutError, "step 1: 1 of 2 gradients have arrived"):
            optimizer.step()
        # The other one begins: each one's gradient is applied once, though this one was pushed already.
        other = Model(self.cluster, "waits")
        optimizer.timeout = 60
        second = starserver.torch.Optimizer(other, "sgd", rate=RATE, name="waits", rank=1, workers=2, grads_to_wait=2)
        other(torch.tensor([[2]])).sum().backward()
        optimizer._rounds._timeout = 60
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(each.step) for each in (optimizer, second)]:
                done.result(60)
        self.assertAlmostEqual(model.top[2].bias.item(), before - RATE, delta=1e-6)
        self.assertEqual((optimizer.global_step, second.global_step), (1, 1))

    def test_ctrl_c_in_a_round_and_on(self):
        model = Model(self.cluster, "interrupted")
        optimizer = starserver.torch.Optimizer(model, "sgd", rate=RATE, name="interrupted", rank=0, workers=2, grads_to_wait=2)
        model(torch.tensor([[1]])).sum().backward()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            optimizer.step()
        self.assertLess(time.monotonic() - began, 10)
        starserver.torch.Optimizer(Model(self.cluster, "interrupted"), "sgd", rate=RATE, name="interrupted", rank=1, workers=2,
                                   grads_to_wait=2).finish()
        optimizer.step()
        self.assertEqual(optimizer.global_step, 1)

    def test_a_job_that_is_run_again_waits_for_all(self):
        for run in (1, 2):
            self.assertEqual([optimizer.global_step for _, optimizer in self.together(
                lambda rank: train(self.cluster, "again", [keys[rank::2] for keys in batches(4)], rank=rank, workers=2, grads_to_wait=2), 2)],
                [4 * run] * 2)

    def moved(self, name, **options):
        """By how much rows 1 and 2 move in a step: both workers have a gradient of 1 for row 1, and one of them two such for row 2."""
        def work(rank):
            rows = starserver.torch.EmbeddingBag(self.cluster.table(f"{name}/rows", 2, optimizer="sgd", rate=1.0), "sum")
            model = nn.Sequential(rows, nn.Linear(2, 1, bias=False))
            with torch.no_grad():
                model[1].weight.fill_(1)
            optimizer = starserver.torch.Optimizer(model, "sgd", rate=1.0, name=name, rank=rank, workers=2, grads_to_wait=2, **options)
            model(torch.tensor([[1], [2], [2]] if rank else [[1]])).sum().backward()
            optimizer.step()
            optimizer.finish()
            return model[1].weight.tolist()
        dense = self.together(work, 2)
        self.assertEqual(dense[0], dense[1])
        return -self.cluster.lookup(f"{name}/rows").pull([1, 2], read_only=True)[:, 0]

    def test_rows_move_by_the_mean_of_who_has_touched_them(self):
        self.assertEqual(self.moved("by-all").tolist(), [1, 1])
        self.assertEqual(self.moved("by-row", mean_by_row=True).tolist(), [1, 2])

    def test_what_gradients_are_divided_by_is_the_same_for_all(self):
        first, second = (starserver.torch.Optimizer(Model(self.cluster, "divided"), "sgd", rate=RATE, name="divided", rank=rank, workers=2,
                                                    grads_to_wait=1, mean_by_row=rank == 1) for rank in (0, 1))
        with self.assertRaisesRegex(starserver.StarError, "mean_by_row=True, and this one False"):
            first.step()
        second.step()
        self.assertEqual(second.global_step, 1)

    def test_arguments(self):
        for options, what in (({"grads_to_wait": 1, "staleness": 1, "workers": 1}, "give one of them"),
                              ({"grads_to_wait": 1, "rank": 0}, "workers="), ({"grads_to_wait": 0, "workers": 2, "rank": 0}, "from 1 to"),
                              ({"grads_to_wait": 3, "workers": 2, "rank": 0}, "from 1 to"), ({"mean_by_row": True}, "grads_to_wait=, too")):
            with self.assertRaisesRegex(ValueError, what):
                starserver.torch.Optimizer(Model(self.cluster, "arguments"), "sgd", rate=RATE, name="arguments", **options)
        with self.assertRaisesRegex(starserver.StarError, "lamb"):
            starserver.torch.Optimizer(Model(self.cluster, "lamb"), "lamb", rate=RATE, name="lamb", rank=0, workers=1, grads_to_wait=1)
        with mock.patch.dict(os.environ, {"RANK": "0", "WORLD_SIZE": "1"}):
            losses, optimizer = train(self.cluster, "environment", batches(3), grads_to_wait=1)
        self.assertEqual((len(losses), optimizer.global_step, optimizer.dropped), (3, 3, 0))

    def test_nan_and_nodes_that_say_nothing(self):
        model = Model(self.cluster, "nan")
        optimizer = starserver.torch.Optimizer(model, "sgd", rate=RATE, name="nan", rank=0, workers=1, grads_to_wait=1, timeout=1)
        (model(torch.tensor([[1]])) * numpy.nan).sum().backward()
        with self.assertRaises(starserver.StarError) as raised:
            optimizer.step()
        self.assertEqual(raised.exception.errno, errno.EDOM)
        optimizer.zero_grad()
        with stopped(self.local.processes):
            with self.assertRaises(starserver.TimeoutError):
                optimizer.step()
        optimizer.step()
        self.assertTrue(all(bool(parameter.isfinite().all()) for parameter in model.parameters()))


if __name__ == "__main__":
    unittest.main()
