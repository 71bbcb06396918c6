/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Algorithm 1 of the paper: a gap longer than a threshold begins a batch, and a sample is the time between two such. Pure. */
#ifndef FATHOM_RESPONSE_FIXED_H
#define FATHOM_RESPONSE_FIXED_H

#include "response.h"

/* A gap that counts. */
static __always_inline void response_add_to_batches(struct response_batches *batches, __u32 ticks, __u32 threshold)
{
	batches->age += ticks;
	if (ticks <= threshold)
		return;
	if (batches->has_batch) {
		batches->sum += batches->age;
		batches->count++;
	}
	batches->has_batch = 1;
	batches->age = 0;
}

/* A gap that does not count: the next packet begins a batch, and no sample spans the silence. */
static __always_inline void response_restart_batches(struct response_batches *batches)
{
	batches->has_batch = 1;
	batches->age = 0;
}

#endif
