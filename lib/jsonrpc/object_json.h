/* SPDX-License-Identifier: BSD-3-Clause */
/* The catalogue's entries and the layout as JSON, for both ends of the control plane. Pure functions. */
#ifndef JSONRPC_OBJECT_JSON_H
#define JSONRPC_OBJECT_JSON_H

#include <jansson.h>

#include "base/steering.h"
#include "star_error.h"
#include "wire/layout.h"
#include "wire/object.h"

/* Objects in one message, so that a part of the list, however long it is, fits into a request. */
enum { JSONRPC_OBJECTS_PAGE = 1024 };

/* A new reference; NULL: the name is not UTF-8, which JSON requires. The id is omitted if it is 0, and so are options
 * that the optimizer does not use. */
json_t *jsonrpc_object_encode(const struct object_spec *spec);

/* The parameters of a call that concerns exactly this object, and no later one of its name: "name", "id", "generation".
 * A new reference; NULL: out of memory. */
json_t *jsonrpc_object_handle(const struct object_spec *spec);

/*
 * Checks every field (wire_object_spec_check too). 0 or -EINVAL with the member's name. Without "id", spec->id is 0; a
 * variable's "dim" follows from its shape and may be omitted. The default of "dtype" is float32, that of "optimizer"
 * sgd; options have their own.
 */
int jsonrpc_object_decode(const json_t *json, struct object_spec *spec, struct star_error *err);

/* The layout as workers get it. */
struct layout_node {
	uint32_t incarnation;
	char data_host[64];
	uint16_t data_port; /* of its reactor 0; reactor r has data_port + r */
	uint32_t reactors;
	uint32_t request_max;	  /* bytes of a request's or reply's payload */
	struct steering steering; /* entries 0: source ports do not matter */
	/* the node that may take its place, and serve under the same incarnation; "": there is none */
	struct layout_standby {
		char data_host[64], control[80];
		uint16_t data_port; /* as above */
	} standby;
	char control[80]; /* where it issues tickets for the data network; "": that network is open */
};

struct layout {
	uint32_t epoch;
	uint32_t partitions;
	uint32_t nodes_count;
	uint32_t reactors; /* of all nodes */
	struct layout_node nodes[];
};

json_t *jsonrpc_layout_encode(const struct layout *layout);

/* NULL with err; the caller frees it with free(). */
struct layout *jsonrpc_layout_decode(const json_t *json, struct star_error *err);

/* A node's own part of it, as in a layout's "nodes" and in a join. Checks everything. 0 or -EINVAL with the member's
 * name. */
int jsonrpc_layout_node_decode(const json_t *json, struct layout_node *node, struct star_error *err);

/* A node's "steering": {"key": hexadecimal digits, "queues": [...]}; from_json takes NULL for none. */
json_t *jsonrpc_steering_encode(const struct steering *steering);
int jsonrpc_steering_decode(const json_t *json, uint32_t queues, struct steering *steering, struct star_error *err);

#endif
