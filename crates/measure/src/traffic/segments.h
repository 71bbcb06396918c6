/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP: what passed before, what was lost before it came here, and what was overtaken. */
#ifndef FATHOM_TRAFFIC_SEGMENTS_H
#define FATHOM_TRAFFIC_SEGMENTS_H

#include "traffic.h"

/*
 * Without timestamps and without a handshake that was seen, a segment that comes so soon after the
 * hole that it fills was overtaken: Wireshark has the same 3 ms.
 */
#define TRAFFIC_REORDERING (3000000U >> TRAFFIC_TICK_SHIFT)
/* No window is larger (RFC 7323, section 2.3): what is farther apart is not one connection. */
#define TRAFFIC_WINDOW_MAX (1 << 30)
/*
 * So many in a row, and the connection's own packets have this TTL now; as in the measurement of
 * round trips.
 */
#define TRAFFIC_EARLY_DEATHS_MAX 16

/* Sequence numbers that a segment takes. */
static __always_inline __u32 traffic_span(const struct packet *packet)
{
	return packet->payload + !!(packet->tcp_flags & TCP_SYN) + !!(packet->tcp_flags & TCP_FIN);
}

/* How far `a` is behind `b`, with wrap-around; negative: it is in front. */
static __always_inline __s32 traffic_after(__u32 a, __u32 b)
{
	return a - b;
}

/*
 * Will this packet need to know the time? Of most it is not asked, as it costs as much as all the
 * rest.
 */
static __always_inline int traffic_needs_clock(const struct traffic_flow *flow, const struct packet *packet)
{
	const struct traffic_half *own = &flow->half[packet->direction & 1];

	if (packet->kind != PACKET_KIND_TCP)
		return 0;
	return flow->handshake || packet->tcp_flags & TCP_SYN ||
	       (own->flags & TRAFFIC_HALF_HAS_SEQ && packet->seq != own->next_seq &&
		(traffic_span(packet) || traffic_after(packet->seq, own->next_seq) > 0));
}

/*
 * What the receiver drops, or what never gets there, is no part of the flow: a segment without
 * timestamps in a connection that has them (RFC 7323, section 3.2), and one that dies on its way.
 * But a reset is heeded always.
 */
static __always_inline int traffic_is_left_out(struct traffic_half *own, const struct packet *packet, __u64 *counters)
{
	if (packet->tcp_flags & TCP_RST)
		return 0;
	if (packet->ttl != own->ttl) {
		if (packet_dies_early(packet, own->ttl) && ++own->early_deaths < TRAFFIC_EARLY_DEATHS_MAX) {
			counters[TRAFFIC_COUNT_DYING_EARLY] += packet->segments;
			return 1;
		}
		own->ttl = packet->ttl;
	}
	if (own->early_deaths)
		own->early_deaths = 0;
	if (packet->tcp_flags & TCP_SYN)
		return 0;
	if (packet->flags & PACKET_HAS_TIMESTAMP) {
		if (!(own->flags & TRAFFIC_HALF_HAS_TIMESTAMPS)) {
			own->flags |= TRAFFIC_HALF_HAS_TIMESTAMPS;
			own->tsval = packet->tsval;
		}
	} else if (own->flags & TRAFFIC_HALF_HAS_TIMESTAMPS && !(packet->flags & PACKET_HAS_OPTIONS_CUT)) {
		counters[TRAFFIC_COUNT_WITHOUT_TIMESTAMPS] += packet->segments;
		return 1;
	}
	return 0;
}

/* Follows the sequence numbers from here on. */
static __always_inline void traffic_start(struct traffic_half *own, __u32 next_seq)
{
	int i;

	own->flags |= TRAFFIC_HALF_HAS_SEQ;
	own->next_seq = next_seq;
	for (i = 0; i < TRAFFIC_HOLES; i++)
		own->holes[i].end = own->holes[i].begin;
}

static __always_inline void traffic_repeat(struct traffic_half *own, const struct packet *packet, __u32 packets,
					   __u32 bytes)
{
	own->counts.repeated += packets;
	own->counts.repeated_bytes += bytes;
	if (own->answers & TRAFFIC_ANSWER_HAS_ACKED &&
	    traffic_after(own->acked, packet->seq + traffic_span(packet)) >= 0)
		own->counts.needless += packets;
}

/*
 * A SYN begins a connection, if it does not say again what the last one said. The flow may have
 * had another before.
 */
static __always_inline void traffic_on_syn(struct traffic_flow *flow, struct traffic_half *own,
					   const struct packet *packet, __u64 now)
{
	__u32 end = packet->seq + traffic_span(packet);

	own->counts.segments++;
	if (own->flags & TRAFFIC_HALF_HAS_SEQ && own->next_seq == end) {
		flow->handshake = 0; /* nobody knows which of them is answered */
		traffic_repeat(own, packet, 1, packet->payload);
		return;
	}
	traffic_start(own, end);
	own->flags &= ~TRAFFIC_HALF_HAS_TIMESTAMPS;
	own->answers = 0;
	if (!(packet->tcp_flags & TCP_ACK)) {
		flow->opener = packet->direction & 1;
		flow->reordering = TRAFFIC_REORDERING;
		flow->handshake = now;
	}
}

/*
 * The second packet of who sent the SYN: half of the time between them is shorter than any
 * retransmission takes.
 */
static __always_inline void traffic_end_handshake(struct traffic_flow *flow, const struct packet *packet, __u64 now)
{
	__u64 half = packet_elapsed(now, flow->handshake) >> (TRAFFIC_TICK_SHIFT + 1);

	if (!(packet->tcp_flags & TCP_ACK) || packet->direction != flow->opener)
		return;
	flow->handshake = 0;
	flow->reordering = half < 1U << 31 ? half : 1U << 31;
}

/* A SYN or an acknowledgement tells of the other direction. */
static __always_inline void traffic_on_answer(struct traffic_half *peer, const struct packet *packet)
{
	__u8 answers = TRAFFIC_ANSWER_HAS_ACKED;

	if (packet->tcp_flags & TCP_RST)
		return;
	if (!(peer->answers & TRAFFIC_ANSWER_HAS_ACKED) || traffic_after(packet->ack, peer->acked) > 0)
		peer->acked = packet->ack;
	if (!packet->window)
		answers |= TRAFFIC_ANSWER_IS_FULL;
	if (peer->answers != answers)
		peer->answers = answers;
}

/*
 * What is walked for each hole. In the kernel these are global functions, as packet_skb_network is: the verifier walks
 * them once, and not each combination of holes.
 */
#ifdef __bpf__
#define TRAFFIC_GLOBAL __noinline
#else
#define TRAFFIC_GLOBAL static
#endif

/*
 * Forgets of the holes of a direction what the receiver has acknowledged: it has it, from wherever. Returns of how many.
 */
TRAFFIC_GLOBAL __u32 traffic_close_acked(struct traffic_flow *flow, __u32 direction)
{
	struct traffic_half *own;
	__u32 closed = 0;
	int i;

	if (!flow)
		return 0;
	own = &flow->half[direction & 1];
	if (!(own->answers & TRAFFIC_ANSWER_HAS_ACKED))
		return 0;
	for (i = 0; i < TRAFFIC_HOLES; i++) {
		struct traffic_hole *hole = &own->holes[i];

		if (hole->begin == hole->end || traffic_after(own->acked, hole->begin) <= 0)
			continue;
		closed++;
		hole->begin = traffic_after(own->acked, hole->end) >= 0 ? hole->end : own->acked;
	}
	return closed;
}

/* A hole, from `begin` to `end`. Returns 0 where there is no room for it. */
static __always_inline int traffic_put_hole(struct traffic_half *own, __u32 begin, __u32 end, __u32 opened)
{
	int i;

	for (i = 0; i < TRAFFIC_HOLES; i++) {
		if (own->holes[i].begin != own->holes[i].end)
			continue;
		own->holes[i] = (struct traffic_hole){ .begin = begin, .end = end, .opened = opened };
		return 1;
	}
	return 0;
}

/*
 * Data beyond all that has passed: something in between is missing. Returns 0 where there were too
 * many holes. A function of its own, as traffic_on_late is: most packets need neither. Callers look
 * at what they return, or clang 14 leaves anything there, and the verifier refuses it.
 */
static int traffic_open_hole(struct traffic_half *own, __u32 seq, __u32 opened)
{
	__u32 newest = 0;
	int i;

	for (i = 0; i < TRAFFIC_HOLES; i++) {
		if (traffic_after(own->holes[i].end, own->holes[newest & (TRAFFIC_HOLES - 1)].end) > 0)
			newest = i;
	}
	if (traffic_put_hole(own, own->next_seq, seq, opened))
		return 1;
	own->holes[newest & (TRAFFIC_HOLES - 1)].end = seq;
	return 0;
}

/*
 * Was this segment, which fills a hole, overtaken on its way, not sent again? Its timestamp tells:
 * one that is older than the newest seen was sent before it, and one that is newer after all that
 * has passed. Where they are equal or there are none, time tells: what is sent again answers what
 * the receiver said of the hole, and comes a round trip after it opened.
 */
static __always_inline int traffic_is_overtaken(const struct traffic_flow *flow, const struct traffic_half *own,
						const struct packet *packet, __u32 opened, __u32 now)
{
	__s32 elapsed = now - opened;

	if (packet->flags & PACKET_HAS_TIMESTAMP && packet->tsval != own->tsval)
		return traffic_after(packet->tsval, own->tsval) < 0;
	return elapsed < 0 || (__u32)elapsed < flow->reordering;
}

/*
 * Takes what a segment has out of one of the holes of its direction. Returns how much that is, in units of 2, and 1 more if
 * the segment was overtaken.
 */
TRAFFIC_GLOBAL __u64 traffic_fill(struct traffic_flow *flow, const struct packet *packet, __u32 index, __u32 now)
{
	struct traffic_half *own;
	struct traffic_hole *hole;
	__s32 length, from, to;
	__u32 opened;

	if (!flow || !packet)
		return 0;
	own = &flow->half[packet->direction & 1];
	hole = &own->holes[index & (TRAFFIC_HOLES - 1)];
	opened = hole->opened;
	length = traffic_after(hole->end, hole->begin);
	from = traffic_after(packet->seq, hole->begin);
	to = from + (__s32)traffic_span(packet);
	from = from < 0 ? 0 : from;
	to = to > length ? length : to;
	if (from >= to)
		return 0;
	if (!from)
		hole->begin += to;
	else if (to == length || traffic_put_hole(own, hole->begin + to, hole->end, opened))
		hole->end = hole->begin + from;
	return (__u64)(to - from) << 1 | traffic_is_overtaken(flow, own, packet, opened, now);
}

/*
 * A keep-alive says the last byte again that was acknowledged, or none (RFC 9293, section 3.8.4).
 * A probe of a window of zero has one byte, which is sent until there is room for it (section
 * 3.8.6.1).
 */
static __always_inline int traffic_is_probe(const struct traffic_half *own, const struct packet *packet, __u32 span)
{
	if (span > 1 || packet->tcp_flags & TCP_FIN || own->next_seq - packet->seq != 1 ||
	    !(own->answers & TRAFFIC_ANSWER_HAS_ACKED))
		return 0;
	return own->acked == own->next_seq || own->answers & TRAFFIC_ANSWER_IS_FULL;
}

/*
 * Did the network duplicate this segment, which has passed? What is sent again has a timestamp
 * that is not older than the newest seen, and a newer one where nothing was sent in between.
 */
static __always_inline int traffic_is_duplicate(const struct traffic_half *own, const struct packet *packet, __u32 end)
{
	__s32 newer = traffic_after(packet->tsval, own->tsval);

	return packet->flags & PACKET_HAS_TIMESTAMP && (newer < 0 || (!newer && end == own->next_seq));
}

/* How many of a train's packets so many of its sequence numbers are. */
static __always_inline __u32 traffic_packets(const struct packet *packet, __u32 part, __u32 span)
{
	if (packet->segments <= 1 || !span)
		return 1;
	return ((__u64)part * packet->segments + span - 1) / span;
}

static __always_inline __u32 traffic_payload(const struct packet *packet, __u32 part)
{
	return part < packet->payload ? part : packet->payload;
}

/* Data that is not beyond all that has passed. Returns how many packets the network duplicated. */
static __u32 traffic_on_late(struct traffic_flow *flow, struct traffic_half *own, const struct packet *packet,
			     __u32 now)
{
	__u32 span = traffic_span(packet);
	__u32 end = packet->seq + span;
	__u32 below = own->next_seq - packet->seq;
	__u32 part, lost = 0, overtaken = 0;
	int i;

	below = below < span ? below : span;
	for (i = 0; i < TRAFFIC_HOLES; i++) {
		__u64 filled = traffic_fill(flow, packet, i, now);

		/* Without a branch: each would double what the verifier walks. */
		overtaken += (filled >> 1) * (filled & 1);
		lost += (filled >> 1) * !(filled & 1);
	}
	if (lost) {
		own->counts.lost += traffic_packets(packet, lost, span);
		own->counts.lost_bytes += traffic_payload(packet, lost);
	} else if (overtaken) {
		own->counts.overtaken += traffic_packets(packet, overtaken, span);
	}
	if (lost + overtaken >= below || (packet->segments <= 1 && lost + overtaken))
		return 0;
	below -= lost + overtaken;
	part = traffic_packets(packet, below, span);
	if (traffic_is_duplicate(own, packet, end))
		return part;
	traffic_repeat(own, packet, part, traffic_payload(packet, below));
	return 0;
}

/*
 * Follows the sequence numbers. Also an acknowledgement without data says up to where the sender has
 * sent (RFC 9293, section 3.10.7.4): that tells of a hole at the end, which no data follows.
 */
static __always_inline void traffic_advance(struct traffic_flow *flow, struct traffic_half *own,
					    const struct packet *packet, __u64 now, __u64 *counters)
{
	__u32 ticks = now >> TRAFFIC_TICK_SHIFT;
	__u32 span = traffic_span(packet);
	__u32 end = packet->seq + span;
	__s32 distance = traffic_after(packet->seq, own->next_seq);

	if (packet->tcp_flags & TCP_RST)
		return;
	if (!span && (!(own->flags & TRAFFIC_HALF_HAS_SEQ) || distance <= 0 || distance > TRAFFIC_WINDOW_MAX))
		return;
	if (!(own->flags & TRAFFIC_HALF_HAS_SEQ)) {
		traffic_start(own, end);
	} else if (distance > TRAFFIC_WINDOW_MAX || distance < -TRAFFIC_WINDOW_MAX) {
		counters[TRAFFIC_COUNT_RESTARTED]++;
		traffic_start(own, end);
	} else if (distance > 0) {
		counters[TRAFFIC_COUNT_UNSEEN] += traffic_close_acked(flow, packet->direction);
		counters[TRAFFIC_COUNT_MERGED] += !traffic_open_hole(own, packet->seq, ticks);
	} else if (distance < 0) {
		if (traffic_is_probe(own, packet, span))
			return;
		counters[TRAFFIC_COUNT_UNSEEN] += traffic_close_acked(flow, packet->direction);
		counters[TRAFFIC_COUNT_DUPLICATED] += traffic_on_late(flow, own, packet, ticks);
	}
	if (span)
		own->counts.segments += packet->segments;
	if (traffic_after(end, own->next_seq) > 0)
		own->next_seq = end;
}

static __always_inline void traffic_on_tcp(struct traffic_flow *flow, const struct packet *packet, __u64 now,
					   __u64 *counters)
{
	struct traffic_half *own = &flow->half[packet->direction & 1];

	if (packet->tcp_flags & TCP_ACK)
		traffic_on_answer(&flow->half[!packet->direction], packet);
	if (packet->tcp_flags & TCP_SYN) {
		traffic_on_syn(flow, own, packet, now);
		return;
	}
	if (flow->handshake)
		traffic_end_handshake(flow, packet, now);
	traffic_advance(flow, own, packet, now, counters);
	if (packet->flags & PACKET_HAS_TIMESTAMP && traffic_after(packet->tsval, own->tsval) > 0)
		own->tsval = packet->tsval;
}

#endif
