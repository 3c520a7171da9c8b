/* SPDX-License-Identifier: BSD-3-Clause */
/* starserver: options, start, wait, stop. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/output.h"
#include "node.h"
#include "supervise.h"

enum { EXIT_CONFIG = 2, OVERRIDES_MAX = 64 };

/* From begin_anew to the next main. */
#define GO_BACK_TO "STARSERVER_GO_BACK_TO"

struct options {
	const char *file;
	bool check, print, print_rst;
	struct config_override overrides[OVERRIDES_MAX];
	unsigned overrides_count;
};

static void help(void)
{
	puts("starserver - the parameter-server appliance\n"
	     "\n"
	     "usage: starserver -c FILE [--set NAME=VALUE ...]\n"
	     "       starserver --check -c FILE\n"
	     "\n"
	     "  -c, --config FILE      the configuration (libconfig); drivers-config/ has one for each kind of port\n"
	     "      --set NAME=VALUE   an option of the configuration, stronger than file and environment\n"
	     "      --check            validate the configuration, and start nothing\n"
	     "      --print            print the whole configuration as it is in force, and start nothing\n"
	     "      --print-options-rst  print the reference of all options, for docs/\n"
	     "      --version, --help\n"
	     "\n"
	     "SIGTERM and SIGINT end it; a second one ends it at once. `starctl status` shows its figures.\n"
	     "Exit status: 0 after an orderly end, 1 when it could not start, 2 for a wrong option or configuration.\n"
	     "\n"
	     "Options of the configuration:\n");
	config_print_help(stdout);
}

static int usage(const char *what, const char *arg)
{
	fprintf(stderr, "starserver: %s%s; see starserver --help\n", what, arg);
	return EXIT_CONFIG;
}

static int add_override(struct options *o, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return usage("--set needs NAME=VALUE, not ", text);
	if (o->overrides_count == OVERRIDES_MAX)
		return usage("too many --set options", "");
	*equals = 0;
	o->overrides[o->overrides_count++] = (struct config_override){ text, equals + 1 };
	return 0;
}

/* -1 to go on, else the exit status. */
static int parse(int argc, char **argv, struct options *o)
{
	enum { OPT_SET = 256, OPT_CHECK, OPT_PRINT, OPT_RST, OPT_VERSION };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "set", required_argument, NULL, OPT_SET },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "print", no_argument, NULL, OPT_PRINT },
		{ "print-options-rst", no_argument, NULL, OPT_RST },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "c:h", longs, NULL)) != -1) {
		switch (option) {
		case 'c':
			o->file = optarg;
			break;
		case OPT_SET:
			if (add_override(o, optarg))
				return EXIT_CONFIG;
			break;
		case OPT_CHECK:
			o->check = true;
			break;
		case OPT_PRINT:
			o->print = true;
			break;
		case OPT_RST:
			config_print_rst(stdout);
			return EXIT_SUCCESS;
		case OPT_VERSION:
			puts("starserver " STAR_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			help();
			return EXIT_SUCCESS;
		default:
			return EXIT_CONFIG; /* getopt has said why */
		}
	}
	if (optind < argc)
		return usage("unexpected argument ", argv[optind]);
	if (!o->file)
		return usage("which configuration? Give one with -c FILE, e.g. -c drivers-config/af_packet.conf", "");
	return -1;
}

/* The control plane serves thousands of workers, each on a connection of its own. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Until SIGTERM or SIGINT, or until the cluster goes back to a checkpoint: then *again is its id. The exit status. */
static int wait_for_end(struct node *node, struct control *control, struct supervise *supervise,
			const sigset_t *signals, uint64_t *again)
{
	sigset_t end = *signals;
	int signal;

	supervise_control(supervise, control);
	do {
		sigwait(signals, &signal);
		*again = signal == GO_BACK_SIGNAL ? __atomic_load_n(&node->goes_back_to, __ATOMIC_ACQUIRE) : 0;
	} while (signal == GO_BACK_SIGNAL && !*again);
	__atomic_store_n(&node->stopping, true, __ATOMIC_RELAXED);
	sigdelset(&end, GO_BACK_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &end, NULL); /* a second one ends it at once */
	if (*again)
		log_info("beginning anew with checkpoint %" PRIu64, *again);
	else
		log_info("%s: stopping", strsignal(signal));
	supervise_stop(supervise, *again != 0);
	if (__atomic_load_n(&node->failed, __ATOMIC_ACQUIRE))
		return EXIT_FAILURE;
	if (!*again)
		control_drain(control);
	return EXIT_SUCCESS;
}

/* Serves until a signal. gone_back_to, again: a checkpoint that the cluster goes back to, with which this process has begun or is to
 * begin again; or 0. */
static int serve(const struct config *config, const sigset_t *signals, uint64_t gone_back_to, uint64_t *again)
{
	static struct node node;
	struct star_error err = { 0 };
	struct control *control = NULL;
	struct supervise *supervise = NULL;
	int status = EXIT_FAILURE;

	if (node_start(&node, config, &err) == 0) {
		const struct control_options options = { .config = config,
							 .incarnation = node.incarnation,
							 .steering = node_steering(&node),
							 .gone_back_to = gone_back_to,
							 .data_plane = node_data_plane(&node) };

		supervise = supervise_start(&node);
		control = control_create(&options, &err);
	}
	if (control) {
		log_info("ready: %s task %u, control %s, data %s, %u reactor%s", config->job_name, config->task_index,
			 config_show(config->own.control.host, config->own.control.port).text,
			 config_show(config->own.data.host, config->own.data.port).text, config->reactors,
			 config->reactors == 1 ? "" : "s");
		status = wait_for_end(&node, control, supervise, signals, again);
		control_destroy(control);
		err = node.failure;
	} else {
		supervise_stop(supervise, false);
		if (err.code == -ECANCELED && node_told_to_stop(&node)) {
			log_info("%s", err.text);
			status = EXIT_SUCCESS;
		}
	}
	if (status == EXIT_FAILURE)
		fprintf(stderr, "starserver: %s\n", err.text);
	node_stop(&node);
	return status;
}

/* The same program in the same process, so that who watches it sees none end. Returns when that fails. */
static int begin_anew(char **argv, const struct options *o, uint64_t id)
{
	char text[24];

	for (unsigned i = 0; i < o->overrides_count; i++)
		((char *)o->overrides[i].value)[-1] = '='; /* as add_override found it */
	snprintf(text, sizeof(text), "%" PRIu64, id);
	setenv(GO_BACK_TO, text, 1);
	close_range(STDERR_FILENO + 1, ~0U, 0); /* what DPDK leaves open */
	execv("/proc/self/exe", argv);
	fprintf(stderr, "starserver: it cannot begin anew with checkpoint %s: %s\n", text, strerror(errno));
	return EXIT_FAILURE;
}

/* What begin_anew has left for this process. */
static uint64_t take_go_back(struct config *config)
{
	const char *text = getenv(GO_BACK_TO);
	const uint64_t id = text ? strtoull(text, NULL, 10) : 0;

	unsetenv(GO_BACK_TO);
	if (!config->checkpoint_directory[0] || !config->checkpoint_restore || id > INT32_MAX)
		return 0;
	if (id)
		config->checkpoint_id = (uint32_t)id;
	return id;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	struct star_error err = { 0 };
	struct config *config;
	uint64_t again = 0;
	sigset_t signals;
	int status = parse(argc, argv, &options);

	if (status >= 0)
		return output_end("starserver", status, EXIT_FAILURE);
	config = config_load(options.file, options.overrides, options.overrides_count, &err);
	if (!config) {
		fprintf(stderr, "starserver: %s\n", err.text);
		return EXIT_CONFIG;
	}
	if (strcmp(config->job_name, "ps") != 0) {
		fprintf(stderr,
			"starserver: node.job_name is \"%s\": the appliance is a PS task; workers are programs that "
			"use libstar\n",
			config->job_name);
		config_free(config);
		return EXIT_CONFIG;
	}
	log_set_level((enum log_level)config->log_level);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, GO_BACK_SIGNAL);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (options.print)
		config_print(config, stdout);
	else if (options.check)
		printf("%s: ok\n", options.file);
	else
		status = serve(config, &signals, take_go_back(config), &again);
	if (options.print || options.check)
		status = EXIT_SUCCESS;
	config_free(config);
	return again ? begin_anew(argv, &options, again) : output_end("starserver", status, EXIT_FAILURE);
}
