// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

void fathom_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
		 const struct selection *selection, const struct rtt_config *config, struct fathom_reading *reading)
{
	struct packet_bytes bytes = { .data = data, .end = data + captured, .length = length };
	struct packet *packet = &reading->packet;
	struct packet_cursor at = {};

	*packet = (struct packet){ .segments = 1, .key.interface = interface };
	reading->verdict = packet_parse(&bytes, link, config->has_tunnels, packet, &at);
	if (reading->verdict != PACKET_MEASURABLE)
		return;
	reading->is_selected = !selection || selection_admits(selection, &packet->key);
	reading->uses_flow = rtt_uses_flow(packet);
	reading->hash = flow_hash(&packet->key, config->seed);
	reading->likeness = likeness_of(&bytes, link, packet, &at, reading->hash);
}

int fathom_selection_admits(const struct selection *selection, const struct flow_key *key)
{
	return selection_admits(selection, key);
}

__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed)
{
	return flow_hash(key, seed);
}

void fathom_rtt_on_packet(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, struct rtt_bucket *buckets,
			  const struct packet *packet, __u64 now, const struct rtt_config *config,
			  struct rtt_output *output)
{
	struct rtt_ring ring = { .slots = slots, .size = size };
	struct rtt_bucket *bucket = 0;
	__u64 hash = 0;

	rtt_reset(output);
	if (rtt_uses_bucket(packet, !!flow, config)) {
		hash = rtt_bucket_hash(packet, config->seed);
		bucket = &buckets[hash & config->bucket_mask];
	}
	/* The kernel does not read the clock where no one asks for it: nothing here may know more. */
	if (!rtt_needs_clock(flow, !!bucket, packet, config))
		now = 0;
	rtt_on_packet(flow, ring, bucket, hash, packet, now, config, output);
}

void fathom_rtt_open(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, const struct packet *packet,
		     __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_ring ring = { .slots = slots, .size = size };

	rtt_open(flow, ring, packet, now, config, output);
}

void fathom_rtt_grow(const struct rtt_flow *flow, const struct rtt_pending *slots, __u32 size,
		     const struct rtt_config *config, struct rtt_pending *larger)
{
	struct rtt_ring from = { .slots = (struct rtt_pending *)slots, .size = size };
	struct rtt_ring to = { .slots = larger, .size = size * 2 };
	__u8 direction;

	for (direction = 0; direction < 2; direction++) {
		const struct rtt_half *half = &flow->half[direction];
		__u16 position;

		for (position = half->oldest; position != half->newest; position++)
			*rtt_slot(to, direction, position) = *rtt_slot(from, direction, position);
		if (!config->has_bytes)
			continue;
		*rtt_last(to, direction) = *rtt_last(from, direction);
		for (position = half->oldest; position != half->newest; position++)
			*rtt_mark(to, direction, position) = *rtt_mark(from, direction, position);
	}
}

void fathom_response_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
			  const struct selection *selection, const struct response_config *config,
			  struct fathom_reading *reading)
{
	struct packet_bytes bytes = { .data = data, .end = data + captured, .length = length };
	struct packet *packet = &reading->packet;
	struct packet_cursor at = {};

	*packet = (struct packet){ .segments = 1, .key.interface = interface };
	reading->verdict = packet_parse(&bytes, link, config->has_tunnels, packet, &at);
	reading->verdict = response_claim(&bytes, &at, reading->verdict, packet);
	if (reading->verdict != PACKET_MEASURABLE)
		return;
	packet->content = response_read_content(packet, response_first_bytes(&bytes, &at, packet));
	reading->is_selected = !selection || selection_admits(selection, &packet->key);
	reading->direction = response_find_direction(packet, &config->servers);
	reading->hash = flow_hash(&packet->key, config->seed);
	reading->likeness = likeness_of(&bytes, link, packet, &at, reading->hash);
}

int fathom_response_on_packet(struct response_flow *flow, union response_gaps *gaps, struct response_handshake *places,
			      const struct fathom_reading *reading, __u64 now, const struct response_config *config,
			      struct response_epoch *ended, __u32 *left_out)
{
	const struct packet *packet = &reading->packet;
	int has_ended = 0;

	*left_out = RESPONSE_COUNTER_COUNT;
	if (!response_is_request(flow, packet))
		return 0;
	if (response_is_over(flow, now, config)) {
		has_ended = flow->flags & RESPONSE_IS_USED;
		response_end_epoch(flow, gaps, &packet->key, now, config, ended);
	}
	if (response_uses_handshake(flow, packet))
		response_on_connection(flow, &places[reading->hash & config->handshake_mask], reading->hash, packet,
				       now);
	else
		*left_out = response_on_known(flow, gaps, packet, now, config);
	return has_ended;
}

int fathom_response_without_flow(struct response_flow *flow, struct response_handshake *places,
				 const struct fathom_reading *reading, __u64 now, const struct response_config *config)
{
	struct response_handshake *place = 0;

	if (response_uses_handshake(0, &reading->packet))
		place = &places[reading->hash & config->handshake_mask];
	return response_without_flow(flow, place, reading->hash, reading->direction, &reading->packet, now);
}

int fathom_response_is_over(const struct response_flow *flow, __u64 now, const struct response_config *config)
{
	return response_is_over(flow, now, config);
}

void fathom_response_end_epoch(struct response_flow *flow, union response_gaps *gaps, const struct flow_key *key,
			       __u64 now, const struct response_config *config, struct response_epoch *ended)
{
	response_end_epoch(flow, gaps, key, now, config, ended);
}

__u32 fathom_profile_take(struct profile_disorder *disorder, __u32 start, __u32 end, __u32 expected)
{
	enum profile_arrival arrival = profile_arrival(start, end, expected);

	profile_take(disorder, arrival, start, end, expected);
	return arrival;
}

int fathom_dns_read(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	return dns_read(bytes, length, message);
}

__u32 fathom_hops_read(const __u8 *data, __u32 length, __u16 ether_type, struct hops_header *header)
{
	*header = (struct hops_header){};
	return hops_read(data, data + length, length, ether_type, header);
}

__u32 fathom_hops_build(const struct hops_header *header, __u8 ttl, __u16 number, __u8 *bytes)
{
	return hops_build(header, ttl, number, bytes);
}

int fathom_hops_is_answer(const __u8 *message, __u32 length, int is_ipv6, const struct hops_probe *probe,
			  const struct hops_flow *flow, __u64 now)
{
	struct hops_quote quote = {};

	return length > ICMP_HEADER_BYTES && hops_is_error(message[0], is_ipv6) &&
	       hops_read_quote(message + ICMP_HEADER_BYTES, length - ICMP_HEADER_BYTES, is_ipv6, &quote) &&
	       hops_is_quoted(&quote, probe, flow, now);
}

int fathom_hops_on_packet(struct hops_flow *flow, const struct hops_header *header)
{
	return hops_on_packet(flow, header);
}

void fathom_hops_on_reply(struct hops_flow *flow, const struct hops_header *header)
{
	hops_on_reply(flow, header);
}

int fathom_hops_spend(struct hops_budget *budget, __u64 now, __u32 per_second)
{
	return hops_spend(budget, now, per_second);
}

#define X(name, text) text,
const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT] = { PACKET_VERDICTS(X) };
const char *const fathom_rtt_method_names[RTT_METHOD_COUNT] = { RTT_METHODS(X) };
const char *const fathom_rtt_reason_names[RTT_REASON_COUNT] = { RTT_REASONS(X) };
const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT] = { RTT_COUNTERS(X) };
const char *const fathom_rtt_hook_names[RTT_HOOK_COUNT] = { RTT_HOOKS(X) };
const char *const fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT] = { RESPONSE_ESTIMATORS(X) };
const char *const fathom_response_counter_names[RESPONSE_COUNTER_COUNT] = { RESPONSE_COUNTERS(X) };
const char *const fathom_hops_counter_names[HOPS_COUNTER_COUNT] = { HOPS_COUNTERS(X) };
const char *const fathom_profile_counter_names[PROFILE_COUNTER_COUNT] = { PROFILE_COUNTERS(X) };
const char *const fathom_dns_counter_names[DNS_COUNTER_COUNT] = { DNS_COUNTERS(X) };
const char *const fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT] = { LOOKUP_COUNTERS(X) };
#undef X
