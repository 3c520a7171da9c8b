/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of each node that checks once a second: at PS task 0, whether the other nodes are heard; on all nodes, what
 * the appliance must log. A node that loads a checkpoint may be silent for long, since its heartbeats wait for that: it
 * counts as absent only if it does not answer a request, either. A connection alone proves nothing, because the kernel
 * accepts it even if the process hangs.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/node.h"
#include "jsonrpc/member.h"
#include "jsonrpc/thread.h"

#define OVERDUE_AGAIN_US UINT64_C(600000000)

bool control_watch_is_silent(const struct cluster_node *node, uint64_t now_us)
{
	return node->seen_us && now_us > node->seen_us && now_us - node->seen_us > CONTROL_AWAY_US;
}

bool control_watch_is_away(const struct cluster_node *node, uint64_t now_us)
{
	return node->away && control_watch_is_silent(node, now_us);
}

/* Whether the node itself answers there. */
static bool answers(struct control *control, uint32_t task)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client;
	json_t *status = NULL;

	client = control_connect(control, task, CONTROL_HEARTBEAT_US, &err);
	if (client)
		status = control_call(control, CALLER_WATCH, client, "status", NULL, CONTROL_HEARTBEAT_US, &err);
	jsonrpc_close(client);
	json_decref(status);
	return status ||
	       err.code == -EPERM; /* with keys, those of nodes are not used for this: a refusal is an answer, too */
}

static void look_for(struct control *control, uint32_t task)
{
	struct cluster_node *node = &control->nodes[task];
	uint64_t seen_us, now_us;
	char address[CONTROL_ADDRESS_MAX];
	bool silent, probe, news = false;

	pthread_mutex_lock(&control->lock);
	silent = control_watch_is_silent(node, clock_us());
	probe = silent && !node->away && node->loads;
	pthread_mutex_unlock(&control->lock);
	if (probe && answers(control, task))
		return;
	pthread_mutex_lock(&control->lock);
	seen_us = node->seen_us;
	now_us = clock_us();
	silent = control_watch_is_silent(node, now_us);
	if (silent && !node->away) {
		news = node->away = true;
		node->away_us = seen_us;
	} else if (!silent && node->away && seen_us) {
		news = true;
		node->away = false;
	}
	pthread_mutex_unlock(&control->lock);
	control_ps_address(control, task, address);
	if (news && silent)
		log_error("PS task %u at %s is away: nothing was heard of it for %.1f s", task, address,
			  (double)(now_us - seen_us) / 1e6);
	else if (news)
		log_info("PS task %u at %s is heard again, after %.1f s", task, address,
			 (double)(seen_us - node->away_us) / 1e6);
}

/* Asks a node that has come back what it has restored, as soon as it is done. */
static void ask_back(struct control *control, uint32_t task)
{
	struct star_error err = { 0 };
	bool is_back, over;
	json_t *state;

	pthread_mutex_lock(&control->lock);
	is_back = control->nodes[task].is_back && control->nodes[task].joined && !control->layout_due &&
		  control->config->checkpoint_directory[0];
	pthread_mutex_unlock(&control->lock);
	if (!is_back)
		return;
	state = control_checkpointer_ask(control, CALLER_WATCH, task, json_object(), &err);
	over = state && json_is_false(json_object_get(state, "loading"));
	if (over)
		log_info("PS task %u serves again, with %" PRIu64 " rows of checkpoint %" PRIu64, task,
			 (uint64_t)json_integer_value(json_object_get(state, "restored")),
			 (uint64_t)json_integer_value(json_object_get(state, "restored_from")));
	json_decref(state);
	pthread_mutex_lock(&control->lock);
	control->nodes[task].is_back = !over;
	pthread_mutex_unlock(&control->lock);
}

/* A missing checkpoint is logged once, and then every ten minutes. */
static void look_for_checkpoint(struct control *control)
{
	const uint64_t now_us = clock_us();
	uint32_t every_s;
	double age_s;
	bool overdue;

	pthread_mutex_lock(&control->lock);
	overdue = control_health_checkpoint_overdue(control, &age_s, &every_s);
	pthread_mutex_unlock(&control->lock);
	if (!overdue)
		control->overdue_logged_us = 0;
	if (!overdue || (control->overdue_logged_us && now_us - control->overdue_logged_us < OVERDUE_AGAIN_US))
		return;
	__atomic_store_n(&control->overdue_logged_us, now_us, __ATOMIC_RELAXED);
	log_error("no checkpoint for %.0f s, though one is due every %u s; `starctl checkpoint status` says more",
		  age_s, every_s);
}

static void *watch_loop(void *arg)
{
	struct control *control = arg;

	while (control_pause(control, CONTROL_BEAT_MS, NULL)) {
		for (uint32_t task = 1; control->task == 0 && task < control->config->ps_count; task++) {
			look_for(control, task);
			ask_back(control, task);
		}
		if (control->data_plane.watch)
			control->data_plane.watch(control->data_plane.ctx);
		control_checkpointer_look(control);
		look_for_checkpoint(control);
		log_tell_held(clock_us());
	}
	return NULL;
}

int control_watch_start(struct control *control, struct star_error *err)
{
	const int rc = jsonrpc_thread_start(&control->watch, "control-watch", watch_loop, control, err);

	control->watching = rc == 0;
	return rc;
}

void control_watch_join(struct control *control)
{
	if (control->watching)
		pthread_join(control->watch, NULL);
	control->watching = false;
}

void control_watch_put_silence(json_t *json, uint64_t seen_us, uint64_t now_us, bool away)
{
	const uint64_t silent_us = now_us > seen_us ? now_us - seen_us : 0;
	char text[32] = "";
	struct tm parts;
	time_t since;

	json_object_set_new(json, "silent_ms", json_integer((json_int_t)(silent_us / 1000)));
	json_object_set_new(json, "away", json_boolean(away));
	if (!away)
		return;
	since = time(NULL) - (time_t)(silent_us / 1000000);
	if (gmtime_r(&since, &parts))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
	json_object_set_new(json, "away_since", json_string(text));
}

/* For a task that is a pair: the standby that workers are told of, or why there is none. Under lock. */
static void put_pair(const struct control *control, uint32_t task, json_t *json)
{
	const struct cluster_node *node = &control->nodes[task];
	const struct layout_standby *standby = &node->layout.standby;
	const char *alone = task ? node->alone : control->pair_alone;
	const uint64_t generation = task ? node->generation : control->pair_generation;

	if (!generation)
		return;
	json_object_set_new(json, "generation", jsonrpc_member_from_u64(generation));
	if (alone[0])
		json_object_set_new(json, "alone", jsonrpc_member_from_text(alone));
	else if (standby->data_host[0])
		json_object_set_new(json, "standby", json_string(standby->control));
}

json_t *control_watch_nodes_json(struct control *control)
{
	json_t *nodes = json_array();
	char address[CONTROL_ADDRESS_MAX];
	uint64_t now_us;

	pthread_mutex_lock(&control->lock);
	now_us = clock_us(); /* read after the lock: a heartbeat may have come while it waited */
	for (uint32_t task = 0; task < control->config->ps_count; task++) {
		const struct cluster_node *node = &control->nodes[task];
		json_t *json;

		control_ps_address(control, task, address);
		json = json_pack("{s:i, s:s, s:b}", "task", (int)task, "control", address, "joined", node->joined);
		if (node->layout.incarnation) {
			const struct config_address_text data =
				config_show(node->layout.data_host, node->layout.data_port);

			json_object_set_new(json, "data", json_string(data.text));
			json_object_set_new(json, "reactors", json_integer(node->layout.reactors));
			json_object_set_new(json, "incarnation", json_integer(node->layout.incarnation));
			if (node->recovers)
				json_object_set_new(json, "recovers", json_true());
			put_pair(control, task, json);
		}
		if (task && node->seen_us)
			control_watch_put_silence(json, node->seen_us, now_us, control_watch_is_away(node, now_us));
		json_array_append_new(nodes, json);
	}
	pthread_mutex_unlock(&control->lock);
	return nodes;
}
