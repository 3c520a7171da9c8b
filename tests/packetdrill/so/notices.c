/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MSG_ZEROCOPY's notices in the error queue. The data was copied into the stack's mbufs, and the notices say so; they
 * come when it has been acknowledged, as Linux's do. Adjoining ones are one while nobody has read them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h> /* struct timespec, for <linux/errqueue.h> */
#include <linux/errqueue.h>

#include "tests/packetdrill/so/shim.h"

void notices_sent(struct sock *sock, size_t bytes)
{
	struct notices *n = &sock->notices;

	if (bytes == 0 || !sock->options.zerocopy)
		return;
	n->pending[n->next_id++ % NOTICES_MAX] = sock->written;
}

static void complete(struct notices *n, uint32_t id)
{
	if (n->count && n->ready[(n->first + n->count - 1) % NOTICES_MAX].last + 1 == id)
		n->ready[(n->first + n->count - 1) % NOTICES_MAX].last = id;
	else if (n->count < NOTICES_MAX)
		n->ready[(n->first + n->count++) % NOTICES_MAX] = (struct notice){ id, id };
}

void notices_acknowledged(struct sock *sock, uint64_t acknowledged)
{
	struct notices *n = &sock->notices;

	while (n->done_id != n->next_id && n->pending[n->done_id % NOTICES_MAX] <= acknowledged) {
		complete(n, n->done_id++);
		sock->in_edges++;
	}
}

ssize_t notices_read(struct sock *sock, struct msghdr *message)
{
	struct notices *n = &sock->notices;
	struct {
		struct sock_extended_err err;
		struct sockaddr_in6 from; /* an IPv4 one is shorter */
	} data = { 0 };
	const size_t bytes =
		sizeof(data.err) + (sock->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(data.from));
	struct cmsghdr *c = CMSG_FIRSTHDR(message);

	if (n->count == 0) {
		errno = EAGAIN;
		return -1;
	}
	data.err.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
	data.err.ee_code = SO_EE_CODE_ZEROCOPY_COPIED;
	data.err.ee_info = n->ready[n->first % NOTICES_MAX].first;
	data.err.ee_data = n->ready[n->first % NOTICES_MAX].last;
	n->first++;
	n->count--;
	message->msg_flags = MSG_ERRQUEUE;
	message->msg_namelen = 0;
	if (!c || message->msg_controllen < CMSG_SPACE(bytes)) {
		message->msg_flags |= MSG_CTRUNC;
		message->msg_controllen = 0;
		return 0;
	}
	c->cmsg_level = sock->domain == AF_INET ? SOL_IP : SOL_IPV6;
	c->cmsg_type = sock->domain == AF_INET ? IP_RECVERR : IPV6_RECVERR;
	c->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(c), &data, bytes);
	message->msg_controllen = CMSG_SPACE(bytes);
	return 0;
}
