/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP: what answers a client, and which flow an error is about. Pure. */
#ifndef FATHOM_BALANCE_ICMP_H
#define FATHOM_BALANCE_ICMP_H

#include "encapsulate.h"

/* As much of a packet that is too long as the client gets back: its headers, whatever the options. */
#define BALANCE_QUOTE 128
/* No path of IPv6 is narrower, bytes. */
#define BALANCE_IPV6_MTU 1280

enum icmp_type {
	ICMP_ECHO_REPLY = 0,
	ICMP_UNREACHABLE = 3,
	ICMP_ECHO_REQUEST = 8,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETER_PROBLEM = 12,
	ICMPV6_UNREACHABLE = 1,
	ICMPV6_TOO_BIG = 2,
	ICMPV6_PARAMETER_PROBLEM = 4,
	ICMPV6_ECHO_REQUEST = 128,
	ICMPV6_ECHO_REPLY = 129,
};
#define ICMP_FRAGMENTATION_NEEDED 4 /* a code of ICMP_UNREACHABLE */

struct icmp_error {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__u16 unused; /* ICMPv6: the upper half of the MTU */
	__u16 mtu;
} WIRE_FORMAT;

struct icmpv6_pseudo {
	__u32 length;
	__u32 next_header;
};

static __always_inline int balance_is_echo(const struct balance_packet *packet)
{
	__u16 request = packet->flags & BALANCE_PACKET_IS_IPV6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO_REQUEST;

	return packet->source_port == request << 8 && !(packet->flags & BALANCE_PACKET_IS_FIRST);
}

/* Does the message quote a packet? */
static __always_inline int balance_is_error(const struct balance_packet *packet)
{
	__u8 type = packet->source_port >> 8;

	if (packet->flags & BALANCE_PACKET_IS_IPV6)
		return type >= ICMPV6_UNREACHABLE && type <= ICMPV6_PARAMETER_PROBLEM;
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;
}

/* A checksum over a field that changes (RFC 1624, equation 3). */
static __always_inline __u16 balance_adjust(__u16 checksum, __u16 before, __u16 after)
{
	return ~balance_fold((__u64)(__u16)~checksum + (__u16)~before + after);
}

static __always_inline void balance_swap_ethernet(struct ethernet_header *ethernet)
{
	struct ethernet_header before = *ethernet;

	__builtin_memcpy(ethernet->destination, before.source, 6);
	__builtin_memcpy(ethernet->source, before.destination, 6);
}

/* Turns a request into its answer: addresses swapped, the type, and a TTL for the way back. */
static __always_inline void balance_answer_ipv4(struct ipv4_header *ip, struct icmp_echo_header *icmp)
{
	__u32 source = ip->source;
	/* TTL and protocol are one word of the checksum. */
	__u16 before = __builtin_bswap16(ip->ttl << 8), after = __builtin_bswap16(BALANCE_TTL << 8);

	ip->source = ip->destination;
	ip->destination = source;
	ip->checksum = balance_adjust(ip->checksum, before, after);
	ip->ttl = BALANCE_TTL;
	icmp->type = ICMP_ECHO_REPLY;
	icmp->checksum = balance_adjust(icmp->checksum, __builtin_bswap16(ICMP_ECHO_REQUEST << 8), 0);
}

static __always_inline void balance_answer_ipv6(struct ipv6_header *ip, struct icmp_echo_header *icmp)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < 4; i++) {
		__u32 source = ip->source[i];

		ip->source[i] = ip->destination[i];
		ip->destination[i] = source;
	}
	ip->hop_limit = BALANCE_TTL;
	icmp->type = ICMPV6_ECHO_REPLY;
	icmp->checksum = balance_adjust(icmp->checksum, __builtin_bswap16(ICMPV6_ECHO_REQUEST << 8),
					__builtin_bswap16(ICMPV6_ECHO_REPLY << 8));
}

/* From the service to the client: what does not fit is a packet from the client to the service. */
static __always_inline void balance_write_error_ipv4(struct ipv4_header *ip, struct icmp_error *icmp,
						     const struct balance_packet *packet, __u16 mtu)
{
	const __u32 *words = (const __u32 *)ip;

	*ip = (struct ipv4_header){
		.version_length = 0x45,
		.service = 0xc0, /* RFC 1812, section 4.3.2.5: network control */
		.total_length = __builtin_bswap16(sizeof(*ip) + sizeof(*icmp) + BALANCE_QUOTE),
		.fragment = __builtin_bswap16(IPV4_DONT_FRAGMENT),
		.ttl = BALANCE_TTL,
		.protocol = IP_PROTOCOL_ICMP,
		.source = packet->destination.words[1] >> 32,
		.destination = packet->source.words[1] >> 32,
	};
	ip->checksum = ~balance_fold((__u64)words[0] + words[1] + words[2] + words[3] + words[4]);
	*icmp = (struct icmp_error){
		.type = ICMP_UNREACHABLE,
		.code = ICMP_FRAGMENTATION_NEEDED,
		.mtu = __builtin_bswap16(mtu),
	};
}

static __always_inline void balance_write_error_ipv6(struct ipv6_header *ip, struct icmp_error *icmp,
						     const struct balance_packet *packet, __u16 mtu)
{
	*ip = (struct ipv6_header){
		.version_class_flow = __builtin_bswap32(6U << 28),
		.payload_length = __builtin_bswap16(sizeof(*icmp) + BALANCE_QUOTE),
		.next_header = IP_PROTOCOL_ICMPV6,
		.hop_limit = BALANCE_TTL,
		.source = { packet->destination.words[0], packet->destination.words[0] >> 32,
			    packet->destination.words[1], packet->destination.words[1] >> 32 },
		.destination = { packet->source.words[0], packet->source.words[0] >> 32, packet->source.words[1],
				 packet->source.words[1] >> 32 },
	};
	*icmp = (struct icmp_error){ .type = ICMPV6_TOO_BIG, .mtu = __builtin_bswap16(mtu) };
}

/* What the checksum of ICMPv6 is over, besides the message (RFC 8200, section 8.1): to be added to the message's sum. */
static __always_inline __u64 balance_pseudo_sum(const struct balance_packet *packet, __u32 length)
{
	const __u64 *source = packet->source.words, *destination = packet->destination.words;

	return (source[0] & 0xffffffff) + (source[0] >> 32) + (source[1] & 0xffffffff) + (source[1] >> 32) +
	       (destination[0] & 0xffffffff) + (destination[0] >> 32) + (destination[1] & 0xffffffff) +
	       (destination[1] >> 32) + __builtin_bswap32(length) + __builtin_bswap32(IP_PROTOCOL_ICMPV6);
}

/*
 * The flow that an error is about: it quotes a packet from the server to the client, so its ends are swapped. Returns whether it is one of ours:
 * TCP or UDP, from the address that the error went to.
 */
static __always_inline int balance_read_quoted(const struct packet_bytes *bytes, const struct balance_packet *error,
					       struct balance_packet *quoted)
{
	__u32 offset = packet_skip(error->transport, sizeof(struct icmp_error));
	const struct wire_field16 *ports;

	if (error->flags & BALANCE_PACKET_IS_IPV6) {
		const struct ipv6_header *ip = packet_at(bytes, offset, sizeof(*ip));

		if (!ip || *(const __u8 *)ip >> 4 != 6)
			return 0;
		quoted->flags = BALANCE_PACKET_IS_IPV6;
		quoted->protocol = ip->next_header;
		quoted->destination.words[0] = (__u64)ip->source[1] << 32 | ip->source[0];
		quoted->destination.words[1] = (__u64)ip->source[3] << 32 | ip->source[2];
		quoted->source.words[0] = (__u64)ip->destination[1] << 32 | ip->destination[0];
		quoted->source.words[1] = (__u64)ip->destination[3] << 32 | ip->destination[2];
		offset = packet_skip(offset, sizeof(*ip));
	} else {
		const struct ipv4_header *ip = packet_at(bytes, offset, sizeof(*ip));

		if (!ip || ip->version_length >> 4 != 4 || (ip->version_length & 15) < 5 ||
		    ip->fragment & __builtin_bswap16(IPV4_FRAGMENT_OFFSET))
			return 0;
		quoted->protocol = ip->protocol;
		quoted->destination = flow_address_v4(ip->source);
		quoted->source = flow_address_v4(ip->destination);
		offset = packet_skip(offset, (ip->version_length & 15) * 4);
	}
	ports = packet_at(bytes, offset, 4);
	if (!ports || (quoted->protocol != IP_PROTOCOL_TCP && quoted->protocol != IP_PROTOCOL_UDP))
		return 0;
	quoted->destination_port = wire16(ports[0].value);
	quoted->source_port = wire16(ports[1].value);
	return flow_address_equal(&quoted->destination, &error->destination);
}

#endif
