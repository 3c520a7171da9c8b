/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/cluster_spec.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char example[] = "{\"cluster\": {\"ps\": [\"198.18.0.1:3333\"], \"worker\": [\"198.18.0.2:2222\"]}, "
			      "\"task\": {\"type\": \"worker\", \"index\": 0}}";

/* TensorFlow allows the scheme of a server's target before an address; it means the same without. */
static const char *skip_scheme(const char *address)
{
	static const char *const schemes[] = { "grpc://", "grpc++://", "star_server://", "star_server_lite://" };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (!strncmp(address, schemes[i], strlen(schemes[i])))
			return address + strlen(schemes[i]);
	return address;
}

/* "host:port", or "host:port|host:port" for a task that is a pair. Connecting will show what else is wrong with it. */
static bool good_address(const char *text)
{
	const char *bar = strchr(text, '|'), *colon = strrchr(text, ':');
	char first[CLUSTER_ADDRESS_MAX + 1] = "";
	size_t digits;

	if (bar && (size_t)(bar - text) < sizeof(first)) {
		memcpy(first, text, (size_t)(bar - text));
		return !strchr(bar + 1, '|') && good_address(first) && good_address(bar + 1);
	}
	if (!colon || colon == text || strlen(text) > CLUSTER_ADDRESS_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == ',' || *c == '|')
			return false;
	digits = strspn(colon + 1, "0123456789");
	return digits >= 1 && digits <= 5 && !colon[1 + digits] && atoi(colon + 1) > 0 && atoi(colon + 1) < 65536;
}

/* A number, or the text of one, as TensorFlow allows; -1: neither. */
static json_int_t read_digits(const char *text)
{
	return *text && strlen(text) <= 9 && !text[strspn(text, "0123456789")] ? atoi(text) : -1;
}

/* The tasks of a job by index. In a sparse list some have no address. */
struct tasks {
	const char *job;
	const char **addresses;
	uint32_t count; /* greatest index + 1 */
};

static int put_task(struct tasks *tasks, json_int_t index, const json_t *address, struct star_error *err)
{
	const char *text = json_string_value(address);

	if (!text || !good_address(skip_scheme(text)))
		return star_error_set(err, -EINVAL, "\"%s\": task %d is not \"host:port\"", tasks->job, (int)index);
	if (tasks->addresses[index])
		return star_error_set(err, -EINVAL, "\"%s\" has task %d twice: give each index one address", tasks->job,
				      (int)index);
	tasks->addresses[index] = skip_scheme(text);
	if (index >= tasks->count)
		tasks->count = (uint32_t)index + 1;
	return 0;
}

/* {"0": "host:port", "3": ...}: the tasks that this one is told about. */
static int read_sparse(struct tasks *tasks, json_t *object, struct star_error *err)
{
	const char *key;
	json_t *address;

	json_object_foreach(object, key, address)
	{
		const json_int_t index = read_digits(key);

		if (index < 0 || index >= CLUSTER_TASKS_MAX)
			return star_error_set(err, -EINVAL,
					      "\"%s\": \"%.40s\" is not the index of a task; allowed: 0 to %d",
					      tasks->job, key, CLUSTER_TASKS_MAX - 1);
		if (put_task(tasks, index, address, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/* A list, or a dict of sparse indices; no tasks if the job is missing. */
static int read_job(const json_t *cluster, const char *job, struct tasks *tasks, struct star_error *err)
{
	json_t *list = json_object_get(cluster, job), *address;
	size_t i;

	*tasks = (struct tasks){ .job = job };
	if (!list)
		return 0;
	if (!(json_is_array(list) || json_is_object(list)) || json_array_size(list) > CLUSTER_TASKS_MAX)
		return star_error_set(
			err, -EINVAL,
			"\"%s\" must be a list of up to %d addresses, or a dict of addresses by task index", job,
			CLUSTER_TASKS_MAX);
	tasks->addresses =
		calloc(json_is_array(list) ? json_array_size(list) + 1 : CLUSTER_TASKS_MAX, sizeof(*tasks->addresses));
	if (!tasks->addresses)
		return star_error_set(err, -ENOMEM, "no memory for the list of tasks");
	if (json_is_object(list))
		return read_sparse(tasks, list, err);
	json_array_foreach(list, i, address)
	{
		if (put_task(tasks, (json_int_t)i, address, err) < 0)
			return -EINVAL;
	}
	return 0;
}

static size_t join_bytes(const struct tasks *tasks)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < tasks->count; i++)
		bytes += tasks->addresses[i] ? strlen(tasks->addresses[i]) + 1 : 0;
	return bytes;
}

static char *append_tasks(char *end, const char *begin, const struct tasks *tasks)
{
	for (uint32_t i = 0; i < tasks->count; i++)
		if (tasks->addresses[i])
			end = stpcpy(stpcpy(end, end > begin ? "," : ""), tasks->addresses[i]);
	return end;
}

/* Joins two lists into one text, in order; NULL: no memory. */
static char *join_addresses(const char *prefix, const struct tasks *first, const struct tasks *second)
{
	char *text = malloc(strlen(prefix) + join_bytes(first) + join_bytes(second) + 1), *begin;

	if (!text)
		return NULL;
	begin = stpcpy(text, prefix);
	append_tasks(append_tasks(begin, begin, first), begin, second);
	return text;
}

/* Every PS task holds parameters, so all must be known, each by its own address. */
static int check_ps(const struct tasks *ps, struct star_error *err)
{
	json_t *seen = json_object();
	int rc = seen ? 0 : star_error_set(err, -ENOMEM, "no memory for the list of tasks");

	for (uint32_t i = 0; rc == 0 && i < ps->count; i++) {
		if (!ps->addresses[i])
			rc = star_error_set(
				err, -EINVAL,
				"\"ps\" lacks task %u: each PS task holds parameters, so all must be listed", i);
		else if (json_object_get(seen, ps->addresses[i]))
			rc = star_error_set(err, -EINVAL, "\"ps\" has %s twice: give each task its own address",
					    ps->addresses[i]);
		else if (json_object_set_new(seen, ps->addresses[i], json_true()) < 0)
			rc = star_error_set(err, -ENOMEM, "no memory for the list of tasks");
	}
	json_decref(seen);
	return rc;
}

/* Which task this process is: the list, and the number of tasks before it. */
static int read_task(const json_t *task, struct cluster_spec *spec, uint32_t chiefs, struct star_error *err)
{
	const char *type = json_string_value(json_object_get(task, "type"));
	const json_t *index = json_object_get(task, "index");
	const json_int_t number = json_is_string(index)	   ? read_digits(json_string_value(index))
				  : json_is_integer(index) ? json_integer_value(index)
							   : -1;
	const bool worker = type && !strcmp(type, "worker");
	uint32_t tasks;

	if (!task || json_is_null(task) || (json_is_object(task) && json_object_size(task) == 0))
		return 0; /* the process is told only the cluster */
	if (!type || (number < 0 && !json_is_integer(index)))
		return star_error_set(err, -EINVAL, "\"task\" must be {\"type\": ..., \"index\": N}, as in %s",
				      example);
	if (!strcmp(type, "ps")) {
		spec->job = CLUSTER_PS;
		tasks = spec->ps_count;
	} else if (worker || !strcmp(type, "chief") || !strcmp(type, "master")) {
		spec->job = CLUSTER_WORKER;
		tasks = worker ? spec->workers_count - chiefs : chiefs;
	} else if (!strcmp(type, "evaluator")) {
		spec->job = CLUSTER_EVALUATOR;
		tasks = 1;
	} else {
		return star_error_set(err, -EINVAL,
				      "task type \"%.40s\" is unknown; allowed: chief, worker, ps, evaluator", type);
	}
	if (number < 0 || number >= tasks)
		return star_error_set(err, -EINVAL, "there is no %s %lld: the cluster has %u, and indices start at 0",
				      type, (long long)number, tasks);
	spec->task = (uint32_t)number + (worker ? chiefs : 0);
	return 0;
}

enum { JOB_PS_TASKS, JOB_CHIEF, JOB_MASTER, JOB_WORKERS, JOBS_READ };

static int fill_spec(const json_t *root, const struct tasks jobs[static JOBS_READ], struct cluster_spec *spec,
		     struct star_error *err)
{
	const struct tasks *chief = &jobs[jobs[JOB_MASTER].count ? JOB_MASTER : JOB_CHIEF];
	const uint32_t chiefs = jobs[JOB_CHIEF].count + jobs[JOB_MASTER].count;

	if (chiefs > 1)
		return star_error_set(err, -EINVAL, "a cluster has one chief or master, not %u", chiefs);
	if (jobs[JOB_PS_TASKS].count == 0)
		return star_error_set(err, -EINVAL, "the cluster has no PS tasks; an example: %s", example);
	spec->ps_count = jobs[JOB_PS_TASKS].count;
	spec->workers_count = chiefs + jobs[JOB_WORKERS].count;
	if (read_task(json_object_get(root, "task"), spec, chiefs, err) < 0 || check_ps(&jobs[JOB_PS_TASKS], err) < 0)
		return err->code;
	spec->ps = join_addresses("tcp:", &jobs[JOB_PS_TASKS], &(struct tasks){ 0 });
	spec->workers = join_addresses("", chief, &jobs[JOB_WORKERS]);
	if (spec->ps && spec->workers)
		return 0;
	cluster_spec_fini(spec);
	return star_error_set(err, -ENOMEM, "no memory for the lists of tasks");
}

/* Without a cluster a process is alone, as in TensorFlow: worker 0 of a job without other tasks. */
static int check_alone(const json_t *task, struct star_error *err)
{
	const char *type = json_string_value(json_object_get(task, "type"));

	return !type || !strcmp(type, "worker")
		       ? 0
		       : star_error_set(err, -EINVAL, "a task \"%.40s\" needs a \"cluster\"; an example: %s", type,
					example);
}

static int read_spec(const json_t *root, struct cluster_spec *spec, struct star_error *err)
{
	static const char *const names[JOBS_READ] = { "ps", "chief", "master", "worker" };
	const json_t *cluster = json_object_get(root, "cluster");
	struct tasks jobs[JOBS_READ] = { 0 };
	int rc = 0;

	if (!json_is_object(root))
		return star_error_set(err, -EINVAL, "it must be a JSON object; an example: %s", example);
	if (!cluster || (json_is_object(cluster) && json_object_size(cluster) == 0))
		return check_alone(json_object_get(root, "task"), err);
	if (!json_is_object(cluster))
		return star_error_set(err, -EINVAL, "\"cluster\" must be a JSON object; an example: %s", example);
	for (unsigned i = 0; rc == 0 && i < JOBS_READ; i++)
		rc = read_job(cluster, names[i], &jobs[i], err);
	if (rc == 0)
		rc = fill_spec(root, jobs, spec, err);
	for (unsigned i = 0; i < JOBS_READ; i++)
		free(jobs[i].addresses);
	return rc;
}

/* Prefixes the error with where the cluster was given. */
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

/* NULL: one of them is not UTF-8. */
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
		status = star_error_set(&why, -EINVAL, "a name in it is not UTF-8, or out of memory");
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
