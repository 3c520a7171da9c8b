# SPDX-License-Identifier: BSD-3-Clause
"""Synchronous training: the gradients of several workers become one update.

A round has a tag, which its sums on the PS tasks have too (docs/libstar.rst, "Sums"). A worker takes a ticket of the round, pushes its
gradients to the sums, and says that it is done; whoever completes the round commits the sums, and opens the next one.

The table NAME/rounds has a row for each round, and in the row of each worker, which nobody else writes, the latest round that this worker
has opened or joined: the greatest tag of these is the present round's. Rounds are thrown away, and made again under a greater tag, by
a worker that begins, and by one that cannot say what became of its ticket: so a worker that dies in the middle of a step delays
the others only until it is started again. The others push their gradients once more; nothing was applied meanwhile.

Several workers may want to end a round at once, one by a commit, another by throwing it away. This is decided in one place, the
reactor that
has the round's row: OPENED of that row is in the sums of NAME/rounds itself, which are committed or thrown away before all others. The
first one decides; the others read the decision in the row, and do the same with all other sums. Nodes commit a tag once.
"""
from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from .. import Cluster, Operation, StarError, Table, TimeoutError, Variable

TAG, STEP, STATE, SINCE = range(4)  # of a worker's row
TAKES_PART, ENDED, BY_ROW = 1, 2, 4  # STATE: one of the first two, or 0: has not begun; and BY_ROW, of the round
TICKETS, DONE, OPENED = range(3)  # of a round's row
HELP_S = 0.1  # a round that has been complete for this long is ended by another worker than the one that completed it
KEPT = 64  # rows of rounds
WAIT_S = 0.0005, 0.01


class Round(NamedTuple):
    """tag: of its sums. step: steps of the model before it. since: the tag of the first round of this run of the job. by_row: each
    row's sum in tables is divided by the number of workers that have touched it."""
    tag: int
    step: int
    since: int
    by_row: bool


def _is_over(error: StarError) -> bool:
    return error.errno == errno.EALREADY


def _minus(place: int, value: float = 1.0) -> Any:
    """The gradient that adds to an element of a row, for sgd with rate 1."""
    row = numpy.zeros((1, 4))
    row[0, place] = -value
    return row


class Rounds:
    """commits: of a round, the operations that apply its sums, as the mean of this many workers; wait_for: this many gradients
    are one update, of those workers that have not ended; by_row: of the rounds that this worker opens."""

    def __init__(self, cluster: Cluster, name: str, rank: int, workers: int, wait_for: int, by_row: bool,
                 model: Sequence[Table | Variable], commits: Callable[[Round, int], list[Operation]], step: int,
                 timeout: float | None) -> None:
        if not 0 < wait_for <= workers or not 0 <= rank < workers:
            raise ValueError(f"grads_to_wait is from 1 to workers, and rank from 0 to workers - 1: not grads_to_wait={wait_for}, "
                             f"rank={rank}, workers={workers}")
        self._cluster, self._model, self._commits, self._timeout = cluster, model, commits, timeout
        self._table = cluster.table(f"{name}/rounds", 4, dtype="float64", optimizer="sgd", rate=1.0, timeout=timeout)
        self._workers, self._own, self._wait_for, self._by_row = numpy.arange(workers), numpy.array([rank]), wait_for, by_row
        self._spoilt = False  # what became of this worker's ticket is not known
        self.dropped = 0
        self._round = Round(0, step, 0, by_row)
        self._renew()

    # Rows

    def _look(self, tag: int) -> tuple[Round, Any, Any]:
        """(the present round, the rows of the workers, the row of the round with that tag)."""
        return self._of(*self._cluster.execute(self._pulls(tag), self._timeout))

    def _pulls(self, tag: int) -> list[Operation]:
        return [self._table.pull_op(self._workers, read_only=True), self._table.pull_op([tag], read_only=True)]

    def _of(self, rows: Any, row: Any) -> tuple[Round, Any, Any]:
        last = rows[rows[:, TAG].argmax()]
        return Round(int(last[TAG]), int(last[STEP]), int(last[SINCE]), bool(last[STATE] >= BY_ROW)), rows, row[0]

    def _publish(self, opened: Round, state: int = TAKES_PART) -> None:
        row = [opened.tag, opened.step, state + (BY_ROW if opened.by_row else 0), opened.since]
        self._table.assign(self._own, numpy.array([row], "float64"), timeout=self._timeout)
        self._round = opened

    def _open(self, opened: Round) -> None:
        """Announces the round, whose sums are open."""
        self._table.push([opened.tag], _minus(OPENED), tag=opened.tag, timeout=self._timeout)
        self._publish(opened)

    def _needed(self, rows: Any) -> int:
        ended = (rows[:, STATE] % BY_ROW == ENDED) & (rows[:, TAG] >= rows[rows[:, TAG].argmax(), SINCE])
        return max(1, min(self._wait_for, len(rows) - int(ended.sum())))

    def _is_complete(self, rows: Any, row: Any) -> bool:
        return row[DONE] >= self._needed(rows) and row[DONE] >= min(row[TICKETS], self._wait_for)

    # Ends of rounds

    def _apply(self, over: Round, done: int) -> None:
        try:
            self._cluster.execute(self._commits(over, done), self._timeout)
        except StarError as error:
            if not _is_over(error):  # it was done, or the sums were lost with a node
                raise

    def _complete(self) -> None:
        """Applies the sums of the present round, unless it was thrown away before, and opens the next one."""
        over = self._round
        tag = over.tag
        try:
            self._table.commit(tag, timeout=self._timeout)
            row = self._table.pull([tag], read_only=True, timeout=self._timeout)[0]
            if not row[OPENED]:
                return
            self._apply(over, int(row[DONE]))
            self._open(over._replace(tag=tag + 1, step=over.step + 1))
            self._table.delete([tag - KEPT], timeout=self._timeout)
        except StarError as error:
            if not _is_over(error):
                raise

    def _renew(self) -> None:
        """Throws the present round away, unless it is to be applied, and opens another one for the same step."""
        while True:
            tag = max(time.time_ns() // 1000, self._round.tag + 1, self._look(0)[0].tag + 1)
            try:
                self._table.commit(tag, open=True, timeout=self._timeout)
                break
            except StarError as error:
                if not _is_over(error):
                    raise
        # Earlier rounds can no longer be decided: this is the last one that was.
        present, rows, _ = self._look(0)
        row = self._table.pull([present.tag], read_only=True, timeout=self._timeout)[0]
        step = present.step
        if present.tag and row[OPENED]:
            self._apply(present, int(row[DONE]))
            step += 1
        step = max(step, self._round.step)  # there may have been steps of another kind of training
        # All workers of the last run have ended: this is another run of the job, whose workers may not have begun yet.
        since = present.since if (rows[:, STATE] % BY_ROW == TAKES_PART).any() else tag
        opened = Round(tag, step, since, self._by_row)
        try:
            self._cluster.execute([one.commit_op(tag, open=True, by_row=self._by_row and isinstance(one, Table)) for one in self._model],
                                  self._timeout)
            self._open(opened)
        except StarError as error:
            if not _is_over(error):
                raise
            # Another worker has opened another round, which all will follow; so will this worker, if its row says that it takes
            # part.
            self._publish(opened)
        self._spoilt = False

    # Steps

    def step(self, pushes: Callable[[int], list[Operation]]) -> None:
        """pushes: of a tag, the operations that add this worker's gradients to the sums. Returns when the round is over."""
        if self._spoilt:
            self._renew()
        end = time.monotonic() + (30 if self._timeout is None else self._timeout)
        self._spoilt = True  # also by Ctrl-C
        while not self._try(pushes, end):
            pass
        self._spoilt = False

    def _try(self, pushes: Callable[[int], list[Operation]], end: float) -> bool:
        """False: the round was thrown away, or is another one."""
        mine = self._round
        if mine.by_row != self._by_row:
            raise StarError(errno.EINVAL, f"another worker of the job has mean_by_row={mine.by_row}, and this one {self._by_row}: give it "
                                          "to all alike")
        ticket = self._table.push_pull_op([mine.tag], _minus(TICKETS), at_once=True)
        present, rows, row = self._of(*self._cluster.execute([*self._pulls(mine.tag), ticket], self._timeout)[:2])
        if present.tag != mine.tag:
            self._in_time(end, rows, row)
            self._round = present
            return False
        counts = bool(ticket.result[0, TICKETS] <= self._wait_for)
        if counts:
            try:
                self._cluster.execute(pushes(mine.tag), self._timeout)
                row = self._table.push_pull([mine.tag], _minus(DONE), at_once=True, timeout=self._timeout)[0]
                if self._is_complete(rows, row):
                    self._complete()
            except StarError as error:
                if not _is_over(error):
                    raise
                counts = False
        return self._wait(mine, counts, end)

    def _wait(self, mine: Round, counts: bool, end: float) -> bool:
        """Waits until there is another round. Returns whether it is of a later step."""
        pause, complete_s = WAIT_S[0], None
        while True:
            present, rows, row = self._look(mine.tag)
            if present.tag > mine.tag:
                self._round = present
                committed = present.step > mine.step
                self.dropped += committed and (not counts or bool(row[DONE] and not row[OPENED]))
                return committed
            if self._is_complete(rows, row):
                now = time.monotonic()
                complete_s = now if complete_s is None else complete_s
                if now - complete_s > HELP_S:
                    self._complete()
            self._in_time(end, rows, row)
            time.sleep(pause)
            pause = min(2 * pause, WAIT_S[1])

    def _in_time(self, end: float, rows: Any, row: Any) -> None:
        if time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, f"step {self._round.step + 1}: {int(row[DONE])} of {self._needed(rows)} gradients have arrived: "
                                                "do the other workers still run? A worker that is done calls finish(); one that has "
                                                "died is to be started again")

    def finish(self) -> None:
        """The others no longer wait for this worker."""
        self._publish(self._look(0)[0], ENDED)
