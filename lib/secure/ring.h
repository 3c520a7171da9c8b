/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's key file as it is now: who gets in. It may be read again while others look into it. Thread-safe. */
#ifndef SECURE_RING_H
#define SECURE_RING_H

#include "secure/keys.h"

struct secure_ring;

/* path and own (the principal as which the node calls others; "": the only one of role node) are borrowed. */
struct secure_ring *secure_ring_create(const char *path, const char *own, struct star_error *err);
/* ring may be NULL. */
void secure_ring_destroy(struct secure_ring *ring);

/* Reads the file again; what cannot be read or used changes nothing. */
int secure_ring_reload(struct secure_ring *ring, struct star_error *err);

/* Copies a key; false: there is none. To be cleared afterwards (explicit_bzero). */
bool secure_ring_find(struct secure_ring *ring, const char *principal, const char *id, struct secure_key *key);
/* Whether that very key still lets somebody in, in that role. */
bool secure_ring_has(struct secure_ring *ring, const char *principal, const char *id, enum secure_role role);
/* The principal's role; SECURE_ROLES: there is no such principal. */
enum secure_role secure_ring_role(struct secure_ring *ring, const char *principal);
/* The node's own keys, for secure_keys_free. */
struct secure_keys *secure_ring_own(struct secure_ring *ring, struct star_error *err);
unsigned secure_ring_principals(struct secure_ring *ring);

#endif
