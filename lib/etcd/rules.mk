# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,etcd))
