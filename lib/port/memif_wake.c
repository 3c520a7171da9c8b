/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wakes a client that sleeps. Its event fd is an open file that it shares with us: it may clear O_NONBLOCK and fill the
 * counter at any moment, so a write could block for ever; and a million epoll sets may watch it, so any use of it may
 * take long. So no reactor touches it: reactors ask the port's thread by an event fd of ours. The thread does not write
 * to it either: it lets the kernel signal the event fd on completion of an operation that completes at once
 * (IOCB_FLAG_RESFD), the only way to add to a counter that never waits.
 */
#include <linux/aio_abi.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "port/memif_internal.h"

void memif_wake_init(struct memif *memif)
{
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 1, &context) == 0)
		memif->aio = context;
	else
		log_warn("port %s: clients that sleep are not woken: no asynchronous I/O (io_setup: %m; fs.aio-max-nr "
			 "may be used up). Clients that poll are served as before",
			 memif->name);
}

void memif_wake_fini(struct memif *memif)
{
	if (memif->aio)
		syscall(SYS_io_destroy, memif->aio);
}

/* A failure does no harm: the client looks at its ring when it is woken for the next frame, or by itself. */
static void signal_client(const struct memif *memif, int fd)
{
	struct iocb poll_own = {
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_fildes = (uint32_t)memif->stop_fd, /* it is always writable */
		.aio_buf = POLLOUT,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)fd,
	};
	struct iocb *submitted = &poll_own;
	struct timespec no_wait = { 0 };
	struct io_event events[2];

	if (syscall(SYS_io_submit, memif->aio, 1, &submitted) == 1)
		syscall(SYS_io_getevents, memif->aio, 0, RTE_DIM(events), events, &no_wait);
}

void memif_wake_asked(struct memif *memif)
{
	uint64_t asked;

	if (read(memif->ask_fd, &asked, sizeof(asked)) < 0)
		return; /* there was no request since */
	if (!memif->connected || !memif->aio)
		return;
	for (unsigned i = 0; i < memif->link->out_count; i++) {
		struct memif_end *end = &memif->link->out[i];

		/* A reactor that asks after this point signals again. */
		if (__atomic_exchange_n(&end->wanted, 0, __ATOMIC_ACQ_REL))
			signal_client(memif, end->fd);
	}
}
