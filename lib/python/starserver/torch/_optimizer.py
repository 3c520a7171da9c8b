# SPDX-License-Identifier: BSD-3-Clause
"""The optimizer that runs on the parameter servers."""
from __future__ import annotations

import errno
import fnmatch
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from .. import Cluster, Operation, StarError, Table, TimeoutError, Variable
from ._embedding import _Rows, sum_by_key
from ._rounds import Round, Rounds
from ._workers import Worker

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16"}
POLL_S = 0.02
# A variable's elements until a worker assigns values to them: they show what a restarted node has lost. Float16 has this value
# too, and it is so large that a model that computes with it is obviously wrong.
UNGIVEN = -60000.0
BLOCK = 1024  # elements of a variable that are on one node: this many, or as many whole rows (docs/libstar.rst)
READY, STEPS = 0, 1  # elements of the variable that says how far a model is
ONE_MORE = numpy.array([0.0, -1.0])  # the gradient of a step, for sgd with rate 1


def embeddings(model: nn.Module) -> list[_Rows]:
    """The model's modules whose rows live on servers."""
    return [module for module in model.modules() if isinstance(module, _Rows)]


def cluster_of(model: nn.Module) -> Cluster:
    """The one cluster that all its embeddings belong to."""
    found = {id(module.table.cluster): module.table.cluster for module in embeddings(model)}
    if len(found) != 1:
        raise ValueError(f"the model's embeddings belong to {len(found)} clusters: pass cluster=, or make all of one cluster's "
                         "tables")
    return next(iter(found.values()))


def is_finite(gradient: Tensor) -> bool:
    """First by their sum, which takes a tenth of the time, and is finite unless one of them is not, or they are very large."""
    return math.isfinite(gradient.sum()) or bool(torch.isfinite(gradient).all())


class _Dense:
    """A parameter that the servers train, and its variable."""

    def __init__(self, parameter: nn.Parameter, variable: Variable) -> None:
        self.parameter = parameter
        self.variable = variable

    def memory(self) -> Tensor:
        """Where new values are received: the parameter's own memory where that is possible."""
        data = self.parameter.data
        if data.device.type == "cpu" and data.is_contiguous():
            return data
        return torch.empty(data.shape, dtype=data.dtype)

    def blocks_without_values(self, values: Any) -> Any:
        """For each block, which is on one node: whether no worker has assigned values to it."""
        row = math.prod(self.variable.shape[1:])
        block = BLOCK if row > BLOCK else BLOCK // row * row
        ungiven = values.reshape(-1) == UNGIVEN
        return numpy.logical_and.reduceat(ungiven, numpy.arange(0, ungiven.size, block))

    def is_finite(self) -> bool:
        gradient = self.parameter.grad
        return gradient is None or is_finite(gradient.coalesce().values() if gradient.is_sparse else gradient)

    def array(self, tensor: Tensor) -> Any:
        return tensor.detach().cpu().contiguous().numpy().reshape(self.variable.shape)

    def pull(self, memory: Tensor) -> Operation:
        return self.variable.pull_op(out=self.array(memory), dtype=DTYPES[memory.dtype])

    def gradient(self) -> Any:
        """As an array of the variable's shape; None if this worker has none: others may have one."""
        gradient = self.parameter.grad
        if gradient is None:
            return None
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        return self.array(gradient.to(self.parameter.dtype))

    def push_pull(self, memory: Tensor, step: int, rate: float | None) -> Operation:
        gradient = self.gradient()
        if gradient is None:
            return self.pull(memory)
        return self.variable.push_pull_op(gradient, out=self.array(memory), step=step, rate=rate, dtype=DTYPES[memory.dtype])

    def accept(self, memory: Tensor) -> None:
        if memory.data_ptr() != self.parameter.data_ptr():
            self.parameter.data.copy_(memory)


class _Clocks:
    """How many steps each worker that takes part has done: nobody is more than `bound` steps ahead of the slowest one."""

    def __init__(self, cluster: Cluster, name: str, rank: int, workers: int, bound: int, timeout: float | None) -> None:
        if bound < 0 or not 0 <= rank < workers:
            raise ValueError(f"staleness is 0 or more, and rank from 0 to workers - 1: not staleness={bound}, rank={rank}, "
                             f"workers={workers}")
        # A row that is not there reads as 0: that worker has not begun, or has finished.
        self._table = cluster.table(f"{name}/clocks", 1, dtype="float64", optimizer="sgd", rate=1.0, timeout=timeout)
        self._rank, self._bound, self._timeout = rank, bound, timeout
        self._workers = numpy.arange(workers)
        self._own = self._workers[rank:rank + 1]
        self._pull = self._table.pull_op(self._workers, read_only=True)
        began = max(1.0, float(self._table.pull(self._workers, read_only=True, timeout=timeout).max()))
        self._table.assign(self._own, numpy.array([[began]]), timeout=timeout)

    def operations(self) -> list[Operation]:
        """The operations of a step: count it as done, and read how many the others have done."""
        return [self._table.push_op(self._own, numpy.array([[-1.0]])), self._pull]

    def wait(self) -> None:
        """After the step: waits until the slowest worker is near enough."""
        clocks = self._pull.result[:, 0]
        end = time.monotonic() + (30 if self._timeout is None else self._timeout)
        while clocks[self._rank] - (slowest := clocks[clocks > 0].min(initial=clocks[self._rank])) > self._bound:
            if time.monotonic() > end:
                late = numpy.flatnonzero(clocks == slowest).tolist()
                raise TimeoutError(errno.ETIMEDOUT, f"workers {late} are {int(clocks[self._rank] - slowest)} steps behind, and do not "
                                                    "come nearer: do they still run? A worker that is done calls finish()")
            time.sleep(POLL_S / 10)
            clocks = self._table.pull(self._workers, read_only=True, timeout=self._timeout)[:, 0]

    def finish(self) -> None:
        self._table.delete(self._own, timeout=self._timeout)


class Optimizer(torch.optim.Optimizer):
    """Trains a model on parameter servers: step() pushes the gradients of all its embeddings and dense parameters in one
    request to each reactor, and copies the dense parameters' new values, to which other workers have contributed, back into the
    model. The servers apply each gradient exactly once.

        optimizer = starserver.torch.Optimizer(model, dense="adam", rate=1e-3)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    model: whatever has Embedding or EmbeddingBag modules; else pass `cluster`. dense: the servers' optimizer of dense parameters
    (docs/optimizers.rst), each a variable "NAME/parameter.name"; further options by name, as for Cluster.variable(), but no
    initializer. rate: their learning rate (None: that optimizer's own default). Embeddings have the optimizers of their tables.
    name: what workers of one model have in common. rank: worker 0 gives the variables that have no values those of its
    parameters, and warns when the model was trained before; the others wait for that; StarError (ENODATA) when a part of a
    variable is lost; None asks Worker.from_environment(). local: names of parameters that are not put on servers, with wildcards
    ("tower.*"): train them with an optimizer of your own; parameters without requires_grad are local, too. timeout: seconds
    for a call (30).

    staleness: bounds how far the `workers` (None: as the environment says) drift apart (stale synchronous parallel): after its step a
    worker waits while it is more than this many steps ahead of the slowest one that takes part; 0 is lock-step. Call finish()
    when a worker is done, else the others wait for it until their timeout. None: no worker waits.

    grads_to_wait: synchronous training, as by SyncReplicasOptimizer: the gradients of this many of the `workers` are one update, by their
    mean, and each step() returns when that is applied: N workers with batches of n train as one with batches of N * n. With fewer
    than there are workers the rest are backups: what comes too late is dropped, and counted in `dropped`. Call finish() when a worker
    is done. Not with staleness, and not for the optimizer lamb and clip_global_norm. mean_by_row: each row of a table moves by the mean of
    those workers of the round that have touched it, as in TensorFlow, and not by that of all.

    param_groups, for schedulers of torch.optim.lr_scheduler: one of the dense parameters, one for each table; "lr" is the rate
    that a push carries. A rate that is left as it was made is the server's, with its schedule. global_step: steps of all
    workers.
    """

    _step_supports_amp_scaling = True  # so that torch.cuda.amp.GradScaler comes to step(), which refuses it

    def __init__(self, model: nn.Module, dense: str = "adam", *, rate: float | None = None, name: str = "model", rank: int | None = None,
                 local: Sequence[str] = (), cluster: Cluster | None = None, staleness: int | None = None, grads_to_wait: int | None = None,
                 mean_by_row: bool = False, workers: int | None = None, timeout: float | None = None, **options: object) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"an Optimizer is of a whole model, whose embeddings it trains, too: pass the nn.Module, not "
                            f"{type(model).__name__} (its parameters, say)")
        if not isinstance(dense, str):
            raise TypeError(f"dense is the name of an optimizer that the servers run, as \"adam\" (docs/optimizers.rst), not {dense!r}")
        if staleness is not None and grads_to_wait is not None:
            raise ValueError("staleness= is for asynchronous training, grads_to_wait= for synchronous: give one of them")
        if mean_by_row and grads_to_wait is None:
            raise ValueError("mean_by_row= says what the gradients of synchronous steps are divided by: give grads_to_wait=, too")
        if (staleness is not None or grads_to_wait is not None) and rank is not None and workers is None:
            raise ValueError("staleness= and grads_to_wait= with rank= need workers=, the number of workers that take part")
        self._modules = embeddings(model)
        self.cluster = cluster_of(model) if cluster is None else cluster
        if any(module.table.cluster is not self.cluster for module in self._modules):
            raise ValueError("an embedding of the model belongs to another cluster than the optimizer")
        self.name, self.timeout, self.global_step = name, timeout, 0
        if isinstance(local, str):
            raise TypeError(f"local is a list of names: local=[{local!r}]")
        self._dense = [_Dense(parameter, self._variable(path, parameter, dense, rate, options))
                       for path, parameter in model.named_parameters()
                       if parameter.requires_grad and parameter.numel()
                       and not any(fnmatch.fnmatchcase(path, pattern) for pattern in local)]
        self._state = self.cluster.variable(f"{name}/state", 2, dtype="float64", optimizer="sgd", rate=1.0, timeout=timeout)
        self._tables: dict[str, Table] = {module.table.name: module.table for module in self._modules}
        of_tables = {table.name: self._options(table) for table in self._tables.values()}
        of_dense = self._options(self._dense[0].variable) if self._dense else {"rate": rate or 0.0, "nonfinite": "pass"}
        groups: list[dict[str, Any]] = [{"params": [one.parameter for one in self._dense], "name": name, "lr": float(of_dense["rate"])}]
        groups += [{"params": [], "name": table, "lr": float(made["rate"])} for table, made in of_tables.items()]
        self._refuses = {table for table, made in of_tables.items() if made["nonfinite"] == "refuse"}
        self._dense_refuse = of_dense["nonfinite"] == "refuse"
        self._made_with = [group["lr"] for group in groups]
        super().__init__(groups, {})
        place = Worker.from_environment() if rank is None else Worker(rank, workers or rank + 1)
        rank, workers = place.rank, workers or place.world_size
        self._begin(rank)
        self._clocks = None if staleness is None else _Clocks(self.cluster, name, rank, workers, staleness, timeout)
        self._rounds = None if grads_to_wait is None else Rounds(
            self.cluster, name, rank, workers, grads_to_wait, mean_by_row, [*self._tables.values(), *(one.variable for one in self._dense)],
            self._commits, self.global_step, timeout)

    def _variable(self, path: str, parameter: nn.Parameter, optimizer: str, rate: float | None, options: dict[str, Any]) -> Variable:
        if parameter.dtype not in DTYPES:
            raise TypeError(f"parameter {path} is of {parameter.dtype}; servers train float32, float64 and float16: "
                            f"pass local=[\"{path}\"] and train it here")
        return self.cluster.variable(f"{self.name}/{path}", tuple(parameter.shape) or 1, dtype=DTYPES[parameter.dtype],
                                     optimizer=optimizer, rate=rate, initializer="constant", scale=UNGIVEN, timeout=self.timeout,
                                     **options)

    def _options(self, made: Table | Variable) -> dict[str, Any]:
        return self.cluster.definition(made.name, self.timeout)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once the optimizer is made: what it trains are all parameters and embeddings that the model had then."""
        if len(self.param_groups) >= len(self._made_with):
            raise ValueError("parameters cannot be added to a starserver.torch.Optimizer: make another one of the whole model, with the same "
                             "name; what is trained already keeps its values")
        super().add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("an Optimizer of starserver.torch cannot be pickled or copied: save state_dict(), and make it again; the values are "
                        "on the servers")

    # First values

    def _begin(self, rank: int) -> None:
        """Worker 0 gives the variables their values, if nobody has; the others wait for that."""
        if rank == 0:
            self._give()
        else:
            self._wait()
        self.refresh()

    def _give(self) -> None:
        # The values themselves show whether they were assigned: a separate record of that might outlive them, or be lost alone.
        new, parts = self._without_values(self._dense)
        self._refuse(parts)
        ready = self._is_ready()
        names = ", ".join(one.variable.name for one in new)
        if not ready and len(new) < len(self._dense):
            self._warn("there are values, but the count of its steps is lost and begins at 0" +
                       (f", and worker 0 gives its own values to those that have none: {names}" if new else ""))
        elif new and self.global_step:
            self._warn(f"after step {self.global_step} these parameters have no values, and worker 0 gives them its own: {names}")
        self.cluster.execute([one.variable.assign_op(one.array(one.parameter)) for one in new], self.timeout)
        if not ready:
            self._state.assign([1.0, 0.0], timeout=self.timeout)

    def _warn(self, text: str) -> None:
        # A layer that is new, or a worker 0 that ended while it began, looks the same as a loss: so it is not an error.
        warnings.warn(f"model \"{self.name}\": {text}. If it has no new layers, a node was restarted and has lost what it held: go "
                      "back to a checkpoint (starctl checkpoint restore)", RuntimeWarning, stacklevel=5)

    def _wait(self) -> None:
        end = time.monotonic() + (30 if self.timeout is None else self.timeout)
        waiting = self._dense
        while True:
            if self._is_ready():
                waiting = sum(self._without_values(waiting), [])
                if not waiting:
                    return
            if time.monotonic() > end:
                # Not before: worker 0's values do not reach all nodes at the same moment.
                self._refuse(self._without_values(waiting)[1])
                raise TimeoutError(errno.ETIMEDOUT, f"worker 0 has not given \"{self.name}\" its first values: is it running, "
                                                    "with the same name and cluster, and rank 0?")
            time.sleep(POLL_S)

    def _without_values(self, dense: Sequence[_Dense]) -> tuple[list[_Dense], list[_Dense]]:
        """Those that have no values: of a new model, or of a layer that is new in it; and those of which a part has none."""
        values = self.cluster.execute([one.variable.pull_op(read_only=True) for one in dense], self.timeout)
        without = [(one, one.blocks_without_values(array)) for one, array in zip(dense, values)]
        return ([one for one, blocks in without if blocks.all()],
                [one for one, blocks in without if blocks.any() and not blocks.all()])

    def _refuse(self, parts: Sequence[_Dense]) -> None:
        if parts:
            raise StarError(errno.ENODATA, "a part of the values is lost of " + ", ".join(one.variable.name for one in parts) +
                            ": a node was restarted without what it held, or worker 0 ended while it gave them. Roll back to a "
                            "checkpoint (starctl checkpoint restore), or drop the model's variables (starctl tables drop "
                            f"{self.name}/state {parts[0].variable.name} and so on) and start again")

    def _is_ready(self) -> bool:
        state = self._state.pull(read_only=True, timeout=self.timeout)
        self.global_step = int(state[STEPS])
        return bool(state[READY] == 1)

    def refresh(self) -> None:
        """Copies the dense parameters' present values into the model, without a step: before an evaluation."""
        memories = [one.memory() for one in self._dense]
        state = self._state.pull_op()
        self._execute([*(one.pull(memory) for one, memory in zip(self._dense, memories)), state], memories, state)

    # Steps

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None, *,  # type: ignore[override]
             grad_scaler: object = None) -> float | None:
        """Pushes all gradients and copies the dense parameters' new values back. closure: computes the loss again, and
        its gradients; step() returns what it returns. Embeddings' gradients are used up; call zero_grad() for the
        others. After an exception it is unknown which gradients were applied: call zero_grad(), and go on with the next batch."""
        if grad_scaler is not None:
            raise TypeError("a GradScaler does not scale the gradients of embeddings back: use autocast with bfloat16, which needs "
                            "none, or GradScaler(enabled=False)")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        taken = [(module, module.gradients.take()) for module in self._modules]
        try:
            gradients = self._by_table(taken)
            self._check_finite(gradients)
            if self._rounds is None:
                self._push_pull(gradients)
            else:
                self._push_to_round(self._rounds, gradients)
        except BaseException:
            for module, pairs in taken:
                module.gradients.put_back(pairs)
            raise
        for module in self._modules:
            module.prefetched = []  # these rows are of before the step
        if self._clocks is not None:
            self._clocks.wait()
        return loss

    def _check_finite(self, gradients: Sequence[tuple[Table, list[tuple[Tensor, Tensor]]]]) -> None:
        """The nodes would refuse these too, but each on its own: others would have applied their part of the step."""
        bad = [f"row {keys[~torch.isfinite(gradient).all(1)][0]} of table \"{table.name}\"" for table, pairs in gradients
               if table.name in self._refuses for keys, gradient in pairs if not is_finite(gradient)]
        if self._dense_refuse:
            bad += [f"\"{one.variable.name}\"" for one in self._dense if not one.is_finite()]
        if bad:
            raise StarError(errno.EDOM, f"NaN or infinities are in the gradient of {bad[0]}" + (f" and {len(bad) - 1} more" if bad[1:] else "") +
                            ": nothing was pushed. Call zero_grad(), and go on with the next batch; tables with nonfinite=\"clip\" take them")

    def _push_pull(self, gradients: Sequence[tuple[Table, list[tuple[Tensor, Tensor]]]]) -> None:
        number = self.global_step + 1
        memories = [one.memory() for one in self._dense]
        state = self._state.push_pull_op(ONE_MORE)
        dense_rate, *rates = self._rates()
        operations = [table.push_op(keys.numpy(), gradient.numpy(), step=number, rate=rate)
                      for rate, (table, pairs) in zip(rates, gradients) for keys, gradient in pairs]
        operations += [one.push_pull(memory, number, dense_rate) for one, memory in zip(self._dense, memories)]
        if self._clocks is not None:
            operations += self._clocks.operations()
        self._execute([*operations, state], memories, state)

    def _push_to_round(self, rounds: Rounds, gradients: Sequence[tuple[Table, list[tuple[Tensor, Tensor]]]]) -> None:
        def pushes(tag: int) -> list[Operation]:
            operations = [table.push_op(keys.numpy(), gradient.numpy(), tag=tag) for table, pairs in gradients for keys, gradient in pairs]
            dense = [(one, one.gradient()) for one in self._dense]
            return operations + [one.variable.push_op(gradient, dtype=DTYPES[one.parameter.dtype], tag=tag)
                                 for one, gradient in dense if gradient is not None]
        rounds.step(pushes)
        self.refresh()

    def _commits(self, over: Round, done: int) -> list[Operation]:
        """The operations that apply the sums of a round, to which this many workers have added."""
        dense_rate, *rates = self._rates()
        tag, number = over.tag, over.step + 1
        # Sums that are divided by row have no other scale.
        by_table: dict[str, Any] = {"by_row": True} if over.by_row else {"scale": 1 / done}
        return [*(table.commit_op(tag, step=number, rate=rate, **by_table) for table, rate in zip(self._tables.values(), rates)),
                *(one.variable.commit_op(tag, step=number, rate=dense_rate, scale=1 / done) for one in self._dense),
                self._state.assign_op([1.0, float(number)])]

    @property
    def dropped(self) -> int:
        """With grads_to_wait: steps of this worker whose gradients came too late."""
        return 0 if self._rounds is None else self._rounds.dropped

    def finish(self) -> None:
        """This worker is done: the others no longer wait for it. With `staleness` or `grads_to_wait`; else it does nothing."""
        if self._clocks is not None:
            self._clocks.finish()
        if self._rounds is not None:
            self._rounds.finish()

    def _rates(self) -> list[float | None]:
        """The rates of the dense parameters and of each table: None while a rate is what they were made with, which the server
        has."""
        return [None if group["lr"] == made else float(group["lr"])
                for group, made in zip(self.param_groups, self._made_with)]

    def _by_table(self, taken: Sequence[tuple[_Rows, list[tuple[Tensor, Tensor]]]]) -> list[
            tuple[Table, list[tuple[Tensor, Tensor]]]]:
        """Of each table one pair of distinct keys and their gradients, or none: a second push would be a second update."""
        waiting: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self._tables}
        for module, pairs in taken:
            waiting[module.table.name] += pairs
        return [(self._tables[name], [sum_by_key(pairs)] if pairs else []) for name, pairs in waiting.items()]

    def _execute(self, operations: Sequence[Operation], memories: Sequence[Tensor], state: Operation) -> None:
        self.cluster.execute(operations, self.timeout)
        for one, memory in zip(self._dense, memories):
            one.accept(memory)
        self.global_step = int(state.result[STEPS])

    def clip_grad_norm_(self, max_norm: float) -> float:
        """Before step(): scales all gradients, of embeddings too, so that their common L2 norm is max_norm at most. Returns
        the norm as it was. Gradients of one key count as their sum, which is what is applied."""
        if not max_norm > 0:
            raise ValueError(f"max_norm is above 0, not {max_norm}")
        dense = [one.parameter.grad for one in self._dense if one.parameter.grad is not None]
        parts = [gradient for _, pairs in self._by_table([(module, module.gradients.merge()) for module in self._modules])
                 for _, gradient in pairs] + dense
        norm = math.hypot(*(float(part.detach().double().norm()) for part in parts))
        if max_norm < norm < math.inf:
            for module in self._modules:
                module.gradients.scale(max_norm / norm)
            for gradient in dense:
                gradient.detach().mul_(max_norm / norm)
        return norm

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the model's embeddings and of the dense parameters that are on servers."""
        super().zero_grad(set_to_none)
        for module in self._modules:
            module.gradients.clear()

    # What is to be saved: rows, parameters and their optimizers' state are in the cluster's checkpoints

    def state_dict(self) -> dict[str, Any]:
        """The names of tables and variables, the steps so far, and the rates. Values are in the cluster's checkpoints."""
        return {**super().state_dict(), "starserver": {
            "name": self.name, "global_step": self.global_step, "tables": sorted(self._tables),
            "variables": sorted(one.variable.name for one in self._dense)}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The rates of a state_dict() of the same model. Raises ValueError when it is another model's."""
        mine, other = self.state_dict()["starserver"], state_dict.get("starserver", {})
        for what in ("name", "tables", "variables"):
            if mine[what] != other.get(what):
                raise ValueError(f"this state is another model's: its {what} is {other.get(what)!r}, not {mine[what]!r}")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "starserver"})
