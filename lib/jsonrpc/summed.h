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

#endif
