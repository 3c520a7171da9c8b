/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes of ROWS gradients of 16 float32 one after the other until SIGTERM, and then says which took long: what
 * bench/switchover.py runs. Times are microseconds since 1970, so that they can be laid beside the nodes' logs.
 * "opened": when the first bytes were sent by a new connection to a data port.
 * Usage: switch-push CLUSTER ROWS */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/prng.h"
#include "star.h"
#include "wire/frame.h"

enum { DIM = 16, KEYS = 100000, ROWS_MAX = 10000, NOTES_MAX = 4096, LONG_US = 5000, FDS = 1024 };
#define DEADLINE_US 60000000

struct note {
	uint64_t at_us, us;
};

static float values[ROWS_MAX * DIM];
static uint64_t keys[ROWS_MAX];
static struct note pauses[NOTES_MAX], opened[NOTES_MAX];
static unsigned pauses_count;
static atomic_uint opened_count;
static atomic_bool fresh[FDS]; /* nothing was sent by it yet */
static atomic_bool ends;

int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	if (fd >= 0 && fd < FDS)
		atomic_store(&fresh[fd], true);
	return __real_connect(fd, address, bytes);
}

/* What the control plane is asked is no frame. */
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	const ssize_t n = __real_send(fd, data, bytes, flags);
	const uint32_t magic = WIRE_MAGIC;

	if (n > 0 && fd < FDS && atomic_load_explicit(&fresh[fd], memory_order_relaxed) &&
	    atomic_exchange(&fresh[fd], false) && bytes >= sizeof(magic) && memcmp(data, &magic, sizeof(magic)) == 0) {
		const unsigned i = atomic_fetch_add(&opened_count, 1);

		if (i < NOTES_MAX)
			opened[i] = (struct note){ .at_us = now_us() };
	}
	return n;
}

static void end(int number)
{
	atomic_store(&ends, number != 0);
}

static void print_notes(const char *name, const struct note *notes, unsigned count)
{
	printf("\"%s\": [", name);
	for (unsigned i = 0; i < count && i < NOTES_MAX; i++)
		printf("%s[%llu, %llu]", i ? ", " : "", (unsigned long long)notes[i].at_us,
		       (unsigned long long)notes[i].us);
	printf("], ");
}

int main(int argc, char **argv)
{
	const struct star_spec spec = { .name = "switched", .dim = DIM, .optimizer = "adagrad", .rate = 0.1f };
	const unsigned rows = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	struct star_table *table;
	struct prng prng;
	uint64_t calls = 0;

	if (rows < 1 || rows > ROWS_MAX) {
		fprintf(stderr, "usage: %s CLUSTER ROWS\n", argv[0]);
		return 2;
	}
	signal(SIGTERM, end);
	prng_seed(&prng, 1);
	for (unsigned i = 0; i < rows * DIM; i++)
		values[i] = 0.001f * (float)(i % 7);
	cluster = star_open(argv[1], DEADLINE_US, &err);
	table = cluster ? star_table_create(cluster, &spec, DEADLINE_US, &err) : NULL;
	while (table && !ends && pauses_count < NOTES_MAX) {
		const uint64_t begun_ns = clock_ns(), begun_us = now_us();
		uint64_t us;

		for (unsigned i = 0; i < rows; i++)
			keys[i] = prng_below(&prng, KEYS);
		if (star_push(table, keys, rows, values, DEADLINE_US, &err) < 0)
			break;
		us = (clock_ns() - begun_ns) / 1000;
		if (us >= LONG_US)
			pauses[pauses_count++] = (struct note){ .at_us = begun_us, .us = us };
		calls++;
	}
	if (err.code < 0 || calls == 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return EXIT_FAILURE;
	}
	printf("{");
	print_notes("pauses", pauses, pauses_count);
	print_notes("opened", opened, atomic_load(&opened_count));
	printf("\"calls\": %llu}\n", (unsigned long long)calls);
	star_close(cluster);
	return EXIT_SUCCESS;
}
