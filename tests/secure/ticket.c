/* SPDX-License-Identifier: BSD-3-Clause */
/* Tickets: which are taken, and which not. */
#include "tests/secure/cases.h"
#include "tests/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "secure/ticket.h"

#define NOW UINT64_C(5000000000000)

static const struct secure_key worker = { .principal = "job1", .role = SECURE_WORKER, .id = "0123abcd" };
static const struct secure_key admin = { .principal = "ops", .role = SECURE_ADMIN, .id = "00000001" };

static struct secure_tickets *create(void)
{
	struct star_error err = { 0 };
	struct secure_tickets *t = secure_tickets_create(SECURE_DATA_SEALED, &err);

	if (!t)
		unit_fail(__FILE__, __LINE__, "no tickets: %s", err.text);
	return t;
}

struct issued {
	struct secure_ticket ticket;
	uint8_t secret[SECURE_HASH_BYTES];
};

static struct issued issue(struct secure_tickets *t, const struct secure_key *key)
{
	struct issued i;

	CHECK_INT(secure_tickets_issue(t, key, NOW, &i.ticket, i.secret, NULL), 0);
	return i;
}

static bool taken(const struct secure_tickets *t, const struct issued *i, uint64_t now_ns, struct secure_guest *guest)
{
	uint8_t secret[SECURE_HASH_BYTES];

	if (!secure_tickets_open(t, &i->ticket, now_ns, guest, secret))
		return false;
	CHECK_MEM(secret, i->secret, sizeof(secret));
	return true;
}

void a_ticket_is_taken_in_its_time(void)
{
	struct secure_tickets *t = create();
	struct issued first = issue(t, &worker), second = issue(t, &worker), other = issue(t, &admin);
	struct secure_guest guest, again;

	CHECK(secure_tickets_data(t) == SECURE_DATA_SEALED);
	CHECK(memcmp(&first, &second, sizeof(first)) != 0);
	CHECK(memcmp(first.secret, second.secret, sizeof(first.secret)) != 0);
	CHECK(taken(t, &first, NOW, &guest));
	CHECK_STR(guest.principal, "job1");
	CHECK(taken(t, &second, NOW + SECURE_TICKET_NS - 1, &again));
	CHECK_UINT(again.place, guest.place);
	CHECK(taken(t, &other, NOW, &again));
	CHECK_STR(again.principal, "ops");
	CHECK(again.place != guest.place);
	CHECK(!taken(t, &first, NOW + SECURE_TICKET_NS, &guest)); /* too old */
	CHECK(!taken(t, &first, NOW - 1, &guest));		  /* of a time that has not come */
	CHECK(!taken(t, &first, UINT64_MAX, &guest));
	CHECK(!taken(t, &first, 0, &guest));
	secure_tickets_destroy(t);
}

void no_other_ticket_is_taken(void)
{
	struct secure_tickets *t = create(), *elsewhere = create();
	struct issued good = issue(t, &worker), foreign = issue(elsewhere, &worker), torn;
	struct secure_guest guest;

	CHECK(!taken(t, &foreign, NOW, &guest));
	for (unsigned bit = 0; bit < 8 * (SECURE_TICKET_BYTES); bit++) {
		torn = good;
		torn.ticket.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!CHECK(!secure_tickets_open(t, &torn.ticket, NOW, &guest, torn.secret)))
			printf("# bit %u\n", bit);
	}
	for (unsigned bytes = 0; bytes < SECURE_TICKET_BYTES; bytes++) {
		torn = good;
		memset(torn.ticket.bytes + bytes, 0, SECURE_TICKET_BYTES - bytes);
		if (memcmp(&torn, &good, sizeof(good)) != 0)
			CHECK(!secure_tickets_open(t, &torn.ticket, NOW, &guest, torn.secret));
	}
	secure_tickets_destroy(t);
	secure_tickets_destroy(elsewhere);
}

static char job1[] = "job1", nobody[] = "nobody";

static bool stays(void *ctx, const struct secure_key *key)
{
	return strcmp(key->principal, ctx) == 0;
}

void who_is_thrown_out_stays_out(void)
{
	struct secure_tickets *t = create();
	struct issued first = issue(t, &worker), other = issue(t, &admin), again;
	struct secure_guest guest, second;
	struct secure_key key = worker;

	CHECK(taken(t, &first, NOW, &guest) && taken(t, &other, NOW, &second));
	CHECK_UINT(secure_tickets_review(t, stays, job1), 1);
	CHECK_UINT(secure_tickets_reviews(t), 1);
	CHECK(secure_tickets_hold(t, &guest) && !secure_tickets_hold(t, &second));
	CHECK_UINT(secure_tickets_review(t, stays, job1), 0);
	CHECK_UINT(secure_tickets_reviews(t), 1);
	CHECK_UINT(secure_tickets_review(t, stays, nobody), 1);
	CHECK(!taken(t, &first, NOW, &guest) && !taken(t, &other, NOW, &second));
	/* When all others were given, one has the place of the first, and the first one's keys are no longer valid. */
	for (unsigned n = 0; n < 2 * SECURE_KEYS_MAX - 2; n++) {
		snprintf(key.id, sizeof(key.id), "%08x", n);
		again = issue(t, &key);
		CHECK(taken(t, &again, NOW, &second));
		CHECK(second.place != guest.place);
	}
	again = issue(t, &admin);
	CHECK(taken(t, &again, NOW, &second));
	CHECK_UINT(second.place, guest.place);
	CHECK(!taken(t, &first, NOW, &guest));
	CHECK(!secure_tickets_hold(t, &guest));
	secure_tickets_destroy(t);
}

void places_have_a_bound(void)
{
	struct secure_tickets *t = create();
	struct star_error err = { 0 };
	struct secure_key key = worker;
	struct issued i;
	unsigned n = 0;

	do
		snprintf(key.id, sizeof(key.id), "%08x", n);
	while (secure_tickets_issue(t, &key, NOW, &i.ticket, i.secret, &err) == 0 && ++n < 100000);
	CHECK_UINT(n, 2 * SECURE_KEYS_MAX);
	CHECK_INT(err.code, -ENOSPC);
	CHECK_UINT(secure_tickets_review(t, stays, nobody), n);
	CHECK_INT(secure_tickets_issue(t, &key, NOW, &i.ticket, i.secret, &err), 0);
	secure_tickets_destroy(t);
}

void both_ends_come_to_the_same_keys(void)
{
	static struct secure_direction to[2], from[2], other[2];
	struct secure_tickets *t = create();
	struct issued i = issue(t, &worker);
	const struct secure_place place = { 7, 7000 };
	struct secure_hello hello = { .ticket = i.ticket, .random = "the worker's" };
	struct secure_welcome welcome, second;
	uint8_t header[64] = "header", tag[SECURE_TAG_BYTES], wrong[SECURE_TAG_BYTES];

	secure_welcome_make(t, place.port, 1, &welcome);
	secure_welcome_make(t, place.port, 2, &second);
	CHECK(memcmp(&welcome, &second, sizeof(welcome)) != 0);
	secure_connection_keys(i.secret, place, &hello, &welcome, true, &to[0], &from[0]);
	secure_connection_keys(i.secret, place, &hello, &welcome, true, &to[1], &from[1]);
	CHECK_MEM(&to[0].secret, &to[1].secret, SECURE_HASH_BYTES);
	CHECK_MEM(&from[0].secret, &from[1].secret, SECURE_HASH_BYTES);
	CHECK(memcmp(to[0].secret, from[0].secret, SECURE_HASH_BYTES) != 0);
	/* Each of what goes in tells them apart. */
	for (unsigned what = 0; what < 6; what++) {
		struct secure_place elsewhere = place;
		struct secure_hello said = hello;
		struct secure_welcome answered = what == 3 ? second : welcome;
		uint8_t secret[SECURE_HASH_BYTES];

		memcpy(secret, i.secret, sizeof(secret));
		elsewhere.incarnation += what == 0;
		elsewhere.port += what == 1;
		said.random[31] ^= what == 2;
		secret[0] ^= what == 4;
		secure_connection_keys(secret, elsewhere, &said, &answered, what != 5, &other[0], &other[1]);
		CHECK(memcmp(other[0].secret, to[0].secret, SECURE_HASH_BYTES) != 0);
		CHECK(memcmp(other[1].secret, from[0].secret, SECURE_HASH_BYTES) != 0);
		if (what == 3 || what == 5)
			continue;
		secure_hello_tag(i.secret, place, header, sizeof(header), &hello, tag);
		secure_hello_tag(secret, elsewhere, header, sizeof(header), &said, wrong);
		CHECK(memcmp(tag, wrong, sizeof(tag)) != 0);
	}
	secure_welcome_tag(i.secret, &hello, header, sizeof(header), &welcome, tag);
	secure_welcome_tag(i.secret, &hello, header, sizeof(header), &second, wrong);
	CHECK(memcmp(tag, wrong, sizeof(tag)) != 0);
	secure_tickets_destroy(t);
}

void numbers_are_each_principals_own(void)
{
	const struct secure_guest one = { .principal = "job1" }, two = { .principal = "job2" },
				  again = { .place = 9, .principal = "job1" };

	CHECK(secure_guest_number(&one, 5) != secure_guest_number(&two, 5));
	CHECK(secure_guest_number(&one, 5) != secure_guest_number(&one, 6));
	CHECK_UINT(secure_guest_number(&one, 5), secure_guest_number(&again, 5));
	CHECK(secure_guest_number(&one, 5) != 5);
}
