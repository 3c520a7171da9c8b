/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few threads that execute the parts of one task in parallel. Parts depend on sizes alone, never on the number of
 * threads, so the results have the same bits with any number. A team belongs to one run and is used by one thread at a
 * time. exec_team_run allocates nothing. NULL is a team that has only the caller.
 */
#ifndef EXEC_TEAM_H
#define EXEC_TEAM_H

#include <stdint.h>

#include "star_error.h"

struct team;

enum { TEAM_THREADS_MAX = 256 };

/* threads includes the caller; 1 returns NULL without an error (err->code 0). */
struct team *exec_team_create(uint32_t threads, struct star_error *err);
void exec_team_destroy(struct team *team);

/* Calls work(context, 0) to work(context, parts - 1), once each, in any order; returns when all are done. */
void exec_team_run(struct team *team, uint64_t parts, void (*work)(void *context, uint64_t part), void *context);

#endif
