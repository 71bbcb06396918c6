/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The headers of a packet that a probe may be made of, the probe's own, and what a router quotes of it. Pure, shared with
 * user space.
 *
 * A probe carries a number of 16 bits where every router quotes it (RFC 792: the IP header and 8 bytes; RFC 4443: as much as
 * fits) and no receiver cares:
 *
 *	IPv4		identification (RFC 6864: free, as a probe is never fragmented)
 *	IPv6, TCP	urgent pointer (without URG it has no meaning: RFC 9293, section 3.1)
 *	IPv6, UDP	length, 14 bits of the number
 *	IPv6, echo	checksum
 *
 * UDP's length is beyond the packet's end in both families, so that whoever gets the probe drops it as cut short; an echo's
 * checksum is wrong. Neither can reach an application, whatever the sender's network card does about checksums.
 */
#ifndef FATHOM_HOPS_HEADER_H
#define FATHOM_HOPS_HEADER_H

#include "../../bpf/flow.h"
#include "../../bpf/headers.h"

#define HOPS_BYTES_MAX 64 /* of a probe's headers, from that of IP on; IPv6 and TCP have 60 */
#define HOPS_BYTES_MIN 28 /* IPv4 and UDP */
#define HOPS_UDP_LENGTH 0x4000 /* added to 14 bits of the number: more than any probe has */
#define HOPS_TAIL_MAX 0x3f00 /* of a probe, so that it has less */
#define TCP_URG 0x20
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_FRAGMENT_MASK 0x3fff /* more fragments, and the offset */

struct hops_header {
	struct flow_address source;
	struct flow_address destination;
	__u32 seq; /* TCP; echo: identifier << 16 | sequence number */
	__u32 ack;
	__u32 payload; /* bytes, from the buffer's length: a train counts whole */
	__u32 label; /* IPv6: version, class and flow label, in host order; IPv4: version, header length, service */
	__u16 source_port; /* echo: the identifier on both sides */
	__u16 destination_port;
	__u16 window; /* as in the packet: not scaled */
	__u16 checksum; /* of the transport, as in the packet */
	__u16 fragment; /* IPv4: its flags */
	__u16 length; /* UDP: as in the packet */
	__u8 protocol;
	__u8 tcp_flags;
	__u8 ttl;
	__u8 is_ipv6;
	__u8 is_partial; /* the transport's checksum is left to the network card */
	__u8 transport_bytes; /* of the header */
	__u16 tail; /* of a probe: bytes of the application's packet that it keeps behind its own headers */
	__u32 quiet_ack; /* TCP: what a probe acknowledges, for it to say nothing new: hops_on_packet() finds it */
};
FATHOM_ASSERT_SIZE(struct hops_header, 32 + 16 + 12 + 12);

/* What of the packet is measured. */
enum hops_reading {
	HOPS_READ,
	HOPS_OTHER, /* not IP, or another protocol */
	HOPS_REFUSED, /* IP options, extension headers, fragments, or too short */
};

static __always_inline __u32 hops_sum_address(const struct flow_address *address)
{
	__u32 sum = 0;
	__u32 i;

	for (i = 0; i < 2; i++) {
		__u64 word = address->words[i];

		sum += (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
	}
	return sum;
}

static __always_inline __u16 hops_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* RFC 9293, section 3.1, and RFC 8200, section 8.1: not inverted; as the bytes lie in memory. */
static __always_inline __u16 hops_pseudo_header(const struct hops_header *header, __u32 length)
{
	__u32 sum = hops_sum_address(&header->source) + hops_sum_address(&header->destination);

	if (!header->is_ipv6) /* the mapped prefixes are not in the packet */
		sum -= 2 * 0xffff;
	sum += wire16(header->protocol);
	sum += wire16(length & 0xffff) + wire16(length >> 16);
	return hops_fold(sum);
}

static __always_inline enum hops_reading hops_read_transport(const __u8 *data, const __u8 *end, __u32 length,
							     struct hops_header *header)
{
	if (header->protocol == IP_PROTOCOL_TCP) {
		const struct tcp_header *tcp = (const void *)data;
		__u32 bytes;

		if ((const __u8 *)(tcp + 1) > end)
			return HOPS_REFUSED;
		bytes = (tcp->offset >> 4) * 4;
		if (bytes < sizeof(*tcp) || bytes > length)
			return HOPS_REFUSED;
		header->source_port = wire16(tcp->source);
		header->destination_port = wire16(tcp->destination);
		header->seq = wire32(tcp->seq);
		header->ack = wire32(tcp->ack);
		header->tcp_flags = tcp->flags;
		header->window = wire16(tcp->window);
		header->checksum = tcp->checksum;
		header->payload = length - bytes;
		header->transport_bytes = bytes;
		return HOPS_READ;
	}
	if (header->protocol == IP_PROTOCOL_UDP) {
		const struct udp_header *udp = (const void *)data;

		if ((const __u8 *)(udp + 1) > end)
			return HOPS_REFUSED;
		header->source_port = wire16(udp->source);
		header->destination_port = wire16(udp->destination);
		header->length = wire16(udp->length);
		header->checksum = udp->checksum;
		header->payload = length - sizeof(*udp);
		header->transport_bytes = sizeof(*udp);
		return HOPS_READ;
	}
	if (header->protocol == IP_PROTOCOL_ICMP || header->protocol == IP_PROTOCOL_ICMPV6) {
		const struct icmp_echo_header *echo = (const void *)data;
		__u8 request = header->is_ipv6 ? 128 : 8;

		if ((const __u8 *)(echo + 1) > end)
			return HOPS_REFUSED;
		if (echo->type != request && echo->type != (header->is_ipv6 ? 129 : 0))
			return HOPS_OTHER;
		header->tcp_flags = echo->type != request;
		header->source_port = header->destination_port = wire16(echo->id);
		header->seq = (__u32)wire16(echo->id) << 16 | wire16(echo->sequence);
		header->checksum = echo->checksum;
		header->payload = length - sizeof(*echo);
		header->transport_bytes = sizeof(*echo);
		return HOPS_READ;
	}
	return HOPS_OTHER;
}

static __always_inline enum hops_reading hops_read_v4(const __u8 *data, const __u8 *end, __u32 length,
						      struct hops_header *header)
{
	const struct ipv4_header *ip = (const void *)data;

	if ((const __u8 *)(ip + 1) > end || length < sizeof(*ip))
		return HOPS_REFUSED;
	header->protocol = ip->protocol;
	if (ip->version_length != 0x45 || ip->fragment & wire16(IPV4_FRAGMENT_MASK))
		return HOPS_REFUSED;
	header->source = flow_address_v4(ip->source);
	header->destination = flow_address_v4(ip->destination);
	header->label = (__u32)ip->version_length << 8 | ip->service;
	header->fragment = wire16(ip->fragment);
	header->ttl = ip->ttl;
	return hops_read_transport(data + sizeof(*ip), end, length - sizeof(*ip), header);
}

static __always_inline enum hops_reading hops_read_v6(const __u8 *data, const __u8 *end, __u32 length,
						      struct hops_header *header)
{
	const struct ipv6_header *ip = (const void *)data;

	if ((const __u8 *)(ip + 1) > end || length < sizeof(*ip))
		return HOPS_REFUSED;
	header->is_ipv6 = 1;
	header->protocol = ip->next_header;
	header->source.words[0] = (__u64)ip->source[1] << 32 | ip->source[0];
	header->source.words[1] = (__u64)ip->source[3] << 32 | ip->source[2];
	header->destination.words[0] = (__u64)ip->destination[1] << 32 | ip->destination[0];
	header->destination.words[1] = (__u64)ip->destination[3] << 32 | ip->destination[2];
	header->label = wire32(ip->version_class_flow);
	header->ttl = ip->hop_limit;
	return hops_read_transport(data + sizeof(*ip), end, length - sizeof(*ip), header);
}

/*
 * Reads a packet from its IP header on; `length` is what the buffer holds from there, also beyond `end`. `header` must be
 * zeroed. The checksum is taken to be left to the network card where it equals that of the pseudo-header: one in 65,536
 * that is not gets a probe with a wrong checksum, which does no harm.
 */
static __always_inline enum hops_reading hops_read(const __u8 *data, const __u8 *end, __u32 length, __u16 ether_type,
						   struct hops_header *header)
{
	if (ether_type == ETHER_TYPE_IPV4)
		return hops_read_v4(data, end, length, header);
	if (ether_type == ETHER_TYPE_IPV6)
		return hops_read_v6(data, end, length, header);
	return HOPS_OTHER;
}

static __always_inline int hops_is_partial(const struct hops_header *header)
{
	return header->checksum == hops_pseudo_header(header, header->transport_bytes + header->payload);
}

/* Is it of the flow whose packets leave as `leaving` did, or a reply to it? */
static __always_inline int hops_is_of(const struct hops_header *header, const struct hops_header *leaving, int is_reply)
{
	if (header->protocol != leaving->protocol)
		return 0;
	if (is_reply)
		return header->source_port == leaving->destination_port &&
		       header->destination_port == leaving->source_port &&
		       flow_address_equal(&header->source, &leaving->destination) &&
		       flow_address_equal(&header->destination, &leaving->source);
	return header->source_port == leaving->source_port && header->destination_port == leaving->destination_port &&
	       flow_address_equal(&header->source, &leaving->source) &&
	       flow_address_equal(&header->destination, &leaving->destination);
}

/* The flow that it belongs to, whichever way it goes. Returns the direction. */
static __always_inline __u8 hops_key(const struct hops_header *header, struct flow_key *key)
{
	__u8 direction = flow_address_before(&header->destination, &header->source) ||
			 (flow_address_equal(&header->destination, &header->source) &&
			  header->destination_port < header->source_port);

	__builtin_memset(key, 0, sizeof(*key));
	key->low = direction ? header->destination : header->source;
	key->high = direction ? header->source : header->destination;
	key->low_port = direction ? header->destination_port : header->source_port;
	key->high_port = direction ? header->source_port : header->destination_port;
	key->protocol = header->protocol;
	return direction;
}

#endif
