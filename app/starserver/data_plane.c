/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control plane asks of a node's data plane: each question goes to the reactors it concerns. */
#include "node.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint.h"
#include "wire/layout.h"

/* A question to one reactor. */
struct question {
	struct reactor_message message;
	struct object_spec spec;
	uint32_t epoch, first_partition, end_partition;
	int status;
	struct star_error err;
};

enum { ANSWER_TIMEOUT_US = 10000000 };

static void install_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_install(shard->service, &question->spec, &question->err);
}

static void set_layout_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	const struct question *question = (const struct question *)message;

	service_set_layout(shard->service, question->epoch, question->first_partition, question->end_partition);
	rpc_server_set_layout(shard->rpc, question->epoch, shard->node->incarnation);
}

int node_ask(struct shard *shard, struct reactor_message *message, struct star_error *err)
{
	const int status = reactor_post(shard->reactor, message);

	if (status < 0)
		return star_error_set(err, status, "reactor %u takes no messages: it is overloaded or stopping",
				      shard->index);
	if (reactor_wait(message, ANSWER_TIMEOUT_US) < 0)
		return star_error_set(err, -ETIMEDOUT, "reactor %u did not answer within %d s", shard->index,
				      ANSWER_TIMEOUT_US / 1000000);
	return 0;
}

static void sweep_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_sweep_begin(shard->service, question->spec.id);
	if (question->status < 0)
		star_error_set(&question->err, question->status, "it has no object %u", question->spec.id);
}

int node_ask_copy(struct shard *shard, struct reactor_message *message, size_t bytes, struct star_error *err)
{
	struct reactor_message *copy = malloc(bytes);
	int status;

	if (!copy)
		return star_error_set(err, -ENOMEM, "no memory for a message to reactor %u", shard->index);
	memcpy(copy, message, bytes);
	status = node_ask(shard, copy, err);
	if (status == -ETIMEDOUT)
		return status; /* the reactor may still come to it */
	memcpy(message, copy, bytes);
	free(copy);
	return status;
}

/* Asks one reactor, and waits for it. */
static int ask(struct shard *shard, const struct question *draft, struct star_error *err)
{
	struct question question = *draft;
	int status = node_ask_copy(shard, &question.message, sizeof(question), err);

	if (status == 0 && question.status < 0)
		status = star_error_set(err, question.status, "reactor %u: %s", shard->index, question.err.text);
	return status;
}

static int node_install(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct node *node = ctx;
	const struct question question = { .message.run = install_on_reactor, .spec = *spec };
	int status = 0;

	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = ask(&node->shards[i], &question, err);
	if (status == 0)
		node->specs[spec->id] = spec;
	return status;
}

static int node_set_layout(void *ctx, uint32_t epoch, uint32_t cluster_reactors, uint32_t first_reactor,
			   struct star_error *err)
{
	struct node *node = ctx;
	const uint32_t partitions = node->config->partitions;
	int status = 0;

	if (!node->restored && node->config->checkpoint_restore)
		status = node_restore(node, cluster_reactors, first_reactor, err);
	node->restored |= status == 0;
	for (unsigned i = 0; status == 0 && i < node->shards_count; i++) {
		const struct question question = {
			.message.run = set_layout_on_reactor,
			.epoch = epoch,
			.first_partition = layout_first(partitions, cluster_reactors, first_reactor + i),
			.end_partition = layout_first(partitions, cluster_reactors, first_reactor + i + 1),
		};

		status = ask(&node->shards[i], &question, err);
	}
	return status;
}

static int node_sweep(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct node *node = ctx;
	const struct question question = { .message.run = sweep_on_reactor, .spec = *spec };
	int status = 0;

	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = ask(&node->shards[i], &question, err);
	return status;
}

static json_t *node_object_figures(void *ctx, const struct object_spec *spec)
{
	return node_object_status(ctx, spec);
}

static json_t *node_figures(void *ctx)
{
	return node_status(ctx);
}

static int list_connections(void *ctx, const struct control_connections *which, json_t **result, struct star_error *err)
{
	return node_connections(ctx, which, result, err);
}

static int add_port(void *ctx, const struct config_port *port, int number, json_t **result, struct star_error *err)
{
	return node_port_add(ctx, port, number, result, err);
}

static int remove_port(void *ctx, const char *name, json_t **result, struct star_error *err)
{
	return node_port_remove(ctx, name, result, err);
}

static json_t *list_ports(void *ctx)
{
	return node_ports(ctx);
}

static void node_shutdown(void *ctx)
{
	kill(getpid(), SIGTERM); /* main waits for it */
}

struct steering node_steering(const struct node *node)
{
	for (unsigned i = 0; i < node->ports_count; i++)
		if (node_port_has(&node->ports[i], node->config->own.data.host))
			return node->ports[i].port->steering;
	return (struct steering){ 0 };
}

struct control_data_plane node_data_plane(struct node *node)
{
	return (struct control_data_plane){
		.ctx = node,
		.install = node_install,
		.set_layout = node_set_layout,
		.sweep = node_sweep,
		.object_status = node_object_figures,
		.status = node_figures,
		.connections = list_connections,
		.port_add = add_port,
		.port_remove = remove_port,
		.ports = list_ports,
		.restored = node_restored,
		.checkpoint_new = node_checkpoint_new,
		.checkpoint_begin = node_checkpoint_begin,
		.checkpoint_state = node_checkpoint_state,
		.checkpoint_end = node_checkpoint_end,
		.checkpoint_commit = node_checkpoint_commit,
		.checkpoint_abandon = node_checkpoint_abandon,
		.shutdown = node_shutdown,
	};
}
