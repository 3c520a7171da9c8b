/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option table: one entry for each key of the configuration file, the environment and --set. Parser, bounds,
 * defaults, help and the reference page follow from it. Constant data.
 */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_option_type {
	OPTION_NUMBER,	 /* uint32_t, from min to max */
	OPTION_BOOL,	 /* bool */
	OPTION_TEXT,	 /* char[], of min to max bytes */
	OPTION_WORD,	 /* char[], one of choices */
	OPTION_CHOICE,	 /* uint32_t or an enum, the index of one of choices */
	OPTION_ADDRESS,	 /* struct config_address */
	OPTION_NETWORKS, /* "address/prefix": struct config_network[] at offset, their number at offset2; at most max */
	OPTION_NUMBERS,	 /* uint32_t[CONFIG_CORES_MAX] at offset, their number at offset2; each from min to max */
	OPTION_ADDRESSES, /* struct config_address * at offset, their number at offset2; at most max of them */
};

/* The struct that an option's offsets are in. */
enum config_option_scope { SCOPE_CONFIG, SCOPE_PORT, SCOPE_ENDPOINT, SCOPE_LOAD };

enum config_option_environment {
	ENVIRONMENT_AS_IS,
	ENVIRONMENT_NEGATED, /* the variable disables what the option enables */
	ENVIRONMENT_FOLDER,  /* the variable names the directory of .endpoint_map */
};

enum config_job { JOB_PS, JOB_WORKER, JOBS };

struct config_option {
	const char *name; /* the dotted path; "list[].key" in a list of groups */
	enum config_option_scope scope;
	enum config_option_type type;
	size_t offset, offset2;
	size_t others; /* of OPTION_ADDRESSES: struct config_address *, each one's second address, after '|'; 0: none */
	uint32_t min, max;
	const char *choices;	  /* "one|two" */
	const char *fallback;	  /* the default, as for --set; NULL: there is none, or it is computed */
	const char *fallback_how; /* the default in words, if fallback is NULL */
	bool required;		  /* it has no default */
	bool worker;		  /* allowed in a worker's file (config_load_worker) */
	const char *unit;
	const char *variables[JOBS]; /* environment variables, by job: of each, or of none */
	enum config_option_environment variable_means;
	const char *help;
};

enum { CONFIG_OPTIONS_MAX = 112, CONFIG_NAME_MAX = 95 };

extern const struct config_option config_options[];
extern const unsigned config_options_count;

/* A top-level key: a group of options, or a list of groups. */
struct config_group {
	const char *name;
	bool list;
	const char *help;
};

extern const struct config_group config_groups[];
extern const unsigned config_groups_count;

const struct config_option *config_option_find(const char *name);
const struct config_group *config_group_find(const char *name);

/* The group of an option; NULL: a top-level key. */
const struct config_group *config_option_group(const struct config_option *option);

/* The option's name without its group: "number" of "cores.number". */
const char *config_option_leaf(const struct config_option *option);

/* The key with the smallest edit distance to a name; the same key in another group counts as near. */
const char *config_option_nearest(const char *name);

/* The allowed values in words: "a whole number from 1 to 64". Truncated to `bytes`. Returns text. */
const char *config_option_takes(const struct config_option *option, char *text, size_t bytes);

static inline bool config_option_is_list(const struct config_option *option)
{
	return option->type == OPTION_NUMBERS || option->type == OPTION_ADDRESSES || option->type == OPTION_NETWORKS;
}

#endif
