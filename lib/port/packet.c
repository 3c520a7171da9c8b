/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/packet.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port/port.h"

enum {
	PARTS = 4 * PORT_BURST, /* of the frames of one call */
	QUEUED_BYTES = 8 << 20, /* what the interface may have accepted but not sent */
};

int port_packet_open(const char *interface, bool bypass)
{
	/* No protocol, so that nothing is received. */
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), bytes = QUEUED_BYTES,
		  straight = bypass;
	const struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface) };

	if (fd < 0)
		return -errno;
	/* Both only improve speed. */
	(void)setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &straight, sizeof(straight));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	if (address.sll_ifindex && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -ENODEV;
}

int port_packet_open_cutting(const char *interface)
{
	/* If it bypasses the queueing discipline, the kernel drops frames that the interface itself does not
	 * segment. */
	const int fd = port_packet_open(interface, false), on = 1;

	if (fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0) {
		close(fd);
		return -EOPNOTSUPP;
	}
	return fd;
}

int port_packet_deafen(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* the whole frame */
	};
	const struct sock_fprog program = { .len = RTE_DIM(code), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 ? 0 : -errno;
}

static bool is_to_be_cut(const struct rte_mbuf *m)
{
	return m->ol_flags & RTE_MBUF_F_TX_TCP_SEG;
}

/* What the kernel needs to know about a frame that it segments, and what it expects in the headers: IPv4's checksum,
 * and TCP's pseudo-header checksum with the total length. It may be repeated. */
static void prepare_head(struct rte_mbuf *m, struct virtio_net_hdr *head)
{
	const uint16_t tcp_at = (uint16_t)(m->l2_len + m->l3_len);
	struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(m, struct rte_tcp_hdr *, tcp_at);

	*head = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = m->ol_flags & RTE_MBUF_F_TX_IPV4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6,
		.hdr_len = (uint16_t)(tcp_at + m->l4_len),
		.gso_size = m->tso_segsz,
		.csum_start = tcp_at,
		.csum_offset = offsetof(struct rte_tcp_hdr, cksum),
	};
	if (m->ol_flags & RTE_MBUF_F_TX_IPV4) {
		struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, m->l2_len);

		ip->hdr_checksum = 0;
		ip->hdr_checksum = rte_ipv4_cksum(ip);
		tcp->cksum = rte_ipv4_phdr_cksum(ip, 0);
	} else {
		tcp->cksum = rte_ipv6_phdr_cksum(rte_pktmbuf_mtod_offset(m, struct rte_ipv6_hdr *, m->l2_len), 0);
	}
}

/* The pieces of a frame; 0: there is no room for them. */
static unsigned split_frame(const struct rte_mbuf *m, struct iovec *parts, unsigned room)
{
	unsigned n = 0;

	if (m->nb_segs > room)
		return 0;
	for (; m && n < room; m = m->next)
		parts[n++] = (struct iovec){ rte_pktmbuf_mtod(m, void *), m->data_len };
	return n;
}

/* Sends the first frames, up to one that goes to the other socket, as many as one call takes; returns how many were
 * sent. */
static uint16_t send_run(int fd, struct rte_mbuf **mbufs, uint16_t n)
{
	const bool cut = is_to_be_cut(mbufs[0]);
	struct virtio_net_hdr heads[PORT_BURST];
	struct mmsghdr messages[PORT_BURST];
	struct iovec parts[PARTS];
	unsigned used = 0, ready = 0;
	int sent;

	for (; ready < n && ready < PORT_BURST && is_to_be_cut(mbufs[ready]) == cut; ready++) {
		struct iovec *first = parts + used;
		const unsigned count =
			used + cut < PARTS ? split_frame(mbufs[ready], first + cut, PARTS - used - cut) : 0;

		if (count == 0)
			break;
		if (cut) {
			prepare_head(mbufs[ready], &heads[ready]);
			*first = (struct iovec){ &heads[ready], sizeof(heads[ready]) };
		}
		messages[ready] = (struct mmsghdr){ .msg_hdr = { .msg_iov = first, .msg_iovlen = count + cut } };
		used += count + cut;
	}
	if (ready == 0)
		return 0;
	sent = sendmmsg(fd, messages, ready, MSG_DONTWAIT);
	/* A frame that the interface cannot send (its MTU was lowered) is dropped, so that it does not block those
	 * after it. If the interface is full or down, the caller tries again, and counts what is lost. */
	if (sent < 0 && (errno == EMSGSIZE || errno == EINVAL))
		sent = 1;
	if (sent <= 0)
		return 0;
	rte_pktmbuf_free_bulk(mbufs, (unsigned)sent);
	return (uint16_t)sent;
}

uint16_t port_packet_send(int fd, int cutting_fd, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t sent = 0, more = 1;

	for (; sent < n && more; sent += more)
		more = send_run(is_to_be_cut(mbufs[sent]) ? cutting_fd : fd, mbufs + sent, n - sent);
	return sent;
}
