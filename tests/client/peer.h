/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other end of libstar in these tests: a cluster of PS nodes on loopback whose reactors keep rows in an array and
 * speak the wire protocol honestly, checking all that a client sends, until they are told to misbehave; and the answers
 * of a control plane. A thread for each connection; over datagrams too (peer_link.c). This is a double of the peer, for
 * injecting faults: the appliance itself is tested by the system tests.
 */
#ifndef TESTS_CLIENT_PEER_H
#define TESTS_CLIENT_PEER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "jsonrpc/object_json.h"
#include "star.h"

enum peer_limits {
	PEER_PAYLOAD_MAX = 8 << 20,
	PEER_NODES_MAX = 4,
	PEER_REACTORS_MAX = 16,
	PEER_OBJECTS_MAX = 16,
	PEER_CONNECTIONS_MAX = 256
};

enum peer_fault {
	FAULT_NONE,
	FAULT_NO_ANSWER,      /* the request is read and forgotten */
	FAULT_CLOSE,	      /* the connection is closed instead of an answer */
	FAULT_CLOSE_IN_REPLY, /* after half of the answer */
	FAULT_RESET,	      /* RST instead of an answer */
	FAULT_CLOSE_AFTER,    /* after an honest answer */
	FAULT_HOLD,	      /* the answer comes when the test opens the gate */
	FAULT_HOLD_IN_REPLY,  /* half of the answer comes, the rest when the test opens the gate */
	FAULT_DRIBBLE,	      /* the answer comes in pieces of 7 bytes */
	FAULT_CHECKSUM,
	FAULT_SEQUENCE,
	FAULT_SESSION,
	FAULT_MAGIC,
	FAULT_OPCODE,
	FAULT_HUGE_LENGTH,   /* payload_bytes 0xffffffff */
	FAULT_SHORT_PAYLOAD, /* well-formed, but 8 bytes shorter than the results */
	FAULT_WRONG_COUNT,   /* a result of one row more than asked for */
	FAULT_WRONG_OBJECT,
	FAULT_WRONG_BODY, /* a result's body is one row longer */
	FAULT_TWICE,	  /* the answer comes twice */
	FAULT_GARBAGE,
	FAULT_STATUS,	     /* peer.status with peer.sentence */
	FAULT_LONG_SENTENCE, /* an error with 4000 bytes of text */
};

struct peer_row {
	bool used;
	uint32_t object;
	uint64_t key;
	uint32_t applied; /* pushes; duplicates in one push count once. Its version is one more */
	bool deleted;	  /* starts again when it is asked for again */
	float *values;
};

struct peer_reactor {
	struct peer *peer;
	uint32_t index; /* in the cluster */
	uint32_t node;
	int listener;
	pthread_t thread;
	void *endpoint; /* of datagrams; NULL: none */
	struct peer_row *rows;
	uint32_t rows_size;
	uint64_t pushes[PEER_OBJECTS_MAX + 1]; /* by object */
	uint64_t session, done, durable;       /* of a peer that retains: one session a reactor */
	uint64_t told;			       /* what was durable when it became silent */
	struct peer_row *copy;		       /* of its rows, as they were durable */
	uint32_t copy_count;
};

struct peer_seal;

struct peer_connection {
	struct peer_reactor *reactor;
	struct peer_seal *seal; /* of peers with tickets */
	int fd;
	bool refuses;  /* what was sent behind a request that was refused as BUSY */
	uint32_t life; /* the peer's, when it was made */
	pthread_t thread;
};

struct peer {
	uint32_t nodes, reactors_per_node, partitions;

	bool datagrams;	      /* its reactors are reached over a memif, and not over loopback */
	char address[128];    /* for star_open */
	char worker_file[96]; /* of datagrams */
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	bool stop, gate;
	/* misbehaviour: requests skip to skip + count - 1 (counted over all reactors, or those of one) get it */
	enum peer_fault fault;
	uint32_t fault_skip, fault_count;
	int fault_reactor; /* -1: any */
	unsigned status;
	const char *sentence;
	/* of peers with tickets: those of its nodes; and this many questions for one are refused */
	struct secure_tickets *tickets;
	const char *ticket_place; /* where the layout says that tickets are given; NULL: where its control plane is */
	uint32_t tickets_asked, tickets_refused, over_quota /* hellos that are refused so */;
	unsigned tampered;    /* replies that somebody has changed on the way: a byte of this many, in turn */
	bool full;	      /* programs find no room for what they are to keep */
	bool repeats;	      /* what is sent a second time was executed the first time, it says */
	bool moves;	      /* when it says so, the layout changes, once */
	unsigned queue_given; /* slices of its work queue */
	bool moves_soon;      /* the layout changes when a request has been executed, once */
	/* Its replies are retained (peer_retained.c): what clients keep is durable when the test says so. */
	bool retains;
	bool silent;		      /* it does not say what has become durable since */
	bool alone;		      /* it has no standby any more, and says what it has */
	uint32_t life;		      /* goes up with each peer_fail_over */
	uint32_t kept, waited, pings; /* pushes that clients keep, and others; pings */
	uint32_t kept_again;	      /* requests that were answered, and came again */
	unsigned again_status;	      /* of the next again_count of these */
	uint32_t again_count;
	/* layout */
	uint32_t epoch, published_epoch;
	uint32_t incarnation[PEER_NODES_MAX];
	uint32_t active_nodes;		      /* that the layout names, and by which keys belong to reactors */
	uint32_t request_max[PEER_NODES_MAX]; /* at most PEER_PAYLOAD_MAX; set before the layout that says so */
	uint32_t layout_again;		      /* this many layout questions are answered with EAGAIN */
	struct layout *layout;
	uint32_t dropped;    /* tables */
	uint32_t empty_left; /* rows that "empty" says are left when it begins; each question after that takes one */
	uint32_t empty_asked, empty_restart; /* questions so far; that which is answered with ESTALE, 0: none */
	/* what was seen */
	uint32_t requests, keys, held, connections_made;
	struct wire_op last_op;
	uint32_t violations;
	char violation[256];
	uint64_t largest_request;

	struct object_spec objects[PEER_OBJECTS_MAX];
	uint32_t objects_count;
	struct peer_reactor reactors[PEER_REACTORS_MAX];
	uint32_t reactors_count;
	struct peer_connection connections[PEER_CONNECTIONS_MAX];
	uint32_t connections_count;
	bool deaf;	       /* connections are not taken any more, nor refused */
	int plugs[8];	       /* which fill the queue of the first listener then */
	bool hushed;	       /* questions for the layout are not answered */
	uint32_t hushed_count; /* that were not */
	int door;	       /* a further listener of the first reactor, where its standby is said to be; 0: none */
	pthread_t door_thread;
	uint32_t door_connections;
	int control_listener;
	pthread_t control_thread;
};

/* Over what the peers that are started from now on speak. */
extern bool peer_datagrams;
/* Whether they want tickets, and what for: enum secure_data. */
extern unsigned peer_data;
/* The data address of their nodes. */
#define PEER_DATA_HOST "198.18.251.1"
/* Starts all threads. */
struct peer *peer_start(uint32_t nodes, uint32_t reactors_per_node);
/* Ends all, and checks that the client kept to the protocol. */
void peer_stop(struct peer *p);

/* From the request after `skip` more on, `count` requests are treated so. */
void peer_misbehave(struct peer *p, enum peer_fault fault, uint32_t skip, uint32_t count);
void peer_answer(struct peer *p, unsigned status, const char *sentence, uint32_t count);
void peer_open_gate(struct peer *p);
/* Waits until at least n requests are held back, or were seen. Fails the test after 20 s. */
bool peer_wait_held(struct peer *p, uint32_t n);
bool peer_wait_requests(struct peer *p, uint32_t n);
/* One of the counters above, as it is now. */
uint32_t peer_counter(struct peer *p, const uint32_t *counter);
uint32_t peer_requests(struct peer *p);
uint32_t peer_connections(struct peer *p);
/* The operation that came last, and the payload of the largest request since that was forgotten. */
struct wire_op peer_last_op(struct peer *p);
uint64_t peer_largest_request(struct peer *p);
void peer_forget_largest(struct peer *p);
/* Its tickets are no longer valid, as after a restart. */
void peer_forget_tickets(struct peer *p);
uint32_t peer_tickets_asked(struct peer *p);
/* Stops accepting on, and closes the connections of, all reactors; the data ports stay refused. */
void peer_unplug(struct peer *p);
/* A new layout: this many nodes are active, in a new epoch; published or only in force on the nodes. */
void peer_relayout(struct peer *p, uint32_t active_nodes, bool publish);
/* A new layout names a standby of the only reactor. Then another one: it has taken its place, and the other way round;
 * the same rows are behind both. */
void peer_open_door(struct peer *p);
void peer_close_door(struct peer *p);
void peer_change_places(struct peer *p);
/* The node is at the door from now on, and nobody is where it was. */
void peer_move_to_door(struct peer *p);
/* Nobody says anything any more where the first reactor is, as if its machine was gone: no connection is made there. */
void peer_go_deaf(struct peer *p);
/* Questions for the layout are read, and not answered. The other call waits until there were this many; it fails the
 * test after 20 s. */
void peer_hush(struct peer *p);
void peer_speak(struct peer *p);
bool peer_wait_hushed(struct peer *p, uint32_t n);
/* Those of a reactor end. */
void peer_end_connections(struct peer *p, uint32_t reactor);
void peer_refuse_layout(struct peer *p, uint32_t times);
void peer_restart_node(struct peer *p, uint32_t node);

/* The first value of a row, and what a push leaves: initial - the sum of all gradients. */
float peer_initial(uint32_t object, uint64_t key, uint32_t element);
/* A copy of the row's state; false if no request made it. */
bool peer_find(struct peer *p, uint32_t object, uint64_t key, uint32_t *applied, float *first);

/* peer_retained.c: from now on replies leave before what they tell of is durable. */
void peer_retain(struct peer *p);
/* All that was executed so far is durable. */
void peer_make_durable(struct peer *p);
void peer_be_silent(struct peer *p);
void peer_be_alone(struct peer *p);
/* Another one takes its place, with what is durable: all connections end. */
void peer_fail_over(struct peer *p);
/* Of these, with the lock: a request before it is executed, WIRE_OK: it is to be; after; and its reply's header. */
enum wire_status peer_retained_look(struct peer_reactor *r, const struct wire_frame *frame);
void peer_retained_done(struct peer_reactor *r, const struct wire_frame *frame, const char *payload);
void peer_retained_say(const struct peer_reactor *r, struct wire_frame *frame);
void peer_retained_free(struct peer_reactor *r);

/* peer_control.c */
void *peer_control_main(void *arg);
/* peer_run.c: a run of a program, whose body has n bytes and more; bytes of its result, or -1: it is not as it must
 * be. */
enum wire_status peer_run_keeps(const struct peer_reactor *r, const struct wire_op *op);
int64_t peer_run(struct peer_reactor *r, const struct wire_op *op, const char *body, uint32_t left, char *to);
/* peer_serve.c: a row, made if need be */
struct peer_row *peer_row(struct peer_reactor *r, const struct object_spec *spec, uint64_t key);
/* peer_serve.c: one connection */
void *peer_serve_main(void *arg);
/* Serves a connection in a thread of its own; NULL: not any more. */
struct peer_connection *peer_accept(struct peer_reactor *r, int fd);
/* peer_link.c */
void *peer_link_listen(struct peer_reactor *r, uint16_t port, uint32_t incarnation);
void peer_link_close(struct peer_reactor *r, void *endpoint);
/* Writes the file of a worker that reaches this cluster. */
void peer_link_worker_file(struct peer *p, const char *control, char *address, size_t bytes);
void peer_violation(struct peer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t peer_owner(const struct peer *p, const struct object_spec *spec, uint64_t key);

#endif
