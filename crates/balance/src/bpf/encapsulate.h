/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What goes in front of a packet on its way to a server. The outer header has the inner one's DSCP and ECN (RFC 6040, normal mode), and its DF:
 * an inner IPv6 packet must not be fragmented either. Pure.
 */
#ifndef FATHOM_BALANCE_ENCAPSULATE_H
#define FATHOM_BALANCE_ENCAPSULATE_H

#include "read.h"

#define BALANCE_TTL 64
/* Source ports of GUE: those that nobody is given, with the flow's hash in them. */
#define BALANCE_GUE_PORTS 0xc000

/* Variant 0, no optional fields. */
struct gue_header {
	__u8 version_length;
	__u8 protocol; /* of what follows */
	__u16 flags;
} WIRE_FORMAT;

struct balance_gue {
	struct udp_header udp;
	struct gue_header gue;
} WIRE_FORMAT;

static __always_inline int balance_is_ipv4(const struct flow_address *address)
{
	return !address->words[0] && (__u32)address->words[1] == FLOW_MAPPED_PREFIX;
}

/* Bytes in front of the packet. */
static __always_inline __u32 balance_overhead(const struct balance_server *server)
{
	__u32 ip = balance_is_ipv4(&server->destination) ? sizeof(struct ipv4_header) : sizeof(struct ipv6_header);

	if (server->encapsulation == BALANCE_BY_LAYER2)
		return 0;
	return server->encapsulation == BALANCE_BY_GUE ? ip + sizeof(struct balance_gue) : ip;
}

static __always_inline __u16 balance_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The last word of the outer source, with bits of the flow's hash in it if the server wants to tell flows apart by it. */
static __always_inline __u32 balance_spread(__u32 address, __u64 hash, __u8 bits)
{
	__u32 mask = bits >= 32 ? ~0U : (1U << bits) - 1;

	return __builtin_bswap32(wire32(address) ^ (hash >> 32 & mask));
}

static __always_inline void balance_write_ethernet(struct ethernet_header *ethernet,
						   const struct balance_server *server, __u16 type)
{
	__builtin_memcpy(ethernet->destination, server->next_hop, 6);
	__builtin_memcpy(ethernet->source, server->own, 6);
	ethernet->type = type;
}

/* `fragment` is that of the inner header, or DF alone. */
static __always_inline void balance_write_ipv4(struct ipv4_header *ip, const struct balance_server *server,
					       const struct balance_packet *packet, __u32 length, __u8 protocol)
{
	const __u32 *words = (const __u32 *)ip;

	ip->version_length = 0x45;
	ip->service = packet->traffic_class;
	ip->total_length = __builtin_bswap16(length);
	/* What must not be fragmented needs no identification (RFC 6864); else that of the inner packet is as good as any. */
	ip->identification = packet->flags & BALANCE_PACKET_IS_WHOLE ? 0 : packet->identification;
	ip->fragment = packet->flags & BALANCE_PACKET_IS_WHOLE ? __builtin_bswap16(IPV4_DONT_FRAGMENT) : 0;
	ip->ttl = server->ttl;
	ip->protocol = protocol;
	ip->checksum = 0;
	ip->source = balance_spread(server->source.words[1] >> 32, packet->hash, server->spread_bits);
	ip->destination = server->destination.words[1] >> 32;
	ip->checksum = ~balance_fold((__u64)words[0] + words[1] + words[2] + words[3] + words[4]);
}

static __always_inline void balance_write_ipv6(struct ipv6_header *ip, const struct balance_server *server,
					       const struct balance_packet *packet, __u32 length, __u8 protocol)
{
	__u32 source = server->source.words[1] >> 32;

	/* The flow label tells flows apart, to routers that hash (RFC 6438). */
	ip->version_class_flow = __builtin_bswap32(6U << 28 | (__u32)packet->traffic_class << 20 |
						   (packet->hash >> 44 & 0xfffff));
	ip->payload_length = __builtin_bswap16(length - sizeof(*ip));
	ip->next_header = protocol;
	ip->hop_limit = server->ttl;
	ip->source[0] = server->source.words[0];
	ip->source[1] = server->source.words[0] >> 32;
	ip->source[2] = server->source.words[1];
	ip->source[3] = balance_spread(source, packet->hash, server->spread_bits);
	ip->destination[0] = server->destination.words[0];
	ip->destination[1] = server->destination.words[0] >> 32;
	ip->destination[2] = server->destination.words[1];
	ip->destination[3] = server->destination.words[1] >> 32;
}

/*
 * The source port is the flow's, for routers and receivers that hash. No checksum: it would be over all bytes, and what is inside has its own (IPv6: RFC 6935
 * allows it for tunnels).
 */
static __always_inline void balance_write_gue(struct balance_gue *gue, const struct balance_server *server,
					      const struct balance_packet *packet, __u8 protocol)
{
	gue->udp.source = __builtin_bswap16(BALANCE_GUE_PORTS | (packet->hash >> 32 & 0x3fff));
	gue->udp.destination = __builtin_bswap16(server->gue_port);
	gue->udp.length = __builtin_bswap16(packet->length + sizeof(*gue));
	gue->udp.checksum = 0;
	gue->gue.version_length = 0;
	gue->gue.protocol = protocol;
	gue->gue.flags = 0;
}

/* Of the headers behind Ethernet, whose room begins at `at`. */
static __always_inline void balance_write_outer(__u8 *at, const struct balance_server *server,
						const struct balance_packet *packet)
{
	__u8 inner = packet->flags & BALANCE_PACKET_IS_IPV6 ? IP_PROTOCOL_IPV6 : IP_PROTOCOL_IPV4;
	__u8 protocol = server->encapsulation == BALANCE_BY_GUE ? IP_PROTOCOL_UDP : inner;
	__u32 length = packet->length + balance_overhead(server);

	if (balance_is_ipv4(&server->destination)) {
		balance_write_ipv4((struct ipv4_header *)at, server, packet, length, protocol);
		at += sizeof(struct ipv4_header);
	} else {
		balance_write_ipv6((struct ipv6_header *)at, server, packet, length, protocol);
		at += sizeof(struct ipv6_header);
	}
	if (server->encapsulation == BALANCE_BY_GUE)
		balance_write_gue((struct balance_gue *)at, server, packet, inner);
}

#endif
