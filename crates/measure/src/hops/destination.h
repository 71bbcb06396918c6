/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The round trip to the destination, which answers no probe: one packet of the flow at a time is followed until the
 * destination has answered it. These are data and keep-alives of TCP, and echo requests. Pure, shared with user space.
 */
#ifndef FATHOM_HOPS_DESTINATION_H
#define FATHOM_HOPS_DESTINATION_H

#include "hops.h"

#define HOPS_FOLLOW_NS 100000000 /* from one packet that is followed to the next, at least */

/* Does the packet say again what is followed, which was not answered until now? */
static __always_inline int hops_is_again(const struct hops_flow *flow, const struct hops_header *header)
{
	if (header->protocol != IP_PROTOCOL_TCP)
		return 0;
	if (flow->follows_keep_alive)
		return !header->payload && header->seq + 1 == flow->followed;
	return header->payload && !hops_is_after(header->seq, flow->followed) &&
	       hops_is_after(header->seq + header->payload, flow->followed);
}

/* Does a packet that leaves tell that what is followed was lost? */
static __always_inline int hops_is_lost(const struct hops_flow *flow, const struct hops_header *header, __u64 now,
					__u64 timeout)
{
	return flow->followed_since && (now > flow->followed_since + timeout || hops_is_again(flow, header));
}

/*
 * May the packet be followed? Asked before the flow has taken note of it. The destination must answer it at once, but for
 * data, whose acknowledgement it may delay (RFC 9293, section 3.8.6.3). What was sent before does not tell its answers apart.
 */
static __always_inline int hops_may_follow(const struct hops_flow *flow, const struct hops_header *header, __u64 now)
{
	if (flow->followed_since || now < flow->follow_due)
		return 0;
	if (header->protocol == IP_PROTOCOL_UDP)
		return 0;
	if (header->protocol != IP_PROTOCOL_TCP)
		return !header->tcp_flags;
	if (!flow->packets || header->tcp_flags & (TCP_SYN | TCP_RST | TCP_URG) || !(header->tcp_flags & TCP_ACK))
		return 0;
	return header->payload ? header->seq == flow->header.seq : header->seq + 1 == flow->header.seq;
}

/* Follows it; it leaves at `sent`. */
static __always_inline void hops_follow(struct hops_flow *flow, const struct hops_header *header, __u64 now, __u64 sent)
{
	flow->follows_keep_alive = header->protocol == IP_PROTOCOL_TCP && !header->payload;
	flow->followed = header->seq + flow->follows_keep_alive;
	flow->follow_due = now + HOPS_FOLLOW_NS;
	flow->followed_since = sent;
}

/* Is this the destination's answer to what is followed? */
static __always_inline int hops_is_reply(const struct hops_flow *flow, const struct hops_header *header)
{
	if (header->protocol == IP_PROTOCOL_UDP)
		return 0;
	if (header->protocol != IP_PROTOCOL_TCP)
		return header->tcp_flags && header->seq == flow->followed;
	if ((header->tcp_flags & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK)
		return 0;
	if (flow->follows_keep_alive)
		return !header->payload && header->ack == flow->followed;
	return hops_is_after(header->ack, flow->followed);
}

#endif
