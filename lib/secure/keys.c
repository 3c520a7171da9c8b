/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/crc32.h"
#include "secure/keys_text.h"
#include "secure/memory.h"

bool secure_name_is_good(const char *name)
{
	const size_t bytes = strlen(name);

	return bytes > 0 && bytes <= SECURE_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == bytes && !strchr("._-", name[0]) &&
	       !strchr("._-", name[bytes - 1]);
}

struct secure_keys *secure_keys_alloc(unsigned count, struct star_error *err)
{
	struct secure_keys *keys = secure_alloc(sizeof(*keys) + count * sizeof(keys->list[0]));

	if (!keys)
		star_error_set(err, -ENOMEM, "out of memory for keys");
	return keys;
}

void secure_keys_free(struct secure_keys *keys)
{
	secure_free(keys);
}

static const struct secure_key *find_key(const struct secure_keys *keys, const char *principal, bool next)
{
	for (unsigned i = 0; i < keys->count; i++)
		if (keys->list[i].next == next && strcmp(keys->list[i].principal, principal) == 0)
			return &keys->list[i];
	return NULL;
}

const struct secure_key *secure_keys_find(const struct secure_keys *keys, const char *principal, const char *id)
{
	for (unsigned i = 0; i < keys->count; i++)
		if (strcmp(keys->list[i].principal, principal) == 0 && strcmp(keys->list[i].id, id) == 0)
			return &keys->list[i];
	return NULL;
}

const struct secure_key *secure_keys_of(const struct secure_keys *keys, const char *principal)
{
	const struct secure_key *current = find_key(keys, principal, false);

	return current ? current : find_key(keys, principal, true);
}

/* Whether this is the principal's first key in the list, so that each principal is counted once. */
static bool is_first(const struct secure_keys *keys, unsigned i)
{
	for (unsigned before = 0; before < i; before++)
		if (strcmp(keys->list[before].principal, keys->list[i].principal) == 0)
			return false;
	return true;
}

const char *secure_keys_only(const struct secure_keys *keys, enum secure_role role, unsigned *count)
{
	const char *only = NULL;

	*count = 0;
	for (unsigned i = 0; i < keys->count; i++)
		if (keys->list[i].role == role && is_first(keys, i)) {
			only = keys->list[i].principal;
			++*count;
		}
	return *count == 1 ? only : NULL;
}

unsigned secure_keys_principals(const struct secure_keys *keys)
{
	unsigned count = 0;

	for (unsigned i = 0; i < keys->count; i++)
		count += is_first(keys, i);
	return count;
}

static int unknown(const char *principal, struct star_error *err)
{
	return star_error_set(err, -ENOENT, "it has no principal \"%.63s\"; `starctl key list` shows those that it has",
			      principal);
}

struct secure_keys *secure_keys_select(const struct secure_keys *keys, const char *principal, struct star_error *err)
{
	struct secure_keys *own;

	if (!secure_keys_of(keys, principal)) {
		unknown(principal, err);
		return NULL;
	}
	own = secure_keys_alloc(2, err);
	for (int next = 0; own && next < 2; next++) {
		const struct secure_key *key = find_key(keys, principal, next);

		if (key)
			own->list[own->count++] = *key;
	}
	return own;
}

int secure_keys_check_new(const struct secure_keys *keys, const struct secure_key *key, struct star_error *err)
{
	for (unsigned i = 0; i < keys->count; i++) {
		const struct secure_key *other = &keys->list[i];

		/* If two principals had one secret, nobody could tell which of them connects. */
		if (memcmp(other->secret, key->secret, sizeof(key->secret)) == 0)
			return star_error_set(err, -EINVAL, "\"%s\" has the same secret as \"%s\"", key->principal,
					      other->principal);
		if (strcmp(other->principal, key->principal) != 0)
			continue;
		if (other->next == key->next)
			return star_error_set(err, -EEXIST, "\"%s\" has a %s key already", key->principal,
					      key->next ? "next" : "current");
		if (other->role != key->role)
			return star_error_set(err, -EINVAL, "\"%s\" has two roles, %s and %s", key->principal,
					      secure_role_name(other->role), secure_role_name(key->role));
		if (strcmp(other->id, key->id) == 0)
			return star_error_set(err, -EINVAL, "two keys of \"%s\" have one id, %s", key->principal,
					      key->id);
	}
	return 0;
}

static bool fill_by_chance(struct secure_key *key)
{
	uint8_t id[SECURE_ID_BYTES / 2];

	if (getrandom(key->secret, sizeof(key->secret), 0) != (ssize_t)sizeof(key->secret) ||
	    getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return false;
	for (unsigned i = 0; i < sizeof(id); i++)
		snprintf(key->id + 2 * i, 3, "%02x", id[i]);
	return true;
}

struct secure_keys *secure_keys_add(const struct secure_keys *keys, const char *principal, enum secure_role role,
				    bool next, struct star_error *err)
{
	const struct secure_key *other = secure_keys_of(keys, principal);
	struct secure_keys *more;
	struct secure_key *key;

	if (!secure_name_is_good(principal)) {
		star_error_set(err, -EINVAL,
			       "\"%.80s\" is not a valid name of a principal: at most %d lower-case letters and "
			       "digits, with . _ - between them",
			       principal, SECURE_NAME_MAX);
		return NULL;
	}
	if (!other && (role == SECURE_ROLES || next)) {
		if (next)
			unknown(principal, err);
		else
			star_error_set(err, -EINVAL, "\"%s\" needs a role", principal);
		return NULL;
	}
	if (keys->count == SECURE_KEYS_MAX) {
		star_error_set(err, -ENOSPC, "a key file has at most %d keys", SECURE_KEYS_MAX);
		return NULL;
	}
	more = secure_keys_alloc(keys->count + 1, err);
	if (!more)
		return NULL;
	memcpy(more->list, keys->list, keys->count * sizeof(keys->list[0]));
	more->count = keys->count;
	key = &more->list[more->count];
	strcpy(key->principal, principal);
	key->role = role == SECURE_ROLES ? other->role : role;
	key->next = next;
	if (!fill_by_chance(key))
		star_error_set(err, -EAGAIN, "the kernel has no random numbers yet");
	else if (secure_keys_check_new(keys, key, err) == 0) {
		more->count++;
		return more;
	}
	secure_keys_free(more);
	return NULL;
}

struct secure_keys *secure_keys_without(const struct secure_keys *keys, const char *principal, const char *id,
					struct star_error *err)
{
	struct secure_keys *left;

	if (id ? !secure_keys_find(keys, principal, id) : !secure_keys_of(keys, principal)) {
		if (id && secure_keys_of(keys, principal))
			star_error_set(err, -ENOENT, "\"%.63s\" has no key %.16s", principal, id);
		else
			unknown(principal, err);
		return NULL;
	}
	left = secure_keys_alloc(keys->count, err);
	for (unsigned i = 0; left && i < keys->count; i++)
		if (strcmp(keys->list[i].principal, principal) != 0 || (id && strcmp(keys->list[i].id, id) != 0))
			left->list[left->count++] = keys->list[i];
	return left;
}

struct secure_keys *secure_keys_promote(const struct secure_keys *keys, const char *principal, struct star_error *err)
{
	struct secure_keys *left;

	if (!find_key(keys, principal, true)) {
		if (find_key(keys, principal, false))
			star_error_set(err, -ENOENT,
				       "\"%.63s\" has no next key; `starctl key create FILE PRINCIPAL next` makes one",
				       principal);
		else
			unknown(principal, err);
		return NULL;
	}
	left = secure_keys_alloc(keys->count, err);
	for (unsigned i = 0; left && i < keys->count; i++) {
		const struct secure_key *key = &keys->list[i];
		const bool own = strcmp(key->principal, principal) == 0;

		if (own && !key->next)
			continue;
		left->list[left->count] = *key;
		left->list[left->count++].next = key->next && !own;
	}
	return left;
}
