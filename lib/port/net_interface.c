/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/net_interface.h"

/* Parses a literal, which lib/config has checked; or "". */
static struct net_address parse_literal(const char *host)
{
	struct net_address address;

	net_address_parse(host, &address);
	return address;
}

struct net_interface_options port_net_interface(const struct port *port, const struct config_port *config)
{
	struct net_interface_options o = {
		.port = port->id,
		.mtu = port->mtu,
		.mac = port->mac,
		.vlan = (uint16_t)config->vlan,
		.offloads = port->offloads,
		.tso_bytes = port->tso_bytes,
		.tso_segments = port->tso_segments,
		.addresses_count = config->addresses_count,
		.gateway4 = parse_literal(config->gateway),
		.gateway6 = parse_literal(config->gateway6),
	};

	for (unsigned i = 0; i < config->addresses_count; i++) {
		o.addresses[i].address = parse_literal(config->addresses[i].host);
		o.addresses[i].prefix = config->addresses[i].prefix;
	}
	return o;
}
