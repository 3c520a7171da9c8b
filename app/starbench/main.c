/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starbench/starbench.h"
#include "app/starbench/store.h"
#include "app/starbench/worker.h"
#include "base/output.h"
#include "wire/frame.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static const char usage[] =
	"usage: starbench pull [OPTION]...\n"
	"       starbench store MODE [OPTION]...   (see starbench store --help)\n"
	"       starbench worker [OPTION]...       (see starbench worker --help)\n"
	"Pulls random rows, one per request, in a closed loop over kernel TCP, and prints rate and latency.\n"
	"\n"
	"  --protocol NAME    star, redis (GET) or echo (bench/peers/epoll-echo) [star]\n"
	"  --control H:P      star: control address of PS task 0; the table is created if needed\n"
	"  --address H:P      redis, echo: address of the server\n"
	"  --connections N    1 to 4096 [1]\n"
	"  --idle N           further connections that stay open and silent, up to 1048576 [0]\n"
	"  --depth N          requests in flight on each connection, 1 to 64 [1]\n"
	"  --keys N           keys to draw from, all filled beforehand, 1 to 10000000 [10000]\n"
	"  --dim N            elements (float32) of a row, 2 to 4096 [16]\n"
	"  --seconds S        how long to count [3]\n"
	"  --warmup S         how long to run before counting [0.2]\n"
	"  --seed N           of the keys [1]\n"
	"  --spin             read the sockets in turn without ever waiting\n"
	"  --no-checksum      star: do not verify the checksums of replies\n"
	"  --server-pid PID   report the CPU time of this process for each request\n"
	"  --server-core N    report the busy time of this core for each request\n"
	"  --json             print one JSON object\n"
	"\n"
	"Every reply is verified: status, sequence (where the protocol has one), length, the value's first 8 bytes\n"
	"and the checksum (star). Exit status: 0, 1 when a request failed, 2 for a wrong option.\n";

enum option_id {
	OPTION_PROTOCOL = 1,
	OPTION_CONTROL,
	OPTION_ADDRESS,
	OPTION_CONNECTIONS,
	OPTION_IDLE,
	OPTION_DEPTH,
	OPTION_KEYS,
	OPTION_DIM,
	OPTION_SECONDS,
	OPTION_WARMUP,
	OPTION_SEED,
	OPTION_SPIN,
	OPTION_NO_CHECKSUM,
	OPTION_SERVER_PID,
	OPTION_SERVER_CORE,
	OPTION_JSON,
};

static const struct option long_options[] = {
	{ "protocol", required_argument, NULL, OPTION_PROTOCOL },
	{ "control", required_argument, NULL, OPTION_CONTROL },
	{ "address", required_argument, NULL, OPTION_ADDRESS },
	{ "connections", required_argument, NULL, OPTION_CONNECTIONS },
	{ "idle", required_argument, NULL, OPTION_IDLE },
	{ "depth", required_argument, NULL, OPTION_DEPTH },
	{ "keys", required_argument, NULL, OPTION_KEYS },
	{ "dim", required_argument, NULL, OPTION_DIM },
	{ "seconds", required_argument, NULL, OPTION_SECONDS },
	{ "warmup", required_argument, NULL, OPTION_WARMUP },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "spin", no_argument, NULL, OPTION_SPIN },
	{ "no-checksum", no_argument, NULL, OPTION_NO_CHECKSUM },
	{ "server-pid", required_argument, NULL, OPTION_SERVER_PID },
	{ "server-core", required_argument, NULL, OPTION_SERVER_CORE },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ NULL, 0, NULL, 0 },
};

/* A number within bounds; false with a line on standard error. */
static bool parse_number(const char *name, const char *text, double min, double max, bool whole, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	if (!errno && end != text && !*end && *value >= min && *value <= max &&
	    (!whole || *value == (double)(uint64_t)*value))
		return true;
	fprintf(stderr, "starbench: --%s %s: a %snumber from %.15g to %.15g is needed\n", name, text,
		whole ? "whole " : "", min, max);
	return false;
}

static const struct protocol *find_protocol(const char *name)
{
	static const struct protocol *const protocols[] = { &protocol_star, &protocol_redis, &protocol_echo };

	for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
		if (strcmp(protocols[i]->name, name) == 0)
			return protocols[i];
	fprintf(stderr, "starbench: --protocol %s: star, redis or echo is needed\n", name);
	return NULL;
}

/* The bounds of the options that take numbers. */
static const struct {
	double min, max;
	bool whole;
} bounds[] = {
	[OPTION_CONNECTIONS] = { 1, BENCH_CONNECTIONS_MAX, true },
	[OPTION_IDLE] = { 0, BENCH_IDLE_MAX, true },
	[OPTION_DEPTH] = { 1, BENCH_DEPTH_MAX, true },
	[OPTION_KEYS] = { 1, BENCH_KEYS_MAX, true },
	[OPTION_DIM] = { 2, WIRE_DIM_MAX, true },
	[OPTION_SECONDS] = { 0.001, BENCH_SECONDS_MAX, false },
	[OPTION_WARMUP] = { 0, BENCH_SECONDS_MAX, false },
	[OPTION_SEED] = { 0, 9007199254740992.0, true },
	[OPTION_SERVER_PID] = { 1, INT32_MAX, true },
	[OPTION_SERVER_CORE] = { 0, 4095, true },
};

static void set_number(struct options *o, int id, double value)
{
	switch (id) {
	case OPTION_CONNECTIONS:
		o->connections = (uint32_t)value;
		break;
	case OPTION_IDLE:
		o->idle = (uint32_t)value;
		break;
	case OPTION_DEPTH:
		o->depth = (uint32_t)value;
		break;
	case OPTION_KEYS:
		o->keys = (uint32_t)value;
		break;
	case OPTION_DIM:
		o->dim = (uint32_t)value;
		break;
	case OPTION_SECONDS:
		o->seconds = value;
		break;
	case OPTION_WARMUP:
		o->warmup_s = value;
		break;
	case OPTION_SEED:
		o->seed = (uint64_t)value;
		break;
	case OPTION_SERVER_PID:
		o->server_pid = (int)value;
		break;
	case OPTION_SERVER_CORE:
		o->server_core = (int)value;
		break;
	}
}

/* One option; false after a line on standard error. */
static bool set_option(struct options *o, int id, const char *name, const char *text)
{
	double value;

	switch (id) {
	case OPTION_PROTOCOL:
		o->protocol = find_protocol(text);
		return o->protocol;
	case OPTION_CONTROL:
		o->control = text;
		return true;
	case OPTION_ADDRESS:
		o->address = text;
		return true;
	case OPTION_SPIN:
		o->spin = true;
		return true;
	case OPTION_NO_CHECKSUM:
		o->checksum = false;
		return true;
	case OPTION_JSON:
		o->json = true;
		return true;
	default:
		if (!parse_number(name, text, bounds[id].min, bounds[id].max, bounds[id].whole, &value))
			return false;
		set_number(o, id, value);
		return true;
	}
}

/* EXIT_SUCCESS if there is something to run, otherwise the exit status after a line on standard error. */
static int parse_bench_options(int argc, char **argv, struct options *o)
{
	int id, index = 0;

	while ((id = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		if (id == '?' || !set_option(o, id, long_options[index].name, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc) {
		fprintf(stderr, "starbench: \"%s\" is not an option: see starbench --help\n", argv[optind]);
		return EXIT_USAGE;
	}
	if (o->protocol == &protocol_star ? !o->control || o->address : !o->address || o->control) {
		fprintf(stderr, "starbench: --protocol %s needs %s and no other address\n", o->protocol->name,
			o->protocol == &protocol_star ? "--control HOST:PORT" : "--address HOST:PORT");
		return EXIT_USAGE;
	}
	return EXIT_SUCCESS;
}

struct summary {
	double seconds, rate;
	double p50_us, p90_us, p99_us, p999_us, max_us;
	double client_us, server_us, core_us; /* CPU time of one request */
};

static void summarize(const struct bench *b, struct summary *s)
{
	const double count = b->latency.count ? (double)b->latency.count : 1;

	s->seconds = (double)(b->end.ns - b->begin.ns) * 1e-9;
	s->rate = s->seconds > 0 ? (double)b->latency.count / s->seconds : 0;
	s->p50_us = histogram_quantile(&b->latency, 0.5) * 1e-3;
	s->p90_us = histogram_quantile(&b->latency, 0.9) * 1e-3;
	s->p99_us = histogram_quantile(&b->latency, 0.99) * 1e-3;
	s->p999_us = histogram_quantile(&b->latency, 0.999) * 1e-3;
	s->max_us = (double)b->latency.max_ns * 1e-3;
	s->client_us = (double)(b->end.client_us - b->begin.client_us) / count;
	s->server_us = (double)(b->end.server_us - b->begin.server_us) / count;
	s->core_us = (double)(b->end.core_us - b->begin.core_us) / count;
}

static void print_json(const struct bench *b, const struct summary *s)
{
	const struct options *o = b->options;
	json_t *object =
		json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:f, s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f}",
			  "protocol", o->protocol->name, "connections", (int)o->connections, "idle", (int)o->idle,
			  "depth", (int)o->depth, "keys", (int)o->keys, "dim", (int)o->dim, "spin", o->spin, "checksum",
			  o->protocol == &protocol_star && o->checksum, "seconds", s->seconds, "requests",
			  (json_int_t)b->latency.count, "rate", s->rate, "errors", (json_int_t)b->errors, "p50_us",
			  s->p50_us, "p90_us", s->p90_us, "p99_us", s->p99_us, "p999_us", s->p999_us, "max_us",
			  s->max_us, "client_cpu_us", s->client_us);

	if (o->server_pid)
		json_object_set_new(object, "server_cpu_us", json_real(s->server_us));
	if (o->server_core >= 0)
		json_object_set_new(object, "server_core_us", json_real(s->core_us));
	if (b->errors)
		json_object_set_new(object, "error", json_string(b->why.text));
	json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(object);
}

static void print_text(const struct bench *b, const struct summary *s)
{
	const struct options *o = b->options;

	printf("%s: %.0f requests/s, %u connections with %u in flight each, rows of %u x float32, %.2f s\n",
	       o->protocol->name, s->rate, o->connections, o->depth, o->dim, s->seconds);
	printf("round trip: median %.2f us, 90 %% %.2f, 99 %% %.2f, 99.9 %% %.2f, longest %.1f\n", s->p50_us, s->p90_us,
	       s->p99_us, s->p999_us, s->max_us);
	printf("CPU time per request: client %.2f us", s->client_us);
	if (o->server_pid)
		printf(", server's process %.2f us", s->server_us);
	if (o->server_core >= 0)
		printf(", core %d busy %.2f us", o->server_core, s->core_us);
	putchar('\n');
}

static int run_bench(int argc, char **argv)
{
	struct options o = {
		.protocol = &protocol_star,
		.connections = 1,
		.depth = 1,
		.keys = 10000,
		.dim = 16,
		.seconds = 3,
		.warmup_s = 0.2,
		.seed = 1,
		.checksum = true,
		.server_core = -1,
	};
	struct star_error err = { 0 };
	struct summary summary;
	struct bench *b;
	int status;

	if (argc > 1 && strcmp(argv[1], "store") == 0)
		return store_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "worker") == 0)
		return worker_main(argc - 1, argv + 1);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
			fputs(strcmp(argv[i], "--help") ? "starbench " STAR_VERSION "\n" : usage, stdout);
			return EXIT_SUCCESS;
		}
	if (argc < 2 || strcmp(argv[1], "pull") != 0) {
		fprintf(stderr, "starbench: \"pull\", \"store\" or \"worker\" is needed: see starbench --help\n");
		return EXIT_USAGE;
	}
	argv[1] = argv[0]; /* the name that getopt uses in messages */
	status = parse_bench_options(argc - 1, argv + 1, &o);
	if (status != EXIT_SUCCESS)
		return status;
	b = bench_create(&o, &err);
	if (!b) {
		fprintf(stderr, "starbench: %s\n", err.text);
		return EXIT_FAILURE;
	}
	bench_run(b);
	summarize(b, &summary);
	(o.json ? print_json : print_text)(b, &summary);
	if (b->errors)
		fprintf(stderr, "starbench: %" PRIu64 " requests failed: %s\n", b->errors, b->why.text);
	status = b->errors ? EXIT_FAILURE : EXIT_SUCCESS;
	bench_destroy(b);
	return status;
}

int main(int argc, char **argv)
{
	return output_end("starbench", run_bench(argc, argv), EXIT_FAILURE);
}
