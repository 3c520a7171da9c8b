/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load generator: closed loops of one-row pulls over kernel TCP, in one thread. One skeleton (loop.c) drives every
 * protocol; what differs between StarServer's frames, RESP and a plain echo stands in one struct protocol each. So two
 * servers are compared by the same system calls in the same order, with only the bytes differing.
 */
#ifndef STARBENCH_STARBENCH_H
#define STARBENCH_STARBENCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/starbench/histogram.h"
#include "base/prng.h"
#include "star_error.h"

enum bench_limits {
	BENCH_CONNECTIONS_MAX = 4096,
	BENCH_IDLE_MAX = 1 << 20,
	BENCH_DEPTH_MAX = 64,
	BENCH_KEYS_MAX = 10 * 1000 * 1000,
	BENCH_SECONDS_MAX = 86400,
	BENCH_ROOM_BYTES = 512, /* for an error reply: a header and its sentence */
	BENCH_FILL_BATCH = 64,	/* requests in flight while filling */
	BENCH_FILL_BYTES = 256, /* of a filling request, beside the row */
	BENCH_FILES = 64,	/* that are open besides the connections */
	BENCH_TIMEOUT_S = 5,	/* of connecting, filling, and waiting for the last replies */
};

struct protocol;

struct options {
	const struct protocol *protocol;
	const char *control; /* star: control address of PS task 0 */
	const char *address; /* others: of the server */
	uint32_t connections, idle, depth, keys, dim;
	double seconds, warmup_s;
	uint64_t seed;
	bool spin; /* read the sockets in turn instead of waiting for them */
	bool checksum;
	bool json;
	int server_pid;	 /* whose CPU time is read; 0: nobody's */
	int server_core; /* whose busy time is read; -1: none's */
};

/* One listening address of the server, and the keys (indices) that it answers for. */
struct target {
	struct sockaddr_in address;
	uint32_t *keys;
	uint32_t keys_count;
	uint32_t incarnation; /* star: of its node */
};

/* A request in flight. */
struct flight {
	uint64_t sent_ns;
	uint32_t key;
};

struct connection {
	int fd; /* -1 once closed */
	uint32_t in_bytes;
	uint32_t in_flight;
	uint32_t oldest; /* flights[oldest] is answered next */
	uint64_t session, sent, answered;
	struct flight *flights; /* a ring of depth */
	uint8_t *in, *out;
	const struct target *target;
	struct prng prng;
};

enum bench_phase { BENCH_WARM_UP, BENCH_COUNT, BENCH_DRAIN };

/* CPU time at one instant. */
struct cpu_sample {
	uint64_t ns;
	uint64_t client_us, server_us, core_us;
};

struct bench {
	const struct options *options;
	const struct protocol *protocol;
	/* what the protocol's open fills in, besides its own state */
	struct target *targets;
	uint32_t targets_count;
	uint32_t request_bytes, reply_bytes; /* of a pull; its good reply */
	void *state;
	/* keys: index to key, and the first 8 bytes of the value that a right reply carries */
	uint64_t *keys, *stamps;

	struct connection *connections;
	uint32_t live;
	int *idle; /* connections that are open and say nothing */
	uint32_t idle_count;
	uint64_t in_flight;
	enum bench_phase phase;
	int epoll_fd;
	uint64_t ends_ns; /* when the phase does */
	struct cpu_sample begin, end;
	struct histogram latency;
	uint64_t errors;
	struct star_error why; /* the first error */
};

/*
 * What a protocol adds to the loop. A reply checker gets what has arrived so far, and returns the bytes it has used up,
 * 0 when the reply is not complete, or -1 with the bench's `why` filled.
 */
struct protocol {
	const char *name;
	/* Gets addresses and sizes. 0 or a negative errno. */
	int (*open)(struct bench *b, struct star_error *err);
	void (*close)(struct bench *b);
	/* One request that puts a key's value there (or reads it, where reading creates it); returns its bytes. */
	uint32_t (*fill)(struct bench *b, struct connection *c, uint32_t key, uint8_t *out);
	int (*filled)(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes);
	/* Writes everything in a request that stays the same. */
	void (*prepare)(struct bench *b, struct connection *c, uint8_t *out);
	/* Writes the rest. */
	void (*request)(struct bench *b, struct connection *c, uint32_t key, uint8_t *out);
	int (*reply)(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes);
};

extern const struct protocol protocol_star, protocol_redis, protocol_echo;

/* Bytes of a request and a reply of one row in star's frames: the echo's sizes too. */
uint32_t star_request_bytes(void);
uint32_t star_reply_bytes(uint32_t dim);

/* One listening address for all keys. */
int bench_single_target(struct bench *b, const char *address, struct star_error *err);
/* "host:port", an IPv4 literal, to an address. */
int bench_parse_address(const char *text, struct sockaddr_in *address, struct star_error *err);
/* Fails a reply: keeps the first sentence. Returns -1. */
int bench_wrong(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes keys, asks the protocol for addresses, connects and fills. NULL with err. */
struct bench *bench_create(const struct options *options, struct star_error *err);
void bench_destroy(struct bench *b);
/* The idle connections that are gone count as errors. */
void bench_check_idle(struct bench *b);
/* Runs the phases. Failures are in errors and why. */
void bench_run(struct bench *b);

/* Reads this thread's CPU time and what the options ask for. What cannot be read is 0. */
void cpu_read(const struct options *options, struct cpu_sample *sample);

#endif
