/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passive round-trip times in the kernel: the settings, the maps and the counters. */
#ifndef FATHOM_RTT_MAPS_BPF_H
#define FATHOM_RTT_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/packet_pass.bpf.h"
#include "../../bpf/ring.bpf.h"

/* 0, until user space has samples come less often, ns: there are very many. */
volatile __u64 rtt_shortest_pause SEC(".data.rtt_shortest_pause") = 0;
#define RTT_SHORTEST_PAUSE rtt_shortest_pause

#include "process.h"

/* In sections of their own: user space finds them by name, without knowing the layout of the others. */
const volatile struct rtt_config rtt_config SEC(".rodata.rtt_config") = {};
/* By which the table of flows tells of those that have state here. 0: this is off, and the verifier removes it. */
const volatile __u64 rtt_state_bit SEC(".rodata.rtt_state_bit") = 0;

#define RTT_RING_BYTES (1 << 20)

/* What happened to packets, by name, and what the present one gave. */
struct rtt_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[RTT_COUNTER_COUNT];
	struct rtt_output output;
};

/*
 * Connections, both directions in one entry, by their slots in the table of flows; written by every packet. A flow that
 * is driven out is counted by user space, as opened minus deleted minus present. The value has room for the slots of
 * rtt_config, so its size and the number of entries are set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rtt_flow));
} rtt_flows SEC(".maps");

/*
 * SYNs, queries, echo requests that wait for their answer; written by them. A full bucket gives up its oldest, which is
 * counted. 64 bytes a bucket of 4: the default of 4096 waits for 16384 requests at once, in 256 KB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct rtt_bucket);
} rtt_requests SEC(".maps");

/* The addresses of this machine; written by user space. Looked up once a flow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct flow_address);
	__type(value, __u8);
} rtt_local_addresses SEC(".maps");

/* Samples and flow events on their way to user space. What does not fit is lost and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RTT_RING_BYTES);
} rtt_events SEC(".maps");

/*
 * Without its volatile, as the algorithm takes it. The barrier keeps the compiler from seeing that this is the constant
 * above, whose zeros it would fold in.
 */
static __always_inline const struct rtt_config *rtt_settings(void)
{
	const struct rtt_config *config = (const struct rtt_config *)&rtt_config;

	asm volatile("" : "+r"(config));
	return config;
}

static __always_inline void rtt_submit(void *event)
{
	bpf_ringbuf_submit(event, ring_wake(&rtt_events, RTT_RING_BYTES));
}

#endif
