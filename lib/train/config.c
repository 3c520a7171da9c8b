/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "offload/cut.h"
#include "train/internal.h"
#include "train/local.h"
#include "train/narrow.h"

enum consistency session_consistency(const struct session_config *c)
{
	return !c->consistency || !strcmp(c->consistency, "asynchronous") ? SESSION_ASYNCHRONOUS
	       : !strcmp(c->consistency, "ssp")				  ? SESSION_BOUNDED
	       : !strcmp(c->consistency, "synchronous")			  ? SESSION_SYNCHRONOUS
									  : SESSION_UNKNOWN;
}

static int check_consistency(const struct session_config *c, struct star_error *err)
{
	if (session_consistency(c) == SESSION_UNKNOWN)
		return star_error_set(err, -EINVAL, "consistency = %.60s: possible: asynchronous, ssp, synchronous",
				      c->consistency);
	if (c->mean_by_row && session_consistency(c) != SESSION_SYNCHRONOUS)
		return star_error_set(
			err, -EINVAL,
			"mean_by_row with consistency = %s: it determines by what gradients of synchronous steps are "
			"divided; others are not summed",
			c->consistency ? c->consistency : "asynchronous");
	if (session_consistency(c) == SESSION_ASYNCHRONOUS)
		return 0;
	if (c->evaluator)
		return star_error_set(err, -EINVAL,
				      "consistency = %s: workers do not wait for an evaluator, nor it for them",
				      c->consistency);
	if (c->workers < 1 || c->workers > PEERS_MAX || c->task_index >= c->workers)
		return star_error_set(
			err, -EINVAL,
			"consistency = %s: workers is %u, and this is worker %u: workers that wait for each "
			"other must know how many they are, 1 to %d",
			c->consistency, c->workers, c->task_index, PEERS_MAX);
	if (c->grads_to_wait > c->workers)
		return star_error_set(err, -EINVAL, "grads_to_wait is %u, but there are %u workers", c->grads_to_wait,
				      c->workers);
	return 0;
}

bool session_is_local(const struct session_config *config)
{
	return config->ps && !strcmp(config->ps, SESSION_LOCAL);
}

static int check_local(const struct session_config *config, struct star_error *err)
{
	if (config->evaluator)
		return star_error_set(err, -EINVAL,
				      "an evaluator sees nothing with ps = local: variables and tables are in the "
				      "worker's process, which can evaluate itself");
	if (config->task_index != 0)
		return star_error_set(err, -EINVAL,
				      "task_index = %u: with ps = local there is one worker, which is 0: others are "
				      "other processes, and need PS tasks",
				      config->task_index);
	if (session_consistency(config) != SESSION_ASYNCHRONOUS)
		return star_error_set(err, -EINVAL, "consistency = %s: with ps = local there is only one worker",
				      config->consistency);
	if (train_narrow_parse(config->wire, NULL) > 0)
		return star_error_set(
			err, -EINVAL,
			"wire = %s: with ps = local rows are not sent; a type in which they are stored is a "
			"table's dtype",
			config->wire);
	if (config->save_checkpoints_steps || config->save_checkpoints_secs)
		return star_error_set(err, -EINVAL,
				      "save_checkpoints_%s = %u: PS tasks write checkpoints, and with ps = local "
				      "there are none",
				      config->save_checkpoints_steps ? "steps" : "secs",
				      config->save_checkpoints_steps + config->save_checkpoints_secs);
	return 0;
}

static int check_checkpoints(const struct session_config *config, struct star_error *err)
{
	if (config->save_checkpoints_steps && config->save_checkpoints_secs)
		return star_error_set(
			err, -EINVAL,
			"save_checkpoints_steps = %u and save_checkpoints_secs = %u: set only one of the two",
			config->save_checkpoints_steps, config->save_checkpoints_secs);
	if (config->keep_checkpoint_max && !config->save_checkpoints_steps && !config->save_checkpoints_secs)
		return star_error_set(err, -EINVAL,
				      "keep_checkpoint_max = %u: the session requests no checkpoints; set "
				      "save_checkpoints_steps or save_checkpoints_secs too",
				      config->keep_checkpoint_max);
	return 0;
}

static int check_steps(const struct session_config *config, struct star_error *err)
{
	const uint32_t steps = config->steps_in_flight;

	if (steps > SESSION_IN_FLIGHT_MAX)
		return star_error_set(err, -EINVAL, "steps_in_flight = %u: 1 to %d are possible", steps,
				      SESSION_IN_FLIGHT_MAX);
	if (steps > 1 && session_is_local(config))
		return star_error_set(
			err, -EINVAL,
			"steps_in_flight = %u: with ps = local there is nothing to wait for, and only one "
			"step at a time",
			steps);
	if (steps > 1 && session_consistency(config) != SESSION_ASYNCHRONOUS)
		return star_error_set(err, -EINVAL,
				      "steps_in_flight = %u: with consistency = %s workers wait for each other's "
				      "steps, and each makes one at a time",
				      steps, config->consistency);
	return 0;
}

int session_config_check(const struct session_config *config, struct star_error *err)
{
	if (config->train_distribute && config->train_distribute[0])
		return star_error_set(
			err, -EINVAL,
			"train_distribute = %.60s: a distribution strategy and a protocol exclude each other: "
			"TensorFlow would silently ignore the protocol. Remove train_distribute",
			config->train_distribute);
	if (!config->ps || !config->ps[0])
		return star_error_set(
			err, -EINVAL,
			"the PS tasks' control addresses are missing: session_config.ps is \"tcp:host:port,...\"; an "
			"estimator's may come from the environment's TF_CONFIG");
	if (config->protocol && !graph_protocol_parse(config->protocol, err))
		return -EINVAL;
	if (train_narrow_parse(config->wire, err) < 0)
		return -EINVAL;
	if (session_is_local(config) && check_local(config, err) < 0)
		return -EINVAL;
	if (check_consistency(config, err) < 0)
		return -EINVAL;
	if (check_checkpoints(config, err) < 0)
		return -EINVAL;
	return check_steps(config, err);
}

void session_set_defaults(struct session_config *c)
{
	c->protocol = c->protocol ? c->protocol : "star_server";
	c->save_summary_steps = c->save_summary_steps ? c->save_summary_steps : 100;
	c->log_step_count_steps = c->log_step_count_steps ? c->log_step_count_steps : 100;
	c->steps_in_flight = c->steps_in_flight ? c->steps_in_flight : 1;
	c->deadline_us = c->deadline_us ? c->deadline_us : STAR_DEADLINE_DEFAULT_US;
	c->recovery_us = c->recovery_us ? c->recovery_us : UINT64_C(300000000);
	c->connect_us = c->connect_us ? c->connect_us : c->recovery_us;
	c->job = c->job ? c->job : "job";
	c->grads_to_wait = c->grads_to_wait ? c->grads_to_wait : c->workers;
	c->lease_us = c->lease_us ? c->lease_us : UINT64_C(10000000);
}

/* ---- plans ---- */

/* 0 with err. */
uint32_t session_count_tasks(const char *ps, struct star_error *err)
{
	uint32_t n = 1;

	if (strncmp(ps, "dpdk:", 5) == 0) {
		struct config *config = config_load_worker(ps + 5, err);

		n = config ? config->ps_count : 0;
		config_free(config);
		return n;
	}
	for (; *ps; ps++)
		n += *ps == ',';
	return n;
}
