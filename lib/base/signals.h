/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The signals that a thread of ours leaves to the program's other threads: all, but for those that tell of a fault of
 * the thread itself. Were they blocked, the kernel would end the process without whoever handles crashes in it.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

static inline void base_signals_of_others(sigset_t *set)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };

	sigfillset(set);
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(set, faults[i]);
}

#endif
