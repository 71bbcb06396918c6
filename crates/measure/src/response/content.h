/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which packets of clients ask for nothing, though they carry data: handshakes of TLS, control frames of HTTP/2, messages that
 * keep tunnels up. Told from the first bytes; where these are encrypted, from the length. Pure.
 */
#ifndef FATHOM_RESPONSE_CONTENT_H
#define FATHOM_RESPONSE_CONTENT_H

#include "response.h"

/* The first bytes that are looked at: the header of an HTTP/2 frame is so long, and no TLS record shorter. */
#define RESPONSE_CONTENT_BYTES 9

#define TLS_CHANGE_CIPHER_SPEC 20
#define TLS_HANDSHAKE 22
#define TLS_APPLICATION_DATA 23

#define HTTP2_SETTINGS 4
#define HTTP2_PING 6
#define HTTP2_WINDOW_UPDATE 8

#define WIREGUARD_DATA 4
#define WIREGUARD_KEEP_ALIVE 32 /* data of no length */
#define IPSEC_PORT 4500 /* RFC 3948 */

/*
 * Records with one control frame, or two: 9 bytes of header and 0, 4 or 8 of SETTINGS that acknowledge, WINDOW_UPDATE and PING, or twice
 * WINDOW_UPDATE in one record, and 21 (TLS 1.2, ChaCha20), 22 (TLS 1.3) or 29 bytes (TLS 1.2, AES-GCM) around them. Two records: 68, 70, 84.
 */
#define RESPONSE_CONTROL_LENGTHS                                                                                       \
	(1ULL << 30 | 1ULL << 34 | 1ULL << 38 | 1ULL << 47 | 1ULL << 31 | 1ULL << 35 | 1ULL << 39 | 1ULL << 48 |       \
	 1ULL << 42 | 1ULL << 46 | 1ULL << 55)

static __always_inline int response_is_control_length(__u32 payload)
{
	if (payload < 64)
		return RESPONSE_CONTROL_LENGTHS >> payload & 1;
	return payload == 68 || payload == 70 || payload == 84;
}

/* A frame of HTTP/2 that is no request, alone or followed by another of its kind (RFC 9113, section 4.1). */
static __always_inline int response_is_control_frame(const __u8 *frame, __u32 payload)
{
	__u32 length = frame[2];

	if (frame[0] || frame[1] || (payload != 9 + length && payload != 2 * (9 + length)))
		return 0;
	switch (frame[3]) {
	case HTTP2_WINDOW_UPDATE:
		return length == 4;
	case HTTP2_PING:
		return length == 8;
	case HTTP2_SETTINGS:
		return length % 6 == 0 && !frame[5] && !frame[6] && !frame[7] && !frame[8];
	}
	return 0;
}

static __always_inline enum response_content response_read_segment(const __u8 *bytes, __u32 payload)
{
	if (bytes[1] == 3 && bytes[2] <= 4) {
		if (bytes[0] == TLS_HANDSHAKE || bytes[0] == TLS_CHANGE_CIPHER_SPEC)
			return RESPONSE_CONTENT_GREETING;
		if (bytes[0] == TLS_APPLICATION_DATA)
			return response_is_control_length(payload) ? RESPONSE_CONTENT_SEALED_SHORT
								   : RESPONSE_CONTENT_SEALED;
		return RESPONSE_CONTENT_CLEAR;
	}
	if (bytes[0] == 'P' && bytes[1] == 'R' && bytes[2] == 'I' && bytes[3] == ' ' && bytes[4] == '*')
		return RESPONSE_CONTENT_GREETING;
	return response_is_control_frame(bytes, payload) ? RESPONSE_CONTENT_CONTROL : RESPONSE_CONTENT_CLEAR;
}

/* Messages of WireGuard have a type in little-endian order and, but for data, a length of their own. */
static __always_inline enum response_content response_read_wireguard(__u32 type, __u32 payload)
{
	if (type == 1 || type == 2 || type == 3)
		return payload == (type == 1   ? 148
				   : type == 2 ? 92
					       : 64)
			       ? RESPONSE_CONTENT_CONTROL
			       : RESPONSE_CONTENT_CLEAR;
	if (type != WIREGUARD_DATA || payload < WIREGUARD_KEEP_ALIVE)
		return RESPONSE_CONTENT_CLEAR;
	return payload == WIREGUARD_KEEP_ALIVE ? RESPONSE_CONTENT_CONTROL : RESPONSE_CONTENT_SEALED;
}

static __always_inline enum response_content response_read_datagram(const __u8 *bytes, const struct packet *packet)
{
	__u32 first = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (__u32)bytes[3] << 24;

	if (packet->key.low_port == IPSEC_PORT || packet->key.high_port == IPSEC_PORT)
		return first ? RESPONSE_CONTENT_SEALED : RESPONSE_CONTENT_CONTROL; /* 0: IKE */
	if (packet->kind == PACKET_KIND_NONE)
		return response_read_wireguard(first, packet->payload);
	return RESPONSE_CONTENT_CLEAR;
}

#endif
