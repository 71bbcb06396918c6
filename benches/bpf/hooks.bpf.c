// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Empty programs where those of `fathom profile` hang, for what the hooks alone cost. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/inet_sock_set_state")
int empty_state(void *context)
{
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int empty_congestion(void *context)
{
	return 0;
}

SEC("tp_btf/kfree_skb")
int empty_drop(void *context)
{
	return 0;
}

SEC("cgroup/connect4")
int empty_attempt(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/getpeername4")
int empty_accept(struct bpf_sock_addr *context)
{
	return 1;
}

/* It must ask for the callbacks that are to be counted. */
SEC("sockops")
int empty_operation(struct bpf_sock_ops *context)
{
	if (context->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || context->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
							   BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG);
	return 1;
}
