/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions without PS tasks (with them: tests/system/models.test). Includes the source, to test what follows a step. */
#include "lib/train/session.c"

#include <sys/stat.h>

#include "graph/build.h"
#include "train/local.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

void steps_are_counted_from_a_sessions_first(void)
{
	static const struct {
		uint64_t global_step, local_step, mark, expected;
	} cases[] = {
		{ 1, 1, 0, 1 },					  /* a new cluster */
		{ 5001, 1, 0, 1 },				  /* one that was trained before */
		{ 0, 1, 0, 0 },					  /* not counted at all */
		{ 5100, 100, 5000, 100 }, { 4000, 101, 5100, 1 }, /* one that rolled back to a checkpoint */
		{ 5100, 102, 5100, 0 },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct session_step step = { .global_step = cases[i].global_step,
						   .local_step = cases[i].local_step };
		struct mark mark = { .step = cases[i].mark };

		CHECK_UINT(steps_since(&step, &mark), cases[i].expected);
	}
}

/* A variable whose rate is halved with each step, in a session of its own for every two of them; and what it has come
 * to. */
void a_resumed_job_counts_on(void)
{
	const float ones[4] = { 1, 1, 1, 1 };
	const char *const names[] = { SESSION_GLOBAL_STEP, "w" };
	const struct graph_attr options[] = { GRAPH_ATTR_STRING("schedule", "exponential"),
					      GRAPH_ATTR_INT("schedule_steps", 1),
					      GRAPH_ATTR_FLOAT("schedule_rate", 0.5) };
	const struct graph_definition definition = {
		.initializer = "zeros", .optimizer = "sgd", .rate = 1, .options = options, .options_count = 3
	};
	const struct session_config config = { .ps = SESSION_LOCAL, .log_step_count_steps = UINT32_MAX };
	const struct graph_tensor *results;
	struct star_error err = { 0 };
	const int64_t four = 4;
	double expected = 0;

	for (unsigned steps = 0; steps < 6;) {
		struct graph *graph = graph_create();
		const struct graph_value w = graph_variable(graph, "w", GRAPH_DIMS(4), &definition);
		const struct graph_value values[] = { graph_global_step(graph), graph_op1(graph, GRAPH_READ, w) };
		const struct session_model model = { .graph = graph, .results = names };
		struct session *s;

		graph_op2(graph, GRAPH_APPLY, w, graph_constant(graph, STAR_FLOAT32, &four, 1, ones));
		CHECK_INT(graph_set_results(graph, values, 2), 0);
		s = session_create(&config, &model, NULL, 0, &err);
		if (!CHECK(s != NULL)) {
			printf("# %s\n", err.text);
			return;
		}
		for (unsigned i = 0; i < 2; i++, steps++) {
			CHECK_INT(session_run(s, NULL, &results, &err), 0);
			CHECK_UINT(session_global_step(s), steps + 1);
			CHECK_NEAR(*(const float *)results[1].data, expected, 1e-6);
			expected -= pow(0.5, steps);
		}
		CHECK_INT(session_close(s, &err), 0);
		graph_destroy(graph);
	}
	train_local_forget();
}

/* A graph of one result: a number, or a pair of them. */
static struct session *create(const struct session_config *config, const char *result, uint32_t hooks_count, bool pair,
			      struct star_error *err)
{
	static const float numbers[2] = { 1, 2 };
	const int64_t two = 2;
	struct graph *graph = graph_create();
	const struct graph_value value = graph_constant(graph, STAR_FLOAT32, &two, pair ? 1 : 0, numbers);
	const struct session_model model = { .graph = graph, .results = &result };
	const struct session_hook hooks[SESSION_HOOKS_MAX + 1] = { { NULL } };
	struct session *session;

	CHECK_INT(graph_set_results(graph, &value, 1), 0);
	session = session_create(config, &model, hooks, hooks_count, err);
	CHECK(!session);
	graph_destroy(graph);
	return session;
}

static const struct {
	struct session_config config;
	const char *result;
	uint32_t hooks;
	bool pair;
	int code;
	const char *has;
} wrong_sessions[] = {
	{ { .ps = NULL }, "x", 0, false, -EINVAL, "control addresses are missing" },
	{ { .ps = "127.0.0.1:1", .protocol = "carrier pigeon" }, "x", 0, false, -EINVAL, "star_server_lite" },
	{ { .ps = "127.0.0.1:1", .wire = "float64" },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "wire = float64: rows and gradients can be sent as" },
	{ { .ps = "127.0.0.1:1", .wire = "half" }, "x", 0, false, -EINVAL, "float16, bfloat16 or scaled_int8" },
	{ { .ps = SESSION_LOCAL, .wire = "float16" }, "x", 0, false, -EINVAL, "with ps = local rows are not sent" },
	{ { .ps = "127.0.0.1:1", .train_distribute = "mirrored" }, "x", 0, false, -EINVAL, "exclude each other" },
	{ { .ps = "127.0.0.1:1", .consistency = "lockstep" }, "x", 0, false, -EINVAL, "asynchronous" },
	{ { .ps = "127.0.0.1:1", .consistency = "ssp" }, "x", 0, false, -EINVAL, "workers is 0" },
	{ { .ps = "127.0.0.1:1", .consistency = "synchronous", .workers = 2, .grads_to_wait = 3 },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "grads_to_wait is 3, but there are 2 workers" },
	{ { .ps = "127.0.0.1:1", .mean_by_row = true },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "mean_by_row with consistency = asynchronous" },
	{ { .ps = "127.0.0.1:1", .consistency = "ssp", .workers = 2, .mean_by_row = true },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "mean_by_row with consistency = ssp" },
	{ { .ps = SESSION_LOCAL, .consistency = "synchronous", .workers = 1, .mean_by_row = true },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "with ps = local there is only one worker" },
	{ { .ps = "127.0.0.1:1", .consistency = "ssp", .workers = 2, .task_index = 2 },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "worker 2" },
	{ { .ps = "127.0.0.1:1" }, "loss", 0, true, -EINVAL, "\"loss\" must be a single float" },
	{ { .ps = "127.0.0.1:1" }, "global_step", 0, true, -EINVAL, "\"global_step\" must be a single float" },
	{ { .ps = "127.0.0.1:1" }, "x", SESSION_HOOKS_MAX + 1, false, -E2BIG, "a session has at most" },
	{ { .ps = "127.0.0.1:1", .model_dir = "/proc/no-such-folder" }, "x", 0, false, -ENOENT, "/proc/" },
	{ { .ps = "local", .save_checkpoints_steps = 100 }, "x", 0, false, -EINVAL, "there are none" },
	{ { .ps = "local", .save_checkpoints_secs = 100 }, "x", 0, false, -EINVAL, "save_checkpoints_secs = 100" },
	{ { .ps = "127.0.0.1:1", .save_checkpoints_secs = 7, .save_checkpoints_steps = 9 },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "set only one of the two" },
	{ { .ps = "127.0.0.1:1", .keep_checkpoint_max = 5 }, "x", 0, false, -EINVAL, "requests no checkpoints" },
	{ { .ps = "local", .task_index = 1 }, "x", 0, false, -EINVAL, "one worker" },
	{ { .ps = "127.0.0.1:1", .steps_in_flight = 17 }, "x", 0, false, -EINVAL, "1 to 16" },
	{ { .ps = "local", .steps_in_flight = 2 }, "x", 0, false, -EINVAL, "one step at a time" },
	{ { .ps = "127.0.0.1:1", .steps_in_flight = 2, .consistency = "ssp", .workers = 1 },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "consistency = ssp" },
	{ { .ps = "127.0.0.1:1", .steps_in_flight = 2, .consistency = "synchronous", .workers = 1 },
	  "x",
	  0,
	  false,
	  -EINVAL,
	  "one at a time" },
	{ { .ps = "tcp:not an address" }, "x", 0, false, -EINVAL, "not an address" },
};

/* At once, without a look for PS tasks. */
void wrong_sessions_are_refused(void)
{
	for (unsigned i = 0; i < sizeof(wrong_sessions) / sizeof(wrong_sessions[0]); i++) {
		struct star_error err = { 0 };

		create(&wrong_sessions[i].config, wrong_sessions[i].result, wrong_sessions[i].hooks,
		       wrong_sessions[i].pair, &err);
		CHECK_INT(err.code, wrong_sessions[i].code);
		CHECK_HAS(err.text, wrong_sessions[i].has);
		create(&wrong_sessions[i].config, wrong_sessions[i].result, wrong_sessions[i].hooks,
		       wrong_sessions[i].pair, NULL);
	}
}

/* Its directory is gone, and a file in its place: the trained parameters are not lost for that. */
void a_session_goes_on_without_its_summaries(void)
{
	char directory[UNIT_FOLDER], path[UNIT_FOLDER + 32];
	const struct session_config config = {
		.ps = SESSION_LOCAL, .model_dir = directory, .save_summary_steps = 1, .log_step_count_steps = UINT32_MAX
	};
	static const float one = 1;
	const char *result = "loss";
	struct graph *graph = graph_create();
	const struct graph_value value = graph_constant(graph, STAR_FLOAT32, NULL, 0, &one);
	const struct session_model model = { .graph = graph, .results = &result };
	struct star_error err = { 0 };
	struct session *session;
	struct stat there;
	FILE *file;

	CHECK_INT(graph_set_results(graph, &value, 1), 0);
	session = unit_folder(directory, "session") ? session_create(&config, &model, NULL, 0, &err) : NULL;
	if (CHECK(session)) {
		CHECK_INT(session_run(session, NULL, NULL, &err), 0);
		unit_remove(directory);
		file = fopen(directory, "w");
		CHECK(file && fclose(file) == 0);
		for (unsigned i = 0; i < 3; i++)
			CHECK_INT(session_run(session, NULL, NULL, &err), 0);
		CHECK(session->no_summaries);
		CHECK_INT(remove(directory), 0);
		CHECK_INT(session_run(session, NULL, NULL, &err), 0);
		CHECK(!session->no_summaries);
		snprintf(path, sizeof(path), "%s/summaries.jsonl", directory);
		CHECK(stat(path, &there) == 0 && there.st_size > 0);
	}
	CHECK_INT(session_close(session, &err), 0);
	graph_destroy(graph);
	unit_remove(directory);
}

/* Three steps in flight at a time; the PS tasks have rolled back to a checkpoint where they do so for good. */
void counts_that_come_in_another_order_do_not_go_back(void)
{
	static const struct {
		double count;
		uint64_t expected;
	} steps[] = { { 11, 11 }, { 13, 13 }, { 12, 13 }, { 14, 14 }, { 17, 17 }, { 15, 17 }, { 16, 17 }, { 18, 18 },
		      { 5, 18 },  { 7, 18 },  { 6, 6 },	  { 8, 8 },   { 0, 8 },	  { 9, 9 },   { -1, 9 } };
	struct session session = { .config = { .steps_in_flight = 3 }, .step_result = 0 };

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		double count = steps[i].count;
		struct graph_tensor result = { .type = { .dtype = STAR_FLOAT64 }, .data = &count };
		const struct flight flight = { .results = &result, .number = i + 1 };

		set_global_step(&session, &flight);
		CHECK_UINT(session_global_step(&session), steps[i].expected);
	}
}

/* The time is over already when it begins. */
void a_session_without_ps_tasks_ends_with_an_error(void)
{
	const struct session_config config = { .ps = "tcp:127.0.0.1:1", .recovery_us = 1, .steps_in_flight = 1 };
	struct session session = { .config = config,
				   .step_result = SESSION_NOT_THERE,
				   .loss_result = SESSION_NOT_THERE };
	struct star_error err = { 0 };

	create(&config, "x", 0, false, &err);
	CHECK(session_may_come_back(err.code));
	CHECK_HAS(err.text, "127.0.0.1:1");
	/* As a recovery without success leaves it. */
	CHECK(session_run(&session, NULL, NULL, &err) < 0);
	CHECK(session.failed);
	CHECK(err.code < 0 && err.text[0]);
	CHECK(session_run(&session, NULL, NULL, NULL) < 0);
}
