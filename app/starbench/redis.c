/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Redis: GET of a value with the length of a row, by RESP2. Replies come in order, and have neither number nor
 * checksum; only the length, and that the value is the key's own (its first 8 bytes), can be checked.
 */
#include "app/starbench/starbench.h"

#include "base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 16 };

static const char get[] = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n";
enum { NAME_AT = sizeof("*2\r\n$3\r\nGET\r\n$16\r\n") - 1 };

struct redis {
	char (*names)[NAME_BYTES]; /* made in advance, because the client's core limits the rate */
	char head[16];		   /* "$64\r\n" */
	uint32_t head_bytes, value_bytes;
};

static int redis_open(struct bench *b, struct star_error *err)
{
	struct redis *redis = calloc(1, sizeof(*redis));

	if (!redis)
		return star_error_set(err, -ENOMEM, "out of memory");
	b->state = redis;
	redis->value_bytes = b->options->dim * (uint32_t)sizeof(float);
	redis->head_bytes = (uint32_t)snprintf(redis->head, sizeof(redis->head), "$%u\r\n", redis->value_bytes);
	redis->names = calloc(b->options->keys, sizeof(*redis->names));
	if (!redis->names)
		return star_error_set(err, -ENOMEM, "out of memory for %u names", b->options->keys);
	for (uint32_t key = 0; key < b->options->keys; key++) {
		char name[NAME_BYTES + 1], stamp[17];

		snprintf(name, sizeof(name), "key:%012u", key);
		memcpy(redis->names[key], name, NAME_BYTES);
		snprintf(stamp, sizeof(stamp), "%016llx", (unsigned long long)hash_mix(b->keys[key]));
		memcpy(&b->stamps[key], stamp, sizeof(b->stamps[key]));
	}
	b->request_bytes = sizeof(get) - 1;
	b->reply_bytes = redis->head_bytes + redis->value_bytes + 2;
	return bench_single_target(b, b->options->address, err);
}

static void redis_close(struct bench *b)
{
	struct redis *redis = b->state;

	if (redis)
		free(redis->names);
	free(redis);
}

/* The stamp, repeated: a row of at least two elements contains it once. */
static uint32_t redis_fill(struct bench *b, struct connection *c, uint32_t key, uint8_t *out)
{
	const struct redis *redis = b->state;
	char *at = (char *)out;

	at += sprintf(at, "*3\r\n$3\r\nSET\r\n$%d\r\n%.*s\r\n%s", NAME_BYTES, NAME_BYTES, redis->names[key],
		      redis->head);
	for (uint32_t i = 0; i < redis->value_bytes; i++)
		*at++ = ((const char *)&b->stamps[key])[i % sizeof(b->stamps[key])];
	*at++ = '\r';
	*at++ = '\n';
	return (uint32_t)((uint8_t *)at - out);
}

/* An error line: "-ERR ...\r\n". 0: it is not complete. */
static int error_line(struct bench *b, const uint8_t *in, uint32_t bytes)
{
	const uint8_t *end = memchr(in, '\r', bytes);

	if (!end && bytes < BENCH_ROOM_BYTES)
		return 0;
	return bench_wrong(b, "Redis answered: %.*s", end ? (int)(end - in) : (int)bytes, (const char *)in);
}

static int redis_filled(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes)
{
	static const char ok[] = "+OK\r\n";

	if (bytes < 1)
		return 0;
	if (in[0] != '+')
		return error_line(b, in, bytes);
	if (bytes < sizeof(ok) - 1)
		return 0;
	return memcmp(in, ok, sizeof(ok) - 1) == 0 ? (int)sizeof(ok) - 1 : error_line(b, in, bytes);
}

static void redis_prepare(struct bench *b, struct connection *c, uint8_t *out)
{
	memcpy(out, get, sizeof(get) - 1);
}

static void redis_request(struct bench *b, struct connection *c, uint32_t key, uint8_t *out)
{
	const struct redis *redis = b->state;

	memcpy(out + NAME_AT, redis->names[key], NAME_BYTES);
}

static int redis_reply(struct bench *b, struct connection *c, uint32_t key, uint8_t *in, uint32_t bytes)
{
	const struct redis *redis = b->state;
	const uint32_t head = bytes < redis->head_bytes ? bytes : redis->head_bytes;

	if (memcmp(in, redis->head, head) != 0)
		return error_line(b, in, bytes);
	if (bytes < b->reply_bytes)
		return 0;
	if (memcmp(in + redis->head_bytes, &b->stamps[key], sizeof(b->stamps[key])) != 0 ||
	    memcmp(in + b->reply_bytes - 2, "\r\n", 2) != 0)
		return bench_wrong(b, "Redis answered GET %.*s with another value", NAME_BYTES, redis->names[key]);
	return (int)b->reply_bytes;
}

const struct protocol protocol_redis = {
	.name = "redis",
	.open = redis_open,
	.close = redis_close,
	.fill = redis_fill,
	.filled = redis_filled,
	.prepare = redis_prepare,
	.request = redis_request,
	.reply = redis_reply,
};
