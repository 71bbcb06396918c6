/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long clients waited at least, whatever they thought. An answer takes a round trip; a client that acknowledges less than all of it has not got all of it; and one
 * that acknowledges more than a segment at once does so at once (RFC 9293, section 3.8.6.3). Pure.
 */
#ifndef FATHOM_RESPONSE_BOUNDS_H
#define FATHOM_RESPONSE_BOUNDS_H

#include "response.h"

/* 8 us in ticks. */
#define RESPONSE_HANDSHAKE_SHIFT 9
/* What is acknowledged at once, if more: bytes of a segment. */
#define RESPONSE_SEGMENT 1460

/* In 8 us, cut. */
static __always_inline __u16 response_short(__u32 ticks)
{
	__u32 units = ticks >> RESPONSE_HANDSHAKE_SHIFT;

	return units < 0xffff ? units : 0xffff;
}

/* A request is the first after an answer: what it waits for takes a round trip. Where gaps are much shorter than the handshake, requests overlap. */
static __always_inline void response_begin_wait(struct response_tcp *tcp, int is_triggered)
{
	tcp->at_least = is_triggered && tcp->floor * 5U >= tcp->handshake * 4U ? tcp->floor : 0;
}

/*
 * The client acknowledges so many bytes more, this long after its last request; `before`: its last packet that acknowledged less, 0: none. The answers to a batch need
 * not be full segments.
 */
static __always_inline void response_raise_bound(struct response_tcp *tcp, __u32 bytes, __u32 before, __u32 age)
{
	__u16 bound = response_short(bytes > RESPONSE_SEGMENT && !tcp->open ? age : before);

	if (bound > tcp->at_least)
		tcp->at_least = bound;
}

/*
 * A gap that counts, of which the client waited so many ticks at most. What a batch takes to be sent is a part of its wait, and counts when that is over. Returns
 * what counts now.
 */
static __always_inline __u32 response_add_bound(struct response_tcp *tcp, __u32 ticks, int is_triggered)
{
	__u32 bound = (__u32)tcp->at_least << RESPONSE_HANDSHAKE_SHIFT;
	__u32 sent = tcp->open;

	if (!is_triggered) {
		tcp->open += ticks;
		return 0;
	}
	tcp->open = 0;
	tcp->low += sent + (bound < ticks ? bound : ticks);
	if (response_short(ticks) < tcp->floor)
		tcp->floor = response_short(ticks);
	return sent + ticks;
}

#endif
