#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/optim/golden.inc: what PyTorch's optimizers make of a row, for golden.c to compare with.

Needs python3-torch, which the tests themselves do not: the vectors are committed. Weights and gradients follow from small
integers (weight, gradient), which golden.c computes too, so only results are written.
"""
import argparse
import struct
import sys

N, CHECKPOINTS = 6, (1, 2, 3, 10, 100, 1000)
# Name of the kind, its options, the class of torch.optim and its arguments. Numbers are rounded to float32 first, as ours are.
CASES = [
    ("SGD", {"rate": 0.05}, "SGD", {}),
    ("SGD", {"rate": 0.05, "l2": 0.1, "clip_value": 0.5}, "SGD", {"weight_decay": 0.1}),
    ("MOMENTUM", {"rate": 0.01, "momentum": 0.9}, "SGD", {"momentum": 0.9}),
    ("MOMENTUM", {"rate": 0.01, "momentum": 0.5, "l2": 0.01, "clip_value": 0.7}, "SGD",
     {"momentum": 0.5, "weight_decay": 0.01}),
    ("NESTEROV", {"rate": 0.01, "momentum": 0.9}, "SGD", {"momentum": 0.9, "nesterov": True}),
    ("ADAGRAD", {"rate": 0.1, "epsilon": 1e-10}, "Adagrad", {"eps": 1e-10}),
    ("ADAGRAD", {"rate": 0.1, "epsilon": 0.1, "initial_accumulator": 0.5, "l2": 0.01}, "Adagrad",
     {"eps": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.01}),
    ("RMSPROP", {"rate": 0.01, "rho": 0.99, "epsilon": 1e-8}, "RMSprop", {"alpha": 0.99, "eps": 1e-8}),
    ("RMSPROP", {"rate": 0.01, "rho": 0.9, "epsilon": 1e-3, "momentum": 0.8}, "RMSprop",
     {"alpha": 0.9, "eps": 1e-3, "momentum": 0.8}),
    ("RMSPROP", {"rate": 0.01, "rho": 0.9, "epsilon": 1e-3, "centered": 1}, "RMSprop",
     {"alpha": 0.9, "eps": 1e-3, "centered": True}),
    ("RMSPROP", {"rate": 0.01, "rho": 0.9, "epsilon": 1e-3, "centered": 1, "momentum": 0.5, "l2": 0.01}, "RMSprop",
     {"alpha": 0.9, "eps": 1e-3, "centered": True, "momentum": 0.5, "weight_decay": 0.01}),
    ("ADADELTA", {"rate": 1, "rho": 0.9, "epsilon": 1e-6}, "Adadelta", {"rho": 0.9, "eps": 1e-6}),
    ("ADAM", {"rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}, "Adam",
     {"betas": (0.9, 0.999), "eps": 1e-8}),
    ("ADAM", {"rate": 0.01, "beta1": 0.7, "beta2": 0.95, "epsilon": 0.01, "l2": 0.1}, "Adam",
     {"betas": (0.7, 0.95), "eps": 0.01, "weight_decay": 0.1}),
    ("AMSGRAD", {"rate": 0.01, "beta1": 0.9, "beta2": 0.9, "epsilon": 1e-4}, "Adam",
     {"betas": (0.9, 0.9), "eps": 1e-4, "amsgrad": True}),
    ("ADAMW", {"rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}, "AdamW",
     {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}),
    ("ADAMW", {"rate": 0.01, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.01, "weight_decay": 0.5}, "AdamW",
     {"betas": (0.5, 0.9), "eps": 0.01, "weight_decay": 0.5}),
    # Rows by and by, one count for all: PyTorch's SparseAdam has DeepRec's place of epsilon.
    ("ADAM_ASYNC", {"rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3, "count_per_table": 1}, "SparseAdam",
     {"betas": (0.9, 0.999), "eps": 1e-3}),
]


def rounded(value):
    """The float32 nearest to a number, as Python's float; of tuples element by element."""
    if isinstance(value, tuple):
        return tuple(rounded(v) for v in value)
    return value if isinstance(value, (bool, int)) else struct.unpack("f", struct.pack("f", value))[0]


def weight(i):
    return (i * 37 % 19 - 9) / 8


def gradient(step, i):
    """An integer over 64: exact in float32. Every fourth element has none in every third step."""
    if step % 3 == 0 and i % 4 == 3:
        return 0.0
    return ((step * 7919 + i * 104729) % 257 - 118) / 64


def run(torch, options, optimizer, arguments, dtype):
    """The row at each checkpoint."""
    sparse = optimizer == "SparseAdam"
    start = torch.tensor([[weight(i) for i in range(N)]] * (2 if sparse else 1), dtype=dtype)
    row = torch.nn.Parameter(start)
    arguments = {name: rounded(value) for name, value in arguments.items()}
    made = getattr(torch.optim, optimizer)([row], lr=rounded(options["rate"]), **arguments)
    found = []
    for step in range(1, CHECKPOINTS[-1] + 1):
        grad = torch.tensor([[gradient(step, i) for i in range(N)]], dtype=dtype)
        if "clip_value" in options:
            grad.clamp_(-rounded(options["clip_value"]), rounded(options["clip_value"]))
        if sparse:  # row 0 is in every other push, row 1 in all
            ids = [0, 1] if step % 2 else [1]
            grad = torch.sparse_coo_tensor([ids], grad.repeat(len(ids), 1), row.shape)
        row.grad = grad
        made.step()
        if step in CHECKPOINTS:
            found.append([float(x) for x in row.detach()[0]])
    return found


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    import torch  # here, so that --help needs no package
    out = ["/* SPDX-License-Identifier: BSD-3-Clause */",
           f"/* Written by tests/optim/golden.py with PyTorch {torch.__version__}. */",
           "/* clang-format off */"]
    for kind, options, optimizer, arguments in CASES:
        fields = "".join(f", .{name} = {value}" + ("f" if isinstance(value, float) else "") for name, value in options.items())
        out.append(f"{{ \"{optimizer}\", {{ .kind = OPTIM_{kind}{fields} }},")
        for dtype in (torch.float32, torch.float64):
            rows = run(torch, options, optimizer, arguments, dtype)
            digits = 9 if dtype == torch.float32 else 17
            out.append("  { " + ",\n    ".join("{ " + ", ".join(f"{x:.{digits}g}" for x in row) + " }" for row in rows) + " },")
        out.append("},")
    with open("tests/optim/golden.inc", "w") as file:
        file.write("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
