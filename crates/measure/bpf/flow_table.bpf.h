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

#define FLOW_NO_SLOT 0xffffffffU

/* Without its volatile, as pure functions take it; the barrier hides from the compiler that it is constant, and all zeros. */
static __always_inline const struct flow_table *flow_table_settings(void)
{
	const struct flow_table *table = (const struct flow_table *)&flow_table;

	asm volatile("" : "+r"(table));
	return table;
}

static __always_inline __u32 flow_table_find_in(__u32 index, __u64 tag)
{
	struct flow_bucket *bucket = bpf_map_lookup_elem(&flow_buckets, &index);
	__u32 at = bucket ? flow_bucket_find(bucket, tag) : FLOW_BUCKET_SLOTS;

	if (!bucket || at >= FLOW_BUCKET_SLOTS)
		return FLOW_NO_SLOT;
	if (!(flow_bucket_word(bucket, at) & FLOW_WORD_IS_REFERENCED))
		__sync_fetch_and_or(&bucket->words[at % FLOW_BUCKET_SLOTS], FLOW_WORD_IS_REFERENCED);
	return index * FLOW_BUCKET_SLOTS + at;
}

/*
 * The slot of a flow, and its hash; FLOW_NO_SLOT: it has none. This and flow_table_claim are global functions: the
 * verifier walks them once, and what they keep on the stack is not on their callers'.
 */
__noinline __u32 flow_table_find(const struct flow_key *key, __u64 *hash)
{
	const struct flow_table *table = flow_table_settings();
	__u64 tag;
	__u32 slot;

	if (!key || !hash)
		return FLOW_NO_SLOT;
	*hash = flow_table_hash(key, table);
	tag = flow_table_tag(*hash);
	slot = flow_table_find_in(flow_table_first(*hash, table), tag);
	return slot != FLOW_NO_SLOT ? slot : flow_table_find_in(flow_table_second(*hash, table), tag);
}

static __always_inline struct flow_bucket *flow_table_bucket_of(__u32 slot)
{
	__u32 index = slot / FLOW_BUCKET_SLOTS;

	return bpf_map_lookup_elem(&flow_buckets, &index);
}

static __always_inline void flow_table_free(__u32 slot)
{
	struct flow_bucket *bucket = flow_table_bucket_of(slot);

	if (bucket)
		*(volatile __u64 *)&bucket->words[slot % FLOW_BUCKET_SLOTS] = 0;
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
 * A slot for a flow that has none, with its key. FLOW_NO_SLOT: all flows of both buckets have gone on, and must do so again
 * from now on, or another CPU was faster; the flow's next packet may find one. The flow is not found before the caller,
 * who writes what it keeps there, calls flow_table_publish.
 */
__noinline __u32 flow_table_claim(const struct flow_key *key, __u64 hash)
{
	const struct flow_table *table = flow_table_settings();
	__u32 index = flow_table_first(hash, table), second = flow_table_second(hash, table);
	struct flow_bucket *bucket = bpf_map_lookup_elem(&flow_buckets, &index);
	struct flow_bucket *other = bpf_map_lookup_elem(&flow_buckets, &second);
	__u64 tag = flow_table_tag(hash), before;
	__u32 used, room, at, slot;
	struct flow_key *own;

	if (!key || !bucket || !other)
		return FLOW_NO_SLOT;
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
			return FLOW_NO_SLOT;
		}
	}
	at = room % FLOW_BUCKET_SLOTS;
	before = flow_bucket_word(bucket, at);
	if (__sync_val_compare_and_swap(&bucket->words[at], before, tag) != before)
		return FLOW_NO_SLOT;
	slot = index * FLOW_BUCKET_SLOTS + at;
	own = bpf_map_lookup_elem(&flow_keys, &slot);
	if (!own || flow_bucket_has_twin(bucket, at, tag)) {
		flow_table_free(slot);
		return FLOW_NO_SLOT;
	}
	/* Not by bpf_map_update_elem, which does not take what a global function was given before 6.6 or so. */
	*own = *key;
	return slot;
}

/* The flow has its slot: others find it from now on. */
static __always_inline void flow_table_publish(__u32 slot)
{
	struct flow_bucket *bucket = flow_table_bucket_of(slot);

	if (bucket)
		*(volatile __u64 *)&bucket->words[slot % FLOW_BUCKET_SLOTS] |= FLOW_WORD_IS_READY;
}

#endif
