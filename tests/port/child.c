/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/port/child.h"

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit.h"

/* Made before the fork, so that the parent can read it when the child ended badly. */
static int captured = -1;

const char *child_captured(void)
{
	static char text[8192];
	ssize_t bytes = pread(captured, text, sizeof(text) - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	return text;
}

void child_capture(void)
{
	CHECK_INT(dup2(captured, STDERR_FILENO), STDERR_FILENO);
}

void child_run(void (*run)(void))
{
	const unsigned before = CU_get_number_of_failure_records();
	int status;
	pid_t pid;

	fflush(stdout);
	captured = memfd_create("stderr", MFD_CLOEXEC);
	pid = fork();
	if (!CHECK(pid >= 0))
		return;
	if (pid == 0) {
		alarm(60);
		if (CHECK_INT(unshare(CLONE_NEWNET), 0))
			run();
		fflush(stdout);
		_exit(CU_get_number_of_failure_records() > before ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	if (status != 0)
		unit_fail(__FILE__, __LINE__, "the child ended with status %#x; on standard error: %s", status,
			  child_captured());
	close(captured);
}

void child_command(const char *command)
{
	fflush(stdout);
	if (system(command) != 0)
		unit_fail(__FILE__, __LINE__, "failed: %s", command);
}

void child_veth(unsigned mtu, unsigned queues, bool offloads)
{
	char command[256];

	/* Without IPv6 the kernel sends nothing by itself. */
	child_command("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
	snprintf(command, sizeof(command),
		 "ip link add star0 mtu %u numrxqueues %u numtxqueues %u type veth peer name star1 mtu %u numrxqueues "
		 "%u "
		 "numtxqueues %u",
		 mtu, queues, queues, mtu, queues, queues);
	child_command(command);
	if (!offloads)
		child_command("for i in star0 star1; do ethtool -K $i tx off tso off gso off gro off || exit; done "
			      ">/dev/null");
	child_command("ip link set star0 up && ip link set star1 up");
}

void child_config(struct config *config, const char *device, unsigned mtu)
{
	memset(config, 0, sizeof(*config));
	config->hugepages = CONFIG_HUGEPAGES_NONE;
	config->ports_count = 1;
	config->ports[0].mtu = mtu;
	snprintf(config->ports[0].device, sizeof(config->ports[0].device), "%s", device);
	snprintf(config->ports[0].interface, sizeof(config->ports[0].interface), "star0");
}

bool child_eal(const struct config *config)
{
	const uint64_t bytes = 4 * port_mempool_bytes(CHILD_MBUFS, config->ports[0].mtu);
	struct star_error err = { 0 };

	return port_eal_start(config, bytes, &err) == 0 || unit_fail(__FILE__, __LINE__, "%s", err.text);
}

int child_peer(void)
{
	const struct sockaddr_ll address = { .sll_family = AF_PACKET,
					     .sll_protocol = htons(ETH_P_ALL),
					     .sll_ifindex = (int)if_nametoindex("star1") };
	const struct timeval timeout = { .tv_sec = 5 };
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), one = 1;

	CHECK_INT(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_INT(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	return fd;
}

unsigned child_frame(uint8_t *frame, const struct port *port, uint16_t flow, unsigned bytes)
{
	struct rte_ether_hdr *ethernet = (struct rte_ether_hdr *)frame;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ethernet + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);
	const unsigned headers = sizeof(*ethernet) + sizeof(*ip) + sizeof(*udp);

	memset(frame, 0, headers);
	for (unsigned i = headers; i < bytes; i++)
		frame[i] = (uint8_t)(i * 31 + flow);
	ethernet->dst_addr = port->mac;
	ethernet->src_addr = (struct rte_ether_addr){ .addr_bytes = { 2, 0, 0, 0, 0, 1 } };
	ethernet->ether_type = htons(RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = htons((uint16_t)(bytes - sizeof(*ethernet)));
	ip->time_to_live = 64;
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = htonl(0xc6120002);
	ip->dst_addr = htonl(0xc6120001);
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->src_port = htons(flow);
	udp->dst_port = htons(5555);
	udp->dgram_len = htons((uint16_t)(bytes - sizeof(*ethernet) - sizeof(*ip)));
	return bytes;
}

struct rte_mbuf *child_receive(const struct port *port, uint16_t queue)
{
	struct rte_mbuf *mbuf;

	for (int i = 0; i < 50000; i++) {
		if (port_receive(port, queue, &mbuf, 1) == 1)
			return mbuf;
		usleep(100);
	}
	return NULL;
}

bool child_rings(const struct port *port, uint16_t queue, int timeout_ms)
{
	struct pollfd pollfd = { .fd = port->wait_fds[queue], .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1 && pollfd.revents == POLLIN;
}
