# SPDX-License-Identifier: BSD-3-Clause
# The servers that the benches compare with.
$(eval $(call binary,tool,epoll-echo,bench,,bench/peers/epoll-echo.c))
