/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of memif share: the formats of messages and rings, and the state of a connection. memif.h says which
 * thread owns what. */
#ifndef PORT_MEMIF_INTERNAL_H
#define PORT_MEMIF_INTERNAL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "port/memif.h"
#include "port/port.h"

enum {
	MEMIF_VERSION = 2 << 8,
	MEMIF_COOKIE = 0x3e31f20,
	MEMIF_MESSAGE_BYTES = 128,
	MEMIF_REGIONS_MAX = 256,
	MEMIF_RING_LOG2_MAX = 14,
	MEMIF_SEGMENTS_MAX = 32, /* of a frame */
};
/* Of all regions of a client together: two rings of 16,384 buffers of 9,216 bytes fit. */
#define MEMIF_MEMORY_MAX (UINT64_C(1) << 30)

enum memif_message_type {
	MEMIF_ACK = 1,
	MEMIF_HELLO,
	MEMIF_INIT,
	MEMIF_ADD_REGION,
	MEMIF_ADD_RING,
	MEMIF_CONNECT,
	MEMIF_CONNECTED,
	MEMIF_DISCONNECT,
};

struct memif_message {
	uint16_t type; /* enum memif_message_type */
	union {
		struct {
			char name[32];
			uint16_t version_min, version_max, region_max, s2c_ring_max, c2s_ring_max;
			uint8_t ring_log2_max;
		} __rte_packed hello;
		struct {
			uint16_t version;
			uint32_t id;
			uint8_t mode; /* 0: Ethernet */
			char secret[24], name[32];
		} __rte_packed init;
		struct {
			uint16_t index;
			uint64_t bytes;
		} __rte_packed add_region;
		struct {
			uint16_t flags, index, region;
			uint32_t offset;
			uint8_t log2;
			uint16_t private_bytes;
		} __rte_packed add_ring;
		struct {
			char name[32];
		} __rte_packed connect;
		struct {
			uint32_t code;
			char text[96];
		} __rte_packed disconnect;
		uint8_t bytes[MEMIF_MESSAGE_BYTES - sizeof(uint16_t)];
	} __rte_packed;
} __rte_packed;
_Static_assert(sizeof(struct memif_message) == MEMIF_MESSAGE_BYTES, "memif_message");

enum { MEMIF_RING_TO_SERVER = 1 }; /* flags of ADD_RING */

enum { MEMIF_DESCRIPTOR_NEXT = 1 };

/* In the client's memory, which it may change at any time: so each field is read once, and then checked. */
struct memif_descriptor {
	uint16_t flags, region;
	uint32_t bytes, offset, metadata;
};
_Static_assert(sizeof(struct memif_descriptor) == 16, "memif_descriptor");

enum { MEMIF_RING_MASKED = 1 }; /* flags of a ring: its consumer polls, and need not be woken */

struct memif_ring {
	uint32_t cookie;
	uint16_t flags, head __attribute__((aligned(2)));
	uint8_t to_cacheline1[RTE_CACHE_LINE_SIZE - 8];
	uint16_t tail;
	uint8_t to_cacheline2[RTE_CACHE_LINE_SIZE - 2];
	struct memif_descriptor descriptors[];
};
_Static_assert(sizeof(struct memif_ring) == 128, "memif_ring");

struct memif_region {
	uint8_t *memory;
	uint64_t bytes;
};

/* Our view of a ring. */
struct memif_end {
	struct memif_ring *ring; /* NULL: not there */
	uint16_t mask;
	uint16_t at; /* the last descriptor that we have consumed, or produced */
	/* event fd that wakes its consumer. The client may do anything with it, so only the port's thread uses it
	 * (memif_wake.c). */
	int fd;
	uint32_t wanted; /* for a ring to the client: a reactor asks the thread to wake its consumer */
	uint32_t locked; /* lock of a ring that several reactors send to */
};

/* A client. Constant while reactors use it, except for the rings' `at`, each of which belongs to one reactor. */
struct memif_link {
	unsigned regions_count;
	uint64_t regions_bytes;
	struct memif_region regions[MEMIF_REGIONS_MAX];
	bool shared; /* there are fewer rings to the client than reactors */
	/* rings in use; a reactor with a higher index receives nothing, and shares a ring for sending */
	unsigned in_count, out_count;
	struct memif_end in[PORT_QUEUES_MAX], out[PORT_QUEUES_MAX];
};

struct memif_queue {
	struct memif_link *offered; /* set by the port's thread; NULL: none */
	int bell;		    /* event fd: `offered` has changed */
	int wait_fd;		    /* epoll fd of bell and of the ring's event fd */
	struct rte_mempool *pool;
	/* owned by the reactor */ struct memif_link *taken __rte_cache_aligned;
	struct memif_end *in, *out; /* rings of `taken`; in: NULL if the client has fewer rings */
	bool shared;		    /* other reactors use out too */
	bool broken;		    /* the client has written invalid data into a ring: it is ignored from now on */
} __rte_cache_aligned;

struct memif {
	struct config_memif options;
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t id, queues;
	struct rte_ether_addr mac;
	int listen_fd, stop_fd;
	int ask_fd;	   /* event fd: a reactor wants a client's consumer to be woken */
	unsigned long aio; /* the thread's AIO context, for memif_wake.c; 0: the kernel provides none */
	bool connected, stopping;
	void (*gone)(void *ctx, uint16_t id);
	void *gone_ctx;
	pthread_t thread;
	/* owned by the thread: the client's socket, -1: none; and the time by which it must have introduced itself */
	int client_fd;
	bool introduced;
	uint64_t patience_us;
	struct memif_link *link;
	struct memif_queue queue[];
};

/* The address on which a server listens; returns its length. */
socklen_t memif_address(const struct config_memif *options, struct sockaddr_un *address);

/* memif_client.c: from the thread. */
void memif_client_accept(struct memif *memif);
/* Receives and handles a message of the client. */
void memif_client_serve(struct memif *memif);
void memif_client_end(struct memif *memif, const char *why);

/* memif_wake.c: from the thread. */
void memif_wake_init(struct memif *memif);
void memif_wake_fini(struct memif *memif);
/* Wakes the consumers of those rings to the client for which a reactor has asked. Does not block. */
void memif_wake_asked(struct memif *memif);

#endif
