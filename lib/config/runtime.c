/* SPDX-License-Identifier: BSD-3-Clause */
/* The default paths of the administrator's sockets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

#define SYSTEM_FOLDER "/run/starserver"

void config_runtime_folder(char folder[CONFIG_RUNTIME_MAX])
{
	static const char last[] = "/starserver";
	const char *own = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0 || access(SYSTEM_FOLDER, W_OK | X_OK) == 0)
		strcpy(folder, SYSTEM_FOLDER);
	/* After su the variable may still name another user's directory. */
	else if (own && own[0] == '/' && strlen(own) + sizeof(last) <= CONFIG_RUNTIME_MAX &&
		 access(own, W_OK | X_OK) == 0)
		snprintf(folder, CONFIG_RUNTIME_MAX, "%s%s", own, last);
	else
		snprintf(folder, CONFIG_RUNTIME_MAX, "/tmp/starserver-%u", (unsigned)geteuid());
}

bool config_runtime_is_own(const char *folder)
{
	struct stat status;

	return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
