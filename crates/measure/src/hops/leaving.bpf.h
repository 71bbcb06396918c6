/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that leave: which flows are probed, and whose turn has come. Also that of flows whose application is silent. */
#ifndef FATHOM_HOPS_LEAVING_BPF_H
#define FATHOM_HOPS_LEAVING_BPF_H

#include "sending.bpf.h"

/* Whether a flow may be probed at all, which is quickly said. Networks are of the destination alone. */
static __always_inline int hops_is_selected(const struct hops_header *header)
{
	struct flow_key key = {
		.low = header->destination,
		.high = header->destination,
		.low_port = header->source_port,
		.high_port = header->destination_port,
		.protocol = header->protocol,
	};

	return selection_admits(&selection, &key);
}

/*
 * Whether a process that is left out sends this: asked before all else, for on a busy host most packets are of such processes.
 * Without a socket, such as a reset after the end, a packet may still be of a flow that is probed.
 */
static __always_inline int hops_is_of_others(struct __sk_buff *skb)
{
	struct bpf_sock *socket;

	if (!hops_config.has_owners)
		return 0;
	socket = skb->sk;
	socket = socket ? bpf_sk_fullsock(socket) : 0;
	return socket && !bpf_sk_storage_get(&hops_owned, socket, 0, 0);
}

/* Whether a flow of a socket is to be probed; asked when it may begin. */
static __always_inline int hops_is_wanted(struct __sk_buff *skb)
{
	if (hops_config.cgroup && bpf_skb_ancestor_cgroup_id(skb, hops_config.cgroup_level) != hops_config.cgroup)
		return 0;
	return !hops_config.has_owners || (skb->sk && bpf_sk_fullsock(skb->sk));
}

/* A multicast group or a broadcast has no path. */
static __always_inline int hops_has_path(const struct hops_header *header)
{
	__u64 word = header->destination.words[1];

	if (header->is_ipv6)
		return (header->destination.words[0] & 0xff) != 0xff &&
		       (header->destination.words[0] & 0xc0ff) != 0x80fe;
	return (word >> 32 & 0xf0) != 0xe0 && (word >> 32) != 0xffffffff;
}

static __always_inline __u32 hops_open(struct __sk_buff *skb, struct hops_cpu *cpu, __u8 direction)
{
	static const struct hops_flow empty = {};
	struct hops_opening *opening;
	struct hops_next *next;
	struct hops_flow *flow;
	__u32 zero = 0, number, place, i;

	next = bpf_map_lookup_elem(&hops_next, &zero);
	if (!next)
		return 0;
	number = __sync_fetch_and_add(&next->flow, 1) + 1;
	place = number & (HOPS_FLOWS - 1);
	bpf_map_update_elem(&hops_flows, &place, &empty, BPF_ANY);
	flow = bpf_map_lookup_elem(&hops_flows, &place);
	if (!flow)
		return 0;
	flow->interface = skb->ifindex;
	flow->direction = direction;
	flow->header = cpu->header;
	flow->ceiling = cpu->header.protocol == IP_PROTOCOL_TCP ? hops_config.first_ceiling
								: hops_config.first_ceiling_unsafe;
	if (cpu->network_bytes)
		bpf_skb_load_bytes(skb, 0, flow->ethernet, sizeof(flow->ethernet));
	for (i = 0; i < HOPS_TTL_MAX; i++)
		flow->turns[i].interval = hops_config.interval;
	flow->number = number;
	if (bpf_map_update_elem(&hops_numbers, &cpu->key, &number, BPF_ANY))
		return 0;
	place = hops_newest_place(&cpu->header);
	bpf_map_update_elem(&hops_newest, &place, &number, BPF_ANY);
	cpu->counters[HOPS_COUNT_FLOWS_OPENED]++;
	opening = bpf_ringbuf_reserve(&hops_events, sizeof(*opening), 0);
	if (!opening) {
		cpu->counters[HOPS_COUNT_EVENTS_LOST]++;
		return number;
	}
	hops_begin(&opening->event, HOPS_EVENT_FLOW, number);
	opening->key = cpu->key;
	opening->key.interface = skb->ifindex;
	opening->direction = direction;
	__builtin_memset(opening->padding, 0, sizeof(opening->padding));
	hops_submit(opening);
	return number;
}

/* The first packet that may be cloned makes the flow. */
__noinline int hops_open_wanted(struct __sk_buff *skb)
{
	struct hops_cpu *cpu = hops_cpu();

	if (!cpu || !hops_has_path(&cpu->header))
		return 0;
	if (cpu->header.protocol == IP_PROTOCOL_TCP &&
	    (cpu->header.tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST) || !(cpu->header.tcp_flags & TCP_ACK)))
		return 0;
	if (cpu->header.protocol != IP_PROTOCOL_TCP && cpu->header.protocol != IP_PROTOCOL_UDP && cpu->header.tcp_flags)
		return 0; /* echo replies: the one that asked measures */
	if (!hops_is_wanted(skb))
		return 0;
	return hops_open(skb, cpu, hops_key(&cpu->header, &cpu->key));
}

/* The number of the flow that a packet leaves in, which may begin with it; 0 if it is not probed. Its header is in `cpu`. */
__noinline int hops_look_up(struct __sk_buff *skb)
{
	struct hops_cpu *cpu = hops_cpu();

	if (!cpu || !hops_is_selected(&cpu->header))
		return 0;
	if (hops_newest_of(&cpu->header)) {
		__u8 direction = hops_key(&cpu->header, &cpu->key);
		struct hops_flow *flow = hops_find(&cpu->key);

		if (flow)
			return flow->direction == direction ? flow->number : 0;
	}
	return hops_open_wanted(skb);
}

/* The packet may be one that the destination must answer, or tell that another one was lost. Its header is in `cpu`. */
static __always_inline void hops_watch_leaving(struct hops_cpu *cpu, struct hops_flow *flow, __u64 now)
{
	if (hops_is_lost(flow, &cpu->header, now, hops_config.timeout))
		hops_tell_followed(cpu, flow, 1);
	if (hops_may_follow(flow, &cpu->header, now))
		hops_follow(flow, &cpu->header, now, bpf_ktime_get_ns());
}

static __always_inline int hops_on_egress(struct __sk_buff *skb, __u32 network)
{
	struct hops_cpu *cpu = hops_cpu();
	enum hops_reading reading;
	struct hops_flow *flow;
	__u64 now, due;

	if (!cpu)
		return TC_ACT_UNSPEC;
	if (cpu->stage || is_own_probe(skb))
		return cpu->stage == HOPS_STAGE_EDIT && is_own_probe(skb) ? hops_edit(skb, cpu) : TC_ACT_UNSPEC;
	if (hops_is_of_others(skb))
		return TC_ACT_UNSPEC;
	reading = hops_read_skb(skb, cpu, network);
	if (reading != HOPS_READ) {
		cpu->counters[HOPS_COUNT_HEADERS_REFUSED] += reading == HOPS_REFUSED;
		return TC_ACT_UNSPEC;
	}
	if (cpu->header.ttl <= HOPS_TTL_MAX) {
		/* Traceroute's, or another host's probe: what is sent to die on its way is not cloned. */
		cpu->counters[HOPS_COUNT_TTL_LOW]++;
		return TC_ACT_UNSPEC;
	}
	cpu->network_bytes = network;
	now = hops_now(cpu);
	flow = hops_newest_of(&cpu->header);
	/* Once a second also a known one is looked up, or it would be the next to go from `hops_numbers`. */
	if (!flow || !hops_is_of(&cpu->header, &flow->header, 0) || (flow->seen ^ now) >> 30) {
		__u32 number = hops_look_up(skb);

		flow = number ? hops_flow_of(number) : 0;
	}
	if (!flow || flow->interface != skb->ifindex)
		return TC_ACT_UNSPEC;
	flow->seen = now;
	cpu->counters[HOPS_COUNT_PACKETS_WATCHED]++;
	if (flow->is_closed && cpu->header.tcp_flags & TCP_SYN && cpu->header.protocol == IP_PROTOCOL_TCP) {
		/* Another connection has these ends now: its next packet opens it. */
		flow->number = 0;
		return TC_ACT_UNSPEC;
	}
	hops_close(cpu, flow, &cpu->header);
	hops_watch_leaving(cpu, flow, now);
	due = flow->due;
	if (!hops_on_packet(flow, &cpu->header) || now < due || flow->is_closed)
		return TC_ACT_UNSPEC;
	if (__sync_val_compare_and_swap(&flow->due, due, NO_TURN) != due)
		return TC_ACT_UNSPEC; /* another CPU was faster */
	cpu->header.is_partial = hops_is_partial(&cpu->header);
	cpu->header.quiet_ack = flow->header.quiet_ack;
	cpu->is_idle = 0;
	cpu->burst = HOPS_BURST;
	hops_take_turns(skb, flow->number, now);
	return TC_ACT_UNSPEC;
}

/*
 * Probes a flow whose application is silent: user space runs this with an empty frame, and the flow's number as its mark.
 * What the flow sent last says what a probe looks like now.
 */
static __always_inline int hops_on_idle(struct __sk_buff *skb)
{
	struct hops_cpu *cpu = hops_cpu();
	__u32 number = skb->mark;
	struct hops_flow *flow = hops_flow_of(number);

	if (!cpu || !flow || flow->is_closed)
		return 0;
	cpu->header = flow->header;
	cpu->header.is_partial = 0;
	cpu->network_bytes = ETHERNET_BYTES;
	cpu->is_idle = 1;
	cpu->burst = HOPS_TTL_MAX;
	hops_take_turns(skb, number, bpf_ktime_get_coarse_ns());
	return 0;
}

#endif
