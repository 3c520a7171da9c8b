/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside lib/config: the parts of config_load_check, in files of their own. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/load.h"

/* Where the value of an option (by name, which must be one) came from. */
static inline struct config_origin *config_check_origin(struct config_load *load, const char *name)
{
	return config_load_origin(load, config_option_find(name));
}

/* A ps needs a port; every port that there is must make sense. */
int config_check_ports(struct config_load *load, bool ps, struct star_error *err);

/* What net_memif takes: the appliance is the server, and copies (check_memif.c). name: of the port, for messages. */
int config_check_memif(const struct config_port *port, const char *name, const struct config_origin *origin,
		       struct star_error *err);

/* Finds the node's own entry (a ps must have one), and refuses data addresses that cannot be a PS's. */
int config_check_endpoints(struct config_load *load, bool ps, struct star_error *err);

/* resolve.c: the data address of an entry, for network.stack "kernel": a name becomes the address that it has. */
int config_resolve_data(struct config_load *load, uint32_t index, struct star_error *err);

#endif
