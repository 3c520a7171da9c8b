/* SPDX-License-Identifier: BSD-3-Clause */
/* Catalogues that one message does not have, and lines behind a file that one write would be too long for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/node.h"
#include "jsonrpc/member.h"
#include "jsonrpc/summed.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"

enum { MANY = 2 * JSONRPC_OBJECTS_PAGE + 52 }; /* three pages */

static void create_many(struct node *node, unsigned count)
{
	struct star_error err = { 0 };
	struct jsonrpc_client *client = jsonrpc_connect(node->address, CALL_US, &err);
	char name[32];

	for (unsigned i = 1; client && i <= count; i++) {
		json_t *result;

		snprintf(name, sizeof(name), "feature/%05u", i);
		result = jsonrpc_call(client, "create", table_json(name, 8), CALL_US, &err);
		if (!CHECK_INT(json_integer_value(json_object_get(result, "id")), i))
			count = 0;
		json_decref(result);
	}
	CHECK(client);
	jsonrpc_close(client);
}

/* Page by page; returns how many there are, and checks that their ids rise. */
static unsigned count_tables(const struct node *node)
{
	struct star_error err = { 0 };
	uint32_t from = 1, last = 0;
	unsigned count = 0;

	while (from) {
		json_t *page = call(node->address, "tables", json_pack("{s:I}", "from", (json_int_t)from), &err);
		const json_t *table;
		size_t i;

		if (!CHECK(page))
			return count;
		json_array_foreach(json_object_get(page, "tables"), i, table)
		{
			const uint32_t id = (uint32_t)json_integer_value(json_object_get(table, "id"));

			count += id > last;
			last = id;
		}
		from = (uint32_t)json_integer_value(json_object_get(page, "next"));
		CHECK(from == 0 || from > last);
		json_decref(page);
	}
	return count;
}

static void drop_table(const struct node *node, const char *name)
{
	struct star_error err = { 0 };
	json_t *result = call(node->address, "table_drop", json_pack("{s:s}", "name", name), &err);

	if (!CHECK(result))
		printf("# %s\n", err.text);
	json_decref(result);
}

/* Both ways: what a node holds goes to PS task 0 by pages, and the catalogue goes by pages to a node that lacks
 * something. */
void catalogues_go_by_pages(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	create_many(&cluster.nodes[0], MANY);
	CHECK_UINT(count_tables(&cluster.nodes[1]), MANY);
	/* The other one begins with nothing, and is told all. */
	node_stop(&cluster, 1);
	node_start(&cluster, 1, 201);
	CHECK(wait_epoch(&cluster.nodes[1], 2));
	CHECK_UINT(count_tables(&cluster.nodes[1]), MANY);
	/* PS task 0 begins with nothing, and is told all by the other one. */
	node_stop(&cluster, 0);
	node_start(&cluster, 0, 300);
	free(wait_layout(&cluster, 3));
	CHECK_UINT(count_tables(&cluster.nodes[0]), MANY);
	CHECK_INT(create_table(&cluster.nodes[0], "feature/02000", 8, &err), 2000);
	CHECK_INT(create_table(&cluster.nodes[0], "one more", 8, &err), MANY + 1);
	CHECK_UINT(count_tables(&cluster.nodes[0]), MANY + 1);
	/* What was dropped on a page in the middle is gone, and its name free. */
	drop_table(&cluster.nodes[0], "feature/01500");
	CHECK_UINT(count_tables(&cluster.nodes[0]), MANY);
	CHECK_UINT(count_tables(&cluster.nodes[1]), MANY);
	CHECK_INT(create_table(&cluster.nodes[0], "feature/01500", 16, &err), MANY + 2);
	cluster_fini(&cluster);
}

void tables_are_listed_by_pages(void)
{
	static const struct {
		const char *params, *says;
		int code;
	} bad[] = {
		{ "{\"from\": 0}", "1 to 16384, not 0", -EINVAL },
		{ "{\"from\": 16385}", "1 to 16384, not 16385", -EINVAL },
		{ "{\"from\": \"1\"}", "\"from\"", -EINVAL },
		{ "{\"from\": 1, \"name\": \"feature/00001\"}", "unknown member \"from\"", -EINVAL },
		{ "{\"name\": \"feature/0001\"}", "did you mean \"feature/00001\"?", -ENOENT },
		/* Earlier releases asked for all in one message: such a request gets an error that says what to do, and
		 * not a part of them. */
		{ "{}", "ask for them by pages", -EMSGSIZE },
	};
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *tables;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	create_many(&cluster.nodes[0], JSONRPC_OBJECTS_PAGE);
	tables = call(cluster.nodes[0].address, "tables", NULL, &err);
	CHECK_UINT(json_array_size(tables), JSONRPC_OBJECTS_PAGE);
	json_decref(tables);
	CHECK_INT(create_table(&cluster.nodes[0], "one more", 8, &err), JSONRPC_OBJECTS_PAGE + 1);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!call(cluster.nodes[0].address, "tables", json_loads(bad[i].params, 0, NULL), &err));
		CHECK_INT(err.code, bad[i].code);
		CHECK_HAS(err.text, bad[i].says);
	}
	tables = call(cluster.nodes[0].address, "tables", json_pack("{s:s}", "name", "feature/00007"), &err);
	CHECK_UINT(json_array_size(tables), 1);
	json_decref(tables);
	tables = call(cluster.nodes[0].address, "tables", json_pack("{s:i}", "from", JSONRPC_OBJECTS_PAGE + 1), &err);
	CHECK_UINT(json_array_size(json_object_get(tables, "tables")), 1);
	CHECK(!json_object_get(tables, "next"));
	json_decref(tables);
	CHECK_UINT(count_tables(&cluster.nodes[0]), JSONRPC_OBJECTS_PAGE + 1);
	cluster_fini(&cluster);
}

static unsigned listed(const json_t *catalogue, const char *member)
{
	return (unsigned)json_array_size(json_object_get(catalogue, member));
}

/* After the whole catalogue a standby gets what came and went, however much there is. */
void a_standby_is_told_what_has_changed(void)
{
	struct cluster primary, standby;
	struct control *from, *to;
	struct star_error err = { 0 };
	json_t *catalogue;
	uint64_t version;
	uint32_t epoch;

	cluster_init(&primary, 1);
	cluster_init(&standby, 1);
	cluster_start(&primary);
	cluster_start(&standby);
	from = primary.nodes[0].control;
	to = standby.nodes[0].control;
	create_many(&primary.nodes[0], 40);
	version = control_pair_version(from);
	catalogue = control_pair_catalogue(from, CONTROL_PAIR_ALL);
	CHECK_UINT(listed(catalogue, "objects"), 40);
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	CHECK_UINT(PLANE(&standby.nodes[0], installed_count), 40);
	json_decref(catalogue);
	/* Nothing has changed. */
	catalogue = control_pair_catalogue(from, version);
	CHECK_UINT(listed(catalogue, "objects") + listed(catalogue, "gone") + listed(catalogue, "generations"), 0);
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	CHECK_UINT(count_tables(&standby.nodes[0]), 40);
	json_decref(catalogue);
	/* One is dropped, one comes, one is another table of its name and id. */
	drop_table(&primary.nodes[0], "feature/00005");
	drop_table(&primary.nodes[0], "feature/00040");
	CHECK_INT(create_table(&primary.nodes[0], "feature/00040", 16, &err), 40);
	CHECK_INT(create_table(&primary.nodes[0], "more", 8, &err), 41);
	catalogue = control_pair_catalogue(from, version);
	CHECK_UINT(listed(catalogue, "objects"), 2);
	CHECK_UINT(listed(catalogue, "gone"), 1);
	CHECK_UINT(listed(catalogue, "generations"), 2);
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	CHECK_UINT(count_tables(&standby.nodes[0]), 40);
	CHECK_INT(create_table(&standby.nodes[0], "feature/00040", 8, &err), -EEXIST);
	CHECK_INT(create_table(&standby.nodes[0], "feature/00039", 8, &err), 39);
	/* The same again changes nothing, and what is not an id is refused. */
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), 0);
	CHECK_UINT(count_tables(&standby.nodes[0]), 40);
	for (int id = 0; id <= WIRE_OBJECTS_MAX + 1; id += WIRE_OBJECTS_MAX + 1) {
		json_object_set_new(catalogue, "gone", json_pack("[i, i]", 1, id));
		CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), -EPROTO);
	}
	json_object_set_new(catalogue, "gone", json_true());
	CHECK_INT(control_pair_take(to, catalogue, &epoch, &err), -EPROTO);
	CHECK_UINT(count_tables(&standby.nodes[0]), 40);
	json_decref(catalogue);
	cluster_fini(&primary);
	cluster_fini(&standby);
}

/* What is left of a text, with its lines; -1: it is damaged. */
static int lines_of(const char *text, size_t bytes)
{
	size_t at = jsonrpc_summed_end(text, bytes);
	struct star_error err = { 0 };
	json_t *json = jsonrpc_summed_parse(text, at, &err);
	int count = 0;

	if (!json)
		return -1;
	json_decref(json);
	while ((json = jsonrpc_summed_next(text, bytes, &at, &err))) {
		CHECK_INT(json_integer_value(json_object_get(json, "n")), count);
		json_decref(json);
		count++;
	}
	return err.code ? -1 : count;
}

/* Of a text that was cut there, and ends in zeros, as a file system may leave it that lost power. */
static int lines_before_zeros(const char *text, size_t cut, size_t zeros)
{
	char *zeroed = calloc(1, cut + zeros);
	int count;

	memcpy(zeroed, text, cut);
	count = lines_of(zeroed, cut + zeros);
	free(zeroed);
	return count;
}

/* However it is cut: all whole lines are there, and no part of one. Any other byte is noticed. */
void lines_behind_a_text_are_whole_or_not_there(void)
{
	enum { LINES = 3 };
	json_t *json = json_pack("{s:i}", "a", 1);
	size_t bytes, ends[LINES + 1], line_bytes;
	char *text = jsonrpc_summed_text(json, JSON_INDENT(1), &bytes), *line;

	json_decref(json);
	ends[0] = bytes;
	for (int n = 0; n < LINES; n++) {
		json = json_pack("{s:i, s:s}", "n", n, "of", n == 1 ? "a name\n with \"crc32\"" : "b");
		line = jsonrpc_summed_line(json, &line_bytes);
		json_decref(json);
		text = realloc(text, bytes + line_bytes);
		memcpy(text + bytes, line, line_bytes);
		free(line);
		ends[n + 1] = bytes += line_bytes;
	}
	CHECK_INT(lines_of(text, bytes), LINES);
	for (size_t cut = ends[0]; cut < bytes; cut++) {
		int whole = 0;

		while (whole < LINES && ends[whole + 1] <= cut)
			whole++;
		CHECK_INT(lines_of(text, cut), whole);
		/* One whose newline alone is another byte was changed. */
		for (size_t zeros = 1; zeros < 6000; zeros = zeros * 3 + 1)
			CHECK_INT(lines_before_zeros(text, cut, zeros), cut + 1 == ends[whole + 1] ? -1 : whole);
	}
	for (size_t at = 0; at < bytes; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			text[at] = (char)(text[at] ^ 1 << bit);
			CHECK_INT(lines_of(text, bytes), -1);
			text[at] = (char)(text[at] ^ 1 << bit);
		}
	free(text);
}
