# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,tensor))

# Loops over elements, which -O2 alone does one by one.
$(BUILD)/lib/tensor/elementwise.o $(BUILD)/lib/tensor/sums.o: CFLAGS += -ftree-loop-vectorize -fvect-cost-model=dynamic
