/* SPDX-License-Identifier: BSD-3-Clause */
/* What two nodes of a pair tell each other: what is sent is applied, up to marks, and nothing else, however cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "pair/entry.h"
#include "pair/link.h"
#include "pair/receiver.h"
#include "tests/unit.h"

enum { SENT_MAX = 4 << 20, BEGIN = 4096, HELD = 64 << 20 };

struct bytes {
	uint8_t *at;
	size_t count;
};

/* What was applied. */
struct applied {
	char catalogue[64];
	unsigned blocks, runs;
	uint64_t sum; /* of the contents of records, in order */
};

static int take_catalogue(void *ctx, const char *text, size_t bytes, struct star_error *err)
{
	struct applied *a = ctx;

	(void)err;
	snprintf(a->catalogue, sizeof(a->catalogue), "%.*s", (int)bytes, text);
	return 0;
}

static int take_block(void *ctx, uint32_t reactor, const void *runs, uint32_t bytes, struct star_error *err)
{
	struct applied *a = ctx;

	(void)err;
	CHECK_UINT((uintptr_t)runs % 8, 0);
	a->blocks++;
	a->sum = a->sum * 31 + bytes + reactor;
	return 0;
}

static int take_records(void *ctx, uint32_t reactor, void *records, size_t bytes, struct star_error *err)
{
	struct applied *a = ctx;

	(void)err;
	CHECK_UINT((uintptr_t)records % 8, 0);
	for (size_t at = 0; at < bytes;) {
		const struct journal_record *record = (const struct journal_record *)((uint8_t *)records + at);

		at += record->bytes;
		if (record->kind != JOURNAL_RUN)
			continue;
		a->runs++;
		a->sum = a->sum * 31 + *(const uint8_t *)(record + 1) + reactor;
	}
	return 0;
}

static struct pair_receiver *make_receiver(struct applied *applied, uint32_t reactors, uint64_t held)
{
	const struct pair_receiver_ops ops = {
		.ctx = applied, .catalogue = take_catalogue, .block = take_block, .records = take_records
	};
	struct star_error err = { 0 };
	struct pair_receiver *r = pair_receiver_create("/tmp", reactors, held, &ops, &err);

	if (!CHECK(r))
		printf("# %s\n", err.text);
	return r;
}

static void put(struct bytes *b, unsigned kind, unsigned reactor, uint64_t position, const void *payload,
		uint32_t bytes)
{
	struct pair_frame f = { .magic = PAIR_FRAME_MAGIC,
				.kind = (uint16_t)kind,
				.reactor = (uint16_t)reactor,
				.bytes = bytes,
				.position = position };

	f.checksum = pair_frame_checksum(&f, payload);
	memcpy(b->at + b->count, &f, sizeof(f));
	if (bytes)
		memcpy(b->at + b->count + sizeof(f), payload, bytes);
	b->count += sizeof(f) + bytes;
}

/* A record of n bytes of content into a stream. */
static void record(struct bytes *stream, unsigned kind, uint8_t fill, uint32_t bytes)
{
	const struct journal_record r = { .bytes = (uint32_t)sizeof(r) + bytes, .kind = (uint16_t)kind };

	memcpy(stream->at + stream->count, &r, sizeof(r));
	memset(stream->at + stream->count + sizeof(r), fill, bytes);
	stream->count += r.bytes;
}

static void instant(struct bytes *stream, unsigned kind, uint64_t id)
{
	record(stream, kind, 0, sizeof(id));
	memcpy(stream->at + stream->count - sizeof(id), &id, sizeof(id));
}

/* All that a primary of one reactor sends: before the instant, behind it, and a tail without a mark. */
static void make_stream(struct bytes *stream, struct prng *prng, unsigned *runs, uint64_t *sum)
{
	unsigned since = 0;
	uint64_t marked = 0;

	for (unsigned i = 0; i < 20; i++)
		record(stream, i % 5 ? JOURNAL_RUN : JOURNAL_MARK, 1, 64);
	instant(stream, JOURNAL_INSTANT, PAIR_INSTANT);
	instant(stream, JOURNAL_SESSIONS, PAIR_INSTANT);
	for (unsigned i = 0; i < 300; i++) {
		const uint8_t fill = (uint8_t)prng_next(prng);

		if (prng_below(prng, 7) == 0) {
			record(stream, JOURNAL_MARK, 0, 0);
			*runs += since;
			*sum = marked;
			since = 0;
			continue;
		}
		record(stream, JOURNAL_RUN, fill, 8 + (uint32_t)prng_below(prng, 400) * 8);
		since++;
		marked = marked * 31 + fill;
	}
	*sum = since ? *sum : marked;
}

/* Everything, in frames of any length, the snapshot somewhere among them. */
static void make_sent(struct bytes *sent, const struct bytes *stream, struct prng *prng)
{
	static const uint8_t block[256];
	const unsigned loaded_at = (unsigned)prng_below(prng, 8);
	size_t at = 0;

	put(sent, PAIR_CATALOGUE, 0, 3, "{\"a", 3);
	put(sent, PAIR_CATALOGUE, 0, 0, "\":1", 3);
	for (unsigned i = 0; at < stream->count || i <= loaded_at; i++) {
		const size_t left = stream->count - at, most = 8 + prng_below(prng, 4000) * 8;
		const size_t bytes = left < most ? left : most;

		if (i == loaded_at / 2)
			put(sent, PAIR_BLOCK, 0, 0, block, sizeof(block));
		if (i == loaded_at)
			put(sent, PAIR_BLOCK, 0, 1, NULL, 0);
		if (bytes)
			put(sent, PAIR_STREAM, 0, BEGIN + at, stream->at + at, (uint32_t)bytes);
		at += bytes;
		put(sent, PAIR_PING, i & 1, 7 + i, NULL, 0);
	}
}

/* In pieces of any length; 0, or what the receiver said. */
static int feed(struct pair_receiver *r, const uint8_t *bytes, size_t count, struct prng *prng, struct star_error *err)
{
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < count;) {
		const size_t most = 1 + prng_below(prng, 3000);
		size_t room;
		void *to = pair_receiver_room(r, &room);

		room = room < most ? room : most;
		room = room < count - at ? room : count - at;
		memcpy(to, bytes + at, room);
		at += room;
		rc = pair_receiver_came(r, room, err);
	}
	return rc;
}

static void run_seed(uint64_t seed)
{
	struct bytes stream = { .at = malloc(SENT_MAX) }, sent = { .at = malloc(SENT_MAX) };
	struct applied applied = { .catalogue = "" }, damaged = { .catalogue = "" };
	struct star_error err = { 0 };
	struct pair_receiver *r;
	struct prng prng;
	unsigned runs = 0;
	uint64_t sum = 0;

	prng_seed(&prng, seed);
	make_stream(&stream, &prng, &runs, &sum);
	make_sent(&sent, &stream, &prng);
	r = make_receiver(&applied, 1, HELD);
	if (!CHECK_INT(feed(r, sent.at, sent.count, &prng, &err), 0))
		printf("# seed %llu: %s\n", (unsigned long long)seed, err.text);
	CHECK_UINT(applied.runs, runs);
	CHECK_STR(applied.catalogue, "{\"a\":1");
	CHECK_UINT(applied.blocks, 1);
	CHECK_UINT(pair_receiver_stream(r, 0)->position, BEGIN + stream.count);
	CHECK(pair_receiver_whole(r));
	CHECK(pair_receiver_ping(r) >= 7);
	CHECK(!pair_receiver_ended(r));
	pair_receiver_destroy(r);
	/* A byte of it is another one: nothing behind it is applied. */
	sent.at[prng_below(&prng, (uint32_t)sent.count)] ^= (uint8_t)(1 << prng_below(&prng, 8));
	r = make_receiver(&damaged, 1, HELD);
	/* The last frame may just be longer than what comes. */
	if (feed(r, sent.at, sent.count, &prng, &err) == 0)
		CHECK(damaged.runs < runs || !pair_receiver_ended(r));
	CHECK(damaged.runs <= runs);
	pair_receiver_destroy(r);
	free(stream.at);
	free(sent.at);
}

static void what_was_sent_is_applied_up_to_its_marks(void)
{
	unit_seeds(60, 2000, run_seed);
}

/* A frame that a primary does not send. */
static void refuse(unsigned kind, unsigned reactor, uint64_t position, const void *payload, uint32_t bytes,
		   const char *why)
{
	struct bytes sent = { .at = malloc(SENT_MAX) };
	struct applied applied = { .catalogue = "" };
	struct star_error err = { 0 };
	struct pair_receiver *r = make_receiver(&applied, 2, HELD);
	struct prng prng;

	prng_seed(&prng, 1);
	put(&sent, PAIR_CATALOGUE, 0, 0, "{}", 2);
	put(&sent, kind, reactor, position, payload, bytes);
	CHECK(feed(r, sent.at, sent.count, &prng, &err) < 0);
	CHECK_HAS(err.text, why);
	pair_receiver_destroy(r);
	free(sent.at);
}

static void what_no_primary_sends_is_refused(void)
{
	const struct journal_record tiny = { .bytes = 4, .kind = JOURNAL_RUN };
	const struct journal_record huge = { .bytes = JOURNAL_RECORD_MAX + 8, .kind = JOURNAL_RUN };
	const struct journal_record odd = { .bytes = 12, .kind = JOURNAL_RUN };
	const struct journal_record strange = { .bytes = 8, .kind = 99 };
	const struct journal_record bare = { .bytes = 8, .kind = JOURNAL_INSTANT };

	refuse(PAIR_STREAM, 2, 0, &tiny, sizeof(tiny), "no reactor 2");
	refuse(PAIR_STREAM, 0, 0, &tiny, sizeof(tiny), "4 bytes");
	refuse(PAIR_STREAM, 0, 0, &huge, sizeof(huge), "262152 bytes");
	refuse(PAIR_STREAM, 0, 0, &odd, sizeof(odd), "12 bytes");
	refuse(PAIR_STREAM, 0, 0, &strange, sizeof(strange), "kind 99");
	refuse(PAIR_STREAM, 0, 0, &bare, sizeof(bare), "8 bytes");
	refuse(PAIR_STREAM, 0, 4, &bare, sizeof(bare), "another position");
	refuse(PAIR_STREAM, 0, 0, &bare, 4, "another position");
	refuse(PAIR_CATALOGUE, 0, UINT64_MAX, "x", 1, "too long");
	refuse(PAIR_ACK, 0, 0, NULL, 0, "kind 16");
	refuse(77, 0, 0, NULL, 0, "an invalid frame");
	refuse(PAIR_PING, 0, 0, "x", 1, "an invalid frame");
}

static void what_is_held_is_bounded(void)
{
	struct bytes sent = { .at = malloc(SENT_MAX) }, stream = { .at = malloc(SENT_MAX) };
	struct applied applied = { .catalogue = "" };
	struct pair_receiver *r = make_receiver(&applied, 1, HELD);
	struct star_error err = { 0 };
	uint64_t position = 0;
	struct prng prng;
	int rc = 0;

	prng_seed(&prng, 1);
	put(&sent, PAIR_CATALOGUE, 0, 0, "{}", 2);
	CHECK_INT(feed(r, sent.at, sent.count, &prng, &err), 0);
	for (unsigned i = 0; i < 7; i++)
		record(&stream, JOURNAL_RUN, 3, 128 << 10);
	for (unsigned i = 0; rc == 0 && i < 200; i++) {
		sent.count = 0;
		put(&sent, PAIR_STREAM, 0, position, stream.at, (uint32_t)stream.count);
		position += stream.count;
		rc = feed(r, sent.at, sent.count, &prng, &err);
	}
	CHECK_INT(rc, -EFBIG);
	CHECK_HAS(err.text, "standby.hold_mib");
	CHECK_UINT(applied.runs, 0);
	pair_receiver_destroy(r);
	free(sent.at);
	free(stream.at);
}

static void no_flipped_byte_of_a_hello_or_an_answer_is_accepted(void)
{
	struct pair_hello hello = { .intent = PAIR_JOIN, .role = PAIR_STANDBY, .generation = 7, .reactors = 2 };
	struct pair_answer answer = { .role = PAIR_PRIMARY, .generation = 8, .lease_ms = 1000, .status = -EBUSY };
	struct star_error err = { 0 };

	strcpy(hello.control, "198.18.0.1:3333");
	strcpy(answer.text, "another standby is about to join");
	pair_hello_seal(&hello);
	pair_answer_seal(&answer);
	CHECK_INT(pair_hello_check(&hello, &err), 0);
	CHECK_INT(pair_answer_check(&answer, &err), 0);
	for (size_t i = 0; i < sizeof(hello); i++) {
		((uint8_t *)&hello)[i] ^= 0x10;
		CHECK_INT(pair_hello_check(&hello, &err), -EPROTO);
		((uint8_t *)&hello)[i] ^= 0x10;
	}
	for (size_t i = 0; i < sizeof(answer); i++) {
		((uint8_t *)&answer)[i] ^= 0x10;
		CHECK_INT(pair_answer_check(&answer, &err), -EPROTO);
		((uint8_t *)&answer)[i] ^= 0x10;
	}
	memset(hello.control, 'x', sizeof(hello.control));
	pair_hello_seal(&hello);
	CHECK_INT(pair_hello_check(&hello, &err), -EPROTO);
	answer.lease_ms = 0;
	pair_answer_seal(&answer);
	CHECK_INT(pair_answer_check(&answer, &err), -EPROTO);
}

/* What another version sends may be shorter: its head is enough to say so, and nothing is waited for. */
static void another_version_is_known_by_its_head(void)
{
	struct pair_hello hello = { .intent = PAIR_JOIN, .role = PAIR_STANDBY }, heard;
	struct star_error err = { 0 };
	struct pair_link *link;
	int fds[2];

	pair_hello_seal(&hello);
	hello.version--;
	if (!CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0))
		return;
	link = pair_link_accept(fds[0], NULL, clock_us() + 1000000, &err);
	CHECK_INT(write(fds[1], &hello, offsetof(struct pair_hello, checksum)), 12);
	CHECK_INT(pair_link_hear(link, &heard, clock_us() + 60000000, &err), -EPROTO);
	CHECK_HAS(err.text, "uses version 5 of the protocol between nodes of a pair, this one 6");
	hello.version++;
	CHECK_INT(write(fds[1], &hello, sizeof(hello)), sizeof(hello));
	CHECK_INT(pair_link_hear(link, &heard, clock_us() + 60000000, &err), 0);
	CHECK_UINT(heard.intent, PAIR_JOIN);
	CHECK_INT(write(fds[1], &hello, sizeof(hello) - 1), sizeof(hello) - 1);
	CHECK_INT(pair_link_hear(link, &heard, clock_us() + 1000, &err), -ETIMEDOUT);
	close(fds[1]);
	pair_link_close(link);
}

/* ---- the register ---- */

static void only_a_pairs_own_entry_is_read(void)
{
	static const struct {
		const char *text;
		int rc;
	} cases[] = {
		{ "{\"primary\":\"a:1\",\"mode\":\"solo\",\"generation\":3,\"write\":\"x\"}", 0 },
		{ "{\"primary\":\"b:1\",\"mode\":\"paired\",\"generation\":\"18446744073709551615\"}", 0 },
		{ "{\"primary\":\"b:1\",\"mode\":\"taking\",\"generation\":4}", 0 },
		{ "{\"primary\":\"c:1\",\"mode\":\"solo\",\"generation\":3}", -EPERM },
		{ "{\"primary\":\"a:1\",\"mode\":\"both\",\"generation\":3}", -EBADMSG },
		{ "{\"primary\":\"a:1\",\"mode\":\"solo\",\"generation\":-3}", -EBADMSG },
		{ "{\"primary\":\"a:1\",\"mode\":\"solo\"}", -EBADMSG },
		{ "{\"primary\":7,\"mode\":\"solo\",\"generation\":3}", -EBADMSG },
		{ "{\"primary\":\"a:1\",\"mode\":\"solo\",\"generation\":3,\"lease\":1}", -EBADMSG },
		{ "{\"primary\":\"a:1\",\"primary\":\"b:1\",\"mode\":\"solo\",\"generation\":3}", -EBADMSG },
		{ "[]", -EBADMSG },
		{ "", -EBADMSG },
		{ "\x00", -EBADMSG },
	};
	struct pair_entry entry, made = { .there = true, .paired = true, .generation = UINT64_MAX };
	char text[PAIR_ENTRY_MAX];
	struct star_error err;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!CHECK_INT(pair_entry_read(cases[i].text, strlen(cases[i].text), "a:1", "b:1", &entry, &err),
			       cases[i].rc))
			printf("# %s\n", cases[i].text);
		CHECK(cases[i].rc == 0 || !entry.there);
	}
	CHECK_INT(pair_entry_print(&made, "a:1", "b:1", 7, text), 0);
	CHECK_STR(text, "{\"primary\":\"b:1\",\"mode\":\"paired\",\"generation\":\"18446744073709551615\",\"write\":"
			"\"0000000000000007\"}");
	CHECK_INT(pair_entry_read(text, strlen(text), "a:1", "b:1", &entry, &err), 0);
	CHECK(entry.there && !entry.mine && entry.paired && !entry.taking && entry.generation == UINT64_MAX);
	made = (struct pair_entry){ .there = true, .mine = true, .taking = true, .generation = 2 };
	CHECK_INT(pair_entry_print(&made, "a:1", "b:1", 8, text), 0);
	CHECK_HAS(text, "\"primary\":\"a:1\",\"mode\":\"taking\"");
	CHECK_INT(pair_entry_read(text, strlen(text), "a:1", "b:1", &entry, &err), 0);
	CHECK(entry.there && entry.mine && !entry.paired && entry.taking && entry.generation == 2);
}

/* Every claim at every state of the register, of a node that knows generation 5. */
static void a_register_changes_by_its_rules(void)
{
	static const struct pair_entry states[] = {
		{ 0 },
		{ .there = true, .mine = true, .generation = 5 },
		{ .there = true, .mine = true, .paired = true, .generation = 5 },
		{ .there = true, .generation = 5 },
		{ .there = true, .paired = true, .generation = 5 },
		{ .there = true, .generation = 6 },
		{ .there = true, .paired = true, .generation = 6 },
		{ .there = true, .mine = true, .taking = true, .generation = 6 },
		{ .there = true, .taking = true, .generation = 6 },
		{ .there = true, .taking = true, .generation = 7 },
	};
	enum { OTHERS = -ESTALE, OLDER = -EPERM, NONE = -ENOENT };
	static const struct {
		enum pair_claim claim;
		int rc[10];
	} rules[] = {
		{ PAIR_CLAIM_NOTHING,
		  { -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM } },
		{ PAIR_CLAIM_ALONE, { NONE, 0, 0, OLDER, OLDER, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
		{ PAIR_CLAIM_KEEPS, { 0, 0, 0, OLDER, OLDER, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
		{ PAIR_CLAIM_PAIRED, { 0, 0, 0, OLDER, OLDER, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
		{ PAIR_CLAIM_VOIDS, { NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
		{ PAIR_CLAIM_BEGINS, { 0, 0, 0, OTHERS, OTHERS, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
		/* what follows this node's generation at once, and was never served */
		{ PAIR_CLAIM_BACK, { NONE, 0, 0, OLDER, OLDER, OTHERS, OTHERS, 0, 0, OTHERS } },
		{ PAIR_CLAIM_AGREED, { 0, 0, 0, 0, 0, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
		{ PAIR_CLAIM_TOLD, { 0, 0, 0, -EPERM, 0, -EPERM, -EPERM, 0, -EPERM, -EPERM } },
		{ PAIR_CLAIM_FOUND, { NONE, 0, 0, -EPERM, 0, -EPERM, -EPERM, 0, -EPERM, -EPERM } },
		{ PAIR_CLAIM_SERVES, { NONE, 0, 0, OLDER, OLDER, OTHERS, OTHERS, 0, OTHERS, OTHERS } },
	};

	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		for (unsigned s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
			const enum pair_claim claim = rules[i].claim;
			const bool takes = claim >= PAIR_CLAIM_AGREED && claim <= PAIR_CLAIM_FOUND;
			const uint64_t last = states[s].generation > 5 ? states[s].generation : 5;
			struct star_error err = { 0 };
			struct pair_entry next;
			const int rc = pair_entry_next(&states[s], claim, 5, &next, &err);

			if (!CHECK_INT(rc, rules[i].rc[s]))
				printf("# claim %u at state %u: %s\n", claim, s, err.text);
			if (rc < 0)
				continue;
			if (claim == PAIR_CLAIM_VOIDS) {
				CHECK_MEM(&next, &states[s], sizeof(next));
				continue;
			}
			CHECK(next.there && next.mine && next.paired == (claim == PAIR_CLAIM_PAIRED));
			CHECK(next.taking == takes);
			if (claim == PAIR_CLAIM_BACK)
				CHECK_UINT(next.generation, last + 2);
			else if (claim == PAIR_CLAIM_BEGINS || (takes && !(states[s].mine && states[s].taking)))
				CHECK_UINT(next.generation, last + 1);
			else if (takes || claim == PAIR_CLAIM_SERVES) /* the same claim once more, or made good */
				CHECK_UINT(next.generation, last);
			else
				CHECK_UINT(next.generation, 5);
		}
}

const char *const unit_suite = "pair";
const struct unit_case unit_cases[] = {
	{ "what was sent is applied up to its marks", what_was_sent_is_applied_up_to_its_marks },
	{ "what no primary sends is refused", what_no_primary_sends_is_refused },
	{ "what is held is bounded", what_is_held_is_bounded },
	{ "no flipped byte of a hello or an answer is accepted", no_flipped_byte_of_a_hello_or_an_answer_is_accepted },
	{ "another version is known by its head", another_version_is_known_by_its_head },
	{ "only a pair's own entry is read", only_a_pairs_own_entry_is_read },
	{ "a register changes by its rules", a_register_changes_by_its_rules },
	{ NULL, NULL },
};
