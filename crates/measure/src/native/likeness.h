/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a packet is told from another one of its flow, and known again when a capture has it twice: for files only. What two
 * copies differ in is left out: all in front of the IP header, TTL, ECN and checksums. Pure.
 */
#ifndef FATHOM_LIKENESS_H
#define FATHOM_LIKENESS_H

#include "../../bpf/packet_parse.h"

/* Bytes of the content that are looked at. */
#define LIKENESS_BYTES 64

struct fathom_likeness {
	__u64 print; /* the same for all copies of a packet */
	__u32 way; /* of what copies from different places differ in: link-layer addresses, TTL */
	__u16 number; /* identification of IPv4; 0: none */
	__u8 is_telling; /* no host sends it twice within milliseconds as a rule, as it does acknowledgements */
	__u8 padding;
};

/* Of the bytes from `offset` to `end`, which may lie beyond what was captured. */
static inline __u64 likeness_of_bytes(const struct packet_bytes *bytes, __u32 offset, __u32 end, __u64 hash)
{
	__u32 captured = bytes->end - bytes->data;

	if (end > captured)
		end = captured;
	for (; offset < end; offset += 8) {
		__u64 word = 0;

		__builtin_memcpy(&word, bytes->data + offset, end - offset < 8 ? end - offset : 8);
		hash = flow_hash_step(hash, word);
	}
	return hash;
}

/* Link-layer addresses; in cooked captures the type of the packet and the interface, too. */
static inline __u32 likeness_of_way(const struct packet_bytes *bytes, enum packet_link link, __u8 ttl)
{
	__u32 header = 0;

	if (link == PACKET_LINK_ETHERNET)
		header = 12;
	else if (link == PACKET_LINK_COOKED)
		header = 14;
	else if (link == PACKET_LINK_COOKED_V2)
		header = 20;
	return likeness_of_bytes(bytes, 0, header, ttl) >> 32;
}

/* `hash` is that of the flow's key, `at` where the reading ended. */
static inline struct fathom_likeness likeness_of(const struct packet_bytes *bytes, enum packet_link link,
						 const struct packet *packet, const struct packet_cursor *at,
						 __u64 hash)
{
	__u32 network = at->end - packet->length; /* the IP header: both steps that read one leave it so */
	const struct ipv4_header *ip = packet_at(bytes, network, sizeof(*ip));
	__u32 end = at->offset + LIKENESS_BYTES < at->end ? at->offset + LIKENESS_BYTES : at->end;
	struct fathom_likeness likeness = { .is_telling = 1 };

	if (!ip)
		return likeness;
	if (ip->version_length >> 4 == 4) {
		likeness.number = wire16(ip->identification);
		likeness.way = likeness_of_way(bytes, link, ip->ttl);
	} else {
		likeness.way = likeness_of_way(bytes, link, ((const struct ipv6_header *)ip)->hop_limit);
	}
	hash = flow_hash_step(hash, (__u64)packet->length << 32 | likeness.number << 8 | packet->direction);
	if (packet->kind == PACKET_KIND_TCP) {
		hash = flow_hash_step(hash, (__u64)packet->seq << 32 | packet->ack);
		hash = flow_hash_step(hash, (__u64)packet->tsval << 32 | packet->tsecr);
		hash = flow_hash_step(hash, (__u64)packet->sack_right << 32 | (__u32)packet->window << 16 |
						    packet->tcp_flags);
		likeness.is_telling = !(packet->tcp_flags & TCP_RST) &&
				      (packet->payload || packet->tcp_flags & (TCP_SYN | TCP_FIN));
		/* The bytes of a segment tell nothing more: what is sent again has the same. */
		end = at->offset;
	}
	likeness.print = likeness_of_bytes(bytes, at->offset, end, hash);
	return likeness;
}

#endif
