/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues of a running cluster. */
#include <inttypes.h>

#include "app/starctl/starctl.h"

static uint64_t number(const json_t *queue, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(queue, name));
}

static void render_queues(const json_t *queues, FILE *out)
{
	struct table table;
	const json_t *queue;
	size_t i;

	if (json_array_size(queues) == 0) {
		fprintf(out, "there are no work queues\n");
		return;
	}
	table_init(&table);
	table_column(&table, "QUEUE", false);
	table_column(&table, "SLICES", true);
	table_column(&table, "EPOCHS", true);
	table_column(&table, "DONE", true);
	table_column(&table, "ASSIGNED", true);
	table_column(&table, "WAITING", true);
	table_column(&table, "EXPIRED", true);
	table_column(&table, "DESCRIPTION", false);
	json_array_foreach(queues, i, queue)
	{
		table_row(&table);
		table_set(&table, 0, "%s", json_string_value(json_object_get(queue, "name")));
		table_set(&table, 1, "%" PRIu64, number(queue, "slices"));
		table_set(&table, 2, "%" PRIu64, number(queue, "epochs"));
		table_set(&table, 3, "%" PRIu64, number(queue, "done"));
		table_set(&table, 4, "%" PRIu64, number(queue, "at_work"));
		table_set(&table, 5, "%" PRIu64, number(queue, "waiting"));
		table_set(&table, 6, "%" PRIu64, number(queue, "expired"));
		table_set(&table, 7, "%s", json_string_value(json_object_get(queue, "text")));
	}
	table_print(&table, out);
	table_fini(&table);
}

int run_queue_list(const struct invocation *invocation)
{
	return show(invocation, "queues", NULL, render_queues);
}

static void render_dropped(const json_t *result, FILE *out)
{
	(void)result;
	fprintf(out, "dropped\n");
}

int run_queue_drop(const struct invocation *invocation)
{
	return show(invocation, "queue_drop", json_pack("{s:s}", "name", invocation->argv[0]), render_dropped);
}
