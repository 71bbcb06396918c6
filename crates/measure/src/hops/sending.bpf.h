/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a probe leaves, and when: budgets, clones, turns. */
#ifndef FATHOM_HOPS_SENDING_BPF_H
#define FATHOM_HOPS_SENDING_BPF_H

#include "program.bpf.h"

/*
 * Whether there is a budget for one more probe: all share one, and each destination has its own. Like others below it is a
 * global function because the verifier walks those once, and not once for each way to get there.
 */
__noinline int hops_may_send(__u64 now)
{
	static const struct hops_locked_budget empty = {};
	struct hops_cpu *cpu = hops_cpu();
	struct flow_address destination;
	struct hops_locked_budget *budget;
	__u32 zero = 0;
	int is_within = 0;

	if (!cpu)
		return 0;
	destination = cpu->header.destination;
	budget = bpf_map_lookup_elem(&hops_budgets, &destination);
	if (!budget) {
		bpf_map_update_elem(&hops_budgets, &destination, &empty, BPF_NOEXIST);
		budget = bpf_map_lookup_elem(&hops_budgets, &destination);
	}
	if (budget) {
		bpf_spin_lock(&budget->lock);
		is_within = hops_spend(&budget->budget, now, hops_config.probes_per_destination);
		bpf_spin_unlock(&budget->lock);
	}
	if (!is_within) {
		cpu->counters[HOPS_COUNT_DESTINATION_BUDGET_SPENT]++;
		return 0;
	}
	budget = bpf_map_lookup_elem(&hops_all_budget, &zero);
	if (!budget)
		return 0;
	bpf_spin_lock(&budget->lock);
	is_within = hops_spend(&budget->budget, now, hops_config.probes_per_second);
	bpf_spin_unlock(&budget->lock);
	if (!is_within)
		cpu->counters[HOPS_COUNT_BUDGET_SPENT]++;
	return is_within;
}

/* Notes the probe, just before it goes to the device. */
static __always_inline void hops_note_probe(struct hops_cpu *cpu)
{
	__u32 place = cpu->number & (HOPS_PROBES - 1);
	struct hops_probe *probe = bpf_map_lookup_elem(&hops_probes, &place);
	__u64 now = bpf_ktime_get_ns();

	if (!probe)
		return;
	if (probe->sent && !probe->is_answered && now < probe->sent + HOPS_STALE_NS)
		cpu->counters[HOPS_COUNT_PROBES_OVERRUN]++;
	probe->number = cpu->number;
	probe->flow = cpu->flow;
	probe->seq = cpu->header.seq;
	probe->ttl = cpu->ttl;
	probe->service = cpu->service;
	probe->is_answered = 0;
	probe->sent = now;
	cpu->counters[HOPS_COUNT_PROBES_SENT]++;
	hops_tell(cpu, HOPS_EVENT_SENT, cpu->flow);
}

/* How much of the application's packet follows the headers of a probe: one segment's worth of a train. */
static __always_inline __u16 hops_tail(struct __sk_buff *skb, const struct hops_header *header)
{
	__u32 payload = header->payload;
	__u32 tail;

	if (skb->gso_size && skb->gso_size < payload)
		payload = skb->gso_size;
	tail = payload + header->transport_bytes;
	tail -= header->protocol == IP_PROTOCOL_TCP ? sizeof(struct tcp_header) : sizeof(struct udp_header);
	return tail < HOPS_TAIL_MAX ? tail : HOPS_TAIL_MAX;
}

/* Builds the headers of the next probe. What could do harm at the destination is done only to those that a router stops. */
static __always_inline void hops_prepare(struct __sk_buff *skb, struct hops_cpu *cpu, const struct hops_flow *flow,
					 __u8 ttl)
{
	int is_known = ttl <= flow->known;
	int is_long = is_known && !cpu->is_idle;
	struct hops_next *next;
	__u32 zero = 0;

	cpu->header.tail = 0;
	if (hops_config.is_full_size && is_long)
		cpu->header.tail = hops_tail(skb, &cpu->header);
	cpu->is_edited = hops_config.has_edit && is_known;
	if ((hops_config.is_full_size && !is_long) || (hops_config.has_edit && !is_known))
		cpu->counters[HOPS_COUNT_PROBES_PLAIN]++;

	next = bpf_map_lookup_elem(&hops_next, &zero);
	cpu->number = next ? __sync_fetch_and_add(&next->probe, 1) + 1 : 0;
	cpu->flow = flow->number;
	cpu->ttl = ttl;
	cpu->length = hops_build(&cpu->header, ttl, cpu->number, cpu->bytes);
	cpu->service = hops_service(cpu->bytes);
}

/* Makes the packet in `skb` the probe that was prepared. */
static __always_inline int hops_write(struct __sk_buff *skb, struct hops_cpu *cpu)
{
	__u32 length = cpu->length;
	__u32 offset = cpu->network_bytes;

	if (length < HOPS_BYTES_MIN || length > HOPS_BYTES_MAX)
		return -1;
	if (bpf_skb_change_tail(skb, offset + length + cpu->header.tail, 0))
		return -1;
	return bpf_skb_store_bytes(skb, offset, cpu->bytes, length, 0);
}

/*
 * Sends a probe through a clone of `skb`. The clone comes by this hook, in hops_edit; the application's packet stays as it
 * is. The stage is reset here also if the clone never came; what the hook drops, it counts itself.
 */
__noinline int hops_clone(struct __sk_buff *skb, __u32 number, __u8 ttl)
{
	struct hops_cpu *cpu = hops_cpu();
	struct hops_flow *flow = hops_flow_of(number);
	__u32 before[2] = { skb->cb[0], skb->cb[1] };
	int is_lost;

	if (!cpu || !flow)
		return 0;
	hops_prepare(skb, cpu, flow, ttl);
	cpu->stage = HOPS_STAGE_EDIT;
	own_probe_note(skb);
	is_lost = bpf_clone_redirect(skb, skb->ifindex, 0) != 0;
	skb->cb[0] = before[0];
	skb->cb[1] = before[1];
	if (cpu->stage == HOPS_STAGE_EDIT || (is_lost && cpu->stage == HOPS_STAGE_PASS))
		cpu->counters[HOPS_COUNT_CLONES_REFUSED]++;
	cpu->stage = HOPS_STAGE_NONE;
	return 1;
}

/*
 * A clone becomes a probe. It is sent to the device once more, since what shapers charge for a packet was computed before
 * this hook, from its length before.
 */
static __always_inline int hops_edit(struct __sk_buff *skb, struct hops_cpu *cpu)
{
	cpu->stage = HOPS_STAGE_PASS;
	if (hops_write(skb, cpu)) {
		cpu->counters[HOPS_COUNT_EDITS_REFUSED]++;
	} else if (hops_may_go(skb, cpu)) {
		hops_note_probe(cpu);
		return bpf_redirect(skb->ifindex, 0);
	}
	cpu->stage = HOPS_STAGE_NONE;
	return TC_ACT_SHOT;
}

/* A probe without an application's packet: `skb` becomes it, and a clone of it is sent. */
__noinline int hops_send_idle(struct __sk_buff *skb, __u32 number, __u8 ttl)
{
	struct hops_cpu *cpu = hops_cpu();
	struct hops_flow *flow = hops_flow_of(number);

	if (!cpu || !flow)
		return 0;
	hops_prepare(skb, cpu, flow, ttl);
	if (hops_write(skb, cpu) || bpf_skb_store_bytes(skb, 0, flow->ethernet, ETHERNET_BYTES, 0)) {
		cpu->counters[HOPS_COUNT_EDITS_REFUSED]++;
		return 0;
	}
	cpu->stage = HOPS_STAGE_PASS;
	own_probe_note(skb);
	if (hops_may_go(skb, cpu)) {
		hops_note_probe(cpu);
		if (bpf_clone_redirect(skb, flow->interface, 0))
			cpu->counters[HOPS_COUNT_CLONES_REFUSED]++;
	}
	cpu->stage = HOPS_STAGE_NONE;
	return 1;
}

/* The earliest turn of a flow. */
__noinline __u64 hops_earliest(__u32 number)
{
	struct hops_flow *flow = hops_flow_of(number);
	__u64 earliest = NO_TURN;
	__u32 i;

	if (!flow)
		return earliest;
	for (i = 0; i < HOPS_TTL_MAX; i++)
		if (i < flow->ceiling && flow->turns[i].due < earliest)
			earliest = flow->turns[i].due;
	return earliest;
}

/* Takes the turn of TTL `place` + 1, if it has come. Returns whether others may be taken. */
__noinline int hops_take_turn(struct __sk_buff *skb, __u32 number, __u32 place, __u64 now)
{
	struct hops_flow *flow = hops_flow_of(number);
	struct hops_cpu *cpu = hops_cpu();
	struct hops_turn *turn;

	if (!flow || !cpu || place >= HOPS_TTL_MAX || place >= flow->ceiling)
		return 0;
	turn = &flow->turns[place];
	if (turn->due > now)
		return 1;
	if (!cpu->burst || !hops_may_send(now))
		return 0;
	cpu->burst--;
	turn->due = hops_next_turn(turn->due, turn->interval * 1000ULL, now);
	return cpu->is_idle ? hops_send_idle(skb, number, place + 1) : hops_clone(skb, number, place + 1);
}

/* Takes the turns that have come. `skb` is a packet of the flow, or what can be made one; its header is in `cpu`. */
__noinline int hops_take_turns(struct __sk_buff *skb, __u32 number, __u64 now)
{
	struct hops_flow *flow = hops_flow_of(number);
	__u32 i;

	if (!flow)
		return 0;
	for (i = 0; i < HOPS_TTL_MAX; i++)
		if (!hops_take_turn(skb, number, i, now))
			break;
	flow->due = hops_earliest(number);
	return 0;
}

#endif
