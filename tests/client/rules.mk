# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call test,client,client))
# One case looks at what the shared library exports.
$(BUILD)/tests/client/test-client: | $(BUILD)/lib/libstar.so
