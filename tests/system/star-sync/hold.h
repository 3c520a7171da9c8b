/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker of a synchronous job that stops between two of its calls to PS tasks, or in the middle of one, as one does
 * that is killed there. The linker has star-sync's session call __wrap_star_execute for star_execute, and so on.
 */
#ifndef STAR_SYNC_HOLD_H
#define STAR_SYNC_HOLD_H

#include <stdint.h>

struct hold {
	const char *point; /* a list of them, the next one first; NULL: there is none */
	uint64_t step;	   /* it stops after this many steps */
	uint64_t made;	   /* steps */
	uint32_t need;	   /* tickets above that do not count */
};
extern struct hold hold;

/* Whether there are such points. */
int hold_parse(const char *list);

#endif
