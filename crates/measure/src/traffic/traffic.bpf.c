// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs that are attached: one for each hook, and for devices with and without an Ethernet
 * header.
 */
#include <linux/pkt_cls.h>

#include "traffic.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc")
int ethernet_ingress(struct __sk_buff *skb)
{
	traffic_path_skb(skb, 0, 1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ethernet_egress(struct __sk_buff *skb)
{
	traffic_path_skb(skb, 0, 0);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ip_ingress(struct __sk_buff *skb)
{
	traffic_path_skb(skb, wire16(skb->protocol), 1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ip_egress(struct __sk_buff *skb)
{
	traffic_path_skb(skb, wire16(skb->protocol), 0);
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int xdp_ingress(struct xdp_md *xdp)
{
	traffic_path_xdp(xdp);
	return XDP_PASS;
}
