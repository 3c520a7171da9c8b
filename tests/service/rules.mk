# SPDX-License-Identifier: BSD-3-Clause
# The rig of rpc's tests, with the real service in it.
$(eval $(call binary,test,test-service,tests/service,service,tests/unit.c tests/net/link.c tests/net/emulate.c tests/rpc/rig.c))
