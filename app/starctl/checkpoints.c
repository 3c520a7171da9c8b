/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints on disk, without a node: listed, verified, pruned. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/starctl/checkpoints.h"
#include "ckpt/ckpt.h"
#include "jsonrpc/member.h"

enum { KEEP_MAX = 1000000 };

int checkpoint_use_key(struct star_error *err)
{
	const char *path = getenv(STARCTL_CHECKPOINT_KEY);

	return path && *path ? ckpt_use_keys(path, err) : 0;
}

/* ---- which checkpoint is meant ---- */

/* "7", "00000007-full": its number; 0 for anything else, and for a directory whose name is a number. */
static uint64_t parse_id(const char *text, const char *path)
{
	struct stat status;
	char *end;
	uint64_t id;

	errno = 0;
	id = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || id > INT64_MAX)
		return 0;
	if (*end == 0 && stat(path, &status) == 0)
		return 0;
	return *end == 0 || strcmp(end, "-full") == 0 || strcmp(end, "-delta") == 0 ? id : 0;
}

int checkpoint_locate(const char *argument, char directory[static CKPT_PATH_MAX], uint64_t *id, struct star_error *err)
{
	size_t bytes = strlen(argument);
	const char *slash;

	while (bytes > 1 && argument[bytes - 1] == '/')
		bytes--;
	if (bytes >= CKPT_PATH_MAX)
		return star_error_set(err, -ENAMETOOLONG, "the path %.200s... is too long", argument);
	memcpy(directory, argument, bytes);
	directory[bytes] = 0;
	slash = strrchr(directory, '/');
	*id = parse_id(slash ? slash + 1 : directory, directory);
	if (*id && slash)
		directory[slash == directory ? 1 : slash - directory] = 0;
	else if (*id)
		strcpy(directory, ".");
	return 0;
}

/* ---- progress ---- */

void checkpoint_progress_begin(struct checkpoint_progress *progress, const struct invocation *invocation,
			       const char *doing)
{
	*progress = (struct checkpoint_progress){
		.out = invocation->errors, .doing = doing, .wanted = isatty(fileno(invocation->errors)), .percent = -1
	};
}

bool checkpoint_progress_report(void *ctx, uint64_t done, uint64_t total)
{
	struct checkpoint_progress *p = ctx;
	const int percent = total ? (int)((double)done * 100 / (double)total) : 0;
	char text[24];

	if (!p->wanted || !total || percent == p->percent)
		return true;
	p->percent = percent;
	fprintf(p->out, "\r%s: %3d %% of %s", p->doing, percent,
		p->rows ? strcat(human_count((double)total, text), " rows") : human_bytes((double)total, text));
	fflush(p->out);
	return true;
}

void checkpoint_progress_end(struct checkpoint_progress *p)
{
	if (p->percent >= 0)
		fprintf(p->out, "\r%*s\r", (int)strlen(p->doing) + 30, "");
	p->percent = -1;
}

/* ---- list ---- */

static const char *entry_state(const struct ckpt_entry *entry)
{
	return entry->whole ? "complete" : entry->partial ? "unfinished" : "damaged";
}

static json_t *entry_to_json(const struct ckpt_entry *entry)
{
	return json_pack("{s:s, s:I, s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:s}", "name", entry->name, "id",
			 (json_int_t)entry->id, "kind", entry->delta ? "delta" : "full", "parent",
			 (json_int_t)entry->parent, "time_ms", (json_int_t)entry->time_ms, "step",
			 jsonrpc_member_from_u64(entry->step), "rows", (json_int_t)entry->rows, "deleted",
			 (json_int_t)entry->deleted, "bytes", (json_int_t)entry->bytes, "state", entry_state(entry));
}

static void time_text(uint64_t time_ms, char *text, size_t size)
{
	const time_t seconds = (time_t)(time_ms / 1000);
	struct tm parts;

	if (!time_ms || !localtime_r(&seconds, &parts) || strftime(text, size, "%Y-%m-%d %H:%M:%S", &parts) == 0)
		snprintf(text, size, "-");
}

static void render_list(const struct ckpt_entry *entries, uint32_t count, FILE *out)
{
	static const struct {
		const char *title;
		bool right;
	} columns[] = { { "NAME", false }, { "BASED ON", true }, { "TIME", false }, { "STEP", true },
			{ "ROWS", true },  { "DELETED", true },	 { "SIZE", true },  { "STATE", false } };
	struct table table;

	table_init(&table);
	for (unsigned c = 0; c < sizeof(columns) / sizeof(columns[0]); c++)
		table_column(&table, columns[c].title, columns[c].right);
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_entry *e = &entries[i];
		char when[64], human[24];

		table_row(&table);
		table_set(&table, 0, "%s", e->name);
		if (e->parent)
			table_set(&table, 1, "%" PRIu64, e->parent);
		if (e->complete) {
			time_text(e->time_ms, when, sizeof(when));
			table_set(&table, 2, "%s", when);
			table_set(&table, 3, "%" PRIu64, e->step);
			table_set(&table, 4, "%s", human_count((double)e->rows, human));
			table_set(&table, 5, "%s", human_count((double)e->deleted, human));
			table_set(&table, 6, "%s", human_bytes((double)e->bytes, human));
		}
		table_set(&table, 7, "%s", entry_state(e));
	}
	table_print(&table, out);
	table_fini(&table);
}

int run_checkpoint_list(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct ckpt_entry *entries;
	uint32_t count;
	json_t *list;

	if (checkpoint_use_key(&err) < 0 || ckpt_list(invocation->argv[0], &entries, &count, &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json) {
		list = json_array();
		for (uint32_t i = 0; i < count; i++)
			json_array_append_new(list, entry_to_json(&entries[i]));
		print_json(list, invocation->out);
	} else if (count == 0) {
		fprintf(invocation->out, "no checkpoints in %s\n", invocation->argv[0]);
	} else {
		render_list(entries, count, invocation->out);
	}
	free(entries);
	return STARCTL_OK;
}

/* ---- verify ---- */

struct verify {
	const struct invocation *invocation;
	struct checkpoint_progress progress;
	json_t *results;
};

static bool verify_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct verify *v = ctx;

	return checkpoint_progress_report(&v->progress, done, total);
}

/* Prints the line of a checkpoint. An unfinished one is reported, but is not damage. */
static void verify_tell(void *ctx, const struct ckpt_entry *entry, const char *why)
{
	struct verify *v = ctx;
	const struct invocation *invocation = v->invocation;
	json_t *result;

	checkpoint_progress_end(&v->progress);
	if (invocation->json && !entry->partial) {
		result = json_pack("{s:s, s:b}", "name", entry->name, "ok", !why);
		if (why)
			json_object_set_new(result, "error", json_string(why));
		json_array_append_new(v->results, result);
	} else if (!invocation->json) {
		fprintf(invocation->out, "%s ", entry->name);
		print_text(entry->partial ? "was never finished, and does not count"
			   : why	  ? why
					  : "is in order",
			   invocation->out);
		fputc('\n', invocation->out);
		fflush(invocation->out);
	}
}

static int verify(struct verify *v, const char *directory, uint64_t id, struct star_error *err)
{
	const struct ckpt_search search = { .progress = verify_progress, .ctx = v };
	struct ckpt_entry *entries;
	uint32_t count;
	int rc = ckpt_list(directory, &entries, &count, err);

	if (rc < 0)
		return rc;
	free(entries);
	return count == 0 ? star_error_set(err, -ENOENT, "no checkpoints in %.300s", directory)
			  : ckpt_check(directory, id, &search, verify_tell, err);
}

int run_checkpoint_verify(const struct invocation *invocation)
{
	struct verify v = { .invocation = invocation, .results = json_array() };
	char directory[CKPT_PATH_MAX];
	struct star_error err = { 0 };
	uint64_t id;
	int wrong = checkpoint_locate(invocation->argv[0], directory, &id, &err);

	checkpoint_progress_begin(&v.progress, invocation, "verify");
	if (wrong == 0)
		wrong = checkpoint_use_key(&err);
	if (wrong == 0)
		wrong = verify(&v, directory, id, &err);
	if (wrong < 0) {
		json_decref(v.results);
		return fail(invocation, &err, STARCTL_FAILED);
	}
	if (invocation->json)
		print_json(v.results, invocation->out);
	else
		json_decref(v.results);
	return wrong ? STARCTL_FAILED : STARCTL_OK;
}

/* ---- prune ---- */

struct prune {
	const struct invocation *invocation;
	struct checkpoint_progress progress;
};

static bool prune_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct prune *p = ctx;

	return checkpoint_progress_report(&p->progress, done, total);
}

static void prune_refused(void *ctx, const char *name, const char *why)
{
	struct prune *p = ctx;

	checkpoint_progress_end(&p->progress);
	fprintf(p->invocation->errors, "starctl: %s does not count: ", name);
	print_text(why, p->invocation->errors);
	fputc('\n', p->invocation->errors);
}

static void prune_in_use(void *ctx, const char *name, pid_t holder)
{
	struct prune *p = ctx;
	char who[32] = "another process";

	if (holder)
		snprintf(who, sizeof(who), "process %d", (int)holder);
	checkpoint_progress_end(&p->progress);
	fprintf(p->invocation->errors,
		"starctl: %s stays: the cluster that started from it (%s) has not written enough checkpoints since\n",
		name, who);
}

int run_checkpoint_prune(const struct invocation *invocation)
{
	struct prune p = { .invocation = invocation };
	struct ckpt_pruning pruning = { .refused = prune_refused,
					.in_use = prune_in_use,
					.progress = prune_progress,
					.ctx = &p,
					.wait_us = CKPT_WAIT_US };
	const char *word = invocation->argv[1];
	struct star_error err = { 0 };
	char *end = NULL;
	unsigned long keep = 0;
	int removed;

	if (strncmp(word, "keep=", 5) == 0 && word[5] >= '1' && word[5] <= '9')
		keep = strtoul(word + 5, &end, 10);
	if (keep < 1 || keep > KEEP_MAX || *end) {
		star_error_set(&err, -EINVAL, "\"%.60s\" is not a number of full checkpoints to keep, as in keep=2",
			       word);
		return fail(invocation, &err, STARCTL_USAGE);
	}
	pruning.keep = (uint32_t)keep;
	checkpoint_progress_begin(&p.progress, invocation, "prune");
	removed = checkpoint_use_key(&err);
	if (removed == 0)
		removed = ckpt_prune(invocation->argv[0], &pruning, &err);
	checkpoint_progress_end(&p.progress);
	if (removed < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json)
		print_json(json_pack("{s:i}", "removed", removed), invocation->out);
	else
		fprintf(invocation->out, "%d checkpoint%s removed\n", removed, removed == 1 ? " was" : "s were");
	return STARCTL_OK;
}

/* ---- adopt ---- */

/* Adopts one checkpoint, if it is complete, and prints a line. 1, 0, or a negative errno. */
static int adopt_one(const struct invocation *invocation, const char *directory, const struct ckpt_entry *entry)
{
	struct star_error err = { 0 };
	char path[CKPT_PATH_MAX];
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s", directory, entry->name) >= (int)sizeof(path))
		rc = star_error_set(&err, -ENAMETOOLONG, "the path of %s is too long", entry->name);
	else
		rc = ckpt_adopt(path, &err);
	if (rc < 0) {
		fputs("starctl: ", invocation->errors);
		print_text(err.text, invocation->errors);
		fputc('\n', invocation->errors);
	} else if (rc > 0 && !invocation->json) {
		fprintf(invocation->out, "%s has an HMAC now\n", entry->name);
	}
	return rc;
}

static int adopt(const struct invocation *invocation, const char *directory, uint64_t id, unsigned *adopted,
		 struct star_error *err)
{
	struct ckpt_entry *entries;
	bool wrong = false, found = false;
	uint32_t count;
	int rc = ckpt_list(directory, &entries, &count, err);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		if (entries[i].partial || (id && entries[i].id != id))
			continue;
		found = true;
		rc = adopt_one(invocation, directory, &entries[i]);
		wrong |= rc < 0;
		*adopted += rc > 0;
	}
	free(entries);
	if (!found)
		return star_error_set(err, -ENOENT, "there is no such checkpoint in %.300s", directory);
	return wrong ? star_error_set(err, -EBADMSG, "not all of them have a correct HMAC") : 0;
}

int run_checkpoint_adopt(const struct invocation *invocation)
{
	char directory[CKPT_PATH_MAX];
	struct star_error err = { 0 };
	unsigned adopted = 0;
	uint64_t id;
	int rc = checkpoint_locate(invocation->argv[0], directory, &id, &err);

	if (rc == 0)
		rc = checkpoint_use_key(&err);
	if (rc == 0 && !ckpt_has_keys())
		rc = star_error_set(&err, -EINVAL,
				    "name the key's file in " STARCTL_CHECKPOINT_KEY
				    ": the one that the nodes have as checkpoint.key");
	if (rc == 0)
		rc = adopt(invocation, directory, id, &adopted, &err);
	if (invocation->json && rc == 0)
		print_json(json_pack("{s:i}", "adopted", (int)adopted), invocation->out);
	return rc < 0 ? fail(invocation, &err, STARCTL_FAILED) : STARCTL_OK;
}
