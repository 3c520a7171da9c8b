/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BSD sockets over the stack, as Linux means them, under a virtual clock. One lock (shim.lock) guards everything, the
 * stack included: a call of the interface takes it by shim_enter and gives it back by shim_leave.
 *
 * packetdrill runs calls that may block in a thread of its own. Time passes only in the main thread (usleep,
 * netdev_receive, a call that blocks), or in another one while the main thread waits for that one. A thread that was
 * woken goes on before time does: a blocked call returns at the very moment that its condition came true, and
 * packetdrill has seen
 * the result before the main thread sleeps or goes on after a sleep.
 */
#ifndef TESTS_PACKETDRILL_SHIM_H
#define TESTS_PACKETDRILL_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tests/packetdrill/so/interface.h"
#include "tests/packetdrill/so/stack.h"

enum { SHIM_FDS = 1024, SHIM_WATCHES = 16, NOTICES_MAX = 64 };
#define SHIM_FOREVER UINT64_MAX

/* Bytes in order: written at the end, taken from the front. */
struct bytes {
	uint8_t *data;
	size_t start, count, room;
};
void bytes_put(struct bytes *b, const void *data, size_t count);
size_t bytes_take(struct bytes *b, void *data, size_t count, bool keep);
void bytes_free(struct bytes *b);

enum kind { KIND_SOCKET, KIND_EPOLL, KIND_PIPE };

enum sock_state { SOCK_NEW, SOCK_LISTENING, SOCK_CONNECTING, SOCK_OPEN, SOCK_ENDED };

struct sock_options {
	int sndbuf, rcvbuf, rcvlowat;
	bool rcvbuf_set;
	int reuseaddr, keepalive, nodelay, cork, quickack, inq;
	int maxseg, user_timeout_ms, keepidle_s, keepintvl_s, keepcnt, syncnt, linger2_s, defer_accept_s, window_clamp;
	int tos, mark, priority, freebind, mtu_discover, zerocopy, recverr;
	unsigned notsent_lowat;
	struct linger linger;
	char congestion[16];
};

/* What a descriptor stands for. */
struct object {
	enum kind kind;
	int fd; /* -1: none (any more, or yet) */
	bool nonblocking;
};

/* Of MSG_ZEROCOPY: ids are those of its calls. */
struct notices {
	uint32_t next_id, done_id;
	uint64_t pending[NOTICES_MAX]; /* where in the stream each call's data ends */
	unsigned first, count;
	struct notice {
		uint32_t first, last;
	} ready[NOTICES_MAX];
};

struct sock {
	struct object object;
	int domain, family; /* as asked for; of the addresses in use */
	enum sock_state state;
	struct endpoint local, remote;
	struct tcp_conn *conn; /* until it has ended */
	struct bytes in, out;  /* read by nobody yet; not handed to the stack yet */
	size_t record;	       /* MSG_EOR: the first bytes of out, which nothing may join; 0: none */
	int error;	       /* SO_ERROR */
	bool ended_by_error, eof, read_shut, write_shut, finish; /* finish: FIN after out is empty */
	bool close;						 /* close after out is empty */
	bool more;						 /* the last write said MSG_MORE */
	bool writing;						 /* the rest of a write comes */
	uint64_t held_ns;					 /* when what is held goes anyhow; 0: nothing is */
	uint64_t received_ns, written;
	struct notices notices;
	unsigned in_edges, out_edges; /* how often either became ready */
	bool full;		      /* a write found no room */
	struct sock *listener, *next; /* of one that waits for accept */
	struct sock *waiting;
	struct sock_options options;
};

struct watch {
	int fd; /* -1: free */
	struct epoll_event event;
	unsigned in_edges, out_edges;
	bool fresh; /* reports what holds even without an edge */
};

struct epoll {
	struct object object;
	struct watch watches[SHIM_WATCHES];
};

struct pipe_end {
	struct object object;
	struct pipe_end *other;
	struct bytes bytes; /* in the end that is read */
	bool writes;
};

struct packet {
	struct packet *next;
	uint64_t time_ns;
	size_t bytes;
	uint8_t data[];
};

struct waiter {
	struct waiter *next;
	bool (*ready)(void *ctx);
	void *ctx;
	uint64_t deadline_ns;
	bool awake;
};

struct shim {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t main;
	bool started;
	bool preloaded; /* the calls of interpose.c are in force */
	bool main_waits;
	unsigned running;   /* threads that were woken, and are still at work */
	unsigned finishing; /* threads whose call has returned, and that have not dealt with the result yet */
	struct waiter *waiters;
	uint64_t now_ns;
	unsigned asked; /* how often the time was asked for without anything else */
	struct packet *packets, **packets_tail;
	struct object *objects[SHIM_FDS];
	struct endpoint local; /* of what connects without having been bound */
	unsigned mtu;
	char settings[256];
};
extern struct shim shim;

/* clock.c */
void shim_enter(void);
/* Returns result; sends what the call has made to send, and keeps errno. */
long shim_leave(long result);
/* Waits until ready(ctx), or the deadline: false then, or when nothing will ever happen. */
bool shim_wait(bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns);
uint64_t shim_deadline(int timeout_ms);
void shim_output(void *ctx, const void *packet, size_t bytes);
void shim_main_waits(bool waits);
/* The calling thread has dealt with what its last call returned. */
void shim_idle(void);
int shim_netdev_send(void *self, const void *packet, size_t bytes);
int shim_netdev_receive(void *self, void *packet, size_t *bytes, long long *time_us);
int shim_usleep(void *self, useconds_t us);
int shim_gettimeofday(void *self, struct timeval *now, struct timezone *zone);

/* settings.c: what the script's sysctl and ip calls have set. value is left alone where there is none. */
long shim_setting(const char *name, unsigned index, long otherwise);
void shim_setting_text(const char *name, char *value, size_t bytes);

/* objects.c */
int shim_install(struct object *object);
/* NULL with errno. */
struct object *shim_object(int fd);
struct sock *shim_sock(int fd);
void shim_remove(struct object *object);
void object_free(struct object *object);
bool shim_stack_for(const struct endpoint *local);
int endpoint_from(struct endpoint *e, const struct sock *sock, const struct sockaddr *address, socklen_t bytes);
void endpoint_to(const struct endpoint *e, const struct sock *sock, struct sockaddr *address, socklen_t *bytes);

/* stream.c */
struct sock *sock_new(int domain);
void sock_free(struct sock *sock);
/* Hands on what may go now. */
void sock_push(struct sock *sock);
bool sock_readable(const struct sock *sock);
bool sock_writable(const struct sock *sock);
size_t sock_room(const struct sock *sock);
unsigned sock_events(const struct sock *sock); /* EPOLLIN and so on */

/* What was held has waited long enough. */
void sock_release(struct sock *sock);
uint64_t shim_next_release(void);
void shim_release(void);

/* notices.c */
void notices_sent(struct sock *sock, size_t bytes);
void notices_acknowledged(struct sock *sock, uint64_t acknowledged);
ssize_t notices_read(struct sock *sock, struct msghdr *message);

/* calls.c, transfer.c, options.c, poll.c, pipe.c: as the interface has them */
int shim_socket(void *self, int domain, int type, int protocol);
int shim_bind(void *self, int fd, const struct sockaddr *address, socklen_t bytes);
int shim_listen(void *self, int fd, int backlog);
int shim_accept(void *self, int fd, struct sockaddr *address, socklen_t *bytes);
int shim_connect(void *self, int fd, const struct sockaddr *address, socklen_t bytes);
int shim_close(void *self, int fd);
int shim_shutdown(void *self, int fd, int how);
int sock_connect(struct sock *sock, const struct sockaddr *address, socklen_t bytes);
ssize_t shim_read(void *self, int fd, void *data, size_t bytes);
ssize_t shim_readv(void *self, int fd, const struct iovec *parts, int count);
ssize_t shim_recv(void *self, int fd, void *data, size_t bytes, int flags);
ssize_t shim_recvfrom(void *self, int fd, void *data, size_t bytes, int flags, struct sockaddr *address,
		      socklen_t *address_bytes);
ssize_t shim_recvmsg(void *self, int fd, struct msghdr *message, int flags);
ssize_t shim_write(void *self, int fd, const void *data, size_t bytes);
ssize_t shim_writev(void *self, int fd, const struct iovec *parts, int count);
ssize_t shim_send(void *self, int fd, const void *data, size_t bytes, int flags);
ssize_t shim_sendto(void *self, int fd, const void *data, size_t bytes, int flags, const struct sockaddr *address,
		    socklen_t address_bytes);
ssize_t shim_sendmsg(void *self, int fd, const struct msghdr *message, int flags);
ssize_t sock_write(struct sock *sock, const struct iovec *parts, size_t count, int flags);
ssize_t sock_read(struct sock *sock, const struct iovec *parts, size_t count, int flags);
int shim_fcntl(void *self, int fd, int command, ...);
int shim_ioctl(void *self, int fd, unsigned long request, ...);
int shim_getsockopt(void *self, int fd, int level, int name, void *value, socklen_t *bytes);
int shim_setsockopt(void *self, int fd, int level, int name, const void *value, socklen_t bytes);
void options_init(struct sock_options *options);
/* What SO_RCVBUF asked for, of which Linux keeps the double; 0: it was not set. */
uint32_t sock_receive_bytes(const struct sock *sock);
/* Tells the connection what it is to know of them. */
void sock_apply(struct sock *sock);
int shim_poll(void *self, struct pollfd *fds, nfds_t count, int timeout_ms);
int shim_epoll_create(void *self, int size);
int shim_epoll_ctl(void *self, int epoll, int operation, int fd, struct epoll_event *event);
int shim_epoll_wait(void *self, int epoll, struct epoll_event *events, int max, int timeout_ms);
int shim_pipe(void *self, int fds[2]);
int shim_splice(void *self, int from, loff_t *from_offset, int to, loff_t *to_offset, size_t bytes, unsigned int flags);
/*
 * Waits on shim.changed. A call of pthread_cond_wait from this library, which has one of its own, carries no version:
 * where the library is loaded later than libc, that means the oldest one there, whose conditions look otherwise than
 * those which pthread_cond_broadcast wakes.
 */
void shim_wait_changed(void);
ssize_t shim_sendfile(int to, int from, off_t *offset, size_t bytes);

#endif
