/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load generator: closed loops of one-row pulls over kernel TCP, in one thread. One loop (loop.c) drives every
 * protocol; a struct protocol has what is specific to StarServer's frames, to RESP (Redis), or to a plain echo. So all
 * servers are measured with the same system calls in the same order; only the bytes differ.
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
	BENCH_ROOM_BYTES = 512, /* for an error reply: a header and its message */
	BENCH_FILL_BATCH = 64,	/* requests in flight while filling */
	BENCH_FILL_BYTES = 256, /* of a filling request, without the row */
	BENCH_FILES = 64,	/* open besides the connections */
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
	int server_pid;	 /* the process whose CPU time is measured; 0: none */
	int server_core; /* the core whose busy time is measured; -1: none */
};

/* A listening address of the server, and the keys (by index) that it serves. */
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
	struct flight *flights; /* a ring of `depth` */
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
	/* filled in by the protocol's open, with its own state */
	struct target *targets;
	uint32_t targets_count;
	uint32_t request_bytes, reply_bytes; /* of a pull, and of its reply if it succeeds */
	void *state;
	/* by index: the key, and the first 8 bytes of the value in a correct reply */
	uint64_t *keys, *stamps;

	struct connection *connections;
	uint32_t live;
	int *idle; /* connections that are open and never used */
	uint32_t idle_count;
	uint64_t in_flight;
	enum bench_phase phase;
	int epoll_fd;
	uint64_t ends_ns; /* end of the phase */
	struct cpu_sample begin, end;
	struct histogram latency;
	uint64_t errors;
	struct star_error why; /* the first error */
};

/*
 * The protocol's part of the loop. `filled` and `reply` check a reply: they get the bytes that have arrived so far, and
 * return how many of them the reply took, 0 if it is not complete, or -1 with the bench's `why` set.
 */
struct protocol {
	const char *name;
	/* Gets addresses and sizes. 0 or a negative errno. */
	int (*open)(struct bench *b, struct star_error *err);
	void (*close)(struct bench *b);
	/* Writes a request that stores a key's value (or reads it, if reading creates it); returns its size in
	 * bytes. */
	uint32_t (*fill)(struct bench *b, struct connection *c, uint32_t key, uint8_t *out);
	int (*filled)(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes);
	/* Writes the constant part of a connection's requests, once. */
	void (*prepare)(struct bench *b, struct connection *c, uint8_t *out);
	/* Writes what differs from request to request. */
	void (*request)(struct bench *b, struct connection *c, uint32_t key, uint8_t *out);
	int (*reply)(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes);
};

extern const struct protocol protocol_star, protocol_redis, protocol_echo;

/* Bytes of a request and a reply of one row in StarServer's frames; echo uses the same sizes. */
uint32_t star_request_bytes(void);
uint32_t star_reply_bytes(uint32_t dim);

/* One target with all keys. */
int bench_single_target(struct bench *b, const char *address, struct star_error *err);
/* Parses "host:port"; host is an IPv4 literal. */
int bench_parse_address(const char *text, struct sockaddr_in *address, struct star_error *err);
/* Reports a wrong reply; the first message is kept in `why`. Returns -1. */
int bench_wrong(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Generates the keys, opens the protocol, connects and fills the server. NULL with err. */
struct bench *bench_create(const struct options *options, struct star_error *err);
void bench_destroy(struct bench *b);
/* Counts idle connections that were closed as errors. */
void bench_check_idle(struct bench *b);
/* Runs all phases. Failures are counted in `errors`; `why` is the first. */
void bench_run(struct bench *b);

/* Reads this thread's CPU time, and that of the process and core in the options. What cannot be read is 0. */
void cpu_read(const struct options *options, struct cpu_sample *sample);

#endif
