/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EXAMPLE "write host:port, as in 198.18.1.1:3333"
#define EXAMPLE6 "write [address]:port, as in [2001:2::1]:3333"

static int parse_port(const char *text, const char *whole, uint16_t *port, struct star_error *err)
{
	size_t digits = strspn(text, "0123456789");
	long value;

	if (!digits || text[digits])
		return star_error_set(err, -EINVAL, "\"%.80s\": the port \"%.20s\" is not a number; " EXAMPLE, whole,
				      text);
	value = digits > 5 ? 65536 : strtol(text, NULL, 10);
	if (value < 1 || value > 65535)
		return star_error_set(err, -EINVAL, "\"%.80s\": the port %.20s is out of range; allowed: 1 to 65535",
				      whole, text);
	*port = (uint16_t)value;
	return 0;
}

/* Digits and dots alone are meant as an IPv4 literal: no host name looks like that. */
static int check_host(const char *host, const char *whole, struct star_error *err)
{
	struct in_addr literal;

	if (!host[strspn(host, "0123456789.")])
		return inet_pton(AF_INET, host, &literal) == 1
			       ? 0
			       : star_error_set(err, -EINVAL, "\"%.80s\": %s is not an IPv4 address; " EXAMPLE, whole,
						host);
	for (const char *c = host; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._", *c))
			return star_error_set(
				err, -EINVAL,
				"\"%.80s\": the host has a character that host names cannot contain; " EXAMPLE, whole);
	return 0;
}

/* "[address]:port". The host is stored in canonical form, so that equal addresses are equal texts. */
static int parse_ipv6(const char *text, struct config_address *parsed, struct star_error *err)
{
	const char *close = strchr(text, ']');
	char host[INET6_ADDRSTRLEN] = "";
	struct in6_addr literal;

	if (!close || close[1] != ':')
		return star_error_set(err, -EINVAL, "\"%.80s\" has no ']' followed by a port; " EXAMPLE6, text);
	if (close - text <= INET6_ADDRSTRLEN)
		memcpy(host, text + 1, (size_t)(close - text - 1));
	if (inet_pton(AF_INET6, host, &literal) != 1)
		return star_error_set(err, -EINVAL, "\"%.80s\": the text in brackets is not an IPv6 address; " EXAMPLE6,
				      text);
	if (IN6_IS_ADDR_V4MAPPED(&literal) || IN6_IS_ADDR_V4COMPAT(&literal))
		return star_error_set(err, -EINVAL, "\"%.80s\" is an IPv4 address in IPv6 form; " EXAMPLE, text);
	inet_ntop(AF_INET6, &literal, parsed->host, sizeof(parsed->host));
	return parse_port(close + 2, text, &parsed->port, err);
}

const struct config_address *config_ps_address(const struct config *config, uint32_t task, bool second)
{
	if (!second)
		return &config->ps[task];
	return config->ps_others && config->ps_others[task].port ? &config->ps_others[task] : NULL;
}

const struct config_address *config_own_control(const struct config *config)
{
	return config_ps_address(config, config->task_index, config->standby_second);
}

bool config_shares_history(const struct config *config)
{
	return config->ps_count > 1 && config->journal_directory[0];
}

int config_parse_address(const char *text, struct config_address *address, struct star_error *err)
{
	struct config_address parsed = { 0 };
	const char *colon = strchr(text, ':');
	size_t length;
	int rc;

	if (*text == '[') {
		rc = parse_ipv6(text, &parsed, err);
		if (!rc)
			*address = parsed;
		return rc;
	}
	if (!colon)
		return star_error_set(err, -EINVAL, "\"%.80s\" has no port; " EXAMPLE, text);
	if (strchr(colon + 1, ':'))
		return star_error_set(err, -EINVAL,
				      "\"%.80s\" has more than one ':'; " EXAMPLE
				      ", and an IPv6 address in brackets, as in [2001:2::1]:3333",
				      text);
	length = (size_t)(colon - text);
	if (!length)
		return star_error_set(err, -EINVAL, "\"%.80s\" has no host; " EXAMPLE, text);
	if (length > CONFIG_HOST_MAX)
		return star_error_set(err, -EINVAL,
				      "\"%.80s...\": the host is longer than %d bytes; use its IP address", text,
				      CONFIG_HOST_MAX);
	memcpy(parsed.host, text, length);
	rc = check_host(parsed.host, text, err);
	if (!rc)
		rc = parse_port(colon + 1, text, &parsed.port, err);
	if (!rc)
		*address = parsed;
	return rc;
}

bool config_address_equal(const struct config_address *a, const struct config_address *b)
{
	return a->port == b->port && !strcasecmp(a->host, b->host);
}

bool config_is_literal(const char *host)
{
	struct in_addr literal;

	return config_is_ipv6(host) || inet_pton(AF_INET, host, &literal) == 1;
}

bool config_is_ipv6(const char *host)
{
	return strchr(host, ':') != NULL; /* which neither a name nor an IPv4 address has */
}

struct config_address_text config_show(const char *host, uint16_t port)
{
	struct config_address_text shown;

	snprintf(shown.text, sizeof(shown.text), config_is_ipv6(host) ? "[%s]:%u" : "%s:%u", host, port);
	return shown;
}

static const char *kernel_owned6(const struct in6_addr *address)
{
	if (IN6_IS_ADDR_LOOPBACK(address))
		return "loopback";
	if (IN6_IS_ADDR_UNSPECIFIED(address))
		return "the unspecified address";
	if (IN6_IS_ADDR_MULTICAST(address))
		return "multicast";
	if (IN6_IS_ADDR_LINKLOCAL(address))
		return "link-local";
	return IN6_IS_ADDR_V4MAPPED(address) || IN6_IS_ADDR_V4COMPAT(address) ? "an IPv4 address in IPv6 form" : NULL;
}

const char *config_address_kernel_owned(const char *host)
{
	struct in6_addr literal6;
	struct in_addr literal;
	uint32_t address;

	if (!strcasecmp(host, "localhost"))
		return "loopback";
	if (inet_pton(AF_INET6, host, &literal6) == 1)
		return kernel_owned6(&literal6);
	if (inet_pton(AF_INET, host, &literal) != 1)
		return NULL;
	address = ntohl(literal.s_addr);
	if (address >> 24 == 127)
		return "loopback";
	if (address >> 24 == 0)
		return "the unspecified address";
	if (address >> 28 == 14)
		return "multicast";
	if (address >> 28 == 15)
		return "broadcast or reserved";
	return NULL;
}
