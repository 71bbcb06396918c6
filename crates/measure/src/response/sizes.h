/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload sizes, where packets cannot be read: acknowledgements and nothing else are shorter than requests, by how much the flow
 * itself shows. Pure.
 */
#ifndef FATHOM_RESPONSE_SIZES_H
#define FATHOM_RESPONSE_SIZES_H

#include "response.h"

/*
 * Of QUIC, bytes: acknowledgements alone are 28 to 37 long, requests 60 and more. Not learnt: requests may lie next to acknowledgements, and rare
 * longer packets apart from both.
 */
#define RESPONSE_QUIC_REQUEST_FROM 48
/* Fewer packets than this in an epoch teach nothing. */
#define RESPONSE_SIZES_LEAST 16

static __always_inline __u32 response_size(__u32 payload)
{
	__u32 size = payload < RESPONSE_SIZES_FROM ? 0 : (payload - RESPONSE_SIZES_FROM) >> RESPONSE_SIZE_SHIFT;

	return size < RESPONSE_SIZES ? size : RESPONSE_SIZES - 1;
}

/* Returns whether the counter is full now. */
static __always_inline int response_add_size(struct response_sizes *sizes, __u32 payload)
{
	__u32 size = response_size(payload);

	if (size >= RESPONSE_SIZES) /* never; but the verifier wants to see it */
		return 0;
	return ++sizes->counts[size] == 0xffff;
}

/*
 * At the end of an epoch. Where the shortest payloads are a class of their own, with an unused step above them, they are
 * acknowledgements. A bound that was known moves only with the class that it bounds. Returns the bound, bytes; 0: there is none.
 */
static __always_inline __u32 response_learn_bound(const struct response_sizes *sizes)
{
	__u32 total = 0, below = 0, bound = 0, begin = RESPONSE_SIZES, i;

	for (i = 0; i < RESPONSE_SIZES; i++)
		total += sizes->counts[i];
	if (total < RESPONSE_SIZES_LEAST || sizes->bound == RESPONSE_QUIC_REQUEST_FROM)
		return sizes->bound;
	for (i = 0; i < RESPONSE_SIZES; i++) {
		/* A few stragglers do not fill a step. */
		int is_used = sizes->counts[i] > total >> 8;

		if (is_used && bound)
			break;
		if (is_used && begin == RESPONSE_SIZES)
			begin = i;
		if (!is_used && begin != RESPONSE_SIZES && !bound)
			bound = RESPONSE_SIZES_FROM + (i << RESPONSE_SIZE_SHIFT);
		if (!bound)
			below += sizes->counts[i];
	}
	/* Nothing longer, or hardly anything shorter: no two classes. (Of a long answer there are many acknowledgements.) */
	if (i == RESPONSE_SIZES || below < total >> 4)
		return sizes->bound;
	if (sizes->bound && RESPONSE_SIZES_FROM + (begin << RESPONSE_SIZE_SHIFT) >= sizes->bound)
		return sizes->bound;
	return bound;
}

#endif
