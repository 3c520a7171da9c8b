/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring that a journal and a standby read, each at its own pace. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/journal/support.h"
#include "tests/unit.h"

#define WAIT_NS UINT64_C(60000000000)

enum { CONTENT = 64, STEP_NS = 1000000, FILLED = 200 };

static struct journal_ring *make_both(void)
{
	struct journal_ring *ring = make_ring();

	if (ring)
		journal_reader_begin(ring, JOURNAL_LINK, 2 * WAIT_NS);
	return ring;
}

static void write_run(struct journal_ring *ring, unsigned number, uint32_t content)
{
	uint8_t *to = journal_take(ring, JOURNAL_RUN, 0, content);

	if (CHECK(to))
		memset(to, (int)number, content);
	journal_mark(ring);
}

void the_tail_is_that_of_the_slower_reader(void)
{
	struct journal_ring *ring = make_both();

	if (!ring)
		return;
	write_run(ring, 1, CONTENT);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	CHECK_UINT(ring->tail, 0);
	journal_free_to(ring, JOURNAL_LINK, 8);
	CHECK_UINT(ring->tail, 8);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	CHECK_UINT(ring->tail, ring->head);
	write_run(ring, 2, CONTENT);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	CHECK(ring->tail < ring->head);
	/* One that is not there holds nothing, whoever it is. */
	journal_reader_end(ring, JOURNAL_DISK);
	CHECK_UINT(ring->tail, ring->head);
	journal_ring_destroy(ring);
}

/* It gets what is written from then on, from the beginning of a record on, and holds no room for what was before. */
void a_reader_may_begin_in_the_middle(void)
{
	struct journal_ring *ring = make_ring();
	uint64_t begun;

	if (!ring)
		return;
	CHECK(journal_take(ring, JOURNAL_RUN, 0, CONTENT));
	ring->record = (struct journal_record *)journal_at(ring, 0);
	begun = ring->head;
	journal_reader_begin(ring, JOURNAL_LINK, WAIT_NS);
	CHECK(!ring->record); /* it does not begin in the middle of a record */
	CHECK_UINT(journal_reader_at(ring, JOURNAL_LINK), begun);
	CHECK_UINT(ring->published, begun);
	write_run(ring, 2, CONTENT);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	CHECK_UINT(ring->tail, 0);
	journal_free_to(ring, JOURNAL_DISK, begun);
	CHECK_UINT(ring->tail, begun);
	journal_reader_end(ring, JOURNAL_LINK);
	write_run(ring, 3, CONTENT);
	journal_reader_begin(ring, JOURNAL_LINK, WAIT_NS);
	CHECK_UINT(journal_reader_at(ring, JOURNAL_LINK), ring->head);
	CHECK_UINT(ring->tail, begun);
	journal_ring_destroy(ring);
}

static void fill(struct journal_ring *ring)
{
	while (journal_is_easy(ring))
		CHECK(journal_take(ring, JOURNAL_RUN, 0, 64 << 10));
	journal_publish(ring);
}

/* A late reader holds up the reactor for its own time, and is then lost, alone; the other one misses nothing. */
void a_late_reader_is_lost_alone(void)
{
	for (unsigned late = 0; late < JOURNAL_READERS; late++) {
		const enum journal_reader other = late == JOURNAL_DISK ? JOURNAL_LINK : JOURNAL_DISK;
		struct journal_ring *ring = make_both();
		uint64_t wait_ns, at;

		if (!ring)
			return;
		wait_ns = ring->ends[late].wait_ns;
		fill(ring);
		journal_free_to(ring, other, ring->published);
		at = look_until(ring, STEP_NS, 4 * WAIT_NS);
		CHECK_UINT(at, STEP_NS + wait_ns + STEP_NS);
		CHECK(ring->ends[late].lost && !ring->ends[other].lost && !ring->lost);
		CHECK(journal_is_cut_off(ring, late) && !journal_is_cut_off(ring, other));
		CHECK_UINT(ring->tail, ring->head);
		for (unsigned i = 0; i < FILLED; i++) { /* more than the ring holds */
			write_run(ring, i, 64 << 10);
			CHECK(!journal_is_behind(ring, at += STEP_NS));
			journal_free_to(ring, other, ring->published);
		}
		/* When that one is lost, too, nobody is left. */
		do
			fill(ring);
		while (!journal_is_behind(ring, at += STEP_NS));
		look_until(ring, at, at + 4 * WAIT_NS);
		CHECK(ring->lost && ring->passes);
		CHECK(!journal_take(ring, JOURNAL_RUN, 0, CONTENT));
		journal_ring_destroy(ring);
	}
}

/* A write that had begun and must not wait finds room: the reader that is in its way is lost, and no other. */
void who_is_in_the_way_is_lost(void)
{
	struct journal_ring *ring = make_both();

	if (!ring)
		return;
	fill(ring);
	journal_free_to(ring, JOURNAL_DISK, ring->published);
	for (unsigned i = 0; i < FILLED; i++) {
		CHECK(journal_take(ring, JOURNAL_RUN, 0, 64 << 10));
		journal_publish(ring);
		journal_free_to(ring, JOURNAL_DISK, ring->published);
	}
	CHECK(ring->ends[JOURNAL_LINK].lost && !ring->ends[JOURNAL_DISK].lost && !ring->lost);
	journal_ring_destroy(ring);
}

/* Behind: not in time with what was written, though there is room. */
void a_slow_reader_keeps_the_reactor_unless_replies_wait_for_it(void)
{
	for (unsigned slow = 0; slow < JOURNAL_READERS; slow++)
		for (unsigned gated = 0; gated < JOURNAL_READERS; gated++) {
			struct journal_ring *ring = make_both();
			uint64_t now = STEP_NS;

			if (!ring)
				return;
			journal_gate_begin(ring, 1u << gated);
			write_run(ring, 1, CONTENT);
			journal_free_to(ring, slow == JOURNAL_DISK ? JOURNAL_LINK : JOURNAL_DISK, ring->head);
			for (; now < 2 * (uint64_t)JOURNAL_LAG_NS; now += STEP_NS)
				journal_look(ring, now);
			CHECK_INT(journal_is_behind(ring, now), slow != gated);
			CHECK_INT(ring->gate.late, slow == gated);
			CHECK(!ring->ends[slow].lost);
			/* It has come on. */
			journal_free_to(ring, slow, ring->head);
			journal_look(ring, now + STEP_NS);
			CHECK(!journal_is_behind(ring, now + STEP_NS) && !ring->gate.late);
			journal_ring_destroy(ring);
		}
}

/* A journal that has failed, as with a full disk, is not a reason to wait, nor to give up a standby. */
void a_reader_that_has_ended_keeps_nobody(void)
{
	struct journal_ring *ring = make_both();
	uint64_t now = STEP_NS;

	if (!ring)
		return;
	journal_gate_begin(ring, 1u << JOURNAL_LINK);
	ring->ends[JOURNAL_DISK].off = true;
	CHECK(!journal_reads(ring, JOURNAL_DISK) && journal_reads(ring, JOURNAL_LINK));
	for (unsigned i = 0; i < FILLED; i++, now += JOURNAL_LOOK_NS) {
		const uint64_t before = ring->head;

		write_run(ring, i, 64 << 10);
		CHECK(!journal_is_behind(ring, now));
		journal_look(ring, now);
		journal_gate_wait(ring, now);
		CHECK(journal_durable(ring) <= before);
		journal_free_to(ring, JOURNAL_LINK, ring->head);
		CHECK_UINT(journal_durable(ring), ring->marked);
	}
	CHECK_UINT(ring->waits, 0);
	CHECK(ring->ends[JOURNAL_DISK].lost && !ring->ends[JOURNAL_LINK].lost);
	journal_ring_destroy(ring);
}

/* A standby joins a primary that has waited for its disk alone: what was durable stays so, but is not with both yet. */
void a_reader_that_joins_covers_what_it_has(void)
{
	struct journal_ring *ring = make_ring();
	const unsigned readers[] = { JOURNAL_DISK, JOURNAL_LINK };

	if (!ring)
		return;
	CHECK_UINT(journal_covered(ring), UINT64_MAX); /* nobody is waited for */
	journal_reader_begin(ring, JOURNAL_LINK, WAIT_NS);
	for (unsigned i = 0; i < 2; i++) {
		const unsigned first = readers[i], second = readers[1 - i];

		journal_gate_begin(ring, 1u << first);
		write_run(ring, 1 + i, CONTENT);
		journal_free_to(ring, first, ring->head);
		CHECK_UINT(journal_durable(ring), ring->head);
		CHECK_UINT(journal_covered(ring), ring->head);
		journal_gate_begin(ring, 1u << first | 1u << second);
		CHECK_UINT(journal_durable(ring), ring->head);
		CHECK(journal_covered(ring) < ring->head);
		journal_free_to(ring, second, ring->head);
		CHECK_UINT(journal_covered(ring), ring->head);
	}
	journal_ring_destroy(ring);
}

/* From the disk's to the standby's word, and back: what nobody has is never durable, nor what was lost with one. */
void replies_wait_for_one_after_the_other(void)
{
	struct journal_ring *ring = make_ring();
	uint64_t first, second;

	if (!ring)
		return;
	journal_gate_begin(ring, 1u << JOURNAL_DISK);
	write_run(ring, 1, CONTENT);
	first = ring->head;
	journal_reader_begin(ring, JOURNAL_LINK, WAIT_NS);
	journal_free_to(ring, JOURNAL_DISK, first);
	CHECK_UINT(journal_durable(ring), first);
	write_run(ring, 2, CONTENT);
	second = journal_durable_at(ring);
	CHECK_UINT(second, ring->head);
	/* The standby has all from here on. What was durable stays so. */
	journal_gate_begin(ring, 1u << JOURNAL_LINK);
	CHECK_UINT(journal_durable(ring), first);
	journal_free_to(ring, JOURNAL_DISK, second);
	CHECK_UINT(journal_durable(ring), first); /* it is asked no more */
	journal_free_to(ring, JOURNAL_LINK, second);
	CHECK_UINT(journal_durable(ring), second);
	/* It is lost while it has a lease; what it does not have waits, on disk or not, until somebody has decided. */
	ring->lease_ns = UINT64_MAX;
	write_run(ring, 3, CONTENT);
	journal_free_to(ring, JOURNAL_DISK, ring->head);
	while (!ring->ends[JOURNAL_LINK].lost) {
		write_run(ring, 4, 64 << 10);
		journal_free_to(ring, JOURNAL_DISK, ring->head);
	}
	CHECK(!ring->lost);
	CHECK_UINT(journal_durable(ring), second);
	CHECK(journal_is_behind(ring, STEP_NS)); /* nothing more is changed */
	ring->lease_ns = 0;
	CHECK_UINT(journal_durable(ring), second);
	journal_reader_end(ring, JOURNAL_LINK);
	journal_gate_begin(ring, 1u << JOURNAL_DISK);
	CHECK_UINT(journal_durable(ring), ring->marked);
	write_run(ring, 5, CONTENT);
	CHECK(journal_durable(ring) < ring->head);
	CHECK_UINT(journal_durable_at(ring), ring->head);
	journal_ring_destroy(ring);
}

/* What one of two does not have is not durable; one that has ended is no longer asked. */
void replies_wait_for_both(void)
{
	for (unsigned behind = 0; behind < JOURNAL_READERS; behind++) {
		struct journal_ring *ring = make_both();

		if (!ring)
			return;
		journal_gate_begin(ring, 1u << JOURNAL_DISK | 1u << JOURNAL_LINK);
		write_run(ring, 1, CONTENT);
		journal_free_to(ring, !behind, ring->head);
		CHECK_UINT(journal_durable(ring), 0);
		journal_free_to(ring, behind, ring->head);
		CHECK_UINT(journal_durable(ring), ring->head);
		/* A late one is given up after its time, and the other one's word is enough. */
		write_run(ring, 2, CONTENT);
		journal_free_to(ring, !behind, ring->head);
		for (uint64_t now = STEP_NS; now < 3 * WAIT_NS && !ring->ends[behind].lost; now += STEP_NS) {
			CHECK(!journal_is_behind(ring, now));
			journal_look(ring, now);
			journal_gate_wait(ring, now);
			CHECK(ring->ends[behind].lost || journal_durable(ring) < ring->head);
		}
		CHECK(ring->ends[behind].lost && !ring->ends[!behind].lost);
		if (behind == JOURNAL_DISK)
			CHECK_UINT(journal_durable(ring), ring->head);
		journal_ring_destroy(ring);
	}
	for (unsigned ended = 0; ended < JOURNAL_READERS; ended++) {
		struct journal_ring *ring = make_both();

		if (!ring)
			return;
		journal_gate_begin(ring, 1u << JOURNAL_DISK | 1u << JOURNAL_LINK);
		ring->ends[ended].off = true;
		write_run(ring, 1, CONTENT);
		CHECK_UINT(journal_durable_at(ring), ring->head);
		CHECK_UINT(journal_durable(ring), 0);
		journal_free_to(ring, !ended, ring->head);
		CHECK_UINT(journal_durable(ring), ring->head);
		journal_ring_destroy(ring);
	}
}

/* A disk that does not answer at all, whose thread sees nothing: while the standby has promised not to take over, too,
 * that one's word is enough. */
void a_disk_that_hangs_keeps_no_reply_of_a_pair(void)
{
	struct journal_ring *ring = make_both();
	uint64_t now = STEP_NS;

	if (!ring)
		return;
	ring->lease_ns = UINT64_MAX;
	journal_gate_begin(ring, 1u << JOURNAL_DISK | 1u << JOURNAL_LINK);
	write_run(ring, 1, CONTENT);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	for (; now < 3 * WAIT_NS && !ring->ends[JOURNAL_DISK].lost; now += STEP_NS) {
		journal_look(ring, now);
		CHECK_UINT(journal_durable(ring), 0);
		journal_gate_wait(ring, now);
	}
	CHECK(ring->ends[JOURNAL_DISK].lost && !ring->ends[JOURNAL_LINK].lost && !ring->fenced);
	CHECK_UINT(journal_durable(ring), ring->head);
	write_run(ring, 2, CONTENT);
	CHECK(!journal_is_behind(ring, now));
	CHECK(journal_durable(ring) < ring->head);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	CHECK_UINT(journal_durable(ring), ring->head);
	/* When the standby is lost as well, what it does not have waits until somebody has decided. */
	write_run(ring, 3, CONTENT);
	while (!ring->lost)
		journal_take(ring, JOURNAL_RUN, 0, 64 << 10);
	CHECK(journal_durable(ring) < ring->marked);
	CHECK(journal_is_behind(ring, now));
	journal_ring_destroy(ring);
}

/* A ring that begins again for a standby does not bring back a journal whose thread has yet to see that it is lost. */
void a_lost_journal_stays_lost(void)
{
	struct journal_ring *ring = make_ring();

	if (!ring)
		return;
	while (!ring->lost)
		journal_take(ring, JOURNAL_RUN, 0, 64 << 10);
	journal_ring_restart(ring);
	journal_reader_begin(ring, JOURNAL_LINK, WAIT_NS);
	CHECK(journal_is_cut_off(ring, JOURNAL_DISK) && !journal_reads(ring, JOURNAL_DISK));
	CHECK(!journal_is_cut_off(ring, JOURNAL_LINK) && journal_reads(ring, JOURNAL_LINK));
	write_run(ring, 1, CONTENT);
	journal_free_to(ring, JOURNAL_DISK, 0);
	CHECK(ring->tail < ring->head);
	journal_free_to(ring, JOURNAL_LINK, ring->head);
	CHECK_UINT(ring->tail, ring->head);
	journal_ring_destroy(ring);
}

/* A journal on disk of a ring that a standby reads as well, at any pace: what is on disk is what was written. */
void a_journal_of_a_shared_ring_is_whole(void)
{
	enum { RECORDS = 400 };
	char directory[UNIT_FOLDER];
	struct journal_life life;
	struct journal_ring *ring = make_both();
	struct journal_writer *writer;
	struct star_error why = { 0 };
	struct journal_figures figures = { 0 };

	if (!ring || !unit_folder(directory, "journal"))
		return;
	life = life_of(directory, 1);
	life.segment_bytes = 4 << 20;
	writer = journal_writer_create(&life, 0, 0, ring, &why);
	for (unsigned i = 0; CHECK(writer) && i < RECORDS; i++) {
		write_run(ring, i, 64 << 10);
		if (i % 60 == 59) {
			while (journal_reader_at(ring, JOURNAL_DISK) != ring->head)
				usleep(100);
			journal_free_to(ring, JOURNAL_LINK, ring->head);
		}
	}
	journal_writer_figures(writer, &figures, &why);
	CHECK_UINT(figures.failed, 0);
	journal_writer_destroy(writer);
	CHECK(!ring->lost && !ring->ends[JOURNAL_LINK].lost);
	CHECK_UINT(journal_reader_at(ring, JOURNAL_DISK), ring->head);
	journal_ring_destroy(ring);
	unit_remove(directory);
}

/* ---- two threads ---- */

struct race {
	struct journal_ring *ring;
	enum journal_reader reader;
	uint64_t total;
};

static void *read_on(void *arg)
{
	const struct race *race = arg;
	uint64_t at = 0;

	while (at < race->total) {
		const uint64_t published = __atomic_load_n(&race->ring->published, __ATOMIC_ACQUIRE);

		if (at < published)
			journal_free_to(race->ring, race->reader, at += 8);
	}
	return NULL;
}

/* Two threads that move the tail at once leave it where the slower one is, never behind that. */
void two_threads_move_one_tail(void)
{
	enum { RUNS = 50, RECORDS = 200 };
	const uint64_t total = RECORDS * (2 * sizeof(struct journal_record) + CONTENT);

	for (unsigned run = 0; run < RUNS; run++) {
		struct journal_ring *ring = make_both();
		struct race disk = { ring, JOURNAL_DISK, total }, link = { ring, JOURNAL_LINK, total };
		pthread_t threads[2];

		if (!ring)
			return;
		CHECK_INT(pthread_create(&threads[0], NULL, read_on, &disk), 0);
		CHECK_INT(pthread_create(&threads[1], NULL, read_on, &link), 0);
		for (unsigned i = 0; i < RECORDS; i++)
			write_run(ring, i, CONTENT);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		CHECK_UINT(ring->head, total);
		CHECK_UINT(ring->tail, total);
		journal_ring_destroy(ring);
	}
}
