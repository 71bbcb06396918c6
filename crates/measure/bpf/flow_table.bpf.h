/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of flows in the kernel. A measurement keeps what it knows of a flow in an array of its own, by the number of
 * the flow's slot. The kernel's LRU hash takes twice as long for a new flow, and cannot be asked once for all
 * measurements.
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
	__u32 used, room, at;
	struct flow_key *own;

	if (!bucket || !other)
		return 0;
	used = flow_bucket_used(bucket);
	room = flow_bucket_find_room(bucket, tag);
	if ((used >= FLOW_BUCKET_CROWDED && flow_bucket_used(other) + 1 < used) || room >= 2 * FLOW_BUCKET_SLOTS) {
		struct flow_bucket *full = bucket;

		bucket = other;
		index = second;
		room = flow_bucket_find_room(bucket, tag);
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

	return before && (before & ~FLOW_WORD_FLAGS) == flow_table_tag(slot->hash) &&
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
