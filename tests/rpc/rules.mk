# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,test,test-rpc,tests/rpc,rpc,tests/unit.c tests/net/link.c tests/net/emulate.c))
