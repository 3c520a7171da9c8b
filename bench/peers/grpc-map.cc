/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parameter server as one makes it with gRPC C++ and no more: asynchronous calls of raw bytes, a completion queue for each
 * thread, and std::unordered_map from key to row in shards, each behind a mutex. What a call says is batch.h's, without
 * protobuf, which would cost more. A call whose method ends in "/stream" has message after message, any other one.
 *
 * Methods that begin with "/step/" do nothing but answer as many bytes as the request's first eight say: the parameter
 * server of bench/grpc-step, which has no work of its own.
 */
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "bench/peers/batch.h"

namespace
{
enum { EXIT_USAGE = 2, SHARDS = 16, CALLS_WAITING = 64, THREADS_MAX = 64 };
const uint64_t ANSWER_MAX = 64 << 20;

struct shard {
	std::mutex lock;
	std::unordered_map<uint64_t, std::array<float, BATCH_DIM>> rows;
};

shard shards[SHARDS];

shard &shard_of(uint64_t key)
{
	return shards[key * UINT64_C(0x9e3779b97f4a7c15) >> 60];
}

grpc::Slice answer_of(grpc_slice slice)
{
	return grpc::Slice(slice, grpc::Slice::STEAL_REF);
}

void add(const batch_head &head, uint64_t key, const uint8_t *gradient)
{
	shard &s = shard_of(key);
	batch_row row;

	std::memcpy(&row, gradient, sizeof(row));
	const std::lock_guard<std::mutex> hold(s.lock);
	std::array<float, BATCH_DIM> &is = s.rows[key];
	for (int e = 0; e < BATCH_DIM; e++)
		is[e] -= head.rate * row.values[e];
}

void read(uint64_t key, uint8_t *to)
{
	shard &s = shard_of(key);

	const std::lock_guard<std::mutex> hold(s.lock);
	std::memcpy(to, s.rows[key].data(), sizeof(batch_row));
}

/* Whether it was a request; *answer is then what to say. */
bool serve_batch(const grpc::Slice &request, grpc::Slice *answer)
{
	const uint8_t *at = request.begin();
	batch_head head;
	uint64_t key;

	if (request.size() < sizeof(head))
		return false;
	std::memcpy(&head, at, sizeof(head));
	const size_t rows = head.kind == BATCH_PUSH ? head.count * sizeof(batch_row) : 0;
	if (!batch_head_good(&head) || request.size() != sizeof(head) + head.count * sizeof(key) + rows)
		return false;
	grpc_slice out = grpc_slice_malloc(sizeof(head) + (rows ? 0 : head.count * sizeof(batch_row)));
	uint8_t *to = GRPC_SLICE_START_PTR(out) + sizeof(head);
	std::memcpy(GRPC_SLICE_START_PTR(out), &head, sizeof(head));
	for (uint32_t i = 0; i < head.count; i++) {
		std::memcpy(&key, at + sizeof(head) + i * sizeof(key), sizeof(key));
		if (rows)
			add(head, key, at + sizeof(head) + head.count * sizeof(key) + i * sizeof(batch_row));
		else
			read(key, to + i * sizeof(batch_row));
	}
	*answer = answer_of(out);
	return true;
}

bool serve_step(const grpc::Slice &request, grpc::Slice *answer)
{
	uint64_t bytes;

	if (request.size() < sizeof(bytes))
		return false;
	std::memcpy(&bytes, request.begin(), sizeof(bytes));
	if (bytes > ANSWER_MAX)
		return false;
	*answer = answer_of(grpc_slice_malloc(bytes));
	return true;
}

bool begins(const std::string &text, const char *with)
{
	return text.compare(0, std::strlen(with), with) == 0;
}

bool ends(const std::string &text, const char *with)
{
	return text.size() >= std::strlen(with) && text.compare(text.size() - std::strlen(with), std::string::npos, with) == 0;
}

/* One call, from its arrival to its end; it deletes itself. */
class call
{
    public:
	call(grpc::AsyncGenericService *from, grpc::ServerCompletionQueue *events)
	    : service(from), queue(events), stream(&context)
	{
		service->RequestCall(&context, &stream, queue, queue, this);
	}

	void go_on(bool good)
	{
		switch (state) {
		case ARRIVED:
			if (!good)
				return delete this;
			new call(service, queue);
			streams = ends(context.method(), "/stream");
			step = begins(context.method(), "/step/");
			return read_next();
		case READ:
			return good ? answer() : finish(grpc::Status::OK);
		case WRITTEN:
			return good ? read_next() : finish(grpc::Status::OK);
		case FINISHED:
			delete this;
		}
	}

    private:
	enum { ARRIVED, READ, WRITTEN, FINISHED } state = ARRIVED;
	grpc::AsyncGenericService *service;
	grpc::ServerCompletionQueue *queue;
	grpc::GenericServerContext context;
	grpc::GenericServerAsyncReaderWriter stream;
	grpc::ByteBuffer buffer;
	bool streams = false, step = false;

	void read_next()
	{
		state = READ;
		stream.Read(&buffer, this);
	}

	void finish(const grpc::Status &status)
	{
		state = FINISHED;
		stream.Finish(status, this);
	}

	void answer()
	{
		grpc::Slice request, reply;

		if ((!buffer.TrySingleSlice(&request).ok() && !buffer.DumpToSingleSlice(&request).ok()) ||
		    !(step ? serve_step(request, &reply) : serve_batch(request, &reply)))
			return finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no such request"));
		const grpc::ByteBuffer out(&reply, 1);
		state = streams ? WRITTEN : FINISHED;
		if (streams)
			stream.Write(out, this);
		else
			stream.WriteAndFinish(out, grpc::WriteOptions(), grpc::Status::OK, this);
	}
};

void serve(grpc::AsyncGenericService *service, grpc::ServerCompletionQueue *queue)
{
	void *tag;
	bool good;

	for (int i = 0; i < CALLS_WAITING; i++)
		new call(service, queue);
	while (queue->Next(&tag, &good))
		static_cast<call *>(tag)->go_on(good);
}
} // namespace

int main(int argc, char **argv)
{
	const int threads = argc == 3 ? std::atoi(argv[2]) : 0;
	std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
	std::vector<std::thread> running;
	grpc::AsyncGenericService service;
	grpc::ServerBuilder builder;

	if (threads < 1 || threads > THREADS_MAX) {
		std::fprintf(stderr, "usage: grpc-map ADDRESS:PORT THREADS\n");
		return EXIT_USAGE;
	}
	builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
	builder.SetMaxReceiveMessageSize(-1);
	builder.RegisterAsyncGenericService(&service);
	for (int i = 0; i < threads; i++)
		queues.push_back(builder.AddCompletionQueue());
	const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (!server) {
		std::fprintf(stderr, "grpc-map: cannot listen on %s\n", argv[1]);
		return EXIT_FAILURE;
	}
	for (auto &queue : queues)
		running.emplace_back(serve, &service, queue.get());
	for (auto &thread : running)
		thread.join();
	return EXIT_SUCCESS;
}
