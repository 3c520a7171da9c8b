/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what is wrong with a new machine, configuration and cluster, and names the command that corrects it. */
#include "app/starctl/doctor.h"

#include <stdarg.h>
#include <string.h>

#include "app/starctl/starctl.h"

enum { FINDING_MAX = 512, CHECK_WIDTH = 22 };

static const char *const verdict_names[] = { "ok", "warning", "bad" };

void doctor_find(struct doctor *doctor, const char *check, enum doctor_verdict verdict, const char *remedy,
		 const char *format, ...)
{
	char finding[FINDING_MAX];
	va_list args;
	json_t *json;

	va_start(args, format);
	vsnprintf(finding, sizeof(finding), format, args);
	va_end(args);
	json = json_pack("{s:s, s:s, s:s}", "check", check, "verdict", verdict_names[verdict], "finding", finding);
	if (json && remedy)
		json_object_set_new(json, "remedy", json_string(remedy));
	json_array_append_new(doctor->checks, json);
	doctor->count[verdict]++;
}

static void render_doctor(const json_t *result, FILE *out)
{
	const long long warnings = (long long)json_integer_value(json_object_get(result, "warnings"));
	const json_t *check;
	size_t i;

	json_array_foreach(json_object_get(result, "checks"), i, check)
	{
		const char *remedy = json_string_value(json_object_get(check, "remedy"));

		fprintf(out, "%-8s %-*s ", json_string_value(json_object_get(check, "verdict")), CHECK_WIDTH,
			json_string_value(json_object_get(check, "check")));
		print_text(json_string_value(json_object_get(check, "finding")), out);
		fputc('\n', out);
		if (remedy) {
			fprintf(out, "%*s-> ", CHECK_WIDTH + 10, "");
			print_text(remedy, out);
			fputc('\n', out);
		}
	}
	fprintf(out, "\n%lld bad, %lld warning%s, %lld ok\n",
		(long long)json_integer_value(json_object_get(result, "bad")), warnings, warnings == 1 ? "" : "s",
		(long long)json_integer_value(json_object_get(result, "ok")));
	fflush(out);
}

static void look_at_configuration(struct doctor *doctor, const char *file, struct config *config,
				  const struct star_error *err)
{
	if (!config) {
		doctor_find(doctor, "configuration", DOCTOR_BAD, "correct it, and run this again", "%s", err->text);
		return;
	}
	doctor_find(doctor, "configuration", DOCTOR_OK, NULL, "%s: %s task %u of %u, %u reactor%s, %s stack", file,
		    config->job_name, config->task_index,
		    strcmp(config->job_name, "ps") == 0 ? config->ps_count : config->workers_count, config->reactors,
		    config->reactors == 1 ? "" : "s", config->stack == CONFIG_STACK_KERNEL ? "kernel" : "dpdk");
}

int run_doctor(const struct invocation *invocation)
{
	const char *file = invocation->argc ? invocation->argv[0] : NULL;
	struct star_error err = { 0 };
	struct config *config = file ? config_load(file, NULL, 0, &err) : NULL;
	struct doctor doctor = { .root = "", .config = config, .checks = json_array() };
	unsigned bad;

	if (file)
		look_at_configuration(&doctor, file, config, &err);
	if (config) {
		doctor_cluster(&doctor);
		doctor_ports(&doctor);
	}
	if (invocation->address)
		doctor_address(&doctor, invocation->address);
	doctor_machine(&doctor);
	bad = doctor.count[DOCTOR_BAD];
	print(invocation,
	      json_pack("{s:o, s:i, s:i, s:i}", "checks", doctor.checks, "ok", (int)doctor.count[DOCTOR_OK], "warnings",
			(int)doctor.count[DOCTOR_WARNING], "bad", (int)bad),
	      render_doctor);
	config_free(config);
	return bad ? STARCTL_FAILED : STARCTL_OK;
}
