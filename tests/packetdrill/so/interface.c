/* SPDX-License-Identifier: BSD-3-Clause */
/* The one symbol that packetdrill looks up. Flags: "local=ADDRESS,mtu=BYTES,settings=FOLDER", each of them optional. */
#include "tests/packetdrill/so/interface.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packetdrill/so/shim.h"

#define START_NS (UINT64_C(1000000) * 1000000000) /* a time of day like another */

static void take_flag(char *flag)
{
	if (strncmp(flag, "local=", 6) == 0) {
		if (inet_pton(AF_INET, flag + 6, shim.local.address) == 1)
			shim.local.family = AF_INET;
		else if (inet_pton(AF_INET6, flag + 6, shim.local.address) == 1)
			shim.local.family = AF_INET6;
	} else if (strncmp(flag, "mtu=", 4) == 0) {
		shim.mtu = (unsigned)strtoul(flag + 4, NULL, 10);
	} else if (strncmp(flag, "settings=", 9) == 0) {
		snprintf(shim.settings, sizeof(shim.settings), "%s", flag + 9);
	}
}

static void shim_free(void *self)
{
	pthread_mutex_lock(&shim.lock);
	stack_down();
	for (int fd = 0; fd < SHIM_FDS; fd++) {
		struct object *object = shim.objects[fd];

		if (!object)
			continue;
		shim_remove(object);
		object_free(object);
	}
	while (shim.packets) {
		struct packet *p = shim.packets;

		shim.packets = p->next;
		free(p);
	}
	pthread_mutex_unlock(&shim.lock);
}

__attribute__((visibility("default"))) void packetdrill_interface_init(const char *flags,
								       struct packetdrill_interface *interface)
{
	char text[512] = "", *rest = text, *flag;

	shim.main = pthread_self();
	shim.started = true;
	shim.now_ns = START_NS;
	shim.mtu = 1500;
	shim.packets = NULL;
	shim.packets_tail = &shim.packets;
	shim.local = (struct endpoint){ .family = AF_INET, .address = { 192, 168, 0, 1 } };
	snprintf(text, sizeof(text), "%s", flags ? flags : "");
	while ((flag = strsep(&rest, ",")))
		take_flag(flag);
	*interface = (struct packetdrill_interface){
		.self = &shim,
		.free = shim_free,
		.socket = shim_socket,
		.bind = shim_bind,
		.listen = shim_listen,
		.accept = shim_accept,
		.connect = shim_connect,
		.read = shim_read,
		.readv = shim_readv,
		.recv = shim_recv,
		.recvfrom = shim_recvfrom,
		.recvmsg = shim_recvmsg,
		.write = shim_write,
		.writev = shim_writev,
		.send = shim_send,
		.sendto = shim_sendto,
		.sendmsg = shim_sendmsg,
		.fcntl = shim_fcntl,
		.ioctl = shim_ioctl,
		.close = shim_close,
		.shutdown = shim_shutdown,
		.getsockopt = shim_getsockopt,
		.setsockopt = shim_setsockopt,
		.poll = shim_poll,
		.netdev_send = shim_netdev_send,
		.netdev_receive = shim_netdev_receive,
		.usleep = shim_usleep,
		.gettimeofday = shim_gettimeofday,
		.epoll_create = shim_epoll_create,
		.epoll_ctl = shim_epoll_ctl,
		.epoll_wait = shim_epoll_wait,
		.pipe = shim_pipe,
		.splice = shim_splice,
	};
}
