/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node with a journal begins with: what the directory contains, and whether that continues the chosen
 * checkpoint. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "node/pair.h"

static bool goes_on(void *ctx)
{
	return !node_told_to_stop(ctx);
}

const struct journal_past_life *node_journal_last_life(const struct node_journal *j)
{
	const struct journal_contents *c = j->contents;

	return c->lives_count ? &c->lives[c->lives_count - 1] : NULL;
}

int node_journal_read(struct node *node, struct star_error *err)
{
	struct node_journal *j = node->journal;

	if (!j || j->contents)
		return 0;
	/* It does not contain what the other node of the pair has served since. */
	if (!node_pair_owned_journal(node)) {
		if (journal_remove(node->config->journal_directory, UINT32_MAX, err) < 0)
			return err->code;
		log_info("the journal is not applied: it is from before this node was a standby");
	}
	j->read_s = (double)clock_us() / 1e6;
	j->contents = journal_contents_read(node->config->journal_directory, goes_on, node, err);
	j->read_s = (double)clock_us() / 1e6 - j->read_s;
	/* A node that begins without the old contents does not need to know why they cannot be read. */
	if (j->contents && node_journal_last_life(j) &&
	    node_journal_read_catalogue(j, node_journal_last_life(j)->story, &j->past.fault) == 0)
		j->past.fault.code = 0;
	return j->contents ? 0 : err->code;
}

int node_journal_history(void *ctx, struct control_history *history, struct star_error *err)
{
	struct node *node = ctx;
	const struct node_journal *j = node->journal;
	const int rc = node_journal_read(node, err);

	*history = (struct control_history){ .kept = j != NULL };
	if (rc < 0 && rc != -ECANCELED)
		node_fail(node, err);
	if (rc < 0 || !j)
		return rc;
	history->recovers = node_journal_last_life(j) != NULL;
	history->applies = j->usable;
	history->asked_for = j->asked_for;
	history->lineage = node_checkpoint_own_lineage(node->checkpoint);
	history->passed_over = j->newest;
	history->taken_back = j->past.taken_back;
	history->epoch = j->past.epoch;
	return 0;
}

uint64_t node_journal_at_latest(const struct node *node, uint64_t id)
{
	const struct journal_past_life *last = node->journal ? node_journal_last_life(node->journal) : NULL;

	uint64_t base;

	if (!last)
		return id;
	base = last->base == JOURNAL_NO_BASE ? node->journal->past.began : last->base;
	return id > base && id <= last->passed_over ? base : id;
}

/* How a checkpoint relates to the journal. */
enum checkpoint_place {
	PLACE_WITHIN,	 /* the journal continues it */
	PLACE_BEHIND,	 /* the cluster wrote it after the journal had ended */
	PLACE_TOO_EARLY, /* the journal does not continue any checkpoint yet */
	PLACE_OTHER,	 /* the journal has an abandoned one with the same number */
	PLACE_ELSEWHERE,
};

/* The journal has an instant with its number, and does not know that it was committed. Either it was committed just
 * before a crash, or while this node was not told: then this node's part of it is the one that it has written. Or that
 * one was abandoned, and another one got its number, for example one of the other node of a pair. */
static enum checkpoint_place place_of_unheard(const struct node_journal *j, uint64_t begun)
{
	const struct journal_checkpoints *parts = &j->parts;
	const struct journal_checkpoint *part = node_journal_find_checkpoint(parts, j->chosen);

	if (part)
		return part->sum == node_checkpoint_own_part(j->node->checkpoint) ? PLACE_WITHIN : PLACE_OTHER;
	/* It may be one of those that are no longer recorded. */
	if (!j->past.knows_parts || (parts->count == JOURNAL_CHECKPOINTS_MAX && j->chosen < parts->of[0].id))
		return PLACE_WITHIN;
	/* This node has never written its part. */
	return j->chosen >= begun ? PLACE_BEHIND : PLACE_ELSEWHERE;
}

/* found: the journal has its instant, or begins with it. */
static enum checkpoint_place journal_place(const struct node_journal *j, uint64_t lineage, bool found)
{
	const struct journal_past_life *last = node_journal_last_life(j);
	const struct journal_checkpoint *counted = node_journal_find_checkpoint(&j->counted, j->chosen);
	const bool later = last->base == JOURNAL_NO_BASE;
	const uint64_t seen = j->counted.count ? j->counted.of[j->counted.count - 1].id : 0;
	const uint64_t begun = later ? 0 : RTE_MAX(last->base, last->passed_over);
	const bool ours = lineage == node_checkpoint_own_lineage(j->node->checkpoint);

	/* The node has replaced its primary, and died before its next checkpoint was committed. */
	if (later && !found && !j->counted.count)
		return PLACE_TOO_EARLY;
	if (j->chosen == 0)
		return found ? PLACE_WITHIN : PLACE_ELSEWHERE;
	if (!ours || (counted && counted->sum != node_checkpoint_own_sum(j->node->checkpoint)))
		return PLACE_ELSEWHERE;
	if (found)
		return counted ? PLACE_WITHIN : j->chosen > seen ? place_of_unheard(j, begun) : PLACE_ELSEWHERE;
	return j->chosen >= RTE_MAX(seen, begun) ? PLACE_BEHIND : PLACE_ELSEWHERE;
}

static int refuse_to_begin(const struct node_journal *j, struct star_error *err)
{
	char with[64] = "an empty cluster";

	if (j->chosen)
		snprintf(with, sizeof(with), "checkpoint %" PRIu64, j->chosen);
	return star_error_set(
		err, -ESTALE,
		"the journal in %.200s does not continue %s, from which the node would start: check that "
		"checkpoint.directory (%.200s) is the one that belongs to the journal, and complete. Nothing was "
		"restored. To start without the journal's changes, move what is in its directory away",
		j->node->config->journal_directory, with, j->node->config->checkpoint_directory);
}

static int refuse_other(const struct node_journal *j, struct star_error *err)
{
	return star_error_set(err, -ESTALE,
			      "the journal in %.200s continues a checkpoint %" PRIu64
			      " of its own that was never completed, and the one of this number in %.200s is another "
			      "one: the other node of the pair may have written it, or this node without its journal. "
			      "Nothing was restored. To start from that checkpoint, move what is in the journal's "
			      "directory away; to start with the journal's changes, move that checkpoint away",
			      j->node->config->journal_directory, j->chosen, j->node->config->checkpoint_directory);
}

/* What the journal has must be applied after the chosen checkpoint, if it continues that: `usable` says so. */
static int look_where(struct node_journal *j, struct star_error *err)
{
	enum checkpoint_place place;
	int rc;

	rc = journal_contents_from(j->contents, j->chosen, &j->first, err);
	if (rc >= 0 && j->past.fault.code)
		rc = star_error_set(err, j->past.fault.code, "%s", j->past.fault.text);
	if (rc < 0)
		return rc;
	place = journal_place(j, j->past.lineage, rc > 0);
	if (place == PLACE_ELSEWHERE)
		return refuse_to_begin(j, err);
	if (place == PLACE_OTHER)
		return refuse_other(j, err);
	if (place == PLACE_BEHIND)
		log_warn("the journal had ended before checkpoint %" PRIu64
			 ", from which the node starts: it is not applied",
			 j->chosen);
	if (place == PLACE_TOO_EARLY)
		log_warn("the journal is not applied: no checkpoint was completed since the node took its primary's "
			 "place");
	j->usable = place == PLACE_WITHIN;
	j->too_early = place == PLACE_TOO_EARLY;
	return 0;
}

/* With several PS tasks the others continue with their rows, some of which may be of tables that were created since the
 * checkpoint. So the catalogue is used if a life has begun, even if its rows are not. */
static bool has_catalogue(const struct node_journal *j)
{
	return j->usable || (j->too_early && j->node->config->ps_count > 1);
}

static int look_for_newest(struct node_journal *j, uint64_t chosen, struct star_error *err)
{
	const int rc = node_checkpoint_next(j->node->checkpoint, false, &j->newest, err);

	j->chosen = chosen;
	j->newest -= rc == 0;
	return rc;
}

int node_journal_choose(struct node *node, uint64_t id, bool asked_for, struct object_spec **specs, uint32_t *count,
			struct star_error *err)
{
	struct node_journal *j = node->journal;
	int rc;

	if (!j)
		return 0;
	rc = look_for_newest(j, id, err);
	if (rc < 0)
		return rc;
	j->asked_for = asked_for;
	if (!node_journal_last_life(j))
		return 0;
	if (asked_for) {
		log_info("the journal is not applied: checkpoint %" PRIu64 " was requested", id);
		return 0;
	}
	rc = look_where(j, err);
	if (rc < 0 || !has_catalogue(j))
		return rc;
	if (!id) /* otherwise the checkpoint's manifest has it */
		node_checkpoint_begins(node->checkpoint, 0, j->past.lineage, NULL);
	free(*specs);
	*specs = j->past.specs;
	*count = j->past.specs_count;
	j->past.specs = NULL;
	return 0;
}

/* PS task 0 has chosen, and tells where the cluster is in its history. */
int node_journal_follow(struct node_journal *j, const struct control_layout *layout, struct star_error *err)
{
	struct node *node = j->node;
	int rc = look_for_newest(j, layout->checkpoint, err);

	if (rc == 0)
		rc = node_checkpoint_look(node, layout->checkpoint, layout->lineage, err);
	if (rc < 0 || !node_journal_last_life(j))
		return rc;
	if (j->past.fault.code)
		return star_error_set(err, j->past.fault.code, "%s", j->past.fault.text);
	if (j->past.lineage != layout->lineage)
		return star_error_set(
			err, -ESTALE,
			"the journal in %.200s belongs to another cluster, or to this one before PS task 0 started "
			"empty. Nothing was restored. To start without its changes, move what is in its directory away",
			node->config->journal_directory);
	if (j->past.taken_back != layout->taken_back) {
		log_info("the journal is not applied: the cluster was rolled back to a checkpoint since");
		return 0;
	}
	return look_where(j, err);
}

/* PS task 0 has chosen already: checks whether other nodes know of a rollback that its own journal does not have. */
int node_journal_check(const struct node_journal *j, const struct control_layout *layout, struct star_error *err)
{
	if (layout->checkpoint != j->chosen)
		return star_error_set(err, -EINVAL,
				      "the node starts from checkpoint %" PRIu64 ", and its journal from %" PRIu64,
				      layout->checkpoint, j->chosen);
	if (j->usable && layout->taken_back != j->past.taken_back)
		return star_error_set(err, -ESTALE,
				      "the journal in %.200s is from before the cluster was rolled back to a "
				      "checkpoint, as other PS tasks report. Nothing was restored. To start without "
				      "its changes, move what is in its directory away",
				      j->node->config->journal_directory);
	return 0;
}
