/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Response latency in the kernel: the maps, and the glue between them and the algorithm of process.h. */
#ifndef FATHOM_RESPONSE_BPF_H
#define FATHOM_RESPONSE_BPF_H

#include "../../bpf/packet_pass.bpf.h"
#include "../../bpf/ring.bpf.h"
#include "process.h"

/* In sections of their own: user space finds them by name, without knowing the layout of the others. */
const volatile struct response_config response_config SEC(".rodata.response_config") = {};
/* By which the table of flows tells of those that have state here. 0: this is off, and the verifier removes it. */
const volatile __u64 response_state_bit SEC(".rodata.response_state_bit") = 0;

/*
 * How long an epoch is at least, ticks: that of the settings, which user space makes longer while there
 * are very many.
 */
volatile __u32 response_epoch_ticks SEC(".data.response_epoch_ticks") = 0;

#define RESPONSE_RING_BYTES (1 << 22)

/* What happened to packets, by name, and room to work on the present one. */
struct response_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[RESPONSE_COUNTER_COUNT];
	struct response_epoch ended;
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
	__uint(map_flags, BPF_F_MMAPABLE);
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

/* Epochs on their way to user space. What does not fit is lost and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RESPONSE_RING_BYTES);
} response_events SEC(".maps");

/* Without its volatile, as the algorithm takes it; see rtt_settings. */
static __always_inline const struct response_config *response_settings(void)
{
	const struct response_config *config = (const struct response_config *)&response_config;

	asm volatile("" : "+r"(config));
	return config;
}

static __noinline int response_emit(struct response_cpu *cpu)
{
	__u64 flags = ring_wake(&response_events, RESPONSE_RING_BYTES);

	return !bpf_ringbuf_output(&response_events, &cpu->ended, sizeof(cpu->ended), flags);
}

static __noinline int response_make_flow(struct packet_pass *pass, struct response_cpu *cpu)
{
	int is_made;

	if (!flow_table_claim(&pass->packet.key, &pass->slot, response_state_bit))
		return 0;
	is_made = !bpf_map_update_elem(&response_flows, &pass->slot.index, &cpu->fresh, BPF_ANY);
	flow_table_publish(&pass->slot, is_made ? response_state_bit : 0);
	return is_made;
}

static __always_inline struct response_handshake *response_find_place(__u64 hash)
{
	__u32 index = hash & response_config.handshake_mask;

	return bpf_map_lookup_elem(&response_handshakes, &index);
}

static __always_inline void response_begin(struct packet_pass *pass, struct response_cpu *cpu,
					   struct response_handshake *place, __u64 hash, __u32 direction)
{
	__builtin_memset(&cpu->fresh.flow, 0, sizeof(cpu->fresh.flow));
	if (response_without_flow(&cpu->fresh.flow, place, hash, direction, &pass->packet, pass->now)) {
		if (pass->sighting.hook != PACKET_HOOK_EGRESS)
			cpu->fresh.flow.flags |= RESPONSE_ARRIVES;
		cpu->counters[response_make_flow(pass, cpu) ? RESPONSE_COUNT_FLOWS_OPENED
							    : RESPONSE_COUNT_FLOWS_REFUSED]++;
	}
}

/* A packet whose flow has no state: may it have, and does it begin? Apart, since most packets need nothing of it. */
static __noinline int response_without_state(struct packet_pass *pass, struct response_cpu *cpu)
{
	__u32 direction = response_find_direction(&pass->packet, &response_config.servers);
	struct response_handshake *place = 0;
	__u64 hash;

	if (direction == RESPONSE_DIRECTION_NONE) {
		cpu->counters[RESPONSE_COUNT_UNDIRECTED]++;
		return 0;
	}
	hash = flow_hash(&pass->packet.key, response_config.seed);
	if (response_config.sampled && (__u32)hash >= response_config.sampled) {
		cpu->counters[RESPONSE_COUNT_NOT_SAMPLED]++;
		return 0;
	}
	if (response_uses_handshake(0, &pass->packet))
		place = response_find_place(hash);
	response_begin(pass, cpu, place, hash, direction);
	return 0;
}

/* A SYN, or what follows one, of a flow that has state: another connection is on its ports. */
static __noinline int response_on_new(struct packet_pass *pass, struct response_flow *flow)
{
	__u64 hash = flow_hash(&pass->packet.key, response_config.seed);

	if (flow)
		response_on_connection(flow, response_find_place(hash), hash, &pass->packet, pass->now);
	return 0;
}

/* The epoch of this flow is over. */
static __noinline int response_tell(struct packet_pass *pass, struct response_cpu *cpu, struct response_flow *flow)
{
	int is_told;

	if (!flow)
		return 0;
	is_told = flow->flags & RESPONSE_IS_USED;
	cpu->ended.slot = pass->slot.index;
	response_end_epoch(flow, (void *)(flow + 1), &pass->packet.key, pass->now, response_epoch_ticks,
			   response_settings(), &cpu->ended);
	if (is_told)
		cpu->counters[response_emit(cpu) ? RESPONSE_COUNT_EPOCHS : RESPONSE_COUNT_EPOCHS_LOST]++;
	return 0;
}

static __always_inline int response_take(struct packet_pass *pass, struct packet_sighting sighting,
					 struct response_cpu *cpu, __u32 state_bits)
{
	const struct response_config *config = response_settings();
	struct response_flow *flow = 0;
	enum response_counter left_out;
	__u64 now;

	if (state_bits & response_state_bit)
		flow = bpf_map_lookup_elem(&response_flows, &pass->slot.index);
	/* What comes back must not cost the clock, which is most of what a request costs. */
	if (flow && !response_is_request(flow, &pass->packet))
		return 0;
	/* A router with one arm has each packet at both hooks of its interface; what it translated does not come in. */
	if (flow && sighting.is_turned && flow->flags & RESPONSE_ARRIVES) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return 0;
	}
	now = packet_now(pass);
	if (!flow) {
		response_without_state(pass, cpu);
		return 0;
	}
	if (sighting.hook != PACKET_HOOK_EGRESS && !(flow->flags & RESPONSE_ARRIVES))
		flow->flags |= RESPONSE_ARRIVES;
	if (response_is_over(flow, now, response_epoch_ticks))
		response_tell(pass, cpu, flow);
	if (response_uses_handshake(flow, &pass->packet)) {
		response_on_new(pass, flow);
		return 0;
	}
	left_out = response_on_known(flow, (void *)(flow + 1), &pass->packet, now, config);
	if (left_out < RESPONSE_COUNTER_COUNT)
		cpu->counters[left_out] += pass->packet.segments;
	return 0;
}

/* The same as a call, where the stack would be too deep otherwise. */
static __noinline int response_take_apart(struct packet_pass *pass, struct response_cpu *cpu, __u32 state_bits)
{
	return response_take(pass, pass->sighting, cpu, state_bits);
}

/* What a host sends itself has its payload in pages, where a program cannot point at. */
static __noinline const __u8 *response_load_first(struct __sk_buff *skb, struct packet_pass *pass)
{
	__u32 offset = pass->cursor.end - pass->packet.payload;

	return bpf_skb_load_bytes(skb, offset, pass->first, RESPONSE_CONTENT_BYTES) ? 0 : pass->first;
}

/* Before response_measure, which does not see the packet's bytes. `skb` is null at a hook that has all of them at hand. */
static __always_inline void response_look(struct packet_pass *pass, struct __sk_buff *skb,
					  const struct packet_bytes *bytes)
{
	const __u8 *first = response_first_bytes(bytes, &pass->cursor, &pass->packet);

	if (skb && !first && pass->packet.payload >= RESPONSE_CONTENT_BYTES)
		first = response_load_first(skb, pass);
	pass->packet.content = response_read_content(&pass->packet, first);
}

/* `verdict` is that of packet_read_other. */
static __always_inline void response_measure(struct packet_pass *pass, struct packet_sighting sighting,
					     struct response_cpu *cpu, __u32 verdict, int is_selected, __u32 state_bits,
					     int is_alone)
{
	verdict = response_verdict(verdict, &pass->packet, &pass->cursor);
	/* Or clang 14 compares one register and indexes with its copy: "R2 unbounded memory access". */
	asm volatile("" : "+r"(verdict));
	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return;
	if (is_selected && is_alone)
		response_take(pass, sighting, cpu, state_bits);
	else if (is_selected)
		response_take_apart(pass, cpu, state_bits);
	else
		cpu->counters[RESPONSE_COUNT_FILTERED]++;
}

#endif
