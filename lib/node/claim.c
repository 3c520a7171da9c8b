/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What nodes on one machine must not share: data addresses and, if they are to be fast, cores.
 *
 * A data address has one owner. A packet socket gets every frame, whoever else gets it, too. Two owners, appliances or
 * kernel, would both answer, and end each other's connections by RST. So an address that the kernel has is refused, and
 * an appliance claims its own by an abstract Unix socket: the name belongs to the network namespace, and disappears
 * with the process.
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

#include "base/log.h"
#include "node/node.h"

static unsigned prefix_of(const struct sockaddr *mask)
{
	const uint8_t *bytes = NULL;
	unsigned count = 0, prefix = 0;

	if (mask && mask->sa_family == AF_INET) {
		bytes = (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
		count = sizeof(struct in_addr);
	} else if (mask && mask->sa_family == AF_INET6) {
		bytes = (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
		count = sizeof(struct in6_addr);
	}
	for (unsigned i = 0; i < count; i++)
		prefix += (unsigned)__builtin_popcount(bytes[i]);
	return prefix;
}

static bool is_address(const struct sockaddr *at, const char *host)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (at && at->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)at)->sin_addr, text, sizeof(text));
	else if (at && at->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)at)->sin6_addr, text, sizeof(text));
	return strcmp(text, host) == 0;
}

static int check_kernel(const char *host, struct star_error *err)
{
	struct ifaddrs *list;
	int status = 0;

	if (getifaddrs(&list) < 0)
		return star_error_set(err, -errno, "the addresses of this machine cannot be read: %m");
	for (const struct ifaddrs *at = list; at && status == 0; at = at->ifa_next)
		if (is_address(at->ifa_addr, host))
			status = star_error_set(
				err, -EADDRINUSE,
				"the data address %s is also an address of the kernel, on %s, and both would answer: "
				"run `ip address delete %s/%u dev %s`, or give the port another address",
				host, at->ifa_name, host, prefix_of(at->ifa_netmask), at->ifa_name);
	freeifaddrs(list);
	return status;
}

/* The name of the socket: "@starserver/" followed by the given text. */
static socklen_t name_claim(struct sockaddr_un *name, const char *first, const char *second)
{
	const size_t room = sizeof(name->sun_path) - 1;
	size_t length;

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = (size_t)snprintf(name->sun_path + 1, room, "starserver/%s/%s", first, second);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (length < room ? length : room - 1));
}

static int claim(const struct config_port *port, const char *host, int *fd, struct star_error *err)
{
	struct sockaddr_un name;
	const socklen_t bytes = name_claim(&name, port->interface[0] ? port->interface : port->pci, host);

	*fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*fd >= 0 && bind(*fd, (const struct sockaddr *)&name, bytes) == 0)
		return 0;
	if (errno == EADDRINUSE)
		return star_error_set(err, -EADDRINUSE,
				      "the data ports of %s are in use by another starserver: `ss -xap | grep @%s` "
				      "shows by which process; stop it, or give the port another address",
				      host, name.sun_path + 1);
	return star_error_set(err, -errno, "the data address %s cannot be claimed: %m", host);
}

int node_claim(struct node_port *port, struct star_error *err)
{
	const struct config_port *config = &port->config;
	int status = 0;

	/* Only its client sees the frames of a memif port, and no two clients have the same port. */
	if (strcmp(config->device, "net_memif") == 0)
		return 0;
	for (unsigned i = 0; i < config->addresses_count && status == 0; i++) {
		status = check_kernel(config->addresses[i].host, err);
		if (status == 0)
			status = claim(config, config->addresses[i].host, &port->claims[port->claims_count++], err);
	}
	return status;
}

/* The process that has this name; 0: unknown. */
static pid_t claimed_by(const struct sockaddr_un *name, socklen_t bytes)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred owner = { 0 };
	socklen_t length = sizeof(owner);

	if (fd >= 0 && (connect(fd, (const struct sockaddr *)name, bytes) < 0 ||
			getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &length) < 0))
		owner.pid = 0;
	if (fd >= 0)
		close(fd);
	return owner.pid;
}

/* Two reactors can share a core, if badly, so nothing is refused. A node that has connected to another one's socket
 * stays in its backlog, which is never accepted. */
void node_claim_cores(struct node *node)
{
	const struct config *config = node->config;

	for (unsigned i = 0; config->pin && i < node->shards_count; i++) {
		struct sockaddr_un name;
		char core[12];
		socklen_t bytes;
		int fd;

		snprintf(core, sizeof(core), "%u", config->cores[i]);
		bytes = name_claim(&name, "core", core);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0 && listen(fd, SOMAXCONN) == 0) {
			node->core_claims[node->core_claims_count++] = fd;
			continue;
		}
		if (errno == EADDRINUSE)
			log_warn("core %u is also used by a reactor of process %d, so each slows down the other: give "
				 "each node of this machine its own cores in cores.list",
				 config->cores[i], (int)claimed_by(&name, bytes));
		if (fd >= 0)
			close(fd);
	}
}

void node_disclaim_cores(struct node *node)
{
	while (node->core_claims_count > 0)
		close(node->core_claims[--node->core_claims_count]);
}

void node_disclaim(struct node_port *port)
{
	while (port->claims_count > 0) {
		const int fd = port->claims[--port->claims_count];

		if (fd >= 0)
			close(fd);
	}
}
