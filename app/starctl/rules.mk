# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call program,starctl,ckpt control config graph machine offload))
