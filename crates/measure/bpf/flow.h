/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A flow's identity: one key for both directions. Pure, shared with user space. */
#ifndef FATHOM_FLOW_H
#define FATHOM_FLOW_H

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define FATHOM_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " changed its size")

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "flow_address_v4 lays the mapped prefix out for little-endian machines");

/* An IPv4 address is held in its IPv4-mapped form (::ffff:a.b.c.d), so that no code has an IPv4 and an IPv6 twin. */
struct flow_address {
	__u64 words[2]; /* network order, as in the packet */
};

/*
 * The two ends stand in an order of their own (`low` before `high`), so that both directions find one entry. What the
 * packet's direction was is `packet.direction`: 0 from low to high, 1 back.
 */
struct flow_key {
	struct flow_address low;
	struct flow_address high;
	__u16 low_port; /* host order; ICMP: the echo identifier on both sides */
	__u16 high_port;
	__u32 vlan : 24; /* outer tag << 12 | inner tag; 0: untagged */
	__u32 protocol : 8; /* of the transport: IPPROTO_* */
	__u32 tunnel; /* VXLAN or Geneve VNI, ERSPAN session; 0: none */
	__u32 interface; /* index at the capture point */
};
FATHOM_ASSERT_SIZE(struct flow_key, 48);

/* The IPv4-mapped prefix, as the two words are laid out in memory. */
#define FLOW_MAPPED_PREFIX 0xffff0000U

static __always_inline struct flow_address flow_address_v4(__u32 network_order)
{
	struct flow_address address;

	address.words[0] = 0;
	address.words[1] = (__u64)network_order << 32 | FLOW_MAPPED_PREFIX;
	return address;
}

static __always_inline int flow_address_equal(const struct flow_address *a, const struct flow_address *b)
{
	return a->words[1] == b->words[1] && a->words[0] == b->words[0];
}

/* Any total order will do; this one compares the words as integers. */
static __always_inline int flow_address_before(const struct flow_address *a, const struct flow_address *b)
{
	if (a->words[1] != b->words[1])
		return a->words[1] < b->words[1];
	return a->words[0] < b->words[0];
}

static __always_inline __u64 flow_hash_step(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* For tables of our own (the kernel's maps hash by themselves). `seed` is secret, or a sender could aim at one bucket. */
static __always_inline __u64 flow_hash(const struct flow_key *key, __u64 seed)
{
	__u64 hash = seed;

	hash = flow_hash_step(hash, key->low.words[0]);
	hash = flow_hash_step(hash, key->low.words[1]);
	hash = flow_hash_step(hash, key->high.words[0]);
	hash = flow_hash_step(hash, key->high.words[1]);
	/* A narrow bit field is an int in C: shifted up, a high VLAN would be a sign, and drown the ports. */
	hash = flow_hash_step(hash, (__u64)key->low_port << 48 | (__u64)key->high_port << 32 | (__u32)key->vlan << 8 |
					    key->protocol);
	hash = flow_hash_step(hash, (__u64)key->tunnel << 32 | key->interface);
	return hash;
}

#endif
