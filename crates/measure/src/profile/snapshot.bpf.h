/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a connection stands, read from its socket and told to user space. */
#ifndef FATHOM_PROFILE_SNAPSHOT_BPF_H
#define FATHOM_PROFILE_SNAPSHOT_BPF_H

#include "who.bpf.h"

static __always_inline void profile_read_counters(struct profile_snapshot *snapshot, struct tcp_sock *tcp)
{
	__u32 chrono = BPF_CORE_READ_BITFIELD(tcp, chrono_type);
	__u32 i;

#define X(type, name, source) snapshot->name = tcp->source;
	PROFILE_STACK_COUNTERS(X)
#undef X
	snapshot->header_bytes = tcp->tcp_header_len;
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

/*
 * When it is. An arriving segment has had the stack read the same clock; at moments that only such a segment brings about its
 * reading is taken, for another costs a tenth of all that is done here.
 */
static __always_inline __u64 profile_time(struct tcp_sock *tcp, __u8 moment, __u8 old_state)
{
	if (moment == PROFILE_ESTABLISHED && bpf_core_field_exists(tcp->tcp_clock_cache))
		return tcp->tcp_clock_cache;
	return bpf_ktime_get_ns();
}

/* All of a connection but its route and what it had of disorder. */
static __always_inline void profile_fill(struct profile_snapshot *snapshot, struct sock *sk, struct tcp_sock *tcp,
					 __u64 connection, __u8 moment)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;

	profile_describe_ends(&snapshot->of, sk, connection, moment);
	snapshot->of.local_port = sk->__sk_common.skc_num ?: bpf_ntohs(tcp->inet_conn.icsk_inet.inet_sport);
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
}

/* What is kept of a connection; what a process did with it is told once. */
static __always_inline void profile_read_kept(struct profile_snapshot *snapshot, __u64 connection)
{
	static const struct profile_round_trips no_round_trips = {};
	struct profile_slot *slot = profile_slot(connection);
	const struct profile_round_trips *round_trips;

	snapshot->kept_since = 0;
	snapshot->kept_moment = 0;
	snapshot->of.process_id = 0;
	__builtin_memset(snapshot->of.process, 0, sizeof(snapshot->of.process));
	__builtin_memset(snapshot->padding, 0, sizeof(snapshot->padding));
	if (slot) {
		snapshot->round_trips = slot->round_trips;
		if (!slot->since)
			return;
		snapshot->kept_since = slot->since;
		snapshot->kept_moment = slot->moment;
		snapshot->of.process_id = slot->process_id;
		PROFILE_COPY_NAME(snapshot->of.process, slot->process);
		slot->since = 0;
	} else {
		round_trips = bpf_map_lookup_elem(&profile_all_round_trips, &connection);
		snapshot->round_trips = round_trips ? *round_trips : no_round_trips;
	}
}

/* Tells user space how a connection stands. Most had no disorder, and leave its place away. */
static __always_inline void profile_tell(struct sock *sk, __u64 connection, __u8 moment, __u8 old_state, __u8 new_state)
{
	const struct profile_disorder *disorder = profile_find_disorder(connection);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct profile_snapshot *snapshot;

	if (!tcp)
		return;
	if (disorder) {
		snapshot = PROFILE_RESERVE(sizeof(*snapshot));
		if (!snapshot)
			return;
		snapshot->disorder = *disorder;
		snapshot->has_disorder = 1;
	} else {
		snapshot = PROFILE_RESERVE(offsetof(struct profile_snapshot, disorder));
		if (!snapshot)
			return;
		snapshot->has_disorder = 0;
	}
	profile_fill(snapshot, sk, tcp, connection, moment);
	snapshot->of.time = profile_time(tcp, moment, old_state);
	snapshot->of.old_state = old_state;
	snapshot->of.new_state = new_state;
	profile_read_kept(snapshot, connection);
	profile_read_route(snapshot, sk);
	profile_submit(snapshot);
}

/* Tells user space that something happened, and to whom. */
static __always_inline void profile_note(struct sock *sk, __u64 connection, __u8 moment)
{
	struct profile_moment_of *of = PROFILE_RESERVE(sizeof(*of));

	if (!of)
		return;
	profile_describe(of, sk, connection, moment);
	profile_submit(of);
}

#endif
