/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/member.h"

static int read_members(const json_t *json, const char *own, const char *peer, struct pair_entry *entry,
			struct star_error *err)
{
	static const char *const members[] = { "primary", "mode", "generation", "write", NULL };
	const char *primary = "", *mode = "";

	if (jsonrpc_member_only(json, members, err) < 0 ||
	    jsonrpc_member_string(json, "primary", PAIR_NAME_MAX, &primary, err) < 0 ||
	    jsonrpc_member_string(json, "mode", 16, &mode, err) < 0 ||
	    jsonrpc_member_u64(json, "generation", &entry->generation, err) < 0)
		return -EBADMSG;
	entry->there = true;
	entry->mine = strcmp(primary, own) == 0;
	entry->paired = strcmp(mode, "paired") == 0;
	entry->taking = strcmp(mode, "taking") == 0;
	if (!entry->paired && !entry->taking && strcmp(mode, "solo") != 0)
		return star_error_set(err, -EBADMSG, "its mode is not solo, paired or taking");
	if (!entry->mine && strcmp(primary, peer) != 0)
		return star_error_set(err, -EPERM,
				      "it names %.100s, which is neither %.100s nor %.100s: give each cluster its own "
				      "standby.etcd_key, and both nodes' standby.listen as standby.peer to the other",
				      primary, own, peer);
	return 0;
}

int pair_entry_read(const char *text, size_t bytes, const char *own, const char *peer, struct pair_entry *entry,
		    struct star_error *err)
{
	struct star_error why = { 0 };
	json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	int rc;

	*entry = (struct pair_entry){ 0 };
	rc = json_is_object(json) ? read_members(json, own, peer, entry, &why)
				  : star_error_set(&why, -EBADMSG, "it is not a JSON object");
	json_decref(json);
	if (rc < 0)
		*entry = (struct pair_entry){ 0 };
	return rc < 0 ? star_error_set(err, rc, "the value of standby.etcd_key is not this pair's: %.400s", why.text)
		      : 0;
}

const char *pair_entry_mode(const struct pair_entry *entry)
{
	return entry->taking ? "taking" : entry->paired ? "paired" : "solo";
}

int pair_entry_print(const struct pair_entry *entry, const char *own, const char *peer, uint64_t write,
		     char text[static PAIR_ENTRY_MAX])
{
	char number[24];
	json_t *json;
	size_t bytes;

	snprintf(number, sizeof(number), "%016" PRIx64, write);
	json = json_pack("{s:s, s:s, s:o, s:s}", "primary", entry->mine ? own : peer, "mode", pair_entry_mode(entry),
			 "generation", jsonrpc_member_from_u64(entry->generation), "write", number);
	bytes = json ? json_dumpb(json, text, PAIR_ENTRY_MAX - 1, JSON_COMPACT) : 0;
	json_decref(json);
	if (bytes == 0 || bytes >= PAIR_ENTRY_MAX)
		return -ENAMETOOLONG;
	text[bytes] = 0;
	return 0;
}

/* The register names the other node as the primary, and this one takes itself for it. */
static int lead_of_other(const struct pair_entry *now, uint64_t generation, struct star_error *err)
{
	if (now->generation > generation)
		return star_error_set(err, -ESTALE, "etcd says that the other node serves, under generation %" PRIu64,
				      now->generation);
	return star_error_set(err, -EPERM,
			      "etcd says that the other node served under generation %" PRIu64
			      ", and this one has %" PRIu64
			      ": was etcd restored to an earlier state? Delete standby.etcd_key there",
			      now->generation, generation);
}

/* A standby wants to take its primary's place. */
static int next_of_standby(const struct pair_entry *now, enum pair_claim claim, uint64_t generation,
			   struct star_error *err)
{
	if (!now->there && claim == PAIR_CLAIM_FOUND)
		return star_error_set(
			err, -ENOENT,
			"etcd does not know the pair any more: only starctl promote makes a node take over");
	if (!now->there || now->mine)
		return 0;
	/* The node that has agreed may have stopped waiting, and may serve again. */
	if (claim == PAIR_CLAIM_AGREED)
		return now->generation > generation ? lead_of_other(now, generation, err) : 0;
	if (!now->paired)
		return star_error_set(err, -EPERM,
				      "etcd says that the primary went on alone: it has changes that this node lacks. "
				      "If it is lost for good, delete standby.etcd_key there, and promote this node");
	if (now->generation != generation)
		return star_error_set(err, -EPERM,
				      "etcd says that the primary has generation %" PRIu64
				      ", and what this node has is of %" PRIu64,
				      now->generation, generation);
	return 0;
}

/* A primary that has closed for the other node serves again, provided that the other has never served: its claim, if
 * there is one, directly follows this node's generation, and is not completed. */
static int next_of_closed(const struct pair_entry *now, uint64_t generation, struct star_error *err)
{
	if (!now->there)
		return star_error_set(
			err, -ENOENT,
			"etcd does not know the pair any more: starctl promote decides which node serves");
	return now->mine || (now->taking && now->generation == generation + 1) ? 0
									       : lead_of_other(now, generation, err);
}

int pair_entry_next(const struct pair_entry *now, enum pair_claim claim, uint64_t generation, struct pair_entry *next,
		    struct star_error *err)
{
	const uint64_t last = now->there && now->generation > generation ? now->generation : generation;
	bool again;
	int rc = 0;

	*next = (struct pair_entry){ .there = true, .mine = true, .generation = generation };
	switch (claim) {
	case PAIR_CLAIM_NOTHING:
		return star_error_set(err, -EPERM, "nothing is to change");
	case PAIR_CLAIM_ALONE:
		if (!now->there)
			return star_error_set(err, -ENOENT,
					      "etcd does not know the pair any more, so changes wait for the standby");
		return now->mine ? 0 : lead_of_other(now, generation, err);
	case PAIR_CLAIM_KEEPS:
	case PAIR_CLAIM_PAIRED:
		next->paired = claim == PAIR_CLAIM_PAIRED;
		return !now->there || now->mine ? 0 : lead_of_other(now, generation, err);
	case PAIR_CLAIM_VOIDS:
		*next = *now;
		return now->there ? 0 : star_error_set(err, -ENOENT, "etcd does not know the pair any more");
	case PAIR_CLAIM_BEGINS:
		next->generation = last + 1;
		if (now->there && !now->mine)
			return star_error_set(err, -ESTALE, "etcd says that the other node is the primary");
		return 0;
	case PAIR_CLAIM_BACK:
		next->generation = last + 2; /* the other node may have recorded that the next one is its own */
		return next_of_closed(now, generation, err);
	case PAIR_CLAIM_AGREED:
	case PAIR_CLAIM_TOLD:
	case PAIR_CLAIM_FOUND:
		/* A repetition: the answer was lost, or the node could not serve afterwards. */
		again = now->there && now->mine && now->taking;
		next->generation = again ? now->generation : last + 1;
		next->taking = true;
		rc = next_of_standby(now, claim, generation, err);
		break;
	case PAIR_CLAIM_SERVES:
		next->generation = last;
		if (!now->there)
			return star_error_set(
				err, -ENOENT,
				"etcd does not know the pair any more: starctl promote decides which node serves");
		return now->mine ? 0 : lead_of_other(now, generation, err);
	}
	return rc;
}
