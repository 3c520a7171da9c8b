/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside lib/config: the parts of config_load_check, each in its own file. One thread. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/load.h"

/* Where an option's value came from; name must be that of an option. */
static inline struct config_origin *config_check_origin(struct config_load *load, const char *name)
{
	return config_load_origin(load, config_option_find(name));
}

/* A ps needs a port; every configured port must be valid. 0 or -EINVAL, as the functions below. */
int config_check_ports(struct config_load *load, bool ps, struct star_error *err);

/* check_memif.c: the options of net_memif: the appliance is the server, and copies. name: of the port, for messages. */
int config_check_memif(const struct config_port *port, const char *name, const struct config_origin *origin,
		       struct star_error *err);

/* Finds the node's own entry (a ps must have one), and refuses data addresses that no PS can have. */
int config_check_endpoints(struct config_load *load, bool ps, struct star_error *err);

/* check_sockets.c: what a PS listens on in the kernel. After config_check_endpoints. */
int config_check_sockets(struct config_load *load, struct star_error *err);

/* resolve.c: for network.stack "kernel": resolves a host name in an entry's data address. */
int config_resolve_data(struct config_load *load, uint32_t index, struct star_error *err);

#endif
