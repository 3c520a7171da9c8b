# SPDX-License-Identifier: BSD-3-Clause
# The models of startrain's zoo, without startrain: their graphs, with PS tasks in this process.
$(eval $(call binary,test,test-models,tests/models,session graph,tests/unit.c $(addprefix app/startrain/zoo/,models.c models_history.c models_text.c layers.c)))
