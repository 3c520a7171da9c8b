/* SPDX-License-Identifier: BSD-3-Clause */
/* Key files, rights, and the audit log. Nothing here prints a secret. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "control/audit.h"
#include "secure/keys.h"
#include "secure/memory.h"

enum { LOCK_TRIES = 50, LOCK_NAP_US = 100000 };

/* Two changes of a file at the same time would lose one, so its directory is locked meanwhile. Returns a descriptor, or
 * an error code. */
static int hold_folder(const char *file, struct star_error *err)
{
	const char *slash = strrchr(file, '/');
	char folder[4096];
	int fd, rc = -1;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - file) + 1 : 1, slash ? file : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return star_error_set(err, -errno, "cannot open the directory %.200s: %s", folder,
				      strerrordesc_np(errno));
	for (int i = 0; i < LOCK_TRIES && (rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK; i++)
		usleep(LOCK_NAP_US);
	if (rc == 0)
		return fd;
	close(fd);
	return star_error_set(err, -EBUSY, "another process is changing a key file in %.200s: try again", folder);
}

/* The keys of a file, or none if it does not exist yet. */
static struct secure_keys *load_or_none(const char *file, struct star_error *err)
{
	struct secure_keys *keys;

	if (access(file, F_OK) == 0 || errno != ENOENT)
		return secure_keys_load(file, err);
	keys = secure_alloc(sizeof(*keys));
	if (!keys)
		star_error_set(err, -ENOMEM, "out of memory");
	return keys;
}

/* What a command does to a list of keys; argv as in change_file. */
struct change {
	struct secure_keys *(*make)(const struct secure_keys *keys, char **argv, struct star_error *err);
	bool may_be_new; /* the file need not exist */
};

/* argv: the file, and the arguments of the change. Returns the new list as it was written, or NULL. */
static struct secure_keys *change_file(char **argv, const struct change *change, struct star_error *err)
{
	struct secure_keys *keys = NULL, *changed = NULL;
	const int held = hold_folder(argv[0], err);

	if (held < 0)
		return NULL;
	keys = change->may_be_new ? load_or_none(argv[0], err) : secure_keys_load(argv[0], err);
	if (keys)
		changed = change->make(keys, argv, err);
	if (changed && changed->count == 0) {
		star_error_set(
			err, -EPERM,
			"that is the last key of %.200s: a node cannot be without any; make another one first, or "
			"remove the file",
			argv[0]);
		secure_keys_free(changed);
		changed = NULL;
	}
	if (changed && secure_keys_write(argv[0], changed, keys->count == 0, err) < 0) {
		secure_keys_free(changed);
		changed = NULL;
	}
	secure_keys_free(keys);
	close(held);
	return changed;
}

static json_t *key_json(const struct secure_key *key)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "principal", key->principal, "role", secure_role_name(key->role), "id",
			 key->id, "state", key->next ? "next" : "current");
}

static json_t *keys_json(const struct secure_keys *keys, const char *principal)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < keys->count; i++)
		if (!principal || strcmp(keys->list[i].principal, principal) == 0)
			json_array_append_new(list, key_json(&keys->list[i]));
	return list;
}

static void render_keys(const json_t *list, FILE *out)
{
	const json_t *key;
	size_t i;

	fprintf(out, "%-24s %-10s %-10s %s\n", "PRINCIPAL", "ROLE", "ID", "STATE");
	json_array_foreach(list, i, key)
		fprintf(out, "%-24s %-10s %-10s %s\n", json_string_value(json_object_get(key, "principal")),
			json_string_value(json_object_get(key, "role")), json_string_value(json_object_get(key, "id")),
			json_string_value(json_object_get(key, "state")));
}

/* Changes the file, and prints the keys that the principal has in it now. */
static int run_change(const struct invocation *invocation, const struct change *change)
{
	struct star_error err = { 0 };
	struct secure_keys *keys = change_file(invocation->argv, change, &err);
	json_t *list;

	if (!keys)
		return fail(invocation, &err, STARCTL_FAILED);
	list = keys_json(keys, invocation->argv[1]);
	secure_keys_free(keys);
	return print(invocation, list, render_keys);
}

static struct secure_keys *add_key(const struct secure_keys *keys, char **argv, struct star_error *err)
{
	const bool next = strcmp(argv[2], "next") == 0;
	const enum secure_role role = next ? SECURE_ROLES : secure_role_from(argv[2]);

	if (!next && role == SECURE_ROLES) {
		star_error_set(
			err, -EINVAL,
			"there is no role \"%.40s\": node, worker, reader, operator or admin; or \"next\", for the "
			"key that will replace the current one",
			argv[2]);
		return NULL;
	}
	return secure_keys_add(keys, argv[1], role, next, err);
}

int run_key_create(const struct invocation *invocation)
{
	return run_change(invocation, &(struct change){ add_key, true });
}

static struct secure_keys *promote(const struct secure_keys *keys, char **argv, struct star_error *err)
{
	return secure_keys_promote(keys, argv[1], err);
}

int run_key_promote(const struct invocation *invocation)
{
	return run_change(invocation, &(struct change){ promote, false });
}

static struct secure_keys *take_out_key(const struct secure_keys *keys, char **argv, struct star_error *err)
{
	return secure_keys_without(keys, argv[1], argv[2], err);
}

int run_key_revoke(const struct invocation *invocation)
{
	/* The last word may be missing. */
	char *argv[] = { invocation->argv[0], invocation->argv[1], invocation->argc > 2 ? invocation->argv[2] : NULL };
	struct invocation own = *invocation;
	int status;

	own.argv = argv;
	status = run_change(&own, &(struct change){ take_out_key, false });
	if (status == STARCTL_OK && !invocation->json)
		fprintf(invocation->errors,
			"starctl: nodes accept it until they have this file and read it again: `starctl "
			"key reload`\n");
	return status;
}

int run_key_list(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct secure_keys *keys = secure_keys_load(invocation->argv[0], &err);
	json_t *list;

	if (!keys)
		return fail(invocation, &err, STARCTL_FAILED);
	list = keys_json(keys, NULL);
	secure_keys_free(keys);
	return print(invocation, list, render_keys);
}

int run_key_copy(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct secure_keys *keys = secure_keys_load(invocation->argv[0], &err), *own = NULL;
	json_t *list = NULL;

	if (keys)
		own = secure_keys_select(keys, invocation->argv[1], &err);
	if (own && secure_keys_write(invocation->argv[2], own, true, &err) == 0)
		list = keys_json(own, NULL);
	secure_keys_free(own);
	secure_keys_free(keys);
	return list ? print(invocation, list, render_keys) : fail(invocation, &err, STARCTL_FAILED);
}

static void render_reload(const json_t *result, FILE *out)
{
	fprintf(out, "the node has %" JSON_INTEGER_FORMAT " principals\n",
		json_integer_value(json_object_get(result, "principals")));
}

int run_key_reload(const struct invocation *invocation)
{
	return show(invocation, "key_reload", NULL, render_reload);
}

/* "quotas of a node: connections=64 requests=1000", if it has any. */
static void render_quotas(const json_t *quotas, FILE *out)
{
	const char *name;
	json_t *max;

	if (json_object_size(quotas) == 0)
		return;
	fputs("quotas of each node:", out);
	json_object_foreach((json_t *)(uintptr_t)quotas, name, max)
		fprintf(out, " %s=%" JSON_INTEGER_FORMAT, name, json_integer_value(max));
	fputc('\n', out);
}

static void render_acl(const json_t *result, FILE *out)
{
	const char *table = json_string_value(json_object_get(result, "table"));

	if (table) {
		fprintf(out, "%s: %s, of role %s, and \"%s\" of \"%s\"\n",
			json_is_true(json_object_get(result, "allowed")) ? "yes" : "no",
			json_string_value(json_object_get(result, "principal")),
			json_string_value(json_object_get(result, "role")),
			json_string_value(json_object_get(result, "method")), table);
		render_quotas(json_object_get(result, "quotas"), out);
		return;
	}
	fprintf(out, "%s: %s has the role %s, and %s is for %s\n",
		json_is_true(json_object_get(result, "allowed")) ? "yes" : "no",
		json_string_value(json_object_get(result, "principal")),
		json_string_value(json_object_get(result, "role")),
		json_string_value(json_object_get(result, "method")),
		json_string_value(json_object_get(result, "roles")));
	render_quotas(json_object_get(result, "quotas"), out);
}

int run_acl_check(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *params = json_pack("{s:s, s:s}", "principal", invocation->argv[0], "method", invocation->argv[1]);
	json_t *result;
	bool allowed;

	if (invocation->argc > 2)
		json_object_set_new(params, "table", json_string(invocation->argv[2]));
	result = ask(invocation, "acl_check", params, &err);

	if (!result)
		return fail(invocation, &err, STARCTL_FAILED);
	allowed = json_is_true(json_object_get(result, "allowed"));
	print(invocation, result, render_acl);
	return allowed ? STARCTL_OK : STARCTL_FAILED;
}

static void render_usage(const json_t *principal, FILE *out)
{
	const json_t *quotas = json_object_get(principal, "quotas"), *refused = json_object_get(principal, "refused");
	const char *name;
	json_t *used;

	json_object_foreach(json_object_get(principal, "used"), name, used)
	{
		const json_t *max = json_object_get(quotas, name);
		char quota[24] = "-";

		if (max)
			snprintf(quota, sizeof(quota), "%" JSON_INTEGER_FORMAT, json_integer_value(max));
		else if (!json_integer_value(used) && !json_object_get(refused, name))
			continue;
		fprintf(out, "%-24s %-10s %-20s %16" JSON_INTEGER_FORMAT " %16s %10" JSON_INTEGER_FORMAT "\n",
			json_string_value(json_object_get(principal, "principal")),
			json_string_value(json_object_get(principal, "role")), name, json_integer_value(used), quota,
			json_integer_value(json_object_get(refused, name)));
	}
}

static void render_usages(const json_t *list, FILE *out)
{
	const json_t *principal;
	size_t i;

	fprintf(out, "%-24s %-10s %-20s %16s %16s %10s\n", "PRINCIPAL", "ROLE", "OF", "USED", "QUOTA", "REFUSED");
	json_array_foreach(list, i, principal) render_usage(principal, out);
}

int run_quotas(const struct invocation *invocation)
{
	json_t *params = invocation->argc ? json_pack("{s:s}", "principal", invocation->argv[0]) : NULL;

	return show(invocation, "quotas", params, render_usages);
}

static void render_audit(const json_t *result, FILE *out)
{
	fprintf(out,
		"%" JSON_INTEGER_FORMAT " lines, from number %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
		", follow each other; %" JSON_INTEGER_FORMAT " refusals, %" JSON_INTEGER_FORMAT
		" events lost\nit continues %s\nlast line   %s (keep it elsewhere: whoever can write the file can "
		"rewrite all of it)\n",
		json_integer_value(json_object_get(result, "lines")),
		json_integer_value(json_object_get(result, "first")),
		json_integer_value(json_object_get(result, "last")),
		json_integer_value(json_object_get(result, "failures")),
		json_integer_value(json_object_get(result, "lost")),
		json_string_value(json_object_get(result, "begins")),
		json_string_value(json_object_get(result, "ends")));
}

int run_audit_verify(const struct invocation *invocation)
{
	struct audit_check check = { 0 };
	struct star_error err = { 0 };
	int rc = 0;

	for (int i = 0; rc == 0 && i < invocation->argc; i++) {
		FILE *file = fopen(invocation->argv[i], "re");

		if (!file) {
			rc = star_error_set(&err, -errno, "cannot open %.200s: %s", invocation->argv[i],
					    strerrordesc_np(errno));
			break;
		}
		rc = control_audit_verify(file, invocation->argv[i], &check, &err);
		fclose(file);
	}
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	return print(invocation,
		     json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "lines", (json_int_t)check.lines, "first",
			       (json_int_t)check.first, "last", (json_int_t)check.last, "failures",
			       (json_int_t)check.failures, "lost", (json_int_t)check.lost, "begins", check.begins,
			       "ends", check.ends),
		     render_audit);
}
