/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of rights, and what reactors look up of them. */
#include "tests/secure/cases.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "secure/ticket.h"

static struct secure_rights *parse(const char *text, struct star_error *err)
{
	return secure_rights_parse("the file", text, strlen(text), err);
}

void rights_are_by_principal_verb_and_prefix(void)
{
	static const char text[] = "# a comment\n"
				   "allow job1 pull,create,push ctr/\n"
				   "\n"
				   "  allow\tjob1 delete ctr/old/  \n"
				   "allow serving all ctr/\n"
				   "allow * pull shared/\n"
				   "allow job2 all *";
	static const struct {
		const char *principal;
		enum secure_role role;
		const char *table;
		unsigned may;
	} cases[] = {
		{ "job1", SECURE_WORKER, "ctr/words", SECURE_PULL | SECURE_CREATE | SECURE_PUSH },
		{ "job1", SECURE_WORKER, "ctr/old/words", SECURE_PULL | SECURE_CREATE | SECURE_PUSH | SECURE_DELETE },
		{ "job1", SECURE_WORKER, "ctr", 0 },
		{ "job1", SECURE_WORKER, "shared/a", SECURE_PULL },
		{ "job1", SECURE_WORKER, "other", 0 },
		{ "job", SECURE_WORKER, "ctr/words", 0 },
		{ "job12", SECURE_WORKER, "ctr/words", 0 },
		{ "job2", SECURE_WORKER, "anything", SECURE_RIGHTS },
		{ "serving", SECURE_READER, "ctr/words", SECURE_PULL }, /* its role's most */
		{ "nobody", SECURE_WORKER, "ctr/words", 0 },
		{ "nobody", SECURE_ADMIN, "ctr/words", SECURE_RIGHTS },
		{ "job2", SECURE_OPERATOR, "anything", 0 },
		{ "job2", SECURE_NODE, "anything", 0 },
	};
	struct star_error err = { 0 };
	struct secure_rights *rights = parse(text, &err);

	if (!CHECK(rights))
		return;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!CHECK_UINT(secure_rights_of(rights, cases[i].principal, cases[i].role, cases[i].table),
				cases[i].may))
			printf("# %s, %s\n", cases[i].principal, cases[i].table);
	CHECK(secure_rights_any(rights, "nobody", SECURE_READER)); /* shared/ */
	CHECK(!secure_rights_any(rights, "job2", SECURE_OPERATOR));
	secure_rights_free(rights);
	CHECK_UINT(secure_rights_of(NULL, "job1", SECURE_WORKER, "x"), SECURE_RIGHTS);
	CHECK_UINT(secure_rights_of(NULL, "job1", SECURE_READER, "x"), 0);
	CHECK(!secure_rights_any(NULL, "job1", SECURE_READER));
}

void each_malformed_right_is_named(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "deny job1 pull x", "line 1: it does not begin with \"allow\" or \"limit\"" },
		{ "\n# x\nallow", "line 3: \"allow\" is followed by a principal" },
		{ "allow job1", "the verbs are" },
		{ "allow job1 pul x", "the verbs are" },
		{ "allow job1 pull,,push x", "the verbs are" },
		{ "allow job1 pull, x", "the verbs are" },
		{ "allow job1 ,pull x", "the verbs are" },
		{ "allow job1 pull", "a prefix of table names" },
		{ "allow job1 pull x y", "there is text after" },
		{ "allow job1234567890123456789012345678901234567890123456789012345678901234 pull x", "a principal" },
	};
	char large[400] = "allow job1 pull ";

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };

		CHECK(!parse(cases[i].text, &err));
		CHECK_HAS(err.text, cases[i].why);
	}
	memset(large + strlen(large), 'x', 200);
	CHECK(!parse(large, NULL));
	CHECK(!secure_rights_parse("f", "allow job1 pull x\0y", 19, NULL));
}

void files_of_rights_are_nobody_elses(void)
{
	static const mode_t modes[] = { 0420, 0602, 0666, 0777, 0622 };
	char path[] = "/tmp/star-rights-XXXXXX";
	const int fd = mkstemp(path);
	struct secure_rights *rights;
	struct star_error err = { 0 };

	CHECK(write(fd, "allow * all *\n", 14) == 14);
	close(fd);
	rights = secure_rights_load(path, &err);
	CHECK(rights);
	secure_rights_free(rights);
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		chmod(path, modes[i]);
		CHECK(!secure_rights_load(path, &err));
		CHECK_HAS(err.text, "can change");
	}
	unlink(path);
	CHECK(!secure_rights_load(path, &err));
	CHECK_HAS(err.text, "cannot open");
	CHECK(!secure_rights_load("/tmp", &err));
}

/* By the ids of tables as they come and go, and at once when the file is another. */
void reactors_look_up_rights_by_id(void)
{
	static const struct secure_key job1 = { .principal = "job1", .role = SECURE_WORKER, .id = "0123abcd" };
	struct secure_tickets *tickets = secure_tickets_create(SECURE_DATA_SEALED, NULL);
	const _Atomic(uint8_t) *may;
	uint8_t secret[SECURE_HASH_BYTES];
	struct secure_ticket ticket;
	struct secure_guest guest;

	CHECK(secure_tickets_may_have(tickets, &job1));
	CHECK_INT(secure_tickets_issue(tickets, &job1, 0, &ticket, secret, NULL), 0);
	CHECK(secure_tickets_open(tickets, &ticket, 1, &guest, secret));
	may = secure_tickets_rights_of(tickets, &guest);
	CHECK_UINT(may[5], 0);
	secure_tickets_table(tickets, 5, "ctr/words");
	secure_tickets_table(tickets, SECURE_TABLES - 1, "ctr/last");
	secure_tickets_table(tickets, SECURE_TABLES, "ctr/beyond"); /* nobody asks for it */
	CHECK_UINT(may[5], SECURE_RIGHTS);
	CHECK_UINT(may[6], 0);
	CHECK_UINT(may[SECURE_TABLES - 1], SECURE_RIGHTS);
	secure_tickets_rights(tickets, parse("allow job1 pull ctr/\nallow job1 push other/", NULL));
	CHECK_UINT(may[5], SECURE_PULL);
	CHECK_UINT(may[SECURE_TABLES - 1], SECURE_PULL);
	CHECK_UINT(may[0], 0);
	CHECK_UINT(may[6], 0);
	secure_tickets_table(tickets, 6, "other/x");
	CHECK_UINT(may[6], SECURE_PUSH);
	secure_tickets_table(tickets, 5, NULL);
	CHECK_UINT(may[5], 0);
	secure_tickets_table(tickets, 5, "other/y");
	CHECK_UINT(may[5], SECURE_PUSH);
	secure_tickets_rights(tickets, parse("", NULL));
	CHECK_UINT(may[5], 0);
	CHECK(!secure_tickets_may_have(tickets, &job1));
	secure_tickets_destroy(tickets);
}

void quotas_are_each_principals_own(void)
{
	static const char text[] = "limit job1 requests=50k new_rows=7 in_flight=3MiB\n"
				   "allow * pull x\n"
				   "limit * connections=9 requests=100 memory=2GiB\n"
				   "limit job1 requests=60k sessions=1000000000";
	static const struct {
		const char *principal;
		uint64_t max[SECURE_QUOTAS];
	} cases[] = {
		/* Its own, the least of several, before that of all. */
		{ "job1", { 9, 1000000000, 3 << 20, 50000, 7, UINT64_C(2) << 30 } },
		{ "job2", { 9, 0, 0, 100, 0, UINT64_C(2) << 30 } },
	};
	struct secure_rights *rights = parse(text, NULL);
	struct secure_quotas quotas;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(secure_rights_quotas(rights, cases[i].principal, &quotas));
		for (unsigned q = 0; q < SECURE_QUOTAS; q++)
			if (!CHECK_UINT(quotas.max[q], cases[i].max[q]))
				printf("# %s, %s\n", cases[i].principal, secure_quota_name((enum secure_quota)q));
	}
	/* It gives no right. */
	CHECK_UINT(secure_rights_of(rights, "job1", SECURE_WORKER, "x"), SECURE_PULL);
	secure_rights_free(rights);
	CHECK(!secure_rights_quotas(NULL, "job1", &quotas));
	rights = parse("limit job1 requests=1", NULL);
	CHECK(!secure_rights_quotas(rights, "job2", &quotas));
	secure_rights_free(rights);
}

void each_malformed_quota_is_named(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "limit", "line 1: \"limit\" is followed by a principal" },
		{ "limit job1", "followed by quotas" },
		{ "limit job1 request=1",
		  "in_flight, requests, new_rows and memory, and control_connections and control_requests" },
		{ "limit job1 requests", "the quotas are" },
		{ "limit job1 =1", "the quotas are" },
		{ "limit job1 requests=", "a number of 1 or more" },
		{ "limit job1 requests=0", "for none, leave it out" },
		{ "limit job1 requests=-1", "a number of 1 or more" },
		{ "limit job1 requests=1x", "a number of 1 or more" },
		{ "limit job1 requests=1kk", "a number of 1 or more" },
		{ "limit job1 requests=2G", "too large" },
		{ "limit job1 requests=1000000001", "too large" },
		{ "limit job1 memory=1025TiB", "too large" },
		{ "limit job1 memory=99999999999999999999999999999999", "too large" },
		{ "limit job1 requests=1 requests=2", "twice" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };

		if (!CHECK(!parse(cases[i].text, &err)))
			printf("# %s\n", cases[i].text);
		CHECK_HAS(err.text, cases[i].why);
	}
	secure_rights_free(parse("limit job1 memory=1024TiB requests=1G", NULL));
}

void buckets_fill_at_their_rate(void)
{
	static const uint64_t rates[] = { 1, 3, 1000, 1000000000 };

	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct secure_bucket bucket = { 0 };
		uint64_t now = 5, taken = 0;

		secure_bucket_fill(&bucket, rates[i], now);
		CHECK_INT(bucket.left, (int64_t)rates[i]);
		/* Ten seconds in odd steps: what comes is that of the time, and the second's worth of the beginning. */
		for (; now < 5 + UINT64_C(10000000000); now += 7654321) {
			secure_bucket_fill(&bucket, rates[i], now);
			taken += bucket.left > 0 ? (uint64_t)bucket.left : 0;
			bucket.left = 0;
		}
		CHECK(taken <= 11 * rates[i] && taken >= 11 * rates[i] - rates[i] / 100 - 1);
		/* It holds no more than a second's worth, and debts are paid at the rate. */
		secure_bucket_fill(&bucket, rates[i], now + UINT64_C(100000000000));
		CHECK_INT(bucket.left, (int64_t)rates[i]);
		bucket.left = -3 * (int64_t)rates[i];
		secure_bucket_fill(&bucket, rates[i], now + UINT64_C(102000000000));
		CHECK_INT(bucket.left, -(int64_t)rates[i]);
		secure_bucket_fill(&bucket, rates[i], UINT64_MAX);
		CHECK_INT(bucket.left, (int64_t)rates[i]);
	}
	CHECK_UINT(secure_quota_share(10, 4), 3);
	CHECK_UINT(secure_quota_share(1, 4), 1);
	CHECK_UINT(secure_quota_share(0, 4), 0);
}

static struct secure_guest come(struct secure_tickets *tickets, const char *principal, const char *id)
{
	struct secure_key key = { .role = SECURE_WORKER };
	uint8_t secret[SECURE_HASH_BYTES];
	struct secure_ticket ticket;
	struct secure_guest guest;

	snprintf(key.principal, sizeof(key.principal), "%s", principal);
	snprintf(key.id, sizeof(key.id), "%s", id);
	CHECK_INT(secure_tickets_issue(tickets, &key, 1000, &ticket, secret, NULL), 0);
	CHECK(secure_tickets_open(tickets, &ticket, 1000, &guest, secret));
	return guest;
}

static bool first_key_goes(void *ctx, const struct secure_key *key)
{
	return strcmp(key->id, "00000001") != 0;
}

static bool all_go(void *ctx, const struct secure_key *key)
{
	(void)ctx;
	(void)key;
	return false;
}

/* A request of somebody who was thrown out, which waits for its turn, is not executed with the rights of the next
 * client. */
void nobody_has_the_next_ones_rights(void)
{
	struct secure_tickets *tickets = secure_tickets_create(SECURE_DATA_SEALED, NULL);
	struct secure_guest first, next;

	secure_tickets_table(tickets, 5, "ctr/words");
	secure_tickets_rights(tickets, parse("allow job1 pull ctr/\nallow job2 all ctr/", NULL));
	first = come(tickets, "job1", "00000001");
	CHECK_UINT(secure_tickets_rights_of(tickets, &first)[5], SECURE_PULL);
	CHECK_UINT(secure_tickets_review(tickets, all_go, NULL), 1);
	next = come(tickets, "job2", "00000002");
	CHECK_UINT(secure_tickets_rights_of(tickets, &next)[5], SECURE_RIGHTS);
	CHECK_UINT(secure_tickets_rights_of(tickets, &first)[5], SECURE_PULL);
	secure_tickets_destroy(tickets);
}

void keys_of_a_principal_share_its_account(void)
{
	struct secure_tickets *tickets = secure_tickets_create(SECURE_DATA_SEALED, NULL);
	const struct secure_limits *limits = secure_tickets_limits(tickets);
	const struct secure_guest first = come(tickets, "job1", "00000001"), other = come(tickets, "job2", "00000009");
	struct secure_guest next;

	CHECK(!limits->any);
	secure_tickets_rights(tickets, parse("limit job1 requests=5", NULL));
	CHECK(limits->any);
	CHECK_UINT(limits->max[first.account][SECURE_QUOTA_REQUESTS], 5);
	CHECK_UINT(limits->max[other.account][SECURE_QUOTA_REQUESTS], 0);
	CHECK(first.account != other.account);
	/* Its next key, also when the first is gone. */
	next = come(tickets, "job1", "00000002");
	CHECK(next.place != first.place);
	CHECK_UINT(next.account, first.account);
	secure_tickets_review(tickets, first_key_goes, NULL);
	CHECK_UINT(come(tickets, "job1", "00000003").account, first.account);
	/* A new principal has its quotas from the first. */
	secure_tickets_rights(tickets, parse("limit * memory=8", NULL));
	CHECK_UINT(limits->max[first.account][SECURE_QUOTA_REQUESTS], 0);
	CHECK_UINT(limits->max[come(tickets, "job3", "00000004").account][SECURE_QUOTA_MEMORY], 8);
	secure_tickets_rights(tickets, NULL);
	CHECK(!limits->any);
	secure_tickets_destroy(tickets);
}
