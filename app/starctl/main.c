/* SPDX-License-Identifier: BSD-3-Clause */
#include <glob.h>
#include <stdio.h>

#include "app/starctl/starctl.h"
#include "base/output.h"
#include "config/config.h"

#define SYSTEM_FOLDER "/run/starserver"

/* A user's own nodes come before those of the machine. */
static const char *choose_folder(char own[CONFIG_RUNTIME_MAX])
{
	char pattern[CONFIG_RUNTIME_MAX + sizeof("/*.sock")];
	glob_t found = { 0 };
	bool any;

	config_runtime_folder(own);
	snprintf(pattern, sizeof(pattern), "%s/*.sock", own);
	any = config_runtime_is_own(own) && glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	return any ? own : SYSTEM_FOLDER;
}

int main(int argc, char **argv)
{
	char own[CONFIG_RUNTIME_MAX];

	return output_end("starctl", starctl_run(argc, argv, choose_folder(own), stdout, stderr), STARCTL_FAILED);
}
