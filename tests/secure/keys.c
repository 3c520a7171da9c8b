/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32.h"
#include "secure/memory.h"
#include "secure/ring.h"
#include "tests/secure/cases.h"
#include "tests/unit.h"

#define SECRET_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECRET_B "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
/* The check was computed by zlib, elsewhere. */
#define KNOWN "starkey1 trainer-7 worker 0badcafe current " SECRET_A " 4b92f9b7\n"

enum { TEXT_MAX = 8192 };

void roles_have_names(void)
{
	char text[SECURE_ROLES_TEXT];

	for (unsigned role = 0; role < SECURE_ROLES; role++)
		CHECK_INT(secure_role_from(secure_role_name(role)), role);
	CHECK_INT(secure_role_from("root"), SECURE_ROLES);
	CHECK_INT(secure_role_from(""), SECURE_ROLES);
	CHECK_STR(secure_role_name(SECURE_ROLES), "none");
	CHECK_STR(secure_roles_text(SECURE_BIT(SECURE_NODE) | SECURE_BIT(SECURE_ADMIN), text), "node, admin");
	CHECK_STR(secure_roles_text(~0u, text), "node, worker, reader, operator, admin");
	CHECK_STR(secure_roles_text(0, text), "nobody");
}

/* The flags of the mapping that has the address, as smaps shows them. */
static bool has_flag(const void *memory, const char *flag)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	bool inside = false, found = false;
	unsigned long begin, end;
	char line[512], perms[8];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &begin, &end, perms) == 3)
			inside = (uintptr_t)memory >= begin && (uintptr_t)memory < end;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, flag);
	}
	if (maps)
		fclose(maps);
	return found;
}

void memory_for_keys_is_in_no_core(void)
{
	static const uint8_t zeros[100];

	for (size_t bytes = 1; bytes <= 100000; bytes *= 10) {
		char *memory = secure_alloc(bytes);

		CHECK(memory && (uintptr_t)memory % 16 == 0);
		CHECK_MEM(memory, zeros, bytes < sizeof(zeros) ? bytes : sizeof(zeros));
		memset(memory, 0xa5, bytes);
		CHECK(has_flag(memory, " dd"));
		secure_free(memory);
	}
	secure_free(NULL);
	CHECK(secure_alloc(SIZE_MAX) == NULL);
}

/* A line with the check that belongs to it. */
static const char *line_of(const char *words, char line[static 512])
{
	const int bytes = snprintf(line, 512, "%s", words);

	snprintf(line + bytes, 512 - (size_t)bytes, " %08x\n", base_crc32(words, (size_t)bytes));
	return line;
}

static struct secure_keys *parse(const char *text, struct star_error *err)
{
	*err = (struct star_error){ 0 };
	return secure_keys_parse("the file", text, strlen(text), err);
}

/* nodes and a worker that has two keys. */
static struct secure_keys *some_keys(void)
{
	struct secure_keys *none = secure_alloc(sizeof(*none)), *one, *two, *three;

	one = secure_keys_add(none, "nodes", SECURE_NODE, false, NULL);
	two = secure_keys_add(one, "trainer", SECURE_WORKER, false, NULL);
	three = secure_keys_add(two, "trainer", SECURE_ROLES, true, NULL);
	CHECK(three && three->count == 3);
	secure_keys_free(none);
	secure_keys_free(one);
	secure_keys_free(two);
	return three;
}

void a_key_file_reads_as_it_was_written(void)
{
	char folder[UNIT_FOLDER], path[128];
	struct secure_keys *keys = some_keys(), *again;
	struct star_error err = { 0 };
	struct stat file;

	unit_folder(folder, "keys");
	snprintf(path, sizeof(path), "%s/ring", folder);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	CHECK(stat(path, &file) == 0 && (file.st_mode & 07777) == 0400);
	again = secure_keys_load(path, &err);
	if (CHECK(again != NULL)) {
		CHECK_UINT(again->count, keys->count);
		CHECK_MEM(again->list, keys->list, keys->count * sizeof(keys->list[0]));
		CHECK_UINT(secure_keys_principals(again), 2);
	}
	CHECK_UINT(unit_entries(folder), 3);
	secure_keys_free(again);
	secure_keys_free(keys);
	unit_remove(folder);
}

void a_known_file_reads_as_it_did(void)
{
	struct star_error err;
	struct secure_keys *keys = parse("# who trains\n\n" KNOWN, &err);

	if (!CHECK(keys != NULL)) {
		CHECK_STR(err.text, "");
		return;
	}
	CHECK_UINT(keys->count, 1);
	CHECK_STR(keys->list[0].principal, "trainer-7");
	CHECK_INT(keys->list[0].role, SECURE_WORKER);
	CHECK_STR(keys->list[0].id, "0badcafe");
	CHECK(!keys->list[0].next);
	for (unsigned i = 0; i < SECURE_SECRET_BYTES; i++)
		CHECK_UINT(keys->list[0].secret[i], i);
	secure_keys_free(keys);
}

void each_malformed_line_is_named(void)
{
	static const struct {
		const char *words, *says;
	} cases[] = {
		{ "starkey2 a node 00000000 current " SECRET_A, "it is not a key" },
		{ "starkey1 a node 00000000 current", "it is not a key" },
		{ "starkey1 a node 00000000 current " SECRET_A " more", "it is not a key" },
		{ "starkey1  node 00000000 current " SECRET_A, "it is not a key" },
		{ "starkey1 A node 00000000 current " SECRET_A, "a bad name" },
		{ "starkey1 -a node 00000000 current " SECRET_A, "a bad name" },
		{ "starkey1 a/b node 00000000 current " SECRET_A, "a bad name" },
		{ "starkey1 a root 00000000 current " SECRET_A, "the role must be" },
		{ "starkey1 a node 0000000 current " SECRET_A, "8 hexadecimal digits" },
		{ "starkey1 a node 0000000g current " SECRET_A, "8 hexadecimal digits" },
		{ "starkey1 a node 0000000A current " SECRET_A, "8 hexadecimal digits" },
		{ "starkey1 a node 00000000 old " SECRET_A, "must be \"current\" or" },
		{ "starkey1 a node 00000000 current 0011", "64 hexadecimal digits" },
		{ "starkey1 a node 00000000 current "
		  "0000000000000000000000000000000000000000000000000000000000000000",
		  "all zeroes" },
	};
	char line[512], text[1024];
	struct star_error err;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "# one\n%s", line_of(cases[i].words, line));
		CHECK(parse(text, &err) == NULL);
		CHECK_HAS(err.text, "the file:2: ");
		CHECK_HAS(err.text, cases[i].says);
		CHECK(strstr(err.text, SECRET_A) == NULL);
	}
	CHECK(parse("", &err) == NULL);
	CHECK_HAS(err.text, "has no keys");
	CHECK(parse("# nothing\n\n", &err) == NULL);
	CHECK(secure_keys_parse("the file", "starkey1 a\0b", 12, &err) == NULL);
}

void no_changed_byte_is_taken(void)
{
	char text[] = KNOWN;
	struct star_error err;
	unsigned refused = 0;

	for (size_t at = 0; at + 1 < sizeof(text) - 1; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct secure_keys *keys;

			text[at] ^= (char)(1 << bit);
			keys = secure_keys_parse("the file", text, sizeof(text) - 1, &err);
			/* A line that begins with # is left out: then there is no key. */
			if (CHECK(keys == NULL))
				refused++;
			secure_keys_free(keys);
			text[at] ^= (char)(1 << bit);
		}
	CHECK_UINT(refused, (sizeof(text) - 2) * 8);
	for (size_t bytes = 0; bytes + 1 < sizeof(text) - 1; bytes++)
		CHECK(secure_keys_parse("the file", text, bytes, &err) == NULL);
}

void keys_that_cannot_stand_together_are_refused(void)
{
	static const struct {
		const char *first, *second, *says;
	} cases[] = {
		{ "starkey1 a node 00000000 current " SECRET_A, "starkey1 b node 00000000 current " SECRET_A,
		  "the same secret" },
		{ "starkey1 a node 00000000 current " SECRET_A, "starkey1 a node 00000001 current " SECRET_B,
		  "has a current key already" },
		{ "starkey1 a node 00000000 next " SECRET_A, "starkey1 a node 00000001 next " SECRET_B,
		  "has a next key already" },
		{ "starkey1 a node 00000000 current " SECRET_A, "starkey1 a admin 00000001 next " SECRET_B,
		  "two roles" },
		{ "starkey1 a node 00000000 current " SECRET_A, "starkey1 a node 00000000 next " SECRET_B, "one id" },
	};
	char one[512], two[512], text[1024];
	struct star_error err;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", line_of(cases[i].first, one), line_of(cases[i].second, two));
		CHECK(parse(text, &err) == NULL);
		CHECK_HAS(err.text, "the file:2: ");
		CHECK_HAS(err.text, cases[i].says);
	}
}

void a_file_has_bounds(void)
{
	const size_t most = (SECURE_KEYS_MAX + 1) * 256;
	char *text = malloc(most), words[256], line[512];
	struct star_error err = { 0 };
	struct secure_keys *keys;
	size_t used = 0;

	for (unsigned i = 0; i <= SECURE_KEYS_MAX; i++) {
		snprintf(words, sizeof(words), "starkey1 p%u worker 00000000 current %08x%s", i, i + 1, SECRET_A + 8);
		used += (size_t)snprintf(text + used, most - used, "%s", line_of(words, line));
		if (i + 1 == SECURE_KEYS_MAX) {
			keys = secure_keys_parse("the file", text, used, &err);
			CHECK(keys && keys->count == SECURE_KEYS_MAX);
			CHECK(keys && secure_keys_add(keys, "more", SECURE_NODE, false, &err) == NULL);
			CHECK_HAS(err.text, "at most");
			secure_keys_free(keys);
		}
	}
	CHECK(secure_keys_parse("the file", text, used, &err) == NULL);
	CHECK_HAS(err.text, "the file:2049: there are more than 2048 keys");
	free(text);
}

void keys_are_added_promoted_and_taken_out(void)
{
	struct secure_keys *keys = some_keys(), *other;
	struct star_error err = { 0 };
	char old[SECURE_ID_BYTES + 1], next[SECURE_ID_BYTES + 1];

	strcpy(old, keys->list[1].id);
	strcpy(next, keys->list[2].id);
	CHECK(secure_keys_add(keys, "trainer", SECURE_WORKER, false, &err) == NULL);
	CHECK_INT(err.code, -EEXIST);
	CHECK(secure_keys_add(keys, "nodes", SECURE_ADMIN, true, &err) == NULL);
	CHECK_HAS(err.text, "two roles");
	CHECK(secure_keys_add(keys, "someone", SECURE_ROLES, true, &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK(secure_keys_add(keys, "Someone", SECURE_ADMIN, false, &err) == NULL);
	CHECK_HAS(err.text, "is not a valid name of a principal");
	CHECK_STR(secure_keys_of(keys, "trainer")->id, old);
	CHECK(secure_keys_find(keys, "trainer", next) && secure_keys_find(keys, "trainer", next)->next);
	CHECK(secure_keys_find(keys, "nodes", next) == NULL);

	other = secure_keys_promote(keys, "trainer", &err);
	if (CHECK(other && other->count == 2)) {
		CHECK_STR(secure_keys_of(other, "trainer")->id, next);
		CHECK(!secure_keys_of(other, "trainer")->next);
		CHECK(secure_keys_promote(other, "trainer", &err) == NULL);
		CHECK_HAS(err.text, "has no next key");
	}
	secure_keys_free(other);
	other = secure_keys_without(keys, "trainer", old, &err);
	/* Its next key is all there is of it now, and is its key. */
	CHECK(other && other->count == 2 && strcmp(secure_keys_of(other, "trainer")->id, next) == 0);
	secure_keys_free(other);
	other = secure_keys_without(keys, "trainer", NULL, &err);
	CHECK(other && other->count == 1 && secure_keys_of(other, "trainer") == NULL);
	CHECK(other && secure_keys_without(other, "trainer", NULL, &err) == NULL);
	secure_keys_free(other);
	CHECK(secure_keys_without(keys, "trainer", "00000000", &err) == NULL);
	CHECK_HAS(err.text, "has no key 00000000");
	other = secure_keys_select(keys, "trainer", &err);
	CHECK(other && other->count == 2 && !other->list[0].next && other->list[1].next);
	secure_keys_free(other);
	CHECK(secure_keys_select(keys, "trainers", &err) == NULL);
	secure_keys_free(keys);
}

void each_mode_of_a_file(void)
{
	char folder[UNIT_FOLDER], path[128];
	struct secure_keys *keys = some_keys(), *read;
	struct star_error err;

	unit_folder(folder, "modes");
	snprintf(path, sizeof(path), "%s/ring", folder);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	for (mode_t mode = 0; mode <= 07777; mode++) {
		/* Whether this user may read it is not the question; root may. */
		if (!(mode & 0400))
			continue;
		chmod(path, mode);
		err = (struct star_error){ 0 };
		read = secure_keys_load(path, &err);
		if ((read != NULL) != (mode == 0400 || mode == 0600))
			unit_fail(__FILE__, __LINE__, "mode %04o: %s", mode, read ? "it was read" : err.text);
		if (!read && err.code != -EPERM && err.code != -EACCES)
			unit_fail(__FILE__, __LINE__, "mode %04o: %s", mode, err.text);
		secure_keys_free(read);
	}
	CHECK_HAS(err.text, "chmod 0400");
	if (geteuid() == 0) {
		CHECK(chown(path, 1234, 0) == 0 && chmod(path, 0400) == 0);
		CHECK(secure_keys_load(path, &err) == NULL);
		CHECK_HAS(err.text, "belongs to user 1234");
	}
	secure_keys_free(keys);
	unit_remove(folder);
}

void what_is_no_file_is_refused(void)
{
	char folder[UNIT_FOLDER], path[128];
	struct star_error err;
	int fd;

	unit_folder(folder, "files");
	CHECK(secure_keys_load(folder, &err) == NULL);
	CHECK_HAS(err.text, "is not a regular file");
	snprintf(path, sizeof(path), "%s/fifo", folder);
	CHECK_INT(mkfifo(path, 0400), 0);
	CHECK(secure_keys_load(path, &err) == NULL);
	CHECK_HAS(err.text, "is not a regular file");
	snprintf(path, sizeof(path), "%s/none", folder);
	CHECK(secure_keys_load(path, &err) == NULL);
	CHECK_INT(err.code, -ENOENT);
	CHECK(secure_keys_load(path, NULL) == NULL);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0400);
	CHECK(fd >= 0 && ftruncate(fd, SECURE_FILE_MAX + 1) == 0);
	close(fd);
	CHECK(secure_keys_load(path, &err) == NULL);
	CHECK_INT(err.code, -E2BIG);
	unit_remove(folder);
}

void credentials_of_systemd_are_found(void)
{
	char folder[UNIT_FOLDER], path[128];
	struct secure_keys *keys = some_keys(), *read;
	struct star_error err = { 0 };

	unit_folder(folder, "credentials");
	snprintf(path, sizeof(path), "%s/control.keys", folder);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	unsetenv("CREDENTIALS_DIRECTORY");
	CHECK(secure_keys_load("credential:control.keys", &err) == NULL);
	CHECK_HAS(err.text, "LoadCredential=control.keys:");
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	/* systemd gives it to the service's user by an access control list, whose mask stands where the group's bits
	 * do. */
	chmod(path, 0440);
	read = secure_keys_load("credential:control.keys", &err);
	CHECK(read && read->count == 3);
	secure_keys_free(read);
	CHECK(secure_keys_load(path, &err) == NULL);
	chmod(path, 0444);
	CHECK(secure_keys_load("credential:control.keys", &err) == NULL);
	CHECK(secure_keys_load("credential:../ring", &err) == NULL);
	CHECK_HAS(err.text, "cannot have a slash");
	CHECK(secure_keys_load("credential:", &err) == NULL);
	unsetenv("CREDENTIALS_DIRECTORY");
	secure_keys_free(keys);
	unit_remove(folder);
}

void a_fresh_file_takes_no_place(void)
{
	char folder[UNIT_FOLDER], path[128], before[TEXT_MAX], after[TEXT_MAX];
	struct secure_keys *keys = some_keys(), *one = secure_keys_select(keys, "nodes", NULL);
	struct star_error err;

	unit_folder(folder, "fresh");
	snprintf(path, sizeof(path), "%s/ring", folder);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	unit_read(path, before, sizeof(before));
	CHECK_INT(secure_keys_write(path, one, true, &err), -EEXIST);
	unit_read(path, after, sizeof(after));
	CHECK_STR(after, before);
	CHECK_INT(secure_keys_write(path, one, false, &err), 0);
	CHECK(unit_read(path, after, sizeof(after)) < strlen(before));
	CHECK_UINT(unit_entries(folder), 3);
	CHECK(secure_keys_write("/nonexistent/ring", one, false, &err) < 0);
	secure_keys_free(one);
	secure_keys_free(keys);
	unit_remove(folder);
}

void a_ring_knows_its_own_principal(void)
{
	char folder[UNIT_FOLDER], path[128], bad[128];
	struct secure_keys *keys = some_keys(), *more = secure_keys_add(keys, "ps-1", SECURE_NODE, false, NULL), *own;
	struct secure_keys *workers = secure_keys_without(keys, "nodes", NULL, NULL);
	struct secure_ring *ring;
	struct star_error err = { 0 };

	unit_folder(folder, "ring");
	snprintf(path, sizeof(path), "%s/ring", folder);
	snprintf(bad, sizeof(bad), "%s/workers", folder);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	CHECK_INT(secure_keys_write(bad, workers, true, &err), 0);
	ring = secure_ring_create(path, "", &err);
	own = ring ? secure_ring_own(ring, &err) : NULL;
	CHECK(own && own->count == 1 && strcmp(own->list[0].principal, "nodes") == 0);
	secure_keys_free(own);
	secure_ring_destroy(ring);
	CHECK(secure_ring_create(bad, "", &err) == NULL);
	CHECK_HAS(err.text, "has no principal of role node");
	CHECK_HAS(err.text, " nodes node` makes one"); /* as starctl takes it */
	CHECK(secure_ring_create(path, "trainer", &err) == NULL);
	CHECK_HAS(err.text, "security.control_principal");
	CHECK_INT(secure_keys_write(path, more, false, &err), 0);
	CHECK(secure_ring_create(path, "", &err) == NULL);
	CHECK_HAS(err.text, "has 2 principals of role node");
	ring = secure_ring_create(path, "ps-1", &err);
	own = ring ? secure_ring_own(ring, &err) : NULL;
	CHECK(own && strcmp(own->list[0].principal, "ps-1") == 0);
	secure_keys_free(own);
	secure_ring_destroy(ring);
	secure_keys_free(more);
	secure_keys_free(workers);
	secure_keys_free(keys);
	unit_remove(folder);
}

void a_reload_that_fails_changes_nothing(void)
{
	char folder[UNIT_FOLDER], path[128], id[SECURE_ID_BYTES + 1];
	struct secure_keys *keys = some_keys(), *workers = secure_keys_without(keys, "nodes", NULL, NULL);
	struct secure_keys *nodes = secure_keys_without(keys, "trainer", NULL, NULL);
	struct star_error err = { 0 };
	struct secure_ring *ring;

	unit_folder(folder, "reload");
	snprintf(path, sizeof(path), "%s/ring", folder);
	strcpy(id, keys->list[1].id);
	CHECK_INT(secure_keys_write(path, keys, true, &err), 0);
	ring = secure_ring_create(path, "", &err);
	CHECK(ring && secure_ring_has(ring, "trainer", id, SECURE_WORKER));
	CHECK(!secure_ring_has(ring, "trainer", id, SECURE_ADMIN));
	CHECK_INT(secure_keys_write(path, workers, false, &err), 0);
	CHECK_INT(secure_ring_reload(ring, &err), -EINVAL);
	CHECK_INT(secure_ring_reload(ring, NULL), -EINVAL);
	unlink(path);
	CHECK_INT(secure_ring_reload(ring, &err), -ENOENT);
	CHECK(secure_ring_has(ring, "trainer", id, SECURE_WORKER));
	CHECK_UINT(secure_ring_principals(ring), 2);
	CHECK_INT(secure_keys_write(path, nodes, true, &err), 0);
	CHECK_INT(secure_ring_reload(ring, &err), 0);
	CHECK(!secure_ring_has(ring, "trainer", id, SECURE_WORKER));
	CHECK_INT(secure_ring_role(ring, "trainer"), SECURE_ROLES);
	CHECK_INT(secure_ring_role(ring, "nodes"), SECURE_NODE);
	secure_ring_destroy(ring);
	secure_ring_destroy(NULL);
	secure_keys_free(nodes);
	secure_keys_free(workers);
	secure_keys_free(keys);
	unit_remove(folder);
}
