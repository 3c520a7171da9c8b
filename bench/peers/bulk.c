/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bulk transfer over one kernel TCP connection, timed, every byte of it compared: rows pulled from an appliance, or
 * gradients pushed to it, or the same number of plain bytes from or to epoll-bulk. Reading and comparing are the same
 * for both, and cheap, so that what is measured is the other side and the way in between.
 *
 * The appliance's table must be there: float32, rows of BULK_DIM, plain SGD. A pull's replies are compared with what a
 * first pull has brought; a push's gradients are small whole numbers, so that what the rows must be afterwards is
 * exact.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32.h"
#include "bench/peers/bulk.h"
#include "wire/frame.h"

enum {
	READ_BYTES = 256 << 10,
	TURN_MS = 100,	   /* how late a silent connection notices that the time is over */
	SILENCE_S = 30,	   /* after so long without a byte it has failed */
	DEPTH = 8,	   /* requests in flight: more than any window */
	MIB_MAX = 1 << 20, /* of one transfer */
	EXIT_USAGE = 2,
};

struct request {
	struct wire_frame frame;
	struct wire_op op;
	uint64_t keys[BULK_ROWS];
};
_Static_assert(sizeof(struct request) == 624, "request");

struct head {
	struct wire_frame frame;
	struct wire_result result;
};
_Static_assert(sizeof(struct head) == 88, "head");

struct bulk {
	/* what was asked */
	bool star, push;
	struct sockaddr_in address;
	uint32_t object, epoch, incarnation;
	uint64_t bytes;
	double seconds; /* a pull may take; 0: as long as it takes */

	int fd;
	uint64_t session, sent, received; /* requests and replies */
	struct request request;
	uint32_t payload_crc[BULK_SETS]; /* of a push */
	uint8_t *expected, *gradients;	 /* BULK_PATTERN_BYTES each */
	uint8_t in[READ_BYTES];
	/* the reader: where it is in a reply, or in a piece of the pattern */
	uint32_t head_bytes, at;
	struct head head;
	bool learn; /* the first pull: what comes is what will be expected */
	uint64_t began_ns, took_ns, read_bytes;
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("bulk: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(EXIT_FAILURE);
}

static void dial(struct bulk *b)
{
	const struct timeval turn = { .tv_usec = TURN_MS * 1000 }, patience = { .tv_sec = SILENCE_S };
	const int on = 1;

	b->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (b->fd < 0 || setsockopt(b->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(b->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(b->fd, (const struct sockaddr *)&b->address, sizeof(b->address)) < 0 ||
	    setsockopt(b->fd, SOL_SOCKET, SO_RCVTIMEO, &turn, sizeof(turn)) < 0)
		die("cannot connect to %s:%u: %s", inet_ntoa(b->address.sin_addr), ntohs(b->address.sin_port),
		    strerror(errno));
}

static void send_all(const struct bulk *b, const void *data, size_t bytes)
{
	const uint8_t *out = data;

	while (bytes) {
		const ssize_t sent = send(b->fd, out, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			die("sending: %s", strerror(errno));
		out += sent;
		bytes -= (size_t)sent;
	}
}

static bool time_is_over(const struct bulk *b)
{
	return b->seconds > 0 && (double)(clock_ns() - b->began_ns) * 1e-9 >= b->seconds;
}

/* Reads once; 0 when the time is over first. */
static size_t read_some(struct bulk *b)
{
	const uint64_t from_ns = clock_ns();

	for (;;) {
		const ssize_t got = recv(b->fd, b->in, sizeof(b->in), 0);

		if (got > 0)
			return (size_t)got;
		if (got == 0)
			die("the server has closed the connection");
		if (errno != EAGAIN && errno != EINTR)
			die("reading: %s", strerror(errno));
		if (time_is_over(b))
			return 0;
		if (clock_ns() - from_ns > SILENCE_S * UINT64_C(1000000000))
			die("not a byte for %d s", SILENCE_S);
	}
}

static void prepare(struct bulk *b, uint8_t kind, uint32_t body_bytes)
{
	b->request = (struct request){
		.frame = {
			.magic = WIRE_MAGIC,
			.version = WIRE_VERSION,
			.opcode = WIRE_EXECUTE,
			.session = b->session,
			.epoch = b->epoch,
			.incarnation = b->incarnation,
			.payload_bytes = (uint32_t)(sizeof(b->request) - sizeof(b->request.frame)) + body_bytes,
		},
		.op = {
			.kind = kind,
			.dtype = kind == WIRE_PUSH ? STAR_FLOAT32 : 0,
			.result_dtype = kind == WIRE_PULL ? STAR_FLOAT32 : 0,
			.object = b->object,
			.count = BULK_ROWS,
			.dim = BULK_DIM,
			.body_bytes = (uint32_t)sizeof(b->request.keys) + body_bytes,
		},
	};
}

static void set_keys(struct bulk *b, uint32_t set)
{
	for (uint32_t row = 0; row < BULK_ROWS; row++)
		b->request.keys[row] = (uint64_t)set * BULK_ROWS + row;
}

static void ask_pull(struct bulk *b)
{
	struct wire_frame *frame = &b->request.frame;

	set_keys(b, b->sent % BULK_SETS);
	frame->sequence = ++b->sent;
	frame->checksum = 0;
	frame->checksum = base_crc32(&b->request, sizeof(b->request));
	send_all(b, &b->request, sizeof(b->request));
}

static void ask_push(struct bulk *b)
{
	const uint32_t set = b->sent % BULK_SETS;
	struct wire_frame *frame = &b->request.frame;

	set_keys(b, set);
	frame->sequence = ++b->sent;
	frame->checksum = 0;
	frame->checksum = base_crc32_combine(wire_frame_crc(frame), b->payload_crc[set], frame->payload_bytes);
	send_all(b, &b->request, sizeof(b->request));
	send_all(b, b->gradients + (size_t)set * BULK_SET_BYTES, BULK_SET_BYTES);
}

/* The head of a reply is complete; what it says of the body. */
static void check_head(const struct bulk *b)
{
	const struct wire_frame *frame = &b->head.frame;
	const struct wire_result *result = &b->head.result;
	const uint32_t body = b->push ? 0 : BULK_SET_BYTES;

	if (frame->magic != WIRE_MAGIC || frame->opcode != WIRE_REPLY || frame->status != WIRE_OK)
		die("a reply of status %s", wire_status_text(frame->status));
	if (frame->session != b->session || frame->sequence != b->received + 1)
		die("a reply to request %llu where %llu is due", (unsigned long long)frame->sequence,
		    (unsigned long long)b->received + 1);
	if (frame->payload_bytes != sizeof(*result) + body || result->body_bytes != body || result->object != b->object)
		die("a reply of %u bytes with a result of %u", frame->payload_bytes, result->body_bytes);
}

/* Bytes that have come, compared. */
static void take(struct bulk *b, const uint8_t *from, size_t bytes)
{
	const uint32_t body = b->push ? 0 : BULK_SET_BYTES, item = b->head_bytes + body;

	while (bytes) {
		uint8_t *expected;
		size_t part;

		if (b->at < b->head_bytes) {
			part = b->head_bytes - b->at < bytes ? b->head_bytes - b->at : bytes;
			memcpy((uint8_t *)&b->head + b->at, from, part);
			if (b->at + part == b->head_bytes)
				check_head(b);
		} else {
			part = item - b->at < bytes ? item - b->at : bytes;
			expected = b->expected + b->received % BULK_SETS * BULK_SET_BYTES + (b->at - b->head_bytes);
			if (b->learn)
				memcpy(expected, from, part);
			else if (memcmp(expected, from, part) != 0)
				die("wrong bytes in reply %llu", (unsigned long long)b->received + 1);
			b->read_bytes += part;
		}
		b->at += (uint32_t)part;
		from += part;
		bytes -= part;
		if (b->at == item) {
			b->at = 0;
			b->received++;
		}
	}
}

/* Requests, this many in flight, until all replies are there or the time is over. */
static void converse(struct bulk *b, uint64_t count, void (*ask)(struct bulk *b))
{
	const uint64_t first = b->sent;

	b->began_ns = clock_ns();
	while (b->received < first + count) {
		size_t got;

		while (b->sent < first + count && b->sent - b->received < DEPTH)
			ask(b);
		got = read_some(b);
		take(b, b->in, got);
		if (got == 0 || time_is_over(b))
			break;
	}
	b->took_ns = clock_ns() - b->began_ns;
}

/* Reads every row once, as what is expected from now on. Not timed. */
static void learn(struct bulk *b)
{
	const double seconds = b->seconds;
	const bool push = b->push;

	b->seconds = 0;
	b->push = false;
	b->learn = true;
	b->received = b->sent = 0;
	b->session++;
	prepare(b, WIRE_PULL, 0);
	converse(b, BULK_SETS, ask_pull);
	b->learn = false;
	b->seconds = seconds;
	b->push = push;
	b->received = b->sent = 0;
	b->session++;
	b->read_bytes = 0;
}

static void star_pull(struct bulk *b)
{
	learn(b);
	prepare(b, WIRE_PULL, 0);
	converse(b, b->bytes / BULK_SET_BYTES, ask_pull);
}

static float gradient(const struct bulk *b, uint32_t element)
{
	float value;

	memcpy(&value, b->gradients + (size_t)element * sizeof(value), sizeof(value));
	return value;
}

/* Whole numbers from -8 to 7: float32 holds a row exactly after a million pushes. */
static void make_gradients(struct bulk *b)
{
	struct prng prng;

	prng_seed(&prng, 2);
	for (uint32_t i = 0; i < BULK_PATTERN_BYTES / sizeof(float); i++) {
		const float value = (float)prng_below(&prng, 16) - 8;

		memcpy(b->gradients + i * sizeof(value), &value, sizeof(value));
	}
	prepare(b, WIRE_PUSH, BULK_SET_BYTES);
	for (uint32_t set = 0; set < BULK_SETS; set++) {
		const uint32_t bytes = b->request.frame.payload_bytes - BULK_SET_BYTES;

		set_keys(b, set);
		b->payload_crc[set] =
			base_crc32_combine(base_crc32(&b->request.op, bytes),
					   base_crc32(b->gradients + (size_t)set * BULK_SET_BYTES, BULK_SET_BYTES),
					   BULK_SET_BYTES);
	}
}

static void check_rows(struct bulk *b, const uint8_t *before, uint64_t count)
{
	for (uint32_t i = 0; i < BULK_PATTERN_BYTES / sizeof(float); i++) {
		const uint32_t set = i / (BULK_SET_BYTES / (uint32_t)sizeof(float));
		const uint64_t pushes = count / BULK_SETS + (set < count % BULK_SETS);
		float was, is;

		memcpy(&was, before + i * sizeof(was), sizeof(was));
		memcpy(&is, b->expected + i * sizeof(is), sizeof(is));
		if (is != was - (float)pushes * gradient(b, i))
			die("element %u was %g and is %g after %llu pushes of %g", i, (double)was, (double)is,
			    (unsigned long long)pushes, (double)gradient(b, i));
	}
}

static void star_push(struct bulk *b)
{
	const uint64_t count = b->bytes / BULK_SET_BYTES;
	uint8_t *before = malloc(BULK_PATTERN_BYTES);
	uint64_t took_ns;

	if (!before)
		die("out of memory");
	learn(b);
	memcpy(before, b->expected, BULK_PATTERN_BYTES);
	make_gradients(b);
	converse(b, count, ask_push);
	took_ns = b->took_ns;
	learn(b);
	check_rows(b, before, count);
	b->took_ns = took_ns;
	b->read_bytes = b->bytes;
	free(before);
}

static void plain_pull(struct bulk *b)
{
	const struct bulk_ask ask = { BULK_PULL, b->bytes };

	b->head_bytes = 0;
	b->began_ns = clock_ns();
	send_all(b, &ask, sizeof(ask));
	while (b->read_bytes < b->bytes && !time_is_over(b))
		take(b, b->in, read_some(b));
	b->took_ns = clock_ns() - b->began_ns;
}

static void plain_push(struct bulk *b)
{
	const struct bulk_ask ask = { BULK_PUSH, b->bytes };
	struct bulk_verdict verdict;

	b->began_ns = clock_ns();
	send_all(b, &ask, sizeof(ask));
	for (uint64_t done = 0; done < b->bytes; done += BULK_SET_BYTES)
		send_all(b, b->expected + done % BULK_PATTERN_BYTES, BULK_SET_BYTES);
	if (read_some(b) != sizeof(verdict))
		die("a verdict of another size");
	b->took_ns = clock_ns() - b->began_ns;
	memcpy(&verdict, b->in, sizeof(verdict));
	if (verdict.bytes != b->bytes || verdict.wrong)
		die("the server has read %llu bytes, %llu times wrong", (unsigned long long)verdict.bytes,
		    (unsigned long long)verdict.wrong);
	b->read_bytes = b->bytes;
}

static void report(const struct bulk *b)
{
	const double seconds = (double)b->took_ns * 1e-9;
	struct tcp_info info = { 0 };
	socklen_t info_bytes = sizeof(info);
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	getsockopt(b->fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes);
	printf("{\"bytes\": %llu, \"seconds\": %.6f, \"mib_s\": %.2f, \"client_cpu_s\": %.3f, \"retransmitted\": %u, "
	       "\"rtt_us\": %u, \"mss\": %u}\n",
	       (unsigned long long)b->read_bytes, seconds, (double)b->read_bytes / seconds / (1 << 20),
	       (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6,
	       info.tcpi_total_retrans, info.tcpi_rtt, b->push ? info.tcpi_snd_mss : info.tcpi_rcv_mss);
}

static const char usage_text[] =
	"usage: bulk pull|push --address HOST:PORT [--star OBJECT,EPOCH,INCARNATION] [--mib N] [--seconds S]\n"
	"Moves N MiB [1024] over one connection, from or to an appliance (--star) or epoll-bulk, compares every byte,\n"
	"and prints a JSON object. With --seconds a pull ends after that time, however much has come.\n";

static int __attribute__((noreturn)) misused(void)
{
	fputs(usage_text, stderr);
	exit(EXIT_USAGE);
}

static void parse_address(struct bulk *b, const char *text)
{
	char host[INET_ADDRSTRLEN];
	unsigned port;

	if (sscanf(text, "%15[0-9.]:%u", host, &port) != 2 || port > UINT16_MAX ||
	    inet_pton(AF_INET, host, &b->address.sin_addr) != 1)
		misused();
	b->address.sin_family = AF_INET;
	b->address.sin_port = htons((uint16_t)port);
}

static void parse(struct bulk *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "star", required_argument, NULL, 's' },
		{ "mib", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long mib = 1024;
	int id;

	if (argc < 2 || (strcmp(argv[1], "pull") != 0 && strcmp(argv[1], "push") != 0))
		misused();
	b->push = strcmp(argv[1], "push") == 0;
	while ((id = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
		if (id == 'a')
			parse_address(b, optarg);
		else if (id == 's')
			b->star = sscanf(optarg, "%u,%u,%u", &b->object, &b->epoch, &b->incarnation) == 3;
		else if (id == 'm')
			mib = strtoul(optarg, NULL, 10);
		else if (id == 't')
			b->seconds = strtod(optarg, NULL);
		else
			misused();
	}
	if (!b->address.sin_port || mib < 1 || mib > MIB_MAX || (b->push && b->seconds > 0))
		misused();
	b->bytes = (uint64_t)mib << 20;
}

int main(int argc, char **argv)
{
	static struct bulk b = { .head_bytes = sizeof(struct head) };

	parse(&b, argc, argv);
	b.expected = malloc(BULK_PATTERN_BYTES);
	b.gradients = malloc(BULK_PATTERN_BYTES);
	if (!b.expected || !b.gradients)
		die("out of memory");
	bulk_fill(b.expected);
	b.session = clock_ns();
	dial(&b);
	if (b.star)
		(b.push ? star_push : star_pull)(&b);
	else
		(b.push ? plain_push : plain_pull)(&b);
	report(&b);
	return EXIT_SUCCESS;
}
