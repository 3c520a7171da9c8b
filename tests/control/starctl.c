/* SPDX-License-Identifier: BSD-3-Clause */
/* starctl inside the test, against nodes inside the test; only its shutdown needs a process of its own. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "app/starctl/starctl.h"
#include "wire/object.h"

struct outcome starctl(const char *sockets, const char *words, const char *path)
{
	struct outcome outcome;
	size_t out_bytes, error_bytes;
	FILE *out = open_memstream(&outcome.out, &out_bytes), *errors = open_memstream(&outcome.errors, &error_bytes);
	char copy[512], *argv[32] = { (char[]){ "starctl" } }, *rest = copy, *word;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")) && argc < 32)
		if (*word)
			argv[argc++] = strcmp(word, "@") == 0 ? (char *)path : word;
	outcome.status = starctl_run(argc, argv, sockets, out, errors);
	fclose(out);
	fclose(errors);
	return outcome;
}

void release(struct outcome *outcome)
{
	free(outcome->out);
	free(outcome->errors);
}

static const struct {
	const char *words, *says;
} wrong_usage[] = {
	{ "", "Usage: starctl" },
	{ "statsu", "no command \"statsu\"; did you mean \"status\"?" },
	{ "config chekc x", "did you mean \"config check\"?" },
	{ "chekpoint", "no command \"chekpoint\"; did you mean \"checkpoint\"?" },
	{ "chekpoint lsit", "did you mean \"checkpoint list\"?" },
	{ "sise rows=5 dim=4", "did you mean \"size\"?" },
	{ "tablesshow", "did you mean \"tables show\"?" },
	{ "xyzzy", "no command \"xyzzy\"; `starctl --help` lists them" },
	{ "config", "no command \"config\"" },
	{ "config check", "usage: starctl config check FILE" },
	{ "config check a b", "usage: starctl config check FILE" },
	{ "status now", "usage: starctl status [--watch]" },
	{ "tables --watch", "does not take --watch" },
	{ "tables --words", "does not take --words" },
	{ "--colour status", "no option --colour" },
	{ "--socket", "--socket needs a value" },
	{ "--socket= status", "--socket needs a value" },
	{ "--socket x status", "such as ./x" },
	{ "--socket /x --address 127.0.0.1:1 status", "not both" },
	{ "--address nowhere status", "nowhere" },
	{ "help nonsense", "no command \"nonsense\"" },
	{ "tables show", "usage: starctl tables show NAME" },
	{ "rolling-restart now", "usage: starctl rolling-restart [OPTION...]" },
	{ "rolling-restart --restart true", "is the same command for each node" },
	{ "rolling-restart --timeout 0", "seconds for each step, 1 to 86400" },
	{ "rolling-restart --allow-restart two", "numbers of PS tasks" },
	{ "rolling-restart --again", "the option --again needs a value" },
	{ "rolling-restart --again now", "there is no option --again" },
	{ "rolling-restart --dry-run=1", "the option --dry-run takes no value" },
	{ "tables create", "usage: starctl tables create NAME OPTION=VALUE..." },
	{ "tables create x rate=1", "one of dim= (a table) and shape= (a variable) is needed" },
	{ "tables create x dim=4 shape=4", "one of dim= (a table) and shape= (a variable) is needed" },
	{ "tables create x dim=4x", "dim is \"4x\": a number from 1 to 4096 is needed" },
	{ "tables create x dim=4097", "table \"x\": dim is 4097; 1 to 4096 are possible" },
	{ "tables create x shape=4xx4", "shape is \"4xx4\": 1 to 8 sizes are needed, as in shape=100x64" },
	{ "tables create x shape=1x1x1x1x1x1x1x1x1", "1 to 8 sizes are needed" },
	{ "tables create x shape=1048576x1048576", "has 1099511627776 elements: at most 2^38 are possible" },
	{ "tables create x dim=2 dim=3", "dim is given twice: \"dim=2\" and \"dim=3\"" },
	{ "tables create x shape=2 shape=3", "shape is given twice: \"shape=2\" and \"shape=3\"" },
	{ "tables create x dim=2 dtype=int8 dtype=int8", "dtype is given twice" },
	{ "tables create x optimizer=sgd dim=2 optimizer=adam", "optimizer is given twice" },
	{ "tables create x dim=2 rate=1 rate=2", "rate is given twice" },
	{ "tables create x dim=2 rate=1,versions=1 versions=0", "option versions is given twice" },
	{ "connections reactor=1 limit=2 reactor=2", "the filter reactor is given twice" },
	{ "port add net_memif0 --address 198.18.0.1/24 --address 198.18.0.2/24",
	  "the option --address is given twice" },
	{ "port add net_memif0,id=1 --options id=2", "options are given twice: after the device's name" },
	{ "graph explain x.star --batch 1 --batch=2", "the option --batch is given twice" },
	{ "graph explain x.star --compare --compare", "the option --compare is given twice" },
	{ "tables create x dim=4 dtype=float", "there is no element type \"float\"; possible values are float32, " },
	{ "tables create x dim=4 optimizer=amad", "there is no optimizer \"amad\"; possible values are sgd, " },
	{ "tables create x dim=4 ratte=1", "there is no option \"ratte\"; did you mean \"rate\"?" },
	{ "tables create x dim=4 dtype=int32 optimizer=sgd", "optimizer sgd does not support element type int32" },
	{ "tables options amad", "there is no optimizer \"amad\"; possible values are sgd, " },
	{ "-- --json", "no command \"--json\"" },
	{ "rows get -- t --json", "\"--json\" is not a key" },
	{ "rows get t -- -7x", "\"-7x\" is not a key" },
};

void wrong_usage_is_explained(void)
{
	for (unsigned i = 0; i < sizeof(wrong_usage) / sizeof(wrong_usage[0]); i++) {
		struct outcome o = starctl("/nonexistent", wrong_usage[i].words, "");

		if (!CHECK_INT(o.status, STARCTL_USAGE) || !CHECK_HAS(o.errors, wrong_usage[i].says))
			unit_fail(__FILE__, __LINE__, "starctl %s", wrong_usage[i].words);
		CHECK_STR(o.out, "");
		release(&o);
	}
}

void every_command_has_its_help_and_words(void)
{
	struct outcome usage = starctl("/nonexistent", "--help", ""), o;
	char words[128];

	CHECK_INT(usage.status, STARCTL_OK);
	for (const struct command *c = starctl_commands; c->name; c++) {
		snprintf(words, sizeof(words), "%s --help", c->name);
		o = starctl("/nonexistent", words, "");
		CHECK_INT(o.status, STARCTL_OK);
		CHECK_HAS(o.out, c->name);
		CHECK_HAS(o.out, c->details);
		CHECK_HAS(usage.out, c->summary);
		release(&o);
	}
	release(&usage);
	o = starctl("/nonexistent", "help checkpoint", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "checkpoint save [full|delta]");
	CHECK_HAS(o.out, "checkpoint restore [ID]");
	release(&o);
	o = starctl("/nonexistent", "checkpoint --help", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "checkpoint restore [ID]");
	release(&o);
	o = starctl("/nonexistent", "help --words", "");
	CHECK_STR(o.out,
		  "status\nhealth\nmetrics\nlog-"
		  "level\ndoctor\ntables\nsize\nrows\nqueue\ncheckpoint\nconnections\ntop\nlatency\nslow\ntrace\n"
		  "events\nmemory\ncapture\nnodes\nreport\ncore\n"
		  "hot\ncounters\nport\nendpoint-"
		  "map\ngraph\nconfig\nkey\nacl\nquotas\naudit\npromote\nrolling-restart\nshutdown\nhelp\n--socket\n--"
		  "address\n--key\n--json\n--help\n--"
		  "version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words tables", "");
	CHECK_STR(o.out,
		  "show\noptions\ncreate\nsweep\nempty\ndrop\nexport\nimport\n--socket\n--address\n--key\n--json\n--"
		  "help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words rolling-restart", "");
	CHECK_STR(o.out,
		  "--restart\n--promote\n--timeout\n--allow-restart\n--state\n--dry-run\n--from-scratch\n--socket\n--"
		  "address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words config", "");
	CHECK_STR(o.out, "check\nprint\n--socket\n--address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words connections", "");
	CHECK_STR(o.out, "reactor=\nstate=\npeer=\nlimit=\n--socket\n--address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words slow", "");
	CHECK_STR(o.out, "--records\n--cluster\n"
			 "minutes=\nreactor=\nlimit=\n--socket\n--address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words top", "");
	CHECK_STR(o.out, "--once\nsort=\n--cluster\n--socket\n--address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "help --words status", "");
	CHECK_STR(o.out, "--watch\n--socket\n--address\n--key\n--json\n--help\n--version\n");
	release(&o);
	o = starctl("/nonexistent", "--version", "");
	CHECK_STR(o.out, "starctl " STAR_VERSION "\n");
	release(&o);
}

void a_node_that_is_not_there_is_status_1(void)
{
	struct outcome o = starctl("/nonexistent", "status", "");
	char words[64];

	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "no node runs here: there is no socket in /nonexistent");
	release(&o);
	snprintf(words, sizeof(words), "--json --address 127.0.0.1:%u tables", free_port());
	o = starctl("/nonexistent", words, "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "connection refused");
	CHECK_HAS(o.out, "\"error\": \"cannot reach 127.0.0.1:");
	release(&o);
	o = starctl("/nonexistent", "--socket /nonexistent/x.sock shutdown", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	release(&o);
}

/* As a memif's server has it. */
static int worker_socket(const char *folder, struct sockaddr_un *address)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/worker0.sock", folder);
	CHECK_INT(bind(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
	CHECK_INT(listen(fd, 1), 0);
	return fd;
}

void nodes_are_shown(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *json, *params = table_json("matrix", 8);
	struct outcome o;
	struct sockaddr_un address;
	int workers;

	cluster_init(&cluster, 2);
	cluster_start(&cluster);
	/* Two nodes' sockets, and one for a worker's memif: the newer node is asked, and that is said. */
	workers = worker_socket(cluster.folder, &address);
	o = starctl(cluster.folder, "tables", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "no tables and no variables\n");
	CHECK_HAS(o.errors, "the newest of several; choose with --socket");
	CHECK_HAS(o.errors, "ps-0.sock");
	CHECK(!strstr(o.errors, "worker0.sock"));
	release(&o);
	close(workers);
	unlink(address.sun_path);
	o = starctl(cluster.folder, "shutdown", "");
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "there are several nodes; choose one with --socket");
	release(&o);
	json_decref(call(cluster.nodes[0].address, "create", table_json("words\xc3\xa4", 64), &err));
	json_object_set_new(params, "kind", json_string("variable"));
	json_object_set_new(params, "shape", json_pack("[i, i]", 10, 20));
	json_object_del(params, "dim");
	json_decref(call(cluster.nodes[0].address, "create", params, &err));
	o = starctl(cluster.folder, "--socket @ tables", cluster.nodes[0].config.control_socket);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.errors, "");
	CHECK_STR(o.out, "NAME    KIND      TYPE     DIM OR SHAPE  OPTIMIZER  ROWS    MEMORY  PUSHES\n"
			 "words\xc3\xa4  table     float32            64  adagrad       7  64.0 KiB       3\n"
			 "matrix  variable  float32       10 x 20  adagrad      14  64.0 KiB       3\n");
	release(&o);
	o = starctl(cluster.folder, "--json --address @ status", cluster.nodes[0].address);
	json = json_loads(o.out, 0, NULL);
	CHECK_INT(json_integer_value(json_object_get(json, "objects")), 2);
	json_decref(json);
	release(&o);
	o = starctl(cluster.folder, "--socket=@ status --address=@", "");
	CHECK_INT(o.status, STARCTL_USAGE);
	release(&o);
	o = starctl(cluster.folder, "status --address @", cluster.nodes[0].address);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "ps:0   StarServer " STAR_VERSION);
	CHECK_HAS(o.out, cluster.nodes[1].address);
	CHECK_HAS(o.out, "REACTOR  REQUESTS\n");
	release(&o);
	o = starctl(cluster.folder, "endpoint-map --address @", cluster.nodes[0].address);
	CHECK_HAS(o.out, "198.18.0.2:5555");
	release(&o);
	o = starctl(cluster.folder, "shutdown --address @", cluster.nodes[0].address);
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "for the administrator's socket");
	release(&o);
	cluster_fini(&cluster);
}

static char *rendered(void (*render)(const json_t *, FILE *), const char *json)
{
	json_t *value = json_loads(json, 0, NULL);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	CHECK(value != NULL);
	render(value, out);
	fclose(out);
	json_decref(value);
	return text;
}

void a_full_status_is_laid_out(void)
{
	char *text = rendered(
		render_status,
		"{\"name\":\"ps:0\",\"version\":\"9\",\"pid\":77,\"uptime_s\":3725.5,\"control\":\"c:1\",\"data\":\"d:"
		"2\","
		"\"epoch\":3,\"objects\":2,\"hugepages\":true,\"polling\":false,\"idle_percent\":12.5,"
		"\"ports\":[{\"name\":\"net_af_packet0\",\"mac\":\"02:00:00:00:00:01\",\"addresses\":[\"198.18.0.2/"
		"24\",\"2001:2::2/64\"],\"vlan\":7,\"mtu\":1500}],"
		"\"reactors\":[{\"index\":0,\"core\":2,\"requests\":1234567,\"memory_bytes\":1572864,\"memory_limit_"
		"bytes\":"
		"1073741824,\"busy_percent\":37.26,\"naps_lately\":4,\"errors\":{\"BAD_FRAME\":3,\"DEADLINE\":0,"
		"\"BUSY\":1}},"
		"{\"index\":1,\"requests\":5}]}");

	CHECK_STR(text, "ps:0   StarServer 9   process 77   up 1 h 02 min\n"
			"   control c:1   data d:2\n"
			"   layout epoch 3   tables and variables 2\n"
			"   hugepages yes   polling no\n"
			"   idle percent 12.5\n"
			"\n"
			"PORT            MAC                ADDRESSES                    VLAN   MTU\n"
			"net_af_packet0  02:00:00:00:00:01  198.18.0.2/24, 2001:2::2/64     7  1500\n"
			"\n"
			"REACTOR  CORE    BUSY  REQUESTS    MEMORY        OF  NAPS LATELY\n"
			"      0     2  37.3 %    1.23 M  1.50 MiB  1.00 GiB            4\n"
			"      1     -       -         5         -         -            -\n"
			"\n"
			"errors of reactor 0: BAD_FRAME 3, BUSY 1\n");
	free(text);
}

void a_wide_table_continues_below(void)
{
	struct table table;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	table_init(&table);
	table_column(&table, "WHO", false);
	for (int i = 0; i < 3; i++)
		table_column(&table, "0123456789012345678901234567890123456789", true);
	table_row(&table);
	table_set(&table, 0, "me");
	table_set(&table, 3, "7");
	table_print(&table, out);
	table_fini(&table);
	fclose(out);
	CHECK_STR(text, "WHO  0123456789012345678901234567890123456789  0123456789012345678901234567890123456789\n"
			"me                                          -                                         -\n"
			"\n"
			"WHO  0123456789012345678901234567890123456789\n"
			"me                                          7\n");
	free(text);
}

void long_names_are_shown_whole(void)
{
	char name[WIRE_NAME_MAX + 1], json[512], *text;

	memset(name, 'n', WIRE_NAME_MAX);
	name[WIRE_NAME_MAX - 1] = 'e';
	name[WIRE_NAME_MAX] = 0;
	snprintf(json, sizeof(json), "[{\"name\": \"%s\", \"kind\": \"table\", \"dim\": 4}]", name);
	text = rendered(render_tables, json);
	CHECK_HAS(text, name);
	free(text);
	snprintf(json, sizeof(json), "[{\"name\": \"p\", \"options\": \"%s%s\"}]", name, name);
	text = rendered(render_ports, json);
	snprintf(json, sizeof(json), "%s%s", name, name);
	CHECK_HAS(text, json);
	free(text);
}

void a_strange_status_is_no_harm(void)
{
	char *text = rendered(render_status, "{}");

	CHECK_HAS(text, "a node without a name");
	free(text);
	text = rendered(render_status, "{\"name\":3,\"reactors\":7,\"ports\":[1,[],{\"addresses\":[[],{}],\"name\":[1,"
				       "\"x\",[]]}],\"nodes\":{},\"leader\":[],\"uptime_s\":\"x\","
				       "\"evil\":\"\\u001b[2J\\u0007\",\"errors\":1,\"deep\":{\"a\":[{}]}}");
	CHECK_HAS(text, "evil ?[2J?");
	CHECK(strchr(text, 27) == NULL);
	free(text);
	text = rendered(render_tables, "[1,{},{\"id\":\"x\",\"shape\":[\"a\"]}]");
	CHECK_HAS(text, "NAME");
	free(text);
	text = rendered(render_table, "{\"stats\":[],\"beta1\":\"\\u001b[2J\",\"shape\":3}");
	CHECK(strchr(text, 27) == NULL);
	free(text);
	text = rendered(render_tables, "{}");
	free(text);
}

void numbers_are_for_people(void)
{
	static const struct {
		double number;
		const char *count, *bytes;
	} cases[] = {
		{ 0, "0", "0 B" },
		{ 999, "999", "999 B" },
		{ 1024, "1024", "1.00 KiB" },
		{ 99999, "99999", "97.7 KiB" },
		{ 100000, "100 k", "97.7 KiB" },
		{ 1234567, "1.23 M", "1.18 MiB" },
		{ 1e12, "1.00 T", "931 GiB" },
	};
	char text[24];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_STR(human_count(cases[i].number, text), cases[i].count);
		CHECK_STR(human_bytes(cases[i].number, text), cases[i].bytes);
	}
	CHECK_STR(human_time(0.4, text), "0 s");
	CHECK_STR(human_time(61, text), "1 min 01 s");
	CHECK_STR(human_time(86400 * 3 + 3600 * 5, text), "3 d 05 h");
	CHECK_STR(human_time(-1, text), "0 s");
	CHECK_STR(human_time(1e300, text), "0 s");
}

void files_are_checked_without_a_node(void)
{
	char folder[UNIT_FOLDER], path[UNIT_FOLDER + 8];
	struct outcome o;

	if (!unit_folder(folder, "control"))
		return;
	snprintf(path, sizeof(path), "%s/map", folder);
	unit_write_text(path, "# two nodes\n198.18.0.1:3333 = 198.18.0.2:5555\n198.18.0.3:3333=198.18.0.4:5555\n");
	o = starctl(folder, "endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "2 endpoints");
	release(&o);
	o = starctl(folder, "--json endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "\"data\": \"198.18.0.4:5555\"");
	release(&o);
	unit_write_text(path, "127.0.0.1:3333=127.0.0.1:5555\n198.18.0.3:4444=198.18.0.4:6666\n");
	o = starctl(folder, "endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "127.0.0.1:5555 of 127.0.0.1:3333 is loopback");
	release(&o);
	unit_write_text(path, "127.0.0.1:3333=127.0.0.1:5555\n127.0.0.1:4444=127.0.0.1:6666\n");
	o = starctl(folder, "endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "network.stack = \"kernel\"");
	release(&o);
	unit_write_text(path, "127.0.0.1:3333=0.0.0.0:5555\n198.18.0.3:4444=198.18.0.4:6666\n");
	o = starctl(folder, "endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "127.0.0.1:3333=198.18.0.1:5555");
	release(&o);
	unit_write_text(path, "198.18.0.1:3333=198.18.0.2:5555\n198.18.0.1:3333=198.18.0.2:99999\n");
	o = starctl(folder, "endpoint-map check @", path);
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "map:2:");
	release(&o);
	unit_write_text(path, "nonsense = ;\n");
	o = starctl(folder, "config check @", path);
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.errors, "map:1");
	release(&o);
	o = starctl(folder, "--json config print @", path);
	CHECK_INT(o.status, STARCTL_USAGE);
	CHECK_HAS(o.out, "\"error\"");
	release(&o);
	unlink(path);
	rmdir(folder);
}

static void *end_process(void *arg)
{
	usleep(50000);
	kill(getpid(), SIGTERM);
	return NULL;
}

static void end_soon(void *ctx)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_process, NULL) == 0)
		pthread_detach(thread);
}

static json_t *no_figures(void *ctx)
{
	return json_object();
}

static int take_any_layout(void *ctx, const struct control_layout *layout, struct star_error *err)
{
	return 0;
}

/* A node as a process, which ends when it is told to. */
static void be_node(const struct cluster *cluster, int ready_fd)
{
	struct control_options options = { .config = &cluster->nodes[0].config, .incarnation = 1 };
	struct control *control;
	struct star_error err;
	sigset_t set;
	int signal_number;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	options.data_plane.status = no_figures;
	options.data_plane.shutdown = end_soon;
	options.data_plane.set_layout = take_any_layout;
	control = control_create(&options, &err);
	if (!control || write(ready_fd, "", 1) != 1 || sigwait(&set, &signal_number) != 0)
		_exit(1);
	control_destroy(control);
	_exit(0);
}

void shutdown_waits_until_the_node_is_gone(void)
{
	struct cluster cluster;
	struct outcome o;
	int ready[2], status = -1;
	pid_t pid;
	char byte;

	cluster_init(&cluster, 1);
	CHECK_INT(pipe(ready), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		be_node(&cluster, ready[1]);
	close(ready[1]);
	if (CHECK_INT(read(ready[0], &byte, 1), 1)) {
		o = starctl(cluster.folder, "--json shutdown", "");
		CHECK_INT(o.status, STARCTL_OK);
		CHECK_STR(o.errors, "");
		CHECK_HAS(o.out, "\"stopped\": true");
		release(&o);
		/* It is gone already: nobody has to wait for it. */
		CHECK_INT(waitpid(pid, &status, WNOHANG), pid);
	} else {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	CHECK_INT(status, 0);
	close(ready[0]);
	cluster_fini(&cluster);
}
