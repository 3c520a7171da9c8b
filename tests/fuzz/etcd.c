/* SPDX-License-Identifier: BSD-3-Clause */
/* What an endpoint of etcd answers, and what stands in a pair's register. The first byte says which. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "etcd/etcd.h"
#include "pair/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char key[] = "/starserver/ps/0";
	const char *text = (const char *)data + 1;
	struct star_error err = { 0 };
	struct etcd_value value = { 0 };
	struct pair_entry entry;
	bool swapped = false;
	int rc;

	if (bytes < 1)
		return 0;
	if (data[0] % 3 == 2) {
		rc = pair_entry_read(text, bytes - 1, "198.18.0.1:3433", "198.18.0.2:3433", &entry, &err);
		FUZZ_CHECK(rc == 0 ? entry.there : !entry.there, "an entry that is half there");
	} else {
		rc = data[0] % 3 ? etcd_reply_txn(text, bytes - 1, key, &swapped, &value, &err)
				 : etcd_reply_range(text, bytes - 1, key, &value, &err);
		FUZZ_CHECK(rc < 0 || (value.bytes <= ETCD_VALUE_MAX && !value.text[value.bytes]),
			   "a value without an end");
		FUZZ_CHECK(rc < 0 || value.there <= (value.revision > 0), "a value without a revision");
	}
	FUZZ_CHECK(rc == 0 || err.text[0], "refused without a message");
	return 0;
}
