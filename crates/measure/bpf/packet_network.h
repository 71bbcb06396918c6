/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the first byte of a frame to behind an IP header. Pure. */
#ifndef FATHOM_PACKET_NETWORK_H
#define FATHOM_PACKET_NETWORK_H

#include "packet.h"

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
		return PACKET_OTHER_VERSION;
	return PACKET_MEASURABLE;
}

/* From the protocol field of PPP on; its first byte may be compressed away (RFC 1661 section 6.5). */
static __always_inline enum packet_verdict packet_read_ppp(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const __u8 *protocol = packet_at(bytes, at->offset, 1);
	__u16 number;

	if (!protocol)
		return packet_missing(at->offset);
	number = *protocol;
	if (!(number & 1)) { /* the last byte of a protocol is odd, all others are even */
		at->offset = packet_skip(at->offset, 1);
		protocol = packet_at(bytes, at->offset, 1);
		if (!protocol)
			return packet_missing(at->offset);
		number = number << 8 | *protocol;
	}
	at->offset = packet_skip(at->offset, 1);
	if (number == PPP_PROTOCOL_IPV4)
		at->ether_type = ETHER_TYPE_IPV4;
	else if (number == PPP_PROTOCOL_IPV6)
		at->ether_type = ETHER_TYPE_IPV6;
	else if (number == PPP_PROTOCOL_MPLS)
		at->ether_type = ETHER_TYPE_MPLS;
	else
		return PACKET_PPP;
	return PACKET_MEASURABLE;
}

/* A serial line: PPP with its address and control bytes, PPP without, or Cisco's HDLC; no protocol of PPP is 0x0f or 0x8f. */
static __always_inline enum packet_verdict packet_read_serial(const struct packet_bytes *bytes,
							      struct packet_cursor *at)
{
	const struct hdlc_header *hdlc = packet_at(bytes, at->offset, sizeof(*hdlc));

	if (!hdlc)
		return PACKET_TRUNCATED;
	if (hdlc->address == 0x0f || hdlc->address == 0x8f) {
		at->ether_type = wire16(hdlc->type);
		at->offset = packet_skip(at->offset, sizeof(*hdlc));
		return PACKET_MEASURABLE;
	}
	if (hdlc->address == 0xff && hdlc->control == 0x03)
		at->offset = packet_skip(at->offset, 2);
	return packet_read_ppp(bytes, at);
}

static __always_inline enum packet_verdict packet_read_link(const struct packet_bytes *bytes, enum packet_link link,
							    struct packet_cursor *at)
{
	const struct wire_field16 *cooked_type;

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
		at->ether_type = wire16(cooked_type->value);
		return PACKET_MEASURABLE;
	case PACKET_LINK_NULL:
		/* The family of IPv6 differs from system to system, and so does the byte order: the nibble is safer. */
		at->offset = 4;
		return packet_read_version(bytes, at);
	case PACKET_LINK_PPP_DIRECTED:
		at->offset = 1;
		return packet_read_serial(bytes, at);
	case PACKET_LINK_PPP:
		return packet_read_serial(bytes, at);
	case PACKET_LINK_PPPOE:
		at->ether_type = ETHER_TYPE_PPPOE_SESSION;
		return PACKET_MEASURABLE;
	default:
		return PACKET_OTHER_LINK;
	}
}

static __always_inline enum packet_verdict packet_read_vlan(const struct packet_bytes *bytes, struct packet *packet,
							    struct packet_cursor *at)
{
	const struct vlan_header *vlan = packet_at(bytes, at->offset, sizeof(*vlan));

	if (!vlan)
		return packet_missing(at->offset);
	packet->key.vlan = (__u32)packet->key.vlan << 12 | (wire16(vlan->control) & 0x0fff);
	at->ether_type = wire16(vlan->type);
	at->offset = packet_skip(at->offset, sizeof(*vlan));
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_pppoe(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const struct pppoe_header *pppoe = packet_at(bytes, at->offset, sizeof(*pppoe));

	if (!pppoe)
		return packet_missing(at->offset);
	at->offset = packet_skip(at->offset, sizeof(*pppoe));
	return packet_read_ppp(bytes, at);
}

/* The EtherType was a length: LLC. */
static __always_inline enum packet_verdict packet_read_llc(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const struct snap_header *snap = packet_at(bytes, at->offset, sizeof(*snap));

	if (!snap || wire32(snap->llc_organization) != SNAP_ETHER_TYPE || snap->organization)
		return PACKET_LLC;
	at->ether_type = wire16(snap->type);
	at->offset = packet_skip(at->offset, sizeof(*snap));
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_mpls(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const __u8 *entry = packet_at(bytes, at->offset, 4);
	enum packet_verdict verdict;

	if (!entry)
		return packet_missing(at->offset);
	at->offset = packet_skip(at->offset, 4);
	if (!(entry[2] & 1)) /* not the bottom of the stack */
		return PACKET_MEASURABLE;
	verdict = packet_read_version(bytes, at);
	return verdict == PACKET_OTHER_VERSION ? PACKET_MPLS : verdict;
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
	at->is_incomplete = !!(ip->fragment & __builtin_bswap16(0x2000));
	at->end = at->offset + total;
	at->offset = packet_skip(at->offset, header);
	packet->length = total;
	packet->ecn = ip->service & 3;
	packet->ttl = ip->ttl;
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
	packet->ttl = ip->hop_limit;
	at->is_incomplete = packet_is_extension(at->protocol);
	if (at->is_incomplete)
		return packet_read_extensions(bytes, at);
	return PACKET_MEASURABLE;
}

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
		if (at->ether_type > ETHER_TYPE_LENGTH_MAX)
			return PACKET_STEP_STOP;
		*verdict = packet_read_llc(bytes, at);
	}
	return *verdict == PACKET_MEASURABLE ? PACKET_STEP_NEXT_LAYER : PACKET_STEP_STOP;
}

/* What a frame is that has no IP header. */
static __always_inline enum packet_verdict packet_name_ether_type(__u32 ether_type)
{
	switch (ether_type) {
	case ETHER_TYPE_ARP:
		return PACKET_ARP;
	case ETHER_TYPE_LLDP:
		return PACKET_LLDP;
	case ETHER_TYPE_PPPOE_DISCOVERY:
		return PACKET_PPP;
	default:
		return PACKET_OTHER_ETHER_TYPE;
	}
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
	return i == PACKET_TAGS_MAX ? PACKET_TOO_DEEP : packet_name_ether_type(at->ether_type);
}

#endif
