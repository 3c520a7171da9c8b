# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,program,startrain,app/startrain,client train graph input,$(wildcard app/startrain/zoo/*.c)))
