# SPDX-License-Identifier: BSD-3-Clause
# With starctl's sources, but for its main: its commands run inside the test.
$(eval $(call binary,test,test-control,tests/control,ckpt control config graph machine offload recorder store,\
	tests/unit.c $(filter-out app/starctl/main.c,$(wildcard app/starctl/*.c))))
$(BIN_test_test-control): EXTRA_LIBS = -lncurses
