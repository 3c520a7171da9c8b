/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data address has one owner. A packet socket is given every frame, whoever else has one: two owners, appliances or
 * kernel, would both answer, and end each other's connections by RST. So an address that the kernel has is refused, and an
 * appliance claims its own by an abstract Unix socket: the name is this network namespace's, and goes with the process.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node.h"

static int refuse_kernel(const struct config_port *port, const struct ifaddrs *at, struct star_error *err)
{
	const in_addr_t mask = at->ifa_netmask ? ((const struct sockaddr_in *)at->ifa_netmask)->sin_addr.s_addr : ~0u;

	return star_error_set(err, -EADDRINUSE,
			      "the data address %s is the kernel's too, on %s, and both would answer: run "
			      "`ip address delete %s/%d dev %s`, or give the port another address",
			      port->address, at->ifa_name, port->address, __builtin_popcount(mask), at->ifa_name);
}

static int check_kernel(const struct config_port *port, struct star_error *err)
{
	const in_addr_t address = inet_addr(port->address);
	struct ifaddrs *list;
	int status = 0;

	if (getifaddrs(&list) < 0)
		return star_error_set(err, -errno, "the addresses of this machine cannot be read: %m");
	for (const struct ifaddrs *at = list; at && status == 0; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
		    ((const struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr == address)
			status = refuse_kernel(port, at, err);
	freeifaddrs(list);
	return status;
}

static int claim(const struct config_port *port, int *fd, struct star_error *err)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "starserver/%s/%s",
				    port->interface[0] ? port->interface : port->pci, port->address);
	const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	*fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*fd >= 0 && bind(*fd, (const struct sockaddr *)&name, bytes) == 0)
		return 0;
	if (errno == EADDRINUSE)
		return star_error_set(err, -EADDRINUSE,
				      "the data ports of %s are taken by another appliance: `ss -xap | grep @%s` shows "
				      "by which process; stop it, or give the port another address",
				      port->address, name.sun_path + 1);
	return star_error_set(err, -errno, "the data address %s cannot be claimed: %m", port->address);
}

int node_claim(struct node *node, struct star_error *err)
{
	const struct config *config = node->config;
	int status = 0;

	for (unsigned i = 0; i < config->ports_count && status == 0; i++) {
		status = check_kernel(&config->ports[i], err);
		if (status == 0)
			status = claim(&config->ports[i], &node->claims[node->claims_count++], err);
	}
	return status;
}

void node_disclaim(struct node *node)
{
	while (node->claims_count > 0) {
		const int fd = node->claims[--node->claims_count];

		if (fd >= 0)
			close(fd);
	}
}
