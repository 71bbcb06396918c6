/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the bytes of a frame to a packet. Pure. */
#ifndef FATHOM_PACKET_PARSE_H
#define FATHOM_PACKET_PARSE_H

#include "packet_transport.h"

/*
 * Reads a frame. `packet` must be zeroed but for key.interface, key.vlan (a tag that the network card took off) and
 * segments. Returns PACKET_MEASURABLE when key, kind and the kind's fields are set. With `tunnels` the innermost flow is
 * the one that counts; `at` is where the reading ended. (packet_rounds.bpf.h has the same rounds, with each half a function that is
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

#endif
