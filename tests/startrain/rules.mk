# SPDX-License-Identifier: BSD-3-Clause
# startrain without its client of parameter servers: the text, the sampling, the model, and the processes of a job.
$(eval $(call binary,test,test-startrain,tests/startrain,base tensor train input,tests/unit.c $(addprefix app/startrain/,corpus.c sampler.c batch.c model.c training.c transport.c quality.c options.c job.c progress.c)))
