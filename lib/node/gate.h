/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Durable replies: between a reactor, whose replies wait for a standby or a disk, and the thread that brings it what
 * the reactor writes. The reactor looks in each turn at how far that is. If it sleeps, or the thread does, the other
 * one wakes it. What is a shard's is called on its reactor.
 */
#ifndef STARSERVER_GATE_H
#define STARSERVER_GATE_H

#include "journal/ring.h"
#include "node/node.h"

/* By which reactors wake the thread that reads their rings. */
struct node_bell {
	int fd;
	uint32_t sleeps; /* the thread's */
};

/* Before the reactor runs: it is woken when the ring's reader comes on. bell: wakes the reader; NULL: that one looks
 * often enough. */
void node_gate_watch(struct shard *shard, struct journal_ring *ring, struct node_bell *bell);

/* Replies wait from now on for this reader of the shard's ring, or are retained until it has what they tell of;
 * durability: not "async". */
void node_gate_begin(struct shard *shard, enum journal_reader reader, enum config_durability durability);
/* Whether all is durable that replies have told of before that. */
bool node_gate_covers(struct shard *shard);
/* They leave at once from now on, those that wait, too. */
void node_gate_end(struct shard *shard);

/* Before a turn's requests: replies leave. Only of a shard with a ring. */
void node_gate_turn(struct shard *shard, uint64_t now_ns);
/* Before its end: whether a mark can wait, as nobody's reply does. */
void node_gate_patience(struct shard *shard);
/* At its end: the reader is woken if there is something for it. */
void node_gate_published(struct shard *shard);

/* As the configuration has it: of a pair, or of a node with a journal. */
static inline enum config_durability node_durability(const struct config *config)
{
	return config->standby_peer[0] ? config->standby_durability : config->journal_durability;
}
const char *node_gate_name(enum config_durability durability);
/* Replies that wait, of all reactors: a figure. */
uint32_t node_gate_held(const struct node *node);

/* 0 or a negative errno. */
int node_bell_make(struct node_bell *bell, struct star_error *err);
void node_bell_free(struct node_bell *bell);
/* The reader: says that it is about to sleep, and looks at the rings once more; then that it does not. */
void node_bell_sleeps(struct node_bell *bell);
void node_bell_woke(struct node_bell *bell);

#endif
