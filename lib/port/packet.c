/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/packet.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/port.h"

enum {
	PARTS = 4 * PORT_BURST, /* of the frames of one call */
	QUEUED_BYTES = 8 << 20, /* what the interface may have and has not sent */
};

int packet_open(const char *interface, bool bypass)
{
	/* Of no protocol: nothing is received. */
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), bytes = QUEUED_BYTES,
		  straight = bypass;
	const struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface) };

	if (fd < 0)
		return -errno;
	/* Both are for speed alone. */
	(void)setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &straight, sizeof(straight));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	if (address.sll_ifindex && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -ENODEV;
}

/* The pieces of a frame; 0: there is no room for them. */
static unsigned split(const struct rte_mbuf *m, struct iovec *parts, unsigned room)
{
	unsigned n = 0;

	if (m->nb_segs > room)
		return 0;
	for (; m && n < room; m = m->next)
		parts[n++] = (struct iovec){ rte_pktmbuf_mtod(m, void *), m->data_len };
	return n;
}

uint16_t packet_send(int fd, struct rte_mbuf **mbufs, uint16_t n)
{
	struct mmsghdr messages[PORT_BURST];
	struct iovec parts[PARTS];
	unsigned used = 0, ready = 0;
	int sent;

	for (; ready < n && ready < PORT_BURST; ready++) {
		const unsigned count = split(mbufs[ready], parts + used, PARTS - used);

		if (count == 0)
			break;
		messages[ready] = (struct mmsghdr){ .msg_hdr = { .msg_iov = parts + used, .msg_iovlen = count } };
		used += count;
	}
	if (ready == 0)
		return 0;
	sent = sendmmsg(fd, messages, ready, MSG_DONTWAIT);
	/* A frame that the interface does not carry (its mtu was lowered) is lost, and does not hinder those behind it. An interface
	 * that is full or down: the caller tries again, and counts what is lost. */
	if (sent < 0 && (errno == EMSGSIZE || errno == EINVAL))
		sent = 1;
	if (sent <= 0)
		return 0;
	rte_pktmbuf_free_bulk(mbufs, (unsigned)sent);
	return (uint16_t)sent;
}
