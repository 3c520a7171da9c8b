# SPDX-License-Identifier: BSD-3-Clause
# The servers that the benches compare with, and their clients where starbench is not the one.
$(eval $(call binary,tool,epoll-echo,bench,,bench/peers/epoll-echo.c bench/peers/listen.c))
$(eval $(call binary,tool,epoll-bulk,bench,,bench/peers/epoll-bulk.c bench/peers/listen.c))
$(eval $(call binary,tool,bulk,bench,wire,bench/peers/bulk.c))
$(eval $(call binary,tool,tls-bulk,bench,base,bench/peers/tls-bulk.c))
$(BUILD)/bench/tls-bulk: EXTRA_LIBS = -lssl -lcrypto
$(eval $(call binary,tool,syn-flood,bench,,bench/peers/syn-flood.c))
$(eval $(call binary,tool,bare-send,bench,port,bench/peers/bare-send.c))
$(eval $(call binary,tool,udp-count,bench,,bench/peers/udp-count.c))
$(eval $(call binary,tool,epoll-batch,bench,,bench/peers/epoll-batch.c bench/peers/listen.c))
# Peers need libraries that no test does: they are built for benches alone.
$(eval $(call binary,peer,zmq-map,bench,,bench/peers/zmq-map.cc))
$(BUILD)/bench/zmq-map: EXTRA_LIBS = -lzmq -lstdc++
# The worker of store-end-to-end and kernel-stack; libstar's, ZeroMQ's and gRPC's clients are libraries.
$(eval $(call binary,peer,batches,bench/peers/batches,client,app/starbench/histogram.c bench/peers/batches/grpc.cc))
$(BUILD)/bench/peers/batches/batches: EXTRA_LIBS = -lzmq $(GRPC_LIBS)
GRPC_LIBS = $(shell pkg-config --libs grpc++) -lstdc++
$(eval $(call binary,peer,grpc-map,bench,,bench/peers/grpc-map.cc))
$(BUILD)/bench/grpc-map: EXTRA_LIBS = $(GRPC_LIBS)
$(eval $(call binary,peer,grpc-pull,bench,base,bench/peers/grpc-pull.cc app/starbench/histogram.c))
$(BUILD)/bench/grpc-pull: EXTRA_LIBS = $(GRPC_LIBS)
$(eval $(call binary,peer,grpc-step,bench,base,bench/peers/grpc-step.cc))
$(BUILD)/bench/grpc-step: EXTRA_LIBS = $(GRPC_LIBS)
$(eval $(call binary,peer,star-step,bench/peers/star-step,client train graph input,$(wildcard app/startrain/*.c $(foreach d,graphfile zoo,app/startrain/$(d)/*.c))))
$(BUILD)/bench/peers/star-step/star-step: EXTRA_LIBS += -Wl,--wrap=star_execute,--wrap=star_execute_async,--wrap=star_request_wait,--wrap=session_take
$(eval $(call binary,tool,memif-bare,bench,port,bench/peers/memif-bare.c app/starbench/histogram.c))
$(eval $(call binary,tool,reactor-cost,bench,port service control,bench/peers/reactor-cost.c bench/peers/bare-loop.c bench/peers/appliance.c bench/peers/appliance_stream.c app/starbench/histogram.c))
$(eval $(call binary,tool,secure-cost,bench,port service control,bench/peers/secure-cost.c bench/peers/appliance.c bench/peers/appliance_stream.c app/starbench/histogram.c))
$(eval $(call binary,tool,standby-cost,bench,node,bench/peers/standby-cost.c bench/peers/appliance.c bench/peers/appliance_stream.c app/starbench/histogram.c))
$(eval $(call binary,tool,step-cost,bench,port service control,bench/peers/step-cost.c bench/peers/appliance.c bench/peers/appliance_stream.c))
$(eval $(call binary,tool,scrape-cost,bench,node,bench/peers/scrape-cost.c))
$(eval $(call binary,tool,many-sessions,bench,config control port rpc,bench/peers/many-sessions.c app/starbench/histogram.c))
$(eval $(call binary,tool,many-workers,bench,wire control,bench/peers/many-workers.c app/starbench/cpu.c app/starbench/histogram.c))
$(eval $(call binary,tool,ckpt-raw,bench,ckpt store,bench/peers/ckpt-raw.c))
$(eval $(call binary,tool,ckpt-impact,bench,port service ckpt,bench/peers/ckpt-impact.c bench/peers/appliance.c bench/peers/appliance_stream.c bench/peers/saves.c app/starbench/histogram.c))
$(eval $(call binary,tool,ckpt-delta,bench,port service ckpt,bench/peers/ckpt-delta.c bench/peers/appliance.c bench/peers/appliance_stream.c bench/peers/saves.c app/starbench/histogram.c))
$(eval $(call binary,tool,journal-push,bench,client,bench/peers/journal-push.c))
$(eval $(call binary,tool,switch-push,bench,client,bench/peers/switch-push.c))
$(BUILD)/bench/switch-push: EXTRA_LIBS += -Wl,--wrap=connect,--wrap=send
$(eval $(call binary,tool,python-call,bench,client,bench/peers/python-call.c))
$(eval $(call binary,tool,one-row,bench,client,bench/peers/one-row.c))
# Preloaded into both sides of bench/instructions.
$(BUILD)/bench/slow-clock.so: $(BUILD)/bench/peers/slow-clock.o
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $<
OBJECTS += $(BUILD)/bench/peers/slow-clock.o
BINARIES_tool += $(BUILD)/bench/slow-clock.so
