/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/keyset.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

enum { SIZE_MIN = 1024 };

/* The slot of a key, or the free one that it would get; the set is never full. */
static uint64_t *keyset_place(const struct keyset *set, uint64_t key)
{
	uint64_t at = hash_mix(key) & (set->size - 1);

	while (set->keys[at] && set->keys[at] != key)
		at = (at + 1) & (set->size - 1);
	return &set->keys[at];
}

bool ckpt_keyset_has(const struct keyset *set, uint64_t key)
{
	return key ? set->size && *keyset_place(set, key) : set->has_zero;
}

static int keyset_grow(struct keyset *set)
{
	struct keyset larger = *set;

	larger.size = set->size ? 2 * set->size : SIZE_MIN;
	larger.keys = calloc(larger.size, sizeof(larger.keys[0]));
	if (!larger.keys)
		return -ENOMEM;
	for (uint64_t i = 0; i < set->size; i++)
		if (set->keys[i])
			*keyset_place(&larger, set->keys[i]) = set->keys[i];
	free(set->keys);
	*set = larger;
	return 0;
}

int ckpt_keyset_add(struct keyset *set, uint64_t key)
{
	uint64_t *at;

	if (!key) {
		const bool is_new = !set->has_zero;

		set->has_zero = true;
		return is_new;
	}
	/* Never more than half full. */
	if (2 * (set->count + 1) > set->size && keyset_grow(set) < 0)
		return -ENOMEM;
	at = keyset_place(set, key);
	if (*at)
		return 0;
	*at = key;
	set->count++;
	return 1;
}

void ckpt_keyset_fini(struct keyset *set)
{
	free(set->keys);
	*set = (struct keyset){ 0 };
}
