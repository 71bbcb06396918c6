/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet on its way past a hook: it is parsed once, and what is found out of it is for all measurements. */
#ifndef FATHOM_PACKET_PASS_BPF_H
#define FATHOM_PACKET_PASS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "flow_table.bpf.h"
#include "own_probe.bpf.h"
#include "packet_parse.h"

/* Where it is seen. Handed on by value to a measurement that runs alone: read from the pass it costs 2 ns. */
struct packet_sighting {
	__u8 hook; /* enum packet_hook */
	__u8 is_turned; /* leaves by the interface that it came in by */
};

struct packet_pass {
	struct packet packet;
	struct packet_cursor cursor;
	struct flow_slot slot; /* of its flow, where a measurement uses one */
	__u64 now; /* ns; 0: no measurement has asked */
	__u8 first[16]; /* of a payload that lies in pages */
	struct packet_sighting sighting;
	__u8 padding[6];
};

/* The clock is read once a packet, and by many packets not at all: it takes as long as all the rest. */
static __always_inline __u64 packet_now(struct packet_pass *pass)
{
	if (!pass->now)
		pass->now = bpf_ktime_get_ns();
	return pass->now;
}

/* Whether to look into tunnels: says the object that includes this. */
static __always_inline int packet_has_tunnels(void);

static __always_inline struct packet_bytes packet_skb_bytes(struct __sk_buff *skb)
{
	return (struct packet_bytes){ .data = (void *)(long)skb->data,
				      .end = (void *)(long)skb->data_end,
				      .length = skb->len };
}

/* Of a packet that leaves: did it come in by the same interface? What the host sends itself came in by none. */
static __always_inline int packet_is_turned(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex == skb->ifindex;
}

static __always_inline struct packet_bytes packet_xdp_bytes(struct xdp_md *xdp)
{
	return (struct packet_bytes){
		.data = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
		.length = xdp->data_end - xdp->data,
	};
}

/*
 * The halves of a round of packet_parse. They are global functions because the verifier walks those once, with arguments of
 * which it knows nothing, instead of once for each way to get there. The second returns the step << 8 | the verdict.
 */
__noinline int packet_skb_network(struct __sk_buff *skb, struct packet *packet, struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_skb_bytes(skb);

	return packet && at ? packet_read_network(&bytes, packet, at) : PACKET_MALFORMED;
}

__noinline int packet_skb_transport(struct __sk_buff *skb, struct packet *packet, struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_skb_bytes(skb);
	enum packet_verdict verdict = PACKET_MALFORMED;
	enum packet_step step = PACKET_STEP_STOP;

	if (packet && at)
		step = packet_read_transport(&bytes, packet_has_tunnels(), packet, at, &verdict);
	return step << 8 | verdict;
}

__noinline int packet_xdp_network(struct xdp_md *xdp, struct packet *packet, struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_xdp_bytes(xdp);

	return packet && at ? packet_read_network(&bytes, packet, at) : PACKET_MALFORMED;
}

__noinline int packet_xdp_transport(struct xdp_md *xdp, struct packet *packet, struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_xdp_bytes(xdp);
	enum packet_verdict verdict = PACKET_MALFORMED;
	enum packet_step step = PACKET_STEP_STOP;

	if (packet && at)
		step = packet_read_transport(&bytes, packet_has_tunnels(), packet, at, &verdict);
	return step << 8 | verdict;
}

/* packet_parse, over those halves. */
#define PACKET_ROUNDS(context, network, transport, packet, at, verdict)                                                \
	for (int round = 0; round < PACKET_ROUNDS_MAX; round++) {                                                      \
		int outcome;                                                                                           \
                                                                                                                       \
		verdict = network(context, packet, at);                                                                \
		if (verdict != PACKET_MEASURABLE)                                                                      \
			break;                                                                                         \
		outcome = transport(context, packet, at);                                                              \
		verdict = outcome & 0xff;                                                                              \
		if (outcome >> 8 == PACKET_STEP_STOP)                                                                  \
			break;                                                                                         \
		verdict = PACKET_TOO_DEEP;                                                                             \
	}

/* `ether_type` is 0 where the frame starts with an Ethernet header, else it says what the first header is. */
static __always_inline __u32 packet_parse_skb(struct __sk_buff *skb, __u16 ether_type, struct packet *packet,
					      struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_skb_bytes(skb);
	__u32 verdict = PACKET_MEASURABLE;

	__builtin_memset(packet, 0, sizeof(*packet));
	packet->key.interface = skb->ifindex;
	packet->key.vlan = skb->vlan_present ? skb->vlan_tci & 0x0fff : 0;
	packet->segments = skb->gso_segs ? skb->gso_segs : 1;
	at->offset = 0;
	at->ether_type = ether_type;
	if (is_own_probe(skb))
		verdict = PACKET_OWN_PROBE;
	else if (!ether_type)
		verdict = packet_read_ethernet(&bytes, at);
	if (verdict != PACKET_MEASURABLE)
		return verdict;
	PACKET_ROUNDS(skb, packet_skb_network, packet_skb_transport, packet, at, verdict);
	return verdict;
}

static __always_inline __u32 packet_parse_xdp(struct xdp_md *xdp, struct packet *packet, struct packet_cursor *at)
{
	struct packet_bytes bytes = packet_xdp_bytes(xdp);
	__u32 verdict;

	__builtin_memset(packet, 0, sizeof(*packet));
	packet->key.interface = xdp->ingress_ifindex;
	packet->segments = 1;
	at->offset = 0;
	verdict = packet_read_ethernet(&bytes, at);
	if (verdict != PACKET_MEASURABLE)
		return verdict;
	PACKET_ROUNDS(xdp, packet_xdp_network, packet_xdp_transport, packet, at, verdict);
	return verdict;
}

/*
 * As packet_parse_skb; headers in the pages of a non-linear buffer are brought to where a program can read them. What was read
 * from the buffer before, the caller must read again.
 */
static __always_inline __u32 packet_parse_whole_skb(struct __sk_buff *skb, __u16 ether_type, struct packet *packet,
						    struct packet_cursor *at)
{
	__u32 verdict = packet_parse_skb(skb, ether_type, packet, at);

	if (verdict == PACKET_TRUNCATED && skb->len > skb->data_end - skb->data) {
		__u32 wanted = skb->len < PACKET_HEADERS_MAX ? skb->len : PACKET_HEADERS_MAX;

		if (!bpf_skb_pull_data(skb, wanted))
			verdict = packet_parse_skb(skb, ether_type, packet, at);
	}
	return verdict;
}

#endif
