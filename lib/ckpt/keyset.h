/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of 64-bit keys: 16 to 32 bytes a key. One thread. */
#ifndef CKPT_KEYSET_H
#define CKPT_KEYSET_H

#include <stdbool.h>
#include <stdint.h>

struct keyset {
	uint64_t *keys; /* open addressing; 0: none there */
	uint64_t size;	/* a power of two, or 0 */
	uint64_t count; /* in keys */
	bool has_zero;
};

bool ckpt_keyset_has(const struct keyset *set, uint64_t key);
/* 1: it is new; 0: it was there; -ENOMEM. */
int ckpt_keyset_add(struct keyset *set, uint64_t key);
void ckpt_keyset_fini(struct keyset *set); /* empty again */

#endif
