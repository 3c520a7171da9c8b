/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/check.h"

#include "base/nearest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define EXAMPLE "ports = ( { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.1/24\"; } );"
#define EXAMPLE_ADDED "`starctl port add net_af_packet --interface star0 --address 198.18.0.1/24`"

enum { IPV6_MTU_MIN = 1280 }; /* RFC 8200, 5 */

/* One port while it is checked. */
struct checked {
	const struct config_port *port;
	const struct config_origin *origin;
	const char *name, *example;
	bool ps; /* of an appliance */
	struct star_error *err;
};

/* An address of either family, as bits, most significant first. */
struct bits {
	uint8_t bytes[16];
	unsigned count; /* 32 or 128; 0: not an address */
};

static struct bits bits_of(const char *host)
{
	struct bits b = { .count = 0 };

	if (inet_pton(AF_INET, host, b.bytes) == 1)
		b.count = 32;
	else if (inet_pton(AF_INET6, host, b.bytes) == 1)
		b.count = 128;
	return b;
}

/* Whether all bits from the given one on are equal to the given value. */
static bool rest_is(const struct bits *b, unsigned from, bool one)
{
	for (unsigned i = from; i < b->count; i++)
		if ((b->bytes[i / 8] >> (7 - i % 8) & 1) != one)
			return false;
	return true;
}

static bool same_network(const struct bits *a, const struct bits *b, unsigned prefix)
{
	if (a->count != b->count)
		return false;
	for (unsigned i = 0; i < prefix; i++)
		if ((a->bytes[i / 8] ^ b->bytes[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return true;
}

/* domain:bus:device.function in hexadecimal, in full, because DPDK names its ports like this. */
static bool is_pci_address(const char *text)
{
	unsigned domain, bus, device, function;
	int used = 0;

	return !text[strspn(text, "0123456789abcdefABCDEF:.")] &&
	       sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) == 4 && !text[used] &&
	       strchr(text, ':') - text >= 4 && device < 32 && function < 8;
}

/* DPDK finds a driver by the prefix of a device's name. The drivers here are replaced by our own, or need arguments
 * from us; under a longer name DPDK's would run without them. */
static int check_driver(const struct checked *k)
{
	static const char *const drivers[] = { "net_memif", "net_af_packet", "net_af_xdp" };
	const char *device = k->port->device;

	for (unsigned i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (!strncmp(device, drivers[i], strlen(drivers[i])) && device[strlen(drivers[i])])
			return config_fail(k->origin, k->err,
					   "%s.device = \"%s\" must be the driver's name alone; write \"%s\": ports "
					   "are numbered by their order in the list",
					   k->name, device, drivers[i]);
	return 0;
}

static int check_device(const struct checked *k)
{
	const struct config_port *p = k->port;
	bool af = !strcmp(p->device, "net_af_packet") || !strcmp(p->device, "net_af_xdp");
	bool pci = !strcmp(p->device, "pci");

	if (!p->device[0])
		return config_fail(k->origin, k->err, "%s has no device; write %s", k->name, k->example);
	if (!pci && (strncmp(p->device, "net_", 4) || strlen(p->device) == 4 || strpbrk(p->device, ", \t")))
		return config_fail(k->origin, k->err,
				   "%s.device = \"%s\" is not a DPDK device; write pci, or a driver's name that starts "
				   "with net_, as in net_af_packet",
				   k->name, p->device);
	if (check_driver(k) < 0)
		return -EINVAL;
	if (af && !p->interface[0])
		return config_fail(k->origin, k->err, "%s has no interface, which %s needs; write %s", k->name,
				   p->device, k->example);
	if (strpbrk(p->interface, "/, \t"))
		return config_fail(k->origin, k->err,
				   "%s.interface = \"%s\" is not the name of an interface (`ip link` lists them)",
				   k->name, p->interface);
	if (pci && !is_pci_address(p->pci))
		return config_fail(
			k->origin, k->err,
			"%s.pci = \"%s\" is not a PCI address; write pci = \"0000:03:00.0\" (`lspci -D` lists them)",
			k->name, p->pci);
	if (!pci && p->pci[0])
		return config_fail(k->origin, k->err,
				   "%s has a PCI address, but its device is %s; write device = \"pci\"", k->name,
				   p->device);
	return 0;
}

static int check_address(const struct checked *k, const struct config_network *n)
{
	const char *kernel = config_address_kernel_owned(n->host);
	const struct bits host = bits_of(n->host);

	if (kernel)
		return config_fail(k->origin, k->err,
				   "%s.address = \"%s/%u\" is %s; write an address of your network, as in "
				   "\"198.18.0.1/24\" or \"2001:2::1/64\"",
				   k->name, n->host, n->prefix, kernel);
	if (n->prefix < host.count - 1 && rest_is(&host, n->prefix, false))
		return config_fail(
			k->origin, k->err,
			"%s.address = \"%s/%u\" is the address of the network itself; write a host's address", k->name,
			n->host, n->prefix);
	if (host.count == 32 && n->prefix < 31 && rest_is(&host, n->prefix, true))
		return config_fail(k->origin, k->err,
				   "%s.address = \"%s/%u\" is the network's broadcast address; write a host's address",
				   k->name, n->host, n->prefix);
	if (host.count == 128 && k->port->mtu < IPV6_MTU_MIN)
		return config_fail(k->origin, k->err,
				   "%s has the IPv6 address %s, but an mtu of %u; IPv6 needs at least %d", k->name,
				   n->host, k->port->mtu, IPV6_MTU_MIN);
	return 0;
}

static int check_addresses(const struct checked *k)
{
	const struct config_port *p = k->port;
	int rc = 0;

	if (!p->addresses_count)
		return config_fail(k->origin, k->err, "%s has no address; write %s", k->name, k->example);
	for (unsigned i = 0; !rc && i < p->addresses_count; i++) {
		rc = check_address(k, &p->addresses[i]);
		for (unsigned j = 0; !rc && j < i; j++)
			if (!strcmp(p->addresses[i].host, p->addresses[j].host))
				rc = config_fail(k->origin, k->err, "%s has the address %s twice; remove one", k->name,
						 p->addresses[i].host);
	}
	return rc;
}

/* A gateway must be a neighbour; for IPv6 it may be known by its link-local address alone. */
static int check_gateway(const struct checked *k, const char *name, const char *gateway, unsigned bits)
{
	const struct bits router = bits_of(gateway);
	const struct config_port *p = k->port;
	bool neighbour = router.count == 128 && router.bytes[0] == 0xfe && (router.bytes[1] & 0xc0) == 0x80;

	if (!gateway[0])
		return 0;
	if (router.count != bits)
		return config_fail(k->origin, k->err, "%s.%s = \"%s\" is not an %s address; write one, as in %s",
				   k->name, name, gateway, bits == 32 ? "IPv4" : "IPv6",
				   bits == 32 ? "198.18.0.254" : "2001:2::fe or fe80::1");
	for (unsigned i = 0; i < p->addresses_count; i++) {
		const struct bits own = bits_of(p->addresses[i].host);

		if (!same_network(&own, &router, p->addresses[i].prefix))
			continue;
		neighbour = !same_network(&own, &router, own.count);
		if (!neighbour)
			break;
	}
	if (!neighbour)
		return config_fail(k->origin, k->err,
				   "%s.%s = \"%s\" is not another host on the port's networks (%s/%u is the first); "
				   "give the address of a router there",
				   k->name, name, gateway, p->addresses[0].host, p->addresses[0].prefix);
	for (unsigned i = 0; i < p->addresses_count; i++)
		if (bits_of(p->addresses[i].host).count == bits)
			return 0;
	return config_fail(
		k->origin, k->err,
		"%s.%s = \"%s\" has no effect: the port has no %s address; give it one, or remove the gateway", k->name,
		name, gateway, bits == 32 ? "IPv4" : "IPv6");
}

static bool is_memif(const struct config_port *port, struct config_memif *memif)
{
	struct star_error err;

	return !strcmp(port->device, "net_memif") && config_memif_read(port, memif, &err) == 0;
}

static int check_pair(const struct checked *k, const struct config_port *other, const char *other_name)
{
	const struct config_port *p = k->port;
	struct config_memif own, theirs;
	const char *same = NULL;

	for (unsigned i = 0; i < p->addresses_count; i++)
		for (unsigned j = 0; j < other->addresses_count; j++)
			if (!strcmp(p->addresses[i].host, other->addresses[j].host))
				same = p->addresses[i].host;
	if (!same && p->interface[0] && !strcmp(p->interface, other->interface))
		same = p->interface;
	else if (!same && p->pci[0] && !strcasecmp(p->pci, other->pci))
		same = p->pci;
	else if (!same && is_memif(p, &own) && is_memif(other, &theirs) && own.abstract == theirs.abstract &&
		 !strcmp(own.socket, theirs.socket))
		same = own.socket;
	return same ? config_fail(k->origin, k->err, "%s and %s both have %s; give each port its own", other_name,
				  k->name, same)
		    : 0;
}

static int check_port(const struct checked *k)
{
	int rc = check_device(k);

	if (!rc && k->ps)
		rc = config_check_memif(k->port, k->name, k->origin, k->err);
	if (!rc)
		rc = check_addresses(k);
	if (!rc)
		rc = check_gateway(k, "gateway", k->port->gateway, 32);
	return rc ? rc : check_gateway(k, "gateway6", k->port->gateway6, 128);
}

int config_check_ports(struct config_load *load, bool ps, struct star_error *err)
{
	const struct config *c = load->config;
	int rc = 0;

	if (ps && c->stack == CONFIG_STACK_KERNEL)
		return c->ports_count
			       ? config_fail(&load->ports[0], err,
					     "network.stack is \"kernel\", and a node on the kernel's sockets owns no "
					     "ports: remove `ports`, or write network = { stack = \"dpdk\"; };")
			       : 0;
	if (ps && !c->ports_count)
		return star_error_set(err, -EINVAL,
				      "there is no port for the data plane; write " EXAMPLE
				      " or, to use the kernel's sockets, network = { stack = \"kernel\"; };");
	for (unsigned i = 0; !rc && i < c->ports_count; i++) {
		char name[24], other[24];
		const struct checked k = { &c->ports[i], &load->ports[i], name, EXAMPLE, ps, err };

		snprintf(name, sizeof(name), "ports[%u]", i);
		rc = check_port(&k);
		for (unsigned j = 0; !rc && j < i; j++) {
			snprintf(other, sizeof(other), "ports[%u]", j);
			rc = check_pair(&k, &c->ports[j], other);
		}
	}
	return rc;
}

/* config_option_nearest would also suggest names of groups, which are not options. */
static const char *nearest_port_option(const char *name)
{
	const char *nearest = "device";

	for (unsigned i = 0; i < config_options_count; i++) {
		const char *leaf = config_option_leaf(&config_options[i]);

		if (!strncmp(config_options[i].name, "ports[].", strlen("ports[].")) &&
		    nearest_distance(name, leaf) < nearest_distance(name, nearest))
			nearest = leaf;
	}
	return nearest;
}

int config_port_read(const struct config_override *options, unsigned count, struct config_port *port,
		     struct star_error *err)
{
	const struct config_origin nowhere = { .source = SOURCE_DEFAULT };
	const struct checked k = { port, &nowhere, "the port", EXAMPLE_ADDED, true, err };
	int rc = config_load_port_defaults(port, err);

	for (unsigned i = 0; !rc && i < count; i++) {
		char name[CONFIG_NAME_MAX + 1];
		struct config_target target = { .base = port };

		snprintf(name, sizeof(name), "ports[].%s", options[i].name);
		target.option = config_option_find(name);
		rc = target.option ? config_value_store_text(&target, options[i].value, err)
				   : star_error_set(err, -EINVAL, "a port has no option `%.64s`; did you mean `%s`?",
						    options[i].name, nearest_port_option(options[i].name));
	}
	return rc ? rc : check_port(&k);
}

int config_port_check_pair(const struct config_port *port, const char *name, const struct config_port *other,
			   const char *other_name, struct star_error *err)
{
	const struct config_origin nowhere = { .source = SOURCE_DEFAULT };
	const struct checked k = { port, &nowhere, name, EXAMPLE_ADDED, true, err };

	return check_pair(&k, other, other_name);
}
