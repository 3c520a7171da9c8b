/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Very many workers with light steps: each has a kernel-TCP connection of its own to every reactor, and goes on and on
 * pulling some rows and then pushing gradients for them; in between it may think. The worker's end is this program's
 * own, in one thread: libstar makes threads for each cluster that is open, and two thousand times those would be what
 * is measured. All rows are pulled before and after, and must be what all pushes together have made of them. Prints one
 * JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/starbench/starbench.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/wheel.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/object_json.h"
#include "wire/frame.h"
#include "wire/layout.h"

enum {
	EXIT_USAGE = 2,
	WORKERS_MAX = 1 << 16,
	TARGETS_MAX = 64,
	ROWS_MAX = 1024, /* of a step */
	DIM = 16,
	KEYS = 100000,
	EVENTS_MAX = 256,
	TIMERS_MAX = 256, /* in a turn */
	WAIT_MS = 20,
	FILES = 64,   /* that are open besides connections */
	DRAIN_S = 10, /* for the last steps */
};
static const uint64_t second_ns = 1000000000, control_deadline_us = 10000000, warm_up_ns = 500000000;
static const float rate = 1.0f / 1024;

/* A worker's connection to a reactor, and what a step asks of it. */
struct part {
	struct worker *worker;
	uint32_t target;
	int fd;
	uint64_t session, sequence;
	uint32_t count, got; /* keys; bytes of the reply so far */
	uint64_t keys[ROWS_MAX];
	uint8_t *in;
};

struct worker {
	struct wheel_timer thinks; /* first */
	struct part *parts;	   /* by reactor */
	uint64_t begun_ns;
	uint32_t waits; /* for this many replies */
	bool pushes;
	struct prng prng;
};

static struct {
	uint32_t workers, rows, targets;
	uint64_t think_ns;
	struct options watched; /* for cpu_read */
	struct object_spec table;
	struct layout *layout;
	struct sockaddr_in addresses[TARGETS_MAX];
	uint32_t incarnations[TARGETS_MAX];
	struct worker *all;
	struct wheel wheel;
	int epoll_fd;
	uint64_t now_ns, steps;
	bool counts, stops;
	uint32_t active; /* workers that are in a step, or think */
	uint32_t pushed[KEYS];
	struct histogram latency;
	uint8_t frame[sizeof(struct wire_frame) + sizeof(struct wire_op) +
		      ROWS_MAX * (sizeof(uint64_t) + DIM * sizeof(float))];
} b;

static _Noreturn void fail(const char *what, const char *more)
{
	fprintf(stderr, "many-workers: %s%s%s\n", what, more ? ": " : "", more ? more : "");
	exit(EXIT_FAILURE);
}

/* ---- requests ---- */

static uint32_t reply_bytes(const struct part *p)
{
	return (uint32_t)(sizeof(struct wire_frame) + sizeof(struct wire_result) +
			  (p->worker->pushes ? 0 : p->count * DIM * sizeof(float)));
}

static uint32_t fill_frame(struct part *p)
{
	const bool pushes = p->worker->pushes;
	const uint32_t body = p->count * (uint32_t)(sizeof(uint64_t) + (pushes ? DIM * sizeof(float) : 0));
	struct wire_frame *frame = (struct wire_frame *)b.frame;
	struct wire_op *op = (struct wire_op *)(frame + 1);
	uint64_t *keys = (uint64_t *)(op + 1);
	float *gradients = (float *)(keys + p->count);

	*frame = (struct wire_frame){ .magic = WIRE_MAGIC,
				      .version = WIRE_VERSION,
				      .opcode = WIRE_EXECUTE,
				      .session = p->session,
				      .sequence = ++p->sequence,
				      .epoch = b.layout->epoch,
				      .incarnation = b.incarnations[p->target],
				      .deadline_us = (uint32_t)control_deadline_us,
				      .payload_bytes = (uint32_t)sizeof(*op) + body };
	*op = (struct wire_op){ .kind = pushes ? WIRE_PUSH : WIRE_PULL,
				.dtype = pushes ? STAR_FLOAT32 : 0,
				.result_dtype = pushes ? 0 : STAR_FLOAT32,
				.object = b.table.id,
				.count = p->count,
				.dim = DIM,
				.body_bytes = body,
				.rate = pushes ? rate : 0,
				.flags = pushes ? WIRE_RATE : 0 };
	memcpy(keys, p->keys, p->count * sizeof(*keys));
	for (uint32_t i = 0; pushes && i < p->count * DIM; i++)
		gradients[i] = 1;
	frame->checksum = base_crc32(b.frame, sizeof(*frame) + frame->payload_bytes);
	return (uint32_t)sizeof(*frame) + frame->payload_bytes;
}

/* A request is less than any socket's send buffer, and only one is in flight. */
static void ask(struct part *p)
{
	const uint32_t bytes = fill_frame(p);

	p->got = 0;
	p->worker->waits++;
	if (send(p->fd, b.frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		fail("sending a request", strerror(errno));
}

static void ask_all(struct worker *w, bool pushes)
{
	w->pushes = pushes;
	for (uint32_t t = 0; t < b.targets; t++)
		if (w->parts[t].count)
			ask(&w->parts[t]);
}

static uint32_t owner(uint64_t key)
{
	const uint64_t hash = hash_key(hash_name(b.table.name), key);
	const uint32_t partitions = b.layout->partitions;

	return layout_owner(partitions, b.layout->reactors, layout_partition(hash, partitions));
}

static void begin_step(struct worker *w)
{
	for (uint32_t t = 0; t < b.targets; t++)
		w->parts[t].count = 0;
	for (uint32_t i = 0; i < b.rows; i++) {
		const uint64_t key = prng_below(&w->prng, KEYS);
		struct part *p = &w->parts[owner(key)];

		p->keys[p->count++] = key;
	}
	w->begun_ns = b.now_ns;
	ask_all(w, false);
}

static void thought(struct wheel_timer *timer, uint64_t now_ns)
{
	struct worker *w = (struct worker *)timer;

	if (b.stops)
		b.active--;
	else
		begin_step(w);
}

static void end_step(struct worker *w)
{
	for (uint32_t t = 0; t < b.targets; t++)
		for (uint32_t i = 0; i < w->parts[t].count; i++)
			b.pushed[w->parts[t].keys[i]]++;
	if (b.counts) {
		b.steps++;
		histogram_record(&b.latency, b.now_ns - w->begun_ns);
	}
	if (b.think_ns)
		wheel_arm(&b.wheel, &w->thinks, b.now_ns + b.think_ns);
	else
		thought(&w->thinks, b.now_ns);
}

/* ---- replies ---- */

static void check(struct part *p)
{
	struct wire_frame *frame = (struct wire_frame *)p->in;
	const struct wire_result *result = (const struct wire_result *)(frame + 1);
	const uint32_t said = frame->checksum;

	if (frame->status != WIRE_OK)
		fail("a node answered", wire_status_text(frame->status));
	if (frame->sequence != p->sequence || sizeof(*frame) + frame->payload_bytes != reply_bytes(p) ||
	    result->count != p->count)
		fail("a reply is not that of its request", NULL);
	frame->checksum = 0;
	if (base_crc32(p->in, p->got) != said)
		fail("a reply's checksum is wrong", NULL);
}

static void receive(struct part *p)
{
	struct worker *w = p->worker;
	uint32_t bytes = reply_bytes(p);
	ssize_t got;

	/* An error's reply is shorter, or longer: it is told by its header. */
	if (p->got >= sizeof(struct wire_frame) && ((struct wire_frame *)p->in)->status != WIRE_OK)
		check(p);
	got = recv(p->fd, p->in + p->got, bytes - p->got, 0);
	if (got <= 0) {
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		fail("a connection was lost", got ? strerror(errno) : "closed by the node");
	}
	p->got += (uint32_t)got;
	if (p->got >= sizeof(struct wire_frame) && ((struct wire_frame *)p->in)->status != WIRE_OK)
		check(p);
	if (p->got < bytes)
		return;
	check(p);
	if (--w->waits)
		return;
	if (w->pushes)
		end_step(w);
	else
		ask_all(w, true);
}

static void turn(void)
{
	struct epoll_event events[EVENTS_MAX];
	const int wait_ms = b.think_ns ? 1 : WAIT_MS;
	const int n = epoll_wait(b.epoll_fd, events, EVENTS_MAX, wait_ms);

	b.now_ns = clock_ns();
	for (int i = 0; i < n; i++)
		receive(events[i].data.ptr);
	wheel_advance(&b.wheel, b.now_ns, TIMERS_MAX);
}

static void run_for(uint64_t ns)
{
	const uint64_t until = clock_ns() + ns;

	do
		turn();
	while (b.now_ns < until);
}

/* ---- set up ---- */

static json_t *call(struct jsonrpc_client *client, const char *method, json_t *params)
{
	struct star_error err;
	json_t *answer = jsonrpc_call(client, method, params, control_deadline_us, &err);

	if (!answer)
		fail(method, err.text);
	return answer;
}

/* The table, which may be there from another run; and where it lies. */
static void ask_control(const char *control)
{
	struct star_error err;
	struct jsonrpc_client *client = jsonrpc_connect(control, control_deadline_us, &err);
	json_t *answer;

	if (!client)
		fail("no control plane", err.text);
	b.table = (struct object_spec){ .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = DIM };
	wire_object_spec_defaults(&b.table, OPTIM_SGD);
	b.table.initializer = OBJECT_ZEROS;
	strcpy(b.table.name, "many-workers");
	answer = call(client, "create", jsonrpc_object_encode(&b.table));
	if (jsonrpc_object_decode(answer, &b.table, &err) < 0)
		fail("the table", err.text);
	json_decref(answer);
	answer = call(client, "layout", NULL);
	b.layout = jsonrpc_layout_decode(answer, &err);
	if (!b.layout)
		fail("the layout", err.text);
	json_decref(answer);
	jsonrpc_close(client);
}

static void find_targets(void)
{
	for (uint32_t n = 0; n < b.layout->nodes_count; n++) {
		const struct layout_node *node = &b.layout->nodes[n];

		for (uint32_t r = 0; r < node->reactors; r++) {
			struct sockaddr_in *to = &b.addresses[b.targets];

			if (b.targets == TARGETS_MAX)
				fail("the cluster has too many reactors", NULL);
			to->sin_family = AF_INET;
			to->sin_port = htons((uint16_t)(node->data_port + r));
			if (inet_pton(AF_INET, node->data_host, &to->sin_addr) != 1)
				fail("a data address is not an IPv4 address", node->data_host);
			b.incarnations[b.targets++] = node->incarnation;
		}
	}
}

static void open_part(struct part *p)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
	const int on = 1;

	p->in = malloc(sizeof(struct wire_frame) + sizeof(struct wire_result) + ROWS_MAX * DIM * sizeof(float));
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!p->in || p->fd < 0)
		fail("a connection", strerror(errno));
	setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(p->fd, (const struct sockaddr *)&b.addresses[p->target], sizeof(b.addresses[0])) < 0)
		fail("connecting", strerror(errno));
	fcntl(p->fd, F_SETFL, O_NONBLOCK);
	if (epoll_ctl(b.epoll_fd, EPOLL_CTL_ADD, p->fd, &event) < 0)
		fail("watching a connection", strerror(errno));
}

static void open_workers(void)
{
	struct rlimit files;
	struct prng prng;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max = (rlim_t)b.workers * b.targets + FILES;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		fail("so many connections", strerror(errno));
	b.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	b.all = calloc(b.workers, sizeof(*b.all));
	if (b.epoll_fd < 0 || !b.all)
		fail("not enough memory", NULL);
	prng_seed(&prng, clock_ns());
	for (uint32_t i = 0; i < b.workers; i++) {
		struct worker *w = &b.all[i];

		w->parts = calloc(b.targets, sizeof(*w->parts));
		if (!w->parts)
			fail("not enough memory", NULL);
		w->thinks.fire = thought;
		prng_seed(&w->prng, prng_next(&prng));
		for (uint32_t t = 0; t < b.targets; t++) {
			w->parts[t].worker = w;
			w->parts[t].target = t;
			w->parts[t].session = prng_next(&prng);
			open_part(&w->parts[t]);
		}
	}
}

/* ---- measuring ---- */

/* Spread over a step's thinking, so that they don't come all at once. */
static void start_workers(void)
{
	b.now_ns = clock_ns();
	wheel_init(&b.wheel, b.now_ns);
	for (uint32_t i = 0; i < b.workers; i++) {
		b.active++;
		if (b.think_ns)
			wheel_arm(&b.wheel, &b.all[i].thinks, b.now_ns + b.think_ns * i / b.workers);
		else
			begin_step(&b.all[i]);
	}
}

/* Those that think stop where they are. */
static void stop_workers(void)
{
	const uint64_t gives_up = clock_ns() + DRAIN_S * second_ns;

	b.stops = true;
	while (b.active) {
		turn();
		if (b.now_ns > gives_up)
			fail("the last steps do not end", NULL);
	}
}

/* Pushes that rows have had, by their values: before the first step they are noted, after the last one compared. */
static void count_pushes(const struct part *p, bool note)
{
	const float *rows = (const float *)(p->in + sizeof(struct wire_frame) + sizeof(struct wire_result));

	for (uint32_t i = 0; i < p->count * DIM; i++) {
		uint32_t *pushed = &b.pushed[p->keys[i / DIM]];

		if (note && i % DIM == 0)
			*pushed = (uint32_t)(-rows[i] / rate);
		if (rows[i] != -rate * (float)*pushed)
			fail("a row is not what its pushes have made of it", NULL);
	}
}

static void pull_now(struct part *p, bool note)
{
	fcntl(p->fd, F_SETFL, 0);
	ask(p);
	if (recv(p->fd, p->in, reply_bytes(p), MSG_WAITALL) != (ssize_t)reply_bytes(p))
		fail("a reply's length", NULL);
	p->got = reply_bytes(p);
	check(p);
	count_pushes(p, note);
	fcntl(p->fd, F_SETFL, O_NONBLOCK);
}

/* All rows, by the first worker. */
static void check_rows(bool note)
{
	struct worker *w = &b.all[0];

	w->pushes = false;
	for (uint64_t first = 0; first < KEYS; first += ROWS_MAX) {
		for (uint32_t t = 0; t < b.targets; t++)
			w->parts[t].count = 0;
		for (uint64_t key = first; key < first + ROWS_MAX && key < KEYS; key++) {
			struct part *p = &w->parts[owner(key)];

			p->keys[p->count++] = key;
		}
		for (uint32_t t = 0; t < b.targets; t++)
			if (w->parts[t].count)
				pull_now(&w->parts[t], note);
	}
	w->waits = 0;
}

static void print(const struct cpu_sample *from, const struct cpu_sample *to)
{
	const double seconds = (double)(to->ns - from->ns) * 1e-9, steps = (double)b.steps;

	printf("{\"rows_s\":%.1f,\"steps_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"server_us\":%.3f,\"client_us\":%."
	       "3f,"
	       "\"server_share\":%.3f,\"client_share\":%.3f}\n",
	       steps * 2 * b.rows / seconds, steps / seconds, histogram_quantile(&b.latency, 0.5) * 1e-3,
	       histogram_quantile(&b.latency, 0.99) * 1e-3, (double)(to->server_us - from->server_us) / steps,
	       (double)(to->client_us - from->client_us) / steps,
	       (double)(to->server_us - from->server_us) * 1e-6 / seconds,
	       (double)(to->client_us - from->client_us) * 1e-6 / seconds);
}

static bool number(const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && *value >= least && *value <= most;
}

int main(int argc, char **argv)
{
	struct cpu_sample begin, end;
	double workers, rows, think_us, seconds, pid;

	if (argc != 7 || !number(argv[2], 1, WORKERS_MAX, &workers) || !number(argv[3], 1, ROWS_MAX, &rows) ||
	    !number(argv[4], 0, 1e6, &think_us) || !number(argv[5], 0.01, 1000, &seconds) ||
	    !number(argv[6], 0, 1 << 30, &pid)) {
		fprintf(stderr, "usage: many-workers CONTROL WORKERS ROWS THINK_US SECONDS SERVER_PID\n"
				"each of up to 65536 workers pulls and pushes up to 1024 rows a step\n");
		return EXIT_USAGE;
	}
	b.workers = (uint32_t)workers;
	b.rows = (uint32_t)rows;
	b.think_ns = (uint64_t)(think_us * 1000);
	b.watched = (struct options){ .server_pid = (int)pid, .server_core = -1 };
	ask_control(argv[1]);
	find_targets();
	open_workers();
	check_rows(true);
	start_workers();
	run_for(warm_up_ns);
	b.counts = true;
	cpu_read(&b.watched, &begin);
	run_for((uint64_t)(seconds * 1e9));
	cpu_read(&b.watched, &end);
	b.counts = false;
	stop_workers();
	check_rows(false);
	if (!b.steps)
		fail("not one step", NULL);
	print(&begin, &end);
	free(b.layout);
	return EXIT_SUCCESS;
}
