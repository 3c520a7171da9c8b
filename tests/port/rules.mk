# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,test,test-port,tests/port,port reactor net,tests/unit.c tests/net/stream.c))
