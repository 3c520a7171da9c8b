/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node's control plane reports of the node: its place in the cluster, and who has asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "control/node.h"
#include "jsonrpc/member.h"

json_t *control_endpoint_json(const struct config_endpoint *endpoint)
{
	return json_pack("{s:s, s:s}", "control", config_show(endpoint->control.host, endpoint->control.port).text,
			 "data", config_show(endpoint->data.host, endpoint->data.port).text);
}

/* A text that differs for each process, and stays the same as long as that lives, even if it restarts by exec. So a
 * caller that has requested a restart can tell whether there was one. Process numbers are reused, in containers at
 * once. */
static json_t *process_json(void)
{
	enum { STARTED = 20 /* fields after the name */ };
	char boot[9], line[1024], text[64]; /* 8 characters of the boot's id are enough */
	unsigned long long started = 0;
	const char *field;

	base_read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	/* The name is in parentheses, and may contain any byte. */
	field = base_read_line("/proc/self/stat", line, sizeof(line)) ? strrchr(line, ')') : NULL;
	for (unsigned i = 0; field && i < STARTED; i++)
		field = strchr(field + 1, ' ');
	if (field)
		started = strtoull(field, NULL, 10);
	snprintf(text, sizeof(text), "%s-%d-%llu", boot, getpid(), started);
	return jsonrpc_member_from_text(text);
}

/* What a node other than PS task 0 reports of its membership. */
static json_t *membership_json(struct control *control)
{
	char address[CONTROL_ADDRESS_MAX];
	json_t *json;

	control_ps_address(control, 0, address);
	pthread_mutex_lock(&control->lock);
	json = json_pack("{s:s, s:b}", "control", address, "joined", control->joined);
	if (control->leader_incarnation)
		json_object_set_new(json, "incarnation", json_integer(control->leader_incarnation));
	if (control->follower_error[0])
		json_object_set_new(json, "error", jsonrpc_member_from_text(control->follower_error));
	if (control->leader_seen_us)
		control_watch_put_silence(json, control->leader_seen_us, clock_us(),
					  control_health_leader_is_away(control));
	pthread_mutex_unlock(&control->lock);
	return json;
}

json_t *control_node_json(struct control *control, struct line_server_counts counts)
{
	const struct config *config = control->config;
	json_t *status = control_endpoint_json(&config->own);
	struct star_error why = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "%s:%u", config->job_name, control->task);
	json_object_set_new(status, "name", json_string(name));
	json_object_set_new(status, "job", json_string(config->job_name));
	json_object_set_new(status, "task", json_integer(control->task));
	json_object_set_new(status, "version", json_string(STAR_VERSION));
	json_object_set_new(status, "pid", json_integer(getpid()));
	json_object_set_new(status, "process", process_json());
	json_object_set_new(status, "incarnation", json_integer(control->inherited));
	json_object_set_new(status, "uptime_s", json_real((double)((clock_us() - control->started_us) / 1000) / 1000));
	json_object_set_new(status, "partitions", json_integer(config->partitions));
	json_object_set_new(status, "control_plane",
			    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "admins", (json_int_t)counts.admins,
				      "peers", (json_int_t)counts.peers, "requests", (json_int_t)counts.requests,
				      "refused", (json_int_t)counts.refused, "stalled", (json_int_t)counts.stalled,
				      "strangers", (json_int_t)counts.strangers, "revoked",
				      (json_int_t)counts.revoked));
	json_object_set_new(status, "security", control_security_json(control));
	pthread_mutex_lock(&control->lock);
	json_object_set_new(status, "epoch", json_integer(control->epoch));
	json_object_set_new(status, "cluster_reactors", json_integer(control->cluster_reactors));
	json_object_set_new(status, "objects", json_integer(control->objects_count));
	if (control->task == 0 && control_leader_laid_out(control, &why) < 0)
		json_object_set_new(status, "no_layout", jsonrpc_member_from_text(why.text));
	pthread_mutex_unlock(&control->lock);
	if (control->task == 0)
		json_object_set_new(status, "nodes", control_watch_nodes_json(control));
	else
		json_object_set_new(status, "leader", membership_json(control));
	return status;
}
