/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/cluster.h"

#include <errno.h>

#include "tests/session/cases.h"
#include "tests/unit.h"

#define TWO "\"ps\": [\"198.18.0.1:3333\", \"[2001:2::1]:3333\"], \"worker\": [\"w:1\", \"w:2\"]"

void tf_config_is_read(void)
{
	static const struct {
		const char *text;
		enum cluster_job job;
		uint32_t task, workers;
	} cases[] = {
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": 1}}", CLUSTER_WORKER, 1, 2 },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"ps\", \"index\": 1}}", CLUSTER_PS, 1, 2 },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
		  CLUSTER_WORKER, 0, 3 },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
		  CLUSTER_WORKER, 1, 3 },
		{ "{\"cluster\": {" TWO ", \"master\": [\"c:1\"]}, \"task\": {\"type\": \"master\", \"index\": 0}, "
		  "\"environment\": \"cloud\"}",
		  CLUSTER_WORKER, 0, 3 },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}", CLUSTER_EVALUATOR, 0,
		  2 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };
		struct cluster_spec spec;

		if (!CHECK_INT(cluster_spec_parse(cases[i].text, &spec, &err), 0))
			continue;
		CHECK_STR(spec.ps, "tcp:198.18.0.1:3333,[2001:2::1]:3333");
		CHECK_UINT(spec.ps_count, 2);
		CHECK_UINT(spec.workers_count, cases[i].workers);
		CHECK_INT(spec.job, cases[i].job);
		CHECK_UINT(spec.task, cases[i].task);
		cluster_spec_fini(&spec);
	}
}

void wrong_tf_configs_are_refused(void)
{
	static const struct {
		const char *text, *has;
	} cases[] = {
		{ "", "line 1, column 0" },
		{ "{\"cluster\": 3,}", "line 1" },
		{ "{}", "\"cluster\" is missing" },
		{ "[]", "\"cluster\" is missing" },
		{ "{\"cluster\": []}", "\"cluster\" is missing" },
		{ "{\"cluster\": {\"ps\": \"a:1\"}}", "\"ps\" is a list" },
		{ "{\"cluster\": {\"ps\": [\"a\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:1\", \":2\"]}}", "task 1 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:65536\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:1x\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a,b:1\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:+1\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:99999999999999999999\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a\\u001b[31m:1\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"\u00e4:1\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a\\u0000:1\"]}}", "\\u0000" },
		{ "{\"cluster\": {\"ps\": [7]}}", "task 0 is not" },
		{ "{\"cluster\": {\"worker\": [\"a:1\"]}}", "has PS tasks and workers" },
		{ "{\"cluster\": {\"ps\": [\"a:1\"]}}", "has PS tasks and workers" },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\", \"c:2\"]}}", "one chief, not 2" },
		{ "{\"cluster\": {" TWO "}}", "\"task\" is" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\"}}", "\"task\" is" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": \"0\"}}", "\"task\" is" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"clerk\", \"index\": 0}}", "\"clerk\" is none of" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": 2}}", "no worker 2" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": -1}}", "no worker -1" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"chief\", \"index\": 0}}", "no chief 0" },
		{ "{\"cluster\": {\"ps\": [\"a:1\", \"a:1\"], \"worker\": [\"w:1\"]}, "
		  "\"task\": {\"type\": \"worker\", \"index\": 0}}",
		  "a:1 twice" },
		{ "{\"cluster\": {}, \"cluster\": {}}", "duplicate" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };
		struct cluster_spec spec;

		CHECK_INT(cluster_spec_parse(cases[i].text, &spec, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].has);
		cluster_spec_fini(&spec);
	}
}

/* What the seeds write: ClusterSpec({"ps": ps_hosts, "worker": worker_hosts}), and Server(job_name, task_index). */
void clusters_are_made_of_lists(void)
{
	static const char *const ps[] = { "198.18.0.1:3333", "198.18.0.2:3333" }, *const workers[] = { "w:1", "w:2" };
	static const char *const twice[] = { "a:1", "a:1" };
	struct session_config config = { .ps = NULL };
	struct star_error err = { 0 };
	struct cluster_spec spec;

	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "worker", 1, &spec, &err), 0);
	CHECK_STR(spec.ps, "tcp:198.18.0.1:3333,198.18.0.2:3333");
	CHECK_INT(cluster_spec_worker(&spec, &config, &err), 0);
	CHECK_STR(config.ps, spec.ps);
	CHECK_UINT(config.task_index, 1);
	CHECK_UINT(config.workers, 2);
	cluster_spec_fini(&spec);

	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "ps", 1, &spec, &err), 0);
	CHECK_INT(cluster_spec_worker(&spec, &config, &err), -EINVAL);
	CHECK_HAS(err.text, "a PS task, which starserver is");
	cluster_spec_fini(&spec);

	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "worker", 2, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "the cluster: there is no worker 2");
	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "clerk", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "\"clerk\" is none of");
	CHECK_INT(cluster_spec_make(twice, 2, workers, 2, "worker", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "a:1 twice");
	CHECK_INT(cluster_spec_make(ps, 0, workers, 2, "worker", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "has PS tasks and workers");
	/* JSON's library leaves away what is no UTF-8 */
	CHECK_INT(cluster_spec_make((const char *[]){ "a:1", "\xff:1" }, 2, workers, 2, "worker", 0, &spec, &err),
		  -EINVAL);
	CHECK_HAS(err.text, "UTF-8");
	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "\xff", 0, &spec, &err), -EINVAL);
}
