/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a hook's context to the measurement of round trips. */
#ifndef FATHOM_PACKET_PATH_BPF_H
#define FATHOM_PACKET_PATH_BPF_H

#include "../src/rtt/rtt.bpf.h"
#include "packet_rounds.bpf.h"

static __always_inline int packet_has_tunnels(void)
{
	return rtt_config.has_tunnels;
}

static __always_inline struct rtt_cpu *packet_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rtt_cpus, &zero);
}

static __always_inline void packet_measure(struct rtt_cpu *cpu, __u32 verdict, enum rtt_hook hook, int is_turned)
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

static __always_inline void packet_path_skb(struct __sk_buff *skb, __u16 ether_type, enum rtt_hook hook)
{
	struct rtt_cpu *cpu = packet_cpu();

	if (cpu)
		packet_measure(cpu, packet_parse_whole_skb(skb, ether_type, &cpu->packet, &cpu->cursor), hook,
			       hook == RTT_HOOK_EGRESS && packet_is_turned(skb));
}

static __always_inline void packet_path_xdp(struct xdp_md *xdp)
{
	struct rtt_cpu *cpu = packet_cpu();

	if (cpu)
		packet_measure(cpu, packet_parse_xdp(xdp, &cpu->packet, &cpu->cursor), RTT_HOOK_XDP, 0);
}

#endif
