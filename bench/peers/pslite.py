# SPDX-License-Identifier: BSD-3-Clause
"""The DLRM of docs/examples/torch on ps-lite, for bench/peers/python-dlrm.py: rows and dense weights on one server, by pslite.cc. A step
is a push of the rows' gradients and a push-and-pull of all dense weights at once, while the next batch's rows are on their way
already: what starserver.torch does, too."""
import ctypes
import os

import torch

ROW = 16


def library():
    lib = ctypes.CDLL(os.environ["PSLITE_LIBRARY"])
    lib.pslite_first_weight.restype = ctypes.c_uint64
    lib.pslite_serve.argtypes = [ctypes.c_float]
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    lib.pslite_pull.argtypes = [pointer, size, pointer]
    lib.pslite_push.argtypes = [pointer, size, pointer, ctypes.c_int]
    lib.pslite_push_pull.argtypes = [pointer, size, pointer, pointer]
    return lib


def set_role(role, workers):
    os.environ.update(DMLC_ROLE=role, DMLC_NUM_WORKER=str(workers), DMLC_NUM_SERVER="1", DMLC_PS_ROOT_URI="127.0.0.1",
                      DMLC_PS_ROOT_PORT=os.environ["RPC_PORT"], DMLC_NODE_HOST="127.0.0.1")


class Rows(torch.nn.Module):
    """The rows that were pulled for this batch: a leaf, in the order of its distinct keys."""

    def __init__(self):
        super().__init__()
        self.present = None

    def forward(self, keys):
        return torch.nn.functional.embedding(self.present.inverse, self.present.rows)


class Lookup:
    def __init__(self, lib, keys):
        self.distinct, self.inverse = torch.unique(keys, return_inverse=True)  # sorted, as ps-lite wants them
        self.rows = torch.empty(len(self.distinct), ROW)
        self.request = lib.pslite_pull(self.distinct.data_ptr(), len(self.distinct), self.rows.data_ptr())


class Weights:
    """All dense parameters in one piece of memory, in rows of ROW."""

    def __init__(self, lib, parameters):
        self.lib, self.parameters = lib, list(parameters)
        count = sum(parameter.numel() for parameter in self.parameters)
        self.keys = torch.arange(-(-count // ROW)) + lib.pslite_first_weight()
        self.values, self.gradients = torch.zeros(len(self.keys) * ROW), torch.zeros(len(self.keys) * ROW)
        at = 0
        for parameter in self.parameters:
            for memory, name in ((self.values, "data"), (self.gradients, "grad")):
                view = memory[at:at + parameter.numel()].view(parameter.shape)
                view.copy_(parameter.data if name == "data" else torch.zeros(()))
                setattr(parameter, name, view)
            at += parameter.numel()

    def assign(self):
        self.lib.pslite_wait(self.lib.pslite_push(self.keys.data_ptr(), len(self.keys), self.values.data_ptr(), 1))

    def push_pull(self):
        return self.lib.pslite_push_pull(self.keys.data_ptr(), len(self.keys), self.gradients.data_ptr(), self.values.data_ptr())


def begin(rank, make_model):
    """(the model, what makes a step of a batch and the one after it, what ends it)."""
    lib = library()
    lib.pslite_begin()
    rows = Rows()
    model = make_model(rows)
    weights = Weights(lib, model.parameters())
    if rank == 0:
        weights.assign()
    ahead = None

    def step(batch, following, loss_of):
        nonlocal ahead
        rows.present = present = ahead or Lookup(lib, batch[1])
        lib.pslite_wait(present.request)
        ahead = Lookup(lib, following[1])
        present.rows.requires_grad_()
        loss_of(model, batch).backward()
        gradient = present.rows.grad
        requests = [lib.pslite_push(present.distinct.data_ptr(), len(present.distinct), gradient.data_ptr(), 0), weights.push_pull()]
        for request in requests:
            lib.pslite_wait(request)
        weights.gradients.zero_()

    def end():
        lib.pslite_wait(ahead.request)
        lib.pslite_end()
    return step, end
