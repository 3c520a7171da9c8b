/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A synchronous job claims what its graph updates: the sums of a table or variable have one tag at a time, so those of
 * two jobs would throw away each other's, without a word. A table, "synchronous/jobs", has the name of the job under a
 * hash of the object's: most jobs share the counter of steps. Whoever comes while that one lives is refused; a job that
 * has ended, or died, leaves its place to the next.
 *
 * Two jobs that begin at once may both find a place free: each writes itself, waits for longer than another one needs
 * from its look to its word, and looks again (Fischer's algorithm: Lamport, A Fast Mutual Exclusion Algorithm, TOCS 5,
 * 1987).
 */
#ifndef TRAIN_CLAIM_H
#define TRAIN_CLAIM_H

#include "train/peers.h"
#include "train/remote.h"

/* After train_peers_open with these options, so that others see this one live. 0; -EBUSY: another job lives that
 * updates one of these; or what a call failed with. */
int train_claim(const struct peers_options *options, const struct remote_update *updates, uint32_t count,
		struct star_error *err);

#endif
