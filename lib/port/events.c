/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events that devices report outside of their bursts: the link is up or down, the device needs a reset (ENA when it
 * hangs, iavf when its physical function was reset), or it was removed. The EAL calls back on its own thread, which
 * only records the event; the node's watcher polls it (lib/node/nics.c). A NIC under vfio-pci is removed with the
 * process's consent: the kernel asks (the bus's event), and waits until the device is closed. One under uio is gone at
 * once, and DPDK is not told: so its directory in /sys is checked.
 */
/* DPDK 22.11 does not promise to keep this interface. */
#define ALLOW_EXPERIMENTAL_API

#include <errno.h>
#include <rte_dev.h>
#include <rte_log.h>
#include <string.h>
#include <unistd.h>

#include "port/internal.h"

static void note_state(struct port *port, enum port_state state)
{
	/* A removal is the last possible event. */
	if (__atomic_load_n(&port->state, __ATOMIC_RELAXED) != PORT_IS_REMOVED)
		__atomic_store_n(&port->state, state, __ATOMIC_RELAXED);
}

static int on_event(uint16_t id, enum rte_eth_event_type event, void *ctx, void *detail)
{
	(void)id;
	(void)detail;
	note_state(ctx, event == RTE_ETH_EVENT_INTR_RMV ? PORT_IS_REMOVED : PORT_NEEDS_RESET);
	return 0;
}

static void on_bus_event(const char *device, enum rte_dev_event_type event, void *ctx)
{
	(void)device;
	if (event == RTE_DEV_EVENT_REMOVE)
		note_state(ctx, PORT_IS_REMOVED);
}

void port_expect_removal(void)
{
	rte_dev_hotplug_handle_enable();
	/* The EAL's interrupt thread would log errors for the missing interrupt until the device is closed. */
	rte_log_set_level(RTE_LOGTYPE_EAL, RTE_LOG_CRIT);
}

void port_watch(struct port *port)
{
	rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_RESET, on_event, port);
	rte_eth_dev_callback_register(port->id, RTE_ETH_EVENT_INTR_RMV, on_event, port);
	rte_dev_event_callback_register(port->name, on_bus_event, port);
}

void port_unwatch(struct port *port)
{
	rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_RESET, on_event, port);
	rte_eth_dev_callback_unregister(port->id, RTE_ETH_EVENT_INTR_RMV, on_event, port);
	/* -EAGAIN: the callback is running. */
	while (rte_dev_event_callback_unregister(port->name, on_bus_event, port) == -EAGAIN)
		usleep(1000);
}

bool port_is_nic(const struct port *port)
{
	return strchr(port->name, ':') && port->id < RTE_MAX_ETHPORTS; /* its name is a PCI address */
}

bool port_has_link(const struct port *port)
{
	return port_is_nic(port) || port->interface[0];
}

enum port_state port_state(const struct port *port)
{
	char path[128];

	if (port->gone)
		return PORT_IS_REMOVED;
	if (port_is_nic(port)) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", port->name);
		if (access(path, F_OK) != 0 && errno == ENOENT)
			return PORT_IS_REMOVED;
	}
	if (port->interface[0] && !port_interface_is_there(port))
		return PORT_IS_REMOVED;
	return (enum port_state)__atomic_load_n(&port->state, __ATOMIC_RELAXED);
}

const char *port_state_text(enum port_state state)
{
	switch (state) {
	case PORT_NEEDS_RESET:
		return "needs a reset";
	case PORT_IS_REMOVED:
		return "removed";
	case PORT_WORKS:
		break;
	}
	return "works";
}
