/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct secure_ring {
	const char *path, *own;
	pthread_mutex_t lock; /* protects keys */
	struct secure_keys *keys;
};

/* The node's own principal in a list; NULL with a message. */
static const char *own_principal(const struct secure_ring *ring, const struct secure_keys *keys, struct star_error *err)
{
	const struct secure_key *key;
	const char *only;
	unsigned count;

	if (ring->own[0]) {
		key = secure_keys_of(keys, ring->own);
		if (key && key->role == SECURE_NODE)
			return key->principal;
		star_error_set(
			err, -EINVAL,
			"%.200s has no principal \"%.63s\" of role node, under which this node could call others "
			"(security.control_principal)",
			ring->path, ring->own);
		return NULL;
	}
	only = secure_keys_only(keys, SECURE_NODE, &count);
	if (!only && count == 0)
		star_error_set(
			err, -EINVAL,
			"%.200s has no principal of role node, under which this node could call others; `starctl "
			"key create %.200s nodes node` makes one",
			ring->path, ring->path);
	else if (!only)
		star_error_set(
			err, -EINVAL,
			"%.200s has %u principals of role node: security.control_principal must say under which of "
			"them this node calls others",
			ring->path, count);
	return only;
}

static struct secure_keys *load(const struct secure_ring *ring, struct star_error *err)
{
	struct secure_keys *keys = secure_keys_load(ring->path, err);

	if (!keys || own_principal(ring, keys, err))
		return keys;
	secure_keys_free(keys);
	return NULL;
}

struct secure_ring *secure_ring_create(const char *path, const char *own, struct star_error *err)
{
	struct secure_ring *ring = calloc(1, sizeof(*ring));

	if (!ring) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	ring->path = path;
	ring->own = own;
	ring->keys = load(ring, err);
	if (!ring->keys) {
		free(ring);
		return NULL;
	}
	pthread_mutex_init(&ring->lock, NULL);
	return ring;
}

void secure_ring_destroy(struct secure_ring *ring)
{
	if (!ring)
		return;
	secure_keys_free(ring->keys);
	pthread_mutex_destroy(&ring->lock);
	free(ring);
}

int secure_ring_reload(struct secure_ring *ring, struct star_error *err)
{
	struct star_error local;
	struct secure_keys *keys = load(ring, err ? err : &local), *before;

	if (!keys)
		return err ? err->code : local.code;
	pthread_mutex_lock(&ring->lock);
	before = ring->keys;
	ring->keys = keys;
	pthread_mutex_unlock(&ring->lock);
	secure_keys_free(before);
	return 0;
}

bool secure_ring_find(struct secure_ring *ring, const char *principal, const char *id, struct secure_key *key)
{
	const struct secure_key *found;

	pthread_mutex_lock(&ring->lock);
	found = secure_keys_find(ring->keys, principal, id);
	if (found)
		*key = *found;
	pthread_mutex_unlock(&ring->lock);
	return found;
}

bool secure_ring_has(struct secure_ring *ring, const char *principal, const char *id, enum secure_role role)
{
	const struct secure_key *found;
	bool has;

	pthread_mutex_lock(&ring->lock);
	found = secure_keys_find(ring->keys, principal, id);
	has = found && found->role == role;
	pthread_mutex_unlock(&ring->lock);
	return has;
}

enum secure_role secure_ring_role(struct secure_ring *ring, const char *principal)
{
	const struct secure_key *found;
	enum secure_role role;

	pthread_mutex_lock(&ring->lock);
	found = secure_keys_of(ring->keys, principal);
	role = found ? found->role : SECURE_ROLES;
	pthread_mutex_unlock(&ring->lock);
	return role;
}

struct secure_keys *secure_ring_own(struct secure_ring *ring, struct star_error *err)
{
	struct secure_keys *own = NULL;
	const char *principal;

	pthread_mutex_lock(&ring->lock);
	principal = own_principal(ring, ring->keys, err);
	if (principal)
		own = secure_keys_select(ring->keys, principal, err);
	pthread_mutex_unlock(&ring->lock);
	return own;
}

unsigned secure_ring_principals(struct secure_ring *ring)
{
	unsigned count;

	pthread_mutex_lock(&ring->lock);
	count = secure_keys_principals(ring->keys);
	pthread_mutex_unlock(&ring->lock);
	return count;
}
