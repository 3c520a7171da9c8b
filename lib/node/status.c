/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's metrics as JSON. Counters are read while their reactors write them: each is one aligned word. */
#include <rte_cycles.h>

#include "jsonrpc/member.h"
#include "node/journal.h"
#include "node/pair.h"
#include "node/observe.h"
#include "secure/ticket.h"
#include "service/kept.h"

#define READ(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)

static json_t *addresses_json(const struct config_port *port)
{
	json_t *addresses = json_array();

	for (unsigned i = 0; i < port->addresses_count; i++)
		json_array_append_new(addresses,
				      json_sprintf("%s/%u", port->addresses[i].host, port->addresses[i].prefix));
	return addresses;
}

static json_t *offloads_json(const struct port *port)
{
	json_t *offloads = json_array();

	for (unsigned i = 0; port_offload_text(i); i++)
		if (port->offloads >> i & 1)
			json_array_append_new(offloads, json_string(port_offload_text(i)));
	return offloads;
}

static json_t *port_json(const struct node_port *p)
{
	char mac[RTE_ETHER_ADDR_FMT_SIZE];
	json_t *json;

	rte_ether_format_addr(mac, sizeof(mac), &p->port->mac);
	json = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i}", "name", p->port->name, "steering",
			 port_steers_text(p->port->steers), "interface", p->config.interface, "mac", mac, "addresses",
			 addresses_json(&p->config), "offloads", offloads_json(p->port), "vlan", (int)p->config.vlan,
			 "mtu", (int)p->port->mtu);
	json_object_set_new(json, "wakes", json_string(port_wakes_text(p->port)));
	if (port_has_link(p->port)) {
		json_object_set_new(json, "state", json_string(port_state_text(port_state(p->port))));
		json_object_set_new(json, "link", json_boolean(port_carrier(p->port)));
	}
	if (port_is_nic(p->port))
		json_object_set_new(json, "numa_node", json_integer(port_numa_of_device(&p->config)));
	if (p->config.options[0])
		json_object_set_new(json, "options", json_string(p->config.options));
	if (p->port->memif)
		json_object_set_new(json, "client", json_boolean(memif_connected(p->port->memif)));
	return json;
}

json_t *node_ports(struct node *node)
{
	json_t *ports = json_array();

	pthread_mutex_lock(&node->ports_lock);
	for (unsigned i = 0; i < node->ports_count; i++)
		json_array_append_new(ports, port_json(&node->ports[i]));
	pthread_mutex_unlock(&node->ports_lock);
	return ports;
}

static void put_count(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static const struct dgram_counters *sessions_of(const struct shard *shard)
{
	static const struct dgram_counters none;
	const struct dgram *dgram = rpc_datagrams(shard->rpc);

	return dgram ? dgram_counters(dgram) : &none;
}

static void put_reason(json_t *errors, const char *name, uint64_t value)
{
	if (value)
		put_count(errors, name, value);
}

/* All errors by reason; reasons that never occurred are left out. */
static json_t *errors_json(const struct shard *shard)
{
	const struct kept_stats *kept = service_kept_stats(shard->service);
	const struct net_counters *net = net_counters(shard->net);
	const struct rpc_counters *rpc = rpc_counters(shard->rpc);
	const struct reactor_stats *stats = reactor_stats(shard->reactor);
	const struct dgram_counters *sessions = sessions_of(shard);
	json_t *errors = json_object();

#define X(...)
#define F(name, ...) put_reason(errors, #name, READ(stats->name));
	REACTOR_COUNTERS(X, F)
#undef F
#define F(name, ...) put_reason(errors, #name, READ(rpc->name));
	RPC_COUNTERS(X, F)
#undef F
#define F(name, ...) put_reason(errors, #name, READ(net->name));
	NET_COUNTERS(X, F)
#undef F
#undef X
#define X(name, ...) put_reason(errors, "kept_" #name, READ(kept->name));
	KEPT_EVENTS(X)
#undef X
	put_reason(errors, "request_errors", READ(rpc->errors));
	/* Errors that both streams and sessions count. */
	put_reason(errors, "bad_tags", READ(rpc->bad_tags) + READ(sessions->bad_tags));
	put_reason(errors, "strangers", READ(rpc->strangers) + READ(sessions->strangers));
	put_reason(errors, "revoked", READ(rpc->revoked) + READ(sessions->revoked));
	return errors;
}

/* The stack's counters under the names that the kernel's have in nstat, and those of sessions; zeros are left out. */
static json_t *counters_json(const struct net_counters *net, const struct dgram_counters *sessions,
			     const struct ksock *sockets)
{
	static const struct ksock_counters no_sockets;
	const struct ksock_counters *kernel = sockets ? ksock_counters(sockets) : &no_sockets;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
#define X(name, kernel, text) { kernel, READ(net->name) },
		NET_COUNTERS(X, X)
#undef X
#define X(name, text) { "Dgram." #name, READ(sessions->name) },
			DGRAM_COUNTERS(X)
#undef X
#define X(name, text) { "Socket." #name, READ(kernel->name) },
				KSOCK_COUNTERS(X)
#undef X
	};
	json_t *json = json_object();

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (counters[i].value)
			put_count(json, counters[i].name, counters[i].value);
	return json;
}

static json_t *shard_json(const struct shard *shard)
{
	const struct reactor_stats *stats = reactor_stats(shard->reactor);
	const struct service_counters *service = service_counters(shard->service);
	const struct store_stats store = service_store_stats(shard->service);
	const struct kept_stats *kept = service_kept_stats(shard->service);
	const uint64_t busy = READ(stats->busy_cycles), cycles = busy + READ(stats->idle_cycles);
	json_t *json = json_object();

	put_count(json, "index", shard->index);
	if (shard->node->config->pin)
		put_count(json, "core", shard->node->config->cores[shard->index]);
	if (shard->numa >= 0)
		put_count(json, "numa_node", (uint64_t)shard->numa);
	put_count(json, "connections",
		  shard->sockets ? ksock_connections(shard->sockets) : net_connections(shard->net));
	put_count(json, "sessions", rpc_datagrams(shard->rpc) ? dgram_sessions(rpc_datagrams(shard->rpc)) : 0);
	put_count(json, "requests", READ(rpc_counters(shard->rpc)->requests));
	put_count(json, "pulls", READ(service->pulls));
	put_count(json, "pushes", READ(service->pushes));
	put_count(json, "commits", READ(service->commits));
	put_count(json, "late_pushes", READ(service->late));
	put_count(json, "rows_pulled", READ(service->rows_pulled));
	put_count(json, "rows_pushed", READ(service->rows_pushed));
	put_count(json, "rows", store.rows);
	put_count(json, "rows_refused", store.refused);
	put_count(json, "rows_evicted", store.evicted);
	put_count(json, "memory_bytes", store.memory_bytes);
	put_count(json, "memory_limit_bytes", shard->node->arena_bytes);
	put_count(json, "kept_entries", READ(kept->entries));
	put_count(json, "kept_bytes", READ(kept->bytes));
	put_count(json, "mbufs_used", node_mbufs_used(shard));
	put_count(json, "mbufs", shard->pool->size);
	json_object_set_new(json, "busy_percent", json_real(cycles ? 100.0 * (double)busy / (double)cycles : 0));
	json_object_set_new(json, "busy_s", json_real((double)busy / (double)rte_get_tsc_hz()));
	put_count(json, "sleeps", READ(stats->sleeps));
	put_count(json, "received", READ(stats->received));
	put_count(json, "sent", READ(stats->sent));
	put_count(json, "handed_over", READ(stats->handed_over));
	put_count(json, "handed_in", READ(stats->handed_in));
	if (shard->observe)
		json_object_set_new(json, "latency_us", node_latency_summary(shard));
	json_object_set_new(json, "errors", errors_json(shard));
	json_object_set_new(json, "counters",
			    counters_json(net_counters(shard->net), sessions_of(shard), shard->sockets));
	return json;
}

static json_t *store_stats_json(const struct store_stats *stats)
{
	json_t *json = json_object();

#define X(name, text) put_count(json, #name, stats->name);
	STORE_STATS(X)
#undef X
	return json;
}

json_t *node_object_status(const struct node *node, const struct object_spec *spec, bool by_reactor)
{
	json_t *json, *reactors = by_reactor ? json_array() : NULL;
	struct store_stats sum = { 0 };
	uint64_t left = 0, step = 0;

	for (unsigned i = 0; i < node->shards_count; i++) {
		struct store_stats own = { 0 };

		step = RTE_MAX(step, service_table_step(node->shards[i].service, spec->id));
		service_table_stats(node->shards[i].service, spec->id, &sum);
		left += service_sweep_left(node->shards[i].service, spec->id);
		if (!by_reactor)
			continue;
		service_table_stats(node->shards[i].service, spec->id, &own);
		json_array_append_new(reactors, store_stats_json(&own));
	}
	json = store_stats_json(&sum);
	put_count(json, "sweep_left", left);
	json_object_set_new(json, "step", jsonrpc_member_from_u64(step));
	if (by_reactor)
		json_object_set_new(json, "reactors", reactors);
	return json;
}

void node_usage(void *ctx, const char *principal, struct secure_usage *usage)
{
	const struct node *node = ctx;
	struct store_stats sum = { 0 };
	bool makes[SECURE_TABLES];
	uint32_t account;

	if (!secure_tickets_account(node->tickets, principal, &account))
		return;
	secure_tickets_makes(node->tickets, account, makes);
	for (unsigned i = 0; i < node->shards_count; i++) {
		rpc_quota_usage(node->shards[i].rpc, account, usage);
		for (uint32_t id = 0; id < SECURE_TABLES; id++)
			if (makes[id])
				service_table_stats(node->shards[i].service, id, &sum);
	}
	usage->used[SECURE_QUOTA_MEMORY] += sum.memory_bytes;
}

json_t *node_status(struct node *node)
{
	json_t *reactors = json_array(), *json = json_object(), *journal = node_journal_status(node);
	json_t *pair = node_pair_status(node);

	for (unsigned i = 0; i < node->shards_count; i++)
		json_array_append_new(reactors, shard_json(&node->shards[i]));
	json_object_set_new(json, "hugepages", json_boolean(port_eal_hugepages()));
	json_object_set_new(json, "polling", json_boolean(node->config->polling));
	json_object_set_new(json, "ports", node_ports(node));
	json_object_set_new(json, "reactors", reactors);
	if (journal)
		json_object_set_new(json, "journal", journal);
	if (pair)
		json_object_set_new(json, "pair", pair);
	return json;
}
