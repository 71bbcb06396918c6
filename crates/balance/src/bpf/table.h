/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of connections. A flow may be in one of two buckets of four slots. It is found by 48 bits of its hash, which with the bucket's
 * number identify it. Pure, over functions that the includer gives; the time is an argument.
 *
 * A new flow takes a slot that is unused, or whose connection is over or was silent for long; if there is none, one whose connection can go to its other
 * bucket. It never drives out a connection which is in use, and of those that have sent their first packet and nothing else a bucket has one at most: the next such flow takes its slot. So a
 * flood of SYNs, from whatever addresses, occupies a quarter of the table, and drives no established connection out.
 */
#ifndef FATHOM_BALANCE_TABLE_H
#define FATHOM_BALANCE_TABLE_H

#include "balance.h"
#include "read.h"

#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif

#define BALANCE_SERVER_BITS 16
/* By so many slots the first bucket may be fuller than the second. */
#ifndef BALANCE_FULLER
#define BALANCE_FULLER 2
#endif

/* Words are read and written by many CPUs: each access is one. */
#define BALANCE_LOAD(word) (*(const volatile __u64 *)&(word))
#define BALANCE_STORE(word, value) (*(volatile __u64 *)&(word) = (value))

/* Why a slot of a bucket can be taken; within a bucket the first of these that there is. */
enum balance_room {
	BALANCE_ROOM_OPENING, /* only opened: who comes next must take this one */
	BALANCE_ROOM_UNUSED,
	BALANCE_ROOM_ABANDONED, /* only opened, long ago */
	BALANCE_ROOM_CLOSED,
	BALANCE_ROOM_IDLE,
	BALANCE_ROOM_NONE,
};

/* The best slot of a bucket. */
struct balance_choice {
	__u32 room; /* enum balance_room */
	__u32 slot;
	__u32 used; /* slots of the bucket */
};

/* What identifies a flow: where the server's number will be, there are zeros. Never 0. */
static __always_inline __u64 balance_tag(__u64 hash)
{
	__u64 tag = hash >> BALANCE_SERVER_BITS << BALANCE_SERVER_BITS;

	return tag ? tag : 1 << BALANCE_SERVER_BITS;
}

static __always_inline __u32 balance_first_bucket(__u64 hash, __u32 mask)
{
	return hash & mask;
}

/* The other bucket of a flow that is in this one; by its word or its hash, which agree in the bits that tell. Another one, unless the mask is 0. */
static __always_inline __u32 balance_other_bucket(__u32 bucket, __u64 word, __u32 mask)
{
	return (bucket ^ (word >> 29 | 1)) & mask;
}

static __always_inline __u32 balance_second_bucket(__u64 hash, __u32 mask)
{
	return balance_other_bucket(hash, hash, mask);
}

static __always_inline int balance_is_of(__u64 word, __u64 tag)
{
	return (word ^ tag) >> BALANCE_SERVER_BITS == 0;
}

/*
 * Where in a bucket a flow is looked for first, and is put if it can be. A CPU that expects it there knows where its measurements are before the bucket has
 * come from memory, and has both fetched at once.
 */
static __always_inline __u32 balance_first_slot(__u64 tag)
{
	return tag >> 44 & (BALANCE_BUCKET_SLOTS - 1);
}

/* The slot of a flow in a bucket; BALANCE_BUCKET_SLOTS: it is not there. */
static __always_inline __u32 balance_find(const struct balance_bucket *bucket, __u64 tag)
{
	__u32 i;

	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++) {
		__u32 slot = (balance_first_slot(tag) + i) % BALANCE_BUCKET_SLOTS;

		if (balance_is_of(BALANCE_LOAD(bucket->connections[slot].word), tag))
			return slot;
	}
	return BALANCE_BUCKET_SLOTS;
}

/* Units since it was used. Another processor may have been here with a later time. */
static __always_inline __u32 balance_age(const struct balance_connection *connection, __u32 now)
{
	__s32 age = now - connection->used;

	return age > 0 ? age : 0;
}

static __always_inline enum balance_room balance_room_at(const struct balance_connection *connection, __u32 now,
							 const struct balance_config *config)
{
	__u32 age = balance_age(connection, now);

	if (!BALANCE_LOAD(connection->word))
		return BALANCE_ROOM_UNUSED;
	if (!(connection->flags & BALANCE_IS_CONFIRMED))
		return age > config->opening ? BALANCE_ROOM_ABANDONED : BALANCE_ROOM_OPENING;
	if (connection->flags & BALANCE_IS_CLOSING && age > config->closing)
		return BALANCE_ROOM_CLOSED;
	return age > config->idle ? BALANCE_ROOM_IDLE : BALANCE_ROOM_NONE;
}

/* The best slot of a bucket, of those from `first` on, which have these rooms. */
static __always_inline struct balance_choice balance_choose(const __u32 rooms[BALANCE_BUCKET_SLOTS], __u32 first)
{
	struct balance_choice best = { .room = rooms[0], .used = rooms[0] != BALANCE_ROOM_UNUSED };
	__u32 i;

	for (i = 1; i < BALANCE_BUCKET_SLOTS; i++) {
		best.used += rooms[i] != BALANCE_ROOM_UNUSED;
		if (rooms[i] < best.room) {
			best.room = rooms[i];
			best.slot = i;
		}
	}
	best.slot = (first + best.slot) % BALANCE_BUCKET_SLOTS;
	return best;
}

/* What it costs others to take such a room; the less, the better. */
static __always_inline __u32 balance_price(__u32 room)
{
	return room == BALANCE_ROOM_OPENING ? 2 * BALANCE_ROOM_IDLE + 1 : 2 * room;
}

/*
 * In which of the two buckets? The better room. Where there are unused slots in both: in the first, which costs each later packet one cache
 * line less, unless it is fuller by two.
 */
static __always_inline int balance_prefers_second(const struct balance_choice *first,
						  const struct balance_choice *second)
{
	if (first->room == BALANCE_ROOM_UNUSED && second->room == BALANCE_ROOM_UNUSED)
		return first->used >= second->used + BALANCE_FULLER;
	return balance_price(second->room) < balance_price(first->room);
}

/* May a connection that is in use be put there? */
static __always_inline int balance_is_free(const struct balance_choice *choice)
{
	return choice->room != BALANCE_ROOM_OPENING && choice->room < BALANCE_ROOM_NONE;
}

/* Puts a connection elsewhere. It is found in one of the two slots throughout. */
static __always_inline void balance_put(struct balance_connection *to, const struct balance_connection *from)
{
	BALANCE_STORE(*(&to->word + 1), BALANCE_LOAD(*(&from->word + 1)));
	BALANCE_STORE(to->word, BALANCE_LOAD(from->word));
}

/* The word last: who finds it, finds the rest. */
static __always_inline void balance_write(struct balance_connection *connection, __u64 tag, __u32 server, __u32 now,
					  __u16 service, __u8 protocol, __u8 flags)
{
	struct balance_connection fresh = { .used = now, .service = service, .flags = flags, .protocol = protocol };

	BALANCE_STORE(*(&connection->word + 1), *(&fresh.word + 1));
	BALANCE_STORE(connection->word, tag | server);
}

/*
 * A packet of a connection that is there; `flags`: whether it ends it, and whether it is measured. Stores only what changes: the line of a busy flow
 * stays shared.
 */
static __always_inline void balance_touch(struct balance_connection *connection, __u32 now, __u8 flags)
{
	flags |= (connection->flags & ~BALANCE_WAS_MEASURED) | BALANCE_IS_CONFIRMED;
	if (connection->used != now)
		connection->used = now;
	if (connection->flags != flags)
		connection->flags = flags;
}

/* Is a SYN, or a datagram, the first of another connection? A SYN that is repeated is not, nor one amid a connection: anybody can forge that. */
static __always_inline int balance_begins_anew(const struct balance_connection *connection, int is_syn, __u32 now,
					       const struct balance_config *config)
{
	__u32 age = balance_age(connection, now);

	if (!is_syn)
		return connection->protocol != IP_PROTOCOL_TCP && age > config->datagram_idle;
	if (!(connection->flags & BALANCE_IS_CONFIRMED))
		return age > config->opening;
	return connection->flags & BALANCE_IS_CLOSING || age > config->closing;
}

/* The includer has the table: in maps, or natively in memory. Where there is no bucket of that number: null. */
static struct balance_bucket *balance_bucket_at(__u32 index);
static const struct balance_config *balance_settings(void);
/* What is measured of a connection goes with it to another slot. */
static void balance_put_measured(__u32 to, __u32 from);

/* The flow's connection, and the number of its slot. */
static __always_inline struct balance_connection *balance_look_up(__u64 hash, __u32 *slot)
{
	__u64 tag = balance_tag(hash);
	__u32 index = balance_first_bucket(hash, balance_settings()->bucket_mask);
	struct balance_bucket *bucket = balance_bucket_at(index);
	__u32 at;

	if (!bucket)
		return 0;
	at = balance_find(bucket, tag);
	if (at >= BALANCE_BUCKET_SLOTS) {
		index = balance_second_bucket(hash, balance_settings()->bucket_mask);
		bucket = balance_bucket_at(index);
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

/*
 * All connections of a bucket are in use: can one of them go to its other bucket? Then its slot is unused; returns whether one could. Not called within
 * balance_open: before Linux 6.12 or so, all calls at a time have 512 bytes of stack together.
 */
__noinline int balance_make_room(struct balance_cpu *cpu, __u32 index, __u32 now)
{
	struct balance_bucket *bucket = balance_bucket_at(index), *other;
	struct balance_choice choice;
	__u32 i, other_index;
	__u64 word;

	if (!bucket || !cpu)
		return 0;
	for (i = 0; i < BALANCE_BUCKET_SLOTS; i++) {
		word = BALANCE_LOAD(bucket->connections[i].word);
		other_index = balance_other_bucket(index, word, balance_settings()->bucket_mask);
		other = balance_bucket_at(other_index);
		if (!other)
			continue;
		choice = balance_choose_in(other, word, now);
		if (!balance_is_free(&choice) || choice.slot >= BALANCE_BUCKET_SLOTS)
			continue;
		balance_count_room(cpu, choice.room);
		cpu->counters[BALANCE_COUNT_RELOCATED]++;
		if (balance_settings()->is_measuring)
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
	__u32 index = balance_first_bucket(hash, balance_settings()->bucket_mask);
	__u32 second_index = balance_second_bucket(hash, balance_settings()->bucket_mask);
	struct balance_bucket *bucket = balance_bucket_at(index);
	struct balance_bucket *second = balance_bucket_at(second_index);
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
	bucket = balance_bucket_at(index);
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
	__u32 mask = balance_settings()->bucket_mask, slot = balance_open(packet, cpu, now);

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
