# SPDX-License-Identifier: BSD-3-Clause
"""export_graph: each operation, the zoo's models, and what is refused. startrain trains what was exported."""
import inspect
import json
import os
import subprocess
import tempfile

import factors
import golden
import starserver.torch
import torch
import zoo
from metrics import auc
from starserver import _control
from starserver.torch._export import _trace
from starserver.torch._export_elementwise import OPERATIONS
from support import SLOW
from test_torch import WithTorch
from torch import nn
from torch.nn import functional as F

STARTRAIN = os.environ.get("STARTRAIN", "startrain")
BATCH, CLOSE = 6, 1e-5

# Of x [n, 3, 4] in (0.5, 1.5), of i [n] in 0 to 2, and of parameters a [3, 4], b [4], s [] and w [4, 5].
EXPRESSIONS = """
-x * m.a | x.neg() + torch.negative(m.a) | torch.exp(m.a) * x | (x.log() * m.a) | torch.sqrt(x) * m.a | torch.square(m.a) * x | (x * m.a).abs() + torch.absolute(m.b)
F.relu(x * m.a) | m.relu(m.a * x) | torch.relu(m.a) * x | m.sigmoid(m.a + x) | torch.tanh(m.b) - x | x.sign() * m.a + m.a.sgn()
x + m.a | x.add(m.a, alpha=3) | x - m.s | 2 - m.a * x | torch.rsub(m.a, x) | x.subtract(m.b) | x * m.b * 2 | torch.multiply(m.a, x) | x / (m.a + 5) | torch.div(m.a, x)
m.a.true_divide(2) * x | torch.divide(m.a, 3) + x | torch.maximum(m.a, x) | torch.minimum(x, m.b) | torch.max(m.a, x) | torch.min(m.b, x) | i.unsqueeze(1) / 2 + m.b
(x < m.a) * m.b | (x > 1) * m.b | torch.where(x >= 1, m.a, m.b) | torch.where(m.a <= x, x, m.a) | (x == 1) * m.a + x.ne(1) * m.b | ((x > 0.7) & (x < 1.2)) * m.a
torch.logical_and(x > 0.7, x < 1.2) * m.b | (~(x > 1)) * m.a | torch.logical_not(x > 1) * m.a | torch.less(x, 1) * m.a + torch.greater(x, 1) * m.b | torch.bitwise_not(x > 1) * m.a
torch.less_equal(x, 1) * m.a + x.greater_equal(1) * m.b + x.not_equal(m.s) * m.a | x.eq(m.s).float() + m.a
m.a ** 2 * x | (m.a * x).pow(3) | x ** 4 * m.b | x ** 0.5 * m.a | x.pow(-1) * m.a | m.a ** 1 * x | torch.float_power(m.a, 2).float() + x | torch.rsqrt(x) * m.a | x.reciprocal() * m.a | torch.log1p(x) * m.a
(m.a * x).clamp(-0.2, 0.4) | torch.clip(m.a * x, max=0.3) | (m.a * x).clamp_min(0) | m.a.clamp_max(0.1) + x | F.hardtanh(m.a * x, -0.3, 0.3) | F.relu6(8 * m.a * x) | F.silu(m.a * x) | F.elu(m.a * x)
F.leaky_relu(m.a * x, 0.1) | F.prelu(x * m.a, m.c) | F.prelu((x * m.a).flatten(1), m.s.reshape(1)) | F.softplus(m.a * x) | F.softplus(m.a * x, beta=2) | F.logsigmoid(m.a * x)
(m.a * x).masked_fill(x > 1, 0.5) | F.dropout(m.a * x, 0.5, False) | m.dropout(m.a * x) | (m.a * x).contiguous().clone() | (m.a * x).detach() * m.b | (i > 1).float().unsqueeze(1) * m.b
(m.a * x).to(torch.float64).float() | x.double() * m.a.double() | (m.a * x).type(torch.float32) | (x * 3).long() * m.b | (x * 3).int().type_as(x) * m.b | x.bool() * m.a | (x * m.a).cpu()
(m.a * x).reshape(-1, 2) | (m.a * x).view(x.size(0), -1) | (m.a * x).flatten() | (m.a * x).ravel() | (m.b * x)[:, :1].squeeze(1) | i.unsqueeze(-1) * m.b | (m.a * x).view_as(x) | x.flatten(1).reshape_as(x) * m.a
(m.a * x).flatten(1).unflatten(1, (4, 3)) | (m.a * x).permute(0, 2, 1) | torch.permute(m.a * x, (2, 0, 1)) | x.transpose(1, 2) * m.s | torch.swapaxes(x * m.a, 0, 1) | x.swapdims(1, 2) + m.s | m.a.t() + m.s + 0 * x.sum() | m.w.T + x.sum() | (x * m.a).mT
torch.cat([x, x * m.a], 1) | torch.cat([m.a * x, x], -1) | torch.concat([x, m.a.expand(x.shape[0], 3, 4)], 2) | torch.stack([x, m.a * x], 1) | torch.stack([m.b * j for j in range(70)]) + x.sum()
m.unpacked((x * m.a).split(1, 1)) | m.unpacked(torch.split(x * m.a, [1, 2], 1)) | m.unpacked((m.a * x).chunk(2, 2)) | m.unpacked(torch.tensor_split(m.a * x, 2, 2)) | m.unpacked((m.a * x).unbind(1)) | m.unpacked((m.a * x).split_with_sizes([1, 2], 1))
x.new_zeros(x.shape[0], 4) + m.b | x.new_ones((x.size(0), 2)) * m.s | torch.zeros_like(x) + m.a | torch.ones_like(x) * m.a | torch.full_like(x, 3.0) * m.a | x.new_full((x.shape[0], 4), 2.0) * m.b
m.b.expand(x.size(0), 4) | m.a.expand_as(x) * x | torch.broadcast_to(m.b, (3, 4)) + x | m.b.repeat(3, 1) + x | torch.tile(m.b, (3, 2)) + x.sum() | x.repeat(1, 2, 1) * m.s
(x * m.a)[:, 1] | (x * m.a)[:, 1:, ::1] | (x * m.a)[..., -1] | (x * m.a)[:, None, :-1] | (x * m.a)[2:, -2:] | (x * m.a)[:, :, [0, 3, 3]] | (x * m.a)[:, [0, 1, 1], [2, 3, 0]] | m.a[i] * x[:, 0] | m.a[[2, 0]] + x.sum()
(x * m.a).select(1, 2) | (x * m.a).narrow(2, 1, 2) | torch.index_select(m.a, 0, i) + x[:, 1] | torch.index_select(x * m.a, 2, torch.tensor([3, 1])) | (x * m.a)[:4] | x[1] * m.a
(x * m.a).sum() | (x * m.a).sum(1) | x.sum((1, 2), keepdim=True) * m.a | (x * m.a).mean(-1) | torch.mean(m.a * x, dim=[0, 2]) | (x * m.a).amax(2) | torch.amax(x * m.a, (1, 2), True) | (x > 1).sum(1) * m.b | i.sum() * m.b + x.sum()
(x * m.a).norm() | torch.norm(x * m.a, dim=2) | F.cosine_similarity(x, m.a + x, 2) | F.normalize(m.a * x, dim=2) | torch.softmax(x * m.a, 2) | (m.a * x).softmax(1) | F.log_softmax(m.a * x, -1) | m.softmax(m.a * x)
torch.matmul(x, m.w) | x @ m.w | x[:, 0] @ m.w | torch.bmm(x, (x * m.a).transpose(1, 2)) | m.a.mm(m.w) * x.sum() | m.a.mv(m.b) * x.sum() | m.b @ m.w + x.sum() | F.linear(x, m.w.t(), None) | F.linear(x[:, 0], m.a, m.c) | torch.addmm(m.w[0], x[:, 0], m.w)
F.layer_norm(x * m.a, [4], m.b, m.b) | F.layer_norm(x * m.a, (4,)) | F.batch_norm(x[:, 0] * m.b, None, None, m.b, m.b, True) | F.batch_norm(x * m.a, None, None, None, None, True) | m.norm(x * m.a) | m.plain(x[:, 0] * m.b)
F.embedding(i, m.a) * x[:, 0] | F.embedding(i, torch.ones(3, 4)) * m.b + x[:, 0] | m.rows(i) * x[:, 0] | F.embedding_bag(torch.stack([i, i], 1), m.a, mode="sum") + x[:, 1] | m.bag(torch.stack([i, 2 - i], 1)) * x[:, 0] | F.embedding_bag(torch.stack([i, i], 1), m.a, mode="sum", per_sample_weights=x[:, 0, :2]) | F.embedding_bag(torch.stack([i, 2 - i], 1), m.a, mode="max") + x[:, 0]
F.binary_cross_entropy_with_logits(m.a * x, x - 0.5) | F.binary_cross_entropy_with_logits(m.a * x, (x > 1).float(), weight=x, reduction="sum") | m.sigmoid_loss(m.a * x, x) | F.binary_cross_entropy(torch.sigmoid(m.a * x), (x > 1).float()) | F.cross_entropy(x[:, 0] * m.b, i) | m.softmax_loss(x[:, 0] * m.b, i) | F.mse_loss(m.a * x, x) | F.l1_loss(m.a * x, x, reduction="sum")
m.inplace(x * m.a) | m.more(x, m.b)
"""


class Expression(nn.Module):
    def __init__(self, text):
        super().__init__()
        torch.manual_seed(3)
        for name, shape in (("a", (3, 4)), ("b", 4), ("c", 3), ("s", ()), ("w", (4, 5))):
            setattr(self, name, nn.Parameter(torch.randn(shape)))
        self.norm, self.plain, self.rows, self.bag = nn.BatchNorm1d(3), nn.BatchNorm1d(4, affine=False), nn.Embedding(3, 4), nn.EmbeddingBag(3, 4)
        self.relu, self.sigmoid, self.dropout, self.softmax = nn.ReLU(), nn.Sigmoid(), nn.Dropout(0), nn.Softmax(-1)
        self.sigmoid_loss, self.softmax_loss = nn.BCEWithLogitsLoss(reduction="none"), nn.CrossEntropyLoss(reduction="sum")
        self.text = text

    @staticmethod
    def unpacked(parts):
        return parts[0] * parts[1].sum()

    @staticmethod
    def inplace(x):
        x = x + 0
        F.relu(x, inplace=True)
        x = x * 3
        x += 1
        x *= 2
        x -= 0.5
        x /= 3
        return x

    @staticmethod
    def more(x, b):
        y = x * b
        rows, columns = y.size(1), y.shape[2]
        return y.reshape(-1, rows * columns) * columns

    def forward(self, x, i):
        found = eval(self.text, {"torch": torch, "F": F, "m": self, "x": x, "i": i})
        return torch.mean(torch.square(found.float() + 0.1))


def drawn(count, seed=5):
    draw = torch.Generator().manual_seed(seed)
    return [(torch.rand(BATCH + n % 2, 3, 4, generator=draw) + 0.5, torch.randint(0, 3, (BATCH + n % 2,), generator=draw))
            for n in range(count)]


class Exported(WithTorch):
    nodes = 1

    def startrain(self, graph, batches, *options, ps="local", values=True):
        """The losses of training an exported graph."""
        with tempfile.TemporaryDirectory() as folder:
            graph.save(f"{folder}/graph")
            self.assertEqual(graph.save_batches(f"{folder}/batches", batches), len(batches))
            given = ["--values", f"{folder}/graph.values"] if graph.values and values else []
            done = subprocess.run([STARTRAIN, f"{folder}/graph.star", "--ps", ps, "--train", f"{folder}/batches", "--report",
                                   f"{folder}/report", *given, *options], capture_output=True, text=True, timeout=60 * SLOW)
            self.assertEqual(done.returncode, 0, f"{done.stderr}\n{graph.text[:2000]}")
            with open(f"{folder}/report", encoding="ascii") as file:
                return [json.loads(line)["loss"] for line in file]

    def score(self, command, graph, batches, ps, *options):
        """What `startrain FILE.star evaluate` or `predict` prints."""
        with tempfile.TemporaryDirectory() as folder:
            graph.save(f"{folder}/graph")
            graph.save_batches(f"{folder}/batches", batches)
            done = subprocess.run([STARTRAIN, f"{folder}/graph.star", command, "--ps", ps, "--test", f"{folder}/batches", *options],
                                  capture_output=True, text=True, timeout=60 * SLOW)
            self.assertEqual(done.returncode, 0, f"{done.stderr}\n{graph.text[:2000]}")
            return done.stdout

    def rows(self):
        """Of the case's table, on all nodes."""
        return sum(one["stats"]["rows"] for address in _control.addresses(self.cluster.ps) for one in _control.call(address, "tables", 10)
                   if one["name"] == self.id())

    def assert_close(self, losses, others, what):
        self.assertEqual(len(losses), len(others))
        apart = max(abs(a - b) / max(1, abs(b)) for a, b in zip(losses, others))
        self.assertLess(apart, CLOSE, f"{what}: {losses[:4]}... instead of {others[:4]}...")
        return apart


class Operations(Exported):
    def test_each_operation_is_that_of_pytorch(self):
        """Three steps of gradient descent: the losses of PyTorch."""
        seen = set()
        for text in filter(None, (one.strip() for line in EXPRESSIONS.splitlines() for one in line.split(" | "))):
            with self.subTest(text):
                model, batches = Expression(text), drawn(3)
                seen |= {str(getattr(node.target, "__name__", node.target)) for node in _trace(model)[0].nodes}
                graph = starserver.torch.export_graph(model, batches[0], dense="sgd", rate=0.01)
                losses, optimizer = [], torch.optim.SGD(model.parameters(), 0.01)
                for batch in batches:
                    loss = model(*batch)
                    losses.append(loss.item())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                self.assert_close(self.startrain(graph, batches), losses, text)
        never = {"scaled_dot_product_attention", "concatenate", "half", "bool", "requires_grad", "zeros", "ones", "full", "logsigmoid"}
        self.assertEqual(set(OPERATIONS) - seen - never, set(), "operations that no expression has")



class Zoo(Exported):
    """Single precision everywhere; a loss is the mean of a batch of 16, and there are 100 steps."""

    def test_losses_are_those_of_startrains_models(self):
        """Of the model in C (golden.inc is what tests/models holds it to), of starserver.torch, and of the exported graph."""
        vectors = zoo.golden_losses(os.path.join(os.path.dirname(golden.__file__), "golden.inc"))
        self.assertEqual({key[0] for key in vectors}, set(zoo.MODELS))
        for (name, table, rate, dense, dense_rate), losses in vectors.items():
            with self.subTest(name, optimizer=table), starserver.LocalCluster(1) as local, local.connect() as cluster:
                model = zoo.MODELS[name](cluster, table, rate)
                batches = [model.batch(step) for step in range(golden.STEPS)]
                own = {"dense": dense, "rate": dense_rate, "name": f"{name}/dense"}
                graph = starserver.torch.export_graph(model, batches[0], **own)
                trained = zoo.train(model, self.optimizer(model, cluster=cluster, **own), batches)
                to_c = self.assert_close(trained, losses, "starserver.torch, and the model in C")
                to_graph = self.assert_close(self.startrain(graph, batches), trained, "the graph, and starserver.torch")
                print(f"# {name} by {table}: {to_c:.2g} from the model in C, {to_graph:.2g} from the exported graph of "
                      f"{len(graph.text.splitlines())} lines")

    def test_every_protocol_trains_it_on_ps_tasks(self):
        """The variables are the optimizer's: what was trained in Python is trained on, and the other way round."""
        for protocol in ("star_server", "star_server_lite", "grpc++"):
            with self.subTest(protocol), starserver.LocalCluster(2) as local, local.connect() as cluster:
                model = zoo.DLRM(cluster)
                batches = [model.batch(step) for step in range(100)]
                graph = starserver.torch.export_graph(model, batches[0], name="dense", rate=0.001)
                optimizer = self.optimizer(model, "adam", rate=0.001, name="dense", cluster=cluster)
                losses = zoo.train(model, optimizer, batches[:30])
                losses += self.startrain(graph, batches[30:60], "--protocol", protocol, ps=local.address, values=protocol == "grpc++")
                optimizer.refresh()
                losses += zoo.train(model, optimizer, batches[60:])
                vectors = zoo.golden_losses(os.path.join(os.path.dirname(golden.__file__), "golden.inc"))
                self.assert_close(losses, vectors["dlrm", "adam", 0.001, "adam", 0.001], protocol)

    def test_factors_are_as_good_as_those_of_the_program_in_c(self):
        """docs/examples/torch/factors.py on ratings like MovieLens's, by starserver.torch and by startrain: AUC of pairs held out."""
        ratings = factors.Ratings(1)
        batches = [ratings.draw(512, held_out=False) for _ in range(400)]
        users, items, liked = ratings.draw(4000, held_out=True)
        found = []
        for by_startrain in (False, True):
            with starserver.LocalCluster(1) as local, local.connect() as cluster:
                model = factors.Factors(cluster, 8)
                if by_startrain:
                    graph = starserver.torch.export_graph(model, batches[0], F.binary_cross_entropy_with_logits)
                    self.startrain(graph, batches, ps=local.address)
                else:
                    optimizer = self.optimizer(model, cluster=cluster)
                    for batch in batches:
                        F.binary_cross_entropy_with_logits(model(*batch[:2]), batch[2]).backward()
                        optimizer.step()
                with torch.no_grad():
                    found.append(auc(model(users, items), liked))
        print(f"# AUC {found[0]:.5f} by starserver.torch, {found[1]:.5f} by startrain")
        self.assertGreater(min(found), 0.88)
        self.assertLess(abs(found[0] - found[1]), 0.003)


class Normed(nn.Module):
    """Batch norms of every kind: of columns and of channels, one that is gone through twice, without parameters, by hand, and one that has
    no running statistics."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.rows, self.top = nn.Embedding(9, 4), nn.Linear(24, 1)
        self.columns, self.channels = nn.BatchNorm1d(4, momentum=0.3), nn.BatchNorm1d(3, eps=0.01)
        self.plain, self.batch = nn.BatchNorm1d(4, affine=False), nn.BatchNorm1d(4, track_running_stats=False)
        self.register_buffer("mean", torch.rand(4))
        self.register_buffer("variance", torch.rand(4) + 0.5)
        self.columns.running_mean += 0.25  # it has been trained before
        self.columns.running_var *= 2

    def forward(self, x, keys):
        row = self.rows(keys) + x[:, 0]
        twice = self.columns(self.columns(row) * 2 + 1)
        own = F.batch_norm(row, self.mean, self.variance, training=self.training, momentum=0.2)
        return self.top(torch.cat([self.channels(x).flatten(1), twice, self.plain(row), own], 1)).squeeze(1)


class Statistics(Exported):
    """Running means and variances of batch norms: startrain moves them on as PyTorch does, and evaluates and predicts by them."""

    def normed_batches(self, count):
        draw = torch.Generator().manual_seed(3)
        return [(torch.randn(5 + n % 3, 3, 4, generator=draw) * 2 + 1, torch.randint(0, 9, (5 + n % 3,), generator=draw),
                 torch.rand(5 + n % 3, generator=draw)) for n in range(count)]

    @staticmethod
    def numbers(text):
        return [[float(one) for one in line.split("\t")] for line in text.splitlines()]

    def test_they_are_those_of_pytorch(self):
        own = {"dense": "sgd", "rate": 0.05, "name": "normed"}
        for protocol in ("star_server", "star_server_lite", "grpc++"):
            with self.subTest(protocol), starserver.LocalCluster(2) as local:
                model, batches = Normed(), self.normed_batches(12)
                trained = self.startrain(starserver.torch.export_graph(model, batches[0], F.mse_loss, **own), batches, "--protocol",
                                         protocol, ps=local.address)
                optimizer, losses = torch.optim.SGD(model.parameters(), 0.05), []
                for *arguments, target in batches:
                    losses.append(F.mse_loss(model(*arguments), target))
                    optimizer.zero_grad()
                    losses[-1].backward()
                    optimizer.step()
                self.assert_close(trained, [one.item() for one in losses], "training")
                before = model.eval()(*batches[0][:2])
                graph = starserver.torch.export_graph(model, batches[0], F.mse_loss, **own)
                alone = starserver.torch.export_graph(model, batches[0][:2], **own)
                with torch.no_grad():
                    scores = [model(*batch[:2]) for batch in batches]
                rows = sum(len(one) for one in scores)
                wanted = sum(F.mse_loss(one, batch[2]).item() * len(one) for one, batch in zip(scores, batches)) / rows
                for _ in range(2):  # the first evaluation has moved nothing
                    said = json.loads(self.score("evaluate", graph, batches, local.address, "--json", "--protocol", protocol))
                    self.assertEqual((said["rows"], said["batches"]), (rows, len(batches)))
                    self.assert_close([said["loss"]], [wanted], "evaluation")
                lines = self.numbers(self.score("predict", graph, batches, local.address, "--protocol", protocol))
                self.assert_close([one for one, in lines], torch.cat(scores).tolist(), "predictions")
                ones = [tuple(part[i:i + 1] for part in batch[:2]) for batch in batches for i in range(len(batch[0]))]
                self.assertEqual(self.numbers(self.score("predict", alone, ones, local.address)),
                                 self.numbers(self.score("predict", alone, [batch[:2] for batch in batches], local.address)),
                                 "what an example comes to does not depend on its batch")
                self.assertGreater((before - Normed().eval()(*batches[0][:2])).abs().max().item(), 0.01, "nothing was trained")

    def test_they_stay_on_ps_tasks(self):
        """Values from before the training, a job that goes on, another model with the same batch norm, and what the variables
        are called."""
        with starserver.LocalCluster(2) as local, local.connect() as cluster:
            model, batches = nn.Sequential(nn.BatchNorm1d(3, momentum=0.5, affine=False), nn.Linear(3, 1), nn.Flatten(0)), []
            model[0].running_mean += 4
            for n in range(4):
                batches.append((torch.full((2, 3), float(n)) + torch.tensor([[-1.0], [1.0]]), torch.zeros(2)))
            graph = starserver.torch.export_graph(model, batches[0], F.mse_loss, dense="sgd", rate=0.1, name="m")
            self.assertEqual(list(graph.values), ["m/0.running_mean", "m/0.running_var", "m/1.weight", "m/1.bias"])
            self.assertIn('optimizer="sgd" rate=1.0 initializer="constant" scale=-60000.0 trainable=0 @/job:ps', graph.text)
            self.startrain(graph, batches[:2], ps=local.address)
            self.startrain(graph, batches[2:], ps=local.address, values=False)
            for *arguments, _ in batches:
                model(*arguments)
            made = {one["name"]: one for one in _control.call(_control.addresses(cluster.ps)[0], "tables", 10)}
            self.assertEqual(made["m/0.running_mean"]["optimizer"], "sgd")
            model.eval()
            predict = starserver.torch.export_graph(nn.Sequential(model[0]).eval(), (batches[0][0],), dense="sgd", rate=0.1, name="m")
            lines = self.numbers(self.score("predict", predict, [(batches[0][0],)], local.address))
            with torch.no_grad():
                self.assert_close([one for line in lines for one in line], model[0](batches[0][0]).flatten().tolist(), "by running statistics")

    def test_no_row_is_made(self):
        table = self.table()
        model = nn.Sequential(starserver.torch.Embedding(table), nn.Flatten(1), nn.Linear(8, 2)).eval()
        graph = starserver.torch.export_graph(model, (torch.arange(6).reshape(3, 2),), name=self.id())
        self.startrain(starserver.torch.export_graph(model.train(), (torch.arange(2).reshape(1, 2), torch.zeros(1, 2)), F.mse_loss, name=self.id()),
                       [(torch.arange(2).reshape(1, 2), torch.zeros(1, 2))], ps=self.cluster.ps)
        lines = self.score("predict", graph, [(torch.arange(6).reshape(3, 2),)], self.cluster.ps, "--json").splitlines()
        self.assertEqual([len(json.loads(line)["predictions"]) for line in lines], [2, 2, 2])
        self.assertEqual(self.rows(), 2)

    def test_several_outputs(self):
        class Several(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Linear(3, 1), nn.Linear(3, 2)

            def forward(self, x):
                return {"one": self.one(x).squeeze(1), "two": [self.two(x), (x[:, 0] > 0).long()]}
        model = Several().eval()
        with starserver.LocalCluster() as local:
            x = torch.randn(4, 3)
            training = starserver.torch.export_graph(model.train(), (x, torch.zeros(4)),
                                                     lambda found, target: F.mse_loss(found["one"], target) + found["two"][0].square().mean())
            self.startrain(training, [(x, torch.zeros(4))], "--epochs", "3", ps=local.address)
            graph = starserver.torch.export_graph(model.eval(), (x,))
            lines = self.numbers(self.score("predict", graph, [(x,)], local.address))
        self.assertEqual([len(line) for line in lines], [4] * 4)
        self.assertEqual([line[3] for line in lines], (x[:, 0] > 0).float().tolist())

    def test_what_nothing_could_keep_is_refused(self):
        x = torch.rand(5, 3)
        for model, said in ((nn.BatchNorm1d(3, momentum=None), "momentum=None"), (nn.BatchNorm1d(3).half(), "torch.float16")):
            with self.assertRaisesRegex(starserver.torch.ExportError, said):
                starserver.torch.export_graph(nn.Sequential(model), (x, x), F.mse_loss)

        class Computed(nn.Module):
            def forward(self, x, mean):
                return F.batch_norm(x, mean.mean(0), mean.mean(0), training=self.training).sum()
        for training, said in ((True, "they are buffers of the model"), (False, "they are buffers of the model")):
            with self.assertRaisesRegex(starserver.torch.ExportError, said):
                starserver.torch.export_graph(Computed().train(training), (x, x))
        with self.assertRaisesRegex(ValueError, "returns tensors, or lists, tuples and dicts"):
            starserver.torch.export_graph(nn.Identity().eval(), (3,))


class Text(Exported):
    """A model that is not from the zoo."""

    def test_bags_of_every_form(self):
        table = self.table(initializer="uniform", scale=0.5, seed=4, dim=5, rate=0.1)

        class Bags(nn.Module):
            def __init__(self):
                super().__init__()
                self.sums, self.means = starserver.torch.EmbeddingBag(table, "sum"), starserver.torch.EmbeddingBag(table)
                self.ends = starserver.torch.EmbeddingBag(table, "mean", include_last_offset=True)
                self.own, self.fixed = nn.EmbeddingBag(40, 5), starserver.torch.Embedding(table).requires_grad_(False)

            def forward(self, lists, pair, keys, offsets, ends, weights, square):
                found = [self.sums(lists), self.means(pair), self.sums(keys, offsets, weights), self.ends(keys, ends), self.own(keys, offsets),
                         self.means(square), self.sums(square, per_sample_weights=square.sign().float()), self.fixed(square[:, 0])]
                return torch.cat(found, 1).square().mean()
        batches = []
        for n in range(5):
            keys = torch.arange(7 + n) * (n + 1) % 40
            offsets = torch.tensor([0, 2, 2 + n])
            batches.append(([[1, 2], [], [3 + n]], (keys, offsets), keys, offsets, torch.cat([offsets, torch.tensor([len(keys)])]),
                            torch.rand(7 + n), torch.tensor([[1, -5], [2**62, 3], [n, n]])))
        torch.manual_seed(1)
        model = Bags()
        graph = starserver.torch.export_graph(model, batches[0], dense="sgd", rate=0.1, name=self.id())
        optimizer = self.optimizer(model, "sgd", rate=0.1)
        self.assert_close(self.startrain(graph, batches), zoo.train(model, optimizer, batches), "bags")

    def test_a_loss_beside_the_model(self):
        torch.manual_seed(1)
        model, batches = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1), nn.Flatten(0)), [(torch.rand(5, 4), torch.rand(5))] * 4
        for loss in (F.mse_loss, nn.MSELoss(), lambda output, target: (output - target).abs().sum()):
            graph = starserver.torch.export_graph(model, batches[0], loss, dense="adam", rate=0.01, beta1=0.8)
            self.assertIn('optimizer="adam" rate=0.01 initializer="constant" scale=-60000.0 beta1=0.8 @/job:ps', graph.text)
            self.assertEqual(graph.feeds, [("input", "float32", (-1, 4)), ("target", "float32", (-1,))])
            self.assertAlmostEqual(self.startrain(graph, batches)[0], loss(model(batches[0][0]), batches[0][1]).item(), 5)
        fixed = starserver.torch.export_graph(model, batches[0], F.mse_loss, dynamic=False)
        self.assertEqual(fixed.feeds[0], ("input", "float32", (5, 4)))
        with self.assertRaisesRegex(ValueError, r'batch 1: "input" is float32 \[5, 4\], not float32 \[6, 4\]'):
            self.startrain(fixed, [batches[0], (torch.rand(6, 4), torch.rand(6))])
        with self.assertRaisesRegex(ValueError, r'batch 0: "target" is float32 \[-1\], not float64 \[5\]'):
            self.startrain(graph, [(torch.rand(5, 4), torch.rand(5).double())])

    def test_nothing_is_pulled_and_nothing_is_changed(self):
        table = self.table()

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.rows, self.norm = starserver.torch.Embedding(table), nn.BatchNorm1d(4)

            def forward(self, keys):
                return self.norm(self.rows(keys)).square().sum()
        model = Model()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        starserver.torch.export_graph(model, (torch.arange(5),))
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertEqual(self.rows(), 0)
        table.pull([7, 8])
        self.assertEqual(self.rows(), 2)  # what is looked at sees rows

    def test_what_cannot_be_converted_is_named(self):
        class Bad(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.gru = nn.Parameter(torch.ones(4)), nn.GRU(4, 4)

            def forward(self, x):
                y = torch.sort(x * self.weight)[0]  # here
                z = x.cumsum(1)  # here
                z = z + y
                self.gru(x)  # here
                x.add_(1)  # here
                torch.exp(x, out=x)  # here
                F.gelu(x)  # here
                x[x > 1]  # here
                x[:, ::2]  # here
                return x.max(1)[0].sum() + z.sum()  # here

        lines, first = inspect.getsourcelines(Bad)
        with self.assertRaises(starserver.torch.ExportError) as raised:
            starserver.torch.export_graph(Bad(), (torch.rand(3, 4),))
        self.assertEqual([(file, line) for file, line, _ in raised.exception.problems],
                         [(__file__, first + i) for i, text in enumerate(lines) if "# here" in text])
        for word in ("sort: graphs have neither this operation", "cumsum", "GRU: ", "Tensor.add_: it changes a tensor in place", "by out=", "gelu",
                     f"{__file__}:{first + 7}: "):
            self.assertIn(word, str(raised.exception))

        class Branch(nn.Module):
            def forward(self, x):
                return x.sum() if x.sum() > 0 else x.mean()
        with self.assertRaisesRegex(starserver.torch.ExportError, f"{__file__}:{inspect.getsourcelines(Branch)[1] + 2}: this depends on"):
            starserver.torch.export_graph(Branch(), (torch.rand(3),))

    def test_what_is_no_loss_is_refused(self):
        model = nn.Linear(4, 2)
        for example, loss, said in (((torch.rand(3, 4),), None, r"of shape \[-1, 2\]: pass loss="),
                                    ((torch.rand(3, 4),) * 3, None, "the example has 3 arguments"),
                                    ((torch.rand(3, 4), torch.rand(3)), lambda output, target: [output], "several values: pass loss="),
                                    ((torch.rand(3, 5), torch.rand(3)), F.mse_loss, "linear: mat1 and mat2 shapes cannot be multiplied")):
            with self.assertRaisesRegex(ValueError, said):
                starserver.torch.export_graph(model, example, loss)
        model.half()
        with self.assertRaisesRegex(ValueError, "input: it is of torch.float16"):
            starserver.torch.export_graph(model, (torch.rand(3, 4).half(), torch.rand(3, 2)), F.mse_loss)


if __name__ == "__main__":
    import unittest
    unittest.main()
