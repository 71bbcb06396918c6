/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Throughput and loss in the kernel: the maps, and the glue between them and the algorithm of
 * process.h.
 */
#ifndef FATHOM_TRAFFIC_BPF_H
#define FATHOM_TRAFFIC_BPF_H

#include "../../bpf/flow_table.bpf.h"
#include "../../bpf/packet_rounds.bpf.h"
#include "../../bpf/selection.h"
#include "process.h"

/*
 * In sections of their own: user space finds them by name, without knowing the layout of the
 * others.
 */
const volatile struct traffic_config traffic_config SEC(".rodata.traffic_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

struct traffic_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[TRAFFIC_COUNTER_COUNT];
	struct packet packet;
	struct packet_cursor cursor;
	__u64 flow_hash;
	struct traffic_flow fresh; /* a flow that may begin */
};

/*
 * Flows, both directions in one entry, by their slots in the table of flows; written by every packet,
 * read by user space at the end of every interval. A flow that is driven out is counted there, as
 * opened minus deleted minus present. The number of entries is set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__type(key, __u32);
	__type(value, struct traffic_flow);
} traffic_flows SEC(".maps");

/*
 * What happened to packets, by name, and room to work on the present one; one entry, written by
 * every packet.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct traffic_cpu);
} traffic_cpus SEC(".maps");

static __always_inline int packet_has_tunnels(void)
{
	return traffic_config.has_tunnels;
}

/* A global function, so that the verifier walks the algorithm once, whatever led to it. */
__noinline int traffic_take(struct traffic_flow *flow, struct traffic_cpu *cpu)
{
	if (flow && cpu)
		traffic_on_packet(flow, &cpu->packet, traffic_needs_clock(flow, &cpu->packet) ? bpf_ktime_get_ns() : 0,
				  cpu->counters);
	return 0;
}

/* A packet whose flow has no state. Apart, since most packets need nothing of it. */
static __noinline int traffic_begin(struct traffic_cpu *cpu, __u32 slot, int arrives)
{
	struct traffic_flow *fresh = &cpu->fresh;

	__builtin_memset(fresh, 0, sizeof(*fresh));
	traffic_open(fresh, &cpu->packet);
	traffic_take(fresh, cpu);
	if (arrives)
		fresh->half[cpu->packet.direction & 1].flags |= TRAFFIC_HALF_ARRIVES;
	if (bpf_map_update_elem(&traffic_flows, &slot, fresh, BPF_ANY))
		return 0;
	flow_table_publish(slot);
	return 1;
}

/* A parsed packet. */
static __always_inline void traffic_path(struct traffic_cpu *cpu, int arrives, int is_turned)
{
	const struct packet *packet = &cpu->packet;
	__u32 slot = flow_table_find(&packet->key, &cpu->flow_hash);
	struct traffic_flow *flow = slot == FLOW_NO_SLOT ? 0 : bpf_map_lookup_elem(&traffic_flows, &slot);
	struct traffic_half *own;

	if (!flow) {
		slot = flow_table_claim(&packet->key, cpu->flow_hash);
		if (slot != FLOW_NO_SLOT && traffic_begin(cpu, slot, arrives))
			cpu->counters[TRAFFIC_COUNT_FLOWS_OPENED]++;
		else
			cpu->counters[TRAFFIC_COUNT_FLOWS_REFUSED]++;
		return;
	}
	own = &flow->half[packet->direction & 1];
	/*
	 * A router with one arm has each packet at both hooks of its interface; what it translated
	 * does not come in.
	 */
	if (is_turned && own->flags & TRAFFIC_HALF_ARRIVES) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return;
	}
	if (arrives && !(own->flags & TRAFFIC_HALF_ARRIVES))
		own->flags |= TRAFFIC_HALF_ARRIVES;
	traffic_take(flow, cpu);
}

static __always_inline void traffic_measure(struct traffic_cpu *cpu, __u32 verdict, int arrives, int is_turned)
{
	verdict = traffic_claim(&cpu->cursor, verdict, &cpu->packet);
	/*
	 * Or clang 14 compares one register and indexes with its copy: "R2 unbounded memory
	 * access".
	 */
	asm volatile("" : "+r"(verdict));
	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return;
	if (selection_admits(&selection, &cpu->packet.key))
		traffic_path(cpu, arrives, is_turned);
	else
		cpu->counters[TRAFFIC_COUNT_FILTERED]++;
}

static __always_inline struct traffic_cpu *traffic_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&traffic_cpus, &zero);
}

static __always_inline void traffic_path_skb(struct __sk_buff *skb, __u16 ether_type, int arrives)
{
	struct traffic_cpu *cpu = traffic_this_cpu();

	if (cpu)
		traffic_measure(cpu, packet_parse_whole_skb(skb, ether_type, &cpu->packet, &cpu->cursor), arrives,
				!arrives && packet_is_turned(skb));
}

static __always_inline void traffic_path_xdp(struct xdp_md *xdp)
{
	struct traffic_cpu *cpu = traffic_this_cpu();

	if (cpu)
		traffic_measure(cpu, packet_parse_xdp(xdp, &cpu->packet, &cpu->cursor), 1, 0);
}

#endif
