/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol with a client: it introduces itself, passes regions and rings, and connects. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "port/memif_internal.h"

enum { PATIENCE_US = 5000000, HAND_BACK_PAUSE_US = 50 };

static void send_message(int fd, const struct memif_message *message)
{
	/* A client that does not read its answers is broken: its socket is closed soon, and that is handled
	 * elsewhere. */
	if (send(fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void put_name(char *to, const char *name)
{
	snprintf(to, 32, "%.31s", name);
}

static void refuse_client(int fd, const char *why)
{
	struct memif_message message = { .type = MEMIF_DISCONNECT };

	snprintf(message.disconnect.text, sizeof(message.disconnect.text), "%s", why);
	send_message(fd, &message);
}

void memif_client_accept(struct memif *memif)
{
	struct memif_message hello = { .type = MEMIF_HELLO };
	const int fd = accept4(memif->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (memif->client_fd >= 0) {
		refuse_client(fd, "this port has a client already");
		close(fd);
		return;
	}
	memif->link = calloc(1, sizeof(*memif->link));
	if (!memif->link) {
		close(fd);
		return;
	}
	for (unsigned i = 0; i < PORT_QUEUES_MAX; i++)
		memif->link->in[i].fd = memif->link->out[i].fd = -1;
	memif->client_fd = fd;
	memif->introduced = false;
	memif->patience_us = clock_us() + PATIENCE_US;
	put_name(hello.hello.name, "StarServer");
	hello.hello.version_min = hello.hello.version_max = MEMIF_VERSION;
	hello.hello.region_max = MEMIF_REGIONS_MAX - 1;
	hello.hello.s2c_ring_max = hello.hello.c2s_ring_max = memif->queues - 1;
	hello.hello.ring_log2_max = MEMIF_RING_LOG2_MAX;
	send_message(fd, &hello);
}

/* Waits until every reactor has taken the offer. A port that is being closed has no reactors any more. */
static void wait_taken(struct memif *memif, const struct memif_link *link)
{
	for (unsigned i = 0; i < memif->queues; i++)
		while (__atomic_load_n(&memif->queue[i].taken, __ATOMIC_ACQUIRE) != link &&
		       !__atomic_load_n(&memif->stopping, __ATOMIC_ACQUIRE))
			usleep(HAND_BACK_PAUSE_US);
}

static void offer(struct memif *memif, struct memif_link *link)
{
	const uint64_t one = 1;

	for (unsigned i = 0; i < memif->queues; i++) {
		struct memif_queue *q = &memif->queue[i];

		__atomic_store_n(&q->offered, link, __ATOMIC_RELEASE);
		if (write(q->bell, &one, sizeof(one)) < 0)
			continue; /* its count is near 2^64: it is readable */
	}
	wait_taken(memif, link);
}

static void watch_socket(const struct memif *memif, int operation)
{
	/* Edge-triggered: see memif_disarm. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	for (unsigned i = 0; i < memif->link->in_count; i++)
		epoll_ctl(memif->queue[i].wait_fd, operation, memif->link->in[i].fd, &event);
}

static void free_link(struct memif_link *link)
{
	for (unsigned i = 0; i < PORT_QUEUES_MAX; i++) {
		if (link->in[i].fd >= 0)
			close(link->in[i].fd);
		if (link->out[i].fd >= 0)
			close(link->out[i].fd);
	}
	for (unsigned i = 0; i < link->regions_count; i++)
		munmap(link->regions[i].memory, link->regions[i].bytes);
	free(link);
}

void memif_client_end(struct memif *memif, const char *why)
{
	void (*gone)(void *ctx, uint16_t id);

	if (memif->client_fd < 0)
		return;
	if (why)
		refuse_client(memif->client_fd, why);
	if (memif->connected) {
		__atomic_store_n(&memif->connected, false, __ATOMIC_RELAXED);
		watch_socket(memif, EPOLL_CTL_DEL);
		offer(memif, NULL);
		gone = __atomic_load_n(&memif->gone, __ATOMIC_ACQUIRE);
		if (gone)
			gone(memif->gone_ctx, memif->id);
		log_info("port %s: its client is gone%s%s", memif->name, why ? ": " : "", why ? why : "");
	} else if (why) {
		log_info("port %s: a client was refused: %s", memif->name, why);
	}
	free_link(memif->link);
	memif->link = NULL;
	close(memif->client_fd);
	memif->client_fd = -1;
}

static const char *introduce(struct memif *memif, const struct memif_message *m)
{
	const char *secret = memif->options.secret;

	if (memif->introduced)
		return "a second introduction";
	if (m->init.version != MEMIF_VERSION)
		return "only memif 2.0 is served";
	if (m->init.id != memif->options.id)
		return "another id is served at this socket";
	if (m->init.mode != 0)
		return "only Ethernet is served";
	if (secret[0] && strncmp(secret, m->init.secret, sizeof(m->init.secret)) != 0)
		return "the secret is wrong";
	memif->introduced = true;
	return NULL;
}

/*
 * Whether a client's memory cannot change its size while we use it: it must be a memfd that is sealed against
 * shrinking, or an access beyond its end would raise SIGBUS. VPP, libmemif, DPDK's client and ours seal it; if a client
 * has left that open, it is sealed here. It must have ordinary pages: a page of a hugetlbfs can be punched out, and if
 * the pool then has no other one, that is a SIGBUS too.
 */
static bool keeps_its_size(int fd)
{
	struct statfs system;
	int seals;

	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK) && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/* Adds a region of the client's memory. */
static const char *add_region(struct memif *memif, const struct memif_message *m, int fd)
{
	struct memif_link *link = memif->link;
	struct memif_region *region;
	struct stat status;
	void *memory;

	if (m->add_region.index != link->regions_count || link->regions_count == MEMIF_REGIONS_MAX)
		return "regions must be numbered consecutively, and at most 256 are possible";
	if (fd >= 0 && !keeps_its_size(fd))
		return "a region must be a memfd of ordinary pages, sealed with F_SEAL_SHRINK";
	/* Only now is its size fixed. */
	if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < 0 || m->add_region.bytes == 0 ||
	    m->add_region.bytes > (uint64_t)status.st_size)
		return "a region without its memory";
	if (m->add_region.bytes > MEMIF_MEMORY_MAX - link->regions_bytes)
		return "its regions are over 1 GiB together: give it smaller rings or buffers";
	memory = mmap(NULL, m->add_region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return "a region cannot be mapped";
	region = &link->regions[link->regions_count++];
	*region = (struct memif_region){ memory, m->add_region.bytes };
	link->regions_bytes += m->add_region.bytes;
	return NULL;
}

static bool is_event_fd(int fd)
{
	char path[32], target[32];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes < 0)
		return false;
	target[bytes] = 0;
	return strcmp(target, "anon_inode:[eventfd]") == 0;
}

/* Takes ownership of fd if it succeeds. */
static const char *add_ring(struct memif *memif, const struct memif_message *m, int fd)
{
	struct memif_link *link = memif->link;
	const bool in = m->add_ring.flags & MEMIF_RING_TO_SERVER;
	const uint8_t log2 = m->add_ring.log2;
	struct memif_region *region;
	struct memif_end *end;
	uint64_t bytes;

	if (m->add_ring.index >= memif->queues)
		return "more rings than this node has reactors";
	end = in ? &link->in[m->add_ring.index] : &link->out[m->add_ring.index];
	if (end->ring || log2 == 0 || log2 > MEMIF_RING_LOG2_MAX || m->add_ring.private_bytes)
		return "a ring that exists already, or with an unsupported size";
	bytes = sizeof(struct memif_ring) + (sizeof(struct memif_descriptor) << log2);
	region = m->add_ring.region < link->regions_count ? &link->regions[m->add_ring.region] : NULL;
	if (!region || m->add_ring.offset % 16 || bytes > region->bytes || m->add_ring.offset > region->bytes - bytes)
		return "a ring outside its region";
	if (fd < 0 || !is_event_fd(fd))
		return "a ring without its event fd";
	*end = (struct memif_end){ .ring = (struct memif_ring *)(region->memory + m->add_ring.offset),
				   .mask = (uint16_t)((1u << log2) - 1),
				   .fd = fd };
	return NULL;
}

/* The number of rings from the first one on, without a gap. */
static unsigned count_rings(const struct memif_end *ends)
{
	unsigned count = 0;

	while (count < PORT_QUEUES_MAX && ends[count].ring)
		count++;
	return count;
}

static const char *join_server(struct memif *memif)
{
	struct memif_message answer = { .type = MEMIF_CONNECTED };
	struct memif_link *link = memif->link;

	link->in_count = count_rings(link->in);
	link->out_count = count_rings(link->out);
	if (link->in_count == 0 || link->out_count == 0)
		return "it has no ring in one of the directions";
	for (unsigned i = 0; i < link->in_count + link->out_count; i++) {
		struct memif_end *end = i < link->in_count ? &link->in[i] : &link->out[i - link->in_count];

		if (end->ring->cookie != MEMIF_COOKIE)
			return "a ring without its cookie";
		if (i < link->in_count)
			__atomic_store_n(&end->ring->flags, MEMIF_RING_MASKED, __ATOMIC_RELAXED);
		end->at = __atomic_load_n(&end->ring->tail, __ATOMIC_RELAXED);
	}
	link->shared = link->out_count < memif->queues;
	watch_socket(memif, EPOLL_CTL_ADD);
	__atomic_store_n(&memif->connected, true, __ATOMIC_RELAXED);
	offer(memif, link);
	put_name(answer.connect.name, memif->name);
	send_message(memif->client_fd, &answer);
	log_info("port %s: a client is connected, with %u rings to us and %u to it", memif->name, link->in_count,
		 link->out_count);
	return NULL;
}

/* NULL: continue; "": the client wants to disconnect; otherwise why it must. *fd is set to -1 if it was taken over. */
static const char *take_client_message(struct memif *memif, const struct memif_message *m, int *fd)
{
	const struct memif_message ack = { .type = MEMIF_ACK };
	const char *why = NULL;

	if (m->type == MEMIF_ACK)
		return NULL;
	if (m->type == MEMIF_DISCONNECT)
		return "";
	if (!memif->introduced && m->type != MEMIF_INIT)
		return "it has not introduced itself";
	if (memif->connected)
		return "it is connected already";
	switch (m->type) {
	case MEMIF_INIT:
		why = introduce(memif, m);
		break;
	case MEMIF_ADD_REGION:
		why = add_region(memif, m, *fd);
		break;
	case MEMIF_ADD_RING:
		why = add_ring(memif, m, *fd);
		if (!why)
			*fd = -1;
		break;
	case MEMIF_CONNECT:
		return join_server(memif);
	default:
		return "an unknown message";
	}
	if (!why)
		send_message(memif->client_fd, &ack);
	return why;
}

void memif_client_serve(struct memif *memif)
{
	struct memif_message message;
	struct iovec to = { &message, sizeof(message) };
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} ancillary;
	struct msghdr received = {
		.msg_iov = &to, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)
	};
	const ssize_t bytes = recvmsg(memif->client_fd, &received, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = bytes > 0 ? CMSG_FIRSTHDR(&received) : NULL;
	const char *why = "a message that is too short";
	int fd = -1;

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* The kernel closes descriptors that do not fit. */
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	if (bytes <= 0)
		why = "";
	else if (bytes == sizeof(message))
		why = take_client_message(memif, &message, &fd);
	if (fd >= 0)
		close(fd);
	if (why)
		memif_client_end(memif, *why ? why : NULL);
}
