/* SPDX-License-Identifier: BSD-3-Clause */
/* What a script has set by sysctl and ip: a file each, under the folder of the shims (tests/packetdrill/shims). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packetdrill/so/shim.h"

void shim_setting_text(const char *name, char *value, size_t bytes)
{
	char path[512], text[256];
	FILE *file;

	if (!shim.settings[0])
		return;
	snprintf(path, sizeof(path), "%s/%s", shim.settings, name);
	file = fopen(path, "r");
	if (!file)
		return;
	if (fgets(text, sizeof(text), file)) {
		text[strcspn(text, "\n")] = '\0';
		if (text[0])
			snprintf(value, bytes, "%s", text);
	}
	fclose(file);
}

long shim_setting(const char *name, unsigned index, long otherwise)
{
	char text[256] = "", *p = text, *end;
	long value = otherwise;

	shim_setting_text(name, text, sizeof(text));
	for (unsigned i = 0; i <= index; i++) {
		value = strtol(p, &end, 0);
		if (end == p)
			return otherwise;
		p = end;
	}
	return value;
}
