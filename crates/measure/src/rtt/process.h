/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to a packet. The caller (the BPF program, or the reader of capture files) holds the two tables, of flows
 * and of requests, and the clock; in this order it
 *   1. looks the flow up if rtt_uses_flow, and the bucket if rtt_uses_bucket;
 *   2. reads the clock if rtt_needs_clock;
 *   3. calls rtt_on_packet, and acts on output.actions.
 */
#ifndef FATHOM_RTT_PROCESS_H
#define FATHOM_RTT_PROCESS_H

#include "spin.h"
#include "tcp.h"

static __always_inline int rtt_is_quic(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_QUIC_INITIAL || packet->kind == PACKET_KIND_QUIC_LONG ||
	       packet->kind == PACKET_KIND_QUIC_SHORT;
}

static __always_inline int rtt_is_echo(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_ECHO_REQUEST || packet->kind == PACKET_KIND_ECHO_REPLY;
}

static __always_inline int rtt_is_dns(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_DNS_QUERY || packet->kind == PACKET_KIND_DNS_RESPONSE ||
	       packet->flags & PACKET_HAS_DNS;
}

static __always_inline int rtt_is_syn(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_TCP && packet->tcp_flags & TCP_SYN;
}

/* May this packet have a flow? A SYN never: floods of them must not reach the table. */
static __always_inline int rtt_uses_flow(const struct packet *packet)
{
	return (packet->kind == PACKET_KIND_TCP && !rtt_is_syn(packet)) || rtt_is_quic(packet);
}

static __always_inline int rtt_uses_bucket(const struct packet *packet, int has_flow, const struct rtt_config *config)
{
	if (rtt_is_echo(packet))
		return rtt_has_method(config, RTT_ECHO);
	if (rtt_is_dns(packet) && rtt_has_method(config, RTT_DNS))
		return 1;
	return rtt_is_syn(packet) || (rtt_uses_flow(packet) && !has_flow && packet->kind != PACKET_KIND_QUIC_SHORT);
}

/* `flow` may be null. Where this says no, the time handed to rtt_on_packet may be 0. */
static __always_inline int rtt_needs_clock(const struct rtt_flow *flow, int has_bucket, const struct packet *packet,
					   const struct rtt_config *config)
{
	if (has_bucket || !flow)
		return 1;
	if (packet->kind == PACKET_KIND_TCP)
		return rtt_tcp_needs_clock(flow, packet, config);
	return rtt_quic_needs_clock(flow, packet);
}

static __always_inline void rtt_on_flow(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
					__u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_half *own = &flow->half[packet->direction & 1];

	if (packet->kind == PACKET_KIND_TCP && rtt_is_left_out(flow, ring, packet, config, output))
		return;
	own->packets += packet->segments;
	own->bytes += packet->length;
	own->congestion_experienced += packet->ecn == 3 ? packet->segments : 0;
	if (now > flow->last_seen)
		flow->last_seen = now;
	if (packet->kind == PACKET_KIND_TCP)
		rtt_on_tcp(flow, ring, packet, now, config, output);
	else
		rtt_on_quic(flow, packet, now, config, output);
}

/*
 * A flow that the caller has just made, zeroed, on RTT_ACTION_OPEN; then the packet is taken into it. The slots behind it
 * may be another flow's: none is read before it is written.
 */
static __always_inline void rtt_open(struct rtt_flow *flow, struct rtt_ring ring, const struct packet *packet,
				     __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	flow->opened = now;
	flow->opener = output->opener;
	if (config->has_bytes)
		*rtt_last(ring, 0) = *rtt_last(ring, 1) = (struct rtt_mark){};
	if (packet->kind == PACKET_KIND_TCP)
		rtt_open_tcp(flow, packet, output);
	else
		rtt_open_quic(flow, packet, output);
	rtt_on_flow(flow, ring, packet, now, config, output);
}

/* A packet whose flow has no state. */
static __always_inline void rtt_without_flow(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet,
					     __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	if (packet->kind == PACKET_KIND_QUIC_SHORT) {
		if (packet->key.low_port != PACKET_PORT_QUIC && packet->key.high_port != PACKET_PORT_QUIC)
			return;
		output->actions |= RTT_ACTION_OPEN;
		output->reason = RTT_REASON_FIRST_PACKET;
		output->opener = packet->direction;
	} else if (bucket && packet->kind == PACKET_KIND_TCP) {
		rtt_on_first_segment(bucket, hash, packet, now, config, output);
	} else if (bucket) {
		rtt_on_first_quic(bucket, hash, packet, now, config, output);
	}
}

/* `flow` and `bucket` are null where there is none; `output` is reset. `hash` is rtt_bucket_hash's. */
static __always_inline void rtt_on_packet(struct rtt_flow *flow, struct rtt_ring ring, struct rtt_bucket *bucket,
					  __u64 hash, const struct packet *packet, __u64 now,
					  const struct rtt_config *config, struct rtt_output *output)
{
	if (rtt_is_syn(packet)) {
		if (bucket)
			rtt_on_syn(bucket, hash, packet, now, config, output);
	} else if (rtt_uses_flow(packet)) {
		if (flow)
			rtt_on_flow(flow, ring, packet, now, config, output);
		else
			rtt_without_flow(bucket, hash, packet, now, config, output);
	}
	if (bucket && rtt_is_dns(packet) && rtt_has_method(config, RTT_DNS))
		rtt_on_query_or_answer(bucket, hash, packet, 1,
				       packet->kind == PACKET_KIND_DNS_RESPONSE || packet->flags & PACKET_IS_RESPONSE,
				       now, config, output);
	else if (bucket && rtt_is_echo(packet))
		rtt_on_query_or_answer(bucket, hash, packet, 0, packet->kind == PACKET_KIND_ECHO_REPLY, now, config,
				       output);
}

#endif
