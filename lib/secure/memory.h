/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for keys: separate pages that are excluded from core files, locked in memory if the process may do so
 * (RLIMIT_MEMLOCK), and cleared when they are freed. Thread-safe.
 */
#ifndef SECURE_MEMORY_H
#define SECURE_MEMORY_H

#include <stddef.h>

/* Returns zeroed memory, for secure_free; NULL: out of memory. */
void *secure_alloc(size_t bytes);
/* May be NULL. */
void secure_free(void *memory);

#endif
