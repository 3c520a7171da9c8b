/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of 64-bit keys, with 16 to 32 bytes per key. One thread. */
#ifndef CKPT_KEYSET_H
#define CKPT_KEYSET_H

#include <stdbool.h>
#include <stdint.h>

struct keyset {
	uint64_t *keys; /* open addressing; 0: a free slot */
	uint64_t size;	/* a power of two, or 0 */
	uint64_t count; /* in keys */
	bool has_zero;
};

bool ckpt_keyset_has(const struct keyset *set, uint64_t key);
/* 1: added; 0: already there; -ENOMEM. */
int ckpt_keyset_add(struct keyset *set, uint64_t key);
void ckpt_keyset_fini(struct keyset *set); /* frees its memory: it is empty again */

#endif
