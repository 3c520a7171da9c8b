/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that only move elements, which are therefore just 4 or 8 bytes. */
#include "exec/kernel_internal.h"

#include <string.h>

enum { GRAIN_BYTES = 128 * 1024, BAND = 16 };

int kernel_copy(const struct kernel_call *call)
{
	if (call->out[0]->data != call->in[0]->data)
		memcpy(call->out[0]->data, call->in[0]->data, kernel_bytes(call->out[0]));
	return 0;
}

int kernel_constant(const struct kernel_call *call)
{
	memcpy(call->out[0]->data, graph_attr(call->node, "value")->data, kernel_bytes(call->out[0]));
	return 0;
}

/* A negative axis counts from the end. */
static unsigned axis_of(const struct kernel_call *call)
{
	const int64_t axis = graph_attr_int(call->node, "axis", 0), ndim = call->in[0]->type.shape.ndim;

	return (unsigned)(axis < 0 ? axis + ndim : axis);
}

/* ---- transpose ---- */

struct transpose {
	unsigned ndim;
	size_t dims[GRAPH_DIMS_MAX];	/* of the output; dimensions that remain neighbours are merged */
	size_t strides[GRAPH_DIMS_MAX]; /* in the input, in elements */
	const uint8_t *in;
	uint8_t *out;
	size_t n, bytes, grain;
};

/* Offset in the input of a row of the output. */
static size_t transpose_at(const struct transpose *t, unsigned dims, size_t row)
{
	size_t at = 0;

	for (unsigned i = dims; i-- > 0; row /= t->dims[i])
		at += row % t->dims[i] * t->strides[i];
	return at;
}

static void transpose_part(void *context, uint64_t part)
{
	const struct transpose *t = context;
	const unsigned last = t->ndim - 1;
	const size_t length = t->dims[last], step = t->strides[last], rows = t->n / length;
	const size_t from = part * t->grain, to = rows - from < t->grain ? rows : from + t->grain;

	for (size_t row = from; row < to; row++) {
		const size_t at = transpose_at(t, last, row);

		if (step == 1) {
			memcpy(t->out + row * length * t->bytes, t->in + at * t->bytes, length * t->bytes);
		} else if (t->bytes == 4) {
			for (size_t i = 0; i < length; i++)
				((uint32_t *)t->out)[row * length + i] = ((const uint32_t *)t->in)[at + i * step];
		} else {
			for (size_t i = 0; i < length; i++)
				((uint64_t *)t->out)[row * length + i] = ((const uint64_t *)t->in)[at + i * step];
		}
	}
}

/* Transposes a band of BAND rows of a matrix, by squares, so that what is read and written stays in the cache. */
static void transpose_band(const struct transpose *t, const uint32_t *in, uint32_t *out, size_t rows)
{
	const size_t columns = t->dims[t->ndim - 1], step = t->strides[t->ndim - 1];

	for (size_t begin = 0; begin < columns; begin += BAND) {
		const size_t end = columns - begin < BAND ? columns : begin + BAND;

		for (size_t c = begin; c < end; c++)
			for (size_t r = 0; r < rows; r++)
				out[r * columns + c] = in[c * step + r];
	}
}

static void transpose_bands(void *context, uint64_t part)
{
	const struct transpose *t = context;
	const size_t rows = t->dims[t->ndim - 2], columns = t->dims[t->ndim - 1], bands = (rows + BAND - 1) / BAND;
	const size_t all = t->n / (rows * columns) * bands;
	const size_t from = part * t->grain, to = all - from < t->grain ? all : from + t->grain;

	for (size_t i = from; i < to; i++) {
		const size_t matrix = i / bands, row = i % bands * BAND;
		const size_t at = transpose_at(t, t->ndim - 2, matrix);

		transpose_band(t, (const uint32_t *)t->in + at + row,
			       (uint32_t *)t->out + (matrix * rows + row) * columns,
			       rows - row < BAND ? rows - row : BAND);
	}
}

int kernel_transpose(const struct kernel_call *call)
{
	const struct graph_attr *perm = graph_attr(call->node, "perm");
	const struct graph_shape *shape = &call->in[0]->type.shape;
	struct transpose t = {
		.in = call->in[0]->data,
		.out = call->out[0]->data,
		.n = kernel_count(call->out[0]),
		.bytes = dtype_bytes(call->out[0]->type.dtype),
	};

	for (unsigned i = 0; i < shape->ndim; i++) {
		const unsigned from = (unsigned)perm->ints[i];
		const size_t size = (size_t)shape->dims[from], stride = kernel_product(shape, from + 1, shape->ndim);

		if (size == 1)
			continue;
		if (!t.ndim || t.strides[t.ndim - 1] != stride * size) {
			t.strides[t.ndim] = stride;
			t.dims[t.ndim++] = size;
		} else {
			t.strides[t.ndim - 1] = stride;
			t.dims[t.ndim - 1] *= size;
		}
	}
	if (!t.n)
		return 0;
	if (!t.ndim) {
		t.dims[t.ndim] = 1;
		t.strides[t.ndim++] = 1;
	}
	if (t.ndim >= 2 && t.strides[t.ndim - 2] == 1 && t.bytes == 4) {
		const size_t rows = t.dims[t.ndim - 2], columns = t.dims[t.ndim - 1];

		t.grain = GRAIN_BYTES / (BAND * columns * t.bytes) + 1;
		exec_team_run(call->team, kernel_parts(t.n / (rows * columns) * ((rows + BAND - 1) / BAND), t.grain),
			      transpose_bands, &t);
		return 0;
	}
	t.grain = GRAIN_BYTES / (t.dims[t.ndim - 1] * t.bytes) + 1;
	exec_team_run(call->team, kernel_parts(t.n / t.dims[t.ndim - 1], t.grain), transpose_part, &t);
	return 0;
}

/* ---- concat, split: each piece has a share of every row's bytes ---- */

int kernel_concat(const struct kernel_call *call)
{
	const unsigned axis = axis_of(call);
	const struct graph_shape *shape = &call->out[0]->type.shape;
	const size_t bytes = dtype_bytes(call->out[0]->type.dtype), rows = kernel_product(shape, 0, axis);
	const size_t row_bytes = kernel_product(shape, axis, shape->ndim) * bytes;
	uint8_t *out = call->out[0]->data;

	for (uint32_t k = 0; k < call->node->inputs_count; k++) {
		const size_t piece = kernel_product(&call->in[k]->type.shape, axis, shape->ndim) * bytes;
		const uint8_t *in = call->in[k]->data;

		for (size_t row = 0; row < rows && piece; row++)
			memcpy(out + row * row_bytes, in + row * piece, piece);
		out += piece;
	}
	return 0;
}

int kernel_split(const struct kernel_call *call)
{
	const unsigned axis = axis_of(call);
	const struct graph_shape *shape = &call->in[0]->type.shape;
	const size_t bytes = dtype_bytes(call->in[0]->type.dtype), rows = kernel_product(shape, 0, axis);
	const size_t row_bytes = kernel_product(shape, axis, shape->ndim) * bytes;
	const uint8_t *in = call->in[0]->data;

	for (uint32_t k = 0; k < call->node->outputs_count; k++) {
		const size_t piece = kernel_product(&call->out[k]->type.shape, axis, shape->ndim) * bytes;
		uint8_t *out = call->out[k]->data;

		for (size_t row = 0; row < rows && piece; row++)
			memcpy(out + row * piece, in + row * row_bytes, piece);
		in += piece;
	}
	return 0;
}

/* ---- slice, pad: a box of a tensor, copied by contiguous ranges of its last dimension ---- */

struct box {
	unsigned ndim;
	const int64_t *inner;			/* sizes of the box */
	size_t offset, strides[GRAPH_DIMS_MAX]; /* of its first element in the tensor, and of each dimension there */
};

/* False: the box is not inside the tensor. begin may be NULL: zeros. */
static bool box_set(struct box *box, const struct graph_shape *inner, const struct graph_shape *whole,
		    const int64_t *begin)
{
	*box = (struct box){ .ndim = whole->ndim, .inner = inner->dims };
	for (unsigned i = 0; i < whole->ndim; i++) {
		const int64_t first = begin ? begin[i] : 0;

		if (first < 0 || inner->dims[i] > whole->dims[i] || first > whole->dims[i] - inner->dims[i])
			return false;
		box->strides[i] = kernel_product(whole, i + 1, whole->ndim);
		box->offset += (size_t)first * box->strides[i];
	}
	return true;
}

static void box_copy(const struct box *box, const uint8_t *from, uint8_t *to, bool into_whole, size_t bytes)
{
	const size_t length = box->ndim ? (size_t)box->inner[box->ndim - 1] : 1;
	size_t rows = 1;

	for (unsigned i = 0; i + 1 < box->ndim; i++)
		rows *= (size_t)box->inner[i];
	for (size_t row = 0; row < rows && length; row++) {
		size_t at = box->offset, rest = row;

		for (unsigned i = box->ndim ? box->ndim - 1 : 0; i-- > 0; rest /= (size_t)box->inner[i])
			at += rest % (size_t)box->inner[i] * box->strides[i];
		if (into_whole)
			memcpy(to + at * bytes, from + row * length * bytes, length * bytes);
		else
			memcpy(to + row * length * bytes, from + at * bytes, length * bytes);
	}
}

static const int64_t *ints_of(const struct kernel_call *call, const char *name)
{
	const struct graph_attr *attr = graph_attr(call->node, name);

	return attr ? attr->ints : NULL;
}

int kernel_slice(const struct kernel_call *call)
{
	struct box box;

	if (!box_set(&box, &call->out[0]->type.shape, &call->in[0]->type.shape, ints_of(call, "begin")))
		return kernel_fail(call, "the slice is not inside its input");
	box_copy(&box, call->in[0]->data, call->out[0]->data, false, dtype_bytes(call->out[0]->type.dtype));
	return 0;
}

/* For pad and pad_like. */
int kernel_pad(const struct kernel_call *call)
{
	struct box box;

	if (!box_set(&box, &call->in[0]->type.shape, &call->out[0]->type.shape,
		     ints_of(call, call->node->op == GRAPH_PAD ? "before" : "begin")))
		return kernel_fail(call, "the first input is not inside the padded one");
	memset(call->out[0]->data, 0, kernel_bytes(call->out[0]));
	box_copy(&box, call->in[0]->data, call->out[0]->data, true, dtype_bytes(call->out[0]->type.dtype));
	return 0;
}

/* ---- index, gather: whole rows of the first dimension ---- */

static size_t row_bytes_of(const struct graph_tensor *tensor)
{
	return kernel_product(&tensor->type.shape, 1, tensor->type.shape.ndim) * dtype_bytes(tensor->type.dtype);
}

int kernel_index(const struct kernel_call *call)
{
	const size_t bytes = row_bytes_of(call->in[0]);

	if (kernel_check_indices(call, call->in[1], call->in[0]->type.shape.dims[0]) < 0)
		return -EINVAL;
	memcpy(call->out[0]->data, (const uint8_t *)call->in[0]->data + (size_t)kernel_element(call->in[1], 0) * bytes,
	       bytes);
	return 0;
}

int kernel_index_grad(const struct kernel_call *call)
{
	const size_t bytes = row_bytes_of(call->in[2]);
	uint8_t *out = call->out[0]->data;

	if (kernel_check_indices(call, call->in[1], call->in[2]->type.shape.dims[0]) < 0)
		return -EINVAL;
	memset(out, 0, kernel_bytes(call->out[0]));
	memcpy(out + (size_t)kernel_element(call->in[1], 0) * bytes, call->in[0]->data, bytes);
	return 0;
}

int kernel_head(const struct kernel_call *call)
{
	const size_t bytes = row_bytes_of(call->in[0]);

	if (kernel_check_indices(call, call->in[1], call->in[0]->type.shape.dims[0] + 1) < 0)
		return -EINVAL;
	call->out[0]->type.shape.dims[0] = kernel_element(call->in[1], 0);
	memcpy(call->out[0]->data, call->in[0]->data, (size_t)call->out[0]->type.shape.dims[0] * bytes);
	return 0;
}

struct gather_work {
	const struct kernel_call *call;
	size_t bytes, n, grain;
};

static void gather_part(void *context, uint64_t part)
{
	const struct gather_work *w = context;
	const size_t from = part * w->grain, to = w->n - from < w->grain ? w->n : from + w->grain;
	const uint8_t *in = w->call->in[0]->data;
	uint8_t *out = w->call->out[0]->data;

	for (size_t i = from; i < to; i++)
		memcpy(out + i * w->bytes, in + (size_t)kernel_element(w->call->in[1], i) * w->bytes, w->bytes);
}

int kernel_gather(const struct kernel_call *call)
{
	struct gather_work w = {
		.call = call,
		.bytes = row_bytes_of(call->in[0]),
		.n = kernel_count(call->in[1]),
	};

	if (kernel_check_indices(call, call->in[1], call->in[0]->type.shape.dims[0]) < 0)
		return -EINVAL;
	w.grain = GRAIN_BYTES / (w.bytes + 1) + 1;
	exec_team_run(call->team, kernel_parts(w.n, w.grain), gather_part, &w);
	return 0;
}

/* ---- columns: elements of each row ---- */

struct columns_work {
	const int64_t *which;
	const void *in;
	void *out;
	size_t m, k, rows, grain; /* number taken from each row; elements of a row */
	size_t bytes;		  /* of an element */
};

/* Units of some KiB at least. */
static void columns_begin(struct columns_work *w, const struct kernel_call *call, const struct graph_tensor *wide)
{
	w->which = call->in[1]->data;
	w->in = call->in[0]->data;
	w->out = call->out[0]->data;
	w->m = kernel_count(call->in[1]);
	w->k = (size_t)wide->type.shape.dims[1];
	w->rows = (size_t)wide->type.shape.dims[0];
	w->bytes = dtype_bytes(wide->type.dtype);
	w->grain = GRAIN_BYTES / (w->m * w->bytes + 1) + 1;
}

#define ROWS_OF(w, part) \
	const size_t from = (part) * (w)->grain, to = (w)->rows - from < (w)->grain ? (w)->rows : from + (w)->grain
#define TAKE(type) \
	for (size_t i = 0; i < w->m; i++) \
	((type *)w->out)[row * w->m + i] = ((const type *)w->in)[row * w->k + (size_t)w->which[i]]
#define ADD(type) \
	for (size_t i = 0; i < w->m; i++) \
	((type *)w->out)[row * w->k + (size_t)w->which[i]] += ((const type *)w->in)[row * w->m + i]

static void take_columns(void *context, uint64_t part)
{
	const struct columns_work *w = context;
	ROWS_OF(w, part);

	for (size_t row = from; row < to; row++)
		if (w->bytes == sizeof(uint32_t))
			TAKE(uint32_t);
		else if (w->bytes == sizeof(uint64_t))
			TAKE(uint64_t);
		else
			for (size_t i = 0; i < w->m; i++)
				memcpy((uint8_t *)w->out + (row * w->m + i) * w->bytes,
				       (const uint8_t *)w->in + (row * w->k + (size_t)w->which[i]) * w->bytes,
				       w->bytes);
}

static void add_columns(void *context, uint64_t part)
{
	const struct columns_work *w = context;
	ROWS_OF(w, part);

	memset((uint8_t *)w->out + from * w->k * w->bytes, 0, (to - from) * w->k * w->bytes);
	for (size_t row = from; row < to; row++)
		if (w->bytes == sizeof(float))
			ADD(float);
		else
			ADD(double);
}

int kernel_columns(const struct kernel_call *call)
{
	struct columns_work w;

	columns_begin(&w, call, call->in[0]);
	if (kernel_check_indices(call, call->in[1], (int64_t)w.k) < 0)
		return -EINVAL;
	exec_team_run(call->team, kernel_parts(w.rows, w.grain), take_columns, &w);
	return 0;
}

int kernel_columns_grad(const struct kernel_call *call)
{
	struct columns_work w;

	columns_begin(&w, call, call->in[2]);
	if (kernel_check_indices(call, call->in[1], (int64_t)w.k) < 0)
		return -EINVAL;
	exec_team_run(call->team, kernel_parts(w.rows, w.grain), add_columns, &w);
	return 0;
}
