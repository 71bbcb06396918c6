/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP, UDP with DNS and QUIC, ICMP: from behind an IP header to the fields that are measured. Pure. */
#ifndef FATHOM_PACKET_TRANSPORT_H
#define FATHOM_PACKET_TRANSPORT_H

#include "packet_tunnel.h"

#define PACKET_PORT_DNS 53
#define PACKET_PORT_QUIC 443

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

		if (!option) {
			packet->flags |= PACKET_HAS_OPTIONS_CUT;
			return;
		}
		if (*option == TCP_OPTION_END)
			return;
		if (*option != TCP_OPTION_NO_OPERATION) {
			const __u8 *length = packet_at(bytes, offset + 1, 1);

			if (!length || *length < 2)
				return;
			size = *length;
		}
		if (*option == TCP_OPTION_TIMESTAMP && size == 10) {
			const struct wire_field32 *values = packet_at(bytes, offset + 2, 8);

			if (values)
				packet_set_timestamp(packet, values[0].value, values[1].value);
			else
				packet->flags |= PACKET_HAS_OPTIONS_CUT;
		} else if (*option == TCP_OPTION_SACK && size >= 10) {
			const struct wire_field32 *edges = packet_at(bytes, offset + 2, 8);

			if (edges) {
				packet->sack_right = wire32(edges[1].value);
				packet->flags |= PACKET_HAS_SACK;
			}
		}
		offset = packet_skip(offset, size);
	}
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
	packet->id = (__u32)wire16(dns->id) << 16 | packet_hash_question(bytes, offset + sizeof(*dns));
	return flags & 0x8000 ? PACKET_KIND_DNS_RESPONSE : PACKET_KIND_DNS_QUERY;
}

/* `header`: bytes of the TCP header at `offset`. */
static __always_inline void packet_read_options(const struct packet_bytes *bytes, __u32 offset, __u32 header,
						struct packet *packet)
{
	__u32 options = offset + sizeof(struct tcp_header);
	const struct tcp_timestamp_option *timestamp;

	if (header <= sizeof(struct tcp_header))
		return;
	timestamp = packet_at(bytes, options, sizeof(*timestamp));
	if (header == sizeof(struct tcp_header) + sizeof(*timestamp) && timestamp &&
	    timestamp->kind == __builtin_bswap32(TCP_ALIGNED_TIMESTAMP))
		packet_set_timestamp(packet, timestamp->tsval, timestamp->tsecr);
	else
		packet_read_tcp_options(bytes, options, offset + header, packet);
}

static __always_inline enum packet_verdict packet_read_tcp(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct tcp_header *tcp = packet_at(bytes, at->offset, sizeof(*tcp));
	__u32 header, length;

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

	packet_read_options(bytes, at->offset, header, packet);
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
	/* Its receiver drops it. Trains of segmentation offload have the length of all, if 16 bits hold it. */
	if (wire16(udp->length) > at->end - at->offset && !at->is_incomplete)
		return PACKET_OVERLONG;
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

/* Of longer messages the checksum is not verified: a packet must not cost more than a microsecond. */
#define PACKET_CHECKSUM_MAX 1536

/* As packet_at, for what is behind the headers. */
static __always_inline const void *packet_body(const struct packet_bytes *bytes, __u32 offset, __u32 size)
{
#ifdef __bpf__
	/* Or clang 14 turns the comparison around, and adds to the end of the packet, which the verifier forbids. */
	asm volatile("" : "+r"(offset));
#endif
	if (offset > PACKET_HEADERS_MAX + PACKET_CHECKSUM_MAX || bytes->data + offset + size > bytes->end)
		return 0;
	return bytes->data + offset;
}

/*
 * The sum of a message's words (RFC 1071), to be folded; 0 if it is too long or not all at hand. Not inline, for the verifier's
 * sake: see packet_read_extensions.
 */
static __u64 packet_sum(const struct packet_bytes *bytes, __u32 offset, __u32 length)
{
	const struct wire_field32 *words;
	const __u8 *byte;
	__u64 sum = 0;
	__u32 i;

	if (length > PACKET_CHECKSUM_MAX)
		return 0;
	for (i = 0; i < PACKET_CHECKSUM_MAX / 8 && length >= 8; i++) {
		words = packet_body(bytes, offset, 8);
		if (!words)
			return 0;
		sum += (__u64)words[0].value + words[1].value;
		offset += 8;
		length -= 8;
	}
	for (i = 0; i < 7 && i < length; i++) {
		byte = packet_body(bytes, offset + i, 1);
		if (!byte)
			return 0;
		sum += (__u64)*byte << (i & 3) * 8;
	}
	return sum;
}

/* Is the checksum of an ICMP message wrong, as far as can be told? */
static __always_inline int packet_is_damaged(const struct packet_bytes *bytes, const struct packet_cursor *at)
{
	__u32 length = at->end - at->offset;
	__u64 sum;

	if (at->is_incomplete)
		return 0;
	sum = packet_sum(bytes, at->offset, length);
	if (!sum)
		return 0;
	if (at->protocol == IP_PROTOCOL_ICMPV6) { /* RFC 8200, section 8.1 */
		sum += (at->source.words[0] & 0xffffffff) + (at->source.words[0] >> 32);
		sum += (at->source.words[1] & 0xffffffff) + (at->source.words[1] >> 32);
		sum += (at->destination.words[0] & 0xffffffff) + (at->destination.words[0] >> 32);
		sum += (at->destination.words[1] & 0xffffffff) + (at->destination.words[1] >> 32);
		sum += wire32(length) + wire32(IP_PROTOCOL_ICMPV6);
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum != 0xffff;
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
	if (packet_is_damaged(bytes, at))
		return PACKET_DAMAGED;
	packet->kind = icmp->type == request ? PACKET_KIND_ECHO_REQUEST : PACKET_KIND_ECHO_REPLY;
	packet->id = wire16(icmp->sequence);
	at->source_port = wire16(icmp->id);
	at->destination_port = at->source_port;
	return PACKET_MEASURABLE;
}

static __always_inline void packet_set_key(struct packet *packet, const struct packet_cursor *at)
{
	int swap = flow_address_before(&at->destination, &at->source);

	/* A host that talks to itself: the ports tell the ends apart, and for echo only what the message is. */
	if (flow_address_equal(&at->destination, &at->source))
		swap = at->destination_port < at->source_port || packet->kind == PACKET_KIND_ECHO_REPLY;
	packet->direction = swap;
	packet->key.low = swap ? at->destination : at->source;
	packet->key.high = swap ? at->source : at->destination;
	packet->key.low_port = swap ? at->destination_port : at->source_port;
	packet->key.high_port = swap ? at->source_port : at->destination_port;
	packet->key.protocol = at->protocol;
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
		if (tunnels && packet_is_udp_tunnel(at)) {
			enum packet_step step = packet_read_tunnel(bytes, packet, at, verdict);

			if (*verdict != PACKET_OTHER_PROTOCOL) /* else a client may have the tunnel's port by chance */
				return step;
		}
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

#endif
