/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control planes inside the test's process, on loopback ports that the kernel picked, over a data plane that only notes
 * what it is told. Every wait is bounded.
 */
#ifndef TESTS_CONTROL_HARNESS_H
#define TESTS_CONTROL_HARNESS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "control/control.h"
#include "jsonrpc/jsonrpc.h"
#include "tests/unit.h"

/* A request that any node answers at once. */
#define STATUS "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}"

enum { NODES_MAX = 4, CALL_US = 20000000, INSTALLED_MAX = 64 };

/* The data plane of a node under test. */
struct fake_plane {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct object_spec installed[INSTALLED_MAX];
	uint64_t installed_count;
	uint64_t epoch;
	uint32_t cluster_reactors, first_reactor;
	unsigned layouts; /* calls of set_layout */
	unsigned inside;  /* calls in progress: installs and layouts come one at a time */
	bool collided;	  /* and when they did not */
	bool hold;	  /* installs wait until it is false */
	uint64_t holding; /* installs that wait */
	int fail;	  /* what installs return, when not 0 */
	int fail_layout;  /* the same for set_layout */
	bool hold_layout; /* set_layout waits until it is false */
	uint64_t restored;
	unsigned shutdowns;
	char asked[128];			/* of connections: reactor, state, peer, limit */
	uint32_t swept;				/* the object that was asked for last */
	unsigned sweep_left;			/* looks that its sweep still takes */
	uint32_t emptied;			/* the table that was last begun to be emptied, and ... */
	unsigned empty_left, empty_begun;	/* ... looks that this still takes, and how often it was begun */
	unsigned forgotten;			/* objects */
	uint32_t dropped[WIRE_OBJECTS_MAX + 1]; /* as it was written down */
	unsigned dropped_written;
	int fail_dropped;	 /* what writing it down returns, when not 0 */
	int fail_durable;	 /* whether changes outlive it is not known */
	uint64_t durable;	 /* the last version of the catalogue that was waited for */
	uint64_t rows_durable;	 /* how often rows were */
	struct config_port port; /* the last that was added */
	int port_number;
	unsigned ports;			      /* that were added, and not removed */
	bool loading;			      /* what it says of itself when it is asked for its part of a checkpoint */
	struct control_checkpoint checkpoint; /* the last that was begun */
	uint64_t begun, committed, abandoned;
	int fail_commit;      /* what checkpoint_commit returns, when not 0 */
	uint64_t ended, kept; /* parts that were ended, and that count */
	bool hold_end;	      /* the end of its part waits until it is false */
	bool hold_new;	      /* PS task 0's storage stalls: checkpoint_new waits until it is false */
	unsigned holding_new;
	bool slow_part;	 /* its part is being written until it is false */
	bool hold_state; /* a request for its part waits until it is false */
	unsigned holding_state;
	int fail_check;	     /* what checkpoint_check returns, when not 0 */
	uint64_t rolls_back; /* roll_back's id */
	struct control_history history;
	struct control_lineage own_lineage;
	uint32_t incarnation;	      /* what workers are to know the node by, when it serves */
	uint64_t taken_back, lineage; /* of the last layout */
	uint32_t sum;		      /* of the last manifest that it heard of */
	bool wants;		      /* a checkpoint */
	bool hold_commit;	      /* checkpoint_commit waits until it is false */
	uint64_t holding_commit;
};

struct node {
	struct config config;
	int fail_from_start;		/* what installs return from its next start on, when not 0 */
	uint64_t begins_with;		/* the checkpoint that it has from its next start on; 0: none */
	struct control_history history; /* as it has it from its next start on, ... */
	uint32_t inherits;		/* ... and what it then comes to be to workers; 0: what it starts as */
	bool loads_for_long; /* from its next start on it takes no layout over until plane.hold_layout is false */
	struct fake_plane plane;
	struct control *control;
	char address[32]; /* control address */
};

struct cluster {
	char folder[UNIT_FOLDER];
	unsigned count;
	struct config_address ps[NODES_MAX];
	struct config_endpoint endpoints[NODES_MAX];
	struct node nodes[NODES_MAX];
};

/* Configures count nodes with reactors 1, 2, 3 ...; starts none. */
void cluster_init(struct cluster *cluster, unsigned count);
/* Stops what runs and removes the folder. */
void cluster_fini(struct cluster *cluster);
/* A node with fresh memory, as after a start of its process. */
bool node_start(struct cluster *cluster, unsigned task, uint32_t incarnation);
void node_stop(struct cluster *cluster, unsigned task);
/* Starts all, with incarnation 100 + task, and waits for the layout. */
bool cluster_start(struct cluster *cluster);

uint16_t free_port(void);

/* One call on a connection of its own. */
json_t *call(const char *address, const char *method, json_t *params, struct star_error *err);
/* The layout as task 0 gives it, waiting until it has that epoch at least. */
struct layout *wait_layout(const struct cluster *cluster, uint32_t epoch);
/* Waits until the data plane of a node serves that epoch. */
bool wait_epoch(struct node *node, uint32_t epoch);
bool wait_installed(struct node *node, unsigned count);
bool wait_holding(struct node *node, unsigned count);

/* A figure of node->plane as it is now. */
uint64_t plane_figure(struct node *node, const uint64_t *at);
#define PLANE(node, figure) plane_figure(node, &(node)->plane.figure)
void set_hold(struct node *node, bool hold);
/* What waits to take a layout over goes on. */
void end_hold_layout(struct node *node);
void set_fail(struct node *node, int fail);
bool has_installed(struct node *node, uint32_t id, const char *name);

json_t *table_json(const char *name, uint32_t dim);
/* Creates a table at a node; its id, or the negative errno. */
int create_table(const struct node *node, const char *name, uint32_t dim, struct star_error *err);

/* Raw connections. Received lines are without their newline; NULL at the end of the stream or after ten seconds. */
int raw_connect(const char *address);
/* From another address of the loopback, such as 127.0.0.2. */
int raw_connect_from(const char *source, const char *address);
bool raw_send(int fd, const void *bytes, size_t count);
char *raw_line(int fd);
/* Sends a line and returns the error code of the reply, 0 for a result, 1 for no reply at all. */
int raw_code(int fd, const char *line);

/* frames.c: of struct control_data_plane. */
int fake_capture(void *ctx, const json_t *params, json_t **result, struct star_error *err);
int fake_capture_take(void *ctx, const json_t *params, json_t **result, struct star_error *err);
json_t *fake_ports(void *ctx);

#endif
