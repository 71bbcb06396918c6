// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

__u32 fathom_packet_parse(const __u8 *data, __u32 captured, __u32 length, __u32 link, int has_tunnels,
			  struct packet *packet)
{
	struct packet_bytes bytes = { .data = data, .end = data + captured, .length = length };

	*packet = (struct packet){ .segments = 1, .key.interface = packet->key.interface };
	return packet_parse(&bytes, link, has_tunnels, packet);
}

int fathom_selection_admits(const struct selection *selection, const struct flow_key *key)
{
	return selection_admits(selection, key);
}

__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed)
{
	return flow_hash(key, seed);
}

int fathom_rtt_uses_flow(const struct packet *packet)
{
	return rtt_uses_flow(packet);
}

int fathom_rtt_uses_bucket(const struct packet *packet, int has_flow, const struct rtt_config *config)
{
	return rtt_uses_bucket(packet, has_flow, config);
}

__u64 fathom_rtt_bucket_hash(const struct packet *packet, __u64 seed)
{
	return rtt_bucket_hash(packet, seed);
}

void fathom_rtt_on_packet(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, struct rtt_bucket *bucket,
			  __u64 hash, const struct packet *packet, __u64 now, const struct rtt_config *config,
			  struct rtt_output *output)
{
	struct rtt_ring ring = { .slots = slots, .size = size };

	rtt_on_packet(flow, ring, bucket, hash, packet, now, config, output);
}

void fathom_rtt_open(struct rtt_flow *flow, struct rtt_pending *slots, __u32 size, const struct packet *packet,
		     __u64 now, const struct rtt_config *config, struct rtt_output *output)
{
	struct rtt_ring ring = { .slots = slots, .size = size };

	rtt_open(flow, ring, packet, now, config, output);
}

void fathom_rtt_grow(const struct rtt_flow *flow, const struct rtt_pending *slots, __u32 size,
		     struct rtt_pending *larger)
{
	struct rtt_ring from = { .slots = (struct rtt_pending *)slots, .size = size };
	struct rtt_ring to = { .slots = larger, .size = size * 2 };
	__u8 direction;

	for (direction = 0; direction < 2; direction++) {
		const struct rtt_half *half = &flow->half[direction];
		__u32 position;

		for (position = half->oldest; position != half->newest; position++)
			*rtt_slot(to, direction, position) = *rtt_slot(from, direction, position);
	}
}

#define X(name, text) text,
const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT] = { PACKET_VERDICTS(X) };
const char *const fathom_rtt_method_names[RTT_METHOD_COUNT] = { RTT_METHODS(X) };
const char *const fathom_rtt_reason_names[RTT_REASON_COUNT] = { RTT_REASONS(X) };
const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT] = { RTT_COUNTERS(X) };
const char *const fathom_rtt_hook_names[RTT_HOOK_COUNT] = { RTT_HOOKS(X) };
#undef X
