/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

void control_audit_hash(const char *line, size_t bytes, char hash[static AUDIT_HASH_TEXT])
{
	unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
	unsigned size = 0;

	if (!EVP_Digest(line, bytes, digest, &size, EVP_sha256(), NULL))
		size = 0;
	hash[0] = 0;
	for (unsigned i = 0; i < size && i < (AUDIT_HASH_TEXT - 1) / 2; i++)
		snprintf(hash + 2 * i, 3, "%02x", digest[i]);
}

static int bad(const char *name, uint64_t number, const char *why, struct star_error *err)
{
	return star_error_set(err, -EBADMSG, "%.200s:%" PRIu64 ": %s", name, number, why);
}

/* What is wrong with a line, given those before it; NULL: nothing. */
static const char *look_at_line(const json_t *json, struct audit_check *check)
{
	const json_t *number = json_object_get(json, "n"), *lost = json_object_get(json, "lost");
	const char *previous = json_string_value(json_object_get(json, "previous"));
	uint64_t n;

	if (!json_is_integer(number) || json_integer_value(number) < 0 || !previous ||
	    strlen(previous) != AUDIT_HASH_TEXT - 1)
		return "it is not a line of an audit log";
	n = (uint64_t)json_integer_value(number);
	if (check->lines == 0) {
		check->first = n;
		strcpy(check->begins, previous);
	} else if (strcmp(previous, check->ends) != 0) {
		return "the line before it is not the one that was there when this was written: one was changed, "
		       "taken out or put in";
	} else if (n != check->last + 1) {
		return "its number does not follow that of the line before it";
	}
	if (json_is_integer(lost) && json_integer_value(lost) > 0)
		check->lost += (uint64_t)json_integer_value(lost);
	check->failures += json_is_integer(json_object_get(json, "failures"));
	check->last = n;
	check->lines++;
	return NULL;
}

int control_audit_verify_line(const char *line, size_t bytes, const char *name, uint64_t number,
			      struct audit_check *check, struct star_error *err)
{
	json_error_t ignored;
	const char *why;
	json_t *json;

	if (bytes >= AUDIT_LINE_MAX)
		return bad(name, number, "it is longer than any line of an audit log", err);
	json = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &ignored);
	why = json_is_object(json) ? look_at_line(json, check) : "it is not a JSON object";
	json_decref(json);
	if (why)
		return bad(name, number, why, err);
	control_audit_hash(line, bytes, check->ends);
	return 0;
}

int control_audit_verify(FILE *file, const char *name, struct audit_check *check, struct star_error *err)
{
	char line[AUDIT_LINE_MAX + 1];
	uint64_t number = 0;
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), file)) {
		const size_t bytes = strlen(line);

		number++;
		if (bytes == 0 || line[bytes - 1] != '\n')
			rc = bad(name, number, feof(file) ? "it has no end" : "it is not a line of an audit log", err);
		else
			rc = control_audit_verify_line(line, bytes - 1, name, number, check, err);
	}
	if (rc == 0 && ferror(file))
		rc = star_error_set(err, -EIO, "%.200s cannot be read", name);
	if (rc == 0 && number == 0)
		rc = star_error_set(err, -ENODATA, "%.200s has no lines", name);
	return rc;
}
