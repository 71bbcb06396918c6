// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs that are attached where packets pass: one for each hook, and for devices with and without an Ethernet
 * header. A packet is parsed once, its flow looked up once, and the clock read at most once, whatever measures it; of
 * measurements that are off the verifier leaves nothing.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../src/response/response.bpf.h"
#include "../src/rtt/rtt.bpf.h"
#include "../src/traffic/traffic.bpf.h"
#include "packet_pass.bpf.h"
#include "selection.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct selection selection SEC(".rodata.selection") = {};
const volatile __u8 has_tunnels SEC(".rodata.has_tunnels") = 0;

static __always_inline int packet_has_tunnels(void)
{
	return has_tunnels;
}

/* What each CPU has for itself: the present packet, and of each measurement its counters, and room to work on the packet. */
struct packet_cpu {
	struct packet_pass pass;
	struct rtt_cpu rtt;
	struct response_cpu response;
	struct traffic_cpu traffic;
};

/*
 * One entry, written by every packet, and looked up once; user space finds the counters by the names of the members. (The
 * stack is too small for it, and of what lies there the verifier would follow every combination of values, and give up.)
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_cpu);
} packet_cpus SEC(".maps");

static __always_inline struct packet_cpu *packet_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&packet_cpus, &zero);
}

/* `skb` is null where the hook has no such thing. */
static __always_inline void dispatch(struct packet_cpu *cpu, struct __sk_buff *skb, const struct packet_bytes *bytes,
				     __u32 verdict, enum packet_hook hook)
{
	struct packet_pass *pass = &cpu->pass;
	const struct packet *packet = &pass->packet;
	const struct packet_sighting sighting = {
		.hook = hook, .is_turned = hook == PACKET_HOOK_EGRESS && skb && packet_is_turned(skb)
	};
	__u32 state_bits = 0;
	int is_selected;
	int takes_others = response_state_bit || traffic_state_bit;
	__u32 widest = takes_others ? packet_read_other(bytes, verdict, &pass->packet, &pass->cursor) : verdict;

	is_selected = widest == PACKET_MEASURABLE && selection_admits(&selection, &packet->key);
	pass->now = 0;
	pass->sighting = sighting;
	if (is_selected && (takes_others || rtt_uses_flow(packet)))
		state_bits = flow_table_find(&packet->key, &pass->slot);
	if (response_state_bit && is_selected)
		response_look(pass, skb, bytes);
	if (rtt_state_bit)
		rtt_measure(pass, sighting, &cpu->rtt, verdict, is_selected, state_bits, !takes_others);
	if (response_state_bit)
		response_measure(pass, sighting, &cpu->response, widest, is_selected, state_bits,
				 !rtt_state_bit && !traffic_state_bit);
	if (traffic_state_bit)
		traffic_measure(pass, &cpu->traffic, widest, is_selected, state_bits);
}

static __always_inline void dispatch_skb(struct __sk_buff *skb, __u16 ether_type, enum packet_hook hook)
{
	struct packet_cpu *cpu = packet_this_cpu();
	struct packet_bytes bytes;
	__u32 verdict;

	if (!cpu)
		return;
	verdict = packet_parse_whole_skb(skb, ether_type, &cpu->pass.packet, &cpu->pass.cursor);
	bytes = packet_skb_bytes(skb);
	dispatch(cpu, skb, &bytes, verdict, hook);
}

static __always_inline void dispatch_xdp(struct xdp_md *xdp)
{
	struct packet_cpu *cpu = packet_this_cpu();
	struct packet_bytes bytes = packet_xdp_bytes(xdp);

	if (cpu)
		dispatch(cpu, 0, &bytes, packet_parse_xdp(xdp, &cpu->pass.packet, &cpu->pass.cursor), PACKET_HOOK_XDP);
}

SEC("tc")
int ethernet_ingress(struct __sk_buff *skb)
{
	dispatch_skb(skb, 0, PACKET_HOOK_INGRESS);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ethernet_egress(struct __sk_buff *skb)
{
	dispatch_skb(skb, 0, PACKET_HOOK_EGRESS);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ip_ingress(struct __sk_buff *skb)
{
	dispatch_skb(skb, wire16(skb->protocol), PACKET_HOOK_INGRESS);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ip_egress(struct __sk_buff *skb)
{
	dispatch_skb(skb, wire16(skb->protocol), PACKET_HOOK_EGRESS);
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int xdp_ingress(struct xdp_md *xdp)
{
	dispatch_xdp(xdp);
	return XDP_PASS;
}
