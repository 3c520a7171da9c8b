# SPDX-License-Identifier: BSD-3-Clause
# A program of one file: tools/NAME.c.
define system_tool
toolS += $(1)
OBJ_tool_$(1) := $$(BUILD)/tests/system/tools/$(1).o
endef
