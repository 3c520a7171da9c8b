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
#include "local.h"
#include "machine/machine.h"
#include "metrics/http.h"
#include "node/node.h"
#include "node/pair.h"
#include "node/telemetry.h"
#include "port/port.h"
#include "supervise.h"

enum { EXIT_CONFIG = 2, EXIT_NOT_SAVED = LOCAL_NOT_SAVED, SIGNAL_AGAIN_NS = 100000000, OVERRIDES_MAX = 64 };

/* Passed through exec when the program restarts in the same process. */
#define ROLL_BACK_TO "STARSERVER_GO_BACK_TO"
#define WITHOUT_HUGEPAGES "STARSERVER_WITHOUT_HUGEPAGES"
/* A value of *again, beside ids of checkpoints and NODE_BEGINS_AGAIN. */
#define AGAIN_WITHOUT_HUGEPAGES (UINT64_MAX - 1)

struct options {
	const char *file;
	bool check, print, print_rst;
	struct config_override overrides[OVERRIDES_MAX];
	unsigned overrides_count;
	unsigned local; /* nodes of --local; 0: there is a configuration */
	const char *directory;
};

static void help(void)
{
	puts("starserver - the parameter-server appliance\n"
	     "\n"
	     "usage: starserver -c FILE [--set NAME=VALUE ...]\n"
	     "       starserver --check -c FILE\n"
	     "       starserver --local [N] [--directory DIR] [--set NAME=VALUE ...]\n"
	     "\n"
	     "  -c, --config FILE      the configuration (libconfig); drivers-config/ has an example for each kind of "
	     "port\n"
	     "      --set NAME=VALUE   set an option of the configuration; overrides file and environment\n"
	     "      --check            validate the configuration, and that its directory and NICs exist, and exit\n"
	     "      --print            print the whole effective configuration, and exit\n"
	     "      --local [N]        without a configuration, as any user: start a node, or a cluster of N, on "
	     "127.0.0.1\n"
	     "                         and the kernel's sockets; prints the --ps of workers\n"
	     "      --directory DIR    with --local: keep checkpoints in DIR; restore the newest at start, and write "
	     "a\n"
	     "                         last one at the end\n"
	     "      --print-options-rst  print the reference of all options, for docs/\n"
	     "      --print-metrics-rst  print the reference of all metrics, for docs/\n"
	     "      --version, --help\n"
	     "\n"
	     "SIGTERM, SIGINT and SIGHUP stop the node in order; a second signal stops it at once. `starctl status` "
	     "shows\n"
	     "its state. Exit status: 0 after an orderly stop; 1 if it could not start, or a node of --local had to "
	     "be\n"
	     "killed; 2 for a wrong option or configuration; 3 if it stopped in order, but could not write the last\n"
	     "checkpoint.\n"
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

static int take_nodes(struct options *o, const char *text)
{
	char *end;
	const unsigned long nodes = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || nodes == 0 || nodes > LOCAL_NODES_MAX)
		return usage("--local takes a number of nodes from 1 to 64, not ", text);
	o->local = (unsigned)nodes;
	return 0;
}

/* Arguments that are not options, and options that exclude each other: -1 to go on, else the exit status. */
static int check_words(char **words, struct options *o)
{
	_Static_assert(LOCAL_NODES_MAX == 64, "take_nodes says so");

	if (o->local && *words && take_nodes(o, *words++))
		return EXIT_CONFIG;
	if (*words)
		return usage("unexpected argument ", *words);
	if (o->local && (o->file || o->check))
		return usage("--local uses no configuration file: remove --config and --check", "");
	if (o->directory && !o->local)
		return usage("--directory needs --local; in a configuration set checkpoint.directory instead", "");
	if (!o->file && !o->local)
		return usage("no configuration is given: give one with -c FILE, e.g. -c drivers-config/af_packet.conf, "
			     "or use --local",
			     "");
	return -1;
}

static void print_metrics(void)
{
	const struct openmetrics_family *family;

	openmetrics_rst_begin(stdout);
	for (unsigned i = 0; (family = control_metric(i)); i++)
		openmetrics_rst(stdout, family);
	for (unsigned i = 0; (family = node_metric(i)); i++)
		openmetrics_rst(stdout, family);
}

/* -1 to go on, else the exit status. */
static int parse_server_options(int argc, char **argv, struct options *o)
{
	enum { OPT_SET = 256, OPT_CHECK, OPT_PRINT, OPT_RST, OPT_METRICS, OPT_VERSION, OPT_LOCAL, OPT_DIRECTORY };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "set", required_argument, NULL, OPT_SET },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "print", no_argument, NULL, OPT_PRINT },
		{ "local", optional_argument, NULL, OPT_LOCAL },
		{ "directory", required_argument, NULL, OPT_DIRECTORY },
		{ "print-options-rst", no_argument, NULL, OPT_RST },
		{ "print-metrics-rst", no_argument, NULL, OPT_METRICS },
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
		case OPT_LOCAL:
			if (take_nodes(o, optarg ? optarg : "1"))
				return EXIT_CONFIG;
			break;
		case OPT_DIRECTORY:
			o->directory = optarg;
			break;
		case OPT_RST:
			config_print_rst(stdout);
			return EXIT_SUCCESS;
		case OPT_METRICS:
			print_metrics();
			return EXIT_SUCCESS;
		case OPT_VERSION:
			puts("starserver " STAR_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			help();
			return EXIT_SUCCESS;
		default:
			return EXIT_CONFIG; /* getopt has printed the reason */
		}
	}
	return check_words(argv + optind, o);
}

static int report_check(const struct config *config, const char *file)
{
	struct star_error err = { 0 };

	if (machine_check(config, &err) < 0) {
		fprintf(stderr, "starserver: %s: %s\n", file, err.text);
		return EXIT_CONFIG;
	}
	printf("%s: ok\n", file);
	return EXIT_SUCCESS;
}

/* The control plane serves thousands of workers, with one connection each. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void end_at_once(int number)
{
	static const char text[] =
		"starserver: the node does not stop, perhaps because its storage hangs: it is ended now\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

/* If storage hangs under a thread that must be joined, the node must end anyway. */
static void signal_end_in(unsigned seconds)
{
	signal(SIGALRM, end_at_once);
	alarm(seconds);
}

static bool metrics_family(void *ctx, unsigned number, const struct openmetrics_page *page)
{
	return control_metrics(ctx, number, page);
}

static bool metrics_health(void *ctx, char text[static METRICS_HEALTH_MAX])
{
	_Static_assert((int)METRICS_HEALTH_MAX >= (int)CONTROL_HEALTH_MAX, "the text of control_healthy fits");
	return control_healthy(ctx, text);
}

/* 0 with NULL if the configuration has no metrics port. */
static int serve_metrics(const struct config *config, struct control *control, struct metrics_server **server,
			 struct star_error *err)
{
	const struct metrics_server_options options = { .address = config->metrics_address,
							.port = (uint16_t)config->metrics_port,
							.ctx = control,
							.family = metrics_family,
							.health = metrics_health };

	*server = NULL;
	if (!config->metrics_port)
		return 0;
	*server = metrics_server_start(&options, err);
	if (!*server)
		return err->code;
	log_info("metrics: http://%s/metrics", config_show(config->metrics_address, options.port).text);
	return 0;
}

/* Waits for SIGTERM, SIGINT or SIGHUP, or until the cluster rolls back to a checkpoint: then *again is its id. Returns
 * the exit status. */
static int wait_for_end(struct node *node, struct control *control, struct supervise *supervise,
			const sigset_t *signals, uint64_t *again)
{
	sigset_t end = *signals;
	int signal, status;

	supervise_control(supervise, control);
	do {
		sigwait(signals, &signal);
		*again = signal == ROLL_BACK_SIGNAL ? __atomic_load_n(&node->rolls_back_to, __ATOMIC_ACQUIRE) : 0;
	} while (signal == ROLL_BACK_SIGNAL && !*again);
	__atomic_store_n(&node->stopping, true, __ATOMIC_RELAXED);
	sigdelset(&end, ROLL_BACK_SIGNAL);
	/* timeout, shells and supervisors may send the same signal twice in a row, which counts as one. If the node
	 * restarts, a signal stays pending, because signals survive exec, until it can be handled. */
	while (!*again && sigtimedwait(&end, NULL, &(struct timespec){ .tv_nsec = SIGNAL_AGAIN_NS }) > 0)
		;
	if (!*again)
		pthread_sigmask(SIG_UNBLOCK, &end, NULL); /* a later signal ends the process at once */
	if (*again == NODE_BEGINS_AGAIN)
		log_info("restarting");
	else if (*again)
		log_info("restarting with checkpoint %" PRIu64, *again);
	else if (!__atomic_load_n(&node->failed, __ATOMIC_ACQUIRE)) /* else it was its own signal */
		log_info("%s: stopping", strsignal(signal));
	supervise_stop(supervise, *again != 0);
	if (__atomic_load_n(&node->failed, __ATOMIC_ACQUIRE))
		return EXIT_FAILURE;
	if (*again)
		return EXIT_SUCCESS;
	status = control_drain(control) < 0 ? EXIT_NOT_SAVED : EXIT_SUCCESS;
	signal_end_in(CONTROL_END_S);
	return status;
}

/* Serves until a signal. rolled_back_to: the checkpoint with which this process has begun, or 0; again: the one with
 * which it must restart, or 0. */
static int serve_node(const struct config *config, const sigset_t *signals, uint64_t rolled_back_to, uint64_t *again)
{
	static struct node node;
	struct star_error err = { 0 };
	struct control *control = NULL;
	struct supervise *supervise = NULL;
	struct metrics_server *metrics = NULL;
	int status = EXIT_FAILURE;

	if (node_start(&node, config, &err) == 0) {
		const struct control_options options = { .config = config,
							 .incarnation = node.incarnation,
							 .steering = node_steering(&node),
							 .rolled_back_to = rolled_back_to,
							 .pair = node.pair != NULL,
							 .data_plane = node_data_plane(&node),
							 .tickets = node.tickets };

		supervise = supervise_start(&node);
		control = control_create(&options, &err);
		if (control && node_pair_begin(&node, control, &err) < 0) {
			control_destroy(control);
			control = NULL;
		}
	}
	if (control &&
	    (node_telemetry_begin(control, &err) < 0 || serve_metrics(config, control, &metrics, &err) < 0)) {
		node_telemetry_end();
		node_pair_end(&node);
		control_destroy(control);
		control = NULL;
	}
	if (control) {
		log_info("ready: %s task %u, control %s, data %s, %u reactor%s", config->job_name, config->task_index,
			 config_show(config->own.control.host, config->own.control.port).text,
			 config_show(config->own.data.host, config->own.data.port).text, config->reactors,
			 config->reactors == 1 ? "" : "s");
		status = wait_for_end(&node, control, supervise, signals, again);
		metrics_server_stop(metrics);
		node_telemetry_end();
		node_pair_end(&node);
		control_destroy(control);
		err = node.failure;
	} else {
		supervise_stop(supervise, false);
		if (err.code == -ECANCELED && node_told_to_stop(&node)) {
			log_info("%s", err.text);
			status = EXIT_SUCCESS;
		}
	}
	if (!control && port_eal_hugepages_failed() && config->hugepages == CONFIG_HUGEPAGES_PREFERRED) {
		log_warn("%s; trying without hugepages", err.text);
		*again = AGAIN_WITHOUT_HUGEPAGES;
	} else if (status == EXIT_FAILURE) {
		fprintf(stderr, "starserver: %s\n", err.text);
	}
	node_stop(&node);
	log_tell_held(UINT64_MAX);
	return status;
}

/* Restarts the program in the same process, so that a supervisor sees no end. rolled_back_to: the checkpoint with which
 * this process has begun, and with which it restarts if it lacked hugepages. Returns only if that fails. */
static int begin_again(char **argv, const struct options *o, uint64_t again, uint64_t rolled_back_to)
{
	const uint64_t id = again == AGAIN_WITHOUT_HUGEPAGES ? rolled_back_to : again;
	char text[24];

	for (unsigned i = 0; i < o->overrides_count; i++)
		((char *)o->overrides[i].value)[-1] = '='; /* as before add_override */
	snprintf(text, sizeof(text), "%" PRIu64, id);
	if (again == AGAIN_WITHOUT_HUGEPAGES)
		setenv(WITHOUT_HUGEPAGES, "1", 1);
	if (id)
		setenv(ROLL_BACK_TO, text, 1);
	close_range(STDERR_FILENO + 1, ~0U, 0); /* file descriptors that DPDK leaves open */
	execv("/proc/self/exe", argv);
	fprintf(stderr, "starserver: cannot restart%s%s: %s\n", id && id <= INT32_MAX ? " with checkpoint " : "",
		id && id <= INT32_MAX ? text : "", strerror(errno));
	return EXIT_FAILURE;
}

/* Reads what begin_again has passed on. */
static uint64_t take_roll_back(struct config *config)
{
	const char *text = getenv(ROLL_BACK_TO);
	const uint64_t id = text ? strtoull(text, NULL, 10) : 0;

	unsetenv(ROLL_BACK_TO);
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
	uint64_t again = 0, rolled_back_to = 0;
	sigset_t signals;
	int status = parse_server_options(argc, argv, &options);

	if (status >= 0)
		return output_end("starserver", status, EXIT_FAILURE);
	if (options.local)
		return output_end("starserver",
				  local_run(&(struct local_options){ .nodes = options.local,
								     .directory = options.directory,
								     .print = options.print,
								     .overrides = options.overrides,
								     .overrides_count = options.overrides_count }),
				  EXIT_FAILURE);
	config = config_load(options.file, options.overrides, options.overrides_count, &err);
	if (!config) {
		fprintf(stderr, "starserver: %s\n", err.text);
		return EXIT_CONFIG;
	}
	if (strcmp(config->job_name, "ps") != 0) {
		fprintf(stderr,
			"starserver: node.job_name is \"%s\", but starserver is always a PS task: set it to \"ps\"; "
			"workers are programs that use libstar\n",
			config->job_name);
		config_free(config);
		return EXIT_CONFIG;
	}
	if (getenv(WITHOUT_HUGEPAGES))
		config->hugepages = CONFIG_HUGEPAGES_NONE;
	unsetenv(WITHOUT_HUGEPAGES);
	log_open((enum log_format)config->log_format);
	log_set_level((enum log_level)config->log_level);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
		signal(SIGHUP, SIG_IGN); /* nohup: it must keep running */
	else
		sigaddset(&signals, SIGHUP);
	sigaddset(&signals, ROLL_BACK_SIGNAL);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (options.print) {
		config_print(config, stdout);
	} else if (options.check) {
		status = report_check(config, options.file);
	} else {
		rolled_back_to = take_roll_back(config);
		status = serve_node(config, &signals, rolled_back_to, &again);
	}
	if (options.print)
		status = EXIT_SUCCESS;
	config_free(config);
	return again ? begin_again(argv, &options, again, rolled_back_to)
		     : output_end("starserver", status, EXIT_FAILURE);
}
