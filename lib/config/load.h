/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside lib/config: a configuration while it is read, with the origin of each value, so that every error, also about
 * values that contradict each other, names a file and line, an environment variable or --set. One thread.
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

/* Sets err to origin and message. Returns -EINVAL. */
int config_fail(const struct config_origin *origin, struct star_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A value before it is checked. */
enum config_value_kind { VALUE_NUMBER, VALUE_BOOL, VALUE_TEXT, VALUE_OTHER };
struct config_value {
	enum config_value_kind kind;
	long long number; /* also of VALUE_BOOL: 0 or 1 */
	const char *text; /* VALUE_OTHER: its kind in words: "a group" */
};

/* Where a value is stored. */
struct config_target {
	const struct config_option *option;
	void *base; /* the struct of the option's scope */
	struct config_origin origin;
};

/* Checks a value against its option's type and bounds, and stores it; in a list, appends it. 0, -EINVAL or -ENOMEM. */
int config_value_store(const struct config_target *target, const struct config_value *value, struct star_error *err);

/* The same for text from the environment or --set; a list's members are separated by commas, and replace the list. */
int config_value_store_text(const struct config_target *target, const char *text, struct star_error *err);

/* Parses true, false, 1, 0, yes or no, in upper or lower case. 0 or -EINVAL. */
int config_value_bool(const char *text, bool *value, const struct config_origin *origin, struct star_error *err);

/* Empties a list. */
void config_value_clear(const struct config_target *target);

/* An endpoint map while it is read, from any source. */
struct config_map {
	struct config_endpoint *entries;
	unsigned *lines;
	uint32_t count;
	struct config_origin origin; /* line: the last one, which errors about a missing entry name */
};

/* Appends an entry; a duplicate control address is an error. */
int config_map_add(struct config_map *map, const struct config_endpoint *entry, unsigned line, struct star_error *err);
/* Parses "control=data"; text is modified. */
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

/* Appends a port with its defaults; NULL if there are CONFIG_PORTS_MAX already. */
struct config_port *config_load_add_port(struct config_load *load, const struct config_origin *origin,
					 struct star_error *err);

/* Sets the defaults of a port's options. */
int config_load_port_defaults(struct config_port *port, struct star_error *err);

int config_load_file(struct config_load *load, const char *file, struct star_error *err);
/* Takes the cluster's members, and which of them this PS task is, from TF_CONFIG, if that is set. */
int config_load_tf_config(struct config_load *load, struct star_error *err);
/* Takes only the PS tasks, for a worker's file that does not list them. */
int config_load_tf_ps(struct config_load *load, struct star_error *err);
int config_load_environment(struct config_load *load, enum config_job job, struct star_error *err);
int config_load_override(struct config_load *load, const struct config_override *override, struct star_error *err);

/* Computes missing values, and refuses those that contradict each other. */
int config_load_check(struct config_load *load, struct star_error *err);
/* The same for a worker's file. */
int config_load_check_worker(struct config_load *load, struct star_error *err);

/* Reads a file of at most CONFIG_FILE_MAX bytes, without its UTF-8 byte order mark. Returns a string to be freed; NULL
 * with err. */
enum { CONFIG_FILE_MAX = 4 << 20 };
char *config_read_text(const char *path, struct star_error *err);

/* Whether this thread could run on a core, even if its affinity mask excludes the core (isolcpus=). */
bool config_core_exists(uint32_t core);

bool config_address_equal(const struct config_address *a, const struct config_address *b);

/* Lists the cores that this process may run on, at most max. Returns their total number. */
uint32_t config_cores(uint32_t *cores, uint32_t max);

#endif
