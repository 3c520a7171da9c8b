# SPDX-License-Identifier: BSD-3-Clause
"""starserver.torch against PyTorch's own modules and optimizers, on nodes of 127.0.0.1."""
import copy
import errno
import gc
import os
import pickle
import threading
import time
import unittest

import numpy
import starserver
import starserver.torch
import torch
from support import WithCluster, ctrl_c_after, stop, stopped
from torch import nn
from torch.utils.checkpoint import checkpoint

KEYS = torch.tensor([7, -5, 2**62, 7, 0, -2**63, 2**63 - 1])


class Jagged:
    """What TorchRec's KeyedJaggedTensor looks like."""

    def __init__(self, keys, values, offsets, weights=None):
        self._keys, self._values, self._offsets, self._weights = keys, values, offsets, weights

    def keys(self):
        return self._keys

    def values(self):
        return self._values

    def offsets(self):
        return self._offsets

    def weights_or_none(self):
        return self._weights


def requests(cluster):
    return [reactor["requests"] for node in cluster.status() for reactor in node["reactors"]]


class WithTorch(WithCluster):
    nodes = 1

    def setUp(self):
        torch.manual_seed(1)

    def optimizer(self, model, dense="sgd", **options):
        return starserver.torch.Optimizer(model, dense, **{"rate": 0.5, "name": self.id(), "cluster": self.cluster, **options})


class Lookups(WithTorch):
    def test_rows_of_any_key_and_shape(self):
        table = self.table()
        values = torch.randn(6, 4)
        table.assign(torch.unique(KEYS), values)
        embedding = starserver.torch.Embedding(table)
        peer = {key: row for key, row in zip(torch.unique(KEYS).tolist(), values)}
        for keys in (KEYS, KEYS.reshape(7, 1), KEYS[:6].reshape(2, 3), KEYS.tolist(), KEYS[:1].reshape(()), KEYS[:0], [],
                     (KEYS, torch.tensor([0, 2])), Jagged(["a"], KEYS, torch.tensor([0, 7]))):
            tensor = keys[0] if isinstance(keys, tuple) else KEYS if isinstance(keys, Jagged) else torch.as_tensor(keys).long()
            got = embedding(keys)
            self.assertEqual(got.shape, (*tensor.shape, 4))
            want = [peer[key] for key in tensor.flatten().tolist()]
            self.assertTrue(torch.equal(got.reshape(-1, 4), torch.stack(want) if want else torch.empty(0, 4)))
        self.assertTrue(torch.equal(embedding(torch.tensor([7, 0], dtype=torch.int32))[0], peer[7]))

    def test_bags_are_as_torch_has_them(self):
        table = self.table()
        bags = [[1, 2, 2], [], [9], [1, 9, 5]]
        values = torch.tensor(sum(bags, []))
        offsets = torch.tensor([0, 3, 3, 4])
        weights = torch.rand(len(values))
        for mode in ("sum", "mean", "max"):
            own = nn.EmbeddingBag(10, 4, mode=mode)
            table.assign(range(10), own.weight.detach())
            ours = starserver.torch.EmbeddingBag(table, mode)
            last = starserver.torch.EmbeddingBag(table, mode, include_last_offset=True)
            want = own(values, offsets)
            ends = torch.cat([offsets, torch.tensor([7])])
            for got in (ours(values, offsets), ours((values, offsets)), ours(bags), ours([torch.tensor(bag) for bag in bags]),
                        last(values, ends), ours(Jagged(["a"], values, ends))):
                self.assertTrue(torch.equal(got, want), (mode, got, want))
            square = values[:6].reshape(2, 3)
            self.assertTrue(torch.equal(ours(square), own(square)))
            two = ours(Jagged(["a", "b"], values, ends))  # two features of two examples
            self.assertTrue(torch.equal(two, torch.cat([want[:2], want[2:]], 1)))
            self.assertEqual(ours(torch.empty(0, dtype=torch.long), torch.tensor([0, 0])).tolist(), [[0] * 4] * 2)
            self.assertEqual(ours([]).shape, (0, 4))
            if mode == "sum":
                want = own(values, offsets, per_sample_weights=weights)
                self.assertTrue(torch.equal(ours(values, offsets, weights), want))
                self.assertTrue(torch.equal(ours(Jagged(["a"], values, ends, weights)), want))

    def test_keys_of_64_bits_without_a_sign(self):
        """From 2^63 on they are the negative ones."""
        embedding = starserver.torch.Embedding(self.table())
        values = torch.randn(2, 4)
        embedding.table.assign([-5, 3], values)
        great = 2**64 - 5
        for keys in (numpy.array([great, 3], "uint64"), [great, 3], (numpy.uint64(great), 3), [-5, 3]):
            self.assertEqual(embedding(list(keys) if isinstance(keys, tuple) else keys).tolist(), values.tolist())
        self.assertEqual(embedding([[great], [3]]).tolist(), values.unsqueeze(1).tolist())
        bag = starserver.torch.EmbeddingBag(embedding.table, "sum")
        self.assertEqual(bag([[great], [3]]).tolist(), values.tolist())
        for keys in ([2**64], [[great, 1], [2]], [great, 1.5], [great, True], [great, None]):
            with self.assertRaisesRegex(TypeError, "whole numbers"):
                embedding(keys)

    def test_tensors_as_arrays(self):
        """Of the calls of a table: what NumPy can have is not copied."""
        table = self.table()
        keys, rows = torch.tensor([1, -2]), torch.zeros(2, 4)
        table.push(keys, torch.ones(2, 4))
        for out in (rows, rows.clone().requires_grad_()):
            self.assertIs(table.pull(keys, out), out)
            self.assertEqual(out.tolist(), [[-1] * 4] * 2)
        self.assertIs(table.push_pull(list(keys), [[1] * 4] * 2, rows), rows)
        self.assertEqual(rows.tolist(), [[-2] * 4] * 2)
        variable = self.cluster.variable(f"{self.id()}/variable", (3,), initializer="ones")
        dense = torch.zeros(3)
        self.assertIs(variable.pull_async(out=dense).result(30), dense)
        self.assertEqual(dense.tolist(), [1] * 3)
        with self.assertRaisesRegex(TypeError, r"x\.float\(\)"):
            table.push(keys, torch.ones(2, 4).bfloat16())
        with self.assertRaisesRegex(TypeError, r"x\.float\(\)"):
            table.pull(keys, torch.ones(2, 4).bfloat16())
        with self.assertRaisesRegex(ValueError, "contiguous"):
            table.pull(keys, torch.zeros(4, 2).T)

    def test_wrong_input_is_refused_by_a_sentence(self):
        table = self.table()
        one, bag = starserver.torch.Embedding(table), starserver.torch.EmbeddingBag(table)
        offsets = torch.tensor([0])
        for error, words, call in (
                (TypeError, "whole numbers", lambda: one(torch.tensor([1.5]))),
                (TypeError, "whole numbers", lambda: one(torch.tensor([True]))),
                (TypeError, "whole numbers", lambda: one([[1, 2], [3]])),
                (TypeError, "whole numbers", lambda: one(["a"])),
                (TypeError, "whole numbers", lambda: one([2**64])),
                (ValueError, "offsets begin with 0", lambda: bag(KEYS, torch.tensor([1, 2]))),
                (ValueError, "offsets begin with 0", lambda: bag(KEYS, torch.tensor([0, 3, 2]))),
                (ValueError, "offsets begin with 0", lambda: bag(KEYS, torch.tensor([0, 8]))),
                (ValueError, "one-dimensional", lambda: bag(KEYS, torch.tensor([[0]]))),
                (ValueError, "shape", lambda: bag(KEYS)),
                (ValueError, "shape", lambda: bag(KEYS.reshape(1, 7), offsets)),
                (ValueError, "mode \"sum\"", lambda: bag(KEYS, offsets, torch.ones(7))),
                (ValueError, "mode is", lambda: starserver.torch.EmbeddingBag(table, "median")),
                (ValueError, "7 keys and 3 weights", lambda: starserver.torch.EmbeddingBag(table, "sum")(KEYS, offsets, torch.ones(3))),
                (TypeError, "starserver Table", lambda: starserver.torch.Embedding("words")),
                (TypeError, "pickled", lambda: torch.save(one, os.devnull)),
                (TypeError, "copied", lambda: copy.deepcopy(one))):
            with self.assertRaisesRegex(error, words):
                call()

    def test_evaluation_makes_no_rows(self):
        table = self.table(initializer="constant", scale=2.0)
        embedding = starserver.torch.Embedding(table)
        before = sum(reactor["rows"] for reactor in self.cluster.status()[0]["reactors"])
        with torch.no_grad():
            self.assertEqual(embedding([1]).tolist(), [[2] * 4])
        embedding.eval()
        self.assertFalse(embedding([2]).requires_grad)
        self.assertEqual(sum(reactor["rows"] for reactor in self.cluster.status()[0]["reactors"]), before)
        embedding.train()
        self.assertTrue(embedding([3]).requires_grad)
        self.assertEqual(sum(reactor["rows"] for reactor in self.cluster.status()[0]["reactors"]), before + 1)

    def test_unique_of_many_keys(self):
        from starserver.torch._keys import unique
        for keys in (torch.randint(-50, 50, (10000,)), torch.arange(5000) << 48, torch.arange(5000).flip(0), KEYS, KEYS[:0]):
            distinct, inverse = unique(keys)
            self.assertTrue(torch.equal(distinct[inverse], keys))
            self.assertEqual(distinct.tolist(), list(dict.fromkeys(keys.tolist())))
        native = starserver.torch._keys._native.unique
        good = numpy.zeros(4, "int64")
        frozen = good.copy()
        frozen.flags.writeable = False
        for bad in (good.astype("int32"), good.astype("float64"), good[:3], good.reshape(2, 2), numpy.zeros(8, "int64")[::2]):
            for arguments in ((bad, good, good), (good, bad, good), (good, good, bad)):
                with self.assertRaises(ValueError):
                    native(*arguments)
        with self.assertRaises((ValueError, BufferError)):
            native(good, frozen, good)
        with self.assertRaises(TypeError):
            native([1], good, good)


class Training(WithTorch):
    def pair(self, mode="sum", optimizer="sgd"):
        """(our model, PyTorch's own) with the same values."""
        table = self.table(optimizer=optimizer, rate=0.5)
        peer = nn.Sequential(nn.EmbeddingBag(20, 4, mode=mode), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
        ours = nn.Sequential(starserver.torch.EmbeddingBag(table, mode), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
        ours.load_state_dict({name: value for name, value in peer.state_dict().items() if not name.startswith("0.")})
        table.assign(range(20), peer[0].weight.detach())
        return ours, peer

    def same(self, ours, peer):
        rows = torch.from_numpy(ours[0].table.pull(range(20)))
        self.assertTrue(torch.allclose(rows, peer[0].weight, atol=1e-6), (rows - peer[0].weight).abs().max())
        for one, other in zip(list(ours.parameters()), list(peer.parameters())[1:]):
            self.assertTrue(torch.allclose(one, other, atol=1e-6), (one - other).abs().max())

    def steps(self, ours, peer, count=10, middle=lambda *_: None, optimizer=None, other=None):
        optimizer = optimizer or self.optimizer(ours)
        other = other or torch.optim.SGD(peer.parameters(), 0.5)
        for _ in range(count):
            keys = torch.randint(0, 20, (8, 3))
            losses = [(model(keys) - keys.sum(1, keepdim=True) / 60).square().mean() for model in (ours, peer)]
            for loss in losses:
                loss.backward()
            middle(optimizer, other)
            self.assertAlmostEqual(losses[0].item(), losses[1].item(), delta=1e-5)
            for each in (optimizer, other):
                each.step()
                each.zero_grad()
        self.same(ours, peer)
        return optimizer

    def test_sgd_is_as_torch_has_it(self):
        for mode in ("sum", "mean", "max"):
            with self.subTest(mode):
                ours, peer = self.pair(mode)
                optimizer = self.steps(ours, peer, optimizer=self.optimizer(ours, name=f"{self.id()}.{mode}"))
                self.assertEqual(optimizer.global_step, 10)

    def test_adam_is_as_torch_has_it(self):
        ours, peer = self.pair(optimizer="sgd")
        dense = torch.optim.Adam(list(peer.parameters())[1:], 0.01)
        rows = torch.optim.SGD([peer[0].weight], 0.5)

        class Both:
            def step(self):
                dense.step()
                rows.step()

            def zero_grad(self):
                peer.zero_grad()
        self.steps(ours, peer, optimizer=self.optimizer(ours, "adam", rate=0.01), other=Both())

    def test_a_step_is_one_request_to_each_reactor(self):
        ours, _ = self.pair()
        optimizer = self.optimizer(ours)
        loss = ours(torch.randint(0, 20, (8, 3))).sum()
        loss.backward()
        before = requests(self.cluster)
        optimizer.step()
        self.assertEqual(requests(self.cluster), [before[0] + 1])

    def test_gradients_accumulate_until_the_step(self):
        ours, peer = self.pair()
        optimizer, other = self.optimizer(ours), torch.optim.SGD(peer.parameters(), 0.5)
        for _ in range(3):
            keys = torch.randint(0, 20, (8, 3))
            for model in (ours, peer):
                loss = model(keys).square().mean()
                loss.backward(retain_graph=True)
                loss.backward()  # once more through the same rows
        optimizer.step()
        other.step()
        self.same(ours, peer)
        ours(keys).sum().backward()
        optimizer.zero_grad()
        before = ours[0].table.pull(range(20))
        optimizer.step()
        self.assertTrue((before == ours[0].table.pull(range(20))).all())

    def test_many_gradients_without_a_step_take_no_more_memory_than_their_keys(self):
        embedding = starserver.torch.Embedding(self.table())
        from starserver.torch import _embedding
        most, _embedding.COMPACT_ROWS = _embedding.COMPACT_ROWS, 100
        try:
            for _ in range(100):
                embedding(torch.arange(50)).sum().backward()
            self.assertLessEqual(len(embedding.gradients), 300)
        finally:
            _embedding.COMPACT_ROWS = most
        optimizer = self.optimizer(embedding)
        optimizer.step()
        self.assertEqual(embedding.table.pull([0, 49]).tolist(), [[-100] * 4] * 2)

    def test_nothing_is_kept_of_forward_passes(self):
        embedding = starserver.torch.Embedding(self.table())
        embedding(KEYS).sum()
        gc.collect()
        before = sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())
        for _ in range(50):
            embedding(KEYS).sum()
        gc.collect()
        self.assertLessEqual(sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects()), before + 1)
        self.assertEqual(len(embedding.gradients), 0)

    def test_checkpointed_modules(self):
        ours, peer = self.pair()
        optimizer, other = self.optimizer(ours), torch.optim.SGD(peer.parameters(), 0.5)
        keys = torch.randint(0, 20, (8, 3))
        for model in (ours, peer):
            checkpoint(model, keys, use_reentrant=False).square().mean().backward()
        optimizer.step()
        other.step()
        self.same(ours, peer)
        embedding, anchor = starserver.torch.Embedding(self.table("reentrant")), torch.ones((), requires_grad=True)
        optimizer = self.optimizer(embedding, name="reentrant")
        checkpoint(lambda keys, one: embedding(keys) * one, torch.tensor([100]), anchor, use_reentrant=True).sum().backward()
        optimizer.step()
        self.assertEqual(embedding.table.pull([100]).tolist(), [[-1] * 4])

    def test_hooks_and_autocast(self):
        ours, _ = self.pair()
        seen = []
        ours[0].register_forward_hook(lambda module, given, out: seen.append(out.shape))
        ours[0].register_full_backward_hook(lambda module, given, out: seen.append(out[0].shape))
        optimizer = self.optimizer(ours)
        before = ours[0].table.pull([1])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ours(torch.tensor([[1, 2]]).requires_grad_(False)).float().square().sum() + ours[0]([[1]]).sum()
        loss.backward()
        optimizer.step()
        self.assertIn((1, 4), seen)
        self.assertFalse((before == ours[0].table.pull([1])).all())

    def test_clipping_by_the_whole_norm(self):
        ours, peer = self.pair()

        def clip(optimizer, other):
            norm = optimizer.clip_grad_norm_(0.05)
            self.assertAlmostEqual(norm, float(nn.utils.clip_grad_norm_(peer.parameters(), 0.05)), delta=1e-5)
        self.steps(ours, peer, middle=clip)
        with self.assertRaises(ValueError):
            self.optimizer(ours).clip_grad_norm_(0)

    def test_schedulers_move_the_rate(self):
        ours, peer = self.pair()
        optimizer, other = self.optimizer(ours), torch.optim.SGD(peer.parameters(), 0.5)
        schedules = [torch.optim.lr_scheduler.StepLR(each, 2, 0.5) for each in (optimizer, other)]
        self.steps(ours, peer, optimizer=optimizer, other=other, middle=lambda *_: [one.step() for one in schedules])
        self.assertAlmostEqual(optimizer.param_groups[1]["lr"], 0.5 ** 6)

    def test_local_parameters_stay_local(self):
        ours, _ = self.pair()
        ours[1].bias.requires_grad_(False)
        before = [parameter.clone() for parameter in ours.parameters()]
        optimizer = self.optimizer(ours, local=["3.*"])
        self.assertEqual(optimizer.state_dict()["starserver"]["variables"], [f"{self.id()}/1.weight"])
        ours(torch.randint(0, 20, (8, 3))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        self.assertEqual([torch.equal(*two) for two in zip(before, ours.parameters())], [False, True, True, True])
        self.assertIsNotNone(ours[3].weight.grad)  # whoever trains it looks after it
        with self.assertRaisesRegex(TypeError, "list of names"):
            self.optimizer(ours, local="3.*")

    def test_two_workers_share_a_model(self):
        models = [nn.Sequential(starserver.torch.Embedding(self.table()), nn.Linear(4, 1)) for _ in range(2)]
        first, second = (self.optimizer(model, rank=rank) for rank, model in enumerate(models))
        self.assertTrue(torch.equal(models[0][1].weight, models[1][1].weight))
        for model, optimizer in ((models[0], first), (models[1], second)):
            model(KEYS).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        self.assertEqual(second.global_step, 2)
        first.refresh()
        self.assertTrue(torch.equal(models[0][1].weight, models[1][1].weight))
        self.assertEqual(models[0][1].bias.item(), models[1][1].bias.item())

    def test_dense_parameters_learn_by_a_rate_of_their_own(self):
        layer = nn.Linear(3, 1)
        before = layer.weight.clone()
        optimizer = self.optimizer(layer, "adam", rate=None)
        self.assertGreater(optimizer.param_groups[0]["lr"], 0)
        layer(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        self.assertFalse(torch.equal(before, layer.weight))

    def test_a_layer_that_is_new_keeps_its_values(self):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
        model[1].requires_grad_(False)
        first = self.optimizer(model)
        model(torch.ones(2, 3)).sum().backward()
        first.step()
        trained, new = (model[i].weight.clone() for i in range(2))
        model[1].requires_grad_(True)
        self.optimizer(model)
        self.assertTrue(torch.equal(model[0].weight, trained))
        self.assertTrue(torch.equal(model[1].weight, new))

    def test_frozen_embeddings_are_only_read(self):
        embedding = starserver.torch.Embedding(self.table(optimizer="sgd", rate=0.5))
        head = nn.Linear(4, 1)
        optimizer = self.optimizer(nn.Sequential(embedding, head))
        embedding.requires_grad_(False)
        head(embedding(KEYS)).sum().backward()
        optimizer.step()
        self.assertEqual(embedding.table.pull([7]).tolist(), [[0.0] * 4])
        embedding.requires_grad_(True)
        head(embedding(KEYS)).sum().backward()
        optimizer.step()
        self.assertNotEqual(embedding.table.pull([7]).tolist(), [[0.0] * 4])

    def test_what_embeddings_cannot_do_is_refused(self):
        embedding = starserver.torch.Embedding(self.table())
        with self.assertRaisesRegex(ValueError, "workers="):
            self.optimizer(embedding, staleness=1, rank=0)
        optimizer = self.optimizer(embedding)
        with self.assertRaisesRegex(TypeError, "GradScaler"):
            optimizer.step(grad_scaler=object())
        with self.assertRaisesRegex(ValueError, "of the whole model"):
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        for call in (copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "state_dict"):
                call(optimizer)

    def test_gradients_that_have_gradients(self):
        embedding = starserver.torch.Embedding(self.table(optimizer="sgd", rate=1.0))
        optimizer = self.optimizer(embedding)
        embedding(KEYS[:1]).square().sum().backward(create_graph=True)
        embedding(KEYS[:1]).sum().backward()
        optimizer.step()
        self.assertEqual(embedding.table.pull(KEYS[:1].numpy()).tolist(), [[-1.0] * 4])

    def test_gradients_of_a_step_that_fails_are_not_lost(self):
        embedding = starserver.torch.Embedding(self.table(optimizer="sgd", rate=1.0))
        optimizer = self.optimizer(embedding)
        embedding(KEYS[:1]).sum().backward()
        execute, optimizer._execute = optimizer._execute, None
        with self.assertRaises(TypeError):
            optimizer.step()
        optimizer._execute = execute
        optimizer.step()
        self.assertEqual(embedding.table.pull(KEYS[:1].numpy()).tolist(), [[-1.0] * 4])

    def test_a_worker_waits_for_the_first_one(self):
        embedding = starserver.torch.Embedding(self.table())
        with self.assertRaisesRegex(starserver.TimeoutError, "worker 0"):
            self.optimizer(embedding, rank=1, timeout=0.5)

    def test_two_modules_of_one_table_make_one_update(self):
        table = self.table(optimizer="adagrad", initial_accumulator=0.0)
        both = nn.ModuleList([starserver.torch.Embedding(table), starserver.torch.EmbeddingBag(table, "sum")])
        optimizer = self.optimizer(both)
        (both[0](torch.tensor([1])).sum() + 3 * both[1](torch.tensor([[1]])).sum()).backward()
        optimizer.step()
        self.assertTrue(numpy.allclose(table.pull([1]), -1))  # 4 / sqrt(16), not 1 and then 3 / sqrt(10)

    def test_tied_strided_sparse_and_other_parameters(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.scalar = nn.Parameter(torch.tensor(1.0))
                self.strided = nn.Parameter(torch.ones(3, 2).t())
                self.narrow = nn.Parameter(torch.ones(2, dtype=torch.float16))
                self.wide = nn.Parameter(torch.ones(2, dtype=torch.float64))
                self.empty = nn.Parameter(torch.ones(0, 3))
                self.sparse = nn.Embedding(5, 2, sparse=True)
                self.unused = nn.Parameter(torch.ones(2))
                self.tied = self.scalar
        model = Model()
        row = model.sparse.weight[1].clone()
        optimizer = self.optimizer(model, rate=1.0)
        (model.scalar + model.tied + model.strided.sum() + model.narrow.float().sum() + model.wide.sum() +
         model.sparse(torch.tensor([1])).sum()).backward()
        optimizer.step()
        self.assertEqual(model.scalar.item(), -1)
        self.assertEqual(model.strided.tolist(), [[0] * 3] * 2)
        self.assertFalse(model.strided.is_contiguous())
        self.assertEqual(model.narrow.tolist() + model.wide.tolist(), [0] * 4)
        self.assertEqual(model.unused.tolist(), [1, 1])
        self.assertTrue(torch.allclose(model.sparse.weight[1], row - 1))
        model.odd = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        with self.assertRaisesRegex(TypeError, "odd.*local="):
            self.optimizer(model, name="odd")

    def test_state_is_names_and_rates(self):
        ours, _ = self.pair()
        optimizer = self.optimizer(ours)
        state = optimizer.state_dict()
        self.assertEqual(state["starserver"]["tables"], [ours[0].table.name])
        state["param_groups"][0]["lr"] = 0.25
        optimizer.load_state_dict(state)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)
        with self.assertRaisesRegex(ValueError, "another model"):
            self.optimizer(ours, name="other").load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "another model"):
            optimizer.load_state_dict(torch.optim.SGD(ours.parameters(), 0.5).state_dict())

    def test_a_closure_and_its_loss(self):
        embedding = starserver.torch.Embedding(self.table())
        optimizer = self.optimizer(embedding)

        def closure():
            optimizer.zero_grad()
            loss = embedding([1]).sum()
            loss.backward()
            return loss
        self.assertEqual(float(optimizer.step(closure)), 0)
        self.assertEqual(float(optimizer.step(closure)), -4)


class Faults(WithTorch):
    def model(self, cluster=None):
        cluster = cluster or self.cluster
        model = nn.Sequential(starserver.torch.Embedding(cluster.table(self.id(), 4, optimizer="sgd", rate=1.0)), nn.Linear(4, 1))
        return model, starserver.torch.Optimizer(model, "sgd", rate=1.0, name=self.id(), timeout=5)

    def test_nan_gradients_change_nothing(self):
        model, optimizer = self.model()
        (model(KEYS).sum() * float("nan")).backward()
        before = model[1].weight.detach().clone()
        with self.assertRaises(starserver.StarError) as raised:
            optimizer.step()
        self.assertEqual(raised.exception.errno, errno.EDOM)
        optimizer.zero_grad()
        optimizer.step()
        self.assertTrue(torch.equal(model[1].weight, before))
        self.assertEqual(model[0].table.pull(KEYS).tolist(), [[0] * 4] * 7)

    def test_a_step_with_nan_changes_nothing_on_any_node(self):
        with starserver.LocalCluster(2) as local, local.connect() as cluster:
            model, optimizer = self.model(cluster)
            keys = torch.arange(64)
            rows = model[0](keys)
            for spoil, words in ((lambda: rows * torch.where(keys == 5, torch.nan, 1.0).unsqueeze(1), "row 5 of table"),
                                 (lambda: rows.sum() + model[1].bias * torch.inf, "1.bias")):
                spoil().sum().backward(retain_graph=True)
                with self.assertRaisesRegex(starserver.StarError, words) as raised:
                    optimizer.step()
                self.assertEqual(raised.exception.errno, errno.EDOM)
                self.assertFalse(model[0].table.pull(keys, read_only=True).any())
                optimizer.zero_grad()
            table = cluster.table("clips", 4, optimizer="sgd", rate=1.0, nonfinite="clip")
            clips = starserver.torch.Embedding(table)
            optimizer = starserver.torch.Optimizer(clips, name="clips")
            (clips(keys[:1]).sum() * torch.nan).backward()
            optimizer.step()
            self.assertTrue(numpy.isfinite(table.pull([0])).all())
            self.assertEqual(optimizer.global_step, 1)

    def test_great_gradients_are_finite(self):
        embedding = starserver.torch.Embedding(self.table())
        optimizer = self.optimizer(embedding, rate=1.0)
        (embedding(torch.arange(4)).sum() * 3e38).backward()  # their sum is not
        optimizer.step()
        self.assertEqual(embedding.table.pull([3])[0, 0], numpy.float32(-3e38))

    def test_another_definition(self):
        model, _ = self.model()
        with self.assertRaises(starserver.StarError) as raised:
            starserver.torch.Optimizer(nn.Sequential(model[0], nn.Linear(4, 2)), "sgd", rate=1.0, name=self.id())
        self.assertEqual(raised.exception.errno, errno.EEXIST)

    def test_what_is_no_model_or_no_name_of_an_optimizer(self):
        model = nn.Linear(2, 1)
        with self.assertRaisesRegex(TypeError, "pass the nn.Module"):
            self.optimizer(model.parameters())
        with self.assertRaisesRegex(TypeError, "name of an optimizer"):
            self.optimizer(model, torch.optim.Adam)

    def test_models_without_a_cluster_or_of_two(self):
        with self.assertRaisesRegex(ValueError, "0 clusters"):
            starserver.torch.Optimizer(nn.Linear(1, 1))
        with self.local.connect() as other:
            two = nn.ModuleList([starserver.torch.Embedding(cluster.table("two", 4)) for cluster in (self.cluster, other)])
            with self.assertRaisesRegex(ValueError, "2 clusters"):
                starserver.torch.Optimizer(two)
            with self.assertRaisesRegex(ValueError, "another cluster"):
                starserver.torch.Optimizer(two, cluster=self.cluster)

    def test_ctrl_c_in_a_step(self):
        model, optimizer = self.model()
        model(KEYS).sum().backward()
        with stopped(self.local.processes):
            best = 99.0
            for _ in range(8):
                with ctrl_c_after(0.15) as moments, self.assertRaises(KeyboardInterrupt):
                    optimizer.step()
                best = min(best, time.monotonic() - moments[0])
                if best < 0.1:
                    break
        self.assertLess(best, 0.1)
        optimizer.zero_grad()
        model(KEYS).sum().backward()
        optimizer.step()

    def test_a_node_that_dies_in_the_middle_of_a_step(self):
        with starserver.LocalCluster() as local, local.connect() as cluster:
            model, optimizer = self.model(cluster)
            model(KEYS).sum().backward()
            before = [parameter.detach().clone() for parameter in model.parameters()]
            stop(local.processes)
            timer = threading.Timer(0.3, local.processes[0].kill)
            timer.start()
            with self.assertRaises(starserver.StarError) as raised:
                optimizer.step()
            timer.join()
            self.assertIn("127.0.0.1", str(raised.exception))
            for parameter, value in zip(model.parameters(), before):
                self.assertTrue(torch.equal(parameter, value))


if __name__ == "__main__":
    unittest.main()
