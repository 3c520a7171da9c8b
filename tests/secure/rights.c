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
		{ "deny job1 pull x", "line 1: it does not begin with \"allow\"" },
		{ "\n# x\nallow", "line 3: \"allow\" is followed by a principal" },
		{ "allow job1", "the verbs are" },
		{ "allow job1 pul x", "the verbs are" },
		{ "allow job1 pull,,push x", "the verbs are" },
		{ "allow job1 pull, x", "the verbs are" },
		{ "allow job1 ,pull x", "the verbs are" },
		{ "allow job1 pull", "what tables' names begin with" },
		{ "allow job1 pull x y", "something follows" },
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
	CHECK_UINT(may[0], SECURE_RIGHTS);
	CHECK_UINT(may[SECURE_TABLES - 1], SECURE_RIGHTS);
	secure_tickets_table(tickets, 5, "ctr/words");
	secure_tickets_rights(tickets, parse("allow job1 pull ctr/\nallow job1 push other/", NULL));
	CHECK_UINT(may[5], SECURE_PULL);
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
