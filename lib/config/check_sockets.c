/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of this machine's kernel that a PS listens on: no two of them may be the same. */
#include "config/check.h"

#include <string.h>
#include <strings.h>

struct listener {
	const char *option, *host;
	unsigned first, count; /* ports */
};

static const char *address_of(const char *host)
{
	return strcasecmp(host, "localhost") ? host : "127.0.0.1";
}

static bool is_any(const char *host)
{
	return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

static bool overlaps(const struct listener *a, const struct listener *b)
{
	return a->first < b->first + b->count && b->first < a->first + a->count &&
	       (is_any(a->host) || is_any(b->host) || !strcmp(address_of(a->host), address_of(b->host)));
}

int config_check_sockets(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_address *control = config_own_control(c);
	struct config_address standby = { 0 };
	struct listener listeners[4];
	unsigned count = 0;

	listeners[count++] = (struct listener){ "cluster.ps", control->host, control->port, 1 };
	if (c->stack == CONFIG_STACK_KERNEL)
		listeners[count++] =
			(struct listener){ "endpoint_map", c->own.data.host, c->own.data.port, c->reactors };
	if (c->standby_peer[0] && config_parse_address(c->standby_listen, &standby, err) == 0)
		listeners[count++] = (struct listener){ "standby.listen", standby.host, standby.port, 1 };
	if (c->metrics_port)
		listeners[count++] = (struct listener){ "metrics.port", c->metrics_address, c->metrics_port, 1 };
	for (unsigned i = 1; i < count; i++)
		for (unsigned j = 0; j < i; j++)
			if (overlaps(&listeners[i], &listeners[j]))
				return config_fail(
					config_check_origin(load, listeners[i].option), err,
					"%s and %s of this node are both at port %u of %s: give each its own port",
					listeners[i].option, listeners[j].option,
					listeners[i].first > listeners[j].first ? listeners[i].first
										: listeners[j].first,
					listeners[is_any(listeners[i].host) ? j : i].host);
	return 0;
}
