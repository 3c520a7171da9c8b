/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the checkpoint commands. */
#ifndef STARCTL_CHECKPOINTS_H
#define STARCTL_CHECKPOINTS_H

#include "app/starctl/starctl.h"
#include "ckpt/ckpt.h"

/* Uses the key for manifests (ckpt_use_keys) in the file that this environment variable names, if it is set. */
#define STARCTL_CHECKPOINT_KEY "STAR_CHECKPOINT_KEY"
int checkpoint_use_key(struct star_error *err);

/* Splits DIR, DIR/7 or DIR/00000007-full into the directory and the number, which is 0 if none was given. */
int checkpoint_locate(const char *argument, char directory[static CKPT_PATH_MAX], uint64_t *id, struct star_error *err);

/* A progress line that is rewritten in place on a terminal; nothing if the output is not a terminal. */
struct checkpoint_progress {
	FILE *out;
	const char *doing;
	bool wanted, rows; /* rows: counts rows instead of bytes */
	int percent;
};
void checkpoint_progress_begin(struct checkpoint_progress *progress, const struct invocation *invocation,
			       const char *doing);
bool checkpoint_progress_report(void *progress, uint64_t done, uint64_t total); /* a ckpt_progress */
void checkpoint_progress_end(struct checkpoint_progress *progress);

#endif
