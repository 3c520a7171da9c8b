/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside lib/config: a configuration while it is read, with where each value came from, so that every complaint, also
 * one about values that do not fit together, names a file and line, an environment variable or --set. One thread.
 */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H

#include <limits.h>

#include "config/config.h"
#include "config/options.h"

enum config_source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE };

struct config_origin {
	enum config_source source;
	const char *name; /* the file's path or the variable's name */
	unsigned line;
};

/* Fills err with the origin and the message; returns -EINVAL. */
int config_fail(const struct config_origin *origin, struct star_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A value before it is believed. */
enum config_value_kind { VALUE_NUMBER, VALUE_BOOL, VALUE_TEXT, VALUE_OTHER };
struct config_value {
	enum config_value_kind kind;
	long long number; /* also of VALUE_BOOL: 0 or 1 */
	const char *text; /* VALUE_OTHER: what it is, as in "a group" */
};

/* Where a value goes. */
struct config_target {
	const struct config_option *option;
	void *base; /* the struct of the option's scope */
	struct config_origin origin;
};

/* Checks a value against its option's type and bounds, and stores it; in a list, appends it. 0, -EINVAL or -ENOMEM. */
int config_value_store(const struct config_target *target, const struct config_value *value, struct star_error *err);

/* The same from text, as the environment and --set give it; a list's members are parted by commas, and replace it. */
int config_value_store_text(const struct config_target *target, const char *text, struct star_error *err);

/* True, False, 1, 0, yes, no, in any case. */
int config_value_bool(const char *text, bool *value, const struct config_origin *origin, struct star_error *err);

void config_value_clear(const struct config_target *target);

/* An endpoint map while it is read, from whatever source. */
struct config_map {
	struct config_endpoint *entries;
	unsigned *lines;
	uint32_t count;
	struct config_origin origin; /* line: the last one, which is where a missing entry is missed */
};

/* Appends an entry; a control address that is there already is an error. */
int config_map_add(struct config_map *map, const struct config_endpoint *entry, unsigned line, struct star_error *err);
/* Reads "control=data"; text is cut in pieces. */
int config_map_parse(struct config_map *map, char *text, unsigned line, struct star_error *err);
int config_map_read(struct config_map *map, const char *path, struct star_error *err);
void config_map_fini(struct config_map *map);
struct config_origin config_map_origin(const struct config_map *map, uint32_t entry);

struct config_load {
	struct config *config;
	struct config_map map;
	char map_file[CONFIG_TEXT_MAX + 1]; /* endpoint_map_file as given */
	char map_path[PATH_MAX];	    /* the file that it names */
	struct config_origin origins[CONFIG_OPTIONS_MAX];
	struct config_origin ports[CONFIG_PORTS_MAX];
};

/* Where an option's value came from. */
struct config_origin *config_load_origin(struct config_load *load, const struct config_option *option);

/* Appends a port with its defaults; NULL when there are CONFIG_PORTS_MAX already. */
struct config_port *config_load_add_port(struct config_load *load, const struct config_origin *origin,
					 struct star_error *err);

/* The defaults of a port's options. */
int config_load_port_defaults(struct config_port *port, struct star_error *err);

int config_load_file(struct config_load *load, const char *file, struct star_error *err);
/* Who takes part, and which of them this PS task is, if TF_CONFIG is set. */
int config_load_tf_config(struct config_load *load, struct star_error *err);
/* The PS tasks alone, for a worker's file that does not list them. */
int config_load_tf_ps(struct config_load *load, struct star_error *err);
int config_load_environment(struct config_load *load, enum config_job job, struct star_error *err);
int config_load_override(struct config_load *load, const struct config_override *override, struct star_error *err);

/* Computes what was not given, and refuses values that do not fit together. */
int config_load_check(struct config_load *load, struct star_error *err);
/* The same for a worker's file. */
int config_load_check_worker(struct config_load *load, struct star_error *err);

/* A file's text with a NUL behind it, without a UTF-8 byte order mark; at most CONFIG_FILE_MAX bytes. To be freed. */
enum { CONFIG_FILE_MAX = 4 << 20 };
char *config_read_text(const char *path, struct star_error *err);

/* Whether this thread could run on a core, also on one outside of its mask, as with isolcpus=. */
bool config_core_exists(uint32_t core);

bool config_address_equal(const struct config_address *a, const struct config_address *b);

/* The cores that this process may run on, at most max of them; returns how many there are. */
uint32_t config_cores(uint32_t *cores, uint32_t max);

#endif
