/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passive round-trip times in the kernel: the glue between the maps and the algorithm of process.h. */
#ifndef FATHOM_RTT_BPF_H
#define FATHOM_RTT_BPF_H

#include "batch.bpf.h"

static __always_inline int rtt_is_local(const struct flow_address *address)
{
	return !rtt_config.has_near_side && bpf_map_lookup_elem(&rtt_local_addresses, address);
}

/* A sample whose flow has no state, and so no mark which side is near. */
static __always_inline int rtt_is_near(const struct packet *packet, const struct rtt_sample *sample)
{
	const struct flow_address *destination = sample->direction ? &packet->key.low : &packet->key.high;
	const struct flow_address *source = sample->direction ? &packet->key.high : &packet->key.low;

	return sample->minimum == 0 && rtt_is_local(destination) && !rtt_is_local(source);
}

/* `flow` may be null: the sample is of a packet without one. */
static __always_inline void rtt_emit_sample(struct packet_pass *pass, struct rtt_cpu *cpu, struct rtt_flow *flow,
					    const struct rtt_sample *sample)
{
	struct rtt_event *event;

	if (rtt_is_near(&pass->packet, sample))
		return;
	if (rtt_config.has_batches && flow && rtt_keep_sample(pass, cpu, flow, sample))
		return;
	event = bpf_ringbuf_reserve(&rtt_events, sizeof(*event), 0);
	if (!event) {
		cpu->counters[RTT_COUNT_SAMPLES_LOST]++;
		return;
	}
	*event = (struct rtt_event){
		.key = pass->packet.key, .time = pass->now, .sample = *sample, .hook = pass->sighting.hook
	};
	cpu->counters[RTT_COUNT_SAMPLES]++;
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
static __noinline int rtt_emit_flow(struct packet_pass *pass, const struct rtt_flow *flow, __u8 type, __u8 reason)
{
	struct rtt_flow_event *event = bpf_ringbuf_reserve(&rtt_events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->event = (struct rtt_event){
		.key = pass->packet.key, .time = pass->now, .type = type, .reason = reason, .hook = pass->sighting.hook
	};
	event->event.sample.direction = flow->opener;
	rtt_copy_traffic(&event->traffic[0], &flow->half[0]);
	rtt_copy_traffic(&event->traffic[1], &flow->half[1]);
	rtt_submit(event);
	return 1;
}

static __always_inline void rtt_tell_flow(struct packet_pass *pass, struct rtt_cpu *cpu, const struct rtt_flow *flow,
					  __u8 type, __u8 reason)
{
	if (rtt_config.has_events && !rtt_emit_flow(pass, flow, type, reason))
		cpu->counters[RTT_COUNT_EVENTS_LOST]++;
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

static __always_inline struct rtt_flow *rtt_flow_at(const struct packet_pass *pass)
{
	return bpf_map_lookup_elem(&rtt_flows, &pass->slot.index);
}

/* In a slot of flow_table_claim, which is not called here: the stack would be too deep. */
static __noinline int rtt_make_flow(struct packet_pass *pass, struct rtt_cpu *cpu)
{
	struct rtt_flow *flow = rtt_flow_at(pass);

	if (!flow)
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	rtt_mark_near(flow, &pass->packet.key);
	rtt_open(flow, rtt_ring_of(flow), &pass->packet, pass->now, rtt_settings(), &cpu->output);
	if (pass->sighting.hook != PACKET_HOOK_EGRESS)
		flow->flags |= RTT_FLOW_ARRIVES << pass->packet.direction;
	return 1;
}

static __always_inline int rtt_begin_flow(struct packet_pass *pass, struct rtt_cpu *cpu)
{
	struct rtt_flow *flow;
	int is_made;

	if (!flow_table_claim(&pass->packet.key, &pass->slot, rtt_state_bit))
		return 0;
	flow = rtt_flow_at(pass);
	/* Not by rtt_make_flow: the stack would be too deep. */
	if (rtt_config.has_batches && flow && flow->has_batch[0] + flow->has_batch[1])
		rtt_end_batches(pass, cpu, flow);
	is_made = rtt_make_flow(pass, cpu);
	flow_table_publish(&pass->slot, is_made ? rtt_state_bit : 0);
	flow = is_made ? rtt_flow_at(pass) : 0;
	if (flow)
		rtt_tell_flow(pass, cpu, flow, RTT_EVENT_OPEN, cpu->output.reason);
	return is_made;
}

/* A connection was on these addresses and ports before. (A SYN, which says so, has not been looked up.) */
static __always_inline void rtt_forget_flow(struct packet_pass *pass, struct rtt_cpu *cpu)
{
	struct rtt_flow *flow = 0;

	if (flow_table_find(&pass->packet.key, &pass->slot) & rtt_state_bit)
		flow = rtt_flow_at(pass);
	if (!flow)
		return;
	if (!(flow->flags & RTT_FLOW_IS_CLOSED))
		rtt_tell_flow(pass, cpu, flow, RTT_EVENT_CLOSE, RTT_REASON_REPLACED);
	if (rtt_config.has_batches)
		rtt_end_batches(pass, cpu, flow);
	flow_table_leave(&pass->slot, rtt_state_bit);
	cpu->counters[RTT_COUNT_FLOWS_DELETED]++;
}

/* What most packets need nothing of. */
static __noinline int rtt_act(struct packet_pass *pass, struct rtt_cpu *cpu, struct rtt_flow *flow)
{
	struct rtt_output *output = &cpu->output;

	if (output->actions & RTT_ACTION_FORGET)
		rtt_forget_flow(pass, cpu);
	if (output->sample_count)
		rtt_emit_sample(pass, cpu, flow, &output->samples[0]);
	if (output->sample_count > 1)
		rtt_emit_sample(pass, cpu, flow, &output->samples[1]);
	if (flow && output->actions & RTT_ACTION_CLOSED)
		rtt_tell_flow(pass, cpu, flow, RTT_EVENT_CLOSE, output->reason);
	return 0;
}

/* Not by rtt_act: in a flood of SYNs each displaces one, and the call would take as long as all this. */
static __always_inline void rtt_count(struct rtt_cpu *cpu)
{
	const struct rtt_output *output = &cpu->output;

	if (!(output->left_out | output->expired | output->displaced))
		return;
	if (output->left_out && output->left_out_as < RTT_COUNTER_COUNT)
		cpu->counters[output->left_out_as] += output->left_out;
	cpu->counters[RTT_COUNT_PENDING_EXPIRED] += output->expired;
	cpu->counters[RTT_COUNT_REQUESTS_DISPLACED] += output->displaced;
}

/*
 * Has this packet passed before? A router with one arm has each packet at both hooks of its interface. What it translated is
 * another flow, none of whose packets come in.
 */
static __always_inline int rtt_is_copy(const struct packet *packet, struct packet_sighting sighting,
				       struct rtt_flow *flow, struct rtt_bucket *bucket, __u64 hash)
{
	__u8 arrives = RTT_FLOW_ARRIVES << packet->direction;

	if (sighting.is_turned)
		return flow ? flow->flags & arrives : bucket && rtt_knows_request(bucket, hash, packet);
	if (flow && sighting.hook != PACKET_HOOK_EGRESS && !(flow->flags & arrives))
		flow->flags |= arrives;
	return 0;
}

/* Returns the packet's flow, if it has one that is measured. What it gave is in cpu->output. */
static __always_inline struct rtt_flow *rtt_take(struct packet_pass *pass, struct packet_sighting sighting,
						 struct rtt_cpu *cpu, __u32 state_bits)
{
	const struct rtt_config *config = rtt_settings();
	const struct packet *packet = &pass->packet;
	struct rtt_bucket *bucket = 0;
	struct rtt_flow *flow = 0;
	__u64 hash = 0, now = 0;

	rtt_reset(&cpu->output);
	if (rtt_uses_flow(packet) && state_bits & rtt_state_bit)
		flow = rtt_flow_at(pass);
	if (rtt_uses_bucket(packet, !!flow, config)) {
		__u32 index;

		hash = rtt_bucket_hash(packet, config->seed);
		index = hash & config->bucket_mask;
		bucket = bpf_map_lookup_elem(&rtt_requests, &index);
	}
	if (rtt_is_copy(packet, sighting, flow, bucket, hash)) {
		cpu->verdicts[PACKET_MEASURABLE]--;
		cpu->verdicts[PACKET_COPY]++;
		return 0;
	}
	if (rtt_needs_clock(flow, !!bucket, packet, config))
		now = packet_now(pass);
	if (flow)
		rtt_on_packet(flow, rtt_ring_of(flow), bucket, hash, packet, now, config, &cpu->output);
	else
		rtt_on_packet(0, (struct rtt_ring){}, bucket, hash, packet, now, config, &cpu->output);
	return flow;
}

/* The same as a call, where the stack would be too deep otherwise. */
static __noinline struct rtt_flow *rtt_take_apart(struct packet_pass *pass, struct rtt_cpu *cpu, __u32 state_bits)
{
	return rtt_take(pass, pass->sighting, cpu, state_bits);
}

static __always_inline void rtt_measure(struct packet_pass *pass, struct packet_sighting sighting, struct rtt_cpu *cpu,
					__u32 verdict, int is_selected, __u32 state_bits, int is_alone)
{
	struct rtt_flow *flow;

	if (verdict < PACKET_VERDICT_COUNT)
		cpu->verdicts[verdict]++;
	if (verdict != PACKET_MEASURABLE)
		return;
	if (!is_selected) {
		cpu->counters[RTT_COUNT_FILTERED]++;
		return;
	}
	flow = is_alone ? rtt_take(pass, sighting, cpu, state_bits) : rtt_take_apart(pass, cpu, state_bits);
	/* Not by rtt_act: the stack would be too deep. */
	if (cpu->output.actions & RTT_ACTION_OPEN)
		cpu->counters[rtt_begin_flow(pass, cpu) ? RTT_COUNT_FLOWS_OPENED : RTT_COUNT_FLOWS_REFUSED]++;
	if (cpu->output.sample_count || cpu->output.actions & (RTT_ACTION_FORGET | RTT_ACTION_CLOSED))
		rtt_act(pass, cpu, flow);
	rtt_count(cpu);
}

#endif
