/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON of a file that says by itself whether it is as it was written: its last member, alone on the last line but one,
 * is the CRC-32 of all bytes before that line's comma (docs/checkpoints.rst, "The manifest"). Pure functions.
 */
#ifndef JSONRPC_SUMMED_H
#define JSONRPC_SUMMED_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

/* Of an object that has members; flags: of json_dumps. NULL: no memory, or a text in it is not UTF-8. The caller's to
 * free. */
char *jsonrpc_summed_text(const json_t *json, size_t flags, size_t *bytes);

/* The object, without that member; NULL with a message that goes on after the file's name. */
json_t *jsonrpc_summed_parse(const char *text, size_t bytes, struct star_error *err);

/* The number that such a text ends with. */
uint32_t jsonrpc_summed_sum(const char *text, size_t bytes);

/*
 * Lines that were added behind such a text, each with a sum of its own: for what changes often and is long. Where the
 * text ends; all of it where it has no end, which jsonrpc_summed_parse then says.
 */
size_t jsonrpc_summed_end(const char *text, size_t bytes);
/* With its newline; NULL as above, and the caller's to free. */
char *jsonrpc_summed_line(const json_t *json, size_t *bytes);
/* The line that begins at *at, which then is where the next one does. NULL: with err's code 0 there is none, but
 * perhaps the begin of one that was not written to its end; else it is damaged. */
json_t *jsonrpc_summed_next(const char *text, size_t bytes, size_t *at, struct star_error *err);

#endif
