# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starserver,config port reactor net rpc service store control ckpt))
$(BIN_program_starserver): EXTRA_LIBS = -lsystemd
