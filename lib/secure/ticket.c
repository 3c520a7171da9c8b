/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/ticket.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/ipsec_mb.h"
#include "secure/memory.h"

enum { TICKET_VERSION = 1, KEY_BYTES = 16, PLACES = 2 * SECURE_KEYS_MAX, NAME_MAX_BYTES = 128 };

/* The content of a ticket, sealed under the root. The number is its nonce; no other ticket of this root has it. */
struct content {
	uint64_t expires_ns; /* by this node's clock */
	uint32_t place, generation;
	char principal[SECURE_NAME_MAX + 1];
};
struct layout {
	uint32_t version, reserved;
	uint64_t number;
	uint8_t content[sizeof(struct content)];
	uint8_t tag[SECURE_TAG_BYTES];
};
_Static_assert(sizeof(struct content) == 80 && sizeof(struct layout) == SECURE_TICKET_BYTES, "no holes");

/* A holder of tickets: a key, without its secret. */
struct holder {
	bool used;
	uint32_t account;
	enum secure_role role;
	char principal[SECURE_NAME_MAX + 1], id[SECURE_ID_BYTES + 1];
};

struct secure_tickets {
	_Alignas(64) struct gcm_key_data key; /* the key that seals tickets */
	uint8_t root[SECURE_HASH_BYTES];
	enum secure_data data;
	_Atomic(uint32_t) generations[PLACES]; /* the generation that a guest must have */
	_Atomic(uint32_t) reviews;
	pthread_mutex_t lock; /* protects what follows, between control threads */
	uint64_t issued;
	uint32_t next_place; /* where the search for an unused one begins */
	struct holder holders[PLACES];
	struct secure_rights *rights;
	/* large, but the pages that are never used take no memory */
	char (*names)[NAME_MAX_BYTES];	       /* of tables, SECURE_TABLES */
	uint32_t tables_last;		       /* the highest id of a table so far: nothing was written beyond it */
	_Atomic(uint8_t) *may;		       /* by place, SECURE_TABLES each */
	char (*accounts)[SECURE_NAME_MAX + 1]; /* SECURE_ACCOUNTS names of principals */
	struct secure_limits *limits;
	_Atomic(uint32_t) account_of[PLACES];
};
_Static_assert((int)SECURE_ACCOUNTS >= (int)PLACES, "as many principals as there are keys");

const char *secure_data_name(enum secure_data data)
{
	static const char *const names[SECURE_DATA_KINDS] = { "open", "checked", "sealed", "sealed-256" };

	return names[data];
}

enum secure_data secure_data_from(const char *name)
{
	enum secure_data data = SECURE_DATA_OPEN;

	while (data < SECURE_DATA_KINDS && strcmp(name, secure_data_name(data)) != 0)
		data++;
	return data;
}

enum secure_cipher secure_data_cipher(enum secure_data data)
{
	return data == SECURE_DATA_SEALED_256 ? SECURE_AES256
	       : data == SECURE_DATA_SEALED   ? SECURE_AES128
					      : SECURE_GUARD;
}

static void free_tickets(struct secure_tickets *t)
{
	secure_rights_free(t->rights);
	free(t->names);
	free((void *)t->may);
	secure_free(t->accounts);
	secure_free(t->limits);
	secure_free(t);
}

struct secure_tickets *secure_tickets_create(enum secure_data data, struct star_error *err)
{
	struct secure_tickets *t = secure_alloc(sizeof(*t));
	uint8_t key[KEY_BYTES];

	if (!t) {
		star_error_set(err, -ENOMEM, "out of memory for tickets");
		return NULL;
	}
	if (getrandom(t->root, sizeof(t->root), 0) != (ssize_t)sizeof(t->root)) {
		star_error_set(err, -EIO, "the kernel has no random numbers");
		secure_free(t);
		return NULL;
	}
	/* Contains no secrets, and is too large to be locked. */
	t->may = calloc(PLACES, SECURE_TABLES);
	t->names = calloc(SECURE_TABLES, sizeof(*t->names));
	t->accounts = secure_alloc(SECURE_ACCOUNTS * sizeof(*t->accounts));
	t->limits = secure_alloc(sizeof(*t->limits));
	if (!t->may || !t->names || !t->accounts || !t->limits) {
		star_error_set(err, -ENOMEM, "out of memory for tickets");
		free_tickets(t);
		return NULL;
	}
	t->data = data;
	secure_expand(t->root, "starserver ticket key", NULL, 0, key, sizeof(key));
	IMB_AES128_GCM_PRE(base_ipsec_mb, key, &t->key);
	explicit_bzero(key, sizeof(key));
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void secure_tickets_destroy(struct secure_tickets *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free_tickets(t);
}

enum secure_data secure_tickets_data(const struct secure_tickets *t)
{
	return t->data;
}

/* ---- rights ---- */

static _Atomic(uint8_t) *rights_at(const struct secure_tickets *t, uint32_t place)
{
	return &t->may[(size_t)place * SECURE_TABLES];
}

/* Call it with the lock held. Nobody has rights to a table before it has a name. */
static void set_right(struct secure_tickets *t, uint32_t place, uint32_t id)
{
	const struct holder *h = &t->holders[place];
	const uint8_t may = t->names[id][0] ? secure_rights_of(t->rights, h->principal, h->role, t->names[id]) : 0;

	atomic_store_explicit(&rights_at(t, place)[id], may, memory_order_relaxed);
}

static void set_rights(struct secure_tickets *t, uint32_t place)
{
	for (uint32_t id = 0; id <= t->tables_last; id++)
		set_right(t, place, id);
}

void secure_tickets_table(struct secure_tickets *t, uint32_t id, const char *name)
{
	if (id >= SECURE_TABLES)
		return;
	pthread_mutex_lock(&t->lock);
	memset(t->names[id], 0, sizeof(t->names[id]));
	if (name)
		memcpy(t->names[id], name, strnlen(name, sizeof(t->names[id]) - 1));
	if (id > t->tables_last)
		t->tables_last = id;
	for (uint32_t i = 0; i < PLACES; i++)
		if (t->holders[i].used)
			set_right(t, i, id);
	pthread_mutex_unlock(&t->lock);
}

/* ---- quotas ---- */

/* Call it with the lock held. True: there is a quota that reactors check. */
static bool set_limits(struct secure_tickets *t, uint32_t account)
{
	struct secure_quotas quotas;
	bool some = false;

	secure_rights_quotas(t->rights, t->accounts[account], &quotas);
	for (unsigned q = 0; q < SECURE_QUOTAS_DATA; q++) {
		atomic_store_explicit(&t->limits->max[account][q], quotas.max[q], memory_order_relaxed);
		some |= quotas.max[q] != 0;
	}
	return some;
}

static bool has_holder(const struct secure_tickets *t, uint32_t account)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (t->holders[i].used && t->holders[i].account == account)
			return true;
	return false;
}

/* The principal's account, or a new one; call it with the lock held. A principal keeps its account while it has keys,
 * and longer if nobody else needs it, so that requests in progress are still counted for it. There are as many accounts
 * as places, so one is found. */
static uint32_t find_account(struct secure_tickets *t, const char *principal)
{
	uint32_t account = SECURE_ACCOUNTS;

	for (uint32_t i = 0; i < SECURE_ACCOUNTS; i++) {
		if (strcmp(t->accounts[i], principal) == 0)
			return i;
		if (!t->accounts[i][0] && account == SECURE_ACCOUNTS)
			account = i;
	}
	for (uint32_t i = 0; account == SECURE_ACCOUNTS && i < SECURE_ACCOUNTS; i++)
		if (!has_holder(t, i))
			account = i;
	memset(t->accounts[account], 0, sizeof(t->accounts[account]));
	memcpy(t->accounts[account], principal, strnlen(principal, SECURE_NAME_MAX));
	if (set_limits(t, account))
		atomic_store_explicit(&t->limits->any, true, memory_order_relaxed);
	return account;
}

const struct secure_limits *secure_tickets_limits(const struct secure_tickets *t)
{
	return t->limits;
}

bool secure_tickets_account(struct secure_tickets *t, const char *principal, uint32_t *account)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < PLACES && !found; i++) {
		found = t->holders[i].used && strcmp(t->holders[i].principal, principal) == 0;
		*account = t->holders[i].account;
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

void secure_tickets_makes(struct secure_tickets *t, uint32_t account, bool makes[static SECURE_TABLES])
{
	memset(makes, 0, SECURE_TABLES * sizeof(makes[0]));
	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < PLACES; i++) {
		const struct holder *h = &t->holders[i];

		for (uint32_t id = 0; h->used && h->account == account && id <= t->tables_last; id++)
			makes[id] |= atomic_load_explicit(&rights_at(t, i)[id], memory_order_relaxed) & SECURE_CREATE;
	}
	pthread_mutex_unlock(&t->lock);
}

bool secure_tickets_quotas(struct secure_tickets *t, const char *principal, struct secure_quotas *quotas)
{
	bool some;

	pthread_mutex_lock(&t->lock);
	some = secure_rights_quotas(t->rights, principal, quotas);
	pthread_mutex_unlock(&t->lock);
	return some;
}

void secure_tickets_rights(struct secure_tickets *t, struct secure_rights *rights)
{
	bool any = false;

	pthread_mutex_lock(&t->lock);
	secure_rights_free(t->rights);
	t->rights = rights;
	for (uint32_t i = 0; i < SECURE_ACCOUNTS; i++)
		if (t->accounts[i][0])
			any |= set_limits(t, i);
	atomic_store_explicit(&t->limits->any, any, memory_order_relaxed);
	for (uint32_t i = 0; i < PLACES; i++)
		if (t->holders[i].used)
			set_rights(t, i);
	pthread_mutex_unlock(&t->lock);
}

const _Atomic(uint8_t) *secure_tickets_rights_of(const struct secure_tickets *t, const struct secure_guest *guest)
{
	return rights_at(t, guest->place);
}

bool secure_tickets_may_have(struct secure_tickets *t, const struct secure_key *principal)
{
	bool may;

	pthread_mutex_lock(&t->lock);
	may = secure_rights_any(t->rights, principal->principal, principal->role);
	pthread_mutex_unlock(&t->lock);
	return may;
}

uint8_t secure_tickets_look_up(struct secure_tickets *t, const char *principal, enum secure_role role,
			       const char *table)
{
	uint8_t may;

	pthread_mutex_lock(&t->lock);
	may = secure_rights_of(t->rights, principal, role, table);
	pthread_mutex_unlock(&t->lock);
	return may;
}

/* ---- tickets ---- */

/* The holder's place, or a new one; PLACES: there is none. Call it with the lock held. The place that was released last
 * is reused last: a request of its former holder may still be queued, and must not be executed with another holder's
 * rights. */
static uint32_t find_place(struct secure_tickets *t, const struct secure_key *principal)
{
	uint32_t unused = PLACES;

	for (uint32_t i = 0; i < PLACES; i++) {
		const struct holder *h = &t->holders[i];

		if (h->used && h->role == principal->role && strcmp(h->principal, principal->principal) == 0 &&
		    strcmp(h->id, principal->id) == 0)
			return i;
	}
	for (uint32_t i = 0; i < PLACES && unused == PLACES; i++)
		if (!t->holders[(t->next_place + i) % PLACES].used)
			unused = (t->next_place + i) % PLACES;
	if (unused < PLACES) {
		t->next_place = (unused + 1) % PLACES;
		t->holders[unused] =
			(struct holder){ .role = principal->role, .account = find_account(t, principal->principal) };
		t->holders[unused].used = true;
		memcpy(t->holders[unused].principal, principal->principal, sizeof(principal->principal));
		memcpy(t->holders[unused].id, principal->id, sizeof(principal->id));
		atomic_store_explicit(&t->account_of[unused], t->holders[unused].account, memory_order_relaxed);
		set_rights(t, unused);
	}
	return unused;
}

static void make_nonce(uint64_t number, uint8_t nonce[SECURE_IV_BYTES])
{
	memset(nonce, 0, SECURE_IV_BYTES);
	memcpy(nonce, &number, sizeof(number));
}

static void seal_ticket(const struct secure_tickets *t, const struct content *content, struct layout *layout)
{
	_Alignas(64) struct gcm_context_data state;
	uint8_t nonce[SECURE_IV_BYTES];

	make_nonce(layout->number, nonce);
	IMB_AES128_GCM_ENC(base_ipsec_mb, &t->key, &state, layout->content, (const uint8_t *)content, sizeof(*content),
			   nonce, (const uint8_t *)layout, offsetof(struct layout, content), layout->tag,
			   sizeof(layout->tag));
	explicit_bzero(&state, sizeof(state));
}

static void ticket_secret(const struct secure_tickets *t, const struct secure_ticket *ticket,
			  uint8_t secret[SECURE_HASH_BYTES])
{
	secure_expand(t->root, "starserver ticket secret", ticket->bytes, sizeof(ticket->bytes), secret,
		      SECURE_HASH_BYTES);
}

int secure_tickets_issue(struct secure_tickets *t, const struct secure_key *principal, uint64_t now_ns,
			 struct secure_ticket *ticket, uint8_t secret[SECURE_HASH_BYTES], struct star_error *err)
{
	struct layout layout = { .version = TICKET_VERSION };
	struct content content = { .expires_ns = now_ns + SECURE_TICKET_NS };

	memcpy(content.principal, principal->principal, sizeof(content.principal));
	pthread_mutex_lock(&t->lock);
	content.place = find_place(t, principal);
	layout.number = ++t->issued;
	if (content.place < PLACES)
		content.generation = atomic_load(&t->generations[content.place]);
	pthread_mutex_unlock(&t->lock);
	if (content.place == PLACES)
		return star_error_set(err, -ENOSPC, "there are tickets of %d keys already", PLACES);
	seal_ticket(t, &content, &layout);
	memcpy(ticket->bytes, &layout, sizeof(ticket->bytes));
	ticket_secret(t, ticket, secret);
	return 0;
}

unsigned secure_tickets_review(struct secure_tickets *t, bool (*stays)(void *ctx, const struct secure_key *key),
			       void *ctx)
{
	unsigned out = 0;

	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < PLACES; i++) {
		struct secure_key key = { .role = t->holders[i].role };

		if (!t->holders[i].used)
			continue;
		memcpy(key.principal, t->holders[i].principal, sizeof(key.principal));
		memcpy(key.id, t->holders[i].id, sizeof(key.id));
		if (stays(ctx, &key))
			continue;
		/* From here on, tickets that were issued for the place, and guests that used them, are invalid. */
		atomic_fetch_add(&t->generations[i], 1);
		t->holders[i].used = false;
		out++;
	}
	if (out)
		atomic_fetch_add(&t->reviews, 1);
	pthread_mutex_unlock(&t->lock);
	return out;
}

bool secure_tickets_open(const struct secure_tickets *t, const struct secure_ticket *ticket, uint64_t now_ns,
			 struct secure_guest *guest, uint8_t secret[SECURE_HASH_BYTES])
{
	_Alignas(64) struct gcm_context_data state;
	struct content content;
	struct layout layout;
	uint8_t nonce[SECURE_IV_BYTES], tag[SECURE_TAG_BYTES];
	bool good;

	memcpy(&layout, ticket->bytes, sizeof(layout));
	make_nonce(layout.number, nonce);
	IMB_AES128_GCM_DEC(base_ipsec_mb, &t->key, &state, (uint8_t *)&content, layout.content, sizeof(content), nonce,
			   (const uint8_t *)&layout, offsetof(struct layout, content), tag, sizeof(tag));
	/* The tag authenticates everything else that is read here. */
	good = secure_same(tag, layout.tag, sizeof(tag)) && layout.version == TICKET_VERSION &&
	       now_ns < content.expires_ns && content.expires_ns - now_ns <= SECURE_TICKET_NS && content.place < PLACES;
	if (good) {
		*guest = (struct secure_guest){ .place = content.place, .generation = content.generation };
		memcpy(guest->principal, content.principal, sizeof(guest->principal));
		guest->account = atomic_load_explicit(&t->account_of[content.place], memory_order_relaxed);
		good = secure_tickets_hold(t, guest);
	}
	if (good)
		ticket_secret(t, ticket, secret);
	explicit_bzero(&state, sizeof(state));
	return good;
}

uint32_t secure_tickets_reviews(const struct secure_tickets *t)
{
	return atomic_load_explicit(&t->reviews, memory_order_acquire);
}

bool secure_tickets_hold(const struct secure_tickets *t, const struct secure_guest *guest)
{
	return atomic_load_explicit(&t->generations[guest->place], memory_order_acquire) == guest->generation;
}

uint64_t secure_guest_number(const struct secure_guest *guest, uint64_t chosen)
{
	uint8_t hash[SECURE_HASH_BYTES];
	uint64_t number;

	secure_hmac(guest->principal, sizeof(guest->principal), &chosen, sizeof(chosen), hash);
	memcpy(&number, hash, sizeof(number));
	return number ? number : 1; /* 0 means none */
}

void secure_welcome_make(const struct secure_tickets *t, uint32_t port, uint64_t number, struct secure_welcome *welcome)
{
	const uint64_t context[2] = { port, number };

	secure_expand(t->root, "starserver random", context, sizeof(context), welcome->random, sizeof(welcome->random));
}

void secure_hello_tag(const uint8_t secret[SECURE_HASH_BYTES], struct secure_place place, const void *header,
		      size_t header_bytes, const struct secure_hello *hello, uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t key[SECURE_HASH_BYTES], text[SECURE_HMAC_MAX], hash[SECURE_HASH_BYTES];

	secure_expand(secret, "starserver hello", &place, sizeof(place), key, sizeof(key));
	memcpy(text, header, header_bytes);
	memcpy(text + header_bytes, hello, sizeof(*hello));
	secure_hmac(key, sizeof(key), text, header_bytes + sizeof(*hello), hash);
	memcpy(tag, hash, SECURE_TAG_BYTES);
	explicit_bzero(key, sizeof(key));
}

void secure_welcome_tag(const uint8_t secret[SECURE_HASH_BYTES], const struct secure_hello *hello, const void *header,
			size_t header_bytes, const struct secure_welcome *welcome, uint8_t tag[SECURE_TAG_BYTES])
{
	uint8_t key[SECURE_HASH_BYTES], text[SECURE_HMAC_MAX], hash[SECURE_HASH_BYTES];

	secure_expand(secret, "starserver welcome", hello->random, sizeof(hello->random), key, sizeof(key));
	memcpy(text, header, header_bytes);
	memcpy(text + header_bytes, welcome, sizeof(*welcome));
	secure_hmac(key, sizeof(key), text, header_bytes + sizeof(*welcome), hash);
	memcpy(tag, hash, SECURE_TAG_BYTES);
	explicit_bzero(key, sizeof(key));
}

void secure_connection_keys(const uint8_t secret[SECURE_HASH_BYTES], struct secure_place place,
			    const struct secure_hello *hello, const struct secure_welcome *welcome,
			    enum secure_cipher cipher, struct secure_direction *to_node,
			    struct secure_direction *from_node)
{
	struct {
		uint8_t client[SECURE_RANDOM_BYTES], node[SECURE_RANDOM_BYTES];
		struct secure_place place;
		uint32_t cipher;
	} context = { .place = place, .cipher = cipher };
	uint8_t direction[SECURE_HASH_BYTES];

	memcpy(context.client, hello->random, sizeof(context.client));
	memcpy(context.node, welcome->random, sizeof(context.node));
	secure_expand(secret, "starserver to node", &context, sizeof(context), direction, sizeof(direction));
	secure_direction_init(to_node, direction, cipher);
	secure_expand(secret, "starserver from node", &context, sizeof(context), direction, sizeof(direction));
	secure_direction_init(from_node, direction, cipher);
	explicit_bzero(direction, sizeof(direction));
}
