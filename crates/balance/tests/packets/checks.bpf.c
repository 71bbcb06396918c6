// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program where checks leave, unchanged, and an empty one. Of a test run only the bytes come back: the tag beside them is kept here. */
#include "../../src/bpf/checks.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Control field; in a section of its own, so that user space finds it by name. */
__u64 test_tag SEC(".data.test_tag") = 1;

SEC("tc")
int check_egress(struct __sk_buff *skb)
{
	return balance_check_path(skb);
}

SEC("tc")
int check_tagged(struct __sk_buff *skb)
{
	int verdict = balance_check_path(skb);

	test_tag = skb->vlan_present ? skb->vlan_tci : 0;
	return verdict;
}

SEC("tc")
int empty(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}
