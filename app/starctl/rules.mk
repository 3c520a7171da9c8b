# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starctl,control config))
