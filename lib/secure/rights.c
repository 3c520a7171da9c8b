/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "secure/keys.h"

enum { LINES_MAX = 8192, FILE_MAX = 1 << 20, PREFIX_MAX = 127 };

struct line {
	char principal[SECURE_NAME_MAX + 1]; /* "*": everybody */
	char prefix[PREFIX_MAX + 1];
	uint8_t rights;		     /* 0: the line has quotas */
	struct secure_quotas quotas; /* in that case */
};

struct secure_rights {
	unsigned count;
	struct line lines[];
};

static const struct {
	const char *name;
	uint8_t rights;
} verbs[] = { { "pull", SECURE_PULL },	   { "create", SECURE_CREATE }, { "push", SECURE_PUSH },
	      { "assign", SECURE_ASSIGN }, { "delete", SECURE_DELETE }, { "commit", SECURE_COMMIT },
	      { "all", SECURE_RIGHTS } };

uint8_t secure_right_from(const char *name)
{
	for (unsigned i = 0; i + 1 < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(name, verbs[i].name) == 0)
			return verbs[i].rights;
	return 0;
}

const char *secure_right_name(uint8_t set)
{
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (set & verbs[i].rights)
			return verbs[i].name;
	return "nothing";
}

/* Finds the next word of a line; returns its length, 0 at the end. */
static size_t next_word(const char **at, const char *end)
{
	size_t n = 0;

	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	while (*at + n < end && (*at)[n] != ' ' && (*at)[n] != '\t')
		n++;
	return n;
}

static uint8_t read_verbs(const char *at, size_t n)
{
	uint8_t rights = 0;

	while (n) {
		const char *comma = memchr(at, ',', n);
		const size_t word = comma ? (size_t)(comma - at) : n;
		uint8_t verb = 0;

		for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
			if (strlen(verbs[i].name) == word && memcmp(verbs[i].name, at, word) == 0)
				verb = verbs[i].rights;
		if (!verb || (comma && word + 1 == n))
			return 0;
		rights |= verb;
		at += word + (comma != NULL);
		n -= word + (comma != NULL);
	}
	return rights;
}

/* Parses what follows "limit" and the principal. */
static const char *read_quotas(const char *at, const char *end, struct line *line)
{
	const char *wrong = NULL;
	size_t n = next_word(&at, end);

	if (n == 0)
		return "the principal is followed by quotas, as in \"requests=10000 new_rows=500\"";
	for (; n && !wrong; n = next_word(&at, end)) {
		wrong = secure_quota_read(&line->quotas, at, n);
		at += n;
	}
	return wrong;
}

/* NULL, or why a line is invalid. */
static const char *read_right(const char *at, const char *end, struct line *line)
{
	size_t n = next_word(&at, end);
	const bool limits = n == 5 && memcmp(at, "limit", 5) == 0;

	if (!limits && (n != 5 || memcmp(at, "allow", 5) != 0))
		return "it does not begin with \"allow\" or \"limit\"";
	at += n;
	n = next_word(&at, end);
	if (n == 0 || n > SECURE_NAME_MAX)
		return limits ? "\"limit\" is followed by a principal, or * for all that have none of their own"
			      : "\"allow\" is followed by a principal, or * for everybody";
	memcpy(line->principal, at, n);
	at += n;
	if (limits)
		return read_quotas(at, end, line);
	n = next_word(&at, end);
	line->rights = read_verbs(at, n);
	if (!line->rights)
		return "the verbs are pull, create, push, assign, delete, commit or all, with commas between them";
	at += n;
	n = next_word(&at, end);
	if (n == 0 || n > PREFIX_MAX)
		return "the verbs are followed by a prefix of table names, or * for all";
	if (n != 1 || *at != '*')
		memcpy(line->prefix, at, n);
	at += n;
	return next_word(&at, end) ? "there is text after the prefix of table names" : NULL;
}

struct secure_rights *secure_rights_parse(const char *path, const char *text, size_t bytes, struct star_error *err)
{
	const char *end = text + bytes;
	struct secure_rights *rights = calloc(1, sizeof(*rights) + LINES_MAX * sizeof(rights->lines[0]));
	unsigned number = 0;

	if (!rights) {
		star_error_set(err, -ENOMEM, "out of memory for %.200s", path);
		return NULL;
	}
	for (const char *at = text, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at)), *word = at;
		const char *wrong = NULL;

		stop = stop ? stop : end;
		next = stop < end ? stop + 1 : end;
		number++;
		if (next_word(&word, stop) == 0 || *word == '#')
			continue;
		if (memchr(at, 0, (size_t)(stop - at)))
			wrong = "it has a zero byte";
		else if (rights->count == LINES_MAX)
			wrong = "there are too many lines";
		else
			wrong = read_right(at, stop, &rights->lines[rights->count++]);
		if (wrong) {
			star_error_set(err, -EINVAL, "%.200s, line %u: %s", path, number, wrong);
			free(rights);
			return NULL;
		}
	}
	return rights;
}

static struct secure_rights *read_rights(int fd, const char *path, struct star_error *err)
{
	struct secure_rights *rights = NULL;
	struct stat file;
	ssize_t bytes;
	char *text;

	if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) || file.st_size > FILE_MAX) {
		star_error_set(err, -EINVAL, "%.200s is not a file of up to %d bytes", path, FILE_MAX);
		return NULL;
	}
	if ((file.st_uid != geteuid() && file.st_uid != 0) || file.st_mode & 022) {
		star_error_set(err, -EPERM,
			       "users other than its reader and root can change %.200s: `chown root %.200s; chmod 0644 "
			       "%.200s` mends that",
			       path, path, path);
		return NULL;
	}
	text = malloc((size_t)file.st_size + 1);
	bytes = text ? base_read_all(fd, text, (size_t)file.st_size) : -ENOMEM;
	if (bytes < 0)
		star_error_set(err, (int)bytes, "cannot read %.200s: %s", path, strerrordesc_np(-(int)bytes));
	else
		rights = secure_rights_parse(path, text, (size_t)bytes, err);
	free(text);
	return rights;
}

struct secure_rights *secure_rights_load(const char *path, struct star_error *err)
{
	/* Non-blocking, because it may be a pipe. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct secure_rights *rights;

	if (fd < 0) {
		star_error_set(err, -errno, "cannot open %.200s: %s", path, strerrordesc_np(errno));
		return NULL;
	}
	rights = read_rights(fd, path, err);
	close(fd);
	return rights;
}

void secure_rights_free(struct secure_rights *rights)
{
	free(rights);
}

/* The most that a role can allow. */
static uint8_t most(enum secure_role role)
{
	return role == SECURE_WORKER || role == SECURE_ADMIN ? SECURE_RIGHTS : role == SECURE_READER ? SECURE_PULL : 0;
}

static bool is_for(const struct line *line, const char *principal)
{
	return strcmp(line->principal, "*") == 0 || strcmp(line->principal, principal) == 0;
}

uint8_t secure_rights_of(const struct secure_rights *rights, const char *principal, enum secure_role role,
			 const char *table)
{
	uint8_t all = 0;

	if (!rights)
		return role == SECURE_READER ? 0 : most(role);
	if (role == SECURE_ADMIN)
		return SECURE_RIGHTS;
	for (unsigned i = 0; i < rights->count; i++) {
		const struct line *line = &rights->lines[i];

		if (is_for(line, principal) && strncmp(table, line->prefix, strlen(line->prefix)) == 0)
			all |= line->rights;
	}
	return all & most(role);
}

bool secure_rights_any(const struct secure_rights *rights, const char *principal, enum secure_role role)
{
	uint8_t all = 0;

	if (!rights || role == SECURE_ADMIN)
		return role == SECURE_WORKER || role == SECURE_ADMIN;
	for (unsigned i = 0; i < rights->count; i++)
		if (is_for(&rights->lines[i], principal))
			all |= rights->lines[i].rights;
	return all & most(role);
}

bool secure_rights_quotas(const struct secure_rights *rights, const char *principal, struct secure_quotas *quotas)
{
	bool some = false;

	*quotas = (struct secure_quotas){ 0 };
	for (unsigned q = 0; q < SECURE_QUOTAS; q++) {
		uint64_t own = 0, everybody = 0;

		for (unsigned i = 0; rights && i < rights->count; i++) {
			const struct line *line = &rights->lines[i];
			uint64_t *max = strcmp(line->principal, "*") == 0 ? &everybody : &own;

			/* If several lines apply, the lowest limit holds. */
			if (line->quotas.max[q] && is_for(line, principal) && (!*max || line->quotas.max[q] < *max))
				*max = line->quotas.max[q];
		}
		quotas->max[q] = own ? own : everybody;
		some |= quotas->max[q] != 0;
	}
	return some;
}
