/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node is made of, as far as it needs no ports and no reactors: addresses that have one owner, memory that is
 * there ahead. */
#include "node/node.h"

#include <errno.h>
#include <rte_eal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "node/checkpoint.h"
#include "port/net_interface.h"
#include "tests/node/cases.h"
#include "tests/unit.h"

const char *const unit_suite = "node";

static struct node_port port_with(const char *device, const char *interface, const char *first, const char *second)
{
	struct node_port port = { .config = { .addresses_count = second ? 2 : 1 } };

	strncpy(port.config.device, device, sizeof(port.config.device) - 1);
	strncpy(port.config.interface, interface, sizeof(port.config.interface) - 1);
	strncpy(port.config.addresses[0].host, first, sizeof(port.config.addresses[0].host) - 1);
	port.config.addresses[0].prefix = 15;
	if (second)
		strncpy(port.config.addresses[1].host, second, sizeof(port.config.addresses[1].host) - 1);
	port.config.addresses[1].prefix = 48;
	return port;
}

/* The kernel's own would be answered twice. */
static void addresses_of_the_kernel_are_refused(void)
{
	struct node_port port = port_with("net_af_packet", "veth-a", "127.0.0.1", NULL);
	struct star_error err = { 0 };

	CHECK_INT(node_claim(&port, &err), -EADDRINUSE);
	CHECK_HAS(err.text, "the data address 127.0.0.1 is also an address of the kernel, on lo");
	CHECK_HAS(err.text, "`ip address delete 127.0.0.1/8 dev lo`");
	CHECK_UINT(port.claims_count, 0);
	node_disclaim(&port);
	/* Nobody else sees a memif port's frames. */
	port = port_with("net_memif", "", "127.0.0.1", NULL);
	CHECK_INT(node_claim(&port, &err), 0);
	CHECK_UINT(port.claims_count, 0);
	node_disclaim(&port);
}

/* One owner an interface and address, until it lets go; what a refused claim had taken is given back, too. */
static void addresses_have_one_owner(void)
{
	struct node_port first = port_with("net_af_packet", "veth-a", "198.18.77.1", "2001:2::77:1");
	struct node_port second = port_with("net_af_packet", "veth-a", "198.18.77.2", "2001:2::77:1");
	struct node_port elsewhere = port_with("net_af_packet", "veth-b", "198.18.77.1", NULL);
	const unsigned open = unit_entries("/proc/self/fd");
	struct star_error err = { 0 };

	CHECK_INT(node_claim(&first, &err), 0);
	CHECK_UINT(first.claims_count, 2);
	CHECK_INT(node_claim(&second, &err), -EADDRINUSE);
	CHECK_HAS(err.text, "the data ports of 2001:2::77:1 are in use by another starserver");
	CHECK_HAS(err.text, "`ss -xap | grep @starserver/veth-a/2001:2::77:1`");
	node_disclaim(&second);
	CHECK_INT(node_claim(&elsewhere, &err), 0);
	node_disclaim(&elsewhere);
	node_disclaim(&first);
	CHECK_UINT(unit_entries("/proc/self/fd"), open);
	CHECK_INT(node_claim(&second, &err), 0);
	node_disclaim(&second);
	node_disclaim(&second); /* it has nothing any more */
	CHECK_UINT(unit_entries("/proc/self/fd"), open);
}

static void ports_become_interfaces(void)
{
	struct port hardware = { .id = 3, .mtu = 1500, .tso_bytes = 9000, .tso_segments = 7 };
	struct node_port port = port_with("net_af_packet", "veth-a", "198.18.77.1", "2001:2::77:1");
	struct net_interface_options o;

	port.port = &hardware;
	port.config.vlan = 12;
	strncpy(port.config.gateway, "198.18.0.1", sizeof(port.config.gateway) - 1);
	o = port_net_interface(port.port, &port.config);
	CHECK_UINT(o.port, 3);
	CHECK_UINT(o.mtu, 1500);
	CHECK_UINT(o.vlan, 12);
	CHECK_UINT(o.tso_bytes, 9000);
	CHECK_UINT(o.tso_segments, 7);
	CHECK_UINT(o.addresses_count, 2);
	CHECK_UINT(o.addresses[0].prefix, 15);
	CHECK_UINT(o.addresses[1].prefix, 48);
	CHECK(memcmp(&o.addresses[0].address, &o.addresses[1].address, sizeof(o.addresses[0].address)) != 0);
	CHECK(memcmp(&o.gateway4, &(struct net_address){ 0 }, sizeof(o.gateway4)) != 0);
	CHECK(memcmp(&o.gateway6, &(struct net_address){ 0 }, sizeof(o.gateway6)) == 0);
	CHECK(node_port_has(&port, "198.18.77.1"));
	CHECK(node_port_has(&port, "2001:2::77:1"));
	CHECK(!node_port_has(&port, "198.18.77.11"));
	CHECK(!node_port_has(&port, ""));
}

/* Pages of [at, at + bytes) that are there. */
static size_t pages_there(uint8_t *at, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = bytes / page;
	unsigned char *there = calloc(count, 1);
	size_t sum = 0;

	CHECK_INT(mincore(at, bytes, there), 0);
	for (size_t i = 0; i < count; i++)
		sum += there[i] & 1;
	free(there);
	return sum;
}

/* As a node on a machine without hugepages starts it. */
static bool start_eal(void)
{
	static const char *const args[] = { "test",	   "--no-huge", "--no-pci", "--no-telemetry",
					    "--no-shconf", "-m",	"16",	    "--log-level=error" };
	enum { ARGS = sizeof(args) / sizeof(args[0]) };
	static char text[ARGS][24];
	char *list[ARGS];

	for (unsigned i = 0; i < ARGS; i++) {
		strncpy(text[i], args[i], sizeof(text[i]) - 1);
		list[i] = text[i];
	}
	return CHECK(rte_eal_init(ARGS, list) >= 0);
}

/* Of each shard the first bytes, for rows, and the last, for the index; and nothing in between. */
static void memory_is_touched_ahead(void)
{
	enum { SHARDS = 2, MIB = 1 << 20 };
	const size_t arena = 64 * MIB, page = (size_t)sysconf(_SC_PAGESIZE), rows = 12 * MIB, index = 8 * MIB;
	const struct timespec pause = { .tv_nsec = 1000000 };
	static struct config config;
	static struct node node;
	struct touch_ahead *ahead;
	size_t there = 0;

	if (!start_eal())
		return;
	node.config = &config;
	node.shards_count = SHARDS;
	node.arena_bytes = arena;
	for (unsigned i = 0; i < SHARDS; i++) {
		node.shards[i].node = &node;
		node.shards[i].index = i;
		node.shards[i].arena =
			mmap(NULL, arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!CHECK(node.shards[i].arena != MAP_FAILED))
			return;
	}
	CHECK(!node_touch_begin(&node, 0, 1000)); /* nothing to load */
	node_touch_end(NULL);
	ahead = node_touch_begin(&node, rows, index / 8);
	if (!CHECK(ahead != NULL))
		return;
	for (unsigned i = 0; i < 10000 && there < SHARDS * (rows + index) / page; i++) {
		nanosleep(&pause, NULL);
		there = 0;
		for (unsigned k = 0; k < SHARDS; k++)
			there += pages_there(node.shards[k].arena, arena);
	}
	node_touch_end(ahead);
	for (unsigned i = 0; i < SHARDS; i++) {
		uint8_t *at = node.shards[i].arena;

		CHECK_UINT(pages_there(at, rows), rows / page);
		CHECK_UINT(pages_there(at + arena - index, index), index / page);
		CHECK(pages_there(at + rows, arena - rows - index) <= 2 * (2 * MIB) / page);
		munmap(at, arena);
	}
}

/* Without a directory nothing is remembered, and nothing fails. */
static void nothing_is_dropped_without_a_directory(void)
{
	static uint32_t generations[WIRE_OBJECTS_MAX + 1];
	static struct config config;
	static struct node node;
	struct star_error err = { 0 };

	node.config = &config;
	memset(generations, 7, sizeof(generations));
	CHECK_INT(node_dropped_write(&node, generations, &err), 0);
	CHECK_INT(node_dropped_read(&node, generations, &err), 0);
	for (unsigned i = 0; i <= WIRE_OBJECTS_MAX; i++)
		if (!CHECK_UINT(generations[i], 0))
			break;
	CHECK_INT(node_bring_back(&node, 1, &err), 0);
	CHECK_INT(err.code, 0);
}

/* Rows of a node that serves no layout yet are asked for later. */
static void rows_wait_for_a_layout(void)
{
	static const struct object_spec spec = { .kind = OBJECT_TABLE, .name = "t", .id = 1, .dim = 4 };
	struct control_row_keys which = { .reactor = 0, .at = 5 };
	const uint64_t keys[] = { 1 };
	static struct config config;
	static struct node node;
	struct star_error err = { 0 };
	json_t *list = json_array();

	node.config = &config;
	node.shards_count = 2;
	CHECK_INT(node_row_keys(&node, &spec, &which, list, &err), -EAGAIN);
	CHECK_HAS(err.text, "the node serves no layout yet");
	CHECK_INT(node_rows(&node, &spec, keys, 1, list, &err), -EAGAIN);
	CHECK_UINT(json_array_size(list), 0);
	/* A reactor that is not there; and keys that are another node's, of which nothing is known here. */
	config.partitions = 64;
	node.layout.epoch = 1;
	node.layout.cluster_reactors = 4;
	node.layout.first_reactor = 4; /* of four: none is here */
	which.reactor = 2;
	CHECK_INT(node_row_keys(&node, &spec, &which, list, &err), -EINVAL);
	CHECK_HAS(err.text, "there is no reactor 2: this node has 0 to 1");
	CHECK_INT(node_rows(&node, &spec, keys, 1, list, &err), 0);
	CHECK_UINT(json_array_size(list), 1);
	CHECK(json_is_null(json_array_get(list, 0)));
	json_decref(list);
}

const struct unit_case unit_cases[] = {
	{ "addresses_of_the_kernel_are_refused", addresses_of_the_kernel_are_refused },
	{ "addresses_have_one_owner", addresses_have_one_owner },
	{ "ports_become_interfaces", ports_become_interfaces },
	{ "memory_is_touched_ahead", memory_is_touched_ahead },
	{ "nothing_is_dropped_without_a_directory", nothing_is_dropped_without_a_directory },
	{ "rows_wait_for_a_layout", rows_wait_for_a_layout },
	{ "each_caller_gets_its_own_outcome", each_caller_gets_its_own_outcome },
	{ "what_is_wanted_stays_wanted", what_is_wanted_stays_wanted },
	{ "who_asks_does_not_wait_for_a_look", who_asks_does_not_wait_for_a_look },
	{ "nobody_waits_for_etcd_when_the_node_stops", nobody_waits_for_etcd_when_the_node_stops },
	{ "several_threads_remember_at_once", several_threads_remember_at_once },
	{ "a_node_that_has_yielded_is_no_longer_primary", a_node_that_has_yielded_is_no_longer_primary },
	{ "what_is_written_already_needs_no_disk", what_is_written_already_needs_no_disk },
	{ NULL, NULL },
};
