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

/* records.c */
void records_may_go_from_one_segment_into_the_next(void);
void checkpoint_follows_checkpoint(void);
void sums_stay_known(void);

#endif
