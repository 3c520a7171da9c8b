/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/address.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The host is the text before the last colon; the brackets of an IPv6 literal are removed. */
static int split_address(const char *text, char *host, size_t host_size, const char **port, struct star_error *err)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = colon ? (size_t)(colon - text) : 0;
	unsigned number = 0;

	if (bytes == 0 || bytes >= host_size)
		return star_error_set(err, -EINVAL,
				      "\"%.80s\" is not an address: host:port is needed, such as 198.18.0.1:3333",
				      text);
	if (bytes > 2 && text[0] == '[' && text[bytes - 1] == ']')
		snprintf(host, host_size, "%.*s", (int)bytes - 2, text + 1);
	else
		snprintf(host, host_size, "%.*s", (int)bytes, text);
	*port = colon + 1;
	for (const char *c = *port; *c; c++) {
		if (*c < '0' || *c > '9' || number > UINT16_MAX)
			number = UINT16_MAX + 1;
		else
			number = number * 10 + (unsigned)(*c - '0');
	}
	if (number < 1 || number > UINT16_MAX)
		return star_error_set(err, -EINVAL, "the port of \"%.80s\" must be a number from 1 to 65535", text);
	return 0;
}

int jsonrpc_address_resolve(const char *text, bool passive, struct addrinfo **list, struct star_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
	char host[256];
	const char *port = NULL;
	int rc = split_address(text, host, sizeof(host), &port, err);

	if (rc < 0)
		return rc;
	if (passive)
		hints.ai_flags |= AI_PASSIVE;
	/* Literals first, because they need no name server. */
	rc = getaddrinfo(host, port, &hints, list);
	if (rc == EAI_NONAME) {
		hints.ai_flags &= ~AI_NUMERICHOST;
		rc = getaddrinfo(host, port, &hints, list);
	}
	if (rc == 0)
		return 0;
	return star_error_set(err, -EHOSTUNREACH,
			      "cannot find the host \"%.80s\" of %.80s: %s; check the name, or give its address", host,
			      text, gai_strerror(rc));
}
