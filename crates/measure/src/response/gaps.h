/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What of a gap between two requests was the server's, and what the client's; where it counts, the estimator gets it. Pure. */
#ifndef FATHOM_RESPONSE_GAPS_H
#define FATHOM_RESPONSE_GAPS_H

#include "bounds.h"
#include "fixed.h"
#include "modes.h"
#include "split.h"
#include "timestamps.h"

/* An acknowledgement that came sooner than this was not delayed (Linux: 40 ms; RFC 9293 allows 500): in ticks. */
#define RESPONSE_PROMPT (35000000 >> RESPONSE_TICK_SHIFT)
/* What a client needs to send its next request, or to be scheduled; more is silence: in ticks. */
#define RESPONSE_PROCESSING (1000000 >> RESPONSE_TICK_SHIFT)

static __always_inline void response_count(__u16 *counter, struct response_flow *flow)
{
	if (++*counter == 0xffff)
		flow->flags |= RESPONSE_IS_FULL;
}

static __always_inline void response_count_some(__u8 *counter)
{
	if (*counter < 0xff)
		++*counter;
}

/* A request that a response triggered comes a round trip after another, at least. (That of the handshake may have been a slow one.) */
static __always_inline int response_is_early(const struct response_flow *flow, __u32 ticks)
{
	return (ticks >> RESPONSE_HANDSHAKE_SHIFT) < flow->state.tcp.handshake / 2U;
}

/* A gap that counts, to the estimator. */
static __always_inline void response_add_gap(struct response_flow *restrict flow, union response_gaps *restrict gaps,
					     const struct packet *restrict packet, __u32 ticks, int is_triggered,
					     const struct response_config *config)
{
	int is_full = 0;

	if (response_keeps_triggers(config) && response_is_tcp(packet))
		is_full = response_add_to_triggers(&gaps->triggers, ticks, is_triggered, flow->state.tcp.causal);
	else if (config->estimator == RESPONSE_BY_MODES)
		is_full = response_add_to_modes(&gaps->modes, ticks, !(flow->flags & RESPONSE_AFTER_FULL));
	else if (config->estimator == RESPONSE_BY_FIXED)
		response_add_to_batches(&gaps->batches, ticks, config->threshold);
	else
		is_full = response_add_to_bins(&gaps->bins, flow->flags & RESPONSE_AFTER_FULL ? 0 : ticks);
	if (is_full)
		flow->flags |= RESPONSE_IS_FULL;
}

/* A gap that does not count, nor does the batch before it. */
static __always_inline void response_leave_out(struct response_flow *flow, union response_gaps *gaps,
					       const struct packet *packet, __u8 *counter,
					       const struct response_config *config)
{
	if (response_is_tcp(packet))
		flow->state.tcp.open = 0;
	response_count_some(counter);
	if (config->estimator == RESPONSE_BY_FIXED)
		response_restart_batches(&gaps->batches);
}

/*
 * After which part of a gap, in ticks, had the client told, in a packet without data, that it had everything which it acknowledges now? After all
 * of it, if it had not.
 */
static __always_inline __u32 response_until_told(struct response_flow *flow, const struct packet *packet, __u32 gap)
{
	__u32 told = flow->state.tcp.pure_age;

	if (told && told < gap && (__u16)packet->ack == flow->state.tcp.pure_ack)
		return told;
	response_raise_bound(&flow->state.tcp, 0, told, gap);
	return gap;
}

/* How long the client was silent in a gap after it had told that it had its answer; what it needs to read that is none. */
static __always_inline __u32 response_silence(__u32 gap, __u32 told)
{
	__u32 silence = gap - told;

	return silence < RESPONSE_PROCESSING && silence < gap / 8 ? 0 : silence;
}

/*
 * What of a gap was the server's? All of it, unless the client told long before that it had its answer: from then on it was the client that was
 * silent. Such an acknowledgement may itself have been delayed; where it is late, and much later than responses are, the gap tells nothing, and
 * this returns 0.
 */
static __always_inline __u32 response_of_server(const struct response_flow *flow, __u32 gap, __u32 told)
{
	__u32 silence = gap - told;

	if (!silence)
		return gap;
	if (told >= RESPONSE_PROMPT && !(flow->state.tcp.causal ? told / 2 < flow->retained / flow->state.tcp.causal
								: silence < RESPONSE_PROCESSING))
		return 0;
	return silence < RESPONSE_PROCESSING || silence < gap / 3 ? gap : told;
}

/* A gap that counts, to a packet with a request, or with more of one; `is_triggered`: a response came since the one before. */
static __always_inline void response_on_gap(struct response_flow *restrict flow, union response_gaps *restrict gaps,
					    const struct packet *restrict packet, __u32 ticks, int is_triggered,
					    const struct response_config *config)
{
	int is_early = response_is_early(flow, ticks);

	response_add_gap(flow, gaps, packet, ticks, is_triggered, config);
	if (response_is_tcp(packet) && response_keeps_triggers(config))
		flow->retained += response_add_bound(&flow->state.tcp, ticks, is_triggered);
	else
		flow->retained += ticks;
	flow->sent += packet->payload;
	if (is_triggered) {
		response_count(&flow->state.tcp.causal, flow);
		if (is_early)
			response_count(&flow->state.tcp.early, flow);
	}
}

/* A longer gap is a retransmission timeout, or nobody asked. */
static __always_inline __u32 response_timeout(const struct packet *packet, const struct response_config *config)
{
	return response_is_tcp(packet) ? config->timeout : config->datagram_timeout;
}

/* What this packet acknowledges that no packet before it did, in bytes. */
static __always_inline __u32 response_acknowledged(const struct response_tcp *tcp, const struct packet *packet)
{
	return tcp->pure_age ? (__u16)(packet->ack - tcp->pure_ack) : packet->ack - tcp->data_ack;
}

/*
 * Did these bytes come at once? One segment does. So did more than two: a client acknowledges every
 * second one that comes (RFC 9293, section 3.8.6.3).
 */
static __always_inline int response_came_at_once(__u32 bytes)
{
	return bytes <= RESPONSE_SEGMENT || bytes > 2 * RESPONSE_SEGMENT;
}

/*
 * A gap of which is known what the client thought in it: `lag`, of the packet after it. Of the answers to a batch a client echoes one that it has not
 * acknowledged, perhaps the first; then it thought for less.
 */
static __always_inline void response_on_lag(struct response_flow *restrict flow, union response_gaps *restrict gaps,
					    const struct packet *restrict packet, __u32 gap, __u32 told, __s64 lag,
					    const struct response_config *config)
{
	struct response_echoes *echoes = &flow->state.tcp.echoes;
	int is_at_once = response_came_at_once(response_acknowledged(&flow->state.tcp, packet));
	__s64 gap_ns = (__s64)gap << RESPONSE_TICK_SHIFT;
	__s64 server;

	if (flow->state.tcp.open && lag > gap_ns)
		lag = gap_ns;
	server = (gap_ns - lag) >> RESPONSE_TICK_SHIFT;
	if (!flow->state.tcp.open && !response_is_telling(echoes, lag, is_at_once, gap_ns)) {
		response_leave_out(flow, gaps, packet, &echoes->untold, config);
	} else if (server > (__s64)config->timeout) {
		response_leave_out(flow, gaps, packet, &flow->timeouts, config);
	} else {
		response_add_lag(echoes, lag, gap);
		flow->retained -= gap - (__u32)server;
		flow->state.tcp.silent += response_silence(gap, told);
		response_on_gap(flow, gaps, packet, gap, 1, config);
	}
}

/* A gap of which the client alone tells; `told`: after which part of it, see response_until_told. */
static __always_inline void response_on_plain_gap(struct response_flow *restrict flow,
						  union response_gaps *restrict gaps,
						  const struct packet *restrict packet, __u64 now, __u32 gap,
						  __u32 told, int is_triggered, const struct response_config *config)
{
	__u32 ticks = response_of_server(flow, gap, told);

	if (!ticks && gap) {
		response_leave_out(flow, gaps, packet, &flow->idle, config);
	} else if (ticks > response_timeout(packet, config)) {
		response_leave_out(flow, gaps, packet, &flow->timeouts, config);
	} else {
		if (is_triggered && ticks > told)
			flow->state.tcp.silent += response_silence(ticks, told);
		if (is_triggered && ticks == gap &&
		    response_came_at_once(response_acknowledged(&flow->state.tcp, packet)))
			response_add_echo(&flow->state.tcp.echoes, packet, now);
		response_on_gap(flow, gaps, packet, ticks, is_triggered, config);
	}
}

#endif
