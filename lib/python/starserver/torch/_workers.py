# SPDX-License-Identifier: BSD-3-Clause
"""Which worker this process is, as TF_CONFIG or torchrun say."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import starserver


@dataclass(frozen=True)
class Worker:
    """This process's place in the job. rank: from 0; worker 0 gives parameters their first values, writes checkpoints and
    summaries. world_size: how many workers there are. ps: the addresses of the PS tasks, for connect()."""
    rank: int = 0
    world_size: int = 1
    ps: str | None = None

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Worker:
        """TF_CONFIG, where "chief" or "master" is worker 0 and "ps" has the control addresses; else RANK and WORLD_SIZE, as torchrun
        sets them, and STARSERVER_PS; else one worker. Raises ValueError that says what is wrong."""
        if environment.get("TF_CONFIG", "").strip():
            return cls._of_tf_config(environment["TF_CONFIG"])
        try:
            rank, size = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
        except ValueError as error:
            raise ValueError(f"RANK and WORLD_SIZE are whole numbers: {error}") from None
        if not 0 <= rank < size:
            raise ValueError(f"RANK is {rank}, and WORLD_SIZE {size}: a rank is from 0 to {size - 1}")
        return cls(rank, size, environment.get("STARSERVER_PS"))

    @classmethod
    def _of_tf_config(cls, text: str) -> Worker:
        try:
            config = json.loads(text)
            cluster: dict[str, list[str]] = config["cluster"]
            kind, index = config["task"]["type"], int(config["task"]["index"])
            chiefs = [*cluster.get("chief", []), *cluster.get("master", [])]
            workers = len(cluster.get("worker", []))
            ps = "tcp:" + ",".join(cluster["ps"]) if cluster.get("ps") else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"TF_CONFIG is not as TensorFlow writes it ({type(error).__name__}: {error}): it has \"cluster\" with "
                             "lists of addresses, and \"task\" with \"type\" and \"index\"") from None
        size = len(chiefs) + workers
        if kind in ("chief", "master") and 0 <= index < len(chiefs):
            return cls(index, size, ps)
        if kind == "worker" and 0 <= index < workers:
            return cls(len(chiefs) + index, size, ps)
        raise ValueError(f"TF_CONFIG says that this is task {index} of type \"{kind}\", which is not a worker of its cluster")

    def connect(self, timeout: float | None = None) -> starserver.Cluster:
        """starserver.connect() to the job's PS tasks."""
        if not self.ps:
            raise ValueError("nothing says where the PS tasks are: set \"ps\" in TF_CONFIG, or STARSERVER_PS to "
                             "\"tcp:host:3333,host:3333\"")
        return starserver.connect(self.ps, timeout)
