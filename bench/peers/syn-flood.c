/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flood of SYNs towards one port, from random addresses and ports, by a packet socket. For tests and benches of our
 * own appliance only: destination and sources are of 198.18.0.0/15 (RFC 2544), it wants a veth interface, and it ends
 * after the seconds it is given. Sources of the destination's own /24 are left out: they would be looked for by ARP,
 * which is another test; what answers the others get goes to the appliance's gateway.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"

enum { BATCH = 64, SECONDS_MAX = 600, EXIT_USAGE = 2 };
#define BENCH_NET UINT32_C(0xc6120000) /* 198.18.0.0 */
#define BENCH_MASK UINT32_C(0xfffe0000)
#define LINK_MASK UINT32_C(0xffffff00)

struct __attribute__((packed)) syn {
	struct ether_header eth;
	struct iphdr ip;
	struct tcphdr tcp;
	/* what Linux sends: MSS 1460, SACK permitted, timestamps, window scale 7 */
	uint8_t options[20];
};

struct flood {
	int fd;
	uint32_t to; /* host order */
	struct prng prng;
	struct syn syns[BATCH];
	struct iovec pieces[BATCH];
	struct mmsghdr messages[BATCH];
};

static int fail(const char *what)
{
	fprintf(stderr, "syn-flood: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static uint32_t add(uint32_t sum, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void renew(struct flood *f, struct syn *syn)
{
	const uint64_t random = prng_next(&f->prng);
	uint32_t from = BENCH_NET | ((uint32_t)random & ~BENCH_MASK);

	if (((from ^ f->to) & LINK_MASK) == 0)
		from ^= ~LINK_MASK + 1; /* the next network */
	syn->ip.saddr = htonl(from);
	syn->ip.id = (uint16_t)(random >> 32);
	syn->ip.check = 0;
	syn->ip.check = folded(add(0, &syn->ip, sizeof(syn->ip)));
	syn->tcp.source = htons((uint16_t)(1024 + (random >> 48) % 64512));
	syn->tcp.seq = (uint32_t)prng_next(&f->prng);
	syn->tcp.check = 0;
	syn->tcp.check = folded(add(IPPROTO_TCP + sizeof(syn->tcp) + sizeof(syn->options), &syn->ip.saddr, 8) +
				add(0, &syn->tcp, sizeof(syn->tcp) + sizeof(syn->options)));
}

static void prepare(struct flood *f, const uint8_t *mac, const uint8_t *own, uint16_t port)
{
	static const uint8_t options[20] = { 2, 4, 1460 >> 8, 1460 & 0xff, 4, 2, 8, 10, 0, 0,
					     0, 1, 0,	      0,	   0, 0, 1, 3,	3, 7 };

	for (int i = 0; i < BATCH; i++) {
		struct syn *syn = &f->syns[i];

		memcpy(syn->eth.ether_dhost, mac, ETH_ALEN);
		memcpy(syn->eth.ether_shost, own, ETH_ALEN);
		syn->eth.ether_type = htons(ETHERTYPE_IP);
		syn->ip.version = 4;
		syn->ip.ihl = sizeof(syn->ip) / 4;
		syn->ip.tot_len = htons(sizeof(*syn) - sizeof(syn->eth));
		syn->ip.ttl = 64;
		syn->ip.protocol = IPPROTO_TCP;
		syn->ip.daddr = htonl(f->to);
		syn->tcp.dest = htons(port);
		syn->tcp.doff = (sizeof(syn->tcp) + sizeof(options)) / 4;
		syn->tcp.syn = 1;
		syn->tcp.window = htons(64240);
		memcpy(syn->options, options, sizeof(options));
		f->pieces[i] = (struct iovec){ syn, sizeof(*syn) };
		f->messages[i].msg_hdr = (struct msghdr){ .msg_iov = &f->pieces[i], .msg_iovlen = 1 };
	}
}

/* A packet socket on a veth interface, and that one's address; -1 with errno. */
static int open_socket(const char *interface, uint8_t *own)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { 0 };
	struct sockaddr_ll address = { .sll_family = AF_PACKET };
	const int on = 1, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	if (ioctl(fd, SIOCGIFHWADDR, &request) == 0) {
		memcpy(own, request.ifr_hwaddr.sa_data, ETH_ALEN);
		request.ifr_data = (char *)&info;
		address.sll_ifindex = (int)if_nametoindex(interface);
		if (ioctl(fd, SIOCETHTOOL, &request) == 0) {
			errno = EPERM;
			if (strcmp(info.driver, "veth") == 0 &&
			    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) == 0 &&
			    bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
				return fd;
		}
	}
	close(fd);
	return -1;
}

static int run(struct flood *f, double seconds)
{
	const uint64_t began_ns = clock_ns(), ends_ns = began_ns + (uint64_t)(seconds * 1e9);
	uint64_t sent = 0, now_ns;

	do {
		int n;

		for (int i = 0; i < BATCH; i++)
			renew(f, &f->syns[i]);
		n = sendmmsg(f->fd, f->messages, BATCH, 0);
		if (n > 0)
			sent += (uint64_t)n;
		else if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
			return fail("sending");
		now_ns = clock_ns();
	} while (now_ns < ends_ns);
	printf("{\"syns\": %llu, \"seconds\": %.6f}\n", (unsigned long long)sent, (double)(now_ns - began_ns) * 1e-9);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct flood f;
	uint8_t mac[ETH_ALEN], own[ETH_ALEN];
	struct in_addr to;
	double seconds;

	if (argc != 6 ||
	    sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) !=
		    6 ||
	    inet_pton(AF_INET, argv[3], &to) != 1 || (ntohl(to.s_addr) & BENCH_MASK) != BENCH_NET ||
	    (seconds = strtod(argv[5], NULL)) <= 0 || seconds > SECONDS_MAX) {
		fprintf(stderr, "usage: syn-flood VETH_INTERFACE TO_MAC TO_ADDRESS PORT SECONDS (an address of "
				"198.18.0.0/15)\n");
		return EXIT_USAGE;
	}
	f.to = ntohl(to.s_addr);
	f.fd = open_socket(argv[1], own);
	if (f.fd < 0)
		return fail(argv[1]);
	prng_seed(&f.prng, clock_ns());
	prepare(&f, mac, own, (uint16_t)atoi(argv[4]));
	return run(&f, seconds);
}
