# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call test,client,client port net rpc))
# One case looks at what the shared library exports; those over datagrams load the other one.
$(BUILD)/tests/client/test-client: | $(BUILD)/lib/libstar.so $(BUILD)/lib/libstar-dpdk.so
