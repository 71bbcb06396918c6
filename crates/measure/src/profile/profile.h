/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transport profiles: what the kernel tells user space about a connection at the moments that matter, and the few things
 * that its own stack does not count. Pure, shared with user space; README.md beside this file says why it is so.
 */
#ifndef FATHOM_PROFILE_H
#define FATHOM_PROFILE_H

#include "../../bpf/flow.h"

#define PROFILE_SLOTS 4096
#define PROFILE_NAME_BYTES 16 /* of a process (TASK_COMM_LEN), an interface (IFNAMSIZ), a congestion control */

/* The moments. */
enum profile_moment {
	PROFILE_ATTEMPT, /* connect() is about to look for a route */
	PROFILE_FAILED, /* connect() found none: `error` says why, if it is known */
	PROFILE_CONNECT, /* a SYN is about to be sent */
	PROFILE_ESTABLISHED,
	PROFILE_ACCEPTED, /* the application took the connection out of the queue */
	PROFILE_LOSSY, /* the first retransmission timeout in a row */
	PROFILE_RECOVERED, /* the congestion control is back in the open state */
	PROFILE_CLOSED,
	PROFILE_SEEN, /* found by looking through all sockets */
	PROFILE_META_CONNECT, /* the same of the connection that MPTCP subflows belong to */
	PROFILE_META_ESTABLISHED,
	PROFILE_META_CLOSED,
	PROFILE_META_ADDED, /* another subflow is established */
	PROFILE_META_REMOVED, /* a subflow has ended, and the connection has not */
	PROFILE_META_LOSSY,
	PROFILE_META_RECOVERED,
	PROFILE_META_SEEN,
};

/* What can go wrong in the kernel's part; the texts are what users see. */
#define PROFILE_COUNTERS(X)                                                                                            \
	X(MOMENTS_LOST, "moments lost: ring full")                                                                     \
	X(DISORDER_REFUSED, "connections without duplicates, reordering and stalls: no room")                          \
	X(ROUND_TRIPS_REFUSED, "connections without mean round trip: table full")

#define X(name, text) PROFILE_COUNT_##name,
enum profile_counter { PROFILE_COUNTERS(X) PROFILE_COUNTER_COUNT };
#undef X

/* Set before the programs are loaded. */
struct profile_config {
	__u64 cgroup; /* only sockets in it or below; 0: all */
	__u32 cgroup_level; /* its depth */
	__u32 callbacks; /* BPF_SOCK_OPS_*_CB_FLAG that are asked for: each round trip, each segment off the fast path */
};
FATHOM_ASSERT_SIZE(struct profile_config, 16);

/* Whose moment it is; every event starts so. */
struct profile_moment_of {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u64 connection; /* the socket's cookie */
	__u8 moment; /* enum profile_moment */
	__u8 is_ipv6;
	__u8 old_state; /* TCP_* before */
	__u8 new_state;
	__u32 error; /* errno of the socket */
	struct flow_address local;
	struct flow_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 process_id; /* that was running, where the moment is one of a system call */
	char process[PROFILE_NAME_BYTES];
};
FATHOM_ASSERT_SIZE(struct profile_moment_of, 80);

/* A connection that may never come to be, or has not: whose it would have been. */
struct profile_attempt {
	struct profile_moment_of of;
	__u64 cgroup; /* its id */
	__u32 net_namespace; /* its inode */
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct profile_attempt, 80 + 16);

/* Round trips of a connection, one for each round trip (BPF_SOCK_OPS_RTT_CB), since it was established. */
struct profile_round_trips {
	__u64 sum; /* us */
	__u64 squares; /* us^2 */
	__u32 count;
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct profile_round_trips, 24);

/* What a connection has besides, for as long as it lives. */
struct profile_slot {
	__u64 connection; /* whose; 0: free */
	__u64 since; /* ns, CLOCK_MONOTONIC, of `moment`; 0: nothing that is still to be told */
	__u32 process_id; /* that did it */
	__u16 remote_port; /* of an attempt */
	__u8 moment; /* PROFILE_ATTEMPT, PROFILE_CONNECT or PROFILE_ACCEPTED */
	__u8 is_ipv6;
	char process[PROFILE_NAME_BYTES];
	struct flow_address remote; /* of an attempt, as what follows but for the round trips */
	__u64 cgroup; /* its id */
	__u32 net_namespace; /* its inode */
	__u32 padding;
	struct profile_round_trips round_trips;
};
FATHOM_ASSERT_SIZE(struct profile_slot, 96);

/* What the stack does not count; profiles tell its increase. */
#define PROFILE_DISORDER_COUNTERS(X)                                                                                   \
	X(__u64, duplicate_bytes) /* of segments that had been received whole */                                       \
	X(__u64, partial_duplicate_bytes) /* the part that had been received, of segments that brought new data too */ \
	X(__u64, out_of_order_bytes)                                                                                   \
	X(__u64, distance_sum) /* bytes between what was expected and what came */                                     \
	X(__u64, distance_squares) /* bytes^2 */                                                                       \
	X(__u32, distance_count)                                                                                       \
	X(__u32, duplicate_packets)                                                                                    \
	X(__u32, partial_duplicate_packets)                                                                            \
	X(__u32, checksum_errors)                                                                                      \
	X(__u32, stalls) /* retransmission timeouts: of a SYN, data or a FIN */

/* An entry exists only for connections that had some of it. */
struct profile_disorder {
#define X(type, name) type name;
	PROFILE_DISORDER_COUNTERS(X)
#undef X
	__u32 distance_max; /* since the connection was established */
	__u64 stalled_since; /* ns, the first timeout that it has not recovered from; 0: none */
};
FATHOM_ASSERT_SIZE(struct profile_disorder, 72);

/* Counters of the stack, and where struct tcp_sock has them: profiles tell their increase. They wrap around. */
#define PROFILE_STACK_COUNTERS(X)                                                                                      \
	X(__u64, bytes_sent, bytes_sent) /* payload, also when sent again */                                           \
	X(__u64, bytes_acknowledged, bytes_acked) /* as the stack counts: with a SYN and a FIN */                      \
	X(__u64, bytes_received, bytes_received) /* with a FIN */                                                      \
	X(__u64, bytes_retransmitted, bytes_retrans)                                                                   \
	X(__u32, packets_sent, data_segs_out) /* with data */                                                          \
	X(__u32, packets_received, data_segs_in) /* with data */                                                       \
	X(__u32, segments_out, segs_out) /* all, with and without data */                                              \
	X(__u32, segments_in, segs_in)                                                                                 \
	X(__u32, packets_delivered, delivered) /* acknowledged, also selectively */                                    \
	X(__u32, packets_marked, delivered_ce) /* of them, with ECN congestion experienced */                          \
	X(__u32, packets_lost, lost) /* marked as lost, each time */                                                   \
	X(__u32, packets_retransmitted, total_retrans)                                                                 \
	X(__u32, packets_out_of_order, rcv_ooopack)                                                                    \
	X(__u32, duplicates_reported, dsack_dups) /* by the peer, D-SACK */                                            \
	X(__u32, reordering_seen, reord_seen) /* by the sender: episodes */

/* The counters of a connection as they stand, and where it goes. */
struct profile_snapshot {
	struct profile_moment_of of;
	__u64 cgroup; /* its id */
#define X(type, name, source) type name;
	PROFILE_STACK_COUNTERS(X)
#undef X
	__u32 round_trip; /* us, smoothed */
	__u32 round_trip_deviation; /* us, mean */
	__u32 round_trip_minimum; /* us, over the stack's window; ~0: none yet */
	__u32 congestion_window; /* packets */
	__u32 segment_size; /* bytes */
	__u32 receive_buffer; /* bytes */
	__u32 send_buffer; /* bytes */
	__u32 limited[3]; /* jiffies busy; of them, limited by the receive window; by the send buffer */
	__u32 net_namespace; /* its inode */
	__u32 token; /* of MPTCP; 0: none */
	__u8 has_fin; /* the peer's was received */
	__u8 is_subflow; /* of an MPTCP connection */
	__u8 probes; /* zero-window and keep-alive probes that wait for an answer */
	__u8 subflow; /* of MPTCP: its number */
	char congestion_control[PROFILE_NAME_BYTES];
	char interface[PROFILE_NAME_BYTES]; /* that packets leave by */
	struct flow_address next_hop; /* zero: none */
	struct profile_round_trips round_trips;
	__u64 kept_since; /* ns: what the process of `of` did before; 0: nothing that was not told */
	__u8 kept_moment; /* PROFILE_CONNECT or PROFILE_ACCEPTED */
	__u8 has_disorder;
	__u8 header_bytes; /* of TCP, as of its segments with data */
	__u8 padding[5];
	struct profile_disorder disorder; /* not in the ring where the connection had none */
};
FATHOM_ASSERT_SIZE(struct profile_snapshot, 80 + 40 + 88 + 8 + 32 + 16 + 24 + 16 + 72);

/* An MPTCP connection, which its subflows carry. */
struct profile_meta {
	struct profile_moment_of of; /* `connection` is the cookie of a subflow if that of the whole is not known */
	__u64 meta; /* the address of its socket, which is the same at all of its moments */
	__u64 bytes_sent; /* payload; this and the next three are 0 where the kernel does not count them */
	__u64 bytes_acknowledged;
	__u64 bytes_received;
	__u64 bytes_reinjected;
	__u64 cgroup;
	__u64 subflow; /* the cookie of the subflow that the moment is one of; 0: none */
	__u32 token;
	__u32 stalls; /* retransmission timeouts at the level of the data */
	__u32 subflow_count; /* established and not closed, after the moment */
	__u32 receive_buffer;
	__u32 net_namespace;
	__u8 path; /* the number of `subflow` */
	__u8 is_selected; /* by the ends of the subflow, or of the whole connection */
	__u16 padding;
};
FATHOM_ASSERT_SIZE(struct profile_meta, 80 + 56 + 24);

/* What an arriving segment is, compared with the next byte that is expected. */
enum profile_arrival {
	PROFILE_IN_ORDER, /* or without data */
	PROFILE_DUPLICATE, /* all of it had been received */
	PROFILE_PARTIAL_DUPLICATE, /* the start of it had */
	PROFILE_OUT_OF_ORDER, /* something before it is missing */
};

/*
 * `start` and `end` are the sequence numbers of its data. A byte before what is expected, and no more, is what a keep-alive
 * or the probe of a closed window looks like (RFC 9293, sections 3.8.4 and 3.8.6.1).
 */
static __always_inline enum profile_arrival profile_arrival(__u32 start, __u32 end, __u32 expected)
{
	__s32 distance = start - expected;
	__s32 beyond = end - expected;

	if (start == end || (end - start == 1 && beyond == 0))
		return PROFILE_IN_ORDER;
	if (beyond <= 0)
		return PROFILE_DUPLICATE;
	if (distance < 0)
		return PROFILE_PARTIAL_DUPLICATE;
	return distance ? PROFILE_OUT_OF_ORDER : PROFILE_IN_ORDER;
}

static __always_inline void profile_take(struct profile_disorder *disorder, enum profile_arrival arrival, __u32 start,
					 __u32 end, __u32 expected)
{
	__u64 distance = start - expected;

	if (arrival == PROFILE_DUPLICATE) {
		disorder->duplicate_packets++;
		disorder->duplicate_bytes += end - start;
	} else if (arrival == PROFILE_PARTIAL_DUPLICATE) {
		disorder->partial_duplicate_packets++;
		disorder->partial_duplicate_bytes += expected - start;
	} else if (arrival == PROFILE_OUT_OF_ORDER) {
		disorder->out_of_order_bytes += end - start;
		disorder->distance_count++;
		disorder->distance_sum += distance;
		disorder->distance_squares += distance * distance;
		if (distance > disorder->distance_max)
			disorder->distance_max = distance;
	}
}

static __always_inline void profile_add_round_trip(struct profile_round_trips *round_trips, __u64 microseconds)
{
	round_trips->sum += microseconds;
	round_trips->squares += microseconds * microseconds;
	round_trips->count++;
}

#endif
