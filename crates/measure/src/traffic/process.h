/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to a packet. The caller (the BPF program, or the reader of capture files) holds the
 * table of flows, and the clock; in this order it
 *   1. takes what only packet_read_other has a use for, too: all of IP is traffic;
 *   2. looks the flow up, and begins one if there is none;
 *   3. reads the clock if traffic_needs_clock, and calls traffic_on_packet.
 */
#ifndef FATHOM_TRAFFIC_PROCESS_H
#define FATHOM_TRAFFIC_PROCESS_H

#include "segments.h"

/* From here on ports are those that clients get from their system (Linux; RFC 6335 says 49152). */
#define TRAFFIC_EPHEMERAL_PORT 32768

/* A flow that was zeroed, before its first packet. One that is met in the middle shows its opener by its ports. */
static __always_inline void traffic_open(struct traffic_flow *flow, const struct packet *packet)
{
	int is_low_ephemeral = packet->key.low_port >= TRAFFIC_EPHEMERAL_PORT;
	int is_high_ephemeral = packet->key.high_port >= TRAFFIC_EPHEMERAL_PORT;

	flow->opener = packet->direction & 1;
	flow->reordering = TRAFFIC_REORDERING;
	if (packet->kind == PACKET_KIND_TCP && packet->tcp_flags & TCP_SYN)
		flow->opener ^= !!(packet->tcp_flags & TCP_ACK);
	else if (is_low_ephemeral != is_high_ephemeral)
		flow->opener = is_high_ephemeral;
}

/*
 * A train of segmentation offload has the headers once; on the wire each of its packets has them.
 */
static __always_inline void traffic_count(struct traffic_half *own, const struct packet *packet)
{
	own->counts.packets += packet->segments;
	own->counts.bytes += packet->length;
	if (packet->segments > 1 && packet->payload && packet->payload < packet->length)
		own->counts.bytes += (packet->segments - 1) * (packet->length - packet->payload);
}

/* `counters` are TRAFFIC_COUNTER_COUNT. Where traffic_needs_clock says no, `now` may be 0. */
static __always_inline void traffic_on_packet(struct traffic_flow *flow, const struct packet *packet, __u64 now,
					      __u64 *counters)
{
	struct traffic_half *own = &flow->half[packet->direction & 1];

	if (packet->kind == PACKET_KIND_TCP && traffic_is_left_out(own, packet, counters))
		return;
	traffic_count(own, packet);
	if (packet->kind == PACKET_KIND_TCP)
		traffic_on_tcp(flow, packet, now, counters);
}

#endif
