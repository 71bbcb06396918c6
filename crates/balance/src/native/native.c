// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../bpf/encapsulate.h"
#include "../bpf/icmp.h"
#include "../bpf/quic.h"

__u32 fathom_balance_ring_entry(__u64 word, __u32 ring_size)
{
	return balance_ring_entry(word, ring_size);
}

static struct balance_connection *connection_at(struct balance_bucket *buckets, __u32 slot)
{
	return &buckets[slot / BALANCE_BUCKET_SLOTS].connections[slot % BALANCE_BUCKET_SLOTS];
}

__u32 fathom_balance_look_up(const struct balance_bucket *buckets, __u64 hash, const struct balance_config *config)
{
	__u32 index = balance_first_bucket(hash, config->bucket_mask);
	__u32 at = balance_find(&buckets[index], balance_tag(hash));

	if (at >= BALANCE_BUCKET_SLOTS) {
		index = balance_second_bucket(hash, config->bucket_mask);
		at = balance_find(&buckets[index], balance_tag(hash));
	}
	return at < BALANCE_BUCKET_SLOTS ? index * BALANCE_BUCKET_SLOTS + at : ~0U;
}

static struct balance_choice choose_in(const struct balance_bucket *bucket, __u64 tag, __u32 now,
				       const struct balance_config *config)
{
	__u32 rooms[BALANCE_BUCKET_SLOTS], first = balance_first_slot(tag), i;

	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++)
		rooms[i] = balance_room_at(&bucket->connections[(first + i) % BALANCE_BUCKET_SLOTS], now, config);
	return balance_choose(rooms, first);
}

/* All connections of a bucket are in use: has one room in its other bucket? */
static __u32 make_room(struct balance_bucket *buckets, __u32 index, __u32 now, const struct balance_config *config)
{
	__u32 i, other;

	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++) {
		struct balance_connection *own = &buckets[index].connections[i];
		struct balance_choice choice;

		other = balance_other_bucket(index, own->word, config->bucket_mask);
		choice = choose_in(&buckets[other], own->word, now, config);
		if (!balance_is_free(&choice))
			continue;
		balance_put(&buckets[other].connections[choice.slot], own);
		return index * BALANCE_BUCKET_SLOTS + i;
	}
	return ~0U;
}

__u32 fathom_balance_open(struct balance_bucket *buckets, __u64 hash, __u16 server, __u32 now,
			  const struct balance_config *config, __u32 *room)
{
	__u32 index = balance_first_bucket(hash, config->bucket_mask), slot;
	__u32 second_index = balance_second_bucket(hash, config->bucket_mask);
	struct balance_choice choice = choose_in(&buckets[index], hash, now, config);
	struct balance_choice other = choose_in(&buckets[second_index], hash, now, config);

	if (balance_prefers_second(&choice, &other)) {
		choice = other;
		index = second_index;
	}
	*room = choice.room;
	slot = index * BALANCE_BUCKET_SLOTS + choice.slot;
	if (choice.room >= BALANCE_ROOM_NONE) {
		slot = make_room(buckets, index, now, config);
		if (slot == ~0U)
			slot = make_room(buckets, second_index, now, config);
		if (slot == ~0U)
			return slot;
		*room = BALANCE_ROOM_UNUSED;
	}
	balance_write(connection_at(buckets, slot), balance_tag(hash), server, now, 0, IP_PROTOCOL_TCP, 0);
	return slot;
}

void fathom_balance_touch(struct balance_bucket *buckets, __u32 slot, __u32 now, int is_over)
{
	balance_touch(connection_at(buckets, slot), now, is_over ? BALANCE_IS_CLOSING : 0);
}

int fathom_balance_begins_anew(const struct balance_bucket *buckets, __u32 slot, int is_syn, __u32 now,
			       const struct balance_config *config)
{
	return balance_begins_anew(connection_at((struct balance_bucket *)buckets, slot), is_syn, now, config);
}

int fathom_balance_wrap(const __u8 *frame, __u32 length, const struct balance_server *server, __u8 *outer,
			__u32 *network)
{
	const struct balance_config config = { .quic_id_lengths = { 1, 2, 3, 4, 5, 6, 7, 8 } };
	const struct packet_bytes bytes = { .data = frame, .end = frame + length, .length = length };
	struct balance_packet packet = {}, quoted = {};
	struct balance_quic_id id = {};

	if (balance_read(&bytes, &packet) != BALANCE_COUNT_FORWARDED)
		return -1;
	/* These are not read: they go where their first went. */
	if (packet.flags & BALANCE_PACKET_IS_LATER)
		return -1;
	if (packet.protocol == IP_PROTOCOL_UDP)
		balance_read_quic_id(&bytes, &packet, &config, &id);
	if ((packet.protocol == IP_PROTOCOL_ICMP || packet.protocol == IP_PROTOCOL_ICMPV6) &&
	    (!balance_is_error(&packet) || !balance_read_quoted(&bytes, &packet, &quoted)))
		return -1;
	packet.hash = balance_hash(&packet, 1);
	*network = packet.network;
	if (packet.length + balance_overhead(server) > server->mtu)
		return -1;
	if (balance_overhead(server))
		balance_write_outer(outer, server, &packet);
	return balance_overhead(server);
}

#define X(name, text) text,
const char *const fathom_balance_counter_names[BALANCE_COUNTER_COUNT] = { BALANCE_COUNTERS(X) };
const char *const fathom_balance_check_counter_names[BALANCE_CHECK_COUNTER_COUNT] = { BALANCE_CHECK_COUNTERS(X) };
const char *const fathom_balance_encapsulation_names[BALANCE_ENCAPSULATION_COUNT] = { BALANCE_ENCAPSULATIONS(X) };
#undef X
