/* SPDX-License-Identifier: BSD-3-Clause */
/* What summaries write is read by another decoder in tests/system/training.test; here the rest. */
#include "session/summary.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"
#include "session/auc.h"
#include "session/crc32c.h"
#include "tests/session/cases.h"
#include "tests/unit.h"

void crc32c_is_the_published_one(void)
{
	uint8_t bytes[32];

	CHECK_UINT(crc32c("123456789", 9), 0xe3069283);
	/* RFC 3720, B.4 */
	memset(bytes, 0, sizeof(bytes));
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x46dd794e);
}

void summaries_refuse_what_they_cannot_write(void)
{
	static char longer[200];
	const struct summary_scalar good = { "loss", 1 }, bad[] = { { "", 1 }, { longer, 1 }, { "a\nb", 1 } };
	char directory[] = "/tmp/star-summary-XXXXXX";
	struct star_error err = { 0 };
	struct summary *summary;

	CHECK(!summary_create("/proc/no-such-folder", &err));
	CHECK_HAS(err.text, "/proc/no-such-folder");
	if (!CHECK(mkdtemp(directory)))
		return;
	memset(longer, 'x', sizeof(longer) - 1);
	summary = summary_create(directory, &err);
	if (!CHECK(summary))
		return;
	CHECK_INT(summary_write(summary, 1, &good, 1, &err), 0);
	CHECK_INT(summary_write(summary, 1, &good, 0, &err), -EINVAL);
	CHECK_INT(summary_write(summary, 1, &good, SUMMARY_SCALARS_MAX + 1, &err), -EINVAL);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_INT(summary_write(summary, 1, &bad[i], 1, &err), -EINVAL);
	summary_destroy(summary);
	CHECK_UINT(unit_entries(directory), 4); /* with . and .. */
	unit_remove(directory);
}

/* By its definition. */
static double auc_by_pairs(const struct auc_example *examples, size_t n)
{
	double won = 0, pairs = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			if (examples[i].label > 0.5f && examples[k].label < 0.5f) {
				pairs++;
				won += examples[i].score > examples[k].score	? 1
				       : examples[i].score == examples[k].score ? 0.5
										: 0;
			}
	return won / pairs;
}

void auc_is_that_of_all_pairs(void)
{
	struct auc_example examples[300];
	struct star_error err = { 0 };
	struct prng p;
	double auc;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		const size_t n = 2 + seed * 5;

		prng_seed(&p, seed);
		for (size_t i = 0; i < n; i++) /* few scores: many are equal */
			examples[i] = (struct auc_example){ (float)prng_below(&p, 1 + (uint32_t)seed * 3),
							    i == 0   ? 1
							    : i == 1 ? 0
								     : (float)prng_below(&p, 2) };
		const double expected = auc_by_pairs(examples, n);

		CHECK_INT(auc_exact(examples, n, &auc, &err), 0);
		CHECK_NEAR(auc, expected, 1e-12);
	}
}

void auc_needs_both_kinds(void)
{
	struct auc_example examples[] = { { 0.1f, 1 }, { 0.2f, 1 } };
	struct star_error err = { 0 };
	double auc;

	CHECK_INT(auc_exact(examples, 2, &auc, &err), -EINVAL);
	CHECK_HAS(err.text, "2 and 0");
	CHECK_INT(auc_exact(examples, 0, &auc, &err), -EINVAL);
	examples[0] = (struct auc_example){ (float)NAN, 0 };
	CHECK_INT(auc_exact(examples, 2, &auc, &err), -EINVAL);
	CHECK_HAS(err.text, "diverged");
}
