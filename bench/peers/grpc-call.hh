/* SPDX-License-Identifier: BSD-3-Clause */
/* What the clients of grpc-map share: a channel of one's own, buffers of raw bytes, and calls whose ends come by a
 * completion queue. */
#ifndef PEERS_GRPC_CALL_H
#define PEERS_GRPC_CALL_H

#include <memory>
#include <string>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

/* A connection that no other channel uses, which is up within ten seconds; or nullptr. */
inline std::shared_ptr<grpc::Channel> grpc_connect(const std::string &address)
{
	grpc::ChannelArguments arguments;

	arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	arguments.SetMaxReceiveMessageSize(-1);
	const std::shared_ptr<grpc::Channel> channel =
		grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
	const auto until = std::chrono::system_clock::now() + std::chrono::seconds(10);
	return channel->WaitForConnected(until) ? channel : nullptr;
}

inline grpc::ByteBuffer grpc_bytes(grpc_slice slice)
{
	const grpc::Slice owned(slice, grpc::Slice::STEAL_REF);

	return grpc::ByteBuffer(&owned, 1);
}

/* All of a message in one piece. */
inline bool grpc_whole(const grpc::ByteBuffer &buffer, grpc::Slice *slice)
{
	return buffer.TrySingleSlice(slice).ok() || buffer.DumpToSingleSlice(slice).ok();
}

/* A call of one request and one reply. */
struct grpc_unary {
	std::unique_ptr<grpc::ClientContext> context;
	std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
	grpc::ByteBuffer reply;
	grpc::Status status;

	void begin(grpc::GenericStub &stub, const char *method, const grpc::ByteBuffer &request,
		   grpc::CompletionQueue *queue)
	{
		context = std::make_unique<grpc::ClientContext>();
		reader = stub.PrepareUnaryCall(context.get(), method, request, queue);
		reader->StartCall();
		reader->Finish(&reply, &status, this);
	}
};

/* A call that takes message after message. */
struct grpc_stream {
	grpc::ClientContext context;
	std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
	grpc::ByteBuffer reply;

	void begin(grpc::GenericStub &stub, const char *method, grpc::CompletionQueue *queue)
	{
		stream = stub.PrepareCall(&context, method, queue);
		stream->StartCall(this);
	}
};

#endif
