/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose manifests are believed. Beside a manifest lies its HMAC-SHA256 in a file of one line,
 *
 *   starhmac1 ID 64 hexadecimal digits
 *
 * ID being that of the key. The manifest itself stays as it is: a delta names its parent by the sum of its text, and
 * one that is adopted later keeps its name.
 */
#include "ckpt/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/internal.h"
#include "secure/hash.h"
#include "secure/keys.h"
#include "secure/memory.h"

#define WORD "starhmac1 "
enum { LINE_BYTES = sizeof(WORD) - 1 + SECURE_ID_BYTES + 1 + 2 * SECURE_HASH_BYTES + 1 };

/* of the process: constant after ckpt_use_keys */
static struct secure_keys *keys;

int ckpt_use_keys(const char *path, struct star_error *err)
{
	struct secure_keys *loaded = path ? secure_keys_load(path, err) : NULL;

	if (path && !loaded)
		return err && err->code ? err->code : -EINVAL;
	if (loaded && secure_keys_principals(loaded) != 1) {
		star_error_set(err, -EINVAL,
			       "%.200s has %u principals: keep the key of checkpoints in a file of its own (`starctl "
			       "key create FILE checkpoints node`), because whoever has it can forge checkpoints",
			       path, secure_keys_principals(loaded));
		secure_keys_free(loaded);
		return -EINVAL;
	}
	secure_keys_free(keys);
	keys = loaded;
	return 0;
}

bool ckpt_has_keys(void)
{
	return keys != NULL;
}

/* The line for a manifest under a key. */
static void make_line(const struct secure_key *key, const char *text, size_t bytes, char line[static LINE_BYTES + 1])
{
	uint8_t secret[SECURE_HASH_BYTES], hash[SECURE_HASH_BYTES];
	int used = sprintf(line, WORD "%s ", key->id);

	secure_expand(key->secret, "starserver checkpoint manifest", NULL, 0, secret, sizeof(secret));
	secure_hmac(secret, sizeof(secret), text, bytes, hash);
	for (unsigned i = 0; i < sizeof(hash); i++)
		used += sprintf(line + used, "%02x", hash[i]);
	line[used++] = '\n';
	line[used] = 0;
	explicit_bzero(secret, sizeof(secret));
}

int ckpt_seal_write(int folder, const char *path, const char *text, size_t bytes, struct star_error *err)
{
	char line[LINE_BYTES + 1];

	if (!keys)
		return 0;
	make_line(secure_keys_of(keys, keys->list[0].principal), text, bytes, line);
	return ckpt_write_file(folder, path, CKPT_SEAL_NAME, line, LINE_BYTES, err);
}

/* Reads the file; returns its bytes, 0 if it cannot be a valid line, or a negative errno. */
static int read_seal(int folder, char line[static LINE_BYTES + 1])
{
	const int fd = base_open_file(folder, CKPT_SEAL_NAME, O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return fd == -ELOOP || fd == -EISDIR || fd == -EMEDIUMTYPE ? 0 : fd;
	n = base_read_all(fd, line, LINE_BYTES + 1); /* one more, to detect a longer file */
	close(fd);
	return (int)n;
}

/* Whether it is the line of one of the keys; else the reason. */
static int check_line(const char *path, const char *line, const char *text, size_t bytes, struct star_error *err)
{
	char id[SECURE_ID_BYTES + 1] = "", right[LINE_BYTES + 1];
	const struct secure_key *key;

	memcpy(id, line + sizeof(WORD) - 1, SECURE_ID_BYTES);
	key = secure_keys_find(keys, keys->list[0].principal, id);
	if (memcmp(line, WORD, sizeof(WORD) - 1) != 0 || strspn(id, "0123456789abcdef") != SECURE_ID_BYTES)
		return ckpt_damaged(err, path, CKPT_SEAL_NAME,
				    "it is not an HMAC: restore it from a copy, or, if you trust the checkpoint, "
				    "remove it and run `starctl checkpoint adopt`");
	if (!key)
		return ckpt_damaged(err, path, CKPT_SEAL_NAME,
				    "the manifest's HMAC is by the key %s, which is not in the file of checkpoint.key: "
				    "it is another cluster's, or the key was changed since. If you trust it, remove "
				    "this file and run `starctl checkpoint adopt`",
				    id);
	make_line(key, text, bytes, right);
	if (!secure_same(line, right, LINE_BYTES))
		return ckpt_damaged(err, path, CKPT_SEAL_NAME,
				    "the manifest is not the one that was written under the key %s: it was changed, or "
				    "is another one's. Do not use it",
				    id);
	return 0;
}

int ckpt_seal_check(int folder, const char *path, const char *text, size_t bytes, struct star_error *err)
{
	char line[LINE_BYTES + 1] = "";
	int n;

	if (!keys)
		return 0;
	n = read_seal(folder, line);
	if (n == -ENOENT)
		return ckpt_damaged(
			err, path, CKPT_MANIFEST_NAME,
			"it has no HMAC beside it, and there is a key (checkpoint.key): it was written without, "
			"or somebody has taken " CKPT_SEAL_NAME " away. If you trust it, `starctl checkpoint "
			"adopt` makes one");
	if (n < 0)
		return ckpt_io_error(err, n, "read", path, CKPT_SEAL_NAME);
	if (n != LINE_BYTES)
		memset(line, ' ', LINE_BYTES);
	return check_line(path, line, text, bytes, err);
}

int ckpt_adopt(const char *path, struct star_error *err)
{
	struct ckpt_manifest manifest;
	char line[LINE_BYTES + 1];
	char *text;
	size_t bytes;
	int folder, rc;

	if (!keys)
		return star_error_set(err, -EINVAL, "there is no key for an HMAC");
	folder = ckpt_open_folder(path, err);
	if (folder < 0)
		return folder;
	text = ckpt_manifest_load(folder, path, &bytes, err);
	rc = text ? ckpt_manifest_parse(path, text, bytes, &manifest, err) : err ? err->code : -EIO;
	if (rc == 0) {
		rc = ckpt_check_files(folder, path, &manifest, err);
		ckpt_manifest_free(&manifest);
	}
	if (text && rc == 0) {
		/* A line that was written with another key must not be replaced as a side effect. */
		rc = read_seal(folder, line) == -ENOENT ? 1 : ckpt_seal_check(folder, path, text, bytes, err);
	}
	if (rc == 1) {
		rc = ckpt_seal_write(folder, path, text, bytes, err);
		rc = rc == 0 ? 1 : rc;
	}
	free(text);
	close(folder);
	return rc;
}
