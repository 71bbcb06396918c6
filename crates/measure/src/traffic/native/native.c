// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../process.h"

void fathom_traffic_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
			 const struct selection *selection, const struct traffic_config *config,
			 struct fathom_reading *reading)
{
	struct packet_bytes bytes = { .data = data, .end = data + captured, .length = length };
	struct packet *packet = &reading->packet;
	struct packet_cursor at = {};

	*packet = (struct packet){ .segments = 1, .key.interface = interface };
	reading->verdict = packet_parse(&bytes, link, config->has_tunnels, packet, &at);
	reading->verdict = packet_read_other(&bytes, reading->verdict, packet, &at);
	if (reading->verdict != PACKET_MEASURABLE)
		return;
	reading->is_selected = !selection || selection_admits(selection, &packet->key);
	reading->hash = flow_hash(&packet->key, config->seed);
	reading->likeness = likeness_of(&bytes, link, packet, &at, reading->hash);
}

void fathom_traffic_open(struct traffic_flow *flow, const struct packet *packet)
{
	traffic_open(flow, packet);
}

void fathom_traffic_on_packet(struct traffic_flow *flow, const struct packet *packet, __u64 now, __u64 *counters)
{
	/* The kernel does not read the clock where no one asks for it: nothing here may know more. */
	if (!traffic_needs_clock(flow, packet))
		now = 0;
	traffic_on_packet(flow, packet, now, counters);
}

#define X(name, text) text,
const char *const fathom_traffic_counter_names[TRAFFIC_COUNTER_COUNT] = { TRAFFIC_COUNTERS(X) };
#undef X
