# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,test,test-ksock,tests/ksock,ksock net,tests/unit.c tests/net/link.c tests/net/emulate.c))
