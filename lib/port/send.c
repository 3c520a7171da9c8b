/* SPDX-License-Identifier: BSD-3-Clause */
/* The rare cases of sending: frames that a driver refuses, and rings that keep what was sent. */
#include "port/port.h"

uint16_t port_send_refused(const struct port *port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint16_t good,
			   uint64_t *refused)
{
	uint16_t done = 0;

	/* Each round removes at least one refused frame. */
	for (;;) {
		const uint16_t sent = rte_eth_tx_burst(port->id, queue, mbufs + done, good);

		done = (uint16_t)(done + sent);
		if (sent < good || done == n)
			return done; /* the ring is full: the caller tries the rest again */
		rte_pktmbuf_free(mbufs[done]);
		++*refused;
		if (++done == n)
			return n;
		good = rte_eth_tx_prepare(port->id, queue, mbufs + done, (uint16_t)(n - done));
	}
}

void port_clean(const struct port *port, uint16_t queue)
{
	if (port->id < RTE_MAX_ETHPORTS && !port->sends_itself && rte_eth_dev_is_valid_port(port->id))
		rte_eth_tx_done_cleanup(port->id, queue, 0); /* -ENOTSUP: the ring frees mbufs as it sends */
}
