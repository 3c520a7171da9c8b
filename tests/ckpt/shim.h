/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that change a file system, on their way from lib/ckpt to the kernel: counted, failed, or the last thing
 * that happens. This program's own definitions stand before libc's.
 *
 * A loss of power forgets what was not synced: data of files since their last fsync, names since that of their
 * directory. Which of it is forgotten is up to the machine, so the cases try both for each. Names are forgotten in the
 * order of a journal: the latest first. One thread.
 */
#ifndef TESTS_CKPT_SHIM_H
#define TESTS_CKPT_SHIM_H

#include <stdbool.h>

enum shim_way {
	SHIM_COUNT,
	SHIM_FAIL,  /* call n returns -1 with `code`; the others work */
	SHIM_FULL,  /* so do call n and all after it that take room: not those that give some back */
	SHIM_TEAR,  /* call n, if it writes, writes a half, and then the process ends; else it does not happen */
	SHIM_CRASH, /* the process ends before call n */
};

struct shim_plan {
	enum shim_way way;
	unsigned at; /* which call, from 0 */
	int code;
	bool lose_data, lose_names; /* CRASH */
	const char *stash;	    /* a folder on the same file system: what was unlinked waits there */
};

enum { SHIM_EXIT = 77 };

/* File systems that know no O_DIRECT: they say so when a file is opened (it is made nevertheless), or when it is
 * used. */
enum shim_direct { SHIM_DIRECT_TAKEN, SHIM_DIRECT_NOT_OPENED, SHIM_DIRECT_NOT_USED };
void shim_refuse_direct(enum shim_direct where);

/* From now on. */
void shim_arm(const struct shim_plan *plan);
/* The process ends, as the plan has it. */
void shim_end(int status) __attribute__((noreturn));
/* Everything works again; how many calls there were. */
unsigned shim_disarm(void);

#endif
