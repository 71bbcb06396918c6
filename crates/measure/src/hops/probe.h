/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A probe's bytes, and whether an ICMP error quotes one. Pure, shared with user space. */
#ifndef FATHOM_HOPS_PROBE_H
#define FATHOM_HOPS_PROBE_H

#include "hops.h"

#define ICMP_TIME_EXCEEDED 11
#define ICMP_UNREACHABLE 3
#define ICMPV6_UNREACHABLE 1
#define ICMPV6_TIME_EXCEEDED 3
#define ICMP_HEADER_BYTES 8

static __always_inline void hops_put16(__u8 *bytes, __u16 value)
{
	bytes[0] = value >> 8;
	bytes[1] = value;
}

static __always_inline void hops_put32(__u8 *bytes, __u32 value)
{
	hops_put16(bytes, value >> 16);
	hops_put16(bytes + 2, value);
}

static __always_inline void hops_put_address(__u8 *bytes, const struct flow_address *address, int is_ipv6)
{
	if (is_ipv6) {
		__builtin_memcpy(bytes, &address->words[0], 8);
		__builtin_memcpy(bytes + 8, &address->words[1], 8);
	} else {
		__u32 v4 = address->words[1] >> 32;

		__builtin_memcpy(bytes, &v4, 4);
	}
}

static __always_inline __u16 hops_sum16(const __u8 *bytes, __u32 count)
{
	__u32 sum = 0;
	__u32 i;

	for (i = 0; i < count; i += 2)
		sum += (__u16)(bytes[i] | bytes[i + 1] << 8);
	return hops_fold(sum);
}

/*
 * RFC 9293: nothing but an old acknowledgement, without the timestamps that the connection may have (so that who has agreed
 * on them drops it: RFC 7323, section 3.2), or, with a tail, the application's segment once more. Where the card fills the
 * checksum in, it expects the pseudo-header's sum there; where there is one, it holds for the tail, too, but for the number
 * (RFC 1624).
 */
static __always_inline __u32 hops_build_tcp(const struct hops_header *header, __u16 number, __u8 *bytes)
{
	__u32 length = sizeof(struct tcp_header);
	__u16 urgent = header->is_ipv6 ? number : 0;
	__u16 sum = hops_pseudo_header(header, length + header->tail);

	hops_put16(bytes, header->source_port);
	hops_put16(bytes + 2, header->destination_port);
	hops_put32(bytes + 4, header->seq);
	hops_put32(bytes + 8, header->tail ? header->ack : header->quiet_ack);
	bytes[12] = (header->tail ? header->transport_bytes : length) / 4 << 4;
	bytes[13] = header->tail ? header->tcp_flags : TCP_ACK;
	hops_put16(bytes + 14, header->window);
	hops_put16(bytes + 16, 0);
	hops_put16(bytes + 18, urgent);
	if (!header->is_partial && header->tail)
		sum = ~hops_fold((__u16)~header->checksum + wire16(urgent));
	else if (!header->is_partial)
		sum = ~hops_fold(sum + hops_sum16(bytes, sizeof(struct tcp_header)));
	__builtin_memcpy(bytes + 16, &sum, 2);
	return length;
}

static __always_inline __u32 hops_build_udp(const struct hops_header *header, __u16 number, __u8 *bytes)
{
	hops_put16(bytes, header->source_port);
	hops_put16(bytes + 2, header->destination_port);
	hops_put16(bytes + 4, HOPS_UDP_LENGTH | (number & (HOPS_PROBES - 1)));
	__builtin_memcpy(bytes + 6, &header->checksum, 2); /* of other bytes, so it is wrong */
	return sizeof(struct udp_header);
}

/* The checksum is wrong: in IPv4 by half of its bits turned over, in IPv6 because it is the probe's number. */
static __always_inline __u32 hops_build_echo(const struct hops_header *header, __u16 number, __u8 *bytes)
{
	__u32 length = sizeof(struct icmp_echo_header);
	__u16 sum = header->is_ipv6 ? hops_pseudo_header(header, length) : 0;

	bytes[0] = header->is_ipv6 ? 128 : 8;
	bytes[1] = 0;
	hops_put16(bytes + 2, 0);
	hops_put32(bytes + 4, header->seq);
	sum = ~hops_fold(sum + hops_sum16(bytes, sizeof(struct icmp_echo_header)));
	if (header->tail)
		sum = header->checksum;
	if (!header->is_ipv6)
		sum ^= 0xff;
	else if (sum == wire16(number))
		sum = 0; /* by chance it would be right; this probe's answer will not be known, but the other way is worse */
	else
		sum = wire16(number);
	__builtin_memcpy(bytes + 2, &sum, 2);
	return length;
}

static __always_inline __u32 hops_build_transport(const struct hops_header *header, __u16 number, __u8 *bytes)
{
	if (header->protocol == IP_PROTOCOL_TCP)
		return hops_build_tcp(header, number, bytes);
	if (header->protocol == IP_PROTOCOL_UDP)
		return hops_build_udp(header, number, bytes);
	return hops_build_echo(header, number, bytes);
}

/*
 * Writes a probe's headers into `bytes` (HOPS_BYTES_MAX of them), from that of IP on. Returns their length; header->tail more
 * bytes of the application's packet are behind them.
 */
static __always_inline __u32 hops_build(const struct hops_header *header, __u8 ttl, __u16 number, __u8 *bytes)
{
	__u32 length;
	__u16 sum;

	if (header->is_ipv6) {
		length = hops_build_transport(header, number, bytes + sizeof(struct ipv6_header));
		hops_put32(bytes, header->label);
		hops_put16(bytes + 4, length + header->tail);
		bytes[6] = header->protocol;
		bytes[7] = ttl;
		hops_put_address(bytes + 8, &header->source, 1);
		hops_put_address(bytes + 24, &header->destination, 1);
		return length + sizeof(struct ipv6_header);
	}
	length = hops_build_transport(header, number, bytes + sizeof(struct ipv4_header)) + sizeof(struct ipv4_header);
	hops_put16(bytes, header->label);
	hops_put16(bytes + 2, length + header->tail);
	hops_put16(bytes + 4, number);
	hops_put16(bytes + 6, header->fragment);
	bytes[8] = ttl;
	bytes[9] = header->protocol;
	hops_put16(bytes + 10, 0);
	hops_put_address(bytes + 12, &header->source, 0);
	hops_put_address(bytes + 16, &header->destination, 0);
	sum = ~hops_sum16(bytes, sizeof(struct ipv4_header));
	__builtin_memcpy(bytes + 10, &sum, 2);
	return length;
}

/* Its type of service or traffic class. */
static __always_inline __u8 hops_service(const __u8 *bytes)
{
	return bytes[0] >> 4 == 6 ? bytes[0] << 4 | bytes[1] >> 4 : bytes[1];
}

static __always_inline __u8 hops_difference(const __u8 *left, const __u8 *right, __u32 from, __u32 to)
{
	__u8 difference = 0;
	__u32 i;

	for (i = from; i < to; i++)
		difference |= left[i] ^ right[i];
	return difference;
}

/*
 * Is a probe that was edited still the one that was built? It has its TTL, addresses and first eight bytes behind the IP
 * header, and its number.
 */
static __always_inline int hops_is_same_probe(const __u8 *built, const __u8 *edited, int is_ipv6)
{
	__u8 difference = (built[0] ^ edited[0]) & 0xf0;

	if (!is_ipv6)
		return !(built[0] ^ edited[0]) && !hops_difference(built, edited, 4, 6) &&
		       !hops_difference(built, edited, 8, 10) && !hops_difference(built, edited, 12, 28);
	difference |= hops_difference(built, edited, 6, 48);
	if (built[6] == IP_PROTOCOL_TCP)
		difference |= hops_difference(built, edited, 58, 60);
	return !difference;
}

/* What an ICMP error says of the packet that it is about. */
struct hops_quote {
	__u32 seq; /* TCP; echo: identifier << 16 | sequence number */
	__u16 number; /* of the probe, if it is one */
	__u16 source_port;
	__u16 length; /* UDP */
	__u8 protocol;
	__u8 is_ipv6;
};

/* Does an ICMP message of this type quote a packet that did not arrive for its TTL, or was refused? */
static __always_inline int hops_is_error(__u8 type, int is_ipv6)
{
	if (is_ipv6)
		return type == ICMPV6_TIME_EXCEEDED || type == ICMPV6_UNREACHABLE;
	return type == ICMP_TIME_EXCEEDED || type == ICMP_UNREACHABLE;
}

/* Reads what is quoted: `bytes` are HOPS_BYTES_MAX, of which `length` were at hand. Returns whether it may be a probe. */
static __always_inline int hops_read_quote(const __u8 *bytes, __u32 length, int is_ipv6, struct hops_quote *quote)
{
	const __u8 *transport = bytes + (is_ipv6 ? sizeof(struct ipv6_header) : sizeof(struct ipv4_header));
	__u32 ip_bytes = transport - bytes;

	if (length < ip_bytes + 8 || (!is_ipv6 && bytes[0] != 0x45))
		return 0;
	quote->is_ipv6 = is_ipv6;
	quote->protocol = is_ipv6 ? bytes[6] : bytes[9];
	quote->source_port = transport[0] << 8 | transport[1];
	quote->length = transport[4] << 8 | transport[5];
	quote->seq = (__u32)quote->length << 16 | transport[6] << 8 | transport[7];
	if (!is_ipv6)
		quote->number = bytes[4] << 8 | bytes[5];
	else if (quote->protocol == IP_PROTOCOL_UDP)
		quote->number = quote->length & (HOPS_PROBES - 1);
	else if (quote->protocol == IP_PROTOCOL_ICMPV6)
		quote->number = transport[2] << 8 | transport[3];
	else if (length >= ip_bytes + sizeof(struct tcp_header))
		quote->number = transport[18] << 8 | transport[19];
	else
		return 0;
	return 1;
}

/* Is it this probe of this flow that is quoted? Addresses and the destination's port may have been translated on the way. */
static __always_inline int hops_is_quoted(const struct hops_quote *quote, const struct hops_probe *probe,
					  const struct hops_flow *flow, __u64 now)
{
	const struct hops_header *header = &flow->header;

	if (!probe->sent || now > probe->sent + HOPS_STALE_NS || probe->flow != flow->number)
		return 0;
	if (quote->protocol != header->protocol || quote->is_ipv6 != header->is_ipv6)
		return 0;
	if (header->protocol == IP_PROTOCOL_UDP)
		return quote->source_port == header->source_port &&
		       quote->length == (HOPS_UDP_LENGTH | (probe->number & (HOPS_PROBES - 1)));
	if (quote->number != (probe->number & 0xffff) || quote->seq != probe->seq)
		return 0;
	return header->protocol != IP_PROTOCOL_TCP || quote->source_port == header->source_port;
}

#endif
