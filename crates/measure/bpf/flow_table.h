/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table of flows: which slot a flow has. What measurements keep of it stands in arrays of theirs, by the number of the
 * slot. Pure; the caller has the buckets (flow_table.bpf.h: those of the kernel).
 *
 * A flow is in one of two buckets of 16 slots. A bucket has a word for each slot: 56 bits of the flow's hash, which
 * measurements keep something of it, and whether it was used since its bucket was last full. A flow is known by its hash
 * and its bucket: a packet of one that is there touches one cache line here, and what is kept of it. A new flow takes a
 * free slot, or else one that was not used again (CLOCK, Corbato 1968): flows of one packet, as in floods, drive out each
 * other and none that goes on.
 */
#ifndef FATHOM_FLOW_TABLE_H
#define FATHOM_FLOW_TABLE_H

#include "flow.h"

#define FLOW_BUCKET_SLOTS 16
/* With so many flows a bucket is left for one that has two less. */
#define FLOW_BUCKET_CROWDED 12

struct flow_bucket {
	__u64 words[FLOW_BUCKET_SLOTS];
};
FATHOM_ASSERT_SIZE(struct flow_bucket, 128);

/* A word without tag is a free slot: 0, or what a packet marked whose flow went at the same moment. */
#define FLOW_WORD_IS_REFERENCED 1ULL /* a packet found it since the bucket was last full */
#define FLOW_WORD_IS_BUSY 2ULL /* someone writes the key, or the first state of a measurement */
#define FLOW_WORD_MEASUREMENTS 0xfcULL /* a bit for each measurement that runs: it has state of the flow */
#define FLOW_WORD_FLAGS 0xffULL /* the rest is the tag, never 0 */

#define FLOW_KEY_WORDS (sizeof(struct flow_key) / sizeof(__u32))
/* NH is taken twice; the second one starts so many keys on (RFC 4418, section 5.2.1). */
#define FLOW_TABLE_SHIFT 4
#define FLOW_TABLE_KEYS (FLOW_KEY_WORDS + FLOW_TABLE_SHIFT)

/* Set before the programs are loaded, constant from then on. */
struct flow_table {
	__u32 keys[FLOW_TABLE_KEYS]; /* random: without them nobody can aim at a flow or a bucket */
	__u32 bucket_count;
};

#define FLOW_NO_SLOT 0xffffffffU

/* Where a flow is, as of a lookup. */
struct flow_slot {
	__u64 hash;
	__u32 index; /* FLOW_NO_SLOT: nowhere */
	__u32 padding;
};

/*
 * NH of UMAC (RFC 4418, section 5.2.2), twice: two flows have the same values with a probability of 2^-64, whatever they
 * are. Its multiplications do not wait for each other. Then the bits are mixed.
 */
static __always_inline __u64 flow_table_hash(const struct flow_key *key, const struct flow_table *table)
{
	const __u32 *words = (const __u32 *)key, *keys = table->keys;
	__u64 first = 0, second = 0;

	for (__u32 i = 0; i < FLOW_KEY_WORDS; i += 2) {
		const __u32 *others = keys + FLOW_TABLE_SHIFT;

		first += (__u64)(__u32)(words[i] + keys[i]) * (__u32)(words[i + 1] + keys[i + 1]);
		second += (__u64)(__u32)(words[i] + others[i]) * (__u32)(words[i + 1] + others[i + 1]);
	}
	first = (first ^ first >> 32) * 0x9e3779b97f4a7c15ULL;
	second = (second ^ second >> 32) * 0xc2b2ae3d27d4eb4fULL;
	first += second;
	return first ^ first >> 32;
}

static __always_inline __u64 flow_table_tag(__u64 hash)
{
	__u64 tag = hash & ~FLOW_WORD_FLAGS;

	return tag ? tag : ~FLOW_WORD_FLAGS;
}

static __always_inline __u32 flow_table_first(__u64 hash, const struct flow_table *table)
{
	return (hash >> 32) * table->bucket_count >> 32;
}

static __always_inline __u32 flow_table_second(__u64 hash, const struct flow_table *table)
{
	return (hash & 0xffffffff) * table->bucket_count >> 32;
}

/*
 * From here on the compiler knows nothing of a variable. In the kernel a loop over slots must not be unrolled, which costs
 * stack for 16 indices, nor a sum of conditions get branches, of which the verifier would walk all combinations.
 */
#ifdef __bpf__
#define FLOW_OPAQUE(variable) asm volatile("" : "+r"(variable))
#else
#define FLOW_OPAQUE(variable)
#endif

/* Words are read and written by many CPUs: each access is one. */
static __always_inline __u64 flow_bucket_word(const struct flow_bucket *bucket, __u32 slot)
{
	return *(const volatile __u64 *)&bucket->words[slot % FLOW_BUCKET_SLOTS];
}

/* Where a flow is looked for first, and is put if it can be. */
static __always_inline __u32 flow_bucket_home(__u64 tag)
{
	return tag >> 8;
}

/*
 * The first slot of a bucket whose word has this value in these bits, from the home of a tag on; FLOW_BUCKET_SLOTS: there
 * is none.
 */
static __always_inline __u32 flow_bucket_slot(const struct flow_bucket *bucket, __u64 tag, __u64 bits, __u64 value)
{
	__u32 i;

	for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
		__u32 slot = (flow_bucket_home(tag) + i) % FLOW_BUCKET_SLOTS;

		if ((flow_bucket_word(bucket, slot) & bits) == value)
			return slot;
		FLOW_OPAQUE(i);
	}
	return FLOW_BUCKET_SLOTS;
}

static __always_inline __u32 flow_bucket_find(const struct flow_bucket *bucket, __u64 tag)
{
	return flow_bucket_slot(bucket, tag, ~FLOW_WORD_FLAGS, tag);
}

/*
 * The best slot of a bucket for a new flow: below FLOW_BUCKET_SLOTS it is free; FLOW_BUCKET_SLOTS and more: a flow that has
 * not gone on must go; twice that: there is none.
 */
static __always_inline __u32 flow_bucket_find_room(const struct flow_bucket *bucket, __u64 tag)
{
	__u32 slot = flow_bucket_slot(bucket, tag, ~FLOW_WORD_FLAGS, 0);

	if (slot < FLOW_BUCKET_SLOTS)
		return slot;
	return FLOW_BUCKET_SLOTS + flow_bucket_slot(bucket, tag, FLOW_WORD_IS_REFERENCED | FLOW_WORD_IS_BUSY, 0);
}

/* How many slots of a bucket are taken. */
static __always_inline __u32 flow_bucket_used(const struct flow_bucket *bucket)
{
	__u32 used = 0, i;

	for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
		__u64 word = flow_bucket_word(bucket, i), negative = -word;

		FLOW_OPAQUE(negative);
		used += (word | negative) >> 63;
		FLOW_OPAQUE(i);
	}
	return used;
}

/* Has another slot the tag of this one? */
static __always_inline int flow_bucket_has_twin(const struct flow_bucket *bucket, __u32 slot, __u64 tag)
{
	__u32 i;

	for (i = 1; i < FLOW_BUCKET_SLOTS; i++) {
		if ((flow_bucket_word(bucket, slot + i) & ~FLOW_WORD_FLAGS) == tag)
			return 1;
		FLOW_OPAQUE(i);
	}
	return 0;
}

#endif
