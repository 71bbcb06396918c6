/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which server has a flow: the ring of its service, and the table of connections in the kernel. */
#ifndef FATHOM_BALANCE_CONNECTIONS_BPF_H
#define FATHOM_BALANCE_CONNECTIONS_BPF_H

#include "maps.bpf.h"
#include "read.h"
#include "table.h"

/* Of the packets for which the ring would be enough, one of so many is looked up still, less one: that keeps the connection's slot. */
#define BALANCE_LOOK_ANYWAY 15

/* Without its volatile, as pure functions take it; the barrier hides from the compiler that it is constant, and all zeros. */
static __always_inline const struct balance_config *balance_settings(void)
{
	const struct balance_config *config = (const struct balance_config *)&balance_config;

	asm volatile("" : "+r"(config));
	return config;
}

static __always_inline struct balance_bucket *balance_bucket_at(__u32 index)
{
	return bpf_map_lookup_elem(&balance_buckets, &index);
}

static __always_inline void balance_put_measured(__u32 to, __u32 from)
{
	struct balance_measured *target = bpf_map_lookup_elem(&balance_measured, &to);
	const struct balance_measured *measured = bpf_map_lookup_elem(&balance_measured, &from);

	if (target && measured)
		*target = *measured;
}

/* In units of the table. */
static __always_inline __u32 balance_time(void)
{
	__u64 tick_ns = balance_config.tick_ns ? balance_config.tick_ns : BALANCE_TICK_NS;

	return bpf_jiffies64() * tick_ns >> BALANCE_TIME_SHIFT;
}

/* The element of the ring that has the flow's entry, and its lane there. */
static __always_inline struct balance_ring_element *balance_ring_element_of(const struct balance_service *service,
									    __u64 hash, __u32 *lane)
{
	__u32 entry = balance_ring_entry(hash, service->ring_size);
	__u32 index = service->ring_begin + entry / BALANCE_RING_LANES;

	*lane = entry % BALANCE_RING_LANES;
	return bpf_map_lookup_elem(&balance_rings, &index);
}

/* The flow's entry of the ring. */
static __always_inline __u16 balance_look_at_ring(const struct balance_service *service, __u64 hash)
{
	__u32 lane;
	const struct balance_ring_element *element = balance_ring_element_of(service, hash, &lane);

	if (!element || !service->ring_size)
		return BALANCE_NO_SERVER;
	return *(const volatile __u16 *)&element->entries[lane];
}

/*
 * A connection has been opened here: until it is confirmed, its packets must find it in the table, or it would lose its slot there. The mark is set after
 * the connection was written, so a CPU that does not see the mark sees the connection.
 */
static __always_inline void balance_freshen(const struct balance_service *service, __u64 hash)
{
	__u32 lane;
	__u64 *word = (__u64 *)balance_ring_element_of(service, hash, &lane);
	__u64 mark = (__u64)BALANCE_ENTRY_IS_FRESH << 16 * lane;

	if (word && !(BALANCE_LOAD(*word) & mark))
		__sync_fetch_and_or(word, mark);
}

#endif
