/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/cluster.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char example[] = "{\"cluster\": {\"ps\": [\"198.18.0.1:3333\"], \"worker\": [\"198.18.0.2:2222\"]}, "
			      "\"task\": {\"type\": \"worker\", \"index\": 0}}";

/* "host:port": what else is wrong with it, connecting tells. */
static bool good_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	char *end;
	long port;

	if (!colon || colon == text || strlen(text) > CLUSTER_ADDRESS_MAX || strpbrk(text, ", \t\n"))
		return false;
	port = strtol(colon + 1, &end, 10);
	return end != colon + 1 && !*end && port > 0 && port < 65536;
}

/* The tasks of a job, 0 if it is not there; -EINVAL. */
static int count_job(const json_t *cluster, const char *job, struct star_error *err)
{
	json_t *list = json_object_get(cluster, job), *address;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > CLUSTER_TASKS_MAX)
		return star_error_set(err, -EINVAL, "TF_CONFIG: \"%s\" is a list of up to %d addresses", job,
				      CLUSTER_TASKS_MAX);
	json_array_foreach(list, i, address) if (!json_is_string(address) ||
						 !good_address(json_string_value(
							 address))) return star_error_set(err, -EINVAL,
											  "TF_CONFIG: \"%s\": task %zu "
											  "is not \"host:port\"",
											  job, i);
	return (int)json_array_size(list);
}

/* Each PS task's control address once, in their order. */
static int join_ps(const json_t *list, char **text, struct star_error *err)
{
	const size_t room = sizeof("tcp:") + json_array_size(list) * (CLUSTER_ADDRESS_MAX + 1);
	json_t *address, *other;
	size_t i, k;

	json_array_foreach(list, i, address)
		json_array_foreach(list, k, other) if (k < i && json_equal(address, other)) return star_error_set(
			err, -EINVAL, "TF_CONFIG: \"ps\" has %s twice", json_string_value(address));
	*text = malloc(room);
	if (!*text)
		return star_error_set(err, -ENOMEM, "no memory for the list of PS tasks");
	strcpy(*text, "tcp:");
	json_array_foreach(list, i, address)
	{
		if (i)
			strcat(*text, ",");
		strcat(*text, json_string_value(address));
	}
	return 0;
}

/* Which task this process is. */
static int read_task(const json_t *task, struct cluster_spec *spec, int chiefs, struct star_error *err)
{
	const char *type = json_string_value(json_object_get(task, "type"));
	const json_t *index = json_object_get(task, "index");
	const json_int_t number = json_integer_value(index);
	uint32_t tasks;

	if (!type || !json_is_integer(index))
		return star_error_set(err, -EINVAL, "TF_CONFIG: \"task\" is {\"type\": ..., \"index\": N}, as in %s",
				      example);
	if (!strcmp(type, "ps")) {
		spec->job = CLUSTER_PS;
		tasks = spec->ps_count;
	} else if (!strcmp(type, "chief") || !strcmp(type, "master")) {
		spec->job = CLUSTER_WORKER;
		tasks = (uint32_t)chiefs;
	} else if (!strcmp(type, "worker")) {
		spec->job = CLUSTER_WORKER;
		tasks = spec->workers_count - (uint32_t)chiefs;
	} else if (!strcmp(type, "evaluator")) {
		spec->job = CLUSTER_EVALUATOR;
		tasks = 1;
	} else {
		return star_error_set(err, -EINVAL,
				      "TF_CONFIG: task type \"%.40s\" is none of chief, worker, ps and evaluator",
				      type);
	}
	if (number < 0 || number >= tasks)
		return star_error_set(err, -EINVAL, "TF_CONFIG: there is no %s %lld: the cluster has %u", type,
				      (long long)number, tasks);
	spec->task = (uint32_t)number + (!strcmp(type, "worker") ? (uint32_t)chiefs : 0);
	return 0;
}

static int read_spec(const json_t *root, struct cluster_spec *spec, struct star_error *err)
{
	const json_t *cluster = json_object_get(root, "cluster");
	int ps, workers, chiefs, masters;

	if (!json_is_object(cluster))
		return star_error_set(err, -EINVAL, "TF_CONFIG: \"cluster\" is missing; an example: %s", example);
	ps = count_job(cluster, "ps", err);
	workers = ps < 0 ? ps : count_job(cluster, "worker", err);
	chiefs = workers < 0 ? workers : count_job(cluster, "chief", err);
	masters = chiefs < 0 ? chiefs : count_job(cluster, "master", err);
	if (masters < 0)
		return -EINVAL;
	chiefs += masters;
	if (chiefs > 1)
		return star_error_set(err, -EINVAL, "TF_CONFIG: a cluster has one chief, not %d", chiefs);
	if (ps == 0 || workers + chiefs == 0)
		return star_error_set(err, -EINVAL, "TF_CONFIG: a cluster has PS tasks and workers; an example: %s",
				      example);
	spec->ps_count = (uint32_t)ps;
	spec->workers_count = (uint32_t)(workers + chiefs);
	ps = read_task(json_object_get(root, "task"), spec, chiefs, err);
	return ps < 0 ? ps : join_ps(json_object_get(cluster, "ps"), &spec->ps, err);
}

int cluster_spec_parse(const char *tf_config, struct cluster_spec *spec, struct star_error *err)
{
	json_error_t where;
	json_t *root = json_loads(tf_config, JSON_REJECT_DUPLICATES, &where);
	int status;

	memset(spec, 0, sizeof(*spec));
	if (!root)
		return star_error_set(err, -EINVAL, "TF_CONFIG: line %d, column %d: %s", where.line, where.column,
				      where.text);
	status = read_spec(root, spec, err);
	json_decref(root);
	return status;
}

int cluster_spec_read_worker(const char *tf_config, struct cluster_spec *spec, struct star_error *err)
{
	const int status = cluster_spec_parse(tf_config, spec, err);

	if (status < 0 || spec->job == CLUSTER_WORKER)
		return status;
	return star_error_set(err, -EINVAL, "TF_CONFIG: this is %s; a worker is wanted here",
			      spec->job == CLUSTER_PS ? "a PS task, which starserver is" : "an evaluator");
}

void cluster_spec_fini(struct cluster_spec *spec)
{
	free(spec->ps);
	spec->ps = NULL;
}
