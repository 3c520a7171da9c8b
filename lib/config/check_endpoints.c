/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config_address_text show_address(const struct config_address *address)
{
	return config_show(address->host, address->port);
}

/* A data address for error messages: one that would work on this node. */
static struct config_address_text example(const struct config *c, uint16_t port)
{
	return config_show(c->ports_count && c->ports[0].addresses_count ? c->ports[0].addresses[0].host : "198.18.0.1",
			   port);
}

static const struct config_endpoint *find_endpoint(const struct config_map *map, const struct config_address *control,
						   uint32_t *index)
{
	for (*index = 0; *index < map->count; ++*index)
		if (config_address_equal(&map->entries[*index].control, control))
			return &map->entries[*index];
	return NULL;
}

/* Finds the n-th address of the PS tasks; each task may have two (a pair). */
static bool find_ps(const struct config_load *load, uint32_t n, uint32_t *index)
{
	const struct config_address *control = config_ps_address(load->config, n / 2, n % 2);

	return control && find_endpoint(&load->map, control, index);
}

static int fail_missing(struct config_load *load, const struct config_address *own, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_map *map = &load->map;

	if (!map->count && !load->map_file[0])
		return config_fail(
			config_check_origin(load, "cluster.ps"), err,
			"no endpoint map says which data address this node, %s (cluster.ps[%u]), has; "
			"write endpoint_map = ( { control = \"%s\"; data = \"%s\"; } ); or give "
			"endpoint_map_file, or TF_SEASTAR_ENDPOINT_MAP_PATH with the directory of .endpoint_map",
			show_address(own).text, c->task_index, show_address(own).text, example(c, 5555).text);
	return config_fail(
		&map->origin, err,
		"the endpoint map has no entry for this node's own control address %s (cluster.ps[%u]); add a "
		"line like %s=%s",
		show_address(own).text, c->task_index, show_address(own).text, example(c, 5555).text);
}

/* A data address of a PS: one that the appliance can own. */
static int check_ps_entry(const struct config_load *load, uint32_t index, struct star_error *err)
{
	const struct config_endpoint *e = &load->map.entries[index];
	const struct config_origin origin = config_map_origin(&load->map, index);
	const char *kernel = config_address_kernel_owned(e->data.host);

	if (load->config->stack == CONFIG_STACK_KERNEL)
		return 0; /* its own is checked when it is resolved, and the other nodes check theirs */
	if (kernel)
		return config_fail(&origin, err,
				   "the data address %s of the PS %s belongs to the kernel (%s), and a data address "
				   "belongs to the appliance: give it the address of a port, as in %s=%s; or, to use "
				   "the kernel's addresses, write network = { stack = \"kernel\"; };",
				   show_address(&e->data).text, show_address(&e->control).text, kernel,
				   show_address(&e->control).text, example(load->config, e->data.port).text);
	if (!config_is_literal(e->data.host))
		return config_fail(&origin, err,
				   "the data address %s of the PS %s is a name; give an IP address, as in %s=%s",
				   show_address(&e->data).text, show_address(&e->control).text,
				   show_address(&e->control).text, example(load->config, e->data.port).text);
	return 0;
}

/* Reactor r listens on data port + r. The other node's number of reactors is unknown here; it is assumed to be the
 * same. */
static int check_overlap(const struct config_load *load, uint32_t own, uint32_t other, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_endpoint *a = &load->map.entries[own], *b = &load->map.entries[other];
	const struct config_origin origin = config_map_origin(&load->map, own);
	int apart = abs(a->data.port - b->data.port);

	if (own == other || strcmp(a->data.host, b->data.host) || apart >= (int)c->reactors)
		return 0;
	return config_fail(&origin, err,
			   "the data ports %u to %u of this node's %u reactors overlap with those of the PS %s, which "
			   "start at %s; keep the two at least %u apart",
			   a->data.port, a->data.port + c->reactors - 1, c->reactors, show_address(&b->control).text,
			   show_address(&b->data).text, c->reactors);
}

/* Whether a port has the address; writes all addresses of the ports into a text for the message. */
static bool find_address(const struct config *c, const char *host, char *text, size_t bytes)
{
	bool found = false;
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < c->ports_count; i++)
		for (uint32_t j = 0; j < c->ports[i].addresses_count; j++) {
			const struct config_network *n = &c->ports[i].addresses[j];

			found |= !strcmp(n->host, host);
			if (used < bytes)
				used += (size_t)snprintf(text + used, bytes - used, "%s%s/%u", used ? ", " : "",
							 n->host, n->prefix);
		}
	return found;
}

static int check_own(const struct config_load *load, uint32_t index, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_endpoint *e = &load->map.entries[index];
	const struct config_origin origin = config_map_origin(&load->map, index);
	char addresses[160];

	if (c->stack == CONFIG_STACK_DPDK && !find_address(c, e->data.host, addresses, sizeof(addresses)))
		return config_fail(
			&origin, err,
			"the data address %s of this node is not an address of one of its ports, which have %s; "
			"write %s=%s, or give a port that address",
			show_address(&e->data).text, addresses, show_address(&e->control).text,
			example(c, e->data.port).text);
	if (e->data.port + c->reactors - 1 > 65535)
		return config_fail(&origin, err,
				   "the data ports of this node's %u reactors start at %u and would go beyond 65535; "
				   "start at %u or lower",
				   c->reactors, e->data.port, 65535 - c->reactors + 1);
	return 0;
}

static int check_own_entry(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	uint32_t own, other;
	int rc;

	if (!find_endpoint(&load->map, config_own_control(c), &own))
		return fail_missing(load, config_own_control(c), err);
	if (c->stack == CONFIG_STACK_KERNEL && config_resolve_data(load, own, err))
		return -EINVAL;
	rc = check_own(load, own, err);
	for (uint32_t i = 0; !rc && i < 2 * c->ps_count; i++)
		if (find_ps(load, i, &other))
			rc = check_overlap(load, own, other, err);
	load->config->own = load->map.entries[own];
	return rc;
}

int config_check_endpoints(struct config_load *load, bool ps, struct star_error *err)
{
	struct config *c = load->config;
	const struct config_endpoint *own;
	uint32_t index;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < 2 * c->ps_count; i++)
		if (find_ps(load, i, &index))
			rc = check_ps_entry(load, index, err);
	if (rc || ps)
		return rc ? rc : check_own_entry(load, err);
	/* A worker needs no entry, but may have one (a DPDK worker's address). */
	if (!strcmp(c->job_name, "worker")) {
		own = find_endpoint(&load->map, &c->workers[c->task_index], &index);
		if (own)
			c->own = *own;
	}
	return 0;
}
