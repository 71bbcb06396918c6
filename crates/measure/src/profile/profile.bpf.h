/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens at each moment, whichever probe tells of it; profile.bpf.c has the probes. */
#ifndef FATHOM_PROFILE_BPF_H
#define FATHOM_PROFILE_BPF_H

#include "socket.bpf.h"

#include "../../bpf/selection.h"
#include "profile.h"

#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define TCP_CA_OPEN 0
#define TCP_CA_LOSS 4
#define TCP_CB_FIN 1
#define TCP_CB_SYN 2
#define PF_KTHREAD 0x200000
#define SOCK_DONE 1 /* enum sock_flags: a FIN was received */
#define PROFILE_CONNECTIONS 65536
#define PROFILE_RING_BYTES (8 << 20)

const volatile struct profile_config profile_config SEC(".rodata.profile_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* Of connections that had duplicates, reordering, wrong checksums or stalls; gone when they close. Full: counted, and that
 * connection's profiles have none of these. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct profile_disorder);
} profile_disorders SEC(".maps");

/* Of connections that had a round trip since they were established; gone when they close. Full: counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PROFILE_CONNECTIONS);
	__type(key, __u64);
	__type(value, struct profile_round_trips);
} profile_all_round_trips SEC(".maps");

/* The moments, for user space. Full: the moment is lost, and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PROFILE_RING_BYTES);
} profile_moments SEC(".maps");

/* What went wrong, by name; written by every probe. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROFILE_COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} profile_counters SEC(".maps");

/* User space comes by now and then; it is woken only when a good part of the ring is full. */
static __always_inline __u64 profile_wake(void)
{
	return bpf_ringbuf_query(&profile_moments, BPF_RB_AVAIL_DATA) > PROFILE_RING_BYTES / 4 ? BPF_RB_FORCE_WAKEUP
											       : BPF_RB_NO_WAKEUP;
}

static __always_inline void profile_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&profile_counters, &counter);

	if (value)
		++*value;
}

static __always_inline struct profile_disorder *profile_disorder_of(__u64 connection)
{
	static const struct profile_disorder empty = {};
	struct profile_disorder *disorder = bpf_map_lookup_elem(&profile_disorders, &connection);

	if (disorder)
		return disorder;
	if (bpf_map_update_elem(&profile_disorders, &connection, &empty, BPF_NOEXIST))
		profile_count(PROFILE_COUNT_DISORDER_REFUSED);
	return bpf_map_lookup_elem(&profile_disorders, &connection);
}

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

/* The process that runs; its name is that of its first thread, as other tools show it. None: a thread of the kernel, such as opens subflows. */
static __always_inline void profile_describe_process(struct profile_moment_of *of)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	of->process_id = bpf_get_current_pid_tgid() >> 32;
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		__builtin_memset(of->process, 0, sizeof(of->process));
	else
		BPF_CORE_READ_STR_INTO(&of->process, task, group_leader, comm);
}

/*
 * Ends, time and names; not whether it is wanted. `connection` is the socket's cookie, which programs on control groups must
 * ask for in another way than others.
 */
static __always_inline void profile_describe(struct profile_moment_of *of, struct sock *sk, __u64 connection,
					     __u8 moment)
{
	of->time = bpf_ktime_get_ns();
	of->connection = connection;
	of->moment = moment;
	of->is_ipv6 = sk->__sk_common.skc_family == AF_INET6;
	of->old_state = of->new_state = sk->__sk_common.skc_state;
	of->error = sk->sk_err;
	of->local = profile_local(sk);
	of->remote = profile_remote(sk);
	of->local_port = profile_local_port(sk);
	of->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	profile_describe_process(of);
}

static __always_inline int profile_has_selection(void)
{
	return selection.network_count | selection.excluded_count | selection.port_count;
}

/* Is a connection to `remote` to be profiled? */
static __always_inline int profile_is_selected_to(struct sock *sk, const struct flow_address *remote, __u16 remote_port)
{
	struct flow_key key = {};

	if (profile_config.has_net_namespace && sk->__sk_common.skc_net.net->ns.inum != profile_config.net_namespace)
		return 0;
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

static __always_inline void profile_read_counters(struct profile_snapshot *snapshot, struct tcp_sock *tcp)
{
	__u32 chrono = BPF_CORE_READ_BITFIELD(tcp, chrono_type);
	__u32 i;

	snapshot->bytes_sent = tcp->bytes_sent;
	snapshot->bytes_acknowledged = tcp->bytes_acked;
	snapshot->bytes_received = tcp->bytes_received;
	snapshot->bytes_retransmitted = tcp->bytes_retrans;
	snapshot->packets_sent = tcp->data_segs_out;
	snapshot->packets_received = tcp->data_segs_in;
	snapshot->packets_delivered = tcp->delivered;
	snapshot->packets_marked = tcp->delivered_ce;
	snapshot->packets_lost = tcp->lost;
	snapshot->packets_retransmitted = tcp->total_retrans;
	snapshot->packets_out_of_order = tcp->rcv_ooopack;
	snapshot->duplicates_reported = tcp->dsack_dups;
	snapshot->reordering_seen = tcp->reord_seen;
	snapshot->round_trip = tcp->srtt_us >> 3;
	snapshot->round_trip_deviation = tcp->mdev_us >> 2;
	snapshot->round_trip_minimum = tcp->rtt_min.s[0].v;
	snapshot->congestion_window = tcp->snd_cwnd;
	snapshot->segment_size = tcp->mss_cache;
	for (i = 0; i < 3; i++) {
		snapshot->limited[i] = tcp->chrono_stat[i];
		if (chrono == i + 1)
			snapshot->limited[i] += (__u32)bpf_jiffies64() - tcp->chrono_start;
	}
}

/* A name of 16 bytes, by two loads: a helper call would take ten times as long. */
#define PROFILE_COPY_NAME(target, source)                                                                              \
	do {                                                                                                           \
		((__u64 *)(target))[0] = ((const __u64 *)(source))[0];                                                 \
		((__u64 *)(target))[1] = ((const __u64 *)(source))[1];                                                 \
	} while (0)

/* Where its packets go: the device, and the router if there is one. */
static __always_inline void profile_read_route(struct profile_snapshot *snapshot, struct sock *sk)
{
	struct dst_entry *route = sk->sk_dst_cache;

	snapshot->interface[0] = 0;
	snapshot->next_hop = (struct flow_address){};
	if (!route)
		return;
	if (route->dev)
		PROFILE_COPY_NAME(snapshot->interface, route->dev->name);
	if (sk->__sk_common.skc_family == AF_INET6) {
		struct rt6_info *info = (void *)route;

		if (BPF_CORE_READ(info, rt6i_flags) & 2 /* RTF_GATEWAY */)
			bpf_core_read(&snapshot->next_hop, sizeof(snapshot->next_hop), &info->rt6i_gateway);
	} else {
		struct rtable *table = (void *)route;
		/* Without a router the destination itself can stand in its place. */
		__u8 family = BPF_CORE_READ(table, rt_uses_gateway) ? BPF_CORE_READ(table, rt_gw_family) : 0;

		if (family == AF_INET)
			snapshot->next_hop = flow_address_v4(BPF_CORE_READ(table, rt_gw4));
		else if (family == AF_INET6)
			bpf_core_read(&snapshot->next_hop, sizeof(snapshot->next_hop), &table->rt_gw6);
	}
}

static __always_inline void profile_read_subflow(struct profile_snapshot *snapshot, struct inet_connection_sock *icsk)
{
	struct mptcp_subflow_context *subflow = icsk->icsk_ulp_data;

	snapshot->token = BPF_CORE_READ(subflow, token);
	if (bpf_core_field_exists(subflow->subflow_id))
		snapshot->subflow = BPF_CORE_READ(subflow, subflow_id);
	else
		snapshot->subflow = BPF_CORE_READ(subflow, local_id);
	snapshot->is_subflow = 1;
}

/* All of a connection but its route. */
static __always_inline void profile_fill(struct profile_snapshot *snapshot, struct sock *sk, struct tcp_sock *tcp,
					 __u8 moment)
{
	static const struct profile_disorder no_disorder = {};
	static const struct profile_round_trips no_round_trips = {};
	const struct profile_disorder *disorder;
	const struct profile_round_trips *round_trips;
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	__u64 connection = bpf_get_socket_cookie(sk); /* on the stack: 6.1 takes no keys out of the ring */

	profile_describe(&snapshot->of, sk, connection, moment);
	profile_read_counters(snapshot, tcp);
	snapshot->cgroup = cgroup ? cgroup->kn->id : 0;
	snapshot->net_namespace = sk->__sk_common.skc_net.net->ns.inum;
	snapshot->receive_buffer = sk->sk_rcvbuf;
	snapshot->send_buffer = sk->sk_sndbuf;
	snapshot->has_fin = sk->__sk_common.skc_flags >> SOCK_DONE & 1;
	snapshot->probes = tcp->inet_conn.icsk_probes_out;
	snapshot->token = 0;
	snapshot->subflow = 0;
	snapshot->is_subflow = 0;
	if (bpf_core_field_exists(tcp->is_mptcp) && tcp->is_mptcp)
		profile_read_subflow(snapshot, &tcp->inet_conn);
	PROFILE_COPY_NAME(snapshot->congestion_control, tcp->inet_conn.icsk_ca_ops->name);
	disorder = bpf_map_lookup_elem(&profile_disorders, &connection);
	snapshot->disorder = disorder ? *disorder : no_disorder;
	round_trips = bpf_map_lookup_elem(&profile_all_round_trips, &connection);
	snapshot->round_trips = round_trips ? *round_trips : no_round_trips;
	profile_read_route(snapshot, sk);
}

/* Tells user space how a connection stands. */
static __always_inline void profile_tell(struct sock *sk, __u8 moment, __u8 old_state, __u8 new_state)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct profile_snapshot *snapshot;

	if (!tcp)
		return;
	snapshot = bpf_ringbuf_reserve(&profile_moments, sizeof(*snapshot), 0);
	if (!snapshot) {
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
		return;
	}
	profile_fill(snapshot, sk, tcp, moment);
	snapshot->of.old_state = old_state;
	snapshot->of.new_state = new_state;
	bpf_ringbuf_submit(snapshot, profile_wake());
}

/* Tells user space that something happened, and to whom. */
static __always_inline void profile_note(struct sock *sk, __u8 moment)
{
	struct profile_moment_of *of = bpf_ringbuf_reserve(&profile_moments, sizeof(*of), 0);

	if (!of) {
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
		return;
	}
	profile_describe(of, sk, bpf_get_socket_cookie(sk), moment);
	bpf_ringbuf_submit(of, profile_wake());
}

/* The application has taken the connection. Only whose it is counts here. */
static __always_inline void profile_note_accept(__u64 connection)
{
	struct profile_moment_of *of = bpf_ringbuf_reserve(&profile_moments, sizeof(*of), 0);

	if (!of) {
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
		return;
	}
	__builtin_memset(of, 0, sizeof(*of));
	of->time = bpf_ktime_get_ns();
	of->connection = connection;
	of->moment = PROFILE_ACCEPTED;
	profile_describe_process(of);
	bpf_ringbuf_submit(of, profile_wake());
}

static __always_inline void profile_forget(struct sock *sk)
{
	__u64 connection = bpf_get_socket_cookie(sk);

	bpf_map_delete_elem(&profile_disorders, &connection);
	bpf_map_delete_elem(&profile_all_round_trips, &connection);
}

static __always_inline void profile_end_stall(struct sock *sk)
{
	__u64 connection = bpf_get_socket_cookie(sk);
	struct profile_disorder *disorder = bpf_map_lookup_elem(&profile_disorders, &connection);

	if (disorder)
		disorder->stalled_since = 0;
}

static __always_inline void profile_on_state(struct sock *sk, int old_state, int new_state)
{
	if (new_state != TCP_SYN_SENT && new_state != TCP_ESTABLISHED && new_state != TCP_CLOSE)
		return;
	if (old_state == TCP_LISTEN || !profile_is_selected(sk))
		return;
	if (new_state == TCP_SYN_SENT) {
		profile_note(sk, PROFILE_CONNECT);
	} else if (new_state == TCP_ESTABLISHED) {
		profile_tell(sk, PROFILE_ESTABLISHED, old_state, new_state);
		profile_end_stall(sk);
	} else if (old_state != TCP_CLOSE && old_state != TCP_SYN_RECV) {
		profile_tell(sk, PROFILE_CLOSED, old_state, new_state);
		profile_forget(sk);
	}
}

/* The retransmission timer has expired with something outstanding. */
static __always_inline void profile_on_timeout(struct sock *sk)
{
	__u64 connection = bpf_get_socket_cookie(sk);
	struct profile_disorder *disorder;
	__u8 state = sk->__sk_common.skc_state;

	if (!profile_is_selected(sk))
		return;
	disorder = profile_disorder_of(connection);
	if (!disorder)
		return;
	if (!disorder->stalled_since) {
		if (state != TCP_SYN_SENT && state != TCP_SYN_RECV)
			profile_tell(sk, PROFILE_LOSSY, state, state);
		disorder->stalled_since = bpf_ktime_get_ns();
	}
	disorder->stalls++;
}

/* The congestion control goes, or has gone, to the open state. */
static __always_inline void profile_on_open(struct sock *sk)
{
	__u64 connection = bpf_get_socket_cookie(sk);
	struct profile_disorder *disorder = bpf_map_lookup_elem(&profile_disorders, &connection);
	__u8 state = sk->__sk_common.skc_state;

	if (!disorder || !disorder->stalled_since || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return;
	profile_tell(sk, PROFILE_RECOVERED, state, state);
	disorder->stalled_since = 0;
}

/* A segment of data, or without, from the peer; `is_kept` as far as the stack has decided. */
static __always_inline void profile_on_segment(struct sock *sk, __u64 connection, __u32 start, __u32 end,
					       int wants_duplicates, int wants_kept)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	enum profile_arrival arrival;
	struct profile_disorder *disorder;

	if (!tcp)
		return;
	arrival = profile_arrival(start, end, tcp->rcv_nxt);
	if (arrival == PROFILE_IN_ORDER || !(arrival == PROFILE_DUPLICATE ? wants_duplicates : wants_kept))
		return;
	if (!profile_is_selected(sk))
		return;
	disorder = profile_disorder_of(connection);
	if (disorder)
		profile_take(disorder, arrival, start, end, tcp->rcv_nxt);
}

/* The data of a segment that the stack is looking at. */
static __always_inline void profile_read_segment(struct sk_buff *skb, __u32 *start, __u32 *end)
{
	struct tcp_skb_cb *control = (void *)skb->cb;
	__u16 flags = BPF_CORE_READ(control, tcp_flags);

	*start = BPF_CORE_READ(control, seq);
	*end = BPF_CORE_READ(control, end_seq) - !!(flags & TCP_CB_FIN) - !!(flags & TCP_CB_SYN);
}

/* Another segment that waits for one before it has all of its bytes. */
static __always_inline void profile_on_waiting_duplicate(struct sock *sk, struct sk_buff *skb)
{
	struct profile_disorder *disorder;
	__u32 start, end;

	profile_read_segment(skb, &start, &end);
	if (start == end || !profile_is_selected(sk))
		return;
	disorder = profile_disorder_of(bpf_get_socket_cookie(sk));
	if (disorder)
		profile_take(disorder, PROFILE_DUPLICATE, start, end, end);
}

static __always_inline void profile_on_wrong_checksum(struct sock *sk)
{
	struct profile_disorder *disorder;

	if (sk->__sk_common.skc_state == TCP_LISTEN || !profile_is_selected(sk))
		return;
	disorder = profile_disorder_of(bpf_get_socket_cookie(sk));
	if (disorder)
		disorder->checksum_errors++;
}

/* A connection to `address`, which the socket does not know yet or no longer. */
static __always_inline void profile_note_connect(struct sock *sk, __u64 connection, __u8 moment, int error,
						 const struct flow_address *address, __u16 port)
{
	struct profile_moment_of *of;

	if (!profile_is_selected_to(sk, address, port))
		return;
	of = bpf_ringbuf_reserve(&profile_moments, sizeof(*of), 0);
	if (!of) {
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
		return;
	}
	profile_describe(of, sk, connection, moment);
	of->error = error;
	of->remote = *address;
	of->remote_port = port;
	bpf_ringbuf_submit(of, profile_wake());
}

static __always_inline void profile_tell_meta(struct sock *sk, __u8 moment, int old_state, int new_state)
{
	struct profile_meta *meta = bpf_ringbuf_reserve(&profile_moments, sizeof(*meta), 0);
	struct mptcp_sock *connection = (void *)sk;

	if (!meta) {
		profile_count(PROFILE_COUNT_MOMENTS_LOST);
		return;
	}
	profile_describe(&meta->of, sk, bpf_get_socket_cookie(sk), moment);
	meta->of.old_state = old_state;
	meta->of.new_state = new_state;
	meta->bytes_sent = meta->bytes_acknowledged = meta->bytes_received = 0;
	meta->bytes_reinjected = ~0ULL;
	/* Since 6.4 an MPTCP socket counts its bytes. */
	if (bpf_core_field_exists(connection->bytes_sent)) {
		meta->bytes_sent = BPF_CORE_READ(connection, bytes_sent);
		meta->bytes_acknowledged = BPF_CORE_READ(connection, bytes_acked);
		meta->bytes_received = BPF_CORE_READ(connection, bytes_received);
	}
	if (bpf_core_field_exists(connection->bytes_retrans))
		meta->bytes_reinjected = BPF_CORE_READ(connection, bytes_retrans);
	meta->token = BPF_CORE_READ(connection, token);
	meta->stalls = BPF_CORE_READ(connection, sk.icsk_retransmits);
	if (bpf_core_field_exists(connection->pm.extra_subflows))
		meta->subflows = BPF_CORE_READ(connection, pm.extra_subflows);
	else
		meta->subflows = BPF_CORE_READ(connection, pm.subflows);
	meta->receive_buffer = sk->sk_rcvbuf;
	meta->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	meta->net_namespace = sk->__sk_common.skc_net.net->ns.inum;
	meta->padding = 0;
	bpf_ringbuf_submit(meta, profile_wake());
}

static __always_inline void profile_on_meta_state(struct sock *sk, int old_state, int new_state)
{
	/* One that a peer opens is a copy of the socket that listens. */
	if ((old_state == TCP_LISTEN && new_state != TCP_ESTABLISHED) || !profile_is_selected(sk))
		return;
	if (new_state == TCP_SYN_SENT)
		profile_tell_meta(sk, PROFILE_META_CONNECT, old_state, new_state);
	else if (new_state == TCP_ESTABLISHED)
		profile_tell_meta(sk, PROFILE_META_ESTABLISHED, old_state, new_state);
	else if (new_state == TCP_CLOSE && old_state != TCP_CLOSE)
		profile_tell_meta(sk, PROFILE_META_CLOSED, old_state, new_state);
}

#endif
