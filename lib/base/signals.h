/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The signals that our threads leave to the program's other threads: all except those that report a fault of the thread
 * itself. If these were blocked, the kernel would end the process without calling its crash handler.
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
