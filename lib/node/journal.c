/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "jsonrpc/summed.h"
#include "node/checkpoint.h"
#include "node/gate.h"

enum { SESSIONS_PER_TURN = 32, FILE_MODE = 0640, CATALOGUE_MAX = 64 << 20, SEGMENT_MIN = 2 << 20 };

/* ---- begin and end ---- */

int node_journal_open(struct node *node, struct star_error *err)
{
	const struct config *config = node->config;
	struct node_journal *j;

	if (!config->journal_directory[0])
		return 0;
	j = calloc(1, sizeof(*j));
	if (!j)
		return star_error_set(err, -ENOMEM, "out of memory");
	node->journal = j;
	j->node = node;
	pthread_mutex_init(&j->lock, NULL);
	j->folder = open(config->journal_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->folder < 0)
		return star_error_set(err, -errno, "journal.directory: %.300s cannot be opened: %s",
				      config->journal_directory, strerror(errno));
	if (flock(j->folder, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return star_error_set(
			err, -EBUSY,
			"journal.directory: another node keeps its journal in %.300s: each has its own folder",
			config->journal_directory);
	for (unsigned i = 0; i < node->shards_count; i++) {
		j->rings[i] = journal_ring_create((uint64_t)config->journal_ring_mib << 20,
						  config->journal_wait_s * UINT64_C(1000000000), err);
		if (!j->rings[i])
			return err->code;
		if (config->journal_durability == CONFIG_DURABILITY_SYNC)
			node_gate_watch(&node->shards[i], j->rings[i], NULL);
	}
	return 0;
}

void node_journal_close(struct node *node)
{
	struct node_journal *j = node->journal;

	if (!j)
		return;
	for (unsigned i = 0; i < node->shards_count; i++) {
		journal_writer_destroy(j->writers[i]);
		journal_ring_destroy(j->rings[i]);
	}
	journal_contents_free(j->contents);
	if (j->folder >= 0)
		close(j->folder);
	pthread_mutex_destroy(&j->lock);
	free(j);
	node->journal = NULL;
}

/* ---- the catalogue ---- */

static void catalogue_name(char name[static JOURNAL_NAME_MAX], uint32_t story)
{
	snprintf(name, JOURNAL_NAME_MAX, "%08" PRIu32 ".json", story);
}

/* A whole file takes the place of the one before, or nothing happens. */
static int replace_file(const struct node_journal *j, const char *name, const char *text, size_t bytes,
			struct star_error *err)
{
	char partial[JOURNAL_NAME_MAX + 8];
	int fd, rc;

	snprintf(partial, sizeof(partial), "%s.partial", name);
	fd = openat(j->folder, partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	rc = fd < 0 ? -errno : base_write_all(fd, text, bytes);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	if (rc == 0 && (renameat(j->folder, partial, j->folder, name) < 0 || fsync(j->folder) < 0))
		rc = -errno;
	if (rc < 0)
		unlinkat(j->folder, partial, 0);
	return rc < 0 ? star_error_set(err, rc, "the journal's %s cannot be written in %.200s: %s", name,
				       j->node->config->journal_directory, strerror(-rc))
		      : 0;
}

static json_t *counted_json(const struct node_journal *j)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < j->counted_count; i++)
		json_array_append_new(list, json_pack("{s:I, s:I}", "id", (json_int_t)j->counted[i].id, "sum",
						      (json_int_t)j->counted[i].sum));
	return list;
}

static int counted_from(const json_t *list, struct node_journal *j, struct star_error *err)
{
	static const char *const members[] = { "id", "sum", NULL };
	uint64_t sum;

	if (!json_is_array(list) || json_array_size(list) > JOURNAL_COUNTED_MAX)
		return star_error_set(err, -EBADMSG, "the journal has no list of checkpoints");
	for (j->counted_count = 0; j->counted_count < json_array_size(list); j->counted_count++) {
		const json_t *each = json_array_get(list, j->counted_count);
		struct journal_counted *c = &j->counted[j->counted_count];

		if (jsonrpc_member_only(each, members, err) < 0 || jsonrpc_member_u64(each, "id", &c->id, err) < 0 ||
		    jsonrpc_member_u64(each, "sum", &sum, err) < 0)
			return err->code;
		if (sum > UINT32_MAX || c->id > INT64_MAX || c->id <= (j->counted_count ? c[-1].id : 0))
			return star_error_set(err, -EBADMSG, "the journal's list of checkpoints is not in order");
		c->sum = (uint32_t)sum;
	}
	return 0;
}

/* Ids rise; the oldest, which the journal no longer goes back to, makes room. */
static void add_counted(struct node_journal *j, uint64_t id, uint32_t sum)
{
	while (j->counted_count && j->counted[j->counted_count - 1].id >= id)
		j->counted_count--;
	if (j->counted_count == JOURNAL_COUNTED_MAX) {
		j->counted_count--;
		memmove(j->counted, j->counted + 1, j->counted_count * sizeof(j->counted[0]));
	}
	j->counted[j->counted_count++] = (struct journal_counted){ .id = id, .sum = sum };
}

static const struct journal_counted *find_counted(const struct node_journal *j, uint64_t id)
{
	for (unsigned i = 0; i < j->counted_count; i++)
		if (j->counted[i].id == id)
			return &j->counted[i];
	return NULL;
}

static int write_catalogue(const struct node_journal *j, struct star_error *err)
{
	const struct node *node = j->node;
	json_t *objects = json_array(), *json;
	char name[JOURNAL_NAME_MAX], *text;
	size_t bytes;
	int rc;

	for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
		if (node->specs[id])
			json_array_append_new(objects, jsonrpc_object_encode(node->specs[id]));
	json = json_pack("{s:o, s:o, s:o}", "lineage",
			 jsonrpc_member_from_u64(node_checkpoint_own_lineage(node->checkpoint)), "checkpoints",
			 counted_json(j), "objects", objects);
	text = jsonrpc_summed_text(json, JSON_INDENT(1), &bytes);
	json_decref(json);
	if (!text)
		return star_error_set(err, -ENOMEM, "out of memory");
	catalogue_name(name, j->life.story);
	rc = replace_file(j, name, text, bytes, err);
	free(text);
	return rc;
}

/* What follows from a byte that has changed is a table that learns otherwise. */
static json_t *load_catalogue(const struct node_journal *j, const char *name, struct star_error *err)
{
	const int fd = openat(j->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *text = fd < 0 ? NULL : malloc(CATALOGUE_MAX + 1);
	const ssize_t bytes = fd < 0 ? -errno : text ? base_read_all(fd, text, CATALOGUE_MAX + 1) : -ENOMEM;
	struct star_error why = { 0 };
	json_t *json = NULL;

	if (bytes < 0)
		star_error_set(&why, (int)bytes, "%s", strerror((int)-bytes));
	else if (bytes > CATALOGUE_MAX)
		star_error_set(&why, -EFBIG, "it has more than %d bytes", CATALOGUE_MAX);
	else
		json = jsonrpc_summed_parse(text, (size_t)bytes, &why);
	if (fd >= 0)
		close(fd);
	free(text);
	if (!json)
		star_error_set(err, -EBADMSG,
			       "the journal's %s cannot be read in %.200s: %.150s. Nothing was restored. To begin with "
			       "the last checkpoint, without what the journal has, move the folder away",
			       name, j->node->config->journal_directory, why.text);
	return json;
}

static int read_catalogue(struct node_journal *j, uint32_t story, uint64_t *lineage, struct object_spec **specs,
			  uint32_t *count, struct star_error *err)
{
	static const char *const members[] = { "lineage", "checkpoints", "objects", NULL };
	char name[JOURNAL_NAME_MAX];
	json_t *json, *objects, *object;
	size_t i;
	int rc = 0;

	*specs = NULL;
	*count = 0;
	catalogue_name(name, story);
	json = load_catalogue(j, name, err);
	if (!json)
		return err->code;
	objects = json_object_get(json, "objects");
	if (jsonrpc_member_only(json, members, err) < 0 || jsonrpc_member_u64(json, "lineage", lineage, err) < 0 ||
	    counted_from(json_object_get(json, "checkpoints"), j, err) < 0)
		rc = err->code;
	else if (!json_is_array(objects) || json_array_size(objects) > WIRE_OBJECTS_MAX)
		rc = star_error_set(err, -EBADMSG, "the journal's %s has no list of objects", name);
	if (rc == 0)
		*specs = calloc(json_array_size(objects) + 1, sizeof(**specs));
	if (rc == 0 && !*specs)
		rc = star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(objects, i, object)
	{
		if (rc < 0)
			break;
		rc = jsonrpc_object_decode(object, &(*specs)[*count], err);
		if (rc == 0 && (*specs)[*count].id == 0)
			rc = star_error_set(err, -EBADMSG, "the journal's %s has an object without its id", name);
		++*count;
	}
	json_decref(json);
	if (rc < 0) {
		free(*specs);
		*specs = NULL;
	}
	return rc;
}

/* ---- what the node begins with ---- */

static bool goes_on(void *ctx)
{
	return !node_told_to_stop(ctx);
}

int node_journal_read(struct node *node, struct star_error *err)
{
	struct node_journal *j = node->journal;

	if (!j || j->contents)
		return 0;
	j->read_s = (double)clock_us() / 1e6;
	j->contents = journal_contents_read(node->config->journal_directory, goes_on, node, err);
	j->read_s = (double)clock_us() / 1e6 - j->read_s;
	return j->contents ? 0 : err->code;
}

static const struct journal_past_life *last_life(const struct node_journal *j)
{
	const struct journal_contents *c = j->contents;

	return c->lives_count ? &c->lives[c->lives_count - 1] : NULL;
}

uint64_t node_journal_at_latest(const struct node *node, uint64_t id)
{
	const struct journal_past_life *last = node->journal ? last_life(node->journal) : NULL;

	return last && id > last->base && id <= last->passed_over ? last->base : id;
}

/* What a checkpoint is to the journal. */
enum checkpoint_place {
	PLACE_WITHIN, /* the journal goes on from it */
	PLACE_BEHIND, /* the cluster wrote it when the journal had ended */
	PLACE_ELSEWHERE,
};

/* found: the journal has its instant, or begins with it. That one was written down as counting just before a crash may
 * be missing: it is the last one then. */
static enum checkpoint_place journal_place(const struct node_journal *j, uint64_t lineage, bool found)
{
	const struct journal_past_life *last = last_life(j);
	const struct journal_counted *counted = find_counted(j, j->chosen);
	const uint64_t seen = j->counted_count ? j->counted[j->counted_count - 1].id : 0;
	const uint64_t begun = RTE_MAX(last->base, last->passed_over);
	const bool ours = lineage == node_checkpoint_own_lineage(j->node->checkpoint);

	if (j->chosen == 0)
		return found ? PLACE_WITHIN : PLACE_ELSEWHERE;
	if (!ours || (counted && counted->sum != node_checkpoint_own_sum(j->node->checkpoint)))
		return PLACE_ELSEWHERE;
	if (found)
		return counted || j->chosen > seen ? PLACE_WITHIN : PLACE_ELSEWHERE;
	return j->chosen >= RTE_MAX(seen, begun) ? PLACE_BEHIND : PLACE_ELSEWHERE;
}

static int refuse_to_begin(const struct node_journal *j, struct star_error *err)
{
	char with[64] = "nothing";

	if (j->chosen)
		snprintf(with, sizeof(with), "checkpoint %" PRIu64, j->chosen);
	return star_error_set(err, -ESTALE,
			      "the journal in %.200s does not go on from %s, which the node would begin with: is "
			      "checkpoint.directory (%.200s) the one that belongs to it, and all there? Nothing was "
			      "restored. To begin without what the journal has, move its folder away",
			      j->node->config->journal_directory, with, j->node->config->checkpoint_directory);
}

int node_journal_choose(struct node *node, uint64_t id, bool asked_for, struct object_spec **specs, uint32_t *count,
			struct star_error *err)
{
	struct node_journal *j = node->journal;
	struct object_spec *mine = NULL;
	uint32_t mine_count = 0;
	enum checkpoint_place place;
	uint64_t lineage;
	int rc;

	if (!j)
		return 0;
	j->chosen = id;
	rc = node_checkpoint_next(node->checkpoint, false, &j->newest, err);
	if (rc < 0)
		return rc;
	j->newest--;
	if (!last_life(j))
		return 0;
	if (asked_for) {
		log_info("the journal is not applied: checkpoint %" PRIu64 " was asked for", id);
		return 0;
	}
	rc = journal_contents_from(j->contents, id, &j->first, err);
	if (rc < 0)
		return rc;
	if (read_catalogue(j, last_life(j)->story, &lineage, &mine, &mine_count, err) < 0)
		return err->code;
	place = journal_place(j, lineage, rc > 0);
	if (place != PLACE_WITHIN) {
		free(mine);
		if (place == PLACE_ELSEWHERE)
			return refuse_to_begin(j, err);
		log_warn("the journal had ended before checkpoint %" PRIu64
			 ", which the node begins with: it is not applied",
			 id);
		return 0;
	}
	if (!id) /* else the checkpoint's manifest has said it */
		node_checkpoint_begins(node->checkpoint, 0, lineage, 0);
	free(*specs);
	*specs = mine;
	*count = mine_count;
	j->usable = true;
	return 0;
}

/* Workers go on as if nothing had happened, if nothing has: every change that they were told of is there but for the
 * last moments', and how their requests ended. */
static bool may_inherit(const struct node_journal *j)
{
	const struct journal_past_life *last = last_life(j);

	return j->usable && !last->sums && last->whole && last->reactors == j->node->shards_count &&
	       last->partitions == j->node->config->partitions;
}

struct begin_message {
	struct reactor_message message;
	struct journal_ring *ring;
};

static void begin_on_reactor(void *ctx, struct reactor_message *message)
{
	struct shard *shard = ctx;

	shard->journal = ((struct begin_message *)message)->ring;
	service_journal_begin(shard->service, shard->journal);
	if (shard->node->config->journal_durability == CONFIG_DURABILITY_SYNC)
		node_gate_begin(shard);
}

/* What former lives leave of the limit to each reactor. */
static uint64_t room_of(const struct node_journal *j, uint64_t former_bytes)
{
	const uint64_t limit = (uint64_t)j->node->config->journal_limit_mib << 20;

	return (limit > former_bytes ? limit - former_bytes : 0) / j->node->shards_count;
}

static void describe_life(struct node_journal *j)
{
	const struct config *config = j->node->config;
	const struct journal_past_life *last = last_life(j);
	const uint64_t segment = (uint64_t)config->journal_segment_mib << 20, room = room_of(j, j->former_bytes);

	j->life = (struct journal_life){ .directory = config->journal_directory,
					 .number = j->contents->last + 1,
					 .reactors = j->node->shards_count,
					 .partitions = config->partitions,
					 .incarnation = j->node->incarnation,
					 .segment_bytes = segment,
					 .limit_bytes = room };
	/* Two files at least, smaller ones if there is little room. */
	if (room < 2 * segment)
		j->life.segment_bytes = RTE_MAX(room / 2 / JOURNAL_ALIGN * JOURNAL_ALIGN, (uint64_t)SEGMENT_MIN);
	if (j->usable) {
		j->life.flags = JOURNAL_GOES_ON;
		j->life.after = last->number;
		j->life.story = last->story;
		j->life.base = last->base;
		j->life.passed_over = last->passed_over;
	} else {
		j->life.story = j->life.number;
		j->life.base = j->chosen;
		j->life.passed_over = j->newest;
	}
}

static uint64_t former_of(const struct node_journal *j, unsigned reactor)
{
	const struct journal_past_life *last = last_life(j);
	uint64_t sum = 0;

	for (uint32_t r = reactor; j->usable && r < last->reactors; r += j->node->shards_count)
		sum += last->streams[r].end;
	return sum;
}

static int begin_to_write(struct node_journal *j, struct star_error *err)
{
	struct node *node = j->node;
	char whole[JOURNAL_NAME_MAX];
	int rc;

	describe_life(j);
	if (!j->usable) {
		j->counted_count = 0;
		if (j->chosen)
			add_counted(j, j->chosen, node_checkpoint_own_sum(node->checkpoint));
	}
	rc = write_catalogue(j, err);
	journal_whole_name(whole, j->life.number);
	if (rc == 0)
		rc = replace_file(j, whole, "", 0, err);
	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		j->writers[i] = journal_writer_create(&j->life, i, former_of(j, i), j->rings[i], err);
		rc = j->writers[i] ? 0 : err->code;
	}
	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		struct begin_message m = { .message.run = begin_on_reactor, .ring = j->rings[i] };

		rc = node_ask_copy(&node->shards[i], &m.message, sizeof(m), err);
	}
	return rc;
}

/* Takes back what begin_to_write has made. */
static void discard_life(struct node_journal *j)
{
	char name[JOURNAL_NAME_MAX];

	for (unsigned i = 0; i < j->node->shards_count; i++) {
		journal_writer_destroy(j->writers[i]);
		j->writers[i] = NULL;
		journal_segment_name(name, j->life.number, i, 1);
		unlinkat(j->folder, name, 0);
	}
	journal_whole_name(name, j->life.number);
	unlinkat(j->folder, name, 0);
}

static bool is_full(int code)
{
	return code == -ENOSPC || code == -EDQUOT;
}

static void fail_journal(struct node_journal *j, const struct star_error *why)
{
	if (!j->failure_told)
		log_error("%s. The node serves on without a journal: what comes from now on is lost when it dies, but "
			  "for what checkpoints have; restart it when that is mended",
			  why->text);
	j->failure_told = true;
}

/* All that the journal had was applied: better a node without a journal than none. Workers are not to go on as if it
 * had one, nor those of the life before, should the node come back to that. */
static void serve_without(struct node_journal *j, const struct star_error *why)
{
	char whole[JOURNAL_NAME_MAX];

	j->why = *why;
	j->ended = true;
	journal_whole_name(whole, last_life(j)->number);
	unlinkat(j->folder, whole, 0);
	fail_journal(j, why);
}

/* Begins to write, where it can. */
static int begin_life(struct node_journal *j, struct star_error *err)
{
	struct node *node = j->node;
	const char *directory = node->config->journal_directory;
	int rc = begin_to_write(j, err);

	if (rc == 0)
		return j->usable ? 0 : journal_remove(directory, j->life.number - 1, err);
	discard_life(j);
	if (j->usable && (is_full(rc) || rc == -EROFS || rc == -EIO || rc == -EFBIG)) {
		serve_without(j, err);
		return 0;
	}
	/* What is there is of no use; but for this, that younger checkpoints do not count. */
	if (!is_full(rc) || j->usable || j->newest > j->chosen ||
	    journal_remove(directory, j->life.number - 1, err) < 0)
		return rc;
	rc = begin_to_write(j, err);
	if (rc < 0)
		discard_life(j);
	return rc;
}

/* When former lives take more than half of the limit, they are to go soon; and where the disk has no room, at once. */
static void look_at_former(struct node_journal *j)
{
	const uint64_t limit = (uint64_t)j->node->config->journal_limit_mib << 20;

	if (!j->ended && j->former_bytes <= limit / 2)
		return;
	j->wants_checkpoint = true;
	if (!j->ended)
		log_warn("former lives of the journal take %" PRIu64
			 " MiB, more than half of journal.limit_mib: a checkpoint is begun, so that they can go",
			 j->former_bytes >> 20);
}

int node_journal_begin(struct node *node, const struct control_layout *layout, struct star_error *err)
{
	struct node_journal *j = node->journal;
	const uint32_t own = node->incarnation;
	int rc = node_journal_read(node, err);

	if (rc == 0 && layout->checkpoint != j->chosen)
		rc = star_error_set(err, -EINVAL,
				    "the node begins with checkpoint %" PRIu64 ", and its journal with %" PRIu64,
				    layout->checkpoint, j->chosen);
	if (rc == 0 && j->usable)
		rc = node_journal_apply(node, layout, err);
	if (rc < 0)
		return rc;
	if (j->usable) {
		journal_contents_cut(j->contents);
		j->former_bytes = j->contents->bytes;
	}
	if (may_inherit(j))
		node->incarnation = last_life(j)->incarnation;
	else if (j->usable && node->restored_rows + j->replayed_rows)
		log_info("workers have to open the cluster again: %s",
			 last_life(j)->sums	? "sums of gradients were open, which the journal does not have"
			 : !last_life(j)->whole ? "the journal had ended before the node did"
						: "the node has other reactors than before");
	rc = begin_life(j, err);
	if (rc < 0)
		return rc;
	if (j->ended)
		node->incarnation = own;
	else
		log_info("the journal goes on in %s, life %u", node->config->journal_directory, j->life.number);
	look_at_former(j);
	journal_contents_free(j->contents);
	j->contents = NULL;
	__atomic_store_n(&j->begun, true, __ATOMIC_RELEASE);
	return 0;
}

/* ---- while it serves ---- */

/* Without its catalogue a journal cannot be read: it ends. */
static void update_catalogue(struct node_journal *j)
{
	struct star_error err = { 0 };
	char whole[JOURNAL_NAME_MAX];

	if (j->failure_told || write_catalogue(j, &err) == 0)
		return;
	journal_whole_name(whole, j->life.number);
	unlinkat(j->folder, whole, 0);
	for (unsigned i = 0; i < j->node->shards_count; i++)
		journal_writer_fail(j->writers[i], &err);
	fail_journal(j, &err);
}

void node_journal_catalogue(struct node *node)
{
	struct node_journal *j = node->journal;

	if (!j || !j->begun)
		return;
	pthread_mutex_lock(&j->lock);
	update_catalogue(j);
	pthread_mutex_unlock(&j->lock);
}

void node_journal_counts(struct node *node, uint64_t id, uint32_t sum)
{
	struct node_journal *j = node->journal;

	if (!j || !j->begun)
		return;
	pthread_mutex_lock(&j->lock);
	add_counted(j, id, sum);
	update_catalogue(j);
	pthread_mutex_unlock(&j->lock);
	for (unsigned i = 0; !j->ended && i < node->shards_count; i++)
		journal_writer_keep_from(j->writers[i], id);
	__atomic_store_n(&j->wants_checkpoint, false, __ATOMIC_RELAXED);
	__atomic_store_n(&j->kept_id, id, __ATOMIC_RELEASE);
}

bool node_journal_wants_checkpoint(void *ctx)
{
	const struct node *node = ctx;
	const struct node_journal *j = node->journal;

	return j && __atomic_load_n(&j->begun, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&j->wants_checkpoint, __ATOMIC_RELAXED);
}

/* What a checkpoint has makes former lives useless. */
static void remove_former(struct node_journal *j)
{
	struct star_error why = { 0 };

	if (journal_remove(j->node->config->journal_directory, j->life.number - 1, &why) < 0)
		log_warn("former lives of the journal stay: %s", why.text);
	else
		__atomic_store_n(&j->former_bytes, 0, __ATOMIC_RELAXED);
	for (unsigned i = 0; !j->ended && i < j->node->shards_count; i++)
		journal_writer_limit(j->writers[i], room_of(j, j->former_bytes));
	j->removed = true;
}

void node_journal_watch(struct node *node)
{
	struct node_journal *j = node->journal;
	struct journal_figures sum = { 0 };
	struct star_error why = { 0 };
	uint64_t kept;

	if (!j || !__atomic_load_n(&j->begun, __ATOMIC_ACQUIRE))
		return;
	node_journal_add(j, &sum, &why);
	if (sum.failed)
		fail_journal(j, &why);
	kept = __atomic_load_n(&j->kept_id, __ATOMIC_ACQUIRE);
	if (!kept || j->removed)
		return;
	for (unsigned i = 0; !j->ended && i < node->shards_count; i++)
		if (!journal_writer_keeps_from(j->writers[i], kept))
			return;
	remove_former(j);
}

static void write_outcome(void *ctx, const struct rpc_outcome *outcome)
{
	const struct shard *shard = ctx;

	service_journal_outcome(shard->service, outcome);
}

unsigned node_journal_turn(struct shard *shard, uint64_t now_ns)
{
	const uint64_t due = service_journal_sessions_due(shard->service);
	unsigned hurry;

	if (unlikely(due)) {
		if (due != shard->sessions_of)
			shard->sessions_at = 0;
		shard->sessions_of = due;
		if (!rpc_outcomes(shard->rpc, &shard->sessions_at, SESSIONS_PER_TURN, write_outcome, shard)) {
			service_journal_sessions_done(shard->service, due);
			shard->sessions_of = 0;
		}
	}
	hurry = service_journal_turn(shard->service, now_ns, shard->slices != 0);
	node_gate_published(shard);
	return hurry + (due != 0);
}
