/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space calls of the balancer's C, and the structs that it shares with the kernel. */
#ifndef FATHOM_BALANCE_NATIVE_H
#define FATHOM_BALANCE_NATIVE_H

#include "../bpf/balance.h"

/* Where the flow of a connection in the table stands in a ring of so many places. */
__u32 fathom_balance_ring_place(__u64 word, __u32 ring_size);

extern const char *const fathom_balance_counter_names[BALANCE_COUNTER_COUNT];
extern const char *const fathom_balance_encapsulation_names[BALANCE_ENCAPSULATION_COUNT];

#endif
