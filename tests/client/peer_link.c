/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The double's reactors over datagrams: the other end of a memif in this same process, with a stack and an endpoint for
 * each reactor. A session is bridged to a socket pair, at whose other end the double serves it as it does a TCP
 * connection.
 */
#include "tests/client/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "port/port.h"
#include "rpc/datagram.h"

enum { MBUFS = 32767, MTU = 1500, NAP_NS = 20000, NAP_MAX_NS = 320000, PIECE = 1 << 16 };

/* A session. */
struct bridge {
	struct bridge *next;
	struct dgram_session *session; /* NULL: closed */
	struct peer_reactor *reactor;
	int fd;
	bool ended;
	char *in; /* for the double */
	size_t in_bytes, in_size;
	char *out; /* from it: messages, the last one perhaps in part */
	size_t out_bytes, out_size;
};

static struct wire_end {
	pthread_mutex_t lock; /* of all that follows; the thread's while it works */
	bool started;
	pthread_t thread;
	struct rte_mempool *pool;
	struct port *port;
	struct net *net;
	struct dgram *endpoints[4 * PEER_REACTORS_MAX];
	unsigned endpoints_count;
	struct bridge *bridges;
	char socket[64];
} wire_end = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void add(char **to, size_t *bytes, size_t *size, const void *from, size_t n)
{
	if (*bytes + n > *size) {
		*size = (*bytes + n) * 2;
		*to = realloc(*to, *size);
		if (!*to)
			abort();
	}
	memcpy(*to + *bytes, from, n);
	*bytes += n;
}

static bool opened(void *ctx, struct dgram_session *session, void **user)
{
	struct peer_reactor *r = ctx;
	struct bridge *b = calloc(1, sizeof(*b));
	int pair[2];

	if (!b || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	b->reactor = r;
	if (!peer_accept(r, pair[1])) {
		close(pair[0]);
		close(pair[1]);
		free(b);
		return false;
	}
	b->session = session;
	b->fd = pair[0];
	b->next = wire_end.bridges;
	wire_end.bridges = b;
	*user = b;
	return true;
}

/* Messages that share a packet come to the stream without what lies between them. */
static void add_bundle(struct bridge *b, const struct rte_mbuf *packet)
{
	uint32_t at = 0;

	do {
		struct wire_frame frame;

		memcpy(&frame, rte_pktmbuf_mtod_offset(packet, const void *, at), sizeof(frame));
		add(&b->in, &b->in_bytes, &b->in_size, rte_pktmbuf_mtod_offset(packet, char *, at),
		    sizeof(frame) + frame.payload_bytes);
	} while ((at = dgram_next(packet, at)));
}

static void received(void *user, struct rte_mbuf *message, uint32_t bytes, enum wire_status status)
{
	struct bridge *b = user;
	uint32_t mbufs = 0;

	if (status == WIRE_OK && !message->next)
		add_bundle(b, message);
	for (bool chain = message->next; message;) {
		struct rte_mbuf *next = message->next;

		if (status == WIRE_OK && chain)
			add(&b->in, &b->in_bytes, &b->in_size, rte_pktmbuf_mtod(message, char *), message->data_len);
		message->next = NULL;
		message->nb_segs = 1;
		rte_pktmbuf_free_seg(message);
		message = next;
		mbufs++;
	}
	dgram_taken(b->session, mbufs);
}

static void acknowledged(void *user)
{
}

static void closed(void *user, int reason)
{
	struct bridge *b = user;

	b->session = NULL;
}

static const struct dgram_handler handler = {
	.opened = opened,
	.received = received,
	.acknowledged = acknowledged,
	.closed = closed,
};

static void send_message(struct dgram_session *session, const char *from, size_t bytes)
{
	struct rte_mbuf *first = NULL, **tail = &first;

	while (bytes) {
		const size_t most = dgram_payload(session), n = bytes < most ? bytes : most;
		struct rte_mbuf *m = dgram_alloc(session);

		if (!m)
			abort(); /* MBUFS are enough */
		memcpy(rte_pktmbuf_mtod(m, char *), from, n);
		m->data_len = (uint16_t)n;
		m->pkt_len = (uint32_t)n;
		*tail = m;
		tail = &m->next;
		from += n;
		bytes -= n;
	}
	dgram_send(session, first);
}

/* The length of the message that begins there; 0: more is to come. Bytes that are not a frame are a message. */
static size_t message_bytes(const struct bridge *b)
{
	struct wire_frame frame;
	size_t bytes;

	if (b->out_bytes < sizeof(frame))
		return 0;
	memcpy(&frame, b->out, sizeof(frame));
	if (wire_frame_check(&frame, NULL) != WIRE_OK)
		return b->out_bytes;
	bytes = sizeof(frame) + frame.payload_bytes;
	return bytes <= b->out_bytes ? bytes : 0;
}

/* True as long as the session is to stay. */
static bool serve(struct bridge *b)
{
	char piece[PIECE];
	ssize_t n;
	size_t bytes;

	if (b->in_bytes) {
		n = send(b->fd, b->in, b->in_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			b->in_bytes -= (size_t)n;
			memmove(b->in, b->in + n, b->in_bytes);
		}
	}
	while ((n = recv(b->fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		add(&b->out, &b->out_bytes, &b->out_size, piece, (size_t)n);
	while (b->session && (bytes = message_bytes(b))) {
		send_message(b->session, b->out, bytes);
		b->out_bytes -= bytes;
		memmove(b->out, b->out + bytes, b->out_bytes);
	}
	b->ended |= n == 0;
	return b->session && (!b->ended || dgram_queued(b->session)); /* what was said before the end is heard */
}

static void serve_all(void)
{
	struct bridge **at = &wire_end.bridges;

	while (*at) {
		struct bridge *b = *at;

		if (serve(b)) {
			at = &b->next;
			continue;
		}
		if (b->session)
			dgram_close(b->session);
		close(b->fd);
		free(b->in);
		free(b->out);
		*at = b->next;
		free(b);
	}
}

static bool turn(void)
{
	struct rte_mbuf *frames[PORT_BURST];
	const uint64_t now = clock_ns();
	unsigned n = port_receive(wire_end.port, 0, frames, PORT_BURST), work = n;
	bool more;

	if (n)
		net_input(wire_end.net, frames, n, now);
	else
		net_turn(wire_end.net, now);
	serve_all();
	do {
		more = false;
		for (unsigned i = 0; i < wire_end.endpoints_count; i++)
			more |= wire_end.endpoints[i] && dgram_turn(wire_end.endpoints[i], now);
		while ((n = net_output(wire_end.net, frames, PORT_BURST))) {
			const unsigned sent = port_send(wire_end.port, 0, frames, (uint16_t)n);

			rte_pktmbuf_free_bulk(frames + sent, n - sent);
			work += n;
		}
	} while (more);
	wheel_advance(net_wheel(wire_end.net), now, 64);
	return work;
}

static void *link_main(void *arg)
{
	struct timespec nap = { 0, NAP_NS };

	for (uint64_t idle_ns = 0;;) {
		bool worked;

		pthread_mutex_lock(&wire_end.lock);
		worked = turn();
		pthread_mutex_unlock(&wire_end.lock);
		idle_ns = worked ? 0 : idle_ns + (uint64_t)nap.tv_nsec;
		/* The longer nothing has come, the longer: most cases wait for something for most of their time. */
		nap.tv_nsec = idle_ns < 4 * NAP_NS	 ? NAP_NS
			      : idle_ns < 4 * NAP_MAX_NS ? (long)(idle_ns / 4)
							 : NAP_MAX_NS;
		if (!worked)
			nanosleep(&nap, NULL);
	}
	return NULL;
}

static void start(void)
{
	static struct config config = { .job_name = "worker", .hugepages = CONFIG_HUGEPAGES_NONE, .ports_count = 1 };
	struct net_options o = { .connections_max = 1,
				 .interfaces_count = 1,
				 .receive_window_bytes = 65536,
				 .rto_min_us = 200000,
				 .rto_max_us = 60000000,
				 .time_wait_ms = 1000,
				 .user_timeout_ms = 30000,
				 .delayed_ack_us = 1000,
				 .now_ns = clock_ns() };
	struct config_port *port = &config.ports[0];
	struct star_error err = { 0 };
	struct in_addr own;

	snprintf(wire_end.socket, sizeof(wire_end.socket), "/tmp/star-test-client-%d.sock", (int)getpid());
	strcpy(port->device, "net_memif");
	port->mtu = MTU;
	/* DPDK takes one path for one role: the client's has a dot more. */
	snprintf(port->options, sizeof(port->options), "role=server,socket-abstract=no,socket=%s", wire_end.socket);
	inet_pton(AF_INET, PEER_DATA_HOST, &own);
	if (port_eal_start(&config, 3 * port_mempool_bytes(MBUFS, MTU), &err) < 0 ||
	    !(wire_end.pool = port_mempool_create(7, MBUFS, MTU, &err)) ||
	    !(wire_end.port = port_open(port, 7, &wire_end.pool, 1, 0, &err))) {
		fprintf(stderr, "the double has no port: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	o.pool = wire_end.pool;
	o.interfaces[0] = (struct net_interface_options){ .port = wire_end.port->id,
							  .mtu = MTU,
							  .mac = wire_end.port->mac,
							  .addresses_count = 1,
							  .addresses = { { net_address_v4(own.s_addr), 24 } } };
	wire_end.net = net_create(&o, &err);
	if (!wire_end.net || pthread_create(&wire_end.thread, NULL, link_main, NULL) != 0) {
		fprintf(stderr, "the double has no stack: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	wire_end.started = true;
}

void *peer_link_listen(struct peer_reactor *r, uint16_t port, uint32_t incarnation)
{
	struct dgram_options o = { .accepts = true,
				   .port = port,
				   .incarnation = incarnation,
				   .sessions_max = 64,
				   .active_max = 64,
				   .window_max = 256,
				   .credits = 512,
				   .held_mbufs_max = MBUFS / 2,
				   .message_max = sizeof(struct wire_frame) + PEER_PAYLOAD_MAX,
				   .rto_min_ns = 1000000,
				   .rto_max_ns = 1000000000,
				   .lease_ns = UINT64_C(10000000000),
				   .heartbeat_ns = 1000000000,
				   .ack_delay_ns = 100000,
				   .target_delay_ns = 100000,
				   .secret = { 5, 6 },
				   .handler = &handler,
				   .ctx = r };
	struct star_error err = { 0 };
	struct dgram *dgram;

	pthread_mutex_lock(&wire_end.lock);
	if (!wire_end.started)
		start();
	o.net = wire_end.net;
	dgram = dgram_create(&o, &err);
	if (!dgram) {
		fprintf(stderr, "the double has no endpoint: %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	for (unsigned i = 0;; i++) {
		if (i == wire_end.endpoints_count)
			wire_end.endpoints_count++;
		if (wire_end.endpoints[i])
			continue;
		wire_end.endpoints[i] = dgram;
		break;
	}
	pthread_mutex_unlock(&wire_end.lock);
	return dgram;
}

void peer_link_close(struct peer_reactor *r, void *endpoint)
{
	pthread_mutex_lock(&wire_end.lock);
	for (struct bridge *b = wire_end.bridges; b; b = b->next)
		if (b->reactor == r && b->session) {
			dgram_close(b->session);
			b->session = NULL;
		}
	turn(); /* tells the client */
	for (unsigned i = 0; i < wire_end.endpoints_count; i++)
		if (wire_end.endpoints[i] == endpoint)
			wire_end.endpoints[i] = NULL;
	dgram_destroy(endpoint);
	pthread_mutex_unlock(&wire_end.lock);
}

void peer_link_worker_file(struct peer *p, const char *control, char *address, size_t bytes)
{
	FILE *file;

	snprintf(p->worker_file, sizeof(p->worker_file), "/tmp/star-test-client-%d-%p.conf", (int)getpid(), (void *)p);
	file = fopen(p->worker_file, "we");
	if (!file)
		abort();
	fprintf(file,
		"cluster = { ps = [ \"%s\" ]; };\n"
		"ports = ( { device = \"net_memif\"; options = \"socket=/tmp/.%s\"; address = \"198.18.251.2/24\"; "
		"mtu = %d; } );\n"
		"memory = { hugepages = \"none\"; mbufs = 16383; };\n",
		control, wire_end.socket + strlen("/tmp"), MTU);
	fclose(file);
	snprintf(address, bytes, "dpdk:%s", p->worker_file);
}
