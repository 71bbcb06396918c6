/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gaps in bins of half octaves: what the estimators `acknowledged` and `split` keep. One increment a gap, or two. Pure. */
#ifndef FATHOM_RESPONSE_SPLIT_H
#define FATHOM_RESPONSE_SPLIT_H

#include "response.h"

/* The bin of a gap: one for each half of an octave, split at its arithmetic middle. */
static __always_inline __u32 response_bin(__u32 ticks)
{
	__u32 value = ticks >> (RESPONSE_BINS_FROM - 1);
	__u32 octave = 0;

	if (value < 2)
		return 0;
	/* BPF has no instruction for it. */
	if (value >= 1U << 16) {
		octave += 16;
		value >>= 16;
	}
	if (value >= 1U << 8) {
		octave += 8;
		value >>= 8;
	}
	if (value >= 1U << 4) {
		octave += 4;
		value >>= 4;
	}
	if (value >= 1U << 2) {
		octave += 2;
		value >>= 2;
	}
	octave += value >> 1;
	/* The bit below the highest tells the half. */
	value = 2 * octave - 1 + (ticks >> (RESPONSE_BINS_FROM + octave - 2) & 1);
	return value < RESPONSE_BINS ? value : RESPONSE_BINS - 1;
}

/* Returns whether the bin is full now. */
static __always_inline int response_add_to_bins(struct response_bins *bins, __u32 ticks)
{
	__u32 bin = response_bin(ticks);

	if (bin >= RESPONSE_BINS) /* never; but the verifier wants to see it */
		return 0;
	return ++bins->counts[bin] == 0xffff;
}

/*
 * A gap of TCP, and whether a response triggered the packet after it; `causal`: how many did before it. Where all did, their lengths tell nothing, and
 * are not kept. Returns whether a counter is full now.
 */
static __always_inline int response_add_to_triggers(struct response_triggers *triggers, __u32 ticks, int is_triggered,
						    __u32 causal)
{
	if (is_triggered && triggers->count > causal) {
		__u32 bin = response_bin(ticks);

		triggers->causal[bin < RESPONSE_TRIGGER_BINS ? bin : RESPONSE_TRIGGER_BINS - 1]++;
	}
	return ++triggers->count == 0xffff;
}

#endif
