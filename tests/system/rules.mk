# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,tool,star-watch,tests/system/tools,client,))
$(eval $(call binary,tool,star-do,tests/system/star-do,client,))
