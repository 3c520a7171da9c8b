/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the EAL, hugepages, memory. */
#include <errno.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "port/port.h"
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
	/* More than it was started for. */
	CHECK(!port_mempool_create(1, 1000000, 1500, &err));
	CHECK_HAS(err.text, "1000000 packet buffers of 2176 bytes for reactor 1");
	CHECK_HAS(err.text, "lower memory.mbufs");
	CHECK(!port_mempool_create(2, 1000, 65000, &err));
	CHECK_HAS(err.text, "mtu of 65000 is too large");
	port_eal_stop();
	CHECK_STR(child_captured(), "");
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
	CHECK_HAS(err.text, "DPDK does not start: ");
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
	CHECK_HAS(err.text, "hugepages are required: 1073741840 MiB asked, but ");
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
	CHECK_HAS(err.text, "parameters of reactor 7: 1073741824 MiB asked");
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
	CHECK_HAS(err.text, "parameters of reactor 3: 1073741824 MiB of hugepages asked, but only ");
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

void hugepages_are_used_when_there(void)
{
	enum { WANTED = 32 }; /* 8 MiB of parameters, 13 of mbufs, 16 for the EAL, and some */
	const long before = read_pages();

	write_pages(before + WANTED);
	if (before >= 0 && read_pages() == before + WANTED)
		child_run(with_hugepages);
	else
		printf("# skipped hugepages_are_used_when_there: this machine gives no %d hugepages now\n", WANTED);
	if (before >= 0)
		write_pages(before);
}
