/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/control/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "jsonrpc/object_json.h"

enum { WAIT_US = 10000000, NAP_US = 2000 };

static int fake_install(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct fake_plane *p = ctx;
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	p->collided |= p->inside++ > 0;
	p->holding++;
	pthread_cond_broadcast(&p->changed);
	while (p->hold)
		pthread_cond_wait(&p->changed, &p->lock);
	p->holding--;
	if (p->fail)
		rc = star_error_set(err, p->fail, "the parameter memory is full");
	else if (p->installed_count < INSTALLED_MAX)
		p->installed[p->installed_count++] = *spec;
	p->inside--;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* As those begin that must not meet another one. */
static struct fake_plane *enter_alone(void *ctx)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->collided |= p->inside > 0;
	return p;
}

static int fake_set_layout(void *ctx, const struct control_layout *layout, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);
	int rc = 0;

	while (p->hold_layout)
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->fail_layout) {
		rc = star_error_set(err, p->fail_layout, "a reactor does not answer");
	} else {
		p->epoch = layout->epoch;
		p->cluster_reactors = layout->cluster_reactors;
		p->first_reactor = layout->first_reactor;
		p->taken_back = layout->taken_back;
		p->lineage = layout->lineage;
		p->layouts++;
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static struct control_lineage fake_lineage(void *ctx)
{
	const struct fake_plane *p = ctx;

	return p->own_lineage.id ? p->own_lineage : (struct control_lineage){ .id = p->lineage };
}

static void fake_follow_lineage(void *ctx, const struct control_lineage *lineage)
{
	((struct fake_plane *)ctx)->own_lineage = *lineage;
}

static int fake_history(void *ctx, struct control_history *history, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);

	(void)err;
	*history = p->history;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static uint32_t fake_incarnation(void *ctx)
{
	const struct fake_plane *p = ctx;

	return p->incarnation;
}

static bool fake_checkpoint_wanted(void *ctx)
{
	const struct fake_plane *p = ctx;

	return __atomic_load_n(&p->wants, __ATOMIC_RELAXED);
}

static int fake_sweep(void *ctx, const struct object_spec *spec, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);
	int rc = 0;

	if (p->fail) {
		rc = star_error_set(err, p->fail, "reactor 0 does not answer");
	} else {
		p->swept = spec->id;
		p->sweep_left = 3;
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* Emptying takes three looks, the one of the begin apart. */
static int fake_empty(void *ctx, const struct object_spec *spec, bool begin, uint64_t *left, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);
	int rc = 0;

	if (p->fail) {
		rc = star_error_set(err, p->fail, "reactor 0 does not answer");
	} else if (begin) {
		p->emptied = spec->id;
		p->empty_left = 3;
		p->empty_begun++;
	} else if (p->empty_left) {
		p->empty_left--;
	}
	*left += p->empty_left;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static void fake_forget(void *ctx, uint32_t id)
{
	struct fake_plane *p = enter_alone(ctx);
	unsigned left = 0;

	p->forgotten++;
	for (unsigned i = 0; i < p->installed_count; i++)
		if (p->installed[i].id != id)
			p->installed[left++] = p->installed[i];
	p->installed_count = left;
	pthread_mutex_unlock(&p->lock);
}

static int fake_dropped_write(void *ctx, const uint32_t *generations, struct star_error *err)
{
	struct fake_plane *p = ctx;
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	p->dropped_written++;
	if (p->fail_dropped)
		rc = star_error_set(err, p->fail_dropped, "the disk is full");
	else
		memcpy(p->dropped, generations, sizeof(p->dropped));
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static int fake_catalogue_durable(void *ctx, uint64_t version, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);
	const int rc = p->fail_durable;

	p->durable = version;
	pthread_mutex_unlock(&p->lock);
	return rc ? star_error_set(err, rc, "its standby does not answer") : 0;
}

static int fake_rows_durable(void *ctx, struct star_error *err)
{
	struct fake_plane *p = enter_alone(ctx);
	const int rc = p->fail_durable;

	p->rows_durable++;
	pthread_mutex_unlock(&p->lock);
	return rc ? star_error_set(err, rc, "its standby does not answer") : 0;
}

/* A sweep takes three looks. */
static json_t *fake_object_status(void *ctx, const struct object_spec *spec, bool by_reactor)
{
	struct fake_plane *p = ctx;
	unsigned left = 0;

	pthread_mutex_lock(&p->lock);
	if (p->swept == spec->id && p->sweep_left)
		left = --p->sweep_left;
	pthread_mutex_unlock(&p->lock);
	return json_pack("{s:i, s:i, s:i, s:i, s:i}", "rows", 7 * (int)spec->id, "memory_bytes", 65536, "pushes", 3,
			 "evicted", p->swept == spec->id ? 4 : 0, "sweep_left", (int)left);
}

/* Keys 1 and 2 from 0 on, then that is all; an odd key has a row. Of a reply no more than two rows. */
static int fake_row_keys(void *ctx, const struct object_spec *spec, struct control_row_keys *which, json_t *keys,
			 struct star_error *err)
{
	if (which->reactor)
		return star_error_set(err, -EINVAL, "there is no reactor %u: this node has 0 to 0", which->reactor);
	json_array_append_new(keys, json_integer(which->at ? 3 : 1));
	which->at = which->at ? 0 : UINT64_MAX;
	return 0;
}

static int fake_rows(void *ctx, const struct object_spec *spec, const uint64_t *keys, uint32_t count, json_t *records,
		     struct star_error *err)
{
	for (uint32_t i = 0; i < count && i < 2; i++)
		json_array_append_new(records, keys[i] % 2 ? json_string("0123") : json_null());
	return 0;
}

static json_t *fake_status(void *ctx)
{
	return json_pack("{s:b, s:[{s:i, s:i, s:{s:i, s:i}}], s:s}", "polling", false, "reactors", "index", 0,
			 "requests", 42, "counters", "TcpInSegs", 5, "TcpExtTCPSackRecovery", 1, "name",
			 "must not replace the node's name");
}

/* A connection with everything that there may be, or none if another reactor than 0 is asked for. */
static int fake_connections(void *ctx, const struct control_connections *which, json_t **result, struct star_error *err)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	snprintf(p->asked, sizeof(p->asked), "%d %s %s %u", which->reactor, which->state ? which->state : "-",
		 which->peer ? which->peer : "-", which->limit);
	pthread_mutex_unlock(&p->lock);
	if (which->state && strcmp(which->state, "nonsense") == 0)
		return star_error_set(err, -EINVAL, "there is no state \"nonsense\"");
	*result = json_pack(
		"{s:b, s:[{s:i, s:s, s:s, s:s, s:i, s:i, s:[s, s], s:[i, i], s:s, s:s, s:i, s:i, s:i, s:i, s:i, "
		"s:{s:s, s:i}}]}",
		"more", true, "connections", "reactor", 1, "state", "ESTAB", "local", "198.18.0.2:5555", "peer",
		"[2001:2::1]:40000\033", "receive_queue", 3, "send_queue", 4, "options", "ts", "sack", "wscale", 7, 5,
		"congestion", "cubic", "recovery", "loss", "rto_us", 204000, "rtt_us", 51, "rttvar_us", 12, "cwnd",
		14480, "retransmitted_total", 2, "timer", "name", "retransmit", "us", 1500);
	return 0;
}

/* Requests with everything that there may be; names as somebody may have chosen them. */
static int fake_observed(void *ctx, const struct control_observed *which, json_t **result, struct star_error *err)
{
	static const char *const answers[] = {
		[CONTROL_LATENCY] = "{\"all\": [], \"reactors\": []}",
		[CONTROL_SLOW] =
			"{\"looked_at\": 77, \"requests\": [{\"ago_s\": 1.5, \"reactor\": 1, \"total_us\": 5300, "
			"\"wait_us\": 5000, \"run_us\": 2.5, \"class\": \"pull\", \"table\": \"w\\u001bx\", "
			"\"keys\": 3, \"peer\": \"198.18.0.1:40000\", \"status\": \"ok\", "
			"\"why\": [\"waited behind\\u001b others\"]}]}",
		[CONTROL_TRACE] = "{\"reactors\": 2, \"next\": 0, \"records\": []}",
		[CONTROL_HOT] =
			"{\"samples\": 5, \"of_keys\": 320, \"partitions\": [], \"keys\": [{\"table\": \"w\", \"key\": "
			"\"18446744073709551615\", \"reactor\": 0, \"percent\": 40}]}",
		[CONTROL_HISTORY] = "{\"period_s\": 10, \"at\": [0]}",
	};
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	snprintf(p->asked, sizeof(p->asked), "%d %d %u %u", which->what, which->reactor, which->limit, which->seconds);
	pthread_mutex_unlock(&p->lock);
	*result = json_loads(answers[which->what], 0, NULL);
	return 0;
}

static int fake_port_add(void *ctx, const struct config_port *port, int number, json_t **result, struct star_error *err)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->port = *port;
	p->port_number = number;
	p->ports++;
	pthread_mutex_unlock(&p->lock);
	*result = json_pack("{s:s}", "name", port->device);
	return 0;
}

static int fake_port_remove(void *ctx, const char *name, json_t **result, struct star_error *err)
{
	struct fake_plane *p = ctx;
	bool last;

	pthread_mutex_lock(&p->lock);
	last = p->ports == 0;
	p->ports -= !last;
	pthread_mutex_unlock(&p->lock);
	if (last)
		return star_error_set(err, -EBUSY, "%s is the last port", name);
	*result = json_pack("{s:s, s:i}", "name", name, "connections", 3);
	return 0;
}

/* ---- checkpoints, all of which are written at once; the newest is 7 ---- */

static int fake_restored(void *ctx, uint64_t *id, struct object_spec **specs, uint32_t *count, struct star_error *err)
{
	*id = ((const struct fake_plane *)ctx)->restored;
	*count = 0;
	return 0;
}

static int fake_checkpoint_new(void *ctx, struct control_checkpoint *checkpoint, struct star_error *err)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->holding_new++;
	while (p->hold_new)
		pthread_cond_wait(&p->changed, &p->lock);
	p->holding_new--;
	pthread_mutex_unlock(&p->lock);
	checkpoint->id = 8;
	strcpy(checkpoint->name, "00000008-full.partial");
	return 0;
}

static int fake_checkpoint_begin(void *ctx, const struct control_checkpoint *checkpoint, struct star_error *err)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->checkpoint = *checkpoint;
	p->begun++;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static json_t *fake_checkpoint_state(void *ctx)
{
	struct fake_plane *p = ctx;
	json_t *state;

	pthread_mutex_lock(&p->lock);
	p->holding_state++;
	while (p->hold_state)
		pthread_cond_wait(&p->changed, &p->lock);
	p->holding_state--;
	state = json_pack("{s:I, s:b, s:s, s:[]}", "id", (json_int_t)p->checkpoint.id, "loading", p->loading, "state",
			  !p->begun	 ? "idle"
			  : p->slow_part ? "writing"
					 : "written",
			  "files");
	pthread_mutex_unlock(&p->lock);
	return state;
}

static void fake_checkpoint_end(void *ctx, uint64_t id, bool kept, uint32_t sum)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->ended++;
	p->kept += kept;
	p->sum = sum;
	while (p->hold_end)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static int fake_checkpoint_commit(void *ctx, struct control_checkpoint *checkpoint, uint32_t cluster_reactors,
				  const struct object_spec *const *specs, uint32_t count, const json_t *files,
				  const json_t *queues, struct star_error *err)
{
	struct fake_plane *p = ctx;

	int rc;

	pthread_mutex_lock(&p->lock);
	p->holding_commit++;
	while (p->hold_commit)
		pthread_cond_wait(&p->changed, &p->lock);
	p->holding_commit--;
	checkpoint->sum = 4711;
	rc = p->fail_commit;
	p->committed += rc == 0;
	pthread_mutex_unlock(&p->lock);
	return rc ? star_error_set(err, rc, "the disk is full") : 0;
}

static void fake_checkpoint_abandon(void *ctx, const struct control_checkpoint *checkpoint)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->abandoned++;
	pthread_mutex_unlock(&p->lock);
}

static int fake_checkpoint_check(void *ctx, uint64_t *id, struct star_error *err)
{
	struct fake_plane *p = ctx;
	int fail;

	pthread_mutex_lock(&p->lock);
	fail = p->fail_check;
	pthread_mutex_unlock(&p->lock);
	*id = *id ? *id : 7;
	return fail ? star_error_set(err, fail, "block 5 is damaged in /cut\xc3") : 0;
}

static void fake_roll_back(void *ctx, uint64_t id)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->rolls_back = id;
	pthread_mutex_unlock(&p->lock);
}

static void fake_shutdown(void *ctx)
{
	struct fake_plane *p = ctx;

	pthread_mutex_lock(&p->lock);
	p->shutdowns++;
	pthread_mutex_unlock(&p->lock);
}

uint16_t free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
		unit_fail(__FILE__, __LINE__, "no free port: %s", strerror(errno));
	close(fd);
	return ntohs(address.sin_port);
}

void cluster_init(struct cluster *cluster, unsigned count)
{
	memset(cluster, 0, sizeof(*cluster));
	cluster->count = count;
	unit_folder(cluster->folder, "control");
	for (unsigned i = 0; i < count; i++) {
		struct config_endpoint *endpoint = &cluster->endpoints[i];
		struct node *node = &cluster->nodes[i];

		strcpy(cluster->ps[i].host, "127.0.0.1");
		cluster->ps[i].port = free_port();
		snprintf(node->address, sizeof(node->address), "127.0.0.1:%u", cluster->ps[i].port);
		endpoint->control = cluster->ps[i];
		snprintf(endpoint->data.host, sizeof(endpoint->data.host), "198.18.0.%u", i + 1);
		endpoint->data.port = 5555;
	}
	for (unsigned i = 0; i < count; i++) {
		struct config *config = &cluster->nodes[i].config;

		strcpy(config->job_name, "ps");
		config->task_index = i;
		config->ps = cluster->ps;
		config->ps_count = count;
		config->endpoints = cluster->endpoints;
		config->endpoints_count = count;
		config->own = cluster->endpoints[i];
		config->reactors = i + 1;
		config->partitions = 16384;
		config->request_mib = 4;
		config->connect_timeout_ms = 3000;
		snprintf(config->control_socket, sizeof(config->control_socket), "%s/ps-%u.sock", cluster->folder, i);
	}
}

bool node_start(struct cluster *cluster, unsigned task, uint32_t incarnation)
{
	struct node *node = &cluster->nodes[task];
	struct star_error err = { 0 };
	const struct control_options options = {
		.config = &node->config,
		.incarnation = incarnation,
		.data_plane = { .ctx = &node->plane,
				.install = fake_install,
				.set_layout = fake_set_layout,
				.incarnation = fake_incarnation,
				.history = fake_history,
				.lineage = fake_lineage,
				.follow_lineage = fake_follow_lineage,
				.checkpoint_wanted = fake_checkpoint_wanted,
				.sweep = fake_sweep,
				.empty = fake_empty,
				.row_keys = fake_row_keys,
				.rows = fake_rows,
				.forget = fake_forget,
				.dropped_write = fake_dropped_write,
				.catalogue_durable = fake_catalogue_durable,
				.rows_durable = fake_rows_durable,
				.object_status = fake_object_status,
				.status = fake_status,
				.connections = fake_connections,
				.observed = fake_observed,
				.capture = fake_capture,
				.capture_take = fake_capture_take,
				.port_add = fake_port_add,
				.port_remove = fake_port_remove,
				.ports = fake_ports,
				.restored = fake_restored,
				.checkpoint_new = fake_checkpoint_new,
				.checkpoint_begin = fake_checkpoint_begin,
				.checkpoint_state = fake_checkpoint_state,
				.checkpoint_end = fake_checkpoint_end,
				.checkpoint_commit = fake_checkpoint_commit,
				.checkpoint_abandon = fake_checkpoint_abandon,
				.checkpoint_check = fake_checkpoint_check,
				.roll_back = fake_roll_back,
				.shutdown = fake_shutdown },
	};

	memset(&node->plane, 0, sizeof(node->plane));
	node->plane.restored = node->begins_with;
	node->plane.history = node->history;
	node->plane.incarnation = node->inherits ? node->inherits : incarnation;
	node->plane.hold_layout = node->loads_for_long;
	node->plane.fail = node->fail_from_start;
	pthread_mutex_init(&node->plane.lock, NULL);
	pthread_cond_init(&node->plane.changed, NULL);
	node->control = control_create(&options, &err);
	return node->control || unit_fail(__FILE__, __LINE__, "node %u does not start: %s", task, err.text);
}

void node_stop(struct cluster *cluster, unsigned task)
{
	struct node *node = &cluster->nodes[task];

	if (!node->control)
		return;
	control_destroy(node->control);
	node->control = NULL;
	CHECK(!node->plane.collided);
	pthread_cond_destroy(&node->plane.changed);
	pthread_mutex_destroy(&node->plane.lock);
}

bool cluster_start(struct cluster *cluster)
{
	struct layout *layout;

	for (unsigned i = 0; i < cluster->count; i++)
		if (!node_start(cluster, i, 100 + i))
			return false;
	layout = wait_layout(cluster, 1);
	free(layout);
	return layout;
}

void cluster_fini(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++)
		node_stop(cluster, i);
	if (rmdir(cluster->folder) < 0)
		unit_fail(__FILE__, __LINE__, "%s is not empty: a node left its socket", cluster->folder);
}

json_t *call(const char *address, const char *method, json_t *params, struct star_error *err)
{
	struct jsonrpc_client *client = jsonrpc_connect(address, CALL_US, err);
	json_t *result;

	if (!client) {
		json_decref(params);
		return NULL;
	}
	result = jsonrpc_call(client, method, params, CALL_US, err);
	jsonrpc_close(client);
	return result;
}

struct layout *wait_layout(const struct cluster *cluster, uint32_t epoch)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	struct star_error err = { 0 };

	for (;;) {
		json_t *json = call(cluster->nodes[0].address, "layout", NULL, &err);
		struct layout *layout = json ? jsonrpc_layout_decode(json, &err) : NULL;

		json_decref(json);
		if (layout && layout->epoch >= epoch)
			return layout;
		free(layout);
		if (clock_us() > until_us) {
			unit_fail(__FILE__, __LINE__, "no layout of epoch %u within ten seconds: %s", epoch, err.text);
			return NULL;
		}
		usleep(NAP_US);
	}
}

uint64_t plane_figure(struct node *node, const uint64_t *at)
{
	uint64_t value;

	pthread_mutex_lock(&node->plane.lock);
	value = *at;
	pthread_mutex_unlock(&node->plane.lock);
	return value;
}

/* Waits until a figure of the data plane is at least so much. */
static bool wait_for(struct node *node, const uint64_t *figure, uint64_t least, const char *what)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	for (;;) {
		const uint64_t now = plane_figure(node, figure);

		if (now >= least)
			return true;
		if (clock_us() > until_us)
			return unit_fail(__FILE__, __LINE__, "%s is %" PRIu64 ", not %" PRIu64 " within ten seconds",
					 what, now, least);
		usleep(NAP_US);
	}
}

bool wait_epoch(struct node *node, uint32_t epoch)
{
	return wait_for(node, &node->plane.epoch, epoch, "the epoch that the data plane serves");
}

bool wait_installed(struct node *node, unsigned count)
{
	return wait_for(node, &node->plane.installed_count, count, "the number of installed objects");
}

bool wait_holding(struct node *node, unsigned count)
{
	return wait_for(node, &node->plane.holding, count, "the number of installs in progress");
}

void set_hold(struct node *node, bool hold)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.hold = hold;
	pthread_cond_broadcast(&node->plane.changed);
	pthread_mutex_unlock(&node->plane.lock);
}

void end_hold_layout(struct node *node)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.hold_layout = false;
	pthread_cond_broadcast(&node->plane.changed);
	pthread_mutex_unlock(&node->plane.lock);
}

void set_fail(struct node *node, int fail)
{
	pthread_mutex_lock(&node->plane.lock);
	node->plane.fail = fail;
	pthread_mutex_unlock(&node->plane.lock);
}

bool has_installed(struct node *node, uint32_t id, const char *name)
{
	bool has = false;

	pthread_mutex_lock(&node->plane.lock);
	for (unsigned i = 0; i < node->plane.installed_count; i++)
		has |= node->plane.installed[i].id == id && strcmp(node->plane.installed[i].name, name) == 0;
	pthread_mutex_unlock(&node->plane.lock);
	return has;
}

json_t *table_json(const char *name, uint32_t dim)
{
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:f, s:i, s:s, s:f, s:f, s:f}", "name", name, "kind", "table",
			 "dtype", "float32", "dim", (int)dim, "initializer", "uniform", "scale", 0.5, "seed", 7,
			 "optimizer", "adagrad", "rate", 0.1, "epsilon", 1e-10, "initial_accumulator", 0.1);
}

int create_table(const struct node *node, const char *name, uint32_t dim, struct star_error *err)
{
	json_t *result = call(node->address, "create", table_json(name, dim), err);
	const int id = result ? (int)json_integer_value(json_object_get(result, "id")) : err->code;

	json_decref(result);
	return id;
}
