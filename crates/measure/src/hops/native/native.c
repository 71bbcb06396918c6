// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../probe.h"

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

int fathom_hops_watch(struct hops_flow *flow, const struct hops_header *header, __u64 now, __u64 timeout)
{
	int is_lost = hops_is_lost(flow, header, now, timeout);

	if (is_lost)
		flow->followed_since = 0;
	if (hops_may_follow(flow, header, now))
		hops_follow(flow, header, now, now);
	return is_lost;
}

int fathom_hops_is_reply(const struct hops_flow *flow, const struct hops_header *header)
{
	return flow->followed_since && hops_is_reply(flow, header);
}

int fathom_hops_spend(struct hops_budget *budget, __u64 now, __u32 per_second)
{
	return hops_spend(budget, now, per_second);
}

#define X(name, text) text,
const char *const fathom_hops_counter_names[HOPS_COUNTER_COUNT] = { HOPS_COUNTERS(X) };
#undef X
