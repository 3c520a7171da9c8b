# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,startrain,client session graph input))
