/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's health, its metrics, and its log level. */
#include "app/starctl/starctl.h"

static void print_sentences(const json_t *sentences, bool first, FILE *out)
{
	const json_t *sentence;
	size_t i;

	json_array_foreach(sentences, i, sentence)
	{
		fprintf(out, "%s", i || !first ? "; " : "");
		print_text(json_string_value(sentence), out);
	}
}

/* Notes are not shown together with problems, so that those are not overlooked. */
static void render_health(const json_t *health, FILE *out)
{
	const json_t *problems = json_object_get(health, "problems");

	if (json_array_size(problems) == 0) {
		fprintf(out, "ok: ");
		print_text(json_string_value(json_object_get(health, "state")), out);
		print_sentences(json_object_get(health, "notes"), false, out);
	}
	print_sentences(problems, true, out);
	fputc('\n', out);
	fflush(out);
}

int run_health(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *health = ask(invocation, "health", NULL, &err);
	bool healthy;

	if (!health)
		return fail(invocation, &err, STARCTL_FAILED);
	healthy = json_is_true(json_object_get(health, "healthy"));
	print(invocation, health, render_health);
	return healthy ? STARCTL_OK : STARCTL_FAILED;
}

int run_metrics(const struct invocation *invocation)
{
	json_int_t from = 0;

	do {
		struct star_error err = { 0 };
		json_t *page = ask(invocation, "metrics", json_pack("{s:I}", "from", from), &err);
		const json_t *next;

		if (!page)
			return fail(invocation, &err, STARCTL_FAILED);
		next = json_object_get(page, "next");
		from = next ? json_integer_value(next) : -1;
		if (invocation->json)
			print_json(json_incref(page), invocation->out);
		else
			fputs(json_string_value(json_object_get(page, "text")), invocation->out);
		json_decref(page);
	} while (from > 0);
	fflush(invocation->out);
	return STARCTL_OK;
}

static void render_log_level(const json_t *level, FILE *out)
{
	print_text(json_string_value(json_object_get(level, "level")), out);
	fputc('\n', out);
}

int run_log_level(const struct invocation *invocation)
{
	return show(invocation, "log_level", invocation->argc ? json_pack("{s:s}", "level", invocation->argv[0]) : NULL,
		    render_log_level);
}
