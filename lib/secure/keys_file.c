/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "secure/keys_text.h"
#include "secure/memory.h"

#define CREDENTIAL "credential:"

/* Converts "credential:NAME" to a path. */
static int find_path(const char *name, char path[static PATH_MAX], bool *credential, struct star_error *err)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY"), *what = name + strlen(CREDENTIAL);

	*credential = strncmp(name, CREDENTIAL, strlen(CREDENTIAL)) == 0;
	if (!*credential)
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX
			       ? 0
			       : star_error_set(err, -ENAMETOOLONG, "the path of the key file is too long");
	if (!folder)
		return star_error_set(err, -ENOENT,
				      "%.100s: systemd has given this process no credentials; the unit needs "
				      "LoadCredential=%.100s:/a/path",
				      name, what);
	if (!*what || strchr(what, '/') || snprintf(path, PATH_MAX, "%s/%s", folder, what) >= PATH_MAX)
		return star_error_set(err, -EINVAL, "%.100s: a credential's name cannot have a slash", name);
	return 0;
}

static int check_file(const struct stat *file, const char *path, bool credential, struct star_error *err)
{
	const mode_t mode = file->st_mode & 07777, allowed = credential ? 0640 : 0600;

	if (!S_ISREG(file->st_mode))
		return star_error_set(err, -EINVAL, "%.200s is not a regular file", path);
	if (file->st_uid != geteuid() && file->st_uid != 0)
		return star_error_set(
			err, -EPERM,
			"the key file %.200s belongs to user %u: whoever owns it can change it. `chown %u %.200s` "
			"as root corrects that",
			path, file->st_uid, geteuid(), path);
	if (mode & ~allowed)
		return star_error_set(
			err, -EPERM,
			"others may use the key file %.200s, whose mode is %04o: `chmod 0400 %.200s`, and give "
			"its principals new keys if somebody may have read it",
			path, mode, path);
	if (file->st_size > SECURE_FILE_MAX)
		return star_error_set(err, -E2BIG, "the key file %.200s has more than %d bytes", path, SECURE_FILE_MAX);
	return 0;
}

static int cannot(int code, const char *what, const char *path, struct star_error *err)
{
	return star_error_set(err, code, "cannot %s the key file %.200s: %s", what, path, strerrordesc_np(-code));
}

static struct secure_keys *read_file(int fd, const char *path, bool credential, struct star_error *err)
{
	struct secure_keys *keys = NULL;
	struct stat file;
	ssize_t bytes;
	char *text;

	if (fstat(fd, &file) < 0) {
		cannot(-errno, "look at", path, err);
		return NULL;
	}
	if (check_file(&file, path, credential, err) < 0)
		return NULL;
	text = secure_alloc((size_t)file.st_size + 1);
	if (!text) {
		star_error_set(err, -ENOMEM, "out of memory for keys");
		return NULL;
	}
	/* A file that grows meanwhile ends in the middle of a line, and is refused. */
	bytes = base_read_all(fd, text, (size_t)file.st_size);
	if (bytes < 0)
		cannot((int)bytes, "read", path, err);
	else
		keys = secure_keys_parse(path, text, (size_t)bytes, err);
	secure_free(text);
	return keys;
}

struct secure_keys *secure_keys_load(const char *name, struct star_error *err)
{
	struct star_error local;
	struct secure_keys *keys;
	char path[PATH_MAX];
	bool credential;
	int fd;

	if (!err)
		err = &local;
	if (find_path(name, path, &credential, err) < 0)
		return NULL;
	/* Non-blocking, because it may be a pipe. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		cannot(-errno, "open", path, err);
		return NULL;
	}
	keys = read_file(fd, path, credential, err);
	close(fd);
	return keys;
}

static int write_lines(int fd, const struct secure_keys *keys)
{
	char *text = secure_alloc(keys->count * (size_t)KEYS_LINE_MAX + 1);
	size_t used = 0;
	int rc;

	if (!text)
		return -ENOMEM;
	for (unsigned i = 0; i < keys->count; i++)
		used += secure_keys_write_line(&keys->list[i], text + used);
	rc = base_write_all(fd, text, used);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	secure_free(text);
	return rc;
}

/* Makes the file's name durable too. */
static void sync_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

int secure_keys_write(const char *path, const struct secure_keys *keys, bool fresh, struct star_error *err)
{
	char fresh_path[PATH_MAX];
	int fd, rc;

	if (snprintf(fresh_path, sizeof(fresh_path), "%s.XXXXXX", path) >= (int)sizeof(fresh_path))
		return star_error_set(err, -ENAMETOOLONG, "the path of the key file is too long");
	fd = mkostemp(fresh_path, O_CLOEXEC);
	if (fd < 0)
		return cannot(-errno, "write", path, err);
	rc = write_lines(fd, keys);
	if (rc == 0 && fchmod(fd, 0400) < 0)
		rc = -errno;
	close(fd);
	/* link does not replace an existing file; rename does, atomically. */
	if (rc == 0 && (fresh ? link(fresh_path, path) : rename(fresh_path, path)) < 0)
		rc = -errno;
	if (rc < 0 || fresh)
		unlink(fresh_path);
	if (rc == 0)
		sync_folder(path);
	return rc < 0 ? cannot(rc, "write", path, err) : 0;
}
