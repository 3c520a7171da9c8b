/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of any size, which go from one block and segment into the next, and what a checkpoint leaves of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "tests/journal/support.h"
#include "tests/unit.h"

enum { AT_ONCE = 4 << 20, PLACES = 12, ID = 9 };

/* What was written, in order: the content's first word is its number. */
struct written {
	struct journal_ring *ring;
	struct journal_writer *writer;
	uint32_t contents[512];
	unsigned count;
	struct prng prng;
};

static void put_record(struct written *w, uint32_t content)
{
	uint64_t *words = journal_take(w->ring, JOURNAL_RUN, 0, content);

	if (!CHECK(words && w->count < sizeof(w->contents) / sizeof(w->contents[0])))
		return;
	for (uint32_t i = 0; i < content / sizeof(*words); i++)
		words[i] = w->count + (uint64_t)i * 0x10001;
	w->contents[w->count++] = content;
}

/* Records of all sizes, up to the longest, so many bytes of them; nothing is published. */
static void put_records(struct written *w, uint32_t bytes)
{
	const uint32_t content_max = JOURNAL_RECORD_MAX - sizeof(struct journal_record);

	for (const uint64_t until = w->ring->head + bytes; w->ring->head < until;) {
		const uint32_t one = prng_below(&w->prng, 4) ? content_max - prng_below(&w->prng, 64) / 8 * 8
							     : prng_below(&w->prng, content_max) / 8 * 8;
		const uint64_t left = until - w->ring->head;

		if (left <= sizeof(struct journal_record))
			return;
		put_record(w, left < JOURNAL_RECORD_MAX ? (uint32_t)left - sizeof(struct journal_record) : one);
	}
}

/* In memory, where there is some: it is many megabytes. */
static bool make_folder(char directory[static UNIT_FOLDER])
{
	strcpy(directory, "/dev/shm/star-journal-XXXXXX");
	return mkdtemp(directory) || unit_folder(directory, "journal");
}

static bool begin_writing(struct written *w, const char *directory, uint32_t segment_bytes)
{
	struct journal_life life = life_of(directory, 1);
	struct star_error err = { 0 };

	life.segment_bytes = segment_bytes;
	*w = (struct written){ .ring = make_ring() };
	prng_seed(&w->prng, 7);
	w->writer = w->ring ? journal_writer_create(&life, 0, 0, w->ring, &err) : NULL;
	return CHECK(w->writer);
}

static void mark_and_settle(struct written *w)
{
	journal_mark(w->ring);
	settle(w->ring);
}

static void end_writing(struct written *w)
{
	journal_writer_destroy(w->writer);
	journal_ring_destroy(w->ring);
}

/* The last checkpoint that was begun counts: what is of no use goes. */
static void keep(struct written *w, uint64_t id)
{
	__atomic_store_n(&w->ring->sessions_of, id, __ATOMIC_RELEASE);
	journal_writer_keep_from(w->writer, id);
	for (unsigned i = 0; i < 10000 && !journal_writer_keeps_from(w->writer, id); i++)
		usleep(1000);
	CHECK(journal_writer_keeps_from(w->writer, id));
}

struct reading {
	const struct written *w;
	uint64_t from;
	unsigned next;
	bool wrong;
};

static int read_record(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
		       struct star_error *err)
{
	struct reading *r = ctx;
	const uint64_t *words = content;
	const uint32_t bytes = record->bytes - (uint32_t)sizeof(*record);

	(void)err;
	if (behind <= r->from || record->kind != JOURNAL_RUN)
		return 0;
	r->wrong |= r->next >= r->w->count || bytes != r->w->contents[r->next];
	for (uint32_t i = 0; !r->wrong && i < bytes / sizeof(*words); i++)
		r->wrong = words[i] != r->next + (uint64_t)i * 0x10001;
	r->next++;
	return 0;
}

/* What is read behind a checkpoint is exactly what was written from that record on. */
static void check_behind(const struct written *w, const char *directory, uint64_t id, unsigned first_record)
{
	struct star_error why = { 0 };
	struct journal_contents *c = journal_contents_read(directory, NULL, NULL, &why);
	struct reading r = { .w = w, .next = first_record };
	uint32_t first = 0;

	if (!CHECK(c) || !CHECK_INT(journal_contents_from(c, id, &first, &why), 1)) {
		printf("# %s\n", why.text);
	} else {
		const struct journal_stream *s = &c->lives[first].streams[0];

		r.from = journal_stream_from(&c->lives[first], s, id);
		CHECK_INT(journal_stream_visit(c, s, read_record, &r, &why), 0);
		CHECK(!r.wrong);
		CHECK_UINT(r.next, w->count);
		CHECK(s->begin.position > 0); /* else nothing was removed */
	}
	journal_contents_free(c);
}

/* Records that are cut by the ends of blocks and segments, a checkpoint behind any of them, and what came before it
 * removed. Its instant is cut, too, or is the last record of a segment. */
static void check_place(uint32_t segment_bytes, unsigned place, bool settles)
{
	/* The last ones: an instant whose first half is the end of a full block. */
	const uint32_t before = place < PLACES - 2 ? place * (JOURNAL_PAYLOAD_MAX / 32 * 8)
						   : (place - PLACES + 3) * JOURNAL_PAYLOAD_MAX - 8;
	char directory[UNIT_FOLDER];
	struct written w;
	unsigned first_record;

	if (!make_folder(directory))
		return;
	if (begin_writing(&w, directory, segment_bytes)) {
		put_records(&w, AT_ONCE);
		mark_and_settle(&w);
		put_records(&w, before);
		first_record = w.count;
		journal_instant(w.ring, ID);
		if (settles)
			settle(w.ring);
		put_records(&w, AT_ONCE);
		mark_and_settle(&w);
		keep(&w, ID);
		put_records(&w, AT_ONCE / 2);
		mark_and_settle(&w);
		end_writing(&w);
		check_behind(&w, directory, ID, first_record);
	}
	unit_remove(directory);
}

void records_may_go_from_one_segment_into_the_next(void)
{
	for (unsigned place = 0; place < PLACES; place++)
		for (unsigned settles = 0; settles < 2; settles++) {
			check_place(SEGMENT, place, settles);
			check_place(2 << 20, place, settles);
		}
}

/* The same over checkpoint after checkpoint, as files are used again. */
void checkpoint_follows_checkpoint(void)
{
	char directory[UNIT_FOLDER];
	struct written w;
	unsigned first_record = 0;

	if (!make_folder(directory))
		return;
	if (begin_writing(&w, directory, SEGMENT)) {
		for (uint64_t id = 1; id <= 8; id++) {
			put_records(&w, AT_ONCE + (uint32_t)id * 4096);
			journal_instant(w.ring, id);
			settle(w.ring);
			first_record = w.count;
			keep(&w, id);
		}
		put_records(&w, AT_ONCE);
		mark_and_settle(&w);
		end_writing(&w);
		check_behind(&w, directory, 8, first_record);
	}
	unit_remove(directory);
}

/* Sums that were opened are known of when the record that says so has gone with its segment. */
void sums_stay_known(void)
{
	char directory[UNIT_FOLDER];
	struct star_error why = { 0 };
	struct journal_contents *c;
	struct written w;

	if (!make_folder(directory))
		return;
	if (begin_writing(&w, directory, SEGMENT)) {
		journal_take(w.ring, JOURNAL_SUMS, 0, 0);
		put_records(&w, AT_ONCE);
		journal_instant(w.ring, ID);
		settle(w.ring);
		keep(&w, ID);
		mark_and_settle(&w);
		end_writing(&w);
		c = journal_contents_read(directory, NULL, NULL, &why);
		if (CHECK(c) && CHECK_UINT(c->lives_count, 1)) {
			CHECK(c->lives[0].streams[0].begin.position > 0);
			CHECK(c->lives[0].sums);
		}
		journal_contents_free(c);
	}
	unit_remove(directory);
}
