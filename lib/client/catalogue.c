/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions to the control plane. PS task 0 owns the catalogue and the layout and is asked first; another task may
 * answer in its place. As long as nobody can be reached, the cluster is not complete (EAGAIN), or the asker is over a
 * quota (EDQUOT), the question is asked again.
 */
#include "client/client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "jsonrpc/jsonrpc.h"

/* Who does not take a connection, or does not say the layout, for so long may be gone without a word: another one is
 * asked. */
enum { OTHERS_CONNECT_US = 1000000, OTHERS_ANSWER_US = 3000000 };
enum { TOLD_NS = 1000000000 }; /* a try that had so long to be answered says why there was no answer */

static bool worth_another_try(int code)
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

/* One question to one task; connecting may take its share of the time only, so that the others get theirs. So may the
 * answer, where it may be asked twice. */
static json_t *ask_catalogue(struct star_cluster *cluster, const char *address, uint32_t share, const char *method,
			     json_t *params, uint64_t deadline_ns, struct star_error *err)
{
	uint64_t connect_us = left_us(deadline_ns) / share, answer_us;
	struct jsonrpc_client *client;
	json_t *result;

	if (connect_us > cluster->connect_timeout_ns / 1000)
		connect_us = cluster->connect_timeout_ns / 1000;
	if (share > 1 && connect_us > OTHERS_CONNECT_US)
		connect_us = OTHERS_CONNECT_US;
	client = jsonrpc_connect_by(cluster->key_file, address, connect_us, err);
	if (!client)
		return NULL;
	answer_us = left_us(deadline_ns);
	if (share > 1 && answer_us > OTHERS_ANSWER_US && strcmp(method, "layout") == 0)
		answer_us = OTHERS_ANSWER_US;
	result = jsonrpc_call(client, method, json_incref(params), answer_us, err);
	jsonrpc_close(client);
	return result;
}

static json_t *ask_all(struct star_cluster *cluster, const char *method, json_t *params, uint64_t deadline_ns,
		       struct star_error *err)
{
	struct star_error first = { 0 };
	char standby[sizeof(cluster->standby)];
	uint32_t count;

	pthread_mutex_lock(&cluster->lock);
	strcpy(standby, cluster->standby);
	pthread_mutex_unlock(&cluster->lock);
	count = cluster->ps_count + (standby[0] != 0);
	for (uint32_t task = 0; task < count; task++) {
		const char *address = task < cluster->ps_count ? cluster->ps[task] : standby;
		json_t *result = ask_catalogue(cluster, address, count - task, method, params, deadline_ns, err);

		if (result)
			return result;
		if (!worth_another_try(err->code) || err->code == -EAGAIN || err->code == -EDQUOT)
			return NULL;
		if (task == 0)
			first = *err;
	}
	*err = first; /* what task 0 has to say is what a reader can act on */
	return NULL;
}

/* params is borrowed. */
json_t *client_catalogue_call(struct star_cluster *cluster, const char *method, json_t *params, uint64_t deadline_ns,
			      struct star_error *err)
{
	struct star_error ignored, told = { 0 }; /* told: why not; a last try that had no time does not say it */
	struct prng prng;

	if (!err)
		err = &ignored;
	prng_seed(&prng, clock_ns() ^ (uintptr_t)&prng);
	for (uint32_t attempt = 0;; attempt++) {
		const uint64_t begun = clock_ns();
		json_t *result = ask_all(cluster, method, params, deadline_ns, err);
		const uint64_t until = clock_ns() + client_backoff_ns(&prng, attempt);

		if (result || !worth_another_try(err->code))
			return result;
		if (err->code != -ETIMEDOUT || begun + TOLD_NS < deadline_ns)
			told = *err;
		if (until >= deadline_ns) {
			const struct star_error last = told.code ? told : *err;

			star_error_set(err, last.code == -EAGAIN ? -ETIMEDOUT : last.code,
				       "\"%s\" failed until its deadline: %s", method, last.text);
			return NULL;
		}
		if (client_cluster_pause(cluster, until, err) < 0)
			return NULL;
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
