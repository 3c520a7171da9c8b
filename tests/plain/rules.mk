# SPDX-License-Identifier: BSD-3-Clause
# The same model trained by one process without a parameter server: what startrain's result is held against. It takes
# the text, the sampling and the loss from startrain; parameters and optimizer are its own.
$(eval $(call binary,tool,star-plain-trainer,tests/plain,base input,$(addprefix app/startrain/,corpus.c sampler.c batch.c model.c training.c quality.c)))
