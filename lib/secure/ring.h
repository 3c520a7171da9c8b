/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's keyring: the current contents of its key file, which can be reloaded while other threads use it.
 * Thread-safe. */
#ifndef SECURE_RING_H
#define SECURE_RING_H

#include "secure/keys.h"

struct secure_ring;

/* path and own are borrowed. own: the principal under which the node calls others; "": the only one with role node.
 * NULL with err. */
struct secure_ring *secure_ring_create(const char *path, const char *own, struct star_error *err);
/* ring may be NULL. */
void secure_ring_destroy(struct secure_ring *ring);

/* Reads the file again. 0; or a negative errno, and the keyring keeps the old contents. */
int secure_ring_reload(struct secure_ring *ring, struct star_error *err);

/* Copies a key; clear it after use (explicit_bzero). False: there is none. */
bool secure_ring_find(struct secure_ring *ring, const char *principal, const char *id, struct secure_key *key);
/* Whether that key is still valid, with that role. */
bool secure_ring_has(struct secure_ring *ring, const char *principal, const char *id, enum secure_role role);
/* Returns the principal's role; SECURE_ROLES: there is no such principal. */
enum secure_role secure_ring_role(struct secure_ring *ring, const char *principal);
/* Returns a copy of the node's own keys, for secure_keys_free; NULL with err. */
struct secure_keys *secure_ring_own(struct secure_ring *ring, struct star_error *err);
/* The number of principals. */
unsigned secure_ring_principals(struct secure_ring *ring);

#endif
