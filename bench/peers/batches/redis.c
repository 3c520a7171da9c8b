/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis: MGET of all keys, or a SET for each row, as one piece. Keys are their 8 bytes. It computes nothing: the worker
 * sets rows. */
#include "bench/peers/batches/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GET_KEY "$8\r\n"
#define SET_KEY "*3\r\n$3\r\nSET\r\n$8\r\n"
#define VALUE "$64\r\n"
#define OK "+OK\r\n"
#define END "\r\n"

enum {
	TEXT = 64, /* room for a command's first words */
	VALUE_BYTES = sizeof(VALUE) - 1 + sizeof(struct batch_row) + sizeof(END) - 1,
	SET_BYTES = sizeof(SET_KEY) - 1 + sizeof(uint64_t) + sizeof(END) - 1 + VALUE_BYTES,
};

static int fd = -1;
static char *buffer;

static void redis_open(const struct worker *w)
{
	fd = stream_dial(w->address);
	buffer = malloc((size_t)BATCH_KEYS_MAX * SET_BYTES + TEXT);
	if (!buffer)
		die("out of memory");
}

static char *put(char *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

#define PUT(to, text) put(to, text, sizeof(text) - 1)

static void redis_begin(const struct batch *batch, uint32_t depth)
{
	char *to = buffer;

	if (!batch->push)
		to += snprintf(to, TEXT, "*%u\r\n$4\r\nMGET\r\n", batch->count + 1);
	for (uint32_t i = 0; i < batch->count; i++) {
		to = batch->push ? PUT(to, SET_KEY) : PUT(to, GET_KEY);
		to = put(to, &batch->keys[i], sizeof(batch->keys[i]));
		to = PUT(to, END);
		if (!batch->push)
			continue;
		to = PUT(to, VALUE);
		to = put(to, &batch->payload[i], sizeof(batch->payload[i]));
		to = PUT(to, END);
	}
	stream_send(fd, buffer, (uint64_t)(to - buffer));
}

static void expect(const char *from, const char *text, size_t bytes)
{
	if (memcmp(from, text, bytes) != 0)
		die("Redis answered \"%.40s\" where \"%.8s\" is due", from, text);
}

static void redis_end(const struct batch *batch)
{
	const char *from = buffer;
	char head[TEXT];
	const int head_bytes = snprintf(head, sizeof(head), "*%u\r\n", batch->count);

	if (batch->push) {
		stream_receive(fd, buffer, batch->count * (sizeof(OK) - 1));
		for (uint32_t i = 0; i < batch->count; i++, from += sizeof(OK) - 1)
			expect(from, OK, sizeof(OK) - 1);
		return;
	}
	stream_receive(fd, buffer, (size_t)head_bytes + batch->count * (size_t)VALUE_BYTES);
	expect(from, head, (size_t)head_bytes);
	from += head_bytes;
	for (uint32_t i = 0; i < batch->count; i++, from += VALUE_BYTES) {
		expect(from, VALUE, sizeof(VALUE) - 1);
		memcpy(&batch->results[i], from + sizeof(VALUE) - 1, sizeof(batch->results[i]));
	}
}

static void redis_close(void)
{
	close(fd);
	free(buffer);
}

const struct side side_redis = {
	.name = "redis", .sets = true, .open = redis_open, .begin = redis_begin, .end = redis_end, .close = redis_close
};
