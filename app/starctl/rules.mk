# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starctl,ckpt client control config graph machine offload recorder store))
$(BIN_program_starctl): EXTRA_LIBS = -lncurses
