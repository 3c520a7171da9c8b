/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node reports of its journal. */
#include "jsonrpc/member.h"
#include "node/gate.h"
#include "node/journal.h"

void node_journal_add(const struct node_journal *j, struct journal_figures *sum, struct star_error *why)
{
	for (unsigned i = 0; !j->ended && i < j->node->shards_count; i++)
		journal_writer_figures(j->writers[i], sum, why);
	sum->failed |= j->ended;
	if (j->ended)
		*why = j->why;
}

bool node_journal_figures(const struct node *node, unsigned reactor, struct journal_figures *figures)
{
	const struct node_journal *j = node->journal;

	*figures = (struct journal_figures){ 0 };
	if (!j || !__atomic_load_n(&j->begun, __ATOMIC_ACQUIRE))
		return false;
	if (j->ended)
		figures->failed = 1;
	else
		journal_writer_figures(j->writers[reactor], figures, NULL);
	return true;
}

json_t *node_journal_status(const struct node *node)
{
	const struct node_journal *j = node->journal;
	struct journal_figures sum = { 0 };
	struct star_error why = { 0 };
	uint64_t former_bytes;
	bool begun, later;
	json_t *json;

	if (!j)
		return NULL;
	begun = __atomic_load_n(&j->begun, __ATOMIC_ACQUIRE);
	later = node_journal_is_later(j);
	if (!begun && !later)
		return NULL;
	if (begun)
		node_journal_add(j, &sum, &why);
	former_bytes = __atomic_load_n(&j->former_bytes, __ATOMIC_RELAXED);
	json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "directory",
			 node->config->journal_directory, "state",
			 sum.failed ? "failed"
			 : begun    ? "writing"
				    : "beginning",
			 "lag_bytes", (json_int_t)sum.lag_bytes, "bytes", (json_int_t)sum.bytes, "commits",
			 (json_int_t)sum.commits, "commit_max_us", (json_int_t)sum.commit_max_us, "waits",
			 (json_int_t)sum.waits, "disk_bytes",
			 (json_int_t)(former_bytes + sum.segments * j->life.segment_bytes), "replayed_rows",
			 (json_int_t)j->replayed_rows, "replayed_s", j->replayed_s);
	json_object_set_new(json, "durability", json_string(node_gate_name(node->config->journal_durability)));
	json_object_set_new(json, "replies_wait", json_integer(node_gate_held(node)));
	json_object_set_new(json, "replayed_bytes", json_integer((json_int_t)j->replayed_bytes));
	if (!sum.failed && later)
		json_object_set_new(json, "counts_later", json_true());
	if (sum.failed)
		json_object_set_new(json, "error", jsonrpc_member_from_text(why.text));
	else if (former_bytes && __atomic_load_n(&j->wants_checkpoint, __ATOMIC_RELAXED))
		json_object_set_new(json, "former_bytes", json_integer((json_int_t)former_bytes));
	return json;
}
