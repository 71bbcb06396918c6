// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../process.h"

void fathom_rtt_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
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
		/* That of the first packet of its direction, which has no slot. */
		if ((__u16)(half->newest - half->oldest) < size)
			*rtt_mark(to, direction, half->newest) = *rtt_mark(from, direction, half->newest);
	}
}

#define X(name, text) text,
const char *const fathom_rtt_method_names[RTT_METHOD_COUNT] = { RTT_METHODS(X) };
const char *const fathom_rtt_reason_names[RTT_REASON_COUNT] = { RTT_REASONS(X) };
const char *const fathom_rtt_counter_names[RTT_COUNTER_COUNT] = { RTT_COUNTERS(X) };
#undef X
