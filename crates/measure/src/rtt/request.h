/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that have, or may never have, a flow: TCP handshakes, QUIC Initials, DNS queries, ICMP echo. They wait in a
 * table of fixed size, so that a flood of them costs neither memory nor the state of established flows.
 */
#ifndef FATHOM_RTT_REQUEST_H
#define FATHOM_RTT_REQUEST_H

#include "rtt.h"

enum rtt_request_kind {
	RTT_REQUEST_SYN = 1,
	RTT_REQUEST_SYN_ACK,
	RTT_REQUEST_QUIC,
	RTT_REQUEST_DNS,
	RTT_REQUEST_ECHO,
};

/* A flight of Initials comes back to back; one that comes later than this has been sent again. */
#define RTT_QUIC_FLIGHT (10 * RTT_MILLISECOND)

/* A handshake's requests share a bucket; the others are spread by their identifier, since one flow may have many. */
static __always_inline __u64 rtt_bucket_hash(const struct packet *packet, __u64 seed)
{
	__u64 hash = flow_hash(&packet->key, seed);

	if (packet->kind != PACKET_KIND_TCP || packet->flags & PACKET_HAS_DNS)
		hash = flow_hash_step(hash, packet->id);
	return hash;
}

static __always_inline __u32 rtt_fingerprint(__u64 hash, enum rtt_request_kind kind, __u32 id, __u8 direction)
{
	return flow_hash_step(hash, (__u64)id << 32 | kind << 1 | direction) >> 32 | 1;
}

static __always_inline struct rtt_request *rtt_find_request(struct rtt_bucket *bucket, __u32 fingerprint)
{
	int i;

	for (i = 0; i < RTT_BUCKET_REQUESTS; i++)
		if (bucket->requests[i].fingerprint == fingerprint)
			return &bucket->requests[i];
	return 0;
}

/* Set in the order of requests that still wait, so that they come behind all others. */
#define RTT_REQUEST_WAITS (1ULL << 63)

/*
 * Writes a request over a free one, else over the oldest that is spent, else over the oldest. What is spent stays as long as
 * it can: it tells a segment that is sent again.
 */
static __always_inline void rtt_put_request(struct rtt_bucket *bucket, __u32 fingerprint, __u32 detail, __u64 now,
					    const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_request *victim = &bucket->requests[0];
	__u64 first = ~0ULL;
	int i;

	for (i = 0; i < RTT_BUCKET_REQUESTS; i++) {
		struct rtt_request *request = &bucket->requests[i];
		__u64 order = request->fingerprint ? request->time + 1 : 0;

		if (order && !request->is_spent)
			order |= RTT_REQUEST_WAITS;
		if (order < first) {
			first = order;
			victim = request;
		}
	}
	if (first & RTT_REQUEST_WAITS && now < victim->time + config->expiry)
		output->displaced++;
	victim->time = now;
	victim->is_spent = 0;
	victim->fingerprint = fingerprint;
	victim->detail = detail;
}

/* Finds what this packet answers. Returns it if it still gives a sample; either way it is spent from now on. */
static __always_inline struct rtt_request *rtt_answer(struct rtt_bucket *bucket, __u32 fingerprint, __u64 now,
						      const struct rtt_config *config)
{
	struct rtt_request *request = rtt_find_request(bucket, fingerprint);

	if (!request || request->is_spent || now < request->time)
		return 0;
	request->is_spent = 1;
	return now - request->time < config->expiry ? request : 0;
}

/* A segment of a handshake: once sent again it is ambiguous for good, also when an answer has been seen. Is it the first? */
static __always_inline int rtt_put_segment(struct rtt_bucket *bucket, __u32 fingerprint, __u32 detail, __u64 now,
					   const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_request *request = rtt_find_request(bucket, fingerprint);

	if (request)
		request->is_spent = 1;
	else
		rtt_put_request(bucket, fingerprint, detail, now, config, output);
	return !request;
}

/* SYN, or SYN-ACK: which answers a SYN, and waits for the ACK. */
static __always_inline void rtt_on_syn(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet, __u64 now,
				       const struct rtt_config *config, struct rtt_output *output)
{
	__u8 back = !packet->direction;
	struct rtt_request *syn;

	if (!(packet->tcp_flags & TCP_ACK)) {
		rtt_put_segment(bucket, rtt_fingerprint(hash, RTT_REQUEST_SYN, packet->seq, packet->direction),
				packet->ttl, now, config, output);
		return;
	}
	syn = rtt_answer(bucket, rtt_fingerprint(hash, RTT_REQUEST_SYN, packet->ack - 1, back), now, config);
	if (syn && rtt_has_method(config, RTT_HANDSHAKE))
		rtt_put_sample(output, RTT_HANDSHAKE, back, 0, now - syn->time, 0);
	/* A SYN-ACK that is sent again, since the ACK was lost, is of the connection that is there. */
	if (rtt_put_segment(bucket, rtt_fingerprint(hash, RTT_REQUEST_SYN_ACK, packet->seq, packet->direction),
			    packet->tsval, now, config, output))
		output->actions |= RTT_ACTION_FORGET;
}

/*
 * Is this bare acknowledgement, the first segment of a connection without state, a probe? Where the SYN was seen, that tells
 * the TTL of the sender. Where it was not, the next segment will open the connection as well.
 */
static __always_inline int rtt_is_early_probe(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet)
{
	struct rtt_request *syn;

	if (packet->ttl > PACKET_TTL_OF_PROBES || packet->payload || packet->tcp_flags & TCP_FIN)
		return 0;
	syn = rtt_find_request(bucket, rtt_fingerprint(hash, RTT_REQUEST_SYN, packet->seq - 1, packet->direction));
	return packet_dies_early(packet, syn ? syn->detail : 255);
}

/* The first segment of a connection without state: does it end a handshake? */
static __always_inline void rtt_on_first_segment(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet,
						 __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	__u8 back = !packet->direction;
	struct rtt_request *syn_ack;
	__u32 fingerprint;

	if (packet->tcp_flags & TCP_RST)
		return;
	if (rtt_is_early_probe(bucket, hash, packet)) {
		rtt_leave_out(output, RTT_COUNT_DYING_EARLY, packet->segments);
		return;
	}
	output->actions |= RTT_ACTION_OPEN;
	output->reason = RTT_REASON_FIRST_PACKET;
	output->opener = packet->direction;
	/* A server that speaks before its SYN-ACK is acknowledged. */
	if (rtt_find_request(bucket, rtt_fingerprint(hash, RTT_REQUEST_SYN_ACK, packet->seq - 1, packet->direction)))
		output->opener = back;
	fingerprint = rtt_fingerprint(hash, RTT_REQUEST_SYN_ACK, packet->ack - 1, back);
	syn_ack = rtt_find_request(bucket, fingerprint);
	if (!syn_ack)
		return;
	output->reason = RTT_REASON_HANDSHAKE;
	output->tsval = syn_ack->detail;
	output->has_tsval = !!(packet->flags & PACKET_HAS_TIMESTAMP);
	syn_ack = rtt_answer(bucket, fingerprint, now, config);
	if (syn_ack && rtt_has_method(config, RTT_HANDSHAKE))
		rtt_put_sample(output, RTT_HANDSHAKE, back, 0, now - syn_ack->time, 0);
}

/* A long header of a connection without state: the client's Initial, or the server's answer, which opens the flow. */
static __always_inline void rtt_on_first_quic(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet,
					      __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	__u32 own = rtt_fingerprint(hash, RTT_REQUEST_QUIC, 0, packet->direction);
	__u8 back = !packet->direction;
	struct rtt_request *request = rtt_find_request(bucket, rtt_fingerprint(hash, RTT_REQUEST_QUIC, 0, back));

	if (request && packet_elapsed(now, request->time) < config->expiry) {
		output->actions |= RTT_ACTION_OPEN;
		output->reason = RTT_REASON_HANDSHAKE;
		output->opener = back;
		if (!request->is_spent && now >= request->time && rtt_has_method(config, RTT_HANDSHAKE))
			rtt_put_sample(output, RTT_HANDSHAKE, back, 0, now - request->time, 0);
		request->is_spent = 1;
		return;
	}
	if (packet->kind != PACKET_KIND_QUIC_INITIAL)
		return;
	request = rtt_find_request(bucket, own);
	if (!request)
		rtt_put_request(bucket, own, 0, now, config, output);
	else if (packet_elapsed(now, request->time) > config->expiry)
		rtt_put_request(bucket, own, 0, now, config, output);
	else if (packet_elapsed(now, request->time) > RTT_QUIC_FLIGHT)
		request->is_spent = 1;
}

/* DNS queries and ICMP echo requests. Of a query the user has waited for the first; of an echo nothing is known. */
static __always_inline void rtt_on_query(struct rtt_bucket *bucket, __u32 fingerprint, int is_dns, __u64 now,
					 const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_request *request = rtt_find_request(bucket, fingerprint);

	int is_recent = request && packet_elapsed(now, request->time) < config->expiry;

	if (is_recent && !request->is_spent) {
		request->detail++;
		request->is_spent = !is_dns;
		return;
	}
	if (is_recent && !is_dns && request->detail) /* ambiguous: also for those that come after */
		return;
	if (request)
		request->fingerprint = 0;
	rtt_put_request(bucket, fingerprint, 0, now, config, output);
}

static __always_inline void rtt_on_query_or_answer(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet,
						   int is_dns, int is_answer, __u64 now,
						   const struct rtt_config *config, struct rtt_output *output)
{
	enum rtt_request_kind kind = is_dns ? RTT_REQUEST_DNS : RTT_REQUEST_ECHO;
	__u8 asked = is_answer ? !packet->direction : packet->direction;
	__u32 fingerprint = rtt_fingerprint(hash, kind, packet->id, asked);
	struct rtt_request *request;

	if (!is_answer) {
		rtt_on_query(bucket, fingerprint, is_dns, now, config, output);
		return;
	}
	request = rtt_answer(bucket, fingerprint, now, config);
	if (request)
		rtt_put_sample(output, is_dns ? RTT_DNS : RTT_ECHO, asked,
			       request->detail ? RTT_SAMPLE_RETRANSMITTED : 0, now - request->time, 0);
}

/* Does this very request wait already, or has it been answered? */
static __always_inline int rtt_knows_request(struct rtt_bucket *bucket, __u64 hash, const struct packet *packet)
{
	enum rtt_request_kind kind;
	__u32 id = packet->id;

	switch (packet->kind) {
	case PACKET_KIND_TCP:
		kind = packet->tcp_flags & TCP_ACK ? RTT_REQUEST_SYN_ACK : RTT_REQUEST_SYN;
		id = packet->seq;
		break;
	case PACKET_KIND_DNS_QUERY:
		kind = RTT_REQUEST_DNS;
		break;
	case PACKET_KIND_ECHO_REQUEST:
		kind = RTT_REQUEST_ECHO;
		break;
	default:
		return 0;
	}
	return !!rtt_find_request(bucket, rtt_fingerprint(hash, kind, id, packet->direction));
}

#endif
