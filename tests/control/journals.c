/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that keep journals: which of them come back as what they were, and what the others are told meanwhile. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/node.h"
#include "tests/unit.h"

enum { NAP_US = 10000, WAIT_US = 10000000, LINEAGE = 77 };

static void keep_journals(struct cluster *cluster, unsigned count)
{
	cluster_init(cluster, count);
	for (unsigned i = 0; i < count; i++) {
		strcpy(cluster->nodes[i].config.checkpoint_directory, "/nowhere");
		strcpy(cluster->nodes[i].config.journal_directory, "/nowhere");
		cluster->nodes[i].config.checkpoint_restore = CONFIG_RESTORE_LATEST;
		cluster->nodes[i].history = (struct control_history){ .kept = true, .lineage = LINEAGE };
	}
}

/* The task has been killed, and begins again with what its journal has: it loads until it is let go. */
static void come_back(struct cluster *cluster, unsigned task, uint32_t incarnation, uint32_t inherits)
{
	struct node *node = &cluster->nodes[task];

	node_stop(cluster, task);
	node->history.recovers = node->history.applies = true;
	node->inherits = inherits;
	node->loads_for_long = true;
	CHECK(node_start(cluster, task, incarnation));
}

/* Why there is no layout, for WAIT_US at most until that has this part. */
static bool waits_for(const struct cluster *cluster, const char *part)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };

	do {
		json_t *layout = call(cluster->nodes[0].address, "layout", NULL, &err);

		if (!layout && strstr(err.text, part))
			return CHECK_INT(err.code, -EAGAIN);
		json_decref(layout);
		usleep(NAP_US);
	} while (clock_us() < until_us);
	printf("# %s\n", err.text);
	return false;
}

/* Why the node has not joined PS task 0, for WAIT_US at most until that has this part. */
static bool is_kept_out(const struct node *node, const char *part)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };
	bool is = false;

	do {
		json_t *status = call(node->address, "status", NULL, &err);
		const char *error = json_string_value(json_object_get(json_object_get(status, "leader"), "error"));

		is = error && strstr(error, part);
		json_decref(status);
		usleep(NAP_US);
	} while (!is && clock_us() < until_us);
	return is;
}

/* It says so, and not that PS task 0 is away, which it has not asked meanwhile. */
static void loads(const struct node *node, const char *what)
{
	struct star_error err = { 0 };
	json_t *health, *problems;

	pthread_mutex_lock(&node->control->lock);
	CHECK(node->control->leader_seen_us);
	node->control->leader_seen_us = clock_us() - 2 * (uint64_t)CONTROL_AWAY_US;
	pthread_mutex_unlock(&node->control->lock);
	health = call(node->address, "health", NULL, &err);
	problems = json_object_get(health, "problems");
	CHECK_STR(json_string_value(json_object_get(health, "state")), what);
	CHECK_UINT(json_array_size(problems), 1);
	CHECK_STR(json_string_value(json_array_get(problems, 0)), what);
	json_decref(health);
}

static uint32_t known_as(const struct cluster *cluster, uint32_t epoch, unsigned task, uint32_t *now)
{
	struct layout *layout = wait_layout(cluster, epoch);
	const uint32_t incarnation = layout ? layout->nodes[task].incarnation : 0;

	*now = layout ? layout->epoch : 0;
	free(layout);
	return incarnation;
}

void a_node_goes_on_as_what_it_was(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	uint32_t epoch, now;

	keep_journals(&cluster, 3);
	cluster_start(&cluster);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	CHECK_UINT(known_as(&cluster, 1, 1, &epoch), 101);
	come_back(&cluster, 1, 201, 101);
	CHECK(waits_for(&cluster, "waiting for PS task 1 to recover from its journal"));
	loads(&cluster.nodes[1], "loading what its journal has");
	/* Nor is anything made that it would have to hold. */
	CHECK(create_table(&cluster.nodes[0], "others", 8, &err) < 0);
	CHECK_INT(err.code, -EAGAIN);
	end_hold_layout(&cluster.nodes[1]);
	CHECK_UINT(known_as(&cluster, epoch, 1, &now), 101);
	CHECK_UINT(now, epoch); /* workers have nothing to learn */
	CHECK_UINT(PLANE(&cluster.nodes[1], epoch), epoch);
	CHECK_UINT(PLANE(&cluster.nodes[1], lineage), LINEAGE);
	CHECK(has_installed(&cluster.nodes[1], 1, "words"));
	CHECK_INT(create_table(&cluster.nodes[0], "others", 8, &err), 2);
	CHECK(wait_installed(&cluster.nodes[1], 2));
	cluster_fini(&cluster);
}

void a_node_that_does_not_go_on_is_another(void)
{
	struct cluster cluster;
	uint32_t epoch, now;

	keep_journals(&cluster, 3);
	cluster_start(&cluster);
	CHECK_UINT(known_as(&cluster, 1, 2, &epoch), 102);
	come_back(&cluster, 2, 202, 0); /* sums were open, say */
	CHECK(waits_for(&cluster, "waiting for PS task 2 to recover from its journal"));
	end_hold_layout(&cluster.nodes[2]);
	CHECK_UINT(known_as(&cluster, epoch + 1, 2, &now), 202);
	CHECK(wait_epoch(&cluster.nodes[2], now));
	cluster_fini(&cluster);
}

/* Epochs go on from what PS task 0 has in its journal, as workers take none that they have had. */
void all_begin_with_their_journals(void)
{
	struct cluster cluster;
	uint32_t now;

	keep_journals(&cluster, 3);
	cluster.nodes[0].history.epoch = 7;
	for (unsigned i = 0; i < 3; i++)
		come_back(&cluster, i, 300 + i, 11 + i);
	CHECK(waits_for(&cluster, "waiting for this node's reactors"));
	end_hold_layout(&cluster.nodes[0]);
	CHECK(waits_for(&cluster, "to recover from its journal"));
	end_hold_layout(&cluster.nodes[2]);
	CHECK(waits_for(&cluster, "waiting for PS task 1 to recover from its journal"));
	end_hold_layout(&cluster.nodes[1]);
	for (unsigned i = 0; i < 3; i++)
		CHECK_UINT(known_as(&cluster, 8, i, &now), 11 + i);
	CHECK_UINT(now, 8);
	cluster_fini(&cluster);
}

/* It is to workers what it was, and has rows that were not deleted yet. */
void a_table_is_not_emptied_by_a_node_that_came_back(void)
{
	struct star_error err = { 0 };
	struct cluster cluster;
	json_t *begun;
	uint32_t epoch;

	keep_journals(&cluster, 2);
	cluster_start(&cluster);
	CHECK_UINT(known_as(&cluster, 1, 1, &epoch), 101);
	CHECK_INT(create_table(&cluster.nodes[0], "words", 8, &err), 1);
	begun = call(cluster.nodes[0].config.control_socket, "empty", json_pack("{s:s}", "name", "words"), &err);
	if (!CHECK(begun))
		printf("# %s\n", err.text);
	come_back(&cluster, 1, 201, 101);
	CHECK(waits_for(&cluster, "to recover from its journal"));
	end_hold_layout(&cluster.nodes[1]);
	CHECK_UINT(known_as(&cluster, epoch, 1, &epoch), 101);
	CHECK(!call(cluster.nodes[0].config.control_socket, "empty",
		    json_pack("{s:s, s:O}", "name", "words", "ticket", json_object_get(begun, "ticket")), &err));
	CHECK_INT(err.code, -ESTALE);
	json_decref(begun);
	cluster_fini(&cluster);
}

/* One that PS task 0 does not have in its journal, and one more, if somebody wants a checkpoint by its number. */
void the_history_is_what_any_node_knows(void)
{
	for (unsigned asked_for = 0; asked_for < 2; asked_for++) {
		struct cluster cluster;

		keep_journals(&cluster, 3);
		cluster.nodes[0].history.asked_for = asked_for != 0;
		cluster.nodes[0].history.taken_back = 1;
		cluster.nodes[1].history.taken_back = 4;
		cluster.nodes[1].history.recovers = true;
		cluster.nodes[2].history.taken_back = 2;
		cluster.nodes[2].history.recovers = true;
		cluster_start(&cluster);
		for (unsigned i = 0; i < 3; i++)
			CHECK_UINT(PLANE(&cluster.nodes[i], taken_back), 4 + asked_for);
		cluster_fini(&cluster);
	}
}

/* PS task 0 begins with a checkpoint that was asked for, while task 1 serves what came after it. */
void a_task_that_served_before_is_taken_back_with_the_others(void)
{
	struct cluster cluster;
	uint32_t now;

	keep_journals(&cluster, 2);
	cluster_start(&cluster);
	node_stop(&cluster, 0);
	cluster.nodes[0].history.asked_for = true;
	CHECK(node_start(&cluster, 0, 200));
	CHECK(waits_for(&cluster, "waiting for PS task 1 to be rolled back"));
	come_back(&cluster, 1, 201, 0);
	end_hold_layout(&cluster.nodes[1]);
	CHECK_UINT(known_as(&cluster, 2, 1, &now), 201);
	CHECK_UINT(PLANE(&cluster.nodes[1], taken_back), 1);
	cluster_fini(&cluster);
}

/* The same where task 1 is a pair: its standby would go on with what is to be forgotten. */
void a_pair_that_serves_is_not_taken_back(void)
{
	struct config_address others[2] = { { "", 0 }, { "127.0.0.1", 2 } };
	struct star_error err = { 0 };
	struct cluster cluster;
	uint32_t now;

	keep_journals(&cluster, 2);
	for (unsigned i = 0; i < 2; i++)
		cluster.nodes[i].config.ps_others = others;
	cluster_start(&cluster);
	CHECK_INT(control_pair_lead(cluster.nodes[1].control, 1, 0, false, &err), 0);
	CHECK_UINT(known_as(&cluster, 2, 1, &now), 101);
	node_stop(&cluster, 0);
	cluster.nodes[0].history.asked_for = true;
	CHECK(node_start(&cluster, 0, 200));
	CHECK(waits_for(&cluster, "PS task 1 serves, and has a standby: the cluster cannot roll back"));
	CHECK_UINT(PLANE(&cluster.nodes[0], epoch), 0);
	CHECK_UINT(PLANE(&cluster.nodes[1], taken_back), 0);
	come_back(&cluster, 1, 201, 0);
	end_hold_layout(&cluster.nodes[1]);
	CHECK_UINT(known_as(&cluster, 3, 1, &now), 201);
	CHECK_UINT(PLANE(&cluster.nodes[1], taken_back), 1);
	cluster_fini(&cluster);
}

/* A standby that takes its primary's place: workers know it by the same incarnation, and it has the cluster's epoch. */
static void promote(struct cluster *from, struct cluster *to, unsigned task, uint32_t epoch)
{
	json_t *catalogue = control_pair_catalogue(from->nodes[task].control, CONTROL_PAIR_ALL), *bad;
	struct control_layout place = { 0 };
	struct star_error err = { 0 };
	uint32_t known = 0;

	to->nodes[task].history = (struct control_history){ .kept = false }; /* nobody asks for it */
	CHECK(node_start(to, task, 300 + task));
	control_pair_waits(to->nodes[task].control, "a standby");
	CHECK_INT(control_pair_take(to->nodes[task].control, catalogue, &known, &err), 0);
	control_pair_place(to->nodes[task].control, &place);
	CHECK_UINT(to->nodes[task].plane.own_lineage.id, LINEAGE);
	CHECK_UINT(place.taken_back, 4);
	bad = json_deep_copy(catalogue);
	json_object_del(bad, "checkpoints");
	CHECK_INT(control_pair_take(to->nodes[task].control, bad, &known, &err), -EPROTO);
	CHECK_HAS(err.text, "which checkpoints are its own");
	json_object_del(json_object_get(bad, "cluster"), "taken_back");
	CHECK_INT(control_pair_take(to->nodes[task].control, bad, &known, &err), -EPROTO);
	CHECK_HAS(err.text, "only one of the two nodes keeps a journal");
	json_decref(bad);
	json_decref(catalogue);
	to->nodes[task].plane.incarnation = 100 + task;
	node_stop(from, task);
	CHECK_INT(control_pair_lead(to->nodes[task].control, 2, epoch, false, &err), 0);
}

/* Two clusters of the same addresses, of which the second one has the other nodes of the pairs. */
static void keep_journals_of_pairs(struct cluster *cluster, struct cluster *other, struct config_address others[2])
{
	keep_journals(cluster, 2);
	keep_journals(other, 2);
	for (unsigned i = 0; i < 2; i++) {
		others[i] = (struct config_address){ "127.0.0.1", other->ps[i].port };
		cluster->nodes[i].config.ps_others = other->nodes[i].config.ps_others = others;
	}
	for (unsigned i = 0; i < 2; i++)
		other->ps[i] = cluster->ps[i];
}

void standbys_go_on_with_the_history_of_the_cluster(void)
{
	struct config_address others[2];
	struct cluster cluster, other;
	struct layout *layout;

	keep_journals_of_pairs(&cluster, &other, others);
	cluster.nodes[1].history.taken_back = 4;
	cluster.nodes[1].history.recovers = true;
	CHECK(cluster_start(&cluster));
	/* Of a task while PS task 0 begins again, which asks all what they know. */
	node_stop(&cluster, 0);
	promote(&cluster, &other, 1, 0);
	cluster.nodes[0].history.taken_back = 4;
	CHECK(node_start(&cluster, 0, 200));
	free(wait_layout(&cluster, 2));
	CHECK(wait_epoch(&other.nodes[1], 2));
	CHECK_UINT(PLANE(&other.nodes[1], lineage), LINEAGE);
	CHECK_UINT(PLANE(&other.nodes[1], taken_back), 4);
	/* Of PS task 0, too, which another task joins with what it has. */
	promote(&cluster, &other, 0, 7);
	layout = wait_layout(&other, 8);
	CHECK(wait_epoch(&other.nodes[1], layout ? layout->epoch : 0));
	if (layout)
		CHECK_UINT(layout->nodes[1].incarnation, 101);
	free(layout);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_UINT(PLANE(&other.nodes[i], lineage), LINEAGE);
		CHECK_UINT(PLANE(&other.nodes[i], taken_back), 4);
	}
	cluster_fini(&other);
	cluster_fini(&cluster);
}

/* What it holds it has by its primary's place, which another number of reactors would move. */
void a_promoted_task_0_takes_no_other_reactors(void)
{
	struct config_address others[2];
	struct cluster cluster, other;

	keep_journals_of_pairs(&cluster, &other, others);
	for (unsigned i = 0; i < 2; i++)
		cluster.nodes[i].history.taken_back = 4;
	CHECK(cluster_start(&cluster));
	node_stop(&cluster, 1);
	promote(&cluster, &other, 0, 7);
	cluster.nodes[1].config.reactors = 5;
	cluster.nodes[1].history.recovers = true;
	CHECK(node_start(&cluster, 1, 202));
	CHECK(is_kept_out(&cluster.nodes[1], "PS task 0, which holds its rows as one of 3"));
	cluster_fini(&other);
	cluster_fini(&cluster);
}

/* Which one a node begins with that comes meanwhile is not known until the manifest is there. */
void nobody_joins_while_a_checkpoint_comes_to_count(void)
{
	struct node *first;
	struct star_error err = { 0 };
	struct cluster cluster;
	uint32_t epoch;

	keep_journals(&cluster, 2);
	first = &cluster.nodes[0];
	cluster_start(&cluster);
	CHECK_UINT(known_as(&cluster, 1, 1, &epoch), 101);
	pthread_mutex_lock(&first->plane.lock);
	first->plane.hold_commit = true;
	pthread_mutex_unlock(&first->plane.lock);
	json_decref(call(first->address, "checkpoint_save", NULL, &err));
	for (uint64_t until_us = clock_us() + WAIT_US; !PLANE(first, holding_commit) && clock_us() < until_us;)
		usleep(NAP_US);
	CHECK_UINT(PLANE(first, holding_commit), 1);
	come_back(&cluster, 1, 201, 101);
	CHECK(is_kept_out(&cluster.nodes[1], "a checkpoint is about to count"));
	pthread_mutex_lock(&first->plane.lock);
	first->plane.hold_commit = false;
	pthread_cond_broadcast(&first->plane.changed);
	pthread_mutex_unlock(&first->plane.lock);
	CHECK(waits_for(&cluster, "waiting for PS task 1 to recover from its journal"));
	CHECK_UINT(PLANE(first, committed), 1);
	end_hold_layout(&cluster.nodes[1]);
	CHECK_UINT(known_as(&cluster, epoch, 1, &epoch), 101);
	/* The next one counts for it as well, by the sum of its manifest. */
	json_decref(call(first->address, "checkpoint_save", json_pack("{s:s}", "kind", "full"), &err));
	for (uint64_t until_us = clock_us() + WAIT_US; !PLANE(&cluster.nodes[1], kept) && clock_us() < until_us;)
		usleep(NAP_US);
	CHECK_UINT(PLANE(&cluster.nodes[1], kept), 1);
	CHECK_UINT(cluster.nodes[1].plane.sum, 4711);
	cluster_fini(&cluster);
}

void all_nodes_keep_a_journal_or_none(void)
{
	struct cluster cluster;

	for (unsigned who = 0; who < 2; who++) {
		keep_journals(&cluster, 2);
		cluster.nodes[who].history.kept = false;
		CHECK(node_start(&cluster, 0, 100));
		CHECK(node_start(&cluster, 1, 101));
		CHECK(is_kept_out(&cluster.nodes[1], who ? "PS task 1 keeps no journal, and PS task 0 keeps one"
							 : "PS task 1 keeps a journal, and PS task 0 keeps none"));
		cluster_fini(&cluster);
	}
}

void a_journal_of_any_node_asks_for_a_checkpoint(void)
{
	struct cluster cluster;

	keep_journals(&cluster, 3);
	cluster_start(&cluster);
	__atomic_store_n(&cluster.nodes[2].plane.wants, true, __ATOMIC_RELAXED);
	for (uint64_t until_us = clock_us() + WAIT_US; !PLANE(&cluster.nodes[0], committed) && clock_us() < until_us;)
		usleep(NAP_US);
	CHECK_UINT(PLANE(&cluster.nodes[0], committed), 1);
	cluster_fini(&cluster);
}

/* What their journals have is more than what the last checkpoint has. */
void nodes_with_journals_do_not_roll_back_for_one_that_does_not_fit(void)
{
	struct cluster cluster;

	keep_journals(&cluster, 3);
	cluster.nodes[0].begins_with = 5;
	cluster_start(&cluster);
	node_stop(&cluster, 1);
	cluster.nodes[1].config.reactors = 5;
	CHECK(node_start(&cluster, 1, 201));
	CHECK(waits_for(&cluster, "start it with cores.number = 2"));
	usleep(20 * NAP_US);
	for (unsigned i = 0; i < 3; i++)
		CHECK_UINT(PLANE(&cluster.nodes[i], rolls_back), 0);
	cluster_fini(&cluster);
}
