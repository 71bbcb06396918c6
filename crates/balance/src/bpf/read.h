/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the balancer must know of a packet, and no more. Not the parser of the measurements, which knows tunnels, options and all protocols,
 * and costs more than all that is done here. Pure.
 */
#ifndef FATHOM_BALANCE_READ_H
#define FATHOM_BALANCE_READ_H

#include "../../../measure/bpf/packet.h"
#include "balance.h"

/* VLAN tags in front of IP. */
#define BALANCE_TAGS_MAX 2
/* Extension headers of IPv6 in front of the transport. */
#define BALANCE_EXTENSIONS_MAX 6

#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_FRAGMENT_OFFSET 0x1fff

enum balance_packet_flag {
	BALANCE_PACKET_IS_IPV6 = 1 << 0,
	BALANCE_PACKET_IS_WHOLE = 1 << 1, /* routers must not fragment it: IPv4 with DF, IPv6 */
	BALANCE_PACKET_IS_FIRST = 1 << 2, /* fragment */
	BALANCE_PACKET_IS_LATER = 1 << 3, /* fragment: no ports */
	BALANCE_PACKET_IS_MEASURED = 1 << 4,
	BALANCE_PACKET_HAS_TIMESTAMP = 1 << 5, /* known of what is measured */
};

/* From client to service. */
struct balance_packet {
	struct flow_address source;
	struct flow_address destination;
	__u64 hash; /* of the flow */
	__u32 length; /* of the IP packet, bytes */
	__u32 payload; /* of TCP or UDP, bytes */
	__u32 seq;
	__u32 ack;
	__u32 tsecr; /* the timestamp that is echoed; 0: not known */
	__u32 identification; /* of fragments; IPv4: as in the header */
	__u16 source_port; /* host order; ICMP: type << 8 | code */
	__u16 destination_port;
	__u16 network; /* offset of the IP header */
	__u16 transport; /* offset of what follows it */
	__u16 service; /* index */
	__u16 server; /* where it goes */
	__u8 protocol;
	__u8 tcp_flags;
	__u8 traffic_class;
	__u8 flags; /* enum balance_packet_flag */
	__u8 service_flags; /* enum balance_service_flag */
	__u8 kind; /* enum packet_kind */
	__u16 ring; /* where new flows of its hash go */
};
FATHOM_ASSERT_SIZE(struct balance_packet, 88);

/* The steps of reading return why the packet cannot be balanced, or BALANCE_COUNT_FORWARDED. */

static __always_inline enum balance_counter balance_missing(__u32 offset)
{
	return offset > PACKET_HEADERS_MAX ? BALANCE_COUNT_TOO_DEEP : BALANCE_COUNT_TRUNCATED;
}

static __always_inline enum balance_counter balance_read_tcp(const struct packet_bytes *bytes, __u32 rest,
							     struct balance_packet *packet)
{
	const struct tcp_header *tcp = packet_at(bytes, packet->transport, sizeof(*tcp));
	__u32 header;

	if (!tcp)
		return balance_missing(packet->transport);
	header = (tcp->offset >> 4) * 4;
	if (header < sizeof(*tcp) || header > rest)
		return BALANCE_COUNT_MALFORMED;
	packet->source_port = wire16(tcp->source);
	packet->destination_port = wire16(tcp->destination);
	packet->seq = wire32(tcp->seq);
	packet->ack = wire32(tcp->ack);
	packet->tcp_flags = tcp->flags;
	packet->payload = rest - header;
	packet->kind = PACKET_KIND_TCP;
	return BALANCE_COUNT_FORWARDED;
}

static __always_inline enum balance_counter balance_read_udp(const struct packet_bytes *bytes, __u32 rest,
							     struct balance_packet *packet)
{
	const struct udp_header *udp = packet_at(bytes, packet->transport, sizeof(*udp));
	__u32 length;

	if (!udp)
		return balance_missing(packet->transport);
	length = wire16(udp->length);
	if (length < sizeof(*udp) || rest < sizeof(*udp))
		return BALANCE_COUNT_MALFORMED;
	/* A first fragment has less than the datagram. */
	if (length > rest && !(packet->flags & BALANCE_PACKET_IS_FIRST))
		return BALANCE_COUNT_MALFORMED;
	packet->source_port = wire16(udp->source);
	packet->destination_port = wire16(udp->destination);
	packet->payload = rest - sizeof(*udp);
	return BALANCE_COUNT_FORWARDED;
}

static __always_inline enum balance_counter balance_read_icmp(const struct packet_bytes *bytes, __u32 rest,
							      struct balance_packet *packet)
{
	const struct icmp_echo_header *icmp = packet_at(bytes, packet->transport, sizeof(*icmp));

	if (!icmp)
		return balance_missing(packet->transport);
	if (rest < sizeof(*icmp))
		return BALANCE_COUNT_MALFORMED;
	packet->source_port = icmp->type << 8 | icmp->code;
	packet->destination_port = 0;
	return BALANCE_COUNT_FORWARDED;
}

/* `rest`: bytes of the IP packet from the transport on. */
static __always_inline enum balance_counter balance_read_transport(const struct packet_bytes *bytes, __u32 rest,
								   struct balance_packet *packet)
{
	if (packet->flags & BALANCE_PACKET_IS_LATER)
		return BALANCE_COUNT_FORWARDED;
	if (packet->protocol == IP_PROTOCOL_TCP)
		return balance_read_tcp(bytes, rest, packet);
	if (packet->protocol == IP_PROTOCOL_UDP)
		return balance_read_udp(bytes, rest, packet);
	if (packet->protocol == (packet->flags & BALANCE_PACKET_IS_IPV6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_ICMP))
		return balance_read_icmp(bytes, rest, packet);
	return BALANCE_COUNT_OTHER_PROTOCOL;
}

static __always_inline enum balance_counter balance_read_ipv4(const struct packet_bytes *bytes, __u32 offset,
							      struct balance_packet *packet)
{
	const struct ipv4_header *ip = packet_at(bytes, offset, sizeof(*ip));
	__u32 header, fragment;

	if (!ip)
		return balance_missing(offset);
	header = (ip->version_length & 15) * 4;
	packet->length = wire16(ip->total_length);
	if (ip->version_length >> 4 != 4 || header < sizeof(*ip) || packet->length < header ||
	    packet->length > bytes->length - offset)
		return BALANCE_COUNT_MALFORMED;
	fragment = wire16(ip->fragment);
	if (fragment & IPV4_DONT_FRAGMENT)
		packet->flags |= BALANCE_PACKET_IS_WHOLE;
	if (fragment & IPV4_FRAGMENT_OFFSET)
		packet->flags |= BALANCE_PACKET_IS_LATER;
	else if (fragment & IPV4_MORE_FRAGMENTS)
		packet->flags |= BALANCE_PACKET_IS_FIRST;
	packet->identification = ip->identification;
	packet->source = flow_address_v4(ip->source);
	packet->destination = flow_address_v4(ip->destination);
	packet->protocol = ip->protocol;
	packet->traffic_class = ip->service;
	packet->transport = packet_skip(offset, header);
	return balance_read_transport(bytes, packet->length - header, packet);
}

static __always_inline int balance_is_extension(__u8 protocol)
{
	return protocol == IP_PROTOCOL_HOP_BY_HOP || protocol == IP_PROTOCOL_ROUTING ||
	       protocol == IP_PROTOCOL_FRAGMENT || protocol == IP_PROTOCOL_DESTINATION_OPTIONS;
}

struct ipv6_fragment {
	__u8 next_header;
	__u8 reserved;
	__u16 offset; /* in 8 octets << 3 | reserved | more */
	__u32 identification;
} WIRE_FORMAT;

static __always_inline void balance_note_fragment(const struct ipv6_fragment *fragment, struct balance_packet *packet)
{
	if (fragment->offset & __builtin_bswap16(0xfff8))
		packet->flags |= BALANCE_PACKET_IS_LATER;
	else if (fragment->offset & __builtin_bswap16(1))
		packet->flags |= BALANCE_PACKET_IS_FIRST;
	/* What follows is told by each fragment; senders say the same in all. */
	packet->identification = fragment->identification ^ (__u32)fragment->next_header << 24;
}

/* Not inline: few packets have any, and the verifier walks the loop once. */
static __attribute__((noinline)) enum balance_counter balance_skip_extensions(const struct packet_bytes *bytes,
									      struct balance_packet *packet)
{
	__u32 offset = packet->transport;
	int i;

	for (i = 0; i < BALANCE_EXTENSIONS_MAX && balance_is_extension(packet->protocol); i++) {
		const struct ipv6_fragment *extension = packet_at(bytes, offset, sizeof(*extension));
		__u32 size = 8;

		if (!extension)
			return balance_missing(offset);
		/* RFC 8200, section 4.1: hop-by-hop options are the first header, or there are none. */
		if (extension->next_header == IP_PROTOCOL_HOP_BY_HOP)
			return BALANCE_COUNT_MALFORMED;
		if (packet->protocol == IP_PROTOCOL_FRAGMENT)
			balance_note_fragment(extension, packet);
		else
			size = (extension->reserved + 1) * 8; /* there, the length beyond the first 8 octets */
		packet->protocol = extension->next_header;
		offset = packet_skip(offset, size);
		if (packet->flags & BALANCE_PACKET_IS_LATER)
			break;
	}
	packet->transport = offset;
	if (packet->flags & BALANCE_PACKET_IS_LATER || !balance_is_extension(packet->protocol))
		return BALANCE_COUNT_FORWARDED;
	return BALANCE_COUNT_TOO_DEEP;
}

static __always_inline enum balance_counter balance_read_ipv6(const struct packet_bytes *bytes, __u32 offset,
							      struct balance_packet *packet)
{
	const struct ipv6_header *ip = packet_at(bytes, offset, sizeof(*ip));
	enum balance_counter reason;
	__u32 end;

	if (!ip)
		return balance_missing(offset);
	packet->length = wire16(ip->payload_length) + sizeof(*ip);
	if (*(const __u8 *)ip >> 4 != 6 || packet->length > bytes->length - offset)
		return BALANCE_COUNT_MALFORMED;
	packet->flags = BALANCE_PACKET_IS_IPV6 | BALANCE_PACKET_IS_WHOLE;
	packet->identification = 0;
	packet->source.words[0] = (__u64)ip->source[1] << 32 | ip->source[0];
	packet->source.words[1] = (__u64)ip->source[3] << 32 | ip->source[2];
	packet->destination.words[0] = (__u64)ip->destination[1] << 32 | ip->destination[0];
	packet->destination.words[1] = (__u64)ip->destination[3] << 32 | ip->destination[2];
	packet->protocol = ip->next_header;
	packet->traffic_class = wire32(ip->version_class_flow) >> 20;
	packet->transport = packet_skip(offset, sizeof(*ip));
	end = offset + packet->length;
	if (balance_is_extension(packet->protocol)) {
		reason = balance_skip_extensions(bytes, packet);
		if (reason != BALANCE_COUNT_FORWARDED)
			return reason;
		if (packet->transport > end)
			return BALANCE_COUNT_MALFORMED;
	}
	return balance_read_transport(bytes, end - packet->transport, packet);
}

/* Reads a frame into `packet`, zeroed. */
static __always_inline enum balance_counter balance_read(const struct packet_bytes *bytes,
							 struct balance_packet *packet)
{
	const struct ethernet_header *ethernet = packet_at(bytes, 0, sizeof(*ethernet));
	__u32 offset = sizeof(*ethernet), i;
	__u16 type;

	if (!ethernet)
		return BALANCE_COUNT_TRUNCATED;
	if (ethernet->destination[0] & 1) /* to a group */
		return BALANCE_COUNT_NO_SERVICE;
	type = ethernet->type;
	for (i = 0; i < BALANCE_TAGS_MAX; i++) {
		const struct vlan_header *vlan = packet_at(bytes, offset, sizeof(*vlan));

		if (type != __builtin_bswap16(ETHER_TYPE_VLAN) && type != __builtin_bswap16(ETHER_TYPE_VLAN_SERVICE))
			break;
		if (!vlan)
			return BALANCE_COUNT_TRUNCATED;
		type = vlan->type;
		offset += sizeof(*vlan);
	}
	offset = packet_skip(offset, 0); /* one state for the verifier, whatever the tags */
	packet->network = offset;
	if (type == __builtin_bswap16(ETHER_TYPE_IPV4))
		return balance_read_ipv4(bytes, offset, packet);
	if (type == __builtin_bswap16(ETHER_TYPE_IPV6))
		return balance_read_ipv6(bytes, offset, packet);
	return BALANCE_COUNT_NOT_IP;
}

/*
 * The flow's hash: of what the client's packets have in common, one way. `seed` is secret, or a sender could aim at one bucket. The last step
 * mixes the ports into all bits.
 */
static __always_inline __u64 balance_hash(const struct balance_packet *packet, __u64 seed)
{
	__u64 ports = (__u64)packet->protocol << 32 | (__u32)packet->source_port << 16 | packet->destination_port;
	__u64 hash = seed;

	if (packet->flags & BALANCE_PACKET_IS_IPV6) {
		hash = flow_hash_step(hash, packet->source.words[0]);
		hash = flow_hash_step(hash, packet->source.words[1]);
		hash = flow_hash_step(hash, packet->destination.words[0]);
		hash = flow_hash_step(hash, packet->destination.words[1]);
	} else {
		hash = flow_hash_step(hash,
				      (packet->source.words[1] & ~0xffffffffULL) | packet->destination.words[1] >> 32);
	}
	hash = flow_hash_step(hash, packet->service_flags & BALANCE_IS_BY_CLIENT ? 0 : ports);
	return flow_hash_step(hash, seed >> 32);
}

#endif
