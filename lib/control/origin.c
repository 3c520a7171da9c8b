/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses from which nodes call: those of cluster.ps. A host may be a name, whose addresses can change. Names are
 * resolved on the executor's thread, and again when a call comes from an unknown address.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/address.h"
#include "control/node.h"

enum { ADDRESSES_MAX = 16, LOOK_AGAIN_US = 1000000 };

struct origin {
	uint8_t addresses[ADDRESSES_MAX][LINE_ADDRESS_BYTES];
	unsigned count;
	bool named; /* the host is a name */
};

struct origins {
	struct executor_job job;
	struct control *control;
	/* under control->lock */
	bool looking;
	uint64_t looked_us;
	struct origin tasks[];
};

static void resolve(const struct control *control, uint32_t task, struct origin *origin)
{
	origin->count = 0;
	for (unsigned second = 0; second < 2; second++) {
		const struct config_address *address = config_ps_address(control->config, task, second);
		struct addrinfo *list;

		if (!address || jsonrpc_address_resolve(config_show(address->host, address->port).text, false, &list,
							&(struct star_error){ 0 }) < 0)
			continue;
		for (const struct addrinfo *a = list; a && origin->count < ADDRESSES_MAX; a = a->ai_next)
			control_line_address(a->ai_addr, origin->addresses[origin->count++]);
		freeaddrinfo(list);
	}
}

/* A task is known by name if one of its nodes is. */
static bool is_named(const struct config *config, uint32_t task)
{
	const struct config_address *second = config_ps_address(config, task, true);

	return !config_is_literal(config->ps[task].host) || (second && !config_is_literal(second->host));
}

static void look_up_origin(struct executor_job *job, bool cancelled)
{
	struct origins *origins = (struct origins *)job;
	struct control *control = origins->control;

	for (uint32_t task = 0; !cancelled && task < control->config->ps_count; task++) {
		struct origin found = { .named = true };

		if (!origins->tasks[task].named)
			continue;
		resolve(control, task, &found);
		pthread_mutex_lock(&control->lock);
		if (found.count)
			origins->tasks[task] = found;
		pthread_mutex_unlock(&control->lock);
	}
	pthread_mutex_lock(&control->lock);
	origins->looking = false;
	origins->looked_us = clock_us();
	pthread_mutex_unlock(&control->lock);
}

int control_origins_create(struct control *control, struct star_error *err)
{
	const uint32_t count = control->config->ps_count;
	struct origins *origins = calloc(1, sizeof(*origins) + count * sizeof(origins->tasks[0]));
	bool named = false;

	if (!origins)
		return star_error_set(err, -ENOMEM, "out of memory");
	origins->control = control;
	for (uint32_t task = 0; task < count; task++) {
		origins->tasks[task].named = is_named(control->config, task);
		if (origins->tasks[task].named)
			named = true;
		else
			resolve(control, task, &origins->tasks[task]);
	}
	origins->looking = named;
	control->origins = origins;
	if (named)
		control_executor_post(control->executor, &origins->job, look_up_origin);
	return 0;
}

static bool matches(const struct origin *origin, const uint8_t *address)
{
	for (unsigned i = 0; i < origin->count; i++)
		if (memcmp(origin->addresses[i], address, LINE_ADDRESS_BYTES) == 0)
			return true;
	return false;
}

bool control_origins_has(struct control *control, const uint8_t *address, uint32_t task)
{
	struct origins *origins = control->origins;
	bool found = false, named = false;

	pthread_mutex_lock(&control->lock);
	for (uint32_t t = 0; t < control->config->ps_count; t++) {
		if (task != ORIGIN_ANY && task != t)
			continue;
		found |= matches(&origins->tasks[t], address);
		named |= origins->tasks[t].named;
	}
	named = named && !found && !origins->looking && !control->stopping &&
		clock_us() - origins->looked_us > LOOK_AGAIN_US;
	if (named)
		origins->looking = true;
	pthread_mutex_unlock(&control->lock);
	if (named)
		control_executor_post(control->executor, &origins->job, look_up_origin);
	return found;
}
