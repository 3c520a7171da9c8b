/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a net_memif port: those of DPDK's driver that apply to a server that copies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/check.h"

enum { OPTIONS_MAX = 8 }; /* more than exist: an unknown or repeated option is an error, so no list is longer */

static int store_id(struct config_memif *memif, const char *value, struct star_error *err)
{
	char *end;
	const unsigned long id = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || strlen(value) > 10 || id > UINT32_MAX)
		return star_error_set(err, -EINVAL, "id=%.32s is not a number from 0 to 4294967295", value);
	memif->id = (uint32_t)id;
	return 0;
}

static int store_text(char *field, size_t bytes, const char *name, const char *value, struct star_error *err)
{
	if (!*value || strlen(value) >= bytes)
		return star_error_set(err, -EINVAL, "%s has %zu bytes; allowed: 1 to %zu", name, strlen(value),
				      bytes - 1);
	strcpy(field, value);
	return 0;
}

static int store_mac(struct config_memif *memif, const char *value, struct star_error *err)
{
	unsigned byte[6];
	int used = 0;

	if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5],
		   &used) != 6 ||
	    value[used] || byte[0] & 1)
		return star_error_set(err, -EINVAL,
				      "mac=%.32s is not a unicast MAC address; write one as in mac=02:00:00:00:00:01",
				      value);
	for (unsigned i = 0; i < 6; i++)
		memif->mac[i] = (uint8_t)byte[i];
	memif->has_mac = true;
	return 0;
}

static int store(struct config_memif *memif, const char *role, const char *key, const char *value,
		 struct star_error *err)
{
	if (!strcmp(key, "id"))
		return store_id(memif, value, err);
	if (!strcmp(key, "socket"))
		return store_text(memif->socket, sizeof(memif->socket), "socket", value, err);
	if (!strcmp(key, "secret"))
		return store_text(memif->secret, sizeof(memif->secret), "secret", value, err);
	if (!strcmp(key, "mac"))
		return store_mac(memif, value, err);
	if (!strcmp(key, "socket-abstract") && (!strcmp(value, "yes") || !strcmp(value, "no"))) {
		memif->abstract = *value == 'y';
		return 0;
	}
	if (!strcmp(key, "role"))
		return strcmp(value, role) ? star_error_set(err, -EINVAL,
							    "role=%.32s is refused: the appliance is always the "
							    "memif's server, which maps its client's memory and shares "
							    "none of its own; remove it, the worker is the client",
							    value)
					   : 0;
	if (!strcmp(key, "zero-copy"))
		return strcmp(value, "no")
			       ? star_error_set(
					 err, -EINVAL,
					 "zero-copy=%.32s is refused: the appliance and libstar always copy; remove it",
					 value)
			       : 0;
	if (!strcmp(key, "bsize") || !strcmp(key, "rsize"))
		return star_error_set(err, -EINVAL,
				      "%s is chosen by the client: move it to the options of the worker's port", key);
	return star_error_set(err, -EINVAL,
			      "net_memif does not take %.64s=%.64s; allowed: id=N, socket=PATH, socket-abstract=yes or "
			      "no, secret=TEXT and mac=ADDRESS",
			      key, value);
}

static int read_options(const struct config_port *port, const char *role, struct config_memif *memif,
			struct star_error *err)
{
	char text[sizeof(port->options)], *rest = text, *part;
	const char *keys[OPTIONS_MAX];
	unsigned count = 0;
	int rc = 0;

	*memif = (struct config_memif){ .id = 0 };
	strcpy(text, port->options);
	while (!rc && (part = strsep(&rest, ","))) {
		char *equals = strchr(part, '=');

		if (!*part)
			continue;
		if (equals)
			*equals = 0;
		for (unsigned i = 0; i < count && !rc; i++)
			if (!strcmp(keys[i], part))
				rc = star_error_set(err, -EINVAL, "%.32s is given twice; remove one", part);
		if (!rc)
			rc = store(memif, role, part, equals ? equals + 1 : "", err);
		if (count < OPTIONS_MAX)
			keys[count++] = part;
	}
	if (!rc && !memif->socket[0])
		snprintf(memif->socket, sizeof(memif->socket), "/run/starserver/memif-%u.sock", memif->id);
	if (!rc && memif->abstract && strlen(memif->socket) > sizeof(memif->socket) - 2)
		rc = star_error_set(err, -EINVAL, "socket has %zu bytes; an abstract socket's name has at most %zu",
				    strlen(memif->socket), sizeof(memif->socket) - 2);
	if (!rc && !memif->abstract && memif->socket[0] != '/')
		rc = star_error_set(
			err, -EINVAL,
			"socket=%s is not an absolute path; write one as in socket=/run/starserver/memif.sock",
			memif->socket);
	return rc;
}

int config_memif_read(const struct config_port *port, struct config_memif *memif, struct star_error *err)
{
	return read_options(port, "server", memif, err);
}

int config_memif_read_worker(const struct config_port *port, struct config_memif *memif, struct star_error *err)
{
	return read_options(port, "client", memif, err);
}

int config_check_memif(const struct config_port *port, const char *name, const struct config_origin *origin,
		       struct star_error *err)
{
	struct config_memif memif;
	struct star_error why = { 0 };

	if (strcmp(port->device, "net_memif") != 0 || config_memif_read(port, &memif, &why) == 0)
		return 0;
	return config_fail(origin, err, "%s.options: %s", name, why.text);
}
