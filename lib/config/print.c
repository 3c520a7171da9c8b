/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <string.h>

static void print_string(const char *text, FILE *out)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		putc(*text, out);
	}
	putc('"', out);
}

static void print_choice(const char *choices, uint32_t index, FILE *out)
{
	for (; index; index--)
		choices += strcspn(choices, "|") + 1;
	fprintf(out, "\"%.*s\"", (int)strcspn(choices, "|"), choices);
}

/* others: NULL, or the second address of each task that has one. */
static void print_addresses(const struct config_address *addresses, const struct config_address *others, uint32_t count,
			    FILE *out)
{
	putc('[', out);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s\"%s%s%s\"", i ? ", " : " ", config_show(addresses[i].host, addresses[i].port).text,
			others && others[i].port ? "|" : "",
			others && others[i].port ? config_show(others[i].host, others[i].port).text : "");
	fputs(" ]", out);
}

static void print_networks(const struct config_network *networks, uint32_t count, FILE *out)
{
	putc('[', out);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s\"%s/%u\"", i ? ", " : " ", networks[i].host, networks[i].prefix);
	fputs(" ]", out);
}

static void print_numbers(const uint32_t *numbers, uint32_t count, FILE *out)
{
	putc('[', out);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%u", i ? ", " : " ", numbers[i]);
	fputs(" ]", out);
}

static void print_value(const struct config_option *o, const void *base, FILE *out)
{
	const void *field = (const char *)base + o->offset, *second = (const char *)base + o->offset2;
	const struct config_address *address = field;

	switch (o->type) {
	case OPTION_NUMBER:
		fprintf(out, "%u", *(const uint32_t *)field);
		break;
	case OPTION_BOOL:
		fputs(*(const bool *)field ? "true" : "false", out);
		break;
	case OPTION_TEXT:
	case OPTION_WORD:
		print_string(field, out);
		break;
	case OPTION_CHOICE:
		print_choice(o->choices, *(const uint32_t *)field, out);
		break;
	case OPTION_ADDRESS:
		fprintf(out, "\"%s\"", config_show(address->host, address->port).text);
		break;
	case OPTION_NETWORKS:
		print_networks(field, *(const uint32_t *)second, out);
		break;
	case OPTION_NUMBERS:
		print_numbers(field, *(const uint32_t *)second, out);
		break;
	case OPTION_ADDRESSES:
		print_addresses(*(struct config_address *const *)field,
				o->others ? *(struct config_address *const *)((const char *)base + o->others) : NULL,
				*(const uint32_t *)second, out);
		break;
	}
}

/* { name = value; ... } with the options of a group. */
static void print_group(const struct config_group *group, const void *base, FILE *out)
{
	fputs("{\n", out);
	for (unsigned i = 0; i < config_options_count; i++) {
		if (config_option_group(&config_options[i]) != group)
			continue;
		fprintf(out, "\t%s = ", config_option_leaf(&config_options[i]));
		print_value(&config_options[i], base, out);
		fputs(";\n", out);
	}
	putc('}', out);
}

static void print_list(const struct config_group *group, const void *entries, size_t bytes, uint32_t count, FILE *out)
{
	fprintf(out, "%s = (", group->name);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? ", " : " ", out);
		print_group(group, (const char *)entries + i * bytes, out);
	}
	fputs(" );\n", out);
}

void config_print(const struct config *config, FILE *out)
{
	for (unsigned i = 0; i < config_groups_count; i++) {
		const struct config_group *group = &config_groups[i];

		if (!group->list) {
			fprintf(out, "%s = ", group->name);
			print_group(group, config, out);
			fputs(";\n", out);
		} else if (!strcmp(group->name, "ports")) {
			print_list(group, config->ports, sizeof(config->ports[0]), config->ports_count, out);
		} else {
			print_list(group, config->endpoints, sizeof(config->endpoints[0]), config->endpoints_count,
				   out);
		}
	}
}
