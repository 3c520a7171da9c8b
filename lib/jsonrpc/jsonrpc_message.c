/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc/jsonrpc_message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/member.h"

enum { ERRNO_MAX = 4095 };

static bool valid_id(const json_t *id)
{
	return json_is_string(id) || json_is_number(id) || json_is_null(id);
}

static int read_members(struct jsonrpc_request *request, struct star_error *err)
{
	const json_t *id = json_object_get(request->root, "id");
	const char *version = json_string_value(json_object_get(request->root, "jsonrpc"));

	if (id && !valid_id(id))
		return star_error_set(err, JSONRPC_INVALID_REQUEST, "\"id\" must be a string, a number or null");
	request->id = id;
	if (!version || strcmp(version, "2.0") != 0)
		return star_error_set(err, JSONRPC_INVALID_REQUEST, "\"jsonrpc\" must be the string \"2.0\"");
	request->method = json_string_value(json_object_get(request->root, "method"));
	if (!request->method)
		return star_error_set(err, JSONRPC_INVALID_REQUEST, "\"method\" must be a string");
	request->params = json_object_get(request->root, "params");
	if (request->params && !json_is_object(request->params) && !json_is_array(request->params))
		return star_error_set(err, JSONRPC_INVALID_REQUEST, "\"params\" must be an object");
	return 0;
}

int jsonrpc_request_parse(const char *line, size_t bytes, struct jsonrpc_request *request, struct star_error *err)
{
	json_error_t why;

	*request = (struct jsonrpc_request){ 0 };
	request->root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &why);
	if (!request->root)
		return star_error_set(err, JSONRPC_PARSE_ERROR, "the line is not JSON: byte %d: %s", why.position,
				      why.text);
	if (json_is_array(request->root))
		return star_error_set(err, JSONRPC_INVALID_REQUEST,
				      "batches are not supported: send one request object per line");
	if (!json_is_object(request->root))
		return star_error_set(err, JSONRPC_INVALID_REQUEST, "a request must be a JSON object");
	return read_members(request, err);
}

static char *to_line(json_t *message, size_t *bytes)
{
	char *text = message ? json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
	const size_t length = text ? strlen(text) : 0;
	char *line = text ? realloc(text, length + 2) : NULL;

	json_decref(message);
	if (!line) {
		free(text);
		return NULL;
	}
	memcpy(line + length, "\n", 2);
	*bytes = length + 1;
	return line;
}

static json_t *reply_to(const json_t *id)
{
	/* The id is only shared, never changed; the cast is for the reference count. */
	return json_pack("{s:s, s:o}", "jsonrpc", "2.0", "id", id ? json_incref((json_t *)id) : json_null());
}

char *jsonrpc_error_line(const json_t *id, const struct star_error *err)
{
	const bool is_errno = err->code < 0 && err->code >= -ERRNO_MAX;
	const int number = is_errno ? -err->code : err->code == JSONRPC_INVALID_PARAMS ? EINVAL : 0;
	const char *name = number ? strerrorname_np(number) : NULL;
	json_t *reply = reply_to(id);
	json_t *error = json_pack("{s:i, s:o}", "code", is_errno ? JSONRPC_APPLICATION_ERROR : err->code, "message",
				  jsonrpc_member_from_text(err->text));
	size_t bytes;

	if (number)
		json_object_set_new(error, "data",
				    json_pack("{s:s, s:i}", "errno", name ? name : "unknown", "number", number));
	json_object_set_new(reply, "error", error);
	return to_line(reply, &bytes);
}

char *jsonrpc_result_line(const json_t *id, json_t *result)
{
	struct star_error err = { 0 };
	json_t *reply = reply_to(id);
	size_t bytes = 0;
	char *line;

	json_object_set_new(reply, "result", result);
	line = to_line(reply, &bytes);
	if (line && bytes <= JSONRPC_LINE_MAX)
		return line;
	free(line);
	star_error_set(&err, JSONRPC_INTERNAL_ERROR, "the reply would have %zu bytes; at most %d are possible", bytes,
		       JSONRPC_LINE_MAX);
	return jsonrpc_error_line(id, &err);
}

char *jsonrpc_request_line(json_int_t id, const char *method, json_t *params, size_t *bytes)
{
	json_t *message = json_pack("{s:s, s:I, s:s}", "jsonrpc", "2.0", "id", id, "method", method);

	if (message && params && json_object_set_new(message, "params", params) < 0) {
		json_decref(message);
		return NULL;
	}
	return to_line(message, bytes);
}

static int no_reply(struct star_error *err, const char *address, const char *why)
{
	return star_error_set(err, -EPROTO, "the answer of %s is not a JSON-RPC reply (%s); is it a control address?",
			      address, why);
}

/* Fills err from a server's error object. */
static void read_error(const json_t *error, const char *address, struct star_error *err)
{
	const char *message = json_string_value(json_object_get(error, "message"));
	const json_int_t code = json_integer_value(json_object_get(error, "code"));
	const json_int_t number = json_integer_value(json_object_get(json_object_get(error, "data"), "number"));

	if (!message || code == 0)
		no_reply(err, address, "an error without code or message");
	else if (number >= 1 && number <= ERRNO_MAX)
		star_error_set(err, (int)-number, "%s", message);
	else if (code == JSONRPC_UNKNOWN_METHOD)
		star_error_set(err, -ENOSYS, "%s", message);
	else
		star_error_set(err, -EBADMSG, "%s", message);
}

json_t *jsonrpc_reply_parse(const char *line, size_t bytes, json_int_t id, const char *address, struct star_error *err)
{
	json_error_t why;
	json_t *reply = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &why);
	const char *version = json_string_value(json_object_get(reply, "jsonrpc"));
	const json_t *error = json_object_get(reply, "error"), *got = json_object_get(reply, "id");
	json_t *result = json_object_get(reply, "result"), *answer = NULL;

	if (!reply)
		no_reply(err, address, why.text);
	else if (!version || strcmp(version, "2.0") != 0)
		no_reply(err, address, "no \"jsonrpc\": \"2.0\"");
	else if (!error == !result)
		no_reply(err, address, "it must have one of \"result\" and \"error\"");
	else if (!(json_is_integer(got) && json_integer_value(got) == id) && !(error && json_is_null(got)))
		no_reply(err, address, "another \"id\" than that of the request");
	else if (error)
		read_error(error, address, err);
	else
		answer = json_incref(result);
	json_decref(reply);
	return answer;
}
