/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which server has a flow: the ring of its service, and the table of connections. */
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

/* The flow's connection, and the number of its slot. */
static __always_inline struct balance_connection *balance_look_up(__u64 hash, __u32 *slot)
{
	__u64 tag = balance_tag(hash);
	__u32 index = balance_first_bucket(hash, balance_config.bucket_mask);
	struct balance_bucket *bucket = bpf_map_lookup_elem(&balance_buckets, &index);
	__u32 at;

	if (!bucket)
		return 0;
	at = balance_find(bucket, tag);
	if (at >= BALANCE_BUCKET_SLOTS) {
		index = balance_second_bucket(hash, balance_config.bucket_mask);
		bucket = bpf_map_lookup_elem(&balance_buckets, &index);
		if (!bucket)
			return 0;
		at = balance_find(bucket, tag);
		if (at >= BALANCE_BUCKET_SLOTS)
			return 0;
	}
	*slot = index * BALANCE_BUCKET_SLOTS + at;
	return &bucket->connections[at];
}

/* What a connection remembers of whether this packet is measured. */
static __always_inline __u8 balance_mark(const struct balance_packet *packet)
{
	return packet->flags & BALANCE_PACKET_IS_MEASURED ? BALANCE_WAS_MEASURED : 0;
}

static __always_inline void balance_count_room(struct balance_cpu *cpu, __u32 room)
{
	if (room == BALANCE_ROOM_OPENING || room == BALANCE_ROOM_ABANDONED)
		cpu->counters[BALANCE_COUNT_REPLACED_OPENING]++;
	else if (room == BALANCE_ROOM_CLOSED)
		cpu->counters[BALANCE_COUNT_REPLACED_CLOSED]++;
	else if (room == BALANCE_ROOM_IDLE)
		cpu->counters[BALANCE_COUNT_REPLACED_IDLE]++;
}

/*
 * Global, so that the verifier walks it once and takes any number for its result: inline, balance_open takes 378,000 instructions of the million that it
 * may walk (6.18).
 */
__noinline int balance_room_of(struct balance_connection *connection, __u32 now)
{
	return connection ? balance_room_at(connection, now, balance_settings()) : BALANCE_ROOM_NONE;
}

static __always_inline struct balance_choice balance_choose_in(struct balance_bucket *bucket, __u64 tag, __u32 now)
{
	__u32 rooms[BALANCE_BUCKET_SLOTS], first = balance_first_slot(tag), i;

#pragma unroll
	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++)
		rooms[i] = balance_room_of(&bucket->connections[(first + i) % BALANCE_BUCKET_SLOTS], now);
	return balance_choose(rooms, first);
}

/* What is measured of a connection goes with it. */
static __always_inline void balance_put_measured(__u32 to, __u32 from)
{
	struct balance_measured *target = bpf_map_lookup_elem(&balance_measured, &to);
	const struct balance_measured *measured = bpf_map_lookup_elem(&balance_measured, &from);

	if (target && measured)
		*target = *measured;
}

/*
 * All connections of a bucket are in use: can one of them go to its other bucket? Then its slot is unused; returns whether one could. Not called within
 * balance_open: before Linux 6.12 or so, all calls at a time have 512 bytes of stack together.
 */
__noinline int balance_make_room(struct balance_cpu *cpu, __u32 index, __u32 now)
{
	struct balance_bucket *bucket = bpf_map_lookup_elem(&balance_buckets, &index), *other;
	struct balance_choice choice;
	__u32 i, other_index;
	__u64 word;

	if (!bucket || !cpu)
		return 0;
	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++) {
		word = BALANCE_LOAD(bucket->connections[i].word);
		other_index = balance_other_bucket(index, word, balance_config.bucket_mask);
		other = bpf_map_lookup_elem(&balance_buckets, &other_index);
		if (!other)
			continue;
		choice = balance_choose_in(other, word, now);
		if (!balance_is_free(&choice) || choice.slot >= BALANCE_BUCKET_SLOTS)
			continue;
		balance_count_room(cpu, choice.room);
		cpu->counters[BALANCE_COUNT_RELOCATED]++;
		if (balance_config.is_measuring)
			balance_put_measured(other_index * BALANCE_BUCKET_SLOTS + choice.slot,
					     index * BALANCE_BUCKET_SLOTS + i);
		balance_put(&other->connections[choice.slot], &bucket->connections[i]);
		BALANCE_STORE(bucket->connections[i].word, 0);
		return 1;
	}
	return 0;
}

/* The best slot for a flow, in its two buckets. Returns its number and 1; 0: there is none. */
static __always_inline __u32 balance_find_room(struct balance_cpu *cpu, __u64 hash, __u32 now)
{
	__u32 index = balance_first_bucket(hash, balance_config.bucket_mask);
	__u32 second_index = balance_second_bucket(hash, balance_config.bucket_mask);
	struct balance_bucket *bucket = bpf_map_lookup_elem(&balance_buckets, &index);
	struct balance_bucket *second = bpf_map_lookup_elem(&balance_buckets, &second_index);
	struct balance_choice choice, other;

	if (!bucket || !second)
		return 0;
	choice = balance_choose_in(bucket, hash, now);
	other = balance_choose_in(second, hash, now);
	if (balance_prefers_second(&choice, &other)) {
		index = second_index;
		choice = other;
	}
	if (choice.room >= BALANCE_ROOM_NONE)
		return 0;
	balance_count_room(cpu, choice.room);
	return index * BALANCE_BUCKET_SLOTS + choice.slot + 1;
}

/* Puts a flow that is not in the table there, with its server. Returns the number of its slot and 1; 0: there is none. */
__noinline int balance_open(struct balance_packet *packet, struct balance_cpu *cpu, __u32 now)
{
	struct balance_bucket *bucket;
	__u32 slot, index;

	if (!packet || !cpu)
		return 0;
	slot = balance_find_room(cpu, packet->hash, now);
	if (!slot)
		return 0;
	index = (slot - 1) / BALANCE_BUCKET_SLOTS;
	bucket = bpf_map_lookup_elem(&balance_buckets, &index);
	if (!bucket)
		return 0;
	cpu->counters[BALANCE_COUNT_OPENED]++;
	balance_write(&bucket->connections[(slot - 1) % BALANCE_BUCKET_SLOTS], balance_tag(packet->hash),
		      packet->server, now, packet->service, packet->protocol, balance_mark(packet));
	return slot;
}

/* The same, and if there is no slot, moves others for one. */
static __always_inline __u32 balance_keep(struct balance_packet *packet, struct balance_cpu *cpu, __u32 now)
{
	__u32 mask = balance_config.bucket_mask, slot = balance_open(packet, cpu, now);

	if (!slot && (balance_make_room(cpu, balance_first_bucket(packet->hash, mask), now) ||
		      balance_make_room(cpu, balance_second_bucket(packet->hash, mask), now)))
		slot = balance_open(packet, cpu, now);
	if (!slot)
		cpu->counters[BALANCE_COUNT_REFUSED]++;
	return slot;
}

/* The server of a flow is gone: its next one is that of the ring. Returns whether there is one. */
__noinline int balance_move(struct balance_packet *packet, struct balance_cpu *cpu)
{
	struct balance_connection *connection;
	__u32 slot;

	if (!packet || !cpu)
		return 0;
	if (packet->server == packet->ring || packet->ring == BALANCE_NO_SERVER)
		return 0;
	packet->server = packet->ring;
	cpu->counters[BALANCE_COUNT_MOVED]++;
	connection = balance_look_up(packet->hash, &slot);
	if (connection)
		BALANCE_STORE(connection->word, balance_tag(packet->hash) | packet->server);
	return 1;
}

#endif
