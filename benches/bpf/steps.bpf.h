/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A test run hands one buffer to every repetition. So that they are packets of a flow that moves on, and not one packet
 * that is sent again and again, each contender first moves some fields on, which costs all of them the same.
 */
#ifndef FATHOM_BENCHES_STEPS_BPF_H
#define FATHOM_BENCHES_STEPS_BPF_H

#define STEPS_MAX 2
#define STEP_OFFSET_MAX 128

/* A big-endian number of 32 bits in the packet that grows by `by` before each repetition. */
struct step {
	__u32 offset; /* 0: none */
	__u32 by;
};

/* Written by user space before a run. */
struct step steps[STEPS_MAX] SEC(".data.steps") = {};

static __always_inline void move_on(struct __sk_buff *skb)
{
	int i;

#pragma unroll
	for (i = 0; i < STEPS_MAX; i++) {
		__u32 offset = steps[i].offset;
		__u32 *field = (void *)(long)skb->data + offset;

		if (!offset || offset > STEP_OFFSET_MAX || (void *)(field + 1) > (void *)(long)skb->data_end)
			return;
		*field = __builtin_bswap32(__builtin_bswap32(*field) + steps[i].by);
	}
}

/* What the others are measured against. */
SEC("tc")
int empty(struct __sk_buff *skb)
{
	move_on(skb);
	return TC_ACT_UNSPEC;
}

/* What the clock showed, so that reading it is not optimised away. */
__u64 clock_ns SEC(".data.clock_ns") = 0;

SEC("tc")
int clock(struct __sk_buff *skb)
{
	move_on(skb);
	clock_ns = bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

#endif
