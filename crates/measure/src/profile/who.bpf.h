/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose a connection is, between whom, and whether it is to be profiled. */
#ifndef FATHOM_PROFILE_WHO_BPF_H
#define FATHOM_PROFILE_WHO_BPF_H

#include "kept.bpf.h"

static __always_inline int profile_is_selected_cgroup(struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct cgroup *ancestor = 0, **ancestors;

	if (!profile_config.cgroup)
		return 1;
	if (!cgroup || cgroup->level < (int)profile_config.cgroup_level)
		return 0;
	/* CO-RE finds the array, but no element of it whose number is a variable. */
	ancestors = (void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors);
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), ancestors + (profile_config.cgroup_level & 15));
	return BPF_CORE_READ(ancestor, kn, id) == profile_config.cgroup;
}

static __always_inline struct flow_address profile_address(const struct in6_addr *address)
{
	return (struct flow_address){ .words = {
					      (__u64)address->in6_u.u6_addr32[1] << 32 | address->in6_u.u6_addr32[0],
					      (__u64)address->in6_u.u6_addr32[3] << 32 | address->in6_u.u6_addr32[2],
				      } };
}

static __always_inline struct flow_address profile_local(struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET6 ? profile_address(&sk->__sk_common.skc_v6_rcv_saddr)
						      : flow_address_v4(sk->__sk_common.skc_rcv_saddr);
}

static __always_inline struct flow_address profile_remote(struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET6 ? profile_address(&sk->__sk_common.skc_v6_daddr)
						      : flow_address_v4(sk->__sk_common.skc_daddr);
}

/* A socket that closes has given its port back, but for this trace of it. */
static __always_inline __u16 profile_local_port(struct sock *sk)
{
	return sk->__sk_common.skc_num ?: bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
}

/* A name of 16 bytes, by two loads: a helper call would take ten times as long. */
#define PROFILE_COPY_NAME(target, source)                                                                              \
	do {                                                                                                           \
		((__u64 *)(target))[0] = ((const __u64 *)(source))[0];                                                 \
		((__u64 *)(target))[1] = ((const __u64 *)(source))[1];                                                 \
	} while (0)

/* The name of the process that runs is that of its first thread, as other tools show it. None: a thread of the kernel, such as opens subflows. */
static __always_inline void profile_copy_process(char *name, struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		__builtin_memset(name, 0, PROFILE_NAME_BYTES);
	else
		PROFILE_COPY_NAME(name, task->group_leader->comm);
}

static __always_inline void profile_describe_process(struct profile_moment_of *of)
{
	struct task_struct *task = bpf_get_current_task_btf();

	of->process_id = task->tgid;
	profile_copy_process(of->process, task);
}

/* What the process that runs does with a connection waits in its slot for the next moment that is told. */
static __always_inline void profile_keep(struct profile_slot *slot, __u8 moment, __u64 time)
{
	struct task_struct *task = bpf_get_current_task_btf();

	slot->process_id = task->tgid;
	profile_copy_process(slot->process, task);
	slot->moment = moment;
	/* Last: it says that there is something. */
	__sync_lock_test_and_set(&slot->since, time);
}

/*
 * Whose moment it is; not whether it is wanted. `connection` is the socket's cookie, which programs on control groups must
 * ask for in another way than others.
 */
static __always_inline void profile_describe_ends(struct profile_moment_of *of, struct sock *sk, __u64 connection,
						  __u8 moment)
{
	of->connection = connection;
	of->moment = moment;
	of->is_ipv6 = sk->__sk_common.skc_family == AF_INET6;
	of->old_state = of->new_state = sk->__sk_common.skc_state;
	of->error = sk->sk_err;
	of->local = profile_local(sk);
	of->remote = profile_remote(sk);
	of->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
}

/* The same with time and process. */
static __always_inline void profile_describe(struct profile_moment_of *of, struct sock *sk, __u64 connection,
					     __u8 moment)
{
	of->time = bpf_ktime_get_ns();
	profile_describe_ends(of, sk, connection, moment);
	of->local_port = profile_local_port(sk);
	profile_describe_process(of);
}

/* The socket's cookie; a helper makes it when nobody has asked for it before. */
static __always_inline __u64 profile_cookie(struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter ?: bpf_get_socket_cookie(sk);
}

static __always_inline int profile_has_selection(void)
{
	return selection.network_count | selection.excluded_count | selection.port_count;
}

/* Is a connection to `remote` to be profiled? */
static __always_inline int profile_is_selected_to(struct sock *sk, const struct flow_address *remote, __u16 remote_port)
{
	struct flow_key key = {};

	if (!profile_is_selected_cgroup(sk))
		return 0;
	if (!profile_has_selection())
		return 1;
	key.low = profile_local(sk);
	key.high = *remote;
	key.low_port = profile_local_port(sk);
	key.high_port = remote_port;
	key.protocol = IPPROTO_TCP;
	return selection_admits(&selection, &key);
}

static __always_inline int profile_is_selected(struct sock *sk)
{
	struct flow_address remote = profile_remote(sk);

	return profile_is_selected_to(sk, &remote, bpf_ntohs(sk->__sk_common.skc_dport));
}

#endif
