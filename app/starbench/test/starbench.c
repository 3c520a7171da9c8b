/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources are included, to reach their statics: how they handle good and bad replies can be tested without a
 * server. */
#include "app/starbench/redis.c"
#include "app/starbench/star.c"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit.h"

static void histogram_buckets_follow_each_other(void)
{
	unsigned last = 0;

	for (uint64_t ns = 0; ns < 1 << 20; ns++) {
		const unsigned bucket = histogram_bucket(ns);

		if (!CHECK(bucket == last || bucket == last + 1))
			return;
		last = bucket;
	}
	CHECK_UINT(histogram_bucket(511), 511);
	CHECK_UINT(histogram_bucket((UINT64_C(1) << 40) - 1), HISTOGRAM_BUCKETS - 1);
	CHECK_UINT(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void histogram_quantiles_are_within_half_a_percent(void)
{
	static struct histogram h;

	memset(&h, 0, sizeof(h));
	CHECK_NEAR(histogram_quantile(&h, 0.5), 0, 0);
	for (uint64_t ns = 1; ns <= 100000; ns++)
		histogram_record(&h, ns);
	CHECK_UINT(h.count, 100000);
	CHECK_UINT(h.max_ns, 100000);
	for (double share = 0.01; share < 1; share += 0.01)
		CHECK_NEAR(histogram_quantile(&h, share), share * 100000, share * 500);
	CHECK_NEAR(histogram_quantile(&h, 1), 100000, 500);
}

enum { DIM = 16, KEY = 1 };

static const struct options options = { .dim = DIM, .keys = 2, .depth = 1, .checksum = true, .address = "127.0.0.1:1" };
static uint64_t keys[2] = { 11, 22 }, stamps[2];

/* A star bench with a catalogue of its own, and a connection that waits for the reply to request 5. */
struct fixture {
	struct layout *layout;
	struct star star;
	struct bench b;
	struct target target;
	struct connection c;
	struct pull_request request;
	union {
		struct pull_reply reply;
		uint8_t in[88 + 4 * DIM + BENCH_ROOM_BYTES];
	};
};

static void sign(struct fixture *f)
{
	f->reply.frame.checksum = wire_checksum(&f->reply.frame, &f->reply.result, f->reply.frame.payload_bytes);
}

static void setup(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->layout = calloc(1, sizeof(*f->layout));
	f->layout->epoch = 3;
	f->star = (struct star){ .spec = { .id = 7, .dim = DIM }, .layout = f->layout };
	f->target.incarnation = 99;
	f->c = (struct connection){ .session = 1234, .sent = 4, .answered = 4, .target = &f->target };
	f->b = (struct bench){ .options = &options,
			       .state = &f->star,
			       .keys = keys,
			       .stamps = stamps,
			       .request_bytes = star_request_bytes(),
			       .reply_bytes = star_reply_bytes(DIM) };
	star_prepare(&f->b, &f->c, (uint8_t *)&f->request);
	star_request(&f->b, &f->c, KEY, (uint8_t *)&f->request);
	f->reply.frame = (struct wire_frame){ .magic = WIRE_MAGIC,
					      .version = WIRE_VERSION,
					      .opcode = WIRE_REPLY,
					      .session = 1234,
					      .sequence = 5,
					      .payload_bytes = sizeof(struct wire_result) + 4 * DIM };
	f->reply.result = (struct wire_result){ .object = 7, .count = 1, .dim = DIM, .body_bytes = 4 * DIM };
	memset(f->reply.row, 0x5a, 4 * DIM);
	memset(&stamps[KEY], 0x5a, sizeof(stamps[KEY]));
	sign(f);
}

static int judge(struct fixture *f, uint32_t bytes)
{
	return star_reply(&f->b, &f->c, KEY, f->in, bytes);
}

static void star_request_is_a_valid_frame(void)
{
	struct fixture f;

	setup(&f);
	CHECK_UINT(wire_frame_check(&f.request.frame, NULL), WIRE_OK);
	CHECK_UINT(f.request.frame.opcode, WIRE_EXECUTE);
	CHECK_UINT(f.request.frame.session, 1234);
	CHECK_UINT(f.request.frame.sequence, 5);
	CHECK_UINT(f.request.frame.epoch, 3);
	CHECK_UINT(f.request.frame.incarnation, 99);
	CHECK_UINT(f.request.frame.payload_bytes, sizeof(struct wire_op) + 8);
	CHECK_UINT(f.request.op.object, 7);
	CHECK_UINT(f.request.op.body_bytes, wire_op_bytes(&f.request.op));
	CHECK_UINT(f.request.key, 22);
	CHECK_UINT(f.request.frame.checksum,
		   wire_checksum(&f.request.frame, &f.request.op, sizeof(struct wire_op) + 8));
	free(f.layout);
}

static void star_reply_is_taken_only_when_whole(void)
{
	struct fixture f;

	setup(&f);
	for (uint32_t bytes = 0; bytes < f.b.reply_bytes; bytes++)
		if (!CHECK_INT(judge(&f, bytes), 0))
			break;
	CHECK_INT(judge(&f, f.b.reply_bytes), f.b.reply_bytes);
	free(f.layout);
}

static void wrong_magic(struct fixture *f)
{
	f->reply.frame.magic++;
}

static void wrong_opcode(struct fixture *f)
{
	f->reply.frame.opcode = WIRE_EXECUTE;
}

static void wrong_sequence(struct fixture *f)
{
	f->reply.frame.sequence = 6;
}

static void wrong_length(struct fixture *f)
{
	f->reply.frame.payload_bytes -= 8;
}

static void wrong_object(struct fixture *f)
{
	f->reply.result.object = 8;
	sign(f);
}

static void wrong_checksum(struct fixture *f)
{
	f->reply.row[4 * DIM - 1] ^= 1;
}

static void wrong_value(struct fixture *f)
{
	f->reply.row[0] ^= 1;
	sign(f);
}

static void refused_with_a_sentence(struct fixture *f)
{
	f->reply.frame.status = WIRE_UNKNOWN_OBJECT;
	f->reply.frame.payload_bytes = 5;
	memcpy(f->in + sizeof(f->reply.frame), "seven", 5);
}

static void refused_with_a_flood(struct fixture *f)
{
	f->reply.frame.status = WIRE_BUSY;
	f->reply.frame.payload_bytes = WIRE_ERROR_TEXT_MAX + 1;
}

static void star_names_what_is_wrong_with_a_reply(void)
{
	static const struct {
		void (*spoil)(struct fixture *f);
		const char *sentence;
	} cases[] = {
		{ wrong_magic, "bad magic" },
		{ wrong_opcode, "opcode 1 where a reply is expected" },
		{ wrong_sequence, "a reply to request 6 where 5 is expected" },
		{ wrong_length, "a reply of 80 bytes where 88 are expected" },
		{ wrong_object, "a result of object 8" },
		{ wrong_checksum, "checksum" },
		{ wrong_value, "the row of key 0x16 has changed" },
		{ refused_with_a_sentence, "no such table or variable (seven)" },
		{ refused_with_a_flood, "over the protocol's limit" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture f;

		setup(&f);
		cases[i].spoil(&f);
		CHECK_INT(judge(&f, f.b.reply_bytes), -1);
		CHECK_HAS(f.b.why.text, cases[i].sentence);
		free(f.layout);
	}
}

static void star_keys_go_to_the_reactors_that_own_them(void)
{
	enum { KEYS = 1000, REACTORS = 3 };
	static uint64_t many[KEYS];
	const struct options o = { .keys = KEYS };
	struct layout layout = { .partitions = 16, .reactors = REACTORS };
	struct star star = { .spec.name = "t", .layout = &layout };
	struct bench b = { .options = &o, .keys = many, .targets_count = REACTORS };
	struct target targets[REACTORS] = { 0 };
	struct star_error err = { 0 };
	uint32_t seen = 0;

	b.targets = targets;
	for (uint64_t i = 0; i < KEYS; i++)
		many[i] = i;
	CHECK_INT(share_keys(&b, &star, &err), 0);
	for (uint32_t t = 0; t < REACTORS; t++) {
		for (uint32_t i = 0; i < targets[t].keys_count; i++) {
			const uint32_t partition = layout_partition(hash_key(hash_name("t"), targets[t].keys[i]), 16);

			CHECK(partition >= layout_first(16, REACTORS, t));
			CHECK(partition < layout_first(16, REACTORS, t + 1));
		}
		seen += targets[t].keys_count;
		free(targets[t].keys);
	}
	CHECK_UINT(seen, KEYS);
	memset(targets, 0, sizeof(targets));
	memset(many, 0, sizeof(many));
	CHECK_INT(share_keys(&b, &star, &err), -EINVAL);
	CHECK_HAS(err.text, "raise --keys");
	for (uint32_t t = 0; t < REACTORS; t++)
		free(targets[t].keys);
}

static void redis_replies(void)
{
	static const struct {
		const char *bytes, *sentence;
	} wrong[] = {
		{ "$-1\r\n", "Redis answered: $-1" },
		{ "-ERR no\r\n", "Redis answered: -ERR no" },
	};
	struct bench b = { .options = &options, .keys = keys, .stamps = stamps };
	struct connection c = { 0 };
	struct star_error err;
	char set[BENCH_FILL_BYTES + 4 * DIM] = "", in[128];
	uint32_t bytes;

	CHECK_INT(redis_open(&b, &err), 0);
	redis_prepare(&b, &c, (uint8_t *)set);
	redis_request(&b, &c, KEY, (uint8_t *)set);
	CHECK_MEM(set, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n", b.request_bytes);
	bytes = redis_fill(&b, &c, KEY, (uint8_t *)set);
	CHECK_MEM(set, "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$64\r\n", 41);
	CHECK_UINT(bytes, 41 + 64 + 2);
	/* A good reply repeats the value that SET stored. */
	memcpy(in, set + 36, b.reply_bytes);
	for (uint32_t n = 0; n < b.reply_bytes; n++)
		CHECK_INT(redis_reply(&b, &c, KEY, (uint8_t *)in, n), 0);
	CHECK_INT(redis_reply(&b, &c, KEY, (uint8_t *)in, b.reply_bytes), b.reply_bytes);
	CHECK_INT(redis_reply(&b, &c, 0, (uint8_t *)in, b.reply_bytes), -1);
	CHECK_HAS(b.why.text, "GET key:000000000000 with another value");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		b.why.code = 0;
		CHECK_INT(redis_reply(&b, &c, KEY, (uint8_t *)wrong[i].bytes, (uint32_t)strlen(wrong[i].bytes)), -1);
		CHECK_STR(b.why.text, wrong[i].sentence);
	}
	CHECK_INT(redis_filled(&b, &c, KEY, (uint8_t *)"+OK\r\n", 4), 0);
	CHECK_INT(redis_filled(&b, &c, KEY, (uint8_t *)"+OK\r\n", 5), 5);
	redis_close(&b);
	free(b.targets->keys);
	free(b.targets);
}

enum { IDLE_MAX = 8 };

/* An echo on loopback that accepts some idle connections and then one that is not, and closes it after this many
 * replies. */
struct echo_server {
	int listener;
	char address[32];
	uint32_t replies_max;
	uint32_t idle;	       /* connections that are accepted before it */
	uint32_t idle_dropped; /* of which this many are closed before the first reply */
	uint32_t idle_silent;  /* out: this many were silent until they ended, */
	uint32_t idle_reset;   /* and this many ended by a reset */
};

static void *echo_serve(void *arg)
{
	struct echo_server *s = arg;
	uint8_t in[120], out[88 + 4 * DIM] = { 0 };
	int idle[IDLE_MAX], fd;

	for (uint32_t i = 0; i < s->idle; i++) {
		idle[i] = accept(s->listener, NULL, NULL);
		if (i < s->idle_dropped)
			close(idle[i]);
	}
	fd = accept(s->listener, NULL, NULL);
	for (uint32_t i = 0; i < s->replies_max; i++) {
		if (recv(fd, in, sizeof(in), MSG_WAITALL) != sizeof(in))
			break;
		memcpy(out, in, 8);
		/* In two pieces, so that the client sees incomplete replies. */
		if (send(fd, out, 50, MSG_NOSIGNAL) != 50 ||
		    send(fd, out + 50, sizeof(out) - 50, MSG_NOSIGNAL) != sizeof(out) - 50)
			break;
	}
	close(fd);
	for (uint32_t i = s->idle_dropped; i < s->idle; i++) {
		const ssize_t got = recv(idle[i], in, sizeof(in), 0);

		s->idle_silent += got <= 0;
		s->idle_reset += got < 0 && errno == ECONNRESET;
		close(idle[i]);
	}
	return NULL;
}

static void echo_listen(struct echo_server *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);

	s->listener = socket(AF_INET, SOCK_STREAM, 0);
	bind(s->listener, (struct sockaddr *)&at, sizeof(at));
	listen(s->listener, IDLE_MAX + 1);
	getsockname(s->listener, (struct sockaddr *)&at, &bytes);
	snprintf(s->address, sizeof(s->address), "127.0.0.1:%u", ntohs(at.sin_port));
}

/* One connection, to a server without a core of its own. */
static struct options echo_options(const struct echo_server *s, uint32_t depth, double seconds)
{
	return (struct options){ .protocol = &protocol_echo,
				 .address = s->address,
				 .connections = 1,
				 .depth = depth,
				 .keys = 10,
				 .dim = DIM,
				 .seconds = seconds,
				 .server_core = -1 };
}

static void run_against_echo(struct echo_server *s, const struct options *o, uint64_t *requests, uint64_t *errors,
			     struct star_error *why)
{
	struct star_error err = { 0 };
	pthread_t thread;
	struct bench *b;

	pthread_create(&thread, NULL, echo_serve, s);
	b = bench_create(o, &err);
	if (b) {
		bench_run(b);
		*requests = b->latency.count;
		*errors = b->errors;
		*why = b->why;
		bench_destroy(b);
	}
	CHECK_STR(err.text, "");
	pthread_join(thread, NULL);
	close(s->listener);
}

/* Longer each time, until there are replies: on a busy machine the server may not have run before the time is over. */
static void run_until_served(struct echo_server *s, struct options *o, uint64_t *requests, uint64_t *errors,
			     struct star_error *why)
{
	const struct echo_server given = *s;

	do {
		*s = given;
		echo_listen(s);
		run_against_echo(s, o, requests, errors, why);
		o->seconds *= 2;
	} while (!*requests && o->seconds < 60);
}

static void loop_counts_every_reply(void)
{
	for (int spin = 0; spin < 2; spin++) {
		struct echo_server server = { .replies_max = UINT32_MAX };
		uint64_t requests = 0, errors = 1;
		struct star_error why;
		struct options o = echo_options(&server, 3, 0.05);

		o.spin = spin;
		run_until_served(&server, &o, &requests, &errors, &why);
		CHECK(requests > 0);
		CHECK_UINT(errors, 0);
	}
}

static void loop_ends_when_the_server_hangs_up(void)
{
	struct echo_server server = { .replies_max = 20 };
	uint64_t requests = 0, errors = 0;
	struct star_error why;
	struct options o = echo_options(&server, 1, 3600);

	echo_listen(&server);
	run_against_echo(&server, &o, &requests, &errors, &why);
	CHECK_UINT(requests, 20);
	CHECK_UINT(errors, 1);
	CHECK_HAS(why.text, "a connection was lost");
}

/* They are opened in addition to the others, are silent, and end by a reset. */
static void idle_connections_are_silent(void)
{
	struct echo_server server = { .replies_max = UINT32_MAX, .idle = 5 };
	uint64_t requests = 0, errors = 1;
	struct star_error why;
	struct options o = echo_options(&server, 1, 1);

	o.idle = 5;
	run_until_served(&server, &o, &requests, &errors, &why);
	CHECK(requests > 0);
	CHECK_UINT(errors, 0);
	CHECK_UINT(server.idle_silent, 5);
	CHECK_UINT(server.idle_reset, 5);
}

/* A server that drops idle connections to serve the busy ones must not look good. */
static void lost_idle_connections_are_errors(void)
{
	struct echo_server server = { .replies_max = UINT32_MAX, .idle = 5, .idle_dropped = 2 };
	uint64_t requests = 0, errors = 0;
	struct star_error why;
	struct options o = echo_options(&server, 1, 0.05);

	o.idle = 5;
	run_until_served(&server, &o, &requests, &errors, &why);
	CHECK(requests > 0);
	CHECK_UINT(errors, 2);
	CHECK_HAS(why.text, "an idle connection was lost");
}

static void addresses(void)
{
	static const char *const wrong[] = { "",
					     "127.0.0.1",
					     "127.0.0.1:",
					     "127.0.0.1:0",
					     "127.0.0.1:65536",
					     "127.0.0.1:1x",
					     "host:1",
					     ":1",
					     "1.2.3.4.5.6.7.8.9.0.1.2:1" };
	struct sockaddr_in address;
	struct star_error err;

	CHECK_INT(bench_parse_address("198.18.0.1:6379", &address, &err), 0);
	CHECK_UINT(ntohs(address.sin_port), 6379);
	CHECK_UINT(ntohl(address.sin_addr.s_addr), 0xc6120001);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_INT(bench_parse_address(wrong[i], &address, &err), -EINVAL);
		CHECK_HAS(err.text, wrong[i]);
		CHECK_HAS(err.text, "198.18.0.1:6379");
	}
}

const char *const unit_suite = "starbench";
const struct unit_case unit_cases[] = {
	{ "histogram_buckets_follow_each_other", histogram_buckets_follow_each_other },
	{ "histogram_quantiles_are_within_half_a_percent", histogram_quantiles_are_within_half_a_percent },
	{ "star_request_is_a_valid_frame", star_request_is_a_valid_frame },
	{ "star_reply_is_taken_only_when_whole", star_reply_is_taken_only_when_whole },
	{ "star_names_what_is_wrong_with_a_reply", star_names_what_is_wrong_with_a_reply },
	{ "star_keys_go_to_the_reactors_that_own_them", star_keys_go_to_the_reactors_that_own_them },
	{ "redis_replies", redis_replies },
	{ "loop_counts_every_reply", loop_counts_every_reply },
	{ "loop_ends_when_the_server_hangs_up", loop_ends_when_the_server_hangs_up },
	{ "idle_connections_are_silent", idle_connections_are_silent },
	{ "lost_idle_connections_are_errors", lost_idle_connections_are_errors },
	{ "addresses", addresses },
	{ NULL, NULL },
};
