/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the bytes of a frame to one small struct. Pure, shared with user space: no helper call, no map, no clock. Every
 * access is proved in bounds by the verifier when this is compiled for the kernel, and the proof covers user space too.
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
#define PACKET_VERDICTS(X)                                                    \
	X(MEASURABLE, "measurable")                                           \
	X(NOT_IP, "not IP")                                                   \
	X(OTHER_PROTOCOL, "no method for its protocol")                       \
	X(FRAGMENT, "later fragment")                                         \
	X(TRUNCATED, "header beyond the captured bytes")                      \
	X(MALFORMED, "malformed header")                                      \
	X(TOO_DEEP, "too many headers")

enum packet_verdict {
#define X(name, text) PACKET_##name,
	PACKET_VERDICTS(X)
#undef X
	PACKET_VERDICT_COUNT,
};

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
};

/* How the first byte is to be read; named after the link-layer types of pcap. */
enum packet_link {
	PACKET_LINK_ETHERNET,
	PACKET_LINK_IP, /* the version nibble tells which */
	PACKET_LINK_COOKED, /* Linux cooked, v1 */
	PACKET_LINK_COOKED_V2,
	PACKET_LINK_NULL, /* BSD loopback: 4 bytes of address family */
	PACKET_LINK_PPP, /* with or without its address and control bytes */
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
	__u8 padding[3];
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

static __always_inline enum packet_verdict packet_read_ethernet(const struct packet_bytes *bytes,
								struct packet_cursor *at)
{
	const struct ethernet_header *ethernet = packet_at(bytes, at->offset, sizeof(*ethernet));

	if (!ethernet)
		return packet_missing(at->offset);
	at->ether_type = wire16(ethernet->type);
	at->offset = packet_skip(at->offset, sizeof(*ethernet));
	return PACKET_MEASURABLE;
}

/* Sets the EtherType from the version nibble. */
static __always_inline enum packet_verdict packet_read_version(const struct packet_bytes *bytes,
							       struct packet_cursor *at)
{
	const __u8 *first = packet_at(bytes, at->offset, 1);

	if (!first)
		return packet_missing(at->offset);
	if (*first >> 4 == 4)
		at->ether_type = ETHER_TYPE_IPV4;
	else if (*first >> 4 == 6)
		at->ether_type = ETHER_TYPE_IPV6;
	else
		return PACKET_NOT_IP;
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_link(const struct packet_bytes *bytes, enum packet_link link,
							    struct packet_cursor *at)
{
	const __u16 *cooked_type;

	switch (link) {
	case PACKET_LINK_ETHERNET:
		return packet_read_ethernet(bytes, at);
	case PACKET_LINK_IP:
		return packet_read_version(bytes, at);
	case PACKET_LINK_COOKED:
	case PACKET_LINK_COOKED_V2:
		cooked_type = packet_at(bytes, link == PACKET_LINK_COOKED ? 14 : 0, 2);
		if (!cooked_type)
			return PACKET_TRUNCATED;
		at->offset = link == PACKET_LINK_COOKED ? 16 : 20;
		at->ether_type = wire16(*cooked_type);
		return PACKET_MEASURABLE;
	case PACKET_LINK_NULL:
		/* The family of IPv6 differs from system to system, and so does the byte order: the nibble is safer. */
		at->offset = 4;
		return packet_read_version(bytes, at);
	case PACKET_LINK_PPP: {
		const __u8 *ppp = packet_at(bytes, 0, 4);

		if (!ppp)
			return PACKET_TRUNCATED;
		at->offset = ppp[0] == 0xff && ppp[1] == 0x03 ? 4 : 2;
		return packet_read_version(bytes, at);
	}
	default:
		return PACKET_NOT_IP;
	}
}

static __always_inline enum packet_verdict packet_read_vlan(const struct packet_bytes *bytes, struct packet *packet,
							    struct packet_cursor *at)
{
	const struct vlan_header *vlan = packet_at(bytes, at->offset, sizeof(*vlan));

	if (!vlan)
		return packet_missing(at->offset);
	packet->key.vlan = packet->key.vlan << 12 | (wire16(vlan->control) & 0x0fff);
	at->ether_type = wire16(vlan->type);
	at->offset = packet_skip(at->offset, sizeof(*vlan));
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_pppoe(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const struct pppoe_header *pppoe = packet_at(bytes, at->offset, sizeof(*pppoe));

	if (!pppoe)
		return packet_missing(at->offset);
	if (wire16(pppoe->protocol) == 0x0021)
		at->ether_type = ETHER_TYPE_IPV4;
	else if (wire16(pppoe->protocol) == 0x0057)
		at->ether_type = ETHER_TYPE_IPV6;
	else
		return PACKET_NOT_IP;
	at->offset = packet_skip(at->offset, sizeof(*pppoe));
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_mpls(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const __u8 *entry = packet_at(bytes, at->offset, 4);

	if (!entry)
		return packet_missing(at->offset);
	at->offset = packet_skip(at->offset, 4);
	if (!(entry[2] & 1)) /* not the bottom of the stack */
		return PACKET_MEASURABLE;
	return packet_read_version(bytes, at);
}

static __always_inline enum packet_verdict packet_read_ipv4(const struct packet_bytes *bytes, struct packet *packet,
							    struct packet_cursor *at)
{
	const struct ipv4_header *ip = packet_at(bytes, at->offset, sizeof(*ip));
	__u32 header, total;

	if (!ip)
		return packet_missing(at->offset);
	header = (ip->version_length & 0x0f) * 4;
	total = wire16(ip->total_length);
	/* Segmentation offload leaves the length of a train that outgrows 16 bits at 0. */
	if (!total && bytes->length > at->offset)
		total = bytes->length - at->offset;
	if (ip->version_length >> 4 != 4 || header < sizeof(*ip) || total < header)
		return PACKET_MALFORMED;
	if (ip->fragment & __builtin_bswap16(0x1fff))
		return PACKET_FRAGMENT;
	at->source = flow_address_v4(ip->source);
	at->destination = flow_address_v4(ip->destination);
	at->protocol = ip->protocol;
	at->end = at->offset + total;
	at->offset = packet_skip(at->offset, header);
	packet->length = total;
	packet->ecn = ip->service & 3;
	return PACKET_MEASURABLE;
}

static __always_inline int packet_is_extension(__u8 protocol)
{
	return protocol == IP_PROTOCOL_HOP_BY_HOP || protocol == IP_PROTOCOL_ROUTING ||
	       protocol == IP_PROTOCOL_FRAGMENT || protocol == IP_PROTOCOL_AUTHENTICATION ||
	       protocol == IP_PROTOCOL_DESTINATION_OPTIONS;
}

/* Not inline: one loop for the verifier to walk, instead of one in each layer. */
static enum packet_verdict packet_read_extensions(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	int i;

	for (i = 0; i < PACKET_EXTENSIONS_MAX && packet_is_extension(at->protocol); i++) {
		const struct ipv6_extension *extension = packet_at(bytes, at->offset, sizeof(*extension));
		__u32 size;

		if (!extension)
			return packet_missing(at->offset);
		size = (extension->length + 1) * 8;
		if (at->protocol == IP_PROTOCOL_AUTHENTICATION)
			size = (extension->length + 2) * 4;
		if (at->protocol == IP_PROTOCOL_FRAGMENT) {
			if (extension->fragment & __builtin_bswap16(0xfff8))
				return PACKET_FRAGMENT;
			size = 8;
		}
		at->protocol = extension->next_header;
		at->offset = packet_skip(at->offset, size);
	}
	return packet_is_extension(at->protocol) ? PACKET_TOO_DEEP : PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_ipv6(const struct packet_bytes *bytes, struct packet *packet,
							    struct packet_cursor *at)
{
	const struct ipv6_header *ip = packet_at(bytes, at->offset, sizeof(*ip));
	__u32 payload;

	if (!ip)
		return packet_missing(at->offset);
	if ((*(const __u8 *)ip) >> 4 != 6)
		return PACKET_MALFORMED;
	payload = wire16(ip->payload_length);
	/* 0: a jumbo payload, or a segmentation train that outgrows 16 bits. */
	if (!payload && bytes->length > at->offset + sizeof(*ip))
		payload = bytes->length - at->offset - sizeof(*ip);
	at->source.words[0] = (__u64)ip->source[1] << 32 | ip->source[0];
	at->source.words[1] = (__u64)ip->source[3] << 32 | ip->source[2];
	at->destination.words[0] = (__u64)ip->destination[1] << 32 | ip->destination[0];
	at->destination.words[1] = (__u64)ip->destination[3] << 32 | ip->destination[2];
	at->protocol = ip->next_header;
	at->offset = packet_skip(at->offset, sizeof(*ip));
	at->end = at->offset + payload;
	packet->length = payload + sizeof(*ip);
	packet->ecn = wire32(ip->version_class_flow) >> 20 & 3;
	if (packet_is_extension(at->protocol))
		return packet_read_extensions(bytes, at);
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_gre(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct gre_header *gre = packet_at(bytes, at->offset, sizeof(*gre));
	__u16 flags;

	if (!gre)
		return packet_missing(at->offset);
	flags = wire16(gre->flags_version);
	if (flags & 7) /* version 1 is PPTP's, compressed PPP */
		return PACKET_OTHER_PROTOCOL;
	at->ether_type = wire16(gre->type);
	at->offset = packet_skip(at->offset, sizeof(*gre));
	if (flags & 0x8000) /* checksum */
		at->offset = packet_skip(at->offset, 4);
	if (flags & 0x2000) { /* key */
		const __u32 *key = packet_at(bytes, at->offset, sizeof(*key));

		if (!key)
			return packet_missing(at->offset);
		packet->key.tunnel = wire32(*key);
		at->offset = packet_skip(at->offset, 4);
	}
	if (flags & 0x1000) /* sequence number */
		at->offset = packet_skip(at->offset, 4);
	return PACKET_MEASURABLE;
}

#define PACKET_PORT_VXLAN 4789
#define PACKET_PORT_VXLAN_LINUX 8472 /* the kernel's default, older than the standard */
#define PACKET_PORT_GENEVE 6081
#define PACKET_PORT_DNS 53
#define PACKET_PORT_QUIC 443

/* MEASURABLE: the cursor is at the inner frame. OTHER_PROTOCOL: no tunnel after all. */
static __always_inline enum packet_verdict packet_read_udp_tunnel(const struct packet_bytes *bytes,
								  struct packet *packet, struct packet_cursor *at)
{
	if (at->destination_port == PACKET_PORT_GENEVE) {
		const struct geneve_header *geneve = packet_at(bytes, at->offset, sizeof(*geneve));

		if (!geneve)
			return packet_missing(at->offset);
		if (geneve->version_options >> 6)
			return PACKET_OTHER_PROTOCOL;
		packet->key.tunnel = wire32(geneve->vni) >> 8;
		at->ether_type = wire16(geneve->type);
		at->offset = packet_skip(at->offset, sizeof(*geneve) + (geneve->version_options & 0x3f) * 4);
	} else {
		const struct vxlan_header *vxlan = packet_at(bytes, at->offset, sizeof(*vxlan));

		if (!vxlan)
			return packet_missing(at->offset);
		if (wire32(vxlan->flags) != 0x08000000)
			return PACKET_OTHER_PROTOCOL;
		packet->key.tunnel = wire32(vxlan->vni) >> 8;
		at->ether_type = ETHER_TYPE_BRIDGED;
		at->offset = packet_skip(at->offset, sizeof(*vxlan));
	}
	return PACKET_MEASURABLE;
}

static __always_inline void packet_set_timestamp(struct packet *packet, __u32 tsval, __u32 tsecr)
{
	packet->tsval = wire32(tsval);
	packet->tsecr = wire32(tsecr);
	packet->flags |= PACKET_HAS_TIMESTAMP;
}

/* Not inline, for the verifier's sake: see packet_read_extensions. Options that the capture cut off count as absent. */
static void packet_read_tcp_options(const struct packet_bytes *bytes, __u32 offset, __u32 end, struct packet *packet)
{
	int i;

	for (i = 0; i < PACKET_TCP_OPTIONS_MAX && offset < end; i++) {
		const __u8 *option = packet_at(bytes, offset, 1);
		__u32 size = 1;

		if (!option || *option == TCP_OPTION_END)
			return;
		if (*option != TCP_OPTION_NO_OPERATION) {
			const __u8 *length = packet_at(bytes, offset + 1, 1);

			if (!length || *length < 2)
				return;
			size = *length;
		}
		if (*option == TCP_OPTION_TIMESTAMP && size == 10) {
			const __u32 *values = packet_at(bytes, offset + 2, 8);

			if (values)
				packet_set_timestamp(packet, values[0], values[1]);
		} else if (*option == TCP_OPTION_SACK && size >= 10) {
			const __u32 *edges = packet_at(bytes, offset + 2, 8);

			if (edges) {
				packet->sack_right = wire32(edges[1]);
				packet->flags |= PACKET_HAS_SACK;
			}
		}
		offset = packet_skip(offset, size);
	}
}

static __always_inline void packet_set_dns(const struct dns_header *dns, __u16 question, struct packet *packet)
{
	packet->id = (__u32)wire16(dns->id) << 16 | question;
}

/*
 * The question, folded into 16 bits: a resolver that reuses a transaction id must not be matched with the wrong answer.
 * The hash takes the name as it stands (servers echo its case) and the type after it.
 */
static __u16 packet_hash_question(const struct packet_bytes *bytes, __u32 offset)
{
	__u32 hash = 2166136261U;
	int i, rest = 0;

	for (i = 0; i < PACKET_DNS_NAME_MAX; i++) {
		const __u8 *byte = packet_at(bytes, offset + i, 1);

		if (!byte)
			break;
		hash = (hash ^ *byte) * 16777619U;
		if (rest && ++rest == 4) /* the end of the name, and two bytes of type */
			break;
		if (!rest && !*byte)
			rest = 1;
	}
	return hash ^ hash >> 16;
}

/* A query or a response at `offset`? Returns its enum packet_kind, or PACKET_KIND_NONE. */
static __always_inline enum packet_kind packet_read_dns(const struct packet_bytes *bytes, __u32 offset,
							struct packet *packet)
{
	const struct dns_header *dns = packet_at(bytes, offset, sizeof(*dns));
	__u16 flags;

	if (!dns)
		return PACKET_KIND_NONE;
	flags = wire16(dns->flags);
	if (flags & 0x7800 || wire16(dns->questions) != 1) /* another opcode than QUERY */
		return PACKET_KIND_NONE;
	packet_set_dns(dns, packet_hash_question(bytes, offset + sizeof(*dns)), packet);
	return flags & 0x8000 ? PACKET_KIND_DNS_RESPONSE : PACKET_KIND_DNS_QUERY;
}

static __always_inline enum packet_verdict packet_read_tcp(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct tcp_header *tcp = packet_at(bytes, at->offset, sizeof(*tcp));
	__u32 header, options, length;

	if (!tcp)
		return packet_missing(at->offset);
	header = (tcp->offset >> 4) * 4;
	length = at->end - at->offset;
	if (header < sizeof(*tcp) || header > length || at->end < at->offset)
		return PACKET_MALFORMED;
	at->source_port = wire16(tcp->source);
	at->destination_port = wire16(tcp->destination);
	packet->kind = PACKET_KIND_TCP;
	packet->seq = wire32(tcp->seq);
	packet->ack = wire32(tcp->ack);
	packet->tcp_flags = tcp->flags;
	packet->window = wire16(tcp->window);
	packet->payload = length - header;

	options = at->offset + sizeof(*tcp);
	if (header > sizeof(*tcp)) {
		const struct tcp_timestamp_option *timestamp = packet_at(bytes, options, sizeof(*timestamp));

		if (header == sizeof(*tcp) + sizeof(*timestamp) && timestamp &&
		    timestamp->kind == __builtin_bswap32(TCP_ALIGNED_TIMESTAMP))
			packet_set_timestamp(packet, timestamp->tsval, timestamp->tsecr);
		else
			packet_read_tcp_options(bytes, options, at->offset + header, packet);
	}
	if ((at->source_port == PACKET_PORT_DNS || at->destination_port == PACKET_PORT_DNS) && packet->payload > 14) {
		enum packet_kind kind = packet_read_dns(bytes, at->offset + header + 2, packet);

		if (kind != PACKET_KIND_NONE)
			packet->flags |= PACKET_HAS_DNS | (kind == PACKET_KIND_DNS_RESPONSE ? PACKET_IS_RESPONSE : 0);
	}
	return PACKET_MEASURABLE;
}

/* Which of the QUIC kinds the payload of a datagram looks like (RFC 8999, RFC 9000 section 17, RFC 9369). */
static __always_inline enum packet_kind packet_read_quic(const struct packet_bytes *bytes, __u32 offset,
							 struct packet *packet)
{
	const struct quic_long_header *quic = packet_at(bytes, offset, 1);
	__u32 version;
	__u8 type;

	if (!quic || !(quic->first & QUIC_FIXED_BIT))
		return PACKET_KIND_NONE;
	if (!(quic->first & QUIC_LONG_HEADER)) {
		if (quic->first & QUIC_SPIN_BIT)
			packet->flags |= PACKET_SPIN;
		return PACKET_KIND_QUIC_SHORT;
	}
	quic = packet_at(bytes, offset, sizeof(*quic));
	if (!quic)
		return PACKET_KIND_NONE;
	version = (__u32)quic->version[0] << 24 | quic->version[1] << 16 | quic->version[2] << 8 | quic->version[3];
	type = quic->first >> 4 & 3;
	if (version == QUIC_VERSION_1)
		return type == 0 ? PACKET_KIND_QUIC_INITIAL : PACKET_KIND_QUIC_LONG;
	if (version == QUIC_VERSION_2)
		return type == 1 ? PACKET_KIND_QUIC_INITIAL : PACKET_KIND_QUIC_LONG;
	return PACKET_KIND_NONE;
}

static __always_inline enum packet_verdict packet_read_udp(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct udp_header *udp = packet_at(bytes, at->offset, sizeof(*udp));

	if (!udp)
		return packet_missing(at->offset);
	if (at->end < at->offset + sizeof(*udp))
		return PACKET_MALFORMED;
	at->source_port = wire16(udp->source);
	at->destination_port = wire16(udp->destination);
	at->offset = packet_skip(at->offset, sizeof(*udp));
	packet->payload = at->end - at->offset;
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_datagram(const struct packet_bytes *bytes, struct packet *packet,
								struct packet_cursor *at)
{
	if (at->source_port == PACKET_PORT_DNS || at->destination_port == PACKET_PORT_DNS)
		packet->kind = packet_read_dns(bytes, at->offset, packet);
	else
		packet->kind = packet_read_quic(bytes, at->offset, packet);
	return packet->kind == PACKET_KIND_NONE ? PACKET_OTHER_PROTOCOL : PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_icmp(const struct packet_bytes *bytes, struct packet *packet,
							    struct packet_cursor *at)
{
	const struct icmp_echo_header *icmp = packet_at(bytes, at->offset, sizeof(*icmp));
	__u8 request = at->protocol == IP_PROTOCOL_ICMP ? 8 : 128;
	__u8 reply = at->protocol == IP_PROTOCOL_ICMP ? 0 : 129;

	if (!icmp)
		return packet_missing(at->offset);
	if (icmp->code || (icmp->type != request && icmp->type != reply))
		return PACKET_OTHER_PROTOCOL;
	packet->kind = icmp->type == request ? PACKET_KIND_ECHO_REQUEST : PACKET_KIND_ECHO_REPLY;
	packet->id = wire16(icmp->sequence);
	at->source_port = wire16(icmp->id);
	at->destination_port = at->source_port;
	return PACKET_MEASURABLE;
}

static __always_inline void packet_set_key(struct packet *packet, const struct packet_cursor *at)
{
	int swap = flow_address_before(&at->destination, &at->source);

	if (flow_address_equal(&at->destination, &at->source))
		swap = at->destination_port < at->source_port;
	packet->direction = swap;
	packet->key.low = swap ? at->destination : at->source;
	packet->key.high = swap ? at->source : at->destination;
	packet->key.low_port = swap ? at->destination_port : at->source_port;
	packet->key.high_port = swap ? at->source_port : at->destination_port;
	packet->key.protocol = at->protocol;
}

enum packet_step {
	PACKET_STEP_STOP, /* the verdict stands */
	PACKET_STEP_NEXT_LAYER, /* the cursor is at another header: go on */
};

/* Tags, labels and Ethernet headers, up to an IP header. */
static __always_inline enum packet_step packet_read_tag(const struct packet_bytes *bytes, struct packet *packet,
							struct packet_cursor *at, enum packet_verdict *verdict)
{
	switch (at->ether_type) {
	case ETHER_TYPE_VLAN:
	case ETHER_TYPE_VLAN_SERVICE:
	case ETHER_TYPE_VLAN_OLD_SERVICE:
		*verdict = packet_read_vlan(bytes, packet, at);
		break;
	case ETHER_TYPE_PPPOE_SESSION:
		*verdict = packet_read_pppoe(bytes, at);
		break;
	case ETHER_TYPE_MPLS:
	case ETHER_TYPE_MPLS_MULTICAST:
		*verdict = packet_read_mpls(bytes, at);
		break;
	case ETHER_TYPE_BRIDGED:
		*verdict = packet_read_ethernet(bytes, at);
		break;
	default:
		return PACKET_STEP_STOP;
	}
	return *verdict == PACKET_MEASURABLE ? PACKET_STEP_NEXT_LAYER : PACKET_STEP_STOP;
}

/* First half of a round: from the cursor to behind the next IP header. */
static __always_inline enum packet_verdict packet_read_network(const struct packet_bytes *bytes, struct packet *packet,
							       struct packet_cursor *at)
{
	enum packet_verdict verdict = PACKET_MEASURABLE;
	int i;

	for (i = 0; i < PACKET_TAGS_MAX; i++)
		if (packet_read_tag(bytes, packet, at, &verdict) == PACKET_STEP_STOP)
			break;
	if (verdict != PACKET_MEASURABLE)
		return verdict;
	if (at->ether_type == ETHER_TYPE_IPV4)
		return packet_read_ipv4(bytes, packet, at);
	if (at->ether_type == ETHER_TYPE_IPV6)
		return packet_read_ipv6(bytes, packet, at);
	return i == PACKET_TAGS_MAX ? PACKET_TOO_DEEP : PACKET_NOT_IP;
}

static __always_inline int packet_is_udp_tunnel(const struct packet_cursor *at)
{
	return at->destination_port == PACKET_PORT_VXLAN || at->destination_port == PACKET_PORT_VXLAN_LINUX ||
	       at->destination_port == PACKET_PORT_GENEVE;
}

static __always_inline enum packet_step packet_read_tunnel(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at, enum packet_verdict *verdict)
{
	if (at->protocol == IP_PROTOCOL_GRE)
		*verdict = packet_read_gre(bytes, packet, at);
	else if (at->protocol == IP_PROTOCOL_UDP)
		*verdict = packet_read_udp_tunnel(bytes, packet, at);
	else
		*verdict = packet_read_version(bytes, at);
	return *verdict == PACKET_MEASURABLE ? PACKET_STEP_NEXT_LAYER : PACKET_STEP_STOP;
}

/* Second half of a round: what the IP packet carries, something to measure or (tunnels) another frame. */
static __always_inline enum packet_step packet_read_transport(const struct packet_bytes *bytes, int tunnels,
							      struct packet *packet, struct packet_cursor *at,
							      enum packet_verdict *verdict)
{
	*verdict = PACKET_OTHER_PROTOCOL;
	switch (at->protocol) {
	case IP_PROTOCOL_TCP:
		*verdict = packet_read_tcp(bytes, packet, at);
		break;
	case IP_PROTOCOL_ICMP:
	case IP_PROTOCOL_ICMPV6:
		*verdict = packet_read_icmp(bytes, packet, at);
		break;
	case IP_PROTOCOL_UDP:
		*verdict = packet_read_udp(bytes, packet, at);
		if (*verdict != PACKET_MEASURABLE)
			break;
		if (tunnels && packet_is_udp_tunnel(at))
			return packet_read_tunnel(bytes, packet, at, verdict);
		*verdict = packet_read_datagram(bytes, packet, at);
		break;
	case IP_PROTOCOL_GRE:
	case IP_PROTOCOL_IPV4:
	case IP_PROTOCOL_IPV6:
		if (tunnels)
			return packet_read_tunnel(bytes, packet, at, verdict);
		break;
	}
	if (*verdict == PACKET_MEASURABLE)
		packet_set_key(packet, at);
	return PACKET_STEP_STOP;
}

/*
 * Reads a frame. `packet` must be zeroed but for key.interface, key.vlan (a tag that the network card took off) and
 * segments. Returns PACKET_MEASURABLE when key, kind and the kind's fields are set. With `tunnels` the innermost flow is
 * the one that counts. (packet_path.bpf.h has the same rounds, with each half a function that is verified by itself.)
 */
static __always_inline enum packet_verdict packet_parse(const struct packet_bytes *bytes, enum packet_link link,
							int tunnels, struct packet *packet)
{
	struct packet_cursor at = {};
	enum packet_verdict verdict = packet_read_link(bytes, link, &at);
	int i;

	for (i = 0; i < PACKET_ROUNDS_MAX && verdict == PACKET_MEASURABLE; i++) {
		verdict = packet_read_network(bytes, packet, &at);
		if (verdict != PACKET_MEASURABLE)
			return verdict;
		if (packet_read_transport(bytes, tunnels, packet, &at, &verdict) == PACKET_STEP_STOP)
			return verdict;
	}
	return verdict == PACKET_MEASURABLE ? PACKET_TOO_DEEP : verdict;
}

#endif
