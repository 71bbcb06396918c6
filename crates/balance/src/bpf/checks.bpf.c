// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program that is attached where health checks leave. An object of its own: where it cannot be loaded, the balancer still forwards. */
#include "checks.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc")
int check_egress(struct __sk_buff *skb)
{
	return balance_check_path(skb);
}
