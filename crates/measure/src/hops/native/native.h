/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The C of hops as functions that user space calls; most of them for its tests. */
#ifndef FATHOM_HOPS_NATIVE_H
#define FATHOM_HOPS_NATIVE_H

#include "../destination.h"
#include "../header.h"
#include "../hops.h"

/* Reads a packet from its IP header on. Returns an enum hops_reading. */
__u32 fathom_hops_read(const __u8 *data, __u32 length, __u16 ether_type, struct hops_header *header);
/* Writes a probe into HOPS_BYTES_MAX bytes, from its IP header on. Returns its length. */
__u32 fathom_hops_build(const struct hops_header *header, __u8 ttl, __u16 number, __u8 *bytes);
/* Does an ICMP message (`length` bytes, HOPS_BYTES_MAX + 8 at hand) answer this probe of this flow? */
int fathom_hops_is_answer(const __u8 *message, __u32 length, int is_ipv6, const struct hops_probe *probe,
			  const struct hops_flow *flow, __u64 now);
/* Takes note of a packet that leaves. Returns whether it may be cloned. */
int fathom_hops_on_packet(struct hops_flow *flow, const struct hops_header *header);
/* Takes note of a packet that arrived in the flow. */
void fathom_hops_on_reply(struct hops_flow *flow, const struct hops_header *header);
/* Follows a packet that leaves, if it is one to follow. Returns whether it tells that the one before was lost. */
int fathom_hops_watch(struct hops_flow *flow, const struct hops_header *header, __u64 now, __u64 timeout);
/* Is this the destination's answer to what is followed? */
int fathom_hops_is_reply(const struct hops_flow *flow, const struct hops_header *header);
/* Takes one of `per_second` tokens. Returns whether there was one. */
int fathom_hops_spend(struct hops_budget *budget, __u64 now, __u32 per_second);

extern const char *const fathom_hops_counter_names[HOPS_COUNTER_COUNT];

#endif
