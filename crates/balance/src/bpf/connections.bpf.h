/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which server has a flow: the ring of its service, and the table of connections. */
#ifndef FATHOM_BALANCE_CONNECTIONS_BPF_H
#define FATHOM_BALANCE_CONNECTIONS_BPF_H

#include "maps.bpf.h"
#include "read.h"
#include "table.h"

/* Of the packets for which the ring would be enough, one of so many is looked up still, less one: that keeps the connection's place. */
#define BALANCE_LOOK_ANYWAY 15

/* Without its volatile, as pure functions take it; the barrier hides from the compiler that it is constant, and all zeros. */
static __always_inline const struct balance_config *balance_settings(void)
{
	const struct balance_config *config = (const struct balance_config *)&balance_config;

	asm volatile("" : "+r"(config));
	return config;
}

/* The place of the ring where the flow stands. */
static __always_inline __u16 balance_look_at_ring(const struct balance_service *service, __u64 hash)
{
	__u32 place = balance_ring_place(hash, service->ring_size);
	__u32 index = service->ring_begin + place / BALANCE_RING_LANES;
	const struct balance_ring_element *element = bpf_map_lookup_elem(&balance_rings, &index);

	if (!element || !service->ring_size)
		return BALANCE_NO_SERVER;
	return *(const volatile __u16 *)&element->places[place % BALANCE_RING_LANES];
}

/* The flow's connection, and the number of its place. */
static __always_inline struct balance_connection *balance_look_up(__u64 hash, __u32 *place)
{
	__u64 tag = balance_tag(hash);
	__u32 index = balance_first_bucket(hash, balance_config.bucket_mask);
	struct balance_bucket *bucket = bpf_map_lookup_elem(&balance_buckets, &index);
	__u32 at;

	if (!bucket)
		return 0;
	at = balance_find(bucket, tag);
	if (at >= BALANCE_BUCKET_PLACES) {
		index = balance_second_bucket(hash, balance_config.bucket_mask);
		bucket = bpf_map_lookup_elem(&balance_buckets, &index);
		if (!bucket)
			return 0;
		at = balance_find(bucket, tag);
		if (at >= BALANCE_BUCKET_PLACES)
			return 0;
	}
	*place = index * BALANCE_BUCKET_PLACES + at;
	return &bucket->connections[at];
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

/* Gives a flow that is not in the table a place, with its server. Returns the number of the place and 1; 0: there is none. */
__noinline int balance_open(struct balance_packet *packet, struct balance_cpu *cpu, __u32 now)
{
	struct balance_choice first_choice, second_choice;
	struct balance_bucket *bucket, *second;
	__u32 index, second_index;

	if (!packet || !cpu)
		return 0;
	index = balance_first_bucket(packet->hash, balance_config.bucket_mask);
	second_index = balance_second_bucket(packet->hash, balance_config.bucket_mask);
	bucket = bpf_map_lookup_elem(&balance_buckets, &index);
	second = bpf_map_lookup_elem(&balance_buckets, &second_index);
	if (!bucket || !second)
		return 0;
	first_choice = balance_choose_in(bucket, now, balance_settings());
	second_choice = balance_choose_in(second, now, balance_settings());
	if (balance_prefers_second(&first_choice, &second_choice)) {
		bucket = second;
		index = second_index;
		first_choice = second_choice;
	}
	if (first_choice.room == BALANCE_ROOM_NONE || first_choice.place >= BALANCE_BUCKET_PLACES) {
		cpu->counters[BALANCE_COUNT_REFUSED]++;
		return 0;
	}
	balance_count_room(cpu, first_choice.room);
	cpu->counters[BALANCE_COUNT_OPENED]++;
	balance_write(&bucket->connections[first_choice.place], balance_tag(packet->hash), packet->server, now,
		      packet->service, packet->protocol);
	return index * BALANCE_BUCKET_PLACES + first_choice.place + 1;
}

/* The server of a flow is gone: its next one is that of the ring. Returns whether there is one. */
__noinline int balance_move(struct balance_packet *packet, struct balance_cpu *cpu)
{
	struct balance_connection *connection;
	__u32 place;

	if (!packet || !cpu)
		return 0;
	if (packet->server == packet->ring || packet->ring == BALANCE_NO_SERVER)
		return 0;
	packet->server = packet->ring;
	cpu->counters[BALANCE_COUNT_MOVED]++;
	connection = balance_look_up(packet->hash, &place);
	if (connection)
		BALANCE_STORE(connection->word, balance_tag(packet->hash) | packet->server);
	return 1;
}

#endif
