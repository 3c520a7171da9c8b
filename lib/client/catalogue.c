/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the control plane. PS task 0 owns the catalogue and the layout, and is asked first unless another task
 * has answered last; another task may answer in its place. The request is repeated while nobody can be reached, the
 * cluster is incomplete (EAGAIN), or the principal is over a quota (EDQUOT).
 */
#include "client/attempt.h"
#include "client/client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

/* A task that does not accept a connection, or does not answer with the layout, within this time may be dead or
 * restarting, so another one is asked. The time is OTHERS_FIRST_US at first, and doubles each time that nobody has
 * answered. If there is no other task, or this was the last one, it is asked again. */
enum { OTHERS_FIRST_US = 250000, OTHERS_CONNECT_US = 1000000, OTHERS_ANSWER_US = 3000000, LAST_CONNECT_US = 3000000 };
enum { TOLD_NS = 1000000000 }; /* an attempt that had at least this long for its answer reports why there was none */

bool client_catalogue_is_away(int code)
{
	switch (-code) {
	case EAGAIN:
	case EDQUOT:
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EPIPE:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
		return true;
	default:
		return false;
	}
}

static uint64_t left_us(uint64_t deadline_ns)
{
	const uint64_t now = clock_ns();

	return deadline_ns > now ? (deadline_ns - now) / 1000 : 0;
}

static bool is_closing(const struct star_cluster *cluster, struct star_error *err)
{
	return atomic_load(&cluster->closing) && star_error_set(err, -ECANCELED, "the cluster is being closed");
}

/* False: the cluster is being closed. */
static bool begin_asking(struct star_cluster *cluster, struct asking *asking, struct star_error *err)
{
	bool closing;

	pthread_mutex_lock(&cluster->lock);
	closing = is_closing(cluster, err);
	if (!closing) {
		asking->next = cluster->asking;
		cluster->asking = asking;
	}
	pthread_mutex_unlock(&cluster->lock);
	return !closing;
}

static void end_asking(struct star_cluster *cluster, const struct asking *asking)
{
	struct asking **link;

	pthread_mutex_lock(&cluster->lock);
	for (link = &cluster->asking; *link != asking; link = &(*link)->next)
		;
	*link = asking->next;
	pthread_mutex_unlock(&cluster->lock);
}

void client_catalogue_interrupt(const struct star_cluster *cluster)
{
	for (const struct asking *a = cluster->asking; a; a = a->next)
		jsonrpc_interrupt(a->client);
}

/* Sends one request to one task. Connecting may take only a fraction of the time, to leave some for the others. So may
 * the answer, if the request may be sent twice. */
static json_t *ask_catalogue(struct star_cluster *cluster, const char *address, uint32_t share, uint32_t attempt,
			     const char *method, json_t *params, uint64_t deadline_ns, struct star_error *err)
{
	const uint64_t first_us = attempt < 8 ? (uint64_t)OTHERS_FIRST_US << attempt : UINT64_MAX;
	const uint64_t others_connect_us = first_us < OTHERS_CONNECT_US ? first_us : OTHERS_CONNECT_US;
	const uint64_t others_answer_us = first_us < OTHERS_ANSWER_US ? first_us : OTHERS_ANSWER_US;
	uint64_t connect_us = left_us(deadline_ns) / share, answer_us;
	struct asking asking;
	json_t *result = NULL;

	if (connect_us > cluster->connect_timeout_ns / 1000)
		connect_us = cluster->connect_timeout_ns / 1000;
	if (connect_us > (share > 1 ? others_connect_us : LAST_CONNECT_US))
		connect_us = share > 1 ? others_connect_us : LAST_CONNECT_US;
	asking.client = jsonrpc_connect_by(cluster->key_file, address, connect_us, err);
	if (!asking.client)
		return NULL;
	answer_us = left_us(deadline_ns);
	if (share > 1 && answer_us > others_answer_us && strcmp(method, "layout") == 0)
		answer_us = others_answer_us;
	if (begin_asking(cluster, &asking, err)) {
		result = jsonrpc_call(asking.client, method, json_incref(params), answer_us, err);
		end_asking(cluster, &asking);
	}
	jsonrpc_close(asking.client);
	return result;
}

static void begin_with(struct star_cluster *cluster, uint32_t address)
{
	pthread_mutex_lock(&cluster->lock);
	cluster->asks_first = address;
	pthread_mutex_unlock(&cluster->lock);
}

/* The task that has answered last is asked first: one that is restarting may accept a connection long before it can
 * answer. */
static json_t *ask_all(struct star_cluster *cluster, uint32_t attempt, const char *method, json_t *params,
		       uint64_t deadline_ns, struct star_error *err)
{
	struct star_error first = { 0 };
	char standby[sizeof(cluster->standby)];
	uint32_t count, begin;

	pthread_mutex_lock(&cluster->lock);
	strcpy(standby, cluster->standby);
	begin = cluster->asks_first;
	pthread_mutex_unlock(&cluster->lock);
	count = cluster->ps_count + (standby[0] != 0);
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t task = (begin + i) % count;
		const char *address = task < cluster->ps_count ? cluster->ps[task] : standby;
		json_t *result = NULL;

		if (!is_closing(cluster, err))
			result = ask_catalogue(cluster, address, count - i, attempt, method, params, deadline_ns, err);
		if (result || i == 0)
			begin_with(cluster, result ? task : 0);
		if (result)
			return result;
		if (!client_catalogue_is_away(err->code) || err->code == -EAGAIN || err->code == -EDQUOT)
			return NULL;
		if (task == 0)
			first = *err;
	}
	*err = first; /* users can act on task 0's reason */
	return NULL;
}

static uint32_t layouts_needed(struct star_cluster *cluster)
{
	uint32_t needed;

	pthread_mutex_lock(&cluster->lock);
	needed = cluster->layouts_needed;
	pthread_mutex_unlock(&cluster->lock);
	return needed;
}

void client_catalogue_hurry(struct star_cluster *cluster)
{
	cluster->layouts_needed++;
	pthread_cond_broadcast(&cluster->changed);
}

/* params is borrowed. */
json_t *client_catalogue_call(struct star_cluster *cluster, const char *method, json_t *params, uint64_t deadline_ns,
			      struct star_error *err)
{
	struct star_error ignored, told = { 0 }; /* told: why not; a last try that had no time does not say it */
	const bool layout = strcmp(method, "layout") == 0;
	struct prng prng;

	if (!err)
		err = &ignored;
	prng_seed(&prng, clock_ns() ^ (uintptr_t)&prng);
	/* For a caller that needs the layout only the pauses are short again; the time for answers still grows. */
	for (uint32_t attempt = 0, pauses = 0;; attempt++, pauses++) {
		const uint64_t begun = clock_ns();
		const uint32_t needed = layout ? layouts_needed(cluster) : 0;
		json_t *result = ask_all(cluster, attempt, method, params, deadline_ns, err);
		const uint64_t until = clock_ns() + client_backoff_ns(&prng, pauses);

		if (result || !client_catalogue_is_away(err->code))
			return result;
		if (err->code != -ETIMEDOUT || begun + TOLD_NS < deadline_ns)
			told = *err;
		if (until >= deadline_ns) {
			const struct star_error last = told.code ? told : *err;

			star_error_set(err, last.code == -EAGAIN ? -ETIMEDOUT : last.code,
				       "\"%s\" failed until its deadline: %s", method, last.text);
			return NULL;
		}
		/* Or until another caller needs the layout because a node has told it of a newer one: this request may
		 * have begun before that existed. */
		if ((layout ? client_cluster_pause_while(cluster, &cluster->layouts_needed, needed, until, err)
			    : client_cluster_pause(cluster, until, err)) < 0)
			return NULL;
		if (layout && layouts_needed(cluster) != needed)
			pauses = 0;
	}
}

struct layout *client_catalogue_layout(struct star_cluster *cluster, uint64_t deadline_ns, struct star_error *err)
{
	json_t *json = client_catalogue_call(cluster, "layout", NULL, deadline_ns, err);
	struct layout *layout;

	if (!json)
		return NULL;
	layout = jsonrpc_layout_decode(json, err);
	json_decref(json);
	return layout;
}
