/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the EAL, hugepages, memory. */
#include <errno.h>
#include <pthread.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "port/internal.h"
#include "tests/port/cases.h"
#include "tests/port/child.h"
#include "tests/unit.h"

static const uint64_t more_than_there_is = UINT64_C(1) << 50;

void quiet_start(void)
{
	struct star_error err = { 0 };
	cpu_set_t before, after;
	struct rte_mempool *pool;
	struct config config;
	char folder[64];

	child_capture();
	child_config(&config, "net_af_packet", 1500);
	sched_getaffinity(0, sizeof(before), &before);
	if (!child_eal(&config))
		return;
	sched_getaffinity(0, sizeof(after), &after);
	CHECK(CPU_EQUAL(&before, &after));
	snprintf(folder, sizeof(folder), "/var/run/dpdk/star-%d", (int)getpid());
	CHECK_INT(access(folder, F_OK), -1);
	CHECK(!port_eal_hugepages());
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	CHECK(pool && rte_mem_virt2memseg_list(pool->pool_data)); /* all of it is in DPDK's memory */
	/* More than there is. */
	CHECK(!port_mempool_create(1, 100000000, 1500, &err));
	CHECK_HAS(err.text, "100000000 packet buffers of 2176 bytes for reactor 1");
	CHECK_HAS(err.text, "lower memory.mbufs");
	CHECK(!port_mempool_create(2, 1000, 65000, &err));
	CHECK_HAS(err.text, "mtu of 65000 is too large");
	port_eal_stop();
	CHECK_STR(child_captured(), "");
}

/* A device is given the address of each mbuf by rte_mbuf_iova_get: where addresses are virtual, its own. */
void devices_addresses(void)
{
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;
	unsigned wrong = 0;

	child_config(&config, "net_af_packet", 1500);
	if (!child_eal(&config))
		return;
	CHECK_INT(rte_eal_iova_mode(), RTE_IOVA_VA);
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	if (!CHECK(pool))
		return;
	for (unsigned i = 0; i < CHILD_MBUFS; i++) {
		const struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		wrong += !m || rte_mbuf_iova_get(m) != (uintptr_t)m->buf_addr;
	}
	CHECK_UINT(wrong, 0);
	CHECK_UINT(pool->nb_mem_chunks, 1); /* without gaps */
	CHECK(!(pool->flags & RTE_MEMPOOL_F_NON_IO));
	/* They are not in DPDK's file, which the other end of a vhost-user socket would map. */
	CHECK(!rte_mem_virt2memseg_list(STAILQ_FIRST(&pool->mem_list)->addr));
	strcpy(config.ports[0].device, "net_virtio_user");
	CHECK(!port_open(&config.ports[0], 0, &pool, 1, 7000, &err));
	CHECK_HAS(err.text, "start the node with such a port");
	port_eal_stop();
}

void buffers_that_are_shared(void)
{
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;

	child_config(&config, "net_virtio_user", 1500);
	if (!child_eal(&config))
		return;
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	if (CHECK(pool))
		CHECK(rte_mem_virt2memseg_list(STAILQ_FIRST(&pool->mem_list)->addr));
	port_eal_stop();
}

/* Of the mbufs of a pool, those that begin in a page and end in another one. */
static unsigned across_pages(struct rte_mempool *pool, uintptr_t page)
{
	unsigned across = 0;

	for (unsigned i = 0; i < pool->size; i++) {
		const struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		across += !m || (uintptr_t)m->buf_addr / page != ((uintptr_t)m->buf_addr + m->buf_len - 1) / page;
	}
	return across;
}

/* An emulated NIC drops a frame whose pages are apart. The NIC of this case is not there, which is noticed when it is
 * opened. */
void buffers_for_nics(void)
{
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;

	child_config(&config, "pci", 1500);
	strcpy(config.ports[0].pci, "0000:7f:1f.7");
	CHECK_INT(port_eal_start(&config, UINT64_C(64) << 20, &err), 0);
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	if (!CHECK(pool)) {
		fprintf(stderr, "%s\n", err.text);
		return;
	}
	CHECK_UINT(across_pages(pool, (uintptr_t)sysconf(_SC_PAGESIZE)), 0);
	strcpy(config.ports[0].device, "net_af_xdp");
	CHECK(!port_open(&config.ports[0], 0, &pool, 1, 7000, &err));
	CHECK_HAS(err.text, "start the node with such a port");
	port_eal_stop();
}

void whole_pages(void)
{
	static const uint64_t mib = 1 << 20;
	static const struct {
		uint64_t free_2m, free_1g, mempool_mib, arena_mib;
		unsigned parts;
		bool hold;
	} cases[] = {
		{ 58, 0, 50, 50, 1, true },	{ 57, 0, 50, 50, 1, false },	{ 0, 2, 100, 1024, 4, true },
		{ 0, 1, 100, 100, 1, false }, /* one for the EAL's, one for parameters */
		{ 0, 2, 100, 100, 4, true },	{ 0, 2, 100, 1026, 1, false },	{ 0, 3, 100, 1536, 1, true },
		{ 0, 4, 1100, 2048, 8, true },	{ 0, 3, 1100, 2048, 8, false }, { 40, 1, 50, 1024, 2, true },
		{ 40, 1, 100, 1024, 2, false },
	};

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		const struct port_hugepages pages = { .free_2m = cases[i].free_2m, .free_1g = cases[i].free_1g };
		const struct port_memory memory = { .eal_bytes = 16 * mib,
						    .mempool_bytes = cases[i].mempool_mib * mib,
						    .arena_bytes = cases[i].arena_mib * mib,
						    .parts = cases[i].parts };

		if (port_hugepages_hold(&pages, &memory) != cases[i].hold)
			unit_fail(__FILE__, __LINE__, "case %u: not %d", i, cases[i].hold);
	}
}

static uint16_t refuse_marked(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t good = 0;

	(void)queue;
	while (good < n && mbufs[good]->tso_segsz != 88)
		good++;
	return good;
}

/* What a driver refuses is lost by itself: the frames before it and behind it are sent. */
void refused_frames(void)
{
	struct rte_mbuf *frames[PORT_BURST];
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;
	uint64_t refused = 0;
	struct port *port;

	child_config(&config, "net_null", 1500);
	config.ports[0].interface[0] = '\0';
	if (!child_eal(&config))
		return;
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	port = port_open(&config.ports[0], 0, &pool, 1, 7000, &err);
	if (!CHECK(port)) {
		fprintf(stderr, "%s\n", err.text);
		return;
	}
	port->offloads |= OFFLOAD_TX_TCP_CHECKSUM;
	rte_eth_fp_ops[port->id].tx_pkt_prepare = refuse_marked;
	for (unsigned i = 0; i < PORT_BURST; i++) {
		frames[i] = rte_pktmbuf_alloc(pool);
		rte_pktmbuf_append(frames[i], 60);
		frames[i]->tso_segsz = i == 0 || i == 7 || i == 8 || i == PORT_BURST - 1 ? 88 : 1448;
	}
	CHECK_UINT(port_transmit(port, 0, frames, PORT_BURST, &refused), PORT_BURST);
	CHECK_UINT(refused, 4);
	CHECK_UINT(rte_mempool_in_use_count(pool), 0);
	port_close(port);
	port_eal_stop();
}

/* Of a frame for the NIC to cut: never more segments than the device takes, whatever its driver announces. */
void segment_limits(void)
{
	static const struct {
		const char *driver;
		uint16_t announced, segments;
		bool tso;
	} cases[] = {
		{ "net_vmxnet3", 255, 24, true }, { "net_vmxnet3", 20, 20, true }, { "net_ena", 17, 16, true },
		{ "net_ena", 8, 7, true },	  { "net_ena", 3, 2, false },	   { "net_ixgbe", 40, 40, true },
		{ "net_i40e", 255, 64, true },	  { "net_virtio", 0, 64, true },   { NULL, 2, 2, false },
	};
	const uint64_t all = RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO;
	struct config_port config = { .device = "pci", .mtu = 1500 };

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		const struct rte_eth_dev_info info = { .driver_name = cases[i].driver,
						       .tx_offload_capa = all,
						       .tx_desc_lim.nb_seg_max = cases[i].announced };
		struct rte_eth_conf conf = { 0 };
		struct port port = { 0 };

		port_choose_offloads(&port, &config, &info, &conf);
		if (port.tso_segments != cases[i].segments || !(port.offloads & OFFLOAD_TX_TSO) == cases[i].tso)
			unit_fail(__FILE__, __LINE__, "case %u: %u segments", i, port.tso_segments);
	}
}

/* What memory.mbufs is checked against is what a queue keeps, also of a driver that fills two rings. */
void receive_rings(void)
{
	static const struct {
		const char *driver;
		unsigned rings;
	} cases[] = { { "net_vmxnet3", 2 }, { "net_i40e", 1 }, { NULL, 1 } };

	for (unsigned i = 0; i < RTE_DIM(cases); i++) {
		const struct rte_eth_dev_info info = { .driver_name = cases[i].driver };

		CHECK_UINT(cases[i].rings * port_receive_descriptors(&info), CONFIG_DESCRIPTORS);
	}
}

static struct {
	struct port *port;
	struct port_strays strays;
	struct rte_mbuf *held;
} removal;

static void *shut_aside(void *ctx)
{
	(void)ctx;
	port_strays_begin(&removal.strays);
	rte_pktmbuf_free(removal.held); /* as drivers free what their rings have */
	port_strays_end();
	return NULL;
}

/* What a driver frees while the device is closed that was taken out: the reactor goes on taking from its pool, and
 * nobody else touches it. */
void freed_aside(void)
{
	struct star_error err = { 0 };
	struct port_lifo *lifo;
	struct rte_mempool *pool;
	struct config config;
	pthread_t watch;
	unsigned before;

	child_config(&config, "net_null", 1500);
	config.ports[0].interface[0] = '\0';
	if (!child_eal(&config))
		return;
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	removal.port = port_open(&config.ports[0], 0, &pool, 1, 7000, &err);
	if (!CHECK(removal.port))
		return;
	lifo = pool->pool_data;
	removal.held = rte_pktmbuf_alloc(pool);
	before = lifo->count;
	if (!CHECK_INT(pthread_create(&watch, NULL, shut_aside, NULL), 0))
		return;
	pthread_join(watch, NULL);
	CHECK_UINT(lifo->count, before);
	CHECK_UINT(removal.strays.count, 1);
	port_strays_return(&removal.strays);
	CHECK_UINT(removal.strays.count, 0);
	CHECK_UINT(rte_mempool_in_use_count(pool), 0);
	CHECK_INT(port_state(removal.port), PORT_WORKS);
	port_gone(removal.port);
	CHECK_INT(port_state(removal.port), PORT_IS_REMOVED);
	CHECK(!port_link(removal.port));
	port_shut(removal.port, &removal.strays);
	port_strays_return(&removal.strays);
	CHECK(removal.port->shut);
	port_close(removal.port);
	CHECK_UINT(rte_mempool_in_use_count(pool), 0);
	port_eal_stop();
}

void second_start(void)
{
	struct star_error err = { 0 };
	struct config config;

	child_capture();
	child_config(&config, "net_af_packet", 1500);
	if (!child_eal(&config))
		return;
	CHECK_INT(port_eal_start(&config, 0, &err), -EALREADY);
	CHECK_HAS(err.text, "DPDK cannot start: ");
	CHECK_HAS(err.text, "already");
}

void start_without_root(void)
{
	struct star_error err = { 0 };
	struct config config;

	child_config(&config, "net_af_packet", 1500);
	CHECK_INT(setuid(65534), 0);
	CHECK_INT(port_eal_start(&config, 0, &err), -EPERM);
	CHECK_HAS(err.text, "needs root: run it with sudo");
}

void required_and_missing(void)
{
	struct star_error err = { 0 };
	struct config config;

	child_capture();
	child_config(&config, "net_af_packet", 1500);
	config.hugepages = CONFIG_HUGEPAGES_REQUIRED;
	CHECK_INT(port_eal_start(&config, more_than_there_is, &err), -ENOMEM);
	CHECK_HAS(err.text, "hugepages are required: 1073741840 MiB are needed, but ");
	CHECK_HAS(err.text, " MiB are free (");
	CHECK_HAS(err.text, "run `scripts/hugepages reserve 1073741840M`");
	CHECK_STR(child_captured(), "");
}

void preferred_and_missing(void)
{
	struct star_error err = { 0 };
	struct config config;

	child_capture();
	child_config(&config, "net_af_packet", 1500);
	config.hugepages = CONFIG_HUGEPAGES_PREFERRED;
	config.parameter_mib = more_than_there_is >> 20;
	CHECK_INT(port_eal_start(&config, more_than_there_is + port_mempool_bytes(CHILD_MBUFS, 1500), &err), 0);
	CHECK_STR(err.text, "");
	CHECK(!port_eal_hugepages());
	CHECK_HAS(child_captured(), "no hugepages: ");
	CHECK(strchr(child_captured(), '\n') == strrchr(child_captured(), '\n'));
	CHECK(port_mempool_create(0, CHILD_MBUFS, 1500, &err));
	port_eal_stop();
}

/* A figure in KiB from /proc/self/status. */
static long status_kib(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	const size_t bytes = strlen(name);
	char line[256];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, bytes) == 0 && line[bytes] == ':')
			kib = atol(line + bytes + 1);
	fclose(file);
	return kib;
}

void two_gib(void)
{
	struct star_error err = { 0 };
	struct config config;
	long before;

	child_config(&config, "net_af_packet", 1500);
	before = status_kib("VmRSS");
	CHECK_INT(port_eal_start(&config, UINT64_C(2) << 30, &err), 0);
	CHECK(status_kib("VmRSS") - before < 512 * 1024);
	/* It is there, though. */
	CHECK(rte_malloc("half", 1 << 30, 0));
	CHECK(rte_malloc("another", 1 << 30, 0));
	CHECK(status_kib("VmRSS") - before < 512 * 1024);
	port_eal_stop();
}

void ordinary_memory(void)
{
	struct star_error err = { 0 };
	struct config config;
	uint8_t *memory;
	long before;

	child_config(&config, "net_af_packet", 1500);
	if (!child_eal(&config))
		return;
	before = status_kib("VmSize");
	memory = port_memory_alloc("parameters", (5 << 20) + 1, 7, &err);
	if (!CHECK(memory))
		return;
	CHECK_UINT((uintptr_t)memory % (2 << 20), 0);
	CHECK_INT(status_kib("VmSize") - before, 6 << 10);
	for (size_t i = 0; i < 6 << 20; i += 4096)
		CHECK_UINT(memory[i], 0);
	memset(memory, 1, 6 << 20);
	port_memory_free(memory, (5 << 20) + 1);
	CHECK_INT(status_kib("VmSize"), before);
	port_memory_free(NULL, 1);
	CHECK(!port_memory_alloc("parameters", more_than_there_is, 7, &err));
	CHECK_HAS(err.text, "parameters of reactor 7: 1073741824 MiB are needed");
	CHECK(!port_memory_alloc("parameters", 0, 7, &err));
	CHECK(!port_memory_alloc("parameters", SIZE_MAX, 7, &err));
	CHECK_INT(err.code, -EINVAL);
	port_eal_stop();
}

static int by_address(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

	return (x > y) - (x < y);
}

/* What is in use stays the same memory, however often it is freed: it is not to go round the whole pool. */
void last_freed_comes_first(void)
{
	enum {
		BATCH = 1000,
		BATCHES = 2 * CHILD_MBUFS / BATCH,
		OTHERS_MAX = 600 /* the pool's cache holds some, too */
	};
	static struct rte_mbuf *first[BATCH], *now[BATCH], *all[CHILD_MBUFS + 1];
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;

	child_config(&config, "net_af_packet", 1500);
	CHECK(child_eal(&config));
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	if (!CHECK(pool))
		return;
	CHECK_UINT(rte_mempool_avail_count(pool), CHILD_MBUFS);
	CHECK_INT(rte_pktmbuf_alloc_bulk(pool, first, BATCH), 0);
	qsort(first, BATCH, sizeof(first[0]), by_address);
	memcpy(now, first, sizeof(now));
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		unsigned others = 0;

		rte_pktmbuf_free_bulk(now, BATCH);
		CHECK_UINT(rte_mempool_avail_count(pool), CHILD_MBUFS);
		CHECK_INT(rte_pktmbuf_alloc_bulk(pool, now, BATCH), 0);
		for (unsigned i = 0; i < BATCH; i++)
			others += !bsearch(&now[i], first, BATCH, sizeof(first[0]), by_address);
		CHECK(others < OTHERS_MAX);
	}
	rte_pktmbuf_free_bulk(now, BATCH);
	/* Each is there once, and no more than there are. */
	for (unsigned i = 0; i < CHILD_MBUFS; i++)
		all[i] = rte_pktmbuf_alloc(pool);
	CHECK(!rte_pktmbuf_alloc(pool));
	qsort(all, CHILD_MBUFS, sizeof(all[0]), by_address);
	for (unsigned i = 0; i < CHILD_MBUFS; i++)
		CHECK(all[i] && all[i] != all[i + 1]);
	CHECK_UINT(rte_mempool_avail_count(pool), 0);
	port_eal_stop();
}

static void with_hugepages(void)
{
	struct star_error err = { 0 };
	struct rte_mempool *pool;
	struct config config;
	uint8_t *memory;

	child_capture();
	child_config(&config, "net_af_packet", 1500);
	config.hugepages = CONFIG_HUGEPAGES_REQUIRED;
	config.parameter_mib = 8;
	CHECK_INT(port_eal_start(&config, (8 << 20) + port_mempool_bytes(CHILD_MBUFS, 1500), &err), 0);
	CHECK_STR(err.text, "");
	CHECK(port_eal_hugepages());
	pool = port_mempool_create(0, CHILD_MBUFS, 1500, &err);
	CHECK(pool);
	CHECK(status_kib("HugetlbPages") >= 8 << 10);
	memory = port_memory_alloc("parameters", 8 << 20, 0, &err);
	if (CHECK(memory)) {
		const long before = status_kib("HugetlbPages");

		memset(memory, 1, 8 << 20);
		CHECK_INT(status_kib("HugetlbPages") - before, 8 << 10);
		port_memory_free(memory, 8 << 20);
		CHECK_INT(status_kib("HugetlbPages"), before);
	}
	CHECK(!port_memory_alloc("parameters", more_than_there_is, 3, &err));
	CHECK_HAS(err.text, "parameters of reactor 3: 1073741824 MiB of hugepages are needed, but only ");
	CHECK_HAS(err.text, "run `scripts/hugepages reserve 1073741824M`");
	port_eal_stop();
	CHECK_STR(child_captured(), "");
}

static const char pages_file[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

static long read_pages(void)
{
	FILE *file = fopen(pages_file, "re");
	long pages = 0;

	if (!file || fscanf(file, "%ld", &pages) != 1)
		pages = -1;
	if (file)
		fclose(file);
	return pages;
}

static void write_pages(long pages)
{
	FILE *file = fopen(pages_file, "we");

	if (!file)
		return;
	fprintf(file, "%ld\n", pages);
	fclose(file);
}

void hugepages_are_used_if_available(void)
{
	enum { WANTED = 32 }; /* 8 MiB of parameters, 13 of mbufs, 16 for the EAL, and some */
	const long before = read_pages();

	write_pages(before + WANTED);
	if (before >= 0 && read_pages() == before + WANTED)
		child_run(with_hugepages);
	else
		unit_skip("this machine gives no %d hugepages now", WANTED);
	if (before >= 0)
		write_pages(before);
}
