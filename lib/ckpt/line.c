/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/line.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt/element.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "tensor/dtype.h"

/* ---- written ---- */

int ckpt_line_table(FILE *out, const struct object_spec *spec, uint32_t partitions,
		    const struct checkpoint_table *figures)
{
	struct object_spec without_id = *spec;
	json_t *json;
	int rc = 0;

	without_id.id = without_id.generation = 0;
	json = json_pack("{s:o, s:i, s:o, s:o, s:o, s:I}", "table", jsonrpc_object_encode(&without_id), "partitions",
			 partitions, "step", jsonrpc_member_from_u64(figures->step), "pushes",
			 jsonrpc_member_from_u64(figures->pushes), "removed", jsonrpc_member_from_u64(figures->removed),
			 "looks", (json_int_t)figures->looks);
	if (!json || json_dumpf(json, out, 0) < 0 || fputc('\n', out) == EOF)
		rc = -EIO;
	json_decref(json);
	return rc;
}

void ckpt_line_elements(FILE *out, const char *name, unsigned dtype, const uint8_t *from, uint32_t n)
{
	const unsigned bytes = dtype_bytes(dtype);
	char text[ELEMENT_TEXT];

	fprintf(out, "\"%s\": [", name);
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			fputs(", ", out);
		fwrite(text, 1, (size_t)ckpt_element_print(dtype, from + (size_t)i * bytes, text), out);
	}
	fputc(']', out);
}

void ckpt_line_key(FILE *out, const char *name, uint64_t key)
{
	/* JSON libraries have signed numbers (jsonrpc/member.h). */
	fprintf(out, key > INT64_MAX ? "{\"%s\": \"%" PRIu64 "\"" : "{\"%s\": %" PRIu64, name, key);
}

static void print_word(FILE *out, const char *name, const uint8_t *row, uint32_t at)
{
	uint32_t word;

	if (!at)
		return;
	memcpy(&word, row + at, sizeof(word));
	fprintf(out, ", \"%s\": %" PRIu32, name, word);
}

/* Rows count back from the look-ups of their own checkpoint, lines from those of the newest. */
static void print_used(FILE *out, const struct ckpt_row_shape *shape, uint32_t aged, const uint8_t *row)
{
	uint64_t used;
	uint32_t word;

	if (!shape->used)
		return;
	memcpy(&word, row + shape->used, sizeof(word));
	used = (uint64_t)word + aged;
	if (aged && used > INT32_MAX)
		used = INT32_MAX;
	fprintf(out, ", \"used\": %" PRIu64, used);
}

static void print_values(FILE *out, const struct object_spec *spec, const uint8_t *values)
{
	char text[ELEMENT_TEXT];

	fputs(", ", out);
	if (spec->dtype == STAR_SCALED_INT8) {
		ckpt_element_print(STAR_FLOAT32, values, text);
		fprintf(out, "\"scale\": %s, ", text);
		ckpt_line_elements(out, "values", STAR_INT8, values + sizeof(float), spec->dim);
	} else {
		ckpt_line_elements(out, "values", spec->dtype, values, spec->dim);
	}
}

void ckpt_line_row(FILE *out, const struct object_spec *spec, const struct ckpt_row_shape *s, uint32_t aged,
		   const uint8_t *row)
{
	const unsigned slot_type = s->slot_width == sizeof(double) ? STAR_FLOAT64 : STAR_FLOAT32;
	uint64_t key;

	memcpy(&key, row, sizeof(key));
	ckpt_line_key(out, "key", key);
	print_word(out, "version", row, s->version);
	print_word(out, "rounds", row, s->rounds);
	print_word(out, "frequency", row, s->frequency);
	print_used(out, s, aged, row);
	print_word(out, "seen", row, s->seen);
	if (s->words)
		print_word(out, s->optim.word_name, row, s->words);
	print_values(out, spec, row + s->values);
	if (s->masters) {
		fputs(", ", out);
		ckpt_line_elements(out, "masters", STAR_FLOAT32, row + s->masters, spec->dim);
	}
	for (unsigned i = 0; i < s->optim.slots; i++) {
		fputs(i ? ", " : ", \"slots\": {", out);
		ckpt_line_elements(out, s->optim.slot_names[i], slot_type,
				   row + s->slots + (size_t)i * spec->dim * s->slot_width, spec->dim);
	}
	fputs(s->optim.slots ? "}}\n" : "}\n", out);
}

/* ---- read ---- */

void ckpt_line_members(const struct object_spec *spec, const struct ckpt_row_shape *s,
		       const char *names[static CKPT_LINE_MEMBERS])
{
	const struct {
		const char *name;
		bool there;
	} all[] = {
		{ "key", true },
		{ "version", s->version },
		{ "rounds", s->rounds },
		{ "frequency", s->frequency },
		{ "used", s->used },
		{ "seen", s->seen },
		{ s->optim.word_name, s->words },
		{ "scale", spec->dtype == STAR_SCALED_INT8 },
		{ "values", true },
		{ "masters", s->masters },
		{ "slots", s->slots },
	};
	unsigned count = 0;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].there)
			names[count++] = all[i].name;
	names[count] = NULL;
}

int ckpt_line_read_elements(const json_t *json, const char *name, unsigned dtype, uint8_t *to, uint32_t n,
			    struct star_error *err)
{
	const json_t *list = json_object_get(json, name), *element;
	const unsigned bytes = dtype_bytes(dtype);
	size_t i;

	if (!json_is_array(list) || json_array_size(list) != n)
		return star_error_set(err, -EINVAL, "member \"%s\" must be an array of %u elements", name, n);
	json_array_foreach(list, i, element)
	{
		if (!ckpt_element_parse(dtype, element, to + i * bytes))
			return star_error_set(err, -EINVAL, "member \"%s\": element %zu is not a valid %s", name, i,
					      dtype_name(dtype));
	}
	return 0;
}

int ckpt_line_read_key(const json_t *json, const char *name, uint64_t *key, struct star_error *err)
{
	const json_t *member = json_object_get(json, name);

	if (!json_is_integer(member))
		return jsonrpc_member_u64(json, name, key, err);
	*key = (uint64_t)json_integer_value(member);
	return 0;
}

int ckpt_line_read_values(const json_t *json, const struct object_spec *spec, uint8_t *values, struct star_error *err)
{
	if (spec->dtype != STAR_SCALED_INT8)
		return ckpt_line_read_elements(json, "values", spec->dtype, values, spec->dim, err);
	if (!ckpt_element_parse(STAR_FLOAT32, json_object_get(json, "scale"), values))
		return star_error_set(err, -EINVAL, "member \"scale\" must be a number");
	return ckpt_line_read_elements(json, "values", STAR_INT8, values + sizeof(float), spec->dim, err);
}
