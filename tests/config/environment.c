/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment, what is stronger and weaker than it, and cores. */
#include "tests/config/support.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_FILE "node = { job_name = \"worker\"; };\n" CLUSTER

void precedence(void)
{
	static const char text[] = PS_FILE "cores = { number = 3; }; control = { connect_timeout_ms = 7; };";
	struct star_error err;
	struct config *c = support_load(text, NULL, &err);

	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->reactors, 3);
	CHECK_UINT(c->connect_timeout_ms, 7);
	config_free(c);
	setenv("NETWORK_PS_CORE_NUMBER", "4", 1);
	setenv("NETWORK_MAX_CONNECTION_TIMEOUT", "60000", 1);
	c = support_load(text, NULL, &err);
	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->reactors, 4);
	CHECK_UINT(c->connect_timeout_ms, 60000);
	config_free(c);
	c = support_load(text, "cores.number=5", &err);
	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->reactors, 5);
	CHECK_UINT(c->connect_timeout_ms, 60000);
	config_free(c);
}

void environment_governs_by_job(void)
{
	struct star_error err;
	struct config *c;

	setenv("NETWORK_WORKER_CORE_NUMBER", "6", 1);
	setenv("WORKER_ENABLE_POLLING", "rubbish", 1); /* not this node's: not even read */
	setenv("NETWORK_PS_CORE_NUMBER", "4", 1);
	c = support_load(PS_FILE, NULL, &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->reactors, 4);
	config_free(c);
	support_refused(WORKER_FILE, NULL, "environment variable WORKER_ENABLE_POLLING: \"rubbish\"");
	/* the job that --set gives decides, wherever it stands */
	support_refused(PS_FILE, "node.job_name=worker", "environment variable WORKER_ENABLE_POLLING: \"rubbish\"");
	unsetenv("WORKER_ENABLE_POLLING");
	setenv("PS_ENABLE_POLLING", "rubbish", 1);
	c = support_load(WORKER_FILE, NULL, &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->reactors, 6);
	config_free(c);
}

void environment_switches(void)
{
	static const struct {
		const char *text;
		bool value;
	} words[] = { { "True", true }, { "False", false }, { "true", true }, { "FALSE", false }, { "1", true },
		      { "0", false },	{ "yes", true },    { "no", false },  { "YES", true },	  { "nO", false } };
	struct star_error err;

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct config *c;

		setenv("PS_ENABLE_POLLING", words[i].text, 1);
		setenv("PS_DISABLE_PIN_CORES", words[i].text, 1);
		c = support_load(PS_FILE, "cores.number=1", &err);
		CHECK_STR(err.text, "");
		if (CHECK(c != NULL)) {
			CHECK_INT(c->polling, words[i].value);
			CHECK_INT(c->pin, !words[i].value);
		}
		config_free(c);
	}
}

void bad_environment(void)
{
	static const struct {
		const char *name, *value, *parts;
	} cases[] = {
		{ "NETWORK_PS_CORE_NUMBER", "0", "cores.number = 0 is out of range; allowed: 1 to 64" },
		{ "NETWORK_PS_CORE_NUMBER", "65", "cores.number = 65 is out of range; allowed: 1 to 64" },
		{ "NETWORK_PS_CORE_NUMBER", "-1", "cores.number = -1 is out of range" },
		{ "NETWORK_PS_CORE_NUMBER", "eight", "cores.number cannot be \"eight\"; it takes a whole number" },
		{ "NETWORK_PS_CORE_NUMBER", "8 ", "cores.number cannot be \"8 \"" },
		{ "NETWORK_PS_CORE_NUMBER", "", "cores.number cannot be \"\"" },
		{ "PS_ENABLE_POLLING", "maybe",
		  "\"maybe\" is neither true nor false; allowed: True, False, 1, 0, yes, no" },
		{ "PS_ENABLE_POLLING", "", "\"\" is neither true nor false" },
		{ "PS_DISABLE_PIN_CORES", "2", "\"2\" is neither true nor false" },
		{ "NETWORK_MAX_CONNECTION_TIMEOUT", "0", "allowed: 1 to 3600000 milliseconds" },
		{ "NETWORK_MAX_CONNECTION_TIMEOUT", "1e3", "it takes a whole number from 1 to 3600000 milliseconds" },
		{ "TF_SEASTAR_ENDPOINT_MAP_PATH", "", "it is empty; give the directory of .endpoint_map" },
		{ "TF_SEASTAR_ENDPOINT_MAP_PATH", "/nonexistent",
		  "cannot read the endpoint map /nonexistent/.endpoint_map: No such file" },
	};
	char prefix[128], longer[400];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		snprintf(prefix, sizeof(prefix), "environment variable %s: ", cases[i].name);
		support_refused(PS_FILE, NULL, prefix);
		support_refused(PS_FILE, NULL, cases[i].parts);
		unsetenv(cases[i].name);
	}
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	setenv("TF_SEASTAR_ENDPOINT_MAP_PATH", longer, 1);
	support_refused(PS_FILE, NULL, "TF_SEASTAR_ENDPOINT_MAP_PATH: the path is longer than 255 bytes");
}

void environment_endpoint_map(void)
{
	static const char map[] = "198.18.1.1:3333=198.18.0.1:7777\n";
	static const char other[] = "198.18.1.1:3333=198.18.0.1:9999\n";
	struct star_error err;
	struct config *c;

	support_write(".endpoint_map", map, strlen(map));
	setenv("TF_SEASTAR_ENDPOINT_MAP_PATH", support_folder(), 1);
	c = support_load(PS_FILE, NULL, &err); /* it overrides the list in the file */
	if (CHECK(c != NULL))
		CHECK_UINT(c->own.data.port, 7777);
	config_free(c);
	c = support_load(NODE CLUSTER PORTS "endpoint_map_file = \"/nonexistent\";", NULL, &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->own.data.port, 7777);
	config_free(c);
	c = support_load(PS_FILE, "endpoint_map=198.18.1.1:3333=198.18.0.1:8888", &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->own.data.port, 8888);
	config_free(c);
	char override[200];

	snprintf(override, sizeof(override), "endpoint_map_file=%s", support_write("other", other, strlen(other)));
	c = support_load(PS_FILE, override, &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->own.data.port, 9999);
	config_free(c);
}

void worker_environment(void)
{
	static const struct {
		const char *name, *value, *parts;
	} bad[] = {
		{ "NETWORK_WORKER_CORE_NUMBER", "65",
		  "NETWORK_WORKER_CORE_NUMBER|65 is out of range; allowed: 1 to 64" },
		{ "WORKER_ENABLE_POLLING", "x", "environment variable WORKER_ENABLE_POLLING: \"x\"" },
		{ "WORKER_DISABLE_PIN_CORES", "x", "environment variable WORKER_DISABLE_PIN_CORES: \"x\"" },
		{ "NETWORK_MAX_CONNECTION_TIMEOUT", "-5", "NETWORK_MAX_CONNECTION_TIMEOUT" },
	};
	struct config_worker w = { .io_threads = 99 };
	struct star_error err = { 0 };

	setenv("NETWORK_PS_CORE_NUMBER", "rubbish", 1);
	CHECK_INT(config_worker_environment(&w, &err), 0);
	CHECK_UINT(w.io_threads, 0);
	CHECK(!w.polling && !w.pin);
	CHECK_UINT(w.connect_timeout_ms, 120000);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv(bad[i].name, bad[i].value, 1);
		CHECK_INT(config_worker_environment(&w, &err), -22);
		support_has_parts(err.text, bad[i].parts);
		unsetenv(bad[i].name);
	}
	/* The appliance's own map does not concern a worker. */
	setenv("TF_SEASTAR_ENDPOINT_MAP_PATH", "/nonexistent", 1);
	setenv("NETWORK_WORKER_CORE_NUMBER", "1", 1);
	setenv("WORKER_ENABLE_POLLING", "True", 1);
	setenv("WORKER_DISABLE_PIN_CORES", "False", 1);
	setenv("NETWORK_MAX_CONNECTION_TIMEOUT", "250", 1);
	CHECK_INT(config_worker_environment(&w, &err), 0);
	CHECK_UINT(w.io_threads, 1);
	CHECK(w.polling && w.pin);
	CHECK_UINT(w.connect_timeout_ms, 250);
	setenv("NETWORK_WORKER_CORE_NUMBER", "2", 1);
	support_one_core(true);
	CHECK_INT(config_worker_environment(&w, &err), -22);
	support_one_core(false);
	support_has_parts(err.text, "NETWORK_WORKER_CORE_NUMBER: 2 polling I/O threads were asked for|1 usable");
}

void cores_are_counted(void)
{
	struct star_error err;
	struct config *c;

	support_one_core(true);
	CHECK_UINT(config_usable_cores(), 1);
	support_refused(PS_FILE "cores = {\nnumber = 2; polling = true; };", NULL,
			"t.conf:6: |cores.number asks for 2 polling reactors|may use only 1 cores");
	support_refused(PS_FILE "cores = {\nnumber = 16; pin = true; };", NULL,
			"t.conf:6: |cores.number asks for 16 pinned reactors|may use only 1 cores");
	setenv("NETWORK_PS_CORE_NUMBER", "2", 1);
	setenv("PS_DISABLE_PIN_CORES", "False", 1);
	support_refused(PS_FILE, NULL, "environment variable NETWORK_PS_CORE_NUMBER: cores.number asks for 2 pinned");
	support_clear_environment();
	c = support_load(PS_FILE "cores = { number = 64; };", NULL, &err);
	CHECK_STR(err.text, "");
	if (CHECK(c != NULL))
		CHECK_UINT(c->reactors, 64);
	config_free(c);
	support_one_core(false);
}

/* The core of a pinned reactor of one of two PS tasks, at the hosts 198.18.1.first and 198.18.1.second. */
static void pins(unsigned task, unsigned first, unsigned second, uint32_t core)
{
	struct star_error err;
	struct config *c;
	char text[1024];

	snprintf(text, sizeof(text),
		 "node = { job_name = \"ps\"; task_index = %u; };\n"
		 "cluster = { ps = [ \"198.18.1.%u:3333\", \"198.18.1.%u:3334\" ]; };\n"
		 "endpoint_map = ( { control = \"198.18.1.%u:3333\"; data = \"198.18.0.1:5555\"; },\n"
		 "                 { control = \"198.18.1.%u:3334\"; data = \"198.18.0.2:5555\"; } );\n"
		 "ports = ( { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.%u/24\"; } );\n"
		 "cores = { number = 1; pin = true; };",
		 task, first, second, first, second, task + 1);
	c = support_load(text, NULL, &err);
	CHECK_STR(err.text, "");
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->cores_count, 1);
		CHECK_UINT(c->cores[0], core);
	}
	config_free(c);
}

void pinned_neighbours_have_cores_of_their_own(void)
{
	uint32_t usable[CPU_SETSIZE], count = 0;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (uint32_t core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &set))
			usable[count++] = core;
	if (count < 2) {
		printf("# this process may use one core: nothing is compared\n");
		return;
	}
	pins(0, 1, 1, usable[0]);
	pins(1, 1, 1, usable[1]);
	/* Another machine's. */
	pins(0, 1, 2, usable[0]);
	pins(1, 1, 2, usable[0]);
}

void pinned_cores(void)
{
	struct star_error err;
	struct config *c;
	cpu_set_t set;
	char text[1024];
	int core = 0;

	support_one_core(true);
	sched_getaffinity(0, sizeof(set), &set);
	while (!CPU_ISSET(core, &set))
		core++;
	c = support_load(PS_FILE "cores = { pin = true; };", NULL, &err);
	CHECK_STR(err.text, "");
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->reactors, 1);
		CHECK_UINT(c->cores_count, 1);
		CHECK_UINT(c->cores[0], core);
	}
	config_free(c);
	snprintf(text, sizeof(text), PS_FILE "cores = { pin = true; list = [ %d ]; };", core);
	c = support_load(text, NULL, &err);
	CHECK_STR(err.text, "");
	if (CHECK(c != NULL))
		CHECK_UINT(c->cores[0], core);
	config_free(c);
	support_refused(PS_FILE "cores = { number = 1; pin = true;\nlist = [ 8191 ]; };", NULL,
			"t.conf:6: |cores.list names core 8191|may use 1 cores");
	/* A second node of this machine does not sit on the first one's cores. */
	support_refused(
		"node = { job_name = \"ps\"; task_index = 1; };\n"
		"cluster = { ps = [ \"198.18.1.1:3333\", \"198.18.1.1:3334\" ]; };\n"
		"endpoint_map = ( { control = \"198.18.1.1:3334\"; data = \"198.18.0.1:5555\"; } );\n"
		"ports = ( { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.1/24\"; } );\n"
		"cores = { number = 1; pin = true; };",
		NULL, "1 PS tasks of this machine come before this one");
	support_one_core(false);
	/* What is not in the mask, but there, may be asked for: isolcpus= keeps cores for those who do. */
	if (config_usable_cores() > 1) {
		const int other = core + 1;

		support_one_core(true);
		snprintf(text, sizeof(text), PS_FILE "cores = { pin = true;\nlist = [ %d, %d ]; };", core, other);
		c = support_load(text, NULL, &err);
		CHECK_STR(err.text, "");
		if (CHECK(c != NULL))
			CHECK_UINT(c->reactors, 2);
		config_free(c);
		CHECK_UINT(config_usable_cores(), 1);
		support_one_core(false);
	}
	if (config_usable_cores() < 2)
		printf("# one core: a list that is shorter than cores.number is not tried\n");
	else
		support_refused(PS_FILE "cores = { number = 2; pin = true;\nlist = [ 0 ]; };", NULL,
				"t.conf:6: |cores.list names");
}

void tf_config_says_which_ps_task_it_is(void)
{
	static const char tf_config[] =
		"{\"cluster\": {\"ps\": [\"198.18.1.7:3333\", \"198.18.1.8:3333\"], \"chief\": [\"198.18.1.9:2222\"], "
		"\"worker\": [\"198.18.1.10:2222\"]}, \"task\": {\"type\": \"%s\", \"index\": %u}}";
	char text[512];
	struct star_error err;
	struct config *c;

	snprintf(text, sizeof(text), tf_config, "ps", 1);
	setenv("TF_CONFIG", text, 1);
	c = support_load(PS_FILE, "endpoint_map=198.18.1.8:3333=198.18.0.1:5555", &err); /* it overrides the file */
	if (CHECK(c != NULL)) {
		CHECK_STR(c->job_name, "ps");
		CHECK_UINT(c->task_index, 1);
		CHECK_UINT(c->ps_count, 2);
		CHECK_STR(c->ps[1].host, "198.18.1.8");
		CHECK_UINT(c->workers_count, 2);
		CHECK_STR(c->workers[0].host, "198.18.1.9");
	}
	config_free(c);
	support_refused(PS_FILE, "node.task_index=2", "node.task_index = 2 is out of range"); /* --set is stronger */
	snprintf(text, sizeof(text), tf_config, "ps", 2);
	setenv("TF_CONFIG", text, 1);
	support_refused(PS_FILE, NULL, "TF_CONFIG: there is no ps 2: the cluster has 2");
	snprintf(text, sizeof(text), tf_config, "worker", 0);
	setenv("TF_CONFIG", text, 1);
	support_refused(PS_FILE, NULL, "TF_CONFIG: this process is worker 1 of its cluster");
	setenv("TF_CONFIG", "{", 1);
	support_refused(PS_FILE, NULL, "TF_CONFIG: line 1");
	/* without a task the file says which it is; without a cluster it says nothing */
	setenv("TF_CONFIG", "{\"cluster\": {\"ps\": {\"0\": \"grpc://198.18.1.1:3333\", \"1\": \"198.18.1.2:3333\"}}}",
	       1);
	c = support_load(PS_FILE, NULL, &err);
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->task_index, 0);
		CHECK_UINT(c->ps_count, 2);
		CHECK_STR(c->ps[1].host, "198.18.1.2");
	}
	config_free(c);
	setenv("TF_CONFIG", "{}", 1);
	c = support_load(PS_FILE, NULL, &err);
	if (CHECK(c != NULL))
		CHECK_UINT(c->workers_count, 1); /* the file's */
	config_free(c);
	setenv("TF_CONFIG", "", 1); /* as if it were not there */
	c = support_load(PS_FILE, NULL, &err);
	CHECK(c != NULL);
	config_free(c);
}
