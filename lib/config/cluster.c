/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/cluster.h"

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
	size_t digits;

	if (!colon || colon == text || strlen(text) > CLUSTER_ADDRESS_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == ',')
			return false;
	digits = strspn(colon + 1, "0123456789");
	return digits >= 1 && digits <= 5 && !colon[1 + digits] && atoi(colon + 1) > 0 && atoi(colon + 1) < 65536;
}

/* The tasks of a job, 0 if it is not there; -EINVAL. */
static int count_job(const json_t *cluster, const char *job, struct star_error *err)
{
	json_t *list = json_object_get(cluster, job), *address;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > CLUSTER_TASKS_MAX)
		return star_error_set(err, -EINVAL, "\"%s\" is a list of up to %d addresses", job, CLUSTER_TASKS_MAX);
	json_array_foreach(list, i, address) if (!json_is_string(address) ||
						 !good_address(json_string_value(
							 address))) return star_error_set(err, -EINVAL,
											  "\"%s\": task %zu "
											  "is not \"host:port\"",
											  job, i);
	return (int)json_array_size(list);
}

/* Two lists as one text, their members in order; NULL: no memory. */
static char *join_address(const char *prefix, const json_t *first, const json_t *second)
{
	const json_t *lists[] = { first, second }, *address;
	const size_t members = json_array_size(first) + json_array_size(second);
	char *text = malloc(strlen(prefix) + members * (CLUSTER_ADDRESS_MAX + 1) + 1), *end = text;
	size_t i;

	if (!text)
		return NULL;
	end = stpcpy(end, prefix);
	for (unsigned list = 0; list < 2; list++)
		json_array_foreach(lists[list], i, address) end =
			stpcpy(stpcpy(end, end > text + strlen(prefix) ? "," : ""), json_string_value(address));
	return text;
}

static int check_ps(const json_t *list, struct star_error *err)
{
	const json_t *address, *other;
	size_t i, k;

	json_array_foreach(list, i, address)
		json_array_foreach(list, k, other) if (k < i && json_equal(address, other)) return star_error_set(
			err, -EINVAL, "\"ps\" has %s twice", json_string_value(address));
	return 0;
}

/* A number, or the text of one, which TensorFlow takes, too; -1: neither. */
static json_int_t read_index(const json_t *index)
{
	const char *text = json_string_value(index);

	if (!text)
		return json_is_integer(index) ? json_integer_value(index) : -1;
	return *text && strlen(text) <= 9 && !text[strspn(text, "0123456789")] ? atoi(text) : -1;
}

/* Which task this process is. */
static int read_task(const json_t *task, struct cluster_spec *spec, int chiefs, struct star_error *err)
{
	const char *type = json_string_value(json_object_get(task, "type"));
	const json_t *index = json_object_get(task, "index");
	const json_int_t number = read_index(index);
	uint32_t tasks;

	if (!type || (number < 0 && !json_is_integer(index)))
		return star_error_set(err, -EINVAL, "\"task\" is {\"type\": ..., \"index\": N}, as in %s", example);
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
		return star_error_set(err, -EINVAL, "task type \"%.40s\" is none of chief, worker, ps and evaluator",
				      type);
	}
	if (number < 0 || number >= tasks)
		return star_error_set(err, -EINVAL, "there is no %s %lld: the cluster has %u", type, (long long)number,
				      tasks);
	spec->task = (uint32_t)number + (!strcmp(type, "worker") ? (uint32_t)chiefs : 0);
	return 0;
}

static int read_spec(const json_t *root, struct cluster_spec *spec, struct star_error *err)
{
	const json_t *cluster = json_object_get(root, "cluster");
	int ps, workers, chiefs, masters;

	if (!json_is_object(cluster))
		return star_error_set(err, -EINVAL, "\"cluster\" is missing; an example: %s", example);
	ps = count_job(cluster, "ps", err);
	workers = ps < 0 ? ps : count_job(cluster, "worker", err);
	chiefs = workers < 0 ? workers : count_job(cluster, "chief", err);
	masters = chiefs < 0 ? chiefs : count_job(cluster, "master", err);
	if (masters < 0)
		return -EINVAL;
	chiefs += masters;
	if (chiefs > 1)
		return star_error_set(err, -EINVAL, "a cluster has one chief, not %d", chiefs);
	if (ps == 0 || workers + chiefs == 0)
		return star_error_set(err, -EINVAL, "a cluster has PS tasks and workers; an example: %s", example);
	spec->ps_count = (uint32_t)ps;
	spec->workers_count = (uint32_t)(workers + chiefs);
	if (read_task(json_object_get(root, "task"), spec, chiefs, err) < 0 ||
	    check_ps(json_object_get(cluster, "ps"), err) < 0)
		return -EINVAL;
	spec->ps = join_address("tcp:", json_object_get(cluster, "ps"), NULL);
	spec->workers = join_address("", json_object_get(cluster, masters ? "master" : "chief"),
				     json_object_get(cluster, "worker"));
	if (spec->ps && spec->workers)
		return 0;
	cluster_spec_fini(spec);
	return star_error_set(err, -ENOMEM, "no memory for the lists of tasks");
}

/* Where what is wrong was given, before what is wrong. */
static int report_cluster(struct star_error *err, int status, const char *where, const struct star_error *why)
{
	return status < 0 ? star_error_set(err, status, "%s: %s", where, why->text) : status;
}

int cluster_spec_parse(const char *tf_config, struct cluster_spec *spec, struct star_error *err)
{
	json_error_t where;
	json_t *root = json_loads(tf_config, JSON_REJECT_DUPLICATES, &where);
	struct star_error why;
	int status;

	memset(spec, 0, sizeof(*spec));
	if (!root)
		return star_error_set(err, -EINVAL, "TF_CONFIG: line %d, column %d: %s; an example: %s", where.line,
				      where.column, where.text, example);
	status = read_spec(root, spec, &why);
	json_decref(root);
	return report_cluster(err, status, "TF_CONFIG", &why);
}

/* NULL: one is no text. */
static json_t *list_of(const char *const *hosts, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < count; i++)
		if (json_array_append_new(list, json_string(hosts[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

int cluster_spec_make(const char *const *ps_hosts, uint32_t ps_count, const char *const *worker_hosts,
		      uint32_t workers_count, const char *job_name, uint32_t task_index, struct cluster_spec *spec,
		      struct star_error *err)
{
	json_t *ps = list_of(ps_hosts, ps_count), *workers = list_of(worker_hosts, workers_count);
	json_t *root = json_pack("{s:{s:O*, s:O*}, s:{s:s, s:I}}", "cluster", "ps", ps, "worker", workers, "task",
				 "type", job_name, "index", (json_int_t)task_index);
	struct star_error why;
	int status;

	memset(spec, 0, sizeof(*spec));
	if (ps && workers && root)
		status = read_spec(root, spec, &why);
	else
		status = star_error_set(&why, -EINVAL, "a name in it is no text of UTF-8, or memory is out");
	json_decref(root);
	json_decref(workers);
	json_decref(ps);
	return report_cluster(err, status, "the cluster", &why);
}

void cluster_spec_fini(struct cluster_spec *spec)
{
	free(spec->ps);
	free(spec->workers);
	spec->ps = spec->workers = NULL;
}
