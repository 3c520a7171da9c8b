/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starctl/starctl.h"

int main(int argc, char **argv)
{
	return starctl_run(argc, argv, "/run/starserver", stdout, stderr);
}
