/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Has packets of health checks take the way of clients' packets: a socket with the mark of a server talks to a service, and what it sends leaves with the
 * headers that the XDP program writes. At the way out of the interfaces by which the services' addresses are routed. All else passes untouched.
 */
#ifndef FATHOM_BALANCE_CHECKS_BPF_H
#define FATHOM_BALANCE_CHECKS_BPF_H

#include "encapsulate.h"
#include "servers.bpf.h"

#include <linux/pkt_cls.h>

/* In a section of its own: user space finds it by name. */
const volatile struct balance_checks_config balance_checks_config SEC(".rodata.checks_config") = {};

struct balance_check_counts {
	__u64 counters[BALANCE_CHECK_COUNTER_COUNT];
};

/* What happened to packets of checks, by name; one entry, written by each of them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct balance_check_counts);
} balance_checks SEC(".maps");

/* At most. IP begins at a word: the verifier allows no other access to the stack. */
struct balance_check_headers {
	__u16 padding;
	struct ethernet_header ethernet;
	__u8 outer[sizeof(struct ipv6_header) + sizeof(struct balance_gue)];
} __attribute__((aligned(8)));

/* What cannot go its way is dropped: it would check another machine. */
static __always_inline int balance_drop_check(struct balance_check_counts *counts, enum balance_check_counter reason)
{
	counts->counters[reason]++;
	return TC_ACT_SHOT;
}

/* Makes room between the frame's header and IP, so that offloads of checksums and segments stay right for the inner packet. */
static __always_inline int balance_make_room_for_outer(struct __sk_buff *skb, const struct balance_server *server,
						       __u32 overhead)
{
	__u64 flags = balance_is_ipv4(&server->destination) ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4
							    : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;

	if (server->encapsulation == BALANCE_BY_GUE)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	return !bpf_skb_adjust_room(skb, overhead, BPF_ADJ_ROOM_MAC, flags);
}

/*
 * Puts the new headers in place of the frame's. They are made beside the packet: a program that writes into packets has the kernel copy each that TCP may
 * have to send again before the program begins, whatever its mark. The tag is left to the kernel, which has it beside the packet.
 */
static __always_inline int balance_write_check(struct __sk_buff *skb, const struct balance_packet *packet,
					       const struct balance_server *server, __u32 overhead)
{
	int is_ipv6 = overhead ? !balance_is_ipv4(&server->destination) : packet->flags & BALANCE_PACKET_IS_IPV6;
	__u16 type = is_ipv6 ? __builtin_bswap16(ETHER_TYPE_IPV6) : __builtin_bswap16(ETHER_TYPE_IPV4);
	struct balance_check_headers headers = {};

	if (overhead > sizeof(headers.outer) || (overhead && !balance_make_room_for_outer(skb, server, overhead)))
		return 0;
	balance_write_ethernet(&headers.ethernet, server, type);
	if (overhead)
		balance_write_outer(headers.outer, server, packet);
	if (bpf_skb_store_bytes(skb, 0, &headers.ethernet, sizeof(headers.ethernet) + overhead, 0))
		return 0;
	return !server->vlan || !bpf_skb_vlan_push(skb, __builtin_bswap16(ETHER_TYPE_VLAN), server->vlan);
}

/* Not inline: what is not marked does not pay for its stack. */
static __noinline int balance_send_check(struct __sk_buff *skb)
{
	struct packet_bytes bytes = {
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.length = skb->len,
	};
	__u32 id = skb->mark & (BALANCE_SERVERS_MAX - 1), zero = 0, overhead, interface;
	struct balance_check_counts *counts = bpf_map_lookup_elem(&balance_checks, &zero);
	struct balance_server *server = bpf_map_lookup_elem(&balance_servers, &id);
	struct balance_packet packet = {};

	if (!counts)
		return TC_ACT_SHOT;
	if (!server || server->encapsulation == BALANCE_BY_NONE || server->flags & BALANCE_IS_GONE)
		return balance_drop_check(counts, BALANCE_CHECK_NO_SERVER);
	if (balance_read(&bytes, &packet) != BALANCE_COUNT_FORWARDED || packet.protocol != IP_PROTOCOL_TCP)
		return balance_drop_check(counts, BALANCE_CHECK_UNREADABLE);
	packet.hash = balance_hash(&packet, balance_checks_config.seed);
	overhead = balance_overhead(server);
	/* Of a train of segments, the kernel makes each as much shorter as there is put in front. */
	if (!skb->gso_size && packet.length + overhead > server->mtu)
		return balance_drop_check(counts, BALANCE_CHECK_TOO_LONG);
	if (!balance_write_check(skb, &packet, server, overhead))
		return balance_drop_check(counts, BALANCE_CHECK_NO_ROOM);
	counts->counters[BALANCE_CHECK_SENT]++;
	skb->mark = 0; /* done: not once more, where it is redirected to */
	interface = server->interface ? server->interface : balance_checks_config.interface;
	return interface && interface != skb->ifindex ? bpf_redirect(interface, 0) : TC_ACT_UNSPEC;
}

static __always_inline int balance_check_path(struct __sk_buff *skb)
{
	if ((skb->mark & ~(BALANCE_SERVERS_MAX - 1)) != balance_checks_config.mark)
		return TC_ACT_UNSPEC;
	return balance_send_check(skb);
}

#endif
