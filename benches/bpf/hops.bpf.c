// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs of `fathom hops`, as they are attached, and over packets that move on; and an empty one. */
#include "../../crates/measure/src/hops/hops.bpf.c"
#include "steps.bpf.h"

SEC("tc")
int leaving(struct __sk_buff *skb)
{
	move_on(skb);
	return hops_on_egress(skb, ETHERNET_BYTES);
}

SEC("tc")
int arriving(struct __sk_buff *skb)
{
	move_on(skb);
	return hops_on_ingress(skb, ETHERNET_BYTES);
}
