/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of a journal share, and the cases of other files than journal.c. */
#ifndef TESTS_JOURNAL_SUPPORT_H
#define TESTS_JOURNAL_SUPPORT_H

#include "journal/reader.h"
#include "journal/writer.h"

enum { SEGMENT = 32 << 10 };

/* Of one reactor, with files of SEGMENT bytes. */
struct journal_life life_of(const char *directory, uint32_t number);
struct journal_ring *make_ring(void);
/* Waits until all that was published is on disk. */
void settle(struct journal_ring *ring);

/* Looks every millisecond from one time to another; until the ring is not behind, or to the end: when that was. */
uint64_t look_until(struct journal_ring *ring, uint64_t from_ns, uint64_t to_ns);

/* records.c */
void records_may_go_from_one_segment_into_the_next(void);
void checkpoint_follows_checkpoint(void);
void sums_stay_known(void);

/* rings.c */
void rings_wait_and_then_give_up(void);
void what_is_durable_ends_at_a_mark(void);
void replies_do_not_wait_for_ever(void);
void lost_rings_hold_what_they_have_not_written(void);
void time_without_a_look_counts_little(void);

/* readers.c */
void the_tail_is_that_of_the_slower_reader(void);
void a_reader_may_begin_in_the_middle(void);
void a_late_reader_is_lost_alone(void);
void who_is_in_the_way_is_lost(void);
void a_slow_reader_keeps_the_reactor_unless_replies_wait_for_it(void);
void a_reader_that_has_ended_keeps_nobody(void);
void replies_wait_for_one_after_the_other(void);
void a_reader_that_joins_covers_what_it_has(void);
void replies_wait_for_both(void);
void a_disk_that_hangs_keeps_no_reply_of_a_pair(void);
void a_lost_journal_stays_lost(void);
void a_journal_of_a_shared_ring_is_whole(void);
void two_threads_move_one_tail(void);

#endif
