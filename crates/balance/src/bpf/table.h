/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of connections. A flow may be in one of two buckets of four slots. It is found by 48 bits of its hash, which with the bucket's
 * number identify it. Pure; who calls has the buckets and the time.
 *
 * A new flow takes a slot that is unused, or whose connection is over or was silent for long; if there is none, one whose connection can go to its other
 * bucket. It never drives out a connection which is in use, and of those that have sent their first packet and nothing else a bucket has one at most: the next such flow takes its slot. So a
 * flood of SYNs, from whatever addresses, occupies a quarter of the table, and drives no established connection out.
 */
#ifndef FATHOM_BALANCE_TABLE_H
#define FATHOM_BALANCE_TABLE_H

#include "balance.h"

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

#endif
