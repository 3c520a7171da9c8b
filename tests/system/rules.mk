# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,tool,star-watch,tests/system,client,tests/system/tools/star-watch.c))
$(eval $(call binary,tool,star-shuffle,tests/system,,tests/system/tools/star-shuffle.c))
$(eval $(call binary,tool,star-do,tests/system/star-do,client,))
$(eval $(call binary,tool,star-count,tests/system/star-count,client,))
$(eval $(call binary,tool,star-program,tests/system/star-program,client,))
$(eval $(call binary,tool,star-graph,tests/system/star-graph,train,))
$(eval $(call binary,tool,star-sent,tests/system/star-sent,train graph input,tests/models/job.c app/startrain/sampler.c $(addprefix app/startrain/zoo/,text.c models.c models_history.c models_text.c layers.c)))
$(eval $(call binary,tool,star-estimator,tests/system/star-estimator,train,))
$(eval $(call binary,tool,star-evaluate,tests/system/star-evaluate,train,))
$(eval $(call binary,tool,star-bits,tests/system/star-bits,train,))
$(eval $(call binary,tool,star-sync,tests/system/star-sync,train,))
$(eval $(call binary,tool,star-memif,tests/system,net,tests/system/tools/star-memif.c))
$(BUILD)/tests/system/star-sync/star-sync: EXTRA_LIBS += -Wl,--wrap=star_execute,--wrap=star_execute_async
$(BUILD)/tests/system/star-sent/star-sent: EXTRA_LIBS += -Wl,--wrap=star_execute,--wrap=star_execute_async,--wrap=train_dedup_find
# Preloaded into nodes: it needs nothing of ours, and no sanitizer may come before it.
$(BUILD)/tests/system/storage/star-%.so: tests/system/storage/%.c
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(EXTRA_CFLAGS) -std=gnu11 -g -O2 -fPIC -shared -D_GNU_SOURCE -fvisibility=hidden $(WARNINGS) -o $@ $< -ldl
$(BUILD)/tests/system/storage/star-reset.so: EXTRA_CFLAGS = $(DPDK_CFLAGS)
BINARIES_tool += $(addprefix $(BUILD)/tests/system/storage/star-,storage.so guard.so reset.so hugepages.so)
# It runs before each program that a system test starts, and should take no time of its own.
$(BUILD)/tests/system/star-child: tests/system/tools/star-child.c
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) -std=gnu11 -g -O2 -static -D_GNU_SOURCE $(WARNINGS) -o $@ $<
BINARIES_tool += $(BUILD)/tests/system/star-child
