/* SPDX-License-Identifier: BSD-3-Clause */
/* The memif server against clients made by hand: good ones, wrong ones, and some that write nonsense into their
 * rings. */
#include "port/memif_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/port/memif_say.h"
#include "tests/unit.h"

enum { QUEUES = 2, LOG2 = 5, RING = 1 << LOG2, BUFFER = 512, WAIT_US = 3000000 };
enum { RING_BYTES = sizeof(struct memif_ring) + RING * sizeof(struct memif_descriptor) };
enum { REGION_BYTES = 2 * QUEUES * RING_BYTES + 2 * QUEUES * RING * BUFFER };

static const char path[] = "/tmp/star-test-memif.sock";

struct client {
	int fd, memory_fd, event_fd;
	uint8_t *memory;
	struct memif_message answer; /* the last */
};

static struct config config;
static struct rte_mempool *pools[QUEUES];
static struct port *port;

static bool open_port(const char *options)
{
	struct star_error err = { 0 };

	if (!port) {
		child_config(&config, "net_memif", 1500);
		config.ports[0].interface[0] = 0;
		if (!child_eal(&config))
			return false;
		for (unsigned i = 0; i < QUEUES; i++)
			pools[i] = port_mempool_create(i, CHILD_MBUFS, 1500, &err);
	}
	snprintf(config.ports[0].options, sizeof(config.ports[0].options), "socket=%s,id=3%s", path, options);
	port = port_open(&config.ports[0], 0, pools, QUEUES, 7000, &err);
	return port || unit_fail(__FILE__, __LINE__, "%s", err.text);
}

/* The reactors' part: they take what is offered in their bursts. */
static void poll_queues(void)
{
	struct rte_mbuf *mbufs[PORT_BURST];

	for (uint16_t q = 0; q < QUEUES; q++) {
		const uint16_t n = port_receive(port, q, mbufs, PORT_BURST);

		if (n)
			rte_pktmbuf_free_bulk(mbufs, n);
	}
}

/* The next message; false: none within three seconds, or the end. */
static bool hear(struct client *c)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	while (clock_us() < until_us) {
		const ssize_t bytes = recv(c->fd, &c->answer, sizeof(c->answer), MSG_DONTWAIT);

		if (bytes == 0)
			return false;
		if (bytes > 0)
			return bytes == sizeof(c->answer);
		poll_queues();
		usleep(50);
	}
	return false;
}

static void say(struct client *c, const struct memif_message *m, size_t bytes, int fd)
{
	CHECK(memif_say(c->fd, m, bytes, fd, 0) >= 0);
}

static bool is_acknowledged(struct client *c, const struct memif_message *m, int fd)
{
	say(c, m, sizeof(*m), fd);
	return hear(c) && c->answer.type == MEMIF_ACK;
}

/* first: what the server says to it. */
static bool come_to(struct client *c, unsigned first)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*c = (struct client){ .memory_fd = memfd_create("client", MFD_ALLOW_SEALING),
			      .event_fd = eventfd(0, EFD_NONBLOCK) };
	CHECK_INT(ftruncate(c->memory_fd, REGION_BYTES), 0);
	c->memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory_fd, 0);
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(address.sun_path, path);
	return CHECK_INT(connect(c->fd, (struct sockaddr *)&address, sizeof(address)), 0) && CHECK(hear(c)) &&
	       CHECK_INT(c->answer.type, first);
}

static bool come(struct client *c)
{
	return come_to(c, MEMIF_HELLO);
}

static void leave(struct client *c)
{
	const uint64_t until_us = clock_us() + WAIT_US;

	close(c->fd);
	close(c->memory_fd);
	close(c->event_fd);
	munmap(c->memory, REGION_BYTES);
	while (memif_connected(port->memif) && clock_us() < until_us)
		poll_queues();
	/* Until all queues have let go. */
	for (unsigned i = 0; i < 200; i++) {
		poll_queues();
		usleep(50);
	}
	CHECK(!memif_connected(port->memif));
}

static struct memif_ring *ring(const struct client *c, bool in, unsigned queue)
{
	return (struct memif_ring *)(c->memory + (2 * queue + !in) * RING_BYTES);
}

static struct memif_message init_message(void)
{
	struct memif_message m = { .type = MEMIF_INIT };

	m.init.version = MEMIF_VERSION;
	m.init.id = 3;
	return m;
}

static struct memif_message region_message(void)
{
	struct memif_message m = { .type = MEMIF_ADD_REGION };

	m.add_region.bytes = REGION_BYTES;
	return m;
}

static struct memif_message ring_message(bool in, unsigned queue)
{
	struct memif_message m = { .type = MEMIF_ADD_RING };

	m.add_ring.flags = in ? MEMIF_RING_TO_SERVER : 0;
	m.add_ring.index = (uint16_t)queue;
	m.add_ring.offset = (2 * queue + !in) * RING_BYTES;
	m.add_ring.log2 = LOG2;
	return m;
}

static void make_rings(const struct client *c)
{
	for (unsigned i = 0; i < 2 * QUEUES; i++) {
		struct memif_ring *r = ring(c, i % 2 == 0, i / 2);

		r->cookie = MEMIF_COOKIE;
		for (unsigned j = 0; j < RING; j++)
			r->descriptors[j] = (struct memif_descriptor){
				.bytes = BUFFER, .offset = 2 * QUEUES * RING_BYTES + (i * RING + j) * BUFFER
			};
		if (i % 2)
			r->head = RING; /* buffers for the server */
	}
}

/* With n queue pairs. */
static bool join_with(struct client *c, unsigned pairs)
{
	struct memif_message m = init_message();

	make_rings(c);
	if (!CHECK(is_acknowledged(c, &m, -1)))
		return false;
	m = region_message();
	if (!CHECK(is_acknowledged(c, &m, c->memory_fd)))
		return false;
	for (unsigned i = 0; i < 2 * pairs; i++) {
		m = ring_message(i % 2 == 0, i / 2);
		if (!CHECK(is_acknowledged(c, &m, c->event_fd)))
			return false;
	}
	m = (struct memif_message){ .type = MEMIF_CONNECT };
	say(c, &m, sizeof(m), -1);
	return CHECK(hear(c)) && CHECK_INT(c->answer.type, MEMIF_CONNECTED);
}

static bool join(struct client *c)
{
	return join_with(c, QUEUES);
}

/* A frame of n bytes from the client, in as many buffers as it takes; false: the ring is full, or
 * spoilt. */
static bool put_frame(const struct client *c, unsigned queue, unsigned bytes, uint8_t mark)
{
	struct memif_ring *r = ring(c, true, queue);
	uint16_t head = r->head;

	do {
		struct memif_descriptor *d = &r->descriptors[head % RING];
		const unsigned part = RTE_MIN(bytes, (unsigned)BUFFER);

		if ((uint16_t)(head - r->tail) == RING || d->offset > REGION_BYTES - BUFFER)
			return false;
		memset(c->memory + d->offset, mark, part);
		d->bytes = part;
		bytes -= part;
		d->flags = bytes ? MEMIF_DESCRIPTOR_NEXT : 0;
		head++;
	} while (bytes);
	__atomic_store_n(&r->head, head, __ATOMIC_RELEASE);
	return true;
}

/* Round and round, and across the ends of the rings. */
static void carry(const struct client *c)
{
	for (unsigned i = 0; i < 2000; i++) {
		const unsigned bytes = 60 + i * 7 % 1400, queue = i % QUEUES, parts = (bytes + BUFFER - 1) / BUFFER;
		struct memif_ring *out = ring(c, false, queue);
		struct rte_mbuf *m = NULL;
		uint16_t at;

		CHECK(put_frame(c, queue, bytes, (uint8_t)i));
		if (!CHECK_UINT(port_receive(port, (uint16_t)queue, &m, 1), 1))
			return;
		CHECK_UINT(m->pkt_len, bytes);
		CHECK_UINT(m->port, port->id);
		CHECK_UINT(*rte_pktmbuf_mtod_offset(m, uint8_t *, bytes - 1), (uint8_t)i);
		at = out->tail;
		CHECK_UINT(port_send(port, (uint16_t)queue, &m, 1), 1);
		CHECK_UINT((uint16_t)(out->tail - at), parts);
		CHECK_UINT(out->descriptors[at % RING].bytes, RTE_MIN(bytes, (unsigned)BUFFER));
		CHECK_UINT(c->memory[out->descriptors[at % RING].offset], (uint8_t)i);
		for (unsigned j = 0; j < parts; j++)
			out->descriptors[(at + j) % RING].bytes = BUFFER;
		out->head += parts;
	}
}

static void none_is_lost(void)
{
	for (unsigned i = 0; i < QUEUES; i++)
		CHECK_UINT(rte_mempool_in_use_count(pools[i]), 0);
}

static void end(void)
{
	port_close(port);
	none_is_lost();
	CHECK_INT(access(path, F_OK), -1);
	port_eal_stop();
}

/* A client with one pair: its frames come in by the first queue, and all queues send to it. */
static void share(const struct client *c)
{
	for (uint16_t i = 0; i < RING; i++) {
		struct memif_ring *out = ring(c, false, 0);
		const uint16_t at = out->tail;
		struct rte_mbuf *m = NULL;

		CHECK(put_frame(c, 0, 100, (uint8_t)i));
		CHECK_UINT(port_receive(port, 1, &m, 1), 0);
		CHECK_INT(port_wait_arm(port, 1), 0);
		port_wait_disarm(port, 1);
		if (!CHECK_UINT(port_receive(port, 0, &m, 1), 1))
			return;
		CHECK_UINT(port_send(port, i % QUEUES, &m, 1), 1);
		CHECK_UINT((uint16_t)(out->tail - at), 1);
		CHECK_UINT(c->memory[out->descriptors[at % RING].offset], (uint8_t)i);
	}
}

void memif_carries_frames(void)
{
	struct client c;
	unsigned before;

	child_capture();
	if (!open_port(""))
		return;
	before = unit_entries("/proc/self/fd");
	for (int life = 0; life < 5; life++) {
		if (!come(&c) || !join(&c))
			return;
		CHECK(memif_connected(port->memif));
		carry(&c);
		leave(&c);
		CHECK_UINT(unit_entries("/proc/self/fd"), before);
	}
	if (come(&c) && join_with(&c, 1)) {
		share(&c);
		leave(&c);
	}
	end();
}

/* A sleeper is woken by its client's event fd, and when a client comes; a frame that is there already keeps it
 * awake. */
void memif_wakes_the_sleeper(void)
{
	const uint64_t one = 1;
	struct client c;

	child_capture();
	if (!open_port("") || !come(&c) || !join(&c))
		return;
	port_wait_disarm(port, 0); /* the bell of the connection */
	for (int i = 0; i < 100; i++) {
		struct rte_mbuf *m = NULL;

		CHECK_INT(port_wait_arm(port, 0), 0);
		CHECK_UINT(ring(&c, true, 0)->flags & MEMIF_RING_MASKED, 0);
		if (!CHECK(!child_rings(port, 0, 0)))
			break;
		CHECK(put_frame(&c, 0, 100, 1));
		CHECK_INT(port_wait_arm(port, 0), -EAGAIN);
		CHECK(write(c.event_fd, &one, sizeof(one)) == sizeof(one));
		CHECK(child_rings(port, 0, 1000));
		port_wait_disarm(port, 0);
		CHECK_UINT(ring(&c, true, 0)->flags & MEMIF_RING_MASKED, MEMIF_RING_MASKED);
		CHECK_UINT(port_receive(port, 0, &m, 1), 1);
		rte_pktmbuf_free(m);
	}
	leave(&c);
	end();
}

/* A client that sleeps is woken; one that has its event fd block, and fills it, keeps nobody waiting: child_run ends
 * what hangs. */
void memif_is_not_held_up_by_its_client(void)
{
	const uint64_t full = UINT64_MAX - 1;
	struct client c;
	uint64_t rings;

	child_capture();
	if (!open_port("") || !come(&c) || !join(&c))
		return;
	for (int round = 0; round < 4; round++) {
		struct pollfd woken = { .fd = c.event_fd, .events = POLLIN };
		struct rte_mbuf *m = NULL;

		CHECK(put_frame(&c, 0, 100, 1));
		CHECK_INT(port_wait_arm(port, 0), -EAGAIN);
		port_wait_disarm(port, 0);
		CHECK_UINT(port_receive(port, 0, &m, 1), 1);
		if (round == 2) {
			CHECK_INT(fcntl(c.event_fd, F_SETFL, 0), 0);
			CHECK(write(c.event_fd, &full, sizeof(full)) == sizeof(full));
		}
		CHECK_UINT(port_send(port, 0, &m, 1), 1);
		if (round < 2) {
			CHECK_INT(poll(&woken, 1, WAIT_US / 1000), 1);
			CHECK(read(c.event_fd, &rings, sizeof(rings)) == sizeof(rings));
			CHECK_UINT(rings, 1);
		}
	}
	leave(&c); /* the port's thread is still there, too */
	end();
}

/* Memory that the client could take away under a reactor, or too much of it. */
static void offer_memory(int fd, uint64_t bytes, const char *says)
{
	struct memif_message m = init_message();
	struct client c;

	if (!come(&c))
		return;
	CHECK(is_acknowledged(&c, &m, -1));
	CHECK_INT(ftruncate(fd, (off_t)bytes), 0);
	m = region_message();
	m.add_region.bytes = bytes;
	say(&c, &m, sizeof(m), fd);
	if (CHECK(hear(&c)) && CHECK_INT(c.answer.type, MEMIF_DISCONNECT))
		CHECK_HAS(c.answer.disconnect.text, says);
	close(fd);
	leave(&c);
}

void memif_refuses_memory_that_may_go(void)
{
	char file[UNIT_FOLDER];
	struct memif_message m = init_message();
	struct client c;
	int fd;

	child_capture();
	if (!open_port(""))
		return;
	offer_memory(memfd_create("client", 0), 4096, "F_SEAL_SHRINK");
	fd = memfd_create("client", MFD_ALLOW_SEALING);
	CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
	offer_memory(fd, 4096, "F_SEAL_SHRINK");
	fd = unit_file(file, "memif");
	unlink(file);
	offer_memory(fd, 4096, "F_SEAL_SHRINK");
	fd = memfd_create("client", MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (CHECK(fd >= 0))
		offer_memory(fd, 2 << 20, "a memfd of ordinary pages");
	offer_memory(memfd_create("client", MFD_ALLOW_SEALING), MEMIF_MEMORY_MAX + 4096, "over 1 GiB together");
	/* What it has passed cannot be made smaller any more. */
	if (!come(&c))
		return;
	CHECK(is_acknowledged(&c, &m, -1));
	m = region_message();
	CHECK(is_acknowledged(&c, &m, c.memory_fd));
	CHECK_INT(ftruncate(c.memory_fd, 0), -1);
	leave(&c);
	end();
}

/* One change to what a good client says, and what it hears. step: 0 the introduction, 1 the region, 2 a ring, 3 the
 * rest. */
struct wrong {
	unsigned step;
	void (*spoil)(struct memif_message *m);
	int fd; /* -1: none, 0: the right one, 1: standard output */
	const char *says;
};

#define SPOIL(name, what) \
	static void name(struct memif_message *m) \
	{ \
		what; \
	}
SPOIL(version, m->init.version = 0x100)
SPOIL(id, m->init.id = 4)
SPOIL(mode, m->init.mode = 1)
SPOIL(secret, strcpy(m->init.secret, "psts"))
SPOIL(type, m->type = 77)
SPOIL(early, m->type = MEMIF_CONNECT)
SPOIL(index_1, m->add_region.index = 1)
SPOIL(bytes_0, m->add_region.bytes = 0)
SPOIL(bytes_more, m->add_region.bytes = UINT64_MAX)
SPOIL(bytes_one_more, m->add_region.bytes++)
SPOIL(ring_index, m->add_ring.index = QUEUES)
SPOIL(ring_index_last, m->add_ring.index = UINT16_MAX)
SPOIL(ring_region, m->add_ring.region = 1)
SPOIL(ring_region_last, m->add_ring.region = UINT16_MAX)
SPOIL(ring_offset, m->add_ring.offset = REGION_BYTES - 16)
SPOIL(ring_offset_last, m->add_ring.offset = UINT32_MAX & ~15u)
SPOIL(ring_odd, m->add_ring.offset = 1)
SPOIL(ring_log2_0, m->add_ring.log2 = 0)
SPOIL(ring_log2, m->add_ring.log2 = 15)
SPOIL(ring_log2_large, m->add_ring.log2 = 14)
SPOIL(ring_private, m->add_ring.private_bytes = 4)
SPOIL(nothing, m->type = m->type)

static const struct wrong wrongs[] = {
	{ 0, version, -1, "only memif 2.0 is served" },
	{ 0, id, -1, "another id is served" },
	{ 0, mode, -1, "only Ethernet is served" },
	{ 0, secret, -1, "the secret is wrong" },
	{ 0, type, -1, "it has not introduced itself" },
	{ 0, early, -1, "it has not introduced itself" },
	{ 1, index_1, 0, "regions must be numbered consecutively" },
	{ 1, bytes_0, 0, "a region without its memory" },
	{ 1, bytes_more, 0, "a region without its memory" },
	{ 1, bytes_one_more, 0, "a region without its memory" },
	{ 1, nothing, -1, "a region without its memory" },
	{ 1, type, -1, "an unknown message" },
	{ 1, early, -1, "no ring in one of the directions" },
	{ 2, ring_index, 0, "more rings than" },
	{ 2, ring_index_last, 0, "more rings than" },
	{ 2, ring_region, 0, "a ring outside its region" },
	{ 2, ring_region_last, 0, "a ring outside its region" },
	{ 2, ring_offset, 0, "a ring outside its region" },
	{ 2, ring_offset_last, 0, "a ring outside its region" },
	{ 2, ring_odd, 0, "a ring outside its region" },
	{ 2, ring_log2_0, 0, "with an unsupported size" },
	{ 2, ring_log2, 0, "with an unsupported size" },
	{ 2, ring_log2_large, 0, "a ring outside its region" },
	{ 2, ring_private, 0, "with an unsupported size" },
	{ 2, nothing, -1, "a ring without its event fd" },
	{ 2, nothing, 1, "a ring without its event fd" },
};

static void be_wrong(const struct wrong *w)
{
	struct memif_message steps[] = { init_message(), region_message(), ring_message(true, 0) };
	struct client c;
	int fds[3];

	if (!come(&c))
		return;
	strcpy(steps[0].init.secret, "psst");
	fds[0] = -1;
	fds[1] = c.memory_fd;
	fds[2] = c.event_fd;
	for (unsigned step = 0; step < w->step; step++)
		CHECK(is_acknowledged(&c, &steps[step], fds[step]));
	w->spoil(&steps[w->step]);
	say(&c, &steps[w->step], sizeof(steps[0]), w->fd == 0 ? fds[w->step] : w->fd);
	if (CHECK(hear(&c)) && CHECK_INT(c.answer.type, MEMIF_DISCONNECT))
		CHECK_HAS(c.answer.disconnect.text, w->says);
	CHECK(!hear(&c));
	leave(&c);
}

void memif_refuses_wrong_clients(void)
{
	struct client c, second;
	unsigned before;

	child_capture();
	if (!open_port(",secret=psst"))
		return;
	before = unit_entries("/proc/self/fd");
	for (size_t i = 0; i < RTE_DIM(wrongs); i++)
		be_wrong(&wrongs[i]);
	if (!come(&c))
		return;
	say(&c, &(struct memif_message){ .type = MEMIF_INIT }, 20, -1); /* too short */
	CHECK(hear(&c) && c.answer.type == MEMIF_DISCONNECT);
	leave(&c);
	if (!come(&c))
		return;
	come_to(&second, MEMIF_DISCONNECT); /* while another one is here */
	leave(&second);
	leave(&c);
	CHECK_UINT(unit_entries("/proc/self/fd"), before);
	end();
}

static void spoil_memory(const struct client *c, struct prng *prng)
{
	/* Descriptors, cursors, or anything. */
	for (unsigned n = 1 + prng_below(prng, 8); n > 0; n--) {
		struct memif_ring *r = ring(c, prng_below(prng, 2), prng_below(prng, QUEUES));
		struct memif_descriptor *d = &r->descriptors[prng_below(prng, RING)];

		switch (prng_below(prng, 6)) {
		case 0:
			d->region = (uint16_t)prng_next(prng);
			break;
		case 1:
			d->bytes = (uint32_t)prng_next(prng);
			break;
		case 2:
			d->offset = (uint32_t)prng_next(prng);
			break;
		case 3:
			for (unsigned i = 0; i < RING; i++)
				r->descriptors[i].flags = MEMIF_DESCRIPTOR_NEXT;
			break;
		case 4:
			r->head = (uint16_t)(r->head + prng_below(prng, 2 * RING));
			break;
		default:
			c->memory[prng_below(prng, REGION_BYTES)] = (uint8_t)prng_next(prng);
		}
	}
}

/* Whatever stands in the rings: nothing outside of the region is read or written, and no mbuf is lost. */
void memif_survives_nonsense(void)
{
	const int lives = getenv("STAR_SOAK") ? 1500 : 200;
	struct prng prng;
	struct client c;

	child_capture();
	if (!open_port(""))
		return;
	prng_seed(&prng, 99);
	for (int life = 0; life < lives; life++) {
		if (!come(&c) || !join(&c))
			return;
		for (unsigned turn = 0; turn < 20; turn++) {
			struct rte_mbuf *mbufs[PORT_BURST];
			const uint16_t queue = (uint16_t)(turn % QUEUES);
			uint16_t n, sent;

			put_frame(&c, queue, 60 + prng_below(&prng, 2000), 7);
			spoil_memory(&c, &prng);
			n = port_receive(port, queue, mbufs, PORT_BURST);
			for (unsigned i = 0; i < n; i++)
				CHECK(mbufs[i]->data_len > 0 && mbufs[i]->data_len == mbufs[i]->pkt_len);
			sent = port_send(port, queue, mbufs, n);
			if (sent < n)
				rte_pktmbuf_free_bulk(mbufs + sent, (unsigned)(n - sent));
		}
		leave(&c);
		none_is_lost();
	}
	end();
}
