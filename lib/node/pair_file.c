/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node of a pair was: a file that is replaced whole, before anything is done that it allows. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "jsonrpc/member.h"
#include "jsonrpc/summed.h"
#include "node/pair.h"

enum { FILE_MODE = 0640, PATH_BYTES = CONFIG_TEXT_MAX + 32, TEXT_MAX = 4096 };

static const char *const names[] = { [PAIR_PRIMARY] = "primary", [PAIR_STANDBY] = "standby" };

static int write_text(const struct node_pair *p, const char *text, size_t bytes)
{
	const char *directory = p->node->config->standby_directory;
	const int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (folder < 0)
		return -errno;
	rc = base_replace_file(folder, "pair.json", text, bytes, FILE_MODE);
	close(folder);
	return rc;
}

/* A standby has what its journal does not: that is of no use any more, whatever comes. */
static void note_standby(struct node_pair *p, enum pair_role role)
{
	if (role == PAIR_STANDBY)
		__atomic_store_n(&p->owns_journal, false, __ATOMIC_RELAXED);
}

/* The file says so. */
static void note_state(struct node_pair *p, enum pair_role role, uint64_t generation)
{
	note_standby(p, role);
	p->file.role = role;
	p->file.generation = generation;
}

/* Under the file's lock. */
static int write_state(struct node_pair *p, enum pair_role role, uint64_t generation, struct star_error *err)
{
	json_t *json = json_pack("{s:s, s:o}", "role", names[role], "generation", jsonrpc_member_from_u64(generation));
	size_t bytes = 0;
	char *text;
	int rc;

	note_standby(p, role);
	/* Nodes without one leave it out: releases before this one know no such member. */
	if (p->node->journal && __atomic_load_n(&p->owns_journal, __ATOMIC_RELAXED))
		json_object_set_new(json, "journal", json_true());
	text = jsonrpc_summed_text(json, 0, &bytes);
	rc = text ? write_text(p, text, bytes) : -ENOMEM;
	free(text);
	json_decref(json);
	if (rc < 0)
		return star_error_set(err, rc, "standby.directory: %.200s/pair.json cannot be written: %s",
				      p->node->config->standby_directory, strerror(-rc));
	note_state(p, role, generation);
	return 0;
}

int node_pair_remember(struct node_pair *p, enum pair_role role, uint64_t generation, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&p->file.lock);
	if (p->file.yielded && role == PAIR_PRIMARY)
		rc = star_error_set(err, -EAGAIN, "the other node of the pair serves: this one begins again");
	else
		rc = write_state(p, role, generation, err);
	pthread_mutex_unlock(&p->file.lock);
	return rc;
}

/* NULL, and err->code 0: there is none. */
static json_t *load_pair_file(const char *path, struct star_error *err)
{
	const int fd = base_open_file(AT_FDCWD, path, O_NOFOLLOW);
	struct star_error why = { 0 };
	char text[TEXT_MAX];
	ssize_t bytes;
	json_t *json = NULL;

	err->code = 0;
	if (fd == -ENOENT)
		return NULL;
	bytes = fd < 0 ? fd : base_read_all(fd, text, sizeof(text));
	if (bytes < 0)
		star_error_set(&why, (int)bytes, "%s", base_open_error((int)bytes));
	else
		json = jsonrpc_summed_parse(text, (size_t)bytes, &why);
	if (fd >= 0)
		close(fd);
	if (!json)
		star_error_set(err, -EBADMSG,
			       "standby.directory: %.200s cannot be read: %.100s. It says what the node was: where the "
			       "other one serves, move it away, and start this one with standby.first = \"standby\"",
			       path, why.text);
	return json;
}

/* Under the file's lock: it is written already. Who gives up to take over, as its disk is full, need not write it. */
static bool says_standby(const struct node_pair *p, uint64_t generation)
{
	struct star_error ignored = { 0 };
	char path[PATH_BYTES];
	const char *role = "";
	uint64_t has = 0;
	json_t *json;
	bool so;

	snprintf(path, sizeof(path), "%s/pair.json", p->node->config->standby_directory);
	json = load_pair_file(path, &ignored);
	so = json && jsonrpc_member_string(json, "role", 16, &role, &ignored) == 0 &&
	     strcmp(role, names[PAIR_STANDBY]) == 0 && jsonrpc_member_u64(json, "generation", &has, &ignored) == 0 &&
	     has == generation && !json_object_get(json, "journal");
	json_decref(json);
	return so;
}

int node_pair_remember_yielded(struct node_pair *p, uint64_t generation, struct star_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&p->file.lock);
	if (says_standby(p, generation))
		note_state(p, PAIR_STANDBY, generation);
	else if (!p->file.yielded || generation > p->file.generation)
		rc = write_state(p, PAIR_STANDBY, generation, err);
	p->file.yielded = true;
	pthread_mutex_unlock(&p->file.lock);
	return rc;
}

int node_pair_recall(struct node_pair *p, enum pair_role *role, uint64_t *generation, struct star_error *err)
{
	static const char *const members[] = { "role", "generation", "journal", NULL };
	char path[PATH_BYTES];
	const char *name = "";
	json_t *json;
	int rc = 0;

	*role = p->node->config->standby_first ? PAIR_STANDBY : PAIR_PRIMARY;
	*generation = 0;
	snprintf(path, sizeof(path), "%s/pair.json", p->node->config->standby_directory);
	json = load_pair_file(path, err);
	p->file.role = *role;
	if (!json) {
		p->owns_journal = true; /* of before there was a pair */
		return err->code;
	}
	p->owns_journal = json_is_true(json_object_get(json, "journal"));
	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_string(json, "role", 16, &name, err) < 0 ||
	    jsonrpc_member_u64(json, "generation", generation, err) < 0)
		rc = err->code;
	else if (strcmp(name, names[PAIR_STANDBY]) == 0)
		*role = PAIR_STANDBY;
	else if (strcmp(name, names[PAIR_PRIMARY]) == 0)
		*role = PAIR_PRIMARY;
	else
		rc = star_error_set(err, -EBADMSG, "standby.directory: %.200s has no role", path);
	json_decref(json);
	p->file.role = *role;
	p->file.generation = *generation;
	return rc;
}

bool node_pair_owned_journal(const struct node *node)
{
	return !node->pair || __atomic_load_n(&node->pair->owns_journal, __ATOMIC_RELAXED);
}

bool node_pair_inherits(const struct node *node)
{
	return !node->pair || node->pair->inherits;
}

int node_pair_owns_journal(struct node *node, struct star_error *err)
{
	struct node_pair *p = node->pair;
	int rc = 0;

	if (!p)
		return 0;
	pthread_mutex_lock(&p->file.lock);
	if (p->file.role != PAIR_PRIMARY) {
		rc = star_error_set(err, -EAGAIN, "the other node of the pair serves");
	} else if (!p->owns_journal) {
		__atomic_store_n(&p->owns_journal, true, __ATOMIC_RELAXED);
		rc = write_state(p, PAIR_PRIMARY, p->file.generation, err);
		__atomic_store_n(&p->owns_journal, rc == 0, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&p->file.lock);
	return rc;
}
