/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memif server against a client that lies: in its messages, in the memory that it passes, in its rings and by its
 * event fds. The input is a program of steps; most are nearly right, so that the server gets as far as to copy frames.
 * What the server maps has guard pages and a poisoned rest around it, so that an access beside a region is seen.
 * Client, port's thread and reactors are one thread here: where the server waits for reactors, they get a turn.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sanitizer/asan_interface.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/pool.h"
#include "tests/port/memif_say.h"

static void *guarded_mmap(size_t bytes, int fd);
static void guarded_munmap(void *memory, size_t bytes);
static void reactors_turn(void);
static int accept_client(void);

#define mmap(at, bytes, protection, flags, fd, offset) guarded_mmap(bytes, fd)
#define munmap(memory, bytes) guarded_munmap(memory, bytes)
#define usleep(us) reactors_turn()
#define accept4(fd, address, bytes, flags) accept_client()
#include "port/memif_client.c"
#undef mmap
#undef munmap
#undef usleep
#undef accept4

enum { QUEUES = 2, LOG2 = 3, RING = 1 << LOG2, BUFFER = 192, MBUFS = 64, STEPS_MAX = 300, PAGE = 4096 };
enum { RING_BYTES = sizeof(struct memif_ring) + RING * sizeof(struct memif_descriptor) };
enum { BYTES = 2 * QUEUES * (RING_BYTES + RING * BUFFER) };

static struct memif *memif;
static struct rte_mempool *pool;
static int client_fd, server_fd, memory_fd, event_fds[2 * QUEUES];
static uint8_t *memory; /* the client's view */

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *guarded_mmap(size_t bytes, int fd)
{
	const size_t whole = whole_pages(bytes);
	uint8_t *at = mmap(NULL, whole + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return at;
	if (mmap(at + PAGE, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(at, whole + 2 * PAGE);
		return MAP_FAILED;
	}
	ASAN_POISON_MEMORY_REGION(at + PAGE + bytes, whole - bytes);
	return at + PAGE;
}

static void guarded_munmap(void *region, size_t bytes)
{
	const size_t whole = whole_pages(bytes);

	ASAN_UNPOISON_MEMORY_REGION((uint8_t *)region + bytes, whole - bytes);
	munmap((uint8_t *)region - PAGE, whole + 2 * PAGE);
}

static int accept_client(void)
{
	return server_fd;
}

static unsigned receive(uint16_t queue, struct rte_mbuf **mbufs)
{
	const uint16_t n = memif_receive(memif, queue, mbufs, 8);

	for (unsigned i = 0; i < n; i++)
		FUZZ_CHECK(mbufs[i]->data_len > 0 && mbufs[i]->data_len == mbufs[i]->pkt_len &&
				   mbufs[i]->nb_segs == 1 &&
				   mbufs[i]->data_len <= mbufs[i]->buf_len - mbufs[i]->data_off && mbufs[i]->port == 7,
			   "a frame of %u of %u bytes", mbufs[i]->data_len, mbufs[i]->pkt_len);
	return n;
}

static void reactors_turn(void)
{
	struct rte_mbuf *mbufs[8];

	for (uint16_t q = 0; q < QUEUES; q++)
		rte_pktmbuf_free_bulk(mbufs, receive(q, mbufs));
}

static struct memif_ring *ring(bool in, unsigned queue)
{
	return (struct memif_ring *)(memory + (2 * queue + !in) * RING_BYTES);
}

static void say(const struct memif_message *m, size_t bytes, int fd)
{
	if (memif_say(client_fd, m, bytes, fd, MSG_DONTWAIT) < 0)
		return;
	if (memif->client_fd >= 0)
		memif_client_serve(memif);
}

/* What a good client says; `at` may spoil a byte of it. */
static void say_one(unsigned what, struct input *in)
{
	struct memif_message m = { .type = MEMIF_INIT };
	const uint8_t spoil = take8(in);
	int fd = -1;

	if (what == 0) {
		m.init.version = MEMIF_VERSION;
	} else if (what == 1) {
		m.type = MEMIF_ADD_REGION;
		m.add_region.index = memif->link ? (uint16_t)memif->link->regions_count : 0;
		m.add_region.bytes = spoil & 8 ? BYTES - (take8(in) & 127) : BYTES;
		fd = memory_fd;
	} else if (what < 2 + 2 * QUEUES) {
		m.type = MEMIF_ADD_RING;
		m.add_ring.flags = what % 2 ? 0 : MEMIF_RING_TO_SERVER;
		m.add_ring.index = (uint16_t)((what - 2) / 2);
		m.add_ring.offset = (what - 2) * RING_BYTES;
		m.add_ring.log2 = LOG2;
		if (spoil & 32) { /* near the region's end, or beyond it */
			m.add_ring.offset = (uint64_t)BYTES + 128 * 16 - 16 * (uint64_t)take8(in);
			m.add_ring.log2 = take8(in) % 16;
		}
		fd = event_fds[what - 2];
	} else {
		m.type = what == 2 + 2 * QUEUES ? MEMIF_CONNECT : MEMIF_ACK + take8(in) % 8;
	}
	if (spoil & 1) /* a byte of what matters */
		((uint8_t *)&m)[take8(in) % 24] = take8(in);
	if (spoil & 2)
		fd = spoil & 4 ? -1 : spoil & 16 ? memory_fd : event_fds[0];
	say(&m, spoil >= 0xf0 ? take8(in) % sizeof(m) : sizeof(m), fd);
}

static void put_frame(struct input *in)
{
	struct memif_ring *r = ring(true, take8(in) % QUEUES);
	const uint8_t how = take8(in);
	const uint32_t unit = how & 64 ? 16 : 1; /* with it more than an mbuf holds */
	unsigned parts = 1 + how % 4;

	while (parts--) {
		struct memif_descriptor *d = &r->descriptors[r->head % RING];

		d->bytes = take8(in) * unit;
		d->flags = parts ? MEMIF_DESCRIPTOR_NEXT : 0;
		r->head++;
	}
}

static void spoil_ring(struct input *in)
{
	const uint8_t which = take8(in);
	struct memif_ring *r = ring(which & 1, which / 2 % QUEUES);
	struct memif_descriptor *d = &r->descriptors[which / 4 % RING];

	switch (take8(in) % 8) {
	case 0:
		d->region = take16(in);
		break;
	case 1:
		d->bytes = take8(in) & 1 ? take32(in) : BYTES - d->offset + take8(in) % 3 - 1;
		break;
	case 2:
		d->offset = take8(in) & 1 ? take32(in) : BYTES - take8(in) % 64;
		break;
	case 3:
		d->flags = take16(in);
		break;
	case 4:
		r->head += take8(in) % (2 * RING);
		break;
	case 5:
		r->tail = take16(in);
		break;
	case 6:
		r->flags = take8(in) & 1;
		break;
	default:
		memory[take16(in) % BYTES] = take8(in);
	}
}

static void send_frames(struct input *in)
{
	const uint16_t queue = take8(in) % QUEUES;
	struct rte_mbuf *mbufs[4];
	uint16_t n = 1 + take8(in) % 4, sent;

	if (rte_pktmbuf_alloc_bulk(pool, mbufs, n) != 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		const uint16_t bytes = 1 + take16(in) % 1500;

		memset(rte_pktmbuf_append(mbufs[i], bytes), 0x5a, bytes);
	}
	sent = memif_send(memif, queue, mbufs, n);
	rte_pktmbuf_free_bulk(mbufs + sent, n - sent);
	/* The client gives buffers again. */
	ring(false, queue)->head = (uint16_t)(ring(false, queue)->tail + RING);
	for (unsigned i = 0; i < RING; i++)
		if (ring(false, queue)->descriptors[i].bytes == 0)
			ring(false, queue)->descriptors[i].bytes = BUFFER;
}

static void use_queue(struct input *in)
{
	const uint16_t queue = take8(in) % QUEUES;
	struct rte_mbuf *mbufs[8];
	uint64_t full = UINT64_MAX - 1;

	switch (take8(in) % 5) {
	case 0:
		memif_arm(memif, queue);
		memif_disarm(memif, queue);
		break;
	case 1: /* its event fd blocks, and is full */
		fcntl(event_fds[2 * queue + 1], F_SETFL, O_NONBLOCK);
		if (write(event_fds[2 * queue + 1], &full, sizeof(full)) > 0)
			fcntl(event_fds[2 * queue + 1], F_SETFL, 0);
		break;
	case 2: /* what is sealed stays as it is */
		if (ftruncate(memory_fd, take16(in) % BYTES) == 0) {
			FUZZ_CHECK(!memif->link || !memif->link->regions_count, "a region can be shrunk");
			(void)!ftruncate(memory_fd, BYTES);
		}
		break;
	case 3:
		(void)fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE);
		break;
	default:
		rte_pktmbuf_free_bulk(mbufs, receive(queue, mbufs));
	}
	memif_wake_asked(memif);
}

static void make_client(void)
{
	int pair[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
	client_fd = pair[0];
	server_fd = pair[1];
	memory_fd = memfd_create("client", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	FUZZ_CHECK(ftruncate(memory_fd, BYTES) == 0, "no memory");
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	for (unsigned i = 0; i < 2 * QUEUES; i++) {
		struct memif_ring *r = (struct memif_ring *)(memory + i * RING_BYTES);

		event_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		r->cookie = MEMIF_COOKIE;
		r->head = i % 2 ? RING : 0;
		for (unsigned j = 0; j < RING; j++)
			r->descriptors[j] = (struct memif_descriptor){
				.bytes = BUFFER, .offset = 2 * QUEUES * RING_BYTES + (i * RING + j) * BUFFER
			};
	}
}

static void end_client(void)
{
	memif_client_end(memif, NULL);
	close(client_fd);
	close(memory_fd);
	for (unsigned i = 0; i < 2 * QUEUES; i++)
		close(event_fds[i]);
	munmap(memory, BYTES);
	FUZZ_CHECK(!memif->connected && !memif->link && memif->client_fd < 0, "a client is left");
	for (unsigned i = 0; i < QUEUES; i++)
		FUZZ_CHECK(!memif->queue[i].taken && !memif->queue[i].in && !memif->queue[i].out,
			   "a queue holds a client");
	fuzz_pool_whole(pool);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_set_level(LOG_ERROR);
	fuzz_eal();
	pool = fuzz_pool(MBUFS);
	memif = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*memif) + QUEUES * sizeof(memif->queue[0]));
	memset(memif, 0, sizeof(*memif) + QUEUES * sizeof(memif->queue[0]));
	memif->id = 7;
	memif->queues = QUEUES;
	memif->client_fd = memif->listen_fd = -1;
	memif->stop_fd = eventfd(0, EFD_NONBLOCK);
	memif->ask_fd = eventfd(0, EFD_NONBLOCK);
	memif_wake_init(memif);
	for (unsigned i = 0; i < QUEUES; i++) {
		struct epoll_event event = { .events = EPOLLIN };

		memif->queue[i].pool = pool;
		memif->queue[i].bell = eventfd(0, EFD_NONBLOCK);
		memif->queue[i].wait_fd = epoll_create1(0);
		epoll_ctl(memif->queue[i].wait_fd, EPOLL_CTL_ADD, memif->queue[i].bell, &event);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	const uint8_t pairs = take8(&in);

	make_client();
	memif_client_accept(memif);
	/* Most clients get that far; those of odd ones say it all themselves. */
	if (pairs % 4)
		for (unsigned what = 0; what < 2 + 2 * (1 + pairs % QUEUES); what++)
			say_one(what, &(struct input){ data, data });
	if (pairs % 4 > 1)
		say_one(2 + 2 * QUEUES, &(struct input){ data, data });
	for (unsigned i = 0; i < STEPS_MAX && input_left(&in); i++) {
		const uint8_t step = take8(&in);

		if (step < 40)
			say_one(step % (4 + 2 * QUEUES), &in);
		else if (step < 110)
			put_frame(&in);
		else if (step < 150)
			spoil_ring(&in);
		else if (step < 200)
			send_frames(&in);
		else
			use_queue(&in);
	}
	end_client();
	return 0;
}
