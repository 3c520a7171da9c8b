# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,tool,star-watch,tests/system/tools,client,))
