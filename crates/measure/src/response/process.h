/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to a packet. The caller (the BPF program, or the reader of capture files) holds the two tables, of flows and of
 * handshakes, and the clock; in this order it
 *   1. looks the flow up; if there is none, calls response_without_flow with an empty one, which it keeps if the flow begins;
 *   2. else, if response_is_request: if response_is_over, hands the epoch on that response_end_epoch ends, if it was used;
 *   3. then calls response_on_connection if response_uses_handshake, else response_on_known.
 */
#ifndef FATHOM_RESPONSE_PROCESS_H
#define FATHOM_RESPONSE_PROCESS_H

#include "../../bpf/packet_parse.h"
#include "content.h"
#include "requests.h"

/*
 * Of what the parser took, or packet_read_other: which packets may be requests? Datagrams of any kind, and ESP; echo has
 * nothing to do with them.
 */
static __always_inline enum packet_verdict response_verdict(enum packet_verdict verdict, const struct packet *packet,
							    const struct packet_cursor *at)
{
	if (verdict != PACKET_MEASURABLE)
		return verdict;
	if (packet->kind == PACKET_KIND_NONE)
		return at->protocol == IP_PROTOCOL_UDP || at->protocol == IP_PROTOCOL_ESP ? verdict
											  : PACKET_OTHER_PROTOCOL;
	return packet->kind == PACKET_KIND_ECHO_REQUEST || packet->kind == PACKET_KIND_ECHO_REPLY
		       ? PACKET_OTHER_PROTOCOL
		       : verdict;
}

/* The first RESPONSE_CONTENT_BYTES of the payload; none where it is shorter, or not at hand. */
static __always_inline const __u8 *response_first_bytes(const struct packet_bytes *bytes,
							const struct packet_cursor *at, const struct packet *packet)
{
	if (packet->payload < RESPONSE_CONTENT_BYTES)
		return 0;
	return packet_at(bytes, at->end - packet->payload, RESPONSE_CONTENT_BYTES);
}

/*
 * What the first bytes of the payload tell; `first` are RESPONSE_CONTENT_BYTES of them, or none.
 */
static __always_inline enum response_content response_read_content(const struct packet *packet, const __u8 *first)
{
	if (packet->key.protocol == IP_PROTOCOL_ESP)
		return RESPONSE_CONTENT_SEALED;
	if (!first)
		return RESPONSE_CONTENT_CLEAR;
	if (response_is_tcp(packet))
		return response_read_segment(first, packet->payload);
	return response_read_datagram(first, packet);
}

static __always_inline int response_has_network(const volatile struct selection *servers,
						const struct flow_address *address)
{
	__u32 i;

	if (!servers->network_count)
		return 1;
	for (i = 0; i < SELECTION_NETWORKS_MAX && i < servers->network_count; i++)
		if (selection_contains(&servers->networks[i], address))
			return 1;
	return 0;
}

static __always_inline int response_has_port(const volatile struct selection *servers, __u16 port)
{
	__u32 i;

	if (!servers->port_count)
		return 1;
	for (i = 0; i < SELECTION_PORTS_MAX && i < servers->port_count; i++)
		if (servers->ports[i] == port)
			return 1;
	return 0;
}

/*
 * Which way requests go in a flow that is not known yet. Servers are those that were named; among those, and if none were,
 * a SYN goes to a server, else the lower port is a server's, else this is the first packet, and so a request.
 */
static __always_inline enum response_direction response_find_direction(const struct packet *packet,
								       const volatile struct selection *servers)
{
	const struct flow_key *key = &packet->key;
	int is_low = response_has_network(servers, &key->low) && response_has_port(servers, key->low_port);
	int is_high = response_has_network(servers, &key->high) && response_has_port(servers, key->high_port);

	if (!is_low && !is_high)
		return RESPONSE_DIRECTION_NONE;
	if (is_low != is_high)
		return is_low ? RESPONSE_DIRECTION_HIGH_TO_LOW : RESPONSE_DIRECTION_LOW_TO_HIGH;
	if (response_is_tcp(packet) && packet->tcp_flags & TCP_SYN)
		return packet->tcp_flags & TCP_ACK ? !packet->direction : packet->direction;
	if (key->low_port != key->high_port)
		return key->low_port < key->high_port ? RESPONSE_DIRECTION_HIGH_TO_LOW : RESPONSE_DIRECTION_LOW_TO_HIGH;
	return packet->direction;
}

/* Is this packet on the way to the server? */
static __always_inline int response_is_request(const struct response_flow *flow, const struct packet *packet)
{
	return packet->direction == !!(flow->flags & RESPONSE_TO_LOW);
}

/* Does a packet to a server begin a flow, if it has none? Only requests do: floods of SYNs must not reach the table. */
static __always_inline int response_is_opening(const struct packet *packet)
{
	return packet->payload && !(response_is_tcp(packet) && packet->tcp_flags & (TCP_SYN | TCP_RST));
}

static __always_inline int response_uses_handshake(const struct response_flow *flow, const struct packet *packet)
{
	return response_is_tcp(packet) && (packet->tcp_flags & TCP_SYN || !flow || flow->flags & RESPONSE_IS_NEW);
}

/* Ticks that wrap around; 0 where time went back. */
static __always_inline __u32 response_lapse(__u32 earlier, __u32 now)
{
	__u32 back = earlier - now;

	return back > RESPONSE_DISORDER >> RESPONSE_TICK_SHIFT ? now - earlier : 0;
}

/* What a handshake is known by whose SYN went in this direction. Never 0. */
static __always_inline __u32 response_handshake_tag(__u64 hash, __u8 direction)
{
	__u32 tag = (hash >> 32 | 1) & ~(RESPONSE_HANDSHAKE_IS_OVER | RESPONSE_HANDSHAKE_TO_LOW);

	return direction ? tag | RESPONSE_HANDSHAKE_TO_LOW : tag;
}

/* Has the SYN of this flow passed, in this direction? */
static __always_inline int response_saw_syn(const struct response_handshake *place, __u64 hash, __u8 direction)
{
	return (place->tag & ~RESPONSE_HANDSHAKE_IS_OVER) == response_handshake_tag(hash, direction);
}

/*
 * Handshakes. A SYN leaves its time at the place of its hash; what answers the SYN-ACK puts the round trip there, for the
 * first request to find. Two connections at one place: the later one wins.
 */
static __always_inline void response_on_handshake(struct response_handshake *place, __u64 hash,
						  const struct packet *packet, __u64 now)
{
	__u32 tag = response_handshake_tag(hash, packet->direction);
	__u32 time = now >> RESPONSE_TICK_SHIFT;

	if (packet->tcp_flags & TCP_SYN) {
		/* A repeated SYN: which of them is answered is not known, and the first is not later. */
		if (!(packet->tcp_flags & TCP_ACK) && place->tag != tag)
			*place = (struct response_handshake){ .tag = tag, .time = time };
	} else if (place->tag == tag) {
		*place = (struct response_handshake){ .tag = tag | RESPONSE_HANDSHAKE_IS_OVER,
						      .time = response_lapse(place->time, time),
						      .acked = now >> RESPONSE_ECHO_SHIFT,
						      .echo = packet->flags & PACKET_HAS_TIMESTAMP ? packet->tsecr
												   : 0 };
	}
}

/* The handshake of this flow, which gives its place back; its time is 0 if it was not seen. */
static __always_inline struct response_handshake response_take_handshake(struct response_handshake *place, __u64 hash,
									 __u8 direction)
{
	struct response_handshake taken = {};

	if (place->tag == (response_handshake_tag(hash, direction) | RESPONSE_HANDSHAKE_IS_OVER)) {
		taken = *place;
		taken.time = taken.time ? taken.time : 1;
		place->tag = 0;
	}
	return taken;
}

/* Ticks since the epoch began. (`flow->age` is as of `last`; below zero, and so wrapped around, if that was before.) */
static __always_inline __s64 response_age(const struct response_flow *flow, __u64 now)
{
	return (__s64)(__s32)flow->age + response_since(flow->last, now);
}

/* `epoch` is how long one is at least, in ticks: that of the settings, or a longer one. */
static __always_inline int response_is_over(const struct response_flow *flow, __u64 now, __u32 epoch)
{
	return flow->flags & RESPONSE_IS_FULL || response_age(flow, now) >= (__s64)epoch;
}

/* What a flow has learnt stays, what it has counted goes. */
static __always_inline void response_end_transport(struct response_flow *flow, const struct flow_key *key, __u64 now)
{
	if (key->protocol == IP_PROTOCOL_TCP) {
		flow->state.tcp.causal = 0;
		flow->state.tcp.early = 0;
		flow->state.tcp.low = 0;
		flow->state.tcp.silent = 0;
		response_end_echoes(&flow->state.tcp.echoes, now);
	} else if (flow->flags & RESPONSE_IS_SEALED) {
		__u32 bound = response_learn_bound(&flow->state.sizes);

		if (bound != flow->state.sizes.bound)
			flow->flags |= RESPONSE_STARTS_OVER;
		flow->state.sizes = (struct response_sizes){ .bound = bound };
	}
	if (!(flow->flags & RESPONSE_HAS_LONGER))
		flow->flags &= ~RESPONSE_IGNORES_SHORT;
	flow->flags &= ~(RESPONSE_IS_FULL | RESPONSE_IS_USED | RESPONSE_HAS_LONGER | RESPONSE_HAS_SHORT);
}

/* Hands the epoch on, and begins the next. Epochs follow each other without gaps; those without packets are left out. */
static __always_inline void response_end_epoch(struct response_flow *flow, union response_gaps *gaps,
					       const struct flow_key *key, __u64 now, __u32 epoch,
					       const struct response_config *config, struct response_epoch *ended)
{
	__s64 since_begin = response_age(flow, now);
	__u32 age = since_begin > 0 ? since_begin : 0;
	__u32 passed = flow->flags & RESPONSE_IS_FULL ? flow->age : age / (epoch ? epoch : 1) * epoch;
	__u32 length = flow->flags & RESPONSE_IS_FULL ? flow->age : age < epoch ? age : epoch;

	ended->key = *key;
	ended->begin = flow->last - ((__s64)(__s32)flow->age << RESPONSE_TICK_SHIFT);
	ended->end = ended->begin + ((__u64)length << RESPONSE_TICK_SHIFT);
	ended->flow = *flow;
	if (key->protocol == IP_PROTOCOL_TCP)
		response_settle_echoes(&ended->flow);
	flow->age -= passed;
	flow->retained = 0;
	flow->sent = 0;
	flow->repeated = 0;
	flow->timeouts = 0;
	flow->idle = 0;
	response_end_transport(flow, key, now);
	if (config->estimator == RESPONSE_BY_MODES) {
		ended->gaps.modes = gaps->modes;
		gaps->modes = (struct response_modes){};
	} else if (config->estimator == RESPONSE_BY_FIXED) {
		ended->gaps.batches = gaps->batches;
		gaps->batches.sum = gaps->batches.count = 0;
	} else if (response_keeps_triggers(config) && key->protocol == IP_PROTOCOL_TCP) {
		ended->gaps.triggers = gaps->triggers;
		gaps->triggers.count = 0;
		__builtin_memset(gaps->triggers.causal, 0, sizeof(gaps->triggers.causal));
	} else {
		ended->gaps.bins = gaps->bins;
		gaps->bins = (struct response_bins){};
	}
}

/* The first request of a flow that the caller has just made, zeroed, or of a new connection on its ports. */
static __always_inline void response_open(struct response_flow *flow, struct response_handshake *place, __u64 hash,
					  const struct packet *packet, __u64 now)
{
	struct response_handshake handshake = {};
	__u16 took;

	if (place)
		handshake = response_take_handshake(place, hash, packet->direction);
	took = response_short(handshake.time);

	response_advance(flow, now);
	flow->flags = RESPONSE_IS_USED | (packet->direction ? RESPONSE_TO_LOW : 0);
	if (response_is_tcp(packet)) {
		response_note_headers(flow, packet);
		flow->state.tcp = (struct response_tcp){
			.next_seq = packet->seq + packet->payload,
			.data_ack = packet->ack,
			.handshake = took,
			.floor = took,
			.at_least = took,
		};
		response_begin_echoes(flow, &handshake, packet, now);
	} else {
		response_note_sealed(flow, packet);
	}
	if (packet->content == RESPONSE_CONTENT_GREETING || response_is_quic_handshake(packet))
		flow->flags |= RESPONSE_STARTS_OVER | RESPONSE_IS_SEALED;
	if (handshake.time) {
		response_begin_flight(flow, packet);
	} else { /* in the middle of a connection others may be outstanding */
		flow->flight = 0;
		flow->flight_packets = 0;
	}
	response_note_length(flow, packet->payload);
}

/* A SYN, or what follows one, on the ports of a flow that is there: another connection, unless somebody plays tricks. */
static __always_inline void response_on_connection(struct response_flow *flow, struct response_handshake *place,
						   __u64 hash, const struct packet *packet, __u64 now)
{
	if (packet->tcp_flags & TCP_SYN)
		flow->flags |= RESPONSE_IS_NEW;
	if (response_is_opening(packet)) {
		flow->age += response_since(flow->last, now);
		response_open(flow, place, hash, packet, now);
	} else if (place) {
		response_on_handshake(place, hash, packet, now);
	}
}

/*
 * A request, or what goes with it, of a flow that is there. Returns what the packet is counted as if it is no part of the flow, else
 * RESPONSE_COUNTER_COUNT. `restrict`, here and in what it calls: or the compiler loads every field anew after each store to another
 * (10 ns a packet).
 */
static __always_inline enum response_counter response_on_known(struct response_flow *restrict flow,
							       union response_gaps *restrict gaps,
							       const struct packet *restrict packet, __u64 now,
							       const struct response_config *config)
{
	enum response_counter left_out = RESPONSE_COUNTER_COUNT;

	if (!response_is_tcp(packet)) {
		response_on_datagram(flow, gaps, packet, now, config);
		return left_out;
	}
	left_out = response_is_left_out(flow, packet);
	if (left_out == RESPONSE_COUNTER_COUNT)
		response_on_segment(flow, gaps, packet, now, config);
	return left_out;
}

/*
 * A packet of a flow that is not there. Returns whether the flow begins: `flow`, zeroed, is the flow now. `direction` is
 * that of response_find_direction, which counts only where no SYN was seen: a client's port may be the lower one.
 */
static __always_inline int response_without_flow(struct response_flow *flow, struct response_handshake *place,
						 __u64 hash, enum response_direction direction,
						 const struct packet *packet, __u64 now)
{
	if (place && !(packet->tcp_flags & TCP_SYN)) {
		if (response_saw_syn(place, hash, !packet->direction))
			return 0;
		if (response_saw_syn(place, hash, packet->direction))
			direction = packet->direction;
	}
	if (direction != packet->direction)
		return 0;
	if (response_is_opening(packet)) {
		response_open(flow, place, hash, packet, now);
		return 1;
	}
	if (place)
		response_on_handshake(place, hash, packet, now);
	return 0;
}

#endif
