// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../process.h"

void fathom_response_read(const __u8 *data, __u32 captured, __u32 length, __u32 link, __u32 interface,
			  const struct selection *selection, const struct response_config *config,
			  struct fathom_reading *reading)
{
	struct packet_bytes bytes = { .data = data, .end = data + captured, .length = length };
	struct packet *packet = &reading->packet;
	struct packet_cursor at = {};

	*packet = (struct packet){ .segments = 1, .key.interface = interface };
	reading->verdict = packet_parse(&bytes, link, config->has_tunnels, packet, &at);
	reading->verdict = packet_read_other(&bytes, reading->verdict, packet, &at);
	reading->verdict = response_verdict(reading->verdict, packet, &at);
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
	if (response_is_over(flow, now, config->epoch)) {
		has_ended = flow->flags & RESPONSE_IS_USED;
		response_end_epoch(flow, gaps, &packet->key, now, config->epoch, config, ended);
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
	return response_is_over(flow, now, config->epoch);
}

void fathom_response_end_epoch(struct response_flow *flow, union response_gaps *gaps, const struct flow_key *key,
			       __u64 now, const struct response_config *config, struct response_epoch *ended)
{
	response_end_epoch(flow, gaps, key, now, config->epoch, config, ended);
}

#define X(name, text) text,
const char *const fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT] = { RESPONSE_ESTIMATORS(X) };
const char *const fathom_response_counter_names[RESPONSE_COUNTER_COUNT] = { RESPONSE_COUNTERS(X) };
#undef X
