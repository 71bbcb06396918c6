// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * When packets leave: stamped where the stack calls the driver, on the CPU that carries them, application's packets and
 * probes by the same instructions, whoever made them.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "../../crates/measure/bpf/headers.h"

#define DEPARTURES 65536
#define SAMPLED 100 /* one of so many packets has a probe */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	unsigned char *data;
};

struct net_device;

#pragma clang attribute pop

struct departure {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u32 number; /* of the probe, from 1, or of the packet that it belongs to */
	__u32 is_probe;
};

/* In order of time for each CPU. Full: the last place is overwritten, and `departed` tells. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEPARTURES);
	__type(key, __u32);
	__type(value, struct departure);
} departures SEC(".maps");

__u32 departed SEC(".data.departed") = 0;

/* Whose departures: written before the load. IPv4, in network order. */
const volatile __u32 destination SEC(".rodata.destination") = 0;

struct frame {
	struct ethernet_header ethernet;
	struct ipv4_header ip;
	struct udp_header udp;
	__u32 number; /* of the application's packet, in its own payload, from 0 */
} __attribute__((packed));

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(departure, const struct sk_buff *skb, const struct net_device *device)
{
	struct departure *entry;
	struct frame frame;
	__u32 is_probe, place;

	if (bpf_probe_read_kernel(&frame, sizeof(frame), skb->data))
		return 0;
	if (frame.ethernet.type != wire16(ETHER_TYPE_IPV4) || frame.ip.protocol != IP_PROTOCOL_UDP ||
	    frame.ip.destination != destination)
		return 0;
	is_probe = frame.ip.ttl == 1;
	if (!is_probe && frame.number % SAMPLED)
		return 0;
	place = __sync_fetch_and_add(&departed, 1);
	if (place >= DEPARTURES)
		place = DEPARTURES - 1;
	entry = bpf_map_lookup_elem(&departures, &place);
	if (!entry)
		return 0;
	entry->number = is_probe ? wire16(frame.ip.identification) : frame.number / SAMPLED + 1;
	entry->is_probe = is_probe;
	entry->time = bpf_ktime_get_ns();
	return 0;
}
