/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/starctl/starctl.h"
#include "base/output.h"

int main(int argc, char **argv)
{
	return output_end("starctl", starctl_run(argc, argv, "/run/starserver", stdout, stderr), STARCTL_FAILED);
}
