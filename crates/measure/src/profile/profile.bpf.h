/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens at each moment, whichever probe tells of it; profile.bpf.c has the probes. */
#ifndef FATHOM_PROFILE_BPF_H
#define FATHOM_PROFILE_BPF_H

#include "attempt.bpf.h"
#include "snapshot.bpf.h"

/* A SYN is about to be sent. Its port is found, so this is no attempt without a route. */
static __always_inline void profile_on_connect(struct sock *sk, __u64 connection)
{
	struct profile_slot *slot = profile_claim(connection);

	if (slot) {
		profile_keep(slot, PROFILE_CONNECT, bpf_ktime_get_ns());
	} else {
		profile_note(sk, connection, PROFILE_CONNECT);
	}
}

/* The application has taken the connection. Only whose it is counts here. */
static __always_inline void profile_note_accept(__u64 connection)
{
	struct profile_slot *slot = profile_slot(connection);
	struct profile_moment_of *of;

	if (slot) {
		profile_keep(slot, PROFILE_ACCEPTED, bpf_ktime_get_ns());
		return;
	}
	of = PROFILE_RESERVE(sizeof(*of));
	if (!of)
		return;
	__builtin_memset(of, 0, sizeof(*of));
	of->time = bpf_ktime_get_ns();
	of->connection = connection;
	of->moment = PROFILE_ACCEPTED;
	profile_describe_process(of);
	profile_submit(of);
}

static __always_inline void profile_end_stall(__u64 connection)
{
	struct profile_disorder *disorder = profile_find_disorder(connection);

	if (disorder)
		disorder->stalled_since = 0;
}

static __always_inline void profile_on_state(struct sock *sk, int old_state, int new_state)
{
	__u64 connection;

	if (old_state == TCP_LISTEN)
		return;
	if (!profile_is_selected(sk)) {
		/* An attempt was, before its source was known. */
		if (new_state == TCP_SYN_SENT)
			profile_give_up(profile_cookie(sk));
		return;
	}
	connection = profile_cookie(sk);
	if (new_state == TCP_SYN_SENT) {
		profile_on_connect(sk, connection);
	} else if (new_state == TCP_ESTABLISHED) {
		profile_tell(sk, connection, PROFILE_ESTABLISHED, old_state, new_state);
		profile_end_stall(connection);
	} else if (old_state != TCP_CLOSE && old_state != TCP_SYN_RECV) {
		profile_tell(sk, connection, PROFILE_CLOSED, old_state, new_state);
		profile_forget(connection);
	}
}

/* The retransmission timer has expired with something outstanding. */
static __always_inline void profile_on_timeout(struct sock *sk)
{
	__u64 connection;
	struct profile_disorder *disorder;
	__u8 state = sk->__sk_common.skc_state;

	if (!profile_is_selected(sk))
		return;
	connection = profile_cookie(sk);
	disorder = profile_disorder_of(connection);
	if (!disorder)
		return;
	if (!disorder->stalled_since) {
		if (state != TCP_SYN_SENT && state != TCP_SYN_RECV)
			profile_tell(sk, connection, PROFILE_LOSSY, state, state);
		disorder->stalled_since = bpf_ktime_get_ns();
	}
	disorder->stalls++;
}

/* The congestion control goes, or has gone, to the open state. */
static __always_inline void profile_on_open(struct sock *sk)
{
	__u64 connection = profile_disordered ? profile_cookie(sk) : 0;
	struct profile_disorder *disorder = profile_find_disorder(connection);
	__u8 state = sk->__sk_common.skc_state;

	if (!disorder || !disorder->stalled_since || state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return;
	profile_tell(sk, connection, PROFILE_RECOVERED, state, state);
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
	disorder = profile_disorder_of(profile_cookie(sk));
	if (disorder)
		profile_take(disorder, PROFILE_DUPLICATE, start, end, end);
}

static __always_inline void profile_on_wrong_checksum(struct sock *sk)
{
	struct profile_disorder *disorder;

	if (sk->__sk_common.skc_state == TCP_LISTEN || !profile_is_selected(sk))
		return;
	disorder = profile_disorder_of(profile_cookie(sk));
	if (disorder)
		disorder->checksum_errors++;
}

#endif
