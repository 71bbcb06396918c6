/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which server a connection id of QUIC names, in the plaintext form of draft-ietf-quic-load-balancers: the first three bits tell the
 * configuration, the rest of the octet whatever, then comes the server's id, of as many bytes as the configuration says. Pure.
 */
#ifndef FATHOM_BALANCE_QUIC_H
#define FATHOM_BALANCE_QUIC_H

#include "read.h"

/* Where the connection id begins, from the first byte of the datagram. */
#define BALANCE_QUIC_SHORT_AT 1
#define BALANCE_QUIC_LONG_AT 6

/* Did the server choose the connection id of this long header? Clients choose those of Initial and 0-RTT packets themselves. */
static __always_inline int balance_is_of_server(__u8 first, __u32 version)
{
	__u8 type = first >> 4 & 3;

	if (version == QUIC_VERSION_1)
		return type > 1;
	return version == QUIC_VERSION_2 && (type == 0 || type == 3);
}

/* Reads the id of the server, if there is one. Of unknown versions nothing is said, but RFC 8999 has the length of the id. */
static __always_inline int balance_read_quic_id(const struct packet_bytes *bytes, const struct balance_packet *packet,
						const struct balance_config *config, struct balance_quic_id *id)
{
	__u32 offset = packet->transport + sizeof(struct udp_header);
	const __u8 *quic = packet_at(bytes, offset, BALANCE_QUIC_LONG_AT);
	__u32 at = BALANCE_QUIC_SHORT_AT, room = 20, length, i;

	if (!quic)
		return 0;
	if (*quic & QUIC_LONG_HEADER) {
		if (!balance_is_of_server(*quic, wire32(((const struct wire_field32 *)(quic + 1))->value)))
			return 0;
		room = quic[BALANCE_QUIC_LONG_AT - 1];
		at = BALANCE_QUIC_LONG_AT;
	}
	quic = packet_at(bytes, offset + at, 1 + BALANCE_QUIC_ID_MAX);
	if (!quic || packet->payload < at + 1 + BALANCE_QUIC_ID_MAX)
		return 0;
	id->config = *quic >> 5;
	length = config->quic_id_lengths[id->config & (BALANCE_QUIC_CONFIGS - 1)];
	if (!length || room < 1 + length)
		return 0;
#pragma unroll
	for (i = 0; i < BALANCE_QUIC_ID_MAX; i++)
		id->bytes[i] = i < length ? quic[1 + i] : 0;
	return 1;
}

#endif
