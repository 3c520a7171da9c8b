/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/internal.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/log.h"

enum { FRAME_BYTES_MIN = 2048, MEMPOOL_CACHE = 256, MEMPOOL_FIXED_BYTES = 2 << 20 };
enum { PAGE_2M = 1 << 21, PAGE_1G = 1 << 30 };

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t read_page_number(const char *page, const char *what)
{
	unsigned long long number = 0;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%s/%s", page, what);
	file = fopen(path, "re");
	if (!file)
		return 0; /* a page size that this machine does not have */
	if (fscanf(file, "%llu", &number) != 1)
		number = 0;
	fclose(file);
	return number;
}

static uint64_t pages_free(const char *page)
{
	const uint64_t free_pages = read_page_number(page, "free_hugepages"),
		       taken = read_page_number(page, "resv_hugepages");

	return free_pages > taken ? free_pages - taken : 0;
}

void port_hugepages_read(struct port_hugepages *pages)
{
	pages->total_2m = read_page_number("2048kB", "nr_hugepages");
	pages->total_1g = read_page_number("1048576kB", "nr_hugepages");
	pages->free_2m = pages_free("2048kB");
	pages->free_1g = pages_free("1048576kB");
	pages->free_bytes = pages->free_2m * PAGE_2M + pages->free_1g * PAGE_1G;
}

bool port_hugepages_hold(const struct port_hugepages *pages, const struct port_memory *memory)
{
	const uint64_t parts = memory->parts ? memory->parts : 1, pool = memory->mempool_bytes / parts;
	const uint64_t arena = round_up(memory->arena_bytes / parts, PAGE_2M);
	uint64_t free_2m = pages->free_2m * PAGE_2M, free_1g = pages->free_1g * PAGE_1G, on_1g = 0;

	/* The EAL takes each part from pages of one size, smaller ones first; and the last 1 GiB page as a whole. */
	for (uint64_t part = 0; part <= parts; part++) {
		const uint64_t bytes = part == 0 ? memory->eal_bytes : round_up(pool, PAGE_2M);

		if (bytes <= free_2m)
			free_2m -= bytes;
		else
			on_1g += bytes;
	}
	on_1g = round_up(on_1g, PAGE_1G);
	if (on_1g > free_1g)
		return false;
	for (uint64_t part = 0; part < parts; part++)
		if (arena <= free_2m)
			free_2m -= arena;
		else
			return round_up((parts - part) * arena, PAGE_1G) <= free_1g - on_1g;
	return true;
}

int port_numa_of_core(int core)
{
	char path[96];

	for (int numa = 0; core >= 0 && numa < RTE_MAX_NUMA_NODES; numa++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/node%d", core, numa);
		if (access(path, F_OK) == 0)
			return numa;
	}
	return -1;
}

bool port_numa_has_hugepages(int numa)
{
	static const char *const pages[] = { "2048kB", "1048576kB" };
	unsigned long long number = 0;
	char path[128];
	FILE *file;

	for (unsigned i = 0; number == 0 && i < RTE_DIM(pages); i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-%s/free_hugepages",
			 numa, pages[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%llu", &number) != 1)
			number = 0;
		fclose(file);
	}
	return number > 0;
}

int port_numa_of_device(const struct config_port *config)
{
	int numa = -1;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", config->pci);
	file = port_is_pci(config) ? fopen(path, "re") : NULL;
	if (!file)
		return -1;
	if (fscanf(file, "%d", &numa) != 1)
		numa = -1;
	fclose(file);
	return numa;
}

/* Whole 2 MiB pages at a 2 MiB boundary, so that the kernel can use huge pages for them. */
static void *map_ordinary(size_t bytes)
{
	uint8_t *map = mmap(NULL, bytes + PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (map == MAP_FAILED)
		return NULL;
	before = round_up((uintptr_t)map, PAGE_2M) - (uintptr_t)map;
	if (before)
		munmap(map, before);
	munmap(map + before + bytes, PAGE_2M - before);
	madvise(map + before, bytes, MADV_HUGEPAGE); /* only advice: without it everything works, more slowly */
	return map + before;
}

void port_memory_prefer(void *memory, size_t bytes, int numa)
{
	unsigned long nodes[16] = { 0 };
	const unsigned bits = 8 * sizeof(nodes[0]);

	if (numa < 0 || (unsigned)numa >= RTE_DIM(nodes) * bits)
		return;
	nodes[(unsigned)numa / bits] = 1UL << (unsigned)numa % bits;
	(void)syscall(SYS_mbind, memory, round_up(bytes, PAGE_2M), MPOL_PREFERRED, nodes, RTE_DIM(nodes) * bits, 0);
}

/* The kernel reserves the pages now, and allocates them on the NUMA node of the thread that touches them first. */
static void *map_pages(void *at, size_t bytes, int flags)
{
	void *map = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	return map == MAP_FAILED ? NULL : map;
}

/* Pages of 1 GiB in a row: consecutive pieces share the page at their border. Freed when the last piece is. */
static struct {
	uint8_t *base;
	size_t used, mapped;
	unsigned pieces;
} gigantic;

static void *take_gigantic(size_t bytes)
{
	const size_t left = gigantic.mapped - gigantic.used;
	const size_t more = bytes > left ? round_up(bytes - left, PAGE_1G) : 0;

	if (more && gigantic.pieces) {
		if (!map_pages(gigantic.base + gigantic.mapped, more, MAP_HUGE_1GB | MAP_FIXED_NOREPLACE))
			return NULL;
		gigantic.mapped += more;
	} else if (more) {
		gigantic.base = map_pages(NULL, more, MAP_HUGE_1GB);
		if (!gigantic.base)
			return NULL;
		gigantic.mapped = more;
	}
	gigantic.used += bytes;
	gigantic.pieces++;
	return gigantic.base + gigantic.used - bytes;
}

static bool give_gigantic(const uint8_t *memory)
{
	if (!gigantic.pieces || memory < gigantic.base || memory >= gigantic.base + gigantic.mapped)
		return false;
	if (--gigantic.pieces == 0) {
		munmap(gigantic.base, gigantic.mapped);
		memset(&gigantic, 0, sizeof(gigantic));
	}
	return true;
}

static void *map_huge(size_t bytes)
{
	void *map = map_pages(NULL, bytes, MAP_HUGE_2MB);

	return map ? map : take_gigantic(bytes);
}

void *port_memory_alloc(const char *name, size_t bytes, unsigned reactor, struct star_error *err)
{
	struct port_hugepages pages;
	void *memory;

	if (bytes == 0 || bytes > SIZE_MAX / 2) {
		star_error_set(err, -EINVAL, "%s of reactor %u: %zu bytes cannot be allocated", name, reactor, bytes);
		return NULL;
	}
	bytes = round_up(bytes, PAGE_2M);
	if (!rte_eal_has_hugepages()) {
		memory = map_ordinary(bytes);
		if (!memory)
			star_error_set(
				err, -ENOMEM,
				"%s of reactor %u: %zu MiB are needed, but this machine does not have them: lower "
				"memory.parameter_mib",
				name, reactor, bytes >> 20);
		base_cores_without(memory, bytes, PAGE_2M);
		return memory;
	}
	memory = map_huge(bytes);
	if (!memory) {
		port_hugepages_fail();
		port_hugepages_read(&pages);
		star_error_set(err, -ENOMEM,
			       "%s of reactor %u: %zu MiB of hugepages are needed, but only %llu MiB are free: run "
			       "`scripts/hugepages reserve %zuM`, or lower memory.parameter_mib",
			       name, reactor, bytes >> 20, (unsigned long long)pages.free_bytes >> 20, bytes >> 20);
	}
	base_cores_without(memory, bytes, PAGE_2M);
	return memory;
}

void port_memory_free(void *memory, size_t bytes)
{
	if (memory && !give_gigantic(memory))
		munmap(memory, round_up(bytes, PAGE_2M));
}

uint32_t port_frame_bytes(uint32_t mtu)
{
	/* A packet socket's ring has up to 66 bytes before the frame; 18 are the Ethernet header and one VLAN tag. */
	const uint32_t bytes = (uint32_t)round_up((size_t)mtu + 18 + 66, 1024);

	return bytes < FRAME_BYTES_MIN ? FRAME_BYTES_MIN : bytes;
}

uint64_t port_mempool_bytes(uint32_t mbufs, uint32_t mtu)
{
	const uint32_t element =
		(uint32_t)sizeof(struct rte_mbuf) + PORT_PRIV_BYTES + RTE_PKTMBUF_HEADROOM + port_frame_bytes(mtu);

	const uint64_t object = rte_mempool_calc_obj_size(element, 0, NULL), objects = mbufs * object;

	/* At the end of each page, the space of an incomplete mbuf may be unused. */
	return objects + mbufs * sizeof(void *) + objects / PAGE_2M * object + MEMPOOL_FIXED_BYTES;
}

static bool within_pages, ordinary;

void port_mempool_within_pages(bool on)
{
	within_pages = on;
}

void port_mempool_in_ordinary_memory(bool on)
{
	ordinary = on;
}

bool port_mempool_is_ordinary(void)
{
	return ordinary && rte_eal_iova_mode() == RTE_IOVA_VA;
}

bool port_mempool_is_whole(void)
{
	return !within_pages && rte_eal_iova_mode() == RTE_IOVA_VA;
}

static void free_zone(struct rte_mempool_memhdr *header, void *zone)
{
	(void)header;
	rte_memzone_free(zone);
}

static size_t whole_bytes(const struct rte_mempool *pool)
{
	return (size_t)pool->size * (pool->header_size + pool->elt_size + pool->trailer_size);
}

/*
 * If devices use virtual addresses, and none is a NIC: contiguous memory without gaps at the ends of pages. net_af_xdp
 * passes the kernel memory with the total length of the mbufs, and an mbuf beyond that is never sent. The IO addresses
 * must be passed here: without them (RTE_MEMPOOL_F_NO_IOVA_CONTIG) DPDK assumes that no device reads the pool.
 */
static int populate_whole(struct rte_mempool *pool)
{
	const size_t bytes = whole_bytes(pool);
	char name[RTE_MEMZONE_NAMESIZE];
	const struct rte_memzone *zone;
	int ret;

	snprintf(name, sizeof(name), "%.20s-memory", pool->name);
	zone = rte_memzone_reserve_aligned(name, bytes, pool->socket_id, 0, RTE_MEMPOOL_ALIGN);
	if (!zone)
		return -rte_errno;
	ret = rte_mempool_populate_iova(pool, zone->addr, (rte_iova_t)(uintptr_t)zone->addr, bytes, free_zone,
					(void *)(uintptr_t)zone);
	if (ret < 0)
		rte_memzone_free(zone);
	return ret;
}

static void unmap_ordinary(struct rte_mempool_memhdr *header, void *ctx)
{
	(void)ctx;
	munmap(header->addr, round_up(header->len, PAGE_2M));
}

/*
 * Without hugepages DPDK's memory is a file in pages of 4 KiB. This is not: the kernel can back it with huge pages, and
 * a node starts with some ten page faults for it instead of thousands.
 */
static int populate_ordinary(struct rte_mempool *pool)
{
	const size_t bytes = whole_bytes(pool);
	void *memory = map_ordinary(round_up(bytes, PAGE_2M));
	int ret;

	if (!memory)
		return -ENOMEM;
	port_memory_prefer(memory, bytes, pool->socket_id);
	ret = rte_mempool_populate_iova(pool, memory, (rte_iova_t)(uintptr_t)memory, bytes, unmap_ordinary, NULL);
	if (ret < 0)
		munmap(memory, round_up(bytes, PAGE_2M));
	return ret;
}

static int populate(struct rte_mempool *pool)
{
	if (port_mempool_is_ordinary())
		return populate_ordinary(pool);
	return port_mempool_is_whole() ? populate_whole(pool) : rte_mempool_populate_default(pool);
}

static void leave_out_of_cores(struct rte_mempool *pool, void *ctx, struct rte_mempool_memhdr *memory, unsigned number)
{
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(memory->addr);

	(void)pool;
	(void)ctx;
	(void)number;
	base_cores_without(memory->addr, memory->len, list ? list->page_sz : (size_t)sysconf(_SC_PAGESIZE));
}

/* As rte_pktmbuf_pool_create_by_ops does. */
static struct rte_mempool *make_pool_on(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room, int numa)
{
	const unsigned element = (unsigned)sizeof(struct rte_mbuf) + PORT_PRIV_BYTES + room;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room, .mbuf_priv_size = PORT_PRIV_BYTES };
	struct rte_mempool *pool = rte_mempool_create_empty(name, mbufs, element, cache, sizeof(private), numa, 0);
	int ret;

	if (!pool)
		return NULL;
	ret = port_lifo(pool);
	if (ret == 0) {
		rte_pktmbuf_pool_init(pool, &private);
		ret = populate(pool);
	}
	if (ret >= 0 && pool->populated_size < mbufs)
		ret = -ENOMEM;
	if (ret < 0) {
		rte_mempool_free(pool);
		rte_errno = -ret;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	rte_mempool_mem_iter(pool, leave_out_of_cores, NULL);
	return pool;
}

static struct rte_mempool *make_pool(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room, int numa)
{
	struct rte_mempool *pool = make_pool_on(name, mbufs, cache, room, numa);

	if (pool || numa == SOCKET_ID_ANY)
		return pool;
	pool = make_pool_on(name, mbufs, cache, room, SOCKET_ID_ANY);
	if (pool)
		log_warn("the packet buffers %s are not on NUMA node %d: it has no memory for them. Reserve hugepages "
			 "there (/sys/devices/system/node/node%d/hugepages)",
			 name, numa, numa);
	return pool;
}

struct rte_mempool *port_mempool_create(unsigned reactor, uint32_t mbufs, uint32_t mtu, struct star_error *err)
{
	return port_mempool_create_on(reactor, mbufs, mtu, SOCKET_ID_ANY, err);
}

struct rte_mempool *port_mempool_create_on(unsigned reactor, uint32_t mbufs, uint32_t mtu, int numa,
					   struct star_error *err)
{
	/* The cache may have at most two thirds of the pool; all of a small pool would be in it. */
	const uint32_t cache = mbufs / 4 < MEMPOOL_CACHE ? mbufs / 4 : MEMPOOL_CACHE;
	const uint32_t room = RTE_PKTMBUF_HEADROOM + port_frame_bytes(mtu);
	struct rte_mempool *pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	if (room > UINT16_MAX) {
		star_error_set(err, -EINVAL, "an mtu of %u is too large for a packet buffer: at most 64000", mtu);
		return NULL;
	}
	snprintf(name, sizeof(name), "mbufs-%u", reactor);
	pool = make_pool(name, mbufs, cache, (uint16_t)room, numa);
	if (!pool && rte_eal_has_hugepages())
		port_hugepages_fail();
	if (!pool)
		star_error_set(err, -rte_errno,
			       "%u packet buffers of %u bytes for reactor %u (%llu MiB) cannot be allocated: %s; lower "
			       "memory.mbufs",
			       mbufs, room, reactor, (unsigned long long)port_mempool_bytes(mbufs, mtu) >> 20,
			       rte_strerror(rte_errno));
	return pool;
}
