/* SPDX-License-Identifier: BSD-3-Clause */
/* Manifests with an HMAC: what is believed with a key, and what is not. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/seal.h"
#include "secure/keys.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

static const struct save full = { .id = 1, .files = 1, .rows = 3, .run_rows = 2 };
static const struct save delta = { .id = 2, .parent = 1, .files = 1, .rows = 2, .run_rows = 2 };

/* A new key file of one principal. */
static void make_key(const char *directory, const char *name)
{
	static const struct secure_keys none;
	struct secure_keys *keys = secure_keys_add(&none, "checkpoints", SECURE_NODE, false, NULL);

	CHECK(keys && secure_keys_write(in(directory, name).text, keys, true, NULL) == 0);
	secure_keys_free(keys);
}

static void use(const char *directory, const char *name)
{
	struct star_error err = { 0 };

	if (!CHECK_INT(ckpt_use_keys(name ? in(directory, name).text : NULL, &err), 0))
		printf("# %s\n", err.text);
}

/* Each way to one is refused with the same sentence, and nothing counts it. */
static void is_refused(const char *directory, const struct save *save, const char *why)
{
	const struct path path = checkpoint_path(directory, save);
	struct star_error err = { 0 };
	struct ckpt_entry *entries;
	struct ckpt_manifest manifest;
	char text[512], **chain;
	uint32_t count;

	CHECK_INT(ckpt_manifest_read(path.text, &manifest, &err), -EBADMSG);
	CHECK_HAS(err.text, why);
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), -EBADMSG);
	CHECK_HAS(err.text, why);
	CHECK(ckpt_chain(directory, save->id, &chain, &count, &err) < 0);
	list_text(directory, text);
	CHECK_HAS(text, "!");
	CHECK_INT(ckpt_list(directory, &entries, &count, &err), 0);
	free(entries);
}

/* The directory is one of its own, beside which the keys lie. */
static void begin(char directory[static DIRECTORY_MAX], char keys[static DIRECTORY_MAX])
{
	make_memory_directory(directory);
	make_memory_directory(keys);
	make_key(keys, "ours");
	make_key(keys, "theirs");
}

static void end(const char *directory, const char *keys)
{
	use(NULL, NULL);
	unit_remove(directory);
	unit_remove(keys);
}

void manifests_have_an_hmac_under_a_key(void)
{
	char directory[DIRECTORY_MAX], keys[DIRECTORY_MAX];
	struct star_error err = { 0 };
	struct stat status;
	const mode_t mask = umask(0);

	begin(directory, keys);
	use(keys, "ours");
	CHECK_INT(save_checkpoint(directory, &full, &err), 0);
	if (!CHECK_INT(save_checkpoint(directory, &delta, &err), 0))
		printf("# %s\n", err.text);
	CHECK(check_saved(checkpoint_path(directory, &full).text, &full));
	CHECK(check_saved(checkpoint_path(directory, &delta).text, &delta));
	CHECK_INT(stat(in(checkpoint_path(directory, &full).text, CKPT_SEAL_NAME).text, &status), 0);
	CHECK_INT(status.st_mode & 07777, 0640);
	/* Without a key nobody asks; with another one it is somebody else's. */
	use(NULL, NULL);
	CHECK(check_saved(checkpoint_path(directory, &delta).text, &delta));
	use(keys, "theirs");
	is_refused(directory, &full, "another cluster's, or the key was changed since");
	is_refused(directory, &delta, "and run `starctl checkpoint adopt`");
	CHECK_INT(ckpt_adopt(checkpoint_path(directory, &full).text, &err), -EBADMSG);
	end(directory, keys);
	umask(mask);
}

/* Any byte of the manifest, its CRC made right again, and any of the HMAC. */
void no_touched_manifest_is_believed(void)
{
	char directory[DIRECTORY_MAX], keys[DIRECTORY_MAX];
	struct path path, manifest, hmac;
	struct star_error err = { 0 };
	size_t bytes, changed_bytes;
	uint8_t *data;
	char *changed;

	begin(directory, keys);
	use(keys, "ours");
	CHECK_INT(save_checkpoint(directory, &full, &err), 0);
	path = checkpoint_path(directory, &full);
	manifest = in(path.text, CKPT_MANIFEST_NAME);
	hmac = in(path.text, CKPT_SEAL_NAME);
	data = read_file(manifest.text, &bytes);
	data = realloc(data, bytes + 1);
	data[bytes] = 0;
	changed = changed_manifest((const char *)data, "\"reactors\": 1", "\"reactors\": 2", &changed_bytes);
	if (!CHECK(changed)) {
		end(directory, keys);
		return;
	}
	write_file(manifest.text, changed, changed_bytes);
	is_refused(directory, &full, "the manifest is not the one that was written under the key");
	use(NULL, NULL); /* it is the HMAC that has found it */
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), 0);
	use(keys, "ours");
	for (size_t at = 0; at < bytes; at += 7) {
		data[at] ^= 1;
		write_file(manifest.text, data, bytes);
		data[at] ^= 1;
		if (!CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), -EBADMSG))
			printf("# byte %zu\n", at);
	}
	write_file(manifest.text, data, bytes);
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), 0);
	free(changed);
	free(data);
	data = read_file(hmac.text, &bytes);
	for (size_t at = 0; at < bytes; at++) {
		data[at] ^= 1;
		write_file(hmac.text, data, bytes);
		data[at] ^= 1;
		if (!CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), -EBADMSG))
			printf("# byte %zu of the HMAC\n", at);
		write_file(hmac.text, data, at);
		CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), -EBADMSG);
	}
	/* Another checkpoint's, of the same key. */
	write_file(hmac.text, data, bytes);
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), 0);
	CHECK_INT(save_checkpoint(directory, &delta, &err), 0);
	write_file(in(checkpoint_path(directory, &delta).text, CKPT_SEAL_NAME).text, data, bytes);
	is_refused(directory, &delta, "it was changed, or is another one's");
	free(data);
	/* A link, and a folder, in its place. */
	CHECK_INT(unlink(hmac.text), 0);
	CHECK_INT(symlink(in(keys, "ours").text, hmac.text), 0);
	CHECK(ckpt_verify(path.text, NULL, NULL, &err) < 0);
	CHECK_INT(unlink(hmac.text), 0);
	CHECK_INT(mkdir(hmac.text, 0700), 0);
	CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), -EBADMSG);
	CHECK_INT(rmdir(hmac.text), 0);
	end(directory, keys);
}

/* What was written before there was a key counts when somebody says so, and keeps its name for the deltas behind it. */
void older_checkpoints_are_adopted(void)
{
	char directory[DIRECTORY_MAX], keys[DIRECTORY_MAX], text[512];
	const struct save next = { .id = 3, .parent = 2, .files = 1, .rows = 1, .run_rows = 1 };
	const struct ckpt_pruning pruning = { .keep = 1 };
	struct star_error err = { 0 };

	begin(directory, keys);
	CHECK_INT(save_checkpoint(directory, &full, &err), 0);
	CHECK_INT(save_checkpoint(directory, &delta, &err), 0);
	CHECK_INT(ckpt_adopt(checkpoint_path(directory, &full).text, &err), -EINVAL);
	use(keys, "ours");
	is_refused(directory, &full, "If you trust it, `starctl checkpoint adopt` makes one");
	/* No delta goes on from what is not believed, and a prune neither counts nor removes it. */
	CHECK_INT(save_checkpoint(directory, &next, &err), -EAGAIN);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 0);
	for (int again = 0; again < 2; again++) {
		CHECK_INT(ckpt_adopt(checkpoint_path(directory, &full).text, &err), !again);
		CHECK_INT(ckpt_adopt(checkpoint_path(directory, &delta).text, &err), !again);
	}
	CHECK(check_saved(checkpoint_path(directory, &delta).text, &delta));
	if (!CHECK_INT(save_checkpoint(directory, &next, &err), 0))
		printf("# %s\n", err.text);
	CHECK_STR(list_text(directory, text), "1-full 2-delta 3-delta");
	/* What is damaged is not adopted. */
	use(NULL, NULL);
	CHECK_INT(unlink(in(checkpoint_path(directory, &full).text, CKPT_SEAL_NAME).text), 0);
	CHECK_INT(truncate(in(checkpoint_path(directory, &full).text, "node0-reactor0.star").text, 4096), 0);
	use(keys, "ours");
	CHECK_INT(ckpt_adopt(checkpoint_path(directory, &full).text, &err), -EBADMSG);
	CHECK_HAS(err.text, "4096 bytes");
	end(directory, keys);
}

/* The next key is believed before it is used, and the one that it takes the place of is not any more. */
void keys_of_checkpoints_are_changed(void)
{
	char directory[DIRECTORY_MAX], keys[DIRECTORY_MAX];
	struct secure_keys *old, *both, *only;
	struct star_error err = { 0 };

	begin(directory, keys);
	old = secure_keys_load(in(keys, "ours").text, &err);
	both = secure_keys_add(old, "checkpoints", SECURE_ROLES, true, &err);
	only = secure_keys_promote(both, "checkpoints", &err);
	CHECK_INT(secure_keys_write(in(keys, "both").text, both, true, &err), 0);
	CHECK_INT(secure_keys_write(in(keys, "only").text, only, true, &err), 0);
	use(keys, "both");
	CHECK_INT(save_checkpoint(directory, &full, &err), 0);
	use(keys, "ours"); /* by the current one */
	CHECK(check_saved(checkpoint_path(directory, &full).text, &full));
	use(keys, "only");
	is_refused(directory, &full, "the key was changed since");
	CHECK_INT(unlink(in(checkpoint_path(directory, &full).text, CKPT_SEAL_NAME).text), 0);
	CHECK_INT(ckpt_adopt(checkpoint_path(directory, &full).text, &err), 1);
	use(keys, "both");
	CHECK(check_saved(checkpoint_path(directory, &full).text, &full));
	/* A file of several principals is that of the nodes. */
	secure_keys_free(only);
	only = secure_keys_add(both, "job1", SECURE_WORKER, false, &err);
	CHECK_INT(secure_keys_write(in(keys, "nodes").text, only, true, &err), 0);
	CHECK_INT(ckpt_use_keys(in(keys, "nodes").text, &err), -EINVAL);
	CHECK_HAS(err.text, "keep the key of checkpoints in a file of its own");
	CHECK(ckpt_use_keys(in(keys, "none").text, &err) < 0);
	CHECK(ckpt_has_keys());
	secure_keys_free(only);
	secure_keys_free(both);
	secure_keys_free(old);
	end(directory, keys);
}
