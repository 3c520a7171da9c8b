/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of programs among a call's operations: checked and copied, cut by reactor, written and read. A run goes to each
 * reactor that owns some of its keys in one piece; pools come back as a part from each, and are added up when the call
 * has ended.
 */
#ifndef CLIENT_RUN_H
#define CLIENT_RUN_H

#include "client/codec.h"
#include "star_program.h"

struct star_program {
	struct star_program *next;
	struct star_table *object; /* the catalogue's entry */
	struct program_shape shape;
	const struct star_table *tables[PROGRAM_KEYS_MAX]; /* by KEYS feed */
	bool carries_all;				   /* what it keeps are feeds: others can bring them */
	uint8_t feeds_count, fetches_count;
	uint8_t feeds[PROGRAM_NODES_MAX], fetches[PROGRAM_NODES_MAX]; /* nodes; of fetches those that are fetched */
	uint8_t feed_of[PROGRAM_NODES_MAX];			      /* of a feed's node: its place among the feeds */
};

/* A run of a call. */
struct call_run {
	const struct star_program *program;
	const struct star_feed *feeds;
	float *const *fetches;
	uint32_t segments;
	uint64_t tag;
	bool frees;	/* what was kept: it is the last to take it */
	bool may_bring; /* what was kept, or is to be: it may be executed without */
	struct run_share *first, *last;
};

/* What one reactor gets of it. */
struct run_share {
	struct run_share *next; /* of the run, by reactor */
	uint32_t keys;		/* of all feeds */
	uint32_t request_bytes, reply_bytes;
	uint32_t alone_bytes; /* of a request that carries what was kept */
	bool came;	      /* its results are there */
	char *pools;	      /* its part of the pools, as it came */
	uint32_t counts[PROGRAM_KEYS_MAX];
	const uint32_t *orders[PROGRAM_KEYS_MAX]; /* positions in the feed; NULL: all, in their order */
};

static inline const struct program *run_program(const struct call_op *op)
{
	return &op->run->program->object->spec.program;
}

static inline bool run_fetches(const struct call_op *op)
{
	return op->run->program->shape.fetches > 0;
}

/* program.c: with the cluster, when nobody uses it any more. */
void client_program_free_all(struct star_cluster *cluster);

/* run.c: an operation as its caller gave it. 0, or -EINVAL with a message. */
int client_run_check_op(const struct star_cluster *cluster, const struct star_op *op, uint32_t i,
			struct star_error *err);
int client_run_fill(struct call *call, struct call_op *op, const struct star_op *from, struct star_error *err);
/* How many times it pushes. */
uint32_t client_run_pushes(const struct call_op *op);
/* Shares by reactor, NULL where there is none: of all keys, or of those that parts of this run had. NULL: out of
 * memory. */
struct run_share **client_run_cut(struct call *call, const struct route *route, uint32_t op, const struct parts *from);
int client_run_too_large(const struct call_op *op, const struct run_share *share, uint32_t payload_max,
			 struct star_error *err);
/* All parts of the call have ended: adds up the pools, if it went well. */
void client_run_gather(struct call *call);

/* run_codec.c: as codec.h's, of one slice. */
void client_run_request(const struct part *part, const struct call_op *op, const struct slice *s,
			struct codec_out *out);
bool client_run_check_result(const struct call_op *op, const struct slice *s, const struct wire_result *result);
void client_run_scatter(const struct call_op *op, const struct slice *s, struct codec_in in);

#endif
