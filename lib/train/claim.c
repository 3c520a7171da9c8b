/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/star.h"

enum {
	NAME_BYTES = 128, /* the name of a table, so the name of a job is shorter */
	ELEMENTS = NAME_BYTES / 8,
	WAIT_MS = 500,
	ROUNDS = 3, /* claims of others that died one after the other */
};

struct claim {
	const struct peers_options *options;
	const struct remote_update *updates;
	struct star_table *table;
	uint64_t *keys;
	char (*owners)[NAME_BYTES];
	uint32_t count;
};

static int open_claim(struct claim *c, struct star_error *err)
{
	const struct star_spec spec = { .name = "synchronous/jobs",
					.dtype = "int64",
					.dim = ELEMENTS,
					.initializer = "zeros",
					.optimizer = "none" };

	c->keys = calloc(c->count, sizeof(*c->keys));
	c->owners = calloc(c->count, sizeof(*c->owners));
	if (!c->keys || !c->owners)
		return star_error_set(err, -ENOMEM, "no memory for what a job updates");
	for (uint32_t i = 0; i < c->count; i++)
		c->keys[i] = star_key(0, c->updates[i].name);
	c->table = star_table_create(c->options->cluster, &spec, c->options->deadline_us, err);
	return c->table ? 0 : err->code;
}

/* Reads the owners. The contents were written by jobs, or by anybody. */
static int read_owners(struct claim *c, struct star_error *err)
{
	const int rc = star_pull(c->table, c->keys, c->count, c->owners, STAR_READ_ONLY, c->options->deadline_us, err);

	for (uint32_t i = 0; rc == 0 && i < c->count; i++)
		c->owners[i][NAME_BYTES - 1] = '\0';
	return rc;
}

static int write_owners(struct claim *c, struct star_error *err)
{
	struct star_op op = star_op_assign(c->table, c->keys, c->count, c->owners);

	memset(c->owners, 0, c->count * sizeof(*c->owners));
	for (uint32_t i = 0; i < c->count; i++)
		snprintf(c->owners[i], NAME_BYTES, "%s", c->options->job);
	return star_execute(c->options->cluster, &op, 1, c->options->deadline_us, err);
}

/* 1: everything belongs to this job. 0: nothing belongs to another live job. -EBUSY: something does. */
static int judge_owners(const struct claim *c, struct star_error *err)
{
	const char *job = c->options->job, *last = "";
	bool all = true;

	for (uint32_t i = 0; i < c->count; i++) {
		const char *owner = c->owners[i];
		int lives = 0;

		if (strcmp(owner, job) == 0)
			continue;
		all = false;
		if (owner[0] && strcmp(owner, last) != 0)
			lives = train_peers_job_lives(c->options, owner, err);
		if (lives < 0)
			return lives;
		if (lives)
			return star_error_set(
				err, -EBUSY,
				"the synchronous job \"%s\" is alive, and updates \"%s\", as this one does: "
				"they would discard each other's sums of gradients. Start this one "
				"when that one has ended, or on PS tasks of its own",
				owner, c->updates[i].name);
		last = owner;
	}
	return all;
}

static int claim_objects(struct claim *c, struct star_error *err)
{
	const struct timespec pause = { .tv_nsec = WAIT_MS * 1000000L };
	int rc = 0;

	for (unsigned round = 0; rc == 0 && round < ROUNDS; round++) {
		rc = read_owners(c, err);
		if (rc == 0)
			rc = judge_owners(c, err);
		if (rc != 0)
			break;
		rc = write_owners(c, err);
		if (rc == 0)
			nanosleep(&pause, NULL);
	}
	return rc < 0 ? rc : 0;
}

int train_claim(const struct peers_options *options, const struct remote_update *updates, uint32_t count,
		struct star_error *err)
{
	struct claim c = { .options = options, .updates = updates, .count = count };
	int rc = 0;

	if (count > 0)
		rc = open_claim(&c, err);
	if (count > 0 && rc == 0)
		rc = claim_objects(&c, err);
	free(c.keys);
	free(c.owners);
	return rc;
}
