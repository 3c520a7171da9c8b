/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `starctl capture`: writes the beginnings of frames, which a node's reactors copy, to a pcapng file
 * (draft-ietf-opsawg-pcapng), for Wireshark and tcpdump.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

enum { PAUSE_US = 100000, PORTS_MAX = 64, SNAP_MAX = 9216 };
enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_PACKET = 6, BYTE_ORDER_MAGIC = 0x1a2b3c4d, ETHERNET = 1 };
enum { OPTION_NAME = 2, OPTION_RESOLUTION = 9, OPTION_APPLICATION = 4, OPTION_FLAGS = 2 };

static const struct filter filters[] = { { "host", false },	 { "port", true },    { "proto", false },
					 { "direction", false }, { "snap", true },    { "reactor", true },
					 { "count", true },	 { "seconds", true }, { NULL, false } };

void print_capture_filters(FILE *out)
{
	print_filters(filters, out);
}

struct capture {
	struct jsonrpc_client *client;
	FILE *out;
	json_int_t id, offset_ns;
	uint32_t snap;
	json_int_t ports[PORTS_MAX]; /* ids, by the number of their interface in the file */
	unsigned ports_count;
	uint64_t written, matched, dropped, count; /* count: number to be written; 0: no limit */
	uint64_t until_us;
};

/* ---- pcapng ---- */

/* A block, whose body grows here. */
struct block {
	uint8_t bytes[SNAP_MAX + 512];
	size_t n;
};

static void block_put(struct block *b, const void *bytes, size_t n)
{
	if (n)
		memcpy(b->bytes + b->n, bytes, n);
	b->n += n;
	while (b->n % 4)
		b->bytes[b->n++] = 0;
}

static void put32(struct block *b, uint32_t value)
{
	block_put(b, &value, sizeof(value));
}

static void put_option(struct block *b, uint16_t code, const void *value, uint16_t n)
{
	const uint16_t head[2] = { code, n };

	block_put(b, head, sizeof(head));
	block_put(b, value, n);
}

static void write_block(FILE *out, uint32_t type, struct block *b)
{
	const uint32_t total = (uint32_t)b->n + 12;

	fwrite(&type, sizeof(type), 1, out);
	fwrite(&total, sizeof(total), 1, out);
	fwrite(b->bytes, 1, b->n, out);
	fwrite(&total, sizeof(total), 1, out);
}

static void write_section(FILE *out)
{
	static const char program[] = "starctl " STAR_VERSION;
	const uint16_t version[2] = { 1, 0 };
	const int64_t length = -1;
	struct block b = { .n = 0 };

	put32(&b, BYTE_ORDER_MAGIC);
	block_put(&b, version, sizeof(version));
	block_put(&b, &length, sizeof(length));
	put_option(&b, OPTION_APPLICATION, program, sizeof(program) - 1);
	put32(&b, 0);
	write_block(out, BLOCK_SECTION, &b);
}

static void write_interface(FILE *out, const char *name, uint32_t snap)
{
	const uint16_t link[2] = { ETHERNET, 0 };
	const uint8_t nanoseconds = 9;
	struct block b = { .n = 0 };

	block_put(&b, link, sizeof(link));
	put32(&b, snap);
	put_option(&b, OPTION_NAME, name, (uint16_t)strnlen(name, 128));
	put_option(&b, OPTION_RESOLUTION, &nanoseconds, 1);
	put32(&b, 0);
	write_block(out, BLOCK_INTERFACE, &b);
}

static void write_packet(struct capture *c, unsigned interface, uint64_t ns, uint32_t way, uint32_t bytes,
			 const uint8_t *head, uint32_t taken)
{
	const uint32_t flags = way & 3; /* 1 in, 2 out */
	struct block b = { .n = 0 };

	put32(&b, interface);
	put32(&b, (uint32_t)(ns >> 32));
	put32(&b, (uint32_t)ns);
	put32(&b, taken);
	put32(&b, bytes);
	block_put(&b, head, taken);
	put_option(&b, OPTION_FLAGS, &flags, sizeof(flags));
	put32(&b, 0);
	write_block(c->out, BLOCK_PACKET, &b);
}

/* ---- the node's answers ---- */

static unsigned interface_of(struct capture *c, json_int_t port)
{
	char name[32];

	for (unsigned i = 0; i < c->ports_count; i++)
		if (c->ports[i] == port)
			return i;
	/* A port that was added later. */
	if (c->ports_count == PORTS_MAX)
		return 0;
	snprintf(name, sizeof(name), "port %d", (int)port);
	write_interface(c->out, name, c->snap);
	c->ports[c->ports_count] = port;
	return c->ports_count++;
}

static int nibble(char digit)
{
	return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* False: it is not a frame. */
static bool take_frame(struct capture *c, const json_t *frame)
{
	uint8_t head[SNAP_MAX];
	json_int_t ns, bytes;
	int reactor, port, way;
	const char *digits;
	size_t n;

	if (json_unpack((json_t *)frame, "[I, i, i, i, I, s%]", &ns, &reactor, &port, &way, &bytes, &digits, &n) < 0 ||
	    n % 2 || n / 2 > SNAP_MAX || bytes < 0 || bytes > UINT32_MAX)
		return false;
	for (size_t i = 0; i < n / 2; i++) {
		const int high = nibble(digits[2 * i]), low = nibble(digits[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		head[i] = (uint8_t)(high << 4 | low);
	}
	write_packet(c, interface_of(c, port), (uint64_t)(ns + c->offset_ns), (uint32_t)way, (uint32_t)bytes, head,
		     (uint32_t)(n / 2));
	c->written++;
	return true;
}

static bool has_all(const struct capture *c)
{
	return c->count && c->written >= c->count;
}

/* Takes what is available; *more: there is more. */
static int capture_take(struct capture *c, bool end, bool *more, struct star_error *err)
{
	json_t *reply = jsonrpc_call(c->client, "capture_take", json_pack("{s:I, s:b}", "capture", c->id, "end", end),
				     STARCTL_CALL_US, err);
	const json_t *frame;
	int rc = reply ? 0 : err->code;
	size_t i;

	json_array_foreach(json_object_get(reply, "frames"), i, frame)
	{
		if (rc == 0 && !has_all(c) && !take_frame(c, frame))
			rc = star_error_set(err, -EPROTO, "the node returned something that is not a frame");
	}
	if (rc == 0) {
		c->matched = (uint64_t)json_integer_value(json_object_get(reply, "matched"));
		c->dropped = (uint64_t)json_integer_value(json_object_get(reply, "dropped"));
		*more = json_is_true(json_object_get(reply, "more"));
	}
	json_decref(reply);
	return rc;
}

static int capture_begin(struct capture *c, json_t *params, struct star_error *err)
{
	json_t *reply = jsonrpc_call(c->client, "capture", params, STARCTL_CALL_US, err);
	const json_t *port;
	size_t i;

	if (!reply)
		return err->code;
	c->id = json_integer_value(json_object_get(reply, "capture"));
	c->offset_ns = json_integer_value(json_object_get(reply, "offset_ns"));
	c->snap = (uint32_t)json_integer_value(json_object_get(reply, "snap"));
	write_section(c->out);
	json_array_foreach(json_object_get(reply, "ports"), i, port)
	{
		const char *name = json_string_value(json_object_get(port, "name"));

		if (c->ports_count == PORTS_MAX)
			break;
		write_interface(c->out, name ? name : "?", c->snap);
		c->ports[c->ports_count++] = json_integer_value(json_object_get(port, "id"));
	}
	json_decref(reply);
	fflush(c->out);
	return 0;
}

/* ---- the command ---- */

static volatile sig_atomic_t told_to_end;

static void on_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

static int run_until_end(struct capture *c, struct star_error *err)
{
	const struct sigaction end = { .sa_handler = on_signal };
	struct sigaction before[2], pipe_before;
	bool more = false;
	int rc = 0;

	told_to_end = 0;
	sigaction(SIGINT, &end, &before[0]);
	sigaction(SIGTERM, &end, &before[1]);
	sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, &pipe_before);
	while (rc == 0 && !told_to_end && !has_all(c) && !(c->until_us && clock_us() >= c->until_us)) {
		rc = capture_take(c, false, &more, err);
		if (fflush(c->out) != 0 || ferror(c->out)) {
			told_to_end = 1; /* the reader has gone: that is how a pipe ends */
		} else if (rc == 0 && !more) {
			usleep(PAUSE_US);
		}
	}
	/* Everything that was captured until now; more than fits into one reply may be left. */
	for (more = true; rc == 0 && more;)
		rc = capture_take(c, true, &more, err);
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	sigaction(SIGPIPE, &pipe_before, NULL);
	return rc;
}

static void capture_report(const struct invocation *invocation, const struct capture *c, bool pipe)
{
	FILE *out = pipe ? invocation->errors : invocation->out;

	if (invocation->json && !pipe)
		print_json(json_pack("{s:I, s:I, s:I}", "frames", (json_int_t)c->written, "matched",
				     (json_int_t)c->matched, "dropped", (json_int_t)c->dropped),
			   out);
	else
		fprintf(out, "%llu frames; %llu more matched, but there was no room%s\n",
			(unsigned long long)c->written, (unsigned long long)c->dropped,
			c->dropped ? ": a filter, or a smaller snap=" : "");
}

/* The filters that are for the command itself. */
static uint64_t take_own(json_t *params, const char *name)
{
	const uint64_t value = (uint64_t)json_integer_value(json_object_get(params, name));

	json_object_del(params, name);
	return value;
}

/* Frames of a network without encryption contain keys and rows: only the owner may read the file. */
static FILE *create_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

int run_capture(const struct invocation *invocation)
{
	const char *file = invocation->write;
	const bool pipe = file && strcmp(file, "-") == 0;
	struct capture c = { .out = invocation->out };
	struct star_error err = { 0 };
	uint64_t seconds;
	json_t *params = take_filters(filters,
				      "host=ADDRESS, port=N, proto=NAME, direction=in or out, snap=BYTES, reactor=N, "
				      "count=N and seconds=N",
				      invocation->argc, invocation->argv, &err);
	int rc;

	if (!file || (pipe && isatty(fileno(invocation->out)))) {
		star_error_set(&err, -EINVAL,
			       "-w is missing: give -w FILE, or -w - for a pipe: starctl capture -w - | tcpdump -nr -");
		json_decref(params);
		params = NULL;
	}
	if (!params)
		return fail(invocation, &err, STARCTL_USAGE);
	c.count = take_own(params, "count");
	seconds = take_own(params, "seconds");
	c.client = open_node(invocation, true, &err);
	if (!c.client) {
		json_decref(params);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	if (!pipe)
		c.out = create_file(file);
	if (c.out) {
		rc = capture_begin(&c, params, &err);
	} else {
		json_decref(params);
		rc = star_error_set(&err, -errno, "%s cannot be written: %s", file, strerror(errno));
	}
	c.until_us = seconds ? clock_us() + seconds * 1000000 : 0;
	if (rc == 0)
		rc = run_until_end(&c, &err);
	jsonrpc_close(c.client);
	if (c.out && !pipe && fclose(c.out) != 0 && rc == 0)
		rc = star_error_set(&err, -errno, "%s cannot be written: %s", file, strerror(errno));
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	capture_report(invocation, &c, pipe);
	return STARCTL_OK;
}
