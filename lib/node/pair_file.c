/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node of a pair was. The file is replaced as a whole, before anything is done that depends on it. */
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

/* A standby has changes that its journal does not have, so the journal is useless from now on. */
static void note_standby(struct node_pair *p, enum pair_role role)
{
	if (role == PAIR_STANDBY)
		__atomic_store_n(&p->owns_journal, false, __ATOMIC_RELAXED);
}

/* Takes over what the file says. */
static void note_state(struct node_pair *p, enum pair_role role, uint64_t generation)
{
	note_standby(p, role);
	p->file.role = role;
	p->file.generation = generation;
}

/* Holds the file's lock. */
static int write_state(struct node_pair *p, enum pair_role role, uint64_t generation, struct star_error *err)
{
	json_t *json = json_pack("{s:s, s:o}", "role", names[role], "generation", jsonrpc_member_from_u64(generation));
	size_t bytes = 0;
	char *text;
	int rc;

	note_standby(p, role);
	/* Omitted by nodes without a journal: earlier releases do not know this member. */
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
		rc = star_error_set(err, -EAGAIN, "the other node of the pair serves: this one restarts");
	else
		rc = write_state(p, role, generation, err);
	pthread_mutex_unlock(&p->file.lock);
	return rc;
}

/* The contents of the file. */
struct state {
	enum pair_role role;
	uint64_t generation;
	bool journal;
};

static int take_state(const json_t *json, const char *path, struct state *state, struct star_error *err)
{
	static const char *const members[] = { "role", "generation", "journal", NULL };
	const char *name;

	*state = (struct state){ .journal = json_is_true(json_object_get(json, "journal")) };
	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_string(json, "role", 16, &name, err) < 0 ||
	    jsonrpc_member_u64(json, "generation", &state->generation, err) < 0)
		return err->code;
	for (state->role = PAIR_PRIMARY; state->role <= PAIR_STANDBY; state->role++)
		if (strcmp(name, names[state->role]) == 0)
			return 0;
	return star_error_set(err, -EBADMSG,
			      "standby.directory: %.200s has no valid role: if the other node serves, move it away, "
			      "and start this node with standby.first = \"standby\"",
			      path);
}

/* 1; 0: there is none. */
static int read_state(const struct node_pair *p, struct state *state, struct star_error *err)
{
	char path[PATH_BYTES], text[TEXT_MAX];
	struct star_error why = { 0 };
	json_t *json = NULL;
	ssize_t bytes;
	int fd, rc;

	snprintf(path, sizeof(path), "%s/pair.json", p->node->config->standby_directory);
	fd = base_open_file(AT_FDCWD, path, O_NOFOLLOW);
	if (fd == -ENOENT)
		return 0;
	bytes = fd < 0 ? fd : base_read_all(fd, text, sizeof(text));
	if (bytes < 0)
		star_error_set(&why, (int)bytes, "%s", base_open_error((int)bytes));
	else
		json = jsonrpc_summed_parse(text, (size_t)bytes, &why);
	if (fd >= 0)
		close(fd);
	if (!json)
		return star_error_set(
			err, -EBADMSG,
			"standby.directory: %.200s cannot be read: %.100s. It records the node's role: if the other "
			"node serves, move it away, and start this node with standby.first = \"standby\"",
			path, why.text);
	rc = take_state(json, path, state, err);
	json_decref(json);
	return rc < 0 ? rc : 1;
}

/* Holds the file's lock: whether it says so already. A node that gives up its takeover because its disk is full need
 * not write it. */
static bool says_standby(const struct node_pair *p, uint64_t generation)
{
	struct star_error ignored = { 0 };
	struct state state;

	return read_state(p, &state, &ignored) > 0 && state.role == PAIR_STANDBY && state.generation == generation &&
	       !state.journal;
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
	/* Before there was a pair, the journal was its own. */
	struct state state = { .role = p->node->config->standby_first ? PAIR_STANDBY : PAIR_PRIMARY, .journal = true };
	const int rc = read_state(p, &state, err);

	if (rc < 0)
		return rc;
	p->owns_journal = state.journal;
	p->file.role = *role = state.role;
	p->file.generation = *generation = state.generation;
	return 0;
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
