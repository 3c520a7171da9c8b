/* SPDX-License-Identifier: BSD-3-Clause */
/* What starctl shows of connections, counters and tables. */
#include <string.h>

#include "app/starctl/starctl.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"
#include "wire/object.h"

void connections_are_shown_as_ss_does(void)
{
	struct cluster cluster;
	struct outcome o;
	json_t *json;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	o = starctl(cluster.folder, "connections", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "State         Recv-Q   Send-Q           Local Address:Port            Peer Address:Port\n"
			 "ESTAB              3        4              198.18.0.2:5555           [2001:2::1]:40000?\n"
			 "\treactor:1 ts sack cubic wscale:7,5 rto:204 rtt:0.051/0.012 cwnd:14480 retrans_total:2 "
			 "ca_state:loss timer:(retransmit,1.5ms)\n"
			 "there are more: limit=N shows up to 10000\n");
	CHECK_STR(cluster.nodes[0].plane.asked, "-1 - - 1000");
	release(&o);
	o = starctl(cluster.folder, "--json connections reactor=1 state=established peer=198.18.0.1:40000 limit=7", "");
	json = json_loads(o.out, 0, NULL);
	CHECK_STR(json_string_value(
			  json_object_get(json_array_get(json_object_get(json, "connections"), 0), "congestion")),
		  "cubic");
	CHECK_STR(cluster.nodes[0].plane.asked, "1 established 198.18.0.1:40000 7");
	json_decref(json);
	release(&o);
	o = starctl(cluster.folder, "connections state=nonsense", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "there is no state");
	release(&o);
	cluster_fini(&cluster);
}

/* What others have named is safe for a terminal; and what is asked for arrives. */
void requests_are_shown(void)
{
	static const struct {
		const char *words, *says, *asked;
		int status;
	} cases[] = {
		{ "slow",
		  "5.3 ms: pull of 3 keys of w?x, from 198.18.0.1:40000, 1.5 s ago, reactor 1: waited 5 ms, "
		  "executed 2.5 us; ok\n    waited behind? others\n",
		  "1 -1 10 60", STARCTL_OK },
		{ "slow minutes=5 reactor=1 limit=7", "77 requests are recorded", "1 1 7 300", STARCTL_OK },
		{ "hot limit=3",
		  "5 samples, of the last 320 keys of requests\n\nTABLE                   KEY  REACTOR    "
		  "SHARE\nw      18446744073709551615        0  40.00 %\n",
		  "3 -1 3 0", STARCTL_OK },
		{ "latency", "no requests\n", "0 -1 10 0", STARCTL_OK },
		{ "latency seconds=5", "no requests\n", "0 -1 10 5", STARCTL_OK },
		{ "trace", "\"name\":\"reactor 1\"}}\n]\n", "2 1 10 0", STARCTL_OK },
		{ "slow --cluster", "198.18.0.1:40000, 1.5 s ago, ps:0, reactor 1: waited 5 ms", "1 -1 10 60",
		  STARCTL_OK },
		{ "hot --cluster", "18446744073709551615   ps:0/0", "3 -1 10 0", STARCTL_OK },
		{ "slow --records /nonexistent", "", "", STARCTL_FAILED },
		{ "core /nonexistent/core", "", "", STARCTL_FAILED },
		{ "events minutes=5", "layout epoch 1", "", STARCTL_OK },
		{ "events level=loud", "", "", STARCTL_FAILED },
		{ "memory", "NODE  ROWS", "4 -1 10 0", STARCTL_OK },
		{ "report", "<!DOCTYPE html>", "3 -1 10 0", STARCTL_OK },
		{ "capture -w /dev/null count=1", "1 frames; 7 more matched, but there was no room", "", STARCTL_OK },
		{ "capture -w /nonexistent/file", "", "", STARCTL_FAILED },
		{ "capture -w /dev/null proto=pigeon", "", "", STARCTL_FAILED },
		{ "capture -w /dev/null nonsense", "", "", STARCTL_USAGE },
		{ "slow limit=0", "", "", STARCTL_FAILED },
		{ "hot limit=101", "", "", STARCTL_FAILED },
		{ "hot reactor=1", "", "", STARCTL_USAGE },
		{ "slow minutes=soon", "", "", STARCTL_USAGE },
		{ "trace /nonexistent/file", "", "", STARCTL_FAILED },
	};
	struct cluster cluster;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o;

		cluster.nodes[0].plane.asked[0] = 0;
		o = starctl(cluster.folder, cases[i].words, "");
		if (!CHECK_INT(o.status, cases[i].status) || !CHECK_HAS(o.out, cases[i].says) ||
		    !CHECK_STR(cluster.nodes[0].plane.asked, cases[i].asked))
			unit_fail(__FILE__, __LINE__, "starctl %s: %s", cases[i].words, o.errors);
		release(&o);
	}
	cluster_fini(&cluster);
}

void filters_of_connections_are_checked(void)
{
	static const struct {
		const char *words, *says;
	} cases[] = {
		{ "connections nonsense", "is not a filter; the filters are reactor=N" },
		{ "connections reactor", "is not a filter" },
		{ "connections limit=many", "limit needs a number" },
		{ "connections limit=-1", "limit needs a number" },
		{ "connections reactor=", "reactor needs a number" },
		{ "connections a=1 b=2 c=3 d=4 e=5", "usage: starctl connections" },
	};
	static const char *const calls[] = {
		"{\"reactor\": 64}", "{\"reactor\": \"0\"}", "{\"limit\": 0}",	  "{\"limit\": 10001}",
		"{\"state\": 1}",    "{\"peer\": []}",	     "{\"nonsense\": 1}",
	};
	struct cluster cluster;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o = starctl("/nonexistent", cases[i].words, "");

		if (!CHECK_INT(o.status, STARCTL_USAGE) || !CHECK_HAS(o.errors, cases[i].says))
			unit_fail(__FILE__, __LINE__, "starctl %s", cases[i].words);
		release(&o);
	}
	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct star_error err = { 0 };
		json_t *result = call(cluster.nodes[0].address, "connections", json_loads(calls[i], 0, NULL), &err);

		if (!CHECK(!result) || !CHECK_HAS(err.text, "member \""))
			unit_fail(__FILE__, __LINE__, "%s", calls[i]);
		json_decref(result);
	}
	cluster_fini(&cluster);
}

void counters_are_shown_as_nstat_does(void)
{
	struct cluster cluster;
	struct outcome o;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	o = starctl(cluster.folder, "counters", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "#starserver\n"
			 "TcpInSegs                       5               \n"
			 "TcpExtTCPSackRecovery           1               \n");
	release(&o);
	o = starctl(cluster.folder, "--json counters", "");
	CHECK_HAS(o.out, "\"TcpExtTCPSackRecovery\": 1");
	release(&o);
	cluster_fini(&cluster);
}

void tables_are_made_shown_and_swept(void)
{
	struct cluster cluster;
	struct outcome o;
	json_t *json;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	o = starctl(cluster.folder, "tables create emb dim=16 dtype=float16 optimizer=adam beta1=0.8 steps_to_live=9",
		    "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "table \"emb\" is object 1\n");
	release(&o);
	o = starctl(cluster.folder, "--json tables create dense shape=10x20 rate=0.1,seed=7 whole=1", "");
	json = json_loads(o.out, 0, NULL);
	CHECK_INT(json_integer_value(json_object_get(json, "id")), 2);
	CHECK_NEAR(json_number_value(json_object_get(json, "rate")), 0.1, 0); /* as short as it was written */
	CHECK(json_is_true(json_object_get(json, "whole")));
	json_decref(json);
	release(&o);
	o = starctl(cluster.folder, "tables create emb dim=17", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "\"emb\" exists with another element type: float16 there, float32 requested");
	release(&o);
	o = starctl(cluster.folder, "tables show emb", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "   kind table   object 1   type float16   dim 16   optimizer adam\n");
	CHECK_HAS(o.out, "\n  beta1                0.8               decay of the mean of gradients");
	CHECK_HAS(o.out, "\n  rows                 7\n");
	CHECK_HAS(o.out, "\n  memory_bytes         65536             64.0 KiB\n");
	release(&o);
	o = starctl(cluster.folder, "--json tables show dense", "");
	json = json_loads(o.out, 0, NULL);
	CHECK_INT(json_integer_value(json_object_get(json_object_get(json, "stats"), "rows")), 14);
	json_decref(json);
	release(&o);
	o = starctl(cluster.folder, "tables show ebm", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.errors, "there is no table or variable \"ebm\"; did you mean \"emb\"?");
	release(&o);
	o = starctl(cluster.folder, "tables sweep emb", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_STR(o.out, "4 rows of this node were evicted, 7 are left\n");
	CHECK_UINT(cluster.nodes[0].plane.swept, 1);
	CHECK_UINT(cluster.nodes[0].plane.sweep_left, 0); /* it was waited for */
	release(&o);
	o = starctl(cluster.folder, "--json tables sweep dense", "");
	CHECK_INT(o.status, STARCTL_FAILED);
	CHECK_HAS(o.out, "nothing to evict by: neither steps_to_live nor l2_threshold");
	release(&o);
	o = starctl("/nonexistent", "tables options ftrl", "");
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_HAS(o.out, "power = -0.5\n    -1 to 0\n    ftrl: power of the accumulator");
	CHECK(strstr(o.out, "beta1") == NULL);
	release(&o);
	o = starctl("/nonexistent", "--json tables options", "");
	json = json_loads(o.out, 0, NULL);
	CHECK_UINT(json_array_size(json), wire_object_options_count);
	json_decref(json);
	release(&o);
	cluster_fini(&cluster);
}
