/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/reactor/rig.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tests/unit.h"

enum { QUEUE_RING = 4096, MTU = 1500, FRAME_BYTES_MIN = 60 };

struct content {
	uint32_t to, number;
	uint8_t pattern[];
};

void rig_eal(void)
{
	static bool started;
	static char line[] = "test --no-huge --no-shconf --no-pci --no-telemetry -m 512 --log-level=error --lcores=0@0 "
			     "--iova-mode=va";
	char *arguments[16], *next = NULL;
	int arguments_count = 0;
	cpu_set_t cores;

	if (started)
		return;
	for (char *word = strtok_r(line, " ", &next); word; word = strtok_r(NULL, " ", &next))
		arguments[arguments_count++] = word;
	arguments[arguments_count] = NULL;
	sched_getaffinity(0, sizeof(cores), &cores);
	if (rte_eal_init(arguments_count, arguments) < 0) {
		printf("Bail out! the EAL does not start\n");
		exit(EXIT_FAILURE);
	}
	sched_setaffinity(0, sizeof(cores), &cores);
	rmdir(rte_eal_get_runtime_dir());
	started = true;
}

uint64_t rig_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void count(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELEASE);
}

/* Frames have different lengths, and all their bytes tell which one it is. */
static uint16_t frame_bytes(uint32_t number)
{
	return (uint16_t)(FRAME_BYTES_MIN + hash_mix(number) % (MTU + 14 - FRAME_BYTES_MIN + 1));
}

static void fill(struct rte_mbuf *frame, uint64_t number, uint16_t port)
{
	const uint16_t bytes = frame_bytes((uint32_t)number);
	struct content *content = (struct content *)rte_pktmbuf_append(frame, bytes);

	content->to = (uint32_t)(number >> 32);
	content->number = (uint32_t)number;
	memset(content->pattern, (uint8_t)(number * 7 + 1), bytes - sizeof(*content));
	frame->port = port;
}

static bool intact(const struct rte_mbuf *frame)
{
	const struct content *content = rte_pktmbuf_mtod(frame, const struct content *);
	const uint16_t bytes = frame_bytes(content->number);

	if (frame->nb_segs != 1 || frame->data_len != bytes || frame->pkt_len != bytes || frame->port < RIG_PORT_ID)
		return false;
	for (size_t i = 0; i < bytes - sizeof(*content); i++)
		if (content->pattern[i] != (uint8_t)(content->number * 7 + 1))
			return false;
	return true;
}

static uint16_t receive_burst(void *data, struct rte_mbuf **frames, uint16_t n)
{
	struct rig_queue *queue = data;
	uint64_t rings;
	uint16_t received;

	/* Before the look: a frame that comes after it rings again. */
	if (queue->ring_fd >= 0 && read(queue->ring_fd, &rings, sizeof(rings)) < 0)
		rings = 0;
	for (received = 0; received < n; received++) {
		struct rte_mbuf *frame;
		void *number;

		/* Without a buffer the frame stays in the queue, as it does in a driver. */
		frame = rte_pktmbuf_alloc(queue->pool);
		if (!frame)
			break;
		if (rte_ring_sc_dequeue(queue->numbers, &number) != 0) {
			rte_pktmbuf_free(frame);
			break;
		}
		fill(frame, (uintptr_t)number - 1, queue->port);
		frames[received] = frame;
	}
	return received;
}

/* The queue of rig_keep_sent. */
static struct rig_queue *holder;

static void give_back(struct rig_queue *queue)
{
	while (queue->kept_count)
		rte_pktmbuf_free(queue->kept[--queue->kept_count]);
}

/* Instead of DPDK's: the rig's ports are not among DPDK's. */
int rte_eth_dev_is_valid_port(uint16_t id)
{
	return holder && id == holder->port;
}

int rte_eth_tx_done_cleanup(uint16_t id, uint16_t queue, uint32_t n)
{
	give_back(holder);
	return 0;
}

void rig_keep_sent(struct rig *rig)
{
	holder = &rig->queues[0][0];
}

static uint16_t send_burst(void *data, struct rte_mbuf **frames, uint16_t n)
{
	struct rig_queue *queue = data;
	uint16_t taken;

	if (queue->refuses) {
		if (--queue->refuses == 0)
			usleep(queue->nap_us);
		return 0;
	}
	if (queue->slow && ++queue->calls % queue->slow)
		return 0;
	if (queue->pause_ns && clock_ns() - queue->took_ns < queue->pause_ns)
		return 0;
	if (queue->slow || queue->pause_ns)
		n = 1;
	for (taken = 0; taken < n && queue->room; taken++) {
		if (queue->sent < sizeof(queue->order) / sizeof(queue->order[0]))
			queue->order[queue->sent] = rte_pktmbuf_mtod(frames[taken], struct content *)->number;
		if (queue == holder && queue->kept_count < RTE_DIM(queue->kept))
			queue->kept[queue->kept_count++] = frames[taken];
		else
			rte_pktmbuf_free(frames[taken]);
		queue->room--;
		queue->took_ns = queue->pause_ns ? clock_ns() : 0;
		count(&queue->sent);
	}
	return taken;
}

static unsigned node_steer(void *ctx, const struct rte_mbuf *frame)
{
	return rte_pktmbuf_mtod(frame, const struct content *)->to;
}

static void node_receive(void *ctx, struct rte_mbuf **frames, unsigned n, uint64_t now_ns)
{
	struct rig_node *node = ctx;

	if (!node->thread)
		node->thread = pthread_self();
	for (unsigned i = 0; i < n; i++) {
		const uint32_t number = rte_pktmbuf_mtod(frames[i], struct content *)->number;

		if (!intact(frames[i]) || frames[i]->pool != node->pool || number >= RIG_FRAMES_MAX || n > PORT_BURST ||
		    !pthread_equal(node->thread, pthread_self()))
			count(&node->wrong);
		else
			node->seen[number]++;
		if (node->mode == RIG_GIVE && node->index == 0)
			reactor_give(node->reactor, 1, frames[i]);
		else if (node->mode == RIG_FREE || node->mode == RIG_GIVE)
			rte_pktmbuf_free(frames[i]);
		else
			node->held[node->held_count++] = frames[i];
		count(&node->received);
	}
}

static unsigned node_work(void *ctx, uint64_t now_ns)
{
	struct rig_node *node = ctx;

	if (node->turn_max < node->received - node->before)
		__atomic_store_n(&node->turn_max, node->received - node->before, __ATOMIC_RELEASE);
	node->before = node->received;
	if (node->work == 0)
		return 0;
	__atomic_store_n(&node->work, node->work - 1, __ATOMIC_RELEASE);
	return 1;
}

static unsigned node_transmit(void *ctx, struct rte_mbuf **frames, unsigned max)
{
	struct rig_node *node = ctx;
	unsigned n = node->held_count < max ? node->held_count : max;

	for (unsigned i = 0; i < node->dawdle; i++)
		__builtin_ia32_pause();
	if (node->mode != RIG_ECHO || n == 0)
		return 0;
	memcpy(frames, node->held, n * sizeof(frames[0]));
	node->held_count -= n;
	memmove(node->held, node->held + n, node->held_count * sizeof(node->held[0]));
	return n;
}

/* Turns do not overlap. */
static void node_sent(void *ctx, uint64_t begun, uint64_t ended)
{
	struct rig_node *node = ctx;

	if (begun < node->ended || ended <= begun || (node->mode == RIG_ECHO && node->held_count))
		count(&node->wrong);
	node->ended = ended;
	count(&node->sent);
}

static unsigned node_housekeeping(void *ctx, uint64_t now_ns)
{
	struct rig_node *node = ctx;

	if (node->mode == RIG_ECHO && node->held_count)
		count(&node->wrong);
	if (node->housekeeping == 0)
		return 0;
	__atomic_store_n(&node->housekeeping, node->housekeeping - 1, __ATOMIC_RELEASE);
	return 1;
}

static void node_end(void *ctx)
{
	struct rig_node *node = ctx;

	node->ends += !node->thread || pthread_equal(node->thread, pthread_self());
	if (node->mode == RIG_LATE)
		node->mode = RIG_ECHO;
}

/* DPDK's bursts go through this table; an entry of our own makes a port without a driver. */
static void plug_in(struct rig *rig, unsigned p)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[RIG_PORT_ID + p];

	for (unsigned q = 0; q < rig->options.reactors; q++) {
		rig->rx_data[p][q] = &rig->queues[p][q];
		rig->tx_data[p][q] = &rig->queues[p][q];
	}
	ops->rx_pkt_burst = receive_burst;
	ops->tx_pkt_burst = send_burst;
	ops->rxq = (struct rte_ethdev_qdata){ .data = rig->rx_data[p], .clbk = rig->callbacks };
	ops->txq = (struct rte_ethdev_qdata){ .data = rig->tx_data[p], .clbk = rig->callbacks };
}

static void create_queue(struct rig *rig, unsigned p, unsigned q)
{
	struct rig_queue *queue = &rig->queues[p][q];

	queue->numbers = aligned_alloc(RTE_CACHE_LINE_SIZE, (size_t)rte_ring_get_memsize(QUEUE_RING));
	rte_ring_init(queue->numbers, "numbers", QUEUE_RING, RING_F_SP_ENQ | RING_F_SC_DEQ);
	queue->pool = rig->nodes[q]->pool;
	queue->port = (uint16_t)(RIG_PORT_ID + p);
	queue->room = UINT32_MAX;
	queue->ring_fd = rig->options.rings ? eventfd(0, EFD_NONBLOCK) : -1;
	rig->ports[p].wait_fds[q] = queue->ring_fd;
}

static void create_node(struct rig *rig, unsigned index)
{
	struct rig_node *node = calloc(1, sizeof(*node));
	struct star_error err = { 0 };

	node->rig = rig;
	node->index = index;
	node->mode = rig->options.mode;
	node->pool = port_mempool_create(index, rig->options.mbufs, MTU, &err);
	if (!node->pool) {
		printf("Bail out! %s\n", err.text);
		exit(EXIT_FAILURE);
	}
	wheel_init(&node->wheel, clock_ns());
	rig->nodes[index] = node;
}

struct rig *rig_create(const struct rig_options *options)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig_eal();
	rig->options = *options;
	for (unsigned i = 0; i < options->reactors; i++)
		create_node(rig, i);
	for (unsigned p = 0; p < options->ports; p++) {
		rig->ports[p] =
			(struct port){ .id = (uint16_t)(RIG_PORT_ID + p), .queues = (uint16_t)options->reactors };
		for (unsigned q = 0; q < options->reactors; q++)
			create_queue(rig, p, q);
		plug_in(rig, p);
	}
	return rig;
}

void rig_reactor_options(struct rig *rig, unsigned index, struct reactor_options *options)
{
	static struct port *ports[RIG_PORTS_MAX];

	for (unsigned p = 0; p < rig->options.ports; p++)
		ports[p] = &rig->ports[p];
	*options = (struct reactor_options){
		.index = index,
		.polling = rig->options.polling,
		.core = -1,
		.spin_us = rig->options.spin_us,
		.ports = ports,
		.ports_count = rig->options.ports,
		.pool = rig->nodes[index]->pool,
		.ops = { .ctx = rig->nodes[index],
			 .steer = node_steer,
			 .receive = node_receive,
			 .work = node_work,
			 .transmit = node_transmit,
			 .sent = node_sent,
			 .housekeeping = node_housekeeping,
			 .end = node_end,
			 .wheel = &rig->nodes[index]->wheel },
	};
}

void rig_start(struct rig *rig)
{
	struct reactor *reactors[REACTOR_MAX];
	struct reactor_options options;
	struct star_error err = { 0 };

	for (unsigned i = 0; i < rig->options.reactors; i++) {
		rig_reactor_options(rig, i, &options);
		reactors[i] = reactor_create(&options, &err);
		rig->nodes[i]->reactor = reactors[i];
		if (!reactors[i])
			unit_fail(__FILE__, __LINE__, "%s", err.text);
	}
	if (reactor_join(reactors, rig->options.reactors, &err) != 0)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	for (unsigned i = 0; i < rig->options.reactors; i++)
		if (reactor_start(reactors[i], &err) != 0)
			unit_fail(__FILE__, __LINE__, "%s", err.text);
}

void rig_destroy(struct rig *rig)
{
	for (unsigned i = 0; i < rig->options.reactors; i++)
		if (rig->nodes[i]->reactor)
			reactor_stop(rig->nodes[i]->reactor);
	for (unsigned i = 0; i < rig->options.reactors; i++)
		reactor_destroy(rig->nodes[i]->reactor);
	if (holder)
		give_back(holder);
	holder = NULL;
	for (unsigned i = 0; i < rig->options.reactors; i++) {
		struct rig_node *node = rig->nodes[i];

		for (unsigned f = 0; f < node->held_count; f++)
			rte_pktmbuf_free(node->held[f]);
		CHECK_UINT(node->wrong, 0);
		CHECK_UINT(rte_mempool_in_use_count(node->pool), 0);
		rte_mempool_free(node->pool);
		free(node);
	}
	for (unsigned p = 0; p < rig->options.ports; p++) {
		for (unsigned q = 0; q < rig->options.reactors; q++) {
			free(rig->queues[p][q].numbers);
			if (rig->queues[p][q].ring_fd >= 0)
				close(rig->queues[p][q].ring_fd);
		}
	}
	free(rig);
}

void rig_inject(struct rig *rig, unsigned port, unsigned queue, unsigned to, uint32_t number)
{
	struct rig_queue *q = &rig->queues[port][queue];
	const uint64_t one = 1;

	CHECK_INT(rte_ring_sp_enqueue(q->numbers, (void *)(((uintptr_t)to << 32 | number) + 1)), 0);
	if (q->ring_fd >= 0)
		CHECK_INT(write(q->ring_fd, &one, sizeof(one)), sizeof(one));
}

bool rig_await(const uint64_t *counter, uint64_t value)
{
	for (int i = 0; i < 100000; i++) {
		if (rig_read(counter) >= value)
			return true;
		usleep(100);
	}
	return false;
}

uint64_t rig_received(const struct rig *rig)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < rig->options.reactors; i++)
		sum += rig_read(&rig->nodes[i]->received);
	return sum;
}

bool rig_await_received(const struct rig *rig, uint64_t value)
{
	for (int i = 0; i < 100000; i++) {
		if (rig_received(rig) >= value)
			return true;
		usleep(100);
	}
	return false;
}

static void block(void *ctx, struct reactor_message *message)
{
	struct rig_block *b = (struct rig_block *)message;

	__atomic_store_n(&b->arrived, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&b->released, __ATOMIC_ACQUIRE))
		usleep(100);
}

void rig_block(struct reactor *reactor, struct rig_block *b)
{
	*b = (struct rig_block){ .message.run = block };
	CHECK_INT(reactor_post(reactor, &b->message), 0);
	while (!__atomic_load_n(&b->arrived, __ATOMIC_ACQUIRE))
		usleep(100);
}

void rig_release(struct rig_block *b)
{
	__atomic_store_n(&b->released, 1, __ATOMIC_RELEASE);
	CHECK_INT(reactor_wait(&b->message, 10000000), 0);
}
