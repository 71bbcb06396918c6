/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Throughput and loss in the kernel: the maps, and the glue between them and the algorithm of
 * process.h.
 */
#ifndef FATHOM_TRAFFIC_BPF_H
#define FATHOM_TRAFFIC_BPF_H

#include "../../bpf/packet_pass.bpf.h"
#include "process.h"

/*
 * In sections of their own: user space finds them by name, without knowing the layout of the
 * others.
 */
const volatile struct traffic_config traffic_config SEC(".rodata.traffic_config") = {};
/* By which the table of flows tells of those that have state here. 0: this is off, and the verifier removes it. */
const volatile __u64 traffic_state_bit SEC(".rodata.traffic_state_bit") = 0;

/* What happened to packets, by name. */
struct traffic_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[TRAFFIC_COUNTER_COUNT];
};

/*
 * Flows, both directions in one entry, by their slots in the table of flows; written by every packet,
 * read by user space at the end of every interval. A flow that is driven out is counted there, as
 * opened minus deleted minus present. The number of entries is set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__type(key, __u32);
	__type(value, struct traffic_flow);
} traffic_flows SEC(".maps");

/* The state of a flow that begins. */
static __noinline struct traffic_flow *traffic_begin(struct packet_pass *pass)
{
	struct traffic_flow *flow;

	if (!flow_table_claim(&pass->packet.key, &pass->slot, traffic_state_bit))
		return 0;
	flow = bpf_map_lookup_elem(&traffic_flows, &pass->slot.index);
	if (!flow)
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	traffic_open(flow, &pass->packet);
	flow_table_publish(&pass->slot, traffic_state_bit);
	return flow;
}

static __noinline int traffic_take(struct packet_pass *pass, struct traffic_cpu *cpu, struct traffic_flow *flow)
{
	struct traffic_half *own = &flow->half[pass->packet.direction & 1];

	/*
	 * A router with one arm has each packet at both hooks of its interface; what it translated
	 * does not come in.
	 */
	if (pass->sighting.is_turned && own->flags & TRAFFIC_HALF_ARRIVES) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return 0;
	}
	if (pass->sighting.hook != PACKET_HOOK_EGRESS && !(own->flags & TRAFFIC_HALF_ARRIVES))
		own->flags |= TRAFFIC_HALF_ARRIVES;
	/* Read back, so that the verifier goes on from one state. */
	if (traffic_needs_clock(flow, &pass->packet))
		packet_now(pass);
	traffic_on_packet(flow, &pass->packet, pass->now, cpu->counters);
	return 0;
}

static __always_inline void traffic_on_selected(struct packet_pass *pass, struct traffic_cpu *cpu, __u32 state_bits)
{
	struct traffic_flow *flow = 0;

	if (state_bits & traffic_state_bit)
		flow = bpf_map_lookup_elem(&traffic_flows, &pass->slot.index);
	if (!flow) {
		flow = traffic_begin(pass);
		cpu->counters[flow ? TRAFFIC_COUNT_FLOWS_OPENED : TRAFFIC_COUNT_FLOWS_REFUSED]++;
	}
	if (flow)
		traffic_take(pass, cpu, flow);
}

/* `verdict` is that of packet_read_other. */
static __always_inline void traffic_measure(struct packet_pass *pass, struct traffic_cpu *cpu, __u32 verdict,
					    int is_selected, __u32 state_bits)
{
	/*
	 * Or clang 14 compares one register and indexes with its copy: "R2 unbounded memory
	 * access".
	 */
	asm volatile("" : "+r"(verdict));
	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return;
	if (is_selected)
		traffic_on_selected(pass, cpu, state_bits);
	else
		cpu->counters[TRAFFIC_COUNT_FILTERED]++;
}

#endif
