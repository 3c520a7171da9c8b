/* SPDX-License-Identifier: BSD-3-Clause */
/* Promotes a node of a pair. */
#include "app/starctl/starctl.h"

enum { PROMOTE_US = 80000000 };

static void render_promotion(const json_t *result, FILE *out)
{
	const bool deposed = json_is_true(json_object_get(result, "deposed"));
	const char *why = json_string_value(json_object_get(result, "not_deposed"));

	fprintf(out, "it is the primary, generation %lld\n",
		(long long)json_integer_value(json_object_get(result, "generation")));
	if (json_is_true(json_object_get(result, "took_back")))
		fprintf(out, "it had stopped in favour of the other node, and serves again with all its data\n");
	else if (deposed && json_is_true(json_object_get(result, "whole")))
		fprintf(out, "the other node has stopped serving, and all its data was received\n");
	else if (deposed)
		fprintf(out, "the other node has stopped serving; what it did in its last moments was not received\n");
	else
		fprintf(out, "the other node could not be asked to stop; its last lease has ended (after %lld ms)\n",
			(long long)json_integer_value(json_object_get(result, "waited_ms")));
	if (why) {
		fprintf(out, "why: ");
		print_text(why, out);
		fprintf(out,
			"\nit was last heard from %lld ms before; what it has acknowledged since then is lost if "
			"standby.durability is \"async\", and only then\n",
			(long long)json_integer_value(json_object_get(result, "silent_ms")));
	}
	if (!json_is_true(json_object_get(result, "inherits")))
		fprintf(out, "workers have to open the cluster again\n");
	fflush(out);
}

int run_promote(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	json_t *result = ask_within(invocation, "promote", NULL, PROMOTE_US, &err);

	return result ? print(invocation, result, render_promotion) : fail(invocation, &err, STARCTL_FAILED);
}
