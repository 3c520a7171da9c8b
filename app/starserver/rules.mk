# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starserver,ckpt config control jsonrpc machine metrics node))
$(BIN_program_starserver): EXTRA_LIBS = -lsystemd
