/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's sockets as far as profiles look at them. Only the names of fields matter: where they are is found when the
 * programs are loaded (CO-RE), and what a kernel lacks is asked for with bpf_core_field_exists.
 */
#ifndef FATHOM_PROFILE_SOCKET_BPF_H
#define FATHOM_PROFILE_SOCKET_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

/* Of the kernel, where its headers cannot be included with its types. */
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

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_MPTCP 262

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[16]; /* as long as it is deep; since 6.1 */
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct net_device {
	int ifindex;
	char name[16];
};

struct dst_entry {
	struct net_device *dev;
};

struct rtable {
	struct dst_entry dst;
	__u8 rt_uses_gateway;
	__u8 rt_gw_family;
	union {
		__u32 rt_gw4;
		struct in6_addr rt_gw6;
	};
};

struct rt6_info {
	struct dst_entry dst;
	struct in6_addr rt6i_gateway;
	__u32 rt6i_flags;
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	short unsigned int skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
	long unsigned int skc_flags;
};

struct sock {
	struct sock_common __sk_common;
	int sk_rcvbuf;
	int sk_sndbuf;
	int sk_err;
	__u16 sk_protocol;
	struct dst_entry *sk_dst_cache;
	struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_congestion_ops {
	char name[16];
};

struct inet_sock {
	struct sock sk;
	__u16 inet_sport;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_probes_out;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 tcp_clock_cache;
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u32 data_segs_out;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 segs_in;
	__u16 tcp_header_len;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 total_retrans;
	__u32 rcv_ooopack;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 srtt_us;
	__u32 mdev_us;
	struct minmax rtt_min;
	__u32 snd_cwnd;
	__u32 mss_cache;
	__u32 chrono_stat[3];
	__u32 chrono_start;
	__u8 chrono_type;
	__u32 rcv_nxt;
	__u32 packets_out;
	_Bool is_mptcp;
	__u8 bpf_sock_ops_cb_flags;
};

struct list_head {
	struct list_head *next;
};

struct mptcp_sock {
	struct inet_connection_sock sk;
	__u64 bytes_sent;
	__u64 snd_nxt;
	__u64 bytes_received;
	__u64 bytes_retrans;
	__u64 bytes_acked;
	__u64 snd_una;
	__u32 token;
	_Bool snd_data_fin_enable;
	_Bool rcv_fastclose;
	struct list_head conn_list;
	struct sock *first;
};

struct task_struct {
	unsigned int flags;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct sockaddr;

struct mptcp_subflow_context {
	struct list_head node;
	__u32 token;
	__u32 subflow_id;
	__s16 local_id;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u16 tcp_flags;
};

struct sk_buff {
	char cb[48];
};

#pragma clang attribute pop

/* As on the wire, so nothing to be found. */
struct segment_header {
	__u32 ports;
	__u32 sequence;
	__u32 acknowledgement;
	__u16 length_and_flags;
};

enum skb_drop_reason {
	SKB_DROP_REASON_TCP_CSUM = 1,
	SKB_DROP_REASON_TCP_OLD_DATA,
	SKB_DROP_REASON_TCP_OLD_SEQUENCE,
	SKB_DROP_REASON_TCP_RFC7323_PAWS,
	SKB_DROP_REASON_TCP_OFOMERGE,
};

#endif
