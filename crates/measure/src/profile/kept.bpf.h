/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel's part keeps of connections, and where it writes what it has to say. */
#ifndef FATHOM_PROFILE_KEPT_BPF_H
#define FATHOM_PROFILE_KEPT_BPF_H

#include "socket.bpf.h"

#include "../../bpf/ring.bpf.h"
#include "../../bpf/selection.h"
#include "profile.h"

#define E2BIG 7
#define EBUSY 16
#define PROFILE_CONNECTIONS 65536
#define PROFILE_RING_BYTES (8 << 20)
/* An attempt that waits for so long has been told of, and its slot may be had. */
#define PROFILE_ATTEMPT_NS 4000000000ULL

const volatile struct profile_config profile_config SEC(".rodata.profile_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* Of connections that had duplicates, reordering, wrong checksums or stalls; gone when they close. Full: counted, and that
 * connection's profiles have none of these. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct profile_disorder);
} profile_disorders SEC(".maps");

/* Connections with an entry in profile_disorders; while there are none, as on a healthy host, nobody looks. */
__u32 profile_disordered;

/* Of most connections, each in the place that its cookie says if that was free when it was opened; free again when it closes. Such
 * a place is found without a search, made without an allocation, and 320 KB for all. User space reads it. Taken: what would be in
 * it goes to the ring and to profile_all_round_trips. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFILE_SLOTS);
	__type(key, __u32);
	__type(value, struct profile_slot);
} profile_slots SEC(".maps");

/* Of connections without a slot, since they were established; gone when they close. Full: counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PROFILE_CONNECTIONS);
	__type(key, __u64);
	__type(value, struct profile_round_trips);
} profile_all_round_trips SEC(".maps");

/* The moments, for user space. Full: the moment is lost, and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PROFILE_RING_BYTES);
} profile_moments SEC(".maps");

/* What went wrong, by name; written by every probe. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROFILE_COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} profile_counters SEC(".maps");

static __always_inline void profile_submit(void *moment)
{
	bpf_ringbuf_submit(moment, ring_wake(&profile_moments, PROFILE_RING_BYTES));
}

static __always_inline void profile_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&profile_counters, &counter);

	if (value)
		++*value;
}

/* Room for a moment; none is counted. A macro, for the verifier wants the size as a constant. */
#define PROFILE_RESERVE(bytes)                                                                                         \
	({                                                                                                             \
		void *room = bpf_ringbuf_reserve(&profile_moments, (bytes), 0);                                        \
                                                                                                                       \
		if (!room)                                                                                             \
			profile_count(PROFILE_COUNT_MOMENTS_LOST);                                                     \
		room;                                                                                                  \
	})

/* What a connection had of it, if it had any. */
static __always_inline struct profile_disorder *profile_find_disorder(__u64 connection)
{
	return profile_disordered ? bpf_map_lookup_elem(&profile_disorders, &connection) : 0;
}

static __always_inline struct profile_disorder *profile_disorder_of(__u64 connection)
{
	static const struct profile_disorder empty = {};
	struct profile_disorder *disorder = profile_find_disorder(connection);

	if (disorder)
		return disorder;
	if (bpf_map_update_elem(&profile_disorders, &connection, &empty, BPF_NOEXIST))
		profile_count(PROFILE_COUNT_DISORDER_REFUSED);
	else
		__sync_fetch_and_add(&profile_disordered, 1);
	return bpf_map_lookup_elem(&profile_disorders, &connection);
}

/* The place of a connection, whoever has it. */
static __always_inline struct profile_slot *profile_place(__u64 connection)
{
	__u32 index = connection % PROFILE_SLOTS;

	return bpf_map_lookup_elem(&profile_slots, &index);
}

/* The slot of a connection, if it has one. */
static __always_inline struct profile_slot *profile_slot(__u64 connection)
{
	struct profile_slot *slot = profile_place(connection);

	return slot && slot->connection == connection ? slot : 0;
}

/* The same, made if its place is free. */
static __always_inline struct profile_slot *profile_claim(__u64 connection)
{
	struct profile_slot *slot = profile_place(connection);
	__u64 owner;

	if (!slot || slot->connection == connection)
		return slot;
	owner = slot->connection;
	/* The read of the clock is for those that have had no route: rare. */
	if (owner &&
	    (slot->moment != PROFILE_ATTEMPT || !slot->since || bpf_ktime_get_ns() < slot->since + PROFILE_ATTEMPT_NS))
		return 0;
	if (__sync_val_compare_and_swap(&slot->connection, owner, connection) != owner)
		return 0;
	slot->since = 0;
	slot->moment = 0;
	slot->round_trips = (struct profile_round_trips){};
	return slot;
}

static __always_inline void profile_release(struct profile_slot *slot)
{
	slot->since = 0;
	slot->moment = 0;
	slot->round_trips = (struct profile_round_trips){};
	__sync_lock_test_and_set(&slot->connection, 0);
}

static __always_inline void profile_give_up(__u64 connection)
{
	struct profile_slot *slot = profile_slot(connection);

	if (slot)
		profile_release(slot);
}

/* Round trips of a connection, if they are counted. */
static __always_inline struct profile_round_trips *profile_find_round_trips(__u64 connection)
{
	struct profile_slot *slot = profile_slot(connection);

	return slot ? &slot->round_trips : bpf_map_lookup_elem(&profile_all_round_trips, &connection);
}

/* Begins to count round trips of a connection. Others may call back too, for somebody else. */
static __always_inline void profile_follow(__u64 connection)
{
	static const struct profile_round_trips empty = {};

	if (!profile_claim(connection) && profile_config.callbacks & BPF_SOCK_OPS_RTT_CB_FLAG &&
	    bpf_map_update_elem(&profile_all_round_trips, &connection, &empty, BPF_NOEXIST) == -E2BIG)
		profile_count(PROFILE_COUNT_ROUND_TRIPS_REFUSED);
}

static __always_inline void profile_forget(__u64 connection)
{
	struct profile_slot *slot = profile_slot(connection);

	if (profile_disordered && !bpf_map_delete_elem(&profile_disorders, &connection))
		__sync_fetch_and_sub(&profile_disordered, 1);
	if (slot)
		profile_release(slot);
	else
		bpf_map_delete_elem(&profile_all_round_trips, &connection);
}

#endif
