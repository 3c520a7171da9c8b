/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A synchronous job claims the tables and variables that its graph updates. The sums of an object have one tag at a
 * time, so two jobs would silently drop each other's sums. The table "synchronous/jobs" has the name of the job under a
 * hash of the object's name. A second job is refused while the first one lives; the claim of a job that has ended or
 * died is taken over.
 *
 * Two jobs that begin at the same time may both find an object unclaimed. So each writes its name, waits for longer
 * than another job needs between reading and writing, and reads again (Fischer's algorithm: Lamport, A Fast Mutual
 * Exclusion Algorithm, TOCS 5, 1987). One thread, the session's.
 */
#ifndef TRAIN_CLAIM_H
#define TRAIN_CLAIM_H

#include "train/peers.h"
#include "train/remote.h"

/* Call it after train_peers_open with the same options, so that other jobs see that this one lives. 0; -EBUSY with err:
 * another live job updates one of these; or the error of a call of libstar. */
int train_claim(const struct peers_options *options, const struct remote_update *updates, uint32_t count,
		struct star_error *err);

#endif
