/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether somebody must look after the node: what is wrong, and what to do next; and notes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "base/clock.h"
#include "control/node.h"
#include "jsonrpc/member.h"

enum { MEMORY_FULL_PERCENT = 90, CLOCK_SET_US = 1000000 };

/* Under lock. */
static void tell_loading(const struct control *control, char text[static CONTROL_STATE_MAX])
{
	if (control->loading)
		snprintf(text, CONTROL_STATE_MAX, "loading its share of checkpoint %" PRIu64 "%s", control->loading,
			 control->history.recovers ? ", and what its journal has" : "");
	else
		snprintf(text, CONTROL_STATE_MAX, "loading what its journal has");
}

bool control_serves(struct control *control, char state[static CONTROL_STATE_MAX])
{
	struct star_error err = { 0 };
	bool serves;

	pthread_mutex_lock(&control->lock);
	if (control->task == 0)
		serves = control_leader_laid_out(control, &err) == 0;
	else
		serves = control_pair_serves(control, &err) == 0 && control->epoch != 0;
	if (serves)
		snprintf(state, CONTROL_STATE_MAX, "serving layout %u, %u tables and variables", control->epoch,
			 control->objects_count);
	else if (control->task == 0 || err.code)
		snprintf(state, CONTROL_STATE_MAX, "%.150s", err.text);
	else if (control->loads)
		tell_loading(control, state);
	else
		snprintf(state, CONTROL_STATE_MAX, "waiting for a layout from PS task 0%s%.100s",
			 control->follower_error[0] ? ": " : "", control->follower_error);
	pthread_mutex_unlock(&control->lock);
	return serves;
}

__attribute__((format(printf, 2, 3))) static void add(json_t *problems, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_array_append_new(problems, jsonrpc_member_from_text(text));
}

/* Used at PS task 0: nodes that are absent. Under lock. */
static void look_at_nodes(const struct control *control, json_t *problems)
{
	for (uint32_t task = 0; control->task == 0 && !control->pair_waits[0] && task < control->config->ps_count;
	     task++) {
		const struct cluster_node *node = &control->nodes[task];
		char address[CONTROL_ADDRESS_MAX];

		control_ps_address(control, task, address);
		if (control_watch_is_away(node, clock_us()))
			add(problems, "PS task %u at %s is away: nothing was heard of it for %.0f s", task, address,
			    (double)(clock_us() - node->away_us) / 1e6);
		else if (!node->joined)
			add(problems, "PS task %u at %s has not joined", task, address);
		else if (node->alone[0])
			add(problems, "PS task %u at %s has no standby: %.319s", task, address, node->alone);
	}
}

bool control_health_checkpoint_overdue(const struct control *control, double *age_s, uint32_t *every_s)
{
	const struct config *config = control->config;
	const struct checkpointer *p = &control->checkpointer;
	const uint32_t full_s = config->checkpoint_every_s, delta_s = config->checkpoint_delta_every_s;
	const uint64_t since_us = p->last.id ? p->last_ended_us : control->started_us;

	*every_s = delta_s && (!full_s || delta_s < full_s) ? delta_s : full_s;
	*age_s = (double)(clock_us() - since_us) / 1e6;
	return control->task == 0 && config->checkpoint_directory[0] && *every_s && *age_s > 3.0 * *every_s + 60;
}

bool control_health_leader_is_away(const struct control *control)
{
	const uint64_t now_us = clock_us();

	return control->leader_seen_us && !control->joined && !control->loads &&
	       now_us > control->leader_seen_us + CONTROL_AWAY_US;
}

static void look_at_leader(const struct control *control, json_t *problems)
{
	char address[CONTROL_ADDRESS_MAX];

	if (!control->task || !control_health_leader_is_away(control))
		return;
	control_ps_address(control, 0, address);
	add(problems, "PS task 0 at %s is away: nothing was heard of it for %.0f s", address,
	    (double)(clock_us() - control->leader_seen_us) / 1e6);
}

/* Failed restores of this node, of the cluster, and, at PS task 0, of the others. Under lock. */
static void look_at_restores(const struct control *control, bool serves, json_t *problems)
{
	if (control->loading && serves) /* otherwise the state says so */
		add(problems, "its share of checkpoint %" PRIu64 " is being loaded", control->loading);
	if (control->task)
		return;
	if (control->checkpointer.restoring)
		add(problems, "the cluster is rolling back to a checkpoint (starctl checkpoint status)");
	for (uint32_t task = 1; control->begins_with && task < control->config->ps_count; task++)
		if (control->nodes[task].joined && control->nodes[task].loads &&
		    !control_watch_is_away(&control->nodes[task], clock_us()))
			add(problems, "PS task %u loads its share of checkpoint %" PRIu64, task, control->begins_with);
}

int64_t control_health_clock_offset_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (int64_t)clock_us();
}

/* Nothing that a node computes depends on the date, but the times in its log and checkpoints do. */
static void look_at_clock(const struct control *control, json_t *notes)
{
	const int64_t set_us = control_health_clock_offset_us() - control->clock_offset_us;
	struct timex clock = { 0 };

	if (set_us > CLOCK_SET_US || set_us < -CLOCK_SET_US)
		add(notes, "the clock was set by %+.1f s since the node's start", (double)set_us / 1e6);
	if (adjtimex(&clock) >= 0 && clock.status & STA_UNSYNC)
		add(notes, "the clock is not synchronized: dates of the log and of checkpoints may be wrong");
}

static void look_at_last_checkpoint(const struct control *control, json_t *notes)
{
	const struct checkpointer *p = &control->checkpointer;

	if (control->task || !control->config->checkpoint_directory[0])
		return;
	if (p->last.id)
		add(notes, "the last checkpoint, %" PRIu64 ", is %.0f s old", p->last.id,
		    (double)(clock_us() - p->last_ended_us) / 1e6);
	else
		add(notes, "no checkpoint was written since the node's start");
}

/* It is for one start. */
static void look_at_restore_id(const struct control *control, const json_t *figures, json_t *notes)
{
	const char *role = json_string_value(json_object_get(json_object_get(figures, "pair"), "role"));
	const uint32_t id = control->config->checkpoint_id;

	if (!id)
		return;
	if (control->task)
		add(notes, "checkpoint.restore_id = %u has no effect here: PS task 0 chooses the checkpoint", id);
	else if (role && strcmp(role, "standby") == 0)
		add(notes,
		    "checkpoint.restore_id = %u has no effect on a standby, which has what its primary has: a pair "
		    "goes "
		    "back to a checkpoint when both nodes start with it, after their standby.directory was emptied",
		    id);
	else
		add(notes,
		    "checkpoint.restore_id = %u is still configured: remove it, or this node goes back to that "
		    "checkpoint at its next start",
		    id);
}

static void look_at_hugepages(const struct control *control, const json_t *figures, json_t *notes)
{
	if (control->config->hugepages == CONFIG_HUGEPAGES_PREFERRED &&
	    json_is_false(json_object_get(figures, "hugepages")))
		add(notes,
		    "the node runs without hugepages, and slower: there were too few at its start (starctl doctor)");
}

static void look_at_keys(const struct control *control, json_t *notes)
{
	if (!control->ring)
		add(notes, "security.control_keys is not set: anyone who can reach the control address gets in");
}

/* Used at PS task 0: whether a checkpoint has failed, or is overdue. Under lock. */
static void look_at_checkpoints(const struct control *control, json_t *problems)
{
	const struct checkpointer *p = &control->checkpointer;
	uint32_t every_s;
	double age_s;

	if (control->task || !control->config->checkpoint_directory[0])
		return;
	if (p->error[0])
		add(problems, "the last checkpoint could not be written: %.180s", p->error);
	else if (control_health_checkpoint_overdue(control, &age_s, &every_s))
		add(problems, "no checkpoint for %.0f s, though one is due every %u s (starctl checkpoint status)",
		    age_s, every_s);
}

static void look_at_memory(const json_t *figures, json_t *problems)
{
	const json_t *reactor;
	size_t index;

	json_array_foreach(json_object_get(figures, "reactors"), index, reactor)
	{
		const double used = (double)json_integer_value(json_object_get(reactor, "memory_bytes"));
		const double limit = (double)json_integer_value(json_object_get(reactor, "memory_limit_bytes"));

		if (limit > 0 && used * 100 > limit * MEMORY_FULL_PERCENT) {
			add(problems,
			    "parameter memory of reactor %zu is %.0f %% full (memory.parameter_mib; starctl tables)",
			    index, used * 100 / limit);
			return; /* the others have the same reason */
		}
	}
}

static void look_at_ports(const json_t *figures, json_t *problems)
{
	const json_t *port;
	size_t index;

	json_array_foreach(json_object_get(figures, "ports"), index, port)
	{
		const char *name = json_string_value(json_object_get(port, "name"));
		const char *interface = json_string_value(json_object_get(port, "interface"));
		const char *state = json_string_value(json_object_get(port, "state"));

		if (state && strcmp(state, "removed") == 0)
			add(problems, "port %s is gone: %s%s was taken out of the machine", name,
			    interface && *interface ? "its interface " : "its NIC", interface ? interface : "");
		else if (json_is_false(json_object_get(port, "link")))
			add(problems, "the link of port %s is down%s%s", name,
			    interface && *interface ? ": ip link show " : "", interface ? interface : "");
	}
}

static void look_at_journal(const json_t *figures, json_t *problems)
{
	const json_t *journal = json_object_get(figures, "journal");
	const json_t *former = json_object_get(journal, "former_bytes");
	const char *error = json_string_value(json_object_get(journal, "error"));

	if (json_is_true(json_object_get(journal, "counts_later")))
		add(problems, "a restart does not continue from the journal until a checkpoint counts, because the "
			      "node has taken its primary's place: one is started automatically");
	if (error)
		add(problems, "the node serves without its journal: %.200s", error);
	else if (former)
		add(problems,
		    "former lives of the journal take %lld MiB, more than half of journal.limit_mib, until a "
		    "checkpoint counts (starctl checkpoint status)",
		    (long long)json_integer_value(former) >> 20);
}

/* A standby that is up to date is healthy, though it does not serve; a primary without a standby is not. */
static void look_at_pair(const json_t *figures, const char *state, json_t *problems, json_t *notes)
{
	const json_t *pair = json_object_get(figures, "pair");
	const char *why = json_string_value(json_object_get(pair, "why"));
	const char *role = json_string_value(json_object_get(pair, "role"));
	const char *etcd = json_string_value(json_object_get(json_object_get(pair, "etcd"), "error"));

	if (pair && !why && role && strcmp(role, "standby") == 0) {
		json_array_clear(problems);
		add(notes, "%s", state);
	} else if (why) {
		add(problems, "%s of a pair: %.400s", role, why);
	}
	if (etcd)
		add(problems, "neither node of the pair takes over by itself: %.300s", etcd);
}

json_t *control_health_json(struct control *control)
{
	const struct control_data_plane *plane = &control->data_plane;
	json_t *figures = plane->status ? plane->status(plane->ctx) : NULL;
	json_t *problems = json_array(), *notes = json_array();
	char state[CONTROL_STATE_MAX];
	const bool serves = control_serves(control, state);

	if (!serves)
		add(problems, "%s", state);
	look_at_pair(figures, state, problems, notes);
	pthread_mutex_lock(&control->lock);
	look_at_nodes(control, problems);
	look_at_leader(control, problems);
	look_at_restores(control, serves, problems);
	look_at_checkpoints(control, problems);
	look_at_last_checkpoint(control, notes);
	pthread_mutex_unlock(&control->lock);
	look_at_memory(figures, problems);
	look_at_journal(figures, problems);
	look_at_ports(figures, problems);
	look_at_hugepages(control, figures, notes);
	look_at_restore_id(control, figures, notes);
	look_at_clock(control, notes);
	look_at_keys(control, notes);
	json_decref(figures);
	return json_pack("{s:b, s:o, s:o, s:o}", "healthy", json_array_size(problems) == 0, "state",
			 jsonrpc_member_from_text(state), "problems", problems, "notes", notes);
}

/* Appends them to the text. */
static void append_sentences(char text[static CONTROL_HEALTH_MAX], const json_t *sentences)
{
	const json_t *sentence;
	size_t index;

	json_array_foreach(sentences, index, sentence)
	{
		const size_t at = strlen(text);

		snprintf(text + at, CONTROL_HEALTH_MAX - at, "%s%s", at ? "; " : "", json_string_value(sentence));
	}
}

bool control_healthy(struct control *control, char text[static CONTROL_HEALTH_MAX])
{
	json_t *json = control_health_json(control);
	const bool healthy = json_is_true(json_object_get(json, "healthy"));

	text[0] = 0;
	if (healthy)
		snprintf(text, CONTROL_HEALTH_MAX, "ok: %s", json_string_value(json_object_get(json, "state")));
	append_sentences(text, json_object_get(json, "problems"));
	if (healthy)
		append_sentences(text, json_object_get(json, "notes"));
	json_decref(json);
	return healthy;
}
