/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node reports of its pair. */
#include "base/clock.h"
#include "jsonrpc/member.h"
#include "node/journal.h"
#include "node/pair.h"
#include "node/pair_register.h"

bool node_pair_leads(const struct node *node)
{
	const uint64_t lease_ns = __atomic_load_n(&node->pair->rings[0]->lease_ns, __ATOMIC_ACQUIRE);

	return !lease_ns || clock_ns() < lease_ns;
}

uint64_t node_pair_deposed_by(struct node_pair *p)
{
	uint64_t generation;

	pthread_mutex_lock(&p->lock);
	generation = p->deposed_by;
	pthread_mutex_unlock(&p->lock);
	return generation;
}

bool node_pair_is_closed(const struct node *node)
{
	struct node_pair *p = node->pair;
	bool closed;

	if (!p)
		return false;
	pthread_mutex_lock(&p->lock);
	closed = p->deposed_by != 0 || p->role == PAIR_DEPOSED;
	pthread_mutex_unlock(&p->lock);
	return closed;
}

static const char *role_of(const struct node_pair *p)
{
	static const char *const names[] = { [PAIR_WAITING] = "waiting",
					     [PAIR_PRIMARY] = "primary",
					     [PAIR_STANDBY] = "standby",
					     [PAIR_DEPOSED] = "deposed",
					     [PAIR_PROMOTING] = "promoting" };

	return names[p->role];
}

static const char *state_of(const struct node_pair *p)
{
	static const char *const names[] = { [NODE_PAIR_BEGINS] = "begins",
					     [NODE_PAIR_SOLO] = "solo",
					     [NODE_PAIR_SYNCING] = "syncing",
					     [NODE_PAIR_PAIRED] = "paired",
					     [NODE_PAIR_LOST] = "lost" };

	return names[p->state];
}

/* How much the standby has not acknowledged. */
static uint64_t behind(const struct node_pair *p)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < p->node->shards_count; i++) {
		const uint64_t at = journal_reader_at(p->rings[i], JOURNAL_LINK);

		bytes += __atomic_load_n(&p->rings[i]->published, __ATOMIC_ACQUIRE) - at;
	}
	return bytes;
}

static bool node_waits_for_disk(const struct node *node)
{
	return node->config->journal_durability != CONFIG_DURABILITY_ASYNC && node_journal_counts_now(node);
}

/* Under lock. Why it is not healthy; also if replies should wait for a standby, and do not. */
static json_t *why_text(const struct node_pair *p)
{
	const bool leave =
		p->role == PAIR_PRIMARY && !p->waits && p->node->config->standby_durability != CONFIG_DURABILITY_ASYNC;
	char text[sizeof(p->why) + 64];

	snprintf(text, sizeof(text), "%s%s", p->why,
		 !leave				? ""
		 : node_waits_for_disk(p->node) ? "; until a standby is up to date, replies wait for the journal"
		 : p->node->config->standby_durability == CONFIG_DURABILITY_RETAINED
			 ? "; until a standby is up to date, workers keep nothing"
			 : "; until a standby is up to date, replies wait for none");
	return jsonrpc_member_from_text(text);
}

json_t *node_pair_status(const struct node *node)
{
	struct node_pair *p = node->pair;
	json_t *json;

	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	if (p->role == PAIR_PRIMARY && (p->state == NODE_PAIR_SYNCING || p->state == NODE_PAIR_PAIRED))
		p->lag_bytes = behind(p);
	json = json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I}", "role", role_of(p), "state", state_of(p),
			 "generation", jsonrpc_member_from_u64(p->generation), "peer", p->peer_control, "lag_bytes",
			 (json_int_t)p->lag_bytes, "lag_ms", (json_int_t)(p->lag_us / 1000), "bytes",
			 (json_int_t)p->bytes, "rows", (json_int_t)p->rows, "syncs", (json_int_t)p->syncs);
	json_object_set_new(json, "version", json_integer(PAIR_VERSION));
	if (p->role == PAIR_STANDBY && p->heard_us)
		json_object_set_new(json, "silent_ms", json_integer((json_int_t)((clock_us() - p->heard_us) / 1000)));
	if (p->role == PAIR_STANDBY)
		json_object_set_new(json, "promotable", json_boolean(p->promotable));
	if (p->reg)
		json_object_set_new(json, "etcd", node_pair_register_status(p));
	if (p->why[0])
		json_object_set_new(json, "why", why_text(p));
	json_object_set_new(json, "durability", json_string(node_gate_name(p->node->config->standby_durability)));
	json_object_set_new(json, "replies_wait", json_integer(node_gate_held(node)));
	pthread_mutex_unlock(&p->lock);
	return json;
}
