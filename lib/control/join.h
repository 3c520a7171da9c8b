/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's join, as PS task 0 reads it. Any thread; the check takes control.lock. */
#ifndef CONTROL_JOIN_H
#define CONTROL_JOIN_H

#include "control/node.h"

/* A join, read and checked by itself. */
struct control_join {
	uint32_t task, epoch, partitions, ps_count, objects_count;
	uint32_t incarnation; /* of its start */
	struct control_place place;
	struct layout_node node; /* its incarnation: what workers are to know it by */
	enum secure_data data;	 /* how it protects its data network */
	bool journal, recovers;	 /* it keeps one, and has yet to apply it */
	uint64_t taken_back;	 /* as that has it */
	uint64_t generation;	 /* of its pair; 0: it is in none */
	bool second;		 /* of the two control addresses of its task it has the second */
	const json_t *objects;	 /* NULL or an array: what it holds, or a page of that */
	bool more;		 /* other pages follow: this is no join yet */
	uint32_t from;		 /* the catalogue's page that it wants; from 2 on: it has those before it */
	const json_t *refused;	 /* the same: ids that it has no room for */
};

/* 0, or -EINVAL with a message. What join has of params lives as long as they do. */
int control_join_read(const struct control *control, const json_t *params, struct control_join *join,
		      struct star_error *err);

/* Does what the node brings fit to this cluster? 0 or a negative errno with what to do. */
int control_join_check(struct control *control, const struct control_join *join, struct star_error *err);

#endif
