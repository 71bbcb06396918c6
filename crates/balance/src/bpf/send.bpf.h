/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet on its way to a server, or back to the client that must be told something. */
#ifndef FATHOM_BALANCE_SEND_BPF_H
#define FATHOM_BALANCE_SEND_BPF_H

#include "icmp.h"
#include "maps.bpf.h"

/* A packet that is dropped, or passed on to the host's stack, for this reason. */
static __always_inline int balance_leave(struct balance_cpu *cpu, enum balance_counter reason, int action)
{
	cpu->counters[reason]++;
	return action;
}

/* Moves the Ethernet header and its tags by `by` bytes to the front, turned round. Returns where IP begins; 0: there is no room. */
static __always_inline __u8 *balance_turn_frame(struct xdp_md *xdp, __u32 network, __u32 by)
{
	__u16 *to, *from;
	__u32 i;

	if (bpf_xdp_adjust_head(xdp, -(int)by))
		return 0;
	to = (void *)(long)xdp->data;
	from = (void *)(long)xdp->data + by;
	if ((void *)from + sizeof(struct ethernet_header) + BALANCE_TAGS_MAX * sizeof(struct vlan_header) >
	    (void *)(long)xdp->data_end)
		return 0;
		/* At most 22 bytes, by two; what is beyond the header is written over after that. */
#pragma unroll
	for (i = 0; i < (sizeof(struct ethernet_header) + BALANCE_TAGS_MAX * sizeof(struct vlan_header)) / 2; i++)
		to[i] = from[i];
	balance_swap_ethernet((void *)to);
	return (__u8 *)to + network;
}

/*
 * Cuts a packet down to what is quoted, and puts the headers of an error in front of it.
 */
static __always_inline int balance_write_error(struct xdp_md *xdp, const struct balance_packet *packet, __u32 mtu)
{
	int is_ipv6 = packet->flags & BALANCE_PACKET_IS_IPV6;
	__u32 ip_bytes = is_ipv6 ? sizeof(struct ipv6_header) : sizeof(struct ipv4_header);
	__u32 frame = (long)xdp->data_end - (long)xdp->data, network = packet->network;
	struct icmp_error *icmp;
	__u64 sum;
	__u8 *ip;

	if (frame < network + BALANCE_QUOTE || network > PACKET_HEADERS_MAX ||
	    bpf_xdp_adjust_tail(xdp, (int)(network + BALANCE_QUOTE) - (int)frame))
		return 0;
	ip = balance_turn_frame(xdp, network, ip_bytes + sizeof(*icmp));
	if (!ip || ip + ip_bytes + sizeof(*icmp) + BALANCE_QUOTE > (__u8 *)(long)xdp->data_end)
		return 0;
	icmp = (void *)(ip + ip_bytes);
	if (is_ipv6)
		balance_write_error_ipv6((void *)ip, icmp, packet, mtu);
	else
		balance_write_error_ipv4((void *)ip, icmp, packet, mtu);
	sum = is_ipv6 ? balance_pseudo_sum(packet, sizeof(*icmp) + BALANCE_QUOTE) : 0;
	sum += bpf_csum_diff(0, 0, (void *)icmp, sizeof(*icmp) + BALANCE_QUOTE, 0);
	icmp->checksum = ~balance_fold(sum);
	return 1;
}

/* The path to the server does not take this packet. Only some clients listen: those that would not fragment it themselves. */
__noinline int balance_tell_too_long(struct xdp_md *xdp, struct balance_packet *packet, struct balance_cpu *cpu,
				     __u32 mtu)
{
	if (!packet || !cpu)
		return XDP_DROP;
	if (!(packet->flags & BALANCE_PACKET_IS_WHOLE) || packet->flags & BALANCE_PACKET_IS_LATER ||
	    packet->protocol == IP_PROTOCOL_ICMP || packet->protocol == IP_PROTOCOL_ICMPV6 ||
	    (packet->flags & BALANCE_PACKET_IS_IPV6 && packet->length <= BALANCE_IPV6_MTU))
		return balance_leave(cpu, BALANCE_COUNT_TOO_LONG_DROPPED, XDP_DROP);
	if (packet->flags & BALANCE_PACKET_IS_IPV6 && mtu < BALANCE_IPV6_MTU)
		mtu = BALANCE_IPV6_MTU;
	if (!balance_write_error(xdp, packet, mtu))
		return balance_leave(cpu, BALANCE_COUNT_NO_ROOM, XDP_DROP);
	return balance_leave(cpu, BALANCE_COUNT_TOO_LONG, XDP_TX);
}

static __always_inline void balance_count_traffic(struct balance_traffic *traffic, const struct balance_packet *packet)
{
	traffic->packets++;
	traffic->bytes += packet->length;
}

/* Puts the new headers in place of the frame's. */
static __always_inline int balance_write_headers(struct xdp_md *xdp, const struct balance_packet *packet,
						 const struct balance_server *server, __u32 overhead)
{
	__u32 frame = sizeof(struct ethernet_header) + (server->vlan ? sizeof(struct vlan_header) : 0);
	int longer = (int)(frame + overhead) - (int)packet->network;
	int is_ipv6 = overhead ? !balance_is_ipv4(&server->destination) : packet->flags & BALANCE_PACKET_IS_IPV6;
	__u16 type = is_ipv6 ? __builtin_bswap16(ETHER_TYPE_IPV6) : __builtin_bswap16(ETHER_TYPE_IPV4);
	__u8 *at, *end;

	if (longer && bpf_xdp_adjust_head(xdp, -longer))
		return 0;
	at = (void *)(long)xdp->data;
	end = (void *)(long)xdp->data_end;
	if (at + sizeof(struct ethernet_header) + sizeof(struct vlan_header) > end)
		return 0;
	balance_write_ethernet((void *)at, server, server->vlan ? __builtin_bswap16(ETHER_TYPE_VLAN) : type);
	at += sizeof(struct ethernet_header);
	if (server->vlan) {
		struct vlan_header *vlan = (void *)at;

		vlan->control = __builtin_bswap16(server->vlan);
		vlan->type = type;
		at += sizeof(*vlan);
	}
	if (!overhead)
		return 1;
	if (at + sizeof(struct ipv6_header) + sizeof(struct balance_gue) > end)
		return 0;
	balance_write_outer(at, server, packet);
	return 1;
}

/* Where a packet goes whose server is known. */
static __always_inline int balance_send(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet,
					const struct balance_server *server)
{
	__u32 overhead = balance_overhead(server), id = packet->server;
	struct balance_traffic *traffic;

	if (packet->length + overhead > server->mtu)
		return balance_tell_too_long(xdp, packet, cpu, server->mtu - overhead);
	if (!balance_write_headers(xdp, packet, server, overhead))
		return balance_leave(cpu, BALANCE_COUNT_NO_ROOM, XDP_DROP);
	traffic = bpf_map_lookup_elem(&balance_server_traffic, &id);
	if (traffic)
		balance_count_traffic(traffic, packet);
	cpu->counters[BALANCE_COUNT_FORWARDED]++;
	return server->interface ? bpf_redirect(server->interface, 0) : XDP_TX;
}

#endif
