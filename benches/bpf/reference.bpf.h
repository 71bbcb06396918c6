/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FATHOM_BENCHES_REFERENCE_BPF_H
#define FATHOM_BENCHES_REFERENCE_BPF_H

/* What the kernel has for flows; a lookup in it is what any measurement of flows is held against. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 98304);
	__type(key, struct flow_key);
	__type(value, __u64);
} reference_flows SEC(".maps");

/* Puts those flows there that the production program has in its table. */
static __always_inline int learn_flow(struct packet_pass *pass)
{
	__u64 value = 0;

	return flow_table_find(&pass->packet.key, &pass->slot) &&
	       bpf_map_update_elem(&reference_flows, &pass->packet.key, &value, BPF_NOEXIST);
}

#endif
