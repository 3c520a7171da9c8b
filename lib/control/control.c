/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/listen.h"
#include "control/node.h"
#include "jsonrpc/jsonrpc_message.h"

static int check_options(const struct control_options *options, struct star_error *err)
{
	const struct config *config = options->config;

	if (strcmp(config->job_name, "ps") != 0)
		return star_error_set(err, -EINVAL, "only a PS task has a control plane, not job \"%s\"",
				      config->job_name);
	if (config->ps_count < 1 || config->ps_count > WIRE_NODES_MAX || config->task_index >= config->ps_count)
		return star_error_set(err, -EINVAL, "PS task %u of %u: 1 to %d PS tasks are possible, counted from 0",
				      config->task_index, config->ps_count, WIRE_NODES_MAX);
	if (options->incarnation == 0)
		return star_error_set(err, -EINVAL, "a node's incarnation must not be 0");
	return 0;
}

static void init_sync(struct control *control)
{
	clock_condition_init(&control->wake);
	pthread_mutex_init(&control->lock, NULL);
	pthread_mutex_init(&control->plane, NULL);
}

/* Reads the catalogue of the checkpoint that is restored. */
int control_begin_with(struct control *control, struct star_error *err)
{
	struct object_spec *specs = NULL;
	uint32_t count = 0;
	int rc = control_leader_bring_back(control, err);

	if (rc == 0 && control->config->checkpoint_restore)
		rc = control->data_plane.restored(control->data_plane.ctx, &control->begins_with, &specs, &count, err);
	if (rc == 0 && control->data_plane.history)
		rc = control->data_plane.history(control->data_plane.ctx, &control->history, err);
	/* Journals of other nodes may have ids that were assigned after that checkpoint. */
	control->ids_unsure = control->config->ps_count > 1 && control->history.kept && !control->history.applies &&
			      control->begins_with;
	/* After that: drops are known for the lineage that the cluster continues. */
	if (rc == 0)
		rc = control_leader_begin_drops(control, err);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		if (specs[i].generation >= control->generations[specs[i].id])
			rc = control_leader_adopt(control, &specs[i], err);
		else
			log_info("%s \"%s\" of the checkpoint is not restored: it was dropped",
				 wire_object_kind_name(specs[i].kind), specs[i].name);
	if (rc == 0)
		rc = control_queues_begin(control, err);
	free(specs);
	return rc;
}

/* PS task 0 is the first node of its cluster; a cluster of one node gets its layout at once. */
static int start_leading(struct control *control, struct star_error *err)
{
	const struct config *config = control->config;
	struct cluster_node *own;
	int rc;

	control->nodes = calloc(config->ps_count, sizeof(control->nodes[0]));
	if (!control->nodes)
		return star_error_set(err, -ENOMEM, "out of memory");
	own = &control->nodes[0];
	own->incarnation = own->layout.incarnation = control->incarnation;
	own->layout.data_port = config->own.data.port;
	own->layout.reactors = config->reactors;
	own->layout.request_max = config->request_mib << 20;
	strcpy(own->layout.data_host, config->own.data.host);
	own->layout.steering = control->steering;
	own->joined = true;
	control->layout_due = true;
	if (control->pair_waits[0])
		return 0;
	rc = control_begin_with(control, err);
	return rc < 0 ? rc : control_leader_lay_out(control, 0, err);
}

char *control_methods_too_long(void *ctx, size_t max)
{
	struct star_error err;

	star_error_set(&err, JSONRPC_INVALID_REQUEST, "a request may have %zu bytes; the line was skipped", max);
	return jsonrpc_error_line(NULL, &err);
}

char *control_methods_too_many(void *ctx)
{
	struct star_error err;

	star_error_set(&err, -EBUSY, "this node has too many control connections (%d, and %d of administrators)",
		       LINE_SERVER_PEERS_MAX, LINE_SERVER_ADMINS_MAX);
	return jsonrpc_error_line(NULL, &err);
}

/* TCP first: if two nodes are started with one configuration, the second one fails before it touches the path. */
static int start_serving(struct control *control, struct star_error *err)
{
	struct line_server_options options = {
		.line_max = JSONRPC_REQUEST_MAX,
		.peer_line_max = CONTROL_PEER_REQUEST_MAX,
		.stall_timeout_us = CONTROL_STALL_US,
		.greeting_timeout_us = CONTROL_GREETING_US,
		.idle_timeout_us = CONTROL_IDLE_US,
		.keys = control->ring,
		.ctx = control,
		.serve = control_methods_serve,
		.is_node = control_methods_is_node,
		.too_long = control_methods_too_long,
		.too_many = control_methods_too_many,
		.in_clear = control_security_in_clear,
		.quotas = control->tickets ? control_security_quotas : NULL,
		.came = control->ring ? control_security_came : NULL,
	};
	const struct config_address *own = &control->config->own.control;
	struct stat socket;

	options.peer_fd = control_listen_tcp(config_show(own->host, own->port).text, err);
	if (options.peer_fd < 0)
		return options.peer_fd;
	options.admin_fd = control_listen_unix(control->config->control_socket, err);
	if (options.admin_fd < 0)
		goto close_peer;
	strcpy(control->socket_path, control->config->control_socket);
	if (stat(control->socket_path, &socket) == 0)
		control->socket_inode = socket.st_ino;
	control->server = control_line_server_create(&options, err);
	if (control->server)
		return 0;
	close(options.admin_fd);
close_peer:
	close(options.peer_fd);
	return err->code;
}

struct control *control_create(const struct control_options *options, struct star_error *err)
{
	struct control *control;
	struct star_error local;

	if (!err)
		err = &local;
	if (check_options(options, err) < 0)
		return NULL;
	control = calloc(1, sizeof(*control));
	if (!control) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	control->config = options->config;
	control->data_plane = options->data_plane;
	control->incarnation = control->inherited = options->incarnation;
	control->steering = options->steering;
	control->rolled_back_to = options->rolled_back_to;
	control->tickets = options->tickets;
	if (options->pair)
		strcpy(control->pair_waits, "a node of a pair that has just started");
	control->task = options->config->task_index;
	control->started_us = clock_us();
	control->clock_offset_us = control_health_clock_offset_us();
	init_sync(control);
	control->executor = control_executor_create("control-exec", err);
	control->forwarder = control->executor ? control_executor_create("control-fwd", err) : NULL;
	if (!control->forwarder || control_security_create(control, err) < 0 ||
	    control_origins_create(control, err) < 0 || (control->task == 0 && start_leading(control, err) < 0) ||
	    start_serving(control, err) < 0 ||
	    (control->task == 0 ? control_checkpointer_start(control, err) : control_follower_start(control, err)) <
		    0 ||
	    control_watch_start(control, err) < 0) {
		control_destroy(control);
		return NULL;
	}
	return control;
}

/* Only the socket that this node created: another one may have replaced it. */
static void remove_socket(const struct control *control)
{
	struct stat socket;

	if (control->socket_path[0] && lstat(control->socket_path, &socket) == 0 && S_ISSOCK(socket.st_mode) &&
	    socket.st_ino == control->socket_inode)
		unlink(control->socket_path);
}

void control_destroy(struct control *control)
{
	if (!control)
		return;
	control_stop(control);
	control_follower_join(control);
	control_checkpointer_join(control);
	control_watch_join(control);
	/* The server gives jobs to the executors until it stops, and they answer on its connections until they end. */
	control_line_server_stop(control->server);
	control_executor_destroy(control->forwarder);
	control_executor_destroy(control->executor);
	remove_socket(control);
	control_line_server_destroy(control->server);
	control_security_destroy(control);
	for (uint32_t id = 1; id <= control->objects_last; id++)
		free(control->objects[id]);
	for (unsigned i = 0; i < control->retired_count; i++)
		free(control->retired[i]);
	free(control->retired);
	control_queues_fini(&control->queues);
	free(control->nodes);
	free(control->origins);
	pthread_cond_destroy(&control->wake);
	pthread_mutex_destroy(&control->lock);
	pthread_mutex_destroy(&control->plane);
	free(control);
}
