# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call binary,program,startrain,app/startrain,client train graph input,$(foreach d,graphfile zoo,$(wildcard app/startrain/$(d)/*.c))))
