// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The production program, and what it is measured against; in one object, so that both meet the same flows. */
#include "../../crates/measure/bpf/dispatch.bpf.c"
#include "reference.bpf.h"
#include "steps.bpf.h"

/* Where the packet has what it echoes, behind Ethernet; written by user space. 0: nowhere. */
__u32 echo_offset SEC(".data.echo") = 0;

/* The server answered a moment ago, and its clock ticks once a millisecond. */
static __always_inline void echo_clock(struct __sk_buff *skb)
{
	__u32 offset = echo_offset;
	__u32 *field = (void *)(long)skb->data + offset;

	if (offset && offset <= STEP_OFFSET_MAX && (void *)(field + 1) <= (void *)(long)skb->data_end)
		*field = __builtin_bswap32((__u32)(bpf_ktime_get_ns() / 1000000));
}

/* The least that anything which follows flows must do: parse, and look one entry up. Tells whether it was there. */
SEC("tc")
int reference(struct __sk_buff *skb)
{
	struct packet_cpu *cpu = packet_this_cpu();

	move_on(skb);
	echo_clock(skb);
	if (!cpu || packet_parse_skb(skb, 0, &cpu->pass.packet, &cpu->pass.cursor) != PACKET_MEASURABLE)
		return TC_ACT_SHOT;
	return bpf_map_lookup_elem(&reference_flows, &cpu->pass.packet.key) ? TC_ACT_OK : TC_ACT_UNSPEC;
}

SEC("tc")
int learn(struct __sk_buff *skb)
{
	struct packet_cpu *cpu = packet_this_cpu();

	move_on(skb);
	if (cpu && packet_parse_skb(skb, 0, &cpu->pass.packet, &cpu->pass.cursor) == PACKET_MEASURABLE)
		learn_flow(&cpu->pass);
	return TC_ACT_UNSPEC;
}

/* Flattened: libbpf links no calls from one program to another. */
SEC("tc")
__attribute__((flatten)) int production(struct __sk_buff *skb)
{
	move_on(skb);
	echo_clock(skb);
	return ethernet_ingress(skb);
}
