/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define EXAMPLE "ports = ( { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.1/24\"; } );"

/* One port while it is checked. */
struct checked {
	const struct config_port *port;
	const struct config_origin *origin;
	unsigned index;
	struct star_error *err;
};

static uint32_t ipv4(const char *text)
{
	struct in_addr address = { 0 };

	inet_pton(AF_INET, text, &address);
	return ntohl(address.s_addr);
}

static uint32_t mask_of(uint32_t prefix)
{
	return prefix ? ~0u << (32 - prefix) : 0;
}

/* domain:bus:device.function in hexadecimal, whole: DPDK names its ports so */
static bool is_pci_address(const char *text)
{
	unsigned domain, bus, device, function;
	int used = 0;

	return !text[strspn(text, "0123456789abcdefABCDEF:.")] &&
	       sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) == 4 && !text[used] &&
	       strchr(text, ':') - text >= 4 && device < 32 && function < 8;
}

static int check_device(const struct checked *k)
{
	const struct config_port *p = k->port;
	bool af = !strcmp(p->device, "net_af_packet") || !strcmp(p->device, "net_af_xdp");
	bool pci = !strcmp(p->device, "pci");

	if (!p->device[0])
		return config_fail(k->origin, k->err, "ports[%u] has no device; write " EXAMPLE, k->index);
	if (!pci && (strncmp(p->device, "net_", 4) || strlen(p->device) == 4 || strpbrk(p->device, ", \t")))
		return config_fail(k->origin, k->err,
				   "ports[%u].device = \"%s\" is no DPDK device; it takes pci, or a driver's name that "
				   "starts with "
				   "net_, as in net_af_packet",
				   k->index, p->device);
	if (af && !p->interface[0])
		return config_fail(k->origin, k->err, "ports[%u] has no interface, which %s needs; write " EXAMPLE,
				   k->index, p->device);
	if (strpbrk(p->interface, "/, \t"))
		return config_fail(k->origin, k->err,
				   "ports[%u].interface = \"%s\" is no interface's name (`ip link` lists them)",
				   k->index, p->interface);
	if (pci && !is_pci_address(p->pci))
		return config_fail(k->origin, k->err,
				   "ports[%u].pci = \"%s\" is no PCI address; write pci = \"0000:03:00.0\" (`lspci -D` "
				   "lists them)",
				   k->index, p->pci);
	if (!pci && p->pci[0])
		return config_fail(k->origin, k->err,
				   "ports[%u] has a PCI address, and its device is %s; write device = \"pci\"",
				   k->index, p->device);
	return 0;
}

static int check_address(const struct checked *k)
{
	const struct config_port *p = k->port;
	const char *kernel = config_address_kernel_owned(p->address);
	uint32_t mask = mask_of(p->prefix), host = ipv4(p->address) & ~mask, gateway;

	if (!p->address[0])
		return config_fail(k->origin, k->err, "ports[%u] has no address; write " EXAMPLE, k->index);
	if (kernel)
		return config_fail(k->origin, k->err,
				   "ports[%u].address = \"%s/%u\" is %s; write one of your network's, as in "
				   "\"198.18.0.1/24\"",
				   k->index, p->address, p->prefix, kernel);
	if (p->prefix < 31 && (!host || host == ~mask))
		return config_fail(k->origin, k->err,
				   "ports[%u].address = \"%s/%u\" is its network's %s address; write a host's",
				   k->index, p->address, p->prefix, host ? "broadcast" : "own");
	if (!p->gateway[0])
		return 0;
	gateway = ipv4(p->gateway);
	if (!gateway)
		return config_fail(k->origin, k->err,
				   "ports[%u].gateway = \"%s\" is no IPv4 address; write one, as in 198.18.0.254",
				   k->index, p->gateway);
	if ((gateway & mask) != (ipv4(p->address) & mask) || !strcmp(p->gateway, p->address))
		return config_fail(k->origin, k->err,
				   "ports[%u].gateway = \"%s\" is no neighbour of the port's address %s/%u", k->index,
				   p->gateway, p->address, p->prefix);
	return 0;
}

static int check_pair(const struct checked *k, const struct config_port *other, unsigned other_index)
{
	const struct config_port *p = k->port;
	const char *same = NULL;

	if (!strcmp(p->address, other->address))
		same = p->address;
	else if (p->interface[0] && !strcmp(p->interface, other->interface))
		same = p->interface;
	else if (p->pci[0] && !strcasecmp(p->pci, other->pci))
		same = p->pci;
	return same ? config_fail(k->origin, k->err, "ports[%u] and ports[%u] both have %s; each port has its own",
				  other_index, k->index, same)
		    : 0;
}

int config_check_ports(struct config_load *load, bool ps, struct star_error *err)
{
	const struct config *c = load->config;
	int rc = 0;

	if (ps && !c->ports_count)
		return star_error_set(err, -EINVAL, "there is no port for the data plane; write " EXAMPLE);
	for (unsigned i = 0; !rc && i < c->ports_count; i++) {
		struct checked k = { .port = &c->ports[i], .origin = &load->ports[i], .index = i, .err = err };

		rc = check_device(&k);
		if (!rc)
			rc = check_address(&k);
		for (unsigned j = 0; !rc && j < i; j++)
			rc = check_pair(&k, &c->ports[j], j);
	}
	return rc;
}
