# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starbench,wire control optim store tensor client))
# The test includes star.c and redis.c itself.
$(eval $(call binary,test,test-starbench,app/starbench/test,wire control,tests/unit.c $(addprefix app/starbench/, \
	bench.c cpu.c echo.c histogram.c loop.c)))
