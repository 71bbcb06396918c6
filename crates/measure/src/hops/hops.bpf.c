// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs: on devices with and without an Ethernet header, for silent flows, and for sockets of processes. */
#include "arriving.bpf.h"
#include "leaving.bpf.h"
#include "owner.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc")
int ethernet_egress(struct __sk_buff *skb)
{
	return hops_on_egress(skb, ETHERNET_BYTES);
}

SEC("tc")
int ethernet_ingress(struct __sk_buff *skb)
{
	return hops_on_ingress(skb, ETHERNET_BYTES);
}

SEC("tc")
int ip_egress(struct __sk_buff *skb)
{
	return hops_on_egress(skb, 0);
}

SEC("tc")
int ip_ingress(struct __sk_buff *skb)
{
	return hops_on_ingress(skb, 0);
}

SEC("tc")
int silent_flow(struct __sk_buff *skb)
{
	return hops_on_idle(skb);
}

SEC("cgroup/sock_create")
int socket_made(struct bpf_sock *sk)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (hops_is_owner(task))
		bpf_sk_storage_get(&hops_owned, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	return 1;
}

SEC("iter/task_file")
int open_socket(struct bpf_iter__task_file *context)
{
	struct task_struct *task = context->task;
	struct file *file = context->file;
	struct socket *socket;

	if (!task || !file || !hops_is_owner(task))
		return 0;
	socket = bpf_sock_from_file(file);
	if (socket && socket->sk)
		bpf_sk_storage_get(&hops_owned, socket->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	return 0;
}
