// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The probes. Two sets tell of the same moments, and user space loads one of them: `tracepoint`, for kernels without function
 * probes, and `fentry`, as the paper's table 2 has them. What hangs on a cgroup belongs to both, where not said otherwise.
 */
#include "multipath.bpf.h"
#include "profile.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SOL_TCP 6
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

static __always_inline void profile_on_any_state(struct sock *sk, int old_state, int new_state)
{
	if (new_state != TCP_ESTABLISHED && new_state != TCP_SYN_SENT && new_state != TCP_CLOSE)
		return;
	if (sk->sk_protocol == IPPROTO_TCP) {
		profile_on_state(sk, old_state, new_state);
		multipath_on_subflow_state(sk, old_state, new_state);
	} else if (sk->sk_protocol == IPPROTO_MPTCP) {
		multipath_on_state(sk, old_state, new_state);
	}
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tracepoint_state, struct sock *sk, int old_state, int new_state)
{
	profile_on_any_state(sk, old_state, new_state);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tracepoint_congestion, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_LOSS)
		profile_on_timeout(sk);
	else if (state == TCP_CA_OPEN)
		profile_on_open(sk);
	return 0;
}

#define IS_REASON(reason, name)                                                                                        \
	(bpf_core_enum_value_exists(enum skb_drop_reason, name) &&                                                     \
	 (reason) == (int)bpf_core_enum_value(enum skb_drop_reason, name))

/* Whom a segment was for is told since 6.12. Called for every drop on the machine: the reason goes first. */
static __always_inline int profile_on_drop(struct sk_buff *skb, int reason, struct sock *sk, int wants_duplicates)
{
	__u32 start, end;

	if (IS_REASON(reason, SKB_DROP_REASON_TCP_CSUM)) {
		if (sk)
			profile_on_wrong_checksum(sk);
		return 0;
	}
	if (IS_REASON(reason, SKB_DROP_REASON_TCP_OFOMERGE)) {
		if (sk)
			profile_on_waiting_duplicate(sk, skb);
		return 0;
	}
	if (!wants_duplicates)
		return 0;
	if (!IS_REASON(reason, SKB_DROP_REASON_TCP_OLD_DATA) && !IS_REASON(reason, SKB_DROP_REASON_TCP_OLD_SEQUENCE) &&
	    !IS_REASON(reason, SKB_DROP_REASON_TCP_RFC7323_PAWS))
		return 0;
	if (!sk)
		return 0;
	profile_read_segment(skb, &start, &end);
	profile_on_segment(sk, bpf_get_socket_cookie(sk), start, end, 1, 0);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(tracepoint_drop, struct sk_buff *skb, void *location, int reason, struct sock *sk)
{
	return profile_on_drop(skb, reason, sk, 1);
}

/* No function tells of wrong checksums alone, nor of duplicates among what waits for segments before it. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(fentry_drop, struct sk_buff *skb, void *location, int reason, struct sock *sk)
{
	return profile_on_drop(skb, reason, sk, 0);
}

SEC("fentry/tcp_set_state")
int BPF_PROG(fentry_state, struct sock *sk, int new_state)
{
	profile_on_any_state(sk, sk->__sk_common.skc_state, new_state);
	return 0;
}

/* Sockets of whole MPTCP connections change their state without that function. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(fentry_meta_state, struct sock *sk, int old_state, int new_state)
{
	if (sk->sk_protocol == IPPROTO_MPTCP)
		multipath_on_state(sk, old_state, new_state);
	return 0;
}

/* No tracepoint tells of it. */
SEC("fentry/__mptcp_retrans")
int BPF_PROG(fentry_meta_timeout, struct sock *sk)
{
	multipath_on_timeout(sk);
	return 0;
}

/* At its end what is lost is marked, as when the tracepoint tells of the state. */
SEC("fexit/tcp_enter_loss")
int BPF_PROG(fexit_timeout, struct sock *sk)
{
	profile_on_timeout(sk);
	return 0;
}

SEC("fexit/tcp_fastretrans_alert")
int BPF_PROG(fexit_recovery, struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)bpf_skc_to_tcp_sock(sk);

	if (icsk && BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) == TCP_CA_OPEN)
		profile_on_open(sk);
	return 0;
}

SEC("fentry/tcp_validate_incoming")
int BPF_PROG(fentry_segment, struct sock *sk, struct sk_buff *skb)
{
	__u32 start, end;

	profile_read_segment(skb, &start, &end);
	profile_on_segment(sk, bpf_get_socket_cookie(sk), start, end, 1, 0);
	return 0;
}

SEC("fexit/tcp_validate_incoming")
int BPF_PROG(fexit_segment, struct sock *sk, struct sk_buff *skb, const void *header, int has_bad_syn, int is_kept)
{
	__u32 start, end;

	if (!is_kept)
		return 0; /* freed */
	profile_read_segment(skb, &start, &end);
	profile_on_segment(sk, bpf_get_socket_cookie(sk), start, end, 0, 1);
	return 0;
}

static __always_inline void profile_on_connect_result(struct sock *sk, const void *user_address, int result)
{
	struct {
		__u16 family;
		__u16 port;
		__u32 ipv4;
		__u8 ipv6[16];
	} name = {};
	struct flow_address address;

	if (!result)
		return;
	bpf_probe_read_kernel(&name, sizeof(name), user_address);
	if (name.family == AF_INET6)
		__builtin_memcpy(&address, name.ipv6, sizeof(address));
	else
		address = flow_address_v4(name.ipv4);
	profile_note_connect(sk, bpf_get_socket_cookie(sk), PROFILE_FAILED, -result, &address, bpf_ntohs(name.port));
}

SEC("fexit/tcp_v4_connect")
int BPF_PROG(fexit_connect4, struct sock *sk, void *address, int length, int result)
{
	profile_on_connect_result(sk, address, result);
	return 0;
}

SEC("fexit/tcp_v6_connect")
int BPF_PROG(fexit_connect6, struct sock *sk, void *address, int length, int result)
{
	profile_on_connect_result(sk, address, result);
	return 0;
}

/* Its arguments have changed in 6.10, so the result is asked for by name; and it has no type for the verifier. */
SEC("fexit/inet_csk_accept")
int fexit_accept(void *context)
{
	struct sock *sk = 0;

	if (!bpf_get_func_ret(context, (__u64 *)&sk) && sk)
		profile_note_accept(multipath_cookie_of_accepted(sk));
	return 0;
}

/* Where accept() cannot be probed: it asks for the peer's address if the caller wants it, as nearly all do. */
static __always_inline int profile_on_peer_name(struct bpf_sock_addr *context)
{
	if (context->protocol == IPPROTO_TCP || context->protocol == IPPROTO_MPTCP)
		profile_note_accept(bpf_get_socket_cookie(context));
	return 1;
}

SEC("cgroup/getpeername4")
int tracepoint_accept4(struct bpf_sock_addr *context)
{
	return profile_on_peer_name(context);
}

SEC("cgroup/getpeername6")
int tracepoint_accept6(struct bpf_sock_addr *context)
{
	return profile_on_peer_name(context);
}

/* An attempt without a SYN behind it has found no route. */
static __always_inline void profile_on_attempt(struct bpf_sock_addr *context, const struct flow_address *address)
{
	struct tcp_sock *tcp = context->sk ? bpf_skc_to_tcp_sock(context->sk) : 0;

	if (tcp)
		profile_note_attempt((struct sock *)tcp, bpf_get_socket_cookie(context), address,
				     bpf_ntohs((__u16)context->user_port));
}

SEC("cgroup/connect4")
int tracepoint_attempt4(struct bpf_sock_addr *context)
{
	struct flow_address address = flow_address_v4(context->user_ip4);

	profile_on_attempt(context, &address);
	return 1;
}

SEC("cgroup/connect6")
int tracepoint_attempt6(struct bpf_sock_addr *context)
{
	struct flow_address address;

	address.words[0] = (__u64)context->user_ip6[1] << 32 | context->user_ip6[0];
	address.words[1] = (__u64)context->user_ip6[3] << 32 | context->user_ip6[2];
	profile_on_attempt(context, &address);
	return 1;
}

static __always_inline void profile_on_established(struct bpf_sock_ops *context)
{
	struct tcp_sock *tcp = context->sk ? bpf_skc_to_tcp_sock(context->sk) : 0;

	if (!tcp || !profile_is_selected((struct sock *)tcp))
		return;
	bpf_sock_ops_cb_flags_set(context, context->bpf_sock_ops_cb_flags | profile_config.callbacks);
	profile_follow(bpf_get_socket_cookie(context));
}

static __always_inline void profile_on_round_trip(struct bpf_sock_ops *context)
{
	struct profile_round_trips *round_trips = profile_find_round_trips(bpf_get_socket_cookie(context));

	if (round_trips) /* Its measurement since 6.10, before what it makes of it. */
		profile_add_round_trip(round_trips, context->args[0] ? context->args[0] : context->srtt_us >> 3);
}

/*
 * Nearly all segments are what was expected, and that is seen without looking at the socket. Somebody else, such as
 * the other set, may have asked for headers.
 */
static __always_inline void profile_on_header(struct bpf_sock_ops *context)
{
	struct segment_header *header = context->skb_data;
	__u32 length = context->skb_len;
	__u32 start, header_bytes;
	struct tcp_sock *tcp;

	if (!(profile_config.callbacks & BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG) ||
	    (void *)(header + 1) > context->skb_data_end)
		return;
	start = bpf_ntohl(header->sequence);
	header_bytes = (bpf_ntohs(header->length_and_flags) >> 12) * 4;
	if (start == context->rcv_nxt || length <= header_bytes)
		return;
	tcp = context->sk ? bpf_skc_to_tcp_sock(context->sk) : 0;
	if (tcp)
		profile_on_segment((struct sock *)tcp, bpf_get_socket_cookie(context), start,
				   start + length - header_bytes, 0, 1);
}

SEC("sockops")
int socket_operation(struct bpf_sock_ops *context)
{
	switch (context->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		profile_on_established(context);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		profile_on_round_trip(context);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		profile_on_header(context);
		break;
	}
	return 1;
}

/* Looks through the sockets of a network namespace. */
SEC("iter/tcp")
int look_through(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tcp = common ? bpf_skc_to_tcp_sock(common) : 0;
	struct sock *sk = (struct sock *)tcp;
	__u64 connection;
	__u8 state;
	int flags;

	if (!tcp)
		return 0;
	state = sk->__sk_common.skc_state;
	if (state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return 0;
	multipath_on_look(tcp, state);
	if (!profile_is_selected(sk))
		return 0;
	flags = BPF_CORE_READ_BITFIELD(tcp, bpf_sock_ops_cb_flags) | profile_config.callbacks;
	bpf_setsockopt(tcp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	connection = bpf_get_socket_cookie(tcp);
	profile_follow(connection);
	profile_tell(sk, connection, PROFILE_SEEN, state, state);
	return 0;
}

/* Frees what is kept of a connection whose socket is gone, though its end was missed. */
SEC("syscall")
int forget(__u64 *connection)
{
	profile_forget(*connection);
	return 0;
}
