// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The production programs, and what they are measured against; in one object, so that all meet the same maps and flows. */
#include "../../crates/measure/bpf/dispatch.bpf.c"
#include "reference.bpf.h"
#include "steps.bpf.h"

/*
 * The least that anything which follows flows must do: parse, and look one entry up. Tells whether it was there. What the
 * parser writes to lies on the stack, which spares it the lookup of the production program's place for it.
 */
SEC("tc")
int reference(struct __sk_buff *skb)
{
	struct packet_cursor cursor;
	struct packet packet;

	move_on(skb);
	if (packet_parse_skb(skb, 0, &packet, &cursor) != PACKET_MEASURABLE)
		return TC_ACT_SHOT;
	return bpf_map_lookup_elem(&reference_flows, &packet.key) ? TC_ACT_OK : TC_ACT_UNSPEC;
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
	return ethernet_ingress(skb);
}
