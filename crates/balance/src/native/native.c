// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

__u32 fathom_balance_ring_place(__u64 word, __u32 ring_size)
{
	return balance_ring_place(word, ring_size);
}

#define X(name, text) text,
const char *const fathom_balance_counter_names[BALANCE_COUNTER_COUNT] = { BALANCE_COUNTERS(X) };
const char *const fathom_balance_encapsulation_names[BALANCE_ENCAPSULATION_COUNT] = { BALANCE_ENCAPSULATIONS(X) };
#undef X
