/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Response latency from one direction: what a flow of requests remembers between packets, and what is handed on when an epoch
 * ends. Pure, shared with user space; the rules are in requests.h, gaps.h, timestamps.h, bounds.h and process.h, the ways to keep gaps in split.h, modes.h and fixed.h. Time within a flow is held in ticks, so that an epoch of ten seconds fits 32 bits.
 */
#ifndef FATHOM_RESPONSE_H
#define FATHOM_RESPONSE_H

#include "../../bpf/packet.h"
#include "../../bpf/selection.h"

#define RESPONSE_TICK_SHIFT 4 /* a tick is 16 ns */

/* How the gaps of an epoch become a latency; the texts are what users write. */
#define RESPONSE_ESTIMATORS(X)                                                                                         \
	X(TIMESTAMPS, "timestamps")                                                                                    \
	X(ACKNOWLEDGED, "acknowledged")                                                                                \
	X(SPLIT, "split")                                                                                              \
	X(MODES, "modes")                                                                                              \
	X(FIXED, "fixed")

#define X(name, text) RESPONSE_BY_##name,
enum response_estimator { RESPONSE_ESTIMATORS(X) RESPONSE_ESTIMATOR_COUNT };
#undef X

/* Which way requests go, by the order of the flow's ends; none: neither is a server that was named. */
enum response_direction { RESPONSE_DIRECTION_LOW_TO_HIGH, RESPONSE_DIRECTION_HIGH_TO_LOW, RESPONSE_DIRECTION_NONE };

struct response_config {
	__u64 seed; /* secret: of the hash that samples flows and places handshakes */
	struct selection servers; /* requests go to these networks and ports; empty: see response_find_direction */
	__u32 epoch; /* ticks */
	__u32 timeout; /* ticks, of TCP: a longer gap is a retransmission timeout, or nobody asked */
	__u32 datagram_timeout; /* the same of all else, where it is not seen that nobody asked */
	__u32 threshold; /* ticks: of the estimator `fixed` */
	__u32 sampled; /* flows whose hash is below are measured; 0: all */
	__u32 handshake_mask; /* places for handshakes, less one */
	__u8 estimator; /* enum response_estimator */
	__u8 has_tunnels; /* look into tunnels */
	__u8 padding[6];
};

/* Bins of half octaves: bin 0 is below 2^14 ns, bin 23 from 2^25 ns (33.5 ms) on. */
#define RESPONSE_BINS 24
#define RESPONSE_BINS_FROM (14 - RESPONSE_TICK_SHIFT)
/* Modes of algorithm 2. */
#define RESPONSE_MODES 10

enum response_flow_flag {
	RESPONSE_TO_LOW = 1 << 0, /* requests go from high to low */
	RESPONSE_COUNTS_FLIGHT = 1 << 1, /* nothing has come back since the flow was silent */
	RESPONSE_IS_FULL = 1 << 2, /* a counter can take no more: the epoch ends */
	RESPONSE_AFTER_FULL =
		1 << 3, /* the packet before was as long as the path allows: more of the same message follows */
	RESPONSE_IS_NEW = 1 << 4, /* a SYN came: its sequence numbers begin with the next request */
	RESPONSE_IS_USED = 1 << 5, /* the epoch has a packet */
	RESPONSE_IS_SEALED = 1 << 6, /* carries messages that are no requests, and cannot be read: TLS, QUIC, tunnels */
	RESPONSE_STARTS_OVER =
		1 << 7, /* the handshake of TLS, or what HTTP/2 begins with, came last: requests follow unasked */
	RESPONSE_HAS_LONGER = 1 << 8, /* TLS: the epoch has records that are longer than control frames */
	RESPONSE_HAS_SHORT = 1 << 9, /* TLS: the epoch has records that are as long as control frames */
	RESPONSE_IGNORES_SHORT = 1 << 10, /* TLS: these are no requests, since others are */
	RESPONSE_HAS_FLIGHT = 1 << 11, /* struct response_triggers has what was sent before a first answer */
	RESPONSE_HOLDS_BACK = 1 << 12, /* the stack of the client kept requests back, and sent them together */
	RESPONSE_HAS_TIMESTAMPS = 1 << 13, /* segments carry the option of RFC 7323 */
	RESPONSE_ARRIVES = 1 << 14, /* live: requests come in by this interface */
	RESPONSE_COMES_FAR = 1 << 15, /* its segments have TTLs that probes far below them do not have */
};

/* What the first bytes of a packet tell; see content.h. */
enum response_content {
	RESPONSE_CONTENT_CLEAR, /* nothing is known against a request */
	RESPONSE_CONTENT_GREETING, /* the handshake of TLS or QUIC, or what HTTP/2 begins with */
	RESPONSE_CONTENT_CONTROL, /* no request */
	RESPONSE_CONTENT_SEALED, /* encrypted */
	RESPONSE_CONTENT_SEALED_SHORT, /* encrypted, and as long as control frames of HTTP/2 */
};

#define RESPONSE_ECHO_SHIFT 10 /* a unit of time of echoes is 1024 ns */
#define RESPONSE_LATE_SHIFT 6 /* what may be lateness of the path is counted in so many units: 66 us */
#define RESPONSE_ECHO_DRIFT_SHIFT 13 /* clocks drift apart by 122 ppm at most */

/* What the timestamps that a client echoes tell; see timestamps.h. A lag is how long after its echo a packet came; times are in units. */
struct response_echoes {
	__u32 base_time; /* of the packet with the least lag: when it came */
	__u32 base_echo; /* and what it echoed; 0: there was none */
	__u32 tick; /* ns: how often the clock of the server ticks; 0: that is not known */
	__u32 least; /* the least lag of the epoch, above that of the base; while the clock is learnt, the ticks of its gaps */
	__s32 think; /* what lags were above that of the base: of the epoch's gaps, together */
	__u32 phases; /* what of each was less than a tick, together; while the clock is learnt, see response_seek_leasts */
	__u16 gaps; /* so many */
	__u16 late; /* what lags are that a late path may be, together, in 64 units; while the clock is learnt, how many ticks it took to find one */
	__u8 thought; /* gaps of the epoch with lags that no late path explains, 255: or more; while the clock is learnt, which one was found */
	__u8 seen; /* packets that are within a tick of the base, it included; 0: the base may be old; 255: or more */
	__u8 untold; /* gaps of the epoch that tell nothing; 255: or more; while the clock is learnt, what `seen` is if it ticks every 10 ms */
	__u8 first; /* the least lag of a request of the first epoch, above that of the base, see RESPONSE_ECHO_FIRST; and two flags */
};
FATHOM_ASSERT_SIZE(struct response_echoes, 32);

#define RESPONSE_NO_LEAST 0xffffffffU
/* Of `first`: in 2,048 units, rounded up; 0: there was none yet; all bits: or more. */
#define RESPONSE_ECHO_FIRST 0x3f
#define RESPONSE_ECHO_FIRST_SHIFT 11
/* The first epoch is over. */
#define RESPONSE_ECHO_HAS_FIRST 0x40
/* The base, or what it replaced, was the acknowledgement that ends the handshake. */
#define RESPONSE_ECHO_IS_PROMPT 0x80

/* What a flow of segments remembers. */
struct response_tcp {
	__u32 next_seq; /* behind the last byte that was sent */
	__u32 data_ack; /* what the last packet with data acknowledged */
	__u32 pure_age; /* ticks from `last` to the packet without data that acknowledged `pure_ack`; 0: there was none */
	__u16 pure_ack; /* the lower half */
	__u16 handshake; /* 8 us; from the SYN to what answered the SYN-ACK; 0: not seen */
	__u16 causal; /* gaps that ended with a packet that a response triggered */
	__u16 early; /* of these, shorter than a round trip */
	__u16 floor; /* 8 us; the shortest of the handshake and the causal gaps; 0: no handshake was seen */
	__u16 at_least; /* 8 us; so long, at least, will the wait have been that began at `last`; see bounds.h */
	__u32 low; /* ticks: the same of the gaps that count, together */
	__u32 open; /* ticks: gaps that count, of a batch that has no answer yet */
	__u32 silent; /* ticks: of the gaps that count, the time after the client had told that it had its answer */
	struct response_echoes echoes;
};

/* Payloads in steps of 16 bytes: the first below 48, the last from 144 on. */
#define RESPONSE_SIZES 8
#define RESPONSE_SIZES_FROM 32
#define RESPONSE_SIZE_SHIFT 4

/* What a flow of datagrams that cannot be read remembers. */
struct response_sizes {
	__u16 counts[RESPONSE_SIZES]; /* of the epoch's payloads */
	__u16 bound; /* bytes: shorter payloads are no requests */
	__u16 padding;
};

union response_state {
	struct response_tcp tcp;
	struct response_sizes sizes; /* of all else */
};

/* A flow of requests. The state of the estimator follows it. */
struct response_flow {
	__u64 last; /* ns: when the last packet that counts passed */
	__u32 age; /* ticks from the begin of the epoch to `last` */
	__u32 retained; /* ticks: the gaps that count, together, but what was thought; wraps around below zero */
	__u32 sent; /* bytes of the packets that ended them */
	union response_state state;
	__u16 flight; /* bytes so far, while what is sent before the first answer is counted; then, what that answer triggered */
	__u8 flight_packets; /* of these, without those that go on with the message before; then, 0: the second answer came */
	__u8 repeated; /* packets that were sent before: retransmissions, and what arrived out of order; 255: or more */
	__u8 timeouts; /* gaps that do not count: longer than a timeout; 255: or more */
	__u8 idle; /* gaps that do not count: the client had its answer and was silent; 255: or more */
	__u16 flags; /* enum response_flow_flag */
};
FATHOM_ASSERT_SIZE(struct response_flow, 96);

/* `split`, and `acknowledged` of all but TCP. */
struct response_bins {
	__u16 counts[RESPONSE_BINS];
};
FATHOM_ASSERT_SIZE(struct response_bins, 48);

/* The first of the same bins; the last of them has all that is longer. */
#define RESPONSE_TRIGGER_BINS 20

/*
 * `acknowledged`, of TCP. How much is sent before a first answer is counted after each silence of the client; two in a row that are the same
 * replace what was known.
 */
struct response_triggers {
	__u16 count; /* gaps that count */
	__u16 known; /* bytes */
	__u16 latest; /* bytes */
	__u8 known_packets;
	__u8 latest_packets;
	__u16 causal
		[RESPONSE_TRIGGER_BINS]; /* gaps that ended with a packet that a response triggered, once there were others */
};
FATHOM_ASSERT_SIZE(struct response_triggers, 48);

struct response_mode {
	__u32 minimum; /* ticks */
	__u32 maximum;
	__u32 sum;
	__u16 count; /* 0: unused */
	__u16 candidates; /* of these, gaps after a packet that was not full */
};

/* `modes`. */
struct response_modes {
	struct response_mode modes[RESPONSE_MODES]; /* ascending, the unused ones last */
	__u32 discarded; /* gaps for which there was no mode */
	__u32 discarded_time; /* ticks */
};
FATHOM_ASSERT_SIZE(struct response_modes, 168);

/* `fixed`. */
struct response_batches {
	__u32 age; /* ticks since the last batch began, at the flow's `last` */
	__u32 sum; /* ticks: all samples */
	__u32 count;
	__u32 has_batch; /* `age` is valid */
};
FATHOM_ASSERT_SIZE(struct response_batches, 16);

union response_gaps {
	struct response_bins bins;
	struct response_triggers triggers;
	struct response_modes modes;
	struct response_batches batches;
};

/* An epoch that is over. */
struct response_epoch {
	struct flow_key key;
	__u64 begin; /* ns */
	__u64 end; /* ns */
	struct response_flow flow;
	union response_gaps gaps;
	__u32 slot; /* live: of the flow, in the table of flows */
	__u32 padding;
};

/* What is counted besides packets by verdict; the texts are what users see. */
#define RESPONSE_COUNTERS(X)                                                                                           \
	X(EPOCHS, "epochs")                                                                                            \
	X(FILTERED, "filtered out")                                                                                    \
	X(NOT_SAMPLED, "not among the sampled flows")                                                                  \
	X(UNDIRECTED, "neither end is a server")                                                                       \
	X(FLOWS_OPENED, "flows opened")                                                                                \
	X(FLOWS_DELETED, "flows forgotten: idle")                                                                      \
	X(FLOWS_REFUSED, "flows not opened: table busy")                                                               \
	X(EPOCHS_LOST, "epochs lost: ring buffer full")                                                                \
	X(WITHOUT_TIMESTAMPS, "segments without timestamps in a connection that has them")                             \
	X(DYING_EARLY, "segments with a TTL far below their connection's")

#define X(name, text) RESPONSE_COUNT_##name,
enum response_counter { RESPONSE_COUNTERS(X) RESPONSE_COUNTER_COUNT };
#undef X

/* A handshake on its way, or just over: where flows that begin find how far their server is. */
struct response_handshake {
	__u32 tag; /* of the hash; 0: unused */
	__u32 time; /* ticks: when the SYN passed; once it is over, how long it took */
	__u32 acked; /* when it was over, and what timestamp was echoed then, as struct response_echoes has it */
	__u32 echo;
};
FATHOM_ASSERT_SIZE(struct response_handshake, 16);

/* `timestamps` adds to what `acknowledged` does. */
static __always_inline int response_keeps_triggers(const struct response_config *config)
{
	return config->estimator == RESPONSE_BY_TIMESTAMPS || config->estimator == RESPONSE_BY_ACKNOWLEDGED;
}

/* The top bits of a tag: the handshake is over; its SYN went to the low end of the key. */
#define RESPONSE_HANDSHAKE_IS_OVER 0x80000000U
#define RESPONSE_HANDSHAKE_TO_LOW 0x40000000U

/*
 * Packets of a flow may be on several processors, which read the clock one after the other and come to the flow in another order. So far may
 * time go back within a flow, in ns; further back, it is another clock: that of another capture file.
 */
#define RESPONSE_DISORDER 1000000000U

/* In ticks, 34 s at most; 0 where time went back. Both are cut before they are subtracted, so that gaps add up to the time that they span. */
static __always_inline __u32 response_since(__u64 earlier, __u64 now)
{
	__s64 ticks = (now >> RESPONSE_TICK_SHIFT) - (earlier >> RESPONSE_TICK_SHIFT);

	if (ticks < 0)
		return 0;
	return ticks > 0x7fffffff ? 0x7fffffff : ticks;
}

/* A packet that counts passed: of those whose times go back, the latest time stays. */
static __always_inline void response_advance(struct response_flow *flow, __u64 now)
{
	if (flow->last - now > RESPONSE_DISORDER) /* wrapped around: `now` is later */
		flow->last = now;
}

static __always_inline int response_is_tcp(const struct packet *packet)
{
	return packet->kind == PACKET_KIND_TCP;
}

#endif
