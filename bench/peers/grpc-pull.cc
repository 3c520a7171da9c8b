/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `starbench pull` is for other servers, for grpc-map: pulls of one row in a closed loop, one in flight on each of many
 * connections, one thread. Rows are first given the value of their key, and every reply is compared with it. Prints
 * one JSON object.
 */
extern "C" {
#include "app/starbench/histogram.h"
#include "base/clock.h"
#include "base/prng.h"
}

#include <getopt.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/peers/batch.h"
#include "bench/peers/grpc-call.hh"

namespace
{
enum { EXIT_USAGE = 2, CONNECTIONS_MAX = 1024, KEYS_MAX = 1 << 20, PATIENCE_S = 10 };

struct options {
	const char *address = nullptr;
	int connections = 50, keys = 10000;
	double seconds = 2, warmup_s = 0.5;
	bool stream = false;
} o;

grpc::CompletionQueue queue;
prng random_keys;
histogram latency;
bool counting, stopping;
uint64_t in_flight;

[[noreturn]] void die(const char *what)
{
	std::fprintf(stderr, "grpc-pull: %s\n", what);
	std::exit(EXIT_FAILURE);
}

/* The rows' first values, or a pull of them. */
grpc::ByteBuffer request_of(uint64_t first, uint32_t count, bool push)
{
	const batch_head head = { BATCH_MAGIC, push ? uint32_t(BATCH_PUSH) : uint32_t(BATCH_PULL), first, count, -1, 0 };
	std::vector<uint64_t> keys(count);
	std::vector<batch_row> rows(push ? count : 0);

	for (uint32_t i = 0; i < count; i++)
		keys[i] = first + i;
	for (uint32_t i = 0; i < rows.size(); i++)
		for (float &value : rows[i].values)
			value = float(first + i);
	const grpc::Slice parts[] = { grpc::Slice(&head, sizeof(head)), grpc::Slice(keys.data(), keys.size() * sizeof(keys[0])),
				      grpc::Slice(rows.data(), rows.size() * sizeof(batch_row)) };
	return grpc::ByteBuffer(parts, push ? 3 : 2);
}

/* A connection: a call after the other, or a stream with a message after the other. */
struct connection {
	std::shared_ptr<grpc::Channel> channel;
	std::unique_ptr<grpc::GenericStub> stub;
	grpc_unary unary;
	std::unique_ptr<grpc_stream> stream;
	enum { OPENING, WRITING, READING, ENDED } state = OPENING; /* of the stream */
	uint64_t key = 0, sent_ns = 0;

	void send()
	{
		key = prng_below(&random_keys, uint32_t(o.keys));
		const grpc::ByteBuffer request = request_of(key, 1, false);
		in_flight++;
		sent_ns = clock_ns();
		if (!o.stream) {
			unary.context = std::make_unique<grpc::ClientContext>();
			unary.reader = stub->PrepareUnaryCall(unary.context.get(), "/map/call", request, &queue);
			unary.reader->StartCall();
			unary.reader->Finish(&unary.reply, &unary.status, this);
			return;
		}
		state = WRITING;
		stream->stream->Write(request, this);
	}

	void take(const grpc::ByteBuffer &reply)
	{
		const uint64_t now = clock_ns();
		grpc::Slice slice;
		batch_row row;

		if (!grpc_whole(reply, &slice) || slice.size() != sizeof(batch_head) + sizeof(row))
			die("a reply of another size");
		std::memcpy(&row, slice.begin() + sizeof(batch_head), sizeof(row));
		if (row.values[0] != float(key) || row.values[BATCH_DIM - 1] != float(key))
			die("a reply has another row");
		in_flight--;
		if (counting)
			histogram_record(&latency, now - sent_ns);
		if (!stopping)
			send();
	}

	void go_on(bool good)
	{
		if (!good)
			die("a call has failed");
		if (!o.stream) {
			if (!unary.status.ok())
				die(unary.status.error_message().c_str());
			return take(unary.reply);
		}
		if (state == OPENING)
			return send();
		if (state == READING)
			return take(stream->reply);
		state = READING;
		stream->stream->Read(&stream->reply, this);
	}
};

void turn()
{
	void *tag;
	bool good;

	if (queue.AsyncNext(&tag, &good, std::chrono::system_clock::now() + std::chrono::seconds(PATIENCE_S)) !=
	    grpc::CompletionQueue::GOT_EVENT)
		die("no answer");
	static_cast<connection *>(tag)->go_on(good);
}

void run_for(double seconds)
{
	const uint64_t until = clock_ns() + uint64_t(seconds * 1e9);

	while (clock_ns() < until)
		turn();
}

double cpu_s()
{
	rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

grpc::ByteBuffer call_once(connection &c, const grpc::ByteBuffer &request)
{
	grpc_unary call;
	void *tag;
	bool good;

	call.begin(*c.stub, "/map/call", request, &queue);
	if (!queue.Next(&tag, &good) || !good || !call.status.ok())
		die("the rows cannot be filled");
	return call.reply;
}

/* A push adds, so only where no run before has done it: its last row says. */
void fill(connection &c)
{
	const uint32_t keys = uint32_t(o.keys), at_once = 1000;
	grpc::Slice slice;
	batch_row last;

	if (!grpc_whole(call_once(c, request_of(keys - 1, 1, false)), &slice) || slice.size() != sizeof(batch_head) + sizeof(last))
		die("a reply of another size");
	std::memcpy(&last, slice.begin() + sizeof(batch_head), sizeof(last));
	for (uint32_t first = 0; last.values[0] != float(keys - 1) && first < keys; first += at_once)
		call_once(c, request_of(first, keys - first < at_once ? keys - first : at_once, true));
}

bool parse(int argc, char **argv)
{
	static const option list[] = { { "address", required_argument, nullptr, 'a' },
				       { "connections", required_argument, nullptr, 'c' },
				       { "keys", required_argument, nullptr, 'k' },
				       { "seconds", required_argument, nullptr, 's' },
				       { "stream", no_argument, nullptr, 't' },
				       { nullptr, 0, nullptr, 0 } };
	int id;

	while ((id = getopt_long(argc, argv, "", list, nullptr)) != -1) {
		if (id == 'a')
			o.address = optarg;
		else if (id == 'c')
			o.connections = std::atoi(optarg);
		else if (id == 'k')
			o.keys = std::atoi(optarg);
		else if (id == 's')
			o.seconds = std::atof(optarg);
		else if (id == 't')
			o.stream = true;
		else
			return false;
	}
	return o.address && optind == argc && o.connections >= 1 && o.connections <= CONNECTIONS_MAX && o.keys >= 1 &&
	       o.keys <= KEYS_MAX && o.seconds > 0;
}

void begin(std::vector<connection> &all)
{
	for (connection &c : all) {
		c.channel = grpc_connect(o.address);
		if (!c.channel)
			die("no gRPC server answers");
		c.stub = std::make_unique<grpc::GenericStub>(c.channel);
	}
	fill(all[0]);
	for (connection &c : all) {
		if (!o.stream) {
			c.send();
			continue;
		}
		c.stream = std::make_unique<grpc_stream>();
		c.stream->stream = c.stub->PrepareCall(&c.stream->context, "/map/stream", &queue);
		c.stream->stream->StartCall(&c);
	}
}
} // namespace

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		std::fprintf(stderr, "usage: grpc-pull --address HOST:PORT [--connections N] [--keys N] [--seconds S] [--stream]\n");
		return EXIT_USAGE;
	}
	std::vector<connection> all(size_t(o.connections));

	prng_seed(&random_keys, 1);
	begin(all);
	run_for(o.warmup_s);
	counting = true;
	const double cpu = cpu_s();
	const uint64_t began = clock_ns();
	run_for(o.seconds);
	const double seconds = double(clock_ns() - began) * 1e-9, used = cpu_s() - cpu;
	counting = false;
	stopping = true;
	while (in_flight)
		turn();
	std::printf("{\"rate\": %.1f, \"errors\": 0, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, "
		    "\"client_cpu_us\": %.3f, \"seconds\": %.6f}\n",
		    double(latency.count) / seconds, histogram_quantile(&latency, 0.5) * 1e-3,
		    histogram_quantile(&latency, 0.9) * 1e-3, histogram_quantile(&latency, 0.99) * 1e-3,
		    histogram_quantile(&latency, 0.999) * 1e-3, used * 1e6 / double(latency.count), seconds);
	std::fflush(stdout);
	std::_Exit(EXIT_SUCCESS); /* streams that nobody ends need not be waited for */
}
