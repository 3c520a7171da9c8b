/* SPDX-License-Identifier: BSD-3-Clause */
/* What the commands of checkpoints share. */
#ifndef STARCTL_CHECKPOINTS_H
#define STARCTL_CHECKPOINTS_H

#include "app/starctl/starctl.h"
#include "ckpt/ckpt.h"

/* The key of manifests (ckpt_use_keys), where the environment names its file. */
#define STARCTL_CHECKPOINT_KEY "STAR_CHECKPOINT_KEY"
int checkpoint_use_key(struct star_error *err);

/* DIR, DIR/7, DIR/00000007-full: the directory, and the number; 0: none was given. */
int checkpoint_locate(const char *argument, char directory[static CKPT_PATH_MAX], uint64_t *id, struct star_error *err);

/* One line on a terminal that is rewritten; elsewhere nothing. */
struct checkpoint_progress {
	FILE *out;
	const char *doing;
	bool wanted, rows; /* counts these, and not bytes */
	int percent;
};
void checkpoint_progress_begin(struct checkpoint_progress *progress, const struct invocation *invocation,
			       const char *doing);
bool checkpoint_progress_report(void *progress, uint64_t done, uint64_t total); /* a ckpt_progress */
void checkpoint_progress_end(struct checkpoint_progress *progress);

#endif
