// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The production program, and what it is measured against. A test run hands one buffer to every repetition, and the balancer moves its head: so
 * before each repetition all programs make it the frame again that arrives, from another flow.
 */
#include "../../crates/balance/src/bpf/balance.bpf.c"

#define FRAME_MAX 128
#define RESTORED 80
#define ALL_FLOWS 0xffffffffU

/* Written by user space before a run, and by the programs. */
struct turn {
	__u64 number; /* of the packet */
	__u32 flows; /* that take turns; ALL_FLOWS: each packet has its own */
	__u32 length; /* of the frame, bytes */
	int head; /* bytes that are put in front */
	int tail; /* bytes by which the end is moved; 0: it is not, and `head` is not needed */
	__u32 source; /* offset of 32 bits of the source address; 0: the frame is the same each time */
	__u32 sequence; /* offset of the sequence number; 0: none */
	__u8 frame[FRAME_MAX];
} turn SEC(".data.turn") = {};

static __always_inline void put32(struct xdp_md *xdp, __u32 offset, __u32 value)
{
	__u32 *field = (void *)(long)xdp->data + offset;

	if (offset < FRAME_MAX && (void *)(field + 1) <= (void *)(long)xdp->data_end)
		*field = __builtin_bswap32(value);
}

/* Which flow has its turn: numbers that look random, all of them equally often. */
static __always_inline __u32 flow_of(__u64 number)
{
	if (turn.flows == ALL_FLOWS)
		return number;
	return (number * 0x9e3779b97f4a7c15ULL >> 32) * turn.flows >> 32;
}

static __always_inline int arrive(struct xdp_md *xdp)
{
	__u64 *to, *from = (void *)turn.frame;
	void *end;
	int head;
	__u64 number = ++turn.number;
	__u32 i;

	/* Who cuts the end off moves the head by a known number of bytes; who does not, by the difference. */
	head = turn.tail ? turn.head : (int)(xdp->data_end - xdp->data) - (int)turn.length;
	if (xdp->data_end - xdp->data != turn.length && bpf_xdp_adjust_head(xdp, head))
		return 0;
	if (xdp->data_end - xdp->data != turn.length && bpf_xdp_adjust_tail(xdp, -turn.tail))
		return 0;
	to = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	/* Up to the end of the TCP header behind IPv6: what no program writes to need not be restored. */
#pragma unroll
	for (i = 0; i < RESTORED / sizeof(*to); i++)
		if ((void *)(to + i + 1) <= end)
			to[i] = from[i];
	if (turn.source)
		put32(xdp, turn.source, 0x0a000000 + flow_of(number));
	if (turn.sequence) {
		put32(xdp, turn.sequence, number * 24);
		put32(xdp, turn.sequence + 4, number * 24);
	}
	return 1;
}

SEC("xdp")
int empty(struct xdp_md *xdp)
{
	return arrive(xdp) ? XDP_TX : XDP_ABORTED;
}

/* What it takes to move the head twice, there and back. */
SEC("xdp")
int undone(struct xdp_md *xdp)
{
	if (!arrive(xdp))
		return XDP_ABORTED;
	return bpf_xdp_adjust_head(xdp, -20) ? XDP_ABORTED : XDP_TX;
}

SEC("xdp")
int production(struct xdp_md *xdp)
{
	return arrive(xdp) ? balance_path(xdp) : XDP_ABORTED;
}

/* What the clock showed, so that reading it is not optimised away. */
__u64 clock_ns SEC(".data.clock_ns") = 0;

SEC("xdp")
int clock(struct xdp_md *xdp)
{
	clock_ns = bpf_ktime_get_ns();
	return arrive(xdp) ? XDP_TX : XDP_ABORTED;
}
