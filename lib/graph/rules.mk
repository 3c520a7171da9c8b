# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,graph))

# Kernels are plain loops that the compiler is to vectorize.
$(OBJ_lib_graph): CFLAGS += -O3
