/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The double as a node with a standby, whose replies are retained: its rows once more, as they were durable. What
 * clients do not keep is durable when it is answered, as with nodes whose replies wait.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/client/peer.h"
#include "tests/unit.h"
#include "wire/frame.h"

static void free_rows(struct peer_row *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(rows[i].values);
}

static struct peer_row copy_of(const struct peer_reactor *r, const struct peer_row *row)
{
	const size_t bytes = r->peer->objects[row->object - 1].dim * sizeof(float);
	struct peer_row copy = *row;

	copy.values = malloc(bytes);
	memcpy(copy.values, row->values, bytes);
	return copy;
}

/* With the lock. */
static void make_durable(struct peer_reactor *r)
{
	free_rows(r->copy, r->copy_count);
	free(r->copy);
	r->copy_count = 0;
	for (uint32_t i = 0; i < r->rows_size; i++)
		r->copy_count += r->rows[i].used;
	r->copy = malloc((r->copy_count + 1) * sizeof(*r->copy));
	for (uint32_t i = 0, n = 0; i < r->rows_size; i++)
		if (r->rows[i].used)
			r->copy[n++] = copy_of(r, &r->rows[i]);
	r->durable = r->done;
}

void peer_retain(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->retains = true;
	for (uint32_t i = 0; i < p->reactors_count; i++) {
		free_rows(p->reactors[i].rows, p->reactors[i].rows_size);
		free(p->reactors[i].rows);
		/* A copy of them takes a while, and few are needed here. */
		p->reactors[i].rows_size = 1 << 12;
		p->reactors[i].rows = calloc(p->reactors[i].rows_size, sizeof(*p->reactors[i].rows));
	}
	pthread_mutex_unlock(&p->lock);
}

void peer_make_durable(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->reactors_count; i++)
		make_durable(&p->reactors[i]);
	pthread_mutex_unlock(&p->lock);
}

void peer_be_silent(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->silent = true;
	for (uint32_t i = 0; i < p->reactors_count; i++)
		p->reactors[i].told = p->reactors[i].durable;
	pthread_mutex_unlock(&p->lock);
}

void peer_be_alone(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->alone = true;
	pthread_mutex_unlock(&p->lock);
}

/* With the lock. */
static void take_back(struct peer_reactor *r)
{
	free_rows(r->rows, r->rows_size);
	memset(r->rows, 0, r->rows_size * sizeof(*r->rows));
	for (uint32_t i = 0; i < r->copy_count; i++) {
		struct peer_row *row = peer_row(r, &r->peer->objects[r->copy[i].object - 1], r->copy[i].key);

		free(row->values);
		*row = copy_of(r, &r->copy[i]);
	}
	r->done = r->durable;
}

void peer_fail_over(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->life++;
	for (uint32_t i = 0; i < p->reactors_count; i++)
		take_back(&p->reactors[i]);
	for (uint32_t i = 0; i < p->connections_count; i++)
		shutdown(p->connections[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

enum wire_status peer_retained_look(struct peer_reactor *r, const struct wire_frame *frame)
{
	struct peer *p = r->peer;

	if (!(frame->flags & WIRE_GOES_ON) && frame->session != r->session)
		r->done = r->durable = 0;
	r->session = frame->session;
	if (frame->opcode == WIRE_PING) {
		p->pings++;
		return WIRE_OK;
	}
	if (frame->flags & WIRE_KEPT) {
		p->kept_again++;
		if (p->again_count && p->again_count--)
			return (enum wire_status)p->again_status;
	}
	return frame->flags & WIRE_RESENT && frame->sequence <= r->done ? WIRE_REPEATED : WIRE_OK;
}

void peer_retained_done(struct peer_reactor *r, const struct wire_frame *frame, const char *payload)
{
	struct wire_op op = { 0 };

	if (frame->sequence > r->done)
		r->done = frame->sequence;
	if (frame->opcode == WIRE_PING)
		return;
	memcpy(&op, payload, sizeof(op));
	if (frame->flags & WIRE_KEEPS) {
		r->peer->kept += !(frame->flags & WIRE_KEPT);
	} else if (op.kind != WIRE_PULL) {
		r->peer->waited++;
		make_durable(r);
	}
}

/* With the lock. */
static void say_ahead(const struct peer_reactor *r, struct wire_frame *frame)
{
	const bool again = frame->flags & WIRE_KEPT && frame->status == WIRE_REPEATED;
	const uint64_t ahead = again && frame->sequence < r->done ? r->done - frame->sequence : 0;

	frame->flags = ahead ? WIRE_AHEAD : 0;
	frame->behind = (uint32_t)ahead;
}

/* The same. */
static void say_behind(const struct peer_reactor *r, struct wire_frame *frame)
{
	const uint64_t durable = r->peer->silent ? r->told : r->durable;

	frame->flags = WIRE_RETAINS;
	frame->behind = frame->sequence > durable ? (uint32_t)(frame->sequence - durable) : 0;
	if (r->done == durable)
		frame->behind = 0;
}

void peer_retained_say(const struct peer_reactor *r, struct wire_frame *frame)
{
	pthread_mutex_lock(&r->peer->lock);
	if (r->peer->alone)
		say_ahead(r, frame);
	else
		say_behind(r, frame);
	pthread_mutex_unlock(&r->peer->lock);
}

void peer_retained_free(struct peer_reactor *r)
{
	free_rows(r->copy, r->copy_count);
	free(r->copy);
}
