/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP connections: timestamps where both ends use them, else data against acknowledgements. */
#ifndef FATHOM_RTT_TCP_H
#define FATHOM_RTT_TCP_H

#include "pending.h"

/* Without timestamps, a segment that comes so soon behind newer data was overtaken, not sent again. */
#define RTT_REORDERING (3 * RTT_MILLISECOND)

static __always_inline int rtt_uses_timestamps(const struct rtt_flow *flow, const struct rtt_config *config)
{
	return flow->flags & RTT_FLOW_HAS_TIMESTAMPS && rtt_has_method(config, RTT_TIMESTAMP);
}

/* Sequence numbers that the segment takes: its payload, and one each for SYN and FIN. */
static __always_inline __u32 rtt_tcp_span(const struct packet *packet)
{
	return packet->payload + !!(packet->tcp_flags & TCP_SYN) + !!(packet->tcp_flags & TCP_FIN);
}

/* Is this the first packet with a newer TSval? */
static __always_inline int rtt_is_new_tsval(const struct rtt_half *half, const struct packet *packet)
{
	return packet->flags & PACKET_HAS_TIMESTAMP &&
	       (!(half->flags & RTT_HALF_HAS_TSVAL) || rtt_after(packet->tsval, half->tsval));
}

static __always_inline void rtt_note_tsval(struct rtt_half *half, const struct packet *packet)
{
	half->flags |= RTT_HALF_HAS_TSVAL;
	half->tsval = packet->tsval;
}

/* Will this packet need to know the time? The clock costs as much as all the rest. */
static __always_inline int rtt_tcp_needs_clock(const struct rtt_flow *flow, const struct packet *packet,
					       const struct rtt_config *config)
{
	const struct rtt_half *own = &flow->half[packet->direction & 1];
	const struct rtt_half *peer = &flow->half[!packet->direction];

	if (rtt_waiting(peer) || peer->flags & RTT_HALF_IS_FIRST || packet->tcp_flags & (TCP_FIN | TCP_RST))
		return 1;
	if (rtt_uses_timestamps(flow, config) && packet->flags & PACKET_HAS_TIMESTAMP)
		return rtt_is_new_tsval(own, packet);
	return packet->payload != 0;
}

/* A segment with data that is not beyond all seen before: sent again, or overtaken on its way. */
static __always_inline void rtt_count_late(struct rtt_half *own, const struct packet *packet, __u32 span, __u64 now)
{
	__u64 reordering = own->smoothed ? own->smoothed / 2 : RTT_REORDERING;
	int is_overtaken;

	if (span <= 1 && own->next_seq - packet->seq == 1 && !(packet->tcp_flags & TCP_FIN))
		return; /* keep-alive: the byte before, again and again */
	if (packet->flags & PACKET_HAS_TIMESTAMP)
		is_overtaken = !rtt_after(packet->tsval, own->tsval);
	else
		is_overtaken = packet_elapsed(now, own->advanced) <
			       (reordering < RTT_REORDERING ? reordering : RTT_REORDERING);
	if (is_overtaken)
		own->out_of_order += packet->segments;
	else
		own->retransmitted += packet->segments;
}

/* So many in a row, and the connection's own packets have this TTL now. Between two of these `hops` sends 8 at most. */
#define RTT_EARLY_DEATHS_MAX 16

/*
 * The first segment with timestamps in its direction. A connection has them in all segments or in none: those that came before
 * were no part of it, and what they left is forgotten.
 */
static __always_inline void rtt_begin_timestamps(struct rtt_flow *flow, struct rtt_ring ring, __u8 direction,
						 const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_half *own = &flow->half[direction & 1];

	if (!(flow->flags & RTT_FLOW_HAS_TIMESTAMPS)) {
		flow->flags |= RTT_FLOW_HAS_TIMESTAMPS;
		flow->half[0].oldest = flow->half[0].newest;
		flow->half[1].oldest = flow->half[1].newest;
	}
	own->flags |= RTT_HALF_HAS_TIMESTAMPS;
	if (!own->packets)
		return;
	rtt_leave_out(output, RTT_COUNT_WITHOUT_TIMESTAMPS, own->packets);
	own->oldest = own->newest;
	own->packets = 0;
	own->bytes = 0;
	own->retransmitted = 0;
	own->out_of_order = 0;
	own->congestion_experienced = 0;
	own->flags &= ~(RTT_HALF_HAS_SEQ | RTT_HALF_FIN);
	if (config->has_bytes) {
		rtt_last(ring, direction)->sent = 0;
		rtt_last(ring, !direction)->returned = 0;
	}
}

/*
 * What the receiver drops, or what never gets there, is no part of the flow: a segment without timestamps in a connection that
 * has them (RFC 7323, section 3.2), and one that dies on its way. But a reset is heeded always.
 */
static __always_inline int rtt_is_left_out(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
					   const struct rtt_config *config, struct rtt_output *output)
{
	__u8 direction = packet->direction & 1;
	struct rtt_half *own = &flow->half[direction];
	int is_reset = packet->tcp_flags & TCP_RST;

	if (!is_reset && packet->ttl != flow->ttl[direction]) {
		if (packet_dies_early(packet, flow->ttl[direction]) &&
		    ++flow->early_deaths[direction] < RTT_EARLY_DEATHS_MAX)
			return rtt_leave_out(output, RTT_COUNT_DYING_EARLY, packet->segments);
		flow->ttl[direction] = packet->ttl;
	}
	if (!is_reset && flow->early_deaths[direction])
		flow->early_deaths[direction] = 0;
	if (packet->flags & PACKET_HAS_TIMESTAMP) {
		if (!(own->flags & RTT_HALF_HAS_TIMESTAMPS))
			rtt_begin_timestamps(flow, ring, direction, config, output);
	} else if (!is_reset && own->flags & RTT_HALF_HAS_TIMESTAMPS && !(packet->flags & PACKET_HAS_OPTIONS_CUT)) {
		return rtt_leave_out(output, RTT_COUNT_WITHOUT_TIMESTAMPS, packet->segments);
	}
	return 0;
}

enum rtt_order {
	RTT_ORDER_NO_DATA,
	RTT_ORDER_NEW,
	RTT_ORDER_LATE,
};

/* Follows the sequence numbers of the sender. */
static __always_inline enum rtt_order rtt_advance(struct rtt_half *own, const struct packet *packet, __u64 now)
{
	__u32 span = rtt_tcp_span(packet);
	__u32 end = packet->seq + span;
	enum rtt_order order = RTT_ORDER_NEW;

	if (!span)
		return RTT_ORDER_NO_DATA;
	if (!(own->flags & RTT_HALF_HAS_SEQ)) {
		own->flags |= RTT_HALF_HAS_SEQ;
		own->next_seq = end;
	} else if (rtt_after(own->next_seq, packet->seq)) {
		rtt_count_late(own, packet, span, now);
		order = RTT_ORDER_LATE;
	}
	if (order != RTT_ORDER_LATE || rtt_after(end, own->next_seq)) {
		own->next_seq = end;
		if (now)
			own->advanced = now;
	}
	return order;
}

/* The packet of `direction` that passed at `time`, if not 0, has its answer. */
static __always_inline void rtt_tcp_sample(struct rtt_flow *flow, struct rtt_ring ring, enum rtt_method method,
					   __u8 direction, __u32 position, __u64 time, __u64 now,
					   const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_half *half = &flow->half[direction & 1];
	struct rtt_sample *sample;

	if (!time || now < time)
		return;
	rtt_update(half, now - time);
	sample = rtt_put_sample(output, method, direction, 0, now - time, half->minimum);
	if (config->has_bytes)
		rtt_count_bytes(&flow->half[!direction], ring, direction, position, sample);
}

/*
 * The first segment of a direction that was met in its middle: an earlier one may have had its TSval, so that alone could be off
 * by a tick of the sender's clock. Not so an acknowledgement of exactly this segment that echoes its TSval.
 */
static __always_inline void rtt_on_first_answer(struct rtt_flow *flow, struct rtt_ring ring,
						const struct packet *packet, __u64 now, const struct rtt_config *config,
						struct rtt_output *output)
{
	__u8 direction = !packet->direction;
	const struct rtt_half *peer = &flow->half[direction];

	if (packet->tcp_flags & TCP_ACK && packet->tsecr == peer->tsval && packet->ack == peer->next_seq &&
	    packet->ack != peer->acked)
		rtt_tcp_sample(flow, ring, RTT_TIMESTAMP, direction, peer->newest, peer->advanced, now, config, output);
}

/*
 * Timestamps: the first packet with a new TSval against the first with that TSecr (RFC 7323; Strowes 2013). A pure
 * acknowledgement is not measured, since nothing answers it, but it uses its TSval up: measuring a later packet with the
 * same TSval could be off by a tick of the sender's clock.
 */
static __always_inline void rtt_on_timestamp(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
					     __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	__u8 direction = packet->direction & 1;
	struct rtt_half *own = &flow->half[direction];
	struct rtt_half *peer = &flow->half[!direction];
	__u32 span = rtt_tcp_span(packet);
	int is_new = rtt_is_new_tsval(own, packet);
	__u32 position = 0;
	__u64 time;

	if (!(packet->flags & PACKET_HAS_TIMESTAMP))
		return;
	if (rtt_waiting(peer) && packet->tcp_flags & TCP_ACK) {
		time = rtt_match(peer, ring, !direction, packet->tsecr, &position);
		rtt_tcp_sample(flow, ring, RTT_TIMESTAMP, !direction, position, time, now, config, output);
	} else if (peer->flags & RTT_HALF_IS_FIRST) {
		rtt_on_first_answer(flow, ring, packet, now, config, output);
	}
	if (own->flags & RTT_HALF_IS_FIRST && (span || is_new))
		own->flags &= ~RTT_HALF_IS_FIRST;
	if (!is_new)
		return;
	if (span && own->flags & RTT_HALF_HAS_TSVAL) {
		rtt_offer(own, ring, direction, packet->tsval, 0, now, config, output);
	} else if (span && now && !(own->flags & RTT_HALF_IS_NEAR)) {
		own->flags |= RTT_HALF_IS_FIRST;
		rtt_mark_next(own, ring, direction, config);
	}
	rtt_note_tsval(own, packet);
}

/*
 * Acknowledgements that say something arrived out of order. With SACK the newest block tells which: that segment gets
 * its sample now, and all below it none (RFC 2018 section 4). Without, a duplicate tells only that there is a hole.
 */
static __always_inline void rtt_on_acknowledgement(struct rtt_flow *flow, struct rtt_ring ring,
						   const struct packet *packet, __u64 now,
						   const struct rtt_config *config, struct rtt_output *output)
{
	__u8 direction = !packet->direction;
	struct rtt_half *peer = &flow->half[direction];
	int is_duplicate = packet->ack == peer->acked && packet->window == peer->window && !rtt_tcp_span(packet);
	__u32 position = 0;
	__u64 time = 0;

	if (!rtt_waiting(peer))
		return;
	if (packet->flags & PACKET_HAS_SACK && rtt_after(packet->sack_right, packet->ack))
		time = rtt_match(peer, ring, direction, packet->sack_right, &position);
	else if (is_duplicate && !(packet->flags & PACKET_HAS_SACK))
		peer->oldest = peer->newest;
	else
		time = rtt_match(peer, ring, direction, packet->ack, &position);
	rtt_tcp_sample(flow, ring, RTT_SEQUENCE, direction, position, time, now, config, output);
}

/*
 * Sequence numbers: data against the acknowledgement of exactly it. A segment that was sent again or overtaken makes
 * everything beyond it ambiguous (Karn): the range of what may be measured collapses onto what follows (Dart, section 3).
 */
static __always_inline void rtt_on_sequence(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
					    enum rtt_order order, __u64 now, const struct rtt_config *config,
					    struct rtt_output *output)
{
	__u8 direction = packet->direction & 1;
	struct rtt_half *own = &flow->half[direction];

	if (packet->tcp_flags & TCP_ACK)
		rtt_on_acknowledgement(flow, ring, packet, now, config, output);
	if (order == RTT_ORDER_NEW)
		rtt_offer(own, ring, direction, own->next_seq, rtt_tcp_span(packet), now, config, output);
	else if (order == RTT_ORDER_LATE)
		rtt_collapse(own, ring, direction, packet->seq);
}

static __always_inline void rtt_on_close(struct rtt_flow *flow, const struct packet *packet, struct rtt_output *output)
{
	__u8 direction = packet->direction & 1;

	if (packet->tcp_flags & TCP_FIN)
		flow->half[direction].flags |= RTT_HALF_FIN;
	if (flow->flags & RTT_FLOW_IS_CLOSED)
		return;
	if (packet->tcp_flags & TCP_RST)
		output->reason = RTT_REASON_RST;
	else if (flow->half[0].flags & flow->half[1].flags & RTT_HALF_FIN)
		output->reason = RTT_REASON_FIN;
	else
		return;
	flow->flags |= RTT_FLOW_IS_CLOSED;
	output->actions |= RTT_ACTION_CLOSED;
}

static __always_inline void rtt_on_tcp(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
				       __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_half *own = &flow->half[packet->direction & 1];
	struct rtt_half *peer = &flow->half[!packet->direction];
	enum rtt_order order = rtt_advance(own, packet, now);

	if (rtt_uses_timestamps(flow, config)) {
		rtt_on_timestamp(flow, ring, packet, now, config, output);
	} else {
		if (rtt_has_method(config, RTT_SEQUENCE))
			rtt_on_sequence(flow, ring, packet, order, now, config, output);
		if (rtt_is_new_tsval(own, packet))
			rtt_note_tsval(own, packet);
	}
	if (packet->tcp_flags & TCP_ACK) {
		peer->acked = packet->ack;
		peer->window = packet->window;
	}
	if (packet->tcp_flags & (TCP_FIN | TCP_RST))
		rtt_on_close(flow, packet, output);
}

/* A new flow starts with what its first packet, and the handshake before it, tell. */
static __always_inline void rtt_open_tcp(struct rtt_flow *flow, const struct packet *packet,
					 const struct rtt_output *output)
{
	struct rtt_half *own = &flow->half[packet->direction & 1];
	struct rtt_half *peer = &flow->half[!packet->direction];

	if (output->reason != RTT_REASON_HANDSHAKE)
		return;
	own->flags |= RTT_HALF_HAS_SEQ;
	own->next_seq = packet->seq;
	peer->flags |= RTT_HALF_HAS_SEQ;
	peer->next_seq = packet->ack;
	peer->acked = packet->ack;
	if (output->has_tsval) {
		peer->flags |= RTT_HALF_HAS_TSVAL;
		peer->tsval = output->tsval;
	}
}

#endif
