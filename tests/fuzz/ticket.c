/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stranger sends to a node that wants tickets: bytes for a ticket, or changes of a good one; and records as
 * somebody on the way may change them, in whatever pieces it comes. Nothing is taken but what was made here.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "secure/ticket.h"

#define NOW UINT64_C(1000000000000)
enum { HEADER = 64, DATA_MAX = 512 };

static struct secure_tickets *tickets;
static struct secure_ticket good;
static uint8_t good_secret[SECURE_HASH_BYTES];

/* It holds memory by pointers that stand in locked pages, where LeakSanitizer does not look. */
static void end(void)
{
	secure_tickets_destroy(tickets);
}

static void begin(void)
{
	static const struct secure_key worker = { .principal = "worker", .role = SECURE_WORKER, .id = "01234567" };

	if (tickets)
		return;
	tickets = secure_tickets_create(SECURE_DATA_SEALED, NULL);
	atexit(end);
	FUZZ_CHECK(tickets && secure_tickets_issue(tickets, &worker, NOW, &good, good_secret, NULL) == 0, "no ticket");
}

static void try_ticket(const uint8_t *data, size_t bytes, bool change)
{
	struct secure_ticket ticket = { 0 };
	uint8_t secret[SECURE_HASH_BYTES];
	struct secure_guest guest;
	bool taken;

	memcpy(ticket.bytes, data, bytes < sizeof(ticket) ? bytes : sizeof(ticket));
	for (size_t i = 0; change && i < sizeof(ticket); i++)
		ticket.bytes[i] ^= good.bytes[i];
	taken = secure_tickets_open(tickets, &ticket, NOW + 1, &guest, secret);
	FUZZ_CHECK(taken == (memcmp(&ticket, &good, sizeof(good)) == 0), "a ticket is %staken", taken ? "" : "not ");
	FUZZ_CHECK(!taken || memcmp(secret, good_secret, sizeof(secret)) == 0, "another secret");
}

struct record {
	uint8_t header[HEADER], data[DATA_MAX], tag[SECURE_TAG_BYTES];
};

/* The bytes are a mode, the length of pieces, and what is changed of a record, from its beginning on. */
static void try_record(const uint8_t *data, size_t bytes)
{
	static struct secure_direction out, in;
	struct record sent = { .header = "header" }, came;
	const size_t piece = 1 + data[0];
	bool same = true, taken;

	secure_direction_init(&out, good_secret, (enum secure_cipher)(data[0] % SECURE_CIPHERS));
	secure_direction_init(&in, good_secret, (enum secure_cipher)(data[0] % SECURE_CIPHERS));
	secure_seal_begin(&out, sent.header, sizeof(sent.header));
	secure_seal_update(&out, sent.data, sizeof(sent.data));
	secure_seal_end(&out, sent.tag);
	came = sent;
	for (size_t i = 1; i < bytes && i <= sizeof(came); i++) {
		((uint8_t *)&came)[i - 1] ^= data[i];
		same &= data[i] == 0;
	}
	secure_open_begin(&in, came.header, sizeof(came.header));
	for (size_t at = 0; at < sizeof(came.data); at += piece)
		secure_open_update(&in, came.data + at,
				   piece < sizeof(came.data) - at ? piece : sizeof(came.data) - at);
	taken = secure_open_end(&in, came.tag);
	FUZZ_CHECK(taken == same, "a record is %staken", taken ? "" : "not ");
	for (size_t i = 0; taken && i < sizeof(came.data); i++)
		FUZZ_CHECK(came.data[i] == 0, "byte %zu is another one", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	begin();
	if (bytes < 2)
		return 0;
	if (data[0] % 3 == 2)
		try_record(data + 1, bytes - 1);
	else
		try_ticket(data + 1, bytes - 1, data[0] % 3);
	return 0;
}
