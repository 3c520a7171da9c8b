/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a command line, and runs the command. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "config/config.h"

/* What the command line has besides the command. */
struct options {
	bool help, version;
	int words_count;
	char **words; /* as many as there are */
};

/* "--name value" or "--name=value"; 1 when argv[*i] is that option. */
static int take_value(char **argv, int argc, int *i, const char *name, const char **value, struct star_error *err)
{
	const size_t bytes = strlen(name);

	if (strncmp(argv[*i], name, bytes) != 0 || (argv[*i][bytes] != 0 && argv[*i][bytes] != '='))
		return 0;
	*value = argv[*i][bytes] == '=' ? argv[*i] + bytes + 1 : *i + 1 < argc ? argv[++*i] : "";
	return **value ? 1 : star_error_set(err, -EINVAL, "the option %s needs a value", name);
}

static int take_option(char **argv, int argc, int *i, struct invocation *invocation, struct options *options,
		       struct star_error *err)
{
	const char *word = argv[*i], *key;
	int rc = take_value(argv, argc, i, "--socket", &invocation->socket, err);

	if (rc == 0)
		rc = take_value(argv, argc, i, "--address", &invocation->address, err);
	if (rc == 0)
		rc = take_value(argv, argc, i, "--records", &invocation->records, err);
	if (rc == 0)
		rc = take_value(argv, argc, i, "-w", &invocation->write, err);
	if (rc == 0) {
		rc = take_value(argv, argc, i, "--key", &key, err);
		/* libstar uses it too, for commands that use libstar. */
		if (rc > 0)
			setenv(STARCTL_KEY, key, 1);
	}
	if (rc)
		return rc < 0 ? rc : 0;
	if (strcmp(word, "--json") == 0)
		invocation->json = true;
	else if (strcmp(word, "--watch") == 0)
		invocation->watch = true;
	else if (strcmp(word, "--words") == 0)
		invocation->words = true;
	else if (strcmp(word, "--once") == 0)
		invocation->once = true;
	else if (strcmp(word, "--cluster") == 0)
		invocation->cluster = true;
	else if (strcmp(word, "--yes") == 0)
		invocation->yes = true;
	else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		options->help = true;
	else if (strcmp(word, "--version") == 0)
		options->version = true;
	else
		return star_error_set(err, -EINVAL, "there is no option %s", word);
	return 0;
}

/* Whether the command's own option of that name takes no value. */
static bool is_own_switch(unsigned flags, const char *name)
{
	return (flags & COMMAND_GRAPH && graph_option_is_switch(name)) ||
	       (flags & COMMAND_ROLLING && rolling_option_is_switch(name));
}

/* "--name value" of a command that has options of its own. */
static int take_own_option(char **argv, int argc, int *i, struct invocation *invocation, unsigned flags,
			   struct star_error *err)
{
	char *equals = strchr(argv[*i], '=');
	struct option_word *option = &invocation->options[invocation->options_count];

	if (invocation->options_count == OPTION_WORDS_MAX)
		return star_error_set(err, -EINVAL, "there are more than %d options", OPTION_WORDS_MAX);
	option->name = argv[*i] + 2;
	if (equals)
		*equals = 0;
	for (unsigned other = 0; other < invocation->options_count; other++)
		if (strcmp(invocation->options[other].name, option->name) == 0)
			return star_error_set(err, -EINVAL, "the option --%s is given twice", option->name);
	if (is_own_switch(flags, option->name)) {
		if (equals)
			return star_error_set(err, -EINVAL, "the option --%s takes no value", option->name);
		option->value = "";
		invocation->options_count++;
		return 0;
	}
	option->value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : "";
	if (!*option->value)
		return star_error_set(err, -EINVAL, "the option --%s needs a value", option->name);
	invocation->options_count++;
	return 0;
}

/* Options after such a command are its own, except for those that every command has: returns its flags, or 0. */
static unsigned own_options(const char *word, const struct options *options)
{
	static const char *const all[] = { "--socket", "--key", "--json", "--help", "--version" };
	struct star_error ignored;
	const struct command *command;
	int words;

	if (options->words_count == 0 || strncmp(word, "--", 2) != 0)
		return 0;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strncmp(word, all[i], strlen(all[i])) == 0)
			return 0;
	command = find_command(options->words_count, options->words, &words, &ignored);
	/* A port has an address, and a cluster that is restarted is reached at one. */
	if (command && command->flags & COMMAND_ROLLING && strncmp(word, "--address", strlen("--address")) == 0)
		return 0;
	return command ? command->flags & (COMMAND_OPTIONS | COMMAND_GRAPH | COMMAND_ROLLING) : 0;
}

/* "-7" is a word: a key. */
static int read_command_line(int argc, char **argv, struct invocation *invocation, struct options *options,
			     struct star_error *err)
{
	struct config_address address;
	bool only_words = false;

	for (int i = 1; i < argc; i++) {
		if (!only_words && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (!only_words && argv[i][0] == '-' && argv[i][1] && !isdigit((unsigned char)argv[i][1])) {
			const unsigned own = own_options(argv[i], options);
			int rc = own ? take_own_option(argv, argc, &i, invocation, own, err)
				     : take_option(argv, argc, &i, invocation, options, err);

			if (rc < 0)
				return rc;
		} else {
			options->words[options->words_count++] = argv[i];
		}
	}
	if (invocation->socket && invocation->address)
		return star_error_set(err, -EINVAL, "give --socket or --address, not both");
	if (invocation->socket && !strchr(invocation->socket, '/'))
		return star_error_set(err, -EINVAL, "--socket needs a path with a slash, such as ./%s",
				      invocation->socket);
	return invocation->address ? config_parse_address(invocation->address, &address, err) : 0;
}

/* Whether the command takes these arguments. */
static int check_command(const struct command *command, const struct invocation *invocation, struct star_error *err)
{
	const struct {
		const char *name;
		bool given;
		unsigned flag;
	} switches[] = {
		{ "--watch", invocation->watch, COMMAND_WATCH },
		{ "--once", invocation->once, COMMAND_ONCE },
		{ "--yes", invocation->yes, COMMAND_YES },
		{ "--words", invocation->words, COMMAND_WORDS },
		{ "--records", invocation->records != NULL, COMMAND_RECORDS },
		{ "--cluster", invocation->cluster, COMMAND_CLUSTER },
		{ "-w", invocation->write != NULL, COMMAND_CAPTURE },
	};

	if (invocation->argc < command->arguments_min || invocation->argc > command->arguments_max)
		return star_error_set(err, -EINVAL, "usage: starctl %s%s%s", command->name,
				      command->arguments[0] ? " " : "", command->arguments);
	for (unsigned i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (switches[i].given && !(command->flags & switches[i].flag))
			return star_error_set(err, -EINVAL, "\"%s\" does not take %s", command->name, switches[i].name);
	return 0;
}

static int run_words(int argc, char **argv, char **room, const char *sockets, FILE *out, FILE *errors)
{
	struct invocation invocation = { .sockets = sockets, .out = out, .errors = errors };
	struct options options = { .words = room };
	const struct command *command = NULL;
	struct star_error err = { 0 };
	int words = 0;
	int rc = read_command_line(argc, argv, &invocation, &options, &err);

	if (rc == 0 && options.version) {
		fprintf(out, "starctl %s\n", STAR_VERSION);
		return STARCTL_OK;
	}
	if (rc == 0 && options.words_count == 0) {
		print_usage(options.help ? out : errors);
		return options.help ? STARCTL_OK : STARCTL_USAGE;
	}
	if (rc == 0) {
		command = find_command(options.words_count, options.words, &words, &err);
		rc = command ? 0 : err.code;
		if (!command && options.help && print_family(options.words_count, options.words, out))
			return STARCTL_OK;
	}
	if (rc == 0 && options.help) {
		print_command_help(command, out);
		return STARCTL_OK;
	}
	if (rc == 0) {
		invocation.argc = options.words_count - words;
		invocation.argv = options.words + words;
		rc = check_command(command, &invocation, &err);
	}
	if (rc < 0) {
		fprintf(errors, "starctl: %s\n", err.text);
		if (command || options.words_count == 0 || !print_family(options.words_count, options.words, errors))
			fprintf(errors, "starctl: see `starctl --help`\n");
		return STARCTL_USAGE;
	}
	return command->run(&invocation);
}

int starctl_run(int argc, char **argv, const char *sockets, FILE *out, FILE *errors)
{
	char **room = calloc((size_t)argc + 1, sizeof(*room));
	int status = STARCTL_FAILED;

	if (room)
		status = run_words(argc, argv, room, sockets, out, errors);
	else
		fprintf(errors, "starctl: no memory for %d words\n", argc);
	free(room);
	return status;
}
