# SPDX-License-Identifier: BSD-3-Clause
# With store: what both know of a row by themselves must be the same.
$(eval $(call test,ckpt,ckpt store))
