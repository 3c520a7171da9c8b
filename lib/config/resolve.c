/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data address of a node on the kernel's sockets may be a host name. It is resolved once, when the configuration is
 * read, and workers are told the address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/check.h"

/* A name may be in /etc/hosts twice, or there and in DNS. */
static bool is_before(const struct addrinfo *list, const struct addrinfo *one)
{
	while (list != one &&
	       (list->ai_addrlen != one->ai_addrlen || memcmp(list->ai_addr, one->ai_addr, one->ai_addrlen) != 0))
		list = list->ai_next;
	return list != one;
}

/* Lists the addresses of a look-up without duplicates; returns their number. */
static unsigned list_addresses(const struct addrinfo *found, char *first, size_t first_bytes, char *all, size_t bytes)
{
	unsigned count = 0;
	size_t used = 0;

	all[0] = 0;
	for (const struct addrinfo *each = found; each; each = each->ai_next) {
		char host[INET6_ADDRSTRLEN];

		if (is_before(found, each) ||
		    getnameinfo(each->ai_addr, each->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		if (count++ == 0)
			snprintf(first, first_bytes, "%s", host);
		if (used < bytes)
			used += (size_t)snprintf(all + used, bytes - used, "%s%s", used ? ", " : "", host);
	}
	return count;
}

static int look_up_host(const struct config_origin *origin, char *host, size_t bytes, struct star_error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char first[INET6_ADDRSTRLEN] = "", all[256];
	unsigned count;
	int rc;

	/* localhost is both 127.0.0.1 and ::1 nearly everywhere. */
	if (!strcasecmp(host, "localhost")) {
		snprintf(host, bytes, "127.0.0.1");
		return 0;
	}
	rc = getaddrinfo(host, NULL, &hints, &found);
	if (rc != 0)
		return config_fail(origin, err,
				   "the data address \"%s\" cannot be resolved: %s; write an IP address, or add the "
				   "name to /etc/hosts",
				   host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	count = list_addresses(found, first, sizeof(first), all, sizeof(all));
	freeaddrinfo(found);
	if (count != 1)
		return config_fail(
			origin, err,
			"the data address \"%s\" has %u addresses (%s); write the one that workers should use", host,
			count, all);
	snprintf(host, bytes, "%s", first);
	return 0;
}

int config_resolve_data(struct config_load *load, uint32_t index, struct star_error *err)
{
	struct config_address *data = &load->map.entries[index].data;
	const struct config_origin origin = config_map_origin(&load->map, index);
	const char *kind = config_address_kernel_owned(data->host);
	struct in6_addr v6;
	struct in_addr v4;

	if (kind && strcmp(kind, "loopback") != 0)
		return config_fail(
			&origin, err,
			"the data address %s is %s: workers cannot connect to it; write an address that this "
			"machine has, or 127.0.0.1",
			config_show(data->host, data->port).text, kind);
	if (inet_pton(AF_INET, data->host, &v4) == 1 || inet_pton(AF_INET6, data->host, &v6) == 1)
		return 0;
	return look_up_host(&origin, data->host, sizeof(data->host), err);
}
