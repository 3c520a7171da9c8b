/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for keys: pages of their own, which are in no core file, are kept out of swap where the process may do so
 * (RLIMIT_MEMLOCK), and are cleared when they are freed. Thread-safe.
 */
#ifndef SECURE_MEMORY_H
#define SECURE_MEMORY_H

#include <stddef.h>

/* Zeroes; NULL: out of memory. For secure_free. */
void *secure_alloc(size_t bytes);
/* May be NULL. */
void secure_free(void *memory);

#endif
