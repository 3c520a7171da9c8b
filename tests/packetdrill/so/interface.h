/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packetdrill's --so_filename asks of a shared object: it looks up packetdrill_interface_init, and calls the stack
 * under test by the pointers that this has filled in, the object's own pointer first. Order and types are the binary
 * interface, declared here again. Calls return as the system calls of their names do: -1 with errno.
 */
#ifndef TESTS_PACKETDRILL_INTERFACE_H
#define TESTS_PACKETDRILL_INTERFACE_H

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct packetdrill_interface {
	void *self; /* handed back in each call */
	void (*free)(void *self);
	int (*socket)(void *self, int domain, int type, int protocol);
	int (*bind)(void *self, int fd, const struct sockaddr *address, socklen_t bytes);
	int (*listen)(void *self, int fd, int backlog);
	int (*accept)(void *self, int fd, struct sockaddr *address, socklen_t *bytes);
	int (*connect)(void *self, int fd, const struct sockaddr *address, socklen_t bytes);
	ssize_t (*read)(void *self, int fd, void *data, size_t bytes);
	ssize_t (*readv)(void *self, int fd, const struct iovec *parts, int count);
	ssize_t (*recv)(void *self, int fd, void *data, size_t bytes, int flags);
	ssize_t (*recvfrom)(void *self, int fd, void *data, size_t bytes, int flags, struct sockaddr *address,
			    socklen_t *address_bytes);
	ssize_t (*recvmsg)(void *self, int fd, struct msghdr *message, int flags);
	ssize_t (*write)(void *self, int fd, const void *data, size_t bytes);
	ssize_t (*writev)(void *self, int fd, const struct iovec *parts, int count);
	ssize_t (*send)(void *self, int fd, const void *data, size_t bytes, int flags);
	ssize_t (*sendto)(void *self, int fd, const void *data, size_t bytes, int flags, const struct sockaddr *address,
			  socklen_t address_bytes);
	ssize_t (*sendmsg)(void *self, int fd, const struct msghdr *message, int flags);
	int (*fcntl)(void *self, int fd, int command, ...);
	int (*ioctl)(void *self, int fd, unsigned long request, ...);
	int (*close)(void *self, int fd);
	int (*shutdown)(void *self, int fd, int how);
	int (*getsockopt)(void *self, int fd, int level, int name, void *value, socklen_t *bytes);
	int (*setsockopt)(void *self, int fd, int level, int name, const void *value, socklen_t bytes);
	int (*poll)(void *self, struct pollfd *fds, nfds_t count, int timeout_ms);
	/* A packet, from its IP header on, to the stack: 0 or -1. */
	int (*netdev_send)(void *self, const void *packet, size_t bytes);
	/* The next packet from the stack; waits for it. *bytes is the buffer's size, then the packet's. 0 or -1. */
	int (*netdev_receive)(void *self, void *packet, size_t *bytes, long long *time_us);
	int (*usleep)(void *self, useconds_t us);
	int (*gettimeofday)(void *self, struct timeval *now, struct timezone *zone);
	int (*epoll_create)(void *self, int size);
	int (*epoll_ctl)(void *self, int epoll, int operation, int fd, struct epoll_event *event);
	int (*epoll_wait)(void *self, int epoll, struct epoll_event *events, int max, int timeout_ms);
	int (*pipe)(void *self, int fds[2]);
	int (*splice)(void *self, int from, loff_t *from_offset, int to, loff_t *to_offset, size_t bytes,
		      unsigned int flags);
};

void packetdrill_interface_init(const char *flags, struct packetdrill_interface *interface);

#endif
