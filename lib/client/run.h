/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of programs as operations of a call: checks and copies them, splits them by reactor, encodes and decodes them.
 * Each reactor that owns some of a run's keys gets one share of it. Each returns its partial sums of pools, which are
 * added up when the call has ended. Threads: as for client.h's calls.
 */
#ifndef CLIENT_RUN_H
#define CLIENT_RUN_H

#include "client/codec.h"
#include "star_program.h"

struct star_program {
	struct star_program *next;
	struct star_table *object; /* the program's entry in the catalogue */
	struct program_shape shape;
	const struct star_table *tables[PROGRAM_KEYS_MAX]; /* by KEYS feed */
	bool carries_all; /* all that it keeps are feeds, so the worker can send them again */
	uint8_t feeds_count, fetches_count;
	uint8_t feeds[PROGRAM_NODES_MAX], fetches[PROGRAM_NODES_MAX]; /* node numbers of feeds; and of fetched nodes */
	uint8_t feed_of[PROGRAM_NODES_MAX];			      /* index among the feeds, of a feed's node */
};

/* A run of a call. */
struct call_run {
	const struct star_program *program;
	const struct star_feed *feeds;
	float *const *fetches;
	uint32_t segments;
	uint64_t tag;
	bool frees;	/* it is the last one to use what was kept */
	bool may_bring; /* it has the data, so it can also be sent without keeping or using kept values */
	struct run_share *first, *last;
};

/* What one reactor gets of a run. */
struct run_share {
	struct run_share *next; /* next share of the run, by reactor */
	uint32_t keys;		/* of all feeds */
	uint32_t request_bytes, reply_bytes;
	uint32_t alone_bytes; /* bytes of a request that sends everything */
	bool came;	      /* its results have arrived */
	char *pools;	      /* its partial sums of pools, as received */
	uint32_t counts[PROGRAM_KEYS_MAX];
	const uint32_t *orders[PROGRAM_KEYS_MAX]; /* positions of its keys in the feed; NULL: all, in order */
};

static inline const struct program *run_program(const struct call_op *op)
{
	return &op->run->program->object->spec.program;
}

static inline bool run_fetches(const struct call_op *op)
{
	return op->run->program->shape.fetches > 0;
}

/* program.c: frees all programs, when the cluster is freed. */
void client_program_free_all(struct star_cluster *cluster);

/* run.c: checks an operation as the caller has passed it. 0, or -EINVAL with err. */
int client_run_check_op(const struct star_cluster *cluster, const struct star_op *op, uint32_t i,
			struct star_error *err);
int client_run_fill(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err);
/* How many pushes it has. */
uint32_t client_run_pushes(const struct call_op *op);
/* Splits a run: an array of shares by reactor, with NULL for reactors without keys. from: only the keys of these parts;
 * NULL: all keys. NULL: out of memory. */
struct run_share **client_run_cut(struct call *call, const struct route *route, uint32_t op, const struct parts *from);
int client_run_too_large(const struct call_op *op, const struct run_share *share, uint32_t payload_max,
			 struct star_error *err);
/* All parts of the call have ended: adds up the pools, if the call has succeeded. */
void client_run_gather(struct call *call);

/* run_codec.c: as the functions of codec.h, for one slice. */
void client_run_request(const struct part *part, const struct call_op *op, const struct slice *s,
			struct codec_out *out);
bool client_run_check_result(const struct call_op *op, const struct slice *s, const struct wire_result *result);
void client_run_scatter(const struct call_op *op, const struct slice *s, struct codec_in in);

#endif
