# SPDX-License-Identifier: BSD-3-Clause
# The models of startrain's zoo, and its texts, without startrain: graphs, with PS tasks in this process.
$(eval $(call binary,test,test-models,tests/models,train graph input,tests/unit.c app/startrain/sampler.c $(addprefix app/startrain/zoo/,text.c models.c models_history.c models_text.c layers.c)))
