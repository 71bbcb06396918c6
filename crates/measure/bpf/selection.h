/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which flows are measured at all: decided before any state is touched. Pure, shared with user space. */
#ifndef FATHOM_SELECTION_H
#define FATHOM_SELECTION_H

#include "flow.h"

#define SELECTION_NETWORKS_MAX 16
#define SELECTION_PORTS_MAX 16
#define SELECTION_PROTOCOLS_MAX 8

struct selection_network {
	struct flow_address address;
	struct flow_address mask;
};

/* Empty lists select everything. */
struct selection {
	struct selection_network networks[SELECTION_NETWORKS_MAX]; /* one end must be in one of them */
	struct selection_network excluded[SELECTION_NETWORKS_MAX]; /* neither end may be in any */
	__u16 ports[SELECTION_PORTS_MAX]; /* one end must have one of them */
	__u8 protocols[SELECTION_PROTOCOLS_MAX];
	__u32 network_count;
	__u32 excluded_count;
	__u32 port_count;
	__u32 protocol_count;
};
FATHOM_ASSERT_SIZE(struct selection, 2 * 16 * 32 + 32 + 8 + 16);

static __always_inline int selection_contains(const volatile struct selection_network *network,
					      const struct flow_address *address)
{
	return (address->words[0] & network->mask.words[0]) == network->address.words[0] &&
	       (address->words[1] & network->mask.words[1]) == network->address.words[1];
}

static __always_inline int selection_has_network(const volatile struct selection_network *networks, __u32 count,
						 const struct flow_key *key)
{
	__u32 i;

	for (i = 0; i < SELECTION_NETWORKS_MAX && i < count; i++)
		if (selection_contains(&networks[i], &key->low) || selection_contains(&networks[i], &key->high))
			return 1;
	return 0;
}

static __always_inline int selection_has_port(const volatile struct selection *selection, const struct flow_key *key)
{
	__u32 i;

	for (i = 0; i < SELECTION_PORTS_MAX && i < selection->port_count; i++)
		if (selection->ports[i] == key->low_port || selection->ports[i] == key->high_port)
			return 1;
	return 0;
}

static __always_inline int selection_has_protocol(const volatile struct selection *selection,
						  const struct flow_key *key)
{
	__u32 i;

	for (i = 0; i < SELECTION_PROTOCOLS_MAX && i < selection->protocol_count; i++)
		if (selection->protocols[i] == key->protocol)
			return 1;
	return 0;
}

static __always_inline int selection_admits(const volatile struct selection *selection, const struct flow_key *key)
{
	if (selection->protocol_count && !selection_has_protocol(selection, key))
		return 0;
	if (selection->port_count && !selection_has_port(selection, key))
		return 0;
	if (selection->network_count && !selection_has_network(selection->networks, selection->network_count, key))
		return 0;
	return !selection->excluded_count ||
	       !selection_has_network(selection->excluded, selection->excluded_count, key);
}

#endif
