/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's timers, and what happens when they expire. */
#include "net/tcp_internal.h"

#include <errno.h>

static struct tcp_conn *conn_of(struct wheel_timer *timer)
{
	return (struct tcp_conn *)((char *)timer - offsetof(struct tcp_conn, timer));
}

/* A wheel timer that is armed for an earlier time stays as it is; when it fires, it is moved to the next deadline. */
void tcp_timer_start(struct tcp_conn *conn, enum tcp_timer which, uint64_t delay_us)
{
	const uint64_t now_ns = conn->net->now_ns;
	uint64_t when_ns = now_ns + delay_us * NET_US;

	/* If the user has set a timeout, backoff does not exceed it. */
	if (which == TCP_TIMER_RETRANSMIT && conn->flags & TCP_OWN_TIMEOUT && conn->state >= TCP_ESTABLISHED) {
		when_ns = RTE_MIN(when_ns, conn->moved_ns + conn->user_timeout_ms * NET_MS);
		when_ns = RTE_MAX(when_ns, now_ns);
	}
	conn->deadlines[which] = when_ns;
	if (!wheel_armed(&conn->timer) || conn->timer.tick << WHEEL_TICK_SHIFT > when_ns)
		wheel_arm(&conn->net->wheel, &conn->timer, when_ns);
}

/* The peer is gone. The caller sends what it might still receive. */
static void give_up_conn(struct tcp_conn *conn)
{
	conn->net->counters.tcp_timeouts++;
	tcp_conn_end(conn, conn->soft_error ? conn->soft_error : ETIMEDOUT);
}

static void syn_timeout(struct tcp_conn *conn)
{
	if (++conn->tries > TCP_SYN_TRIES) {
		conn->net->counters.tcp_attempt_fails++;
		tcp_conn_end(conn, conn->soft_error ? conn->soft_error : ETIMEDOUT);
		return;
	}
	/* Something on the path may drop a SYN that asks for ECN (RFC 3168, 6.1.1.1). */
	if (conn->state == TCP_SYN_SENT)
		conn->features &= (uint8_t)~TCP_FEATURE_ECN;
	tcp_send_syn(conn);
	tcp_back_off(conn);
}

static bool timed_out(const struct tcp_conn *conn)
{
	const uint64_t since_ns = conn->flags & TCP_OWN_TIMEOUT ? conn->moved_ns : conn->progress_ns;

	return conn->net->now_ns - since_ns >= conn->user_timeout_ms * NET_MS;
}

static void retransmission(struct tcp_conn *conn)
{
	if (conn->state == TCP_SYN_SENT || conn->state == TCP_SYN_RECEIVED)
		syn_timeout(conn);
	else if (timed_out(conn))
		give_up_conn(conn);
	else
		tcp_sender_timer(conn, TCP_TIMER_RETRANSMIT);
}

void tcp_timer_idle(struct tcp_conn *conn)
{
	if (conn->state == TCP_FIN_WAIT_2 && conn->flags & TCP_READ_CLOSED)
		tcp_timer_start(conn, TCP_TIMER_STATE, conn->net->options.fin_wait_ms * UINT64_C(1000));
	else if (conn->state < TCP_ESTABLISHED || conn->state == TCP_TIME_WAIT)
		return;
	else if (conn->keep_idle_s)
		tcp_timer_start(conn, TCP_TIMER_STATE, conn->keep_idle_s * UINT64_C(1000000));
	else
		tcp_timer_stop(conn, TCP_TIMER_STATE);
}

/* One number below what was sent: not new data, but the peer must answer (RFC 9293, 3.8.4). */
static void probe(struct tcp_conn *conn)
{
	conn->net->counters.tcp_keepalives++;
	conn->keep_sent++;
	tcp_send_probe(conn);
	tcp_timer_start(conn, TCP_TIMER_STATE, conn->keep_interval_s * UINT64_C(1000000));
}

static void keep_alive(struct tcp_conn *conn)
{
	const uint32_t silent_ms = net_ms(conn->net) - conn->heard_ms;
	const uint64_t idle_ms = conn->keep_idle_s * UINT64_C(1000);

	if (conn->keep_idle_s == 0)
		return;
	if (conn->snd_una != conn->snd_nxt || conn->send_head) /* retransmissions detect a dead peer then */
		tcp_timer_idle(conn);
	else if (silent_ms < idle_ms)
		tcp_timer_start(conn, TCP_TIMER_STATE, (idle_ms - silent_ms) * 1000);
	else if (conn->keep_sent >= conn->keep_probes ||
		 (conn->keep_sent && conn->flags & TCP_OWN_TIMEOUT && silent_ms >= conn->user_timeout_ms)) {
		tcp_reset_peer(conn);
		give_up_conn(conn);
	} else {
		probe(conn);
	}
}

static void due(struct tcp_conn *conn, enum tcp_timer which)
{
	switch (which) {
	case TCP_TIMER_RETRANSMIT:
		retransmission(conn);
		break;
	case TCP_TIMER_ACK:
		if (conn->owed) {
			conn->net->counters.tcp_delayed_acks++;
			conn->flags &= ~(uint32_t)TCP_ANSWERS; /* the answer has not come in time */
			tcp_send_ack(conn);
		}
		break;
	case TCP_TIMER_STATE:
		if (conn->state == TCP_TIME_WAIT || (conn->state == TCP_FIN_WAIT_2 && conn->flags & TCP_READ_CLOSED))
			tcp_conn_end(conn, 0);
		else
			keep_alive(conn);
		break;
	default:
		tcp_sender_timer(conn, which);
		break;
	}
}

void tcp_timer_fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct tcp_conn *conn = conn_of(timer);
	uint64_t next_ns = UINT64_MAX;

	conn->net->now_ns = now_ns;
	for (unsigned i = 0; i < TCP_TIMERS && conn->state != TCP_CLOSED; i++) {
		if (conn->deadlines[i] == 0 || conn->deadlines[i] > now_ns)
			continue;
		conn->deadlines[i] = 0;
		due(conn, (enum tcp_timer)i);
	}
	if (conn->state == TCP_CLOSED)
		return;
	for (unsigned i = 0; i < TCP_TIMERS; i++)
		if (conn->deadlines[i])
			next_ns = RTE_MIN(next_ns, conn->deadlines[i]);
	if (next_ns != UINT64_MAX)
		wheel_arm(&conn->net->wheel, timer, next_ns);
}
