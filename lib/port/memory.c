/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/internal.h"

#include <errno.h>
#include <linux/mman.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <string.h>
#include <sys/mman.h>

enum { FRAME_BYTES_MIN = 2048, MEMPOOL_CACHE = 256, MEMPOOL_FIXED_BYTES = 2 << 20 };
enum { PAGE_2M = 1 << 21, PAGE_1G = 1 << 30 };

static uint64_t read_number(const char *page, const char *what)
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
	const uint64_t free_pages = read_number(page, "free_hugepages"), taken = read_number(page, "resv_hugepages");

	return free_pages > taken ? free_pages - taken : 0;
}

void port_hugepages_read(struct port_hugepages *pages)
{
	pages->total_2m = read_number("2048kB", "nr_hugepages");
	pages->total_1g = read_number("1048576kB", "nr_hugepages");
	pages->free_2m = pages_free("2048kB");
	pages->free_1g = pages_free("1048576kB");
	pages->free_bytes = pages->free_2m * PAGE_2M + pages->free_1g * PAGE_1G;
}

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Whole 2 MiB pages at a 2 MiB boundary, so that the kernel can back them with huge ones when it has some. */
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
	madvise(map + before, bytes, MADV_HUGEPAGE); /* advice: it works without, more slowly */
	return map + before;
}

static void *map_huge(size_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	void *map;

	/* The kernel sets the pages aside now, and takes them from the node of the thread that touches them first. */
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGE_2MB, -1, 0);
	if (map == MAP_FAILED)
		map = mmap(NULL, round_up(bytes, PAGE_1G), PROT_READ | PROT_WRITE, flags | MAP_HUGE_1GB, -1, 0);
	return map == MAP_FAILED ? NULL : map;
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
			star_error_set(err, -ENOMEM,
				       "%s of reactor %u: %zu MiB asked, and this machine does not have them: lower "
				       "memory.parameter_mib",
				       name, reactor, bytes >> 20);
		return memory;
	}
	memory = map_huge(bytes);
	if (!memory) {
		port_hugepages_read(&pages);
		star_error_set(err, -ENOMEM,
			       "%s of reactor %u: %zu MiB of hugepages asked, but only %llu MiB are free: run "
			       "`scripts/hugepages reserve %zuM`, or lower memory.parameter_mib",
			       name, reactor, bytes >> 20, (unsigned long long)pages.free_bytes >> 20, bytes >> 20);
	}
	return memory;
}

void port_memory_free(void *memory, size_t bytes)
{
	if (!memory)
		return;
	/* A mapping of 1 GiB pages refuses a length that is not a multiple of them. */
	if (munmap(memory, round_up(bytes, PAGE_2M)) != 0)
		munmap(memory, round_up(bytes, PAGE_1G));
}

uint32_t port_frame_bytes(uint32_t mtu)
{
	/* A packet socket's ring puts up to 66 bytes before the frame; 18 are the Ethernet header and one VLAN tag. */
	const uint32_t bytes = (uint32_t)round_up((size_t)mtu + 18 + 66, 1024);

	return bytes < FRAME_BYTES_MIN ? FRAME_BYTES_MIN : bytes;
}

uint64_t port_mempool_bytes(uint32_t mbufs, uint32_t mtu)
{
	const uint32_t element =
		(uint32_t)sizeof(struct rte_mbuf) + PORT_PRIV_BYTES + RTE_PKTMBUF_HEADROOM + port_frame_bytes(mtu);

	return (uint64_t)mbufs * (rte_mempool_calc_obj_size(element, 0, NULL) + sizeof(void *)) + MEMPOOL_FIXED_BYTES;
}

/*
 * As rte_pktmbuf_pool_create_by_ops does; but where addresses are virtual, one piece without gaps at the ends of pages:
 * net_af_xdp gives the kernel a piece of memory as long as the mbufs together, and an mbuf behind its end is never sent.
 */
static struct rte_mempool *make_pool(const char *name, uint32_t mbufs, uint32_t cache, uint16_t room)
{
	const unsigned flags = rte_eal_iova_mode() == RTE_IOVA_VA ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
	const unsigned element = (unsigned)sizeof(struct rte_mbuf) + PORT_PRIV_BYTES + room;
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room, .mbuf_priv_size = PORT_PRIV_BYTES };
	struct rte_mempool *pool =
		rte_mempool_create_empty(name, mbufs, element, cache, sizeof(private), SOCKET_ID_ANY, flags);
	int ret;

	if (!pool)
		return NULL;
	ret = port_lifo(pool);
	if (ret == 0) {
		rte_pktmbuf_pool_init(pool, &private);
		ret = rte_mempool_populate_default(pool);
	}
	if (ret < 0) {
		rte_mempool_free(pool);
		rte_errno = -ret;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct rte_mempool *port_mempool_create(unsigned reactor, uint32_t mbufs, uint32_t mtu, struct star_error *err)
{
	/* The cache may be at most two thirds of the pool; a small pool would sit in it altogether. */
	const uint32_t cache = mbufs / 4 < MEMPOOL_CACHE ? mbufs / 4 : MEMPOOL_CACHE;
	const uint32_t room = RTE_PKTMBUF_HEADROOM + port_frame_bytes(mtu);
	struct rte_mempool *pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	if (room > UINT16_MAX) {
		star_error_set(err, -EINVAL, "an mtu of %u is too large for a packet buffer: at most 64000", mtu);
		return NULL;
	}
	snprintf(name, sizeof(name), "mbufs-%u", reactor);
	pool = make_pool(name, mbufs, cache, (uint16_t)room);
	if (!pool)
		star_error_set(err, -rte_errno,
			       "%u packet buffers of %u bytes for reactor %u (%llu MiB) cannot be allocated: %s; lower "
			       "memory.mbufs",
			       mbufs, room, reactor, (unsigned long long)port_mempool_bytes(mbufs, mtu) >> 20,
			       rte_strerror(rte_errno));
	return pool;
}
