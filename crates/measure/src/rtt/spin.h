/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* QUIC: the latency spin bit (RFC 9000 section 17.4, RFC 9312 section 3.8), and the end of the handshake. */
#ifndef FATHOM_RTT_SPIN_H
#define FATHOM_RTT_SPIN_H

#include "request.h"

/* Edges that must fit the rule in a row before one is believed: chance passes 1 path with random values in 64. */
#define RTT_SPIN_TRUSTED 6
#define RTT_SPIN_SCORE_MAX 16
#define RTT_SPIN_PENALTY 4
/* From so many edges on, a path where more than a quarter break the rule is taken as not spinning. */
#define RTT_SPIN_JUDGED 16
/* Edges refused in a row before the path is believed to have become so much faster. */
#define RTT_SPIN_REJECTED_MAX 8
/* A flow that is only counted tells now and then that it is alive. */
#define RTT_SPIN_CLOCK_EVERY 64

static __always_inline int rtt_is_spin_edge(const struct rtt_half *own, const struct packet *packet)
{
	int was = !!(own->flags & RTT_HALF_SPIN);
	int is = !!(packet->flags & PACKET_SPIN);

	return !(own->flags & RTT_HALF_HAS_SPIN) || was != is;
}

static __always_inline int rtt_quic_needs_clock(const struct rtt_flow *flow, const struct packet *packet)
{
	const struct rtt_half *own = &flow->half[packet->direction & 1];

	return packet->kind != PACKET_KIND_QUIC_SHORT || flow->flags & RTT_FLOW_AWAITS_CLIENT ||
	       rtt_is_spin_edge(own, packet) || !(own->packets % RTT_SPIN_CLOCK_EVERY);
}

/* A packet overtaken near an edge makes two more. Nothing true comes within a quarter of the usual time. */
static __always_inline int rtt_rejects_edge(struct rtt_flow *flow, const struct rtt_half *own, __u64 now)
{
	if (!own->advanced || packet_elapsed(now, own->advanced) >= flow->spin_loop * (RTT_MICROSECOND / 4))
		return 0;
	if (++flow->spin_rejected < RTT_SPIN_REJECTED_MAX)
		return 1;
	flow->spin_loop = 0;
	return 0;
}

/* The server reflects the client's value, the client inverts the server's. Keeps the score; returns whether it fits. */
static __always_inline int rtt_judge_edge(struct rtt_flow *flow, const struct rtt_half *peer, __u8 direction, int value)
{
	int reflects = direction != flow->client_direction;
	int fits = (value == !!(peer->flags & RTT_HALF_SPIN)) == reflects;

	flow->spin_edges++;
	if (fits) {
		if (flow->spin_score < RTT_SPIN_SCORE_MAX)
			flow->spin_score++;
	} else {
		flow->spin_violations++;
		flow->spin_score = flow->spin_score > RTT_SPIN_PENALTY ? flow->spin_score - RTT_SPIN_PENALTY : 0;
	}
	if (flow->spin_edges >= RTT_SPIN_JUDGED && flow->spin_violations > flow->spin_edges / 4)
		flow->flags |= RTT_FLOW_DOES_NOT_SPIN;
	if (flow->spin_edges == 0x8000) { /* forget slowly, and never wrap */
		flow->spin_edges /= 2;
		flow->spin_violations /= 2;
	}
	return fits && flow->spin_score >= RTT_SPIN_TRUSTED;
}

static __always_inline void rtt_spin_sample(struct rtt_half *half, __u8 direction, __u8 flags, __u64 now,
					    const struct rtt_config *config, struct rtt_output *output)
{
	__u64 sent = half->advanced;

	if (half->flags & RTT_HALF_IS_NEAR || !sent || now < sent)
		return;
	rtt_update(half, now - sent);
	if (sent < half->next_sample)
		return;
	half->next_sample = sent + rtt_pause(half, config);
	rtt_put_sample(output, RTT_SPIN, direction, flags, now - sent, half->minimum);
}

static __always_inline void rtt_on_spin(struct rtt_flow *flow, const struct packet *packet, __u64 now,
					const struct rtt_config *config, struct rtt_output *output)
{
	__u8 direction = packet->direction & 1;
	struct rtt_half *own = &flow->half[direction];
	struct rtt_half *peer = &flow->half[!direction];
	int value = !!(packet->flags & PACKET_SPIN);
	int is_first = !(own->flags & RTT_HALF_HAS_SPIN);
	int is_trusted;

	if (flow->flags & RTT_FLOW_DOES_NOT_SPIN || !(flow->flags & RTT_FLOW_KNOWS_CLIENT) ||
	    !rtt_is_spin_edge(own, packet) || rtt_rejects_edge(flow, own, now))
		return;
	flow->spin_rejected = 0;
	own->flags = (own->flags & ~RTT_HALF_SPIN) | RTT_HALF_HAS_SPIN | (value ? RTT_HALF_SPIN : 0);
	if (is_first)
		return;
	if (own->advanced) {
		__u64 elapsed = packet_elapsed(now, own->advanced) / RTT_MICROSECOND;
		__u32 loop = elapsed < ~0U ? elapsed : ~0U;

		flow->spin_loop = flow->spin_loop ? flow->spin_loop - flow->spin_loop / 8 + loop / 8 : loop;
	}
	if (peer->flags & RTT_HALF_HAS_SPIN) {
		is_trusted = rtt_judge_edge(flow, peer, direction, value);
		if (is_trusted)
			rtt_spin_sample(peer, !direction, 0, now, config, output);
	} else if (++flow->spin_edges > RTT_SPIN_TRUSTED) {
		rtt_spin_sample(own, direction, RTT_SAMPLE_IS_LOOP, now, config, output);
	}
	own->advanced = now;
}

/* The client's first packet after the server's ends the handshake; if the server had to repeat itself, nothing does. */
static __always_inline void rtt_await_client(struct rtt_flow *flow, const struct packet *packet, __u64 now,
					     const struct rtt_config *config, struct rtt_output *output)
{
	__u8 server = !flow->client_direction;

	if (packet->direction == server) {
		if (packet_elapsed(now, flow->opened) > RTT_QUIC_FLIGHT)
			flow->flags &= ~RTT_FLOW_AWAITS_CLIENT;
		return;
	}
	flow->flags &= ~RTT_FLOW_AWAITS_CLIENT;
	if (flow->half[server & 1].flags & RTT_HALF_IS_NEAR || !rtt_has_method(config, RTT_HANDSHAKE) ||
	    now < flow->opened || now - flow->opened > config->expiry)
		return;
	rtt_update(&flow->half[server & 1], now - flow->opened);
	rtt_put_sample(output, RTT_HANDSHAKE, server, 0, now - flow->opened, flow->half[server & 1].minimum);
}

static __always_inline void rtt_on_quic(struct rtt_flow *flow, const struct packet *packet, __u64 now,
					const struct rtt_config *config, struct rtt_output *output)
{
	if (flow->flags & RTT_FLOW_AWAITS_CLIENT)
		rtt_await_client(flow, packet, now, config, output);
	if (packet->kind == PACKET_KIND_QUIC_SHORT && rtt_has_method(config, RTT_SPIN))
		rtt_on_spin(flow, packet, now, config, output);
}

/* The server's answer opens a flow, or (mid-stream) any packet with a well-known port on one side. */
static __always_inline void rtt_open_quic(struct rtt_flow *flow, const struct packet *packet,
					  const struct rtt_output *output)
{
	if (output->reason == RTT_REASON_HANDSHAKE) {
		flow->client_direction = !packet->direction;
		flow->flags |= RTT_FLOW_KNOWS_CLIENT | RTT_FLOW_AWAITS_CLIENT;
	} else if ((packet->key.low_port == PACKET_PORT_QUIC) != (packet->key.high_port == PACKET_PORT_QUIC)) {
		flow->client_direction = packet->key.low_port == PACKET_PORT_QUIC;
		flow->flags |= RTT_FLOW_KNOWS_CLIENT;
	}
}

#endif
