/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the definition of a table or a variable from the words of a command line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "tensor/dtype.h"
#include "wire/object.h"

enum { OPTIONS_BYTES = 4096 };

/* "100x64" */
static int read_shape(struct object_spec *spec, const char *text, struct star_error *err)
{
	const char *at = text;

	spec->kind = OBJECT_VARIABLE;
	do {
		char *end;

		errno = 0;
		if (*at < '0' || *at > '9' || spec->ndim == OBJECT_NDIM_MAX)
			break;
		spec->shape[spec->ndim++] = strtoull(at, &end, 10);
		if (errno || (*end && *end != 'x'))
			break;
		if (!*end)
			return 0;
		at = end + 1;
	} while (true);
	return star_error_set(err, -EINVAL, "shape is \"%s\": 1 to %d sizes are needed, as in shape=100x64", text,
			      OBJECT_NDIM_MAX);
}

static int read_dim(struct object_spec *spec, const char *text, struct star_error *err)
{
	char *end;
	unsigned long dim;

	errno = 0;
	dim = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || dim > UINT32_MAX)
		return star_error_set(err, -EINVAL, "dim is \"%s\": a number from 1 to %d is needed", text,
				      WIRE_DIM_MAX);
	spec->kind = OBJECT_TABLE;
	spec->dim = (uint32_t)dim;
	return 0;
}

/* The value in "name=value"; NULL: another word. */
static const char *value_of(const char *word, const char *name)
{
	const size_t bytes = strlen(name);

	return strncmp(word, name, bytes) == 0 && word[bytes] == '=' ? word + bytes + 1 : NULL;
}

/* Parses a word of the command line; options are added to `options`, OPTIONS_BYTES long. */
static int read_word(const char *word, struct object_spec *spec, unsigned *optimizer, char *options,
		     struct star_error *err)
{
	const size_t used = strlen(options);
	const char *value;

	if ((value = value_of(word, "dim")))
		return read_dim(spec, value, err);
	if ((value = value_of(word, "shape")))
		return read_shape(spec, value, err);
	if ((value = value_of(word, "dtype"))) {
		spec->dtype = (uint8_t)dtype_parse(value);
		return spec->dtype
			       ? 0
			       : star_error_set(err, -EINVAL, "there is no element type \"%s\"; possible values are %s",
						value, dtype_names());
	}
	if ((value = value_of(word, "optimizer"))) {
		*optimizer = optim_kind_parse(value);
		return *optimizer ? 0
				  : star_error_set(err, -EINVAL, "there is no optimizer \"%s\"; possible values are %s",
						   value, optim_kind_names());
	}
	if (used + strlen(word) + 2 > OPTIONS_BYTES)
		return star_error_set(err, -EINVAL, "the options have more than %d bytes", OPTIONS_BYTES);
	sprintf(options + used, "%s,", word);
	return 0;
}

/* Other options are checked together (wire_object_spec_options). */
static int check_once(char *const *words, int word, struct star_error *err)
{
	const char *equals = strchr(words[word], '=');
	const int bytes = equals ? (int)(equals - words[word]) : 0;

	for (int i = 0; bytes && i < word; i++)
		if (strncmp(words[i], words[word], (size_t)bytes + 1) == 0)
			return star_error_set(err, -EINVAL, "%.*s is given twice: \"%.40s\" and \"%.40s\"", bytes,
					      words[word], words[i], words[word]);
	return 0;
}

int spec_read(const char *name, int words_count, char *const *words, struct object_spec *spec, struct star_error *err)
{
	char options[OPTIONS_BYTES] = "";
	unsigned optimizer = 0;

	*spec = (struct object_spec){ .dtype = STAR_FLOAT32 };
	if (strlen(name) > WIRE_NAME_MAX)
		return star_error_set(err, -EINVAL, "the name has %zu bytes: 1 to %d are possible", strlen(name),
				      WIRE_NAME_MAX);
	strcpy(spec->name, name);
	for (int i = 0; i < words_count; i++)
		if (check_once(words, i, err) < 0 || read_word(words[i], spec, &optimizer, options, err) < 0)
			return -EINVAL;
	if (!spec->kind || (spec->dim && spec->ndim))
		return star_error_set(err, -EINVAL, "one of dim= (a table) and shape= (a variable) is needed");
	if (!optimizer)
		optimizer = dtype_is_real(spec->dtype) ? OPTIM_SGD : OPTIM_NONE;
	wire_object_spec_defaults(spec, optimizer);
	return wire_object_spec_options(spec, options, err) < 0 ? -EINVAL : wire_object_spec_check(spec, err);
}
