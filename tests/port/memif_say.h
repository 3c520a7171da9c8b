/* SPDX-License-Identifier: BSD-3-Clause */
/* What a memif client says to the appliance: a message, and a descriptor with it. */
#ifndef TESTS_PORT_MEMIF_SAY_H
#define TESTS_PORT_MEMIF_SAY_H

#include <string.h>
#include <sys/socket.h>

#include "port/memif_internal.h"

/* fd: -1 for none. As sendmsg. */
static inline ssize_t memif_say(int to, const struct memif_message *m, size_t bytes, int fd, int flags)
{
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = { .bytes = { 0 } };
	struct iovec from = { (void *)(uintptr_t)m, bytes };
	struct msghdr message = { .msg_iov = &from, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = &ancillary;
		message.msg_controllen = sizeof(ancillary);
		ancillary.header = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
	}
	return sendmsg(to, &message, MSG_NOSIGNAL | flags);
}

#endif
