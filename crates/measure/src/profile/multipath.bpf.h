/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MPTCP connections. The kernel has a socket for the whole connection ("meta"), which carries no packets, and a TCP socket for
 * each subflow. Nearly everything that happens to the meta connection is told by a change of state of a subflow: that has the
 * addresses before the meta socket has, and its selection and types are those of any TCP socket.
 */
#ifndef FATHOM_PROFILE_MULTIPATH_BPF_H
#define FATHOM_PROFILE_MULTIPATH_BPF_H

#include "profile.bpf.h"

#define MULTIPATH_SUBFLOWS 16 /* that are counted; the path manager takes 9 */
#define MULTIPATH_LOOK_NS 10000000
#define MULTIPATH_MONOTONIC 1 /* CLOCK_MONOTONIC */

/* Retransmission timeouts of a meta connection, which the kernel does not count. */
struct multipath_stalls {
	struct bpf_timer timer; /* looks for the recovery */
	__u64 since; /* ns, the first timeout in a row; 0: none */
	__u64 until; /* the data that was sent before it */
	__u64 connection; /* the cookie */
	__u32 count;
	__u32 is_selected;
};

/* Of meta connections that had a timeout, by the address of their socket; gone when they close. Full: counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct multipath_stalls);
} multipath_all_stalls SEC(".maps");

/* The connection that a TCP socket is a subflow of. The verifier knows no type for it, so its fields are read by a helper. */
static __always_inline struct mptcp_sock *multipath_meta_of(struct tcp_sock *tcp)
{
	struct mptcp_subflow_context *subflow;

	if (!tcp || !bpf_core_field_exists(tcp->is_mptcp) || !BPF_CORE_READ(tcp, is_mptcp))
		return 0;
	subflow = BPF_CORE_READ(tcp, inet_conn.icsk_ulp_data);
	return subflow ? (void *)BPF_CORE_READ(subflow, conn) : 0;
}

/*
 * The cookie of its socket. It has one if it was opened since the measurement began, as multipath_on_state sees to; the helper that makes
 * one takes no such pointer.
 */
static __always_inline __u64 multipath_cookie(struct mptcp_sock *meta)
{
	return BPF_CORE_READ(meta, sk.icsk_inet.sk.__sk_common.skc_cookie.counter);
}

/* Of a TCP socket that accept() found: of an MPTCP connection it is the first subflow, and the application gets the meta socket. */
static __always_inline __u64 multipath_cookie_of_accepted(struct sock *sk)
{
	struct mptcp_sock *meta = multipath_meta_of((struct tcp_sock *)sk);

	return meta ? multipath_cookie(meta) : BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

/* Is a subflow in this state established, and not closed? */
static __always_inline int multipath_carries(__u8 state)
{
	return state != TCP_SYN_SENT && state != TCP_SYN_RECV && state != TCP_CLOSE;
}

/* Subflows that carry the connection, without `sk`, whose state is about to change. Their list may change meanwhile. */
static __always_inline __u32 multipath_count_subflows(struct mptcp_sock *meta, struct sock *sk)
{
	struct list_head *head = &meta->conn_list;
	struct list_head *node = BPF_CORE_READ(meta, conn_list.next);
	__u32 count = 0, i;

	for (i = 0; i < MULTIPATH_SUBFLOWS && node && node != head; i++) {
		struct mptcp_subflow_context *subflow = (void *)node -
							bpf_core_field_offset(struct mptcp_subflow_context, node);
		struct sock *other = BPF_CORE_READ(subflow, tcp_sock);

		count += other != sk && multipath_carries(BPF_CORE_READ(other, __sk_common.skc_state));
		node = BPF_CORE_READ(node, next);
	}
	return count;
}

/* The number that subflows are known by: since 6.5 one that no other had before, till then that of their local address. */
static __always_inline __u8 multipath_path(struct sock *sk)
{
	struct mptcp_subflow_context *subflow = BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_ulp_data);

	if (bpf_core_field_exists(subflow->subflow_id))
		return BPF_CORE_READ(subflow, subflow_id);
	return BPF_CORE_READ(subflow, local_id);
}

static __always_inline struct flow_address multipath_address(struct sock *sk, int is_remote)
{
	struct flow_address address;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) != AF_INET6)
		return flow_address_v4(is_remote ? BPF_CORE_READ(sk, __sk_common.skc_daddr)
						 : BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
	if (is_remote)
		bpf_core_read(&address, sizeof(address), &sk->__sk_common.skc_v6_daddr);
	else
		bpf_core_read(&address, sizeof(address), &sk->__sk_common.skc_v6_rcv_saddr);
	return address;
}

/* The ends are those of `sk`: the meta socket, or its first subflow before that has them. */
static __always_inline void multipath_describe(struct profile_moment_of *of, struct sock *sk, __u64 connection,
					       __u8 moment, __u8 old_state, __u8 new_state)
{
	__builtin_memset(of, 0, sizeof(*of));
	of->time = bpf_ktime_get_ns();
	of->connection = connection;
	of->moment = moment;
	of->is_ipv6 = BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6;
	of->old_state = old_state;
	of->new_state = new_state;
	of->error = BPF_CORE_READ(sk, sk_err);
	of->local = multipath_address(sk, 0);
	of->remote = multipath_address(sk, 1);
	of->local_port = BPF_CORE_READ(sk, __sk_common.skc_num)
				 ?: bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	of->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
}

static __always_inline void multipath_fill(struct profile_meta *told, struct mptcp_sock *meta, __u32 stalls)
{
	struct sock *sk = (struct sock *)meta;

	told->meta = (__u64)meta;
	told->bytes_sent = told->bytes_acknowledged = told->bytes_received = told->bytes_reinjected = 0;
	/* Since 6.5 an MPTCP socket counts its bytes. */
	if (bpf_core_field_exists(meta->bytes_retrans)) {
		told->bytes_sent = BPF_CORE_READ(meta, bytes_sent);
		told->bytes_acknowledged = BPF_CORE_READ(meta, bytes_acked);
		told->bytes_received = BPF_CORE_READ(meta, bytes_received);
		told->bytes_reinjected = BPF_CORE_READ(meta, bytes_retrans);
	}
	told->token = BPF_CORE_READ(meta, token);
	told->stalls = stalls;
	told->receive_buffer = BPF_CORE_READ(sk, sk_rcvbuf);
	told->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	told->net_namespace = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	told->subflow = 0;
	told->path = 0;
	told->padding = 0;
}

/* What is not selected by network or port can belong to a connection another subflow of which is: user space knows. */
static __always_inline struct profile_meta *multipath_begin(int is_selected)
{
	struct profile_meta *told;

	if (!is_selected && !profile_has_selection())
		return 0;
	told = bpf_ringbuf_reserve(&profile_moments, sizeof(*told), 0);
	if (!told)
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
	else
		told->is_selected = is_selected;
	return told;
}

static __always_inline struct multipath_stalls *multipath_stalls_of(struct mptcp_sock *meta)
{
	__u64 key = (__u64)meta;

	return bpf_map_lookup_elem(&multipath_all_stalls, &key);
}

/* Of the connection `meta`, at a moment of its subflow `sk`. */
static __always_inline void multipath_tell(struct mptcp_sock *meta, struct sock *sk, __u8 moment, __u8 old_state,
					   __u8 new_state)
{
	int is_beginning = moment == PROFILE_META_CONNECT || moment == PROFILE_META_ESTABLISHED;
	__u64 subflow = bpf_get_socket_cookie(sk), connection = multipath_cookie(meta);
	struct multipath_stalls *stalls = multipath_stalls_of(meta);
	struct profile_meta *told = multipath_begin(profile_is_selected(sk));

	if (!told)
		return;
	multipath_describe(&told->of, is_beginning ? sk : (struct sock *)meta, connection ?: subflow, moment, old_state,
			   new_state);
	if (moment == PROFILE_META_CONNECT)
		profile_describe_process(&told->of);
	multipath_fill(told, meta, stalls ? stalls->count : 0);
	told->subflow = subflow;
	told->path = multipath_path(sk);
	told->subflow_count = multipath_count_subflows(meta, sk) + multipath_carries(new_state);
	profile_submit(told);
}

/* A subflow goes while others, or the connection without any, stay: not because the connection is being closed. */
static __always_inline int multipath_is_removal(struct mptcp_sock *meta, struct sock *sk, int old_state)
{
	__u8 state = BPF_CORE_READ(meta, sk.icsk_inet.sk.__sk_common.skc_state);

	if (!multipath_carries(old_state) || state == TCP_CLOSE || BPF_CORE_READ(meta, rcv_fastclose))
		return 0;
	return state == TCP_ESTABLISHED || multipath_count_subflows(meta, sk);
}

/* The state of a TCP socket changes. */
static __always_inline void multipath_on_subflow_state(struct sock *sk, int old_state, int new_state)
{
	struct mptcp_sock *meta;
	int is_first;

	if (old_state == TCP_LISTEN ||
	    (new_state != TCP_SYN_SENT && new_state != TCP_ESTABLISHED && new_state != TCP_CLOSE))
		return;
	meta = multipath_meta_of(bpf_skc_to_tcp_sock(sk));
	if (!meta)
		return;
	is_first = BPF_CORE_READ(meta, first) == sk;
	if (new_state == TCP_CLOSE && multipath_is_removal(meta, sk, old_state))
		multipath_tell(meta, sk, PROFILE_META_REMOVED, old_state, new_state);
	else if (new_state == TCP_ESTABLISHED)
		multipath_tell(meta, sk, is_first ? PROFILE_META_ESTABLISHED : PROFILE_META_ADDED, old_state,
			       new_state);
	else if (new_state == TCP_SYN_SENT && is_first)
		multipath_tell(meta, sk, PROFILE_META_CONNECT, old_state, new_state);
}

/* A look at a subflow shows the connection too; user space sees to it that it counts once. */
static __always_inline void multipath_on_look(struct tcp_sock *tcp, __u8 state)
{
	struct mptcp_sock *meta = multipath_meta_of(tcp);

	if (meta)
		multipath_tell(meta, (struct sock *)tcp, PROFILE_META_SEEN, state, state);
}

/* Of a meta connection, without a subflow that has to do with it. */
static __always_inline void multipath_tell_alone(struct mptcp_sock *meta, __u64 connection, int is_selected,
						 __u32 stalls, __u8 moment, __u8 old_state, __u8 new_state)
{
	struct profile_meta *told = multipath_begin(is_selected);

	if (!told)
		return;
	multipath_describe(&told->of, (struct sock *)meta, connection, moment, old_state, new_state);
	multipath_fill(told, meta, stalls);
	told->subflow_count = multipath_count_subflows(meta, 0);
	profile_submit(told);
}

/* The state of a meta socket changes. */
static __always_inline void multipath_on_state(struct sock *sk, int old_state, int new_state)
{
	struct mptcp_sock *meta = (struct mptcp_sock *)sk;
	__u64 connection = bpf_get_socket_cookie(sk), key = (__u64)sk;
	struct multipath_stalls *stalls;

	if (!bpf_core_type_exists(struct mptcp_sock) || new_state != TCP_CLOSE || old_state == TCP_CLOSE ||
	    old_state == TCP_LISTEN)
		return;
	stalls = multipath_stalls_of(meta);
	multipath_tell_alone(meta, connection, profile_is_selected(sk), stalls ? stalls->count : 0, PROFILE_META_CLOSED,
			     old_state, new_state);
	bpf_map_delete_elem(&multipath_all_stalls, &key);
}

static __always_inline struct multipath_stalls *multipath_make_stalls(struct mptcp_sock *meta)
{
	static const struct multipath_stalls none = {};
	__u64 key = (__u64)meta;

	if (bpf_map_update_elem(&multipath_all_stalls, &key, &none, BPF_NOEXIST) == -E2BIG)
		profile_count(PROFILE_COUNT_DISORDER_REFUSED);
	return bpf_map_lookup_elem(&multipath_all_stalls, &key);
}

/*
 * While a connection is stalled a timer looks whether all is acknowledged that had been sent before: what else would tell is on the
 * fast path. The recovery is told late by up to 10 ms, or a sixteenth of the stall.
 */
static __always_inline void multipath_look_again(struct multipath_stalls *stalls)
{
	__u64 lasted = bpf_ktime_get_ns() - stalls->since;

	bpf_timer_start(&stalls->timer, lasted / 16 > MULTIPATH_LOOK_NS ? lasted / 16 : MULTIPATH_LOOK_NS, 0);
}

static int multipath_on_timer(void *map, __u64 *key, struct multipath_stalls *stalls)
{
	struct mptcp_sock *meta = (void *)*key;
	__u8 state;

	if ((__s64)(BPF_CORE_READ(meta, snd_una) - stalls->until) < 0) {
		multipath_look_again(stalls);
		return 0;
	}
	stalls->since = 0;
	state = BPF_CORE_READ(meta, sk.icsk_inet.sk.__sk_common.skc_state);
	multipath_tell_alone(meta, stalls->connection, stalls->is_selected, stalls->count, PROFILE_META_RECOVERED,
			     state, state);
	return 0;
}

static __always_inline void multipath_begin_stall(struct mptcp_sock *meta, struct multipath_stalls *stalls, __u64 until,
						  __u8 state)
{
	long failed;

	multipath_tell_alone(meta, stalls->connection, stalls->is_selected, stalls->count, PROFILE_META_LOSSY, state,
			     state);
	stalls->since = bpf_ktime_get_ns();
	stalls->until = until;
	/* Done already if it is not the first: busy then. */
	failed = bpf_timer_init(&stalls->timer, &multipath_all_stalls, MULTIPATH_MONOTONIC);
	if (failed && failed != -EBUSY)
		profile_count(PROFILE_COUNT_DISORDER_REFUSED);
	bpf_timer_set_callback(&stalls->timer, multipath_on_timer);
	multipath_look_again(stalls);
}

/*
 * The connection's retransmission timer has expired: what should have been acknowledged waits behind a subflow that does not
 * deliver. The end of the data, which counts as a byte, does not: the stack sends it again sooner than it can be acknowledged.
 */
static __always_inline void multipath_on_timeout(struct sock *sk)
{
	struct mptcp_sock *meta = (struct mptcp_sock *)sk;
	__u64 acknowledged = BPF_CORE_READ(meta, snd_una), sent = BPF_CORE_READ(meta, snd_nxt);
	struct multipath_stalls *stalls;

	if (sent - acknowledged <= BPF_CORE_READ(meta, snd_data_fin_enable))
		return;
	stalls = multipath_make_stalls(meta);
	if (!stalls)
		return;
	stalls->connection = bpf_get_socket_cookie(sk);
	stalls->is_selected = profile_is_selected(sk);
	if (!stalls->since)
		multipath_begin_stall(meta, stalls, sent, sk->__sk_common.skc_state);
	stalls->count++;
}

#endif
