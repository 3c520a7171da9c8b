# SPDX-License-Identifier: BSD-3-Clause
# The permitted dependencies, one line a library: `make lint` checks every #include against them, and the linker gets
# its libraries from them. An edge added here is a change of the architecture: say why in docs/architecture.rst.
DEPS_base :=
DEPS_config := base
DEPS_tensor := base
DEPS_wire := base tensor optim
DEPS_optim := base tensor
DEPS_store := base tensor optim wire
DEPS_net := base
DEPS_rpc := base wire net
DEPS_port := base config
DEPS_reactor := base config port
DEPS_service := base tensor optim store wire net rpc
DEPS_control := base config tensor optim wire
DEPS_ckpt := base tensor optim wire control
DEPS_graph := base tensor
DEPS_client := base config tensor optim wire control
DEPS_client_dpdk := base config wire net rpc port client

# What each library takes from outside.
EXT_CFLAGS_base :=
EXT_LIBS_base := -lIPSec_MB
EXT_CFLAGS_config :=
EXT_LIBS_config := -lconfig
EXT_CFLAGS_tensor :=
EXT_LIBS_tensor :=
EXT_CFLAGS_wire :=
EXT_LIBS_wire :=
EXT_CFLAGS_optim :=
EXT_LIBS_optim :=
EXT_CFLAGS_store :=
EXT_LIBS_store :=
EXT_CFLAGS_net = $(DPDK_CFLAGS)
EXT_LIBS_net = $(DPDK_LIBS)
EXT_CFLAGS_rpc = $(DPDK_CFLAGS)
EXT_LIBS_rpc = $(DPDK_LIBS)
EXT_CFLAGS_port = $(DPDK_CFLAGS)
EXT_LIBS_port = $(DPDK_LIBS)
EXT_CFLAGS_reactor = $(DPDK_CFLAGS)
EXT_LIBS_reactor = $(DPDK_LIBS)
EXT_CFLAGS_service = $(DPDK_CFLAGS)
EXT_LIBS_service = $(DPDK_LIBS)
EXT_CFLAGS_control :=
EXT_LIBS_control := -ljansson
EXT_CFLAGS_ckpt :=
EXT_LIBS_ckpt := -ljansson
EXT_CFLAGS_graph :=
EXT_LIBS_graph := -lopenblas
EXT_CFLAGS_client :=
EXT_LIBS_client :=
EXT_CFLAGS_client_dpdk = $(DPDK_CFLAGS)
EXT_LIBS_client_dpdk = $(DPDK_LIBS)
