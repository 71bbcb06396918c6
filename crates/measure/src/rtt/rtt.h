/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Passive round-trip times: what is kept for a flow, and what comes out. Pure, shared with user space; the algorithm is
 * in tcp.h, spin.h and request.h, and process.h puts them together. README.md beside this file says why it is so.
 */
#ifndef FATHOM_RTT_H
#define FATHOM_RTT_H

#include "../../bpf/packet_parse.h"

#define RTT_MICROSECOND 1000ULL
#define RTT_MILLISECOND 1000000ULL

/* The texts are what users see, and what `--method` takes. */
#define RTT_METHODS(X)                                                                                                 \
	X(TIMESTAMP, "timestamp")                                                                                      \
	X(SEQUENCE, "sequence")                                                                                        \
	X(HANDSHAKE, "handshake")                                                                                      \
	X(ECHO, "echo")                                                                                                \
	X(SPIN, "spin")                                                                                                \
	X(DNS, "dns")

#define X(name, text) RTT_##name,
enum rtt_method { RTT_METHODS(X) RTT_METHOD_COUNT };
#undef X

/* Why a flow was opened or closed. */
#define RTT_REASONS(X)                                                                                                 \
	X(HANDSHAKE, "handshake")                                                                                      \
	X(FIRST_PACKET, "first packet")                                                                                \
	X(FIN, "FIN")                                                                                                  \
	X(RST, "RST")                                                                                                  \
	X(REPLACED, "new handshake")                                                                                   \
	X(TIMEOUT, "timeout")                                                                                          \
	X(EVICTED, "evicted")                                                                                          \
	X(END, "end of measurement")

#define X(name, text) RTT_REASON_##name,
enum rtt_reason { RTT_REASONS(X) RTT_REASON_COUNT };
#undef X

/* Set before the programs are loaded, constant from then on. */
struct rtt_config {
	__u64 sample_interval; /* ns between the packets of a direction that are measured; 0: every one */
	__u64 expiry; /* ns after which an unanswered identifier is given up */
	__u64 seed; /* of our own hash tables */
	__u32 per_rtt; /* at most so many samples a smoothed round trip; 0: no limit */
	__u32 methods; /* set of 1 << enum rtt_method */
	__u32 slots; /* identifiers that may be pending in a direction, a power of two */
	__u32 bucket_mask; /* request buckets - 1, a power of two - 1 */
	__u8 has_near_side; /* measure towards local addresses too */
	__u8 has_tunnels; /* look into tunnels */
	__u8 has_events; /* report flows that open and close */
	__u8 has_bytes; /* keep marks, and count bytes with samples */
	__u8 has_batches; /* live, without has_bytes: samples of flows wait in struct rtt_batches */
	__u8 padding[3];
};
FATHOM_ASSERT_SIZE(struct rtt_config, 48);

/* A packet that waits for its answer. */
struct rtt_pending {
	__u64 time; /* ns */
	__u32 id; /* TSval, or the sequence number after its last byte */
	__u32 span : 20; /* sequence numbers it covers */
	__u32 burst : 12;
};
FATHOM_ASSERT_SIZE(struct rtt_pending, 16);

/* Bytes of IP, with has_bytes only: of each packet that may wait, and of the last sample of either direction. */
struct rtt_mark {
	__u64 sent; /* by the direction, up to and with the measured packet */
	union {
		__u64 answered; /* of a packet: `sent` of the last sample when it passed */
		__u64 returned; /* of a sample: by the other direction, up to and with the answer */
	};
};
FATHOM_ASSERT_SIZE(struct rtt_mark, sizeof(struct rtt_pending));

enum rtt_half_flag {
	RTT_HALF_HAS_TSVAL = 1 << 0,
	RTT_HALF_HAS_SEQ = 1 << 1,
	RTT_HALF_FIN = 1 << 2,
	RTT_HALF_IS_NEAR = 1 << 3, /* its packets go to this machine: not measured */
	RTT_HALF_SPIN = 1 << 4, /* value of the spin bit */
	RTT_HALF_HAS_SPIN = 1 << 5,
	RTT_HALF_IS_FIRST = 1 << 6, /* timestamps, met in mid-stream: one segment with data so far */
	RTT_HALF_HAS_TIMESTAMPS = 1 << 7, /* in its segments, not only in its SYN */
};

/*
 * What one end sent, and the packets of it that wait for an answer. Written by the packets of its own direction, but for
 * `oldest`, `acked`, `window` and the RTT figures, which belong to the packets of the other: two CPUs that see the two
 * directions do not write the same fields.
 */
struct rtt_half {
	__u64 packets;
	__u64 bytes; /* of IP */
	__u64 next_sample; /* ns; no packet before is measured */
	__u64 advanced; /* ns; when the last new data passed; spin: the last edge */
	__u64 smoothed; /* ns; RFC 6298 section 2 with alpha 1/8; 0: no sample yet */
	__u64 minimum; /* ns */
	__u32 retransmitted; /* packets */
	__u32 out_of_order; /* packets */
	__u32 congestion_experienced; /* packets marked CE */
	__u32 tsval; /* newest seen */
	__u32 next_seq; /* after the highest byte seen */
	__u32 acked; /* highest acknowledgement of it */
	__u16 oldest; /* the ring of pending: free-running, [oldest, newest) */
	__u16 newest;
	__u16 window; /* in the last acknowledgement of it */
	__u8 burst : 6; /* number of the present one */
	__u8 burst_left : 2; /* packets it may still take */
	__u8 flags; /* enum rtt_half_flag */
};
FATHOM_ASSERT_SIZE(struct rtt_half, 6 * 8 + 6 * 4 + 8);

enum rtt_flow_flag {
	RTT_FLOW_HAS_TIMESTAMPS = 1 << 0,
	RTT_FLOW_IS_CLOSED = 1 << 1, /* FIN both ways, or RST */
	RTT_FLOW_KNOWS_CLIENT = 1 << 2, /* QUIC: client_direction is valid */
	RTT_FLOW_AWAITS_CLIENT = 1 << 3, /* QUIC: the server's first packet waits for the client's answer */
	RTT_FLOW_DOES_NOT_SPIN = 1 << 4, /* constant or random values */
	RTT_FLOW_ARRIVES = 1 << 5, /* live: packets of direction 0 come in here; << 1: of direction 1 */
};

/*
 * Three cache lines, and all that a new flow writes. Behind it in memory: `slots` pending of direction 0, then as many of
 * direction 1. With has_bytes also the marks: of the last sample of either direction, then of all pending. With
 * has_batches struct rtt_batches follows.
 */
struct rtt_flow {
	struct rtt_half half[2]; /* by the direction of the packets */
	__u64 opened; /* ns */
	__u64 last_seen; /* ns; of the last packet that needed the clock */
	union {
		struct { /* QUIC */
			__u32 spin_loop; /* us; smoothed time between two edges of a direction */
			__u16 spin_edges;
			__u16 spin_violations; /* edges that do not fit: the server reflects, the client inverts */
			__u8 spin_score; /* edges in good order, of late */
			__u8 spin_rejected; /* edges too close to the one before, in a row */
			__u8 client_direction; /* of the client's packets */
		};
		struct { /* TCP, by direction */
			__u8 ttl[2]; /* of its last packet */
			__u8 early_deaths[2]; /* packets in a row that die early */
		};
	};
	__u8 flags; /* enum rtt_flow_flag */
	__u8 opener; /* direction of who opened it: who sent the SYN or the first Initial, else the first packet seen */
	__u8 has_batch[2]; /* a sample of this direction is in its batch, or was */
};
FATHOM_ASSERT_SIZE(struct rtt_flow, 3 * 64);

/* A request whose flow has no state of its own: a SYN, a query, an echo request, a QUIC Initial. */
struct rtt_request {
	__u64 time : 63; /* ns */
	__u64 is_spent : 1; /* answered, or ambiguous since it was retransmitted: never a sample */
	__u32 fingerprint; /* 0: empty */
	__u32 detail; /* SYN: its TTL; SYN-ACK: its TSval; query: times it was retransmitted */
};

#define RTT_BUCKET_REQUESTS 4

/* One cache line. */
struct rtt_bucket {
	struct rtt_request requests[RTT_BUCKET_REQUESTS];
};
FATHOM_ASSERT_SIZE(struct rtt_bucket, 64);

/* What is counted of our own doings; the texts are what users see. */
#define RTT_COUNTERS(X)                                                                                                \
	X(FILTERED, "packets left out by the selection")                                                               \
	X(SAMPLES, "samples")                                                                                          \
	X(SAMPLES_LOST, "samples lost: ring buffer full")                                                              \
	X(EVENTS_LOST, "flow events lost: ring buffer full")                                                           \
	X(FLOWS_OPENED, "flows opened")                                                                                \
	X(FLOWS_DELETED, "flows deleted")                                                                              \
	X(FLOWS_REFUSED, "flows refused: table full")                                                                  \
	X(PENDING_EXPIRED, "packets given up: no answer in time")                                                      \
	X(REQUESTS_DISPLACED, "requests displaced by newer ones")                                                      \
	X(WITHOUT_TIMESTAMPS, "segments without timestamps in a connection that has them")                             \
	X(DYING_EARLY, "segments with a TTL far below their connection's")

#define X(name, text) RTT_COUNT_##name,
enum rtt_counter { RTT_COUNTERS(X) RTT_COUNTER_COUNT };
#undef X

enum rtt_sample_flag {
	RTT_SAMPLE_RETRANSMITTED = 1 << 0, /* the request had been sent again: measured from the first */
	RTT_SAMPLE_IS_LOOP = 1 << 1, /* spin seen in one direction only: the whole loop, end to end */
};

struct rtt_sample {
	__u64 rtt; /* ns */
	__u64 minimum; /* ns; of this direction of the flow so far; 0: the flow has no state */
	__u64 sent; /* bytes of the direction, up to and with the measured packet; 0: not counted */
	__u64 answered; /* of these, up to and with the last packet that had given its sample by then */
	__u64 returned; /* bytes of the other direction since the last sample of this one */
	__u8 method; /* enum rtt_method */
	__u8 direction; /* of the measured packet; the RTT is towards where it went */
	__u8 flags; /* enum rtt_sample_flag */
	__u8 padding[5];
};
FATHOM_ASSERT_SIZE(struct rtt_sample, 48);

#define RTT_SAMPLES_MAX 2

enum rtt_action {
	RTT_ACTION_OPEN = 1 << 0, /* make a flow and hand it to rtt_open */
	RTT_ACTION_FORGET = 1 << 1, /* the flow of this key, if any, is another connection's */
	RTT_ACTION_CLOSED = 1 << 2, /* the flow has just closed */
};

/* What a packet gives. */
struct rtt_output {
	struct rtt_sample samples[RTT_SAMPLES_MAX];
	__u32 sample_count;
	__u32 actions; /* set of enum rtt_action */
	__u32 reason; /* enum rtt_reason, of OPEN or CLOSED */
	__u32 expired; /* pending given up */
	__u32 displaced; /* requests displaced */
	__u32 left_out; /* segments that are no part of the flow */
	__u32 left_out_as; /* enum rtt_counter, why */
	__u32 tsval; /* with OPEN after a handshake: the SYN-ACK's */
	__u8 has_tsval;
	__u8 opener; /* with OPEN: direction of who opened the flow */
	__u8 padding[6];
};

enum rtt_event_type {
	RTT_EVENT_SAMPLE,
	RTT_EVENT_OPEN,
	RTT_EVENT_CLOSE,
	RTT_EVENT_BATCH,
};

/* What goes from the kernel to user space: this, behind it for OPEN and CLOSE the totals, for BATCH the samples. */
struct rtt_event {
	struct flow_key key;
	__u64 time; /* ns */
	struct rtt_sample sample; /* OPEN, CLOSE: only the direction, of who opened the flow */
	__u8 type; /* enum rtt_event_type */
	__u8 reason; /* enum rtt_reason, of OPEN and CLOSE */
	__u8 hook; /* enum packet_hook, of the packet that ended the measurement */
	__u8 padding[1];
	__u32 slot; /* of the flow, with BATCH */
};
FATHOM_ASSERT_SIZE(struct rtt_event, 48 + 8 + 48 + 8);

/* A cache line, with the count. */
#define RTT_BATCH_SAMPLES 15
#define RTT_BATCH_SHIFT 4
#define RTT_BATCH_MASK 15

/*
 * The newest round trips of a direction, where user space wants no more of them than how long they
 * were. When they are full they go to user space together; what there is of them it reads when an
 * interval ends.
 */
struct rtt_batch {
	__u32 count; /* the batch's number in this slot, and in RTT_BATCH_SHIFT bits how many it has */
	__u32 samples[RTT_BATCH_SAMPLES]; /* ns */
};
FATHOM_ASSERT_SIZE(struct rtt_batch, 64);

/* Behind the pending of a flow, with has_batches only. */
struct rtt_batches {
	struct rtt_batch half[2]; /* by the direction that was measured */
	struct flow_key key; /* whose they are: the slot may have got another flow */
};

/* With BATCH; the event has no more than the key, the slot, the time and the direction. */
struct rtt_batch_event {
	struct rtt_event event;
	struct rtt_batch batch;
};

struct rtt_traffic {
	__u64 packets;
	__u64 bytes; /* of IP */
	__u32 retransmitted; /* packets */
	__u32 out_of_order; /* packets */
	__u32 congestion_experienced; /* packets */
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct rtt_traffic, 32);

struct rtt_flow_event {
	struct rtt_event event;
	struct rtt_traffic traffic[2]; /* by direction */
};

static __always_inline int rtt_has_method(const struct rtt_config *config, enum rtt_method method)
{
	return config->methods >> method & 1;
}

/* Is `a` after `b`, with wrap-around? */
static __always_inline int rtt_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Before each packet; what `samples` holds beyond the count does not matter. */
static __always_inline void rtt_reset(struct rtt_output *output)
{
	output->sample_count = 0;
	output->actions = 0;
	output->reason = 0;
	output->expired = 0;
	output->displaced = 0;
	output->left_out = 0;
	output->has_tsval = 0;
}

/* Packets of a direction that wait. */
static __always_inline __u16 rtt_waiting(const struct rtt_half *half)
{
	return half->newest - half->oldest;
}

static __always_inline struct rtt_sample *rtt_put_sample(struct rtt_output *output, enum rtt_method method,
							 __u8 direction, __u8 flags, __u64 rtt, __u64 minimum)
{
	/* The mask is for the verifier, which does not see that no packet gives a third. */
	struct rtt_sample *sample = &output->samples[output->sample_count & (RTT_SAMPLES_MAX - 1)];

	*sample = (struct rtt_sample){
		.rtt = rtt, .minimum = minimum, .method = method, .direction = direction, .flags = flags
	};
	output->sample_count++;
	return sample;
}

/* Packets that are no part of their flow. Returns 1. */
static __always_inline int rtt_leave_out(struct rtt_output *output, enum rtt_counter why, __u32 packets)
{
	output->left_out = packets;
	output->left_out_as = why;
	return 1;
}

/* No pause is shorter, ns. An includer that lets it change while packets pass says where it is. */
#ifndef RTT_SHORTEST_PAUSE
#define RTT_SHORTEST_PAUSE 0
#endif

/* ns from one measured packet of a direction to the next. */
static __always_inline __u64 rtt_pause(const struct rtt_half *half, const struct rtt_config *config)
{
	__u64 shortest = RTT_SHORTEST_PAUSE;
	__u64 pause = config->sample_interval;

	if (config->per_rtt && half->smoothed / config->per_rtt > pause)
		pause = half->smoothed / config->per_rtt;
	return pause > shortest ? pause : shortest;
}

/* Takes a round trip into the figures of the direction that was measured. */
static __always_inline void rtt_update(struct rtt_half *half, __u64 rtt)
{
	if (!half->smoothed) {
		half->smoothed = rtt;
		half->minimum = rtt;
		return;
	}
	half->smoothed = half->smoothed - half->smoothed / 8 + rtt / 8;
	if (rtt < half->minimum)
		half->minimum = rtt;
}

#endif
