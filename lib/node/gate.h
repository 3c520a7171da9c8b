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

/* Replies wait from now on for the standby, or are retained until it has what they tell of (standby.durability, which
 * is not "async"); and for the journal as well, if that one's durability asks for it and a restart goes on from it. The
 * shard has its ring. */
void node_gate_standby(struct shard *shard);
/* They wait for the journal, if that is to be, and for the standby, if they do. */
void node_gate_disk(struct shard *shard);
/* Whether all is durable that replies have told of before that. */
bool node_gate_covers(struct shard *shard);
/* There is no standby any more: they wait for the journal, if that is to be, or for nothing. */
void node_gate_leave_standby(struct shard *shard);
/* They leave at once from now on, those that wait, too. */
void node_gate_end(struct shard *shard);

/* Before a turn's requests: replies leave. Only of a shard with a ring. */
void node_gate_turn(struct shard *shard, uint64_t now_ns);
/* Before its end: whether a mark can wait, as nobody's reply does. */
void node_gate_patience(struct shard *shard);
/* At its end: the reader is woken if there is something for it. */
void node_gate_published(struct shard *shard);

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
