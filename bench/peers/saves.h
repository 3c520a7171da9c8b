/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of the appliance in this process: its turns fill blocks, a thread of its own, on another core where there
 * is one, writes them to a file, as a node's does (lib/node/checkpoint.c). Whatever goes wrong ends the program.
 */
#ifndef BENCH_SAVES_H
#define BENCH_SAVES_H

#include <pthread.h>
#include <rte_ring.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/starbench/histogram.h"
#include "bench/peers/appliance.h"
#include "ckpt/ckpt.h"

enum { SAVES_BLOCKS = 4 };

/* Of one that was kept. */
struct saves_result {
	uint64_t rows, bytes; /* of its file */
	uint64_t whole_ns;    /* from the call that began it to its commit */
	uint64_t slices_cycles;
};

struct saves {
	struct appliance *appliance;
	const char *directory;
	uint64_t id, kept; /* the last that was begun, and kept; 0: none */
	struct service_snapshot snapshot;
	struct service_block blocks[SAVES_BLOCKS];
	struct rte_ring *written; /* from the thread: blocks that may be filled again */
	bool under_way, threaded;
	bool over;    /* the thread has met the last block; atomic */
	bool give_up; /* it is to end; atomic */
	pthread_t thread;
	char path[CKPT_PATH_MAX];
	struct ckpt_writer *writer;
	struct ckpt_file file;
	uint64_t parent, begun_ns;
	uint64_t slices_cycles;	 /* of the one that is under way */
	struct histogram slices; /* of all, in cycles */
};

/* Starts the appliance, with what a node that has a directory for checkpoints has. */
void saves_start(struct saves *s, struct appliance *a, const char *directory);

/* Goes on to the instant. */
void saves_begin(struct saves *s, enum store_snapshot_kind kind);
/* Whether blocks are still to come. */
bool saves_under_way(const struct saves *s);
/* Turns without requests until the last block is there. */
void saves_finish(struct saves *s);
/* Keeps it, after the last block, or gives it up; goes on until its marks are cleared. A full one that is kept has
 * those before it removed. */
struct saves_result saves_keep(struct saves *s);
void saves_give_up(struct saves *s);

#endif
