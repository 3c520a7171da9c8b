/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/memif_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "port/memif_internal.h"

enum {
	LOG2 = 10,
	RING = 1 << LOG2,
	RING_BYTES = sizeof(struct memif_ring) + RING * sizeof(struct memif_descriptor),
};
static const uint64_t patience_ns = UINT64_C(5000000000); /* for an appliance that does not answer */

/* What the server must send next. */
enum step { CLOSED, HELLO, INIT_ACK, REGION_ACK, OUT_ACK, IN_ACK, CONNECTED, NOTHING };

struct memif_worker {
	struct config_memif options;
	uint16_t id;
	uint32_t buffer_bytes; /* of a descriptor: room for a whole frame */
	struct rte_mempool *pool;
	struct rte_ether_addr mac;
	enum step step;
	uint64_t begun_ns;
	int fd, memory_fd;
	int out_fd, in_fd; /* event fds: the server waits for out's; we wait for none */
	/* one region: both rings, then the buffers of out, then those of in */
	uint8_t *memory;
	size_t memory_bytes;
	struct memif_ring *out, *in; /* NULL: not connected */
	uint16_t out_head;
	uint16_t in_tail; /* what we have consumed */
};

/* Reads a field that the server writes exactly once. */
#define ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* ---- memory ---- */

static uint8_t *buffer(const struct memif_worker *w, bool in, uint16_t at)
{
	return w->memory + 2 * RING_BYTES + ((in ? RING : 0) + (at & (RING - 1))) * (size_t)w->buffer_bytes;
}

static void offer(struct memif_worker *w, struct memif_ring *ring, bool in, uint16_t at)
{
	ring->descriptors[at & (RING - 1)] =
		(struct memif_descriptor){ .bytes = w->buffer_bytes,
					   .offset = (uint32_t)(buffer(w, in, at) - w->memory) };
}

static struct memif_ring *ring_of(const struct memif_worker *w, bool in)
{
	return (struct memif_ring *)(w->memory + (in ? RING_BYTES : 0));
}

/* Nothing of the last connection's memory is reused: a server that has gone may not have unmapped it yet. */
static int make_memory(struct memif_worker *w)
{
	w->memory_bytes = 2 * RING_BYTES + 2 * RING * (size_t)w->buffer_bytes;
	w->memory_fd = memfd_create("star-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (w->memory_fd < 0 || ftruncate(w->memory_fd, (off_t)w->memory_bytes) != 0 ||
	    fcntl(w->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		return -errno;
	w->memory = mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->memory_fd, 0);
	if (w->memory == MAP_FAILED) {
		w->memory = NULL;
		return -errno;
	}
	w->out_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->in_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->out_fd < 0 || w->in_fd < 0)
		return -errno;
	for (int in = 0; in < 2; in++) {
		struct memif_ring *ring = ring_of(w, in);

		ring->cookie = MEMIF_COOKIE;
		ring->flags = in ? MEMIF_RING_MASKED : 0;
		for (unsigned i = 0; i < RING; i++)
			offer(w, ring, in, (uint16_t)i);
		ring->head = in ? RING : 0; /* all buffers are offered */
	}
	w->out_head = w->in_tail = 0;
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void leave(struct memif_worker *w)
{
	w->step = CLOSED;
	w->out = w->in = NULL;
	if (w->memory)
		munmap(w->memory, w->memory_bytes);
	w->memory = NULL;
	close_fd(&w->fd);
	close_fd(&w->memory_fd);
	close_fd(&w->out_fd);
	close_fd(&w->in_fd);
}

/* ---- connecting ---- */

static void go_to_server(struct memif_worker *w)
{
	struct sockaddr_un address;
	const socklen_t bytes = memif_address(&w->options, &address);

	w->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	w->begun_ns = clock_ns();
	if (w->fd >= 0 && connect(w->fd, (const struct sockaddr *)&address, bytes) == 0)
		w->step = HELLO;
	else
		leave(w);
}

static bool say(const struct memif_worker *w, const struct memif_message *message, int fd)
{
	struct iovec from = { (void *)(uintptr_t)message, sizeof(*message) };
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = {
		.header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
	};
	struct msghdr sent = { .msg_iov = &from, .msg_iovlen = 1 };

	if (fd >= 0) {
		sent.msg_control = &ancillary;
		sent.msg_controllen = sizeof(ancillary);
		memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
	}
	return sendmsg(w->fd, &sent, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*message);
}

static bool say_init(const struct memif_worker *w, const struct memif_message *hello)
{
	struct memif_message m = { .type = MEMIF_INIT };

	if (hello->hello.version_min > MEMIF_VERSION || hello->hello.version_max < MEMIF_VERSION ||
	    hello->hello.ring_log2_max < LOG2)
		return false;
	m.init.version = MEMIF_VERSION;
	m.init.id = w->options.id;
	memcpy(m.init.secret, w->options.secret, sizeof(m.init.secret));
	snprintf(m.init.name, sizeof(m.init.name), "libstar");
	return say(w, &m, -1);
}

static bool say_region(const struct memif_worker *w)
{
	struct memif_message m = { .type = MEMIF_ADD_REGION };

	m.add_region.bytes = w->memory_bytes;
	return say(w, &m, w->memory_fd);
}

static bool say_ring(const struct memif_worker *w, bool in)
{
	struct memif_message m = { .type = MEMIF_ADD_RING };

	m.add_ring.flags = in ? 0 : MEMIF_RING_TO_SERVER;
	m.add_ring.offset = in ? RING_BYTES : 0;
	m.add_ring.log2 = LOG2;
	return say(w, &m, in ? w->in_fd : w->out_fd);
}

static bool say_connect(const struct memif_worker *w)
{
	struct memif_message m = { .type = MEMIF_CONNECT };

	snprintf(m.connect.name, sizeof(m.connect.name), "libstar");
	return say(w, &m, -1);
}

/* Handles a message of the server; false: it is not the expected one. */
static bool take_server_message(struct memif_worker *w, const struct memif_message *m)
{
	const uint16_t expected = w->step == HELLO ? MEMIF_HELLO : w->step == CONNECTED ? MEMIF_CONNECTED : MEMIF_ACK;

	if (w->step == NOTHING || m->type != expected)
		return false;
	switch (w->step++) {
	case HELLO:
		return make_memory(w) == 0 && say_init(w, m);
	case INIT_ACK:
		return say_region(w);
	case REGION_ACK:
		return say_ring(w, false);
	case OUT_ACK:
		return say_ring(w, true);
	case IN_ACK:
		return say_connect(w);
	default:
		w->out = ring_of(w, false);
		w->in = ring_of(w, true);
		return true;
	}
}

bool memif_worker_link(struct memif_worker *w)
{
	struct memif_message message;
	ssize_t bytes;

	if (w->step == CLOSED)
		go_to_server(w);
	if (w->step == CLOSED)
		return false;
	while ((bytes = recv(w->fd, &message, sizeof(message), MSG_DONTWAIT)) == (ssize_t)sizeof(message))
		if (!take_server_message(w, &message)) {
			leave(w);
			return false;
		}
	if (bytes >= 0 || (errno != EAGAIN && errno != EINTR) || (!w->out && clock_ns() - w->begun_ns > patience_ns))
		leave(w);
	return w->out;
}

/* ---- frames ---- */

/* Copies a frame from the buffers at *at, of which `filled` are filled. False: they contain no frame that fits. *at
 * moves past it. */
static bool copy_in(const struct memif_worker *w, uint16_t *at, uint16_t filled, struct rte_mbuf *m)
{
	const uint32_t room = rte_pktmbuf_tailroom(m);
	uint32_t used = 0;
	bool fits = true, more = true;

	while (more && filled--) {
		const struct memif_descriptor *d = &w->in->descriptors[*at & (RING - 1)];
		const uint32_t bytes = ONCE(d->bytes);

		more = ONCE(d->flags) & MEMIF_DESCRIPTOR_NEXT;
		fits = fits && bytes <= w->buffer_bytes && bytes <= room - used;
		if (likely(fits)) {
			memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, used), buffer(w, true, *at), bytes);
			used += bytes;
		}
		++*at;
	}
	m->data_len = (uint16_t)used;
	m->pkt_len = used;
	return fits && used && !more;
}

uint16_t memif_worker_receive(struct memif_worker *w, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t taken = 0, filled, at = w->in_tail;

	if (unlikely(!w->in))
		return 0;
	filled = (uint16_t)(__atomic_load_n(&w->in->tail, __ATOMIC_ACQUIRE) - at);
	if (filled == 0 || unlikely(filled > RING)) /* invalid: the sessions end by timeout */
		return 0;
	n = RTE_MIN(n, filled);
	if (unlikely(rte_pktmbuf_alloc_bulk(w->pool, mbufs, n) != 0))
		return 0;
	while (taken < n && at != (uint16_t)(w->in_tail + filled))
		if (likely(copy_in(w, &at, (uint16_t)(w->in_tail + filled - at), mbufs[taken])))
			mbufs[taken++]->port = w->id;
	if (unlikely(taken < n))
		rte_pktmbuf_free_bulk(mbufs + taken, n - taken);
	for (; w->in_tail != at; w->in_tail++)
		offer(w, w->in, true, w->in_tail);
	__atomic_store_n(&w->in->head, (uint16_t)(at + RING), __ATOMIC_RELEASE);
	return taken;
}

/* Copies a whole frame, or nothing if it is too long: it is dropped. */
static void copy_out(struct memif_worker *w, const struct rte_mbuf *m)
{
	struct memif_descriptor *d = &w->out->descriptors[w->out_head & (RING - 1)];
	uint8_t *to = buffer(w, false, w->out_head);
	uint32_t bytes = 0;

	if (unlikely(m->pkt_len > w->buffer_bytes))
		return;
	for (; m; m = m->next) {
		memcpy(to + bytes, rte_pktmbuf_mtod(m, const void *), m->data_len);
		bytes += m->data_len;
	}
	d->bytes = bytes;
	w->out_head++;
}

uint16_t memif_worker_send(struct memif_worker *w, struct rte_mbuf **mbufs, uint16_t n)
{
	const uint64_t one = 1;
	uint16_t used;

	if (unlikely(!w->out))
		return 0;
	used = (uint16_t)(w->out_head - __atomic_load_n(&w->out->tail, __ATOMIC_ACQUIRE));
	if (unlikely(used > RING))
		return 0;
	n = RTE_MIN(n, (uint16_t)(RING - used));
	if (n == 0)
		return 0;
	for (uint16_t i = 0; i < n; i++)
		copy_out(w, mbufs[i]);
	__atomic_store_n(&w->out->head, w->out_head, __ATOMIC_RELEASE);
	/* between the write of head and the read of flags; pairs with the server's barrier between flags and head */
	rte_smp_mb();
	if (!(ONCE(w->out->flags) & MEMIF_RING_MASKED) && write(w->out_fd, &one, sizeof(one)) < 0)
		used = 0; /* its count is near 2^64: the server has enough signals */
	rte_pktmbuf_free_bulk(mbufs, n);
	return n;
}

/* ---- open and close ---- */

struct memif_worker *memif_worker_open(const struct config_port *config, uint16_t id, struct rte_mempool *pool,
				       struct star_error *err)
{
	struct memif_worker *w = calloc(1, sizeof(*w));

	if (!w) {
		star_error_set(err, -ENOMEM, "out of memory for a memif port");
		return NULL;
	}
	if (config_memif_read_worker(config, &w->options, err) < 0) {
		free(w);
		return NULL;
	}
	w->id = id;
	w->pool = pool;
	w->buffer_bytes = RTE_ALIGN_CEIL(config->mtu + (uint32_t)sizeof(struct rte_ether_hdr) +
						 (uint32_t)sizeof(struct rte_vlan_hdr),
					 (uint32_t)RTE_CACHE_LINE_SIZE);
	w->fd = w->memory_fd = w->out_fd = w->in_fd = -1;
	rte_eth_random_addr(w->mac.addr_bytes);
	if (w->options.has_mac)
		memcpy(w->mac.addr_bytes, w->options.mac, sizeof(w->options.mac));
	return w;
}

void memif_worker_close(struct memif_worker *w)
{
	leave(w);
	free(w);
}

void memif_worker_mac(const struct memif_worker *w, struct rte_ether_addr *mac)
{
	*mac = w->mac;
}
