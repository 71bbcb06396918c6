/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The user's own functions, where there are some: linked in before the load, they take the place of those here. */
#ifndef FATHOM_HOPS_PROGRAM_BPF_H
#define FATHOM_HOPS_PROGRAM_BPF_H

#include "program.h"
#include "state.bpf.h"

__weak int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	return 0;
}

__weak __u64 fathom_extract(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	return 0;
}

static __always_inline __u32 hops_ip_bytes(int is_ipv6)
{
	return is_ipv6 ? sizeof(struct ipv6_header) : sizeof(struct ipv4_header);
}

/*
 * Has the user's function edit the probe in `skb`, and looks at what became of it: what its answer is known by must be
 * there, and the TTL, or it is not sent. Returns whether it may be.
 */
__noinline int hops_run_edit(struct __sk_buff *skb)
{
	struct hops_cpu *cpu = hops_cpu();
	struct fathom_probe probe = {};
	__u32 length;

	if (!cpu)
		return 0;
	probe.number = cpu->number;
	probe.network = cpu->network_bytes;
	probe.transport = cpu->network_bytes + hops_ip_bytes(cpu->header.is_ipv6);
	probe.ttl = cpu->ttl;
	probe.is_ipv6 = cpu->header.is_ipv6;
	probe.protocol = cpu->header.protocol;
	if (fathom_edit(skb, &probe)) {
		cpu->counters[HOPS_COUNT_PROBES_DROPPED]++;
		return 0;
	}
	length = cpu->length;
	if (length < HOPS_BYTES_MIN || length > HOPS_BYTES_MAX ||
	    bpf_skb_load_bytes(skb, cpu->network_bytes, cpu->edited, length) ||
	    !hops_is_same_probe(cpu->bytes, cpu->edited, cpu->header.is_ipv6)) {
		cpu->counters[HOPS_COUNT_PROBES_UNKNOWABLE]++;
		return 0;
	}
	cpu->service = hops_service(cpu->edited);
	return 1;
}

/* Whether the probe in `skb` may be sent, edited if it is to be. Without a function of the user's the verifier removes the call. */
static __always_inline int hops_may_go(struct __sk_buff *skb, const struct hops_cpu *cpu)
{
	return !hops_config.has_edit || !cpu->is_edited || hops_run_edit(skb);
}

/* What the user's function finds in an answer, whose headers are in `cpu`. */
static __always_inline __u64 hops_run_extract(struct __sk_buff *skb, const struct hops_cpu *cpu,
					      const struct hops_probe *sent, const struct hops_flow *flow)
{
	struct fathom_probe probe = {};

	probe.sent = sent->sent;
	probe.number = sent->number;
	probe.network = cpu->network_bytes;
	probe.transport = cpu->network_bytes + hops_ip_bytes(cpu->header.is_ipv6);
	probe.ttl = sent->ttl;
	probe.is_ipv6 = cpu->header.is_ipv6;
	probe.protocol = flow->header.protocol;
	return fathom_extract(skb, &probe);
}

#endif
