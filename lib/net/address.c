/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/address.h"

#include <arpa/inet.h>

bool net_address_parse(const char *text, struct net_address *address)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		*address = net_address_v4(v4.s_addr);
	else if (inet_pton(AF_INET6, text, &v6) == 1)
		*address = net_address_v6(&v6);
	else
		*address = (struct net_address){ .halves = { 0, 0 } };
	return !net_address_is_none(address);
}
