# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,session))

# The example of docs/training.rst.
$(eval $(call binary,tool,train_likes,docs/examples/estimator,session graph,))
