/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the bytes of a frame to a packet. Pure. */
#ifndef FATHOM_PACKET_PARSE_H
#define FATHOM_PACKET_PARSE_H

#include "packet_transport.h"

/*
 * Reads a frame. `packet` must be zeroed but for key.interface, key.vlan (a tag that the network card took off) and
 * segments. Returns PACKET_MEASURABLE when key, kind and the kind's fields are set. With `tunnels` the innermost flow is
 * the one that counts; `at` is where the reading ended. (packet_pass.bpf.h has the same rounds, with each half a function that is
 * verified by itself.)
 */
static __always_inline enum packet_verdict packet_parse(const struct packet_bytes *bytes, enum packet_link link,
							int tunnels, struct packet *packet, struct packet_cursor *at)
{
	enum packet_verdict verdict = packet_read_link(bytes, link, at);
	int i;

	for (i = 0; i < PACKET_ROUNDS_MAX && verdict == PACKET_MEASURABLE; i++) {
		verdict = packet_read_network(bytes, packet, at);
		if (verdict != PACKET_MEASURABLE)
			return verdict;
		if (packet_read_transport(bytes, tunnels, packet, at, &verdict) == PACKET_STEP_STOP)
			return verdict;
	}
	return verdict == PACKET_MEASURABLE ? PACKET_TOO_DEEP : verdict;
}

/*
 * What packet_parse has no use for as a flow all the same: datagrams of any ports, ESP, whose flow is its SPI (a security
 * association goes one way), and other protocols, whose flow is their addresses. Returns `verdict` where it was another.
 */
static __always_inline enum packet_verdict packet_read_other(const struct packet_bytes *bytes,
							     enum packet_verdict verdict, struct packet *packet,
							     struct packet_cursor *at)
{
	const struct wire_field32 *spi;
	__u32 offset;

	if (verdict != PACKET_OTHER_PROTOCOL)
		return verdict;
	if (at->protocol != IP_PROTOCOL_UDP) {
		at->source_port = 0;
		at->destination_port = 0;
		packet->payload = 0;
	}
	if (at->protocol == IP_PROTOCOL_ESP) {
		/* Bounded once more: the verifier of 6.1 forgets what it parked on the stack. */
		offset = packet_skip(at->offset, 0);
		spi = packet_at(bytes, offset, sizeof(*spi));
		if (!spi)
			return packet_missing(offset);
		if (at->end < offset + 8)
			return PACKET_MALFORMED;
		packet->key.tunnel = wire32(spi->value);
		packet->payload = at->end - offset;
	}
	packet->kind = PACKET_KIND_NONE;
	packet_set_key(packet, at);
	return PACKET_MEASURABLE;
}

#endif
