# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,exec))

# Kernels are plain loops that the compiler is to vectorize; nobody looks at the flags of floating-point exceptions.
$(OBJ_lib_exec): CFLAGS += -O3 -fno-trapping-math
