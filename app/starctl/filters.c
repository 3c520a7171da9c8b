/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of the form NAME=VALUE, which select what is shown. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"

/* "name=value" as a member of the call's parameters. */
static int add_filter(const struct filter *filters, const char *help, const char *word, json_t *params,
		      struct star_error *err)
{
	const char *equals = strchr(word, '=');
	const size_t bytes = equals ? (size_t)(equals - word) : 0;
	const struct filter *f = filters;
	char *end;

	while (f->name && (strlen(f->name) != bytes || memcmp(f->name, word, bytes) != 0))
		f++;
	if (!f->name)
		return star_error_set(err, -EINVAL, "\"%.80s\" is not a filter; the filters are %s", word, help);
	if (json_object_get(params, f->name))
		return star_error_set(err, -EINVAL, "the filter %s is given twice", f->name);
	if (f->number) {
		const unsigned long long value = strtoull(equals + 1, &end, 10);

		if (equals[1] < '0' || equals[1] > '9' || *end || value > INT32_MAX)
			return star_error_set(err, -EINVAL, "%s needs a number, not \"%.40s\"", f->name, equals + 1);
		json_object_set_new(params, f->name, json_integer((json_int_t)value));
	} else {
		json_object_set_new(params, f->name, json_string(equals + 1));
	}
	return 0;
}

json_t *take_filters(const struct filter *filters, const char *help, int argc, char **argv, struct star_error *err)
{
	json_t *params = json_object();

	for (int i = 0; i < argc; i++)
		if (add_filter(filters, help, argv[i], params, err) < 0) {
			json_decref(params);
			return NULL;
		}
	return params;
}

void print_filters(const struct filter *filters, FILE *out)
{
	for (; filters->name; filters++)
		fprintf(out, "%s=\n", filters->name);
}
