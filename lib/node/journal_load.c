/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads a journal into the reactors, after the checkpoint that it continues. Streams can be applied one after the
 * other, because no two streams of one life have the same key.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/apply.h"
#include "node/checkpoint.h"
#include "node/journal.h"

enum { TELL_US = 5000000 };

struct load {
	struct node *node;
	struct node_apply *apply;
	uint32_t stream;
	uint64_t from; /* rows after this position are applied */
	uint64_t told_us;
};

static int tell(struct load *l, struct star_error *err)
{
	const uint64_t now_us = clock_us();

	if (node_told_to_stop(l->node))
		return star_error_set(err, -ECANCELED, "told to stop while the journal was applied");
	if (now_us - l->told_us >= TELL_US)
		log_info("applying the journal: %" PRIu64 " rows so far", node_apply_rows(l->apply));
	l->told_us = now_us - l->told_us >= TELL_US ? now_us : l->told_us;
	return 0;
}

static int visit(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
		 struct star_error *err)
{
	struct load *l = ctx;
	const int rc = record->kind == JOURNAL_MARK ? tell(l, err) : 0;

	(void)content;
	/* This thread alone uses the reader's buffer. */
	return rc < 0 ? rc
		      : node_apply_record(l->apply, l->stream, (struct journal_record *)record, behind,
					  behind <= l->from, err);
}

static int visit_streams(struct load *l, const struct node_journal *j, const struct journal_past_life *life,
			 struct star_error *err)
{
	const bool is_first = life == &j->contents->lives[j->first];
	int rc = 0;

	for (l->stream = 0; rc == 0 && l->stream < life->reactors; l->stream++) {
		const struct journal_stream *s = &life->streams[l->stream];

		l->from = is_first ? journal_stream_from(life, s, j->chosen) : 0;
		rc = journal_stream_visit(j->contents, s, visit, l, err);
	}
	return rc;
}

/* next: the number of the life after it; *others: it had another number of reactors. */
static int apply_life(struct load *l, const struct node_journal *j, const struct journal_past_life *life, uint32_t next,
		      bool *others, struct star_error *err)
{
	const bool same = node_apply_from(l->apply, life->reactors, life->partitions, life->first_reactor,
					  life->cluster_reactors);
	int rc = 0;

	*others |= !same;
	if (!same) {
		rc = node_apply_cleared_first(l->apply, life->reactors, err);
		if (rc == 0)
			rc = visit_streams(l, j, life, err);
		node_apply_cleared_known(l->apply);
	}
	if (rc == 0)
		rc = visit_streams(l, j, life, err);
	if (rc == 0)
		rc = node_apply_life_end(l->apply, next - life->number, err);
	return rc == 0 ? node_apply_flush(l->apply, err) : rc;
}

int node_journal_apply(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	struct node_journal *j = node->journal;
	const uint64_t begun_us = clock_us();
	struct load l = { .node = node,
			  .apply = node_apply_create(node, layout->first_reactor, layout->cluster_reactors,
						     "the journal", err),
			  .told_us = begun_us };
	struct star_error ignored;
	bool others = false;
	int rc = l.apply ? 0 : err->code, ended;

	if (rc < 0)
		return rc;
	for (uint32_t i = j->first; rc == 0 && i < j->contents->lives_count; i++) {
		const struct journal_past_life *life = &j->contents->lives[i];
		const bool is_last = i + 1 == j->contents->lives_count;

		rc = apply_life(&l, j, life, is_last ? j->contents->last + 1 : life[1].number, &others, err);
	}
	j->replayed_rows = node_apply_rows(l.apply);
	ended = node_apply_destroy(l.apply, rc < 0 ? &ignored : err);
	rc = rc < 0 ? rc : ended;
	if (rc == 0 && others)
		rc = node_trim_tables(node, err);
	if (rc < 0)
		return rc;
	j->replayed_bytes = j->contents->bytes;
	j->replayed_s = j->read_s + (double)(clock_us() - begun_us) / 1e6;
	log_info("the journal was applied after checkpoint %" PRIu64 ": %" PRIu64 " rows, in %.3f s", j->chosen,
		 j->replayed_rows, j->replayed_s);
	return 0;
}
