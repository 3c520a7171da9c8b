# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,tool,star-watch,tests/system,client,tests/system/tools/star-watch.c))
$(eval $(call binary,tool,star-shuffle,tests/system,,tests/system/tools/star-shuffle.c))
$(eval $(call binary,tool,star-do,tests/system/star-do,client,))
$(eval $(call binary,tool,star-program,tests/system/star-program,client,))
$(eval $(call binary,tool,star-graph,tests/system/star-graph,session,))
$(eval $(call binary,tool,star-sent,tests/system/star-sent,session graph input,tests/models/job.c app/startrain/sampler.c $(addprefix app/startrain/zoo/,text.c models.c models_history.c models_text.c layers.c)))
$(eval $(call binary,tool,star-estimator,tests/system/star-estimator,session,))
$(eval $(call binary,tool,star-sync,tests/system/star-sync,session,))
$(eval $(call binary,tool,star-memif,tests/system,net,tests/system/tools/star-memif.c))
$(BUILD)/tests/system/star-sync/star-sync: EXTRA_LIBS += -Wl,--wrap=star_execute,--wrap=star_execute_async
$(BUILD)/tests/system/star-sent/star-sent: EXTRA_LIBS += -Wl,--wrap=star_execute,--wrap=star_execute_async,--wrap=once_find
