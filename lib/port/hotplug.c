/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_af_packet joins the sockets of its queues to a fanout group whose number is the exclusive or of process id and
 * interface index, truncated to 16 bits. Two appliances on one machine can get the same number (processes started one
 * after the other, on interfaces created one after the other, often do), and the kernel then refuses the second one.
 * The driver offers no way to choose it. So if a device cannot be attached, the same is tried by a child that shares
 * this process's memory and descriptors (as a thread does), but has its own process id.
 */
#include <errno.h>
#include <rte_dev.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "port/internal.h"

enum { TRIES = 16, STACK_BYTES = 1 << 20 };

struct plug {
	const char *name, *arguments;
	int ret;
};

static int plug_in(void *ctx)
{
	struct plug *plug = ctx;

	plug->ret = rte_eal_hotplug_add("vdev", plug->name, plug->arguments);
	return 0;
}

int port_hotplug(const char *name, const char *arguments)
{
	struct plug plug = { .name = name, .arguments = arguments };
	char *stack;

	plug_in(&plug);
	if (!plug.ret || strncmp(name, "net_af_packet", strlen("net_af_packet")))
		return plug.ret;
	stack = aligned_alloc(64, STACK_BYTES);
	for (int try = 0; stack && plug.ret && try < TRIES; try++) {
		/* The parent does not run until the child has exited: they share even the thread-local variables. */
		const pid_t child = clone(plug_in, stack + STACK_BYTES,
					  CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_VFORK | SIGCHLD, &plug);

		if (child < 0 || waitpid(child, NULL, 0) < 0)
			break;
	}
	free(stack);
	return plug.ret;
}
