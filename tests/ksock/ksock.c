/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over kernel sockets: each case by epoll and by io_uring. */
#include <liburing.h>
#include <string.h>

#include "tests/ksock/cases.h"
#include "tests/ksock/rig.h"

static bool io_uring_is_there(void)
{
	struct io_uring ring;
	const int status = io_uring_queue_init(1, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);

	if (status == 0)
		io_uring_queue_exit(&ring);
	else
		unit_skip("this machine's kernel allows no io_uring: %s", strerror(-status));
	return status == 0;
}

#define X(name) \
	static void name##_by_epoll(void) \
	{ \
		rig.io = KSOCK_IO_EPOLL; \
		name(); \
	} \
	static void name##_by_io_uring(void) \
	{ \
		rig.io = KSOCK_IO_URING; \
		if (io_uring_is_there()) \
			name(); \
	}
KSOCK_CASES(X)
#undef X

const char *const unit_suite = "ksock";
const struct unit_case unit_cases[] = {
#define X(name) { #name "_by_epoll", name##_by_epoll }, { #name "_by_io_uring", name##_by_io_uring },
	KSOCK_CASES(X)
#undef X
		{ NULL, NULL },
};
