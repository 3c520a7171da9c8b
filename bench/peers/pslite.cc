/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ps-lite for bench/peers/python-dlrm.py, by ctypes: rows of ROW floats by key, which the server updates by Adam. Only built
 * where ps-lite's source is (bench/python-dlrm). The memory of a call stays the caller's until pslite_wait().
 */
#include <cmath>
#include <unordered_map>

#include "ps/ps.h"

namespace
{

constexpr size_t ROW = 16;
constexpr uint64_t WEIGHTS = UINT64_C(1) << 62; /* keys from here on are of dense weights, which worker 0 assigns */
constexpr int ASSIGN = 1;

struct row {
	float value[ROW], first[ROW], second[ROW], step;
};

class server
{
    public:
	explicit server(float rate) : rate(rate)
	{
	}

	void operator()(const ps::KVMeta &meta, const ps::KVPairs<float> &data, ps::KVServer<float> *self)
	{
		ps::KVPairs<float> out;

		if (meta.pull) {
			out.keys = data.keys;
			out.vals.resize(data.keys.size() * ROW);
		}
		for (size_t i = 0; i < data.keys.size(); i++) {
			struct row &row = find(data.keys[i]);

			if (meta.push && meta.cmd == ASSIGN)
				memcpy(row.value, &data.vals[i * ROW], sizeof(row.value));
			else if (meta.push)
				update(row, &data.vals[i * ROW]);
			if (meta.pull)
				memcpy(&out.vals[i * ROW], row.value, sizeof(row.value));
		}
		self->Response(meta, out);
	}

    private:
	struct row &find(uint64_t key)
	{
		auto found = rows.find(key);

		if (found == rows.end()) {
			found = rows.emplace(key, row{}).first;
			uint64_t word = key * UINT64_C(0x9e3779b97f4a7c15) + 1;
			for (float &value : found->second.value) {
				word = word * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
				value = 0.2f * ((float)(word >> 40) / (1 << 24) - 0.5f);
			}
		}
		return found->second;
	}

	void update(struct row &row, const float *gradient)
	{
		row.step++;
		const float scale = rate * std::sqrt(1 - std::pow(0.999f, row.step)) / (1 - std::pow(0.9f, row.step));

		for (size_t i = 0; i < ROW; i++) {
			row.first[i] = 0.9f * row.first[i] + 0.1f * gradient[i];
			row.second[i] = 0.999f * row.second[i] + 0.001f * gradient[i] * gradient[i];
			row.value[i] -= scale * row.first[i] / (std::sqrt(row.second[i]) + 1e-8f);
		}
	}

	const float rate;
	std::unordered_map<uint64_t, struct row> rows;
};

ps::KVWorker<float> *worker;

ps::SArray<ps::Key> borrow(const uint64_t *keys, size_t count)
{
	return ps::SArray<ps::Key>(const_cast<uint64_t *>(keys), count);
}

ps::SArray<float> borrow(const float *rows, size_t count)
{
	return ps::SArray<float>(const_cast<float *>(rows), count * ROW);
}

} /* namespace */

extern "C" {

/* The scheduler, or the server: returns when all are done. */
void pslite_serve(float rate)
{
	ps::Start(0);
	if (ps::IsServer()) {
		auto *self = new ps::KVServer<float>(0);
		self->set_request_handle(server(rate));
		ps::RegisterExitCallback([self]() { delete self; });
	}
	ps::Finalize(0, true);
}

void pslite_begin(void)
{
	ps::Start(0);
	worker = new ps::KVWorker<float>(0, 0);
}

void pslite_end(void)
{
	ps::Finalize(0, true);
	delete worker;
}

uint64_t pslite_first_weight(void)
{
	return WEIGHTS;
}

/* Keys rise. */
int pslite_pull(const uint64_t *keys, size_t count, float *rows)
{
	auto *out = new ps::SArray<float>(rows, count * ROW);

	return worker->ZPull(borrow(keys, count), out, nullptr, 0, [out]() { delete out; });
}

int pslite_push(const uint64_t *keys, size_t count, const float *rows, int assign)
{
	return worker->ZPush(borrow(keys, count), borrow(rows, count), {}, assign ? ASSIGN : 0);
}

int pslite_push_pull(const uint64_t *keys, size_t count, const float *gradients, float *rows)
{
	auto *out = new ps::SArray<float>(rows, count * ROW);

	return worker->ZPushPull(borrow(keys, count), borrow(gradients, count), out, nullptr, 0, [out]() { delete out; });
}

void pslite_wait(int request)
{
	worker->Wait(request);
}
}
