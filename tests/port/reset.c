/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that asks for a reset, and one that is taken out, as its driver says so: by the events that ENA and iavf
 * raise. No driver without a NIC can reset its device, so that step is ours here; all before and behind it is real.
 * Real NICs: tests/system/pci.
 */
#include <errno.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <string.h>

#include "port/port.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/unit.h"

/* DPDK's, of its drivers' header, which is not installed. The first device is at the array's beginning. */
extern char rte_eth_devices[];
int rte_eth_dev_callback_process(void *device, enum rte_eth_event_type event, void *detail);
/* Instead of DPDK's. */
int rte_eth_dev_reset(uint16_t id);

static unsigned resets;
static int reset_status;
static uint16_t forgets; /* a device that was reset: the entries of its table */

enum { RSS_HASHES = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP };

int rte_eth_dev_reset(uint16_t id)
{
	resets++;
	if (forgets) {
		/* As iavf draws another key, and a table of its own. */
		uint8_t key[40];
		struct rte_eth_rss_conf rss = { .rss_key = key, .rss_key_len = sizeof(key), .rss_hf = RSS_HASHES };
		struct rte_eth_rss_reta_entry64 table[STEERING_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE] = { { 0 } };

		memset(key, 0x5a, sizeof(key));
		CHECK_INT(rte_eth_dev_rss_hash_update(id, &rss), 0);
		for (unsigned i = 0; i < RTE_DIM(table); i++)
			table[i].mask = UINT64_MAX;
		CHECK_INT(rte_eth_dev_rss_reta_update(id, table, forgets), 0);
	}
	return reset_status;
}

static void raise_event(enum rte_eth_event_type event)
{
	CHECK_INT(rte_eth_dev_callback_process(rte_eth_devices, event, NULL), 0);
}

static void carries(const struct port *port)
{
	struct rte_mbuf *mbuf;

	CHECK_UINT(port_receive(port, 0, &mbuf, 1), 1);
	CHECK_UINT(mbuf->pkt_len, 80);
	CHECK_UINT(port_send(port, 0, &mbuf, 1), 1);
}

void device_events(void)
{
	struct port_strays strays = { 0 };
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;
	struct port *port;

	child_capture();
	child_config(&config, "net_null", 1500);
	config.ports[0].interface[0] = '\0';
	strcpy(config.ports[0].options, "size=80");
	if (!child_eal(&config))
		return;
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	port = port_open(&config.ports[0], 0, &pool, 1, 7000, &err);
	if (!CHECK(port) || !CHECK_UINT(port->id, 0))
		return;
	CHECK_INT(port_state(port), PORT_WORKS);
	raise_event(RTE_ETH_EVENT_INTR_LSC);
	CHECK_INT(port_state(port), PORT_WORKS);
	raise_event(RTE_ETH_EVENT_INTR_RESET);
	CHECK_INT(port_state(port), PORT_NEEDS_RESET);
	CHECK_STR(port_state_text(port_state(port)), "needs a reset");
	/* One that fails may be tried again, */
	reset_status = -EIO;
	CHECK_INT(port_reset(port, &config.ports[0], &pool, &err), -EIO);
	CHECK_HAS(err.text, "cannot be reset (");
	CHECK_INT(port_state(port), PORT_NEEDS_RESET);
	reset_status = 0;
	CHECK_INT(port_reset(port, &config.ports[0], &pool, &err), 0);
	CHECK_UINT(resets, 2);
	CHECK_INT(port_state(port), PORT_WORKS);
	carries(port);
	/* and another one may follow. */
	raise_event(RTE_ETH_EVENT_INTR_RESET);
	CHECK_INT(port_reset(port, &config.ports[0], &pool, &err), 0);
	carries(port);
	/* A removal is the last that there is to say. */
	raise_event(RTE_ETH_EVENT_INTR_RMV);
	raise_event(RTE_ETH_EVENT_INTR_RESET);
	CHECK_INT(port_state(port), PORT_IS_REMOVED);
	port_shut(port, &strays);
	port_strays_return(&strays);
	CHECK_INT(port_state(port), PORT_IS_REMOVED);
	port_close(port);
	CHECK_UINT(rte_mempool_in_use_count(pool), 0);
	port_eal_stop();
	CHECK_STR(child_captured(), "");
}

/* Clients have chosen their ports by a key and a table that were published. */
void steering_survives_a_reset(void)
{
	struct rte_eth_rss_reta_entry64 table[STEERING_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE] = { { 0 } };
	uint8_t key[STEERING_KEY_MAX] = { 0 };
	struct rte_eth_rss_conf rss = { .rss_key = key, .rss_key_len = 40 };
	struct rte_mempool *pools[2];
	struct star_error err = { 0 };
	struct steering before;
	struct config config;
	struct port *port;

	child_capture();
	child_config(&config, "net_null", 1500);
	config.ports[0].interface[0] = '\0';
	if (!child_eal(&config))
		return;
	for (unsigned i = 0; i < 2; i++)
		pools[i] = port_mempool_create(i, CHILD_MBUFS, 1500, &err);
	port = port_open(&config.ports[0], 0, pools, 2, 7000, &err);
	if (!CHECK(port) || !CHECK_INT(port->steers, PORT_SOURCE_PORTS))
		return;
	before = port->steering;
	forgets = before.entries;
	CHECK_INT(port_reset(port, &config.ports[0], pools, &err), 0);
	CHECK_INT(port->steers, PORT_SOURCE_PORTS);
	CHECK_MEM(&port->steering, &before, sizeof(before));
	CHECK_INT(rte_eth_dev_rss_hash_conf_get(port->id, &rss), 0);
	CHECK_MEM(key, before.key, before.key_bytes);
	for (unsigned i = 0; i < RTE_DIM(table); i++)
		table[i].mask = UINT64_MAX;
	CHECK_INT(rte_eth_dev_rss_reta_query(port->id, table, before.entries), 0);
	for (unsigned i = 0; i < before.entries; i++)
		CHECK_UINT(table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE], before.table[i]);
	port_close(port);
	port_eal_stop();
	CHECK_STR(child_captured(), "");
}
