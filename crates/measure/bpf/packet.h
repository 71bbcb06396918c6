/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One small struct that says all that is measured of a frame, and the means to read a frame safely. Pure, shared with user
 * space, like all parsing: no helper call, no map, no clock. Every access is proved in bounds by the verifier when this is
 * compiled for the kernel, and the proof covers user space too.
 */
#ifndef FATHOM_PACKET_H
#define FATHOM_PACKET_H

#include "flow.h"
#include "headers.h"

/* Headers beyond this offset are not looked for: nothing legitimate stacks so many. */
#define PACKET_HEADERS_MAX 512
/* Tags, labels and Ethernet headers in front of an IP header. */
#define PACKET_TAGS_MAX 6
/* IP headers in a packet: tunnels in tunnels. */
#define PACKET_ROUNDS_MAX 3
#define PACKET_EXTENSIONS_MAX 8
#define PACKET_TCP_OPTIONS_MAX 16
#define PACKET_DNS_NAME_MAX 64

/* Why a packet is or is not measured; the texts are what users see. */
#define PACKET_VERDICTS(X)                                                                                             \
	X(MEASURABLE, "measurable")                                                                                    \
	X(ARP, "not IP: ARP")                                                                                          \
	X(LLDP, "not IP: LLDP")                                                                                        \
	X(LLC, "not IP: LLC (spanning tree, CDP and others)")                                                          \
	X(PPP, "not IP: PPP or PPPoE control, or compressed")                                                          \
	X(MPLS, "not IP: MPLS of something else")                                                                      \
	X(OTHER_ETHER_TYPE, "not IP: another EtherType")                                                               \
	X(OTHER_VERSION, "not IP: version neither 4 nor 6")                                                            \
	X(OTHER_LINK, "not IP: link type that is not read")                                                            \
	X(OTHER_PROTOCOL, "no method for its protocol")                                                                \
	X(FRAGMENT, "later fragment")                                                                                  \
	X(TRUNCATED, "header beyond the captured bytes")                                                               \
	X(MALFORMED, "malformed header")                                                                               \
	X(TOO_DEEP, "too many headers")                                                                                \
	X(OWN_PROBE, "probe of fathom hops on this host")                                                              \
	X(COPY, "copies of packets that had been seen")                                                                \
	X(OVERLONG, "datagram longer than its packet")                                                                 \
	X(DAMAGED, "echo with a wrong checksum")

#define X(name, text) PACKET_##name,
enum packet_verdict { PACKET_VERDICTS(X) PACKET_VERDICT_COUNT };
#undef X

enum packet_kind {
	PACKET_KIND_NONE, /* IP, but nothing here measures it */
	PACKET_KIND_TCP,
	PACKET_KIND_ECHO_REQUEST,
	PACKET_KIND_ECHO_REPLY,
	PACKET_KIND_DNS_QUERY,
	PACKET_KIND_DNS_RESPONSE,
	PACKET_KIND_QUIC_INITIAL,
	PACKET_KIND_QUIC_LONG, /* another long header */
	PACKET_KIND_QUIC_SHORT, /* may be QUIC: fixed bit set, long header bit clear */
};

enum packet_flag {
	PACKET_HAS_TIMESTAMP = 1 << 0, /* tsval and tsecr are valid */
	PACKET_HAS_SACK = 1 << 1, /* sack_right is valid */
	PACKET_HAS_DNS = 1 << 2, /* TCP whose payload starts a DNS message: id is valid */
	PACKET_IS_RESPONSE = 1 << 3, /* with PACKET_HAS_DNS */
	PACKET_SPIN = 1 << 4, /* value of the spin bit */
	PACKET_HAS_OPTIONS_CUT = 1 << 5, /* TCP options beyond the captured bytes: what they say is not known */
};

/* Where a packet is seen. */
#define PACKET_HOOKS(X)                                                                                                \
	X(CAPTURE, "capture")                                                                                          \
	X(INGRESS, "ingress")                                                                                          \
	X(EGRESS, "egress")                                                                                            \
	X(XDP, "xdp")

#define X(name, text) PACKET_HOOK_##name,
enum packet_hook { PACKET_HOOKS(X) PACKET_HOOK_COUNT };
#undef X

/* How the first byte is to be read; named after the link-layer types of pcap. */
enum packet_link {
	PACKET_LINK_ETHERNET,
	PACKET_LINK_IP, /* the version nibble tells which */
	PACKET_LINK_COOKED, /* Linux cooked, v1 */
	PACKET_LINK_COOKED_V2,
	PACKET_LINK_NULL, /* BSD loopback: 4 bytes of address family */
	PACKET_LINK_PPP, /* with or without its address and control bytes; or Cisco HDLC */
	PACKET_LINK_PPP_DIRECTED, /* behind a byte that says whether it was sent or received */
	PACKET_LINK_PPPOE,
	PACKET_LINK_UNKNOWN,
};

/* The bytes of a frame that are at hand, and how long it was on the wire. */
struct packet_bytes {
	const __u8 *data;
	const __u8 *end;
	__u32 length;
};

struct packet {
	struct flow_key key;
	__u32 length; /* of the IP packet, bytes; with segmentation offload: of the whole train */
	__u32 payload; /* of TCP or UDP, bytes, from the IP length: neither padding nor a short capture counts */
	__u32 seq;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 sack_right; /* right edge of the first SACK block */
	__u32 id; /* ICMP: sequence number; DNS: transaction id << 16 | hash of the question */
	__u16 window;
	__u16 segments; /* packets on the wire that this buffer stands for, at least 1 */
	__u8 kind; /* enum packet_kind */
	__u8 flags; /* enum packet_flag */
	__u8 tcp_flags;
	__u8 direction; /* 0: key.low to key.high */
	__u8 ecn; /* RFC 3168: 3 is CE */
	__u8 content; /* enum response_content, where that is asked for */
	__u8 ttl; /* or hop limit, of the innermost IP header */
	__u8 padding;
};
FATHOM_ASSERT_SIZE(struct packet, 48 + 8 * 4 + 4 + 8 + 4);

/* What parse steps hand on to each other. */
struct packet_cursor {
	struct flow_address source, destination;
	__u32 offset;
	__u32 end; /* offset at which the enclosing IP packet ends; what follows is padding */
	__u32 ether_type;
	__u32 protocol;
	__u32 source_port, destination_port;
	__u32 is_incomplete; /* a first fragment, or extension headers: lengths and checksums are of something else */
};

static __always_inline const void *packet_at(const struct packet_bytes *bytes, __u32 offset, __u32 size)
{
	if (offset > PACKET_HEADERS_MAX || bytes->data + offset + size > bytes->end)
		return 0;
	return bytes->data + offset;
}

/*
 * Moves on by `size`; too far is one place, PACKET_HEADERS_MAX + 1. The mask changes nothing, but makes the verifier forget
 * the lower bound, so that all ways through a loop are one state to it. Without it (6.18, clang 14) the load fails with
 * E2BIG, "BPF program is too large": it walks every combination of headers.
 */
static __always_inline __u32 packet_skip(__u32 offset, __u32 size)
{
	offset += size;
	if (offset > PACKET_HEADERS_MAX)
		offset = PACKET_HEADERS_MAX + 1;
#ifdef __bpf__
	asm volatile("" : "+r"(offset)); /* or the compiler would see that the mask changes nothing */
	offset &= 2 * PACKET_HEADERS_MAX - 1;
#endif
	return offset;
}

/* A header that is not at hand: cut off by the capture, or too far in? */
static __always_inline enum packet_verdict packet_missing(__u32 offset)
{
	return offset > PACKET_HEADERS_MAX ? PACKET_TOO_DEEP : PACKET_TRUNCATED;
}

/*
 * What is sent to be answered by a router on the way, not by the receiver, has this TTL or less when it leaves: that of
 * `hops`, traceroute and the like. No path is longer, and no stack starts this low.
 */
#define PACKET_TTL_OF_PROBES 32
/* …and so much less than the packets of its flow, which start at 64 or more. A change of routes makes no such difference. */
#define PACKET_TTL_FAR_BELOW 24

/* Will this packet, of a flow whose packets have `flow_ttl` here, die on its way? */
static __always_inline int packet_dies_early(const struct packet *packet, __u8 flow_ttl)
{
	return packet->ttl <= PACKET_TTL_OF_PROBES && packet->ttl + PACKET_TTL_FAR_BELOW <= flow_ttl;
}

/*
 * ns from `earlier` to `now`. Packets of a flow that two processors handle come with times that go back by up to 100 us, as
 * each reads the clock before it has the flow: 0 then, not the 584 years that an unsigned difference would be.
 */
static __always_inline __u64 packet_elapsed(__u64 now, __u64 earlier)
{
	return now > earlier ? now - earlier : 0;
}

enum packet_step {
	PACKET_STEP_STOP, /* the verdict stands */
	PACKET_STEP_NEXT_LAYER, /* the cursor is at another header: go on */
};

#endif
