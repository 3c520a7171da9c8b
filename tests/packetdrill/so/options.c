/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of sockets, as far as the stack can mean them; the rest is kept and given back. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "tests/packetdrill/so/shim.h"

void options_init(struct sock_options *options)
{
	*options = (struct sock_options){
		.sndbuf = (int)shim_setting("net/ipv4/tcp_wmem", 1, 256 * 1024),
		.rcvbuf = (int)shim_setting("net/ipv4/tcp_rmem", 1, 131072),
		.rcvlowat = 1,
		.quickack = 1,
		.keepidle_s = (int)shim_setting("net/ipv4/tcp_keepalive_time", 0, 7200),
		.keepintvl_s = (int)shim_setting("net/ipv4/tcp_keepalive_intvl", 0, 75),
		.keepcnt = (int)shim_setting("net/ipv4/tcp_keepalive_probes", 0, 9),
		.syncnt = (int)shim_setting("net/ipv4/tcp_syn_retries", 0, 6),
		.linger2_s = (int)shim_setting("net/ipv4/tcp_fin_timeout", 0, 60),
		.mtu_discover = IP_PMTUDISC_WANT,
		.congestion = "cubic",
	};
	shim_setting_text("net/ipv4/tcp_congestion_control", options->congestion, sizeof(options->congestion));
}

/* Integers that are kept as they are. */
static const struct {
	int level, name, max;
	size_t offset;
} integers[] = {
#define KEPT(level, name, field, max) \
	{ \
		level, name, max, offsetof(struct sock_options, field) \
	}
	KEPT(SOL_SOCKET, SO_REUSEADDR, reuseaddr, INT_MAX),
	KEPT(SOL_SOCKET, SO_KEEPALIVE, keepalive, INT_MAX),
	KEPT(SOL_SOCKET, SO_RCVLOWAT, rcvlowat, INT_MAX),
	KEPT(SOL_SOCKET, SO_MARK, mark, INT_MAX),
	KEPT(SOL_SOCKET, SO_PRIORITY, priority, INT_MAX),
	KEPT(SOL_SOCKET, SO_ZEROCOPY, zerocopy, 1),
	KEPT(IPPROTO_TCP, TCP_NODELAY, nodelay, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_CORK, cork, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_QUICKACK, quickack, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_INQ, inq, 1),
	KEPT(IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_KEEPIDLE, keepidle_s, 32767),
	KEPT(IPPROTO_TCP, TCP_KEEPINTVL, keepintvl_s, 32767),
	KEPT(IPPROTO_TCP, TCP_KEEPCNT, keepcnt, 127),
	KEPT(IPPROTO_TCP, TCP_SYNCNT, syncnt, 127),
	KEPT(IPPROTO_TCP, TCP_LINGER2, linger2_s, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_DEFER_ACCEPT, defer_accept_s, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_WINDOW_CLAMP, window_clamp, INT_MAX),
	KEPT(IPPROTO_TCP, TCP_NOTSENT_LOWAT, notsent_lowat, INT_MAX),
	KEPT(IPPROTO_IP, IP_TOS, tos, 255),
	KEPT(IPPROTO_IP, IP_FREEBIND, freebind, INT_MAX),
	KEPT(IPPROTO_IP, IP_MTU_DISCOVER, mtu_discover, IP_PMTUDISC_OMIT),
	KEPT(IPPROTO_IP, IP_RECVERR, recverr, INT_MAX),
	KEPT(IPPROTO_IPV6, IPV6_TCLASS, tos, 255),
	KEPT(IPPROTO_IPV6, IPV6_RECVERR, recverr, INT_MAX),
#undef KEPT
};

static int *integer(struct sock *sock, int level, int name, int *max)
{
	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
		if (integers[i].level == level && integers[i].name == name) {
			*max = integers[i].max;
			return (int *)((char *)&sock->options + integers[i].offset);
		}
	return NULL;
}

static int give(const void *from, size_t size, void *value, socklen_t *bytes)
{
	if (*bytes > size)
		*bytes = (socklen_t)size;
	memcpy(value, from, *bytes);
	return 0;
}

static int give_int(int number, void *value, socklen_t *bytes)
{
	return give(&number, sizeof(number), value, bytes);
}

/* What the caller's newer struct has besides is 0. */
static int give_info(const struct tcp_info *info, void *value, socklen_t *bytes)
{
	memset(value, 0, *bytes);
	memcpy(value, info, *bytes < sizeof(*info) ? *bytes : sizeof(*info));
	return 0;
}

static int tcp_info(const struct sock *sock, void *value, socklen_t *bytes)
{
	struct tcp_info info = { .tcpi_state = 7 /* closed */ };
	struct stack_info from = { 0 };

	if (sock->state == SOCK_LISTENING)
		info.tcpi_state = 10;
	if (!sock->conn)
		return give_info(&info, value, bytes);
	stack_info(sock->conn, &from);
	info.tcpi_state = from.state;
	info.tcpi_ca_state = from.ca_state;
	info.tcpi_retransmits = from.retransmits;
	info.tcpi_backoff = from.backoff;
	info.tcpi_options = (uint8_t)((from.timestamps ? TCPI_OPT_TIMESTAMPS : 0) | (from.sack ? TCPI_OPT_SACK : 0) |
				      (from.scale ? TCPI_OPT_WSCALE : 0) | (from.ecn ? TCPI_OPT_ECN : 0));
	info.tcpi_snd_wscale = from.snd_scale & 15;
	info.tcpi_rcv_wscale = from.rcv_scale & 15;
	info.tcpi_rto = from.rto_us;
	info.tcpi_snd_mss = from.mss;
	info.tcpi_rcv_mss = from.rcv_mss;
	info.tcpi_advmss = from.advmss;
	info.tcpi_unacked = from.unacked;
	info.tcpi_sacked = from.sacked;
	info.tcpi_lost = from.lost;
	info.tcpi_retrans = from.retrans;
	info.tcpi_rtt = from.rtt_us;
	info.tcpi_rttvar = from.rttvar_us;
	info.tcpi_min_rtt = from.min_rtt_us;
	info.tcpi_snd_ssthresh = from.ssthresh;
	info.tcpi_snd_cwnd = from.cwnd;
	info.tcpi_reordering = from.reordering;
	info.tcpi_total_retrans = from.total_retrans;
	info.tcpi_notsent_bytes = from.unsent_bytes + (uint32_t)sock->out.count;
	info.tcpi_pmtu = shim.mtu;
	info.tcpi_last_data_recv = (uint32_t)((shim.now_ns - sock->received_ns) / 1000000);
	return give_info(&info, value, bytes);
}

/* SO_MEMINFO: as much of Linux's account of a socket's memory as there is here. */
static int meminfo(const struct sock *sock, void *value, socklen_t *bytes)
{
	uint32_t counts[SK_MEMINFO_VARS] = {
		[SK_MEMINFO_RMEM_ALLOC] = (uint32_t)sock->in.count,
		[SK_MEMINFO_RCVBUF] = (uint32_t)sock->options.rcvbuf,
		[SK_MEMINFO_WMEM_QUEUED] = (uint32_t)sock->out.count + (sock->conn ? stack_unacked(sock->conn) : 0),
		[SK_MEMINFO_SNDBUF] = (uint32_t)sock->options.sndbuf,
	};

	return give(counts, sizeof(counts), value, bytes);
}

static int get_option(struct sock *sock, int level, int name, void *value, socklen_t *bytes)
{
	struct sock_options *o = &sock->options;
	int max, error, *kept = integer(sock, level, name, &max);

	if (kept)
		return give_int(*kept, value, bytes);
	if (level == SOL_SOCKET) {
		switch (name) {
		case SO_ERROR:
			error = sock->error;
			sock->error = 0;
			return give_int(error, value, bytes);
		case SO_TYPE:
			return give_int(SOCK_STREAM, value, bytes);
		case SO_SNDBUF:
			return give_int(o->sndbuf, value, bytes);
		case SO_RCVBUF:
			return give_int(o->rcvbuf, value, bytes);
		case SO_LINGER:
			return give(&o->linger, sizeof(o->linger), value, bytes);
		case SO_MEMINFO:
			return meminfo(sock, value, bytes);
		case SO_ACCEPTCONN:
			return give_int(sock->state == SOCK_LISTENING, value, bytes);
		default:
			break;
		}
	} else if (level == IPPROTO_TCP) {
		switch (name) {
		case TCP_INFO:
			return tcp_info(sock, value, bytes);
		case TCP_CC_INFO: /* CUBIC and Reno tell nothing */
			*bytes = 0;
			return 0;
		case TCP_CONGESTION:
			return give(o->congestion, sizeof(o->congestion), value, bytes);
		case TCP_MAXSEG:
			return give_int(sock->conn  ? (int)stack_mss(sock->conn)
					: o->maxseg ? o->maxseg
						    : 536,
					value, bytes);
		default:
			break;
		}
	}
	errno = ENOPROTOOPT;
	return -1;
}

int shim_getsockopt(void *self, int fd, int level, int name, void *value, socklen_t *bytes)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? get_option(sock, level, name, value, bytes) : -1);
}

uint32_t sock_receive_bytes(const struct sock *sock)
{
	return sock->options.rcvbuf_set ? (uint32_t)sock->options.rcvbuf / 2 : 0;
}

void sock_apply(struct sock *sock)
{
	const struct sock_options *o = &sock->options;
	const struct stack_conn_options options = {
		.congestion = o->congestion,
		.user_timeout_ms = (uint32_t)o->user_timeout_ms,
		.keepalive_idle_s = o->keepalive ? (uint32_t)o->keepidle_s : 0,
		.keepalive_interval_s = (uint32_t)o->keepintvl_s,
		.keepalive_probes = (uint32_t)o->keepcnt,
		.receive_bytes = sock_receive_bytes(sock),
	};

	if (sock->conn)
		stack_set(sock->conn, &options);
}

static int set_congestion(struct sock *sock, const char *name, socklen_t bytes)
{
	char text[16] = "";

	memcpy(text, name, bytes < sizeof(text) - 1 ? bytes : sizeof(text) - 1);
	if (!stack_has_congestion(text)) {
		errno = ENOENT;
		return -1;
	}
	memcpy(sock->options.congestion, text, sizeof(text));
	sock_apply(sock);
	return 0;
}

/* Linux doubles what it is asked for, between a least size and the sysctl's limit. */
static int buffer_size(int asked, const char *limit, int least)
{
	const long most = shim_setting(limit, 0, 8 * 1024 * 1024);
	const long size = 2 * (asked < most ? asked : most);

	return size < least ? least : (int)size;
}

static int set_option(struct sock *sock, int level, int name, const void *value, socklen_t bytes)
{
	struct sock_options *o = &sock->options;
	int number, max, *kept = integer(sock, level, name, &max);

	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return set_congestion(sock, value, bytes);
	if (level == IPPROTO_IP && bytes > 0 && bytes < sizeof(number)) { /* one byte will do there */
		number = *(const uint8_t *)value;
	} else if (bytes < sizeof(number)) {
		errno = EINVAL;
		return -1;
	} else {
		memcpy(&number, value, sizeof(number));
	}
	if (kept) {
		if ((number < 0 && name != TCP_NOTSENT_LOWAT) || number > max) {
			errno = EINVAL;
			return -1;
		}
		*kept = number;
		sock_apply(sock);
		if (level == IPPROTO_TCP && name == TCP_NODELAY && number)
			sock_release(sock); /* even what TCP_CORK holds */
		sock_push(sock);
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_SNDBUF) {
		o->sndbuf = buffer_size(number, "net/core/wmem_max", 4608);
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_RCVBUF) {
		o->rcvbuf = buffer_size(number, "net/core/rmem_max", 2304);
		o->rcvbuf_set = true;
		sock_apply(sock);
		return 0;
	}
	if (level == SOL_SOCKET && name == SO_LINGER && bytes >= sizeof(o->linger)) {
		memcpy(&o->linger, value, sizeof(o->linger));
		return 0;
	}
	if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
		if (number && (number < 88 || number > 32767)) {
			errno = EINVAL;
			return -1;
		}
		o->maxseg = number;
		return 0;
	}
	errno = ENOPROTOOPT;
	return -1;
}

int shim_setsockopt(void *self, int fd, int level, int name, const void *value, socklen_t bytes)
{
	struct sock *sock;

	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? set_option(sock, level, name, value, bytes) : -1);
}

int shim_fcntl(void *self, int fd, int command, ...)
{
	struct object *object;
	va_list args;
	long argument;
	int result = 0;

	va_start(args, command);
	argument = va_arg(args, long);
	va_end(args);
	shim_enter();
	object = shim_object(fd);
	if (!object)
		return (int)shim_leave(-1);
	switch (command) {
	case F_GETFL:
		result = O_RDWR | (object->nonblocking ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		object->nonblocking = argument & O_NONBLOCK;
		break;
	case F_GETFD:
	case F_SETFD:
		break;
	default:
		errno = EINVAL;
		result = -1;
	}
	return (int)shim_leave(result);
}

static int control(struct sock *sock, unsigned long request, int *value)
{
	if (sock->state == SOCK_LISTENING) {
		errno = EINVAL;
		return -1;
	}
	switch (request) {
	case SIOCINQ: /* a FIN that was read over counts as one byte, in Linux */
		*value = (int)sock->in.count;
		return 0;
	case SIOCOUTQ:
		*value = (int)sock->out.count + (int)(sock->conn ? stack_unacked(sock->conn) : 0);
		return 0;
	case SIOCOUTQNSD:
		*value = (int)sock->out.count + (int)(sock->conn ? stack_unsent(sock->conn) : 0);
		return 0;
	case FIONBIO:
		sock->object.nonblocking = *value;
		return 0;
	default:
		errno = ENOTTY;
		return -1;
	}
}

int shim_ioctl(void *self, int fd, unsigned long request, ...)
{
	struct sock *sock;
	va_list args;
	int *value;

	va_start(args, request);
	value = va_arg(args, int *);
	va_end(args);
	shim_enter();
	sock = shim_sock(fd);
	return (int)shim_leave(sock ? control(sock, request, value) : -1);
}
