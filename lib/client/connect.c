/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a channel connects. Attempts follow each other with exponential backoff and jitter until the time for connecting
 * (NETWORK_MAX_CONNECTION_TIMEOUT) is over; each waiting call also has its own deadline. The backoff continues after a
 * failure, so that many calls do not flood a node that is down.
 */
#include "client/attempt.h"
#include "client/connect.h"
#include "client/seal.h"

#include <errno.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

/* Gives up after 7 s, and tries again, because the kernel would retry ever less often. */
enum { SYN_RETRIES = 2 };
/* For nodes with a standby, where a machine may die silently: the limit for unacknowledged data, or for silence. */
enum { OTHER_IDLE_S = 1, OTHER_INTERVAL_S = 1, OTHER_PROBES = 2 };
/* A node that was killed sends nothing, but when it is back it answers any packet, so a call that waits for a reply
 * continues a second later. A node that hangs has as long as all probes take, which is less than
 * STAR_DEADLINE_DEFAULT_US. */
enum { KEEPALIVE_IDLE_S = 1, KEEPALIVE_INTERVAL_S = 1, KEEPALIVE_PROBES = 21 };

void client_connect_failed(struct channel *ch, int error, uint64_t now_ns)
{
	if (ch->fd >= 0)
		close(ch->fd);
	ch->fd = -1;
	ch->broken = false;
	ch->out_bytes = ch->out_sent = ch->in_bytes = 0;
	client_seal_close(ch);
	client_attempt_failed(ch, error, now_ns);
}

static void connected(struct channel *ch, uint64_t now_ns)
{
	const int error = client_seal_greet(ch);

	if (error) {
		client_connect_failed(ch, error, now_ns);
		return;
	}
	ch->state = CHANNEL_OPEN;
	ch->connect_error = 0;
	ch->answered = false;
	ch->heard_ns = now_ns;
}

/*
 * Keepalives: otherwise a call that has sent everything would not learn that the node's end of the connection is gone.
 */
static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_SYNCNT, SYN_RETRIES },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* Sets how soon a silent connection is given up. */
void client_connect_watch(struct channel *ch)
{
	static const struct {
		int name, alone, paired;
	} options[] = {
		{ TCP_USER_TIMEOUT, 0, OTHER_TIMEOUT_MS },
		{ TCP_KEEPIDLE, KEEPALIVE_IDLE_S, OTHER_IDLE_S },
		{ TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S, OTHER_INTERVAL_S },
		{ TCP_KEEPCNT, KEEPALIVE_PROBES, OTHER_PROBES },
	};

	for (size_t i = 0; ch->fd >= 0 && i < sizeof(options) / sizeof(options[0]); i++) {
		const int value = ch->other_bytes ? options[i].paired : options[i].alone;

		setsockopt(ch->fd, IPPROTO_TCP, options[i].name, &value, sizeof(value));
	}
}

void client_connect_start(struct channel *ch, uint64_t now_ns)
{
	const int error = client_seal_prepare(ch);

	ch->attempts++;
	ch->moved = false;
	ch->asked_ns = now_ns;
	if (error) {
		client_connect_failed(ch, error, now_ns);
		return;
	}
	ch->fd = socket(ch->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ch->fd < 0) {
		client_connect_failed(ch, errno, now_ns);
		return;
	}
	client_steer_bind(ch);
	set_options(ch->fd);
	if (ch->other_bytes)
		client_connect_watch(ch);
	ch->attempt_ns = ch->other_bytes ? client_attempt_until_ns(ch, now_ns) : UINT64_MAX;
	if (channel_in_flight(ch) == 0 && !ch->keep_first &&
	    getrandom(&ch->session, sizeof(ch->session), GRND_NONBLOCK) != (ssize_t)sizeof(ch->session))
		ch->session = prng_next(&ch->prng); /* early during boot; it need not be secret */
	if (connect(ch->fd, (const struct sockaddr *)&ch->address, ch->address_bytes) == 0)
		connected(ch, now_ns);
	else if (errno == EINPROGRESS)
		ch->state = CHANNEL_CONNECTING;
	else
		client_connect_failed(ch, errno, now_ns);
}

int client_connect_over_quota(const struct channel *ch, struct star_error *err)
{
	return star_error_set(err, -EDQUOT,
			      "%s refuses this worker: its principal has as many connections or sessions there as its "
			      "quota allows; end others, or have the quota raised (security.rights of the nodes)",
			      ch->label);
}

static bool give_up_connecting(struct channel *ch, struct star_error *err)
{
	const int error = ch->connect_error ? ch->connect_error : ETIMEDOUT;

	if ((error == ENOKEY || error == EKEYREJECTED) && client_tickets_why(ch->cluster, ch->task, err))
		return false;
	if (error == EDQUOT) {
		client_connect_over_quota(ch, err);
		return false;
	}
	star_error_set(
		err, -error,
		"cannot connect to %s: %s (%u attempts, the last ones within %.1f s); is starserver running there, "
		"and its data address reachable from here?",
		ch->label, strerrordesc_np(error), ch->attempts, (double)ch->cluster->connect_timeout_ns * 1e-9);
	return false;
}

bool client_connect_continue(struct channel *ch, short revents, uint64_t now_ns, struct star_error *err)
{
	if (ch->state == CHANNEL_CONNECTING && revents) {
		int error = 0;
		socklen_t bytes = sizeof(error);

		if (getsockopt(ch->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
			error = errno;
		if (error == 0) {
			connected(ch, now_ns);
			return true;
		}
		client_connect_failed(ch, error, now_ns);
	} else if (ch->state == CHANNEL_CONNECTING && now_ns >= ch->attempt_ns) {
		client_connect_failed(ch, ETIMEDOUT, now_ns);
	}
	if (now_ns >= ch->give_up_ns || (ch->state == CHANNEL_WAITING && client_tickets_forbidden(ch)))
		return give_up_connecting(ch, err);
	if (ch->state == CHANNEL_WAITING && now_ns >= ch->not_before_ns)
		client_connect_start(ch, now_ns);
	return true;
}
