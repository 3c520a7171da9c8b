/* SPDX-License-Identifier: BSD-3-Clause */
/* grpc-map's clients of store-end-to-end and kernel-stack: a call for each batch, or one call with a message for each. */
extern "C" {
#include "bench/peers/batches/batches.h"
}

#include <cstring>

#include "bench/peers/grpc-call.hh"

namespace
{
std::shared_ptr<grpc::Channel> channel;
std::unique_ptr<grpc::GenericStub> stub;
std::unique_ptr<grpc::CompletionQueue> queue;
grpc_unary calls[DEPTH_MAX];
bool over[DEPTH_MAX];
std::unique_ptr<grpc_stream> stream;
uint64_t begun, ended;
/* Of the stream: replies that were asked for, and whether one is being read or a message written. */
bool writing, reading, has_reply;

void open_channel(const struct worker *w)
{
	channel = grpc_connect(w->address);
	if (!channel)
		die("%s: no gRPC server answers", w->address);
	stub = std::make_unique<grpc::GenericStub>(channel);
	queue = std::make_unique<grpc::CompletionQueue>();
}

void close_channel()
{
	void *tag;
	bool good;

	stream.reset();
	queue->Shutdown();
	while (queue->Next(&tag, &good))
		;
	stub.reset();
	channel.reset();
}

void *next_event(bool *good)
{
	void *tag;

	if (queue->AsyncNext(&tag, good, std::chrono::system_clock::now() + std::chrono::seconds(TIMEOUT_S)) !=
	    grpc::CompletionQueue::GOT_EVENT)
		die("no answer for %d s", TIMEOUT_S);
	return tag;
}

grpc::ByteBuffer request_of(const struct batch *batch)
{
	const size_t keys = batch->count * sizeof(*batch->keys);
	const size_t rows = batch->push ? batch->count * sizeof(*batch->payload) : 0;
	const batch_head head = { BATCH_MAGIC, batch->push ? uint32_t(BATCH_PUSH) : uint32_t(BATCH_PULL), ++begun, batch->count,
				  batch->rate, 0 };
	grpc_slice slice = grpc_slice_malloc(sizeof(head) + keys + rows);
	uint8_t *to = GRPC_SLICE_START_PTR(slice);

	std::memcpy(to, &head, sizeof(head));
	std::memcpy(to + sizeof(head), batch->keys, keys);
	if (rows)
		std::memcpy(to + sizeof(head) + keys, batch->payload, rows);
	return grpc_bytes(slice);
}

void take_reply(const struct batch *batch, const grpc::ByteBuffer &reply)
{
	const size_t rows = batch->push ? 0 : batch->count * sizeof(*batch->results);
	grpc::Slice slice;
	batch_head head;

	if (!grpc_whole(reply, &slice) || slice.size() != sizeof(head) + rows)
		die("a reply of %zu bytes where %zu are due", reply.Length(), sizeof(head) + rows);
	std::memcpy(&head, slice.begin(), sizeof(head));
	if (head.sequence != ++ended || head.count != batch->count)
		die("a reply to another batch than the one that is due");
	if (rows)
		std::memcpy(batch->results, slice.begin() + sizeof(head), rows);
}

/* ---- a call for each batch ---- */

void unary_begin(const struct batch *batch, uint32_t)
{
	const grpc::ByteBuffer request = request_of(batch);
	const unsigned at = (begun - 1) % DEPTH_MAX;

	over[at] = false;
	calls[at].begin(*stub, "/map/call", request, queue.get());
}

void unary_end(const struct batch *batch)
{
	const unsigned at = ended % DEPTH_MAX;

	while (!over[at]) {
		bool good;
		const grpc_unary *call = static_cast<grpc_unary *>(next_event(&good));

		if (!good || !call->status.ok())
			die("a call failed: %s", call->status.error_message().c_str());
		over[call - calls] = true;
	}
	take_reply(batch, calls[at].reply);
}

/* ---- one call with a message for each ---- */

enum { TAG_WRITTEN = 1, TAG_READ };

void *tag_of(int what)
{
	return reinterpret_cast<void *>(intptr_t(what));
}

void go_on()
{
	bool good;
	const void *tag = next_event(&good);

	if (!good)
		die("the stream has ended");
	if (tag == tag_of(TAG_WRITTEN))
		writing = false;
	else if (tag == tag_of(TAG_READ))
		reading = false, has_reply = true;
}

void stream_open(const struct worker *w)
{
	bool good;

	open_channel(w);
	stream = std::make_unique<grpc_stream>();
	stream->begin(*stub, "/map/stream", queue.get());
	next_event(&good);
	if (!good)
		die("%s: no stream", w->address);
}

void read_ahead()
{
	if (reading || has_reply)
		return;
	reading = true;
	stream->stream->Read(&stream->reply, tag_of(TAG_READ));
}

void stream_begin(const struct batch *batch, uint32_t)
{
	read_ahead();
	while (writing)
		go_on();
	writing = true;
	stream->stream->Write(request_of(batch), tag_of(TAG_WRITTEN));
}

void stream_end(const struct batch *batch)
{
	read_ahead();
	while (!has_reply)
		go_on();
	has_reply = false;
	take_reply(batch, stream->reply);
}

void stream_close()
{
	stream->context.TryCancel();
	while (writing || reading) {
		bool good;
		const void *tag = next_event(&good);

		(tag == tag_of(TAG_WRITTEN) ? writing : reading) = false;
	}
	close_channel();
}
} // namespace

extern "C" {
extern const struct side side_grpc, side_grpc_stream;
const struct side side_grpc = { "grpc", false, open_channel, unary_begin, unary_end, close_channel };
const struct side side_grpc_stream = { "grpc-stream", false, stream_open, stream_begin, stream_end, stream_close };
}
