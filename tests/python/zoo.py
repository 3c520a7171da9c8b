# SPDX-License-Identifier: BSD-3-Clause
"""startrain's models as a PyTorch user writes them, with starserver.torch: the first values and batches are those of
tests/models/golden.py, the losses of the same models in C those of golden.inc."""
import re

import golden
import starserver.torch
import torch
from golden import BATCH, CLASSES, DENSE, DIM, FIELDS, HISTORY, SEED, STATE, WINDOW, category
from torch import nn
from torch.nn import functional as F


def golden_losses(path):
    """The losses in golden.inc, by model and optimizers."""
    with open(path, encoding="ascii") as file:
        found = re.findall(r'^\{ "(.+?)", "(.+?)", (.+?), "(.+?)", (.+?), \{\n(.*?)^\} \},', file.read(), re.M | re.S)
    return {(model, table, float(rate), dense, float(dense_rate)): [float(x) for x in losses.replace(",", " ").split()]
            for model, table, rate, dense, dense_rate, losses in found}


class Zoo(nn.Module):
    """What the models have in common."""

    def __init__(self, cluster, optimizer="adam", rate=0.001):
        super().__init__()
        self.values = golden.Tasks(torch, self.name, optimizer, rate, "sgd", 1)
        self.table = lambda name, dim=DIM: cluster.table(
            f"{self.name}/{name}", dim, optimizer=optimizer, rate=rate, seed=SEED,
            **({"initializer": "normal", "scale": 0.01} if dim > 1 else {"initializer": "zeros"}))
        self.build()

    def parameter(self, name, shape, kind="glorot_uniform"):
        return nn.Parameter(self.values.variable(name, shape, kind).detach().clone())

    def layer(self, inputs, units, name, kind="glorot_uniform", seed=SEED):
        layer = nn.Linear(inputs, units)
        layer.weight.data = self.values.variable(f"{name}/weights", (inputs, units), kind, seed).detach().t().contiguous()
        nn.init.zeros_(layer.bias)
        return layer

    def layers(self, inputs, units, name, last=(), activation=nn.ReLU, seeds=1):
        made = []
        for i, n in enumerate(units):
            made += [self.layer(inputs, n, f"{name}/{i}", seed=SEED + seeds * (i + 1))]
            made += [activation(n) if activation is nn.PReLU else activation()] if i + 1 < len(units) else []
            inputs = n
        return nn.Sequential(*made, *last)


class Rows(Zoo):
    def batch(self, step):
        ids, dense, labels = golden.rows(torch, step)
        return torch.tensor(ids), dense, labels

    def forward(self, ids, dense, labels):
        return F.binary_cross_entropy_with_logits(self.logits(ids, dense), labels)

    def build_linear(self):
        self.wide = starserver.torch.EmbeddingBag(self.table("wide", 1), "sum")
        self.linear = self.layer(DENSE, 1, "linear", 0.0)

    def build_embedding(self):
        self.embedding = starserver.torch.Embedding(self.table("embedding"))


class Logistic(Rows):
    name = "logistic"
    build = Rows.build_linear

    def logits(self, ids, dense):
        return (self.wide(ids) + self.linear(dense)).squeeze(1)


class DNN(Rows):
    name = "dnn"

    def build(self):
        self.build_embedding()
        self.deep = self.layers(FIELDS * DIM + DENSE, (256, 128, 1), "deep")

    def logits(self, ids, dense):
        return self.deep(torch.cat([self.embedding(ids).flatten(1), dense], 1)).squeeze(1)


class WideDeep(Rows):
    name = "wide-deep"

    def build(self):
        self.build_linear()
        self.build_embedding()
        self.deep = self.layers(FIELDS * DIM + DENSE, (100, 75, 50, 25, 1), "deep")

    def batch(self, step):
        ids, dense, labels = super().batch(step)
        crossed = (ids[:, :-1] * 100000 + ids[:, 1:]) + 1000000
        return ids, torch.cat([ids, crossed], 1), dense, labels

    def forward(self, ids, crossed, dense, labels):
        deep = self.deep(torch.cat([self.embedding(ids).flatten(1), dense], -1))
        return F.binary_cross_entropy_with_logits((self.wide(crossed) + self.linear(dense) + deep).view(-1), labels)


class DeepFM(Rows):
    name = "deepfm"

    def build(self):
        self.build_linear()
        self.build_embedding()
        self.deep = self.layers(FIELDS * DIM + DENSE, (128, 128, 1), "deep")

    def logits(self, ids, dense):
        rows = self.embedding(ids)
        products = 0.5 * (rows.sum(1).square() - (rows ** 2).sum(dim=1)).sum(1, keepdim=True)
        return (self.wide(ids) + self.linear(dense) + products + self.deep(torch.cat([rows.flatten(1), dense], 1))).squeeze(-1)


class DLRM(Rows):
    name = "dlrm"

    def build(self):
        self.build_embedding()
        self.bottom = self.layers(DENSE, (64, DIM), "bottom", [nn.ReLU()])
        self.top = self.layers(DIM + FIELDS * (FIELDS + 1) // 2, (128, 64, 1), "top")

    def logits(self, ids, dense):
        bottom = self.bottom(dense)
        rows = torch.cat([self.embedding(ids), bottom.unsqueeze(1)], 1)
        i, j = torch.tril_indices(FIELDS + 1, FIELDS + 1, -1)
        products = torch.bmm(rows, rows.transpose(1, 2))[:, i, j]
        return self.top(torch.cat([bottom, products], 1)).squeeze(1)


class MMoE(Rows):
    name = "mmoe"

    def build(self):
        self.build_embedding()
        inputs = FIELDS * DIM + DENSE
        self.experts = nn.ModuleList(self.layers(inputs, (64, 32), f"expert/{i}", [nn.ReLU()]) for i in range(4))
        self.gates = nn.ModuleList(self.layer(inputs, 4, f"gate/{task}") for task in range(2))
        self.towers = nn.ModuleList(self.layers(32, (16, 1), f"tower/{task}") for task in range(2))

    def batch(self, step):
        ids, dense, labels = super().batch(step)
        return ids, dense, torch.stack([labels, torch.tensor(golden.second_labels(step, ids.tolist()))], 1)

    def logits(self, ids, dense):
        x = torch.cat([self.embedding(ids).flatten(1), dense], 1)
        experts = torch.stack([expert(x) for expert in self.experts], 1)
        mixed = [(experts * F.softmax(gate(x), 1).unsqueeze(2)).sum(1) for gate in self.gates]
        return torch.cat([tower(one) for tower, one in zip(self.towers, mixed)], 1)

    def forward(self, ids, dense, labels):
        return 2 * super().forward(ids, dense, labels)  # the sum of both tasks' means


class Histories(Zoo):
    """Clicks are bags, or padded to the longest history that there may be."""

    def build_embedding(self):
        table = self.table("embedding")
        self.embedding = starserver.torch.Embedding(table)
        self.mean = starserver.torch.EmbeddingBag(table, "mean")

    def two(self, items):
        """An item's row and its category's, side by side."""
        return self.embedding(items).flatten(-2)

    def padded(self, step):
        h = golden.Histories(step)
        items, others = torch.zeros(2, BATCH, HISTORY, 2, dtype=torch.int64)
        there = torch.zeros(BATCH, HISTORY)
        for row in range(BATCH):
            for t in range(h.lengths[row]):
                click = h.first[row] + t
                there[row, t] = 1
                for to, item in ((items, h.items[click]), (others, h.items[h.others[click]])):
                    to[row, t] = torch.tensor([item, category(item)])
        return torch.tensor(h.ids), items, others, there, torch.tensor(h.labels)


class DSSM(Histories):
    name = "dssm"

    def build(self):
        self.build_embedding()
        self.user = self.layers(3 * DIM, (64, 32), "user", [nn.Tanh()])
        self.item = self.layers(2 * DIM, (64, 32), "item", [nn.Tanh()])
        self.gamma = self.parameter("gamma", (1,), 5.0)
        self.bias = self.parameter("bias", (1,), 0.0)

    def batch(self, step):
        h = golden.Histories(step)
        items, first = torch.tensor(h.items), torch.tensor(h.first)
        return torch.tensor(h.ids), (items, first), (3000 + items % 5, first), torch.tensor(h.labels)

    def forward(self, ids, items, categories, labels):
        user, item, kind = self.embedding(ids).unbind(1)
        x = self.user(torch.cat([user, self.mean(items), self.mean(categories)], 1))
        y = self.item(torch.cat([item, kind], 1))
        cosine = (x * y).sum(1) / ((x * x).sum(1) * (y * y).sum(1) + 1e-12).sqrt()
        return F.binary_cross_entropy_with_logits(self.gamma * cosine + self.bias, labels)


class DIN(Histories):
    name = "din"

    def build(self):
        self.build_embedding()
        self.unit = self.layers(8 * DIM, (36, 1), "unit", activation=nn.PReLU, seeds=0)
        self.deep = self.layers(5 * DIM, (200, 80, 1), "deep", activation=nn.PReLU, seeds=0)

    def batch(self, step):
        ids, items, _, there, labels = self.padded(step)
        return ids, items, there, labels

    def forward(self, ids, items, there, labels):
        rows = self.embedding(ids)
        user, candidate = rows[:, 0], rows[:, 1:].flatten(1)
        clicks = self.two(items)
        wanted = candidate[:, None].expand(-1, clicks.size(1), -1)
        x = torch.cat([clicks, wanted, clicks - wanted, clicks * wanted], 2)
        weights = self.unit(x.reshape(-1, 8 * DIM)).reshape(-1, HISTORY, 1) * there.unsqueeze(2)
        logits = self.deep(torch.cat([user, candidate, (weights * clicks).sum(1)], 1))
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), labels)


class GatedUnit(nn.Module):
    def __init__(self, zoo, name):
        super().__init__()
        n = 2 * DIM
        self.gates, self.gates_bias = zoo.parameter(f"{name}/gates", (2 * n, 2 * n)), zoo.parameter(f"{name}/gates_bias", (2 * n,), 0.0)
        self.of_x, self.of_h = zoo.parameter(f"{name}/of_x", (n, n)), zoo.parameter(f"{name}/of_h", (n, n))
        self.bias = zoo.parameter(f"{name}/bias", (n,), 0.0)

    def forward(self, x, h, attention):
        update, reset = torch.sigmoid(torch.cat([x, h], 1) @ self.gates + self.gates_bias).chunk(2, 1)
        update = attention * update
        return (1 - update) * h + update * torch.tanh(x @ self.of_x + reset * (h @ self.of_h) + self.bias)


class DIEN(Histories):
    name = "dien"

    def build(self):
        self.build_embedding()
        self.extract, self.evolve = GatedUnit(self, "extract"), GatedUnit(self, "evolve")
        self.attention = self.parameter("attention", (2 * DIM, 2 * DIM))
        self.deep = self.layers(5 * DIM, (200, 80, 1), "deep", activation=nn.PReLU, seeds=0)

    batch = Histories.padded

    def forward(self, ids, items, others, there, labels):
        rows = self.embedding(ids)
        user, candidate = rows[:, 0], rows[:, 1:].flatten(1)
        clicks, drawn = self.two(items), self.two(others)
        h, states, told = clicks.new_zeros(ids.shape[0], 2 * DIM), [], 0
        for t in range(HISTORY):
            x, has = clicks[:, t], there[:, t:t + 1]
            if t:
                told = told - (F.logsigmoid((h * x).sum(1)) + F.logsigmoid(-(h * drawn[:, t]).sum(1))) * has.squeeze(1)
            h = self.extract(x, h, has)
            states.append(h)
        scores = torch.bmm(torch.stack(states, 1), (candidate @ self.attention).unsqueeze(2)).squeeze(2)
        attention = torch.softmax(scores.masked_fill(there == 0, -1e9), 1) * there
        h = torch.zeros_like(h)
        for t in range(HISTORY):
            h = self.evolve(states[t], h, attention[:, t:t + 1])
        logits = self.deep(torch.cat([user, candidate, h], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, labels) + told.sum() / there[:, 1:].sum()


class Language(Zoo):
    name = "language"

    def build(self):
        self.words = starserver.torch.Embedding(self.table("words"))
        self.gates = self.layer(DIM + STATE, 2 * STATE, "gates")
        self.candidate = self.layer(DIM + STATE, STATE, "candidate")
        self.next = self.layer(STATE, CLASSES, "next")

    def batch(self, step):
        return (torch.tensor(golden.windows(step)),)

    def forward(self, words):
        rows = self.words(words[:, :-1])
        state, states = rows.new_zeros(words.size(0), STATE), []
        for t in range(WINDOW):
            reset, keep = torch.sigmoid(self.gates(torch.cat([rows[:, t], state], 1))).split(STATE, 1)
            state = keep * state + (1 - keep) * torch.tanh(self.candidate(torch.cat([rows[:, t], reset * state], 1)))
            states.append(state)
        logits = self.next(torch.stack(states, 1))
        return F.cross_entropy(logits.reshape(-1, CLASSES), words[:, 1:].reshape(-1))


class SkipGram(Zoo):
    name = "skip-gram"

    def build(self):
        self.centers = starserver.torch.Embedding(self.table("in"))
        self.targets = starserver.torch.Embedding(self.table("out"))

    def batch(self, step):
        return tuple(map(torch.tensor, golden.pairs(step)))

    def forward(self, centers, targets):
        logits = torch.matmul(self.targets(targets), self.centers(centers).unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(logits[:, 0]) + F.logsigmoid(-logits[:, 1:]).sum(1)).mean()


MODELS = {one.name: one for one in (Logistic, DNN, WideDeep, DeepFM, DLRM, MMoE, DSSM, DIN, DIEN, Language, SkipGram)}


def train(model, optimizer, batches):
    """The losses by starserver.torch."""
    losses = []
    for batch in batches:
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
