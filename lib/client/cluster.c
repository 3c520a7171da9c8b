/* SPDX-License-Identifier: BSD-3-Clause */
/* A cluster handle: it is opened, entered by every call, and closed. */
#include "client/client.h"
#include "client/keep.h"
#include "client/run.h"
#include "client/seal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
	IO_THREADS_DEFAULT_MAX = 2,
	CONNECT_TIMEOUT_DEFAULT_MS = 10000,
	CLIENT_PS_MAX = 2 * WIRE_NODES_MAX, /* addresses: each task may be a pair */
};

uint64_t client_deadline_from(uint64_t start_ns, uint64_t deadline_us)
{
	return start_ns + deadline_bounded(deadline_us) * 1000;
}

int client_cluster_enter(struct star_cluster *cluster, bool waits, struct star_error *err)
{
	if (!cluster)
		return star_error_set(err, -EINVAL, "the cluster handle is NULL");
	if (waits && client_io_self(cluster))
		return star_error_set(err, -EDEADLK,
				      "a callback must not wait: use the _async calls there, or another thread");
	if (atomic_fetch_add(&cluster->inside, 1) & CLUSTER_CLOSING) {
		client_cluster_leave(cluster);
		return star_error_set(err, -ECANCELED, "the cluster is being closed");
	}
	return 0;
}

void client_cluster_leave_closing(struct star_cluster *cluster)
{
	pthread_mutex_lock(&cluster->lock);
	atomic_fetch_sub(&cluster->inside, 1);
	pthread_cond_broadcast(&cluster->changed);
	pthread_mutex_unlock(&cluster->lock);
}

int client_cluster_pause_while(struct star_cluster *cluster, const uint32_t *counter, uint32_t count, uint64_t until_ns,
			       struct star_error *err)
{
	const struct timespec until = clock_timespec(until_ns);
	bool closing;
	int rc = 0;

	pthread_mutex_lock(&cluster->lock);
	while (!atomic_load(&cluster->closing) && *counter == count && rc == 0)
		rc = pthread_cond_timedwait(&cluster->changed, &cluster->lock, &until);
	closing = rc == 0 && *counter == count;
	pthread_mutex_unlock(&cluster->lock);
	return closing ? star_error_set(err, -ECANCELED, "the cluster is being closed") : 0;
}

int client_cluster_pause(struct star_cluster *cluster, uint64_t until_ns, struct star_error *err)
{
	static const uint32_t zero;

	return client_cluster_pause_while(cluster, &zero, 0, until_ns, err);
}

/* "host:port,host:port,..."; a task that is a pair may be written as "host:port|host:port". */
static int parse_ps(struct star_cluster *cluster, const char *ps, struct star_error *err)
{
	struct config_address address;
	uint32_t count = 1;

	for (const char *c = ps; *c; c++)
		count += *c == ',' || *c == '|';
	if (count > CLIENT_PS_MAX)
		return star_error_set(err, -E2BIG, "%u addresses of PS tasks: at most %d are possible", count,
				      CLIENT_PS_MAX);
	cluster->ps = calloc(count, sizeof(*cluster->ps));
	if (!cluster->ps)
		return star_error_set(err, -ENOMEM, "out of memory for a cluster");
	while (cluster->ps_count < count) {
		const size_t length = strcspn(ps, ",|");
		char *one = strndup(ps, length);

		if (!one)
			return star_error_set(err, -ENOMEM, "out of memory for a cluster");
		cluster->ps[cluster->ps_count++] = one;
		if (config_parse_address(one, &address, err) < 0)
			return -EINVAL;
		ps += length + 1;
	}
	return 0;
}

/* Takes the control addresses from a worker's file. */
static int copy_ps(struct star_cluster *cluster, const struct config *config, struct star_error *err)
{
	if (config->ps_count > WIRE_NODES_MAX)
		return star_error_set(err, -E2BIG, "%u addresses of PS tasks: at most %d are possible",
				      config->ps_count, WIRE_NODES_MAX);
	cluster->ps = calloc(2 * (size_t)config->ps_count, sizeof(*cluster->ps));
	if (!cluster->ps)
		return star_error_set(err, -ENOMEM, "out of memory for a cluster");
	for (uint32_t i = 0; i < 2 * config->ps_count; i++) {
		const struct config_address *a = config_ps_address(config, i / 2, i % 2);
		char *one = a ? strdup(config_show(a->host, a->port).text) : NULL;

		if (a && !one)
			return star_error_set(err, -ENOMEM, "out of memory for a cluster");
		if (a)
			cluster->ps[cluster->ps_count++] = one;
	}
	return 0;
}

static uint32_t io_threads(const struct config_worker *worker, uint32_t reactors)
{
	uint32_t count = reactors < IO_THREADS_DEFAULT_MAX ? reactors : IO_THREADS_DEFAULT_MAX;

	if (worker->io_threads)
		return worker->io_threads; /* config has made sure of enough cores for pinned or polling ones */
	return count < config_usable_cores() ? count : config_usable_cores();
}

/* The n-th core that this process may use; -1: unknown. */
static int usable_core(uint32_t n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -1;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &set) && n-- == 0)
			return core;
	return -1;
}

static void stop_io(struct star_cluster *cluster, uint32_t started)
{
	atomic_store(&cluster->stop, true);
	for (uint32_t i = 0; i < started; i++)
		client_io_stop(&cluster->io[i]);
}

/* Creates the state of all I/O threads first, because channels point to it, and then the threads. */
static int start_threads(struct star_cluster *cluster, const struct config_worker *worker, const struct layout *layout,
			 struct star_error *err)
{
	const uint32_t count = io_threads(worker, layout->reactors);
	uint32_t started = 0;
	int rc = 0;

	cluster->io = calloc(count, sizeof(*cluster->io));
	if (!cluster->io)
		return star_error_set(err, -ENOMEM, "out of memory for the I/O threads");
	while (rc == 0 && cluster->io_count < count) {
		rc = client_io_init(&cluster->io[cluster->io_count], cluster,
				    !worker->pin	  ? -1
				    : worker->cores_count ? (int)worker->cores[cluster->io_count]
							  : usable_core(cluster->io_count),
				    err);
		if (rc == 0)
			cluster->io_count++;
	}
	if (rc == 0)
		rc = client_route_install(cluster, layout, err);
	while (rc == 0 && started < count) {
		rc = client_io_start(&cluster->io[started], err);
		if (rc == 0)
			started++;
	}
	if (rc == 0)
		rc = client_tickets_start(cluster, layout, err);
	if (rc == 0)
		rc = client_relay_start(cluster, err);
	if (rc < 0)
		stop_io(cluster, started);
	return rc;
}

uint32_t star_reactors(const struct star_cluster *cluster)
{
	return cluster ? atomic_load_explicit(&cluster->route, memory_order_acquire)->reactors : 0;
}

/* Called when no thread uses it any more. */
static void destroy(struct star_cluster *cluster)
{
	struct waiter *waiter;
	struct channel *ch;
	struct star_table *table;
	struct route *route;

	client_tickets_stop(cluster);
	while ((ch = cluster->channels)) {
		cluster->channels = ch->next_all;
		client_channel_destroy(ch);
	}
	while ((waiter = cluster->waiters)) {
		cluster->waiters = waiter->next_all;
		client_waiter_fini(waiter);
		free(waiter);
	}
	for (uint32_t i = 0; i < cluster->io_count; i++)
		client_io_fini(&cluster->io[i]);
	free(cluster->io);
	free(cluster->key_file);
	client_call_pool_fini(&cluster->pool);
	while ((table = cluster->tables)) {
		cluster->tables = table->next;
		free(table);
	}
	client_program_free_all(cluster);
	while ((route = cluster->routes)) {
		cluster->routes = route->next;
		free(route);
	}
	for (uint32_t i = 0; i < cluster->ps_count; i++)
		free(cluster->ps[i]);
	free(cluster->ps);
	if (cluster->transport_state)
		cluster->transport->detach(cluster);
	pthread_cond_destroy(&cluster->changed);
	pthread_mutex_destroy(&cluster->keep_lock);
	pthread_mutex_destroy(&cluster->lock);
	free(cluster);
}

static struct star_cluster *allocate_cluster(struct star_error *err)
{
	struct star_cluster *cluster = aligned_alloc(_Alignof(struct star_cluster), sizeof(*cluster));
	const char *key_file = getenv("STAR_KEY");

	if (!cluster) {
		star_error_set(err, -ENOMEM, "out of memory for a cluster");
		return NULL;
	}
	memset(cluster, 0, sizeof(*cluster));
	TAILQ_INIT(&cluster->relay_queue);
	if (key_file && *key_file)
		cluster->key_file = strdup(key_file);
	if (key_file && *key_file && !cluster->key_file) {
		free(cluster);
		star_error_set(err, -ENOMEM, "out of memory for a cluster");
		return NULL;
	}
	cluster->payload_max = WIRE_PAYLOAD_MAX;
	cluster->pull_bytes = PULL_BYTES;
	clock_condition_init(&cluster->changed);
	pthread_mutex_init(&cluster->lock, NULL);
	pthread_mutex_init(&cluster->keep_lock, NULL);
	return cluster;
}

/* "tcp:host:port,..." (the prefix is optional), or "dpdk:" and a worker's file. */
static int read_address(struct star_cluster *cluster, const char *address, struct config **config,
			struct star_error *err)
{
	*config = NULL;
	cluster->transport = &client_transport_tcp;
	if (strncmp(address, "dpdk:", 5) == 0) {
		*config = config_load_worker(address + 5, err);
		cluster->transport = *config ? client_backend_load(err) : NULL;
		return cluster->transport ? copy_ps(cluster, *config, err) : err->code;
	}
	/* "tcp:3333" is a host named tcp. */
	return parse_ps(cluster, strncmp(address, "tcp:", 4) == 0 && strchr(address + 4, ':') ? address + 4 : address,
			err);
}

static int open_cluster(struct star_cluster *cluster, const struct config *config, uint64_t deadline_ns,
			struct star_error *err)
{
	struct config_worker worker;
	struct layout *layout;
	int rc = config ? 0 : config_worker_environment(&worker, err);

	if (config)
		config_worker_from(config, &worker);
	if (rc == 0) {
		cluster->polling = worker.polling;
		cluster->connect_timeout_ns =
			(worker.connect_timeout_ms ? worker.connect_timeout_ms : CONNECT_TIMEOUT_DEFAULT_MS) *
			UINT64_C(1000000);
		rc = cluster->transport->attach(cluster, config, err);
	}
	if (rc < 0)
		return rc;
	layout = client_catalogue_layout(cluster, deadline_ns, err);
	if (!layout)
		return err->code;
	rc = start_threads(cluster, &worker, layout, err);
	free(layout);
	return rc;
}

struct star_cluster *star_open(const char *ps, uint64_t deadline_us, struct star_error *err)
{
	const uint64_t deadline_ns = client_deadline_from(clock_ns(), deadline_us);
	struct star_cluster *cluster;
	struct config *config;
	struct star_error ignored;
	int rc;

	if (!err)
		err = &ignored;
	if (!ps || !*ps) {
		star_error_set(err, -EINVAL,
			       "no addresses: give those of the PS tasks, as in \"198.18.0.1:3333,198.18.0.2:3333\"");
		return NULL;
	}
	cluster = allocate_cluster(err);
	if (!cluster)
		return NULL;
	rc = read_address(cluster, ps, &config, err);
	if (rc == 0)
		rc = client_keep_init(cluster, err);
	if (rc == 0)
		rc = open_cluster(cluster, config, deadline_ns, err);
	config_free(config);
	if (rc == 0)
		return cluster;
	destroy(cluster);
	return NULL;
}

int star_settle(struct star_cluster *cluster, uint64_t deadline_us, struct star_error *err)
{
	const uint64_t deadline_ns = client_deadline_from(clock_ns(), deadline_us);
	struct star_error ignored;
	int rc;

	err = err ? err : &ignored;
	rc = client_cluster_enter(cluster, true, err);
	if (rc < 0)
		return rc;
	rc = client_keep_settle(cluster, deadline_ns, err);
	client_cluster_leave(cluster);
	return rc;
}

void star_close(struct star_cluster *cluster)
{
	struct star_error err;

	if (!cluster)
		return;
	atomic_fetch_or(&cluster->inside, CLUSTER_CLOSING); /* no push will follow */
	client_keep_settle(cluster, clock_ns() + KEEP_CLOSE_US * UINT64_C(1000), &err);
	pthread_mutex_lock(&cluster->lock);
	atomic_store(&cluster->closing, true);
	pthread_cond_broadcast(&cluster->changed);
	client_catalogue_interrupt(cluster);
	for (struct waiter *k = cluster->waiters; k; k = k->next_all)
		waiter_wake(k);
	for (uint32_t i = 0; i < cluster->io_count; i++)
		waiter_wake(&cluster->io[i].waiter);
	/* Each of them fails its own call and leaves; callbacks still run. */
	while (atomic_load(&cluster->inside) != CLUSTER_CLOSING)
		pthread_cond_wait(&cluster->changed, &cluster->lock);
	pthread_mutex_unlock(&cluster->lock);
	client_relay_stop(cluster);
	stop_io(cluster, cluster->io_count);
	destroy(cluster);
}
