/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step's calls (step.h, on standard input) by gRPC C++, as TensorFlow sends its own: asynchronous unary calls of raw bytes
 * over one channel, and one completion queue. Then commands: "run SECONDS" makes steps, and prints how many a second.
 */
extern "C" {
#include "base/clock.h"
}

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/peers/grpc-call.hh"
#include "bench/peers/step.h"

namespace
{
enum { EXIT_USAGE = 2, PATIENCE_S = 20 };

struct event {
	bool begins;
	uint64_t to, from; /* bytes */
	unsigned call;
};

std::vector<event> events;
std::vector<grpc_unary> calls;
std::vector<char> over;
std::vector<uint64_t> due; /* bytes of its reply */
grpc::CompletionQueue queue;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "grpc-step: %s\n", what);
	std::exit(EXIT_FAILURE);
}

void read_step()
{
	unsigned long long to, from;
	unsigned call, begun = 0;
	char line[128];

	while (std::fgets(line, sizeof(line), stdin) && std::strcmp(line, "end\n") && events.size() < STEP_EVENTS_MAX)
		if (std::sscanf(line, "begin %llu %llu", &to, &from) == 2)
			events.push_back({ true, to, from, begun++ });
		else if (std::sscanf(line, "wait %u", &call) == 1 && call < begun)
			events.push_back({ false, 0, 0, call });
		else
			die("a line of a step is wrong");
	if (!begun)
		die("a step without calls");
	calls.resize(begun);
	over.resize(begun);
	due.resize(begun);
}

/* The first eight bytes say how many are to come back. */
grpc::ByteBuffer request_of(const event &e)
{
	grpc_slice slice = grpc_slice_malloc(e.to < sizeof(e.from) ? sizeof(e.from) : e.to);

	std::memcpy(GRPC_SLICE_START_PTR(slice), &e.from, sizeof(e.from));
	return grpc_bytes(slice);
}

void wait_for(unsigned call)
{
	while (!over[call]) {
		void *tag;
		bool good;

		if (queue.AsyncNext(&tag, &good, std::chrono::system_clock::now() + std::chrono::seconds(PATIENCE_S)) !=
		    grpc::CompletionQueue::GOT_EVENT)
			die("no answer");
		grpc_unary *ended = static_cast<grpc_unary *>(tag);
		const size_t at = size_t(ended - calls.data());
		if (!good || !ended->status.ok())
			die(ended->status.error_message().c_str());
		if (ended->reply.Length() != due[at])
			die("a reply of another size");
		over[at] = true;
	}
}

void make_step(grpc::GenericStub &stub)
{
	for (const event &e : events) {
		if (!e.begins) {
			wait_for(e.call);
			continue;
		}
		over[e.call] = false;
		due[e.call] = e.from;
		calls[e.call].begin(stub, "/step/call", request_of(e), &queue);
	}
	for (unsigned call = 0; call < calls.size(); call++)
		wait_for(call);
}
} // namespace

int main(int argc, char **argv)
{
	char line[64];
	double seconds;

	if (argc != 2) {
		std::fprintf(stderr, "usage: grpc-step HOST:PORT < STEP\n");
		return EXIT_USAGE;
	}
	read_step();
	const std::shared_ptr<grpc::Channel> channel = grpc_connect(argv[1]);
	if (!channel)
		die("no gRPC server answers");
	grpc::GenericStub stub(channel);
	while (std::fgets(line, sizeof(line), stdin) && std::sscanf(line, "run %lf", &seconds) == 1) {
		const uint64_t began = clock_ns(), until = began + uint64_t(seconds * 1e9);
		uint64_t steps = 0, now;

		for (now = began; now < until; now = clock_ns(), steps++)
			make_step(stub);
		std::printf("{\"steps_per_s\": %.2f}\n", double(steps) * 1e9 / double(now - began));
		std::fflush(stdout);
	}
	return EXIT_SUCCESS;
}
