/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * starctl: a thin client of a node's control plane. One table of commands yields what runs, the usage, the help and the
 * words of the shell completion. Single-threaded.
 */
#ifndef STARCTL_H
#define STARCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

enum starctl_exit {
	STARCTL_OK = 0,
	STARCTL_FAILED = 1, /* the node answered with an error, or cannot be reached */
	STARCTL_USAGE = 2,  /* wrong usage or a wrong configuration */
};

enum { STARCTL_WAIT_US = 30000000, STARCTL_CALL_US = 10000000 };

enum { OPTION_WORDS_MAX = 16 };

/* One call of starctl. */
struct invocation {
	const char *socket;  /* --socket, or NULL */
	const char *address; /* --address, or NULL */
	const char *write;   /* -w, or NULL */
	const char *records; /* --records, or NULL: a file that a node has left behind */
	bool json, watch, words, yes, once, cluster;
	struct option_word {
		const char *name, *value;
	} options[OPTION_WORDS_MAX]; /* "--name value" after a command that accepts options */
	unsigned options_count;
	int argc; /* what follows the command's own words */
	char **argv;
	const char *sockets; /* the directory in which sockets are searched for */
	FILE *out, *errors;
};

struct command {
	const char *name; /* one word, or two */
	const char *arguments;
	int arguments_min, arguments_max;
	unsigned flags; /* enum command_flags */
	const char *summary;
	const char *details;
	int (*run)(const struct invocation *invocation);
};

enum command_flags {
	COMMAND_WATCH = 1 << 0,	   /* takes --watch */
	COMMAND_WORDS = 1 << 1,	   /* takes --words */
	COMMAND_FILTERS = 1 << 2,  /* takes filters of connections */
	COMMAND_OPTIONS = 1 << 3,  /* takes options of its own, after its words: --address is one of them then */
	COMMAND_GRAPH = 1 << 4,	   /* those of graphs, some of which have no value */
	COMMAND_SLOW = 1 << 6,	   /* takes filters of requests */
	COMMAND_ONCE = 1 << 7,	   /* takes --once */
	COMMAND_RECORDS = 1 << 8,  /* takes --records */
	COMMAND_CLUSTER = 1 << 9,  /* takes --cluster */
	COMMAND_EVENTS = 1 << 10,  /* takes filters of events */
	COMMAND_CAPTURE = 1 << 11, /* takes -w, and filters of frames */
	COMMAND_SIZE = 1 << 12,	   /* takes words about the size of a table, and a table's options */
	COMMAND_ROLLING = 1 << 13, /* takes options of rolling restarts, some of which have no value */
	COMMAND_YES = 1 << 5,	   /* destroys something: asks first on a terminal, and takes --yes */
};

/* Ended by an entry without a name. */
extern const struct command starctl_commands[];

/* main, with its streams and the directory of the sockets as parameters. */
int starctl_run(int argc, char **argv, const char *sockets, FILE *out, FILE *errors);

/* commands.c. print_json takes the reference of json; fail prints the error, and returns status. */
struct jsonrpc_client;
struct jsonrpc_client *open_node(const struct invocation *invocation, bool may_guess, struct star_error *err);
/* Connects with the key in the file that --key or STAR_KEY names; without one, and on a Unix socket, without
 * encryption. */
#define STARCTL_KEY "STAR_KEY"
struct jsonrpc_client *connect_node(const char *address, uint64_t timeout_us, struct star_error *err);
void print_json(json_t *json, FILE *out);
int fail(const struct invocation *invocation, const struct star_error *err, int status);
int run_status(const struct invocation *invocation);
int run_connections(const struct invocation *invocation);
int run_counters(const struct invocation *invocation);
int run_endpoint_map(const struct invocation *invocation);
int run_endpoint_map_check(const struct invocation *invocation);
int run_config_check(const struct invocation *invocation);
int run_config_print(const struct invocation *invocation);
int run_shutdown(const struct invocation *invocation);
/* Calls a method of a node; returns the result, or NULL with err. Takes the reference of params. */
json_t *ask(const struct invocation *invocation, const char *method, json_t *params, struct star_error *err);
/* The same with another timeout: a node waits 10 s for a reactor before it reports that it does not answer. */
json_t *ask_within(const struct invocation *invocation, const char *method, json_t *params, uint64_t timeout_us,
		   struct star_error *err);
/* Prints a result, by render or, with --json, as JSON. Takes the reference of result. Returns the exit status. */
int print(const struct invocation *invocation, json_t *result, void (*render)(const json_t *, FILE *));
/* ask and print. Returns the exit status. Takes the reference of params. */
int show(const struct invocation *invocation, const char *method, json_t *params,
	 void (*render)(const json_t *, FILE *));

/* checkpoints.c, lines.c: without a node */
int run_checkpoint_list(const struct invocation *invocation);
int run_checkpoint_verify(const struct invocation *invocation);
int run_checkpoint_prune(const struct invocation *invocation);
int run_checkpoint_adopt(const struct invocation *invocation);
int run_checkpoint_export(const struct invocation *invocation);
int run_checkpoint_import(const struct invocation *invocation);

/* doctor.c */
int run_doctor(const struct invocation *invocation);

/* keys.c: key files, roles and the audit log */
int run_key_create(const struct invocation *invocation);
int run_key_list(const struct invocation *invocation);
int run_key_copy(const struct invocation *invocation);
int run_key_promote(const struct invocation *invocation);
int run_key_revoke(const struct invocation *invocation);
int run_key_reload(const struct invocation *invocation);
int run_acl_check(const struct invocation *invocation);
int run_quotas(const struct invocation *invocation);
int run_audit_verify(const struct invocation *invocation);

/* pair.c */
int run_promote(const struct invocation *invocation);

/* rolling.c */
int run_rolling_restart(const struct invocation *invocation);
bool rolling_option_is_switch(const char *name);
void print_rolling_options(FILE *out);

/* health.c */
int run_health(const struct invocation *invocation);
int run_metrics(const struct invocation *invocation);
int run_log_level(const struct invocation *invocation);

/* ports.c */
int run_port_add(const struct invocation *invocation);
int run_port_remove(const struct invocation *invocation);
int run_port_list(const struct invocation *invocation);
void print_port_options(FILE *out);

/* graph.c: without a node */
int run_graph_explain(const struct invocation *invocation);
bool graph_option_is_switch(const char *name);
void print_graph_options(FILE *out);

/* saves.c: waits until the checkpoint that was requested last is written, however long that takes, with a progress bar
 * on a terminal. Returns its description as a new reference, or NULL with err. */
json_t *wait_saved(const struct invocation *invocation, struct jsonrpc_client *client, struct star_error *err);

/* queues.c: work queues of a running cluster */
int run_queue_list(const struct invocation *invocation);
int run_queue_drop(const struct invocation *invocation);

/* tables.c */
int run_tables(const struct invocation *invocation);
int run_tables_show(const struct invocation *invocation);
int run_tables_options(const struct invocation *invocation);
int run_tables_create(const struct invocation *invocation);
int run_tables_sweep(const struct invocation *invocation);
int run_tables_empty(const struct invocation *invocation);
int run_tables_drop(const struct invocation *invocation);
/* All tables of a node with their figures, as a new reference, or NULL with err. */
json_t *tables_of_node(struct jsonrpc_client *client, struct star_error *err);
/* A table's definition, and its figures on a node and on each reactor, as a new reference; NULL with err, which
 * suggests the most similar name. */
json_t *table_of_node(struct jsonrpc_client *client, const char *name, struct star_error *err);
/* The meaning of an option of tables; NULL if there is no such option. */
const char *option_text(const char *name);

/* spec.c: "dim=16", "optimizer=adam", ... as `tables create` takes them. 0, or -EINVAL with a message. */
struct object_spec;
int spec_read(const char *name, int words_count, char *const *words, struct object_spec *spec, struct star_error *err);

/* size.c: without a node */
int run_size(const struct invocation *invocation);
void print_size_words(FILE *out);

/* rows.c, row_import.c: rows of a running cluster */
int run_rows_get(const struct invocation *invocation);
int run_tables_export(const struct invocation *invocation);
int run_tables_import(const struct invocation *invocation);

/* saves.c: checkpoints of a running cluster */
int run_checkpoint_save(const struct invocation *invocation);
int run_checkpoint_status(const struct invocation *invocation);
int run_checkpoint_restore(const struct invocation *invocation);

/* usage.c */
int run_help(const struct invocation *invocation);
void print_usage(FILE *out);
void print_command_help(const struct command *command, FILE *out);
/* If argv is one word that is not a command by itself, lists the commands that start with it. Returns whether there
 * are any. */
bool print_family(int argc, char *const *argv, FILE *out);
/* The command that argv starts with, and in *words the number of its words; NULL with err. */
const struct command *find_command(int argc, char **argv, int *words, struct star_error *err);

/* socket.c: the node's address as jsonrpc_connect takes it, or NULL with err. Notes go to invocation->errors. */
const char *choose_node(const struct invocation *invocation, bool may_guess, char *buffer, size_t size,
			struct star_error *err);

/* render.c: for people. */
void render_status(const json_t *status, FILE *out);
void render_tables(const json_t *tables, FILE *out);
void render_table(const json_t *object, FILE *out);
void render_ports(const json_t *ports, FILE *out);
void render_endpoints(const json_t *endpoints, FILE *out);

/* filters.c: "name=value" words as parameters of a method; NULL with err. The list ends with an entry without a
 * name. */
struct filter {
	const char *name;
	bool number;
};
json_t *take_filters(const struct filter *filters, const char *help, int argc, char **argv, struct star_error *err);
void print_filters(const struct filter *filters, FILE *out);

/* requests.c */
int run_latency(const struct invocation *invocation);
int run_slow(const struct invocation *invocation);
int run_trace(const struct invocation *invocation);
int run_hot(const struct invocation *invocation);
void print_slow_filters(FILE *out);

/* events.c, memory.c */
int run_events(const struct invocation *invocation);
void print_event_filters(FILE *out);
int run_memory(const struct invocation *invocation);

/* survey.c, report.c */
int run_nodes(const struct invocation *invocation);
int run_report(const struct invocation *invocation);

/* capture.c */
int run_capture(const struct invocation *invocation);
void print_capture_filters(FILE *out);

/* core.c: without a node */
int run_core(const struct invocation *invocation);

/* top.c */
int run_top(const struct invocation *invocation);

/* connections.c: a node's TCP, in the shapes of `ss -ti` and `nstat` */
/* "name=value" words as parameters of the method; NULL with err. */
json_t *connection_filters(int argc, char **argv, struct star_error *err);
void print_connection_filters(FILE *out);
void render_connections(const json_t *reply, FILE *out);
/* The sums of all reactors' counters in a status, as a new reference. */
json_t *sum_counters(const json_t *status);
void render_counters(const json_t *sums, FILE *out);

/* table.c: columns as wide as their widest cell; a row wider than the terminal continues on the next line. Cells are
 * text of fewer than TABLE_CELL_MAX bytes; control characters in them are not printed. */
enum { TABLE_COLUMNS_MAX = 24, TABLE_CELL_MAX = 512, TABLE_WIDTH = 100 };

struct table {
	unsigned columns, rows, rows_max;
	bool right[TABLE_COLUMNS_MAX]; /* aligned to the right: numbers */
	char **cells;		       /* NULL: "-" */
};

void table_init(struct table *table);
void table_fini(struct table *table);
void table_column(struct table *table, const char *title, bool right);
/* Adds a row; its cells are filled from left to right, or stay "-". */
void table_row(struct table *table);
void table_set(struct table *table, unsigned column, const char *format, ...) __attribute__((format(printf, 3, 4)));
void table_print(const struct table *table, FILE *out);

/* Prints text from outside, made safe for a terminal. */
void print_text(const char *text, FILE *out);

/* A number for people: 12345, 1.23 M; 512 KiB; 1 h 02 min. Returns text. */
char *human_count(double number, char text[static 24]);
char *human_bytes(double bytes, char text[static 24]);
char *human_time(double seconds, char text[static 24]);
/* Microseconds: 1.65 us, 5.3 ms. */
char *human_us(double us, char text[static 24]);

#endif
