/* SPDX-License-Identifier: BSD-3-Clause */
/* A journal on disk: what is written is read, and nothing else, whatever a disk does to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal/reader.h"
#include "journal/writer.h"
#include "tests/journal/support.h"
#include "tests/unit.h"

enum { BLOCKS = 12, RECORDS = 3, CONTENT = 64 };

/* One block: some records and a mark. */
static void put_block(struct journal_ring *ring, unsigned number)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		uint8_t *content = journal_take(ring, JOURNAL_RUN, 0, CONTENT);

		memset(content, (int)(number * RECORDS + i + 1), CONTENT);
	}
	journal_mark(ring);
	settle(ring);
}

/* Where a block's mark ends. */
static uint64_t end_of(unsigned blocks)
{
	return blocks * (RECORDS * (sizeof(struct journal_record) + CONTENT) + sizeof(struct journal_record));
}

/* A journal of n blocks in a new folder, some to a segment. */
static void write_some(const char *directory, unsigned blocks)
{
	const struct journal_life life = life_of(directory, 1);
	struct journal_ring *ring = make_ring();
	struct star_error err = { 0 };
	struct journal_writer *writer = journal_writer_create(&life, 0, 0, ring, &err);

	if (!CHECK(writer))
		printf("# %s\n", err.text);
	for (unsigned i = 0; writer && i < blocks; i++)
		put_block(ring, i);
	journal_writer_destroy(writer);
	journal_ring_destroy(ring);
}

struct seen {
	unsigned records;
	bool wrong;
};

static int see(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
	       struct star_error *err)
{
	const uint8_t *bytes = content;
	struct seen *seen = ctx;

	(void)behind;
	(void)err;
	if (record->kind != JOURNAL_RUN)
		return 0;
	seen->records++;
	for (unsigned i = 0; i < CONTENT; i++)
		seen->wrong |= bytes[i] != (uint8_t)seen->records;
	return 0;
}

/* How many blocks are read; -1: the journal is damaged, and *why says where. */
static int count_blocks(const char *directory, struct star_error *why)
{
	struct journal_contents *c = journal_contents_read(directory, NULL, NULL, why);
	struct seen seen = { 0 };
	uint32_t first;
	int blocks = 0, rc;

	if (!CHECK(c))
		return -1;
	rc = journal_contents_from(c, 0, &first, why);
	if (rc > 0) {
		struct journal_stream *s = &c->lives[first].streams[0];

		CHECK_INT(journal_stream_visit(c, s, see, &seen, why), 0);
		CHECK(!seen.wrong && seen.records % RECORDS == 0);
		blocks = (int)(seen.records / RECORDS);
		CHECK_UINT(s->end, end_of((unsigned)blocks));
	}
	journal_contents_free(c);
	return rc < 0 ? -1 : blocks;
}

static void what_was_written_is_read(void)
{
	char directory[UNIT_FOLDER];
	struct star_error err = { 0 };

	if (!unit_folder(directory, "journal"))
		return;
	CHECK_INT(count_blocks(directory, &err), 0);
	write_some(directory, BLOCKS);
	CHECK_INT(count_blocks(directory, &err), BLOCKS);
	unit_remove(directory);
}

/* ---- damage ---- */

static void path_of(char path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1], const char *directory, uint32_t number)
{
	char name[JOURNAL_NAME_MAX];

	journal_segment_name(name, 1, 0, number);
	snprintf(path, UNIT_FOLDER + JOURNAL_NAME_MAX + 1, "%s/%s", directory, name);
}

static uint8_t byte_at(int fd, off_t at)
{
	uint8_t byte = 0;

	CHECK_INT(pread(fd, &byte, 1, at), 1);
	return byte;
}

static void set_byte(int fd, off_t at, uint8_t byte)
{
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
}

enum { A_SEGMENT = SEGMENT / JOURNAL_ALIGN - 1, USED = sizeof(struct journal_block) };

/* Which of the blocks is at an offset of a segment; -1: none, or what is left of its last page. */
static int block_at(uint32_t segment, off_t at)
{
	const int block = (int)((segment - 1) * A_SEGMENT) + (int)(at / JOURNAL_ALIGN) - 1;

	return at < JOURNAL_ALIGN || block >= BLOCKS || (uint64_t)(at % JOURNAL_ALIGN) >= USED + end_of(1) ? -1 : block;
}

static void check_flip(const char *directory, uint32_t segment, int fd, off_t at)
{
	const bool header = at < (off_t)sizeof(struct journal_segment);
	const int block = block_at(segment, at);
	const uint8_t was = byte_at(fd, at);
	struct star_error why = { 0 };
	char place[64];
	int blocks;

	set_byte(fd, at, was ^ 0x10);
	blocks = count_blocks(directory, &why);
	set_byte(fd, at, was);
	if (!header && block < 0) {
		CHECK_INT(blocks, BLOCKS); /* nothing that says anything */
		return;
	}
	if (block == BLOCKS - 1) { /* as if the last write had been cut short */
		CHECK_INT(blocks, BLOCKS - 1);
		return;
	}
	if (!CHECK_INT(blocks, -1))
		printf("# segment %u, byte %lld\n", segment, (long long)at);
	CHECK_INT(why.code, -EBADMSG);
	snprintf(place, sizeof(place), "-%08u.log, byte %lld:", segment,
		 header ? 0LL : (long long)(at / JOURNAL_ALIGN * JOURNAL_ALIGN));
	CHECK_HAS(why.text, place);
}

static void no_flipped_byte_is_accepted(void)
{
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, BLOCKS);
	for (uint32_t segment = 1; segment <= (BLOCKS + A_SEGMENT - 1) / A_SEGMENT; segment++) {
		int fd;

		path_of(path, directory, segment);
		fd = open(path, O_RDWR);
		if (!CHECK(fd >= 0))
			continue;
		for (off_t at = 0; at < SEGMENT; at++)
			if (at < (off_t)sizeof(struct journal_segment) || block_at(segment, at) >= 0 || at % 512 == 100)
				check_flip(directory, segment, fd, at);
		close(fd);
	}
	unit_remove(directory);
}

/* What a crash leaves: the end of the last segment is missing, or was never written. */
static void torn_ends_are_left_out(void)
{
	const uint32_t last = (BLOCKS + A_SEGMENT - 1) / A_SEGMENT;
	const int before = (int)((last - 1) * A_SEGMENT);
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	static uint8_t all[SEGMENT];
	int fd;

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, BLOCKS);
	path_of(path, directory, last);
	fd = open(path, O_RDWR);
	CHECK_INT(pread(fd, all, SEGMENT, 0), SEGMENT);
	for (off_t at = 0; at < (BLOCKS - before + 1) * JOURNAL_ALIGN; at += at % 97 == 0 ? 1 : 31) {
		const off_t page = at / JOURNAL_ALIGN;
		/* Of a page that is cut the block counts if all of it is there; a mark ends in three zeros. */
		const bool whole = at % JOURNAL_ALIGN >= (off_t)(USED + end_of(1) - 3);
		const int blocks = page == 0 ? before : before + (int)page - 1 + whole;
		struct star_error why = { 0 };

		CHECK_INT(ftruncate(fd, at), 0);
		CHECK_INT(ftruncate(fd, SEGMENT), 0);
		if (!CHECK_INT(count_blocks(directory, &why), blocks))
			printf("# cut at %lld: %s\n", (long long)at, why.text);
		CHECK_INT(pwrite(fd, all, SEGMENT, 0), SEGMENT);
	}
	close(fd);
	unit_remove(directory);
}

static void missing_segments_are_told(void)
{
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	struct star_error why = { 0 };

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, 3 * A_SEGMENT);
	path_of(path, directory, 2);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(count_blocks(directory, &why), -1);
	CHECK_HAS(why.text, "a block is missing");
	unit_remove(directory);
}

/* ---- segments and lives ---- */

static unsigned logs(const char *directory)
{
	return unit_entries(directory) - 2; /* . and .. */
}

static void what_a_checkpoint_has_is_used_again(void)
{
	char directory[UNIT_FOLDER];
	struct star_error why = { 0 };
	struct journal_contents *c;
	struct journal_life life;
	struct journal_ring *ring = make_ring();
	struct journal_writer *writer;
	uint32_t first = 0;

	if (!ring || !unit_folder(directory, "journal"))
		return;
	life = life_of(directory, 1);
	writer = journal_writer_create(&life, 0, 0, ring, &why);
	for (unsigned i = 0; i < 5 * A_SEGMENT; i++)
		put_block(ring, i);
	CHECK_UINT(logs(directory), 5);
	journal_instant(ring, 9);
	settle(ring);
	journal_writer_keep_from(writer, 9);
	usleep(20000);
	CHECK(!journal_writer_keeps_from(writer, 9)); /* sessions are not there yet */
	__atomic_store_n(&ring->sessions_of, 9, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 10000 && !journal_writer_keeps_from(writer, 9); i++)
		usleep(1000);
	CHECK(journal_writer_keeps_from(writer, 9));
	CHECK(logs(directory) <= 4);
	for (unsigned i = 0; i < 2 * A_SEGMENT; i++)
		put_block(ring, i);
	CHECK(logs(directory) <= 4);
	journal_writer_destroy(writer);
	journal_ring_destroy(ring);
	c = journal_contents_read(directory, NULL, NULL, &why);
	CHECK_INT(journal_contents_from(c, 0, &first, &why), 0);
	if (CHECK_INT(journal_contents_from(c, 9, &first, &why), 1))
		CHECK_UINT(journal_stream_from(&c->lives[0], &c->lives[0].streams[0], 9),
			   end_of(5 * A_SEGMENT) + sizeof(struct journal_record) + sizeof(struct journal_instant));
	journal_contents_free(c);
	unit_remove(directory);
}

/* A header with something else in it, and its checksum right. */
static void reseal(const char *directory, uint32_t version, uint32_t first_record)
{
	char path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	struct journal_segment header;
	int fd;

	path_of(path, directory, 1);
	fd = open(path, O_RDWR);
	CHECK_INT(pread(fd, &header, sizeof(header), 0), sizeof(header));
	header.version = version;
	header.first_record = first_record;
	header.checksum = journal_segment_checksum(&header);
	CHECK_INT(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
}

static void other_versions_are_told(void)
{
	char directory[UNIT_FOLDER];
	struct star_error why = { 0 };

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, 1);
	reseal(directory, 1, 0);
	CHECK(!journal_contents_read(directory, NULL, NULL, &why));
	CHECK_INT(why.code, -EPROTONOSUPPORT);
	CHECK_HAS(why.text, "is of version 1, this program reads version 4");
	CHECK_HAS(why.text, "starctl checkpoint save");
	CHECK_HAS(why.text, "move what is in the folder away");
	/* A first record that cannot be there: the stream begins here. */
	reseal(directory, JOURNAL_VERSION, 8);
	CHECK_INT(count_blocks(directory, &why), -1);
	CHECK_HAS(why.text, "-00000001.log, byte 0: where its first record begins cannot be");
	unit_remove(directory);
}

/* ---- past lives ---- */

static uint64_t bytes_of(const char *directory, uint32_t number)
{
	char path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	struct stat st;

	path_of(path, directory, number);
	CHECK_INT(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

/* What was made before it was needed is given back; damage stays as it is. */
static void past_lives_are_cut_to_what_they_hold(void)
{
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	struct star_error why = { 0 };
	struct journal_contents *c;
	int fd;

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, A_SEGMENT + 2);
	c = journal_contents_read(directory, NULL, NULL, &why);
	CHECK_UINT(c->bytes, 2 * SEGMENT);
	journal_contents_cut(c);
	CHECK_UINT(c->bytes, SEGMENT + 3 * JOURNAL_ALIGN);
	journal_contents_free(c);
	CHECK_UINT(bytes_of(directory, 1), SEGMENT);
	CHECK_UINT(bytes_of(directory, 2), 3 * JOURNAL_ALIGN);
	CHECK_INT(count_blocks(directory, &why), A_SEGMENT + 2);
	path_of(path, directory, 2);
	CHECK_INT(truncate(path, SEGMENT), 0);
	path_of(path, directory, 1);
	fd = open(path, O_RDWR);
	set_byte(fd, JOURNAL_ALIGN, 0);
	close(fd);
	c = journal_contents_read(directory, NULL, NULL, &why);
	journal_contents_cut(c);
	CHECK_UINT(c->bytes, 2 * SEGMENT);
	journal_contents_free(c);
	CHECK_UINT(bytes_of(directory, 2), SEGMENT);
	CHECK_INT(count_blocks(directory, &why), -1);
	unit_remove(directory);
}

/* When past lives have gone there is more room. */
static void limits_may_be_raised(void)
{
	char directory[UNIT_FOLDER];
	struct journal_figures figures = { 0 };
	struct star_error why = { 0 };
	struct journal_ring *ring = make_ring();
	struct journal_writer *writer;
	struct journal_life life;

	if (!ring || !unit_folder(directory, "journal"))
		return;
	life = life_of(directory, 1);
	life.limit_bytes = SEGMENT - 1;
	CHECK(!journal_writer_create(&life, 0, 0, ring, &why));
	CHECK_INT(why.code, -EFBIG);
	CHECK_UINT(logs(directory), 0);
	life.limit_bytes = SEGMENT;
	writer = journal_writer_create(&life, 0, 0, ring, &why);
	journal_writer_limit(writer, 2 * SEGMENT);
	for (unsigned i = 0; i < 2 * A_SEGMENT; i++)
		put_block(ring, i);
	journal_writer_figures(writer, &figures, &why);
	CHECK_UINT(figures.failed, 0);
	journal_writer_destroy(writer);
	journal_ring_destroy(ring);
	CHECK_INT(count_blocks(directory, &why), 2 * A_SEGMENT);
	unit_remove(directory);
}

static void limits_and_full_rings_end_it(void)
{
	char directory[UNIT_FOLDER];
	struct journal_figures figures = { 0 };
	struct star_error why = { 0 };
	struct journal_ring *ring = make_ring();
	struct journal_writer *writer;
	struct journal_life life;

	if (!ring || !unit_folder(directory, "journal"))
		return;
	life = life_of(directory, 1);
	life.limit_bytes = 2 * SEGMENT;
	writer = journal_writer_create(&life, 0, 0, ring, &why);
	for (unsigned i = 0; i < 2 * A_SEGMENT; i++)
		put_block(ring, i);
	journal_writer_figures(writer, &figures, &why);
	CHECK_UINT(figures.failed, 0);
	journal_take(ring, JOURNAL_RUN, 0, CONTENT);
	journal_mark(ring);
	for (unsigned i = 0; i < 10000 && !figures.failed; i++) {
		usleep(1000);
		journal_writer_figures(writer, &figures, &why);
	}
	CHECK_UINT(figures.failed, 1);
	CHECK_HAS(why.text, "journal.limit_mib");
	/* Nobody reads any more: the reactor does not wait, and what it writes goes nowhere. */
	while (journal_is_easy(ring) && !ring->lost)
		journal_take(ring, JOURNAL_RUN, 0, 64 << 10);
	CHECK(!journal_is_behind(ring, 1));
	CHECK(ring->lost);
	CHECK(!journal_take(ring, JOURNAL_RUN, 0, CONTENT));
	journal_writer_destroy(writer);
	journal_ring_destroy(ring);
	CHECK_INT(count_blocks(directory, &why), 2 * A_SEGMENT);
	unit_remove(directory);
}

enum slip { SLIP_NONE, SLIP_UNNEEDED, SLIP_LAST, SLIP_FIRST, SLIP_CUT, SLIP_FORMER, SLIP_MOVED, SLIPS };

static void make_slip(const char *directory, enum slip slip, char moved[UNIT_FOLDER + 8])
{
	char path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1], name[JOURNAL_NAME_MAX];

	path_of(path, directory, 1); /* of the former life */
	if (slip == SLIP_FORMER)
		CHECK_INT(unlink(path), 0);
	journal_segment_name(name, 2, 0, slip == SLIP_LAST ? 2 : 1);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (slip == SLIP_LAST || slip == SLIP_FIRST)
		CHECK_INT(unlink(path), 0);
	if (slip == SLIP_CUT)
		CHECK_INT(truncate(path, SEGMENT - JOURNAL_ALIGN), 0);
	snprintf(moved, UNIT_FOLDER + 8, "%s%s", directory, slip == SLIP_MOVED ? ".moved" : "");
	CHECK_INT(rename(directory, moved), 0);
}

/* Files that a restart needs are removed, cut or moved by somebody else: the journal says so, instead of going on as if
 * they were there. Those of former lives may go when it was told. */
static void files_that_go_are_missed(void)
{
	for (enum slip slip = SLIP_NONE; slip < SLIPS; slip++) {
		char directory[UNIT_FOLDER], moved[UNIT_FOLDER + 8];
		struct journal_ring *ring = make_ring();
		struct journal_writer *writer;
		struct journal_life life;
		struct journal_figures figures = { 0 };
		struct star_error why = { 0 };

		if (!ring || !unit_folder(directory, "journal"))
			return;
		write_some(directory, 2);
		life = life_of(directory, 2);
		writer = journal_writer_create(&life, 0, 0, ring, &why);
		journal_writer_watch_former(writer, SEGMENT);
		for (unsigned i = 0; i < A_SEGMENT + 1; i++)
			put_block(ring, i);
		if (slip == SLIP_UNNEEDED)
			journal_writer_watch_former(writer, 0);
		make_slip(directory, slip == SLIP_UNNEEDED ? SLIP_FORMER : slip, moved);
		for (unsigned i = 0; i < (slip < SLIP_LAST ? 2500 : 10000) && !figures.failed; i++) {
			usleep(1000);
			journal_writer_figures(writer, &figures, &why);
		}
		CHECK_UINT(figures.failed, slip >= SLIP_LAST);
		if (figures.failed) {
			CHECK_INT(why.code, -ENOENT);
			CHECK_HAS(why.text, "cannot be replayed any more");
		}
		journal_writer_destroy(writer);
		journal_ring_destroy(ring);
		unit_remove(moved);
	}
}

/* A life that goes on from one of which the end is missing. */
static void lives_that_were_cut_are_told(void)
{
	const uint32_t last = (BLOCKS + A_SEGMENT - 1) / A_SEGMENT;
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + JOURNAL_NAME_MAX + 1];
	struct star_error why = { 0 };
	struct journal_contents *c;
	struct journal_ring *ring;
	struct journal_life life;
	uint32_t first = 7;

	if (!unit_folder(directory, "journal"))
		return;
	write_some(directory, BLOCKS);
	ring = make_ring();
	life = life_of(directory, 2);
	life.flags = JOURNAL_GOES_ON;
	life.after = life.story = 1;
	journal_writer_destroy(journal_writer_create(&life, 0, end_of(BLOCKS), ring, &why));
	journal_ring_destroy(ring);
	c = journal_contents_read(directory, NULL, NULL, &why);
	CHECK_INT(journal_contents_from(c, 0, &first, &why), 1);
	CHECK_UINT(first, 0);
	CHECK_UINT(c->lives_count, 2);
	journal_contents_free(c);
	path_of(path, directory, last);
	CHECK_INT(truncate(path, 2 * JOURNAL_ALIGN), 0);
	CHECK_INT(count_blocks(directory, &why), -1);
	CHECK_HAS(why.text, "the end of life 1 is missing");
	/* One that starts again has nothing to do with it. */
	life = life_of(directory, 3);
	ring = make_ring();
	journal_writer_destroy(journal_writer_create(&life, 0, 0, ring, &why));
	journal_ring_destroy(ring);
	CHECK_INT(count_blocks(directory, &why), 0);
	CHECK_INT(journal_remove(directory, 2, &why), 0);
	CHECK_UINT(logs(directory), 1);
	unit_remove(directory);
}

static void names_are_exact(void)
{
	static const char *const wrong[] = { "",
					     "00000001-000-00000001.log2",
					     "1-0-1.log",
					     "00000000-000-00000001.log",
					     "00000001-000-00000000.log",
					     "00000001-000-00000001.log.partial",
					     "4294967295-000-00000001.log",
					     "00000001-064-00000001.log",
					     "../etc/passwd" };
	uint32_t life, reactor, number;

	CHECK(journal_segment_parse("00000012-034-00000056.log", &life, &reactor, &number));
	CHECK(life == 12 && reactor == 34 && number == 56);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(!journal_segment_parse(wrong[i], &life, &reactor, &number));
}

const char *const unit_suite = "journal";
const struct unit_case unit_cases[] = {
	{ "what was written is read", what_was_written_is_read },
	{ "no flipped byte is accepted", no_flipped_byte_is_accepted },
	{ "torn ends are left out", torn_ends_are_left_out },
	{ "missing segments are told", missing_segments_are_told },
	{ "what a checkpoint has is used again", what_a_checkpoint_has_is_used_again },
	{ "records may go from one segment into the next", records_may_go_from_one_segment_into_the_next },
	{ "checkpoint follows checkpoint", checkpoint_follows_checkpoint },
	{ "sums stay known", sums_stay_known },
	{ "other versions are told", other_versions_are_told },
	{ "past lives are cut to what they hold", past_lives_are_cut_to_what_they_hold },
	{ "limits may be raised", limits_may_be_raised },
	{ "limits and full rings end it", limits_and_full_rings_end_it },
	{ "files that go are missed", files_that_go_are_missed },
	{ "rings wait and then give up", rings_wait_and_then_give_up },
	{ "what is durable ends at a mark", what_is_durable_ends_at_a_mark },
	{ "replies do not wait for ever", replies_do_not_wait_for_ever },
	{ "lost rings hold what they have not written", lost_rings_hold_what_they_have_not_written },
	{ "time without a look counts little", time_without_a_look_counts_little },
	{ "lives that were cut are told", lives_that_were_cut_are_told },
	{ "names are exact", names_are_exact },
	{ "the tail is that of the slower reader", the_tail_is_that_of_the_slower_reader },
	{ "a reader may begin in the middle", a_reader_may_begin_in_the_middle },
	{ "a late reader is lost alone", a_late_reader_is_lost_alone },
	{ "who is in the way is lost", who_is_in_the_way_is_lost },
	{ "a slow reader keeps the reactor unless replies wait for it",
	  a_slow_reader_keeps_the_reactor_unless_replies_wait_for_it },
	{ "a reader that has ended keeps nobody", a_reader_that_has_ended_keeps_nobody },
	{ "replies wait for one after the other", replies_wait_for_one_after_the_other },
	{ "a reader that joins covers what it has", a_reader_that_joins_covers_what_it_has },
	{ "replies wait for both", replies_wait_for_both },
	{ "a disk that hangs keeps no reply of a pair", a_disk_that_hangs_keeps_no_reply_of_a_pair },
	{ "a lost journal stays lost", a_lost_journal_stays_lost },
	{ "a journal of a shared ring is whole", a_journal_of_a_shared_ring_is_whole },
	{ "two threads move one tail", two_threads_move_one_tail },
	{ NULL, NULL },
};
