/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Durable replies: a reactor holds replies until the standby or the disk has the changes that they report. Another
 * thread, the ring's reader, sends or writes these changes. The reactor checks the reader's progress in each turn.
 * Either side wakes the other if it sleeps. Threads: functions with a shard are called on its reactor.
 */
#ifndef NODE_GATE_H
#define NODE_GATE_H

#include "journal/ring.h"
#include "node/node.h"

/* An eventfd by which reactors wake the thread that reads their rings. */
struct node_bell {
	int fd;
	uint32_t sleeps; /* the thread is asleep, or about to be */
};

/* Called before the reactor runs: from then on progress of the ring's reader wakes it. bell: wakes the reader; NULL: it
 * polls. */
void node_gate_watch(struct shard *shard, struct journal_ring *ring, struct node_bell *bell);

/* From now on replies wait for the standby, or are retained until it has the changes that they report
 * (standby.durability, which is not "async" here); and for the journal too, if its durability requires it and a restart
 * would continue from it. The shard has its ring. */
void node_gate_standby(struct shard *shard);
/* From now on they wait for the journal, if its durability requires it (true), and still for the standby, if they
 * did. */
bool node_gate_disk(struct shard *shard);
/* Whether everything that replies reported before they waited for the present readers is with all of these. */
bool node_gate_covers(struct shard *shard);
/* The standby is gone: replies wait only for the journal, if its durability requires it. */
void node_gate_leave_standby(struct shard *shard);
/* From now on replies are sent at once, including those that were waiting. */
void node_gate_end(struct shard *shard);

/* Before a turn's requests: sends replies whose changes are durable. Only for a shard with a ring. */
void node_gate_turn(struct shard *shard, uint64_t now_ns);
/* Before the turn's end: a mark may be delayed if no reply waits for it. */
void node_gate_patience(struct shard *shard);
/* At the turn's end: wakes the reader if there is something for it. */
void node_gate_published(struct shard *shard);

const char *node_gate_name(enum config_durability durability);
/* The number of replies that wait, over all reactors; for metrics. */
uint32_t node_gate_held(const struct node *node);

/* 0 or a negative errno. */
int node_bell_make(struct node_bell *bell, struct star_error *err);
void node_bell_free(struct node_bell *bell);
/* Called by the reader: before it checks the rings for the last time and sleeps; and after it woke up. */
void node_bell_sleeps(struct node_bell *bell);
void node_bell_woke(struct node_bell *bell);

#endif
