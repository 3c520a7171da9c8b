/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the control plane to a node's data plane: each goes to the reactors that it concerns. */
#include "node/node.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/capture.h"
#include "node/checkpoint.h"
#include "node/journal.h"
#include "node/observe.h"
#include "node/pair.h"
#include "wire/layout.h"

/* A request to one reactor. */
struct question {
	struct reactor_message message;
	struct object_spec spec;
	uint32_t epoch, first_partition, end_partition;
	int status;
	struct star_error err;
};

enum { ANSWER_TIMEOUT_US = 10000000, DROP_LOOK_US = 200 };

static void install_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_install(shard->service, &question->spec, &question->err);
}

static void set_layout_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	if (question->epoch)
		question->status = rpc_server_listen(shard->rpc, &question->err);
	service_set_follows(shard->service, false);
	service_set_incarnation(shard->service, shard->node->incarnation);
	service_set_layout(shard->service, question->epoch, question->first_partition, question->end_partition);
	rpc_server_set_layout(shard->rpc, question->epoch, shard->node->incarnation);
}

int node_ask(struct shard *shard, struct reactor_message *message, struct star_error *err)
{
	const int status = reactor_post(shard->reactor, message);

	if (status < 0)
		return star_error_set(err, status, "reactor %u accepts no messages: it is overloaded or stopping",
				      shard->index);
	if (reactor_wait(message, ANSWER_TIMEOUT_US) < 0)
		return star_error_set(err, -ETIMEDOUT, "reactor %u did not answer within %d s", shard->index,
				      ANSWER_TIMEOUT_US / 1000000);
	return 0;
}

static void note_unknown(struct question *question)
{
	if (question->status < 0)
		star_error_set(&question->err, question->status, "it has no object %u", question->spec.id);
}

static void sweep_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_sweep_begin(shard->service, question->spec.id);
	note_unknown(question);
}

static void empty_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_empty_begin(shard->service, question->spec.id);
	note_unknown(question);
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
		return status; /* the reactor may still process it */
	memcpy(message, copy, bytes);
	free(copy);
	return status;
}

/* Asks one reactor, and waits for its answer. */
static int ask_shard(struct shard *shard, const struct question *template, struct star_error *err)
{
	struct question question = *template;
	int status = node_ask_copy(shard, &question.message, sizeof(question), err);

	if (status == 0 && question.status < 0)
		status = star_error_set(err, question.status, "reactor %u: %s", shard->index, question.err.text);
	return status;
}

static void drop_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;
	struct question *question = (struct question *)message;

	question->status = service_drop(shard->service, question->spec.id);
}

_Static_assert((int)SECURE_TABLES > (int)WIRE_OBJECTS_MAX, "each object has its rights");

/* Waits until the reactor has finished what must not be interrupted. It finishes that even if nobody asks any more. */
static int drop_on(struct shard *shard, uint32_t id, struct star_error *err)
{
	const struct question question = { .message.run = drop_on_reactor, .spec.id = id };
	const uint64_t until_us = clock_us() + ANSWER_TIMEOUT_US;
	int status;

	while ((status = ask_shard(shard, &question, err)) == -EBUSY && clock_us() < until_us)
		usleep(DROP_LOOK_US);
	return status;
}

static void node_forget(void *ctx, uint32_t id)
{
	struct node *node = ctx;
	struct star_error err;

	if (node->specs[id] && node->specs[id]->kind != OBJECT_PROGRAM)
		node_checkpoint_no_delta(node->checkpoint, "a table was dropped since the last checkpoint");
	node->specs[id] = NULL;
	for (unsigned i = 0; i < node->shards_count; i++)
		if (drop_on(&node->shards[i], id, &err) < 0)
			log_warn("object %u is not dropped yet, because a large request still uses it: %s", id,
				 err.text);
	if (node->tickets)
		secure_tickets_table(node->tickets, id, NULL);
	node_journal_forgot(node, id);
}

static int node_install(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct node *node = ctx;
	const struct question question = { .message.run = install_on_reactor, .spec = *spec };
	int status = 0;

	node->specs_ns[spec->id] = clock_ns();
	if (node->tickets && spec->kind != OBJECT_PROGRAM)
		secure_tickets_table(node->tickets, spec->id, spec->name); /* before anybody can request it */
	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = ask_shard(&node->shards[i], &question, err);
	if (status == 0) {
		__atomic_store_n(&node->specs[spec->id], spec, __ATOMIC_RELEASE); /* node_observed_object reads it */
		node_journal_installed(node, spec);
	} else {
		node_forget(node, spec->id);
	}
	return status;
}

static int note_dropped(void *ctx, const uint32_t *generations, struct star_error *err)
{
	return node_dropped_write(ctx, generations, err);
}

static int read_dropped(void *ctx, uint32_t *generations, struct star_error *err)
{
	return node_dropped_read(ctx, generations, err);
}

static int bring_back(void *ctx, uint64_t id, struct star_error *err)
{
	return node_bring_back(ctx, id, err);
}

/* Loads what the node begins with. If that fails, a part of it may have been loaded, which nobody may see: the process
 * ends. */
static int begin_with(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	const bool wanted = node->config->checkpoint_restore != CONFIG_RESTORE_NO;
	int status = 0;

	if (node->restored)
		return 0;
	if (layout->checkpoint && wanted)
		status = node_restore(node, layout, err);
	else if (layout->checkpoint)
		status = star_error_set(err, -EINVAL,
					"PS task 0 starts from checkpoint %" PRIu64
					", but checkpoint.restore is \"no\" here: use the same setting on all nodes",
					layout->checkpoint);
	else if (wanted)
		log_info("PS task 0 has no checkpoint to restore: the node starts empty");
	if (status == 0 && node->journal)
		status = node_journal_begin(node, layout, err);
	if (status < 0 && status != -ECANCELED)
		node_fail(node, err);
	else if (status == 0)
		__atomic_store_n(&node->restored, true, __ATOMIC_RELEASE);
	return status;
}

/* epoch 0: no layout, so that all requests are refused. */
static int tell_layout(struct node *node, const struct control_layout *layout, uint32_t epoch, struct star_error *err)
{
	const uint32_t partitions = node->config->partitions;
	int status = 0;

	for (unsigned i = 0; status == 0 && i < node->shards_count; i++) {
		const uint32_t reactor = layout->first_reactor + i;
		const struct question question = {
			.message.run = set_layout_on_reactor,
			.epoch = epoch,
			.first_partition = layout_first(partitions, layout->cluster_reactors, reactor),
			.end_partition = layout_first(partitions, layout->cluster_reactors, reactor + 1),
		};

		status = ask_shard(&node->shards[i], &question, err);
	}
	return status;
}

static int node_set_layout(void *ctx, const struct control_layout *layout, struct star_error *err)
{
	struct node *node = ctx;
	int status = begin_with(node, layout, err);
	bool shut;

	if (status == 0 && !node_journal_goes_on(node, layout)) {
		node_begin_again(node);
		status = star_error_set(err, -ECANCELED, "the cluster was rolled back, and the node restarts");
	}
	shut = node_pair_is_closed(node);
	if (status == 0)
		status = tell_layout(node, layout, shut ? 0 : layout->epoch, err);
	if (status == 0) {
		node->layout = *layout;
		node->closed = shut;
	}
	return status;
}

int node_close(struct node *node, struct star_error *err)
{
	node->closed = true;
	return tell_layout(node, &node->layout, 0, err);
}

int node_open(struct node *node, struct star_error *err)
{
	int status;

	/* A node that has closed for the other node of the pair stays closed, whatever else ends meanwhile. */
	if (!node->closed || node_pair_is_closed(node))
		return 0;
	status = tell_layout(node, &node->layout, node->layout.epoch, err);
	node->closed = status < 0;
	return status;
}

static int ask_reactors(struct node *node, const struct question *question, struct star_error *err)
{
	int status = 0;

	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		status = ask_shard(&node->shards[i], question, err);
	return status;
}

static int node_sweep(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	const struct question question = { .message.run = sweep_on_reactor, .spec = *spec };

	return ask_reactors(ctx, &question, err);
}

static int node_empty(void *ctx, const struct object_spec *spec, bool begin, uint64_t *left, struct star_error *err)
{
	const struct question question = { .message.run = empty_on_reactor, .spec = *spec };
	const struct node *node = ctx;
	const int status = begin ? ask_reactors(ctx, &question, err) : 0;

	/* Deltas do not record what a filter has forgotten (lib/store/sweep.c). */
	if (begin && spec->filter != FILTER_NONE)
		node_checkpoint_no_delta(node->checkpoint,
					 "a table with a filter was emptied since the last checkpoint");
	for (unsigned i = 0; i < node->shards_count; i++)
		*left += service_sweep_left(node->shards[i].service, spec->id);
	return status;
}

static json_t *node_object_figures(void *ctx, const struct object_spec *spec, bool by_reactor)
{
	return node_object_status(ctx, spec, by_reactor);
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

static void node_roll_back(void *ctx, uint64_t id)
{
	struct node *node = ctx;

	if (node_told_to_stop(node))
		return; /* the process ends */
	__atomic_store_n(&node->rolls_back_to, id, __ATOMIC_RELEASE);
	kill(getpid(), ROLL_BACK_SIGNAL); /* main waits for it */
}

void node_begin_again(struct node *node)
{
	node_roll_back(node, NODE_BEGINS_AGAIN);
}

static int node_leave_off(void *ctx, struct star_error *err)
{
	return node_close(ctx, err);
}

static bool pair_leads(void *ctx)
{
	return node_pair_leads(ctx);
}

static int pair_promote(void *ctx, json_t **result, struct star_error *err)
{
	return node_pair_promote(ctx, result, err);
}

struct steering node_steering(const struct node *node)
{
	for (unsigned i = 0; i < node->ports_count; i++)
		if (node_port_has(&node->ports[i], node->config->own.data.host))
			return node->ports[i].port->steering;
	return (struct steering){ 0 };
}

static uint32_t incarnation_of(void *ctx)
{
	const struct node *node = ctx;

	return node->incarnation;
}

static struct control_lineage lineage_of(void *ctx)
{
	const struct node_checkpoint *c = ((const struct node *)ctx)->checkpoint;

	return c ? node_checkpoint_lineage(c) : (struct control_lineage){ .id = 0 };
}

static void follow_lineage(void *ctx, const struct control_lineage *lineage)
{
	struct node *node = ctx;

	if (node->checkpoint)
		node_checkpoint_follows(node->checkpoint, lineage);
}

struct control_data_plane node_data_plane(struct node *node)
{
	return (struct control_data_plane){
		.ctx = node,
		.install = node_install,
		.forget = node_forget,
		.dropped_write = note_dropped,
		.dropped_read = read_dropped,
		.bring_back = bring_back,
		.set_layout = node_set_layout,
		.incarnation = incarnation_of,
		.history = node_journal_history,
		.lineage = node->pair ? lineage_of : NULL,
		.follow_lineage = node->pair ? follow_lineage : NULL,
		.sweep = node_sweep,
		.empty = node_empty,
		.row_keys = node_row_keys,
		.rows = node_rows,
		.object_status = node_object_figures,
		.status = node_figures,
		.usage = node->tickets ? node_usage : NULL,
		.metrics = node_metrics,
		.connections = list_connections,
		.observed = node_observed,
		.capture = node_capture,
		.capture_take = node_capture_take,
		.port_add = add_port,
		.port_remove = remove_port,
		.ports = list_ports,
		.restored = node_restored,
		.newest = node_checkpoint_newest,
		.restored_queues = node_restored_queues,
		.checkpoint_new = node_checkpoint_new,
		.checkpoint_begin = node_checkpoint_begin,
		.checkpoint_state = node_checkpoint_state,
		.checkpoint_end = node_checkpoint_end,
		.checkpoint_commit = node_checkpoint_commit,
		.checkpoint_abandon = node_checkpoint_abandon,
		.checkpoint_check = node_checkpoint_check,
		.watch = node_watch,
		.checkpoint_wanted = node_journal_wants_checkpoint,
		.roll_back = node_roll_back,
		.close = node_leave_off,
		.leads = node->pair ? pair_leads : NULL,
		.promote = node->pair ? pair_promote : NULL,
		.catalogue_durable = node_catalogue_durable,
		.rows_durable = node_rows_durable,
		.shutdown = node_shutdown,
	};
}
