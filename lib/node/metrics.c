/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metrics of reactors, ports and tables. Counters come from the lists of the libraries that count them: a new
 * counter there is a new metric here. They are read while their reactors write them: each is one aligned word.
 */
#include <rte_cycles.h>

#include "metrics/openmetrics.h"
#include "node/journal.h"
#include "node/observe.h"
#include "node/pair_register.h"
#include "service/kept.h"

#define READ(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)

/* Where a reactor's counter is: an offset into the result of counters_of. */
enum source { OF_REACTOR, OF_RPC, OF_SERVICE, OF_KEPT, OF_NET, OF_SESSIONS, OF_SOCKETS, OF_TABLE, OF_JOURNAL };

struct counter {
	struct openmetrics_family family;
	enum source source;
	size_t offset;
};

static const struct counter counters[] = {
#define COUNTER(prefix, kind, source, type, name, text) \
	{ { "star_" prefix "_" #name, OPENMETRICS_##kind, text, source == OF_TABLE ? "table" : "reactor" }, \
	  source, \
	  offsetof(struct type, name) },
#define X(name, text) COUNTER("reactor", COUNTER, OF_REACTOR, reactor_stats, name, text)
	REACTOR_COUNTERS(X, X)
#undef X
#define X(name, text) COUNTER("rpc", COUNTER, OF_RPC, rpc_counters, name, text)
		RPC_COUNTERS(X, X)
#undef X
#define X(name, text) COUNTER("service", COUNTER, OF_SERVICE, service_counters, name, text)
			SERVICE_COUNTERS(X)
#undef X
#define X(name, text) COUNTER("kept", GAUGE, OF_KEPT, kept_stats, name, text)
				KEPT_LEVELS(X)
#undef X
#define X(name, text) COUNTER("kept", COUNTER, OF_KEPT, kept_stats, name, text)
					KEPT_EVENTS(X)
#undef X
#define X(name, kernel, text) COUNTER("net", COUNTER, OF_NET, net_counters, name, text)
						NET_COUNTERS(X, X)
#undef X
#define X(name, text) COUNTER("sessions", COUNTER, OF_SESSIONS, dgram_counters, name, text)
							DGRAM_COUNTERS(X)
#undef X
#define X(name, text) COUNTER("sockets", COUNTER, OF_SOCKETS, ksock_counters, name, text)
								KSOCK_COUNTERS(X)
#undef X
};

/* NULL: this reactor does not have them. */
static const void *counters_of(const struct shard *shard, enum source source)
{
	switch (source) {
	case OF_REACTOR:
		return reactor_stats(shard->reactor);
	case OF_RPC:
		return rpc_counters(shard->rpc);
	case OF_SERVICE:
		return service_counters(shard->service);
	case OF_KEPT:
		return service_kept_stats(shard->service);
	case OF_NET:
		return shard->sockets ? NULL : net_counters(shard->net);
	case OF_SESSIONS:
		return rpc_datagrams(shard->rpc) ? dgram_counters(rpc_datagrams(shard->rpc)) : NULL;
	case OF_SOCKETS:
		return shard->sockets ? ksock_counters(shard->sockets) : NULL;
	case OF_TABLE:
	case OF_JOURNAL:
		return NULL;
	}
	return NULL;
}

struct reactor_text {
	char text[12];
};

static struct reactor_text reactor_name(const struct shard *shard)
{
	struct reactor_text name;

	snprintf(name.text, sizeof(name.text), "%u", shard->index);
	return name;
}

static void write_counter(const struct node *node, const struct counter *counter, const struct openmetrics_page *page)
{
	bool begun = false;

	for (unsigned i = 0; i < node->shards_count; i++) {
		const struct reactor_text name = reactor_name(&node->shards[i]);
		const struct openmetrics_label labels[] = { { "reactor", name.text }, { NULL, NULL } };
		const char *from = counters_of(&node->shards[i], counter->source);

		if (!from)
			continue;
		if (!begun)
			openmetrics_family(page, &counter->family);
		begun = true;
		openmetrics_count(page, &counter->family, labels, READ(*(const uint64_t *)(from + counter->offset)));
	}
}

/* Values of a reactor that are not counters of a list. */
enum level { BUSY, IDLE, CONNECTIONS, SESSIONS, MBUFS, MBUFS_USED, PARAMETER_MEMORY, PARAMETER_LIMIT, ROWS };

static const struct openmetrics_family levels[] = {
	[BUSY] = { "star_reactor_busy_seconds", OPENMETRICS_COUNTER, "time of turns that did work", "reactor" },
	[IDLE] = { "star_reactor_idle_seconds", OPENMETRICS_COUNTER,
		   "time of turns that found nothing to do, and of sleep", "reactor" },
	[CONNECTIONS] = { "star_connections", OPENMETRICS_GAUGE, "TCP connections", "reactor" },
	[SESSIONS] = { "star_sessions", OPENMETRICS_GAUGE, "sessions of workers with DPDK", "reactor" },
	[MBUFS] = { "star_mbufs", OPENMETRICS_GAUGE, "packet buffers", "reactor" },
	[MBUFS_USED] = { "star_mbufs_used", OPENMETRICS_GAUGE, "packet buffers in use, about", "reactor" },
	[PARAMETER_MEMORY] = { "star_parameter_memory_bytes", OPENMETRICS_GAUGE,
			       "memory taken by rows, index and filters", "reactor" },
	[PARAMETER_LIMIT] = { "star_parameter_memory_limit_bytes", OPENMETRICS_GAUGE,
			      "memory for rows, index and filters", "reactor" },
	[ROWS] = { "star_rows", OPENMETRICS_GAUGE, "rows of all tables", "reactor" },
};

static double level_of(const struct shard *shard, enum level level)
{
	const struct reactor_stats *stats = reactor_stats(shard->reactor);
	const struct dgram *sessions = rpc_datagrams(shard->rpc);

	switch (level) {
	case BUSY:
		return (double)READ(stats->busy_cycles) / (double)rte_get_tsc_hz();
	case IDLE:
		return (double)READ(stats->idle_cycles) / (double)rte_get_tsc_hz();
	case CONNECTIONS:
		return shard->sockets ? ksock_connections(shard->sockets) : net_connections(shard->net);
	case SESSIONS:
		return sessions ? dgram_sessions(sessions) : 0;
	case MBUFS:
		return shard->pool->size;
	case MBUFS_USED:
		return node_mbufs_used(shard);
	case PARAMETER_MEMORY:
		return (double)service_figure(shard->service, offsetof(struct store_stats, memory_bytes));
	case PARAMETER_LIMIT:
		return (double)shard->node->arena_bytes;
	case ROWS:
		return (double)service_figure(shard->service, offsetof(struct store_stats, rows));
	}
	return 0;
}

static void write_level(const struct node *node, enum level level, const struct openmetrics_page *page)
{
	openmetrics_family(page, &levels[level]);
	for (unsigned i = 0; i < node->shards_count; i++) {
		const struct reactor_text name = reactor_name(&node->shards[i]);
		const struct openmetrics_label labels[] = { { "reactor", name.text }, { NULL, NULL } };

		openmetrics_real(page, &levels[level], labels, level_of(&node->shards[i], level));
	}
}

static const struct counter table_figures[] = {
#define X(name, text) COUNTER("table", GAUGE, OF_TABLE, store_stats, name, text)
	STORE_LEVELS(X)
#undef X
#define X(name, text) COUNTER("table", COUNTER, OF_TABLE, store_stats, name, text)
		STORE_EVENTS(X)
#undef X
};

static void write_tables(const struct node *node, const struct counter *figure, const struct object_spec *const *tables,
			 uint32_t count, const struct openmetrics_page *page)
{
	/* Reactor by reactor, because the values of each are close together in memory. */
	uint64_t *sums = calloc(count, sizeof(*sums));

	if (!count || !sums) {
		free(sums);
		return;
	}
	for (unsigned s = 0; s < node->shards_count; s++)
		service_table_figures(node->shards[s].service, tables, count, figure->offset, sums);
	openmetrics_family(page, &figure->family);
	for (uint32_t i = 0; i < count; i++) {
		const struct openmetrics_label labels[] = { { "table", tables[i]->name }, { NULL, NULL } };

		openmetrics_count(page, &figure->family, labels, sums[i]);
	}
	free(sums);
}

static const struct openmetrics_family link_family = { "star_port_link_up", OPENMETRICS_GAUGE,
						       "whether the link of a port is up", "port" };

static void write_links(struct node *node, const struct openmetrics_page *page)
{
	bool begun = false;

	pthread_mutex_lock(&node->ports_lock);
	for (unsigned i = 0; i < node->ports_count; i++) {
		struct port *port = node->ports[i].port;
		const struct openmetrics_label labels[] = { { "port", port->name }, { NULL, NULL } };

		if (!port_has_link(port))
			continue;
		if (!begun)
			openmetrics_family(page, &link_family);
		begun = true;
		openmetrics_count(page, &link_family, labels, port_carrier(port));
	}
	pthread_mutex_unlock(&node->ports_lock);
}

static const struct counter register_figures[] = {
	{ { "star_etcd_requests", OPENMETRICS_COUNTER, "Looks at, and changes of, the register of the pair in etcd.",
	    NULL },
	  0,
	  offsetof(struct node_pair_register_figures, requests) },
	{ { "star_etcd_failures", OPENMETRICS_COUNTER, "Those that no member of etcd has answered.", NULL },
	  0,
	  offsetof(struct node_pair_register_figures, failures) },
	{ { "star_etcd_reachable", OPENMETRICS_GAUGE, "1: etcd has answered the last one.", NULL },
	  0,
	  offsetof(struct node_pair_register_figures, reachable) },
};

static void write_register(const struct node *node, const struct counter *figure, const struct openmetrics_page *page)
{
	static const struct openmetrics_label none[] = { { NULL, NULL } };
	struct node_pair_register_figures figures;

	if (!node_pair_register_figures(node, &figures))
		return;
	openmetrics_family(page, &figure->family);
	openmetrics_count(page, &figure->family, none, *(const uint64_t *)((const char *)&figures + figure->offset));
}

static const struct counter journal_figures[] = {
#define X(name, kind, text) \
	{ { "star_journal_" #name, OPENMETRICS_##kind, text, "reactor" }, \
	  OF_JOURNAL, \
	  offsetof(struct journal_figures, name) },
	JOURNAL_FIGURES(X)
#undef X
};

static void write_journal(const struct node *node, const struct counter *figure, const struct openmetrics_page *page)
{
	bool begun = false;

	for (unsigned i = 0; i < node->shards_count; i++) {
		const struct reactor_text name = reactor_name(&node->shards[i]);
		const struct openmetrics_label labels[] = { { "reactor", name.text }, { NULL, NULL } };
		struct journal_figures figures;

		if (!node_journal_figures(node, i, &figures))
			return;
		if (!begun)
			openmetrics_family(page, &figure->family);
		begun = true;
		openmetrics_count(page, &figure->family, labels,
				  *(const uint64_t *)((const char *)&figures + figure->offset));
	}
}

/* Latencies of requests: histograms with few buckets, whose bounds are approximately those of lib/observe. */
static const struct openmetrics_family request_times[] = {
#define X(name, text) \
	[OBSERVE_##name] = { "star_request_" #name "_seconds", OPENMETRICS_HISTOGRAM, text, "reactor, class, le" },
	OBSERVE_TIMES(X)
#undef X
};

/* Bounds are ends of octaves, 1024 ns times powers of two, at which counts are exact; above a millisecond every other
 * one. */
static const struct {
	unsigned octave;
	const char *text;
} ends[] = { { 0, "1.024e-06" },    { 1, "2.048e-06" },	   { 2, "4.096e-06" },	  { 3, "8.192e-06" },
	     { 4, "1.6384e-05" },   { 5, "3.2768e-05" },   { 6, "6.5536e-05" },	  { 7, "0.000131072" },
	     { 8, "0.000262144" },  { 9, "0.000524288" },  { 10, "0.001048576" }, { 12, "0.004194304" },
	     { 14, "0.016777216" }, { 16, "0.067108864" }, { 18, "0.268435456" }, { 20, "1.073741824" } };
enum { ENDS = sizeof(ends) / sizeof(ends[0]) };

static void write_class(const struct shard *shard, enum observe_class class, enum observe_time time,
			const struct openmetrics_page *page)
{
	const struct reactor_text name = reactor_name(shard);
	const struct openmetrics_label labels[] = { { "reactor", name.text },
						    { "class", observe_class_text(class) },
						    { NULL, NULL } };
	uint64_t octaves[OBSERVE_OCTAVES + 1], counts[ENDS], count;
	const char *bounds[ENDS];
	double sum_ns;

	count = observe_octaves(shard->observe, class, time, octaves, &sum_ns);
	if (!count)
		return;
	for (unsigned i = 0; i < ENDS; i++) {
		bounds[i] = ends[i].text;
		counts[i] = octaves[ends[i].octave];
	}
	openmetrics_histogram(page, &request_times[time], labels, bounds, counts, ENDS, count, sum_ns / 1e9);
}

static void write_request_times(const struct node *node, enum observe_time time, const struct openmetrics_page *page)
{
	if (!node->config->observe_requests)
		return;
	openmetrics_family(page, &request_times[time]);
	for (unsigned i = 0; i < node->shards_count; i++)
		for (enum observe_class c = 0; c < OBSERVE_CLASSES_COUNT; c++)
			write_class(&node->shards[i], c, time, page);
}

enum {
	REGISTER = sizeof(register_figures) / sizeof(register_figures[0]),
	JOURNAL = sizeof(journal_figures) / sizeof(journal_figures[0]),
	LEVELS = sizeof(levels) / sizeof(levels[0]),
	COUNTERS = sizeof(counters) / sizeof(counters[0]),
	FIGURES = sizeof(table_figures) / sizeof(table_figures[0]),
};

const struct openmetrics_family *node_metric(unsigned number)
{
	if (number < LEVELS)
		return &levels[number];
	if (number < LEVELS + COUNTERS)
		return &counters[number - LEVELS].family;
	if (number < LEVELS + COUNTERS + FIGURES)
		return &table_figures[number - LEVELS - COUNTERS].family;
	number -= LEVELS + COUNTERS + FIGURES;
	if (number < JOURNAL)
		return &journal_figures[number].family;
	number -= JOURNAL;
	if (number < OBSERVE_TIMES_COUNT)
		return &request_times[number];
	number -= OBSERVE_TIMES_COUNT;
	if (number == 0)
		return &link_family;
	return number - 1 < REGISTER ? &register_figures[number - 1].family : NULL;
}

bool node_metrics(void *ctx, unsigned number, const struct object_spec *const *tables, uint32_t count,
		  const struct openmetrics_page *page)
{
	struct node *node = ctx;

	if (number < LEVELS)
		write_level(node, (enum level)number, page);
	else if (number < LEVELS + COUNTERS)
		write_counter(node, &counters[number - LEVELS], page);
	else if (number < LEVELS + COUNTERS + FIGURES)
		write_tables(node, &table_figures[number - LEVELS - COUNTERS], tables, count, page);
	else if (number < LEVELS + COUNTERS + FIGURES + JOURNAL)
		write_journal(node, &journal_figures[number - LEVELS - COUNTERS - FIGURES], page);
	else if (number < LEVELS + COUNTERS + FIGURES + JOURNAL + OBSERVE_TIMES_COUNT)
		write_request_times(node, (enum observe_time)(number - LEVELS - COUNTERS - FIGURES - JOURNAL), page);
	else if (number == LEVELS + COUNTERS + FIGURES + JOURNAL + OBSERVE_TIMES_COUNT)
		write_links(node, page);
	else if (number <= LEVELS + COUNTERS + FIGURES + JOURNAL + OBSERVE_TIMES_COUNT + REGISTER)
		write_register(
			node,
			&register_figures[number - (LEVELS + COUNTERS + FIGURES + JOURNAL + OBSERVE_TIMES_COUNT) - 1],
			page);
	else
		return false;
	return true;
}
