/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimizers once more, in float64, element by element, written from the papers and the pages that
 * docs/optimizers.rst names and not from lib/optim: what the kernels are measured by. Slots lie in the order in which
 * that page lists them.
 */
#include "tests/optim/cases.h"

#include <stdlib.h>

enum { WIDTH = 70 };

struct reference {
	struct optim_options p;
	unsigned n;
	double w[WIDTH], slots[OPTIM_SLOTS_MAX][WIDTH];
	uint64_t count; /* of the row: updates, or decays of the accumulator */
};

/* One element of a row: the weight, its slots, and the push's numbers. */
struct element {
	double *w, *s0, *s1, *s2;
	double g, rate;
};

static double sign(double x)
{
	return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/* Scale; clip by value; clip by the row's norm; L2; L1. FTRL has its own L1 and L2. */
static void reference_gradient(const struct reference *r, double scale, const double *from, double *g)
{
	double norm = 0;

	for (unsigned i = 0; i < r->n; i++) {
		g[i] = from[i] * scale;
		if (r->p.clip_value > 0)
			g[i] = fmax(-(double)r->p.clip_value, fmin((double)r->p.clip_value, g[i]));
		norm += g[i] * g[i];
	}
	norm = sqrt(norm);
	for (unsigned i = 0; i < r->n; i++) {
		if (r->p.clip_norm > 0)
			g[i] = g[i] * (double)r->p.clip_norm / fmax(norm, (double)r->p.clip_norm);
		if (r->p.kind != OPTIM_FTRL)
			g[i] += (double)r->p.l2 * r->w[i] + (double)r->p.l1 * sign(r->w[i]);
	}
}

/* Duchi, Hazan, Singer, JMLR 12 (2011). */
static void adagrad(const struct element *e, double epsilon)
{
	*e->s0 += e->g * e->g;
	*e->w -= e->rate * e->g / (sqrt(*e->s0) + epsilon);
}

/* Hinton, lecture 6.5 (2012); centered: Graves, arXiv:1308.0850, equations 38 to 45, with epsilon as PyTorch has it. */
static void rmsprop(const struct optim_options *p, const struct element *e)
{
	const double rho = (double)p->rho, mu = (double)p->momentum;
	double variance, *velocity = p->centered ? e->s2 : e->s1, step;

	*e->s0 = rho * *e->s0 + (1 - rho) * e->g * e->g;
	variance = *e->s0;
	if (p->centered) {
		*e->s1 = rho * *e->s1 + (1 - rho) * e->g;
		variance = fmax(0, variance - *e->s1 * *e->s1);
	}
	step = e->g / (sqrt(variance) + (double)p->epsilon);
	if (mu > 0) {
		*velocity = mu * *velocity + step;
		step = *velocity;
	}
	*e->w -= e->rate * step;
}

/* Zeiler, arXiv:1212.5701, algorithm 1, with a learning rate. */
static void adadelta(const struct optim_options *p, const struct element *e)
{
	const double rho = (double)p->rho, epsilon = (double)p->epsilon;
	double delta;

	*e->s0 = rho * *e->s0 + (1 - rho) * e->g * e->g;
	delta = sqrt(*e->s1 + epsilon) / sqrt(*e->s0 + epsilon) * e->g;
	*e->s1 = rho * *e->s1 + (1 - rho) * delta * delta;
	*e->w -= e->rate * delta;
}

/* Adam: Kingma, Ba, ICLR 2015, algorithm 1. AMSGrad: Reddi, Kale, Kumar, ICLR 2018. AdamW: Loshchilov, Hutter, ICLR
 * 2019, algorithm 2. DeepRec's AdamAsync: the form before the paper's section 2.1, whose epsilon is "epsilon hat". */
static void adam(const struct optim_options *p, const struct element *e, double t)
{
	const double beta1 = (double)p->beta1, beta2 = (double)p->beta2, epsilon = (double)p->epsilon;
	double m, v;

	*e->s0 = beta1 * *e->s0 + (1 - beta1) * e->g;
	*e->s1 = beta2 * *e->s1 + (1 - beta2) * e->g * e->g;
	v = *e->s1;
	if (p->kind == OPTIM_AMSGRAD)
		v = *e->s2 = fmax(*e->s2, v);
	if (p->kind == OPTIM_ADAMW)
		*e->w -= e->rate * (double)p->weight_decay * *e->w;
	if (p->kind == OPTIM_ADAM_ASYNC) {
		const double rate = e->rate * sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t));

		*e->w -= rate * *e->s0 / (sqrt(v) + epsilon);
		return;
	}
	m = *e->s0 / (1 - pow(beta1, t));
	v /= 1 - pow(beta2, t);
	*e->w -= e->rate * m / (sqrt(v) + epsilon);
}

/* DeepRec's apply_sparse_rmsprop: epsilon inside the root. */
static void sparse_rmsprop(const struct optim_options *p, const struct element *e)
{
	*e->s1 = (double)p->beta2 * *e->s1 + (1 - (double)p->beta2) * e->g * e->g;
	*e->s0 = (double)p->beta1 * *e->s0 + e->rate * e->g / sqrt(*e->s1 + (double)p->epsilon);
	*e->w -= *e->s0;
}

/* McMahan et al., KDD 2013, algorithm 1 (z, n, per coordinate), as TensorFlow's FtrlV2 has it: any power, twice l2. */
static void ftrl(const struct optim_options *p, const struct element *e)
{
	const double n = *e->s0 + e->g * e->g, l1 = (double)p->l1;
	const double sigma = (pow(n, -(double)p->power) - pow(*e->s0, -(double)p->power)) / e->rate;

	if (!(e->rate > 0))
		return;
	*e->s0 = n;
	*e->s1 += e->g + 2 * (double)p->l2_shrinkage * *e->w - sigma * *e->w;
	*e->w = fabs(*e->s1) <= l1
			? 0
			: (sign(*e->s1) * l1 - *e->s1) / (pow(n, -(double)p->power) / e->rate + 2 * (double)p->l2);
}

/* What the row's count of this update is, for its bias correction. */
static double reference_count(struct reference *r, const struct optim_step *step)
{
	if (!optim_uses(r->p.kind, "beta1"))
		return 0;
	if (r->p.count_per_table)
		return (double)(step->step ? step->step : step->count);
	return (double)++r->count;
}

/* DeepRec's AdagradDecay: one decay an update while the row has had fewer than there were periods. */
static bool reference_decays(struct reference *r, const struct optim_step *step)
{
	const double periods = floor((double)(step->step ? step->step : step->count) / (double)r->p.decay_steps);

	if (periods <= (double)r->count)
		return false;
	r->count++;
	return true;
}

static void reference_update(struct reference *r, const struct optim_step *step, const double *grad)
{
	const bool decays = r->p.kind == OPTIM_ADAGRAD_DECAY && reference_decays(r, step);
	const double t = reference_count(r, step);
	double g[WIDTH];

	reference_gradient(r, (double)step->scale, grad, g);
	for (unsigned i = 0; i < r->n; i++) {
		const struct element e = { &r->w[i], &r->slots[0][i],	&r->slots[1][i], &r->slots[2][i],
					   g[i],     (double)step->rate };

		switch (r->p.kind) {
		case OPTIM_SGD:
			*e.w -= e.rate * e.g;
			break;
		case OPTIM_ADAGRAD_DECAY:
			if (decays)
				*e.s0 = fmax(*e.s0 * (double)r->p.decay_rate, (double)r->p.initial_accumulator);
			adagrad(&e, 0);
			break;
		case OPTIM_ADAGRAD:
			adagrad(&e, (double)r->p.epsilon);
			break;
		case OPTIM_MOMENTUM: /* Polyak, 1964; Sutskever et al., ICML 2013, as PyTorch writes them */
		case OPTIM_NESTEROV:
			*e.s0 = (double)r->p.momentum * *e.s0 + e.g;
			*e.w -= e.rate * (r->p.kind == OPTIM_MOMENTUM ? *e.s0 : e.g + (double)r->p.momentum * *e.s0);
			break;
		case OPTIM_RMSPROP:
			rmsprop(&r->p, &e);
			break;
		case OPTIM_ADADELTA:
			adadelta(&r->p, &e);
			break;
		case OPTIM_FTRL:
			ftrl(&r->p, &e);
			break;
		case OPTIM_ADAM_ASYNC:
			if (r->p.sparse_rmsprop) {
				sparse_rmsprop(&r->p, &e);
				break;
			}
			/* fall through */
		case OPTIM_ADAM:
		case OPTIM_AMSGRAD:
		case OPTIM_ADAMW:
			adam(&r->p, &e, t);
			break;
		default:
			unit_fail(__FILE__, __LINE__, "optimizer %s has no formula here: add it to reference_update",
				  optim_kind_name(r->p.kind));
			return;
		}
	}
}

/* You et al., ICLR 2020, algorithm 2, on a whole tensor; phi(z) = z, and a ratio of 1 where a norm is 0. */
static void reference_lamb(struct reference *r, const struct optim_step *step, const double *grad)
{
	const double beta1 = (double)r->p.beta1, beta2 = (double)r->p.beta2, t = (double)++r->count;
	double g[WIDTH], u[WIDTH], weights = 0, directions = 0, ratio = 1;

	reference_gradient(r, (double)step->scale, grad, g);
	for (unsigned i = 0; i < r->n; i++) {
		double *m = &r->slots[0][i], *v = &r->slots[1][i];

		*m = beta1 * *m + (1 - beta1) * g[i];
		*v = beta2 * *v + (1 - beta2) * g[i] * g[i];
		u[i] = *m / (1 - pow(beta1, t)) / (sqrt(*v / (1 - pow(beta2, t))) + (double)r->p.epsilon) +
		       (double)r->p.weight_decay * r->w[i];
		weights += r->w[i] * r->w[i];
		directions += u[i] * u[i];
	}
	if (weights > 0 && directions > 0)
		ratio = sqrt(weights / directions);
	if (r->p.trust_max > 0)
		ratio = fmin(ratio, (double)r->p.trust_max);
	for (unsigned i = 0; i < r->n; i++)
		r->w[i] -= (double)step->rate * ratio * u[i];
}

/* A row under test: kernels' state in either width, and the reference's. */
struct subject {
	struct optim o;
	struct reference r;
	unsigned n;
	float value[WIDTH], slots[3 * WIDTH];
	double value64[WIDTH], slots64[3 * WIDTH];
	uint32_t word;
};

static void begin(struct subject *s, const struct optim_options *options, unsigned n, struct prng *p)
{
	*s = (struct subject){ .o = make(options, OPTIM_BEST), .r = { .p = *options, .n = n }, .n = n };
	for (unsigned i = 0; i < n; i++) {
		s->value[i] = between(p, -1, 1);
		s->r.w[i] = s->value64[i] = (double)s->value[i];
		for (unsigned k = 0; k < s->o.slots; k++)
			s->r.slots[k][i] = s->slots64[k * n + i] =
				(double)(s->slots[k * n + i] = s->o.initial_slots[k]);
	}
}

/* A gradient with a mean, some elements of it zero and now and then a large one. */
static struct optim_step next_push(const struct subject *s, unsigned number, float *grad, double *grad64,
				   struct prng *p)
{
	struct optim_step step = { .rate = s->o.options.rate, .scale = 1, .count = number + 1 };

	for (unsigned i = 0; i < s->n; i++) {
		grad[i] = prng_below(p, 8) ? between(p, -1, 1) + 0.1f * (float)(i % 5) : 0;
		if (prng_below(p, 200) == 0)
			grad[i] *= 50;
		grad64[i] = (double)grad[i];
	}
	step.step = number % 3 ? number + 1 : 0;
	if (number % 7 == 0)
		step.rate *= between(p, 0.5, 1.5);
	if (number % 5 == 0)
		step.scale = between(p, 0.1, 1);
	return step;
}

/* All of |actual - expected| within tolerance of the greater of the number and `least`. */
static bool near(const struct subject *s, const char *what, unsigned step, double actual, double expected, double least,
		 double tolerance)
{
	/* A variance is a difference: where it is small, little is left of the digits of what it is made from. */
	if (s->o.options.centered)
		tolerance *= 100;
	if (fabs(actual - expected) <= tolerance * fmax(least, fabs(expected)))
		return true;
	return unit_fail(__FILE__, __LINE__, "%s of %s (formula %u, n %u) after step %u is %.17g, not %.17g", what,
			 optim_kind_name(s->o.options.kind), s->o.formula, s->n, step, actual, expected);
}

/* What an error of a slot is measured by. That of ftrl's z is one of the weight times pow(n, -power) / rate. */
static double size_of_slot(const struct subject *s, unsigned k, unsigned i)
{
	if (s->o.options.kind == OPTIM_FTRL && k == 1)
		return 1 + pow(s->r.slots[0][i], -(double)s->o.options.power) / (double)s->o.options.rate;
	return 1;
}

static bool compare(const struct subject *s, bool wide, unsigned step, double tolerance)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (!near(s, "value", step, wide ? s->value64[i] : (double)s->value[i], s->r.w[i], 1, tolerance))
			return false;
		for (unsigned k = 0; k < s->o.slots; k++) {
			const unsigned at = k * s->n + i;

			if (!near(s, "slot", step, wide ? s->slots64[at] : (double)s->slots[at], s->r.slots[k][i],
				  size_of_slot(s, k, i), tolerance))
				return false;
		}
	}
	return true;
}

enum { OPTIONS_DRAWN = 12 };

/* Runs every kind with many options and lengths; resynchronized: the reference starts each step at the kernels'
 * numbers. */
static void run_all(bool wide, bool resynchronized, unsigned steps, double tolerance, uint64_t seed)
{
	static struct subject s;
	double grad64[WIDTH];
	float grad[WIDTH];
	struct prng p;

	prng_seed(&p, seed);
	for (unsigned kind = 1; optim_kind_name(kind); kind++)
		for (unsigned draw = 0; draw < OPTIONS_DRAWN && kind != OPTIM_LAMB && kind != OPTIM_NONE; draw++) {
			const struct optim_options options = draw ? random_options(kind, &p) : defaults_of(kind);
			bool good = true;

			begin(&s, &options, 1 + prng_below(&p, WIDTH), &p);
			for (unsigned i = 0; good && i < steps; i++) {
				const struct optim_step step = next_push(&s, i, grad, grad64, &p);

				if (resynchronized)
					for (unsigned j = 0; j < s.n; j++) {
						s.r.w[j] = (double)s.value[j];
						for (unsigned k = 0; k < s.o.slots; k++)
							s.r.slots[k][j] = (double)s.slots[k * s.n + j];
					}
				if (wide)
					optim_apply64(&s.o, &step, s.value64, s.slots64, &s.word, grad64, s.n);
				else
					optim_apply(&s.o, &step, s.value, s.slots, &s.word, grad, s.n);
				reference_update(&s.r, &step, grad64);
				good = compare(&s, wide, i + 1, tolerance);
			}
		}
}

void float64_follows_the_reference(void)
{
	run_all(true, false, run_length(1000), 1e-9, 30);
}

void float32_follows_the_reference_step_by_step(void)
{
	run_all(false, true, run_length(1000), 2e-6, 31);
}

void float32_follows_the_reference_to_the_end(void)
{
	run_all(false, false, run_length(1000), 1e-2, 32);
}

/* In blocks, of which the last is shorter; and both widths. */
void lamb_follows_the_reference(void)
{
	static struct subject s;
	double grad64[WIDTH];
	float grad[WIDTH];
	struct prng p;

	prng_seed(&p, 33);
	for (unsigned draw = 0; draw < 2 * OPTIONS_DRAWN; draw++) {
		struct optim_options options = draw ? random_options(OPTIM_LAMB, &p) : defaults_of(OPTIM_LAMB);
		const bool wide = draw % 2;
		bool good = true;
		unsigned block;

		options.clip_norm = 0; /* of a block */
		begin(&s, &options, 1 + prng_below(&p, WIDTH), &p);
		block = 1 + prng_below(&p, s.n);
		for (unsigned i = 0; good && i < run_length(1000); i++) {
			const struct optim_step step = next_push(&s, i, grad, grad64, &p);
			double norms[2] = { 0, 0 };
			float slots[WIDTH * 2];

			s.word++;
			/* A block has its two slots together. */
			for (unsigned pass = 0; pass < 2; pass++)
				for (unsigned b = 0; b < s.n; b += block) {
					const unsigned n = s.n - b < block ? s.n - b : block;

					if (wide && pass)
						optim_lamb_apply64(&s.o, &step, s.value64 + b, s.slots64 + 2 * b, n,
								   s.word, norms);
					else if (wide)
						optim_lamb_moments64(&s.o, &step, s.value64 + b, s.slots64 + 2 * b,
								     grad64 + b, n, s.word, norms);
					else if (pass)
						optim_lamb_apply(&s.o, &step, s.value + b, s.slots + 2 * b, n, s.word,
								 norms);
					else
						optim_lamb_moments(&s.o, &step, s.value + b, s.slots + 2 * b, grad + b,
								   n, s.word, norms);
				}
			reference_lamb(&s.r, &step, grad64);
			memcpy(slots, s.slots, sizeof(slots));
			for (unsigned j = 0; good && j < s.n; j++)
				good = near(&s, "value", i + 1, wide ? s.value64[j] : (double)s.value[j], s.r.w[j], 1,
					    wide ? 1e-9 : 1e-2);
		}
	}
}
