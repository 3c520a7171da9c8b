/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal of a node that has replaced its primary. The node serves already, and its disk may be slow, or hang. So a
 * thread begins the new life. It holds the plane only for what needs no disk. When the reactors begin to write, the
 * catalogue's file is compared with the current catalogue, and written again if that has changed. The readers of a
 * standby and of the disk cannot begin at the same time: a standby that joins waits for the disk, which is given up
 * after journal.wait_s, as at any other time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/thread.h"
#include "node/journal.h"
#include "node/pair.h"

enum { LOOK_US = 1000 };

/* Values of node_journal.take. Whoever changes it from BEGINNING decides about the life. */
enum {
	TAKE_NONE,
	TAKE_BEGINNING,
	TAKE_BUSY, /* in use by the control plane, which does not end before it changes */
	TAKE_DONE,
	TAKE_GIVEN_UP,
};

struct take {
	struct node_journal *j;
	struct control *control;
	char *text; /* of the catalogue that was written last */
	size_t bytes;
	bool same; /* it is still the current one */
	int rc;
	struct star_error err;
};

static bool turns(struct node_journal *j, unsigned from, unsigned to)
{
	return __atomic_compare_exchange_n(&j->take, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Holds the plane. */
static void prepare(void *ctx)
{
	struct take *t = ctx;

	const uint32_t epoch = t->j->epoch;

	node_journal_prepare_life(t->j, &t->j->node->layout);
	t->j->epoch = RTE_MAX(epoch, t->j->epoch);
	t->text = node_journal_catalogue_text(t->j, &t->bytes);
}

/* Holds the plane, after the catalogue's file was written. */
static void begin_if_same(void *ctx)
{
	struct take *t = ctx;
	struct node_journal *j = t->j;
	size_t bytes;
	char *text;

	j->epoch = RTE_MAX(j->epoch, j->node->layout.epoch);
	j->taken_back = j->node->layout.taken_back;
	text = node_journal_catalogue_text(j, &bytes);
	t->same = text && t->text && bytes == t->bytes && memcmp(text, t->text, bytes) == 0;
	free(t->text);
	t->text = text;
	t->bytes = bytes;
	if (!t->same)
		return;
	t->rc = node_journal_tell_reactors(j, &t->err);
	if (t->rc < 0)
		return;
	node_journal_forget_past(j);
	__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
}

/* False: it was abandoned. */
static bool with_plane(struct take *t, void (*run)(void *ctx))
{
	if (!turns(t->j, TAKE_BEGINNING, TAKE_BUSY))
		return false;
	control_pair_with_plane(t->control, run, t);
	if (t->rc == 0 && !t->text)
		t->rc = star_error_set(&t->err, -ENOMEM, "out of memory");
	__atomic_store_n(&t->j->take, __atomic_load_n(&t->j->begun, __ATOMIC_RELAXED) ? TAKE_DONE : TAKE_BEGINNING,
			 __ATOMIC_RELEASE);
	return true;
}

/* 0; -ECANCELED: it was abandoned; or another error. */
static int begin_life(struct take *t)
{
	struct node_journal *j = t->j;
	int rc = node_journal_read(j->node, &t->err);

	if (rc < 0)
		return rc;
	if (!with_plane(t, prepare))
		return -ECANCELED;
	rc = t->rc ? t->rc : node_journal_replace_catalogue(j, t->text, t->bytes, &t->err);
	if (rc == 0)
		rc = node_journal_make_files(j, &t->err);
	while (rc == 0 && !t->same) {
		if (!with_plane(t, begin_if_same))
			return -ECANCELED;
		rc = t->rc;
		if (rc == 0 && !t->same)
			rc = node_journal_replace_catalogue(j, t->text, t->bytes, &t->err);
	}
	return rc;
}

static void end_take(struct take *t, int rc)
{
	struct node_journal *j = t->j;

	if (rc == 0) {
		log_info("the journal starts a new life in %s, life %u: a restart continues from it once the next "
			 "checkpoint counts, which is started now",
			 j->node->config->journal_directory, j->life.number);
		node_journal_own_life(j);
		return;
	}
	node_journal_discard_life(j);
	if (turns(j, TAKE_BEGINNING, TAKE_DONE)) {
		node_journal_serve_without(j, &t->err);
		node_journal_forget_past(j);
		__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
	} else { /* others have reported the reason */
		node_journal_forget_past(j);
	}
}

static void *run_take(void *ctx)
{
	struct take *t = ctx;

	end_take(t, begin_life(t));
	free(t->text);
	free(t);
	return NULL;
}

void node_journal_inherits(struct node *node, uint32_t epoch)
{
	node->journal->taken_back = node->layout.taken_back;
	node->journal->epoch = epoch;
}

void node_journal_passes_over(struct node *node, uint64_t began, uint64_t passed_over)
{
	node->journal->began = began;
	node->journal->newest = passed_over > began ? passed_over : 0;
}

void node_journal_take_over(struct node *node, struct control *control)
{
	struct node_journal *j = node->journal;
	struct star_error err = { 0 };
	struct take *t;

	if (!j || j->begun || j->takes)
		return;
	t = calloc(1, sizeof(*t));
	j->wants_checkpoint = true;
	__atomic_store_n(&j->later, true, __ATOMIC_RELEASE); /* its status says so until a disk has answered */
	j->take_us = clock_us();
	__atomic_store_n(&j->take, TAKE_BEGINNING, __ATOMIC_RELEASE);
	if (t) {
		t->j = j;
		t->control = control;
	}
	j->takes = t && jsonrpc_thread_start(&j->beginner, "journal-begin", run_take, t, &err) == 0;
	if (j->takes)
		return;
	if (!t)
		star_error_set(&err, -ENOMEM, "out of memory");
	free(t);
	__atomic_store_n(&j->take, TAKE_DONE, __ATOMIC_RELEASE);
	node_journal_serve_without(j, &err);
	__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
}

static void give_up(struct node_journal *j)
{
	struct star_error why;

	star_error_set(&why, -ETIMEDOUT,
		       "the journal cannot start, and a standby waits for it: the disk of %.200s has not answered for "
		       "journal.wait_s (%u s)",
		       j->node->config->journal_directory, j->node->config->journal_wait_s);
	/* Writes in progress may still reach the disk, and do not belong to what the rings have from now on. */
	for (unsigned i = 0; i < j->node->shards_count; i++)
		journal_reader_cut_off(j->rings[i], JOURNAL_DISK);
	j->why = why;
	j->ended = true;
	node_journal_fail(j, &why);
	__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
}

bool node_journal_lets_join(struct node *node)
{
	struct node_journal *j = node->journal;
	unsigned take;

	if (!j)
		return true;
	take = __atomic_load_n(&j->take, __ATOMIC_ACQUIRE);
	if (take != TAKE_BEGINNING)
		return take != TAKE_BUSY;
	if (clock_us() - j->take_us < node->config->journal_wait_s * UINT64_C(1000000) ||
	    !turns(j, TAKE_BEGINNING, TAKE_GIVEN_UP))
		return false;
	give_up(j);
	return true;
}

void node_journal_take_stop(struct node *node)
{
	struct node_journal *j = node->journal;

	while (j && !turns(j, TAKE_BEGINNING, TAKE_GIVEN_UP) &&
	       __atomic_load_n(&j->take, __ATOMIC_ACQUIRE) == TAKE_BUSY)
		usleep(LOOK_US);
}

void node_journal_take_end(struct node_journal *j)
{
	if (j->takes)
		pthread_join(j->beginner, NULL);
	j->takes = false;
}
