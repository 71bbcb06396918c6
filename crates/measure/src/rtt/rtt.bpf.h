/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passive round-trip times in the kernel: the maps, and the glue between them and the algorithm of process.h. */
#ifndef FATHOM_RTT_BPF_H
#define FATHOM_RTT_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/flow_table.bpf.h"
#include "../../bpf/packet_rounds.bpf.h"
#include "../../bpf/selection.h"
#include "process.h"

/* In sections of their own: user space finds them by name, without knowing the layout of the others. */
const volatile struct rtt_config rtt_config SEC(".rodata.rtt_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* Wake the reader when this much waits, bytes; below, it comes by itself soon enough. */
#define RTT_WAKE_UP 262144

struct rtt_cpu {
	__u64 verdicts[PACKET_VERDICT_COUNT];
	__u64 counters[RTT_COUNTER_COUNT];
	struct packet packet;
	struct packet_cursor cursor;
	__u64 flow_hash;
	struct rtt_output output;
};

/*
 * Connections, both directions in one entry, by their slots in the table of flows; written by every packet. A flow that
 * is driven out is counted by user space, as opened minus deleted minus present. The value has room for the slots of
 * rtt_config, so its size and the number of entries are set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_BUCKET_SLOTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rtt_flow));
} rtt_flows SEC(".maps");

/* A zeroed value for rtt_flows, too large for the stack; never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rtt_flow));
} rtt_empty_flow SEC(".maps");

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

/*
 * What happened to packets, by name, and room to work on the present one; one entry, written by every packet. (The stack is
 * too small for it, and of what lies there the verifier would follow every combination of values, and give up.)
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rtt_cpu);
} rtt_cpus SEC(".maps");

/* Samples and flow events on their way to user space. What does not fit is lost and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1048576);
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
	__u64 waiting = bpf_ringbuf_query(&rtt_events, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(event, waiting >= RTT_WAKE_UP ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline int rtt_is_local(const struct flow_address *address)
{
	return !rtt_config.has_near_side && bpf_map_lookup_elem(&rtt_local_addresses, address);
}

/* One packet on its way through. */
struct rtt_pass {
	const struct packet *packet;
	struct rtt_cpu *cpu;
	__u64 now; /* ns; 0: nothing here needs the clock */
	__u64 hash;
	__u8 hook; /* enum rtt_hook */
	__u8 is_turned; /* leaves by the interface that it came in by */
};

/* A sample whose flow has no state, and so no mark which side is near. */
static __always_inline int rtt_is_near(const struct packet *packet, const struct rtt_sample *sample)
{
	const struct flow_address *destination = sample->direction ? &packet->key.low : &packet->key.high;
	const struct flow_address *source = sample->direction ? &packet->key.high : &packet->key.low;

	return sample->minimum == 0 && rtt_is_local(destination) && !rtt_is_local(source);
}

static __always_inline void rtt_emit_sample(struct rtt_pass *pass, const struct rtt_sample *sample)
{
	struct rtt_event *event;

	if (rtt_is_near(pass->packet, sample))
		return;
	event = bpf_ringbuf_reserve(&rtt_events, sizeof(*event), 0);
	if (!event) {
		pass->cpu->counters[RTT_COUNT_SAMPLES_LOST]++;
		return;
	}
	*event = (struct rtt_event){
		.key = pass->packet->key, .time = pass->now, .sample = *sample, .hook = pass->hook
	};
	pass->cpu->counters[RTT_COUNT_SAMPLES]++;
	rtt_submit(event);
}

static __always_inline void rtt_copy_traffic(struct rtt_traffic *traffic, const struct rtt_half *half)
{
	*traffic = (struct rtt_traffic){
		.packets = half->packets,
		.bytes = half->bytes,
		.retransmitted = half->retransmitted,
		.out_of_order = half->out_of_order,
		.congestion_experienced = half->congestion_experienced,
	};
}

/*
 * Functions of their own, since most packets need none of them. Each returns whether it succeeded, and the caller looks:
 * where nobody does, clang 14 leaves anything in the result register, and the verifier refuses to return a stack pointer.
 */
static __noinline int rtt_emit_flow(struct rtt_pass *pass, const struct rtt_flow *flow, __u8 type, __u8 reason)
{
	struct rtt_flow_event *event = bpf_ringbuf_reserve(&rtt_events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->event = (struct rtt_event){
		.key = pass->packet->key, .time = pass->now, .type = type, .reason = reason, .hook = pass->hook
	};
	event->event.sample.direction = flow->opener;
	rtt_copy_traffic(&event->traffic[0], &flow->half[0]);
	rtt_copy_traffic(&event->traffic[1], &flow->half[1]);
	rtt_submit(event);
	return 1;
}

static __always_inline void rtt_tell_flow(struct rtt_pass *pass, const struct rtt_flow *flow, __u8 type, __u8 reason)
{
	if (rtt_config.has_events && !rtt_emit_flow(pass, flow, type, reason))
		pass->cpu->counters[RTT_COUNT_EVENTS_LOST]++;
}

static __always_inline void rtt_mark_near(struct rtt_flow *flow, const struct flow_key *key)
{
	int is_low_local = rtt_is_local(&key->low);
	int is_high_local = rtt_is_local(&key->high);

	if (is_high_local && !is_low_local)
		flow->half[0].flags |= RTT_HALF_IS_NEAR;
	if (is_low_local && !is_high_local)
		flow->half[1].flags |= RTT_HALF_IS_NEAR;
}

static __always_inline struct rtt_ring rtt_ring_of(struct rtt_flow *flow)
{
	return (struct rtt_ring){ .slots = (void *)(flow + 1), .size = rtt_config.slots };
}

static __always_inline struct rtt_flow *rtt_find_flow(const struct rtt_pass *pass, __u32 *slot)
{
	*slot = flow_table_find(&pass->packet->key, &pass->cpu->flow_hash);
	return *slot == FLOW_NO_SLOT ? 0 : bpf_map_lookup_elem(&rtt_flows, slot);
}

/* With a slot of flow_table_claim, which is not called here: the stack would be too deep. */
static __noinline int rtt_make_flow(struct rtt_pass *pass, __u32 slot)
{
	const struct flow_key *key = &pass->packet->key;
	__u32 zero = 0;
	void *empty = bpf_map_lookup_elem(&rtt_empty_flow, &zero);
	struct rtt_flow *flow;

	if (!empty || bpf_map_update_elem(&rtt_flows, &slot, empty, BPF_ANY))
		return 0;
	flow = bpf_map_lookup_elem(&rtt_flows, &slot);
	if (!flow)
		return 0;
	rtt_mark_near(flow, key);
	rtt_open(flow, rtt_ring_of(flow), pass->packet, pass->now, rtt_settings(), &pass->cpu->output);
	if (pass->hook != RTT_HOOK_EGRESS)
		flow->flags |= RTT_FLOW_ARRIVES << pass->packet->direction;
	flow_table_publish(slot);
	return 1;
}

/* Not by rtt_make_flow: with the frame of rtt_emit_flow below its own the stack would be too deep. */
static __noinline int rtt_tell_opened(struct rtt_pass *pass)
{
	__u32 slot;
	struct rtt_flow *flow = rtt_find_flow(pass, &slot);

	if (!flow)
		return 0;
	rtt_tell_flow(pass, flow, RTT_EVENT_OPEN, pass->cpu->output.reason);
	return 1;
}

/* A connection was on these addresses and ports before. */
static __noinline int rtt_forget_flow(struct rtt_pass *pass)
{
	__u32 slot;
	struct rtt_flow *flow = rtt_find_flow(pass, &slot);

	if (!flow)
		return 0;
	if (!(flow->flags & RTT_FLOW_IS_CLOSED))
		rtt_tell_flow(pass, flow, RTT_EVENT_CLOSE, RTT_REASON_REPLACED);
	flow_table_free(slot);
	return 1;
}

static __always_inline void rtt_act(struct rtt_pass *pass, struct rtt_flow *flow)
{
	struct rtt_output *output = &pass->cpu->output;
	__u64 *counters = pass->cpu->counters;

	if (output->actions & RTT_ACTION_FORGET && rtt_forget_flow(pass))
		counters[RTT_COUNT_FLOWS_DELETED]++;
	if (output->actions & RTT_ACTION_OPEN) {
		__u32 slot = flow_table_claim(&pass->packet->key, pass->cpu->flow_hash);

		if (slot == FLOW_NO_SLOT || !rtt_make_flow(pass, slot))
			counters[RTT_COUNT_FLOWS_REFUSED]++;
		else if (++counters[RTT_COUNT_FLOWS_OPENED] && rtt_config.has_events && !rtt_tell_opened(pass))
			counters[RTT_COUNT_EVENTS_LOST]++;
	}
	if (output->sample_count)
		rtt_emit_sample(pass, &output->samples[0]);
	if (output->sample_count > 1)
		rtt_emit_sample(pass, &output->samples[1]);
	if (flow && output->actions & RTT_ACTION_CLOSED)
		rtt_tell_flow(pass, flow, RTT_EVENT_CLOSE, output->reason);
	/* Of most packets there is nothing to count. */
	if (!(output->left_out | output->expired | output->displaced))
		return;
	if (output->left_out && output->left_out_as < RTT_COUNTER_COUNT)
		counters[output->left_out_as] += output->left_out;
	counters[RTT_COUNT_PENDING_EXPIRED] += output->expired;
	counters[RTT_COUNT_REQUESTS_DISPLACED] += output->displaced;
}

/*
 * Has this packet passed before? A router with one arm has each packet at both hooks of its interface. What it translated is
 * another flow, none of whose packets come in.
 */
static __always_inline int rtt_is_copy(const struct rtt_pass *pass, struct rtt_flow *flow, struct rtt_bucket *bucket)
{
	__u8 arrives = RTT_FLOW_ARRIVES << pass->packet->direction;

	if (pass->is_turned)
		return flow ? flow->flags & arrives : bucket && rtt_knows_request(bucket, pass->hash, pass->packet);
	if (flow && pass->hook != RTT_HOOK_EGRESS && !(flow->flags & arrives))
		flow->flags |= arrives;
	return 0;
}

/* A parsed packet. */
static __always_inline void rtt_path(struct rtt_cpu *cpu, enum rtt_hook hook, int is_turned)
{
	const struct rtt_config *config = rtt_settings();
	const struct packet *packet = &cpu->packet;
	struct rtt_pass pass = { .packet = packet, .cpu = cpu, .hook = hook, .is_turned = is_turned };
	struct rtt_bucket *bucket = 0;
	struct rtt_flow *flow = 0;

	if (rtt_uses_flow(packet)) {
		__u32 slot;

		flow = rtt_find_flow(&pass, &slot);
	}
	if (rtt_uses_bucket(packet, !!flow, config)) {
		__u32 index;

		pass.hash = rtt_bucket_hash(packet, config->seed);
		index = pass.hash & config->bucket_mask;
		bucket = bpf_map_lookup_elem(&rtt_requests, &index);
	}
	if (rtt_is_copy(&pass, flow, bucket)) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return;
	}
	if (rtt_needs_clock(flow, !!bucket, packet, config))
		pass.now = bpf_ktime_get_ns();
	rtt_reset(&cpu->output);
	if (flow)
		rtt_on_packet(flow, rtt_ring_of(flow), bucket, pass.hash, packet, pass.now, config, &cpu->output);
	else
		rtt_on_packet(0, (struct rtt_ring){}, bucket, pass.hash, packet, pass.now, config, &cpu->output);
	rtt_act(&pass, flow);
}

static __always_inline int packet_has_tunnels(void)
{
	return rtt_config.has_tunnels;
}

static __always_inline struct rtt_cpu *rtt_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rtt_cpus, &zero);
}

static __always_inline void rtt_measure(struct rtt_cpu *cpu, __u32 verdict, enum rtt_hook hook, int is_turned)
{
	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return;
	if (selection_admits(&selection, &cpu->packet.key))
		rtt_path(cpu, hook, is_turned);
	else
		cpu->counters[RTT_COUNT_FILTERED]++;
}

static __always_inline void rtt_path_skb(struct __sk_buff *skb, __u16 ether_type, enum rtt_hook hook)
{
	struct rtt_cpu *cpu = rtt_this_cpu();

	if (cpu)
		rtt_measure(cpu, packet_parse_whole_skb(skb, ether_type, &cpu->packet, &cpu->cursor), hook,
			    hook == RTT_HOOK_EGRESS && packet_is_turned(skb));
}

static __always_inline void rtt_path_xdp(struct xdp_md *xdp)
{
	struct rtt_cpu *cpu = rtt_this_cpu();

	if (cpu)
		rtt_measure(cpu, packet_parse_xdp(xdp, &cpu->packet, &cpu->cursor), RTT_HOOK_XDP, 0);
}

#endif
