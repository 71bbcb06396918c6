/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of flows: which slot a flow has. What measurements keep of it stands in arrays of theirs, by the number of the
 * slot. The kernel's LRU hash takes twice as long for a new flow, and cannot be asked once for all measurements.
 *
 * A flow is in one of two buckets of 16 slots. A bucket has a word for each slot: 56 bits of the flow's hash, which
 * measurements keep something of it, and whether it was used since its bucket was last full. A flow is known by its hash
 * and its bucket: a packet of one that is there touches one cache line here, and what is kept of it. A new flow takes a
 * free slot, or else one that was not used again (CLOCK, Corbato 1968): flows of one packet, as in floods, drive out each
 * other and none that goes on.
 */
#ifndef FATHOM_FLOW_TABLE_BPF_H
#define FATHOM_FLOW_TABLE_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "flow_table.h"

/* In a section of its own: user space finds it by name, without knowing the layout of the others. */
const volatile struct flow_table flow_table SEC(".rodata.flow_table") = {};

/* Written when a flow comes or goes, and once by a flow that goes on; user space reads it, and frees slots. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_bucket);
} flow_buckets SEC(".maps");

/* By slot; written when a flow comes, for user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__type(key, __u32);
	__type(value, struct flow_key);
} flow_keys SEC(".maps");

/* Without its volatile, as pure functions take it; the barrier hides from the compiler that it is constant, and all zeros. */
static __always_inline const struct flow_table *flow_table_settings(void)
{
	const struct flow_table *table = (const struct flow_table *)&flow_table;

	asm volatile("" : "+r"(table));
	return table;
}

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
	return (hash & ~FLOW_WORD_FLAGS) | FLOW_WORD_IS_TAKEN;
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
 * From here on the compiler knows nothing of a variable. A loop over slots that starts at any of them must not be unrolled,
 * which costs stack for 16 indices.
 */
#define FLOW_OPAQUE(variable) asm volatile("" : "+r"(variable))

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

/* The first slot of a bucket whose word has none of these bits, from the home of a tag on; FLOW_BUCKET_SLOTS: none. */
static __always_inline __u32 flow_bucket_without(const struct flow_bucket *bucket, __u64 tag, __u64 bits)
{
	__u32 i;

	for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
		__u32 slot = (flow_bucket_home(tag) + i) % FLOW_BUCKET_SLOTS;

		if (!(flow_bucket_word(bucket, slot) & bits))
			return slot;
		FLOW_OPAQUE(i);
	}
	return FLOW_BUCKET_SLOTS;
}

/* Does a word have this tag, whatever its flags are? */
static __always_inline int flow_word_has(__u64 word, __u64 tag)
{
	return (word ^ tag) <= FLOW_WORD_FLAGS;
}

/* The slot of a tag; FLOW_BUCKET_SLOTS: it has none. A new flow looks at all of them: unrolled this takes a third of a loop. */
static __always_inline __u32 flow_bucket_find(const struct flow_bucket *bucket, __u64 tag)
{
	__u32 home = flow_bucket_home(tag) % FLOW_BUCKET_SLOTS;

	if (flow_word_has(flow_bucket_word(bucket, home), tag))
		return home;
#pragma unroll
	for (__u32 i = 0; i < FLOW_BUCKET_SLOTS; i++)
		if (flow_word_has(flow_bucket_word(bucket, i), tag))
			return i;
	return FLOW_BUCKET_SLOTS;
}

/*
 * The best slot of a bucket for a new flow, where so many are taken: below FLOW_BUCKET_SLOTS it is free; FLOW_BUCKET_SLOTS
 * and more: a flow that has not gone on must go; twice that: there is none.
 */
static __always_inline __u32 flow_bucket_find_room(const struct flow_bucket *bucket, __u64 tag, __u32 used)
{
	__u32 slot = FLOW_BUCKET_SLOTS;

	if (used < FLOW_BUCKET_SLOTS)
		slot = flow_bucket_without(bucket, tag, FLOW_WORD_IS_TAKEN);
	if (slot < FLOW_BUCKET_SLOTS)
		return slot;
	return FLOW_BUCKET_SLOTS + flow_bucket_without(bucket, tag, FLOW_WORD_IS_REFERENCED | FLOW_WORD_IS_BUSY);
}

/* How many slots of a bucket are taken. */
static __always_inline __u32 flow_bucket_used(const struct flow_bucket *bucket)
{
	__u32 used = 0;

#pragma unroll
	for (__u32 i = 0; i < FLOW_BUCKET_SLOTS; i++)
		used += flow_bucket_word(bucket, i) >> FLOW_WORD_TAKEN_SHIFT;
	return used;
}

/* Has another slot the tag of this one? */
static __always_inline int flow_bucket_has_twin(const struct flow_bucket *bucket, __u32 slot, __u64 tag)
{
#pragma unroll
	for (__u32 i = 0; i < FLOW_BUCKET_SLOTS; i++)
		if (flow_word_has(flow_bucket_word(bucket, i), tag) && i != slot)
			return 1;
	return 0;
}

/* FLOW_WORD_MEASUREMENTS of the flow's word; 0 if it has none. */
static __always_inline __u32 flow_table_find_in(__u32 index, __u64 tag, struct flow_slot *found)
{
	struct flow_bucket *bucket = bpf_map_lookup_elem(&flow_buckets, &index);
	__u32 at = bucket ? flow_bucket_find(bucket, tag) : FLOW_BUCKET_SLOTS;
	__u64 word;

	if (!bucket || at >= FLOW_BUCKET_SLOTS)
		return 0;
	found->index = index * FLOW_BUCKET_SLOTS + at;
	word = flow_bucket_word(bucket, at);
	if (!(word & FLOW_WORD_IS_REFERENCED))
		__sync_fetch_and_or(&bucket->words[at % FLOW_BUCKET_SLOTS], FLOW_WORD_IS_REFERENCED);
	return word & FLOW_WORD_MEASUREMENTS;
}

/*
 * The slot of a flow, and its hash. Returns the state bits of the measurements that have something of it. This and
 * flow_table_claim are global functions: the verifier walks them once, and what they keep on the stack is not on their
 * callers'.
 */
__noinline __u32 flow_table_find(const struct flow_key *key, struct flow_slot *found)
{
	const struct flow_table *table = flow_table_settings();
	__u32 state_bits;
	__u64 tag;

	if (!key || !found)
		return 0;
	found->index = FLOW_NO_SLOT;
	found->hash = flow_table_hash(key, table);
	tag = flow_table_tag(found->hash);
	state_bits = flow_table_find_in(flow_table_first(found->hash, table), tag, found);
	if (found->index != FLOW_NO_SLOT)
		return state_bits;
	return flow_table_find_in(flow_table_second(found->hash, table), tag, found);
}

static __always_inline struct flow_bucket *flow_table_bucket_of(__u32 slot)
{
	__u32 index = slot / FLOW_BUCKET_SLOTS;

	return bpf_map_lookup_elem(&flow_buckets, &index);
}

/* All flows of a full bucket were used: from now on those count that are used again. */
static __always_inline void flow_bucket_forget_use(struct flow_bucket *bucket)
{
	__u32 i;

	for (i = 0; i < FLOW_BUCKET_SLOTS; i++) {
		__sync_fetch_and_and(&bucket->words[i % FLOW_BUCKET_SLOTS], ~FLOW_WORD_IS_REFERENCED);
		FLOW_OPAQUE(i);
	}
}

/*
 * A slot for a flow that has none, with its key. It fails if all flows of both buckets have gone on, who must do so again
 * from now on, or if another CPU was faster; the flow's next packet may succeed.
 */
static __always_inline int flow_table_insert(const struct flow_key *key, struct flow_slot *slot)
{
	const struct flow_table *table = flow_table_settings();
	__u32 index = flow_table_first(slot->hash, table), second = flow_table_second(slot->hash, table);
	struct flow_bucket *bucket = bpf_map_lookup_elem(&flow_buckets, &index);
	struct flow_bucket *other = bpf_map_lookup_elem(&flow_buckets, &second);
	__u64 tag = flow_table_tag(slot->hash), before;
	__u32 used, others, room, at;
	struct flow_key *own;

	if (!bucket || !other)
		return 0;
	used = flow_bucket_used(bucket);
	others = used >= FLOW_BUCKET_CROWDED ? flow_bucket_used(other) : used;
	room = flow_bucket_find_room(bucket, tag, used);
	if (others + 1 < used || room >= 2 * FLOW_BUCKET_SLOTS) {
		struct flow_bucket *full = bucket;

		bucket = other;
		index = second;
		room = flow_bucket_find_room(bucket, tag, others);
		if (room >= 2 * FLOW_BUCKET_SLOTS) {
			flow_bucket_forget_use(bucket);
			flow_bucket_forget_use(full);
			return 0;
		}
	}
	at = room % FLOW_BUCKET_SLOTS;
	before = flow_bucket_word(bucket, at);
	if (__sync_val_compare_and_swap(&bucket->words[at], before, tag | FLOW_WORD_IS_BUSY) != before)
		return 0;
	index = index * FLOW_BUCKET_SLOTS + at;
	own = bpf_map_lookup_elem(&flow_keys, &index);
	if (!own || flow_bucket_has_twin(bucket, at, tag)) {
		*(volatile __u64 *)&bucket->words[at] = 0;
		return 0;
	}
	/* Not by bpf_map_update_elem, which does not take what a global function was given before 6.6 or so. */
	*own = *key;
	slot->index = index;
	return 1;
}

/* The slot that another measurement got for the flow. It fails if another CPU writes there, or has done what is to be done. */
static __always_inline int flow_table_share(struct flow_slot *slot, __u64 state_bit)
{
	struct flow_bucket *bucket = flow_table_bucket_of(slot->index);
	__u32 at = slot->index % FLOW_BUCKET_SLOTS;
	__u64 before = bucket ? flow_bucket_word(bucket, at) : 0;

	return before && flow_word_has(before, flow_table_tag(slot->hash)) &&
	       !(before & (FLOW_WORD_IS_BUSY | state_bit)) &&
	       __sync_val_compare_and_swap(&bucket->words[at], before, before | FLOW_WORD_IS_BUSY) == before;
}

/*
 * A slot for what a measurement keeps of a flow of which it has nothing yet, as flow_table_find said. Others do not find it
 * there before the caller, who writes it, calls flow_table_publish.
 */
__noinline int flow_table_claim(const struct flow_key *key, struct flow_slot *slot, __u64 state_bit)
{
	if (!key || !slot)
		return 0;
	return slot->index == FLOW_NO_SLOT ? flow_table_insert(key, slot) : flow_table_share(slot, state_bit);
}

/* What this measurement keeps of the flow is there from now on. */
static __always_inline void flow_table_publish(const struct flow_slot *slot, __u64 state_bit)
{
	struct flow_bucket *bucket = flow_table_bucket_of(slot->index);

	if (bucket)
		__sync_fetch_and_xor(&bucket->words[slot->index % FLOW_BUCKET_SLOTS], FLOW_WORD_IS_BUSY | state_bit);
}

/* This measurement keeps nothing of the flow any more; if none does, the slot is free. */
static __always_inline void flow_table_leave(struct flow_slot *slot, __u64 state_bit)
{
	struct flow_bucket *bucket = flow_table_bucket_of(slot->index);
	__u32 at = slot->index % FLOW_BUCKET_SLOTS;
	__u64 before = bucket ? flow_bucket_word(bucket, at) : 0;

	if (!bucket)
		return;
	if ((before & (FLOW_WORD_MEASUREMENTS | FLOW_WORD_IS_BUSY)) == state_bit &&
	    __sync_val_compare_and_swap(&bucket->words[at], before, 0) == before)
		slot->index = FLOW_NO_SLOT;
	else
		__sync_fetch_and_and(&bucket->words[at], ~state_bit);
}

#endif
