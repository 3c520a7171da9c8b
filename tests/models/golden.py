#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/models/golden.inc: the first 100 losses of each model of the zoo, rewritten in plain PyTorch, for models.c.

Needs python3-torch, which the tests themselves do not: the vectors are committed. Batches and first values are computed here and
there: batches follow from a hash (draw), first values are those that lib/store/initial.h says (Philox; glorot_uniform, normal). Optimizers
are torch.optim's where docs/optimizers.rst says the same. Rows of a table by Adam are not: each row counts its own updates.
"""
import argparse
import math
import struct
import sys

STEPS, BATCH, DIM, SEED = 100, 16, 4, 7
DENSE, FIELDS, IDS = 3, 4, 20  # of rows: numbers, columns, different ids of a column
HISTORY = 5  # of rows with histories: clicks at most
WINDOW, CLASSES = 6, 30  # of windows
NEGATIVES, STATE = 3, 64
M64 = (1 << 64) - 1
# Model, optimizer of tables and its rate, optimizer of variables and its rate: the zoo's own, then others.
CASES = [(model, *rates) for model in ("logistic", "dnn", "wide-deep", "deepfm", "dlrm", "mmoe", "dssm", "din", "dien", "language")
         for rates in (("adam", 0.001, "adam", 0.001), ("adagrad", 0.05, "sgd", 0.05))]
CASES += [("skip-gram", "adam", 0.02, "adam", 0.02), ("skip-gram", "adagrad", 0.05, "sgd", 0.05)]


def mix(x):
    """base/hash.h's hash_mix."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & M64
    return x ^ x >> 31


def hash_name(name):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & M64
    return mix(h)


def draw(step, what, i, n):
    """A number below n: models.c's function of the same name."""
    return mix(mix(step * 16 + what) + i & M64) % n


def rounded(value):
    return struct.unpack("f", struct.pack("f", value))[0]


# ---- first values ----

def philox(c0, c1, c2, c3, key):
    k0, k1 = key & 0xffffffff, key >> 32
    for _ in range(10):
        p0, p1 = 0xd2511f53 * c0, 0xcd9e8d57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xffffffff, p0 >> 32 ^ c3 ^ k1, p0 & 0xffffffff
        k0, k1 = k0 + 0x9e3779b9 & 0xffffffff, k1 + 0xbb67ae85 & 0xffffffff
    return c0, c1, c2, c3


def uniform(words, scale):
    return [rounded(rounded(scale) * rounded((word >> 8) * 2.0 ** -23 - 1)) for word in words]


def normal(words, scale):
    found = []
    for a, b in (words[:2], words[2:]):
        r, t = math.sqrt(-2 * math.log((a + 1) * 2.0 ** -32)), 2 * math.pi * b * 2.0 ** -32
        found += [rounded(rounded(r * math.cos(t)) * rounded(scale)), rounded(rounded(r * math.sin(t)) * rounded(scale))]
    return found


def first_values(name, seed, row, dim, kind, scale):
    """Of a row of a table, or of a block of a variable."""
    key, found = mix(seed ^ hash_name(name)), []
    for quarter in range((dim + 3) // 4):
        words = philox(row & 0xffffffff, row >> 32, quarter, 0, key)
        found += uniform(words, scale) if kind == "uniform" else normal(words, scale)
    return found[:dim]


# ---- what PS tasks hold ----

BETAS, ADAM_EPSILON, ADAGRAD_EPSILON = (rounded(0.9), rounded(0.999)), rounded(1e-8), rounded(1e-10)


class Tasks:
    """Tables and variables of a model, with their optimizers."""

    def __init__(self, torch, model, optimizer, rate, dense_optimizer, dense_rate):
        self.torch, self.model, self.optimizer, self.rate = torch, model, optimizer, rounded(rate)
        self.dense_optimizer, self.dense_rate = dense_optimizer, rounded(dense_rate)
        self.variables, self.tables, self.optimizers = {}, {}, {}

    def variable(self, name, shape, kind=0.0, seed=SEED):
        """A number, or Glorot: of a matrix [in, out]. That is kept in blocks of whole rows, of 1024 elements at most."""
        if name not in self.variables:
            count = math.prod(shape)
            values = [kind] * count
            if kind == "glorot_uniform":
                assert shape[1] <= 1024
                block = 1024 // shape[1] * shape[1]
                scale = math.sqrt(6 / sum(shape))
                values = [x for i in range((count + block - 1) // block)
                          for x in first_values(f"{self.model}/{name}", seed, i, block, "uniform", scale)][:count]
            self.variables[name] = self.torch.nn.Parameter(self.torch.tensor(values).reshape(shape))
            if self.dense_optimizer == "adam":
                self.optimizers[name] = self.torch.optim.Adam([self.variables[name]], lr=self.dense_rate, betas=BETAS, eps=ADAM_EPSILON)
            else:
                self.optimizers[name] = self.torch.optim.SGD([self.variables[name]], lr=self.dense_rate)
        return self.variables[name]

    def lookup(self, name, dim, ids):
        """Rows of ids, a list of lists or a list, of which equal ones are the same row."""
        table = self.tables.setdefault(name, Table(self, name, dim))
        return table.lookup(ids)

    def step(self):
        for optimizer in self.optimizers.values():
            optimizer.step()
            optimizer.zero_grad()
        for table in self.tables.values():
            table.step()


class Table:
    """Rows are made when they are looked up first. Each step they are one leaf, gathered again."""

    def __init__(self, tasks, name, dim):
        self.torch, self.tasks, self.dim, self.name = tasks.torch, tasks, dim, f"{tasks.model}/{name}"
        self.rows, self.slots, self.counts = {}, {}, {}
        self.looked = []  # ids and leaf of each lookup of this step

    def lookup(self, ids):
        shape = (len(ids), len(ids[0])) if isinstance(ids[0], list) else (len(ids),)
        flat = [x for row in ids for x in row] if len(shape) == 2 else ids
        for row in flat:
            if row not in self.rows:
                values = [0.0] if self.dim == 1 else first_values(self.name, SEED, row, self.dim, "normal", 0.01)
                self.rows[row] = self.torch.tensor(values)
                self.slots[row] = [self.torch.zeros(self.dim), self.torch.zeros(self.dim)]
                self.counts[row] = 0
        leaf = self.torch.stack([self.rows[row] for row in flat]).requires_grad_()
        self.looked.append((flat, leaf))
        return leaf.reshape(*shape, self.dim)

    def step(self):
        sums = {}
        for ids, leaf in self.looked:
            for i, row in enumerate(ids):
                sums[row] = sums[row] + leaf.grad[i] if row in sums else leaf.grad[i]
        for row, g in sums.items():
            self.update(row, g)
        self.looked = []

    def update(self, row, g):
        """docs/optimizers.rst: adam, adagrad."""
        (m, v), rate, w = self.slots[row], self.tasks.rate, self.rows[row]
        if self.tasks.optimizer == "adagrad":
            v += g * g
            self.rows[row] = w - rate * g / (v.sqrt() + ADAGRAD_EPSILON)
            return
        self.counts[row] += 1
        (beta1, beta2), count = BETAS, self.counts[row]
        m.mul_(beta1).add_(g, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        self.rows[row] = w - rate * (m / (1 - beta1 ** count)) / ((v / (1 - beta2 ** count)).sqrt() + ADAM_EPSILON)


# ---- batches ----

def rows(torch, step):
    ids = [[1000 * column + draw(step, 0, row * FIELDS + column, IDS) for column in range(FIELDS)] for row in range(BATCH)]
    dense = [[(draw(step, 1, row * DENSE + column, 257) - 128) / 64 for column in range(DENSE)] for row in range(BATCH)]
    labels = [float((ids[row][0] + (draw(step, 2, row, 8) == 0)) % 2) for row in range(BATCH)]
    return ids, torch.tensor(dense), torch.tensor(labels)


def second_labels(step, ids):
    """Of another task of the same rows."""
    return [float((ids[row][1] + (draw(step, 15, row, 8) == 0)) % 2) for row in range(BATCH)]


def category(item):
    return 3000 + item % 5


class Histories:
    """Clicks of each row, the oldest first, each an item and its category; for each another click of the batch."""

    def __init__(self, step):
        items = [2000 + draw(step, 9, row, IDS) for row in range(BATCH)]
        self.ids = [[1000 + draw(step, 10, row, IDS), items[row], category(items[row])] for row in range(BATCH)]
        self.labels = [float((items[row] + (draw(step, 11, row, 8) == 0)) % 2) for row in range(BATCH)]
        self.lengths = [draw(step, 12, row, HISTORY + 1) for row in range(BATCH)]
        self.first = [sum(self.lengths[:row]) for row in range(BATCH)]
        self.items = [2000 + draw(step, 13, row * HISTORY + i, IDS) for row in range(BATCH) for i in range(self.lengths[row])]
        self.others = [draw(step, 14, click, len(self.items)) for click in range(len(self.items))]

    def embed(self, tasks):
        """Of users, of candidates (item and category), of clicks row by row, and of each click's other one."""
        torch = tasks.torch
        embeddings = tasks.lookup("embedding", DIM, self.ids)
        clicks = torch.cat([tasks.lookup("embedding", DIM, self.items),
                            tasks.lookup("embedding", DIM, [category(item) for item in self.items])], 1)
        others = clicks[self.others]
        each = [slice(self.first[row], self.first[row] + self.lengths[row]) for row in range(BATCH)]
        return (embeddings[:, 0], torch.cat([embeddings[:, 1], embeddings[:, 2]], 1), [clicks[part] for part in each],
                [others[part] for part in each])


def windows(step):
    """A word decides the next one, three times of four."""
    found = []
    for row in range(BATCH):
        words = [draw(step, 3, row, CLASSES)]
        for i in range(1, WINDOW + 1):
            at = row * (WINDOW + 1) + i
            words.append((3 * words[-1] + 1) % CLASSES if draw(step, 4, at, 4) else draw(step, 5, at, CLASSES))
        found.append(words)
    return found


def pairs(step):
    """Words that are near each other follow each other."""
    centers = [draw(step, 6, row, CLASSES) for row in range(BATCH)]
    targets = [[(centers[row] + 1 + draw(step, 7, row, 2)) % CLASSES] +
               [draw(step, 8, row * NEGATIVES + i, CLASSES) for i in range(NEGATIVES)] for row in range(BATCH)]
    return centers, targets


# ---- models ----

def dense_layer(tasks, x, units, name, kind="glorot_uniform", seed=SEED):
    return x @ tasks.variable(name + "/weights", (x.shape[1], units), kind, seed) + tasks.variable(name + "/bias", (units,))


def mlp(tasks, x, units, name, activation=None):
    """Relu between layers; after the last: activation."""
    for i, n in enumerate(units):
        x = dense_layer(tasks, x, n, f"{name}/{i}", seed=SEED + i + 1)
        if i + 1 < len(units):
            x = x.relu()
    return activation(x) if activation else x


def linear(tasks, ids, dense):
    wide = tasks.lookup("wide", 1, ids).sum(1)
    return (wide + dense_layer(tasks, dense, 1, "linear", 0.0)).reshape(-1)


def side_by_side(tasks, ids, dense):
    embeddings = tasks.lookup("embedding", DIM, ids)
    return embeddings, tasks.torch.cat([embeddings.reshape(len(ids), -1), dense], 1)


def logistic(tasks, ids, dense):
    return linear(tasks, ids, dense)


def dnn(tasks, ids, dense):
    return mlp(tasks, side_by_side(tasks, ids, dense)[1], (256, 128, 1), "deep").reshape(-1)


def wide_deep(tasks, ids, dense):
    # A cross is a row of its own, whatever its id: those of dimension 1 are 0 at first. Pairs are not numbers, so they equal
    # none of the ids.
    crossed = [row + [(row[i], row[i + 1]) for i in range(FIELDS - 1)] for row in ids]
    deep = mlp(tasks, side_by_side(tasks, ids, dense)[1], (100, 75, 50, 25, 1), "deep")
    return linear(tasks, crossed, dense) + deep.reshape(-1)


def deepfm(tasks, ids, dense):
    embeddings, flat = side_by_side(tasks, ids, dense)
    products = sum((embeddings[:, i] * embeddings[:, j]).sum(1) for i in range(FIELDS) for j in range(i))
    return linear(tasks, ids, dense) + products + mlp(tasks, flat, (128, 128, 1), "deep").reshape(-1)


def dlrm(tasks, ids, dense):
    bottom = mlp(tasks, dense, (64, DIM), "bottom", tasks.torch.relu)
    all_rows = tasks.torch.cat([tasks.lookup("embedding", DIM, ids), bottom[:, None]], 1)
    products = [(all_rows[:, i] * all_rows[:, j]).sum(1) for i in range(FIELDS + 1) for j in range(i)]
    return mlp(tasks, tasks.torch.cat([bottom, tasks.torch.stack(products, 1)], 1), (128, 64, 1), "top").reshape(-1)


def mmoe(tasks, step):
    """Two tasks: experts that they share, a gate and a tower of each."""
    torch, (ids, dense, labels) = tasks.torch, rows(tasks.torch, step)
    x, loss = side_by_side(tasks, ids, dense)[1], 0
    experts = torch.stack([mlp(tasks, x, (64, 32), f"expert/{i}", torch.relu) for i in range(4)], 1)
    for task, wanted in enumerate((labels, torch.tensor(second_labels(step, ids)))):
        weights = torch.softmax(dense_layer(tasks, x, 4, f"gate/{task}"), 1)
        logits = mlp(tasks, (experts * weights[:, :, None]).sum(1), (16, 1), f"tower/{task}").reshape(-1)
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted)
    return loss


def loss_of_rows(logits):
    def loss(tasks, step):
        ids, dense, labels = rows(tasks.torch, step)
        return tasks.torch.nn.functional.binary_cross_entropy_with_logits(logits(tasks, ids, dense), labels)
    return loss


def prelu_mlp(tasks, x, units, name):
    for i, n in enumerate(units):
        x = dense_layer(tasks, x, n, f"{name}/{i}")
        if i + 1 < len(units):
            x = tasks.torch.where(x > 0, x, tasks.variable(f"{name}/{i}/alpha", (n,), 0.25) * x)
    return x


def dssm(tasks, user, candidate, clicks, _):
    """Means of the items and of the categories: side by side."""
    torch = tasks.torch
    means = torch.stack([c.mean(0) if len(c) else torch.zeros(2 * DIM) for c in clicks])
    x = mlp(tasks, torch.cat([user, means], 1), (64, 32), "user", torch.tanh)
    y = mlp(tasks, candidate, (64, 32), "item", torch.tanh)
    cosine = (x * y).sum(1) / ((x * x).sum(1) * (y * y).sum(1) + 1e-12).sqrt()
    return tasks.variable("gamma", (1,), 5.0) * cosine + tasks.variable("bias", (1,)), 0


def din(tasks, user, candidate, clicks, _):
    torch, interests = tasks.torch, []
    for row in range(BATCH):
        c, wanted = clicks[row], candidate[row].expand(len(clicks[row]), 2 * DIM)
        weights = prelu_mlp(tasks, torch.cat([c, wanted, c - wanted, c * wanted], 1), (36, 1), "unit")
        interests.append((weights * c).sum(0))
    return prelu_mlp(tasks, torch.cat([user, candidate, torch.stack(interests)], 1), (200, 80, 1), "deep").reshape(-1), 0


def gated_unit(tasks, name, x, h, attention=1):
    torch, n = tasks.torch, 2 * DIM
    gates = torch.cat([x, h]) @ tasks.variable(name + "/gates", (2 * n, 2 * n), "glorot_uniform") + tasks.variable(name + "/gates_bias", (2 * n,))
    update, reset = torch.sigmoid(gates).split(n)
    new = x @ tasks.variable(name + "/of_x", (n, n), "glorot_uniform") + \
        reset * (h @ tasks.variable(name + "/of_h", (n, n), "glorot_uniform")) + tasks.variable(name + "/bias", (n,))
    update = attention * update
    return (1 - update) * h + update * torch.tanh(new)


def dien(tasks, user, candidate, clicks, others):
    """Row by row, as if there were no others."""
    torch, interests, told = tasks.torch, [], []
    loss = torch.nn.functional.logsigmoid
    for c, other, wanted in zip(clicks, others, candidate @ tasks.variable("attention", (2 * DIM, 2 * DIM), "glorot_uniform")):
        h, states = torch.zeros(2 * DIM), []
        for t, x in enumerate(c):
            if t:
                told.append(-loss(h @ x) - loss(-(h @ other[t])))
            h = gated_unit(tasks, "extract", x, h)
            states.append(h)
        attention = torch.softmax(torch.stack([h @ wanted for h in states]), 0) if states else ()
        h = torch.zeros(2 * DIM)
        for x, a in zip(states, attention):
            h = gated_unit(tasks, "evolve", x, h, a)
        interests.append(h)
    logits = prelu_mlp(tasks, torch.cat([user, candidate, torch.stack(interests)], 1), (200, 80, 1), "deep").reshape(-1)
    return logits, sum(told) / len(told)


def loss_of_histories(logits_and_auxiliary):
    def loss(tasks, step):
        histories = Histories(step)
        logits, auxiliary = logits_and_auxiliary(tasks, *histories.embed(tasks))
        return tasks.torch.nn.functional.binary_cross_entropy_with_logits(logits, tasks.torch.tensor(histories.labels)) + auxiliary
    return loss


def language(tasks, step):
    torch, words = tasks.torch, windows(step)
    gates, gates_bias = tasks.variable("gates/weights", (DIM + STATE, 2 * STATE), "glorot_uniform"), tasks.variable("gates/bias", (2 * STATE,))
    new, new_bias = tasks.variable("candidate/weights", (DIM + STATE, STATE), "glorot_uniform"), tasks.variable("candidate/bias", (STATE,))
    state, states = torch.zeros(BATCH, STATE), []
    for t in range(WINDOW):
        x = tasks.lookup("words", DIM, [row[t] for row in words])
        reset, keep = torch.sigmoid(torch.cat([x, state], 1) @ gates + gates_bias).split(STATE, 1)
        candidate = torch.tanh(torch.cat([x, reset * state], 1) @ new + new_bias)
        state = keep * state + (1 - keep) * candidate
        states.append(state)
    logits = torch.stack(states, 1) @ tasks.variable("next/weights", (STATE, CLASSES), "glorot_uniform") + tasks.variable("next/bias", (CLASSES,))
    return torch.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), torch.tensor([row[1:] for row in words]).reshape(-1))


def skip_gram(tasks, step):
    centers, targets = pairs(step)
    logits = (tasks.lookup("in", DIM, centers)[:, None] * tasks.lookup("out", DIM, targets)).sum(2)
    near = -tasks.torch.nn.functional.logsigmoid(logits[:, 0])
    drawn = -tasks.torch.nn.functional.logsigmoid(-logits[:, 1:]).sum(1)
    return (near + drawn).mean()


MODELS = {"logistic": loss_of_rows(logistic), "dnn": loss_of_rows(dnn), "wide-deep": loss_of_rows(wide_deep),
          "deepfm": loss_of_rows(deepfm), "dlrm": loss_of_rows(dlrm), "mmoe": mmoe,
          "dssm": loss_of_histories(dssm), "din": loss_of_histories(din), "dien": loss_of_histories(dien), "language": language, "skip-gram": skip_gram}


def train(torch, model, *optimizers):
    tasks, losses = Tasks(torch, model, *optimizers), []
    for step in range(STEPS):
        loss = MODELS[model](tasks, step)
        loss.backward()
        tasks.step()
        losses.append(loss.item())
    return losses


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    import torch  # here, so that --help needs no package
    torch.set_num_threads(1)
    out = ["/* SPDX-License-Identifier: BSD-3-Clause */", f"/* Written by tests/models/golden.py with PyTorch {torch.__version__}. */",
           "/* clang-format off */"]
    for model, optimizer, rate, dense_optimizer, dense_rate in CASES:
        losses = train(torch, model, optimizer, rate, dense_optimizer, dense_rate)
        print(f"{model:12} {optimizer:8} {losses[0]:.6f} ... {losses[-1]:.6f}", flush=True)
        out.append(f'{{ "{model}", "{optimizer}", {rate}, "{dense_optimizer}", {dense_rate}, {{')
        out += ["  " + " ".join(f"{x:.9g}," for x in losses[i:i + 10]) for i in range(0, STEPS, 10)]
        out.append("} },")
    with open("tests/models/golden.inc", "w", encoding="ascii") as file:
        file.write("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
