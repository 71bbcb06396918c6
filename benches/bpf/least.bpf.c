// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The least where the programs of `fathom profile` hang: empty ones, but for a record of the size of its own, with the time and
 * nothing else, when a connection is established and when it is closed.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../crates/measure/src/profile/profile.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
/* Without what most connections do not have. */
#define RECORD_BYTES __builtin_offsetof(struct profile_snapshot, disorder)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} least_records SEC(".maps");

SEC("tp_btf/inet_sock_set_state")
int least_state(__u64 *context)
{
	int old_state = context[1], new_state = context[2];
	struct profile_snapshot *record;

	if (new_state != TCP_ESTABLISHED && (new_state != TCP_CLOSE || old_state == TCP_CLOSE))
		return 0;
	record = bpf_ringbuf_reserve(&least_records, RECORD_BYTES, 0);
	if (!record)
		return 0;
	record->of.time = bpf_ktime_get_ns();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
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
