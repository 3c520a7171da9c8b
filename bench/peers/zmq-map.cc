/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parameter server as ps-lite makes one: messages of several parts over ZeroMQ (head, keys, values), one thread that receives
 * them, and its default handler's std::unordered_map from key to value, which is added to or read key by key; the reply's parts
 * are sent without a copy, the request's keys among them. What is left out: ps-lite's protobuf head, and its second queue
 * and thread between receiving and handling.
 */
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <zmq.h>

#include "bench/peers/batch.h"

namespace
{
enum { EXIT_USAGE = 2, PARTS_MAX = 4 };

typedef std::unordered_map<uint64_t, std::array<float, BATCH_DIM>> row_map;

void release(void *data, void *)
{
	std::free(data);
}

/* The parts of a message: the peer's identity, head, keys, gradients. Those beyond PARTS_MAX are dropped, and counted. */
int receive(void *socket, zmq_msg_t *parts)
{
	int count = 0, more = 1;

	while (more) {
		zmq_msg_t surplus;
		zmq_msg_t *part = count < PARTS_MAX ? &parts[count] : &surplus;

		zmq_msg_init(part);
		if (zmq_msg_recv(part, socket, 0) < 0)
			return -1;
		more = zmq_msg_more(part);
		if (count >= PARTS_MAX)
			zmq_msg_close(part);
		count++;
	}
	return count;
}

/* Whether the parts are a request; a part may be as long as its sender likes, so each length is compared with what it must be. */
bool good(zmq_msg_t *parts, int count, batch_head *head)
{
	if (count < 3 || count > PARTS_MAX || zmq_msg_size(&parts[1]) != sizeof(*head))
		return false;
	std::memcpy(head, zmq_msg_data(&parts[1]), sizeof(*head));
	return batch_head_good(head) && count == (head->kind == BATCH_PUSH ? 4 : 3) &&
	       zmq_msg_size(&parts[2]) == head->count * sizeof(uint64_t) &&
	       (count == 3 || zmq_msg_size(&parts[3]) == head->count * sizeof(batch_row));
}

uint64_t key_at(zmq_msg_t *keys, uint32_t i)
{
	uint64_t key;

	std::memcpy(&key, static_cast<const char *>(zmq_msg_data(keys)) + i * sizeof(key), sizeof(key));
	return key;
}

void push(row_map &map, zmq_msg_t *parts, const batch_head &head)
{
	const char *gradients = static_cast<const char *>(zmq_msg_data(&parts[3]));

	for (uint32_t i = 0; i < head.count; i++) {
		std::array<float, BATCH_DIM> &row = map[key_at(&parts[2], i)];
		batch_row gradient;

		std::memcpy(&gradient, gradients + i * sizeof(gradient), sizeof(gradient));
		for (int e = 0; e < BATCH_DIM; e++)
			row[e] -= head.rate * gradient.values[e];
	}
}

/* false when there is no memory. */
bool pull(row_map &map, zmq_msg_t *parts, const batch_head &head, zmq_msg_t *values)
{
	const size_t bytes = head.count * sizeof(batch_row);
	char *rows = static_cast<char *>(std::malloc(bytes));

	if (!rows || zmq_msg_init_data(values, rows, bytes, release, nullptr) < 0)
		return false;
	for (uint32_t i = 0; i < head.count; i++)
		std::memcpy(rows + i * sizeof(batch_row), map[key_at(&parts[2], i)].data(), sizeof(batch_row));
	return true;
}

/* Sends one part, which ZeroMQ then owns; one that cannot be sent (the peer is gone) is dropped. */
void send(void *socket, zmq_msg_t *part, int flags)
{
	if (zmq_msg_send(part, socket, flags) < 0)
		zmq_msg_close(part);
}

void serve(void *socket, row_map &map)
{
	zmq_msg_t parts[PARTS_MAX], values;
	const int count = receive(socket, parts);
	batch_head head;
	bool pulls;

	if (count < 0 || !good(parts, count, &head)) {
		for (int i = 0; i < count && i < PARTS_MAX; i++)
			zmq_msg_close(&parts[i]);
		return;
	}
	pulls = head.kind == BATCH_PULL;
	if (!pulls)
		push(map, parts, head);
	if (pulls && !pull(map, parts, head, &values))
		std::abort();
	send(socket, &parts[0], ZMQ_SNDMORE);
	send(socket, &parts[1], pulls ? ZMQ_SNDMORE : 0);
	if (pulls) {
		send(socket, &parts[2], ZMQ_SNDMORE);
		send(socket, &values, 0);
	} else {
		zmq_msg_close(&parts[2]);
		zmq_msg_close(&parts[3]);
	}
}
} // namespace

int main(int argc, char **argv)
{
	void *context = zmq_ctx_new(), *socket = context ? zmq_socket(context, ZMQ_ROUTER) : nullptr;
	const int64_t part_max = BATCH_KEYS_MAX * sizeof(batch_row);
	row_map map;
	char endpoint[128];

	if (argc != 3) {
		std::fprintf(stderr, "usage: zmq-map ADDRESS PORT\n");
		return EXIT_USAGE;
	}
	std::snprintf(endpoint, sizeof(endpoint), "tcp://%s:%s", argv[1], argv[2]);
	if (!socket || zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &part_max, sizeof(part_max)) < 0 ||
	    zmq_bind(socket, endpoint) < 0) {
		std::fprintf(stderr, "zmq-map: cannot listen on %s: %s\n", endpoint, zmq_strerror(zmq_errno()));
		return EXIT_FAILURE;
	}
	for (;;)
		serve(socket, map);
}
