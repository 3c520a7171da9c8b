/* SPDX-License-Identifier: BSD-3-Clause */
/* starctl's commands of checkpoints: no node is asked. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "ckpt/ckpt.h"
#include "secure/keys.h"
#include "tests/unit.h"

static const char lines[] = "{\"table\": {\"name\": \"t\", \"kind\": \"table\", \"dim\": 2}, \"partitions\": 4, "
			    "\"step\": 9, \"pushes\": 3, \"removed\": 1, \"looks\": 2}\n"
			    "{\"key\": 7, \"values\": [0.5, \"-inf\"]}\n"
			    "{\"key\": \"18446744073709551615\", \"values\": [-0.0, \"nan:7fc00001\"]}\n"
			    "{\"rows\": 2, \"waiting_keys\": 0}\n";

/* Says what it must on the stream that its status belongs to. */
static void says(const char *words, const char *path, int status, const char *text)
{
	struct outcome o = starctl("/nonexistent", words, path);

	if (!CHECK_INT(o.status, status) || !CHECK_HAS(status == STARCTL_OK ? o.out : o.errors, text))
		printf("# starctl %s: %s%s\n", words, o.out, o.errors);
	release(&o);
}

static void lines_come_back(const char *directory)
{
	struct outcome o = starctl("/nonexistent", "checkpoint export @ t", directory);
	const char *rest;

	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.errors, "");
	/* But for the definition, which has all options now, what went in. */
	rest = strchr(o.out, '\n');
	if (CHECK(rest))
		CHECK_STR(rest, strchr(lines, '\n'));
	release(&o);
}

static void damage(const char *checkpoint)
{
	char name[600];
	FILE *file;

	snprintf(name, sizeof(name), "%s/node0-reactor0.star", checkpoint);
	file = fopen(name, "r+");
	CHECK(file && fseek(file, 4096 + 100, SEEK_SET) == 0 && fputc('x', file) == 'x' && fclose(file) == 0);
}

void checkpoints_are_looked_at_without_a_node(void)
{
	char directory[UNIT_FOLDER], checkpoint[UNIT_FOLDER + 16], file[UNIT_FOLDER + 16], words[128];
	struct outcome o;

	if (!unit_folder(directory, "checkpoints"))
		return;
	snprintf(checkpoint, sizeof(checkpoint), "%s/00000001-full", directory);
	snprintf(file, sizeof(file), "%s/lines", directory);
	snprintf(words, sizeof(words), "checkpoint import @ %s", file);
	unit_write_text(file, lines);
	says("checkpoint list @", directory, STARCTL_OK, "no checkpoints in /tmp/star-checkpoints-");
	says("checkpoint verify @", directory, STARCTL_FAILED, "no checkpoints in /tmp/star-checkpoints-");
	says(words, directory, STARCTL_OK, "checkpoint 1 has 2 rows of 1 table\n");
	says(words, directory, STARCTL_FAILED, "Import into a directory of its own");
	says("checkpoint list @", directory, STARCTL_OK, "00000001-full");
	says("--json checkpoint list @", directory, STARCTL_OK, "\"step\": 9,\n    \"rows\": 2,");
	says("checkpoint verify @", directory, STARCTL_OK, "00000001-full is in order\n");
	says("checkpoint verify @", checkpoint, STARCTL_OK, "00000001-full is in order\n");
	lines_come_back(directory);
	lines_come_back(checkpoint);
	says("checkpoint export @/2 t", directory, STARCTL_FAILED,
	     "No such file or directory"); /* "@" by itself is the path */
	says("checkpoint export @ tt", directory, STARCTL_FAILED, "did you mean \"t\"?");
	says("checkpoint prune @ keep=1", directory, STARCTL_OK, "0 checkpoints were removed\n");
	says("checkpoint prune @ keep=0", directory, STARCTL_USAGE,
	     "\"keep=0\" is not a number of full checkpoints to keep");
	says("checkpoint prune @ 5", directory, STARCTL_USAGE, "as in keep=2");
	says("checkpoint prune @", directory, STARCTL_USAGE, "usage: starctl checkpoint prune DIR keep=N");
	says("checkpoint import @ /nonexistent/lines", directory, STARCTL_FAILED, "cannot open /nonexistent/lines");
	says("checkpoint", directory, STARCTL_USAGE, "no command \"checkpoint\"");
	says("checkpoint", directory, STARCTL_USAGE, "  checkpoint verify DIR[/ID]\n");
	damage(checkpoint);
	o = starctl("/nonexistent", "checkpoint prune @ keep=1", directory);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.errors, "starctl: 00000001-full does not count: ");
	CHECK_HAS(o.errors, "its checksum does not match");
	release(&o);
	o = starctl("/nonexistent", "checkpoint verify @", directory);
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.out, "node0-reactor0.star: block 0, at byte 4096: its checksum does not match");
	release(&o);
	o = starctl("/nonexistent", "--json checkpoint verify @", checkpoint);
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.out, "\"ok\": false");
	release(&o);
	o = starctl("/nonexistent", "checkpoint export @ t", directory);
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "its checksum does not match");
	release(&o);
	/* A node would not begin with one under another's name. */
	snprintf(file, sizeof(file), "%s/00000002-full", directory);
	CHECK_INT(rename(checkpoint, file), 0);
	o = starctl("/nonexistent", "checkpoint verify @", directory);
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.out,
		  "00000002-full/manifest.json: it belongs to another checkpoint than its directory's name says");
	release(&o);
	says("checkpoint export @ t", directory, STARCTL_FAILED, "the newest checkpoint is damaged or incomplete: ");
	unit_remove(directory);
}

/* With a key in the environment; a node has it as checkpoint.key. */
void checkpoints_are_believed_by_their_hmac(void)
{
	static const struct secure_keys none;
	struct secure_keys *keys = secure_keys_add(&none, "checkpoints", SECURE_NODE, false, NULL);
	char directory[UNIT_FOLDER], other[UNIT_FOLDER], checkpoint[UNIT_FOLDER + 16], file[UNIT_FOLDER + 16],
		words[128], key[UNIT_FOLDER + 16];

	if (!unit_folder(directory, "checkpoints") || !unit_folder(other, "keys"))
		return;
	snprintf(checkpoint, sizeof(checkpoint), "%s/00000001-full", directory);
	snprintf(file, sizeof(file), "%s/lines", other);
	snprintf(key, sizeof(key), "%s/key", other);
	snprintf(words, sizeof(words), "checkpoint import @ %s", file);
	unit_write_text(file, lines);
	CHECK_INT(secure_keys_write(key, keys, true, NULL), 0);
	secure_keys_free(keys);
	says("checkpoint adopt @", directory, STARCTL_FAILED, "name the key's file in STAR_CHECKPOINT_KEY");
	says(words, directory, STARCTL_OK, "checkpoint 1 has 2 rows");
	setenv("STAR_CHECKPOINT_KEY", key, true);
	says("checkpoint list @", directory, STARCTL_OK, "damaged");
	{
		struct outcome o = starctl("/nonexistent", "checkpoint verify @", directory);

		CHECK_INT(o.status, STARCTL_FAILED);
		CHECK_HAS(o.out, "00000001-full/manifest.json: it has no HMAC beside it");
		release(&o);
	}
	says("checkpoint export @ t", directory, STARCTL_FAILED, "it has no HMAC beside it");
	says("checkpoint prune @ keep=1", directory, STARCTL_OK, "0 checkpoints were removed");
	says("checkpoint adopt @/5", directory, STARCTL_FAILED, "");
	says("checkpoint adopt @", directory, STARCTL_OK, "00000001-full has an HMAC now\n");
	says("--json checkpoint adopt @", checkpoint, STARCTL_OK, "\"adopted\": 0");
	says("checkpoint verify @", directory, STARCTL_OK, "00000001-full is in order\n");
	lines_come_back(directory);
	unit_remove(directory);
	/* An import makes one at once. */
	if (!unit_folder(directory, "checkpoints"))
		return;
	says(words, directory, STARCTL_OK, "checkpoint 1 has 2 rows");
	says("checkpoint verify @", directory, STARCTL_OK, "00000001-full is in order\n");
	setenv("STAR_CHECKPOINT_KEY", "/nonexistent", true);
	says("checkpoint list @", directory, STARCTL_FAILED, "/nonexistent");
	says(words, directory, STARCTL_FAILED, "/nonexistent");
	unsetenv("STAR_CHECKPOINT_KEY");
	CHECK_INT(ckpt_use_keys(NULL, NULL), 0);
	unit_remove(directory);
	unit_remove(other);
}
