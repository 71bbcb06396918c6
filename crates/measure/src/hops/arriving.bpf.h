/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that arrive: answers to probes, which are taken, and replies to the application. */
#ifndef FATHOM_HOPS_ARRIVING_BPF_H
#define FATHOM_HOPS_ARRIVING_BPF_H

#include "program.bpf.h"

/* Hands an answer to user space, with as much of it as is of use. */
static __always_inline void hops_tell_answer(struct __sk_buff *skb, struct hops_cpu *cpu, __u32 offset,
					     const struct hops_flow *flow, struct hops_probe *probe)
{
	__u64 extracted = hops_config.has_extract ? hops_run_extract(skb, cpu, probe, flow) : 0;
	struct hops_answer *answer = bpf_ringbuf_reserve(&hops_events, sizeof(*answer), 0);
	__u32 length = skb->len - offset;

	if (!answer) {
		cpu->counters[HOPS_COUNT_EVENTS_LOST]++;
		return;
	}
	hops_begin(&answer->event, HOPS_EVENT_ANSWER, probe->flow);
	answer->event.probe = probe->number;
	answer->event.ttl = probe->ttl;
	answer->sent = probe->sent;
	answer->responder = cpu->header.source;
	answer->length = length;
	answer->identification = 0;
	if (!cpu->header.is_ipv6)
		bpf_skb_load_bytes(skb, cpu->network_bytes + 4, &answer->identification, 2);
	answer->ttl = cpu->header.ttl;
	answer->is_repeated = probe->is_answered;
	answer->event.has_extracted = hops_config.has_extract;
	answer->extracted = extracted;
	answer->header = flow->header;
	answer->header.seq = probe->seq;
	/* The application's packets differ in it: with ECN, data is marked, and acknowledgements are not (RFC 3168, section 6.1.4). */
	if (flow->header.is_ipv6)
		answer->header.label = (flow->header.label & 0xf00fffff) | (__u32)probe->service << 20;
	else
		answer->header.label = (flow->header.label & 0xff00) | probe->service;
	__builtin_memset(answer->bytes, 0, sizeof(answer->bytes));
	if (length > sizeof(answer->bytes))
		length = sizeof(answer->bytes);
	/* Else clang 14 makes one comparison of both, of which Linux 6.1 learns no lower bound. */
	barrier_var(length);
	if (length >= ICMP_HEADER_BYTES)
		bpf_skb_load_bytes(skb, offset, answer->bytes, length);
	hops_submit(answer);
}

/* An ICMP error. Returns whether it answers a probe; others are for somebody else. */
static __noinline int hops_on_error(struct __sk_buff *skb)
{
	struct hops_cpu *cpu = hops_cpu();
	struct hops_quote quote = {};
	struct hops_probe *probe;
	struct hops_flow *flow;
	__u32 offset, length, place;

	if (!cpu)
		return 0;
	offset = cpu->network_bytes + (cpu->header.is_ipv6 ? sizeof(struct ipv6_header) : sizeof(struct ipv4_header));
	length = skb->len - offset;
	if (length > sizeof(cpu->error))
		length = sizeof(cpu->error);
	if (length < ICMP_HEADER_BYTES || bpf_skb_load_bytes(skb, offset, cpu->error, length))
		return 0;
	if (!hops_is_error(cpu->error[0], cpu->header.is_ipv6))
		return 0;
	if (!hops_read_quote(cpu->error + ICMP_HEADER_BYTES, length - ICMP_HEADER_BYTES, cpu->header.is_ipv6, &quote))
		return 0;
	place = quote.number & (HOPS_PROBES - 1);
	probe = bpf_map_lookup_elem(&hops_probes, &place);
	flow = probe ? hops_flow_of(probe->flow) : 0;
	if (!flow || !hops_is_quoted(&quote, probe, flow, bpf_ktime_get_ns())) {
		cpu->counters[HOPS_COUNT_ANSWERS_FOREIGN]++;
		return 0;
	}
	cpu->counters[probe->is_answered ? HOPS_COUNT_ANSWERS_REPEATED : HOPS_COUNT_ANSWERS_MATCHED]++;
	hops_tell_answer(skb, cpu, offset, flow, probe);
	probe->is_answered = 1;
	return 1;
}

/* Tells user space, now and then, what the application's own packets say. */
static __always_inline void hops_tell_clue(struct __sk_buff *skb, struct hops_cpu *cpu, struct hops_flow *flow)
{
	struct tcp_timestamp_option option = {};
	struct hops_clue *clue;
	__u64 now = hops_now(cpu);
	__u32 offset;

	if (now < flow->clue_due)
		return;
	flow->clue_due = now + HOPS_CLUE_NS;
	clue = bpf_ringbuf_reserve(&hops_events, sizeof(*clue), 0);
	if (!clue) {
		cpu->counters[HOPS_COUNT_EVENTS_LOST]++;
		return;
	}
	hops_begin(&clue->event, HOPS_EVENT_CLUE, flow->number);
	clue->packets = flow->packets;
	clue->retransmitted = flow->retransmitted;
	clue->reply_ttl = cpu->header.ttl;
	__builtin_memset(clue->padding, 0, sizeof(clue->padding));
	offset = cpu->network_bytes + sizeof(struct tcp_header) +
		 (cpu->header.is_ipv6 ? sizeof(struct ipv6_header) : sizeof(struct ipv4_header));
	clue->has_timestamp = cpu->header.protocol == IP_PROTOCOL_TCP &&
			      cpu->header.transport_bytes >= sizeof(struct tcp_header) + sizeof(option) &&
			      !bpf_skb_load_bytes(skb, offset, &option, sizeof(option)) &&
			      wire32(option.kind) == TCP_ALIGNED_TIMESTAMP;
	clue->tsval = wire32(option.tsval);
	clue->tsecr = wire32(option.tsecr);
	hops_submit(clue);
}

/* The flow that a packet is a reply to; its header is in `cpu`. */
static __always_inline struct hops_flow *hops_find_replied(struct hops_cpu *cpu)
{
	struct hops_flow *flow = hops_newest_of(&cpu->header);
	__u8 direction;

	if (!flow || hops_is_of(&cpu->header, &flow->header, 1))
		return flow;
	direction = hops_key(&cpu->header, &cpu->key);
	flow = hops_find(&cpu->key);
	return flow && flow->direction != direction ? flow : 0;
}

static __always_inline int hops_on_ingress(struct __sk_buff *skb, __u32 network)
{
	struct hops_cpu *cpu = hops_cpu();
	enum hops_reading reading;
	struct hops_flow *flow;

	if (!cpu)
		return TC_ACT_UNSPEC;
	reading = hops_read_skb(skb, cpu, network);
	cpu->network_bytes = network;
	if (reading == HOPS_OTHER &&
	    (cpu->header.protocol == IP_PROTOCOL_ICMP || cpu->header.protocol == IP_PROTOCOL_ICMPV6))
		return hops_on_error(skb) && !hops_config.keeps_answers ? TC_ACT_SHOT : TC_ACT_UNSPEC;
	if (reading != HOPS_READ)
		return TC_ACT_UNSPEC;
	flow = hops_find_replied(cpu);
	if (!flow)
		return TC_ACT_UNSPEC;
	cpu->counters[HOPS_COUNT_PACKETS_WATCHED]++;
	hops_on_reply(flow, &cpu->header);
	if (flow->followed_since && hops_is_reply(flow, &cpu->header))
		hops_tell_followed(cpu, flow, 0);
	hops_close(cpu, flow, &cpu->header);
	hops_tell_clue(skb, cpu, flow);
	return TC_ACT_UNSPEC;
}

#endif
