/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Response latency in the kernel: the maps, and the glue between them and the algorithm of process.h. */
#ifndef FATHOM_RESPONSE_BPF_H
#define FATHOM_RESPONSE_BPF_H

#include "../../bpf/flow_table.bpf.h"
#include "../../bpf/packet_rounds.bpf.h"
#include "process.h"

/* In sections of their own: user space finds them by name, without knowing the layout of the others. */
const volatile struct response_config response_config SEC(".rodata.response_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* Wake the reader when this much waits, bytes; below, it comes by itself soon enough. */
#define RESPONSE_WAKE_UP 262144

struct response_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[RESPONSE_COUNTER_COUNT];
	struct packet packet;
	struct packet_cursor cursor;
	__u64 flow_hash;
	struct response_epoch ended;
	__u8 first[16]; /* bytes of a payload that lies in pages */
	__u16 arrives; /* RESPONSE_ARRIVES, if the present packet comes in */
	__u16 padding[3];
	/* A flow that may begin, with the zeroed state of an estimator behind it. */
	struct {
		struct response_flow flow;
		union response_gaps gaps;
	} fresh;
};

/*
 * Flows of requests, by their slots in the table of flows; written by every packet that counts. A flow that is driven out
 * is counted by user space, as opened minus deleted minus present. The value has room for the estimator's state, so its
 * size and the number of entries are set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct response_flow) + sizeof(struct response_bins));
} response_flows SEC(".maps");

/* Handshakes under way, and what they took, for the first request of their flow; written by SYNs. The later of two at a place wins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct response_handshake);
} response_handshakes SEC(".maps");

/* What happened to packets, by name, and room to work on the present one; one entry, written by every packet. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct response_cpu);
} response_cpus SEC(".maps");

/* Epochs on their way to user space. What does not fit is lost and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1048576);
} response_events SEC(".maps");

static __always_inline int packet_has_tunnels(void)
{
	return response_config.has_tunnels;
}

/* Without its volatile, as the algorithm takes it; see rtt_settings. */
static __always_inline const struct response_config *response_settings(void)
{
	const struct response_config *config = (const struct response_config *)&response_config;

	asm volatile("" : "+r"(config));
	return config;
}

static __noinline int response_emit(struct response_cpu *cpu)
{
	__u64 waiting = bpf_ringbuf_query(&response_events, BPF_RB_AVAIL_DATA);
	__u64 flags = waiting >= RESPONSE_WAKE_UP ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;

	return !bpf_ringbuf_output(&response_events, &cpu->ended, sizeof(cpu->ended), flags);
}

static __noinline int response_make_flow(struct response_cpu *cpu)
{
	__u32 slot = flow_table_claim(&cpu->packet.key, cpu->flow_hash);

	if (slot == FLOW_NO_SLOT || bpf_map_update_elem(&response_flows, &slot, &cpu->fresh, BPF_ANY))
		return 0;
	flow_table_publish(slot);
	return 1;
}

static __always_inline struct response_handshake *response_find_place(__u64 hash)
{
	__u32 index = hash & response_config.handshake_mask;

	return bpf_map_lookup_elem(&response_handshakes, &index);
}

static __always_inline void response_begin(struct response_cpu *cpu, struct response_handshake *place, __u64 hash,
					   __u32 direction, __u64 now)
{
	__builtin_memset(&cpu->fresh.flow, 0, sizeof(cpu->fresh.flow));
	if (response_without_flow(&cpu->fresh.flow, place, hash, direction, &cpu->packet, now)) {
		cpu->fresh.flow.flags |= cpu->arrives;
		cpu->counters[response_make_flow(cpu) ? RESPONSE_COUNT_FLOWS_OPENED : RESPONSE_COUNT_FLOWS_REFUSED]++;
	}
}

/* A packet whose flow has no state: may it have, and does it begin? Apart, since most packets need nothing of it. */
static __noinline int response_without_state(struct response_cpu *cpu, __u64 now)
{
	__u32 direction = response_find_direction(&cpu->packet, &response_config.servers);
	struct response_handshake *place = 0;
	__u64 hash;

	if (direction == RESPONSE_DIRECTION_NONE) {
		cpu->counters[RESPONSE_COUNT_UNDIRECTED]++;
		return 0;
	}
	hash = flow_hash(&cpu->packet.key, response_config.seed);
	if (response_config.sampled && (__u32)hash >= response_config.sampled) {
		cpu->counters[RESPONSE_COUNT_NOT_SAMPLED]++;
		return 0;
	}
	if (response_uses_handshake(0, &cpu->packet))
		place = response_find_place(hash);
	response_begin(cpu, place, hash, direction, now);
	return 0;
}

/* A SYN, or what follows one, of a flow that has state: another connection is on its ports. */
static __noinline int response_on_new(struct response_cpu *cpu, struct response_flow *flow, __u64 now)
{
	__u64 hash = flow_hash(&cpu->packet.key, response_config.seed);

	if (flow)
		response_on_connection(flow, response_find_place(hash), hash, &cpu->packet, now);
	return 0;
}

/* The epoch of this flow is over. */
static __noinline int response_tell(struct response_cpu *cpu, struct response_flow *flow, __u64 now)
{
	int is_told;

	if (!flow)
		return 0;
	is_told = flow->flags & RESPONSE_IS_USED;
	response_end_epoch(flow, (void *)(flow + 1), &cpu->packet.key, now, response_settings(), &cpu->ended);
	if (is_told)
		cpu->counters[response_emit(cpu) ? RESPONSE_COUNT_EPOCHS : RESPONSE_COUNT_EPOCHS_LOST]++;
	return 0;
}

/* A parsed packet. */
static __always_inline void response_path(struct response_cpu *cpu, int is_turned)
{
	const struct response_config *config = response_settings();
	struct response_flow *flow;
	enum response_counter left_out;
	__u32 slot;
	__u64 now;

	slot = flow_table_find(&cpu->packet.key, &cpu->flow_hash);
	flow = slot == FLOW_NO_SLOT ? 0 : bpf_map_lookup_elem(&response_flows, &slot);
	/* What comes back must not cost the clock, which is most of what a request costs. */
	if (flow && !response_is_request(flow, &cpu->packet))
		return;
	/* A router with one arm has each packet at both hooks of its interface; what it translated does not come in. */
	if (flow && is_turned && flow->flags & RESPONSE_ARRIVES) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return;
	}
	now = bpf_ktime_get_ns();
	if (!flow) {
		response_without_state(cpu, now);
		return;
	}
	if (cpu->arrives && !(flow->flags & RESPONSE_ARRIVES))
		flow->flags |= RESPONSE_ARRIVES;
	if (response_is_over(flow, now, config))
		response_tell(cpu, flow, now);
	if (response_uses_handshake(flow, &cpu->packet)) {
		response_on_new(cpu, flow, now);
		return;
	}
	left_out = response_on_known(flow, (void *)(flow + 1), &cpu->packet, now, config);
	if (left_out < RESPONSE_COUNTER_COUNT)
		cpu->counters[left_out] += cpu->packet.segments;
}

/* Is this packet measured? */
static __always_inline int response_admits(struct response_cpu *cpu, __u32 verdict)
{
	/* Or clang 14 compares one register and indexes with its copy: "R2 unbounded memory access". */
	asm volatile("" : "+r"(verdict));
	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return 0;
	if (selection_admits(&selection, &cpu->packet.key))
		return 1;
	cpu->counters[RESPONSE_COUNT_FILTERED]++;
	return 0;
}

static __always_inline struct response_cpu *response_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&response_cpus, &zero);
}

/* What a host sends itself has its payload in pages, where a program cannot point at. */
static __noinline const __u8 *response_load_first(struct __sk_buff *skb, struct response_cpu *cpu)
{
	__u32 offset = cpu->cursor.end - cpu->packet.payload;

	return bpf_skb_load_bytes(skb, offset, cpu->first, RESPONSE_CONTENT_BYTES) ? 0 : cpu->first;
}

static __always_inline void response_path_skb(struct __sk_buff *skb, __u16 ether_type, int arrives)
{
	struct response_cpu *cpu = response_this_cpu();
	struct packet_bytes bytes;
	const __u8 *first;
	__u32 verdict;

	if (!cpu)
		return;
	verdict = packet_parse_whole_skb(skb, ether_type, &cpu->packet, &cpu->cursor);
	bytes = packet_skb_bytes(skb);
	verdict = response_claim(&bytes, &cpu->cursor, verdict, &cpu->packet);
	if (!response_admits(cpu, verdict))
		return;
	first = response_first_bytes(&bytes, &cpu->cursor, &cpu->packet);
	if (!first && cpu->packet.payload >= RESPONSE_CONTENT_BYTES)
		first = response_load_first(skb, cpu);
	cpu->packet.content = response_read_content(&cpu->packet, first);
	cpu->arrives = arrives ? RESPONSE_ARRIVES : 0;
	response_path(cpu, !arrives && packet_is_turned(skb));
}

static __always_inline void response_path_xdp(struct xdp_md *xdp)
{
	struct response_cpu *cpu = response_this_cpu();
	struct packet_bytes bytes = packet_xdp_bytes(xdp);
	const __u8 *first;
	__u32 verdict;

	if (!cpu)
		return;
	verdict = packet_parse_xdp(xdp, &cpu->packet, &cpu->cursor);
	verdict = response_claim(&bytes, &cpu->cursor, verdict, &cpu->packet);
	if (!response_admits(cpu, verdict))
		return;
	first = response_first_bytes(&bytes, &cpu->cursor, &cpu->packet);
	cpu->packet.content = response_read_content(&cpu->packet, first);
	cpu->arrives = RESPONSE_ARRIVES;
	response_path(cpu, 0);
}

#endif
