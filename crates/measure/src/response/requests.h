/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From packets to gaps: which packets carry a request, and what triggered it. Pure. */
#ifndef FATHOM_RESPONSE_REQUESTS_H
#define FATHOM_RESPONSE_REQUESTS_H

#include "gaps.h"
#include "sizes.h"

/* Payloads from here on are as long as the path allows, and more of the same message follows, bytes: IPv6 carries 1220 of TCP at least. */
#define RESPONSE_FULL_FROM 1200

static __always_inline int response_is_after(__u32 sequence, __u32 other)
{
	return (__s32)(sequence - other) > 0;
}

/* One packet more of what is counted in the place of the flight. */
static __always_inline void response_grow_flight(struct response_flow *flow, const struct packet *packet)
{
	__u32 bytes = flow->flight + packet->payload;

	flow->flight = bytes < 0xffff ? bytes : 0xffff;
}

/* Nothing is outstanding: how much is sent before the first answer is seen anew. */
static __always_inline void response_begin_flight(struct response_flow *flow, const struct packet *packet)
{
	flow->flags |= RESPONSE_COUNTS_FLIGHT;
	flow->flight = 0;
	response_grow_flight(flow, packet);
	flow->flight_packets = 1;
}

/* Once may have been chance (an answer came before all was sent), or the client does something else now: what comes twice in a row counts. */
static __always_inline void response_learn_flight(struct response_flow *flow, struct response_triggers *triggers)
{
	__s32 more = flow->flight - triggers->latest;

	if (!(flow->flags & RESPONSE_HAS_FLIGHT) || (more < 0 ? -more : more) * 8 <= flow->flight) {
		triggers->known = flow->flight;
		triggers->known_packets = flow->flight_packets;
		flow->flags |= RESPONSE_HAS_FLIGHT;
	}
	triggers->latest = flow->flight;
	triggers->latest_packets = flow->flight_packets;
}

/*
 * What the first answer after a flight triggered, until the next one comes: in the place of the flight, which is over. A client that was still
 * writing sends the rest of its flight with it.
 */
static __always_inline void response_follow_answer(struct response_flow *flow, const struct packet *packet,
						   int is_triggered)
{
	if (!flow->flight_packets)
		return;
	if (is_triggered)
		flow->flight_packets = 0;
	else
		response_grow_flight(flow, packet);
}

/*
 * The flight ends with the first request that was triggered. It was no whole flight if that is much longer than those before
 * (the stack held some back, and sent them together with it), or if it came sooner than an answer can.
 */
static __always_inline void response_follow_flight(struct response_flow *restrict flow,
						   union response_gaps *restrict gaps,
						   const struct packet *restrict packet, __u32 gap, int is_triggered,
						   const struct response_config *config)
{
	if (!(flow->flags & RESPONSE_COUNTS_FLIGHT)) {
		response_follow_answer(flow, packet, is_triggered);
		return;
	}
	if (!is_triggered) {
		response_grow_flight(flow, packet);
		if (!(flow->flags & RESPONSE_AFTER_FULL))
			response_count_some(&flow->flight_packets);
		return;
	}
	flow->flags &= ~RESPONSE_COUNTS_FLIGHT;
	if (response_is_early(flow, gap)) {
		flow->flight = 0;
		flow->flight_packets = 0;
		return;
	}
	if ((__u64)packet->payload * flow->flight_packets * 2 > flow->flight * 3U)
		flow->flags |= RESPONSE_HOLDS_BACK;
	else if (response_keeps_triggers(config))
		response_learn_flight(flow, &gaps->triggers);
	flow->flight = 0;
	response_grow_flight(flow, packet);
	flow->flight_packets = 1;
}

static __always_inline void response_on_request(struct response_flow *restrict flow, union response_gaps *restrict gaps,
						const struct packet *restrict packet, __u64 now, int is_triggered,
						__s64 lag, const struct response_config *config)
{
	__u32 gap = response_since(flow->last, now);
	__u32 told = response_is_tcp(packet) ? response_until_told(flow, packet, gap) : gap;

	flow->age += gap;
	flow->flags |= RESPONSE_IS_USED;
	if (flow->flags & RESPONSE_STARTS_OVER) {
		flow->flags &= ~RESPONSE_STARTS_OVER;
		response_begin_flight(flow, packet);
		return;
	}
	if (is_triggered && lag != RESPONSE_NO_LAG)
		response_on_lag(flow, gaps, packet, gap, told, lag, config);
	else
		response_on_plain_gap(flow, gaps, packet, now, gap, told, is_triggered, config);
	/* Also where the gap does not count: what was triggered is no part of the flight. */
	response_follow_flight(flow, gaps, packet, gap, is_triggered, config);
	/*
	 * After silence of the client for as long as a timeout takes, nothing is outstanding. Of the path or the server it says nothing: what is sent
	 * before the next answer is then whatever was answered.
	 */
	if (gap - told > response_timeout(packet, config))
		response_begin_flight(flow, packet);
}

static __always_inline void response_note_length(struct response_flow *flow, __u32 payload)
{
	if (payload >= RESPONSE_FULL_FROM)
		flow->flags |= RESPONSE_AFTER_FULL;
	else
		flow->flags &= ~RESPONSE_AFTER_FULL;
}

/* The handshake of a connection goes on: what follows is not its answer. */
static __always_inline void response_on_greeting(struct response_flow *flow, __u64 now)
{
	flow->age += response_since(flow->last, now);
	response_advance(flow, now);
	flow->flags |= RESPONSE_STARTS_OVER | RESPONSE_IS_SEALED;
}

/* TLS hides whether a record is a control frame of HTTP/2. As long as others are longer, those of its length are none that ask. */
static __always_inline int response_asks(struct response_flow *flow, const struct packet *packet)
{
	if (packet->content == RESPONSE_CONTENT_CLEAR)
		return 1;
	if (packet->content == RESPONSE_CONTENT_CONTROL)
		return 0;
	if (packet->content == RESPONSE_CONTENT_SEALED) {
		flow->flags |= RESPONSE_IS_SEALED | RESPONSE_HAS_LONGER | RESPONSE_IGNORES_SHORT;
		return 1;
	}
	flow->flags |= RESPONSE_IS_SEALED | RESPONSE_HAS_SHORT;
	return !(flow->flags & RESPONSE_IGNORES_SHORT);
}

/*
 * How late a segment without data is, by its lag, in ticks; 0: no later than ticks of the server's clock
 * explain, or that is not known.
 */
static __always_inline __u32 response_lateness(const struct response_echoes *echoes, __s64 lag)
{
	__s64 late = lag - echoes->tick;

	return late > RESPONSE_ECHO_SPREAD && late < RESPONSE_ECHO_MORE ? late >> RESPONSE_TICK_SHIFT : 0;
}

/*
 * A segment that asks for nothing may tell that the client has its answer. Of duplicates the first
 * counts. An acknowledgement of one segment that is so late was delayed: the client had its answer
 * before. One of more than two was not, by its stack: the client was late to read them.
 */
static __always_inline void response_on_acknowledgement(struct response_flow *flow, const struct packet *packet,
							__u64 now, __s64 lag)
{
	struct response_tcp *tcp = &flow->state.tcp;
	__u32 late = response_lateness(&tcp->echoes, lag);
	__u32 age, bytes;

	if (!response_is_after(packet->ack, tcp->data_ack) || (tcp->pure_age && (__u16)packet->ack == tcp->pure_ack))
		return;
	age = response_since(flow->last, now);
	bytes = response_acknowledged(tcp, packet);
	late = late < age ? late : age;
	response_raise_bound(tcp, bytes, tcp->pure_age, bytes > 2 * RESPONSE_SEGMENT ? age - late : age);
	if (late >= RESPONSE_PROMPT && bytes <= RESPONSE_SEGMENT)
		age -= late;
	tcp->pure_ack = packet->ack;
	tcp->pure_age = age ? age : 1;
}

/* A segment with data that was not sent before. */
static __always_inline void response_on_data(struct response_flow *restrict flow, union response_gaps *restrict gaps,
					     const struct packet *restrict packet, __u64 now, __s64 lag,
					     const struct response_config *config)
{
	int is_triggered = response_is_after(packet->ack, flow->state.tcp.data_ack);

	if (packet->content == RESPONSE_CONTENT_GREETING) {
		response_on_greeting(flow, now);
		flow->state.tcp.open = 0;
	} else if (response_asks(flow, packet)) {
		response_on_request(flow, gaps, packet, now, is_triggered, lag, config);
		response_advance(flow, now);
	} else {
		response_on_acknowledgement(flow, packet, now, lag);
		return;
	}
	if (is_triggered)
		flow->state.tcp.data_ack = packet->ack;
	flow->state.tcp.pure_age = 0;
	response_begin_wait(&flow->state.tcp, is_triggered);
	response_note_length(flow, packet->payload);
}

/* What is known of a connection's own segments. */
static __always_inline void response_note_headers(struct response_flow *flow, const struct packet *packet)
{
	if (packet->flags & PACKET_HAS_TIMESTAMP)
		flow->flags |= RESPONSE_HAS_TIMESTAMPS;
	if (packet->ttl >= 2 * PACKET_TTL_FAR_BELOW)
		flow->flags |= RESPONSE_COMES_FAR;
}

/*
 * What the receiver drops (RFC 7323, section 3.2), or what never gets there, is no part of the connection: a probe, or somebody
 * plays tricks. Returns what it counts as; RESPONSE_COUNTER_COUNT: it is a part. But a reset is heeded always.
 */
static __always_inline enum response_counter response_is_left_out(const struct response_flow *flow,
								  const struct packet *packet)
{
	if (packet->tcp_flags & TCP_RST)
		return RESPONSE_COUNTER_COUNT;
	if (flow->flags & RESPONSE_COMES_FAR && packet->ttl <= PACKET_TTL_FAR_BELOW)
		return RESPONSE_COUNT_DYING_EARLY;
	if (flow->flags & RESPONSE_HAS_TIMESTAMPS && !(packet->flags & (PACKET_HAS_TIMESTAMP | PACKET_HAS_OPTIONS_CUT)))
		return RESPONSE_COUNT_WITHOUT_TIMESTAMPS;
	return RESPONSE_COUNTER_COUNT;
}

static __always_inline void response_on_segment(struct response_flow *restrict flow, union response_gaps *restrict gaps,
						const struct packet *restrict packet, __u64 now,
						const struct response_config *config)
{
	__u32 next_seq = packet->seq + packet->payload;
	__s64 lag = RESPONSE_NO_LAG;

	response_note_headers(flow, packet);
	if (config->estimator == RESPONSE_BY_TIMESTAMPS && !(packet->tcp_flags & (TCP_SYN | TCP_RST)))
		lag = response_read_echo(flow, packet, now);
	if (packet->tcp_flags & (TCP_SYN | TCP_RST)) {
		/* After a reset nobody waits any more. */
		flow->state.tcp.pure_age |= !!(packet->tcp_flags & TCP_RST);
	} else if (!packet->payload) {
		response_on_acknowledgement(flow, packet, now, lag);
	} else if (!response_is_after(next_seq, flow->state.tcp.next_seq)) {
		response_count_some(&flow->repeated);
	} else {
		flow->state.tcp.next_seq = next_seq;
		response_on_data(flow, gaps, packet, now, lag, config);
	}
}

static __always_inline int response_is_quic_handshake(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_QUIC_INITIAL || packet->kind == PACKET_KIND_QUIC_LONG;
}

/* What datagrams can be besides requests is known of QUIC from the beginning, of other tunnels it is learnt. */
static __always_inline void response_note_sealed(struct response_flow *flow, const struct packet *packet)
{
	if (flow->flags & RESPONSE_IS_SEALED)
		return;
	if (response_is_quic_handshake(packet) ||
	    (packet->kind == PACKET_KIND_QUIC_SHORT &&
	     (packet->key.low_port == PACKET_PORT_QUIC || packet->key.high_port == PACKET_PORT_QUIC)))
		flow->state.sizes.bound = RESPONSE_QUIC_REQUEST_FROM;
	else if (packet->content != RESPONSE_CONTENT_SEALED)
		return;
	flow->flags |= RESPONSE_IS_SEALED;
}

static __always_inline void response_on_datagram(struct response_flow *flow, union response_gaps *gaps,
						 const struct packet *packet, __u64 now,
						 const struct response_config *config)
{
	if (packet->content == RESPONSE_CONTENT_CONTROL)
		return;
	response_note_sealed(flow, packet);
	if (response_is_quic_handshake(packet)) {
		response_on_greeting(flow, now);
		return;
	}
	if (flow->flags & RESPONSE_IS_SEALED) {
		if (response_add_size(&flow->state.sizes, packet->payload))
			flow->flags |= RESPONSE_IS_FULL;
		if (packet->payload < flow->state.sizes.bound)
			return;
	}
	response_on_request(flow, gaps, packet, now, 0, RESPONSE_NO_LAG, config);
	response_advance(flow, now);
	response_note_length(flow, packet->payload);
}

#endif
