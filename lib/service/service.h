/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane's operations on a shard: validates a request whole, then executes its operations in batches and slices.
 * One thread, the reactor's; it allocates at creation only. service_install, service_set_layout and service_sweep_begin run on
 * that thread too: the control plane sends them as messages.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdint.h>

#include "rpc/rpc.h"
#include "star_error.h"
#include "store/store.h"

/* Plain counters with one writer. */
struct service_counters {
	uint64_t pulls, pushes; /* operations */
	uint64_t rows_pulled, rows_pushed;
	uint64_t direct; /* requests that went the straight way of small ones */
};

struct service_options {
	uint32_t incarnation;
	uint32_t partitions;
	struct store *store; /* the shard's */
	double share;	     /* of all partitions, that the shard may be expected to have before there is a layout */
};

struct service;

struct service *service_create(const struct service_options *options, struct star_error *err);
void service_destroy(struct service *service);

/* What rpc_server_create is to be given. */
struct rpc_service service_rpc(struct service *service);

/* Makes a table, or does nothing when it is there. 0 or a negative errno. */
int service_install(struct service *service, const struct object_spec *spec, struct star_error *err);

/* The layout that requests must carry, and the partitions [first, end) that this shard owns. */
void service_set_layout(struct service *service, uint32_t epoch, uint32_t first_partition, uint32_t end_partition);

/* A slice of eviction, if it is time for one: called once a turn, when requests were served. 0: no hurry for the next. */
unsigned service_sweep(struct service *service, uint64_t now_ns);

/* Asks for a full pass of eviction over a table, which goes on in service_sweep. 0, or -ENOENT. */
int service_sweep_begin(struct service *service, uint32_t id);

const struct service_counters *service_counters(const struct service *service);

/* The figures of all the shard's tables together; and those of one table, added to *sum, nothing without one. May be read by
 * any thread. */
struct store_stats service_store_stats(const struct service *service);
void service_table_stats(const struct service *service, uint32_t id, struct store_stats *sum);
/* Rows that the passes of eviction which were asked for have still to look at: by any thread, about. */
uint64_t service_sweep_left(const struct service *service, uint32_t id);

#endif
