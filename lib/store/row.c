/* SPDX-License-Identifier: BSD-3-Clause */
/* A row's values, in any element type. */
#include <math.h>
#include <string.h>

#include "store/table.h"
#include "tensor/dtype.h"

/* To the nearest integer, ties to even, within the type's range. */
static void whole_numbers(unsigned dtype, void *to, const float *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const double x = nearbyint((double)from[i]);

		switch (dtype) {
		case STAR_INT8:
			((int8_t *)to)[i] = (int8_t)fmax(INT8_MIN, fmin(INT8_MAX, x));
			break;
		case STAR_INT32:
			((int32_t *)to)[i] = (int32_t)fmax(INT32_MIN, fmin(INT32_MAX, x));
			break;
		default:
			((int64_t *)to)[i] = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
		}
	}
}

void store_table_store_floats(const struct store_table *t, void *values, const float *from)
{
	if (t->spec.dtype == STAR_FLOAT32)
		memcpy(values, from, t->dim * sizeof(*from));
	else if (t->converter)
		t->converter->from_float(values, from, t->dim);
	else
		whole_numbers(t->spec.dtype, values, from, t->dim);
}

void store_initial(const struct store_table *table, uint64_t key, float *values)
{
	store_initial_values(&table->initial, key, values, table->dim);
}

/* A key without a row reads as the row that would be created for it: rounded to the stored type, unless the row has a
 * float32 master copy. */
static void read_absent(const struct store_table *t, store_row row, uint64_t key, unsigned dtype, void *to)
{
	float *values = (float *)t->store->scratch[0], *scratch = (float *)t->store->scratch[1];
	void *stored = t->store->scratch[2];
	const bool admitted = row == STORE_NO_ROW;

	if (admitted)
		store_initial(t, key, values);
	else
		for (uint32_t i = 0; i < t->dim; i++)
			values[i] = t->spec.filter_value;
	if (dtype == t->spec.dtype) {
		store_table_store_floats(t, to, values);
	} else if (t->at.master) {
		tensor_convert_row(to, dtype, values, STAR_FLOAT32, t->dim, scratch);
	} else {
		store_table_store_floats(t, stored, values);
		tensor_convert_row(to, dtype, stored, t->spec.dtype, t->dim, scratch);
	}
}

void store_read(const struct store_table *table, store_row row, uint64_t key, unsigned dtype, void *to)
{
	const uint8_t *record;

	if (row == STORE_NO_ROW || row == STORE_UNADMITTED) {
		read_absent(table, row, key, dtype, to);
		return;
	}
	record = table_row(table, row);
	if (dtype == table->spec.dtype)
		memcpy(to, record + table->at.values, dtype_row_bytes(dtype, table->dim));
	else if (table->at.master)
		tensor_convert_row(to, dtype, record + table->at.master, STAR_FLOAT32, table->dim,
				   (float *)table->store->scratch[0]);
	else
		tensor_convert_row(to, dtype, record + table->at.values, table->spec.dtype, table->dim,
				   (float *)table->store->scratch[0]);
}

const void *store_values(const struct store_table *table, store_row row, unsigned dtype)
{
	if (dtype != table->spec.dtype || row == STORE_NO_ROW || row == STORE_UNADMITTED)
		return NULL;
	return table_row(table, row) + table->at.values;
}

bool store_values_of(const struct store_table *table, const store_row *rows, unsigned n, unsigned dtype,
		     const void **values)
{
	bool all = dtype == table->spec.dtype;

	for (unsigned i = 0; i < n; i++) {
		all &= rows[i] < STORE_UNADMITTED;
		values[i] = table_row(table, rows[i]) + table->at.values;
	}
	return all;
}

uint32_t store_version(const struct store_table *table, store_row row)
{
	if (!table->at.version || row == STORE_NO_ROW || row == STORE_UNADMITTED)
		return 0;
	return *row_word(table_row(table, row), table->at.version);
}

const void *store_slots(const struct store_table *table, store_row row)
{
	return table->optim.slots ? table_row(table, row) + table->at.slots : NULL;
}
