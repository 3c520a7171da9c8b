/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/config/support.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libconfig 1.5 loses the string at which it finds a syntax error; the program that is told so ends anyway. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\n";
}

static char folder[UNIT_FOLDER];

const char *support_folder(void)
{
	if (!folder[0])
		unit_folder(folder, "config");
	return folder;
}

const char *support_write(const char *name, const char *text, size_t bytes)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", support_folder(), name);
	unit_write(path, text, bytes);
	return path;
}

void support_clean(void)
{
	if (folder[0])
		unit_remove(folder);
	folder[0] = 0;
}

struct config *support_load(const char *text, const char *override, struct star_error *err)
{
	struct config_override set = { 0 };
	char copy[512] = "", *equals;

	if (override) {
		snprintf(copy, sizeof(copy), "%s", override);
		equals = strchr(copy, '=');
		*equals = 0;
		set = (struct config_override){ .name = copy, .value = equals + 1 };
	}
	*err = (struct star_error){ 0 };
	return config_load(support_write("t.conf", text, strlen(text)), &set, override ? 1 : 0, err);
}

void support_has_parts(const char *text, const char *parts)
{
	char copy[1024], *rest = copy, *part;

	snprintf(copy, sizeof(copy), "%s", parts);
	while ((part = strsep(&rest, "|")))
		CHECK_HAS(text, part);
}

void support_refused(const char *text, const char *override, const char *parts)
{
	struct star_error err;
	struct config *config = support_load(text, override, &err);

	if (config) {
		unit_fail(__FILE__, __LINE__, "not refused, where \"%s\" was expected: %s", parts, text);
		config_free(config);
		return;
	}
	CHECK(err.code < 0);
	support_has_parts(err.text, parts);
}

void support_clear_environment(void)
{
	static const char *const names[] = {
		"NETWORK_PS_CORE_NUMBER",	"NETWORK_WORKER_CORE_NUMBER",	  "PS_ENABLE_POLLING",
		"WORKER_ENABLE_POLLING",	"PS_DISABLE_PIN_CORES",		  "WORKER_DISABLE_PIN_CORES",
		"TF_SEASTAR_ENDPOINT_MAP_PATH", "NETWORK_MAX_CONNECTION_TIMEOUT", "TF_CONFIG",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

void support_one_core(bool one)
{
	static cpu_set_t all;
	cpu_set_t first;
	int core = 0;

	if (!one) {
		sched_setaffinity(0, sizeof(all), &all);
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(core, &all))
		core++;
	CPU_ZERO(&first);
	CPU_SET(core, &first);
	sched_setaffinity(0, sizeof(first), &first);
}
