/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets of a direction that wait for an answer: a short ring, ordered by identifier, and who may enter it. */
#ifndef FATHOM_RTT_PENDING_H
#define FATHOM_RTT_PENDING_H

#include "rtt.h"

/*
 * Packets that are measured at each opportunity. The answer to one may be withheld (a delayed acknowledgement echoes the
 * first of two segments, a stretched one the first of many): the next ones of the burst then give the sample. But the first
 * go before: the others are taken only while half of the ring is free, or few bursts would fit into a long round trip.
 */
#define RTT_BURST 3

/*
 * The slots of a flow, both directions, and their number in each. 64 bits wide because the verifier of 6.1 forgets the
 * bounds of a 32-bit number that the compiler parks on the stack ("unbounded memory access").
 */
struct rtt_ring {
	struct rtt_pending *slots;
	__u64 size; /* a power of two */
};

static __always_inline struct rtt_pending *rtt_slot(struct rtt_ring ring, __u8 direction, __u32 position)
{
	__u64 first = direction & 1 ? ring.size : 0;

	return &ring.slots[first + (position & (ring.size - 1))];
}

/* The mark of the last sample of a direction; only with has_bytes. */
static __always_inline struct rtt_mark *rtt_last(struct rtt_ring ring, __u8 direction)
{
	return (struct rtt_mark *)(ring.slots + 2 * ring.size) + (direction & 1);
}

/* The mark of a packet that waits; only with has_bytes. */
static __always_inline struct rtt_mark *rtt_mark(struct rtt_ring ring, __u8 direction, __u32 position)
{
	__u64 first = direction & 1 ? ring.size : 0;

	return rtt_last(ring, 0) + 2 + first + (position & (ring.size - 1));
}

/* Marks the packet that has the next slot, or none but is first of its direction. */
static __always_inline void rtt_mark_next(const struct rtt_half *half, struct rtt_ring ring, __u8 direction,
					  const struct rtt_config *config)
{
	if (config->has_bytes)
		*rtt_mark(ring, direction, half->newest) =
			(struct rtt_mark){ .sent = half->bytes, .answered = rtt_last(ring, direction)->sent };
}

/* Bytes go with the sample, and the next one's count from here. `half` is of the direction that answers. */
static __always_inline void rtt_count_bytes(const struct rtt_half *half, struct rtt_ring ring, __u8 direction,
					    __u32 position, struct rtt_sample *sample)
{
	const struct rtt_mark *mark = rtt_mark(ring, direction, position);
	struct rtt_mark *last = rtt_last(ring, direction);

	sample->sent = mark->sent;
	sample->answered = mark->answered;
	sample->returned = half->bytes - last->returned;
	*last = (struct rtt_mark){ .sent = mark->sent, .returned = half->bytes };
}

/* Makes room by giving up what no answer will come for. Without it, a silent peer would stop the measurement. */
static __always_inline int rtt_has_room(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u64 now,
					const struct rtt_config *config, struct rtt_output *output)
{
	if (rtt_waiting(half) < ring.size)
		return 1;
	if (packet_elapsed(now, rtt_slot(ring, direction, half->oldest)->time) < config->expiry)
		return 0;
	half->oldest++;
	output->expired++;
	return 1;
}

/*
 * Offers a packet for measurement. Chosen by the time of sending, never by what came of the ones before; a full ring
 * skips the packet, so that what is pending always gets its chance: the ring clocks itself when round trips grow long.
 */
static __always_inline void rtt_offer(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u32 id, __u32 span,
				      __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_pending *pending;

	if (half->flags & RTT_HALF_IS_NEAR)
		return;
	if (half->burst_left && rtt_waiting(half) >= config->slots / 2)
		half->burst_left = 0;
	if (!half->burst_left && now < half->next_sample)
		return;
	if (!rtt_has_room(half, ring, direction, now, config, output))
		return;
	if (!half->burst_left) {
		__u64 pause = rtt_pause(half, config);

		half->next_sample = pause ? now + pause : 0;
		half->burst++;
		half->burst_left = pause ? RTT_BURST : 1;
	}
	half->burst_left--;
	pending = rtt_slot(ring, direction, half->newest);
	pending->time = now;
	pending->id = id;
	pending->span = span;
	pending->burst = half->burst;
	rtt_mark_next(half, ring, direction, config);
	half->newest++;
}

/* What is left of a burst that has given its sample. */
static __always_inline void rtt_end_burst(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u32 burst)
{
	__u32 i;

	if (half->burst == burst)
		half->burst_left = 0;
	for (i = 0; i < RTT_BURST && rtt_waiting(half); i++) {
		if (rtt_slot(ring, direction, half->oldest)->burst != burst)
			break;
		half->oldest++;
	}
}

/*
 * How many of what waits, from the oldest on, are before `id`. By bisection and without a branch: the verifier then follows
 * one path, and not one for each slot.
 */
static __always_inline __u32 rtt_count_before(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u32 id)
{
	__u32 waiting = rtt_waiting(half);
	__u32 count = 0;
	__u64 step;

	for (step = ring.size; step; step >>= 1) {
		__u32 next = count + (__u32)step;
		__u32 is_before = (rtt_slot(ring, direction, half->oldest + next - 1)->id - id) >> 31;
		__u32 is_beyond = (waiting - next) >> 31;

		/* A product, since the verifier of 6.18 makes two paths of an AND with 0 or -1. */
		count += (__u32)step * (is_before & ~is_beyond);
	}
	return count;
}

/*
 * Takes out all that `id` answers. Returns the time of the packet it answers exactly, or that it falls into (one buffer
 * may be a train of segments, of which the receiver acknowledges a part), and its position; 0 if there is none. What is
 * skipped over has no answer of its own any more: freed at once, without a sample. If nothing is left then, the next
 * packet is measured.
 */
static __always_inline __u64 rtt_match(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u32 id,
				       __u32 *position)
{
	struct rtt_pending *pending;
	__u64 time;

	if (!rtt_waiting(half))
		return 0;
	/* Mostly the oldest is answered. */
	if ((__s32)(id - rtt_slot(ring, direction, half->oldest)->id) > 0)
		half->oldest += rtt_count_before(half, ring, direction, id);
	if (!rtt_waiting(half)) {
		half->burst_left = 0;
		half->next_sample = 0;
		return 0;
	}
	pending = rtt_slot(ring, direction, half->oldest);
	if (pending->id != id && pending->id - id >= pending->span)
		return 0;
	*position = half->oldest++;
	time = pending->time;
	rtt_end_burst(half, ring, direction, pending->burst);
	return time;
}

/* Drops what reaches beyond `seq`: its acknowledgement may now be caused by another packet. */
static __always_inline void rtt_collapse(struct rtt_half *half, struct rtt_ring ring, __u8 direction, __u32 seq)
{
	if (rtt_waiting(half) && rtt_after(rtt_slot(ring, direction, (__u16)(half->newest - 1))->id, seq))
		half->newest = half->oldest + rtt_count_before(half, ring, direction, seq + 1);
}

#endif
