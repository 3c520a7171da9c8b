# SPDX-License-Identifier: BSD-3-Clause
# With the double of PS nodes that libstar is tested with.
$(eval $(call binary,test,test-train,tests/train,train client port net rpc,tests/unit.c $(wildcard tests/client/peer*.c)))
