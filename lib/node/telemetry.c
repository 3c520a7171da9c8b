/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/telemetry.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <rte_telemetry.h>
#include <stdio.h>
#include <string.h>

#include "node/node.h"

/* Commands cannot be unregistered, so they outlive the control plane. */
static struct {
	pthread_mutex_t lock;
	struct control *control; /* NULL: there is none, and nothing is answered */
} telemetry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const struct openmetrics_family *metric(unsigned number)
{
	unsigned own = 0;

	while (control_metric(own))
		own++;
	return number < own ? control_metric(number) : node_metric(number - own);
}

static int list(const char *command, const char *params, struct rte_tel_data *data)
{
	const struct openmetrics_family *family;

	(void)command;
	(void)params;
	rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
	for (unsigned i = 0; (family = metric(i)); i++)
		rte_tel_data_add_array_string(data, family->name);
	return 0;
}

static void add_value(struct rte_tel_data *data, const char *name, double value)
{
	char text[32];

	if (value >= 0 && value < 0x1p63 && value == (double)(uint64_t)value) {
		rte_tel_data_add_dict_u64(data, name, (uint64_t)value);
		return;
	}
	snprintf(text, sizeof(text), "%.12g", value);
	rte_tel_data_add_dict_string(data, name, text);
}

/* Named by the values of its labels; DPDK allows letters, digits, '_' and '/' in a name. */
static void take_sample(void *ctx, const struct openmetrics_label *labels, double value)
{
	char name[RTE_TEL_MAX_STRING_LEN] = "value";
	size_t used = 0;

	for (; labels && labels->name && used < sizeof(name); labels++)
		used += (size_t)snprintf(name + used, sizeof(name) - used, "%s%s", used ? "/" : "", labels->value);
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '/')
			*c = '_';
	add_value(ctx, name, value);
}

static int answer_metric(const char *command, const char *params, struct rte_tel_data *data)
{
	const struct openmetrics_page page = { .take = take_sample, .ctx = data };
	const struct openmetrics_family *family;
	int rc = -ENOENT;

	(void)command;
	pthread_mutex_lock(&telemetry.lock);
	for (unsigned i = 0; telemetry.control && params && rc && (family = metric(i)); i++) {
		if (strcmp(params, family->name) != 0)
			continue;
		rte_tel_data_start_dict(data);
		control_metrics(telemetry.control, i, &page);
		rc = 0;
	}
	pthread_mutex_unlock(&telemetry.lock);
	return rc;
}

struct of_reactor {
	struct rte_tel_data *data;
	const char *reactor, *name;
	unsigned found;
};

static void take_of_reactor(void *ctx, const struct openmetrics_label *labels, double value)
{
	struct of_reactor *of = ctx;

	if (!labels || !labels->name || strcmp(labels->name, "reactor") != 0 || strcmp(labels->value, of->reactor) != 0)
		return;
	add_value(of->data, of->name, value);
	of->found++;
}

static int reactor(const char *command, const char *params, struct rte_tel_data *data)
{
	struct of_reactor of = { .data = data, .reactor = params };
	const struct openmetrics_page page = { .take = take_of_reactor, .ctx = &of };
	const struct openmetrics_family *family;

	(void)command;
	rte_tel_data_start_dict(data);
	pthread_mutex_lock(&telemetry.lock);
	for (unsigned i = 0; telemetry.control && params && (family = metric(i)); i++) {
		of.name = family->name;
		if (family->labels && strcmp(family->labels, "reactor") == 0)
			control_metrics(telemetry.control, i, &page);
	}
	pthread_mutex_unlock(&telemetry.lock);
	return of.found ? 0 : -ENOENT;
}

int node_telemetry_begin(struct control *control, struct star_error *err)
{
	static const struct {
		const char *name, *help;
		telemetry_cb run;
	} commands[] = {
		{ "/star/metrics", "Returns the names of all metrics of the node. Takes no parameters", list },
		{ "/star/metric", "Returns the samples of a metric. Parameters: its name", answer_metric },
		{ "/star/reactor", "Returns all metrics of a reactor. Parameters: its number", reactor },
	};

	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const int rc = rte_telemetry_register_cmd(commands[i].name, commands[i].run, commands[i].help);

		if (rc)
			return star_error_set(err, rc, "DPDK's telemetry does not take %s: %s", commands[i].name,
					      strerrordesc_np(-rc));
	}
	pthread_mutex_lock(&telemetry.lock);
	telemetry.control = control;
	pthread_mutex_unlock(&telemetry.lock);
	return 0;
}

void node_telemetry_end(void)
{
	pthread_mutex_lock(&telemetry.lock);
	telemetry.control = NULL;
	pthread_mutex_unlock(&telemetry.lock);
}
