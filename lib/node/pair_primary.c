/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primary's side. Its thread sends each reactor's stream, after a snapshot, and moves its tail when the standby
 * has it. While a standby has everything, changes need a lease, which its answers renew: it takes over a lease later.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/checkpoint.h"
#include "node/pair.h"
#include "node/pair_register.h"

enum {
	PIECE_BYTES = 256 << 10, /* of a stream, per frame */
	PACE_US = 1000,
	ANSWER_US = 2000000,
	SILENT_MS = 10000, /* a standby that loads a snapshot may be slow */
	CLOSE_MS = 6000,   /* for requests in progress, when the standby takes over */
	SNAPSHOT_MS = 50,  /* between attempts to begin one: a checkpoint may be in progress */
	IDLE_MS = 200,
	FIGURES_US = 10000,
	QUEUES_US = 200000, /* between two catalogues that differ only in work queues */
};

struct sender {
	struct node_pair *p;
	struct pair_link *link;
	uint64_t sent[WIRE_REACTORS_MAX]; /* position in the stream */
	bool begun[WIRE_REACTORS_MAX];	  /* of the snapshot */
	bool over[WIRE_REACTORS_MAX];	  /* its last block was sent */
	uint64_t queues, queues_us;	  /* the work queues that were sent, and when */
	uint64_t version;		  /* version of the catalogue that was sent, ... */
	uint64_t version_ns;		  /* ... when all of it was; 0: not yet, ... */
	uint64_t version_there;		  /* ... and the version that the standby has */
	uint64_t version_gated;		  /* may have been reported before answers began to wait */
	char *catalogue;		  /* the one that is being sent */
	size_t catalogue_bytes, catalogue_at;
	bool claimed; /* the standby has everything, and etcd is asked to record that */
	bool whole, leased, bye, end_sent;
	bool covered;	    /* the standby has everything that replies have reported */
	bool paired;	    /* it has answered that it knows of the lease, so it can take over */
	uint64_t leased_ns; /* the first ping that told it of the lease; 0: none has yet */
	uint64_t ping_ns, pinged_us, heard_us, tried_us, figures_us;
	uint64_t begun_us;   /* when the standby joined */
	uint64_t closing_us; /* since when the node has closed for the standby; 0: it has not */
	uint64_t lag_at[WIRE_REACTORS_MAX], lag_since_us;
	size_t in_bytes, out_bytes, out_sent;
	struct pair_frame in;
	struct {
		struct pair_frame frame;
		uint8_t payload[PAIR_PAYLOAD_MAX];
	} out;
};

/* How far the standby has a reactor's stream. */
static uint64_t taken(const struct node_pair *p, unsigned reactor)
{
	return journal_reader_at(p->rings[reactor], JOURNAL_LINK);
}

static uint64_t published(const struct node_pair *p, unsigned reactor)
{
	return __atomic_load_n(&p->rings[reactor]->published, __ATOMIC_ACQUIRE);
}

static void set_catalogue_there(struct node_pair *p, uint64_t version)
{
	pthread_mutex_lock(&p->lock);
	p->catalogue_there = version;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* ---- frames ---- */

static void put(struct sender *s, unsigned kind, unsigned reactor, uint64_t position, const void *payload, size_t bytes)
{
	struct pair_frame *f = &s->out.frame;

	*f = (struct pair_frame){ .magic = PAIR_FRAME_MAGIC,
				  .kind = (uint16_t)kind,
				  .reactor = (uint16_t)reactor,
				  .bytes = (uint32_t)bytes,
				  .position = position };
	if (bytes)
		memcpy(s->out.payload, payload, bytes);
	f->checksum = pair_frame_checksum(f, s->out.payload);
	s->out_bytes = sizeof(*f) + bytes;
	s->out_sent = 0;
}

static bool put_ping(struct sender *s)
{
	const uint64_t now_us = clock_us();
	const uint64_t every_us = s->p->node->config->standby_lease_ms * UINT64_C(1000) / 8;

	if (now_us - s->pinged_us < every_us)
		return false;
	s->pinged_us = now_us;
	s->ping_ns = clock_ns();
	if (s->leased && !s->leased_ns)
		s->leased_ns = s->ping_ns;
	put(s, PAIR_PING, s->leased, s->ping_ns, NULL, 0);
	return true;
}

/* Called after the rings' positions were read: an object is in the catalogue before its first row is in a stream. */
static bool put_catalogue(struct sender *s)
{
	const uint64_t version = control_pair_version(s->p->control), queues = control_pair_queues(s->p->control);
	size_t bytes;

	if (!s->catalogue && (version != s->version ||
			      (queues != s->queues && (s->closing_us || clock_us() - s->queues_us >= QUEUES_US)))) {
		json_t *json = control_pair_catalogue(s->p->control, s->version);

		s->queues = queues;
		s->queues_us = clock_us();
		s->catalogue = json_dumps(json, JSON_COMPACT);
		json_decref(json);
		if (!s->catalogue)
			return false;
		s->catalogue_bytes = strlen(s->catalogue);
		s->catalogue_at = 0;
		/* Work queues may change all the time, so nobody who waits for a version waits for them. */
		if (version != s->version)
			s->version_ns = 0;
		s->version = version;
	}
	if (!s->catalogue)
		return false;
	bytes = RTE_MIN(s->catalogue_bytes - s->catalogue_at, (size_t)PAIR_PAYLOAD_MAX);
	put(s, PAIR_CATALOGUE, 0, s->catalogue_bytes - s->catalogue_at - bytes, s->catalogue + s->catalogue_at, bytes);
	s->catalogue_at += bytes;
	if (s->catalogue_at == s->catalogue_bytes) {
		free(s->catalogue);
		s->catalogue = NULL;
		/* A ping after it: its answer shows that the standby has the catalogue, for which somebody may wait. */
		if (!s->version_ns) {
			s->version_ns = clock_ns();
			s->pinged_us = 0;
		}
	}
	return true;
}

static bool pair_goes_on(void *ctx)
{
	return !node_pair_stops(ctx);
}

static int put_block(struct sender *s, unsigned reactor, struct star_error *err)
{
	struct node_snapshot *snapshot = &s->p->snapshots[reactor];
	struct shard *shard = &s->p->node->shards[reactor];
	struct service_block *block;
	bool last;

	if (!s->begun[reactor] || s->over[reactor])
		return 0;
	if (service_snapshot_status(&snapshot->snapshot) < 0)
		return star_error_set(err, -ESTALE, "its snapshot of reactor %u was given up, as a checkpoint can be",
				      reactor);
	block = node_snapshot_take(snapshot);
	if (!block)
		return 0;
	last = block->last;
	put(s, PAIR_BLOCK, reactor, last, (const uint8_t *)block->memory + sizeof(struct checkpoint_block),
	    block->payload_bytes);
	s->over[reactor] = last;
	if (last)
		node_snapshot_end(shard, snapshot, false);
	else if (node_snapshot_give(shard, block, pair_goes_on, s->p, err) < 0)
		return err->code;
	return 1;
}

static bool put_stream(struct sender *s, unsigned reactor, uint64_t until)
{
	const uint64_t from = s->sent[reactor];
	const size_t bytes = RTE_MIN(until - from, (uint64_t)PIECE_BYTES);

	if (!bytes)
		return false;
	put(s, PAIR_STREAM, reactor, from, journal_at(s->p->rings[reactor], from), bytes);
	s->sent[reactor] += bytes;
	return true;
}

/* The copied data may have been overwritten, if a journal has let the ring go on without the standby. */
static int check_cut_off(const struct node_pair *p, unsigned reactor, struct star_error *err)
{
	return journal_is_cut_off(p->rings[reactor], JOURNAL_LINK)
		       ? star_error_set(err, -EOVERFLOW, "it did not keep up for standby.wait_s")
		       : 0;
}

/* Prepares the next frame. 1, or 0: there is nothing to send. */
static int next_frame(struct sender *s, struct star_error *err)
{
	const unsigned count = s->p->node->shards_count;
	uint64_t until[WIRE_REACTORS_MAX];
	int rc = 0;

	for (unsigned i = 0; i < count; i++)
		until[i] = published(s->p, i);
	if (put_catalogue(s) || put_ping(s))
		return 1;
	for (unsigned i = 0; i < count; i++)
		if (put_stream(s, i, until[i]))
			return check_cut_off(s->p, i, err) < 0 ? err->code : 1;
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = put_block(s, i, err);
	return rc;
}

/* Sends as much as the socket takes. */
static int send_frames(struct sender *s, struct star_error *err)
{
	ssize_t n = 1;
	int rc = 1;

	while (rc > 0 && n > 0) {
		if (s->out_sent == s->out_bytes)
			rc = s->end_sent ? 0 : next_frame(s, err);
		if (rc <= 0)
			break;
		n = pair_link_write(s->link, (const uint8_t *)&s->out + s->out_sent, s->out_bytes - s->out_sent);
		if (n > 0)
			s->out_sent += (size_t)n;
		else if (n != -EAGAIN && n != -EINTR)
			return star_error_set(err, (int)n, "the connection has broken: %s", strerrordesc_np((int)-n));
	}
	return rc < 0 ? rc : 0;
}

/* ---- what the standby says ---- */

static void claim_pair(struct sender *s)
{
	if (s->claimed)
		return;
	s->claimed = true;
	if (node_pair_has_register(s->p))
		node_pair_is(s->p, PAIR_PRIMARY, NODE_PAIR_SYNCING,
			     "the standby has everything, but etcd does not say so yet");
	node_pair_register_want(s->p, PAIR_CLAIM_PAIRED);
}

/* From here on etcd says that the standby may take over, if etcd is configured. */
static void note_whole(struct sender *s)
{
	const struct pair_hello *h = &s->p->joins;
	struct star_error err = { 0 };

	if (s->whole || !s->claimed || node_pair_register_wanted(s->p, 0, NULL) < 0)
		return;
	s->whole = true;
	if (control_pair_standby(s->p->control, h->data_host, (uint16_t)h->data_port, h->control, &err) < 0)
		log_warn("workers are not told of the standby: %s", err.text);
	if (s->p->node->config->standby_durability != CONFIG_DURABILITY_ASYNC) {
		node_pair_set_waits(s->p, true);
		s->version_gated = control_pair_version(s->p->control);
		node_pair_tell(s->p, NODE_PAIR_GATE);
	}
}

/* Replies that left before others began to wait, including those of the control plane, may have reported changes that
 * the standby lacks. It must not take over before it has these. */
static void look_covered(struct sender *s)
{
	if (!s->whole || s->covered)
		return;
	s->covered = s->p->node->config->standby_durability == CONFIG_DURABILITY_ASYNC ||
		     (s->version_there >= s->version_gated && node_pair_tell(s->p, NODE_PAIR_COVERED));
	if (s->covered)
		s->pinged_us = 0; /* now: the sooner the lease begins, the sooner the standby can take over */
}

static void take_pong(struct sender *s, uint64_t position)
{
	if (s->version_ns && position > s->version_ns && s->version_there != s->version) {
		s->version_there = s->version;
		set_catalogue_there(s->p, s->version);
	}
	if (!s->covered || !position)
		return;
	node_pair_set_lease(s->p, position + s->p->node->config->standby_lease_ms * UINT64_C(1000000));
	if (!s->leased)
		s->pinged_us = 0;
	s->leased = true;
	/* Not before: until the standby knows of the lease it does not take over, and this node has the only copy. */
	if (!s->paired && s->leased_ns && position >= s->leased_ns) {
		s->paired = true;
		log_info("the standby at %s is up to date, and follows", s->p->joins.control);
		node_pair_is(s->p, PAIR_PRIMARY, NODE_PAIR_PAIRED, "");
	}
}

static int take_frame(struct sender *s, struct star_error *err)
{
	const struct pair_frame *f = &s->in;
	struct node_pair *p = s->p;

	if (f->checksum != pair_frame_checksum(f, NULL) || f->reactor >= p->node->shards_count)
		return star_error_set(err, -EBADMSG, "what it sent is damaged");
	s->heard_us = clock_us();
	switch (f->kind) {
	case PAIR_ACK:
		if (f->position > s->sent[f->reactor] || f->position < taken(p, f->reactor))
			return star_error_set(err, -EBADMSG, "it acknowledges what was not sent");
		journal_free_to(p->rings[f->reactor], JOURNAL_LINK, f->position);
		return 0;
	case PAIR_PONG:
		if (f->position > s->ping_ns)
			return star_error_set(err, -EBADMSG, "it answers a ping that was not sent");
		take_pong(s, f->position);
		return 0;
	case PAIR_WHOLE:
		claim_pair(s);
		return 0;
	case PAIR_BYE:
		s->bye = true;
		return star_error_set(err, -ESHUTDOWN, "it was stopped");
	default:
		return star_error_set(err, -EBADMSG, "it sent a frame of kind %u", f->kind);
	}
}

static int receive_frames(struct sender *s, struct star_error *err)
{
	for (;;) {
		const ssize_t n = pair_link_read(s->link, (uint8_t *)&s->in + s->in_bytes, sizeof(s->in) - s->in_bytes);
		int rc;

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n <= 0)
			return star_error_set(err, n ? (int)n : -ECONNRESET, "its connection has ended");
		s->in_bytes += (size_t)n;
		if (s->in_bytes < sizeof(s->in))
			continue;
		s->in_bytes = 0;
		rc = pair_frame_check(&s->in, err);
		if (rc == 0)
			rc = take_frame(s, err);
		if (rc < 0)
			return rc;
	}
}

/* ---- while there is a standby ---- */

static int begin_snapshots(struct sender *s, struct star_error *err)
{
	const uint64_t now_us = clock_us();

	if (now_us - s->tried_us < SNAPSHOT_MS * UINT64_C(1000))
		return 0;
	s->tried_us = now_us;
	for (unsigned i = 0; i < s->p->node->shards_count; i++) {
		int rc;

		if (s->begun[i])
			continue;
		rc = node_snapshot_begin(&s->p->node->shards[i], &s->p->snapshots[i], STORE_SNAPSHOT_FULL, PAIR_INSTANT,
					 err);
		if (rc < 0)
			return rc == -EBUSY ? 0 : rc;
		s->begun[i] = true;
		node_checkpoint_no_delta(s->p->node->checkpoint,
					 "a standby was given what the node has since the last checkpoint");
	}
	return 0;
}

static int check_rings(const struct sender *s, struct star_error *err)
{
	const uint32_t lease_ms = s->p->node->config->standby_lease_ms;
	const uint64_t silent_ms = (clock_us() - s->heard_us) / 1000;

	for (unsigned i = 0; i < s->p->node->shards_count; i++)
		if (check_cut_off(s->p, i, err) < 0)
			return err->code;
	if (silent_ms > (s->whole ? 2 * (uint64_t)lease_ms : SILENT_MS))
		return star_error_set(err, -ETIMEDOUT, "it was silent for %.1f s", (double)silent_ms / 1000);
	return 0;
}

static void figure(struct sender *s)
{
	const uint64_t now_us = clock_us();
	uint64_t lag = 0, sent = 0;
	bool past = true;

	if (now_us - s->figures_us < FIGURES_US)
		return;
	s->figures_us = now_us;
	for (unsigned i = 0; i < s->p->node->shards_count; i++) {
		const uint64_t at = taken(s->p, i);

		lag += published(s->p, i) - at;
		sent += s->sent[i];
		past &= at >= s->lag_at[i];
	}
	for (unsigned i = 0; past && i < s->p->node->shards_count; i++)
		s->lag_at[i] = published(s->p, i);
	s->lag_since_us = past ? now_us : s->lag_since_us;
	pthread_mutex_lock(&s->p->lock);
	s->p->lag_bytes = lag;
	s->p->lag_us = lag ? now_us - s->lag_since_us : 0;
	s->p->bytes = sent;
	pthread_mutex_unlock(&s->p->lock);
}

/* Whether the standby has everything, after the node has closed. */
static bool is_drained(struct sender *s)
{
	if (!node_pair_tell(s->p, NODE_PAIR_SETTLE) || s->catalogue ||
	    s->version != control_pair_version(s->p->control) || s->queues != control_pair_queues(s->p->control))
		return false;
	for (unsigned i = 0; i < s->p->node->shards_count; i++)
		if (taken(s->p, i) != published(s->p, i))
			return false;
	return true;
}

static void note_closed(struct node_pair *p, bool whole)
{
	pthread_mutex_lock(&p->lock);
	p->role = PAIR_DEPOSED;
	p->closed = true;
	p->closed_whole = whole;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void close_down(struct node_pair *p)
{
	struct star_error err = { 0 };

	log_info("the standby takes over: no more requests are accepted");
	node_pair_tell(p, NODE_PAIR_LEAVE);
	if (control_pair_close(p->control, "a node whose standby has taken its place", &err) < 0)
		log_warn("the node is not closed yet: %s", err.text);
}

/* A deposed primary sends what is left. -ESHUTDOWN: done. */
static int end_stream(struct sender *s, struct star_error *err)
{
	const bool drained = s->whole && is_drained(s);

	if (s->closing_us && !s->end_sent && drained && s->out_sent == s->out_bytes) {
		put(s, PAIR_END, 0, 0, NULL, 0);
		s->end_sent = true;
		return 0;
	}
	if (s->end_sent ? s->out_sent == s->out_bytes : clock_us() - s->closing_us > CLOSE_MS * UINT64_C(1000)) {
		note_closed(s->p, s->end_sent);
		return star_error_set(err, -ESHUTDOWN, "it takes over");
	}
	return 0;
}

/* Waits until there is something to do. If replies wait for the standby, reactors signal when they have written
 * something. */
static void sender_waits(struct sender *s)
{
	struct node_pair *p = s->p;
	const bool writes = s->out_sent < s->out_bytes;
	const bool retained = p->node->config->standby_durability == CONFIG_DURABILITY_RETAINED;
	bool idle = true, hurry;

	if (!p->waits) {
		pair_link_wait(s->link, writes, PACE_US, -1);
		return;
	}
	node_bell_sleeps(&p->bell);
	hurry = !writes && (!retained || node_gate_held(p->node)); /* what clients keep is sent in larger pieces */
	for (unsigned i = 0; hurry && i < p->node->shards_count; i++)
		idle &= published(p, i) == s->sent[i];
	if (idle)
		pair_link_wait(s->link, writes, PACE_US, p->bell.fd);
	node_bell_woke(&p->bell);
}

static int sender_turn(struct sender *s, struct star_error *err)
{
	int rc = receive_frames(s, err);

	look_covered(s);
	if (rc == 0 && !s->closing_us && node_pair_deposed_by(s->p)) {
		close_down(s->p);
		s->closing_us = clock_us();
	}
	note_whole(s);
	if (rc == 0)
		rc = begin_snapshots(s, err);
	if (rc == 0)
		rc = check_rings(s, err);
	if (rc == 0)
		rc = send_frames(s, err);
	if (rc == 0 && s->closing_us)
		rc = end_stream(s, err);
	figure(s);
	if (rc == 0)
		sender_waits(s);
	return rc;
}

static int welcome(struct sender *s, struct star_error *err)
{
	struct node_pair *p = s->p;
	const struct config *config = p->node->config;
	struct pair_answer answer = { .role = PAIR_PRIMARY,
				      .reactors = p->node->shards_count,
				      .partitions = config->partitions,
				      .incarnation = p->node->incarnation,
				      .lease_ms = config->standby_lease_ms };
	int rc;

	pthread_mutex_lock(&p->lock);
	answer.generation = p->generation;
	snprintf(p->peer_control, sizeof(p->peer_control), "%.79s", p->joins.control);
	pthread_mutex_unlock(&p->lock);
	snprintf(answer.control, sizeof(answer.control), "%.79s",
		 config_show(config->own.control.host, config->own.control.port).text);
	pair_answer_seal(&answer);
	rc = pair_link_write_all(s->link, &answer, sizeof(answer), clock_us() + ANSWER_US);
	return rc < 0 ? star_error_set(err, rc, "the connection has broken") : 0;
}

/* Serves one standby until its end; err has the reason. */
static void serve_standby(struct sender *s, struct star_error *err)
{
	struct node_pair *p = s->p;
	int rc = welcome(s, err);
	char why[sizeof(p->why)];

	s->begun_us = clock_us();
	s->version = CONTROL_PAIR_ALL; /* it has none yet */
	set_catalogue_there(p, 0);
	s->heard_us = s->lag_since_us = clock_us();
	if (rc == 0) {
		log_info("a standby has connected from %s: it receives this node's state", p->joins.control);
		node_pair_say_why(p, 0, "", "the standby is not up to date yet", why, sizeof(why));
		node_pair_is(p, PAIR_PRIMARY, NODE_PAIR_SYNCING, why);
		node_pair_tell(p, NODE_PAIR_ATTACH);
		for (unsigned i = 0; i < p->node->shards_count; i++)
			s->sent[i] = taken(p, i);
	}
	while (rc == 0 && !node_pair_stops(p))
		rc = sender_turn(s, err);
	for (unsigned i = 0; i < p->node->shards_count; i++)
		if (s->begun[i] && !s->over[i])
			node_snapshot_end(&p->node->shards[i], &p->snapshots[i], false);
}

/* ---- one standby after the other ---- */

/* A standby that has connected; NULL: none has for a while. */
static struct pair_link *next_standby(struct node_pair *p)
{
	struct pair_link *link;

	if (!node_pair_has_joined(p))
		node_pair_pause(p, IDLE_MS);
	pthread_mutex_lock(&p->lock);
	link = p->joined;
	p->joined = NULL;
	p->syncs += link != NULL;
	pthread_mutex_unlock(&p->lock);
	return link;
}

void node_pair_primary(struct node_pair *p)
{
	struct sender *s = malloc(sizeof(*s));
	struct star_error err;

	while (s && !node_pair_stops(p)) {
		struct pair_link *link = next_standby(p);

		if (link) {
			memset(s, 0, offsetof(struct sender, out));
			s->p = p;
			s->link = link;
			err = (struct star_error){ 0 };
			serve_standby(s, &err);
			pair_link_close(link);
			free(s->catalogue);
			s->catalogue = NULL;
			if (!node_pair_stops(p) && !s->closing_us) {
				char why[sizeof(p->why)];

				node_pair_say_why(p, s->begun_us, "the standby is gone: ", err.text, why, sizeof(why));
				node_pair_lose_standby(p, s->whole && !s->bye, why);
			}
		}
		if (node_pair_deposed_by(p) && !node_pair_stops(p)) {
			bool closed;

			pthread_mutex_lock(&p->lock);
			closed = p->closed;
			pthread_mutex_unlock(&p->lock);
			if (!closed) {
				close_down(p);
				note_closed(p, false);
			}
			node_pair_hold(p);
		}
	}
	if (!s)
		node_fail(p->node, star_error_set(&err, -ENOMEM, "out of memory") ? &err : &err);
	free(s);
}
