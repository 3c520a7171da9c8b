/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker of store-end-to-end: pulls and pushes batches of keys at one server, whichever it is, and knows at any
 * moment what every row must be (`mirror`). Batches are made once, so that a round measures the way to the server and
 * back alone; a batch's keys are distinct and in order, as ps-lite wants them and as a worker has them that joins
 * duplicates. All numbers are multiples of RATE below 2^14, so that float32 holds each sum exactly, in whatever order
 * it is made. One thread.
 */
#ifndef PEERS_BATCHES_H
#define PEERS_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "app/starbench/histogram.h"
#include "bench/peers/batch.h"

#define RATE 0x1p-10f

enum batches_limits {
	DEPTH_MAX = 16, /* batches in flight */
	TIMEOUT_S = 20, /* of one batch */
	ROWS_MAX = 1 << 26,
	SETS_MAX = 4096, /* different batches */
};

struct worker {
	const struct side *side;
	const char *address;
	uint32_t rows, keys, sets; /* of a batch; batches */
	double power;

	struct batch_row *mirror;  /* by index */
	uint32_t *indices;	   /* sets of keys, ordered by key */
	uint64_t *key;		   /* the same as keys */
	struct batch_row *payload; /* sets of keys: what a push sends */
	double *expected;	   /* by set: the sum of an element over the rows of a pull */
	struct batch_row *results; /* DEPTH_MAX of keys */
	struct histogram latency;
};

/* One batch as it is sent. */
struct batch {
	const uint64_t *keys;
	const struct batch_row *payload; /* push */
	struct batch_row *results;	 /* pull: written there by the time it is finished */
	uint32_t count;
	float rate;
	bool push;
};

/*
 * A kind of server. begin starts a batch, end waits for the oldest one that was begun; both end the program with a
 * message when something is wrong. Batches are answered in order.
 */
struct side {
	const char *name;
	bool sets; /* a push sends whole rows instead of gradients: the server does not compute */
	void (*open)(const struct worker *w);
	/* depth: how many batches will be in flight at once */
	void (*begin)(const struct batch *batch, uint32_t depth);
	void (*end)(const struct batch *batch);
	void (*close)(void);
};

extern const struct side side_star, side_zmq, side_epoll, side_redis, side_grpc, side_grpc_stream;

/* stream.c: a connection over the kernel's TCP, for the sides that have no library. */
int stream_dial(const char *address);
void stream_send(int fd, const void *data, uint64_t bytes);
void stream_receive(int fd, void *data, uint64_t bytes);

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
