/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"
#include "train/cluster.h"

#include <errno.h>
#include <stdlib.h>

#include "graph/build.h"
#include "train/estimator.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

#define PS "\"ps\": [\"198.18.0.1:3333\", \"[2001:2::1]:3333\"]"
#define TWO PS ", \"worker\": [\"w:1\", \"w:2\"]"

void tf_config_is_read(void)
{
	static const struct {
		const char *text;
		enum cluster_job job;
		uint32_t task, workers;
	} cases[] = {
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": 1}}", CLUSTER_WORKER, 1, 2 },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"ps\", \"index\": 1}}", CLUSTER_PS, 1, 2 },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"ps\", \"index\": \"1\"}}", CLUSTER_PS, 1, 2 },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
		  CLUSTER_WORKER, 0, 3 },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
		  CLUSTER_WORKER, 1, 3 },
		{ "{\"cluster\": {" TWO ", \"master\": [\"c:1\"]}, \"task\": {\"type\": \"master\", \"index\": 0}, "
		  "\"environment\": \"cloud\"}",
		  CLUSTER_WORKER, 0, 3 },
		/* TensorFlow's other ways to write the same */
		{ "{\"cluster\": {\"ps\": {\"1\": \"grpc://[2001:2::1]:3333\", \"0\": \"grpc://198.18.0.1:3333\"}, "
		  "\"worker\": [\"grpc://w:1\", \"w:2\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
		  CLUSTER_WORKER, 1, 2 },
		{ "{\"cluster\": {" PS ", \"worker\": {\"7\": \"w:7\"}}, \"task\": {\"type\": \"worker\", \"index\": "
		  "7}}",
		  CLUSTER_WORKER, 7, 8 },
		{ "{\"cluster\": {" PS ", \"chief\": [\"c:1\"], \"worker\": {\"7\": \"w:7\"}}, "
		  "\"task\": {\"type\": \"worker\", \"index\": 7}}",
		  CLUSTER_WORKER, 8, 9 },
		{ "{\"cluster\": {" PS "}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}", CLUSTER_EVALUATOR, 0,
		  0 },
		{ "{\"cluster\": {" TWO ", \"evaluator\": [\"e:1\"], \"tpu_worker\": 3}}", CLUSTER_UNTOLD, 0, 2 },
		{ "{\"cluster\": {" TWO "}, \"task\": {}}", CLUSTER_UNTOLD, 0, 2 },
		{ "{\"cluster\": {" TWO "}, \"task\": null, \"rpc_layer\": \"grpc\"}", CLUSTER_UNTOLD, 0, 2 },
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

/* A process without a cluster is alone, and is told nothing. */
void a_tf_config_without_a_cluster_says_nothing(void)
{
	static const char *const texts[] = { "{}", "{\"cluster\": {}}",
					     "{\"task\": {\"type\": \"worker\", \"index\": 0}}",
					     "{\"cluster\": {}, \"task\": {}, \"environment\": \"local\"}" };

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct session_config config = { .task_index = 3, .workers = 5 };
		struct star_error err = { 0 };
		struct cluster_spec spec;

		setenv("TF_CONFIG", texts[i], 1);
		CHECK_INT(cluster_spec_take_environment(&spec, &config, &err), 0);
		CHECK(!spec.ps && !config.ps && !config.evaluator);
		CHECK_UINT(config.task_index, 3);
		CHECK_UINT(config.workers, 5);
		cluster_spec_fini(&spec);
	}
	unsetenv("TF_CONFIG");
}

void wrong_tf_configs_are_refused(void)
{
	static const struct {
		const char *text, *has;
	} cases[] = {
		{ "", "line 1, column 0" },
		{ "{\"cluster\": 3,}", "line 1" },
		{ "[]", "it must be a JSON object" },
		{ "3", "line 1" },
		{ "{\"cluster\": []}", "\"cluster\" must be a JSON object" },
		{ "{\"cluster\": \"a:1\"}", "\"cluster\" must be a JSON object" },
		{ "{\"task\": {\"type\": \"ps\", \"index\": 0}}", "a task \"ps\" needs a \"cluster\"" },
		{ "{\"cluster\": {\"ps\": {\"0\": \"a:1\", \"2\": \"a:2\"}}}", "\"ps\" lacks task 1" },
		{ "{\"cluster\": {\"ps\": {\"x\": \"a:1\"}}}", "\"x\" is not the index of a task" },
		{ "{\"cluster\": {\"ps\": {\"-1\": \"a:1\"}}}", "\"-1\" is not the index of a task" },
		{ "{\"cluster\": {\"ps\": {\"\": \"a:1\"}}}", "\"\" is not the index of a task" },
		{ "{\"cluster\": {\"ps\": {\"65536\": \"a:1\"}}}", "\"65536\" is not the index of a task" },
		{ "{\"cluster\": {\"ps\": {\"0\": \"a:1\", \"00\": \"a:2\"}}}", "\"ps\" has task 0 twice" },
		{ "{\"cluster\": {\"ps\": {\"0\": 7}}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"grpc://\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"http://\"]}}", "task 0 is not" },
		{ "{\"cluster\": {\"ps\": [\"a:1\", \"grpc://a:1\"]}}", "a:1 twice" },
		{ "{\"cluster\": {\"ps\": \"a:1\"}}", "\"ps\" must be a list" },
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
		{ "{\"cluster\": {\"worker\": [\"a:1\"]}}", "the cluster has no PS tasks" },
		{ "{\"cluster\": {\"ps\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
		  "no worker 0: the cluster has 0" },
		{ "{\"cluster\": {" TWO ", \"chief\": [\"c:1\", \"c:2\"]}}", "one chief or master, not 2" },
		{ "{\"cluster\": {" TWO "}, \"task\": 3}", "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"index\": 1}}", "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\"}}", "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": \"\"}}", "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": \"1x\"}}", "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": \"4294967296\"}}",
		  "\"task\" must be" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"worker\", \"index\": \"2\"}}", "no worker 2" },
		{ "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"clerk\", \"index\": 0}}", "\"clerk\" is unknown" },
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
	CHECK_HAS(err.text, "this is PS task 1, which must run starserver");
	cluster_spec_fini(&spec);

	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "worker", 2, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "the cluster: there is no worker 2");
	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "clerk", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "\"clerk\" is unknown");
	CHECK_INT(cluster_spec_make(twice, 2, workers, 2, "worker", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "a:1 twice");
	CHECK_INT(cluster_spec_make(ps, 0, workers, 2, "worker", 0, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "the cluster has no PS tasks");
	/* JSON's library omits what is not UTF-8 */
	CHECK_INT(cluster_spec_make((const char *[]){ "a:1", "\xff:1" }, 2, workers, 2, "worker", 0, &spec, &err),
		  -EINVAL);
	CHECK_HAS(err.text, "UTF-8");
	CHECK_INT(cluster_spec_make(ps, 2, workers, 2, "\xff", 0, &spec, &err), -EINVAL);
}

#define JOB(type, index) "{\"cluster\": {" TWO "}, \"task\": {\"type\": \"" type "\", \"index\": " #index "}}"

/* RunConfig() reads it; what a program gives itself is not overridden. */
void a_program_that_says_nothing_is_told_by_the_environment(void)
{
	static const char both[] = "tcp:198.18.0.1:3333,[2001:2::1]:3333", own[] = "tcp:198.18.0.9:1";
	static const struct {
		const char *text, *ps; /* that the program gives */
		uint32_t task_index;
		const char *told; /* and what it is told */
		uint32_t told_index, workers;
		bool evaluator;
	} cases[] = {
		{ JOB("worker", 1), NULL, 0, both, 1, 2, false },
		{ JOB("worker", 1), NULL, 1, both, 1, 2, false },
		{ JOB("evaluator", 0), NULL, 0, both, 0, 2, true },
		{ JOB("worker", 1), own, 3, own, 3, 0, false },
		{ "{\"cluster\": {" TWO "}}", NULL, 1, both, 1, 2, false }, /* no task: the program's own */
		{ "{}", NULL, 1, NULL, 1, 0, false },
		/* over DPDK a program names a file, and is told its place */
		{ JOB("worker", 1), "dpdk:w.conf", 0, "dpdk:w.conf", 1, 2, false },
		{ JOB("evaluator", 0), "dpdk:w.conf", 0, "dpdk:w.conf", 0, 2, true },
		{ "no JSON at all", own, 0, own, 0, 0, false },
		{ "", NULL, 2, NULL, 2, 0, false },
		{ NULL, NULL, 2, NULL, 2, 0, false },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct session_config config = { .ps = cases[i].ps, .task_index = cases[i].task_index };
		struct cluster_spec spec;
		struct star_error err = { 0 };

		unsetenv("TF_CONFIG");
		if (cases[i].text)
			setenv("TF_CONFIG", cases[i].text, 1);
		CHECK_INT(cluster_spec_take_environment(&spec, &config, &err), 0);
		CHECK(!cases[i].told == !config.ps);
		if (cases[i].told && config.ps)
			CHECK_STR(config.ps, cases[i].told);
		CHECK_UINT(config.task_index, cases[i].told_index);
		CHECK_UINT(config.workers, cases[i].workers);
		CHECK_INT(config.evaluator, cases[i].evaluator);
		cluster_spec_fini(&spec);
	}
	unsetenv("TF_CONFIG");
}

void wrong_environments_are_refused(void)
{
	static const struct {
		const char *text, *has;
		uint32_t task_index;
	} cases[] = {
		{ JOB("worker", 1), "TF_CONFIG says that this is worker 1, but the program says that it is worker 3",
		  3 },
		{ JOB("evaluator", 0), "TF_CONFIG says that this is evaluator 0", 1 },
		{ JOB("ps", 1), "TF_CONFIG: this is PS task 1, which must run starserver", 0 },
		{ "{\"cluster\": {}", "TF_CONFIG: line 1, column 14", 0 },
		{ "{\"cluster\": {\"ps\": []}}", "TF_CONFIG: the cluster has no PS tasks; an example:", 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct session_config config = { .task_index = cases[i].task_index };
		struct cluster_spec spec;
		struct star_error err = { 0 };

		setenv("TF_CONFIG", cases[i].text, 1);
		CHECK_INT(cluster_spec_take_environment(&spec, &config, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].has);
		CHECK(!config.ps && !spec.ps);
		CHECK_UINT(config.task_index, cases[i].task_index);
	}
	unsetenv("TF_CONFIG");
}

/* The loss is the mean of what is fed, and there is nothing to be learned. */
static int model_fn(void *params, enum estimator_mode mode, struct graph *g, struct estimator_spec *spec,
		    struct star_error *err)
{
	const struct graph_type type = { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { 4 } } };
	const struct graph_value x = graph_feed(g, "x", STAR_FLOAT32, GRAPH_DIMS(-1));

	spec->feeds[spec->feeds_count++] = (struct graph_plan_feed){ "x", type };
	spec->loss = graph_reduce(g, GRAPH_MEAN, x, 0);
	spec->predictions = mode == ESTIMATOR_TRAIN ? GRAPH_NONE : x;
	return 0;
}

static int next(void *arg, struct graph_tensor *feeds, struct star_error *err)
{
	static float numbers[4] = { 1, 2, 3, 6 };
	int *left = arg;

	feeds[0] = (struct graph_tensor){ { .dtype = STAR_FLOAT32, .shape = { .ndim = 1, .dims = { 4 } } }, numbers };
	return (*left)-- > 0;
}

/* With what is wrong it ends before it looks for PS tasks. That it works with PS tasks is
 * tests/system/models.test's. */
void an_estimator_takes_its_place_from_the_environment(void)
{
	int left = 3;
	const struct estimator_input input = { next, &left };
	const struct estimator_eval eval = { .every_steps = 1 };
	struct estimator estimator = { .model_fn = model_fn };
	struct estimator_figures trained, evaluated;
	struct star_error err = { 0 };

	setenv("TF_CONFIG", JOB("ps", 0), 1);
	CHECK_INT(estimator_train(&estimator, input, 0, &trained, &err), -EINVAL);
	CHECK_HAS(err.text, "start starserver here");
	CHECK_INT(estimator_train_and_evaluate(&estimator, input, &eval, &trained, &evaluated, &err), -EINVAL);
	CHECK_HAS(err.text, "start starserver here");
	setenv("TF_CONFIG", JOB("clerk", 0), 1);
	CHECK_INT(estimator_evaluate(&estimator, input, &evaluated, &err), -EINVAL);
	CHECK_HAS(err.text, "TF_CONFIG: task type \"clerk\" is unknown; allowed: chief, worker, ps, evaluator");
	setenv("TF_CONFIG", JOB("evaluator", 0), 1);
	CHECK_INT(estimator_train(&estimator, input, 0, &trained, &err), -EINVAL);
	CHECK_HAS(err.text, "this is the evaluator, which does not train");
	CHECK_INT(estimator_train_and_evaluate(&estimator, input, &eval, &trained, &evaluated, &err), -EINVAL);
	CHECK_HAS(err.text, "last_step is 0");
	estimator.config.ps = SESSION_LOCAL;
	CHECK_INT(estimator_evaluate(&estimator, input, &evaluated, &err), 0);
	CHECK_UINT(evaluated.examples, 12);
	CHECK_NEAR(evaluated.loss, 3, 0);
	estimator.config.evaluator = true;
	CHECK_INT(estimator_evaluate(&estimator, input, &evaluated, &err), -EINVAL);
	CHECK_HAS(err.text, "an evaluator sees nothing with ps = local");
	unsetenv("TF_CONFIG");
	estimator.config = (struct session_config){ .ps = NULL };
	CHECK_INT(estimator_evaluate(&estimator, input, &evaluated, &err), -EINVAL);
	CHECK_HAS(err.text, "control addresses are missing");
}
