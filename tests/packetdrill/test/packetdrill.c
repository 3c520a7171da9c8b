/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared object without packetdrill: opened as packetdrill does it, and driven through the interface. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/packetdrill/so/interface.h"
#include "tests/unit.h"

enum { PORT = 8080, PEER_PORT = 40000, PEER_ISN = 1000, WINDOW = 60000, PACKET_MAX = 2048 };
enum { FIN = TH_FIN, SYN = TH_SYN, RST = TH_RST, ACK = TH_ACK };
#define LOCAL "192.168.0.1"
#define PEER "192.0.2.1"

static struct packetdrill_interface so;

/* A segment as it came out, numbers in host order. */
struct out {
	long long us;
	uint32_t seq, ack;
	uint16_t port;
	uint8_t flags;
	uint16_t bytes, window;
	const uint8_t *data;
	uint8_t packet[PACKET_MAX];
};

static void start(void)
{
	char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	void (*init)(const char *, struct packetdrill_interface *);
	char *folder;
	void *handle;

	path[n < 0 ? 0 : n] = '\0';
	for (int i = 0; i < 2; i++) { /* BUILD/tests/packetdrill/test/test-packetdrill */
		folder = strrchr(path, '/');
		*folder = '\0';
	}
	strcat(path, "/packetdrill.so");
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	*(void **)&init = dlsym(handle, "packetdrill_interface_init");
	init("local=" LOCAL ",mtu=1500", &so);
}

static void stop(void)
{
	so.free(so.self);
}

static long long now_us(void)
{
	struct timeval t;

	so.gettimeofday(so.self, &t, NULL);
	return t.tv_sec * 1000000ll + t.tv_usec;
}

static uint32_t sum16(uint32_t sum, const void *data, size_t bytes)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < bytes; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* A segment from the peer, with its two checksums. */
static void send_in(uint16_t port, uint16_t to, uint8_t flags, uint32_t seq, uint32_t ack, const void *data,
		    uint16_t bytes)
{
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
		uint8_t data[1000];
	} p = { 0 };
	const uint16_t segment = (uint16_t)(sizeof(p.tcp) + bytes), all = (uint16_t)(sizeof(p.ip) + segment);

	p.ip = (struct iphdr){ .version = 4, .ihl = 5, .tot_len = htons(all), .ttl = 64, .protocol = IPPROTO_TCP };
	p.ip.saddr = inet_addr(PEER);
	p.ip.daddr = inet_addr(LOCAL);
	p.ip.check = fold(sum16(0, &p.ip, sizeof(p.ip)));
	p.tcp.source = htons(port);
	p.tcp.dest = htons(to);
	p.tcp.seq = htonl(seq);
	p.tcp.ack_seq = htonl(ack);
	p.tcp.doff = sizeof(p.tcp) / 4;
	p.tcp.th_flags = flags;
	p.tcp.window = htons(WINDOW);
	if (bytes)
		memcpy(p.data, data, bytes);
	p.tcp.check = fold(sum16(sum16(IPPROTO_TCP + segment, &p.ip.saddr, 8), &p.tcp, segment));
	CHECK_INT(so.netdev_send(so.self, &p, all), 0);
}

static struct out receive(void)
{
	static struct out o;
	const struct iphdr *ip = (const struct iphdr *)o.packet;
	const struct tcphdr *tcp = (const struct tcphdr *)(ip + 1);
	size_t bytes = sizeof(o.packet);

	CHECK_INT(so.netdev_receive(so.self, o.packet, &bytes, &o.us), 0);
	CHECK_UINT(bytes, ntohs(ip->tot_len));
	CHECK_UINT(ip->saddr, inet_addr(LOCAL));
	CHECK_UINT(ip->daddr, inet_addr(PEER));
	CHECK_UINT(fold(sum16(sum16((uint32_t)(IPPROTO_TCP + bytes - sizeof(*ip)), &ip->saddr, 8), tcp,
			      bytes - sizeof(*ip))),
		   0);
	o.seq = ntohl(tcp->seq);
	o.ack = ntohl(tcp->ack_seq);
	o.port = ntohs(tcp->source);
	o.flags = tcp->th_flags;
	o.window = ntohs(tcp->window);
	o.data = (const uint8_t *)tcp + tcp->doff * 4;
	o.bytes = (uint16_t)(bytes - sizeof(*ip) - tcp->doff * 4u);
	return o;
}

/* The next one that carries something, or acknowledges so much: between them the stack may announce its window. */
static struct out receive_news(uint32_t ack)
{
	struct out o;

	do
		o = receive();
	while (o.flags == ACK && o.bytes == 0 && o.ack != ack);
	return o;
}

static struct sockaddr_in address_of(const char *address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = inet_addr(address) };
}

static int listen_on(uint16_t port)
{
	const struct sockaddr_in local = address_of(LOCAL, port);
	const int fd = so.socket(so.self, AF_INET, SOCK_STREAM, IPPROTO_TCP);

	CHECK(fd >= 0);
	CHECK_INT(so.bind(so.self, fd, (const struct sockaddr *)&local, sizeof(local)), 0);
	CHECK_INT(so.listen(so.self, fd, 1), 0);
	return fd;
}

/* Accepts a connection of the peer; *iss is our initial sequence number. */
static int accept_one(int listener, uint32_t *iss)
{
	struct sockaddr_in from = { 0 };
	socklen_t bytes = sizeof(from);
	struct out o;
	int fd;

	send_in(PEER_PORT, PORT, SYN, PEER_ISN, 0, NULL, 0);
	o = receive();
	CHECK_UINT(o.flags, SYN | ACK);
	CHECK_UINT(o.ack, PEER_ISN + 1);
	*iss = o.seq;
	send_in(PEER_PORT, PORT, ACK, PEER_ISN + 1, o.seq + 1, NULL, 0);
	fd = so.accept(so.self, listener, (struct sockaddr *)&from, &bytes);
	CHECK(fd >= 0);
	CHECK_UINT(ntohs(from.sin_port), PEER_PORT);
	CHECK_UINT(from.sin_addr.s_addr, inet_addr(PEER));
	return fd;
}

static void case_serves_a_connection(void)
{
	static const char question[] = "how are you", answer[] = "fine";
	char text[64];
	uint32_t iss;
	struct out o;
	int fd;

	start();
	fd = accept_one(listen_on(PORT), &iss);
	send_in(PEER_PORT, PORT, ACK, PEER_ISN + 1, iss + 1, question, sizeof(question));
	CHECK_UINT(receive().ack, PEER_ISN + 1 + sizeof(question));
	CHECK_INT(so.read(so.self, fd, text, sizeof(text)), sizeof(question));
	CHECK_STR(text, question);
	CHECK_INT(so.write(so.self, fd, answer, sizeof(answer)), sizeof(answer));
	o = receive_news(0);
	CHECK_UINT(o.seq, iss + 1);
	if (CHECK_UINT(o.bytes, sizeof(answer)))
		CHECK_MEM(o.data, answer, sizeof(answer));
	send_in(PEER_PORT, PORT, ACK | FIN, PEER_ISN + 1 + sizeof(question), iss + 1 + sizeof(answer), NULL, 0);
	o = receive_news(PEER_ISN + 2 + sizeof(question));
	CHECK_UINT(o.ack, PEER_ISN + 2 + sizeof(question));
	CHECK_INT(so.read(so.self, fd, text, sizeof(text)), 0);
	CHECK_INT(so.close(so.self, fd), 0);
	o = receive_news(0);
	CHECK_UINT(o.flags, FIN | ACK);
	CHECK_UINT(o.seq, iss + 1 + sizeof(answer));
	send_in(PEER_PORT, PORT, ACK, PEER_ISN + 2 + sizeof(question), iss + 2 + sizeof(answer), NULL, 0);
	CHECK_INT(so.read(so.self, fd, text, sizeof(text)), -1);
	CHECK_INT(errno, EBADF);
	stop();
}

static int error_of(int fd)
{
	int error = -1;
	socklen_t bytes = sizeof(error);

	CHECK_INT(so.getsockopt(so.self, fd, SOL_SOCKET, SO_ERROR, &error, &bytes), 0);
	return error;
}

static void case_is_refused(void)
{
	const struct sockaddr_in peer = address_of(PEER, PORT);
	struct pollfd p = { .events = POLLOUT };
	struct out o;

	start();
	p.fd = so.socket(so.self, AF_INET, SOCK_STREAM, IPPROTO_TCP);
	CHECK_INT(so.fcntl(so.self, p.fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	CHECK_INT(so.connect(so.self, p.fd, (const struct sockaddr *)&peer, sizeof(peer)), -1);
	CHECK_INT(errno, EINPROGRESS);
	o = receive();
	CHECK_UINT(o.flags, SYN);
	CHECK_INT(so.poll(so.self, &p, 1, 0), 0);
	send_in(PORT, o.port, RST | ACK, 0, o.seq + 1, NULL, 0);
	CHECK_INT(so.poll(so.self, &p, 1, 0), 1);
	CHECK_INT(p.revents, POLLOUT | POLLERR | POLLHUP);
	CHECK_INT(error_of(p.fd), ECONNREFUSED);
	CHECK_INT(error_of(p.fd), 0);
	stop();
}

/* Time is virtual: what is waited for comes at its time, and at once. */
static void case_lets_time_pass(void)
{
	const struct sockaddr_in peer = address_of(PEER, PORT);
	struct pollfd p = { .events = POLLIN };
	struct out first, second;
	long long before;

	start();
	before = now_us();
	CHECK_INT(so.usleep(so.self, 3000000), 0);
	CHECK_INT(now_us() - before, 3000000);
	p.fd = so.socket(so.self, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
	before = now_us();
	CHECK_INT(so.connect(so.self, p.fd, (const struct sockaddr *)&peer, sizeof(peer)), -1);
	first = receive();
	CHECK_INT(first.us, before);
	CHECK_INT(so.poll(so.self, &p, 1, 500), 0);
	CHECK_INT(now_us() - before, 500000);
	second = receive(); /* the same SYN, a second later (RFC 6298, 2.1) */
	CHECK_UINT(second.flags, SYN);
	CHECK_UINT(second.seq, first.seq);
	CHECK_NEAR(second.us - first.us, 1000000, 1000);
	/* A thread that asks for the time again and again waits for it. */
	before = now_us();
	for (int i = 0; i < 1000 && now_us() == before; i++)
		;
	CHECK(now_us() > before);
	stop();
}

struct reader {
	int fd;
	ssize_t result;
	long long returned_us;
};

static void *read_blocking(void *arg)
{
	struct reader *r = arg;
	char text[64];

	r->result = so.read(so.self, r->fd, text, sizeof(text));
	r->returned_us = now_us();
	return NULL;
}

/* A call that blocks in another thread returns at the moment at which its data came, however far the first thread
 * is. */
static void case_blocks_in_a_thread(void)
{
	struct reader reader = { 0 };
	pthread_t thread;
	long long came_us;
	uint32_t iss;

	start();
	reader.fd = accept_one(listen_on(PORT), &iss);
	CHECK_INT(pthread_create(&thread, NULL, read_blocking, &reader), 0);
	CHECK_INT(so.usleep(so.self, 250000), 0);
	came_us = now_us();
	send_in(PEER_PORT, PORT, ACK, PEER_ISN + 1, iss + 1, "data", 4);
	CHECK_INT(so.usleep(so.self, 2000000), 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(reader.result, 4);
	/* If the thread came to its call only after the data, that was at a later time of the clock. */
	CHECK(reader.returned_us == came_us || reader.returned_us == now_us());
	stop();
}

static void case_keeps_options(void)
{
	int fd, value = 0;
	socklen_t bytes = sizeof(value);
	uint32_t iss;
	struct tcp_info info = { 0 };

	start();
	fd = accept_one(listen_on(PORT), &iss);
	value = 20000;
	CHECK_INT(so.setsockopt(so.self, fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)), 0);
	CHECK_INT(so.getsockopt(so.self, fd, SOL_SOCKET, SO_SNDBUF, &value, &bytes), 0);
	CHECK_INT(value, 40000);
	bytes = sizeof(info);
	CHECK_INT(so.getsockopt(so.self, fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	CHECK_INT(info.tcpi_state, TCP_ESTABLISHED);
	CHECK_INT(info.tcpi_snd_cwnd, 10);
	CHECK_INT(so.getsockopt(so.self, fd, IPPROTO_TCP, 12345, &value, &bytes), -1);
	CHECK_INT(errno, ENOPROTOOPT);
	CHECK_INT(so.getsockopt(so.self, -1, IPPROTO_TCP, TCP_INFO, &info, &bytes), -1);
	CHECK_INT(errno, EBADF);
	stop();
}

static void set_receive(int fd, int bytes)
{
	CHECK_INT(so.setsockopt(so.self, fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
}

static uint16_t offered_to(uint16_t port)
{
	struct out o;

	send_in(port, PORT, SYN, PEER_ISN, 0, NULL, 0);
	o = receive();
	CHECK_UINT(o.flags, SYN | ACK);
	send_in(port, PORT, ACK, PEER_ISN + 1, o.seq + 1, NULL, 0);
	return o.window;
}

/* SO_RCVBUF is one socket's: a listener's connections have it, and a connection may be given another. */
static void case_sizes_one_receive_buffer(void)
{
	const struct sockaddr_in local = address_of(LOCAL, PORT + 1);
	uint8_t data[1000] = { 0 };
	uint32_t iss;
	int fd, other;

	start();
	fd = listen_on(PORT);
	other = so.socket(so.self, AF_INET, SOCK_STREAM, IPPROTO_TCP);
	set_receive(other, 3 * 1460 + 100);
	CHECK_INT(so.bind(so.self, other, (const struct sockaddr *)&local, sizeof(local)), 0);
	CHECK_INT(so.listen(so.self, other, 1), 0);
	CHECK_UINT(offered_to(PEER_PORT + 1), 65535);
	CHECK(so.accept(so.self, fd, NULL, NULL) >= 0);
	send_in(PEER_PORT, PORT + 1, SYN, PEER_ISN, 0, NULL, 0);
	CHECK_UINT(receive().window, 3 * 1460);
	CHECK_UINT(offered_to(PEER_PORT + 2), 65535);
	CHECK(so.accept(so.self, fd, NULL, NULL) >= 0);
	fd = accept_one(fd, &iss);
	set_receive(fd, 60000);
	send_in(PEER_PORT, PORT, ACK, PEER_ISN + 1, iss + 1, data, sizeof(data));
	CHECK_UINT(receive().window, 64535); /* what was offered stays */
	stop();
}

const char *const unit_suite = "packetdrill";
const struct unit_case unit_cases[] = {
	{ "serves_a_connection", case_serves_a_connection },
	{ "is_refused", case_is_refused },
	{ "lets_time_pass", case_lets_time_pass },
	{ "blocks_in_a_thread", case_blocks_in_a_thread },
	{ "keeps_options", case_keeps_options },
	{ "sizes_one_receive_buffer", case_sizes_one_receive_buffer },
	{ NULL, NULL },
};
